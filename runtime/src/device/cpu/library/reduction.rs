//! Reductions over dimensions and over windows.
//!
//! Narrow floats are folded in `f32` and rounded once. A window that reaches from the start to the element itself (a cumulative sum, as `cumsum` exports it)
//! is folded along the dimension in one pass, provided that its initial value changes nothing; any other window is folded element by element, where what lies
//! outside the operand counts as the initial value.

use crate::element::{Element, Wide, reduces};
use crate::with_element;
use ir::TensorType;
use ir::dtype::row_major_strides;
use ir::op::{Reducer, Window};

/// One dimension of a window walk.
#[derive(Clone, Copy, Debug)]
struct Dim {
    operand: i64,
    operand_stride: i64,
    result: i64,
    size: i64,
    stride: i64,
    low: i64,
    base_dilation: i64,
    window_dilation: i64,
}

/// A prepared windowed reduction of one operand.
pub(in crate::device::cpu) struct ReduceWindow {
    dims: Vec<Dim>,
    reducer: Reducer,
    ty: TensorType,
    elements: usize,
    /// The dimension that is cumulated, when it is only that: its size, and the elements inside it.
    prefix: Option<(usize, usize)>,
    pairs: usize,
}

impl ReduceWindow {
    /// A reduction of all `dims` is a window as large as they are.
    pub(super) fn reduce(dims: &[usize], reducer: Reducer, operands: &[TensorType], results: &[TensorType]) -> Result<ReduceWindow, String> {
        let shape = &operands[0].shape;
        let rank = shape.len();
        let window = Window {
            size: (0..rank).map(|d| if dims.contains(&d) { shape[d] } else { 1 }).collect(),
            stride: vec![1; rank],
            pad: vec![(0, 0); rank],
            base_dilation: vec![1; rank],
            window_dilation: vec![1; rank],
            reversal: Vec::new(),
        };
        let kept: Vec<u64> = (0..rank).map(|d| if dims.contains(&d) { 1 } else { shape[d] }).collect();
        Self::new(&window, reducer, operands, results, &kept)
    }

    /// Prepares; `result` is the result's shape with all of the operand's dimensions.
    pub(super) fn new(w: &Window, reducer: Reducer, operands: &[TensorType], results: &[TensorType], result: &[u64]) -> Result<ReduceWindow, String> {
        let pairs = results.len();
        let ty = &operands[0];
        let rank = ty.rank();
        if let Some(t) = operands[..pairs].iter().find(|t| !reduces(reducer, t.dtype) || reducer == Reducer::Replace || t.shape != ty.shape) {
            return Err(format!("{t} cannot be combined by {reducer:?}"));
        }
        if operands.len() != 2 * pairs || operands.iter().any(|t| t.dtype != ty.dtype) || [w.size.len(), w.stride.len(), w.pad.len(), result.len()] != [rank; 4]
        {
            return Err("its window does not match its operands".into());
        }
        let strides = row_major_strides(&ty.shape);
        let dims: Vec<Dim> = (0..rank)
            .map(|d| Dim {
                operand: ty.shape[d] as i64,
                operand_stride: strides[d] as i64,
                result: result[d] as i64,
                size: w.size[d] as i64,
                stride: w.stride[d] as i64,
                low: w.pad[d].0,
                base_dilation: w.base_dilation.get(d).map_or(1, |n| *n as i64),
                window_dilation: w.window_dilation.get(d).map_or(1, |n| *n as i64),
            })
            .collect();
        let wide: Vec<usize> = (0..rank).filter(|d| dims[*d].size != 1).collect();
        let plain = |d: &Dim| d.stride == 1 && d.base_dilation == 1 && d.window_dilation == 1 && d.result == d.operand;
        let prefix = match wide.as_slice() {
            // A window of one element may still be shifted by its padding.
            [d] if dims.iter().all(|d| plain(d) && (d.size != 1 || d.low == 0)) && dims[*d].size >= dims[*d].operand && dims[*d].low == dims[*d].size - 1 => {
                Some((ty.shape[*d] as usize, strides[*d] as usize))
            }
            _ => None,
        };
        Ok(ReduceWindow { dims, reducer, ty: ty.clone(), elements: result.iter().product::<u64>() as usize, prefix, pairs })
    }

    /// # Safety
    /// As [`Routine::run`](super::Routine::run).
    pub(super) unsafe fn run(&self, parameters: &[*mut u8]) {
        let n = self.pairs;
        for i in 0..n {
            let (operand, initial, result) = (parameters[i], parameters[n + i], parameters[2 * n + i]);
            // SAFETY: as the caller vouches.
            unsafe {
                with_element!(self.ty.dtype, T => {
                    let first = initial.cast::<T>().read().widen();
                    match self.prefix.filter(|_| <T as Element>::Wide::fold(self.reducer, first, first) == first) {
                        Some((size, inside)) => self.cumulate::<T>(operand.cast(), first, result.cast(), size, inside),
                        None => self.windows::<T>(operand.cast(), first, result.cast()),
                    }
                }, otherwise ());
            }
        }
    }

    /// # Safety
    /// As [`ReduceWindow::run`].
    unsafe fn cumulate<T: Element>(&self, operand: *const T, initial: T::Wide, result: *mut T, size: usize, inside: usize) {
        let outside = self.elements / (size * inside).max(1);
        for o in 0..outside {
            for i in 0..inside {
                // SAFETY: the walk visits each element of the operand and of the result once.
                unsafe {
                    let mut sum = initial;
                    for k in 0..size {
                        let at = (o * size + k) * inside + i;
                        sum = T::Wide::fold(self.reducer, sum, operand.add(at).read().widen());
                        result.add(at).write(T::narrow(sum));
                    }
                }
            }
        }
    }

    /// # Safety
    /// As [`ReduceWindow::run`].
    unsafe fn windows<T: Element>(&self, operand: *const T, initial: T::Wide, result: *mut T) {
        // SAFETY: only positions inside the operand are read.
        unsafe {
            let mut position = [0i64; crate::strided::MAX_DIMS * 2];
            for at in 0..self.elements {
                let mut rest = at as i64;
                for (d, p) in self.dims.iter().zip(&mut position).rev() {
                    *p = rest % d.result * d.stride - d.low;
                    rest /= d.result;
                }
                let sum = self.fold::<T>(operand, &self.dims, &position, Some(0), initial, initial);
                result.add(at).write(T::narrow(sum));
            }
        }
    }

    /// Folds the window at `position` into `sum`; what lies outside, or between dilated elements, counts as `initial`.
    ///
    /// # Safety
    /// As [`ReduceWindow::run`].
    unsafe fn fold<T: Element>(&self, operand: *const T, dims: &[Dim], position: &[i64], at: Option<i64>, sum: T::Wide, initial: T::Wide) -> T::Wide {
        let Some((d, rest)) = dims.split_first() else {
            // SAFETY: the offset is that of an element of the operand.
            let x = at.map_or(initial, |offset| unsafe { operand.offset(offset as isize).read() }.widen());
            return T::Wide::fold(self.reducer, sum, x);
        };
        let mut sum = sum;
        for k in 0..d.size {
            let x = position[0] + k * d.window_dilation;
            let inside = x >= 0 && x % d.base_dilation == 0 && x / d.base_dilation < d.operand;
            let at = at.filter(|_| inside).map(|offset| offset + x / d.base_dilation * d.operand_stride);
            // SAFETY: the position is inside, or not read.
            sum = unsafe { self.fold::<T>(operand, rest, &position[1..], at, sum, initial) };
        }
        sum
    }
}
