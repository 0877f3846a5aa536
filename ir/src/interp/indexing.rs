//! Gather and scatter, by their definition: for every index vector a window of the operand, copied or combined.
//!
//! Windows are walked by precomputed relative offsets. A gather's starts are clamped so that the window stays inside;
//! a scatter's window that is not wholly inside is dropped, as XLA does it.

use super::movement;
use super::product::offsets;
use super::tensor::{Tensor, remake};
use crate::dtype::{TensorType, row_major_strides};
use crate::op::{GatherDims, ScatterDims};

/// The index vectors of a gather or scatter: their batch shape and, per component, its value for every batch position.
struct Starts {
    batch: Vec<u64>,
    components: Vec<Vec<i64>>,
}

impl Starts {
    fn new(indices: &Tensor, vector_dim: usize) -> Starts {
        let values = indices.to_i64s();
        let shape = &indices.ty.shape;
        if vector_dim == shape.len() {
            return Starts { batch: shape.clone(), components: vec![values] };
        }
        let inner: usize = shape[vector_dim + 1..].iter().map(|&n| n as usize).product();
        let size = shape[vector_dim] as usize;
        let component = |c: usize| values.chunks(inner.max(1) * size.max(1)).flat_map(|block| &block[c * inner..(c + 1) * inner]).copied().collect();
        let mut batch = shape.clone();
        batch.remove(vector_dim);
        Starts { batch, components: (0..size).map(component).collect() }
    }
    fn len(&self) -> usize {
        self.batch.iter().map(|&n| n as usize).product()
    }
    /// The coordinate of batch position `i` along each batch dimension.
    fn coordinates(&self, i: usize) -> Vec<u64> {
        row_major_strides(&self.batch).iter().zip(&self.batch).map(|(&s, &n)| i as u64 / s % n.max(1)).collect()
    }
}

/// The position, among the batch dimensions, of a dimension of the indices.
fn batch_position(dim: usize, vector_dim: usize) -> usize {
    if dim > vector_dim { dim - 1 } else { dim }
}

/// Sizes with strides of some dimensions of a row-major shape.
fn window_offsets(shape: &[u64], dims: &[usize], sizes: &[u64]) -> Vec<usize> {
    let strides = row_major_strides(shape);
    let list: Vec<(usize, usize)> = dims.iter().zip(sizes).map(|(&d, &n)| (n as usize, strides[d] as usize)).collect();
    offsets(&list)
}

/// How index vectors address an operand.
struct Addressing<'a> {
    operand: &'a [u64],
    /// The operand dimension of each component.
    map: &'a [usize],
    /// Batching dimensions of the operand, and of the indices.
    batching: (&'a [usize], &'a [usize]),
    vector_dim: usize,
    /// Window sizes per operand dimension.
    sizes: &'a [u64],
    /// Whether windows are moved inside; otherwise those that are not inside are dropped.
    clamp: bool,
    unsigned: bool,
}

impl Addressing<'_> {
    /// Where each window begins in the operand, by batch position; `None` for windows that are dropped.
    fn bases(&self, starts: &Starts) -> Vec<Option<usize>> {
        let strides = row_major_strides(self.operand);
        let batch_of: Vec<(usize, usize)> = self.batching.0.iter().zip(self.batching.1).map(|(&o, &i)| (o, batch_position(i, self.vector_dim))).collect();
        let base = |i: usize| {
            let mut at = 0;
            for (component, &d) in starts.components.iter().zip(self.map) {
                let last = self.operand[d] as i64 - self.sizes[d] as i64;
                let start = if self.unsigned && component[i] < 0 { i64::MAX } else { component[i] };
                if self.clamp {
                    at += start.clamp(0, last.max(0)) as u64 * strides[d];
                } else if (0..=last).contains(&start) {
                    at += start as u64 * strides[d];
                } else {
                    return None;
                }
            }
            if !batch_of.is_empty() {
                let coordinates = starts.coordinates(i);
                at += batch_of.iter().map(|&(d, position)| coordinates[position] * strides[d]).sum::<u64>();
            }
            Some(at as usize)
        };
        (0..starts.len()).map(base).collect()
    }
}

