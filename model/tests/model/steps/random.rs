//! Random histories of all kinds of observations, with two kinds and two watches of each.

use std::collections::BTreeMap;

use loopwatch_model::finding::{FindingCode, Severity, Subject};
use loopwatch_model::model::Model;
use loopwatch_model::observation::*;
use loopwatch_model::settings::{FindingRule, Limits, Selector, Settings};
use loopwatch_model::snapshot::{Cursor, ObjectState};
use loopwatch_model::time::{Span, Timestamp};
use loopwatch_model::trace::StepKind;

use crate::lab::{START, Widget};

/// The xorshift64* generator (Vigna 2016): each seed gives the same history on every platform.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}

const KINDS: [&str; 2] = ["Widget", "Gadget"];

const NAMESPACES: [&str; 2] = ["team-a", "team-b"];

fn watch_of(kind: usize, namespace: usize) -> WatchId {
    WatchId(format!("{}s.example.io/{}", KINDS[kind].to_lowercase(), NAMESPACES[namespace]).into())
}

fn watched(kind: usize, namespace: usize) -> WatchedKind {
    WatchedKind {
        watch: watch_of(kind, namespace),
        kind: KINDS[kind].into(),
        resource: format!("{}s", KINDS[kind].to_lowercase()),
        scope: Scope::Namespace(NAMESPACES[namespace].into()),
        ..crate::lab::kind()
    }
}

/// What exists, and how it is observed. `step` is the offset of the clock of the timestamps.
struct World {
    dice: Dice,
    now: Timestamp,
    version: u64,
    epoch: u64,
    objects: BTreeMap<(usize, usize, String), Widget>,
    annotated: BTreeMap<(usize, usize, String), BTreeMap<String, String>>,
    kinds: Vec<WatchedKind>,
    history: Vec<(Timestamp, Observation)>,
    with_steps: bool,
}

impl World {
    fn new(seed: u64, with_steps: bool) -> Self {
        let kinds = (0..4).map(|n| watched(n / 2, n % 2)).collect();
        Self {
            dice: Dice(seed | 1),
            now: START,
            version: 1000,
            epoch: 0,
            objects: BTreeMap::new(),
            annotated: BTreeMap::new(),
            kinds,
            history: Vec::new(),
            with_steps,
        }
    }

    fn tell(&mut self, observation: Observation) {
        self.history.push((self.now, observation));
    }

    fn view(&mut self, key: &(usize, usize, String)) -> Option<Box<ObjectView>> {
        self.version += 1;
        let mut view = self.objects.get(key)?.view(self.version);
        view.key.namespace = NAMESPACES[key.1].into();
        view.annotations = self.annotated.get(key).cloned().unwrap_or_default();

        // Every other object has an owner; some of these own each other.
        let owners =
            self.objects.iter().filter(|(other, owner)| *other != key && owner.uid % 3 == 0);
        view.owners = owners
            .take(usize::from(view.uid.ends_with(['0', '4', '8', 'c'])))
            .map(|(other, owner)| {
                let owner = owner.view(0);
                OwnerReference {
                    api_version: "example.io/v1".into(),
                    kind: KINDS[other.0].into(),
                    name: owner.key.name,
                    uid: owner.uid,
                    blocks_deletion: true,
                    ..OwnerReference::default()
                }
            })
            .collect();

        Some(Box::new(view))
    }

    fn apply(&mut self, key: &(usize, usize, String)) {
        if let Some(object) = self.view(key) {
            self.tell(Observation::Applied { watch: watch_of(key.0, key.1), object });
        }
    }

    fn list(&mut self, kind: usize, namespace: usize, complete: bool) {
        let watch = watch_of(kind, namespace);
        self.epoch += 1;

        let epoch = self.epoch;
        self.tell(Observation::ListBegan { watch: watch.clone(), epoch });

        let keys: Vec<_> =
            self.objects.keys().filter(|k| (k.0, k.1) == (kind, namespace)).cloned().collect();
        for key in keys {
            if self.dice.one_in(5) {
                self.pass(20_000);
            }
            if let Some(object) = self.view(&key) {
                self.tell(Observation::Listed { watch: watch.clone(), object });
            }
        }

        if complete {
            self.version += 1;
            self.tell(Observation::ListEnded { watch, epoch, version: self.version.to_string() });
        }
    }

