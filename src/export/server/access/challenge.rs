//! The responses to clients without access. They tell strangers what to present, but not what is
//! wrong inside.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::{Undecided, Verdict};
use crate::export::server::policy::Policy;

/// The credentials that the port accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Challenge {
    pub(super) basic: bool,
    pub(super) bearer: bool,
}

impl Challenge {
    /// The response to a verdict, unless it allows the request.
    pub(super) fn respond(
        self,
        verdict: Result<Verdict, Undecided>,
        policy: Policy,
    ) -> Result<(), Response> {
        match verdict {
            Ok(Verdict::Allowed) => Ok(()),
            Ok(Verdict::Wrong) => Err(self.unauthorized()),
            Ok(Verdict::Forbidden) => Err(forbidden(policy)),
            Err(undecided) => Err(unavailable(undecided)),
        }
    }

    fn unauthorized(self) -> Response {
        let mut response = (
            StatusCode::UNAUTHORIZED,
            "This path requires credentials, and the request has none that are valid.\n",
        )
            .into_response();

        let schemes = [(self.basic, "Basic realm=\"loopwatch\""), (self.bearer, "Bearer")];
        for (_, scheme) in schemes.into_iter().filter(|(accepted, _)| *accepted) {
            let scheme = HeaderValue::from_static(scheme);
            response.headers_mut().append(header::WWW_AUTHENTICATE, scheme);
        }

        response
    }
}

pub(super) fn not_ready() -> Response {
    let text = "loopwatch has no valid web configuration file (--web-config-file); see its log.\n";
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

pub(super) fn tls_required() -> Response {
    let text = "This port requires TLS: use https://. Only health checks work without it.\n";
    (StatusCode::BAD_REQUEST, text).into_response()
}

pub(super) fn certificate_required() -> Response {
    (StatusCode::FORBIDDEN, "This path requires a valid client certificate.\n").into_response()
}

fn forbidden(policy: Policy) -> Response {
    let text = format!(
        "The account of this token may not `get` the nonResourceURL {}; a ClusterRole can allow it.\n",
        policy.reviewed_path()
    );
    (StatusCode::FORBIDDEN, text).into_response()
}

fn unavailable(undecided: Undecided) -> Response {
    let text = match undecided {
        Undecided::Busy => "too many concurrent checks of credentials; retry later\n",
        Undecided::Unavailable => "loopwatch cannot check the token; see its log\n",
    };
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], text).into_response()
}
