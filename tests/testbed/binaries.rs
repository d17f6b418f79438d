//! Finds the programs of the test bed: in `KUBEBUILDER_ASSETS`, else in a cache of earlier builds,
//! else with `go build`, which takes minutes once. Packages of Python come from PyPI into the same
//! cache.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use siphasher::sip::SipHasher13;

use super::repository;

/// The module of the programs of Kubernetes. The variable `KUBERNETES` selects that of another version:
/// `KUBERNETES=1.36` the folder `kubernetes-1.36`.
const KUBERNETES: &str = "kubernetes";
/// The environment variable that selects a version.
const VERSION: &str = "KUBERNETES";

/// The interval at which a build reports its progress.
const PROGRESS: Duration = Duration::from_secs(20);

/// A program, and the Go module that pins its version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Built {
    pub(crate) name: &'static str,
    /// The folder of the module, below `controlplane`.
    pub(crate) module: &'static str,
    pub(crate) package: &'static str,
    /// The time that a cold build takes on two cores, as text.
    pub(crate) takes: &'static str,
}

/// The programs from the Kubernetes repository, which share packages. The largest comes first.
const KUBERNETES_PARTS: [Built; 3] = [
    Built {
        name: "kube-apiserver",
        module: KUBERNETES,
        package: "k8s.io/kubernetes/cmd/kube-apiserver",
        takes: "4 to 10 minutes",
    },
    Built {
        name: "kube-controller-manager",
        module: KUBERNETES,
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
        takes: "a minute or two",
    },
    Built {
        name: "kube-scheduler",
        module: KUBERNETES,
        package: "k8s.io/kubernetes/cmd/kube-scheduler",
        takes: "20 seconds",
    },
];
const OTHER_PARTS: [Built; 4] = [
    Built { name: "etcd", module: "etcd", package: "go.etcd.io/etcd/server/v3", takes: "a minute" },
    Built {
        name: "kwok",
        module: "kwok",
        package: "sigs.k8s.io/kwok/cmd/kwok",
        takes: "two minutes",
    },
    Built {
        name: "kustomize",
        module: "kustomize",
        package: "sigs.k8s.io/kustomize/kustomize/v5",
        takes: "half a minute",
    },
    CERT_MANAGER,
];

/// A published operator, which the default tests use.
pub(crate) const CERT_MANAGER: Built = Built {
    name: "cert-manager-controller",
    module: "cert-manager",
    package: "github.com/cert-manager/cert-manager/cmd/controller",
    takes: "one to three minutes",
};

/// The files of cert-manager's module that an installation needs: the definitions and the
/// permissions.
const CERT_MANAGER_FILES: [&str; 7] = [
    "deploy/crds/crd-certificaterequests.yaml",
    "deploy/crds/crd-certificates.yaml",
    "deploy/crds/crd-challenges.yaml",
    "deploy/crds/crd-clusterissuers.yaml",
    "deploy/crds/crd-issuers.yaml",
    "deploy/crds/crd-orders.yaml",
    "deploy/charts/cert-manager/templates/rbac.yaml",
];

/// An operator of RabbitMQ, which no default test needs.
pub(crate) const RABBITMQ: Built = Built {
    name: "rabbitmq-cluster-operator",
    module: "rabbitmq",
    package: "github.com/rabbitmq/cluster-operator/v2",
    takes: "a minute",
};

/// A receiver of traces with an API, which only one test needs.
const JAEGER: Built = Built {
    name: "jaeger-all-in-one",
    module: "jaeger",
    package: "github.com/jaegertracing/jaeger/cmd/all-in-one",
    takes: "two minutes",
};

/// An adapter between Prometheus and autoscalers, which only one test needs.
const PROMETHEUS_ADAPTER: Built = Built {
    name: "prometheus-adapter",
    module: "prometheus-adapter",
    package: "sigs.k8s.io/prometheus-adapter/cmd/adapter",
    takes: "two minutes",
};

