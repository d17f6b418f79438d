//! The operator itself: its Pods, its own metrics, its processes and their profiles.
//!
//! An *instance* is one process of the operator. Its name is `namespace/pod`, or the address of its metrics if its Pod is
//! not known.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// The operator's workload and Pods, as far as the account may read them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatorView {
    /// The namespace of the operator.
    pub namespace: String,
    /// The name of the workload that runs it, for example of its Deployment. Without the permission to read it, the name
    /// of the Pod without the generated parts.
    pub name: String,
    /// The workload; absent if the account may not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<OperatorWorkload>,
    /// The Pods, ordered by name, at most [`MAX_PODS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<PodView>,
    /// The number of Pods beyond that limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub pods_left_out: u32,
    /// Whether the account may read all Pods. A sidecar may often read only its own.
    pub complete: bool,
}

/// The Deployment or StatefulSet of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatorWorkload {
    /// Its kind.
    pub kind: String,
    /// The number of Pods that it should have.
    pub replicas: u32,
    /// Whether a rollout ends each old Pod before it starts the new one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recreates: bool,
    /// Whether a rollout is under way. Pods that are not ready after a rollout, or that a rollout has given up, are none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rolling: bool,
}

/// A Pod of the operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodView {
    /// Name. The namespace is that of the operator.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Whether loopwatch runs in this Pod.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
    /// `metadata.creationTimestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
    /// `status.phase`; empty if the account may not read the Pod.
    pub phase: String,
    /// The revision of the operator.
    pub revision: Revision,
    /// The operator's own containers: neither loopwatch's nor those of a service mesh. The first one runs the operator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerView>,
}

/// A revision of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Revision {
    /// The label `pod-template-hash`, or `controller-revision-hash`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// The label `app.kubernetes.io/version`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The image of the operator's container.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
}

/// A container of the operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerView {
    /// Name.
    pub name: String,
    /// Whether it is ready.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ready: bool,
    /// Since when it runs; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_since: Option<Timestamp>,
    /// Why it waits, for example `CrashLoopBackOff`; empty if it does not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub waiting: String,
    /// How often the kubelet has restarted it.
    pub restarts: u32,
    /// How it ended last; absent if it never did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<ContainerEnd>,
    /// `resources.limits.memory`, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
}

/// The end of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerEnd {
    /// For example `OOMKilled` or `Error`.
    pub reason: String,
    /// The exit code.
    pub exit_code: i32,
    /// When it had started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
}

/// One scrape of the operator's metrics, in one vocabulary for all frameworks. Signals that the framework does not offer
/// are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetricsView {
    /// The instance.
    pub instance: String,
    /// The framework whose metrics these are.
    pub framework: Framework,
    /// Its controllers, ordered by name, at most [`MAX_CONTROLLERS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<ControllerView>,
    /// The number of controllers beyond that limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub controllers_left_out: u32,
    /// Its requests to the API server since its start, by HTTP status code; `<error>` stands for requests without an
    /// answer. At most [`MAX_CODES`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<(String, u64)>,
    /// Whether it leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leading: Option<bool>,
    /// Its process, as its metrics describe it.
    pub process: ProcessView,
    /// The number of series that it sent.
    pub series: u64,
    /// The number of lines that loopwatch cannot use.
    #[serde(skip_serializing_if = "is_none_skipped")]
    pub lines_skipped: u64,
    /// What is wrong with its metrics, for people: the first problem and its line. It quotes nothing. Empty if nothing is
    /// wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub problem: String,
    /// The number of bytes that it sent.
    pub bytes: u64,
    /// The time that the scrape took.
    pub took: Span,
    /// The time from this scrape to the next one; zero in recordings of older versions.
    #[serde(skip_serializing_if = "is_no_time")]
    pub interval: Span,
}

/// A framework for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framework {
    /// controller-runtime (Go), also as part of Kubebuilder or the Operator SDK.
    ControllerRuntime,
    /// client-go's work queues without controller-runtime.
    ClientGo,
    /// Knative's controllers.
    Knative,
    /// The Java Operator SDK.
    JavaOperatorSdk,
    /// Strimzi.
    Strimzi,
    /// Operators of the Ansible Operator SDK.
    Ansible,
    /// No known metrics of a control loop.
    #[default]
    Unknown,
}

/// A controller of the operator. Counters count since the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ControllerView {
    /// Name.
    pub name: String,
    /// Reconciles that succeeded, including those that asked for another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<u64>,
    /// Reconciles that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Of the reconciles that succeeded, those that asked to be repeated, at once or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeued: Option<u64>,
    /// Reconciles that panicked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panicked: Option<u64>,
    /// Number and total duration of reconciles, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile_seconds: Option<Durations>,
    /// Workers that reconcile now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers_busy: Option<u64>,
    /// The maximum number of workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers_max: Option<u64>,
    /// Objects that wait in the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u64>,
    /// Objects added to the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_adds: Option<u64>,
    /// Number and total duration of waits in the queue, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_seconds: Option<Durations>,
    /// The sum of the times for which all reconciles that have not ended have been running, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished_seconds: Option<f64>,
    /// The longest of these times, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_running_seconds: Option<f64>,
}

/// A number of durations and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Durations {
    /// Number.
    pub count: u64,
    /// Sum in seconds.
    pub sum: f64,
}

