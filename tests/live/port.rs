//! Access to `/metrics` with tokens that a real API server authenticates and authorizes.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use loopwatch_testbed::accounts::{RBAC, reader_account};
use loopwatch_testbed::kube::{Kube, documents};
use loopwatch_testbed::operator::ACCOUNT;
use loopwatch_testbed::sidecar::{Sidecar, quick};
use loopwatch_testbed::wait::eventually;
use loopwatch_testbed::{http, ports, repository};

const NAME: &str = "port";

pub(crate) fn trials() -> Vec<Trial> {
    vec![test("port::tokens", tokens)]
}

/// Until its account may review tokens, loopwatch refuses all clients and says why. Afterwards, the
/// permissions of the client's account decide.
fn tokens() {
    let (plane, ui) = (bed(), ports::free());
    let kube = &plane.kube;
    kube.namespace(NAME);
    reader_account(kube, NAME);

    for account in ["scraper", "stranger"] {
        kube.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": NAME}}));
    }
    allow(kube, "scraper", "/metrics");
    let [scraper, stranger] = ["scraper", "stranger"].map(|account| kube.token(NAME, account));

    let kubeconfig = plane.kubeconfig_of("port.kubeconfig", &plane.url, NAME, ACCOUNT);
    let ui_port = format!("--ui-port={ui}");
    let flags = ["--web-auth=kubernetes", &ui_port, "--expose-ui", "--namespace=port"];
    let loopwatch = Sidecar::start(plane, "port.loopwatch", &kubeconfig, &quick(), &flags);
    let status = |path: &str, token: &str| -> Result<u16, String> {
        let value = format!("Bearer {token}");
        let headers = [("Authorization", value.as_str())];
        Ok(http::request("GET", loopwatch.port, path, &headers, "")?.status)
    };
    let expect =
        |path: &str, token: &str, expected: u16| {
            eventually(Duration::from_secs(20), &format!("{path} answers {expected}"), || {
                match status(path, token)? {
                    status if status == expected => Ok(()),
                    other => Err(format!("{other}")),
                }
            });
        };

    expect("/metrics", &scraper, 503);
    eventually(Duration::from_secs(30), "the missing permission is a problem", || {
        problem(ui)?.ok_or_else(|| "no finding".to_owned())
    });

    grant_reviews(kube);
    expect("/metrics", &scraper, 200);
    for (path, token, expected) in [
        ("/metrics", stranger.as_str(), 403),
        ("/metrics", "eyJhbGciOi.garbage", 401),
        ("/", &scraper, 403),
        ("/api/v1/findings", &stranger, 403),
        ("/livez", "", 200),
    ] {
        expect(path, token, expected);
    }
    let without = http::request("GET", loopwatch.port, "/metrics", &[], "").expect("an answer");
    assert_eq!(without.status, 401, "{without:?}");

    eventually(Duration::from_secs(30), "the problem is solved", || match problem(ui)? {
        None => Ok(()),
        Some(problem) => Err(problem),
    });

    // `system:discovery` lets each account get /api/*, but not the API of loopwatch.
    allow(kube, "stranger", "/loopwatch");
    expect("/api/v1/findings", &stranger, 200);
    expect("/metrics", &stranger, 403);

    kube.delete(RBAC, "ClusterRoleBinding", "", "port-scraper");
    eventually(
        Duration::from_secs(90),
        "a permission that is gone has no effect",
        || match status("/metrics", &scraper)? {
            403 => Ok(()),
            other => Err(format!("{other}")),
        },
    );
}

/// The problem with the configuration, according to the port for people.
fn problem(ui: u16) -> Result<Option<String>, String> {
    let text = http::get(ui, "/api/v1/findings")?;
    let answer: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let findings = answer["findings"].as_array().into_iter().flatten();
    let mut problems = findings.filter(|finding| finding["code"] == "ConfigInvalid");

    Ok(problems.next().map(|finding| finding.to_string()).filter(|text| {
        assert!(text.contains("tokenreviews"), "{text}");
        true
    }))
}

/// Lets an account `get` a nonResourceURL.
fn allow(kube: &Kube, account: &str, path: &str) {
    let name = format!("port-{account}");
    kube.apply(&json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"nonResourceURLs": [path], "verbs": ["get"]}]}));
    kube.apply(
        &json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAME}]}),
    );
}

/// Applies the permissions of `components/web-auth`.
fn grant_reviews(kube: &Kube) {
    let file = repository("deploy/components/web-auth/reviews.yaml");
    let text = std::fs::read_to_string(file).expect("readable");
    for mut object in documents(&text.replace("NAMESPACE", NAME).replace("ACCOUNT", ACCOUNT)) {
        if object["kind"] == "ClusterRoleBinding" {
            object["subjects"][0]["namespace"] = json!(NAME);
        }
        kube.apply(&object);
    }
}
