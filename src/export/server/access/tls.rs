//! The TLS of the port: certificate, key, versions, and the authorities of client certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwatch_model::time::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig, SupportedProtocolVersion};
use serde::Deserialize;

use crate::system::files::read_small;

/// `tls_server_config` of the web configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TlsSection {
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    client_auth_type: ClientAuth,
    client_ca_file: Option<PathBuf>,
    min_version: Version,
    max_version: Option<Version>,
}

/// A configuration with its certificate.
#[derive(Debug)]
pub(super) struct Tls {
    pub(super) config: Arc<ServerConfig>,
    /// The end of the validity of the certificate; `None` if loopwatch cannot read it.
    pub(super) expires: Option<Timestamp>,
}

/// Whether clients present certificates. The types that do not verify them are missing, because they
/// protect nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum ClientAuth {
    #[default]
    NoClientCert,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
enum Version {
    #[default]
    #[serde(rename = "TLS12")]
    Tls12,
    #[serde(rename = "TLS13")]
    Tls13,
}

impl TlsSection {
    /// Resolves the names of files relative to the folder of the web configuration file.
    pub(super) fn resolve(&mut self, folder: &Path) {
        let files = [&mut self.cert_file, &mut self.key_file, &mut self.client_ca_file];
        files.into_iter().flatten().for_each(|file| *file = folder.join(&*file));
    }

    /// The files that this section names.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        [&self.cert_file, &self.key_file, &self.client_ca_file].into_iter().flatten().cloned()
    }

    pub(super) fn requires_certificate(&self) -> bool {
        self.client_auth_type == ClientAuth::RequireAndVerifyClientCert
    }

    /// Reads the files and builds the configuration.
    pub(super) fn build(&self) -> Result<Tls, String> {
        let (Some(cert_file), Some(key_file)) = (&self.cert_file, &self.key_file) else {
            return Err("set cert_file and key_file".to_owned());
        };
        let versions = self.versions()?;
        let chain = certificates(cert_file).map_err(|problem| format!("cert_file: {problem}"))?;
        let key = key(key_file).map_err(|problem| format!("key_file: {problem}"))?;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(|error| error.to_string())?;
        let builder = match self.authorities()? {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                // The kubelet has no certificate, and its probes must not fail. `Access` refuses
                // other requests without one.
                let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|error| format!("client_ca_file: {error}"))?;
                builder.with_client_cert_verifier(verifier)
            }
        };

        let expires = chain.first().and_then(expiry);
        let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => format!(
                "cert_file and key_file: the key in {} is not the one of the certificate in {}",
                key_file.display(),
                cert_file.display()
            ),
            error => format!("cert_file and key_file: {error}"),
        })?;

        // A resumed session would skip the check of the client certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls { config: Arc::new(config), expires })
    }

    fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
        let max = self.max_version.unwrap_or(Version::Tls13);
        let all = [(Version::Tls12, &TLS12), (Version::Tls13, &TLS13)];
        let allowed =
            all.into_iter().filter(|(version, _)| (self.min_version..=max).contains(version));
        let versions: Vec<_> = allowed.map(|(_, version)| version).collect();

        match versions.is_empty() {
            true => Err("min_version is higher than max_version".to_owned()),
            false => Ok(versions),
        }
    }

    /// The authorities of client certificates, if clients may present some.
    fn authorities(&self) -> Result<Option<Arc<RootCertStore>>, String> {
        match (self.client_auth_type, &self.client_ca_file) {
            (ClientAuth::NoClientCert, None) => Ok(None),
            (ClientAuth::NoClientCert, Some(_)) => Err(
                "client_ca_file has no effect without client_auth_type: RequireAndVerifyClientCert"
                    .to_owned(),
            ),
            (_, None) => Err("client_auth_type: set client_ca_file, too".to_owned()),
            (_, Some(file)) => {
                let problem = |problem| format!("client_ca_file: {problem}");
                let mut authorities = RootCertStore::empty();
                for certificate in certificates(file).map_err(problem)? {
                    authorities.add(certificate).map_err(|error| problem(error.to_string()))?;
                }
                Ok(Some(Arc::new(authorities)))
            }
        }
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read_small(file)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("{} contains no valid certificate in PEM", file.display())),
    }
}

/// The end of the validity of a certificate. The authorities in a chain usually live longer.
fn expiry(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let seconds = certificate.validity().not_after.timestamp();
    Some(Timestamp(seconds.checked_mul(1000)?))
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let pem = read_small(file)?;
    PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| format!("{} contains no valid private key in PEM", file.display()))
}
