//! Elementwise operations, on whole buffers.
//!
//! A buffer of one element (a splat, or a true scalar) combines with any other, so splats are never written out here and scalar bounds need no broadcast.
//! A buffer that nobody else holds is overwritten in place. Every function returns unrounded elements of the class of its operands;
//! the caller rounds them with `settle`. Integer division follows XLA: by zero all bits are set, the remainder is the dividend, and overflow wraps.

use super::complex::{binary_complex, unary_complex};
use super::special;
use super::tensor::{Buffer, Class, Complex, Element, Tensor, settle, wrap};
use crate::dtype::DType;
use crate::op::{BinaryOp, Direction, UnaryOp};
use std::cmp::Ordering;
use std::sync::Arc;

/// `f` of every element, in place when nobody else holds them.
pub(crate) fn map<T: Copy>(v: Arc<Vec<T>>, f: impl Fn(T) -> T) -> Arc<Vec<T>> {
    match Arc::try_unwrap(v) {
        Ok(mut own) => {
            for x in &mut own {
                *x = f(*x);
            }
            Arc::new(own)
        }
        Err(shared) => Arc::new(shared.iter().map(|&x| f(x)).collect()),
    }
}

/// `f` of every pair of elements, in place where that is possible; one element repeats.
pub(crate) fn zip<T: Copy>(a: Arc<Vec<T>>, b: Arc<Vec<T>>, f: impl Fn(T, T) -> T) -> Arc<Vec<T>> {
    if b.len() == 1 {
        let y = b[0];
        return map(a, |x| f(x, y));
    }
    if a.len() == 1 {
        let x = a[0];
        return map(b, |y| f(x, y));
    }
    match Arc::try_unwrap(a) {
        Ok(mut own) => {
            for (x, &y) in own.iter_mut().zip(b.iter()) {
                *x = f(*x, y);
            }
            Arc::new(own)
        }
        Err(a) => match Arc::try_unwrap(b) {
            Ok(mut own) => {
                for (&x, y) in a.iter().zip(own.iter_mut()) {
                    *y = f(x, *y);
                }
                Arc::new(own)
            }
            Err(b) => Arc::new(a.iter().zip(b.iter()).map(|(&x, &y)| f(x, y)).collect()),
        },
    }
}

/// `f` of every pair of elements, in another class.
fn zip_into<T: Copy, U: Element>(a: &[T], b: &[T], f: impl Fn(T, T) -> U) -> Buffer {
    U::pack(match (a, b) {
        (a, [y]) => a.iter().map(|&x| f(x, *y)).collect(),
        ([x], b) => b.iter().map(|&y| f(*x, y)).collect(),
        (a, b) => a.iter().zip(b).map(|(&x, &y)| f(x, y)).collect(),
    })
}

