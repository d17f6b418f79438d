//! Reads dumps of a cluster, as `kubectl get -o json` or `-o yaml` writes them: objects, lists of objects, several
//! YAML documents in a file, folders of such files.
//!
//! loopwatch skips documents that it cannot read, and reports each with file, line and reason.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kube::api::TypeMeta;
use loopwatch_model::observation::{
    Cause, ObjectView, Observation, Role, Scope, SourceId, StatusSchema, WatchId, WatchedKind, Why,
};
use loopwatch_model::time::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeSeed;
use serde_json::Value;
use serde_json::value::RawValue;

mod index;

use self::index::DumpIndex;
use super::decode::{self, DecodeOptions, ObjectSeed};

/// Depth of nested folders that loopwatch reads: enough for support bundles, and a stop for cyclic links.
const MAX_DEPTH: usize = 16;

/// The objects of a dump by kind, and the problems.
#[derive(Debug, Default)]
pub(crate) struct Dump {
    objects: BTreeMap<(String, String), (String, Vec<ObjectView>)>,
    /// The groups and kinds of typed lists, which may be empty.
    listed: BTreeSet<(String, String)>,
    /// Whether a part cannot be read that may hold objects.
    is_broken: bool,
    /// Parts that loopwatch could not read: place and reason.
    pub problems: Vec<String>,
}

/// The reason why there is no object to judge.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DumpError {
    /// The file or folder cannot be read.
    #[error("cannot read {path}: {error}")]
    Io {
        /// The file or folder.
        path: String,
        /// The system's reason.
        error: std::io::Error,
    },
    /// It contains no object.
    #[error("no Kubernetes object in {path}{}; create a dump with `kubectl get KIND -A -o yaml`", reason(.problem))]
    Empty {
        /// The file or folder.
        path: String,
        /// The first problem.
        problem: Option<String>,
    },
}

fn reason(problem: &Option<String>) -> String {
    problem.as_ref().map(|problem| format!(" ({problem})")).unwrap_or_default()
}

