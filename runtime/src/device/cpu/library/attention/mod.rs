//! Attention and its derivative in blocks of queries and keys, so that scores stay in the processor's caches.
//!
//! For every head and block of queries: scores against a block of keys (a product), their exponentials relative to the greatest score so far, and their
//! product with the values, added to what earlier blocks gave once that is brought to the same greatest score. The derivative computes scores anew and
//! knows each row's statistics. Blocks that a causal attention does not see are left out. Strides say where elements are, so any order of dimensions is
//! read in place. Products are `gemm`'s, in `f32`; `bf16` and `f16` are converted a head of keys and a block of queries at a time.
//! Invariant: all memory beside operands and results is in the device's scratch, whose size is fixed when loading; the score matrix is never there whole.

mod backward;
mod forward;
mod rows;

use super::Scratch;
use crate::element::Element;
use gemm::Parallelism;
use half::{bf16, f16};
use ir::{Attention as Description, AttentionDim, DType, TensorType};

/// Queries of a block.
const QUERIES: usize = 64;
/// Keys of a block.
const KEYS: usize = 256;

/// Strides, in elements, of a matrix inside a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Strides {
    row: usize,
    column: usize,
}

/// A matrix of `f32`.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    data: *const f32,
    strides: Strides,
}

impl Matrix {
    /// The matrix from row `r` on.
    fn rows_from(self, r: usize) -> Matrix {
        Matrix { data: self.data.wrapping_add(r * self.strides.row), ..self }
    }
    fn transposed(self) -> Matrix {
        Matrix { strides: Strides { row: self.strides.column, column: self.strides.row }, ..self }
    }
}

/// A batch dimension: its extent, and per parameter its stride.
#[derive(Clone, Debug)]
struct Loop {
    extent: usize,
    strides: Vec<usize>,
}

/// A prepared attention or derivative.
pub(in crate::device::cpu) struct Attention {
    dtype: DType,
    /// Per parameter (operands, then results): bytes of an element, and where a head's matrix has its rows and columns.
    bytes: Vec<usize>,
    strides: Vec<Strides>,
    /// Batch dimensions that keys and values have, then those that share them.
    outer: Vec<Loop>,
    inner: Vec<Loop>,
    /// Those that the bias's gradient has.
    cleared: Vec<Loop>,
    queries: usize,
    keys: usize,
    depth: usize,
    value: usize,
    scale: f32,
    causal: bool,
    /// Number and element type of the bias, number of the offset.
    bias: Option<(usize, DType)>,
    offset: Option<usize>,
    /// Number of the first result.
    results: usize,
    backward: bool,
}

/// Where the parts of scratch are, in elements, scores first.
struct Parts {
    slopes: usize,
    queries: usize,
    gradients: usize,
    rows: usize,
    statistics: usize,
    keys: usize,
    values: usize,
    key_sums: usize,
    value_sums: usize,
    end: usize,
}

impl Attention {
    pub(super) fn forward(a: &Description, operands: &[TensorType], results: &[TensorType], scratch: &mut Scratch) -> Result<Attention, String> {
        let dims = [a.operand_dims(), vec![a.o.clone(), a.lse()]].concat();
        Attention::new(a, &dims, operands, results, false, scratch)
    }

    pub(super) fn backward(a: &Description, bias: bool, operands: &[TensorType], results: &[TensorType], scratch: &mut Scratch) -> Result<Attention, String> {
        let batch = |dims: &[AttentionDim]| a.batch().into_iter().filter(|d| dims.contains(d)).collect::<Vec<_>>();
        if batch(&a.k) != batch(&a.v) {
            return Err(format!("keys and values differ in their batch dimensions: {a}"));
        }
        if bias && results.get(3).is_none_or(|t| t.dtype != DType::F32) {
            return Err("the gradient of its bias is not f32".into());
        }
        let dims = [a.gradient_operand_dims(), a.gradient_dims(bias)].concat();
        Attention::new(a, &dims, operands, results, true, scratch)
    }

