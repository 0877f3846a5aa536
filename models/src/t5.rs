//! T5 and Switch Transformers: an encoder and a decoder, RMS norm before each block, no biases, and relative positions added to the attention scores.
//!
//! Raffel et al., "Exploring the Limits of Transfer Learning" (2019); Fedus et al., "Switch Transformers" (2021), where every other feed-forward block is a
//! layer of experts, of which a token takes one.

use crate::attention::{Scores, attention};
use crate::context::Context;
use crate::experts::{Experts, RouterLoss, Routing};
use crate::keys::Keys;
use crate::layers::{Activation, Linear, logits, rms_norm, table};
use ir::DType;
use ir::trace::{Initial, Tensor};

/// The shape of a T5.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct T5 {
    pub(crate) vocabulary: u64,
    pub(crate) hidden: u64,
    pub(crate) head_size: u64,
    pub(crate) inner: u64,
    pub(crate) heads: u64,
    pub(crate) encoder: Stack,
    pub(crate) decoder: Stack,
    pub(crate) buckets: u64,
    pub(crate) distance: u64,
    pub(crate) activation: Activation,
    pub(crate) gated: bool,
    pub(crate) epsilon: f64,
    pub(crate) factor: f64,
    pub(crate) tied: bool,
    pub(crate) routing: Option<Routing>,
}

/// The layers of an encoder or decoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stack {
    /// How many.
    pub(crate) layers: u64,
    /// Every how-manieth has experts, the last of each such group; 0 for none.
    pub(crate) every: u64,
}

impl T5 {
    pub(crate) fn read(keys: &mut Keys<'_>, model_type: &str) -> T5 {
        let layers = keys.size(&["num_layers", "num_hidden_layers"], "the number of layers of the encoder");
        let decoder_layers = keys.optional_size(&["num_decoder_layers"]).unwrap_or(layers);
        let switch = model_type == "switch_transformers";
        let mut stack = |layers: u64, key: &str| {
            let sparse = if switch { keys.count_or(key, 3) } else { 0 };
            if sparse > 0 && layers % sparse != 0 {
                let message = format!("`{key}` is {sparse}, which does not divide the {layers} layers there");
                keys.misfit(&[key], message, "layers with experts are evenly spread: use a divisor of the number of layers");
            }
            Stack { layers, every: layers.checked_div(sparse).unwrap_or(0) }
        };
        let encoder = stack(layers, "num_sparse_encoder_layers");
        let decoder = stack(decoder_layers, "num_sparse_decoder_layers");
        let forms = [("relu", (Activation::Relu, false)), ("gated-gelu", (Activation::GeluTanh, true)), ("gated-silu", (Activation::Silu, true))];
        let (activation, gated) = keys.choice_or(&["feed_forward_proj"], &forms, (Activation::Relu, false));
        let model = T5 {
            vocabulary: keys.size(&["vocab_size"], "the number of tokens that are told apart"),
            hidden: keys.size(&["d_model", "hidden_size"], "the hidden size"),
            head_size: keys.size(&["d_kv", "head_dim"], "the size of a head"),
            inner: keys.size(&["d_ff"], "the inner size of the feed-forward block"),
            heads: keys.size(&["num_heads", "num_attention_heads"], "the number of attention heads"),
            encoder,
            decoder,
            buckets: keys.optional_size(&["relative_attention_num_buckets"]).unwrap_or(32),
            distance: keys.optional_size(&["relative_attention_max_distance"]).unwrap_or(128),
            activation,
            gated,
            epsilon: keys.number_or(&["layer_norm_epsilon"], 1e-6),
            factor: keys.number_or(&["initializer_factor"], 1.0),
            tied: keys.flag_or("tie_word_embeddings", true),
            routing: switch.then(|| experts(keys)),
        };
        if model.buckets < 4 || model.buckets % 4 != 0 {
            let message = format!("`relative_attention_num_buckets` is {}", model.buckets);
            keys.misfit(&["relative_attention_num_buckets"], message, "use a multiple of 4: both directions have near and far distances");
        } else if model.distance <= model.buckets / 2 {
            let message = format!("`relative_attention_max_distance` is {}, and {} distances have buckets of their own", model.distance, model.buckets / 2);
            keys.misfit(&["relative_attention_max_distance"], message, "use a larger distance");
        }
        keys.without_effect(&["dropout_rate", "dense_act_fn", "is_gated_act", "n_positions", "add_router_probs", "router_bias", "router_dtype"]);
        keys.without_effect(&["router_jitter_noise", "router_ignore_padding_tokens", "router_type", "encoder_sparse_step", "decoder_sparse_step"]);
        model
    }
}

