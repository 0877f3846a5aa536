//! The pretty forms of ops, brought to the shape of the generic form.
//!
//! Most ops are a list of operands, words and `name = value` pairs before the types, in any order: one loop reads them all.
//! Constants, slices, reductions and loops have a syntax of their own.

use super::attribute::Attr;
use super::lexer::{Tok, unescape};
use super::ops::{Argument, RawOp};
use super::parser::{Parser, Signature, Step};

impl<'a> Parser<'a> {
    /// What follows an op's unquoted name.
    pub(super) fn pretty(&mut self, raw: &mut RawOp<'a>) -> Step<()> {
        match raw.name {
            "stablehlo.constant" | "chlo.constant" => self.pretty_constant(raw),
            "stablehlo.reduce" => self.pretty_reduce(raw),
            "stablehlo.while" => self.pretty_while(raw),
            _ => self.items(raw),
        }
    }

    fn items(&mut self, raw: &mut RawOp<'a>) -> Step<()> {
        let mut comma = false;
        loop {
            let t = self.peek();
            let continues = comma || t.at.line == self.last_line;
            comma = false;
            match t.tok {
                Tok::Percent if continues => {
                    let v = self.operand()?;
                    raw.operands.push(v);
                }
                Tok::Bare if t.text == "loc" => return Ok(()),
                Tok::Bare if continues => {
                    self.next();
                    if self.eat(b'=') {
                        let value = self.value()?;
                        raw.attributes.push((t.text.to_string(), value));
                    } else {
                        raw.positional.push(Attr::Word(t.text));
                    }
                }
                Tok::Punct(b'(') => {
                    self.next();
                    self.parenthesised(raw)?;
                }
                Tok::Punct(b'[') if raw.name == "stablehlo.slice" => self.slice_ranges(raw)?,
                Tok::Punct(b'{') => {
                    let more = self.dict()?;
                    raw.attributes.extend(more);
                    raw.texts.append(&mut self.entry_texts);
                }
                Tok::Punct(b'<') => {
                    let value = self.attribute()?;
                    raw.positional.push(value);
                }
                Tok::Symbol | Tok::Str if continues => {
                    let value = self.attribute()?;
                    raw.positional.push(value);
                }
                Tok::Punct(b',') => {
                    self.next();
                    comma = true;
                }
                Tok::Punct(b':') => {
                    self.next();
                    raw.signature = Some(self.signature()?);
                    return Ok(());
                }
                Tok::Percent | Tok::Bare | Tok::Str | Tok::Punct(b'}') => return Ok(()),
                _ => return Err(self.unexpected("an operand, an attribute or `:`")),
            }
        }
    }

