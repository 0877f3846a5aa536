//! Scalar arithmetic that is more than an operator: conversions, directed rounding, and the `.approx` functions with their documented bounds.
//!
//! Results that must be rounded once are computed in `f64` and *rounded to odd*: truncated, with the last bit set where anything was cut off. Rounding
//! such a value again, to a format at least two bits narrower and in any mode, gives what rounding the exact value would (Boldo and Melquiond, "Emulation
//! of FMA and correctly rounded sums: proved algorithms using rounding to odd").

use crate::code::{Approx, Conversion, Exact, Rounded, Rounding};
use crate::syntax::Type;
use half::{bf16, f16};

/// The NaN of singles.
pub(crate) const NAN: u32 = 0x7FFF_FFFF;
/// The NaN of halves and brain floats.
const NAN16: u16 = 0x7FFF;

/// A NaN becomes the one NaN that PTX gives.
#[inline(always)]
pub(crate) fn canonical(v: f32) -> u32 {
    if v.is_nan() { NAN } else { v.to_bits() }
}

/// `min` of singles: a number before a NaN, and -0 before +0.
#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> u32 {
    let (x, y) = (a.to_bits(), b.to_bits());
    let smaller = if a == b {
        x | y
    } else if a < b {
        x
    } else {
        y
    };
    if a.is_nan() {
        canonical(b)
    } else if b.is_nan() {
        x
    } else {
        smaller
    }
}

/// `max` of singles: a number before a NaN, and +0 before -0.
#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> u32 {
    let (x, y) = (a.to_bits(), b.to_bits());
    let larger = if a == b {
        x & y
    } else if a > b {
        x
    } else {
        y
    };
    if a.is_nan() {
        canonical(b)
    } else if b.is_nan() {
        x
    } else {
        larger
    }
}

/// `min` and `max` of doubles.
pub(crate) fn extreme(a: f64, b: f64, largest: bool) -> f64 {
    if a.is_nan() || b.is_nan() {
        return if a.is_nan() { b } else { a };
    }
    let first = if a == b { a.is_sign_negative() != largest } else { (a < b) != largest };
    if first { a } else { b }
}

#[inline(always)]
pub(crate) fn flush(v: u32) -> u32 {
    if v & 0x7F80_0000 == 0 { v & 0x8000_0000 } else { v }
}

#[inline(always)]
pub(crate) fn saturate(v: f32) -> u32 {
    // Whatever is not above zero, a NaN too, is zero.
    if v > 0.0 { v.min(1.0).to_bits() } else { 0 }
}

#[inline(always)]
pub(crate) fn relu(v: f32) -> u32 {
    if v.is_nan() {
        NAN
    } else if v > 0.0 {
        v.to_bits()
    } else {
        0
    }
}

#[inline(always)]
pub(crate) fn from_half(v: u32) -> u32 {
    canonical(f16::from_bits(v as u16).to_f32())
}

#[inline(always)]
pub(crate) fn to_half(v: u32) -> u32 {
    let v = f32::from_bits(v);
    u32::from(if v.is_nan() { NAN16 } else { f16::from_f32(v).to_bits() })
}

#[inline(always)]
pub(crate) fn from_brain(v: u32) -> u32 {
    canonical(f32::from_bits(v << 16))
}

#[inline(always)]
pub(crate) fn to_brain(v: u32) -> u32 {
    let even = v.wrapping_add(0x7FFF + (v >> 16 & 1)) >> 16;
    if f32::from_bits(v).is_nan() { u32::from(NAN16) } else { even }
}

/// A value beside the exact one, and on which side of it the exact one lies (0: it is exact), as the one of the two neighbours whose last bit is set.
fn odd(near: f64, side: f64) -> f64 {
    if side == 0.0 || side.is_nan() || near.to_bits() & 1 == 1 || !near.is_finite() {
        near
    } else if side > 0.0 {
        near.next_up()
    } else {
        near.next_down()
    }
}

fn add_odd(a: f64, b: f64) -> f64 {
    let s = a + b;
    let t = s - a;
    odd(s, (a - (s - t)) + (b - t))
}

