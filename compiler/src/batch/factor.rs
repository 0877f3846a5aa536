//! What cutting one dimension of one operand of an op into blocks means for the other operands and the results.
//!
//! A dimension belongs to a factor of the op: the dimensions of operands and results that are cut together. If no result has the factor, blocks are
//! combined by a reduction. A dimension without a factor cannot be cut.

use crate::canonical::reshape_groups::reshape_groups;
use ir::graph::{Graph, Op};
use ir::op::{GatherDims, OpKind, Reducer, ScatterDims, Window};

/// Dimensions that are cut together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Factor {
    /// For every operand its dimension of the factor.
    pub(super) operands: Vec<Option<usize>>,
    /// For every result its dimension of the factor; all or none have one.
    pub(super) results: Vec<Option<usize>>,
    /// How results of blocks are combined, when results lack the factor.
    pub(super) reduction: Option<Reducer>,
}

/// The factor of dimension `dim` of operand `operand`.
pub(super) fn factor(graph: &Graph, op: &Op, operand: usize, dim: usize) -> Option<Factor> {
    let shape = |i: usize| &graph.ty(op.operands[i]).shape[..];
    let result_shape = |i: usize| &graph.ty(op.results[i]).shape[..];
    let n = op.operands.len();
    let unary = |result: Option<usize>| Some(Factor { operands: one(n, operand, dim), results: vec![Some(result?)], reduction: None });
    match &op.kind {
        OpKind::Constant(_) | OpKind::Iota { .. } | OpKind::AxisIndex { .. } => None,
        OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare { .. }
        | OpKind::Select
        | OpKind::Clamp
        | OpKind::Convert
        | OpKind::ReducePrecision { .. }
        | OpKind::AllReduce { .. } => {
            Some(Factor { operands: (0..n).map(|i| (!shape(i).is_empty()).then_some(dim)).collect(), results: vec![Some(dim)], reduction: None })
        }
        OpKind::BitcastConvert => unary((shape(0) == result_shape(0)).then_some(dim)),
        // The results of a barrier are independent of each other; see `phases`.
        OpKind::Barrier => Some(Factor { operands: one(n, operand, dim), results: one(n, operand, dim), reduction: None }),
        OpKind::Broadcast { dims } => unary((shape(0)[dim] == result_shape(0)[dims[dim]]).then_some(dims[dim])),
        OpKind::Reshape => {
            // A leading dimension stays leading; whether the blocks are whole rows depends on their number, see `divides`.
            unary(reshape_groups(shape(0), result_shape(0)).into_iter().find(|(a, _)| a.first() == Some(&dim)).and_then(|(_, b)| b.first().copied()))
        }
        OpKind::Transpose { perm } => unary(perm.iter().position(|&p| p == dim)),
        OpKind::Slice { .. } => unary((shape(0)[dim] == result_shape(0)[dim]).then_some(dim)),
        OpKind::Pad { low, high, interior } => unary((operand == 0 && low[dim] == 0 && high[dim] == 0 && interior[dim] == 0).then_some(dim)),
        OpKind::Concatenate { dim: joined } => (*joined != dim).then(|| Factor { operands: vec![Some(dim); n], results: vec![Some(dim)], reduction: None }),
        OpKind::Reverse { dims } => unary((!dims.contains(&dim)).then_some(dim)),
        OpKind::DynamicSlice { .. } => unary((shape(0)[dim] == result_shape(0)[dim]).then_some(dim)),
        OpKind::DynamicUpdateSlice => (operand < 2 && shape(0)[dim] == shape(1)[dim]).then(|| Factor {
            operands: (0..n).map(|i| (i < 2).then_some(dim)).collect(),
            results: vec![Some(dim)],
            reduction: None,
        }),
        OpKind::Reduce { dims, reducer } => {
            let m = op.results.len();
            let operands = (0..n).map(|i| (i < m).then_some(dim)).collect();
            if dims.contains(&dim) {
                let reduction = (m == 1 && reducer.binary().is_some()).then_some(*reducer)?;
                return Some(Factor { operands, results: vec![None; m], reduction: Some(reduction) });
            }
            let kept = dim - dims.iter().filter(|&&d| d < dim).count();
            Some(Factor { operands, results: vec![Some(kept); m], reduction: None })
        }
        OpKind::ReduceWindow { window, .. } => {
            let m = op.results.len();
            trivial(window, dim).then(|| Factor { operands: (0..n).map(|i| (i < m).then_some(dim)).collect(), results: vec![Some(dim); m], reduction: None })
        }
        OpKind::SelectAndScatter { window } => {
            trivial(window, dim).then(|| Factor { operands: vec![Some(dim), Some(dim), None], results: vec![Some(dim)], reduction: None })
        }
        OpKind::Dot(dims) => {
            let place = |batch: &[usize], contract: &[usize], free: &[usize], offset: usize| {
                let at = |list: &[usize]| list.iter().position(|&d| d == dim);
                if let Some(i) = at(batch) {
                    return (Some(dims.lhs_batch[i]), Some(dims.rhs_batch[i]), Some(i));
                }
                if let Some(i) = at(contract) {
                    return (Some(dims.lhs_contract[i]), Some(dims.rhs_contract[i]), None);
                }
                let result = at(free).map(|i| offset + i);
                if operand == 0 { (Some(dim), None, result) } else { (None, Some(dim), result) }
            };
            let left = dims.lhs_free(shape(0).len());
            let batch = dims.lhs_batch.len();
            let (l, r, result) = if operand == 0 {
                place(&dims.lhs_batch, &dims.lhs_contract, &left, batch)
            } else {
                place(&dims.rhs_batch, &dims.rhs_contract, &dims.rhs_free(shape(1).len()), batch + left.len())
            };
            Some(Factor { operands: vec![l, r], results: vec![result], reduction: result.is_none().then_some(Reducer::Add) })
        }
        OpKind::Convolution(c) => {
            if operand == 0 && dim == c.input_batch && c.batch_groups == 1 {
                Some(Factor { operands: vec![Some(dim), None], results: vec![Some(c.output_batch)], reduction: None })
            } else if operand == 1 && dim == c.kernel_output && c.feature_groups == 1 && c.batch_groups == 1 {
                Some(Factor { operands: vec![None, Some(dim)], results: vec![Some(c.output_feature)], reduction: None })
            } else if c.feature_groups == 1 && c.batch_groups == 1 && dim == (if operand == 0 { c.input_feature } else { c.kernel_input }) {
                Some(Factor { operands: vec![Some(c.input_feature), Some(c.kernel_input)], results: vec![None], reduction: Some(Reducer::Add) })
            } else {
                None
            }
        }
        OpKind::Gather(dims) => gather(graph, op, dims, operand, dim),
        OpKind::Scatter { dims, reducer } if op.results.len() == 1 => scatter(graph, op, dims, *reducer, operand, dim),
        OpKind::Scatter { .. } => None,
        OpKind::TopK { .. } => (dim + 1 != shape(0).len()).then(|| Factor { operands: vec![Some(dim)], results: vec![Some(dim); 2], reduction: None }),
        OpKind::Sort { dim: sorted, .. } => (*sorted != dim).then(|| Factor { operands: vec![Some(dim); n], results: vec![Some(dim); n], reduction: None }),
        OpKind::While
        | OpKind::If
        | OpKind::Case
        | OpKind::Call { .. }
        | OpKind::RngBitGenerator { .. }
        | OpKind::CustomCall { .. }
        | OpKind::AllGather { .. }
        | OpKind::ReduceScatter { .. }
        | OpKind::AllToAll { .. }
        | OpKind::ShardSlice { .. } => None,
    }
}

