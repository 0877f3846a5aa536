//! What things cost: clusters and their devices, the groups that collectives run in, and the time of every kind of work.
//!
//! A leaf of the planner: it prices what it is asked and traverses no graph. [`Cluster`] describes hardware (presets and TOML files),
//! [`Group`] and [`Route`] place a collective or a transfer on it, and the trait [`CostModel`] gives durations; [`AnalyticModel`] is the default.
//! Invariant: prices are pure functions of their arguments, made of `+ - * / min max` alone, so that they are the same bits on every machine.

mod attention;
mod catalogue;
mod cluster;
mod collective;
mod compute;
mod device;
mod file;
mod links;
mod matrix;
mod measured;
mod model;
mod presets;
mod product;
mod topology;

pub use attention::{AttentionKernel, AttentionWork};
pub use catalogue::device_presets;
pub use cluster::{Cluster, Link, Network, NodeGroup, Part, Racks};
pub use collective::{Algorithm, CollectiveCall, CollectiveCost, Protocol};
pub use compute::{KernelWork, LibraryOp, LibraryWork};
pub use device::{BytesPerSecond, DeviceKind, FlopsPerSecond, FusedAttention, FusedKernel, PeakRates, PowerLimit, ProductEngine, Tile};
pub use links::{Pairs, Wiring};
pub use matrix::import_topology;
pub use measured::Measurements;
pub use model::{AnalyticModel, CostModel};
pub use presets::cluster_presets;
pub use product::MatMulShape;
pub use topology::{Group, Ranks, Route};
