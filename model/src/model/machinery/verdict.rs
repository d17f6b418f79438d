//! Whether calls of a webhook or evaluations of a policy fail, according to the reports about it.

use crate::finding::{Evidence, FindingCode, Subject, Value};
use crate::model::findings::detection::Detection;
use crate::model::machinery::registrations::Registrations;
use crate::model::machinery::reports::{EndpointReport, Report, Reports};
use crate::model::operator::Operator;
use crate::model::status::reading::Verdict;
use crate::model::world::kinds::Kind;
use crate::model::world::store::Slot;
use crate::model::world::{World, subjects};
use crate::observation::{CallFailure, Consulted, OperatorView, PodView, SourceId};
use crate::time::{Span, Timestamp};

/// The reports about one webhook or policy, by their weight.
struct Case<'a> {
    consulted: &'a Consulted,
    /// The objects whose status reports it, as their controllers wrote it.
    objects: Vec<(Slot, &'a Report)>,
    /// The same for statuses that others may write.
    doubtful: Vec<&'a Report>,
    /// The failure of a watch of loopwatch.
    watch: Option<&'a Report>,
    events: Option<&'a Report>,
    /// The Service has no endpoint that is ready.
    endpoints: Option<&'a EndpointReport>,
}

/// How much longer the calls of a webhook of an operator that starts may fail.
const STARTS_WITHIN: Span = Span::secs(100);

/// How long a new Pod counts as starting.
const YOUNG: Span = Span::mins(2);

/// Times of Pods are whole seconds, and loopwatch learns of endpoints a moment later.
const REPLACED_IN: Span = Span::secs(2);

/// How much longer the calls must fail if only one object reports it.
const ALONE: i64 = 3;

/// The maximum number of objects that the evidence names.
const EXAMPLES: usize = 3;

/// Returns the finding about the failing calls of a webhook, or about a failing policy.
const fn code(consulted: &Consulted) -> FindingCode {
    match consulted {
        Consulted::Admission(_) => FindingCode::WebhookUnavailable,
        Consulted::Conversion { .. } => FindingCode::ConversionFailing,
        Consulted::Policy { .. } => FindingCode::AdmissionPolicyFailing,
    }
}

/// Returns the finding about a webhook or a policy, and its subject; `None` if loopwatch does not know the kind
/// that the webhook converts.
pub(super) fn subject(
    world: &World,
    registrations: &Registrations,
    consulted: &Consulted,
) -> Option<(FindingCode, Subject)> {
    let subject = match consulted {
        Consulted::Admission(name) => Subject::Webhook { name: name.clone() },
        Consulted::Policy { mutating, name } => {
            Subject::Policy { mutating: *mutating, name: name.clone() }
        }
        Consulted::Conversion { group, kind } => {
            let known = world.number_of_kind(group, kind).map(|kind| &world.kinds[kind as usize]);
            let name = known.map(|Kind { resource, .. }| format!("{resource}.{group}"));
            let registered = || registrations.definition_of(group, kind).map(str::to_owned);
            Subject::Definition { name: name.or_else(registered)? }
        }
    };

    Some((code(consulted), subject))
}

/// Returns the problem of a webhook or a policy, if anybody reports one. While a confirmed finding about it is open,
/// one report is enough.
pub(super) fn detect(
    world: &World,
    operator: &Operator,
    reports: &Reports,
    consulted: &Consulted,
    is_open: bool,
) -> Option<Detection> {
    let case = Case::of(world, reports, consulted);
    let after = world.settings.webhook_down_after;
    let wait = Span(after.0.saturating_add(patience(world, operator, &case).0));
    let alone = if is_open { Span::ZERO } else { Span(after.0.saturating_mul(ALONE - 1)) };
    let proof = case.proof(world.looks_once, alone, wait);
    let doubt = case.doubt(world.looks_once, wait);

    let is_proven = proof.is_some_and(|(_, due)| due <= world.now);
    let doubt = doubt.filter(|_| !is_proven);
    let (since, due) = match (proof, doubt) {
        (Some(proof), Some(doubt)) => (proof.0.min(doubt.0), proof.1.min(doubt.1)),
        (proof, doubt) => proof.or(doubt)?,
    };

    let code = code(consulted);
    let is_foreign = is_foreign(operator, case.service());
    let detection = Detection::new(world.now, code, since, due, || case.evidence(world));
    Some(
        detection
            .affecting(case.affects(world))
            .foreign_if(is_foreign)
            .suspected_if(!is_proven)
            .aside_if(!is_proven),
    )
}

