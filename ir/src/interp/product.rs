//! Matrix products over index tables: the one loop behind `dot_general` and `convolution`.
//!
//! Both are `out[b, m, n] = sum over k of lhs[lb[b] + lm[m] + lk[k]] * rhs[rb[b] + rn[n] + rk[k]]`: any batching, free and contracted dimensions in any order
//! (and, after padding, any strided and dilated window) are such sums of offsets. Every output element is summed in the order of `k` in one accumulator,
//! with a multiplication and an addition each, so the blocked form gives the same bits as the naive one, on any number of threads.

use super::tensor::{Complex, Element};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Rows of a register tile.
const ROWS: usize = 6;
/// Most columns of a register tile, over all element types.
const MOST_COLUMNS: usize = 16;

/// An element type that can be multiplied and summed.
pub(crate) trait Arithmetic: Element {
    /// Columns of a register tile: two vectors of the common width.
    const COLUMNS: usize = 8;

    /// `sum + a * b`, rounded twice.
    fn plus_product(sum: Self, a: Self, b: Self) -> Self;

    /// Adds the product of two packed panels to a tile of `ROWS` by `COLUMNS` sums.
    #[inline(always)]
    fn multiply_tile<S: Simd>(_simd: S, left: &[Self], right: &[Self], sums: &mut [Self]) {
        for (a, b) in left.chunks_exact(ROWS).zip(right.chunks_exact(Self::COLUMNS)) {
            for (row, &a) in sums.chunks_exact_mut(Self::COLUMNS).zip(a) {
                for (sum, &b) in row.iter_mut().zip(b) {
                    *sum = Self::plus_product(*sum, a, b);
                }
            }
        }
    }
}

/// The tile of a float type in vector registers, `V` of them a row.
macro_rules! vector_tile {
    ($name:ident, $t:ty, $as_simd:ident, $as_mut_simd:ident, $splat:ident, $add:ident, $mul:ident) => {
        #[inline(always)]
        fn $name<S: Simd, const V: usize>(simd: S, left: &[$t], right: &[$t], sums: &mut [$t]) {
            let (right, _) = S::$as_simd(right);
            let (sums, _) = S::$as_mut_simd(sums);
            let mut tile = [[simd.$splat(0.0); V]; ROWS];
            for (row, sums) in tile.iter_mut().zip(sums.chunks_exact(V)) {
                row.copy_from_slice(sums);
            }
            for (a, b) in left.chunks_exact(ROWS).zip(right.chunks_exact(V)) {
                for i in 0..ROWS {
                    let a = simd.$splat(a[i]);
                    for j in 0..V {
                        tile[i][j] = simd.$add(tile[i][j], simd.$mul(a, b[j]));
                    }
                }
            }
            for (row, sums) in tile.iter().zip(sums.chunks_exact_mut(V)) {
                sums.copy_from_slice(row);
            }
        }
    };
}
vector_tile!(tile_f32, f32, as_simd_f32s, as_mut_simd_f32s, splat_f32s, add_f32s, mul_f32s);
vector_tile!(tile_f64, f64, as_simd_f64s, as_mut_simd_f64s, splat_f64s, add_f64s, mul_f64s);

macro_rules! float_arithmetic {
    ($t:ident, $columns:expr, $tile:ident, $lanes:ident) => {
        impl Arithmetic for $t {
            const COLUMNS: usize = $columns;

            #[inline(always)]
            fn plus_product(sum: $t, a: $t, b: $t) -> $t {
                sum + a * b
            }
            #[inline(always)]
            fn multiply_tile<S: Simd>(simd: S, left: &[$t], right: &[$t], sums: &mut [$t]) {
                match $columns / S::$lanes {
                    1 => $tile::<S, 1>(simd, left, right, sums),
                    2 => $tile::<S, 2>(simd, left, right, sums),
                    4 => $tile::<S, 4>(simd, left, right, sums),
                    _ => $tile::<S, $columns>(simd, left, right, sums),
                }
            }
        }
    };
}
float_arithmetic!(f32, 16, tile_f32, F32_LANES);
float_arithmetic!(f64, 8, tile_f64, F64_LANES);

impl Arithmetic for i64 {
    #[inline(always)]
    fn plus_product(sum: i64, a: i64, b: i64) -> i64 {
        sum.wrapping_add(a.wrapping_mul(b))
    }
}

