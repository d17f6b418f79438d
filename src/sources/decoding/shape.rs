//! Visitors that accept a value of any shape.
//!
//! An ordinary serde visitor refuses unexpected values, and one refusal would lose the whole
//! object. An [`AnyShape`] accepts every value: it reads the lists and maps that it has methods
//! for, and passes all other values to [`AnyShape::scalar`].

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A scalar, or a value whose content the visitor ignores.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scalar<'a> {
    Null,
    Flag(bool),
    Whole(i64),
    Float(f64),
    Text(&'a str),
    /// A list or a map whose content the visitor ignores, or a type that JSON lacks.
    Tree,
}

/// A visitor that accepts a value of any shape.
pub(super) trait AnyShape<'de>: Sized {
    type Out;

    /// Visits a scalar, and any list or map that the implementation has no method for.
    fn scalar(self, scalar: Scalar<'_>) -> Self::Out;

    /// Visits a list.
    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Out, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self.scalar(Scalar::Tree))
    }

    /// Visits a map.
    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Out, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self.scalar(Scalar::Tree))
    }
}

/// Lets serde drive an [`AnyShape`].
pub(super) struct Visit<S>(pub(super) S);

/// Passes the text of a map key to a function.
pub(super) struct MapKey<F>(pub(super) F);

/// Turns a function of a text into an [`AnyShape`].
pub(super) struct TextField<F, T>(F, PhantomData<T>);

/// Expects an integer, which may be written as text.
pub(super) struct IntegerField;

/// Expects a boolean, which may be written as text.
pub(super) struct BoolField;

/// The value of a field with an expected type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValue<T> {
    /// Null, which counts as absent.
    Absent,
    /// A value of the expected type.
    Is(T),
    /// A value of another type.
    Wrong,
}

impl<'de, S: AnyShape<'de>> DeserializeSeed<'de> for Visit<S> {
    type Value = S::Out;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Out, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: AnyShape<'de>> Visitor<'de> for Visit<S> {
    type Value = S::Out;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<S::Out, E> {
        Ok(self.0.scalar(Scalar::Flag(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<S::Out, E> {
        Ok(self.0.scalar(Scalar::Whole(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<S::Out, E> {
        Ok(match i64::try_from(value) {
            Ok(value) => self.0.scalar(Scalar::Whole(value)),
            Err(_) => self.0.scalar(Scalar::Float(value as f64)),
        })
    }

    fn visit_f64<E>(self, value: f64) -> Result<S::Out, E> {
        Ok(self.0.scalar(Scalar::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<S::Out, E> {
        Ok(self.0.scalar(Scalar::Text(value)))
    }

    fn visit_unit<E>(self) -> Result<S::Out, E> {
        Ok(self.0.scalar(Scalar::Null))
    }

    fn visit_none<E>(self) -> Result<S::Out, E> {
        Ok(self.0.scalar(Scalar::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Out, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<S::Out, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bytes<E>(self, _value: &[u8]) -> Result<S::Out, E> {
        Ok(self.0.scalar(Scalar::Tree)) // YAML's !!binary
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<S::Out, A::Error> {
        self.0.list(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<S::Out, A::Error> {
        self.0.map(entries)
    }
}

impl<'de, T: Default, F: FnOnce(&str) -> T> DeserializeSeed<'de> for MapKey<F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(Visit(self))
    }
}

impl<T: Default, F: FnOnce(&str) -> T> AnyShape<'_> for MapKey<F> {
    type Out = T;

    fn scalar(self, scalar: Scalar<'_>) -> T {
        match scalar {
            Scalar::Text(value) => (self.0)(value),
            // In YAML, keys may have other types. In JSON, all keys are strings.
            Scalar::Flag(value) => (self.0)(if value { "true" } else { "false" }),
            Scalar::Whole(value) => (self.0)(&value.to_string()),
            Scalar::Null | Scalar::Float(_) | Scalar::Tree => T::default(),
        }
    }
}

impl<F, T> TextField<F, T> {
    pub(super) fn new(read: F) -> Visit<Self>
    where
        F: FnOnce(&str) -> T,
    {
        Visit(Self(read, PhantomData))
    }
}

impl<T, F: FnOnce(&str) -> T> AnyShape<'_> for TextField<F, T> {
    type Out = FieldValue<T>;

    fn scalar(self, scalar: Scalar<'_>) -> FieldValue<T> {
        match scalar {
            Scalar::Null => FieldValue::Absent,
            Scalar::Text(value) => FieldValue::Is((self.0)(value)),
            _ => FieldValue::Wrong,
        }
    }
}

impl AnyShape<'_> for IntegerField {
    type Out = FieldValue<i64>;

    fn scalar(self, scalar: Scalar<'_>) -> FieldValue<i64> {
        match scalar {
            Scalar::Null => FieldValue::Absent,
            Scalar::Whole(value) => FieldValue::Is(value),
            // YAML and some serializers write 3.0 for 3.
            Scalar::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                FieldValue::Is(value as i64)
            }
            Scalar::Text(value) => match value.trim() {
                "" => FieldValue::Absent,
                text => text.parse().map_or(FieldValue::Wrong, FieldValue::Is),
            },
            _ => FieldValue::Wrong,
        }
    }
}

impl AnyShape<'_> for BoolField {
    type Out = FieldValue<bool>;

    fn scalar(self, scalar: Scalar<'_>) -> FieldValue<bool> {
        match scalar {
            Scalar::Null => FieldValue::Absent,
            Scalar::Flag(value) => FieldValue::Is(value),
            Scalar::Text("true" | "True") => FieldValue::Is(true),
            Scalar::Text("false" | "False") => FieldValue::Is(false),
            _ => FieldValue::Wrong,
        }
    }
}
