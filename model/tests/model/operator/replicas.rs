//! Which replica of an operator is judged by its control loops.

use loopwatch_model::observation::{
    ControllerView, LeaseView, MetricsView, Observation, ProcessView,
};
use loopwatch_model::time::Span;

use crate::lab::pods::{INSTANCE, OTHER, OTHER_POD, Op, POD, pod};
use crate::lab::{Lab, START};

#[test]
fn a_standby_that_takes_over_has_time_to_fill_its_caches() {
    let (mut lab, started) = (Lab::new(), START);
    let run = |lab: &mut Lab, seconds: i64, leads: bool, succeeded: u64| {
        for _ in 0..seconds / 10 {
            lab.advance(Span::secs(10));
            let controller = ControllerView {
                name: "widget".into(),
                succeeded: Some(succeeded),
                queue_depth: Some(if leads { 40 } else { 0 }),
                ..ControllerView::default()
            };

            lab.scraped(MetricsView {
                instance: INSTANCE.into(),
                controllers: vec![controller],
                leading: Some(leads),
                process: ProcessView { started: Some(started), ..ProcessView::default() },
                ..MetricsView::default()
            });
        }
    };

    run(&mut lab, 3_600, false, 0);
    run(&mut lab, 300, true, 0);
    lab.assert_no_findings();
    run(&mut lab, 100, true, 0);

    assert!(lab.has("InformerNotSynced"));

    run(&mut lab, 10, true, 1);
    lab.assert_no_findings();
}

#[test]
fn only_the_leader_is_judged() {
    let scrape = |lab: &mut Lab, instance: &str, leading: Option<bool>, depth: u64| {
        let controller = ControllerView {
            name: "widget".into(),
            queue_depth: Some(depth),
            ..ControllerView::default()
        };
        let controllers = vec![controller];

        lab.scraped(MetricsView {
            instance: instance.into(),
            controllers,
            leading,
            ..MetricsView::default()
        });
    };

    // (what the first and the second instance say, the holder of the lease, whether the first one
    // counts)
    let cases = [
        (Some(true), Some(false), None, true),
        (Some(false), Some(true), None, false),
        (Some(false), Some(false), None, false),
        (None, None, Some(POD), true),
        (None, None, Some(OTHER_POD), false),
        (None, None, None, true),
    ];

    for (first, second, holder, counts) in cases {
        let mut lab = Lab::new();
        let mut op = Op::running(&lab);
        op.view.pods.push(pod(OTHER_POD, lab.ago(Span::hours(1))));
        op.seen(&mut lab);

        for _ in 0..30 {
            lab.advance(Span::secs(10));
            holder.into_iter().for_each(|holder| lab.renew(holder));
            scrape(&mut lab, INSTANCE, first, 600);
            scrape(&mut lab, OTHER, second, 0);
        }

        assert_eq!(
            lab.has("QueueBacklog"),
            counts,
            "{first:?} {second:?} {holder:?}: {:?}",
            lab.findings()
        );
    }
}

#[test]
fn a_standby_is_not_judged_although_its_leader_is_not_scraped() {
    // A sidecar scrapes only its own Pod. The queue of a standby may fill, because its handlers run
    // already.
    for (holder, renews, judged) in
        [(OTHER_POD, true, false), (POD, true, true), (OTHER_POD, false, true)]
    {
        let mut lab = Lab::new();
        let mut op = Op::running(&lab);
        op.view.pods.push(pod(OTHER_POD, lab.ago(Span::hours(1))));
        op.seen(&mut lab);
        lab.renew(OTHER_POD); // a lease that nobody renews any more shows nothing
        lab.advance(Span::mins(10));

        for _ in 0..30 {
            lab.advance(Span::secs(10));
            if renews {
                lab.renew(holder);
            }

            let queue_depth = Some(600);
            lab.scrape(
                INSTANCE,
                ControllerView { name: "widget".into(), queue_depth, ..ControllerView::default() },
            );
        }

        assert_eq!(lab.has("QueueBacklog"), judged, "{holder} {renews}: {:?}", lab.findings());
    }
}

#[test]
fn a_pod_that_holds_one_of_several_leases_is_judged_all_the_time() {
    let mut lab = Lab::new();
    let mut op = Op::running(&lab);
    op.view.pods.push(pod(OTHER_POD, lab.ago(Span::hours(1))));
    op.seen(&mut lab);

    for turn in 0..60 {
        let leases = [("a.example.io", POD, INSTANCE, 600), ("b.example.io", OTHER_POD, OTHER, 0)];
        for (name, holder, instance, depth) in leases {
            lab.advance(Span::secs(5));
            lab.observe(Observation::LeaseSeen(LeaseView {
                namespace: "ops".into(),
                name: name.into(),
                holder: format!("{holder}_1"),
                renewed: Some(lab.now),
                written: Some(lab.now),
                ..LeaseView::default()
            }));

            let controller = ControllerView {
                name: name.into(),
                queue_depth: Some(depth),
                ..ControllerView::default()
            };

            lab.scrape(instance, controller);
            assert_eq!(lab.has("QueueBacklog"), turn > 11, "{turn}");
        }
    }
}
