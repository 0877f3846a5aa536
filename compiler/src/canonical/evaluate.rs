//! Evaluates elementwise ops on constants whose elements are all the same.
//!
//! Sums, products, quotients and roots are computed in f64 and rounded once, which is correct rounding for f32 and narrower types; integers wrap.
//! What is not covered is simply not folded.

use ir::literal::{Data, Literal, decode, encode};
use ir::op::{BinaryOp, Direction, OpKind, UnaryOp};
use ir::{DType, TensorType};

/// The constant that an elementwise op gives on splat constants, if it can be told exactly.
pub(super) fn elementwise(kind: &OpKind, operands: &[&Literal], ty: &TensorType) -> Option<Literal> {
    let of = |i: usize| Some((operands.get(i)?.ty.dtype, operands.get(i)?.splat_bytes()?));
    let (dtype, first) = of(0)?;
    let bytes = match kind {
        OpKind::Unary(op) => unary(*op, dtype, first, ty.dtype)?,
        OpKind::Binary(op) => binary(*op, dtype, first, of(1)?.1)?,
        OpKind::Compare { direction, total: false } => vec![u8::from(compare(*direction, dtype, first, of(1)?.1)?)],
        OpKind::Select => of(if first.first()? & 1 == 1 { 1 } else { 2 })?.1.to_vec(),
        OpKind::Convert => convert(dtype, first, ty.dtype)?,
        _ => return None,
    };
    Some(Literal { ty: ty.clone(), data: Data::Splat(bytes) })
}

/// An integer constant's value; `None` for other types.
pub(super) fn integer(dtype: DType, bytes: &[u8]) -> Option<i128> {
    if !dtype.is_integer() || dtype.bits() < 8 && dtype != DType::I1 {
        return None;
    }
    let mut wide = [0u8; 16];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let bits = i128::from_le_bytes(wide);
    let width = dtype.bytes() * 8;
    Some(if dtype.is_unsigned() || dtype == DType::I1 { bits } else { bits << (128 - width) >> (128 - width) })
}

fn from_integer(dtype: DType, x: i128) -> Vec<u8> {
    if dtype == DType::I1 { vec![(x & 1) as u8] } else { x.to_le_bytes()[..dtype.bytes() as usize].to_vec() }
}

fn unary(op: UnaryOp, dtype: DType, x: &[u8], result: DType) -> Option<Vec<u8>> {
    if let Some(i) = integer(dtype, x) {
        return Some(from_integer(
            dtype,
            match op {
                UnaryOp::Negate => -i,
                UnaryOp::Not => !i,
                UnaryOp::Abs => i.abs(),
                UnaryOp::Sign => i.signum(),
                _ => return None,
            },
        ));
    }
    let f = real(dtype, x)?;
    let value = match op {
        UnaryOp::Negate => -f,
        UnaryOp::Abs => f.abs(),
        UnaryOp::Sqrt => f.sqrt(),
        UnaryOp::Square => f * f,
        UnaryOp::Floor => f.floor(),
        UnaryOp::Ceil => f.ceil(),
        UnaryOp::IsFinite => return Some(vec![u8::from(f.is_finite())]),
        _ => return None,
    };
    Some(encode(result, value))
}

