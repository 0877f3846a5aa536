//! Tensors as the interpreter holds them.
//!
//! Five storage classes suffice: floats up to 32 bits as `f32` values that are exact in their type, floats as `f64`, integers as sign- or zero-extended
//! `i64` (`ui64` by its bits), `i1` as `bool`, complex numbers as pairs of `f64`. [`settle`] rounds or wraps a computed buffer back into its element type.
//! Invariant: a buffer has one element per element of the tensor, row-major, or exactly one element, which then repeats (a *splat*, never written out unless needed).

use crate::dtype::{DType, TensorType, row_major_strides};
use crate::float8;
use crate::literal::{Data, Literal, decode};
use half::{bf16, f16};
use std::ops::{Add, Mul, Sub};
use std::sync::{Arc, OnceLock};

/// In which precision floating point is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Every value is rounded to its own element type.
    AsTyped,
    /// Every real float is computed and held in `f64`, whatever its type; conversions between float types are the identity. Integers stay exact.
    F64,
}

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

impl Complex {
    pub(crate) fn new(re: f64, im: f64) -> Complex {
        Complex { re, im }
    }
}

impl Add for Complex {
    type Output = Complex;
    fn add(self, o: Complex) -> Complex {
        Complex::new(self.re + o.re, self.im + o.im)
    }
}

impl Sub for Complex {
    type Output = Complex;
    fn sub(self, o: Complex) -> Complex {
        Complex::new(self.re - o.re, self.im - o.im)
    }
}

impl Mul for Complex {
    type Output = Complex;
    fn mul(self, o: Complex) -> Complex {
        Complex::new(self.re * o.re - self.im * o.im, self.re * o.im + self.im * o.re)
    }
}

/// The elements of a tensor, by storage class.
#[derive(Clone, Debug)]
pub(crate) enum Buffer {
    F32(Arc<Vec<f32>>),
    F64(Arc<Vec<f64>>),
    Int(Arc<Vec<i64>>),
    Bool(Arc<Vec<bool>>),
    Complex(Arc<Vec<Complex>>),
}

/// A type that a storage class holds.
pub(crate) trait Element: Copy + Default + PartialEq + Send + Sync + 'static {
    fn pack(elements: Vec<Self>) -> Buffer;
    fn unpack(buffer: &Buffer) -> Option<&[Self]>;
}

macro_rules! element {
    ($t:ty, $class:ident) => {
        impl Element for $t {
            fn pack(elements: Vec<$t>) -> Buffer {
                Buffer::$class(Arc::new(elements))
            }
            fn unpack(buffer: &Buffer) -> Option<&[$t]> {
                match buffer {
                    Buffer::$class(v) => Some(v),
                    _ => None,
                }
            }
        }
    };
}
element!(f32, F32);
element!(f64, F64);
element!(i64, Int);
element!(bool, Bool);
element!(Complex, Complex);

/// Evaluates an expression on the elements of a buffer, whatever their class, and packs the resulting vector again.
macro_rules! remake {
    ($buffer:expr, $v:ident => $body:expr) => {
        match $buffer {
            $crate::interp::tensor::Buffer::F32($v) => $crate::interp::tensor::Buffer::F32(std::sync::Arc::new($body)),
            $crate::interp::tensor::Buffer::F64($v) => $crate::interp::tensor::Buffer::F64(std::sync::Arc::new($body)),
            $crate::interp::tensor::Buffer::Int($v) => $crate::interp::tensor::Buffer::Int(std::sync::Arc::new($body)),
            $crate::interp::tensor::Buffer::Bool($v) => $crate::interp::tensor::Buffer::Bool(std::sync::Arc::new($body)),
            $crate::interp::tensor::Buffer::Complex($v) => $crate::interp::tensor::Buffer::Complex(std::sync::Arc::new($body)),
        }
    };
}
pub(crate) use remake;

