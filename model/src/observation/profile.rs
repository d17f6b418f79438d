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
        let package =
            |function: &str| function.split(['/', '.']).next().unwrap_or_default().to_owned();
        let own = self
            .functions
            .iter()
            .find(|function| !STANDARD_PACKAGES.contains(&package(function).as_str()));

        own.or(self.functions.first()).map_or("", String::as_str)
    }
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
