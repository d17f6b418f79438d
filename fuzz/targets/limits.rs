//! Limits that hold for any input.

use tikv_jemalloc_ctl::thread;

/// Runs a parser and bounds its work, as the number of bytes that it allocates: at most `once`, and
/// `each` for each byte of the input. Unlike a time, this number is the same on each machine. A parser
/// that copies its input or its result once per item exceeds it.
pub(crate) fn bounded<T>(input: &[u8], once: u64, each: u64, run: impl FnOnce() -> T) -> T {
    let allocated = thread::allocatedp::read().expect("jemalloc counts");
    let before = allocated.get();
    let result = run();
    let used = allocated.get() - before;
    let most = once + each * input.len() as u64;

    assert!(used <= most, "allocates {used} bytes for {}; at most {most} expected", input.len());
    result
}

/// Runs a function, and returns how many bytes its result keeps.
pub(crate) fn retained<T>(run: impl FnOnce() -> T) -> (T, u64) {
    let allocated = thread::allocatedp::read().expect("jemalloc counts");
    let freed = thread::deallocatedp::read().expect("jemalloc counts");
    let held = || allocated.get().wrapping_sub(freed.get());

    let before = held();
    let result = run();
    (result, held().saturating_sub(before))
}

/// Whether a text has no control characters, so that it cannot change a terminal or begin a line.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.chars().any(char::is_control)
}
