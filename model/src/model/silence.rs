//! Objects whose status says nothing about their health, although the statuses of most other objects of their kind do.

use super::context::ObjectContext;
use super::reading::Verdict;
use crate::observation::{ObjectView, StatusShape};

// === impl ObjectContext ===

impl ObjectContext<'_> {
    /// Updates the counts of the objects of the kind that have a status, and that say something in it.
    pub(crate) fn count_status(&mut self, view: &ObjectView, new: bool) {
        let flags = &mut self.record.flags;
        let recount = |count: &mut u64, flag: &mut bool, has: bool| {
            match (!new && *flag, has) {
                (false, true) => *count += 1,
                (true, false) => *count = count.saturating_sub(1),
                _ => {}
            }
            *flag = has;
        };
        recount(&mut self.kind.with_status, &mut flags.has_status, view.status == StatusShape::Filled);
        recount(&mut self.kind.with_facts, &mut flags.has_facts, has_facts(view));
    }

    /// Returns whether most objects of the kind say more about their health than an object without a status, or with a
    /// status that has no facts.
    pub(crate) fn is_expected_to_say_more(&self, has_status: bool, has_facts: bool) -> bool {
        (!has_status && self.kind.expects_status()) || (has_status && !has_facts && self.kind.expects_facts())
    }

    /// Reviews the verdict on an object that came before most others of its kind. Returns whether it changed.
    pub(crate) fn review_silence(&mut self) -> bool {
        let flags = &self.record.flags;
        let changed =
            self.record.verdict == Verdict::Unknown && self.is_expected_to_say_more(flags.has_status, flags.has_facts);
        if changed {
            self.record.verdict = Verdict::Progressing;
        }
        changed
    }
}

/// Returns whether the status has conditions, or facts about the whole object.
pub(crate) fn has_facts(view: &ObjectView) -> bool {
    let of_object = |path: &str| path.strip_prefix("status.").is_some_and(|key| !key.contains(['.', '[']));
    !view.conditions.is_empty() || view.facts.iter().any(|fact| of_object(&fact.path))
}