    fn new(
        a: &Description,
        dims: &[Vec<AttentionDim>],
        operands: &[TensorType],
        results: &[TensorType],
        backward: bool,
        scratch: &mut Scratch,
    ) -> Result<Attention, String> {
        let types: Vec<&TensorType> = operands.iter().collect();
        let inferred = if backward { a.gradient_results(&types, results.len() > 3) } else { a.results(&types) }?;
        if inferred != results {
            return Err("its results have other types than its operands give".into());
        }
        let dtype = operands[0].dtype;
        if !matches!(dtype, DType::F32 | DType::BF16 | DType::F16) {
            return Err(format!("it takes {dtype}"));
        }
        let first = if backward { 6 } else { 3 };
        let bias = a.bias.as_ref().map(|_| (first, operands[first].dtype));
        if bias.is_some_and(|(_, t)| !matches!(t, DType::F32 | DType::BF16 | DType::F16 | DType::I1)) {
            return Err(format!("its bias is {}", operands[first]));
        }
        let all: Vec<&TensorType> = operands.iter().chain(results).collect();
        let stride = |p: usize, d: AttentionDim| dims[p].iter().position(|x| *x == d).map_or(0, |i| all[p].strides()[i] as usize);
        let extent = |d: AttentionDim| a.extent(&types, d).unwrap_or(0) as usize;
        use AttentionDim::{Depth, Key, Query, Value};
        // Queries are rows where there are any (a bias has keys as columns), else keys are.
        let strides = (0..all.len())
            .map(|p| {
                let has = |d| dims[p].contains(&d);
                let is_bias = bias.is_some_and(|b| b.0 == p) || (backward && p == operands.len() + 3);
                let row = if has(Query) || is_bias { Query } else { Key };
                let column = if is_bias {
                    Key
                } else if has(Depth) {
                    Depth
                } else {
                    Value
                };
                Strides { row: stride(p, row), column: stride(p, column) }
            })
            .collect();
        let loops = |sharing: bool| -> Vec<Loop> {
            let batch = a.batch().into_iter().filter(|d| (a.k.contains(d) || a.v.contains(d)) != sharing && extent(*d) != 1);
            batch.map(|d| Loop { extent: extent(d), strides: (0..all.len()).map(|p| stride(p, d)).collect() }).collect()
        };
        let (outer, inner) = (loops(false), loops(true));
        let own = |l: &&Loop| all.len() > operands.len() + 3 && l.strides[operands.len() + 3] != 0;
        let attention = Attention {
            dtype,
            cleared: outer.iter().chain(&inner).filter(own).cloned().collect(),
            bytes: all.iter().map(|t| t.dtype.bytes() as usize).collect(),
            strides,
            outer,
            inner,
            queries: extent(Query),
            keys: extent(Key),
            depth: extent(Depth),
            value: extent(Value),
            scale: a.scale.0 as f32,
            causal: a.causal,
            bias,
            offset: a.offset.then(|| operands.len() - 1),
            results: operands.len(),
            backward,
        };
        scratch.reserve(attention.parts().end * 4);
        Ok(attention)
    }

    /// Distance of rows of scores.
    fn pitch(&self) -> usize {
        self.keys.min(KEYS).next_multiple_of(rows::LANES)
    }

    fn parts(&self) -> Parts {
        let mut end = 0;
        let mut part = |elements: usize| {
            let start = end;
            end += elements.next_multiple_of(rows::LANES);
            start
        };
        let q = self.queries.min(QUERIES);
        let (narrow, backward) = (self.dtype != DType::F32, self.backward);
        let when = |needed: bool, n: usize| if needed { n } else { 0 };
        part(q * self.pitch());
        Parts {
            slopes: part(when(backward, q * self.pitch())),
            queries: part(when(narrow, q * self.depth)),
            gradients: part(when(narrow && backward, q * self.value)),
            rows: part(q * if backward { self.depth } else { self.value }),
            statistics: part(2 * q),
            keys: part(when(narrow, self.keys * self.depth)),
            values: part(when(narrow, self.keys * self.value)),
            key_sums: part(when(narrow && backward, self.keys * self.depth)),
            value_sums: part(when(narrow && backward, self.keys * self.value)),
            end,
        }
    }

    /// # Safety
    /// As [`Routine::run`](super::Routine::run).
    pub(super) unsafe fn run(&self, parameters: &[*mut u8], scratch: &mut Scratch) {
        // SAFETY: as the caller vouches; scratch is as large as was reserved, and `u64` is at least as aligned as `f32`.
        unsafe {
            let scratch = std::slice::from_raw_parts_mut(scratch.block.as_mut_ptr().cast::<f32>(), scratch.block.len() * 2);
            match (self.dtype, self.backward) {
                (DType::BF16, false) => self.run_forward::<bf16>(parameters, scratch),
                (DType::F16, false) => self.run_forward::<f16>(parameters, scratch),
                (_, false) => self.run_forward::<f32>(parameters, scratch),
                (DType::BF16, true) => self.run_backward::<bf16>(parameters, scratch),
                (DType::F16, true) => self.run_backward::<f16>(parameters, scratch),
                (_, true) => self.run_backward::<f32>(parameters, scratch),
            }
        }
    }

    /// Calls `f` with the parameters moved to every entry of some batch dimensions.
    fn each(&self, loops: &[Loop], parameters: &[*mut u8], f: &mut dyn FnMut(&[*mut u8])) {
        let Some((first, rest)) = loops.split_first() else { return f(parameters) };
        let mut moved = [std::ptr::null_mut(); MOST_PARAMETERS];
        for i in 0..first.extent {
            for (p, (to, from)) in moved.iter_mut().zip(parameters).enumerate() {
                *to = from.wrapping_add(i * first.strides[p] * self.bytes[p]);
            }
            self.each(rest, &moved[..parameters.len()], f);
        }
    }

    /// Position of the first query among the keys.
    ///
    /// # Safety
    /// The offset, if there is one, can be read.
    unsafe fn first(&self, parameters: &[*mut u8]) -> i64 {
        // SAFETY: as the caller vouches.
        self.offset.map_or(0, |p| i64::from(unsafe { parameters[p].cast::<i32>().read_unaligned() }))
    }

