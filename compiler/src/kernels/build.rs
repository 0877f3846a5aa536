//! From a unit to a [`Kernel`]: values become nodes on demand, at an index map from the kernel's domain.
//!
//! A value of the unit itself has one node. A stored value becomes a load; a view changes the map; anything else is recomputed at the map that is asked.
//! Dimensions that every index walks together are merged, so that the code generator sees long inner loops.

use super::classify::{Class, Classes};
use super::units::{Unit, UnitKind, alignment};
use super::view::{self, Expr, IndexMap};
use crate::spmd::local::LocalGraph;
use ir::kernel::{Affine, Kernel, Node, NodeId, NodeKind, Param, Store};
use ir::op::{BinaryOp, OpKind};
use ir::program::Scalar;
use ir::{DType, ValueId};
use rustc_hash::FxHashMap;

/// A kernel with its arguments.
pub struct Built {
    /// The loop nest.
    pub kernel: Kernel,
    /// The value behind each parameter: inputs, then outputs.
    pub arguments: Vec<Argument>,
    /// The run-time scalars.
    pub scalars: Vec<Scalar>,
}

/// What a kernel's parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// A stored value is read.
    Read(ValueId),
    /// A stored value is written.
    Write(ValueId),
    /// The accumulator behind a total is read and written.
    Accumulator(ValueId),
}

struct Builder<'a> {
    local: &'a LocalGraph,
    classes: &'a Classes,
    domain: Vec<u64>,
    kernel: Kernel,
    arguments: Vec<Argument>,
    scalars: Vec<Scalar>,
    /// Nodes of values at maps.
    memo: FxHashMap<(ValueId, IndexMap), NodeId>,
    /// Values computed here, with their own map.
    own: FxHashMap<ValueId, (IndexMap, NodeId)>,
    /// Values with memory that may be read.
    stored: &'a dyn Fn(ValueId) -> bool,
}

/// Builds the kernel of a unit. `stored` says whether a value that is not a leaf has memory (a stored view).
pub fn kernel(local: &LocalGraph, classes: &Classes, unit: &Unit, stored: &dyn Fn(ValueId) -> bool) -> Built {
    let (domain, reduced) = match &unit.kind {
        UnitKind::Kernel { domain, reduced } => (domain.clone(), reduced.clone().unwrap_or_default()),
        UnitKind::Store(v) => (store_space(local, classes, *v).1, vec![]),
        UnitKind::Call(_) => unreachable!("invariant: library calls are no kernels"),
    };
    let mut b = Builder {
        local,
        classes,
        kernel: Kernel { domain: domain.clone(), reduced: reduced.iter().map(|&d| d as u32).collect(), ..Kernel::default() },
        domain,
        arguments: vec![],
        scalars: vec![],
        memo: FxHashMap::default(),
        own: FxHashMap::default(),
        stored,
    };
    let mut stores: Vec<(Argument, ValueId, IndexMap, NodeId)> = Vec::new();
    match &unit.kind {
        UnitKind::Store(v) => {
            let (root, space) = store_space(local, classes, *v);
            let map = view::identity(space.len());
            let node = b.value_at(root, &map);
            // The memory of the stored value is row-major in either shape.
            stores.push((Argument::Write(*v), root, map, node));
        }
        _ => {
            for &id in &unit.ops {
                let result = local.graph.ops[id].results[0];
                let shape = &local.graph.ty(result).shape;
                let place = alignment(shape, &b.domain, Some(&reduced)).expect("invariant: a fused value lies in its kernel's domain");
                let map: IndexMap = place.iter().map(|&d| Expr::dim(d)).collect();
                let node = b.compute(id, &map);
                b.own.insert(result, (map.clone(), node));
                if matches!(local.graph.ops[id].kind, OpKind::AllReduce { .. }) {
                    stores.push((Argument::Accumulator(result), result, map, node));
                } else if unit.writes.contains(&result) {
                    stores.push((Argument::Write(result), result, map, node));
                }
            }
        }
    }
    for (argument, value, map, node) in stores {
        let index = b.affine(&map, value);
        let param = b.param(argument, value, true);
        b.kernel.stores.push(Store { param, index, value: node });
    }
    b.finish()
}

/// The value and iteration space by which a view is stored: its own shape, or that of the operand of a reshape that is not affine.
pub(super) fn store_space(local: &LocalGraph, classes: &Classes, v: ValueId) -> (ValueId, Vec<u64>) {
    let shape = local.graph.ty(v).shape.clone();
    let mut accesses = Vec::new();
    super::units::accesses(local, classes, v, &view::identity(shape.len()), &shape, &mut accesses);
    match local.graph.def_op(v) {
        Some(op) if accesses.iter().any(|a| a.1.is_none()) && matches!(local.graph.ops[op].kind, OpKind::Reshape) => {
            store_space(local, classes, local.graph.ops[op].operands[0])
        }
        _ => (v, shape),
    }
}

