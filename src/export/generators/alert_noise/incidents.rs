//! The incidents that the test plays.

use loopwatch_model::observation::{
    Cause, ConditionStatus, ControllerView, MetricsView, Observation,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Span;

use super::lab::loops::{Fault, Loop, add, fails, hangs, is_busy, is_flooded, never_begins};
use super::lab::pods::{INSTANCE, OTHER_POD, Op, POD, pod};
use super::lab::{Lab, Widget};

/// An incident: the healthy time before it, the fault, and its end.
pub(super) struct Incident {
    pub(super) name: &'static str,
    /// Plays the incident, and returns the settings.
    pub(super) play: fn() -> Settings,
    /// The number of pages.
    pub(super) pages: usize,
    /// Why there are several pages or tickets.
    pub(super) why: &'static str,
}

const fn once(name: &'static str, pages: usize, play: fn() -> Settings) -> Incident {
    Incident { name, play, pages, why: "" }
}

const fn more(
    name: &'static str,
    pages: usize,
    why: &'static str,
    play: fn() -> Settings,
) -> Incident {
    Incident { name, play, pages, why }
}

/// Why a ticket comes before a page.
const FIRST: &str =
    "the ticket opens first; its page replaces it when objects have waited for too long";

/// Why the operator pages twice.
const LATER: &str = "OperatorDown opens after the first end of the container, and the finding about its restarts only after several; when the operator runs again, that one is a warning for an hour";

pub(super) const ALL: &[Incident] = &[
    once("nothing: changes of healthy objects", 0, healthy),
    once("the operator is gone while all objects are ready", 1, || gone(0)),
    once("the operator is gone while 50 objects change; they catch up after its return", 1, || {
        gone(50)
    }),
    once("the operator is gone while an object is deleted", 1, deleted_while_gone),
    more("the operator crashes again and again while 20 objects change", 2, LATER, || {
        crashes("Error")
    }),
    more("the kernel kills the operator for its memory at each start", 2, LATER, || {
        crashes("OOMKilled")
    }),
    more("nobody leads while 20 objects change", 1, FIRST, leaderless),
    more("all reconciles fail while 20 objects change", 1, FIRST, || controller(20, fails)),
    more(
        "all reconciles fail while 20 objects change, and scrapes fail for 20 minutes",
        1,
        FIRST,
        unscraped,
    ),
    once("all reconciles fail, but nothing changes", 0, || controller(0, fails)),
    once("a change of one object makes its reconcile hang", 0, || controller(1, hangs)),
    more("the queue is long while 20 objects change", 1, FIRST, || controller(20, is_flooded)),
    more(
        "all workers are busy while 20 objects change",
        1,
        "WorkersSaturated needs longer to open than the finding about the objects that wait",
        || controller(20, is_busy),
    ),
    more("a controller does not begin while 20 objects wait", 1, FIRST, || {
        controller(20, never_begins)
    }),
    more(
        "all reconciles panic while 20 objects change",
        1,
        "the ticket opens first; so does one for the object that changed last before the panics",
        || controller(20, panics),
    ),
    more(
        "the API server denies requests, so reconciles fail, while 20 objects change",
        1,
        FIRST,
        || requests("403"),
    ),
    more(
        "requests to the API server fail while 20 objects change",
        1,
        "a warning before and after the page, while fewer requests fail",
        || requests("503"),
    ),
    once("the operator ignores one object for half an hour", 0, || ignored(1, 30)),
    more(
        "the operator ignores one object for two hours",
        1,
        "the ticket opens first; its page replaces it after `page_after`",
        || ignored(1, 120),
    ),
    once("the operator ignores 20 objects", 1, || ignored(20, 40)),
    once("an object is acknowledged, but does not get ready, and stays in its phase", 0, late),
    more(
        "six objects are acknowledged, but do not get ready for two hours",
        1,
        "the ticket opens first; its page replaces it after `page_after`",
        all_late,
    ),
    once("all objects of a kind fail at once", 1, fail_at_once),
    more(
        "one object loses its readiness, and its phases cycle",
        0,
        "cycles show only after several rounds",
        cycles,
    ),
    once("a finalizer stays, although the operator works", 0, finalizer_stays),
    once("a finalizer stays, because its reconciles fail", 0, finalizer_fails),
    more(
        "three objects have paged already when the operator dies",
        2,
        "the cause of the first page is not known yet when it is sent",
        dies_later,
    ),
];

fn works(view: &mut ControllerView) {
    add(&mut view.succeeded, 1);
    (view.longest_running_seconds, view.workers_busy, view.queue_depth) =
        (Some(0.0), Some(0), Some(0));
}

fn panics(view: &mut ControllerView) {
    add(&mut view.failed, 1);
    add(&mut view.panicked, 1);
}

/// Creates objects at once, which converge.
fn many(lab: &mut Lab, count: usize) -> Vec<Widget> {
    let mut widgets: Vec<Widget> =
        (0..count).map(|number| Widget::new(&format!("w{number}"), lab.now)).collect();
    widgets.iter().for_each(|widget| lab.apply(widget));
    lab.advance(Span::secs(1));
    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.advance(Span::mins(1));

    widgets
}

fn change(lab: &mut Lab, widgets: &mut [Widget]) {
    let now = lab.now;
    widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(2, now)));
}

