use loopwatch_model::finding::{Evidence, FindingId, Subject};
use loopwatch_model::snapshot::{KindSummary, SourceSummary, WatchSummary};
use serde_json::Value;

use super::*;

const NOW: Timestamp = Timestamp(1_767_225_600_000);

fn finding(code: FindingCode, name: &str, open_for: Span) -> Finding {
    let at = Timestamp(NOW.0 - open_for.0);
    let subject = Subject::Object {
        group: "example.io".to_owned(),
        kind: "Widget".to_owned(),
        namespace: "team-a".to_owned(),
        name: name.to_owned(),
    };

    Finding {
        id: FindingId::of(code, &subject),
        code,
        subject,
        since: at,
        found: at,
        severity: code.info().severity,
        confidence: Confidence::Confirmed,
        evidence: Evidence::default(),
        explained_by: None,
        alerts_from: Some(at),
    }
}

/// Active alerts, and what loopwatch posts about them, as JSON.
struct Watched(ActiveAlerts);

impl Watched {
    fn new() -> Self {
        Self::with(Links::default())
    }

    fn with(links: Links) -> Self {
        Self(ActiveAlerts::new(vec![("cluster".to_owned(), "production".to_owned())], links))
    }

    /// The alerts of the posting after a snapshot, without the heartbeat; `None` if there is none.
    fn after(&mut self, at: Span, findings: &[Finding]) -> Option<Vec<Value>> {
        let snapshot =
            Snapshot { at: NOW.after(at), findings: findings.to_vec(), ..Snapshot::default() };
        self.0.update(&snapshot);

        let bodies = self.0.posting()?.bodies;
        let alerts = bodies.iter().flat_map(|body| {
            let batch: Vec<Value> = serde_json::from_slice(body).expect("JSON");
            assert!(batch.len() <= 64);

            batch
        });
        let (heartbeat, alerts): (Vec<_>, Vec<_>) =
            alerts.partition(|alert| alert["labels"]["alertname"] == "LoopwatchWatchdog");

        assert_eq!(heartbeat.len(), 1);

        Some(alerts)
    }
}

#[test]
fn a_replica_that_cannot_see_causes_says_so() {
    let labels = |code: FindingCode, led_elsewhere: Option<Span>| {
        let (mut active, mut snapshot) = (
            ActiveAlerts::new(vec![], Links::default()),
            Snapshot { at: NOW, ..Snapshot::default() },
        );
        snapshot.operator.health.led_elsewhere = led_elsewhere.map(|ago| NOW.before(ago));
        snapshot.findings = vec![finding(code, "web", Span::mins(1))];
        active.update(&snapshot);

        active
            .firing
            .keys()
            .map(|key| active.labels_of(key).get("cause").cloned())
            .collect::<Vec<_>>()
    };

    let lately = Some(Span::secs(10));
    assert_eq!(labels(FindingCode::Unacknowledged, lately), [Some("unknown".to_owned())]);
    assert_eq!(labels(FindingCode::Unacknowledged, None), [None], "the leader");
    assert_eq!(
        labels(FindingCode::Failing, lately),
        [None],
        "nothing about the operator explains it"
    );
    assert_eq!(
        labels(FindingCode::Unacknowledged, Some(Span::mins(1))),
        [None],
        "it continues the alerts of the last leader"
    );
}

#[test]
fn an_alert_links_to_its_object_or_to_the_list_of_findings() {
    let url = |text: &str| Some(text.parse().expect("a URL"));
    let mut active = Watched::with(Links {
        page: url("https://loopwatch.example/a"),
        grafana: url("https://grafana.example"),
        runbooks: None,
    });
    let late = finding(FindingCode::Overdue, "late&x=<b>", Span::mins(1));
    let link = |alert: &Value| {
        assert_eq!(alert["generatorURL"], alert["annotations"]["page_url"]);

        let labels = alert["labels"].to_string();
        assert!(!labels.contains("late") && !labels.contains("https"), "{labels}");

        alert["generatorURL"].as_str().map(str::to_owned)
    };

    let alerts = active.after(Span::ZERO, std::slice::from_ref(&late)).expect("a posting");
    let object = "https://loopwatch.example/a/object?group=example.io&kind=Widget&namespace=team-a&name=late%26x%3D%3Cb%3E";

    assert_eq!(link(&alerts[0]).as_deref(), Some(object));

    let dashboard =
        "https://grafana.example/d/loopwatch-overview?var-kind=Widget&var-target_namespace=team-a";

    let runbook = "https://loopwatch.example/a/runbooks/Overdue";

    assert_eq!(alerts[0]["annotations"]["dashboard_url"], dashboard);
    assert_eq!(alerts[0]["annotations"]["runbook_url"], runbook);

    let other = finding(FindingCode::Overdue, "other", Span::mins(1));
    let alerts = active.after(Span::secs(5), &[late.clone(), other]).expect("a posting");

    assert_eq!(
        link(&alerts[0]).as_deref(),
        Some("https://loopwatch.example/a/?filter=Overdue+team-a#findings")
    );

    let resolved = active.after(Span::secs(10), &[]).expect("a posting");
    assert_eq!(link(&resolved[0]), link(&alerts[0]), "a resolved alert keeps its link");

    let mut without = Watched::new();
    let alerts = without.after(Span::ZERO, &[late]).expect("a posting");
    for key in ["generatorURL", "page_url", "dashboard_url"] {
        assert!(!alerts[0].to_string().contains(key), "{alerts:?}");
    }
}

