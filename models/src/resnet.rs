//! Wide residual networks: bottleneck blocks in four stages, the 3x3 convolution wider by a factor.
//!
//! He et al., "Deep Residual Learning" (2015); Zagoruyko and Komodakis, "Wide Residual Networks" (2016). Batch norm is over the whole batch.

use crate::context::Context;
use crate::keys::Keys;
use crate::layers::Linear;
use ir::DType;
use ir::trace::{Convolve, Initial, Tensor};

/// The shape of a wide residual network.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResNet {
    pub(crate) image: u64,
    pub(crate) channels: u64,
    pub(crate) classes: u64,
    pub(crate) stem: u64,
    pub(crate) depths: Vec<u64>,
    pub(crate) widths: Vec<u64>,
    pub(crate) factor: u64,
    pub(crate) epsilon: f64,
}

impl ResNet {
    pub(crate) fn read(keys: &mut Keys<'_>) -> ResNet {
        let model = ResNet {
            image: keys.size(&["image_size"], "the width and height of an image"),
            channels: keys.optional_size(&["num_channels"]).unwrap_or(3),
            classes: keys.optional_size(&["num_labels"]).unwrap_or(1000),
            stem: keys.size(&["embedding_size"], "the channels after the first convolution"),
            depths: keys.sizes("depths", "the number of blocks of each stage"),
            widths: keys.sizes("hidden_sizes", "the channels after each stage"),
            factor: keys.optional_size(&["width_factor"]).unwrap_or(2),
            epsilon: keys.number_or(&["batch_norm_eps"], 1e-5),
        };
        if model.depths.len() != model.widths.len() {
            let message = format!("`depths` has {} stages and `hidden_sizes` {}", model.depths.len(), model.widths.len());
            keys.misfit(&["hidden_sizes"], message, "state both for every stage");
        }
        for width in &model.widths {
            if width % 4 != 0 {
                keys.misfit(&["hidden_sizes"], format!("{width} channels have no quarter"), "use multiples of 4: the inner convolution has a quarter of them");
            }
        }
        let stages = model.depths.len() as u32;
        if stages > 8 || model.image >> (stages + 1).min(63) == 0 {
            let message = format!("an image of {0}x{0} is halved {1} times", model.image, stages + 1);
            keys.misfit(&["image_size"], message, "use a larger image or fewer stages");
        }
        keys.choice_or(&["layer_type"], &[("bottleneck", ())], ());
        keys.choice_or(&["hidden_act"], &[("relu", ())], ());
        keys.only_flag("downsample_in_first_stage", false);
        keys.only_flag("downsample_in_bottleneck", false);
        model
    }
}

/// A convolution without bias that halves by its stride, then batch norm.
struct Convolution {
    size: u64,
    stride: u64,
    outputs: u64,
}

impl ResNet {
    /// The forward pass up to the loss.
    pub(crate) fn trace(&self, ctx: &Context) -> Tensor {
        let t = &ctx.tracer;
        let images = t.data("images", DType::F32, [ctx.batch, self.image, self.image, self.channels]);
        let labels = t.data("labels", DType::I32, [ctx.batch]);
        let mut x = t.scope("embed", || {
            let x = self.convolve("stem", &images.convert(t.compute_dtype()), &Convolution { size: 7, stride: 2, outputs: self.stem }).relu();
            x.max_pool(&[3, 3], &[2, 2], &[(1, 1), (1, 1)])
        });
        for (k, (&width, &depth)) in self.widths.iter().zip(&self.depths).enumerate() {
            let stride = if k == 0 { 1 } else { 2 };
            x = t.scope(format!("stages.{k}.entry"), || self.block(&x, width, stride, true));
            x = ctx.repeat(&format!("stages.{k}.layers."), depth - 1, x, |x| self.block(&x, width, 1, false));
        }
        t.scope("head", || {
            let pooled = x.convert(DType::F32).mean(&[1, 2]).convert(x.dtype());
            let bound = 1.0 / (pooled.dim(-1) as f64).sqrt();
            let linear = Linear { outputs: self.classes, bias: true, initial: Initial::Uniform(bound) };
            linear.of("classes", &pooled).cross_entropy(&labels).mean_all()
        })
    }

    fn block(&self, x: &Tensor, width: u64, stride: u64, entry: bool) -> Tensor {
        let inner = width / 4 * self.factor;
        let narrow = self.convolve("reduce", x, &Convolution { size: 1, stride: 1, outputs: inner }).relu();
        let middle = self.convolve("middle", &narrow, &Convolution { size: 3, stride, outputs: inner }).relu();
        let wide = self.convolve("expand", &middle, &Convolution { size: 1, stride: 1, outputs: width });
        let shortcut = if entry { self.convolve("shortcut", x, &Convolution { size: 1, stride, outputs: width }) } else { x.clone() };
        (wide + shortcut).relu()
    }

    fn convolve(&self, name: &str, x: &Tensor, c: &Convolution) -> Tensor {
        let t = x.tracer().clone();
        t.scope(name, || {
            let inputs = x.dim(-1);
            // He et al.: variance 2 over the number of outputs a weight adds to.
            let deviation = (2.0 / (c.size * c.size * c.outputs) as f64).sqrt();
            let weight = t.parameter("weight", [c.size, c.size, inputs, c.outputs], Initial::Normal(deviation));
            let y = x.convolve(&weight, &Convolve::new(2, (c.size / 2) as i64).stride(c.stride));
            t.scope("norm", || self.batch_norm(&y))
        })
    }

    /// Normalized over the whole batch and all places.
    fn batch_norm(&self, x: &Tensor) -> Tensor {
        let t = x.tracer().clone();
        let wide = x.convert(DType::F32);
        let over = [0, 1, 2];
        let centred = &wide - wide.mean(&over).unreduce(&wide, &over);
        let scale = (centred.square().mean(&over) + self.epsilon).rsqrt().unreduce(&wide, &over);
        let features = [x.dim(-1)];
        let normal = (centred * scale).convert(x.dtype());
        normal * t.parameter("weight", features, Initial::Ones) + t.parameter("bias", features, Initial::Zeros)
    }
}
