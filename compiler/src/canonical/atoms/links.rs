//! Which dimensions of an op's operands and results correspond, per op.

use super::classes::{Classes, gcd};
use crate::canonical::reshape_groups::reshape_groups;
use ir::graph::{Graph, Op};
use ir::op::{ConvDims, DotDims, GatherDims, OpKind, ScatterDims, Window};
use ir::{AttentionDim, ValueId};

/// Links the dimensions of one op.
pub(super) fn op(graph: &Graph, op: &Op, classes: &mut Classes) {
    let shape = |v: ValueId| &graph.ty(v).shape[..];
    let x = op.operands.first().copied();
    let y = op.results.first().copied();
    match &op.kind {
        OpKind::Constant(_) | OpKind::Iota { .. } | OpKind::AxisIndex { .. } => {}
        OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare { .. }
        | OpKind::Select
        | OpKind::Clamp
        | OpKind::Convert
        | OpKind::ReducePrecision { .. }
        | OpKind::AllReduce { .. } => {
            for &operand in op.operands.iter().filter(|&&v| !shape(v).is_empty()) {
                classes.same_dims(operand, op.results[0]);
            }
        }
        OpKind::BitcastConvert => match (x, y) {
            (Some(x), Some(y)) if shape(x) == shape(y) => classes.same_dims(x, y),
            _ => pin_op(op, classes),
        },
        OpKind::Barrier => {
            for (&operand, &result) in op.operands.iter().zip(&op.results) {
                classes.same_dims(operand, result);
            }
        }
        OpKind::Broadcast { dims } => {
            let (x, y) = (op.operands[0], op.results[0]);
            for (i, &d) in dims.iter().enumerate() {
                if shape(x)[i] == shape(y)[d] {
                    classes.same((x, i), (y, d));
                }
            }
        }
        OpKind::Reshape => {
            let (x, y) = (op.operands[0], op.results[0]);
            for (from, to) in reshape_groups(shape(x), shape(y)) {
                match (&from[..], &to[..]) {
                    (&[a], &[b]) => classes.same((x, a), (y, b)),
                    _ => classes.product(x, &from, y, &to),
                }
            }
        }
        OpKind::Transpose { perm } => {
            for (i, &p) in perm.iter().enumerate() {
                classes.same((op.operands[0], p), (op.results[0], i));
            }
        }
        OpKind::Slice { start, limit, stride } => {
            let (x, y) = (op.operands[0], op.results[0]);
            for d in 0..start.len() {
                let (n, m) = (shape(x)[d], shape(y)[d]);
                if n == m {
                    classes.same((x, d), (y, d));
                } else if stride[d] == 1 {
                    classes.range((x, d), (y, d), gcd(gcd(start[d], limit[d]), n));
                } else if start[d] < stride[d] && m * stride[d] == n {
                    classes.strided((x, d), (y, d), stride[d]);
                }
            }
        }
        OpKind::Pad { low, high, interior } => {
            let (x, y) = (op.operands[0], op.results[0]);
            for d in 0..low.len() {
                let (n, m) = (shape(x)[d], shape(y)[d]);
                if low[d] == 0 && high[d] == 0 && n == m {
                    classes.same((x, d), (y, d));
                } else if low[d] >= 0 && high[d] >= 0 && interior[d] == 0 {
                    classes.range((y, d), (x, d), gcd(gcd(low[d] as u64, n), m));
                } else if low[d] >= 0 && high[d] >= 0 && n * (interior[d] + 1) == m {
                    classes.strided((y, d), (x, d), interior[d] + 1);
                }
            }
        }
        OpKind::Concatenate { dim } => {
            let y = op.results[0];
            let grain = op.operands.iter().fold(0, |g, &v| gcd(g, shape(v)[*dim]));
            for &x in &op.operands {
                for d in 0..shape(y).len() {
                    if d != *dim || shape(x)[d] == shape(y)[d] {
                        classes.same((x, d), (y, d));
                    } else {
                        classes.range((y, d), (x, d), grain);
                    }
                }
            }
        }
        OpKind::Reverse { .. } => classes.same_dims(op.operands[0], op.results[0]),
        OpKind::DynamicSlice { .. } => partial_dims(graph, op.operands[0], op.results[0], classes),
        OpKind::DynamicUpdateSlice => {
            partial_dims(graph, op.operands[0], op.operands[1], classes);
            classes.same_dims(op.operands[0], op.results[0]);
        }
        OpKind::Reduce { dims, .. } => {
            let n = op.results.len();
            for (&x, &y) in op.operands[..n].iter().zip(&op.results) {
                classes.same_dims(op.operands[0], x);
                let kept = (0..shape(x).len()).filter(|d| !dims.contains(d));
                for (i, d) in kept.enumerate() {
                    classes.same((x, d), (y, i));
                }
            }
        }
        OpKind::ReduceWindow { window, .. } => {
            let n = op.results.len();
            for (&x, &y) in op.operands[..n].iter().zip(&op.results) {
                classes.same_dims(op.operands[0], x);
                window_dims(window, x, y, classes);
            }
        }
        OpKind::SelectAndScatter { window } => {
            classes.same_dims(op.operands[0], op.results[0]);
            window_dims(window, op.operands[0], op.operands[1], classes);
        }
        OpKind::Dot(dims) => dot(graph, op, dims, classes),
        OpKind::Convolution(dims) => convolution(op, dims, classes),
        OpKind::Attention(a) => attention(op, &a.operand_dims(), &[a.o.clone(), a.lse()], classes),
        OpKind::AttentionGrad { attention: a, bias } => attention(op, &a.gradient_operand_dims(), &a.gradient_dims(*bias), classes),
        OpKind::Gather(dims) => gather(graph, op, dims, classes),
        OpKind::Scatter { dims, .. } => scatter(graph, op, dims, classes),
        OpKind::TopK { .. } => {
            let x = op.operands[0];
            let last = shape(x).len() - 1;
            for &y in &op.results {
                for d in 0..last {
                    classes.same((x, d), (y, d));
                }
                classes.pin(y, last);
            }
            classes.pin(x, last);
        }
        OpKind::Sort { dim, .. } => {
            for &v in op.operands.iter().chain(&op.results) {
                classes.same_dims(op.operands[0], v);
                classes.pin(v, *dim);
            }
        }
        OpKind::While
        | OpKind::If
        | OpKind::Case
        | OpKind::Call { .. }
        | OpKind::RngBitGenerator { .. }
        | OpKind::CustomCall { .. }
        | OpKind::AllGather { .. }
        | OpKind::ReduceScatter { .. }
        | OpKind::AllToAll { .. }
        | OpKind::ShardSlice { .. } => pin_op(op, classes),
    }
}

