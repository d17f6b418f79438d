//! Anonymizes recordings: replaces names, UIDs and texts with pseudonyms.
//!
//! Kinds, finalizers, field managers and the common words of a status stay, because they belong to
//! the operator or to nobody, and the model needs them. Within a recording, equal names get equal
//! pseudonyms, so that references still match. No file contains the key, so nobody can test
//! guesses.
//!
//! The code takes structs apart field by field: a new field does not compile without a decision
//! here.

mod objects;
mod surroundings; // of objects
mod operator;
mod checkpoint;
mod text; // words within texts

use std::collections::BTreeSet;
use std::hash::Hasher;

use loopwatch_model::observation::{ObjectKey, Observation};
use loopwatch_model::settings::Settings;
use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The pseudonyms of one recording.
pub(super) struct Pseudonyms {
    key: [u8; 16],
    vocabulary: BTreeSet<&'static str>,
}

/// The alphabet of pseudonyms: consonants, which form neither words nor endings.
const LETTERS: &[u8; 16] = b"bcdfghjkmnpqrstv";

impl Pseudonyms {
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self { key, vocabulary: text::vocabulary() }
    }

    /// Returns the observation with pseudonyms.
    pub(super) fn anonymize(&self, observation: Observation) -> Observation {
        use Observation::*;

        match observation {
            KindsDiscovered(kinds) => {
                KindsDiscovered(kinds.into_iter().map(|kind| self.kind(kind)).collect())
            }
            ListBegan { watch, epoch } => ListBegan { watch: self.watch(&watch), epoch },
            Listed { watch, object } => {
                Listed { watch: self.watch(&watch), object: Box::new(self.object(*object)) }
            }
            ListEnded { watch, epoch, version } => {
                ListEnded { watch: self.watch(&watch), epoch, version }
            }
            Applied { watch, object } => {
                Applied { watch: self.watch(&watch), object: Box::new(self.object(*object)) }
            }
            Deleted { watch, key, version } => {
                Deleted { watch: self.watch(&watch), key: self.object_key(key), version }
            }
            Progressed { watch, version } => Progressed { watch: self.watch(&watch), version },
            Skipped { source, cause } => Skipped { source: self.source(source), cause },
            EventSeen { watch, event } => {
                EventSeen { watch: self.watch(&watch), event: Box::new(self.event(*event)) }
            }
            DefinitionSeen(view) => DefinitionSeen(self.definition(view)),
            WebhooksListed { kind, webhooks } => {
                let webhooks = webhooks.into_iter().map(|view| self.webhook(view)).collect();
                WebhooksListed { kind, webhooks }
            }
            EndpointsListed(views) => {
                EndpointsListed(views.into_iter().map(|view| self.endpoints(view)).collect())
            }
            NamespacesListed(views) => {
                NamespacesListed(views.into_iter().map(|view| self.namespace_view(view)).collect())
            }
            NamespaceSeen(view) => NamespaceSeen(self.namespace_view(view)),
            NamespaceGone(name) => NamespaceGone(self.namespace(&name)),
            PermissionsReviewed(view) => PermissionsReviewed(self.permissions(view)),
            LeaseSeen(lease) => LeaseSeen(self.lease(lease)),
            LeaseGone { namespace, name } => {
                LeaseGone { namespace: self.namespace(&namespace), name: self.name("lease", &name) }
            }
            LeasesListed { namespace, names } => {
                let names = names.iter().map(|name| self.name("lease", name)).collect();
                LeasesListed { namespace: self.namespace(&namespace), names }
            }
            OperatorSeen(view) => OperatorSeen(Box::new(self.operator(*view))),
            MetricsScraped(view) => MetricsScraped(Box::new(self.metrics(*view))),
            ScrapeFailed { instance, cause, .. } => {
                ScrapeFailed { instance: self.instance(&instance), cause, detail: String::new() }
            }
            ProcessSeen(view) => ProcessSeen(Box::new(self.process(*view))),
            ProcessGone { instance } => ProcessGone { instance: self.instance(&instance) },
            Answered { probe, answer } => {
                Answered { probe: self.probe(probe), answer: self.answer(answer) }
            }
            SourceFailed { source, cause, .. } => {
                SourceFailed { source: self.source(source), cause, detail: String::new() }
            }
            SourceOff { source, .. } => {
                SourceOff { source: self.source(source), reason: String::new() }
            }
            SourceRestricted { source, .. } => {
                SourceRestricted { source: self.source(source), reason: String::new() }
            }
            SourceRecovered { source } => SourceRecovered { source: self.source(source) },
            SettingsChanged(settings) => SettingsChanged(Box::new(self.settings(*settings))),
            Restored(checkpoint) => Restored(Box::new(self.checkpoint(*checkpoint))),
            ScrapesMissed { .. }
            | ScrapesSeen
            | DefinitionGone(_)
            | DefinitionsListed(_)
            | ClockStepped { .. }
            | Tick => observation,
        }
    }

    /// Returns the settings with pseudonyms. A pattern such as `prod-*` matches no pseudonym, so
    /// its rule has no effect in a replay.
    pub(super) fn settings(&self, mut settings: Settings) -> Settings {
        for rule in settings.findings.values_mut().flatten() {
            let selector = &mut rule.namespaces;
            for name in
                selector.include.iter_mut().chain(&mut selector.exclude).filter(|name| *name != "*")
            {
                *name = self.namespace(name);
            }
        }

        settings
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

    /// Sixteen letters, 64 bits. The chance that any two of a million names share a pseudonym is
    /// one in thirty million.
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

#[cfg(test)]
mod tests;
