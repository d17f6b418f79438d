//! Tests with profiles of a real Go program (`tests/profiles/leaky`), and with input that no such
//! program sends.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

const HEAP: [&[u8]; 2] = [
    include_bytes!("../../../../../tests/profiles/heap-1.pb.gz"),
    include_bytes!("../../../../../tests/profiles/heap-2.pb.gz"),
];
const GOROUTINES: [&[u8]; 2] = [
    include_bytes!("../../../../../tests/profiles/goroutines-1.pb.gz"),
    include_bytes!("../../../../../tests/profiles/goroutines-2.pb.gz"),
];

fn growth([first, second]: [&[u8]; 2], kind: ProfileKind) -> Vec<GrowingStack> {
    let first = Profile::decode(first, kind).expect("a profile").summary();
    Profile::decode(second, kind).expect("a profile").growth_since(&first)
}

fn zip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("written");
    encoder.finish().expect("written")
}

fn unzip(bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    std::io::Read::read_to_end(&mut GzDecoder::new(bytes), &mut content).expect("gzip");
    content
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).expect("seven bits") | 0x80);
        number >>= 7;
    }

    bytes.push(u8::try_from(number).expect("seven bits"));
    bytes
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn nested(field: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    let content = parts.concat();
    [varint(field << 3 | 2), varint(content.len() as u64), content].concat()
}

/// A goroutine profile: samples of (locations, value). The location N has the function N, whose
/// name is the text N.
fn profile(texts: &[&str], samples: &[(&[u64], u64)]) -> Vec<u8> {
    let mut parts = vec![nested(1, &[number(1, 1)])];
    for (locations, value) in samples {
        let list = locations.iter().map(|location| varint(*location)).collect::<Vec<_>>();
        parts.push(nested(2, &[nested(1, &list), nested(2, &[varint(*value)])]));
    }

    for id in 2..texts.len() as u64 {
        parts.push(nested(4, &[number(1, id), nested(4, &[number(1, id)])]));
        parts.push(nested(5, &[number(1, id), number(2, id)]));
    }

    parts.extend(texts.iter().map(|text| nested(6, &[text.as_bytes().to_vec()])));
    parts.concat()
}

fn decode(bytes: &[u8]) -> Result<Profile, Malformed> {
    Profile::decode(&zip(bytes), ProfileKind::Goroutines)
}

#[test]
fn the_stack_that_leaks_memory_is_the_one_that_grows_most() {
    // `go tool pprof -diff_base heap-1.pb.gz -sample_index inuse_space heap-2.pb.gz` says 15.88 MB.
    let stacks = growth(HEAP, ProfileKind::Heap);
    let functions = ["main.remember", "main.leak", "net/http.HandlerFunc.ServeHTTP"];

    assert_eq!(stacks[0].functions[..3], functions, "{stacks:?}");
    assert_eq!((stacks[0].growth, stacks[0].now), (16_655_935, 16_655_935));
    assert_eq!(
        stacks.len(),
        1,
        "the cache in the function `remember`, but not from `leak`, does not grow: {stacks:?}"
    );
}

#[test]
fn the_stack_that_leaks_goroutines_is_the_one_that_grows_most() {
    let stacks = growth(GOROUTINES, ProfileKind::Goroutines);
    let functions = ["runtime.gopark", "runtime.chanrecv", "runtime.chanrecv1", "main.waitForever"];
    let expected =
        GrowingStack { functions: functions.map(str::to_owned).to_vec(), growth: 200, now: 220 };

    assert_eq!(stacks, [expected]);
}

