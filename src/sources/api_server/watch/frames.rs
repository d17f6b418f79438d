//! Splits a body that arrives in chunks into documents, and buffers at most one of them. Skips
//! documents that are too large.

use bytes::{Bytes, BytesMut};

/// One document of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The complete text.
    Document(Bytes),
    /// The document exceeds the limit, and the splitter skips it.
    Oversized,
}

/// Splits a watch stream into lines.
pub(crate) struct LineSplitter {
    buffer: BytesMut,
    scanned: usize,
    limit: usize,
    /// Whether the current line exceeds the limit.
    skips: bool,
}

/// Splits a list into its items. Keeps the list without its items as a small document, the
/// envelope.
pub(crate) struct ItemSplitter {
    buffer: BytesMut,
    scanned: usize,
    limit: usize,
    position: ListPosition,
    depth: u32,
    in_text: bool,
    escaped: bool,
    /// Whether the current item exceeds the limit.
    skips: bool,
    envelope: Vec<u8>,
}

/// The position of the next byte in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListPosition {
    /// Outside `items`.
    Envelope,
    /// Between two items.
    Between,
    /// Inside an item.
    Item,
}

/// The envelope exceeds the limit, so the body is not a list of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the list without its items is larger than {ENVELOPE_LIMIT} bytes")]
pub(crate) struct EnvelopeTooLarge;

/// Largest envelope, in bytes. It holds little more than `metadata`.
const ENVELOPE_LIMIT: usize = 64 << 10;
/// Capacity in bytes above which an empty buffer is freed.
const KEEP_CAPACITY: usize = 64 << 10;

impl LineSplitter {
    pub(crate) fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, limit, skips: false }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete line without its end; `None` if more data is needed. Skips empty lines.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
                self.scanned = self.buffer.len();
                let exceeds = self.scanned > self.limit;
                if exceeds || self.skips {
                    self.buffer.clear();
                    self.scanned = 0;
                }

                shrink(&mut self.buffer);
                let begins = exceeds && !self.skips;
                self.skips |= exceeds;
                return begins.then_some(Frame::Oversized);
            };

            let mut line = self.buffer.split_to(self.scanned + end + 1);
            self.scanned = 0;
            if std::mem::take(&mut self.skips) {
                continue;
            }

            // With its blanks, as if the line had arrived in several chunks.
            line.truncate(line.len() - 1);
            if line.len() > self.limit {
                return Some(Frame::Oversized);
            }

            line.truncate(line.trim_ascii_end().len());

            if !line.is_empty() {
                return Some(Frame::Document(line.freeze()));
            }
        }
    }

    /// Whether the buffer holds an incomplete line.
    pub(crate) fn is_mid_line(&self) -> bool {
        self.skips || !self.buffer.trim_ascii().is_empty()
    }
}

impl ItemSplitter {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            scanned: 0,
            limit,
            position: ListPosition::Envelope,
            depth: 0,
            in_text: false,
            escaped: false,
            skips: false,
            envelope: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete item; `None` if more data is needed.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, EnvelopeTooLarge> {
        while let Some(&byte) = self.buffer.get(self.scanned) {
            self.scanned += 1;
            match self.position {
                ListPosition::Envelope => {
                    self.envelope.push(byte);
                    if self.envelope.len() > ENVELOPE_LIMIT {
                        return Err(EnvelopeTooLarge);
                    }

                    if byte == b'[' && !self.in_text && self.depth == 1 && is_items(&self.envelope)
                    {
                        self.position = ListPosition::Between;
                    } else {
                        self.track(byte);
                    }
                }
                ListPosition::Between if byte == b']' => {
                    self.envelope.push(byte);
                    self.position = ListPosition::Envelope;
                    self.skip();
                }
                ListPosition::Between if byte == b',' || byte.is_ascii_whitespace() => self.skip(),
                ListPosition::Between => {
                    let _ = self.buffer.split_to(self.scanned - 1);
                    self.scanned = 1;
                    self.position = ListPosition::Item;
                    self.track(byte);
                }
                ListPosition::Item => {
                    self.track(byte);
                    let ends = self.depth == 1 && !self.in_text && byte == b'}';
                    let exceeds = self.scanned > self.limit;
                    if !ends && !exceeds {
                        continue;
                    }

                    let item = self.buffer.split_to(self.scanned);
                    self.scanned = 0;
                    let skipped = std::mem::replace(&mut self.skips, !ends);
                    if ends {
                        self.position = ListPosition::Between;
                    }

                    match (skipped, exceeds) {
                        (false, true) => return Ok(Some(Frame::Oversized)),
                        (false, false) => return Ok(Some(Frame::Document(item.freeze()))),
                        (true, _) => {} // has been reported
                    }
                }
            }
        }

        if self.position != ListPosition::Item {
            self.skip();
        }

        shrink(&mut self.buffer);
        Ok(None)
    }

    /// The list without its items.
    pub(crate) fn envelope(&self) -> &[u8] {
        &self.envelope
    }

    fn skip(&mut self) {
        let _ = self.buffer.split_to(self.scanned);
        self.scanned = 0;
    }

