//! The parsers of a watch, for the fuzz targets.

use super::event::{ListEnvelope, WatchEvent};
use super::frames::{Frame, ItemSplitter, LineSplitter};

/// The documents of a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Split {
    /// Each document; `None` for one over the limit.
    pub documents: Vec<Option<Vec<u8>>>,
    /// The list without its items; empty for a stream.
    pub envelope: Vec<u8>,
    /// Whether the body ends in the middle of a line.
    pub mid_line: bool,
}

/// One line of a watch stream.
#[derive(Debug, PartialEq, Eq)]
pub enum EventView<'a> {
    Object(&'a [u8]),
    Bookmark { version: String, ends_list: bool },
    Error { detail: String },
}

/// Splits a stream that arrives in these chunks into lines.
pub fn lines<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> Split {
    let (mut splitter, mut documents) = (LineSplitter::new(limit), Vec::new());
    for chunk in chunks {
        splitter.push(chunk);
        documents.extend(std::iter::from_fn(|| splitter.next()).map(text));
    }

    Split { documents, envelope: Vec::new(), mid_line: splitter.is_mid_line() }
}

/// Splits a list that arrives in these chunks into its items; `None` if its envelope is too large.
pub fn items<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> Option<Split> {
    let (mut splitter, mut documents) = (ItemSplitter::new(limit), Vec::new());
    for chunk in chunks {
        splitter.push(chunk);
        while let Some(frame) = splitter.next().ok()? {
            documents.push(text(frame));
        }
    }

    Some(Split { documents, envelope: splitter.envelope().to_vec(), mid_line: false })
}

/// Parses one line of a watch stream.
#[must_use]
pub fn event(line: &[u8]) -> Option<EventView<'_>> {
    Some(match WatchEvent::parse(line).ok()? {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            EventView::Object(object)
        }
        WatchEvent::Bookmark { version, ends_list } => EventView::Bookmark { version, ends_list },
        WatchEvent::Error(failure) => EventView::Error { detail: failure.detail },
    })
}

/// Whether an envelope is that of a whole list.
#[must_use]
pub fn is_list(envelope: &[u8]) -> bool {
    ListEnvelope::parse(envelope).is_ok()
}

fn text(frame: Frame) -> Option<Vec<u8>> {
    match frame {
        Frame::Document(text) => Some(text.to_vec()),
        Frame::Oversized => None,
    }
}