fn time(at: Span) -> String {
    NOW.after(at).to_string()
}

#[test]
fn an_alert_about_a_controller_names_its_pod_and_the_namespace() {
    let mut failing = finding(FindingCode::ReconcileFailing, "", Span::mins(1));
    failing.subject = Subject::Controller { name: "widget".to_owned() };
    failing.evidence = Evidence::new().text("instance", "zoo-system/widget-operator-1");

    let alerts = Watched::new().after(Span::ZERO, &[failing]).expect("a posting");
    let text = |key: &str| alerts[0]["annotations"][key].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        text("summary"),
        "Controller zoo-system/widget failing all its reconciles for 1m (cluster production)"
    );

    for part in ["Controller in zoo-system: 1 affected.", "\nPod: widget-operator-1\n"] {
        assert!(text("description").contains(part), "{part}: {alerts:?}");
    }
}

#[test]
fn a_finding_fires_with_the_labels_of_the_rules_and_is_resolved_when_it_clears() {
    let mut active = Watched::new();
    let late = finding(FindingCode::Overdue, "late", Span::mins(1));
    let alerts = active.after(Span::ZERO, std::slice::from_ref(&late)).expect("a posting");
    let [alert] = &alerts[..] else { panic!("{alerts:?}") };
    let labels = serde_json::json!({
        "alertname": "LoopwatchFinding", "cluster": "production", "finding": "Overdue", "group": "example.io",
        "kind": "Widget", "severity": "warning", "target_namespace": "team-a",
    });

    assert_eq!(alert["labels"], labels);
    assert_eq!(
        (&alert["startsAt"], &alert["endsAt"]),
        (&time(Span::mins(-1)).into(), &time(Span::mins(5)).into())
    );

    let text = |key: &str| alert["annotations"][key].as_str().unwrap_or_default().to_owned();
    assert_eq!(text("summary"), "Widget team-a/late not converged for 1m (cluster production)");
    assert!(alert["annotations"]["runbook_url"].is_null(), "nobody has told loopwatch its URL");

    for part in [
        "Widget in team-a: 1 affected.",
        "Longest: late (1m).",
        "Next: kubectl",
        "late",
        "\nRunbook: loopwatch runbook Overdue\n",
    ] {
        assert!(text("description").contains(part), "{part}: {alert}");
    }

    assert_eq!(
        active.after(Span::secs(5), std::slice::from_ref(&late)),
        None,
        "nothing has changed"
    );

    let again = active.after(Span::secs(60), std::slice::from_ref(&late)).expect("a repetition");
    assert_eq!(
        (&again[0]["startsAt"], &again[0]["endsAt"]),
        (&alert["startsAt"], &time(Span::mins(6)).into())
    );

    let cleared = active.after(Span::secs(65), &[]).expect("a change");
    assert_eq!(
        (&cleared[0]["labels"], &cleared[0]["endsAt"]),
        (&alert["labels"], &time(Span::secs(65)).into())
    );

    let repeated = active.after(Span::mins(10), &[]).expect("a repetition");
    assert_eq!(repeated[0]["endsAt"], time(Span::secs(65)), "an Alertmanager may have been away");
    assert_eq!(active.after(Span::mins(17), &[]), Some(vec![]), "forgotten");
}

