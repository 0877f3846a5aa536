//! A plan made by hand, consistent in itself: a GPT-like step of any depth on two stages of a 2×2 mesh, with candidates, programs and memory.
//!
//! Numbers are made by simple formulas (bytes over bandwidth, FLOPs over peak) so that views have something plausible to draw; nothing is solved.
//! The vocabulary (50,257) does not divide by 2: its embedding is padded.

use ir::dtype::DType::{F32, I32};
use ir::graph::LocInfo;
use ir::kernel::Kernel;
use ir::op::{BinaryOp, DotDims, Reducer, UnaryOp};
use ir::plan::*;
use ir::program::*;
use ir::{AxisId, Bytes, Diagnostic, EntityId, Flops, Graph, Mesh, Module, OpId, OpKind, PrimaryMap, Seconds, Sharding, TensorType, ValueId};

const BATCH: u64 = 16;
const SEQUENCE: u64 = 128;
const WIDTH: u64 = 256;
const HEADS: u64 = 8;
const VOCABULARY: u64 = 50_257;
const X: AxisId = AxisId(0);
const Y: AxisId = AxisId(1);
const PEAK: f64 = 60e9;
const LINK: f64 = 8e9;

/// What a group of ops is, for its candidates.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// Follows the batch only.
    Elementwise,
    /// A product whose columns may be cut over `y`.
    Column,
    /// A product whose contraction may be cut over `y`.
    Row,
    /// A gradient of a parameter: partial over the batch's axis.
    Gradient,
    /// An update.
    Update,
}

struct Node {
    role: Role,
    ops: Vec<OpId>,
    values: Vec<ValueId>,
    place: Placement,
}

struct Sample {
    graph: Graph,
    placement: Vec<Placement>,
    nodes: Vec<Node>,
    at: Placement,
    line: u32,
}

