//! Kernels compute the ops they were made of: random graphs, cut into units and kernels, each kernel evaluated point by point on buffers of its own,
//! library calls by the interpreter, against the interpreter on the whole graph. This finds wrong index maps, wrong fusion and wrong order.

#[path = "../mlir/tests/kernels/reference.rs"]
#[allow(dead_code, reason = "shared with the code generator's tests")]
mod reference;
mod sharded;

use compiler::kernels::build::{self, Argument};
use compiler::kernels::classify::{Class, Classes};
use compiler::kernels::matmul;
use compiler::kernels::units::{self, Unit, UnitKind};
use compiler::spmd::local::LocalGraph;
use ir::interp::{Precision, Tensor, run};
use ir::op::OpKind;
use ir::program::{Phase, StageId};
use ir::{Graph, Mesh, Module, ValueId};
use proptest::prelude::*;
use sharded::drawn::{Draw, Drawn};
use sharded::{Random, argument};
use std::collections::{BTreeMap, BTreeSet};

/// What lies in memory while the units run.
struct Memory<'a> {
    local: &'a LocalGraph,
    classes: &'a Classes,
    values: BTreeMap<ValueId, Tensor>,
}

impl Memory<'_> {
    /// What is in memory: a reshape of something stored lies in the same place.
    fn held(&self, v: ValueId) -> Option<Tensor> {
        if let Some(x) = self.values.get(&v) {
            return Some(x.clone());
        }
        let op = &self.local.graph.ops[self.local.graph.def_op(v)?];
        let inner = (op.kind == OpKind::Reshape).then(|| self.held(op.operands[0])).flatten()?;
        Tensor::from_bytes(self.local.graph.ty(v).clone(), &inner.to_bytes())
    }

    /// A value that a call reads or makes: from memory, or through what the call does itself.
    fn value(&self, v: ValueId, unit: &Unit) -> Result<Tensor, String> {
        if let Some(x) = self.held(v) {
            return Ok(x);
        }
        let graph = &self.local.graph;
        let id = graph.def_op(v).ok_or_else(|| format!("{v} was never stored"))?;
        let own = unit.ops.contains(&id) || matches!(unit.kind, UnitKind::Call(op) if op == id || self.classes.written_by(op) == Some(id));
        if !own && !matches!(self.classes.of(id), Class::View | Class::Recomputed) {
            return Err(format!("{v} is read by {:?} before it is stored", unit.kind));
        }
        let op = &graph.ops[id];
        let operands = op.operands.iter().map(|&o| self.value(o, unit)).collect::<Result<Vec<_>, _>>()?;
        let mut one = Graph::new("main");
        let inputs = op.operands.iter().map(|&o| one.add_input(graph.ty(o).clone(), "")).collect();
        one.locs.push(ir::graph::LocInfo::default());
        let types = op.results.iter().map(|&r| graph.ty(r).clone()).collect();
        let new = one.add_op(op.kind.clone(), inputs, types, ir::Loc(0), &[]);
        one.ops[new].regions.clone_from(&op.regions);
        one.outputs = one.ops[new].results.clone();
        let results = run(&Module::default(), &one, &operands, Precision::AsTyped).map_err(|e| e.to_string())?;
        Ok(results[op.results.iter().position(|&r| r == v).expect("a result of its op")].clone())
    }

    fn run(&mut self, unit: &Unit, stored: &BTreeSet<ValueId>) -> Result<(), String> {
        if let UnitKind::Call(_) = unit.kind {
            let made = unit.writes.iter().map(|&v| Ok((v, self.value(v, unit)?))).collect::<Result<Vec<_>, String>>()?;
            self.values.extend(made);
            return Ok(());
        }
        let graph = &self.local.graph;
        let built = build::kernel(self.local, self.classes, unit, &|v| stored.contains(&v));
        let mut buffers = Vec::new();
        for argument in &built.arguments {
            buffers.push(match *argument {
                Argument::Read(v) => self.held(v).ok_or_else(|| format!("{v} is read by {:?} before it is stored", unit.ops))?.to_bytes(),
                Argument::Write(v) | Argument::Accumulator(v) => vec![0xff; graph.ty(v).bytes() as usize],
            });
        }
        reference::run(&built.kernel, &mut buffers, &vec![0; built.scalars.len()]);
        for (argument, bytes) in built.arguments.iter().zip(buffers) {
            if let Argument::Write(v) = *argument {
                self.values.insert(v, Tensor::from_bytes(graph.ty(v).clone(), &bytes).expect("the buffer has its size"));
            }
        }
        Ok(())
    }
}