/// The operator processes the changes, one after the other.
fn catch_up(lab: &mut Lab, widgets: &mut [Widget]) {
    for widget in widgets {
        lab.advance(Span::secs(5));
        lab.apply(widget.ready());
        lab.renew(POD);
    }
}

fn end(lab: &Lab) -> Settings {
    lab.model.settings().clone()
}

fn healthy() -> Settings {
    let (mut lab, _) = Op::with_lab();
    let mut widgets = many(&mut lab, 20);
    change(&mut lab, &mut widgets);
    catch_up(&mut lab, &mut widgets);
    lab.run_with_lease(POD, 30);

    end(&lab)
}

fn gone(count: usize) -> Settings {
    let (mut lab, mut op) = Op::with_lab();
    let mut widgets = many(&mut lab, count);
    lab.run_with_lease(POD, 1);
    op.view.pods.clear();
    op.seen(&mut lab);
    lab.advance_by_minutes(1);
    change(&mut lab, &mut widgets);
    lab.advance_by_minutes(30);

    op.view.pods.push(pod(OTHER_POD, lab.now));
    op.seen(&mut lab);
    lab.run_with_lease(OTHER_POD, 1);

    for widget in &mut widgets {
        lab.advance(Span::secs(5));
        lab.apply(widget.ready());
        lab.renew(OTHER_POD);
    }

    lab.run_with_lease(OTHER_POD, 10);
    end(&lab)
}

fn deleted_while_gone() -> Settings {
    let (mut lab, mut op) = Op::with_lab();
    let mut web = lab.converged("web");
    web.finalizers = vec!["example.io/cleanup".into()];
    lab.apply(&web);
    lab.run_with_lease(POD, 1);
    op.view.pods.clear();
    op.seen(&mut lab);
    lab.advance_by_minutes(1);

    web.deleted = Some(lab.now);
    lab.apply(&web);
    lab.advance_by_minutes(40);
    op.view.pods.push(pod(OTHER_POD, lab.now));
    op.seen(&mut lab);
    lab.run_with_lease(OTHER_POD, 3);
    lab.delete(&web);
    lab.run_with_lease(OTHER_POD, 10);

    end(&lab)
}

fn crashes(reason: &str) -> Settings {
    let (mut lab, mut op) = Op::with_lab();
    let mut widgets = many(&mut lab, 20);
    lab.run_with_lease(POD, 1);
    change(&mut lab, &mut widgets);
    op.crash_loop(&mut lab, 8, reason);
    lab.advance(Span::mins(5));
    op.restart(&mut lab);
    lab.run_with_lease(POD, 2);

    catch_up(&mut lab, &mut widgets);
    lab.run_with_lease(POD, 90);
    end(&lab)
}

fn leaderless() -> Settings {
    let (mut lab, _) = Op::with_lab();
    let mut widgets = many(&mut lab, 20);
    lab.run_with_lease(POD, 1);
    lab.advance_by_minutes(1);
    change(&mut lab, &mut widgets);
    lab.advance_by_minutes(30);
    lab.run_with_lease(POD, 1);
    catch_up(&mut lab, &mut widgets);

    lab.run_with_lease(POD, 10);
    end(&lab)
}

/// A controller misbehaves for 40 minutes while objects change.
fn controller(count: usize, fault: Fault) -> Settings {
    let mut own = Loop::new();
    let mut widgets = many(&mut own.lab, count);
    own.run(300, works);
    change(&mut own.lab, &mut widgets);
    own.run(2_400, fault);
    recover(&mut own, &mut widgets);

    end(&own.lab)
}

/// All reconciles fail, and for a while so do the scrapes.
fn unscraped() -> Settings {
    let mut own = Loop::new();
    let mut widgets = many(&mut own.lab, 20);
    own.run(300, works);
    change(&mut own.lab, &mut widgets);
    own.run(1_200, fails);

    for _ in 0..120 {
        own.lab.advance(Span::secs(10));
        own.lab.scrape_fails(INSTANCE, Cause::Timeout);
    }

    own.run(600, fails);
    recover(&mut own, &mut widgets);
    end(&own.lab)
}

/// The controller succeeds again, one object after the other.
fn recover(own: &mut Loop, widgets: &mut [Widget]) {
    own.run(10, works);
    for widget in widgets {
        own.run(10, works);
        own.lab.apply(widget.ready());
    }

    own.run(1_800, works);
}