#[test]
fn a_stack_that_waits_inside_a_reconcile_in_both_profiles_is_named() {
    let mut texts = vec!["", "goroutine", "runtime.gopark", "net/http.(*persistConn).roundTrip"];
    texts.extend([
        "example.com/cloud.(*Client).Get",
        "example.com/op.(*WidgetReconciler).Reconcile",
    ]);
    texts.push("sigs.k8s.io/controller-runtime/pkg/internal/controller.(*Controller).Reconcile");
    texts.extend(["k8s.io/client-go/util/workqueue.(*Type).Get", "main.(*Server).serve"]);

    // Forty calls of one function inside the other lie between the wait and the reconcile.
    let deep: Vec<u64> = [2, 3].into_iter().chain([4; 40]).chain([5, 6]).collect();
    let hangs: (&[u64], u64) = (&deep, 3);
    let idle: (&[u64], u64) = (&[2, 7, 6], 8);
    let serves: (&[u64], u64) = (&[2, 8], 50);
    let new: (&[u64], u64) = (&[2, 5, 6], 9);

    let first = decode(&profile(&texts, &[hangs, idle, serves])).expect("a profile").summary();
    let second = decode(&profile(&texts, &[hangs, idle, serves, new])).expect("a profile");
    let waiting = second.waiting_since(&first);

    assert_eq!(waiting.len(), 1, "neither idle workers nor new reconciles: {waiting:?}");
    assert_eq!(waiting[0].goroutines, 3);
    assert_eq!(waiting[0].place(), [texts[3], texts[4], texts[5]]);
}

#[test]
fn a_profile_has_not_grown_since_itself() {
    assert_eq!(growth([HEAP[1]; 2], ProfileKind::Heap), []);
    assert_eq!(growth([GOROUTINES[1]; 2], ProfileKind::Goroutines), []);
    assert_eq!(growth([HEAP[1], HEAP[0]], ProfileKind::Heap), [], "what shrinks does not grow");
}

#[test]
fn allocations_only_increase_and_goroutines_have_none() {
    let allocated = |bytes, kind| Profile::decode(bytes, kind).expect("a profile").allocated;
    assert!(allocated(HEAP[0], ProfileKind::Heap) < allocated(HEAP[1], ProfileKind::Heap));
    assert_eq!(allocated(GOROUTINES[0], ProfileKind::Goroutines), None);
}

#[test]
fn a_profile_of_another_kind_is_refused() {
    for (bytes, kind) in [(HEAP[0], ProfileKind::Goroutines), (GOROUTINES[0], ProfileKind::Heap)] {
        assert_eq!(
            Profile::decode(bytes, kind).err(),
            Some(Malformed::Invalid("it is a profile of another kind"))
        );
    }
}

#[test]
fn stacks_are_compared_by_the_names_of_their_innermost_functions() {
    let texts = ["", "goroutine", "a", "b", "a"];
    let first = decode(&profile(&texts, &[(&[2, 3], 5)])).expect("a profile").summary();

    // Another location with a function of the same name, and recursion beyond the limit.
    let (deep, deeper) = ([3; MAX_FRAMES], [3; MAX_FRAMES + 7]);
    let second = decode(&profile(&texts, &[(&[2, 3], 5), (&[4, 3], 9), (&deep, 1), (&deeper, 2)]))
        .expect("a profile");
    let stacks = second.growth_since(&first);
    let shown: Vec<_> = stacks.iter().map(|s| (s.functions.join(" "), s.growth, s.now)).collect();

    assert_eq!(
        shown,
        [("a b".to_owned(), 9, 14), ("b ".repeat(MAX_FRAMES).trim().to_owned(), 3, 3)]
    );
}

#[test]
fn inlined_functions_are_inside_their_callers() {
    let location =
        nested(4, &[number(1, 9), nested(4, &[number(1, 2)]), nested(4, &[number(1, 3)])]);
    let bytes = [profile(&["", "goroutine", "inner", "outer"], &[(&[9], 1)]), location].concat();
    let nothing = decode(&profile(&["", "goroutine"], &[])).expect("a profile").summary();

    assert_eq!(
        decode(&bytes).expect("a profile").growth_since(&nothing)[0].functions,
        ["inner", "outer"]
    );
}

