//! What plans communicate, against what the strategies' papers say: kinds, counts and bytes.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "tests say what they leave out")]

use compiler::batch::state::Overrides;
use compiler::pipeline::{self, Options, Timings};
use cost_model::{Cluster, CollectiveCall, CostModel};
use ir::DType;
use ir::plan::{Plan, Request};
use ir::program::{BufferKind, CollectiveKind, InstructionKind, Phase};
use std::collections::BTreeMap;

fn plan(path: &str, cluster: &str, request: Request) -> Plan {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let module = ir::text::parse(path, &text).expect("the model parses");
    let cluster = Cluster::parse(cluster).expect("a cluster");
    let options = Options { request, overrides: Overrides::default(), cluster, level: "x86-64-v3".into(), code: false, stop: Default::default() };
    pipeline::compile(&module, &options, &mut Timings::default()).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn request(strategy: &str) -> Request {
    Request { strategy: strategy.into(), ..Request::default() }
}

fn fixture(name: &str) -> String {
    format!("{}/../examples/models/{name}.mlir", env!("CARGO_MANIFEST_DIR"))
}

/// A model from the folder that the environment names, or nothing (said plainly).
fn exported(name: &str) -> Option<String> {
    match std::env::var("SHARDWRIGHT_DATA") {
        Ok(folder) => Some(format!("{folder}/inputs/{name}.mlir")),
        Err(_) => {
            eprintln!("left out: SHARDWRIGHT_DATA is not set, so there is no {name}.mlir");
            None
        }
    }
}

/// Tensors and bytes per kind and phase, over one device.
fn collectives(plan: &Plan) -> BTreeMap<(CollectiveKind, Phase), (usize, u64)> {
    let mut out = BTreeMap::new();
    for program in &plan.programs {
        for phase in Phase::ALL {
            for i in program.phase(phase) {
                if let InstructionKind::Collective { kind, segments, .. } = &i.kind {
                    let e = out.entry((*kind, phase)).or_insert((0, 0));
                    e.0 += segments.len();
                    e.1 += i.bytes.0;
                }
            }
        }
    }
    out
}

fn starts(plan: &Plan) -> usize {
    plan.programs.iter().flat_map(|p| p.phases.iter().flatten()).filter(|i| matches!(i.kind, InstructionKind::Collective { .. })).count()
}

fn bytes_of(plan: &Plan, kind: BufferKind) -> u64 {
    plan.programs[0].inputs.iter().map(|b| &plan.programs[0].buffers[b.buffer]).filter(|b| b.kind == kind).map(|b| b.ty.bytes()).sum()
}

#[test]
fn data_parallelism_reduces_the_gradients_and_the_loss() {
    let plan = plan(&fixture("mlp"), "local:4", request("data"));
    let parameters = bytes_of(&plan, BufferKind::Parameter);
    let all = collectives(&plan);
    assert_eq!(all.keys().map(|k| k.0).collect::<Vec<_>>(), [CollectiveKind::AllReduce; 1], "{all:?}");
    let (tensors, bytes) = all[&(CollectiveKind::AllReduce, Phase::After)];
    assert_eq!((tensors, bytes), (plan.interface.parameters.len() + 1, parameters + 4), "every gradient and the loss, once");
    assert_eq!(starts(&plan), 1, "they fit one bucket");
    // The problem's communication is the closed form: one all-reduce for every tensor.
    let cluster = Cluster::parse("local:4").expect("a preset");
    let model = cost_model::AnalyticModel::new(cluster);
    let group = cost_model::Group::within_node(4);
    let closed: f64 = plan
        .interface
        .parameters
        .iter()
        .map(|&p| plan.source.main().map(|m| m.ty(m.inputs[p as usize]).bytes()).unwrap_or(0))
        .chain([4])
        .map(|bytes| model.collective(&CollectiveCall { kind: CollectiveKind::AllReduce, bytes: ir::Bytes(bytes), dtype: DType::F32 }, &group).time.0)
        .sum();
    let compute: f64 = plan.stages[0].decisions.iter().map(|d| d.candidates[d.chosen as usize].compute.0).sum();
    let communication = plan.stages[0].solve.objective.0 - compute;
    assert!((communication - closed).abs() < 1e-9, "the problem has {communication} and the closed form {closed}");
}

#[test]
fn zero_cuts_optimizer_state_then_parameters() {
    let whole = plan(&fixture("gpt_tiny"), "local:1", request("data"));
    let (p, o) = (bytes_of(&whole, BufferKind::Parameter), bytes_of(&whole, BufferKind::Optimizer));
    // Padding and scalars that cannot be cut.
    let near = |bytes: u64, want: u64| bytes >= want && bytes <= want + want / 50 + 4096;
    for (strategy, parameters, optimizer) in [("data", p, o), ("zero1", p, o / 4), ("zero2", p, o / 4), ("zero3", p / 4, o / 4)] {
        let plan = plan(&fixture("gpt_tiny"), "local:4", request(strategy));
        let got = (bytes_of(&plan, BufferKind::Parameter), bytes_of(&plan, BufferKind::Optimizer));
        assert!(near(got.0, parameters) && near(got.1, optimizer), "{strategy}: {got:?}, not {:?}", (parameters, optimizer));
        let all = collectives(&plan);
        let total = |kind| all.iter().filter(|(k, _)| k.0 == kind).fold((0, 0), |sum, (_, v)| (sum.0 + v.0, sum.1 + v.1));
        let (reduced, scattered, gathered) = (total(CollectiveKind::AllReduce), total(CollectiveKind::ReduceScatter), total(CollectiveKind::AllGather));
        match strategy {
            "data" => assert!(near(reduced.1, p) && scattered.0 == 0 && gathered.0 == 0, "{all:?}"),
            // Gradients are scattered once and new parameters gathered once.
            "zero1" | "zero2" => assert!(near(scattered.1, p) && near(gathered.1, p) && reduced.1 < p / 20, "{strategy}: {all:?}"),
            // Parameters are gathered in the forward, and those that the backward reads again there.
            _ => assert!(near(scattered.1, p) && gathered.1 > p && gathered.1 <= 2 * p + p / 10, "{strategy}: {all:?}"),
        }
    }
}

#[test]
fn zero2_scatters_every_microbatch_and_zero1_once() {
    let request = |s: &str| Request { microbatches: Some(2), ..request(s) };
    let (one, two) = (plan(&fixture("gpt_tiny"), "local:4", request("zero1")), plan(&fixture("gpt_tiny"), "local:4", request("zero2")));
    let in_phase = |p: &Plan, phase| collectives(p).get(&(CollectiveKind::ReduceScatter, phase)).map_or(0, |c| c.0);
    assert_eq!(in_phase(&one, Phase::Backward), 0);
    assert!(in_phase(&one, Phase::After) > 10);
    assert!(in_phase(&two, Phase::Backward) > 10);
    assert_eq!(in_phase(&two, Phase::After), 0);
}

#[test]
fn tensor_parallelism_of_a_block_is_column_then_row() {
    let plan = plan(&fixture("block_tensor"), "local:2", request("tensor"));
    let all = collectives(&plan);
    let count = |phase| all.iter().filter(|(k, _)| k.1 == phase).map(|(_, v)| v.0).sum::<usize>();
    assert_eq!((count(Phase::Forward), count(Phase::Backward)), (1, 1), "{all:?}");
}

#[test]
fn tensor_parallelism_of_gpt_reduces_twice_per_layer_and_direction() {
    let Some(path) = exported("gpt_4l") else { return };
    let plan = plan(&path, "local:4", request("tensor"));
    let mut forward: Vec<String> = Vec::new();
    for phase in Phase::ALL {
        for i in plan.programs[0].phase(phase) {
            if let InstructionKind::Collective { kind, segments, .. } = &i.kind {
                forward.push(format!("{phase:?} {kind:?} x{} {} {}", segments.len(), i.bytes, i.source));
            }
        }
    }
    let activation = 8 * 128 * 256 * 4;
    let reduced = |phase: Phase| {
        let all = plan.programs[0].phase(phase).iter();
        all.filter(|i| matches!(i.kind, InstructionKind::Collective { kind: CollectiveKind::AllReduce, .. }) && i.bytes.0 == activation).count()
    };
    // Four layers, and in the backward one more for the head, whose vocabulary is cut.
    assert_eq!((reduced(Phase::Forward), reduced(Phase::Backward)), (8, 9), "{forward:#?}");
}
