//! Collects the pause switches of an object, and keeps the most specific one.

use loopwatch_model::observation::Pause;

/// The kinds of places with a switch, the most specific first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SwitchSource {
    /// A field of the spec, by its path.
    Field,
    Annotation,
    Label,
}

/// The most specific switch so far. The order in which the walk finds switches does not matter.
#[derive(Default)]
pub(super) struct Switches(Option<(SwitchSource, String)>);

impl Switches {
    pub(super) fn add(&mut self, source: SwitchSource, name: &str) {
        let better =
            self.0.as_ref().is_none_or(|(best, kept)| (source, name) < (*best, kept.as_str()));
        if better {
            self.0 = Some((source, name.to_owned()));
        }
    }

    pub(super) fn into_pause(self) -> Option<Pause> {
        self.0.map(|(source, name)| Pause {
            by: match source {
                SwitchSource::Field => name,
                SwitchSource::Annotation => format!("annotation {name}"),
                SwitchSource::Label => format!("label {name}"),
            },
        })
    }
}
