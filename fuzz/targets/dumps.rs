//! Dumps of a cluster.

use loopwatch::fuzzing::{DumpView, DumpedObject, dump};
use loopwatch::sources::decoding::{DecodeOptions, Extra};
use loopwatch_model::observation::ObjectView;
use serde_json::{Deserializer, Value};

use crate::limits::{bounded, is_plain};
use crate::objects::{KEY, check_limits};
use crate::recordings::check_recorded;
use crate::world::{check_outputs, model};

/// The limit of `src/sources/offline/dump.rs`.
const MAX_PROBLEMS: usize = 100;
/// The longest problem, in bytes.
const MAX_PROBLEM: usize = 512;

/// The input is the text of a file.
pub(crate) fn dumps(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let view = bounded(input, 16 << 20, 1 << 10, || read(text));

    check(&view);
    check_parts(text, &view);
    check_other_spellings(text);
    view.observations.iter().cloned().for_each(check_recorded);
    check_outputs(model(view.observations));
}

fn read(text: &str) -> DumpView {
    let annotations = ["example.io/".to_owned()];
    dump(text, DecodeOptions { key: &KEY, annotations: &annotations, extra: Extra::None })
}

fn check(view: &DumpView) {
    assert!(view.problems.len() <= MAX_PROBLEMS);
    assert!(view.more_problems == 0 || view.problems.len() == MAX_PROBLEMS);
    let odd = view.problems.iter().find(|text| text.len() > MAX_PROBLEM || !is_plain(text));
    assert_eq!(odd, None, "a problem is one short line");

    assert_eq!(view.lost, [], "an object of the dump is not found in it");
    for (group, kind, object) in &view.objects {
        assert!(!kind.is_empty() && !object.key.name.is_empty(), "{group} {object:?}");
        check_limits(object);
    }
}

/// Each document of a YAML text gives the same objects and problems in a file of its own.
fn check_parts(text: &str, whole: &DumpView) {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{') {
        return;
    }

    let parts: Vec<DumpView> = documents(text).iter().map(|part| read(part)).collect();
    let problems: usize = parts.iter().map(number_of_problems).sum();
    assert_eq!(number_of_problems(whole), problems);
    assert_eq!(sorted(&[whole]), sorted(&parts.iter().collect::<Vec<_>>()));
}

/// The documents of a YAML text, each with a separator before it.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec!["---\n".to_owned()];
    for line in text.split_inclusive('\n') {
        let rest = line.strip_prefix("---");
        let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if rest.is_some() {
            documents.push("---\n".to_owned());
        }

        documents.last_mut().expect("the first one").push_str(rest.unwrap_or(line));
    }

    documents
}

/// The objects of JSON documents do not depend on blanks, and are the same in a list and in YAML.
fn check_other_spellings(text: &str) {
    let values: Result<Vec<Value>, _> = Deserializer::from_str(text).into_iter().collect();
    let Some(values) = values.ok().filter(|values| values.iter().all(Value::is_object)) else {
        return;
    };

    let join = |spell: fn(&Value) -> serde_json::Result<String>, between: &str| {
        values
            .iter()
            .map(|value| spell(value).expect("JSON again"))
            .collect::<Vec<_>>()
            .join(between)
    };
    let lines = join(serde_json::to_string, "\n");
    let compact = read(&lines);
    let indented = read(&join(serde_json::to_string_pretty, ""));
    assert_eq!(sorted(&[&compact]), sorted(&[&indented]));
    assert_eq!(number_of_problems(&compact), number_of_problems(&indented));

    let is_list = |value: &Value| value["kind"].as_str().is_none_or(|kind| kind.ends_with("List"));
    if !values.iter().any(is_list) {
        let items = lines.replace('\n', ",");
        let list = read(&format!(r#"{{"apiVersion":"v1","kind":"List","items":[{items}]}}"#));
        assert_eq!(sorted(&[&compact]), sorted(&[&list]));
    }

    // The parsers may read a number with a fraction as neighbours, and YAML has no very long keys.
    let yaml = read(&format!("---\n{}", join(serde_json::to_string, "\n---\n")));
    if !values.iter().any(has_fraction) && number_of_problems(&yaml) == 0 {
        assert_eq!(sorted(&[&compact]), sorted(&[&yaml]));
    }
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(fields) => fields.values().any(has_fraction),
        _ => false,
    }
}

fn number_of_problems(view: &DumpView) -> usize {
    view.problems.len() + view.more_problems
}

/// The objects by group and kind, without the lengths of their texts.
fn sorted(views: &[&DumpView]) -> Vec<DumpedObject> {
    let objects = views.iter().flat_map(|view| view.objects.iter().cloned());
    let mut objects: Vec<DumpedObject> = objects
        .map(|(group, kind, object)| (group, kind, ObjectView { bytes: 0, ..object }))
        .collect();

    objects.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1))); // stable
    objects
}