/// `gather`.
pub(crate) fn gather(x: &Tensor, indices: &Tensor, g: &GatherDims, ty: TensorType) -> Tensor {
    if x.is_splat() || ty.elements() == 0 {
        let same = Tensor::new(x.ty.with_shape(&[1]), remake!(&x.buffer, v => v.iter().take(1).copied().collect()));
        return movement::broadcast(&same, ty, &[0]);
    }
    let starts = Starts::new(indices, g.index_vector_dim);
    let kept: Vec<usize> = (0..x.ty.rank()).filter(|d| !g.collapsed_slice_dims.contains(d) && !g.operand_batching_dims.contains(d)).collect();
    let sizes: Vec<u64> = kept.iter().map(|&d| g.slice_sizes[d]).collect();
    let from = window_offsets(&x.ty.shape, &kept, &sizes);
    let to = window_offsets(&ty.shape, &g.offset_dims, &sizes);
    let addressing = Addressing {
        operand: &x.ty.shape,
        map: &g.start_index_map,
        batching: (&g.operand_batching_dims, &g.start_indices_batching_dims),
        vector_dim: g.index_vector_dim,
        sizes: &g.slice_sizes,
        clamp: true,
        unsigned: indices.ty.dtype.is_unsigned(),
    };
    let bases = addressing.bases(&starts);
    let result_batch: Vec<usize> = (0..ty.rank()).filter(|d| !g.offset_dims.contains(d)).collect();
    let places = window_offsets(&ty.shape, &result_batch, &starts.batch);
    let run = |o: &[usize]| o.iter().enumerate().all(|(i, &x)| i == x);
    let contiguous = run(&from) && run(&to);
    let n = ty.elements() as usize;
    let buffer = remake!(&x.buffer, v => {
        let mut out = vec![Default::default(); n];
        for (base, place) in bases.iter().zip(&places) {
            let Some(base) = *base else { continue };
            if contiguous {
                out[*place..*place + from.len()].copy_from_slice(&v[base..base + from.len()]);
            } else {
                for (f, t) in from.iter().zip(&to) {
                    out[place + t] = v[base + f];
                }
            }
        }
        out
    });
    Tensor::new(ty, buffer)
}

/// Where the elements of a scatter's updates go: for each, its place in the updates and in the operand, in order; dropped windows are left out.
pub(crate) fn scatter_places(operand: &TensorType, indices: &Tensor, updates: &TensorType, s: &ScatterDims) -> (Vec<usize>, Vec<usize>) {
    let starts = Starts::new(indices, s.index_vector_dim);
    let kept: Vec<usize> = (0..operand.rank()).filter(|d| !s.inserted_window_dims.contains(d) && !s.input_batching_dims.contains(d)).collect();
    let sizes: Vec<u64> = s.update_window_dims.iter().map(|&d| updates.shape[d]).collect();
    let mut window = vec![1; operand.rank()];
    for (&d, &n) in kept.iter().zip(&sizes) {
        window[d] = n;
    }
    let to = window_offsets(&operand.shape, &kept, &sizes);
    let from = window_offsets(&updates.shape, &s.update_window_dims, &sizes);
    let addressing = Addressing {
        operand: &operand.shape,
        map: &s.scatter_dims_to_operand_dims,
        batching: (&s.input_batching_dims, &s.scatter_indices_batching_dims),
        vector_dim: s.index_vector_dim,
        sizes: &window,
        clamp: false,
        unsigned: indices.ty.dtype.is_unsigned(),
    };
    let bases = addressing.bases(&starts);
    let scatter_dims: Vec<usize> = (0..updates.rank()).filter(|d| !s.update_window_dims.contains(d)).collect();
    let places = window_offsets(&updates.shape, &scatter_dims, &starts.batch);
    let mut pairs = (Vec::with_capacity(updates.elements() as usize), Vec::with_capacity(updates.elements() as usize));
    for (base, place) in bases.iter().zip(&places) {
        let Some(base) = *base else { continue };
        pairs.0.extend(from.iter().map(|f| place + f));
        pairs.1.extend(to.iter().map(|t| base + t));
    }
    pairs
}

