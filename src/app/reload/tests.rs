//! Tests with real files.

use std::path::Path;
use std::sync::Mutex;

use clap::FromArgMatches as _;
use loopwatch_model::model::Model;
use loopwatch_model::time::Span;
use tokio::task::JoinHandle;

use super::*;
use crate::config::{Author, File, keys};
use crate::sources::decoding::HashKey;
use crate::sources::feed::{Observations, ServerClock};

const EVERY: Duration = Duration::from_millis(20);

/// A file that a task follows.
struct Followed {
    folder: tempfile::TempDir,
    observations: Observations,
    exporter: Arc<Exporter>,
    effective: watch::Receiver<Effective>,
    task: JoinHandle<Result<(), Closed>>,
}

fn parse(path: &Path) -> Result<Configuration, Vec<String>> {
    let (file, problems) =
        if path.exists() { File::read(path, Author::User) } else { (File::default(), Vec::new()) };
    if !problems.is_empty() {
        return Err(problems);
    }

    let command = crate::config::with_file(
        clap::Command::new("loopwatch").subcommand(keys().name("run")),
        &file,
    );
    let matches = command.try_get_matches_from(["loopwatch", "run"]).expect("valid");
    let flags = Flags::from_arg_matches(matches.subcommand().expect("run").1).expect("valid");

    Ok(Configuration { flags, settings: file.settings, problems: Vec::new() })
}

