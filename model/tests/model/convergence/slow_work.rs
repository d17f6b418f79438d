//! Work that takes longer than the SLO deadline is learned, and outages are not.

use loopwatch_model::finding::Severity;
use loopwatch_model::observation::ControllerView;
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::{DeadlineSource, Outcome};
use loopwatch_model::time::Span;

use crate::lab::loops::{Loop, add};
use crate::lab::pods::INSTANCE;
use crate::lab::{Lab, Widget};

/// Returns default settings, except that a finding about one object pages.
fn of_one_object() -> Settings {
    Settings { page_objects: 1, ..Settings::default() }
}

/// Creates a widget that nobody acknowledges for `span`, and then is ready.
fn created_in(lab: &mut Lab, name: &str, span: Span) {
    let mut widget = Widget::new(name, lab.now);
    lab.apply(&widget);
    lab.advance_by_minutes(span.0 / 60_000);
    lab.apply(widget.ready());
    lab.advance_by_minutes(20);
}

#[test]
fn a_handler_that_writes_the_status_only_at_its_end_is_slow_and_not_dead() {
    let mut lab = Lab::with(of_one_object());
    for number in 0..25 {
        created_in(&mut lab, &format!("cluster-{number}"), Span::mins(25));
    }

    lab.apply(&Widget::new("next", lab.now));
    lab.advance_by_minutes(40);
    lab.assert_no_findings();
    let late = lab.outcomes(Outcome::Late);
    assert_eq!(late, 25, "all but the first, before which no object had a status");

    lab.advance(Span::hours(2));
    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/next"]);
}

#[test]
fn updates_of_ninety_minutes_get_a_deadline_of_their_own_and_creations_do_not() {
    let mut lab = Lab::with(of_one_object());
    let mut cluster = lab.converged("cluster");
    for spec in 2..27 {
        lab.apply(cluster.spec(spec, lab.now));
        lab.apply(cluster.waiting());
        lab.advance_by_minutes(90);
        lab.apply(cluster.ready());
        lab.advance_by_minutes(30);
    }

    lab.apply(cluster.spec(99, lab.now));
    lab.apply(cluster.waiting());
    lab.advance_by_minutes(120);
    lab.assert_no_findings();

    let mut other = Widget::new("other", lab.now);
    lab.apply(&other);
    lab.apply(other.waiting());
    lab.advance_by_minutes(11);
    assert_eq!(lab.findings(), ["Overdue Widget team-a/other"]);
}

#[test]
fn databases_of_forty_minutes_that_overlap_are_learned() {
    let mut lab = Lab::with(of_one_object());
    let mut building: Vec<Widget> = Vec::new();
    for number in 0..34 {
        let mut created = Widget::new(&format!("db-{number}"), lab.now);
        lab.apply(&created);
        lab.apply(created.waiting());
        building.push(created);
        lab.advance_by_minutes(10);
        if building.len() > 4 {
            lab.apply(building.remove(0).ready());
        }
    }

    assert_eq!(lab.kind().deadline_source, DeadlineSource::Learned);
    assert!(lab.kind().deadline >= Span::mins(80), "{}", lab.kind().deadline);
}

#[test]
fn a_batch_of_fifteen_minutes_every_night_is_usual_although_the_changes_of_the_day_are_quick() {
    let mut lab = Lab::with(of_one_object());
    let mut widgets: Vec<Widget> =
        (0..40).map(|number| lab.converged(&format!("w{number}"))).collect();

    for night in 0..7 {
        for round in 0..100 {
            let widget = &mut widgets[round % 40];
            lab.apply(widget.spec(1_000 * night + 100 + round as u64, lab.now));
            lab.advance(Span::secs(2));
            lab.apply(widget.ready());
            lab.advance_by_minutes(5);
        }

        widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(night + 2, lab.now)));
        widgets.iter_mut().for_each(|widget| lab.apply(widget.waiting()));
        lab.advance_by_minutes(15);
        if night == 6 {
            lab.assert_no_findings();
        }

        widgets.iter_mut().for_each(|widget| lab.apply(widget.ready()));
        lab.advance_by_minutes(60);
    }
}

#[test]
fn a_few_outages_in_which_many_objects_wait_do_not_become_usual() {
    let mut lab = Lab::with(of_one_object());
    let mut widgets: Vec<Widget> =
        (0..40).map(|number| lab.converged(&format!("w{number}"))).collect();
    for outage in 0..4 {
        for widget in &mut widgets {
            lab.apply(widget.spec(outage + 2, lab.now));
            lab.advance(Span::mins(3));
        }

        lab.advance_by_minutes(60);
        for widget in &mut widgets {
            lab.apply(widget.ready());
            lab.advance(Span::secs(2));
        }

        lab.advance(Span::hours(3));
    }

    lab.apply(widgets[0].spec(99, lab.now));
    lab.advance_by_minutes(11);
    assert!(lab.has("Unacknowledged"), "the deadline is {}", lab.kind().deadline);
}

#[test]
fn slow_work_is_still_known_after_a_restart() {
    let mut lab = Lab::with(of_one_object());
    for number in 0..25 {
        created_in(&mut lab, &format!("cluster-{number}"), Span::mins(25));
    }

    let again = {
        let mut again = lab.restart();
        again.list(&[]);
        again
    };
    assert_eq!(again.kind().deadline, lab.kind().deadline);
    assert!(again.kind().deadline > Span::mins(50));
}

#[test]
fn after_a_late_acknowledgement_the_work_has_the_whole_deadline() {
    let mut lab = Lab::new();
    let mut widget = lab.converged("web");
    lab.advance(Span::hours(1));
    lab.apply(widget.spec(2, lab.now));
    lab.advance_by_minutes(60); // the operator is down
    lab.apply(widget.waiting());
    lab.advance_by_minutes(9);
    lab.assert_no_findings();

    lab.advance_by_minutes(2);
    assert_eq!(lab.findings(), ["Overdue Widget team-a/web"]);
}

