//! The `loopwatch` command.

fn main() {}
