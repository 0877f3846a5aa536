//! Matrix products on strided operands, by the `gemm` crate on one thread.
//!
//! Batch extents are merged where strides allow: into each other, into the rows (when B is shared) or into the columns (when A is shared), so that what is
//! really one product is called once. `bf16` and `f16` are converted block by block into scratch of a stated size and multiplied and accumulated in `f32`;
//! the result is rounded once. Integer products take a plain loop.

use crate::element::Element;
use crate::with_element;
use gemm::Parallelism;
use half::{bf16, f16};
use ir::program::{BatchDim, MatMul};
use ir::{DType, Diagnostic};

/// Rows, columns and depth of a converted block.
const BLOCK: (usize, usize, usize) = (256, 512, 512);

/// Bytes of scratch a device holds for products: the converted blocks here, and what `gemm` packs into (its own, bounded by the processor's caches).
pub const SCRATCH_BYTES: usize = 4 * (BLOCK.0 * BLOCK.2 + BLOCK.2 * BLOCK.1 + BLOCK.0 * BLOCK.1);

/// Blocks for conversion, allocated once when some product needs them.
pub(super) struct Scratch {
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Scratch {
    pub(super) fn new(converts: bool) -> Scratch {
        let size = |n: usize| if converts { n } else { 0 };
        Scratch { a: vec![0.0; size(BLOCK.0 * BLOCK.2)], b: vec![0.0; size(BLOCK.2 * BLOCK.1)], c: vec![0.0; size(BLOCK.0 * BLOCK.1)] }
    }
    pub(super) fn bytes(&self) -> usize {
        4 * (self.a.len() + self.b.len() + self.c.len())
    }
}

/// How the elements are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arithmetic {
    F32,
    F64,
    /// Operands and result of 16 bits or `f32`, through `f32` blocks.
    Converted(DType, DType),
    Integer(DType, DType),
}

/// A matrix without its data: strides in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Strides {
    row: isize,
    column: isize,
}

/// A prepared product.
#[derive(Debug)]
pub(super) struct Product {
    arithmetic: Arithmetic,
    batch: Vec<BatchDim>,
    m: usize,
    n: usize,
    k: usize,
    a: Strides,
    b: Strides,
    c: Strides,
    offsets: (usize, usize, usize),
    accumulate: bool,
}

impl Product {
    /// Prepares a product.
    pub(super) fn new(d: &MatMul) -> Result<Product, Diagnostic> {
        let narrow = |t| matches!(t, DType::BF16 | DType::F16 | DType::F32);
        let arithmetic = match (d.dtype, d.result) {
            (DType::F32, DType::F32) => Arithmetic::F32,
            (DType::F64, DType::F64) => Arithmetic::F64,
            (t, r) if narrow(t) && narrow(r) => Arithmetic::Converted(t, r),
            (t, r) if t.is_integer() && r.is_integer() && t != DType::I1 && r != DType::I1 => Arithmetic::Integer(t, r),
            (t, r) => return Err(Diagnostic::input("E0604", format!("the cpu device cannot execute a matrix product of {t} with result {r}"))),
        };
        let strides = |s: (u64, u64)| Strides { row: s.0 as isize, column: s.1 as isize };
        let mut p = Product {
            arithmetic,
            batch: Vec::new(),
            m: d.m as usize,
            n: d.n as usize,
            k: d.k as usize,
            a: strides(d.a_strides),
            b: strides(d.b_strides),
            c: strides(d.c_strides),
            offsets: (d.offsets.0 as usize, d.offsets.1 as usize, d.offsets.2 as usize),
            accumulate: d.accumulate,
        };
        let mut batch: Vec<BatchDim> = d.batch.iter().filter(|b| b.size != 1).cloned().collect();
        while let Some(dim) = batch.pop() {
            let [a, b, c, size] = [dim.a, dim.b, dim.c, dim.size].map(|s| s as isize);
            let continues = |stride: isize, inner: isize, extent: usize| stride == inner * extent as isize || extent == 1;
            if b == 0 && continues(a, p.a.row, p.m) && continues(c, p.c.row, p.m) && size > 0 {
                if p.m == 1 {
                    (p.a.row, p.c.row) = (a, c);
                }
                p.m *= size as usize;
            } else if a == 0 && continues(b, p.b.column, p.n) && continues(c, p.c.column, p.n) && size > 0 {
                if p.n == 1 {
                    (p.b.column, p.c.column) = (b, c);
                }
                p.n *= size as usize;
            } else if let Some(inner) = p.batch.first_mut()
                && [(dim.a, inner.a), (dim.b, inner.b), (dim.c, inner.c)].iter().all(|(outer, i)| *outer == i * inner.size)
            {
                inner.size *= dim.size;
            } else {
                p.batch.insert(0, dim);
            }
        }
        Ok(p)
    }
    /// Whether it needs [`Scratch`].
    pub(super) fn converts(&self) -> bool {
        matches!(self.arithmetic, Arithmetic::Converted(..))
    }
    /// One past the largest element of A, B and C that is touched.
    pub(super) fn elements(&self, d: &MatMul) -> (u64, u64, u64) {
        let empty = d.batch.iter().any(|b| b.size == 0);
        let reach = |n: u64, stride: u64| n.saturating_sub(1) * stride;
        let of = |stride: fn(&BatchDim) -> u64, x: (u64, u64), y: (u64, u64), offset: u64| {
            let batch = || d.batch.iter().map(|b| reach(b.size, stride(b))).sum::<u64>();
            if empty || x.0 == 0 || y.0 == 0 { 0 } else { 1 + offset + batch() + reach(x.0, x.1) + reach(y.0, y.1) }
        };
        (
            of(|b| b.a, (d.m, d.a_strides.0), (d.k, d.a_strides.1), d.offsets.0),
            of(|b| b.b, (d.k, d.b_strides.0), (d.n, d.b_strides.1), d.offsets.1),
            of(|b| b.c, (d.m, d.c_strides.0), (d.n, d.c_strides.1), d.offsets.2),
        )
    }