    fn list_all(&mut self) {
        for n in 0..4 {
            self.list(n / 2, n % 2, true);
        }
    }

    fn pass(&mut self, at_most_ms: u64) {
        self.now = self.now.after(Span(self.dice.roll(at_most_ms) as i64));
    }

    fn settings(&mut self) -> Settings {
        let severities = [None, Some(Severity::Critical), Some(Severity::Info)];
        let mut findings = BTreeMap::new();
        for name in ["all", "Failing", "Overdue", "Regressed", "StatusSubresourceMissing"] {
            if self.dice.one_in(4) {
                let namespaces = match self.dice.roll(3) {
                    0 => Selector { include: vec!["team-a".into()], exclude: Vec::new() },
                    _ => Selector::default(),
                };
                let enabled = self.dice.one_in(2).then(|| self.dice.one_in(2));
                let severity = severities[self.dice.roll(3) as usize];

                findings.insert(
                    name.to_owned(),
                    vec![FindingRule { namespaces, enabled, severity, ..Default::default() }],
                );
            }
        }

        let limits = Limits {
            histories: 1 + self.dice.roll(20) as usize,
            findings: 1 + self.dice.roll(20) as usize,
            objects: 4 + self.dice.roll(30) as usize,
            namespaces: 2,
            ..Limits::default()
        };

        Settings {
            deadline: Span::secs(60 + self.dice.roll(600) as i64),
            learn_after: self.dice.roll(30) as u32,
            failing_objects: 1 + self.dice.roll(3) as u32,
            limits,
            findings,
            ..Settings::default()
        }
    }

