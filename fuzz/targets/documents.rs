//! The documents of the API server of which loopwatch decodes only some fields.

use loopwatch::fuzzing::{
    CensusKind, CensusRecord, Followed, RulesView, SinkView, access_review, api_list,
    census_record, follow, pod, rules_review, subject_review, token_review, workload,
};
use loopwatch_model::observation::{
    Condition, ContainerView, DefinitionView, EventView, LeaseView, MAX_END_MESSAGE,
    MAX_EVENT_MESSAGE, MAX_RULES, NamespaceView, Observation, OperatorView, PodView, WebhookKind,
    WebhookRule, WebhookView,
};
use serde_json::Value;

use crate::limits::{bounded, is_plain, retained};
use crate::recordings::check_recorded;
use crate::world::{check_outputs, kind, model};

/// The limits of the texts and lists of these documents.
const MAX_CONDITIONS: usize = 32;
const MAX_CONTAINERS: usize = 20;
const MAX_PORTS: usize = 64;
const MAX_EXCESS: usize = 50;
const MAX_PERMISSIONS: usize = 20_000;
/// How many verbs a rule for all verbs stands for.
const USUAL_VERBS: usize = 7;
const MAX_NAME: usize = 253;
const MAX_WORD: usize = 128;
const MAX_ANNOTATION: usize = 2048;
const MAX_HOLDER: usize = 512;
const MAX_IMAGE: usize = 1024;

/// The input is the kind of document, and the JSON of one.
pub(crate) fn documents(input: &[u8]) {
    let [input_kind, document @ ..] = input else { return };
    match input_kind {
        b'd' => followed(Followed::Definitions, document),
        b'l' => followed(Followed::Leases, document),
        b'n' => followed(Followed::Namespaces, document),
        b'e' => followed(Followed::Events(&kind()), document),
        b'h' => followed(Followed::Webhooks(WebhookKind::Validating), document),
        b'i' => followed(Followed::Endpoints, document),
        b'p' => pods(document),
        b'w' => workloads(document),
        b'a' => apis(document, None),
        b'v' => apis(document, Some("example.io")),
        b'r' => rules(document),
        b's' => answers(document),
        b'R' => census(CensusKind::Role, document),
        b'B' => census(CensusKind::Binding, document),
        b'W' => census(CensusKind::Workload, document),
        b'P' => census(CensusKind::Pod, document),
        _ => {}
    }
}

/// The bytes to allocate per byte of a document. An item without fields, such as `{}` in a list of containers,
/// takes several hundred bytes. The API server accepts no such item.
const EACH: u64 = 2 << 10;

/// The bytes of a record that the census counts for each object, and need not measure.
const UNCOUNTED: u64 = 1 << 10;

/// Definitions, leases, namespaces, webhooks with their endpoints, and Kubernetes Events.
fn followed(followed: Followed<'_>, document: &[u8]) {
    let read = || follow(followed, document);
    let SinkView { listed, applied, deleted } = bounded(document, 64 << 10, EACH, read);
    assert_eq!(listed.is_some(), applied.is_some());
    assert_eq!(listed.is_some(), deleted.is_some());

    let (Some(listed), Some((version, applied)), Some((last_version, deleted))) =
        (listed, applied, deleted)
    else {
        return;
    };
    assert_eq!(version, last_version);

    let all: Vec<Observation> = [listed, applied, deleted].into_iter().flatten().collect();
    for observation in &all {
        check_limits(observation);
        check_recorded(observation.clone());
    }

    check_other_spelling(document, |text| follow(followed, text));
    check_outputs(model(all));
}

fn check_limits(observation: &Observation) {
    match observation {
        Observation::DefinitionSeen(DefinitionView { conditions, .. }) => {
            check_conditions(conditions);
        }
        Observation::LeaseSeen(LeaseView { holder, .. }) => assert!(holder.len() <= MAX_HOLDER),
        Observation::NamespaceSeen(view) => check_namespace(view),
        Observation::NamespacesListed(views) => views.iter().for_each(check_namespace),
        Observation::WebhooksListed { webhooks, .. } => check_webhooks(webhooks),
        Observation::EventSeen { event, .. } => check_event(event),
        _ => {}
    }
}

