//! From an op as written to ops of the graph.
//!
//! Both forms arrive here in the generic form's shape. Most ops become one op; a few (`chlo.is_inf`, `stablehlo.map`) are expanded.
//! What an op's attributes leave over and is not known is reported.

use super::attribute::Attr;
use super::lexer::At;
use super::names;
use super::ops::{RawOp, is_terminator};
use super::parser::{CallSite, Parser, Pin, Step};
use super::report::Reported;
use super::scope::{Region, plain_name};
use crate::diagnostic::Diagnostic;
use crate::dtype::TensorType;
use crate::graph::Graph;
use crate::infer;
use crate::literal::Literal;
use crate::op::{Direction, OpKind, Reducer, UnaryOp, ValueId};

/// Attributes that say nothing about what an op computes, or that the builder need not look at.
const IGNORED: &[&str] = &[
    "algorithm",
    "api_version",
    "backend_config",
    "broadcast_dimensions",
    "called_computations",
    "channel_handle",
    "compare_type",
    "custom_call_schedule",
    "has_side_effect",
    "indices_are_sorted",
    "known_expanding_dimensions",
    "known_nonexpanding_dimensions",
    "no_inline",
    "operand_layouts",
    "output_operand_aliases",
    "precision",
    "precision_config",
    "result_accuracy",
    "result_layouts",
    "unique_indices",
    "version",
];

/// Custom calls that only say how a value should be laid out or where it should be computed.
const ANNOTATIONS: &[&str] = &["Sharding", "annotate_device_placement", "LayoutConstraint", "MoveToHost", "MoveToDevice", "PinToDevice", "shape_assertion"];

impl<'a> Parser<'a> {
    /// Adds what `raw` means to the graph and names its results.
    pub(super) fn build(&mut self, mut raw: RawOp<'a>) -> Step<()> {
        if is_terminator(raw.name) {
            return self.terminate(raw);
        }
        if self.scope().terminated {
            return Err(self.report.error_at("E0101", raw.at, raw.length(), "an operation follows the return"));
        }
        if raw.name == "stablehlo.constant" || raw.name == "chlo.constant" {
            return self.constant(raw);
        }
        if raw.name == "stablehlo.custom_call" {
            self.refuse_manual_sharding(&raw)?;
        }
        let poisoned = raw.regions.iter().any(|r| r.poisoned);
        let Some((operands, types)) = self.types_of(&mut raw)? else {
            self.leftover_poisoned(&raw);
            return self.define_results(&raw, None);
        };
        if poisoned {
            return self.define_results(&raw, None);
        }
        let results = self.values_of(&mut raw, operands, types)?;
        self.leftover(&raw)?;
        self.define_results(&raw, Some(&results))
    }

    fn terminate(&mut self, mut raw: RawOp<'a>) -> Step<()> {
        let types = if raw.operands.is_empty() { Vec::new() } else { raw.signature.take().map(|s| s.left).unwrap_or_default() };
        if types.len() != raw.operands.len() {
            let message = format!("{} values are returned but {} types are stated", raw.operands.len(), types.len());
            return Err(self.report.error_at("E0108", raw.at, raw.length(), message));
        }
        for (i, (v, ty)) in raw.operands.iter().zip(&types).enumerate() {
            if let (Some(v), Some(ty)) = (v, ty) {
                let found = self.graph().ty(*v).clone();
                if found != *ty {
                    let message = format!("returned value {i} is {found} but is stated as {ty}");
                    return Err(self.report.error_at("E0105", raw.at, raw.length(), message));
                }
            }
        }
        let values: Option<Vec<ValueId>> = raw.operands.iter().copied().collect();
        let scope = self.scope();
        scope.terminated = true;
        match values {
            Some(v) => scope.graph.outputs = v,
            None => scope.poisoned = true,
        }
        Ok(())
    }

    fn constant(&mut self, mut raw: RawOp<'a>) -> Step<()> {
        let literal = match raw.take(&["value"]) {
            Some(Attr::Dense(l)) => l,
            Some(Attr::Untyped(text)) => {
                self.report_type(text, raw.at);
                return self.define_results(&raw, None);
            }
            _ => return Err(self.attribute_error(&raw, "its value is not a `dense` constant")),
        };
        if let Some(stated) = raw.signature.take().and_then(|s| s.right).and_then(|mut r| r.pop().flatten())
            && stated != literal.ty
        {
            let message = format!("a constant of type {} is stated as {stated}", literal.ty);
            return Err(self.report.error_at("E0105", raw.at, raw.length(), message));
        }
        let ty = literal.ty.clone();
        let v = self.emit(&raw, OpKind::Constant(literal), Vec::new(), vec![ty], Vec::new())?;
        self.define_results(&raw, Some(&v))
    }

