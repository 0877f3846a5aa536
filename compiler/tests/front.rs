//! The front passes on whole steps: every pass leaves a graph that verifies and computes the same; state, batch and loss are what the steps' authors meant;
//! a step in microbatches computes what the whole step does.

mod steps;

use compiler::batch::state::Overrides;
use compiler::batch::{StepPhase, phases, split};
use compiler::canonical::{self, Canonical};
use ir::interp::{Precision, Tensor, run, run_spmd};
use ir::op::OpKind;
use ir::{AxisId, Graph, Mesh, Module};
use steps::{BUNDLED, Step, assert_close, bundled, shared, viewed};

/// Whether to evaluate the large steps too: minutes.
fn slow() -> bool {
    std::env::var_os("SHARDWRIGHT_SLOW_TESTS").is_some()
}

fn assert_verifies(pass: &str, graph: &Graph) {
    if let Err(errors) = ir::verify::verify(graph) {
        panic!("after {pass}: {}", errors[..errors.len().min(10)].join("\n"));
    }
}

fn canonical(step: &Step) -> Canonical {
    canonical::run(&step.module, &Overrides::default()).unwrap_or_else(|e| panic!("{}: {e}", step.name))
}

fn count(graph: &Graph, matches: impl Fn(&OpKind) -> bool) -> usize {
    graph.ops.values().filter(|op| matches(&op.kind)).count()
}

fn evaluate(graph: &Graph, arguments: &[Tensor]) -> Vec<Tensor> {
    run(&Module::default(), graph, arguments, Precision::F64).expect("evaluates")
}

fn views(arguments: &[Tensor], graph: &Graph) -> Vec<Tensor> {
    arguments.iter().zip(&graph.inputs).map(|(x, &v)| viewed(x, &graph.ty(v).shape)).collect()
}

/// Runs the passes one by one, verifies after each, and compares what the flat and the canonical graph compute with the module.
fn check_passes(step: &Step) {
    let inlined = canonical::inline::run(&step.module).expect("inlines");
    assert_verifies("inline", &inlined);
    let folded = canonical::fold::run(&inlined);
    assert_verifies("fold", &folded);
    let (unrolled, notes) = canonical::unroll::run(&folded);
    assert_verifies("unroll", &unrolled);
    assert!(notes.is_empty(), "{}: {notes:?}", step.name);
    let folded = canonical::fold::run(&unrolled);
    assert_verifies("fold after unroll", &folded);
    let onehot = canonical::onehot::run(&folded);
    assert_verifies("onehot", &onehot);
    let flat = canonical::fold::run(&onehot);
    assert_verifies("fold after onehot", &flat);
    let c = canonical(step);
    assert_verifies("all", &c.graph);
    let arguments = step.arguments();
    let main = step.module.main().expect("a main function");
    let expected = run(&step.module, main, &arguments, Precision::F64).expect("the module evaluates");
    assert_close(&format!("{} flat", step.name), &expected, &evaluate(&flat, &arguments), 1e-7);
    assert_close(&format!("{} canonical", step.name), &expected, &evaluate(&c.graph, &views(&arguments, &c.graph)), 1e-7);
}

#[test]
fn passes_keep_what_bundled_steps_compute() {
    for name in BUNDLED {
        check_passes(&bundled(name));
    }
}

#[test]
fn passes_keep_what_the_shared_steps_compute() {
    for name in if slow() { &["mlp", "gpt_4l", "llama_scan_bf16", "moe", "resnet", "flax_lm"][..] } else { &["mlp", "moe"] } {
        let Some(step) = shared(name) else { return };
        check_passes(&step);
    }
}

#[test]
fn fused_dimensions_of_gpt_are_atoms() {
    let Some(step) = shared("gpt_4l") else { return };
    let c = canonical(&step);
    // Head projection, fused QKV and its bias of the first layer.
    assert_eq!(c.view.inputs[8], [8, 32, 256]);
    assert_eq!(c.view.inputs[10], [256, 3, 8, 32]);
    assert_eq!(c.view.inputs[11], [3, 8, 32]);
    // What is left of reshapes only adds or drops the dimension along which thirds are sliced and joined.
    for op in c.graph.ops.values().filter(|op| matches!(op.kind, OpKind::Reshape)) {
        let squeezed = |v| c.graph.ty(v).shape.iter().copied().filter(|&n| n != 1).collect::<Vec<u64>>();
        assert_eq!(squeezed(op.operands[0]), squeezed(op.results[0]));
    }
    assert_eq!(count(&c.graph, |k| matches!(k, OpKind::Gather(_))), 1, "the embedding; cross entropy has none");
    assert_eq!(count(&c.graph, |k| matches!(k, OpKind::Transpose { .. })), 0, "products and attention read and write any order of dimensions");
}

