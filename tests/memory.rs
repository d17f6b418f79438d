//! The memory that the model takes for idle children of watched kinds, and that a scrape takes, as
//! jemalloc counts it.

#![cfg(feature = "jemalloc")]

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use loopwatch::sources::operator::intake;
use loopwatch_model::model::Model;
use loopwatch_model::observation::{
    Condition, ConditionStatus, Fact, FactValue, Manager, ObjectKey, ObjectView, Observation,
    Owned, OwnerReference, Reference, Role, StartupRead, WatchedKind,
};
use loopwatch_model::settings::{Limits, Settings};
use loopwatch_model::time::{Span, Timestamp};
use loopwatch_testbed::kinds::watched;
use tikv_jemalloc_ctl::{epoch, stats};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const NOW: Timestamp = Timestamp(1_767_225_600_000);
const CHILDREN: usize = 100_000;
/// Children of each primary object.
const SIBLINGS: usize = 10;
/// The budget of a child with its edge to its owner, and that of a further edge, in bytes.
const BUDGET: (usize, usize) = (300, 64);
/// The number of series of the largest known operator, and the budget for reading them, in bytes.
const SERIES: usize = 800_000;
const SCRAPE_BUDGET: usize = 4 << 20;

/// What fat objects may take beside the memory for objects, in bytes: findings, traces, lookups and
/// references have limits of their own.
const FAT_BESIDES: usize = 12 << 20;

/// Held by the test that measures: jemalloc counts the memory of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

fn kind(role: Role) -> WatchedKind {
    match role {
        Role::Primary => watched("example.io", "Widget", "widgets", role),
        _ => watched("", "ConfigMap", "configmaps", role),
    }
}

fn uid(number: usize) -> String {
    let random = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:08x}-0000-4000-8000-{:012x}", random >> 32, number)
}

fn namespace(number: usize) -> String {
    format!("team-{}", number / SIBLINGS % 50)
}

fn view(number: usize, name: String, owners: Vec<OwnerReference>) -> ObjectView {
    let owns = Owned { spec: true, ..Owned::default() };

    // Without an owner, labels would make the object a possible orphan.
    let labels =
        owners.first().map(|owner| ("app.kubernetes.io/instance".to_owned(), owner.name.clone()));
    let manager =
        Manager { name: "widget-operator".into(), time: Some(NOW), owns, ..Manager::default() };

    ObjectView {
        key: ObjectKey { namespace: namespace(number), name },
        uid: uid(number),
        version: number.to_string(),
        created: Some(NOW),
        owners,
        labels: labels.into_iter().collect(),
        managers: vec![manager],
        ..ObjectView::default()
    }
}

fn owner(of_child: usize, nth: usize) -> OwnerReference {
    let number = of_child / SIBLINGS * SIBLINGS + nth;
    OwnerReference {
        api_version: "example.io/v1".into(),
        kind: "Widget".into(),
        name: format!("widget-{number}"),
        uid: uid(1_000_000 + number),
        controller: nth == 0,
        blocks_deletion: true,
    }
}

fn allocated() -> usize {
    epoch::advance().and_then(|_| stats::allocated::read()).expect("statistics of jemalloc")
}

fn list(model: &mut Model, role: Role, objects: impl Iterator<Item = ObjectView>) {
    let watch = kind(role).watch;
    model.apply(NOW, Observation::ListBegan { watch: watch.clone(), epoch: 1 });
    for object in objects {
        model.apply(NOW, Observation::Listed { watch: watch.clone(), object: Box::new(object) });
    }

    model.apply(NOW, Observation::ListEnded { watch, epoch: 1, version: "9999999".into() });
}

/// Returns the memory of the children, each with this number of owners, in bytes per child.
fn measure(owners: usize) -> usize {
    let mut model = Model::new(Settings::default());
    model.apply(NOW, Observation::KindsDiscovered(vec![kind(Role::Primary), kind(Role::Child)]));

    let primaries = (0..CHILDREN).filter(|n| n % SIBLINGS < 3).map(|n| {
        let mut view = view(1_000_000 + n, format!("widget-{n}"), Vec::new());
        view.key.namespace = namespace(n);
        view
    });

    list(&mut model, Role::Primary, primaries);
    let before = allocated();
    let children = (0..CHILDREN).map(|n| {
        view(n, format!("widget-{n}-config"), (0..owners).map(|nth| owner(n, nth)).collect())
    });

    list(&mut model, Role::Child, children);
    model.apply(NOW.after(Span::hours(1)), Observation::Tick);

    let bytes = allocated() - before;
    assert_eq!(model.objects(), CHILDREN + CHILDREN / SIBLINGS * 3);

    bytes / CHILDREN
}

#[test]
fn a_child_and_an_edge_stay_within_their_budgets() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let [none, one, three] = [0, 1, 3].map(measure);
    let edge = (three - one).div_ceil(2);
    eprintln!(
        "bytes per child: {none} without an owner, {one} with one, {three} with three; {edge} per further edge"
    );

    assert!(one <= BUDGET.0, "{one} bytes per child");
    assert!(edge <= BUDGET.1, "{edge} bytes per further edge");

    // The first edge also takes the allocation that the thin pointer of the record saves for objects
    // without owners.
    assert!(none + BUDGET.1 <= BUDGET.0, "{none} bytes per child without an owner");
}

