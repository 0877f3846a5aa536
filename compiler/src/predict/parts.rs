//! What a solved setting is made of: for every layer and phase the seconds of each kind of work, and the collectives by the role of their axes.
//!
//! The works and the paths of collectives are those that the search prices; a [`Framework`] changes how each is executed (which attention, how much is fused,
//! how wide gradients travel), never which there are. Invariant: with [`Framework::own`] the seconds of a layer's phase add up to the table's.

use super::framework::Framework;
use super::setting::Arithmetic;
use crate::shard::fixed::Role;
use crate::shard::reshard::Step;
use crate::shard::routing::{Part, Routing};
use crate::shard::strategy::{Work, works};
use crate::tables::entry::{Bench, Prepared};
use cost_model::{AttentionWork, CollectiveCall, CostModel, KernelWork, LibraryWork, MatMulShape};
use ir::program::{BufferKind, CollectiveKind, Phase};
use ir::{AxisId, Bytes, DType, Mesh, OpKind, SecondaryMap, Sharding, TensorType, ValueId};
use std::collections::BTreeSet;

/// What a collective is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Traffic {
    /// Between the devices that share a block's matrices.
    Tensor,
    /// Keys and values, or heads.
    Context,
    /// Tokens to experts and back.
    Expert,
    /// Parameters from where they are kept.
    Parameters,
    /// Gradients to where they are kept.
    Gradients,
}

impl Traffic {
    /// Every kind with its name.
    pub const ALL: [(Traffic, &str); 5] = [
        (Traffic::Tensor, "tensor"),
        (Traffic::Context, "context"),
        (Traffic::Expert, "expert"),
        (Traffic::Parameters, "parameters"),
        (Traffic::Gradients, "gradients"),
    ];
}

/// Seconds of one layer in one phase, on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Matrix products and convolutions.
    pub products: f64,
    /// Attention.
    pub attention: f64,
    /// Everything that streams.
    pub streams: f64,
    /// Collectives, by [`Traffic`].
    pub traffic: [f64; 5],
    /// Elements of the largest product's result.
    pub largest: f64,
    /// Bytes of the products' results.
    pub results: f64,
    /// Kernels started.
    pub kernels: f64,
    /// Arithmetic of products and attention.
    pub flops: f64,
    /// Of that, what the backward repeats of the forward.
    pub repeated: f64,
    /// Bytes of attention's scores, where they are written.
    pub scores: f64,
    /// Seconds of products that make gradients of parameters.
    pub weights: f64,
}

impl Load {
    /// Computing alone.
    pub fn compute(&self) -> f64 {
        self.products + self.attention + self.streams
    }
    /// All of it, one after another.
    pub fn serial(&self) -> f64 {
        self.compute() + self.traffic.iter().sum::<f64>()
    }
    pub(super) fn add(&mut self, o: &Load) {
        self.products += o.products;
        self.attention += o.attention;
        self.streams += o.streams;
        self.kernels += o.kernels;
        self.flops += o.flops;
        self.repeated += o.repeated;
        self.scores += o.scores;
        self.results += o.results;
        self.largest = self.largest.max(o.largest);
        self.weights += o.weights;
        self.traffic.iter_mut().zip(o.traffic).for_each(|(a, b)| *a += b);
    }
}

/// One collective of a layer's phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The layer of the step; none for what every stage does.
    pub layer: Option<u32>,
    /// When.
    pub phase: Phase,
    /// What for.
    pub traffic: Traffic,
    /// Which.
    pub kind: CollectiveKind,
    /// The buffer of a device.
    pub bytes: Bytes,
    /// Devices of the group, and nodes that they lie on.
    pub group: (u32, u32),
    /// Its time alone.
    pub seconds: f64,
    /// The value.
    pub value: String,
}

