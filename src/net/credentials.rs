//! Reads files with tokens and certificate authorities, anew for each use: the kubelet and others
//! replace them.

use std::path::{Path, PathBuf};

use http::HeaderValue;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::task::spawn_blocking;

use crate::system::files::read_small;

/// The header with the token in a file. The errors do not quote the token.
pub(crate) async fn authorization(file: &Path) -> Result<HeaderValue, String> {
    let invalid = || format!("{} contains no valid token", file.display());
    let token = read(file).await.map_err(|problem| match file.to_string_lossy() {
        path if path.contains('/') => problem,
        // The user may have set the token itself instead of the name of its file.
        token => problem.replacen(
            &*token,
            "the token file (not shown, because its name has no / and may be the token)",
            1,
        ),
    })?;

    let token = String::from_utf8(token).map_err(|_| invalid())?;
    let token = token.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid());
    }

    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| invalid())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Reads a small file. A named pipe would block, and a device may have no end.
pub(super) async fn read(file: &Path) -> Result<Vec<u8>, String> {
    let path: PathBuf = file.to_owned();
    spawn_blocking(move || read_small(&path)).await.map_err(|error| error.to_string())?
}

/// The certificates of a PEM file.
pub(super) fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let read: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem).map(|c| c.map(|c| c.to_vec())).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("{} contains no valid certificate in PEM", file.display())),
    }
}
