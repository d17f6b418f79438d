//! The table of docs/operator.md: what loopwatch finds out about the same faults in each
//! framework.
//!
//! A run of the operators writes one file of `tests/frameworks` per framework; the table is made
//! from these files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::frameworks::Framework;
use super::repository;

/// What loopwatch may read of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum View {
    /// Its objects and Pods, and its own metrics.
    Metrics,
    /// Its objects and Pods, and its process.
    Process,
    /// Its objects and Pods.
    Outside,
}

/// A fault, or the absence of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "see `Trouble::title`")]
pub enum Trouble {
    Healthy,
    Ignored,
    Late,
    Failing,
    Stuck,
    Backlog,
    Finalizer,
    Hanging,
    Killed,
    MemoryLeak,
    TaskLeak,
}

/// The findings about one fault in one view, by their codes, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Those that no other one explains.
    pub root: Vec<String>,
    /// The others.
    pub explained: Vec<String>,
}

/// What was found in one framework.
pub type Verdicts = BTreeMap<Trouble, BTreeMap<View, Found>>;

impl View {
    /// All views, the one that shows most first.
    pub const ALL: [Self; 3] = [Self::Metrics, Self::Process, Self::Outside];

    /// Returns its name in files.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Process => "process",
            Self::Outside => "outside",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Metrics => "its own metrics",
            Self::Process => "process data only",
            Self::Outside => "from outside only",
        }
    }

    /// Returns the views of a framework.
    pub fn of(framework: Framework) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |view| *view != Self::Metrics || framework.has_metrics())
    }
}

impl Trouble {
    /// Those that take seconds.
    pub const QUICK: [Self; 9] = [
        Self::Healthy,
        Self::Ignored,
        Self::Late,
        Self::Failing,
        Self::Stuck,
        Self::Backlog,
        Self::Finalizer,
        Self::Hanging,
        Self::Killed,
    ];

    /// Those that take hours, recorded for minutes.
    pub const SLOW: [Self; 2] = [Self::MemoryLeak, Self::TaskLeak];

    fn all() -> impl Iterator<Item = Self> {
        Self::QUICK.into_iter().chain(Self::SLOW)
    }

    /// Returns its name in files.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Ignored => "ignored",
            Self::Late => "late",
            Self::Failing => "failing",
            Self::Stuck => "stuck",
            Self::Backlog => "backlog",
            Self::Finalizer => "finalizer",
            Self::Hanging => "hanging",
            Self::Killed => "killed",
            Self::MemoryLeak => "memory-leak",
            Self::TaskLeak => "task-leak",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Healthy => {
                "no fault: creations, changes, a deletion, and a change that succeeds at the third attempt"
            }
            Self::Ignored => "changes of one object are ignored",
            Self::Late => "changes of one object are acknowledged, but it does not become ready",
            Self::Failing => "every reconcile fails",
            Self::Stuck => "a reconcile does not end, in the only worker",
            Self::Backlog => "each reconcile blocks for a minute, while many objects change",
            Self::Finalizer => "the operator does not remove its finalizer",
            Self::Hanging => "the process hangs (SIGSTOP), and an object changes",
            Self::Killed => "the process is killed while all objects are ready",
            Self::MemoryLeak => "a leak of memory",
            Self::TaskLeak => "a leak of tasks",
        }
    }

    /// Returns why a framework cannot have this fault; none if it can.
    #[must_use]
    pub fn impossible(self, framework: Framework) -> Option<&'static str> {
        match (self, framework) {
            (Self::Backlog, Framework::Python) => {
                Some("kopf has no queue: it handles each object in a task of its own")
            }
            _ => None,
        }
    }
}

/// Returns why loopwatch does not see a fault; none if it must see it.
#[must_use]
pub fn unseen(trouble: Trouble, framework: Framework, view: View) -> Option<&'static str> {
    match (trouble, view, framework) {
        (Trouble::MemoryLeak, View::Outside, _) => {
            Some("the API server does not know the memory of a process")
        }
        (Trouble::TaskLeak, View::Outside, _) => {
            Some("the API server does not know the tasks of a process")
        }
        (Trouble::MemoryLeak, View::Metrics, Framework::Java) => Some(
            "Micrometer knows the live heap only after a collection of the old generation, and no resident memory",
        ),
        (Trouble::MemoryLeak | Trouble::TaskLeak, View::Metrics, Framework::Rust) => {
            Some("the metrics of the template say nothing about the process")
        }
        (Trouble::TaskLeak, View::Process, Framework::Go) => Some("goroutines are no threads"),
        (Trouble::TaskLeak, View::Process, Framework::Python) => {
            Some("tasks of asyncio are no threads")
        }
        (Trouble::TaskLeak, View::Process, Framework::Rust) => {
            Some("tasks of tokio are no threads")
        }
        _ => None,
    }
}