/// Loads of every layer of the step by phase, and of what every stage does for itself.
#[derive(Clone, Debug)]
pub struct Parts {
    /// By layer, then phase.
    pub layers: Vec<[Load; 4]>,
    /// What the backward of every layer repeats of its forward, which is part of the backward's load.
    pub again: Vec<Load>,
    /// What every stage does.
    pub everywhere: [Load; 4],
    /// Bytes of every layer's inputs, kept on a device: parameters, optimizer state, data.
    pub inputs: Vec<[f64; 3]>,
    /// Every collective.
    pub exchanges: Vec<Exchange>,
    /// Seconds to send what crosses from every layer to the next, in the forward and back, per microbatch. What has a parameter's shape is no activation:
    /// gradients of a parameter that two layers read are added up once a step.
    pub crossing: Vec<(f64, f64)>,
}

/// Where something is read and paid for.
struct Place {
    phase: Phase,
    layer: Option<u32>,
}

/// Prices what a bench has chosen.
pub(super) fn parts(p: &Prepared, bench: &mut Bench<'_>, picks: &[usize], mesh: &Mesh, roles: &[Role], framework: &Framework, arithmetic: Arithmetic) -> Parts {
    let graph = &p.step.graph;
    let inputs = p.step.inputs.len();
    let count = p.layers.layers.len();
    let mut out = Parts {
        layers: vec![Default::default(); count],
        again: vec![Load::default(); count],
        everywhere: Default::default(),
        inputs: vec![[0.0; 3]; count],
        exchanges: vec![],
        crossing: vec![(0.0, 0.0); count],
    };
    let mut maker: SecondaryMap<ValueId, Option<(usize, usize)>> = SecondaryMap::new();
    graph.inputs.iter().enumerate().for_each(|(i, &v)| maker[v] = Some((i, 0)));
    for (g, group) in p.groups.groups.iter().enumerate().filter(|(_, g)| g.output.is_none()) {
        group.writes.iter().enumerate().for_each(|(w, a)| maker[a.value] = Some((inputs + g, w)));
    }
    let model = bench.space.cx.model;
    let routing = framework.permutes.then(|| Routing::new(&p.step, &p.groups)).filter(Routing::any);
    let exchanged = Exchanged::new(roles, mesh, framework, routing.as_ref().map_or(1.0, Routing::chosen));
    let part_of = |g: usize| routing.as_ref().map_or(Part::None, |r| r.part(g));
    for (i, &v) in graph.inputs.iter().enumerate() {
        let Some(l) = p.layers.home[i] else { continue };
        let ty = graph.ty(v);
        let bytes = local_bytes(ty, &bench.space.inputs[i][picks[i]], mesh) as f64;
        let kind = match p.step.inputs[i].kind {
            BufferKind::Parameter => 0,
            BufferKind::Optimizer => 1,
            _ => 2,
        };
        out.inputs[l as usize][kind] += bytes;
    }
    let kept = parameter_copies(p);
    let shapes: BTreeSet<&[u64]> =
        p.step.inputs.iter().zip(&graph.inputs).filter(|(i, _)| i.kind == BufferKind::Parameter).map(|(_, &v)| &*graph.ty(v).shape).collect();
    let mut sent: BTreeSet<(ValueId, u32, bool)> = BTreeSet::new();
    let mut done: BTreeSet<(ValueId, Phase, Option<u32>, Sharding)> = BTreeSet::new();
    for (g, group) in p.groups.groups.iter().enumerate() {
        let place = Place { phase: bench.space.phase(g), layer: p.layer_of[g] };
        let strategy = bench.space.groups[g][picks[inputs + g]].clone();
        let repeated = group.ops.iter().any(|&o| p.step.recomputed[o.0 as usize]);
        let mut load = Load::default();
        let with_parameter = group.reads.iter().any(|r| kept[r.value]);
        let part = part_of(g);
        let makes_gradient = !matches!(part, Part::Moving | Part::Router) && makes_weights(p, group, with_parameter);
        let works = works(bench.space.cx, group, &strategy.axes, &strategy.reads, &strategy.writes);
        for work in &works {
            let arithmetic = match arithmetic {
                Arithmetic::Eight if !with_parameter && !makes_gradient => Arithmetic::AsTraced,
                other => other,
            };
            // What a router does with its logits, and the products that move tokens, are permutations instead.
            match (part, work) {
                (Part::Router, _) => {}
                (Part::Moving, Work::Product(_)) => {
                    let rows = routing.as_ref().and_then(|r| r.rows(graph, group)).map_or(0, |v| exchanged.bytes(graph.ty(v)).0);
                    let moved = Bytes((rows as f64 * framework.permute_traffic) as u64);
                    pass_over(moved, framework.permute_kernels, model, &mut load);
                }
                (Part::Logits, Work::Product(shape)) => {
                    execute(work, model, framework, arithmetic, place.phase, &mut load);
                    let logits = (shape.m * shape.n).min(shape.m * shape.k) * shape.dtype.bytes();
                    pass_over(Bytes((logits as f64 * framework.router_passes / 2.0) as u64), framework.router_passes / 2.0, model, &mut load);
                }
                _ => execute(work, model, framework, arithmetic, place.phase, &mut load),
            }
        }
        if part == Part::Experts {
            load.products /= framework.expert_rate;
            load.kernels += framework.expert_kernels * works.iter().map(|w| if let Work::Product(shape) = w { shape.batch as f64 } else { 0.0 }).sum::<f64>();
        }
        if repeated {
            load.repeated = load.flops;
        }
        if makes_gradient {
            load.weights = load.products;
        }
        let converts = place.phase == Phase::Before && group.ops.iter().all(|&o| graph.ops[o].kind == OpKind::Convert);
        for (r, access) in group.reads.iter().enumerate() {
            let Some((from, write)) = maker[access.value] else { continue };
            let source = if from < inputs { None } else { p.layer_of[from - inputs] };
            if let (Some(a), Some(b)) = (source, place.layer)
                && a != b
                && [bench.space.phase(from - inputs), place.phase].iter().all(|ph| matches!(ph, Phase::Forward | Phase::Backward))
                && !shapes.contains(&*graph.ty(access.value).shape)
            {
                let seconds = send(model, mesh, roles, graph.ty(access.value), &strategy.reads[r], framework);
                for l in a.min(b)..a.max(b) {
                    if sent.insert((access.value, l, a > b)) {
                        let crossing = &mut out.crossing[l as usize];
                        *(if a > b { &mut crossing.1 } else { &mut crossing.0 }) += seconds;
                    }
                }
            }
            let have = if from < inputs { &bench.space.inputs[from][picks[from]] } else { &bench.space.groups[from - inputs][picks[from]].writes[write] };
            let want = &strategy.reads[r];
            let ty = graph.ty(access.value);
            if have == want || !done.insert((access.value, place.phase, place.layer, want.clone())) {
                continue;
            }
            let Some(path) = bench.resharder.path(ty, have, want) else { continue };
            let ends = [if from < inputs { Part::None } else { part_of(from - inputs) }, part];
            let moves =
                routing.is_some() && ends.iter().any(|e| matches!(e, Part::Moving | Part::Experts)) && !kept[access.value] && !shapes.contains(&*ty.shape);
            let mut sent_to = if moves { exchanged.axes(have, want) } else { vec![] };
            // Rows that came in the forward are kept as they came.
            let came = from >= inputs && bench.space.phase(from - inputs) == Phase::Forward && place.phase == Phase::Backward && !repeated;
            if came {
                sent_to.clear();
            }
            if !sent_to.is_empty() {
                let group = model.cluster().group(mesh, 0, &sent_to);
                let bytes = Bytes((exchanged.bytes(ty).0 as f64 * exchanged.copies(group.size, group.nodes)) as u64);
                let call = CollectiveCall { kind: CollectiveKind::AllToAll, bytes, dtype: ty.dtype };
                let seconds = model.collective(&call, &group).time.0 / framework.token_rate;
                load.traffic[Traffic::Expert as usize] += seconds;
                out.exchanges.push(Exchange {
                    layer: place.layer,
                    phase: place.phase,
                    traffic: Traffic::Expert,
                    kind: call.kind,
                    bytes: call.bytes,
                    group: (group.size, group.nodes),
                    seconds,
                    value: graph.display_name(access.value).to_string(),
                });
            }
            // What is converted and gathered is gathered in the narrower type.
            let narrow = if converts { graph.ty(group.writes[0].value).dtype } else { ty.dtype };
            let parameter = kept[access.value];
            let mut at = have.clone();
            for (step, after) in &path.steps {
                let Some((kind, axes, held)) = collective(step, &at, after) else {
                    at = after.clone();
                    continue;
                };
                if moves && axes.iter().all(|a| exchanged.over.contains(a)) {
                    at = after.clone();
                    continue;
                }
                let traffic = purpose(roles, &axes, parameter, place.phase);
                let dtype = match traffic {
                    Traffic::Gradients if ty.dtype == DType::F32 && ty.elements() > 64 => wire(framework.gradient_wire),
                    Traffic::Parameters => narrow,
                    _ => ty.dtype,
                };
                let elements: u64 = held.local_shape(&ty.shape, mesh).iter().product();
                let mut call = CollectiveCall { kind, bytes: Bytes(elements * dtype.bytes()), dtype };
                if traffic == Traffic::Tensor && parameter && group.ops.iter().any(|&o| matches!(graph.ops[o].kind, OpKind::Gather(_))) {
                    // A table cut by rows is not gathered: every device looks up the rows it has, and the results are summed.
                    let rows = local_bytes(graph.ty(group.writes[0].value), &strategy.writes[0], mesh);
                    call = CollectiveCall { kind: CollectiveKind::AllReduce, bytes: Bytes(rows), dtype };
                }
                let group = model.cluster().group(mesh, 0, &axes);
                let partitioned = axes.iter().any(|a| matches!(roles.get(a.0 as usize), Some(Role::Data { zero: 3 })));
                let rate = match traffic {
                    Traffic::Parameters | Traffic::Gradients if partitioned => framework.partition_rate,
                    Traffic::Parameters => framework.gather_rate,
                    _ => 1.0,
                };
                let seconds = model.collective(&call, &group).time.0 / rate;
                load.traffic[traffic as usize] += seconds;
                out.exchanges.push(Exchange {
                    layer: place.layer,
                    phase: place.phase,
                    traffic,
                    kind: call.kind,
                    bytes: call.bytes,
                    group: (group.size, group.nodes),
                    seconds,
                    value: graph.display_name(access.value).to_string(),
                });
                at = after.clone();
            }
        }
        if let (Some(l), true) = (place.layer, repeated) {
            out.again[l as usize].add(&load);
        }
        let to = match place.layer {
            Some(l) => &mut out.layers[l as usize],
            None => &mut out.everywhere,
        };
        to[place.phase as usize].add(&load);
    }
    out
}

