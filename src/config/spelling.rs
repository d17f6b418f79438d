//! Finds misspelt keys in the configuration file.

/// Lowest Jaro-Winkler similarity at which loopwatch suggests a known name for an unknown one.
const SIMILAR: f64 = 0.8;

/// The problem with a key that is not among the known ones.
pub(super) fn unknown(name: &str, known: impl Iterator<Item = String>) -> String {
    let known: Vec<String> = known.collect();
    let similarity = |candidate: &String| strsim::jaro_winkler(name, candidate);
    let nearest = known.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));

    match nearest.filter(|nearest| similarity(nearest) >= SIMILAR) {
        Some(nearest) => format!("unknown key {name:?}; did you mean {nearest:?}?"),
        None => format!("unknown key {name:?}; valid keys are {}", known.join(", ")),
    }
}