fn one(n: usize, operand: usize, dim: usize) -> Vec<Option<usize>> {
    (0..n).map(|i| (i == operand).then_some(dim)).collect()
}

fn trivial(window: &Window, d: usize) -> bool {
    window.size[d] == 1 && window.stride[d] == 1 && window.pad[d] == (0, 0) && window.base_dilation[d] == 1
}

/// The indices' dimensions but the index vector, in order.
fn index_dims(rank: usize, vector: usize) -> Vec<usize> {
    (0..rank).filter(|&d| d != vector).collect()
}

fn gather(graph: &Graph, op: &Op, dims: &GatherDims, operand: usize, dim: usize) -> Option<Factor> {
    let rank = |v| graph.ty(v).rank();
    let result_batch: Vec<usize> = (0..rank(op.results[0])).filter(|d| !dims.offset_dims.contains(d)).collect();
    let indices = index_dims(rank(op.operands[1]), dims.index_vector_dim);
    let through_index = |index: usize| {
        let result = result_batch[indices.iter().position(|&d| d == index)?];
        let batched = dims.start_indices_batching_dims.iter().position(|&d| d == index).map(|i| dims.operand_batching_dims[i]);
        Some(Factor { operands: vec![batched, Some(index)], results: vec![Some(result)], reduction: None })
    };
    if operand == 1 {
        return through_index(dim);
    }
    if let Some(i) = dims.operand_batching_dims.iter().position(|&d| d == dim) {
        return through_index(dims.start_indices_batching_dims[i]);
    }
    let window: Vec<usize> = (0..rank(op.operands[0])).filter(|d| !dims.collapsed_slice_dims.contains(d) && !dims.operand_batching_dims.contains(d)).collect();
    let offset = dims.offset_dims[window.iter().position(|&d| d == dim)?];
    let whole = dims.slice_sizes[dim] == graph.ty(op.operands[0]).shape[dim] && !dims.start_index_map.contains(&dim);
    whole.then(|| Factor { operands: vec![Some(dim), None], results: vec![Some(offset)], reduction: None })
}

