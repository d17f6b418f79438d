//! Replaces names, UIDs and texts with pseudonyms.
//!
//! Kinds, finalizers, field managers and the usual words of a status stay, because they belong to the operator or to
//! nobody, and the model needs them. Within a recording, equal names get equal pseudonyms, so that references still
//! match. The key is in no file, so that nobody can test guesses.
//!
//! The structs are taken apart field by field, so that a new field does not compile without a decision here.

mod operator;
mod text; // words inside of texts

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

use loopwatch_model::checkpoint::SeenLease;
use loopwatch_model::finding::{Finding, FindingId, Subject};
use loopwatch_model::model::annotated::Annotated;
use loopwatch_model::observation::{
    Answer, Condition, DefinitionView, Dependent, EventView, Fact, FactValue, LeaseView, NamespaceView, ObjectAddress,
    ObjectKey, ObjectView, Observation, OwnerReference, Pause, PermissionsView, Probe, Reference, Scope, SourceId,
    StartupRead, WatchId, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::Timestamp;
use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The pseudonyms of one recording.
pub(super) struct Pseudonyms {
    key: [u8; 16],
    vocabulary: BTreeSet<&'static str>,
}

/// The alphabet of pseudonyms: consonants, which form no words and no endings.
const LETTERS: &[u8; 16] = b"bcdfghjkmnpqrstv";

// === impl Pseudonyms ===

impl Pseudonyms {
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self { key, vocabulary: text::vocabulary() }
    }

    /// Returns the observation with pseudonyms.
    pub(super) fn anonymize(&self, observation: Observation) -> Observation {
        match observation {
            Observation::KindsDiscovered(kinds) => {
                Observation::KindsDiscovered(kinds.into_iter().map(|kind| self.kind(kind)).collect())
            }
            Observation::ListBegan { watch, epoch } => Observation::ListBegan { watch: self.watch(&watch), epoch },
            Observation::Listed { watch, object } => {
                Observation::Listed { watch: self.watch(&watch), object: Box::new(self.object(*object)) }
            }
            Observation::ListEnded { watch, epoch, version } => {
                Observation::ListEnded { watch: self.watch(&watch), epoch, version }
            }
            Observation::Applied { watch, object } => {
                Observation::Applied { watch: self.watch(&watch), object: Box::new(self.object(*object)) }
            }
            Observation::Deleted { watch, key, version } => {
                Observation::Deleted { watch: self.watch(&watch), key: self.object_key(key), version }
            }
            Observation::Progressed { watch, version } => {
                Observation::Progressed { watch: self.watch(&watch), version }
            }
            Observation::DefinitionSeen(view) => Observation::DefinitionSeen(self.definition(view)),
            Observation::PermissionsReviewed(view) => {
                let PermissionsView { namespace, incomplete, missing, excess, left_out } = view;
                let namespace = self.namespace(&namespace);
                // `left_out` contains only counts and the names of kinds.
                Observation::PermissionsReviewed(PermissionsView { namespace, incomplete, missing, excess, left_out })
            }
            Observation::LeaseSeen(lease) => {
                let LeaseView { namespace, name, holder, .. } = lease;
                let (namespace, name) = (self.namespace(&namespace), self.name("lease", &name));
                let holder = self.name("holder", &holder);
                Observation::LeaseSeen(LeaseView { namespace, name, holder, ..lease })
            }
            Observation::NamespacesListed(namespaces) => {
                let namespaces = namespaces.into_iter().map(|namespace| self.namespace_view(namespace));
                Observation::NamespacesListed(namespaces.collect())
            }
            Observation::NamespaceSeen(namespace) => Observation::NamespaceSeen(self.namespace_view(namespace)),
            Observation::NamespaceGone(name) => Observation::NamespaceGone(self.namespace(&name)),
            Observation::SettingsChanged(settings) => Observation::SettingsChanged(Box::new(self.settings(*settings))),
            Observation::LeaseGone { namespace, name } => {
                Observation::LeaseGone { namespace: self.namespace(&namespace), name: self.name("lease", &name) }
            }
            Observation::LeasesListed { namespace, names } => {
                let names = names.iter().map(|name| self.name("lease", name)).collect();
                Observation::LeasesListed { namespace: self.namespace(&namespace), names }
            }
            Observation::EventSeen { watch, event } => {
                let EventView { uid, about, r#type, reason, message, reporter, count, added, at, uncounted } = *event;
                let (uid, about) = (self.uid(&uid), self.object_key(about));
                let (reason, message, reporter) = (self.value(&reason), self.prose(&message), self.words(&reporter));
                let event = EventView { uid, about, r#type, reason, message, reporter, count, added, at, uncounted };
                Observation::EventSeen { watch: self.watch(&watch), event: Box::new(event) }
            }
            Observation::OperatorSeen(view) => Observation::OperatorSeen(Box::new(self.operator(*view))),
            Observation::MetricsScraped(view) => Observation::MetricsScraped(Box::new(self.metrics(*view))),
            Observation::ScrapeFailed { instance, cause, .. } => {
                Observation::ScrapeFailed { instance: self.instance(&instance), cause, detail: String::new() }
            }
            Observation::ProcessSeen(view) => Observation::ProcessSeen(Box::new(self.process(*view))),
            Observation::ProcessGone { instance } => Observation::ProcessGone { instance: self.instance(&instance) },
            Observation::Answered { probe, answer } => {
                Observation::Answered { probe: self.probe(probe), answer: self.answer(answer) }
            }
            Observation::SourceFailed { source, cause, .. } => {
                Observation::SourceFailed { source: self.source(source), cause, detail: String::new() }
            }
            Observation::SourceOff { source, .. } => {
                Observation::SourceOff { source: self.source(source), reason: String::new() }
            }
            Observation::SourceRestricted { source, .. } => {
                Observation::SourceRestricted { source: self.source(source), reason: String::new() }
            }
            Observation::SourceRecovered { source } => Observation::SourceRecovered { source: self.source(source) },
            Observation::Skipped { source, cause } => Observation::Skipped { source: self.source(source), cause },
            // The IDs of findings are hashes of names without a key; see `findings`.
            Observation::Restored(mut checkpoint) => {
                checkpoint.findings.clear();
                checkpoint.silent.clear();
                checkpoint.of_controllers.clear();
                checkpoint.outputs = self.outputs(&checkpoint.outputs);
                let leases = std::mem::take(&mut checkpoint.leases).into_iter().map(|(key, lease)| {
                    let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
                    let key = format!("{}/{}", self.namespace(namespace), self.name("lease", name));
                    (key, SeenLease { holder: self.name("holder", &lease.holder), ..lease })
                });
                checkpoint.leases = leases.collect();
                Observation::Restored(checkpoint)
            }
            Observation::DefinitionGone(_)
            | Observation::DefinitionsListed(_)
            | Observation::ClockStepped { .. }
            | Observation::Tick => observation,
        }
    }

    /// The start times of findings, under the IDs that the findings get in a replay.
    pub(super) fn findings(&self, findings: &[Finding]) -> BTreeMap<String, Timestamp> {
        findings.iter().map(|f| (FindingId::of(f.code, &self.subject(&f.subject)).to_string(), f.since)).collect()
    }

    /// The findings that do not alert, of a checkpoint, under the same IDs.
    pub(super) fn silent(
        &self,
        findings: &[Finding],
        silent: &BTreeMap<String, Option<Timestamp>>,
    ) -> BTreeMap<String, Option<Timestamp>> {
        let until = |f: &Finding| silent.get(&f.id.to_string()).copied();
        let id = |f: &Finding| FindingId::of(f.code, &self.subject(&f.subject)).to_string();
        findings.iter().filter_map(|f| Some((id(f), until(f)?))).collect()
    }

    fn subject(&self, subject: &Subject) -> Subject {
        match subject.clone() {
            Subject::Object { group, kind, namespace, name } => {
                let ObjectKey { namespace, name } = self.object_key(ObjectKey { namespace, name });
                Subject::Object { group, kind, namespace, name }
            }
            Subject::Source { name } => Subject::Source {
                name: match name.strip_prefix("watch/") {
                    Some(watch) => SourceId::Watch(self.watch(&WatchId(watch.into()))).to_string(),
                    None => name,
                },
            },
            Subject::Permission { namespace, permission } => {
                Subject::Permission { namespace: self.namespace(&namespace), permission }
            }
            Subject::Operator { namespace, name } => {
                Subject::Operator { namespace: self.namespace(&namespace), name: self.name("object", &name) }
            }
            other @ (Subject::Kind { .. }
            | Subject::Definition { .. }
            | Subject::Controller { .. }
            | Subject::Limit { .. }) => other,
        }
    }

    /// Returns the settings with pseudonyms. A pattern such as `prod-*` matches no pseudonym, so its rule has no effect in
    /// a replay.
    pub(super) fn settings(&self, mut settings: Settings) -> Settings {
        for rule in settings.findings.values_mut().flatten() {
            let selector = &mut rule.namespaces;
            for name in selector.include.iter_mut().chain(&mut selector.exclude).filter(|name| *name != "*") {
                *name = self.namespace(name);
            }
        }
        settings
    }

    fn namespace_view(&self, namespace: NamespaceView) -> NamespaceView {
        let NamespaceView { name, annotations, team, deleted, conditions } = namespace;
        let conditions = conditions.into_iter().map(|condition| self.condition(condition)).collect();
        let (name, annotations) = (self.namespace(&name), self.annotations(annotations));
        NamespaceView { name, annotations, team: self.name("label", &team), deleted, conditions }
    }

    fn kind(&self, kind: WatchedKind) -> WatchedKind {
        let WatchedKind {
            watch,
            group,
            version,
            kind,
            resource,
            scope,
            role,
            status,
            why,
            suspected,
            filtered,
            metadata_only,
            missing,
        } = kind;
        let scope = match scope {
            Scope::Namespace(namespace) => Scope::Namespace(self.namespace(&namespace)),
            other @ (Scope::Cluster | Scope::AllNamespaces) => other,
        };
        let watch = self.watch(&watch);
        WatchedKind {
            watch,
            group,
            version,
            kind,
            resource,
            scope,
            role,
            status,
            why,
            suspected,
            filtered,
            metadata_only,
            missing,
        }
    }

    fn watch(&self, watch: &WatchId) -> WatchId {
        match watch.0.split_once('/') {
            Some((resource, namespace)) => WatchId(format!("{resource}/{}", self.namespace(namespace)).into()),
            None => watch.clone(),
        }
    }

    fn probe(&self, probe: Probe) -> Probe {
        match probe {
            Probe::Count(watch) => Probe::Count(self.watch(&watch)),
            Probe::Read(address) => Probe::Read(self.address(address)),
            Probe::Dependents { owner, uid } => Probe::Dependents { owner: self.address(owner), uid },
            Probe::Profile { instance, kind } => Probe::Profile { instance: self.instance(&instance), kind },
        }
    }

    fn address(&self, address: ObjectAddress) -> ObjectAddress {
        let ObjectAddress { group, kind, namespace, name } = address;
        let ObjectKey { namespace, name } = self.object_key(ObjectKey { namespace, name });
        ObjectAddress { group, kind: self.kind_name(kind), namespace, name }
    }

    fn answer(&self, answer: Answer) -> Answer {
        match answer {
            Answer::Found(object) => Answer::Found(Box::new(self.object(*object))),
            Answer::Dependents { found, complete } => {
                let dependent = |d: Dependent| Dependent { object: self.object(d.object), ..d };
                Answer::Dependents { found: found.into_iter().map(dependent).collect(), complete }
            }
            Answer::Profiled(profile) => Answer::Profiled(Box::new(self.profile(*profile))),
            Answer::Counted { .. } | Answer::Absent | Answer::KindUnknown | Answer::Failed(_) => answer,
        }
    }

    fn source(&self, source: SourceId) -> SourceId {
        match source {
            SourceId::Watch(watch) => SourceId::Watch(self.watch(&watch)),
            other => other,
        }
    }

    fn definition(&self, definition: DefinitionView) -> DefinitionView {
        let conditions = definition.conditions.into_iter().map(|condition| self.condition(condition)).collect();
        DefinitionView { conditions, ..definition }
    }

    fn object(&self, object: ObjectView) -> ObjectView {
        let ObjectView {
            key,
            uid,
            version,
            generation,
            created,
            deleted,
            grace,
            finalizers,
            owners,
            annotations,
            labels,
            resembles_owned,
            managers,
            paused,
            status,
            observed_generation,
            conditions,
            facts,
            name_hash,
            references,
            startup,
            marks_hash,
            hashes,
            bytes,
            lints,
        } = object;
        ObjectView {
            key: self.object_key(key),
            uid: self.uid(&uid),
            version,
            generation,
            created,
            deleted,
            grace,
            finalizers,
            owners: owners.into_iter().map(|owner| self.owner(owner)).collect(),
            annotations: self.annotations(annotations),
            labels: self.marks(labels),
            resembles_owned,
            managers,
            paused: paused.map(|Pause { by }| Pause { by: self.pause(&by) }),
            status,
            observed_generation,
            conditions: conditions.into_iter().map(|condition| self.condition(condition)).collect(),
            facts: facts.into_iter().map(|fact| self.fact(fact)).collect(),
            name_hash, // its key is in no file
            references: references.into_iter().map(|reference| self.reference(reference)).collect(),
            startup: startup.into_iter().map(|r| StartupRead { name: self.name("object", &r.name), ..r }).collect(),
            marks_hash,
            hashes,
            bytes,
            lints,
        }
    }

    fn owner(&self, owner: OwnerReference) -> OwnerReference {
        let OwnerReference { api_version, kind, name, uid, controller, blocks_deletion } = owner;
        let (kind, name, uid) = (self.kind_name(kind), self.name("object", &name), self.uid(&uid));
        OwnerReference { api_version, kind, name, uid, controller, blocks_deletion }
    }

    fn condition(&self, condition: Condition) -> Condition {
        let Condition { at, r#type, status, reason, message, severity, observed_generation, changed } = condition;
        Condition {
            at: self.path(&at),
            r#type: self.condition_type(&r#type),
            status,
            reason: self.value(&reason),
            message: self.prose(&message),
            severity: self.value(&severity),
            observed_generation,
            changed,
        }
    }

    fn fact(&self, fact: Fact) -> Fact {
        let Fact { path, value } = fact;
        let value = match value {
            FactValue::Text(text) => FactValue::Text(self.value(&text)),
            other @ (FactValue::Flag(_) | FactValue::Number(_)) => other,
        };
        Fact { path: self.path(&path), value }
    }

    /// `spec.suspend`, `annotation example.io/paused`, `label …`.
    fn pause(&self, by: &str) -> String {
        match by.split_once(' ') {
            Some((what, key)) => {
                format!("{what} {}", key.split('/').map(|part| self.words(part)).collect::<Vec<_>>().join("/"))
            }
            None => self.path(by),
        }
    }

    /// Returns the annotations with pseudonyms. Those for loopwatch stay if they are valid; invalid ones may contain any
    /// text.
    fn annotations(&self, mut annotations: BTreeMap<String, String>) -> BTreeMap<String, String> {
        if Annotated::read(&annotations).is_none_or(|annotated| !annotated.problems.is_empty()) {
            annotations.retain(|key, _| !key.starts_with("loopwatch.dev/"));
        }
        self.marks(annotations)
    }

    fn marks(&self, marks: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mark = |(key, value): (String, String)| {
            let value = self.mark(&key, &value);
            (key, value)
        };
        marks.into_iter().map(mark).collect()
    }

    fn reference(&self, reference: Reference) -> Reference {
        let Reference { slot, group, kind, namespace, name_hash, name, optional } = reference;
        let (slot, namespace, name) = (self.slot(&slot), self.namespace(&namespace), self.name("object", &name));
        let kind = self.kind_name(kind);
        Reference { slot, group, kind, namespace, name_hash, name, optional }
    }

    /// Returns the value of an annotation or a label. All values are names, unless their key and their form say otherwise.
    fn mark(&self, key: &str, value: &str) -> String {
        let (prefix, name) = key.rsplit_once('/').unwrap_or(("", key));
        let name = name.to_ascii_lowercase().replace('_', "-");
        let kept = (prefix == "loopwatch.dev" && matches!(name.as_str(), "ignore" | "deadline"))
            || name == "managed-by" // `created-by` may name a person
            || (prefix == "soft-delete" && matches!(value, "canary" | "stable"))
            || (!name.contains("owner") && is_switch(value))
            || is_nobody(&name, value);
        if kept {
            value.to_owned()
        } else if name == "component" {
            self.words(value)
        } else if name.ends_with("uid") {
            self.uid(value)
        } else if name.ends_with("namespace") || name.ends_with("-ns") {
            self.namespace(value)
        } else if let Some((namespace, object)) = value.split_once('/') {
            format!("{}/{}", self.namespace(namespace), self.name("object", object))
        } else {
            self.name("object", value)
        }
    }

    /// Returns the fields that name what the operator creates, as `group/Kind path`.
    pub(super) fn outputs(&self, outputs: &[String]) -> Vec<String> {
        let output = |(kind, path)| format!("{kind} {}", self.slot(path));
        outputs.iter().filter_map(|text| text.split_once(' ')).map(output).collect()
    }

    /// Returns the path of a reference. Keys between the first and the last may be names that the user chose.
    fn slot(&self, slot: &str) -> String {
        let last = slot.split('.').count().saturating_sub(1);
        let part = |(position, part): (usize, &str)| match part.trim_end_matches("[]") {
            key if position > 0 && position < last => format!("{}{}", self.name("key", key), &part[key.len()..]),
            _ => part.to_owned(),
        };
        slot.split('.').enumerate().map(part).collect::<Vec<_>>().join(".")
    }

    /// Returns the kind in a reference. A spec may hold any text there, so only what has the form of a kind stays.
    fn kind_name(&self, kind: String) -> String {
        let is_kind = kind.starts_with(|first: char| first.is_ascii_uppercase())
            && kind.chars().all(|character| character.is_ascii_alphanumeric());
        if is_kind || kind.is_empty() { kind } else { self.name("kind", &kind) }
    }

    fn object_key(&self, key: ObjectKey) -> ObjectKey {
        let ObjectKey { namespace, name } = key;
        ObjectKey { namespace: self.namespace(&namespace), name: self.name("object", &name) }
    }

    fn namespace(&self, namespace: &str) -> String {
        self.name("namespace", namespace)
    }

    fn name(&self, what: &str, name: &str) -> String {
        if name.is_empty() { String::new() } else { format!("{what}-{}", self.letters(what, name)) }
    }

    /// A UID in the form of a UUID.
    fn uid(&self, uid: &str) -> String {
        if uid.is_empty() {
            return String::new();
        }
        let hex = format!("{:032x}", self.hash("uid", uid));
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Sixteen letters, 64 bits: among a million names, two share a pseudonym with a chance of one in thirty million.
    fn letters(&self, what: &str, text: &str) -> String {
        let hash = self.hash(what, text);
        (0..16).map(|at| char::from(LETTERS[(hash >> (4 * at)) as usize & 15])).collect()
    }

    fn hash(&self, what: &str, text: &str) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(what.as_bytes());
        hasher.write(&[0xff]);
        hasher.write(text.as_bytes());
        hasher.finish128().into()
    }
}

/// Whether the value of an annotation or label switches something on or off.
fn is_switch(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(value.as_str(), "true" | "false" | "yes" | "no" | "on" | "off" | "0" | "1" | "enabled" | "disabled")
}

/// Whether the value of an annotation or label of this name is a time, a hash, a number, a trace or a kind, as the name
/// says. Anybody can write any text under any name.
fn is_nobody(name: &str, value: &str) -> bool {
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    let is = |accepts: fn(char) -> bool| !value.is_empty() && value.chars().all(accepts);
    if ends(&["-at", "requestedat", "restartedat"]) {
        // Operators also write seconds since 1970.
        Timestamp::parse(value).is_some() || (value.len() == 10 && is(|c| c.is_ascii_digit()))
    } else if ends(&["hash"]) {
        // So Kubernetes encodes hashes. A StatefulSet puts its name before one, and a word has vowels.
        is(|c| "bcdfghjklmnpqrstvwxz0123456789".contains(c)) && value.contains(|c: char| c.is_ascii_digit())
    } else if ends(&["traceparent", "spancontext"]) {
        value.replace("traceparent", "").chars().all(|c| c.is_ascii_hexdigit() || "-{}:\" ".contains(c))
    } else if ends(&["kind", "gvk", "primary-resource-type"]) {
        is(|c| c.is_ascii_alphanumeric() || "./,= ".contains(c)) && value.contains(|c: char| c.is_ascii_uppercase())
    } else {
        name == "revision" && is(|c| c.is_ascii_digit())
    }
}

#[cfg(test)]
mod tests;
