//! YAML, from the events of a parser that says where each begins. Anchors, aliases, tags and merge keys are read past and
//! noted on the spot: an entry that has one can be listed and not edited. A second document is a fault, since which one the
//! host takes can't be known.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::{Fault, Kind, Layout, MAX_DEPTH, Member, Node};

pub(super) fn parse(text: &str) -> Result<Option<Node>, Fault> {
    let mut reader = Reader {
        text,
        events: Parser::new_from_str(text),
        characters: text
            .char_indices()
            .map(|(offset, _)| offset)
            .chain([text.len()])
            .collect(),
    };
    let mut root = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamStart | Event::Nothing | Event::DocumentEnd => {}
            Event::StreamEnd => return Ok(root),
            Event::DocumentStart(_) => {
                if root.is_some() {
                    return Err(Fault {
                        offset: reader.offset(span.start.index()),
                        problem: "a second document begins here".to_owned(),
                    });
                }
                let (event, span) = reader.next()?;
                let node = reader.node(event, span, 0)?;
                let is_empty = matches!(node.kind, Kind::Other) && node.span.is_empty();
                root = (!is_empty).then_some(node);
            }
            _ => {
                return Err(Fault {
                    offset: reader.offset(span.start.index()),
                    problem: "content outside of a document".to_owned(),
                });
            }
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    /// The byte at which each character begins; the parser counts characters.
    characters: Vec<usize>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.fault(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn fault(&self, error: &ScanError) -> Fault {
        Fault {
            offset: self.offset(error.marker().index()),
            problem: error.info().to_owned(),
        }
    }

    fn offset(&self, character: usize) -> usize {
        self.characters.get(character).copied().unwrap_or(self.text.len())
    }

    fn bytes(&self, span: Span) -> Range<usize> {
        self.offset(span.start.index())..self.offset(span.end.index())
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Fault> {
        let range = self.bytes(span);
        if depth > MAX_DEPTH {
            return Err(Fault {
                offset: range.start,
                problem: format!("more than {MAX_DEPTH} levels"),
            });
        }
        let (kind, end, anchor, has_tag) = match event {
            Event::Alias(_) => {
                let mut node = Node::new(range, Kind::Other);
                node.oddity = Some("an alias");
                return Ok(node);
            }
            Event::Scalar(text, style, anchor, tag) => {
                let end = self.scalar_end(&range, style);
                (scalar(&text, style), end, anchor, tag.is_some())
            }
            Event::SequenceStart(anchor, tag) => {
                let layout = self.layout(range.start, '[');
                let (elements, end) = self.sequence(depth)?;
                let end = ends_at(layout, end, elements.last());
                (Kind::List(layout, elements), end, anchor, tag.is_some())
            }
            Event::MappingStart(anchor, tag) => {
                let layout = self.layout(range.start, '{');
                let (members, end) = self.mapping(depth)?;
                let end = ends_at(layout, end, members.last().map(|member| &member.value));
                (Kind::Map(layout, members), end, anchor, tag.is_some())
            }
            _ => {
                return Err(Fault {
                    offset: range.start,
                    problem: "a value is missing here".to_owned(),
                });
            }
        };
        let mut node = Node::new(range.start..end.max(range.start), kind);
        if anchor != 0 {
            node.oddity = Some("an anchor");
        } else if has_tag {
            node.oddity = Some("a tag");
        }
        Ok(node)
    }

    /// The end of a scalar without the spaces and the comment behind it, which the parser counts in.
    fn scalar_end(&self, range: &Range<usize>, style: ScalarStyle) -> usize {
        let text = self.text.get(range.clone()).unwrap_or_default();
        let quote = match style {
            ScalarStyle::DoubleQuoted => '"',
            ScalarStyle::SingleQuoted => '\'',
            ScalarStyle::Plain => return range.start + text.trim_end().len(),
            ScalarStyle::Literal | ScalarStyle::Folded => return range.end,
        };
        let mut characters = text.char_indices().skip(1).peekable();
        while let Some((index, character)) = characters.next() {
            if character == '\\' && quote == '"' {
                characters.next();
            } else if character == quote {
                // A doubled single quote is one of the text's own.
                let doubled = quote == '\'' && characters.peek().is_some_and(|(_, next)| *next == quote);
                if !doubled {
                    return range.start + index + quote.len_utf8();
                }
                characters.next();
            }
        }
        range.end
    }

    fn layout(&self, start: usize, bracket: char) -> Layout {
        if self
            .text
            .get(start..)
            .is_some_and(|text| text.starts_with(bracket))
        {
            Layout::Flow
        } else {
            Layout::Block
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<(Vec<Node>, usize), Fault> {
        let mut elements = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok((elements, self.bytes(span).start + 1));
            }
            elements.push(self.node(event, span, depth + 1)?);
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<(Vec<Member>, usize), Fault> {
        let mut members = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok((members, self.bytes(span).start + 1));
            }
            let written = match &event {
                Event::Scalar(text, ..) => Some(text.to_string()),
                _ => None,
            };
            let key = self.node(event, span, depth + 1)?;
            let (event, span) = self.next()?;
            let mut value = self.node(event, span, depth + 1)?;
            // What the key has that an edit can't keep is noted on the value, which is what gets looked at.
            value.oddity = match &written {
                None => Some("a name that is no text"),
                Some(name) if name == "<<" => Some("a merge key"),
                Some(_) => key.oddity.or(value.oddity),
            };
            members.push(Member {
                name: written.unwrap_or_default(),
                name_span: key.span,
                value,
            });
        }
    }
}

/// A block ends with its last part; the parser's mark is where the next thing begins, or past the closing bracket.
fn ends_at(layout: Layout, marked: usize, last: Option<&Node>) -> usize {
    match (layout, last) {
        (Layout::Block, Some(last)) => last.span.end,
        _ => marked,
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Kind {
    if !matches!(style, ScalarStyle::Plain) {
        return Kind::Text(text.to_owned());
    }
    match text {
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        "" | "~" | "null" | "Null" | "NULL" => Kind::Other,
        _ if text.contains(|character: char| character.is_ascii_digit()) && text.parse::<f64>().is_ok() => {
            Kind::Other
        }
        _ => Kind::Text(text.to_owned()),
    }
}
