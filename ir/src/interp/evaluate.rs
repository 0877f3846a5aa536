//! One op on one device: which function computes it.
//!
//! The one place where the interpreter matches on the kind of op, without a `_` arm.

use super::tensor::{Buffer, Class, Tensor, settle};
use super::{Machine, attention, dot, elementwise, failure, indexing, movement, random, reduction, sorting};
use crate::diagnostic::Diagnostic;
use crate::dtype::TensorType;
use crate::graph::{Graph, Op};
use crate::op::{OpKind, Reducer};

impl Machine<'_> {
    pub(super) fn class(&self, ty: &TensorType) -> Class {
        Class::of(ty.dtype, self.precision)
    }

    /// An elementwise op, with `ty` the type of its result; `None` when it is not defined on its operands' types.
    pub(super) fn elementwise(&self, kind: &OpKind, operands: Vec<Tensor>, ty: TensorType) -> Option<Tensor> {
        if let (OpKind::BitcastConvert, [x]) = (kind, operands.as_slice()) {
            let buffer = elementwise::bitcast(x, ty.dtype, self.class(&ty));
            return Some(Tensor::new(ty, buffer));
        }
        let t = operands.get(usize::from(*kind == OpKind::Clamp))?.ty.dtype;
        let mut buffers = operands.into_iter().map(|x| x.buffer);
        let mut next = || buffers.next();
        let buffer = match kind {
            OpKind::Unary(op) => elementwise::unary(*op, t, ty.dtype, next()?)?,
            OpKind::Binary(op) => elementwise::binary(*op, t, ty.dtype, next()?, next()?)?,
            OpKind::Compare { direction, total } => elementwise::compare(*direction, *total, t, &next()?, &next()?)?,
            OpKind::Select => match (next()?, next()?, next()?) {
                (Buffer::Bool(predicate), on_true, on_false) => elementwise::select(&predicate, on_true, on_false),
                _ => return None,
            },
            OpKind::Clamp => {
                let (low, x, high) = (next()?, next()?, next()?);
                let above = reduction::combine(Reducer::Max, t, x, low)?;
                reduction::combine(Reducer::Min, t, above, high)?
            }
            OpKind::Convert => elementwise::convert(t, ty.dtype, self.class(&ty), next()?),
            OpKind::ReducePrecision { exponent, mantissa } => settle(ty.dtype, elementwise::reduce_precision(*exponent, *mantissa, next()?)),
            _ => return None,
        };
        Some(Tensor::new(ty, buffer))
    }

    /// Any op that neither calls, branches nor communicates.
    pub(super) fn evaluate(&self, graph: &Graph, op: &Op, mut operands: Vec<Tensor>) -> Result<Vec<Tensor>, Diagnostic> {
        let undefined = |what: &str| failure(graph, op, what.to_string());
        let types: Vec<TensorType> = op.results.iter().map(|&v| graph.ty(v).clone()).collect();
        let (counts, results, _) = op.kind.arity();
        if !counts.allows(operands.len()) || !results.allows(types.len()) {
            return Err(undefined(&format!("it has {} operands and {} results", operands.len(), types.len())));
        }
        let ty = types.first().cloned();
        let ty = move || ty.clone().ok_or_else(|| undefined("it has no result"));
        let one = match &op.kind {
            OpKind::Constant(literal) => Tensor::from_literal(literal).in_precision(self.precision),
            OpKind::Iota { dim } => {
                let ty = ty()?;
                let class = self.class(&ty);
                movement::iota(ty, *dim, class)
            }
            OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Compare { .. }
            | OpKind::Select
            | OpKind::Clamp
            | OpKind::Convert
            | OpKind::BitcastConvert
            | OpKind::ReducePrecision { .. } => {
                let t = operands.first().map(|x| x.ty.dtype);
                self.elementwise(&op.kind, operands, ty()?).ok_or_else(|| undefined(&format!("it is not defined on {}", t.map_or("nothing", |t| t.name()))))?
            }
            OpKind::Broadcast { dims } => movement::broadcast(&operands[0], ty()?, dims),
            OpKind::Reshape => movement::reshape(operands.swap_remove(0), ty()?),
            OpKind::Transpose { perm } => movement::transpose(&operands[0], ty()?, perm),
            OpKind::Slice { start, limit: _, stride } => movement::slice(&operands[0], ty()?, start, stride),
            OpKind::Pad { low, high: _, interior } => movement::pad(&operands[0], &operands[1], ty()?, low, interior),
            OpKind::Concatenate { dim } => movement::concatenate(&operands, ty()?, *dim),
            OpKind::Reverse { dims } => movement::reverse(&operands[0], dims),
            OpKind::DynamicSlice { sizes: _ } => movement::dynamic_slice(&operands[0], &operands[1..], ty()?),
            OpKind::DynamicUpdateSlice => {
                let x = operands.remove(0);
                movement::dynamic_update_slice(x, &operands[0], &operands[1..])
            }
            OpKind::Reduce { dims, reducer } => return self.reduce(graph, op, operands, dims, *reducer, types),
            OpKind::ReduceWindow { window, reducer } => return self.reduce_window(graph, op, operands, window, *reducer, types),
            OpKind::SelectAndScatter { window } => self.select_and_scatter(graph, op, &operands, window, ty()?)?,
            OpKind::Dot(dims) => {
                let (ty, rhs) = (ty()?, operands.pop());
                let (Some(lhs), Some(rhs)) = (operands.pop(), rhs) else { return Err(undefined("it has not two operands")) };
                let class = self.class(&ty);
                dot::dot(lhs, rhs, dims, ty, class)
            }
            OpKind::Convolution(dims) => {
                let (ty, kernel) = (ty()?, operands.pop());
                let (Some(x), Some(kernel)) = (operands.pop(), kernel) else { return Err(undefined("it has not two operands")) };
                let class = self.class(&ty);
                dot::convolution(x, kernel, dims, ty, class)
            }
            OpKind::Attention(a) => return Ok(attention::forward(a, &operands, types, self.precision)),
            OpKind::AttentionGrad { attention, bias: _ } => return Ok(attention::backward(attention, &operands, types, self.precision)),
            OpKind::Gather(dims) => indexing::gather(&operands[0], &operands[1], dims, ty()?),
            OpKind::Scatter { dims, reducer } => return self.scatter(graph, op, operands, dims, *reducer),
            OpKind::TopK { k } => {
                let [values, indices] = <[TensorType; 2]>::try_from(types).map_err(|_| failure(graph, op, "it has not two results".into()))?;
                let (v, i) = sorting::top_k(operands.swap_remove(0), *k, values, indices);
                return Ok(vec![v, i]);
            }
            OpKind::Sort { dim, stable: _ } => return self.sort(graph, op, &operands, *dim),
            OpKind::Barrier => return Ok(operands),
            OpKind::RngBitGenerator { algorithm } => {
                let [state_ty, bits_ty] = <[TensorType; 2]>::try_from(types).map_err(|_| failure(graph, op, "it has not two results".into()))?;
                let drawn = random::rng_bit_generator(algorithm, &operands[0], state_ty, bits_ty);
                let (state, bits) = drawn.ok_or_else(|| failure(graph, op, format!("no generator {algorithm} with a state of {}", operands[0].ty)))?;
                return Ok(vec![state, bits.in_precision(self.precision)]);
            }
            OpKind::CustomCall { target, attributes: _ } => return Err(undefined(&format!("the target `{target}` is not known"))),
            OpKind::While
            | OpKind::If
            | OpKind::Case
            | OpKind::Call { .. }
            | OpKind::AxisIndex { .. }
            | OpKind::AllReduce { .. }
            | OpKind::AllGather { .. }
            | OpKind::ReduceScatter { .. }
            | OpKind::AllToAll { .. }
            | OpKind::ShardSlice { .. } => return Err(undefined("it is evaluated on all devices together")),
        };
        Ok(vec![one])
    }
}
