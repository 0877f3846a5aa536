//! What the families are built of: projections, norms, activations, embeddings, losses.
//!
//! Norms, softmax and losses compute in `f32` whatever the model computes in. Whatever has parameters has a scope, so that names are paths.

use ir::trace::{Initial, Tensor, Tracer};

/// Elementwise functions of feed-forward blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    Gelu,
    /// GELU by the hyperbolic tangent.
    GeluTanh,
    Relu,
    Silu,
    Tanh,
}

impl Activation {
    /// What configurations call them.
    pub(crate) const NAMES: &'static [(&'static str, Activation)] = &[
        ("gelu", Activation::Gelu),
        ("gelu_new", Activation::GeluTanh),
        ("gelu_pytorch_tanh", Activation::GeluTanh),
        ("gelu_fast", Activation::GeluTanh),
        ("relu", Activation::Relu),
        ("silu", Activation::Silu),
        ("swish", Activation::Silu),
        ("tanh", Activation::Tanh),
    ];

    pub(crate) fn of(self, x: &Tensor) -> Tensor {
        match self {
            Activation::Gelu => x.gelu_erf(),
            Activation::GeluTanh => x.gelu(),
            Activation::Relu => x.relu(),
            Activation::Silu => x.silu(),
            Activation::Tanh => x.tanh(),
        }
    }
}

/// A projection of the last dimension, in a scope of its own: `weight`, `bias`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linear {
    pub(crate) outputs: u64,
    pub(crate) bias: bool,
    pub(crate) initial: Initial,
}

impl Linear {
    /// With a bias, from normally distributed weights.
    pub(crate) fn biased(outputs: u64, deviation: f64) -> Linear {
        Linear { outputs, bias: true, initial: Initial::Normal(deviation) }
    }
    /// Without a bias.
    pub(crate) fn plain(outputs: u64, deviation: f64) -> Linear {
        Linear { outputs, bias: false, initial: Initial::Normal(deviation) }
    }
    /// Traces it.
    pub(crate) fn of(self, name: &str, x: &Tensor) -> Tensor {
        let t = x.tracer().clone();
        t.scope(name, || {
            let weight = t.parameter("weight", [x.dim(-1), self.outputs], self.initial);
            let y = x.matmul(&weight);
            if self.bias { y + t.parameter("bias", [self.outputs], Initial::Zeros) } else { y }
        })
    }
}

/// Layer norm over the last dimension.
pub(crate) fn layer_norm(name: &str, x: &Tensor, epsilon: f64) -> Tensor {
    let t = x.tracer().clone();
    t.scope(name, || {
        let size = x.dim(-1);
        let weight = t.parameter("weight", [size], Initial::Ones);
        x.layer_norm(&weight, &t.parameter("bias", [size], Initial::Zeros), epsilon)
    })
}

/// RMS norm over the last dimension.
pub(crate) fn rms_norm(name: &str, x: &Tensor, epsilon: f64) -> Tensor {
    let t = x.tracer().clone();
    t.scope(name, || x.rms_norm(&t.parameter("weight", [x.dim(-1)], Initial::Ones), epsilon))
}

/// A learned table of rows, in a scope of its own.
pub(crate) fn table(t: &Tracer, name: &str, rows: u64, size: u64, deviation: f64) -> Tensor {
    t.scope(name, || t.parameter("weight", [rows, size], Initial::Normal(deviation)))
}

/// Logits by the transposed embedding, or by a head of its own.
pub(crate) fn logits(x: &Tensor, tied: Option<&Tensor>, vocabulary: u64, deviation: f64) -> Tensor {
    match tied {
        Some(table) => x.tracer().clone().scope("logits", || x.einsum("bsh,vh->bsv", table)),
        None => Linear::plain(vocabulary, deviation).of("logits", x),
    }
}
