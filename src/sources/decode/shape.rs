//! Visitors that take any shape.
//!
//! A serde visitor refuses what it does not expect, and one refusal would lose the whole object. A [`Shape`] has an
//! answer for everything instead: it overrides what it understands, and the rest ends in [`Shape::other`].

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Something that makes sense of a value of any shape.
pub(super) trait Shape<'de>: Sized {
    /// What comes out.
    type Out;

    /// The answer to a shape that is not understood.
    fn other(self) -> Self::Out;

    /// Null: mostly as good as absent.
    fn null(self) -> Self::Out {
        self.other()
    }

    /// A boolean.
    fn flag(self, _value: bool) -> Self::Out {
        self.other()
    }

    /// A number that fits.
    fn whole(self, _value: i64) -> Self::Out {
        self.other()
    }

    /// Any other number.
    fn float(self, _value: f64) -> Self::Out {
        self.other()
    }

    /// A text.
    fn text(self, _value: &str) -> Self::Out {
        self.other()
    }

    /// A list.
    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Out, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self.other())
    }

    /// A map.
    fn map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Out, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self.other())
    }
}

/// Lets serde drive a [`Shape`].
pub(super) struct Take<S>(pub(super) S);

/// Hands the text of a map key, or of any scalar that stands for one, to a function.
pub(super) struct Key<F>(pub(super) F);

/// Makes a [`Shape`] of a function over texts; anything else is `None`.
pub(super) struct Text<F, T>(F, PhantomData<T>);

// === impl Take ===

impl<'de, S: Shape<'de>> DeserializeSeed<'de> for Take<S> {
    type Value = S::Out;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Out, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: Shape<'de>> Visitor<'de> for Take<S> {
    type Value = S::Out;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<S::Out, E> {
        Ok(self.0.flag(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<S::Out, E> {
        Ok(self.0.whole(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<S::Out, E> {
        Ok(match i64::try_from(value) {
            Ok(value) => self.0.whole(value),
            Err(_) => self.0.float(value as f64),
        })
    }

    fn visit_f64<E>(self, value: f64) -> Result<S::Out, E> {
        Ok(self.0.float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<S::Out, E> {
        Ok(self.0.text(value))
    }

    fn visit_unit<E>(self) -> Result<S::Out, E> {
        Ok(self.0.null())
    }

    fn visit_none<E>(self) -> Result<S::Out, E> {
        Ok(self.0.null())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Out, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Out, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bytes<E>(self, _value: &[u8]) -> Result<S::Out, E> {
        Ok(self.0.other()) // YAML's !!binary; JSON has none
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<S::Out, A::Error> {
        self.0.list(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<S::Out, A::Error> {
        self.0.map(entries)
    }
}

// === impl Key ===

impl<'de, T: Default, F: FnOnce(&str) -> T> DeserializeSeed<'de> for Key<F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(Take(self))
    }
}

impl<'de, T: Default, F: FnOnce(&str) -> T> Shape<'de> for Key<F> {
    type Out = T;

    fn other(self) -> T {
        T::default()
    }

    fn text(self, value: &str) -> T {
        (self.0)(value)
    }

    // YAML has keys that are not texts; in JSON they would have been.
    fn flag(self, value: bool) -> T {
        (self.0)(if value { "true" } else { "false" })
    }

    fn whole(self, value: i64) -> T {
        (self.0)(&value.to_string())
    }
}

// === impl Text ===

impl<F, T> Text<F, T> {
    pub(super) fn new(read: F) -> Take<Self>
    where
        F: FnOnce(&str) -> T,
    {
        Take(Self(read, PhantomData))
    }
}

impl<T, F: FnOnce(&str) -> T> Shape<'_> for Text<F, T> {
    type Out = Field<T>;

    fn other(self) -> Field<T> {
        Field::Wrong
    }

    fn null(self) -> Field<T> {
        Field::Absent
    }

    fn text(self, value: &str) -> Field<T> {
        Field::Is((self.0)(value))
    }
}

/// A field of which one type is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<T> {
    /// Null, which is as good as absent.
    Absent,
    /// As expected.
    Is(T),
    /// Of another type.
    Wrong,
}

/// Expects a number, also as text.
pub(super) struct Whole;

/// Expects a boolean, also as text.
pub(super) struct Flag;

impl Shape<'_> for Whole {
    type Out = Field<i64>;

    fn other(self) -> Field<i64> {
        Field::Wrong
    }

    fn null(self) -> Field<i64> {
        Field::Absent
    }

    fn whole(self, value: i64) -> Field<i64> {
        Field::Is(value)
    }

    fn float(self, value: f64) -> Field<i64> {
        // YAML and some serialisers write 3.0 for 3.
        if value.fract() == 0.0 && value.abs() < 9e15 { Field::Is(value as i64) } else { Field::Wrong }
    }

    fn text(self, value: &str) -> Field<i64> {
        match value.trim() {
            "" => Field::Absent,
            text => text.parse().map_or(Field::Wrong, Field::Is),
        }
    }
}

impl Shape<'_> for Flag {
    type Out = Field<bool>;

    fn other(self) -> Field<bool> {
        Field::Wrong
    }

    fn null(self) -> Field<bool> {
        Field::Absent
    }

    fn flag(self, value: bool) -> Field<bool> {
        Field::Is(value)
    }

    fn text(self, value: &str) -> Field<bool> {
        match value {
            "true" | "True" => Field::Is(true),
            "false" | "False" => Field::Is(false),
            _ => Field::Wrong,
        }
    }
}
