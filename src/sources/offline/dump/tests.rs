use loopwatch_model::observation::{Answer, ObjectAddress, Probe};

use super::*;
use crate::sources::decoding::HashKey;

const KEY: HashKey = HashKey([1; 16]);

fn objects(dump: &Dump) -> usize {
    dump.objects().count()
}

fn read(text: &str) -> Dump {
    let mut dump = Dump::default();
    dump.add_text("dump", text, (&KEY).into());
    dump
}

#[test]
fn objects_and_lists_are_read_from_json_and_yaml() {
    let json = r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"a.io/v1","kind":"W","metadata":{"name":"x","namespace":"n"}}]}"#;
    let typed = r#"{"apiVersion":"a.io/v1","kind":"WList","items":[{"metadata":{"name":"x"}}]}"#;
    let yaml = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: a.io/v1\n  kind: W\n  metadata: {name: x}\n---\n# nothing\n---\napiVersion: a.io/v1\nkind: W\nmetadata: {name: web}\n";

    for (text, expected) in [(json, 1), (typed, 1), (yaml, 2)] {
        let dump = read(text);
        assert_eq!(objects(&dump), expected, "{text}: {:?}", dump.problems);
        assert_eq!(dump.objects.keys().next(), Some(&("a.io".to_owned(), "W".to_owned())));
        assert!(dump.problems.is_empty(), "{:?}", dump.problems);
    }
}

#[test]
fn an_object_may_have_items_of_its_own() {
    let json = r#"{"apiVersion":"a.io/v1","kind":"W","metadata":{"name":"x"},"items":{"a":1}}"#;
    let yaml = "apiVersion: a.io/v1\nkind: W\nmetadata: {name: x}\nitems: {a: 1}\n";
    for text in [json, yaml] {
        let dump = read(text);
        assert_eq!((objects(&dump), &dump.problems[..]), (1, &[][..]), "{text}");
    }
}

#[test]
fn problems_are_reported_and_the_rest_is_read() {
    let dump =
        read("kind: [\n---\napiVersion: a.io/v1\nkind: W\nmetadata: {name: web}\n---\nkind: W\n");

    assert_eq!(objects(&dump), 1);
    assert_eq!(dump.problems.len(), 2, "{:?}", dump.problems);
    assert!(dump.problems[0].contains("document at line 1"), "{:?}", dump.problems);
    assert!(
        dump.problems[1].contains("line 6") || dump.problems[1].contains("line 7"),
        "{:?}",
        dump.problems
    );
}

