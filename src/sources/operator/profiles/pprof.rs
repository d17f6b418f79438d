//! Decodes profiles in the format of pprof: a gzipped protobuf message
//! ([profile.proto](https://github.com/google/pprof/blob/main/proto/profile.proto)).
//!
//! The decoder reads the stream once and keeps only the values, the innermost functions and their
//! names, within limits. At the limits it takes 12 MiB (measured); the profile of a large operator
//! takes less than one.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::io::{BufRead, BufReader};

use flate2::bufread::GzDecoder;
use loopwatch_model::observation::{
    GrowingStack, MAX_FRAMES, MAX_STACKS, MAX_WAITING, ProfileKind, WaitingStack,
};

use super::wire::{End, Field, Malformed, Value, Wire};
use crate::system::files::GZIP;

/// A decoded profile.
#[derive(Debug)]
pub(super) struct Profile {
    tables: Tables,
    /// The bytes allocated since the start of the process, up to the last garbage collection;
    /// absent for goroutines.
    pub(super) allocated: Option<u64>,
}

/// The values of a profile by stack, for a comparison with a later one.
#[derive(Debug)]
pub(super) struct Summary {
    /// By keyed hash of the functions' names. Addresses would differ between two replicas, and the
    /// names would take much more memory until the second profile.
    values: HashMap<u64, u64>,
    hash: RandomState,
    pub(super) allocated: Option<u64>,
}

/// The parts of a profile, which refer to each other by number.
#[derive(Debug, Default)]
struct Tables {
    /// The number of the text that names each value of a sample.
    columns: Vec<u64>,
    /// The sums of the values.
    totals: [u64; MAX_COLUMNS],
    /// The samples with a value in the last column, the one to compare. A heap profile has many
    /// other samples, of memory that has been freed.
    samples: Vec<Sample>,
    /// The locations of these samples, innermost first.
    stacks: Vec<u32>,
    /// The functions of a location, innermost first: a range of `lines`. A location has several if
    /// calls are inlined.
    locations: HashMap<u64, (u32, u32)>,
    lines: Vec<u64>,
    /// The number of the text that names a function.
    functions: HashMap<u64, u64>,
    /// The end of each text in `texts`.
    ends: Vec<u32>,
    texts: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// The end of its stack in `stacks`.
    end: u32,
    value: u64,
}

/// The maximum size of an uncompressed profile, in bytes. It limits only the CPU time.
pub(super) const MAX_INFLATED: u64 = 64 << 20;

/// The maximum number of values of a sample. A heap profile has four, a goroutine profile one.
const MAX_COLUMNS: usize = 4;
/// Limits of the tables. A heap profile of the Kubernetes API server, which is larger than any
/// operator, reaches a third of them.
const MAX_SAMPLES: usize = 1 << 15;
const MAX_LOCATIONS: usize = 1 << 15;
const MAX_LINES: usize = 1 << 16;
const MAX_FUNCTIONS: usize = 1 << 15;
const MAX_TEXTS: usize = 1 << 16;
const MAX_TEXT_BYTES: usize = 2 << 20;
/// The maximum number of locations of a stack. A goroutine that waits for a response of the API
/// server is some thirty functions away from the one that reconciles.
const MAX_DEPTH: usize = 64;
/// Once the stacks have this many locations, each further one has at most [`MAX_FRAMES`].
const MAX_DEEP: usize = 1 << 18;

/// The last part of the name of a function that handles one object.
const RECONCILES: &[&[u8]] =
    &[b"Reconcile", b"reconcile", b"ReconcileKind", b"FinalizeKind", b"syncHandler", b"sync"];
/// Libraries that call such functions through functions with the same names.
const LIBRARIES: &[&[u8]] =
    &[b"sigs.k8s.io/controller-runtime/", b"k8s.io/client-go/", b"knative.dev/pkg/"];

/// The longest name of a function that is kept, in bytes.
const MAX_NAME: usize = 256;

/// The largest growth divided by this is the smallest growth to report. Less may be chance: Go's
/// profiler samples one allocation in 512 KiB.
const MIN_SHARE: u64 = 20;

/// The name of a function whose name the profile lacks.
const UNKNOWN: &str = "(unknown)";

/// Whether a response can be a profile: Go always compresses profiles.
pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&GZIP)
}

