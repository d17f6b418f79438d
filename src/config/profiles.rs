//! The flags about profiles of the operator.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use loopwatch_model::time::Span;

use super::one_of;
use crate::sources::operator::{PprofUrl, ProfileOptions};

/// How to take profiles of the operator.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Profiling")]
pub(crate) struct ProfileFlags {
    /// Profiles of the operator: two on suspicion of a leak (auto), or none (off)
    #[arg(long, value_name = "auto|off", default_value = "auto", value_parser = profiles)]
    pub profiles: ProfileSelection,
    /// pprof of the operator, on loopback or an address of this Pod [default: found on the usual
    /// ports]
    #[arg(long, value_name = "URL")]
    pub pprof: Option<PprofUrl>,
    /// Directory for the last profiles [default: /profiles, if it exists]
    #[arg(long, value_name = "DIR")]
    pub profile_dir: Option<PathBuf>,
    /// Time between the two profiles, instead of the usual minutes. Only tests need it.
    #[arg(long, value_name = "DURATION", value_parser = Span::parse, hide = true)]
    pub profile_wait: Option<Span>,
}

/// Which profiles to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProfileSelection {
    /// Those that the model requests.
    #[default]
    Auto,
    Off,
}

impl ProfileFlags {
    /// The options of the source.
    #[must_use]
    pub(crate) fn options(&self) -> ProfileOptions {
        ProfileOptions {
            off: self.profiles == ProfileSelection::Off,
            url: self.pprof.clone(),
            dir: self.profile_dir.clone(),
            wait: self.profile_wait.map(|wait| Duration::from_millis(wait.0.unsigned_abs())),
        }
    }
}

fn profiles(text: &str) -> Result<ProfileSelection, String> {
    one_of(text, &[("auto", ProfileSelection::Auto), ("off", ProfileSelection::Off)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, keys};

    fn options(arguments: &[&str]) -> Result<ProfileOptions, String> {
        let matches = keys().try_get_matches_from(arguments).map_err(|error| error.to_string())?;
        let flags = <Flags as clap::FromArgMatches>::from_arg_matches(&matches)
            .map_err(|error| error.to_string())?;
        Ok(flags.profiles.options())
    }

    #[test]
    fn profiles_are_taken_unless_the_user_says_otherwise() {
        assert_eq!(options(&[]), Ok(ProfileOptions::default()));

        let chosen = options(&[
            "--profiles=off",
            "--pprof=http://localhost:6060",
            "--profile-dir=/data",
            "--profile-wait=2s",
        ]);

        let expected = ProfileOptions {
            off: true,
            url: "http://localhost:6060".parse().ok(),
            dir: Some(PathBuf::from("/data")),
            wait: Some(Duration::from_secs(2)),
        };

        assert_eq!(chosen, Ok(expected));

        for (argument, expected) in [
            ("--profiles=yes", "expected auto or off"),
            ("--pprof=http://example.io", "IP address"),
        ] {
            assert!(
                options(&[argument]).is_err_and(|error| error.contains(expected)),
                "{argument}"
            );
        }
    }
}
