//! Tests with real files.

use std::sync::Mutex;

use loopwatch_model::model::Model;
use loopwatch_model::observation::{Observation, SourceId};
use loopwatch_model::settings::Settings;
use loopwatch_testbed::tls;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::export::metrics::TextFormat;
use crate::export::server::ExportOptions;
use crate::sources::feed::{Observations, ServerClock};
use crate::telemetry::SelfMetrics;

const EVERY: Duration = Duration::from_millis(20);

/// A file that a task follows.
struct Followed {
    folder: TempDir,
    observations: Observations,
    exporter: Arc<Exporter>,
    task: JoinHandle<Result<(), Closed>>,
}

impl Followed {
    /// Follows `web.yml` in a new folder, with this content.
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [("tls.crt", tls::CERTIFICATE), ("tls.key", tls::KEY)] {
            std::fs::write(folder.path().join(name), tls::pem(text)).expect("written");
        }
        let path = folder.path().join("web.yml");
        std::fs::write(&path, text).expect("written");

        let model = Arc::new(Mutex::new(Model::new(Settings::default())));
        let metrics = Arc::new(SelfMetrics::new());
        let exporter = Arc::new(Exporter::new(model, metrics, ExportOptions::default()));
        let flags = WebFlags { web_config_file: Some(path), ..WebFlags::default() };
        exporter.access().expect_web();

        let (feed, observations) = Feed::new(100, ServerClock::new());
        let (effective, _) = watch::channel(Effective::empty());
        let follower = Follower::new(flags.web_config_file, &feed, &exporter, effective);
        let task = tokio::spawn(follower.follow(EVERY));
        Self { folder, observations, exporter, task }
    }

    fn write(&self, name: &str, text: &str) {
        // Like the kubelet: a new file takes the place of the old one.
        let (new, path) = (self.folder.path().join("new"), self.folder.path().join(name));
        std::fs::write(&new, text).expect("written");
        std::fs::rename(new, path).expect("renamed");
    }

    /// The next report about the configuration: the problem, or nothing.
    async fn report(&mut self) -> String {
        let next = timeout(Duration::from_secs(20), async {
            loop {
                let mut taken = Vec::with_capacity(1);
                self.observations.recv_many(&mut taken, 1).await;
                match taken.pop().expect("the task runs").1 {
                    Observation::SourceFailed { source: SourceId::Config, detail, .. } => {
                        return detail;
                    }
                    Observation::SourceRecovered { source: SourceId::Config, .. } => {
                        return String::new();
                    }
                    _ => {}
                }
            }
        });
        next.await.expect("a report")
    }

    /// The value of the metric about the certificate of the port, if there is one.
    fn expiry(&self) -> Option<String> {
        let text = self.exporter.render(TextFormat::Text004).into_text();
        let name = "loopwatch_certificate_expiry_timestamp_seconds ";
        text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned))
    }

    async fn serves_tls(&self) {
        timeout(Duration::from_secs(20), async {
            while !self.exporter.access().encrypts() {
                sleep(EVERY).await;
            }
        })
        .await
        .expect("TLS");
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const TLS: &str = "tls_server_config: {cert_file: tls.crt, key_file: tls.key}";

#[tokio::test]
async fn a_broken_file_keeps_the_old_one_and_is_a_problem_until_it_is_repaired() {
    let mut followed = Followed::new(TLS);
    followed.serves_tls().await;
    let expiry = followed.expiry();
    assert!(expiry.as_ref().is_some_and(|time| time.starts_with("4733510400")), "{expiry:?}");

    followed.write("tls.crt", "broken");
    let problem = followed.report().await;
    assert_eq!(followed.expiry(), expiry, "of the certificate in use");
    assert!(problem.contains("tls.crt contains no valid certificate"), "{problem}");
    assert!(problem.contains("keeps what it had"), "{problem}");
    assert!(followed.exporter.access().encrypts());

    followed.write("tls.crt", &tls::pem(tls::OTHER_CERTIFICATE));
    let problem = followed.report().await;
    assert!(problem.contains("cert_file and key_file"), "another key: {problem}");

    followed.write("tls.key", &tls::pem(tls::OTHER_KEY));
    assert_eq!(followed.report().await, "");

    followed.write("web.yml", "# half of it");
    let problem = followed.report().await;
    assert!(problem.contains("it is empty"), "{problem}");

    followed.write("web.yml", "{}");
    let problem = followed.report().await;
    assert!(problem.contains("no longer asks for TLS"), "{problem}");
    assert!(followed.exporter.access().encrypts());
}

#[tokio::test]
async fn a_file_that_is_broken_at_the_start_closes_the_port() {
    let mut followed = Followed::new("tls_server_config: {cert: x}");
    let problem = followed.report().await;

    assert!(
        problem.contains("web.yml") && problem.contains("serves only health checks"),
        "{problem}"
    );
    assert!(!followed.exporter.access().encrypts());
    assert_eq!(followed.expiry(), None);

    followed.write("web.yml", TLS);
    assert_eq!(followed.report().await, "");
    assert!(followed.expiry().is_some());
}

#[tokio::test]
async fn credentials_without_encryption_are_noticed_whenever_they_become_required() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("web.yml");
    let hash = "$2y$04$L6Bc/AlTQHyd9liGgGEZyOFLPHNgyxeEPfgYfBCVxJ7JIlwxyVU3u";
    let (access, mut exposed) = (Access::default(), false);

    access.expect_web();
    assert!(!exposes_credentials_anew(&mut exposed, &access), "the file is broken at the start");

    for (users, expected) in [("{}", false), (hash, true), (hash, false)] {
        let text =
            if users == hash { format!("basic_auth_users: {{a: {hash}}}") } else { users.into() };
        std::fs::write(&path, text).expect("written");
        access.set_web(Arc::new(WebFile::read(&path).web.expect("valid")));
        assert_eq!(exposes_credentials_anew(&mut exposed, &access), expected, "{users}");
    }
}

/// The kubelet and cert-manager replace the certificate and the key together, by swapping a link.
#[tokio::test]
async fn a_swapped_link_is_a_change() {
    let mut followed =
        Followed::new("tls_server_config: {cert_file: data/tls.crt, key_file: data/tls.key}");
    followed.report().await;

    let folder = followed.folder.path().to_owned();
    let mount = |version: &str, files: [(&str, &str); 2]| {
        std::fs::create_dir(folder.join(version)).expect("our own folder");
        for (name, text) in files {
            std::fs::write(folder.join(version).join(name), tls::pem(text)).expect("written");
        }
        std::os::unix::fs::symlink(version, folder.join("data.new")).expect("linked");
        std::fs::rename(folder.join("data.new"), folder.join("data")).expect("swapped");
    };

    mount("1", [("tls.crt", tls::CERTIFICATE), ("tls.key", tls::KEY)]);
    mount("2", [("tls.crt", tls::OTHER_CERTIFICATE), ("tls.key", tls::OTHER_KEY)]);
    assert_eq!(followed.report().await, "");
    assert!(followed.exporter.access().encrypts());

    // A link to nothing.
    std::fs::remove_dir_all(followed.folder.path().join("2")).expect("removed");
    assert!(followed.report().await.contains("keeps what it had"));
}
