//! The `loopwatch` command.

use std::process::ExitCode;

/// jemalloc returns memory to the system after a burst of allocations, which keeps a long-lived
/// process small.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    loopwatch::cli::main(std::env::args_os())
}
