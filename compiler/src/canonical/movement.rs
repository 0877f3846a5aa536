//! Simplifications of ops that only move data: broadcasts, reshapes, transposes, slices, pads, concatenations.
//!
//! A `dynamic_slice` or `dynamic_update_slice` at constant indices becomes a slice or a concatenation of what is before, the update, and what is after.
//! Slices of concatenations are forwarded to the piece they lie in. Together these make the stacked buffers of an unrolled scan disappear:
//! a chain of updates that covers every index ends as one concatenation, and a slice of it is the piece that was put there.

use super::evaluate;
use super::fold::Folder;
use ir::literal::{Data, Literal};
use ir::op::{OpKind, Reducer};
use ir::{TensorType, ValueId};

/// Constants of at most so many elements are moved at compile time.
const CONSTANT_ELEMENTS: u64 = 1024;

/// A value that an op on `operands` equals, if there is a simpler one.
pub(crate) fn simplify(f: &mut Folder<'_>, kind: &OpKind, operands: &[ValueId], ty: &TensorType) -> Option<ValueId> {
    if let Some(folded) = constant(f, kind, operands, ty) {
        return Some(f.constant(folded));
    }
    match kind {
        OpKind::Broadcast { dims } => broadcast(f, dims, operands[0], ty),
        OpKind::Reshape => reshape(f, operands[0], ty),
        OpKind::Transpose { perm } => transpose(f, perm, operands[0], ty),
        OpKind::Slice { start, limit, stride } => slice(f, start, limit, stride, operands[0], ty),
        OpKind::Concatenate { dim } => concatenate(f, *dim, operands, ty),
        OpKind::Pad { low, high, interior } => {
            let none = low.iter().chain(high).all(|&p| p == 0) && (f.ty(operands[0]) == ty || interior.iter().all(|&p| p == 0));
            none.then_some(operands[0])
        }
        OpKind::DynamicSlice { sizes } => {
            let start = starts(f, &operands[1..], &f.ty(operands[0]).shape, sizes)?;
            let limit = start.iter().zip(sizes).map(|(s, n)| s + n).collect();
            let stride = vec![1; start.len()];
            Some(f.emit(OpKind::Slice { start, limit, stride }, vec![operands[0]], ty.clone()))
        }
        OpKind::DynamicUpdateSlice => update(f, operands, ty),
        OpKind::Reduce { dims, reducer } if operands.len() == 2 => reduce_of_transpose(f, dims, *reducer, operands, ty),
        OpKind::Reverse { dims } if dims.iter().all(|&d| ty.shape[d] == 1) => Some(operands[0]),
        _ => None,
    }
}

/// The result of moving a constant: a splat stays one, a small one is moved.
fn constant(f: &Folder<'_>, kind: &OpKind, operands: &[ValueId], ty: &TensorType) -> Option<Literal> {
    let literal = f.literal(*operands.first()?)?;
    let moves = matches!(
        kind,
        OpKind::Broadcast { .. } | OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Slice { .. } | OpKind::Reverse { .. } | OpKind::DynamicSlice { .. }
    );
    if !moves {
        return None;
    }
    if let Some(bytes) = literal.splat_bytes() {
        return Some(Literal { ty: ty.clone(), data: Data::Splat(bytes.to_vec()) });
    }
    if matches!(kind, OpKind::Reshape) {
        return Some(Literal { ty: ty.clone(), data: literal.data.clone() });
    }
    if ty.elements() > CONSTANT_ELEMENTS || matches!(kind, OpKind::DynamicSlice { .. }) {
        return None;
    }
    let (from, bytes, width) = (literal.ty.clone(), literal.to_bytes(), ty.dtype.bytes() as usize);
    let strides = from.strides();
    let mut moved = Vec::with_capacity(ty.bytes() as usize);
    for flat in 0..ty.elements() {
        let index: Vec<u64> = ty.strides().iter().zip(&ty.shape).map(|(s, n)| flat / s % n).collect();
        let source: u64 = match kind {
            OpKind::Broadcast { dims } => dims.iter().enumerate().map(|(i, &d)| if from.shape[i] == 1 { 0 } else { index[d] * strides[i] }).sum(),
            OpKind::Transpose { perm } => perm.iter().enumerate().map(|(i, &p)| index[i] * strides[p]).sum(),
            OpKind::Slice { start, stride, .. } => index.iter().enumerate().map(|(i, x)| (start[i] + x * stride[i]) * strides[i]).sum(),
            OpKind::Reverse { dims } => {
                index.iter().enumerate().map(|(i, x)| if dims.contains(&i) { (from.shape[i] - 1 - x) * strides[i] } else { x * strides[i] }).sum()
            }
            _ => return None,
        };
        let at = source as usize * width;
        moved.extend_from_slice(bytes.get(at..at + width)?);
    }
    Literal::dense(ty.clone(), moved)
}

