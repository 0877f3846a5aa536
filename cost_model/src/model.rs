//! The seam between planner and prices: a trait, and the model of formulas that is its default.

use crate::attention::{self, AttentionWork};
use crate::cluster::Cluster;
use crate::collective::{self, CollectiveCall, CollectiveCost};
use crate::compute::{self, KernelWork, LibraryWork};
use crate::product::{self, MatMulShape};
use crate::topology::{Group, Route};
use ir::{Bytes, Seconds};

/// Prices of everything a device can be told to do.
///
/// Pure: the same question always has the same answer, on any thread and any machine.
pub trait CostModel: Send + Sync {
    /// What it prices for.
    fn cluster(&self) -> &Cluster;
    /// A matrix product on one device.
    fn matmul(&self, shape: &MatMulShape) -> Seconds;
    /// A kernel on one device.
    fn kernel(&self, work: &KernelWork) -> Seconds;
    /// A library op on one device.
    fn library(&self, work: &LibraryWork) -> Seconds;
    /// An attention, or its derivative, on one device.
    fn attention(&self, work: &AttentionWork) -> Seconds;
    /// A copy of `bytes` inside one device's memory.
    fn copy(&self, bytes: Bytes) -> Seconds;
    /// A collective of a group; all equal groups of the mesh run it at the same time.
    fn collective(&self, call: &CollectiveCall, group: &Group) -> CollectiveCost;
    /// `bytes` from one device of a group to all of it.
    fn broadcast(&self, bytes: Bytes, group: &Group) -> CollectiveCost;
    /// `bytes` from every device of a stage to its peer in another.
    fn send(&self, bytes: Bytes, route: &Route) -> Seconds;
}

/// Formulas over the cluster's figures, and its measured times where it has them.
#[derive(Clone, Debug)]
pub struct AnalyticModel {
    cluster: Cluster,
}

impl AnalyticModel {
    /// A model of `cluster`.
    pub fn new(cluster: Cluster) -> AnalyticModel {
        AnalyticModel { cluster }
    }
}

impl CostModel for AnalyticModel {
    fn cluster(&self) -> &Cluster {
        &self.cluster
    }
    fn matmul(&self, shape: &MatMulShape) -> Seconds {
        let formula = |shape: &MatMulShape| product::matmul(&self.cluster.device, shape);
        match &self.cluster.measured {
            Some(table) => formula(shape) * table.product_factor(shape, formula),
            None => formula(shape),
        }
    }
    fn kernel(&self, work: &KernelWork) -> Seconds {
        let formula = compute::kernel(&self.cluster.device, work);
        // A kernel streams as a copy of as much traffic does.
        let half = Bytes((work.read.0.saturating_add(work.written.0)) / 2);
        match self.cluster.measured.as_ref().and_then(|table| table.copy(half)) {
            Some(time) if half.0 > 0 => formula * (time.0 / compute::copy(&self.cluster.device, half).0),
            _ => formula,
        }
    }
    fn library(&self, work: &LibraryWork) -> Seconds {
        compute::library(&self.cluster.device, work)
    }
    fn attention(&self, work: &AttentionWork) -> Seconds {
        attention::attention(&self.cluster.device, work)
    }
    fn copy(&self, bytes: Bytes) -> Seconds {
        let measured = self.cluster.measured.as_ref().filter(|_| bytes.0 > 0).and_then(|table| table.copy(bytes));
        measured.unwrap_or_else(|| compute::copy(&self.cluster.device, bytes))
    }
    fn collective(&self, call: &CollectiveCall, group: &Group) -> CollectiveCost {
        let formula = collective::best(&self.cluster, call, group);
        let measured = self.cluster.measured.as_ref().filter(|_| group.size > 1 && call.bytes.0 > 0);
        match measured.and_then(|table| table.collective(call.kind, group.size, call.bytes)) {
            Some(time) => CollectiveCost { time, ..formula },
            None => formula,
        }
    }
    fn broadcast(&self, bytes: Bytes, group: &Group) -> CollectiveCost {
        collective::broadcast(&self.cluster, bytes, group)
    }
    fn send(&self, bytes: Bytes, route: &Route) -> Seconds {
        let measured = self.cluster.measured.as_ref().filter(|_| bytes.0 > 0).and_then(|table| table.message(bytes));
        measured.unwrap_or_else(|| collective::send(&self.cluster, bytes, route))
    }
}
