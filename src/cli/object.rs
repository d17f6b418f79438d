//! The arguments that name one object.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::USAGE;
use crate::export::view::LookupError;
use crate::sources::survey::KindNameError;

/// The object that a command is about: `KIND NAME` or `KIND/NAME`.
#[derive(Args, Debug)]
pub(super) struct ObjectArgs {
    /// Kind, in any form that kubectl accepts: widgets, widget, Widget, a short name (not with --from),
    /// widgets.example.io; or KIND/NAME
    #[arg(value_name = "KIND", value_parser = NonEmptyStringValueParser::new())]
    kind: String,
    /// Name of the object
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
}

impl ObjectArgs {
    /// The kind and the name; `None` without a name.
    pub(super) fn kind_and_name(&self) -> Option<(&str, &str)> {
        match (&self.name, self.kind.split_once('/')) {
            (Some(name), _) => Some((&self.kind, name)),
            (None, Some((kind, name))) if !kind.is_empty() && !name.is_empty() => {
                Some((kind, name))
            }
            (None, _) => None,
        }
    }

    /// Adds to an error about an unknown kind that the arguments may name two objects.
    pub(super) fn with_advice(&self, error: anyhow::Error) -> anyhow::Error {
        let is_unknown = matches!(
            error.downcast_ref(),
            Some(LookupError::NoKind { .. } | LookupError::NotInFile { .. })
        ) || matches!(error.downcast_ref(), Some(KindNameError::Unknown { .. }));

        match &self.name {
            Some(name) if is_unknown && self.kind.contains('/') => anyhow::anyhow!(
                "{error}; if {} names an object, leave out {name}: this command is about one object",
                self.kind
            ),
            _ => error,
        }
    }
}

/// Reports that a command needs an object name, and returns the exit code.
pub(super) fn refuse_without_name(command: &str) -> u8 {
    super::print_error(&format!(
        "{command} needs the name of the object: KIND NAME, or KIND/NAME; see `loopwatch {command} --help`"
    ));
    USAGE
}
