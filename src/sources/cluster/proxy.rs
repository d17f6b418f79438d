//! `NO_PROXY`. kube compares it with the proxy's own address instead of the cluster's, so loopwatch does it here.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;

/// Removes the proxy if `NO_PROXY` names the API server. This concerns only a proxy from the environment: a proxy in
/// the kubeconfig is meant for this cluster.
pub(super) fn apply_no_proxy(config: &mut Config) {
    let from_env = ["HTTPS_PROXY", "https_proxy"]
        .iter()
        .filter_map(|name| std::env::var(name).ok()?.parse::<Uri>().ok())
        .any(|proxy| config.proxy_url.as_ref() == Some(&proxy));
    let exceptions = std::env::var("NO_PROXY").or_else(|_| std::env::var("no_proxy")).unwrap_or_default();
    if from_env && is_exempt(&config.cluster_url, &exceptions) {
        config.proxy_url = None;
    }
}

/// Whether `NO_PROXY` names this server: `*`, a name with all its subdomains, an address, or a network.
fn is_exempt(server: &Uri, exceptions: &str) -> bool {
    // The matcher applies `*` only to names, and knows `.example.com` but not `*.example.com`. Go accepts both.
    let entries: Vec<&str> = exceptions.split(',').map(|entry| entry.trim().trim_start_matches("*.")).collect();
    // The address of the proxy is irrelevant: only the exceptions matter.
    let matcher = Matcher::builder().all("http://proxy").no(entries.join(",")).build();
    entries.contains(&"*") || (server.host().is_some() && matcher.intercept(server).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(host: &str) -> Uri {
        format!("https://{host}:6443").parse().expect("a URL")
    }

    #[test]
    fn no_proxy_names_hosts_domains_addresses_and_networks() {
        for (host, exceptions) in [
            ("127.0.0.1", "localhost,127.0.0.1"),
            ("10.1.2.3", "10.0.0.0/8"),
            ("api.example.com", ".example.com"),
            ("api.example.com", "example.com"),
            ("api.example.com", "*.example.com"),
            ("[fd00::1]", "fd00::/8"),
            ("anything", "*"),
            ("10.1.2.3", "localhost, *"),
            ("API.example.com", " EXAMPLE.com "),
            ("api.example.com", "api.example.com"),
        ] {
            assert!(is_exempt(&server(host), exceptions), "{host} by {exceptions}");
        }
        for (host, exceptions) in [
            ("11.1.2.3", "10.0.0.0/8"),
            ("badexample.com", "example.com"),
            ("api.example.com", ""),
            ("10.1.2.3", "2.3"),
            ("[::1]", "10.0.0.0/8"),
        ] {
            assert!(!is_exempt(&server(host), exceptions), "{host} by {exceptions}");
        }
    }
}