/// The elements of `x` at `places`, in that order.
pub(crate) fn take(x: &Tensor, places: &[usize]) -> Tensor {
    let ty = x.ty.with_shape(&[places.len() as u64]);
    if x.is_splat() {
        return Tensor::new(ty, x.buffer.clone());
    }
    let buffer = remake!(&x.buffer, v => places.iter().map(|&p| v[p]).collect());
    Tensor::new(ty, buffer)
}

#[cfg(test)]
mod tests {
    use super::super::reduction::fold_at;
    use super::*;
    use crate::dtype::DType;
    use crate::op::Reducer;

    fn t(shape: &[u64], n: i32) -> Tensor {
        Tensor::from_f32s(shape, (0..n).map(|x| x as f32).collect()).unwrap()
    }
    fn ints(shape: &[u64], v: &[i64]) -> Tensor {
        Tensor::from_i64s(TensorType::new(DType::I32, shape), v).unwrap()
    }
    fn ty(shape: &[u64]) -> TensorType {
        TensorType::new(DType::F32, shape)
    }

    #[test]
    fn rows_of_a_table_with_clamped_indices() {
        let g = GatherDims {
            offset_dims: vec![1],
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            index_vector_dim: 1,
            slice_sizes: vec![1, 2],
            ..GatherDims::default()
        };
        let y = gather(&t(&[3, 2], 6), &ints(&[4, 1], &[2, 0, 7, -3]), &g, ty(&[4, 2]));
        assert_eq!(y.to_f64s(), [4., 5., 0., 1., 4., 5., 0., 1.]);
    }

    #[test]
    fn windows_and_index_vectors() {
        // Windows of 2x1 at (row, column), the window dimension first in the result.
        let g = GatherDims {
            offset_dims: vec![0],
            collapsed_slice_dims: vec![1],
            start_index_map: vec![1, 0],
            index_vector_dim: 0,
            slice_sizes: vec![2, 1],
            ..GatherDims::default()
        };
        // Index vectors are (column, row): (3, 0), (1, 1).
        let y = gather(&t(&[3, 4], 12), &ints(&[2, 2], &[3, 1, 0, 1]), &g, ty(&[2, 2]));
        assert_eq!(y.to_f64s(), [3., 5., 7., 9.]);
    }

    #[test]
    fn batching_dimensions_choose_per_row() {
        let g = GatherDims {
            collapsed_slice_dims: vec![1],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            start_index_map: vec![1],
            index_vector_dim: 2,
            slice_sizes: vec![1, 1],
            ..GatherDims::default()
        };
        let y = gather(&t(&[2, 3], 6), &ints(&[2, 1, 1], &[2, 1]), &g, ty(&[2, 1]));
        assert_eq!(y.to_f64s(), [2., 4.]);
    }

    #[test]
    fn scatter_drops_what_is_outside() {
        let s = ScatterDims {
            update_window_dims: vec![1],
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            ..ScatterDims::default()
        };
        let updates = t(&[4, 2], 8);
        let (from, to) = scatter_places(&ty(&[3, 2]), &ints(&[4, 1], &[2, 0, 3, 2]), &updates.ty, &s);
        assert_eq!(from, [0, 1, 2, 3, 6, 7]);
        assert_eq!(to, [4, 5, 0, 1, 4, 5]);
        let mut into = Tensor::zeros(ty(&[3, 2])).dense();
        fold_at(Reducer::Add, DType::F32, &mut into.buffer, &to, &take(&updates, &from).buffer).unwrap();
        assert_eq!(into.to_f64s(), [2., 3., 0., 0., 6., 8.]);
    }
}
