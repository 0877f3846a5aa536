//! How the software of a time executes what a setting states: what it fuses, what it overlaps, what it keeps beside the plan.
//!
//! A small documented set of parameters per generation of frameworks, each with its reason (`docs/predict.md`); none belongs to a model, a plan or a measurement.
//! [`Framework::own`] is what plans of this compiler are: its prediction is the plan's.

use cost_model::{AttentionKernel, FusedKernel};
use ir::{Bytes, Diagnostic, Result, Seconds};

/// A generation of software.
#[derive(Clone, Debug, PartialEq)]
pub struct Framework {
    /// Its name, as `--framework` takes it.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// How attention is computed.
    pub attention: AttentionKernel,
    /// Speed of that attention against the kernels of the device's description: those of 2022 reach about 0.57 of FlashAttention-2.
    pub attention_rate: f64,
    /// Memory traffic of elementwise work against that of our fused kernels.
    pub traffic: f64,
    /// Kernels started for one of ours.
    pub kernels: f64,
    /// What the host takes to start a kernel: with small tensors the devices wait for it.
    pub host: Seconds,
    /// What a matrix product of a training step reaches of the same product timed alone: clocks and caches are shared with what is around it.
    pub products: f64,
    /// What the host and stragglers add to a step of `n` devices, as a share for each doubling.
    pub straggling: f64,
    /// Bytes of a gradient's element on the wire.
    pub gradient_wire: f64,
    /// Bytes of a gradient's element while it is accumulated.
    pub gradient_kept: f64,
    /// Share of the last backward behind which the reduction of gradients can hide; 0 for none.
    pub overlap_gradients: f64,
    /// Share of the computing of a layer behind which the gathering of the next layer's parameters can hide (ZeRO-3), or behind which they are gathered after an update.
    pub overlap_parameters: f64,
    /// Share of a tensor-parallel collective that is hidden by products next to it.
    pub overlap_tensor: f64,
    /// Share of what a collective takes that computing loses while both run.
    pub interference: f64,
    /// Vocabularies are padded to a multiple of this for every tensor rank.
    pub vocabulary: u64,
    /// Whether recomputing a layer fully repeats all of its forward, and not only what the backward reads.
    pub repeats_layers: bool,
    /// Whether selective recomputation means attention's scores and nothing else (Korthikanti et al., 2022).
    pub selective_is_attention: bool,
    /// Share of the forward's products that selective recomputation repeats, beside what streams (every second one in torchtitan).
    pub selective_products: f64,
    /// Bytes of memory that are moved to narrow one element of a product's operand to 8 bits: its largest value is found, and it is written, transposed as well.
    pub cast_bytes: f64,
    /// Rate of the gathers and scatters of partitioned parameters (ZeRO-3) against what the network gives: one parameter at a time, through copies.
    pub partition_rate: f64,
    /// The same of the parameters that are gathered after an update (ZeRO-1 and 2): broadcasts of each device's share, one after another, are slower.
    pub gather_rate: f64,
    /// Bytes that the update takes for one element of state while it is made: gradients in full precision, and what lists of tensors are computed to.
    pub update_bytes: f64,
    /// Whether its library of collectives takes a tree between two nodes (see [`cost_model::Cluster::pair_trees`]).
    pub pair_trees: bool,
    /// Whether tokens are permuted to experts and back, and not moved by products with one-hot tensors; the next ones are then of it.
    pub permutes: bool,
    /// Memory traffic of a permutation against reading and writing its rows once.
    pub permute_traffic: f64,
    /// Kernels that are started for a permutation: rows are counted, sorted and moved.
    pub permute_kernels: f64,
    /// Passes over the router's logits in memory.
    pub router_passes: f64,
    /// Speed of the products of many experts against products of the same shapes.
    pub expert_rate: f64,
    /// Rate of the exchange of tokens against what the links give.
    pub token_rate: f64,
    /// Kernels that are started for each expert of a product: products done one by one, with their casts, padding and bookkeeping; 0 where one kernel does all.
    pub expert_kernels: f64,
    /// Whether a token is sent once to several experts: 0 not, 1 to those of a node (over the network), 2 also to those of a device.
    pub sends_once: u8,
    /// Share of an exchange of tokens that is hidden behind computing.
    pub overlap_experts: f64,
    /// Bytes beside the plan's that a logit takes while the loss is computed: copies in full precision, and their gradients.
    pub logit_bytes: f64,
    /// Whether devices of a tensor axis that have the same send a part each to the next stage.
    pub sends_parts: bool,
    /// Whether gradients are added into buffers of their own even where a step has one microbatch.
    pub accumulates: bool,
    /// Whether forward values between kernels are dropped out: a mask is kept, and written and read.
    pub dropout: bool,
    /// Memory that process, libraries and communicators take on a device.
    pub overhead: Bytes,
    /// Share of what is allocated that the allocator loses in gaps.
    pub fragmentation: f64,
}

