//! What a family traces with: the tracer, the step's sizes, and the list of repeated layers.

use crate::settings::Settings;
use ir::DType;
use ir::trace::{Tensor, Tracer};
use std::cell::RefCell;

/// Layers that are alike and follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// What names in them begin with, before the layer's number: `layers.`.
    pub prefix: String,
    /// How many were traced, from 0.
    pub depth_traced: u32,
    /// How many the model has.
    pub depth_full: u32,
}

/// A trace under way.
pub(crate) struct Context {
    pub(crate) tracer: Tracer,
    pub(crate) batch: u64,
    /// Tokens of a sequence; 1 for a model of images.
    pub(crate) sequence: u64,
    depth: Option<u64>,
    runs: RefCell<Vec<Run>>,
}

impl Context {
    pub(crate) fn new(tracer: Tracer, settings: &Settings, sequence: u64) -> Context {
        Context { tracer, batch: settings.global_batch, sequence, depth: settings.depth.map(u64::from), runs: RefCell::new(Vec::new()) }
    }

    /// Traces layers one after another, each in the scope `{prefix}{number}`.
    pub(crate) fn repeat<S>(&self, prefix: &str, depth: u64, mut state: S, layer: impl Fn(S) -> S) -> S {
        let traced = depth.min(self.depth.unwrap_or(depth));
        for number in 0..traced {
            state = self.tracer.scope(format!("{prefix}{number}"), || layer(state));
        }
        self.runs.borrow_mut().push(Run { prefix: prefix.into(), depth_traced: traced as u32, depth_full: depth as u32 });
        state
    }

    /// The runs so far.
    pub(crate) fn runs(&self) -> Vec<Run> {
        self.runs.borrow().clone()
    }

    /// Integers of the batch, one for each token.
    pub(crate) fn tokens(&self, name: &str) -> Tensor {
        self.tracer.data(name, DType::I32, [self.batch, self.sequence])
    }
}
