//! The parser of the web configuration file, for the fuzz targets.

use std::path::{Path, PathBuf};

use axum::http::HeaderMap;

use super::web_file::{Web, parse};

/// The content of a web configuration file.
#[derive(Debug, PartialEq, Eq)]
pub struct WebFileView {
    /// The files that it names.
    pub files: Vec<PathBuf>,
    pub requires_certificate: bool,
    pub has_users: bool,
    pub headers: HeaderMap,
}

/// Parses the text of a file in `folder`, without the files that it names.
///
/// # Errors
/// If the file is not valid.
pub fn web_file(text: &[u8], folder: &Path) -> Result<WebFileView, String> {
    let mut document = parse(text.to_vec())?;
    let section = document.tls_server_config.take().map(|mut section| {
        section.resolve(folder);
        section
    });
    let Web { users, headers, .. } = document.build()?;

    Ok(WebFileView {
        files: section.iter().flat_map(|section| section.files()).collect(),
        requires_certificate: section.is_some_and(|section| section.requires_certificate()),
        has_users: users.is_some(),
        headers,
    })
}
