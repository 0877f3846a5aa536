//! The parser's state, and the steps every part of it uses: tokens, types, signatures.
//!
//! Parsing is by recursive descent with one token of lookahead and a bound on nesting.
//! A step that fails has reported why and returns [`Reported`]; the op it is in is then skipped and its results are *poisoned*:
//! what reads them fails silently, so that one mistake gives one message.

use super::attribute::Attr;
use super::lexer::{At, Lexer, Tok, Token};
use super::location::LocTree;
use super::report::{Report, Reported};
use super::scope::Scope;
use crate::diagnostic::Diagnostic;
use crate::dtype::{DType, TensorType};
use crate::graph::Module;
use rustc_hash::FxHashMap;

/// Deepest nesting of regions, attributes, types and locations.
const DEEPEST: u32 = 96;
/// A tensor's number of elements stays below this.
pub(super) const MOST_ELEMENTS: u64 = 1 << 48;
/// Most dimensions of a tensor: StableHLO states no limit; nobody writes more than a few.
const MOST_DIMENSIONS: usize = 64;

pub(super) type Step<T> = Result<T, Reported>;

/// A tensor type, or nothing where the text's type is not supported, which has then been reported.
pub(super) type RawType = Option<TensorType>;

/// What follows an op's colon: the types before the arrow, and after it where there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Signature {
    pub(super) left: Vec<RawType>,
    pub(super) right: Option<Vec<RawType>>,
}

/// A call that is checked when all functions are known.
pub(super) struct CallSite {
    pub(super) caller: String,
    pub(super) callee: String,
    pub(super) at: At,
    pub(super) operands: Vec<TensorType>,
    pub(super) results: Vec<TensorType>,
}

/// A sharding that the text asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The function the value is in.
    pub function: String,
    /// The value's name.
    pub value: String,
    /// Shardy's text, `<@mesh, [{"x"}, {}]>`.
    pub sharding: String,
    /// Line of the constraint.
    pub line: u32,
}

pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    peeked: Option<Token<'a>>,
    /// Line of the last token that was taken.
    pub(super) last_line: u32,
    pub(super) report: Report<'a>,
    depth: u32,
    pub(super) scopes: Vec<Scope<'a>>,
    pub(super) module: Module,
    /// Positions of the module's functions by name.
    pub(super) functions: FxHashMap<String, usize>,
    pub(super) attribute_aliases: FxHashMap<&'a str, Attr<'a>>,
    pub(super) type_aliases: FxHashMap<&'a str, RawType>,
    pub(super) location_aliases: FxHashMap<&'a str, LocTree<'a>>,
    pub(super) inline_locations: Vec<LocTree<'a>>,
    pub(super) resources: FxHashMap<&'a str, &'a str>,
    pub(super) calls: Vec<CallSite>,
    pub(super) pins: Vec<Pin>,
    /// How often a name was made from each name of the text.
    pub(super) made_names: FxHashMap<String, u32>,
    /// The entries of the last dictionary that was read, as text.
    pub(super) entry_texts: Vec<(String, &'a str)>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Parser {
            lexer: Lexer::new(text),
            peeked: None,
            last_line: 1,
            report: Report::new(file, text),
            depth: 0,
            scopes: Vec::new(),
            module: Module::default(),
            functions: FxHashMap::default(),
            attribute_aliases: FxHashMap::default(),
            type_aliases: FxHashMap::default(),
            location_aliases: FxHashMap::default(),
            inline_locations: Vec::new(),
            resources: FxHashMap::default(),
            calls: Vec::new(),
            pins: Vec::new(),
            made_names: FxHashMap::default(),
            entry_texts: Vec::new(),
        }
    }

    /// The next token, not taken.
    pub(super) fn peek(&mut self) -> Token<'a> {
        if let Some(t) = self.peeked {
            return t;
        }
        let t = self.lexer.next();
        self.peeked = Some(t);
        t
    }

    /// Takes the next token.
    pub(super) fn next(&mut self) -> Token<'a> {
        let t = self.peek();
        self.peeked = None;
        self.last_line = t.at.line;
        t
    }

    /// Where the text that was taken ends, blanks included.
    pub(super) fn taken(&self) -> usize {
        self.peeked.map_or(self.lexer.at.offset, |t| t.at.offset)
    }

    /// Goes back to a place.
    pub(super) fn rewind(&mut self, at: At) {
        self.lexer.at = at;
        self.peeked = None;
    }

    pub(super) fn is(&mut self, c: u8) -> bool {
        self.peek().tok == Tok::Punct(c)
    }

    pub(super) fn is_word(&mut self, word: &str) -> bool {
        let t = self.peek();
        t.tok == Tok::Bare && t.text == word
    }

    pub(super) fn eat(&mut self, c: u8) -> bool {
        let yes = self.is(c);
        if yes {
            self.next();
        }
        yes
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let yes = self.is_word(word);
        if yes {
            self.next();
        }
        yes
    }

    pub(super) fn eat_arrow(&mut self) -> bool {
        let yes = self.peek().tok == Tok::Arrow;
        if yes {
            self.next();
        }
        yes
    }

    pub(super) fn expect(&mut self, c: u8) -> Step<Token<'a>> {
        if self.is(c) { Ok(self.next()) } else { Err(self.unexpected(&format!("`{}`", c as char))) }
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Step<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    pub(super) fn expect_tok(&mut self, tok: Tok, what: &str) -> Step<Token<'a>> {
        if self.peek().tok == tok { Ok(self.next()) } else { Err(self.unexpected(what)) }
    }

    /// Reports that the next token is not what the grammar wants here.
    pub(super) fn unexpected(&mut self, wanted: &str) -> Reported {
        let t = self.peek();
        let open_string = t.tok == Tok::Bad && t.text == "\"";
        if t.tok == Tok::Eof || open_string && !self.lexer.text[t.at.offset..].trim_end().contains('\n') {
            let d = Diagnostic::input("E0115", format!("the file ends where {wanted} is expected"))
                .at(self.report.span(t.at, 1))
                .with_help("the file was probably cut short: export it again");
            let r = self.report.error(d);
            self.report.fatal = true;
            return r;
        }
        let shown: String = t.text.chars().take(40).flat_map(char::escape_debug).collect();
        let found = if open_string { "a string that does not end on its line".to_string() } else { format!("`{shown}`") };
        self.report.error_at("E0101", t.at, t.length(), format!("expected {wanted}, found {found}"))
    }

    /// Runs a step one level deeper.
    pub(super) fn nested<T>(&mut self, step: impl FnOnce(&mut Self) -> Step<T>) -> Step<T> {
        if self.depth >= DEEPEST {
            let t = self.peek();
            let r = self.report.error_at("E0111", t.at, t.length(), format!("nesting is deeper than {DEEPEST} levels"));
            self.report.fatal = true;
            return Err(r);
        }
        self.depth += 1;
        let result = step(self);
        self.depth -= 1;
        result
    }

    /// Items between brackets, separated by commas.
    pub(super) fn list<T>(&mut self, open: u8, close: u8, mut item: impl FnMut(&mut Self) -> Step<T>) -> Step<Vec<T>> {
        self.expect(open)?;
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if !self.eat(b',') {
                self.expect(close)?;
                return Ok(items);
            }
        }
    }

    /// Takes everything up to the bracket that closes the one just taken, and returns the text between.
    pub(super) fn skip_balanced(&mut self, close: u8) -> Step<&'a str> {
        let start = self.peek().at.offset;
        let mut expected = vec![close];
        loop {
            let t = self.peek();
            match t.tok {
                Tok::Punct(c @ (b'(' | b'[' | b'{' | b'<')) => expected.push(match c {
                    b'(' => b')',
                    b'[' => b']',
                    b'{' => b'}',
                    _ => b'>',
                }),
                Tok::Punct(c) if expected.last() == Some(&c) => {
                    expected.pop();
                    if expected.is_empty() {
                        self.next();
                        return Ok(&self.lexer.text[start..t.at.offset]);
                    }
                }
                Tok::Punct(b')' | b']' | b'}') | Tok::Eof => return Err(self.unexpected(&format!("`{}`", close as char))),
                _ => {}
            }
            self.next();
        }
    }

    /// A tensor type; one that is not supported is reported.
    pub(super) fn ty(&mut self) -> Step<RawType> {
        let start = self.peek().at;
        match self.quiet_type()? {
            Some(ty) => Ok(Some(ty)),
            // The name of the type was cut.
            None if self.peek().tok == Tok::Eof => Err(self.unexpected("the rest of a type")),
            None => Ok(self.unknown_type(start)),
        }
    }

    /// A tensor type, or nothing for another type.
    pub(super) fn quiet_type(&mut self) -> Step<RawType> {
        let t = self.peek();
        match t.tok {
            Tok::Bare if t.text == "tensor" => {
                self.next();
                self.expect(b'<')?;
                self.tensor_body(t.at)
            }
            Tok::Bang if self.type_aliases.contains_key(t.text) => {
                self.next();
                Ok(self.type_aliases[t.text].clone())
            }
            Tok::Bare | Tok::Bang => {
                self.next();
                if self.eat(b'<') {
                    self.skip_balanced(b'>')?;
                }
                Ok(None)
            }
            _ => Err(self.unexpected("a type")),
        }
    }

    /// Reports the type that starts at `start` and has just been read.
    fn unknown_type(&mut self, start: At) -> RawType {
        let text = self.lexer.text[start.offset..self.taken()].trim_end();
        self.report_type(text, start);
        None
    }

    /// Reports that a type is not supported.
    pub(super) fn report_type(&mut self, text: &str, at: At) {
        let text: String = text.chars().take(120).collect();
        let help = if text.contains('?') {
            "shapes must be static: lower the step with concrete shapes"
        } else {
            "only ranked tensors of i1 to i64, ui2 to ui64, f8 kinds, bf16, f16, f32, f64 and complex numbers are supported"
        };
        self.report.unknown("E0103", &text, at, || (format!("the type `{text}` is not supported"), Some(help.to_string())));
    }

    fn tensor_body(&mut self, start: At) -> Step<RawType> {
        self.lexer.skip_blank();
        let mut shape: Vec<u64> = Vec::new();
        let (mut too_large, mut rank) = (false, 0);
        loop {
            let rest = &self.lexer.text.as_bytes()[self.lexer.at.offset..];
            let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            if digits == 0 || rest.get(digits) != Some(&b'x') {
                break;
            }
            let size = self.lexer.text[self.lexer.at.offset..][..digits].parse();
            too_large |= size.is_err();
            rank += 1;
            if rank <= MOST_DIMENSIONS {
                shape.push(size.unwrap_or(u64::MAX));
            }
            self.lexer.advance(digits + 1);
        }
        let t = self.peek();
        let dtype = match t.tok {
            Tok::Bare if t.text == "complex" => {
                self.next();
                self.expect(b'<')?;
                let part = self.skip_balanced(b'>')?;
                DType::from_name(&format!("complex<{}>", part.trim()))
            }
            Tok::Bare => {
                self.next();
                DType::from_name(t.text)
            }
            _ => None,
        };
        let Some(dtype) = dtype.filter(|_| self.is(b'>')) else {
            self.skip_balanced(b'>')?;
            return Ok(None);
        };
        self.next();
        let elements = shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d.max(1)));
        if rank > MOST_DIMENSIONS {
            let message = format!("a tensor type has {rank} dimensions; at most {MOST_DIMENSIONS} are supported");
            let d = Diagnostic::input("E0111", message).at(self.report.span(start, 6)).with_help("reshape it to fewer");
            return Err(self.report.error(d));
        }
        if too_large || elements.is_none_or(|n| n >= MOST_ELEMENTS) {
            let message = format!("a tensor type has more than 2^48 elements ({} dimensions)", shape.len());
            return Err(self.report.error_at("E0111", start, 6, message));
        }
        Ok(Some(TensorType { shape, dtype }))
    }

    /// Types in parentheses, or one without.
    fn types(&mut self) -> Step<Vec<RawType>> {
        if self.is(b'(') { self.list(b'(', b')', Self::ty) } else { Ok(vec![self.ty()?]) }
    }

    /// What follows an op's colon.
    pub(super) fn signature(&mut self) -> Step<Signature> {
        let mut left = self.types()?;
        while self.eat(b',') {
            left.push(self.ty()?);
        }
        let right = if self.eat_arrow() { Some(self.types()?) } else { None };
        Ok(Signature { left, right })
    }
}
