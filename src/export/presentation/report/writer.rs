//! Chooses the writer of a document by its style.

use super::document::Document;
use super::style::Style;
use super::{markdown, terminal};

pub(super) fn write(document: &Document, style: Style) -> String {
    if style.markdown { markdown::write(document) } else { terminal::write(document, style) }
}
