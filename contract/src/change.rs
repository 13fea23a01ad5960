//! The closed vocabulary of changes: one table, from which the documentation page, the API and the telemetry's
//! closed set are made.
//!
//! Invariant: a kind's name never changes its meaning, and a name of the published clients' vocabulary keeps
//! their meaning and their "safety relevant"; every kind here is one that [`crate::diff`] gives.

use crate::digest::Digest;
use crate::surface::MemberKind;

/// What a change does to calls that were valid before, or to what the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Every call that was valid stays valid.
    Widening,
    /// Some call that was valid no longer is.
    Narrowing,
    /// Text that the model reads, or what comes back, differs.
    Meaning,
    /// An annotation differs.
    Hint,
    /// It could not be compared further.
    Opaque,
}

impl Direction {
    /// `widening`, `narrowing`, `meaning`, `hint` or `opaque`.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Widening => "widening",
            Direction::Narrowing => "narrowing",
            Direction::Meaning => "meaning",
            Direction::Hint => "hint",
            Direction::Opaque => "opaque",
        }
    }
}

/// Makes the enum and its table from the same rows, so that no kind can lack a column.
macro_rules! vocabulary {
    ($($kind:ident $name:literal $direction:ident $safety_relevant:literal $sentence:literal,)*) => {
        /// What kind of change it is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ChangeKind {
            $(#[doc = $sentence] $kind,)*
        }

        const ALL: &[ChangeKind] = &[$(ChangeKind::$kind),*];

        impl ChangeKind {
            /// The kind's name, as in databases, APIs and telemetry: `tool-added`, …
            pub fn name(self) -> &'static str {
                match self {
                    $(ChangeKind::$kind => $name,)*
                }
            }

            /// What it does to calls.
            pub fn direction(self) -> Direction {
                match self {
                    $(ChangeKind::$kind => Direction::$direction,)*
                }
            }

            /// Whether it counts as safety relevant, in the published clients' sense: a caller may break or
            /// be misled. A kind that is not may still be held.
            pub fn safety_relevant(self) -> bool {
                match self {
                    $(ChangeKind::$kind => $safety_relevant,)*
                }
            }

            /// One sentence for people.
            pub fn sentence(self) -> &'static str {
                match self {
                    $(ChangeKind::$kind => $sentence,)*
                }
            }
        }
    };
}

