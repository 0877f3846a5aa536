//! Operations that move elements and compute nothing: broadcast, transpose, slices, padding, concatenation.
//!
//! All of them are one of two loops: [`gather_strided`] reads a strided box of the source in row-major order, [`scatter_strided`] writes a row-major
//! source into a strided box of the destination. Adjacent dimensions that are one run in memory are merged first, so the inner loops are long.
//! Splats stay splats wherever the result repeats the same element.

use super::tensor::{Buffer, Class, Element, Tensor, remake, remake2, settle};
use crate::dtype::{TensorType, row_major_strides};
use crate::op::OpKind;
use std::sync::Arc;

/// A box in memory: for every dimension its size and its stride in elements, outermost first.
struct Strided {
    offset: i64,
    dims: Vec<(usize, i64)>,
}

impl Strided {
    fn new(offset: i64, shape: &[u64], strides: &[i64]) -> Strided {
        let mut dims: Vec<(usize, i64)> = Vec::with_capacity(shape.len());
        for (&n, &stride) in shape.iter().zip(strides).filter(|(n, _)| **n != 1) {
            match dims.last_mut() {
                Some((size, outer)) if *outer == stride * n as i64 => {
                    *size *= n as usize;
                    *outer = stride;
                }
                _ => dims.push((n as usize, stride)),
            }
        }
        if dims.is_empty() {
            dims.push((1, 1));
        }
        Strided { offset, dims }
    }
    fn elements(&self) -> usize {
        self.dims.iter().map(|d| d.0).product()
    }
    /// Calls `f` with the memory offset of every innermost row, in row-major order.
    fn rows(&self, mut f: impl FnMut(i64)) {
        if self.elements() == 0 {
            return;
        }
        let outer = &self.dims[..self.dims.len() - 1];
        let mut index = vec![0usize; outer.len()];
        let mut at = self.offset;
        loop {
            f(at);
            let mut d = outer.len();
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                index[d] += 1;
                at += outer[d].1;
                if index[d] < outer[d].0 {
                    break;
                }
                at -= outer[d].1 * outer[d].0 as i64;
                index[d] = 0;
            }
        }
    }
    fn inner(&self) -> (usize, i64) {
        self.dims[self.dims.len() - 1]
    }
}

/// The elements of a strided box of `source`, row-major.
fn gather_strided<T: Element>(source: &[T], strided: &Strided) -> Vec<T> {
    let (run, stride) = strided.inner();
    if let Some(out) = transposed(source, strided) {
        return out;
    }
    let mut out = Vec::with_capacity(strided.elements());
    strided.rows(|at| {
        let at = at as usize;
        match stride {
            1 => out.extend_from_slice(&source[at..at + run]),
            0 => out.resize(out.len() + run, source[at]),
            _ => out.extend((0..run as i64).map(|i| source[(at as i64 + i * stride) as usize])),
        }
    });
    out
}

/// The case where the contiguous dimension of the source is not the innermost of the result, in square blocks that fit the cache.
fn transposed<T: Element>(source: &[T], strided: &Strided) -> Option<Vec<T>> {
    const BLOCK: usize = 16;
    let rank = strided.dims.len();
    let contiguous = strided.dims.iter().position(|d| d.1 == 1)?;
    let (run, stride) = strided.inner();
    let (columns, _) = strided.dims[contiguous];
    if contiguous == rank - 1 || stride == 0 || run < BLOCK || columns < BLOCK {
        return None;
    }
    let shape: Vec<u64> = strided.dims.iter().map(|d| d.0 as u64).collect();
    let out_strides: Vec<i64> = row_major_strides(&shape).iter().map(|&s| s as i64).collect();
    let mut out = vec![T::default(); strided.elements()];
    // The other dimensions, walked over source and result together.
    let others: Vec<usize> = (0..rank - 1).filter(|&d| d != contiguous).collect();
    let count: usize = others.iter().map(|&d| strided.dims[d].0).product();
    let step = out_strides[contiguous] as usize;
    for i in 0..count {
        let (mut rest, mut from, mut to) = (i, strided.offset, 0);
        for &d in others.iter().rev() {
            let index = (rest % strided.dims[d].0) as i64;
            rest /= strided.dims[d].0;
            from += index * strided.dims[d].1;
            to += index * out_strides[d];
        }
        let to = to as usize;
        for r in (0..run).step_by(BLOCK) {
            for c in (0..columns).step_by(BLOCK) {
                for column in c..(c + BLOCK).min(columns) {
                    let row = &mut out[to + column * step..][r..(r + BLOCK).min(run)];
                    for (k, slot) in row.iter_mut().enumerate() {
                        *slot = source[(from + column as i64 + (r + k) as i64 * stride) as usize];
                    }
                }
            }
        }
    }
    Some(out)
}

