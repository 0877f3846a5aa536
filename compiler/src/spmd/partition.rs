//! The SPMD partition: global ops become per-device ops on local shapes, with explicit collectives between them.
//!
//! Ops are emitted in graph order, each as its group's strategy says; a read whose sharding differs is resharded by the cheapest path, once per phase for
//! all readers that want the same. What padding holds is never relied on: before a reduction over a dimension that was cut unevenly the operands are
//! masked with the reduction's neutral element. One rule of this file: a local value is the block that its sharding says, padding at the end.

use super::local::{LocalGraph, LocalInput, Sink, Source};
use crate::shard::groups::{Choice, Group, Groups, Member, Place};
use crate::shard::problem::Choices;
use crate::shard::reshard::{Resharder, Step};
use crate::shard::strategy::Strategy;
use crate::step::StepGraph;
use cost_model::CostModel;
use ir::graph::LocInfo;
use ir::op::{BinaryOp, Direction, OpKind};
use ir::program::{Phase, StageId};
use ir::{Attention, AttentionDim, AxisId, DType, Graph, Literal, Loc, Mesh, OpId, SecondaryMap, Sharding, TensorType, ValueId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where groups are done and inputs are kept.
#[derive(Clone)]
pub struct Stages {
    /// Stage of every group; none for what every stage does for itself.
    pub of_group: Vec<Option<StageId>>,
    /// Stage that keeps every input; none for inputs that every stage reads.
    pub of_input: Vec<Option<StageId>>,
}

impl Stages {
    /// Everything on one stage.
    pub fn one(step: &StepGraph, groups: &Groups) -> Stages {
        Stages { of_group: vec![Some(StageId(0)); groups.groups.len()], of_input: vec![None; step.inputs.len()] }
    }
    fn does(&self, stage: StageId, g: usize) -> bool {
        self.of_group[g].is_none_or(|s| s == stage)
    }
}

/// Which stage is partitioned.
pub struct StageView<'a> {
    /// The stage.
    pub stage: StageId,
    /// Rank of its device 0.
    pub first_rank: u32,
    /// Where everything is.
    pub stages: &'a Stages,
    /// What crosses stages.
    pub transfers: &'a [Transfer],
    /// How many microbatches are between forward and backward at most.
    pub in_flight: u32,
}

/// What crosses stages: the sender's value, how the receiver wants it, when, and the channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// The value.
    pub value: ValueId,
    /// As it is sent.
    pub sharding: Sharding,
    /// From.
    pub from: StageId,
    /// To.
    pub to: StageId,
    /// In which phase.
    pub phase: Phase,
    /// The channel.
    pub channel: u32,
}

struct Emitter<'a> {
    step: &'a StepGraph,
    groups: &'a Groups,
    choices: &'a Choices,
    mesh: &'a Mesh,
    resharder: Resharder<'a>,
    graph: Graph,
    phase: Vec<Phase>,
    depth: Vec<u32>,
    now: Phase,
    depth_now: u32,
    loc: Loc,
    /// Local values: as they are made, and resharded (per phase).
    local: BTreeMap<ValueId, (ValueId, Sharding)>,
    resharded: BTreeMap<(ValueId, Sharding, Phase), ValueId>,
    /// Results of members that are views, per group.
    views: BTreeMap<(u32, u32), ValueId>,
    /// Where the results of an op begin among its group's writes.
    first_write: SecondaryMap<OpId, u32>,
}

/// For every op of a group where its results begin among the group's writes, which are its ops' results in order.
fn first_writes(step: &StepGraph, groups: &Groups) -> SecondaryMap<OpId, u32> {
    let mut first = SecondaryMap::new();
    for group in &groups.groups {
        let mut at = 0;
        for &op in &group.ops {
            first[op] = at;
            at += step.graph.ops[op].results.len() as u32;
        }
    }
    first
}

/// The groups and inputs that make each value.
fn makers(step: &StepGraph, groups: &Groups) -> BTreeMap<ValueId, Result<usize, usize>> {
    let mut maker = BTreeMap::new();
    for (i, &v) in step.graph.inputs.iter().enumerate() {
        maker.insert(v, Err(i));
    }
    for (g, group) in groups.groups.iter().enumerate().filter(|(_, g)| g.output.is_none()) {
        group.writes.iter().for_each(|w| {
            maker.insert(w.value, Ok(g));
        });
    }
    maker
}

