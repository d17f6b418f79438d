//! What users and operators do with objects.

use loopwatch_model::observation::{
    ConditionStatus, ObjectAddress, ObjectKey, ObjectView, Observation, Role, WatchedKind,
};
use loopwatch_model::time::Timestamp;

use super::super::{FINALIZER, Widget, spec_by};
use super::RandomWorld;

impl RandomWorld {
    /// Changes an object, and its watch reports that.
    fn change(&mut self, at: &ObjectAddress, change: impl FnOnce(&mut Widget, Timestamp)) {
        let now = self.now();
        let Some(widget) = self.widgets.get_mut(at) else { return };
        change(widget, now);
        self.write(at);
        self.see(at);
    }

    /// The operator changes the status of an object.
    fn report(&mut self, at: &ObjectAddress, change: impl FnOnce(&mut Widget)) {
        self.change(at, |widget, now| {
            change(widget);
            widget.status_written = Some(now);
        });
    }

    /// Writes an object as its widget is now.
    pub(super) fn write(&mut self, at: &ObjectAddress) {
        let Some(widget) = self.widgets.get(at) else { return };
        let of = |kind: &&WatchedKind| kind.kind == at.kind;
        let role = self.world.kinds.iter().find(of).map(|kind| kind.role);

        self.world.put_unseen(at, |view, _| {
            let before = std::mem::take(view);
            *view = ObjectView {
                key: before.key,
                owners: before.owners,
                references: before.references,
                annotations: before.annotations,
                labels: before.labels,
                ..widget.view(0)
            };
            if role == Some(Role::Child) {
                view.managers = vec![spec_by("widget-operator", widget.created)];
            }
        });
    }

    /// The watch reports an object as it is, unless the event is lost.
    pub(super) fn see(&mut self, at: &ObjectAddress) {
        let Some(watch) = self.world.watch_of(at) else { return };
        let Some(view) = self.world.objects.get(at).cloned() else { return };
        if !self.is_lost() {
            self.told.insert(at.clone(), view.owners.clone());
            self.tell(Observation::Applied { watch, object: Box::new(view) });
        }
    }

    /// Creates an object that its watch does not report yet, perhaps in place of another one.
    pub(super) fn create_unseen(&mut self, at: &ObjectAddress) {
        let mut widget = Widget::new(&at.name, self.now());
        widget.uid = self.dice.roll(1 << 40);
        self.widgets.insert(at.clone(), widget);
        self.world.objects.remove(at);
        self.write(at);
    }
}

pub fn create(random: &mut RandomWorld, at: &ObjectAddress) {
    random.create_unseen(at);
    random.see(at);
}

pub fn remove(random: &mut RandomWorld, at: &ObjectAddress) {
    let existed = random.widgets.remove(at).is_some();
    random.world.objects.remove(at);
    if !existed || random.is_lost() {
        return;
    }

    random.told.remove(at);
    let Some(watch) = random.world.watch_of(at) else { return };
    let key = ObjectKey { namespace: at.namespace.clone(), name: at.name.clone() };
    let version = random.world.lab.next_version().to_string();
    random.tell(Observation::Deleted { watch, key, version });
}

/// The watch reports an object again.
pub fn repeat(random: &mut RandomWorld, at: &ObjectAddress) {
    random.see(at);
}

pub fn change_spec(random: &mut RandomWorld, at: &ObjectAddress) {
    let spec = random.dice.roll(4) + 1;
    random.change(at, |widget, now| drop(widget.spec(spec, now)));
}

pub fn get_ready(random: &mut RandomWorld, at: &ObjectAddress) {
    random.report(at, |widget| drop(widget.ready()));
}

pub fn wait(random: &mut RandomWorld, at: &ObjectAddress) {
    random.report(at, |widget| drop(widget.waiting()));
}

pub fn fail(random: &mut RandomWorld, at: &ObjectAddress) {
    random.report(at, |widget| drop(widget.failed("Broken")));
}

pub fn change_phase(random: &mut RandomWorld, at: &ObjectAddress) {
    let phase = random.dice.pick(&["Pending", "Running", "Failed", "Working"]);
    random.report(at, |widget| drop(widget.phase(phase)));
}

/// The operator says whether it has synchronized the object.
pub fn sync(random: &mut RandomWorld, at: &ObjectAddress) {
    let status = random.dice.pick(&[ConditionStatus::True, ConditionStatus::False]);
    random.report(at, |widget| drop(widget.condition("Synced", status, "X")));
}

pub fn touch_status(random: &mut RandomWorld, at: &ObjectAddress) {
    random.report(at, |widget| drop(widget.touch_status()));
}

/// The operator writes times of transition from now on.
pub fn date_conditions(random: &mut RandomWorld, at: &ObjectAddress) {
    random.change(at, |widget, now| widget.changed = Some(now));
}

/// Pauses or resumes an object.
pub fn pause(random: &mut RandomWorld, at: &ObjectAddress) {
    random.change(at, |widget, _| widget.paused = !widget.paused);
}

pub fn add_finalizer(random: &mut RandomWorld, at: &ObjectAddress) {
    let finalizer = some_finalizer(random);
    random.change(at, |widget, _| widget.finalizers = vec![finalizer]);
}

/// All finalizers are removed, and with them an object that is being deleted.
pub fn remove_finalizers(random: &mut RandomWorld, at: &ObjectAddress) {
    if random.widgets.get(at).is_some_and(|widget| widget.deleted.is_some()) {
        return remove(random, at);
    }

    random.change(at, |widget, _| widget.finalizers.clear());
}

/// Somebody deletes an object, which waits for its finalizers.
pub fn begin_deletion(random: &mut RandomWorld, at: &ObjectAddress) {
    let finalizer = some_finalizer(random);
    random.change(at, |widget, now| {
        widget.deleted = widget.deleted.or(Some(now));
        widget.finalizers.push(finalizer);
    });
}

fn some_finalizer(random: &mut RandomWorld) -> String {
    let all = [FINALIZER, "foregroundDeletion", "orphan", "other.example.com/x"];
    random.dice.pick(&all).to_owned()
}