/// Exact arithmetic on values of at most 24 bits, rounded to odd.
fn exact(what: Exact, a: f64, b: f64, c: f64) -> f64 {
    match what {
        Exact::Add => add_odd(a, b),
        Exact::Sub => add_odd(a, -b),
        Exact::Mul => a * b,
        Exact::Fma => add_odd(a * b, c),
        Exact::Div => {
            let q = a / b;
            odd(q, if q.is_finite() && q != 0.0 { (-q).mul_add(b, a) * b.signum() } else { 0.0 })
        }
        Exact::Sqrt => {
            let q = a.sqrt();
            odd(q, if q.is_finite() { (-q).mul_add(q, a) } else { 0.0 })
        }
    }
}

/// A double, rounded to odd or exact, as a single.
pub(crate) fn to_single(v: f64, rounding: Rounding) -> f32 {
    let near = v as f32;
    if v.is_nan() || f64::from(near) == v {
        return near;
    }
    let above = f64::from(near) > v;
    match rounding {
        Rounding::Even => near,
        Rounding::Down if above => near.next_down(),
        Rounding::Up if !above => near.next_up(),
        Rounding::Zero if above == (v > 0.0) => {
            if above {
                near.next_down()
            } else {
                near.next_up()
            }
        }
        Rounding::Away => {
            // Half-way cases go away from zero; all others are nearest already.
            let other = if above { near.next_down() } else { near.next_up() };
            let tie = (v - f64::from(near)).abs() == (v - f64::from(other)).abs();
            if tie && other.abs() > near.abs() { other } else { near }
        }
        _ => near,
    }
}

fn single_odd(v: f64) -> f32 {
    let cut = to_single(v, Rounding::Zero);
    if f64::from(cut) == v || v.is_nan() { cut } else { f32::from_bits(cut.to_bits() | 1) }
}

/// A double, rounded to odd or exact, as the bits of a half or brain float.
fn to_16(v: f64, brain: bool, rounding: Rounding) -> u16 {
    if v.is_nan() {
        return NAN16;
    }
    let odd = single_odd(v);
    let widen = |bits: u16| if brain { f64::from(bf16::from_bits(bits).to_f32()) } else { f64::from(f16::from_bits(bits).to_f32()) };
    let near = if brain { to_brain(odd.to_bits()) as u16 } else { f16::from_f32(odd).to_bits() };
    let got = widen(near);
    if got == v {
        return near;
    }
    // Away from zero is one up in bits, towards it one down.
    let too_large = got.abs() > v.abs();
    let negative = v < 0.0;
    let (shrink, grow) = match rounding {
        Rounding::Zero => (true, false),
        Rounding::Down => (!negative, negative),
        Rounding::Up => (negative, !negative),
        Rounding::Even | Rounding::Away => (false, false),
    };
    match (too_large && shrink, !too_large && grow) {
        (true, _) => near - 1,
        (_, true) => near + 1,
        _ => near,
    }
}

/// One value of a [`Rounded`] instruction; operands and result are bits of its type.
pub(crate) fn rounded(r: &Rounded, operands: [u32; 3]) -> u32 {
    let brain = r.ty == Type::BF16;
    let read = |bits: u32| match r.ty {
        Type::F(16) => f64::from(f16::from_bits(bits as u16).to_f32()),
        Type::BF16 => f64::from(f32::from_bits(bits << 16)),
        _ => f64::from(f32::from_bits(bits)),
    };
    let tiny = |bits: u32| if r.ty == Type::F(16) { bits & 0x7C00 == 0 } else { bits & 0x7F80 == 0 };
    let input = |bits: u32| if r.flush && r.ty != Type::F(32) && tiny(bits) { bits & 0x8000 } else { bits };
    let [a, b, c] = operands.map(|bits| read(input(bits)));
    let mut v = exact(r.what, a, b, c);
    if v == 0.0 && r.rounding == Rounding::Down && matches!(r.what, Exact::Add | Exact::Sub | Exact::Fma) {
        // Towards minus infinity a sum that cancels is -0, unless both parts are +0.
        let (x, y) = match r.what {
            Exact::Add => (a, b),
            Exact::Sub => (a, -b),
            _ => (a * b, c),
        };
        v = if x.is_sign_positive() && y.is_sign_positive() { 0.0 } else { -0.0 };
    }
    if r.saturate {
        v = if v > 0.0 { v.min(1.0) } else { 0.0 };
    }
    if r.relu && v <= 0.0 {
        v = 0.0;
    }
    match r.ty {
        Type::F(32) => canonical(to_single(v, r.rounding)),
        _ => {
            let bits = u32::from(to_16(v, brain, r.rounding));
            if r.flush && tiny(bits) { bits & 0x8000 } else { bits }
        }
    }
}

