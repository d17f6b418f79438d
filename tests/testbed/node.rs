//! A real node on this machine: a control plane of its own, containerd with runc, and a kubelet.
//!
//! The API server listens on the address of its Service, so that Pods reach it without kube-proxy.
//! Pods get addresses from the CNI plugin `ptp`. Nothing leaves the machine.

use std::fmt;
use std::fs;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::json;

use super::binaries::{self, Binaries, Missing};
use super::controlplane::{ControlPlane, Nodes, SERVICE};
use super::guard::{Process, Program};
use super::images::{self, Image};
use super::wait::{eventually, pause};

/// The name and the address of the node.
const NODE: &str = "10.88.8.1";

/// The addresses of its Pods.
const PODS: &str = "10.88.7.0/24";

/// The Debian packages that it needs, each with a file of it.
const PACKAGES: [(&str, &str); 6] = [
    ("containerd", "/usr/bin/containerd"),
    ("runc", "/usr/sbin/runc"),
    ("containernetworking-plugins", "/usr/lib/cni/ptp"),
    ("buildah", "/usr/bin/buildah"),
    ("busybox-static", "/bin/busybox"),
    ("iproute2", "/sbin/ip"),
];

/// A running node. Everything stops when it is dropped.
pub struct Node {
    /// Its control plane.
    pub plane: ControlPlane,
    kubelet: Mutex<Process>,
    containerd: Process,
    directory: PathBuf,
}

/// Why this machine has no real node.
#[derive(Debug)]
pub struct Impossible(String);

impl Node {
    /// Returns why this machine cannot run a node.
    ///
    /// # Errors
    /// Names the missing packages or permissions.
    pub fn check() -> Result<(), Impossible> {
        if !rustix::process::geteuid().is_root() {
            return Err(Impossible("a real node needs root".to_owned()));
        }

        let missing: Vec<_> = PACKAGES
            .into_iter()
            .filter(|(_, file)| !Path::new(file).exists())
            .map(|(package, _)| package)
            .collect();
        if !missing.is_empty() {
            return Err(Impossible(format!("install {}", missing.join(", "))));
        }

        let mounts = Command::new("unshare")
            .args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"])
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounts {
            return Err(Impossible("this machine does not allow mounts".to_owned()));
        }

        for address in [SERVICE.to_string(), NODE.to_owned()] {
            let route = ip(&["route", "get", &address]);
            // A neighbour of this machine, perhaps its gateway. An earlier node leaves a local one.
            if !route.is_empty() && !route.contains(" via ") && !route.starts_with("local ") {
                return Err(Impossible(format!(
                    "a real node needs the address {address}, which belongs to a network of this machine"
                )));
            }
        }

        set_address("replace", &SERVICE.to_string());
        TcpListener::bind((SERVICE, 443)).map(drop).map_err(|error| {
            Impossible(format!("a real node needs port 443 of {SERVICE}: {error}"))
        })
    }

    /// Starts a node.
    ///
    /// # Errors
    /// Names a program that cannot be built.
    pub fn start(binaries: Binaries) -> Result<Self, Missing> {
        let kubelet = binaries::kubelet()?;
        // Of an earlier node whose process was killed: their routes lead to the addresses of new Pods.
        remove_networks();
        set_address("replace", &SERVICE.to_string());
        set_address("replace", NODE);

        let plane = ControlPlane::start_for(binaries, Nodes::Real);
        let directory = plane.directory().to_owned();
        let containerd = containerd(&directory).start();
        eventually(Duration::from_secs(30), "containerd listens", || {
            let socket = directory.join("containerd.sock");
            socket.exists().then_some(()).ok_or_else(|| "it does not".to_owned())
        });

        let forever = ["/busybox", "sleep", "2147483647"];
        import(&directory, &images::of(&directory, "pause", Path::new("/bin/busybox"), &forever));

        let kubelet = Mutex::new(kubelet_of(&kubelet, &directory).start());
        let node = Self { plane, kubelet, containerd, directory };
        node.plane.wait_node_ready(NODE);
        Ok(node)
    }

    /// Makes an image known to the node.
    pub fn import(&self, image: &Image) {
        import(&self.directory, image);
    }

