//! The image that users get, as a sidecar on a real node: a kubelet starts, restarts and stops it,
//! and the kernel enforces the limits.
//!
//! One node serves all of these tests, one after the other. Each has its own variant of the zoo's
//! Deployment.

mod losses;

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Completion, Trial};
use serde_json::{Value, json};

use crate::bed::{bed, skip};
use loopwatch_testbed::images::{self, Image};
use loopwatch_testbed::kube::{ZOO, ZOO_KINDS, documents};
use loopwatch_testbed::node::Node;
use loopwatch_testbed::sidecar::{self, Sidecar, quick_but};
use loopwatch_testbed::wait::{eventually, pause};
use loopwatch_testbed::{http, kustomize, repository};

static NODE: Mutex<Option<Zoo>> = Mutex::new(None);

/// A node with the operator of the zoo.
struct Zoo {
    node: Node,
    operator: Image,
    loopwatch: Image,
}

/// A Pod of the operator, with loopwatch beside it.
struct Beside<'a> {
    node: &'a Node,
    pod: String,
}

const NAMESPACE: &str = "zoo-system";
const DEPLOYMENT: &str = "widget-operator";
/// The container of the operator.
const MANAGER: &str = "manager";
const LOOPWATCH: &str = "loopwatch";
/// The port of everything but the metrics, on loopback.
const PAGE: u16 = 9918;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        on_node("node::sidecar", sidecar),
        on_node("node::hanging_sidecar", hanging_sidecar),
        on_node("node::broken_sidecar", broken_sidecar),
        on_node("node::resized_sidecar", resized_sidecar),
        on_node("node::crash_loop", crash_loop),
        on_node("node::out_of_memory", out_of_memory),
        // These take minutes, in which no other test has a node.
        on_node("node::dies", dies).with_ignored_flag(true),
        on_node("node::evicted", losses::evicted).with_ignored_flag(true),
        on_node("node::out_of_memory_later", losses::out_of_memory_later).with_ignored_flag(true),
        on_node("node::shared_processes", shared_processes).with_ignored_flag(true),
    ]
}

/// Stops the node, if a test has started it. It keeps the logs of a failed run.
pub(crate) fn stop(failed: bool) {
    let zoo = NODE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(zoo) = zoo.filter(|_| failed) {
        eprintln!("logs of the node: {}", zoo.node.plane.keep_logs().display());
    }
}

/// Creates a test that needs a real node, and is skipped where the machine does not allow one, or
/// fails in CI.
fn on_node(name: &str, run: fn(&Zoo)) -> Trial {
    Trial::ignorable_test(name, move || {
        let mut node = NODE.lock().unwrap_or_else(PoisonError::into_inner);
        if node.is_none() {
            if let Err(reason) = Node::check() {
                return skip(reason.to_string());
            }
            *node = Some(Zoo::install());
        }

        if let Some(zoo) = &*node {
            run(zoo);
        }

        Ok(Completion::Completed)
    })
}

/// The sidecar of `deploy/examples/zoo` starts before the operator, finds everything without a
/// flag, calls a healthy operator healthy, and stops after it.
fn sidecar(zoo: &Zoo) {
    let beside = zoo.run(&["--wait-for-pods=false"], &[]);
    let kube = &zoo.node.plane.kube;

    let watched = format!("{} kinds are watched", ZOO_KINDS.len());
    eventually(Duration::from_secs(60), &watched, || {
        let status = beside.json("/api/v1/status")?;
        let kinds: Vec<_> = status["kinds"].as_array().into_iter().flatten().collect();
        let synced = |kind: &&Value| {
            kind["watches"].as_array().is_some_and(|all| all.iter().all(|w| w["synced"] == true))
        };
        match kinds.len() >= ZOO_KINDS.len() && kinds.iter().all(synced) {
            true => Ok(()),
            false => Err(status.to_string()),
        }
    });

    for name in ["one", "two"] {
        kube.zoo("Widget", "default", name, json!({}));
    }

    eventually(Duration::from_secs(60), "both widgets are converged", || {
        let objects = beside.json("/api/v1/objects?kind=Widget")?;
        let converged = |object: &&Value| object["state"] == "converged";
        match objects["objects"].as_array().into_iter().flatten().filter(converged).count() {
            2 => Ok(()),
            _ => Err(objects.to_string()),
        }
    });

    // The kubelet has started loopwatch first. Both images run as their own user.
    let started = |container: &str| beside.state(container)["running"]["startedAt"].to_string();
    assert!(started(LOOPWATCH) <= started(MANAGER), "{}", beside.pod());

    // It has found the operator's metrics, which need a certificate and a permission, by itself.
    eventually(Duration::from_secs(60), "loopwatch reads the operator's metrics", || {
        let operator = beside.json("/api/v1/operator")?;
        match operator["instances"][0]["controllers"].as_array().is_some_and(|all| !all.is_empty())
        {
            true => Ok(()),
            false => Err(operator.to_string()),
        }
    });

    let true_anyway = |finding: &Value| finding["code"] == "StatusSubresourceMissing";
    let findings = beside.findings().expect("findings");
    assert!(findings.iter().all(true_anyway), "{findings:?}");

    let exposition = beside.metrics().expect("the port for Prometheus");
    let memory = exposition.lines().find(|line| line.starts_with("process_resident_memory_bytes"));
    eprintln!("node: sidecar: {}", memory.unwrap_or_default());

    let log = beside.log("").expect("the log of loopwatch");
    assert!(log.lines().any(|line| line.contains("INFO")), "{log}");
    assert!(!log.contains("ERROR") && !log.contains("panicked"), "{log}");

    // While the Pod ends, loopwatch still observes the operator, which takes its time.
    zoo.node.pause(&beside.container(MANAGER)).expect("the operator runs");
    kube.delete("v1", "Pod", NAMESPACE, &beside.pod);
    pause(Duration::from_secs(5));

    let state = beside.state(MANAGER);
    assert!(state["running"].is_object(), "{}", beside.pod());
    assert!(beside.findings().is_ok(), "{}", beside.pod());
    eventually(Duration::from_secs(30), "the Pod has ended", || match beside.pod() {
        Value::Null => Ok(()),
        pod => Err(pod["status"].to_string()),
    });
}

