//! Labels of loopwatch's own metrics whose values are closed sets.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// Defines an enum whose variants are the values of a label.
macro_rules! label_values {
    ($( $(#[$doc:meta])* $name:ident { $( $(#[$of_value:meta])* $variant:ident = $value:literal, )* } )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $( $(#[$of_value])* $variant, )* }

        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[$( Self::$variant, )*];

            /// The value of the label.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $value, )* }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
                EncodeLabelValue::encode(&self.as_str(), encoder)
            }
        }
    )* };
}

label_values! {
    /// The outcome of sending something, or of a request for it.
    SendResult {
        /// The receiver has accepted it.
        Ok = "ok",
        /// The receiver has refused it for good.
        Rejected = "rejected",
        /// The request failed, and loopwatch may retry it.
        Failed = "failed",
        /// loopwatch has given up, or there was no room in the queue.
        Dropped = "dropped",
        /// Sampling has left it out.
        SampledOut = "sampled_out",
        /// Another replica leads, and sends it.
        NotLeader = "not_leader",
    }

    /// A part of loopwatch that is rebuilt after a panic.
    RebuiltPart {
        /// The model and its pump; the sources must then list everything again.
        Model = "model",
        /// The supervisor and all tasks that it owns.
        Sources = "sources",
    }

    /// A part of a recording that has no effect.
    UnreadPart {
        /// A line that loopwatch cannot read.
        SkippedLine = "skipped_line",
        /// A line about a watch that no list of kinds contains.
        UndiscoveredLine = "undiscovered_line",
        /// A field that this loopwatch does not know.
        Field = "field",
        /// A setting that this loopwatch does not know.
        HeaderField = "header_field",
    }
}

impl SendResult {
    /// The results of requests.
    pub const OF_REQUESTS: [Self; 3] = [Self::Ok, Self::Rejected, Self::Failed];
}

/// Labels of the counts of sent items.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResultLabels {
    pub result: SendResult,
}

/// Labels of the requests to Alertmanagers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AlertmanagerLabels {
    /// The URL, as configured, without its path.
    pub alertmanager: String,
    /// `ok`, `rejected` or `failed`.
    pub result: SendResult,
}

/// Labels of `loopwatch_recording_unread`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct UnreadLabels {
    /// The part of the recording.
    pub part: UnreadPart,
}

/// Labels of the requests to which the server has responded.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// A path that loopwatch serves, or `other`.
    pub path: &'static str,
    pub code: u16,
}

/// Labels of the rebuilds after a panic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RebuildLabels {
    pub part: RebuiltPart,
}
