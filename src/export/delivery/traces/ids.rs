//! The IDs of traces and spans. They depend only on the subject of a trace, so each replica and
//! each run makes the same ones, and anybody can compute them.

use loopwatch_model::trace::TraceKey;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use ring::digest::{SHA256, digest};

/// The IDs of one trace.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    /// The cluster and the key of the trace.
    text: String,
    pub(super) trace: TraceId,
    pub(super) root: SpanId,
}

impl Ids {
    /// Returns the IDs of a trace. `cluster` is the UID of the cluster, or empty.
    pub(super) fn of(cluster: &str, key: &TraceKey) -> Self {
        let text = format!("{cluster}|{key}");
        let (trace, root) =
            (TraceId::from_bytes(first(&text)), SpanId::from_bytes(first(&format!("{text}|root"))));
        Self { text, trace, root }
    }

    /// Returns the ID of a step from its position.
    pub(super) fn step(&self, position: usize) -> SpanId {
        SpanId::from_bytes(first(&format!("{}|{position}", self.text)))
    }

    /// Returns the context of a span of this trace.
    pub(super) fn context(&self, span: SpanId) -> SpanContext {
        SpanContext::new(self.trace, span, TraceFlags::SAMPLED, false, TraceState::NONE)
    }

    /// Returns the context of the root, for a link from another trace.
    pub(super) fn linked(&self) -> SpanContext {
        SpanContext::new(self.trace, self.root, TraceFlags::SAMPLED, true, TraceState::NONE)
    }
}

/// Parses a `traceparent` (W3C Trace Context); returns `None` for any other text.
pub(super) fn context(text: &str) -> Option<SpanContext> {
    let mut parts = text.trim().split('-');
    let [version, trace, span, flags] = [(); 4].map(|()| parts.next().unwrap_or_default());
    let lengths = (version.len(), trace.len(), span.len(), flags.len()) == (2, 32, 16, 2);

    // Only versions after the first one may have further parts.
    let complete = version == "00" && parts.next().is_none() || !["00", "ff"].contains(&version);
    let digits = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !lengths || !complete || ![version, trace, span, flags].into_iter().all(digits) {
        return None;
    }

    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    context.is_valid().then_some(context)
}

/// The first bytes of the SHA-256 hash of a text.
fn first<const N: usize>(text: &str) -> [u8; N] {
    let hash = digest(&SHA256, text.as_bytes());
    let mut bytes = [0; N];
    bytes.iter_mut().zip(hash.as_ref()).for_each(|(byte, hashed)| *byte = *hashed);
    bytes
}

#[cfg(test)]
mod tests {
    use loopwatch_model::trace::TracePart;

    use super::*;

    fn key(part: TracePart, late: bool) -> TraceKey {
        TraceKey { uid: "6b1f2c34-0000-4000-8000-000000000001".into(), part, late }
    }

    #[test]
    fn anybody_can_compute_the_ids() {
        // printf '|6b1f2c34-0000-4000-8000-000000000001|3' | sha256sum | cut -c 1-32
        let ids = Ids::of("", &key(TracePart::Generation(3), false));
        assert_eq!(ids.trace.to_string(), "39cdcabd88df6a67d85622020c9ff471");

        // printf '|6b1f2c34-0000-4000-8000-000000000001|3|root' | sha256sum | cut -c 1-16
        assert_eq!(ids.root.to_string(), "505309749be58127");
    }

    #[test]
    fn each_part_of_an_object_has_ids_of_its_own() {
        let parts = [
            TracePart::Generation(3),
            TracePart::Generation(4),
            TracePart::Version(3),
            TracePart::Deletion,
        ];

        let keys = parts.into_iter().flat_map(|part| [false, true].map(|late| key(part, late)));
        let mut ids: Vec<Ids> =
            keys.flat_map(|key| ["", "cluster"].map(|cluster| Ids::of(cluster, &key))).collect();
        ids.sort_by_key(|ids| ids.trace.to_bytes());
        ids.dedup_by_key(|ids| ids.trace);

        assert_eq!(ids.len(), 16);

        let ids = &ids[0];
        let spans = [ids.root, ids.step(0), ids.step(1)];

        assert!(
            spans.iter().enumerate().all(|(at, span)| !spans[..at].contains(span)),
            "{spans:?}"
        );
    }

    #[test]
    fn a_trace_context_is_read_or_ignored() {
        let read =
            context("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").expect("valid");

        assert_eq!(read.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(read.span_id().to_string(), "b7ad6b7169203331");
        assert!(read.is_remote() && read.is_sampled());
        assert!(context("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more").is_some());

        for invalid in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319ü-b7ad6b7169203331-01",
        ] {
            assert_eq!(context(invalid), None, "{invalid}");
        }
    }
}
