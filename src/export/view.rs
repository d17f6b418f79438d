//! How the other modules of `export` read the model, and the words that all of them use for its
//! conclusions.
//!
//! Page, API, reports and alerts show the same snapshot. Whatever two of them share is here, so
//! that they cannot disagree.

mod access; // snapshots, and batches of objects
mod filter; // criteria for objects
mod order; // sorted lists of objects, in pages
mod lookup; // finds the object that a user asks about
mod object_name; // how people and links name an object
mod health; // the overall health, and the states of the objects
mod findings; // open findings, and those that they explain
mod unhealthy; // the findings about each unhealthy object
mod alerts; // the alert that covers a finding
mod diagnosis; // what `doctor` says
mod blind_spots; // what loopwatch cannot see
mod input; // the recording or dump behind a snapshot
mod timeline; // what happened to one object
mod waterfall; // its last piece of work, as bars over time
mod obligation; // what the operator is expected to do
mod scrapes; // whether anybody scrapes loopwatch
mod operators; // many operators
mod quantile; // quantiles of histograms
mod links; // links in alerts
mod runbooks; // the runbooks
mod text; // numbers and words

pub use self::access::View;
pub(crate) use self::alerts::{IsExplained, TICKET, alert_name, is_cause_elsewhere};
pub(crate) use self::blind_spots::{BlindSpot, is_watch_down, scope_in_words};
pub(crate) use self::diagnosis::{Check, CheckState, Topic};
pub use self::filter::{Filter, Word};
pub(crate) use self::findings::{
    FindingGroup, Findings, SHORTEST_AGE, evidence, evidence_values, finding_age, grouped_findings,
    step_in_words,
};
pub(crate) use self::health::{
    Doubt, OverallHealth, exceptions_in_words, objects_by_state, objects_in_words, reason_in_words,
};
pub(crate) use self::input::{DumpInput, Input, RecordingInput};
#[cfg(test)]
pub(crate) use self::links::dashboard;
pub(crate) use self::links::{ExternalUrl, Links, RunbookUrl};
pub(crate) use self::lookup::{LookupError, Nearest, ObjectQuestion, explain_object, find_object};
pub(crate) use self::object_name::{ObjectName, encoded, group_parameter, kind_name};
pub(crate) use self::obligation::obligation_in_words;
pub(crate) use self::operators::{OperatorSummary, Operators, SkippedOperator};
pub(crate) use self::order::{ListPosition, PageEdge, SortKey, SortOrder, SortedPage, sorted_page};
pub(crate) use self::quantile::quantile;
pub(crate) use self::runbooks::{Runbook, all_runbooks, runbook, runbook_command, runbook_path};
pub(crate) use self::scrapes::Scrapes;
pub(crate) use self::text::{
    Number, age, capitalised, controls_display, lasting, utc, without_code_marks, without_controls,
};
pub(crate) use self::timeline::{TimelineEntry, timeline_entries};
pub(crate) use self::unhealthy::FindingsByObject;
pub(crate) use self::waterfall::{Bar, Lane, Tone, Waterfall, waterfall};
