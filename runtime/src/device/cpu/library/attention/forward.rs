//! The forward: results and the logarithm of every row's sum of exponentials.

use super::rows::{self, Block, Online};
use super::{Attention, KEYS, Matrix, QUERIES, Strides, multiply};
use crate::element::Element;

impl Attention {
    /// # Safety
    /// As [`Routine::run`](super::super::Routine::run); scratch is as large as [`Attention::parts`] says.
    pub(super) unsafe fn run_forward<T: Element<Wide = f32>>(&self, parameters: &[*mut u8], scratch: &mut [f32]) {
        let parts = self.parts();
        // SAFETY: every entry of the batch dimensions has its matrices inside the parameters.
        self.each(&self.outer, parameters, &mut |parameters| unsafe {
            let (work, converted) = scratch.split_at_mut(parts.keys);
            let (keys, values) = converted.split_at_mut(parts.values - parts.keys);
            let k = self.matrix::<T>(1, parameters[1], self.keys, self.depth, keys);
            let v = self.matrix::<T>(2, parameters[2], self.keys, self.value, values);
            self.each(&self.inner, parameters, &mut |parameters| {
                for from in (0..self.queries).step_by(QUERIES) {
                    self.forward_block::<T>(parameters, from, k, v, work);
                }
            });
        });
    }

    /// A block of queries of one head.
    ///
    /// # Safety
    /// As [`Attention::run_forward`].
    unsafe fn forward_block<T: Element<Wide = f32>>(&self, parameters: &[*mut u8], from: usize, k: Matrix, v: Matrix, work: &mut [f32]) {
        let parts = self.parts();
        let rows = QUERIES.min(self.queries - from);
        let (scores, rest) = work.split_at_mut(parts.queries);
        let (queries, rest) = rest.split_at_mut(parts.rows - parts.queries);
        let (results, statistics) = rest.split_at_mut(parts.statistics - parts.rows);
        let results = &mut results[..rows * self.value];
        let (max, sum) = statistics[..2 * rows].split_at_mut(rows);
        max.fill(f32::NEG_INFINITY);
        sum.fill(0.0);
        let (pitch, width) = (self.pitch(), self.value);
        let at = |p: usize| parameters[p].wrapping_add(from * self.strides[p].row * self.bytes[p]);
        // SAFETY: blocks lie inside the head's matrices and inside scratch.
        unsafe {
            let first = self.first(parameters);
            let q = self.matrix::<T>(0, at(0), rows, self.depth, queries);
            let limit = self.limit(first, from, rows);
            if limit == 0 {
                results.fill(0.0);
            }
            for key in (0..limit).step_by(KEYS) {
                let keys = KEYS.min(limit - key);
                let to = (scores.as_mut_ptr(), Strides { row: pitch, column: 1 });
                multiply((rows, keys, self.depth), q, k.rows_from(key).transposed(), to, false, self.scale);
                self.add_bias(parameters, (from, rows), (key, keys), scores);
                let block = Block { scores: &mut *scores, pitch, rows, keys, visible: self.visible(first, from, key) };
                rows::run(Online { block, max: &mut *max, sum: &mut *sum, results: &mut *results, width });
                let weights = Matrix { data: scores.as_ptr(), strides: Strides { row: pitch, column: 1 } };
                let to = (results.as_mut_ptr(), Strides { row: width, column: 1 });
                multiply((rows, width, keys), weights, v.rows_from(key), to, key > 0, 1.0);
            }
            let (o, lse) = (self.results, self.results + 1);
            // A row that sees nothing has the sum 0, and the result 0.
            self.store::<T>(o, at(o), results, width, |r| if sum[r] == 0.0 { 1.0 } else { 1.0 / sum[r] });
            let to = at(lse).cast::<f32>();
            for r in 0..rows {
                to.add(r * self.strides[lse].row).write(max[r] + sum[r].ln());
            }
        }
    }
}
