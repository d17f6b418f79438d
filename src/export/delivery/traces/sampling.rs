//! Which traces to send: all interesting ones, and a fraction of the rest. A trace is sent or
//! dropped as a whole.

use std::collections::BTreeMap;

use loopwatch_model::trace::Trace;
use opentelemetry::trace::TraceId;

/// The fraction of the uninteresting traces to send, as a limit on the last eight bytes of their
/// IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling(u64);

/// Environment variables of OpenTelemetry.
pub(crate) const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
pub(crate) const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

/// A trace counts as slow if it takes at least the deadline divided by this.
const SLOW: i64 = 2;

impl Sampling {
    /// All traces.
    pub const ALL: Self = Self(u64::MAX);

    /// Reads the variables; `None` means that the user wants no traces. Adds a problem for each
    /// invalid variable, which then has no effect.
    pub(crate) fn of(
        variables: &BTreeMap<&str, String>,
        problems: &mut Vec<String>,
    ) -> Option<Self> {
        let sampler = variables.get(SAMPLER).map_or("parentbased_always_on", String::as_str);
        match sampler {
            "always_on" | "parentbased_always_on" => Some(Self::ALL),
            "always_off" | "parentbased_always_off" => None,
            "traceidratio" | "parentbased_traceidratio" => Some(Self::ratio(variables, problems)),
            _ => {
                let expected = "expected always_on, always_off, traceidratio or one of these with parentbased_";
                problems.push(format!("{SAMPLER}: {expected}, not {sampler:?}"));
                Some(Self::ALL)
            }
        }
    }

    fn ratio(variables: &BTreeMap<&str, String>, problems: &mut Vec<String>) -> Self {
        let Some(text) = variables.get(SAMPLER_ARG) else { return Self::ALL };
        match text.parse::<f64>() {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it saturates"
            )]
            Ok(ratio) if (0.0..=1.0).contains(&ratio) => Self((ratio * u64::MAX as f64) as u64),
            _ => {
                problems
                    .push(format!("{SAMPLER_ARG}: expected a number from 0 to 1, not {text:?}"));
                Self::ALL
            }
        }
    }

    /// Returns whether to send a trace.
    pub(super) fn keeps(self, trace: &Trace, id: TraceId) -> bool {
        let bytes = id.to_bytes();
        let random = bytes[8..].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let slow = trace.took().0.saturating_mul(SLOW) >= trace.deadline.0;
        trace.is_failure() || slow || random < self.0 || self == Self::ALL
    }
}