/// The values that cross stages, with what each receiver wants, in a fixed order.
///
/// A value is sent in the phase that makes it; a parameter that another stage reads too is sent before the first microbatch.
pub fn transfers(step: &StepGraph, groups: &Groups, choices: &Choices, stages: &Stages) -> Vec<Transfer> {
    let maker = makers(step, groups);
    let mut set: BTreeSet<(ValueId, StageId, Phase, Sharding, StageId)> = BTreeSet::new();
    for (g, group) in groups.groups.iter().enumerate() {
        let Some(to) = stages.of_group[g] else { continue };
        for (r, access) in group.reads.iter().enumerate() {
            let (from, phase) = match maker.get(&access.value) {
                Some(Ok(m)) => (stages.of_group[*m], groups.groups[*m].ops.first().map_or(Phase::After, |&o| step.phase_of(o))),
                Some(Err(i)) => (stages.of_input[*i], Phase::Before),
                None => continue,
            };
            if let Some(from) = from.filter(|&f| f != to) {
                set.insert((access.value, to, phase, choices.groups[g].reads[r].clone(), from));
            }
        }
    }
    (0..).zip(set).map(|(channel, (value, to, phase, sharding, from))| Transfer { value, sharding, from, to, phase, channel }).collect()
}

/// How many transfers lie before each group on its longest path: what a stage does in this order never waits for what waits for it.
fn depths(step: &StepGraph, groups: &Groups, stages: &Stages) -> Vec<u32> {
    let maker = makers(step, groups);
    let mut depth = vec![0u32; groups.groups.len()];
    for (g, group) in groups.groups.iter().enumerate() {
        depth[g] = group
            .reads
            .iter()
            .map(|r| match maker.get(&r.value) {
                Some(Ok(m)) => {
                    depth[*m] + u32::from(stages.of_group[*m].is_some() && stages.of_group[g].is_some() && stages.of_group[*m] != stages.of_group[g])
                }
                _ => 0,
            })
            .max()
            .unwrap_or(0);
    }
    // What waits for no cotangent is done as late as its readers allow, so that it is not held from the start of the backward.
    let mut latest: Vec<Option<u32>> = vec![None; groups.groups.len()];
    for (g, group) in groups.groups.iter().enumerate().rev() {
        let lazy = !group.ops.is_empty() && group.ops.iter().all(|o| step.lazy[o.0 as usize]);
        if let (true, Some(late)) = (lazy, latest[g]) {
            depth[g] = depth[g].max(late);
        }
        if group.ops.first().is_none_or(|&o| step.phase_of(o) != Phase::Backward) {
            continue;
        }
        for r in &group.reads {
            if let Some(Ok(m)) = maker.get(&r.value) {
                let crosses = stages.of_group[*m].is_some() && stages.of_group[g].is_some() && stages.of_group[*m] != stages.of_group[g];
                let late = depth[g].saturating_sub(u32::from(crosses));
                latest[*m] = Some(latest[*m].map_or(late, |l| l.min(late)));
            }
        }
    }
    depth
}

