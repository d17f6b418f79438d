//! The choice of a proxy. kube compares `NO_PROXY` with the proxy's own address instead of the
//! cluster's, so loopwatch chooses here.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::Kubeconfig;

/// The proxy that the kubeconfig sets for the cluster of the named context, or of the current one.
pub(super) fn of_kubeconfig(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let current = context.or(kubeconfig.current_context.as_deref())?;
    let context =
        kubeconfig.contexts.iter().find(|context| context.name == current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster)?;

    cluster.cluster.as_ref()?.proxy_url.clone().filter(|url| !url.is_empty())
}

/// Sets the proxy: that of the kubeconfig, which is meant for this cluster, or else that of the
/// environment.
pub(super) fn set(config: &mut Config, of_kubeconfig: Option<&str>) {
    let variable = |names: [&str; 2]| {
        names.into_iter().filter_map(|name| std::env::var(name).ok()).find(|v| !v.is_empty())
    };
    let of_environment = variable(["HTTPS_PROXY", "https_proxy"]);
    let exceptions = variable(["NO_PROXY", "no_proxy"]).unwrap_or_default();

    config.proxy_url =
        choose(&config.cluster_url, of_kubeconfig, of_environment.as_deref(), &exceptions);
}

/// `NO_PROXY` applies only to the proxy of the environment.
fn choose(
    server: &Uri,
    of_kubeconfig: Option<&str>,
    of_environment: Option<&str>,
    exceptions: &str,
) -> Option<Uri> {
    let of_environment = || of_environment.filter(|_| !is_exempt(server, exceptions));
    of_kubeconfig.or_else(of_environment)?.parse().ok()
}

/// Whether `NO_PROXY` names this server: `*`, a name with all its subdomains, an address, or a
/// network.
fn is_exempt(server: &Uri, exceptions: &str) -> bool {
    // The matcher applies `*` only to names, and knows `.example.com` but not `*.example.com`. Go
    // accepts both.
    let entries: Vec<&str> =
        exceptions.split(',').map(|entry| entry.trim().trim_start_matches("*.")).collect();

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
    fn no_proxy_concerns_only_the_proxy_of_the_environment() {
        let (mine, common) = (Some("http://10.0.0.5:3128"), Some("http://10.0.0.6:3128"));
        for (of_kubeconfig, of_environment, exceptions, expected) in [
            (mine, common, "", mine),
            (mine, mine, "api.example.com", mine),
            (mine, None, "*", mine),
            (mine, None, "10.0.0.0/8", mine),
            (None, common, "", common),
            (None, common, "10.0.0.0/8", common),
            (None, common, ".example.com", None),
            (None, None, "", None),
        ] {
            let chosen =
                choose(&server("api.example.com"), of_kubeconfig, of_environment, exceptions);
            let expected: Option<Uri> = expected.map(Uri::from_static);

            assert_eq!(chosen, expected, "{of_kubeconfig:?}, {of_environment:?}, {exceptions:?}");
        }
    }

    #[test]
    fn the_kubeconfig_names_a_proxy_per_cluster() {
        let kubeconfig = Kubeconfig::from_yaml(
            "current-context: a\ncontexts: [{name: a, context: {cluster: x, user: u}}, {name: b, context: {cluster: y, user: u}}]\n\
             clusters: [{name: x, cluster: {server: 'https://x'}}, {name: y, cluster: {server: 'https://y', proxy-url: 'http://p'}}]\n",
        )
        .expect("a kubeconfig");

        assert_eq!(of_kubeconfig(&kubeconfig, None), None);
        assert_eq!(of_kubeconfig(&kubeconfig, Some("b")).as_deref(), Some("http://p"));
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
