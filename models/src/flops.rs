//! How many floating-point operations the products of a traced step take.
//!
//! A product's are two for each pair of elements that meet. A convolution's gradients take what the convolution takes: multiplications with the zeros of a
//! dilation do not count, neither does recomputation; attention's scores count whole, also where they are masked. Products that only move tokens (scopes [`MOVING`]) do not count either.

use crate::context::Run;
use ir::graph::{Graph, Loc, Op};
use ir::op::{ConvDims, DotDims, OpKind};
use ir::{Attention, AttentionDim, TensorType};
use std::collections::BTreeMap;

/// Scopes whose products choose rows with one-hot tensors.
const MOVING: [&str; 4] = ["dispatch", "combine", "places", "bias"];

/// The operations of a step in which every run has its full depth.
pub(crate) fn count(graph: &Graph, runs: &[Run]) -> f64 {
    // An op of the backward pass has the place of the forward op it is the derivative of.
    let mut convolutions: BTreeMap<Loc, u64> = BTreeMap::new();
    let mut total = 0.0;
    for op in graph.ops.values() {
        let one = match &op.kind {
            OpKind::Dot(dims) => dot(graph, op, dims),
            // The scores, and what they mix; backward a product for each of the two operands of both.
            OpKind::Attention(a) => attention(graph, op, a),
            OpKind::AttentionGrad { attention: a, .. } => 2 * attention(graph, op, a),
            OpKind::Convolution(dims) => *convolutions.entry(op.loc).or_insert_with(|| convolution(graph, op, dims)),
            _ => continue,
        };
        // A place is `file.rs:12 scope/of/the/op`.
        let place = graph.locs[op.loc].name.as_deref().unwrap_or_default();
        let scope = place.split_once(' ').map_or("", |(_, scope)| scope);
        if !scope.split('/').any(|part| MOVING.contains(&part)) {
            total += one as f64 * repetitions(scope, runs);
        }
    }
    total
}

/// How many of the full depth's layers one traced one stands for.
pub(crate) fn repetitions(name: &str, runs: &[Run]) -> f64 {
    let run = runs.iter().find(|r| name.strip_prefix(r.prefix.as_str()).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())));
    run.map_or(1.0, |r| f64::from(r.depth_full) / f64::from(r.depth_traced.max(1)))
}

fn dot(graph: &Graph, op: &Op, dims: &DotDims) -> u64 {
    let left = &graph.ty(op.operands[0]).shape;
    let summed: u64 = dims.lhs_contract.iter().map(|&d| left[d]).product();
    2 * summed * graph.ty(op.results[0]).elements()
}

fn attention(graph: &Graph, op: &Op, a: &Attention) -> u64 {
    let operands: Vec<&TensorType> = op.operands.iter().take(3).map(|&v| graph.ty(v)).collect();
    let extent = |d: AttentionDim| a.extent(&operands, d).unwrap_or(1);
    let scores: u64 = a.batch().into_iter().chain([AttentionDim::Query, AttentionDim::Key]).map(extent).product();
    2 * scores * (extent(AttentionDim::Depth) + extent(AttentionDim::Value))
}

fn convolution(graph: &Graph, op: &Op, dims: &ConvDims) -> u64 {
    let kernel = &graph.ty(op.operands[1]).shape;
    let met: u64 = dims.kernel_spatial.iter().map(|&d| kernel[d]).product::<u64>() * kernel[dims.kernel_input];
    2 * met * graph.ty(op.results[0]).elements()
}