#[test]
fn an_alert_has_the_team_of_its_namespace_and_a_new_team_ends_the_old_alert() {
    let mut active =
        ActiveAlerts::new(vec![("team".to_owned(), "platform".to_owned())], Links::default());
    let late = finding(FindingCode::Overdue, "late", Span::mins(1));
    let mut post = |at: Span, namespace: &str, team: &str| {
        let teams = BTreeMap::from([(namespace.to_owned(), team.to_owned())]);
        active.update(&Snapshot {
            at: NOW.after(at),
            findings: vec![late.clone()],
            teams,
            ..Snapshot::default()
        });

        let bodies = active.posting().expect("a posting").bodies;
        let alerts: Vec<Value> = bodies
            .iter()
            .flat_map(|body| serde_json::from_slice::<Vec<Value>>(body).expect("JSON"))
            .collect();
        let alerts =
            alerts.iter().filter(|alert| alert["labels"]["alertname"] == "LoopwatchFinding");
        let show = |alert: &Value| {
            let state =
                if alert["endsAt"].as_str() > Some(time(at).as_str()) { "fires" } else { "ended" };
            format!("{} {state}", alert["labels"]["team"].as_str().unwrap_or("-"))
        };

        alerts.map(show).collect::<Vec<_>>()
    };

    assert_eq!(post(Span::ZERO, "team-a", "red"), ["red fires"]);
    assert_eq!(post(Span::mins(1), "team-a", "blue"), ["blue fires", "red ended"]);

    // Near miss: the team of another namespace. The label of the user applies, if there is one.
    let unknown = post(Span::mins(2), "team-b", "green");
    assert_eq!(unknown, ["platform fires", "blue ended", "red ended"]);
}

#[test]
fn a_critical_finding_has_an_alert_of_its_own_name_if_the_rules_have_one() {
    let mut active = Watched::new();
    let stuck = finding(FindingCode::FinalizerOwnerAbsent, "stuck", Span::mins(1));
    let mut lowered = finding(FindingCode::FinalizerOwnerAbsent, "lowered", Span::mins(1));
    lowered.severity = Severity::Warning;

    let alerts = active.after(Span::ZERO, &[stuck, lowered]).expect("a posting");
    let names: Vec<_> = alerts
        .iter()
        .map(|alert| alert["labels"]["alertname"].as_str().unwrap_or_default())
        .collect();

    assert_eq!(names, ["LoopwatchFinalizerOwnerAbsent", "LoopwatchFinding"]);
}

#[test]
fn findings_that_are_new_suspected_informative_or_explained_do_not_fire() {
    let mut active = Watched::new();
    let new = finding(FindingCode::Overdue, "new", Span::secs(14));
    let mut suspected = finding(FindingCode::Overdue, "suspected", Span::mins(1));
    suspected.confidence = Confidence::Suspected;

    let mut informative = finding(FindingCode::Overdue, "informative", Span::mins(1));
    informative.severity = Severity::Info;

    let mut explained = finding(FindingCode::StatusLag, "explained", Span::mins(1));
    (explained.explained_by, explained.alerts_from) = (Some(new.id), None);

    let all = [new, suspected, informative, explained];
    assert_eq!(active.after(Span::ZERO, &all), Some(vec![]));
    assert_eq!(
        active.after(Span::secs(1), &all).map(|alerts| alerts.len()),
        Some(1),
        "the first is 15 s old"
    );
}

#[test]
fn an_alert_that_fires_is_not_resolved_because_something_explains_it_now() {
    let mut active = Watched::new();
    let mut late = finding(FindingCode::Overdue, "late", Span::mins(1));

    assert_eq!(
        active.after(Span::ZERO, std::slice::from_ref(&late)).map(|alerts| alerts.len()),
        Some(1)
    );

    let cause = finding(FindingCode::NeverRecovered, "late", Span::secs(1));
    late.explained_by = Some(cause.id);

    let alerts = active.after(Span::mins(1), &[cause.clone(), late]).expect("a posting");
    let ends: Vec<_> = alerts.iter().map(|alert| &alert["endsAt"]).collect();

    assert_eq!(
        ends,
        [&Value::from(time(Span::mins(6))), &time(Span::mins(6)).into()],
        "{alerts:?}"
    );

    let alerts = active.after(Span::mins(2), &[cause]).expect("a posting");
    assert_eq!(
        alerts.iter().filter(|alert| alert["endsAt"] == time(Span::mins(2))).count(),
        1,
        "{alerts:?}"
    );
}

#[test]
fn a_finding_that_ends_soon_after_the_start_is_resolved_because_an_earlier_process_may_have_posted_it()
 {
    let mut active = Watched::new();
    let short = finding(FindingCode::Overdue, "short", Span::secs(1));

    assert_eq!(active.after(Span::ZERO, std::slice::from_ref(&short)), Some(vec![]));

    let alerts = active.after(Span::secs(5), &[]).expect("a change");
    assert_eq!(
        alerts.iter().map(|alert| &alert["endsAt"]).collect::<Vec<_>>(),
        [&time(Span::secs(5))]
    );

    // Later, no other process can have posted it: its alert would have expired.
    let mut active = Watched::new();
    active.after(Span::mins(-5), &[]);
    active.after(Span::ZERO, std::slice::from_ref(&short));

    assert_eq!(active.after(Span::secs(5), &[]), None);
}

