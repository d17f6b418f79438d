//! Changes of settings, after which everything is judged again.

use crate::model::Model;
use crate::model::convergence::object_context;
use crate::model::findings::tuning;
use crate::model::findings::tuning::Tuned;
use crate::model::visibility::sources;
use crate::settings::Settings;

impl Model {
    /// Replaces the settings.
    pub(crate) fn settings_changed(&mut self, settings: Settings) {
        if settings.annotations() != self.world.settings.annotations() {
            // The sources restart and list the objects with other annotations.
            self.world.watches.iter_mut().for_each(|watch| watch.lists.reread = true);
        }

        self.world.settings = settings;
        self.traces.set_limit(self.world.settings.limits.trace_bytes);
        self.world.shared.set_limits(&self.world.settings.limits);
        self.retune();
    }

    /// Judges everything again, because settings or annotations changed.
    pub(crate) fn retune(&mut self) {
        for (code, subject) in self.findings.subjects() {
            match tuning::of_subject(&self.world, code, &subject) {
                Tuned { enabled: false, .. } => self.findings.clear(self.world.now, code, &subject),
                Tuned { severity, is_fixed, .. } => {
                    self.findings.set_severity(code, &subject, severity, is_fixed);
                }
            }
        }

        self.world.review_everything();
        for slot in self.world.agenda.objects.clone() {
            if let Some(mut context) =
                object_context::context(&mut self.world, &mut self.traces, slot)
            {
                context.update_deadlines();
            }
        }

        sources::review_permissions(&mut self.world, &mut self.findings);
        sources::review_sources(&mut self.world, &mut self.findings);
        tuning::review_namespaces(&mut self.world, &mut self.findings);
        let (parts, mut step) = self.parts();
        parts.retune(&mut step);
    }
}
