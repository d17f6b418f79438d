//! Objects of several users, each in a namespace: one user's bad objects hide no problem of another
//! and page nobody.

use loopwatch_model::finding::{Confidence, Severity};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::Health;
use loopwatch_model::time::Span;

use crate::lab::{Lab, Widget};

/// Creates converged widgets in a namespace, an hour ago.
fn tenant(lab: &mut Lab, namespace: &str, objects: usize) -> Vec<Widget> {
    let names = (0..objects).map(|number| format!("{namespace}-{number}"));
    let widgets = names.map(|name| lab.converged_in(namespace, &name)).collect();
    lab.advance(Span::hours(1));
    widgets
}

fn fail(lab: &mut Lab, widgets: &mut [Widget], reason: &str) {
    widgets.iter_mut().for_each(|widget| lab.apply(widget.failed(reason)));
}

/// Creates a widget whose spec the operator rejects.
fn reject(lab: &mut Lab, namespace: &str, name: &str, reason: &str) -> Widget {
    let mut widget = Widget::new(name, lab.now);
    widget.namespace = namespace.to_owned();
    lab.apply(&widget);
    lab.advance(Span::secs(1));
    lab.apply(widget.failed(reason));
    lab.advance(Span::mins(5));

    widget
}

/// Returns the health of each namespace, in alphabetical order.
fn health(lab: &Lab) -> Vec<Health> {
    lab.snapshot().health.into_values().collect()
}

#[test]
fn one_tenants_failures_are_a_ticket_and_hide_no_failure_of_another_tenant() {
    for reason in ["DiskFull", "Broken"] {
        let mut lab = Lab::new();
        let mut theirs = tenant(&mut lab, "team-b", 20);
        let mut junk = tenant(&mut lab, "team-c", 40);
        fail(&mut lab, &mut junk, "Broken");
        lab.advance(Span::mins(5));
        fail(&mut lab, &mut theirs[..1], reason);
        lab.advance(Span::mins(20));

        assert_eq!(lab.finding("Failing").severity, Severity::Warning, "{reason}");
        assert_eq!(lab.roots(), ["Failing Widget (all)", "Regressed Widget team-b/team-b-0"]);
    }
}

#[test]
fn another_reason_in_the_same_namespace_is_a_problem_of_its_own() {
    let mut lab = Lab::new();
    let mut own = tenant(&mut lab, "team-b", 6);
    fail(&mut lab, &mut own[..5], "Broken");
    fail(&mut lab, &mut own[5..], "DiskFull");
    lab.advance(Span::mins(20));

    assert_eq!(lab.finding("Failing").severity, Severity::Critical, "nobody else has objects");
    assert_eq!(lab.roots(), ["Failing Widget (all)", "Regressed Widget team-b/team-b-5"]);
}

#[test]
fn failures_for_one_reason_in_several_namespaces_page_once() {
    let mut lab = Lab::new();
    let _healthy = tenant(&mut lab, "team-a", 3);
    let mut first = tenant(&mut lab, "team-b", 4);
    let mut second = tenant(&mut lab, "team-c", 1);
    fail(&mut lab, &mut first, "DependencyDown");
    lab.advance(Span::mins(2));
    assert_eq!(lab.finding("Failing").severity, Severity::Warning);

    fail(&mut lab, &mut second, "DependencyDown");
    lab.advance(Span::mins(20));

    assert_eq!(lab.finding("Failing").severity, Severity::Critical);
    assert_eq!(lab.roots(), ["Failing Widget (all)"]);
    let summary = lab.finding("Failing").summary();
    assert!(summary.contains("namespaces 2"), "{summary}");
}

#[test]
fn a_kind_that_fails_in_every_namespace_pages_whatever_the_reasons() {
    let mut lab = Lab::new();
    let mut first = tenant(&mut lab, "team-b", 4);
    let mut second = tenant(&mut lab, "team-c", 2);
    fail(&mut lab, &mut first, "PullFailed");
    fail(&mut lab, &mut second, "Timeout");
    lab.advance(Span::mins(1));

    assert_eq!(lab.finding("Failing").severity, Severity::Critical);
}

#[test]
fn failures_of_two_namespaces_that_began_days_apart_have_no_common_cause() {
    let mut lab = Lab::new();
    let _healthy = tenant(&mut lab, "team-a", 3);
    let (mut first, mut second) = (tenant(&mut lab, "team-b", 4), tenant(&mut lab, "team-c", 1));
    fail(&mut lab, &mut first, "Broken");
    lab.advance(Span::hours(48));
    fail(&mut lab, &mut second, "Broken");
    lab.advance(Span::mins(20));

    assert_eq!(lab.finding("Failing").severity, Severity::Warning);
    assert_eq!(lab.roots(), ["Failing Widget (all)", "Regressed Widget team-c/team-c-0"]);
}

