//! Computes nodes that are not reductions.

use super::Emitter;
use super::builder::{Elem, Ty, Val};
use crate::elementwise;
use crate::error::Error;
use ir::dtype::DType;
use ir::kernel::{NodeId, NodeKind};
use ir::op::{BinaryOp, UnaryOp};

impl Emitter<'_> {
    /// The machine type in which a node is computed.
    pub(super) fn computed_in(&self, id: NodeId) -> Elem {
        elementwise::computed_in(self.kernel.nodes[id].dtype).expect("invariant: types were checked")
    }

    pub(super) fn unsupported(&self, id: NodeId, what: impl std::fmt::Debug) -> Error {
        let node = id;
        Error::Unsupported { kernel: self.symbol.to_owned(), node, what: format!("{what:?} in {}", self.kernel.nodes[id].dtype) }
    }

    /// Whether the node's value is exactly what its type can hold: arithmetic in `bf16` and `f16` is not rounded until it is converted or stored.
    pub(super) fn is_rounded(&self, id: NodeId) -> bool {
        let node = &self.kernel.nodes[id];
        match &node.kind {
            NodeKind::Load { .. } | NodeKind::Gather { .. } | NodeKind::Constant(_) | NodeKind::Convert(_) | NodeKind::Bitcast(_) => true,
            NodeKind::Unary(UnaryOp::Abs | UnaryOp::Negate, a) => self.is_rounded(*a),
            NodeKind::Binary(BinaryOp::Maximum | BinaryOp::Minimum, a, b) | NodeKind::Select(_, a, b) => self.is_rounded(*a) && self.is_rounded(*b),
            _ => false,
        }
    }

    /// Emits a node whose operands are there.
    pub(super) fn compute(&mut self, id: NodeId) -> Result<(), Error> {
        let node = &self.kernel.nodes[id];
        let half = self.half_hardware;
        let v = match &node.kind {
            NodeKind::Load { .. } | NodeKind::Gather { .. } => self.read(id),
            NodeKind::Constant(bytes) => self.constant(node.dtype, bytes),
            NodeKind::Index(d) => self.index_value(*d as usize, node.dtype),
            NodeKind::Scalar(number) => {
                let scalar = self.b.scalar_argument(*number);
                elementwise::convert(&mut self.b, scalar, DType::I64, node.dtype, half)
            }
            NodeKind::Unary(op, a) => {
                let (dtype, a) = (self.kernel.nodes[*a].dtype, self.value(*a));
                elementwise::unary(&mut self.b, *op, dtype, a).ok_or_else(|| self.unsupported(id, op))?
            }
            NodeKind::Binary(op, x, y) => self.binary(id, *op, *x, *y)?,
            NodeKind::Compare { direction, total, lhs, rhs } => {
                let (dtype, lhs, rhs) = (self.kernel.nodes[*lhs].dtype, self.value(*lhs), self.value(*rhs));
                elementwise::compare(&mut self.b, *direction, *total, dtype, lhs, rhs)
            }
            NodeKind::Select(p, x, y) => {
                let (p, x, y) = (self.value(*p), self.value(*x), self.value(*y));
                self.b.select(p, x, y)
            }
            NodeKind::Convert(a) => {
                let (from, v) = (self.kernel.nodes[*a].dtype, self.value(*a));
                elementwise::convert(&mut self.b, v, from, node.dtype, half)
            }
            NodeKind::Bitcast(a) => {
                let (from, v) = (self.kernel.nodes[*a].dtype, self.value(*a));
                let rounded = self.is_rounded(*a);
                self.bitcast(v, from, node.dtype, rounded)
            }
            NodeKind::Reduce(..) => unreachable!("invariant: reductions are computed by their pass"),
        };
        self.define(id, v);
        Ok(())
    }

    fn constant(&mut self, dtype: DType, bytes: &[u8]) -> Val {
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(bytes);
        let bits = u64::from_le_bytes(raw);
        let ty = Ty::scalar(elementwise::computed_in(dtype).expect("invariant: types were checked"));
        match dtype {
            DType::I1 => self.b.bits(ty, u64::from(bits != 0)),
            DType::BF16 => self.b.bits(ty, bits << 16),
            DType::F16 => self.b.float(ty, half::f16::from_bits(bits as u16).to_f64()),
            _ => self.b.bits(ty, bits),
        }
    }

    fn index_value(&mut self, d: usize, dtype: DType) -> Val {
        let half = self.half_hardware;
        let Some(dim) = self.nest.position[d] else {
            let zero = self.b.index(0);
            return elementwise::convert(&mut self.b, zero, DType::I64, dtype, half);
        };
        let start = self.indices[dim].expect("invariant: an index is inside its loop");
        // Indices mostly fit 32 bits, in which vectors convert well.
        let narrow = self.nest.dims[dim].extent <= i32::MAX as u64;
        let (elem, from) = if narrow { (Elem::I32, DType::I32) } else { (Elem::I64, DType::I64) };
        let mut v = if narrow { self.b.convert("arith.trunci", start, elem) } else { start };
        if self.nest.vector == Some(dim) {
            let width = self.lanes;
            let steps: Vec<i64> = (0..width.lanes).map(|l| if l < width.valid { i64::from(l) } else { 0 }).collect();
            let steps = self.b.int_vector(elem, &steps);
            v = self.b.add(steps, v);
        }
        elementwise::convert(&mut self.b, v, from, dtype, half)
    }

    fn binary(&mut self, id: NodeId, op: BinaryOp, x: NodeId, y: NodeId) -> Result<Val, Error> {
        let dtype = self.kernel.nodes[x].dtype;
        let (vx, vy) = (self.value(x), self.value(y));
        if op == BinaryOp::Power
            && dtype.is_float()
            && let NodeKind::Constant(bytes) = &self.kernel.nodes[y].kind
            && let Some(v) = self.constant_power(dtype, bytes, vx)
        {
            return Ok(v);
        }
        if op == BinaryOp::Divide && dtype.is_float() && self.b.fma && vx.ty.lanes > 0 && vy.ty.lanes == 0 {
            return Ok(crate::math::divide_by_uniform(&mut self.b, vx, vy));
        }
        elementwise::binary(&mut self.b, op, dtype, vx, vy).ok_or_else(|| self.unsupported(id, op))
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
        let one = self.b.float(x.ty, 1.0);
        Some(match exponent {
            1.0 => x,
            -1.0 => self.b.div(one, x),
            2.0 => self.b.mul(x, x),
            3.0 => {
                let square = self.b.mul(x, x);
                self.b.mul(square, x)
            }
            4.0 => {
                let square = self.b.mul(x, x);
                self.b.mul(square, square)
            }
            _ => return None,
        })
    }

    fn bitcast(&mut self, v: Val, from: DType, to: DType, rounded: bool) -> Val {
        let half = self.half_hardware;
        let stored = if from == DType::I1 || !matches!(from, DType::BF16 | DType::F16) {
            v
        } else {
            let stored = elementwise::to_storage(&mut self.b, v, from, half, rounded);
            self.b.bitcast(stored, Elem::I16)
        };
        match to {
            DType::BF16 => elementwise::from_storage(&mut self.b, stored, to),
            DType::F16 => {
                let stored = if half { self.b.bitcast(stored, Elem::F16) } else { stored };
                elementwise::from_storage(&mut self.b, stored, to)
            }
            _ => {
                let elem = elementwise::computed_in(to).expect("invariant: types were checked");
                self.b.bitcast(stored, elem)
            }
        }
    }
}