#[test]
fn a_document_may_begin_on_the_line_of_its_separator() {
    let dump = read(
        "--- {kind: W, metadata: {name: a}}\n---\tkind\n---\r\nkind: W\nmetadata: {name: b}\n--- # c\nkind: W\nmetadata: {name: c}\n",
    );

    let names: Vec<&str> = dump.objects().map(|object| object.key.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"], "{:?}", dump.problems);
    assert!(
        matches!(&dump.problems[..], [one] if one.contains("at line 2")),
        "{:?}",
        dump.problems
    );
}

#[test]
fn many_problems_are_counted_and_take_no_time_each() {
    let items = ["1"; 200_000].join(",\n");
    let dump = read(&format!(
        r#"{{"apiVersion":"v1","kind":"List","items":[{items},{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a"}}}}]}}"#
    ));

    assert_eq!((objects(&dump), dump.problems.len()), (1, MAX_PROBLEMS));
    assert_eq!(dump.more_problems, 200_000 - MAX_PROBLEMS);
}

fn ask(dump: &Dump, kind: &str, namespace: &str, name: &str) -> Answer {
    let (group, kind) = kind.rsplit_once('/').unwrap_or(("", kind));
    let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
    dump.index().answer(&Probe::Read(ObjectAddress { group, kind, namespace, name }))
}

#[test]
fn an_object_is_absent_only_where_the_dump_shows_its_kind() {
    let object = |kind: &str, namespace: &str, name: &str| {
        format!(
            "---\napiVersion: a.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n"
        )
    };
    let one = object("W", "ns", "x");
    let dump = read(&one);

    assert!(
        matches!(ask(&dump, "a.io/W", "ns", "x"), Answer::Found(object) if object.key.name == "x")
    );
    assert!(
        matches!(ask(&dump, "W", "ns", "x"), Answer::Found(_)),
        "the only group with this kind"
    );
    assert_eq!(ask(&dump, "a.io/W", "ns", "yy"), Answer::Absent);

    let unknown = Answer::Failed(Cause::NotFound);
    assert_eq!(ask(&dump, "a.io/W", "ms", "x"), unknown, "a dump of one namespace");
    assert_eq!(ask(&dump, "a.io/V", "ns", "x"), unknown, "a dump without the kind");
    assert_eq!(ask(&dump, "W", "ns", "yy"), unknown, "perhaps a kind of another group");

    let several = one.clone() + &object("W", "os", "z");
    let dump = read(&several);

    assert_eq!(ask(&dump, "a.io/W", "ms", "x"), unknown, "perhaps a dump of two namespaces");

    let dump = read(&(several.clone() + &object("V", "ms", "v")));
    assert_eq!(ask(&dump, "a.io/W", "ms", "x"), Answer::Absent, "a dump of all namespaces");

    let namespace =
        |name: &str| format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
    let some = several.clone() + &namespace("ns") + &namespace("os");

    assert_eq!(ask(&read(&some), "a.io/W", "ms", "x"), unknown, "a dump of two namespaces");

    let all = some + &namespace("default") + &namespace("kube-system");
    assert_eq!(ask(&read(&all), "a.io/W", "ms", "x"), Answer::Absent, "there is no such namespace");

    let all = all + &namespace("ms");
    assert_eq!(
        ask(&read(&all), "a.io/W", "ms", "x"),
        unknown,
        "there is, but the dump shows nothing in it"
    );

    let dump = read(&(one.clone() + "---\nmetadata: {{\n"));
    assert_eq!(
        ask(&dump, "a.io/W", "ns", "yy"),
        Answer::Failed(Cause::Undecodable),
        "a dump with a broken part"
    );

    let dump = read(&(one + "---\napiVersion: a.io/v1\nkind: VList\nitems: []\n"));
    assert_eq!(ask(&dump, "a.io/V", "ns", "x"), Answer::Absent, "an empty list");
}

#[test]
fn dependents_in_a_dump_may_not_be_all() {
    let dump = read(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: ns, ownerReferences: [{uid: u}]}\n",
    );
    let owner = ObjectAddress { namespace: "ns".to_owned(), ..ObjectAddress::default() };
    let of = |uid: &str| match dump
        .index()
        .answer(&Probe::Dependents { owner: owner.clone(), uid: uid.to_owned() })
    {
        Answer::Dependents { found, complete } => (found.len(), complete),
        other => panic!("{other:?}"),
    };

    assert_eq!((of("u"), of("v")), ((1, false), (0, false)));
}

/// Returns a dump with 20 owned services in the namespace `ns`, and one in `of` that lost its
/// owner.
fn siblings(of: &str) -> String {
    let labels = |name: &str| {
        format!("labels: {{app.kubernetes.io/managed-by: wop, app.kubernetes.io/instance: {name}}}")
    };
    let owned = (0..20).map(|n| {
        let owner = format!("{{apiVersion: a.io/v1, kind: W, name: w{n}, uid: u{n}}}");
        format!(
            "---\napiVersion: a.io/v1\nkind: W\nmetadata: {{name: w{n}, namespace: ns, uid: u{n}}}\n---\napiVersion: v1\n\
             kind: Service\nmetadata: {{name: s{n}, namespace: ns, ownerReferences: [{owner}], {}}}\n",
            labels(&format!("w{n}"))
        )
    });

    let lost = format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: lost, namespace: {of}, {}}}\n",
        labels("gone")
    );

    owned.collect::<String>() + &lost
}