impl Arithmetic for bool {
    #[inline(always)]
    fn plus_product(sum: bool, a: bool, b: bool) -> bool {
        sum | (a & b)
    }
}

impl Arithmetic for Complex {
    #[inline(always)]
    fn plus_product(sum: Complex, a: Complex, b: Complex) -> Complex {
        sum + a * b
    }
}

/// Where the elements of one operand are: offsets per batch entry, per free index and per contracted index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Offsets {
    pub(crate) batch: Vec<usize>,
    pub(crate) free: Vec<usize>,
    pub(crate) contract: Vec<usize>,
}

/// The offsets of all index tuples over some dimensions, given as (size, stride), outermost first.
pub(crate) fn offsets(dims: &[(usize, usize)]) -> Vec<usize> {
    dims.iter().fold(vec![0], |outer, &(n, stride)| outer.iter().flat_map(|&o| (0..n).map(move |i| o + i * stride)).collect())
}

/// The definition, literally.
#[cfg(test)]
pub(crate) fn naive<T: Arithmetic>(lhs: &[T], l: &Offsets, rhs: &[T], r: &Offsets) -> Vec<T> {
    let mut out = Vec::new();
    for (lb, rb) in l.batch.iter().zip(&r.batch) {
        for lm in &l.free {
            for rn in &r.free {
                let terms = l.contract.iter().zip(&r.contract);
                out.push(terms.fold(T::default(), |sum, (lk, rk)| T::plus_product(sum, lhs[lb + lm + lk], rhs[rb + rn + rk])));
            }
        }
    }
    out
}

/// Contracted indices per block: a panel of the right operand then stays in the first-level cache.
const DEPTH: usize = 256;
/// Rows per block: the packed block of the left operand stays in the second-level cache.
const BLOCK_ROWS: usize = ROWS * 12;
/// Multiplications below which threads cost more than they bring.
const WORTH_THREADS: usize = 1 << 22;

/// The product in blocks; equal to the naive form bit by bit.
pub(crate) fn blocked<T: Arithmetic>(lhs: &[T], l: &Offsets, rhs: &[T], r: &Offsets) -> Vec<T> {
    let (batches, m, n) = (l.batch.len(), l.free.len(), r.free.len());
    let mut out = vec![T::default(); batches * m * n];
    if out.is_empty() || l.contract.is_empty() {
        return out;
    }
    let work = batches * m * n * l.contract.len();
    let threads = if work < WORTH_THREADS { 1 } else { std::thread::available_parallelism().map_or(1, |t| t.get().min(8)) };
    let batch = |b: usize, out: &mut [T], rows: Range<usize>, packed: &[T]| {
        pulp::Arch::new().dispatch(Rows { lhs, l, batch: b, rows, right: packed, n, out });
    };
    if threads == 1 || batches >= threads {
        // Whole batch entries a thread.
        let share = batches.div_ceil(threads);
        std::thread::scope(|scope| {
            for (i, out) in out.chunks_mut(share * m * n).enumerate() {
                let mut run = move || {
                    let mut packed = Vec::new();
                    for (j, out) in out.chunks_mut(m * n).enumerate() {
                        pack_right(rhs, r, i * share + j, &mut packed);
                        batch(i * share + j, out, 0..m, &packed);
                    }
                };
                if threads == 1 {
                    run();
                } else {
                    scope.spawn(run);
                }
            }
        });
    } else {
        // Rows of each batch entry are shared out.
        let share = m.div_ceil(threads).next_multiple_of(ROWS);
        let mut packed = Vec::new();
        for (b, out) in out.chunks_mut(m * n).enumerate() {
            pack_right(rhs, r, b, &mut packed);
            let packed = &packed;
            std::thread::scope(|scope| {
                for (i, out) in out.chunks_mut(share * n).enumerate() {
                    let rows = i * share..(i * share + share).min(m);
                    scope.spawn(move || batch(b, out, rows, packed));
                }
            });
        }
    }
    out
}

