//! Unrolls loops whose number of iterations is known, under a budget of ops.
//!
//! A loop is run on what is constant among its carried values: the condition must evaluate to a constant before every iteration.
//! A carried value that is not constant (data) is simply unknown there. This covers what `lax.scan` and `fori_loop` become, whichever way they count.
//! Values of iteration `i` of the `n`-th loop are named `while#n:i/%3`. A loop that cannot be unrolled stays as it is, and a note says why.

use super::evaluate;
use super::fold::live_ops;
use super::inline::prefixed;
use super::rewrite::Rewriter;
use ir::graph::{Graph, LocInfo, Op};
use ir::literal::Literal;
use ir::{Diagnostic, OpKind, SecondaryMap, ValueId};
use std::sync::Arc;

/// How many ops unrolling may make, over all loops.
pub const OP_BUDGET: usize = 100_000;

/// More iterations than this are not even counted.
const MAX_TRIPS: usize = 4096;

/// The graph with its loops unrolled, and notes on those that stay.
pub fn run(graph: &Graph) -> (Graph, Vec<Diagnostic>) {
    let mut unroller = Unroller { budget: OP_BUDGET, loops: 0, notes: Vec::new() };
    let mut rewriter = Rewriter::new(graph);
    for (id, op) in graph.ops.iter() {
        if !matches!(op.kind, OpKind::While) {
            rewriter.copy(id);
            continue;
        }
        rewriter.at(id);
        let operands = rewriter.operands(op);
        match unroller.unrolled(op, &operands, "", &mut rewriter) {
            Some(results) => {
                for (&v, new) in op.results.iter().zip(results) {
                    rewriter.replace(v, new);
                }
            }
            None => {
                let info = graph.locs.get(op.loc).cloned().unwrap_or_default();
                unroller.notes.push(
                    Diagnostic::note("N0203", "a loop stays a loop: the number of its iterations is not known, or unrolling it makes too many ops")
                        .with_note(format!("at line {}, column {}; the budget is {OP_BUDGET} ops", info.line, info.column)),
                );
                rewriter.copy(id);
            }
        }
    }
    (rewriter.finish(), unroller.notes)
}

struct Unroller {
    budget: usize,
    loops: usize,
    notes: Vec<Diagnostic>,
}

impl Unroller {
    /// Emits the iterations of a loop and returns what it ends with; `None` leaves it.
    fn unrolled(&mut self, op: &Op, operands: &[ValueId], path: &str, target: &mut Rewriter<'_>) -> Option<Vec<ValueId>> {
        let [condition, body] = &op.regions[..] else { return None };
        let initial = operands.iter().map(|&v| target.graph.constant(v).cloned()).collect();
        let trips = trip_count(condition, body, initial)?;
        let cost = trips.checked_mul(op_count(body))?;
        if cost > self.budget {
            return None;
        }
        self.budget -= cost;
        let number = self.loops;
        self.loops += 1;
        let mut carried = operands.to_vec();
        for iteration in 0..trips {
            let path = format!("{path}while#{number}:{iteration}/");
            carried = self.iteration(body, &carried, &path, target);
        }
        Some(carried)
    }

    /// Emits the ops of a loop body once.
    fn iteration(&mut self, body: &Graph, carried: &[ValueId], path: &str, target: &mut Rewriter<'_>) -> Vec<ValueId> {
        let mut map: SecondaryMap<ValueId, ValueId> = SecondaryMap::with_default(ValueId(u32::MAX));
        for (&v, &new) in body.inputs.iter().zip(carried) {
            map[v] = new;
        }
        let segment = path.trim_end_matches('/');
        for op in body.ops.values() {
            let operands: Vec<ValueId> = op.operands.iter().map(|&v| map[v]).collect();
            let info = body.locs.get(op.loc).cloned().unwrap_or_default();
            let inner: Arc<str> = if info.path.is_empty() { segment.into() } else { format!("{segment}/{}", info.path).into() };
            target.at_info(LocInfo { path: inner, ..info });
            if matches!(op.kind, OpKind::While)
                && let Some(results) = self.unrolled(op, &operands, path, target)
            {
                for (&v, new) in op.results.iter().zip(results) {
                    map[v] = new;
                }
                continue;
            }
            let types = op.results.iter().map(|&v| body.ty(v).clone()).collect();
            let names: Vec<Arc<str>> = op.results.iter().map(|&v| prefixed(path, &body.values[v].name)).collect();
            let new = target.graph.add_op(op.kind.clone(), operands, types, target.loc(), &names);
            target.graph.ops[new].regions.clone_from(&op.regions);
            for (i, &v) in op.results.iter().enumerate() {
                map[v] = target.graph.ops[new].results[i];
            }
        }
        for (name, &v) in &body.aliases {
            target.give_name(map[v], prefixed(path, name));
        }
        body.outputs.iter().map(|&v| map[v]).collect()
    }
}

/// How often the body runs, when the condition can be told from constants.
fn trip_count(condition: &Graph, body: &Graph, mut carried: Vec<Option<Literal>>) -> Option<usize> {
    for trip in 0..MAX_TRIPS {
        let decided = constants(condition, &carried).first().cloned().flatten()?;
        if decided.splat_value()? == 0.0 {
            return Some(trip);
        }
        carried = constants(body, &carried);
    }
    None
}

