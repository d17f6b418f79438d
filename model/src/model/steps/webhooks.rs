//! Webhooks that are registered, and the endpoints of their Services.

use crate::model::Model;
use crate::observation::{EndpointsView, WebhookKind, WebhookView};

impl Model {
    pub(crate) fn webhooks_listed(&mut self, kind: WebhookKind, webhooks: Vec<WebhookView>) {
        let (parts, mut step) = self.parts();
        parts.webhooks.listed(&mut step, kind, webhooks);
    }

    pub(crate) fn endpoints_listed(&mut self, endpoints: Vec<EndpointsView>) {
        let (parts, mut step) = self.parts();
        parts.webhooks.endpoints_listed(&mut step, endpoints);
    }
}
