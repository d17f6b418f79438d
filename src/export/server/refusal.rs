//! The responses to requests that are refused. They tell strangers what to present, but not what is
//! wrong inside.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The path shows objects and is available on loopback only.
    PageElsewhere,
    /// The path shows the operator's program and is available on loopback only.
    ProfilesElsewhere,
    /// The path is available on loopback only, but strangers share it.
    LoopbackIsShared,
    /// The `Host` header does not name loopback.
    Host,
    /// There is no valid web configuration file yet, or a flag for access is invalid.
    NotReady,
    /// The port requires TLS.
    NoTls,
    /// The port requires a client certificate.
    NoCertificate,
    /// There are no valid credentials of the accepted kinds.
    NoCredentials(Challenge),
    /// The account may not `get` this nonResourceURL.
    Forbidden(&'static str),
    /// Too many checks of credentials are in progress.
    Busy,
    /// The credentials cannot be checked: for example, the API server cannot be asked about the token.
    Unavailable,
}

/// The credentials that the port accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) basic: bool,
    pub(super) bearer: bool,
}

/// How to reach the port for people.
const FORWARD: &str = "To open it, run\n\n  \
     kubectl port-forward -n <namespace> pod/<pod> 9917:9918\n\n\
     and go to http://localhost:9917/. 9918 is the port of loopwatch for the page, the API and the profiles (`--ui-port`), which \
     only loopback reaches.";

impl Refusal {
    fn status(self) -> StatusCode {
        match self {
            Self::NoTls => StatusCode::BAD_REQUEST,
            Self::NoCredentials(_) => StatusCode::UNAUTHORIZED,
            Self::NotReady | Self::Busy | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::PageElsewhere
            | Self::ProfilesElsewhere
            | Self::LoopbackIsShared
            | Self::Host
            | Self::NoCertificate
            | Self::Forbidden(_) => StatusCode::FORBIDDEN,
        }
    }

    fn text(self) -> String {
        let text = match self {
            Self::PageElsewhere => {
                return format!(
                    "This path shows the names of tenants' objects, so it is available on loopback only. {FORWARD} With \
                     `--expose-ui`, all clients that reach the port of the metrics can open it.\n"
                );
            }
            Self::ProfilesElsewhere => {
                return format!(
                    "This path shows the inside of the operator's program, so it is available on loopback only. {FORWARD}\n"
                );
            }
            Self::Forbidden(path) => {
                return format!(
                    "The account of this token may not `get` the nonResourceURL {path}; a ClusterRole can allow it.\n"
                );
            }
            Self::LoopbackIsShared => {
                "This Pod uses the network of its node, where every process of the node can reach this port on loopback. \
                 loopwatch therefore serves only metrics and health checks. With `--expose-ui`, it also serves the page and \
                 the API, to all clients that reach this port.\n"
            }
            Self::Host => {
                "This path requires a loopback host name such as localhost, to prevent DNS rebinding.\n"
            }
            Self::NotReady => {
                "loopwatch cannot tell who may read this: a flag for access is invalid, or it has no valid web \
                 configuration file (--web-config-file); see its log.\n"
            }
            Self::NoTls => {
                "This port requires TLS: use https://. Only health checks work without it.\n"
            }
            Self::NoCertificate => "This path requires a valid client certificate.\n",
            Self::NoCredentials(_) => {
                "This path requires credentials, and the request has none that are valid.\n"
            }
            Self::Busy => "too many concurrent checks of credentials; retry later\n",
            Self::Unavailable => "loopwatch cannot check the credentials; see its log\n",
        };
        text.to_owned()
    }
}

impl Challenge {
    fn schemes(self) -> impl Iterator<Item = HeaderValue> {
        let schemes = [(self.basic, "Basic realm=\"loopwatch\""), (self.bearer, "Bearer")];
        let accepted = schemes.into_iter().filter(|(accepted, _)| *accepted);
        accepted.map(|(_, scheme)| HeaderValue::from_static(scheme))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status(), self.text()).into_response();
        let headers = response.headers_mut();
        match self {
            Self::NoCredentials(challenge) => challenge.schemes().for_each(|scheme| {
                headers.append(header::WWW_AUTHENTICATE, scheme);
            }),
            Self::Busy | Self::Unavailable => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }

        response
    }
}