    /// Keys that a block of queries sees at most: those of its last row.
    fn limit(&self, first: i64, from: usize, rows: usize) -> usize {
        if self.causal { first.saturating_add((from + rows) as i64).clamp(0, self.keys as i64) as usize } else { self.keys }
    }

    /// Of query `from`, how many keys from `key` on are visible.
    fn visible(&self, first: i64, from: usize, key: usize) -> i64 {
        if self.causal { first.saturating_add(from as i64 + 1 - key as i64) } else { i64::MAX }
    }

    /// Adds the bias to a block of scores, or takes away what the mask hides.
    ///
    /// # Safety
    /// The bias can be read at these queries and keys.
    unsafe fn add_bias(&self, parameters: &[*mut u8], (query, rows): (usize, usize), (key, keys): (usize, usize), scores: &mut [f32]) {
        let Some((p, dtype)) = self.bias else { return };
        let strides = self.strides[p];
        for (r, row) in scores.chunks_exact_mut(self.pitch()).take(rows).enumerate() {
            let at = (query + r) * strides.row + key * strides.column;
            let row = &mut row[..keys];
            // SAFETY: as the caller vouches.
            unsafe {
                match dtype {
                    DType::I1 => {
                        for (j, s) in row.iter_mut().enumerate() {
                            if parameters[p].add(at + j * strides.column).read() == 0 {
                                *s = f32::NEG_INFINITY;
                            }
                        }
                    }
                    DType::BF16 => add_row(parameters[p].cast::<bf16>().add(at), strides.column, row),
                    DType::F16 => add_row(parameters[p].cast::<f16>().add(at), strides.column, row),
                    _ => add_row(parameters[p].cast::<f32>().add(at), strides.column, row),
                }
            }
        }
    }

    /// A parameter's matrix as `f32`: as it lies, or its first `rows` rows converted into `room`.
    ///
    /// # Safety
    /// The rows can be read; `room` has space for them unless they are `f32`.
    unsafe fn matrix<T: Element<Wide = f32>>(&self, p: usize, data: *const u8, rows: usize, columns: usize, room: &mut [f32]) -> Matrix {
        let strides = self.strides[p];
        if self.dtype == DType::F32 {
            return Matrix { data: data.cast(), strides };
        }
        for (r, line) in room.chunks_exact_mut(columns.max(1)).take(rows).enumerate() {
            // SAFETY: as the caller vouches.
            unsafe {
                let from = data.cast::<T>().add(r * strides.row);
                if strides.column == 1 {
                    line.iter_mut().enumerate().for_each(|(c, x)| *x = from.add(c).read().widen());
                } else {
                    line.iter_mut().enumerate().for_each(|(c, x)| *x = from.add(c * strides.column).read().widen());
                }
            }
        }
        Matrix { data: room.as_ptr(), strides: Strides { row: columns, column: 1 } }
    }

    /// Rounds rows of `f32` into a parameter's matrix.
    ///
    /// # Safety
    /// The rows can be written.
    unsafe fn store<T: Element<Wide = f32>>(&self, p: usize, data: *mut u8, rows: &[f32], columns: usize, scale: impl Fn(usize) -> f32) {
        let strides = self.strides[p];
        for (r, line) in rows.chunks_exact(columns.max(1)).enumerate() {
            let scale = scale(r);
            // SAFETY: as the caller vouches.
            unsafe {
                let to = data.cast::<T>().add(r * strides.row);
                // Apart, so that rows in place are written in vectors.
                if strides.column == 1 {
                    line.iter().enumerate().for_each(|(c, x)| to.add(c).write(T::narrow(x * scale)));
                } else {
                    line.iter().enumerate().for_each(|(c, x)| to.add(c * strides.column).write(T::narrow(x * scale)));
                }
            }
        }
    }
}

/// Operands and results of a derivative with bias and offset.
const MOST_PARAMETERS: usize = 12;

/// # Safety
/// The row can be read.
unsafe fn add_row<T: Element<Wide = f32>>(from: *const T, stride: usize, row: &mut [f32]) {
    for (j, s) in row.iter_mut().enumerate() {
        // SAFETY: as the caller vouches.
        *s += unsafe { from.add(j * stride).read() }.widen();
    }
}

/// `C (+)= factor · A·B`, C given by its data and strides.
///
/// # Safety
/// All elements of the matrices are inside their memory; C overlaps neither A nor B.
unsafe fn multiply((m, n, k): (usize, usize, usize), a: Matrix, b: Matrix, (c, to): (*mut f32, Strides), accumulate: bool, factor: f32) {
    let (sa, sb) = (a.strides, b.strides);
    // SAFETY: as the caller vouches; `gemm` reads C only when told to.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c,
            to.column as isize,
            to.row as isize,
            accumulate,
            a.data,
            sa.column as isize,
            sa.row as isize,
            b.data,
            sb.column as isize,
            sb.row as isize,
            1.0,
            factor,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