// === impl Dump ===

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
            for file in files(path, 0).map_err(io)? {
                dump.read_file(&file, options);
            }
        } else {
            let text = std::fs::read_to_string(path).map_err(io)?;
            dump.add_text(&path.display().to_string(), &text, options);
        }
        if dump.objects.is_empty() {
            let problem = dump.problems.into_iter().next();
            return Err(DumpError::Empty { path: path.display().to_string(), problem });
        }
        Ok(dump)
    }

    /// The newest time in any object. The dump was taken then or later.
    #[must_use]
    pub(crate) fn newest(&self) -> Option<Timestamp> {
        self.objects().filter_map(newest).max()
    }

    /// All objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &ObjectView> {
        self.objects.values().flat_map(|(_, objects)| objects)
    }

    /// The index for questions about single objects.
    pub(crate) fn index(&self) -> DumpIndex {
        let mut index = DumpIndex { is_broken: self.is_broken, ..DumpIndex::default() };
        for kind in &self.listed {
            index.kinds.entry(kind.clone()).or_default();
        }
        for (kind, (_, objects)) in &self.objects {
            let dumped = index.kinds.entry(kind.clone()).or_default();
            objects.iter().for_each(|object| dumped.add(object));
        }
        index
    }

    /// Returns the dump as observations, in the order in which watches would send them.
    #[must_use]
    pub(crate) fn observations(self) -> Vec<Observation> {
        let kinds: Vec<WatchedKind> = self
            .objects
            .iter()
            .map(|((group, kind), (version, objects))| watched(group, version, kind, objects))
            .collect();
        let mut observations = vec![Observation::KindsDiscovered(kinds.clone())];
        for (kind, (_, objects)) in kinds.into_iter().zip(self.objects.into_values()) {
            let watch = kind.watch;
            observations.push(Observation::ListBegan { watch: watch.clone(), epoch: 1 });
            let listed = objects
                .into_iter()
                .map(|object| Observation::Listed { watch: watch.clone(), object: Box::new(object) });
            observations.extend(listed);
            observations.push(Observation::ListEnded { watch, epoch: 1, version: String::new() });
        }
        let detail = self.problems.join("; ");
        observations.push(match self.problems.is_empty() {
            true => Observation::SourceRecovered { source: SourceId::Dump },
            false => Observation::SourceFailed { source: SourceId::Dump, cause: Cause::Undecodable, detail },
        });
        observations
    }

    fn read_file(&mut self, path: &Path, options: DecodeOptions<'_>) {
        match std::fs::read_to_string(path) {
            Ok(text) => self.add_text(&path.display().to_string(), &text, options),
            Err(error) => self.add_problem(format!("{}: {error}", path.display())),
        }
    }

    fn add_text(&mut self, file: &str, text: &str, options: DecodeOptions<'_>) {
        let text = text.trim_start_matches('\u{feff}');
        if text.trim_start().starts_with('{') {
            if let Err(error) = self.add_json(file, text, options) {
                self.add_problem(format!("{file}: {error}"));
            }
            return;
        }
        for (line, document) in documents(text) {
            if let Err(error) = self.add_yaml(&format!("{file}, document at line {line}"), document, options) {
                self.add_problem(format!("{file}, document at line {line}: {error}"));
            }
        }
    }

    /// Decodes the items one by one from the text, so that a dump needs little more memory than its file.
    fn add_json(&mut self, file: &str, text: &str, options: DecodeOptions<'_>) -> Result<(), serde_json::Error> {
        #[derive(Deserialize)]
        struct JsonDump<'a> {
            #[serde(borrow, default, rename = "apiVersion")]
            api_version: Cow<'a, str>,
            #[serde(borrow, default)]
            kind: Cow<'a, str>,
            #[serde(borrow)]
            items: Option<&'a RawValue>,
        }
        let JsonDump { api_version, kind, items } = serde_json::from_str(text)?;
        // Only the items of a list are objects: other kinds may have a field of this name.
        let items = items.map(RawValue::get).filter(|items| items.starts_with('['));
        let (Some(items), Some(of)) = (items, kind.strip_suffix("List")) else {
            self.add(file, "", "", decode::object_with_type(text.as_bytes(), options).map_err(|e| e.to_string()));
            return Ok(());
        };
        self.add_list(&api_version, of);
        for (number, item) in serde_json::from_str::<Vec<&RawValue>>(items)?.into_iter().enumerate() {
            let decoded = decode::object_with_type(item.get().as_bytes(), options).map_err(|e| e.to_string());
            self.add(&format!("{file}, item {number}"), &api_version, of, decoded);
        }
        Ok(())
    }

    fn add_yaml(&mut self, place: &str, document: &str, options: DecodeOptions<'_>) -> Result<(), String> {
        // The budget grows with the file. The parser still refuses deep nesting and expanded aliases.
        let room = document.len().max(64 * 1024);
        let limits = serde_saphyr::options! { budget: serde_saphyr::budget! {
            max_nodes: room, max_events: room * 2, max_total_scalar_bytes: room
        } };
        let value: Value = serde_saphyr::from_str_with_options(document, limits)
            .map_err(|e| e.to_string().lines().next().unwrap_or_default().to_owned())?;
        let word = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (word("apiVersion"), word("kind"));
        match (value, kind.strip_suffix("List")) {
            (Value::Null, _) => {}
            (Value::Object(mut fields), Some(of)) if fields.get("items").is_some_and(Value::is_array) => {
                let items = fields.remove("items").and_then(|items| match items {
                    Value::Array(items) => Some(items),
                    _ => None,
                });
                self.add_list(&api_version, of);
                for (number, item) in items.into_iter().flatten().enumerate() {
                    let decoded = object_of(item, options);
                    self.add(&format!("{place}, item {number}"), &api_version, of, decoded);
                }
            }
            (value, _) => self.add(place, "", "", object_of(value, options)),
        }
        Ok(())
    }

    /// Adds the problem of a part that may hold objects.
    fn add_problem(&mut self, problem: String) {
        self.is_broken = true;
        self.problems.push(problem);
    }

    /// Notes the kind of a list. A `List` can hold any kinds.
    fn add_list(&mut self, api_version: &str, kind: &str) {
        if !kind.is_empty() {
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            self.listed.insert((group.to_owned(), kind.to_owned()));
        }
    }

    /// Adds one object. Items of typed lists omit `apiVersion` and `kind`, so the caller passes those of the list.
    fn add(&mut self, place: &str, api_version: &str, kind: &str, decoded: Result<(TypeMeta, ObjectView), String>) {
        let (own, object) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => return self.add_problem(format!("{place}: {error}")),
        };
        let or = |own: String, of_list: &str| if own.is_empty() { of_list.to_owned() } else { own };
        let (api_version, kind) = (or(own.api_version, api_version), or(own.kind, kind));
        if kind.is_empty() || object.key.name.is_empty() {
            return self.problems.push(format!("{place}: not a Kubernetes object: it has no kind or no name"));
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let entry = self.objects.entry((group.to_owned(), kind)).or_insert_with(|| (version.to_owned(), Vec::new()));
        entry.1.push(object);
    }
}