/// The agent of a real node, which only the tests on one need.
const KUBELET: Built = Built {
    name: "kubelet",
    module: KUBERNETES,
    package: "k8s.io/kubernetes/cmd/kubelet",
    takes: "half a minute",
};

/// Helm, which only the tests of the chart need.
const HELM_4: Built = Built {
    name: "helm4",
    module: "helm4",
    package: "helm.sh/helm/v4/cmd/helm",
    takes: "two to four minutes",
};

/// The version of Helm before, which only an ignored test needs.
const HELM_3: Built = Built {
    name: "helm3",
    module: "helm3",
    package: "helm.sh/helm/v3/cmd/helm",
    takes: "two to four minutes",
};

/// The program that the benchmarks compare loopwatch with. Tests do not need it.
const KUBE_STATE_METRICS: Built = Built {
    name: "kube-state-metrics",
    module: "kube-state-metrics",
    package: "k8s.io/kube-state-metrics/v2",
    takes: "two minutes",
};

/// Paths of all programs, each field named after its program.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Binaries {
    pub etcd: PathBuf,
    pub apiserver: PathBuf,
    pub controller_manager: PathBuf,
    pub scheduler: PathBuf,
    pub kwok: PathBuf,
    pub kustomize: PathBuf,
    pub cert_manager: PathBuf,
    /// The templates with cert-manager's definitions and permissions, in one file.
    pub cert_manager_templates: PathBuf,
    pub widget_operator: PathBuf,
}

/// The program and the manifests of RabbitMQ's cluster operator.
#[derive(Clone, Debug)]
pub struct RabbitmqFiles {
    /// The operator's executable.
    pub operator: PathBuf,
    /// Its manifests, in one file.
    pub manifests: PathBuf,
}

/// The reason why a program is missing.
#[derive(Clone, Debug)]
pub enum Missing {
    /// Go is not installed.
    Go(String),
    /// Python is not installed, or PyPI cannot be reached.
    Python(String),
    /// Maven or a JDK is not installed, or Maven Central cannot be reached.
    Java(String),
    /// The build failed, or its result could not be stored.
    Build(String),
}

/// Finds or builds everything.
///
/// # Errors
/// Names the missing program and the remedy.
pub fn find() -> Result<Binaries, Missing> {
    let cache = cache()?;
    let lanes = std::thread::scope(|scope| {
        // Two builds at a time: a Go build keeps two cores busy, except while it links.
        let kubernetes =
            scope.spawn(|| KUBERNETES_PARTS.iter().map(|part| part.find(&cache)).collect());
        let others = scope.spawn(|| {
            let mut paths =
                OTHER_PARTS.iter().map(|part| part.find(&cache)).collect::<Result<Vec<_>, _>>()?;
            paths.push(cert_manager_templates(&cache)?);
            paths.push(widget_operator(&cache)?);

            Ok(paths)
        });

        [kubernetes.join(), others.join()]
            .map(|lane| lane.unwrap_or_else(|_| Err("a build panicked".to_owned().into())))
    });

    let [kubernetes, others]: [Result<Vec<PathBuf>, Missing>; 2] = lanes;
    let [apiserver, controller_manager, scheduler] = exactly(kubernetes?);
    let [etcd, kwok, kustomize, cert_manager, cert_manager_templates, widget_operator] =
        exactly(others?);

    Ok(Binaries {
        etcd,
        apiserver,
        controller_manager,
        scheduler,
        kwok,
        kustomize,
        cert_manager,
        cert_manager_templates,
        widget_operator,
    })
}

/// Finds or builds the kubelet.
///
/// # Errors
/// Like [`find`].
pub fn kubelet() -> Result<PathBuf, Missing> {
    KUBELET.find(&cache()?)
}

/// Finds or builds kube-state-metrics.
///
/// # Errors
/// Like [`find`].
pub fn kube_state_metrics() -> Result<PathBuf, Missing> {
    KUBE_STATE_METRICS.find(&cache()?)
}

