//! References in a dump: all are looked up at once.

use crate::model::Model;

impl Model {
    /// Looks up all unchecked references without a rate limit, for a dump: in it, all answers are
    /// at hand and time does not pass.
    pub fn look_up_all_references(&mut self) {
        while self.parts.references.unchecked > 0 {
            let Some(index) = self.parts.references.take_round() else { break };
            self.parts.references.look_up(&mut self.world, &self.findings, index);
        }
        self.finish_step();
    }
}
