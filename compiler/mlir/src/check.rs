//! Checks the invariants of [`ir::kernel`] that code generation relies on, so that nothing after it can fail on a kernel.

use crate::elementwise::computed_in;
use crate::error::Error;
use ir::EntityId;
use ir::kernel::{Affine, Kernel, NodeId, NodeKind};

/// Elements that an index, an extent or their products may reach: all address arithmetic fits `i64` with room.
const LIMIT: i128 = 1 << 56;

/// Whether `kernel` may be compiled.
pub(crate) fn check(symbol: &str, kernel: &Kernel) -> Result<(), Error> {
    let checker = Checker { symbol, kernel };
    checker.domain()?;
    for (id, _) in kernel.nodes.iter() {
        checker.node(id)?;
    }
    for store in &kernel.stores {
        let param = kernel.params.get(store.param as usize).ok_or_else(|| checker.invalid("a store to no argument"))?;
        checker.require(param.output, || "a store to an input".to_owned())?;
        let value = kernel.nodes.get(store.value).ok_or_else(|| checker.invalid("a store of no node"))?;
        checker.require(value.dtype == param.dtype, || format!("a store of {} to {}", value.dtype, param.dtype))?;
        checker.affine(&store.index)?;
    }
    Ok(())
}

struct Checker<'k> {
    symbol: &'k str,
    kernel: &'k Kernel,
}

impl Checker<'_> {
    fn invalid(&self, reason: impl Into<String>) -> Error {
        Error::Invalid { kernel: self.symbol.to_owned(), reason: reason.into() }
    }
    fn require(&self, holds: bool, reason: impl FnOnce() -> String) -> Result<(), Error> {
        if holds { Ok(()) } else { Err(self.invalid(reason())) }
    }
    fn domain(&self) -> Result<(), Error> {
        let domain = &self.kernel.domain;
        self.require(domain.len() < 32, || "32 dimensions or more".to_owned())?;
        self.require(domain.iter().all(|&n| n > 0), || "an empty dimension".to_owned())?;
        let points = domain.iter().try_fold(1i128, |p, &n| p.checked_mul(i128::from(n)).filter(|&p| p < LIMIT));
        self.require(points.is_some(), || "a domain of too many points".to_owned())?;
        let ascending = self.kernel.reduced.windows(2).all(|w| w[0] < w[1]) && self.kernel.reduced.iter().all(|&d| (d as usize) < domain.len());
        self.require(ascending, || "reduced dimensions that are not ascending dimensions of the domain".to_owned())
    }
    fn affine(&self, index: &Affine) -> Result<(), Error> {
        let rank = self.kernel.domain.len();
        self.require(index.strides.len() == rank, || format!("an index with {} strides in a domain of {rank} dimensions", index.strides.len()))?;
        let reach =
            index.strides.iter().zip(&self.kernel.domain).map(|(&s, &n)| i128::from(s).abs().saturating_mul(i128::from(n))).fold(0, i128::saturating_add);
        self.require(reach < LIMIT, || "an index out of range".to_owned())?;
        let known = index.scalars.iter().all(|(s, _)| *s < self.kernel.scalars);
        self.require(known, || "an index with an unknown scalar".to_owned())
    }
    fn param(&self, number: u32) -> Result<ir::DType, Error> {
        self.kernel.params.get(number as usize).map(|p| p.dtype).ok_or_else(|| self.invalid("a load from no argument"))
    }
    fn node(&self, id: NodeId) -> Result<(), Error> {
        let node = &self.kernel.nodes[id];
        let unsupported = |what: String| Error::Unsupported { kernel: self.symbol.to_owned(), node: id, what };
        if computed_in(node.dtype).is_none() {
            return Err(unsupported(format!("the type {}", node.dtype)));
        }
        let operands = self.kernel.operands(id);
        self.require(operands.iter().all(|o| o.index() < id.index()), || format!("node {id} uses a later node"))?;
        let dtype = |n: NodeId| self.kernel.nodes[n].dtype;
        let same = |nodes: &[NodeId]| nodes.iter().all(|&n| dtype(n) == node.dtype);
        let typed = match &node.kind {
            NodeKind::Load { param, index } => {
                self.affine(index)?;
                self.param(*param)? == node.dtype
            }
            NodeKind::Gather { param, index, at, .. } => {
                self.affine(index)?;
                self.param(*param)? == node.dtype && dtype(*at).is_integer()
            }
            NodeKind::Constant(bytes) => bytes.len() as u64 == node.dtype.bytes(),
            NodeKind::Index(d) => (*d as usize) < self.kernel.domain.len(),
            NodeKind::Scalar(s) => *s < self.kernel.scalars,
            NodeKind::Unary(ir::op::UnaryOp::IsFinite, a) => node.dtype == ir::DType::I1 && dtype(*a).is_float(),
            NodeKind::Unary(_, a) => same(&[*a]),
            NodeKind::Binary(_, x, y) => same(&[*x, *y]),
            NodeKind::Compare { lhs, rhs, .. } => node.dtype == ir::DType::I1 && dtype(*lhs) == dtype(*rhs),
            NodeKind::Select(p, x, y) => dtype(*p) == ir::DType::I1 && same(&[*x, *y]),
            NodeKind::Convert(_) => true,
            NodeKind::Bitcast(a) => dtype(*a).bits() == node.dtype.bits(),
            NodeKind::Reduce(_, a) => same(&[*a]),
        };
        self.require(typed, || format!("node {id} has operands of other types than its own, {}", node.dtype))
    }
}
