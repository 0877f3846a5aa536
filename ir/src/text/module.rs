//! Files, modules and functions.

use super::attribute::Attr;
use super::lexer::{At, Lexer, Tok, unescape};
use super::ops::Argument;
use super::parser::{Parser, RawType, Step};
use super::report::Reported;
use crate::diagnostic::Diagnostic;
use crate::dtype::TensorType;
use crate::graph::{Graph, InputAttributes, OutputAttributes};
use crate::verify::call_cycle;
use rustc_hash::FxHashMap;

/// A function's result as written.
struct Output<'a> {
    ty: RawType,
    attributes: Vec<(String, Attr<'a>)>,
}

impl<'a> Parser<'a> {
    /// Reads the whole file.
    pub(super) fn file(&mut self) -> Step<()> {
        self.trailer();
        self.items_until(Tok::Eof)?;
        if self.module.functions.is_empty() && self.report.is_clean() {
            return Err(self
                .report
                .error(Diagnostic::input("E0114", "the file holds no function").with_help("export it with `jax.jit(step).lower(…).as_text()`")));
        }
        Ok(())
    }

    /// What a module holds, up to its closing brace or the end of the file.
    fn items_until(&mut self, end: Tok) -> Step<()> {
        loop {
            let t = self.peek();
            if t.tok == end {
                self.next();
                return Ok(());
            }
            match (t.tok, t.text) {
                (Tok::Hash, _) => self.alias()?,
                (Tok::Bang, _) => {
                    self.next();
                    self.expect(b'=')?;
                    let ty = self.ty()?;
                    self.type_aliases.insert(t.text, ty);
                }
                (Tok::Bare, "module" | "builtin.module") if end == Tok::Eof => self.pretty_module()?,
                (Tok::Str, "\"builtin.module\"") if end == Tok::Eof => self.generic_module()?,
                (Tok::Bare, "func.func" | "func") => self.function_or_skip(t.at, Self::pretty_function),
                (Tok::Str, "\"func.func\"") => self.function_or_skip(t.at, Self::generic_function),
                (Tok::Bare, "sdy.mesh") => self.mesh()?,
                (Tok::Str, "\"sdy.mesh\"") => self.generic_mesh()?,
                (Tok::MetadataOpen, _) => {
                    while !matches!(self.peek().tok, Tok::MetadataClose | Tok::Eof) {
                        self.next();
                    }
                    self.expect_tok(Tok::MetadataClose, "`#-}`")?;
                }
                (Tok::Bare | Tok::Str, name) if end != Tok::Eof && name.contains('.') => {
                    let name = name.trim_matches('"');
                    let shown: String = name.chars().take(60).collect();
                    self.report.unknown("E0102", name, t.at, || (format!("the operation `{shown}` is not supported in a module"), None));
                    self.skip_item();
                }
                _ => return Err(self.unexpected(if end == Tok::Eof { "`module` or a function" } else { "a function or `}`" })),
            }
            if self.report.fatal {
                return Err(Reported);
            }
        }
    }

    fn skip_item(&mut self) {
        let mut depth = 0usize;
        let mut first = true;
        loop {
            let t = self.peek();
            match t.tok {
                Tok::Eof => return,
                Tok::Punct(b'}') if depth == 0 => return,
                Tok::Punct(b'(' | b'[' | b'{') => depth += 1,
                Tok::Punct(b')' | b']' | b'}') => depth = depth.saturating_sub(1),
                _ if depth == 0 && !first && t.at.line > self.last_line => return,
                _ => {}
            }
            self.next();
            first = false;
        }
    }

    /// Reads a function; when its header is wrong it is skipped whole.
    fn function_or_skip(&mut self, start: At, function: impl FnOnce(&mut Self) -> Step<()>) {
        if function(self).is_err() {
            self.scopes.clear();
            if !self.report.fatal {
                self.rewind(start);
                self.skip_item();
            }
        }
    }

    /// `#name = attribute` or `#name = loc(…)`.
    fn alias(&mut self) -> Step<()> {
        let t = self.next();
        self.expect(b'=')?;
        if self.is_word("loc") {
            let tree = self.location()?;
            self.location_aliases.insert(t.text, tree);
        } else {
            let value = self.attribute()?;
            self.attribute_aliases.insert(t.text, value);
        }
        Ok(())
    }

    fn pretty_module(&mut self) -> Step<()> {
        self.next();
        if self.peek().tok == Tok::Symbol {
            self.module.name = unescape(self.next().text).trim_start_matches('@').to_string();
        }
        if self.eat_word("attributes") {
            self.dict()?;
        }
        self.expect(b'{')?;
        self.items_until(Tok::Punct(b'}'))?;
        if self.is_word("loc") {
            self.location()?;
        }
        Ok(())
    }