    fn step(&mut self) {
        let (kind, namespace) = (self.dice.roll(2) as usize, self.dice.roll(2) as usize);
        let key = (kind, namespace, format!("w{}", self.dice.roll(3)));
        let source = SourceId::Watch(watch_of(kind, namespace));
        let now = self.now;

        match self.dice.roll(48) {
            40..=45 => self.operator(),
            46.. => self.webhooks(),
            0..=2 => {
                let mut widget = Widget::new(&key.2, now);
                widget.uid = self.dice.roll(1 << 40);
                self.objects.insert(key.clone(), widget);

                if !self.dice.one_in(5) {
                    self.apply(&key);
                }
            }
            3 => {
                if let Some(widget) = self.objects.remove(&key)
                    && !self.dice.one_in(3)
                {
                    self.version += 1;
                    let (mut key, version) = (widget.key(), self.version.to_string());
                    key.namespace = NAMESPACES[namespace].into();
                    self.tell(Observation::Deleted {
                        watch: watch_of(kind, namespace),
                        key,
                        version,
                    });
                }
            }
            4 | 5 => {
                let complete = !self.dice.one_in(4);
                self.list(kind, namespace, complete);
            }
            6 => self.lease(),
            7..=9 => self.pass(100_000),
            10 => self.pass(3_600_000),
            11..=12 => {
                let cause = Cause::Connection;
                self.tell(Observation::SourceFailed { source, cause, detail: String::new() });
            }
            13..=15 => self.tell(Observation::SourceRecovered { source }),
            16 => {
                let settings = self.settings();
                self.tell(Observation::SettingsChanged(Box::new(settings)));
            }
            17 => {
                let text = ["all", "Failing,Overdue", "Nonsense", ""][self.dice.roll(4) as usize];
                let mut annotations: BTreeMap<String, String> = BTreeMap::new();
                if !text.is_empty() {
                    annotations.insert("loopwatch.dev/ignore".into(), text.into());
                }

                if self.dice.one_in(2) {
                    annotations.insert("loopwatch.dev/deadline".into(), "2m".into());
                }

                let name = NAMESPACES[namespace].to_owned();
                match self.dice.roll(3) {
                    0 => self.tell(Observation::NamespaceGone(name)),
                    1 => {
                        let deleted = self.dice.one_in(2).then_some(self.now);
                        let view = NamespaceView {
                            name,
                            annotations,
                            deleted,
                            ..NamespaceView::default()
                        };

                        self.tell(Observation::NamespaceSeen(view));
                    }
                    _ => {
                        self.annotated.insert(key.clone(), annotations);
                        self.apply(&key);
                    }
                }
            }
            18 => {
                let by_ms = self.dice.roll(7_200_000) as i64 - 3_600_000;
                if self.with_steps {
                    self.now = self.now.after(Span(by_ms));
                    self.tell(Observation::ClockStepped { by_ms });
                }
            }
            19 => self.tell(Observation::Skipped { source, cause: Cause::TooLarge }),
            20 | 21 => {
                let n = self.dice.roll(4) as usize;
                match self.dice.roll(5) {
                    0 => self.kinds[n].missing = vec!["list".into()],
                    1 => self.kinds[n].missing.clear(),
                    2 => self.kinds[n].suspected = !self.kinds[n].suspected,
                    3 => self.kinds[n].version = format!("v{}", self.dice.roll(3)),
                    _ => {
                        self.kinds[n].status =
                            [StatusSchema::InBody, StatusSchema::Subresource][n % 2]
                    }
                }

                let without = self.dice.roll(12) as usize;
                let list = self
                    .kinds
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| *i != without)
                    .map(|(_, k)| k.clone());

                let list = list.collect();
                self.tell(Observation::KindsDiscovered(list));
            }
            22 => {
                let status =
                    [StatusSchema::InBody, StatusSchema::Subresource][self.dice.roll(2) as usize];
                let deleted = self.dice.one_in(3).then_some(self.now);
                let name = "widgets.example.io".into();
                let definition = DefinitionView { name, status, deleted, ..Default::default() };

                self.tell(Observation::DefinitionSeen(definition));
            }
            change => self.change(&key, change),
        }

