//! Finds the name that a misspelt key or flag probably means.

/// Lowest Jaro-Winkler similarity at which loopwatch suggests a known name for an unknown one.
const SIMILAR: f64 = 0.8;

/// The known name that is most similar to this one, if any is similar.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let similarity = |candidate: &str| strsim::jaro_winkler(name, candidate);
    known
        .max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
        .filter(|nearest| similarity(nearest) >= SIMILAR)
}

/// The problem with a key that is not among the known ones.
pub(super) fn unknown(name: &str, known: impl Iterator<Item = String>) -> String {
    let known: Vec<String> = known.collect();
    match nearest(name, known.iter().map(String::as_str)) {
        Some(nearest) => format!("unknown key {name:?}; did you mean {nearest:?}?"),
        None => format!("unknown key {name:?}; valid keys are {}", known.join(", ")),
    }
}
