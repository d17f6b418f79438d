//! Profiles of the operator's processes.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Two profiles of an instance, compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileView {
    /// The instance.
    pub instance: String,
    /// The kind of profile.
    pub kind: ProfileKind,
    /// When the first profile was taken.
    pub from: Timestamp,
    /// When the second profile was taken.
    pub to: Timestamp,
    /// The stacks that grew most, at most [`MAX_STACKS`], fastest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<GrowingStack>,
    /// The stacks that waited inside a reconcile in both profiles of goroutines, at most
    /// [`MAX_WAITING`], those of most goroutines first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingStack>,
    /// The name of the file with the second profile; empty if it was not kept.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The name of the file with the first profile; empty if it was not kept.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub first_file: String,
}

/// A kind of profile.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ProfileKind {
    /// Bytes of the heap in use, by the stack that allocated them.
    #[default]
    Heap,
    /// Goroutines, by their stack.
    Goroutines,
}

/// A stack whose share of a profile grew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrowingStack {
    /// The functions, innermost first, at most [`MAX_FRAMES`].
    pub functions: Vec<String>,
    /// The growth, in bytes or goroutines.
    pub growth: u64,
    /// The value in the second profile.
    pub now: u64,
}

/// A stack of goroutines that wait inside a reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitingStack {
    /// The functions, innermost first, at most [`MAX_FRAMES`].
    pub functions: Vec<String>,
    /// The operator's own function that reconciles.
    pub reconcile: String,
    /// The number of goroutines in the second profile.
    pub goroutines: u64,
}

/// The maximum number of waiting stacks in a [`ProfileView`].
pub const MAX_WAITING: usize = 5;

/// The maximum number of stacks in a [`ProfileView`].
pub const MAX_STACKS: usize = 10;

/// The maximum number of functions of a [`GrowingStack`].
pub const MAX_FRAMES: usize = 16;

/// The first path segments of the packages of Go's runtime and standard library.
const STANDARD_PACKAGES: &[&str] = &[
    "archive",
    "bufio",
    "bytes",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
    "unique",
    "vendor",
    "weak",
];

impl ProfileKind {
    /// Returns the kind in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Goroutines => "goroutines",
        }
    }
}

impl GrowingStack {
    /// Returns the function to look at: the innermost one outside Go's runtime and standard
    /// library, or else the innermost one.
    #[must_use]
    pub fn culprit(&self) -> &str {
        culprit(&self.functions)
    }
}

impl WaitingStack {
    /// Returns the functions that say where the goroutines wait, without repetitions: the one of
    /// Go's standard library in which they wait, the innermost one outside of it, and the one that
    /// reconciles.
    #[must_use]
    pub fn place(&self) -> Vec<String> {
        let in_runtime = |function: &&String| first_segment(function) == "runtime";
        let waits = self.functions.iter().find(|function| !in_runtime(function));
        let culprit = Some(culprit(&self.functions));
        let all = [waits.map(String::as_str), culprit, Some(self.reconcile.as_str())];

        let mut place: Vec<String> = Vec::new();
        for function in all.into_iter().flatten().filter(|function| !function.is_empty()) {
            if !place.iter().any(|known| known == function) {
                place.push(function.to_owned());
            }
        }

        place
    }
}

fn culprit(functions: &[String]) -> &str {
    let own =
        functions.iter().find(|function| !STANDARD_PACKAGES.contains(&first_segment(function)));

    own.or(functions.first()).map_or("", String::as_str)
}

/// Returns the first segment of the path of a function's package.
fn first_segment(function: &str) -> &str {
    function.split(['/', '.']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_culprit_is_the_innermost_function_of_the_program() {
        for (functions, expected) in [
            (
                &["runtime.gopark", "runtime.chanrecv1", "main.waitForever", "main.watch"][..],
                "main.waitForever",
            ),
            (
                &["bytes.growSlice", "bytes.(*Buffer).Write", "github.com/a/b.(*C).D"],
                "github.com/a/b.(*C).D",
            ),
            (
                &["internal/poll.runtime_pollWait", "net.(*conn).Read"],
                "internal/poll.runtime_pollWait",
            ),
            (&["runtime.gopark", "iot/device.Run"], "iot/device.Run"),
            (&[], ""),
        ] {
            let functions = functions.iter().map(ToString::to_string).collect();
            assert_eq!(GrowingStack { functions, ..GrowingStack::default() }.culprit(), expected);
        }
    }
}