/// Requests get a status code, and all reconciles fail.
fn requests(code: &str) -> Settings {
    let mut own = Loop::new();
    let mut widgets = many(&mut own.lab, 20);
    let mut counts = vec![("200".to_owned(), 1_000), (code.to_owned(), 0)];
    let mut scrape = |own: &mut Loop, failing: bool| {
        own.lab.advance(Span::secs(10));
        counts[usize::from(failing)].1 += 10;
        if failing {
            fails(&mut own.view)
        } else {
            works(&mut own.view)
        }

        own.lab.scraped(MetricsView {
            instance: INSTANCE.into(),
            controllers: vec![own.view.clone()],
            requests: counts.clone(),
            ..MetricsView::default()
        });
    };

    (0..30).for_each(|_| scrape(&mut own, false));
    (0..6).for_each(|_| scrape(&mut own, true));
    change(&mut own.lab, &mut widgets);
    (0..240).for_each(|_| scrape(&mut own, true));

    for widget in &mut widgets {
        scrape(&mut own, false);
        own.lab.apply(widget.ready());
    }

    (0..180).for_each(|_| scrape(&mut own, false));
    end(&own.lab)
}

fn ignored(count: usize, minutes: i64) -> Settings {
    let (mut lab, _) = Op::with_lab();
    let mut widgets = many(&mut lab, count);
    lab.run_with_lease(POD, 1);
    change(&mut lab, &mut widgets);
    lab.run_with_lease(POD, minutes);
    catch_up(&mut lab, &mut widgets);
    lab.run_with_lease(POD, 10);

    end(&lab)
}

fn late() -> Settings {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::mins(5));
    lab.apply(web.spec(2, lab.now));
    lab.advance(Span::secs(1));
    lab.apply(web.waiting().phase("Provisioning"));
    lab.advance(Span::mins(60));
    lab.apply(web.ready().phase("Running"));

    lab.advance(Span::mins(10));
    end(&lab)
}

fn all_late() -> Settings {
    let mut lab = Lab::new();
    let mut widgets = many(&mut lab, 6);
    lab.advance(Span::mins(20));

    change(&mut lab, &mut widgets);
    widgets.iter_mut().for_each(|widget| lab.apply(widget.waiting()));
    lab.advance(Span::mins(120));
    catch_up(&mut lab, &mut widgets);

    lab.advance(Span::mins(10));
    end(&lab)
}

fn fail_at_once() -> Settings {
    let mut lab = Lab::new();
    let mut widgets = many(&mut lab, 6);
    lab.advance(Span::mins(20));

    for widget in &mut widgets {
        lab.apply(widget.failed("DependencyDown"));
        lab.advance(Span::secs(20));
    }

    lab.advance(Span::mins(30));
    for widget in &mut widgets {
        lab.apply(widget.ready());
        lab.advance(Span::secs(20));
    }

    lab.advance(Span::mins(10));
    end(&lab)
}

fn cycles() -> Settings {
    let mut lab = Lab::new();
    let mut web = lab.converged("web");
    lab.advance(Span::mins(20));

    for _ in 0..20 {
        for phase in ["Creating", "Starting"] {
            lab.apply(
                web.observe().condition("Ready", ConditionStatus::False, "Retrying").phase(phase),
            );
            lab.advance(Span::mins(1));
        }
    }

    lab.apply(web.ready().phase("Running"));
    lab.advance(Span::mins(60));
    end(&lab)
}

/// Deletes an object with a finalizer of the operator.
fn delete(lab: &mut Lab) -> Widget {
    let mut web = lab.converged("web");
    web.finalizers = vec!["example.io/cleanup".into()];
    lab.apply(&web);
    lab.advance(Span::mins(1));
    web.deleted = Some(lab.now);
    lab.apply(&web);

    web
}

fn finalizer_stays() -> Settings {
    let (mut lab, _) = Op::with_lab();
    let web = delete(&mut lab);
    lab.run_with_lease(POD, 40);
    lab.delete(&web);
    lab.run_with_lease(POD, 10);

    end(&lab)
}

fn finalizer_fails() -> Settings {
    let mut own = Loop::new();
    own.run(60, works);

    let web = delete(&mut own.lab);
    own.run(2_400, fails);
    own.lab.delete(&web);
    own.run(1_800, works);

    end(&own.lab)
}

/// An object has paged for some minutes when the operator dies.
fn dies_later() -> Settings {
    let (mut lab, mut op) = Op::with_lab();
    let mut widgets = many(&mut lab, 3);
    change(&mut lab, &mut widgets);
    lab.run_with_lease(POD, 15);
    op.view.pods.clear();
    op.seen(&mut lab);
    lab.advance_by_minutes(20);
    op.view.pods.push(pod(OTHER_POD, lab.now));

    op.seen(&mut lab);
    lab.run_with_lease(OTHER_POD, 2);
    widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
    lab.observe(Observation::Tick);
    lab.run_with_lease(OTHER_POD, 10);

    end(&lab)
}
