//! Which changes a diff gives: one case per rule, and what holds for any two surfaces.

use std::collections::BTreeSet;

use insta::assert_snapshot;
use mcpindex_contract::change::{Change, ChangeKind, Subject};
use mcpindex_contract::diff::{diff, diff_member};
use mcpindex_contract::surface::{Instructions, Listing, Member, MemberKind, Surface};
use proptest::prelude::*;

/// What a server declares, by kind, as JSON texts.
struct Declared {
    /// Protocol version, `serverInfo` and `capabilities`.
    about: Option<[&'static str; 3]>,
    instructions: Option<&'static str>,
    tools: &'static [&'static str],
    prompts: &'static [&'static str],
    resources: &'static [&'static str],
    templates: &'static [&'static str],
}

const NOTHING: Declared = Declared {
    about: None,
    instructions: None,
    tools: &[],
    prompts: &[],
    resources: &[],
    templates: &[],
};

/// Two declarations and the changes between them, as `kind pointer`, in order.
pub(crate) struct Case {
    rule: &'static str,
    before: Declared,
    after: Declared,
    expected: &'static [&'static str],
}

impl Case {
    pub(crate) fn changes(&self) -> Vec<Change> {
        diff(&self.before.surface(), &self.after.surface())
    }
}

impl Declared {
    fn surface(&self) -> Surface {
        let kinds = [self.tools, self.prompts, self.resources, self.templates];
        let members = MemberKind::ALL.into_iter().zip(kinds);
        let mut surface = surface(
            self.instructions,
            members
                .flat_map(|(kind, texts)| texts.iter().map(move |text| Member::read(kind, text)))
                .collect(),
        );
        if let Some([protocol_version, info, capabilities]) = self.about {
            surface.protocol_version = protocol_version.to_owned();
            surface.server_info = Some(info.to_owned());
            surface.capabilities = Some(capabilities.to_owned());
        }
        surface
    }
}

fn surface(instructions: Option<&str>, members: Vec<Member>) -> Surface {
    Surface {
        protocol_version: "2025-06-18".to_owned(),
        server_info: None,
        capabilities: None,
        instructions: instructions.and_then(Instructions::read),
        members,
        listings: [const { Listing::Complete }; 4],
    }
}

fn tools(texts: &[&str]) -> Surface {
    surface(
        None,
        texts
            .iter()
            .map(|text| Member::read(MemberKind::Tool, text))
            .collect(),
    )
}

const fn tool(
    rule: &'static str,
    before: &'static [&'static str],
    after: &'static [&'static str],
    expected: &'static [&'static str],
) -> Case {
    Case {
        rule,
        before: Declared {
            tools: before,
            ..NOTHING
        },
        after: Declared {
            tools: after,
            ..NOTHING
        },
        expected,
    }
}

