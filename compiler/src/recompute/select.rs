//! What selective recomputation drops: values that are cheap to remake for their size.
//!
//! Remaking a value costs the FLOPs of all ops between it and what is kept anyway. A value is dropped when that is less, per byte it would take, than a
//! quarter of what a product of this step's forward takes per byte of its result (the mean over the FLOPs). Attention's scores and
//! probabilities, which are quadratic in the sequence and contract over one head only, are far below it, as are results of elementwise ops
//! and normalizations; results of products with parameters, and small statistics of large values, are above it.

use super::Recomputation;
use crate::shard::groups::is_view;
use ir::graph::Graph;
use ir::op::OpKind;
use ir::program::Phase;
use ir::{OpId, SecondaryMap, ValueId};
use std::collections::BTreeSet;

/// The share of a product's mean FLOPs per byte up to which a value is cheap.
const CHEAP: f64 = 0.25;

/// FLOPs of an op, roughly.
fn flops(graph: &Graph, id: OpId) -> f64 {
    let op = &graph.ops[id];
    let out: u64 = op.results.iter().map(|&v| graph.ty(v).elements()).sum();
    match &op.kind {
        _ if is_view(graph, id) => 0.0,
        OpKind::Reduce { .. } | OpKind::ReduceWindow { .. } => op.operands.first().map_or(0.0, |&v| graph.ty(v).elements() as f64),
        _ => product_flops(graph, id).unwrap_or(out as f64),
    }
}

/// FLOPs of a matrix product or convolution.
fn product_flops(graph: &Graph, id: OpId) -> Option<f64> {
    let op = &graph.ops[id];
    let out = graph.ty(*op.results.first()?);
    match &op.kind {
        OpKind::Dot(d) => {
            let k: u64 = d.lhs_contract.iter().map(|&c| graph.ty(op.operands[0]).shape[c]).product();
            Some(2.0 * out.elements() as f64 * k as f64)
        }
        OpKind::Convolution(_) => {
            let per_output = graph.ty(op.operands[1]).elements() as f64 / out.shape.last().map_or(1.0, |&n| n.max(1) as f64);
            Some(2.0 * out.elements() as f64 * per_output)
        }
        _ => None,
    }
}

/// FLOPs per byte of a product of the forward, the mean over FLOPs.
fn intensity_of_products(r: &Recomputation<'_>) -> f64 {
    let graph = &r.step.graph;
    let (mut sum, mut total) = (0.0, 0.0);
    for id in graph.ops.keys().filter(|&id| r.step.phase_of(id) == Phase::Forward) {
        if let Some(f) = product_flops(graph, id) {
            let bytes = graph.ty(graph.ops[id].results[0]).bytes().max(1);
            sum += f * (f / bytes as f64);
            total += f;
        }
    }
    if total > 0.0 { sum / total } else { 0.0 }
}

/// The values that the backward would keep and that are cheap to remake.
pub(super) fn cheap(r: &Recomputation<'_>) -> SecondaryMap<ValueId, bool> {
    let graph = &r.step.graph;
    let most = CHEAP * intensity_of_products(r);
    let mut cheap: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    for v in graph.values.keys().filter(|&v| r.kept[v] && !r.always[v]) {
        let budget = most * graph.ty(v).bytes() as f64;
        cheap[v] = remake(r, v, budget) <= budget;
    }
    cheap
}

/// FLOPs of all ops between a value and what is there anyway; stops once they exceed `budget`.
fn remake(r: &Recomputation<'_>, v: ValueId, budget: f64) -> f64 {
    let graph = &r.step.graph;
    let layer = r.layer_of(v);
    let mut done: BTreeSet<OpId> = BTreeSet::new();
    let mut stack: Vec<OpId> = graph.def_op(v).into_iter().collect();
    let mut total = 0.0;
    while let Some(id) = stack.pop() {
        if !done.insert(id) {
            continue;
        }
        total += flops(graph, id);
        if total > budget {
            break;
        }
        for &u in &r.reads[id.0 as usize] {
            if let Some(op) = graph.def_op(u).filter(|_| r.layer_of(u) == layer && !r.kept[u] && !r.always[u]) {
                stack.push(op);
            }
        }
    }
    total
}
