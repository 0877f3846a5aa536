//! Recomputation: the same results bit for bit, of a full layer only what enters it is kept, and selective repeats no product with parameters.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "tests say what they leave out")]

#[allow(dead_code, reason = "each test uses its share")]
mod steps;

use compiler::batch::{phases, split, state::Overrides};
use compiler::canonical;
use compiler::kernels::stored::stored_values;
use compiler::layers::{self, Layers};
use compiler::recompute::Recomputation;
use compiler::shard::groups::{is_view, leaves};
use compiler::step::StepGraph;
use ir::interp::{Precision, Tensor, run};
use ir::op::OpKind;
use ir::plan::Recompute;
use ir::program::{BufferKind, Phase};
use ir::{Graph, Module, SecondaryMap, ValueId};
use std::collections::BTreeSet;
use steps::{Step, bundled, shared, viewed};

struct Planned {
    step: StepGraph,
    stored: SecondaryMap<ValueId, bool>,
    layers: Layers,
    interface: ir::plan::Interface,
}

fn planned(step: &Step, microbatches: u32) -> Planned {
    let canonical = canonical::run(&step.module, &Overrides::default()).expect("canonical");
    let analysis = phases::analyse(&canonical.graph, &canonical.interface);
    let step = StepGraph::new(&split::run(&canonical.graph, &analysis, microbatches), &canonical.interface);
    let stored = stored_values(&step);
    let layers = layers::layers(&step, &stored);
    Planned { step, stored, layers, interface: canonical.interface }
}

/// What a step of one microbatch computes: accumulations are identities.
fn evaluate(step: &StepGraph, arguments: &[Tensor]) -> Vec<Tensor> {
    let mut graph: Graph = step.graph.clone();
    for op in graph.ops.values_mut().filter(|op| matches!(op.kind, OpKind::AllReduce { .. })) {
        op.kind = OpKind::Barrier;
    }
    let inputs: Vec<Tensor> = step.inputs.iter().zip(&graph.inputs).map(|(i, &v)| viewed(&arguments[i.argument as usize], &graph.ty(v).shape)).collect();
    run(&Module::default(), &graph, &inputs, Precision::AsTyped).expect("the step runs")
}

/// Forward values that the backward reads from the forward itself, through views.
fn kept(step: &StepGraph) -> BTreeSet<ValueId> {
    let graph = &step.graph;
    let mut found = BTreeSet::new();
    for (id, op) in graph.ops.iter().filter(|(id, _)| step.phase_of(*id) == Phase::Backward && !is_view(graph, *id)) {
        let _ = id;
        op.operands.iter().for_each(|&v| leaves(graph, v, &mut found));
    }
    found.retain(|&v| graph.def_op(v).is_some_and(|d| step.phase_of(d) == Phase::Forward));
    found
}

fn bytes(step: &StepGraph, values: &BTreeSet<ValueId>) -> u64 {
    values.iter().map(|&v| step.graph.ty(v).bytes()).sum()
}

fn check(step: &Step) {
    let p = planned(step, 1);
    let recomputation = Recomputation::new(&p.step, &p.layers, &p.stored);
    let count = p.layers.layers.len();
    let arguments = step.arguments();
    let expected = evaluate(&p.step, &arguments);
    let mixed = |seed: usize| (0..count).map(|l| Recompute::ALL[(l * 7 + seed * 5 + l * seed) % 3]).collect::<Vec<_>>();
    for modes in [vec![Recompute::None; count], vec![Recompute::Selective; count], vec![Recompute::Full; count], mixed(0), mixed(1), mixed(2)] {
        let (again, layers) = recomputation.apply(&modes);
        assert_eq!(ir::verify::verify(&again.graph), Ok(()));
        let sizes = [again.phase.len(), again.recomputed.len(), again.lazy.len(), layers.of.len(), layers.everywhere.len()];
        assert!(sizes.iter().all(|&n| n == again.graph.ops.len()));
        assert_eq!((&again.inputs, &again.outputs), (&p.step.inputs, &p.step.outputs));
        assert_eq!(layers.layers.iter().map(|l| l.recompute).collect::<Vec<_>>(), modes);
        for (i, (a, b)) in expected.iter().zip(evaluate(&again, &arguments)).enumerate() {
            assert_eq!(a.to_bytes(), b.to_bytes(), "{} {modes:?}: result {i}", step.name);
        }
        // Clones are of the forward's ops, read kept values and each other, and are read by the backward of their layer.
        for (id, op) in again.graph.ops.iter().filter(|(id, _)| again.recomputed[id.0 as usize] && !is_view(&again.graph, *id)) {
            assert_eq!(again.phase_of(id), Phase::Backward);
            assert_ne!(
                modes[layers.of[id.0 as usize] as usize],
                Recompute::None,
                "{} is repeated in a layer that keeps all",
                again.graph.display_name(op.results[0])
            );
        }
        let users = again.graph.users();
        assert!(again.graph.ops.iter().all(|(id, op)| !again.recomputed[id.0 as usize] || op.results.iter().any(|&v| !users[v].is_empty())), "a clone is read");
    }
    assert_eq!(recomputation.apply(&[]).0.graph, p.step.graph);
}

