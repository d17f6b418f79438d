//! The operators that loopwatch judges, on the disk. An operator that somebody deletes while loopwatch
//! restarts is still known, with what it owned, and so are those that were gone before.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::authorization::v1::ResourceRule;
use loopwatch_model::time::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{info, warn};

use super::places::Judged;
use crate::app::state;
use crate::lock::lock;
use crate::sources::api_server::Grants;
use crate::sources::census::FoundOperator;
use crate::sources::feed::{Clock as _, SystemClock};
use crate::system::files::open_regular_without_link;

/// The operators, and the file with them. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RememberedOperators {
    content: Arc<Mutex<Content>>,
    state_dir: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Content {
    /// The URL of the API server; empty if unknown.
    server: String,
    operators: Vec<Remembered>,
    /// When they were last written.
    written_at: Timestamp,
    /// Whether the file has, or will soon have, these operators.
    is_written: bool,
    /// Whether a write has not ended. On a disk that hangs, it never does.
    is_writing: bool,
    /// Whether the last write has failed.
    is_failing: bool,
}

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    at: Timestamp,
    /// The URL of the API server. Operators of another cluster are not missing in this one.
    #[serde(default)]
    server: String,
    operators: Vec<Remembered>,
}

/// An operator, and what its account may do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Remembered {
    pub(super) judged: Judged,
    /// By namespace; the rules for the whole cluster have none.
    pub(super) rules: BTreeMap<String, Vec<ResourceRule>>,
}

/// The file in the state directory, whose other folders have the names of namespaces.
const FOLDER: &str = "_all";
const FILE: &str = "operators.json";

/// How long they count. Who installs loopwatch again after months does not want to hear of operators that
/// somebody has uninstalled meanwhile.
const VALID_FOR: Span = Span::hours(7 * 24);

/// How far the clock of the process that wrote the file may have been ahead.
const AHEAD: Span = Span::hours(24);

/// How often the file is written although nothing has changed, so that it stays valid.
const WRITE_EVERY: Span = Span::hours(12);

/// Limit on the time to write it. A disk that hangs must not hold up the search for operators.
const WRITE_WITHIN: Duration = Duration::from_secs(5);

/// Limit on its size, in bytes: enough for the rules of 200 operators of usual size. In memory, they may take ten
/// times as much.
const MAX_BYTES: u64 = 4 << 20;

/// Limit on the file without the operators, in bytes.
const ENVELOPE: u64 = 4 << 10;

impl RememberedOperators {
    /// Reads the operators of an earlier process. Without a readable file, there are none.
    pub(crate) fn load(state_dir: Option<&Path>) -> Self {
        let read = state_dir.map(|dir| (dir, read(&dir.join(FOLDER).join(FILE))));
        let Document { server, operators, .. } = match read {
            Some((_, Ok(document))) => document,
            Some((dir, Err(error))) if error.kind() != ErrorKind::NotFound => {
                warn!(dir = %dir.display(), %error, "cannot read which operators an earlier run has judged");
                Document::default()
            }
            _ => Document::default(),
        };

        let content = Content { server, operators, ..Content::default() };
        Self { content: Arc::new(Mutex::new(content)), state_dir: state_dir.map(Path::to_owned) }
    }

    /// All operators of the cluster at this URL. Forgets those of another one.
    pub(super) fn of_cluster(&self, server: &str) -> Vec<Remembered> {
        let mut content = lock(&self.content);
        if !content.server.is_empty() && content.server != server {
            let (before, operators) = (&content.server, content.operators.len());
            info!(
                before,
                server, operators, "an earlier run has judged operators of another cluster"
            );
            content.operators.clear();
        }

        server.clone_into(&mut content.server);
        content.operators.clone()
    }

    /// The permissions that the account of an operator had.
    pub(super) fn grants(&self, operator: &FoundOperator) -> Option<Arc<Grants>> {
        let content = lock(&self.content);
        let known = content.operators.iter().find(|it| it.judged.operator == *operator)?;
        Some(Arc::new(Grants::restored(&operator.account, known.rules.clone())))
    }

    /// Replaces all operators, and writes the file if they have changed.
    pub(super) async fn set(&self, operators: Vec<Remembered>) {
        let now = SystemClock::new().wall();
        let Some((dir, document)) = self.change(operators, now) else { return };

        let content = Arc::clone(&self.content);
        let write = move || {
            let written = write(&dir, document);
            lock(&content).wrote(written.is_ok());
            written
        };
        let problem = match timeout(WRITE_WITHIN, spawn_blocking(write)).await {
            Ok(Ok(written)) => written.err(),
            Ok(Err(panic)) => Some(Error::other(panic)),
            Err(_) => Some(ErrorKind::TimedOut.into()),
        };

        let was_failing = std::mem::replace(&mut lock(&self.content).is_failing, problem.is_some());
        if let Some(error) = problem.filter(|_| !was_failing) {
            warn!(%error, "cannot write which operators loopwatch judges");
        }
    }

    /// Replaces all operators. Returns what to write and where, if anything.
    fn change(&self, operators: Vec<Remembered>, now: Timestamp) -> Option<(PathBuf, Document)> {
        let mut content = lock(&self.content);
        content.is_written &= content.operators == operators;
        content.operators = operators;

        let dir = self.state_dir.clone()?;
        let is_fresh = content.is_written && now.since(content.written_at) < WRITE_EVERY;
        if is_fresh || content.is_writing {
            return None;
        }

        (content.is_writing, content.is_written, content.written_at) = (true, true, now);
        let (server, operators) = (content.server.clone(), content.operators.clone());
        Some((dir, Document { at: now, server, operators }))
    }
}