#[test]
fn old_failures_of_one_tenant_hide_no_outage() {
    let mut lab = Lab::new();
    let mut junk = tenant(&mut lab, "team-a", 20);
    let mut others: Vec<Vec<Widget>> = ["team-b", "team-c", "team-d"]
        .into_iter()
        .map(|namespace| tenant(&mut lab, namespace, 3))
        .collect();
    fail(&mut lab, &mut junk, "Broken");
    lab.advance(Span::hours(48));
    assert_eq!(lab.finding("Failing").severity, Severity::Warning);

    others[..2].iter_mut().for_each(|widgets| fail(&mut lab, widgets, "DependencyDown"));
    lab.advance(Span::mins(20));

    assert_eq!(lab.finding("Failing").severity, Severity::Critical);
    let summary = lab.finding("Failing").summary();
    assert!(summary.contains("DependencyDown"), "{summary}");
    let hidden = lab.roots().iter().any(|root| root.contains("Regressed Widget team-b"));
    assert!(!hidden, "the page says it: {:?}", lab.roots());
}

#[test]
fn changes_in_several_namespaces_that_fail_for_one_reason_are_a_ticket() {
    let mut lab = Lab::new();
    let _healthy = tenant(&mut lab, "team-a", 10);
    reject(&mut lab, "team-b", "first", "WebhookDenied");
    reject(&mut lab, "team-c", "second", "WebhookDenied");
    lab.assert_no_findings();

    reject(&mut lab, "team-d", "third", "WebhookDenied");
    assert_eq!(lab.findings(), ["Failing Widget (all)"]);
    assert_eq!(lab.finding("Failing").severity, Severity::Warning);
    assert!(lab.evidence().contains("rejected 3"), "{}", lab.evidence());
    assert!(lab.evidence().contains("WebhookDenied"), "{}", lab.evidence());

    lab.converged_in("team-e", "works");
    assert_eq!(lab.findings(), ["Failing Widget (all)"], "one user may have made it work");
    lab.converged_in("team-f", "works-too");
    lab.assert_no_findings();
}

#[test]
fn successes_of_one_tenant_hide_no_rejections_of_the_others() {
    for by in [Span(0), Span::hours(-3)] {
        let mut lab = Lab::new();
        for number in 0..3 {
            let name = format!("team-{number}");
            reject(&mut lab, &name, &name, "WebhookDenied");
            lab.converged_in("team-z", &format!("z-{number}"));
            lab.step_clock(by);
        }

        lab.advance(Span::mins(1));
        assert_eq!(lab.findings(), ["Failing Widget (all)"], "{by}");
        lab.converged_in("team-z", "again");
        assert_eq!(lab.findings(), ["Failing Widget (all)"], "{by}");

        lab.converged_in("team-1", "works");
        lab.assert_no_findings();
        reject(&mut lab, "team-3", "late", "WebhookDenied");
        reject(&mut lab, "team-4", "later", "WebhookDenied");
        lab.assert_no_findings();
    }
}

#[test]
fn a_success_ends_the_rejections_in_its_own_namespace() {
    let mut lab = Lab::new();
    for name in ["team-b", "team-c", "team-d"] {
        reject(&mut lab, name, name, "WebhookDenied");
    }
    assert!(lab.has("Failing"));

    lab.converged_in("team-d", "works");
    lab.assert_no_findings();

    reject(&mut lab, "team-d", "again", "WebhookDenied");
    assert_eq!(lab.findings(), ["Failing Widget (all)"]);
}

#[test]
fn of_two_tenants_either_shows_that_the_operator_does_not_reject_all() {
    let mut lab = Lab::new();
    for name in ["b-1", "b-2"] {
        reject(&mut lab, "team-b", name, "InvalidSpec");
    }
    reject(&mut lab, "team-c", "c-1", "InvalidSpec");
    assert!(lab.has("Failing"));
    lab.converged_in("team-c", "works");
    lab.assert_no_findings();

    for name in ["c-2", "c-3"] {
        reject(&mut lab, "team-c", name, "InvalidSpec");
    }
    lab.assert_no_findings();

    reject(&mut lab, "team-b", "b-3", "InvalidSpec");
    assert_eq!(lab.findings(), ["Failing Widget (all)"]);
    assert!(lab.evidence().contains("rejected 3"), "{}", lab.evidence());
}

