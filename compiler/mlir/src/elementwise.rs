//! What the elementwise operations mean for each element type, in StableHLO's semantics.
//!
//! `bf16` and `f16` are computed in `f32` and rounded by conversions and stores only. Integers wrap; division by zero gives all ones and a remainder of
//! the dividend, the smallest integer divided by minus one stays; shifts by the width or more give zero or the sign. `maximum` and `minimum` propagate
//! NaN and do not order zeros by sign; comparisons with NaN are false but for `ne`. `i1` adds by *or* and multiplies by *and*.

use crate::emit::builder::{Builder, Elem, Ty, Val};
use crate::math;
use ir::dtype::DType;
use ir::op::{BinaryOp, Direction, UnaryOp};

/// The machine type in which elements of `dtype` are computed; `None` where there is none yet.
pub(crate) fn computed_in(dtype: DType) -> Option<Elem> {
    Some(match dtype {
        DType::I1 => Elem::I1,
        DType::I8 | DType::UI8 => Elem::I8,
        DType::I16 | DType::UI16 => Elem::I16,
        DType::I32 | DType::UI32 => Elem::I32,
        DType::I64 | DType::UI64 => Elem::I64,
        DType::F32 | DType::BF16 | DType::F16 => Elem::F32,
        DType::F64 => Elem::F64,
        _ => return None,
    })
}

/// `op a`; `None` where it has no meaning or no code for `dtype`.
pub(crate) fn unary(b: &mut Builder, op: UnaryOp, dtype: DType, a: Val) -> Option<Val> {
    if dtype.is_float() { unary_float(b, op, a) } else { unary_int(b, op, dtype, a) }
}

fn unary_float(b: &mut Builder, op: UnaryOp, a: Val) -> Option<Val> {
    Some(match op {
        UnaryOp::Abs => math::abs(b, a),
        UnaryOp::Cbrt => math::cbrt(b, a),
        UnaryOp::Ceil => b.intrinsic("ceil", &[a]),
        UnaryOp::Cosine => math::cos(b, a),
        UnaryOp::Erf => math::erf(b, a),
        UnaryOp::ErfInv => math::erf_inv(b, a),
        UnaryOp::Exponential => math::exp(b, a),
        UnaryOp::ExponentialMinusOne => math::expm1(b, a),
        UnaryOp::Floor => b.intrinsic("floor", &[a]),
        UnaryOp::IsFinite => {
            let (magnitude, infinity) = (math::abs(b, a), b.float(a.ty, f64::INFINITY));
            b.compare_float("olt", magnitude, infinity)
        }
        UnaryOp::Log => math::log(b, a),
        UnaryOp::LogPlusOne => math::log1p(b, a),
        UnaryOp::Logistic => math::logistic(b, a),
        UnaryOp::Negate => b.neg(a),
        UnaryOp::RoundNearestAfz => {
            // Adding the largest number below one half rounds halves, and nothing else, away from zero.
            let almost_half = if a.ty.elem == Elem::F64 { 0.5f64.next_down() } else { f64::from(0.5f32.next_down()) };
            let magnitude = b.float(a.ty, almost_half);
            let step = math::copysign(b, magnitude, a);
            let sum = b.add_exact(a, step);
            b.intrinsic("trunc", &[sum])
        }
        UnaryOp::RoundNearestEven => b.intrinsic("roundeven", &[a]),
        UnaryOp::Rsqrt => {
            let (one, root) = (b.float(a.ty, 1.0), b.intrinsic("sqrt", &[a]));
            b.div(one, root)
        }
        UnaryOp::Sign => {
            let (one, zero) = (b.float(a.ty, 1.0), b.float(a.ty, 0.0));
            let signed = math::copysign(b, one, a);
            let ordinary = b.compare_float("one", a, zero);
            b.select(ordinary, signed, a)
        }
        UnaryOp::Sine => math::sin(b, a),
        UnaryOp::Sqrt => b.intrinsic("sqrt", &[a]),
        UnaryOp::Square => b.mul(a, a),
        UnaryOp::Tan => math::tan(b, a),
        UnaryOp::Tanh => math::tanh(b, a),
        UnaryOp::Sinh => math::sinh(b, a),
        UnaryOp::Cosh => math::cosh(b, a),
        UnaryOp::Asin => math::asin(b, a),
        UnaryOp::Acos => math::acos(b, a),
        UnaryOp::Atan => math::atan(b, a),
        UnaryOp::Asinh => math::asinh(b, a),
        UnaryOp::Acosh => math::acosh(b, a),
        UnaryOp::Atanh => math::atanh(b, a),
        UnaryOp::Erfc => math::erfc(b, a),
        UnaryOp::Real => a,
        UnaryOp::Imag => b.float(a.ty, 0.0),
        UnaryOp::Lgamma => math::lgamma(b, a),
        UnaryOp::Digamma => math::digamma(b, a),
        UnaryOp::CountLeadingZeros | UnaryOp::Not | UnaryOp::PopulationCount => return None,
    })
}