impl Sample {
    fn name(&mut self) -> String {
        self.line += 1;
        format!("%{}", self.line)
    }
    fn group(&mut self, role: Role) {
        self.nodes.push(Node { role, ops: Vec::new(), values: Vec::new(), place: self.at });
    }
    fn op(&mut self, kind: OpKind, operands: &[ValueId], shape: &[u64], what: &str) -> ValueId {
        let name = self.name();
        let loc = self.graph.add_loc(LocInfo {
            line: self.line + 4,
            column: 5,
            name: Some(format!("model.py:{} {what}", 20 + self.line % 180).into()),
            path: "".into(),
        });
        let ty = TensorType { shape: shape.to_vec(), dtype: F32 };
        let op = self.graph.add_op(kind, operands.to_vec(), vec![ty], loc, &[name.into()]);
        self.placement.push(self.at);
        let result = self.graph.ops[op].results[0];
        let node = self.nodes.last_mut().expect("a group was started");
        node.ops.push(op);
        node.values.push(result);
        result
    }
    fn binary(&mut self, f: BinaryOp, a: ValueId, b: ValueId, what: &str) -> ValueId {
        let shape = self.graph.ty(a).shape.clone();
        self.op(OpKind::Binary(f), &[a, b], &shape, what)
    }
    fn unary(&mut self, f: UnaryOp, a: ValueId, what: &str) -> ValueId {
        let shape = self.graph.ty(a).shape.clone();
        self.op(OpKind::Unary(f), &[a], &shape, what)
    }
    fn dot(&mut self, role: Role, a: ValueId, b: ValueId, shape: &[u64], what: &str) -> ValueId {
        self.group(role);
        self.op(OpKind::Dot(DotDims::default()), &[a, b], shape, what)
    }
    fn norm(&mut self, x: ValueId, what: &str) -> ValueId {
        self.group(Role::Elementwise);
        let square = self.binary(BinaryOp::Multiply, x, x, what);
        let zero = self.op(OpKind::Iota { dim: 0 }, &[], &[], what);
        let shape = self.graph.ty(x).shape.clone();
        let sum = self.op(OpKind::Reduce { dims: vec![2], reducer: Reducer::Add }, &[square, zero], &shape[..2], what);
        let rsqrt = self.unary(UnaryOp::Rsqrt, sum, what);
        let wide = self.op(OpKind::Broadcast { dims: vec![0, 1] }, &[rsqrt], &shape, what);
        self.binary(BinaryOp::Multiply, x, wide, what)
    }
    fn softmax(&mut self, x: ValueId) -> ValueId {
        let what = "attn/softmax";
        let shape = self.graph.ty(x).shape.clone();
        let small = &shape[..shape.len() - 1];
        let dims: Vec<usize> = (0..small.len()).collect();
        self.group(Role::Elementwise);
        let init = self.op(OpKind::Iota { dim: 0 }, &[], &[], what);
        let max = self.op(OpKind::Reduce { dims: vec![small.len()], reducer: Reducer::Max }, &[x, init], small, what);
        let wide = self.op(OpKind::Broadcast { dims: dims.clone() }, &[max], &shape, what);
        let shifted = self.binary(BinaryOp::Subtract, x, wide, what);
        let e = self.unary(UnaryOp::Exponential, shifted, what);
        let sum = self.op(OpKind::Reduce { dims: vec![small.len()], reducer: Reducer::Add }, &[e, init], small, what);
        let wide = self.op(OpKind::Broadcast { dims }, &[sum], &shape, what);
        self.binary(BinaryOp::Divide, e, wide, what)
    }
    fn gelu(&mut self, x: ValueId) -> ValueId {
        self.group(Role::Elementwise);
        let cube = self.binary(BinaryOp::Multiply, x, x, "mlp/gelu");
        let t = self.unary(UnaryOp::Tanh, cube, "mlp/gelu");
        let half = self.binary(BinaryOp::Add, t, x, "mlp/gelu");
        self.binary(BinaryOp::Multiply, x, half, "mlp/gelu")
    }
    /// The backward of a product: cotangents of both operands.
    fn dot_backward(&mut self, dy: ValueId, x: ValueId, w: ValueId, role: Role, what: &str) -> (ValueId, ValueId) {
        let (x_shape, w_shape) = (self.graph.ty(x).shape.clone(), self.graph.ty(w).shape.clone());
        let dx = self.dot(role, dy, w, &x_shape, what);
        let dw = self.dot(Role::Gradient, dy, x, &w_shape, what);
        (dx, dw)
    }
    /// Adam on one parameter.
    fn adam(&mut self, p: ValueId, m: ValueId, v: ValueId, g: ValueId) -> [ValueId; 3] {
        self.group(Role::Update);
        let what = "adam";
        let g2 = self.binary(BinaryOp::Multiply, g, g, what);
        let m2 = self.binary(BinaryOp::Add, m, g, what);
        let v2 = self.binary(BinaryOp::Add, v, g2, what);
        let root = self.unary(UnaryOp::Sqrt, v2, what);
        let step = self.binary(BinaryOp::Divide, m2, root, what);
        let p2 = self.binary(BinaryOp::Subtract, p, step, what);
        [p2, m2, v2]
    }
}

struct Weights {
    names: Vec<&'static str>,
    values: Vec<[ValueId; 3]>,
}

