//! A setting as people state it, and whether a model and a cluster allow it.
//!
//! Everything that is wrong is told at once, each with the nearest value that is valid. Invariant: a checked setting has devices = tensor × context × data ×
//! pipeline, and every degree divides what it cuts.

use crate::schedule::order::Order;
use crate::shard::fixed::Role;
use ir::plan::Recompute;
use ir::{Diagnostic, Diagnostics, Result};

/// How a context-parallel attention meets its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Context {
    /// Keys and values go round a ring while attention works on what is there (Liu et al., 2023).
    #[default]
    Ring,
    /// Positions are exchanged for heads and back (DeepSpeed-Ulysses).
    Heads,
}

/// Where optimizer state lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// On the device.
    #[default]
    None,
    /// In the host's memory, whose processors also make the update.
    Host,
    /// On the node's NVMe drives: the host reads it, makes the update and writes it back.
    Storage,
}

/// In what a step computes that was traced with 16-bit brain floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// As it is.
    #[default]
    AsTraced,
    /// IEEE half precision.
    Half,
    /// Products with parameters in 8-bit floats.
    Eight,
}

/// A fixed setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Tensor-parallel degree.
    pub tensor: u32,
    /// Whether positions are cut between the blocks of tensor parallelism.
    pub sequence_parallel: bool,
    /// Context-parallel degree.
    pub context: u32,
    /// How attention is done then.
    pub context_kind: Context,
    /// Pipeline stages.
    pub pipeline: u32,
    /// Data-parallel degree, experts' included.
    pub data: u32,
    /// Expert-parallel degree: a part of the data-parallel one, or with [`Setting::spread`] of that and the tensor-parallel one.
    pub expert: u32,
    /// Whether experts are spread over tensor ranks too, each whole on one device (Megatron's expert tensor parallelism of 1), and not cut inside.
    pub spread: bool,
    /// ZeRO stage: 0 nothing is cut, 1 optimizer state, 2 gradients, 3 parameters.
    pub zero: u8,
    /// How many data-parallel devices share one copy of what ZeRO cuts; all by default.
    pub shard: Option<u32>,
    /// Sequences of a microbatch on one device.
    pub micro_batch: u64,
    /// Sequences of a step.
    pub global_batch: u64,
    /// Order of microbatches.
    pub schedule: Order,
    /// What the backward computes again.
    pub recompute: Recompute,
    /// Where optimizer state lies.
    pub offload: Offload,
    /// In what products are done.
    pub arithmetic: Arithmetic,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting {
            tensor: 1,
            sequence_parallel: false,
            context: 1,
            context_kind: Context::Ring,
            pipeline: 1,
            data: 1,
            expert: 1,
            spread: false,
            zero: 0,
            shard: None,
            micro_batch: 1,
            global_batch: 1,
            schedule: Order::OneFOneB,
            recompute: Recompute::None,
            offload: Offload::None,
            arithmetic: Arithmetic::AsTraced,
        }
    }
}

/// What of a model limits a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Repeated layers.
    pub layers: u32,
    /// Attention heads; 0 where there is none.
    pub heads: u32,
    /// Experts; 0 where there are none.
    pub experts: u32,
    /// Tokens of a sequence.
    pub sequence: u64,
}

impl Setting {
    /// Microbatches of a step.
    pub fn microbatches(&self) -> u32 {
        (self.global_batch / (u64::from(self.data) * self.micro_batch).max(1)) as u32
    }

    /// Devices.
    pub fn devices(&self) -> u64 {
        [self.tensor, self.context, self.pipeline, self.data].iter().map(|&n| u64::from(n)).product()
    }

    /// Over how many data-parallel devices experts are spread.
    fn experts_over_data(&self) -> u32 {
        if self.spread { (self.expert / self.tensor.max(1)).max(1) } else { self.expert }
    }

    /// The mesh of one stage with the role of every axis, outermost first; axes of one device are left out.
    pub fn mesh(&self) -> (Vec<u32>, Vec<Role>) {
        let zero = self.zero;
        let (mut sizes, mut roles) = (Vec::new(), Vec::new());
        let mut add = |size: u32, role: Role| {
            if size > 1 {
                sizes.push(size);
                roles.push(role);
            }
        };
        // Copies of grouped ZeRO are outermost: those that share a copy are neighbours.
        let shard = self.shard.unwrap_or(self.data).min(self.data).max(1);
        let copies = self.data / shard;
        add(copies, Role::Data { zero: 0 });
        let expert = self.experts_over_data().min(shard);
        add(shard / expert.max(1), Role::Data { zero });
        add(expert, Role::Expert { zero });
        add(self.context, Role::Context { heads: self.context_kind == Context::Heads, zero });
        add(self.tensor, Role::Tensor { sequence: self.sequence_parallel, spread: self.spread });
        if sizes.is_empty() {
            sizes.push(1);
            roles.push(Role::Data { zero });
        }
        (sizes, roles)
    }

