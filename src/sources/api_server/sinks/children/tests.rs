use loopwatch_model::observation::WatchId;
use serde_json::{Value, json};

use super::*;
use crate::sources::decoding::HashKey;
use crate::sources::testing::say;

/// The metadata of an object in one namespace.
fn meta(name: &str, more: Value) -> Value {
    let mut metadata = json!({ "name": name, "resourceVersion": "3" });
    if let (Value::Object(metadata), Value::Object(more)) = (&mut metadata, more) {
        metadata.extend(more);
    }

    json!({ "metadata": metadata })
}

fn owner(kind: &str) -> Value {
    json!([{ "apiVersion": "example.io/v1", "kind": kind, "name": "o", "uid": "u" }])
}

/// The managed fields of one manager, which wrote the spec.
fn written_by(manager: &str) -> Value {
    json!([{ "manager": manager, "operation": "Update", "fieldsV1": { "f:data": {} } },
           { "manager": "reporter", "operation": "Update", "subresource": "status", "fieldsV1": { "f:status": {} } }])
}

fn managed(value: &str) -> Value {
    json!({ "app.kubernetes.io/managed-by": value, "app.kubernetes.io/instance": "any", "tier": "web" })
}

fn pod(name: &str, owner_kind: Option<&str>) -> Value {
    meta(name, json!({ "ownerReferences": owner_kind.map(owner) }))
}

struct Lab {
    sink: ChildSink,
    out: Vec<Observation>,
}

impl Lab {
    fn new() -> Self {
        Self::with(Kept::default(), &[("example.io", "Widget")])
    }

    fn with(kept: Kept, kinds: &[(&str, &str)]) -> Self {
        let inner = ObjectSink {
            watch: WatchId("pods".into()),
            hash_key: HashKey([0; 16]),
            annotations: Arc::default(),
        };

        Self {
            sink: ChildSink::new(inner, Arc::new(kinds.iter().copied().collect()), kept),
            out: Vec::new(),
        }
    }

    /// What the sink said since the last call.
    fn said(&mut self) -> Vec<String> {
        self.out.drain(..).map(|observation| say(&observation)).collect()
    }

    fn listed(&mut self, object: &Value) {
        self.sink.listed(object.to_string().as_bytes(), &mut self.out).expect("an object");
    }

    /// Lists these objects and returns the names of those that were passed on.
    fn list(&mut self, objects: &[Value]) -> Vec<String> {
        self.sink.began(1, &mut self.out);
        objects.iter().for_each(|object| self.listed(object));
        self.sink.ended(1, "3", &mut self.out);

        let name = |observation| match observation {
            Observation::Listed { object, .. } => Some(object.key.name),
            _ => None,
        };

        self.out.drain(..).filter_map(name).collect()
    }

    fn applied(&mut self, object: &Value) -> Vec<String> {
        let version =
            self.sink.applied(object.to_string().as_bytes(), &mut self.out).expect("an object");

        assert_eq!(version, "3", "the version advances in any case");

        self.said()
    }

    fn deleted(&mut self, object: &Value) -> Vec<String> {
        self.sink.deleted(object.to_string().as_bytes(), &mut self.out).expect("an object");
        self.said()
    }
}

#[test]
fn foreign_objects_are_hidden_and_one_that_loses_its_owner_stays() {
    let mut lab = Lab::new();
    let objects =
        [pod("own", Some("Widget")), pod("foreign", Some("ReplicaSet")), pod("alone", None)];

    assert_eq!(lab.list(&objects), ["own"]);
    assert!(lab.applied(&objects[1]).is_empty() && lab.deleted(&objects[1]).is_empty());
    assert_eq!(lab.applied(&objects[0]), ["applied own@3"]);

    let lost = pod("own", None);
    assert_eq!(lab.applied(&lost), ["applied own@3"]);
    assert_eq!(lab.list(&[lost.clone(), pod("alone", None)]), ["own"], "also in the next list");
    assert_eq!(lab.list(std::slice::from_ref(&lost)), ["own"]);
    assert_eq!(
        lab.applied(&pod("own", Some("ReplicaSet"))),
        ["applied own@3"],
        "adopted by somebody else"
    );

    assert_eq!(lab.deleted(&lost), ["deleted own@3"]);
    assert!(lab.applied(&lost).is_empty(), "another object of this name");
}