pub(crate) const CASES: &[Case] = &[
    tool(
        "a new tool is one change",
        &[],
        &[r#"{"name":"a"}"#],
        &["tool-added "],
    ),
    tool(
        "a tool that went is one change",
        &[r#"{"name":"a"}"#],
        &[],
        &["tool-removed "],
    ),
    tool(
        "a renamed tool is one gone and one new, by name",
        &[r#"{"name":"b"}"#],
        &[r#"{"name":"a"}"#],
        &["tool-added ", "tool-removed "],
    ),
    tool(
        "key order and the writing of a number are no change",
        &[r#"{"name":"a","inputSchema":{"maximum":1,"type":"integer"}}"#],
        &[r#"{"inputSchema": {"type": "integer", "maximum": 1.0}, "name": "a"}"#],
        &[],
    ),
    tool(
        "the order of the listing is no change",
        &[r#"{"name":"a"}"#, r#"{"name":"b"}"#],
        &[r#"{"name":"b"}"#, r#"{"name":"a"}"#],
        &[],
    ),
    tool(
        "a description that alone changed",
        &[r#"{"name":"a","description":"x"}"#],
        &[r#"{"name":"a","description":"y"}"#],
        &["description-only /description"],
    ),
    tool(
        "a description that changed beside `_meta` and a default written out is still alone",
        &[r#"{"name":"a","description":"x"}"#],
        &[r#"{"name":"a","description":"y","_meta":{"k":1},"annotations":{"readOnlyHint":false}}"#],
        &[
            "meta-changed /_meta",
            "default-stated /annotations/readOnlyHint",
            "description-only /description",
        ],
    ),
    tool(
        "a description that changed beside a title",
        &[r#"{"name":"a","description":"x","title":"A"}"#],
        &[r#"{"name":"a"}"#],
        &["description-changed /description", "title-changed /title"],
    ),
    tool(
        "a description whose numbers alone moved",
        &[r#"{"name":"a","description":"Searches all that was indexed here, 4821 pages."}"#],
        &[r#"{"name":"a","description":"Searches all that was indexed here, 5190 pages."}"#],
        &["description-numeric /description"],
    ),
    tool(
        "a price that moved is no number like others",
        &[r#"{"name":"a","description":"Searches all that was indexed here, $2 a page."}"#],
        &[r#"{"name":"a","description":"Searches all that was indexed here, $9 a page."}"#],
        &["description-only /description"],
    ),
    tool(
        "an input schema that is none",
        &[r#"{"name":"a","inputSchema":{"type":"object"}}"#],
        &[r#"{"name":"a","inputSchema":null}"#],
        &["input-schema-changed /inputSchema"],
    ),
    tool(
        "arguments that came, optional and required, and went",
        &[r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{"type":"string"}}}}"#],
        &[
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"y":{"type":"string"},"z":{"type":"string"}},"required":["z"]}}"#,
        ],
        &[
            "removed-param /inputSchema/properties/x",
            "added-optional-param /inputSchema/properties/y",
            "added-required-param /inputSchema/properties/z",
        ],
    ),
    tool(
        "an argument that must be given now, and one that need not be",
        &[
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"required":["y"]}}"#,
        ],
        &[
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"required":["x"]}}"#,
        ],
        &[
            "required-set-expanded /inputSchema/required/0",
            "removed-required /inputSchema/required/0",
        ],
    ),
    tool(
        "the order of what is required is no change of acceptance",
        &[
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{},"y":{}},"required":["x","y"]}}"#,
        ],
        &[
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{},"y":{}},"required":["y","x"]}}"#,
        ],
        &["schema-rewritten /inputSchema"],
    ),
    tool(
        "a schema that declared arguments and declares none",
        &[r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{"type":"string"}}}}"#],
        &[r#"{"name":"a","inputSchema":{"type":"object"}}"#],
        &["schema-emptied /inputSchema"],
    ),
    tool(
        "one change inside each of many arguments",
        &[
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{"enum":["x","y"]},"c":{"enum":["x"]},"d":{"type":"integer","maximum":9},"e":{"type":"integer","maximum":9},"f":{"type":"integer","default":1},"g":{"type":"string","description":"x"},"h":{"anyOf":[{"type":"string","maxLength":3},{"type":"integer"}]},"i":{"anyOf":[{"type":"string","maxLength":3},{"type":"integer"}]},"k":{"type":"string","default":null},"l":{"type":"string"}}}}"#,
        ],
        &[
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["x"]},"c":{"enum":["x","y"]},"d":{"type":"integer","maximum":8},"e":{"type":"integer","maximum":10},"f":{"type":"integer","default":2},"g":{"type":"string","description":"y"},"h":{"anyOf":[{"type":"string","maxLength":3},{"type":"integer"},{"type":"array","items":{"type":"string"}}]},"i":{"anyOf":[{"type":"string","maxLength":3}]},"k":{"type":"string"},"l":{"type":"string","x-mcp-header":"L"}}}}"#,
        ],
        &[
            "type-changed /inputSchema/properties/a/type",
            "enum-values-removed /inputSchema/properties/b/enum",
            "enum-values-added /inputSchema/properties/c/enum",
            "constraint-narrowed /inputSchema/properties/d/maximum",
            "constraint-widened /inputSchema/properties/e/maximum",
            "default-changed /inputSchema/properties/f/default",
            "param-text-changed /inputSchema/properties/g/description",
            "union-branch-added /inputSchema/properties/h/anyOf/2",
            "union-branch-removed /inputSchema/properties/i/anyOf/1",
            "default-stated /inputSchema/properties/k/default",
            "param-mirrored-to-header /inputSchema/properties/l/x-mcp-header",
        ],
    ),
    tool(
        "what is declared by a pattern of names, and what was never declared",
        &[
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":false}}"#,
            r#"{"name":"b","inputSchema":{"type":"object","patternProperties":{"^x":{"type":"string"}}}}"#,
        ],
        &[
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{"type":"string"}}}}"#,
            r#"{"name":"b","inputSchema":{"type":"object","patternProperties":{"^y":{"type":"string"}}}}"#,
        ],
        &[
            "additional-properties-changed /inputSchema/additionalProperties",
            "pattern-properties-changed /inputSchema/patternProperties",
        ],
    ),
    tool(
        "a pattern is compared as text",
        &[
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{"type":"string","pattern":"^a"}}}}"#,
        ],
        &[
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{"type":"string","pattern":"^b"}}}}"#,
        ],
        &["schema-undecided /inputSchema/properties/x/pattern"],
    ),
    tool(
        "a result that promises more, one that allows more, and one whose text changed",
        &[
            r#"{"name":"a","outputSchema":{"type":"object","properties":{"x":{"type":["string","null"]}}}}"#,
            r#"{"name":"b","outputSchema":{"type":"object","properties":{"x":{"type":"string"}}}}"#,
            r#"{"name":"c","outputSchema":{"type":"object","properties":{"x":{"description":"x"}}}}"#,
        ],
        &[
            r#"{"name":"a","outputSchema":{"type":"object","properties":{"x":{"type":"string"}}}}"#,
            r#"{"name":"b","outputSchema":{"type":"object","properties":{"x":{"type":["string","null"]}}}}"#,
            r#"{"name":"c","outputSchema":{"type":"object","properties":{"x":{"description":"y"}}}}"#,
        ],
        &[
            "output-schema-narrowed /outputSchema/properties/x/type",
            "output-schema-changed /outputSchema/properties/x/type",
            "param-text-changed /outputSchema/properties/x/description",
        ],
    ),
    tool(
        "a title that came",
        &[r#"{"name":"a","annotations":{"title":null}}"#],
        &[r#"{"name":"a","title":"A","annotations":{"title":"A"}}"#],
        &["title-added /annotations/title", "title-added /title"],
    ),
    tool(
        "`null` says no more than nothing, where the protocol knows the member",
        &[
            r#"{"name":"a","title":null,"description":null,"outputSchema":null,"annotations":null,"execution":null,"icons":[]}"#,
        ],
        &[r#"{"name":"a"}"#],
        &[
            "default-stated /annotations",
            "default-stated /description",
            "default-stated /execution",
            "default-stated /icons",
            "default-stated /outputSchema",
            "default-stated /title",
        ],
    ),
    tool(
        "an output schema where there was none",
        &[r#"{"name":"a","outputSchema":null}"#],
        &[r#"{"name":"a","outputSchema":{}}"#],
        &["output-schema-added /outputSchema"],
    ),
    tool(
        "an output schema that went counts as changed, as published",
        &[r#"{"name":"a","outputSchema":{}}"#],
        &[r#"{"name":"a"}"#],
        &["output-schema-changed /outputSchema"],
    ),
    tool(
        "each hint is a change of its own, and its title is a title",
        &[r#"{"name":"a","annotations":{"title":"A","readOnlyHint":true,"destructiveHint":true}}"#],
        &[r#"{"name":"a","annotations":{"title":"B","openWorldHint":false,"destructiveHint":true}}"#],
        &[
            "annotation-hint-declared /annotations/openWorldHint",
            "annotation-flip-to-destructive /annotations/readOnlyHint",
            "title-changed /annotations/title",
        ],
    ),
    tool(
        "a hint that is reversed, either way",
        &[
            r#"{"name":"a","annotations":{"destructiveHint":true,"openWorldHint":false,"readOnlyHint":false}}"#,
        ],
        &[r#"{"name":"a","annotations":{"destructiveHint":false,"openWorldHint":true,"readOnlyHint":true}}"#],
        &[
            "annotation-hint-changed /annotations/destructiveHint",
            "annotation-hint-changed /annotations/openWorldHint",
            "annotation-hint-changed /annotations/readOnlyHint",
        ],
    ),
    tool(
        "a hint that is withdrawn falls back to the default",
        &[r#"{"name":"a","annotations":{"destructiveHint":false,"readOnlyHint":true}}"#],
        &[r#"{"name":"a"}"#],
        &[
            "annotation-flip-to-destructive /annotations/destructiveHint",
            "annotation-flip-to-destructive /annotations/readOnlyHint",
        ],
    ),
    tool(
        "hints stated at their defaults mean what they meant",
        &[r#"{"name":"a"}"#],
        &[
            r#"{"name":"a","annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}}"#,
        ],
        &[
            "default-stated /annotations/destructiveHint",
            "default-stated /annotations/idempotentHint",
            "default-stated /annotations/openWorldHint",
            "default-stated /annotations/readOnlyHint",
        ],
    ),
    tool(
        "a hint that is no boolean states no default",
        &[r#"{"name":"a"}"#],
        &[r#"{"name":"a","annotations":{"destructiveHint":"true"}}"#],
        &["annotation-hint-changed /annotations/destructiveHint"],
    ),
    tool(
        "no annotations and empty ones are the same",
        &[r#"{"name":"a","annotations":{}}"#],
        &[r#"{"name":"a"}"#],
        &["default-stated /annotations"],
    ),
    tool(
        "annotations that nobody defined, by RFC 6901 pointer",
        &[r#"{"name":"a"}"#],
        &[r#"{"name":"a","annotations":{"category":"x","a/b~c":1}}"#],
        &[
            "unknown-member-changed /annotations/a~1b~0c",
            "unknown-member-changed /annotations/category",
        ],
    ),
    tool(
        "annotations that are no object are compared as a whole",
        &[r#"{"name":"a","annotations":{"readOnlyHint":true}}"#],
        &[r#"{"name":"a","annotations":[]}"#],
        &["unknown-member-changed /annotations"],
    ),
    tool(
        "the task support that everyone has is a default",
        &[r#"{"name":"a"}"#],
        &[r#"{"name":"a","execution":{"taskSupport":"forbidden"}}"#],
        &["default-stated /execution/taskSupport"],
    ),
    tool(
        "another way to be run",
        &[r#"{"name":"a","execution":{"taskSupport":"forbidden","other":1}}"#],
        &[r#"{"name":"a","execution":{"taskSupport":"required"}}"#],
        &[
            "execution-changed /execution/other",
            "execution-changed /execution/taskSupport",
        ],
    ),
    tool(
        "icons, and a member that nobody defined",
        &[r#"{"name":"a","icons":[]}"#],
        &[r#"{"name":"a","icons":[{"src":"x"}],"cost":3}"#],
        &["unknown-member-changed /cost", "icons-changed /icons"],
    ),
    tool(
        "`_meta` alone is no change of the definition, but a change",
        &[r#"{"name":"a","_meta":{"k":1}}"#],
        &[r#"{"name":"a","_meta":{"k":2}}"#],
        &["meta-changed /_meta"],
    ),
    tool(
        "a definition that got a duplicate member can't be compared further",
        &[r#"{"name":"a","description":"x"}"#],
        &[r#"{"name":"a","description":"x","description":"y"}"#],
        &["undigestable-changed "],
    ),
    tool(
        "a definition with a number out of range is known by its text",
        &[r#"{"name":"a","x":9007199254740993}"#],
        &[r#"{"name":"a","x":9007199254740992}"#],
        &["undigestable-changed "],
    ),
    tool(
        "tools without a name are paired too",
        &[r#"{"name":1}"#],
        &[r#"{"name":2}"#],
        &["unknown-member-changed /name"],
    ),
    tool(
        "of two tools of one name, equal ones find each other first",
        &[r#"{"name":"a","title":"1"}"#, r#"{"name":"a","title":"2"}"#],
        &[
            r#"{"name":"a","title":"2"}"#,
            r#"{"name":"a","title":"3"}"#,
            r#"{"name":"a","title":"4"}"#,
        ],
        &["tool-added ", "title-changed /title"],
    ),
    tool(
        "two tools of one name that differ in `_meta` alone may swap places",
        &[r#"{"name":"a","_meta":1}"#, r#"{"name":"a","_meta":2}"#],
        &[r#"{"name":"a","_meta":2}"#, r#"{"name":"a","_meta":1}"#],
        &[],
    ),
    Case {
        rule: "instructions where there were none come first",
        before: NOTHING,
        after: Declared {
            instructions: Some(r#""Be nice.""#),
            tools: &[r#"{"name":"a"}"#],
            ..NOTHING
        },
        expected: &["instructions-added ", "tool-added "],
    },
    Case {
        rule: "instructions whose numbers alone moved",
        before: Declared {
            instructions: Some(r#""There are 120 notes to be found in this place.""#),
            ..NOTHING
        },
        after: Declared {
            instructions: Some(r#""There are 137 notes to be found in this place.""#),
            ..NOTHING
        },
        expected: &["instructions-numeric "],
    },
    Case {
        rule: "what the server says of itself, where both sides said it",
        before: Declared {
            about: Some(["2025-06-18", r#"{"name":"a","version":"1"}"#, r#"{"tools":{}}"#]),
            ..NOTHING
        },
        after: Declared {
            about: Some([
                "2025-11-25",
                r#"{"version": "2", "name": "a"}"#,
                r#"{"tools":{},"prompts":{}}"#,
            ]),
            ..NOTHING
        },
        expected: &[
            "capabilities-changed /capabilities",
            "protocol-version-changed /protocolVersion",
            "server-info-changed /serverInfo",
        ],
    },
    Case {
        rule: "what the server says of itself in another order, or was not asked for",
        before: Declared {
            about: Some(["2025-06-18", r#"{"name":"a","version":"1"}"#, r#"{"tools":{}}"#]),
            ..NOTHING
        },
        after: Declared {
            about: Some(["", r#"{"version":"1","name":"a"}"#, r#"{ "tools": {} }"#]),
            ..NOTHING
        },
        expected: &[],
    },
    Case {
        rule: "instructions that went",
        before: Declared {
            instructions: Some(r#""""#),
            ..NOTHING
        },
        after: NOTHING,
        expected: &["instructions-removed "],
    },
    Case {
        rule: "instructions that read differently",
        before: Declared {
            instructions: Some(r#""x""#),
            ..NOTHING
        },
        after: Declared {
            instructions: Some(r#""y""#),
            ..NOTHING
        },
        expected: &["instructions-changed "],
    },
    Case {
        rule: "prompts, resources and templates come and change, member by member",
        before: Declared {
            prompts: &[r#"{"name":"a","title":"x","description":"x","arguments":[]}"#],
            resources: &[r#"{"uri":"a:1","name":"x"}"#],
            templates: &[r#"{"uriTemplate":"a:{x}"}"#],
            ..NOTHING
        },
        after: Declared {
            prompts: &[r#"{"name":"a","arguments":[{"name":"y"}]}"#, r#"{"name":"b"}"#],
            resources: &[r#"{"uri":"a:1","name":"y","_meta":{}}"#, r#"{"uri":"a:2"}"#],
            templates: &[
                r#"{"uriTemplate":"a:{x}","name":"x"}"#,
                r#"{"uriTemplate":"a:{y}"}"#,
            ],
            ..NOTHING
        },
        expected: &[
            "prompt-args-changed /arguments",
            "prompt-description-changed /description",
            "prompt-changed /title",
            "prompt-added ",
            "meta-changed /_meta",
            "resource-changed /name",
            "resource-added ",
            "resource-template-changed /name",
            "resource-template-added ",
        ],
    },
    Case {
        rule: "prompts, resources and templates go",
        before: Declared {
            prompts: &[r#"{"name":"a"}"#],
            resources: &[r#"{"uri":"a:1"}"#],
            templates: &[r#"{"uriTemplate":"a:{x}"}"#],
            ..NOTHING
        },
        after: NOTHING,
        expected: &[
            "prompt-removed ",
            "resource-removed ",
            "resource-template-removed ",
        ],
    },
];

#[test]
fn every_rule_gives_its_changes_in_order() {
    for case in CASES {
        let given: Vec<String> = case
            .changes()
            .iter()
            .map(|change| format!("{} {}", change.kind.name(), change.pointer))
            .collect();
        assert_eq!(given, case.expected, "{}", case.rule);
    }
}

/// What is given for schemas that differ deeper than they are compared.
pub(crate) fn deep_changes() -> Vec<Change> {
    let deep = |leaf: &str| {
        let levels = 400;
        format!(
            r#"{{"name":"a","inputSchema":{}{leaf}{}}}"#,
            r#"{"items":"#.repeat(levels),
            "}".repeat(levels)
        )
    };
    let tool = |leaf: &str| tools(&[&deep(leaf)]);
    diff(&tool(r#"{"type":"string"}"#), &tool(r#"{"type":"integer"}"#))
}

#[test]
fn schemas_that_differ_too_deep_are_called_undiffable() {
    let kinds: Vec<&str> = deep_changes().iter().map(|change| change.kind.name()).collect();
    // Where the comparison ended, and for the whole.
    assert_eq!(kinds, ["deep-schema-undiffable", "deep-schema-undiffable"]);
}

/// A change as text: subject, kind, pointer, then both sides.
fn shown(changes: &[Change]) -> String {
    let side = |text: &Option<String>| {
        text.as_ref()
            .map_or("(nothing)".to_owned(), |text| format!("|{text}|"))
    };
    changes
        .iter()
        .map(|change| {
            format!(
                "{:?} {} {:?}\n{}\n->\n{}\n",
                change.subject,
                change.kind.name(),
                change.pointer,
                side(&change.before),
                side(&change.after)
            )
        })
        .collect()
}

#[test]
fn a_string_is_shown_as_its_own_text_and_all_else_indented() {
    let before = tools(&[
        r#"{"name":"a","description":"line\none","cost":{"a":[1.0]}}"#,
        r#"{"name":"b","_meta":{"k":1}}"#,
    ]);
    let after = tools(&[
        r#"{"name":"a","description":"line\ntwo","cost":{"a":[]},"icons":null}"#,
        r#"{"name":"b"}"#,
        r#"{"name":"c","x":{"y":1}}"#,
    ]);
    assert_snapshot!(shown(&diff(&before, &after)), @r#"
    Member(Tool, "a") unknown-member-changed "/cost"
    |{
      "a": [
        1.0
      ]
    }|
    ->
    |{
      "a": []
    }|
    Member(Tool, "a") description-changed "/description"
    |line
    one|
    ->
    |line
    two|
    Member(Tool, "a") default-stated "/icons"
    (nothing)
    ->
    |null|
    Member(Tool, "b") meta-changed "/_meta"
    |{
      "k": 1
    }|
    ->
    (nothing)
    Member(Tool, "c") tool-added ""
    (nothing)
    ->
    |{
      "name": "c",
      "x": {
        "y": 1
      }
    }|
    "#);
}

#[test]
fn what_has_only_a_raw_digest_is_shown_as_sent() {
    let before = tools(&[r#"{"name":"a",  "x":1e400}"#]);
    let after = tools(&[r#"{"name":"a","x":1e400}"#, "[not json"]);
    assert_snapshot!(shown(&diff(&before, &after)), @r#"
    Member(Tool, "") tool-added ""
    (nothing)
    ->
    |[not json|
    Member(Tool, "a") undigestable-changed ""
    |{"name":"a",  "x":1e400}|
    ->
    |{"name":"a","x":1e400}|
    "#);
}

#[test]
fn a_text_that_only_moved_around_a_union_reads_the_same() {
    let check = |before: &str, after: &str, expected: &[&str]| {
        let tool = |argument: &str| {
            format!(r#"{{"name":"a","inputSchema":{{"type":"object","properties":{{"x":{argument}}}}}}}"#)
        };
        let changes = diff(&tools(&[&tool(before)]), &tools(&[&tool(after)]));
        let given: Vec<String> = changes
            .iter()
            .map(|change| {
                let place = change.pointer.strip_prefix("/inputSchema/properties/x").unwrap();
                format!("{} {place}", change.kind.name())
            })
            .collect();
        assert_eq!(given, expected, "{after}");
    };
    let plain = r#"{"type":"string","description":"Which."}"#;
    check(
        plain,
        r#"{"anyOf":[{"type":"string"},{"type":"null"}],"description":"Which."}"#,
        &["union-branch-added /anyOf/1"],
    );
    check(
        plain,
        r#"{"anyOf":[{"type":"string","description":"Which."},{"type":"null"}]}"#,
        &["union-branch-added /anyOf/1", "schema-rewritten /description"],
    );
    check(
        r#"{"anyOf":[{"type":"string","description":"Which."},{"type":"null"}],"description":"Which."}"#,
        r#"{"anyOf":[{"type":"string"},{"type":"null"}],"description":"Which."}"#,
        &["schema-rewritten /anyOf/0/description"],
    );
    // It is gone from one form and said of another now.
    check(
        r#"{"anyOf":[{"type":"string","description":"Which."},{"type":"null"}]}"#,
        r#"{"anyOf":[{"type":"string"},{"type":"null","description":"Which."}]}"#,
        &[
            "param-text-changed /anyOf/0/description",
            "param-text-changed /anyOf/1/description",
        ],
    );
}

#[test]
fn a_witness_past_the_range_of_digests_is_told_to_the_digit() {
    let tool = |bound: &str| {
        format!(
            r#"{{"name":"a","inputSchema":{{"type":"object","properties":{{"x":{{"type":"integer"{bound}}}}}}}}}"#
        )
    };
    let changes = diff(
        &tools(&[&tool("")]),
        &tools(&[&tool(r#","maximum":9007199254740991"#)]),
    );
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].witness.as_deref(), Some(r#"{"x": 9007199254740992}"#));
}

#[test]
fn a_change_carries_the_digests_of_both_definitions() {
    let before = Member::read(MemberKind::Tool, r#"{"name":"a","title":"x"}"#);
    let after = Member::read(MemberKind::Tool, r#"{"name":"a","title":"y"}"#);
    let changes = diff_member(&before, &after);
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].before_digest, Some(before.definition.digest()));
    assert_eq!(changes[0].after_digest, Some(after.definition.digest()));
}

#[test]
fn a_listing_that_failed_says_nothing_about_what_is_missing() {
    let full = Declared {
        tools: &[r#"{"name":"a"}"#],
        prompts: &[r#"{"name":"a"}"#],
        ..NOTHING
    }
    .surface();
    let mut failed = NOTHING.surface();
    failed.listings[0] = Listing::Failed {
        reason: "timed out".to_owned(),
    };
    let check = |before: &Surface, after: &Surface, expected: &[&str]| {
        let kinds: Vec<&str> = diff(before, after)
            .iter()
            .map(|change| change.kind.name())
            .collect();
        assert_eq!(kinds, expected);
    };
    check(&full, &failed, &["prompt-removed"]);
    check(&failed, &full, &["prompt-added"]);
    failed.listings[0] = Listing::NotDeclared;
    check(&full, &failed, &["tool-removed", "prompt-removed"]);
}

#[test]
fn a_deep_definition_is_not_shown_larger_than_it_is() {
    let deep = |inner: &str| {
        let levels = 400;
        format!(
            r#"{{"name":"a","inputSchema":{}{}{}}}"#,
            "[".repeat(levels),
            vec![inner; 1_000].join(","),
            "]".repeat(levels)
        )
    };
    let (one, two) = (deep("1"), deep("2"));
    for change in diff(&tools(&[&one]), &tools(&[&two, r#"{"name":"b"}"#])) {
        for text in change.before.iter().chain(&change.after) {
            assert!(text.len() <= 2 * one.len());
        }
    }
}

fn json_leaf() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "null",
        "true",
        "false",
        "1",
        "1.0",
        "2",
        "1e400",
        "9007199254740992",
        r#""""#,
        r#""x""#,
        r#""forbidden""#,
        r#""\ud800""#,
        "{}",
        "[]",
        r#"{"a":1,"b":2}"#,
        r#"{"b":2,"a":1.0}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"readOnlyHint":false}"#,
        r#"{"readOnlyHint":true,"title":"x","k":1}"#,
        r#"{"destructiveHint":true}"#,
        r#"{"taskSupport":"forbidden"}"#,
        r#"{"taskSupport":"optional"}"#,
        r#"{"type":"object","properties":{"x":{"type":"string"}}}"#,
        r#"{"type":"object","properties":{"x":{"type":"string","default":null}},"required":["x"]}"#,
        r#"{"type":"object","required":["x"],"properties":{"x":{"type":["string","null"],"title":"X"}}}"#,
        "not json",
    ])
    .prop_map(str::to_owned)
}

fn definition() -> impl Strategy<Value = String> {
    let member_name = prop::sample::select(vec![
        "description",
        "title",
        "inputSchema",
        "outputSchema",
        "annotations",
        "execution",
        "icons",
        "_meta",
        "cost",
        "a/b~",
        "",
    ]);
    let name = prop::sample::select(vec![r#""a""#, r#""b""#, r#""""#, "1"]);
    (name, prop::collection::vec((member_name, json_leaf()), 0..5)).prop_map(|(name, members)| {
        let members: String = members
            .iter()
            .map(|(name, value)| format!(r#","{name}":{value}"#))
            .collect();
        format!(r#"{{"name":{name}{members}}}"#)
    })
}

fn member() -> impl Strategy<Value = Member> {
    let kind = prop::sample::select(MemberKind::ALL.to_vec());
    let text = prop_oneof![9 => definition(), 1 => json_leaf()];
    (kind, text).prop_map(|(kind, text)| Member::read(kind, &text))
}

fn any_surface() -> impl Strategy<Value = Surface> {
    let instructions = prop::option::of(prop::sample::select(vec![
        r#""""#,
        r#""x""#,
        r#""\ud800""#,
        r#""\ud801""#,
    ]));
    (instructions, prop::collection::vec(member(), 0..8))
        .prop_map(|(instructions, members)| surface(instructions, members))
}

/// What differs, whatever is said about it: subjects, with the member of the definition.
fn places(changes: &[Change]) -> BTreeSet<(Subject, String)> {
    let member = |pointer: &str| pointer.split('/').nth(1).unwrap_or_default().to_owned();
    changes
        .iter()
        .map(|change| (change.subject.clone(), member(&change.pointer)))
        .collect()
}

proptest! {
    #[test]
    fn nothing_changed_between_a_surface_and_itself(surface in any_surface()) {
        prop_assert_eq!(diff(&surface, &surface), vec![]);
    }

    #[test]
    fn the_order_of_a_listing_is_no_change(surface in any_surface(), seed in any::<prop::sample::Index>()) {
        let mut shuffled = surface.clone();
        if !shuffled.members.is_empty() {
            let middle = seed.index(shuffled.members.len());
            shuffled.members.rotate_left(middle);
        }
        prop_assert_eq!(diff(&surface, &shuffled), vec![]);
    }

    #[test]
    fn definition_digests_differ_exactly_when_more_than_meta_changed(
        kind in prop::sample::select(MemberKind::ALL.to_vec()), before in definition(), after in definition(),
    ) {
        let (before, after) = (Member::read(kind, &before), Member::read(kind, &after));
        let changes = diff_member(&before, &after);
        let more_than_meta = changes.iter().any(|change| change.kind != ChangeKind::MetaChanged);
        prop_assert_eq!(before.definition.digest() != after.definition.digest(), more_than_meta, "{:?}", changes);
    }

    #[test]
    fn surface_digests_differ_exactly_when_more_than_meta_changed(before in any_surface(), after in any_surface()) {
        let changes = diff(&before, &after);
        let more_than_meta = changes.iter().any(|change| change.kind != ChangeKind::MetaChanged);
        prop_assert_eq!(before.digest() != after.digest(), more_than_meta, "{:?}", changes);
    }

    #[test]
    fn seen_from_the_other_side_the_same_members_differ(before in any_surface(), after in any_surface()) {
        prop_assert_eq!(places(&diff(&before, &after)), places(&diff(&after, &before)));
    }
}