/// Finds or builds Jaeger.
///
/// # Errors
/// Like [`find`].
pub fn jaeger() -> Result<PathBuf, Missing> {
    JAEGER.find(&cache()?)
}

/// Finds or builds Helm 4.
///
/// # Errors
/// Like [`find`].
pub fn helm_4() -> Result<PathBuf, Missing> {
    HELM_4.find(&cache()?)
}

/// Finds or builds Helm 3.
///
/// # Errors
/// Like [`find`].
pub fn helm_3() -> Result<PathBuf, Missing> {
    HELM_3.find(&cache()?)
}

/// Finds or builds prometheus-adapter.
///
/// # Errors
/// Like [`find`].
pub fn prometheus_adapter() -> Result<PathBuf, Missing> {
    PROMETHEUS_ADAPTER.find(&cache()?)
}

/// Finds or builds RabbitMQ's cluster operator, and finds or renders the manifests of its module.
///
/// # Errors
/// Like [`find`].
pub fn rabbitmq(kustomize: &Path) -> Result<RabbitmqFiles, Missing> {
    let cache = cache()?;
    let operator = RABBITMQ.find(&cache)?;
    let manifests =
        once(&kept(&cache, RABBITMQ.module)?.join("rabbitmq-cluster-operator.yaml"), |out| {
            let said = |error: &dyn fmt::Display| {
                format!("cannot render the manifests of RabbitMQ's operator: {error}")
            };
            let folder =
                module_folder(RABBITMQ.module, RABBITMQ.package)?.join("config/installation");
            let mut render = Command::new(kustomize);

            render.arg("build").arg(folder).arg("--output").arg(out).stdin(Stdio::null());
            let answer = render.output().map_err(|error| said(&error))?;
            match answer.status.success() {
                true => Ok(()),
                false => Err(said(&String::from_utf8_lossy(&answer.stderr)).into()),
            }
        })?;

    Ok(RabbitmqFiles { operator, manifests })
}

fn exactly<const N: usize>(paths: Vec<PathBuf>) -> [PathBuf; N] {
    paths.try_into().expect("a lane builds all of its parts or fails")
}

/// The user's cache folder for built programs.
pub(crate) fn cache() -> Result<PathBuf, String> {
    let base = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => std::env::home_dir()
            .ok_or("there is no home folder to keep built programs in")?
            .join(".cache"),
    };
    Ok(base.join("loopwatch"))
}

impl Built {
    /// Finds or builds the program.
    pub(crate) fn find(&self, cache: &Path) -> Result<PathBuf, Missing> {
        let Self { name, module, package, takes } = self;
        let asset =
            std::env::var_os("KUBEBUILDER_ASSETS").map(|folder| Path::new(&folder).join(name));
        if let Some(asset) = asset.filter(|path| path.exists()) {
            return Ok(asset);
        }

        once(&kept(cache, module)?.join(name), |out| {
            let (folder, flags) = (pinned(module)?, ldflags(module)?);
            let flags = ["-trimpath", "-ldflags", &flags].map(OsStr::new);
            go_build(name, takes, &folder, out, &flags, package)
        })
    }
}

/// The folder of the Go module that pins the version of a program, below `controlplane`.
fn pinned(module: &str) -> Result<PathBuf, Missing> {
    let all = repository("tests/testbed/controlplane");
    let version = std::env::var(VERSION).unwrap_or_default();
    if module != KUBERNETES || version.is_empty() {
        return Ok(all.join(module));
    }

    let folder = all.join(format!("{KUBERNETES}-{version}"));
    if folder.is_dir() {
        return Ok(folder);
    }

    let mut versions: Vec<_> = fs::read_dir(&all)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_prefix("kubernetes-").map(str::to_owned))
        .collect();

    versions.sort();
    Err(format!(
        "{VERSION}={version}: there is no {}; unset it, or choose {}",
        folder.display(),
        versions.join(" or ")
    )
    .into())
}

