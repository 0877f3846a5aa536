//! Reductions by a known reducer: over dimensions and over windows.
//!
//! Rows that are contiguous in memory are folded in [`LANES`] accumulators, which are then folded in order; everything else is folded in row-major order.
//! Sums of narrow floats are held in `f32` and rounded once. Reducers given as regions are in `region`.

use super::elementwise::compare_ints;
use super::movement;
use super::tensor::{Buffer, Complex, Element, Tensor, settle};
use crate::dtype::{DType, TensorType};
use crate::op::{Reducer, Window};
use std::sync::Arc;

/// Accumulators of a contiguous fold.
const LANES: usize = 16;

/// Calls `$body` with the reducer's function on elements of `$t`'s storage class.
macro_rules! fold_with {
    (real, $reducer:expr, $f:ident => $body:expr) => {
        match $reducer {
            Reducer::Add => {
                let $f = |x, y| x + y;
                Some($body)
            }
            Reducer::Mul => {
                let $f = |x, y| x * y;
                Some($body)
            }
            Reducer::Max => {
                let $f = |x, y| if x > y || x != x { x } else { y };
                Some($body)
            }
            Reducer::Min => {
                let $f = |x, y| if x < y || x != x { x } else { y };
                Some($body)
            }
            Reducer::Replace => {
                let $f = |_, y| y;
                Some($body)
            }
            Reducer::And | Reducer::Or | Reducer::Xor | Reducer::General => None,
        }
    };
    (int, $t:expr, $reducer:expr, $f:ident => $body:expr) => {
        match $reducer {
            Reducer::Add => {
                let $f = i64::wrapping_add;
                Some($body)
            }
            Reducer::Mul => {
                let $f = i64::wrapping_mul;
                Some($body)
            }
            Reducer::Max => {
                let $f = |x, y| if compare_ints($t, x, y).is_gt() { x } else { y };
                Some($body)
            }
            Reducer::Min => {
                let $f = |x, y| if compare_ints($t, x, y).is_lt() { x } else { y };
                Some($body)
            }
            Reducer::And => {
                let $f = |x: i64, y: i64| x & y;
                Some($body)
            }
            Reducer::Or => {
                let $f = |x: i64, y: i64| x | y;
                Some($body)
            }
            Reducer::Xor => {
                let $f = |x: i64, y: i64| x ^ y;
                Some($body)
            }
            Reducer::Replace => {
                let $f = |_, y| y;
                Some($body)
            }
            Reducer::General => None,
        }
    };
    (bool, $reducer:expr, $f:ident => $body:expr) => {
        match $reducer {
            Reducer::Add | Reducer::Max | Reducer::Or => {
                let $f = |x: bool, y: bool| x | y;
                Some($body)
            }
            Reducer::Mul | Reducer::Min | Reducer::And => {
                let $f = |x: bool, y: bool| x & y;
                Some($body)
            }
            Reducer::Xor => {
                let $f = |x: bool, y: bool| x ^ y;
                Some($body)
            }
            Reducer::Replace => {
                let $f = |_, y| y;
                Some($body)
            }
            Reducer::General => None,
        }
    };
    (complex, $reducer:expr, $f:ident => $body:expr) => {
        match $reducer {
            Reducer::Add => {
                let $f = |x: Complex, y: Complex| x + y;
                Some($body)
            }
            Reducer::Mul => {
                let $f = |x: Complex, y: Complex| x * y;
                Some($body)
            }
            Reducer::Replace => {
                let $f = |_, y| y;
                Some($body)
            }
            Reducer::Max | Reducer::Min | Reducer::And | Reducer::Or | Reducer::Xor | Reducer::General => None,
        }
    };
}

