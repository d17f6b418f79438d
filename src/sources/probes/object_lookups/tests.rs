use std::sync::Arc;

use loopwatch_model::observation::{Answer, ObjectAddress, Observation, Probe};
use loopwatch_testbed::standin::{
    CONFIG_MAP, NAMESPACE, POD, REPLICA_SET, Reply, Script, ServedKind, WIDGET, World, answer,
    client, object,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep};

use super::kinds::NotFound;
use super::{ObjectLookups, REFUSED_FOR, WatchedChildKinds, answer_lookups};
use crate::sources::api_server::SecretAccess;
use crate::sources::decoding::HashKey;
use crate::sources::feed::Feed;
use crate::sources::testing::{InProcess as _, VirtualClock, cluster};

const SECRET: ServedKind = ("", "v1", "Secret", "secrets", true, false);
const OTHER_WIDGET: ServedKind = ("other.io", "v1", "Widget", "widgets", true, true);
const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);

fn address(group: &str, kind: &str, namespace: &str, name: &str) -> ObjectAddress {
    let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
    ObjectAddress { group, kind, namespace, name }
}

fn widget(name: &str) -> ObjectAddress {
    address("example.io", "Widget", "team", name)
}

/// A cluster with one widget, which the account may read.
fn world() -> World {
    let world = World::new(&[WIDGET, CONFIG_MAP, SECRET, NAMESPACE]);
    world.change(|state| {
        state.objects.insert("widgets", vec![object("team", "a", None)]);
        state.objects.insert("secrets", vec![object("team", "a", None)]);
        state.namespaces = vec!["team"];
    });

    world.allow("", &["get"], "example.io", &["*"]).allow(
        "",
        &["get"],
        "",
        &["secrets", "namespaces"],
    )
}

fn reader(world: &World) -> ObjectLookups {
    ObjectLookups::new(
        world.cluster(),
        HashKey([0; 16]),
        SecretAccess::default(),
        WatchedChildKinds::default(),
    )
}

fn say(answer: &Answer) -> String {
    match answer {
        Answer::Found(object) => {
            format!("found {}/{}@{}", object.key.namespace, object.key.name, object.version)
        }
        Answer::Absent => "absent".to_owned(),
        Answer::KindUnknown => "kind unknown".to_owned(),
        Answer::Failed(cause) => format!("failed: {cause}"),
        other => format!("{other:?}"),
    }
}