/// A loopwatch that hangs is restarted alone.
fn hanging_sidecar(zoo: &Zoo) {
    let beside = zoo.run(&[], &[]);
    zoo.node.pause(&beside.container(LOOPWATCH)).expect("loopwatch runs");

    // The probe fails three times, 20 s apart, and waits for 5 s each time. The kubelet then grants
    // the Pod's 10 s.
    eventually(Duration::from_secs(150), "the kubelet restarts loopwatch", || {
        let status = beside.status(LOOPWATCH);
        let again = status["restartCount"] == 1 && status["state"]["running"].is_object();
        again.then_some(()).ok_or_else(|| status.to_string())
    });

    assert_eq!(beside.status(MANAGER)["restartCount"], 0, "{}", beside.pod());
    assert_eq!(beside.status(MANAGER)["ready"], true, "{}", beside.pod());
    eventually(Duration::from_secs(30), "loopwatch works again", || beside.findings());
}

/// The operator runs although loopwatch ends again and again.
fn broken_sidecar(zoo: &Zoo) {
    let beside = zoo.run(&[], &["no-such-command"]);
    eventually(Duration::from_secs(60), "loopwatch crashes", || {
        let status = beside.status(LOOPWATCH);
        let crashes = status["restartCount"].as_u64() >= Some(1);
        crashes.then_some(()).ok_or_else(|| status.to_string())
    });

    beside.expect_ready();
    assert_eq!(beside.status(MANAGER)["restartCount"], 0, "{}", beside.pod());

    // The kubelet counts native sidecars: `deploy/README.md` warns of this.
    eventually(
        Duration::from_secs(60),
        "the Pod is not ready while loopwatch waits to start",
        || {
            let pod = beside.pod();
            let waits = beside.state(LOOPWATCH).get("waiting").is_some();
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let is_unready =
                conditions.clone().any(|c| c["type"] == "Ready" && c["status"] == "False");
            (waits && is_unready).then_some(()).ok_or_else(|| pod["status"].to_string())
        },
    );

    let log = beside.log("&previous=true");
    assert!(log.as_ref().is_ok_and(|log| log.contains("no-such-command")), "{log:?}");
}

/// loopwatch adopts a memory limit that changes while it runs.
fn resized_sidecar(zoo: &Zoo) {
    let beside = zoo.run(&[], &[]);
    let derived = |bytes: u64| {
        let what = format!("loopwatch derives its limit on objects from {bytes} bytes");
        eventually(Duration::from_secs(120), &what, || {
            let log = beside.log("")?;
            let limit = format!("memory_limit_bytes={bytes} ");
            match log.contains(&limit) {
                true => Ok(()),
                false => Err(format!("{}\n{log}", beside.pod()["status"])),
            }
        });
    };

    derived(128 << 20);
    let more = json!({"spec": {"initContainers": [
        {"name": LOOPWATCH, "resources": {"limits": {"memory": "192Mi"}}}]}});
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{}/resize", beside.pod);
    let resized = zoo.node.plane.kube.call(
        "PATCH",
        &path,
        "application/strategic-merge-patch+json",
        Some(&more),
    );
    resized.unwrap_or_else(|error| panic!("{error}"));

    derived(192 << 20);
    assert_eq!(beside.status(LOOPWATCH)["restartCount"], 0, "{}", beside.pod());
}