/// A process of the operator. Signals that the reader could not get are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessView {
    /// The instance.
    pub instance: String,
    /// Its process number; absent if it comes from metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// When the process started. From the kernel, the time is by the clock of the observations and may differ by some
    /// seconds after a clock step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When the process started, in hundredths of a second since the node booted; absent if it comes from metrics. No
    /// clock step changes it: another number means another process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ticks: Option<u64>,
    /// Its language runtime.
    pub runtime: Runtime,
    /// CPU time since its start, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// Resident memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
    /// Resident memory that is not backed by files, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anonymous: Option<u64>,
    /// Memory of the container that the kernel cannot reclaim easily, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set: Option<u64>,
    /// The container's memory limit, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
    /// Heap that was in use after the last garbage collection, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_heap: Option<u64>,
    /// The size of the heap at which the next garbage collection begins, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heap_goal: Option<u64>,
    /// The limit that the runtime tries to keep (`GOMEMLIMIT`, `-Xmx`), in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_limit: Option<u64>,
    /// `GOGC`, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc_percent: Option<u64>,
    /// Garbage collections since its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc_cycles: Option<u64>,
    /// The last garbage collection in which the runtime limited its own CPU time; 0 if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gc_limited_cycle: Option<u64>,
    /// Goroutines of Go; absent for other runtimes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goroutines: Option<u64>,
    /// Threads of the operating system, or live threads of the JVM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// Open file descriptors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_fds: Option<u64>,
    /// The maximum number of open file descriptors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_fds: Option<u64>,
    /// The share of the last 60 s in which at least one task of the container waited for memory, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_pressure: Option<f64>,
    /// How often the kernel has killed a process of the container because of its memory limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
}

/// A language runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    /// Go.
    Go,
    /// A Java virtual machine.
    Jvm,
    /// Python.
    Python,
    /// None, or one that loopwatch does not recognize.
    #[default]
    Unknown,
}

/// Two profiles of an instance, compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileView {
    /// The instance.
    pub instance: String,
    /// The kind of profile.
    pub kind: ProfileKind,
    /// When the first profile was taken.
    pub from: Timestamp,
    /// When the second profile was taken.
    pub to: Timestamp,
    /// The stacks that grew most, at most [`MAX_STACKS`], fastest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<GrowingStack>,
    /// The name of the file with the second profile; empty if it was not kept.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The name of the file with the first profile; empty if it was not kept.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub first_file: String,
}

/// A kind of profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileKind {
    /// Bytes of the heap in use, by the stack that allocated them.
    #[default]
    Heap,
    /// Goroutines, by their stack.
    Goroutines,
}

/// A stack whose share of a profile grew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrowingStack {
    /// The functions, innermost first, at most [`MAX_FRAMES`].
    pub functions: Vec<String>,
    /// The growth, in bytes or goroutines.
    pub growth: u64,
    /// The value in the second profile.
    pub now: u64,
}

/// The maximum number of Pods in an [`OperatorView`].
pub const MAX_PODS: usize = 50;

/// The maximum number of controllers in a [`MetricsView`].
pub const MAX_CONTROLLERS: usize = 200;

/// The maximum number of status codes in a [`MetricsView`].
pub const MAX_CODES: usize = 64;

/// The maximum number of stacks in a [`ProfileView`].
pub const MAX_STACKS: usize = 10;

/// The maximum number of functions of a [`GrowingStack`].
pub const MAX_FRAMES: usize = 16;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none_skipped(lines: &u64) -> bool {
    *lines == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_no_time(span: &Span) -> bool {
    *span == Span::ZERO
}

// === impl Revision ===

impl Revision {
    /// Returns the value of the `operator_revision` label: the hash, or else the version or the image; empty if none is
    /// known.
    #[must_use]
    pub fn label(&self) -> &str {
        [&self.hash, &self.version, &self.image].into_iter().find(|part| !part.is_empty()).map_or("", String::as_str)
    }
}

// === impl Framework ===

impl Framework {
    /// Returns the value of the `framework` label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ControllerRuntime => "controller-runtime",
            Self::ClientGo => "client-go",
            Self::Knative => "knative",
            Self::JavaOperatorSdk => "java-operator-sdk",
            Self::Strimzi => "strimzi",
            Self::Ansible => "ansible",
            Self::Unknown => "unknown",
        }
    }
}

// === impl ProfileKind ===

impl ProfileKind {
    /// Returns the kind in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Goroutines => "goroutines",
        }
    }
}

// === impl GrowingStack ===

/// The first parts of the packages of Go's runtime and standard library.
const STANDARD_PACKAGES: &[&str] = &[
    "archive",
    "bufio",
    "bytes",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
    "unique",
    "vendor",
    "weak",
];

impl GrowingStack {
    /// Returns the innermost function outside Go's runtime and standard library, which is the one to look at; the innermost
    /// function if there is none.
    #[must_use]
    pub fn culprit(&self) -> &str {
        let package = |function: &str| function.split(['/', '.']).next().unwrap_or_default().to_owned();
        let own = self.functions.iter().find(|function| !STANDARD_PACKAGES.contains(&package(function).as_str()));
        own.or(self.functions.first()).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_culprit_is_the_innermost_function_of_the_program() {
        for (functions, expected) in [
            (&["runtime.gopark", "runtime.chanrecv1", "main.waitForever", "main.watch"][..], "main.waitForever"),
            (&["bytes.growSlice", "bytes.(*Buffer).Write", "github.com/a/b.(*C).D"], "github.com/a/b.(*C).D"),
            (&["internal/poll.runtime_pollWait", "net.(*conn).Read"], "internal/poll.runtime_pollWait"),
            (&["runtime.gopark", "iot/device.Run"], "iot/device.Run"),
            (&[], ""),
        ] {
            let functions = functions.iter().map(ToString::to_string).collect();
            assert_eq!(GrowingStack { functions, ..GrowingStack::default() }.culprit(), expected);
        }
    }
}
