//! Opens findings as the settings, the annotations and the limits allow.

use crate::finding::{Alert, Evidence, FindingCode, Subject, Value};
use crate::model::findings::detection::{Detection, percent_of};
use crate::model::findings::open_findings::{OpenFindings, PageRule, PagesIf, Raised, Report};
use crate::model::findings::tuning::{self, Tuned};
use crate::model::world::kinds::{Watch, WatchNamespace};
use crate::model::world::limits::Limit;
use crate::model::world::timers::Timer;
use crate::model::world::visibility::Visibility;
use crate::model::world::{World, subjects};
use crate::observation::{Role, SourceId};
use crate::time::Span;

/// The smallest number of objects that counts as a share of their kind. Many kinds have one object in
/// a cluster, and one object is not many.
const SHARE_OF_AT_LEAST: usize = 2;

/// How long the finding about a limit stays open after the last drop.
const LIMIT_REACHED_FOR: Span = Span::mins(10);

impl OpenFindings {
    /// Opens or updates the finding of a detection, or closes it if settings or annotations disable
    /// it. Counts the finding as dropped if too many are open.
    ///
    /// If limits have been exceeded since the last report, the findings about them open first.
    pub(crate) fn report(&mut self, world: &mut World, subject: Subject, detection: Detection) {
        self.report_exceeded_limits(world);
        self.report_one(world, subject, detection);
    }

    /// Opens the findings about the limits that have been exceeded since the last call.
    pub(crate) fn report_exceeded_limits(&mut self, world: &mut World) {
        for limit in world.dropped.take_exceeded() {
            self.report_exceeded(world, limit);
        }
    }

    fn report_exceeded(&mut self, world: &mut World, limit: Limit) {
        let (now, bound) = (world.now, limit.max(&world.settings.limits));
        let count = i64::try_from(world.dropped.by(limit)).unwrap_or(i64::MAX);
        let evidence =
            Evidence::new().with("dropped", Value::Count(count)).with("bound", Value::count(bound));
        let subject = subject(limit);
        let detection = Detection::new(now, FindingCode::LimitReached, now, now, || evidence);

        self.report_one(world, subject.clone(), detection);
        self.hold(FindingCode::LimitReached, &subject, now.after(LIMIT_REACHED_FOR));
        self.close_held(world);
    }

    fn report_one(&mut self, world: &mut World, subject: Subject, detection: Detection) {
        let Tuned { enabled, severity, is_fixed } =
            tuning::of_subject(world, detection.code, &subject);
        if !enabled {
            return self.clear(world.now, detection.code, &subject);
        }

        let of_operator = !detection.foreign && is_work_of_operator(world, &subject);
        let pages_if = pages_if(world, &subject, &detection);
        let report = Report { subject, detection, severity, is_fixed, of_operator, pages_if };
        if self.raise(world.now, report, world.settings.limits.findings) == Raised::Dropped {
            world.count_dropped(Limit::Findings);
        }
    }

    /// Keeps the finding about a limit open while the limit leaves anything out.
    pub(crate) fn hold_limits(&mut self, world: &World) {
        let active = || world.watches.iter().filter(|watch| watch.active);
        let has_shared = |watch: &Watch| watch.namespaces.iter().any(WatchNamespace::is_shared);
        let left_out = [
            (Limit::Objects, active().any(|watch| !watch.lists.excluded.is_empty())),
            (Limit::Namespaces, active().any(has_shared)),
            (Limit::Watches, world.watches_left_out),
            (Limit::Findings, self.has_waiting()),
        ];

        let until = world.now.after(LIMIT_REACHED_FOR);
        for (limit, _) in left_out.into_iter().filter(|(_, left_out)| *left_out) {
            self.hold(FindingCode::LimitReached, &subject(limit), until);
        }
    }

    /// Gives the findings that page by now the severity for it.
    pub(crate) fn page_due(&mut self, world: &World) {
        self.page(world.now, |subject| is_seen(world, subject));
    }

