//! Reconciles one object.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::{Api, Client, CustomResource, ResourceExt as _};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::faults::Faults;
use crate::metrics::Metrics;

const FINALIZER: &str = "zoo.loopwatch.dev/gizmo";
const SOON: Duration = Duration::from_millis(300);

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(group = "zoo.loopwatch.dev", version = "v1", kind = "Gizmo", namespaced, status = "GizmoStatus")]
#[kube(schema = "disabled")]
pub struct GizmoSpec {
    pub image: String,
    pub size: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GizmoStatus {
    pub observed_generation: Option<i64>,
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    pub r#type: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: String,
    pub observed_generation: Option<i64>,
}

/// What each reconcile needs.
pub struct Context {
    pub client: Client,
    pub metrics: Arc<Metrics>,
    pub faults: Arc<Faults>,
    pub ready_after: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the backend refuses the connection")]
    Backend,
    #[error("request: {0}")]
    Kube(#[from] kube::Error),
    #[error("finalizer: {0}")]
    Finalizer(#[source] Box<finalizer::Error<Error>>),
}

pub async fn reconcile(gizmo: Arc<Gizmo>, context: Arc<Context>) -> Result<Action, Error> {
    let _timer = context.metrics.count_and_measure();
    if context.faults.on("Unacknowledged", &gizmo).is_some() {
        return Ok(Action::requeue(SOON));
    }

    let api: Api<Gizmo> = Api::namespaced(context.client.clone(), &gizmo.namespace().unwrap_or_default());
    let handle = |event| async {
        match event {
            Event::Apply(gizmo) => apply(&gizmo, &api, &context).await,
            Event::Cleanup(gizmo) => clean_up(&gizmo, &context).await,
        }
    };

    finalizer(&api, FINALIZER, gizmo, handle).await.map_err(|error| Error::Finalizer(Box::new(error)))
}

/// Counts a failure, and tries again soon.
pub fn error_policy(gizmo: Arc<Gizmo>, error: &Error, context: Arc<Context>) -> Action {
    let kind = match error {
        Error::Finalizer(_) => "finalizer",
        Error::Kube(_) => "kube",
        Error::Backend => "backend",
    };

    context.metrics.count_failure(gizmo.name_any(), kind.to_owned());
    Action::requeue(Duration::from_millis(500))
}

async fn apply(gizmo: &Gizmo, api: &Api<Gizmo>, context: &Context) -> Result<Action, Error> {
    context.faults.disturb(gizmo).await?;
    let old = gizmo.status.clone().unwrap_or_default();
    let is_late = context.faults.on("Overdue", gizmo).is_some();

    if old.observed_generation != gizmo.metadata.generation && !is_late {
        tokio::time::sleep(context.ready_after).await;
    }

    let image = &gizmo.spec.image;
    let (status, reason, message) = match () {
        () if image.is_empty() || image.contains("invalid") => {
            ("False", "InvalidSpec", format!("spec.image {image:?} is not the name of an image"))
        }
        () if is_late => ("False", "Progressing", "the backend is not ready yet".to_owned()),
        () => ("True", "Available", "everything is as the spec says".to_owned()),
    };

    let since = old.conditions.iter().find(|condition| condition.status == status);
    let since = since.map(|condition| condition.last_transition_time.clone());
    let ready = Condition {
        r#type: "Ready".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: since.unwrap_or_else(|| jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        observed_generation: gizmo.metadata.generation,
    };

    let new = GizmoStatus { observed_generation: gizmo.metadata.generation, conditions: vec![ready] };
    if new != old {
        let patch = Patch::Merge(json!({"status": new}));
        api.patch_status(&gizmo.name_any(), &PatchParams::default(), &patch).await?;
    }

    Ok(if is_late { Action::requeue(SOON) } else { Action::await_change() })
}

async fn clean_up(gizmo: &Gizmo, context: &Context) -> Result<Action, Error> {
    if context.faults.on("FinalizerStuck", gizmo).is_some() {
        // The helper of kube-rs removes the finalizer after each success.
        return Err(Error::Backend);
    }

    context.faults.disturb(gizmo).await?;
    Ok(Action::await_change())
}
