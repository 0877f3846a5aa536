//! Decoders in LLaMA's manner: rotary positions, RMS norm before each block, gated linear units, no biases, keys and values shared by groups of heads.
//!
//! Touvron et al., "LLaMA" (2023); Ainslie et al., "GQA" (2023). Mistral adds a sliding window, Qwen2 biases of the projections, and Mixtral replaces the
//! gated unit by experts (Jiang et al., "Mixtral of Experts", 2024), here with a capacity and dispatched by products as GShard does (Lepikhin et al., 2020).
//! Qwen3 norms the heads of queries and keys, and its models with experts have many small ones (Qwen team, "Qwen3 Technical Report", 2025).

use crate::attention::{Scores, attention};
use crate::context::Context;
use crate::experts::{Experts, RouterLoss, Routing};
use crate::keys::Keys;
use crate::layers::{Activation, Linear, logits, rms_norm, table};
use ir::trace::{Initial, Tensor};
use ir::{DType, Literal, TensorType};

/// The shape of a decoder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decoder {
    pub(crate) vocabulary: u64,
    pub(crate) hidden: u64,
    pub(crate) inner: u64,
    pub(crate) layers: u64,
    pub(crate) heads: u64,
    pub(crate) kv_heads: u64,
    pub(crate) head_size: u64,
    /// Whether the heads of queries and keys are normed, each with the same weights.
    pub(crate) normed_heads: bool,
    pub(crate) activation: Activation,
    pub(crate) epsilon: f64,
    pub(crate) deviation: f64,
    pub(crate) rotary: Rotary,
    pub(crate) tied: bool,
    pub(crate) projection_bias: bool,
    pub(crate) output_bias: bool,
    pub(crate) mlp_bias: bool,
    pub(crate) window: Option<u64>,
    pub(crate) experts: Option<Routing>,
}

/// Frequencies of rotary positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rotary {
    pub(crate) theta: f64,
    pub(crate) scaling: Scaling,
}

/// How frequencies are stretched for sequences longer than those first trained on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scaling {
    None,
    /// All by one factor.
    Linear(f64),
    /// Low ones by the factor, high ones not at all, and smoothly between.
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        original: f64,
    },
}

#[derive(Clone, Copy)]
enum ScalingKind {
    None,
    Linear,
    Llama3,
}

impl Decoder {
    pub(crate) fn read(keys: &mut Keys<'_>, model_type: &str) -> Decoder {
        let hidden = keys.size(&["hidden_size"], "the hidden size");
        let heads = keys.size(&["num_attention_heads"], "the number of attention heads");
        let kv_heads = keys.optional_size(&["num_key_value_heads"]);
        let head_size = keys.optional_size(&["head_dim"]);
        let (second, third) = (model_type == "qwen2", model_type.starts_with("qwen3"));
        let (qwen, sparse) = (second || third, model_type == "qwen3_moe");
        let attention_bias = !second && keys.flag_or("attention_bias", false);
        let windowed = if qwen { keys.flag_or("use_sliding_window", false) } else { model_type != "llama" };
        let window = if windowed { keys.optional_size(&["sliding_window"]) } else { None };
        if qwen {
            keys.without_effect(&["sliding_window", "max_window_layers"]);
            if window.is_some() {
                keys.warn("use_sliding_window", "every layer has the sliding window here: `max_window_layers` is not modelled");
            }
        }
        let layers = keys.size(&["num_hidden_layers"], "the number of layers");
        let model = Decoder {
            vocabulary: keys.size(&["vocab_size"], "the number of tokens that are told apart"),
            hidden,
            inner: match sparse {
                true => keys.size(&["moe_intermediate_size"], "the inner size of an expert"),
                false => keys.size(&["intermediate_size"], "the inner size of the gated unit"),
            },
            layers,
            heads,
            kv_heads: kv_heads.unwrap_or(heads),
            head_size: head_size.unwrap_or(if third { 128 } else { (hidden / heads).max(1) }),
            normed_heads: third,
            activation: keys.choice_or(&["hidden_act"], Activation::NAMES, Activation::Silu),
            epsilon: keys.number_or(&["rms_norm_eps"], 1e-6),
            deviation: keys.number_or(&["initializer_range"], 0.02),
            rotary: Rotary { theta: keys.number_or(&["rope_theta"], if model_type == "mixtral" { 1e6 } else { 1e4 }), scaling: scaling(keys) },
            tied: keys.flag_or("tie_word_embeddings", false),
            projection_bias: second || attention_bias,
            output_bias: attention_bias,
            mlp_bias: model_type == "llama" && keys.flag_or("mlp_bias", false),
            window,
            experts: match model_type {
                "mixtral" => Some(experts(keys, "num_local_experts", true)),
                "qwen3_moe" => Some(experts(keys, "num_experts", false)),
                _ => None,
            },
        };
        if sparse {
            keys.without_effect(&["intermediate_size"]);
            if keys.count_or("decoder_sparse_step", 1) != 1 {
                keys.misfit(&["decoder_sparse_step"], "layers without experts between those with them are not modelled", "write `\"decoder_sparse_step\": 1`");
            }
            if !keys.is_empty_list("mlp_only_layers") {
                keys.misfit(&["mlp_only_layers"], "layers without experts between those with them are not modelled", "leave `mlp_only_layers` empty");
            }
        }
        if head_size.is_none() && !third {
            keys.divides((&["num_attention_heads"], heads), (&["hidden_size"], hidden));
        }
        keys.divides((&["num_key_value_heads"], model.kv_heads), (&["num_attention_heads"], heads));
        if model.head_size % 2 != 0 {
            let names: &[&str] = if head_size.is_some() { &["head_dim"] } else { &["num_attention_heads"] };
            keys.misfit(names, format!("heads of {} elements cannot be rotated in pairs", model.head_size), "use an even head size");
        }
        keys.without_effect(&["attention_dropout", "max_position_embeddings", "rope_scaling", "partial_rotary_factor", "router_jitter_noise"]);
        model
    }
}