/// Whether a window does nothing along a dimension.
pub(super) fn trivial_window(window: &Window, d: usize) -> bool {
    window.size[d] == 1 && window.stride[d] == 1 && window.pad[d] == (0, 0) && window.base_dilation[d] == 1
}

fn pin_op(op: &Op, classes: &mut Classes) {
    for &v in op.operands.iter().chain(&op.results) {
        classes.pin_all(v);
    }
}

/// Dimensions that a part has whole correspond; the others are pinned.
fn partial_dims(graph: &Graph, whole: ValueId, part: ValueId, classes: &mut Classes) {
    for d in 0..graph.ty(whole).rank() {
        if graph.ty(whole).shape[d] == graph.ty(part).shape[d] {
            classes.same((whole, d), (part, d));
        } else {
            classes.pin(whole, d);
            classes.pin(part, d);
        }
    }
}

fn window_dims(window: &Window, x: ValueId, y: ValueId, classes: &mut Classes) {
    for d in 0..window.size.len() {
        if trivial_window(window, d) {
            classes.same((x, d), (y, d));
        } else {
            classes.pin(x, d);
            classes.pin(y, d);
        }
    }
}

fn dot(graph: &Graph, op: &Op, dims: &DotDims, classes: &mut Classes) {
    let (a, b, y) = (op.operands[0], op.operands[1], op.results[0]);
    for (i, (&l, &r)) in dims.lhs_batch.iter().zip(&dims.rhs_batch).enumerate() {
        classes.same((a, l), (b, r));
        classes.same((a, l), (y, i));
    }
    for (&l, &r) in dims.lhs_contract.iter().zip(&dims.rhs_contract) {
        classes.same((a, l), (b, r));
    }
    let free = dims.lhs_free(graph.ty(a).rank()).into_iter().map(|d| (a, d)).chain(dims.rhs_free(graph.ty(b).rank()).into_iter().map(|d| (b, d)));
    for (i, from) in free.enumerate() {
        classes.same(from, (y, dims.lhs_batch.len() + i));
    }
}

