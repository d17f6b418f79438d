//! JSON of an object to its view.

use loopwatch::sources::decoding::{DecodeOptions, Extra, HashKey, object, object_with_type};
use loopwatch_model::observation::{Condition, FactValue, ObjectView, Observation};
use serde_json::Value;

use crate::limits::bounded;
use crate::recordings::check_recorded;
use crate::world::{check_outputs, life, model, watch};

pub(crate) const KEY: HashKey = HashKey([7; 16]);
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

        check_limits(&view);
        check_other_spellings(input, &view, options);
        let watch = watch();
        check_recorded(Observation::Applied {
            watch: watch.clone(),
            object: Box::new(view.clone()),
        });
        if extra == Extra::None {
            let kinds = life(view.clone()).snapshot().kinds;
            let mut watches = kinds.iter().flat_map(|kind| &kind.watches);
            assert!(watches.all(|watch| watch.totals.objects == 0), "it is deleted");
            check_outputs(model([Observation::Applied { watch, object: Box::new(view) }]));
        }
    }
}

/// The lists and the texts of a view are limited.
pub(crate) fn check_limits(view: &ObjectView) {
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

    let owners = view
        .owners
        .iter()
        .flat_map(|owner| [&owner.api_version, &owner.kind, &owner.name, &owner.uid]);
    let conditions = view.conditions.iter().flat_map(|condition| {
        let Condition { at, r#type, reason, message, severity, .. } = condition;
        [at, r#type, reason, message, severity]
    });
    let managers = view.managers.iter().flat_map(|manager| {
        assert!(manager.finalizers.len() <= MAX_ITEMS);
        manager.finalizers.iter().chain([&manager.name, &manager.subresource])
    });
    let references = view.references.iter().flat_map(|reference| {
        [&reference.group, &reference.kind, &reference.namespace, &reference.name]
    });
    let attempts = view.attempts.iter().flat_map(|attempts| [&attempts.handler, &attempts.error]);
    let facts = view.facts.iter().filter_map(|fact| match &fact.value {
        FactValue::Text(text) => Some(text),
        FactValue::Flag(_) | FactValue::Number(_) => None,
    });

    let names = [&view.key.namespace, &view.key.name, &view.uid, &view.version];
    let texts = names.into_iter().chain(&view.finalizers).chain(owners).chain(conditions);
    let texts = texts.chain(managers).chain(references).chain(attempts).chain(facts);
    let texts = texts.chain(view.annotations.iter().chain(&view.labels).flat_map(<[_; 2]>::from));
    let mut texts = texts.chain(view.startup.iter().map(|read| &read.name)).chain(&view.lints);
    let long = texts.find(|text| text.len() > MAX_TEXT);
    assert_eq!(long, None, "longer than {MAX_TEXT} bytes");

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
    let text = serde_json::to_string(&value).expect("JSON again");
    // Of two keys, the value has only the last one, perhaps without the name.
    if object(text.as_bytes(), options).is_err() {
        return;
    }

    let escaped = escaped(&text);
    let compact = spelled(Ok(text));

    assert_eq!(compact, spelled(serde_json::to_string_pretty(&value)));
    assert_eq!(compact, spelled(Ok(escaped)));
    // A duplicate key is lost in the value.
    if serde_json::to_vec(&value).is_ok_and(|again| again == input) {
        assert_eq!(compact, ObjectView { bytes: 0, ..view.clone() });
    }
}

/// The same JSON, without blanks, with an escape for every character of a text.
fn escaped(compact: &str) -> String {
    let (mut escaped, mut in_text) = (String::new(), false);
    let mut characters = compact.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => in_text = !in_text,
            '\\' => {
                // An escape stays as it is. Only `u` has more than one character after it.
                escaped.push('\\');
                let kind = characters.next().expect("an escape");
                escaped.push(kind);
                let digits = if kind == 'u' { 4 } else { 0 };
                escaped.extend(characters.by_ref().take(digits));
                continue;
            }
            _ if in_text => {
                let units = character.encode_utf16(&mut [0; 2]).to_vec();
                escaped.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
                continue;
            }
            _ => {}
        }

        escaped.push(character);
    }

    escaped
}
