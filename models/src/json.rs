//! JSON text read to values that know their place, so that a wrong key can be shown where it stands.
//!
//! Numbers keep their text: whether one is a whole number is asked by who reads the key. A key that is given twice is an error, as are values nested
//! deeper than a configuration ever is. Everything after the first syntax error is unread, so that one is the only one told.

use ir::diagnostic::{Diagnostic, Span};
use std::ops::Range;

/// Deepest nesting that is read.
const DEEPEST: u32 = 64;
/// Longest line that a diagnostic shows, in bytes.
const SHOWN: usize = 200;

/// A file's name and text, which turns byte offsets into places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

impl Source<'_> {
    /// The place of a range of bytes.
    pub(crate) fn span(&self, range: &Range<usize>) -> Span {
        let start = range.start.min(self.text.len());
        let line_start = self.text[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |i| start + i);
        let line = self.text[line_start..line_end].trim_end_matches('\r');
        let end = range.end.clamp(start, line_end.max(start));
        Span {
            file: self.name.into(),
            line: self.text[..start].matches('\n').count() as u32 + 1,
            column: self.text[line_start..start].chars().count() as u32 + 1,
            length: (self.text[start..end].chars().count() as u32).max(1),
            text: (line.len() <= SHOWN).then(|| line.to_string()),
        }
    }
}

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// As written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
}

impl Value {
    /// What it is, for "found …".
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) range: Range<usize>,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) key_range: Range<usize>,
    pub(crate) node: Node,
}

/// Reads a file that holds one JSON value.
pub(crate) fn parse(source: Source<'_>) -> Result<Node, Diagnostic> {
    let mut parser = Parser { source, at: 0 };
    let node = parser.value(0)?;
    parser.space();
    if parser.at < source.text.len() {
        return Err(parser.error("nothing more is expected after the value"));
    }
    Ok(node)
}

