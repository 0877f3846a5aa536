//! One rule per op: everything that planning, partitioning and explaining need to know of it.
//!
//! A rule names *factors* (as Shardy's op sharding rules do): each dimension of each operand and result belongs to a factor or to none.
//! Cutting a factor over an axis cuts every dimension of it; a result without the factor of a reduction becomes a partial over that axis.
//! A dimension without a factor must be whole. `linear` lists the sets of operands that may be partial together so that the results are partial
//! by the same reducer; operands that are zero constants count as partial or whole, as is needed.
//! The rules are tested op by op: run sharded in every way a rule allows, uneven ones included, against the interpreter.

mod structural;

use ir::graph::Graph;
use ir::op::{BinaryOp, OpKind, Reducer, UnaryOp};
use ir::{AxisId, DType, OpId, ValueId};

/// A set of dimensions that are cut together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    /// Extent.
    pub size: u64,
    /// The reducer by which results that lack it are folded over it.
    pub reduction: Option<Reducer>,
}

/// Factors of the dimensions of one value.
pub type Dims = Vec<Option<u32>>;

/// Operands that may be partial together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    /// By which reducer; `None` for any (a rearrangement).
    pub reducer: Option<Reducer>,
    /// The operands.
    pub operands: Vec<usize>,
}

/// What an op says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Its factors.
    pub factors: Vec<Factor>,
    /// Per operand.
    pub operands: Vec<Dims>,
    /// Per result.
    pub results: Vec<Dims>,
    /// Sets of operands that may be partial.
    pub linear: Vec<Linear>,
    /// Whether nothing is known of it, so that it is done whole on every device.
    pub opaque: bool,
}

impl Rule {
    fn factor(&mut self, size: u64, reduction: Option<Reducer>) -> Option<u32> {
        self.factors.push(Factor { size, reduction });
        Some(self.factors.len() as u32 - 1)
    }
    fn linear(mut self, reducer: Option<Reducer>, operands: &[usize]) -> Rule {
        self.linear.push(Linear { reducer, operands: operands.to_vec() });
        self
    }
}

/// Elementwise over all operands of the result's rank; scalar operands are whole.
fn elementwise(graph: &Graph, id: OpId) -> Rule {
    let op = &graph.ops[id];
    let shape = &graph.ty(op.results[0]).shape;
    let mut rule = Rule::default();
    let dims: Dims = shape.iter().map(|&n| rule.factor(n, None)).collect();
    rule.operands = op.operands.iter().map(|&v| if graph.ty(v).rank() == shape.len() { dims.clone() } else { vec![] }).collect();
    rule.results = vec![dims; op.results.len()];
    rule
}

/// Whole on every device.
fn opaque(graph: &Graph, id: OpId) -> Rule {
    let op = &graph.ops[id];
    let whole = |vs: &[ValueId]| vs.iter().map(|&v| vec![None; graph.ty(v).rank()]).collect();
    Rule { operands: whole(&op.operands), results: whole(&op.results), opaque: true, ..Rule::default() }
}

/// Whether a value is zero everywhere by construction.
pub fn is_zero(graph: &Graph, v: ValueId) -> bool {
    match graph.def_op(v).map(|op| &graph.ops[op]) {
        Some(op) => match &op.kind {
            OpKind::Constant(l) => l.splat_value() == Some(0.0),
            OpKind::Broadcast { .. } | OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Slice { .. } => is_zero(graph, op.operands[0]),
            _ => false,
        },
        None => false,
    }
}

/// Whether a conversion keeps sums: not when it drops bits.
fn widens(from: DType, to: DType) -> bool {
    from == to || (from.is_float() && to.is_float() && to.bits() > from.bits())
}

