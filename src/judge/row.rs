//! A row of measurements as a case: model, cluster, framework, setting, and what was measured.
//!
//! Rules here are about columns and frameworks, never about a row. What a row leaves open that the prediction needs is a reason to leave the row out.

use super::machine;
use super::table::Row;
use compiler::predict::{Arithmetic, Context, Framework, Offload, Prediction, Setting};
use compiler::schedule::order::Order;
use cost_model::{AttentionKernel, Cluster};
use ir::plan::Recompute;
use models::{Config, Precision};

/// What a row says.
pub(super) struct Case {
    pub(super) id: String,
    /// Model and number of devices: plans inside it are ranked.
    pub(super) group: String,
    pub(super) config: Config,
    pub(super) sequence: u64,
    pub(super) precision: Precision,
    pub(super) cluster: Cluster,
    pub(super) framework: Framework,
    pub(super) setting: Setting,
    measured: Measured,
    /// Bytes at the peak.
    pub(super) memory: Option<f64>,
    memory_kind: MemoryKind,
    pub(super) out_of_memory: Option<bool>,
}

/// How a row gives its time.
#[derive(Clone, Copy, Debug)]
enum Measured {
    Step(f64),
    TokensPerDevice(f64),
    Samples(f64),
    ModelFlops(f64),
    HardwareFlops(f64),
    Nothing,
}

/// What a row's bytes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryKind {
    /// What the allocator handed out.
    Allocated,
    /// With the allocator's gaps.
    Reserved,
    /// All that the device has in use.
    Device,
}

const GIB: f64 = (1u64 << 30) as f64;

impl Case {
    /// Reads a row, or says why it cannot be predicted.
    pub(super) fn new(r: &Row<'_>, frameworks: &[Framework]) -> Result<Case, String> {
        let need = |column: &str| r.count(column).ok_or_else(|| format!("`{column}` is not stated"));
        let or_one = |column: &str| r.count(column).unwrap_or(1) as u32;
        let named = r.text("framework");
        let gpu = r.text("gpu");
        let mut framework = framework(named, gpu, r, frameworks)?;
        if gpu.contains("power-limited") {
            return Err("the GPUs' power limit is not stated".into());
        }
        let sequence = need("seq_len")?;
        let devices = need("n_gpus")? as u32;
        let (tensor, pipeline, context) = (or_one("tp"), or_one("pp"), or_one("cp"));
        let data = r.count("dp").map_or(devices / (tensor * pipeline * context).max(1), |d| d as u32);
        if u64::from(data) * u64::from(tensor) * u64::from(pipeline) * u64::from(context) != u64::from(devices) {
            return Err("the degrees do not multiply out to the GPUs".into());
        }
        let global_batch = need("global_batch_seqs")?;
        let micro_batch = need("micro_batch_seqs")?;
        let per_node = r.count("gpus_per_node").unwrap_or(8) as u32;
        let cluster = machine::cluster(gpu, r.number("gpu_mem_gb"), r.text("interconnect"), per_node, devices)?;
        let (precision, arithmetic) = precision(r.text("precision"))?;
        match r.text("attention_backend") {
            "unfused" => framework.attention = AttentionKernel::Unfused,
            "flash" | "fused" => framework.attention = AttentionKernel::Best,
            _ => {}
        }
        if framework.name == "deepspeed-2022" && r.text("precision").to_lowercase().starts_with("bf16") {
            // Its optimizer for brain floats adds them up in full precision, beside the gradients of a microbatch.
            framework.gradient_kept += 4.0;
        }
        let config = config(r, sequence, framework.vocabulary * u64::from(tensor))?;
        let chunks = r.count("vpp").unwrap_or(1) as u32;
        let core = framework.name.starts_with("megatron-core");
        let zero = zero(r, core)?;
        let sequence_parallel = match r.text("sp").to_lowercase().as_str() {
            "yes" | "true" => true,
            // Tensor parallelism of both has positions cut between blocks wherever it is used.
            "" if r.text("sequence_parallel").is_empty() => core || framework.name == "fsdp-compile",
            _ => r.text("sequence_parallel") == "True",
        };
        let setting = Setting {
            tensor,
            sequence_parallel: sequence_parallel && tensor > 1,
            context,
            context_kind: Context::Ring,
            pipeline,
            data,
            expert: or_one("ep"),
            spread: spread(r, tensor, data),
            zero,
            shard: shard(r.text("shard_mode"), data, per_node, framework.name),
            micro_batch,
            global_batch,
            schedule: if chunks > 1 && pipeline > 1 { Order::Interleaved(chunks) } else { Order::OneFOneB },
            recompute: recompute(r.text("recompute"))?,
            offload: Offload::None,
            arithmetic,
        };
        let positive = |column: &str| r.number(column).filter(|n| *n > 0.0);
        let measured = positive("iter_time_s")
            .or_else(|| positive("iter_time_s_median_last_half"))
            .map(Measured::Step)
            .or_else(|| positive("tokens_per_s_per_gpu").map(Measured::TokensPerDevice))
            .or_else(|| positive("samples_per_s").map(Measured::Samples))
            .or_else(|| positive("model_tflops_per_gpu").map(|t| Measured::ModelFlops(t * 1e12)))
            .or_else(|| positive("hw_tflops_per_gpu").map(|t| Measured::HardwareFlops(t * 1e12)))
            .unwrap_or(Measured::Nothing);
        let allocated = positive("mem_max_allocated_bytes");
        let memory = allocated.or_else(|| positive("peak_mem_gib").map(|g| g * GIB)).or_else(|| positive("peak_mem_gb").map(|g| g * 1e9));
        let memory_kind = match () {
            () if allocated.is_some() => MemoryKind::Allocated,
            () if framework.name.starts_with("fsdp") || framework.name == "internevo" => MemoryKind::Reserved,
            () => MemoryKind::Device,
        };
        let out_of_memory = match r.text("oom").to_lowercase().as_str() {
            "" => None,
            "no" | "false" | "0" => Some(false),
            _ => Some(true),
        };
        if matches!(measured, Measured::Nothing) && memory.is_none() && out_of_memory.is_none() {
            return Err("nothing is measured that is predicted".into());
        }
        let model = if r.text("model").is_empty() { r.text("case") } else { r.text("model") };
        Ok(Case {
            id: r.text("row_id").into(),
            group: format!("{model}, {devices} GPUs"),
            config,
            sequence,
            precision,
            cluster,
            framework,
            setting,
            measured,
            memory,
            memory_kind,
            out_of_memory,
        })
    }

