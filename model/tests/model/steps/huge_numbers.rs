//! Numbers that nobody checks before they reach the model: those of statuses, scrapes and checkpoints. In
//! the release build of the model, an overflow panics.

use loopwatch_model::checkpoint::{Checkpoint, FinalizerMemory};
use loopwatch_model::observation::{ControllerView, Framework, MetricsView, Observation};
use loopwatch_model::time::Span;

use crate::lab::pods::INSTANCE;
use crate::lab::{GROUP, Lab, Widget, count, kind, unlearned};

#[test]
fn counts_of_replicas_add_up_to_at_most_the_largest_number() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    let mut view = lab.view(widget.observe());
    view.facts = ["allocatedReplicas", "reservedReplicas", "standby", "readyReplicas", "replicas"]
        .map(|name| count(&format!("status.{name}"), i64::MAX))
        .to_vec();
    view.facts.push(count("spec.replicas", 1));

    lab.apply_view(view);
    assert_eq!(lab.snapshot().findings, []);
}

#[test]
fn a_generation_may_be_the_largest_number() {
    let mut lab = Lab::new();
    let mut widget = Widget::new("web", lab.now);
    for generation in [1, i64::MAX, i64::MAX] {
        let mut view = lab.view(widget.touch_status());
        view.generation = generation;
        lab.list_views(vec![view]);
    }
}

#[test]
fn counters_may_grow_by_any_number_between_two_scrapes() {
    for step in [u64::MAX / 20, u64::MAX / 100, u64::MAX / 1_000, u64::MAX / 10_000] {
        let mut lab = Lab::with(unlearned());
        lab.converged("web");
        for scrape in 0..60_u64 {
            let total = step.saturating_mul(scrape);
            let all = |code: &str| vec![(code.to_owned(), total)];
            let controller = |name: &str| ControllerView {
                name: name.into(),
                succeeded: Some(total),
                failed: Some(total),
                requeued: Some(total),
                queue_depth: Some(u64::MAX),
                ..ControllerView::default()
            };
            let view = |instance: &str| MetricsView {
                instance: instance.into(),
                framework: Framework::ControllerRuntime,
                controllers: vec![controller("widget"), controller("gadget")],
                requests: [all("200"), all("500"), all("409")].concat(),
                writes: [all("PUT"), all("PATCH")].concat(),
                ..MetricsView::default()
            };

            lab.advance(Span::secs(15));
            lab.scraped(view(INSTANCE));
            lab.scraped(view("ops/other-pod"));
        }
    }
}

#[test]
fn a_checkpoint_may_contain_any_number() {
    let removers = [("one", u32::MAX), ("two", u32::MAX), ("three", 1)];
    let memory = FinalizerMemory {
        removals: vec![u64::MAX; 100],
        removers: removers.map(|(name, count)| (name.to_owned(), count)).into(),
    };
    let kind_name = format!("{GROUP}/Widget");
    let checkpoint = Checkpoint {
        learned: [(kind_name.clone(), vec![u64::MAX; 100])].into(),
        finalizers: [(format!("{kind_name} example.io/cleanup"), memory)].into(),
        ..Checkpoint::default()
    };

    let mut lab = Lab::new();
    lab.observe(Observation::Restored(Box::new(checkpoint)));
    lab.discover(&[kind()]);
    let mut widget = Widget::new("web", lab.now);
    widget.finalizers = vec!["example.io/cleanup".to_owned()];
    lab.list(std::slice::from_ref(&widget));
    lab.begin_deletion(&mut widget);
    lab.advance(Span::hours(2));
    assert!(!lab.snapshot().findings.is_empty());
}
