//! Reads the wire format of protobuf from a stream: numbers, and nested messages, whose
//! end is all that the reader knows of them.
//!
//! A message is never in memory as a whole. An ordinary decoder builds a value for each nested
//! message, so it would turn 64 MiB of empty messages, which compress to almost nothing, into
//! gigabytes.

use std::io::{self, BufRead};

use loopwatch_model::observation::Cause;

pub(super) struct Wire<R> {
    input: R,
    /// The number of bytes read.
    at: u64,
    /// The maximum of `at`.
    limit: u64,
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) number: u64,
    pub(super) value: Value,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(u64),
    /// A text, a nested message or a list of numbers. The reader is at its first byte.
    Nested(End),
    /// A number in another format, which profiles do not use. It has been read.
    Other,
}

/// The position after a nested message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End(u64);

/// Why a profile cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("it ends early")]
    Truncated,
    #[error("{0}")]
    Invalid(&'static str),
    #[error("it has too many {0}")]
    TooLarge(&'static str),
}

impl<R: BufRead> Wire<R> {
    /// Reads at most `limit` bytes.
    pub(super) fn new(input: R, limit: u64) -> Self {
        Self { input, at: 0, limit }
    }

    /// Reads the next field of the outermost message; `None` at the end of the input.
    pub(super) fn outer_field(&mut self) -> Result<Option<Field>, Malformed> {
        if self.chunk()?.is_empty() {
            return Ok(None);
        }
        self.any_field(End(u64::MAX)).map(Some)
    }

    /// Reads the next field of a nested message; `None` at its end.
    pub(super) fn field(&mut self, end: End) -> Result<Option<Field>, Malformed> {
        match self.at < end.0 {
            true => self.any_field(end).map(Some),
            false => self.ends_at(end).map(|()| None),
        }
    }

    /// Reads the next number of a list; `None` at its end.
    pub(super) fn number(&mut self, end: End) -> Result<Option<u64>, Malformed> {
        match self.at < end.0 {
            true => self.varint().map(Some),
            false => self.ends_at(end).map(|()| None),
        }
    }

    /// Appends at most `limit` bytes of a text to `to`, and skips the rest.
    pub(super) fn text(
        &mut self,
        end: End,
        limit: usize,
        to: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let mut left = limit;
        while self.at < end.0 {
            let (rest, chunk) = (end.0 - self.at, self.chunk()?);
            let length = chunk.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
            to.extend_from_slice(&chunk[..length.min(left)]);
            left -= length.min(left);
            self.consume(length)?;
        }

        self.ends_at(end)
    }

    /// Skips the rest of a nested message.
    pub(super) fn skip(&mut self, end: End) -> Result<(), Malformed> {
        self.text(end, 0, &mut Vec::new())
    }

    fn any_field(&mut self, outer: End) -> Result<Field, Malformed> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.fixed(8)?,
            2 => {
                let length = self.varint()?;
                let end = self.at.checked_add(length).filter(|end| *end <= outer.0);
                Value::Nested(End(
                    end.ok_or(Malformed::Invalid("a field is longer than its message"))?
                ))
            }
            5 => self.fixed(4)?,
            _ => return Err(Malformed::Invalid("a field has an unknown wire type")),
        };

        Ok(Field { number: tag >> 3, value })
    }

    fn fixed(&mut self, bytes: u64) -> Result<Value, Malformed> {
        self.skip(End(self.at.saturating_add(bytes)))?;
        Ok(Value::Other)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;

            // The tenth byte has room for one bit.
            if shift == 63 && byte > 1 {
                break;
            }

            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }

        Err(Malformed::Invalid("a number has more than 64 bits"))
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = self.chunk()?.first().copied().ok_or(Malformed::Truncated)?;
        self.consume(1)?;
        Ok(byte)
    }

    /// The next bytes; empty only at the end of the input.
    fn chunk(&mut self) -> Result<&[u8], Malformed> {
        self.input.fill_buf().map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Malformed::Truncated,
            _ => Malformed::Invalid("it is not valid gzip"),
        })
    }

    fn consume(&mut self, bytes: usize) -> Result<(), Malformed> {
        if bytes == 0 {
            return Err(Malformed::Truncated);
        }

        self.input.consume(bytes);
        self.at += bytes as u64;
        if self.at > self.limit { Err(Malformed::TooLarge("bytes")) } else { Ok(()) }
    }

    /// A number at the end of a message may reach beyond it.
    fn ends_at(&self, end: End) -> Result<(), Malformed> {
        if self.at == end.0 {
            Ok(())
        } else {
            Err(Malformed::Invalid("a number is longer than its message"))
        }
    }
}

