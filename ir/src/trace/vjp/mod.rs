//! Vector-Jacobian products: from the cotangents of an operation's results to those of its operands.
//!
//! One match over all operations, without a `_` arm: a new operation must say here how it is differentiated. Operations of integers, comparisons and
//! roundings have a derivative of zero, which is no cotangent; what is not differentiated says why. For complex numbers the cotangent is that of the
//! bilinear form, as in JAX, so holomorphic functions need no conjugation.

mod elementwise;
mod indexing;
mod movement;
mod product;
mod window;

use super::Tensor;
use crate::graph::Graph;
use crate::op::{OpKind, UnaryOp};

/// An operation that is differentiated.
pub(super) struct Site<'a> {
    pub(super) operands: &'a [Tensor],
    pub(super) results: &'a [Tensor],
    /// Of each result; none is zero.
    pub(super) cotangents: &'a [Option<Tensor>],
    /// Whether an operand's cotangent is asked for.
    pub(super) wanted: &'a [bool],
    pub(super) regions: &'a [Graph],
}

/// Cotangents of the operands (none is zero), or why there are none.
pub(super) type Pulled = Result<Vec<Option<Tensor>>, String>;

/// One for each operand.
pub(super) fn vjp(kind: &OpKind, site: &Site<'_>) -> Pulled {
    let none = || Ok(vec![None; site.operands.len()]);
    // Operations of several results take each cotangent themselves.
    match kind {
        OpKind::Barrier => return Ok(site.cotangents.to_vec()),
        OpKind::Sort { dim, stable } => return indexing::sort(site, *dim, *stable),
        OpKind::Reduce { dims, reducer } => return window::reduce(site, dims, *reducer),
        OpKind::ReduceWindow { window, reducer } => return window::reduce_window(site, window, *reducer),
        OpKind::Scatter { dims, reducer } => return indexing::scatter(site, dims, *reducer),
        _ => {}
    }
    let Some(ct) = site.cotangents.first().and_then(Option::as_ref) else { return none() };
    let x = site.operands;
    let first = |t: Tensor| Ok(vec![Some(t)]);
    match kind {
        OpKind::Constant(_) | OpKind::Iota { .. } | OpKind::AxisIndex { .. } => none(),
        OpKind::Unary(UnaryOp::Sign) if x[0].dtype().is_complex() => Err("the sign of a complex number is not holomorphic".into()),
        OpKind::Unary(op) => Ok(vec![elementwise::unary(*op, &x[0], &site.results[0], ct)]),
        OpKind::Binary(op) => elementwise::binary(*op, site, ct),
        OpKind::Compare { .. } => none(),
        OpKind::Select => Ok(elementwise::select(site, ct)),
        OpKind::Clamp => Ok(elementwise::clamp(site, ct)),
        OpKind::Convert => elementwise::convert(&x[0], ct),
        // Bits have no derivative.
        OpKind::BitcastConvert => none(),
        OpKind::ReducePrecision { exponent, mantissa } => first(ct.reduce_precision(*exponent, *mantissa)),
        OpKind::Broadcast { dims } => first(movement::broadcast(&x[0], ct, dims)),
        OpKind::Reshape => first(ct.reshape(x[0].shape())),
        OpKind::Transpose { perm } => first(ct.transpose(&movement::inverse(perm))),
        OpKind::Slice { start, limit: _, stride } => first(movement::slice(&x[0], ct, start, stride)),
        OpKind::Pad { low, high, interior } => Ok(movement::pad(site, ct, low, high, interior)),
        OpKind::Concatenate { dim } => Ok(movement::concatenate(site, ct, *dim)),
        OpKind::Reverse { dims } => first(ct.reverse(&dims.iter().map(|&d| d as i64).collect::<Vec<_>>())),
        OpKind::DynamicSlice { .. } => Ok(movement::dynamic_slice(site, ct)),
        OpKind::DynamicUpdateSlice => Ok(movement::dynamic_update_slice(site, ct)),
        OpKind::SelectAndScatter { window } => window::select_and_scatter(site, ct, window),
        OpKind::Dot(dims) => Ok(product::dot(site, ct, dims)),
        OpKind::Convolution(dims) => product::convolution(site, ct, dims),
        OpKind::Attention(attention) => product::attention(site, ct, attention),
        OpKind::AttentionGrad { .. } => Err("it is a derivative itself, and has none here".into()),
        OpKind::Gather(dims) => Ok(indexing::gather(site, ct, dims)),
        OpKind::TopK { .. } => Ok(indexing::top_k(site, ct)),
        OpKind::RngBitGenerator { .. } => none(),
        OpKind::While => Err("a loop has no derivative here; write it out with a loop of Rust".into()),
        OpKind::If | OpKind::Case => Err("a branch has no derivative here; use `select`".into()),
        OpKind::Call { callee } => Err(format!("@{callee} is a call; trace the function itself")),
        OpKind::CustomCall { target, .. } => Err(format!("nothing is known of the target `{target}`")),
        OpKind::AllReduce { .. } | OpKind::AllGather { .. } | OpKind::ReduceScatter { .. } | OpKind::AllToAll { .. } | OpKind::ShardSlice { .. } => {
            Err("it is made by partitioning, which comes after differentiation".into())
        }
        OpKind::Barrier | OpKind::Sort { .. } | OpKind::Reduce { .. } | OpKind::ReduceWindow { .. } | OpKind::Scatter { .. } => {
            unreachable!("invariant: matched above")
        }
    }
}