struct Parser<'a> {
    source: Source<'a>,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.source.text[self.at..]
    }

    fn next(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    fn error(&self, expected: &str) -> Diagnostic {
        self.error_at(&(self.at..self.at + 1), expected)
    }

    fn error_at(&self, range: &Range<usize>, expected: &str) -> Diagnostic {
        let found = if range.start >= self.source.text.len() { "the file ends too early" } else { "this is not JSON" };
        Diagnostic::input("E0130", format!("`{}`: {found}", self.source.name))
            .at(self.source.span(range))
            .with_note(expected)
            .with_help("a model's `config.json` is one JSON object, as Hugging Face's `save_pretrained` writes it")
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.next() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn value(&mut self, depth: u32) -> Result<Node, Diagnostic> {
        self.space();
        if depth > DEEPEST {
            return Err(self.error("values are nested too deeply"));
        }
        let start = self.at;
        let value = match self.next() {
            Some('{') => self.object(depth)?,
            Some('[') => self.list(depth)?,
            Some('"') => Value::Text(self.text()?),
            Some('-' | '0'..='9') => self.number()?,
            _ => self.word()?,
        };
        Ok(Node { value, range: start..self.at })
    }

    fn word(&mut self) -> Result<Value, Diagnostic> {
        let word: String = self.rest().chars().take_while(char::is_ascii_alphabetic).collect();
        let value = match word.as_str() {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => return Err(self.error("a value is expected here: a number, text in quotes, true, false, null, a list or an object")),
        };
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, Diagnostic> {
        let start = self.at;
        let length = self.rest().find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')).unwrap_or(self.rest().len());
        let text = &self.rest()[..length];
        let digits = text.strip_prefix('-').unwrap_or(text);
        let leading_zero = digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit();
        let dangling_point = digits.ends_with('.') || digits.contains(".e") || digits.contains(".E");
        let well_formed = digits.starts_with(|c: char| c.is_ascii_digit()) && !leading_zero && !dangling_point;
        if !well_formed {
            return Err(self.error_at(&(start..start + length.max(1)), "a number is expected here"));
        }
        let value = Value::Number(text.to_string());
        self.at += length;
        Ok(value)
    }

    fn text(&mut self) -> Result<String, Diagnostic> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err(self.error("text ends with `\"` on the line where it begins")),
                Some('"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some('\\') => {
                    self.at += 1;
                    text.push(self.escape()?);
                }
                Some(c) => {
                    self.at += c.len_utf8();
                    text.push(c);
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Diagnostic> {
        let c = match self.next() {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                self.at += 1;
                let high = self.hexadecimal()?;
                let mut code = high;
                if (0xd800..0xdc00).contains(&high) && self.rest().starts_with("\\u") {
                    self.at += 2;
                    code = 0x10000 + ((high - 0xd800) << 10) + (self.hexadecimal()?.wrapping_sub(0xdc00) & 0x3ff);
                }
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            _ => return Err(self.error("one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX is expected")),
        };
        self.at += 1;
        Ok(c)
    }

    fn hexadecimal(&mut self) -> Result<u32, Diagnostic> {
        let digits = self.rest().get(..4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(code) = digits.and_then(|d| u32::from_str_radix(d, 16).ok()) else {
            return Err(self.error("four hexadecimal digits are expected"));
        };
        self.at += 4;
        Ok(code)
    }

    fn list(&mut self, depth: u32) -> Result<Value, Diagnostic> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.take(']') {
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take(']') {
                return Ok(Value::List(items));
            }
            if !self.take(',') {
                return Err(self.error("`,` or `]` is expected"));
            }
        }
    }

    fn object(&mut self, depth: u32) -> Result<Value, Diagnostic> {
        self.at += 1;
        let mut members: Vec<Member> = Vec::new();
        self.space();
        if self.take('}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.space();
            let start = self.at;
            if self.next() != Some('"') {
                return Err(self.error("a key in quotes is expected"));
            }
            let key = self.text()?;
            let key_range = start..self.at;
            if members.iter().any(|m| m.key == key) {
                return Err(Diagnostic::input("E0130", format!("`{key}` is given twice"))
                    .at(self.source.span(&key_range))
                    .with_help("keep the one that is meant"));
            }
            self.space();
            if !self.take(':') {
                return Err(self.error("`:` is expected after a key"));
            }
            let node = self.value(depth + 1)?;
            members.push(Member { key, key_range, node });
            self.space();
            if self.take('}') {
                return Ok(Value::Object(members));
            }
            if !self.take(',') {
                return Err(self.error("`,` or `}` is expected"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Node, Diagnostic> {
        parse(Source { name: "c.json", text })
    }

    #[test]
    fn values_know_their_place() {
        let text = "{\n  \"a\": [1, -2.5e3, true],\n  \"\\u00e9\\n\": null\n}\n";
        let Value::Object(members) = read(text).expect("it is JSON").value else { panic!("an object is expected") };
        assert_eq!(members[1].key, "é\n");
        let Value::List(items) = &members[0].node.value else { panic!("a list is expected") };
        assert_eq!(items[1].value, Value::Number("-2.5e3".into()));
        let span = Source { name: "c.json", text }.span(&items[1].range);
        assert_eq!((span.line, span.column, span.length), (2, 12, 6));
    }

    #[test]
    fn what_is_no_json_is_shown() {
        for (text, line, column) in [
            ("", 1, 1),
            ("{\"a\" 1}", 1, 6),
            ("{\"a\": 01}", 1, 7),
            ("{\"a\": 1.}", 1, 7),
            ("{\"a\": 1,}", 1, 9),
            ("{\"a\": 1} x", 1, 10),
            ("{\n\"a\": \"b\n", 2, 8),
            ("{\"a\": tru}", 1, 7),
            ("{\"a\": 1, \"a\": 2}", 1, 10),
            ("[1", 1, 3),
            ("{\"a\": \"\\q\"}", 1, 9),
            ("{\"a\": \"\\u12\"}", 1, 10),
        ] {
            let d = read(text).expect_err(text);
            let span = d.span.expect("a place");
            assert_eq!((d.code.as_str(), span.line, span.column), ("E0130", line, column), "{text}");
        }
        assert!(read(&"[".repeat(1000)).is_err());
    }
}
