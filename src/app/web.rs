//! Keeps access to the port up to date: reads the web configuration file and its certificates again
//! when they change, and reports the problems with them.
//!
//! loopwatch polls the files for the same reasons as the configuration file. A broken file does not
//! replace a valid one, and neither does a file that protects less: it may be half written.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::reload::{self, Effective, POLL_EVERY};
use crate::config::{ClusterFlags, WebAuth, WebFlags};
use crate::export::server::{Access, Exporter, Web, WebFile};
use crate::sources::api_server::TokenReviews;
use crate::sources::feed::{Closed, Feed};
use crate::system::stamp::{Stamp, Versions};

/// Follows the web configuration file, and reports what is wrong with access to the port.
pub(super) struct Follower {
    /// The file, if the user names one.
    file: Option<PathBuf>,
    feed: Feed,
    exporter: Arc<Exporter>,
    effective: watch::Sender<Effective>,
    /// The configuration in effect.
    current: Option<Arc<Web>>,
    /// The problem with the last version of the file.
    problem: Option<String>,
}

/// Sets up access to the port before it opens. The port serves only health checks until the file is
/// read, or for good if an invalid part of the configuration may be about access.
pub(super) fn prepare(flags: &WebFlags, cluster: &ClusterFlags, exporter: &Exporter) {
    if flags.web_config_file.is_some() || flags.is_unclear {
        exporter.access().expect_web();
    }

    if flags.web_auth == WebAuth::Kubernetes {
        exporter.access().require_tokens(Arc::new(TokenReviews::new(cluster.access())));
    }
}

impl Follower {
    pub(super) fn new(
        file: Option<PathBuf>,
        feed: &Feed,
        exporter: &Arc<Exporter>,
        effective: watch::Sender<Effective>,
    ) -> Self {
        let (feed, exporter) = (feed.clone(), Arc::clone(exporter));
        Self { file, feed, exporter, effective, current: None, problem: None }
    }

    /// Follows the file until a stop signal arrives.
    pub(super) async fn run(self, stop: CancellationToken) {
        let _ = stop.run_until_cancelled(self.follow(POLL_EVERY)).await;
    }

    /// Reads the file, and then polls it at this interval.
    async fn follow(mut self, every: Duration) -> Result<(), Closed> {
        let mut files = self.file.clone().into_iter().collect();
        let mut versions = Versions::new(Some(self.read(&mut files).await));

        self.exporter.access().try_reviewer().await;
        let mut exposed = false;

        loop {
            if exposes_credentials_anew(&mut exposed, self.exporter.access()) {
                warn!(
                    "the port requires passwords or tokens, but does not encrypt them; set tls_server_config in the file of \
                     --web-config-file, unless something else encrypts all connections"
                );
            }

            self.report().await?;
            sleep(every).await;
            if versions.is_new(&stamps(&files).await) {
                versions.take(self.read(&mut files).await);
            }
        }
    }

    /// Reads the file, and puts it into effect if it is valid. Sets `files` to the files to follow,
    /// and returns their stamps from before the reading.
    async fn read(&mut self, files: &mut Vec<PathBuf>) -> Vec<Option<Stamp>> {
        let Some(file) = self.file.clone() else { return Vec::new() };

        let mut before = stamps(files).await;
        let mut web = read(&file).await;
        if web.files != *files {
            // The file names others, which could change before their stamps are known.
            files.clone_from(&web.files);
            before = stamps(files).await;
            web = read(&file).await;
        }

        if web.files != *files {
            files.clone_from(&web.files);
            before.clear(); // it has just changed again, so it is read again
        }

        self.problem = match web.web {
            Ok(web) => self.apply(web, &file),
            Err(problem) if self.current.is_some() => {
                Some(format!("{problem}; the port keeps what it had"))
            }
            Err(problem) => Some(format!("{problem}; the port serves only health checks")),
        };
        before
    }

    /// Puts a valid file into effect, unless it protects less than the one before.
    fn apply(&mut self, web: Web, file: &Path) -> Option<String> {
        let lost = self.current.as_ref().map(|current| current.lost_in(&web)).unwrap_or_default();
        if !lost.is_empty() {
            return Some(format!(
                "{}: the changed file no longer asks for {}; the port still does, until the container restarts",
                file.display(),
                lost.join(" and ")
            ));
        }

        info!(file = %file.display(), "read the web configuration file");
        let web = Arc::new(web);
        self.exporter.access().set_web(Arc::clone(&web));
        self.current = Some(web);
        None
    }

    /// Reports the problems with access to the port, if they have changed.
    async fn report(&self) -> Result<(), Closed> {
        let problems: Vec<String> =
            self.problem.clone().into_iter().chain(self.exporter.access().problem()).collect();
        if self.effective.borrow().web_problems == problems {
            return Ok(());
        }

        self.effective.send_if_modified(|effective| {
            effective.web_problems = problems;
            false
        });
        let problems = self.effective.borrow().all_problems();
        reload::report(problems, &self.feed, &self.exporter).await
    }
}

/// Whether the port exposes credentials and did not before. The file may be valid only later, or get
/// its first user later.
fn exposes_credentials_anew(exposed: &mut bool, access: &Access) -> bool {
    let before = std::mem::replace(exposed, access.exposes_credentials());
    *exposed && !before
}

/// Reads the file on another thread, because a disk may be slow.
async fn read(file: &Path) -> WebFile {
    let path = file.to_owned();
    spawn_blocking(move || WebFile::read(&path)).await.unwrap_or_else(|error| WebFile {
        files: vec![file.to_owned()],
        web: Err(format!("{}: {error}", file.display())),
    })
}

/// The stamps of all files.
async fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    let mut stamps = Vec::with_capacity(files.len());
    for file in files {
        stamps.push(Stamp::of(file).await);
    }

    stamps
}

#[cfg(test)]
mod tests;
