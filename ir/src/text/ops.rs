//! One op as written: result names, operands, attributes, regions, types; in the generic form, and dispatch to the pretty ones.
//!
//! A line that cannot be read is skipped whole and its results are poisoned, so that all lines of a file are looked at.

use super::attribute::Attr;
use super::lexer::{At, Tok};
use super::names;
use super::parser::{Parser, RawType, Signature, Step};
use super::scope::{Region, Scope};
use crate::dtype::TensorType;
use crate::op::ValueId;
use std::sync::Arc;

/// Result names of an op: a name, and how many results it stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResultName<'a> {
    pub(super) name: &'a str,
    pub(super) count: usize,
    pub(super) at: At,
}

/// A block argument as written.
pub(super) struct Argument<'a> {
    pub(super) name: &'a str,
    pub(super) at: At,
    pub(super) ty: RawType,
    pub(super) attributes: Vec<(String, Attr<'a>)>,
}

/// An op as written.
pub(super) struct RawOp<'a> {
    pub(super) name: &'a str,
    /// Where the statement starts.
    pub(super) start: At,
    /// Where the op's name is.
    pub(super) at: At,
    pub(super) results: Vec<ResultName<'a>>,
    /// Operands; nothing for poisoned ones.
    pub(super) operands: Vec<Option<ValueId>>,
    pub(super) attributes: Vec<(String, Attr<'a>)>,
    /// Attributes as text.
    pub(super) texts: Vec<(String, &'a str)>,
    /// Words, strings and other values that the pretty form gives without a name.
    pub(super) positional: Vec<Attr<'a>>,
    pub(super) regions: Vec<Region>,
    pub(super) signature: Option<Signature>,
    pub(super) location: Option<Arc<str>>,
}

/// Whether an op of that name ends a region.
pub(super) fn is_terminator(name: &str) -> bool {
    matches!(name, "func.return" | "stablehlo.return" | "sdy.return")
}

impl<'a> RawOp<'a> {
    /// Takes the attribute that has one of these names.
    pub(super) fn take(&mut self, names: &[&str]) -> Option<Attr<'a>> {
        let i = self.attributes.iter().position(|(n, _)| names.contains(&n.as_str()))?;
        Some(self.attributes.remove(i).1)
    }
    /// The op's name in characters.
    pub(super) fn length(&self) -> u32 {
        self.name.len() as u32
    }
    /// How many results are named.
    pub(super) fn result_count(&self) -> usize {
        self.results.iter().map(|r| r.count).sum()
    }
}

impl<'a> Parser<'a> {
    /// Ops up to the brace that closes the region, which is taken.
    pub(super) fn body(&mut self) -> Step<()> {
        self.nested(|p| {
            loop {
                let t = p.peek();
                match t.tok {
                    Tok::Punct(b'}') => {
                        p.next();
                        return Ok(());
                    }
                    Tok::Caret => {
                        let r = p.report.error_at("E0102", t.at, t.length(), "a region with several blocks is not supported");
                        p.report.fatal = true;
                        return Err(r);
                    }
                    Tok::Eof => return Err(p.unexpected("an operation or `}`")),
                    _ => {}
                }
                p.statement();
                if p.report.fatal {
                    return Err(super::report::Reported);
                }
            }
        })
    }

    /// One op; when it fails it is skipped.
    fn statement(&mut self) {
        let start = self.peek().at;
        let depth = self.scopes.len();
        let mut names = Vec::new();
        let done = self.result_names(&mut names).and_then(|()| self.op(start, &names));
        if done.is_err() {
            self.scopes.truncate(depth);
            if !self.report.fatal {
                self.rewind(start);
                self.skip_statement();
            }
            for r in names {
                self.scope().poisoned = true;
                if !self.is_defined(r.name) {
                    let _ = self.define(r.name, r.at, None);
                }
            }
        }
    }

    fn result_names(&mut self, names: &mut Vec<ResultName<'a>>) -> Step<()> {
        if self.peek().tok != Tok::Percent {
            return Ok(());
        }
        loop {
            let t = self.expect_tok(Tok::Percent, "a result's name")?;
            let mut count = 1;
            if self.eat(b':') {
                let n = self.expect_tok(Tok::Int, "a number of results")?;
                count = n.text.parse().ok().filter(|n| *n <= 1 << 20).unwrap_or(0);
                if count == 0 {
                    return Err(self.report.error_at("E0101", n.at, n.length(), format!("`{}` is not a number of results", n.text)));
                }
            }
            names.push(ResultName { name: t.text, count, at: t.at });
            if !self.eat(b',') {
                self.expect(b'=')?;
                return Ok(());
            }
        }
    }

