//! The JSON of `doctor`.

use serde::Serialize;

use super::version::VERSION;
use crate::export::view::{Check, CheckState};

/// `doctor -o json`.
#[derive(Debug, Serialize)]
pub(crate) struct DoctorResponse<'a> {
    version: u32,
    problems: usize,
    checks: &'a [Check],
}

pub(crate) fn doctor(checks: &[Check]) -> DoctorResponse<'_> {
    let problems = checks.iter().filter(|check| check.state == CheckState::Problem).count();
    DoctorResponse { version: VERSION, problems, checks }
}