#[test]
fn interfaces_are_what_the_authors_meant() {
    for (name, state, batch) in [
        ("mlp", 6, [6, 7]),
        ("gpt_4l", 157, [157, 158]),
        ("llama_scan_bf16", 37, [37, 38]),
        ("moe", 37, [37, 38]),
        ("resnet", 46, [46, 47]),
        ("flax_lm", 117, [117, 118]),
    ] {
        let Some(step) = shared(name) else { return };
        let i = canonical(&step).interface;
        assert_eq!(i.state, (0..state).map(|s| (s, s)).collect::<Vec<_>>(), "{name}");
        assert_eq!(i.batch, batch.map(|b| (b, Some(0))), "{name}");
        assert_eq!((i.loss, &i.scalars[..], i.constants.len(), i.other_results.len()), (Some(state), &[state][..], 0, 0), "{name}");
    }
}

#[test]
fn what_cannot_be_microbatched_is_named_with_its_place() {
    for (name, line) in [("moe", "line 251"), ("resnet", "line 11,")] {
        let Some(step) = shared(name) else { return };
        let c = canonical(&step);
        let analysis = phases::analyse(&c.graph, &c.interface);
        let first = analysis.obstacles.first().expect("an obstacle");
        assert!(first.notes[0].contains(line), "{name}: {first}");
        assert!(analysis.allows(1) && !analysis.allows(2));
    }
}

/// The phases only read what they may.
fn check_phases(step: &Step, m: &compiler::batch::Microbatched) {
    let phase_of = |v| m.graph.def_op(v).map(|op| m.phases[op]);
    for (id, op) in m.graph.ops.iter() {
        let accumulates = matches!(op.kind, OpKind::AllReduce { .. });
        for &v in &op.operands {
            let fine = match (m.phases[id], phase_of(v)) {
                (_, None | Some(StepPhase::Before)) => true,
                (StepPhase::Micro, Some(StepPhase::Micro)) | (StepPhase::After, Some(StepPhase::After)) => true,
                (StepPhase::After, Some(StepPhase::Micro)) => accumulates,
                _ => false,
            };
            assert!(
                fine,
                "{}: {} of {:?} reads {} of {:?}",
                step.name,
                m.graph.display_name(op.results[0]),
                m.phases[id],
                m.graph.display_name(v),
                phase_of(v)
            );
        }
    }
    for &v in &m.graph.outputs {
        assert_ne!(phase_of(v), Some(StepPhase::Micro), "{}: an output of one microbatch", step.name);
    }
}

/// Evaluates the per-microbatch form with the axis in time as a mesh axis.
fn check_microbatches(step: &Step, counts: &[u32]) {
    let c = canonical(step);
    let analysis = phases::analyse(&c.graph, &c.interface);
    let arguments = views(&step.arguments(), &c.graph);
    let expected = evaluate(&c.graph, &arguments);
    for &count in counts.iter().filter(|&&m| analysis.batch_size.is_multiple_of(u64::from(m))) {
        assert!(analysis.allows(count), "{}: {:?}", step.name, analysis.obstacles);
        let mut m = split::run(&c.graph, &analysis, count);
        assert_verifies("split", &m.graph);
        check_phases(step, &m);
        for op in m.graph.ops.values_mut() {
            if let OpKind::AllReduce { axes, .. } | OpKind::ShardSlice { axes, .. } = &mut op.kind {
                assert_eq!(axes[..], [AxisId::MICROBATCH]);
                *axes = vec![AxisId(0)];
            }
        }
        let lanes = vec![arguments.clone(); count as usize];
        let results = run_spmd(&m.graph, &Mesh::new(&[count]), 0, &lanes, Precision::F64).expect("evaluates");
        for lane in results {
            assert_close(&format!("{} in {count} microbatches", step.name), &expected, &lane, 1e-7);
        }
    }
}

#[test]
fn bundled_steps_in_microbatches_compute_the_same() {
    for name in BUNDLED {
        check_microbatches(&bundled(name), &[1, 2, 4]);
    }
}

#[test]
fn shared_steps_in_microbatches_compute_the_same() {
    let steps = [("mlp", &[1, 2, 4, 8][..]), ("moe", &[1]), ("flax_lm", &[4]), ("gpt_4l", &[1, 2, 4, 8]), ("llama_scan_bf16", &[2]), ("resnet", &[1])];
    for (name, counts) in if slow() { &steps[..] } else { &steps[..2] } {
        let Some(step) = shared(name) else { return };
        check_microbatches(&step, counts);
    }
}

#[test]
fn gradients_are_accumulated_once_each() {
    let Some(step) = shared("gpt_4l") else { return };
    let c = canonical(&step);
    let m = split::run(&c.graph, &phases::analyse(&c.graph, &c.interface), 4);
    // A total per parameter, and the loss.
    assert_eq!(m.accumulators.len(), c.interface.parameters.len() + 1);
    let bytes: u64 = m.accumulators.iter().map(|a| m.graph.ty(a.total).bytes()).sum();
    let parameters: u64 = c.interface.parameters.iter().map(|&i| c.graph.ty(c.graph.inputs[i as usize]).bytes()).sum();
    assert_eq!(bytes, parameters + 4);
    let whole: Vec<bool> = m.slices.iter().map(|s| m.graph.inputs.contains(&s.whole)).collect();
    assert_eq!(whole, [true, true], "only the batch arguments are cut");
}