    /// Skips the op that starts here: to the next line that begins a statement, brackets being balanced.
    fn skip_statement(&mut self) {
        let mut depth = 0usize;
        let mut first = true;
        loop {
            let t = self.peek();
            let new_line = !first && t.at.line > self.last_line;
            match t.tok {
                Tok::Eof => return,
                Tok::Punct(b'}') if depth == 0 => return,
                Tok::Punct(b'(' | b'[' | b'{') => depth += 1,
                Tok::Punct(b')' | b']' | b'}') => depth = depth.saturating_sub(1),
                Tok::Percent | Tok::Bare | Tok::Str | Tok::Caret if depth == 0 && new_line && t.text != "reducer" && t.text != "cond" => return,
                _ => {}
            }
            self.next();
            first = false;
        }
    }

    fn op(&mut self, start: At, names: &[ResultName<'a>]) -> Step<()> {
        let t = self.next();
        let (name, generic) = match t.tok {
            Tok::Bare => (t.text, false),
            Tok::Str => (&t.text[1..t.text.len() - 1], true),
            _ => {
                self.rewind(t.at);
                return Err(self.unexpected("an operation"));
            }
        };
        let name = match name {
            "call" => "func.call",
            "return" => "func.return",
            other => other,
        };
        if let Some(missing) = names::missing(name) {
            return Err(self.report.unknown("E0102", name, t.at, || missing));
        }
        let done = self.rest_of_op(start, t.at, name, generic, names);
        if done.is_err() && is_terminator(name) {
            self.scope().terminated = true;
        }
        done
    }

    /// What follows an op's name, and what it adds to the graph.
    fn rest_of_op(&mut self, start: At, at: At, name: &'a str, generic: bool, names: &[ResultName<'a>]) -> Step<()> {
        let mut raw = RawOp {
            name,
            start,
            at,
            results: names.to_vec(),
            operands: Vec::new(),
            attributes: Vec::new(),
            texts: Vec::new(),
            positional: Vec::new(),
            regions: Vec::new(),
            signature: None,
            location: None,
        };
        if generic {
            self.generic(&mut raw)?;
        } else {
            self.pretty(&mut raw)?;
        }
        if self.is_word("loc") {
            let tree = self.location()?;
            raw.location = self.mark_location(tree);
        }
        self.build(raw)
    }

    /// What follows the quoted name.
    fn generic(&mut self, raw: &mut RawOp<'a>) -> Step<()> {
        raw.operands = self.list(b'(', b')', Self::operand)?;
        if self.eat(b'[') {
            self.skip_balanced(b']')?;
        }
        if self.eat(b'<') {
            raw.attributes = self.dict()?;
            raw.texts = std::mem::take(&mut self.entry_texts);
            self.expect(b'>')?;
        }
        if self.is(b'(') {
            raw.regions = self.list(b'(', b')', |p| p.region(None))?;
        }
        if self.is(b'{') {
            let more = self.dict()?;
            raw.attributes.extend(more);
            raw.texts.append(&mut self.entry_texts);
        }
        self.expect(b':')?;
        raw.signature = Some(self.signature()?);
        Ok(())
    }

    /// `%548` or `%6#1`; nothing when it is poisoned.
    pub(super) fn operand(&mut self) -> Step<Option<ValueId>> {
        let t = self.expect_tok(Tok::Percent, "an operand")?;
        let mut index = None;
        let next = self.peek();
        if next.tok == Tok::Hash && next.at.offset == t.at.offset + t.text.len() {
            self.next();
            let Ok(i) = next.text[1..].parse() else {
                return Err(self.report.error_at("E0101", next.at, next.length(), format!("`{}` is not a result number", next.text)));
            };
            index = Some(i);
        }
        self.lookup(t.text, index, t.at)
    }