    /// What a traced step depends on.
    pub(super) fn key(&self) -> String {
        format!("{:?} {} {:?} {}", self.config, self.sequence, self.precision, self.setting.traced_batch(&self.framework))
    }

    /// Seconds of a step as measured; rates of arithmetic are turned into time by the step's own arithmetic.
    pub(super) fn measured(&self, p: &Prediction) -> Option<f64> {
        let batch = self.setting.global_batch as f64;
        Some(match self.measured {
            Measured::Step(s) => s,
            Measured::TokensPerDevice(t) => batch * self.sequence as f64 / t / self.setting.devices() as f64,
            Measured::Samples(s) => batch / s,
            Measured::ModelFlops(f) => p.model_flops * p.step.0 / f,
            Measured::HardwareFlops(f) => p.hardware_flops * p.step.0 / f,
            Measured::Nothing => return None,
        })
    }

    /// The predicted bytes that the row's count.
    pub(super) fn memory_of(&self, p: &Prediction) -> f64 {
        match self.memory_kind {
            MemoryKind::Allocated => p.allocated.0 as f64,
            MemoryKind::Reserved => p.memory.0.saturating_sub(self.framework.overhead.0) as f64,
            MemoryKind::Device => p.memory.0 as f64,
        }
    }

    /// The setting in a few words.
    pub(super) fn describe(&self) -> String {
        let s = &self.setting;
        format!(
            "{} · tp {} cp {} pp {} dp {} ep {} · {}×{} of {} · ZeRO {} {} · {:?} · {} on {}",
            self.group,
            s.tensor,
            s.context,
            s.pipeline,
            s.data,
            s.expert,
            s.microbatches(),
            s.micro_batch,
            self.sequence,
            s.zero,
            s.recompute.name(),
            s.schedule,
            self.framework.name,
            self.cluster.name
        )
    }
}

/// The container's year and month since which experts are fused.
const FUSED_EXPERTS: f64 = 26.06;

/// The year and month of the container that a row's notes name first, as `26.06`; 0 if none.
fn container(notes: &str) -> f64 {
    let number: String = notes.strip_prefix("container ").unwrap_or_default().chars().take(5).collect();
    number.parse().unwrap_or(0.0)
}