/// The right operand of one batch entry as panels of `COLUMNS` columns, each row-major over the contracted index, zero beyond the last column.
fn pack_right<T: Arithmetic>(rhs: &[T], r: &Offsets, batch: usize, packed: &mut Vec<T>) {
    let (n, depth, base) = (r.free.len(), r.contract.len(), r.batch[batch]);
    packed.clear();
    packed.resize(n.div_ceil(T::COLUMNS) * T::COLUMNS * depth, T::default());
    for (p, panel) in packed.chunks_exact_mut(T::COLUMNS * depth).enumerate() {
        let columns = &r.free[p * T::COLUMNS..(p * T::COLUMNS + T::COLUMNS).min(n)];
        let contiguous = columns.windows(2).all(|w| w[1] == w[0] + 1);
        if contiguous {
            for (row, &k) in panel.chunks_exact_mut(T::COLUMNS).zip(&r.contract) {
                let at = base + columns[0] + k;
                row[..columns.len()].copy_from_slice(&rhs[at..at + columns.len()]);
            }
        } else {
            for (j, &column) in columns.iter().enumerate() {
                let source = &rhs[base + column..];
                for (row, &k) in panel.chunks_exact_mut(T::COLUMNS).zip(&r.contract) {
                    row[j] = source[k];
                }
            }
        }
    }
}

/// A block of rows of the left operand as panels of `ROWS` rows, each column-major, zero beyond the last row.
#[inline(always)]
fn pack_left<T: Arithmetic>(lhs: &[T], rows: &[usize], base: usize, contract: &[usize], packed: &mut Vec<T>) {
    packed.clear();
    packed.resize(rows.len().div_ceil(ROWS) * ROWS * contract.len(), T::default());
    for (panel, rows) in packed.chunks_exact_mut(ROWS * contract.len()).zip(rows.chunks(ROWS)) {
        for (i, &row) in rows.iter().enumerate() {
            let source = &lhs[base + row..];
            for (column, &k) in panel.chunks_exact_mut(ROWS).zip(contract) {
                column[i] = source[k];
            }
        }
    }
}

/// Some rows of one batch entry, to be computed into `out` with the best instructions that the machine has.
struct Rows<'a, T> {
    lhs: &'a [T],
    l: &'a Offsets,
    batch: usize,
    rows: Range<usize>,
    right: &'a [T],
    n: usize,
    out: &'a mut [T],
}

impl<T: Arithmetic> WithSimd for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Rows { lhs, l, batch, rows, right, n, out } = self;
        let depth = l.contract.len();
        let mut left = Vec::new();
        for k0 in (0..depth).step_by(DEPTH) {
            let block = DEPTH.min(depth - k0);
            for r0 in (0..rows.len()).step_by(BLOCK_ROWS) {
                let height = BLOCK_ROWS.min(rows.len() - r0);
                let first = rows.start + r0;
                pack_left(lhs, &l.free[first..first + height], l.batch[batch], &l.contract[k0..k0 + block], &mut left);
                for (p, panel) in right.chunks_exact(T::COLUMNS * depth).enumerate() {
                    let panel = &panel[k0 * T::COLUMNS..(k0 + block) * T::COLUMNS];
                    let width = T::COLUMNS.min(n - p * T::COLUMNS);
                    for (q, rows) in left.chunks_exact(ROWS * block).enumerate() {
                        let top = r0 + q * ROWS;
                        let tile = &mut out[top * n + p * T::COLUMNS..];
                        add_tile(simd, rows, panel, tile, n, ROWS.min(r0 + height - top), width);
                    }
                }
            }
        }
    }
}

/// Adds the product of two packed panels to a tile of `out` of which `height` rows and `width` columns exist.
#[inline(always)]
fn add_tile<T: Arithmetic, S: Simd>(simd: S, left: &[T], right: &[T], out: &mut [T], stride: usize, height: usize, width: usize) {
    let mut sums = [T::default(); ROWS * MOST_COLUMNS];
    let sums = &mut sums[..ROWS * T::COLUMNS];
    for (row, sums) in sums.chunks_exact_mut(T::COLUMNS).enumerate().take(height) {
        sums[..width].copy_from_slice(&out[row * stride..row * stride + width]);
    }
    T::multiply_tile(simd, left, right, sums);
    for (row, sums) in sums.chunks_exact(T::COLUMNS).enumerate().take(height) {
        out[row * stride..row * stride + width].copy_from_slice(&sums[..width]);
    }
}
