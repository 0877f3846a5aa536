//! A whole training step of a configuration, and what is known of it without looking at the graph.

use crate::config::{Config, Family};
use crate::context::{Context, Run};
use crate::flops;
use crate::settings::{OptimizerKind, Precision, Settings};
use ir::diagnostic::{Diagnostic, Result};
use ir::interp;
use ir::trace::{Argument, LossScale, Optimizer, Role, Tracer, Training, training_step};
use ir::{DType, Flops, Module};

/// Tokens of a sequence where nothing else is said.
const USUAL_SEQUENCE: u64 = 1024;

/// A traced training step.
#[derive(Clone, Debug)]
pub struct Traced {
    /// The step.
    pub module: Module,
    /// The layers that repeat; all else is traced in full.
    pub runs: Vec<Run>,
    /// The arguments of the step, in order.
    pub arguments: Vec<Argument>,
    /// Parameters of the model at its full depth.
    pub parameters: u64,
    /// Tokens (or images) of a step.
    pub tokens: u64,
    /// Floating-point operations of one step's products, forward and backward, at full depth.
    pub flops: Flops,
}

impl Traced {
    /// Parameters and state as training begins them, by their position among the arguments; the same for the same seed.
    pub fn initial(&self, seed: u64) -> Vec<(u32, interp::Tensor)> {
        let kept = self.arguments.iter().enumerate().filter(|(_, a)| a.role != Role::Data);
        kept.map(|(i, a)| (i as u32, a.initial.sample(&a.ty, seed.wrapping_mul(0x1_0000_0001).wrapping_add(i as u64)))).collect()
    }
}

/// Traces a training step.
///
/// # Errors
/// `E0141` settings that make no step, `E0142` settings that do not fit the model, `E0143` tensors that are too large.
pub fn trace(config: &Config, settings: &Settings) -> Result<Traced> {
    settings.check()?;
    let sequence = config.sequence(settings)?;
    let compute = match settings.precision {
        Precision::F32 => DType::F32,
        Precision::Bf16 => DType::BF16,
        Precision::F16 => DType::F16,
    };
    let tracer = Tracer::computing_in(compute);
    let ctx = Context::new(tracer.clone(), settings, sequence.unwrap_or(1));
    let loss = match &config.family {
        Family::Gpt2(m) => m.trace(&ctx),
        Family::Decoder(m) => m.trace(&ctx),
        Family::Bert(m) => m.trace(&ctx),
        Family::Vit(m) => m.trace(&ctx),
        Family::T5(m) => m.trace(&ctx),
        Family::ResNet(m) => m.trace(&ctx),
    };
    let step = training_step(&tracer, &loss.named("loss"), &training(settings)).map_err(|mut failed| {
        for d in failed.0.iter_mut().filter(|d| d.message.contains("2^48")) {
            d.code = "E0143".into();
            d.span = None;
            d.help = Some("lower `--global-batch`, `--seq` or the model's sizes".into());
        }
        failed
    })?;
    let runs = ctx.runs();
    let arguments = step.arguments;
    let trained = arguments.iter().filter(|a| a.role == Role::Parameter);
    let parameters: f64 = trained.map(|a| a.ty.elements() as f64 * flops::repetitions(&a.name, &runs)).sum();
    let flops = step.module.main().map_or(0.0, |graph| flops::count(graph, &runs));
    let tokens = settings.global_batch * sequence.unwrap_or(1);
    Ok(Traced { module: step.module, runs, arguments, parameters: parameters.round() as u64, tokens, flops: Flops(flops) })
}

/// Traces the forward pass of a decoder: parameters and `tokens` go in, `logits` of the token after each come out. Parameters are numbered as in the step.
///
/// # Errors
/// Those of [`trace`], and `E0142` for a model that does not predict the next token.
pub fn next_token_logits(config: &Config, settings: &Settings) -> Result<Module> {
    settings.check()?;
    let sequence = config.sequence(settings)?;
    let tracer = Tracer::new();
    let ctx = Context::new(tracer.clone(), settings, sequence.unwrap_or(1));
    let logits = match &config.family {
        Family::Gpt2(m) => m.logits(&ctx, &ctx.tokens("tokens")),
        Family::Decoder(m) => m.logits(&ctx, &ctx.tokens("tokens")).0,
        _ => {
            let message = format!("`{}`, of the type {}, does not predict the next token", config.name, config.model_type);
            return Err(Diagnostic::input("E0142", message).with_help("use a decoder: gpt2, llama, mistral, qwen2 or mixtral").into());
        }
    };
    tracer.finish(&[("logits", &logits)])
}

fn training(settings: &Settings) -> Training {
    let rate = settings.learning_rate;
    let optimizer = match settings.optimizer {
        OptimizerKind::AdamW => Optimizer::adamw(rate),
        OptimizerKind::Adam => Optimizer::adam(rate),
        OptimizerKind::Sgd => Optimizer::sgd(rate),
        OptimizerKind::Momentum => Optimizer::momentum(rate, 0.9),
    };
    let mut training = Training::new(optimizer);
    if settings.precision == Precision::F16 {
        training = training.scaled(LossScale::dynamic());
    }
    match settings.clip_norm {
        Some(norm) => training.clipped(norm),
        None => training,
    }
}

impl Config {
    /// Whether a step of it takes sequences of tokens (a model of images does not).
    pub fn takes_sequences(&self) -> bool {
        !matches!(self.family, Family::Vit(_) | Family::ResNet(_))
    }

    /// The longest sequence, where positions are learned.
    fn longest(&self) -> Option<(u64, &'static str)> {
        match &self.family {
            Family::Gpt2(m) => Some((m.positions, "n_positions")),
            Family::Bert(m) => Some((m.positions, "max_position_embeddings")),
            _ => None,
        }
    }

    /// The tokens of a sequence, if there are sequences.
    fn sequence(&self, settings: &Settings) -> Result<Option<u64>> {
        let misfit = |message: String, help: String| Err(Diagnostic::input("E0142", message).with_help(help).into());
        match (settings.sequence, self.takes_sequences()) {
            (Some(n), false) => misfit(format!("`{}` is a model of images, and a sequence of {n} is asked for", self.name), "leave `--seq` out".into()),
            (_, false) => Ok(None),
            (given, true) => {
                let longest = self.longest();
                let sequence = given.unwrap_or(longest.map_or(USUAL_SEQUENCE, |l| l.0.min(USUAL_SEQUENCE)));
                match longest {
                    Some((most, key)) if sequence > most => misfit(
                        format!("a sequence of {sequence} is longer than the {most} positions of `{}`", self.name),
                        format!("use `--seq {most}`, or raise `{key}`"),
                    ),
                    _ => Ok(Some(sequence)),
                }
            }
        }
    }
}
