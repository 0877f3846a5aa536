//! Times that were measured on the devices themselves, which the model prefers to its formulas where they apply.
//!
//! Collectives, messages and copies are interpolated between measured sizes of the same kind and group; a matrix product's formula is corrected by what
//! the measured products nearest to it in shape were off by, and a kernel's by what a copy of as much traffic was. What nothing measured is
//! near to keeps its formula. Invariant: a longer list is never less monotone: times of growing sizes are made to grow when they are added.

use crate::product::MatMulShape;
use ir::program::CollectiveKind;
use ir::{Bytes, Seconds};
use serde::Serialize;
use std::fmt::Write;

/// A measured matrix product.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Product {
    shape: MatMulShape,
    time: Seconds,
}

/// Times by size, growing in both.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Curve(Vec<(u64, f64)>);

/// A table of measurements of one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurements {
    /// The cluster that was measured.
    pub cluster: String,
    products: Vec<Product>,
    copies: Curve,
    collectives: Vec<(CollectiveKind, u32, Curve)>,
    messages: Curve,
    step: Option<Seconds>,
}

impl Serialize for Measurements {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_toml().serialize(serializer)
    }
}

/// Names of collectives in tables.
pub(crate) const COLLECTIVES: [(&str, CollectiveKind); 4] = [
    ("all-reduce", CollectiveKind::AllReduce),
    ("all-gather", CollectiveKind::AllGather),
    ("reduce-scatter", CollectiveKind::ReduceScatter),
    ("all-to-all", CollectiveKind::AllToAll),
];

impl Curve {
    fn add(&mut self, size: u64, time: f64) {
        let at = self.0.partition_point(|(s, _)| *s < size);
        match self.0.get_mut(at) {
            Some(point) if point.0 == size => point.1 = time,
            _ => self.0.insert(at, (size, time)),
        }
        // Noise must not make more cost less.
        for i in 1..self.0.len() {
            self.0[i].1 = self.0[i].1.max(self.0[i - 1].1);
        }
    }

    /// Between two sizes in proportion; below the least its time; above the greatest in proportion to it.
    fn at(&self, size: u64) -> Option<Seconds> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        if size <= first.0 {
            return Some(Seconds(first.1));
        }
        if size >= last.0 {
            return Some(Seconds(last.1 * (size as f64 / last.0 as f64)));
        }
        let above = self.0.partition_point(|(s, _)| *s <= size);
        let ((s0, t0), (s1, t1)) = (self.0[above - 1], self.0[above]);
        Some(Seconds(t0 + (t1 - t0) * ((size - s0) as f64 / (s1 - s0) as f64)))
    }
}

impl Measurements {
    /// An empty table for a cluster.
    pub fn of(cluster: &str) -> Measurements {
        Measurements { cluster: cluster.into(), ..Measurements::default() }
    }
    /// Adds a matrix product.
    pub fn add_product(&mut self, shape: MatMulShape, time: Seconds) {
        self.products.push(Product { shape, time });
    }
    /// Adds a copy of so many bytes.
    pub fn add_copy(&mut self, bytes: Bytes, time: Seconds) {
        self.copies.add(bytes.0, time.0);
    }
    /// Adds a collective of a group of `size` devices.
    pub fn add_collective(&mut self, kind: CollectiveKind, size: u32, bytes: Bytes, time: Seconds) {
        match self.collectives.iter_mut().find(|(k, s, _)| (*k, *s) == (kind, size)) {
            Some((_, _, curve)) => curve.add(bytes.0, time.0),
            None => {
                let mut curve = Curve::default();
                curve.add(bytes.0, time.0);
                self.collectives.push((kind, size, curve));
            }
        }
    }

    /// Adds a message of so many bytes from one stage to the next.
    pub fn add_message(&mut self, bytes: Bytes, time: Seconds) {
        self.messages.add(bytes.0, time.0);
    }
    /// Sets what a step takes beside its instructions: until every rank has begun, and until the caller knows that all have ended.
    pub fn set_step(&mut self, time: Seconds) {
        self.step = Some(time);
    }