    /// Reports attributes that nothing has looked at.
    fn leftover(&mut self, raw: &RawOp<'a>) -> Step<()> {
        let unknown: Vec<&String> = raw.attributes.iter().map(|(n, _)| n).filter(|n| !n.contains('.') && !IGNORED.contains(&n.as_str())).collect();
        if let Some(name) = unknown.first() {
            let key = format!("{} {name}", raw.name);
            let message = format!("the attribute `{}` of `{}` is not known", name.chars().take(60).collect::<String>(), raw.name);
            return Err(self.report.unknown("E0104", &key, raw.at, || (message, None)));
        }
        Ok(())
    }

    /// Where types are not known, attributes are not looked at: only the op's name was.
    fn leftover_poisoned(&mut self, _raw: &RawOp<'a>) {
        self.scope().poisoned = true;
    }

    pub(super) fn attribute_error(&mut self, raw: &RawOp<'a>, why: &str) -> Reported {
        self.report.error_at("E0109", raw.at, raw.length(), format!("`{}`: {why}", raw.name))
    }

    /// Adds one op with the results that `raw` names, checked.
    pub(super) fn emit(&mut self, raw: &RawOp<'a>, kind: OpKind, operands: Vec<ValueId>, types: Vec<TensorType>, regions: Vec<Graph>) -> Step<Vec<ValueId>> {
        let (o, r, g) = kind.arity();
        for (count, found, what) in [(o, operands.len(), "operands"), (r, types.len(), "results"), (g, regions.len(), "regions")] {
            if !count.allows(found) {
                let wanted = match count {
                    crate::op::Count::Exactly(n) => n.to_string(),
                    crate::op::Count::AtLeast(n) => format!("at least {n}"),
                };
                let message = format!("`{}` has {found} {what} where {wanted} are expected", raw.name);
                return Err(self.report.error_at("E0108", raw.at, raw.length(), message));
            }
        }
        let graph = self.graph();
        let ins: Vec<&TensorType> = operands.iter().map(|&v| graph.ty(v)).collect();
        let outs: Vec<&TensorType> = types.iter().collect();
        if let Err(why) = infer::check(&kind, &ins, &outs, &regions) {
            return Err(self.report.error_at("E0105", raw.at, raw.length(), format!("`{}`: {why}", raw.name)));
        }
        let loc = self.add_loc(raw.start, raw.location.clone());
        let names = Self::value_names(raw);
        let graph = self.graph();
        let op = graph.add_op(kind, operands, types, loc, &names);
        graph.ops[op].regions = regions;
        Ok(graph.ops[op].results.clone())
    }

    /// Adds an op of an expansion; its one result has no name.
    fn step(&mut self, raw: &RawOp<'a>, kind: OpKind, operands: Vec<ValueId>) -> Step<ValueId> {
        let graph = self.graph();
        let ins: Vec<&TensorType> = operands.iter().map(|&v| graph.ty(v)).collect();
        match infer::result_types(&kind, &ins, &[]) {
            Ok(Some(types)) => {
                let loc = self.add_loc(raw.start, raw.location.clone());
                let graph = self.graph();
                let op = graph.add_op(kind, operands, types, loc, &[]);
                Ok(graph.ops[op].results[0])
            }
            Ok(None) => Err(self.attribute_error(raw, "its result type is not determined")),
            Err(why) => Err(self.report.error_at("E0105", raw.at, raw.length(), format!("`{}`: {why}", raw.name))),
        }
    }

