//! Free TCP ports on loopback.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range from which the kernel takes the ports of outgoing connections, so that none of those gets in between
/// our look and the server's bind.
const RANGE: std::ops::Range<u16> = 18_000..32_000;

/// How far this process has come.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port that nobody listens on, never given twice by this process.
pub fn free() -> u16 {
    let size = RANGE.end - RANGE.start;
    // Several test processes at once should not look at the same ports first.
    let offset = (std::process::id().wrapping_mul(97) % u32::from(size)) as u16;
    for _ in 0..size {
        let port = RANGE.start + (offset + NEXT.fetch_add(1, Ordering::Relaxed) % size) % size;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {} and {}", RANGE.start, RANGE.end);
}