fn experts(keys: &mut Keys<'_>) -> Routing {
    Routing {
        experts: keys.size(&["num_experts"], "the number of experts of a layer"),
        chosen: 1,
        capacity_factor: 1.25,
        capacity: keys.optional_size(&["expert_capacity"]),
        balance: keys.number_or(&["router_aux_loss_coef"], 0.001),
        logits: keys.number_or(&["router_z_loss_coef"], 0.001),
        renormalized: false,
    }
}

/// What a layer of one of the stacks is given besides its input.
struct Around<'a> {
    /// Whether a token sees only those before it.
    causal: bool,
    /// The stack's table of biases, `[buckets, heads]`.
    table: &'a Tensor,
    /// The encoder's result, for a decoder.
    encoded: Option<&'a Tensor>,
}

impl T5 {
    /// The forward pass up to the loss.
    pub(crate) fn trace(&self, ctx: &Context) -> Tensor {
        let t = &ctx.tracer;
        let (tokens, inputs, labels) = (ctx.tokens("tokens"), ctx.tokens("inputs"), ctx.tokens("labels"));
        let loss = self.routing.map(|_| RouterLoss::none(t, ctx.batch));
        let (words, biases, x, y) = t.scope("embed", || {
            let words = table(t, "tokens", self.vocabulary, self.hidden, self.factor);
            let biases = ["encoder_bias", "decoder_bias"].map(|name| table(t, name, self.buckets, self.heads, self.factor / (self.hidden as f64).sqrt()));
            let (x, y) = (words.embed(&tokens), words.embed(&inputs));
            (words, biases, x, y)
        });
        let (encoded, loss) = self.stack(ctx, "encoder", self.encoder, (x, loss), &Around { causal: false, table: &biases[0], encoded: None });
        let encoded = t.scope("encoder.head", || rms_norm("norm", &encoded, self.epsilon));
        let (decoded, loss) = self.stack(ctx, "decoder", self.decoder, (y, loss), &Around { causal: true, table: &biases[1], encoded: Some(&encoded) });
        t.scope("head", || {
            let mut x = rms_norm("norm", &decoded, self.epsilon);
            if self.tied {
                x = x * (self.hidden as f64).powf(-0.5);
            }
            let logits = logits(&x, self.tied.then_some(&words), self.vocabulary, self.factor);
            let mean = logits.cross_entropy(&labels).mean_all();
            loss.map_or(mean.clone(), |loss| mean + loss.mean(self.encoder.sparse() + self.decoder.sparse()))
        })
    }

    /// The layers of a stack; where some have experts, what repeats is a group that ends with one of them.
    fn stack(&self, ctx: &Context, name: &str, stack: Stack, start: (Tensor, Option<RouterLoss>), around: &Around<'_>) -> (Tensor, Option<RouterLoss>) {
        let group = stack.every.max(1);
        ctx.repeat(&format!("{name}.layers."), stack.layers / group, start, |(mut x, mut loss)| {
            for i in 0..group {
                let sparse = stack.every > 0 && i + 1 == group;
                let block = || self.layer(x.clone(), loss.clone(), around, sparse);
                (x, loss) = if group > 1 { ctx.tracer.scope(format!("{i}"), block) } else { block() };
            }
            (x, loss)
        })
    }

