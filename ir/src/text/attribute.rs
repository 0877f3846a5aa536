//! Attributes: MLIR's builtin ones, StableHLO's dialect attributes, and any other skipped as text.

use super::dense;
use super::lexer::{Tok, unescape};
use super::parser::{Parser, RawType, Step};
use crate::dtype::TensorType;
use crate::literal::Literal;

/// An attribute's value.
#[derive(Clone, Debug)]
pub(super) enum Attr<'a> {
    Unit,
    Bool(bool),
    Int(i128),
    /// A float.
    Float(f64),
    Str(String),
    /// `@name`.
    Symbol(String),
    /// A keyword, such as `THREE_FRY` or an element type.
    Word(&'a str),
    Array(Vec<Attr<'a>>),
    /// `[…] x […]`, with `-> […]` in a convolution's dimension numbers.
    Product(Vec<Attr<'a>>),
    Dict(Vec<(String, Attr<'a>)>),
    Dense(Literal),
    /// A constant of a type that is not supported: the type.
    Untyped(&'a str),
    /// `(…) -> …`: the results.
    Function(Vec<RawType>),
    /// `#stablehlo.gather<offset_dims = [2], …>`: entries, with their key where they have one.
    Dialect(Vec<(Option<&'a str>, Attr<'a>)>),
    /// What is not looked into, as text.
    Raw(&'a str),
}

impl<'a> Attr<'a> {
    /// The integers it lists: an array, a dense constant, or a single integer.
    pub(super) fn ints(&self) -> Option<Vec<i64>> {
        match self {
            Attr::Int(i) => Some(vec![i64::try_from(*i).ok()?]),
            Attr::Array(items) => items
                .iter()
                .map(|a| match a {
                    Attr::Int(i) => i64::try_from(*i).ok(),
                    Attr::Bool(b) => Some(i64::from(*b)),
                    _ => None,
                })
                .collect(),
            Attr::Dense(l) => {
                if l.ty.elements() > 1 << 16 || !l.ty.dtype.is_integer() {
                    return None;
                }
                let bytes = l.to_bytes();
                bytes.chunks(l.ty.dtype.bytes() as usize).map(|b| crate::literal::decode(l.ty.dtype, b).map(|x| x as i64)).collect()
            }
            _ => None,
        }
    }

    /// The word it is: `GT`, `#stablehlo<comparison_direction GT>` or `"GT"`.
    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Attr::Word(w) => Some(w),
            Attr::Str(s) => Some(s),
            Attr::Dialect(entries) => entries.last().and_then(|(_, a)| a.word()),
            _ => None,
        }
    }
}

impl<'a> Parser<'a> {
    /// `{name = value, …}`; the brace is the next token.
    pub(super) fn dict(&mut self) -> Step<Vec<(String, Attr<'a>)>> {
        let mut texts = Vec::new();
        let entries = self.nested(|p| {
            p.list(b'{', b'}', |p| {
                let t = p.peek();
                let name = match t.tok {
                    Tok::Bare => t.text.to_string(),
                    Tok::Str => unescape(t.text),
                    _ => return Err(p.unexpected("an attribute's name")),
                };
                p.next();
                let value = if p.eat(b'=') { p.attribute()? } else { Attr::Unit };
                texts.push((name.clone(), p.lexer.text[t.at.offset..p.taken()].trim_end()));
                Ok((name, value))
            })
        })?;
        self.entry_texts = texts;
        Ok(entries)
    }

    /// One attribute with its type, where it has one.
    pub(super) fn attribute(&mut self) -> Step<Attr<'a>> {
        self.nested(Self::attribute_at_level)
    }

    fn attribute_at_level(&mut self) -> Step<Attr<'a>> {
        let t = self.peek();
        match t.tok {
            Tok::Int | Tok::Float | Tok::Punct(b'-' | b'+') => {
                let value = self.number()?;
                if self.eat(b':') {
                    self.any_type()?;
                }
                Ok(value)
            }
            Tok::Str => {
                self.next();
                if self.eat(b':') {
                    self.any_type()?;
                }
                Ok(Attr::Str(unescape(t.text)))
            }
            Tok::Symbol => {
                self.next();
                while self.is(b':') {
                    self.next();
                    self.expect(b':')?;
                    self.expect_tok(Tok::Symbol, "a symbol")?;
                }
                Ok(Attr::Symbol(unescape(t.text).trim_start_matches('@').to_string()))
            }
            Tok::Punct(b'[') => self.array(),
            Tok::Punct(b'{') => Ok(Attr::Dict(self.dict()?)),
            Tok::Punct(b'<') => {
                self.next();
                Ok(Attr::Raw(self.skip_balanced(b'>')?))
            }
            Tok::Punct(b'(') => {
                let s = self.signature()?;
                Ok(Attr::Function(s.right.unwrap_or_default()))
            }
            Tok::Hash => self.dialect_attribute(),
            Tok::Bang => {
                self.any_type()?;
                Ok(Attr::Raw(t.text))
            }
            Tok::Bare => self.keyword(),
            _ => Err(self.unexpected("an attribute")),
        }
    }

    /// A number without a type.
    pub(super) fn number(&mut self) -> Step<Attr<'a>> {
        let negative = self.eat(b'-');
        self.eat(b'+');
        let t = self.next();
        let value = match t.tok {
            Tok::Float => t.text.parse::<f64>().ok().map(|x| Attr::Float(if negative { -x } else { x })),
            Tok::Int => dense::integer(t.text).map(|i| Attr::Int(if negative { -i } else { i })),
            _ => None,
        };
        value.ok_or_else(|| self.report.error_at("E0101", t.at, t.length(), format!("`{}` is not a number", t.text)))
    }

    /// `[…]`, and what a dot's or convolution's dimension numbers append to it.
    fn array(&mut self) -> Step<Attr<'a>> {
        let first = Attr::Array(self.list(b'[', b']', Self::attribute)?);
        if !self.eat_word("x") {
            return Ok(first);
        }
        let mut parts = vec![first, Attr::Array(self.list(b'[', b']', Self::attribute)?)];
        if self.eat_arrow() {
            parts.push(Attr::Array(self.list(b'[', b']', Self::attribute)?));
        }
        Ok(Attr::Product(parts))
    }

    fn keyword(&mut self) -> Step<Attr<'a>> {
        let t = self.peek();
        match t.text {
            "tensor" => {
                self.any_type()?;
                return Ok(Attr::Raw("tensor"));
            }
            "loc" => {
                self.location()?;
                return Ok(Attr::Unit);
            }
            _ => {}
        }
        self.next();
        match t.text {
            "true" => Ok(Attr::Bool(true)),
            "false" => Ok(Attr::Bool(false)),
            "unit" => Ok(Attr::Unit),
            "dense" => self.dense(),
            "dense_resource" => self.dense_resource(),
            "array" if self.is(b'<') => {
                self.next();
                self.expect_tok(Tok::Bare, "an element type")?;
                let mut items = Vec::new();
                if self.eat(b':') {
                    loop {
                        items.push(self.attribute()?);
                        if !self.eat(b',') {
                            break;
                        }
                    }
                }
                self.expect(b'>')?;
                Ok(Attr::Array(items))
            }
            word => {
                if self.eat(b'<') {
                    self.skip_balanced(b'>')?;
                }
                Ok(Attr::Word(word))
            }
        }
    }

    fn dialect_attribute(&mut self) -> Step<Attr<'a>> {
        let t = self.next();
        if let Some(a) = self.attribute_aliases.get(t.text) {
            return Ok(a.clone());
        }
        let name = &t.text[1..];
        if !self.is(b'<') {
            return Ok(Attr::Dialect(Vec::new()));
        }
        self.next();
        if !(name.starts_with("stablehlo") || name.starts_with("chlo") || name.starts_with("mhlo")) || name.contains("type_extensions") {
            return Ok(Attr::Raw(self.skip_balanced(b'>')?));
        }
        let mut entries = Vec::new();
        while !self.eat(b'>') {
            let key = self.peek();
            let value = if key.tok == Tok::Bare {
                self.next();
                if self.eat(b'=') { (Some(key.text), self.attribute()?) } else { (None, Attr::Word(key.text)) }
            } else {
                (None, self.attribute()?)
            };
            entries.push(value);
            self.eat(b',');
        }
        Ok(Attr::Dialect(entries))
    }

    /// Any type, not looked into: what may follow an attribute's colon.
    fn any_type(&mut self) -> Step<()> {
        let t = self.next();
        match t.tok {
            Tok::Bare | Tok::Bang => {
                if self.eat(b'<') {
                    self.skip_balanced(b'>')?;
                }
                Ok(())
            }
            Tok::Punct(b'(') => {
                self.skip_balanced(b')')?;
                if self.eat_arrow() { self.nested(Self::any_type) } else { Ok(()) }
            }
            _ => Err(self.report.error_at("E0101", t.at, t.length(), format!("expected a type, found `{}`", t.text))),
        }
    }

    /// The type of a constant: its text when it is not supported, which only matters where the constant is used.
    fn constant_type(&mut self) -> Step<Result<TensorType, &'a str>> {
        let start = self.peek().at.offset;
        let ty = self.quiet_type()?;
        Ok(ty.ok_or_else(|| self.lexer.text[start..self.taken()].trim_end()))
    }

    /// What follows `dense`: content, colon, type.
    fn dense(&mut self) -> Step<Attr<'a>> {
        let open = self.expect(b'<')?;
        let content = self.dense_content()?;
        self.expect(b':')?;
        let ty = match self.constant_type()? {
            Ok(ty) => ty,
            Err(text) => return Ok(Attr::Untyped(text)),
        };
        match dense::literal(content, ty) {
            Ok(l) => Ok(Attr::Dense(l)),
            Err(message) => Err(self.report.error_at("E0110", open.at, 1, message)),
        }
    }

    /// The text up to the `>` that closes a dense constant; no token in it is made.
    fn dense_content(&mut self) -> Step<&'a str> {
        let bytes = self.lexer.text.as_bytes();
        let start = self.lexer.at.offset;
        let mut i = start;
        loop {
            match bytes.get(i) {
                Some(b'>') => break,
                Some(b'"') => i = bytes[i + 1..].iter().position(|b| *b == b'"').map_or(bytes.len(), |n| i + n + 2),
                Some(b'%' | b'{' | b'}') | None => {
                    self.lexer.advance(i.min(bytes.len()) - start);
                    return Err(self.unexpected("`>`"));
                }
                Some(_) => i += 1,
            }
        }
        self.lexer.advance(i + 1 - start);
        Ok(&self.lexer.text[start..i])
    }

    /// What follows `dense_resource`: `<name> : type`, the data being in the file's trailer.
    fn dense_resource(&mut self) -> Step<Attr<'a>> {
        self.expect(b'<')?;
        let key = self.next();
        self.expect(b'>')?;
        self.expect(b':')?;
        let ty = match self.constant_type()? {
            Ok(ty) => ty,
            Err(text) => return Ok(Attr::Untyped(text)),
        };
        let Some(hex) = self.resources.get(key.text).copied() else {
            let message = format!("the resource `{}` is not in the file's `dialect_resources`", key.text);
            let d = crate::Diagnostic::input("E0110", message).at(self.report.span(key.at, key.length()));
            return Err(self.report.error(d.with_help("print the module without eliding large constants")));
        };
        match dense::resource(hex, ty) {
            Ok(l) => Ok(Attr::Dense(l)),
            Err(message) => Err(self.report.error_at("E0110", key.at, key.length(), message)),
        }
    }
}
