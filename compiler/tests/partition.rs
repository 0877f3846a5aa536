//! Every plan computes what the unsharded step computes: partitioned graphs, run in lock step, against the interpreter.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "tests say what they leave out")]

use compiler::batch::{Microbatched, StepPhase, state::Overrides};
use compiler::canonical;
use compiler::kernels::stored::stored_values;
use compiler::shard::groups;
use compiler::shard::presets::{Preset, Restriction};
use compiler::shard::problem::{self, Space};
use compiler::shard::strategy::Context;
use compiler::spmd::local::{Sink, Source};
use compiler::spmd::partition::{self, StageView, Stages};
use compiler::step::StepGraph;
use cost_model::{AnalyticModel, Cluster};
use ir::interp::{Precision, Tensor};
use ir::program::StageId;
use ir::{Mesh, SecondaryMap, Sharding, TensorType};

/// A deterministic value for an argument: small floats (not negative, as second moments are), small indices.
fn argument(ty: &TensorType, seed: u64) -> Tensor {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let values: Vec<f64> = (0..ty.elements())
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let u = (x >> 11) as f64 / (1u64 << 53) as f64;
            if ty.dtype.is_float() { u * 0.2 + if ty.rank() == 0 { 1.0 } else { 0.0 } } else { (u * 7.0).floor() }
        })
        .collect();
    Tensor::from_f64s(ty.clone(), &values).expect("the count fits")
}

/// The block of a global tensor that a device holds, padding filled with a value that would be noticed.
fn shard(global: &Tensor, shape: &[u64], sharding: &Sharding, mesh: &Mesh, device: u32) -> Tensor {
    let local = sharding.local_shape(shape, mesh);
    let values = global.to_f64s();
    let strides = ir::dtype::row_major_strides(shape);
    let start: Vec<u64> = sharding.dims.iter().zip(&local).map(|(axes, n)| u64::from(mesh.linear_coordinate(device, axes)) * n).collect();
    let count: u64 = local.iter().product();
    let local_strides = ir::dtype::row_major_strides(&local);
    let out: Vec<f64> = (0..count)
        .map(|i| {
            let mut at = 0;
            for d in 0..local.len() {
                let index = start[d] + i / local_strides[d] % local[d];
                if index >= shape[d] {
                    return if global.ty.dtype.is_float() { 77.0 } else { 1.0 };
                }
                at += index * strides[d];
            }
            values[at as usize]
        })
        .collect();
    Tensor::from_f64s(TensorType::new(global.ty.dtype, local), &out).expect("the count fits")
}