    /// Calls `act` in the network of a container's Pod, where loopback addresses are those of the
    /// Pod.
    ///
    /// # Errors
    /// The container does not run, or `act` fails.
    pub fn in_network_of<T: Send>(
        &self,
        container: &str,
        act: impl FnOnce() -> Result<T, String> + Send,
    ) -> Result<T, String> {
        let process = self.process_of(container)?;
        let said = |error: &dyn fmt::Display| format!("the network of {container}: {error}");
        let network =
            fs::File::open(format!("/proc/{process}/ns/net")).map_err(|error| said(&error))?;

        // Only the thread moves, and it ends here.
        std::thread::scope(|scope| {
            let moved = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(network.as_fd(), kind).map_err(|error| said(&error))?;
                act()
            });
            moved.join().unwrap_or_else(|_| Err(said(&"the thread panicked")))
        })
    }

    /// Pauses a container with SIGSTOP: its connections stay open, and it does not answer.
    ///
    /// # Errors
    /// The container does not run.
    pub fn pause(&self, container: &str) -> Result<(), String> {
        let process = Pid::from_raw(self.process_of(container)?).ok_or("no process")?;
        kill_process(process, Signal::STOP).map_err(|error| error.to_string())
    }

    /// Returns the process of a running container, whose id is `containerd://…` in the status of a
    /// Pod.
    fn process_of(&self, container: &str) -> Result<i32, String> {
        let id = container.trim_start_matches("containerd://");
        let tasks = ctr(&self.directory).args(["tasks", "ls"]).run();
        let tasks = String::from_utf8_lossy(&tasks.stdout).into_owned();
        let line = tasks.lines().find(|line| !id.is_empty() && line.starts_with(id));
        let process = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());

        process.ok_or_else(|| format!("container {container} does not run:\n{tasks}"))
    }

    /// Kills the kubelet and all containers, as if the machine had lost its power.
    pub fn die(&self) {
        self.kubelet.lock().unwrap_or_else(PoisonError::into_inner).kill();
        let tasks = ctr(&self.directory).args(["tasks", "ls", "-q"]).run();
        let tasks = String::from_utf8_lossy(&tasks.stdout).into_owned();
        for task in tasks.split_whitespace() {
            ctr(&self.directory).args(["tasks", "kill", "-s", "KILL", task]).run();
        }
    }

    /// Starts the kubelet of a dead node again.
    pub fn start_kubelet(&self) {
        let mut kubelet = self.kubelet.lock().unwrap_or_else(PoisonError::into_inner);
        *kubelet = kubelet.program.start();
    }

    /// Kills all containers, unmounts their file systems, and removes the addresses.
    fn stop(&mut self) {
        self.die();
        pause(Duration::from_millis(500));
        self.containerd.kill();
        unmount(&self.directory);
        remove_networks();
        self.plane.stop();
        for address in [NODE.to_owned(), SERVICE.to_string()] {
            set_address("del", &address);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn containerd(directory: &Path) -> Program {
    let at = |name: &str| directory.join(name).display().to_string();
    let network = json!({
        "cniVersion": "0.4.0", "name": "pods",
        "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]],
            "routes": [{"dst": "0.0.0.0/0"}], "dataDir": at("addresses")}}],
    });
    fs::create_dir_all(directory.join("cni")).expect("our own folder");
    fs::write(directory.join("cni/10.conflist"), network.to_string()).expect("our own folder");

    // The native snapshotter needs no overlay file system, which does not nest.
    let config = format!(
        r#"version = 2
root = "{root}"
state = "{state}"
[grpc]
  address = "{socket}"
[ttrpc]
  address = "{socket}.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:test"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"
"#,
        root = at("containerd"),
        state = at("containerd-state"),
        socket = at("containerd.sock"),
        cni = at("cni"),
    );
    fs::write(directory.join("containerd.toml"), config).expect("our own folder");

    Program::new("containerd", "/usr/bin/containerd", directory)
        .arg(format!("--config={}", at("containerd.toml")))
}

fn kubelet_of(binary: &Path, directory: &Path) -> Program {
    let at = |name: &str| directory.join(name).display().to_string();
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "address": NODE, "port": 20250, "healthzPort": 20248,
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": format!("unix://{}", at("containerd.sock")),
        "cgroupDriver": "cgroupfs", "cgroupRoot": "/", "enforceNodeAllocatable": [],
        // This machine may have swap, the first version of cgroups, and no kernel settings to change.
        "failSwapOn": false, "failCgroupV1": false, "protectKernelDefaults": false,
        "makeIPTablesUtilChains": false, "localStorageCapacityIsolation": false,
        "evictionHard": {"memory.available": "50Mi"},
    });
    fs::write(directory.join("kubelet.json"), config.to_string()).expect("our own folder");

    Program::new("kubelet", binary, directory)
        .arg(format!("--kubeconfig={}", at("admin.kubeconfig")))
        .arg(format!("--config={}", at("kubelet.json")))
        .arg(format!("--root-dir={}", at("kubelet")))
        .arg(format!("--hostname-override={NODE}"))
        .arg(format!("--node-ip={NODE}"))
}

fn ctr(directory: &Path) -> Program {
    let socket = directory.join("containerd.sock").display().to_string();
    Program::new("ctr", "ctr", directory).args(["--address", &socket, "--namespace", "k8s.io"])
}

fn import(directory: &Path, image: &Image) {
    let output = ctr(directory).args(["images", "import"]).arg(&image.archive).run();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// Adds an address of this machine to the loopback interface, or removes it.
fn set_address(action: &str, address: &str) {
    // Removing one that is not there fails, and changes nothing.
    ip(&["address", action, &format!("{address}/32"), "dev", "lo"]);
}

/// Runs `ip`, and returns what it prints.
fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Removes the networks of Pods.
fn remove_networks() {
    let (pods, _) = PODS.rsplit_once('.').expect("an IPv4 network");

    for line in ip(&["netns", "list"]).lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let of_plugin = name.starts_with("cni-");
        if of_plugin && ip(&["-netns", name, "-brief", "address"]).contains(&format!("{pods}.")) {
            ip(&["netns", "delete", name]);
        }
    }
}

/// Unmounts everything below a folder; the newest mounts come first.
fn unmount(directory: &Path) {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let below = |line: &str| {
        let at = line.split_whitespace().nth(1)?;
        Path::new(at).starts_with(directory).then(|| at.to_owned())
    };

    let mut mounts: Vec<_> = mounts.lines().filter_map(below).collect();
    mounts.sort_unstable_by(|a, b| b.cmp(a));
    for mount in mounts {
        let _ = Command::new("umount").args(["--lazy", &mount]).output();
    }
}