/// A kernel that reads and writes so many bytes, and the starts of small ones with it.
fn pass_over(bytes: Bytes, kernels: f64, model: &dyn CostModel, load: &mut Load) {
    let work = KernelWork { read: bytes, written: bytes, flops: ir::Flops(0.0), dtype: DType::F32 };
    load.streams += model.kernel(&work).0;
    load.kernels += kernels;
}

/// How tokens go to experts where they are permuted: in one exchange over all axes along which experts lie apart, every row from the one device that has it.
struct Exchanged<'a> {
    over: Vec<AxisId>,
    /// Devices of the mesh with different tokens.
    apart: u64,
    /// Experts that a token goes to.
    chosen: f64,
    framework: &'a Framework,
}

impl Exchanged<'_> {
    fn new<'a>(roles: &[Role], mesh: &Mesh, framework: &'a Framework, chosen: f64) -> Exchanged<'a> {
        let axes = || (0..).map(AxisId).zip(roles);
        let over = axes().filter(|(_, r)| matches!(r, Role::Expert { .. } | Role::Tensor { spread: true, .. })).map(|(a, _)| a).collect();
        let apart = axes().filter(|(_, r)| !matches!(r, Role::Tensor { sequence: false, .. })).map(|(a, _)| u64::from(mesh.size(a))).product();
        Exchanged { over, apart, chosen, framework }
    }

    /// Rows of a device.
    fn bytes(&self, ty: &TensorType) -> Bytes {
        Bytes(ty.bytes() / self.apart.max(1))
    }

    /// Along which axes rows change their device between two shardings: where a dimension is cut that was not, or was another.
    fn axes(&self, have: &Sharding, want: &Sharding) -> Vec<AxisId> {
        let at = |s: &Sharding, a: AxisId| s.dims.iter().position(|d| d.contains(&a));
        self.over.iter().copied().filter(|&a| at(have, a) != at(want, a)).collect()
    }

    /// Of the rows the share that is sent, where a token goes once to a node (1) or a device (2) that has several of its experts: of `n` places that have as many
    /// experts each, so many are met by a token's experts on average. Between nodes the network is what an exchange waits for.
    fn copies(&self, devices: u32, nodes: u32) -> f64 {
        let n = match self.framework.sends_once {
            0 => return 1.0,
            _ if nodes > 1 => f64::from(nodes),
            1 => return 1.0,
            _ => f64::from(devices),
        };
        (n * (1.0 - (1.0 - 1.0 / n).powf(self.chosen)) / self.chosen).min(1.0)
    }
}

