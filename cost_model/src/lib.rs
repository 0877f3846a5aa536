//! What things cost: clusters and their devices, the groups that collectives run in, and the time of every kind of work.
//!
//! A leaf of the planner: it prices what it is asked and traverses no graph. [`Cluster`] describes hardware (presets and TOML files),
//! [`Group`] and [`Route`] place a collective or a transfer on it, and the trait [`CostModel`] gives durations; [`AnalyticModel`] is the default.
//! Invariant: prices are pure functions of their arguments, made of `+ - * / min max` alone, so that they are the same bits on every machine.

mod attention;
mod cluster;
mod collective;
mod compute;
mod device;
mod file;
mod model;
mod presets;
mod topology;

pub use attention::AttentionWork;
pub use cluster::{Cluster, Link, Network};
pub use collective::{Algorithm, CollectiveCall, CollectiveCost};
pub use compute::{KernelWork, LibraryOp, LibraryWork, MatMulShape};
pub use device::{BytesPerSecond, DeviceKind, FlopsPerSecond, PeakRates, Tile};
pub use model::{AnalyticModel, CostModel};
pub use presets::{cluster_presets, device_presets};
pub use topology::{Group, Route};
