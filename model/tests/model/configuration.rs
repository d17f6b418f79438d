//! Workloads whose Pods read configuration at their start.

mod stale_pods;
mod unwatched;

use loopwatch_model::observation::{
    Manager, ObjectAddress, ObjectView, Owned, StartupRead, WatchedKind,
};
use loopwatch_model::settings::Settings;
use loopwatch_model::time::{Span, Timestamp};

use crate::lab::{
    World, at, config_maps, deployment, deployments, kind, map, spec_by, unlearned, web, written_by,
};

const FINDING: &str = "StaleConfiguration Deployment team-a/app";

/// The address of the Deployment.
fn app() -> ObjectAddress {
    at("apps", "Deployment", "team-a", "app")
}

fn pod_at(name: &str) -> ObjectAddress {
    at("", "Pod", "team-a", name)
}

/// The address of the `ConfigMap` that the Pods read.
fn settings() -> ObjectAddress {
    map("settings")
}

fn reads_all(name: &str) -> StartupRead {
    StartupRead { name: name.into(), whole: true, ..StartupRead::default() }
}

/// The managed fields entry of a kubelet that wrote the status of a Pod.
fn kubelet(time: Timestamp) -> Manager {
    written_by("kubelet", time, Owned { status: true, ..Owned::default() })
}

impl World {
    /// Returns a world with a Deployment that has one Pod, which reads a `ConfigMap` when it starts.
    fn with_app() -> Self {
        Self::with_app_in(unlearned(), &[kind(), deployments(), config_maps()])
    }

    /// Returns such a world in which no watch shows the `ConfigMap`.
    fn without_config_maps() -> Self {
        Self::with_app_in(unlearned(), &[kind(), deployments()])
    }

    fn with_app_in(settings_of_lab: Settings, kinds: &[WatchedKind]) -> Self {
        let mut world = Self::unlisted(settings_of_lab, kinds);
        world.put_unseen(&web(), |_, _| ());
        let owner = world.owner(&web());

        world.put_unseen(&settings(), |view, now| {
            view.owners = vec![owner.clone()];
            view.managers = vec![spec_by("widget-operator", now)];
            view.marks_hash = 7;
        });
        world.put_unseen(&app(), |view, _| {
            *view = ObjectView {
                created: view.created,
                uid: view.uid.clone(),
                owners: vec![owner],
                startup: vec![reads_all("settings")],
                ..deployment("web", "app", 1, 1)
            };
        });

        world.replace_pods("app-1");
        world.list();
        world.healthy(&web(), "widget-operator", &[]);
        world.advance(Span::hours(1));
        world.lab.assert_no_findings();
        world
    }

    /// Creates a Pod in the place of all others, and the `ReplicaSets` above it.
    fn replace_pods(&mut self, name: &str) {
        self.objects.retain(|at, _| at.kind != "Pod");
        for (set, revision) in [("app-old", "9"), ("app-new", "10"), ("app-odd", "x")] {
            let owner = self.owner(&app());
            self.put_unseen(&at("apps", "ReplicaSet", "team-a", set), |view, _| {
                view.owners = vec![owner];
                let key = "deployment.kubernetes.io/revision";
                view.annotations.insert(key.into(), revision.into());
            });
        }

        let owner = self.owner(&at("apps", "ReplicaSet", "team-a", "app-new"));
        self.put_unseen(&pod_at(name), |view, now| {
            view.owners = vec![owner];
            view.managers = vec![kubelet(now.after(Span::secs(3)))];
        });
    }

    /// Somebody writes the data of the `ConfigMap` now.
    fn write(&mut self) {
        self.put(&settings(), |view, now| view.managers = vec![spec_by("widget-operator", now)]);
    }

    /// Somebody writes the data of the `ConfigMap` and its labels now.
    fn relabel(&mut self, marks_hash: u64) {
        self.put_unseen(&settings(), |view, _| view.marks_hash = marks_hash);
        self.write();
    }

    /// Somebody deletes the `ConfigMap` and creates it again.
    fn create_settings_again(&mut self) {
        self.put_unseen(&settings(), |view, now| {
            (view.uid, view.created) = ("uid-again".into(), Some(now));
        });
        self.write();
    }

    /// A rollout replaces the Pods.
    fn roll(&mut self) {
        self.put(&app(), |view, _| {
            view.generation += 1;
            view.hashes.spec += 1;
        });
        self.advance(Span::secs(5));
        self.replace_pods("app-2");
        self.advance(Span::secs(5));
        self.put(&app(), |view, _| {
            view.observed_generation = Some(view.generation);
            view.hashes.settled += 1;
        });
    }

    /// Returns the number of workloads with stale configuration in the totals.
    fn counted(&self) -> u64 {
        let kinds = self.lab.snapshot().kinds;
        let of_deployments = kinds.iter().find(|kind| kind.kind == "Deployment");
        of_deployments.map_or(0, |kind| kind.stale_configuration)
    }
}