    fn values_of(&mut self, raw: &mut RawOp<'a>, operands: Vec<ValueId>, types: Vec<TensorType>) -> Step<Vec<ValueId>> {
        if let Some(op) = names::unary(raw.name) {
            return self.emit(raw, OpKind::Unary(op), operands, types, Vec::new());
        }
        if let Some(op) = names::binary(raw.name) {
            return self.emit(raw, OpKind::Binary(op), operands, types, Vec::new());
        }
        match raw.name {
            "stablehlo.while" => return self.build_while(raw, operands, types),
            "stablehlo.if" | "stablehlo.case" => return self.build_branches(raw, operands, types),
            "stablehlo.map" => return self.build_map(raw, operands, types),
            "stablehlo.custom_call" => return self.build_custom_call(raw, operands, types),
            "stablehlo.composite" => {
                let callee = match raw.take(&["decomposition"]) {
                    Some(Attr::Symbol(s)) => s,
                    _ => return Err(self.attribute_error(raw, "its decomposition is missing")),
                };
                raw.take(&["name"]);
                raw.take(&["composite_attributes"]);
                return self.build_call(raw, callee, operands, types);
            }
            "func.call" => {
                let named = raw.take(&["callee"]).or_else(|| raw.positional.pop());
                let Some(Attr::Symbol(callee)) = named else { return Err(self.attribute_error(raw, "its callee is missing")) };
                return self.build_call(raw, callee, operands, types);
            }
            "sdy.sharding_constraint" | "sdy.reshard" => {
                if let ([v], Some(Attr::Raw(text))) = (&operands[..], raw.take(&["sharding"]).or_else(|| raw.positional.pop())) {
                    self.pin(*v, text, raw.at);
                }
                return self.identity(raw, operands);
            }
            "sdy.propagation_barrier" | "sdy.sharding_group" => {
                raw.take(&["allowed_direction"]);
                raw.take(&["group_id"]);
                return self.identity(raw, operands);
            }
            "chlo.is_inf" | "chlo.is_pos_inf" | "chlo.is_neg_inf" => return self.build_is_infinite(raw, &operands, types),
            "chlo.conj" => return self.build_conjugate(raw, &operands, types),
            "stablehlo.optimization_barrier" => return self.emit(raw, OpKind::Barrier, operands, types, Vec::new()),
            _ => {}
        }
        self.build_structured(raw, operands, types)
    }

    /// An op that passes its operand on.
    fn identity(&mut self, raw: &RawOp<'a>, operands: Vec<ValueId>) -> Step<Vec<ValueId>> {
        if operands.len() != raw.result_count() {
            let message = format!("`{}` has {} operands and {} results", raw.name, operands.len(), raw.result_count());
            return Err(self.report.error_at("E0108", raw.at, raw.length(), message));
        }
        for (name, &v) in Self::value_names(raw).into_iter().zip(&operands) {
            self.graph().aliases.insert(name, v);
        }
        Ok(operands)
    }

    /// Notes a sharding that the text asks for.
    fn pin(&mut self, v: ValueId, sharding: &str, at: At) {
        let function = self.scopes.first().map(|s| s.graph.name.clone()).unwrap_or_default();
        let value = self.graph().display_name(v);
        self.pins.push(Pin { function, value, sharding: format!("<{}>", sharding.trim()), line: at.line });
    }

    /// Refuses what a region captured: only loops and branches carry it.
    pub(super) fn closed(&mut self, raw: &RawOp<'a>, regions: Vec<Region>) -> Step<Vec<Graph>> {
        if regions.iter().any(|r| !r.captures.is_empty()) {
            let d = Diagnostic::input("E0102", format!("the region of `{}` uses a value from outside", raw.name)).at(self.report.span(raw.at, raw.length()));
            return Err(self.report.error(d.with_note("only the regions of `while`, `if` and `case` may")));
        }
        Ok(regions.into_iter().map(|r| r.graph).collect())
    }

    fn build_while(&mut self, raw: &mut RawOp<'a>, mut operands: Vec<ValueId>, mut types: Vec<TensorType>) -> Step<Vec<ValueId>> {
        let mut regions = std::mem::take(&mut raw.regions);
        let captures = self.unify_captures(&mut regions);
        let stated = types.len();
        types.extend(captures.iter().map(|&v| self.graph().ty(v).clone()));
        operands.extend(&captures);
        if let Some(body) = regions.get_mut(1) {
            let first = body.graph.inputs.len() - captures.len();
            body.graph.outputs.extend_from_slice(&body.graph.inputs[first..]);
        }
        let mut values = self.emit(raw, OpKind::While, operands, types, regions.into_iter().map(|r| r.graph).collect())?;
        // What was captured becomes results too.
        for (&v, &c) in values[stated..].iter().zip(&captures) {
            let base = plain_name(&self.graph().values[c].name);
            let n = self.made_names.entry(base.clone()).or_default();
            let name = if *n == 0 { format!("{base}.out") } else { format!("{base}.out{n}") };
            *n += 1;
            self.graph().values[v].name = name.into();
        }
        values.truncate(stated);
        Ok(values)
    }