#[test]
fn only_the_stacks_that_grow_most_are_shown() {
    let names: Vec<String> = (0..40).map(|number| format!("f{number}")).collect();
    let texts: Vec<&str> =
        ["", "goroutine"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let stacks: Vec<[u64; 1]> = (2..42).map(|location| [location]).collect();
    let samples: Vec<(&[u64], u64)> =
        stacks.iter().map(|stack| (&stack[..], 1_000 + stack[0])).collect();
    let nothing = decode(&profile(&texts, &[])).expect("a profile").summary();
    let grown = decode(&profile(&texts, &samples)).expect("a profile").growth_since(&nothing);

    assert_eq!(
        (grown.len(), grown[0].functions[0].as_str(), grown[0].growth),
        (MAX_STACKS, "f39", 1_041)
    );

    let samples: Vec<(&[u64], u64)> = vec![(&stacks[0], 100), (&stacks[1], 5), (&stacks[2], 4)];
    let grown = decode(&profile(&texts, &samples)).expect("a profile").growth_since(&nothing);

    assert_eq!(
        grown.iter().map(|stack| stack.growth).collect::<Vec<_>>(),
        [100, 5],
        "4 is chance beside 100"
    );
}

#[test]
fn names_are_cut_and_have_no_control_characters() {
    let long = "ä".repeat(MAX_NAME);
    let bytes = profile(&["", "goroutine", &long, "a\u{1b}[31m\n"], &[(&[2, 3], 1)]);
    let nothing = decode(&profile(&["", "goroutine"], &[])).expect("a profile").summary();
    let names = &decode(&bytes).expect("a profile").growth_since(&nothing)[0].functions;

    assert!(names[0].len() <= MAX_NAME && names[1] == "a\u{fffd}[31m\u{fffd}", "{names:?}");
}

#[test]
fn references_to_nothing_are_refused() {
    let texts = ["", "goroutine", "a"];
    let refused = |bytes: Vec<u8>| decode(&bytes).err();
    let reason = |text| Some(Malformed::Invalid(text));

    assert_eq!(refused(profile(&texts, &[(&[2], 1)])), None);

    let missing = "a sample names a location that is not there";
    assert_eq!(refused(profile(&texts, &[(&[0], 1)])), reason(missing));
    assert_eq!(refused(profile(&texts, &[(&[u64::from(u32::MAX)], 1)])), reason(missing));
    assert_eq!(
        refused(profile(&texts, &[(&[u64::MAX], 1)])),
        reason("a number of a location is too large")
    );

    let location = |function| nested(4, &[number(1, 9), nested(4, &[number(1, function)])]);
    let bytes = [profile(&texts, &[(&[9], 1)]), location(7)].concat();

    assert_eq!(refused(bytes), reason("a location names a function that is not there"));

    let function = nested(5, &[number(1, 8), number(2, u64::MAX)]);
    let bytes = [profile(&texts, &[(&[9], 1)]), location(8), function].concat();

    assert_eq!(refused(bytes), reason("a function has a name that is not there"));

    let column = nested(1, &[number(1, u64::MAX)]);
    assert_eq!(
        refused([column, profile(&["", "x"], &[])].concat()),
        reason("it is a profile of another kind")
    );
}

#[test]
fn values_that_no_program_has_do_not_overflow() {
    let texts = ["", "goroutine", "a"];
    let largest = i64::MAX.cast_unsigned();
    let bytes =
        profile(&texts, &[(&[2], largest), (&[2], largest), (&[2], largest), (&[2], u64::MAX)]);
    let nothing = decode(&profile(&texts, &[])).expect("a profile").summary();

    assert_eq!(decode(&bytes).expect("a profile").growth_since(&nothing)[0].growth, u64::MAX);
}

#[test]
fn a_profile_that_ends_early_is_refused_wherever_it_ends() {
    for length in 0..HEAP[1].len() {
        let cut = Profile::decode(&HEAP[1][..length], ProfileKind::Heap);
        assert!(cut.is_err(), "{length} bytes of {}", HEAP[1].len());
    }

    let whole = unzip(HEAP[1]);
    for length in 0..whole.len() {
        // Some beginnings are complete messages.
        let _ = Profile::decode(&zip(&whole[..length]), ProfileKind::Heap);
    }
}

#[test]
fn large_input_is_refused_before_it_takes_memory() {
    let refused = |part: &[u8], times: usize| decode(&part.repeat(times)).err();
    let too_large = |what| Some(Malformed::TooLarge(what));

    // An unknown field of more than 64 MiB, empty messages, and tables that do not end: all are
    // small as gzip.
    let unknown = nested(99, &[vec![0; 1 << 20]]);
    assert_eq!(refused(&unknown, 65), too_large("bytes"));
    assert_eq!(
        refused(&[0x12, 0x00], 1 << 20),
        Some(Malformed::Invalid("it is a profile of another kind"))
    );
    assert_eq!(refused(&nested(2, &[number(2, 1)]), 100_000), too_large("samples"));
    assert_eq!(refused(&nested(2, &[nested(2, &vec![varint(1); 5])]), 1), too_large("values"));

    assert_eq!(refused(&nested(1, &[number(1, 1)]), 5), too_large("values"));
    assert_eq!(
        refused(&nested(4, &[]), 1 << 20),
        Some(Malformed::Invalid("it is a profile of another kind"))
    );

    let distinct = |field: u64, count: u64| {
        (0..count).flat_map(|id| nested(field, &[number(1, id)])).collect::<Vec<u8>>()
    };

    assert_eq!(decode(&distinct(4, 100_000)).err(), too_large("locations"));
    assert_eq!(decode(&distinct(5, 100_000)).err(), too_large("functions"));

    let lines = nested(4, &vec![nested(4, &[number(1, 1)]); MAX_FRAMES]);
    assert_eq!(refused(&lines, 10_000), too_large("lines"));
    assert_eq!(refused(&nested(6, &[]), 1 << 20), too_large("texts"));
    assert_eq!(
        refused(&nested(6, &[vec![b'x'; 1 << 20]]), 60),
        Some(Malformed::Invalid("it is a profile of another kind"))
    );
    assert_eq!(refused(&nested(6, &[vec![b'x'; MAX_NAME]]), 20_000), too_large("bytes of text"));

    // One sample whose stack and values have no end.
    let wide = profile(&["", "goroutine", "a"], &[(&vec![2; 1 << 20], 1)]);
    let profile = decode(&wide).expect("a profile");

    assert_eq!(profile.tables.stacks.len(), MAX_DEPTH);
}

#[test]
fn a_header_of_gzip_that_never_ends_is_refused() {
    let mut bytes = vec![0x1f, 0x8b, 8, 0x08, 0, 0, 0, 0, 0, 0];
    bytes.extend(std::iter::repeat_n(b'x', 1 << 20));

    assert!(Profile::decode(&bytes, ProfileKind::Heap).is_err());
}

proptest! {
    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for kind in [ProfileKind::Heap, ProfileKind::Goroutines] {
            let _ = Profile::decode(&bytes, kind);
            let _ = Profile::decode(&zip(&bytes), kind);
        }
    }

    #[test]
    fn no_damage_panics(at in any::<prop::sample::Index>(), by in 1..=255_u8, packed in any::<bool>()) {
        let mut bytes = if packed { HEAP[1].to_vec() } else { unzip(HEAP[1]) };
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        let bytes = if packed { bytes } else { zip(&bytes) };
        if let Ok(profile) = Profile::decode(&bytes, ProfileKind::Heap) {
            let stacks = profile.growth_since(&profile.summary());
            prop_assert_eq!(stacks, []);
        }
    }

    #[test]
    fn messages_of_any_shape_do_not_panic(
        parts in proptest::collection::vec((1..8_u64, proptest::collection::vec((1..8_u64, any::<u64>()), 0..4)), 0..40),
    ) {
        let message = |(field, numbers): &(u64, Vec<(u64, u64)>)| {
            let numbers: Vec<_> = numbers.iter().map(|(field, value)| number(*field, *value)).collect();
            nested(*field, &numbers)
        };
        let bytes: Vec<u8> = [profile(&["", "goroutine", "a"], &[(&[2], 1)])]
            .into_iter()
            .chain(parts.iter().map(message))
            .flatten()
            .collect();
        if let Ok(profile) = decode(&bytes) {
            let _ = profile.growth_since(&decode(&self::profile(&["", "goroutine"], &[])).expect("a profile").summary());
        }
    }
}
