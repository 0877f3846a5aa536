//! Turns gathers and scatters along one dimension into comparisons, selections and sums.
//!
//! `take_along_axis` reads one element of each row, and its derivative writes one. As `gather` and `scatter` they can be neither fused nor sharded over the
//! row. As `sum(select(iota == index, x, 0))` and `select(iota == index, update, 0)` they are elementwise ops and a sum: cross entropy is then sharded over
//! the vocabulary like any reduction. Indices out of bounds are clamped by a gather and dropped by a scatter, as before. The rewrite is taken where every
//! other dimension is a batching dimension and the comparison is not much larger than the operand; a lookup of whole rows stays a gather.
//! The result is exact, but that a gathered −0 becomes +0.

use super::fold::{Folder, sweep};
use super::rewrite::Rewriter;
use ir::graph::{Graph, Op};
use ir::op::{BinaryOp, Direction, GatherDims, OpKind, Reducer, ScatterDims};
use ir::{DType, TensorType, ValueId};

/// How many times larger than the operand the comparison may be.
const MAX_GROWTH: u64 = 4;

/// The graph with one-dimensional gathers and scatters rewritten.
pub fn run(graph: &Graph) -> Graph {
    let mut folder = Folder::new(Rewriter::new(graph));
    for (id, op) in graph.ops.iter() {
        folder.rewriter.at(id);
        let new = match &op.kind {
            OpKind::Gather(dims) => gather(&mut folder, graph, op, dims),
            OpKind::Scatter { dims, reducer } if op.operands.len() == 3 => scatter(&mut folder, graph, op, dims, *reducer),
            _ => None,
        };
        match new {
            Some(new) => folder.rewriter.replace(op.results[0], new),
            None => folder.rewriter.copy(id),
        }
    }
    sweep(&folder.rewriter.finish())
}

/// The roles of the dimensions of the indices: which operand dimension each follows, in the order of the result without the index vector.
struct Rows {
    /// The indexed dimension of the operand.
    dim: usize,
    /// For every dimension of the indices but the index vector, the operand dimension that it is batched with.
    batched: Vec<Option<usize>>,
}

/// The roles, if exactly one operand dimension is indexed, one element at a time, and all others are batching dimensions.
fn rows(operand: &TensorType, indices: &TensorType, map: &[usize], operand_batch: &[usize], index_batch: &[usize], vector_dim: usize) -> Option<Rows> {
    let [dim] = map else { return None };
    let others = (0..operand.rank()).filter(|d| d != dim).all(|d| operand_batch.contains(&d));
    let limit = match indices.dtype {
        DType::I32 | DType::UI32 | DType::I64 | DType::UI64 => u64::from(u32::MAX >> 1),
        _ => return None,
    };
    if !others || operand.shape[*dim] == 0 || operand.shape[*dim] > limit || indices.shape.get(vector_dim).is_some_and(|&n| n != 1) {
        return None;
    }
    let batched: Vec<Option<usize>> =
        (0..indices.rank()).filter(|&d| d != vector_dim).map(|d| index_batch.iter().position(|&b| b == d).map(|i| operand_batch[i])).collect();
    let extra: u64 = (0..indices.rank()).filter(|&d| d != vector_dim && !index_batch.contains(&d)).map(|d| indices.shape[d]).product();
    (extra <= MAX_GROWTH).then_some(Rows { dim: *dim, batched })
}

/// The indices without their index vector.
fn flat_indices(f: &mut Folder<'_>, indices: ValueId, vector_dim: usize) -> ValueId {
    let mut ty = f.ty(indices).clone();
    if vector_dim < ty.rank() {
        ty.shape.remove(vector_dim);
    }
    f.emit(OpKind::Reshape, vec![indices], ty)
}