    fn layer(&self, x: Tensor, loss: Option<RouterLoss>, around: &Around<'_>, sparse: bool) -> (Tensor, Option<RouterLoss>) {
        let t = x.tracer().clone();
        let mixed = t.scope("attention", || {
            let normed = rms_norm("norm", &x, self.epsilon);
            let bias = self.relative_bias(around.table, x.dim(1), around.causal);
            self.attend(&normed, &normed, Scores { scale: 1.0, causal: around.causal, window: None, bias: Some(bias) })
        });
        let mut x = x + mixed;
        if let Some(encoded) = around.encoded {
            let crossed = t.scope("cross_attention", || self.attend(&rms_norm("norm", &x, self.epsilon), encoded, Scores { scale: 1.0, ..Scores::default() }));
            x = x + crossed;
        }
        t.scope("mlp", || {
            let normed = rms_norm("norm", &x, self.epsilon);
            let into = self.factor / (self.hidden as f64).sqrt();
            let out = self.factor / (self.inner as f64).sqrt();
            match (self.routing.filter(|_| sparse), loss) {
                (Some(routing), Some(loss)) => {
                    let initial = [Initial::Normal(into), Initial::Normal(out)];
                    let unit = Experts { inner: self.inner, activation: self.activation, gated: self.gated, initial };
                    let (fed, loss) = routing.trace(&normed, &unit, self.factor, loss);
                    (&x + fed, Some(loss))
                }
                (_, loss) => {
                    let up = Linear::plain(self.inner, into).of("up", &normed);
                    let inner =
                        if self.gated { self.activation.of(&Linear::plain(self.inner, into).of("gate", &normed)) * up } else { self.activation.of(&up) };
                    (&x + Linear::plain(self.hidden, out).of("down", &inner), loss)
                }
            }
        })
    }

    fn attend(&self, x: &Tensor, to: &Tensor, scores: Scores) -> Tensor {
        let (hidden, width) = (self.hidden as f64, (self.heads * self.head_size) as f64);
        let heads = |name: &str, from: &Tensor, deviation: f64| {
            Linear::plain(self.heads * self.head_size, self.factor * deviation).of(name, from).split_dim(2, &[self.heads, self.head_size])
        };
        let q = heads("query", x, (hidden * self.head_size as f64).powf(-0.5));
        let (k, v) = (heads("key", to, hidden.powf(-0.5)), heads("value", to, hidden.powf(-0.5)));
        let o = attention(&q, &k, &v, &scores);
        Linear::plain(self.hidden, self.factor * width.powf(-0.5)).of("output", &o.merge_dims(2, 3))
    }

    /// Biases `[heads, queries, keys]` by how far a key is from its query: near distances have a bucket each, far ones share buckets that widen
    /// logarithmically, and beyond the greatest distance all are one.
    fn relative_bias(&self, table: &Tensor, sequence: u64, causal: bool) -> Tensor {
        let t = table.tracer();
        let shape = [sequence, sequence];
        let ahead = t.iota(DType::I32, shape, 1) - t.iota(DType::I32, shape, 0);
        // Both directions halve the buckets; a decoder looks back only.
        let side = if causal { self.buckets } else { self.buckets / 2 };
        let distance = if causal { (-&ahead).maximum(&ahead.full_like(0.0)) } else { ahead.abs() };
        let near = side / 2;
        let wide = distance.maximum(&distance.full_like(1.0)).convert(DType::F32);
        let far = (wide / near as f64).log() * ((side - near) as f64 / (self.distance as f64 / near as f64).ln());
        let far = far.floor().convert(DType::I32) + near as f64;
        let bucket = distance.less(&distance.full_like(near as f64)).select(&distance, &far.minimum(&far.full_like((side - 1) as f64)));
        let bucket = if causal { bucket } else { ahead.greater(&ahead.full_like(0.0)).select(&(&bucket + side as f64), &bucket) };
        t.scope("bias", || table.einsum("nh,qkn->hqk", &Tensor::one_hot(&bucket, self.buckets).convert(table.dtype())))
    }
}

impl Stack {
    /// How many layers have experts.
    fn sparse(self) -> u64 {
        self.layers.checked_div(self.every).unwrap_or(0)
    }
}
