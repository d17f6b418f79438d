//! Anonymizes checkpoints, and the findings to which one refers.

use std::collections::{BTreeMap, BTreeSet};

use loopwatch_model::checkpoint::{Checkpoint, SeenLease};
use loopwatch_model::finding::{Finding, FindingId, Subject};
use loopwatch_model::observation::{ObjectKey, SourceId, WatchId};

use super::Pseudonyms;

impl Pseudonyms {
    /// Returns a checkpoint with pseudonyms. It lists all fields, so that each new one needs a
    /// decision.
    pub(super) fn checkpoint(&self, checkpoint: Checkpoint) -> Checkpoint {
        let Checkpoint {
            learned,
            phases,
            findings: _, // their IDs are hashes of names without a key; see `checkpoint_with`
            silent: _,
            opened: _,
            of_controllers: _,
            outputs,
            leases,
            finalizers,
            levels,
            permissions,
            reconciles,
        } = checkpoint;

        let leases = leases.into_iter().map(|(key, lease)| {
            let SeenLease { alive, holder, duration } = lease;
            let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
            let key = format!("{}/{}", self.namespace(namespace), self.name("lease", name));
            (key, SeenLease { alive, holder: self.holder(&holder), duration })
        });

        // A permission names kinds, which stay.
        let permissions = permissions
            .into_iter()
            .map(|(namespace, permissions)| (self.namespace(&namespace), permissions));

        // A phase is a text in a status.
        let phases = phases.into_iter().map(|(kind, phases)| {
            let phase = |(name, counts): (String, Vec<u64>)| match name.strip_prefix('+') {
                Some(phase) => (format!("+{}", self.value(phase)), counts),
                None => (self.value(&name), counts),
            };
            (kind, phases.into_iter().map(phase).collect())
        });

        Checkpoint {
            learned,
            phases: phases.collect(),
            findings: BTreeMap::new(),
            silent: BTreeMap::new(),
            opened: BTreeMap::new(),
            of_controllers: BTreeSet::new(),
            outputs: self.outputs(&outputs),
            leases: leases.collect(),
            finalizers,
            levels,
            permissions: permissions.collect(),
            reconciles,
        }
    }

    /// Like [`Self::checkpoint`], with the open `findings` that the checkpoint contains, under the
    /// IDs that they get in a replay.
    pub(in crate::recording) fn checkpoint_with(
        &self,
        checkpoint: Checkpoint,
        findings: &[Finding],
    ) -> Checkpoint {
        let silent = self.renamed(findings, &checkpoint.silent);
        let opened = self.renamed(findings, &checkpoint.opened);
        let is_collected_anew = |f: &&Finding| f.is_collected_anew();

        Checkpoint {
            findings: findings.iter().map(|f| (self.id(f), f.since)).collect(),
            silent,
            opened,
            of_controllers: findings.iter().filter(is_collected_anew).map(|f| self.id(f)).collect(),
            ..self.checkpoint(checkpoint)
        }
    }

    /// What a checkpoint says about findings, under the IDs of a replay.
    fn renamed<V: Copy>(
        &self,
        findings: &[Finding],
        values: &BTreeMap<String, V>,
    ) -> BTreeMap<String, V> {
        let value = |f: &Finding| values.get(&f.id.to_string()).copied();
        findings.iter().filter_map(|f| Some((self.id(f), value(f)?))).collect()
    }

    /// The ID of a finding in a replay.
    fn id(&self, finding: &Finding) -> String {
        FindingId::of(finding.code, &self.subject(&finding.subject)).to_string()
    }

    /// Returns the fields that name the operator's outputs, as `group/Kind path`.
    fn outputs(&self, outputs: &[String]) -> Vec<String> {
        let output = |(kind, path)| format!("{kind} {}", self.slot(path));
        outputs.iter().filter_map(|text| text.split_once(' ')).map(output).collect()
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
            Subject::Operator { namespace, name } => Subject::Operator {
                namespace: self.namespace(&namespace),
                name: self.name("object", &name),
            },
            Subject::Webhook { name } => Subject::Webhook { name: self.name("webhook", &name) },
            Subject::Policy { mutating, name } => {
                Subject::Policy { mutating, name: self.name("policy", &name) }
            }
            other @ (Subject::Kind { .. }
            | Subject::Definition { .. }
            | Subject::Controller { .. }
            | Subject::Limit { .. }) => other,
        }
    }
}
