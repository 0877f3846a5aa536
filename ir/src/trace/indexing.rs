//! Lookups and their inverses: gather, scatter, the largest elements, sorting.

use super::Tensor;
use crate::dtype::TensorType;
use crate::graph::{Graph, LocInfo};
use crate::op::{Direction, GatherDims, OpKind, Reducer, ScatterDims};

impl Tensor {
    /// A gather: windows of this at the places that `indices` say, clamped.
    #[must_use]
    #[track_caller]
    pub fn gather(&self, indices: &Tensor, dims: GatherDims) -> Tensor {
        self.tracer().emit_one(OpKind::Gather(dims), &[self, indices], None)
    }
    /// A scatter: windows of `updates` combined into this at the places that `indices` say; those out of bounds are dropped.
    #[must_use]
    #[track_caller]
    pub fn scatter(&self, indices: &Tensor, updates: &Tensor, dims: ScatterDims, reducer: Reducer) -> Tensor {
        self.tracer().emit_one(OpKind::Scatter { dims, reducer }, &[self, indices, updates], None)
    }
    /// Rows of this table: for indices of shape `[a, b]` and a table `[n, h]` a tensor `[a, b, h]`. Indices out of range are clamped.
    #[must_use]
    #[track_caller]
    pub fn embed(&self, indices: &Tensor) -> Tensor {
        let rank = indices.rank();
        let column = indices.reshape([indices.shape(), &[1]].concat());
        let mut slice_sizes = self.shape().to_vec();
        if let Some(first) = slice_sizes.first_mut() {
            *first = 1;
        }
        let dims = GatherDims {
            offset_dims: (rank..rank + self.rank().saturating_sub(1)).collect(),
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            index_vector_dim: rank,
            slice_sizes,
            ..GatherDims::default()
        };
        self.gather(&column, dims)
    }
    /// For every index of `indices`, of shape `[…]`, whether the position along a new last dimension of `n` is that index.
    #[must_use]
    #[track_caller]
    pub fn one_hot(indices: &Tensor, n: u64) -> Tensor {
        let shape = [indices.shape(), &[n]].concat();
        let positions = indices.tracer().iota(indices.dtype(), shape.clone(), indices.rank());
        positions.equal(&indices.broadcast_in_dim(shape, &(0..indices.rank()).collect::<Vec<_>>()))
    }
    /// The element of the last dimension that `indices` say; they have the shape of the other dimensions.
    ///
    /// It is a comparison and a sum, which can be fused and sharded over the last dimension; an index out of range gives zero.
    #[must_use]
    #[track_caller]
    pub fn pick_last(&self, indices: &Tensor) -> Tensor {
        let chosen = Tensor::one_hot(indices, self.dim(-1));
        chosen.select(self, &self.zeros_like()).sum(&[-1])
    }
    /// The `k` largest along the last dimension, descending, and their indices.
    #[must_use]
    #[track_caller]
    pub fn top_k(&self, k: u64) -> (Tensor, Tensor) {
        let mut shape = self.shape().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = k;
        }
        let fallback = vec![TensorType::new(self.dtype(), shape.clone()), TensorType::new(crate::DType::I32, shape)];
        let mut results = self.tracer().emit(OpKind::TopK { k }, &[self], Some(fallback), Vec::new());
        let indices = results.swap_remove(1);
        (results.swap_remove(0), indices)
    }
    /// Sorted along a dimension, together with other tensors of its shape that are permuted alike.
    #[must_use]
    #[track_caller]
    pub fn sort(&self, others: &[&Tensor], dim: i64, descending: bool) -> Vec<Tensor> {
        let operands: Vec<&Tensor> = std::iter::once(self).chain(others.iter().copied()).collect();
        let direction = if descending { Direction::Gt } else { Direction::Lt };
        let comparison = comparison(&operands.iter().map(|t| t.ty()).collect::<Vec<_>>(), direction);
        let types = operands.iter().map(|t| t.ty().clone()).collect();
        self.tracer().emit(OpKind::Sort { dim: self.axis(dim), stable: true }, &operands, Some(types), vec![comparison])
    }
}

/// A region that compares the first operand's elements.
fn comparison(types: &[&TensorType], direction: Direction) -> Graph {
    let mut graph = Graph::new("");
    let loc = graph.add_loc(LocInfo::default());
    for ty in types {
        for _ in 0..2 {
            graph.add_input(TensorType::scalar(ty.dtype), "");
        }
    }
    let pair = graph.inputs[..2].to_vec();
    let result = graph.add(OpKind::Compare { direction, total: false }, pair, TensorType::scalar(crate::DType::I1), loc);
    graph.outputs.push(result);
    graph
}
