//! Simplifications of elementwise ops and reductions, all exact (see `fold`).

use super::evaluate;
use super::fold::Folder;
use ir::literal::Literal;
use ir::op::{BinaryOp, OpKind, UnaryOp};
use ir::{DType, TensorType, ValueId};

/// A value that an op on `operands` equals, if there is a simpler one.
pub(crate) fn simplify(f: &mut Folder<'_>, kind: &OpKind, operands: &[ValueId], ty: &TensorType) -> Option<ValueId> {
    if kind.is_elementwise() {
        let literals: Option<Vec<&Literal>> = operands.iter().map(|&v| f.literal(v).filter(|l| l.splat_bytes().is_some())).collect();
        if let Some(folded) = literals.and_then(|l| evaluate::elementwise(kind, &l, ty)) {
            return Some(f.constant(folded));
        }
    }
    match kind {
        OpKind::Unary(op) => unary(f, *op, operands[0]),
        OpKind::Binary(op) => binary(f, *op, operands[0], operands[1], ty),
        OpKind::Select => select(f, operands, ty),
        OpKind::Convert => convert(f, operands[0], ty),
        OpKind::Reduce { dims, reducer } if operands.len() == 2 => {
            let trivial = dims.iter().all(|&d| f.ty(operands[0]).shape[d] == 1);
            let neutral = trivial && reducer.neutral(ty.dtype)? == f.splat(operands[1])?;
            neutral.then(|| f.emit(OpKind::Reshape, vec![operands[0]], ty.clone()))
        }
        OpKind::Iota { dim } if ty.shape[*dim] == 1 => Some(f.constant(Literal::splat(ty.clone(), 0.0))),
        OpKind::Dot(dims) if dims.lhs_contract.iter().any(|&d| f.ty(operands[0]).shape[d] == 0) => Some(f.constant(Literal::splat(ty.clone(), 0.0))),
        _ => None,
    }
}

fn unary(f: &Folder<'_>, op: UnaryOp, x: ValueId) -> Option<ValueId> {
    match (op, f.def(x)?) {
        (UnaryOp::Negate, (OpKind::Unary(UnaryOp::Negate), inner)) | (UnaryOp::Not, (OpKind::Unary(UnaryOp::Not), inner)) => Some(inner[0]),
        (UnaryOp::Abs, (OpKind::Unary(UnaryOp::Abs), _)) => Some(x),
        _ => None,
    }
}

fn binary(f: &mut Folder<'_>, op: BinaryOp, a: ValueId, b: ValueId, ty: &TensorType) -> Option<ValueId> {
    let (left, right) = (f.splat(a), f.splat(b));
    let integer = ty.dtype.is_integer();
    let is = |side: Option<f64>, x: f64| side == Some(x);
    let minus_zero = |side: Option<f64>| side.is_some_and(|x| x == 0.0 && x.is_sign_negative());
    let plus_zero = |side: Option<f64>| side.is_some_and(|x| x == 0.0 && x.is_sign_positive());
    match op {
        BinaryOp::Add if minus_zero(right) || integer && is(right, 0.0) => Some(a),
        BinaryOp::Add if minus_zero(left) || integer && is(left, 0.0) => Some(b),
        BinaryOp::Subtract if plus_zero(right) => Some(a),
        BinaryOp::Multiply | BinaryOp::And if ty.dtype == DType::I1 => constant_bit(f, a, b, true),
        BinaryOp::Or if ty.dtype == DType::I1 => constant_bit(f, a, b, false),
        BinaryOp::Multiply if is(right, 1.0) => Some(a),
        BinaryOp::Multiply if is(left, 1.0) => Some(b),
        BinaryOp::Multiply if integer && is(right, 0.0) => Some(b),
        BinaryOp::Multiply if integer && is(left, 0.0) => Some(a),
        BinaryOp::Divide if is(right, 1.0) => Some(a),
        BinaryOp::Divide if ty.dtype.is_float() => {
            let inverse = exact_inverse(ty.dtype, right?)?;
            let inverse = f.constant(Literal::splat(ty.clone(), inverse));
            Some(f.emit(OpKind::Binary(BinaryOp::Multiply), vec![a, inverse], ty.clone()))
        }
        BinaryOp::Power if is(right, 1.0) => Some(a),
        BinaryOp::Power if is(right, 2.0) && ty.dtype.is_float() => Some(f.emit(OpKind::Binary(BinaryOp::Multiply), vec![a, a], ty.clone())),
        BinaryOp::Maximum if ty.dtype.is_float() && is(right, f64::NEG_INFINITY) => Some(a),
        BinaryOp::Maximum if ty.dtype.is_float() && is(left, f64::NEG_INFINITY) => Some(b),
        BinaryOp::Minimum if ty.dtype.is_float() && is(right, f64::INFINITY) => Some(a),
        BinaryOp::Minimum if ty.dtype.is_float() && is(left, f64::INFINITY) => Some(b),
        BinaryOp::Xor | BinaryOp::ShiftLeft | BinaryOp::ShiftRightLogical | BinaryOp::ShiftRightArithmetic if is(right, 0.0) => Some(a),
        BinaryOp::Or if is(right, 0.0) => Some(a),
        BinaryOp::Or if is(left, 0.0) => Some(b),
        _ => None,
    }
}

