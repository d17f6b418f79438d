//! Published operators of different styles, unchanged, each as a process and a Pod that stands for it.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::binaries::{self, Built, Missing, cache, module_folder};
use super::controlplane::ControlPlane;
use super::guard::Program;
use super::pods::{self, StandInPod};
use super::published::{self, Replica};
use super::wait::eventually;
use super::{cert_manager, kustomize, ports, rabbitmq};

/// An operator that can be built from its Go module.
#[derive(Debug)]
pub struct Published {
    /// Its name, and that of its namespace, its account and its Deployment.
    pub name: &'static str,
    build: Built,
    /// The name of the executable in its image, by which its client names itself unless the operator names
    /// a field manager.
    executable: &'static str,
    /// Files and folders of its module with definitions and permissions.
    manifests: &'static [&'static str],
    /// Objects that a user of its chart has, besides those in the files.
    more: fn(plane: &ControlPlane, name: &str) -> Vec<Value>,
    /// Its arguments, for the ports of its metrics and of its health checks, and its kubeconfig.
    arguments: fn(metrics: u16, health: u16, kubeconfig: &Path) -> Vec<String>,
}

/// A running operator.
pub struct Running {
    /// The process.
    pub replica: Replica,
    /// The Pod that stands for it.
    pub pod: StandInPod,
}

/// Work queues of client-go without controller-runtime; progressive delivery.
pub const ARGO_ROLLOUTS: Published = Published {
    name: "argo-rollouts",
    build: Built {
        name: "rollouts-controller",
        module: "argo-rollouts",
        package: "github.com/argoproj/argo-rollouts/cmd/rollouts-controller",
        takes: "two to four minutes",
    },
    executable: "rollouts-controller",
    manifests: &["manifests/install.yaml"],
    more: |_, _| Vec::new(),
    arguments: |metrics, health, _| {
        vec![format!("--metricsPort={metrics}"), format!("--healthzPort={health}")]
    },
};

/// Informers of its own; statuses with a summary of Pods.
pub const PROMETHEUS_OPERATOR: Published = Published {
    name: "prometheus-operator",
    build: Built {
        name: "prometheus-operator",
        module: "prometheus-operator",
        package: "github.com/prometheus-operator/prometheus-operator/cmd/operator",
        takes: "two minutes",
    },
    executable: "operator",
    manifests: &["bundle.yaml"],
    more: |_, _| Vec::new(),
    arguments: |metrics, _, _| vec![format!("--web.listen-address=127.0.0.1:{metrics}")],
};

/// A dynamic controller, whose kinds appear at run time.
pub const KRO: Published = Published {
    name: "kro",
    build: Built {
        name: "kro-controller",
        module: "kro",
        package: "github.com/kubernetes-sigs/kro/cmd/controller",
        takes: "two minutes, and needs Go 1.26",
    },
    executable: "controller",
    manifests: &["helm/crds"],
    more: |_, name| unrestricted(name),
    arguments: |metrics, health, _| {
        vec![
            format!("--metrics-bind-address=127.0.0.1:{metrics}"),
            format!("--health-probe-bind-address=127.0.0.1:{health}"),
        ]
    },
};

/// Many controllers in one process, whose objects are no workloads.
pub const CERT_MANAGER: Published = Published {
    name: "cert-manager",
    build: binaries::CERT_MANAGER,
    executable: "controller",
    manifests: &[],
    more: |plane, name| [workload(name).to_vec(), cert_manager::manifests(plane)].concat(),
    arguments: |metrics, _, kubeconfig| {
        vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            "--cluster-resource-namespace=cert-manager".to_owned(),
            "--leader-election-namespace=cert-manager".to_owned(),
            format!("--metrics-listen-address=127.0.0.1:{metrics}"),
        ]
    },
};

/// Objects with workloads and volumes of their own; commands in the Pods of these workloads.
pub const RABBITMQ: Published = Published {
    name: rabbitmq::ACCOUNT,
    build: binaries::RABBITMQ,
    executable: rabbitmq::MANAGER,
    manifests: &[],
    more: |plane, _| rabbitmq::manifests(plane),
    arguments: |metrics, _, kubeconfig| {
        vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--metrics-bind-address=127.0.0.1:{metrics}"),
        ]
    },
};