#[test]
fn an_object_without_an_owner_resembles_others_only_if_the_dump_shows_all_their_owners() {
    let marked = |text: &str| -> Vec<String> {
        let dump = read(text);
        let index = dump.index();
        let listed =
            dump.observations(&index).into_iter().filter_map(|observation| match observation {
                Observation::Listed { object, .. } if object.resembles_owned => {
                    Some(object.key.name)
                }
                _ => None,
            });

        listed.collect()
    };

    let dump = siblings("ns");
    assert_eq!(marked(&dump), ["lost"]);
    assert_eq!(marked(&dump.replacen("kind: Service", "kind: Pod", 1)), [""; 0], "19 siblings");
    assert_eq!(marked(&siblings("other")), [""; 0], "the dump shows no owners in this namespace");
    assert_eq!(
        marked(&(dump.clone() + "---\nkind: [\n")),
        [""; 0],
        "the owner may be in the broken part"
    );

    let owner = "{apiVersion: b.io/v1, kind: V, name: v, uid: v}";
    let more = format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: s, ownerReferences: [{owner}]}}\n"
    );

    assert_eq!(marked(&(dump.clone() + &more)), [""; 0], "the dump lacks a kind of owners");

    let helm = dump.replace("managed-by: wop", "managed-by: Helm");
    assert_eq!(marked(&helm), [""; 0], "a tool manages them, not the operator");
}

#[test]
fn lists_may_contain_lists_and_files_several_documents() {
    let object = r#"{"apiVersion":"a.io/v1","kind":"W","metadata":{"name":"x"}}"#;
    let list = format!(r#"{{"kind":"List","apiVersion":"v1","items":[{object}]}}"#);
    for (text, expected) in [
        (format!("{list}\n{list}{object}"), 3),
        (format!(r#"{{"kind":"List","items":[{list},{object}]}}"#), 2),
        (format!("kind: List\nitems:\n- {list}\n- {object}\n"), 2),
        (
            r#"{"kind":"AllowList","apiVersion":"a.io/v1","metadata":{"name":"x"},"spec":{}}"#
                .to_owned(),
            1,
        ),
    ] {
        let dump = read(&text);
        assert_eq!((objects(&dump), &dump.problems[..]), (expected, &[][..]), "{text}");
    }

    let deep = (0..20)
        .fold(object.to_owned(), |inner, _| format!(r#"{{"kind":"List","items":[{inner}]}}"#));
    let dump = read(&deep);

    assert_eq!(
        (objects(&dump), dump.problems.len(), dump.is_broken),
        (0, 1, true),
        "{:?}",
        dump.problems
    );
}

#[test]
fn the_leases_of_kubernetes_show_the_time_and_others_do_not() {
    let lease = |namespace: &str, time: &str| {
        format!(
            "---\napiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {{name: l, namespace: {namespace}}}\nspec: {{renewTime: {time}}}\n"
        )
    };
    let ours =
        lease("kube-node-lease", "2026-01-01T00:00:10.900000Z") + &lease("kube-node-lease", "soon");
    let dump = read(&(ours + &lease("team-a", "2036-01-01T00:00:00.000000Z")));

    let at = |text: &str| Timestamp::parse(text).expect("a time");
    let shown = Some(at("2026-01-01T00:00:10Z"));
    assert_eq!(dump.newest(at("2026-06-01T00:00:00Z")), shown);
    assert_eq!(dump.newest(at("2026-01-01T00:00:00Z")), None, "a time in the future shows nothing");
}

#[test]
fn links_between_folders_are_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["a", "b", "c", "d"] {
        std::os::unix::fs::symlink(folder.path(), folder.path().join(name)).expect("a link");
    }

    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).expect("a folder");
    std::fs::write(inner.join("file.yaml"), "").expect("written");
    std::os::unix::fs::symlink(inner.join("file.yaml"), folder.path().join("link.yaml"))
        .expect("a link");

    let found = super::items::files(folder.path()).expect("readable");
    let names: Vec<_> =
        found.iter().filter_map(|path| path.strip_prefix(folder.path()).ok()?.to_str()).collect();

    assert_eq!(names, ["inner/file.yaml", "link.yaml"]);
}

#[test]
fn a_definition_is_an_object_whose_deletion_only_the_definition_reports() {
    let text = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ws.a.io, deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [customresourcecleanup.apiextensions.k8s.io]}\nspec: {group: a.io, names: {kind: W, plural: ws}, versions: []}\n";
    let dump = read(text);
    assert!(dump.problems.is_empty(), "{:?}", dump.problems);

    let index = dump.index();
    let observations = dump.observations(&index);
    let listed: Vec<usize> = observations
        .iter()
        .filter_map(|observation| match observation {
            Observation::Listed { object, .. } => Some(object.finalizers.len()),
            _ => None,
        })
        .collect();
    let seen = observations.iter().filter(|o| matches!(o, Observation::DefinitionSeen(_))).count();

    assert_eq!((listed, seen), (vec![0], 1));
}