    /// Multiplies.
    ///
    /// # Safety
    /// The operands hold at least [`Product::elements`] elements of the right types, and C overlaps neither A nor B.
    pub(super) unsafe fn run(&self, a: *const u8, b: *const u8, c: *mut u8, scratch: &mut Scratch) {
        // SAFETY: the offsets visited are below `elements`.
        unsafe {
            match self.arithmetic {
                Arithmetic::F32 => self.each(|x, y, z| self.direct(a.cast::<f32>().add(x), b.cast::<f32>().add(y), c.cast::<f32>().add(z), 1.0)),
                Arithmetic::F64 => self.each(|x, y, z| self.direct(a.cast::<f64>().add(x), b.cast::<f64>().add(y), c.cast::<f64>().add(z), 1.0)),
                Arithmetic::Converted(t, r) => {
                    let (t_bytes, r_bytes) = (t.bytes() as usize, r.bytes() as usize);
                    self.each(|x, y, z| self.converted(t, r, a.add(x * t_bytes), b.add(y * t_bytes), c.add(z * r_bytes), scratch));
                }
                Arithmetic::Integer(t, r) => {
                    let (t_bytes, r_bytes) = (t.bytes() as usize, r.bytes() as usize);
                    self.each(|x, y, z| self.integer(t, r, a.add(x * t_bytes), b.add(y * t_bytes), c.add(z * r_bytes)));
                }
            }
        }
    }