impl Builder<'_> {
    fn node(&mut self, kind: NodeKind, dtype: DType) -> NodeId {
        self.kernel.nodes.push(Node { kind, dtype })
    }

    fn param(&mut self, argument: Argument, v: ValueId, output: bool) -> u32 {
        if let Some(i) = self.arguments.iter().position(|a| *a == argument) {
            self.kernel.params[i].output |= output;
            return i as u32;
        }
        let ty = self.local.graph.ty(v);
        self.arguments.push(argument);
        self.kernel.params.push(Param { dtype: ty.dtype, elements: ty.elements(), output });
        self.arguments.len() as u32 - 1
    }

    fn scalar(&mut self, scalar: Scalar) -> u32 {
        match self.scalars.iter().position(|s| *s == scalar) {
            Some(i) => i as u32,
            None => {
                self.scalars.push(scalar);
                self.scalars.len() as u32 - 1
            }
        }
    }

    fn affine(&mut self, map: &IndexMap, v: ValueId) -> Affine {
        self.flat_affine(view::linear(map, &self.local.graph.ty(v).shape))
    }

    fn load(&mut self, argument: Argument, v: ValueId, map: &IndexMap) -> NodeId {
        let index = self.affine(map, v);
        let param = self.param(argument, v, false);
        let dtype = self.local.graph.ty(v).dtype;
        self.node(NodeKind::Load { param, index }, dtype)
    }

    /// The node of an expression as a number of type `dtype`.
    fn index_node(&mut self, e: &Expr, dtype: DType) -> NodeId {
        let constant = |b: &mut Self, x: i64| b.node(NodeKind::Constant(ir::literal::encode(dtype, x as f64)), dtype);
        let mut sum: Option<NodeId> = None;
        let mut parts: Vec<(NodeId, i64)> = e.terms.iter().map(|&(d, c)| (self.kernel.nodes.push(Node { kind: NodeKind::Index(d), dtype }), c)).collect();
        if !e.coordinates.is_empty() {
            let s = self.scalar(Scalar { constant: 0, axes: e.coordinates.clone() });
            parts.push((self.node(NodeKind::Scalar(s), dtype), 1));
        }
        for (mut n, c) in parts {
            if c != 1 {
                let k = constant(self, c);
                n = self.node(NodeKind::Binary(BinaryOp::Multiply, n, k), dtype);
            }
            sum = Some(match sum {
                None => n,
                Some(s) => self.node(NodeKind::Binary(BinaryOp::Add, s, n), dtype),
            });
        }
        match sum {
            None => constant(self, e.offset),
            Some(s) if e.offset != 0 => {
                let k = constant(self, e.offset);
                self.node(NodeKind::Binary(BinaryOp::Add, s, k), dtype)
            }
            Some(s) => s,
        }
    }

    /// The node of a value at a map.
    fn value_at(&mut self, v: ValueId, map: &IndexMap) -> NodeId {
        if let Some((own, node)) = self.own.get(&v) {
            debug_assert_eq!(own, map, "invariant: a kernel reads its own values in place");
            return *node;
        }
        if let Some(&node) = self.memo.get(&(v, map.clone())) {
            return node;
        }
        let node = if self.classes.is_leaf(self.local, v) {
            self.load(Argument::Read(v), v, map)
        } else {
            let op = self.local.graph.def_op(v).expect("invariant: an input is a leaf");
            self.derived(op, v, map)
        };
        self.memo.insert((v, map.clone()), node);
        node
    }

    /// A view or a recomputed op at a map of its result.
    fn derived(&mut self, op: ir::OpId, v: ValueId, map: &IndexMap) -> NodeId {
        let local = self.local;
        let o = &local.graph.ops[op];
        let dtype = local.graph.ty(v).dtype;
        if self.classes.of(op) == Class::Recomputed {
            return self.compute(op, map);
        }
        match &o.kind {
            OpKind::Constant(l) => {
                let bytes = l.splat_bytes().expect("invariant: only splats are views").to_vec();
                self.node(NodeKind::Constant(bytes), dtype)
            }
            OpKind::Iota { dim } => self.index_node(&map[*dim], dtype),
            OpKind::AxisIndex { axes } => {
                let e = coordinate(axes, &local.mesh);
                self.index_node(&e, dtype)
            }
            _ => match view::through(&local.graph, &local.mesh, op, map, &self.domain) {
                Some(inner) => self.value_at(o.operands[0], &inner),
                // A reshape that is not affine: its operand is in memory, row-major.
                None => {
                    let base = super::units::memory_behind(local, self.classes, v).expect("invariant: only a reshape has no affine map");
                    debug_assert!(self.classes.is_leaf(local, base) || (self.stored)(base), "invariant: the operand of a reshape that is not affine is stored");
                    let e = view::linear(map, &local.graph.ty(v).shape);
                    let flat = self.flat_affine(e);
                    let param = self.param(Argument::Read(base), base, false);
                    self.node(NodeKind::Load { param, index: flat }, dtype)
                }
            },
        }
    }

    /// An element index as the kernel's affine form.
    fn flat_affine(&mut self, e: Expr) -> Affine {
        let mut strides = vec![0; self.domain.len()];
        for &(d, c) in &e.terms {
            strides[d as usize] = c;
        }
        let scalars = if e.coordinates.is_empty() { vec![] } else { vec![(self.scalar(Scalar { constant: 0, axes: e.coordinates }), 1)] };
        Affine { offset: e.offset, strides, scalars }
    }

    /// The node of an op's result; operands are read at the map of the result (of the whole domain for a reduction).
    fn compute(&mut self, id: ir::OpId, map: &IndexMap) -> NodeId {
        let local = self.local;
        let o = &local.graph.ops[id];
        let dtype = local.graph.ty(o.results[0]).dtype;
        let operand = |b: &mut Self, i: usize| {
            let v = o.operands[i];
            let scalar = local.graph.ty(v).rank() == 0;
            b.value_at(v, if scalar { const { &Vec::new() } } else { map })
        };
        match &o.kind {
            OpKind::Unary(u) => {
                let a = operand(self, 0);
                self.node(NodeKind::Unary(*u, a), dtype)
            }
            OpKind::Binary(f) => {
                let (a, b) = (operand(self, 0), operand(self, 1));
                self.node(NodeKind::Binary(*f, a, b), dtype)
            }
            OpKind::Compare { direction, total } => {
                let (lhs, rhs) = (operand(self, 0), operand(self, 1));
                self.node(NodeKind::Compare { direction: *direction, total: *total, lhs, rhs }, dtype)
            }
            OpKind::Select => {
                let (p, a, b) = (operand(self, 0), operand(self, 1), operand(self, 2));
                self.node(NodeKind::Select(p, a, b), dtype)
            }
            OpKind::Clamp => {
                let (low, x, high) = (operand(self, 0), operand(self, 1), operand(self, 2));
                let above = self.node(NodeKind::Binary(BinaryOp::Maximum, low, x), dtype);
                self.node(NodeKind::Binary(BinaryOp::Minimum, above, high), dtype)
            }
            OpKind::Convert => {
                let a = operand(self, 0);
                self.node(NodeKind::Convert(a), dtype)
            }
            OpKind::BitcastConvert => {
                let a = operand(self, 0);
                self.node(NodeKind::Bitcast(a), dtype)
            }
            OpKind::Reduce { reducer, .. } => {
                let whole = view::identity(self.domain.len());
                let x = self.value_at(o.operands[0], &whole);
                let init = o.operands[1];
                let folded = self.node(NodeKind::Reduce(*reducer, x), dtype);
                let neutral = local.graph.constant(init).and_then(|l| l.splat_value()).is_some_and(|x| reducer.neutral(dtype) == Some(x));
                match (neutral, reducer.binary()) {
                    (false, Some(f)) => {
                        let start = self.value_at(init, &Vec::new());
                        self.node(NodeKind::Binary(f, start, folded), dtype)
                    }
                    _ => folded,
                }
            }
            OpKind::AllReduce { .. } => {
                let x = operand(self, 0);
                if local.microbatches == 1 {
                    return x;
                }
                let total = self.load(Argument::Accumulator(o.results[0]), o.results[0], map);
                self.node(NodeKind::Binary(BinaryOp::Add, total, x), dtype)
            }
            kind => unreachable!("invariant: {kind:?} is not fused"),
        }
    }

    /// Orders parameters (inputs first) and merges dimensions.
    fn finish(self) -> Built {
        let Builder { mut kernel, arguments, scalars, .. } = self;
        let order: Vec<usize> =
            (0..arguments.len()).filter(|&i| !kernel.params[i].output).chain((0..arguments.len()).filter(|&i| kernel.params[i].output)).collect();
        let mut place = vec![0u32; order.len()];
        order.iter().enumerate().for_each(|(new, &old)| place[old] = new as u32);
        kernel.params = order.iter().map(|&i| kernel.params[i].clone()).collect();
        for node in kernel.nodes.values_mut() {
            if let NodeKind::Load { param, .. } | NodeKind::Gather { param, .. } = &mut node.kind {
                *param = place[*param as usize];
            }
        }
        kernel.stores.iter_mut().for_each(|s| s.param = place[s.param as usize]);
        kernel.scalars = scalars.len() as u32;
        super::coalesce::run(&mut kernel);
        Built { kernel, arguments: order.iter().map(|&i| arguments[i]).collect(), scalars }
    }
}

/// The linear coordinate over axes as an expression.
fn coordinate(axes: &[ir::AxisId], mesh: &ir::Mesh) -> Expr {
    let mut step = 1;
    let mut coordinates = Vec::new();
    for &axis in axes.iter().rev() {
        coordinates.push((axis, step));
        if axis != ir::AxisId::MICROBATCH {
            step *= i64::from(mesh.size(axis));
        }
    }
    coordinates.sort();
    Expr { coordinates, ..Expr::default() }
}
