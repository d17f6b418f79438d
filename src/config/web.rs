//! Flags about access to the ports.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::DEFAULT_UI_PORT;
use super::spelling::slip_of;
use super::values::web_auth;

/// Access over HTTP.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Serving")]
pub(crate) struct WebFlags {
    /// Port on 127.0.0.1 for the page, the API and the profiles.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help = format!(
        "Port on 127.0.0.1 for the page, the API and the profiles, which `kubectl port-forward` reaches; the port of --listen \
         serves them as well if it is the same [default: {DEFAULT_UI_PORT} in a Pod, otherwise the port of --listen]"
    ))]
    pub ui_port: Option<u16>,
    /// File with TLS, users and headers for the port of --listen, in the format of Prometheus'
    /// exporters (tls_server_config, basic_auth_users); `run` reads it and its certificates again when
    /// they change
    #[arg(long, value_name = "FILE")]
    pub web_config_file: Option<PathBuf>,
    /// Tokens that /metrics requires at the port of --listen: none, or those of accounts that may
    /// `get` the nonResourceURL /metrics (kubernetes); requires the permission to create tokenreviews
    /// and subjectaccessreviews
    #[arg(long, value_name = "none|kubernetes", default_value = "none", value_parser = web_auth)]
    pub web_auth: WebAuth,
    /// Whether an invalid part of the configuration may be about access to the port of `--listen`.
    /// Nobody can then tell whom the user wants to admit.
    #[arg(skip)]
    pub is_unclear: bool,
}

/// Whose tokens the port requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WebAuth {
    #[default]
    None,
    /// Those that the API server authenticates and authorizes.
    Kubernetes,
}

/// The flags that decide who reaches the port of the metrics, and with what credentials.
const ACCESS: [&str; 3] = ["listen", "web-auth", "web-config-file"];

/// Whether a flag decides who reaches the port of the metrics.
#[must_use]
pub(crate) fn decides_access(flag: &str) -> bool {
    ACCESS.contains(&flag)
}

/// Whether an unknown name may be meant as such a flag: unless it differs from another of the `known`
/// ones only by a slip of the fingers.
#[must_use]
pub(crate) fn may_mean_access<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> bool {
    slip_of(name, known).is_none_or(decides_access)
}

/// The problem with an invalid part that may be about access to the port.
#[must_use]
pub(crate) fn closing(problem: &str) -> String {
    format!(
        "{problem}; this may be about access to the port, so the port serves only health checks until loopwatch restarts with a valid configuration"
    )
}

impl WebFlags {
    /// The web configuration file to follow; `None` if it alone cannot open the port.
    #[must_use]
    pub(crate) fn file_to_follow(&self) -> Option<PathBuf> {
        self.web_config_file.clone().filter(|_| !self.is_unclear)
    }

    /// The address of the port for the page, the API and the profiles; `None` if the port of
    /// `--listen` serves them as well.
    #[must_use]
    pub(crate) fn ui_address(&self, listen: SocketAddr, in_pod: bool) -> Option<SocketAddr> {
        let port = match self.ui_port {
            Some(port) => (port != listen.port()).then_some(port),
            None => in_pod.then_some(DEFAULT_UI_PORT),
        };
        port.map(|port| (Ipv4Addr::LOCALHOST, port).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_flag_may_mean_access_unless_it_is_most_similar_to_another() {
        let keys = crate::config::keys();
        let may_mean_access =
            |name| may_mean_access(name, keys.get_arguments().filter_map(clap::Arg::get_long));
        for name in [
            "listen-address",
            "web.listen-address",
            "web.config.file",
            "web-auht",
            "auth",
            "basic-auth",
            "tls",
            "tls-cert",
            "require-token",
            "ui-auth",
            "auth-token-file",
            "tls-cert-file",
            "client-ca-file",
            "scrape-auth",
            "notify-auth",
            "secret-token",
            "external-auth",
            "expose-auth",
            "export-protected",
            "config-web-file",
            "config.web",
            "namespace-auth",
            "bogus",
            "x",
            "",
        ] {
            assert!(may_mean_access(name), "{name}");
        }

        for name in ["dedline", "max-watchs", "namespaces", "expose-iu", "object-serie", "chidlren"]
        {
            assert!(!may_mean_access(name), "{name}");
        }
    }

    #[test]
    fn in_a_pod_the_page_has_a_port_of_its_own() {
        let listen = "[::]:9917".parse().expect("an address");
        for (ui_port, in_pod, expected) in [
            (None, true, Some("127.0.0.1:9918")),
            (None, false, None),
            (Some(8080), true, Some("127.0.0.1:8080")),
            (Some(8080), false, Some("127.0.0.1:8080")),
            (Some(9917), true, None),
        ] {
            let address = WebFlags { ui_port, ..WebFlags::default() }.ui_address(listen, in_pod);
            let expected = expected.map(|address| address.parse().expect("an address"));
            assert_eq!(address, expected, "{ui_port:?}, in a Pod: {in_pod}");
        }
    }
}