    fn build_branches(&mut self, raw: &mut RawOp<'a>, mut operands: Vec<ValueId>, types: Vec<TensorType>) -> Step<Vec<ValueId>> {
        let mut regions = std::mem::take(&mut raw.regions);
        if operands.len() != 1 {
            let message = format!("`{}` has {} operands where 1 is expected", raw.name, operands.len());
            return Err(self.report.error_at("E0108", raw.at, raw.length(), message));
        }
        operands.extend(self.unify_captures(&mut regions));
        let kind = if raw.name == "stablehlo.if" { OpKind::If } else { OpKind::Case };
        self.emit(raw, kind, operands, types, regions.into_iter().map(|r| r.graph).collect())
    }

    /// A region of scalar ops applied to every element: its ops, on tensors.
    fn build_map(&mut self, raw: &mut RawOp<'a>, operands: Vec<ValueId>, types: Vec<TensorType>) -> Step<Vec<ValueId>> {
        raw.take(&["dimensions"]);
        let regions = std::mem::take(&mut raw.regions);
        let graphs = self.closed(raw, regions)?;
        let ([body], [ty]) = (&graphs[..], &types[..]) else { return Err(self.attribute_error(raw, "it has one region and one result")) };
        let scalars = operands.iter().map(|&v| self.graph().ty(v).dtype).collect::<Vec<_>>();
        let takes: Vec<_> = body.inputs.iter().map(|&v| body.ty(v)).collect();
        if takes.len() != scalars.len() || takes.iter().zip(&scalars).any(|(t, s)| t.rank() != 0 || t.dtype != *s) {
            return Err(self.report.error_at("E0105", raw.at, raw.length(), "the region of `stablehlo.map` does not take the operands' elements"));
        }
        let mut mapped: Vec<Option<ValueId>> = vec![None; body.values.len()];
        for (&inner, &outer) in body.inputs.iter().zip(&operands) {
            mapped[inner.0 as usize] = Some(outer);
        }
        for op in body.ops.values() {
            let inputs: Option<Vec<ValueId>> = op.operands.iter().map(|v| mapped[v.0 as usize]).collect();
            let out = body.ty(op.results[0]).dtype;
            let (Some(inputs), true) = (inputs, op.kind.is_elementwise() || matches!(op.kind, OpKind::Constant(_))) else {
                return Err(self.attribute_error(raw, "its region has an operation that is not elementwise"));
            };
            let wide = TensorType::new(out, ty.shape.clone());
            let kind = match &op.kind {
                OpKind::Constant(l) => OpKind::Constant(Literal { ty: wide.clone(), data: l.data.clone() }),
                other => other.clone(),
            };
            let loc = self.add_loc(raw.start, raw.location.clone());
            mapped[op.results[0].0 as usize] = Some(self.graph().add(kind, inputs, wide, loc));
        }
        match body.outputs[..].iter().map(|v| mapped[v.0 as usize]).collect::<Option<Vec<_>>>().as_deref() {
            Some([v]) if self.graph().ty(*v) == ty => {
                if let [only] = &raw.results[..]
                    && !operands.contains(v)
                {
                    self.graph().values[*v].name = only.name.into();
                }
                Ok(vec![*v])
            }
            _ => Err(self.report.error_at("E0105", raw.at, raw.length(), "the region of `stablehlo.map` does not return the stated type")),
        }
    }

    fn build_call(&mut self, raw: &RawOp<'a>, callee: String, operands: Vec<ValueId>, types: Vec<TensorType>) -> Step<Vec<ValueId>> {
        let caller = self.scopes.first().map(|s| s.graph.name.clone()).unwrap_or_default();
        let ins = operands.iter().map(|&v| self.graph().ty(v).clone()).collect();
        self.calls.push(CallSite { caller, callee: callee.clone(), at: raw.at, operands: ins, results: types.clone() });
        self.emit(raw, OpKind::Call { callee }, operands, types, Vec::new())
    }