impl Profile {
    /// Decodes a profile.
    pub(super) fn decode(compressed: &[u8], kind: ProfileKind) -> Result<Self, Malformed> {
        if !is_gzip(compressed) {
            return Err(Malformed::Invalid("it is not compressed by gzip"));
        }

        let tables = Tables::read(BufReader::new(GzDecoder::new(compressed)))?;
        let column = |name: &str| {
            tables.columns.iter().position(|text| tables.text(*text) == Some(name.as_bytes()))
        };
        let name = match kind {
            ProfileKind::Heap => "inuse_space",
            ProfileKind::Goroutines => "goroutine",
        };

        if column(name).is_none_or(|column| column + 1 != tables.columns.len()) {
            return Err(Malformed::Invalid("it is a profile of another kind"));
        }

        let allocated = column("alloc_space").filter(|_| kind == ProfileKind::Heap);
        let profile = Self { allocated: allocated.map(|column| tables.totals[column]), tables };
        (0..profile.tables.samples.len())
            .try_for_each(|sample| profile.functions(sample).try_for_each(|f| f.map(drop)))?;

        Ok(profile)
    }

    /// Sums the values by stack.
    pub(super) fn summary(&self) -> Summary {
        let hash = RandomState::new();
        let values =
            self.by_stack(&hash).into_iter().map(|(stack, (value, _))| (stack, value)).collect();
        Summary { values, hash, allocated: self.allocated }
    }

    /// The stacks that have grown most since an earlier profile.
    pub(super) fn growth_since(&self, earlier: &Summary) -> Vec<GrowingStack> {
        let stacks = self.by_stack(&earlier.hash).into_iter();
        let grown = stacks.filter_map(|(stack, (now, sample))| {
            let growth = now.saturating_sub(earlier.values.get(&stack).copied().unwrap_or(0));
            (growth > 0).then_some((growth, now, sample))
        });
        let mut grown: Vec<(u64, u64, usize)> = grown.collect();

        // The number of the sample breaks ties, so that the result does not depend on the hash.
        grown.sort_unstable_by_key(|(growth, now, sample)| {
            (std::cmp::Reverse((*growth, *now)), *sample)
        });
        let least = grown.first().map_or(0, |(most, ..)| most / MIN_SHARE);
        let worst = grown.into_iter().take(MAX_STACKS).take_while(|(growth, ..)| *growth >= least);

        worst
            .map(|(growth, now, sample)| GrowingStack {
                functions: self.names(sample),
                growth,
                now,
            })
            .collect()
    }

    /// The stacks that wait inside a reconcile and that an earlier profile has, too.
    pub(super) fn waiting_since(&self, earlier: &Summary) -> Vec<WaitingStack> {
        let stacks = self.by_stack(&earlier.hash).into_iter();
        let both = stacks.filter(|(stack, _)| earlier.values.contains_key(stack));
        let mut waiting: Vec<(u64, usize, String)> = both
            .filter_map(|(_, (now, sample))| Some((now, sample, self.reconcile_of(sample)?)))
            .collect();

        waiting.sort_unstable_by_key(|(now, sample, _)| (std::cmp::Reverse(*now), *sample));
        waiting.truncate(MAX_WAITING);
        waiting
            .into_iter()
            .map(|(goroutines, sample, reconcile)| WaitingStack {
                functions: self.names(sample),
                reconcile,
                goroutines,
            })
            .collect()
    }

    /// The operator's own function that reconciles, if a sample is inside one: the innermost
    /// function with such a name that is not part of a library.
    fn reconcile_of(&self, sample: usize) -> Option<String> {
        let mut names = self.all_functions(sample).flatten();
        names.find(|name| is_reconcile(name)).map(readable)
    }

    /// The value of each stack, with one of its samples.
    fn by_stack(&self, hash: &RandomState) -> HashMap<u64, (u64, usize)> {
        let mut stacks: HashMap<u64, (u64, usize)> = HashMap::new();
        for (number, sample) in self.tables.samples.iter().enumerate() {
            // A heap profile has a sample for each size of the objects that a stack allocated.
            let entry = stacks.entry(self.hash(number, hash)).or_insert((0, number));
            entry.0 = entry.0.saturating_add(sample.value);
        }

        stacks
    }

