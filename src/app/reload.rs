//! Reads the configuration file again when it changes, so that a new threshold does not require a
//! restart of the operator's Pod. The same goes for the memory limit of the container, which an
//! in-place resize of the Pod changes.
//!
//! loopwatch polls the file, which costs one `stat` every three seconds. The kubelet itself takes
//! up to a minute to update a ConfigMap. Notifications from the kernel (inotify) would be faster,
//! but they follow files and not paths: each swap of the ConfigMap's symbolic link would need new
//! ones for the folders on the path, and network file systems send none.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loopwatch_model::observation::{Observation, SourceId};
use loopwatch_model::settings::Settings;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::memory;
use crate::config::{ClusterFlags, Flags, ProfileFlags};
use crate::export::server::{ExportOptions, Exporter};
use crate::sources::feed::{Clock, Closed, Feed, SystemClock};
use crate::sources::operator::{ProfileStore, own_memory_limit};
use crate::system::stamp::{Stamp, Versions};

/// Time between two polls of a file.
pub(super) const POLL_EVERY: Duration = Duration::from_secs(3);

/// The configuration of `run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// The flags, with the values from variables and the file.
    pub(crate) flags: Flags,
    /// The thresholds, with the deadlines and limits from the flags.
    pub(crate) settings: Settings,
    /// The invalid parts, which loopwatch left out.
    pub(crate) problems: Vec<String>,
}

/// How to read the configuration again.
pub(crate) struct Reload {
    /// The file, which may not exist.
    pub(crate) path: PathBuf,
    /// Reads the configuration, or returns the problems of the file.
    pub(crate) read: Box<dyn Fn() -> Result<Configuration, Vec<String>> + Send + Sync>,
}

/// The parts of loopwatch that a new configuration changes.
pub(super) struct Reloader {
    /// The configuration in effect.
    pub(super) current: Configuration,
    pub(super) feed: Feed,
    pub(super) exporter: Arc<Exporter>,
    /// The sources restart when their flags, or the annotations that they keep, change.
    pub(super) effective: watch::Sender<Effective>,
    /// The thresholds, for the models of many operators.
    pub(super) settings: watch::Sender<Settings>,
}

/// The part of the configuration in effect that a rebuild needs.
#[derive(Clone, Debug)]
pub(super) struct Effective {
    /// The flags of the sources.
    pub(super) cluster: ClusterFlags,
    pub(super) profiles: ProfileFlags,
    /// The thresholds. The model already has them, unless it panicked before it adopted them.
    pub(super) settings: Settings,
    /// The invalid parts of the configuration, or of a changed file that is not in effect.
    pub(super) problems: Vec<String>,
    /// What is wrong with access to the port.
    pub(super) web_problems: Vec<String>,
}

impl Configuration {
    /// Limits the number of objects so that they fit the container's memory limit.
    pub(super) fn limited(self) -> Self {
        Self { settings: memory::limited(self.settings), ..self }
    }
}

impl Effective {
    /// A configuration without any flag.
    #[cfg(test)]
    pub(super) fn empty() -> Self {
        use clap::FromArgMatches as _;

        let matches = crate::config::keys().get_matches_from(Vec::<String>::new());
        let Ok(Flags { cluster, profiles, .. }) = Flags::from_arg_matches(&matches) else {
            unreachable!("no flag is required")
        };
        let (settings, problems, web_problems) = (Settings::default(), Vec::new(), Vec::new());
        Self { cluster, profiles, settings, problems, web_problems }
    }

    /// The part for one of many operators. loopwatch itself reports the problems.
    pub(super) fn of_operator(flags: &Flags, settings: Settings) -> Self {
        let Flags { cluster, profiles, .. } = flags.clone();
        Self { cluster, profiles, settings, problems: Vec::new(), web_problems: Vec::new() }
    }

    /// All problems of the configuration; empty if there are none.
    pub(super) fn all_problems(&self) -> String {
        [&self.problems[..], &self.web_problems[..]].concat().join("; ")
    }
}

impl Reloader {
    /// Follows the file until a stop signal arrives.
    pub(super) async fn run(self, reload: Reload, stop: CancellationToken) {
        let _ = stop.run_until_cancelled(self.follow(reload, POLL_EVERY)).await;
    }