/// Seconds to send a value to the next stage: where all devices of a tensor axis have the same, each may send a part, and the parts are gathered there.
fn send(model: &dyn CostModel, mesh: &Mesh, roles: &[Role], ty: &TensorType, s: &Sharding, f: &Framework) -> f64 {
    let cluster = model.cluster();
    let devices = mesh.devices();
    let route = cluster.route(0, devices.min(cluster.devices().saturating_sub(devices)), devices);
    let bytes = local_bytes(ty, s, mesh);
    let tensor = (0..).map(AxisId).zip(roles).find(|(a, r)| matches!(r, Role::Tensor { .. }) && !s.axes().contains(a)).map(|(a, _)| a);
    match tensor.filter(|_| f.sends_parts) {
        Some(axis) => {
            let call = CollectiveCall { kind: CollectiveKind::AllGather, bytes: Bytes(bytes), dtype: ty.dtype };
            model.send(Bytes(bytes / u64::from(mesh.size(axis))), &route).0 + model.collective(&call, &cluster.group(mesh, 0, &[axis])).time.0
        }
        None => model.send(Bytes(bytes), &route).0,
    }
}

/// The element type with so many bytes on the wire.
fn wire(bytes: f64) -> DType {
    if bytes <= 2.0 { DType::BF16 } else { DType::F32 }
}

