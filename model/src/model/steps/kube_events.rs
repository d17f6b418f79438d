//! Kubernetes Events about objects.

use crate::model::kube_events::WARNING;
use crate::model::steps::warnings::show_last_warning;
use crate::model::world::limits::Limit;
use crate::model::{Model, kube_events};
use crate::observation::{EventView, Role, SourceId, WatchId};

impl Model {
    /// Handles a Kubernetes Event about an object of a watched kind.
    pub(crate) fn event_seen(&mut self, watch: &WatchId, event: EventView) {
        let Some(number) = self
            .world
            .find_watch(watch)
            .filter(|number| self.world.watches[*number as usize].active)
        else {
            return;
        };

        self.world.sources.note_success(&SourceId::Events, self.world.now);
        if event.uncounted {
            self.world.count_dropped(Limit::Events);
        }

        let kind = self.world.watches[number as usize].kind;
        if self.world.kinds[kind as usize].role == Role::Primary {
            if event.added > 0 {
                kube_events::count_event(&mut self.world, kind, &event);
            }
            self.traces.trace_event(&self.world, number, kind, &event);
        } else if self.world.store.find(number, &event.about.namespace, &event.about.name).is_none()
        {
            return; // not a child of this operator
        }

        let (parts, mut step) = self.parts();
        parts.webhooks.event_seen(&mut step, &event);

        let warned = (event.r#type == WARNING).then(|| event.about.clone());
        self.kube_events.add(self.world.now, kind, event);
        if let Some(about) = warned {
            let (world, events) = (&self.world, &self.kube_events);
            show_last_warning(world, events, &mut self.findings, number, &about);
        }
    }
}
