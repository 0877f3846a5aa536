//! Classifies every value of a step by what cutting the batch into microbatches makes of it.
//!
//! Values are [`Class::Whole`] (the same at every moment), [`Class::Cut`] along the batch dimension, [`Class::Partial`] (what the microbatches combine to),
//! or [`Class::After`] (read from a completed total). A value that no parameter and batch reach together is *pure*: it can be had as a whole before the
//! microbatches, whatever its class, so sums over the batch are allowed there (the number of unmasked tokens).
//!
//! Only sums pass on as partials, through ops that are linear in them; any other use completes them, as early as something needs the total, and what reads a
//! total comes after. An op that reads a total together with a value that is cut is an obstacle: the step cannot be microbatched without changing the result.
//! With obstacles the classes describe one microbatch: what leads to such an op is then computed within it.

use super::factor::{Factor, factor};
use crate::canonical::algebra::widens;
use ir::graph::{Graph, Op};
use ir::op::{BinaryOp, OpKind, Reducer, UnaryOp};
use ir::plan::Interface;
use ir::{Diagnostic, OpId, SecondaryMap, ValueId};

/// What cutting the batch makes of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Class {
    /// The same at every moment, and whole.
    #[default]
    Whole,
    /// A block per microbatch, along this dimension; `None` (with obstacles only) for a value that has no batch dimension and is computed within the
    /// one microbatch.
    Cut(Option<usize>),
    /// What the microbatches combine to in this way.
    Partial(Reducer),
    /// Known after the last microbatch.
    After,
}

/// The classes of a step's values, and what stands in the way of microbatches.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// Class of every value.
    pub classes: SecondaryMap<ValueId, Class>,
    /// Whether a value can be had as a whole before the microbatches.
    pub pure: SecondaryMap<ValueId, bool>,
    /// Partial values that are completed: what reads them reads the total.
    pub completed: SecondaryMap<ValueId, bool>,
    /// What the number of microbatches must divide: the size of the batch dimension; 1 without batch arguments.
    pub batch_size: u64,
    /// Why there is only one microbatch, if so: each names an op and its place.
    pub obstacles: Vec<Diagnostic>,
}

impl Analysis {
    /// Whether the step can be cut into so many microbatches.
    pub fn allows(&self, microbatches: u32) -> bool {
        microbatches == 1 || microbatches > 1 && self.obstacles.is_empty() && self.batch_size.is_multiple_of(u64::from(microbatches))
    }
}

/// More obstacles than this are not listed.
const MAX_OBSTACLES: usize = 4;

/// Classifies the values of a canonical graph.
pub fn analyse(graph: &Graph, interface: &Interface) -> Analysis {
    let mut analysis = Analysis { batch_size: 1, ..Analysis::default() };
    let mut parameter: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    let mut data: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    for &i in &interface.parameters {
        parameter[graph.inputs[i as usize]] = true;
    }
    for &(i, dim) in &interface.batch {
        let v = graph.inputs[i as usize];
        data[v] = true;
        if let Some(d) = dim {
            analysis.classes[v] = Class::Cut(Some(d as usize));
            analysis.batch_size = graph.ty(v).shape[d as usize];
        }
    }
    for v in &graph.inputs {
        analysis.pure[*v] = true;
    }
    for op in graph.ops.values() {
        let any = |map: &SecondaryMap<ValueId, bool>| op.operands.iter().any(|&v| map[v]);
        let (p, d) = (any(&parameter), any(&data));
        for &v in &op.results {
            parameter[v] = p;
            data[v] = d;
            analysis.pure[v] = !(p && d);
        }
    }
    // Each round may complete more partials; what reads them then comes after.
    loop {
        analysis.obstacles.clear();
        let mut pass = Pass { graph, analysis: &mut analysis, origin: SecondaryMap::new() };
        for (id, op) in graph.ops.iter() {
            pass.op(id, op);
        }
        pass.outputs();
        if !complete(graph, &mut analysis) {
            break;
        }
    }
    // A reshape may carry the batch into a leading dimension of another size.
    for v in graph.values.keys() {
        if let Class::Cut(Some(d)) = analysis.classes[v]
            && !analysis.pure[v]
        {
            analysis.batch_size = gcd(analysis.batch_size, graph.ty(v).shape[d]);
        }
    }
    if !analysis.obstacles.is_empty() {
        within_one_microbatch(graph, &mut analysis);
    }
    analysis
}

