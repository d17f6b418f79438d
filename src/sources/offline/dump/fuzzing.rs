//! The reader of dumps, for the fuzz targets.

use loopwatch_model::observation::{Answer, ObjectAddress, ObjectView, Observation, Probe};
use loopwatch_model::time::Timestamp;

use super::Dump;
use crate::sources::decoding::DecodeOptions;

/// An object of a dump, with its group and kind.
pub type DumpedObject = (String, String, ObjectView);

/// The content of a dump.
#[derive(Debug, Default)]
pub struct DumpView {
    /// By group and kind; objects of one kind have the order of the dump.
    pub objects: Vec<DumpedObject>,
    pub problems: Vec<String>,
    /// The number of problems without a text.
    pub more_problems: usize,
    pub newest: Option<Timestamp>,
    /// The objects that a question about them does not find.
    pub lost: Vec<ObjectAddress>,
    pub observations: Vec<Observation>,
}

/// Reads the text of a file.
#[must_use]
pub fn dump(text: &str, options: DecodeOptions<'_>) -> DumpView {
    let mut dump = Dump::default();
    dump.add_text("dump", text, options);

    let index = dump.index();
    let of_kind = |((group, kind), (_, objects)): (&(String, String), &(_, Vec<ObjectView>))| {
        let of_kind = |object: &ObjectView| (group.clone(), kind.clone(), object.clone());
        objects.iter().map(of_kind).collect::<Vec<_>>()
    };

    let objects: Vec<DumpedObject> = dump.objects.iter().flat_map(of_kind).collect();
    let is_lost = |address: &ObjectAddress| {
        !matches!(index.answer(&Probe::Read(address.clone())), Answer::Found(_))
    };

    DumpView {
        lost: objects.iter().map(address).filter(is_lost).collect(),
        objects,
        problems: dump.problems.clone(),
        more_problems: dump.more_problems,
        newest: dump.newest(Timestamp(i64::MAX)),
        observations: dump.observations(&index),
    }
}

fn address((group, kind, object): &DumpedObject) -> ObjectAddress {
    ObjectAddress {
        group: group.clone(),
        kind: kind.clone(),
        namespace: object.key.namespace.clone(),
        name: object.key.name.clone(),
    }
}
