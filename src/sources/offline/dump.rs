//! Reads dumps of a cluster, as `kubectl get -o json` or `-o yaml` writes them: objects, lists of
//! objects, several documents in a file, folders of such files.
//!
//! loopwatch skips documents that it cannot read, and reports each with file, line and reason.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use loopwatch_model::observation::{
    Cause, DefinitionView, ObjectKey, ObjectView, Observation, Role, Scope, SourceId, StatusSchema,
    WatchId, WatchedKind, Why,
};
use loopwatch_model::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) mod fuzzing;
mod index;
mod items;
mod siblings;
mod special;
mod text;
mod webhooks;

use self::index::DumpIndex;
use self::items::{Item, documents, files, line_of};
use self::siblings::Objects;
use self::special::{Special, is_namespace};
use crate::sources::decoding::DecodeOptions;

/// The maximum depth of nested lists.
const MAX_LISTS: usize = 8;

/// What a part of a dump was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Added {
    /// An object, or a problem.
    Done,
    /// A list, so nothing was added.
    List,
}

/// The objects of a dump by kind, and the problems.
#[derive(Debug, Default)]
pub(crate) struct Dump {
    objects: Objects,
    /// The groups and kinds of typed lists, which may be empty.
    listed: BTreeSet<(String, String)>,
    /// Whether there is an unreadable part that may hold objects.
    pub is_broken: bool,
    special: Special,
    /// Parts that loopwatch could not read: place and reason. At most [`MAX_PROBLEMS`], and the number
    /// of all others.
    pub problems: Vec<String>,
    /// How many problems there are beyond these.
    more_problems: usize,
    /// How many older copies of objects the dump contained.
    pub older_copies: u64,
}

/// Maximum number of problems with a text of their own. The line of each costs a pass over the file.
const MAX_PROBLEMS: usize = 100;

/// Why there is no object to judge.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DumpError {
    /// The file or folder cannot be read.
    #[error("cannot read {path}: {error}")]
    Io { path: String, error: std::io::Error },
    /// The file or folder contains no object.
    #[error("no Kubernetes object in {path}{}; create a dump with `kubectl get KIND -A -o yaml`", reason(.problem))]
    Empty {
        path: String,
        /// The first problem.
        problem: Option<String>,
    },
}

fn reason(problem: &Option<String>) -> String {
    problem.as_ref().map(|problem| format!(" ({problem})")).unwrap_or_default()
}

/// The version of an object as a number, with which the API server orders the versions.
fn version(object: &ObjectView) -> Option<u64> {
    object.version.parse().ok()
}

impl Dump {
    /// Reads a file or a folder.
    ///
    /// # Errors
    /// If it cannot be read or contains no object.
    pub(crate) fn read(path: &Path, options: DecodeOptions<'_>) -> Result<Self, DumpError> {
        let mut dump = Self::default();
        let io = |error| DumpError::Io { path: path.display().to_string(), error };
        let metadata = std::fs::metadata(path).map_err(io)?;

        if metadata.is_dir() {
            for file in files(path).map_err(io)? {
                dump.read_file(&file, options);
            }
        } else {
            let text = text::read(path).map_err(io)?;
            dump.add_text(&path.display().to_string(), &text, options);
        }

        dump.keep_newest();
        if dump.more_problems > 0 {
            dump.problems.push(format!("and {} more problems", dump.more_problems));
        }

        if dump.objects.is_empty() {
            let problem = dump.problems.into_iter().next();
            return Err(DumpError::Empty { path: path.display().to_string(), problem });
        }

        Ok(dump)
    }

    /// Keeps the newest copy of each object: a folder may hold dumps of several times.
    fn keep_newest(&mut self) {
        for (_, objects) in self.objects.values_mut() {
            let before = objects.len();
            let mut newest: BTreeMap<ObjectKey, ObjectView> = BTreeMap::new();
            let mut order: Vec<ObjectKey> = Vec::new();

            for object in std::mem::take(objects) {
                match newest.get(&object.key) {
                    Some(known) if version(known) > version(&object) => {}
                    known => {
                        order.extend(known.is_none().then(|| object.key.clone()));
                        newest.insert(object.key.clone(), object);
                    }
                }
            }

            objects.extend(order.iter().filter_map(|key| newest.remove(key)));
            self.older_copies += (before - objects.len()) as u64;
        }
    }

