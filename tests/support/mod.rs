//! Compiling and running models in tests, without the command line.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "tests say what they leave out")]
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod emulator;
pub(crate) mod verify;

use compiler::batch::state::Overrides;
use compiler::pipeline::{self, Options, Timings};
use cost_model::Cluster;
use ir::plan::{Plan, Recompute, Request};
use ir::program::ScheduleKind;
use ir::{Bytes, Result};
use runtime::{Arguments, Session, checkpoint};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Strategies with settings that leave each of their axes something to do.
pub(crate) const STRATEGIES: [&str; 17] = [
    "--strategy hsdp",
    "--strategy hsdp --microbatches 2",
    "--strategy ptd-p --stages 1 --mesh 2x2",
    "--strategy ptd-p --stages 2 --mesh 1x2 --microbatches 4",
    "--strategy megatron --stages 1 --mesh 2x2",
    "--strategy megatron --stages 2 --mesh 1x2 --microbatches 4",
    "--cluster local:8 --strategy megatron --stages 2 --mesh 2x2 --microbatches 2",
    "--strategy gpipe --stages 2 --microbatches 4",
    "--strategy 1f1b --stages 2 --microbatches 4",
    "--strategy interleaved --stages 2 --microbatches 4",
    "--cluster local:8 --strategy interleaved --stages 2 --microbatches 2",
    "--strategy tensor-2d",
    "--cluster local:8 --strategy tensor-2.5d",
    "--cluster local:8 --strategy tensor-3d",
    "--strategy ulysses --mesh 2x2",
    "--strategy alpa",
    "--strategy fsdp",
];

/// A model with its arguments and the losses XLA computed.
pub(crate) struct Model {
    pub(crate) path: PathBuf,
    pub(crate) losses: Vec<f64>,
}

/// A bundled model.
pub(crate) fn bundled(name: &str) -> Model {
    model(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models"), name)
}

/// A model from the folder that the environment names; none (said plainly) when it names none.
pub(crate) fn exported(name: &str) -> Option<Model> {
    match std::env::var("SHARDWRIGHT_DATA") {
        Ok(folder) => Some(model(&Path::new(&folder).join("inputs"), name)),
        Err(_) => {
            eprintln!("left out: SHARDWRIGHT_DATA is not set, so there is no {name}.mlir");
            None
        }
    }
}

fn model(folder: &Path, name: &str) -> Model {
    let text = std::fs::read_to_string(folder.join(format!("{name}.losses.json"))).expect("the losses are there");
    let json: serde_json::Value = serde_json::from_str(&text).expect("the losses are JSON");
    let losses = json["losses"].as_array().expect("a list").iter().filter_map(serde_json::Value::as_f64).collect();
    Model { path: folder.join(format!("{name}.mlir")), losses }
}

/// A request from a line of flags.
pub(crate) fn request(flags: &str) -> (String, Request) {
    let mut request = Request { strategy: "auto".into(), ..Request::default() };
    let mut cluster = "local:4".to_string();
    let words: Vec<&str> = flags.split_whitespace().collect();
    for pair in words.chunks(2) {
        let value = pair[1];
        match pair[0] {
            "--cluster" => cluster = value.into(),
            "--strategy" => request.strategy = value.into(),
            "--mesh" => request.mesh = value.split('x').map(|n| n.parse().expect("a size")).collect(),
            "--stages" => request.stages = Some(value.parse().expect("a number")),
            "--microbatches" => request.microbatches = Some(value.parse().expect("a number")),
            "--schedule" => {
                request.schedule = Some(match value {
                    "gpipe" => ScheduleKind::GPipe,
                    "interleaved" => ScheduleKind::Interleaved(2),
                    _ => ScheduleKind::OneFOneB,
                });
            }
            "--chunks" => request.schedule = Some(ScheduleKind::Interleaved(value.parse().expect("a number"))),
            "--recompute" => request.recompute = Some(Recompute::named(value).expect("a mode")),
            "--memory-limit" => request.memory_limit = Some(value.parse::<Bytes>().expect("a size")),
            flag => panic!("{flag} is no flag of this helper"),
        }
    }
    (cluster, request)
}

/// Compiles a model under a line of flags.
pub(crate) fn try_compile(model: &Model, flags: &str) -> Result<Plan> {
    compile_as(model, flags, true)
}

fn compile_as(model: &Model, flags: &str, code: bool) -> Result<Plan> {
    let (cluster, request) = request(flags);
    let module = compiler::import::import(&model.path)?.module;
    let options =
        Options { request, overrides: Overrides::default(), cluster: Cluster::parse(&cluster)?, level: "x86-64-v3".into(), code, stop: Default::default() };
    pipeline::compile(&module, &options, &mut Timings::default())
}

/// Compiles a model that must compile.
pub(crate) fn compile(model: &Model, flags: &str) -> Arc<Plan> {
    Arc::new(try_compile(model, flags).unwrap_or_else(|e| panic!("{} {flags}: {e}", model.path.display())))
}

/// The arguments of a model's first step.
pub(crate) fn arguments(model: &Model, plan: &Plan) -> Arguments {
    let path = model.path.with_extension("safetensors");
    checkpoint::read(&path, &checkpoint::argument_types(plan)).unwrap_or_else(|e| panic!("{}: {e}", path.display())).0
}

/// Losses of `steps` steps.
pub(crate) fn losses(plan: &Arc<Plan>, arguments: &Arguments, steps: usize) -> Vec<f64> {
    losses_of(Session::open(plan, &runtime::Options::default()).unwrap_or_else(|e| panic!("{e}")), plan, arguments, steps)
}

/// Losses of `steps` steps in a session that was opened.
pub(crate) fn losses_of(mut session: Session, plan: &Plan, arguments: &Arguments, steps: usize) -> Vec<f64> {
    session.set_inputs(arguments).unwrap_or_else(|e| panic!("{e}"));
    let loss = plan.interface.loss.expect("a loss");
    (0..steps)
        .map(|_| {
            let report = session.step(&Arguments::new()).unwrap_or_else(|e| panic!("{e}"));
            report.scalars.iter().find(|s| s.0 == loss).expect("the loss is printed").2
        })
        .collect()
}

/// Plans a model that must have a plan, without code.
pub(crate) fn planned(model: &Model, flags: &str) -> Plan {
    compile_as(model, flags, false).unwrap_or_else(|e| panic!("{} {flags}: {e}", model.path.display()))
}
