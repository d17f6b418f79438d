//! What comes out of objects of all shapes.

use loopwatch_model::observation::{ConditionStatus, FactValue, StatusShape};

use super::*;

const KEY: HashKey = HashKey([7; 16]);

fn view(json: &str) -> ObjectView {
    object(json.as_bytes(), &KEY).unwrap_or_else(|error| panic!("{json}: {error}"))
}

#[test]
fn smoke() {
    let view = view(
        r#"{"apiVersion":"a/v1","kind":"K","metadata":{"name":"n","generation":2},"spec":{"replicas":3,"suspend":true},
        "status":{"observedGeneration":"2","phase":"Ready","conditions":[{"type":"Ready","status":"True"}]}}"#,
    );
    assert_eq!(view.observed_generation, Some(2));
    assert_eq!(view.conditions[0].status, ConditionStatus::True);
    assert_eq!(view.fact("status.phase"), Some(&FactValue::Text("Ready".into())));
    assert_eq!(view.fact("spec.replicas"), Some(&FactValue::Number(3)));
    assert_eq!(view.paused.as_ref().map(|pause| pause.by.as_str()), Some("spec.suspend"));
    assert_eq!(view.status, StatusShape::Filled);
}