#[test]
fn every_mode_computes_the_same_bits() {
    for name in ["mlp", "gpt_tiny", "gpt_6heads"] {
        check(&bundled(name));
    }
    if let Some(step) = shared("moe") {
        check(&step);
    }
}

#[test]
fn of_a_full_layer_only_what_enters_it_is_kept() {
    for name in ["mlp", "gpt_tiny", "gpt_6heads"] {
        let p = planned(&bundled(name), 2);
        let (full, layers) = Recomputation::new(&p.step, &p.layers, &p.stored).apply(&vec![Recompute::Full; p.layers.layers.len()]);
        let graph = &full.graph;
        for v in kept(&full) {
            let made = layers.of[graph.def_op(v).expect("a result").0 as usize];
            let read_elsewhere = graph.ops.iter().any(|(id, op)| {
                let mut of = BTreeSet::new();
                op.operands.iter().for_each(|&o| leaves(graph, o, &mut of));
                !is_view(graph, id) && layers.of[id.0 as usize] != made && of.contains(&v)
            });
            assert!(read_elsewhere, "{name}: {} does not enter a layer and is kept", graph.display_name(v));
        }
        assert!(bytes(&full, &kept(&full)) < bytes(&p.step, &kept(&p.step)) || name == "mlp", "{name}");
    }
}

#[test]
fn selective_drops_what_is_quadratic_and_repeats_no_product_with_parameters() {
    for step in [Some(bundled("gpt_6heads")), shared("gpt_4l")].into_iter().flatten() {
        let p = planned(&step, 2);
        let (selective, _) = Recomputation::new(&p.step, &p.layers, &p.stored).apply(&vec![Recompute::Selective; p.layers.layers.len()]);
        let graph = &selective.graph;
        let sequence = p.step.graph.ty(p.step.graph.inputs[p.step.inputs.iter().position(|i| i.kind == BufferKind::Data).expect("data")]).shape[1];
        let quadratic = |v: &ValueId| graph.ty(*v).shape.iter().filter(|&&n| n == sequence).count() >= 2 && graph.ty(*v).rank() >= 3;
        let left: Vec<String> = kept(&selective).iter().filter(|v| quadratic(v)).map(|&v| graph.display_name(v)).collect();
        assert!(left.is_empty(), "{}: {left:?} are quadratic in the sequence and kept", step.name);
        let parameters: BTreeSet<ValueId> = p.step.inputs.iter().zip(&graph.inputs).filter(|(i, _)| i.kind == BufferKind::Parameter).map(|(_, &v)| v).collect();
        for (id, op) in graph.ops.iter().filter(|(id, op)| selective.recomputed[id.0 as usize] && matches!(op.kind, OpKind::Dot(_))) {
            let mut of = BTreeSet::new();
            op.operands.iter().for_each(|&v| leaves(graph, v, &mut of));
            assert!(of.is_disjoint(&parameters), "{}: {id} is a product with parameters", step.name);
        }
        assert!(p.interface.loss.is_some());
    }
}