#[test]
fn an_object_that_a_list_lacks_is_forgotten_unless_the_list_skipped_one() {
    let mut lab = Lab::new();
    let lost = pod("own", None);
    lab.list(&[pod("own", Some("Widget"))]);
    lab.sink.began(2, &mut lab.out);
    lab.sink.skipped();
    lab.sink.ended(2, "3", &mut lab.out);
    lab.out.clear();

    assert_eq!(lab.applied(&lost), ["applied own@3"], "perhaps the object that was skipped");
    assert!(lab.list(&[]).is_empty());
    assert!(lab.applied(&lost).is_empty() && lab.deleted(&lost).is_empty());

    // A list that is given up forgets nothing.
    lab.list(&[pod("own", Some("Widget"))]);
    lab.sink.began(4, &mut lab.out);

    assert_eq!(lab.list(&[lost]), ["own"]);
}

#[test]
fn objects_without_an_owner_survive_a_change_of_the_primary_kinds() {
    let kept = Kept::default();
    let mut lab = Lab::with(kept.clone(), &[("example.io", "Widget"), ("example.io", "Gadget")]);
    let gadget = pod("gadget", Some("Gadget"));
    lab.list(&[pod("own", Some("Widget")), gadget.clone()]);
    lab.applied(&pod("own", None));

    let mut lab = Lab::with(kept, &[("example.io", "Widget")]);
    assert_eq!(
        lab.list(&[pod("own", None), gadget]),
        ["own"],
        "but not those of a kind that is no longer watched"
    );
    assert_eq!(lab.deleted(&pod("own", None)), ["deleted own@3"]);
}

/// Owned objects, and then one without an owner.
fn beside(siblings: usize, of_siblings: &Value, of_object: Value) -> Vec<Value> {
    let mut sibling = of_siblings.clone();
    sibling["ownerReferences"] = owner("Widget");

    let siblings = (0..siblings).map(|n| meta(&format!("sibling-{n}"), sibling.clone()));

    // The object without an owner comes first, when nothing is known of its siblings yet.
    std::iter::once(meta("object", of_object)).chain(siblings).collect()
}

/// Whether the sink passes on an object without an owner among these siblings: within a list, and
/// after it.
fn is_passed_on(siblings: usize, of_siblings: &Value, of_object: &Value) -> bool {
    let objects = beside(siblings, of_siblings, of_object.clone());
    let mut lab = Lab::new();
    let in_list = lab.list(&objects).contains(&"object".to_owned());
    let mut lab = Lab::new();

    lab.list(&objects[1..]);
    assert_eq!(!lab.applied(&objects[0]).is_empty(), in_list, "{of_object}");

    in_list
}

#[test]
fn an_object_that_the_manager_of_owned_objects_wrote_is_passed_on() {
    let wrote = |manager: &str| json!({ "managedFields": written_by(manager) });
    assert!(is_passed_on(1, &wrote("widget-operator"), &wrote("widget-operator")));

    for (of_siblings, of_object) in [
        ("widget-operator", "other-operator"),
        // Not a controller.
        ("kubectl-client-side-apply", "kubectl-client-side-apply"),
        ("Helm", "Helm"),
        ("argocd-controller", "argocd-controller"),
        ("kube-controller-manager", "kube-controller-manager"),
        // The name of many operators.
        ("manager", "manager"),
        ("reporter", "widget-operator"),
    ] {
        assert!(
            !is_passed_on(3, &wrote(of_siblings), &wrote(of_object)),
            "{of_siblings} {of_object}"
        );
    }

    let both = |manager: &str, labels: &str| json!({ "managedFields": written_by(manager), "labels": managed(labels) });
    assert!(
        is_passed_on(3, &both("manager", "widgets"), &both("manager", "widgets")),
        "labels confirm the name"
    );
    assert!(!is_passed_on(3, &both("manager", "widgets"), &both("manager", "gadgets")));

    let deployed = json!({ "managedFields": written_by("widget-operator"),
        "annotations": { "meta.helm.sh/release-name": "widgets" } });

    assert!(!is_passed_on(3, &wrote("widget-operator"), &deployed), "deployed with the operator");

    let adopted = json!({ "managedFields": written_by("widget-operator"), "ownerReferences": owner("Widgett") });
    assert!(
        is_passed_on(3, &wrote("widget-operator"), &adopted),
        "its owner is of an unknown kind"
    );
}