/// Writes the row-major `source` into a strided box of `destination`.
fn scatter_strided<T: Copy>(destination: &mut [T], strided: &Strided, source: &[T]) {
    let (run, stride) = strided.inner();
    let mut rows = source.chunks_exact(run.max(1));
    strided.rows(|at| {
        let Some(row) = rows.next() else { return };
        let at = at as usize;
        if stride == 1 {
            destination[at..at + run].copy_from_slice(row);
        } else {
            for (i, &x) in row.iter().enumerate() {
                destination[(at as i64 + i as i64 * stride) as usize] = x;
            }
        }
    });
}

fn signed(strides: &[u64]) -> Vec<i64> {
    strides.iter().map(|&s| s as i64).collect()
}

fn read_box(x: &Tensor, ty: TensorType, offset: i64, strides: &[i64]) -> Tensor {
    if x.is_splat() {
        return Tensor::new(ty, x.buffer.clone());
    }
    if ty.elements() == 0 {
        let buffer = remake!(&x.buffer, v => { let mut e = v.to_vec(); e.clear(); e });
        return Tensor::new(ty, buffer);
    }
    let strided = Strided::new(offset, &ty.shape, strides);
    // The whole source in its own order is no copy.
    if strided.dims.len() == 1 && strided.inner() == (x.elements(), 1) && offset == 0 {
        return Tensor::new(ty, x.buffer.clone());
    }
    let buffer = remake!(&x.buffer, v => gather_strided(v, &strided));
    Tensor::new(ty, buffer)
}

/// `broadcast_in_dim`.
pub(crate) fn broadcast(x: &Tensor, ty: TensorType, dims: &[usize]) -> Tensor {
    let from = x.ty.strides();
    let mut strides = vec![0; ty.rank()];
    for (i, &d) in dims.iter().enumerate() {
        strides[d] = if x.ty.shape[i] == 1 { 0 } else { from[i] as i64 };
    }
    read_box(x, ty, 0, &strides)
}

/// Transposition by a permutation.
pub(crate) fn transpose(x: &Tensor, ty: TensorType, perm: &[usize]) -> Tensor {
    let from = signed(&x.ty.strides());
    let strides: Vec<i64> = perm.iter().map(|&p| from[p]).collect();
    read_box(x, ty, 0, &strides)
}

/// A strided slice.
pub(crate) fn slice(x: &Tensor, ty: TensorType, start: &[u64], stride: &[u64]) -> Tensor {
    let from = signed(&x.ty.strides());
    let offset = from.iter().zip(start).map(|(f, &s)| f * s as i64).sum();
    let strides: Vec<i64> = from.iter().zip(stride).map(|(f, &s)| f * s as i64).collect();
    read_box(x, ty, offset, &strides)
}

/// Reversal of some dimensions.
pub(crate) fn reverse(x: &Tensor, dims: &[usize]) -> Tensor {
    let mut strides = signed(&x.ty.strides());
    let mut offset = 0;
    for &d in dims {
        offset += strides[d] * (x.ty.shape[d].max(1) as i64 - 1);
        strides[d] = -strides[d];
    }
    read_box(x, x.ty.clone(), offset, &strides)
}

/// Padding with `value` at the edges, where negative amounts cut, and between elements.
pub(crate) fn pad(x: &Tensor, value: &Tensor, ty: TensorType, low: &[i64], interior: &[u64]) -> Tensor {
    let n = ty.elements() as usize;
    let rank = ty.rank();
    let (mut first, mut shape, mut offset) = (vec![0u64; rank], vec![0u64; rank], 0i64);
    let to = signed(&ty.strides());
    let mut strides = vec![0i64; rank];
    for d in 0..rank {
        let step = interior[d] as i64 + 1;
        // Element i lands at low + i * step; keep those inside.
        let begin = (-low[d]).max(0).div_ceil_by(step);
        let last_inside = (ty.shape[d] as i64 - 1 - low[d]).div_euclid(step);
        let end = (last_inside + 1).clamp(begin, (x.ty.shape[d] as i64).max(begin)).min(x.ty.shape[d] as i64);
        first[d] = begin as u64;
        shape[d] = (end - begin).max(0) as u64;
        offset += (low[d] + begin * step) * to[d];
        strides[d] = step * to[d];
    }
    if shape.contains(&0) {
        return Tensor::new(ty, value.buffer.clone());
    }
    let inside = slice(x, x.ty.with_shape(&shape), &first, &vec![1; rank]).dense();
    let strided = Strided::new(offset, &shape, &strides);
    let buffer = remake2!(&inside.buffer, &value.buffer, (v, fill) => {
        let mut out = vec![fill[0]; n];
        scatter_strided(&mut out, &strided, v);
        out
    });
    Tensor::new(ty, buffer)
}