/// The outputs of a graph as far as they follow from constants.
fn constants(graph: &Graph, inputs: &[Option<Literal>]) -> Vec<Option<Literal>> {
    let mut known: SecondaryMap<ValueId, Option<Literal>> = SecondaryMap::new();
    for (&v, literal) in graph.inputs.iter().zip(inputs) {
        known[v] = literal.clone();
    }
    let live = live_ops(graph);
    for (id, op) in graph.ops.iter() {
        if !live[id] || op.results.len() != 1 {
            continue;
        }
        let ty = graph.ty(op.results[0]);
        let folded = match &op.kind {
            OpKind::Constant(literal) => Some(literal.clone()),
            kind if kind.is_elementwise() => {
                let operands: Option<Vec<&Literal>> = op.operands.iter().map(|&v| known[v].as_ref().filter(|l| l.splat_bytes().is_some())).collect();
                operands.and_then(|o| evaluate::elementwise(kind, &o, ty))
            }
            OpKind::Reshape | OpKind::Broadcast { .. } => {
                let bytes = known[op.operands[0]].as_ref().and_then(|l| l.splat_bytes());
                bytes.map(|b| Literal { ty: ty.clone(), data: ir::literal::Data::Splat(b.to_vec()) })
            }
            _ => None,
        };
        known[op.results[0]] = folded;
    }
    graph.outputs.iter().map(|&v| known[v].clone()).collect()
}

/// Ops of a graph, those of nested loops counted once.
fn op_count(graph: &Graph) -> usize {
    graph.ops.values().map(|op| 1 + op.regions.iter().map(op_count).sum::<usize>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::fold;
    use ir::op::{BinaryOp, Direction};
    use ir::{DType, Loc, TensorType};

    /// `while i < 3 { stack[i] = x; x = x + x; i = i + 1 }` over `stack` of zeros.
    fn scan() -> Graph {
        let (index, row, stack) = (TensorType::scalar(DType::I32), TensorType::new(DType::F32, [1, 4]), TensorType::new(DType::F32, [3, 4]));
        let loc = Loc(0);
        let types = [index.clone(), row.clone(), stack.clone()];
        let mut condition = Graph::new("");
        let inputs: Vec<ValueId> = types.iter().map(|t| condition.add_input(t.clone(), "")).collect();
        let bound = condition.add(OpKind::Constant(Literal::splat(index.clone(), 3.0)), vec![], index.clone(), loc);
        let kind = OpKind::Compare { direction: Direction::Lt, total: false };
        let less = condition.add(kind, vec![inputs[0], bound], TensorType::scalar(DType::I1), loc);
        condition.outputs = vec![less];
        let mut body = Graph::new("");
        let inputs: Vec<ValueId> = types.iter().map(|t| body.add_input(t.clone(), "")).collect();
        let one = body.add(OpKind::Constant(Literal::splat(index.clone(), 1.0)), vec![], index.clone(), loc);
        let zero = body.add(OpKind::Constant(Literal::splat(index.clone(), 0.0)), vec![], index.clone(), loc);
        let next = body.add(OpKind::Binary(BinaryOp::Add), vec![inputs[0], one], index.clone(), loc);
        let doubled = body.add(OpKind::Binary(BinaryOp::Add), vec![inputs[1], inputs[1]], row.clone(), loc);
        let updated = body.add(OpKind::DynamicUpdateSlice, vec![inputs[2], inputs[1], inputs[0], zero], stack.clone(), loc);
        body.outputs = vec![next, doubled, updated];
        let mut graph = Graph::new("main");
        let x = graph.add_input(row, "%arg0");
        let start = graph.add(OpKind::Constant(Literal::splat(index.clone(), 0.0)), vec![], index.clone(), loc);
        let zeros = graph.add(OpKind::Constant(Literal::splat(stack.clone(), 0.0)), vec![], stack.clone(), loc);
        let op = graph.add_op(OpKind::While, vec![start, x, zeros], types.to_vec(), loc, &[]);
        graph.ops[op].regions = vec![condition, body];
        let results = graph.ops[op].results.clone();
        let second = OpKind::Slice { start: vec![1, 0], limit: vec![2, 4], stride: vec![1, 1] };
        let slice = graph.add(second, vec![results[2]], TensorType::new(DType::F32, [1, 4]), loc);
        graph.outputs = vec![results[2], slice];
        graph.locs.push(LocInfo::default());
        graph
    }

    #[test]
    fn the_stacked_buffer_of_a_scan_becomes_a_concatenation() {
        let (unrolled, notes) = run(&fold::run(&scan()));
        assert!(notes.is_empty());
        let folded = fold::run(&unrolled);
        let kinds: Vec<&OpKind> = folded.ops.values().map(|op| &op.kind).collect();
        assert!(matches!(kinds[..], [OpKind::Binary(_), OpKind::Binary(_), OpKind::Concatenate { dim: 0 }]), "{kinds:?}");
        let concatenate = folded.def_op(folded.outputs[0]).expect("an op");
        assert_eq!(folded.ops[concatenate].operands[1], folded.outputs[1], "the slice is the piece");
    }
}
