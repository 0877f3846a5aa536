//! State on disk: whole tensors in one file, and checkpoints that every rank writes a part of.
//!
//! [`tensors`] reads and writes whole tensors. A checkpoint is a folder `step-00000012` ([`store`]) of one safetensors file per rank ([`writer`]) beside a
//! manifest ([`manifest`]), which says of every tensor its global shape and which shard of it lies where ([`layout`]). It is global: any plan of the same
//! step continues from it ([`restore`]). [`saving`] is what a run does about it: every rank copies its shards aside, and they are written while the next
//! step runs.
//!
//! **Invariant:** a folder with the name of a checkpoint is whole, since it gets that name when everything in it is on disk; and it is believed only after
//! all its checksums were compared.

pub mod layout;
pub mod manifest;
pub mod restore;
pub mod saving;
pub mod store;
mod tensors;
pub mod writer;

pub use manifest::Manifest;
pub use restore::Checkpoint;
pub use saving::{Failed, Outcome, SaveOptions, Saved, Saving};
pub use store::Store;
pub use tensors::*;
