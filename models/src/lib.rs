//! Model families: a Hugging Face `config.json` becomes a whole training step as a graph.
//!
//! [`Config::read`] reads the keys, [`trace`] writes forward pass, backward pass and update with `ir::trace`. Nothing here knows of devices, and nothing
//! has weights: [`Traced::initial`] makes those of a model small enough to be trained. Repeated layers are traced in scopes `layers.N` and are alike, so that a
//! planner may trace a few ([`Settings::depth`]) and reason about all ([`Run`]).

mod attention;
mod bert;
mod config;
mod context;
mod decoder;
mod experts;
mod flops;
mod gpt2;
mod json;
mod keys;
mod layers;
mod resnet;
mod settings;
mod step;
mod t5;
mod vit;

pub use config::{Config, MODEL_TYPES, Sizes};
pub use context::Run;
pub use settings::{OptimizerKind, Precision, Settings};
pub use step::{Traced, next_token_logits, trace};