    /// Everything about the setting that is impossible.
    ///
    /// # Errors
    /// `E0422`, each with the nearest valid value.
    pub fn check(&self, limits: &Limits, devices: Option<u32>) -> Result<()> {
        let mut wrong = Vec::new();
        let mut refuse = |message: String, help: String| wrong.push(Diagnostic::input("E0422", message).with_help(help));
        let counts = [
            ("--tensor", self.tensor),
            ("--context", self.context),
            ("--pipeline", self.pipeline),
            ("--data", self.data),
            ("--expert", self.expert),
            ("chunks of a stage", self.schedule.chunks()),
        ];
        for (flag, n) in counts {
            if n == 0 {
                refuse(format!("`{flag}` is 0"), format!("`{flag} 1` is none at all"));
            }
        }
        if self.micro_batch == 0 || self.global_batch == 0 {
            refuse("a batch of 0 sequences makes no step".into(), "give `--micro-batch` and `--global-batch` of at least 1".into());
        }
        if !wrong.is_empty() {
            return Err(Diagnostics(wrong));
        }
        let mut refuse = |message: String, help: String| wrong.push(Diagnostic::input("E0422", message).with_help(help));
        if let Some(n) = devices
            && self.devices() != u64::from(n)
        {
            let rest = u64::from(self.tensor) * u64::from(self.context) * u64::from(self.pipeline);
            let message = format!(
                "tensor {} × context {} × pipeline {} × data {} are {} devices, and the cluster has {n}",
                self.tensor,
                self.context,
                self.pipeline,
                self.data,
                self.devices()
            );
            let help = if u64::from(n).is_multiple_of(rest) {
                format!("`--data {}` fits the others", u64::from(n) / rest)
            } else {
                format!("their product must be {n}: for example `--data 1 --pipeline 1 --tensor {}`", nearest_divisor(n, self.tensor))
            };
            refuse(message, help);
        }
        if limits.heads > 0 && !limits.heads.is_multiple_of(self.tensor) {
            let near = nearest_divisor(limits.heads, self.tensor);
            let why = if self.tensor > limits.heads { "is over" } else { "does not divide" };
            refuse(
                format!("a tensor degree of {} {why} the model's {} attention heads", self.tensor, limits.heads),
                format!("`--tensor {near}` is the nearest that divides them"),
            );
        }
        let pieces = self.pipeline * self.schedule.chunks();
        if pieces > limits.layers {
            let message = match self.schedule.chunks() {
                1 => format!("a pipeline of {} stages is deeper than the model's {} layers", self.pipeline, limits.layers),
                v => format!("{} stages of {v} chunks are {pieces} pieces, and the model has {} layers", self.pipeline, limits.layers),
            };
            refuse(message, format!("`--pipeline {}` is the deepest", limits.layers / self.schedule.chunks().max(1)));
        }
        if self.sequence_parallel && self.tensor == 1 {
            refuse(
                "sequence parallelism cuts positions over the tensor axis, and `--tensor` is 1".into(),
                "leave `--sequence-parallel` out, or use `--tensor 2`".into(),
            );
        }
        let cuts = u64::from(self.context) * if self.sequence_parallel { u64::from(self.tensor) } else { 1 };
        if cuts > 1 && !limits.sequence.is_multiple_of(cuts) {
            refuse(
                format!("{cuts} devices do not divide a sequence of {} tokens", limits.sequence),
                format!("`--seq {}` is the nearest that they divide", (limits.sequence / cuts).max(1) * cuts),
            );
        }
        if self.expert > 1 && limits.experts == 0 {
            refuse(format!("`--expert {}`: the model has no experts", self.expert), "leave `--expert` out".into());
        } else if self.expert > 1 && !limits.experts.is_multiple_of(self.expert) {
            let near = nearest_divisor(limits.experts, self.expert);
            refuse(
                format!("an expert degree of {} does not divide {} experts", self.expert, limits.experts),
                format!("`--expert {near}` is the nearest that does"),
            );
        }
        let (over_data, ranks) = (self.experts_over_data(), if self.spread { self.tensor } else { 1 });
        if self.spread && !self.expert.is_multiple_of(self.tensor) {
            refuse(
                format!("experts that are spread over {} tensor ranks cannot be over {} devices", self.tensor, self.expert),
                format!("`--expert {}` is the nearest that can", (self.expert / self.tensor).max(1) * self.tensor),
            );
        } else if !self.data.is_multiple_of(over_data) {
            let near = nearest_divisor(self.data, over_data) * ranks;
            refuse(
                format!("experts are spread over data-parallel devices, and {over_data} do not divide {}", self.data),
                format!("`--expert {near}` is the nearest that does"),
            );
        }
        if let Some(shard) = self.shard
            && (shard == 0 || !self.data.is_multiple_of(shard) || !shard.is_multiple_of(over_data.max(1)))
        {
            refuse(
                format!("groups of {shard} devices that share a copy do not fit {} data-parallel devices", self.data),
                format!("`--shard-group {}` is the nearest that does", nearest_divisor(self.data, shard.max(1))),
            );
        }
        if self.zero > 3 {
            refuse(format!("there is no ZeRO stage {}", self.zero), "`--zero 3` is the highest".into());
        }
        let per_microbatch = u64::from(self.data) * self.micro_batch;
        if !self.global_batch.is_multiple_of(per_microbatch) {
            let down = (self.global_batch / per_microbatch).max(1) * per_microbatch;
            let near = if self.global_batch >= per_microbatch && self.global_batch - down <= per_microbatch / 2 {
                down
            } else {
                self.global_batch.div_ceil(per_microbatch) * per_microbatch
            };
            refuse(
                format!("a global batch of {} is not divisible by {} data-parallel devices × {} sequences", self.global_batch, self.data, self.micro_batch),
                format!("`--global-batch {near}` is the nearest that is"),
            );
        } else if let Order::Interleaved(_) = self.schedule
            && !self.microbatches().is_multiple_of(self.pipeline)
        {
            let m = self.microbatches();
            let near = (u64::from(m.div_ceil(self.pipeline)) * u64::from(self.pipeline)) * per_microbatch;
            refuse(
                format!("an interleaved schedule of {} stages needs a multiple of them in microbatches, and there are {m}", self.pipeline),
                format!("`--global-batch {near}` is the nearest"),
            );
        }
        if wrong.is_empty() { Ok(()) } else { Err(Diagnostics(wrong)) }
    }
}

