//! Runs graphs sharded: cuts and splits tensors as a sharding says, partitions with given choices, runs all devices in lock step, and holds
//! every device's block of every result against the unsharded run.
//!
//! Padding of arguments is filled with what would show in a result (NaN, or integers that index somewhere else), and elements are few sixteenths so that
//! splitting them into summands is exact.

#![allow(dead_code, unreachable_pub, reason = "each test uses its share")]

pub mod build;
pub mod drawn;

use compiler::kernels::stored::stored_values;
use compiler::shard::groups::{Choice, Group, Groups};
use compiler::shard::problem::Choices;
use compiler::shard::reshard::Resharder;
use compiler::shard::strategy::{Context, Strategy};
use compiler::spmd::local::{LocalGraph, Sink, Source};
use compiler::spmd::partition::{self, StageView, Stages};
use compiler::step::{StepGraph, StepInput, StepOutput};
use cost_model::{AnalyticModel, Cluster};
use ir::interp::{Precision, Tensor, run, run_spmd};
use ir::op::Reducer;
use ir::program::{BufferKind, Phase, StageId};
use ir::{DType, Graph, Mesh, Module, SecondaryMap, Seconds, Sharding, TensorType, ValueId};

/// A small generator of numbers (xorshift), so that runs repeat.
pub struct Random(u64);

impl Random {
    /// A generator.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n.max(1)
    }
    /// A small number that is not zero, an odd number of sixteenths: sums of a few are exact.
    pub fn sixteenths(&mut self) -> f64 {
        (self.below(64) as f64 - 31.5) / 8.0
    }
}

/// Elements of an argument: small floats, small integers of which few are negative.
pub fn argument(ty: &TensorType, random: &mut Random) -> Tensor {
    let values: Vec<f64> = (0..ty.elements())
        .map(|_| match ty.dtype {
            DType::I1 => random.below(2) as f64,
            t if t.is_float() => random.sixteenths(),
            t if t.is_unsigned() => random.below(8) as f64,
            _ => random.below(8) as f64 - 1.0,
        })
        .collect();
    Tensor::from_f64s(ty.clone(), &values).expect("the count fits")
}

/// What padding holds.
fn filler(t: DType, random: &mut Random) -> f64 {
    match t {
        DType::I1 => random.below(2) as f64,
        t if t.is_float() => f64::NAN,
        _ => [0.0, 2.0, 100.0][random.below(3) as usize],
    }
}

/// `count` numbers that `reducer` combines to `x`.
fn split(reducer: Reducer, t: DType, x: f64, count: usize, random: &mut Random) -> Vec<f64> {
    let chosen = random.below(count as u64) as usize;
    let boolean = t == DType::I1;
    let mut parts: Vec<f64> = (0..count)
        .map(|_| match reducer {
            Reducer::Add if t.is_float() => random.sixteenths(),
            Reducer::Max if t.is_float() => x - random.sixteenths().abs(),
            Reducer::Min if t.is_float() => x + random.sixteenths().abs(),
            Reducer::Max if !t.is_unsigned() => x - random.below(3) as f64,
            Reducer::Min => x + random.below(3) as f64,
            Reducer::Mul => [0.5, 1.0, 2.0][random.below(3) as usize],
            Reducer::Or if boolean => x * random.below(2) as f64,
            Reducer::And if boolean => x.max(random.below(2) as f64),
            Reducer::Xor if boolean => random.below(2) as f64,
            r => r.neutral(t).expect("a reducer that values may be partial by"),
        })
        .collect();
    let others = |f: fn(f64, f64) -> f64, neutral: f64| parts.iter().enumerate().filter(|(i, _)| *i != chosen).map(|(_, v)| *v).fold(neutral, f);
    parts[chosen] = match reducer {
        Reducer::Add => x - others(|a, b| a + b, 0.0),
        Reducer::Mul => x / others(|a, b| a * b, 1.0),
        Reducer::Xor if boolean => (x + others(|a, b| a + b, 0.0)) % 2.0,
        _ => x,
    };
    parts
}

/// The first index of a device's block, per dimension.
fn start(sharding: &Sharding, local: &[u64], mesh: &Mesh, device: u32) -> Vec<u64> {
    sharding.dims.iter().zip(local).map(|(axes, n)| u64::from(mesh.linear_coordinate(device, axes)) * n).collect()
}

