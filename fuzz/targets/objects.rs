//! JSON of an object to its view.

use loopwatch::sources::decoding::{DecodeOptions, Extra, HashKey, object, object_with_type};
use loopwatch_model::observation::{ObjectView, Observation};
use serde_json::Value;

use crate::limits::bounded;
use crate::recordings::check_recorded;
use crate::world::{check_outputs, model, watch};

const KEY: HashKey = HashKey([7; 16]);
/// The limits of `src/sources/decoding/limits.rs`.
const MAX_ITEMS: usize = 64;
const MAX_TEXT: usize = 256;
/// The longest path of a fact or a reference, in bytes: names of keys below each other.
const MAX_PATH: usize = 64 * MAX_TEXT;

/// The input is the JSON of an object.
pub(crate) fn decode(input: &[u8]) {
    let _ = object_with_type(input, &KEY);
    let annotations = ["example.io/".to_owned()];
    for extra in [Extra::Startup, Extra::Marks, Extra::None] {
        let options = DecodeOptions { key: &KEY, annotations: &annotations, extra };
        let decoded = bounded(input, 64 << 10, 64, || object(input, options));
        let Ok(view) = decoded else { continue };

        check(&view);
        check_other_spellings(input, &view, options);
        let watch = watch();
        check_recorded(Observation::Applied {
            watch: watch.clone(),
            object: Box::new(view.clone()),
        });
        if extra == Extra::None {
            check_outputs(model([Observation::Applied { watch, object: Box::new(view) }]));
        }
    }
}

fn check(view: &ObjectView) {
    let lengths = [
        view.finalizers.len(),
        view.owners.len(),
        view.annotations.len(),
        view.labels.len(),
        view.managers.len(),
        view.attempts.len(),
        view.conditions.len(),
        view.facts.len(),
        view.references.len(),
        view.startup.len(),
        view.lints.len(),
    ];
    assert!(lengths.iter().all(|length| *length <= MAX_ITEMS), "{lengths:?}");

    let owners = view.owners.iter().flat_map(|owner| [&owner.kind, &owner.name, &owner.uid]);
    let conditions = view.conditions.iter().flat_map(|condition| {
        [&condition.r#type, &condition.reason, &condition.message, &condition.severity]
    });
    let names = [&view.key.namespace, &view.key.name, &view.uid, &view.version];
    let texts = names.into_iter().chain(&view.finalizers).chain(owners).chain(conditions);
    let mut texts = texts.chain(view.annotations.values()).chain(view.labels.values());
    assert!(texts.all(|text| text.len() <= MAX_TEXT));

    let facts = view.facts.iter().map(|fact| &fact.path);
    let mut paths = facts.chain(view.references.iter().map(|reference| &reference.slot));
    assert!(paths.all(|path| path.len() <= MAX_PATH));
}

/// The view does not depend on blanks and escapes.
fn check_other_spellings(input: &[u8], view: &ObjectView, options: DecodeOptions<'_>) {
    let Ok(value) = serde_json::from_slice::<Value>(input) else { return };
    let spelled = |text: Result<String, serde_json::Error>| {
        let text = text.expect("JSON again");
        let mut view = object(text.as_bytes(), options).expect("an object again");
        view.bytes = 0;
        view
    };
    let compact = spelled(serde_json::to_string(&value));

    assert_eq!(compact, spelled(serde_json::to_string_pretty(&value)));
    // A duplicate key is lost in the value.
    if serde_json::to_vec(&value).is_ok_and(|again| again == input) {
        assert_eq!(compact, ObjectView { bytes: 0, ..view.clone() });
    }
}