/// Returns a lab with a widget whose spec changed 30 times and was acknowledged after `span` each
/// time.
fn always_acknowledged_in(span: Span) -> (Lab, Widget) {
    let mut lab = Lab::with(of_one_object());
    let mut widget = lab.converged("a");
    for spec in 2..32 {
        lab.apply(widget.spec(spec, lab.now));
        lab.advance(span);
        lab.apply(widget.ready());
        lab.advance(Span::mins(1));
    }

    (lab, widget)
}

#[test]
fn a_change_that_a_quick_operator_does_not_acknowledge_is_a_ticket_before_it_is_a_page() {
    let (mut lab, mut widget) = always_acknowledged_in(Span::secs(2));
    lab.apply(widget.spec(99, lab.now));
    lab.advance(Span::secs(139));
    lab.assert_no_findings();

    lab.advance(Span::secs(1));
    assert_eq!(lab.findings(), ["Unacknowledged Widget team-a/a"]);
    assert_eq!(lab.finding("Unacknowledged").severity, Severity::Warning);
    assert!(lab.evidence().contains("deadline 2m20s"), "{}", lab.evidence());

    lab.advance(Span::secs(459));
    assert_eq!(lab.finding("Unacknowledged").severity, Severity::Warning);
    lab.advance(Span::secs(1));
    assert_eq!(lab.finding("Unacknowledged").severity, Severity::Critical);
    assert!(lab.evidence().contains("deadline 10m"), "{}", lab.evidence());

    lab.apply(widget.ready());
    lab.assert_no_findings();
}

#[test]
fn an_operator_that_sometimes_needs_minutes_gets_no_early_ticket() {
    let (mut lab, mut widget) = always_acknowledged_in(Span::secs(2));
    lab.apply(widget.spec(98, lab.now));
    lab.advance(Span::secs(130));
    lab.apply(widget.ready());
    lab.advance(Span::mins(1));

    lab.apply(widget.spec(99, lab.now));
    lab.advance(Span::mins(8));
    lab.assert_no_findings();
    lab.advance(Span::mins(2));
    assert_eq!(lab.finding("Unacknowledged").severity, Severity::Critical);
}

#[test]
fn an_object_that_waits_for_its_turn_in_a_busy_batch_gets_no_early_ticket() {
    let (mut lab, _) = always_acknowledged_in(Span::secs(2));
    let mut widgets: Vec<Widget> =
        (0..60).map(|number| lab.converged(&format!("w{number}"))).collect();
    widgets.iter_mut().for_each(|widget| lab.apply(widget.spec(2, lab.now)));
    for widget in &mut widgets {
        lab.advance(Span::secs(8));
        lab.assert_no_findings();
        lab.apply(widget.ready());
    }

    lab.advance(Span::mins(30));
    lab.assert_no_findings();
}

#[test]
fn a_watch_that_was_blind_meanwhile_gives_no_early_ticket() {
    let (mut lab, mut widget) = always_acknowledged_in(Span::secs(2));
    lab.apply(widget.spec(99, lab.now));
    lab.blind_for(Span::secs(30));
    lab.advance(Span::mins(8));
    lab.assert_no_findings();
}

/// Changes an object of an operator that is always quick, whose controller has been scraped, and
/// goes on for `seconds` with a change of the metrics before each scrape.
fn changed_while(seconds: i64, change: impl FnMut(&mut ControllerView)) -> Loop {
    let mut own = Loop::with(of_one_object());
    let mut widget = own.lab.converged("a");
    for spec in 2..32 {
        own.lab.apply(widget.spec(spec, own.lab.now));
        own.lab.advance(Span::secs(2));
        own.lab.apply(widget.ready());
        own.lab.advance(Span::mins(1));
        own.lab.scrape(INSTANCE, own.view.clone());
    }

    own.lab.apply(widget.spec(99, own.lab.now));
    own.run(seconds, change);
    own
}

/// All workers are busy with reconciles that end, while objects wait.
fn is_at_work(view: &mut ControllerView) {
    (view.workers_busy, view.queue_depth) = (view.workers_max, Some(7));
    add(&mut view.succeeded, 1);
}

#[test]
fn workers_that_are_all_busy_delay_the_early_ticket_but_not_the_page() {
    let mut own = changed_while(590, is_at_work);
    own.lab.assert_no_findings();

    own.run(10, is_at_work);
    assert_eq!(own.lab.finding("Unacknowledged").severity, Severity::Critical);
}

#[test]
fn workers_that_are_free_delay_no_early_ticket() {
    let own = changed_while(150, |view| {
        is_at_work(view);
        (view.workers_busy, view.workers_max) = (Some(1), Some(9));
    });
    assert_eq!(own.lab.finding("Unacknowledged").severity, Severity::Warning);
}

#[test]
fn busy_workers_without_a_queue_delay_no_early_ticket() {
    let own = changed_while(150, |view| {
        is_at_work(view);
        view.queue_depth = Some(0);
    });
    assert_eq!(own.lab.finding("Unacknowledged").severity, Severity::Warning);
}

#[test]
fn the_early_ticket_opens_soon_after_the_workers_are_free_and_stays_open() {
    let mut own = changed_while(300, is_at_work);
    own.run(130, |view| (view.workers_busy, view.queue_depth) = (Some(0), Some(0)));
    assert_eq!(own.lab.finding("Unacknowledged").severity, Severity::Warning);

    own.run(60, is_at_work);
    assert_eq!(own.lab.finding("Unacknowledged").severity, Severity::Warning);
}