    fn hash(&self, sample: usize, hash: &RandomState) -> u64 {
        let mut hasher = hash.build_hasher();
        for name in self.functions(sample).flatten() {
            hasher.write(name);
            hasher.write_u8(0xff); // never occurs in UTF-8
        }

        hasher.finish()
    }

    fn names(&self, sample: usize) -> Vec<String> {
        self.functions(sample).flatten().map(readable).collect()
    }

    /// The functions of a sample, innermost first, at most [`MAX_FRAMES`].
    fn functions(&self, sample: usize) -> impl Iterator<Item = Result<&[u8], Malformed>> {
        self.all_functions(sample).take(MAX_FRAMES)
    }

    /// The functions of a sample, innermost first, as far as they are kept.
    fn all_functions(&self, sample: usize) -> impl Iterator<Item = Result<&[u8], Malformed>> {
        let stack = self.tables.stack(sample).iter();
        stack.flat_map(|location| self.tables.functions_at(u64::from(*location)))
    }
}

/// The name of a function, without control characters.
fn readable(name: &[u8]) -> String {
    let readable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    String::from_utf8_lossy(name).chars().map(readable).collect()
}

/// Whether a function of an operator handles one object, judging by the names that controllers
/// built with controller-runtime, Knative and plain client-go give it.
fn is_reconcile(name: &[u8]) -> bool {
    let is_of_library = LIBRARIES.iter().any(|library| name.starts_with(library));
    let method = name.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    !is_of_library && RECONCILES.contains(&method)
}

impl Tables {
    fn read(input: impl BufRead) -> Result<Self, Malformed> {
        let (mut tables, mut wire) = (Self::default(), Wire::new(input, MAX_INFLATED));
        while let Some(Field { number, value }) = wire.outer_field()? {
            let Value::Nested(end) = value else { continue };
            match number {
                1 => tables.read_column(&mut wire, end)?,
                2 => tables.read_sample(&mut wire, end)?,
                4 => tables.read_location(&mut wire, end)?,
                5 => tables.read_function(&mut wire, end)?,
                6 => tables.read_text(&mut wire, end)?,
                _ => wire.skip(end)?,
            }
        }

        Ok(tables)
    }

    fn read_column(&mut self, wire: &mut Wire<impl BufRead>, end: End) -> Result<(), Malformed> {
        let mut name = 0;
        while let Some(field) = wire.field(end)? {
            match field {
                Field { number: 1, value: Value::Number(number) } => name = number,
                field => skip(wire, field)?,
            }
        }

        room(self.columns.len(), MAX_COLUMNS, "values")?;
        self.columns.push(name);
        Ok(())
    }

    fn read_sample(&mut self, wire: &mut Wire<impl BufRead>, end: End) -> Result<(), Malformed> {
        let (begin, mut column, mut last) = (self.stacks.len(), 0, 0);
        let totals = &mut self.totals;
        let mut set = |number: u64| {
            // Values are signed, but none of these kinds is negative.
            last = u64::try_from(number.cast_signed()).unwrap_or(0);
            let total = totals.get_mut(column).ok_or(Malformed::TooLarge("values"))?;
            *total = total.saturating_add(last);
            column += 1;

            Ok(())
        };

        while let Some(field) = wire.field(end)? {
            match field {
                Field { number: 1, value: Value::Number(location) } => {
                    push(&mut self.stacks, begin, location)?
                }
                Field { number: 1, value: Value::Nested(list) } => {
                    while let Some(location) = wire.number(list)? {
                        push(&mut self.stacks, begin, location)?;
                    }
                }
                Field { number: 2, value: Value::Number(number) } => set(number)?,
                Field { number: 2, value: Value::Nested(list) } => {
                    while let Some(number) = wire.number(list)? {
                        set(number)?;
                    }
                }
                field => skip(wire, field)?,
            }
        }

        if last == 0 {
            self.stacks.truncate(begin);
            return Ok(());
        }

        room(self.samples.len(), MAX_SAMPLES, "samples")?;
        self.samples.push(Sample { end: short(self.stacks.len() as u64)?, value: last });
        Ok(())
    }