    /// A value after `=` in a pretty form, where a colon begins the op's types.
    fn value(&mut self) -> Step<Attr<'a>> {
        let t = self.peek();
        match t.tok {
            Tok::Int | Tok::Float | Tok::Punct(b'-') => self.number(),
            Tok::Str => {
                self.next();
                Ok(Attr::Str(unescape(t.text)))
            }
            _ => self.attribute(),
        }
    }

    /// Operands and attributes up to a closing parenthesis.
    fn parenthesised(&mut self, raw: &mut RawOp<'a>) -> Step<()> {
        while !self.eat(b')') {
            let t = self.peek();
            if t.tok == Tok::Percent {
                let v = self.operand()?;
                raw.operands.push(v);
            } else {
                let name = self.expect_tok(Tok::Bare, "an operand or an attribute")?;
                self.expect(b'=')?;
                let value = self.value()?;
                raw.attributes.push((name.text.to_string(), value));
            }
            if !self.eat(b',') && !self.is(b')') {
                return Err(self.unexpected("`,` or `)`"));
            }
        }
        Ok(())
    }

    fn pretty_constant(&mut self, raw: &mut RawOp<'a>) -> Step<()> {
        if self.is(b'{') {
            raw.attributes = self.dict()?;
        }
        let value = self.attribute()?;
        raw.attributes.push(("value".to_string(), value));
        Ok(())
    }

    /// `[0:1, 0:4:2]`.
    fn slice_ranges(&mut self, raw: &mut RawOp<'a>) -> Step<()> {
        let ranges = self.list(b'[', b']', |p| {
            let mut range = [0i128, 0, 1];
            for (i, slot) in range.iter_mut().enumerate() {
                if i > 0 && !p.eat(b':') {
                    if i == 1 {
                        return Err(p.unexpected("`:`"));
                    }
                    break;
                }
                let t = p.expect_tok(Tok::Int, "an index")?;
                *slot = super::dense::integer(t.text).unwrap_or(-1);
            }
            Ok(range)
        })?;
        for (i, name) in ["start_indices", "limit_indices", "strides"].into_iter().enumerate() {
            raw.attributes.push((name.to_string(), Attr::Array(ranges.iter().map(|r| Attr::Int(r[i])).collect())));
        }
        Ok(())
    }

    /// `(%x init: %i), … [applies op] across dimensions = […] : types [reducer(…) {…}]`.
    fn pretty_reduce(&mut self, raw: &mut RawOp<'a>) -> Step<()> {
        let mut inits = Vec::new();
        loop {
            self.expect(b'(')?;
            let x = self.operand()?;
            raw.operands.push(x);
            self.expect_word("init")?;
            self.expect(b':')?;
            inits.push(self.operand()?);
            self.expect(b')')?;
            if !self.eat(b',') {
                break;
            }
        }
        raw.operands.extend(inits);
        if self.eat_word("applies") {
            let op = self.expect_tok(Tok::Bare, "an operation")?;
            raw.positional.push(Attr::Word(op.text));
        }
        self.expect_word("across")?;
        self.expect_word("dimensions")?;
        self.expect(b'=')?;
        let dims = self.attribute()?;
        raw.attributes.push(("dimensions".to_string(), dims));
        if self.is(b'{') {
            let more = self.dict()?;
            raw.attributes.extend(more);
        }
        self.expect(b':')?;
        raw.signature = Some(self.signature()?);
        if self.is_word("reducer") {
            self.next();
            let (mut first, mut second) = (Vec::new(), Vec::new());
            while self.eat(b'(') {
                first.push(self.argument()?);
                self.expect(b',')?;
                second.push(self.argument()?);
                self.expect(b')')?;
            }
            first.extend(second);
            let region = self.region(Some(first))?;
            raw.regions.push(region);
        }
        Ok(())
    }

    /// `(%a = %x, …) : types [attributes {…}] cond {…} do {…}`.
    fn pretty_while(&mut self, raw: &mut RawOp<'a>) -> Step<()> {
        let carried = self.list(b'(', b')', |p| {
            let t = p.expect_tok(Tok::Percent, "a loop variable")?;
            p.expect(b'=')?;
            Ok((t, p.operand()?))
        })?;
        raw.operands = carried.iter().map(|(_, v)| *v).collect();
        let mut types = Vec::new();
        if self.eat(b':') {
            types.push(self.ty()?);
            while self.eat(b',') {
                types.push(self.ty()?);
            }
        }
        if types.len() != carried.len() {
            let message = format!("`stablehlo.while` has {} loop variables but states {} types", carried.len(), types.len());
            return Err(self.report.error_at("E0108", raw.at, raw.length(), message));
        }
        if self.eat_word("attributes") {
            raw.attributes = self.dict()?;
        }
        for word in ["cond", "do"] {
            self.expect_word(word)?;
            let arguments = carried.iter().zip(&types).map(|((t, _), ty)| Argument { name: t.text, at: t.at, ty: ty.clone(), attributes: Vec::new() });
            let region = self.region(Some(arguments.collect()))?;
            raw.regions.push(region);
        }
        raw.signature = Some(Signature { left: types.clone(), right: Some(types) });
        Ok(())
    }
}