fn gcd(a: u64, b: u64) -> u64 {
    if a == 0 { b } else { gcd(b % a, a) }
}

struct Pass<'g, 'a> {
    graph: &'g Graph,
    analysis: &'a mut Analysis,
    /// Of what is partial or after, the value that became partial first.
    origin: SecondaryMap<ValueId, Option<ValueId>>,
}

impl Pass<'_, '_> {
    /// The class as a reader sees it.
    fn class(&self, v: ValueId) -> Class {
        if self.analysis.completed[v] { Class::After } else { self.analysis.classes[v] }
    }

    /// A value that exists per microbatch only.
    fn is_cut(&self, v: ValueId) -> bool {
        matches!(self.class(v), Class::Cut(_)) && !self.analysis.pure[v]
    }

    fn op(&mut self, id: OpId, op: &Op) {
        if matches!(op.kind, OpKind::Barrier) {
            for (&operand, &result) in op.operands.iter().zip(&op.results) {
                self.analysis.classes[result] = self.class(operand);
                self.analysis.pure[result] = self.analysis.pure[operand];
                self.origin[result] = self.origin[operand];
            }
            return;
        }
        let pure = op.results.iter().all(|&v| self.analysis.pure[v]);
        let cut = cut_factor(self.graph, op, self.analysis, |v| self.class(v));
        let reads_after = op.operands.iter().any(|&v| self.class(v) == Class::After);
        let reads_cut = op.operands.iter().any(|&v| self.is_cut(v));
        let partials: Vec<ValueId> = op.operands.iter().copied().filter(|&v| matches!(self.class(v), Class::Partial(_))).collect();
        let origin = op.operands.iter().filter_map(|&v| self.origin[v]).next();
        let whole = op.operands.iter().all(|&v| self.class(v) == Class::Whole);
        let class_of = |i: usize| match &cut {
            Some(f) => match (f.reduction, f.results[i]) {
                (None, dim) => Class::Cut(dim),
                (Some(reducer), _) => Class::Partial(reducer),
            },
            None => Class::Whole,
        };
        for (i, &v) in op.results.iter().enumerate() {
            let class = if whole {
                Class::Whole
            } else if pure {
                // What is pure and cannot stay cut is had as a whole.
                if matches!(class_of(i), Class::Cut(_)) { class_of(i) } else { Class::Whole }
            } else if reads_cut && (reads_after || !partials.is_empty() || cut.is_none()) {
                if i == 0 {
                    self.obstacle(id, op, origin);
                }
                class_of(i).max_cut()
            } else if reads_cut {
                class_of(i)
            } else if reads_after {
                Class::After
            } else if !partials.is_empty() {
                if linear(self.graph, op, |v| self.class(v)) { Class::Partial(Reducer::Add) } else { Class::After }
            } else {
                // Pure operands only: a parameter meets the batch here.
                cut.as_ref().map_or(Class::Whole, |_| class_of(i))
            };
            self.analysis.classes[v] = class;
            self.origin[v] = match class {
                Class::Whole | Class::Cut(_) => None,
                Class::Partial(_) | Class::After => origin.or(Some(v)),
            };
            if whole {
                // What follows from whole values alone is there before the microbatches.
                self.analysis.pure[v] = true;
            } else if class == Class::Whole && !pure {
                // It mixes parameters and the whole batch in a way that no block of it can be computed from blocks.
                if i == 0 {
                    self.obstacle(id, op, origin);
                }
                self.analysis.classes[v] = Class::Cut(None);
            }
        }
    }

