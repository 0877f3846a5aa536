//! `predict --config CONFIG --cluster CLUSTER --tensor T --pipeline P …`: what a fixed setting gives, without a search.
//!
//! Flags have short names and Megatron-LM's; a DeepSpeed configuration is read too. The answer is `compiler::predict`'s, which prices the same graphs as `compile`.

pub(crate) mod deepspeed;
pub(crate) mod model;
mod show;

use crate::diagnostics::Terminal;
use compiler::predict::{self, Arithmetic, Context, Framework, Offload, Setting};
use compiler::schedule::order::Order;
use cost_model::Cluster;
use ir::plan::Recompute;
use ir::{Diagnostic, Diagnostics, Result};
use models::Precision;
use std::path::PathBuf;
use std::process::ExitCode;

/// Predict what a fixed setting gives.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The model's shape: a Hugging Face `config.json`.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The cluster: `local:N`, `dgx-a100:N`, `dgx-h100:N`, or a TOML file.
    #[arg(long)]
    cluster: String,
    /// Whose software executes it: shardwright, megatron-core, megatron-2021, deepspeed-2022, fsdp-2023, fsdp-compile, …
    #[arg(long, value_name = "NAME")]
    framework: Option<String>,
    /// Tokens of a sequence; by default what the model's positions allow, 1024 at most.
    #[arg(long, alias = "seq-length", value_name = "N")]
    seq: Option<u64>,
    /// Tensor-parallel degree.
    #[arg(long, alias = "tensor-model-parallel-size", value_name = "N", default_value_t = 1)]
    tensor: u32,
    /// Pipeline stages.
    #[arg(long, alias = "pipeline-model-parallel-size", value_name = "N", default_value_t = 1)]
    pipeline: u32,
    /// Data-parallel degree; by default what the others leave of the devices.
    #[arg(long, alias = "data-parallel-size", value_name = "N")]
    data: Option<u32>,
    /// Context-parallel degree.
    #[arg(long, alias = "context-parallel-size", value_name = "N", default_value_t = 1)]
    context: u32,
    /// How attention meets its keys then: ring (or p2p) or heads (or a2a).
    #[arg(long, alias = "cp-comm-type", value_name = "KIND", default_value = "ring")]
    context_kind: String,
    /// Expert-parallel degree, a part of the data-parallel one.
    #[arg(long, alias = "expert-model-parallel-size", value_name = "N", default_value_t = 1)]
    expert: u32,
    /// Of how many tensor ranks an expert is cut: all of them by default, or 1, where each has experts of its own.
    #[arg(long, alias = "expert-tensor-parallel-size", value_name = "N")]
    expert_tensor: Option<u32>,
    /// Sequences of a microbatch on a device.
    #[arg(long, alias = "micro-batch-size", value_name = "N")]
    micro_batch: Option<u64>,
    /// Sequences of a step.
    #[arg(long, alias = "global-batch-size", value_name = "N")]
    global_batch: Option<u64>,
    /// Order of microbatches: gpipe, 1f1b, interleaved or zero-bubble.
    #[arg(long, value_name = "NAME")]
    schedule: Option<String>,
    /// Chunks of layers of a stage, which interleaves them.
    #[arg(long, alias = "virtual-pipeline-model-parallel-size", value_name = "N")]
    chunks: Option<u32>,
    /// The same by the layers of a chunk.
    #[arg(long, value_name = "N", conflicts_with = "chunks")]
    num_layers_per_virtual_pipeline_stage: Option<u32>,
    /// Cut positions between the blocks of tensor parallelism.
    #[arg(long)]
    sequence_parallel: bool,
    /// ZeRO stage: 0 to 3.
    #[arg(long, alias = "zero-stage", value_name = "STAGE")]
    zero: Option<u8>,
    /// ZeRO 1.
    #[arg(long, conflicts_with = "zero")]
    use_distributed_optimizer: bool,
    /// How many data-parallel devices share one copy of what ZeRO cuts.
    #[arg(long, value_name = "N")]
    shard_group: Option<u32>,
    /// What the backward computes again: none, selective or full.
    #[arg(long, alias = "recompute-granularity", value_name = "MODE")]
    recompute: Option<String>,
    /// Selective recomputation.
    #[arg(long, conflicts_with = "recompute")]
    recompute_activations: bool,
    /// Keep optimizer state in the host's memory and update there.
    #[arg(long)]
    optimizer_cpu_offload: bool,
    /// Keep optimizer state and update elsewhere: cpu, or nvme, the node's drives.
    #[arg(long, value_name = "WHERE", conflicts_with = "optimizer_cpu_offload")]
    offload: Option<String>,
    /// In what the step computes: bf16, f16, f32 or f8 (products with parameters; the rest in bf16).
    #[arg(long, value_name = "TYPE")]
    dtype: Option<String>,
    /// Compute in bf16.
    #[arg(long, conflicts_with_all = ["dtype", "fp16"])]
    bf16: bool,
    /// Compute in f16.
    #[arg(long, conflicts_with = "dtype")]
    fp16: bool,
    /// A DeepSpeed configuration, whose batch, ZeRO stage and precision are taken where flags do not say.
    #[arg(long, value_name = "FILE")]
    deepspeed: Option<PathBuf>,
    /// A parameter of the framework set to something else: `KEY=VALUE` or `FRAMEWORK.KEY=VALUE`. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    assume: Vec<String>,
    /// List every collective of a layer of each kind.
    #[arg(long)]
    collectives: bool,
}