/// A thousand series, a tenth of which matter to a rule: all of them differ.
fn chunk(nth: usize) -> String {
    (0..1000).fold(String::new(), |mut text, line| {
        let labels =
            format!("controller=\"widget-{}\",shard=\"{nth}-{line}\"", (line / 10 + nth) % 300);
        let _ = match line % 10 {
            0 => writeln!(
                text,
                "controller_runtime_reconcile_total{{{labels},result=\"success\"}} {line}"
            ),
            _ => writeln!(
                text,
                "controller_runtime_reconcile_time_seconds_bucket{{{labels},le=\"0.5\"}} {line}"
            ),
        };

        text
    })
}

#[test]
fn a_scrape_takes_little_memory_for_many_series() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (before, mut most) = (allocated(), 0);
    let chunks = (0..SERIES / 1000)
        .map(chunk)
        .inspect(|_| most = most.max(allocated().saturating_sub(before)));
    let view = intake::read(chunks).expect("a view");

    eprintln!("{} series, {} MiB: {} KiB of memory", view.series, view.bytes >> 20, most >> 10);
    assert_eq!(
        (view.series, view.controllers.len(), view.controllers_left_out),
        (SERIES as u64, 200, 100)
    );
    assert!(most <= SCRAPE_BUDGET, "{most} bytes");
}

/// The lists of an object that a tenant can fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fat {
    Finalizers,
    Deletion,
    Owners,
    Conditions,
    Messages,
    References,
    Startup,
    Labels,
    Phase,
}

impl Fat {
    const ALL: [Self; 9] = [
        Self::Finalizers,
        Self::Deletion,
        Self::Owners,
        Self::Conditions,
        Self::Messages,
        Self::References,
        Self::Startup,
        Self::Labels,
        Self::Phase,
    ];

    /// Fills a list of an object with as many and as long texts as a view has, none of which
    /// another object has, too.
    fn fill(self, view: &mut ObjectView, object: usize) {
        let text = |part: usize| format!("{:x<250}", format!("x{object}-{part}.example.io/"));
        let texts = || (0..64).map(text);
        match self {
            Self::Finalizers => view.finalizers = texts().collect(),
            Self::Deletion => {
                view.finalizers = texts().collect();
                view.deleted = Some(NOW);
            }
            Self::Owners => {
                let owner = |text: String| OwnerReference {
                    api_version: format!("{text}/v1"),
                    kind: text.clone(),
                    name: text.clone(),
                    uid: text,
                    ..OwnerReference::default()
                };
                view.owners = texts().map(owner).collect();
            }
            Self::Conditions => {
                let condition = |r#type| Condition { r#type, ..Condition::default() };
                view.conditions = texts().map(condition).collect();
            }
            Self::Messages => {
                view.conditions = vec![Condition {
                    r#type: "Ready".into(),
                    status: ConditionStatus::False,
                    reason: text(0).chars().take(128).collect(),
                    message: text(1),
                    ..Condition::default()
                }];
            }
            Self::References => {
                let reference = |(n, name): (usize, String)| Reference {
                    slot: format!("spec.a{n}.secretName"),
                    kind: "Secret".into(),
                    name_hash: (object * 64 + n) as u64,
                    name,
                    ..Reference::default()
                };
                view.references = texts().take(32).enumerate().map(reference).collect();
            }
            Self::Startup => {
                view.startup =
                    texts().map(|name| StartupRead { name, ..StartupRead::default() }).collect();
            }
            // Objects without an owner whose labels may name one.
            Self::Labels => {
                let label = |key: String| (key.clone(), key.chars().take(63).collect());
                view.labels = texts().map(label).collect();
            }
            Self::Phase => {
                let value = FactValue::Text(text(0).chars().take(128).collect());
                view.facts = vec![Fact { path: "status.phase".into(), value }];
            }
        }
    }
}

/// Returns the memory of a model that has seen fat objects of a tenant, in bytes.
fn measure_fat(fat: Fat, objects: usize, limits: &Limits) -> usize {
    let before = allocated();
    let settings = Settings { limits: limits.clone(), ..Settings::default() };
    let mut model = Model::new(settings);
    // Only the workloads of an operator have Pods that read something when they start.
    let of_operator = matches!(fat, Fat::Startup | Fat::Labels);
    let role = if of_operator { Role::Child } else { Role::Primary };
    let deployments = watched("apps", "Deployment", "deployments", role);
    model.apply(NOW, Observation::KindsDiscovered(vec![kind(Role::Primary), deployments.clone()]));

    let watch = deployments.watch;
    model.apply(NOW, Observation::ListBegan { watch: watch.clone(), epoch: 1 });
    for number in 0..objects {
        let owners = if fat == Fat::Startup { vec![owner(number, 0)] } else { Vec::new() };
        let mut view = view(number, format!("fat-{number}"), owners);
        view.key.namespace = "tenant".into();
        fat.fill(&mut view, number);
        model.apply(NOW, Observation::Listed { watch: watch.clone(), object: Box::new(view) });
    }
    model.apply(NOW, Observation::ListEnded { watch, epoch: 1, version: "9999999".into() });
    model.apply(NOW.after(Span::hours(1)), Observation::Tick);

    let bytes = allocated() - before;
    drop(model);
    bytes
}

#[test]
fn fat_objects_of_a_tenant_stay_within_the_memory_for_objects() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let limits = Limits { objects: 20_000, ..Limits::default() };
    let budget = limits.object_memory();

    let measured = Fat::ALL.map(|fat| (fat, measure_fat(fat, 30_000, &limits)));
    for (fat, bytes) in measured {
        eprintln!("fat {fat:?}: {:.1} MiB of {:.1} MiB", mib(bytes), mib(budget));
    }

    let excess = measured.iter().filter(|(_, bytes)| *bytes > budget + FAT_BESIDES);
    assert_eq!(excess.count(), 0);
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