    /// Calls `f` with the element offsets of A, B and C of every batch entry.
    #[inline(always)]
    fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        match self.batch.as_slice() {
            [] => f(self.offsets.0, self.offsets.1, self.offsets.2),
            dims => {
                let total: u64 = dims.iter().map(|d| d.size).product();
                for linear in 0..total {
                    let (mut rest, mut x, mut y, mut z) = (linear, 0, 0, 0);
                    for d in dims.iter().rev() {
                        let i = rest % d.size;
                        rest /= d.size;
                        (x, y, z) = (x + i * d.a, y + i * d.b, z + i * d.c);
                    }
                    f(self.offsets.0 + x as usize, self.offsets.1 + y as usize, self.offsets.2 + z as usize);
                }
            }
        }
    }

    /// # Safety
    /// As [`Product::run`], for one batch entry.
    unsafe fn direct<T: 'static + Copy>(&self, a: *const T, b: *const T, c: *mut T, one: T) {
        // SAFETY: as the caller vouches.
        unsafe { multiply((self.m, self.n, self.k), (a, self.a), (b, self.b), (c, self.c), self.accumulate, one) }
    }

    /// # Safety
    /// As [`Product::run`], for one batch entry.
    unsafe fn converted(&self, t: DType, r: DType, a: *const u8, b: *const u8, c: *mut u8, scratch: &mut Scratch) {
        let (t_bytes, r_bytes) = (t.bytes() as isize, r.bytes() as isize);
        for j in (0..self.n).step_by(BLOCK.1) {
            let columns = BLOCK.1.min(self.n - j);
            for i in (0..self.m).step_by(BLOCK.0) {
                let rows = BLOCK.0.min(self.m - i);
                let held = Strides { row: columns as isize, column: 1 };
                // SAFETY: blocks lie inside the operands, and scratch holds the largest block.
                unsafe {
                    let corner = c.offset((i as isize * self.c.row + j as isize * self.c.column) * r_bytes);
                    if self.accumulate {
                        load(r, corner, self.c, (rows, columns), &mut scratch.c, held);
                    }
                    if self.k == 0 && !self.accumulate {
                        scratch.c[..rows * columns].fill(0.0);
                    }
                    for l in (0..self.k).step_by(BLOCK.2) {
                        let depth = BLOCK.2.min(self.k - l);
                        // A block is kept in the order it lies in, so that conversion walks along memory.
                        let a_held = ordered(self.a, (rows, depth));
                        let b_held = ordered(self.b, (depth, columns));
                        load(t, a.offset((i as isize * self.a.row + l as isize * self.a.column) * t_bytes), self.a, (rows, depth), &mut scratch.a, a_held);
                        load(t, b.offset((l as isize * self.b.row + j as isize * self.b.column) * t_bytes), self.b, (depth, columns), &mut scratch.b, b_held);
                        let c = (scratch.c.as_mut_ptr(), held);
                        multiply((rows, columns, depth), (scratch.a.as_ptr(), a_held), (scratch.b.as_ptr(), b_held), c, self.accumulate || l > 0, 1.0);
                    }
                    store(r, corner, self.c, (rows, columns), &scratch.c);
                }
            }
        }
    }

    /// # Safety
    /// As [`Product::run`], for one batch entry.
    unsafe fn integer(&self, t: DType, r: DType, a: *const u8, b: *const u8, c: *mut u8) {
        // SAFETY: as the caller vouches.
        unsafe {
            for i in 0..self.m as isize {
                for j in 0..self.n as isize {
                    let target = i * self.c.row + j * self.c.column;
                    let mut sum = if self.accumulate { integer_at(r, c, target) } else { 0 };
                    for l in 0..self.k as isize {
                        let x = integer_at(t, a, i * self.a.row + l * self.a.column);
                        let y = integer_at(t, b, l * self.b.row + j * self.b.column);
                        sum = sum.wrapping_add(x.wrapping_mul(y));
                    }
                    let bytes = sum.to_le_bytes();
                    let width = r.bytes() as usize;
                    let bytes = match r {
                        DType::I2 | DType::I4 => [(sum << (64 - r.bits()) >> (64 - r.bits())) as u8; 8],
                        DType::UI2 | DType::UI4 => [(sum & ((1 << r.bits()) - 1)) as u8; 8],
                        _ => bytes,
                    };
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), c.offset(target * width as isize), width);
                }
            }
        }
    }
}

/// The integer element at an index, 64-bit unsigned ones wrapped.
///
/// # Safety
/// The element can be read.
unsafe fn integer_at(t: DType, data: *const u8, index: isize) -> i64 {
    // SAFETY: as the caller vouches.
    unsafe {
        if t == DType::UI64 {
            return data.cast::<i64>().offset(index).read_unaligned();
        }
        with_element!(t, T => data.cast::<T>().offset(index).read_unaligned().to_i64(), otherwise 0)
    }
}

/// Dense strides of a block in the order of the matrix it comes from.
fn ordered(strides: Strides, (rows, columns): (usize, usize)) -> Strides {
    if strides.row < strides.column { Strides { row: 1, column: rows as isize } } else { Strides { row: columns as isize, column: 1 } }
}

