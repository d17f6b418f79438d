use loopwatch_model::observation::{Answer, ObjectAddress, Probe};

use super::*;
use crate::sources::decode::HashKey;

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
    let dump = read("kind: [\n---\napiVersion: a.io/v1\nkind: W\nmetadata: {name: web}\n---\nkind: W\n");
    assert_eq!(objects(&dump), 1);
    assert_eq!(dump.problems.len(), 2, "{:?}", dump.problems);
    assert!(dump.problems[0].contains("document at line 1"), "{:?}", dump.problems);
    assert!(dump.problems[1].contains("line 6") || dump.problems[1].contains("line 7"), "{:?}", dump.problems);
}

fn ask(dump: &Dump, kind: &str, namespace: &str, name: &str) -> Answer {
    let (group, kind) = kind.rsplit_once('/').unwrap_or(("", kind));
    let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
    dump.index().answer(&Probe::Read(ObjectAddress { group, kind, namespace, name }))
}

#[test]
fn an_object_is_absent_only_where_the_dump_shows_its_kind() {
    let object = |kind: &str, namespace: &str, name: &str| {
        format!("---\napiVersion: a.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
    };
    let one = object("W", "ns", "x");
    let dump = read(&one);
    assert!(matches!(ask(&dump, "a.io/W", "ns", "x"), Answer::Found(object) if object.key.name == "x"));
    assert!(matches!(ask(&dump, "W", "ns", "x"), Answer::Found(_)), "the only group with this kind");
    assert_eq!(ask(&dump, "a.io/W", "ns", "yy"), Answer::Absent);
    let unknown = Answer::Failed(Cause::NotFound);
    assert_eq!(ask(&dump, "a.io/W", "ms", "x"), unknown, "a dump of one namespace");
    assert_eq!(ask(&dump, "a.io/V", "ns", "x"), unknown, "a dump without the kind");
    assert_eq!(ask(&dump, "W", "ns", "yy"), unknown, "perhaps a kind of another group");
    let dump = read(&(one.clone() + &object("W", "os", "z")));
    assert_eq!(ask(&dump, "a.io/W", "ms", "x"), Answer::Absent, "a dump of all namespaces");
    let dump = read(&(one.clone() + "---\nmetadata: {{\n"));
    assert_eq!(ask(&dump, "a.io/W", "ns", "yy"), Answer::Failed(Cause::Undecodable), "a dump with a broken part");
    let dump = read(&(one + "---\napiVersion: a.io/v1\nkind: VList\nitems: []\n"));
    assert_eq!(ask(&dump, "a.io/V", "ns", "x"), Answer::Absent, "an empty list");
}

#[test]
fn dependents_in_a_dump_may_not_be_all() {
    let dump = read("apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: ns, ownerReferences: [{uid: u}]}\n");
    let owner = ObjectAddress { namespace: "ns".to_owned(), ..ObjectAddress::default() };
    let of = |uid: &str| match dump.index().answer(&Probe::Dependents { owner: owner.clone(), uid: uid.to_owned() }) {
        Answer::Dependents { found, complete } => (found.len(), complete),
        other => panic!("{other:?}"),
    };
    assert_eq!((of("u"), of("v")), ((1, false), (0, false)));
}
