//! Opens files that another process may replace at any time.
//!
//! Checking a file before opening it is not enough: another process may meanwhile replace it with a
//! named pipe, and opening a pipe waits for a writer. So these functions open the file without
//! waiting, and then check it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The largest small file, in bytes.
const MAX_SMALL: u64 = 1 << 20;

/// The first bytes of compressed content (RFC 1952).
pub(crate) const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Opens a regular file for reading.
///
/// # Errors
/// If it is not a regular file, or cannot be opened.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    open(path, libc::O_NONBLOCK)
}

/// Opens a regular file for reading, unless the path itself is a symbolic link.
///
/// # Errors
/// If it is not a regular file, or cannot be opened. [`is_irregular`] distinguishes the two.
pub(crate) fn open_regular_without_link(path: &Path) -> io::Result<File> {
    open(path, libc::O_NONBLOCK | libc::O_NOFOLLOW)
}

/// Reads a small file, such as a certificate.
///
/// # Errors
/// If it cannot be read, or is too large. The message names the file.
pub(crate) fn read_small(path: &Path) -> Result<Vec<u8>, String> {
    let read = || {
        let mut content = Vec::new();
        open_regular(path)?.take(MAX_SMALL + 1).read_to_end(&mut content)?;
        match content.len() as u64 > MAX_SMALL {
            false => Ok(content),
            true => Err(io::Error::other("it is larger than 1 MiB")),
        }
    };
    read().map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Whether an error of these functions means that the path is not a regular file.
pub(crate) fn is_irregular(error: &io::Error) -> bool {
    // A symbolic link that is not allowed, or a socket.
    let codes = [libc::ELOOP, libc::ENXIO];
    error.kind() == io::ErrorKind::InvalidInput
        || error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

fn open(path: &Path, flags: i32) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_nothing_waits() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "x").expect("written");
        std::os::unix::fs::symlink(at("file"), at("link")).expect("linked");

        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("bound");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(at("pipe"))
                .status()
                .expect("mkfifo")
                .success()
        );

        assert!(open_regular(&at("file")).is_ok() && open_regular(&at("link")).is_ok());
        assert!(open_regular_without_link(&at("file")).is_ok());
        assert!(open_regular_without_link(&at("link")).is_err_and(|error| is_irregular(&error)));

        for irregular in [at("pipe"), at("socket"), at("."), "/dev/zero".into()] {
            for open in [open_regular, open_regular_without_link] {
                let error = open(&irregular).expect_err("no regular file");
                assert!(is_irregular(&error), "{}: {error}", irregular.display());
            }
        }

        assert!(
            open_regular(&at("none")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        );
    }
}