fn object_of(value: Value, options: DecodeOptions<'_>) -> Result<(TypeMeta, ObjectView), String> {
    let mut type_meta = TypeMeta::default();
    let object = ObjectSeed::with_type(options, &mut type_meta).deserialize(value).map_err(|e| e.to_string())?;
    Ok((type_meta, object))
}

fn watched(group: &str, version: &str, kind: &str, objects: &[ObjectView]) -> WatchedKind {
    let namespaced = objects.iter().any(|object| !object.key.namespace.is_empty());
    let scope = if namespaced { Scope::AllNamespaces } else { Scope::Cluster };
    // A dump does not contain the plural. kubectl accepts the kind in lower case.
    let resource = kind.to_lowercase();
    WatchedKind {
        watch: WatchId::new(group, &resource, &scope),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        resource,
        scope,
        role: Role::Primary,
        status: StatusSchema::Unknown,
        why: Why::InDump,
        missing: Vec::new(),
        suspected: false,
        filtered: false,
        metadata_only: false,
    }
}

fn newest(object: &ObjectView) -> Option<Timestamp> {
    let conditions = object.conditions.iter().filter_map(|condition| condition.changed);
    let managers = object.managers.iter().filter_map(|manager| manager.time);
    conditions.chain(managers).chain(object.created).chain(object.deleted).max()
}

/// The documents of a YAML text, with the line at which each begins.
fn documents(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let separates = line.trim_end() == "---" || line.starts_with("--- ");
        if separates {
            documents.push((start_line, &text[start..offset]));
            (start, start_line) = (offset + line.len(), number + 2);
        }
        offset += line.len();
    }
    documents.push((start_line, &text[start..]));
    documents.retain(|(_, document)| !document.trim().is_empty());
    documents
}