/// The plan of a GPT-like step with that many transformer layers.
pub(crate) fn gpt(depth: usize) -> Plan {
    let mut s = Sample {
        graph: Graph::new("main"),
        placement: Vec::new(),
        nodes: Vec::new(),
        at: Placement { layer: 0, stage: StageId(0), phase: Phase::Forward, recomputed: false },
        line: 0,
    };
    let layers = depth as u32 + 2;
    let stage_of = |layer: u32| StageId(u32::from(layer >= layers.div_ceil(2)));
    let mut interface = Interface::default();
    let mut argument = 0;
    let mut weights: Vec<Weights> = Vec::new();
    let shapes: [(&'static str, Vec<u64>); 4] = [
        ("qkv", vec![WIDTH, 3, HEADS, WIDTH / HEADS]),
        ("proj", vec![HEADS, WIDTH / HEADS, WIDTH]),
        ("fc1", vec![WIDTH, 4 * WIDTH]),
        ("fc2", vec![4 * WIDTH, WIDTH]),
    ];
    for layer in 0..layers {
        let list: &[(&'static str, Vec<u64>)] = if layer == 0 {
            &[("embedding", vec![VOCABULARY, WIDTH])]
        } else if layer == layers - 1 {
            &[("head", vec![WIDTH, VOCABULARY])]
        } else {
            &shapes
        };
        let mut w = Weights { names: Vec::new(), values: Vec::new() };
        for (name, shape) in list {
            w.names.push(name);
            let mut three = [ValueId(0); 3];
            for (k, slot) in three.iter_mut().enumerate() {
                let ty = TensorType { shape: shape.clone(), dtype: F32 };
                *slot = s.graph.add_input(ty, format!("%arg{argument}"));
                interface.state.push((argument, argument));
                if k == 0 {
                    interface.parameters.push(argument);
                }
                argument += 1;
            }
            w.values.push(three);
        }
        weights.push(w);
    }
    let tokens = s.graph.add_input(TensorType { shape: vec![BATCH, SEQUENCE], dtype: I32 }, format!("%arg{argument}"));
    interface.batch.push((argument, Some(0)));

    // Forward.
    let activation = [BATCH, SEQUENCE, WIDTH];
    s.group(Role::Elementwise);
    let mut x = s.op(OpKind::Gather(Default::default()), &[weights[0].values[0][0], tokens], &activation, "embed/gather");
    let mut kept: Vec<[ValueId; 8]> = Vec::new();
    for layer in 1..layers - 1 {
        s.at = Placement { layer, stage: stage_of(layer), phase: Phase::Forward, recomputed: false };
        let w: Vec<ValueId> = weights[layer as usize].values.iter().map(|t| t[0]).collect();
        let n1 = s.norm(x, "ln1");
        let qkv = s.dot(Role::Column, n1, w[0], &[BATCH, SEQUENCE, 3, HEADS, WIDTH / HEADS], "attn/qkv");
        s.group(Role::Elementwise);
        let q = s.op(OpKind::Reshape, &[qkv], &[BATCH, HEADS, SEQUENCE, WIDTH / HEADS], "attn/q");
        let k = s.op(OpKind::Reshape, &[qkv], &[BATCH, HEADS, SEQUENCE, WIDTH / HEADS], "attn/k");
        let v = s.op(OpKind::Reshape, &[qkv], &[BATCH, HEADS, SEQUENCE, WIDTH / HEADS], "attn/v");
        let scores = s.dot(Role::Column, q, k, &[BATCH, HEADS, SEQUENCE, SEQUENCE], "attn/scores");
        let p = s.softmax(scores);
        let context = s.dot(Role::Column, p, v, &[BATCH, SEQUENCE, HEADS, WIDTH / HEADS], "attn/context");
        let proj = s.dot(Role::Row, context, w[1], &activation, "attn/proj");
        s.group(Role::Elementwise);
        let x1 = s.binary(BinaryOp::Add, x, proj, "residual");
        let n2 = s.norm(x1, "ln2");
        let h = s.dot(Role::Column, n2, w[2], &[BATCH, SEQUENCE, 4 * WIDTH], "mlp/fc1");
        let g = s.gelu(h);
        let f = s.dot(Role::Row, g, w[3], &activation, "mlp/fc2");
        s.group(Role::Elementwise);
        let x2 = s.binary(BinaryOp::Add, x1, f, "residual");
        kept.push([n1, p, context, n2, h, g, x1, v]);
        x = x2;
    }
    s.at = Placement { layer: layers - 1, stage: stage_of(layers - 1), phase: Phase::Forward, recomputed: false };
    let head = weights[layers as usize - 1].values[0];
    let logits = s.dot(Role::Column, x, head[0], &[BATCH, SEQUENCE, VOCABULARY], "head/logits");
    let p = s.softmax(logits);
    s.group(Role::Elementwise);
    let loss = s.op(OpKind::Reduce { dims: vec![0, 1, 2], reducer: Reducer::Add }, &[p, p], &[], "loss");

    // Backward, with each parameter's gradient.
    let mut gradients: Vec<Vec<ValueId>> = weights.iter().map(|w| vec![ValueId(0); w.values.len()]).collect();
    s.at.phase = Phase::Backward;
    s.group(Role::Elementwise);
    let dlogits = s.binary(BinaryOp::Subtract, p, logits, "loss/vjp");
    let (mut dx, dhead) = s.dot_backward(dlogits, x, head[0], Role::Row, "head/vjp");
    gradients[layers as usize - 1][0] = dhead;
    for layer in (1..layers - 1).rev() {
        s.at = Placement { layer, stage: stage_of(layer), phase: Phase::Backward, recomputed: false };
        let [n1, p, context, n2, h, g, _, v] = kept[layer as usize - 1];
        let w: Vec<ValueId> = weights[layer as usize].values.iter().map(|t| t[0]).collect();
        let (dg, dw3) = s.dot_backward(dx, g, w[3], Role::Column, "mlp/fc2/vjp");
        s.group(Role::Elementwise);
        let t = s.unary(UnaryOp::Tanh, h, "mlp/gelu/vjp");
        let dh = s.binary(BinaryOp::Multiply, dg, t, "mlp/gelu/vjp");
        let (dn2, dw2) = s.dot_backward(dh, n2, w[2], Role::Row, "mlp/fc1/vjp");
        let dx1 = s.norm(dn2, "ln2/vjp");
        s.group(Role::Elementwise);
        let dx1 = s.binary(BinaryOp::Add, dx, dx1, "residual/vjp");
        let (dcontext, dw1) = s.dot_backward(dx1, context, w[1], Role::Column, "attn/proj/vjp");
        let (dp, dv) = s.dot_backward(dcontext, p, v, Role::Column, "attn/context/vjp");
        s.group(Role::Elementwise);
        let ds = s.binary(BinaryOp::Multiply, dp, p, "attn/softmax/vjp");
        let ds = s.binary(BinaryOp::Subtract, ds, p, "attn/softmax/vjp");
        let dqkv = s.op(OpKind::Concatenate { dim: 2 }, &[ds, dv], &[BATCH, SEQUENCE, 3, HEADS, WIDTH / HEADS], "attn/qkv/vjp");
        let (dn1, dw0) = s.dot_backward(dqkv, n1, w[0], Role::Row, "attn/qkv/vjp");
        let d = s.norm(dn1, "ln1/vjp");
        s.group(Role::Elementwise);
        dx = s.binary(BinaryOp::Add, dx1, d, "residual/vjp");
        gradients[layer as usize] = vec![dw0, dw1, dw2, dw3];
    }
    s.at = Placement { layer: 0, stage: StageId(0), phase: Phase::Backward, recomputed: false };
    s.group(Role::Gradient);
    gradients[0][0] =
        s.op(OpKind::Scatter { dims: Default::default(), reducer: Reducer::Add }, &[weights[0].values[0][0], tokens, dx], &[VOCABULARY, WIDTH], "embed/vjp");

    // Update.
    for layer in 0..layers {
        s.at = Placement { layer, stage: stage_of(layer), phase: Phase::After, recomputed: false };
        let w = weights[layer as usize].values.clone();
        for (i, three) in w.into_iter().enumerate() {
            let new = s.adam(three[0], three[1], three[2], gradients[layer as usize][i]);
            for v in new {
                s.graph.outputs.push(v);
                let n = s.graph.outputs.len() - 1;
                s.graph.output_attributes.push(ir::graph::OutputAttributes { name: format!("result[{n}]"), sharding: None });
            }
        }
    }
    interface.loss = Some(s.graph.outputs.len() as u32);
    interface.scalars = vec![s.graph.outputs.len() as u32];
    s.graph.outputs.push(loss);
    s.graph.output_attributes.push(ir::graph::OutputAttributes { name: "result[loss]".into(), sharding: None });
    finish(s, interface, layers)
}

fn finish(s: Sample, interface: Interface, layers: u32) -> Plan {
    let mesh = Mesh::new(&[2, 2]);
    let mut kernels = PrimaryMap::new();
    kernels.push(Kernel { domain: vec![BATCH, SEQUENCE, WIDTH], ..Kernel::default() });
    let cut = layers.div_ceil(2);
    let stages: Vec<(StagePlan, Program)> = (0..2u32).map(|n| stage(&s, StageId(n), if n == 0 { (0, cut) } else { (cut, layers) }, &mesh)).collect();
    let (stages, programs): (Vec<_>, Vec<_>) = stages.into_iter().unzip();
    let slowest = stages.iter().map(|s| s.times.forward.0 + s.times.backward.0).fold(0.0, f64::max);
    let (microbatches, p) = (8u32, 2.0);
    let step = slowest * (f64::from(microbatches) + p - 1.0) + stages[0].times.after.0;
    Plan {
        compiler: "0.1.0".into(),
        request: Request {
            model: "gpt.mlir".into(),
            strategy: "auto".into(),
            stages: Some(2),
            memory_limit: Some(Bytes(2 << 30)),
            pins: vec!["%arg0=[{\"y\"}, {}]".into()],
            ..Request::default()
        },
        cluster: ClusterSummary {
            name: "local:8".into(),
            device: "cpu".into(),
            nodes: 1,
            devices_per_node: 8,
            memory: Bytes(2 << 30),
            peak_flops: PEAK,
            memory_bandwidth: 10e9,
            link_bandwidth: LINK,
        },
        source: Module::default(),
        interface,
        layers: (0..layers)
            .map(|l| match l {
                0 => Layer { name: "embedding".into(), kind: 0, ..Layer::default() },
                l if l == layers - 1 => Layer { name: "head".into(), kind: 2, ..Layer::default() },
                l => Layer { name: format!("layer {l}"), kind: 1, ..Layer::default() },
            })
            .collect(),
        depth: vec![],
        placement: s.placement,
        stages,
        schedule: Schedule { kind: ScheduleKind::OneFOneB, microbatches, step: Seconds(step), bubble: 1.0 / (f64::from(microbatches) + 1.0) },
        alternatives: alternatives(step, layers),
        by_hand: None,
        stopped: None,
        programs,
        kernels,
        code: Vec::new(),
        notes: vec![
            Diagnostic::warning("W0203", "the step has two scalar results that are not state; %60 was taken for the loss")
                .with_note("the other is result[53]")
                .with_help("name it with `--loss`"),
            Diagnostic::note("N0201", "`tf.aliasing_output` of %arg1 names result[2]; data flow says result[1], which was taken"),
        ],
        graph: s.graph,
    }
}

fn alternatives(step: f64, layers: u32) -> Vec<Alternative> {
    let one = |stages: u32, mesh: &[u32], microbatches, factor: Option<f64>, memory: u64, verdict: &str| Alternative {
        stages,
        cuts: (0..stages).map(|s| (s * layers / stages, (s + 1) * layers / stages)).collect(),
        mesh: mesh.to_vec(),
        microbatches,
        schedule: ScheduleKind::OneFOneB,
        recompute: Recompute::None,
        step: factor.map(|f| Seconds(step * f)),
        memory: Some(Bytes(memory << 20)),
        verdict: verdict.into(),
    };
    vec![
        one(2, &[2, 2], 8, Some(1.0), 612, "taken"),
        one(2, &[4, 1], 8, Some(1.06), 702, "slower by 6 %"),
        one(1, &[4, 2], 1, Some(1.21), 1404, "slower by 21 %"),
        one(4, &[2, 1], 16, Some(1.34), 590, "slower by 34 %: the bubble"),
        one(1, &[8, 1], 1, None, 3120, "does not fit: 1.05 GiB over the limit in the backward"),
    ]
}

fn sharding(dims: &[&[AxisId]], partial: &[AxisId]) -> Sharding {
    Sharding { dims: dims.iter().map(|d| d.to_vec()).collect(), partial: partial.iter().map(|&a| (a, Reducer::Add)).collect() }
}

/// The value cut over `x` in its batch dimension, and over `y` in `also`, where there are such dimensions.
fn laid(shape: &[u64], batch: bool, also: Option<usize>) -> Sharding {
    let mut s = Sharding::replicated(shape.len());
    if batch && shape.first() == Some(&BATCH) {
        s.dims[0].push(X);
    }
    if let Some(d) = also.filter(|d| *d < shape.len()) {
        s.dims[d].push(Y);
    }
    s
}

/// Dimension of heads, hidden units or vocabulary of a shape.
fn wide_dim(shape: &[u64]) -> Option<usize> {
    shape.iter().skip(1).position(|&n| n == HEADS || n == 4 * WIDTH || n == VOCABULARY).map(|i| i + 1)
}

fn candidates(role: Role, shapes: &[Vec<u64>]) -> Vec<Candidate> {
    let size = |s: &Sharding, shape: &[u64]| s.local_shape(shape, &Mesh::new(&[2, 2])).iter().product::<u64>() * 4;
    let elements: u64 = shapes.iter().map(|s| s.iter().product::<u64>()).sum();
    let work = elements as f64 * if role == Role::Elementwise || role == Role::Update { 6.0 } else { 2.0 * WIDTH as f64 };
    let make = |name: &str, ways: f64, communication: f64, reshard: f64, f: &dyn Fn(&[u64]) -> Sharding| {
        let shardings: Vec<Sharding> = shapes.iter().map(|s| f(s)).collect();
        let memory = shardings.iter().zip(shapes).map(|(s, shape)| size(s, shape)).sum();
        let bytes = elements as f64 * 4.0 / ways;
        Candidate {
            name: name.into(),
            shardings,
            compute: Seconds(work / ways / PEAK + 2e-6),
            communication: Seconds(communication * bytes / LINK),
            reshard: Seconds(reshard * bytes / LINK),
            memory: Bytes(memory),
        }
    };
    match role {
        Role::Elementwise => vec![
            make("batch on \"x\", wide on \"y\"", 4.0, 0.0, 0.0, &|s| laid(s, true, wide_dim(s))),
            make("batch on \"x\"", 2.0, 0.0, 0.5, &|s| laid(s, true, None)),
            make("replicated", 1.0, 0.0, 1.5, &|s| laid(s, false, None)),
        ],
        Role::Column => vec![
            make("batch on \"x\", columns on \"y\"", 4.0, 0.0, 0.0, &|s| laid(s, true, wide_dim(s))),
            make("batch on \"x\", sequence on \"y\"", 4.0, 0.5, 0.5, &|s| laid(s, true, Some(1))),
            make("batch on \"x\"", 2.0, 0.0, 0.5, &|s| laid(s, true, None)),
            make("replicated", 1.0, 0.0, 1.5, &|s| laid(s, false, None)),
        ],
        Role::Row => vec![
            make("batch on \"x\", contraction on \"y\", reduced", 4.0, 1.0, 0.0, &|s| laid(s, true, None)),
            make("batch on \"x\", contraction on \"y\", left partial", 4.0, 0.0, 1.2, &|s| {
                let mut l = laid(s, true, None);
                l.partial.push((Y, Reducer::Add));
                l
            }),
            make("batch on \"x\"", 2.0, 0.0, 0.9, &|s| laid(s, true, None)),
        ],
        Role::Gradient => vec![
            make("batch on \"x\", left partial", 4.0, 0.0, 0.25, &|s| match s.len() {
                2 if s[0] == VOCABULARY => sharding(&[&[Y], &[]], &[X]),
                2 if s[0] == 4 * WIDTH => sharding(&[&[Y], &[]], &[X]),
                2 => sharding(&[&[], &[Y]], &[X]),
                n => {
                    let mut l = laid(s, false, (0..n).find(|&d| s[d] == HEADS));
                    l.partial.push((X, Reducer::Add));
                    l
                }
            }),
            make("replicated", 1.0, 0.0, 2.0, &|s| laid(s, false, None)),
        ],
        Role::Update => vec![
            make("wide on \"y\"", 2.0, 0.0, 0.0, &|s| laid(s, false, parameter_dim(s))),
            make("first on \"x\", wide on \"y\" (sharded state)", 4.0, 0.3, 0.3, &|s| {
                let mut l = laid(s, false, parameter_dim(s));
                if l.dims.first().is_some_and(Vec::is_empty) {
                    l.dims[0].push(X);
                }
                l
            }),
        ],
    }
}

fn parameter_dim(shape: &[u64]) -> Option<usize> {
    shape.iter().position(|&n| n == HEADS || n == 4 * WIDTH || n == VOCABULARY)
}

fn stage(s: &Sample, id: StageId, layers: (u32, u32), mesh: &Mesh) -> (StagePlan, Program) {
    let mut shardings: Vec<Option<Sharding>> = vec![None; s.graph.values.len()];
    let mut program = Program {
        stage: id,
        mesh: mesh.clone(),
        first_rank: id.0 * mesh.devices(),
        buffers: PrimaryMap::new(),
        arena: Bytes(0),
        phases: Default::default(),
        chunks: vec![],
        inputs: Vec::new(),
        outputs: Vec::new(),
    };
    let (mut decisions, mut offset) = (Vec::new(), 0u64);
    let mut times = [0.0f64; 4];
    for node in s.nodes.iter().filter(|n| n.place.stage == id && !n.ops.is_empty()) {
        // Arguments of the node lie as its result does.
        for v in node.ops.iter().flat_map(|o| &s.graph.ops[*o].operands) {
            let shape = &s.graph.ty(*v).shape;
            if s.graph.def_op(*v).is_none() && shardings[v.index()].is_none() {
                let sharding = laid(shape, true, parameter_dim(shape));
                let ty = TensorType { shape: sharding.local_shape(shape, mesh), dtype: s.graph.ty(*v).dtype };
                let number = v.index();
                let kind = if number % 3 == 0 { BufferKind::Parameter } else { BufferKind::Optimizer };
                offset += buffer(&mut program, &s.graph.display_name(*v), ty, offset, 1, kind, true);
                shardings[number] = Some(sharding);
            }
        }
        let shapes: Vec<Vec<u64>> = node.values.iter().map(|v| s.graph.ty(*v).shape.clone()).collect();
        let candidates = candidates(node.role, &shapes);
        for (v, l) in node.values.iter().zip(&candidates[0].shardings) {
            shardings[v.index()] = Some(l.clone());
        }
        let last = *node.values.last().expect("a node has values");
        let lay = shardings[last.index()].clone().unwrap_or_default();
        let local = TensorType { shape: lay.local_shape(&s.graph.ty(last).shape, mesh), dtype: F32 };
        let slots = if node.place.phase == Phase::Forward { 2 - id.0 } else { 1 };
        let kind = match (node.place.phase, node.role) {
            (_, Role::Gradient) => BufferKind::Gradient,
            (Phase::Forward, _) => BufferKind::Activation,
            (Phase::After, _) => BufferKind::Temporary,
            _ => BufferKind::Temporary,
        };
        let name = s.graph.display_name(last);
        let result = program.buffers.len();
        let bytes = local.bytes();
        offset += buffer(&mut program, &name, local, offset, slots, kind, false);
        let result = BufferId::from_index(result);
        let seconds = candidates[0].compute.0 / 8.0;
        let instruction = |kind, seconds: f64, bytes| Instruction {
            kind,
            reads: vec![result],
            writes: vec![result],
            source: format!("{name} (gpt.mlir:{})", s.graph.locs[s.graph.ops[node.ops[0]].loc].line),
            seconds: Seconds(seconds),
            flops: Flops(seconds * PEAK),
            bytes: Bytes(bytes),
        };
        let list = &mut program.phases[node.place.phase as usize];
        list.push(instruction(InstructionKind::Kernel { kernel: KernelId(0), scalars: Vec::new() }, seconds, bytes));
        times[node.place.phase as usize] += seconds;
        let collective = match node.role {
            Role::Row => Some((CollectiveKind::AllReduce, vec![Y])),
            Role::Update => Some((CollectiveKind::AllReduce, vec![X])),
            _ => None,
        };
        if let Some((kind, axes)) = collective {
            let seconds = 20e-6 + bytes as f64 / LINK;
            let kind = InstructionKind::Collective { kind, axes, reducer: Reducer::Add, dtype: F32, segments: Vec::new() };
            list.push(instruction(kind, seconds, bytes));
            times[node.place.phase as usize] += seconds;
        }
        let reason = match (node.place.layer, node.role) {
            (0, _) => "pin %arg0",
            (l, _) if l > 1 && l + 1 < s.at.layer => "tied to layer 1",
            (_, Role::Update) => "memory",
            _ => "cost",
        };
        decisions.push(Decision { ops: node.ops.clone(), values: node.values.clone(), candidates, chosen: 0, reason: reason.into() });
    }
    let boundary = Instruction {
        kind: if id.0 == 0 { InstructionKind::Send { to: StageId(1), channel: 0 } } else { InstructionKind::Receive { from: StageId(0), channel: 0 } },
        reads: vec![BufferId(0)],
        writes: vec![BufferId(0)],
        source: "%60 (gpt.mlir:64)".into(),
        seconds: Seconds(0.8e-3),
        flops: Flops(0.0),
        bytes: Bytes(1 << 20),
    };
    let forward = &mut program.phases[Phase::Forward as usize];
    if id.0 == 0 {
        forward.push(boundary)
    } else {
        forward.insert(0, boundary)
    };
    program.arena = Bytes(offset);
    let memory = memory(&program, id);
    let objective = Seconds(times.iter().sum());
    let plan = StagePlan {
        layers,
        mesh: mesh.clone(),
        devices: (0..4).map(|d| id.0 * 4 + d).collect(),
        shardings,
        solve: SolveReport {
            nodes: decisions.len() as u32,
            edges: 2 * decisions.len() as u32,
            moments: 3,
            objective,
            bound: objective * 0.997,
            gap: 0.003,
            status: "optimal".into(),
            method: "reductions removed 61 %, exact DP on the rest (width 3), 1,204 states".into(),
        },
        decisions,
        times: StageTimes { before: Seconds(times[0]), forward: Seconds(times[1]), backward: Seconds(times[2]), after: Seconds(times[3]) },
        memory,
        cut: if id.0 == 0 { Vec::new() } else { cuts(layers) },
    };
    (plan, program)
}

/// The cut before a stage, one layer earlier and as it is.
fn cuts(layers: (u32, u32)) -> Vec<CutAlternative> {
    let at = |layer: u32, step: f64, verdict: &str| CutAlternative {
        layer,
        step: Seconds(step),
        slower: Seconds(step / 10.0),
        crossing: Seconds(0.8e-3),
        memory: Some(Bytes(u64::from(layer) << 28)),
        verdict: verdict.into(),
    };
    vec![at(layers.0 - 1, 0.52, "slower by 20 ms"), at(layers.0, 0.5, "taken")]
}

fn buffer(program: &mut Program, name: &str, ty: TensorType, offset: u64, slots: u32, kind: BufferKind, persistent: bool) -> u64 {
    let slot_stride = ty.bytes().max(1).next_multiple_of(64);
    program.buffers.push(Buffer { name: name.into(), ty, offset, slots, slot_stride, kind, persistent });
    slot_stride * u64::from(slots)
}

fn memory(program: &Program, id: StageId) -> MemoryReport {
    let arena = program.arena.0;
    let mut kinds: Vec<(BufferKind, u64)> = Vec::new();
    for b in program.buffers.values() {
        match kinds.iter_mut().find(|(k, _)| *k == b.kind) {
            Some((_, n)) => *n += b.bytes(),
            None => kinds.push((b.kind, b.bytes())),
        }
    }
    kinds.sort();
    let persistent: u64 = program.buffers.values().filter(|b| b.persistent).map(Buffer::bytes).sum();
    let activations = arena - persistent;
    let warm = 2 - u64::from(id.0);
    let mut alive = 0u64;
    let timeline = steps(ScheduleKind::OneFOneB, id, 2, 8)
        .map(|s| {
            match s.phase {
                Phase::Forward => alive += 1,
                Phase::Backward => alive -= 1,
                _ => {}
            }
            let share = match s.phase {
                Phase::Before => 0,
                Phase::After => activations / 4,
                _ => activations / 3 + activations * 2 / 3 * alive.min(warm) / warm,
            };
            let name = match s.phase {
                Phase::Before => "before".to_string(),
                Phase::Forward => format!("forward {}", s.microbatch),
                Phase::Backward => format!("backward {}", s.microbatch),
                Phase::After => "after".to_string(),
            };
            (name, Bytes(persistent + share))
        })
        .collect::<Vec<_>>();
    let mut largest: Vec<&Buffer> = program.buffers.values().collect();
    largest.sort_by_key(|b| (std::cmp::Reverse(b.bytes()), b.offset));
    MemoryReport {
        arena: program.arena,
        limit: Bytes(2 << 30),
        overhead: Bytes(24 << 20),
        at_peak: kinds.iter().map(|(k, n)| (format!("{k:?}").to_lowercase(), Bytes(*n))).collect(),
        peak_moment: timeline.iter().max_by_key(|t| t.1).map_or_else(String::new, |t| t.0.clone()),
        timeline,
        largest: largest.iter().take(12).map(|b| (b.name.clone(), format!("{:?}", b.kind).to_lowercase(), Bytes(b.bytes()))).collect(),
    }
}
