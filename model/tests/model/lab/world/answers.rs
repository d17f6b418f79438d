//! The answers of the API server to reads.

use loopwatch_model::observation::{Answer, Cause, Dependent, ObjectAddress, Observation, Probe};

use super::World;

impl World {
    /// Answers the reads that the model asks for.
    pub fn answer(&mut self) {
        for probe in self.lab.model.probes() {
            if self.silent {
                continue;
            }

            match &probe {
                Probe::Read(at) => self.reads.push(at.clone()),
                Probe::Dependents { .. } => self.searches += 1,
                Probe::Count(_) | Probe::Fields { .. } | Probe::Profile { .. } => continue,
            }

            let answer = self.answer_to(&probe);
            self.lab.observe(Observation::Answered { probe, answer });
        }
    }

    pub fn answer_to(&self, probe: &Probe) -> Answer {
        match (probe, self.reads_fail) {
            (_, Some(cause)) => Answer::Failed(cause),
            (Probe::Read(at), None) => self.read(at),
            (Probe::Dependents { uid, .. }, None) => self.dependents(uid),
            (Probe::Count(_) | Probe::Fields { .. } | Probe::Profile { .. }, None) => {
                Answer::Failed(Cause::Forbidden)
            }
        }
    }

    fn read(&self, at: &ObjectAddress) -> Answer {
        if self.unserved.contains(&at.kind) {
            return Answer::KindUnknown;
        }

        if self.refused.contains(&at.kind) {
            return Answer::Failed(Cause::Forbidden);
        }

        let mut at = at.clone();
        if self.cluster_scoped.contains(&at.kind) {
            at.namespace.clear();
        } else if at.namespace.is_empty() {
            return Answer::Failed(Cause::Invalid);
        }

        let found = self.objects.get(&at);
        found.map_or(Answer::Absent, |view| Answer::Found(Box::new(view.clone())))
    }

    fn dependents(&self, uid: &str) -> Answer {
        let dependents = self
            .objects
            .iter()
            .filter(|(_, view)| view.owners.iter().any(|owner| owner.uid == uid))
            .map(|(at, view)| Dependent {
                group: at.group.clone(),
                kind: at.kind.clone(),
                object: view.clone(),
            });

        Answer::Dependents { found: dependents.collect(), complete: true }
    }
}
