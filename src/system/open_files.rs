//! The limit on open files, which sockets are, too. Each watch has a connection of its own, and a shell or a
//! container runtime often sets the soft limit to 1024 for the sake of old programs.

use rustix::process::{Resource, getrlimit, setrlimit};
use tracing::debug;

/// Raises the soft limit to the hard one.
pub(crate) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }

    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        debug!(%error, "cannot raise the limit on open files");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