async fn read(reader: &mut ObjectLookups, address: ObjectAddress) -> String {
    match reader.answer(&Probe::Read(address), Instant::now()).await {
        Ok(answer) => say(&answer),
        Err(NotFound::Failed(cause)) => format!("failed: {cause}"),
        Err(NotFound::TooEarly(_)) => "too early".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_found_or_absent_and_a_cluster_scoped_kind_ignores_the_namespace() {
    let mut reader = reader(&world());
    assert_eq!(read(&mut reader, widget("a")).await, "found team/a@4");
    assert_eq!(read(&mut reader, widget("b")).await, "absent");
    assert_eq!(read(&mut reader, address("example.io", "Widget", "other", "a")).await, "absent");
    assert_eq!(read(&mut reader, address("", "Namespace", "team", "team")).await, "found /team@");

    // Without a namespace, no object of the kind can be meant.
    assert_eq!(
        read(&mut reader, address("example.io", "Widget", "", "a")).await,
        "failed: invalid"
    );

    for name in ["", ".", "..", "a/status", "a%2fstatus"] {
        assert_eq!(read(&mut reader, widget(name)).await, "failed: invalid", "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_remembered_for_the_kind_and_the_namespace() {
    let world = world();
    let mut reader = reader(&world);
    let config_map = |namespace, name| address("", "ConfigMap", namespace, name);
    let refused = || world.change(|state| state.refused.len());

    for name in ["a", "b"] {
        assert_eq!(read(&mut reader, config_map("team", name)).await, "failed: forbidden");
    }

    assert_eq!(refused(), 1, "the second one without a request");
    assert_eq!(read(&mut reader, config_map("other", "a")).await, "failed: forbidden");
    assert_eq!(refused(), 2);

    let _ = world.clone().allow("", &["get"], "", &["configmaps"]);
    assert_eq!(read(&mut reader, config_map("team", "a")).await, "failed: forbidden");

    sleep(REFUSED_FOR).await;
    world.change(|state| state.objects.insert("configmaps", Vec::new()));

    assert_eq!(read(&mut reader, config_map("team", "a")).await, "absent");
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_unknown_only_if_a_new_list_of_kinds_lacks_it() {
    let world = world();
    let mut reader = reader(&world);
    let gizmo = || address("example.io", "Gizmo", "team", "a");

    assert_eq!(read(&mut reader, gizmo()).await, "kind unknown");

    // The list was read a short time ago, and nothing shows that it is current.
    assert_eq!(read(&mut reader, gizmo()).await, "too early");

    sleep(MINUTE).await;
    world.change(|state| {
        state.kinds.push(("example.io", "v1", "Gizmo", "gizmos", true, true));
        state.objects.insert("gizmos", vec![object("team", "a", None)]);
    });

    assert_eq!(read(&mut reader, gizmo()).await, "found team/a@4");

    // The API server no longer serves a kind of the list.
    world.change(|state| state.kinds.pop());
    assert_eq!(read(&mut reader, gizmo()).await, "too early");

    sleep(MINUTE).await;
    assert_eq!(read(&mut reader, gizmo()).await, "kind unknown");
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_a_group_must_be_unambiguous() {
    let world = world();
    let mut reader = reader(&world);

    assert_eq!(read(&mut reader, address("", "Widget", "team", "a")).await, "found team/a@4");

    world.change(|state| state.kinds.push(OTHER_WIDGET));
    sleep(MINUTE).await;

    assert_eq!(read(&mut reader, address("", "Gizmo", "team", "a")).await, "kind unknown");
    assert_eq!(read(&mut reader, address("", "Widget", "team", "a")).await, "failed: invalid");
    assert_eq!(
        read(&mut reader, address("example.io", "Widget", "team", "a")).await,
        "found team/a@4"
    );
}

#[tokio::test(start_paused = true)]
async fn secrets_are_left_alone_if_the_user_says_so() {
    let world = world();
    let secret = || address("", "Secret", "team", "a");

    assert_eq!(read(&mut reader(&world), secret()).await, "found team/a@4");

    let requests =
        || world.change(|state| state.requests.iter().filter(|r| r.contains("secrets")).count());
    let before = requests();
    let mut reader = ObjectLookups::new(
        world.cluster(),
        HashKey([0; 16]),
        SecretAccess::Off,
        WatchedChildKinds::default(),
    );

    assert_eq!(read(&mut reader, secret()).await, "failed: forbidden");
    assert_eq!(requests(), before, "without a request");
}

fn response(status: u16, body: &Value) -> Reply {
    Reply::Response(status, vec![], body.to_string())
}

/// Aggregated discovery of widgets, and of a group whose API server does not respond.
fn discovery(tag: &str) -> [Reply; 2] {
    let widgets = json!({ "resource": "widgets", "responseKind": { "kind": "Widget" }, "scope": "Namespaced" });
    let groups = json!({ "kind": "APIGroupDiscoveryList", "items": [
        { "metadata": { "name": "example.io" }, "versions": [{ "version": "v1", "resources": [widgets] }] },
        { "metadata": { "name": "stale.io" }, "versions": [{ "version": "v1", "freshness": "Stale" }] } ] });
    let tag = vec![("etag", format!("\"{tag}\""))];

    [
        response(200, &json!({ "kind": "APIGroupDiscoveryList", "items": [] })),
        Reply::Response(200, tag, groups.to_string()),
    ]
}

async fn read_scripted(
    replies: impl IntoIterator<Item = Reply>,
    addresses: &[ObjectAddress],
) -> (Vec<String>, Vec<String>) {
    let script = Script::new(replies);
    let mut reader = ObjectLookups::new(
        script.cluster(),
        HashKey([0; 16]),
        SecretAccess::default(),
        WatchedChildKinds::default(),
    );
    let mut answers = Vec::new();

    for address in addresses {
        answers.push(read(&mut reader, address.clone()).await);
    }

    (answers, script.asked())
}

#[tokio::test(start_paused = true)]
async fn only_the_absence_of_the_object_itself_counts() {
    let status = |code: u16, reason: &str, name: &str| {
        response(
            code,
            &json!({ "kind": "Status", "code": code, "reason": reason, "details": { "name": name } }),
        )
    };
    for (reply, expected) in [
        (status(404, "NotFound", "a"), "absent"),
        (status(500, "NotFound", "a"), "failed: server_error"),
        (status(401, "Unauthorized", ""), "failed: unauthorized"),
        (status(429, "TooManyRequests", ""), "failed: throttled"),
        (status(503, "ServiceUnavailable", ""), "failed: server_error"),
        (response(200, &json!({ "metadata": { "name": "b" } })), "failed: undecodable"),
        (response(200, &json!(["a"])), "failed: undecodable"),
        (Reply::Refused, "failed: connection"),
        (Reply::Silence, "failed: timeout"),
    ] {
        let replies = discovery("1").into_iter().chain([reply]);
        assert_eq!(read_scripted(replies, &[widget("a")]).await.0, [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_path_is_no_absent_object_while_the_kind_is_served() {
    let not_found = || Reply::Response(404, vec![], "404 page not found\n".to_owned());
    let unchanged = Reply::Response(304, vec![], String::new());
    let replies = discovery("1").into_iter().chain([not_found(), unchanged]);
    let (answers, asked) = read_scripted(replies, &[widget("a")]).await;

    assert_eq!(answers, ["failed: not_found"]);
    assert_eq!(asked, ["GET api", "GET apis", "GET a metadata", "GET apis"]);
}

#[tokio::test(start_paused = true)]
async fn the_absence_of_another_object_says_nothing() {
    // A proxy that no longer knows the cluster.
    let details = json!({ "kind": "clusters", "name": "c-m-12345" });
    let status = json!({ "kind": "Status", "code": 404, "reason": "NotFound", "details": details });
    let unchanged = Reply::Response(304, vec![], String::new());
    let replies = discovery("1").into_iter().chain([response(404, &status), unchanged]);

    assert_eq!(read_scripted(replies, &[widget("a")]).await.0, ["failed: not_found"]);
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_list_shows_at_once_that_a_kind_is_unknown_and_a_missing_group_shows_nothing()
{
    let unchanged = || Reply::Response(304, vec![], String::new());
    let gizmo = || address("example.io", "Gizmo", "team", "a");
    let stale = address("stale.io", "Gizmo", "team", "a");
    let replies = discovery("1").into_iter().chain([unchanged(), unchanged(), unchanged()]);
    let addresses = [gizmo(), gizmo(), stale, address("", "Gizmo", "team", "a")];
    let (answers, _) = read_scripted(replies, &addresses).await;

    assert_eq!(
        answers,
        ["kind unknown", "kind unknown", "failed: server_error", "failed: server_error"]
    );

    let changed = discovery("2").into_iter().skip(1);
    let (answers, _) =
        read_scripted(discovery("1").into_iter().chain(changed), &[gizmo(), gizmo()]).await;

    assert_eq!(answers, ["kind unknown", "too early"], "the kind may be new");
}

/// The dependents of an object with the UID `u` in a namespace, or of a cluster-scoped one.
async fn dependents(
    reader: &mut ObjectLookups,
    kind: (&str, &str),
    namespace: &str,
) -> (Vec<String>, bool) {
    let owner = address(kind.0, kind.1, namespace, "owner");
    match reader.answer(&Probe::Dependents { owner, uid: "u".to_owned() }, Instant::now()).await {
        Ok(Answer::Dependents { found, complete }) => {
            let name = |found: loopwatch_model::observation::Dependent| {
                format!("{} {}", found.kind, found.object.key.name)
            };
            (found.into_iter().map(name).collect(), complete)
        }
        other => panic!("{other:?}"),
    }
}

/// A cluster with child kinds ConfigMap and Secret, and ReplicaSets with Pods.
fn family() -> (World, WatchedChildKinds) {
    let world = World::new(&[WIDGET, CONFIG_MAP, SECRET, POD, REPLICA_SET]);
    world.change(|state| {
        let config_maps = vec![
            object("team", "own", Some(WIDGET)),
            object("team", "alone", None),
            object("other", "elsewhere", Some(WIDGET)),
        ];

        state.objects.insert("configmaps", config_maps);
        state.objects.insert("secrets", vec![object("team", "own", Some(WIDGET))]);
        state.objects.insert("pods", vec![object("team", "pod", Some(REPLICA_SET))]);
        state.objects.insert("replicasets", Vec::new());
    });

    let children = WatchedChildKinds::default();
    let kinds = ["ConfigMap", "Secret"].map(|kind| (String::new(), kind.to_owned()));
    children.write().expect("not poisoned").extend(kinds);
    (world.allow("", &["list"], "", &["configmaps", "secrets", "pods"]), children)
}

#[tokio::test(start_paused = true)]
async fn dependents_are_found_in_child_kinds_and_in_those_of_workloads() {
    let (world, children) = family();
    let mut reader =
        ObjectLookups::new(world.cluster(), HashKey([0; 16]), SecretAccess::Metadata, children);
    let own = vec!["ConfigMap own".to_owned(), "Secret own".to_owned()];

    assert_eq!(
        dependents(&mut reader, ("example.io", "Widget"), "team").await,
        (own.clone(), true)
    );

    let everywhere =
        ["ConfigMap own", "ConfigMap elsewhere", "Secret own"].map(str::to_owned).to_vec();

    assert_eq!(dependents(&mut reader, ("example.io", "Widget"), "").await, (everywhere, true));

    let with_pod = ["ConfigMap own", "Pod pod", "Secret own"].map(str::to_owned).to_vec();
    assert_eq!(dependents(&mut reader, ("apps", "ReplicaSet"), "team").await, (with_pod, true));

    // The account may not list ReplicaSets.
    assert_eq!(dependents(&mut reader, ("apps", "Deployment"), "team").await, (own.clone(), false));
    assert_eq!(dependents(&mut reader, ("apps", "Deployment"), "team").await, (own, false));
    assert_eq!(world.change(|state| state.refused.len()), 1, "a refusal is remembered");
}

#[tokio::test(start_paused = true)]
async fn dependents_are_incomplete_without_secrets_and_beyond_the_limits() {
    let (world, children) = family();
    for secrets in [SecretAccess::Off, SecretAccess::Named] {
        let mut reader =
            ObjectLookups::new(world.cluster(), HashKey([0; 16]), secrets, children.clone());
        let own = vec!["ConfigMap own".to_owned()];

        assert_eq!(dependents(&mut reader, ("example.io", "Widget"), "team").await, (own, false));
    }

    let many = |number: usize, owner| {
        (0..number).map(|n| object("team", &format!("o-{n}"), owner)).collect::<Vec<_>>()
    };
    let mut reader =
        ObjectLookups::new(world.cluster(), HashKey([0; 16]), SecretAccess::Metadata, children);
    for (objects, namespace, expected) in [
        (many(500, Some(WIDGET)), "team", (500, false)), // and the Secret
        (many(1_200, None), "team", (1, true)),
        (many(1_200, None), "", (1, false)),
        (many(5_001, None), "team", (1, false)),
    ] {
        world.change(|state| state.objects.insert("configmaps", objects));
        let (found, complete) = dependents(&mut reader, ("example.io", "Widget"), namespace).await;

        assert_eq!((found.len(), complete), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn questions_about_unknown_kinds_wait_for_the_next_list_of_kinds_and_delay_no_others() {
    let world = world();
    let ((probes, receiver), (feed, mut observations)) =
        (mpsc::channel(10), Feed::new(10, VirtualClock::server()));
    tokio::spawn(answer_lookups(reader(&world), feed, Arc::new(Mutex::new(receiver)), false));

    let mut said = async |addresses: &[ObjectAddress], seconds: u64| {
        for address in addresses {
            probes.send(Probe::Read(address.clone())).await.expect("the task runs");
        }

        sleep(std::time::Duration::from_secs(seconds)).await;
        let mut said = Vec::new();
        while let Some((_, Observation::Answered { probe: Probe::Read(address), answer })) =
            observations.try_recv()
        {
            said.push(format!("{} {}", address.name, say(&answer)));
        }

        said
    };

    let gizmo = |name| address("example.io", "Gizmo", "team", name);
    assert_eq!(said(&[gizmo("first")], 1).await, ["first kind unknown"]);
    assert_eq!(said(&[gizmo("b"), gizmo("c"), widget("a")], 30).await, ["a found team/a@4"]);

    world.change(|state| state.kinds.push(("example.io", "v1", "Gizmo", "gizmos", true, true)));
    world.change(|state| state.objects.insert("gizmos", vec![object("team", "b", None)]));

    assert_eq!(
        said(&[address("example.io", "Gadget", "team", "d")], 31).await,
        ["b found team/b@4", "c absent", "d kind unknown"]
    );
}

/// A cluster that answers after a millisecond, and that counts the requests by their path.
fn counted(
    serve: impl Fn(&str) -> Reply + Send + Sync + Copy + 'static,
) -> (crate::sources::api_server::Cluster, Arc<std::sync::Mutex<Vec<String>>>) {
    let paths = Arc::new(std::sync::Mutex::new(Vec::new()));
    let asked = Arc::clone(&paths);
    let client = client(move |request: http::Request<kube::client::Body>| {
        let path = request.uri().path().to_owned();
        asked.lock().expect("not poisoned").push(path.clone());
        async move {
            sleep(std::time::Duration::from_millis(1)).await;
            answer(serve(&path)).await
        }
    });

    (cluster(client), paths)
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_kind_that_has_just_gone_is_not_read_over_and_over() {
    let (cluster, paths) = counted(|path| match path {
        "/api" => response(200, &json!({ "kind": "APIGroupDiscoveryList", "items": [] })),
        // Without an ETag.
        "/apis" => {
            discovery("").into_iter().next_back().map_or(Reply::Refused, |reply| match reply {
                Reply::Response(status, _, body) => Reply::Response(status, vec![], body),
                other => other,
            })
        }
        _ => Reply::Response(404, vec![], "404 page not found\n".to_owned()),
    });

    let reader = ObjectLookups::new(
        cluster,
        HashKey([0; 16]),
        SecretAccess::default(),
        WatchedChildKinds::default(),
    );
    let ((probes, receiver), (feed, mut observations)) =
        (mpsc::channel(10), Feed::new(10, VirtualClock::server()));
    tokio::spawn(answer_lookups(reader, feed, Arc::new(Mutex::new(receiver)), false));

    // The list of kinds is read again for the second gizmo, after the question about the widget.
    let gizmo = |name| address("example.io", "Gizmo", "team", name);
    for (probe, seconds) in [(gizmo("a"), 1), (gizmo("b"), 58), (widget("a"), 300)] {
        probes.send(Probe::Read(probe)).await.expect("the task runs");
        sleep(std::time::Duration::from_secs(seconds)).await;
    }

    let mut answers = Vec::new();
    while let Some((_, Observation::Answered { answer, .. })) = observations.try_recv() {
        answers.push(say(&answer));
    }

    // The list still has the kind.
    assert_eq!(answers, ["kind unknown", "kind unknown", "failed: not_found"]);

    let reads = paths
        .lock()
        .expect("not poisoned")
        .iter()
        .filter(|path| path.ends_with("/widgets/a"))
        .count();

    assert!(reads <= 10, "{reads} requests for one answer");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_kinds_that_fails_or_hangs_does_not_delay_every_read_and_is_not_requested_for_each()
 {
    for refused in [true, false] {
        let (cluster, paths) = match refused {
            true => counted(|_| Reply::Refused),
            false => counted(|_| Reply::Silence),
        };
        let mut reader = ObjectLookups::new(
            cluster,
            HashKey([0; 16]),
            SecretAccess::default(),
            WatchedChildKinds::default(),
        );
        let began = Instant::now();

        for name in 0..20 {
            let answer = read(&mut reader, widget(&format!("w-{name}"))).await;
            assert!(answer.starts_with("failed: "), "{answer}");
        }

        let requests = paths.lock().expect("not poisoned").len();
        assert!(requests <= 2, "{requests} requests");
        assert!(began.elapsed() <= MINUTE, "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn dependents_of_a_slow_cluster_are_given_up() {
    let children = WatchedChildKinds::default();
    children
        .write()
        .expect("not poisoned")
        .extend((0..40).map(|n| ("example.io".to_owned(), format!("Kind{n}"))));

    let resource = |n| json!({ "resource": format!("kind{n}s"), "responseKind": { "kind": format!("Kind{n}") }, "scope": "Namespaced" });
    let resources: Vec<Value> = (0..40).map(resource).collect();
    let groups = json!({ "kind": "APIGroupDiscoveryList", "items": [
        { "metadata": { "name": "example.io" }, "versions": [{ "version": "v1", "resources": resources }] } ] });
    let core = response(200, &json!({ "kind": "APIGroupDiscoveryList", "items": [] }));
    let replies =
        [core, response(200, &groups)].into_iter().chain((0..100).map(|_| Reply::Silence));
    let script = Script::new(replies);

    let mut reader =
        ObjectLookups::new(script.cluster(), HashKey([0; 16]), SecretAccess::Metadata, children);
    let began = Instant::now();
    let (found, complete) = dependents(&mut reader, ("example.io", "Widget"), "team").await;

    assert!(found.is_empty() && !complete);
    assert!(began.elapsed() <= MINUTE / 2, "{:?} for one answer", began.elapsed());
}
#[tokio::test(start_paused = true)]
async fn postponed_probes_make_no_burst() {
    let world = world();
    let ((probes, receiver), (feed, _observations)) =
        (mpsc::channel(200), Feed::new(1_000, VirtualClock::server()));
    tokio::spawn(answer_lookups(reader(&world), feed, Arc::new(Mutex::new(receiver)), false));

    let gizmo = |name: &str| address("example.io", "Gizmo", "team", name);
    probes.send(Probe::Read(gizmo("first"))).await.expect("the task runs");
    sleep(std::time::Duration::from_secs(1)).await;

    for n in 0..100 {
        probes.send(Probe::Read(gizmo(&n.to_string()))).await.expect("the task runs");
    }

    sleep(std::time::Duration::from_secs(50)).await;
    world.change(|state| state.kinds.push(("example.io", "v1", "Gizmo", "gizmos", true, true)));
    world.change(|state| state.objects.insert("gizmos", Vec::new()));
    sleep(std::time::Duration::from_secs(10)).await; // the list of kinds is read again at 60 s

    let reads =
        world.change(|state| state.requests.iter().filter(|r| r.contains("gizmos")).count());

    assert!(reads <= 20, "{reads} reads within two seconds");
}
