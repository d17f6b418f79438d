//! The web configuration file: TLS, users and headers, in the format of Prometheus' exporters
//! (<https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md>).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::{Deserialize, Deserializer};

use super::tls::{Tls, TlsSection};
use super::users::Users;
use crate::net::first_line;
use crate::system::files::read_small;

/// One reading of the file.
pub(crate) struct WebFile {
    /// The file and the files that it names.
    pub(crate) files: Vec<PathBuf>,
    /// Its content, or the problem with it.
    pub(crate) web: Result<Web, String>,
}

/// The content of a valid file.
#[derive(Debug)]
pub(crate) struct Web {
    pub(super) tls: Option<Tls>,
    pub(super) requires_certificate: bool,
    pub(super) users: Option<Users>,
    pub(super) headers: HeaderMap,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Document {
    #[serde(deserialize_with = "present")]
    pub(super) tls_server_config: Option<TlsSection>,
    #[serde(deserialize_with = "present")]
    basic_auth_users: BTreeMap<String, String>,
    #[serde(deserialize_with = "present")]
    http_server_config: HttpSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HttpSection {
    headers: BTreeMap<String, String>,
}

/// The headers that a file may set: those of Prometheus' exporters.
const HEADERS: [HeaderName; 5] = [
    header::CONTENT_SECURITY_POLICY,
    header::STRICT_TRANSPORT_SECURITY,
    header::X_CONTENT_TYPE_OPTIONS,
    header::X_FRAME_OPTIONS,
    header::X_XSS_PROTECTION,
];

impl WebFile {
    /// Reads the file, and the files that it names.
    pub(crate) fn read(path: &Path) -> Self {
        let mut files = vec![path.to_owned()];
        let content = match read_small(path) {
            Ok(content) => content,
            Err(problem) => return Self { files, web: Err(problem) }, // it names the file
        };

        let web = parse(content).and_then(|mut document| {
            if let Some(tls) = &mut document.tls_server_config {
                tls.resolve(path.parent().unwrap_or(Path::new("")));
                files.extend(tls.files());
            }
            document.build()
        });

        let web = web.map_err(|problem| format!("{}: {problem}", path.display()));
        Self { files, web }
    }
}

impl Web {
    /// The kinds of protection that `self` has and `new` lacks.
    pub(crate) fn lost_in(&self, new: &Self) -> Vec<&'static str> {
        let lost = [
            (self.tls.is_some() && new.tls.is_none(), "TLS"),
            (self.requires_certificate && !new.requires_certificate, "certificates of clients"),
            (self.users.is_some() && new.users.is_none(), "passwords"),
        ];
        lost.into_iter().filter(|(lost, _)| *lost).map(|(_, name)| name).collect()
    }
}

impl Document {
    /// # Errors
    /// Names the problem in one line, although names in the file may have several.
    pub(super) fn build(self) -> Result<Web, String> {
        self.parts().map_err(|problem| problem.replace(char::is_control, " "))
    }

    fn parts(self) -> Result<Web, String> {
        let Self { tls_server_config: section, basic_auth_users, http_server_config } = self;
        let tls = section.as_ref().map(TlsSection::build).transpose();
        let tls = tls.map_err(|problem| format!("tls_server_config: {problem}"))?;
        let users = Users::new(basic_auth_users);

        Ok(Web {
            tls,
            requires_certificate: section.is_some_and(|section| section.requires_certificate()),
            users: users.map_err(|problem| format!("basic_auth_users: {problem}"))?,
            headers: headers(http_server_config.headers)
                .map_err(|problem| format!("http_server_config.headers: {problem}"))?,
        })
    }
}

pub(super) fn parse(content: Vec<u8>) -> Result<Document, String> {
    let text = String::from_utf8(content).map_err(|_| "not UTF-8".to_owned())?;
    let options = serde_saphyr::options! { budget: serde_saphyr::budget! { max_nodes: 4096 } };
    let document: Option<Document> =
        serde_saphyr::from_str_with_options(&text, options).map_err(|error| first_line(&error))?;
    document.ok_or_else(|| {
        "it is empty, so perhaps somebody has yet to write it; if the port needs no protection, write {}".to_owned()
    })
}

/// Reads the value of a key. A key without one may be half written.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<T, D::Error>
where
    D::Error: serde::de::Error,
{
    let value: Option<T> = Option::deserialize(value)?;
    value.ok_or_else(|| serde::de::Error::custom("a key has no value"))
}

fn headers(entries: BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in entries {
        let known = HEADERS.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(&name));
        let known = known.ok_or_else(|| {
            let names: Vec<String> = HEADERS.iter().map(ToString::to_string).collect();
            format!("{name}: expected one of {}", names.join(", "))
        })?;
        let value = HeaderValue::try_from(value).map_err(|_| format!("{name}: invalid value"))?;
        headers.insert(known, value);
    }