fn broadcast(f: &mut Folder<'_>, dims: &[usize], x: ValueId, ty: &TensorType) -> Option<ValueId> {
    if f.ty(x) == ty && dims.iter().enumerate().all(|(i, &d)| i == d) {
        return Some(x);
    }
    let (OpKind::Broadcast { dims: inner }, source) = f.def(x)? else { return None };
    let (dims, source) = (inner.iter().map(|&d| dims[d]).collect(), source[0]);
    Some(f.emit(OpKind::Broadcast { dims }, vec![source], ty.clone()))
}

fn reshape(f: &mut Folder<'_>, x: ValueId, ty: &TensorType) -> Option<ValueId> {
    if f.ty(x) == ty {
        return Some(x);
    }
    match f.def(x)? {
        (OpKind::Reshape, source) => {
            let source = source[0];
            Some(f.emit(OpKind::Reshape, vec![source], ty.clone()))
        }
        _ => None,
    }
}

fn transpose(f: &mut Folder<'_>, perm: &[usize], x: ValueId, ty: &TensorType) -> Option<ValueId> {
    if perm.iter().enumerate().all(|(i, &p)| i == p) {
        return Some(x);
    }
    match f.def(x)? {
        (OpKind::Transpose { perm: inner }, source) => {
            let (perm, source) = (perm.iter().map(|&p| inner[p]).collect(), source[0]);
            Some(f.emit(OpKind::Transpose { perm }, vec![source], ty.clone()))
        }
        (OpKind::Broadcast { dims }, source) => {
            let dims = dims.iter().map(|d| perm.iter().position(|p| p == d)).collect::<Option<Vec<usize>>>()?;
            let source = source[0];
            Some(f.emit(OpKind::Broadcast { dims }, vec![source], ty.clone()))
        }
        _ => None,
    }
}

/// A reduction of a transpose is a reduction of the operand, with what it keeps transposed.
fn reduce_of_transpose(f: &mut Folder<'_>, dims: &[usize], reducer: Reducer, operands: &[ValueId], ty: &TensorType) -> Option<ValueId> {
    let (OpKind::Transpose { perm }, source) = f.def(operands[0])? else { return None };
    let (perm, source) = (perm.clone(), source[0]);
    let mut reduced: Vec<usize> = dims.iter().map(|&d| perm[d]).collect();
    reduced.sort_unstable();
    // Where each kept dimension of the result is among the kept dimensions of the operand.
    let kept: Vec<usize> = (0..perm.len()).filter(|d| !dims.contains(d)).map(|d| perm[d]).collect();
    let perm: Vec<usize> = kept.iter().map(|&d| d - reduced.iter().filter(|&&r| r < d).count()).collect();
    let mut inner = ty.clone();
    for (i, &p) in perm.iter().enumerate() {
        inner.shape[p] = ty.shape[i];
    }
    let new = f.emit(OpKind::Reduce { dims: reduced, reducer }, vec![source, operands[1]], inner);
    Some(f.emit(OpKind::Transpose { perm }, vec![new], ty.clone()))
}

