//! What the port of the metrics requires of its clients: TLS, a certificate, a password or a token.
//!
//! The paths that everybody may open need none of them. The port for people needs none either: only
//! loopback reaches it, and the API server has already authorized the users who forward to it.

mod checks; // checks in progress, limited in number
pub(super) mod fuzzing; // the parser of the file, for the fuzz targets
mod passwords; // checks of passwords
mod remembered; // the results of checks, limited in number and time
mod suspects; // peers with wrong credentials, limited in number and time
mod tls; // the TLS of the port
mod tokens; // bearer tokens
mod users; // users with passwords
mod web_file; // the file with all of this

use std::sync::{Arc, Mutex, OnceLock};

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loopwatch_model::time::Timestamp;
use rustls::ServerConfig;

use self::passwords::Passwords;
use self::tokens::Tokens;
pub(crate) use self::web_file::{Web, WebFile};
use super::client::{Client, Transport};
use super::policy::Policy;
use super::refusal::{Challenge, Refusal};
use crate::lock::lock;
use crate::sources::api_server::TokenReviewer;

/// What the port requires of its clients.
#[derive(Default)]
pub(crate) struct Access {
    web: Mutex<WebState>,
    passwords: Passwords,
    /// Checks bearer tokens, if the user asks for it.
    tokens: OnceLock<Tokens>,
}

/// The web configuration file.
#[derive(Clone, Default)]
enum WebState {
    /// There is none.
    #[default]
    Absent,
    /// Not read yet, or never valid, or nobody knows whether there is one because a flag for access
    /// is invalid. The port serves only health checks, because it may require credentials.
    Unknown,
    Valid(Arc<Web>),
}

/// Whether connections are encrypted.
#[derive(Clone, Debug)]
pub(super) enum Encryption {
    Off,
    /// Only health checks are possible without it. `None` until there is a certificate.
    Required(Option<Arc<ServerConfig>>),
}

/// The verdict on credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    /// The credentials are wrong.
    Wrong,
    /// The credentials are right, but their account may not open the path.
    Forbidden,
}

/// Why there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undecided {
    /// Too many checks are in progress.
    Busy,
    /// The check failed: for example, the API server cannot be asked, or refuses to answer.
    Unavailable,
}

/// The credentials of a request.
enum Credentials<'a> {
    None,
    Password { user: String, password: String },
    Token(&'a str),
}

impl Access {
    /// Closes the port to everything but health checks until [`Access::set_web`].
    pub(crate) fn expect_web(&self) {
        *lock(&self.web) = WebState::Unknown;
    }

    /// Puts a web configuration into effect. Connections that are already open keep their TLS.
    pub(crate) fn set_web(&self, web: Arc<Web>) {
        *lock(&self.web) = WebState::Valid(web);
    }

    /// Requires a bearer token that `reviewer` accepts.
    pub(crate) fn require_tokens(&self, reviewer: Arc<dyn TokenReviewer>) {
        let _ = self.tokens.set(Tokens::new(reviewer));
    }

    /// Checks whether loopwatch may have tokens reviewed.
    pub(crate) async fn try_reviewer(&self) {
        if let Some(tokens) = self.tokens.get() {
            tokens.try_reviewer().await;
        }
    }

    /// Why loopwatch cannot check tokens, if it may not.
    pub(crate) fn problem(&self) -> Option<String> {
        self.tokens.get().and_then(Tokens::problem)
    }

    /// Whether the port asks for passwords or tokens that nothing encrypts.
    pub(crate) fn exposes_credentials(&self) -> bool {
        let has_users = self.web().is_some_and(|web| web.users.is_some());
        let is_plain = matches!(self.encryption(), Encryption::Off);
        is_plain && (has_users || self.tokens.get().is_some())
    }

    /// Whether the port serves its metrics only to clients with credentials or a valid certificate.
    pub(super) fn authenticates(&self) -> bool {
        let by_file = self.web().is_some_and(|web| web.users.is_some() || web.requires_certificate);
        by_file || self.tokens.get().is_some()
    }

