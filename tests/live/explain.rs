//! `loopwatch explain` shows the same tree from a cluster, from a running loopwatch and from a
//! recording.

use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::bed::{bed, test};
use crate::case::Case;
use crate::recorder::Recorder;
use loopwatch_testbed::kube::ZOO;
use loopwatch_testbed::sidecar::{program, quick};
use loopwatch_testbed::wait::eventually;

pub(crate) fn trials() -> Vec<Trial> {
    vec![test("explain::three_sources", three_sources)]
}

/// Time for the controllers of Kubernetes.
const SOON: Duration = Duration::from_secs(30);

/// Objects, finalizers and findings, without the parts that only one of the sources can know.
type Shape = Vec<String>;

fn three_sources() {
    let case = Case::new("explain", &quick());
    let plane = bed();
    let file = plane.directory().join("explain.jsonl.gz");
    let account = plane.directory().join("explain.loopwatch.kubeconfig");
    let recorder = Recorder::start("explain.loopwatch", "explain", &account, &file);

    case.operator.fault("FinalizerStuck?kind=Widget&namespace=explain&name=target");
    case.make("Widget", "target");
    case.kube.delete(ZOO, "Widget", "explain", "target");
    case.sidecar.expect_finding(SOON, "FinalizerStuck", "Widget", "target");

    let kubeconfig = format!("--kubeconfig={}", plane.kube.kubeconfig.display());
    let server = format!("--server=http://127.0.0.1:{}", case.sidecar.port);
    let status = case.sidecar.status().expect("a status");
    let watched: Vec<String> =
        status["kinds"].as_array().into_iter().flatten().map(kind_name).collect();

    for name in ["target", "twin"] {
        eventually(SOON, "the cluster and loopwatch show the same tree", || {
            let (live, served) = (explain(name, &[&kubeconfig])?, explain(name, &[&server])?);
            same(&shape(&live, &watched), &shape(&served, &watched), "cluster and server")
        });
    }

    let served = explain("target", &[&server]).expect("an answer");
    assert_eq!(served["object"]["finalizers"][0]["verdict"], "stuck", "{served}");
    assert!(served["timeline"].to_string().contains("opened"), "{served}");

    let live = explain("target", &[&kubeconfig]).expect("an answer");
    assert!(
        live["children"].to_string().contains("Pod"),
        "one look also sees kinds that nobody watches: {live}"
    );
    assert!(live["writers"].to_string().contains("widget-operator"), "{live}");
    assert!(
        live["timeline"].to_string().contains(r#""change":"event""#),
        "the operator has written Events: {live}"
    );

    let limited = format!("--kubeconfig={}", account.display());
    let limited = explain("target", &[&limited]).expect("an answer");

    assert!(!limited["timeline"].to_string().contains(r#""change":"event""#), "{limited}");
    assert!(
        limited.to_string().contains("Kubernetes Events about it"),
        "its account may only create Events: {limited}"
    );

    drop(recorder);
    let snapshot = format!("--from={}", file.display());
    for name in ["target", "twin"] {
        let recorded = explain(name, &[&snapshot]).expect("an answer");
        let served = explain(name, &[&server]).expect("an answer");
        same(&shape(&recorded, &watched), &shape(&served, &watched), "recording and server")
            .expect("the same tree");
    }

    // Near misses: a name that is almost right, and an unknown kind.
    for (arguments, expected) in
        [(["widget", "targe"], "did you mean target?"), (["gizmo", "target"], "gizmo")]
    {
        let (code, errors) = fails(&arguments, &kubeconfig);
        assert!(code == 2 && errors.contains(expected), "{code}: {errors}");
    }

    case.operator.cure("FinalizerStuck");
    eventually(SOON, "the object is gone", || {
        match case.kube.find(ZOO, "Widget", "explain", "target") {
            None => Ok(()),
            Some(_) => Err("it exists".to_owned()),
        }
    });

    let error = explain("target", &[&server]).expect_err("it is gone");
    assert!(error.contains("there is no Widget"), "{error}");
}

fn same(a: &Shape, b: &Shape, what: &str) -> Result<(), String> {
    if a == b { Ok(()) } else { Err(format!("{what} differ:\n{a:#?}\n{b:#?}")) }
}

/// Returns the tree as lines, without objects of other kinds than `watched`: only `explain` with a
/// cluster shows those.
fn shape(explained: &Value, watched: &[String]) -> Shape {
    let mut lines = vec![line(&explained["object"], 0)];
    for direction in ["owners", "children"] {
        lines.push(direction.to_owned());
        grow(&explained[direction], 1, watched, &mut lines);
    }

    lines
}

fn grow(nodes: &Value, level: usize, watched: &[String], lines: &mut Shape) {
    let mut nodes: Vec<&Value> =
        nodes.as_array().into_iter().flatten().filter(|node| is_of(node, watched)).collect();
    nodes.sort_by_key(|node| line(node, level));
    for node in nodes {
        lines.push(line(node, level));
        grow(&node["nodes"], level + 1, watched, lines);
    }
}

fn kind_name(object: &Value) -> String {
    format!(
        "{}/{}",
        object["group"].as_str().unwrap_or_default(),
        object["kind"].as_str().unwrap_or_default()
    )
}

fn is_of(object: &Value, kinds: &[String]) -> bool {
    kinds.contains(&kind_name(object))
}

fn line(object: &Value, level: usize) -> String {
    let word = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let finalizers: Vec<&Value> =
        object["finalizers"].as_array().into_iter().flatten().map(|f| &f["name"]).collect();
    let deleted = if object["terminating_since"].is_null() { "" } else { " terminating" };

    format!(
        "{level} {} {}/{} {}{deleted} {}",
        kind_name(object),
        word("namespace"),
        word("name"),
        word("uid"),
        json!(finalizers)
    )
}

/// Runs `explain`, and returns its JSON or its errors.
fn explain(name: &str, flags: &[&str]) -> Result<Value, String> {
    let output = program("explain", bed())
        .arg("explain")
        .args(["widget", name, "-n", "explain", "-o", "json"])
        .args(flags)
        .run();
    match output.status.code() {
        Some(0) => serde_json::from_slice(&output.stdout).map_err(|error| error.to_string()),
        code => Err(format!("{code:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn fails(arguments: &[&str], flag: &str) -> (i32, String) {
    let output = program("explain", bed())
        .arg("explain")
        .args(arguments)
        .args(["-n", "explain", flag])
        .run();

    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}