fn slice(f: &mut Folder<'_>, start: &[u64], limit: &[u64], stride: &[u64], x: ValueId, ty: &TensorType) -> Option<ValueId> {
    if f.ty(x) == ty {
        return Some(x);
    }
    let (kind, operands) = f.def(x)?;
    let (kind, operands) = (kind.clone(), operands.to_vec());
    match kind {
        OpKind::Slice { start: s, stride: t, .. } => {
            let first: Vec<u64> = start.iter().zip(&s).zip(&t).map(|((a, s), t)| s + a * t).collect();
            let stride: Vec<u64> = stride.iter().zip(&t).map(|(a, b)| a * b).collect();
            let limit = (0..first.len()).map(|i| first[i] + (ty.shape[i] - 1) * stride[i] + 1).collect();
            Some(f.emit(OpKind::Slice { start: first, limit, stride }, vec![operands[0]], ty.clone()))
        }
        OpKind::Concatenate { dim } => {
            let mut offset = 0;
            let first = operands.iter().position(|&piece| {
                let end = offset + f.ty(piece).shape[dim];
                let found = start[dim] < end;
                offset = if found { offset } else { end };
                found
            })?;
            // The pieces that the slice touches; a strided slice must lie in one.
            let mut last = first;
            let mut end = offset + f.ty(operands[first]).shape[dim];
            while end < limit[dim] {
                last += 1;
                end += f.ty(operands[last]).shape[dim];
            }
            if last > first && (stride[dim] != 1 || first == 0 && last + 1 == operands.len()) {
                return None;
            }
            let (mut start, mut limit) = (start.to_vec(), limit.to_vec());
            start[dim] -= offset;
            limit[dim] -= offset;
            let joined = if last == first {
                operands[first]
            } else {
                let mut joined = f.ty(x).clone();
                joined.shape[dim] = end - offset;
                f.emit(OpKind::Concatenate { dim }, operands[first..=last].to_vec(), joined)
            };
            Some(f.emit(OpKind::Slice { start, limit, stride: stride.to_vec() }, vec![joined], ty.clone()))
        }
        OpKind::Broadcast { dims } => {
            let source = f.ty(operands[0]).clone();
            let mut narrowed = source.clone();
            let (mut s, mut l, mut t) = (vec![0; dims.len()], source.shape.clone(), vec![1; dims.len()]);
            for (i, &d) in dims.iter().enumerate().filter(|&(i, _)| source.shape[i] != 1) {
                (s[i], l[i], t[i]) = (start[d], limit[d], stride[d]);
                narrowed.shape[i] = ty.shape[d];
            }
            let piece = f.emit(OpKind::Slice { start: s, limit: l, stride: t }, vec![operands[0]], narrowed);
            Some(f.emit(OpKind::Broadcast { dims }, vec![piece], ty.clone()))
        }
        OpKind::Pad { low, high, interior } if interior.iter().all(|&p| p == 0) && low.iter().chain(&high).all(|&p| p >= 0) => {
            let source = f.ty(operands[0]).clone();
            let inside = (0..low.len()).all(|d| start[d] >= low[d] as u64 && limit[d] <= low[d] as u64 + source.shape[d]);
            if !inside {
                return None;
            }
            let start = start.iter().zip(&low).map(|(s, &p)| s - p as u64).collect();
            let limit = limit.iter().zip(&low).map(|(s, &p)| s - p as u64).collect();
            Some(f.emit(OpKind::Slice { start, limit, stride: stride.to_vec() }, vec![operands[0]], ty.clone()))
        }
        _ => None,
    }
}