/// The folder in the cache for what comes from a module. Its name contains a hash of the module's
/// files, so that another version leads to a new build.
fn kept(cache: &Path, module: &str) -> Result<PathBuf, Missing> {
    let folder = pinned(module)?;
    let is_source = |name: &str| matches!(name, "go.mod" | "go.sum");
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let hash = fingerprint(&folder, is_source)?;

    Ok(cache.join("controlplane").join(format!("{name}-{hash:016x}")))
}

/// The flags of the linker: no symbols and, for the programs of Kubernetes, the version that they
/// report, which is that in `go.mod`.
fn ldflags(module: &str) -> Result<String, Missing> {
    let flags = "-s -w";
    if module != KUBERNETES {
        return Ok(flags.to_owned());
    }

    let file = pinned(module)?.join("go.mod");
    let text = fs::read_to_string(&file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("require k8s.io/kubernetes "))
        .ok_or_else(|| format!("{} requires no k8s.io/kubernetes", file.display()))?;

    Ok(format!("{flags} -X k8s.io/component-base/version.gitVersion={version}"))
}

/// Finds cert-manager's definitions and permissions, or copies them from its module.
fn cert_manager_templates(cache: &Path) -> Result<PathBuf, Missing> {
    once(&kept(cache, "cert-manager")?.join("cert-manager.yaml"), |out| {
        let folder = module_folder("cert-manager", "github.com/cert-manager/cert-manager")?;
        let said = |error: &dyn fmt::Display| {
            format!("cannot copy the files of cert-manager's module: {error}")
        };
        let mut all = String::new();

        for file in CERT_MANAGER_FILES {
            all += &fs::read_to_string(folder.join(file))
                .map_err(|error| said(&format_args!("{file}: {error}")))?;
            all += "\n---\n";
        }

        fs::write(out, all).map_err(|error| said(&error).into())
    })
}

/// Finds the files of a Go module that the module in a folder below `controlplane` pins.
pub(crate) fn module_folder(pinned_by: &str, module: &str) -> Result<PathBuf, Missing> {
    let said = |error: &dyn fmt::Display| format!("cannot find the files of {module}: {error}");
    let mut go = Command::new("go");
    go.current_dir(pinned(pinned_by)?);
    go.args(["mod", "download", "-json", module]).stdin(Stdio::null());

    let answer = go.output().map_err(|error| Missing::Go(said(&error)))?;
    let found: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
    let folder = found["Dir"].as_str().map(PathBuf::from);
    folder.ok_or_else(|| said(&String::from_utf8_lossy(&answer.stderr)).into())
}

/// Finds or builds the operator of the zoo. Its name in the cache contains a hash of its sources,
/// so a change leads to a new build.
fn widget_operator(cache: &Path) -> Result<PathBuf, Missing> {
    let sources = repository("tests/zoo/widget-operator");
    let folder = cache.join("zoo");
    let is_source = |name: &str| {
        name == "go.mod"
            || name == "go.sum"
            || (name.ends_with(".go") && !name.ends_with("_test.go"))
    };
    let target = folder.join(format!("widget-operator-{:016x}", fingerprint(&sources, is_source)?));

    let path = once(&target, |out| {
        go_build(
            "widget-operator",
            "a minute or two",
            &sources,
            out,
            // Without C, so that an image needs nothing but the program.
            &["-buildvcs=false", "-tags=netgo,osusergo", "-ldflags=-extldflags=-static"]
                .map(OsStr::new),
            ".",
        )
    })?;

    sweep(&folder, &path);
    Ok(path)
}

/// Hashes the files of a folder that a build of its program reads: those with such names, in
/// folders below it, too.
pub(crate) fn fingerprint(folder: &Path, is_source: fn(&str) -> bool) -> Result<u64, String> {
    let mut sources = Vec::new();
    list(folder, is_source, &mut sources)?;
    sources.sort();

    let mut hash = SipHasher13::new();
    for source in sources {
        hash.write(source.file_name().unwrap_or_default().as_encoded_bytes());
        hash.write(
            &fs::read(&source)
                .map_err(|error| format!("cannot read {}: {error}", source.display()))?,
        );
    }

    Ok(hash.finish())
}