impl Framework {
    /// Plans of this compiler.
    pub fn own() -> Framework {
        Framework {
            name: "shardwright",
            about: "plans of this compiler",
            attention: AttentionKernel::Best,
            attention_rate: 1.0,
            traffic: 1.0,
            kernels: 1.0,
            host: Seconds(0.0),
            products: 1.0,
            straggling: 0.0,
            gradient_wire: 4.0,
            gradient_kept: 4.0,
            overlap_gradients: 0.0,
            overlap_parameters: 0.0,
            overlap_tensor: 0.0,
            interference: 0.0,
            vocabulary: 1,
            repeats_layers: false,
            selective_is_attention: false,
            selective_products: 0.0,
            cast_bytes: 0.0,
            partition_rate: 1.0,
            gather_rate: 1.0,
            update_bytes: 0.0,
            pair_trees: true,
            permutes: false,
            permute_traffic: 1.0,
            permute_kernels: 1.0,
            router_passes: 0.0,
            expert_rate: 1.0,
            token_rate: 1.0,
            expert_kernels: 0.0,
            sends_once: 0,
            overlap_experts: 0.0,
            logit_bytes: 0.0,
            sends_parts: false,
            accumulates: false,
            dropout: false,
            overhead: Bytes(0),
            fragmentation: 0.0,
        }
    }

