//! Lists, and the order of events: neither decides a verdict.

use loopwatch_model::observation::*;
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{ObjectState, Outcome};
use loopwatch_model::time::Span;

use crate::lab::{Lab, START, Widget, kind, namespaced, unlearned, watch};

#[test]
fn objects_that_a_list_no_longer_contains_end_their_obligations_as_deleted() {
    let mut lab = Lab::new();
    let mut widgets: Vec<Widget> = ["a", "b"].map(|name| lab.converged(name)).into();
    widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(2, lab.now)));
    lab.list(&widgets[..1]);

    assert_eq!((lab.outcomes(Outcome::Deleted), lab.outcomes(Outcome::Late)), (1, 0));
    assert_eq!(lab.kind().states().iter().sum::<u64>(), 1);
    assert_eq!(lab.state("a"), ObjectState::Progressing);
}

#[test]
fn a_list_removes_only_objects_of_its_own_watch() {
    let watched: Vec<WatchedKind> =
        (0..40).map(|number| namespaced(&format!("team-{number}"))).collect();
    let mut lab = Lab::unsynced(Settings::default());
    lab.discover(&watched);

    for (number, watched) in watched.iter().enumerate() {
        let mut views = Vec::new();
        for name in 0..50 {
            let mut view = lab.view(Widget::new(&format!("w{name}"), START).ready());
            view.key.namespace = format!("team-{number}");
            view.uid = format!("{number}-{name}");
            views.push(view);
        }

        lab.list_in(&watched.watch, views);
    }

    assert_eq!(lab.model.objects(), 2_000);

    for (number, watched) in watched.iter().enumerate() {
        lab.list_in(&watched.watch, Vec::new());
        assert_eq!(lab.model.objects(), 2_000 - 50 * (number + 1));
    }

    assert!(lab.snapshot().dropped.is_empty());
}

#[test]
fn the_order_of_a_list_does_not_matter() {
    let judge = |names: [&str; 4]| {
        let mut lab = Lab::unsynced(unlearned());
        let old = lab.ago(Span::hours(5));
        let widgets = names.map(|name| {
            let mut widget = Widget::new(name, old);
            if name != "bare" {
                widget.ready();
            }

            widget
        });

        lab.list(&widgets);
        lab.advance(Span::hours(1));
        lab.findings()
    };
    assert_eq!(judge(["bare", "x", "y", "z"]), judge(["x", "y", "z", "bare"]));
}

#[test]
fn no_order_of_a_list_with_all_sorts_of_objects_matters() {
    let judge = |order: [usize; 7]| {
        let mut lab = Lab::unsynced(unlearned());
        let (old, lost) = (lab.ago(Span::hours(500)), lab.ago(Span::hours(20)));
        let mut widgets: Vec<Widget> =
            (0..7).map(|number| Widget::new(&format!("w{number}"), old)).collect();

        for widget in &mut widgets[1..] {
            widget.ready();
        }

        widgets[2].failed("QuotaExceeded").changed = Some(lost);
        widgets[3].waiting().changed = Some(lost);
        widgets[4].spec(2, lost);
        widgets[5].deleted = Some(lost);
        widgets[5].finalizers = vec!["example.io/f".into()];
        widgets[6].waiting().phase("Restoring");
        lab.list(&order.map(|number| widgets[number].clone()));

        let shown = |lab: &Lab| {
            let findings = lab.snapshot().findings;
            findings
                .iter()
                .map(|f| format!("{:?} {} {}", f.code, f.subject, f.since))
                .collect::<Vec<_>>()
        };

        let at_once = shown(&lab);
        lab.advance(Span::hours(1));
        (at_once, shown(&lab), lab.kind().states())
    };

    let first = judge([0, 1, 2, 3, 4, 5, 6]);
    assert!(first.0.len() > 4, "{first:#?}");

    for order in [[6, 5, 4, 3, 2, 1, 0], [1, 2, 0, 6, 3, 5, 4], [4, 0, 6, 2, 5, 3, 1]] {
        assert_eq!(judge(order), first, "{order:?}");
    }
}