/// The divisor of `n` that is nearest to `wanted`, the smaller of two.
fn nearest_divisor(n: u32, wanted: u32) -> u32 {
    (1..=n).filter(|d| n.is_multiple_of(*d)).min_by_key(|d| (d.abs_diff(wanted), *d)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: Limits = Limits { layers: 24, heads: 16, experts: 0, sequence: 2048 };

    fn told(setting: &Setting, devices: Option<u32>) -> Vec<(String, String)> {
        match setting.check(&MODEL, devices) {
            Ok(()) => vec![],
            Err(d) => d.0.into_iter().map(|d| (d.message, d.help.unwrap_or_default())).collect(),
        }
    }

    #[test]
    fn impossible_settings_name_the_nearest_valid_one() {
        let base = Setting { global_batch: 32, ..Setting::default() };
        let help = |s: Setting| told(&s, None).into_iter().map(|t| t.1).collect::<Vec<_>>().join("; ");
        assert!(told(&base, Some(1)).is_empty());
        assert!(help(Setting { pipeline: 48, ..base.clone() }).contains("`--pipeline 24`"));
        assert!(help(Setting { tensor: 32, ..base.clone() }).contains("`--tensor 16`"));
        assert!(help(Setting { tensor: 3, ..base.clone() }).contains("`--tensor 2`"));
        assert!(help(Setting { data: 3, ..base.clone() }).contains("`--global-batch 33`"));
        assert!(help(Setting { pipeline: 8, schedule: Order::Interleaved(4), ..base.clone() }).contains("`--pipeline 6`"));
        assert!(help(Setting { pipeline: 4, schedule: Order::Interleaved(2), global_batch: 30, ..base.clone() }).contains("`--global-batch 32`"));
        assert!(help(Setting { expert: 4, ..base.clone() }).contains("leave `--expert` out"));
        assert!(told(&Setting { data: 3, global_batch: 33, ..base.clone() }, Some(8)).iter().any(|t| t.1.contains("`--data 8`")));
        assert!(help(Setting { sequence_parallel: true, ..base }).contains("--tensor 2"));
    }

    #[test]
    fn copies_of_grouped_state_are_outermost() {
        let s = Setting { data: 16, shard: Some(8), tensor: 2, zero: 3, ..Setting::default() };
        assert_eq!(s.mesh(), (vec![2, 8, 2], vec![Role::Data { zero: 0 }, Role::Data { zero: 3 }, Role::Tensor { sequence: false, spread: false }]));
    }
}