fn local_bytes(ty: &TensorType, s: &Sharding, mesh: &Mesh) -> u64 {
    s.local_shape(&ty.shape, mesh).iter().product::<u64>() * ty.dtype.bytes()
}

/// Parameters, and what is made of them before the first microbatch.
fn parameter_copies(p: &Prepared) -> SecondaryMap<ValueId, bool> {
    let graph = &p.step.graph;
    let mut kept: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    for (input, &v) in p.step.inputs.iter().zip(&graph.inputs) {
        kept[v] = input.kind == BufferKind::Parameter;
    }
    for (_, op) in graph.ops.iter().filter(|(id, _)| p.step.phase_of(*id) == Phase::Before) {
        let from = op.operands.iter().any(|&v| kept[v]);
        op.results.iter().for_each(|&v| kept[v] = from);
    }
    kept
}

/// Whether a group's product makes gradients of parameters: a product of the backward that reads none.
fn makes_weights(p: &Prepared, group: &crate::shard::groups::Group, with_parameter: bool) -> bool {
    let backward = group.ops.first().is_some_and(|&o| p.step.phase_of(o) == Phase::Backward && !p.step.recomputed[o.0 as usize]);
    backward && !with_parameter && group.ops.iter().any(|&o| matches!(p.step.graph.ops[o].kind, OpKind::Dot(_) | OpKind::Convolution(_)))
}