/// The rule of an op.
pub fn rule(graph: &Graph, id: OpId) -> Rule {
    use structural as s;
    const SUM: Option<Reducer> = Some(Reducer::Add);
    let op = &graph.ops[id];
    match &op.kind {
        OpKind::Constant(l) if l.splat_bytes().is_none() => opaque(graph, id),
        OpKind::Constant(_) | OpKind::Iota { .. } | OpKind::AxisIndex { .. } => elementwise(graph, id),
        OpKind::Unary(UnaryOp::Negate) => elementwise(graph, id).linear(SUM, &[0]),
        OpKind::Unary(_) | OpKind::Compare { .. } | OpKind::Clamp | OpKind::ReducePrecision { .. } => elementwise(graph, id),
        OpKind::Binary(BinaryOp::Add | BinaryOp::Subtract) => elementwise(graph, id).linear(SUM, &[0, 1]),
        OpKind::Binary(BinaryOp::Multiply) => elementwise(graph, id).linear(SUM, &[0]).linear(SUM, &[1]),
        OpKind::Binary(BinaryOp::Divide) if graph.ty(op.results[0]).dtype.is_float() => elementwise(graph, id).linear(SUM, &[0]),
        OpKind::Binary(_) => elementwise(graph, id),
        OpKind::Select => elementwise(graph, id).linear(SUM, &[1, 2]),
        OpKind::Convert => {
            let rule = elementwise(graph, id);
            if widens(graph.ty(op.operands[0]).dtype, graph.ty(op.results[0]).dtype) { rule.linear(None, &[0]) } else { rule }
        }
        OpKind::BitcastConvert if graph.ty(op.operands[0]).rank() == graph.ty(op.results[0]).rank() => elementwise(graph, id),
        OpKind::BitcastConvert => opaque(graph, id),
        OpKind::AllReduce { axes, .. } if axes == &[AxisId::MICROBATCH] => elementwise(graph, id).linear(SUM, &[0]),
        OpKind::Broadcast { dims } => s::broadcast(graph, id, dims).linear(None, &[0]),
        OpKind::Reshape => s::reshape(graph, id).linear(None, &[0]),
        OpKind::Transpose { perm } => s::transpose(graph, id, perm).linear(None, &[0]),
        OpKind::Slice { .. } | OpKind::Reverse { .. } | OpKind::ShardSlice { .. } => s::same_extent(graph, id).linear(None, &[0]),
        OpKind::Pad { .. } => {
            let rule = s::same_extent(graph, id);
            if is_zero(graph, op.operands[1]) { rule.linear(SUM, &[0]) } else { rule }
        }
        OpKind::Concatenate { dim } => s::concatenate(graph, id, *dim).linear(None, &(0..op.operands.len()).collect::<Vec<_>>()),
        OpKind::DynamicSlice { .. } => s::same_extent(graph, id).linear(None, &[0]),
        OpKind::DynamicUpdateSlice => s::update_slice(graph, id).linear(None, &[0, 1]),
        OpKind::Reduce { dims, reducer } => s::reduce(graph, id, dims, *reducer),
        OpKind::ReduceWindow { window, .. } => s::windowed(graph, id, window),
        OpKind::SelectAndScatter { window } => s::windowed(graph, id, window),
        OpKind::Dot(dims) => s::dot(graph, id, dims).linear(SUM, &[0]).linear(SUM, &[1]),
        OpKind::Convolution(dims) => s::convolution(graph, id, dims).linear(SUM, &[0]).linear(SUM, &[1]),
        OpKind::Attention(a) => s::attention(graph, id, &a.operand_dims(), &[a.o.clone(), a.lse()]),
        OpKind::AttentionGrad { attention: a, bias } => s::attention(graph, id, &a.gradient_operand_dims(), &a.gradient_dims(*bias)).linear(SUM, &[5]),
        OpKind::Gather(dims) => s::gather(graph, id, dims).linear(None, &[0]),
        OpKind::Scatter { dims, reducer } => s::scatter(graph, id, dims, *reducer),
        OpKind::TopK { .. } => s::all_but(graph, id, graph.ty(op.operands[0]).rank().saturating_sub(1)),
        OpKind::Sort { dim, .. } => s::all_but(graph, id, *dim),
        OpKind::Barrier => s::barrier(graph, id),
        OpKind::While
        | OpKind::If
        | OpKind::Case
        | OpKind::Call { .. }
        | OpKind::RngBitGenerator { .. }
        | OpKind::CustomCall { .. }
        | OpKind::AllReduce { .. }
        | OpKind::AllGather { .. }
        | OpKind::ReduceScatter { .. }
        | OpKind::AllToAll { .. } => opaque(graph, id),
    }
}
