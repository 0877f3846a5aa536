//! Ops that only move elements: each is a list of strided copies, after an optional fill, at offsets that may be read at run time.

use super::index_at;
use crate::device::cpu::copy::fill;
use crate::strided::StridedCopy;
use ir::dtype::row_major_strides;
use ir::literal::Data;
use ir::op::OpKind;
use ir::{DType, TensorType};

/// One copy between two parameters, at byte offsets.
struct Move {
    copy: StridedCopy,
    from: (usize, usize),
    to: (usize, usize),
}

/// What the result holds before the copies.
enum Ground {
    Nothing,
    /// The element (of so many bytes) in this parameter, over so many bytes of the result.
    Element(usize, usize, usize),
    /// A whole parameter, copied.
    Whole(usize, usize),
    /// These bytes.
    Bytes(Vec<u8>),
    /// An index along a dimension: the result's type, the dimension's size and the elements inside it.
    Iota(DType, u64, u64, u64),
}

/// A start that is read at run time: (parameter, type, largest allowed value, bytes per index step).
struct Start {
    parameter: usize,
    dtype: DType,
    limit: i64,
    step: i64,
}

/// Which side of the copy the run-time offset is added to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    From,
    To,
}

/// A prepared move.
pub(in crate::device::cpu) struct Moves {
    ground: Ground,
    result: usize,
    moves: Vec<Move>,
    starts: Vec<Start>,
    side: Side,
}

fn signed(strides: &[u64]) -> Vec<i64> {
    strides.iter().map(|s| *s as i64).collect()
}

impl Moves {
    /// Prepares `op` when it is a move.
    pub(super) fn new(op: &OpKind, operands: &[TensorType], results: &[TensorType]) -> Result<Option<Moves>, String> {
        let result = operands.len();
        let ty = &results[0];
        let element = ty.dtype.bytes() as usize;
        let strides = signed(&ty.strides());
        let input = operands.first().map(|t| signed(&t.strides())).unwrap_or_default();
        let mut m = Moves { ground: Ground::Nothing, result, moves: Vec::new(), starts: Vec::new(), side: Side::From };
        let copy = |shape: &[u64], from: &[i64], to: &[i64]| StridedCopy::new(shape, from, to, element).ok_or_else(|| "it has too many dimensions".to_string());
        let mut whole = |copy: StridedCopy, from: i64| m.moves.push(Move { copy, from: (0, from as usize * element), to: (result, 0) });
        match op {
            OpKind::Constant(literal) => match &literal.data {
                Data::Splat(b) => m.ground = Ground::Bytes(b.repeat(ty.elements() as usize)),
                Data::Dense(b) => m.ground = Ground::Bytes(b.to_vec()),
            },
            OpKind::Iota { dim } => {
                let size = *ty.shape.get(*dim).ok_or("its dimension is out of range")?;
                m.ground = Ground::Iota(ty.dtype, size, ty.shape[dim + 1..].iter().product(), ty.elements());
                if ty.dtype.is_complex() || (ty.dtype.is_float() && ty.dtype.bytes() == 1) {
                    return Err(format!("its type is {}", ty.dtype));
                }
            }
            OpKind::Reshape => whole(copy(&[ty.elements()], &[1], &[1])?, 0),
            OpKind::BitcastConvert if operands[0].bytes() == ty.bytes() => whole(copy(&[ty.elements()], &[1], &[1])?, 0),
            OpKind::Barrier => {
                for (i, t) in operands.iter().enumerate() {
                    let copy = StridedCopy::new(&[t.bytes()], &[1], &[1], 1).ok_or("it has too many dimensions")?;
                    m.moves.push(Move { copy, from: (i, 0), to: (result + i, 0) });
                }
            }
            OpKind::Broadcast { dims } => {
                let mut from = vec![0; ty.rank()];
                for (i, &d) in dims.iter().enumerate() {
                    let (Some(slot), Some(&n)) = (from.get_mut(d), operands[0].shape.get(i)) else { return Err("its dimensions are out of range".into()) };
                    *slot = if n == 1 { 0 } else { input[i] };
                }
                whole(copy(&ty.shape, &from, &strides)?, 0);
            }
            OpKind::Transpose { perm } => {
                let from: Option<Vec<i64>> = perm.iter().map(|&p| input.get(p).copied()).collect();
                whole(copy(&ty.shape, &from.ok_or("its permutation is out of range")?, &strides)?, 0);
            }
            OpKind::Slice { start, stride, .. } => {
                let from: Vec<i64> = input.iter().zip(stride).map(|(s, k)| s * *k as i64).collect();
                let offset = input.iter().zip(start).map(|(s, o)| s * *o as i64).sum();
                whole(copy(&ty.shape, &from, &strides)?, offset);
            }
            OpKind::Reverse { dims } => {
                let (mut from, mut offset) = (input.clone(), 0);
                for &d in dims {
                    offset += input[d] * (ty.shape[d] as i64 - 1).max(0);
                    from[d] = -from[d];
                }
                whole(copy(&ty.shape, &from, &strides)?, offset);
            }
            OpKind::Concatenate { dim } => {
                let mut offset = 0;
                for (i, t) in operands.iter().enumerate() {
                    m.moves.push(Move { copy: copy(&t.shape, &signed(&t.strides()), &strides)?, from: (i, 0), to: (result, offset * element) });
                    offset += (t.shape[*dim] * strides[*dim] as u64) as usize;
                }
            }
            OpKind::Pad { low, high: _, interior } => m.pad(&operands[0], ty, low, interior)?,
            OpKind::DynamicSlice { sizes } => {
                whole(copy(sizes, &input, &strides)?, 0);
                m.start(&operands[0].shape, sizes, &input, &operands[1..], 1, element)?;
            }
            OpKind::DynamicUpdateSlice => {
                m.ground = Ground::Whole(0, ty.bytes() as usize);
                let update = &operands[1];
                m.moves.push(Move { copy: copy(&update.shape, &signed(&update.strides()), &strides)?, from: (1, 0), to: (result, 0) });
                m.side = Side::To;
                m.start(&ty.shape, &update.shape, &strides, &operands[2..], 2, element)?;
            }
            _ => return Ok(None),
        }
        Ok(Some(m))
    }

