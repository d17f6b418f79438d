//! The text of an operator's metrics.

use loopwatch::sources::operator::intake;
use loopwatch_model::observation::{MAX_CODES, MAX_CONTROLLERS, Observation};

use crate::limits::{bounded, is_plain};
use crate::recordings::check_recorded;
use crate::world::{check_outputs, model};

/// The input is the size of chunks, and a text.
pub(crate) fn scrape(input: &[u8]) {
    let [size, text @ ..] = input else { return };
    let size = usize::from(*size) + 1;
    let view = bounded(text, 64 << 10, 64, || intake::read([text]));
    assert_eq!(view.is_some(), intake::read(text.chunks(size)).is_some());

    let Some(mut view) = view else { return };
    assert_eq!(Some(&view), intake::read(text.chunks(size)).as_ref(), "in chunks of {size}");

    let lines = text.split(|byte| *byte == b'\n').count() as u64;
    assert!(view.series + view.lines_skipped <= lines && view.bytes == text.len() as u64);
    assert!(view.controllers.len() <= MAX_CONTROLLERS && view.requests.len() <= MAX_CODES);
    assert!(is_plain(&view.problem), "{:?}", view.problem);

    view.instance = "team-a/operator-0".to_owned();
    view.process.instance.clone_from(&view.instance);
    check_recorded(Observation::MetricsScraped(Box::new(view.clone())));
    check_outputs(model([Observation::MetricsScraped(Box::new(view))]));
}