impl<'a> Case<'a> {
    fn of(world: &World, reports: &'a Reports, consulted: &'a Consulted) -> Self {
        let hurt = || reports.of_objects(consulted).filter(|(slot, _)| is_hurt(world, *slot));
        let trusted = hurt().filter(|(_, it)| it.is_trusted);
        let doubtful = hurt().filter(|(_, it)| !it.is_trusted);
        Self {
            consulted,
            objects: trusted.map(|(slot, it)| (slot, &it.report)).collect(),
            doubtful: doubtful.map(|(_, it)| &it.report).collect(),
            watch: reports.of_watch(consulted),
            events: reports
                .of_events(consulted)
                .filter(|it| it.last.since(it.report.since) >= world.settings.webhook_down_after)
                .map(|it| &it.report),
            endpoints: reports.of_endpoints(consulted),
        }
    }

    /// Returns since when the failure is proven, and when it becomes a finding. One object may have
    /// kept an old status, so it needs more time.
    fn proof(&self, looks_once: bool, alone: Span, wait: Span) -> Option<(Timestamp, Timestamp)> {
        let mut begun: Vec<Timestamp> = self.objects.iter().map(|(_, it)| it.since).collect();
        begun.sort_unstable();
        let first = begun.first().map(|first| (*first, first.after(wait).after(alone)));
        let second = begun.get(1).map(|second| (begun[0], begun[0].after(wait).max(*second)));
        let watch = self.watch.map(|watch| (watch.since, watch.since.after(wait)));
        let endpoints = self.endpoints.filter(|_| !looks_once);
        let since = endpoints.map(|it| it.report.since);
        let endpoints = since.map(|since| (since, since.after(wait)));

        earliest([first, second, watch, endpoints])
    }

    /// Returns since when somebody says so who may be wrong, and when that becomes a finding. Endpoints
    /// that are seen only once may be about to become ready.
    fn doubt(&self, looks_once: bool, wait: Span) -> Option<(Timestamp, Timestamp)> {
        let doubtful = self.doubtful.iter().copied().chain(self.events);
        let since = doubtful.map(|report| report.since).min();
        let doubtful = since.map(|since| (since, since.after(wait)));
        let since = self.endpoints.filter(|_| looks_once).map(|it| it.report.since);
        let endpoints = since.map(|since| (since, since));

        earliest([doubtful, endpoints])
    }

    fn reports(&self) -> impl Iterator<Item = &'a Report> {
        let objects = self.objects.iter().map(|(_, report)| *report);
        self.watch
            .into_iter()
            .chain(objects)
            .chain(self.doubtful.iter().copied())
            .chain(self.events)
            .chain(self.endpoints.map(|it| &it.report))
    }

    /// Returns the Service, as `namespace/name`; empty if nobody names one.
    fn service(&self) -> &'a str {
        let mut services = self.reports().map(|report| report.call.service.as_str());
        services.find(|service| !service.is_empty()).unwrap_or_default()
    }

    fn evidence(&self, world: &World) -> Evidence {
        let objects = self.objects.len() + self.doubtful.len();
        let is_absent = self.endpoints.is_some_and(|it| it.is_absent);
        let seen_in = [
            (self.watch.is_some(), "watch of loopwatch"),
            (objects > 0, "status"),
            (self.events.is_some(), "Events"),
            (self.endpoints.is_some() && !is_absent, "EndpointSlices"),
            (is_absent, "Services"),
        ];
        let seen_in = seen_in.into_iter().filter(|(is_seen, _)| *is_seen);
        let causes = self.reports().map(|report| report.call.cause);
        let cause = causes.into_iter().find(|cause| *cause != CallFailure::Other);
        let examples = self.objects.iter().take(EXAMPLES);

        Evidence::new()
            .text("service", self.service())
            .text(
                "cause",
                if is_absent { "no Service" } else { cause.map_or("", CallFailure::as_str) },
            )
            .names("seen_in", seen_in.map(|(_, place)| place.to_owned()).collect())
            .with_some("objects", (objects > 0).then(|| Value::count(objects)))
            .names("examples", examples.map(|(slot, _)| world.subject(*slot).to_string()).collect())
    }

    /// Returns the kinds that depend on the webhook: those of the objects and of their owners, or the
    /// one that it converts, with the watches of that.
    fn affects(&self, world: &World) -> Vec<Subject> {
        let mut affects: Vec<Subject> = Vec::new();
        let mut add = |kind: Option<Subject>| {
            let new = kind.filter(|kind| !affects.contains(kind));
            affects.extend(new);
        };

        for (slot, _) in &self.objects {
            add(world.subject(*slot).whole_kind());
            let owners = world.owners_of(*slot).iter();
            let owners = owners.filter_map(|owner| world.find_uid(owner.uid()));
            owners.for_each(|owner| add(world.subject(owner).whole_kind()));
        }

        if let Consulted::Conversion { group, kind } = self.consulted {
            add(Some(Subject::Kind { group: group.clone(), kind: kind.clone() }));
            let watches = world.watches_of(group, kind);
            let source = |id| subjects::source(&SourceId::Watch(id));
            watches.for_each(|(_, watch)| add(Some(source(watch.id.clone()))));
        }

        affects
    }
}