impl Followed {
    /// Follows `config.yaml` in a new folder, after `prepare` has filled the folder.
    fn new(prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        prepare(folder.path());

        let path = folder.path().join("config.yaml");
        let current = parse(&path).unwrap_or_else(|problems| {
            let flags = parse(Path::new("/does/not/exist")).expect("valid").flags;
            Configuration { flags, settings: Settings::default(), problems }
        });
        let model = Arc::new(Mutex::new(Model::new(current.settings.clone())));
        let metrics = Arc::new(crate::telemetry::SelfMetrics::new());
        let exporter = Arc::new(Exporter::new(model, metrics, export_options(&current)));

        let (feed, observations) = Feed::new(100, ServerClock::new());
        let Configuration { flags, settings, problems } = current.clone();
        let Flags { cluster, profiles, .. } = flags;
        let (sender, effective) = watch::channel(Effective {
            cluster,
            profiles,
            settings,
            problems,
            web_problems: Vec::new(),
        });
        let reloader = Reloader {
            current,
            feed,
            exporter: exporter.clone(),
            effective: sender,
            settings: watch::Sender::new(Settings::default()),
        };
        let read = {
            let path = path.clone();
            move || parse(&path)
        };

        let task = tokio::spawn(reloader.follow(Reload { path, read: Box::new(read) }, EVERY));
        Self { folder, observations, exporter, effective, task }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn next(&mut self) -> Observation {
        let mut taken = Vec::with_capacity(1);
        let received = self.observations.recv_many(&mut taken, 1);
        tokio::time::timeout(Duration::from_secs(10), received)
            .await
            .expect("an observation in time");

        taken.pop().expect("the task runs").1
    }

    /// Waits for the settings of a valid configuration and for the report that it is valid.
    async fn changed(&mut self) -> Settings {
        let Observation::SettingsChanged(settings) = self.next().await else {
            panic!("expected settings")
        };

        assert_eq!(self.next().await, Observation::SourceRecovered { source: SourceId::Config });

        *settings
    }

    async fn refused(&mut self) -> String {
        match self.next().await {
            Observation::SourceFailed { source: SourceId::Config, detail, .. } => detail,
            other => panic!("expected a failure, not {other:?}"),
        }
    }

    async fn nothing_happens(&mut self) {
        let mut taken = Vec::with_capacity(1);
        let received = self.observations.recv_many(&mut taken, 1);

        assert!(tokio::time::timeout(10 * EVERY, received).await.is_err(), "nothing has changed");
    }

    fn successful(&self) -> Option<bool> {
        self.exporter.metrics().config.successful()
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
}

#[tokio::test]
async fn a_change_takes_effect_and_an_invalid_one_keeps_the_old_configuration() {
    let mut followed =
        Followed::new(|folder| write(&folder.join("config.yaml"), "settings: {settle: 3s}\n"));
    followed.nothing_happens().await;

    let path = followed.path("config.yaml");
    write(&path, "settings: {settle: 4s}\nmax_object_series: 7\nexpose_ui: true\nwatch: a.io/A\n");

    let settings = followed.changed().await;
    assert_eq!((settings.settle, followed.successful()), (Span::secs(4), Some(true)));
    assert_eq!(followed.effective.borrow().settings, settings, "for a rebuild");

    let options = followed.exporter.options();
    assert_eq!((options.max_object_series, options.expose_ui), (7, true));
    assert!(followed.effective.has_changed().expect("the task runs"));
    assert_eq!(followed.effective.borrow_and_update().cluster.watch.len(), 1);

    // The sources start again to keep other annotations.
    write(
        &path,
        "settings: {settle: 4s, soft_delete_enable: a.io/trash}\nmax_object_series: 7\nexpose_ui: true\nwatch: a.io/A\n",
    );

    assert_eq!(followed.changed().await.annotations()[0], "a.io/trash");
    assert!(followed.effective.has_changed().expect("the task runs"));

    let options = followed.effective.borrow_and_update().clone();
    let options = options.cluster.source_options(HashKey([0; 16]), &options.settings);

    assert_eq!(options.annotations[0], "a.io/trash");

    let loaded = followed.exporter.metrics().config.last_success();
    write(&path, "settings: {settle: 5s, regressed_after: soon}\nmax_object_series: 8\n");

    assert!(followed.refused().await.contains("\"soon\" is not a duration"));
    assert_eq!(followed.successful(), Some(false));
    assert_eq!(followed.exporter.metrics().config.last_success(), loaded);
    assert_eq!(
        followed.exporter.options().max_object_series,
        7,
        "also the valid part of the file does not apply"
    );

    followed.nothing_happens().await;

    write(&path, "settings: {settle: 5s}\n");
    assert_eq!(
        (followed.changed().await.settle, followed.successful()),
        (Span::secs(5), Some(true))
    );

    write(&path, "# the same\nsettings: {settle: 5s}\n");
    assert_eq!(
        followed.next().await,
        Observation::SourceRecovered { source: SourceId::Config },
        "no other settings"
    );

    std::fs::remove_file(&path).expect("removed");
    assert_eq!(
        followed.changed().await.settle,
        Settings::default().settle,
        "no file is valid, too"
    );

    followed.task.abort();
}

/// Mounts a version of a ConfigMap as the kubelet does: in a new folder, to which it switches the
/// link `..data`.
fn mount(folder: &Path, version: &str, text: &str) {
    use std::os::unix::fs::symlink;

    let data = folder.join(format!("..{version}"));
    std::fs::create_dir(&data).expect("a folder");
    write(&data.join("config.yaml"), text);
    symlink(format!("..{version}"), folder.join("..data_tmp")).expect("a link");
    std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).expect("renamed");

    if !folder.join("config.yaml").is_symlink() {
        symlink("..data/config.yaml", folder.join("config.yaml")).expect("a link");
    }
}

#[tokio::test]
async fn a_swapped_link_of_a_config_map_is_a_change() {
    let mut followed = Followed::new(|folder| mount(folder, "1", "settings: {settle: 3s}\n"));
    for (version, text, expected) in [
        ("2", "settings: {settle: 4s}\n", Span::secs(4)),
        ("3", "settings: {settle: 5s}\n", Span::secs(5)),
    ] {
        mount(followed.folder.path(), version, text);
        assert_eq!(followed.changed().await.settle, expected);
    }

    mount(followed.folder.path(), "4", "settings: {settle: soon}\n");
    assert!(followed.refused().await.contains("soon"));

    followed.task.abort();
}

#[tokio::test]
async fn a_file_that_is_invalid_from_the_start_is_reported_once_and_can_be_corrected() {
    let mut followed =
        Followed::new(|folder| write(&folder.join("config.yaml"), "settings: {settle: soon}\n"));
    followed.nothing_happens().await; // the start has reported it
    write(&followed.path("config.yaml"), "settings: {settle: 4s}\n");

    assert_eq!(followed.changed().await.settle, Span::secs(4));

    followed.task.abort();
}

#[tokio::test]
async fn a_file_that_appears_later_takes_effect() {
    let mut followed = Followed::new(|_| {});
    followed.nothing_happens().await;
    mount(followed.folder.path(), "1", "findings: {Overdue: {enabled: false}}\n");

    assert_eq!(followed.changed().await.findings["Overdue"][0].enabled, Some(false));

    followed.task.abort();
}

#[tokio::test]
async fn a_file_that_is_being_written_is_not_read() {
    use std::io::Write as _;

    let mut followed =
        Followed::new(|folder| write(&folder.join("config.yaml"), "settings: {settle: 3s}\n"));
    let mut file = std::fs::File::create(followed.path("config.yaml")).expect("truncated");
    for line in ["settings:\n", "  settle: 4s\n", "  learn_after: 7\n"] {
        file.write_all(line.as_bytes()).expect("written");
        tokio::time::sleep(EVERY / 4).await;
    }

    drop(file);
    let settings = followed.changed().await;

    assert_eq!((settings.settle, settings.learn_after), (Span::secs(4), 7));

    followed.task.abort();
}
