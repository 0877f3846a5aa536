//! Rules of the ops whose dimensions correspond in their own way.

use super::{Dims, Linear, Rule, is_zero, opaque};
use ir::graph::Graph;
use ir::op::{ConvDims, DotDims, GatherDims, Reducer, ScatterDims, Window};
use ir::{AttentionDim, OpId, ValueId};

fn shape(graph: &Graph, v: ValueId) -> &[u64] {
    &graph.ty(v).shape
}

/// Operand dimensions that are repeated must be whole; new dimensions are factors of the result.
pub(super) fn broadcast(graph: &Graph, id: OpId, dims: &[usize]) -> Rule {
    let op = &graph.ops[id];
    let (from, to) = (shape(graph, op.operands[0]), shape(graph, op.results[0]));
    let mut rule = Rule::default();
    let result: Dims = to.iter().map(|&n| rule.factor(n, None)).collect();
    rule.operands = vec![dims.iter().enumerate().map(|(i, &d)| if from[i] == to[d] { result[d] } else { None }).collect()];
    rule.results = vec![result];
    rule
}

/// Dimensions that correspond one to one; what is split or merged must be whole.
pub(super) fn reshape(graph: &Graph, id: OpId) -> Rule {
    let op = &graph.ops[id];
    let (from, to) = (shape(graph, op.operands[0]), shape(graph, op.results[0]));
    let (mut rule, mut operand, mut result) = (Rule::default(), vec![None; from.len()], vec![None; to.len()]);
    let (mut i, mut j, mut before_i, mut before_j) = (0, 0, 1u64, 1u64);
    while i < from.len() && j < to.len() {
        if before_i == before_j && from[i] == to[j] {
            let f = rule.factor(from[i], None);
            (operand[i], result[j]) = (f, f);
            (before_i, before_j, i, j) = (before_i * from[i], before_j * to[j], i + 1, j + 1);
        } else if before_i * from[i] <= before_j * to[j] {
            before_i *= from[i];
            i += 1;
        } else {
            before_j *= to[j];
            j += 1;
        }
    }
    rule.operands = vec![operand];
    rule.results = vec![result];
    rule
}

pub(super) fn transpose(graph: &Graph, id: OpId, perm: &[usize]) -> Rule {
    let op = &graph.ops[id];
    let mut rule = Rule::default();
    let operand: Dims = shape(graph, op.operands[0]).iter().map(|&n| rule.factor(n, None)).collect();
    rule.results = vec![perm.iter().map(|&p| operand[p]).collect()];
    rule.operands = vec![operand];
    rule
}

/// Dimensions whose extent the first operand and the result share pass; further operands are whole. A reversed dimension is not passed.
pub(super) fn same_extent(graph: &Graph, id: OpId) -> Rule {
    let op = &graph.ops[id];
    let (from, to) = (shape(graph, op.operands[0]).to_vec(), shape(graph, op.results[0]).to_vec());
    let passes = |d: usize| match &op.kind {
        ir::OpKind::Reverse { dims } => !dims.contains(&d),
        ir::OpKind::Pad { low, high, interior } => low[d] == 0 && high[d] == 0 && interior[d] == 0,
        ir::OpKind::ShardSlice { dim, .. } => d != *dim,
        _ => from[d] == to[d],
    };
    let mut rule = Rule::default();
    let dims: Dims = (0..from.len()).map(|d| if passes(d) { rule.factor(from[d], None) } else { None }).collect();
    rule.operands = op.operands.iter().enumerate().map(|(i, &v)| if i == 0 { dims.clone() } else { vec![None; graph.ty(v).rank()] }).collect();
    rule.results = vec![dims];
    rule
}

/// All dimensions of all operands and results but one.
pub(super) fn all_but(graph: &Graph, id: OpId, dim: usize) -> Rule {
    let op = &graph.ops[id];
    let mut rule = Rule::default();
    let dims: Dims = shape(graph, op.operands[0]).iter().enumerate().map(|(d, &n)| if d == dim { None } else { rule.factor(n, None) }).collect();
    rule.operands = vec![dims.clone(); op.operands.len()];
    rule.results = vec![dims; op.results.len()];
    rule
}

pub(super) fn concatenate(graph: &Graph, id: OpId, dim: usize) -> Rule {
    all_but(graph, id, dim)
}

pub(super) fn update_slice(graph: &Graph, id: OpId) -> Rule {
    let op = &graph.ops[id];
    let (whole, part) = (shape(graph, op.operands[0]).to_vec(), shape(graph, op.operands[1]).to_vec());
    let mut rule = Rule::default();
    let dims: Dims = (0..whole.len()).map(|d| if whole[d] == part[d] { rule.factor(whole[d], None) } else { None }).collect();
    rule.operands = op.operands.iter().enumerate().map(|(i, &v)| if i < 2 { dims.clone() } else { vec![None; graph.ty(v).rank()] }).collect();
    rule.results = vec![dims];
    rule
}