fn scatter(graph: &Graph, op: &Op, dims: &ScatterDims, reducer: Reducer, operand: usize, dim: usize) -> Option<Factor> {
    let rank = |v| graph.ty(v).rank();
    let (x, update) = (op.operands[0], op.operands[2]);
    let update_batch: Vec<usize> = (0..rank(update)).filter(|d| !dims.update_window_dims.contains(d)).collect();
    let indices = index_dims(rank(op.operands[1]), dims.index_vector_dim);
    let through_index = |index: usize| {
        let u = update_batch[indices.iter().position(|&d| d == index)?];
        match dims.scatter_indices_batching_dims.iter().position(|&d| d == index) {
            Some(i) => {
                let batched = dims.input_batching_dims[i];
                Some(Factor { operands: vec![Some(batched), Some(index), Some(u)], results: vec![Some(batched)], reduction: None })
            }
            None if reducer == Reducer::Add => Some(Factor { operands: vec![None, Some(index), Some(u)], results: vec![None], reduction: Some(Reducer::Add) }),
            None => None,
        }
    };
    match operand {
        1 => through_index(dim),
        2 if update_batch.contains(&dim) => through_index(indices[update_batch.iter().position(|&d| d == dim)?]),
        0 if dims.input_batching_dims.contains(&dim) => {
            through_index(dims.scatter_indices_batching_dims[dims.input_batching_dims.iter().position(|&d| d == dim)?])
        }
        _ => {
            let window: Vec<usize> = (0..rank(x)).filter(|d| !dims.inserted_window_dims.contains(d) && !dims.input_batching_dims.contains(d)).collect();
            let i = if operand == 0 { window.iter().position(|&d| d == dim) } else { dims.update_window_dims.iter().position(|&d| d == dim) }?;
            let (d, w) = (window[i], dims.update_window_dims[i]);
            let whole = graph.ty(x).shape[d] == graph.ty(update).shape[w] && !dims.scatter_dims_to_operand_dims.contains(&d);
            whole.then(|| Factor { operands: vec![Some(d), None, Some(w)], results: vec![Some(d)], reduction: None })
        }
    }
}