    /// How many times it holds.
    pub fn len(&self) -> usize {
        let collectives: usize = self.collectives.iter().map(|(_, _, curve)| curve.0.len()).sum();
        self.products.len() + self.copies.0.len() + collectives + self.messages.0.len() + usize::from(self.step.is_some())
    }
    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of so many bytes.
    pub(crate) fn copy(&self, bytes: Bytes) -> Option<Seconds> {
        self.copies.at(bytes.0)
    }

    /// A collective of a group of that size.
    pub(crate) fn collective(&self, kind: CollectiveKind, size: u32, bytes: Bytes) -> Option<Seconds> {
        self.collectives.iter().find(|(k, s, _)| (*k, *s) == (kind, size))?.2.at(bytes.0)
    }

    /// A message of so many bytes.
    pub(crate) fn message(&self, bytes: Bytes) -> Option<Seconds> {
        self.messages.at(bytes.0)
    }

    /// What a step takes beside its instructions.
    pub(crate) fn step(&self) -> Option<Seconds> {
        self.step
    }

    /// What to multiply a product's `formula` by: what products of its type were off by, the nearest in shape counting most.
    pub(crate) fn product_factor(&self, shape: &MatMulShape, formula: impl Fn(&MatMulShape) -> Seconds) -> f64 {
        let (mut weights, mut sum) = (0.0, 0.0);
        for known in self.products.iter().filter(|p| p.shape.dtype == shape.dtype) {
            let pairs = [(known.shape.batch, shape.batch), (known.shape.m, shape.m), (known.shape.n, shape.n), (known.shape.k, shape.k)];
            let square: f64 = pairs.iter().map(|&(a, b)| (logarithm(a) - logarithm(b)) * (logarithm(a) - logarithm(b))).sum();
            let weight = 1.0 / ((square + 1e-3) * (square + 1e-3));
            weights += weight;
            sum += weight * (known.time.0 / formula(&known.shape).0);
        }
        if weights > 0.0 { sum / weights } else { 1.0 }
    }

    /// The table as `[measured]` of a cluster file.
    pub fn to_toml(&self) -> String {
        let mut text = format!("[measured]\ncluster = \"{}\"\n", self.cluster);
        if let Some(step) = self.step {
            let _ = writeln!(text, "step = {:e}", step.0);
        }
        for p in &self.products {
            let s = &p.shape;
            let _ = write!(text, "\n[[measured.product]]\ndtype = \"{}\"\nbatch = {}\nm = {}\nn = {}\nk = {}\n", s.dtype, s.batch, s.m, s.n, s.k);
            let _ = writeln!(text, "seconds = {:e}", p.time.0);
        }
        for (bytes, seconds) in &self.copies.0 {
            let _ = write!(text, "\n[[measured.copy]]\nbytes = {bytes}\nseconds = {seconds:e}\n");
        }
        for (kind, size, curve) in &self.collectives {
            let name = COLLECTIVES.iter().find(|(_, k)| k == kind).map_or("", |(name, _)| name);
            for (bytes, seconds) in &curve.0 {
                let _ = write!(text, "\n[[measured.collective]]\nkind = \"{name}\"\nsize = {size}\nbytes = {bytes}\nseconds = {seconds:e}\n");
            }
        }
        for (bytes, seconds) in &self.messages.0 {
            let _ = write!(text, "\n[[measured.message]]\nbytes = {bytes}\nseconds = {seconds:e}\n");
        }
        text
    }
}