/// Evaluates an expression on the elements of two buffers of the same class and packs the resulting vector again.
macro_rules! remake2 {
    ($a:expr, $b:expr, ($x:ident, $y:ident) => $body:expr) => {{
        use $crate::interp::tensor::Buffer;
        match ($a, $b) {
            (Buffer::F32($x), Buffer::F32($y)) => Buffer::F32(std::sync::Arc::new($body)),
            (Buffer::F64($x), Buffer::F64($y)) => Buffer::F64(std::sync::Arc::new($body)),
            (Buffer::Int($x), Buffer::Int($y)) => Buffer::Int(std::sync::Arc::new($body)),
            (Buffer::Bool($x), Buffer::Bool($y)) => Buffer::Bool(std::sync::Arc::new($body)),
            (Buffer::Complex($x), Buffer::Complex($y)) => Buffer::Complex(std::sync::Arc::new($body)),
            _ => unreachable!("invariant: operands of one element type share a storage class"),
        }
    }};
}
pub(crate) use remake2;

/// A storage class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    F32,
    F64,
    Int,
    Bool,
    Complex,
}

impl Class {
    pub(crate) fn of(t: DType, precision: Precision) -> Class {
        match t {
            DType::I1 => Class::Bool,
            t if t.is_integer() => Class::Int,
            t if t.is_complex() => Class::Complex,
            DType::F64 => Class::F64,
            _ if precision == Precision::F64 => Class::F64,
            _ => Class::F32,
        }
    }
}

impl Buffer {
    pub(crate) fn len(&self) -> usize {
        match self {
            Buffer::F32(v) => v.len(),
            Buffer::F64(v) => v.len(),
            Buffer::Int(v) => v.len(),
            Buffer::Bool(v) => v.len(),
            Buffer::Complex(v) => v.len(),
        }
    }
    pub(crate) fn class(&self) -> Class {
        match self {
            Buffer::F32(_) => Class::F32,
            Buffer::F64(_) => Class::F64,
            Buffer::Int(_) => Class::Int,
            Buffer::Bool(_) => Class::Bool,
            Buffer::Complex(_) => Class::Complex,
        }
    }
    /// The same numbers in another class; complex numbers lose their imaginary part, floats are truncated towards zero and saturate.
    pub(crate) fn into_class(self, class: Class) -> Buffer {
        fn map<T: Copy, U>(v: &[T], f: impl Fn(T) -> U) -> Arc<Vec<U>> {
            Arc::new(v.iter().map(|&x| f(x)).collect())
        }
        if self.class() == class {
            return self;
        }
        match (&self, class) {
            (Buffer::F64(v), Class::F32) => Buffer::F32(map(v, |x| x as f32)),
            (Buffer::Int(v), Class::F32) => Buffer::F32(map(v, |x| x as f32)),
            (Buffer::Bool(v), Class::F32) => Buffer::F32(map(v, |x| f32::from(u8::from(x)))),
            (Buffer::Complex(v), Class::F32) => Buffer::F32(map(v, |x| x.re as f32)),
            (Buffer::F32(v), Class::F64) => Buffer::F64(map(v, f64::from)),
            (Buffer::Int(v), Class::F64) => Buffer::F64(map(v, |x| x as f64)),
            (Buffer::Bool(v), Class::F64) => Buffer::F64(map(v, |x| f64::from(u8::from(x)))),
            (Buffer::Complex(v), Class::F64) => Buffer::F64(map(v, |x| x.re)),
            (Buffer::F32(v), Class::Int) => Buffer::Int(map(v, |x| x as i64)),
            (Buffer::F64(v), Class::Int) => Buffer::Int(map(v, |x| x as i64)),
            (Buffer::Bool(v), Class::Int) => Buffer::Int(map(v, i64::from)),
            (Buffer::Complex(v), Class::Int) => Buffer::Int(map(v, |x| x.re as i64)),
            (Buffer::F32(v), Class::Bool) => Buffer::Bool(map(v, |x| x != 0.0)),
            (Buffer::F64(v), Class::Bool) => Buffer::Bool(map(v, |x| x != 0.0)),
            (Buffer::Int(v), Class::Bool) => Buffer::Bool(map(v, |x| x != 0)),
            (Buffer::Complex(v), Class::Bool) => Buffer::Bool(map(v, |x| x.re != 0.0 || x.im != 0.0)),
            (Buffer::F32(v), Class::Complex) => Buffer::Complex(map(v, |x| Complex::new(f64::from(x), 0.0))),
            (Buffer::F64(v), Class::Complex) => Buffer::Complex(map(v, |x| Complex::new(x, 0.0))),
            (Buffer::Int(v), Class::Complex) => Buffer::Complex(map(v, |x| Complex::new(x as f64, 0.0))),
            (Buffer::Bool(v), Class::Complex) => Buffer::Complex(map(v, |x| Complex::new(f64::from(u8::from(x)), 0.0))),
            _ => unreachable!("invariant: equal classes were returned above"),
        }
    }
}

