//! GPT-2: learned positions, layer norm before each block, biases everywhere, a fused projection to queries, keys and values.
//!
//! Radford et al., "Language Models are Unsupervised Multitask Learners" (2019). GPT-3 has the same shape by the same keys.

use crate::attention::{Scores, attention};
use crate::context::Context;
use crate::keys::Keys;
use crate::layers::{Activation, Linear, layer_norm, logits, table};
use ir::trace::Tensor;

/// The shape of a GPT-2.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gpt2 {
    pub(crate) vocabulary: u64,
    pub(crate) positions: u64,
    pub(crate) hidden: u64,
    pub(crate) layers: u64,
    pub(crate) heads: u64,
    pub(crate) inner: u64,
    pub(crate) activation: Activation,
    pub(crate) epsilon: f64,
    pub(crate) deviation: f64,
    pub(crate) tied: bool,
}

impl Gpt2 {
    pub(crate) fn read(keys: &mut Keys<'_>) -> Gpt2 {
        let hidden = keys.size(&["n_embd", "hidden_size"], "the hidden size");
        let model = Gpt2 {
            vocabulary: keys.size(&["vocab_size"], "the number of tokens that are told apart"),
            positions: keys.size(&["n_positions", "max_position_embeddings"], "the longest sequence"),
            hidden,
            layers: keys.size(&["n_layer", "num_hidden_layers"], "the number of layers"),
            heads: keys.size(&["n_head", "num_attention_heads"], "the number of attention heads"),
            inner: keys.optional_size(&["n_inner"]).unwrap_or(4 * hidden),
            activation: keys.choice_or(&["activation_function"], Activation::NAMES, Activation::GeluTanh),
            epsilon: keys.number_or(&["layer_norm_epsilon"], 1e-5),
            deviation: keys.number_or(&["initializer_range"], 0.02),
            tied: keys.flag_or("tie_word_embeddings", true),
        };
        keys.divides((&["n_head", "num_attention_heads"], model.heads), (&["n_embd", "hidden_size"], hidden));
        keys.only_flag("scale_attn_weights", true);
        keys.only_flag("scale_attn_by_inverse_layer_idx", false);
        keys.only_flag("add_cross_attention", false);
        keys.without_effect(&["attn_pdrop", "embd_pdrop", "resid_pdrop", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout"]);
        keys.without_effect(&["summary_proj_to_labels", "summary_type", "summary_use_proj"]);
        model
    }
}

impl Gpt2 {
    /// The forward pass up to the loss.
    pub(crate) fn trace(&self, ctx: &Context) -> Tensor {
        let logits = self.logits(ctx, &ctx.tokens("tokens"));
        let labels = ctx.tokens("labels");
        ctx.tracer.scope("head", || logits.cross_entropy(&labels).mean_all())
    }

    /// Logits of the token after each.
    pub(crate) fn logits(&self, ctx: &Context, tokens: &Tensor) -> Tensor {
        let t = &ctx.tracer;
        let (x, words) = t.scope("embed", || {
            let words = table(t, "tokens", self.vocabulary, self.hidden, self.deviation);
            let places = table(t, "positions", self.positions, self.hidden, self.deviation).slice_dim(0, 0, ctx.sequence);
            (words.embed(tokens) + places, words)
        });
        let x = ctx.repeat("layers.", self.layers, x, |x| self.layer(x));
        t.scope("head", || {
            let x = layer_norm("norm", &x, self.epsilon);
            logits(&x, self.tied.then_some(&words), self.vocabulary, self.deviation)
        })
    }

    fn layer(&self, x: Tensor) -> Tensor {
        let t = x.tracer().clone();
        // What is added to the residual stream starts smaller the more layers add to it.
        let residual = self.deviation / (2.0 * self.layers as f64).sqrt();
        let mixed = t.scope("attention", || {
            let size = self.hidden / self.heads;
            let fused = Linear::biased(3 * self.hidden, self.deviation).of("query_key_value", &layer_norm("norm", &x, self.epsilon));
            let parts = fused.split_dim(2, &[3, self.heads, size]).split(2, &[1, 1, 1]);
            let [q, k, v] = [0, 1, 2].map(|i| parts[i].merge_dims(2, 3));
            let o = attention(&q, &k, &v, &Scores { scale: 1.0 / (size as f64).sqrt(), causal: true, ..Scores::default() });
            Linear::biased(self.hidden, residual).of("output", &o.merge_dims(2, 3))
        });
        let x = x + mixed;
        let fed = t.scope("mlp", || {
            let inner = Linear::biased(self.inner, self.deviation).of("up", &layer_norm("norm", &x, self.epsilon));
            Linear::biased(self.hidden, residual).of("down", &self.activation.of(&inner))
        });
        x + fed
    }
}
