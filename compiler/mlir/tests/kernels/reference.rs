//! A plain evaluator of kernels: every node over the whole domain, one point at a time.
//!
//! `f32`, `bf16` and `f16` are computed in `f64` and rounded to `f32` after every operation; `bf16` and `f16` are rounded to themselves where they are
//! converted to or stored, as the code generator promises.

use ir::dtype::DType;
use ir::kernel::{Affine, Kernel, NodeKind};
use ir::op::{BinaryOp, Direction, Reducer, UnaryOp};

unsafe extern "C" {
    safe fn erf(x: f64) -> f64;
}

/// One element while it is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Float(f64),
    Int(i128),
}

impl Value {
    fn float(self) -> f64 {
        match self {
            Value::Float(v) => v,
            Value::Int(v) => panic!("{v} is no float"),
        }
    }
    fn int(self) -> i128 {
        match self {
            Value::Int(v) => v,
            Value::Float(v) => panic!("{v} is no integer"),
        }
    }
}

/// `v` as an integer of type `t`: wrapped.
fn wrap(t: DType, v: i128) -> Value {
    Value::Int(match t {
        DType::I1 => v & 1,
        DType::I8 => i128::from(v as i8),
        DType::I16 => i128::from(v as i16),
        DType::I32 => i128::from(v as i32),
        DType::I64 => i128::from(v as i64),
        DType::UI8 => i128::from(v as u8),
        DType::UI16 => i128::from(v as u16),
        DType::UI32 => i128::from(v as u32),
        DType::UI64 => i128::from(v as u64),
        other => panic!("{other} is no integer type"),
    })
}

/// `v` as it is computed in type `t`.
fn computed(t: DType, v: f64) -> Value {
    Value::Float(if t == DType::F64 { v } else { f64::from(v as f32) })
}

/// `v` as `t` holds it.
fn held(t: DType, v: f64) -> Value {
    Value::Float(match t {
        DType::F64 => v,
        DType::F32 => f64::from(v as f32),
        DType::BF16 => half::bf16::from_f64(v).to_f64(),
        DType::F16 => half::f16::from_f64(v).to_f64(),
        other => panic!("{other} is no float type"),
    })
}

