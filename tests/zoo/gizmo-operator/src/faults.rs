//! All faults of the operator, those that are on, and the HTTP server that switches them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::http::{self, Answer};
use crate::reconciler::{Error, Gizmo};

/// The one table of faults, with the names that they have in the widget-operator: effect, and
/// parameter with its default.
const CATALOG: [(&str, &str, Option<(&str, u64)>); 9] = [
    ("Unacknowledged", "the operator ignores changes, and writes nothing", None),
    ("Overdue", "the operator acknowledges changes, and the object does not become ready", None),
    ("ReconcileFailing", "the first attempts to reconcile fail, or all if attempts is 0", Some(("attempts", 0))),
    ("ReconcileStuck", "a reconcile does not end", None),
    ("QueueBacklog", "each reconcile takes longer by a delay in milliseconds", Some(("delay", 1000))),
    ("FinalizerStuck", "the cleanup of a deleted object fails", None),
    ("TaskLeak", "each reconcile starts asynchronous tasks that do not end", Some(("tasks", 1))),
    ("HeapLeak", "the process keeps more memory, at a rate in bytes per second", Some(("rate", 1 << 20))),
    ("Crash", "the process ends with an error, after a delay in milliseconds", Some(("delay", 1000))),
];

const OF_PROCESS: [&str; 2] = ["HeapLeak", "Crash"];
const TICK: Duration = Duration::from_millis(100);

/// A fault that is on, for the objects that it selects.
#[derive(Debug)]
pub struct Fault {
    name: &'static str,
    value: u64,
    selectors: BTreeMap<String, String>,
    since: Instant,
}

/// The faults that are on, and the number of failed attempts per object.
#[derive(Default)]
pub struct Faults {
    active: Mutex<Vec<Arc<Fault>>>,
    failed: Mutex<HashMap<String, u64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fault {
    fn parse(name: &str, query: &str) -> Result<Self, String> {
        let row = CATALOG.iter().find(|(known, ..)| *known == name).ok_or_else(|| format!("no such fault: {name}"))?;
        let mut fault = Self {
            name: row.0,
            value: row.2.map_or(0, |(_, default)| default),
            selectors: BTreeMap::new(),
            since: Instant::now(),
        };

        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match value.parse() {
                Ok(number) if row.2.is_some_and(|(parameter, _)| parameter == key) => fault.value = number,
                _ if ["namespace", "name"].contains(&key) && !OF_PROCESS.contains(&name) => {
                    fault.selectors.insert(key.to_owned(), value.to_owned());
                }
                _ => return Err(format!("{name} takes no parameter {key}={value}")),
            }
        }

        Ok(fault)
    }

    fn selects(&self, gizmo: &Gizmo) -> bool {
        let is = |key: &str, value: &str| self.selectors.get(key).is_none_or(|wanted| wanted == value);
        is("namespace", &gizmo.namespace().unwrap_or_default()) && is("name", &gizmo.name_any())
    }

    fn shown(&self) -> Value {
        json!({"fault": self.name, "value": self.value, "selectors": self.selectors})
    }
}

impl Faults {
    /// Returns the fault of this name that is on for an object.
    pub fn on(&self, name: &str, gizmo: &Gizmo) -> Option<Arc<Fault>> {
        lock(&self.active).iter().find(|fault| fault.name == name && fault.selects(gizmo)).cloned()
    }

    fn of_process(&self, name: &str) -> Option<Arc<Fault>> {
        lock(&self.active).iter().find(|fault| fault.name == name).cloned()
    }

    fn is_on(&self, fault: &Arc<Fault>) -> bool {
        lock(&self.active).iter().any(|other| Arc::ptr_eq(other, fault))
    }

    async fn wait_while_on(&self, fault: &Arc<Fault>, at_most: Duration) {
        let began = Instant::now();
        while self.is_on(fault) && began.elapsed() < at_most {
            tokio::time::sleep(TICK).await;
        }
    }

