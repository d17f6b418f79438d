//! The memory that the model takes for idle children of watched kinds, and that a scrape takes, as
//! jemalloc counts it.

#![cfg(feature = "jemalloc")]

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use loopwatch::sources::operator::intake;
use loopwatch_model::model::Model;
use loopwatch_model::observation::{
    Manager, ObjectKey, ObjectView, Observation, Owned, OwnerReference, Role, WatchedKind,
};
use loopwatch_model::settings::Settings;
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
    assert!(
        edge <= BUDGET.1 && one - none <= BUDGET.1,
        "{edge} bytes per further edge, {} for the first",
        one - none
    );
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
