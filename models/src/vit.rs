//! Vision transformers: an image is cut into patches, each a token; a class token's last state is classified.
//!
//! Dosovitskiy et al., "An Image is Worth 16x16 Words" (2020).

use crate::attention::{Scores, attention};
use crate::context::Context;
use crate::keys::Keys;
use crate::layers::{Activation, Linear, layer_norm, table};
use ir::DType;
use ir::trace::{Initial, Tensor};

/// The shape of a vision transformer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Vit {
    pub(crate) image: u64,
    pub(crate) patch: u64,
    pub(crate) channels: u64,
    pub(crate) classes: u64,
    pub(crate) hidden: u64,
    pub(crate) inner: u64,
    pub(crate) layers: u64,
    pub(crate) heads: u64,
    pub(crate) activation: Activation,
    pub(crate) epsilon: f64,
    pub(crate) deviation: f64,
    pub(crate) projection_bias: bool,
}

impl Vit {
    pub(crate) fn read(keys: &mut Keys<'_>) -> Vit {
        let model = Vit {
            image: keys.size(&["image_size"], "the width and height of an image"),
            patch: keys.size(&["patch_size"], "the width and height of a patch"),
            channels: keys.optional_size(&["num_channels"]).unwrap_or(3),
            classes: keys.optional_size(&["num_labels"]).unwrap_or(1000),
            hidden: keys.size(&["hidden_size"], "the hidden size"),
            inner: keys.size(&["intermediate_size"], "the inner size of the feed-forward block"),
            layers: keys.size(&["num_hidden_layers"], "the number of layers"),
            heads: keys.size(&["num_attention_heads"], "the number of attention heads"),
            activation: keys.choice_or(&["hidden_act"], Activation::NAMES, Activation::Gelu),
            epsilon: keys.number_or(&["layer_norm_eps"], 1e-12),
            deviation: keys.number_or(&["initializer_range"], 0.02),
            projection_bias: keys.flag_or("qkv_bias", true),
        };
        keys.divides((&["num_attention_heads"], model.heads), (&["hidden_size"], model.hidden));
        keys.divides((&["patch_size"], model.patch), (&["image_size"], model.image));
        keys.without_effect(&["attention_probs_dropout_prob", "hidden_dropout_prob", "encoder_stride", "pooler_act", "pooler_output_size"]);
        model
    }
}

impl Vit {
    /// The forward pass up to the loss.
    pub(crate) fn trace(&self, ctx: &Context) -> Tensor {
        let t = &ctx.tracer;
        let images = t.data("images", DType::F32, [ctx.batch, self.image, self.image, self.channels]);
        let labels = t.data("labels", DType::I32, [ctx.batch]);
        let x = t.scope("embed", || {
            let side = self.image / self.patch;
            let pieces = images.convert(t.compute_dtype()).reshape([ctx.batch, side, self.patch, side, self.patch, self.channels]);
            let patches = pieces.transpose(&[0, 1, 3, 2, 4, 5]).reshape([ctx.batch, side * side, self.patch * self.patch * self.channels]);
            let patches = Linear::biased(self.hidden, self.deviation).of("patches", &patches);
            let class = t.parameter("class", [1, 1, self.hidden], Initial::Zeros).broadcast_to(&[ctx.batch, 1, self.hidden]);
            let places = table(t, "positions", side * side + 1, self.hidden, self.deviation);
            class.concatenate(&[&patches], 1) + places
        });
        let x = ctx.repeat("layers.", self.layers, x, |x| self.layer(x));
        t.scope("head", || {
            let class = x.slice_dim(1, 0, 1).reshape([ctx.batch, self.hidden]);
            let logits = Linear::biased(self.classes, self.deviation).of("classes", &layer_norm("norm", &class, self.epsilon));
            logits.cross_entropy(&labels).mean_all()
        })
    }

    fn layer(&self, x: Tensor) -> Tensor {
        let t = x.tracer().clone();
        let linear = |outputs: u64, bias: bool| Linear { outputs, bias, initial: Initial::Normal(self.deviation) };
        let mixed = t.scope("attention", || {
            let size = self.hidden / self.heads;
            let normed = layer_norm("norm", &x, self.epsilon);
            let heads = |name: &str| linear(self.hidden, self.projection_bias).of(name, &normed).split_dim(2, &[self.heads, size]);
            let [q, k, v] = ["query", "key", "value"].map(heads);
            let o = attention(&q, &k, &v, &Scores { scale: 1.0 / (size as f64).sqrt(), ..Scores::default() });
            linear(self.hidden, true).of("output", &o.merge_dims(2, 3))
        });
        let x = x + mixed;
        let fed = t.scope("mlp", || {
            let inner = self.activation.of(&linear(self.inner, true).of("up", &layer_norm("norm", &x, self.epsilon)));
            linear(self.hidden, true).of("down", &inner)
        });
        x + fed
    }
}