fn files(folder: &Path, depth: usize) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    entries.sort();
    for path in entries {
        let is_dump = path.extension().is_some_and(|extension| ["json", "yaml", "yml"].iter().any(|e| extension == *e));
        if path.is_dir() && depth < MAX_DEPTH {
            found.extend(files(&path, depth + 1)?);
        } else if is_dump && path.is_file() {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use loopwatch_model::observation::{Answer, ObjectAddress, Probe};

    use super::*;
    use crate::sources::decode::HashKey;

    const KEY: HashKey = HashKey([1; 16]);

    fn objects(dump: &Dump) -> usize {
        dump.objects().count()
    }

    fn read(text: &str) -> Dump {
        let mut dump = Dump::default();
        dump.add_text("dump", text, (&KEY).into());
        dump
    }

    #[test]
    fn objects_and_lists_are_read_from_json_and_yaml() {
        let json = r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"a.io/v1","kind":"W","metadata":{"name":"x","namespace":"n"}}]}"#;
        let typed = r#"{"apiVersion":"a.io/v1","kind":"WList","items":[{"metadata":{"name":"x"}}]}"#;
        let yaml = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: a.io/v1\n  kind: W\n  metadata: {name: x}\n---\n# nothing\n---\napiVersion: a.io/v1\nkind: W\nmetadata: {name: web}\n";
        for (text, expected) in [(json, 1), (typed, 1), (yaml, 2)] {
            let dump = read(text);
            assert_eq!(objects(&dump), expected, "{text}: {:?}", dump.problems);
            assert_eq!(dump.objects.keys().next(), Some(&("a.io".to_owned(), "W".to_owned())));
            assert!(dump.problems.is_empty(), "{:?}", dump.problems);
        }
    }

    #[test]
    fn an_object_may_have_items_of_its_own() {
        let json = r#"{"apiVersion":"a.io/v1","kind":"W","metadata":{"name":"x"},"items":{"a":1}}"#;
        let yaml = "apiVersion: a.io/v1\nkind: W\nmetadata: {name: x}\nitems: {a: 1}\n";
        for text in [json, yaml] {
            let dump = read(text);
            assert_eq!((objects(&dump), &dump.problems[..]), (1, &[][..]), "{text}");
        }
    }

    #[test]
    fn problems_are_reported_and_the_rest_is_read() {
        let dump = read("kind: [\n---\napiVersion: a.io/v1\nkind: W\nmetadata: {name: web}\n---\nkind: W\n");
        assert_eq!(objects(&dump), 1);
        assert_eq!(dump.problems.len(), 2, "{:?}", dump.problems);
        assert!(dump.problems[0].contains("document at line 1"), "{:?}", dump.problems);
        assert!(dump.problems[1].contains("line 6") || dump.problems[1].contains("line 7"), "{:?}", dump.problems);
    }

    fn ask(dump: &Dump, kind: &str, namespace: &str, name: &str) -> Answer {
        let (group, kind) = kind.rsplit_once('/').unwrap_or(("", kind));
        let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
        dump.index().answer(&Probe::Read(ObjectAddress { group, kind, namespace, name }))
    }

    #[test]
    fn an_object_is_absent_only_where_the_dump_shows_its_kind() {
        let object = |kind: &str, namespace: &str, name: &str| {
            format!("---\napiVersion: a.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
        };
        let one = object("W", "ns", "x");
        let dump = read(&one);
        assert!(matches!(ask(&dump, "a.io/W", "ns", "x"), Answer::Found(object) if object.key.name == "x"));
        assert!(matches!(ask(&dump, "W", "ns", "x"), Answer::Found(_)), "the only group with this kind");
        assert_eq!(ask(&dump, "a.io/W", "ns", "yy"), Answer::Absent);
        let unknown = Answer::Failed(Cause::NotFound);
        assert_eq!(ask(&dump, "a.io/W", "ms", "x"), unknown, "a dump of one namespace");
        assert_eq!(ask(&dump, "a.io/V", "ns", "x"), unknown, "a dump without the kind");
        assert_eq!(ask(&dump, "W", "ns", "yy"), unknown, "perhaps a kind of another group");
        let dump = read(&(one.clone() + &object("W", "os", "z")));
        assert_eq!(ask(&dump, "a.io/W", "ms", "x"), Answer::Absent, "a dump of all namespaces");
        let dump = read(&(one.clone() + "---\nmetadata: {{\n"));
        assert_eq!(ask(&dump, "a.io/W", "ns", "yy"), Answer::Failed(Cause::Undecodable), "a dump with a broken part");
        let dump = read(&(one + "---\napiVersion: a.io/v1\nkind: VList\nitems: []\n"));
        assert_eq!(ask(&dump, "a.io/V", "ns", "x"), Answer::Absent, "an empty list");
    }

    #[test]
    fn dependents_in_a_dump_may_not_be_all() {
        let dump = read("apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: ns, ownerReferences: [{uid: u}]}\n");
        let owner = ObjectAddress { namespace: "ns".to_owned(), ..ObjectAddress::default() };
        let of = |uid: &str| match dump.index().answer(&Probe::Dependents { owner: owner.clone(), uid: uid.to_owned() })
        {
            Answer::Dependents { found, complete } => (found.len(), complete),
            other => panic!("{other:?}"),
        };
        assert_eq!((of("u"), of("v")), ((1, false), (0, false)));
    }
}
