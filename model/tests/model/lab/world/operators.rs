//! What operators do in a cluster.

use loopwatch_model::observation::ConditionStatus::True;
use loopwatch_model::observation::{
    Hashes, LeaseView, ObjectAddress, ObjectView, Observation, StatusShape,
};
use loopwatch_model::time::{Span, Timestamp};

use super::World;
use super::super::{condition, finalizers_by, map, status_by, texts, widget_at};

impl World {
    /// The operator creates an object for another one, or adopts it.
    pub fn owned(&mut self, at: &ObjectAddress, by: &ObjectAddress) {
        let owner = self.owner(by);
        self.create(at, &[owner]);
    }

    /// Creates an object that becomes ready, with finalizers of its operator.
    pub fn healthy(&mut self, at: &ObjectAddress, manager: &str, finalizers: &[&str]) {
        self.put(at, |view, now| {
            view.finalizers = texts(finalizers);
            if !finalizers.is_empty() {
                view.managers.push(finalizers_by(manager, now, finalizers));
            }
        });
        self.advance(Span::secs(1));
        self.put(at, |view, now| ready(view, manager, now));
    }

    /// Creates widgets, each with a child whose label has the name of its owner.
    pub fn labelled(&mut self, count: usize) {
        for n in 0..count {
            let name = format!("w{n}");
            let owner = widget_at("team-a", &name);
            self.healthy(&owner, "widget-operator", &[]);
            self.owned(&map(&name), &owner);

            let reference = self.owner(&owner);
            self.remove(&map(&name));
            self.create_unseen(&map(&name), &[reference]);
            self.put(&map(&name), |view, _| {
                view.labels.insert("example.io/widget".into(), name.clone());
            });
        }
    }

    /// The leader of an operator renews its lease every minute for a while.
    pub fn lead(&mut self, lease: &str, holder: &str, minutes: i64) {
        for _ in 0..minutes {
            self.advance(Span::mins(1));
            self.renew(lease, holder);
        }
    }

    pub fn renew(&mut self, lease: &str, holder: &str) {
        let now = self.lab.now;
        self.lab.observe(Observation::LeaseSeen(LeaseView {
            namespace: "ops".into(),
            name: lease.into(),
            holder: holder.into(),
            renewed: Some(now),
            written: Some(now),
            duration: Some(Span::secs(15)),
            ..LeaseView::default()
        }));
        self.lab.observe(Observation::LeasesListed {
            namespace: "ops".into(),
            names: vec![lease.into()],
        });
    }
}

/// The operator reports an object as ready.
pub fn ready(view: &mut ObjectView, manager: &str, now: Timestamp) {
    view.observed_generation = Some(view.generation);
    view.status = StatusShape::Filled;
    view.conditions = vec![condition("Ready", True, "AsExpected")];
    view.hashes = Hashes { spec: 1, status: 7, settled: 7 };
    view.managers.retain(|m| m.subresource != "status");
    view.managers.push(status_by(manager, now));
}