macro_rules! real_functions {
    ($t:ident, $unary:ident, $binary:ident) => {
        fn $unary(op: UnaryOp, v: Arc<Vec<$t>>) -> Option<Arc<Vec<$t>>> {
            /// A function that is computed in `f64`.
            fn through(v: Arc<Vec<$t>>, f: fn(f64) -> f64) -> Arc<Vec<$t>> {
                map(v, |x| f(f64::from(x)) as $t)
            }
            Some(match op {
                UnaryOp::Abs => map(v, $t::abs),
                UnaryOp::Cbrt => map(v, $t::cbrt),
                UnaryOp::Ceil => map(v, $t::ceil),
                UnaryOp::Cosine => map(v, $t::cos),
                UnaryOp::Erf => through(v, special::erf),
                UnaryOp::ErfInv => through(v, special::erf_inv),
                UnaryOp::Exponential => map(v, $t::exp),
                UnaryOp::ExponentialMinusOne => map(v, $t::exp_m1),
                UnaryOp::Floor => map(v, $t::floor),
                UnaryOp::Log => map(v, $t::ln),
                UnaryOp::LogPlusOne => map(v, $t::ln_1p),
                UnaryOp::Logistic => map(v, |x| 1.0 / (1.0 + (-x).exp())),
                UnaryOp::Negate => map(v, |x| -x),
                UnaryOp::RoundNearestAfz => map(v, $t::round),
                UnaryOp::RoundNearestEven => map(v, $t::round_ties_even),
                UnaryOp::Rsqrt => map(v, |x| 1.0 / x.sqrt()),
                UnaryOp::Sign => map(v, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
                UnaryOp::Sine => map(v, $t::sin),
                UnaryOp::Sqrt => map(v, $t::sqrt),
                UnaryOp::Square => map(v, |x| x * x),
                UnaryOp::Tan => map(v, $t::tan),
                UnaryOp::Tanh => map(v, $t::tanh),
                UnaryOp::Sinh => map(v, $t::sinh),
                UnaryOp::Cosh => map(v, $t::cosh),
                UnaryOp::Asin => map(v, $t::asin),
                UnaryOp::Acos => map(v, $t::acos),
                UnaryOp::Atan => map(v, $t::atan),
                UnaryOp::Asinh => map(v, $t::asinh),
                UnaryOp::Acosh => map(v, $t::acosh),
                UnaryOp::Atanh => map(v, $t::atanh),
                UnaryOp::Erfc => through(v, special::erfc),
                UnaryOp::Lgamma => through(v, special::lgamma),
                UnaryOp::Digamma => through(v, special::digamma),
                UnaryOp::Real => v,
                UnaryOp::Imag => map(v, |_| 0.0),
                UnaryOp::IsFinite | UnaryOp::CountLeadingZeros | UnaryOp::Not | UnaryOp::PopulationCount => return None,
            })
        }

        fn $binary(op: BinaryOp, t: DType, a: Arc<Vec<$t>>, b: Arc<Vec<$t>>) -> Option<Arc<Vec<$t>>> {
            Some(match op {
                BinaryOp::Add => zip(a, b, |x, y| x + y),
                BinaryOp::Atan2 => zip(a, b, $t::atan2),
                BinaryOp::Divide => zip(a, b, |x, y| x / y),
                BinaryOp::Maximum => zip(a, b, |x, y| if x > y || x.is_nan() { x } else { y }),
                BinaryOp::Minimum => zip(a, b, |x, y| if x < y || x.is_nan() { x } else { y }),
                BinaryOp::Multiply => zip(a, b, |x, y| x * y),
                BinaryOp::NextAfter => zip(a, b, |x, y| next_after(t, f64::from(x), f64::from(y)) as $t),
                BinaryOp::Power => power!($t, a, b),
                BinaryOp::Remainder => zip(a, b, |x, y| x % y),
                BinaryOp::Subtract => zip(a, b, |x, y| x - y),
                BinaryOp::And
                | BinaryOp::Or
                | BinaryOp::Xor
                | BinaryOp::ShiftLeft
                | BinaryOp::ShiftRightArithmetic
                | BinaryOp::ShiftRightLogical
                | BinaryOp::Complex => return None,
            })
        }
    };
}

/// Powers; the exponents 2 and 3 of whole tensors are products, as compilers make them.
macro_rules! power {
    ($t:ident, $a:expr, $b:expr) => {{
        let (a, b) = ($a, $b);
        match b.as_slice() {
            [e] if *e == 2.0 => map(a, |x| x * x),
            [e] if *e == 3.0 => map(a, |x| x * x * x),
            _ => zip(a, b, $t::powf),
        }
    }};
}

real_functions!(f32, unary_f32, binary_f32);
real_functions!(f64, unary_f64, binary_f64);

/// The neighbour of `x` towards `y` among the values of type `t`.
fn next_after(t: DType, x: f64, y: f64) -> f64 {
    use crate::literal::{decode, encode};
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x == y {
        return y;
    }
    let mut bytes = encode(t, x);
    let width = bytes.len();
    bytes.resize(8, 0);
    let sign_bit = 1u64 << (width * 8 - 1);
    let bits = u64::from_le_bytes(bytes.try_into().expect("invariant: resized to 8"));
    let next = if x == 0.0 {
        1 | if y < 0.0 { sign_bit } else { 0 }
    } else if (y > x) == (x > 0.0) {
        bits + 1
    } else {
        bits - 1
    };
    decode(t, &next.to_le_bytes()[..width]).unwrap_or(f64::NAN)
}

fn unary_int(op: UnaryOp, t: DType, v: Arc<Vec<i64>>) -> Option<Arc<Vec<i64>>> {
    let mask = u64::MAX >> (64 - t.bits());
    Some(match op {
        UnaryOp::Abs if t.is_unsigned() => v,
        UnaryOp::Abs => map(v, i64::wrapping_abs),
        UnaryOp::CountLeadingZeros => map(v, |x| i64::from((x as u64 & mask).leading_zeros()) - i64::from(64 - t.bits())),
        UnaryOp::Negate => map(v, i64::wrapping_neg),
        UnaryOp::Not => map(v, |x| !x),
        UnaryOp::PopulationCount => map(v, |x| i64::from((x as u64 & mask).count_ones())),
        UnaryOp::Sign if t.is_unsigned() => map(v, |x| i64::from(x != 0)),
        UnaryOp::Sign => map(v, i64::signum),
        UnaryOp::Square => map(v, |x| x.wrapping_mul(x)),
        _ => return None,
    })
}

/// Division as XLA defines it for what mathematics leaves open.
fn divide(t: DType, x: i64, y: i64) -> i64 {
    match (t.is_unsigned(), y) {
        (_, 0) => -1,
        (true, y) => (x as u64 / y as u64) as i64,
        (false, y) => x.wrapping_div(y),
    }
}

fn remainder(t: DType, x: i64, y: i64) -> i64 {
    match (t.is_unsigned(), y) {
        (_, 0) => x,
        (true, y) => (x as u64 % y as u64) as i64,
        (false, y) => x.wrapping_rem(y),
    }
}

fn integer_power(t: DType, x: i64, e: i64) -> i64 {
    if e < 0 && !t.is_unsigned() {
        return match x {
            0 => -1,
            1 => 1,
            -1 => 1 - 2 * (e & 1),
            _ => 0,
        };
    }
    let (mut base, mut e, mut product) = (x, e as u64, 1i64);
    while e > 0 {
        if e & 1 == 1 {
            product = product.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        e >>= 1;
    }
    product
}

fn binary_int(op: BinaryOp, t: DType, a: Arc<Vec<i64>>, b: Arc<Vec<i64>>) -> Option<Arc<Vec<i64>>> {
    let bits = i64::from(t.bits());
    let mask = u64::MAX >> (64 - t.bits());
    // A negative amount is a huge unsigned one.
    let fits = move |y: i64| (0..bits).contains(&y);
    let greater = move |x: i64, y: i64| compare_ints(t, x, y) == Ordering::Greater;
    Some(match op {
        BinaryOp::Add => zip(a, b, i64::wrapping_add),
        BinaryOp::And => zip(a, b, |x, y| x & y),
        BinaryOp::Divide => zip(a, b, |x, y| divide(t, x, y)),
        BinaryOp::Maximum => zip(a, b, |x, y| if greater(x, y) { x } else { y }),
        BinaryOp::Minimum => zip(a, b, |x, y| if greater(x, y) { y } else { x }),
        BinaryOp::Multiply => zip(a, b, i64::wrapping_mul),
        BinaryOp::Or => zip(a, b, |x, y| x | y),
        BinaryOp::Power => zip(a, b, |x, y| integer_power(t, x, y)),
        BinaryOp::Remainder => zip(a, b, |x, y| remainder(t, x, y)),
        BinaryOp::ShiftLeft => zip(a, b, |x, y| if fits(y) { x << y } else { 0 }),
        BinaryOp::ShiftRightArithmetic => zip(a, b, |x, y| {
            let signed = x << (64 - bits) >> (64 - bits);
            if fits(y) { signed >> y } else { signed >> 63 }
        }),
        BinaryOp::ShiftRightLogical => zip(a, b, |x, y| if fits(y) { ((x as u64 & mask) >> y) as i64 } else { 0 }),
        BinaryOp::Subtract => zip(a, b, i64::wrapping_sub),
        BinaryOp::Xor => zip(a, b, |x, y| x ^ y),
        BinaryOp::Atan2 | BinaryOp::NextAfter | BinaryOp::Complex => return None,
    })
}

fn binary_bool(op: BinaryOp, a: Arc<Vec<bool>>, b: Arc<Vec<bool>>) -> Option<Arc<Vec<bool>>> {
    Some(match op {
        BinaryOp::And | BinaryOp::Multiply | BinaryOp::Minimum => zip(a, b, |x, y| x & y),
        BinaryOp::Or | BinaryOp::Add | BinaryOp::Maximum => zip(a, b, |x, y| x | y),
        BinaryOp::Xor => zip(a, b, |x, y| x ^ y),
        _ => return None,
    })
}

/// A function of one operand whose element type is `t`; `None` when it is not defined there. The result class is that of `result`.
pub(crate) fn unary(op: UnaryOp, t: DType, result: DType, buffer: Buffer) -> Option<Buffer> {
    let out = match (op, buffer) {
        (UnaryOp::IsFinite, Buffer::F32(v)) => return Some(bool::pack(v.iter().map(|x| x.is_finite()).collect())),
        (UnaryOp::IsFinite, Buffer::F64(v)) => return Some(bool::pack(v.iter().map(|x| x.is_finite()).collect())),
        (UnaryOp::Not, Buffer::Bool(v)) => Buffer::Bool(map(v, |x| !x)),
        (_, Buffer::Bool(_)) => return None,
        (UnaryOp::Abs, Buffer::Complex(v)) => f64::pack(v.iter().map(|z| z.abs()).collect()),
        (UnaryOp::Real, Buffer::Complex(v)) => f64::pack(v.iter().map(|z| z.re).collect()),
        (UnaryOp::Imag, Buffer::Complex(v)) => f64::pack(v.iter().map(|z| z.im).collect()),
        (op, Buffer::Complex(v)) => Buffer::Complex(unary_complex(op, v)?),
        (op, Buffer::F32(v)) => Buffer::F32(unary_f32(op, v)?),
        (op, Buffer::F64(v)) => Buffer::F64(unary_f64(op, v)?),
        (op, Buffer::Int(v)) => Buffer::Int(unary_int(op, t, v)?),
    };
    Some(settle(result, out))
}

/// A function of two operands of element type `t`, rounded to `result`; `None` when it is not defined there.
pub(crate) fn binary(op: BinaryOp, t: DType, result: DType, a: Buffer, b: Buffer) -> Option<Buffer> {
    let out = match (a, b) {
        (Buffer::F32(a), Buffer::F32(b)) if op == BinaryOp::Complex => zip_into(&a, &b, |x, y| Complex::new(f64::from(x), f64::from(y))),
        (Buffer::F64(a), Buffer::F64(b)) if op == BinaryOp::Complex => zip_into(&a, &b, Complex::new),
        (Buffer::F32(a), Buffer::F32(b)) => Buffer::F32(binary_f32(op, t, a, b)?),
        (Buffer::F64(a), Buffer::F64(b)) => Buffer::F64(binary_f64(op, t, a, b)?),
        (Buffer::Int(a), Buffer::Int(b)) => Buffer::Int(binary_int(op, t, a, b)?),
        (Buffer::Bool(a), Buffer::Bool(b)) => Buffer::Bool(binary_bool(op, a, b)?),
        (Buffer::Complex(a), Buffer::Complex(b)) => Buffer::Complex(binary_complex(op, a, b)?),
        _ => return None,
    };
    Some(settle(result, out))
}

/// The order of two integers held in type `t`.
#[inline]
pub(crate) fn compare_ints(t: DType, x: i64, y: i64) -> Ordering {
    if t == DType::UI64 { (x as u64).cmp(&(y as u64)) } else { x.cmp(&y) }
}

/// Elementwise comparison of operands of element type `t`.
pub(crate) fn compare(direction: Direction, total: bool, t: DType, a: &Buffer, b: &Buffer) -> Option<Buffer> {
    macro_rules! by {
        ($a:expr, $b:expr) => {
            match direction {
                Direction::Eq => zip_into($a, $b, |x, y| x == y),
                Direction::Ne => zip_into($a, $b, |x, y| x != y),
                Direction::Ge => zip_into($a, $b, |x, y| x >= y),
                Direction::Gt => zip_into($a, $b, |x, y| x > y),
                Direction::Le => zip_into($a, $b, |x, y| x <= y),
                Direction::Lt => zip_into($a, $b, |x, y| x < y),
            }
        };
    }
    let decide = move |o: Ordering| match direction {
        Direction::Eq => o.is_eq(),
        Direction::Ne => o.is_ne(),
        Direction::Ge => o.is_ge(),
        Direction::Gt => o.is_gt(),
        Direction::Le => o.is_le(),
        Direction::Lt => o.is_lt(),
    };
    Some(match (a, b) {
        (Buffer::F32(a), Buffer::F32(b)) if total => zip_into(a, b, |x, y| decide(x.total_cmp(&y))),
        (Buffer::F64(a), Buffer::F64(b)) if total => zip_into(a, b, |x, y| decide(x.total_cmp(&y))),
        (Buffer::F32(a), Buffer::F32(b)) => by!(a, b),
        (Buffer::F64(a), Buffer::F64(b)) => by!(a, b),
        (Buffer::Int(a), Buffer::Int(b)) => zip_into(a, b, |x, y| decide(compare_ints(t, x, y))),
        (Buffer::Bool(a), Buffer::Bool(b)) => by!(a, b),
        (Buffer::Complex(a), Buffer::Complex(b)) => match direction {
            Direction::Eq => zip_into(a, b, |x, y| x == y),
            Direction::Ne => zip_into(a, b, |x, y| x != y),
            Direction::Ge | Direction::Gt | Direction::Le | Direction::Lt => return None,
        },
        _ => return None,
    })
}

/// `predicate ? on_true : on_false`, elementwise; a single predicate decides for all.
pub(crate) fn select(predicate: &[bool], on_true: Buffer, on_false: Buffer) -> Buffer {
    fn choose<T: Copy>(p: &[bool], a: Arc<Vec<T>>, b: Arc<Vec<T>>) -> Arc<Vec<T>> {
        if let [p] = p {
            return if *p { a } else { b };
        }
        match (a.as_slice(), b.as_slice()) {
            (&[x], &[y]) => Arc::new(p.iter().map(|&p| if p { x } else { y }).collect()),
            (&[x], _) => with_predicate(p, b, |y, p| if p { x } else { y }),
            (_, &[y]) => with_predicate(p, a, |x, p| if p { x } else { y }),
            _ => match Arc::try_unwrap(a) {
                Ok(mut own) => {
                    for ((x, &y), &p) in own.iter_mut().zip(b.iter()).zip(p) {
                        *x = if p { *x } else { y };
                    }
                    Arc::new(own)
                }
                Err(a) => Arc::new(a.iter().zip(b.iter()).zip(p).map(|((&x, &y), &p)| if p { x } else { y }).collect()),
            },
        }
    }
    /// `f` of every element and its predicate, in place when nobody else holds the elements.
    fn with_predicate<T: Copy>(p: &[bool], v: Arc<Vec<T>>, f: impl Fn(T, bool) -> T) -> Arc<Vec<T>> {
        match Arc::try_unwrap(v) {
            Ok(mut own) => {
                for (x, &p) in own.iter_mut().zip(p) {
                    *x = f(*x, p);
                }
                Arc::new(own)
            }
            Err(shared) => Arc::new(shared.iter().zip(p).map(|(&x, &p)| f(x, p)).collect()),
        }
    }
    match (on_true, on_false) {
        (Buffer::F32(a), Buffer::F32(b)) => Buffer::F32(choose(predicate, a, b)),
        (Buffer::F64(a), Buffer::F64(b)) => Buffer::F64(choose(predicate, a, b)),
        (Buffer::Int(a), Buffer::Int(b)) => Buffer::Int(choose(predicate, a, b)),
        (Buffer::Bool(a), Buffer::Bool(b)) => Buffer::Bool(choose(predicate, a, b)),
        (Buffer::Complex(a), Buffer::Complex(b)) => Buffer::Complex(choose(predicate, a, b)),
        _ => unreachable!("invariant: both branches of a select have one type"),
    }
}

/// Conversion of the element type: floats are truncated towards zero into integers and saturate, integers wrap, anything but zero is true.
pub(crate) fn convert(from: DType, to: DType, to_class: Class, buffer: Buffer) -> Buffer {
    let narrow_float = to_class == Class::F32 && to != DType::F32;
    match buffer {
        Buffer::Int(v) if from == DType::UI64 && to_class != Class::Int && to_class != Class::Bool => {
            settle(to, f64::pack(v.iter().map(|&x| x as u64 as f64).collect()).into_class(to_class))
        }
        // Rounding once, from the exact number.
        b @ (Buffer::Int(_) | Buffer::F64(_)) if narrow_float => match b.into_class(Class::F64) {
            Buffer::F64(v) => f32::pack(v.iter().map(|&x| narrow(to, x)).collect()),
            _ => unreachable!("invariant: the class was just chosen"),
        },
        b @ (Buffer::F32(_) | Buffer::F64(_) | Buffer::Complex(_)) if to_class == Class::Int => match b.into_class(Class::F64) {
            Buffer::F64(v) => i64::pack(v.iter().map(|&x| saturate(to, x)).collect()),
            _ => unreachable!("invariant: the class was just chosen"),
        },
        b => settle(to, b.into_class(to_class)),
    }
}

/// `x` rounded once to the float type `t` of at most 16 bits.
fn narrow(t: DType, x: f64) -> f32 {
    match t {
        DType::BF16 => half::bf16::from_f64(x).to_f32(),
        DType::F16 => half::f16::from_f64(x).to_f32(),
        t => crate::literal::decode(t, &crate::literal::encode(t, x)).map_or(f32::NAN, |v| v as f32),
    }
}

/// `x` truncated towards zero into integer type `t`; out of range gives the nearest end, NaN gives zero.
fn saturate(t: DType, x: f64) -> i64 {
    let bits = t.bits();
    if t.is_unsigned() {
        let most = u64::MAX >> (64 - bits);
        (x as u64).min(most) as i64
    } else {
        let most = i64::MAX >> (64 - bits);
        (x as i64).clamp(-most - 1, most)
    }
}

/// Reinterpretation of the bits: elements are joined or split when the widths differ (the last dimension is of the narrower type).
pub(crate) fn bitcast(x: &Tensor, to: DType, to_class: Class) -> Buffer {
    let (from, bytes) = (x.ty.dtype, x.to_bytes());
    let (wide, narrow) = (from.bits().max(to.bits()), from.bits().min(to.bits()));
    if narrow >= 8 {
        return super::tensor::decode_all(to, &bytes).into_class(to_class);
    }
    // Types of less than a byte are stored in one each: gather or scatter their bits, the lowest first.
    let ratio = (wide / narrow) as usize;
    let mask = (1u64 << narrow) - 1;
    let elements = match super::tensor::decode_all(if from.is_integer() { from } else { unsigned(from) }, &bytes) {
        Buffer::Int(v) => v,
        other => return other.into_class(to_class),
    };
    let ints: Vec<i64> = if from.bits() == narrow {
        elements.chunks(ratio).map(|c| c.iter().rev().fold(0u64, |all, &x| all << narrow | (x as u64 & mask)) as i64).collect()
    } else {
        elements.iter().flat_map(|&x| (0..ratio).map(move |i| ((x as u64) >> (i as u32 * narrow) & mask) as i64)).collect()
    };
    let holder = if to.is_integer() { to } else { unsigned(to) };
    let wrapped: Vec<i64> = ints.into_iter().map(|x| wrap(holder, x)).collect();
    let bytes = super::tensor::encode_all(holder, &i64::pack(wrapped));
    super::tensor::decode_all(to, &bytes).into_class(to_class)
}

/// The unsigned integer type as wide as `t`.
fn unsigned(t: DType) -> DType {
    match t.bytes() {
        1 => DType::UI8,
        2 => DType::UI16,
        4 => DType::UI32,
        _ => DType::UI64,
    }
}

/// Rounding to `exponent` and `mantissa` bits: ties to even, overflow to infinity, underflow to zero.
pub(crate) fn reduce_precision(exponent: u32, mantissa: u32, buffer: Buffer) -> Buffer {
    let reduce = |x: f32| {
        if !x.is_finite() {
            return x;
        }
        let (mut bits, dropped) = (x.to_bits(), 23u32.saturating_sub(mantissa));
        if dropped > 0 {
            let half = (1u32 << (dropped - 1)) - 1 + (bits >> dropped & 1);
            bits = bits.wrapping_add(half) & !((1u32 << dropped) - 1);
        }
        let sign = bits & 0x8000_0000;
        if exponent < 8 {
            let bias = (1i32 << (exponent - 1)) - 1;
            let e = (bits >> 23 & 0xff) as i32 - 127;
            if e > bias {
                return f32::from_bits(sign | 0x7f80_0000);
            }
            if e < 1 - bias {
                return f32::from_bits(sign);
            }
        }
        f32::from_bits(bits)
    };
    match buffer {
        Buffer::F32(v) => Buffer::F32(map(v, reduce)),
        b => b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(op: BinaryOp, t: DType, a: &[i64], b: &[i64]) -> Vec<i64> {
        match binary(op, t, t, i64::pack(a.to_vec()), i64::pack(b.to_vec())) {
            Some(Buffer::Int(v)) => v.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn integers_follow_their_width() {
        assert_eq!(ints(BinaryOp::Add, DType::I8, &[127], &[1]), [-128]);
        assert_eq!(ints(BinaryOp::Multiply, DType::UI32, &[0xffff_ffff], &[2]), [0xffff_fffe]);
        assert_eq!(ints(BinaryOp::Divide, DType::I32, &[7, -7, 7, i64::from(i32::MIN)], &[-2, 2, 0, -1]), [-3, -3, -1, i64::from(i32::MIN)]);
        assert_eq!(ints(BinaryOp::Divide, DType::UI8, &[250, 3], &[7, 0]), [35, 255]);
        assert_eq!(ints(BinaryOp::Remainder, DType::I32, &[-7, 7, 5], &[3, -3, 0]), [-1, 1, 5]);
        assert_eq!(ints(BinaryOp::Divide, DType::UI64, &[-1], &[2]), [i64::MAX]);
        assert_eq!(ints(BinaryOp::Power, DType::I32, &[3, 2, -1, 0], &[4, -1, -3, 0]), [81, 0, -1, 1]);
        assert_eq!(ints(BinaryOp::Maximum, DType::UI64, &[-1], &[5]), [-1]);
    }

    #[test]
    fn shifts_beyond_the_width_are_defined() {
        assert_eq!(ints(BinaryOp::ShiftLeft, DType::I32, &[1, 1, 1, 1], &[31, 32, -1, 4]), [i64::from(i32::MIN), 0, 0, 16]);
        assert_eq!(ints(BinaryOp::ShiftRightLogical, DType::I32, &[-1, -1], &[28, 40]), [15, 0]);
        assert_eq!(ints(BinaryOp::ShiftRightArithmetic, DType::I32, &[-8, -8, 8], &[1, 99, 99]), [-4, -1, 0]);
        assert_eq!(ints(BinaryOp::ShiftRightArithmetic, DType::UI8, &[0x80], &[4]), [0xf8]);
    }

    #[test]
    fn minima_and_maxima_propagate_nan() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            for op in [BinaryOp::Maximum, BinaryOp::Minimum] {
                match binary(op, DType::F32, DType::F32, f32::pack(vec![a]), f32::pack(vec![b])) {
                    Some(Buffer::F32(v)) => assert!(v[0].is_nan()),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    #[test]
    fn conversions_truncate_saturate_and_wrap() {
        let to_ints = |to, from, b| match convert(from, to, Class::Int, b) {
            Buffer::Int(v) => v.to_vec(),
            other => panic!("{other:?}"),
        };
        assert_eq!(to_ints(DType::I32, DType::F32, f32::pack(vec![-2.9, 2.9, 1e20, f32::NAN])), [-2, 2, i64::from(i32::MAX), 0]);
        assert_eq!(to_ints(DType::UI8, DType::F32, f32::pack(vec![-1.0, 300.0])), [0, 255]);
        assert_eq!(to_ints(DType::I8, DType::I32, i64::pack(vec![200])), [-56]);
        match convert(DType::UI64, DType::F32, Class::F32, i64::pack(vec![-1])) {
            Buffer::F32(v) => assert_eq!(v[0], 18_446_744_073_709_551_615f32),
            other => panic!("{other:?}"),
        }
        match convert(DType::I64, DType::BF16, Class::F32, i64::pack(vec![257])) {
            Buffer::F32(v) => assert_eq!(v[0], 256.0),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn precision_is_reduced_with_ties_to_even() {
        let reduced = |e, m, x| match reduce_precision(e, m, f32::pack(vec![x])) {
            Buffer::F32(v) => v[0],
            other => panic!("{other:?}"),
        };
        assert_eq!(reduced(8, 7, 1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(reduced(8, 7, 1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
        assert_eq!(reduced(5, 10, 70000.0), f32::INFINITY);
        assert_eq!(reduced(5, 10, 1e-9), 0.0);
    }

    #[test]
    fn neighbours() {
        assert_eq!(next_after(DType::F32, 1.0, 2.0), f64::from(1.0f32.next_up()));
        assert_eq!(next_after(DType::F32, 0.0, -1.0), f64::from(-f32::from_bits(1)));
        assert_eq!(next_after(DType::BF16, 1.0, 0.0), 1.0 - 1.0 / 256.0);
    }
}
