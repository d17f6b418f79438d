//! The one cluster that all tests share.

use std::fmt;
use std::path::Path;
use std::sync::{OnceLock, PoisonError, RwLock};

use libtest_mimic::{Completion, Failed, Trial};

use loopwatch_testbed::binaries::{self, Missing};
use loopwatch_testbed::controlplane::ControlPlane;
use loopwatch_testbed::{operator, sidecar};

static BED: OnceLock<ControlPlane> = OnceLock::new();

/// A lock that every test holds as a reader, and a test that disturbs the cluster as the writer.
static UNDISTURBED: RwLock<()> = RwLock::new(());

/// The reason why there is no cluster.
pub(crate) struct NoBed(Missing);

/// Starts the cluster, and installs the zoo and loopwatch.
pub(crate) fn start() -> Result<(), NoBed> {
    let binaries = binaries::find().map_err(NoBed)?;
    let plane = BED.get_or_init(|| ControlPlane::start(binaries));
    operator::install(plane);
    install_loopwatch(plane);

    Ok(())
}

/// Starts another cluster, for a test of something that others would disturb.
pub(crate) fn another() -> ControlPlane {
    let binaries = binaries::find().unwrap_or_else(|missing| panic!("{missing}"));
    let plane = ControlPlane::start(binaries);
    install_loopwatch(&plane);
    plane
}

fn install_loopwatch(plane: &ControlPlane) {
    sidecar::install(plane, Path::new(env!("CARGO_BIN_EXE_loopwatch")));
}

/// Stops the cluster. It keeps the logs of a failed run.
pub(crate) fn stop(failed: bool) {
    let Some(plane) = BED.get() else { return };
    if failed {
        eprintln!("logs of everything: {}", plane.keep_logs().display());
    }

    plane.stop();
}

/// The cluster.
pub(crate) fn bed() -> &'static ControlPlane {
    BED.get().expect("tests run only when there is one")
}

/// Creates a test that runs in parallel with others.
pub(crate) fn test(name: &str, run: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let _shared = UNDISTURBED.read().unwrap_or_else(PoisonError::into_inner);
        run();
        Ok(())
    })
}

/// Creates a test that needs programs. If one is not installed, the test is skipped, or fails in
/// CI.
pub(crate) fn test_with(
    name: &str,
    programs: &'static [&str],
    run: impl FnOnce() + Send + 'static,
) -> Trial {
    with_programs(name, programs, move || {
        let _shared = UNDISTURBED.read().unwrap_or_else(PoisonError::into_inner);
        run();
    })
}

/// Creates a test that needs something of this machine, and is skipped where the machine does not
/// allow it.
pub(crate) fn test_where(
    name: &str,
    needs: &'static str,
    is_possible: impl FnOnce() -> bool + Send + 'static,
    run: impl FnOnce() + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || {
        if !is_possible() {
            eprintln!("SKIPPED: {needs}");
            return Ok(Completion::ignored_with(needs));
        }

        let _shared = UNDISTURBED.read().unwrap_or_else(PoisonError::into_inner);
        run();
        Ok(Completion::Completed)
    })
}

/// Creates a test that needs what `find` finds or installs. If Python, Java or their packages are
/// missing, the test is skipped, or fails in CI.
pub(crate) fn test_after<T>(
    name: &str,
    find: impl FnOnce() -> Result<T, Missing> + Send + 'static,
    run: impl FnOnce(T) + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || {
        let found = match find() {
            Ok(found) => found,
            Err(Missing::Python(reason) | Missing::Java(reason)) => return skip(reason),
            Err(missing) => return Err(Failed::from(missing.to_string())),
        };
        let _shared = UNDISTURBED.read().unwrap_or_else(PoisonError::into_inner);

        run(found);
        Ok(Completion::Completed)
    })
}

/// Creates a test that runs only if the programs are installed.
fn with_programs(
    name: &str,
    programs: &'static [&str],
    run: impl FnOnce() + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || {
        if let Some(program) = programs.iter().find(|program| !installed(program)) {
            return skip(format!("{program} is not installed"));
        }

        run();
        Ok(Completion::Completed)
    })
}

/// Skips a test, or lets it fail in CI.
pub(crate) fn skip(reason: String) -> Result<Completion, Failed> {
    eprintln!("SKIPPED: {reason}");
    if in_ci() { Err(Failed::from(reason)) } else { Ok(Completion::ignored_with(reason)) }
}

/// Creates a test that disturbs the cluster and runs alone, and that needs programs, as with
/// [`test_with`].
pub(crate) fn alone_with(
    name: &str,
    programs: &'static [&str],
    run: impl FnOnce() + Send + 'static,
) -> Trial {
    with_programs(name, programs, move || {
        let _alone = UNDISTURBED.write().unwrap_or_else(PoisonError::into_inner);
        run();
    })
}

/// Creates a test that disturbs the cluster and runs alone.
pub(crate) fn alone(name: &str, run: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let _alone = UNDISTURBED.write().unwrap_or_else(PoisonError::into_inner);
        run();
        Ok(())
    })
}

fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

fn installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).exists())
}

impl NoBed {
    /// Reports whether a developer may continue without the live tests.
    pub(crate) fn is_harmless(&self) -> bool {
        matches!(self.0, Missing::Go(_)) && !in_ci()
    }
}

impl fmt::Display for NoBed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