#[test]
fn a_new_object_of_an_alert_that_fires_is_posted_at_once() {
    let mut active = Watched::new();
    let first = finding(FindingCode::Overdue, "first", Span::mins(1));
    active.after(Span::ZERO, std::slice::from_ref(&first));

    let second = finding(FindingCode::Overdue, "second", Span::ZERO);
    let alerts = active.after(Span::secs(5), &[first, second]).expect("a posting");

    assert!(
        alerts[0]["annotations"]["description"]
            .as_str()
            .is_some_and(|text| text.contains("2 affected"))
    );
    assert_eq!(
        alerts[0]["annotations"]["summary"],
        "Widget team-a/first and 1 other not converged for 1m5s (cluster production)"
    );
}

#[test]
fn ten_thousand_findings_stay_within_the_limit_and_critical_ones_find_room() {
    let of = |code, number: usize| {
        let mut finding = finding(code, "one", Span::mins(1));
        finding.subject = Subject::Object {
            group: "example.io".to_owned(),
            kind: "Widget".to_owned(),
            namespace: format!("team-{number}"),
            name: "one".to_owned(),
        };
        finding.id = FindingId::of(code, &finding.subject);

        finding
    };

    let mut findings: Vec<Finding> =
        (0..10_000).map(|number| of(FindingCode::Overdue, number)).collect();
    let mut active = ActiveAlerts::new(vec![], Links::default());
    let dropped =
        active.update(&Snapshot { at: NOW, findings: findings.clone(), ..Snapshot::default() });

    assert_eq!((active.firing().len(), dropped), (800, 9_200));

    findings.extend((0..100).map(|number| of(FindingCode::FinalizerOwnerAbsent, number)));
    active.update(&Snapshot { at: NOW, findings, ..Snapshot::default() });

    assert_eq!(active.firing().len(), 900);
}

#[test]
fn a_clock_that_is_set_back_makes_no_alert_that_ends_before_it_begins() {
    let mut active = Watched::new();
    let late = finding(FindingCode::Overdue, "late", Span::mins(1));
    let gone = finding(FindingCode::Unacknowledged, "gone", Span::mins(1));
    active.after(Span::ZERO, &[late.clone(), gone]);
    active.after(Span::mins(1), std::slice::from_ref(&late));

    let late =
        // As the model does.
        Finding { alerts_from: late.alerts_from.map(|from| from.before(Span::hours(1))), ..late };
    let alerts = active.after(Span::hours(-1), &[late]).expect("a repetition, by the new clock");
    let now = Value::from(time(Span::hours(-1)));
    let times: Vec<_> = alerts.iter().map(|alert| (&alert["startsAt"], &alert["endsAt"])).collect();

    assert_eq!(times, [(&now, &time(Span::mins(-55)).into()), (&now, &now)]);
}

/// Anybody who may annotate an object sets the beginning of `SoftDeleteLingering`. Alertmanager
/// rejects the whole request, with the alerts of others, if it cannot read one time.
#[test]
fn a_beginning_long_before_our_era_is_a_time_that_alertmanager_reads() {
    let mut active = Watched::new();
    let mut ancient = finding(FindingCode::SoftDeleteLingering, "ancient", Span::mins(1));
    ancient.since = Timestamp::parse("-009999-01-02T02:00:00Z").expect("a time");

    let alerts = active.after(Span::ZERO, &[ancient]).expect("a posting");
    assert_eq!(alerts[0]["startsAt"], "1970-01-01T00:00:00Z");

    let cleared = active.after(Span::secs(5), &[]).expect("a change");
    assert_eq!(cleared[0]["startsAt"], "1970-01-01T00:00:00Z");
}

/// A model that knows nothing yet, as after a panic, and the state of its discovery and of its only
/// watch.
fn rebuilt(at: Timestamp, discovered: bool, synced: bool) -> Snapshot {
    let watch = WatchSummary { synced, ..WatchSummary::default() };
    let discovery = SourceSummary {
        source: "discovery".to_owned(),
        up: discovered,
        ..SourceSummary::default()
    };

    Snapshot {
        at,
        observations: [("discovery", 1)].into(),
        sources: vec![discovery],
        kinds: vec![KindSummary { watches: vec![watch], ..KindSummary::default() }],
        ..Snapshot::default()
    }
}