        if self.dice.one_in(2) {
            self.pass(3_000);
        }
    }

    /// Something happens to the lease of the operator, or to its source.
    fn lease(&mut self) {
        let (namespace, name) = ("ops".to_owned(), "example.io".to_owned());
        let source = SourceId::Lease;
        let observation = match self.dice.roll(8) {
            0 => Observation::LeaseGone { namespace, name },
            1 => {
                Observation::SourceFailed { source, cause: Cause::Forbidden, detail: String::new() }
            }
            2 => Observation::SourceOff { source, reason: String::new() },
            3 => Observation::LeasesListed { namespace, names: Vec::new() },
            4 => Observation::LeasesListed { namespace, names: vec![name] },
            _ => {
                let holder =
                    if self.dice.one_in(5) { "" } else { "widget-operator-1-2_3" }.to_owned();
                let (renewed, written) = (Some(self.now), Some(self.now));
                let lease =
                    LeaseView { namespace, name, holder, renewed, written, ..LeaseView::default() };

                Observation::LeaseSeen(lease)
            }
        };

        self.tell(observation);
    }

    /// Somebody changes a webhook, or its endpoints change.
    fn webhooks(&mut self) {
        let service = ["ops/hook", "ops/other", "team-a/hook", "odd"][self.dice.roll(4) as usize];
        let service = service.to_owned();
        let ca = match self.dice.roll(4) {
            0 => CaBundle::Absent,
            1 => CaBundle::Unreadable,
            _ => {
                let until = self.earlier().unwrap_or(self.now).after(Span::hours(1));
                CaBundle::Valid { from: Timestamp(0), until }
            }
        };

        let observation = match self.dice.roll(4) {
            0 => {
                let ready = self.dice.roll(2) as u32;
                let absent = ready == 0 && self.dice.one_in(3);
                let some = !self.dice.one_in(3);
                let endpoints = some.then_some(EndpointsView { service, ready, absent });
                Observation::EndpointsListed(endpoints.into_iter().collect())
            }
            1 => Observation::DefinitionSeen(DefinitionView {
                name: "widgets.example.io".into(),
                group: "example.io".into(),
                kind: "Widget".into(),
                served: vec!["v1".into(), "v2".into()],
                conversion: self.dice.one_in(2).then_some(ConversionView { service, ca }),
                ..DefinitionView::default()
            }),
            _ => {
                let kind = WebhookKind::ALL[self.dice.roll(2) as usize];
                let webhooks = (0..self.dice.roll(3)).map(|number| WebhookView {
                    configuration: "hooks".into(),
                    name: format!("v{number}.example.io"),
                    service: service.clone(),
                    path: "/validate".into(),
                    ca,
                    fails_closed: self.dice.one_in(2),
                    rules: vec![WebhookRule {
                        groups: vec![["*", "", "example.io"][self.dice.roll(3) as usize].into()],
                        resources: vec!["*".into()],
                        creations: self.dice.one_in(2),
                        cluster_scoped: self.dice.one_in(5),
                    }],
                    ..WebhookView::default()
                });
                let webhooks = webhooks.collect();
                Observation::WebhooksListed { kind, webhooks }
            }
        };

        self.tell(observation);
    }

    /// Something happens to the operator, or to a source that shows it.
    fn operator(&mut self) {
        let instance = ["ops/widget-operator-1-2", "ops/widget-operator-1-3", "127.0.0.1:8080"]
            [self.dice.roll(3) as usize];
        let instance = instance.to_owned();
        let source = [SourceId::Pods, SourceId::Metrics, SourceId::Process]
            [self.dice.roll(3) as usize]
            .clone();
        let causes = [Cause::Refused, Cause::Timeout, Cause::Forbidden];
        let (cause, detail) = (causes[self.dice.roll(3) as usize], String::new());

        let observation = match self.dice.roll(12) {
            0..=3 => Observation::OperatorSeen(Box::new(self.operator_view())),
            4..=6 => Observation::MetricsScraped(Box::new(self.metrics(instance))),
            7 => Observation::ScrapeFailed { instance, cause, detail },
            8 => {
                let (pid, started) = (Some(self.dice.roll(9) as u32), self.earlier());
                Observation::ProcessSeen(Box::new(ProcessView {
                    instance,
                    pid,
                    started,
                    ..ProcessView::default()
                }))
            }
            9 => Observation::ProcessGone { instance },
            10 => Observation::SourceFailed { source, cause, detail },
            _ => Observation::SourceRecovered { source },
        };

        self.tell(observation);
    }

    /// An instant within the last two hours, perhaps.
    fn earlier(&mut self) -> Option<Timestamp> {
        let ago = Span(-(self.dice.roll(7_200_000) as i64));
        (!self.dice.one_in(4)).then(|| self.now.after(ago))
    }

    fn operator_view(&mut self) -> OperatorView {
        let pods = self.dice.roll(3);
        let pods = (0..pods).map(|number| {
            let ended = self.dice.one_in(2).then(|| ContainerEnd {
                reason: ["Error", "OOMKilled", "Completed"][self.dice.roll(3) as usize].into(),
                exit_code: self.dice.roll(3) as i32,
                started: self.earlier(),
                finished: self.earlier(),
                ..ContainerEnd::default()
            });

            let container = ContainerView {
                running_since: if self.dice.one_in(2) { None } else { self.earlier() },
                restarts: self.dice.roll(8) as u32,
                ended,
                ..ContainerView::default()
            };

            PodView {
                name: format!("widget-operator-1-{}", number + 2),
                uid: format!("{}", self.dice.roll(4)),
                own: self.dice.one_in(6),
                created: self.earlier(),
                deleted: if self.dice.one_in(6) { self.earlier() } else { None },
                containers: if self.dice.one_in(9) { Vec::new() } else { vec![container] },
                ..PodView::default()
            }
        });

        let pods = pods.collect();
        let workload = (!self.dice.one_in(3)).then(|| OperatorWorkload {
            replicas: self.dice.roll(3) as u32,
            recreates: self.dice.one_in(3),
            rolling: self.dice.one_in(3),
            ..OperatorWorkload::default()
        });

        let complete = self.dice.one_in(2);
        OperatorView {
            namespace: "ops".into(),
            name: "widget-operator".into(),
            workload,
            pods,
            complete,
            ..OperatorView::default()
        }
    }

    fn metrics(&mut self, instance: String) -> MetricsView {
        let mut number = |most: u64| (!self.dice.one_in(5)).then(|| self.dice.roll(most));
        let longest = [f64::NAN, f64::INFINITY, -5.0, 3.0, 4_000.0];
        let controllers = ["widget", "gadget"].map(|name| ControllerView {
            name: name.into(),
            succeeded: number(3),
            failed: number(9),
            panicked: number(2),
            workers_busy: number(3),
            workers_max: number(3),
            queue_depth: number(2_000),
            longest_running_seconds: number(5).map(|index| longest[index as usize]),
            reconcile_seconds: number(2)
                .map(|count| Durations { count, sum: longest[count as usize] }),
            ..ControllerView::default()
        });

        let codes = ["200", "403", "500", "<error>", "409"]
            .map(|code| (code.to_owned(), number(60).unwrap_or(0)));
        let leading = number(2).map(|leads| leads == 1);
        let process = ProcessView { started: self.earlier(), ..ProcessView::default() };
        let (controllers, requests) = (controllers.into(), codes.into());
        let calls =
            Durations { count: self.dice.roll(9), sum: longest[self.dice.roll(5) as usize] };
        let webhooks = vec![("/validate".to_owned(), calls)];

        MetricsView {
            instance,
            controllers,
            requests,
            webhooks,
            leading,
            process,
            ..MetricsView::default()
        }
    }

    fn change(&mut self, key: &(usize, usize, String), change: u64) {
        let (now, spec, phase) = (self.now, self.dice.roll(4) + 1, self.dice.roll(4));
        let Some(widget) = self.objects.get_mut(key) else { return };
        match change {
            23..=25 => drop(widget.spec(spec, now)),
            26..=29 => drop(widget.ready()),
            30..=31 => drop(widget.waiting()),
            32..=34 => drop(widget.failed("Broken")),
            35 => drop(widget.phase(["Pending", "Running", "Failed", "Working"][phase as usize])),
            36 => widget.paused = !widget.paused,
            37 => drop(widget.touch_status()),
            38 => widget.changed = Some(now),
            _ => {
                let of_collector = if widget.uid % 2 == 0 {
                    vec!["foregroundDeletion".to_owned()]
                } else {
                    Vec::new()
                };

                widget.finalizers =
                    of_collector.into_iter().chain(["example.io/f".into()]).collect();
                widget.deleted = Some(now);
            }
        }

        if change != 38 {
            widget.status_written = Some(now);
        }

        if !self.dice.one_in(6) {
            self.apply(key);
        }
    }
}

