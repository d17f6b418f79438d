//! Flags about access to the ports: who may open what over HTTP.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;

use super::DEFAULT_UI_PORT;

/// Who may open what over HTTP.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "Serving")]
pub(crate) struct WebFlags {
    /// Port on 127.0.0.1 for the page, the API and the profiles.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help = format!(
        "Port on 127.0.0.1 for the page, the API and the profiles, which `kubectl port-forward` reaches; the port of --listen \
         serves them as well if it is the same [default: {DEFAULT_UI_PORT} in a Pod, otherwise the port of --listen]"
    ))]
    pub ui_port: Option<u16>,
}

impl WebFlags {
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
    fn in_a_pod_the_page_has_a_port_of_its_own() {
        let listen = "[::]:9917".parse().expect("an address");
        for (ui_port, in_pod, expected) in [
            (None, true, Some("127.0.0.1:9918")),
            (None, false, None),
            (Some(8080), true, Some("127.0.0.1:8080")),
            (Some(8080), false, Some("127.0.0.1:8080")),
            (Some(9917), true, None),
        ] {
            let address = WebFlags { ui_port }.ui_address(listen, in_pod);
            let expected = expected.map(|address| address.parse().expect("an address"));
            assert_eq!(address, expected, "{ui_port:?}, in a Pod: {in_pod}");
        }
    }
}
