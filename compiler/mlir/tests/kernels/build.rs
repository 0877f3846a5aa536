//! Builds kernels by hand.

use ir::dtype::{DType, row_major_strides};
use ir::kernel::{Affine, Kernel, Node, NodeId, NodeKind, Param, Store};
use ir::op::{BinaryOp, Direction, Reducer, UnaryOp};

/// A kernel under construction.
pub(crate) struct Build(pub(crate) Kernel);

impl Build {
    pub(crate) fn new(domain: &[u64], reduced: &[u32]) -> Build {
        Build(Kernel { domain: domain.to_vec(), reduced: reduced.to_vec(), ..Kernel::default() })
    }
    fn elements(&self, strides: &[i64]) -> u64 {
        1 + strides.iter().zip(&self.0.domain).map(|(&s, &n)| s as u64 * (n - 1)).sum::<u64>()
    }
    /// Row-major strides over the dimensions in `dims`, zero along others.
    pub(crate) fn strides(&self, dims: &[usize]) -> Vec<i64> {
        let shape: Vec<u64> = dims.iter().map(|&d| self.0.domain[d]).collect();
        let mut strides = vec![0; self.0.domain.len()];
        for (&d, s) in dims.iter().zip(row_major_strides(&shape)) {
            strides[d] = s as i64;
        }
        strides
    }
    pub(crate) fn param(&mut self, dtype: DType, elements: u64, output: bool) -> u32 {
        self.0.params.push(Param { dtype, elements, output });
        self.0.params.len() as u32 - 1
    }
    pub(crate) fn node(&mut self, dtype: DType, kind: NodeKind) -> NodeId {
        self.0.nodes.push(Node { kind, dtype })
    }
    /// Loads a new input that has the dimensions `dims`.
    pub(crate) fn input(&mut self, dtype: DType, dims: &[usize]) -> NodeId {
        let strides = self.strides(dims);
        self.input_strided(dtype, strides)
    }
    pub(crate) fn input_strided(&mut self, dtype: DType, strides: Vec<i64>) -> NodeId {
        let elements = self.elements(&strides);
        let param = self.param(dtype, elements, false);
        self.node(dtype, NodeKind::Load { param, index: Affine { strides, ..Affine::default() } })
    }
    /// Stores to a new output that has the dimensions `dims`.
    pub(crate) fn output(&mut self, value: NodeId, dims: &[usize]) -> u32 {
        let strides = self.strides(dims);
        self.output_strided(value, strides)
    }
    pub(crate) fn output_strided(&mut self, value: NodeId, strides: Vec<i64>) -> u32 {
        let elements = self.elements(&strides);
        let param = self.param(self.0.nodes[value].dtype, elements, true);
        self.0.stores.push(Store { param, index: Affine { strides, ..Affine::default() }, value });
        param
    }
    pub(crate) fn f32(&mut self, v: f32) -> NodeId {
        self.node(DType::F32, NodeKind::Constant(v.to_le_bytes().to_vec()))
    }
    pub(crate) fn unary(&mut self, op: UnaryOp, a: NodeId) -> NodeId {
        let dtype = if op == UnaryOp::IsFinite { DType::I1 } else { self.0.nodes[a].dtype };
        self.node(dtype, NodeKind::Unary(op, a))
    }
    pub(crate) fn binary(&mut self, op: BinaryOp, a: NodeId, b: NodeId) -> NodeId {
        self.node(self.0.nodes[a].dtype, NodeKind::Binary(op, a, b))
    }
    pub(crate) fn add(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.binary(BinaryOp::Add, a, b)
    }
    pub(crate) fn sub(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.binary(BinaryOp::Subtract, a, b)
    }
    pub(crate) fn mul(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.binary(BinaryOp::Multiply, a, b)
    }
    pub(crate) fn div(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.binary(BinaryOp::Divide, a, b)
    }
    pub(crate) fn compare(&mut self, direction: Direction, a: NodeId, b: NodeId) -> NodeId {
        self.node(DType::I1, NodeKind::Compare { direction, total: false, lhs: a, rhs: b })
    }
    pub(crate) fn select(&mut self, p: NodeId, a: NodeId, b: NodeId) -> NodeId {
        self.node(self.0.nodes[a].dtype, NodeKind::Select(p, a, b))
    }
    pub(crate) fn index(&mut self, d: u32, dtype: DType) -> NodeId {
        self.node(dtype, NodeKind::Index(d))
    }
    pub(crate) fn reduce(&mut self, reducer: Reducer, a: NodeId) -> NodeId {
        self.node(self.0.nodes[a].dtype, NodeKind::Reduce(reducer, a))
    }
}
