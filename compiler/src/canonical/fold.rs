//! Folds constants, removes what does nothing, merges what is computed twice, and drops what nothing reads.
//!
//! Every rewrite is exact in IEEE arithmetic, with one stated exception: a reduction over dimensions of size 1 becomes a reshape, so a sum of a single
//! −0 stays −0. Constants end as splats of their full shape, so that a broadcast of a constant is a constant.
//! Barriers are kept here, so that what they keep apart is not merged; [`forward_barriers`] removes them at the end.

use super::{algebra, movement, rewrite::Rewriter};
use ir::graph::Graph;
use ir::literal::{Data, Literal};
use ir::{OpId, OpKind, SecondaryMap, TensorType, ValueId};
use rustc_hash::FxHashMap;

/// The folded graph.
pub fn run(graph: &Graph) -> Graph {
    let live = live_ops(graph);
    let mut folder = Folder::new(Rewriter::new(graph));
    for (id, op) in graph.ops.iter() {
        if !live[id] {
            continue;
        }
        folder.rewriter.at(id);
        if op.results.len() == 1 && op.regions.is_empty() && !matches!(op.kind, OpKind::Barrier) {
            let operands = folder.rewriter.operands(op);
            let new = folder.emit(op.kind.clone(), operands, graph.ty(op.results[0]).clone());
            folder.rewriter.replace(op.results[0], new);
        } else {
            folder.rewriter.copy(id);
        }
    }
    sweep(&folder.rewriter.finish())
}

/// The graph without the ops that no output depends on.
pub fn sweep(graph: &Graph) -> Graph {
    let live = live_ops(graph);
    let mut rewriter = Rewriter::new(graph);
    for id in graph.ops.keys().filter(|&id| live[id]) {
        rewriter.copy(id);
    }
    rewriter.finish()
}

/// The graph with every barrier's results replaced by its operands.
pub fn forward_barriers(graph: &Graph) -> Graph {
    let mut rewriter = Rewriter::new(graph);
    for (id, op) in graph.ops.iter() {
        if matches!(op.kind, OpKind::Barrier) {
            for (&result, &operand) in op.results.iter().zip(&op.operands) {
                let new = rewriter.value(operand);
                rewriter.replace(result, new);
            }
        } else {
            rewriter.copy(id);
        }
    }
    rewriter.finish()
}

/// The ops that some output depends on.
pub fn live_ops(graph: &Graph) -> SecondaryMap<OpId, bool> {
    let mut live: SecondaryMap<OpId, bool> = SecondaryMap::new();
    let mut stack: Vec<OpId> = graph.outputs.iter().filter_map(|&v| graph.def_op(v)).collect();
    while let Some(op) = stack.pop() {
        if !live[op] {
            live[op] = true;
            stack.extend(graph.ops[op].operands.iter().filter_map(|&v| graph.def_op(v)));
        }
    }
    live
}

/// Emits ops into a new graph, simplified and merged with equal ones.
pub(crate) struct Folder<'a> {
    pub(crate) rewriter: Rewriter<'a>,
    known: FxHashMap<(OpKind, Vec<ValueId>, TensorType), ValueId>,
}

impl<'a> Folder<'a> {
    /// Emits into `rewriter`.
    pub(crate) fn new(rewriter: Rewriter<'a>) -> Folder<'a> {
        Folder { rewriter, known: FxHashMap::default() }
    }

    /// The value of an op on new operands: an existing one, a simpler one, or that of a new op.
    pub(crate) fn emit(&mut self, kind: OpKind, operands: Vec<ValueId>, ty: TensorType) -> ValueId {
        if let Some(v) = self.simplify(&kind, &operands, &ty) {
            return v;
        }
        let key = (kind, operands, ty);
        if let Some(&v) = self.known.get(&key) {
            return v;
        }
        let (kind, operands, ty) = key.clone();
        let v = self.rewriter.emit(kind, operands, ty);
        self.known.insert(key, v);
        v
    }

    /// A constant.
    pub(crate) fn constant(&mut self, literal: Literal) -> ValueId {
        let literal = normalized(literal);
        let ty = literal.ty.clone();
        self.emit(OpKind::Constant(literal), Vec::new(), ty)
    }

    /// The type of a new value.
    pub(crate) fn ty(&self, v: ValueId) -> &TensorType {
        self.rewriter.ty(v)
    }

    /// The op that defines a new value: its kind and operands.
    pub(crate) fn def(&self, v: ValueId) -> Option<(&OpKind, &[ValueId])> {
        let op = &self.rewriter.graph.ops[self.rewriter.graph.def_op(v)?];
        Some((&op.kind, &op.operands))
    }

    /// The constant that a new value is.
    pub(crate) fn literal(&self, v: ValueId) -> Option<&Literal> {
        self.rewriter.graph.constant(v)
    }

    /// The number that every element of a new value is.
    pub(crate) fn splat(&self, v: ValueId) -> Option<f64> {
        self.literal(v)?.splat_value()
    }

    fn simplify(&mut self, kind: &OpKind, operands: &[ValueId], ty: &TensorType) -> Option<ValueId> {
        if let OpKind::Constant(literal) = kind {
            let normal = normalized(literal.clone());
            return if normal == *literal { None } else { Some(self.constant(normal)) };
        }
        if ty.elements() == 0 {
            return Some(self.constant(Literal::splat(ty.clone(), 0.0)));
        }
        if let Some(v) = self.of_nothing(kind, operands, ty) {
            return Some(v);
        }
        algebra::simplify(self, kind, operands, ty).or_else(|| movement::simplify(self, kind, operands, ty))
    }
}

impl Folder<'_> {
    /// What an op with elements makes of an operand without any: kernels and library calls never see one.
    fn of_nothing(&mut self, kind: &OpKind, operands: &[ValueId], ty: &TensorType) -> Option<ValueId> {
        let empty = |f: &Self, i: usize| operands.get(i).is_some_and(|&v| f.ty(v).elements() == 0);
        match kind {
            OpKind::Dot(_) | OpKind::Convolution(_) if empty(self, 0) || empty(self, 1) => Some(self.constant(Literal::splat(ty.clone(), 0.0))),
            OpKind::Reduce { .. } if operands.len() == 2 && empty(self, 0) => Some(self.repeated(operands[1], ty)),
            OpKind::Pad { .. } if empty(self, 0) => Some(self.repeated(operands[1], ty)),
            OpKind::Scatter { .. } if operands.len() == 3 && empty(self, 2) => Some(operands[0]),
            OpKind::DynamicUpdateSlice if empty(self, 1) => Some(operands[0]),
            _ => None,
        }
    }

    /// A scalar as every element of a tensor.
    fn repeated(&mut self, scalar: ValueId, ty: &TensorType) -> ValueId {
        if ty.rank() == 0 { scalar } else { self.emit(OpKind::Broadcast { dims: vec![] }, vec![scalar], ty.clone()) }
    }
}

/// A constant of equal elements as a splat.
fn normalized(literal: Literal) -> Literal {
    let Data::Dense(bytes) = &literal.data else { return literal };
    let width = literal.ty.dtype.bytes() as usize;
    match bytes.chunks_exact(width).next() {
        Some(first) if bytes.chunks_exact(width).all(|e| e == first) => Literal { data: Data::Splat(first.to_vec()), ty: literal.ty },
        _ => literal,
    }
}
