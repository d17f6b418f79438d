//! Anonymizes checkpoints, and the findings to which one refers.

use std::collections::BTreeMap;

use loopwatch_model::checkpoint::{Checkpoint, SeenLease};
use loopwatch_model::finding::{Finding, FindingId, Subject};
use loopwatch_model::observation::{ObjectKey, SourceId, WatchId};
use loopwatch_model::time::Timestamp;

use super::Pseudonyms;

impl Pseudonyms {
    /// Returns a checkpoint with pseudonyms.
    pub(super) fn checkpoint(&self, mut checkpoint: Checkpoint) -> Checkpoint {
        // The IDs of findings are hashes of names without a key; see `findings`.
        checkpoint.findings.clear();
        checkpoint.silent.clear();
        checkpoint.of_controllers.clear();
        checkpoint.outputs = self.outputs(&checkpoint.outputs);

        let leases = std::mem::take(&mut checkpoint.leases).into_iter().map(|(key, lease)| {
            let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
            let key = format!("{}/{}", self.namespace(namespace), self.name("lease", name));
            (key, SeenLease { holder: self.holder(&lease.holder), ..lease })
        });

        checkpoint.leases = leases.collect();
        checkpoint
    }

    /// The start times of findings, under the IDs that the findings get in a replay.
    pub(in crate::recording) fn findings(
        &self,
        findings: &[Finding],
    ) -> BTreeMap<String, Timestamp> {
        findings
            .iter()
            .map(|f| (FindingId::of(f.code, &self.subject(&f.subject)).to_string(), f.since))
            .collect()
    }

    /// The findings of a checkpoint that do not alert, under the same IDs.
    pub(in crate::recording) fn silent(
        &self,
        findings: &[Finding],
        silent: &BTreeMap<String, Option<Timestamp>>,
    ) -> BTreeMap<String, Option<Timestamp>> {
        let until = |f: &Finding| silent.get(&f.id.to_string()).copied();
        let id = |f: &Finding| FindingId::of(f.code, &self.subject(&f.subject)).to_string();
        findings.iter().filter_map(|f| Some((id(f), until(f)?))).collect()
    }

    /// Returns the fields that name the operator's outputs, as `group/Kind path`.
    pub(in crate::recording) fn outputs(&self, outputs: &[String]) -> Vec<String> {
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
            other @ (Subject::Kind { .. }
            | Subject::Definition { .. }
            | Subject::Controller { .. }
            | Subject::Limit { .. }) => other,
        }
    }
}