    Ok(headers)
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::tls;

    use super::*;

    /// The problem with a file of this content.
    fn problem(text: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("web.yml");
        std::fs::write(&path, text).expect("written");
        WebFile::read(&path).web.map(drop).expect_err("invalid")
    }

    #[test]
    fn problems_name_the_key() {
        for (text, expected) in [
            ("tls_server_config: {certfile: x}", "certfile"),
            ("tls_config: {}", "tls_config"),
            ("rate_limit: {interval: 1s}", "rate_limit"),
            ("tls_server_config: {}", "tls_server_config: set cert_file and key_file"),
            (
                "tls_server_config: {cert_file: none.crt, key_file: none.key}",
                "cert_file: cannot read",
            ),
            ("tls_server_config: {client_auth_type: RequireAnyClientCert}", "RequireAnyClientCert"),
            ("tls_server_config: {min_version: TLS10}", "TLS10"),
            (
                "tls_server_config: {cert_file: a, key_file: b, min_version: TLS13, max_version: TLS12}",
                "min_version is higher than max_version",
            ),
            (
                "basic_auth_users: {prometheus: secret}",
                "basic_auth_users: prometheus: expected a bcrypt hash",
            ),
            ("http_server_config: {http2: true}", "http2"),
            ("http_server_config: {headers: {\"a\\nb\": x}}", "headers: a b: expected one of"),
            ("http_server_config: {headers: {Server: x}}", "headers: Server: expected one of"),
            ("- a", "web.yml"),
        ] {
            let problem = problem(text);
            assert!(
                problem.contains(expected) && problem.contains("web.yml: "),
                "{text}: {problem}"
            );
        }
    }

    #[test]
    fn the_problem_with_a_missing_file_names_it_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("web.yml");
        let problem = WebFile::read(&path).web.map(drop).expect_err("missing");
        assert!(
            problem.starts_with("cannot read ") && problem.contains("No such file"),
            "{problem}"
        );
        assert_eq!(problem.matches("web.yml").count(), 1, "{problem}");
    }

    #[test]
    fn a_key_of_another_certificate_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        write("tls.crt", &tls::pem(tls::CERTIFICATE));
        write("tls.key", &tls::pem(tls::OTHER_KEY));
        write("web.yml", "tls_server_config: {cert_file: tls.crt, key_file: tls.key}");

        let web = WebFile::read(&folder.path().join("web.yml")).web;
        let problem = web.map(drop).expect_err("invalid");
        assert!(problem.contains("tls.key is not the one of the certificate in "), "{problem}");
    }

    #[test]
    fn the_end_of_the_validity_of_the_certificate_is_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        write("tls.crt", &tls::pem(tls::CERTIFICATE));
        write("tls.key", &tls::pem(tls::KEY));
        write("web.yml", "tls_server_config: {cert_file: tls.crt, key_file: tls.key}");

        let web = WebFile::read(&folder.path().join("web.yml")).web.expect("valid");
        let expires = web.tls.expect("TLS").expires.map(|at| at.to_string());
        assert_eq!(expires.as_deref(), Some("2120-01-01T00:00:00Z"));
    }

    #[test]
    fn a_file_names_the_files_to_follow_even_if_they_are_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("web.yml");
        std::fs::write(&path, "tls_server_config: {cert_file: tls.crt, key_file: /k/tls.key}")
            .expect("written");

        let read = WebFile::read(&path);
        assert!(read.web.is_err());
        assert_eq!(read.files, [path, folder.path().join("tls.crt"), "/k/tls.key".into()]);
    }

    #[test]
    fn only_a_written_file_asks_for_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("web.yml");
        std::fs::write(&path, "# nothing\n{}\n").expect("written");

        let web = WebFile::read(&path).web.expect("valid");
        assert!(web.tls.is_none() && web.users.is_none() && web.headers.is_empty());

        for text in ["", "# nothing\n", "null", "~"] {
            assert!(problem(text).contains("it is empty"), "{text}: {}", problem(text));
        }
        for key in ["basic_auth_users", "tls_server_config", "http_server_config"] {
            let problem = problem(&format!("{key}:\n"));
            assert!(problem.contains("a key has no value"), "{key}: {problem}");
        }
    }
}