/// What a step of a path is, over which axes, and the sharding whose local block is its buffer.
fn collective(step: &Step, before: &Sharding, after: &Sharding) -> Option<(CollectiveKind, Vec<AxisId>, Sharding)> {
    Some(match step {
        Step::AllReduce { axes, .. } => (CollectiveKind::AllReduce, axes.clone(), before.clone()),
        Step::ReduceScatter { axis, .. } => (CollectiveKind::ReduceScatter, vec![*axis], before.clone()),
        Step::AllGather { axes, .. } => (CollectiveKind::AllGather, axes.clone(), after.clone()),
        Step::AllToAll { axis, .. } => (CollectiveKind::AllToAll, vec![*axis], before.clone()),
        Step::Slice { .. } => return None,
    })
}

/// What a collective over axes is for.
fn purpose(roles: &[Role], axes: &[AxisId], parameter: bool, phase: Phase) -> Traffic {
    let of = |a: &AxisId| roles.get(a.0 as usize).copied().unwrap_or(Role::Data { zero: 0 });
    let first = axes.iter().map(of).min().unwrap_or(Role::Data { zero: 0 });
    match first {
        Role::Tensor { .. } => Traffic::Tensor,
        _ if parameter => Traffic::Parameters,
        _ if phase == Phase::After => Traffic::Gradients,
        Role::Context { .. } => Traffic::Context,
        Role::Expert { .. } => Traffic::Expert,
        Role::Data { .. } if phase == Phase::Before => Traffic::Parameters,
        Role::Data { .. } => Traffic::Gradients,
    }
}

/// The type in which a product traced in `dtype` is done.
fn narrowed(dtype: DType, arithmetic: Arithmetic) -> DType {
    match arithmetic {
        Arithmetic::Half if dtype == DType::BF16 => DType::F16,
        Arithmetic::Eight if dtype.bytes() == 2 => DType::F8E4M3FN,
        _ => dtype,
    }
}

/// Adds a work to a load, as the framework executes it.
fn execute(work: &Work, model: &dyn CostModel, f: &Framework, arithmetic: Arithmetic, phase: Phase, load: &mut Load) {
    match work {
        Work::Product(shape) => {
            load.results += (shape.batch * shape.m * shape.n * shape.dtype.bytes()) as f64;
            let shape = MatMulShape { dtype: narrowed(shape.dtype, arithmetic), ..*shape };
            if arithmetic == Arithmetic::Eight && shape.dtype.bytes() == 1 {
                let device = &model.cluster().device;
                let operands = (shape.batch * (shape.m * shape.k + shape.k * shape.n)) as f64;
                load.streams += operands * f.cast_bytes / (device.memory_bandwidth.0 * device.memory_efficiency);
            }
            load.products += model.matmul(&shape).0 / f.products;
            load.flops += shape.flops().0;
            load.largest = load.largest.max((shape.batch * shape.m * shape.n) as f64);
            load.kernels += 1.0;
        }
        Work::Attention(a) => {
            let half = if arithmetic == Arithmetic::Half { arithmetic } else { Arithmetic::AsTraced };
            let a = AttentionWork { kernel: f.attention, dtype: narrowed(a.dtype, half), ..*a };
            load.attention += model.attention(&a).0 / f.attention_rate;
            if a.kernel == cost_model::AttentionKernel::Unfused && !a.backward {
                // Probabilities, and where they are dropped out a mask and what is left.
                load.scores += (a.batch * a.queries * a.keys) as f64 * if f.dropout { 5.0 } else { 2.0 };
            }
            load.flops += a.flops().0;
            load.kernels += 1.0;
        }
        Work::Library(work) => {
            load.streams += model.library(&LibraryWork { op: work.op, work: work.work }).0;
            load.kernels += 1.0;
        }
        Work::Kernel(work) => {
            // Updates go over all parameters in few kernels, whoever makes them.
            let (traffic, kernels) = if phase == Phase::After { (1.0, 0.1) } else { (f.traffic, f.kernels) };
            let widened = |b: Bytes| Bytes((b.0 as f64 * traffic) as u64);
            let one = model.kernel(&KernelWork { read: widened(work.read), written: widened(work.written), ..*work }).0;
            let launch = model.cluster().device.launch.0;
            load.streams += if f.kernels == 1.0 && f.traffic == 1.0 { one } else { one + launch * (kernels - 1.0) };
            load.kernels += kernels;
        }
    }
}
