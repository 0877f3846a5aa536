//! Executes a plan on devices that talk through a transport.
//!
//! [`session::Session`] opens a plan, takes arguments, runs steps and gives results back. Each rank is a [`worker`]: it expands its stage's program for its
//! place in the mesh and hands every instruction to one of two seams, a [`device::Device`] (computes in one arena) or a [`transport::Transport`] (moves data
//! between arenas). Everything that can be refused is refused while opening; a step allocates no tensor and takes no lock except to wait for a peer.

pub mod arena;
pub mod arguments;
pub mod binding;
pub mod checkpoint;
pub mod device;
pub mod element;
pub mod measure;
pub mod metrics;
pub mod processes;
pub mod session;
pub mod strided;
pub mod tensor;
pub mod trace;
pub mod transport;
pub mod worker;

pub use session::{Options, Session, StepReport};
pub use tensor::{Arguments, Tensor};