/// With `components/process`, loopwatch reads the operator's process and its limits.
fn shared_processes(zoo: &Zoo) {
    let beside = zoo.run_as(&zoo.deployment_with(&["process"]), &["--wait-for-pods=false"]);
    beside.expect_ready();

    let shown = eventually(Duration::from_secs(60), "loopwatch reads the process", || {
        let status = beside.json("/api/v1/status")?;
        let mut sources = status["sources"].as_array().into_iter().flatten();
        let process = sources.find(|source| source["source"] == "process").ok_or("no source")?;
        if process["up"] != true || !process["off"].is_null() || process["last_success"].is_null() {
            return Err(process.to_string());
        }

        let text = beside.metrics()?;
        let of_operator = |line: &&str| line.starts_with("loopwatch_operator_");
        let series: Vec<String> = text.lines().filter(of_operator).map(str::to_owned).collect();
        let has = |name: &str, end: &str| {
            series.iter().any(|line| line.starts_with(name) && line.ends_with(end))
        };
        let all = has("loopwatch_operator_memory_bytes{", "")
            && has("loopwatch_operator_max_fds{", "")
            && has("loopwatch_operator_signal_available{", r#"signal="memory_limit"} 1"#);
        if all { Ok(series) } else { Err(series.join("\n")) }
    });
    eprintln!("node: shared processes:\n{}", shown.join("\n"));
}

/// A node that dies with everything on it. Only a loopwatch elsewhere can see that.
fn dies(zoo: &Zoo) {
    let beside = zoo.run(&["--wait-for-pods=false"], &[]);
    beside.expect_ready();
    let outside = zoo.outside();
    zoo.keep_a_widget(&outside);

    zoo.node.die();
    let (found, after) =
        outside.expect_finding(Duration::from_secs(240), "OperatorDown", "Operator", DEPLOYMENT);
    eprintln!("node: dead node: OperatorDown after {after:.0?}: {found}");
    expect_kept(&outside);

    zoo.node.start_kubelet();
    outside.expect_cleared(Duration::from_secs(240), "OperatorDown", "Operator", DEPLOYMENT);
    zoo.delete_widgets();
}

/// The object is what it was: its last status says Ready, and nobody has changed it.
fn expect_kept(outside: &Sidecar) {
    let objects = outside.objects("name=kept").expect("objects");
    assert!(objects.iter().all(|object| object["state"] == "converged"), "{objects:?}");
}

/// An operator that crashes on one object, with the kubelet's own backoff between two starts.
fn crash_loop(zoo: &Zoo) {
    zoo.node.plane.kube.zoo("Widget", "default", "poison", json!({}));
    let beside = zoo.run(&["--fault=Crash?kind=Widget&name=poison"], &[]);

    let found = beside.expect("RestartLoop");
    eprintln!("node: crash loop: {found}");
    assert_eq!(beside.status(LOOPWATCH)["restartCount"], 0, "{}", beside.pod());

    // It stays open while the kubelet waits, and while the operator runs for a moment.
    let restarts = beside.status(MANAGER)["restartCount"].as_u64().unwrap_or_default();
    eventually(Duration::from_secs(120), "the operator restarts again", || {
        let open = beside.findings()?;
        assert!(open.iter().any(|finding| finding["code"] == "RestartLoop"), "{open:?}");

        let status = beside.status(MANAGER);
        (status["restartCount"].as_u64() > Some(restarts))
            .then_some(())
            .ok_or_else(|| status.to_string())
    });
    zoo.delete_widgets();
}

/// An operator that the kernel kills at its start, because it needs more than its limit.
fn out_of_memory(zoo: &Zoo) {
    let beside = zoo.run(&["--fault=OutOfMemory?size=512Mi&delay=1s"], &[]);
    let found = beside.expect("StartupOutOfMemory");
    eprintln!("node: out of memory: {found}");

    let last = beside.status(MANAGER)["lastState"]["terminated"]["reason"].clone();
    assert_eq!(last, "OOMKilled", "{}", beside.pod());
    assert_eq!(beside.status(LOOPWATCH)["restartCount"], 0, "{}", beside.pod());
}

impl Zoo {
    /// Starts the node, and installs the example without its Deployment.
    fn install() -> Self {
        let node = Node::start(bed().binaries.clone()).unwrap_or_else(|error| panic!("{error}"));
        let directory = node.plane.directory();
        let program = Path::new(env!("CARGO_BIN_EXE_loopwatch"));
        let loopwatch = images::loopwatch(directory, program);
        let operator =
            images::of(directory, DEPLOYMENT, &bed().binaries.widget_operator, &["/manager"]);
        node.import(&loopwatch);
        node.import(&operator);

        let zoo = Self { node, operator, loopwatch };
        let kube = &zoo.node.plane.kube;
        zoo.rendered().iter().filter(|object| object["kind"] != "Deployment").for_each(|object| {
            kube.apply(object);
        });

        zoo.configure(json!({}));
        zoo
    }

    /// Sets the thresholds of the sidecars that start from now on.
    fn configure(&self, changes: Value) {
        // Nobody scrapes it. JSON is YAML.
        let mut settings = quick_but(changes);
        settings["scrape_expected_within"] = "0s".into();
        let config = json!({"settings": settings}).to_string();
        self.node.plane.kube.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "loopwatch", "namespace": NAMESPACE},
            "data": {"config.yaml": config}}));
    }

    /// The example, without the objects that need the Prometheus Operator. Definitions come first.
    fn rendered(&self) -> Vec<Value> {
        self.render(&repository("deploy/examples/zoo"))
    }

    /// The Deployment of the example, with more components.
    fn deployment_with(&self, components: &[&str]) -> Value {
        let folder = self.node.plane.directory().join("with-components");
        std::fs::create_dir_all(&folder).expect("our own folder");
        let path = |name: &&str| kustomize::component(&folder, name);
        let components: Vec<String> = components.iter().map(path).collect();
        let kustomization = json!({"components": components,
            "resources": [kustomize::component(&folder, "../examples/zoo")]});
        std::fs::write(folder.join("kustomization.yaml"), kustomization.to_string())
            .expect("our own folder");
        deployment(self.render(&folder))
    }

    fn render(&self, folder: &Path) -> Vec<Value> {
        let text = kustomize::build(bed(), folder)
            .replace("registry.invalid/loopwatch:0.1.0", &self.loopwatch.name)
            .replace("widget-operator:latest", &self.operator.name);

        let monitoring = |object: &Value| {
            object["apiVersion"].as_str().is_some_and(|api| api.starts_with("monitoring.coreos"))
        };
        documents(&text).into_iter().filter(|object| !monitoring(object)).collect()
    }

    /// Replaces the operator by one with more arguments, and waits until it has started. `loopwatch`
    /// are the arguments of loopwatch, if not the usual ones.
    fn run(&self, operator: &[&str], loopwatch: &[&str]) -> Beside<'_> {
        let mut deployment = deployment(self.rendered());
        if !loopwatch.is_empty() {
            deployment["spec"]["template"]["spec"]["initContainers"][0]["args"] = json!(loopwatch);
        }

        self.run_as(&deployment, operator)
    }

    /// Replaces the operator by that of a Deployment, with more arguments, and waits until it has started.
    fn run_as(&self, deployment: &Value, operator: &[&str]) -> Beside<'_> {
        let kube = &self.node.plane.kube;
        if kube.find("apps/v1", "Deployment", NAMESPACE, DEPLOYMENT).is_some() {
            kube.delete("apps/v1", "Deployment", NAMESPACE, DEPLOYMENT);
        }

        eventually(Duration::from_secs(60), "the earlier Pods are gone", || {
            let pods = kube.try_list("v1", "Pod", NAMESPACE)?;
            if pods.is_empty() { Ok(()) } else { Err(format!("{} Pods", pods.len())) }
        });

        let mut deployment = deployment.clone();
        let spec = &mut deployment["spec"];
        spec["replicas"] = json!(1);

        let template = &mut spec["template"]["spec"];
        let arguments = template["containers"][0]["args"].as_array_mut().expect("arguments");
        arguments.extend(operator.iter().map(|argument| json!(argument)));
        kube.apply(&deployment);

        self.started("")
    }

    /// Waits for a Pod of the operator that has started, and is not an earlier one.
    fn started(&self, earlier: &str) -> Beside<'_> {
        let pod = eventually(Duration::from_secs(60), "the operator has started", || {
            let pods = self.node.plane.kube.try_list("v1", "Pod", NAMESPACE)?;
            let has_started = |pod: &&Value| {
                let id = &pod["status"]["containerStatuses"][0]["containerID"];
                pod["metadata"]["name"] != earlier && id.as_str().is_some_and(|id| !id.is_empty())
            };
            let found = pods.iter().find(has_started).ok_or_else(|| json!(pods).to_string())?;
            Ok(found["metadata"]["name"].as_str().unwrap_or_default().to_owned())
        });

        Beside { node: &self.node, pod }
    }

    /// A loopwatch on another machine, which observes the operator.
    fn outside(&self) -> Sidecar {
        let plane = &self.node.plane;
        sidecar::install(plane, Path::new(env!("CARGO_BIN_EXE_loopwatch")));
        let operator = format!("--operator={NAMESPACE}/{DEPLOYMENT}");
        let settings = json!({"operator_down_after": "20s", "owner_absent_after": "30s"});
        let admin = &plane.kube.kubeconfig;
        let outside = Sidecar::start(plane, "outside", admin, &quick_but(settings), &[&operator]);
        outside.wait_synced(ZOO_KINDS.len());
        outside
    }

    /// Creates an object, and waits until the operator is done with it.
    fn keep_a_widget(&self, outside: &Sidecar) {
        self.node.plane.kube.zoo("Widget", "default", "kept", json!({}));
        outside.expect(Duration::from_secs(60), "the widget is converged", || {
            let objects = outside.objects("name=kept")?;
            let converged = |object: &Value| object["state"] == "converged";
            match objects.iter().all(converged) && !objects.is_empty() {
                true => Ok(()),
                false => Err(json!(objects).to_string()),
            }
        });
    }

    fn delete_widgets(&self) {
        let kube = &self.node.plane.kube;
        self.run(&[], &[]);
        for widget in kube.try_list(ZOO, "Widget", "default").unwrap_or_default() {
            let name = widget["metadata"]["name"].as_str().unwrap_or_default();
            kube.delete(ZOO, "Widget", "default", name);
        }
    }
}

