//! Kernels: what is computed between library calls, as one loop nest each.
//!
//! A [`Kernel`] iterates over a `domain`. Its nodes form a DAG of scalar computations at one point of the domain; a `Reduce` node folds a node over all
//! `reduced` dimensions, and what follows it varies over the other (parallel) dimensions only, as does what is loaded or stored with zero strides there.
//! So `softmax` is a domain `[rows, columns]` with `reduced = [1]`, two reductions and one store over the whole domain.
//! A store whose value varies over a reduced dimension is made for every point; any other store is made once per parallel point.
//! An output may be the same buffer as an input as [`Kernel::may_share`] says; nothing else may alias.
//! Kernels allocate nothing and have no other state; the same kernel is lowered for CPUs and GPUs.

use crate::dtype::DType;
use crate::entity_id;
use crate::id::PrimaryMap;
use crate::op::{BinaryOp, Direction, Reducer, UnaryOp};
use serde::{Deserialize, Serialize};

entity_id!(
    /// A node of a kernel.
    NodeId,
    "n"
);

/// An element index: `offset + Σ strides[d]·i_d + Σ scalar·coefficient`, in elements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Affine {
    /// Constant part.
    pub offset: i64,
    /// One stride per domain dimension.
    pub strides: Vec<i64>,
    /// Run-time scalars (by argument number) with coefficients.
    pub scalars: Vec<(u32, i64)>,
}

/// A buffer argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Param {
    /// Element type as stored.
    pub dtype: DType,
    /// Elements of the buffer: every index is below this.
    pub elements: u64,
    /// Written (else only read).
    pub output: bool,
}

/// What a node computes. The result's type is the node's `dtype`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodeKind {
    /// An element of a buffer.
    Load {
        /// Argument number.
        param: u32,
        /// Which element.
        index: Affine,
    },
    /// An element addressed by a computed index: `index + clamp(at, 0, limit)·stride`; `at` is an integer node.
    Gather {
        /// Argument number.
        param: u32,
        /// The rest of the index.
        index: Affine,
        /// The computed index.
        at: NodeId,
        /// Its stride in elements.
        stride: i64,
        /// Its largest allowed value.
        limit: u64,
    },
    /// A constant, as the bytes of one element of the node's type.
    Constant(Vec<u8>),
    /// The index along a domain dimension, in the node's (integer or float) type.
    Index(u32),
    /// A run-time scalar argument (`i64`), converted to the node's type.
    Scalar(u32),
    /// An elementwise function.
    Unary(UnaryOp, NodeId),
    /// An elementwise function.
    Binary(BinaryOp, NodeId, NodeId),
    /// A comparison (result `i1`).
    Compare {
        /// Direction.
        direction: Direction,
        /// Total order on floats.
        total: bool,
        /// Left.
        lhs: NodeId,
        /// Right.
        rhs: NodeId,
    },
    /// `predicate ? on_true : on_false`.
    Select(NodeId, NodeId, NodeId),
    /// Conversion to the node's type.
    Convert(NodeId),
    /// Reinterpretation as the node's type (same width).
    Bitcast(NodeId),
    /// Fold over all reduced dimensions. Sums in `bf16`/`f16` accumulate in `f32`.
    Reduce(Reducer, NodeId),
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Node {
    /// What it computes.
    pub kind: NodeKind,
    /// Its type.
    pub dtype: DType,
}

/// A store of a node's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Store {
    /// Argument number of an output.
    pub param: u32,
    /// Which element.
    pub index: Affine,
    /// The value.
    pub value: NodeId,
}

/// One loop nest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Extents of the iteration space, outermost first; never zero.
    pub domain: Vec<u64>,
    /// Dimensions folded by the reductions, ascending; empty when there is none.
    pub reduced: Vec<u32>,
    /// Buffer arguments.
    pub params: Vec<Param>,
    /// How many run-time scalars it takes.
    pub scalars: u32,
    /// Nodes, operands before users.
    pub nodes: PrimaryMap<NodeId, Node>,
    /// Stores.
    pub stores: Vec<Store>,
}

impl Kernel {
    /// Operand nodes of a node.
    pub fn operands(&self, node: NodeId) -> Vec<NodeId> {
        match &self.nodes[node].kind {
            NodeKind::Load { .. } | NodeKind::Constant(_) | NodeKind::Index(_) | NodeKind::Scalar(_) => vec![],
            NodeKind::Gather { at, .. } => vec![*at],
            NodeKind::Unary(_, a) | NodeKind::Convert(a) | NodeKind::Bitcast(a) | NodeKind::Reduce(_, a) => vec![*a],
            NodeKind::Binary(_, a, b) => vec![*a, *b],
            NodeKind::Compare { lhs, rhs, .. } => vec![*lhs, *rhs],
            NodeKind::Select(p, a, b) => vec![*p, *a, *b],
        }
    }
    /// For every node, the domain dimensions its value varies over, as a bit mask (the domain has fewer than 32 dimensions).
    pub fn varies(&self) -> PrimaryMap<NodeId, u32> {
        let reduced = self.reduced.iter().fold(0u32, |m, d| m | 1 << d);
        let affine = |index: &Affine| index.strides.iter().enumerate().fold(0u32, |m, (d, &s)| if s != 0 && self.domain[d] > 1 { m | 1 << d } else { m });
        let mut varies: PrimaryMap<NodeId, u32> = PrimaryMap::new();
        for (id, node) in self.nodes.iter() {
            let from_operands = self.operands(id).iter().fold(0, |m, &o| m | varies[o]);
            varies.push(match &node.kind {
                NodeKind::Load { index, .. } => affine(index),
                NodeKind::Gather { index, .. } => affine(index) | from_operands,
                NodeKind::Index(d) => 1 << d,
                NodeKind::Reduce(..) => from_operands & !reduced,
                _ => from_operands,
            });
        }
        varies
    }
    /// Whether `output` may be the buffer of `input`: both are accessed by one index map only, and each point, or each parallel point, has its own element
    /// there. So whoever computes a point may overwrite what only that point reads, in whatever order points are computed.
    pub fn may_share(&self, input: u32, output: u32) -> bool {
        let mut stores = self.stores.iter().filter(|s| s.param == output);
        let (Some(store), None) = (stores.next(), stores.next()) else { return false };
        let along = |d: usize| self.domain[d] == 1 || store.index.strides[d] != 0;
        let reduced = || self.reduced.iter().map(|&d| d as usize).filter(|&d| self.domain[d] > 1);
        let own = (0..self.domain.len()).filter(|d| !self.reduced.contains(&(*d as u32))).all(along) && (reduced().all(along) || !reduced().any(along));
        own && self.nodes.values().all(|n| match &n.kind {
            NodeKind::Load { param, index } => *param != input || *index == store.index,
            NodeKind::Gather { param, .. } => *param != input,
            _ => true,
        })
    }
    /// A hash of the canonical form: equal kernels are compiled once.
    pub fn hash(&self) -> [u8; 32] {
        let bytes = postcard::to_stdvec(self).expect("invariant: a kernel serializes");
        *blake3::hash(&bytes).as_bytes()
    }
    /// The name its code is found by in an object.
    pub fn symbol(&self) -> String {
        let hash = self.hash();
        hash[..8].iter().fold(String::from("k"), |s, b| s + &format!("{b:02x}"))
    }
}
