//! Owners and references of any quality.

use loopwatch_model::observation::{ObjectAddress, ObjectView, OwnerReference, Reference};

use super::RandomWorld;

impl RandomWorld {
    fn some_owners(&mut self, of: &ObjectAddress) -> Vec<OwnerReference> {
        (0..self.dice.roll(3)).map(|_| self.some_owner(of)).collect()
    }

    /// Returns an owner reference of any quality.
    fn some_owner(&mut self, of: &ObjectAddress) -> OwnerReference {
        let existing: Vec<ObjectAddress> = self.world.objects.keys().cloned().collect();
        if existing.is_empty() {
            return OwnerReference::default();
        }

        let owner = self.world.owner(&self.dice.pick(&existing));
        let near = |at: &&ObjectAddress| at.kind == "Widget" && at.namespace == of.namespace;
        let near = existing.iter().find(near).map(|at| self.world.owner(at));
        match self.dice.roll(12) {
            0..=4 => near.unwrap_or(owner),
            5 => {
                let uid = format!("00000000-0000-4000-9000-{:012x}", self.dice.roll(50));
                OwnerReference { uid, ..owner }
            }
            6 => OwnerReference {
                api_version: "gone.example.io/v1".into(),
                kind: "Gone".into(),
                ..owner
            },
            7 => OwnerReference { kind: "StatefulSet".into(), ..owner },
            8 => OwnerReference::default(),
            9 => OwnerReference { uid: "malformed".into(), ..owner },
            10 => self.world.owner(of),
            _ => owner,
        }
    }

    /// Changes the metadata of an object that exists, and its watch reports that.
    pub(super) fn change_metadata(
        &mut self,
        at: &ObjectAddress,
        change: impl FnOnce(&mut ObjectView),
    ) {
        if self.widgets.contains_key(at) {
            self.world.put_unseen(at, |view, _| change(view));
            self.see(at);
        }
    }
}

/// The operator creates a labelled object for others.
pub fn create_owned(random: &mut RandomWorld, at: &ObjectAddress) {
    random.create_unseen(at);
    let owners = random.some_owners(at);
    random.change_metadata(at, |view| {
        view.owners = owners;
        view.labels.insert("app.kubernetes.io/instance".into(), "widget-1".into());
    });
}

pub fn change_owners(random: &mut RandomWorld, at: &ObjectAddress) {
    let owners = random.some_owners(at);
    random.change_metadata(at, |view| view.owners = owners);
}

/// The spec of an object names a Secret.
pub fn refer(random: &mut RandomWorld, at: &ObjectAddress) {
    let roll = random.dice.roll(4);
    let reference = Reference {
        slot: "spec.secretRef".into(),
        kind: "Secret".into(),
        namespace: if roll % 2 == 0 { String::new() } else { "team-b".into() },
        name_hash: 7 + roll,
        name: format!("secret-{roll}"),
        ..Reference::default()
    };

    let now = random.now();
    if let Some(widget) = random.widgets.get_mut(at) {
        widget.spec(10 + roll, now);
        random.write(at);
    }

    random.change_metadata(at, |view| view.references = vec![reference]);
}

/// Annotations mark an object as deleted, name its owner, or are removed.
pub fn mark(random: &mut RandomWorld, at: &ObjectAddress) {
    let (roll, namespace) = (random.dice.roll(4), random.dice.pick(&["team-a", "team-b"]));
    let name = format!("widget-{roll}");
    let marks = match roll {
        0 => Vec::new(),
        1 => vec![("soft-delete/enable", "true"), ("deleted_at", "2026-01-01T00:00:00Z")],
        _ => vec![
            ("example.io/owner-kind", "Widget"),
            ("example.io/owner-ns", namespace),
            ("example.io/owner-name", &name),
        ],
    };

    let marks = marks.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    random.change_metadata(at, |view| view.annotations = marks);
}
