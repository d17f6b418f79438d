//! Lists whose texts are too long together.

/// Returns how many of the first items are no longer than `most` together, if not all are.
pub(crate) fn fitting<T>(items: &[T], most: usize, length: impl Fn(&T) -> usize) -> Option<usize> {
    let mut total = 0;
    items.iter().position(|item| {
        total += length(item);
        total > most
    })
}

/// Drops the items that do not fit. Returns whether there are any.
pub(crate) fn cut<T>(items: &mut Vec<T>, most: usize, length: impl Fn(&T) -> usize) -> bool {
    let fits = fitting(items, most, length);
    items.truncate(fits.unwrap_or(items.len()));
    fits.is_some()
}