/// Partitions one stage.
pub fn partition(step: &StepGraph, groups: &Groups, choices: &Choices, mesh: &Mesh, model: &dyn CostModel, view: &StageView<'_>) -> LocalGraph {
    let transfers = view.transfers;
    let depth = depths(step, groups, view.stages);
    let mut e = Emitter {
        step,
        groups,
        choices,
        mesh,
        resharder: Resharder::new(model, mesh, view.first_rank),
        graph: Graph::new(step.graph.name.clone()),
        phase: vec![],
        depth: vec![],
        now: Phase::Before,
        depth_now: 0,
        loc: Loc(0),
        local: BTreeMap::new(),
        resharded: BTreeMap::new(),
        views: BTreeMap::new(),
        first_write: first_writes(step, groups),
    };
    e.graph.locs = if step.graph.locs.is_empty() { std::iter::once(LocInfo::default()).collect() } else { step.graph.locs.clone() };
    let here = |g: usize| view.stages.does(view.stage, g);
    let mut inputs = Vec::new();
    // Arguments that the stage reads, or whose state it makes.
    let mut needed: BTreeSet<ValueId> = BTreeSet::new();
    for (_, group) in groups.groups.iter().enumerate().filter(|(g, _)| here(*g)) {
        needed.extend(group.reads.iter().map(|r| r.value));
        if let Some(input) = group.output.and_then(|p| step.outputs[p].replaces) {
            needed.insert(step.graph.inputs[input as usize]);
        }
    }
    needed.extend(transfers.iter().filter(|t| t.from == view.stage).map(|t| t.value));
    let mut input_position = BTreeMap::new();
    let kept = |i: usize| view.stages.of_input[i].is_none_or(|s| s == view.stage);
    for (i, &v) in step.graph.inputs.iter().enumerate().filter(|(i, v)| needed.contains(v) && kept(*i)) {
        let sharding = choices.inputs[i].clone();
        let id = e.graph.add_input(e.local_type(v, &sharding), step.graph.values[v].name.clone());
        e.local.insert(v, (id, sharding.clone()));
        input_position.insert(i as u32, inputs.len() as u32);
        inputs.push(LocalInput {
            source: Source::Argument {
                index: step.inputs[i].argument,
                global_shape: step.global_shape(i),
                microbatched: step.inputs[i].microbatched,
                sharding,
            },
            kind: step.inputs[i].kind,
        });
    }
    for t in transfers.iter().filter(|t| t.to == view.stage) {
        let id = e.graph.add_input(e.local_type(t.value, &t.sharding), step.graph.values[t.value].name.clone());
        // A stage that receives a value in two shardings reads each as it comes.
        e.resharded.insert((t.value, t.sharding.clone(), Phase::Before), id);
        e.local.entry(t.value).or_insert((id, t.sharding.clone()));
        inputs.push(LocalInput { source: Source::Received { from: t.from, channel: t.channel, phase: t.phase }, kind: ir::program::BufferKind::Activation });
    }
    for (id, op) in step.graph.ops.iter() {
        if let Some(g) = groups.of[id].filter(|&g| here(g as usize)) {
            e.now = step.phase_of(id);
            e.depth_now = depth[g as usize];
            e.loc = op.loc;
            e.own(g, id);
        }
    }
    let makers = makers(step, groups);
    let mut outputs = Vec::new();
    let mut results = Vec::new();
    for (g, group) in groups.groups.iter().enumerate() {
        let Some(p) = group.output.filter(|_| here(g)) else { continue };
        e.now = Phase::After;
        e.depth_now = depth[g];
        let v = e.place(g as u32, group.made[0]);
        let sharding = choices.groups[g].writes[0].clone();
        results.push(v);
        outputs.push(Sink::Result {
            index: step.outputs[p].result,
            replaces: step.outputs[p].replaces.and_then(|i| input_position.get(&i).copied()),
            global_shape: step.graph.ty(step.graph.outputs[p]).shape.clone(),
            sharding,
        });
    }
    for t in transfers.iter().filter(|t| t.from == view.stage) {
        e.now = t.phase;
        e.depth_now = makers.get(&t.value).and_then(|m| m.ok()).map_or(0, |m| depth[m]);
        let v = e.read(t.value, &t.sharding);
        results.push(v);
        outputs.push(Sink::Sent { to: t.to, channel: t.channel, phase: t.phase });
    }
    e.graph.outputs = results;
    LocalGraph {
        graph: e.graph,
        stage: view.stage,
        mesh: mesh.clone(),
        first_rank: view.first_rank,
        microbatches: step.microbatches,
        in_flight: view.in_flight,
        phase: e.phase,
        depth: e.depth,
        inputs,
        outputs,
    }
}

