//! Gives every reader of a constant, an iota or a broadcast its own copy.
//!
//! Two readers that happen to share a zero of one shape have nothing else in common; if they shared the value, their dimensions would correspond.
//! Folding merges the copies again where they are still equal after the refinement.

use crate::canonical::rewrite::Rewriter;
use ir::graph::{Graph, Op};
use ir::{OpKind, ValueId};

/// The graph with these values copied per reader.
pub(super) fn run(graph: &Graph) -> Graph {
    let mut rewriter = Rewriter::new(graph);
    for (id, op) in graph.ops.iter() {
        rewriter.at(id);
        if copied(graph, op) && !graph.outputs.contains(&op.results[0]) {
            // Emitted where it is read.
            continue;
        }
        let operands = op.operands.iter().map(|&v| value(&mut rewriter, graph, v)).collect();
        rewriter.copy_as(id, op.kind.clone(), operands);
    }
    rewriter.finish()
}

fn copied(graph: &Graph, op: &Op) -> bool {
    match &op.kind {
        OpKind::Constant(literal) => graph.ty(op.results[0]).rank() > 0 && literal.splat_bytes().is_some(),
        OpKind::Iota { .. } | OpKind::Broadcast { .. } => true,
        _ => false,
    }
}

/// The new value of an operand; a copied one is emitted.
fn value(rewriter: &mut Rewriter<'_>, graph: &Graph, v: ValueId) -> ValueId {
    match graph.def_op(v) {
        Some(id) if copied(graph, &graph.ops[id]) => {
            let op = &graph.ops[id];
            let operands = op.operands.iter().map(|&x| value(rewriter, graph, x)).collect();
            rewriter.at(id);
            let new = rewriter.emit(op.kind.clone(), operands, graph.ty(v).clone());
            rewriter.replace(v, new);
            new
        }
        _ => rewriter.value(v),
    }
}