fn concatenate(f: &mut Folder<'_>, dim: usize, operands: &[ValueId], ty: &TensorType) -> Option<ValueId> {
    let mut pieces: Vec<ValueId> = Vec::new();
    for &v in operands.iter().filter(|&&v| f.ty(v).elements() > 0) {
        match f.def(v) {
            Some((OpKind::Concatenate { dim: inner }, parts)) if *inner == dim => pieces.extend(parts),
            _ => pieces.push(v),
        }
    }
    // Neighbouring splats of the same element are one.
    let mut merged: Vec<ValueId> = Vec::new();
    for v in pieces {
        let joined = merged.last().and_then(|&last| {
            let (a, b) = (f.literal(last)?, f.literal(v)?);
            if a.splat_bytes()? != b.splat_bytes()? {
                return None;
            }
            let mut ty = a.ty.clone();
            ty.shape[dim] += b.ty.shape[dim];
            Some((Literal { ty, data: Data::Splat(a.splat_bytes()?.to_vec()) }, last))
        });
        if let Some((literal, _)) = joined {
            merged.pop();
            let v = f.constant(literal);
            merged.push(v);
        } else if let Some(whole) = merged.last().and_then(|&last| adjacent(f, dim, last, v)) {
            merged.pop();
            let (source, start, limit, ty) = whole;
            let stride = vec![1; start.len()];
            let v = f.emit(OpKind::Slice { start, limit, stride }, vec![source], ty);
            merged.push(v);
        } else {
            merged.push(v);
        }
    }
    if let [only] = merged[..]
        && f.ty(only) == ty
    {
        return Some(only);
    }
    (merged != operands).then(|| f.emit(OpKind::Concatenate { dim }, merged, ty.clone()))
}

/// The one slice that two neighbouring slices of the same value along `dim` are.
fn adjacent(f: &Folder<'_>, dim: usize, a: ValueId, b: ValueId) -> Option<(ValueId, Vec<u64>, Vec<u64>, TensorType)> {
    let (OpKind::Slice { start: s, limit: l, stride: t }, x) = f.def(a)? else { return None };
    let (OpKind::Slice { start: s2, limit: l2, stride: t2 }, y) = f.def(b)? else { return None };
    let one = |stride: &[u64]| stride.iter().all(|&k| k == 1);
    let fits = x == y && one(t) && one(t2) && (0..s.len()).all(|d| if d == dim { l[d] == s2[d] } else { s[d] == s2[d] && l[d] == l2[d] });
    fits.then(|| {
        let mut ty = f.ty(a).clone();
        ty.shape[dim] += f.ty(b).shape[dim];
        (x[0], s.clone(), l2.clone(), ty)
    })
}

/// Constant start indices, clamped as the ops do.
fn starts(f: &Folder<'_>, indices: &[ValueId], shape: &[u64], sizes: &[u64]) -> Option<Vec<u64>> {
    let mut starts = Vec::with_capacity(shape.len());
    for (d, &n) in shape.iter().enumerate() {
        if sizes[d] == n {
            starts.push(0);
            continue;
        }
        let literal = f.literal(*indices.get(d)?)?;
        let index = evaluate::integer(literal.ty.dtype, literal.splat_bytes()?)?;
        starts.push(index.clamp(0, i128::from(n - sizes[d])) as u64);
    }
    Some(starts)
}

/// `dynamic_update_slice` at constant indices, when the update is whole in all dimensions but one.
fn update(f: &mut Folder<'_>, operands: &[ValueId], ty: &TensorType) -> Option<ValueId> {
    let (x, update) = (operands[0], operands[1]);
    let piece = f.ty(update).clone();
    if piece == *ty {
        return Some(update);
    }
    if piece.elements() == 0 {
        return Some(x);
    }
    let start = starts(f, &operands[2..], &ty.shape, &piece.shape)?;
    let partial: Vec<usize> = (0..ty.rank()).filter(|&d| piece.shape[d] != ty.shape[d]).collect();
    let [dim] = partial[..] else { return None };
    let mut pieces = Vec::new();
    let end = start[dim] + piece.shape[dim];
    for (from, to) in [(0, start[dim]), (end, ty.shape[dim])] {
        if from == end {
            pieces.push(update);
        }
        if from < to {
            let (mut s, mut l) = (vec![0; ty.rank()], ty.shape.clone());
            (s[dim], l[dim]) = (from, to);
            let mut part = ty.clone();
            part.shape[dim] = to - from;
            let stride = vec![1; ty.rank()];
            let v = f.emit(OpKind::Slice { start: s, limit: l, stride }, vec![x], part);
            pieces.push(v);
        }
    }
    Some(f.emit(OpKind::Concatenate { dim }, pieces, ty.clone()))
}