impl Emitter<'_> {
    fn local_type(&self, v: ValueId, s: &Sharding) -> TensorType {
        let ty = self.step.graph.ty(v);
        TensorType::new(ty.dtype, s.local_shape(&ty.shape, self.mesh))
    }

    fn emit(&mut self, kind: OpKind, operands: Vec<ValueId>, ty: TensorType) -> ValueId {
        self.phase.push(self.now);
        self.depth.push(self.depth_now);
        self.graph.add(kind, operands, ty, self.loc)
    }

    fn splat(&mut self, ty: TensorType, x: f64) -> ValueId {
        self.emit(OpKind::Constant(Literal::splat(ty.clone(), x)), vec![], ty)
    }

    fn broadcast_scalar(&mut self, scalar: ValueId, ty: TensorType) -> ValueId {
        if ty.rank() == 0 { scalar } else { self.emit(OpKind::Broadcast { dims: vec![] }, vec![scalar], ty) }
    }

    /// `coordinate over axes · block` as a scalar of type `dtype`.
    fn offset(&mut self, axes: &[AxisId], block: u64, dtype: DType) -> ValueId {
        let i = self.emit(OpKind::AxisIndex { axes: axes.to_vec() }, vec![], TensorType::scalar(DType::I32));
        let i = if dtype == DType::I32 { i } else { self.emit(OpKind::Convert, vec![i], TensorType::scalar(dtype)) };
        let k = self.splat(TensorType::scalar(dtype), block as f64);
        self.emit(OpKind::Binary(BinaryOp::Multiply), vec![i, k], TensorType::scalar(dtype))
    }

    /// Global indices along a dimension of a local block.
    fn global_iota(&mut self, ty: &TensorType, dim: usize, axes: &[AxisId]) -> ValueId {
        let iota = self.emit(OpKind::Iota { dim }, vec![], ty.clone());
        if axes.is_empty() {
            return iota;
        }
        let offset = self.offset(axes, ty.shape[dim], ty.dtype);
        let offset = self.broadcast_scalar(offset, ty.clone());
        self.emit(OpKind::Binary(BinaryOp::Add), vec![iota, offset], ty.clone())
    }

    /// `x` with everything past `size` along `dim` (globally) replaced by `neutral`.
    fn mask(&mut self, x: ValueId, dim: usize, axes: &[AxisId], size: u64, neutral: f64) -> ValueId {
        let ty = self.graph.ty(x).clone();
        let index_type = ty.with_dtype(DType::I32);
        let index = self.global_iota(&index_type, dim, axes);
        let size = self.splat(TensorType::scalar(DType::I32), size as f64);
        let size = self.broadcast_scalar(size, index_type);
        let inside = self.emit(OpKind::Compare { direction: Direction::Lt, total: false }, vec![index, size], ty.with_dtype(DType::I1));
        let fill = self.splat(TensorType::scalar(ty.dtype), neutral);
        let fill = self.broadcast_scalar(fill, ty.clone());
        self.emit(OpKind::Select, vec![inside, x, fill], ty)
    }

    /// The local value of `v` under a sharding.
    fn read(&mut self, v: ValueId, want: &Sharding) -> ValueId {
        let (id, have) = self.local.get(&v).cloned().unwrap_or_else(|| panic!("invariant: {} is made before it is read", self.step.graph.display_name(v)));
        if &have == want {
            return id;
        }
        let key = (v, want.clone(), self.now);
        if let Some(&id) = self.resharded.get(&key).or_else(|| self.resharded.get(&(v, want.clone(), Phase::Before))) {
            return id;
        }
        let path = self.resharder.path(&self.step.graph.ty(v).clone(), &have, want).expect("invariant: the planner chose a reshard that exists");
        let mut at = id;
        for (step, next) in path.steps {
            at = self.reshard_step(v, at, &step, &next);
        }
        self.resharded.insert(key, at);
        at
    }

    /// Pads a dimension to a multiple of `k` with `value`.
    fn pad_to_multiple(&mut self, x: ValueId, dim: usize, k: u64, value: f64) -> ValueId {
        let ty = self.graph.ty(x).clone();
        let n = ty.shape[dim];
        let padded = n.div_ceil(k) * k;
        if padded == n {
            return x;
        }
        let fill = self.splat(TensorType::scalar(ty.dtype), value);
        let zero = vec![0i64; ty.rank()];
        let mut high = zero.clone();
        high[dim] = (padded - n) as i64;
        let mut shape = ty.shape.clone();
        shape[dim] = padded;
        self.emit(OpKind::Pad { low: zero, high, interior: vec![0; ty.rank()] }, vec![x, fill], TensorType::new(ty.dtype, shape))
    }

    /// Cuts a dimension back to `n`.
    fn cut_to(&mut self, x: ValueId, dim: usize, n: u64) -> ValueId {
        let ty = self.graph.ty(x).clone();
        if ty.shape[dim] == n {
            return x;
        }
        let mut limit = ty.shape.clone();
        limit[dim] = n;
        let kind = OpKind::Slice { start: vec![0; ty.rank()], limit: limit.clone(), stride: vec![1; ty.rank()] };
        self.emit(kind, vec![x], TensorType::new(ty.dtype, limit))
    }

    fn reshard_step(&mut self, v: ValueId, x: ValueId, step: &Step, next: &Sharding) -> ValueId {
        let ty = self.graph.ty(x).clone();
        let target = self.local_type(v, next);
        let size = |axis: &AxisId| u64::from(self.mesh.size(*axis));
        match step {
            Step::AllReduce { axes, reducer } => self.emit(OpKind::AllReduce { axes: axes.clone(), reducer: *reducer }, vec![x], ty),
            Step::ReduceScatter { axis, dim, reducer } => {
                let neutral = reducer.neutral(ty.dtype).unwrap_or(0.0);
                let k = size(axis);
                let x = self.pad_to_multiple(x, *dim, k, neutral);
                self.emit(OpKind::ReduceScatter { axes: vec![*axis], dim: *dim, reducer: *reducer }, vec![x], target)
            }
            Step::AllGather { axes, dim } => {
                let k: u64 = axes.iter().map(size).product();
                let mut shape = ty.shape.clone();
                shape[*dim] *= k;
                let x = self.emit(OpKind::AllGather { axes: axes.clone(), dim: *dim }, vec![x], TensorType::new(ty.dtype, shape));
                self.cut_to(x, *dim, target.shape[*dim])
            }
            Step::AllToAll { axis, from, to } => self.emit(OpKind::AllToAll { axes: vec![*axis], split: *to, concat: *from }, vec![x], target),
            Step::Slice { axis, dim } => {
                let k = size(axis);
                let x = self.pad_to_multiple(x, *dim, k, 0.0);
                self.emit(OpKind::ShardSlice { axes: vec![*axis], dim: *dim }, vec![x], target)
            }
        }
    }

    fn group(&self, g: u32) -> (&Group, &Strategy) {
        (&self.groups.groups[g as usize], &self.choices.groups[g as usize])
    }

    /// The axes that cut a factor in a group.
    fn axes_of(&self, g: u32, factor: Option<u32>) -> Vec<AxisId> {
        let (_, strategy) = self.group(g);
        let Some(f) = factor else { return vec![] };
        (0..).map(AxisId).zip(&strategy.axes).filter(|(_, c)| **c == Choice::Cut(f)).map(|(a, _)| a).collect()
    }

    fn place(&mut self, g: u32, p: Place) -> ValueId {
        let (group, strategy) = self.group(g);
        match p {
            Place::Read(r) => {
                let (value, want) = (group.reads[r as usize].value, strategy.reads[r as usize].clone());
                self.read(value, &want)
            }
            Place::Member(m, i) => {
                let op = group.members[m as usize].op;
                let result = self.step.graph.ops[op].results[i as usize];
                if self.groups.of[op] == Some(g) {
                    return self.local[&result].0;
                }
                if let Some(&v) = self.views.get(&(g, m)) {
                    return v;
                }
                let v = self.member(g, m)[0];
                self.views.insert((g, m), v);
                v
            }
        }
    }

    /// Emits an own op of a group and records its results.
    fn own(&mut self, g: u32, op: OpId) {
        let (groups, choices) = (self.groups, self.choices);
        let (group, strategy) = (&groups.groups[g as usize], &choices.groups[g as usize]);
        let first = self.first_write[op] as usize;
        let Place::Member(m, _) = group.made[first] else { unreachable!("invariant: an own op makes what it writes") };
        let locals = self.member(g, m);
        for ((&v, local), sharding) in self.step.graph.ops[op].results.iter().zip(locals).zip(&strategy.writes[first..]) {
            let sharding = sharding.clone();
            self.graph.values[local].name = self.step.graph.values[v].name.clone();
            self.local.insert(v, (local, sharding));
        }
    }

    /// Tells a causal attention where its block of queries lies.
    fn place_queries(&mut self, g: u32, member: &Member, a: &mut Attention, operands: &mut Vec<ValueId>) {
        let dim = a.q.iter().position(|d| *d == AttentionDim::Query).expect("invariant: queries have their dimension");
        let axes = self.axes_of(g, member.operand_dims[0][dim]);
        if !a.causal || axes.is_empty() {
            return;
        }
        let block = self.graph.ty(operands[0]).shape[dim];
        let mut first = self.offset(&axes, block, DType::I32);
        if std::mem::replace(&mut a.offset, true)
            && let Some(before) = operands.pop()
        {
            first = self.emit(OpKind::Binary(BinaryOp::Add), vec![before, first], TensorType::scalar(DType::I32));
        }
        operands.push(first);
    }

    /// Emits a member on local shapes.
    fn member(&mut self, g: u32, m: u32) -> Vec<ValueId> {
        let (group, _) = self.group(g);
        let member = group.members[m as usize].clone();
        let step = self.step;
        let op = &step.graph.ops[member.op];
        let rule = &self.groups.rules[member.op.0 as usize];
        let mut operands: Vec<ValueId> = member.operands.iter().map(|&p| self.place(g, p)).collect();
        // Mask what an uneven cut leaves in padding before it is folded.
        for (own, global) in rule.factors.iter().zip(&member.factors) {
            let Some(reducer) = own.reduction else { continue };
            let axes = self.axes_of(g, *global);
            let k = u64::from(self.mesh.group_size(&axes));
            if axes.is_empty() || own.size.is_multiple_of(k) {
                continue;
            }
            for i in 0..operands.len() {
                let Some(dim) = member.operand_dims[i].iter().position(|d| *d == *global) else { continue };
                let dtype = self.graph.ty(operands[i]).dtype;
                // Products are folded by sums: zero on both sides, so that no padding is multiplied.
                if let (true, Some(neutral)) = (!matches!(op.kind, OpKind::Scatter { .. }) || i == 2, reducer.neutral(dtype)) {
                    operands[i] = self.mask(operands[i], dim, &axes, own.size, neutral);
                }
            }
        }
        let local_shape = |e: &Self, v: ValueId, dims: &[Option<u32>]| -> Vec<u64> {
            e.step.graph.ty(v).shape.iter().zip(dims).map(|(&n, &f)| n.div_ceil(u64::from(e.mesh.group_size(&e.axes_of(g, f))))).collect()
        };
        let types: Vec<TensorType> =
            op.results.iter().zip(&member.result_dims).map(|(&v, d)| TensorType::new(step.graph.ty(v).dtype, local_shape(self, v, d))).collect();
        let kind = match &op.kind {
            OpKind::Iota { dim } => {
                let axes = self.axes_of(g, member.result_dims[0][*dim]);
                return vec![self.global_iota(&types[0], *dim, &axes)];
            }
            OpKind::Constant(l) => match l.splat_bytes() {
                Some(bytes) => OpKind::Constant(Literal { ty: types[0].clone(), data: ir::literal::Data::Splat(bytes.to_vec()) }),
                None => op.kind.clone(),
            },
            OpKind::Slice { start, limit, stride } => {
                let (mut start, mut limit, mut stride) = (start.clone(), limit.clone(), stride.clone());
                for d in 0..start.len() {
                    if types[0].shape[d] != step.graph.ty(op.results[0]).shape[d] {
                        (start[d], limit[d], stride[d]) = (0, types[0].shape[d], 1);
                    }
                }
                OpKind::Slice { start, limit, stride }
            }
            OpKind::DynamicSlice { .. } => OpKind::DynamicSlice { sizes: types[0].shape.clone() },
            OpKind::Gather(d) => {
                let mut d = d.clone();
                let local = self.graph.ty(operands[0]).shape.clone();
                let whole = &step.graph.ty(op.operands[0]).shape;
                for i in 0..local.len() {
                    if d.slice_sizes[i] == whole[i] && local[i] != whole[i] {
                        d.slice_sizes[i] = local[i];
                    }
                }
                OpKind::Gather(d)
            }
            OpKind::Attention(a) => {
                let mut a = a.clone();
                self.place_queries(g, &member, &mut a, &mut operands);
                OpKind::Attention(a)
            }
            OpKind::AttentionGrad { attention, bias } => {
                let mut a = attention.clone();
                self.place_queries(g, &member, &mut a, &mut operands);
                OpKind::AttentionGrad { attention: a, bias: *bias }
            }
            kind => kind.clone(),
        };
        self.phase.push(self.now);
        self.depth.push(self.depth_now);
        let names: Vec<Arc<str>> = vec![];
        let id = self.graph.add_op(kind, operands, types, self.loc, &names);
        self.graph.ops[id].regions.clone_from(&op.regions);
        self.graph.ops[id].results.clone()
    }
}