    /// When the certificate of the port expires, if the port has one.
    pub(super) fn certificate_expires(&self) -> Option<Timestamp> {
        self.web()?.tls.as_ref()?.expires
    }

    /// Whether the port has a certificate.
    #[cfg(test)]
    pub(crate) fn encrypts(&self) -> bool {
        matches!(self.encryption(), Encryption::Required(Some(_)))
    }

    pub(super) fn encryption(&self) -> Encryption {
        match &*lock(&self.web) {
            WebState::Absent => Encryption::Off,
            WebState::Unknown => Encryption::Required(None),
            WebState::Valid(web) => match &web.tls {
                Some(tls) => Encryption::Required(Some(Arc::clone(&tls.config))),
                None => Encryption::Off,
            },
        }
    }

    /// The headers that the web configuration file adds to responses.
    pub(super) fn headers(&self) -> Option<HeaderMap> {
        self.web().map(|web| web.headers.clone()).filter(|headers| !headers.is_empty())
    }

    /// Admits a client that presents what the port requires.
    pub(super) async fn authenticate(
        &self,
        policy: Policy,
        client: &Client,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let web = match &*lock(&self.web) {
            WebState::Unknown => return Err(Refusal::NotReady),
            WebState::Absent => None,
            WebState::Valid(web) => Some(Arc::clone(web)),
        };

        if let Some(web) = &web {
            web.check_transport(client.transport())?;
        }

        let users = web.as_ref().and_then(|web| web.users.as_ref());
        let tokens = self.tokens.get();
        let challenge = Challenge { basic: users.is_some(), bearer: tokens.is_some() };
        let verdict = match (Credentials::of(headers), users, tokens) {
            (_, None, None) => return Ok(()),
            (Credentials::Password { user, password }, Some(users), _) => {
                self.passwords.check(users, client.peer(), &user, password).await
            }
            (Credentials::Token(token), _, Some(tokens)) => {
                tokens.check(client.peer(), token, policy.reviewed_path()).await
            }
            _ => Ok(Verdict::Wrong),
        };

        match verdict {
            Ok(Verdict::Allowed) => Ok(()),
            Ok(Verdict::Wrong) => Err(Refusal::NoCredentials(challenge)),
            Ok(Verdict::Forbidden) => Err(Refusal::Forbidden(policy.reviewed_path())),
            Err(Undecided::Busy) => Err(Refusal::Busy),
            Err(Undecided::Unavailable) => Err(Refusal::Unavailable),
        }
    }

    fn web(&self) -> Option<Arc<Web>> {
        match &*lock(&self.web) {
            WebState::Valid(web) => Some(Arc::clone(web)),
            WebState::Absent | WebState::Unknown => None,
        }
    }
}

impl Web {
    /// Checks how the client is connected.
    fn check_transport(&self, transport: Transport) -> Result<(), Refusal> {
        match transport {
            Transport::Plain if self.tls.is_some() => Err(Refusal::NoTls),
            Transport::Plain | Transport::Tls { has_certificate: false }
                if self.requires_certificate =>
            {
                Err(Refusal::NoCertificate)
            }
            _ => Ok(()),
        }
    }
}

impl<'a> Credentials<'a> {
    /// The credentials of a request with exactly one header for them.
    fn of(headers: &'a HeaderMap) -> Self {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return Self::None };
        let Some((scheme, rest)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
            return Self::None;
        };

        if scheme.eq_ignore_ascii_case("bearer") {
            return Self::Token(rest.trim());
        }

        let decoded = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(rest.trim()));
        let text = decoded.and_then(Result::ok).and_then(|bytes| String::from_utf8(bytes).ok());
        match text.as_deref().and_then(|text| text.split_once(':')) {
            Some((user, password)) => {
                Self::Password { user: user.to_owned(), password: password.to_owned() }
            }
            None => Self::None,
        }
    }
}
