//! The Events about one object, read once.

use std::collections::BTreeMap;

use loopwatch_model::observation::{Cause, EventView, ObjectAddress};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::EventSink;
use super::document::EventDocument;
use crate::net::{Failure, percent_encode};
use crate::sources::api_server::collections::collection;
use crate::sources::api_server::connection::{Cluster, JSON};

/// A page of Events.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EventPage {
    items: Vec<Box<RawValue>>,
}

/// The maximum number of Events to read. An object rarely has even a tenth of that, because API
/// servers delete Events after an hour.
const MAX_EVENTS: usize = 500;

/// Reads the Events about an object, in the group in which the account may list them.
///
/// # Errors
/// The failure of the last request.
pub(crate) async fn events_about(
    cluster: &Cluster,
    object: &ObjectAddress,
) -> Result<Vec<EventView>, Failure> {
    let mut refused = Failure::new(Cause::Forbidden, "");
    for group in EventSink::GROUPS {
        match list(cluster, group, object).await {
            Err(failure) if matches!(failure.cause, Cause::Forbidden | Cause::NotFound) => {
                refused = failure
            }
            read => return read,
        }
    }

    Err(refused)
}

async fn list(
    cluster: &Cluster,
    group: &str,
    object: &ObjectAddress,
) -> Result<Vec<EventView>, Failure> {
    let ObjectAddress { group: of, kind, namespace, name } = object;
    let within = if namespace.is_empty() { EventSink::OF_CLUSTER_SCOPED } else { namespace };
    let field = if group.is_empty() { "involvedObject" } else { "regarding" };
    let fields = percent_encode(&format!("{field}.kind={kind},{field}.name={name}"));
    let path = collection(group, "v1", EventSink::RESOURCE, Some(within));
    let page: EventPage = cluster
        .get_json(&format!("{path}?fieldSelector={fields}&limit={MAX_EVENTS}"), JSON)
        .await?;

    let documents =
        page.items.iter().filter_map(|item| EventDocument::parse(item.get().as_bytes()).ok());
    let about = documents.filter(|document| document.is_about(of, kind)).map(EventDocument::view);
    let about =
        about.filter(|event| event.about.namespace == *namespace && event.about.name == *name);

    // An API server without selectors might repeat one.
    Ok(about
        .map(|event| (event.uid.clone(), event))
        .collect::<BTreeMap<_, _>>()
        .into_values()
        .collect())
}

#[cfg(test)]
mod tests {
    use loopwatch_testbed::standin::{Reply, Script};
    use serde_json::{Value, json};

    use super::*;
    use crate::sources::testing::InProcess as _;

    fn web() -> ObjectAddress {
        let [group, kind, namespace, name] =
            ["example.io", "Widget", "team-a", "web"].map(str::to_owned);
        ObjectAddress { group, kind, namespace, name }
    }

    fn event(uid: &str, api: &str, name: &str) -> Value {
        json!({ "metadata": { "uid": uid }, "reason": uid, "count": 3,
            "involvedObject": { "apiVersion": api, "kind": "Widget", "namespace": "team-a", "name": name } })
    }

    fn list(items: &Value) -> Reply {
        Reply::Response(200, vec![], json!({ "items": items }).to_string())
    }

    fn refuse(code: u16) -> Reply {
        Reply::Response(code, vec![], json!({ "code": code, "reason": "" }).to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn the_events_of_the_object_are_read_in_the_group_that_the_account_may_read() {
        let events = json!([
            event("b", "example.io/v1", "web"),
            event("a", "example.io/v2", "web"),
            {},
            7,
            event("c", "other.io/v1", "web"),
            event("d", "example.io/v1", "db")
        ]);

        let script = Script::new([refuse(403), list(&events)]);
        let found = events_about(&script.cluster(), &web()).await.expect("Events");
        let found: Vec<(&str, u64)> =
            found.iter().map(|event| (event.reason.as_str(), event.count)).collect();

        assert_eq!(found, [("a", 3), ("b", 3)]);

        let asked = script.asked();
        assert!(
            asked.len() == 2
                && asked[0].contains("regarding.kind")
                && asked[1].contains("involvedObject.kind"),
            "{asked:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_no_absence() {
        let forbidden =
            events_about(&Script::new([refuse(403), refuse(403)]).cluster(), &web()).await;
        assert_eq!(forbidden.expect_err("forbidden").cause, Cause::Forbidden);

        let broken = events_about(&Script::new([refuse(500)]).cluster(), &web()).await;
        assert_eq!(broken.expect_err("broken").cause, Cause::ServerError);
    }
}