fn unary_int(b: &mut Builder, op: UnaryOp, dtype: DType, a: Val) -> Option<Val> {
    let zero = b.int(a.ty, 0);
    Some(match op {
        UnaryOp::Not => b.not(a),
        UnaryOp::Abs if dtype.is_unsigned() || dtype == DType::I1 => a,
        UnaryOp::Abs => {
            let negated = b.sub(zero, a);
            let negative = b.compare_int("slt", a, zero);
            b.select(negative, negated, a)
        }
        UnaryOp::Negate => b.sub(zero, a),
        UnaryOp::Square => b.mul(a, a),
        UnaryOp::Sign => {
            let (one, minus_one) = (b.int(a.ty, 1), b.int(a.ty, -1));
            let any = b.compare_int("ne", a, zero);
            let positive = b.select(any, one, zero);
            if dtype.is_unsigned() || dtype == DType::I1 {
                return Some(positive);
            }
            let negative = b.compare_int("slt", a, zero);
            b.select(negative, minus_one, positive)
        }
        UnaryOp::PopulationCount if dtype != DType::I1 => b.intrinsic("ctpop", &[a]),
        UnaryOp::CountLeadingZeros if dtype != DType::I1 => b.leading_zeros(a),
        _ => return None,
    })
}

/// `a op b`; `None` where it has no meaning or no code for `dtype`.
pub(crate) fn binary(b: &mut Builder, op: BinaryOp, dtype: DType, x: Val, y: Val) -> Option<Val> {
    if dtype.is_float() {
        binary_float(b, op, dtype, x, y)
    } else if dtype == DType::I1 {
        binary_bool(b, op, x, y)
    } else {
        binary_int(b, op, dtype.is_unsigned(), x, y)
    }
}

fn binary_float(b: &mut Builder, op: BinaryOp, dtype: DType, x: Val, y: Val) -> Option<Val> {
    Some(match op {
        BinaryOp::Add => b.add(x, y),
        BinaryOp::Subtract => b.sub(x, y),
        BinaryOp::Multiply => b.mul(x, y),
        BinaryOp::Divide => b.div(x, y),
        BinaryOp::Maximum | BinaryOp::Minimum => {
            // The machine's maximum of (x, y) is y when either is a NaN: only a NaN in x must be put back.
            let better = b.compare_float(if op == BinaryOp::Maximum { "ogt" } else { "olt" }, x, y);
            let best = b.select(better, x, y);
            let unordered = b.compare_float("uno", x, x);
            b.select(unordered, x, best)
        }
        BinaryOp::Power => {
            let (x, y) = same_lanes(b, x, y);
            math::pow(b, x, y)
        }
        BinaryOp::Atan2 => {
            let (x, y) = same_lanes(b, x, y);
            math::atan2(b, x, y)
        }
        BinaryOp::Remainder => {
            let (x, y) = same_lanes(b, x, y);
            math::remainder(b, x, y)
        }
        BinaryOp::NextAfter if matches!(dtype, DType::F32 | DType::F64) => next_after(b, x, y),
        _ => return None,
    })
}

