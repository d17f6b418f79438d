//! Opens a port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// The buffers of a connection in the kernel, in bytes. Linux doubles them. They are enough for 100 MB per second
/// to a client in the same region.
const SEND_BUFFER: usize = 64 << 10;
const RECEIVE_BUFFER: usize = 32 << 10;

/// Connections that the kernel queues until loopwatch accepts them. It accepts at once, so the
/// queue only covers bursts.
const BACKLOG: i32 = 1024;

/// Listens on an address. `[::]` includes IPv4, whatever the system's default
/// (`net.ipv6.bindv6only`), and becomes `0.0.0.0` where IPv6 is disabled.
///
/// # Errors
/// If the address is not available.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    bind_with(address, open)
}

fn bind_with(
    address: SocketAddr,
    open: impl Fn(SocketAddr) -> io::Result<Socket>,
) -> io::Result<TcpListener> {
    let any_ipv6 = address.is_ipv6() && address.ip().is_unspecified();
    let socket = match open(address) {
        Err(error) if any_ipv6 && lacks_ipv6(&error) => {
            open((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        opened => opened,
    }?;

    TcpListener::from_std(socket.into())
}

fn open(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }

    // Accepted connections inherit the sizes, and the kernel does not enlarge them. Otherwise, a client that
    // does not read takes 4 MB of kernel memory, which counts towards the memory limit of the container.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;

    // After a restart, the connections of the previous process must not block the port.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;

    Ok(socket)
}

/// Whether the error means that the host has no IPv6.
fn lacks_ipv6(error: &io::Error) -> bool {
    // EAFNOSUPPORT: the kernel lacks IPv6. Rust has no `ErrorKind` for it.
    const NO_FAMILY: &[i32] = if cfg!(target_os = "linux") { &[97] } else { &[47] };

    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error().is_some_and(|code| NO_FAMILY.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    async fn connects(to: &str, port: u16) -> bool {
        TcpStream::connect(format!("{to}:{port}")).await.is_ok()
    }

    #[tokio::test]
    async fn one_port_serves_both_families() {
        let listener = bind("[::]:0".parse().expect("an address")).expect("a free port");
        let port = listener.local_addr().expect("an address").port();

        assert!(connects("127.0.0.1", port).await, "IPv4");

        if std::net::TcpListener::bind("[::1]:0").is_ok() {
            assert!(connects("[::1]", port).await, "IPv6");
        }

        assert_eq!(
            bind(([0, 0, 0, 0], port).into()).map(drop).map_err(|e| e.kind()),
            Err(io::ErrorKind::AddrInUse)
        );
    }

    #[tokio::test]
    async fn without_ipv6_the_port_serves_ipv4() {
        for error in [io::Error::from_raw_os_error(97), io::ErrorKind::AddrNotAvailable.into()] {
            let error = std::cell::Cell::new(Some(error));
            let without = |address: SocketAddr| match error.take() {
                Some(error) if address.is_ipv6() => Err(error),
                _ => open(address),
            };
            let listener =
                bind_with("[::]:0".parse().expect("an address"), without).expect("a free port");
            let address = listener.local_addr().expect("an address");

            assert!(address.is_ipv4() && connects("127.0.0.1", address.port()).await, "{address}");
        }
    }

    #[tokio::test]
    async fn the_kernel_holds_little_for_a_client_that_does_not_read() {
        let listener = bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (server, _) = accepted.expect("a connection");

        let own = socket2::SockRef::from(&server).send_buffer_size().expect("a size");
        assert!(own <= 2 * SEND_BUFFER, "{own}");
        drop(client);
    }

    #[tokio::test]
    async fn an_address_of_one_family_serves_only_it() {
        let listener = bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let port = listener.local_addr().expect("an address").port();

        assert!(connects("127.0.0.1", port).await && !connects("[::1]", port).await);

        let taken = bind(([127, 0, 0, 1], port).into()).map(drop).map_err(|error| error.kind());
        assert_eq!(
            taken,
            Err(io::ErrorKind::AddrInUse),
            "another process has the port; there is no fallback"
        );
    }
}
