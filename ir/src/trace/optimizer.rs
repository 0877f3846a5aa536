//! Optimizers: stochastic gradient descent, momentum, Adam, AdamW.
//!
//! Arithmetic is in `f32` whatever the parameter's type. Every tensor of state is elementwise linear in itself (`0.9·m + 0.1·g`), which is how it is
//! recognised as state by data flow.

use super::{Initial, Role, Tensor, Tracer};
use crate::dtype::DType;

/// What is done with a gradient.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// `p − r·g`.
    Sgd,
    /// `m = decay·m + g`, `p − r·m`; with `nesterov` `p − r·(decay·m + g)`.
    Momentum {
        /// How much of the momentum stays.
        decay: f64,
        /// Nesterov's form.
        nesterov: bool,
    },
    /// Adam (Kingma and Ba, 2015), with decoupled weight decay (Loshchilov and Hutter, 2019) where `weight_decay` is not zero.
    Adam {
        /// Decay of the mean of gradients.
        beta1: f64,
        /// Decay of the mean of their squares.
        beta2: f64,
        /// What is added to the root.
        epsilon: f64,
        /// How much of a parameter goes in a step, times the learning rate.
        weight_decay: f64,
        /// Which parameters decay.
        decay: Decay,
    },
}

/// Which parameters weight decay applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decay {
    /// All of them.
    All,
    /// Those of two dimensions or more: neither biases nor scales.
    Matrices,
}

/// The learning rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// One number.
    Constant(f64),
    /// Linear from 0 to `peak` in `warmup` steps, then half a cosine to `floor` at step `total`.
    WarmupCosine {
        /// The greatest rate.
        peak: f64,
        /// Steps to it.
        warmup: u32,
        /// All steps.
        total: u32,
        /// The last rate.
        floor: f64,
    },
}

impl Rate {
    /// The rate in step `t`, an `f32` scalar that begins at 1.
    #[track_caller]
    fn at(self, t: &Tensor) -> Tensor {
        match self {
            Rate::Constant(rate) => t.full_like(rate),
            Rate::WarmupCosine { peak, warmup, total, floor } => {
                let rising = t * (peak / f64::from(warmup.max(1)));
                let share = ((t - f64::from(warmup)) / f64::from(total.saturating_sub(warmup).max(1))).clamp(0.0, 1.0);
                let falling = ((share * std::f64::consts::PI).cos() + 1.0) * ((peak - floor) / 2.0) + floor;
                t.less(&t.full_like(f64::from(warmup))).select(&rising, &falling)
            }
        }
    }
}

/// An optimizer.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimizer {
    /// What is done with a gradient.
    pub rule: Rule,
    /// The learning rate.
    pub rate: Rate,
}

impl Optimizer {
    /// Stochastic gradient descent.
    pub fn sgd(rate: f64) -> Optimizer {
        Optimizer { rule: Rule::Sgd, rate: Rate::Constant(rate) }
    }
    /// Gradient descent with momentum.
    pub fn momentum(rate: f64, decay: f64) -> Optimizer {
        Optimizer { rule: Rule::Momentum { decay, nesterov: false }, rate: Rate::Constant(rate) }
    }
    /// Adam with the usual constants.
    pub fn adam(rate: f64) -> Optimizer {
        let rule = Rule::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0, decay: Decay::All };
        Optimizer { rule, rate: Rate::Constant(rate) }
    }
    /// AdamW with the constants that language models are trained with; matrices decay.
    pub fn adamw(rate: f64) -> Optimizer {
        let rule = Rule::Adam { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1, decay: Decay::Matrices };
        Optimizer { rule, rate: Rate::Constant(rate) }
    }
    /// With another learning rate.
    #[must_use]
    pub fn at_rate(self, rate: Rate) -> Optimizer {
        Optimizer { rate, ..self }
    }
    /// What all parameters share in step `t`, an `f32` scalar that begins at 1.
    #[track_caller]
    pub(super) fn shared(&self, t: &Tensor) -> Shared {
        let correction = |beta: f64| 1.0 - t.full_like(beta).power(t);
        let corrections = match self.rule {
            Rule::Adam { beta1, beta2, .. } => Some([correction(beta1), correction(beta2)]),
            Rule::Sgd | Rule::Momentum { .. } => None,
        };
        Shared { rate: self.rate.at(t), corrections }
    }
    /// The new value of a parameter, and state with its new values.
    #[track_caller]
    pub(super) fn update(&self, tracer: &Tracer, parameter: &Tensor, gradient: &Tensor, shared: &Shared) -> (Tensor, Vec<(Tensor, Tensor)>) {
        let name = parameter.name();
        let state = |what: &str| {
            let ty = parameter.ty().with_dtype(DType::F32);
            tracer.in_scope(name.clone(), || tracer.argument(what, ty, Role::State, Initial::Zeros))
        };
        let old = parameter.convert(DType::F32);
        let g = gradient.convert(DType::F32);
        let (new, state) = match &self.rule {
            Rule::Sgd => (&old - &g * &shared.rate, vec![]),
            Rule::Momentum { decay, nesterov } => {
                let m = state("momentum");
                let next = &m * *decay + &g;
                let direction = if *nesterov { &next * *decay + &g } else { next.clone() };
                (&old - direction * &shared.rate, vec![(m, next)])
            }
            Rule::Adam { beta1, beta2, epsilon, weight_decay, decay } => {
                let (m, v) = (state("m"), state("v"));
                let mean = &m * *beta1 + &g * (1.0 - beta1);
                let square = &v * *beta2 + &g * &g * (1.0 - beta2);
                let direction = match &shared.corrections {
                    Some([first, second]) => (&mean / first) / ((&square / second).sqrt() + *epsilon),
                    None => mean.clone(),
                };
                let decays = *weight_decay != 0.0 && (*decay == Decay::All || parameter.rank() > 1);
                let direction = if decays { direction + &old * *weight_decay } else { direction };
                (&old - direction * &shared.rate, vec![(m, mean), (v, square)])
            }
        };
        (new.convert(parameter.dtype()), state)
    }
}

/// What all parameters' updates share.
pub(super) struct Shared {
    rate: Tensor,
    /// What Adam's means are divided by, since they begin at zero.
    corrections: Option<[Tensor; 2]>,
}
