//! A plan's matrix products as cuBLASLt takes them: column-major, each operand as it lies or transposed, with one batch.
//!
//! A plan's product has any strides. Where rows of C are contiguous, C is a column-major matrix seen transposed, and `Cᵀ = Bᵀ·Aᵀ` is computed instead.
//! Batch extents that lie behind each other are merged, the largest becomes the library's batch, and the others are calls one after the other.

use ir::DType;
use ir::program::MatMul;

/// `D = op(A)·op(B) (+ D)`, all column-major, for every element of the batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// Whether A and B are stored transposed.
    pub transposed: (bool, bool),
    /// Rows of D.
    pub m: u64,
    /// Columns of D.
    pub n: u64,
    /// Contracted.
    pub k: u64,
    /// Elements from column to column of A, B and D.
    pub ld: (u64, u64, u64),
    /// How many.
    pub batch: u64,
    /// Elements from one of the batch to the next.
    pub strides: (u64, u64, u64),
    /// Type of A and B.
    pub dtype: DType,
    /// Type of D.
    pub result: DType,
    /// Add to D.
    pub accumulate: bool,
}

/// A plan's product as calls of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    /// What is called.
    pub product: Product,
    /// Whether the library's A is the plan's B.
    pub swapped: bool,
    /// Where the plan's A, B and C begin, in elements, for every call.
    pub offsets: Vec<[u64; 3]>,
}

/// Calls that a product may become before it is done elsewhere.
const MOST_CALLS: u64 = 4096;

/// How a matrix with these strides is a column-major one: transposed or not, and elements from column to column.
fn orient(rows: u64, columns: u64, row_stride: u64, column_stride: u64) -> Option<(bool, u64)> {
    let fits = |unit: u64, along: u64, other: u64, across: u64| {
        let ld = if across == 1 { along } else { other };
        ((along == 1 || unit == 1) && ld >= along).then_some(ld)
    };
    fits(row_stride, rows, column_stride, columns).map(|ld| (false, ld)).or_else(|| fits(column_stride, columns, row_stride, rows).map(|ld| (true, ld)))
}

impl Calls {
    /// The calls for a product.
    ///
    /// # Errors
    /// Why the library cannot do it.
    pub fn of(p: &MatMul) -> Result<Calls, String> {
        let possible = match p.dtype {
            DType::F32 | DType::F64 => p.result == p.dtype,
            DType::F16 | DType::BF16 => p.result == p.dtype || p.result == DType::F32,
            _ => false,
        };
        if !possible {
            return Err(format!("products of {} to {} are not cuBLASLt's", p.dtype, p.result));
        }
        if p.m == 0 || p.n == 0 || p.k == 0 || p.batch.iter().any(|b| b.size == 0) {
            return Err("it is empty".into());
        }
        if p.m.max(p.n).max(p.k) > i32::MAX as u64 {
            return Err("it is longer than cuBLASLt counts".into());
        }
        let strided = |name: &str| format!("{name} has contiguous elements along no dimension");
        let (transposed_c, ld_c) = orient(p.m, p.n, p.c_strides.0, p.c_strides.1).ok_or_else(|| strided("C"))?;
        // The library's operands: (rows, columns, row stride, column stride).
        let (a, b) = ((p.m, p.k, p.a_strides.0, p.a_strides.1), (p.k, p.n, p.b_strides.0, p.b_strides.1));
        let turned = |x: (u64, u64, u64, u64)| (x.1, x.0, x.3, x.2);
        let (first, second, m, n) = if transposed_c { (turned(b), turned(a), p.n, p.m) } else { (a, b, p.m, p.n) };
        let (t1, ld1) = orient(first.0, first.1, first.2, first.3).ok_or_else(|| strided(if transposed_c { "B" } else { "A" }))?;
        let (t2, ld2) = orient(second.0, second.1, second.2, second.3).ok_or_else(|| strided(if transposed_c { "A" } else { "B" }))?;

        let mut batch: Vec<(u64, [u64; 3])> = Vec::new();
        for d in p.batch.iter().filter(|d| d.size != 1) {
            let strides = [d.a, d.b, d.c];
            if d.c == 0 {
                return Err("elements of its batch are written to one place".into());
            }
            match batch.last_mut() {
                // The outer extent continues where the inner ends.
                Some(last) if last.1 == strides.map(|s| s * d.size) => *last = (last.0 * d.size, strides),
                _ => batch.push((d.size, strides)),
            }
        }
        let largest = (0..batch.len()).max_by_key(|&i| (batch[i].0, i));
        let (size, strides) = largest.map_or((1, [0; 3]), |i| batch.remove(i));
        let calls = batch.iter().map(|b| b.0).try_fold(1u64, u64::checked_mul).filter(|c| *c <= MOST_CALLS);
        if calls.is_none() || size > i32::MAX as u64 {
            return Err("its batch has too many extents that do not lie behind each other".into());
        }
        let mut offsets = vec![[p.offsets.0, p.offsets.1, p.offsets.2]];
        for (n, s) in &batch {
            offsets = offsets.iter().flat_map(|o| (0..*n).map(move |i| [o[0] + i * s[0], o[1] + i * s[1], o[2] + i * s[2]])).collect();
        }
        let [sa, sb, sc] = strides;
        let product = Product {
            transposed: (t1, t2),
            m,
            n,
            k: p.k,
            ld: (ld1, ld2, ld_c),
            batch: size,
            strides: if transposed_c { (sb, sa, sc) } else { (sa, sb, sc) },
            dtype: p.dtype,
            result: p.result,
            accumulate: p.accumulate,
        };
        Ok(Calls { product, swapped: transposed_c, offsets })
    }

