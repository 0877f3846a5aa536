//! The whole training step: gradients, loss scaling, clipping, the optimizer's update, and the order of arguments and results.
//!
//! Arguments are parameters, state, batch; results are new parameters, new state, the loss. Every result that replaces an argument has its type, follows
//! from it elementwise, and says so by an aliasing attribute, so state is found without flags.

use super::optimizer::Optimizer;
use super::{Argument, Initial, Role, Tensor, Tracer, pullback};
use crate::diagnostic::{Diagnostic, Result};
use crate::dtype::{DType, TensorType};
use crate::graph::Module;
use crate::interp;
use crate::op::ValueId;
use std::collections::BTreeMap;

/// By what the loss is multiplied before it is differentiated, so that small gradients in `f16` are not lost; gradients are divided by it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossScale {
    /// One.
    None,
    /// A number; an update with gradients that are not finite is skipped.
    Static(f64),
    /// State: halved when gradients are not finite (the update is skipped), doubled after so many good steps.
    Dynamic {
        /// The first scale.
        initial: f64,
        /// Good steps until it is doubled.
        interval: u32,
    },
}

impl LossScale {
    /// The usual dynamic scale of `f16`.
    pub fn dynamic() -> LossScale {
        LossScale::Dynamic { initial: 32_768.0, interval: 2000 }
    }
}

/// How a step trains.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    /// The optimizer.
    pub optimizer: Optimizer,
    /// The greatest norm of all gradients together.
    pub clip: Option<f64>,
    /// The loss scale.
    pub scale: LossScale,
}

impl Training {
    /// With an optimizer, and neither clipping nor loss scaling.
    pub fn new(optimizer: Optimizer) -> Training {
        Training { optimizer, clip: None, scale: LossScale::None }
    }
    /// With gradients clipped to this norm of all together.
    #[must_use]
    pub fn clipped(self, norm: f64) -> Training {
        Training { clip: Some(norm), ..self }
    }
    /// With a loss scale.
    #[must_use]
    pub fn scaled(self, scale: LossScale) -> Training {
        Training { scale, ..self }
    }
}

/// A traced training step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its function `main`.
    pub module: Module,
    /// The function's arguments, in its order.
    pub arguments: Vec<Argument>,
    /// Which result is the loss.
    pub loss: u32,
}

impl Step {
    /// The arguments of a first step: parameters and state as they begin, data zero. The same for the same seed.
    pub fn initial(&self, seed: u64) -> Vec<interp::Tensor> {
        let of = |(i, a): (usize, &Argument)| a.initial.sample(&a.ty, seed.wrapping_mul(1_000_003).wrapping_add(i as u64));
        self.arguments.iter().enumerate().map(of).collect()
    }
}

/// The root of the sum of all squares, in `f32`.
#[track_caller]
pub fn global_norm(gradients: &[Tensor]) -> Option<Tensor> {
    sum_of_squares(gradients).map(|s| s.sqrt())
}

#[track_caller]
fn sum_of_squares(gradients: &[Tensor]) -> Option<Tensor> {
    let squares = gradients.iter().map(|g| {
        let wide = g.convert(DType::F32);
        (&wide * &wide).sum_all()
    });
    squares.reduce(|a, b| a + b)
}

/// Gradients scaled down so that their norm, all together, is at most `most`; and the norm that they had.
#[track_caller]
pub fn clip_by_global_norm(gradients: &[Tensor], most: f64) -> (Vec<Tensor>, Option<Tensor>) {
    let Some(norm) = global_norm(gradients) else { return (Vec::new(), None) };
    let factor = (most / &norm).minimum(&norm.full_like(1.0));
    (gradients.iter().map(|g| g * factor.convert(g.dtype())).collect(), Some(norm))
}

