//! How the status of operators is read, one status per line of `dialects.jsonl`: `is` gives the
//! verdict, `for` the rule that decides, where it matters. The statuses are invented, but follow
//! the operators' documentation and output.

use std::fmt::Write as _;

use loopwatch::sources::decoding::{HashKey, object_with_type};
use loopwatch_model::model::reading::{Reading, read};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct DialectCase<'a> {
    case: String,
    is: String,
    r#for: Option<String>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[test]
fn statuses_are_read_as_their_operators_intend() {
    let (mut read_cases, mut wrong) = (0, String::new());
    for (line, text) in include_str!("dialects.jsonl").lines().enumerate() {
        let case: DialectCase<'_> =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("line {}: {error}", line + 1));
        let (own, object) =
            object_with_type(case.object.get().as_bytes(), &HashKey([0; 16])).expect("an object");
        let group = own.api_version.split_once('/').map_or("", |(group, _)| group);
        let Reading { verdict, reason, signal, .. } = read(group, &own.kind, &object);
        let as_expected = format!("{verdict:?}") == case.is
            && case.r#for.as_ref().is_none_or(|r| r == reason.as_str());

        if !as_expected {
            let expected = case.r#for.unwrap_or_default();
            let _ = writeln!(
                wrong,
                "line {}, {}: expected {} {expected}, read {verdict:?} {} [{signal}]",
                line + 1,
                case.case,
                case.is,
                reason.as_str()
            );
        }

        read_cases += 1;
    }

    assert!(wrong.is_empty(), "{wrong}");
    assert!(read_cases > 200, "only {read_cases} cases");
}