#[test]
fn a_controller_that_wrote_to_few_owned_objects_is_not_the_operator() {
    let wrote = |manager: &str| json!({ "managedFields": written_by(manager) });
    let mut objects = beside(3, &wrote("widget-operator"), wrote("mutator"));
    objects[1]["metadata"]["managedFields"] = written_by("mutator");

    assert!(!Lab::new().list(&objects).contains(&"object".to_owned()));
}

#[test]
fn an_object_with_the_ownership_labels_of_many_owned_objects_is_passed_on() {
    let labels = |value: &str| json!({ "labels": managed(value) });
    assert!(is_passed_on(20, &labels("widgets"), &labels("widgets")));
    assert!(!is_passed_on(19, &labels("widgets"), &labels("widgets")), "too few");
    assert!(!is_passed_on(20, &labels("widgets"), &labels("gadgets")), "another operator");
    assert!(!is_passed_on(20, &labels("Helm"), &labels("Helm")), "a tool");

    let without_instance = json!({ "labels": { "app.kubernetes.io/managed-by": "widgets" } });
    assert!(!is_passed_on(20, &labels("widgets"), &without_instance), "other keys");

    let only_instance = json!({ "labels": { "app.kubernetes.io/instance": "any" } });
    assert!(!is_passed_on(20, &only_instance, &only_instance), "no label names the operator");

    // The Pods of a StatefulSet have the labels of the operator, too.
    let of_set = json!({ "labels": managed("widgets"), "ownerReferences": owner("StatefulSet") });
    assert!(!is_passed_on(20, &labels("widgets"), &of_set));
}

#[test]
fn an_object_whose_annotations_name_an_owner_of_a_primary_kind_is_passed_on() {
    for (key, value, expected) in [
        ("example.io/owner-kind", "Widget", true),
        ("example.io/ownerKind", "widget", true),
        ("owner-gvk", "example.io/v1, Kind=Widget", true),
        ("objectset.rio.cattle.io/owner-gvk", "example.io/v1/Widget", true),
        ("operator-sdk/primary-resource-type", "Widget.example.io", true),
        ("operator-sdk/primary-resource-type", "Widget.other.io", false),
        ("example.io/owner-kind", "Gadget", false),
        ("example.io/owner-name", "Widget", false),
    ] {
        let object = meta("a", json!({ "annotations": { key: value } }));
        assert_eq!(!Lab::new().applied(&object).is_empty(), expected, "{key}: {value}");
    }

    let labelled = meta("a", json!({ "labels": { "owner-kind": "Widget", "owner-name": "o" } }));
    assert_eq!(Lab::new().list(&[labelled]), ["a"]);
}

#[test]
fn undecided_objects_are_limited_and_forgotten_if_they_are_deleted() {
    let wrote = || json!({ "managedFields": written_by("widget-operator") });
    let mut owned = wrote();
    owned["ownerReferences"] = owner("Widget");

    let mut objects: Vec<Value> =
        (0..MOST_UNDECIDED + 1).map(|n| meta(&format!("object-{n:05}"), wrote())).collect();
    objects.push(meta("sibling", owned));

    assert_eq!(Lab::new().list(&objects).len(), MOST_UNDECIDED + 1, "with the sibling");

    let mut lab = Lab::new();
    lab.sink.began(1, &mut lab.out);
    lab.listed(&objects[0]);
    lab.listed(&objects[1]);
    lab.said();

    assert!(lab.deleted(&objects[0]).is_empty());

    lab.listed(objects.last().expect("the sibling"));
    lab.sink.ended(1, "3", &mut lab.out);

    assert_eq!(lab.said(), ["listed sibling@3", "listed object-00001@3", "ended 1 at 3"]);
}
