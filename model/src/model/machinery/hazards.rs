//! Registered webhooks that cannot answer calls, or that will not be able to: their certificates, and
//! those that the Pods behind them need to start.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::{Confidence, Evidence, FindingCode, Subject, Value};
use crate::model::findings::detection::Detection;
use crate::model::machinery::latencies::{Latencies, WINDOW};
use crate::model::machinery::registrations::{Conversion, Registration, Registrations};
use crate::model::operator::Operator;
use crate::model::world::World;
use crate::observation::{CaBundle, WebhookRule, WebhookView};
use crate::time::{Span, Timestamp};

/// How long before its end a certificate must have been replaced, if it is valid for longer than ten
/// times as long. The Operator Lifecycle Manager and Knative replace theirs a day before the end,
/// cert-manager earlier.
const RENEWED_BEFORE: Span = Span::hours(12);

/// A shorter life leaves less time for this: a tenth of it. Programs that issue such certificates
/// replace them after two thirds of their life or, like Knative, after six sevenths.
const OF_LIFE: i64 = 10;

/// How long a new configuration may be without authorities. cert-manager and other programs write them
/// after somebody has created it.
const INJECTED_WITHIN: Span = Span::mins(5);

/// The number of calls within the window from which the mean duration counts.
const ENOUGH_CALLS: u64 = 3;

/// The part of its timeout that a webhook may use on average. An open finding closes at half of it.
const OF_TIMEOUT: f64 = 0.5;

/// Returns the problems of all webhooks that cover the operator's kinds or Pods. The same problem of
/// several configurations is one. `open` has the findings that are open.
pub(super) fn detections(
    world: &World,
    operator: &Operator,
    registrations: &Registrations,
    latencies: &Latencies,
    open: &BTreeSet<(FindingCode, Subject)>,
) -> BTreeMap<(FindingCode, Subject), Detection> {
    let mut detections = BTreeMap::new();
    for registration in registrations.covering(world) {
        let subject = Subject::Webhook { name: registration.view.name.clone() };
        let is_slow = open.contains(&(FindingCode::WebhookSlow, subject.clone()));
        let slow = slow(world, operator, (registrations, latencies), &registration.view, is_slow)
            .filter(|_| !registrations.is_path_of_others(&registration.view));
        let certificate = certificate_of_webhook(world, registration);
        let deadlock = deadlock(world, operator, &registration.view);
        for detection in [Some(certificate), deadlock, slow].into_iter().flatten() {
            let key = (detection.code, subject.clone());
            let rank = |it: &Detection| {
                let is_early = it.due > world.now;
                (is_early, it.harmless, it.confidence != Confidence::Confirmed, it.due)
            };
            let known = detections.get(&key).map(rank);
            if known.is_none_or(|known| rank(&detection) < known) {
                detections.insert(key, detection);
            }
        }
    }

    let conversions =
        registrations.converting(world).map(|(name, Conversion { view, ca_since, .. })| {
            let evidence = Evidence::new().text("service", view.service.as_str());
            let subject = Subject::Definition { name: name.clone() };
            let detection = certificate(world, view.ca, *ca_since, evidence);
            ((detection.code, subject), detection)
        });
    detections.extend(conversions);

    detections
}

fn certificate_of_webhook(world: &World, registration: &Registration) -> Detection {
    let Registration { view, ca_since } = registration;
    let evidence = Evidence::new()
        .text("service", view.service.as_str())
        .text("configuration", view.configuration.as_str());
    certificate(world, view.ca, *ca_since, evidence).harmless_if(!view.fails_closed)
}

/// The API server cannot verify the certificate of a webhook, or soon no longer. `place` says which webhook
/// it is.
fn certificate(world: &World, ca: CaBundle, ca_since: Timestamp, place: Evidence) -> Detection {
    let patience =
        |patience: Span| if world.looks_once { ca_since } else { ca_since.after(patience) };
    let (problem, until, since, due) = match ca {
        CaBundle::Absent => ("no authority", None, ca_since, patience(INJECTED_WITHIN)),
        CaBundle::Unreadable => {
            let due = patience(world.settings.webhook_down_after);
            ("no readable authority", None, ca_since, due)
        }
        CaBundle::Valid { until, .. } if until <= world.now => {
            ("expired", Some(until), until, until)
        }
        CaBundle::Valid { from, until } => {
            let lead = RENEWED_BEFORE.min(Span(until.since(from).0 / OF_LIFE));
            let due = Timestamp(until.0.saturating_sub(lead.0));
            ("expires soon", Some(until), due, due)
        }
    };

    let evidence =
        || place.text("problem", problem).with_some("valid_until", until.map(Value::Time));
    let code = FindingCode::WebhookCertificate;
    let detection = Detection::new(world.now, code, since, due, evidence);

    // The API server may know the authority in another way.
    detection.suspected_if(ca == CaBundle::Absent).aside_if(true)
}

/// The webhook decides on the Pods behind its own Service: once none of them runs, none can start.
fn deadlock(world: &World, operator: &Operator, view: &WebhookView) -> Option<Detection> {
    let (namespace, _) = view.service.split_once('/')?;
    let covers_pods = |rule: &WebhookRule| rule.creations && rule.covers_pods();
    let is_own = operator.view.as_ref().is_none_or(|own| own.namespace == namespace);
    let is_certain = view.fails_closed && !view.some_objects && view.namespaces.contains(namespace);
    if !is_certain || !is_own || !view.rules.iter().any(covers_pods) {
        return None;
    }

    let evidence = || {
        let evidence = Evidence::new().text("service", view.service.as_str());
        evidence.text("configuration", view.configuration.as_str())
    };
    let detection =
        Detection::new(world.now, FindingCode::WebhookDeadlock, world.now, world.now, evidence);
    Some(detection.aside_if(true))
}

/// The operator needs so long for its answers that the API server may soon give up. `is_open` tells whether
/// the finding about that is open.
fn slow(
    world: &World,
    operator: &Operator,
    (registrations, latencies): (&Registrations, &Latencies),
    view: &WebhookView,
    is_open: bool,
) -> Option<Detection> {
    let (namespace, _) = view.service.split_once('/')?;
    let is_own = operator.view.as_ref().is_some_and(|own| own.namespace == namespace);
    let calls = latencies.recent(&view.path);
    let timeout = view.timeout_or_default();
    let part = if is_open { OF_TIMEOUT / 2.0 } else { OF_TIMEOUT };
    let needed = if is_open { 1 } else { ENOUGH_CALLS };
    if !is_own || calls.count < needed || calls.mean() < timeout.seconds() * part {
        return None;
    }

    let longest_wait = registrations.longest_wait(world, view).filter(|wait| *wait > timeout);
    let evidence = || {
        Evidence::new()
            .with("mean", Value::Span(Span::of_seconds(calls.mean())))
            .with("timeout", Value::Span(timeout))
            .with("calls", Value::count(calls.count))
            .with("window", Value::Span(WINDOW))
            .with_some("longest_wait", longest_wait.map(Value::Span))
            .text("service", view.service.as_str())
            .text("configuration", view.configuration.as_str())
    };
    let code = FindingCode::WebhookSlow;
    let detection = Detection::new(world.now, code, world.now, world.now, evidence);
    Some(detection.aside_if(true).harmless_if(!view.fails_closed))
}