    /// The newest time in any object, but for times in the future. The dump was taken then or later.
    #[must_use]
    pub(crate) fn newest(&self, now: Timestamp) -> Option<Timestamp> {
        let times = self.objects().flat_map(times).chain(self.special.renewed);
        times.filter(|at| *at <= now).max()
    }

    /// The namespaces that have objects, or of which the dump has the definition.
    pub(crate) fn namespaces(&self) -> BTreeSet<&str> {
        let of_objects = self.objects().map(|object| object.key.namespace.as_str());
        let is_namespace = |(group, kind): &(String, String)| is_namespace(group, kind);
        let listed = self.objects.iter().filter(|(kind, _)| is_namespace(kind));
        let own = listed.flat_map(|(_, (_, objects))| objects);

        of_objects
            .chain(own.map(|object| object.key.name.as_str()))
            .filter(|it| !it.is_empty())
            .collect()
    }

    /// All objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &ObjectView> {
        self.objects.values().flat_map(|(_, objects)| objects)
    }

    /// Builds the index for questions about single objects.
    pub(crate) fn index(&self) -> DumpIndex {
        let mut index = DumpIndex::default();
        index.is_broken = self.is_broken;
        for kind in &self.listed {
            index.kinds.entry(kind.clone()).or_default();
        }

        for (kind, (_, objects)) in &self.objects {
            objects.iter().for_each(|object| index.add(kind, object));
        }

        index
    }

    /// Returns the dump as observations, in the order in which watches would send them. `index`
    /// must be that of this dump.
    #[must_use]
    pub(crate) fn observations(self, index: &DumpIndex) -> Vec<Observation> {
        let mut objects = self.objects;
        siblings::mark(&mut objects, index);
        objects.retain(|(group, kind), _| !is_namespace(group, kind));
        special::leave_deletions_to_scopes(&mut objects);

        let watched = |((group, kind), (version, objects)): (
            &(String, String),
            &(String, Vec<ObjectView>),
        )| {
            watched(group, version, kind, objects, self.special.definition(group, kind))
        };

        let kinds: Vec<WatchedKind> = objects.iter().map(watched).collect();
        let mut observations = vec![Observation::KindsDiscovered(kinds.clone())];
        for (kind, (_, objects)) in kinds.into_iter().zip(objects.into_values()) {
            let watch = kind.watch;
            observations.push(Observation::ListBegan { watch: watch.clone(), epoch: 1 });

            let listed = objects.into_iter().map(|object| Observation::Listed {
                watch: watch.clone(),
                object: Box::new(object),
            });

            observations.extend(listed);
            observations.push(Observation::ListEnded { watch, epoch: 1, version: String::new() });
        }

        // By now, the model knows the objects in a namespace that is being deleted.
        observations.extend(self.special.observations(index));
        let detail = self.problems.join("; ");
        observations.push(match self.problems.is_empty() {
            true => Observation::SourceRecovered { source: SourceId::Dump },
            false => Observation::SourceFailed {
                source: SourceId::Dump,
                cause: Cause::Undecodable,
                detail,
            },
        });

        observations
    }

    fn read_file(&mut self, path: &Path, options: DecodeOptions<'_>) {
        match text::read(path) {
            Ok(text) => self.add_text(&path.display().to_string(), &text, options),
            Err(error) => self.add_broken(|| format!("{}: {error}", path.display())),
        }
    }

    fn add_text(&mut self, file: &str, text: &str, options: DecodeOptions<'_>) {
        let text = text.trim_start_matches('\u{feff}');
        let is_json = |text: &str| text.trim_start().starts_with('{');

        for (line, document) in documents(text) {
            // Other files may contain flow mappings of YAML.
            if is_json(text) && is_json(document) {
                if let Err(error) = self.add_json(file, text, document, options) {
                    self.add_broken(|| {
                        let line = line + error.line().saturating_sub(1);
                        format!("{file}, line {line}: {}", json_problem(&error, document))
                    });
                }
            } else if let Err(error) =
                self.add_yaml(&format!("{file}, document at line {line}"), document, options)
            {
                self.add_broken(|| format!("{file}, document at line {line}: {error}"));
            }
        }
    }

    /// Decodes the items of a part of a text one by one, so that a dump needs little more memory than
    /// its file. The part may hold the output of several commands.
    fn add_json(
        &mut self,
        file: &str,
        text: &str,
        part: &str,
        options: DecodeOptions<'_>,
    ) -> Result<(), serde_json::Error> {
        let place = |part: &str| format!("{file}, line {}", line_of(text, part));
        for document in serde_json::Deserializer::from_str(part).into_iter::<&RawValue>() {
            self.add_json_part(&place, document?.get(), ("", ""), 0, options);
        }

        Ok(())
    }

    /// Adds an object or a list. `of` holds the version and the kind of the list that contains it.
    fn add_json_part(
        &mut self,
        place: &dyn Fn(&str) -> String,
        text: &str,
        of: (&str, &str),
        depth: usize,
        options: DecodeOptions<'_>,
    ) {
        #[derive(Deserialize)]
        struct JsonDump<'a> {
            #[serde(borrow, default, rename = "apiVersion")]
            api_version: Cow<'a, str>,
            #[serde(borrow, default)]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            items: Option<Vec<&'a RawValue>>,
        }

        // Most items are objects, for which this costs one pass.
        if depth > 0 && self.add(&|| place(text), of, Item::Json(text), options) == Added::Done {
            return;
        }

        // Only a list has objects as items: other kinds may have a field of this name.
        match serde_json::from_str::<JsonDump<'_>>(text) {
            Ok(JsonDump { api_version, kind, items: Some(items) })
                if depth < MAX_LISTS && kind.ends_with("List") =>
            {
                let of = (&*api_version, kind.strip_suffix("List").unwrap_or_default());
                self.add_list(of);
                items
                    .iter()
                    .for_each(|item| self.add_json_part(place, item.get(), of, depth + 1, options));
            }
            _ if depth > 0
                || self.add(&|| place(text), of, Item::Json(text), options) == Added::List =>
            {
                self.add_broken(|| format!("{}: not a list of objects", place(text)));
            }
            _ => {}
        }
    }

    fn add_yaml(
        &mut self,
        place: &str,
        document: &str,
        options: DecodeOptions<'_>,
    ) -> Result<(), String> {
        // The budget grows with the file. The parser still refuses deep nesting and expanded
        // aliases.
        let room = document.len().max(64 * 1024);
        let limits = serde_saphyr::options! { budget: serde_saphyr::budget! {
            max_nodes: room, max_events: room * 2, max_total_scalar_bytes: room
        } };
        let value: Value = serde_saphyr::from_str_with_options(document, limits)
            .map_err(|e| e.to_string().lines().next().unwrap_or_default().to_owned())?;

        if !value.is_null() {
            self.add_yaml_part(place, &value, ("", ""), 0, options);
        }

        Ok(())
    }

    /// Adds an object or a list. `of` holds the version and the kind of the list that contains it.
    fn add_yaml_part(
        &mut self,
        place: &str,
        value: &Value,
        of: (&str, &str),
        depth: usize,
        options: DecodeOptions<'_>,
    ) {
        let word = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let list =
            word("kind").strip_suffix("List").zip(value.get("items").and_then(Value::as_array));
        let Some((kind, items)) = list.filter(|_| depth < MAX_LISTS) else {
            if self.add(&|| place.to_owned(), of, Item::Yaml(value), options) == Added::List {
                self.add_broken(|| format!("{place}: not a list of objects"));
            }
            return;
        };

        let of = (word("apiVersion"), kind);
        self.add_list(of);
        for (number, item) in items.iter().enumerate() {
            self.add_yaml_part(&format!("{place}, item {number}"), item, of, depth + 1, options);
        }
    }

    /// Reports an unreadable part that may hold objects.
    fn add_broken(&mut self, problem: impl FnOnce() -> String) {
        self.is_broken = true;
        self.add_problem(problem);
    }

    /// Reports a problem, and makes its text only if there is room for it.
    fn add_problem(&mut self, problem: impl FnOnce() -> String) {
        match self.problems.len() < MAX_PROBLEMS {
            true => self.problems.push(problem()),
            false => self.more_problems += 1,
        }
    }

    /// Notes the kind of a list. A `List` can hold any kinds.
    fn add_list(&mut self, (api_version, kind): (&str, &str)) {
        if !kind.is_empty() {
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            self.listed.insert((group.to_owned(), kind.to_owned()));
        }
    }

    /// Adds one object. Items of typed lists omit `apiVersion` and `kind`, so the caller passes
    /// those of the list.
    fn add(
        &mut self,
        place: &dyn Fn() -> String,
        (api_version, kind): (&str, &str),
        item: Item<'_>,
        options: DecodeOptions<'_>,
    ) -> Added {
        let (own, object) = match item.decode(options) {
            Ok(decoded) => decoded,
            Err(error) => {
                self.add_broken(|| format!("{}: {error}", place()));
                return Added::Done;
            }
        };

        let or = |own: String, of_list: &str| if own.is_empty() { of_list.to_owned() } else { own };
        let (api_version, kind) = (or(own.api_version, api_version), or(own.kind, kind));
        if object.key.name.is_empty() && kind.ends_with("List") {
            return Added::List;
        }

        if kind.is_empty() || object.key.name.is_empty() {
            self.add_problem(|| {
                format!("{}: not a Kubernetes object: it has no kind or no name", place())
            });
            return Added::Done;
        }

        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        if let Err(error) = self.special.add(group, &kind, &object, item) {
            self.add_problem(|| format!("{}: {error}", place()));
        }

        let entry = self
            .objects
            .entry((group.to_owned(), kind))
            .or_insert_with(|| (version.to_owned(), Vec::new()));

        entry.1.push(object);
        Added::Done
    }
}