// Kind, name, direction, safety relevant, one sentence. `description-changed` follows `description-only`, which the
// published clients count as not safety relevant. `annotation-hint-changed` covers what they split off as
// `annotation-flip-to-destructive`, so it carries that kind's flag.
vocabulary! {
    ToolAdded               "tool-added"                Widening  false "A tool is there that was not.",
    ToolRemoved             "tool-removed"              Narrowing true  "A tool is gone.",
    PromptAdded             "prompt-added"              Widening  false "A prompt is there that was not.",
    PromptRemoved           "prompt-removed"            Narrowing false "A prompt is gone.",
    ResourceAdded           "resource-added"            Widening  false "A resource is there that was not.",
    ResourceRemoved         "resource-removed"          Narrowing false "A resource is gone.",
    ResourceTemplateAdded   "resource-template-added"   Widening  false "A resource template is there that was not.",
    ResourceTemplateRemoved "resource-template-removed" Narrowing false "A resource template is gone.",
    InstructionsAdded       "instructions-added"        Meaning   true  "The server gives instructions to the model, where it gave none.",
    InstructionsRemoved     "instructions-removed"      Meaning   false "The server gives no instructions to the model any more.",
    InstructionsChanged     "instructions-changed"      Meaning   true  "The server's instructions to the model read differently.",
    DescriptionOnly         "description-only"          Meaning   false "The tool's description reads differently, and nothing else about it changed.",
    DescriptionChanged      "description-changed"       Meaning   false "The tool's description reads differently, and more about it changed.",
    TitleChanged            "title-changed"             Meaning   false "The title that people see reads differently.",
    InputSchemaChanged      "input-schema-changed"      Opaque    true  "The schema of the tool's arguments differs; which calls it accepts was not compared.",
    AddedOptionalParam      "added-optional-param"      Widening  false "The tool takes an argument that it did not take, and does not ask for it.",
    AddedRequiredParam      "added-required-param"      Narrowing true  "The tool asks for an argument that it did not take.",
    RemovedParam            "removed-param"             Narrowing true  "The tool takes an argument no more.",
    TypeChanged             "type-changed"              Narrowing true  "An argument's type differs, and some values are taken no more.",
    EnumValuesRemoved       "enum-values-removed"       Narrowing true  "An argument can't have one of its listed values any more.",
    EnumValuesAdded         "enum-values-added"         Widening  false "An argument can have a listed value that it could not have.",
    ConstraintNarrowed      "constraint-narrowed"       Narrowing true  "An argument's values are bounded more tightly.",
    ConstraintWidened       "constraint-widened"        Widening  false "An argument's values are bounded less tightly.",
    RequiredSetExpanded     "required-set-expanded"     Narrowing true  "An argument that could be left out is asked for.",
    RemovedRequired         "removed-required"          Widening  false "An argument that was asked for can be left out.",
    UnionBranchAdded        "union-branch-added"        Widening  false "An argument can have one more form or type.",
    UnionBranchRemoved      "union-branch-removed"      Narrowing true  "An argument can't have one of its forms any more.",
    SchemaEmptied           "schema-emptied"            Narrowing true  "Arguments were declared, and none is now.",
    PatternPropertiesChanged "pattern-properties-changed" Opaque  true  "Arguments whose names match a pattern are declared differently.",
    AdditionalPropertiesChanged "additional-properties-changed" Hint false "Arguments that are not declared are refused where they were not, or the reverse; no declared one is touched.",
    SchemaRewritten         "schema-rewritten"          Hint      false "The schema is written differently and accepts the same.",
    DefaultChanged          "default-changed"           Meaning   true  "What an argument is taken to be when it is left out differs.",
    ParamTextChanged        "param-text-changed"        Meaning   true  "A text inside the schema reads differently.",
    ParamMirroredToHeader   "param-mirrored-to-header"  Meaning   true  "An argument's value is also sent as an HTTP header.",
    SchemaUndecided         "schema-undecided"          Opaque    true  "Which values are accepted here could not be compared.",
    DeepSchemaUndiffable    "deep-schema-undiffable"    Opaque    true  "The schemas are too deep or too large to be compared here.",
    OutputSchemaAdded       "output-schema-added"       Meaning   false "The tool declares the shape of its result, where it declared none.",
    OutputSchemaChanged     "output-schema-changed"     Meaning   true  "The declared shape of the tool's result differs, or is declared no more.",
    AnnotationHintChanged   "annotation-hint-changed"   Hint      true  "A hint about what the tool does (reads only, destroys, repeats, reaches out) says something else.",
    ExecutionChanged        "execution-changed"         Opaque    true  "How the tool asks to be run differs.",
    IconsChanged            "icons-changed"             Hint      false "The icons that people see differ.",
    UnknownMemberChanged    "unknown-member-changed"    Opaque    true  "A member that the protocol does not define here differs.",
    PromptChanged           "prompt-changed"            Opaque    true  "A prompt is declared differently.",
    ResourceChanged         "resource-changed"          Opaque    true  "A resource is declared differently.",
    ResourceTemplateChanged "resource-template-changed" Opaque    true  "A resource template is declared differently.",
    MetaChanged             "meta-changed"              Opaque    false "The `_meta` beside the definition differs.",
    DefaultStated           "default-stated"            Hint      false "What the protocol takes by default is now written out, or no longer; it means the same.",
    UndigestableChanged     "undigestable-changed"      Opaque    true  "The definition differs, and at least one of the two can't be read without doubt.",
}

impl ChangeKind {
    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<ChangeKind> {
        ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Every kind, in the table's order.
    pub fn all() -> &'static [ChangeKind] {
        ALL
    }
}

/// What a change is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The server's instructions.
    Instructions,
    /// One declared thing, by kind and name.
    Member(MemberKind, String),
}

/// One change between two surfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What kind of change.
    pub kind: ChangeKind,
    /// What it is about.
    pub subject: Subject,
    /// RFC 6901 pointer into the definition (empty: the whole of it).
    pub pointer: String,
    /// The text before: a string's own text, anything else indented JSON; `None` where there was nothing.
    pub before: Option<String>,
    /// The text after, likewise.
    pub after: Option<String>,
    /// The digest of the definition (or instructions) before.
    pub before_digest: Option<Digest>,
    /// The digest of the definition (or instructions) after.
    pub after_digest: Option<Digest>,
}