fn binary(op: BinaryOp, dtype: DType, a: &[u8], b: &[u8]) -> Option<Vec<u8>> {
    if let (Some(a), Some(b)) = (integer(dtype, a), integer(dtype, b)) {
        let width = i128::from(dtype.bits());
        let shift = |f: fn(i128, u32) -> i128, beyond: i128| if (0..width).contains(&b) { f(a, b as u32) } else { beyond };
        let unsigned = if dtype.is_unsigned() { a } else { a & ((1i128 << width) - 1) };
        return Some(from_integer(
            dtype,
            match op {
                BinaryOp::Add => a + b,
                BinaryOp::Subtract => a - b,
                BinaryOp::Multiply => a.wrapping_mul(b),
                BinaryOp::Divide if b != 0 => a / b,
                BinaryOp::Remainder if b != 0 => a % b,
                BinaryOp::Maximum => a.max(b),
                BinaryOp::Minimum => a.min(b),
                BinaryOp::And => a & b,
                BinaryOp::Or => a | b,
                BinaryOp::Xor => a ^ b,
                BinaryOp::ShiftLeft => shift(|a, b| a.wrapping_shl(b), 0),
                BinaryOp::ShiftRightLogical if (0..width).contains(&b) => unsigned >> b,
                BinaryOp::ShiftRightLogical => 0,
                BinaryOp::ShiftRightArithmetic => shift(|a, b| a >> b, if a < 0 { -1 } else { 0 }),
                _ => return None,
            },
        ));
    }
    let (a, b) = (real(dtype, a)?, real(dtype, b)?);
    let value = match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Divide => a / b,
        _ if a.is_nan() || b.is_nan() => return None,
        BinaryOp::Maximum if a != b => a.max(b),
        BinaryOp::Minimum if a != b => a.min(b),
        _ => return None,
    };
    Some(encode(dtype, value))
}

fn compare(direction: Direction, dtype: DType, a: &[u8], b: &[u8]) -> Option<bool> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match (integer(dtype, a), integer(dtype, b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => real(dtype, a)?.partial_cmp(&real(dtype, b)?),
    };
    Some(match direction {
        Direction::Eq => order == Some(Equal),
        Direction::Ne => order != Some(Equal),
        Direction::Ge => matches!(order, Some(Greater | Equal)),
        Direction::Gt => order == Some(Greater),
        Direction::Le => matches!(order, Some(Less | Equal)),
        Direction::Lt => order == Some(Less),
    })
}

fn convert(from: DType, x: &[u8], to: DType) -> Option<Vec<u8>> {
    match integer(from, x) {
        Some(i) if to == DType::I1 => Some(vec![u8::from(i != 0)]),
        Some(i) if to.is_integer() && to.bits() >= 8 => Some(from_integer(to, i)),
        Some(i) if to.is_float() && i.unsigned_abs() < 1 << 53 => Some(encode(to, i as f64)),
        Some(_) => None,
        None if to.is_float() => Some(encode(to, real(from, x)?)),
        None => None,
    }
}

/// A float's value; types that f64 arithmetic with one rounding is right for.
fn real(dtype: DType, x: &[u8]) -> Option<f64> {
    if matches!(dtype, DType::F32 | DType::F16 | DType::BF16 | DType::F64) { decode(dtype, x) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(dtype: DType, x: f64) -> Literal {
        Literal::splat(TensorType::scalar(dtype), x)
    }

    #[test]
    fn integers_wrap_and_floats_round_once() {
        let ty = TensorType::scalar(DType::UI32);
        let max = Literal::splat(ty.clone(), f64::from(u32::MAX));
        let sum = elementwise(&OpKind::Binary(BinaryOp::Add), &[&max, &scalar(DType::UI32, 2.0)], &ty).expect("folds");
        assert_eq!(sum.splat_value(), Some(1.0));
        let third = elementwise(&OpKind::Binary(BinaryOp::Divide), &[&scalar(DType::F32, 1.0), &scalar(DType::F32, 3.0)], &TensorType::scalar(DType::F32));
        assert_eq!(third.and_then(|l| l.splat_value()), Some(f64::from(1.0f32 / 3.0)));
        let shifted =
            elementwise(&OpKind::Binary(BinaryOp::ShiftRightLogical), &[&scalar(DType::I32, -1.0), &scalar(DType::I32, 31.0)], &TensorType::scalar(DType::I32));
        assert_eq!(shifted.and_then(|l| l.splat_value()), Some(1.0));
    }

    #[test]
    fn comparisons_with_nan_are_false() {
        let nan = scalar(DType::F32, f64::NAN);
        let ty = TensorType::scalar(DType::I1);
        for (direction, expected) in [(Direction::Ge, 0.0), (Direction::Ne, 1.0), (Direction::Eq, 0.0)] {
            let r = elementwise(&OpKind::Compare { direction, total: false }, &[&nan, &nan], &ty).expect("folds");
            assert_eq!(r.splat_value(), Some(expected));
        }
    }
}