fn history(seed: u64, steps: usize, with_steps: bool) -> World {
    let mut world = World::new(seed, with_steps);
    let kinds = world.kinds.clone();
    world.tell(Observation::KindsDiscovered(kinds));
    world.list_all();
    (0..steps).for_each(|_| world.step());
    world.history = with_events(seed, world.history);

    world
}

fn settings() -> Settings {
    Settings { deadline: Span::secs(90), ..Settings::default() }
}

/// Adds Kubernetes Events about objects that exist, existed, or never did.
fn with_events(seed: u64, history: Vec<(Timestamp, Observation)>) -> Vec<(Timestamp, Observation)> {
    let mut dice = Dice(seed.rotate_left(17) | 1);
    let mut mixed = Vec::with_capacity(2 * history.len());
    for (at, observation) in history {
        // The instant of a clock step follows the new setting of the clock.
        let is_step = matches!(observation, Observation::ClockStepped { .. });
        if !is_step && dice.one_in(2) {
            mixed.push((at, event(&mut dice, at)));
        }

        mixed.push((at, observation));
    }

    mixed
}

fn event(dice: &mut Dice, now: Timestamp) -> Observation {
    let namespace = dice.roll(2) as usize;
    let ago = Span(dice.roll(7_200_000) as i64 - 3_600_000);
    let event = EventView {
        uid: dice.roll(50).to_string(),
        about: ObjectKey {
            namespace: NAMESPACES[namespace].into(),
            name: format!("w{}", dice.roll(4)),
        },
        r#type: ["Normal", "Warning", "odd"][dice.roll(3) as usize].into(),
        reason: ["Synced", "SyncFailed", "BackOff", "free text"][dice.roll(4) as usize].into(),
        count: dice.roll(9),
        added: dice.roll(3),
        at: (!dice.one_in(4)).then(|| now.before(ago)),
        ..EventView::default()
    };

    Observation::EventSeen {
        watch: watch_of(dice.roll(2) as usize, namespace),
        event: Box::new(event),
    }
}