    /// The largest power of two that every address of the operands is a multiple of, in an arena whose buffers are multiples of 16 bytes.
    pub fn alignment(&self) -> u32 {
        let (d, r) = (self.product.dtype.bytes(), self.product.result.bytes());
        let (s, swapped) = (self.product.strides, self.swapped);
        let (sa, sb) = if swapped { (s.1, s.0) } else { (s.0, s.1) };
        let mut bits = 16 | (sa * d) | (sb * d) | (s.2 * r);
        for o in &self.offsets {
            bits |= (o[0] * d) | (o[1] * d) | (o[2] * r);
        }
        1 << bits.trailing_zeros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::program::BatchDim;

    fn product(m: u64, n: u64, k: u64, a: (u64, u64), b: (u64, u64), c: (u64, u64), batch: Vec<BatchDim>) -> MatMul {
        let (offsets, dtype) = ((3, 5, 7), DType::F32);
        MatMul { batch, m, n, k, offsets, a_strides: a, b_strides: b, c_strides: c, dtype, result: dtype, accumulate: true }
    }

    /// The product by its definition.
    fn defined(p: &MatMul, a: &[f64], b: &[f64], c: &mut [f64]) {
        let mut places = vec![[p.offsets.0, p.offsets.1, p.offsets.2]];
        for d in &p.batch {
            places = places.iter().flat_map(|o| (0..d.size).map(move |i| [o[0] + i * d.a, o[1] + i * d.b, o[2] + i * d.c])).collect();
        }
        for [oa, ob, oc] in places {
            for i in 0..p.m {
                for j in 0..p.n {
                    let at = |x: u64| x as usize;
                    let sum: f64 =
                        (0..p.k).map(|l| a[at(oa + i * p.a_strides.0 + l * p.a_strides.1)] * b[at(ob + l * p.b_strides.0 + j * p.b_strides.1)]).sum();
                    c[at(oc + i * p.c_strides.0 + j * p.c_strides.1)] += sum;
                }
            }
        }
    }

    /// The calls as the library's documentation defines them.
    fn called(calls: &Calls, a: &[f64], b: &[f64], c: &mut [f64]) {
        let p = &calls.product;
        for &[oa, ob, oc] in &calls.offsets {
            let ((x, ox), (y, oy)) = if calls.swapped { ((b, ob), (a, oa)) } else { ((a, oa), (b, ob)) };
            for g in 0..p.batch {
                for i in 0..p.m {
                    for j in 0..p.n {
                        let element = |t: bool, ld: u64, r: u64, c: u64| if t { c + r * ld } else { r + c * ld };
                        let sum: f64 = (0..p.k)
                            .map(|l| {
                                x[(ox + g * p.strides.0 + element(p.transposed.0, p.ld.0, i, l)) as usize]
                                    * y[(oy + g * p.strides.1 + element(p.transposed.1, p.ld.1, l, j)) as usize]
                            })
                            .sum();
                        c[(oc + g * p.strides.2 + i + j * p.ld.2) as usize] += sum;
                    }
                }
            }
        }
    }

    #[test]
    fn every_layout_that_is_called_is_the_product_it_stands_for() {
        let numbers: Vec<f64> = (0..4096).map(|i| f64::from(i * 37 % 101) - 50.0).collect();
        let mut mapped = 0;
        for (m, n, k) in [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 5), (1, 1, 1)] {
            for turns in 0..8 {
                let lie = |rows: u64, columns: u64, turn: bool| if turn { (1, rows + 2) } else { (columns + 1, 1) };
                let (a, b, c) = (lie(m, k, turns & 1 != 0), lie(k, n, turns & 2 != 0), lie(m, n, turns & 4 != 0));
                let dim = |size, a, b, c| BatchDim { size, a, b, c };
                for batch in [
                    vec![],
                    vec![dim(2, 60, 0, 70)],
                    vec![dim(2, 180, 150, 210), dim(3, 60, 50, 70)],
                    vec![dim(2, 60, 50, 400), dim(3, 180, 0, 70)],
                    vec![dim(1, 9, 9, 9), dim(4, 60, 50, 70)],
                ] {
                    let p = product(m, n, k, a, b, c, batch);
                    let calls = Calls::of(&p).unwrap();
                    let (mut want, mut got) = (vec![1.0; 4096], vec![1.0; 4096]);
                    defined(&p, &numbers, &numbers, &mut want);
                    called(&calls, &numbers, &numbers, &mut got);
                    assert_eq!(want, got, "{p:?} {calls:?}");
                    mapped += 1;
                }
            }
        }
        assert_eq!(mapped, 240);
    }