/// `x` wrapped into integer type `t`: sign-extended when signed, zero-extended when unsigned.
#[inline]
pub(crate) fn wrap(t: DType, x: i64) -> i64 {
    let unused = 64 - t.bits();
    if t.is_unsigned() { ((x as u64) << unused >> unused) as i64 } else { x << unused >> unused }
}

/// `x` rounded to the float type `t`, to nearest, ties to even.
#[inline]
pub(crate) fn round_to(t: DType, x: f32) -> f32 {
    match t {
        DType::F32 | DType::F64 => x,
        DType::BF16 => round_to_bf16(x),
        DType::F16 => f16::from_f32(x).to_f32(),
        t => float8::decode(t, float8_nearest(t, f64::from(x))) as f32,
    }
}

/// `x` rounded to bf16 without a branch, so that whole buffers are rounded in vectors.
#[inline]
fn round_to_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    let kept = if x.is_nan() { bits | 0x0040_0000 } else { nearest };
    f32::from_bits(kept & 0xffff_0000)
}

/// [`float8::encode`] by a table of the kind's values, since that searches all 256.
fn float8_nearest(t: DType, x: f64) -> u8 {
    const KINDS: [DType; 8] =
        [DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E4M3B11FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F8E4M3, DType::F8E3M4, DType::F8E8M0FNU];
    // For each kind its finite values in order, and between neighbours the midpoint with the byte that it rounds to.
    type Table = Vec<(f64, u8, f64, u8)>;
    static TABLES: OnceLock<Vec<Table>> = OnceLock::new();
    let tables = TABLES.get_or_init(|| {
        let table = |t: DType| {
            let mut values: Vec<(f64, u8)> = (0..=255).map(|b| (float8::decode(t, b), b)).filter(|(v, _)| v.is_finite() && *v != 0.0).collect();
            values.push((0.0, float8::encode(t, 0.0)));
            values.sort_by(|a, b| a.0.total_cmp(&b.0));
            let middles = values.windows(2).map(|w| {
                let middle = f64::midpoint(w[0].0, w[1].0);
                (w[0].0, w[0].1, middle, float8::encode(t, middle))
            });
            middles.collect()
        };
        KINDS.iter().map(|&t| table(t)).collect()
    });
    let table = &tables[KINDS.iter().position(|&k| k == t).expect("invariant: an 8-bit float")];
    let (first, last) = (table[0].0, table[table.len() - 1].2);
    if !(first..last).contains(&x) || x == 0.0 || t == DType::F8E8M0FNU {
        return float8::encode(t, x);
    }
    let at = table.partition_point(|row| row.0 <= x) - 1;
    let (_, below, middle, at_middle) = table[at];
    let byte = match x.total_cmp(&middle) {
        std::cmp::Ordering::Less => below,
        std::cmp::Ordering::Equal => at_middle,
        std::cmp::Ordering::Greater => table.get(at + 1).map_or_else(|| float8::encode(t, x), |row| row.1),
    };
    // Zero keeps the sign of what was rounded to it.
    if float8::decode(t, byte) == 0.0 { float8::encode(t, x) } else { byte }
}