/// Everything that the model says, without the instants of its internal timers.
fn output(model: &mut Model) -> String {
    let snapshot = model.snapshot();
    let (rows, _) = model.rows(Cursor::default(), usize::MAX);
    format!("{snapshot:#?}\n{rows:#?}\n{:#?}\n{:#?}", model.finding_events(), model.checkpoint())
}

fn first_difference(a: &str, b: &str) -> String {
    let pairs = a.lines().zip(b.lines()).enumerate();
    let Some((line, _)) = pairs.clone().find(|(_, (a, b))| a != b) else { return "length".into() };
    let near = |text: &str| {
        text.lines().skip(line.saturating_sub(14)).take(20).collect::<Vec<_>>().join("\n")
    };

    format!("--- a\n{}\n--- b\n{}", near(a), near(b))
}

fn differs(history: &[(Timestamp, Observation)], every_ms: i64) -> Option<String> {
    let (mut a, mut b) = (Model::new(settings()), Model::new(settings()));
    for (at, observation) in history {
        a.apply(*at, observation.clone());

        // The instant of a clock step follows the new setting of the clock.
        let end = match observation {
            Observation::ClockStepped { by_ms } => at.0 - by_ms,
            _ => at.0,
        };
        let mut tick = b.snapshot().at;
        let every_ms = every_ms.max((end - tick.0) / 40);

        while tick.0 > 0 && tick.0 < end {
            b.apply(tick, Observation::Tick);
            tick = tick.after(Span(every_ms));
        }

        b.apply(*at, observation.clone());
    }

    let (a, b) = (output(&mut a), output(&mut b));
    (a != b).then(|| first_difference(&a, &b))
}

#[test]
fn ticks_change_nothing() {
    for seed in 1..=60_u64 {
        let world = history(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 400, true);
        for every in [700, 31_000] {
            if differs(&world.history, every).is_some() {
                // Shorten the history from both ends.
                let mut kept = world.history.clone();
                let mut size = kept.len() / 2;
                while size > 0 {
                    let mut from = 0;
                    while from < kept.len() {
                        let mut shorter = kept.clone();
                        shorter.drain(from..(from + size).min(kept.len()));
                        if differs(&shorter, every).is_some() {
                            kept = shorter;
                        } else {
                            from += size;
                        }
                    }

                    size /= 2;
                }

                let difference = differs(&kept, every).unwrap_or_default();
                panic!("seed {seed}, every {every}: {difference}\n{kept:#?}");
            }
        }
    }
}