/// `a and b` (with `neutral` true) or `a or b` of truth values when one of them is constant.
fn constant_bit(f: &Folder<'_>, a: ValueId, b: ValueId, neutral: bool) -> Option<ValueId> {
    let neutral = f64::from(u8::from(neutral));
    match (f.splat(a), f.splat(b)) {
        (_, Some(x)) => Some(if x == neutral { a } else { b }),
        (Some(x), _) => Some(if x == neutral { b } else { a }),
        _ => (a == b).then_some(a),
    }
}

/// `1 / c` when dividing by `c` and multiplying by it are the same function.
fn exact_inverse(dtype: DType, c: f64) -> Option<f64> {
    let mantissa = c.to_bits() & ((1 << 52) - 1);
    let exponent = c.abs().log2();
    let limit = match dtype {
        DType::F32 | DType::BF16 => 120.0,
        DType::F64 => 1000.0,
        DType::F16 => 12.0,
        _ => return None,
    };
    (mantissa == 0 && exponent.is_finite() && exponent.abs() <= limit).then_some(1.0 / c)
}

fn select(f: &Folder<'_>, operands: &[ValueId], ty: &TensorType) -> Option<ValueId> {
    let [predicate, on_true, on_false] = operands else { return None };
    if on_true == on_false {
        return Some(*on_true);
    }
    let chosen = if f.splat(*predicate)? == 1.0 { *on_true } else { *on_false };
    (f.ty(chosen) == ty).then_some(chosen)
}

fn convert(f: &Folder<'_>, x: ValueId, ty: &TensorType) -> Option<ValueId> {
    if f.ty(x) == ty {
        return Some(x);
    }
    let (OpKind::Convert, inner) = f.def(x)? else { return None };
    let (original, wide) = (f.ty(inner[0]), f.ty(x).dtype);
    (original == ty && widens(original.dtype, wide)).then_some(inner[0])
}

/// Whether every value of `from` is a value of `to`.
fn widens(from: DType, to: DType) -> bool {
    match (from, to) {
        (DType::BF16 | DType::F16, DType::F32 | DType::F64) | (DType::F32, DType::F64) => true,
        (DType::I1, t) => t != DType::I1 && !t.is_complex(),
        (a, b) if a.is_integer() && b.is_integer() => a.bits() < b.bits() && (a.is_unsigned() || !b.is_unsigned()),
        (a, DType::F64) if a.is_integer() => a.bits() <= 32,
        (a, DType::F32) if a.is_integer() => a.bits() <= 16,
        _ => false,
    }
}