/// Returns whether an object waits for something. One that has recovered may still have the message.
fn is_hurt(world: &World, slot: Slot) -> bool {
    world.store.get(slot).is_some_and(|record| {
        let is_done =
            matches!(record.verdict, Verdict::Converged | Verdict::Finished | Verdict::Suspended);
        !is_done || record.deletion().is_some()
    })
}

/// Returns how much longer the calls may fail, because the operator that answers them starts or is
/// replaced. The API server evaluates policies by itself.
fn patience(world: &World, operator: &Operator, case: &Case<'_>) -> Span {
    if matches!(case.consulted, Consulted::Policy { .. }) {
        return Span::ZERO;
    }

    let own = operator.view.as_ref().filter(|_| !is_foreign(operator, case.service()));
    let answered = case.endpoints.filter(|it| it.was_ready);
    let answered_until = answered.map(|it| it.report.since);
    let starts = own.is_some_and(|view| is_starting(world, view, answered_until));
    if starts { STARTS_WITHIN } else { Span::ZERO }
}

/// Returns whether the operator starts, is replaced, or does not run at all: then it may start again, or
/// the finding about its absence opens first. A Pod that has already answered, until it no longer did, does
/// not start; the one that replaces it may have been created in the second before.
fn is_starting(world: &World, view: &OperatorView, answered_until: Option<Timestamp>) -> bool {
    let is_new = |at: Timestamp| answered_until.is_none_or(|until| until.before(REPLACED_IN) <= at);
    let is_recent = |at: Timestamp| world.now.since(at) < YOUNG && is_new(at);
    let started = |pod: &PodView| pod.containers.first().and_then(|it| it.running_since);
    let is_young = |pod: &PodView| started(pod).or(pod.created).is_none_or(is_recent);
    let mut remaining = view.pods.iter().filter(|pod| pod.deleted.is_none());

    view.workload.as_ref().is_some_and(|workload| workload.rolling)
        || remaining.clone().any(is_young)
        || remaining.all(|pod| started(pod).is_none())
}

/// Returns whether another program than the operator answers the calls: its Service is in another
/// namespace. Without a name of the Service, it may be the operator.
fn is_foreign(operator: &Operator, service: &str) -> bool {
    let namespace = service.split_once('/').map(|(namespace, _)| namespace);
    let own = operator.view.as_ref().map(|view| view.namespace.as_str());
    namespace.zip(own).is_some_and(|(namespace, own)| namespace != own)
}

/// Returns the earliest start, and the earliest due time.
fn earliest<const N: usize>(
    all: [Option<(Timestamp, Timestamp)>; N],
) -> Option<(Timestamp, Timestamp)> {
    let all = || all.iter().flatten();
    Some((all().map(|(since, _)| *since).min()?, all().map(|(_, due)| *due).min()?))
}