/// The training step of a traced loss, a scalar: differentiated with respect to all parameters of the tracer.
///
/// # Errors
/// The first error of the trace.
#[track_caller]
pub fn training_step(tracer: &Tracer, loss: &Tensor, training: &Training) -> Result<Step> {
    if loss.rank() != 0 || !loss.dtype().is_float() {
        let d = Diagnostic::input("E1003", format!("the loss is {}, no floating-point scalar", loss.ty()));
        tracer.fail(d.with_help("reduce it, for example with `mean_all`"));
    }
    let parameters = tracer.arguments_of(Role::Parameter);
    let mut next: BTreeMap<ValueId, Tensor> = tracer.carried();
    let step = tracer.step_count();
    let scale = Scale::new(tracer, training.scale);
    let seed = scale.as_ref().map_or_else(|| loss.full_like(1.0), |s| s.factor.convert(loss.dtype()));
    let mut gradients: Vec<Tensor> = pullback(&[(loss.clone(), seed)], &parameters).iter().map(|g| g.convert(DType::F32)).collect();
    if let Some(scale) = &scale {
        let inverse = 1.0 / &scale.factor;
        gradients = gradients.iter().map(|g| g * &inverse).collect();
    }
    let update = || {
        let norm = (training.clip.is_some() || scale.is_some()).then(|| global_norm(&gradients)).flatten();
        if let (Some(most), Some(norm)) = (training.clip, &norm) {
            let factor = (most / norm).minimum(&norm.full_like(1.0));
            gradients = gradients.iter().map(|g| g * &factor).collect();
        }
        let finite = norm.filter(|_| scale.is_some()).map(|n| n.is_finite());
        let count = &step + 1.0;
        (finite, training.optimizer.shared(&count.convert(DType::F32)), count)
    };
    let (finite, shared, count) = tracer.in_scope("update".into(), update);
    next.insert(step.value(), count);
    for (parameter, gradient) in parameters.iter().zip(&gradients) {
        let (new, state) = tracer.in_scope(format!("{}/update", parameter.name()), || training.optimizer.update(tracer, parameter, gradient, &shared));
        next.insert(parameter.value(), new);
        next.extend(state.into_iter().map(|(old, new)| (old.value(), new)));
    }
    let all: Vec<Tensor> = [Role::Parameter, Role::State].into_iter().flat_map(|r| tracer.arguments_of(r)).collect();
    let mut results = Vec::new();
    for old in &all {
        let mut new = next.get(&old.value()).cloned().unwrap_or_else(|| old.clone());
        tracer.in_scope(format!("{}/update", old.name()), || {
            let own = scale.as_ref().and_then(|s| finite.as_ref().and_then(|f| s.next(old, f)));
            new = match (own, &finite) {
                (Some(own), _) => own,
                (None, Some(finite)) => finite.select(&new, old),
                (None, None) => new.clone(),
            };
        });
        let _ = new.named_in_full(&format!("{}/new", old.name()));
        if new.ty() != old.ty() {
            tracer.fail(Diagnostic::input("E1004", format!("the state `{}` is {}, and becomes {}", old.name(), old.ty(), new.ty())));
        }
        results.push((old.name(), new));
    }
    results.push(("loss".into(), loss.clone()));
    let outputs: Vec<(&str, &Tensor)> = results.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let mut module = tracer.finish(&outputs)?;
    if let Some(main) = module.functions.first_mut() {
        for (i, attributes) in main.input_attributes.iter_mut().take(all.len()).enumerate() {
            attributes.aliasing_output = Some(i as u32);
        }
    }
    Ok(Step { module, arguments: tracer.finished_arguments(), loss: all.len() as u32 })
}

/// The loss scale while a step is traced.
struct Scale {
    /// A scalar in `f32`.
    factor: Tensor,
    /// The scale and the number of good steps, where they are state, and the interval.
    state: Option<(Tensor, Tensor, u32)>,
}

impl Scale {
    #[track_caller]
    fn new(tracer: &Tracer, scale: LossScale) -> Option<Scale> {
        match scale {
            LossScale::None => None,
            LossScale::Static(x) => Some(Scale { factor: tracer.scalar(DType::F32, x), state: None }),
            LossScale::Dynamic { initial, interval } => tracer.in_scope(String::new(), || {
                let scale = tracer.argument("loss_scale", TensorType::scalar(DType::F32), Role::State, Initial::Constant(initial));
                let good = tracer.argument("good_steps", TensorType::scalar(DType::I32), Role::State, Initial::Zeros);
                // A scale that was never given is zero, which no gradient survives.
                let factor = scale.maximum(&scale.full_like(1.0));
                Some(Scale { factor, state: Some((scale, good, interval)) })
            }),
        }
    }
    /// What a tensor of its own state becomes.
    #[track_caller]
    fn next(&self, old: &Tensor, finite: &Tensor) -> Option<Tensor> {
        let (scale, good, interval) = self.state.as_ref()?;
        let next = good + 1.0;
        let grows = next.greater_equal(&next.full_like(f64::from(*interval)));
        if old.value() == good.value() {
            let zero = next.zeros_like();
            return Some(finite.select(&grows.select(&zero, &next), &zero));
        }
        if old.value() == scale.value() {
            let grown = grows.select(&(&self.factor * 2.0), &self.factor);
            return Some(finite.select(&grown, &(&self.factor * 0.5).maximum(&scale.full_like(1.0))));
        }
        None
    }
}
