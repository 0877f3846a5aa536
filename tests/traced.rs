//! Steps traced in Rust compile and run: every result judged against the unsharded step, and state found without being told.

mod support;

use compiler::batch::state::{self, Overrides};
use compiler::pipeline::{self, Options, Timings};
use cost_model::Cluster;
use ir::DType;
use ir::plan::Plan;
use ir::trace::{Initial, Optimizer, Role, Step, Tensor, Tracer, Training, training_step};
use runtime::Arguments;
use std::sync::Arc;
use support::verify::verify;

fn training() -> Training {
    Training::new(Optimizer::adamw(1e-2)).clipped(1.0)
}

fn finished(tracer: &Tracer, loss: &Tensor) -> Step {
    training_step(tracer, loss, &training()).unwrap_or_else(|e| panic!("{e}"))
}

fn linear(x: &Tensor, name: &str, to: u64) -> Tensor {
    let tracer = x.tracer();
    tracer.scope(name, || {
        let w = tracer.parameter("w", [x.dim(-1), to], Initial::Normal(0.2));
        let b = tracer.parameter("b", [to], Initial::Zeros);
        x.matmul(&w) + b
    })
}

fn norm(x: &Tensor, name: &str) -> Tensor {
    let tracer = x.tracer();
    tracer.scope(name, || {
        let scale = tracer.parameter("scale", [x.dim(-1)], Initial::Ones);
        let shift = tracer.parameter("shift", [x.dim(-1)], Initial::Zeros);
        x.layer_norm(&scale, &shift, 1e-5)
    })
}

/// Two dense layers and a head.
fn perceptron() -> Step {
    let tracer = Tracer::new();
    let mut h = tracer.data("x", DType::F32, [16, 32]);
    let y = tracer.data("y", DType::I32, [16]);
    for layer in 0..2 {
        h = linear(&h, &format!("layers.{layer}"), 32).gelu();
    }
    let loss = linear(&h, "head", 10).cross_entropy(&y).mean_all().named("loss");
    finished(&tracer, &loss)
}

/// A transformer of two layers; with attention as one operation, or written out.
fn transformer(one_op: bool) -> Step {
    let (batch, length, width, heads, words) = (8, 16, 32, 4, 64);
    let tracer = Tracer::new();
    let tokens = tracer.data("tokens", DType::I32, [batch, length]);
    let labels = tracer.data("labels", DType::I32, [batch, length]);
    let table = tracer.parameter("words", [words, width], Initial::Normal(0.5));
    let positions = tracer.parameter("positions", [length, width], Initial::Normal(0.1));
    let mut x = table.embed(&tokens) + positions;
    for layer in 0..2 {
        x = tracer.scope(format!("layers.{layer}"), || {
            let normal = norm(&x, "norm.0");
            let head = |name: &str| linear(&normal, name, width).split_dim(-1, &[heads, width / heads]);
            let (q, k, v) = (head("q"), head("k"), head("v"));
            let mixed = if one_op { q.attend(&k, &v, true) } else { q.attend_written_out(&k, &v, true) };
            let x = &x + linear(&mixed.merge_dims(2, 3), "out", width);
            let inner = linear(&norm(&x, "norm.1"), "up", 4 * width).gelu();
            x + linear(&inner, "down", width)
        });
    }
    let loss = norm(&x, "norm").matmul(&table.transpose(&[1, 0])).cross_entropy(&labels).mean_all().named("loss");
    finished(&tracer, &loss)
}

/// First arguments: parameters as they begin, and a batch.
fn arguments(step: &Step) -> Arguments {
    let classes = step.arguments.iter().filter(|a| a.role == Role::Parameter).map(|a| a.ty.shape[0]).max().unwrap_or(2).min(10);
    let initial = step.initial(11);
    let one = |(i, (argument, value)): (usize, (&ir::trace::Argument, ir::interp::Tensor))| {
        let n = argument.ty.elements();
        let bytes = match (argument.role, argument.ty.dtype) {
            (Role::Data, DType::I32) => (0..n).flat_map(|k| (((k * 37 + k / 5) % classes) as i32).to_le_bytes()).collect(),
            (Role::Data, _) => (0..n).flat_map(|k| ((k as f32 * 0.7).sin()).to_le_bytes()).collect(),
            _ => value.to_bytes(),
        };
        let tensor = runtime::Tensor::new(argument.ty.clone(), bytes).expect("bytes of all elements");
        (i as u32, Arc::new(tensor))
    };
    step.arguments.iter().zip(initial).enumerate().map(one).collect()
}

fn compile(step: &Step, flags: &str) -> Arc<Plan> {
    let (cluster, request) = support::request(flags);
    let options = Options {
        request,
        overrides: Overrides::default(),
        cluster: Cluster::parse(&cluster).unwrap_or_else(|e| panic!("{e}")),
        level: "x86-64-v3".into(),
        code: true,
        stop: Default::default(),
    };
    Arc::new(pipeline::compile(&step.module, &options, &mut Timings::default()).unwrap_or_else(|e| panic!("{flags}: {e}")))
}

fn check(step: &Step, settings: &[&str]) {
    let given = arguments(step);
    for flags in settings {
        let plan = compile(step, flags);
        assert_eq!(plan.interface.loss, Some(step.loss));
        let losses = support::losses(&plan, &given, 6);
        assert!(losses[5] < losses[0], "{flags}: {losses:?}");
        for judged in verify(&plan, &given, &[1, 3], &runtime::Options::default()).unwrap_or_else(|e| panic!("{flags}: {e}")) {
            let worst = judged.judgement.worst().expect("there are results");
            let off = format!("{flags}: after {} steps {} is {:.1} times off what is allowed", judged.steps, worst.name, worst.ratio());
            assert!(judged.judgement.within(), "{off}");
        }
    }
}

const SETTINGS: [&str; 4] = ["--cluster local:4", "--strategy data --microbatches 2", "--strategy tensor", "--stages 2 --microbatches 4"];

#[test]
fn a_traced_perceptron_runs() {
    check(&perceptron(), &SETTINGS);
}

#[test]
fn a_traced_transformer_runs() {
    check(&transformer(true), &SETTINGS);
    check(&transformer(false), &SETTINGS[..1]);
}

#[test]
fn state_of_traced_steps_is_found_by_data_flow() {
    for step in [perceptron(), transformer(true)] {
        let mut main = step.module.main().expect("a function").clone();
        // Without the hints of buffers.
        main.input_attributes.iter_mut().for_each(|a| a.aliasing_output = None);
        let (found, notes) = state::interface(&main, &Overrides::default()).unwrap_or_else(|e| panic!("{e}"));
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(found.state, (0..step.loss).map(|i| (i, i)).collect::<Vec<_>>());
        let role = |i: &u32| step.arguments[*i as usize].role;
        assert!(found.parameters.iter().all(|i| role(i) == Role::Parameter));
        assert_eq!(found.parameters.len(), step.arguments.iter().filter(|a| a.role == Role::Parameter).count());
        assert_eq!(found.batch.len(), 2);
        assert!(found.batch.iter().all(|(i, dim)| role(i) == Role::Data && *dim == Some(0)));
    }
}