/// `C (+)= A·B` of one thread.
///
/// # Safety
/// All elements of the three matrices are inside their memory; C overlaps neither A nor B.
unsafe fn multiply<T: 'static + Copy>(
    (m, n, k): (usize, usize, usize),
    (a, sa): (*const T, Strides),
    (b, sb): (*const T, Strides),
    (c, sc): (*mut T, Strides),
    accumulate: bool,
    one: T,
) {
    // SAFETY: as the caller vouches; `gemm` reads C only when told to.
    unsafe {
        gemm::gemm(m, n, k, c, sc.column, sc.row, accumulate, a, sa.column, sa.row, b, sb.column, sb.row, one, one, false, false, false, Parallelism::None);
    }
}

/// Converts a strided block to `f32`.
///
/// # Safety
/// The block can be read; `to` has room for it under the strides `held`.
unsafe fn load(t: DType, from: *const u8, strides: Strides, (rows, columns): (usize, usize), to: &mut [f32], held: Strides) {
    #[inline(always)]
    unsafe fn typed<T: Element<Wide = f32>>(from: *const T, strides: Strides, (rows, columns): (usize, usize), to: &mut [f32], held: Strides) {
        let (outer, inner, so, si) =
            if held.row == 1 && held.column != 1 { (columns, rows, strides.column, strides.row) } else { (rows, columns, strides.row, strides.column) };
        for (i, line) in to.chunks_exact_mut(inner.max(1)).take(outer).enumerate() {
            // SAFETY: the caller vouches for every element of the block.
            unsafe {
                let from = from.offset(i as isize * so);
                if si == 1 {
                    for (j, x) in line.iter_mut().enumerate() {
                        *x = from.add(j).read().widen();
                    }
                } else {
                    for (j, x) in line.iter_mut().enumerate() {
                        *x = from.offset(j as isize * si).read().widen();
                    }
                }
            }
        }
    }
    // SAFETY: as the caller vouches.
    unsafe {
        match t {
            DType::BF16 => typed(from.cast::<bf16>(), strides, (rows, columns), to, held),
            DType::F16 => typed(from.cast::<f16>(), strides, (rows, columns), to, held),
            _ => typed(from.cast::<f32>(), strides, (rows, columns), to, held),
        }
    }
}