/// Rounds or wraps what was computed into element type `t`. Floats held in `f64` are left as they are.
pub(crate) fn settle(t: DType, buffer: Buffer) -> Buffer {
    fn update<T: Copy>(mut v: Arc<Vec<T>>, f: impl Fn(T) -> T) -> Arc<Vec<T>> {
        for x in Arc::make_mut(&mut v) {
            *x = f(*x);
        }
        v
    }
    match (t, buffer) {
        (DType::F32 | DType::F64, b) => b,
        (DType::BF16, Buffer::F32(v)) => Buffer::F32(update(v, round_to_bf16)),
        (t, Buffer::F32(v)) => Buffer::F32(update(v, |x| round_to(t, x))),
        (t, Buffer::Int(v)) if t.bits() < 64 => Buffer::Int(update(v, |x| wrap(t, x))),
        (DType::C64, Buffer::Complex(v)) => Buffer::Complex(update(v, |x| Complex::new(f64::from(x.re as f32), f64::from(x.im as f32)))),
        (_, b) => b,
    }
}

/// A tensor: its type and its elements.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its type.
    pub ty: TensorType,
    pub(crate) buffer: Buffer,
}

impl Tensor {
    pub(crate) fn new(ty: TensorType, buffer: Buffer) -> Tensor {
        debug_assert!(buffer.len() as u64 == ty.elements() || buffer.len() == 1, "{} elements for {ty}", buffer.len());
        Tensor { ty, buffer }
    }
    /// A tensor from its row-major little-endian bytes, as [`DType::bytes`] lays them out; `None` when the length is wrong.
    pub fn from_bytes(ty: TensorType, bytes: &[u8]) -> Option<Tensor> {
        if bytes.len() as u64 != ty.bytes() {
            return None;
        }
        let buffer = decode_all(ty.dtype, bytes);
        Some(Tensor::new(ty, buffer))
    }
    /// A constant's tensor; a splat stays one.
    pub fn from_literal(literal: &Literal) -> Tensor {
        let bytes: &[u8] = match &literal.data {
            Data::Splat(b) => b,
            Data::Dense(b) => b,
        };
        Tensor::new(literal.ty.clone(), decode_all(literal.ty.dtype, bytes))
    }
    /// A tensor of one repeated number, rounded to the element type.
    pub fn splat(ty: TensorType, value: f64) -> Tensor {
        Tensor::from_literal(&Literal::splat(ty, value))
    }
    /// Zeros.
    pub fn zeros(ty: TensorType) -> Tensor {
        Tensor::splat(ty, 0.0)
    }
    /// A tensor of real numbers, rounded to the element type; `None` when their count is wrong.
    pub fn from_f64s(ty: TensorType, values: &[f64]) -> Option<Tensor> {
        if values.len() as u64 != ty.elements() {
            return None;
        }
        let class = Class::of(ty.dtype, Precision::AsTyped);
        let buffer = settle(ty.dtype, f64::pack(values.to_vec()).into_class(class));
        Some(Tensor::new(ty, buffer))
    }
    /// An `f32` tensor; `None` when the count is wrong.
    pub fn from_f32s(shape: impl Into<Vec<u64>>, values: Vec<f32>) -> Option<Tensor> {
        let ty = TensorType::new(DType::F32, shape);
        (values.len() as u64 == ty.elements()).then(|| Tensor::new(ty, f32::pack(values)))
    }
    /// A tensor of integers, wrapped into the element type (any type; floats round); `None` when their count is wrong.
    pub fn from_i64s(ty: TensorType, values: &[i64]) -> Option<Tensor> {
        if values.len() as u64 != ty.elements() {
            return None;
        }
        let class = Class::of(ty.dtype, Precision::AsTyped);
        let buffer = settle(ty.dtype, i64::pack(values.to_vec()).into_class(class));
        Some(Tensor::new(ty, buffer))
    }
    /// How many elements.
    pub fn elements(&self) -> usize {
        self.ty.elements() as usize
    }
    /// Whether it is held as one repeated element.
    pub(crate) fn is_splat(&self) -> bool {
        self.buffer.len() == 1
    }
    /// The same with every element written out.
    pub(crate) fn dense(self) -> Tensor {
        let n = self.elements();
        if self.buffer.len() == n {
            return self;
        }
        let buffer = remake!(&self.buffer, v => vec![v[0]; n]);
        Tensor { ty: self.ty, buffer }
    }
    /// The elements as `f64`; complex numbers give their real part, `ui64` its value.
    pub fn to_f64s(&self) -> Vec<f64> {
        let buffer = match &self.buffer {
            Buffer::Int(v) if self.ty.dtype == DType::UI64 => f64::pack(v.iter().map(|&x| x as u64 as f64).collect()),
            b => b.clone().into_class(Class::F64),
        };
        let held = Tensor { ty: self.ty.clone(), buffer }.dense();
        f64::unpack(&held.buffer).expect("invariant: the class was just chosen").to_vec()
    }
    /// The elements as real numbers: those of a complex tensor are its real and imaginary parts in turn.
    pub fn components(&self) -> Vec<f64> {
        match &self.clone().dense().buffer {
            Buffer::Complex(v) => v.iter().flat_map(|z| [z.re, z.im]).collect(),
            _ => self.to_f64s(),
        }
    }
    /// The elements as `i64`; floats are truncated, `ui64` gives its bits.
    pub fn to_i64s(&self) -> Vec<i64> {
        let held = Tensor { ty: self.ty.clone(), buffer: self.buffer.clone().into_class(Class::Int) }.dense();
        i64::unpack(&held.buffer).expect("invariant: the class was just chosen").to_vec()
    }
    /// The first element as a number; `None` when there is none.
    pub fn first(&self) -> Option<f64> {
        if self.elements() == 0 {
            return None;
        }
        match &self.buffer {
            Buffer::F32(v) => v.first().map(|&x| f64::from(x)),
            Buffer::F64(v) => v.first().copied(),
            Buffer::Int(v) if self.ty.dtype == DType::UI64 => v.first().map(|&x| x as u64 as f64),
            Buffer::Int(v) => v.first().map(|&x| x as f64),
            Buffer::Bool(v) => v.first().map(|&x| f64::from(u8::from(x))),
            Buffer::Complex(v) => v.first().map(|x| x.re),
        }
    }
    /// The first element as an integer, exactly; `None` when there is none.
    pub(crate) fn first_int(&self) -> Option<i64> {
        match &self.buffer {
            Buffer::Int(v) => v.first().copied(),
            Buffer::Bool(v) => v.first().map(|&b| i64::from(b)),
            _ => self.first().map(|x| x as i64),
        }
    }
    /// Row-major little-endian bytes, rounded to the element type.
    pub fn to_bytes(&self) -> Vec<u8> {
        let one = encode_all(self.ty.dtype, &self.buffer);
        if self.buffer.len() == self.elements() { one } else { one.repeat(self.elements()) }
    }
    /// The same tensor held as `precision` says. Towards [`Precision::AsTyped`] floats are rounded to their type.
    pub fn in_precision(self, precision: Precision) -> Tensor {
        let class = Class::of(self.ty.dtype, precision);
        if self.buffer.class() == class {
            return self;
        }
        let buffer = settle(self.ty.dtype, self.buffer.into_class(class));
        Tensor { ty: self.ty, buffer }
    }
    /// The block of the tensor that begins at `start` and has shape `shape`; what lies outside is zero. Partitioned tests cut their inputs with it.
    pub fn block(&self, start: &[u64], shape: &[u64]) -> Tensor {
        let ty = TensorType::new(self.ty.dtype, shape);
        if self.is_splat() && start.iter().zip(shape).zip(&self.ty.shape).all(|((s, n), full)| s + n <= *full) {
            return Tensor::new(ty, self.buffer.clone());
        }
        let (from, n) = (row_major_strides(&self.ty.shape), ty.elements() as usize);
        let dense = self.clone().dense();
        let buffer = remake!(&dense.buffer, v => {
            let mut out = vec![Default::default(); n];
            for (i, slot) in out.iter_mut().enumerate() {
                let (mut rest, mut at, mut inside) = (i as u64, 0, true);
                for d in (0..shape.len()).rev() {
                    let index = start[d] + rest % shape[d];
                    rest /= shape[d];
                    inside &= index < self.ty.shape[d];
                    at += index * from[d];
                }
                if inside {
                    *slot = v[at as usize];
                }
            }
            out
        });
        Tensor::new(ty, buffer)
    }
}