/// For every element of a block: its place in the whole, or `None` in padding.
fn places(shape: &[u64], local: &[u64], start: &[u64]) -> Vec<Option<usize>> {
    let (strides, local_strides) = (ir::dtype::row_major_strides(shape), ir::dtype::row_major_strides(local));
    let place = |i: u64| {
        let at = |d: usize| start[d] + i / local_strides[d] % local[d];
        (0..shape.len()).all(|d| at(d) < shape[d]).then(|| (0..shape.len()).map(|d| at(d) * strides[d]).sum::<u64>() as usize)
    };
    (0..local.iter().product()).map(place).collect()
}

/// What every device holds of a tensor.
pub fn distribute(x: &Tensor, sharding: &Sharding, mesh: &Mesh, random: &mut Random) -> Vec<Tensor> {
    let shape = &x.ty.shape;
    let local = sharding.local_shape(shape, mesh);
    let axes: Vec<_> = sharding.partial.iter().map(|p| p.0).collect();
    let values = x.to_f64s();
    // One tensor per coordinate over the partial axes, which combine to the whole.
    let count = mesh.group_size(&axes) as usize;
    let mut summands = vec![Vec::with_capacity(values.len()); count];
    for &v in &values {
        let parts = sharding.partial.first().map_or_else(|| vec![v], |p| split(p.1, x.ty.dtype, v, count, random));
        summands.iter_mut().zip(parts).for_each(|(s, p)| s.push(p));
    }
    (0..mesh.devices())
        .map(|d| {
            let from = &summands[mesh.linear_coordinate(d, &axes) as usize];
            let block: Vec<f64> =
                places(shape, &local, &start(sharding, &local, mesh, d)).iter().map(|p| p.map_or_else(|| filler(x.ty.dtype, random), |p| from[p])).collect();
            Tensor::from_f64s(TensorType::new(x.ty.dtype, local.clone()), &block).expect("the count fits")
        })
        .collect()
}

fn fold(reducer: Reducer, a: f64, b: f64) -> f64 {
    match reducer {
        Reducer::Add => a + b,
        Reducer::Mul => a * b,
        Reducer::Max => a.max(b),
        Reducer::Min => a.min(b),
        Reducer::And => f64::from(a as i64 as i32 & b as i64 as i32),
        Reducer::Or => f64::from(a as i64 as i32 | b as i64 as i32),
        Reducer::Xor => f64::from(a as i64 as i32 ^ b as i64 as i32),
        Reducer::Replace | Reducer::General => unreachable!("no value is partial by {reducer:?}"),
    }
}

/// Holds every device's part of a value against the whole, partials combined, padding left out.
pub fn compare(whole: &Tensor, sharding: &Sharding, mesh: &Mesh, parts: &[Tensor]) -> Result<(), String> {
    let shape = &whole.ty.shape;
    let local = sharding.local_shape(shape, mesh);
    let axes: Vec<_> = sharding.partial.iter().map(|p| p.0).collect();
    let expected = whole.to_f64s();
    let scale = expected.iter().filter(|x| x.is_finite()).fold(1.0, |m: f64, x| m.max(x.abs()));
    for d in 0..mesh.devices() {
        let group: Vec<Vec<f64>> = mesh.group_of(d, &axes).into_iter().map(|d| parts[d as usize].to_f64s()).collect();
        for (i, place) in places(shape, &local, &start(sharding, &local, mesh, d)).into_iter().enumerate() {
            let Some(place) = place else { continue };
            let want = expected[place];
            let got = group[1..].iter().fold(group[0][i], |a, b| fold(sharding.partial[0].1, a, b[i]));
            let same = want == got || (want.is_nan() && got.is_nan()) || (want - got).abs() <= 1e-9 * scale;
            if !same {
                return Err(format!("element {place} of {} as {}: {got} on device {d}, not {want}", whole.ty, sharding.display(mesh)));
            }
        }
    }
    Ok(())
}

/// A step that is one graph: its arguments are data, its results are not state.
fn step(graph: Graph, phase: &dyn Fn(u32) -> Phase) -> StepGraph {
    if let Err(errors) = ir::verify::verify(&graph) {
        panic!("the test's graph: {errors:#?}");
    }
    let inputs = (0..graph.inputs.len() as u32).map(|argument| StepInput { argument, microbatched: false, kind: BufferKind::Data }).collect();
    let outputs = (0..graph.outputs.len() as u32).map(|result| StepOutput { result, replaces: None }).collect();
    let none = vec![false; graph.ops.len()];
    let phase = (0..graph.ops.len() as u32).map(phase).collect();
    StepGraph { phase, recomputed: none.clone(), lazy: none, graph, inputs, outputs, microbatches: 1 }
}

