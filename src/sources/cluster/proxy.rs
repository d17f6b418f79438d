//! `NO_PROXY`: kube compares it with the proxy's own address and not with the cluster's, so it is done here.

use std::net::IpAddr;

use kube::Config;

/// Takes the proxy away when `NO_PROXY` names the API server. Only a proxy from the environment is concerned: one that
/// the kubeconfig names for this cluster is meant.
pub(super) fn apply_no_proxy(config: &mut Config) {
    let from_env = ["HTTPS_PROXY", "https_proxy"]
        .iter()
        .filter_map(|name| std::env::var(name).ok()?.parse::<http::Uri>().ok())
        .any(|proxy| config.proxy_url.as_ref() == Some(&proxy));
    let exceptions = std::env::var("NO_PROXY").or_else(|_| std::env::var("no_proxy")).unwrap_or_default();
    let host = config.cluster_url.host().unwrap_or_default();
    if from_env && is_exempt(host, &exceptions) {
        config.proxy_url = None;
    }
}

/// Whether `NO_PROXY` names this host: `*`, a name and what ends in `.name`, an address, or a network.
fn is_exempt(host: &str, exceptions: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    exceptions.split(',').map(|entry| entry.trim().to_ascii_lowercase()).any(|entry| {
        if entry.is_empty() {
            return false;
        }
        let name = entry.trim_start_matches("*.").trim_start_matches('.');
        entry == "*"
            || host == name
            || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
            || address.is_some_and(|address| in_network(address, &entry))
    })
}

fn in_network(address: IpAddr, network: &str) -> bool {
    let Some((base, bits)) = network.split_once('/') else { return false };
    let (Ok(base), Ok(bits)) = (base.parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    match (address, base) {
        (IpAddr::V4(a), IpAddr::V4(b)) if bits <= 32 => {
            (a.to_bits() ^ b.to_bits()).checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) if bits <= 128 => {
            (a.to_bits() ^ b.to_bits()).checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            assert!(is_exempt(host, exceptions), "{host} by {exceptions}");
        }
        for (host, exceptions) in [
            ("11.1.2.3", "10.0.0.0/8"),
            ("badexample.com", "example.com"),
            ("api.example.com", ""),
            ("::1", "10.0.0.0/8"),
        ] {
            assert!(!is_exempt(host, exceptions), "{host} by {exceptions}");
        }
    }
}
