//! Comparison of loopwatch's state with the cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use loopwatch_testbed::kube::{Kube, ZOO};
use loopwatch_testbed::sidecar::Sidecar;

/// One object, as both sides name it: kind, namespace, name, uid, generation.
type Seen = (String, String, String, String, i64);

/// Waits until loopwatch holds exactly the objects of these kinds in a namespace, with the same
/// generations, and until its metrics count the same number.
pub(crate) fn expect_equal(
    within: Duration,
    sidecar: &Sidecar,
    kube: &Kube,
    namespace: &str,
    kinds: &[&str],
) {
    sidecar.expect(within, &format!("loopwatch knows what there is in {namespace}"), || {
        kinds.iter().try_for_each(|kind| compare(sidecar, kube, (ZOO, kind), namespace))
    });
}

/// Compares the objects of one API version and kind in a namespace, or in the cluster if
/// `namespace` is empty.
pub(crate) fn compare(
    sidecar: &Sidecar,
    kube: &Kube,
    (api, kind): (&str, &str),
    namespace: &str,
) -> Result<(), String> {
    let there: BTreeSet<Seen> = kube
        .try_list(api, kind, namespace)?
        .iter()
        .map(|object| of_cluster(kind, object))
        .collect();
    let here: BTreeSet<Seen> = sidecar
        .objects(&format!("kind={kind}&namespace={namespace}"))?
        .iter()
        .map(of_loopwatch)
        .collect();

    if here != there {
        let (missing, extra): (Vec<_>, Vec<_>) =
            (there.difference(&here).take(5).collect(), here.difference(&there).take(5).collect());
        return Err(format!(
            "{kind}: {} here, {} there; missing {missing:?}, extra {extra:?}",
            here.len(),
            there.len()
        ));
    }

    let counted = counted(sidecar, kind, namespace)?;
    match counted == there.len() as f64 {
        true => Ok(()),
        false => Err(format!(
            "{kind}: loopwatch_objects adds up to {counted}, there are {}",
            there.len()
        )),
    }
}

/// The delivery lag that the audits measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lag {
    quick: f64,
    all: f64,
}

/// Waits until the last audit of every watch found no difference, and returns the delivery lag so
/// far. An audit needs a current version to compare, and without changes the API server sends one
/// only once a minute.
pub(crate) fn expect_audited(sidecar: &Sidecar) -> Lag {
    sidecar.expect(Duration::from_secs(100), "all audits find no difference", || {
        let text = sidecar.metrics()?;
        let differences: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("loopwatch_state_audit_difference{"))
            .collect();
        match !differences.is_empty() && differences.iter().all(|line| line.ends_with(" 0")) {
            true => Ok(()),
            false => Err(format!("{differences:?}")),
        }
    });

    let text = sidecar.metrics().unwrap_or_default();
    let sum = |wanted: &dyn Fn(&str) -> bool| -> f64 {
        let lines = text
            .lines()
            .filter(|line| line.starts_with("loopwatch_watch_lag_seconds") && wanted(line));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };

    let lag = Lag {
        quick: sum(&|line| line.contains("_bucket") && line.contains("le=\"0.5\"")),
        all: sum(&|line| line.contains("_count")),
    };

    assert!(lag.all > 0.0, "no audit measured the delivery lag");

    lag
}

fn counted(sidecar: &Sidecar, kind: &str, namespace: &str) -> Result<f64, String> {
    let text = sidecar.metrics()?;
    let (kind, namespace) =
        (format!("kind=\"{kind}\""), format!("target_namespace=\"{namespace}\""));
    let lines = text.lines().filter(|line| line.starts_with("loopwatch_objects{"));
    let mine = lines.filter(|line| line.contains(&kind) && line.contains(&namespace));

    Ok(mine.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

fn of_cluster(kind: &str, object: &Value) -> Seen {
    let text = |pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let generation =
        object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();

    (
        kind.to_owned(),
        text("/metadata/namespace"),
        text("/metadata/name"),
        text("/metadata/uid"),
        generation,
    )
}

fn of_loopwatch(object: &Value) -> Seen {
    let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    (
        text("kind"),
        text("namespace"),
        text("name"),
        text("uid"),
        object["generation"].as_i64().unwrap_or_default(),
    )
}

impl Lag {
    /// Returns the share of deliveries within half a second.
    pub(crate) fn share(self) -> f64 {
        self.quick / self.all
    }
}

impl std::fmt::Display for Lag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} measured deliveries within 500 ms", self.quick, self.all)
    }
}