fn integral(v: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Even => v.round_ties_even(),
        Rounding::Away => v.round(),
        Rounding::Zero => v.trunc(),
        Rounding::Down => v.floor(),
        Rounding::Up => v.ceil(),
    }
}

fn range(ty: Type) -> (i128, i128) {
    let bits = ty.bits();
    if ty.signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The bits of a value of type `from` (upper bits ignored) as one of type `to`, sign-extended to the register where it is signed.
pub(crate) fn convert(c: &Conversion, bits: u64) -> u64 {
    let mask = |n: u8| if n == 64 { u64::MAX } else { (1 << n) - 1 };
    let bits = bits & mask(c.from.bits());
    if !c.from.float() {
        let shift = 64 - u32::from(c.from.bits());
        let v = if c.from.signed() { i128::from((bits << shift) as i64 >> shift) } else { i128::from(bits) };
        if !c.to.float() {
            let (low, high) = range(c.to);
            return extend(if c.saturate { v.clamp(low, high) } else { v } as u64, c);
        }
        return extend(from_integer(v, c), c);
    }
    let mut v = match c.from {
        Type::F(16) => f64::from(f16::from_bits(bits as u16).to_f32()),
        Type::BF16 => f64::from(f32::from_bits((bits as u32) << 16)),
        Type::F(32) => f64::from(f32::from_bits(if c.flush { flush(bits as u32) } else { bits as u32 })),
        _ => f64::from_bits(bits),
    };
    if !c.to.float() {
        let (low, high) = range(c.to);
        // `as` saturates, and what is no number becomes 0.
        return extend(((integral(v, c.rounding) as i128).clamp(low, high)) as u64, c);
    }
    if c.integral {
        v = integral(v, c.rounding);
    }
    if c.saturate {
        v = if v > 0.0 { v.min(1.0) } else { 0.0 };
    }
    if c.relu && v <= 0.0 {
        v = 0.0;
    }
    extend(float_bits(v, c), c)
}

fn float_bits(v: f64, c: &Conversion) -> u64 {
    match c.to {
        Type::F(16) => u64::from(to_16(v, false, c.rounding)),
        Type::BF16 => u64::from(to_16(v, true, c.rounding)),
        Type::F(32) => {
            let bits = canonical(to_single(v, c.rounding));
            u64::from(if c.flush { flush(bits) } else { bits })
        }
        _ => v.to_bits(),
    }
}

fn from_integer(v: i128, c: &Conversion) -> u64 {
    let near = v as f64;
    let back = near as i128;
    if c.to != Type::F(64) {
        return float_bits(odd(near, (v - back) as f64), c);
    }
    let stepped = match c.rounding {
        Rounding::Down if back > v => near.next_down(),
        Rounding::Up if back < v => near.next_up(),
        Rounding::Zero if back.abs() > v.abs() => {
            if v > 0 {
                near.next_down()
            } else {
                near.next_up()
            }
        }
        _ => near,
    };
    stepped.to_bits()
}

/// Cut to the type, then extended to the register.
fn extend(bits: u64, c: &Conversion) -> u64 {
    let n = c.to.bits();
    if n == 64 {
        return bits;
    }
    let shift = 64 - u32::from(n);
    let wide = if c.to.signed() { ((bits << shift) as i64 >> shift) as u64 } else { bits & ((1 << n) - 1) };
    if c.d.bits == 64 { wide } else { wide & ((1 << c.d.bits) - 1) }
}

/// A number in [-1, 1] that depends on the seed, the instruction and its operands only, so that results do not depend on who computes them.
fn deviation(seed: u64, f: Approx, a: u64, b: u64) -> f64 {
    let mut x = seed ^ (f as u64) << 56 ^ a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b.rotate_left(32);
    for k in [0xBF58_476D_1CE4_E5B9u64, 0x94D0_49BB_1331_11EB] {
        x = (x ^ x >> 30).wrapping_mul(k);
    }
    ((x ^ x >> 31) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// What the documentation allows beside the rounding of the result: a part of the result, and a number.
fn bound(f: Approx, a: f64) -> (f64, f64) {
    let half_unit = (-24f64).exp2();
    let relative = |bits: f64| (bits.exp2() - half_unit, 0.0);
    let absolute = |bits: f64| (0.0, bits.exp2() - half_unit);
    match f {
        Approx::Div | Approx::DivFull | Approx::Ex2 => (1.5 * half_unit, 0.0),
        Approx::Rcp => (0.5 * half_unit, 0.0),
        Approx::Sqrt => relative(-23.0),
        Approx::Rsqrt => relative(-22.9),
        Approx::Sin | Approx::Cos => absolute(-20.5),
        Approx::Lg2 if a > 0.5 && a < 2.0 => absolute(-22.0),
        Approx::Lg2 => relative(-22.0),
        Approx::Tanh => relative(-11.0),
        // What rounding to the narrow format may already have taken is left out.
        Approx::Ex2Half => ((-9.9f64).exp2() - (-11f64).exp2(), 0.0),
        Approx::TanhHalf => (0.0, (-10.987f64).exp2() - (-11f64).exp2()),
        Approx::Ex2Brain => ((-7f64).exp2() - (-8f64).exp2(), 0.0),
        Approx::TanhBrain => (0.0, (-8f64).exp2() - (-9f64).exp2()),
        Approx::RcpDouble | Approx::RsqrtDouble => (0.0, 0.0),
    }
}

/// An `.approx` function of bits; with a seed the result deviates within the documented bound.
pub(crate) fn approximate(f: Approx, a: u64, b: u64, seed: Option<u64>) -> u64 {
    let single = |bits: u64| f64::from(f32::from_bits(bits as u32));
    let x = match f {
        Approx::Ex2Half | Approx::TanhHalf => f64::from(f16::from_bits(a as u16).to_f32()),
        Approx::Ex2Brain | Approx::TanhBrain => f64::from(f32::from_bits((a as u32) << 16)),
        Approx::RcpDouble | Approx::RsqrtDouble => f64::from_bits(a),
        _ => single(a),
    };
    let y = match f {
        Approx::Div => {
            let d = single(b);
            // Divisors whose reciprocal is no normal number.
            let huge = d.abs() > 2f64.powi(126) && d.is_finite();
            if huge && x.is_infinite() {
                f64::NAN
            } else if huge && !x.is_nan() {
                (x / d).signum() * 0.0
            } else {
                x / d
            }
        }
        Approx::DivFull => x / single(b),
        Approx::Rcp => 1.0 / x,
        Approx::Sqrt => x.sqrt(),
        Approx::Rsqrt => 1.0 / x.sqrt(),
        Approx::Sin => x.sin(),
        Approx::Cos => x.cos(),
        Approx::Lg2 => x.log2(),
        Approx::Ex2 | Approx::Ex2Half | Approx::Ex2Brain => x.exp2(),
        Approx::Tanh | Approx::TanhHalf | Approx::TanhBrain => x.tanh(),
        // Only the upper half of the operand is read, and of the result given.
        Approx::RcpDouble => return f64::to_bits(1.0 / f64::from_bits(a & !0xFFFF_FFFF)) & !0xFFFF_FFFF,
        Approx::RsqrtDouble => return (1.0 / x.sqrt()).to_bits(),
    };
    let y = match seed {
        Some(seed) if y.is_finite() && y != 0.0 => {
            let u = deviation(seed, f, a, b);
            let (relative, absolute) = bound(f, x);
            y + u * (y.abs() * relative + absolute)
        }
        _ => y,
    };
    match f {
        Approx::Ex2Half | Approx::TanhHalf => u64::from(to_16(y, false, Rounding::Even)),
        Approx::Ex2Brain | Approx::TanhBrain => u64::from(to_16(y, true, Rounding::Even)),
        _ => u64::from(canonical(y as f32)),
    }
}
