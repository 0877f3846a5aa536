//! Tracing: write a forward pass with tensors, get a training step as a graph.
//!
//! A [`Tracer`] owns the graph under construction; a [`Tensor`] is a handle of one of its values. Methods and operators add operations, [`grad`]
//! differentiates what was traced, and [`training_step`] adds an optimizer and gives the whole step: parameters, optimizer state and a batch go in,
//! new parameters, new state and the loss come out.
//!
//! Nothing here panics on shapes that do not fit: the tracer keeps the first error with the line of the model that caused it, what follows is traced
//! no further, and finishing gives the error. Invariant: what a tracer gives out passes [`crate::verify`], and is the same for the same calls.
//!
//! ```
//! use ir::DType;
//! use ir::trace::{Initial, Optimizer, Tracer, Training, training_step};
//!
//! let tracer = Tracer::new();
//! let x = tracer.data("x", DType::F32, [32, 16]);
//! let y = tracer.data("y", DType::I32, [32]);
//! let mut h = x;
//! for layer in 0..2 {
//!     h = tracer.scope(format!("layers.{layer}"), || {
//!         let w = tracer.parameter("w", [16, 16], Initial::Normal(0.1));
//!         let b = tracer.parameter("b", [16], Initial::Zeros);
//!         (h.matmul(&w) + b).gelu()
//!     });
//! }
//! let loss = h.cross_entropy(&y).mean_all().named("loss");
//! let step = training_step(&tracer, &loss, &Training::new(Optimizer::adamw(1e-3)).clipped(1.0)).unwrap_or_else(|e| panic!("{e}"));
//! let main = step.module.main().unwrap();
//! assert!(main.value_named("layers.1/w").is_some());
//! assert_eq!(main.outputs.len(), 4 + 2 * 4 + 1 + 1); // parameters, two moments each, the step counter, the loss
//! ```

mod functions;
mod grad;
mod indexing;
mod movement;
mod operators;
mod optimizer;
mod product;
mod random;
mod reduction;
mod tensor;
mod tracer;
mod training;
mod vjp;

pub use grad::{grad, pullback};
pub use optimizer::{Decay, Optimizer, Rate, Rule};
pub use product::Convolve;
pub use tensor::Tensor;
pub use tracer::{Argument, Initial, Role, Tracer};
pub use training::{LossScale, Step, Training, clip_by_global_norm, global_norm, training_step};