#[test]
fn an_older_version_that_arrives_after_a_newer_one_is_no_regression() {
    let mut lab = Lab::new();
    let mut service = lab.converged("service");
    lab.advance(Span::hours(1));

    let older = lab.view(service.waiting());
    let newer = lab.view(service.ready());
    lab.apply_view(newer);
    lab.apply_view(older); // from the connection before, which was slow to end
    lab.advance(Span::hours(1));
    lab.assert_no_findings();

    assert_eq!(lab.state("service"), ObjectState::Converged);
}

#[test]
fn a_deletion_that_is_older_than_the_object_is_that_of_its_predecessor() {
    let mut lab = Lab::new();
    let old = lab.converged("job");
    lab.version += 1;

    let deleted = lab.version;
    let mut anew = Widget::new("job", lab.now);
    anew.uid += 1;
    lab.apply(anew.ready());
    lab.observe(Observation::Deleted {
        watch: watch(),
        key: old.key(),
        version: deleted.to_string(),
    });

    assert_eq!(lab.model.objects(), 1, "the new object still exists");
}

#[test]
fn children_may_be_listed_before_their_owners() {
    let show = |reverse: bool| {
        let mut lab = Lab::unsynced(unlearned());
        let old = lab.ago(Span::hours(9));
        let mut views = Vec::new();

        for name in ["machine-set", "machine-1", "machine-0"] {
            let mut view = lab.view(Widget::new(name, old).ready());
            if name != "machine-set" {
                view.owners = vec![OwnerReference {
                    kind: "MachineSet".into(),
                    name: "machine-set".into(),
                    controller: true,
                    ..OwnerReference::default()
                }];
            }

            views.push(view);
        }

        if reverse {
            views.reverse();
        }

        lab.list_views(views);
        lab.advance(Span::hours(1));
        (lab.findings(), lab.row("machine-0").owners, lab.row("machine-1").state)
    };

    assert_eq!(show(false), show(true));
    assert_eq!(show(true).1, ["MachineSet/machine-set"]);
}

#[test]
fn the_order_of_the_watches_of_a_kind_does_not_decide() {
    let run = |first: usize| {
        let mut lab = Lab::unsynced(unlearned());
        let watched = |namespace: &str| WatchedKind {
            watch: WatchId(format!("widgets.example.io/{namespace}").into()),
            scope: Scope::Namespace(namespace.into()),
            ..kind()
        };

        lab.discover(&[watched("a"), watched("b")]);
        let mut ready = Widget::new("ready", START.after(Span::hours(-1)));
        ready.ready();

        let silent = Widget::new("silent", START.after(Span::hours(-1)));
        for (epoch, n) in (1..).zip([first, 1 - first]) {
            let (namespace, widget) = [("a", &ready), ("b", &silent)][n];
            let watch = watched(namespace).watch;
            lab.observe(Observation::ListBegan { watch: watch.clone(), epoch });

            let mut object = Box::new(widget.view(10 + epoch));
            object.key.namespace = namespace.into();
            lab.listed(&watch, *object);
            lab.observe(Observation::ListEnded { watch, epoch, version: "50".into() });
            lab.advance(Span::secs(1));
        }

        lab.advance(Span::hours(1));
        lab.findings()
    };
    assert_eq!(run(0), run(1));
}

#[test]
fn a_list_that_fails_half_way_does_not_decide() {
    let mut lab = Lab::unsynced(unlearned());
    let mut ready = Widget::new("a", START.after(Span::hours(-1)));
    ready.ready();

    let silent: Vec<Widget> =
        (0..3).map(|i| Widget::new(&format!("s{i}"), START.after(Span::hours(-1)))).collect();
    lab.begin_list(&watch());
    lab.listed(&watch(), ready.view(10));
    lab.listed(&watch(), silent[0].view(11));
    lab.fail();
    lab.advance(Span::mins(1));

    let all: Vec<Widget> = silent.into_iter().chain([ready]).collect();
    lab.list(&all);
    lab.recover();
    lab.advance(Span::hours(1));
    lab.assert_no_findings();
}