    /// Every generation that is known.
    pub fn all() -> Vec<Framework> {
        let own = Framework::own();
        let gib = |x: f64| Bytes((x * (1u64 << 30) as f64) as u64);
        // 2020 to 2022: scores in memory with a fused softmax, elementwise chains fused in parts, gradients reduced after the backward.
        let early = Framework {
            name: "megatron-2021",
            about: "Megatron-LM of 2020 to 2022: attention writes its scores, gradients are reduced after the backward",
            attention: AttentionKernel::Unfused,
            products: 0.94,
            traffic: 1.5,
            kernels: 3.0,
            host: Seconds(6e-6),
            gradient_wire: 2.0,
            vocabulary: 128,
            repeats_layers: true,
            logit_bytes: 4.0,
            pair_trees: false,
            selective_is_attention: true,
            sends_parts: true,
            accumulates: true,
            dropout: true,
            overhead: gib(2.5),
            fragmentation: 0.05,
            ..own.clone()
        };
        let deepspeed = Framework {
            name: "deepspeed-2022",
            about: "Megatron-DeepSpeed of 2021 and 2022: as Megatron-LM of its time, with ZeRO on gradients of 16 bits",
            gradient_kept: 2.0,
            partition_rate: 0.34,
            ..early.clone()
        };
        let oneflow = Framework {
            name: "oneflow-2021",
            about: "OneFlow of 2021: a static graph",
            overlap_gradients: 0.8,
            host: Seconds(2e-6),
            sends_parts: false,
            gradient_kept: 2.0,
            overhead: gib(1.4),
            ..early.clone()
        };
        let first = Framework {
            name: "megatron-2020",
            about: "Megatron-LM until early 2021: every device of a stage sends all of it, fewer kernels are fused",
            sends_parts: false,
            traffic: 3.0,
            ..early.clone()
        };
        // Since 2023: flash attention, fused norms and activations, gradients reduced while the backward goes on.
        let core = Framework {
            name: "megatron-core",
            about: "Megatron-Core since 2023: fused attention, gradients and parameters move during the backward and the next forward",
            attention: AttentionKernel::Best,
            products: 0.9,
            traffic: 1.3,
            kernels: 2.0,
            host: Seconds(5e-6),
            gradient_wire: 4.0,
            overlap_gradients: 0.9,
            overlap_parameters: 0.9,
            overlap_tensor: 0.7,
            interference: 0.1,
            vocabulary: 128,
            repeats_layers: true,
            cast_bytes: 2.0,
            permutes: true,
            permute_kernels: 10.0,
            router_passes: 6.0,
            expert_kernels: 14.0,
            sends_once: 1,
            // In full precision, and its gradient in 16 bits.
            logit_bytes: 6.0,
            selective_is_attention: true,
            sends_parts: true,
            accumulates: true,
            overhead: gib(2.0),
            fragmentation: 0.05,
            ..own.clone()
        };
        // Since the containers of mid-2026: experts' products in one kernel, graphs that no host holds up, exchange and permutation fused and beside other work.
        let fused = Framework {
            name: "megatron-core-2026",
            about: "Megatron-Core since mid-2026: as megatron-core, with fused experts, permutations and exchanges",
            permute_traffic: 0.3,
            permute_kernels: 1.0,
            expert_kernels: 0.0,
            sends_once: 2,
            overlap_experts: 1.0,
            ..core.clone()
        };
        let fsdp = Framework {
            name: "fsdp-2023",
            about: "PyTorch FSDP of 2023, eager: flash attention 2, elementwise ops mostly apart",
            attention: AttentionKernel::Fused(FusedKernel::Flash2),
            traffic: 2.2,
            kernels: 4.0,
            host: Seconds(6e-6),
            gradient_wire: 4.0,
            overlap_gradients: 0.9,
            overlap_parameters: 0.9,
            interference: 0.1,
            vocabulary: 1,
            repeats_layers: true,
            logit_bytes: 8.0,
            attention_rate: 0.57,
            accumulates: true,
            overhead: gib(2.0),
            fragmentation: 0.05,
            ..own.clone()
        };
        let compiled = Framework {
            name: "fsdp-compile",
            about: "PyTorch FSDP2 since 2024 with torch.compile: elementwise chains fused",
            attention_rate: 1.0,
            products: 0.88,
            selective_products: 0.5,
            // Its checkpoints stop where the last saved value was made again.
            repeats_layers: false,
            cast_bytes: 1.0,
            overlap_tensor: 0.4,
            logit_bytes: 11.5,
            traffic: 1.2,
            kernels: 1.5,
            host: Seconds(3e-6),
            ..fsdp.clone()
        };
        let internevo = Framework {
            name: "internevo",
            about: "InternEvo of 2023: flash attention 2, gradients overlap, grouped ZeRO",
            attention_rate: 1.0,
            products: 0.88,
            gradient_wire: 2.0,
            gradient_kept: 2.0,
            gather_rate: 0.55,
            update_bytes: 12.0,
            traffic: 1.8,
            ..fsdp.clone()
        };
        vec![own, first, early, deepspeed, oneflow, core, fused, fsdp, compiled, internevo]
    }