    /// Sets the timer if a finding pages, or raises its cause, before the timer is due.
    pub(crate) fn set_timer(&mut self, world: &mut World) {
        let raise = self.next_rise().filter(|at| self.due.is_none_or(|due| *at < due));
        if raise.is_some() {
            let old = std::mem::replace(&mut self.due, raise);
            world.agenda.timers.set(Timer::Findings, old, raise);
        }
    }

    /// Closes the held findings whose time is over, and sets the timer for the next one.
    pub(crate) fn close_held(&mut self, world: &mut World) {
        self.page_due(world);
        let due = self.expire(world.now);
        let old = std::mem::replace(&mut self.due, due);
        world.agenda.timers.set(Timer::Findings, old, due);
    }
}

fn subject(limit: Limit) -> Subject {
    Subject::Limit { name: limit.as_str().to_owned() }
}

/// Returns whether loopwatch sees an object, or whatever else a finding is about.
fn is_seen(world: &World, subject: &Subject) -> bool {
    let Subject::Object { group, kind, namespace, .. } = subject else { return true };
    let mut watches = world.watches_of(group, kind).filter(|(_, watch)| watch.covers(namespace));
    watches.all(|(_, watch)| watch.visibility(world.now) != Visibility::Lost)
}

/// Returns whether loopwatch sees all objects of a kind.
fn is_complete(world: &World, group: &str, kind: &str) -> bool {
    let mut watches = world.watches_of(group, kind);
    watches.all(|(_, watch)| watch.visibility(world.now) != Visibility::Lost)
}

/// Returns when a finding about an object pages, if it ever does.
fn pages_if(world: &World, subject: &Subject, detection: &Detection) -> Option<PagesIf> {
    let Subject::Object { group, kind, namespace, .. } = subject else { return None };
    let is_critical = || detection.critical || world.namespaces.is_critical(namespace);
    let rule = match detection.code.info().alert {
        Alert::Page if is_critical() => PageRule::AtOnce,
        Alert::Page => PageRule::ManyOrLasting,
        Alert::TicketUnlessMost => PageRule::MostLasting,
        _ => return None,
    };

    let number = world.number_of_kind(group, kind)?;
    let settings = &world.settings;
    let objects = settings.page_objects.max(1) as usize;
    let share = percent_of(world.kinds[usize::from(number)].objects, settings.page_percent);
    let at_least = match rule {
        PageRule::AtOnce | PageRule::ManyOrLasting => SHARE_OF_AT_LEAST,
        PageRule::MostLasting => objects,
    };

    // Objects that nobody sees may be many, and in other namespaces.
    let is_complete = is_complete(world, group, kind);
    let share = if is_complete { share } else { usize::MAX };
    let has_namespaces = !is_complete || world.namespaces_with_objects(number).nth(1).is_some();

    Some(PagesIf {
        rule,
        objects,
        share: share.max(at_least),
        has_namespaces,
        lasts: settings.page_after,
        counts_from_due: world.looks_once,
    })
}

/// Returns whether findings about the operator may explain findings about a subject. These subjects
/// are the operator, its controllers, its primary kinds, their objects, webhooks, and the sources
/// that read from its processes.
fn is_work_of_operator(world: &World, subject: &Subject) -> bool {
    let (group, kind) = match subject {
        Subject::Operator { .. } | Subject::Controller { .. } => return true,
        // The operator often serves these itself. If it does not, the detector says so.
        Subject::Webhook { .. } | Subject::Definition { .. } => return true,
        Subject::Source { .. } => {
            let of_operator = [SourceId::Metrics, SourceId::Process, SourceId::Profiles];
            return of_operator.iter().any(|id| subjects::source(id) == *subject);
        }
        Subject::Object { group, kind, .. } | Subject::Kind { group, kind } => (group, kind),
        _ => return false,
    };

    let mut primary =
        world.kinds.iter().filter(|kind| kind.role == Role::Primary && !kind.suspected);
    primary.any(|known| *known.kind == **kind && *known.group == **group)
}