    /// An output must be whole or the combination of all microbatches.
    fn outputs(&mut self) {
        for (o, &v) in self.graph.outputs.iter().enumerate() {
            if self.is_cut(v) {
                let name = self.graph.output_attributes.get(o).map_or("", |a| a.name.as_str());
                let message = format!("result {o} (`{name}`) holds a value per example, which is not collected over microbatches");
                self.push(Diagnostic::note("N0204", message));
            }
        }
    }

    fn obstacle(&mut self, id: OpId, op: &Op, origin: Option<ValueId>) {
        let graph = self.graph;
        let place = graph.locs.get(graph.ops[id].loc).map_or_else(String::new, |l| {
            let path = if l.path.is_empty() { String::new() } else { format!(" in {}", l.path) };
            let name = l.name.as_ref().map_or_else(String::new, |n| format!(" ({n})"));
            format!("line {}, column {}{path}{name}", l.line, l.column)
        });
        let value = graph.display_name(op.results[0]);
        let message = match origin {
            Some(_) => format!("`{value}` reads a total over the whole batch together with values per example"),
            None => format!("`{value}` cannot be computed from blocks of the batch"),
        };
        let mut note = Diagnostic::note("N0204", message).with_note(format!("at {place}"));
        if let Some(v) = origin {
            note = note.with_note(format!("the total comes from `{}`, `{}`", graph.display_name(v), graph.ty(v)));
        }
        self.push(note);
    }

    fn push(&mut self, note: Diagnostic) {
        if self.analysis.obstacles.len() < MAX_OBSTACLES {
            self.analysis.obstacles.push(note.with_help("the step is planned with one microbatch; it can still be sharded over the batch"));
        }
    }
}

impl Class {
    fn max_cut(self) -> Class {
        if let Class::Cut(d) = self { Class::Cut(d) } else { Class::Cut(None) }
    }
}

/// The factor of the op that the batch dimension is, if every operand is there in blocks that match it, or can be cut so.
pub(super) fn cut_factor(graph: &Graph, op: &Op, analysis: &Analysis, class: impl Fn(ValueId) -> Class) -> Option<Factor> {
    let cut_at = |v: ValueId| match class(v) {
        Class::Cut(d) => d,
        Class::Whole | Class::Partial(_) | Class::After => None,
    };
    // What exists only in blocks decides; else the first operand that has a batch dimension.
    let lead = |pure: bool| op.operands.iter().position(|&v| cut_at(v).is_some() && analysis.pure[v] == pure);
    let lead = lead(false).or(lead(true))?;
    let found = factor(graph, op, lead, cut_at(op.operands[lead])?)?;
    for (&v, &dim) in op.operands.iter().zip(&found.operands) {
        let blocks_only = matches!(class(v), Class::Cut(_)) && !analysis.pure[v];
        if blocks_only && (dim.is_none() || cut_at(v) != dim) {
            return None;
        }
    }
    if found.results.iter().any(Option::is_none) && found.reduction.is_none() {
        return None;
    }
    if found.reduction.is_some() && !reduces_from_neutral(graph, op) {
        return None;
    }
    Some(found)
}

/// Whether combining the results of blocks counts nothing twice: the initial value is neutral, what is scattered into is zero.
fn reduces_from_neutral(graph: &Graph, op: &Op) -> bool {
    let splat = |v: ValueId| graph.constant(v).and_then(|l| l.splat_value());
    match &op.kind {
        OpKind::Reduce { reducer, .. } => splat(op.operands[1]).is_some_and(|x| Some(x) == reducer.neutral(graph.ty(op.results[0]).dtype)),
        OpKind::Scatter { .. } => splat(op.operands[0]) == Some(0.0),
        _ => true,
    }
}

