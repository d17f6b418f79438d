//! Single fields of metadata: each reads one value of the expected type, and adds a lint for any
//! other type.

use loopwatch_model::time::Timestamp;
use serde::de::{IgnoredAny, MapAccess, SeqAccess};

use super::limits::MAX_NAME;
use super::lint::{Lint, Lints};
use super::shape::{BoolField, FieldValue, IntegerField, TextField, Visit};
use super::words::cut;

/// Cuts a name at its limit, and adds a lint if it was longer.
pub(super) fn name_text(text: &str, lints: &mut Lints) -> String {
    let kept = cut(text, MAX_NAME);
    if kept.len() < text.len() {
        lints.add(Lint::LongName);
    }

    kept.to_owned()
}

/// Reads a name, empty if absent; adds the lint if the value is not text.
pub(super) fn text<'de, A: MapAccess<'de>>(
    entries: &mut A,
    lints: &mut Lints,
    lint: Lint,
) -> Result<String, A::Error> {
    Ok(match entries.next_value_seed(TextField::new(|text: &str| name_text(text, lints)))? {
        FieldValue::Is(text) => text,
        FieldValue::Absent => String::new(),
        FieldValue::Wrong => {
            lints.add(lint);
            String::new()
        }
    })
}

/// Reads an integer; adds the lint if the value is of another type.
pub(super) fn whole<'de, A: MapAccess<'de>>(
    entries: &mut A,
    lints: &mut Lints,
    lint: Lint,
) -> Result<Option<i64>, A::Error> {
    Ok(match entries.next_value_seed(Visit(IntegerField))? {
        FieldValue::Is(value) => Some(value),
        FieldValue::Absent => None,
        FieldValue::Wrong => {
            lints.add(lint);
            None
        }
    })
}

/// Reads a time; adds the lint if the value is not a valid time.
pub(super) fn time<'de, A: MapAccess<'de>>(
    entries: &mut A,
    lints: &mut Lints,
    lint: Lint,
) -> Result<Option<Timestamp>, A::Error> {
    Ok(match entries.next_value_seed(TextField::new(Timestamp::parse))? {
        FieldValue::Is(Some(time)) => Some(time),
        FieldValue::Absent => None,
        FieldValue::Is(None) | FieldValue::Wrong => {
            lints.add(lint);
            None
        }
    })
}

/// Reads a boolean, false if absent; adds the lint if the value is of another type.
pub(super) fn flag<'de, A: MapAccess<'de>>(
    entries: &mut A,
    lints: &mut Lints,
    lint: Lint,
) -> Result<bool, A::Error> {
    Ok(match entries.next_value_seed(Visit(BoolField))? {
        FieldValue::Is(value) => value,
        FieldValue::Absent => false,
        FieldValue::Wrong => {
            lints.add(lint);
            false
        }
    })
}

/// Skips the rest of a list that exceeds its limit, and adds the lint.
pub(super) fn skip_rest<'de, A: SeqAccess<'de>>(
    items: &mut A,
    lints: &mut Lints,
    lint: Lint,
) -> Result<(), A::Error> {
    while items.next_element::<IgnoredAny>()?.is_some() {
        lints.add(lint);
    }
    Ok(())
}