    /// `%name: type {attributes} loc(…)`.
    pub(super) fn argument(&mut self) -> Step<Argument<'a>> {
        let t = self.expect_tok(Tok::Percent, "an argument")?;
        self.expect(b':')?;
        let ty = self.ty()?;
        let attributes = if self.is(b'{') { self.dict()? } else { Vec::new() };
        if self.is_word("loc") {
            self.location()?;
        }
        Ok(Argument { name: t.text, at: t.at, ty, attributes })
    }

    /// Opens a scope with these inputs.
    pub(super) fn open_scope(&mut self, name: &str, arguments: &[Argument<'a>]) -> Step<()> {
        self.scopes.push(Scope::new(name));
        for a in arguments {
            let value = a.ty.as_ref().map(|ty| vec![self.graph().add_input(ty.clone(), a.name)]);
            self.scope().poisoned |= value.is_none();
            self.define(a.name, a.at, value)?;
        }
        Ok(())
    }

    /// A region in braces. Its arguments are given, or are those of its first block's label.
    pub(super) fn region(&mut self, arguments: Option<Vec<Argument<'a>>>) -> Step<Region> {
        self.expect(b'{')?;
        let arguments = match arguments {
            Some(a) => a,
            None if self.peek().tok == Tok::Caret => {
                self.next();
                let a = if self.is(b'(') { self.list(b'(', b')', Self::argument)? } else { Vec::new() };
                self.expect(b':')?;
                a
            }
            None => Vec::new(),
        };
        self.open_scope("", &arguments)?;
        self.body()?;
        let scope = self.scopes.pop().expect("invariant: the scope opened above");
        Ok(scope.into_region())
    }

    /// Gives an op's results their names.
    pub(super) fn define_results(&mut self, raw: &RawOp<'a>, values: Option<&[ValueId]>) -> Step<()> {
        if let Some(values) = values {
            let (named, made) = (raw.result_count(), values.len());
            if named != made && !(named == 0 && raw.results.is_empty()) {
                let message = format!("`{}` has {made} results, but {named} are named", raw.name);
                return Err(self.report.error_at("E0108", raw.at, raw.length(), message));
            }
        } else {
            self.scope().poisoned = true;
        }
        let mut from = 0;
        for r in &raw.results {
            let part = values.map(|v| v[from..from + r.count].to_vec());
            self.define(r.name, r.at, part)?;
            from += r.count;
        }
        Ok(())
    }

    /// The user's name of each result.
    pub(super) fn value_names(raw: &RawOp<'a>) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        for r in &raw.results {
            for i in 0..r.count {
                names.push(if r.count == 1 { r.name.into() } else { format!("{}#{i}", r.name).into() });
            }
        }
        names
    }

    /// Types of operands and results as the op states them, checked against its operands; nothing when one is poisoned.
    pub(super) fn types_of(&mut self, raw: &mut RawOp<'a>) -> Step<Option<(Vec<ValueId>, Vec<TensorType>)>> {
        let Some(signature) = raw.signature.take() else {
            return Err(self.report.error_at("E0101", raw.at, raw.length(), format!("`{}` states no types", raw.name)));
        };
        let n = raw.operands.len();
        let (ins, outs) = match (signature.right, signature.left) {
            (Some(outs), ins) => (ins, outs),
            (None, types) if n == 0 => (Vec::new(), types),
            (None, types) if raw.name == "stablehlo.select" && types.len() == 2 && n == 3 => {
                (vec![types[0].clone(), types[1].clone(), types[1].clone()], vec![types[1].clone()])
            }
            (None, types) if raw.name == "stablehlo.complex" && types.len() == 1 => {
                // The short form states the result.
                let part = types[0].as_ref().and_then(|t| Some(t.with_dtype(t.dtype.part()?)));
                (vec![part; n], types)
            }
            (None, types) if raw.name == "stablehlo.optimization_barrier" => (types.clone(), types),
            // Stated by its result: the parts are real.
            (None, types) if raw.name == "stablehlo.complex" && types.len() == 1 => {
                let part = types[0].as_ref().map(|t| t.with_dtype(if t.dtype == crate::DType::C128 { crate::DType::F64 } else { crate::DType::F32 }));
                (vec![part; n], types)
            }
            (None, types) if types.len() == 1 => (vec![types[0].clone(); n], types),
            (None, types) => {
                let message = format!("`{}` states {} types where one, or `(…) -> …`, is expected", raw.name, types.len());
                return Err(self.report.error_at("E0101", raw.at, raw.length(), message));
            }
        };
        if ins.len() != n {
            let message = format!("`{}` has {n} operands but states {} operand types", raw.name, ins.len());
            return Err(self.report.error_at("E0108", raw.at, raw.length(), message));
        }
        for (i, (operand, stated)) in raw.operands.iter().zip(&ins).enumerate() {
            let (Some(v), Some(stated)) = (operand, stated) else { continue };
            let graph = &self.scopes.last().expect("invariant: ops are read inside a function").graph;
            if graph.ty(*v) != stated {
                let d = crate::Diagnostic::input("E0105", format!("operand {i} of `{}` has another type than the op states", raw.name))
                    .at(self.report.span(raw.at, raw.length()))
                    .with_note(format!("`{}` is {}", graph.display_name(*v), graph.ty(*v)))
                    .with_note(format!("the op states {stated}"));
                return Err(self.report.error(d));
            }
        }
        let values: Option<Vec<ValueId>> = raw.operands.iter().copied().collect();
        let types: Option<Vec<TensorType>> = outs.into_iter().collect();
        Ok(values.zip(types))
    }
}
