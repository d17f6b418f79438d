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
use tracing::warn;

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

/// How often the file is written although nothing has changed, so that it stays valid.
const WRITE_EVERY: Span = Span::hours(12);

/// Limit on the time to write it. A disk that hangs must not hold up the search for operators.
const WRITE_WITHIN: Duration = Duration::from_secs(5);

/// Limit on its size, in bytes: enough for the rules of 200 operators of usual size. In memory, they may take ten
/// times as much.
const MAX_BYTES: u64 = 4 << 20;

impl RememberedOperators {
    /// Reads the operators of an earlier process. Without a readable file, there are none.
    pub(crate) fn load(state_dir: Option<&Path>) -> Self {
        let read = state_dir.map(|dir| (dir, read(&dir.join(FOLDER).join(FILE))));
        let operators = match read {
            Some((_, Ok(operators))) => operators,
            Some((dir, Err(error))) if error.kind() != ErrorKind::NotFound => {
                warn!(dir = %dir.display(), %error, "cannot read which operators an earlier run has judged");
                Vec::new()
            }
            _ => Vec::new(),
        };

        let content = Content { operators, ..Content::default() };
        Self { content: Arc::new(Mutex::new(content)), state_dir: state_dir.map(Path::to_owned) }
    }

    /// All operators.
    pub(super) fn all(&self) -> Vec<Remembered> {
        lock(&self.content).operators.clone()
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
            let written = write(&dir, &document);
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
        Some((dir, Document { at: now, operators: content.operators.clone() }))
    }
}

impl Content {
    /// Notes the end of a write.
    fn wrote(&mut self, succeeded: bool) {
        self.is_writing = false;
        self.is_written &= succeeded;
    }
}

/// Reads the operators; none if nobody has written the file for long.
fn read(path: &Path) -> std::io::Result<Vec<Remembered>> {
    let mut content = Vec::new();
    open_regular_without_link(path)?.take(MAX_BYTES).read_to_end(&mut content)?;
    let Document { at, operators } = serde_json::from_slice(&content)?;
    match SystemClock::new().wall().since(at) <= VALID_FOR {
        true => Ok(operators),
        false => Ok(Vec::new()),
    }
}

fn write(dir: &Path, document: &Document) -> std::io::Result<()> {
    let content = serde_json::to_vec(document)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(Error::other("their permissions are larger than 4 MiB"));
    }

    state::replace(&state::folder(dir, FOLDER)?, FILE, |new| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
        file.write_all(&content)?;
        file.sync_all()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::api_server::{OperatorName, Owner, Reach};

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
        assert!(first.all().is_empty());
        first.set(vec![remembered("a"), remembered("b")]).await;
        first.set(vec![remembered("b")]).await;

        let second = RememberedOperators::load(Some(directory.path()));
        assert_eq!(second.all(), [remembered("b")]);
    }

    #[tokio::test]
    async fn old_files_do_not_count() {
        let directory = tempfile::tempdir().expect("a directory");
        for (age, expected) in [(Span::hours(24), 1), (Span::hours(8 * 24), 0)] {
            let at = SystemClock::new().wall().before(age);
            let document = Document { at, operators: vec![remembered("a")] };
            write(directory.path(), &document).expect("written");
            let read = RememberedOperators::load(Some(directory.path()));
            assert_eq!(read.all().len(), expected, "{age:?}");
        }
    }

    #[tokio::test]
    async fn a_damaged_file_is_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(FOLDER).join(FILE);
        std::fs::create_dir_all(directory.path().join(FOLDER)).expect("a folder");
        std::fs::write(&path, "[{").expect("written");

        let operators = RememberedOperators::load(Some(directory.path()));
        assert!(operators.all().is_empty());
        operators.set(vec![remembered("a")]).await;
        assert_eq!(RememberedOperators::load(Some(directory.path())).all().len(), 1);
    }
}