/// `predict`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    let cluster = Cluster::parse(&args.cluster)?;
    let config = crate::trace::read(&args.config)?;
    terminal.notes(&config.warnings);
    let stated = args.deepspeed.as_deref().map(deepspeed::read).transpose()?.unwrap_or_default();
    let mut framework = Framework::named(args.framework.as_deref().unwrap_or(if args.deepspeed.is_some() { "deepspeed-2022" } else { "shardwright" }))?;
    for text in &args.assume {
        assume(text, std::slice::from_mut(&mut framework))?;
    }
    let setting = setting(args, &stated, &cluster, &config)?;
    let (precision, arithmetic) = precision(args, &stated)?;
    let setting = Setting { arithmetic, ..setting };
    let sequence = model::sequence(&config, args.seq)?;
    setting.check(&model::limits(&config, sequence), Some(cluster.devices()))?;
    let model = model::traced(&config, sequence, precision, setting.traced_batch(&framework))?;
    let prepared = model.prepare(setting.preparation(&framework))?;
    let solved = predict::solve(&model, &prepared, &setting, &cluster, &framework)?;
    let prediction = predict::assemble::assemble(&model, &solved, &setting, &cluster, &framework)?;
    let shown = show::Shown { config: &config, model: &model, setting: &setting, cluster: &cluster, framework: &framework, prediction: &prediction };
    shown.print(args.collectives.then_some(&solved), terminal);
    Ok(if prediction.fits() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Sets a parameter of the frameworks that `[FRAMEWORK.]KEY=VALUE` means.
pub(crate) fn assume(text: &str, frameworks: &mut [Framework]) -> Result<()> {
    let wrong = || Diagnostic::input("E0409", format!("`--assume {text}`: expected `KEY=VALUE`")).with_help("for example `--assume traffic=1.5`");
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    let value: f64 = value.trim().parse().ok().filter(|v: &f64| v.is_finite() && *v >= 0.0).ok_or_else(wrong)?;
    let (of, key) = key.trim().rsplit_once('.').map_or((None, key.trim()), |(f, k)| (Some(f), k));
    if let Some(name) = of {
        Framework::named(name)?;
    }
    frameworks.iter_mut().filter(|f| of.is_none_or(|name| f.name == name)).try_for_each(|f| f.assume(key, value))
}

/// In what the step is traced, and in what its products are done. Halves are traced as brain floats: the scaled loss is no work worth counting.
fn precision(args: &Args, stated: &deepspeed::Stated) -> Result<(Precision, Arithmetic)> {
    let named = match args.dtype.as_deref() {
        Some("f8" | "fp8") => return Ok((Precision::Bf16, Arithmetic::Eight)),
        Some(name) => Precision::named(name)?,
        None if args.fp16 => Precision::F16,
        None if args.bf16 => Precision::Bf16,
        None => stated.precision.unwrap_or(Precision::Bf16),
    };
    Ok(match named {
        Precision::F16 => (Precision::Bf16, Arithmetic::Half),
        other => (other, Arithmetic::AsTraced),
    })
}

fn setting(args: &Args, stated: &deepspeed::Stated, cluster: &Cluster, config: &models::Config) -> Result<Setting> {
    let mut errors: Vec<Diagnostic> = Vec::new();
    let mut wrong = |message: String, help: &str| errors.push(Diagnostic::input("E0409", message).with_help(help));
    let recompute = match args.recompute.as_deref() {
        _ if args.recompute_activations => Recompute::Selective,
        None => Recompute::None,
        Some(name) => Recompute::named(name).unwrap_or_else(|| {
            wrong(format!("`--recompute {name}`: there is no such recomputation"), "use `none`, `selective` or `full`");
            Recompute::None
        }),
    };
    let offload = match args.offload.as_deref() {
        None if args.optimizer_cpu_offload => Offload::Host,
        None => stated.offload,
        Some("none") => Offload::None,
        Some("cpu") => Offload::Host,
        Some("nvme") => Offload::Storage,
        Some(other) => {
            wrong(format!("`--offload {other}`: optimizer state cannot be kept there"), "use `none`, `cpu` or `nvme`");
            Offload::None
        }
    };
    let context_kind = match args.context_kind.as_str() {
        "ring" | "p2p" | "allgather" | "all_gather" => Context::Ring,
        "heads" | "a2a" | "ulysses" => Context::Heads,
        other => {
            wrong(format!("`--context-kind {other}`: attention over several devices is not done so"), "use `ring` or `heads`");
            Context::Ring
        }
    };
    if let Some(n) = args.expert_tensor.filter(|n| *n != 1 && *n != args.tensor) {
        wrong(format!("`--expert-tensor {n}`: an expert is cut over all tensor ranks or over none"), "use 1 or the tensor degree");
    }
    let chunks = match args.num_layers_per_virtual_pipeline_stage {
        Some(0) => {
            wrong("`--num-layers-per-virtual-pipeline-stage 0`: a chunk has layers".into(), "give 1 or more");
            None
        }
        Some(n) => {
            let pieces = u64::from(n) * u64::from(args.pipeline.max(1));
            let layers = config.sizes().layers;
            if !layers.is_multiple_of(pieces) {
                wrong(
                    format!("{} stages with chunks of {n} layers do not divide the model's {layers} layers", args.pipeline),
                    "stages times layers of a chunk must divide the layers",
                );
            }
            Some((layers / pieces).max(1) as u32)
        }
        None => args.chunks,
    };
    let schedule = match (args.schedule.as_deref(), chunks) {
        (Some("gpipe"), None | Some(1)) => Order::GPipe,
        (None | Some("1f1b"), None | Some(1)) => Order::OneFOneB,
        (Some("zero-bubble"), None | Some(1)) => Order::ZeroBubble,
        (None | Some("interleaved" | "1f1b"), Some(v)) => Order::Interleaved(v),
        (Some("interleaved"), None) => {
            wrong("`--schedule interleaved` needs the chunks of a stage".into(), "for example `--chunks 2`");
            Order::OneFOneB
        }
        (Some(name @ ("gpipe" | "zero-bubble")), Some(_)) => {
            wrong(format!("`--schedule {name}` with several chunks of a stage cannot be expressed"), "leave `--chunks` out, or use `--schedule interleaved`");
            Order::OneFOneB
        }
        (Some(other), _) => {
            wrong(format!("`--schedule {other}`: there is no such schedule"), "use `gpipe`, `1f1b`, `interleaved` or `zero-bubble`");
            Order::OneFOneB
        }
    };
    if !errors.is_empty() {
        return Err(Diagnostics(errors));
    }
    let others = u64::from(args.tensor) * u64::from(args.pipeline) * u64::from(args.context);
    let data = args.data.unwrap_or_else(|| (u64::from(cluster.devices()) / others.max(1)).max(1) as u32);
    let micro_batch = args.micro_batch.or(stated.micro_batch).unwrap_or(1);
    let accumulated = stated.accumulation.unwrap_or(1);
    let global_batch = args.global_batch.or(stated.global_batch).unwrap_or(u64::from(data) * micro_batch * accumulated);
    Ok(Setting {
        tensor: args.tensor,
        sequence_parallel: args.sequence_parallel,
        context: args.context,
        context_kind,
        pipeline: args.pipeline,
        data,
        expert: args.expert,
        spread: args.tensor > 1 && args.expert_tensor == Some(1),
        zero: args.zero.or(args.use_distributed_optimizer.then_some(1)).or(stated.zero).unwrap_or(0),
        shard: args.shard_group.or(stated.shard),
        micro_batch,
        global_batch,
        schedule,
        recompute,
        offload,
        arithmetic: Arithmetic::AsTraced,
    })
}