/// Division that rounds up, for a non-negative numerator.
trait DivCeilBy {
    fn div_ceil_by(self, by: i64) -> i64;
}

impl DivCeilBy for i64 {
    fn div_ceil_by(self, by: i64) -> i64 {
        (self + by - 1) / by
    }
}

/// Operands joined along `dim`.
pub(crate) fn concatenate(operands: &[Tensor], ty: TensorType, dim: usize) -> Tensor {
    let n = ty.elements() as usize;
    let to = signed(&ty.strides());
    let Some(first) = operands.first() else { return Tensor::zeros(ty) };
    let mut buffer = remake!(&first.buffer, v => vec![v.first().copied().unwrap_or_default(); n]);
    let mut at = 0;
    for x in operands {
        let strided = Strided::new(at * to[dim], &x.ty.shape, &to);
        write_box(&mut buffer, &strided, x);
        at += x.ty.shape[dim] as i64;
    }
    Tensor::new(ty, buffer)
}

fn write_box(buffer: &mut Buffer, strided: &Strided, x: &Tensor) {
    let x = x.clone().dense();
    match (buffer, &x.buffer) {
        (Buffer::F32(to), Buffer::F32(v)) => scatter_strided(Arc::make_mut(to).as_mut_slice(), strided, v),
        (Buffer::F64(to), Buffer::F64(v)) => scatter_strided(Arc::make_mut(to).as_mut_slice(), strided, v),
        (Buffer::Int(to), Buffer::Int(v)) => scatter_strided(Arc::make_mut(to).as_mut_slice(), strided, v),
        (Buffer::Bool(to), Buffer::Bool(v)) => scatter_strided(Arc::make_mut(to).as_mut_slice(), strided, v),
        (Buffer::Complex(to), Buffer::Complex(v)) => scatter_strided(Arc::make_mut(to).as_mut_slice(), strided, v),
        _ => unreachable!("invariant: operands of one element type share a storage class"),
    }
}

/// Start indices clamped so that a window of `sizes` stays inside `shape`.
fn clamped(starts: &[Tensor], shape: &[u64], sizes: &[u64]) -> Vec<u64> {
    let clamp = |(i, s): (usize, &Tensor)| {
        let last = shape[i].saturating_sub(sizes[i]);
        let start = s.first_int().unwrap_or(0);
        if s.ty.dtype.is_unsigned() { (start as u64).min(last) } else { start.clamp(0, last as i64) as u64 }
    };
    starts.iter().enumerate().map(clamp).collect()
}

/// A window at run-time indices.
pub(crate) fn dynamic_slice(x: &Tensor, starts: &[Tensor], ty: TensorType) -> Tensor {
    let start = clamped(starts, &x.ty.shape, &ty.shape);
    let ones = vec![1; start.len()];
    slice(x, ty, &start, &ones)
}

/// A copy with a window at run-time indices replaced; in place when nobody else holds it.
pub(crate) fn dynamic_update_slice(x: Tensor, update: &Tensor, starts: &[Tensor]) -> Tensor {
    if update.elements() == 0 {
        return x;
    }
    let start = clamped(starts, &x.ty.shape, &update.ty.shape);
    let to = signed(&x.ty.strides());
    let offset = to.iter().zip(&start).map(|(t, &s)| t * s as i64).sum();
    let strided = Strided::new(offset, &update.ty.shape, &to);
    let mut x = x.dense();
    write_box(&mut x.buffer, &strided, update);
    x
}

/// The index along `dim`.
pub(crate) fn iota(ty: TensorType, dim: usize, class: Class) -> Tensor {
    let size = ty.shape[dim] as usize;
    let inner: usize = ty.shape[dim + 1..].iter().map(|&n| n as usize).product();
    let outer: usize = ty.shape[..dim].iter().map(|&n| n as usize).product();
    let mut block: Vec<i64> = Vec::with_capacity(size * inner);
    for i in 0..size {
        block.resize(block.len() + inner, i as i64);
    }
    let buffer = settle(ty.dtype, i64::pack(block).into_class(class));
    let buffer = if outer == 1 { buffer } else { remake!(&buffer, v => v.repeat(outer)) };
    Tensor::new(ty, buffer)
}

/// The same elements in another shape.
pub(crate) fn reshape(x: Tensor, ty: TensorType) -> Tensor {
    Tensor::new(ty, x.buffer)
}

impl TensorType {
    /// The same element type with another shape.
    pub(crate) fn with_shape(&self, shape: &[u64]) -> TensorType {
        TensorType::new(self.dtype, shape)
    }
}