/// The binary logarithm, linear between powers of two: the same bits everywhere.
fn logarithm(n: u64) -> f64 {
    let n = n.max(1);
    let exponent = n.ilog2();
    f64::from(exponent) + (n as f64 / (1u64 << exponent) as f64 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnalyticModel, Cluster, CollectiveCall, CostModel, Group, KernelWork};
    use ir::{DType, Flops};
    use std::sync::Arc;

    fn shape(n: u64) -> MatMulShape {
        MatMulShape { batch: 1, m: n, n, k: n, dtype: DType::F32 }
    }

    fn table(model: &AnalyticModel) -> Measurements {
        let mut table = Measurements::of("local:4");
        table.add_product(shape(64), model.matmul(&shape(64)) * 3.0);
        table.add_product(shape(512), model.matmul(&shape(512)) * 1.5);
        table.add_copy(Bytes(1 << 10), Seconds(1e-6));
        table.add_copy(Bytes(1 << 20), Seconds(1e-3));
        table.add_copy(Bytes(1 << 15), Seconds(2e-3));
        table.add_collective(CollectiveKind::AllReduce, 4, Bytes(1 << 20), Seconds(5e-3));
        table.add_collective(CollectiveKind::AllReduce, 4, Bytes(1 << 10), Seconds(4e-5));
        table.add_message(Bytes(1 << 10), Seconds(3e-5));
        table.set_step(Seconds(7e-5));
        table
    }

    #[test]
    fn measured_times_are_preferred_where_there_are_any() {
        let plain = AnalyticModel::new(Cluster::parse("local:4").expect("a preset"));
        let measured = AnalyticModel::new(Cluster { measured: Some(Arc::new(table(&plain))), ..plain.cluster().clone() });
        let near = |a: Seconds, b: Seconds| (a.0 / b.0 - 1.0).abs() < 0.02;
        assert!(near(measured.matmul(&shape(64)), plain.matmul(&shape(64)) * 3.0));
        assert!(near(measured.matmul(&shape(512)), plain.matmul(&shape(512)) * 1.5));
        let between = measured.matmul(&shape(180)).0 / plain.matmul(&shape(180)).0;
        assert!((1.5..3.0).contains(&between), "{between}");
        let half = MatMulShape { dtype: DType::BF16, ..shape(64) };
        assert_eq!(measured.matmul(&half), plain.matmul(&half));
        // The copy of 32 KiB took longer than that of 1 MiB, which is then taken to have been as slow.
        assert_eq!(measured.copy(Bytes(1 << 20)), Seconds(2e-3));
        assert_eq!(measured.copy(Bytes(1 << 21)), Seconds(4e-3));
        let call = |bytes, kind| CollectiveCall { kind, bytes: Bytes(bytes), dtype: DType::F32 };
        assert_eq!(measured.collective(&call(1 << 20, CollectiveKind::AllReduce), &Group::within_node(4)).time, Seconds(5e-3));
        for (kind, group) in [(CollectiveKind::AllGather, Group::within_node(4)), (CollectiveKind::AllReduce, Group::within_node(2))] {
            assert_eq!(measured.collective(&call(1 << 20, kind), &group), plain.collective(&call(1 << 20, kind), &group));
        }
        let route = plain.cluster().route(0, 1, 1);
        assert!(measured.send(Bytes(1 << 10), &route) == Seconds(3e-5) && plain.send(Bytes(1 << 10), &route) != Seconds(3e-5));
        assert!(measured.cluster().around_step() == Seconds(7e-5) && plain.cluster().around_step() == Seconds(0.0));
        let work = KernelWork { read: Bytes(1 << 20), written: Bytes(1 << 20), flops: Flops(1e5), dtype: DType::F32 };
        assert!(measured.kernel(&work) > plain.kernel(&work));
    }

    #[test]
    fn a_table_reads_back_and_must_be_the_cluster_s() {
        let cluster = Cluster::parse("local:4").expect("a preset");
        let table = table(&AnalyticModel::new(cluster.clone()));
        let with = cluster.clone().with_measured("t.toml", &table.to_toml()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(with.measured.as_deref(), Some(&table));
        let whole = Cluster::from_toml("c.toml", &format!("base = \"local:4\"\nname = \"local:4\"\n{}", table.to_toml())).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(whole, with);
        assert!(Cluster::parse("local:2").expect("a preset").with_measured("t.toml", &table.to_toml()).is_err());
        assert!(cluster.clone().with_measured("t.toml", "nodes = 1\n").is_err());
        assert!(cluster.with_measured("t.toml", "[measured]\ncluster = \"local:4\"\n[[measured.copy]]\nbytes = 3\nseconds = 0\n").is_err());
    }
}