/// Rounds a row-major block of `f32` into a strided one.
///
/// # Safety
/// The block can be written.
unsafe fn store(t: DType, to: *mut u8, strides: Strides, (rows, columns): (usize, usize), from: &[f32]) {
    #[inline(always)]
    unsafe fn typed<T: Element<Wide = f32>>(to: *mut T, strides: Strides, (rows, columns): (usize, usize), from: &[f32]) {
        for (i, line) in from.chunks_exact(columns.max(1)).take(rows).enumerate() {
            for (j, x) in line.iter().enumerate() {
                // SAFETY: the caller vouches for every element of the block.
                unsafe { to.offset(i as isize * strides.row + j as isize * strides.column).write(T::narrow(*x)) };
            }
        }
    }
    // SAFETY: as the caller vouches.
    unsafe {
        match t {
            DType::BF16 => typed(to.cast::<bf16>(), strides, (rows, columns), from),
            DType::F16 => typed(to.cast::<f16>(), strides, (rows, columns), from),
            _ => typed(to.cast::<f32>(), strides, (rows, columns), from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::literal::{decode, encode};
    use proptest::prelude::*;

    fn operand(t: DType, elements: u64, seed: usize) -> Vec<u8> {
        (0..elements as usize).flat_map(|i| encode(t, ((i * 37 + seed * 11) % 17) as f64 / 4.0 - 2.0 + if t.is_integer() { 2.0 } else { 0.0 })).collect()
    }

    fn at(t: DType, bytes: &[u8], index: u64) -> f64 {
        decode(t, &bytes[index as usize * t.bytes() as usize..]).unwrap()
    }

    fn check(d: &MatMul) {
        let p = Product::new(d).unwrap();
        let (ea, eb, ec) = p.elements(d);
        let (a, b, mut c) = (operand(d.dtype, ea, 1), operand(d.dtype, eb, 2), operand(d.result, ec, 3));
        let mut expected = c.clone();
        let total: u64 = d.batch.iter().map(|x| x.size).product();
        for linear in 0..total {
            let (mut rest, mut x, mut y, mut z) = (linear, d.offsets.0, d.offsets.1, d.offsets.2);
            for dim in d.batch.iter().rev() {
                let i = rest % dim.size;
                rest /= dim.size;
                (x, y, z) = (x + i * dim.a, y + i * dim.b, z + i * dim.c);
            }
            for i in 0..d.m {
                for j in 0..d.n {
                    let target = z + i * d.c_strides.0 + j * d.c_strides.1;
                    let mut sum = if d.accumulate { at(d.result, &expected, target) } else { 0.0 };
                    for l in 0..d.k {
                        sum += at(d.dtype, &a, x + i * d.a_strides.0 + l * d.a_strides.1) * at(d.dtype, &b, y + l * d.b_strides.0 + j * d.b_strides.1);
                    }
                    let w = d.result.bytes() as usize;
                    expected[target as usize * w..][..w].copy_from_slice(&encode(d.result, sum));
                }
            }
        }
        let mut scratch = Scratch::new(p.converts());
        // SAFETY: the operands have exactly the elements the product states.
        unsafe { p.run(a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), &mut scratch) };
        for i in 0..ec {
            let (e, g) = (at(d.result, &expected, i), at(d.result, &c, i));
            let tolerance = if d.result.bytes() == 2 { 0.02 } else { 1e-4 };
            assert!((e - g).abs() <= tolerance * (1.0 + e.abs()), "{d:?}: element {i} is {g} and should be {e}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn products_agree_with_the_definition(
            (m, n, k) in (1u64..20, 1u64..20, 1u64..20),
            batch in prop::collection::vec((1u64..4, any::<bool>(), any::<bool>()), 0..3),
            (ta, tb, tc) in (any::<bool>(), any::<bool>(), any::<bool>()),
            accumulate in any::<bool>(),
            offsets in (0u64..3, 0u64..3, 0u64..3),
            types in prop::sample::select(vec![
                (DType::F32, DType::F32), (DType::F64, DType::F64), (DType::BF16, DType::F32), (DType::BF16, DType::BF16), (DType::F16, DType::F16), (DType::I8, DType::I32),
            ]),
        ) {
            // Each operand is dense in its own order; batch extents may be shared by A or by B.
            let strides = |r: u64, c: u64, t: bool| if t { (1, r) } else { (c, 1) };
            let (mut sa, mut sb, mut sc) = (m * k, k * n, m * n);
            let mut dims: Vec<BatchDim> = batch.iter().rev().map(|&(size, share_a, share_b)| {
                let d = BatchDim { size, a: if share_a { 0 } else { sa }, b: if share_b { 0 } else { sb }, c: sc };
                if !share_a { sa *= size; }
                if !share_b { sb *= size; }
                sc *= size;
                d
            }).collect();
            dims.reverse();
            check(&MatMul {
                batch: dims, m, n, k, offsets,
                a_strides: strides(m, k, ta), b_strides: strides(k, n, tb), c_strides: strides(m, n, tc),
                dtype: types.0, result: types.1, accumulate,
            });
        }
    }

    #[test]
    fn products_larger_than_a_block_are_converted_in_pieces() {
        let d = MatMul {
            batch: vec![],
            m: 300,
            n: 530,
            k: 600,
            offsets: (0, 0, 0),
            a_strides: (600, 1),
            b_strides: (1, 600),
            c_strides: (530, 1),
            dtype: DType::BF16,
            result: DType::F32,
            accumulate: true,
        };
        check(&d);
    }

    #[test]
    fn a_batch_over_shared_weights_is_one_product() {
        let d = MatMul {
            batch: vec![BatchDim { size: 4, a: 60, b: 0, c: 80 }, BatchDim { size: 3, a: 20, b: 0, c: 80 / 3 }],
            m: 1,
            n: 8,
            k: 5,
            offsets: (0, 0, 0),
            a_strides: (5, 1),
            b_strides: (8, 1),
            c_strides: (8, 1),
            dtype: DType::F32,
            result: DType::F32,
            accumulate: false,
        };
        let folded = Product::new(&MatMul { batch: vec![BatchDim { size: 4, a: 15, b: 0, c: 24 }], m: 3, ..d.clone() }).unwrap();
        assert!(folded.batch.is_empty());
        assert_eq!((folded.m, folded.a.row, folded.c.row), (12, 5, 8));
        assert!(!Product::new(&d).unwrap().batch.is_empty());
    }
}
