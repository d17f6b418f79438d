//! Finds the name that a misspelt key or flag probably means.

/// Lowest Jaro-Winkler similarity at which loopwatch suggests a known name for an unknown one.
const SIMILAR: f64 = 0.8;

/// Length in bytes below which two wrong letters can make another word.
const SHORT: usize = 6;

/// The known name from which this one differs by one or two letters that are wrong, missing, too many or
/// swapped.
pub(super) fn slip_of<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let slips = |candidate: &str| strsim::damerau_levenshtein(name, candidate);
    let few = if name.len() < SHORT { 1 } else { 2 };
    known
        .map(|candidate| (slips(candidate), candidate))
        .min_by_key(|(slips, _)| *slips)
        .filter(|(slips, _)| *slips <= few)
        .map(|(_, candidate)| candidate)
}

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