#[test]
fn invariants_hold_after_every_step() {
    for seed in 1..=60_u64 {
        let world = history(seed.wrapping_mul(0x51ed_270b_0000_0001), 500, seed % 2 == 0);
        let mut model = Model::new(settings());
        let mut outcomes: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();

        for (step, (at, observation)) in world.history.iter().enumerate() {
            model.apply(*at, observation.clone());
            let context = format!("seed {seed}, step {step}: {observation:?}");
            let snapshot = model.snapshot();

            if let Some(due) = model.next_due() {
                assert!(due > snapshot.at, "{context}: a timer in the past");
            }

            let (rows, _) = model.rows(Cursor::default(), usize::MAX);
            for finding in &snapshot.findings {
                assert!(finding.found <= snapshot.at, "{context}: {finding:?}");

                if seed % 2 == 1 {
                    assert!(finding.since <= finding.found, "{context}: {finding:?}");
                }

                let mut deeper = finding.explained_by;
                for _ in 0..=snapshot.findings.len() {
                    let Some(id) = deeper else { break };
                    let Some(next) = snapshot.findings.iter().find(|other| other.id == id) else {
                        panic!("{context}: {finding:?}");
                    };

                    deeper = next.explained_by;
                }

                assert_eq!(deeper, None, "{context}: explained in a circle: {finding:?}");

                if let Subject::Object { kind, namespace, name, .. } = &finding.subject {
                    let exists = rows.iter().any(|row| {
                        (&row.kind, &row.namespace, &row.name) == (kind, namespace, name)
                    });

                    // A child with a bad owner may be collected already.
                    let collected = finding.info().area.as_str() == "ownership";
                    assert!(
                        exists || collected || kind == "Namespace",
                        "{context}: nothing has {finding:?}"
                    );
                }
            }

            for kind in &snapshot.kinds {
                for (namespace, totals) in &kind.namespaces {
                    let key = (kind.kind.clone(), namespace.to_string());
                    let old = outcomes.entry(key).or_default();
                    let new = totals.obligations.to_vec();

                    assert!(
                        old.iter().zip(&new).all(|(old, new)| old <= new),
                        "{context}: a counter went back"
                    );

                    *old = new;
                }
            }
        }
    }
}

/// Anybody may write Events, so they change only what is about Events, the evidence that shows the
/// latest Warning, and the traces.
#[test]
fn events_change_nothing_else() {
    for seed in 1..=40_u64 {
        let world = history(seed.wrapping_mul(0xd134_2543_de82_ef95), 400, seed % 2 == 0);
        let [(with, traces), (without, traces_without)] = [true, false].map(|keeps| {
            let mut model = Model::new(settings());
            model.gather_traces();
            for (at, observation) in &world.history {
                if keeps || !matches!(observation, Observation::EventSeen { .. }) {
                    model.apply(*at, observation.clone());
                }
            }

            let mut traces = model.traces();
            for trace in &mut traces {
                trace.steps.retain(|step| !matches!(step.kind, StepKind::Event { .. }));
                trace.dropped = 0;
            }

            let mut snapshot = model.snapshot();
            snapshot.kinds.iter_mut().for_each(|kind| kind.totals.events.clear());

            let mut events = model.finding_events();
            let announced = events.iter_mut().map(|event| &mut event.finding);
            for finding in announced.chain(&mut snapshot.findings) {
                finding.evidence.0.remove("last_warning");
            }

            let (rows, _) = model.rows(Cursor::default(), usize::MAX);
            let said = (snapshot.findings, snapshot.kinds, rows, events);
            (format!("{said:#?}"), format!("{traces:#?}"))
        });

        assert!(with == without, "seed {seed}: {}", first_difference(&with, &without));
        assert!(
            traces == traces_without,
            "seed {seed}: {}",
            first_difference(&traces, &traces_without)
        );
    }
}