    fn track(&mut self, byte: u8) {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_text => self.escaped = true,
            b'"' => self.in_text = !self.in_text,
            _ if self.in_text => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

/// Whether the envelope ends with the key `items`. Only a key precedes a colon.
fn is_items(envelope: &[u8]) -> bool {
    let before = envelope.strip_suffix(b"[").unwrap_or(envelope).trim_ascii_end();
    before.strip_suffix(b":").is_some_and(|before| {
        let before = before.trim_ascii_end();
        before.ends_with(b"\"items\"") && !before.ends_with(b"\\\"items\"")
    })
}

fn shrink(buffer: &mut BytesMut) {
    if buffer.is_empty() && buffer.capacity() > KEEP_CAPACITY {
        *buffer = BytesMut::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(document: &str, piece: usize) -> (Vec<String>, String) {
        let mut items = ItemSplitter::new(1000);
        let mut found = Vec::new();
        for chunk in document.as_bytes().chunks(piece) {
            items.push(chunk);
            while let Some(item) = items.next().expect("a small envelope") {
                let Frame::Document(item) = item else { panic!("within the limit") };
                found.push(String::from_utf8(item.to_vec()).expect("text"));
            }
        }

        (found, String::from_utf8(items.envelope().to_vec()).expect("text"))
    }

    #[test]
    fn a_list_is_split_into_its_items_wherever_the_chunks_end() {
        let document = r#"{"kind":"L","metadata":{"items":[1,{"a":2}],"continue":"x\"items\":["},
            "items" : [ {"a":"}]\\\"{"} , {"b":[{"c":{}}]},{}
            ],"tail":"items"}"#;
        for piece in 1..document.len() + 1 {
            let (found, envelope) = items(document, piece);
            assert_eq!(
                found,
                [r#"{"a":"}]\\\"{"}"#, r#"{"b":[{"c":{}}]}"#, "{}"],
                "in pieces of {piece}"
            );

            let rest: serde_json::Value =
                serde_json::from_str(&envelope).expect("what is left is a document");

            assert_eq!(rest["tail"], "items");
            assert_eq!(rest["metadata"]["continue"], "x\"items\":[");
            assert!(rest["items"].as_array().is_some_and(Vec::is_empty));
        }
    }

    #[test]
    fn a_list_without_items_yields_nothing() {
        for document in [r#"{"items":null,"metadata":{}}"#, r#"{"items":[]}"#, r#"{"metadata":{}}"#]
        {
            assert_eq!(items(document, 1), (vec![], document.to_owned()));
        }
    }

    #[test]
    fn an_item_over_the_limit_is_skipped_wherever_the_chunks_end() {
        let large = format!(r#"{{"b":"}}]{}\"","c":[{{}}]}}"#, "0".repeat(30));
        let document = format!(
            r#"{{"items":[{{"a":1}},{large},{{"c":3}},{{"d":1234}},{{"e":12345}},{large}],"metadata":{{"continue":"t"}}}}"#
        );
        for piece in 1..document.len() + 1 {
            let (mut items, mut found, mut largest) = (ItemSplitter::new(10), Vec::new(), 0);
            for chunk in document.as_bytes().chunks(piece) {
                items.push(chunk);
                while let Some(item) = items.next().expect("a small envelope") {
                    found.push(item);
                }

                largest = largest.max(items.buffer.len());
            }

            let document =
                |text: &'static str| Frame::Document(Bytes::from_static(text.as_bytes()));
            let expected = [
                document(r#"{"a":1}"#),
                Frame::Oversized,
                document(r#"{"c":3}"#),
                document(r#"{"d":1234}"#),
                Frame::Oversized, // by one byte
                Frame::Oversized,
            ];

            assert_eq!(found, expected, "in pieces of {piece}");
            assert_eq!(
                items.envelope(),
                br#"{"items":[],"metadata":{"continue":"t"}}"#,
                "in pieces of {piece}"
            );
            assert!(largest <= 10, "keeps {largest} bytes of a skipped item");
        }
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_wherever_the_chunks_end() {
        let text = format!("short\n{}\nnext\n{}\nlast\n", "0".repeat(11), "1".repeat(50));
        for piece in 1..text.len() + 1 {
            let (mut lines, mut found) = (LineSplitter::new(10), Vec::new());
            for chunk in text.as_bytes().chunks(piece) {
                lines.push(chunk);
                found.extend(std::iter::from_fn(|| lines.next()));

                assert!(lines.buffer.len() <= 10, "keeps bytes of a skipped line");
            }

            let line = |text: &'static str| Frame::Document(Bytes::from_static(text.as_bytes()));
            let expected =
                [line("short"), Frame::Oversized, line("next"), Frame::Oversized, line("last")];

            assert_eq!(found, expected, "in pieces of {piece}");
            assert!(!lines.is_mid_line());
        }
    }

    #[test]
    fn blanks_count_towards_the_limit_wherever_the_chunks_end() {
        let text = b"a   \n1234567890\nshort      \n           \n";
        for piece in 1..text.len() + 1 {
            let (mut lines, mut found) = (LineSplitter::new(10), Vec::new());
            for chunk in text.chunks(piece) {
                lines.push(chunk);
                found.extend(std::iter::from_fn(|| lines.next()));
            }

            let line = |text: &'static str| Frame::Document(Bytes::from_static(text.as_bytes()));
            let expected = [line("a"), line("1234567890"), Frame::Oversized, Frame::Oversized];
            assert_eq!(found, expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn only_complete_lines_are_returned() {
        let mut lines = LineSplitter::new(100);
        lines.push(b"{\"a\":1}\r\n\n{\"b\"");

        assert_eq!(lines.next(), Some(Frame::Document(Bytes::from_static(b"{\"a\":1}"))));
        assert_eq!(lines.next(), None);
        assert!(lines.is_mid_line());

        lines.push(b":2}\n");
        assert_eq!(lines.next(), Some(Frame::Document(Bytes::from_static(b"{\"b\":2}"))));
        assert_eq!(lines.next(), None);
        assert!(!lines.is_mid_line());
    }
}