/// Decodes row-major little-endian elements of type `t`.
pub(crate) fn decode_all(t: DType, bytes: &[u8]) -> Buffer {
    fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
        bytes.chunks_exact(N).map(|c| c.try_into().expect("invariant: chunks have that length"))
    }
    match t {
        DType::I1 => bool::pack(bytes.iter().map(|&b| b != 0).collect()),
        DType::F32 => f32::pack(chunks(bytes).map(f32::from_le_bytes).collect()),
        DType::F64 => f64::pack(chunks(bytes).map(f64::from_le_bytes).collect()),
        DType::BF16 => f32::pack(chunks(bytes).map(|b| bf16::from_le_bytes(b).to_f32()).collect()),
        DType::F16 => f32::pack(chunks(bytes).map(|b| f16::from_le_bytes(b).to_f32()).collect()),
        DType::I64 | DType::UI64 => i64::pack(chunks(bytes).map(i64::from_le_bytes).collect()),
        DType::I32 => i64::pack(chunks(bytes).map(|b| i64::from(i32::from_le_bytes(b))).collect()),
        DType::UI32 => i64::pack(chunks(bytes).map(|b| i64::from(u32::from_le_bytes(b))).collect()),
        DType::I16 => i64::pack(chunks(bytes).map(|b| i64::from(i16::from_le_bytes(b))).collect()),
        DType::UI16 => i64::pack(chunks(bytes).map(|b| i64::from(u16::from_le_bytes(b))).collect()),
        DType::I8 | DType::I4 | DType::I2 | DType::UI8 | DType::UI4 | DType::UI2 => i64::pack(bytes.iter().map(|&b| wrap(t, i64::from(b))).collect()),
        DType::C64 => Complex::pack(
            chunks::<8>(bytes)
                .map(|b| {
                    let part = |at: usize| decode(DType::F32, &b[at..]).unwrap_or_default();
                    Complex::new(part(0), part(4))
                })
                .collect(),
        ),
        DType::C128 => Complex::pack(
            chunks::<16>(bytes)
                .map(|b| {
                    let part = |at: usize| decode(DType::F64, &b[at..]).unwrap_or_default();
                    Complex::new(part(0), part(8))
                })
                .collect(),
        ),
        DType::F8E4M3FN | DType::F8E4M3FNUZ | DType::F8E4M3B11FNUZ | DType::F8E5M2 | DType::F8E5M2FNUZ | DType::F8E4M3 | DType::F8E3M4 | DType::F8E8M0FNU => {
            f32::pack(bytes.iter().map(|&b| float8::decode(t, b) as f32).collect())
        }
    }
}