fn check(name: &str, mesh: &[u32], preset: Preset) {
    let path = format!("{}/../examples/models/{name}.mlir", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the fixture is there");
    let module = ir::text::parse(name, &text).expect("the fixture parses");
    let canonical = canonical::run(&module, &Overrides::default()).expect("canonical");
    let mut phases = SecondaryMap::new();
    canonical.graph.ops.keys().for_each(|o| phases[o] = StepPhase::Micro);
    let micro = Microbatched { graph: canonical.graph.clone(), phases, accumulators: vec![], slices: vec![], microbatches: 1 };
    let step = StepGraph::new(&micro, &canonical.interface);
    let (mesh, model) = (Mesh::new(mesh), AnalyticModel::new(Cluster::parse("local:8").expect("a preset")));
    let groups = groups::groups(&step.graph, &|o| step.phase_of(o) as u64);
    let stored = stored_values(&step);
    let cx = Context { step: &step, groups: &groups, mesh: &mesh, model: &model, stored: &stored };
    let space = Space::new(&cx);
    let restriction = Restriction::new(preset, &step, &groups, &canonical.interface, &space).unwrap_or_else(|e| panic!("{name} {mesh} {preset:?}: {e}"));
    let choices =
        problem::solve(&space, &|_, n, c| restriction.allows(n, c), None, &Default::default()).unwrap_or_else(|e| panic!("{name} {mesh} {preset:?}: {e}"));
    let stages = Stages::one(&step, &groups);
    let view = StageView { stage: StageId(0), first_rank: 0, stages: &stages, transfers: &[], in_flight: 1 };
    let local = partition::partition(&step, &groups, &choices, &mesh, &model, &view);
    if let Err(errors) = ir::verify::verify(&local.graph) {
        panic!("{name} {mesh} {preset:?}: {errors:#?}");
    }
    let source = module.main().expect("main");
    let arguments: Vec<Tensor> = source.inputs.iter().enumerate().map(|(i, &v)| argument(source.ty(v), i as u64 + 1)).collect();
    let expected = ir::interp::run(&module, source, &arguments, Precision::F64).expect("the step runs");
    let inputs: Vec<Vec<Tensor>> = (0..mesh.devices())
        .map(|d| {
            local
                .inputs
                .iter()
                .map(|i| match &i.source {
                    Source::Argument { index, global_shape, sharding, .. } => shard(&arguments[*index as usize], global_shape, sharding, &mesh, d),
                    Source::Received { .. } => unreachable!("one stage"),
                })
                .collect()
        })
        .collect();
    let results = ir::interp::run_spmd(&local.graph, &mesh, 0, &inputs, Precision::F64).expect("the partition runs");
    let collectives = local.graph.ops.values().filter(|o| o.kind.is_collective()).count();
    let mut worst = 0f64;
    for (o, sink) in local.outputs.iter().enumerate() {
        let Sink::Result { index, global_shape, sharding, .. } = sink else { unreachable!("one stage") };
        let want = &expected[*index as usize];
        let norm = want.to_f64s().iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
        for d in 0..mesh.devices() {
            let want = shard(want, global_shape, sharding, &mesh, d).to_f64s();
            let got = results[d as usize][o].to_f64s();
            let distance = want.iter().zip(&got).filter(|(w, _)| **w != 77.0).map(|(w, g)| (w - g).powi(2)).sum::<f64>().sqrt();
            assert!(distance <= 1e-6 * norm + 1e-9, "{name} {mesh} {preset:?}: result {index} on device {d} is off by {distance} of {norm}");
            worst = worst.max(distance / norm);
        }
    }
    eprintln!(
        "{name} {mesh} {preset:?}: {} groups, {} ops, {collectives} collectives, objective {} ({}), communication {}, worst {worst:.1e}; {}",
        groups.groups.len(),
        local.graph.ops.len(),
        choices.report.objective,
        choices.report.status,
        choices.communication,
        choices.report.method
    );
}

#[test]
fn plans_of_the_mlp_compute_the_step() {
    for preset in [Preset::Auto, Preset::Data, Preset::Tensor, Preset::Zero1, Preset::Zero3] {
        for mesh in [&[1][..], &[2], &[4], &[8], &[3], &[2, 2], &[2, 4]] {
            check("mlp", mesh, preset);
        }
    }
}

#[test]
fn plans_of_small_transformers_compute_the_step() {
    for preset in [Preset::Auto, Preset::Data, Preset::Tensor, Preset::Zero1, Preset::Zero3] {
        for mesh in [&[1][..], &[2], &[4], &[2, 2]] {
            check("gpt_tiny", mesh, preset);
        }
        check("gpt_6heads", &[4], preset);
        check("block_tensor", &[2], preset);
    }
}

/// Those that arrange devices along several axes, or cut positions.
#[test]
fn plans_of_several_roles_compute_the_step() {
    for preset in [Preset::Hsdp, Preset::PtdP, Preset::Megatron, Preset::Tensor2d, Preset::Ulysses, Preset::Ring] {
        check("gpt_tiny", &[2, 2], preset);
    }
    for preset in [Preset::Megatron, Preset::Ulysses, Preset::Ring] {
        check("gpt_tiny", &[4], preset);
    }
    for preset in [Preset::Tensor25d, Preset::Tensor3d] {
        check("gpt_tiny", &[2, 2, 2], preset);
    }
}