fn same_lanes(b: &mut Builder, x: Val, y: Val) -> (Val, Val) {
    let lanes = x.ty.lanes.max(y.ty.lanes);
    (b.broadcast(x, lanes), b.broadcast(y, lanes))
}

fn next_after(b: &mut Builder, x: Val, y: Val) -> Val {
    let int = x.ty.as_int();
    let (zero, one, minus_one) = (b.int(int, 0), b.int(int, 1), b.int(int, -1));
    let float_zero = b.float(x.ty, 0.0);
    let bits = b.bitcast(x, int.elem);
    let up = b.compare_float("olt", x, y);
    let negative = b.compare_int("slt", bits, zero);
    // Away from zero when moving in the direction of the sign.
    let shrinks = b.compare_int("eq", up, negative);
    let step = b.select(shrinks, minus_one, one);
    let moved = b.add(bits, step);
    let moved = b.bitcast(moved, x.ty.elem);
    // From zero to the smallest denormal of the sign of y.
    let smallest = b.bitcast(one, x.ty.elem);
    let smallest = math::copysign(b, smallest, y);
    let from_zero = b.compare_float("oeq", x, float_zero);
    let moved = b.select(from_zero, smallest, moved);
    let equal = b.compare_float("oeq", x, y);
    let result = b.select(equal, y, moved);
    let unordered = b.compare_float("uno", x, y);
    let sum = b.add_exact(x, y);
    b.select(unordered, sum, result)
}

fn binary_bool(b: &mut Builder, op: BinaryOp, x: Val, y: Val) -> Option<Val> {
    Some(match op {
        BinaryOp::Add | BinaryOp::Or | BinaryOp::Maximum => b.or(x, y),
        BinaryOp::Multiply | BinaryOp::And | BinaryOp::Minimum => b.and(x, y),
        BinaryOp::Xor => b.xor(x, y),
        _ => return None,
    })
}

fn binary_int(b: &mut Builder, op: BinaryOp, unsigned: bool, x: Val, y: Val) -> Option<Val> {
    let (x, y) = same_lanes(b, x, y);
    Some(match op {
        BinaryOp::Add => b.add(x, y),
        BinaryOp::Subtract => b.sub(x, y),
        BinaryOp::Multiply => b.mul(x, y),
        BinaryOp::And => b.and(x, y),
        BinaryOp::Or => b.or(x, y),
        BinaryOp::Xor => b.xor(x, y),
        BinaryOp::Maximum => {
            let better = b.compare_int(if unsigned { "ugt" } else { "sgt" }, x, y);
            b.select(better, x, y)
        }
        BinaryOp::Minimum => {
            let better = b.compare_int(if unsigned { "ult" } else { "slt" }, x, y);
            b.select(better, x, y)
        }
        BinaryOp::Divide | BinaryOp::Remainder => divide(b, op == BinaryOp::Divide, unsigned, x, y),
        BinaryOp::Power => math::pow_int(b, x, y, unsigned),
        BinaryOp::ShiftLeft => shift(b, "arith.shli", x, y),
        BinaryOp::ShiftRightLogical => shift(b, "arith.shrui", x, y),
        BinaryOp::ShiftRightArithmetic => {
            // Shifting by all but the last bit fills with the sign.
            let most = b.int(y.ty, i64::from(y.ty.elem.bits()) - 1);
            let over = b.compare_int("ugt", y, most);
            let by = b.select(over, most, y);
            b.binary("arith.shrsi", x, by)
        }
        BinaryOp::Atan2 | BinaryOp::NextAfter | BinaryOp::Complex => return None,
    })
}

fn shift(b: &mut Builder, op: &str, x: Val, y: Val) -> Val {
    let (width, zero) = (b.int(y.ty, i64::from(y.ty.elem.bits())), b.int(y.ty, 0));
    let inside = b.compare_int("ult", y, width);
    let by = b.select(inside, y, zero);
    let shifted = b.binary(op, x, by);
    b.select(inside, shifted, zero)
}

