//! One kind of change as a row of JSON, in the two spellings that our answers have: the API's and the program's.
//!
//! Invariant: both are made from the same fields in the same order, so that they can't say different things.

use super::ChangeKind;
use serde::Serialize;

/// Makes a row in one spelling.
macro_rules! row {
    ($(#[$attribute:meta])* $name:ident) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        $(#[$attribute])*
        pub struct $name {
            /// The kind's name.
            pub kind: &'static str,
            /// What it does to calls.
            pub direction: &'static str,
            /// Whether it counts as safety relevant, in the published clients' sense.
            pub safety_relevant: bool,
            /// What guard does about it.
            pub guard: &'static str,
            /// What strict does about it.
            pub strict: &'static str,
            /// The published clients' kind that stands for it in telemetry.
            pub published: &'static str,
            /// One sentence for people.
            pub sentence: &'static str,
        }

        impl From<ChangeKind> for $name {
            fn from(kind: ChangeKind) -> $name {
                $name {
                    kind: kind.name(),
                    direction: kind.direction().name(),
                    safety_relevant: kind.safety_relevant(),
                    guard: kind.guard().name(),
                    strict: kind.guard().under_strict().name(),
                    published: kind.published(),
                    sentence: kind.sentence(),
                }
            }
        }
    };
}

row! {
    /// A kind as the API names its members: `safety_relevant`.
    Row
}

row! {
    /// A kind as the program's documents name their members: `safetyRelevant`.
    #[serde(rename_all = "camelCase")]
    CamelRow
}