fn scaling(keys: &mut Keys<'_>) -> Scaling {
    let Some(mut inner) = keys.inner("rope_scaling") else { return Scaling::None };
    let kinds = [("default", ScalingKind::None), ("linear", ScalingKind::Linear), ("llama3", ScalingKind::Llama3)];
    let kind = inner.choice_or(&["rope_type", "type"], &kinds, ScalingKind::None);
    let factor = inner.number_or(&["factor"], 1.0);
    let scaling = match kind {
        ScalingKind::None => Scaling::None,
        ScalingKind::Linear => Scaling::Linear(factor),
        ScalingKind::Llama3 => Scaling::Llama3 {
            factor,
            low: inner.number_or(&["low_freq_factor"], 1.0),
            high: inner.number_or(&["high_freq_factor"], 4.0),
            original: inner.number_or(&["original_max_position_embeddings"], 8192.0),
        },
    };
    keys.join(inner);
    scaling
}

/// The routing, with the key that counts experts; `renormalized` is what holds where `norm_topk_prob` does not say.
fn experts(keys: &mut Keys<'_>, count: &str, renormalized: bool) -> Routing {
    let routing = Routing {
        experts: keys.size(&[count], "the number of experts of a layer"),
        chosen: keys.size(&["num_experts_per_tok"], "to how many experts a token goes"),
        capacity_factor: keys.number_or(&["expert_capacity_factor"], 1.25),
        capacity: None,
        balance: keys.number_or(&["router_aux_loss_coef"], 0.001),
        logits: 0.0,
        renormalized: renormalized || keys.flag_or("norm_topk_prob", false),
    };
    if routing.chosen > routing.experts {
        let message = format!("`num_experts_per_tok` is {}, and there are {} experts", routing.chosen, routing.experts);
        keys.misfit(&["num_experts_per_tok"], message, "choose at most as many experts as there are");
    }
    routing
}