    fn read_location(&mut self, wire: &mut Wire<impl BufRead>, end: End) -> Result<(), Malformed> {
        let (mut id, begin) = (0, self.lines.len());
        while let Some(field) = wire.field(end)? {
            match field {
                Field { number: 1, value: Value::Number(number) } => id = number,
                Field { number: 4, value: Value::Nested(line) } => {
                    let function = read_line(wire, line)?;
                    if self.lines.len() - begin < MAX_FRAMES {
                        room(self.lines.len(), MAX_LINES, "lines")?;
                        self.lines.push(function);
                    }
                }
                field => skip(wire, field)?,
            }
        }

        room(self.locations.len(), MAX_LOCATIONS, "locations")?;
        self.locations.insert(id, (short(begin as u64)?, short(self.lines.len() as u64)?));
        Ok(())
    }

    fn read_function(&mut self, wire: &mut Wire<impl BufRead>, end: End) -> Result<(), Malformed> {
        let (mut id, mut name) = (0, 0);
        while let Some(field) = wire.field(end)? {
            match field {
                Field { number: 1, value: Value::Number(number) } => id = number,
                Field { number: 2, value: Value::Number(number) } => name = number,
                field => skip(wire, field)?,
            }
        }

        room(self.functions.len(), MAX_FUNCTIONS, "functions")?;
        self.functions.insert(id, name);
        Ok(())
    }

    fn read_text(&mut self, wire: &mut Wire<impl BufRead>, end: End) -> Result<(), Malformed> {
        room(self.ends.len(), MAX_TEXTS, "texts")?;
        room(self.texts.len() + MAX_NAME - 1, MAX_TEXT_BYTES, "bytes of text")?;
        wire.text(end, MAX_NAME, &mut self.texts)?;
        self.ends.push(short(self.texts.len() as u64)?);

        Ok(())
    }

    fn text(&self, number: u64) -> Option<&[u8]> {
        let number = usize::try_from(number).ok()?;
        let begin =
            number.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.texts.get(begin as usize..*self.ends.get(number)? as usize)
    }

    fn stack(&self, sample: usize) -> &[u32] {
        let end = |sample: usize| self.samples.get(sample).map_or(0, |sample| sample.end as usize);
        let begin = sample.checked_sub(1).map_or(0, end);
        self.stacks.get(begin..end(sample)).unwrap_or_default()
    }

    /// The names of the functions at a location.
    fn functions_at(&self, location: u64) -> impl Iterator<Item = Result<&[u8], Malformed>> {
        let range = self.locations.get(&location).copied();
        let lines = range.map_or(&[][..], |(begin, end)| &self.lines[begin as usize..end as usize]);
        let without = match range {
            None => Some(Err(Malformed::Invalid("a sample names a location that is not there"))),
            Some(_) => lines.is_empty().then_some(Ok(UNKNOWN.as_bytes())),
        };

        lines.iter().map(|function| self.function(*function)).chain(without)
    }

    fn function(&self, id: u64) -> Result<&[u8], Malformed> {
        let name = self
            .functions
            .get(&id)
            .ok_or(Malformed::Invalid("a location names a function that is not there"))?;

        self.text(*name).ok_or(Malformed::Invalid("a function has a name that is not there"))
    }
}

/// The function of a line.
fn read_line(wire: &mut Wire<impl BufRead>, end: End) -> Result<u64, Malformed> {
    let mut function = 0;
    while let Some(field) = wire.field(end)? {
        match field {
            Field { number: 1, value: Value::Number(number) } => function = number,
            field => skip(wire, field)?,
        }
    }

    Ok(function)
}

fn skip(wire: &mut Wire<impl BufRead>, field: Field) -> Result<(), Malformed> {
    match field.value {
        Value::Nested(end) => wire.skip(end),
        Value::Number(_) | Value::Other => Ok(()),
    }
}

/// Appends a location to the stack that begins at `begin`, unless the stack has enough: each
/// location has at least one function.
fn push(stacks: &mut Vec<u32>, begin: usize, location: u64) -> Result<(), Malformed> {
    let deepest = if stacks.len() < MAX_DEEP { MAX_DEPTH } else { MAX_FRAMES };
    if stacks.len() - begin < deepest {
        stacks.push(short(location)?);
    }
    Ok(())
}

fn room(used: usize, limit: usize, what: &'static str) -> Result<(), Malformed> {
    if used < limit { Ok(()) } else { Err(Malformed::TooLarge(what)) }
}

fn short(number: u64) -> Result<u32, Malformed> {
    u32::try_from(number).map_err(|_| Malformed::Invalid("a number of a location is too large"))
}

#[cfg(test)]
mod tests;