/// Encodes the elements of a buffer in type `t`, rounding floats to nearest.
pub(crate) fn encode_all(t: DType, buffer: &Buffer) -> Vec<u8> {
    match buffer {
        Buffer::F32(v) => match t {
            DType::F32 => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            DType::BF16 => v.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect(),
            DType::F16 => v.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
            DType::F64 => v.iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect(),
            t => v.iter().map(|&x| float8_nearest(t, f64::from(x))).collect(),
        },
        Buffer::F64(v) => match t {
            DType::F64 => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            DType::F32 => v.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect(),
            DType::BF16 => v.iter().flat_map(|&x| bf16::from_f64(x).to_le_bytes()).collect(),
            DType::F16 => v.iter().flat_map(|&x| f16::from_f64(x).to_le_bytes()).collect(),
            t => v.iter().map(|&x| float8_nearest(t, x)).collect(),
        },
        Buffer::Int(v) => {
            let width = t.bytes() as usize;
            v.iter().flat_map(|x| x.to_le_bytes().into_iter().take(width)).collect()
        }
        Buffer::Bool(v) => v.iter().map(|&b| u8::from(b)).collect(),
        Buffer::Complex(v) if t == DType::C64 => v.iter().flat_map(|x| [x.re as f32, x.im as f32]).flat_map(f32::to_le_bytes).collect(),
        Buffer::Complex(v) => v.iter().flat_map(|x| [x.re, x.im]).flat_map(f64::to_le_bytes).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_round_trips_through_bytes() {
        for t in DType::all() {
            let ty = TensorType::new(t, [2, 3]);
            let bytes: Vec<u8> = if t == DType::I1 { vec![1, 0, 0, 1, 1, 0] } else { (0..ty.bytes()).map(|i| (i * 37 % 13) as u8 & 3).collect() };
            let tensor = Tensor::from_bytes(ty.clone(), &bytes).unwrap();
            if !matches!(t, DType::I2 | DType::UI2 | DType::I4) {
                assert_eq!(tensor.to_bytes(), bytes, "{t}");
            }
            assert_eq!(tensor.clone().in_precision(Precision::F64).to_bytes(), tensor.to_bytes(), "{t}");
        }
        assert!(Tensor::from_bytes(TensorType::new(DType::F32, [2]), &[0; 7]).is_none());
    }

    #[test]
    fn float8_table_agrees_with_the_search() {
        for t in DType::all().filter(|t| t.is_float() && t.bits() == 8 && *t != DType::F8E8M0FNU) {
            for i in (-40000..40000i32).step_by(37) {
                let x = f64::from(i) / 128.0 + if i % 3 == 0 { 0.001 } else { 0.0 };
                assert_eq!(float8_nearest(t, x), float8::encode(t, x), "{t} {x}");
            }
            for x in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-9, -1e-9, 1e9, -1e9, 0.0, -0.0] {
                assert_eq!(float8_nearest(t, x), float8::encode(t, x), "{t} {x}");
            }
        }
    }

    #[test]
    fn bf16_rounding_agrees_with_half() {
        for bits in (0..u32::MAX - 0x1_0001).step_by(0x1_0001).chain([0x7f80_0000, 0xff80_0000, 0x7fc0_0001, 0x7f7f_ffff, 0x3f80_8000, 0x3f81_8000]) {
            let x = f32::from_bits(bits);
            assert_eq!(round_to_bf16(x).to_bits(), bf16::from_f32(x).to_f32().to_bits(), "{bits:x}");
        }
    }

    #[test]
    fn blocks_are_padded_with_zeros() {
        let x = Tensor::from_f32s([2, 3], vec![1., 2., 3., 4., 5., 6.]).unwrap();
        assert_eq!(x.block(&[0, 2], &[2, 2]).to_f64s(), [3., 0., 6., 0.]);
        assert_eq!(x.block(&[1, 0], &[1, 3]).to_f64s(), [4., 5., 6.]);
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(wrap(DType::I8, 200), -56);
        assert_eq!(wrap(DType::UI8, -1), 255);
        assert_eq!(wrap(DType::UI64, -1), -1);
        assert_eq!(wrap(DType::I4, 8), -8);
    }
}