/// Returns the account and the Deployment of a chart.
fn workload(name: &str) -> [Value; 2] {
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
            "selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"serviceAccountName": name, "containers": [{"name": name, "image": name}]}}}}),
    ]
}

/// Returns what kro's chart has with its default permissions, which are everything. Viewers may read its
/// kinds.
fn unrestricted(name: &str) -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = format!("{name}-cluster-role");
    let mut objects = workload(name).to_vec();
    objects.extend([
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": role},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
        json!({"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": name}]}),
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": format!("{name}-view"),
            "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
            "rules": [{"apiGroups": ["kro.run"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]}),
    ]);
    objects
}

impl Published {
    /// Builds and installs it, starts it, and waits until it serves its metrics.
    pub fn start(&self, plane: &ControlPlane) -> Running {
        let program = self.program(plane);
        self.install(plane);

        let kubeconfig = plane.kubeconfig_of(
            &format!("{}.kubeconfig", self.name),
            &plane.url,
            self.name,
            self.name,
        );
        let [metrics, health] = [(); 2].map(|()| ports::free());
        let here = Ipv4Addr::LOCALHOST;
        let pod = pods::deploy_for(&plane.kube, self.name, self.name, here, Some(metrics));
        let program = Program::new(self.name, program, plane.directory())
            .env("KUBECONFIG", &kubeconfig)
            .env("POD_NAMESPACE", self.name)
            .env("OPERATOR_NAMESPACE", self.name)
            .args((self.arguments)(metrics, health, &kubeconfig));

        Running { replica: Replica::start(&program, metrics), pod }
    }

    /// Builds it, and gives it the name that it has in its image.
    fn program(&self, plane: &ControlPlane) -> PathBuf {
        let find = || self.build.find(&cache()?);
        let built = find().unwrap_or_else(|missing: Missing| panic!("{missing}"));

        let folder = plane.directory().join(format!("{}.image", self.name));
        published::renamed(&built, self.executable, &folder)
    }

    /// Applies its manifests in its namespace with the component that lets loopwatch read more, without its
    /// Deployment: a Pod stands for that.
    fn install(&self, plane: &ControlPlane) {
        let module = self.build.package.split("/cmd/").next().unwrap_or_default();
        let source = module_folder(self.build.module, module);
        let source = source.unwrap_or_else(|missing| panic!("{missing}"));
        let outer = plane.directory().join(format!("{}.manifests", self.name));
        let folder = outer.join("operator");
        std::fs::create_dir_all(&folder).expect("our own folder");

        let mut files = Vec::new();
        for found in self.manifests.iter().flat_map(|path| yaml_files(&source.join(path))) {
            let name = format!("{}.yaml", files.len());
            std::fs::copy(found, folder.join(&name)).expect("the module and our own folder");
            files.push(name);
        }

        let more: Vec<String> =
            (self.more)(plane, self.name).iter().map(Value::to_string).collect();
        if !more.is_empty() {
            std::fs::write(folder.join("more.yaml"), more.join("\n---\n")).expect("our own folder");
            files.push("more.yaml".to_owned());
        }

        let kustomization = json!({"namespace": self.name, "resources": files});
        let objects = kustomize::with_reader_rights(plane, &outer, kustomization);
        plane.kube.namespace(self.name);
        for object in objects.iter().filter(|object| object["kind"] != "Deployment") {
            plane.kube.apply(object);
        }

        let definitions = objects.iter().filter(|it| it["kind"] == "CustomResourceDefinition");
        definitions.for_each(|definition| wait_served(plane, definition));
    }
}

/// Waits until the API server serves a kind and lists it among the kinds that it serves, which is a moment
/// later: an operator that starts before that ends.
fn wait_served(plane: &ControlPlane, definition: &Value) {
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let (resource, group) = name.split_once('.').unwrap_or_default();
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    for version in versions.filter(|version| version["served"] == true) {
        let path = format!("/apis/{group}/{}", version["name"].as_str().unwrap_or_default());
        eventually(Duration::from_secs(60), &format!("{name} is served"), || {
            let served = plane.kube.get(&path)?;
            let mut all = served["resources"].as_array().into_iter().flatten();
            let is_served = all.any(|it| it["name"] == resource);
            if is_served { Ok(()) } else { Err(served.to_string()) }
        });
    }
}

/// Returns a file, or the files in a folder.
fn yaml_files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else { return vec![path.to_owned()] };
    let mut files: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    files.sort();
    files
}