fn divide(b: &mut Builder, quotient: bool, unsigned: bool, x: Val, y: Val) -> Val {
    let (zero, one, minus_one) = (b.int(x.ty, 0), b.int(x.ty, 1), b.int(x.ty, -1));
    let by_zero = b.compare_int("eq", y, zero);
    let mut safe = b.select(by_zero, one, y);
    if !unsigned {
        // The smallest integer divided by one is itself, without remainder, as it shall be by minus one.
        let least = b.int(x.ty, i64::MIN >> (64 - x.ty.elem.bits()));
        let is_least = b.compare_int("eq", x, least);
        let by_minus_one = b.compare_int("eq", y, minus_one);
        let both = b.and(is_least, by_minus_one);
        safe = b.select(both, one, safe);
    }
    let (op, undefined) = match (quotient, unsigned) {
        (true, true) => ("arith.divui", minus_one),
        (true, false) => ("arith.divsi", minus_one),
        (false, true) => ("arith.remui", x),
        (false, false) => ("arith.remsi", x),
    };
    let result = b.binary(op, x, safe);
    b.select(by_zero, undefined, result)
}

/// `a` compared with `b`, both of `dtype`.
pub(crate) fn compare(b: &mut Builder, direction: Direction, total: bool, dtype: DType, x: Val, y: Val) -> Val {
    if dtype.is_float() && !total {
        let predicate = match direction {
            Direction::Eq => "oeq",
            Direction::Ne => "une",
            Direction::Ge => "oge",
            Direction::Gt => "ogt",
            Direction::Le => "ole",
            Direction::Lt => "olt",
        };
        return b.compare_float(predicate, x, y);
    }
    let (x, y) = if dtype.is_float() { (total_order_key(b, x), total_order_key(b, y)) } else { (x, y) };
    let unsigned = dtype.is_unsigned() || dtype == DType::I1;
    let predicate = match (direction, unsigned) {
        (Direction::Eq, _) => "eq",
        (Direction::Ne, _) => "ne",
        (Direction::Ge, true) => "uge",
        (Direction::Gt, true) => "ugt",
        (Direction::Le, true) => "ule",
        (Direction::Lt, true) => "ult",
        (Direction::Ge, false) => "sge",
        (Direction::Gt, false) => "sgt",
        (Direction::Le, false) => "sle",
        (Direction::Lt, false) => "slt",
    };
    b.compare_int(predicate, x, y)
}

/// An integer ordered as the floats are, `-NaN < -∞ < … < -0 < 0 < … < ∞ < NaN`.
fn total_order_key(b: &mut Builder, x: Val) -> Val {
    let bits = b.bitcast(x, x.ty.elem.as_int());
    let zero = b.int(bits.ty, 0);
    let all_but_sign = b.int(bits.ty, i64::MAX >> (64 - bits.ty.elem.bits()));
    let flipped = b.xor(bits, all_but_sign);
    let negative = b.compare_int("slt", bits, zero);
    b.select(negative, flipped, bits)
}

/// Conversion between element types: rounding to nearest even, saturating from floats to integers (NaN to zero), wrapping between integers.
pub(crate) fn convert(b: &mut Builder, v: Val, from: DType, to: DType, half_hardware: bool) -> Val {
    let target = computed_in(to).expect("invariant: types were checked");
    if from == to {
        return v;
    }
    if to == DType::I1 {
        return if from.is_float() {
            let zero = b.float(v.ty, 0.0);
            b.compare_float("une", v, zero)
        } else {
            let zero = b.int(v.ty, 0);
            b.compare_int("ne", v, zero)
        };
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => {
            let v = match (v.ty.elem, to) {
                (Elem::F64, DType::F64) => return v,
                (Elem::F64, DType::F32) => return b.convert("arith.truncf", v, Elem::F32),
                (Elem::F64, _) => round_to_odd(b, v),
                (_, DType::F64) => return b.convert("arith.extf", v, Elem::F64),
                _ => v,
            };
            round_to_storage(b, v, to, half_hardware)
        }
        (true, false) => b.int_saturating(v, target, to.is_unsigned()),
        (false, true) => {
            let op = if from.is_unsigned() || from == DType::I1 { "arith.uitofp" } else { "arith.sitofp" };
            if to == DType::F64 || to == DType::F32 {
                return b.convert(op, v, target);
            }
            let wide = b.convert(op, v, Elem::F64);
            let odd = round_to_odd(b, wide);
            round_to_storage(b, odd, to, half_hardware)
        }
        (false, false) => {
            let (has, wants) = (v.ty.elem.bits(), target.bits());
            match has.cmp(&wants) {
                std::cmp::Ordering::Equal => v,
                std::cmp::Ordering::Greater => b.convert("arith.trunci", v, target),
                std::cmp::Ordering::Less if from.is_unsigned() || from == DType::I1 => b.convert("arith.extui", v, target),
                std::cmp::Ordering::Less => b.convert("arith.extsi", v, target),
            }
        }
    }
}