fn check(graph: Graph, seed: u64) -> Result<(), String> {
    let count = graph.ops.len();
    let (stage, mesh) = (StageId(0), Mesh::new(&[1]));
    let (phase, depth) = (vec![Phase::Forward; count], vec![0; count]);
    let mut local = LocalGraph { graph, stage, mesh, first_rank: 0, microbatches: 1, in_flight: 1, phase, depth, inputs: vec![], outputs: vec![] };
    let mut random = Random::new(seed);
    let arguments: Vec<Tensor> = local.graph.inputs.iter().map(|&v| argument(local.graph.ty(v), &mut random)).collect();
    let expected = run(&Module::default(), &local.graph, &arguments, Precision::AsTyped).map_err(|e| e.to_string())?;
    matmul::normalise(&mut local);
    let classes = Classes::new(&local);
    let units = units::units(&local, &classes);
    let stored: BTreeSet<ValueId> = local.graph.inputs.iter().copied().chain(units.iter().flat_map(|u| u.writes.iter().copied())).collect();
    let values = local.graph.inputs.iter().copied().zip(arguments).collect();
    let mut memory = Memory { local: &local, classes: &classes, values };
    for unit in &units {
        memory.run(unit, &stored)?;
    }
    for (i, (v, want)) in local.graph.outputs.iter().zip(&expected).enumerate() {
        let got = memory.held(*v).ok_or_else(|| format!("output {i} ({v}) is not stored"))?.to_f64s();
        let want = want.to_f64s();
        let scale = want.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
        if want.iter().any(|x| x.is_nan()) || scale > 1e6 {
            continue;
        }
        for (k, (a, b)) in want.iter().zip(&got).enumerate() {
            // A conversion to bf16 and back rounds to 1/256.
            if (a - b).abs() > 2e-2 * scale && !(a.is_nan() && b.is_nan()) {
                return Err(format!("element {k} of output {i} ({v}) is {b}, not {a}"));
            }
        }
    }
    Ok(())
}

/// Reshapes that are no index map under a reversal, though together they would be under none.
#[test]
fn what_lies_behind_a_reshape_that_is_no_map_is_stored() {
    use ir::op::UnaryOp;
    use ir::{DType, Loc, TensorType};
    let ty = |shape: &[u64]| TensorType::new(DType::F32, shape);
    let mut g = Graph::new("main");
    let x = g.add_input(ty(&[6, 4]), "%arg0");
    g.locs.push(ir::graph::LocInfo::default());
    let t = g.add(OpKind::Transpose { perm: vec![1, 0] }, vec![x], ty(&[4, 6]), Loc(0));
    let flat = g.add(OpKind::Reshape, vec![t], ty(&[24]), Loc(0));
    let again = g.add(OpKind::Reshape, vec![flat], ty(&[4, 6]), Loc(0));
    let reversed = g.add(OpKind::Reverse { dims: vec![1] }, vec![again], ty(&[4, 6]), Loc(0));
    let y = g.add(OpKind::Unary(UnaryOp::Tanh), vec![reversed], ty(&[4, 6]), Loc(0));
    let z = g.add(OpKind::Unary(UnaryOp::Exponential), vec![again], ty(&[4, 6]), Loc(0));
    g.outputs = vec![y, z, reversed];
    check(g, 3).unwrap_or_else(|e| panic!("{e}"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, max_shrink_iters: 3000, ..ProptestConfig::default() })]

    #[test]
    fn units_compute_the_graph(draws in prop::collection::vec(any::<Draw>(), 1..16), seed in any::<u64>()) {
        let mut drawn = Drawn::new();
        draws.into_iter().for_each(|d| drawn.add(d));
        let graph = drawn.finish();
        let empty = graph.values.values().any(|v| v.ty.elements() == 0);
        let barrier = graph.ops.values().any(|o| o.kind == OpKind::Barrier);
        if empty || barrier { return Ok(()) }
        let text = ir::text::print_graph(&graph);
        let result = check(graph, seed);
        prop_assert!(result.is_ok(), "{}\n{text}", result.unwrap_err());
    }
}
