//! How soon findings open, and how long they last.

use loopwatch_model::finding::FindingCode;
use loopwatch_model::histogram::Histogram;
use loopwatch_model::time::Span;

use crate::lab::Lab;

/// Returns the number of values in a histogram, and the first bound that all of them respect.
fn within(histogram: &Histogram) -> (u64, f64) {
    let count = histogram.buckets().map(|(_, count)| count).max().unwrap_or_default();
    let bound = histogram.buckets().find(|(_, within)| *within == count).map(|(bound, _)| bound);
    (count, bound.unwrap_or_default())
}

#[test]
fn a_finding_counts_when_it_opens_and_when_it_closes() {
    let (mut lab, mut widget) = Lab::unacknowledged();
    let times = &lab.snapshot().finding_times[&FindingCode::Unacknowledged];
    assert_eq!(within(&times.found), (1, 900.0), "the deadline of ten minutes");
    assert_eq!(within(&times.lasted).0, 0);

    lab.advance(Span::mins(40));
    lab.apply(widget.ready());
    let times = &lab.snapshot().finding_times[&FindingCode::Unacknowledged];
    assert_eq!(within(&times.found).0, 1);
    assert_eq!(within(&times.lasted), (1, 3_600.0), "51 minutes");
    assert_eq!(lab.snapshot().finding_times.len(), 1, "no other finding has opened");
}
