//! Explains an object of a recording or a dump.

use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context as _, bail};
use loopwatch_model::finding::shell_word;
use loopwatch_model::observation::{ObjectAddress, ObjectView, Observation, WatchId};
use loopwatch_model::settings::Settings;
use loopwatch_model::snapshot::Explanation;
use loopwatch_model::time::Timestamp;

use crate::app;
use crate::cli::check;
use crate::cli::file::{find_in_file, for_each_observation};
use crate::config::JudgeFlags;
use crate::export::view::{BlindSpot, ObjectQuestion, View as _};
use crate::sources::api_server::WantedNamespaces;

/// The last version of one object in the observations.
struct LastView {
    object: ObjectAddress,
    /// The watches of its kind.
    watches: Vec<WatchId>,
    view: Option<ObjectView>,
}

/// Explains the object at the time `at`, or at the end.
pub(super) fn read(
    path: &Path,
    at: Option<Timestamp>,
    judge: &JudgeFlags,
    settings: Settings,
    question: &ObjectQuestion,
) -> anyhow::Result<(Explanation, Vec<BlindSpot>)> {
    if question.is_about_namespace() {
        let (name, file) = (shell_word(&question.name), shell_word(&path.to_string_lossy()));
        bail!(
            "explain shows no namespaces from a file. For the objects in it, run `loopwatch what-if delete namespace {name} \
             --from {file}`; `loopwatch check --from {file}` says whether its deletion hangs"
        );
    }

    let (model, input) =
        check::judge_file(path, at, judge, &WantedNamespaces::default(), settings)?;
    let not_visible = input.blind_spots_of_one_object(&model.snapshot());
    let model = Mutex::new(model);
    let object = app::runtime()?.block_on(find_in_file(path, &model, question))?;
    let mut explanation = model.explain(&object).context("the object has disappeared")?;

    // The model keeps neither managers nor reasons and messages.
    if let Some(view) = last_view(path, at, object) {
        explanation.add_view(&view);
    }

    Ok((explanation, not_visible))
}

fn last_view(path: &Path, at: Option<Timestamp>, object: ObjectAddress) -> Option<ObjectView> {
    let mut last = LastView { object, watches: Vec::new(), view: None };
    for_each_observation(path, at, |observation| last.see(observation)).ok()?;
    last.view
}

impl LastView {
    fn see(&mut self, observation: Observation) {
        let ObjectAddress { group, kind, namespace, name } = &self.object;
        match observation {
            Observation::KindsDiscovered(kinds) => {
                let of_kind =
                    kinds.into_iter().filter(|other| other.group == *group && other.kind == *kind);
                self.watches = of_kind.map(|kind| kind.watch).collect();
            }
            Observation::Listed { watch, object } | Observation::Applied { watch, object }
                if object.key.name == *name
                    && object.key.namespace == *namespace
                    && self.watches.contains(&watch) =>
            {
                self.view = Some(*object);
            }
            _ => {}
        }
    }
}
