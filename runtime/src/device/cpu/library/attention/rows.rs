//! What is done to rows of scores between the products of an attention: exponentials, maxima, sums, in vectors of the processor at hand.
//!
//! Rows are padded to a multiple of [`LANES`] with `-∞`, whose exponential is 0, so that no loop has a tail. A NaN stays one.

use pulp::{Arch, Simd, WithSimd};

/// Rows of scores are so many elements, or a multiple, apart.
pub(super) const LANES: usize = 16;

/// `exp(x)` by a polynomial around the nearest multiple of ln 2; below -86 it is 0.
#[inline(always)]
fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // The low bits of `x / ln 2` added to this are the rounded integer.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts, of which the first times a small integer is exact.
    const LN_2: (f32, f32) = (-0.693_359_4, 2.121_944_4e-4);
    let splat = |c: f32| simd.splat_f32s(c);
    let (low, high) = (splat(-86.0), splat(88.0));
    let vanishes = simd.less_than_f32s(x, low);
    let x = simd.select_f32s(vanishes, low, x);
    let x = simd.select_f32s(simd.less_than_f32s(high, x), high, x);
    let rounded = simd.mul_add_e_f32s(x, splat(std::f32::consts::LOG2_E), splat(ROUND));
    let n = simd.sub_f32s(rounded, splat(ROUND));
    let r = simd.mul_add_e_f32s(n, splat(LN_2.0), x);
    let r = simd.mul_add_e_f32s(n, splat(LN_2.1), r);
    let mut p = splat(1.0 / 5040.0);
    for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = simd.mul_add_e_f32s(p, r, splat(c));
    }
    let exponent = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(rounded), simd.splat_u32s(23));
    let scaled = simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(p), exponent));
    simd.select_f32s(vanishes, splat(0.0), scaled)
}

/// Scores of a block of queries and keys, row-major.
pub(super) struct Block<'a> {
    /// The scores.
    pub(super) scores: &'a mut [f32],
    /// Distance of rows.
    pub(super) pitch: usize,
    /// Rows.
    pub(super) rows: usize,
    /// Keys of the block.
    pub(super) keys: usize,
    /// Of row 0, how many keys are visible; a row more, a key more.
    pub(super) visible: i64,
}

impl Block<'_> {
    /// The elements of a row that are worked on, what is not visible being `-∞`.
    #[inline(always)]
    fn row(&mut self, r: usize) -> &mut [f32] {
        let seen = (self.visible.saturating_add(r as i64)).clamp(0, self.keys as i64) as usize;
        let row = &mut self.scores[r * self.pitch..][..self.keys.next_multiple_of(LANES)];
        row[seen..].fill(f32::NEG_INFINITY);
        row
    }
}

/// One step of a softmax in blocks of keys: scores become exponentials relative to the greatest score so far, sums and results follow.
pub(super) struct Online<'a> {
    /// The scores.
    pub(super) block: Block<'a>,
    /// Greatest score of every row so far.
    pub(super) max: &'a mut [f32],
    /// Sum of the exponentials of every row so far.
    pub(super) sum: &'a mut [f32],
    /// Results so far, `width` a row.
    pub(super) results: &'a mut [f32],
    /// Size of a value.
    pub(super) width: usize,
}

impl WithSimd for Online<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        for r in 0..self.block.rows {
            let row = self.block.row(r);
            let (vectors, _) = S::as_mut_simd_f32s(row);
            let mut greatest = simd.splat_f32s(f32::NEG_INFINITY);
            for v in vectors.iter() {
                greatest = simd.select_f32s(simd.less_than_f32s(greatest, *v), *v, greatest);
            }
            let before = self.max[r];
            let max = simd.reduce_max_f32s(greatest).max(before);
            if max == f32::NEG_INFINITY {
                // Nothing visible yet; a NaN is not less than anything, and stays.
                row.iter_mut().for_each(|x| *x = if x.is_nan() { *x } else { 0.0 });
                continue;
            }
            let shift = simd.splat_f32s(max);
            let mut sums = simd.splat_f32s(0.0);
            for v in vectors.iter_mut() {
                *v = exp(simd, simd.sub_f32s(*v, shift));
                sums = simd.add_f32s(sums, *v);
            }
            let sum = simd.reduce_sum_f32s(sums);
            if before == f32::NEG_INFINITY {
                self.sum[r] = sum;
            } else {
                let shrink = (before - max).exp();
                self.sum[r] = self.sum[r] * shrink + sum;
                if shrink != 1.0 {
                    self.results[r * self.width..][..self.width].iter_mut().for_each(|x| *x *= shrink);
                }
            }
            self.max[r] = max;
        }
    }
}

/// Scores become the softmax, whose statistics are known.
pub(super) struct Weights<'a> {
    /// The scores.
    pub(super) block: Block<'a>,
    /// Logarithm of every row's sum of exponentials.
    pub(super) lse: &'a [f32],
}

impl WithSimd for Weights<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        for r in 0..self.block.rows {
            let lse = self.lse[r];
            let row = self.block.row(r);
            if lse == f32::NEG_INFINITY {
                row.fill(0.0);
                continue;
            }
            let shift = simd.splat_f32s(lse);
            let (vectors, _) = S::as_mut_simd_f32s(row);
            for v in vectors {
                *v = exp(simd, simd.sub_f32s(*v, shift));
            }
        }
    }
}

/// `weights · (slopes - delta)` in the place of the slopes: the scores' gradients.
pub(super) struct Slopes<'a> {
    /// The softmax.
    pub(super) weights: &'a [f32],
    /// Gradients of the softmax.
    pub(super) slopes: &'a mut [f32],
    /// Distance of rows of both.
    pub(super) pitch: usize,
    /// Keys of the block.
    pub(super) keys: usize,
    /// Per row, the sum of both multiplied.
    pub(super) delta: &'a [f32],
}

impl WithSimd for Slopes<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let n = self.keys.next_multiple_of(LANES);
        for (r, delta) in self.delta.iter().enumerate() {
            let delta = simd.splat_f32s(*delta);
            let (weights, _) = S::as_simd_f32s(&self.weights[r * self.pitch..][..n]);
            let (slopes, _) = S::as_mut_simd_f32s(&mut self.slopes[r * self.pitch..][..n]);
            for (s, w) in slopes.iter_mut().zip(weights) {
                *s = simd.mul_f32s(*w, simd.sub_f32s(*s, delta));
            }
        }
    }
}

/// Runs one of the above with the widest vectors there are.
pub(super) fn run<F: WithSimd<Output = ()>>(f: F) {
    Arch::new().dispatch(f);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_close_everywhere_and_keep_nan() {
        let mut worst = 0f64;
        for i in 0..1 << 14 {
            let top = -(i as f32) / 200.0;
            let mut scores: Vec<f32> = (0..LANES).map(|j| top + j as f32 / 2048.0).collect();
            let given = scores.clone();
            run(Weights { block: Block { scores: &mut scores, pitch: LANES, rows: 1, keys: LANES, visible: i64::MAX }, lse: &[0.0] });
            for (x, e) in given.iter().zip(&scores) {
                let want = f64::from(*x).exp();
                if *x < -86.0 {
                    assert_eq!(*e, 0.0);
                } else {
                    worst = worst.max((f64::from(*e) / want - 1.0).abs());
                }
            }
        }
        assert!(worst < 3e-7, "{worst}");
        let mut scores = [f32::NAN; LANES];
        run(Weights { block: Block { scores: &mut scores, pitch: LANES, rows: 1, keys: LANES, visible: i64::MAX }, lse: &[0.0] });
        assert!(scores.iter().all(|x| x.is_nan()));
    }
}
