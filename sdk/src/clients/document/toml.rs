//! TOML. A table's own span is of little use (its parts may stand anywhere), those of its names and values are.

use std::ops::Range;

use toml_edit::{Array, Document, InlineTable, Item, Key, Table, Value};

use super::{Fault, Kind, Layout, Member, Node};

const DOTTED: &str = "dotted names";

pub(super) fn parse(text: &str) -> Result<Option<Node>, Fault> {
    let document = Document::parse(text).map_err(|error| Fault {
        offset: error.span().map_or(0, |span| span.start),
        problem: error.message().lines().collect::<Vec<_>>().join(", "),
    })?;
    Ok(Some(table(document.as_table())))
}

fn table(table: &Table) -> Node {
    let members = table
        .iter()
        .filter_map(|(name, value)| Some(member(table.key(name)?, item(value)?)))
        .collect();
    let mut node = Node::new(
        table.span().unwrap_or_default(),
        Kind::Map(Layout::Block, members),
    );
    node.oddity = table.is_dotted().then_some(DOTTED);
    node
}

fn member(name: &Key, value: Node) -> Member {
    Member {
        name: name.get().to_owned(),
        name_span: name.span().unwrap_or_default(),
        value,
    }
}

fn item(item: &Item) -> Option<Node> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(node(value)),
        Item::Table(inner) => Some(table(inner)),
        Item::ArrayOfTables(tables) => Some(Node::new(
            tables.span().unwrap_or_default(),
            Kind::List(Layout::Block, tables.iter().map(table).collect()),
        )),
    }
}

fn node(value: &Value) -> Node {
    let span = value.span().unwrap_or_default();
    match value {
        Value::String(text) => Node::new(span, Kind::Text(text.value().clone())),
        Value::Boolean(flag) => Node::new(span, Kind::Bool(*flag.value())),
        Value::Array(array) => list(span, array),
        Value::InlineTable(table) => inline_table(span, table),
        Value::Integer(_) | Value::Float(_) | Value::Datetime(_) => Node::new(span, Kind::Other),
    }
}

fn list(span: Range<usize>, array: &Array) -> Node {
    Node::new(span, Kind::List(Layout::Flow, array.iter().map(node).collect()))
}

fn inline_table(span: Range<usize>, table: &InlineTable) -> Node {
    let members = table
        .iter()
        .filter_map(|(name, value)| Some(member(table.key(name)?, node(value))))
        .collect();
    let mut inline = Node::new(span, Kind::Map(Layout::Flow, members));
    inline.oddity = table.is_dotted().then_some(DOTTED);
    inline
}
