use std::net::SocketAddr;
use std::path::Path;

use super::server::{METRICS, Reply, Server};
use crate::sources::operator::scrape::candidates::PortCandidate;
use crate::sources::operator::scrape::content::Content;
use crate::sources::operator::scrape::fetch::{PodToken, Reach};
use crate::sources::operator::scrape::search::{SearchResult, search};

const PROCESS: &str = "# TYPE process_open_fds gauge\nprocess_open_fds 9\n";
const MESH: &str = "# TYPE envoy_server_uptime gauge\nenvoy_server_uptime 9\nprocess_open_fds 9\n";

fn at(address: SocketAddr) -> PortCandidate {
    PortCandidate { addresses: vec![address.ip()], port: address.port(), tls_first: false }
}

/// Searches among servers, and describes the result.
async fn find(servers: &[&Server], token: Option<&Path>) -> String {
    let candidates: Vec<PortCandidate> = servers.iter().map(|server| at(server.address)).collect();
    let ports = candidates.iter().map(|candidate| candidate.port).collect();
    let token = token.map(|file| PodToken { file: file.to_owned(), ports });
    let reach = Reach { token, ..Reach::default() };
    match search(&candidates, &reach).await {
        SearchResult::Metrics(client, content) => format!("{content:?} {}", client.shown()),
        SearchResult::Refusal(client) => format!("refusal {}", client.shown()),
        SearchResult::Nothing(tried) => tried.join(", "),
    }
}

#[tokio::test]
async fn the_best_candidate_is_the_one_with_a_control_loop() {
    let [api, process, mesh] =
        [r#"{"reconcile": 1}"#, PROCESS, MESH].map(|text| Server::plain(Reply::text(text)));
    let (health, closed) = (Server::plain(Reply::status(404)), Server::plain(Reply::Hang));
    closed.stop();

    let operator = Server::plain(Reply::text(METRICS));
    let others = [&mesh, &api, &process, &health, &closed];

    assert_eq!(
        find(&[&others[..], &[&operator]].concat(), None).await,
        format!("ControlLoop {}", operator.url())
    );
    assert_eq!(find(&others, None).await, format!("Process {}", process.url()));

    let second = Server::plain(Reply::text(PROCESS));
    assert_eq!(
        find(&[&second, &process], None).await,
        format!("Process {}", second.url()),
        "the first of the same"
    );

    let (mesh, api, health, closed) = (&mesh, &api, &health, &closed);
    assert_eq!(
        find(&[mesh, api, health, closed], None).await,
        format!(
            "{} (a service mesh), {} (no metrics), {} (HTTP 404), {} (refused)",
            mesh.url(),
            api.url(),
            health.url(),
            closed.url()
        )
    );
    assert_eq!(find(&[], None).await, "");
}

#[tokio::test]
async fn tls_is_found_behind_a_port_of_any_name() {
    let server = Server::tls(Reply::text(METRICS));
    assert_eq!(find(&[&server], None).await, format!("ControlLoop {}", server.url()));

    let plain = Server::plain(Reply::text(METRICS));
    let candidate = PortCandidate { tls_first: true, ..at(plain.address) };
    let found = search(&[candidate], &Reach::default()).await;

    assert!(
        matches!(found, SearchResult::Metrics(client, Content::ControlLoop) if client.shown() == plain.url())
    );
}

#[tokio::test]
async fn paths_of_java_frameworks_are_tried() {
    for path in ["/actuator/prometheus", "/q/metrics"] {
        let server = Server::plain(Reply::Only(path, "reconciliations_started_total 1\n"));
        assert_eq!(
            find(&[&server], None).await,
            format!("ControlLoop {}", server.url().replace("/metrics", path))
        );
    }
}

#[tokio::test]
async fn the_token_is_the_last_resort() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "good").expect("written");

    let protected = Server::tls(Reply::Token("good"));
    let found = |content: &str| format!("{content} {}", protected.url());

    assert_eq!(find(&[&protected], Some(&file)).await, found("ControlLoop"));
    assert_eq!(find(&[&protected], None).await, found("refusal"));

    std::fs::write(&file, "bad").expect("written");
    assert_eq!(
        find(&[&protected], Some(&file)).await,
        found("refusal"),
        "better than nothing: it names the reason"
    );

    let (protected, open) = (Server::tls(Reply::Token("bad")), Server::plain(Reply::text(METRICS)));

    assert_eq!(
        find(&[&protected, &open], Some(&file)).await,
        format!("ControlLoop {}", open.url())
    );
    assert!(
        protected.requests().iter().all(|head| !head.contains("authorization")),
        "another endpoint is open"
    );

    let process = Server::plain(Reply::text(PROCESS));
    assert_eq!(
        find(&[&protected, &process], Some(&file)).await,
        format!("ControlLoop {}", protected.url())
    );

    protected.answer(Reply::status(403));
    assert_eq!(
        find(&[&protected, &process], Some(&file)).await,
        format!("Process {}", process.url())
    );
}

#[tokio::test]
async fn an_address_that_the_host_lacks_does_not_end_the_search() {
    let operator = Server::plain(Reply::text(METRICS));

    // Like ::1 on a host without IPv6: the kernel refuses to connect, and no server gets a request.
    let lacking = "255.255.255.255".parse().expect("an address");
    let candidate =
        PortCandidate { addresses: vec![lacking, operator.address.ip()], ..at(operator.address) };
    let found = search(&[candidate], &Reach::default()).await;

    assert!(
        matches!(found, SearchResult::Metrics(client, Content::ControlLoop) if client.shown() == operator.url())
    );
}