    /// Follows the file, and polls it at this interval.
    async fn follow(mut self, reload: Reload, every: Duration) -> Result<(), Closed> {
        let reload = Arc::new(reload);
        let mut versions = Versions::new(None);
        loop {
            tokio::time::sleep(every).await;
            let now = (Stamp::of(&reload.path).await, own_memory_limit());
            if !versions.is_new(&now) {
                continue;
            }

            // The file may have changed after the start, which read it, but before the first stamp.
            let first = versions.take(now);
            let reload = Arc::clone(&reload);

            // Parsing may take some milliseconds, and reading may wait for a network file system.
            match tokio::task::spawn_blocking(move || (reload.read)().map(Configuration::limited))
                .await
            {
                Ok(Ok(new)) if !(first && new == self.current) => self.apply(new).await?,
                Ok(Err(problems)) if !(first && problems == self.current.problems) => {
                    self.refuse(&problems.join("; ")).await?
                }
                Ok(_) => {}
                Err(error) => {
                    self.refuse(&format!("cannot read the configuration: {error}")).await?
                }
            }
        }
    }

    /// Reports the problem and keeps the old configuration.
    async fn refuse(&self, problem: &str) -> Result<(), Closed> {
        warn!(problem, "the changed configuration file is invalid; keeping the old configuration");
        self.exporter.metrics().config.note(SystemClock::new().wall(), false);
        self.effective.send_if_modified(|effective| {
            effective.problems = vec![problem.to_owned()];
            false
        });

        let problems = self.effective.borrow().all_problems();
        self.feed.invalid(SourceId::Config, problems).await
    }

    /// Puts a new configuration into effect.
    async fn apply(&mut self, new: Configuration) -> Result<(), Closed> {
        info!("read the changed configuration");
        for flag in needs_restart(&self.current.flags, &new.flags) {
            warn!(
                flag,
                "this change of the configuration file takes effect when the container restarts"
            );
        }

        self.exporter.set_options(export_options(&new));
        self.exporter.set_profiles(ProfileStore::new(new.flags.profiles.profile_dir.as_deref()));

        // Goes first, because a model that panics and is rebuilt loses the content of the channel.
        self.effective.send_if_modified(|effective| {
            let annotations = effective.settings.annotations();
            let changed = effective.cluster != new.flags.cluster
                || effective.profiles != new.flags.profiles
                || annotations != new.settings.annotations();

            effective.problems.clone_from(&new.problems);
            effective.settings.clone_from(&new.settings);
            effective.cluster.clone_from(&new.flags.cluster);
            effective.profiles.clone_from(&new.flags.profiles);

            changed
        });

        if new.settings != self.current.settings {
            self.settings.send_replace(new.settings.clone());
            self.feed.send(Observation::SettingsChanged(Box::new(new.settings.clone()))).await?;
        }

        let problems = self.effective.borrow().all_problems();
        report(problems, &self.feed, &self.exporter).await?;
        self.current = new;
        Ok(())
    }
}

/// Reports whether the configuration in effect is valid.
pub(super) async fn report(
    problems: String,
    feed: &Feed,
    exporter: &Exporter,
) -> Result<(), Closed> {
    exporter.metrics().config.note(SystemClock::new().wall(), problems.is_empty());
    if problems.is_empty() {
        return feed.recovered(SourceId::Config).await;
    }

    warn!(problems, "parts of the configuration are invalid");
    feed.invalid(SourceId::Config, problems).await
}

/// The options of the exporter.
#[must_use]
pub(super) fn export_options(configuration: &Configuration) -> ExportOptions {
    let Configuration { flags, settings, .. } = configuration;
    ExportOptions {
        object_series: flags.serve.object_series,
        max_object_series: settings.limits.object_series,
        expose_ui: flags.serve.expose_ui,
    }
}

/// The changed flags that need a restart.
fn needs_restart(old: &Flags, new: &Flags) -> impl Iterator<Item = &'static str> {
    let changed = [
        ("listen", old.serve.listen != new.serve.listen),
        ("ui_port", old.web.ui_port != new.web.ui_port),
        ("web_config_file", old.web.web_config_file != new.web.web_config_file),
        ("web_auth", old.web.web_auth != new.web.web_auth),
        (
            "export_protected_metrics",
            old.serve.export_protected_metrics != new.serve.export_protected_metrics,
        ),
        ("external_url", old.serve.external_url != new.serve.external_url),
        ("grafana_url", old.serve.grafana_url != new.serve.grafana_url),
        ("runbook_url", old.serve.runbook_url != new.serve.runbook_url),
        ("state_dir", old.state_dir != new.state_dir),
        ("notify", old.notify != new.notify),
        ("alertmanager", old.alerting != new.alerting),
        ("otlp", old.traces != new.traces),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(flag, _)| flag)
}

#[cfg(test)]
mod tests;