/// Says why JSON cannot be read, without its line.
fn json_problem(error: &serde_json::Error, text: &str) -> String {
    if error.is_eof() {
        return format!(
            "the JSON ends in the middle of a document, after {} bytes, so the file is incomplete; create it again, and \
             check that kubectl succeeds",
            text.len()
        );
    }

    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default();
    format!("invalid JSON: {reason}, at column {}", error.column())
}

fn watched(
    group: &str,
    version: &str,
    kind: &str,
    objects: &[ObjectView],
    definition: Option<&DefinitionView>,
) -> WatchedKind {
    let namespaced = objects.iter().any(|object| !object.key.namespace.is_empty());
    let scope = if namespaced { Scope::AllNamespaces } else { Scope::Cluster };

    // Only a definition contains the plural. kubectl also accepts the kind in lower case.
    let plural = definition.and_then(|definition| definition.name.split_once('.'));
    let resource = plural.map_or_else(|| kind.to_lowercase(), |(plural, _)| plural.to_owned());
    WatchedKind {
        watch: WatchId::new(group, &resource, &scope),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        resource,
        scope,
        role: Role::Primary,
        status: definition.map_or(StatusSchema::Unknown, |definition| definition.status),
        why: Why::InDump,
        missing: Vec::new(),
        suspected: false,
        filtered: false,
        metadata_only: false,
        versions: Vec::new(),
    }
}

/// All times in an object.
fn times(object: &ObjectView) -> impl Iterator<Item = Timestamp> {
    let conditions = object.conditions.iter().filter_map(|condition| condition.changed);
    let managers = object.managers.iter().filter_map(|manager| manager.time);
    conditions.chain(managers).chain(object.created).chain(object.deleted)
}

#[cfg(test)]
mod tests;
