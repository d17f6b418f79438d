//! One of many operators: its model, its exporter and its sources.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use loopwatch_model::checkpoint::Checkpoint;
use loopwatch_model::model::Model;
use loopwatch_model::observation::{Observation, Role};
use loopwatch_model::settings::Settings;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use super::{Follower, STOP_WITHIN};
use crate::app::rebuild::{self, Connection, Core};
use crate::app::reload::Effective;
use crate::app::senders::Senders;
use crate::app::{SharedModel, state};
use crate::config::Flags;
use crate::export::server::Exporter;
use crate::lock::lock;
use crate::sources::api_server::{Cluster, Grants};
use crate::sources::census::FoundOperator;
use crate::sources::feed::{Clock as _, Feed, SystemClock};
use crate::sources::operator::ScrapeTurns;
use crate::sources::supervisor::SourceOptions;

/// A running model.
pub(super) struct Member {
    operator: FoundOperator,
    model: SharedModel,
    exporter: Arc<Exporter>,
    feed: Feed,
    grants: watch::Sender<Arc<Grants>>,
    turns: ScrapeTurns,
    /// Its sources start again only with all others.
    effective: watch::Sender<Effective>,
    state_dir: Option<PathBuf>,
    stop: CancellationToken,
    /// Whether its findings and alerts end with it.
    is_dismissed: Arc<AtomicBool>,
    ended: CancellationToken,
    /// Stops the task if this is dropped.
    _guard: DropGuard,
}

/// Why a model stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Another one takes its place, and begins with what it knows.
    Replaced,
    /// loopwatch does not judge the operator for now.
    NotJudged,
    /// The operator is gone.
    Gone,
}

impl Member {
    /// Starts the model of an operator. Returns it, and its task.
    pub(super) fn start(
        follower: &Follower,
        operator: &FoundOperator,
        (cluster, mut options): (Cluster, SourceOptions),
        grants: watch::Sender<Arc<Grants>>,
        settings: Settings,
        stop: &CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let name = operator.name.to_string();
        let mut flags = (*follower.flags).clone();
        flags.state_dir = flags.state_dir.and_then(|dir| own_folder(&dir, &name));

        let model = Arc::new(Mutex::new(restored(follower, operator, &settings, &flags)));
        let exporter = Arc::new(follower.exporter.for_operator(model.clone(), &name));
        let senders = Senders::start_for(&name, &flags, &model, &exporter);

        let (sender, effective) = watch::channel(Effective::of_operator(&flags, settings.clone()));
        options.discovery.known_permissions = Arc::new(lock(&model).remembered_permissions());
        let turns = options.scrape.turns.clone();
        let clock = cluster.clock().for_another_model();
        let connection = Connection::existing(cluster, options);
        let core = Core::new(
            model.clone(),
            exporter.clone(),
            Box::new(connection),
            effective,
            flags.state_dir.clone(),
            clock,
        )
        .with_outlets(senders.outlets());

        let (stop, ended) = (stop.child_token(), CancellationToken::new());
        let is_dismissed = Arc::new(AtomicBool::new(false));
        let member = Self {
            operator: operator.clone(),
            model: model.clone(),
            exporter,
            feed: core.feed().clone(),
            grants,
            turns,
            effective: sender,
            state_dir: flags.state_dir.clone(),
            stop: stop.clone(),
            is_dismissed: Arc::clone(&is_dismissed),
            ended: ended.clone(),
            _guard: stop.clone().drop_guard(),
        };

        let task = async move {
            let _ended = ended.drop_guard();
            let saving = flags
                .state_dir
                .clone()
                .map(|dir| tokio::spawn(state::save_regularly(dir, model.clone(), stop.clone())));
            rebuild::keep_running(core, stop).await;
            if let (Some(dir), Some(saving)) = (&flags.state_dir, saving) {
                state::save_last(dir, &model, saving).await;
            }
            match is_dismissed.load(Ordering::Relaxed) {
                true => senders.dismiss(&model).await,
                false => senders.close().await,
            }
        };
        (member, task)
    }