impl Malformed {
    pub(super) fn cause(self) -> Cause {
        match self {
            Self::TooLarge(_) => Cause::TooLarge,
            Self::Truncated | Self::Invalid(_) => Cause::Undecodable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(bytes: &[u8]) -> Wire<&[u8]> {
        Wire::new(bytes, 1 << 20)
    }

    #[test]
    fn fields_and_lists_are_read() {
        // 1: 300, 2: [1, 300], 3: "abc"
        let mut wire =
            wire(&[0x08, 0xac, 0x02, 0x12, 0x03, 0x01, 0xac, 0x02, 0x1a, 0x03, b'a', b'b', b'c']);

        assert_eq!(wire.outer_field(), Ok(Some(Field { number: 1, value: Value::Number(300) })));

        let Ok(Some(Field { number: 2, value: Value::Nested(end) })) = wire.outer_field() else {
            panic!("a list")
        };

        assert_eq!(
            [wire.number(end), wire.number(end), wire.number(end)],
            [Ok(Some(1)), Ok(Some(300)), Ok(None)]
        );

        let Ok(Some(Field { number: 3, value: Value::Nested(end) })) = wire.outer_field() else {
            panic!("a text")
        };
        let mut text = Vec::new();

        assert_eq!(wire.text(end, 2, &mut text), Ok(()));
        assert_eq!((text.as_slice(), wire.outer_field()), (&b"ab"[..], Ok(None)));
    }

    #[test]
    fn numbers_have_at_most_64_bits() {
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(wire(&largest).varint(), Ok(u64::MAX));

        for more in [[0xff; 10], [0x80; 10]] {
            assert!(matches!(wire(&more).varint(), Err(Malformed::Invalid(_))));
        }

        assert_eq!(wire(&[0x80]).varint(), Err(Malformed::Truncated));
    }

    #[test]
    fn nothing_reaches_beyond_its_message() {
        let outcome = |bytes: &[u8]| {
            let mut wire = wire(bytes);
            let Ok(Some(Field { value: Value::Nested(end), .. })) = wire.outer_field() else {
                panic!("a message")
            };
            while wire.field(end)?.is_some() {}

            Ok::<_, Malformed>(())
        };

        assert_eq!(outcome(&[0x12, 0x02, 0x08, 0x01]), Ok(()));
        assert!(
            matches!(outcome(&[0x12, 0x02, 0x08, 0x80, 0x01]), Err(Malformed::Invalid(_))),
            "a number"
        );
        assert!(
            matches!(outcome(&[0x12, 0x02, 0x0a, 0x7f, 0x01]), Err(Malformed::Invalid(_))),
            "a nested message"
        );

        assert_eq!(outcome(&[0x12, 0x7f, 0x08]), Err(Malformed::Truncated));
        assert!(
            matches!(outcome(&[0x12, 0x02, 0x0b, 0x01]), Err(Malformed::Invalid(_))),
            "a group"
        );
    }

    #[test]
    fn at_most_the_limit_is_read() {
        let mut wire = Wire::new(&[0x08, 0x01, 0x08, 0x01][..], 3);
        assert!(wire.outer_field().is_ok());
        assert_eq!(wire.outer_field(), Err(Malformed::TooLarge("bytes")));
    }
}