    fn build_custom_call(&mut self, raw: &mut RawOp<'a>, operands: Vec<ValueId>, types: Vec<TensorType>) -> Step<Vec<ValueId>> {
        let target = match raw.take(&["call_target_name"]).or_else(|| raw.positional.pop()) {
            Some(Attr::Symbol(s) | Attr::Str(s)) => s,
            _ => return Err(self.attribute_error(raw, "its target is missing")),
        };
        let annotation = ANNOTATIONS.contains(&target.as_str()) || target.starts_with("xla.sdy.");
        if annotation && operands.len() == types.len() && operands.iter().zip(&types).all(|(&v, t)| self.graph().ty(v) == t) {
            let text = format!("the custom call @{target} only annotates and was dropped");
            match self.report.notes.iter_mut().find(|n| n.message == text) {
                Some(_) => {}
                None => {
                    let note = Diagnostic::note("N0110", text).at(self.report.span(raw.at, raw.length()));
                    self.report.notes.push(note);
                }
            }
            return self.identity(raw, operands);
        }
        let skip = |name: &str| name == "call_target_name" || name.starts_with("sdy.");
        let attributes = raw.texts.iter().filter(|(n, _)| !skip(n)).map(|(_, text)| *text).collect::<Vec<_>>().join(", ");
        self.emit(raw, OpKind::CustomCall { target, attributes }, operands, types, Vec::new())
    }

    /// Reports a custom call that belongs to a step partitioned by hand.
    fn refuse_manual_sharding(&mut self, raw: &RawOp<'a>) -> Step<()> {
        let named = raw.attributes.iter().find(|(n, _)| n == "call_target_name").map(|(_, a)| a).or(raw.positional.last());
        match named {
            Some(Attr::Symbol(target) | Attr::Str(target)) if target.starts_with("SPMD") => {
                let message = format!("the custom call @{target} is not supported");
                let help = "the step is already partitioned by hand (`shard_map`): lower it without".to_string();
                Err(self.report.unknown("E0102", target, raw.at, || (message, Some(help))))
            }
            _ => Ok(()),
        }
    }

    fn build_is_infinite(&mut self, raw: &RawOp<'a>, operands: &[ValueId], types: Vec<TensorType>) -> Step<Vec<ValueId>> {
        let &[x] = operands else {
            return Err(self.report.error_at("E0108", raw.at, raw.length(), format!("`{}` has {} operands where 1 is expected", raw.name, operands.len())));
        };
        let ty = self.graph().ty(x).clone();
        if !ty.dtype.is_float() {
            return Err(self.report.error_at("E0105", raw.at, raw.length(), format!("`{}` is not defined on {ty}", raw.name)));
        }
        let infinity = if raw.name == "chlo.is_neg_inf" { f64::NEG_INFINITY } else { f64::INFINITY };
        let constant = self.step(raw, OpKind::Constant(Literal::splat(ty, infinity)), Vec::new())?;
        let x = if raw.name == "chlo.is_inf" { self.step(raw, OpKind::Unary(UnaryOp::Abs), vec![x])? } else { x };
        self.emit(raw, OpKind::Compare { direction: Direction::Eq, total: false }, vec![x, constant], types, Vec::new())
    }

    fn build_conjugate(&mut self, raw: &RawOp<'a>, operands: &[ValueId], types: Vec<TensorType>) -> Step<Vec<ValueId>> {
        let &[x] = operands else {
            return Err(self.report.error_at("E0108", raw.at, raw.length(), format!("`{}` has {} operands where 1 is expected", raw.name, operands.len())));
        };
        if !self.graph().ty(x).dtype.is_complex() {
            return self.identity(raw, operands.to_vec());
        }
        let re = self.step(raw, OpKind::Unary(UnaryOp::Real), vec![x])?;
        let im = self.step(raw, OpKind::Unary(UnaryOp::Imag), vec![x])?;
        let im = self.step(raw, OpKind::Unary(UnaryOp::Negate), vec![im])?;
        self.emit(raw, OpKind::Binary(crate::op::BinaryOp::Complex), vec![re, im], types, Vec::new())
    }
}

/// The reducer that a closed region of two scalars is, if it is a single commutative op or only returns its second argument.
pub(super) fn recognise(region: &Graph, scatter: bool) -> Option<Reducer> {
    let ([a, b], [out]) = (&region.inputs[..], &region.outputs[..]) else { return None };
    if scatter && region.ops.is_empty() && out == b {
        return Some(Reducer::Replace);
    }
    let mut ops = region.ops.values();
    let (Some(op), None) = (ops.next(), ops.next()) else { return None };
    let OpKind::Binary(binary) = op.kind else { return None };
    let both = op.operands == [*a, *b] || op.operands == [*b, *a];
    if both && op.results == [*out] && region.ty(*a) == region.ty(*out) { Reducer::from_binary(binary) } else { None }
}