impl Rotary {
    /// Turns per position of each pair of elements of a head.
    fn frequencies(&self, size: u64) -> Vec<f64> {
        let turned = |i: u64| {
            let plain = self.theta.powf(-2.0 * i as f64 / size as f64);
            match self.scaling {
                Scaling::None => plain,
                Scaling::Linear(factor) => plain / factor,
                Scaling::Llama3 { factor, low, high, original } => {
                    let turns = original * plain / (2.0 * std::f64::consts::PI);
                    let kept = ((turns - low) / (high - low).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
                    plain * (kept + (1.0 - kept) / factor)
                }
            }
        };
        (0..size / 2).map(turned).collect()
    }

    /// `[batch, sequence, heads, size]` with pairs `(x[i], x[i + size/2])` turned by their position.
    fn turn(&self, x: &Tensor) -> Tensor {
        let t = x.tracer();
        let (length, size) = (x.dim(1), x.dim(3));
        let half = size / 2;
        let frequencies: Vec<u8> = self.frequencies(size).iter().flat_map(|f| (*f as f32).to_le_bytes()).collect();
        let frequencies = Literal::dense(TensorType::new(DType::F32, [half]), frequencies).expect("invariant: four bytes a frequency");
        let angles = t.iota(DType::F32, [length, half], 0) * t.constant(frequencies);
        let [cos, sin] = [angles.cos(), angles.sin()].map(|a| a.broadcast_in_dim([length, 1, half], &[0, 2]));
        let wide = x.convert(DType::F32);
        let (a, b) = (wide.slice_dim(3, 0, half), wide.slice_dim(3, half, size));
        let (first, second) = (&a * &cos - &b * &sin, &b * &cos + &a * &sin);
        first.concatenate(&[&second], 3).convert(x.dtype())
    }
}

impl Decoder {
    /// The forward pass up to the loss.
    pub(crate) fn trace(&self, ctx: &Context) -> Tensor {
        let (logits, router) = self.logits(ctx, &ctx.tokens("tokens"));
        let labels = ctx.tokens("labels");
        ctx.tracer.scope("head", || {
            let loss = logits.cross_entropy(&labels).mean_all();
            router.map_or(loss.clone(), |router| loss + router.mean(self.layers))
        })
    }

    /// Logits of the token after each, and the routers' own loss.
    pub(crate) fn logits(&self, ctx: &Context, tokens: &Tensor) -> (Tensor, Option<RouterLoss>) {
        let t = &ctx.tracer;
        let (x, words) = t.scope("embed", || {
            let words = table(t, "tokens", self.vocabulary, self.hidden, self.deviation);
            (words.embed(tokens), words)
        });
        let start = (x, self.experts.map(|_| RouterLoss::none(t, ctx.batch)));
        let (x, router) = ctx.repeat("layers.", self.layers, start, |(x, router)| self.layer(x, router));
        let logits = t.scope("head", || {
            let x = rms_norm("norm", &x, self.epsilon);
            logits(&x, self.tied.then_some(&words), self.vocabulary, self.deviation)
        });
        (logits, router)
    }

    fn layer(&self, x: Tensor, router: Option<RouterLoss>) -> (Tensor, Option<RouterLoss>) {
        let t = x.tracer().clone();
        let linear = |outputs: u64, bias: bool| Linear { outputs, bias, initial: Initial::Normal(self.deviation) };
        let mixed = t.scope("attention", || {
            let normed = rms_norm("norm", &x, self.epsilon);
            let heads = |name: &str, n: u64| linear(n * self.head_size, self.projection_bias).of(name, &normed).split_dim(2, &[n, self.head_size]);
            let (q, k, v) = (heads("query", self.heads), heads("key", self.kv_heads), heads("value", self.kv_heads));
            let (q, k) = match self.normed_heads {
                true => (rms_norm("query_norm", &q, self.epsilon), rms_norm("key_norm", &k, self.epsilon)),
                false => (q, k),
            };
            let scale = 1.0 / (self.head_size as f64).sqrt();
            let scores = Scores { scale, causal: true, window: self.window, bias: None };
            let o = attention(&self.rotary.turn(&q), &self.rotary.turn(&k), &v, &scores);
            linear(self.hidden, self.output_bias).of("output", &o.merge_dims(2, 3))
        });
        let x = x + mixed;
        t.scope("mlp", || {
            let normed = rms_norm("norm", &x, self.epsilon);
            let Some((routing, router)) = self.experts.zip(router) else {
                let gate = self.activation.of(&linear(self.inner, self.mlp_bias).of("gate", &normed));
                let up = linear(self.inner, self.mlp_bias).of("up", &normed);
                return (&x + linear(self.hidden, self.mlp_bias).of("down", &(gate * up)), None);
            };
            let unit = Experts { inner: self.inner, activation: self.activation, gated: true, initial: [Initial::Normal(self.deviation); 2] };
            let (fed, router) = routing.trace(&normed, &unit, self.deviation, router);
            (&x + fed, Some(router))
        })
    }
}
