//! The references of a dump.

use crate::model::Model;

impl Model {
    /// Looks up all references that nobody has looked up yet, without regard to the rate of reads:
    /// for a dump, in which all answers are at hand, and in which time does not pass.
    pub fn look_up_all_references(&mut self) {
        while self.parts.references.unchecked > 0 {
            let Some(index) = self.parts.references.take_round() else { break };
            self.parts.references.look_up(&mut self.world, &self.findings, index);
        }
        self.finish_step();
    }
}