/// A reduction from its neutral element; from anything else the reduced dimensions must be whole.
pub(super) fn reduce(graph: &Graph, id: OpId, dims: &[usize], reducer: Reducer) -> Rule {
    let op = &graph.ops[id];
    let inputs = op.operands.len() / 2;
    let dtype = graph.ty(op.operands[0]).dtype;
    let neutral = inputs == 1 && reducer.neutral(dtype).is_some() && graph.constant(op.operands[1]).and_then(|l| l.splat_value()) == reducer.neutral(dtype);
    let mut rule = Rule::default();
    let operand: Dims = shape(graph, op.operands[0])
        .iter()
        .enumerate()
        .map(|(d, &n)| {
            if !dims.contains(&d) {
                rule.factor(n, None)
            } else if neutral {
                rule.factor(n, Some(reducer))
            } else {
                None
            }
        })
        .collect();
    let result: Dims = (0..operand.len()).filter(|d| !dims.contains(d)).map(|d| operand[d]).collect();
    rule.operands = (0..op.operands.len()).map(|i| if i < inputs { operand.clone() } else { vec![] }).collect();
    rule.results = vec![result; op.results.len()];
    if neutral {
        rule.linear.push(Linear { reducer: Some(reducer), operands: vec![0] });
    }
    rule
}

/// Dimensions over which the window is a single element pass.
pub(super) fn windowed(graph: &Graph, id: OpId, window: &Window) -> Rule {
    let op = &graph.ops[id];
    let passes = |d: usize| window.size[d] == 1 && window.stride[d] == 1 && window.pad[d] == (0, 0) && window.base_dilation[d] == 1;
    let mut rule = Rule::default();
    let dims: Dims = shape(graph, op.operands[0]).iter().enumerate().map(|(d, &n)| if passes(d) { rule.factor(n, None) } else { None }).collect();
    rule.operands = op.operands.iter().map(|&v| if graph.ty(v).rank() == dims.len() { dims.clone() } else { vec![] }).collect();
    rule.results = vec![dims; op.results.len()];
    rule
}

pub(super) fn dot(graph: &Graph, id: OpId, dims: &DotDims) -> Rule {
    let op = &graph.ops[id];
    let (l, r) = (shape(graph, op.operands[0]), shape(graph, op.operands[1]));
    let (mut rule, mut lhs, mut rhs, mut result) = (Rule::default(), vec![None; l.len()], vec![None; r.len()], vec![]);
    for (&a, &b) in dims.lhs_batch.iter().zip(&dims.rhs_batch) {
        let f = rule.factor(l[a], None);
        (lhs[a], rhs[b]) = (f, f);
        result.push(f);
    }
    for a in dims.lhs_free(l.len()) {
        lhs[a] = rule.factor(l[a], None);
        result.push(lhs[a]);
    }
    for b in dims.rhs_free(r.len()) {
        rhs[b] = rule.factor(r[b], None);
        result.push(rhs[b]);
    }
    for (&a, &b) in dims.lhs_contract.iter().zip(&dims.rhs_contract) {
        let f = rule.factor(l[a], Some(Reducer::Add));
        (lhs[a], rhs[b]) = (f, f);
    }
    rule.operands = vec![lhs, rhs];
    rule.results = vec![result];
    rule
}

/// Batch, output features and (summed) input features; spatial dimensions are whole.
pub(super) fn convolution(graph: &Graph, id: OpId, dims: &ConvDims) -> Rule {
    let op = &graph.ops[id];
    if dims.feature_groups != 1 || dims.batch_groups != 1 {
        return opaque(graph, id);
    }
    let (l, r, o) = (shape(graph, op.operands[0]), shape(graph, op.operands[1]), shape(graph, op.results[0]));
    let (mut rule, mut lhs, mut rhs, mut result) = (Rule::default(), vec![None; l.len()], vec![None; r.len()], vec![None; o.len()]);
    let batch = rule.factor(l[dims.input_batch], None);
    (lhs[dims.input_batch], result[dims.output_batch]) = (batch, batch);
    let features = rule.factor(r[dims.kernel_output], None);
    (rhs[dims.kernel_output], result[dims.output_feature]) = (features, features);
    let summed = rule.factor(l[dims.input_feature], Some(Reducer::Add));
    (lhs[dims.input_feature], rhs[dims.kernel_input]) = (summed, summed);
    rule.operands = vec![lhs, rhs];
    rule.results = vec![result];
    rule
}

