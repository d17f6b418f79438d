//! Free TCP ports on loopback.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// A range below the kernel's range for outgoing connections, so that no connection takes a port
/// between the check and the bind of the server.
const RANGE: std::ops::Range<u16> = 18_000..32_000;

/// The number of ports that this process has tried.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// Returns a port on which no process listens. It never returns the same port twice.
pub fn free() -> u16 {
    let size = RANGE.end - RANGE.start;

    // Concurrent test processes should start at different ports.
    let offset = (std::process::id().wrapping_mul(97) % u32::from(size)) as u16;
    for _ in 0..size {
        let port = RANGE.start + (offset + NEXT.fetch_add(1, Ordering::Relaxed) % size) % size;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }

    panic!("no free port between {} and {}", RANGE.start, RANGE.end);
}
