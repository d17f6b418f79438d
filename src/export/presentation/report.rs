//! The reports for people: of `check` and `replay`, of `rights`, `explain`, `what-if` and `doctor`. Each builds a
//! document of blocks, which one of two writers turns into text.

mod style; // which writer, how wide, and whether in colours
mod document; // headlines, lists, trees, tables, commands
mod terminal; // writes a document for people at a terminal
mod markdown; // writes a document for tickets and pull requests
mod writer; // chooses between the two
mod layout; // columns, wrapped lines, colours
mod tree; // lines of a tree
mod check; // the findings, on one screen, with the next command to run
mod explain; // one object
mod forecast; // what a deletion takes with it
mod doctor; // the checks of an installation
mod rights; // the permissions of the operator's account
mod fail_on; // the problems that count in CI
mod junit; // the findings as tests, for CI systems

pub(crate) use self::check::CheckReport;
pub(crate) use self::doctor::doctor_report;
pub(crate) use self::explain::explain_report;
pub(crate) use self::fail_on::FailOn;
pub(crate) use self::forecast::Forecast;
pub(crate) use self::junit::junit;
pub(crate) use self::rights::rights_report;
pub(crate) use self::style::{Colours, OutputFormat, Style, choose_colours};
