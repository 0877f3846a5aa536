//! What a training step is traced for, beside the model: batch, sequence, element type, optimizer.

use ir::diagnostic::{Diagnostic, Diagnostics, Result, nearest};

/// Largest batch, sequence or depth.
const LARGEST: u64 = 1 << 24;

/// In what the forward and backward pass compute. Parameters and optimizer state are kept in `f32` in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// `f32` throughout.
    #[default]
    F32,
    /// `bf16`, with sums, norms, softmax and loss in `f32`.
    Bf16,
    /// As `bf16`, with a scaled loss so that small gradients are not lost.
    F16,
}

/// How parameters are updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptimizerKind {
    /// Adam with decoupled weight decay.
    #[default]
    AdamW,
    /// Adam.
    Adam,
    /// Stochastic gradient descent.
    Sgd,
    /// The same with momentum.
    Momentum,
}

/// Names of the element types.
const PRECISIONS: [(&str, Precision); 3] = [("f32", Precision::F32), ("bf16", Precision::Bf16), ("f16", Precision::F16)];
/// Names of the optimizers.
const OPTIMIZERS: [(&str, OptimizerKind); 4] =
    [("adamw", OptimizerKind::AdamW), ("adam", OptimizerKind::Adam), ("sgd", OptimizerKind::Sgd), ("momentum", OptimizerKind::Momentum)];

impl Precision {
    /// The one of that name.
    ///
    /// # Errors
    /// `E0140` names what there is.
    pub fn named(name: &str) -> Result<Precision> {
        named("element type", name, &PRECISIONS)
    }
}

impl OptimizerKind {
    /// The one of that name.
    ///
    /// # Errors
    /// `E0140` names what there is.
    pub fn named(name: &str) -> Result<OptimizerKind> {
        named("optimizer", name, &OPTIMIZERS)
    }
}

fn named<T: Copy>(what: &str, name: &str, known: &[(&str, T)]) -> Result<T> {
    if let Some((_, value)) = known.iter().find(|(n, _)| *n == name) {
        return Ok(*value);
    }
    let names: Vec<&str> = known.iter().map(|(n, _)| *n).collect();
    let help = nearest(name, names.iter().copied()).map_or(format!("use one of {}", names.join(", ")), |n| format!("did you mean `{n}`?"));
    Err(Diagnostic::input("E0140", format!("there is no {what} `{name}`")).with_note(format!("known are {}", names.join(", "))).with_help(help).into())
}

/// What a step is traced for.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Sequences (or images) of one step.
    pub global_batch: u64,
    /// Tokens of a sequence; a model of images has none.
    pub sequence: Option<u64>,
    /// In what the passes compute.
    pub precision: Precision,
    /// How parameters are updated.
    pub optimizer: OptimizerKind,
    /// The learning rate.
    pub learning_rate: f64,
    /// Gradients are scaled down to this global norm, where it is given.
    pub clip_norm: Option<f64>,
    /// How many of each run of repeated layers are traced; all by default.
    pub depth: Option<u32>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            global_batch: 8,
            sequence: None,
            precision: Precision::F32,
            optimizer: OptimizerKind::AdamW,
            learning_rate: 1e-3,
            clip_norm: Some(1.0),
            depth: None,
        }
    }
}

impl Settings {
    /// Everything that is wrong whatever the model.
    pub(crate) fn check(&self) -> Result<()> {
        let mut errors = Vec::new();
        let mut size = |what: &str, flag: &str, n: u64| {
            if n == 0 || n > LARGEST {
                errors.push(
                    Diagnostic::input("E0141", format!("a {what} of {n} makes no step"))
                        .with_note(format!("expected a whole number from 1 to {LARGEST}"))
                        .with_help(format!("for example `{flag} 8`")),
                );
            }
        };
        size("global batch", "--global-batch", self.global_batch);
        size("sequence", "--seq", self.sequence.unwrap_or(1));
        size("depth", "--depth", self.depth.map_or(1, u64::from));
        for (what, value) in [("learning rate", Some(self.learning_rate)), ("norm", self.clip_norm)] {
            if value.is_some_and(|v| !(v > 0.0 && v.is_finite())) {
                errors.push(Diagnostic::input("E0141", format!("the {what} is {}", value.unwrap_or_default())).with_note("expected a number above 0"));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(Diagnostics(errors)) }
    }
}