/// Returns two findings if each run of a fault shows one or both of them, and why; none if all runs
/// find the same.
#[must_use]
pub fn varying(
    trouble: Trouble,
    framework: Framework,
    view: View,
) -> Option<([&'static str; 2], &'static str)> {
    match (trouble, framework, view) {
        (Trouble::MemoryLeak, Framework::Java, View::Process) => Some((
            ["HeapLeak", "MemoryLarge"],
            "the JVM takes memory from the kernel in steps, which look more or less like a trend",
        )),
        _ => None,
    }
}

fn file(framework: Framework) -> PathBuf {
    repository(format!("tests/frameworks/{}.json", framework.label()))
}

/// Reads what was found in a framework.
#[must_use]
pub fn read(framework: Framework) -> Verdicts {
    let text = std::fs::read_to_string(file(framework)).unwrap_or_else(|_| "{}".to_owned());
    let value: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{framework:?}: {error}"));
    let codes = |list: &Value| {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let found = |of: &Value| Found { root: codes(&of["root"]), explained: codes(&of["explained"]) };
    let views = |of: &Value| {
        View::ALL
            .into_iter()
            .filter(|view| of[view.label()].is_object())
            .map(|view| (view, found(&of[view.label()])))
            .collect()
    };

    Trouble::all()
        .filter(|it| value[it.label()].is_object())
        .map(|it| (it, views(&value[it.label()])))
        .collect()
}

/// Replaces some rows of what was found in a framework.
pub fn update(framework: Framework, new: &Verdicts) {
    let mut all = read(framework);
    all.extend(new.iter().map(|(trouble, views)| (*trouble, views.clone())));

    let mut rows = serde_json::Map::new();
    for (trouble, views) in all {
        let found = |found: &Found| json!({"root": found.root, "explained": found.explained});
        let views: serde_json::Map<_, _> =
            views.iter().map(|(view, of)| (view.label().to_owned(), found(of))).collect();
        rows.insert(trouble.label().to_owned(), Value::Object(views));
    }

    let text = format!("{:#}\n", Value::Object(rows));
    let file = file(framework);
    std::fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

/// Returns the table.
#[must_use]
pub fn table() -> String {
    let mut text = "| fault | loopwatch reads |".to_owned();
    for framework in Framework::ALL {
        let _ = write!(text, " {} |", framework.title());
    }

    text += &format!("\n|---|---|{}\n", "---|".repeat(Framework::ALL.len()));
    let found = Framework::ALL.map(|framework| (framework, read(framework)));
    for trouble in Trouble::all() {
        for view in View::ALL {
            let title = if view == View::Metrics { trouble.title() } else { "" };
            let _ = write!(text, "| {title} | {} |", view.title());
            for (framework, verdicts) in &found {
                let found = verdicts.get(&trouble).and_then(|views| views.get(&view));
                let _ = write!(text, " {} |", cell(trouble, *framework, view, found));
            }

            text.push('\n');
        }
    }

    text
}

fn cell(trouble: Trouble, framework: Framework, view: View, found: Option<&Found>) -> String {
    if let Some(reason) = trouble.impossible(framework) {
        return reason.to_owned();
    }

    if view == View::Metrics && !framework.has_metrics() {
        return "the framework has no metrics".to_owned();
    }

    let Some(found) = found else { return "not run".to_owned() };
    let links = |codes: &[String]| {
        let links: Vec<String> =
            codes.iter().map(|code| format!("[{code}](runbooks/{code}.md)")).collect();
        links.join(", ")
    };
    if let Some((codes, reason)) = varying(trouble, framework, view) {
        return format!("{}, or only one of them: {reason}", links(&codes.map(str::to_owned)));
    }

    match (found.root.is_empty(), trouble) {
        (true, Trouble::Healthy) => "nothing".to_owned(),
        (true, _) => format!("not seen: {}", unseen(trouble, framework, view).unwrap_or("?")),
        (false, _) if found.explained.is_empty() => links(&found.root),
        (false, _) => format!("{}; explained: {}", links(&found.root), found.explained.join(", ")),
    }
}