/// Whether an op is one of this module's (used where evaluation is by kind).
pub(crate) fn is_movement(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Broadcast { .. } | OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Slice { .. } | OpKind::Reverse { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    fn t(shape: &[u64], values: impl IntoIterator<Item = i32>) -> Tensor {
        Tensor::from_f32s(shape, values.into_iter().map(|x| x as f32).collect()).unwrap()
    }
    fn ty(shape: &[u64]) -> TensorType {
        TensorType::new(DType::F32, shape)
    }

    #[test]
    fn broadcasts_repeat_missing_and_unit_dimensions() {
        let x = t(&[2, 1], [1, 2]);
        assert_eq!(broadcast(&x, ty(&[2, 3]), &[0, 1]).to_f64s(), [1., 1., 1., 2., 2., 2.]);
        assert_eq!(broadcast(&t(&[2], [1, 2]), ty(&[3, 2]), &[1]).to_f64s(), [1., 2., 1., 2., 1., 2.]);
        assert!(broadcast(&t(&[], [7]), ty(&[3, 2]), &[]).is_splat());
    }

    #[test]
    fn transposes_small_and_in_blocks() {
        assert_eq!(transpose(&t(&[2, 3], 0..6), ty(&[3, 2]), &[1, 0]).to_f64s(), [0., 3., 1., 4., 2., 5.]);
        let (a, b, c) = (3usize, 37usize, 50usize);
        let x = t(&[a as u64, b as u64, c as u64], 0..(a * b * c) as i32);
        let y = transpose(&x, ty(&[a as u64, c as u64, b as u64]), &[0, 2, 1]).to_f64s();
        let z = transpose(&x, ty(&[c as u64, a as u64, b as u64]), &[2, 0, 1]).to_f64s();
        for i in 0..a {
            for j in 0..b {
                for k in 0..c {
                    let want = ((i * b + j) * c + k) as f64;
                    assert_eq!(y[(i * c + k) * b + j], want);
                    assert_eq!(z[(k * a + i) * b + j], want);
                }
            }
        }
    }

    #[test]
    fn slices_and_reversal() {
        let x = t(&[3, 4], 0..12);
        assert_eq!(slice(&x, ty(&[2, 2]), &[1, 0], &[1, 2]).to_f64s(), [4., 6., 8., 10.]);
        assert_eq!(reverse(&x, &[0, 1]).to_f64s(), (0..12).rev().map(f64::from).collect::<Vec<_>>());
        assert_eq!(reverse(&t(&[2, 2], 0..4), &[1]).to_f64s(), [1., 0., 3., 2.]);
    }

    #[test]
    fn padding_may_be_negative_and_interior() {
        let zero = t(&[], [9]);
        assert_eq!(pad(&t(&[3], 1..4), &zero, ty(&[7]), &[1], &[1]).to_f64s(), [9., 1., 9., 2., 9., 3., 9.]);
        assert_eq!(pad(&t(&[3], 1..4), &zero, ty(&[3]), &[-1], &[0]).to_f64s(), [2., 3., 9.]);
        // Three elements with two between them are 7 long; the first three and the last are cut.
        assert_eq!(pad(&t(&[3], 1..4), &zero, ty(&[3]), &[-3], &[2]).to_f64s(), [2., 9., 9.]);
        assert_eq!(pad(&t(&[3], 1..4), &zero, ty(&[3]), &[-2], &[2]).to_f64s(), [9., 2., 9.]);
        assert_eq!(pad(&t(&[2, 2], 1..5), &zero, ty(&[3, 2]), &[1, -1], &[0, 0]).to_f64s(), [9., 9., 2., 9., 4., 9.]);
        assert_eq!(pad(&t(&[1], [5]), &zero, ty(&[2]), &[-1], &[0]).to_f64s(), [9., 9.]);
    }

    #[test]
    fn concatenation_in_the_middle() {
        let y = concatenate(&[t(&[2, 1], 0..2), t(&[2, 2], 2..6)], ty(&[2, 3]), 1);
        assert_eq!(y.to_f64s(), [0., 2., 3., 1., 4., 5.]);
    }

    #[test]
    fn dynamic_starts_are_clamped() {
        let at = |i| Tensor::splat(TensorType::scalar(DType::I32), f64::from(i));
        let x = t(&[5], 0..5);
        assert_eq!(dynamic_slice(&x, &[at(4)], ty(&[2])).to_f64s(), [3., 4.]);
        assert_eq!(dynamic_slice(&x, &[at(-4)], ty(&[2])).to_f64s(), [0., 1.]);
        assert_eq!(dynamic_update_slice(x, &t(&[2], [8, 9]), &[at(9)]).to_f64s(), [0., 1., 2., 8., 9.]);
    }

    #[test]
    fn iota_counts_along_its_dimension() {
        assert_eq!(iota(TensorType::new(DType::I32, [2, 3]), 1, Class::Int).to_f64s(), [0., 1., 2., 0., 1., 2.]);
        assert_eq!(iota(TensorType::new(DType::I32, [2, 2]), 0, Class::Int).to_f64s(), [0., 0., 1., 1.]);
    }
}