impl Content {
    /// Notes the end of a write.
    fn wrote(&mut self, succeeded: bool) {
        self.is_writing = false;
        self.is_written &= succeeded;
    }
}

/// Reads the file; without operators if nobody has written it for long.
fn read(path: &Path) -> std::io::Result<Document> {
    let mut content = Vec::new();
    open_regular_without_link(path)?.take(MAX_BYTES).read_to_end(&mut content)?;
    let mut document: Document = serde_json::from_slice(&content)?;
    let now = SystemClock::new().wall();
    if now.since(document.at) > VALID_FOR || document.at.since(now) > AHEAD {
        document.operators.clear();
    }

    Ok(document)
}

/// Writes the file, without the operators whose permissions have no room. The others have: an operator with
/// thousands of rules does not take the room of all.
fn write(dir: &Path, mut document: Document) -> std::io::Result<()> {
    let left_out = fit(&mut document.operators)?;
    if left_out > 0 {
        warn!(
            left_out,
            "cannot note which operators loopwatch judges: their permissions are too large"
        );
    }

    let content = serde_json::to_vec(&document)?;
    state::replace(&state::folder(dir, FOLDER)?, FILE, |new| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
        file.write_all(&content)?;
        file.sync_all()
    })
}

/// Removes the operators with the largest permissions until the others have room. Returns how many.
fn fit(operators: &mut Vec<Remembered>) -> serde_json::Result<usize> {
    let measured = operators.drain(..).map(|it| Ok((serde_json::to_vec(&it)?.len() as u64, it)));
    let mut measured = measured.collect::<serde_json::Result<Vec<_>>>()?;
    measured.sort_by_key(|(bytes, _)| *bytes);

    let (all, mut total) = (measured.len(), ENVELOPE);
    let fits = measured.into_iter().take_while(|(bytes, _)| {
        total += bytes + 1; // a comma
        total <= MAX_BYTES
    });
    operators.extend(fits.map(|(_, operator)| operator));
    Ok(all - operators.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::api_server::{OperatorName, Owner, Reach};

    const SERVER: &str = "https://192.0.2.1:6443";

    fn remembered(name: &str) -> Remembered {
        let operator = FoundOperator {
            name: OperatorName { namespace: "ops".to_owned(), name: name.to_owned() },
            account: ("ops".to_owned(), name.to_owned()),
            watched_namespaces: Vec::new(),
        };
        let reach = Reach::In(["ops".to_owned()].into());
        let owner = Owner { operator: operator.name.to_string(), reach, is_certain: true };
        let owned = vec![(("example.io".to_owned(), "widgets".to_owned()), owner)];
        let rule = ResourceRule { verbs: vec!["update".to_owned()], ..ResourceRule::default() };
        let judged = Judged { operator, owned, is_gone: true };
        Remembered { judged, rules: [("ops".to_owned(), vec![rule])].into() }
    }

    #[tokio::test]
    async fn another_process_reads_them_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = RememberedOperators::load(Some(directory.path()));
        assert!(first.of_cluster(SERVER).is_empty());
        first.set(vec![remembered("a"), remembered("b")]).await;
        first.set(vec![remembered("b")]).await;

        let second = RememberedOperators::load(Some(directory.path()));
        assert_eq!(second.of_cluster(SERVER), [remembered("b")]);
    }

    #[tokio::test]
    async fn those_of_another_cluster_do_not_count() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = RememberedOperators::load(Some(directory.path()));
        first.of_cluster(SERVER);
        first.set(vec![remembered("a")]).await;

        let second = RememberedOperators::load(Some(directory.path()));
        assert_eq!(second.of_cluster("https://192.0.2.2:6443"), []);
    }

    #[tokio::test]
    async fn an_operator_with_too_many_rules_leaves_room_for_the_others() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut large = remembered("large");
        let rule = ResourceRule { verbs: vec!["x".repeat(1000)], ..ResourceRule::default() };
        large.rules.insert(String::new(), vec![rule; 5000]);

        let first = RememberedOperators::load(Some(directory.path()));
        first.set(vec![large, remembered("a"), remembered("b")]).await;

        let second = RememberedOperators::load(Some(directory.path()));
        assert_eq!(second.of_cluster(SERVER), [remembered("a"), remembered("b")]);
    }

    #[tokio::test]
    async fn files_from_long_ago_or_from_the_future_do_not_count() {
        let directory = tempfile::tempdir().expect("a directory");
        let ages = [Span::hours(24), Span::hours(8 * 24), Span::hours(-1), Span::hours(-48)];
        for (age, expected) in ages.into_iter().zip([1, 0, 1, 0]) {
            let at = SystemClock::new().wall().before(age);
            let document = Document { at, operators: vec![remembered("a")], ..Document::default() };
            write(directory.path(), document).expect("written");
            let read = RememberedOperators::load(Some(directory.path()));
            assert_eq!(read.of_cluster(SERVER).len(), expected, "{age:?}");
        }
    }

    #[tokio::test]
    async fn a_damaged_file_is_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(FOLDER).join(FILE);
        std::fs::create_dir_all(directory.path().join(FOLDER)).expect("a folder");
        std::fs::write(&path, "[{").expect("written");

        let operators = RememberedOperators::load(Some(directory.path()));
        assert!(operators.of_cluster(SERVER).is_empty());
        operators.set(vec![remembered("a")]).await;
        assert_eq!(RememberedOperators::load(Some(directory.path())).of_cluster(SERVER).len(), 1);
    }
}