    #[test]
    fn batches_behind_each_other_are_one_and_others_are_calls() {
        let dim = |size, a, b, c| BatchDim { size, a, b, c };
        let of = |batch| Calls::of(&product(3, 4, 5, (5, 1), (4, 1), (4, 1), batch)).unwrap();
        let merged = of(vec![dim(2, 180, 150, 210), dim(3, 60, 50, 70)]);
        assert_eq!((merged.product.batch, merged.offsets.len(), merged.product.strides), (6, 1, (50, 60, 70)));
        let parted = of(vec![dim(2, 60, 50, 400), dim(3, 180, 0, 70)]);
        assert_eq!((parted.product.batch, parted.offsets), (3, vec![[3, 5, 7], [63, 55, 407]]));
    }

    #[test]
    fn what_the_library_cannot_do_is_refused_with_the_reason() {
        let why = |p: MatMul| Calls::of(&p).unwrap_err();
        assert!(why(product(3, 4, 5, (10, 2), (4, 1), (4, 1), vec![])).contains("A has contiguous elements along no dimension"));
        assert!(why(product(3, 4, 5, (5, 1), (4, 1), (8, 2), vec![])).contains("C has contiguous"));
        assert!(why(product(3, 4, 5, (5, 1), (0, 0), (4, 1), vec![])).contains("B has contiguous"));
        assert!(why(product(3, 4, 0, (5, 1), (4, 1), (4, 1), vec![])).contains("empty"));
        assert!(why(product(3, 4, 5, (5, 1), (4, 1), (4, 1), vec![BatchDim { size: 2, a: 15, b: 20, c: 0 }])).contains("one place"));
        assert!(why(MatMul { dtype: DType::I32, ..product(3, 4, 5, (5, 1), (4, 1), (4, 1), vec![]) }).contains("not cuBLASLt's"));
    }

    #[test]
    fn alignment_is_what_all_addresses_share() {
        let mut p = product(3, 4, 5, (5, 1), (4, 1), (4, 1), vec![]);
        assert_eq!(Calls::of(&p).unwrap().alignment(), 4);
        p.offsets = (0, 0, 8);
        assert_eq!(Calls::of(&p).unwrap().alignment(), 16);
        p.offsets = (2, 0, 0);
        assert_eq!(Calls::of(&p).unwrap().alignment(), 8);
    }
}
