//! Explains an object of a cluster after reading the object and its family once.

use std::io::IsTerminal as _;

use anyhow::{Context as _, bail};
use loopwatch_model::model::Model;
use loopwatch_model::observation::{LeftOut, ObjectAddress, ObjectView, Observation};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::Explanation;
use loopwatch_model::time::{Span, Timestamp};

use crate::app;
use crate::cli::{progress_line, what_if};
use crate::export::view::{BlindSpot, Nearest, ObjectQuestion};
use crate::net::Failure;
use crate::sources::api_server::{Access, ApiKind, ApiResources, Cluster};
use crate::sources::survey::{CloseUp, LimitedLookups, kind_name, kind_named, object_names};

/// Limit on rounds of questions: an answer may lead to another question.
const ROUNDS: i64 = 20;

/// Reads the object and its family, and judges them.
pub(super) async fn look(
    access: Access,
    settings: Settings,
    question: &ObjectQuestion,
) -> anyhow::Result<(Explanation, Vec<BlindSpot>)> {
    let cluster = app::connect(&access).await?;
    let resources = ApiResources::read(&cluster)
        .await
        .context("cannot read the kinds that the API server serves")?;
    let kind = kind_named(&resources, &question.kind)?;
    let namespace = match (&question.namespace, kind.namespaced) {
        (Some(namespace), true) => namespace.clone(),
        (None, true) => cluster.namespace().to_owned(),
        (_, false) => String::new(),
    };

    let (group, name) = (kind.group.clone(), question.name.clone());
    let object = ObjectAddress { group, kind: kind.kind.clone(), namespace, name };
    let hash_key = app::hash_key();
    let taken = CloseUp::take(&cluster, &resources, kind, &object, &hash_key, what_if::show).await;

    what_if::show_nothing();
    let CloseUp { object: view, observations, left_out } = match taken {
        Ok(taken) => taken,
        Err(failure) => bail!(problem(&cluster, kind, &object, failure).await),
    };
    let model = judge(&cluster, settings, &view, observations).await;
    let mut explanation = model.explain(&object).unwrap_or_default();

    explanation.add_view(&view);
    Ok((explanation, left_out.into_iter().map(blind_spot).collect()))
}

/// Judges the objects at the current time, and looks up what the model asks for.
async fn judge(
    cluster: &Cluster,
    settings: Settings,
    view: &ObjectView,
    observations: Vec<Observation>,
) -> Model {
    let now = cluster.clock().now();
    let mut model = Model::for_one_look(settled(settings, view, now));
    for observation in observations {
        model.apply(now, observation);
    }

    let mut answers = LimitedLookups::new(cluster, app::hash_key());
    for round in 1..=ROUNDS {
        let at = now.after(Span(round));
        model.apply(at, Observation::Tick); // handles what waits for answers
        model.look_up_all_references();

        let probes = model.all_probes();
        if probes.is_empty() {
            break;
        }

        if std::io::stderr().is_terminal() {
            progress_line(&format!("{} reads of objects in doubt", probes.len()));
        }

        for probe in probes {
            let answer = answers.answer(&probe).await;
            model.apply(at, Observation::Answered { probe, answer });
        }
    }

    what_if::show_nothing();
    model
}

/// The settings for one look, during which no time passes. A dangling reference counts at once,
/// unless somebody has just written the object: then the target may follow.
fn settled(settings: Settings, view: &ObjectView, now: Timestamp) -> Settings {
    let Settings { dangling_after, owner_missing_after, orphan_after, .. } = settings;
    let longest = dangling_after.max(owner_missing_after).max(orphan_after);
    let written =
        view.managers.iter().filter(|manager| manager.owns.spec).filter_map(|manager| manager.time);
    let is_new = written.chain(view.created).max().is_some_and(|last| now.since(last) < longest);

    if is_new {
        return settings;
    }

    Settings {
        dangling_after: Span::ZERO,
        owner_missing_after: Span::ZERO,
        orphan_after: Span::ZERO,
        ..settings
    }
}

/// Why the object cannot be explained.
async fn problem(
    cluster: &Cluster,
    kind: &ApiKind,
    object: &ObjectAddress,
    failure: Failure,
) -> String {
    let ObjectAddress { namespace, name, .. } = object;
    let kind_name = kind_name(kind);
    if failure.status != Some(404) {
        return format!("cannot read {kind_name} {name}: {failure}");
    }

    let mut nearest = Nearest::new(name);
    object_names(cluster, kind, namespace)
        .await
        .iter()
        .for_each(|other| nearest.offer(other, || other.clone()));

    let within =
        if namespace.is_empty() { String::new() } else { format!(" in the namespace {namespace}") };
    format!("there is no {kind_name} {name}{within}{}", nearest.hint())
}

fn blind_spot(LeftOut { what, why }: LeftOut) -> BlindSpot {
    BlindSpot { what, why }
}