fn list(
    folder: &Path,
    is_source: fn(&str) -> bool,
    sources: &mut Vec<PathBuf>,
) -> Result<(), String> {
    let entries = fs::read_dir(folder)
        .map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        match path.is_dir() {
            true if name != "target" => list(&path, is_source, sources)?,
            false if is_source(name) => sources.push(path),
            _ => {}
        }
    }

    Ok(())
}

/// Removes builds of other sources that are older than a week.
pub(crate) fn sweep(folder: &Path, keep: &Path) {
    let week = Duration::from_secs(7 * 24 * 3600);
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    for entry in entries.filter(|entry| entry.path() != keep) {
        let made = entry.metadata().and_then(|data| data.modified()).ok();
        if made.and_then(|made| made.elapsed().ok()).is_some_and(|age| age > week) {
            remove(&entry.path());
        }
    }
}

/// Removes a file or a folder, which another process may have removed.
fn remove(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Makes `target` unless it exists. One process builds while others wait for it, and none sees an
/// incomplete file.
pub(crate) fn once(
    target: &Path,
    make: impl FnOnce(&Path) -> Result<(), Missing>,
) -> Result<PathBuf, Missing> {
    if target.exists() {
        return Ok(target.to_owned());
    }

    let said = |error: std::io::Error| {
        Missing::Build(format!("cannot keep {}: {error}", target.display()))
    };
    fs::create_dir_all(target.parent().unwrap_or(target)).map_err(said)?;

    let lock = File::create(target.with_added_extension("lock")).map_err(said)?;
    lock.lock().map_err(said)?;
    if !target.exists() {
        let unfinished = target.with_added_extension(format!("{}.tmp", std::process::id()));
        let made = make(&unfinished).and_then(|()| fs::rename(&unfinished, target).map_err(said));
        if made.is_err() {
            remove(&unfinished);
        }

        made?;
    }

    Ok(target.to_owned())
}

fn go_build(
    name: &str,
    takes: &str,
    folder: &Path,
    out: &Path,
    flags: &[&OsStr],
    package: &str,
) -> Result<(), Missing> {
    let help = "install Go 1.25 or later (https://go.dev/dl)";
    eprintln!("test bed: building {name} once, which takes {takes} on two cores");

    let began = Instant::now();
    let mut command = Command::new("go");
    command.current_dir(folder).args(["build", "-v", "-o"]).arg(out).args(flags).arg(package);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());

    let mut child = command
        .spawn()
        .map_err(|error| Missing::Go(format!("cannot build {name}: go: {error}; {help}")))?;

    // With `-v`, go prints each package that it compiles to standard error, together with its
    // errors.
    let (mut packages, mut last, mut said) = (0, Vec::new(), Instant::now());
    for line in child
        .stderr
        .take()
        .into_iter()
        .flat_map(|err| BufReader::new(err).lines())
        .map_while(Result::ok)
    {
        packages += 1;
        if said.elapsed() >= PROGRESS {
            said = Instant::now();
            eprintln!(
                "test bed: building {name}: {packages} packages, {} s",
                began.elapsed().as_secs()
            );
        }

        if last.len() == 20 {
            last.remove(0);
        }

        last.push(line);
    }

    let status = child.wait().map_err(|error| format!("cannot build {name}: {error}"))?;
    if !status.success() {
        return Err(format!(
            "cannot build {name} in {} ({status}):\n{}",
            folder.display(),
            last.join("\n")
        )
        .into());
    }

    eprintln!("test bed: built {name} in {} s", began.elapsed().as_secs());
    Ok(())
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Go(reason) | Self::Python(reason) | Self::Java(reason) | Self::Build(reason) => {
                f.write_str(reason)
            }
        }
    }
}

impl From<String> for Missing {
    fn from(reason: String) -> Self {
        Self::Build(reason)
    }
}