fn check_conditions(conditions: &[Condition]) {
    assert!(conditions.len() <= MAX_CONDITIONS);
    for Condition { r#type, reason, message, .. } in conditions {
        assert!(r#type.chars().count() <= 316 && reason.chars().count() <= 128);
        assert!(message.chars().count() <= 256);
    }
}

fn check_namespace(NamespaceView { annotations, team, conditions, .. }: &NamespaceView) {
    check_conditions(conditions);
    assert!(annotations.len() <= 3 && team.len() <= MAX_ANNOTATION, "{team}");
    assert!(annotations.values().all(|value| value.len() <= MAX_ANNOTATION), "{annotations:?}");
}

fn check_webhooks(webhooks: &[WebhookView]) {
    for WebhookView { configuration, name, service, path, rules, .. } in webhooks {
        assert!(configuration.len() <= MAX_NAME && name.len() <= MAX_NAME);
        assert!(service.len() <= 2 * MAX_NAME + 1 && path.len() <= 512 && rules.len() <= MAX_RULES);
        for WebhookRule { groups, resources, .. } in rules {
            assert!(groups.len() <= MAX_RULES && resources.len() <= MAX_RULES);
        }
    }
}

fn check_event(event: &EventView) {
    let EventView { uid, about, r#type, reason, message, reporter, count, added, .. } = event;
    let words = [uid, r#type, reason, reporter];

    assert!(words.iter().all(|word| word.len() <= MAX_WORD && is_plain(word)), "{words:?}");
    assert!(message.len() <= MAX_EVENT_MESSAGE && is_plain(message), "{message:?}");
    assert!((1..=MAX_NAME).contains(&about.name.len()) && about.namespace.len() <= MAX_NAME);
    assert!(*count >= 1 && added <= count);
}

fn pods(document: &[u8]) {
    let read = || pod(document).map(|pod| pod.map(|(_, pod)| pod));
    let [listed, applied] = bounded(document, 64 << 10, EACH, read);
    assert_eq!(listed, applied, "a list and an event show the same Pod");
    check_other_spelling(document, pod);

    let Some(Some(seen)) = applied else { return };
    let PodView { phase, reason, revision, containers, helpers, .. } = &seen.view;
    assert!(containers.len() <= MAX_CONTAINERS && helpers.len() <= MAX_CONTAINERS);
    assert!(seen.ports.len() <= MAX_PORTS && !seen.ports.contains(&0));
    assert!(seen.ids.len() <= MAX_CONTAINERS && seen.ids.iter().all(|id| !id.is_empty()));
    assert!(phase.len() <= MAX_WORD && reason.len() <= MAX_WORD, "{phase:?} {reason:?}");
    assert!(revision.image.len() <= MAX_IMAGE && revision.version.len() <= MAX_WORD);
    for ContainerView { waiting, ended, .. } in containers.iter().chain(helpers) {
        let reason = ended.as_ref().map_or("", |ended| &ended.reason);
        let message = ended.as_ref().map_or("", |ended| &ended.message);
        assert!(waiting.len() <= MAX_WORD && reason.len() <= MAX_WORD, "{waiting:?} {reason:?}");
        assert!(message.len() <= MAX_END_MESSAGE && !message.contains('\n'));
    }

    let view = OperatorView {
        namespace: "team-a".to_owned(),
        name: "operator".to_owned(),
        pods: vec![seen.view],
        complete: true,
        ..OperatorView::default()
    };
    check_operator(view);
}

fn workloads(document: &[u8]) {
    for kind in ["Deployment", "StatefulSet", "DaemonSet"] {
        let read = bounded(document, 64 << 10, 64, || workload(kind, document));
        check_other_spelling(document, |text| workload(kind, text));
        let Some((workload, _)) = read else { return };

        let workload = Some(workload);
        let view = OperatorView { workload, complete: true, ..OperatorView::default() };
        check_operator(view);
    }
}

fn check_operator(view: OperatorView) {
    let seen = Observation::OperatorSeen(Box::new(view));
    check_recorded(seen.clone());
    check_outputs(model([seen]));
}

/// The list of all APIs, or that of one group.
fn apis(document: &[u8], group: Option<&str>) {
    let read = || api_list(document, group);
    let Some(kinds) = bounded(document, 64 << 10, EACH, read) else { return };
    check_other_spelling(document, |text| api_list(text, group));

    for kind in &kinds {
        assert!(kind.is_found && kind.versions.contains(&kind.version), "{kind:?}");
        let of_kind = kinds.iter().find(|other| Some(&other.resource) == kind.of_kind.as_ref());
        assert!(of_kind.is_some_and(|other| other.kind.eq_ignore_ascii_case(&kind.kind)));
        assert!(group.is_none_or(|group| kind.group == group && !kind.resource.contains('/')));
    }
}

fn rules(document: &[u8]) {
    let Some(read) = bounded(document, 32 << 20, 64, || rules_review(document)) else { return };
    let RulesView { listed, named, excess, denied, .. } = &read;

    assert!(listed.len() <= MAX_PERMISSIONS && named.len() <= MAX_PERMISSIONS * USUAL_VERBS);
    assert!(excess.len() <= MAX_EXCESS);
    assert!(listed.is_sorted_by(|a, b| a < b) && excess.is_sorted_by(|a, b| a < b));
    assert_eq!(denied, &[], "{named:?}");
    check_other_spelling(document, rules_review);
}

/// An object of which the census of all operators keeps a part: the part takes about as many bytes as the
/// census counts for it.
fn census(kind: CensusKind, document: &[u8]) {
    let (read, kept) = retained(|| census_record(kind, document));
    let Some(CensusRecord { name: (namespace, name), weight, .. }) = read else { return };

    let counted = UNCOUNTED + 2 * (weight + namespace.len() + name.len()) as u64;
    assert!(kept <= counted, "{kind:?} keeps {kept} bytes; the census counts {weight}");
}

/// Access reviews and reviews of tokens: only a clear yes is one.
fn answers(document: &[u8]) {
    let read = || (access_review(document), subject_review(document), token_review(document));
    let (access, subject, token) = bounded(document, 64 << 10, 64, read);
    check_other_spelling(document, access_review);
    check_other_spelling(document, subject_review);
    check_other_spelling(document, token_review);

    let Ok(value) = serde_json::from_slice::<Value>(document) else { return };
    let Ok(text) = serde_json::to_vec(&value) else { return };
    if text != document {
        return; // a key may occur twice
    }

    let says = |field: &str| value["status"][field] == Value::Bool(true);
    assert!(access.is_none_or(|allowed| allowed == says("allowed")));
    assert!(subject.is_none_or(|allowed| allowed == (says("allowed") && !says("denied"))));
    assert!(token.flatten().is_none() || says("authenticated"));
}

/// The view does not depend on blanks.
fn check_other_spelling<T: PartialEq + std::fmt::Debug>(
    document: &[u8],
    read: impl Fn(&[u8]) -> T,
) {
    let Ok(value) = serde_json::from_slice::<Value>(document) else { return };
    let compact = serde_json::to_vec(&value).expect("JSON again");
    let pretty = serde_json::to_vec_pretty(&value).expect("JSON again");
    assert_eq!(read(&compact), read(&pretty));
}