#[test]
fn two_tenants_that_succeeded_before_a_rejection_end_none_that_follows() {
    let mut lab = Lab::new();
    lab.converged_in("team-y", "y");
    lab.converged_in("team-z", "z");
    for name in ["team-b", "team-c", "team-d"] {
        reject(&mut lab, name, name, "WebhookDenied");
    }
    lab.converged_in("team-y", "again");

    assert_eq!(lab.findings(), ["Failing Widget (all)"]);
}

#[test]
fn changes_that_fail_in_one_namespace_or_for_reasons_of_their_own_are_no_problem_of_the_kind() {
    let mut lab = Lab::new();
    for number in 0..5 {
        reject(&mut lab, "team-b", &format!("same-{number}"), "InvalidSpec");
    }

    for (number, reason) in ["NoImage", "NoVolume", "BadName", "TooSmall"].iter().enumerate() {
        reject(&mut lab, &format!("team-{number}"), &format!("other-{number}"), reason);
    }

    lab.assert_no_findings();
}

#[test]
fn changes_of_two_tenants_that_converge_show_that_the_operator_does_not_reject_all() {
    let mut lab = Lab::new();
    let mut rejected = Vec::new();
    for number in 0..6 {
        let name = format!("team-{number}");
        rejected.push(reject(&mut lab, &name, &name, "InvalidSpec"));
        if number % 2 == 1 {
            lab.converged_in("team-y", &format!("y-{number}"));
            lab.converged_in("team-z", &format!("z-{number}"));
        }
    }

    // The operator tries again and again.
    for _ in 0..3 {
        for widget in &mut rejected {
            lab.apply(widget.waiting());
            lab.advance(Span::secs(5));
            lab.apply(widget.failed("InvalidSpec"));
        }

        lab.advance(Span::mins(5));
        lab.assert_no_findings();
    }
}

#[test]
fn rejected_changes_do_not_become_regressions_when_loopwatch_restarts() {
    let mut lab = Lab::new();
    let widgets =
        ["team-b", "team-c", "team-d"].map(|of| reject(&mut lab, of, of, "WebhookDenied"));
    assert!(lab.has("Failing"));

    let mut again = lab.restart();
    again.list(&widgets);
    again.advance(Span::mins(20));
    assert_eq!(again.findings(), ["Failing Widget (all)"], "the changes are still rejected");
    assert!(again.evidence().contains("failed 3"), "{}", again.evidence());
}

/// Returns widgets of several namespaces that were created a minute apart, and have failed since.
fn rejected_earlier(lab: &Lab) -> Vec<Widget> {
    let names = ["team-b", "team-c", "team-d", "team-e"];
    let created = (0..).map(|minutes| lab.ago(Span::mins(10 - minutes)));
    let widgets = names.iter().zip(created).map(|(name, created)| {
        let mut widget = Widget::new(name, created);
        widget.namespace = (*name).to_owned();
        widget.failed("WebhookDenied");
        widget
    });
    widgets.collect()
}

#[test]
fn many_listed_objects_that_fail_for_one_reason_show_that_the_kind_fails() {
    for (healthy, found) in [(0, true), (4, true), (5, false)] {
        let mut lab = Lab::unsynced(Settings::default());
        let mut widgets = rejected_earlier(&lab);
        widgets.extend((0..healthy).map(|number| {
            let mut works = Widget::new(&format!("works-{number}"), lab.ago(Span::mins(5)));
            works.ready();
            works
        }));
        lab.list(&widgets);
        lab.advance(Span::mins(1));

        assert_eq!(lab.has("Failing"), found, "{healthy}: {:?}", lab.findings());
        if found {
            assert_eq!(lab.finding("Failing").severity, Severity::Warning);
            assert!(lab.evidence().contains("failed 4"), "{}", lab.evidence());
        }
    }
}

#[test]
fn listed_objects_of_one_namespace_or_with_reasons_of_their_own_do_not() {
    for in_one in [true, false] {
        let mut lab = Lab::unsynced(Settings::default());
        let mut widgets = rejected_earlier(&lab);
        for (number, widget) in widgets.iter_mut().enumerate() {
            match in_one {
                true => widget.namespace = "team-b".to_owned(),
                false => _ = widget.failed(["TypoA", "TypoB", "TypoC", "TypoD"][number]),
            }
        }
        lab.list(&widgets);
        lab.advance(Span::mins(1));
        assert!(!lab.has("Failing"), "{:?}", lab.findings());
    }
}