    /// Applies the faults to the reconcile of one object.
    pub async fn disturb(self: &Arc<Self>, gizmo: &Gizmo) -> Result<(), Error> {
        if let Some(leak) = self.on("TaskLeak", gizmo) {
            for _ in 0..leak.value {
                let (faults, leak) = (Arc::clone(self), Arc::clone(&leak));
                tokio::spawn(async move { faults.wait_while_on(&leak, Duration::MAX).await });
            }
        }

        if let Some(slow) = self.on("QueueBacklog", gizmo) {
            self.wait_while_on(&slow, Duration::from_millis(slow.value)).await;
        }

        if let Some(stuck) = self.on("ReconcileStuck", gizmo) {
            self.wait_while_on(&stuck, Duration::MAX).await;
        }

        let uid = gizmo.uid().unwrap_or_default();
        let Some(failing) = self.on("ReconcileFailing", gizmo) else {
            lock(&self.failed).remove(&uid);
            return Ok(());
        };
        let mut failed = lock(&self.failed);
        let count = failed.entry(uid).or_default();

        *count += 1;
        if failing.value == 0 || *count <= failing.value { Err(Error::Backend) } else { Ok(()) }
    }

    /// Applies the faults of the process, again and again.
    fn disturb_process(&self) {
        let mut memory: Vec<Vec<u8>> = Vec::new();
        loop {
            match self.of_process("HeapLeak") {
                None => memory.clear(),
                Some(leak) => {
                    let kept: usize = memory.iter().map(Vec::len).sum();
                    let wanted = leak.since.elapsed().as_secs_f64() * leak.value as f64;
                    memory.push(vec![1; (wanted as usize).saturating_sub(kept)]);
                }
            }

            if self.of_process("Crash").is_some_and(|it| it.since.elapsed() >= Duration::from_millis(it.value)) {
                eprintln!("gizmo-operator: the fault Crash is on");
                std::process::exit(1);
            }

            std::thread::sleep(TICK);
        }
    }

    fn answer(&self, method: &str, path: &str) -> Answer {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let folder = path.strip_prefix("/faults");
        let name = folder.map(|rest| rest.trim_start_matches('/'));
        let shown = match (method, name) {
            ("GET", None) if path == "/catalog" => Ok(json!(CATALOG)),
            ("GET", Some(_)) => Ok(Value::Null),
            ("PUT", Some(name)) => Fault::parse(name, query).map(|fault| {
                let mut active = lock(&self.active);
                active.retain(|other| other.name != fault.name || other.selectors != fault.selectors);
                active.push(Arc::new(fault));
                Value::Null
            }),
            ("DELETE", Some(name)) => {
                lock(&self.active).retain(|fault| !name.is_empty() && fault.name != name);
                Ok(Value::Null)
            }
            _ => Err(format!("no such path: {path}")),
        };

        match shown {
            Ok(Value::Null) => {
                let active: Vec<Value> = lock(&self.active).iter().map(|fault| fault.shown()).collect();
                (200, "application/json", json!({"faults": active}).to_string())
            }
            Ok(shown) => (200, "application/json", shown.to_string()),
            Err(error) => (400, "application/json", json!({"error": error}).to_string()),
        }
    }
}

/// Switches faults over HTTP: `PUT /faults/Overdue?name=one`, `DELETE /faults/Overdue`, `DELETE
/// /faults`, `GET /faults`, `GET /catalog`.
pub fn serve(faults: &Arc<Faults>, address: &str) -> Result<(), Box<dyn std::error::Error>> {
    if !address.starts_with("127.0.0.1:") {
        return Err(format!("--fault-listen must be a loopback address, not {address}").into());
    }

    let process = Arc::clone(faults);
    std::thread::spawn(move || process.disturb_process());

    let faults = Arc::clone(faults);
    http::serve(address, move |method, path| faults.answer(method, path))?;
    Ok(())
}