/// `f(a, b)` elementwise by a reducer, unrounded; `None` when the reducer is not defined on the type.
pub(crate) fn combine(reducer: Reducer, t: DType, a: Buffer, b: Buffer) -> Option<Buffer> {
    use super::elementwise::zip;
    match (a, b) {
        (Buffer::F32(a), Buffer::F32(b)) => fold_with!(real, reducer, f => Buffer::F32(zip(a, b, f))),
        (Buffer::F64(a), Buffer::F64(b)) => fold_with!(real, reducer, f => Buffer::F64(zip(a, b, f))),
        (Buffer::Int(a), Buffer::Int(b)) => fold_with!(int, t, reducer, f => Buffer::Int(zip(a, b, f))),
        (Buffer::Bool(a), Buffer::Bool(b)) => fold_with!(bool, reducer, f => Buffer::Bool(zip(a, b, f))),
        (Buffer::Complex(a), Buffer::Complex(b)) => fold_with!(complex, reducer, f => Buffer::Complex(zip(a, b, f))),
        _ => None,
    }
}

/// Folds `updates[i]` into `into[at[i]]`, in order.
pub(crate) fn fold_at(reducer: Reducer, t: DType, into: &mut Buffer, at: &[usize], updates: &Buffer) -> Option<()> {
    fn apply<T: Copy>(into: &mut Arc<Vec<T>>, at: &[usize], updates: &[T], f: impl Fn(T, T) -> T) {
        let into = Arc::make_mut(into);
        for (i, &to) in at.iter().enumerate() {
            into[to] = f(into[to], updates[if updates.len() == 1 { 0 } else { i }]);
        }
    }
    match (into, updates) {
        (Buffer::F32(a), Buffer::F32(b)) => fold_with!(real, reducer, f => apply(a, at, b, f)),
        (Buffer::F64(a), Buffer::F64(b)) => fold_with!(real, reducer, f => apply(a, at, b, f)),
        (Buffer::Int(a), Buffer::Int(b)) => fold_with!(int, t, reducer, f => apply(a, at, b, f)),
        (Buffer::Bool(a), Buffer::Bool(b)) => fold_with!(bool, reducer, f => apply(a, at, b, f)),
        (Buffer::Complex(a), Buffer::Complex(b)) => fold_with!(complex, reducer, f => apply(a, at, b, f)),
        _ => None,
    }
}

/// How a reduction walks its operand: merged dimensions, outermost first, each reduced or kept.
struct Walk {
    dims: Vec<(usize, bool)>,
    kept: usize,
}

impl Walk {
    fn new(shape: &[u64], reduced: &[usize]) -> Walk {
        let mut dims: Vec<(usize, bool)> = Vec::new();
        let mut kept = 1;
        for (d, &n) in shape.iter().enumerate() {
            let is_reduced = reduced.contains(&d);
            kept *= if is_reduced { 1 } else { n as usize };
            match dims.last_mut() {
                _ if n == 1 => {}
                Some((size, r)) if *r == is_reduced => *size *= n as usize,
                _ => dims.push((n as usize, is_reduced)),
            }
        }
        if dims.is_empty() {
            dims.push((1, false));
        }
        Walk { dims, kept }
    }

    /// Folds every element of `source` into its place of the result, which begins as `init`.
    fn fold<T: Element>(&self, source: &[T], init: T, f: impl Fn(T, T) -> T) -> Vec<T> {
        let mut out = vec![init; self.kept];
        if source.is_empty() {
            return out;
        }
        let (run, inner_reduced) = self.dims[self.dims.len() - 1];
        let outer = &self.dims[..self.dims.len() - 1];
        // Strides of the outer dimensions in the result.
        let mut strides = vec![0; outer.len()];
        let mut stride = if inner_reduced { 1 } else { run };
        for (s, &(n, reduced)) in strides.iter_mut().zip(outer).rev() {
            if !reduced {
                *s = stride;
                stride *= n;
            }
        }
        let mut index = vec![0usize; outer.len()];
        let mut at = 0;
        for row in source.chunks_exact(run) {
            if inner_reduced {
                out[at] = f(out[at], fold_row(row, &f));
            } else {
                for (o, &x) in out[at..at + run].iter_mut().zip(row) {
                    *o = f(*o, x);
                }
            }
            for d in (0..outer.len()).rev() {
                index[d] += 1;
                at += strides[d];
                if index[d] < outer[d].0 {
                    break;
                }
                at -= strides[d] * outer[d].0;
                index[d] = 0;
            }
        }
        out
    }
}

