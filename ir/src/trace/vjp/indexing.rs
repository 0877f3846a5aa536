//! Derivatives of lookups: a gather's is a scatter and the other way round.
//!
//! A gather clamps its indices and a scatter drops what is out of bounds, so the indices of a gather are clamped before they are scattered to, and what
//! is gathered for a scatter is masked.

use super::{Pulled, Site};
use crate::dtype::{DType, TensorType};
use crate::literal::{Literal, encode};
use crate::op::{GatherDims, OpKind, Reducer, ScatterDims};
use crate::trace::Tensor;

/// The greatest index that every component of an index may have, as a tensor of the indices' shape.
fn greatest(indices: &Tensor, vector_dim: usize, limits: &[u64]) -> Tensor {
    let dtype = indices.dtype();
    let most = if dtype.is_unsigned() { dtype.bits() } else { dtype.bits() - 1 };
    let representable = |n: u64| n.min(if most >= 64 { u64::MAX } else { (1 << most) - 1 }) as f64;
    if let [one] = limits {
        return indices.full_like(representable(*one));
    }
    let ty = TensorType::new(dtype, [limits.len() as u64]);
    let bytes = limits.iter().flat_map(|&n| encode(dtype, representable(n))).collect();
    let literal = Literal::dense(ty.clone(), bytes).unwrap_or_else(|| Literal::splat(ty, 0.0));
    indices.tracer().constant(literal).broadcast_in_dim(indices.shape(), &[vector_dim])
}

/// What an index of each operand dimension may be at most, for windows of these sizes.
fn limits(operand: &Tensor, map: &[usize], sizes: &[u64]) -> Vec<u64> {
    map.iter().map(|&d| operand.shape()[d] - sizes[d]).collect()
}

pub(super) fn gather(site: &Site<'_>, ct: &Tensor, dims: &GatherDims) -> Vec<Option<Tensor>> {
    let (x, indices) = (&site.operands[0], &site.operands[1]);
    let limit = greatest(indices, dims.index_vector_dim, &limits(x, &dims.start_index_map, &dims.slice_sizes));
    let clamped = indices.clamp_between(&indices.zeros_like(), &limit);
    let scatter = ScatterDims {
        update_window_dims: dims.offset_dims.clone(),
        inserted_window_dims: dims.collapsed_slice_dims.clone(),
        input_batching_dims: dims.operand_batching_dims.clone(),
        scatter_indices_batching_dims: dims.start_indices_batching_dims.clone(),
        scatter_dims_to_operand_dims: dims.start_index_map.clone(),
        index_vector_dim: dims.index_vector_dim,
        indices_are_sorted: dims.indices_are_sorted,
        unique_indices: false,
    };
    vec![Some(x.zeros_like().scatter(&clamped, ct, scatter, Reducer::Add)), None]
}

/// A scatter's indices, and how its windows are read again.
struct Windows<'a> {
    indices: &'a Tensor,
    dims: &'a ScatterDims,
    gather: GatherDims,
    /// Sizes of the windows, per operand dimension.
    sizes: Vec<u64>,
}

impl<'a> Windows<'a> {
    fn new(operand: &Tensor, indices: &'a Tensor, updates: &Tensor, dims: &'a ScatterDims) -> Windows<'a> {
        let dropped = |d: &usize| dims.inserted_window_dims.contains(d) || dims.input_batching_dims.contains(d);
        let mut window = dims.update_window_dims.iter().map(|&u| updates.shape()[u]);
        // A window of an empty operand is empty.
        let sizes: Vec<u64> = (0..operand.rank()).map(|d| if dropped(&d) { 1.min(operand.shape()[d]) } else { window.next().unwrap_or(1) }).collect();
        let gather = GatherDims {
            offset_dims: dims.update_window_dims.clone(),
            collapsed_slice_dims: dims.inserted_window_dims.clone(),
            operand_batching_dims: dims.input_batching_dims.clone(),
            start_indices_batching_dims: dims.scatter_indices_batching_dims.clone(),
            start_index_map: dims.scatter_dims_to_operand_dims.clone(),
            index_vector_dim: dims.index_vector_dim,
            slice_sizes: sizes.clone(),
            indices_are_sorted: dims.indices_are_sorted,
        };
        Windows { indices, dims, gather, sizes }
    }
    fn read(&self, from: &Tensor) -> Tensor {
        from.gather(self.indices, self.gather.clone())
    }
    fn write(&self, onto: &Tensor, updates: &Tensor, reducer: Reducer) -> Tensor {
        onto.scatter(self.indices, updates, self.dims.clone(), reducer)
    }
    /// For every update whether its window is inside the operand.
    fn inside(&self, operand: &Tensor, updates: &Tensor) -> Tensor {
        let vector_dim = self.dims.index_vector_dim;
        let limit = greatest(self.indices, vector_dim, &limits(operand, &self.dims.scatter_dims_to_operand_dims, &self.sizes));
        let each = self.indices.greater_equal(&self.indices.zeros_like()).and(&self.indices.less_equal(&limit));
        let all = if vector_dim < each.rank() { each.reduce(Reducer::And, &[vector_dim as i64]) } else { each };
        let places: Vec<usize> = (0..updates.rank()).filter(|d| !self.dims.update_window_dims.contains(d)).collect();
        all.broadcast_in_dim(updates.shape(), &places)
    }
}