    /// With a parameter set to something else: times in microseconds, memory in GiB, flags as 0 or 1.
    ///
    /// # Errors
    /// `E0421` for a key that there is not.
    pub fn assume(&mut self, key: &str, value: f64) -> Result<()> {
        const KEYS: [&str; 35] = [
            "traffic",
            "kernels",
            "host",
            "products",
            "straggling",
            "gradient-wire",
            "gradient-kept",
            "overlap-gradients",
            "overlap-parameters",
            "overlap-tensor",
            "interference",
            "vocabulary",
            "overhead",
            "fragmentation",
            "unfused-attention",
            "dropout",
            "accumulates",
            "sends-parts",
            "attention-rate",
            "selective-products",
            "logit-bytes",
            "cast-bytes",
            "partition-rate",
            "gather-rate",
            "update-bytes",
            "pair-trees",
            "permutes",
            "permute-traffic",
            "permute-kernels",
            "router-passes",
            "expert-rate",
            "token-rate",
            "expert-kernels",
            "sends-once",
            "overlap-experts",
        ];
        match key {
            "traffic" => self.traffic = value,
            "kernels" => self.kernels = value,
            "host" => self.host = Seconds(value * 1e-6),
            "products" => self.products = value,
            "straggling" => self.straggling = value,
            "gradient-wire" => self.gradient_wire = value,
            "gradient-kept" => self.gradient_kept = value,
            "overlap-gradients" => self.overlap_gradients = value,
            "overlap-parameters" => self.overlap_parameters = value,
            "overlap-tensor" => self.overlap_tensor = value,
            "interference" => self.interference = value,
            "vocabulary" => self.vocabulary = value.max(1.0) as u64,
            "overhead" => self.overhead = Bytes((value * (1u64 << 30) as f64) as u64),
            "fragmentation" => self.fragmentation = value,
            "unfused-attention" => self.attention = if value > 0.0 { AttentionKernel::Unfused } else { AttentionKernel::Best },
            "dropout" => self.dropout = value > 0.0,
            "accumulates" => self.accumulates = value > 0.0,
            "sends-parts" => self.sends_parts = value > 0.0,
            "attention-rate" => self.attention_rate = value.max(1e-3),
            "selective-products" => self.selective_products = value,
            "logit-bytes" => self.logit_bytes = value,
            "cast-bytes" => self.cast_bytes = value,
            "partition-rate" => self.partition_rate = value.max(1e-3),
            "gather-rate" => self.gather_rate = value.max(1e-3),
            "update-bytes" => self.update_bytes = value,
            "pair-trees" => self.pair_trees = value > 0.0,
            "permutes" => self.permutes = value > 0.0,
            "permute-traffic" => self.permute_traffic = value,
            "permute-kernels" => self.permute_kernels = value,
            "router-passes" => self.router_passes = value,
            "expert-rate" => self.expert_rate = value.max(1e-3),
            "token-rate" => self.token_rate = value.max(1e-3),
            "expert-kernels" => self.expert_kernels = value,
            "sends-once" => self.sends_once = value.min(2.0) as u8,
            "overlap-experts" => self.overlap_experts = value.min(1.0),
            _ => {
                let mut d = Diagnostic::input("E0421", format!("a framework has no parameter `{key}`")).with_note(format!("parameters: {}", KEYS.join(", ")));
                if let Some(near) = ir::diagnostic::nearest(key, KEYS) {
                    d = d.with_help(format!("did you mean `{near}`?"));
                }
                return Err(d.into());
            }
        }
        Ok(())
    }

    /// The generation of that name.
    ///
    /// # Errors
    /// `E0421` when there is none.
    pub fn named(name: &str) -> Result<Framework> {
        let all = Framework::all();
        if let Some(found) = all.iter().find(|f| f.name == name) {
            return Ok(found.clone());
        }
        let names: Vec<&str> = all.iter().map(|f| f.name).collect();
        let mut d = Diagnostic::input("E0421", format!("there is no framework `{name}`")).with_note(format!("known are {}", names.join(", ")));
        d = match ir::diagnostic::nearest(name, names.iter().copied()) {
            Some(near) => d.with_help(format!("did you mean `{near}`?")),
            None => d.with_help("leave `--framework` out for plans of this compiler"),
        };
        Err(d.into())
    }
}
