//! Who may read metrics that loopwatch reads on loopback, with operators on 127.0.0.1 and on 0.0.0.0.

use std::net::Ipv4Addr;

use super::following::{POD, Run, pod};
use super::server::{METRICS, Reply, Server};
use crate::sources::operator::hints::TargetPod;

const PUBLIC: &str = "scraped ns/operator-0";
const PROTECTED: &str = "scraped ns/operator-0, protected";

/// How many requests went to the address of the Pod.
fn asked(server: &Server) -> usize {
    let host = format!("host: {POD}:{}\r\n", server.address.port());
    server.requests().iter().filter(|head| head.contains(&host)).count()
}

#[cfg(target_endian = "little")]
#[tokio::test]
async fn metrics_on_loopback_only_are_protected() {
    let operator = Server::plain(Reply::text(METRICS));
    let mut run = Run::start(&[], false, Vec::new(), &[&operator]);
    assert_eq!(run.next().await, PROTECTED);

    let mut run = Run::start(&[&operator.url()], false, Vec::new(), &[]);
    assert_eq!(run.next().await, PROTECTED, "a flag does not change who else may read them");
}

#[cfg(target_endian = "little")]
#[tokio::test]
async fn metrics_on_all_addresses_are_public_and_loopwatch_asks_once() {
    let operator = Server::everywhere(Reply::text(METRICS));
    let mut run = Run::start(&[], false, Vec::new(), &[&operator]);

    run.wait_for("metrics works").await;
    for _ in 0..3 {
        assert_eq!(run.next().await, PUBLIC);
    }
    assert_eq!(asked(&operator), 1);
}

/// Like `kube-rbac-proxy` with `--secure-listen-address=$(POD_IP):PORT`, before an operator at the
/// same port of loopback.
#[tokio::test]
async fn a_proxy_that_checks_tokens_at_the_same_port_protects_them() {
    let operator = Server::plain(Reply::text(METRICS));
    let proxy = operator.beside(POD, Reply::Token("s3cret"));
    let mut run = Run::start(&[&operator.url()], false, Vec::new(), &[]);

    assert_eq!(run.next().await, PROTECTED);
    assert_eq!(asked(&proxy), 1);
    assert!(proxy.requests().iter().all(|head| !head.contains("authorization")));

    // Metrics of the proxy itself are not those of the operator.
    let other = "# TYPE process_open_fds gauge\nprocess_open_fds 9\n";
    for (answer, expected) in [(other, PROTECTED), (METRICS, PUBLIC)] {
        proxy.answer(Reply::text(answer));
        let mut run = Run::start(&[&operator.url()], false, Vec::new(), &[]);
        assert_eq!(run.next().await, expected);
    }
}

#[tokio::test]
async fn metrics_are_protected_until_the_address_of_the_pod_is_known() {
    let operator = Server::everywhere(Reply::text(METRICS));
    let own = TargetPod { own: true, ..pod("ns/operator-0", &operator) };
    assert_eq!(own.ip, Some(Ipv4Addr::LOCALHOST.into()), "no address at which others reach it");
    let mut run = Run::start_at(None, &[&operator.url()], vec![own.clone()]);
    run.wait_for("metrics works").await;
    assert_eq!(run.next().await, PROTECTED);

    run.pods.send_replace(vec![TargetPod { ip: Some(POD.into()), ..own }]);
    run.wait_for(PUBLIC).await;
}

#[tokio::test]
async fn an_operator_that_starts_again_on_loopback_only_becomes_protected() {
    let before = Server::everywhere(Reply::text(METRICS));
    let mut run = Run::start(&[&before.url()], false, Vec::new(), &[]);
    run.wait_for("metrics works").await;

    before.answer(Reply::Cut);
    before.stop();
    run.wait_for("ns/operator-0: refused").await;

    let _after = before.beside(Ipv4Addr::LOCALHOST, Reply::text(METRICS));
    run.wait_for("metrics works").await;
    assert_eq!(run.next().await, PROTECTED);
}

#[tokio::test]
async fn another_start_time_makes_loopwatch_ask_again() {
    let metrics = |started: u32| {
        Reply::text(&format!(
            "{METRICS}# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {started}\n"
        ))
    };
    let operator = Server::everywhere(metrics(1_700_000_000));
    let mut run = Run::start(&[&operator.url()], false, Vec::new(), &[]);
    run.wait_for("metrics works").await;
    assert_eq!(asked(&operator), 1);

    operator.answer(metrics(1_700_000_060));
    run.wait_for(PUBLIC).await;
    run.wait_for(PUBLIC).await;
    assert_eq!(asked(&operator), 2);
}

#[tokio::test]
async fn outside_a_pod_loopback_is_no_secret() {
    let operator = Server::plain(Reply::text(METRICS));
    let mut run = Run::start(&[&operator.url()], true, Vec::new(), &[]);
    assert_eq!(run.next().await, format!("scraped {}", operator.address));
}