/// The Deployment among some objects.
fn deployment(objects: Vec<Value>) -> Value {
    let mut objects = objects.into_iter();
    objects.find(|object| object["kind"] == "Deployment").expect("the example has one")
}

impl Beside<'_> {
    /// Asks loopwatch.
    fn json(&self, path: &str) -> Result<Value, String> {
        let text = self.node.in_network_of(&self.container(LOOPWATCH), || http::get(PAGE, path))?;
        serde_json::from_str(&text).map_err(|error| format!("{path}: {error}: {text}"))
    }

    /// The log of loopwatch, as `kubectl logs` shows it.
    fn log(&self, more: &str) -> Result<String, String> {
        let Self { node, pod } = self;
        let path =
            format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}/log?container={LOOPWATCH}{more}");
        node.plane.kube.text(&path)
    }

    /// The exposition, from where Prometheus scrapes it.
    fn metrics(&self) -> Result<String, String> {
        let address = self.pod()["status"]["podIP"].as_str().unwrap_or_default().to_owned();
        let address = address.parse::<Ipv4Addr>().map_err(|error| error.to_string())?;
        http::get_from((address, 9917).into(), "/metrics")
    }

    fn findings(&self) -> Result<Vec<Value>, String> {
        let findings = self.json("/api/v1/findings")?["findings"].take();
        findings.as_array().cloned().ok_or_else(|| findings.to_string())
    }

    /// Waits until the operator is ready.
    fn expect_ready(&self) {
        eventually(Duration::from_secs(30), "the operator is ready", || {
            let status = self.status(MANAGER);
            (status["ready"] == true).then_some(()).ok_or_else(|| status.to_string())
        });
    }

    /// Waits for a finding.
    fn expect(&self, code: &str) -> Value {
        let what = format!("loopwatch reports {code}");
        eventually(Duration::from_secs(180), &what, || {
            let findings = self.findings()?;
            let found = findings.iter().find(|finding| finding["code"] == code).cloned();
            found.ok_or_else(|| format!("{findings:?}\n{}", self.pod()["status"]))
        })
    }

    fn pod(&self) -> Value {
        let kube = &self.node.plane.kube;
        kube.find("v1", "Pod", NAMESPACE, &self.pod).unwrap_or_default()
    }

    /// The status of a container, in the Pod.
    fn status(&self, container: &str) -> Value {
        let pod = self.pod();
        ["containerStatuses", "initContainerStatuses"]
            .iter()
            .filter_map(|list| pod["status"][list].as_array())
            .flatten()
            .find(|status| status["name"] == container)
            .cloned()
            .unwrap_or_default()
    }

    fn state(&self, container: &str) -> Value {
        self.status(container)["state"].take()
    }

    /// The id of a container; empty if it has not started.
    fn container(&self, name: &str) -> String {
        self.status(name)["containerID"].as_str().unwrap_or_default().to_owned()
    }
}
