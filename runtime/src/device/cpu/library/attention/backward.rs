//! The derivative: gradients of queries, keys, values and the bias from the result's.

use super::rows::{self, Block, Slopes, Weights};
use super::{Attention, KEYS, Matrix, QUERIES, Strides, multiply};
use crate::element::Element;
use ir::DType;

/// Operands, by number.
const O: usize = 3;
const LSE: usize = 4;
const GRADIENT: usize = 5;

/// Where gradients of keys or values are summed.
#[derive(Clone, Copy)]
struct Sums {
    data: *mut f32,
    strides: Strides,
}

impl Sums {
    fn rows_from(self, r: usize) -> (*mut f32, Strides) {
        (self.data.wrapping_add(r * self.strides.row), self.strides)
    }
}

/// What all blocks of queries of a head share.
#[derive(Clone, Copy)]
struct Head {
    k: Matrix,
    v: Matrix,
    dk: Sums,
    dv: Sums,
}

impl Attention {
    /// # Safety
    /// As [`Routine::run`](super::super::Routine::run); scratch is as large as [`Attention::parts`] says.
    pub(super) unsafe fn run_backward<T: Element<Wide = f32>>(&self, parameters: &[*mut u8], scratch: &mut [f32]) {
        let parts = self.parts();
        let (dk, dv) = (self.results + 1, self.results + 2);
        let direct = self.dtype == DType::F32;
        // SAFETY: every entry of the batch dimensions has its matrices inside the parameters; gradients are written nowhere else.
        unsafe {
            self.clear_bias(parameters);
            self.each(&self.outer, parameters, &mut |parameters| {
                let (work, converted) = scratch.split_at_mut(parts.keys);
                let (keys, rest) = converted.split_at_mut(parts.values - parts.keys);
                let (values, rest) = rest.split_at_mut(parts.key_sums - parts.values);
                let (key_sums, value_sums) = rest.split_at_mut(parts.value_sums - parts.key_sums);
                let k = self.matrix::<T>(1, parameters[1], self.keys, self.depth, keys);
                let v = self.matrix::<T>(2, parameters[2], self.keys, self.value, values);
                let sums = |p: usize, columns: usize, room: &mut [f32]| {
                    if direct {
                        let sums = Sums { data: parameters[p].cast(), strides: self.strides[p] };
                        clear(sums.data, sums.strides, (self.keys, columns));
                        return sums;
                    }
                    room[..self.keys * columns].fill(0.0);
                    Sums { data: room.as_mut_ptr(), strides: Strides { row: columns, column: 1 } }
                };
                let head = Head { k, v, dk: sums(dk, self.depth, key_sums), dv: sums(dv, self.value, value_sums) };
                self.each(&self.inner, parameters, &mut |parameters| {
                    for from in (0..self.queries).step_by(QUERIES) {
                        self.backward_block::<T>(parameters, from, head, work);
                    }
                });
                if !direct {
                    self.store::<T>(dk, parameters[dk], &key_sums[..self.keys * self.depth], self.depth, |_| 1.0);
                    self.store::<T>(dv, parameters[dv], &value_sums[..self.keys * self.value], self.value, |_| 1.0);
                }
            });
        }
    }

    /// The number of the bias's gradient, if it is a result.
    fn bias_gradient(&self) -> Option<usize> {
        (self.strides.len() > self.results + 3).then_some(self.results + 3)
    }

    /// Zeros where the bias's gradient is summed.
    ///
    /// # Safety
    /// As [`Attention::run_backward`].
    unsafe fn clear_bias(&self, parameters: &[*mut u8]) {
        let Some(p) = self.bias_gradient() else { return };
        let size = |stride: usize, n: usize| if stride == 0 { 1 } else { n };
        let strides = self.strides[p];
        let extents = (size(strides.row, self.queries), size(strides.column, self.keys));
        // SAFETY: as the caller vouches.
        self.each(&self.cleared, parameters, &mut |parameters| unsafe { clear(parameters[p].cast(), strides, extents) });
    }