/// An `f64` in `f32`, inexact results to the neighbour with an odd last bit, so that a second rounding is right.
fn round_to_odd(b: &mut Builder, v: Val) -> Val {
    let near = b.convert("arith.truncf", v, Elem::F32);
    let back = b.convert("arith.extf", near, Elem::F64);
    let bits = b.bitcast(near, Elem::I32);
    let (zero, one, minus_one) = (b.int(bits.ty, 0), b.int(bits.ty, 1), b.int(bits.ty, -1));
    let (rounded, exact) = (math::abs(b, back), math::abs(b, v));
    let too_small = b.compare_float("olt", rounded, exact);
    let too_large = b.compare_float("ogt", rounded, exact);
    let step = b.select(too_small, one, zero);
    let step = b.select(too_large, minus_one, step);
    let low = b.and(bits, one);
    let even = b.compare_int("eq", low, zero);
    let step = b.select(even, step, zero);
    let bits = b.add(bits, step);
    b.bitcast(bits, Elem::F32)
}

/// Rounds a computed value to what `dtype` can hold, still in the computed type.
pub(crate) fn round_to_storage(b: &mut Builder, v: Val, dtype: DType, half_hardware: bool) -> Val {
    match dtype {
        DType::BF16 => {
            let bits = rounded_bf16_bits(b, v);
            let mask = b.int(bits.ty, 0xffff_0000);
            let bits = b.and(bits, mask);
            b.bitcast(bits, Elem::F32)
        }
        DType::F16 => {
            let stored = to_storage(b, v, dtype, half_hardware, false);
            from_storage(b, stored, dtype)
        }
        _ => v,
    }
}

/// The bits of an `f32`, rounded so that its upper half is the `bf16`.
fn rounded_bf16_bits(b: &mut Builder, v: Val) -> Val {
    let bits = b.bitcast(v, Elem::I32);
    let upper = b.shift("arith.shrui", bits, 16);
    let one = b.int(bits.ty, 1);
    let odd = b.and(upper, one);
    let half = b.int(bits.ty, 0x7fff);
    let sum = b.add(bits, half);
    let sum = b.add(sum, odd);
    let quiet = b.int(bits.ty, 0x0040_0000);
    let quieted = b.or(bits, quiet);
    let unordered = b.compare_float("uno", v, v);
    b.select(unordered, quieted, sum)
}

/// The type in which elements of `dtype` are in memory.
pub(crate) fn stored_in(dtype: DType, half_hardware: bool) -> Elem {
    match dtype {
        DType::I1 => Elem::I8,
        DType::BF16 => Elem::I16,
        DType::F16 if half_hardware => Elem::F16,
        DType::F16 => Elem::I16,
        _ => computed_in(dtype).expect("invariant: types were checked"),
    }
}

/// A loaded value in the type it is computed in.
pub(crate) fn from_storage(b: &mut Builder, v: Val, dtype: DType) -> Val {
    match dtype {
        DType::I1 => {
            let zero = b.int(v.ty, 0);
            b.compare_int("ne", v, zero)
        }
        DType::BF16 => {
            let wide = b.convert("arith.extui", v, Elem::I32);
            let bits = b.shift("arith.shli", wide, 16);
            b.bitcast(bits, Elem::F32)
        }
        DType::F16 if v.ty.elem == Elem::F16 => b.convert("arith.extf", v, Elem::F32),
        DType::F16 => half_to_single(b, v),
        _ => v,
    }
}