#[test]
fn in_the_end_only_what_is_broken_is_reported() {
    for seed in 1..=80_u64 {
        let mut world = history(seed.wrapping_mul(0x2545_f491_4f6c_dd1d), 400, seed % 2 == 0);
        world.annotated.clear();
        world.kinds = (0..4).map(|n| watched(n / 2, n % 2)).collect();

        let kinds = world.kinds.clone();
        let plain = Settings { learn_after: 0, ..settings() };
        world.tell(Observation::SettingsChanged(Box::new(plain)));
        world.tell(Observation::NamespacesListed(Vec::new()));
        world.tell(Observation::KindsDiscovered(kinds));
        world.list_all();

        for n in 0..4 {
            world.tell(Observation::SourceRecovered {
                source: SourceId::Watch(watch_of(n / 2, n % 2)),
            });
        }

        // While it is scaled to zero, nothing is expected of the operator.
        let wanted = OperatorWorkload { replicas: 1, ..OperatorWorkload::default() };
        let mut operator = OperatorView { workload: Some(wanted), ..OperatorView::default() };
        (operator.namespace, operator.name) = ("ops".into(), "widget-operator".into());
        world.tell(Observation::OperatorSeen(Box::new(operator)));
        world.now = world.now.after(Span::hours(72));
        world.tell(Observation::Tick);

        let mut model = Model::new(settings());
        for (at, observation) in &world.history {
            model.apply(*at, observation.clone());
        }

        let snapshot = model.snapshot();
        let (rows, _) = model.rows(Cursor::default(), usize::MAX);
        for ((kind, namespace, name), widget) in &world.objects {
            let has = |codes: &[FindingCode]| {
                snapshot.findings.iter().any(|f| {
                    let Subject::Object { kind: k, namespace: ns, name: n, .. } = &f.subject else { return false };
                    (k.as_str(), ns.as_str(), n) == (KINDS[*kind], NAMESPACES[*namespace], name)
                        // Their owners are random, so many references are bad.
                        && if codes.is_empty() { f.info().area.as_str() != "ownership" } else { codes.contains(&f.code) }
                })
            };

            let ready = widget.conditions.iter().find(|c| c.0 == "Ready").map(|c| c.1);
            let current = widget.observed == Some(widget.generation);
            let phase_is_fine = widget.phase.is_empty() || widget.phase == "Running";
            let context = || {
                let all: Vec<_> = snapshot
                    .findings
                    .iter()
                    .map(|f| format!("{:?} {} {}", f.code, f.subject, f.since))
                    .collect();

                format!(
                    "seed {seed}: {} {}/{name} {ready:?} current {current} paused {} phase {} generation {} observed {:?}: {all:#?}",
                    KINDS[*kind],
                    NAMESPACES[*namespace],
                    widget.paused,
                    widget.phase,
                    widget.generation,
                    widget.observed
                )
            };

            let row = rows.iter().find(|row| {
                (&*row.kind, &*row.namespace, &row.name)
                    == (KINDS[*kind], NAMESPACES[*namespace], name)
            });
            let missed =
                [FindingCode::Overdue, FindingCode::Unacknowledged, FindingCode::StatusLag];
            if has(&missed) {
                assert_eq!(row.map(|row| row.state), Some(ObjectState::Overdue), "{}", context());
            }

            if widget.deleted.is_some() {
                let stuck = [
                    FindingCode::FinalizerStuck,
                    FindingCode::FinalizerOwnerAbsent,
                    FindingCode::DeletionBlockedByDependent,
                ];

                assert!(has(&stuck), "missed stuck: {}", context());
            } else if widget.paused {
                assert!(!has(&[]), "paused: {}", context());
            } else if current && ready == Some(ConditionStatus::True) && phase_is_fine {
                assert!(!has(&[]), "healthy: {}", context());
            } else if widget.conditions.iter().any(|c| c.0 == "Ready") && !current && phase_is_fine
            {
                assert!(
                    has(&[
                        FindingCode::Unacknowledged,
                        FindingCode::StatusLag,
                        FindingCode::Overdue,
                        FindingCode::Regressed,
                        FindingCode::NeverRecovered
                    ]),
                    "missed: {}",
                    context()
                );
            }
        }
    }
}
