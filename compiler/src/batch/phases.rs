//! Classifies every value of a step by what cutting the batch into microbatches makes of it.
//!
//! Values are [`Class::Whole`] (the same at every moment), [`Class::Cut`] along the batch dimension, [`Class::Partial`] (what the microbatches combine to),
//! or [`Class::After`] (read from a completed total). A value that no parameter and batch reach together is *pure*: it can be had as a whole before the
//! microbatches, whatever its class, so sums over the batch are allowed there (the number of unmasked tokens).
//!
//! Partials pass on through ops that are linear in them; any other use completes them, as early as something needs the total, and what reads a
//! total comes after. An op that reads a total together with a value that is cut is an obstacle: the step cannot be microbatched without changing the result.
//! With obstacles the classes describe one microbatch: what leads to such an op is then computed within it.

use super::factor::{Factor, factor};
use crate::rules::{self, Rule};
use ir::graph::{Graph, Op};
use ir::op::{OpKind, Reducer};
use ir::plan::Interface;
use ir::{Diagnostic, OpId, PrimaryMap, SecondaryMap, ValueId};

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
    let rules: PrimaryMap<OpId, Rule> = graph.ops.keys().map(|id| rules::rule(graph, id)).collect();
    // Each round may complete more partials; what reads them then comes after.
    loop {
        analysis.obstacles.clear();
        let mut pass = Pass { graph, rules: &rules, analysis: &mut analysis, origin: SecondaryMap::new() };
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
    rules: &'g PrimaryMap<OpId, Rule>,
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
        let rule = &self.rules[id];
        let cut = cut_factor(op, rule, self.analysis, |v| self.class(v));
        let reads_after = op.operands.iter().any(|&v| self.class(v) == Class::After);
        let reads_cut = op.operands.iter().any(|&v| self.is_cut(v));
        let partials: Vec<ValueId> = op.operands.iter().copied().filter(|&v| matches!(self.class(v), Class::Partial(_))).collect();
        let origin = op.operands.iter().filter_map(|&v| self.origin[v]).next();
        let whole = op.operands.iter().all(|&v| self.class(v) == Class::Whole);
        let class_of = |i: usize| match &cut {
            Some(f) => match (f.reduction, f.results[i]) {
                (Some(reducer), None) => Class::Partial(reducer),
                (_, dim) => Class::Cut(dim),
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
                linear(self.graph, op, rule, |v| self.class(v)).map_or(Class::After, Class::Partial)
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
pub(super) fn cut_factor(op: &Op, rule: &Rule, analysis: &Analysis, class: impl Fn(ValueId) -> Class) -> Option<Factor> {
    let cut_at = |v: ValueId| match class(v) {
        Class::Cut(d) => d,
        Class::Whole | Class::Partial(_) | Class::After => None,
    };
    // What exists only in blocks decides; else the first operand that has a batch dimension.
    let lead = |pure: bool| op.operands.iter().position(|&v| cut_at(v).is_some() && analysis.pure[v] == pure);
    let lead = lead(false).or(lead(true))?;
    let found = factor(rule, lead, cut_at(op.operands[lead])?)?;
    for (&v, &dim) in op.operands.iter().zip(&found.operands) {
        let blocks_only = matches!(class(v), Class::Cut(_)) && !analysis.pure[v];
        if blocks_only && (dim.is_none() || cut_at(v) != dim) {
            return None;
        }
    }
    Some(found)
}

/// The reducer by which an op's results are partial like its operands, if it is linear in those that are partial: the others of the rule's set are zero, and
/// what is outside of it is the same in every part. A total that is about to be repeated is completed before.
fn linear(graph: &Graph, op: &Op, rule: &Rule, class: impl Fn(ValueId) -> Class) -> Option<Reducer> {
    let partial = |i: usize| if let Class::Partial(r) = class(op.operands[i]) { Some(r) } else { None };
    let reducer = (0..op.operands.len()).find_map(partial)?;
    let grows = matches!(op.kind, OpKind::Broadcast { .. }) && graph.ty(op.results[0]).elements() > graph.ty(op.operands[0]).elements();
    let fits = rule.linear.iter().any(|set| {
        set.reducer.is_none_or(|r| r == reducer)
            && (0..op.operands.len()).all(|i| match (set.operands.contains(&i), partial(i)) {
                (true, Some(r)) => r == reducer,
                (true, None) => reducer == Reducer::Add && rules::is_zero(graph, op.operands[i]),
                (false, Some(_)) => false,
                (false, None) => true,
            })
    });
    (fits && !grows).then_some(reducer)
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

#[cfg(test)]
mod tests;
