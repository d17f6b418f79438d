//! The parser of the configuration file, for the fuzz targets.

use loopwatch_model::settings::Settings;

use super::file::{Author, File};

/// The values of flags, by their long names.
pub type FlagValues = Vec<(String, Vec<String>)>;

/// Parses the text of a file of a user or of a Pod. Returns the settings, the values of flags, and
/// the problems.
#[must_use]
pub fn config_file(text: &str, in_pod: bool) -> (Settings, FlagValues, Vec<String>) {
    let author = if in_pod { Author::Cluster } else { Author::User };
    let (File { values, settings, .. }, problems) = File::parse(text, author);
    (settings, values.into_iter().collect(), problems)
}
