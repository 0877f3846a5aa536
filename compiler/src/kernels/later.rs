//! What the backward computes for the update alone is computed with the update, where a step has one microbatch
//! and the stage receives nothing from others.
//!
//! A gradient that is a sum of parts (of a tensor that is used twice, such as a tied embedding) is then added where it is used, and never stored. The last
//! sum moves, with what is done to it elementwise; what it adds is kept one phase longer instead of the sum. Sums of sums stay where they are, since each
//! further one would keep another part.
//!
//! **Invariant:** only ops whose every reader runs after the last microbatch move, so that nothing reads what is not there yet.

use super::classify::is_fusible;
use crate::spmd::local::{LocalGraph, Source};
use ir::op::OpKind;
use ir::program::Phase;
use ir::{AxisId, OpId, PrimaryMap, ValueId};

/// Moves what can be moved.
pub fn run(local: &mut LocalGraph) {
    let receives = local.inputs.iter().any(|input| matches!(input.source, Source::Received { .. }));
    if local.microbatches > 1 || receives {
        return;
    }
    let users = local.graph.users();
    let late = |id: &OpId| {
        let op = &local.graph.ops[*id];
        let backward = local.phase[id.0 as usize] == Phase::Backward;
        backward && is_elementwise(&op.kind) && is_fusible(local, *id) && op.results.iter().all(|&v| is_read_late(local, &users, v))
    };
    let moved: Vec<OpId> = local.graph.ops.keys().filter(late).collect();
    for id in moved {
        local.phase[id.0 as usize] = Phase::After;
    }
}

/// Whether only ops of kernels of the phase `After` read a value, through views and what is done to it alone.
fn is_read_late(local: &LocalGraph, users: &PrimaryMap<ValueId, Vec<OpId>>, v: ValueId) -> bool {
    let late = |&id: &OpId| {
        let op = &local.graph.ops[id];
        if passes_on(&op.kind) {
            return is_read_late(local, users, op.results[0]);
        }
        local.phase[id.0 as usize] == Phase::After && is_elementwise(&op.kind) && is_fusible(local, id)
    };
    !local.graph.outputs.contains(&v) && !users[v].is_empty() && users[v].iter().all(late)
}

/// Ops that give each element of their one operand, seen otherwise or changed.
fn passes_on(kind: &OpKind) -> bool {
    match kind {
        OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Unary(_) | OpKind::Convert | OpKind::BitcastConvert => true,
        OpKind::AllReduce { axes, .. } => axes == &[AxisId::MICROBATCH],
        _ => false,
    }
}

fn is_elementwise(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Compare { .. } | OpKind::Select | OpKind::Clamp | OpKind::Convert | OpKind::BitcastConvert)
}
