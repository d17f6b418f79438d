//! The `loopwatch` command.

use std::process::ExitCode;

/// Long-lived processes that allocate much and little by turns keep their memory small with jemalloc.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    loopwatch::cli::main(std::env::args_os())
}