/// Whether an op on sums of parts gives the sum of its results on the parts. Operands that are no partials are the same in every part.
fn linear(graph: &Graph, op: &Op, class: impl Fn(ValueId) -> Class) -> bool {
    let partial = |i: usize| class(op.operands[i]) == Class::Partial(Reducer::Add);
    let zero = |i: usize| graph.constant(op.operands[i]).and_then(|l| l.splat_value()) == Some(0.0);
    let constant = |i: usize| matches!(class(op.operands[i]), Class::Whole | Class::Cut(_));
    if (0..op.operands.len()).any(|i| matches!(class(op.operands[i]), Class::Partial(r) if r != Reducer::Add)) {
        return false;
    }
    let jointly = |mut operands: std::ops::Range<usize>| operands.all(|i| partial(i) || zero(i));
    let dtype = |v: ValueId| graph.ty(v).dtype;
    match &op.kind {
        OpKind::Unary(UnaryOp::Negate) => true,
        OpKind::Binary(BinaryOp::Add | BinaryOp::Subtract) => jointly(0..2),
        OpKind::Binary(BinaryOp::Multiply) | OpKind::Dot(_) | OpKind::Convolution(_) => partial(0) != partial(1),
        OpKind::Binary(BinaryOp::Divide) => partial(0) && constant(1) && dtype(op.results[0]).is_float(),
        OpKind::Select => constant(0) && jointly(1..3),
        // Rounding to a narrower type is not linear.
        OpKind::Convert => {
            let (from, to) = (dtype(op.operands[0]), dtype(op.results[0]));
            from.is_float() && (from == to || widens(from, to))
        }
        OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Slice { .. } | OpKind::Reverse { .. } => true,
        // A total that is about to be repeated is completed before.
        OpKind::Broadcast { .. } => graph.ty(op.operands[0]).elements() == graph.ty(op.results[0]).elements(),
        OpKind::Pad { .. } => zero(1),
        OpKind::Concatenate { .. } => jointly(0..op.operands.len()),
        OpKind::DynamicSlice { .. } => (1..op.operands.len()).all(constant),
        OpKind::DynamicUpdateSlice => jointly(0..2) && (2..op.operands.len()).all(constant),
        OpKind::Reduce { reducer: Reducer::Add, .. } => op.results.len() == 1 && partial(0) && zero(1),
        OpKind::Gather(_) => constant(1),
        OpKind::Scatter { reducer: Reducer::Add, .. } => op.results.len() == 1 && jointly(0..1) && constant(1) && (partial(2) || zero(2)),
        _ => false,
    }
}

/// Completes every partial that something reads in a way that needs the total; whether there were new ones.
fn complete(graph: &Graph, analysis: &mut Analysis) -> bool {
    let mut changed = false;
    let is_partial = |analysis: &Analysis, v: ValueId| matches!(analysis.classes[v], Class::Partial(_)) && !analysis.completed[v];
    for op in graph.ops.values() {
        let stays = op.results.iter().all(|&v| matches!(analysis.classes[v], Class::Partial(_)));
        for &v in &op.operands {
            if !stays && is_partial(analysis, v) {
                analysis.completed[v] = true;
                changed = true;
            }
        }
    }
    for &v in &graph.outputs {
        if is_partial(analysis, v) {
            analysis.completed[v] = true;
            changed = true;
        }
    }
    changed
}

/// With obstacles: whatever leads to a value that is cut is computed within the one microbatch.
fn within_one_microbatch(graph: &Graph, analysis: &mut Analysis) {
    let mut leads: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    for (_, op) in graph.ops.iter().rev() {
        let within = op.results.iter().any(|&v| leads[v] || matches!(analysis.classes[v], Class::Cut(_)) && !analysis.pure[v]);
        if within {
            for &v in &op.operands {
                leads[v] = true;
            }
        }
    }
    for v in graph.values.keys() {
        if leads[v] && !analysis.pure[v] {
            analysis.completed[v] = false;
            if !matches!(analysis.classes[v], Class::Cut(_)) {
                analysis.classes[v] = Class::Cut(None);
            }
        }
    }
    // What was completed only for those is not any more; what crosses to the update still is.
    for op in graph.ops.values() {
        if op.results.iter().all(|&v| analysis.classes[v] == Class::After) {
            for &v in &op.operands {
                if !analysis.pure[v] && analysis.classes[v] != Class::After {
                    analysis.completed[v] = true;
                }
            }
        }
    }
    for &v in &graph.outputs {
        if !analysis.pure[v] && analysis.classes[v] != Class::After {
            analysis.completed[v] = true;
        }
    }
}