    /// `"builtin.module"() <{sym_name = "…"}> ({ … }) {…} : () -> ()`.
    fn generic_module(&mut self) -> Step<()> {
        self.next();
        self.expect(b'(')?;
        self.expect(b')')?;
        let mut attributes = self.properties()?;
        self.expect(b'(')?;
        self.expect(b'{')?;
        if self.peek().tok == Tok::Caret {
            self.next();
            self.expect(b':')?;
        }
        self.items_until(Tok::Punct(b'}'))?;
        self.expect(b')')?;
        attributes.extend(self.generic_end()?);
        if let Some((_, Attr::Str(name))) = attributes.iter().find(|(n, _)| n == "sym_name") {
            self.module.name = name.clone();
        }
        Ok(())
    }

    /// `<{…}>`, where there is one.
    fn properties(&mut self) -> Step<Vec<(String, Attr<'a>)>> {
        if !self.eat(b'<') {
            return Ok(Vec::new());
        }
        let d = self.dict()?;
        self.expect(b'>')?;
        Ok(d)
    }

    /// Attributes, types and location that end an op of a module.
    fn generic_end(&mut self) -> Step<Vec<(String, Attr<'a>)>> {
        let attributes = if self.is(b'{') { self.dict()? } else { Vec::new() };
        self.expect(b':')?;
        self.signature()?;
        if self.is_word("loc") {
            self.location()?;
        }
        Ok(attributes)
    }

    /// `func.func private @name(…) -> (…) attributes {…} {…}`.
    fn pretty_function(&mut self) -> Step<()> {
        self.next();
        let _ = self.eat_word("public") || self.eat_word("private") || self.eat_word("nested");
        let name = self.expect_tok(Tok::Symbol, "a function's name")?;
        let arguments = self.list(b'(', b')', |p| if p.peek().tok == Tok::Percent { p.argument().map(Some) } else { p.ty().map(|_| None) })?;
        let mut outputs = Vec::new();
        if self.eat_arrow() {
            let item = |p: &mut Self| {
                let ty = p.ty()?;
                Ok(Output { ty, attributes: if p.is(b'{') { p.dict()? } else { Vec::new() } })
            };
            if self.is(b'(') {
                outputs = self.list(b'(', b')', item)?;
            } else {
                // Without parentheses a brace begins the body.
                outputs.push(Output { ty: self.ty()?, attributes: Vec::new() });
            }
        }
        if self.eat_word("attributes") {
            self.dict()?;
        }
        let name_text = unescape(name.text).trim_start_matches('@').to_string();
        if !self.is(b'{') {
            let message = format!("the function @{name_text} has no body");
            return Err(self.report.error_at("E0112", name.at, name.length(), message));
        }
        self.next();
        let arguments: Vec<Argument<'a>> = arguments.into_iter().flatten().collect();
        self.open_scope(&name_text, &arguments)?;
        self.body()?;
        if self.is_word("loc") {
            self.location()?;
        }
        self.close_function(name.at, name.length(), arguments.into_iter().map(|a| a.attributes).collect(), outputs)
    }

