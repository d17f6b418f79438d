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
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::warn;

use super::places::Judged;
use crate::app::state;
use crate::lock::lock;
use crate::sources::api_server::Grants;
use crate::sources::census::FoundOperator;
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
    /// Whether the last attempt to write the file has failed.
    is_failing: bool,
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

/// Limit on the time to write it. A disk that hangs must not hold up the search for operators.
const WRITE_WITHIN: Duration = Duration::from_secs(5);

/// Limit on its size, in bytes: enough for the rules of 200 large operators.
const MAX_BYTES: u64 = 64 << 20;

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

        let content = Content { operators, is_failing: false };
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
        {
            let mut content = lock(&self.content);
            if content.operators == operators && !content.is_failing {
                return;
            }
            content.operators.clone_from(&operators);
        }
        let Some(dir) = self.state_dir.clone() else { return };

        let writing = timeout(WRITE_WITHIN, spawn_blocking(move || write(&dir, &operators)));
        let written = match writing.await {
            Ok(Ok(written)) => written,
            Ok(Err(panic)) => Err(Error::other(panic)),
            Err(_) => Err(ErrorKind::TimedOut.into()),
        };
        let failed = written.is_err();
        let was_failing = std::mem::replace(&mut lock(&self.content).is_failing, failed);
        if let (Err(error), false) = (written, was_failing) {
            warn!(%error, "cannot write which operators loopwatch judges");
        }
    }
}

fn read(path: &Path) -> std::io::Result<Vec<Remembered>> {
    let mut content = Vec::new();
    open_regular_without_link(path)?.take(MAX_BYTES).read_to_end(&mut content)?;
    Ok(serde_json::from_slice(&content)?)
}

fn write(dir: &Path, operators: &[Remembered]) -> std::io::Result<()> {
    let content = serde_json::to_vec(operators)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(Error::other("their permissions are larger than 64 MiB"));
    }

    state::replace(&dir.join(FOLDER), FILE, |new| {
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
