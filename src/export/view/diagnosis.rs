//! What `doctor` says: checks of an installation of loopwatch.

use serde::Serialize;

/// One thing that `doctor` has looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub topic: Topic,
    pub state: CheckState,
    /// The fact, in a sentence.
    pub text: String,
    /// What to do, in sentences; empty if there is nothing to do.
    pub advice: String,
    /// The next commands.
    pub commands: Vec<String>,
}

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Topic {
    /// Whether loopwatch runs beside the operators.
    Sidecar,
    /// The kinds that it watches.
    Kinds,
    /// What it may not read.
    Rights,
    /// Whether a PodMonitor or ServiceMonitor selects its Pods.
    Monitor,
    /// Whether a Prometheus selects this monitor.
    Prometheus,
    /// Whether a Prometheus selects the alert rules.
    Rules,
    /// Whether anybody has scraped it.
    Scrapes,
}

/// The conclusion of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckState {
    /// It does not work.
    Problem,
    /// It works, but loopwatch sees less than it could.
    Limited,
    /// Nobody could look at it.
    Unknown,
    /// It is not installed, or nobody has asked about it.
    Off,
    Well,
}

impl Check {
    pub(crate) fn new(topic: Topic, state: CheckState, text: impl Into<String>) -> Self {
        let (text, advice, commands) = (text.into(), String::new(), Vec::new());
        Self { topic, state, text, advice, commands }
    }

    /// Adds what to do.
    #[must_use]
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// Adds a command for people to copy.
    #[must_use]
    pub(crate) fn next(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }
}