    fn start(&mut self, shape: &[u64], sizes: &[u64], strides: &[i64], starts: &[TensorType], first: usize, element: usize) -> Result<(), String> {
        if starts.len() != shape.len() || starts.iter().any(|t| !t.dtype.is_integer() || t.elements() != 1) {
            return Err("it needs one integer start per dimension".into());
        }
        for (d, t) in starts.iter().enumerate() {
            let limit = shape[d].checked_sub(sizes[d]).ok_or("its slice is larger than its operand")? as i64;
            self.starts.push(Start { parameter: first + d, dtype: t.dtype, limit, step: strides[d] * element as i64 });
        }
        Ok(())
    }

    /// The operand's elements that survive (edges may be negative) go between `low` and the interior gaps.
    fn pad(&mut self, operand: &TensorType, ty: &TensorType, low: &[i64], interior: &[u64]) -> Result<(), String> {
        let element = ty.dtype.bytes() as usize;
        self.ground = Ground::Element(1, element, ty.bytes() as usize);
        let (from, to) = (row_major_strides(&operand.shape), row_major_strides(&ty.shape));
        let (mut shape, mut target, mut f0, mut t0) = (Vec::new(), Vec::new(), 0i64, 0i64);
        for d in 0..ty.rank() {
            let step = interior[d] as i64 + 1;
            let first = (-low[d]).div_euclid(step) + i64::from((-low[d]).rem_euclid(step) != 0);
            let first = first.max(0);
            let last = (ty.shape[d] as i64 - 1 - low[d]).div_euclid(step).min(operand.shape[d] as i64 - 1);
            shape.push((last - first + 1).max(0) as u64);
            target.push(to[d] as i64 * step);
            f0 += first * from[d] as i64;
            t0 += (low[d] + first * step) * to[d] as i64;
        }
        if !shape.contains(&0) {
            let copy = StridedCopy::new(&shape, &signed(&from), &target, element).ok_or("it has too many dimensions")?;
            self.moves.push(Move { copy, from: (0, f0 as usize * element), to: (2, t0 as usize * element) });
        }
        Ok(())
    }

    /// Does it.
    ///
    /// # Safety
    /// As [`Routine::run`](super::Routine::run).
    pub(super) unsafe fn run(&self, parameters: &[*mut u8]) {
        // SAFETY: as the caller vouches; run-time starts are clamped so that their block stays inside.
        unsafe {
            match &self.ground {
                Ground::Nothing => {}
                Ground::Element(parameter, width, bytes) => {
                    fill(parameters[self.result], *bytes, std::slice::from_raw_parts(parameters[*parameter], *width));
                }
                Ground::Whole(parameter, bytes) => std::ptr::copy_nonoverlapping(parameters[*parameter], parameters[self.result], *bytes),
                Ground::Bytes(bytes) => std::ptr::copy_nonoverlapping(bytes.as_ptr(), parameters[self.result], bytes.len()),
                Ground::Iota(dtype, size, inside, elements) => iota(parameters[self.result], *dtype, *size, *inside, *elements),
            }
            let mut offset = 0isize;
            for s in &self.starts {
                offset += (index_at(s.dtype, parameters[s.parameter], 0).clamp(0, s.limit) * s.step) as isize;
            }
            let (extra_from, extra_to) = if self.side == Side::From { (offset, 0) } else { (0, offset) };
            for m in &self.moves {
                m.copy.run(parameters[m.from.0].add(m.from.1).offset(extra_from), parameters[m.to.0].add(m.to.1).offset(extra_to));
            }
        }
    }
}

/// # Safety
/// `to` has room for `elements` elements of `dtype`.
unsafe fn iota(to: *mut u8, dtype: DType, size: u64, inside: u64, elements: u64) {
    for i in 0..elements {
        let index = i / inside.max(1) % size.max(1);
        // SAFETY: as the caller vouches.
        unsafe {
            match dtype {
                DType::I32 | DType::UI32 => to.cast::<u32>().add(i as usize).write(index as u32),
                DType::F32 => to.cast::<f32>().add(i as usize).write(index as f32),
                DType::I64 | DType::UI64 => to.cast::<u64>().add(i as usize).write(index),
                DType::F64 => to.cast::<f64>().add(i as usize).write(index as f64),
                DType::I16 | DType::UI16 => to.cast::<u16>().add(i as usize).write(index as u16),
                DType::BF16 => to.cast::<half::bf16>().add(i as usize).write(half::bf16::from_f32(index as f32)),
                DType::F16 => to.cast::<half::f16>().add(i as usize).write(half::f16::from_f32(index as f32)),
                _ => to.add(i as usize).write(index as u8),
            }
        }
    }
}
