//! Training a traced model on the devices of this process, as the examples and their tests do it: traced, compiled, executed, all from Rust.
#![allow(dead_code, reason = "each example uses a part")]

use compiler::batch::state::Overrides;
use compiler::pipeline::{self, Options, Timings};
use compiler::stop::Stop;
use cost_model::Cluster;
use ir::plan::{Plan, Request};
use ir::{DType, Diagnostic, Result};
use models::{Config, Settings, Traced};
use runtime::{Arguments, Session, Tensor};
use std::sync::Arc;

/// A model under training.
pub(crate) struct Trainer {
    /// The step.
    pub(crate) traced: Traced,
    /// Its plan.
    pub(crate) plan: Arc<Plan>,
    session: Session,
}

impl Trainer {
    /// Traces a model, plans it for a cluster, and begins with parameters made from `seed`.
    pub(crate) fn new(config: &Config, settings: &Settings, cluster: &str, seed: u64) -> Result<Trainer> {
        let traced = models::trace(config, settings)?;
        let options = Options {
            request: Request { model: config.name.clone(), strategy: "auto".into(), ..Request::default() },
            overrides: Overrides::default(),
            cluster: Cluster::parse(cluster)?,
            level: "x86-64-v3".into(),
            code: true,
            stop: Stop::default(),
        };
        let plan = Arc::new(pipeline::compile(&traced.module, &options, &mut Timings::default())?);
        let mut session = Session::open(&plan, &runtime::Options::default())?;
        let initial = traced.initial(seed).into_iter().map(|(i, t)| (i, Arc::new(Tensor { bytes: t.to_bytes(), ty: t.ty })));
        session.set_inputs(&initial.collect())?;
        Ok(Trainer { traced, plan, session })
    }

    /// One step on a batch, whose tensors are given by name; the loss.
    pub(crate) fn step(&mut self, batch: &[(&str, Vec<f64>)]) -> Result<f64> {
        let mut arguments = Arguments::new();
        for (name, values) in batch {
            let Some(i) = self.traced.arguments.iter().position(|a| a.name == *name) else {
                return Err(Diagnostic::input("E0620", format!("this step has no argument `{name}`")).into());
            };
            arguments.insert(i as u32, Arc::new(self.tensor(i, values)?));
        }
        let report = self.session.step(&arguments)?;
        let loss = report.scalars.iter().find(|s| self.plan.interface.loss == Some(s.0));
        Ok(loss.map_or(f64::NAN, |s| s.2))
    }

    fn tensor(&self, argument: usize, values: &[f64]) -> Result<Tensor> {
        let ty = &self.traced.arguments[argument].ty;
        let made = match ty.dtype {
            DType::I32 => ir::interp::Tensor::from_i64s(ty.clone(), &values.iter().map(|v| *v as i64).collect::<Vec<_>>()),
            _ => ir::interp::Tensor::from_f64s(ty.clone(), values),
        };
        let message = || Diagnostic::input("E0620", format!("{} elements are given for {ty}", values.len()));
        made.map(|t| Tensor { bytes: t.to_bytes(), ty: t.ty }).ok_or_else(|| message().into())
    }

    /// The parameters and the state as they are now, whole.
    pub(crate) fn state(&mut self) -> Result<Arguments> {
        self.session.state()
    }
}

/// Random numbers for batches: SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A whole number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }
    /// A number in `0..1`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A batch of a family's arguments that a model can learn by heart: tokens below 64, images of noise, labels that go with them.
pub(crate) fn batch(traced: &Traced, seed: u64) -> Vec<(String, Vec<f64>)> {
    let mut random = Random(seed);
    let data = traced.arguments.iter().filter(|a| a.role == ir::trace::Role::Data);
    let mut made: Vec<(String, Vec<f64>)> = Vec::new();
    for argument in data {
        let n = argument.ty.elements();
        let tokens = made.iter().find(|m| m.0 == "tokens").map(|m| m.1.clone());
        let masked = made.iter().any(|m| m.0 == "types");
        let values = match (argument.name.as_str(), tokens) {
            ("images", _) => (0..n).map(|_| 2.0 * random.unit() - 1.0).collect(),
            ("types", _) => vec![0.0; n as usize],
            // A seventh of the tokens is to be told, the others are not trained on.
            ("labels", Some(tokens)) if masked => tokens.iter().enumerate().map(|(i, t)| if i % 7 == 0 { *t } else { -1.0 }).collect(),
            ("labels", Some(tokens)) => tokens.iter().cycle().skip(1).take(n as usize).copied().collect(),
            ("labels", None) => (0..n).map(|_| random.below(8) as f64).collect(),
            _ => (0..n).map(|_| random.below(64) as f64).collect(),
        };
        made.push((argument.name.clone(), values));
    }
    made
}
