//! Finds the files of a dump and the documents in their text, and decodes single objects.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use kube::api::TypeMeta;
use loopwatch_model::observation::ObjectView;
use serde::de::DeserializeSeed;
use serde_json::Value;

use crate::sources::decoding::{self, DecodeOptions, ObjectSeed};

/// Depth of nested folders that loopwatch reads: enough for support bundles.
const MAX_DEPTH: usize = 16;

/// The text of one object.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    Json(&'a str),
    Yaml(&'a Value),
}

impl Item<'_> {
    /// Decodes the object.
    pub(super) fn decode(
        &self,
        options: DecodeOptions<'_>,
    ) -> Result<(TypeMeta, ObjectView), String> {
        match self {
            Self::Json(text) => {
                decoding::object_with_type(text.as_bytes(), options).map_err(|e| e.to_string())
            }
            Self::Yaml(value) => {
                let mut type_meta = TypeMeta::default();
                let seed = ObjectSeed::with_type(options, &mut type_meta);
                let object = seed.deserialize(*value).map_err(|e| e.to_string())?;
                Ok((type_meta, object))
            }
        }
    }

    /// The object as JSON.
    pub(super) fn json(&self) -> Cow<'_, str> {
        match self {
            Self::Json(text) => Cow::Borrowed(text),
            Self::Yaml(value) => Cow::Owned(value.to_string()),
        }
    }
}

/// The line of `text` at which its part `part` begins.
pub(super) fn line_of(text: &str, part: &str) -> usize {
    let offset = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

/// The documents of a YAML text, with the line at which each begins.
pub(super) fn documents(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if let Some(rest) = after_separator(line) {
            documents.push((start_line, &text[start..offset]));
            let begins_here = !rest.trim().is_empty();
            start = offset + line.len() - if begins_here { rest.len() } else { 0 };
            start_line = number + if begins_here { 1 } else { 2 };
        }

        offset += line.len();
    }

    documents.push((start_line, &text[start..]));
    documents.retain(|(_, document)| !document.trim().is_empty());
    documents
}

/// The rest of a line that separates documents. The next document may begin there.
fn after_separator(line: &str) -> Option<&str> {
    line.strip_prefix("---")
        .filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// The files of a folder and of the folders in it that may hold objects.
pub(super) fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    files_below(folder, 0)
}

fn files_below(folder: &Path, depth: usize) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;

    entries.sort();
    for path in entries {
        let name = path.to_string_lossy();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let is_dump = [".json", ".yaml", ".yml"].iter().any(|extension| name.ends_with(extension));

        // A few symbolic links to parent folders would show the same files millions of times.
        if path.is_dir() && !path.is_symlink() && depth < MAX_DEPTH {
            found.extend(files_below(&path, depth + 1)?);
        } else if is_dump && path.is_file() {
            found.push(path);
        }
    }

    Ok(found)
}