fn convolution(op: &Op, dims: &ConvDims, classes: &mut Classes) {
    pin_op(op, classes);
    let (x, kernel, y) = (op.operands[0], op.operands[1], op.results[0]);
    if dims.batch_groups == 1 {
        classes.same((x, dims.input_batch), (y, dims.output_batch));
    }
    if dims.feature_groups == 1 {
        classes.same((x, dims.input_feature), (kernel, dims.kernel_input));
    }
    classes.same((kernel, dims.kernel_output), (y, dims.output_feature));
}

/// Dimensions of one name correspond; batch dimensions may be taken in parts.
fn attention(op: &Op, operands: &[Vec<AttentionDim>], results: &[Vec<AttentionDim>], classes: &mut Classes) {
    let mut first: Vec<(AttentionDim, (ValueId, usize))> = vec![];
    for (&v, dims) in op.operands.iter().chain(&op.results).zip(operands.iter().chain(results)) {
        for (i, &d) in dims.iter().enumerate() {
            match first.iter().find(|f| f.0 == d) {
                Some(&(_, other)) => classes.same(other, (v, i)),
                None => first.push((d, (v, i))),
            }
            if !d.is_batch() {
                classes.pin(v, i);
            }
        }
    }
}

fn gather(graph: &Graph, op: &Op, dims: &GatherDims, classes: &mut Classes) {
    let (x, indices, y) = (op.operands[0], op.operands[1], op.results[0]);
    let rank = graph.ty(x).rank();
    let window: Vec<usize> = (0..rank).filter(|d| !dims.collapsed_slice_dims.contains(d) && !dims.operand_batching_dims.contains(d)).collect();
    for (&d, &offset) in window.iter().zip(&dims.offset_dims) {
        if dims.slice_sizes[d] == graph.ty(x).shape[d] && !dims.start_index_map.contains(&d) {
            classes.same((x, d), (y, offset));
        } else {
            classes.pin(x, d);
            classes.pin(y, offset);
        }
    }
    for &d in &dims.collapsed_slice_dims {
        classes.pin(x, d);
    }
    for (&d, &i) in dims.operand_batching_dims.iter().zip(&dims.start_indices_batching_dims) {
        classes.same((x, d), (indices, i));
    }
    let result_batch = (0..graph.ty(y).rank()).filter(|d| !dims.offset_dims.contains(d));
    for (i, d) in index_dims(graph, indices, dims.index_vector_dim).into_iter().zip(result_batch) {
        classes.same((indices, i), (y, d));
    }
    pin_vector(graph, indices, dims.index_vector_dim, classes);
}

fn scatter(graph: &Graph, op: &Op, dims: &ScatterDims, classes: &mut Classes) {
    let n = op.results.len();
    let (operands, indices, updates) = (&op.operands[..n], op.operands[n], &op.operands[n + 1..]);
    for ((&x, &u), &y) in operands.iter().zip(updates).zip(&op.results) {
        classes.same_dims(x, y);
        classes.same_dims(operands[0], x);
        let rank = graph.ty(x).rank();
        let window: Vec<usize> = (0..rank).filter(|d| !dims.inserted_window_dims.contains(d) && !dims.input_batching_dims.contains(d)).collect();
        for (&d, &w) in window.iter().zip(&dims.update_window_dims) {
            if graph.ty(x).shape[d] == graph.ty(u).shape[w] && !dims.scatter_dims_to_operand_dims.contains(&d) {
                classes.same((x, d), (u, w));
            } else {
                classes.pin(x, d);
                classes.pin(u, w);
            }
        }
        for &d in &dims.inserted_window_dims {
            classes.pin(x, d);
        }
        for (&d, &i) in dims.input_batching_dims.iter().zip(&dims.scatter_indices_batching_dims) {
            classes.same((x, d), (indices, i));
        }
        let update_batch = (0..graph.ty(u).rank()).filter(|d| !dims.update_window_dims.contains(d));
        for (i, d) in index_dims(graph, indices, dims.index_vector_dim).into_iter().zip(update_batch) {
            classes.same((indices, i), (u, d));
        }
    }
    pin_vector(graph, indices, dims.index_vector_dim, classes);
}

/// The dimensions of the indices but for the index vector.
fn index_dims(graph: &Graph, indices: ValueId, vector_dim: usize) -> Vec<usize> {
    (0..graph.ty(indices).rank()).filter(|&d| d != vector_dim).collect()
}

/// An index vector of several components is one dimension; one of a single component may be dropped.
fn pin_vector(graph: &Graph, indices: ValueId, vector_dim: usize, classes: &mut Classes) {
    if graph.ty(indices).shape.get(vector_dim).is_some_and(|&n| n != 1) {
        classes.pin(indices, vector_dim);
    }
}