    /// A block of queries of one head.
    ///
    /// # Safety
    /// As [`Attention::run_backward`].
    unsafe fn backward_block<T: Element<Wide = f32>>(&self, parameters: &[*mut u8], from: usize, head: Head, work: &mut [f32]) {
        let parts = self.parts();
        let rows = QUERIES.min(self.queries - from);
        let (scores, rest) = work.split_at_mut(parts.slopes);
        let (slopes, rest) = rest.split_at_mut(parts.queries - parts.slopes);
        let (queries, rest) = rest.split_at_mut(parts.gradients - parts.queries);
        let (gradients, rest) = rest.split_at_mut(parts.rows - parts.gradients);
        let (dq, statistics) = rest.split_at_mut(parts.statistics - parts.rows);
        let dq = &mut dq[..rows * self.depth];
        let (lse, delta) = statistics[..2 * rows].split_at_mut(rows);
        let (pitch, depth, value) = (self.pitch(), self.depth, self.value);
        let at = |p: usize| parameters[p].wrapping_add(from * self.strides[p].row * self.bytes[p]);
        let row_major = |row: usize| Strides { row, column: 1 };
        // SAFETY: blocks lie inside the head's matrices and inside scratch.
        unsafe {
            let first = self.first(parameters);
            let q = self.matrix::<T>(0, at(0), rows, depth, queries);
            let g = self.matrix::<T>(GRADIENT, at(GRADIENT), rows, value, gradients);
            let (so, o) = (self.strides[O], at(O).cast::<T>());
            for r in 0..rows {
                lse[r] = at(LSE).cast::<f32>().add(r * self.strides[LSE].row).read();
                let (o, g) = (o.add(r * so.row), Matrix { data: g.data.add(r * g.strides.row), ..g });
                delta[r] = if so.column == 1 && g.strides.column == 1 {
                    inner_product(value, |c| o.add(c).read().widen() * g.data.add(c).read())
                } else {
                    inner_product(value, |c| o.add(c * so.column).read().widen() * g.data.add(c * g.strides.column).read())
                };
            }
            let limit = self.limit(first, from, rows);
            if limit == 0 {
                dq.fill(0.0);
            }
            for key in (0..limit).step_by(KEYS) {
                let keys = KEYS.min(limit - key);
                let (k, v) = (head.k.rows_from(key), head.v.rows_from(key));
                multiply((rows, keys, depth), q, k.transposed(), (scores.as_mut_ptr(), row_major(pitch)), false, self.scale);
                self.add_bias(parameters, (from, rows), (key, keys), scores);
                let block = Block { scores: &mut *scores, pitch, rows, keys, visible: self.visible(first, from, key) };
                rows::run(Weights { block, lse: &*lse });
                let weights = Matrix { data: scores.as_ptr(), strides: row_major(pitch) };
                multiply((keys, value, rows), weights.transposed(), g, head.dv.rows_from(key), true, 1.0);
                multiply((rows, keys, value), g, v.transposed(), (slopes.as_mut_ptr(), row_major(pitch)), false, 1.0);
                rows::run(Slopes { weights: &*scores, slopes: &mut *slopes, pitch, keys, delta: &*delta });
                if let Some(p) = self.bias_gradient() {
                    let s = self.strides[p];
                    for (r, row) in slopes.chunks_exact(pitch).take(rows).enumerate() {
                        for (j, x) in row[..keys].iter().enumerate() {
                            *parameters[p].cast::<f32>().add((from + r) * s.row + (key + j) * s.column) += x;
                        }
                    }
                }
                let slope = Matrix { data: slopes.as_ptr(), strides: row_major(pitch) };
                multiply((keys, depth, rows), slope.transposed(), q, head.dk.rows_from(key), true, self.scale);
                multiply((rows, depth, keys), slope, k, (dq.as_mut_ptr(), row_major(depth)), key > 0, self.scale);
            }
            self.store::<T>(self.results, at(self.results), dq, depth, |_| 1.0);
        }
    }
}

/// Zeros in a matrix.
///
/// # Safety
/// The matrix can be written.
unsafe fn clear(data: *mut f32, strides: Strides, (rows, columns): (usize, usize)) {
    for r in 0..rows {
        let row = data.wrapping_add(r * strides.row);
        for c in 0..columns {
            // SAFETY: as the caller vouches.
            unsafe { if strides.column == 1 { row.add(c).write(0.0) } else { row.add(c * strides.column).write(0.0) } };
        }
    }
}

/// The sum of `n` products, several at once: a single sum would wait for every addition.
#[inline(always)]
fn inner_product(n: usize, product: impl Fn(usize) -> f32) -> f32 {
    const WIDTH: usize = 8;
    let mut sums = [0f32; WIDTH];
    for start in (0..n / WIDTH * WIDTH).step_by(WIDTH) {
        for (i, s) in sums.iter_mut().enumerate() {
            *s += product(start + i);
        }
    }
    (n / WIDTH * WIDTH..n).map(product).fold(sums.iter().sum(), |sum, x| sum + x)
}