pub(super) fn scatter(site: &Site<'_>, dims: &ScatterDims, reducer: Reducer) -> Pulled {
    let n = site.results.len();
    let indices = &site.operands[n];
    let mut pulled = vec![None; site.operands.len()];
    for (i, ct) in site.cotangents.iter().enumerate() {
        let Some(ct) = ct else { continue };
        let (x, updates, y) = (&site.operands[i], &site.operands[n + 1 + i], &site.results[i]);
        let (for_x, for_updates) = (site.wanted[i], site.wanted[n + 1 + i]);
        let windows = Windows::new(x, indices, updates, dims);
        let masked = |t: Tensor| windows.inside(x, updates).select(&t, &t.zeros_like());
        match reducer {
            Reducer::Add => {
                pulled[i] = Some(ct.clone());
                pulled[n + 1 + i] = for_updates.then(|| masked(windows.read(ct)));
            }
            Reducer::Replace => {
                // Each update has a number; where it is read again, the update was not replaced by a later one.
                let count = updates.ty().elements();
                let numbers = (ct.tracer().iota(DType::I32, [count], 0) + 1.0).reshape(updates.shape());
                let written = windows.write(&ct.tracer().full(DType::I32, x.shape(), 0.0), &numbers, Reducer::Replace);
                pulled[i] = for_x.then(|| written.equal(&written.zeros_like()).select(ct, &ct.zeros_like()));
                pulled[n + 1 + i] = for_updates.then(|| {
                    let found = windows.read(ct);
                    windows.read(&written).equal(&numbers).select(&found, &found.zeros_like())
                });
            }
            Reducer::Mul => {
                pulled[i] = for_x.then(|| ct * windows.write(&x.full_like(1.0), updates, Reducer::Mul));
                if for_updates && !dims.unique_indices {
                    return Err("its updates may meet in one place, and are multiplied".into());
                }
                pulled[n + 1 + i] = for_updates.then(|| masked(windows.read(&(ct * x))));
            }
            Reducer::Max | Reducer::Min => {
                // The operand first; updates that are equally great share.
                let kept = x.equal(y);
                let zero = ct.zeros_like();
                pulled[i] = for_x.then(|| kept.select(ct, &zero));
                pulled[n + 1 + i] = for_updates.then(|| {
                    let left = kept.select(&zero, ct);
                    let taken = updates.equal(&windows.read(y)).and(&windows.inside(x, updates));
                    let count = windows.write(&zero, &taken.convert(ct.dtype()), Reducer::Add).maximum(&ct.full_like(1.0));
                    let share = windows.read(&(left / count));
                    taken.select(&share, &share.zeros_like())
                });
            }
            Reducer::And | Reducer::Or | Reducer::Xor => {}
            Reducer::General => return Err("its combining function is a general one".into()),
        }
    }
    Ok(pulled)
}

/// Adds `ct` to zeros of the type of `x` at `indices` along `dim`; all other dimensions correspond.
fn put_along(x: &Tensor, indices: &Tensor, ct: &Tensor, dim: usize) -> Tensor {
    let others: Vec<usize> = (0..x.rank()).filter(|&d| d != dim).collect();
    let dims = ScatterDims {
        update_window_dims: vec![],
        inserted_window_dims: vec![dim],
        input_batching_dims: others.clone(),
        scatter_indices_batching_dims: others,
        scatter_dims_to_operand_dims: vec![dim],
        index_vector_dim: x.rank(),
        indices_are_sorted: false,
        unique_indices: true,
    };
    let column = indices.reshape([indices.shape(), &[1]].concat());
    x.zeros_like().scatter(&column, ct, dims, Reducer::Add)
}

pub(super) fn top_k(site: &Site<'_>, ct: &Tensor) -> Vec<Option<Tensor>> {
    let x = &site.operands[0];
    vec![Some(put_along(x, &site.results[1], ct, x.rank() - 1))]
}

/// Positions are sorted along with the operands, by the same comparison, and say where each element came from.
pub(super) fn sort(site: &Site<'_>, dim: usize, stable: bool) -> Pulled {
    let (Some(region), Some(first)) = (site.regions.first(), site.operands.first()) else { return Err("it compares nothing".into()) };
    let mut comparison = region.clone();
    for _ in 0..2 {
        comparison.add_input(TensorType::scalar(DType::I32), "");
    }
    let positions = first.tracer().iota(DType::I32, first.shape(), dim);
    let operands: Vec<&Tensor> = site.operands.iter().chain([&positions]).collect();
    let types = operands.iter().map(|t| t.ty().clone()).collect();
    let sorted = first.tracer().emit(OpKind::Sort { dim, stable }, &operands, Some(types), vec![comparison]);
    let Some(origin) = sorted.last() else { return Err("it has no results".into()) };
    Ok(site.operands.iter().zip(site.cotangents).map(|(x, ct)| ct.as_ref().map(|ct| put_along(x, origin, ct, dim))).collect())
}