/// A step with its groups and everything that strategies need.
pub struct Bench {
    /// The step.
    pub step: StepGraph,
    /// Its groups.
    pub groups: Groups,
    /// Prices.
    pub model: AnalyticModel,
    stored: SecondaryMap<ValueId, bool>,
    arguments: Vec<Tensor>,
    expected: Vec<Tensor>,
}

impl Bench {
    /// Groups a graph and runs it unsharded.
    pub fn new(graph: Graph, seed: u64) -> Bench {
        Bench::in_phases(graph, &|_| Phase::Forward, seed)
    }

    /// The same with a phase for every op, by its number; phases must not go back.
    pub fn in_phases(graph: Graph, phase: &dyn Fn(u32) -> Phase, seed: u64) -> Bench {
        let mut random = Random::new(seed);
        let arguments: Vec<Tensor> = graph.inputs.iter().map(|&v| argument(graph.ty(v), &mut random)).collect();
        let expected = run(&Module::default(), &graph, &arguments, Precision::F64).expect("the graph runs");
        let step = step(graph, phase);
        let groups = compiler::shard::groups::groups(&step.graph, &|o| step.phase_of(o) as u64);
        let model = AnalyticModel::new(Cluster::parse("local:8").expect("a preset"));
        Bench { stored: stored_values(&step), step, groups, model, arguments, expected }
    }

    /// The largest magnitude among the results; infinite when some is not a number.
    pub fn largest(&self) -> f64 {
        self.expected.iter().flat_map(Tensor::to_f64s).fold(0.0, |m, x| if x.is_nan() { f64::INFINITY } else { m.max(x.abs()) })
    }

    /// What strategies need.
    pub fn context<'a>(&'a self, mesh: &'a Mesh) -> Context<'a> {
        Context { step: &self.step, groups: &self.groups, mesh, model: &self.model, stored: &self.stored }
    }

    /// Reshards over a mesh.
    pub fn resharder<'a>(&'a self, mesh: &'a Mesh) -> Resharder<'a> {
        Resharder::new(&self.model, mesh, 0)
    }

    /// The groups that come before the outputs.
    pub fn inner_groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        (0..).zip(&self.groups.groups).filter(|(_, g)| g.output.is_none())
    }

    /// Partitions with these choices, runs all devices and compares every result.
    pub fn check(&self, mesh: &Mesh, inputs: Vec<Sharding>, groups: Vec<Strategy>, random: &mut Random) -> Result<(), String> {
        let choices = Choices { inputs, groups, ..Choices::default() };
        let local = self.partition(mesh, &choices);
        ir::verify::verify(&local.graph).map_err(|e| format!("the local graph: {e:#?}"))?;
        let mut devices = vec![Vec::new(); mesh.devices() as usize];
        for input in &local.inputs {
            let Source::Argument { index, sharding, .. } = &input.source else { unreachable!("one stage") };
            let parts = distribute(&self.arguments[*index as usize], sharding, mesh, random);
            devices.iter_mut().zip(parts).for_each(|(d, p)| d.push(p));
        }
        let results = run_spmd(&local.graph, mesh, 0, &devices, Precision::F64).map_err(|e| e.to_string())?;
        for (o, sink) in local.outputs.iter().enumerate() {
            let Sink::Result { index, sharding, .. } = sink else { unreachable!("one stage") };
            let parts: Vec<Tensor> = results.iter().map(|r| r[o].clone()).collect();
            compare(&self.expected[*index as usize], sharding, mesh, &parts).map_err(|e| format!("result {index}: {e}"))?;
        }
        Ok(())
    }

    fn partition(&self, mesh: &Mesh, choices: &Choices) -> LocalGraph {
        let view = StageView { stage: StageId(0), first_rank: 0, stages: &Stages::one(&self.step, &self.groups), transfers: &[], in_flight: 1 };
        partition::partition(&self.step, &self.groups, choices, mesh, &self.model, &view)
    }
}

/// The strategy of an output group that takes its value as it is made.
pub fn as_made(made: &Sharding, mesh: &Mesh) -> Strategy {
    let axes = vec![Choice::Whole; mesh.axes.len()];
    Strategy { axes, reads: vec![made.clone()], writes: vec![made.clone()], compute: Seconds(0.0) }
}
