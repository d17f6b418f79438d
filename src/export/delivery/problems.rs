//! The last problem of a receiver. A receiver that stays broken causes one line in the log, not one
//! per request.

/// The last problem, until it is solved.
#[derive(Debug, Default)]
pub(super) struct Problems(Option<String>);

impl Problems {
    /// Notes a problem. Returns whether to log it, because it differs from the last one.
    pub(super) fn is_new(&mut self, problem: &str) -> bool {
        let is_new = self.0.as_deref() != Some(problem);
        if is_new {
            self.0 = Some(problem.to_owned());
        }

        is_new
    }

    /// Notes that there is no problem. Returns whether there was one.
    pub(super) fn solved(&mut self) -> bool {
        self.0.take().is_some()
    }
}
