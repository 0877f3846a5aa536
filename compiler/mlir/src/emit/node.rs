//! Computes nodes that are not reductions, on any target.

use super::Width;
use super::builder::{Builder, Elem, Ty, Val};
use crate::elementwise;
use crate::error::Error;
use crate::nest::Nest;
use ir::dtype::DType;
use ir::kernel::{Kernel, NodeId, NodeKind};
use ir::op::{BinaryOp, Reducer, UnaryOp};

/// A writer of a kernel at one point (or vector of points) of its domain: what the operations on nodes need of it.
pub(crate) trait Points<'k> {
    /// The writer of text.
    fn b(&mut self) -> &mut Builder;
    /// The name it is written under.
    fn symbol(&self) -> &str;
    /// The kernel.
    fn kernel(&self) -> &'k Kernel;
    /// Its loops.
    fn nest(&self) -> &'k Nest;
    /// Whether the target converts `f16`.
    fn half_hardware(&self) -> bool;
    /// The vector that is being computed.
    fn lanes(&self) -> Width;
    /// The index along a dimension of the nest, of the first lane.
    fn at(&self, dim: usize) -> Val;
    /// The value of a node that was computed here.
    fn value(&self, id: NodeId) -> Val;
    /// Says what the value of a node is.
    fn define(&mut self, id: NodeId, v: Val);
    /// `Load` and `Gather`.
    fn read(&mut self, id: NodeId) -> Val;

    /// The machine type in which a node is computed.
    fn computed_in(&self, id: NodeId) -> Elem {
        elementwise::computed_in(self.kernel().nodes[id].dtype).expect("invariant: types were checked")
    }

    fn unsupported(&self, id: NodeId, what: impl std::fmt::Debug) -> Error {
        let node = id;
        Error::Unsupported { kernel: self.symbol().to_owned(), node, what: format!("{what:?} in {}", self.kernel().nodes[id].dtype) }
    }

    /// Whether the node's value is exactly what its type can hold: arithmetic in `bf16` and `f16` is not rounded until it is converted or stored.
    fn is_rounded(&self, id: NodeId) -> bool {
        let node = &self.kernel().nodes[id];
        match &node.kind {
            NodeKind::Load { .. } | NodeKind::Gather { .. } | NodeKind::Constant(_) | NodeKind::Convert(_) | NodeKind::Bitcast(_) => true,
            NodeKind::Unary(UnaryOp::Abs | UnaryOp::Negate, a) => self.is_rounded(*a),
            NodeKind::Binary(BinaryOp::Maximum | BinaryOp::Minimum, a, b) | NodeKind::Select(_, a, b) => self.is_rounded(*a) && self.is_rounded(*b),
            _ => false,
        }
    }

    /// Emits a node whose operands are there.
    fn compute(&mut self, id: NodeId) -> Result<(), Error> {
        let node = &self.kernel().nodes[id];
        let half = self.half_hardware();
        let v = match &node.kind {
            NodeKind::Load { .. } | NodeKind::Gather { .. } => self.read(id),
            NodeKind::Constant(bytes) => self.constant(node.dtype, bytes),
            NodeKind::Index(d) => self.index_value(*d as usize, node.dtype),
            NodeKind::Scalar(number) => {
                let scalar = self.b().scalar_argument(*number);
                elementwise::convert(self.b(), scalar, DType::I64, node.dtype, half)
            }
            NodeKind::Unary(op, a) => {
                let (dtype, a) = (self.kernel().nodes[*a].dtype, self.value(*a));
                elementwise::unary(self.b(), *op, dtype, a).ok_or_else(|| self.unsupported(id, op))?
            }
            NodeKind::Binary(op, x, y) => self.binary(id, *op, *x, *y)?,
            NodeKind::Compare { direction, total, lhs, rhs } => {
                let (dtype, lhs, rhs) = (self.kernel().nodes[*lhs].dtype, self.value(*lhs), self.value(*rhs));
                elementwise::compare(self.b(), *direction, *total, dtype, lhs, rhs)
            }
            NodeKind::Select(p, x, y) => {
                let (p, x, y) = (self.value(*p), self.value(*x), self.value(*y));
                self.b().select(p, x, y)
            }
            NodeKind::Convert(a) => {
                let (from, v) = (self.kernel().nodes[*a].dtype, self.value(*a));
                elementwise::convert(self.b(), v, from, node.dtype, half)
            }
            NodeKind::Bitcast(a) => {
                let (from, v) = (self.kernel().nodes[*a].dtype, self.value(*a));
                let rounded = self.is_rounded(*a);
                self.bitcast(v, from, node.dtype, rounded)
            }
            NodeKind::Reduce(..) => unreachable!("invariant: reductions are computed by their pass"),
        };
        self.define(id, v);
        Ok(())
    }

    /// A gather's computed index, between zero and `limit`.
    fn clamped(&mut self, at: NodeId, limit: u64) -> Val {
        let (v, dtype) = (self.value(at), self.kernel().nodes[at].dtype);
        let wide = match v.ty.elem {
            Elem::I64 => v,
            _ if dtype.is_unsigned() || v.ty.elem == Elem::I1 => self.b().convert("arith.extui", v, Elem::I64),
            _ => self.b().convert("arith.extsi", v, Elem::I64),
        };
        let limit = self.b().int(wide.ty, i64::try_from(limit).unwrap_or(i64::MAX));
        let zero = self.b().int(wide.ty, 0);
        if !dtype.is_unsigned() {
            let negative = self.b().compare_int("slt", wide, zero);
            let raised = self.b().select(negative, zero, wide);
            let over = self.b().compare_int("sgt", raised, limit);
            return self.b().select(over, limit, raised);
        }
        let over = self.b().compare_int("ugt", wide, limit);
        self.b().select(over, limit, wide)
    }

    fn constant(&mut self, dtype: DType, bytes: &[u8]) -> Val {
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(raw);
        let ty = Ty::scalar(elementwise::computed_in(dtype).expect("invariant: types were checked"));
        match dtype {
            DType::I1 => self.b().bits(ty, u64::from(bits != 0)),
            DType::BF16 => self.b().bits(ty, bits << 16),
            DType::F16 => self.b().float(ty, half::f16::from_bits(bits as u16).to_f64()),
            _ => self.b().bits(ty, bits),
        }
    }

    fn index_value(&mut self, d: usize, dtype: DType) -> Val {
        let half = self.half_hardware();
        let Some(dim) = self.nest().position[d] else {
            let zero = self.b().index(0);
            return elementwise::convert(self.b(), zero, DType::I64, dtype, half);
        };
        let start = self.at(dim);
        // Indices mostly fit 32 bits, in which vectors convert well.
        let narrow = self.nest().dims[dim].extent <= i32::MAX as u64;
        let (elem, from) = if narrow { (Elem::I32, DType::I32) } else { (Elem::I64, DType::I64) };
        let mut v = match (start.ty.elem, elem) {
            (Elem::I64, Elem::I32) => self.b().convert("arith.trunci", start, elem),
            (Elem::I32, Elem::I64) => self.b().convert("arith.extui", start, elem),
            _ => start,
        };
        let width = self.lanes();
        if self.nest().vector == Some(dim) && width.lanes > 0 {
            let steps: Vec<i64> = (0..width.lanes).map(|l| if l < width.valid { i64::from(l) } else { 0 }).collect();
            let steps = self.b().int_vector(elem, &steps);
            v = self.b().add(steps, v);
        }
        elementwise::convert(self.b(), v, from, dtype, half)
    }

    fn binary(&mut self, id: NodeId, op: BinaryOp, x: NodeId, y: NodeId) -> Result<Val, Error> {
        let dtype = self.kernel().nodes[x].dtype;
        let (vx, vy) = (self.value(x), self.value(y));
        if op == BinaryOp::Power
            && dtype.is_float()
            && let NodeKind::Constant(bytes) = &self.kernel().nodes[y].kind
            && let Some(v) = self.constant_power(dtype, bytes, vx)
        {
            return Ok(v);
        }
        if op == BinaryOp::Divide && dtype.is_float() && self.b().fma && vx.ty.lanes > 0 && vy.ty.lanes == 0 {
            return Ok(crate::math::divide_by_uniform(self.b(), vx, vy));
        }
        elementwise::binary(self.b(), op, dtype, vx, vy).ok_or_else(|| self.unsupported(id, op))
    }

    /// Powers that multiplications, roots and a division give.
    fn constant_power(&mut self, dtype: DType, bytes: &[u8], x: Val) -> Option<Val> {
        let exponent = match dtype {
            DType::F32 => f64::from(f32::from_le_bytes(bytes.try_into().ok()?)),
            DType::F64 => f64::from_le_bytes(bytes.try_into().ok()?),
            DType::BF16 => half::bf16::from_le_bytes(bytes.try_into().ok()?).to_f64(),
            DType::F16 => half::f16::from_le_bytes(bytes.try_into().ok()?).to_f64(),
            _ => return None,
        };
        let one = self.b().float(x.ty, 1.0);
        Some(match exponent {
            1.0 => x,
            -1.0 => self.b().div(one, x),
            2.0 => self.b().mul(x, x),
            3.0 => {
                let square = self.b().mul(x, x);
                self.b().mul(square, x)
            }
            4.0 => {
                let square = self.b().mul(x, x);
                self.b().mul(square, square)
            }
            _ => return None,
        })
    }

    fn bitcast(&mut self, v: Val, from: DType, to: DType, rounded: bool) -> Val {
        let half = self.half_hardware();
        let stored = if from == DType::I1 || !matches!(from, DType::BF16 | DType::F16) {
            v
        } else {
            let stored = elementwise::to_storage(self.b(), v, from, half, rounded);
            self.b().bitcast(stored, Elem::I16)
        };
        match to {
            DType::BF16 => elementwise::from_storage(self.b(), stored, to),
            DType::F16 => {
                let stored = if half { self.b().bitcast(stored, Elem::F16) } else { stored };
                elementwise::from_storage(self.b(), stored, to)
            }
            _ => {
                let elem = elementwise::computed_in(to).expect("invariant: types were checked");
                self.b().bitcast(stored, elem)
            }
        }
    }

    /// The neutral element of the reduction `id`, in type `ty`.
    fn neutral(&mut self, id: NodeId, ty: Ty) -> Result<Val, Error> {
        let (dtype, reducer) = (self.kernel().nodes[id].dtype, self.reducer(id));
        let bits = ty.elem.bits();
        let value = match reducer {
            Reducer::Add | Reducer::Or | Reducer::Xor => 0,
            Reducer::And => u64::MAX,
            Reducer::Mul if dtype.is_float() => return Ok(self.b().float(ty, 1.0)),
            Reducer::Mul => 1,
            Reducer::Max if dtype.is_float() => return Ok(self.b().float(ty, f64::NEG_INFINITY)),
            Reducer::Min if dtype.is_float() => return Ok(self.b().float(ty, f64::INFINITY)),
            Reducer::Max if dtype.is_unsigned() || bits == 1 => 0,
            Reducer::Min if dtype.is_unsigned() || bits == 1 => u64::MAX,
            Reducer::Max => 1 << (bits - 1),
            Reducer::Min => (1 << (bits - 1)) - 1,
            Reducer::Replace | Reducer::General => return Err(self.unsupported(id, reducer)),
        };
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        Ok(self.b().bits(ty, value & mask))
    }

    /// Two parts of the reduction `id` as one.
    fn folded(&mut self, id: NodeId, x: Val, y: Val) -> Result<Val, Error> {
        let (dtype, reducer) = (self.kernel().nodes[id].dtype, self.reducer(id));
        let op = reducer.binary().ok_or_else(|| self.unsupported(id, reducer))?;
        elementwise::binary(self.b(), op, dtype, x, y).ok_or_else(|| self.unsupported(id, reducer))
    }

    /// The lanes of a part of the reduction `id` as one, by halving.
    fn lanes_folded(&mut self, id: NodeId, v: Val) -> Result<Val, Error> {
        let mut v = v;
        while v.ty.lanes > 1 {
            let half = v.ty.lanes / 2;
            let low = self.b().shuffle(v, v, &(0..half).collect::<Vec<u32>>());
            let high = self.b().shuffle(v, v, &(half..2 * half).collect::<Vec<u32>>());
            v = self.folded(id, low, high)?;
        }
        Ok(if v.ty.lanes == 0 { v } else { self.b().extract(v, 0) })
    }

    /// How the reduction `id` combines.
    fn reducer(&self, id: NodeId) -> Reducer {
        match self.kernel().nodes[id].kind {
            NodeKind::Reduce(reducer, _) => reducer,
            _ => unreachable!("invariant: only reductions are folded"),
        }
    }
}