#[test]
fn ten_listed_objects_of_the_only_namespace_are_suspected() {
    for (failed, works, elsewhere, found) in
        [(10, 10, 0, true), (9, 0, 0, false), (10, 11, 0, false), (10, 9, 1, false)]
    {
        let mut lab = Lab::unsynced(Settings::default());
        let created = lab.ago(Span::mins(10));
        let widgets: Vec<Widget> = (0..failed + works + elsewhere)
            .map(|number| {
                let mut widget = Widget::new(&format!("widget-{number}"), created);
                if number < failed {
                    widget.failed("BackendError");
                } else {
                    widget.ready();
                }
                if number >= failed + works {
                    widget.namespace = "another".to_owned();
                }
                widget
            })
            .collect();
        lab.list(&widgets);
        lab.advance(Span::mins(1));

        assert_eq!(lab.has("Failing"), found, "{failed} {works} {elsewhere}: {:?}", lab.findings());
        if found {
            assert_eq!(lab.finding("Failing").confidence, Confidence::Suspected);
        }
    }
}

#[test]
fn retries_of_rejected_changes_do_not_end_the_finding() {
    let mut lab = Lab::new();
    let _healthy = tenant(&mut lab, "team-a", 10);
    let mut widgets =
        ["team-b", "team-c", "team-d"].map(|of| reject(&mut lab, of, of, "WebhookDenied"));
    assert!(lab.has("Failing"));
    lab.changes();

    for _ in 0..30 {
        for widget in &mut widgets {
            lab.apply(widget.waiting());
        }
        lab.advance(Span::secs(3));
        for widget in &mut widgets {
            lab.apply(widget.failed("WebhookDenied"));
        }
        lab.advance(Span::secs(57));
    }
    assert_eq!(lab.changes(), Vec::<String>::new());

    lab.apply(widgets[0].ready());
    lab.apply(widgets[1].ready());
    lab.advance(Span::mins(1));
    lab.assert_no_findings();
}

#[test]
fn one_tenants_failures_lower_the_health_of_no_other_namespace() {
    let mut lab = Lab::new();
    let mut junk = tenant(&mut lab, "team-a", 40);
    let mut others = tenant(&mut lab, "team-b", 4);
    let _healthy = tenant(&mut lab, "team-c", 4);
    fail(&mut lab, &mut junk, "Broken");
    reject(&mut lab, "team-b", "typo", "InvalidSpec");
    fail(&mut lab, &mut others[..1], "Broken");
    lab.advance(Span::mins(1));

    assert_eq!(lab.finding("Failing").severity, Severity::Warning);
    assert_eq!(health(&lab), [Health::Degraded, Health::Healthy, Health::Healthy]);
}

#[test]
fn an_outage_lowers_the_health_of_the_namespaces_with_failed_objects() {
    let mut lab = Lab::new();
    let mut first = tenant(&mut lab, "team-a", 4);
    let mut second = tenant(&mut lab, "team-b", 2);
    let _healthy = tenant(&mut lab, "team-c", 3);
    reject(&mut lab, "team-d", "typo", "InvalidSpec");
    fail(&mut lab, &mut first, "DependencyDown");
    fail(&mut lab, &mut second, "DependencyDown");
    lab.advance(Span::mins(1));

    let [bad, ok] = [Health::Failing, Health::Healthy];
    assert_eq!(health(&lab), [bad, bad, ok, ok]);
}

#[test]
fn a_kind_that_fails_everywhere_lowers_the_health_of_every_namespace() {
    let mut lab = Lab::new();
    let mut first = tenant(&mut lab, "team-b", 4);
    assert_eq!(health(&lab), [Health::Healthy]);
    fail(&mut lab, &mut first, "PullFailed");
    lab.advance(Span::mins(1));
    assert_eq!(health(&lab), [Health::Failing], "nobody else has objects");

    let mut second = tenant(&mut lab, "team-c", 2);
    fail(&mut lab, &mut second, "Timeout");
    lab.advance(Span::mins(1));
    assert_eq!(health(&lab), [Health::Failing, Health::Failing]);
}

#[test]
fn rejections_in_several_namespaces_degrade_only_these() {
    let mut lab = Lab::new();
    let _healthy = tenant(&mut lab, "team-a", 3);
    for name in ["team-b", "team-c", "team-d"] {
        reject(&mut lab, name, name, "WebhookDenied");
    }
    reject(&mut lab, "team-e", "typo", "InvalidSpec");

    let [ok, bad] = [Health::Healthy, Health::Degraded];
    assert_eq!(health(&lab), [ok, bad, bad, bad, ok]);
}
