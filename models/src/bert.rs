//! BERT, trained on masked tokens: learned positions and token types, layer norm after each block, a head tied to the embedding.
//!
//! Devlin et al., "BERT" (2018), without the next-sentence task.

use crate::attention::{Scores, attention};
use crate::context::Context;
use crate::keys::Keys;
use crate::layers::{Activation, Linear, layer_norm, logits, table};
use ir::DType;
use ir::trace::{Initial, Tensor};

/// The shape of a BERT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bert {
    pub(crate) vocabulary: u64,
    pub(crate) positions: u64,
    pub(crate) types: u64,
    pub(crate) hidden: u64,
    pub(crate) inner: u64,
    pub(crate) layers: u64,
    pub(crate) heads: u64,
    pub(crate) activation: Activation,
    pub(crate) epsilon: f64,
    pub(crate) deviation: f64,
    pub(crate) tied: bool,
}

impl Bert {
    pub(crate) fn read(keys: &mut Keys<'_>) -> Bert {
        let model = Bert {
            vocabulary: keys.size(&["vocab_size"], "the number of tokens that are told apart"),
            positions: keys.size(&["max_position_embeddings"], "the longest sequence"),
            types: keys.optional_size(&["type_vocab_size"]).unwrap_or(2),
            hidden: keys.size(&["hidden_size"], "the hidden size"),
            inner: keys.size(&["intermediate_size"], "the inner size of the feed-forward block"),
            layers: keys.size(&["num_hidden_layers"], "the number of layers"),
            heads: keys.size(&["num_attention_heads"], "the number of attention heads"),
            activation: keys.choice_or(&["hidden_act"], Activation::NAMES, Activation::Gelu),
            epsilon: keys.number_or(&["layer_norm_eps"], 1e-12),
            deviation: keys.number_or(&["initializer_range"], 0.02),
            tied: keys.flag_or("tie_word_embeddings", true),
        };
        keys.divides((&["num_attention_heads"], model.heads), (&["hidden_size"], model.hidden));
        keys.choice_or(&["position_embedding_type"], &[("absolute", ())], ());
        keys.without_effect(&["attention_probs_dropout_prob", "hidden_dropout_prob", "classifier_dropout", "directionality"]);
        keys.without_effect(&["pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"]);
        model
    }
}

impl Bert {
    /// The forward pass up to the loss, which is the mean over the tokens whose label is not negative.
    pub(crate) fn trace(&self, ctx: &Context) -> Tensor {
        let t = &ctx.tracer;
        let (tokens, types, labels) = (ctx.tokens("tokens"), ctx.tokens("types"), ctx.tokens("labels"));
        let (x, words) = t.scope("embed", || {
            let rows = |name: &str, n: u64| table(t, name, n, self.hidden, self.deviation);
            let words = rows("tokens", self.vocabulary);
            let places = rows("positions", self.positions).slice_dim(0, 0, ctx.sequence);
            let kinds = Tensor::one_hot(&types, self.types).convert(words.dtype()).einsum("bst,th->bsh", &rows("types", self.types));
            (layer_norm("norm", &(words.embed(&tokens) + kinds + places), self.epsilon), words)
        });
        let x = ctx.repeat("layers.", self.layers, x, |x| self.layer(x));
        t.scope("head", || {
            let x = self.activation.of(&Linear::biased(self.hidden, self.deviation).of("transform", &x));
            let x = layer_norm("norm", &x, self.epsilon);
            let logits = logits(&x, self.tied.then_some(&words), self.vocabulary, self.deviation);
            let logits = logits + t.parameter("logits_bias", [self.vocabulary], Initial::Zeros);
            let trained = labels.greater_equal(&labels.full_like(0.0)).convert(DType::F32);
            let each = logits.cross_entropy(&labels.maximum(&labels.full_like(0.0)));
            let count = trained.sum_all();
            (each * trained).sum_all() / count.maximum(&count.full_like(1.0))
        })
    }

    fn layer(&self, x: Tensor) -> Tensor {
        let t = x.tracer().clone();
        let linear = |outputs: u64| Linear::biased(outputs, self.deviation);
        let x = t.scope("attention", || {
            let size = self.hidden / self.heads;
            let [q, k, v] = ["query", "key", "value"].map(|name| linear(self.hidden).of(name, &x).split_dim(2, &[self.heads, size]));
            let o = attention(&q, &k, &v, &Scores { scale: 1.0 / (size as f64).sqrt(), ..Scores::default() });
            layer_norm("norm", &(&x + linear(self.hidden).of("output", &o.merge_dims(2, 3))), self.epsilon)
        });
        t.scope("mlp", || {
            let inner = self.activation.of(&linear(self.inner).of("up", &x));
            layer_norm("norm", &(&x + linear(self.hidden).of("down", &inner)), self.epsilon)
        })
    }
}