/// The generation of software that a row names. What Megatron-LM was before and after 2023 is told by what it runs on.
fn framework(named: &str, gpu: &str, r: &Row<'_>, all: &[Framework]) -> Result<Framework, String> {
    let n = named.to_lowercase();
    let new = ["h100", "h200", "b200", "b300", "h800"].iter().any(|g| gpu.to_lowercase().contains(g));
    let name = match () {
        () if named.is_empty() && !r.text("attention_backend").is_empty() => "megatron-core",
        () if n.contains("bridge") && container(r.text("notes")) >= FUSED_EXPERTS => "megatron-core-2026",
        () if n.contains("bridge") || n.contains("core") || n.contains("nemo") => "megatron-core",
        () if n.contains("deepspeed") => "deepspeed-2022",
        () if n.contains("megatron") && new => "megatron-core",
        () if n.contains("megatron") && gpu.to_lowercase().contains("v100") => "megatron-2020",
        () if n.contains("megatron") => "megatron-2021",
        () if n.contains("oneflow") => "oneflow-2021",
        () if n.contains("torchtitan") || n.contains("fms-fsdp") => "fsdp-compile",
        () if n.contains("internevo") => "internevo",
        () if n.contains("foundry") || n.contains("fsdp") || n.contains("lightning") => "fsdp-2023",
        () => return Err(format!("the framework `{named}` is not known")),
    };
    all.iter().find(|f| f.name == name).cloned().ok_or_else(|| format!("the framework `{named}` is not known"))
}

/// Whether experts are spread over tensor ranks: stated, or the only way to have so many devices of experts; software with experts has done so since it could.
fn spread(r: &Row<'_>, tensor: u32, data: u32) -> bool {
    let experts = r.count("n_experts").unwrap_or(1) > 1;
    let over = r.count("ep").unwrap_or(1) as u32;
    let stated = match (r.count("etp"), r.text("case").is_empty()) {
        (Some(n), _) => n == 1,
        // A regression test that states no degree has the default, which is the tensor degree.
        (None, false) => false,
        (None, true) => true,
    };
    experts && tensor > 1 && over > 1 && (stated || !data.is_multiple_of(over))
}

fn zero(r: &Row<'_>, core: bool) -> Result<u8, String> {
    let text = r.text("zero_stage");
    match (text.parse::<u8>(), r.text("distributed_optimizer"), r.text("shard_mode")) {
        (Ok(z), ..) if z <= 3 => Ok(z),
        (Ok(z), ..) => Err(format!("there is no ZeRO stage {z}")),
        (_, "True", _) => Ok(1),
        (_, "False", _) => Ok(0),
        (_, _, mode) if mode.contains("distributed optimizer") || core => Ok(1),
        (_, _, mode) if mode.contains("FSDP") => Ok(3),
        _ => Ok(0),
    }
}

/// How many devices share a copy: stated, a node for hybrid sharding, or all.
fn shard(mode: &str, data: u32, per_node: u32, _framework: &str) -> Option<u32> {
    let stated = mode.split("over ").nth(1).and_then(|rest| rest.split_whitespace().next()).and_then(|n| n.parse::<u32>().ok());
    let group = if mode.contains("HSDP") { Some(per_node) } else { stated };
    group.filter(|g| *g > 0 && *g < data && data.is_multiple_of(*g))
}

fn recompute(text: &str) -> Result<Recompute, String> {
    let t = text.to_lowercase();
    match () {
        () if t.starts_with("full") => Ok(Recompute::Full),
        () if t.contains("every other") => Err("every other layer is recomputed".into()),
        () if t.contains("ratio unstated") => Err("the share of recomputed layers is not stated".into()),
        // Norms and activation functions alone are made again: what streams, and little of it.
        () if t.starts_with("selective:") && t.contains("norm") => Ok(Recompute::None),
        () if t.starts_with("selective") => Ok(Recompute::Selective),
        // What the source cannot say is taken as none, as its own rates tell.
        () => Ok(Recompute::None),
    }
}

