//! Splits a body that arrives in chunks into documents, and buffers at most one of them.

use bytes::{Bytes, BytesMut};

/// Splits a watch stream into lines.
pub(crate) struct LineSplitter {
    buffer: BytesMut,
    scanned: usize,
    limit: usize,
}

/// Splits a list into its items. Keeps the list without its items as a small document, the envelope.
pub(crate) struct ItemSplitter {
    buffer: BytesMut,
    scanned: usize,
    limit: usize,
    position: ListPosition,
    depth: u32,
    in_text: bool,
    escaped: bool,
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

/// A document exceeds the limit, so the rest of the body is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one document is larger than {0} bytes")]
pub(crate) struct TooLarge(pub(crate) usize);

/// Largest envelope, in bytes. It holds little more than `metadata`.
const ENVELOPE_LIMIT: usize = 64 << 10;
/// Capacity in bytes above which an empty buffer is freed.
const KEEP_CAPACITY: usize = 64 << 10;

// === impl LineSplitter ===

impl LineSplitter {
    pub(crate) fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, limit }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete line without its end; `None` if more data is needed. Skips empty lines.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, TooLarge> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
                self.scanned = self.buffer.len();
                shrink(&mut self.buffer);
                return if self.scanned > self.limit { Err(TooLarge(self.limit)) } else { Ok(None) };
            };
            let mut line = self.buffer.split_to(self.scanned + end + 1);
            self.scanned = 0;
            line.truncate(line.trim_ascii_end().len());
            if line.len() > self.limit {
                return Err(TooLarge(self.limit));
            }
            if !line.is_empty() {
                return Ok(Some(line.freeze()));
            }
        }
    }

    /// Whether the buffer holds an incomplete line.
    pub(crate) fn is_mid_line(&self) -> bool {
        !self.buffer.trim_ascii().is_empty()
    }
}

// === impl ItemSplitter ===

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
            envelope: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete item; `None` if more data is needed.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, TooLarge> {
        while let Some(&byte) = self.buffer.get(self.scanned) {
            self.scanned += 1;
            match self.position {
                ListPosition::Envelope => {
                    self.envelope.push(byte);
                    if self.envelope.len() > ENVELOPE_LIMIT {
                        return Err(TooLarge(ENVELOPE_LIMIT));
                    }
                    if byte == b'[' && !self.in_text && self.depth == 1 && is_items(&self.envelope) {
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
                    if self.depth == 1 && !self.in_text && byte == b'}' {
                        let item = self.buffer.split_to(self.scanned);
                        self.scanned = 0;
                        self.position = ListPosition::Between;
                        return Ok(Some(item.freeze()));
                    }
                    if self.scanned > self.limit {
                        return Err(TooLarge(self.limit));
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
            while let Some(item) = items.next().expect("within the limit") {
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
            assert_eq!(found, [r#"{"a":"}]\\\"{"}"#, r#"{"b":[{"c":{}}]}"#, "{}"], "in pieces of {piece}");
            let rest: serde_json::Value = serde_json::from_str(&envelope).expect("what is left is a document");
            assert_eq!(rest["tail"], "items");
            assert_eq!(rest["metadata"]["continue"], "x\"items\":[");
            assert!(rest["items"].as_array().is_some_and(Vec::is_empty));
        }
    }

    #[test]
    fn a_list_without_items_yields_nothing() {
        for document in [r#"{"items":null,"metadata":{}}"#, r#"{"items":[]}"#, r#"{"metadata":{}}"#] {
            assert_eq!(items(document, 1), (vec![], document.to_owned()));
        }
    }

    #[test]
    fn an_item_or_line_over_the_limit_is_refused_before_it_is_complete() {
        let mut items = ItemSplitter::new(10);
        items.push(br#"{"items":[{"a":1},{"b":"0123456789"#);
        assert!(items.next().is_ok_and(|item| item.is_some()));
        assert_eq!(items.next(), Err(TooLarge(10)));
        let mut lines = LineSplitter::new(10);
        lines.push(b"short\n0123456789a");
        assert!(lines.next().is_ok_and(|line| line.is_some()));
        assert_eq!(lines.next(), Err(TooLarge(10)));
    }

    #[test]
    fn only_complete_lines_are_returned() {
        let mut lines = LineSplitter::new(100);
        lines.push(b"{\"a\":1}\r\n\n{\"b\"");
        assert_eq!(lines.next().ok().flatten().as_deref(), Some(&b"{\"a\":1}"[..]));
        assert_eq!(lines.next(), Ok(None));
        assert!(lines.is_mid_line());
        lines.push(b":2}\n");
        assert_eq!(lines.next().ok().flatten().as_deref(), Some(&b"{\"b\":2}"[..]));
        assert_eq!(lines.next(), Ok(None));
        assert!(!lines.is_mid_line());
    }
}
