//! The listening sockets of the Pod. All containers of a Pod share its network, so no permission is
//! needed to read them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

/// The listening sockets of this network namespace, except loopwatch's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sockets {
    /// Ordered by port.
    pub(super) listening: Vec<Listening>,
    /// Whether this is the node's network, with the sockets of many programs.
    pub(super) of_node: bool,
}

/// One listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listening {
    pub(super) port: u16,
    /// Its address; `None` if it listens on all addresses.
    pub(super) address: Option<IpAddr>,
}

/// Ports of the kubelet and kube-proxy. At least two of them are open on every node, and never in a
/// Pod with its own network.
const PORTS_OF_NODES: [u16; 4] = [10_248, 10_249, 10_250, 10_256];
/// The state of a listening socket.
const LISTEN: &str = "0A";
/// Limit on each file, in bytes. A busy server has a line for each connection.
const MAX_BYTES: u64 = 8 << 20;

/// Reads the sockets; `None` if the files cannot be read.
pub(super) async fn read(proc: &Path) -> Option<Sockets> {
    let proc: PathBuf = proc.to_owned();
    spawn_blocking(move || read_now(&proc)).await.ok().flatten()
}

fn read_now(proc: &Path) -> Option<Sockets> {
    let own = own_inodes(&proc.join("self/fd"));
    let mut listening = BTreeSet::new();
    let mut readable = false;

    for file in ["net/tcp", "net/tcp6"] {
        let Ok(file) = File::open(proc.join(file)) else { continue };
        readable = true;
        collect(BufReader::new(file.take(MAX_BYTES)), &own, &mut listening);
    }

    let is_open = |port: &&u16| listening.iter().any(|socket| socket.port == **port);
    let of_node = PORTS_OF_NODES.iter().filter(is_open).count() >= 2;
    readable.then(|| Sockets { listening: listening.into_iter().collect(), of_node })
}

/// The inodes of the sockets of this process.
fn own_inodes(folder: &Path) -> BTreeSet<u64> {
    let links = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());

    links
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

fn collect(lines: impl BufRead, own: &BTreeSet<u64>, found: &mut BTreeSet<Listening>) {
    for line in lines.lines().map_while(Result::ok) {
        if let Some((socket, inode)) = listening(&line)
            && !own.contains(&inode)
        {
            found.insert(socket);
        }
    }
}

/// The socket of a line and its inode, if it is listening.
fn listening(line: &str) -> Option<(Listening, u64)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, _, state) = (words.next()?, words.next()?, words.next()?);
    if state != LISTEN {
        return None;
    }

    let (address, port) = local.split_once(':')?;
    let (address, port) = (address_of(address)?, u16::from_str_radix(port, 16).ok()?);
    let inode = words.nth(5)?.parse().ok()?;
    Some((
        Listening { port, address: Some(address).filter(|address| !address.is_unspecified()) },
        inode,
    ))
}

/// Parses an address as the kernel writes it: each group of 32 bits as a native integer.
fn address_of(text: &str) -> Option<IpAddr> {
    let mut bytes = [0; 16];
    let groups = text.as_bytes().chunks(8);
    for (into, group) in bytes.chunks_exact_mut(4).zip(groups) {
        let group = u32::from_str_radix(std::str::from_utf8(group).ok()?, 16).ok()?;
        into.copy_from_slice(&group.to_ne_bytes());
    }

    match text.len() {
        8 => Some(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()),
        32 => Some(Ipv6Addr::from(bytes).to_canonical()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel writes it on a little-endian machine.
    pub(super) const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65532        0 111 1 0000000000000000 100 0 0 10 0
   1: 00000000:26BD 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65532        0 222 1 0000000000000000 100 0 0 10 0
   2: 0100007F:1F90 0100007F:A0B2 01 00000000:00000000 00:00000000 00000000 65532        0 333 1 0000000000000000 20 4 30 10 -1
   3: 0700000A:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65532        0 444 1 0000000000000000 100 0 0 10 0
   4: broken
";
    pub(super) const TCP6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:20FB 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 65532        0 555 1 0 100 0 0 10 0
   1: 00000000000000000000000001000000:20FC 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 65532        0 556 1 0 100 0 0 10 0
   2: 0000000000000000FFFF00000100007F:20FD 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 65532        0 557 1 0 100 0 0 10 0
";

    #[cfg(target_endian = "little")]
    #[tokio::test]
    async fn listening_sockets_of_others_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let proc = folder.path();

        assert_eq!(read(proc).await, None, "not readable");

        std::fs::create_dir_all(proc.join("net")).expect("our own folder");
        std::fs::create_dir_all(proc.join("self/fd")).expect("our own folder");
        std::fs::write(proc.join("net/tcp"), TCP).expect("written");
        std::fs::write(proc.join("net/tcp6"), TCP6).expect("written");
        std::os::unix::fs::symlink("socket:[222]", proc.join("self/fd/7")).expect("our own folder");

        let sockets = read(proc).await.expect("readable");
        let at = |port, address: &str| Listening { port, address: address.parse().ok() };
        let expected = [
            at(8080, "127.0.0.1"),
            at(8081, "10.0.0.7"),
            at(8443, ""),
            at(8444, "::1"),
            at(8445, "127.0.0.1"),
        ];

        assert_eq!(
            (&sockets.listening[..], sockets.of_node),
            (&expected[..], false),
            "without loopwatch's own 9917"
        );
    }

    #[tokio::test]
    async fn the_network_of_a_node_is_recognized() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join("net")).expect("our own folder");

        let line =
            |port: u16| format!("0: 00000000:{port:04X} 00000000:0000 0A 0:0 0:0 0 0 0 {port} 1\n");
        for (ports, of_node) in [(&[10_250, 8080][..], false), (&[10_248, 10_250, 8080], true)] {
            let text: String = ports.iter().map(|port| line(*port)).collect();
            std::fs::write(folder.path().join("net/tcp"), text).expect("written");

            assert_eq!(
                read(folder.path()).await.map(|sockets| sockets.of_node),
                Some(of_node),
                "{ports:?}"
            );
        }
    }

    #[tokio::test]
    async fn sockets_of_this_process_are_left_out() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        if let Some(sockets) = read(Path::new("/proc")).await {
            assert!(sockets.listening.iter().all(|socket| socket.port != port), "{port}");
        }
    }
}