fn gather(f: &mut Folder<'_>, graph: &Graph, op: &Op, dims: &GatherDims) -> Option<ValueId> {
    let (operand, indices) = (graph.ty(op.operands[0]).clone(), graph.ty(op.operands[1]).clone());
    if !dims.offset_dims.is_empty() || dims.slice_sizes.iter().any(|&n| n != 1) {
        return None;
    }
    let rows = rows(&operand, &indices, &dims.start_index_map, &dims.operand_batching_dims, &dims.start_indices_batching_dims, dims.index_vector_dim)?;
    let result = graph.ty(op.results[0]).clone();
    // The comparison has the result's dimensions and, last, the row.
    let row = result.rank();
    let mut full = result.clone();
    full.shape.push(operand.shape[rows.dim]);
    let index = f.rewriter.value(op.operands[1]);
    let index = flat_indices(f, index, dims.index_vector_dim);
    let index_ty = f.ty(index).clone();
    let last = f.rewriter.splat(index_ty.clone(), (operand.shape[rows.dim] - 1) as f64);
    let zero = f.rewriter.splat(index_ty.clone(), 0.0);
    let index = f.emit(OpKind::Binary(BinaryOp::Minimum), vec![index, last], index_ty.clone());
    let index = f.emit(OpKind::Binary(BinaryOp::Maximum), vec![index, zero], index_ty);
    let chosen = compare(f, index, (0..row).collect(), row, &full);
    let spread =
        (0..operand.rank()).map(|d| if d == rows.dim { Some(row) } else { rows.batched.iter().position(|&b| b == Some(d)) }).collect::<Option<Vec<usize>>>()?;
    let operand = f.rewriter.value(op.operands[0]);
    let x = f.emit(OpKind::Broadcast { dims: spread }, vec![operand], full.clone());
    let zeros = f.rewriter.splat(full.clone(), 0.0);
    let picked = f.emit(OpKind::Select, vec![chosen, x, zeros], full);
    let init = f.rewriter.splat(TensorType::scalar(result.dtype), 0.0);
    Some(f.emit(OpKind::Reduce { dims: vec![row], reducer: Reducer::Add }, vec![picked, init], result))
}

fn scatter(f: &mut Folder<'_>, graph: &Graph, op: &Op, dims: &ScatterDims, reducer: Reducer) -> Option<ValueId> {
    let (operand, indices, updates) = (graph.ty(op.operands[0]).clone(), graph.ty(op.operands[1]).clone(), graph.ty(op.operands[2]).clone());
    if !dims.update_window_dims.is_empty() || dims.inserted_window_dims.len() != 1 || reducer != Reducer::Add {
        return None;
    }
    let rows =
        rows(&operand, &indices, &dims.scatter_dims_to_operand_dims, &dims.input_batching_dims, &dims.scatter_indices_batching_dims, dims.index_vector_dim)?;
    // The comparison has the operand's dimensions and, last, those of the indices that are no batching dimensions.
    let mut full = operand.clone();
    let mut extra = Vec::new();
    let spread: Vec<usize> = rows
        .batched
        .iter()
        .enumerate()
        .map(|(i, batched)| {
            batched.unwrap_or_else(|| {
                full.shape.push(updates.shape[i]);
                extra.push(full.rank() - 1);
                full.rank() - 1
            })
        })
        .collect();
    let index = f.rewriter.value(op.operands[1]);
    let index = flat_indices(f, index, dims.index_vector_dim);
    let chosen = compare(f, index, spread.clone(), rows.dim, &full);
    let update = f.rewriter.value(op.operands[2]);
    let update = f.emit(OpKind::Broadcast { dims: spread }, vec![update], full.clone());
    let zeros = f.rewriter.splat(full.clone(), 0.0);
    let placed = f.emit(OpKind::Select, vec![chosen, update, zeros], full);
    let init = f.rewriter.splat(TensorType::scalar(operand.dtype), 0.0);
    let sum = if extra.is_empty() { placed } else { f.emit(OpKind::Reduce { dims: extra, reducer: Reducer::Add }, vec![placed, init], operand.clone()) };
    let base = f.rewriter.value(op.operands[0]);
    if f.splat(base) == Some(0.0) { Some(sum) } else { Some(f.emit(OpKind::Binary(BinaryOp::Add), vec![base, sum], operand)) }
}

/// Whether the index (spread over `dims` of the shape `full`) is the position along `row`.
fn compare(f: &mut Folder<'_>, index: ValueId, dims: Vec<usize>, row: usize, full: &TensorType) -> ValueId {
    let ty = full.with_dtype(f.ty(index).dtype);
    let index = f.emit(OpKind::Broadcast { dims }, vec![index], ty.clone());
    let position = f.emit(OpKind::Iota { dim: row }, vec![], ty);
    f.emit(OpKind::Compare { direction: Direction::Eq, total: false }, vec![index, position], full.with_dtype(DType::I1))
}