/// Batch dimensions and queries; keys and the contracted size are whole, and so is the value's, which a row's statistics lack. What a result of the
/// derivative lacks, it is summed over.
pub(super) fn attention(graph: &Graph, id: OpId, operands: &[Vec<AttentionDim>], results: &[Vec<AttentionDim>]) -> Rule {
    let op = &graph.ops[id];
    let mut rule = Rule::default();
    let mut known: Vec<(AttentionDim, Option<u32>)> = vec![];
    for (&d, &n) in operands[0].iter().zip(shape(graph, op.operands[0])) {
        if d.is_batch() || d == AttentionDim::Query {
            let lacking = results.iter().any(|r| !r.contains(&d));
            known.push((d, rule.factor(n, lacking.then_some(Reducer::Add))));
        }
    }
    let factors = |dims: &Vec<AttentionDim>| -> Dims { dims.iter().map(|d| known.iter().find(|k| k.0 == *d).and_then(|k| k.1)).collect() };
    rule.operands = operands.iter().map(factors).collect();
    rule.results = results.iter().map(factors).collect();
    rule
}

/// Batching dimensions, index dimensions, and window dimensions taken whole; indexed dimensions are whole.
pub(super) fn gather(graph: &Graph, id: OpId, dims: &GatherDims) -> Rule {
    let op = &graph.ops[id];
    let (x, indices, out) = (shape(graph, op.operands[0]), shape(graph, op.operands[1]), shape(graph, op.results[0]));
    let (mut rule, mut operand, mut start, mut result) = (Rule::default(), vec![None; x.len()], vec![None; indices.len()], vec![None; out.len()]);
    let index_dims: Vec<usize> = (0..indices.len()).filter(|&d| d != dims.index_vector_dim).collect();
    let batch_positions = (0..out.len()).filter(|d| !dims.offset_dims.contains(d));
    for (&i, o) in index_dims.iter().zip(batch_positions) {
        let f = rule.factor(indices[i], None);
        (start[i], result[o]) = (f, f);
    }
    for (&o, &i) in dims.operand_batching_dims.iter().zip(&dims.start_indices_batching_dims) {
        operand[o] = start[i];
    }
    let windows = (0..x.len()).filter(|d| !dims.collapsed_slice_dims.contains(d) && !dims.operand_batching_dims.contains(d));
    for (d, &o) in windows.zip(&dims.offset_dims) {
        if dims.slice_sizes[d] == x[d] && !dims.start_index_map.contains(&d) {
            let f = rule.factor(x[d], None);
            (operand[d], result[o]) = (f, f);
        }
    }
    rule.operands = vec![operand, start];
    rule.results = vec![result];
    rule
}

/// As gather, with updates in the place of the result. Onto zeros, a sum may be cut over the updates' index dimensions: each device adds its own.
pub(super) fn scatter(graph: &Graph, id: OpId, dims: &ScatterDims, reducer: Reducer) -> Rule {
    let op = &graph.ops[id];
    if op.operands.len() != 3 || reducer == Reducer::General {
        return opaque(graph, id);
    }
    let (x, indices, updates) = (shape(graph, op.operands[0]), shape(graph, op.operands[1]), shape(graph, op.operands[2]));
    let (mut rule, mut operand, mut start, mut update) = (Rule::default(), vec![None; x.len()], vec![None; indices.len()], vec![None; updates.len()]);
    let onto_zero = reducer == Reducer::Add && is_zero(graph, op.operands[0]);
    let index_dims: Vec<usize> = (0..indices.len()).filter(|&d| d != dims.index_vector_dim).collect();
    let scatter_positions = (0..updates.len()).filter(|d| !dims.update_window_dims.contains(d));
    for (&i, u) in index_dims.iter().zip(scatter_positions) {
        let batching = dims.scatter_indices_batching_dims.iter().position(|&b| b == i);
        let f = match batching {
            Some(_) => rule.factor(indices[i], None),
            None if onto_zero => rule.factor(indices[i], Some(Reducer::Add)),
            None => None,
        };
        (start[i], update[u]) = (f, f);
        if let Some(b) = batching {
            operand[dims.input_batching_dims[b]] = f;
        }
    }
    let windows = (0..x.len()).filter(|d| !dims.inserted_window_dims.contains(d) && !dims.input_batching_dims.contains(d));
    for (d, &u) in windows.zip(&dims.update_window_dims) {
        if updates[u] == x[d] && !dims.scatter_dims_to_operand_dims.contains(&d) {
            let f = rule.factor(x[d], None);
            (operand[d], update[u]) = (f, f);
        }
    }
    rule.results = vec![operand.clone()];
    rule.operands = vec![operand, start, update];
    if reducer == Reducer::Add {
        rule.linear.push(Linear { reducer: Some(Reducer::Add), operands: vec![0, 2] });
    }
    rule
}

/// Each result follows its operand.
pub(super) fn barrier(graph: &Graph, id: OpId) -> Rule {
    let op = &graph.ops[id];
    let mut rule = Rule::default();
    rule.operands = op.operands.iter().map(|&v| shape(graph, v).to_vec()).map(|s| s.iter().map(|&n| rule.factor(n, None)).collect()).collect();
    rule.results = rule.operands.clone();
    rule
}