#[test]
fn a_rebuilt_model_resolves_nothing_before_its_lists_are_complete() {
    let fires_until = |active: &mut ActiveAlerts| {
        let bodies = active.posting().expect("a posting").bodies;
        let alerts: Vec<Value> = serde_json::from_slice(&bodies[0]).expect("JSON");
        alerts
            .iter()
            .map(|alert| alert["endsAt"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };

    let late = finding(FindingCode::Overdue, "late", Span::mins(1));
    let old = Snapshot {
        findings: vec![late],
        observations: [("watch", 9)].into(),
        ..rebuilt(NOW, true, true)
    };
    let mut active = ActiveAlerts::new(vec![], Links::default());

    active.update(&old);
    assert_eq!(
        fires_until(&mut active),
        [time(Span::mins(5)), time(Span::mins(5))],
        "the heartbeat and the alert"
    );

    for new in [
        Snapshot::default(), // no observation has set its time
        rebuilt(NOW.after(Span::secs(2)), false, false),
        rebuilt(NOW.after(Span::secs(60)), true, false),
    ] {
        active.update(&new);
        assert_eq!(active.firing().len(), 1, "{new:?}");
    }

    assert_eq!(
        fires_until(&mut active),
        [time(Span::mins(6)), time(Span::mins(6))],
        "it is repeated"
    );

    active.update(&rebuilt(NOW.after(Span::secs(70)), true, true));
    assert_eq!(
        fires_until(&mut active),
        [time(Span::mins(6)).replace("06:00Z", "06:10Z"), time(Span::secs(70))]
    );

    // A list that never completes keeps nothing alive.
    active.update(&Snapshot {
        at: NOW.after(Span::secs(80)),
        observations: [("watch", 99)].into(),
        ..old
    });
    active.update(&rebuilt(NOW.after(Span::secs(90)), true, false));

    assert_eq!(active.firing().len(), 1);

    active.update(&rebuilt(NOW.after(Span::mins(7)), true, false));
    assert_eq!(active.firing().len(), 0);
}

#[test]
fn a_clock_that_was_ahead_does_not_keep_cleared_alerts_until_that_time_comes() {
    let mut active = Watched::new();
    let late = finding(FindingCode::Overdue, "late", Span::mins(1));
    active.after(Span::hours(100), std::slice::from_ref(&late));

    assert_eq!(active.after(Span::hours(101), &[]).map(|alerts| alerts.len()), Some(1));
    assert_eq!(
        active.after(Span::ZERO, &[]).map(|alerts| alerts.len()),
        Some(1),
        "by the new clock"
    );
    assert_eq!(active.after(Span::mins(16), &[]), Some(vec![]), "forgotten");
}

#[test]
fn texts_of_tenants_notify_nobody_and_are_no_links() {
    for (text, markup) in [
        ("ping @here", "@here"),
        ("<!channel> look", "<!channel>"),
        ("<@U123> <https://evil.example|the runbook>", "<@U"),
        ("see https://evil.example", "https://evil"),
        ("[the runbook](//evil.example)", "]("),
    ] {
        let shown = without_markup(text);

        assert!(!shown.contains(markup) && !shown.contains("://"), "{shown}");
        assert_eq!(shown.replace('\u{200b}', ""), text, "people read the same text");
    }

    assert_eq!(
        without_markup("Ready is False: 3 of 5 replicas"),
        "Ready is False: 3 of 5 replicas"
    );
}

/// loopwatch no longer judges the operator: its alerts must not stay until they expire, because another
/// operator may already page for the same objects.
#[test]
fn alerts_about_an_operator_that_nobody_judges_end_at_once() {
    let mut active = ActiveAlerts::new(vec![], Links::default()).about("ops/widgets");
    let findings = vec![finding(FindingCode::Failing, "web", Span::mins(9))];
    active.update(&Snapshot { at: NOW, findings, ..Snapshot::default() });
    let mut posted = || {
        let bodies = active.posting().expect("a posting").bodies;
        let [body] = &bodies[..] else { panic!("{} requests", bodies.len()) };
        active.clear_all();
        serde_json::from_slice::<Vec<Value>>(body).expect("JSON")
    };

    let ends = |alerts: &[Value]| match alerts {
        [alert] => {
            assert_eq!(alert["labels"]["operator"], "ops/widgets");
            assert_eq!(alert["labels"]["finding"], "Failing", "no heartbeat");
            alert["endsAt"].clone()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(ends(&posted()), serde_json::json!(NOW.after(LIFETIME)));
    assert_eq!(ends(&posted()), serde_json::json!(NOW));
}