/// A computed value as it is stored. `rounded` says that `dtype` holds the value exactly.
pub(crate) fn to_storage(b: &mut Builder, v: Val, dtype: DType, half_hardware: bool, rounded: bool) -> Val {
    match dtype {
        DType::I1 => b.convert("arith.extui", v, Elem::I8),
        DType::BF16 => {
            let bits = if rounded { b.bitcast(v, Elem::I32) } else { rounded_bf16_bits(b, v) };
            let upper = b.shift("arith.shrui", bits, 16);
            b.convert("arith.trunci", upper, Elem::I16)
        }
        DType::F16 if half_hardware => b.convert("arith.truncf", v, Elem::F16),
        DType::F16 => single_to_half(b, v),
        _ => v,
    }
}

fn half_to_single(b: &mut Builder, v: Val) -> Val {
    let wide = b.convert("arith.extui", v, Elem::I32);
    let ty = wide.ty;
    let (magnitude_mask, exponent_mask) = (b.int(ty, 0x7fff), b.int(ty, 0x7c00));
    let magnitude = b.and(wide, magnitude_mask);
    let shifted = b.shift("arith.shli", magnitude, 13);
    let as_float = b.bitcast(shifted, Elem::F32);
    let up = b.float(as_float.ty, 2f64.powi(112));
    let scaled = b.mul_exact(as_float, up);
    let scaled = b.bitcast(scaled, Elem::I32);
    let special_exponent = b.int(ty, 0x7f80_0000);
    let special = b.or(shifted, special_exponent);
    let is_special = b.compare_int("uge", magnitude, exponent_mask);
    let bits = b.select(is_special, special, scaled);
    let sign_mask = b.int(ty, 0x8000);
    let sign = b.and(wide, sign_mask);
    let sign = b.shift("arith.shli", sign, 16);
    let bits = b.or(bits, sign);
    b.bitcast(bits, Elem::F32)
}

fn single_to_half(b: &mut Builder, v: Val) -> Val {
    let bits = b.bitcast(v, Elem::I32);
    let ty: Ty = bits.ty;
    let magnitude_mask = b.int(ty, 0x7fff_ffff);
    let magnitude = b.and(bits, magnitude_mask);
    // Normal halves: rebias, then round to nearest even.
    let rebias = b.int(ty, -(112 << 23) + 0xfff);
    let one = b.int(ty, 1);
    let lowest = b.shift("arith.shrui", magnitude, 13);
    let odd = b.and(lowest, one);
    let sum = b.add(magnitude, rebias);
    let sum = b.add(sum, odd);
    let normal = b.shift("arith.shrui", sum, 13);
    // Denormal halves: adding one half leaves their bits at the bottom.
    let value = b.bitcast(magnitude, Elem::F32);
    let half = b.float(value.ty, 0.5);
    let shifted = b.add_exact(value, half);
    let shifted = b.bitcast(shifted, Elem::I32);
    let half_bits = b.bitcast(half, Elem::I32);
    let denormal = b.sub(shifted, half_bits);
    let least_normal = b.int(ty, 113 << 23);
    let is_denormal = b.compare_int("ult", magnitude, least_normal);
    let result = b.select(is_denormal, denormal, normal);
    let overflow = b.int(ty, 0x477f_f000);
    let infinite = b.compare_int("uge", magnitude, overflow);
    let infinity = b.int(ty, 0x7c00);
    let result = b.select(infinite, infinity, result);
    let unordered = b.compare_float("uno", v, v);
    let not_a_number = b.int(ty, 0x7e00);
    let result = b.select(unordered, not_a_number, result);
    let sign = b.shift("arith.shrui", bits, 16);
    let sign_mask = b.int(ty, 0x8000);
    let sign = b.and(sign, sign_mask);
    let result = b.or(result, sign);
    b.convert("arith.trunci", result, Elem::I16)
}
