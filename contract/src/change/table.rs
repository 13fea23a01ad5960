//! The table itself: every kind of change in one row.
//!
//! Invariant: the enum and its columns are made from the same rows, so that no kind can lack one.

use super::{Direction, Treatment};

/// Makes the enum and its table from the rows.
macro_rules! vocabulary {
    ($($kind:ident $name:literal $direction:ident $safety_relevant:literal $guard:ident $published:literal $sentence:literal,)*) => {
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

            /// What guard does about it.
            pub fn guard(self) -> Treatment {
                match self {
                    $(ChangeKind::$kind => Treatment::$guard,)*
                }
            }

            /// The name of the published clients' vocabulary that stands for it on the telemetry wire.
            pub fn published(self) -> &'static str {
                match self {
                    $(ChangeKind::$kind => $published,)*
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

// Kind, name, direction, safety relevant, what guard does, the published name, one sentence.
// `deep-schema-undiffable` is the published clients' own word for a contract that moved without a finer kind.
// What changes neither calls nor what the model reads (a rewriting, a default written out) is called a hint.
vocabulary! {
    ToolAdded               "tool-added"                Widening  false Hold            "tool-added" "A tool is there that was not.",
    ToolRemoved             "tool-removed"              Narrowing true  Hold            "tool-removed" "A tool is gone.",
    AddedOptionalParam      "added-optional-param"      Widening  false ProceedIfBenign "added-optional-param" "An argument is new, and calls may leave it out.",
    AddedRequiredParam      "added-required-param"      Narrowing true  Hold            "added-required-param" "An argument is new, and every call must give it.",
    RemovedParam            "removed-param"             Narrowing true  Hold            "removed-param" "An argument is gone.",
    TypeChanged             "type-changed"              Narrowing true  Hold            "type-changed" "A value must be of another type than before.",
    EnumValuesRemoved       "enum-values-removed"       Narrowing true  Hold            "enum-values-removed" "Values that were allowed are refused now.",
    EnumValuesAdded         "enum-values-added"         Widening  false ProceedIfBenign "deep-schema-undiffable" "Values are allowed that were refused.",
    ConstraintNarrowed      "constraint-narrowed"       Narrowing true  Hold            "constraint-narrowed" "A bound, a format or a pattern refuses values that were accepted.",
    ConstraintWidened       "constraint-widened"        Widening  false ProceedIfBenign "deep-schema-undiffable" "A bound, a format or a type accepts values that were refused, and all that it accepted.",
    RequiredSetExpanded     "required-set-expanded"     Narrowing true  Hold            "required-set-expanded" "An argument that calls could leave out must be given now.",
    RemovedRequired         "removed-required"          Widening  false ProceedIfBenign "deep-schema-undiffable" "An argument that every call had to give may be left out now.",
    DefaultChanged          "default-changed"           Meaning   true  Hold            "deep-schema-undiffable" "What an argument is taken to be when it is left out differs.",
    ParamTextChanged        "param-text-changed"        Meaning   false Hold            "deep-schema-undiffable" "Text inside a schema (a description, a title, examples) reads differently.",
    SchemaRewritten         "schema-rewritten"          Hint      false Proceed         "deep-schema-undiffable" "The schema is written another way and accepts the same.",
    SchemaEmptied           "schema-emptied"            Narrowing true  Hold            "removed-param" "The schema declared arguments and declares none any more.",
    UnionBranchAdded        "union-branch-added"        Widening  false ProceedIfBenign "type-changed" "A value may have a form or a type more.",
    UnionBranchRemoved      "union-branch-removed"      Narrowing true  Hold            "deep-schema-undiffable" "A value may have a form less.",
    PatternPropertiesChanged "pattern-properties-changed" Opaque  true  Hold            "deep-schema-undiffable" "What is declared for arguments by a pattern of their names differs.",
    AdditionalPropertiesChanged "additional-properties-changed" Hint  false Proceed   "deep-schema-undiffable" "Arguments that were never declared are refused now, or no longer.",
    ParamMirroredToHeader   "param-mirrored-to-header"  Meaning   true  Hold            "param-mirrored-to-header" "An argument's value is to be sent in a request header too.",
    DeepSchemaUndiffable    "deep-schema-undiffable"    Opaque    true  Hold            "deep-schema-undiffable" "Schemas differ past the bound to which they are compared.",
    SchemaUndecided         "schema-undecided"          Opaque    true  Hold            "deep-schema-undiffable" "Which calls the schema accepts, compared with before, could not be decided.",
    InputSchemaChanged      "input-schema-changed"      Opaque    true  Hold            "deep-schema-undiffable" "The schema of the tool's arguments differs; which calls it accepts was not compared.",
    OutputSchemaAdded       "output-schema-added"       Meaning   false ProceedIfBare   "output-schema-added" "The tool declares the shape of its result, where it declared none.",
    OutputSchemaNarrowed    "output-schema-narrowed"    Meaning   false Proceed         "output-schema-changed" "The tool promises more of its result; every result that is allowed now was allowed before.",
    OutputSchemaChanged     "output-schema-changed"     Meaning   true  Hold            "output-schema-changed" "The declared shape of the tool's result allows what it did not, or is declared no more.",
    DescriptionOnly         "description-only"          Meaning   false Hold            "description-only" "The tool's description reads differently, and nothing else about it changed.",
    DescriptionNumeric      "description-numeric"       Meaning   false Proceed         "description-numeric" "Only numbers in the tool's description differ, none of them a price, a port or an address.",
    DescriptionChanged      "description-changed"       Meaning   false Hold            "description-only" "The tool's description reads differently, and more about it changed.",
    TitleAdded              "title-added"               Meaning   false Proceed         "title-changed" "The tool has a title for people, where it had none.",
    TitleChanged            "title-changed"             Meaning   false Hold            "title-changed" "The title that people see reads differently.",
    AnnotationFlipToDestructive "annotation-flip-to-destructive" Hint true Hold         "annotation-flip-to-destructive" "A tool that was declared to destroy nothing, or to read only, is so no longer.",
    AnnotationHintChanged   "annotation-hint-changed"   Hint      true  Hold            "annotation-hint-changed" "A hint about what the tool does (reads only, destroys, repeats, reaches out) says something else.",
    AnnotationHintDeclared  "annotation-hint-declared"  Hint      false ProceedIfAgreed "annotation-hint-changed" "A hint is declared for the first time, and makes the tool look more harmless.",
    IconsChanged            "icons-changed"             Hint      false Hold            "deep-schema-undiffable" "The icons that people see differ.",
    ExecutionChanged        "execution-changed"         Opaque    true  Hold            "deep-schema-undiffable" "How the tool asks to be run differs.",
    UnknownMemberChanged    "unknown-member-changed"    Opaque    true  Hold            "deep-schema-undiffable" "A member that the protocol does not define here differs.",
    MetaChanged             "meta-changed"              Opaque    false Proceed         "deep-schema-undiffable" "The `_meta` beside the definition differs.",
    DefaultStated           "default-stated"            Hint      false Proceed         "annotation-hint-changed" "What the protocol takes by default is now written out, or no longer; it means the same.",
    UndigestableChanged     "undigestable-changed"      Opaque    true  Hold            "deep-schema-undiffable" "The definition differs, and at least one of the two can't be read without doubt.",
    InstructionsAdded       "instructions-added"        Meaning   true  Hold            "instructions-added" "The server gives instructions to the model, where it gave none.",
    InstructionsRemoved     "instructions-removed"      Meaning   false Report          "instructions-removed" "The server gives no instructions to the model any more.",
    InstructionsNumeric     "instructions-numeric"      Meaning   false Proceed         "instructions-numeric" "Only numbers in the server's instructions differ, none of them a price, a port or an address.",
    InstructionsChanged     "instructions-changed"      Meaning   true  Hold            "instructions-changed" "The server's instructions to the model read differently.",
    ServerInfoChanged       "server-info-changed"       Meaning   false Report          "deep-schema-undiffable" "The server says another name, version or title of itself.",
    CapabilitiesChanged     "capabilities-changed"      Opaque    true  Report          "deep-schema-undiffable" "The server offers other capabilities of the protocol.",
    ProtocolVersionChanged  "protocol-version-changed"  Opaque    true  Report          "deep-schema-undiffable" "The server settles on another version of the protocol.",
    PromptAdded             "prompt-added"              Widening  false Report          "prompt-added" "A prompt is there that was not.",
    PromptRemoved           "prompt-removed"            Narrowing false Report          "prompt-removed" "A prompt is gone.",
    PromptDescriptionChanged "prompt-description-changed" Meaning false Report          "prompt-description-changed" "A prompt's description reads differently.",
    PromptArgsChanged       "prompt-args-changed"       Opaque    true  Report          "prompt-args-changed" "A prompt takes other arguments, or describes them differently.",
    PromptChanged           "prompt-changed"            Opaque    true  Report          "prompt-description-changed" "A prompt is declared differently.",
    ResourceAdded           "resource-added"            Widening  false Report          "deep-schema-undiffable" "A resource is there that was not.",
    ResourceRemoved         "resource-removed"          Narrowing false Report          "deep-schema-undiffable" "A resource is gone.",
    ResourceChanged         "resource-changed"          Opaque    true  Report          "deep-schema-undiffable" "A resource is declared differently.",
    ResourceTemplateAdded   "resource-template-added"   Widening  false Report          "deep-schema-undiffable" "A resource template is there that was not.",
    ResourceTemplateRemoved "resource-template-removed" Narrowing false Report          "deep-schema-undiffable" "A resource template is gone.",
    ResourceTemplateChanged "resource-template-changed" Opaque    true  Report          "deep-schema-undiffable" "A resource template is declared differently.",
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
