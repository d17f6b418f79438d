//! Containers in a folder, for tests.

use std::fs;
use std::path::PathBuf;

use crate::sources::operator::process::files::Proc;

/// What a sidecar reads about the operator's container, with containerd and cgroup version 2.
pub(super) const CGROUP: &str = "0::/../cri-containerd-6f1e.scope\n";
pub(super) const MOUNTS: &str = "\
    1204 1096 0:345 / / rw,relatime master:401 - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w\n\
    1207 1204 0:347 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro\n\
    1209 1207 0:29 /../cri-containerd-6f1e.scope /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw\n";
/// The same with version 1, whose paths are those of the node.
pub(super) const CGROUP_ONE: &str = "12:pids:/kubepods/pod7/b2\n5:memory:/kubepods/pod7/b2\n4:cpu,cpuacct:/kubepods/pod7/b2\n0::/system.slice/containerd.service\n";
pub(super) const MOUNTS_ONE: &str = "\
    920 901 0:29 /kubepods/pod7/b2 /sys/fs/cgroup/pids ro,relatime master:11 - cgroup cgroup rw,pids\n\
    921 901 0:32 /kubepods/pod7/b2 /sys/fs/cgroup/memory ro,relatime master:14 - cgroup cgroup rw,memory\n\
    922 901 0:33 /kubepods/pod7/b2 /sys/fs/cgroup/cpu,cpuacct ro,relatime master:15 - cgroup cgroup rw,cpu,cpuacct\n";

/// The container of process 7, with these files below `/sys/fs/cgroup` in its file system.
pub(super) fn container(
    cgroup: &str,
    mounts: &str,
    files: &[(&str, &str)],
) -> (tempfile::TempDir, Proc) {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |path: PathBuf, text: &str| {
        fs::create_dir_all(path.parent().expect("a parent")).expect("our own folder");
        fs::write(path, text).expect("our own folder");
    };
    let proc = Proc::new(folder.path(), 30);

    write(proc.path(7, "cgroup"), cgroup);
    write(proc.path(7, "mountinfo"), mounts);
    for (file, text) in files {
        write(proc.path(7, "root/sys/fs/cgroup").join(file), text);
    }

    (folder, proc)
}