/// In what the step is traced, and in what its products are done.
fn precision(text: &str) -> Result<(Precision, Arithmetic), String> {
    let t = text.to_lowercase();
    match () {
        () if t.contains("fp4") => Err("products of 4-bit floats are not modelled".into()),
        // Products with a scale for every row had kernels that add up in full precision, at about the speed of 16-bit ones.
        () if t.contains("rowwise") => Ok((Precision::Bf16, Arithmetic::AsTraced)),
        () if t.contains("fp8") || t.contains("float8") => Ok((Precision::Bf16, Arithmetic::Eight)),
        () if t.contains("bf16") || t.contains("bfloat16") => Ok((Precision::Bf16, Arithmetic::AsTraced)),
        () if t.contains("fp16") || t.contains("f16") => Ok((Precision::Bf16, Arithmetic::Half)),
        () if t.contains("fp32") || t.contains("f32") => Ok((Precision::F32, Arithmetic::AsTraced)),
        () => Err(format!("the precision `{text}` is not known")),
    }
}

/// Families whose feed-forward blocks are gated, by what their names begin with.
const GATED: [&str; 6] = ["llama", "internlm", "mistral", "mixtral", "qwen", "gpt-oss"];
/// Head sizes of families that are not the hidden size over the heads, from their public model cards.
const HEAD_SIZES: [(&str, u64); 2] = [("qwen3", 128), ("gpt-oss", 64)];
/// Families whose attention is not modelled.
const LATENT: [&str; 3] = ["deepseek", "kimi", "moonlight"];

/// The row's architecture as a configuration; the vocabulary is padded.
fn config(r: &Row<'_>, sequence: u64, padding: u64) -> Result<Config, String> {
    let need = |column: &str| r.count(column).ok_or_else(|| format!("`{column}` is not stated"));
    let (layers, hidden, heads) = (need("n_layers")?, need("hidden")?, need("n_heads")?);
    let kv = r.count("n_kv_heads").unwrap_or(heads);
    let model = r.text("model").to_lowercase().replace(['_', ' '], "-");
    if LATENT.iter().any(|n| model.contains(n)) {
        return Err("latent attention is not modelled".into());
    }
    let experts = r.count("n_experts").filter(|n| *n > 1);
    if experts.is_some() && r.count("cp").unwrap_or(1) > 1 {
        return Err("experts that lie apart over a context axis too are not modelled".into());
    }
    let vocabulary = r.count("vocab").or_else(|| r.count("vocab_before_padding")).unwrap_or(USUAL_VOCABULARY).next_multiple_of(padding.max(1));
    let gated = GATED.iter().any(|n| model.contains(n)) || r.text("swiglu") == "True";
    let text = if gated || kv != heads || experts.is_some() {
        let inner = experts.and(r.count("moe_ffn_hidden")).or_else(|| r.count("ffn_hidden")).ok_or("`ffn_hidden` is not stated")?;
        let size = match HEAD_SIZES.iter().find(|(n, _)| model.starts_with(n)) {
            Some((_, size)) => *size,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => 128,
        };
        // Without a gate two matrices take what three of two thirds do.
        let inner = if gated { inner } else { inner * 2 / 3 };
        let family = match (model.starts_with("qwen3"), experts) {
            // Every token finds room: these rows are of balanced routing, or drop none.
            (true, Some(n)) => format!(
                r#""model_type":"qwen3_moe","moe_intermediate_size":{inner},"num_experts":{n},"num_experts_per_tok":{},"norm_topk_prob":true,"expert_capacity_factor":1.0"#,
                need("moe_topk")?
            ),
            (true, None) => format!(r#""model_type":"qwen3","intermediate_size":{inner}"#),
            (false, Some(n)) => format!(
                r#""model_type":"mixtral","intermediate_size":{inner},"num_local_experts":{n},"num_experts_per_tok":{},"expert_capacity_factor":1.0"#,
                need("moe_topk")?
            ),
            (false, None) => format!(r#""model_type":"llama","intermediate_size":{inner}"#),
        };
        format!(
            r#"{{{family},"hidden_size":{hidden},"num_hidden_layers":{layers},"num_attention_heads":{heads},"num_key_value_heads":{kv},"head_dim":{size},"vocab_size":{vocabulary}}}"#
        )
    } else {
        let inner = r.count("ffn_hidden").unwrap_or(4 * hidden);
        format!(
            r#"{{"model_type":"gpt2","n_embd":{hidden},"n_inner":{inner},"n_layer":{layers},"n_head":{heads},"vocab_size":{vocabulary},"n_positions":{sequence},"tie_word_embeddings":{}}}"#,
            r.text("untied_embeddings") != "True"
        )
    };
    Config::read("row", &text).map_err(|e| e.0.first().map_or_else(String::new, |d| d.message.clone()))
}

/// Of GPT-2's tokenizer, where a row names none.
const USUAL_VOCABULARY: u64 = 50257;