/// A contiguous row in lanes.
fn fold_row<T: Copy>(row: &[T], f: &impl Fn(T, T) -> T) -> T {
    let Some((first, rest)) = row.split_first_chunk::<LANES>() else {
        return row[1..].iter().fold(row[0], |a, &x| f(a, x));
    };
    let mut lanes = *first;
    let chunks = rest.chunks_exact(LANES);
    let tail = chunks.remainder();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = f(*lane, x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(tail) {
        *lane = f(*lane, x);
    }
    lanes[1..].iter().fold(lanes[0], |a, &x| f(a, x))
}

/// Reduction of `x` over `dims` by a known reducer; `None` when the reducer is not defined on the type.
pub(crate) fn reduce(x: Tensor, init: &Tensor, dims: &[usize], reducer: Reducer, ty: TensorType) -> Option<Tensor> {
    let x = x.dense();
    let walk = Walk::new(&x.ty.shape, dims);
    let t = x.ty.dtype;
    let buffer = match (&x.buffer, &init.buffer) {
        (Buffer::F32(v), Buffer::F32(i)) => fold_with!(real, reducer, f => f32::pack(walk.fold(v, i[0], f))),
        (Buffer::F64(v), Buffer::F64(i)) => fold_with!(real, reducer, f => f64::pack(walk.fold(v, i[0], f))),
        (Buffer::Int(v), Buffer::Int(i)) => fold_with!(int, t, reducer, f => i64::pack(walk.fold(v, i[0], f))),
        (Buffer::Bool(v), Buffer::Bool(i)) => fold_with!(bool, reducer, f => bool::pack(walk.fold(v, i[0], f))),
        (Buffer::Complex(v), Buffer::Complex(i)) => fold_with!(complex, reducer, f => Complex::pack(walk.fold(v, i[0], f))),
        _ => None,
    }?;
    let buffer = settle(ty.dtype, buffer);
    Some(Tensor::new(ty, buffer))
}

/// The operand of a windowed op with its padding and dilation written out as `fill`.
pub(crate) fn padded(x: &Tensor, fill: &Tensor, w: &Window) -> Tensor {
    let mut ty = x.ty.clone();
    for d in 0..ty.rank() {
        let n = x.ty.shape[d];
        let dilated = if n == 0 { 0 } else { (n - 1) * w.base_dilation[d] + 1 };
        ty.shape[d] = (dilated as i64 + w.pad[d].0 + w.pad[d].1).max(0) as u64;
    }
    let low: Vec<i64> = w.pad.iter().map(|p| p.0).collect();
    let interior: Vec<u64> = w.base_dilation.iter().map(|b| b - 1).collect();
    movement::pad(x, fill, ty, &low, &interior)
}

/// The positions of a window in row-major order.
pub(crate) fn window_positions(w: &Window) -> Vec<Vec<u64>> {
    w.size.iter().fold(vec![Vec::new()], |all, &n| all.iter().flat_map(|p| (0..n).map(move |i| p.iter().copied().chain([i]).collect())).collect())
}

/// For one position of the window, the padded operand's elements under it, one for each output.
pub(crate) fn under_window(padded: &Tensor, w: &Window, position: &[u64], shape: &[u64]) -> Tensor {
    let start: Vec<u64> = position.iter().zip(&w.window_dilation).map(|(p, d)| p * d).collect();
    movement::slice(padded, padded.ty.with_shape(shape), &start, &w.stride).dense()
}

/// `reduce_window` by a known reducer: padding counts as the initial value.
pub(crate) fn reduce_window(x: &Tensor, init: &Tensor, w: &Window, reducer: Reducer, ty: TensorType) -> Option<Tensor> {
    let padded = padded(x, init, w);
    let mut sum = Tensor::new(ty.clone(), init.buffer.clone()).dense().buffer;
    for position in window_positions(w) {
        let under = under_window(&padded, w, &position, &ty.shape);
        sum = combine(reducer, ty.dtype, sum, under.buffer)?;
    }
    let buffer = settle(ty.dtype, sum);
    Some(Tensor::new(ty, buffer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(shape: &[u64], n: i32) -> Tensor {
        Tensor::from_f32s(shape, (0..n).map(|x| x as f32).collect()).unwrap()
    }
    fn scalar(x: f64) -> Tensor {
        Tensor::splat(TensorType::scalar(DType::F32), x)
    }
    fn ty(shape: &[u64]) -> TensorType {
        TensorType::new(DType::F32, shape)
    }
    fn window(size: &[u64]) -> Window {
        let n = size.len();
        Window { size: size.to_vec(), stride: vec![1; n], pad: vec![(0, 0); n], base_dilation: vec![1; n], window_dilation: vec![1; n], reversal: vec![] }
    }

    #[test]
    fn sums_over_any_dimensions() {
        let x = t(&[2, 3, 4], 24);
        let sum = |dims: &[usize], shape: &[u64]| reduce(x.clone(), &scalar(0.0), dims, Reducer::Add, ty(shape)).unwrap().to_f64s();
        assert_eq!(sum(&[2], &[2, 3]), [6., 22., 38., 54., 70., 86.]);
        assert_eq!(sum(&[0], &[3, 4])[..4], [12., 14., 16., 18.]);
        assert_eq!(sum(&[1], &[2, 4]), [12., 15., 18., 21., 48., 51., 54., 57.]);
        assert_eq!(sum(&[0, 2], &[3]), [60., 92., 124.]);
        assert_eq!(sum(&[0, 1, 2], &[]), [276.]);
        assert_eq!(sum(&[], &[2, 3, 4]), x.to_f64s());
    }

    #[test]
    fn long_rows_are_folded_in_lanes() {
        assert_eq!(reduce(t(&[2, 1001], 2002), &scalar(1.0), &[1], Reducer::Add, ty(&[2])).unwrap().to_f64s(), [500_501., 1_502_502.]);
        assert_eq!(reduce(t(&[1, 37], 37), &scalar(-1.0), &[1], Reducer::Max, ty(&[1])).unwrap().to_f64s(), [36.]);
    }

    #[test]
    fn empty_reductions_give_the_initial_value() {
        assert_eq!(reduce(t(&[2, 0], 0), &scalar(3.0), &[1], Reducer::Add, ty(&[2])).unwrap().to_f64s(), [3., 3.]);
    }

    #[test]
    fn windows_with_padding_stride_and_dilation() {
        let x = t(&[5], 5);
        let mut w = window(&[3]);
        w.pad = vec![(2, 0)];
        assert_eq!(reduce_window(&x, &scalar(0.0), &w, Reducer::Add, ty(&[5])).unwrap().to_f64s(), [0., 1., 3., 6., 9.]);
        let mut w = window(&[2]);
        w.stride = vec![2];
        w.window_dilation = vec![2];
        assert_eq!(reduce_window(&x, &scalar(0.0), &w, Reducer::Max, ty(&[2])).unwrap().to_f64s(), [2., 4.]);
        // Padding counts as the initial value, holes of a dilated operand too.
        let mut w = window(&[2]);
        w.base_dilation = vec![2];
        w.pad = vec![(1, 0)];
        assert_eq!(reduce_window(&t(&[2], 2), &scalar(1.0), &w, Reducer::Add, ty(&[3])).unwrap().to_f64s(), [2., 2., 3.]);
    }

    #[test]
    fn unsigned_maxima_are_unsigned() {
        let ty = TensorType::new(DType::UI64, [2]);
        let x = Tensor::from_i64s(ty, &[-1, 5]).unwrap();
        let init = Tensor::zeros(TensorType::scalar(DType::UI64));
        let most = reduce(x, &init, &[0], Reducer::Max, TensorType::scalar(DType::UI64)).unwrap();
        assert_eq!(most.to_i64s(), [-1]);
    }
}