    /// `"func.func"() <{function_type = …, sym_name = "…", arg_attrs = […]}> ({ ^bb0(…): … }) : () -> ()`.
    fn generic_function(&mut self) -> Step<()> {
        let start = self.next();
        self.expect(b'(')?;
        self.expect(b')')?;
        let mut attributes = self.properties()?;
        self.expect(b'(')?;
        self.expect(b'{')?;
        let mut arguments = Vec::new();
        if self.peek().tok == Tok::Caret {
            self.next();
            if self.is(b'(') {
                arguments = self.list(b'(', b')', Self::argument)?;
            }
            self.expect(b':')?;
        }
        let depth = self.scopes.len();
        self.open_scope("", &arguments)?;
        // Calls note their caller, so the name is looked for before the body is read.
        if let Some((_, Attr::Str(name))) = attributes.iter().find(|(n, _)| n == "sym_name") {
            self.scopes[depth].graph.name = name.clone();
        }
        self.body()?;
        self.expect(b')')?;
        attributes.extend(self.generic_end()?);
        let mut take = |name: &str| attributes.iter().position(|(n, _)| n == name).map(|i| attributes.remove(i).1);
        match take("sym_name") {
            Some(Attr::Str(name)) => self.scopes[depth].graph.name = name,
            _ => return Err(self.report.error_at("E0109", start.at, start.length(), "the function has no `sym_name`")),
        }
        let Some(Attr::Function(results)) = take("function_type") else {
            return Err(self.report.error_at("E0109", start.at, start.length(), "the function has no `function_type`"));
        };
        let dicts = |a: Option<Attr<'a>>| match a {
            Some(Attr::Array(items)) => items.into_iter().map(|i| if let Attr::Dict(d) = i { d } else { Vec::new() }).collect(),
            _ => Vec::new(),
        };
        let arg_attributes: Vec<_> = dicts(take("arg_attrs"));
        let mut res_attributes = dicts(take("res_attrs")).into_iter();
        let outputs = results.into_iter().map(|ty| Output { ty, attributes: res_attributes.next().unwrap_or_default() }).collect();
        self.close_function(start.at, start.length(), arg_attributes, outputs)
    }

    fn close_function(&mut self, at: At, length: u32, inputs: Vec<Vec<(String, Attr<'a>)>>, outputs: Vec<Output<'a>>) -> Step<()> {
        let scope = self.scopes.pop().expect("invariant: the function's scope is open");
        let mut graph = scope.graph;
        if !scope.terminated && !scope.poisoned {
            return Err(self.report.error_at("E0101", at, length, format!("the function @{} does not return", graph.name)));
        }
        if self.functions.contains_key(&graph.name) {
            return Err(self.report.error_at("E0107", at, length, format!("the function @{} is defined twice", graph.name)));
        }
        if !scope.poisoned {
            let returned: Vec<&TensorType> = graph.outputs.iter().map(|&v| graph.ty(v)).collect();
            if returned.len() != outputs.len() {
                let message = format!("@{} returns {} values but states {}", graph.name, returned.len(), outputs.len());
                return Err(self.report.error_at("E0108", at, length, message));
            }
            for (i, (found, stated)) in returned.iter().zip(&outputs).enumerate() {
                if stated.ty.as_ref().is_some_and(|s| s != *found) {
                    let stated = stated.ty.as_ref().map(ToString::to_string).unwrap_or_default();
                    let message = format!("@{} returns {found} as value {i} but states {stated}", graph.name);
                    return Err(self.report.error_at("E0105", at, length, message));
                }
            }
        }
        let mut attributes = inputs.into_iter();
        graph.input_attributes = graph.inputs.iter().map(|_| input_attributes(attributes.next().unwrap_or_default())).collect();
        graph.output_attributes = outputs.into_iter().enumerate().map(|(i, o)| output_attributes(i, o.attributes)).collect();
        self.functions.insert(graph.name.clone(), self.module.functions.len());
        self.module.functions.push(graph);
        Ok(())
    }

    /// `sdy.mesh @mesh = <["x"=2, "y"=4]>`.
    fn mesh(&mut self) -> Step<()> {
        self.next();
        let name = self.expect_tok(Tok::Symbol, "a mesh's name")?;
        self.expect(b'=')?;
        let t = self.expect(b'<')?;
        let text = self.skip_balanced(b'>')?;
        if self.is(b'{') {
            self.dict()?;
        }
        if self.is_word("loc") {
            self.location()?;
        }
        self.add_mesh(unescape(name.text).trim_start_matches('@'), text, t.at)
    }

    /// `"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "mesh"}> : () -> ()`.
    fn generic_mesh(&mut self) -> Step<()> {
        let t = self.next();
        self.expect(b'(')?;
        self.expect(b')')?;
        let mut attributes = self.properties()?;
        attributes.extend(self.generic_end()?);
        let value = |name: &str| attributes.iter().find(|(n, _)| n == name).map(|(_, a)| a.clone());
        match (value("sym_name"), value("mesh")) {
            (Some(Attr::Str(name)), Some(Attr::Raw(text))) => self.add_mesh(&name, text, t.at),
            _ => Err(self.report.error_at("E0109", t.at, t.length(), "`sdy.mesh` has no `sym_name` or no `mesh`")),
        }
    }

    /// Adds the mesh whose axes are `["x"=2, "y"=4]`.
    fn add_mesh(&mut self, name: &str, text: &'a str, at: At) -> Step<()> {
        let mut lexer = Lexer::new(text);
        let mut axes = Vec::new();
        let mut tokens = std::iter::from_fn(|| Some(lexer.next()).filter(|t| t.tok != Tok::Eof));
        let mut sound = matches!(tokens.next(), Some(t) if t.text == "[");
        while sound {
            match (tokens.next(), tokens.next(), tokens.next(), tokens.next()) {
                (Some(axis), Some(equals), Some(size), Some(end)) if axis.tok == Tok::Str && equals.text == "=" && matches!(end.text, "," | "]") => {
                    let parsed = size.text.parse::<u64>().unwrap_or(0);
                    sound = parsed > 0;
                    axes.push((unescape(axis.text), parsed));
                    if end.text == "]" {
                        break;
                    }
                }
                // A mesh of one device; which one is not looked at.
                (Some(close), ..) if close.text == "]" && axes.is_empty() => break,
                _ => sound = false,
            }
        }
        if !sound {
            return Err(self.report.error_at("E0109", at, 1, format!("the axes of the mesh @{name} are not of the form <[\"x\"=2, \"y\"=4]>")));
        }
        self.module.meshes.push((name.to_string(), axes));
        Ok(())
    }

    /// Reads the constants that the file's trailer holds: `{-# dialect_resources: { builtin: { name: "0x…" } } #-}`.
    fn trailer(&mut self) {
        let text = self.lexer.text;
        let Some(start) = text.rfind("{-#").filter(|i| text[*i..].contains("#-}")) else { return };
        let mut lexer = Lexer::new(&text[start..]);
        let mut resources = FxHashMap::default();
        let mut previous: [Option<super::lexer::Token<'a>>; 2] = [None, None];
        loop {
            let t = lexer.next();
            match (t.tok, previous) {
                (Tok::Eof | Tok::MetadataClose, _) => break,
                (Tok::Str, [Some(key), Some(colon)]) if colon.text == ":" && matches!(key.tok, Tok::Bare | Tok::Str) => {
                    resources.insert(key.text, t.text);
                }
                _ => {}
            }
            previous = [previous[1], Some(t)];
        }
        self.resources = resources;
    }

    /// What is checked when all functions are known: calls, and that there is a `main`.
    pub(super) fn check_module(&mut self) {
        for i in 0..self.calls.len() {
            let c = &self.calls[i];
            let (at, length) = (c.at, 4);
            let Some(f) = self.functions.get(&c.callee).map(|i| &self.module.functions[*i]) else {
                let message = format!("@{} calls @{}, which is not in the file", c.caller, c.callee);
                self.report.error_at("E0112", at, length, message);
                continue;
            };
            let show = |t: &[TensorType]| t.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let takes: Vec<TensorType> = f.inputs.iter().map(|&v| f.ty(v).clone()).collect();
            let gives: Vec<TensorType> = f.outputs.iter().map(|&v| f.ty(v).clone()).collect();
            if takes != c.operands || gives != c.results {
                let (code, what) = if takes.len() != c.operands.len() || gives.len() != c.results.len() { ("E0108", "number") } else { ("E0105", "types") };
                let d = Diagnostic::input(code, format!("the {what} of arguments or results of a call of @{} differ from the function's", c.callee))
                    .at(self.report.span(at, length))
                    .with_note(format!("the call: ({}) -> ({})", show(&c.operands), show(&c.results)))
                    .with_note(format!("the function: ({}) -> ({})", show(&takes), show(&gives)));
                self.report.error(d);
            }
        }
        if let Some(cycle) = call_cycle(&self.module) {
            let first = self.calls.iter().find(|c| format!("@{}", c.caller) == cycle[0]).map(|c| c.at).unwrap_or_default();
            let d = Diagnostic::input("E0113", "calls lead back to where they started").at(self.report.span(first, 4)).with_note(cycle.join(" → "));
            self.report.error(d);
        }
        if self.module.main().is_none() {
            let names: Vec<String> = self.module.functions.iter().take(8).map(|f: &Graph| format!("@{}", f.name)).collect();
            let d = Diagnostic::input("E0114", "no function is named @main").with_note(format!("the file has {}", names.join(", ")));
            self.report.error(d.with_help("the step must be the function @main, or the only one"));
        }
    }
}

fn input_attributes(list: Vec<(String, Attr<'_>)>) -> InputAttributes {
    let mut out = InputAttributes::default();
    for (name, value) in list {
        match (name.as_str(), value) {
            ("tf.aliasing_output", Attr::Int(i)) => out.aliasing_output = u32::try_from(i).ok(),
            ("jax.buffer_donor", Attr::Bool(b)) => out.donated = b,
            ("jax.buffer_donor", Attr::Unit) => out.donated = true,
            ("sdy.sharding", Attr::Raw(text)) => out.sharding = Some(format!("<{}>", text.trim())),
            _ => {}
        }
    }
    out
}

fn output_attributes(index: usize, list: Vec<(String, Attr<'_>)>) -> OutputAttributes {
    let mut out = OutputAttributes::default();
    for (name, value) in list {
        match (name.as_str(), value) {
            ("jax.result_info", Attr::Str(s)) => out.name = s,
            ("sdy.sharding", Attr::Raw(text)) => out.sharding = Some(format!("<{}>", text.trim())),
            _ => {}
        }
    }
    if out.name.is_empty() {
        out.name = format!("result[{index}]");
    }
    out
}
