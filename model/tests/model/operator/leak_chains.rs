//! The chain of a leak, finalizers that stay, and objects in deletion: the fault, its healthy twins, and near
//! misses.

use loopwatch_model::finding::{Confidence, FindingCode};
use loopwatch_model::time::Span;

use crate::lab::Widget;
use crate::lab::process::Process;

/// An operator with six objects.
struct Operator {
    process: Process,
    widgets: Vec<Widget>,
    mib: f64,
}

impl Operator {
    fn new() -> Self {
        let mut process = Process::new();
        let widgets = (0..6).map(|number| process.lab.converged(&format!("web-{number}")));
        let widgets = widgets.collect();
        process.heap(6.0, |_| 40.0);
        Self { process, widgets, mib: 40.0 }
    }

    /// Deletes an object. Its finalizer stays.
    fn delete(&mut self, number: usize) {
        let widget = &mut self.widgets[number];
        widget.finalizers = vec!["example.io/cleanup".into()];
        widget.deleted = Some(self.process.lab.now);
        self.process.lab.apply(&*widget);
    }

    /// Runs while the memory grows by as much per hour.
    fn run(&mut self, hours: f64, per_hour: f64) {
        let from = self.mib;
        self.process.heap(hours, |t| from + per_hour * t);
        self.mib += per_hour * hours;
    }

    fn has(&self, code: FindingCode) -> bool {
        self.process.finding(code).is_some()
    }
}

#[test]
fn a_leak_with_objects_that_stay_in_deletion_is_one_chain() {
    let mut operator = Operator::new();
    for number in 0..4 {
        operator.delete(number);
        operator.run(0.5, 24.0);
    }
    operator.run(0.5, 24.0);

    let chain = operator.process.finding(FindingCode::LeakChain).expect("a chain");
    let openings = operator.process.lab.changes();
    let openings = openings.iter().filter(|change| change.contains("LeakChain")).count();
    assert_eq!(openings, 1, "a scrape neither closes nor opens it");
    assert_eq!(chain.confidence, Confidence::Confirmed);
    let summary = chain.summary();
    assert!(summary.contains("objects 4") || summary.contains("objects 3"), "{summary}");
    assert!(summary.contains("Widget"), "{summary}");

    let findings = operator.process.lab.snapshot().findings;
    for finding in findings {
        let is_symptom =
            matches!(finding.code, FindingCode::HeapLeak | FindingCode::FinalizerStuck);
        assert!(!is_symptom || finding.explained_by.is_some(), "{}", finding.summary());
    }

    // The operator removes the finalizers.
    for number in 0..4 {
        operator.widgets[number].finalizers.clear();
        operator.process.lab.delete(&operator.widgets[number]);
    }
    operator.run(0.1, 24.0);
    assert!(!operator.has(FindingCode::LeakChain));
    assert!(operator.has(FindingCode::HeapLeak), "the memory still grows");
}

#[test]
fn objects_that_were_deleted_at_once_beside_a_leak_are_two_problems() {
    let mut operator = Operator::new();
    (0..5).for_each(|number| operator.delete(number));
    operator.run(2.5, 24.0);

    assert!(operator.has(FindingCode::HeapLeak) && operator.has(FindingCode::FinalizerStuck));
    assert!(!operator.has(FindingCode::LeakChain));
}

#[test]
fn two_stuck_objects_or_old_ones_or_steady_memory_are_no_chain() {
    let mut few = Operator::new();
    for number in 0..2 {
        few.delete(number);
        few.run(1.0, 24.0);
    }
    assert!(few.has(FindingCode::HeapLeak) && !few.has(FindingCode::LeakChain));

    let mut old = Operator::new();
    for number in 0..4 {
        old.delete(number);
        old.run(0.5, 0.0);
    }
    assert!(!old.has(FindingCode::LeakChain), "the memory does not grow");
    old.process.lab.advance(Span::hours(2));
    old.run(4.0, 0.0);
    old.run(2.5, 24.0);
    assert!(old.has(FindingCode::HeapLeak) && !old.has(FindingCode::LeakChain));
}