    /// Whether this is the model of an operator with the same account and namespaces.
    pub(super) fn is_of(&self, operator: &FoundOperator) -> bool {
        self.operator == *operator
    }

    /// From now on, its scrapes wait for their turns with these.
    pub(super) fn change_turns(&self, group: &ScrapeTurns) {
        self.turns.join(group);
    }

    pub(super) fn exporter(&self) -> Arc<Exporter> {
        Arc::clone(&self.exporter)
    }

    /// Whether its task has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Stops the task, which still saves and sends what it has to. Returns what the model knows, unless the
    /// operator is gone: then the state on the disk goes, too.
    pub(super) async fn stop(self, ending: Ending) -> Option<Checkpoint> {
        let Self { operator, model, feed, state_dir, stop, is_dismissed, ended, _guard, .. } = self;
        is_dismissed.store(ending != Ending::Replaced, Ordering::Relaxed);
        drop(feed); // while it exists, the task waits for more
        stop.cancel();
        if timeout(STOP_WITHIN, ended.cancelled()).await.is_err() {
            warn!(operator = %operator.name, "the model of this operator has not stopped in time");
        }

        if ending != Ending::Gone {
            return checkpoint(&model);
        }
        if let Some(dir) = state_dir {
            state::remove(dir).await;
        }
        None
    }

    /// Whether objects of its kinds exist.
    pub(super) fn has_objects(&self) -> bool {
        let snapshot = catch_unwind(AssertUnwindSafe(|| lock(&self.model).snapshot()));
        snapshot.is_ok_and(|snapshot| {
            let primary = snapshot.kinds.iter().filter(|kind| kind.role == Role::Primary);
            primary.flat_map(|kind| kind.states()).any(|count| count > 0)
        })
    }

    /// Tells the sources the permissions of all accounts.
    pub(super) fn change_grants(&self, grants: &Arc<Grants>) {
        self.grants.send_if_modified(|known| {
            let is_changed = !Arc::ptr_eq(known, grants);
            *known = Arc::clone(grants);
            is_changed
        });
    }

    /// Tells the model other thresholds.
    pub(super) async fn change_settings(&self, settings: &Settings) {
        if self.effective.borrow().settings != *settings {
            // A model that panics and is rebuilt begins with these.
            self.effective.send_if_modified(|effective| {
                effective.settings.clone_from(settings);
                false
            });
            let changed = Observation::SettingsChanged(Box::new(settings.clone()));
            let _ = self.feed.send(changed).await; // a model that has stopped needs none
        }
    }

    /// The permissions that its sources know.
    pub(super) fn grants(&self) -> Arc<Grants> {
        Arc::clone(&self.grants.borrow())
    }

    /// What the model knows; `None` if it panics.
    pub(super) fn checkpoint(&self) -> Option<Checkpoint> {
        checkpoint(&self.model)
    }
}

fn checkpoint(model: &SharedModel) -> Option<Checkpoint> {
    catch_unwind(AssertUnwindSafe(|| lock(model).checkpoint())).ok()
}

/// The folder of an operator in the state directory. Without one, it keeps no state.
fn own_folder(root: &Path, operator: &str) -> Option<PathBuf> {
    let made = state::folder(root, operator);
    made.inspect_err(|error| warn!(operator, %error, "cannot keep the state of this operator")).ok()
}

/// A model with what an earlier one of this operator knew.
fn restored(
    follower: &Follower,
    operator: &FoundOperator,
    settings: &Settings,
    flags: &Flags,
) -> Model {
    let mut model = Model::new(settings.clone());
    let checkpoint = lock(&follower.checkpoints).remove(&operator.name);
    match (checkpoint, &flags.state_dir) {
        (Some(checkpoint), _) => {
            let restored = Observation::Restored(Box::new(checkpoint));
            model.apply(SystemClock::new().wall(), restored);
        }
        (None, Some(dir)) => state::restore(dir, &mut model),
        (None, None) => {}
    }

    model
}