/// Reads an element from bytes.
pub(crate) fn read(t: DType, bytes: &[u8]) -> Value {
    let mut raw = [0; 8];
    raw[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(raw);
    match t {
        DType::F64 => Value::Float(f64::from_bits(bits)),
        DType::F32 => Value::Float(f64::from(f32::from_bits(bits as u32))),
        DType::BF16 => Value::Float(half::bf16::from_bits(bits as u16).to_f64()),
        DType::F16 => Value::Float(half::f16::from_bits(bits as u16).to_f64()),
        DType::I1 => Value::Int(i128::from(bits != 0)),
        t => wrap(t, i128::from(bits)),
    }
}

/// An element as bytes.
pub(crate) fn write(t: DType, v: Value) -> Vec<u8> {
    let bits = match t {
        DType::F64 => v.float().to_bits(),
        DType::F32 => u64::from((v.float() as f32).to_bits()),
        DType::BF16 => u64::from(half::bf16::from_f64(v.float()).to_bits()),
        DType::F16 => u64::from(half::f16::from_f64(v.float()).to_bits()),
        _ => v.int() as u64,
    };
    bits.to_le_bytes()[..t.bytes() as usize].to_vec()
}

/// Runs `kernel` on `buffers`, one per argument.
pub(crate) fn run(kernel: &Kernel, buffers: &mut [Vec<u8>], scalars: &[i64]) {
    let points: usize = kernel.domain.iter().product::<u64>() as usize;
    let coordinates = |mut point: usize| {
        let mut at = vec![0i64; kernel.domain.len()];
        for d in (0..at.len()).rev() {
            at[d] = (point as u64 % kernel.domain[d]) as i64;
            point /= kernel.domain[d] as usize;
        }
        at
    };
    let all: Vec<Vec<i64>> = (0..points).map(coordinates).collect();
    let linear = |index: &Affine, at: &[i64]| {
        let scalar: i64 = index.scalars.iter().map(|(s, c)| scalars[*s as usize] * c).sum();
        index.offset + scalar + index.strides.iter().zip(at).map(|(s, i)| s * i).sum::<i64>()
    };
    let element = |buffers: &[Vec<u8>], param: u32, index: i64| {
        let t = kernel.params[param as usize].dtype;
        let size = t.bytes() as usize;
        read(t, &buffers[param as usize][index as usize * size..][..size])
    };
    let mut values: Vec<Vec<Value>> = Vec::new();
    for node in kernel.nodes.values() {
        let t = node.dtype;
        let of = |n: ir::kernel::NodeId| &values[n.0 as usize];
        let type_of = |n: ir::kernel::NodeId| kernel.nodes[n].dtype;
        let column: Vec<Value> = match &node.kind {
            NodeKind::Load { param, index } => all.iter().map(|at| element(buffers, *param, linear(index, at))).collect(),
            NodeKind::Gather { param, index, at, stride, limit } => {
                let chosen = of(*at);
                all.iter().zip(chosen).map(|(p, i)| element(buffers, *param, linear(index, p) + i.int().clamp(0, i128::from(*limit)) as i64 * stride)).collect()
            }
            NodeKind::Constant(bytes) => vec![read(t, bytes); points],
            NodeKind::Index(d) => all.iter().map(|at| convert(Value::Int(i128::from(at[*d as usize])), DType::I64, t)).collect(),
            NodeKind::Scalar(s) => vec![convert(Value::Int(i128::from(scalars[*s as usize])), DType::I64, t); points],
            NodeKind::Unary(op, a) => of(*a).iter().map(|v| unary(*op, type_of(*a), *v)).collect(),
            NodeKind::Binary(op, a, b) => of(*a).iter().zip(of(*b)).map(|(x, y)| binary(*op, t, *x, *y)).collect(),
            NodeKind::Compare { direction, lhs, rhs, .. } => {
                of(*lhs).iter().zip(of(*rhs)).map(|(x, y)| Value::Int(i128::from(compare(*direction, *x, *y)))).collect()
            }
            NodeKind::Select(p, a, b) => (0..points).map(|i| if of(*p)[i].int() != 0 { of(*a)[i] } else { of(*b)[i] }).collect(),
            NodeKind::Convert(a) => of(*a).iter().map(|v| convert(*v, type_of(*a), t)).collect(),
            NodeKind::Bitcast(a) => of(*a).iter().map(|v| read(t, &write(type_of(*a), *v))).collect(),
            NodeKind::Reduce(reducer, a) => reduce(kernel, &all, *reducer, t, of(*a)),
        };
        values.push(column);
    }
    for store in &kernel.stores {
        let t = kernel.params[store.param as usize].dtype;
        let size = t.bytes() as usize;
        for (at, v) in all.iter().zip(&values[store.value.0 as usize]) {
            let index = linear(&store.index, at) as usize;
            buffers[store.param as usize][index * size..][..size].copy_from_slice(&write(t, *v));
        }
    }
}

fn reduce(kernel: &Kernel, all: &[Vec<i64>], reducer: Reducer, t: DType, operand: &[Value]) -> Vec<Value> {
    let key = |at: &[i64]| -> Vec<i64> { at.iter().enumerate().filter(|(d, _)| !kernel.reduced.contains(&(*d as u32))).map(|(_, i)| *i).collect() };
    let mut folded: std::collections::BTreeMap<Vec<i64>, Value> = std::collections::BTreeMap::new();
    for (at, v) in all.iter().zip(operand) {
        folded.entry(key(at)).and_modify(|sum| *sum = binary(reducer.binary().unwrap(), t, *sum, *v)).or_insert(*v);
    }
    all.iter().map(|at| folded[&key(at)]).collect()
}

fn convert(v: Value, from: DType, to: DType) -> Value {
    match (v, to) {
        (_, t) if from == t => v,
        (Value::Float(x), DType::I1) => Value::Int(i128::from(x != 0.0)),
        (Value::Int(x), DType::I1) => Value::Int(i128::from(x != 0)),
        (Value::Float(x), t) if t.is_float() => held(t, x),
        (Value::Int(x), DType::F64) => Value::Float(x as f64),
        (Value::Int(x), DType::F32) => Value::Float(f64::from(x as f32)),
        (Value::Int(x), t) if t.is_float() => held(t, x as f64),
        (Value::Int(x), t) => wrap(t, x),
        (Value::Float(x), t) => Value::Int(match t {
            DType::I8 => i128::from(x as i8),
            DType::I16 => i128::from(x as i16),
            DType::I32 => i128::from(x as i32),
            DType::I64 => i128::from(x as i64),
            DType::UI8 => i128::from(x as u8),
            DType::UI16 => i128::from(x as u16),
            DType::UI32 => i128::from(x as u32),
            _ => i128::from(x as u64),
        }),
    }
}

fn compare(direction: Direction, x: Value, y: Value) -> bool {
    let order = match (x, y) {
        (Value::Float(x), Value::Float(y)) => x.partial_cmp(&y),
        (Value::Int(x), Value::Int(y)) => Some(x.cmp(&y)),
        _ => panic!("{x:?} and {y:?} have different types"),
    };
    match direction {
        Direction::Eq => order.is_some_and(|o| o.is_eq()),
        Direction::Ne => order.is_none_or(|o| o.is_ne()),
        Direction::Ge => order.is_some_and(|o| o.is_ge()),
        Direction::Gt => order.is_some_and(|o| o.is_gt()),
        Direction::Le => order.is_some_and(|o| o.is_le()),
        Direction::Lt => order.is_some_and(|o| o.is_lt()),
    }
}

fn unary(op: UnaryOp, t: DType, v: Value) -> Value {
    match v {
        Value::Float(x) => {
            let y = match op {
                UnaryOp::Abs => x.abs(),
                UnaryOp::Negate => -x,
                UnaryOp::Square => x * x,
                UnaryOp::Floor => x.floor(),
                UnaryOp::Ceil => x.ceil(),
                UnaryOp::RoundNearestAfz => x.round(),
                UnaryOp::RoundNearestEven => x.round_ties_even(),
                UnaryOp::Sign => {
                    if x == 0.0 || x.is_nan() {
                        x
                    } else {
                        x.signum()
                    }
                }
                UnaryOp::Sqrt => x.sqrt(),
                UnaryOp::Rsqrt => 1.0 / x.sqrt(),
                UnaryOp::Exponential => x.exp(),
                UnaryOp::Log => x.ln(),
                UnaryOp::Tanh => x.tanh(),
                UnaryOp::Erf => erf(x),
                UnaryOp::IsFinite => return Value::Int(i128::from(x.is_finite())),
                other => panic!("{other:?} is tested for accuracy"),
            };
            computed(t, y)
        }
        Value::Int(x) => match op {
            UnaryOp::Abs => wrap(t, x.abs()),
            UnaryOp::Negate => wrap(t, -x),
            UnaryOp::Square => wrap(t, x * x),
            UnaryOp::Not => wrap(t, !x),
            UnaryOp::Sign => wrap(t, x.signum()),
            UnaryOp::PopulationCount => wrap(t, i128::from((x as u64 & (u64::MAX >> (64 - t.bits()))).count_ones())),
            UnaryOp::CountLeadingZeros => wrap(t, i128::from((x as u64 & (u64::MAX >> (64 - t.bits()))).leading_zeros() + t.bits() - 64)),
            other => panic!("{other:?} of integers"),
        },
    }
}

pub(crate) fn binary(op: BinaryOp, t: DType, x: Value, y: Value) -> Value {
    match (x, y) {
        (Value::Float(x), Value::Float(y)) => {
            let z = match op {
                BinaryOp::Add => x + y,
                BinaryOp::Subtract => x - y,
                BinaryOp::Multiply => x * y,
                BinaryOp::Divide => x / y,
                BinaryOp::Maximum if x.is_nan() || y.is_nan() => f64::NAN,
                BinaryOp::Minimum if x.is_nan() || y.is_nan() => f64::NAN,
                BinaryOp::Maximum => x.max(y),
                BinaryOp::Minimum => x.min(y),
                BinaryOp::Remainder => x % y,
                other => panic!("{other:?} is tested for accuracy"),
            };
            computed(t, z)
        }
        (Value::Int(x), Value::Int(y)) if t == DType::I1 => Value::Int(match op {
            BinaryOp::Add | BinaryOp::Or | BinaryOp::Maximum => x | y,
            BinaryOp::Multiply | BinaryOp::And | BinaryOp::Minimum => x & y,
            BinaryOp::Xor => x ^ y,
            other => panic!("{other:?} of i1"),
        }),
        (Value::Int(x), Value::Int(y)) => {
            let bits = i128::from(t.bits());
            let inside = (0..bits).contains(&y);
            let unsigned = x as u64 & (u64::MAX >> (64 - t.bits()));
            wrap(
                t,
                match op {
                    BinaryOp::Add => x + y,
                    BinaryOp::Subtract => x - y,
                    BinaryOp::Multiply => (x as i64).wrapping_mul(y as i64).into(),
                    BinaryOp::And => x & y,
                    BinaryOp::Or => x | y,
                    BinaryOp::Xor => x ^ y,
                    BinaryOp::Maximum => x.max(y),
                    BinaryOp::Minimum => x.min(y),
                    BinaryOp::Divide if y == 0 => -1,
                    BinaryOp::Divide => x / y,
                    BinaryOp::Remainder if y == 0 => x,
                    BinaryOp::Remainder => x % y,
                    BinaryOp::ShiftLeft => {
                        if inside {
                            x << y
                        } else {
                            0
                        }
                    }
                    BinaryOp::ShiftRightLogical => {
                        if inside {
                            i128::from(unsigned >> y)
                        } else {
                            0
                        }
                    }
                    BinaryOp::ShiftRightArithmetic => wrap_signed(t, x) >> if inside { y } else { bits - 1 },
                    BinaryOp::Power => power(t, x, y),
                    other => panic!("{other:?} of integers"),
                },
            )
        }
        _ => panic!("{x:?} and {y:?} have different types"),
    }
}

/// The bits of `x` read as a signed integer.
fn wrap_signed(t: DType, x: i128) -> i128 {
    let unused = 128 - t.bits();
    (x << unused) >> unused
}

fn power(t: DType, x: i128, y: i128) -> i128 {
    if y < 0 {
        return match x {
            1 => 1,
            -1 => 1 - 2 * (y & 1),
            _ => 0,
        };
    }
    // Exponents repeat long before this in every width.
    let (mut base, mut rest, mut result) = (x as i64, y as u64, 1i64);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        rest >>= 1;
    }
    wrap(t, result.into()).int()
}
