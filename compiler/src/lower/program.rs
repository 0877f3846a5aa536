//! From local graphs to a [`Program`]: buffers and instructions; [`join`](super::join) finds lifetimes and offsets.
//!
//! A value with memory has a buffer; a value kept from forward to backward has a slot per microbatch in flight.
//! A state's new value is written into the buffer of the old one when every reader of the old one has run; else it is copied there at the end.

use super::cost::InstructionCost;
use super::join::{Draft, Lane, Part, join};
use super::regions::{Region, Regions};
use super::uses::{Pending, Uses, sent};
use crate::kernels::build::{self, Argument};
use crate::kernels::classify::Classes;
use crate::kernels::units::{self, Unit, UnitKind};
use crate::kernels::{later, matmul};
use crate::spmd::local::{LocalGraph, LocalInput, Sink, Source};
use cost_model::CostModel;
use ir::diagnostic::{Diagnostic, Result};
use ir::kernel::Kernel;
use ir::op::{OpKind, Reducer};
use ir::program::{
    Binding, Block, Buffer, BufferId, BufferKind, CollectiveKind, Instruction, InstructionKind, KernelId, Phase, Pieces, Program, Scalar, Segment,
};
use ir::{Bytes, Flops, OpId, PrimaryMap, TensorType, ValueId};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The kernels of a plan, each once.
#[derive(Default)]
pub struct KernelTable {
    /// The kernels.
    pub kernels: PrimaryMap<KernelId, Kernel>,
    /// The regions of what was lowered.
    pub regions: Vec<Region>,
    known: FxHashMap<[u8; 32], KernelId>,
}

impl KernelTable {
    /// The id of a kernel, added when it is new.
    pub fn intern(&mut self, kernel: Kernel) -> KernelId {
        let hash = kernel.hash();
        *self.known.entry(hash).or_insert_with(|| self.kernels.push(kernel))
    }
}

/// A bucket of collectives is at most so many bytes.
const BUCKET: u64 = 32 << 20;

struct Lowering<'a> {
    local: &'a LocalGraph,
    classes: &'a Classes,
    units: &'a [Unit],
    uses: Uses,
    pending: Pending,
    kernels: &'a mut KernelTable,
    cost: InstructionCost<'a>,
    buffers: PrimaryMap<BufferId, Draft>,
    buffer_of: BTreeMap<ValueId, BufferId>,
    /// Instructions, each with how many transfers lie before it.
    phases: [Vec<(u32, Instruction)>; 4],
    depth: u32,
    lane: Lane,
    /// Copies into state buffers at the end of the step.
    final_copies: Vec<(ValueId, BufferId)>,
    regions: Regions<'a>,
}

/// Lowers the local graphs of a stage, one per chunk of the model that it holds.
///
/// # Errors
/// `E0801` for an op that the runtime has no code for.
pub fn lower(mut chunks: Vec<LocalGraph>, lane: Lane, kernels: &mut KernelTable, model: &dyn CostModel) -> Result<Program> {
    let parts = chunks.iter_mut().map(|local| part(local, lane, kernels, model)).collect::<Result<Vec<Part>>>()?;
    let (mesh, first_rank) = (&chunks[0].mesh, chunks[0].first_rank);
    join(parts, &lane, mesh, first_rank, &InstructionCost { model, mesh, first_rank })
}

/// Lowers one chunk.
fn part(local: &mut LocalGraph, lane: Lane, kernels: &mut KernelTable, model: &dyn CostModel) -> Result<Part> {
    matmul::normalise(local);
    later::run(local);
    let local = &*local;
    let classes = Classes::new(local);
    let units = units::units(local, &classes);
    let mut l = Lowering {
        local,
        classes: &classes,
        units: &units,
        uses: Uses::new(local, &classes, &units),
        pending: Pending::new(local),
        kernels,
        cost: InstructionCost { model, mesh: &local.mesh, first_rank: local.first_rank },
        buffers: PrimaryMap::new(),
        buffer_of: BTreeMap::new(),
        phases: Default::default(),
        depth: 0,
        lane,
        final_copies: vec![],
        regions: Regions::new(local),
    };
    l.bind_inputs();
    l.choose_state_buffers();
    l.send_arguments();
    for unit in &units {
        l.depth = unit.depth;
        l.receive(&unit.reads, unit.phase);
        l.unit(unit)?;
    }
    l.depth = u32::MAX;
    l.receive(&local.graph.inputs, Phase::After);
    l.copy_state();
    Ok(l.finish())
}

impl Lowering<'_> {
    fn draft(&mut self, name: String, ty: TensorType, slots: u32, kind: BufferKind, persistent: bool) -> BufferId {
        let slot_stride = ty.bytes().max(1).next_multiple_of(64);
        let buffer = Buffer { name, ty, offset: 0, slots, slot_stride, kind, persistent };
        self.buffers.push(Draft { buffer, exclusive: persistent })
    }

    fn bind_inputs(&mut self) {
        for (i, input) in self.local.inputs.iter().enumerate() {
            let v = self.local.graph.inputs[i];
            let (slots, persistent) = match &input.source {
                Source::Argument { microbatched: true, .. } => (self.local.microbatches, true),
                Source::Argument { .. } => (1, true),
                Source::Received { .. } => (self.slots(v), false),
            };
            let b = self.draft(self.local.graph.display_name(v), self.local.graph.ty(v).clone(), slots, input.kind, persistent);
            self.buffer_of.insert(v, b);
        }
    }

    /// Slots of a per-microbatch value: one, or one per microbatch in flight when the backward reads what the forward made.
    fn slots(&self, v: ValueId) -> u32 {
        let made = self.made_in(v);
        let crosses = made == Phase::Forward && self.uses.read_in(v, Phase::Backward);
        if crosses { self.local.in_flight } else { 1 }
    }

    fn made_in(&self, v: ValueId) -> Phase {
        if let Some(i) = self.uses.input(v) {
            return match &self.local.inputs[i].source {
                Source::Received { phase, .. } => *phase,
                Source::Argument { .. } => Phase::Before,
            };
        }
        self.uses.writer(v).map_or(Phase::Before, |u| self.units[u].phase)
    }

    /// The value whose memory an output is.
    fn output_base(&self, v: ValueId) -> ValueId {
        units::alias_of(self.local, self.classes, v).unwrap_or(v)
    }

    /// Lets new state be written where the old one lies, if nobody reads the old one afterwards.
    fn choose_state_buffers(&mut self) {
        let mut taken = BTreeSet::new();
        for (o, sink) in self.local.outputs.iter().enumerate() {
            let Sink::Result { replaces: Some(input), .. } = sink else { continue };
            let old = self.local.graph.inputs[*input as usize];
            let new = self.output_base(self.local.graph.outputs[o]);
            let state = self.buffer_of[&old];
            if new == old {
                continue;
            }
            let safe = self
                .uses
                .writer(new)
                .is_some_and(|w| !self.is_total(new) && self.uses.readers(old).all(|u| u < w || (u == w && self.reads_in_place(&self.units[u], old, new))));
            if safe && !self.buffer_of.contains_key(&new) && taken.insert(new) && self.local.graph.ty(new).bytes() == self.local.graph.ty(old).bytes() {
                self.buffer_of.insert(new, state);
            } else {
                self.final_copies.push((new, state));
            }
        }
    }

    fn is_total(&self, v: ValueId) -> bool {
        self.local
            .graph
            .def_op(v)
            .is_some_and(|op| matches!(&self.local.graph.ops[op].kind, OpKind::AllReduce { axes, .. } if axes == &[ir::AxisId::MICROBATCH]))
    }

    /// Whether a kernel reads `old` only where it writes `new`.
    fn reads_in_place(&self, unit: &Unit, old: ValueId, new: ValueId) -> bool {
        if matches!(unit.kind, UnitKind::Call(_)) {
            return false;
        }
        let built = build::kernel(self.local, self.classes, unit, &|v| self.buffer_of.contains_key(&v));
        let param = |a: Argument| built.arguments.iter().position(|x| *x == a);
        let (Some(read), Some(write)) = (param(Argument::Read(old)), param(Argument::Write(new))) else { return false };
        built.kernel.may_share(read as u32, write as u32)
    }

    fn push(&mut self, phase: Phase, kind: InstructionKind, reads: Vec<BufferId>, writes: Vec<BufferId>, source: String, flops: Flops, bytes: Bytes) {
        let seconds = self.cost.seconds(&kind, flops, bytes);
        // What clears a total for the backward waits for nothing.
        let depth = if matches!(kind, InstructionKind::Fill { .. }) { 0 } else { self.depth };
        self.phases[phase as usize].push((depth, Instruction { kind, reads, writes, source, seconds, flops, bytes }));
    }

    fn source(&self, op: OpId) -> String {
        let o = &self.local.graph.ops[op];
        let name = o.results.first().map_or_else(String::new, |&v| self.local.graph.display_name(v));
        match self.local.graph.locs.get(o.loc) {
            Some(l) if l.line > 0 => format!("{name} (line {})", l.line),
            _ => name,
        }
    }

    /// Receives what a unit reads, right before it: what does not depend on a receive never waits for it.
    fn receive(&mut self, reads: &[ValueId], now: Phase) {
        for i in self.pending.take(self.local, &self.uses, reads, now) {
            let Source::Received { from, channel, phase } = self.local.inputs[i].source else { continue };
            let v = self.local.graph.inputs[i];
            let b = self.buffer_of[&v];
            let bytes = Bytes(self.buffers[b].buffer.ty.bytes());
            let name = self.buffers[b].buffer.name.clone();
            self.push(phase, InstructionKind::Receive { from, channel }, vec![], vec![b], name, Flops(0.0), bytes);
            self.send(v, phase);
        }
    }

    /// Sends arguments that other stages read too.
    fn send_arguments(&mut self) {
        for i in 0..self.local.inputs.len() {
            if matches!(self.local.inputs[i].source, Source::Argument { .. }) {
                self.send(self.local.graph.inputs[i], Phase::Before);
            }
        }
    }

    fn send(&mut self, v: ValueId, now: Phase) {
        let due: Vec<_> = self.uses.outputs(v).iter().filter_map(|&o| sent(self.local, o)).filter(|s| s.2 == now).collect();
        for (to, channel, _) in due {
            let b = self.buffer_of[&v];
            self.buffers[b].exclusive |= !self.lane.holds(to);
            let bytes = Bytes(self.buffers[b].buffer.ty.bytes());
            let name = self.buffers[b].buffer.name.clone();
            self.push(now, InstructionKind::Send { to, channel }, vec![b], vec![], name, Flops(0.0), bytes);
        }
    }

    /// The buffer of a value about to be written.
    fn written(&mut self, v: ValueId, phase: Phase) -> BufferId {
        if let Some(&b) = self.buffer_of.get(&v) {
            return b;
        }
        let ty = self.local.graph.ty(v).clone();
        let total = self.is_total(v) && self.local.microbatches > 1;
        let slots = if total { 1 } else { self.slots(v) };
        let across = self.uses.read_outside(v, phase);
        let kind = match phase {
            _ if total => BufferKind::Gradient,
            Phase::Forward if across => BufferKind::Activation,
            Phase::Backward if across => BufferKind::Gradient,
            _ => BufferKind::Temporary,
        };
        let b = self.draft(self.local.graph.display_name(v), ty.clone(), slots, kind, false);
        self.buffer_of.insert(v, b);
        if total {
            let element = ir::literal::encode(ty.dtype, 0.0);
            let (name, bytes) = (self.buffers[b].buffer.name.clone(), Bytes(ty.bytes()));
            self.regions.rearranges(v, Phase::Before, bytes.0);
            self.push(Phase::Before, InstructionKind::Fill { element }, vec![], vec![b], name, Flops(0.0), bytes);
        }
        b
    }

    fn read(&self, v: ValueId) -> BufferId {
        let base = if self.buffer_of.contains_key(&v) { v } else { units::alias_of(self.local, self.classes, v).unwrap_or(v) };
        self.buffer_of[&base]
    }

    fn unit(&mut self, unit: &Unit) -> Result<()> {
        match &unit.kind {
            UnitKind::Call(op) => self.call(unit, *op)?,
            _ => self.kernel(unit),
        }
        for &v in &unit.writes {
            self.send(v, unit.phase);
        }
        Ok(())
    }

    fn kernel(&mut self, unit: &Unit) {
        // What has no elements has a buffer, so that it can be an argument or a result, and nothing to compute.
        if unit.writes.iter().all(|&v| self.local.graph.ty(v).elements() == 0) {
            for &v in &unit.writes {
                self.written(v, unit.phase);
            }
            return;
        }
        let built = build::kernel(self.local, self.classes, unit, &|v| self.buffer_of.contains_key(&v));
        let (mut reads, mut writes) = (vec![], vec![]);
        for argument in &built.arguments {
            match *argument {
                Argument::Read(v) => reads.push(self.read(v)),
                Argument::Write(v) | Argument::Accumulator(v) => writes.push(self.written(v, unit.phase)),
            }
        }
        let bytes = Bytes(built.kernel.params.iter().map(|p| p.elements * p.dtype.bytes()).sum());
        let points: u64 = built.kernel.domain.iter().product();
        let flops = Flops(
            (points
                * built.kernel.nodes.values().filter(|n| !matches!(n.kind, ir::kernel::NodeKind::Load { .. } | ir::kernel::NodeKind::Constant(_))).count()
                    as u64) as f64,
        );
        let source = match &unit.kind {
            UnitKind::Store(v) => self.local.graph.display_name(*v),
            _ => self.source(*unit.ops.last().expect("invariant: a kernel has an op")),
        };
        let kernel = self.kernels.intern(built.kernel);
        self.regions.kernel(unit, kernel);
        self.push(unit.phase, InstructionKind::Kernel { kernel, scalars: built.scalars }, reads, writes, source, flops, bytes);
    }

    fn call(&mut self, unit: &Unit, id: OpId) -> Result<()> {
        let op = &self.local.graph.ops[id];
        let source = self.source(id);
        let types = |vs: &[ValueId]| vs.iter().map(|&v| self.local.graph.ty(v).clone()).collect::<Vec<_>>();
        let (operands, results) = (types(&op.operands), types(&op.results));
        let bytes = Bytes(operands.iter().chain(&results).map(TensorType::bytes).sum());
        if matmul::is_product(self.local, id) {
            let product = matmul::plan(self.local, self.classes, id);
            let reads = product.bases.iter().map(|&v| self.read(v)).collect();
            let m = &product.matmul;
            let flops = Flops(2.0 * (m.m * m.n * m.k * m.batch.iter().map(|b| b.size).product::<u64>()) as f64);
            let write = self.written(unit.writes[0], unit.phase);
            self.push(unit.phase, InstructionKind::MatMul(product.matmul), reads, vec![write], source, flops, bytes);
            return Ok(());
        }
        if matches!(op.kind, OpKind::AllReduce { .. }) {
            self.reduce_in_place(op.operands[0], unit.writes[0]);
        }
        let reads: Vec<BufferId> = op.operands.iter().map(|&v| self.read(v)).collect();
        let writes: Vec<BufferId> = unit.writes.iter().map(|&v| self.written(v, unit.phase)).collect();
        let kind = if op.kind.is_collective() {
            collective(self.local, id, &reads, &writes)
        } else if supported(&op.kind) {
            InstructionKind::Library { op: op.kind.clone(), operands, results }
        } else {
            return Err(unsupported(self.local, id).into());
        };
        self.regions.call(id, unit.phase);
        let bytes = match &kind {
            InstructionKind::Collective { kind, .. } => collective_bytes(*kind, self.local, id),
            _ => bytes,
        };
        if !self.join_bucket(unit.phase, &kind, &reads, &writes, bytes) {
            self.push(unit.phase, kind, reads, writes, source, Flops(0.0), bytes);
        }
        Ok(())
    }

    /// Gives an all-reduce its operand's buffer, when nobody else reads the operand and it lives in this phase's turn only.
    fn reduce_in_place(&mut self, operand: ValueId, result: ValueId) {
        let base = units::alias_of(self.local, self.classes, operand).unwrap_or(operand);
        let readers = self.uses.readers(base).count();
        let Some(&b) = self.buffer_of.get(&base) else { return };
        let d = &self.buffers[b].buffer;
        let whole = self.local.graph.ty(base).bytes() == self.local.graph.ty(result).bytes();
        let is_output = !self.uses.outputs(base).is_empty();
        if readers == 1 && whole && !d.persistent && d.slots == 1 && !is_output && !self.is_total(base) && !self.buffer_of.contains_key(&result) {
            self.buffer_of.insert(result, b);
        }
    }

    /// Joins a collective with the one before it when both are of a kind: one start for several tensors.
    fn join_bucket(&mut self, phase: Phase, kind: &InstructionKind, reads: &[BufferId], writes: &[BufferId], bytes: Bytes) -> bool {
        let Some((_, last)) = self.phases[phase as usize].last_mut() else { return false };
        let independent = !last.writes.iter().any(|b| reads.contains(b) || writes.contains(b)) && !last.reads.iter().any(|b| writes.contains(b));
        let (
            InstructionKind::Collective { kind: k, axes, reducer, dtype, segments },
            InstructionKind::Collective { kind: k2, axes: a2, reducer: r2, dtype: t2, segments: s2 },
        ) = (&mut last.kind, kind)
        else {
            return false;
        };
        if !independent || k != k2 || axes != a2 || reducer != r2 || dtype != t2 || last.bytes.0 + bytes.0 > BUCKET {
            return false;
        }
        segments.extend(s2.iter().cloned());
        last.reads.extend(reads);
        last.writes.extend(writes);
        last.bytes += bytes;
        last.seconds = self.cost.seconds(&last.kind, Flops(0.0), last.bytes);
        true
    }

    /// Copies new state whose buffer is not the old one's: through temporaries where a state is another's old value.
    fn copy_state(&mut self) {
        let copies = std::mem::take(&mut self.final_copies);
        let mut moves = Vec::new();
        for (v, to) in copies {
            let from = self.read(v);
            let ty = self.buffers[to].buffer.ty.clone();
            if from == to || ty.elements() == 0 {
                continue;
            }
            let name = self.buffers[to].buffer.name.clone();
            let through = self.buffers[from].buffer.persistent;
            self.regions.rearranges(v, Phase::After, if through { 4 } else { 2 } * ty.bytes());
            let from = if through {
                let b = self.draft(name.clone(), ty.clone(), 1, BufferKind::Temporary, false);
                self.push_copy(from, b, &ty, name.clone());
                b
            } else {
                from
            };
            moves.push((from, to, ty, name));
        }
        for (from, to, ty, name) in moves {
            self.push_copy(from, to, &ty, name);
        }
    }

    fn push_copy(&mut self, from: BufferId, to: BufferId, ty: &TensorType, name: String) {
        let block = || Block { offset: Scalar::default(), strides: vec![1] };
        let kind = InstructionKind::Copy { shape: vec![ty.elements()], from: block(), to: block() };
        self.push(Phase::After, kind, vec![from], vec![to], name, Flops(0.0), Bytes(2 * ty.bytes()));
    }

    /// Binds arguments and results.
    fn finish(self) -> Part {
        let local = self.local;
        let output = |(o, sink): (usize, &Sink)| {
            let Sink::Result { index, replaces, global_shape, sharding } = sink else { return None };
            let buffer = match replaces {
                Some(input) => self.buffer_of[&local.graph.inputs[*input as usize]],
                None => self.read(local.graph.outputs[o]),
            };
            Some(Binding { index: *index, buffer, global_shape: global_shape.clone(), microbatched: false, sharding: sharding.clone() })
        };
        let outputs = local.outputs.iter().enumerate().filter_map(output).collect();
        let input = |(i, input): (usize, &LocalInput)| match &input.source {
            Source::Argument { index, global_shape, microbatched, sharding } => Some(Binding {
                index: *index,
                buffer: self.buffer_of[&local.graph.inputs[i]],
                global_shape: global_shape.clone(),
                microbatched: *microbatched,
                sharding: sharding.clone(),
            }),
            Source::Received { .. } => None,
        };
        let inputs = local.inputs.iter().enumerate().filter_map(input).collect();
        self.kernels.regions.extend(self.regions.finish());
        Part { buffers: self.buffers, phases: self.phases, inputs, outputs }
    }
}

/// A collective op as an instruction.
fn collective(local: &LocalGraph, id: OpId, reads: &[BufferId], writes: &[BufferId]) -> InstructionKind {
    let op = &local.graph.ops[id];
    let (input, output) = (local.graph.ty(op.operands[0]), local.graph.ty(op.results[0]));
    let contiguous = |t: &TensorType| Pieces { shape: vec![t.elements()], strides: vec![1], peer_stride: 0 };
    // A value seen as [outer, blocks, inner]: the pieces are the blocks.
    let blocks = |whole: &TensorType, dim: usize, count: u64| {
        let (outer, rest): (u64, u64) = (whole.shape[..dim].iter().product(), whole.shape[dim..].iter().product());
        let inner = rest / count;
        Pieces { shape: vec![outer, inner], strides: vec![rest, 1], peer_stride: inner }
    };
    let (kind, axes, reducer, give, take) = match &op.kind {
        OpKind::AllReduce { axes, reducer } => (CollectiveKind::AllReduce, axes, *reducer, contiguous(input), contiguous(output)),
        OpKind::AllGather { axes, dim } => {
            let n = u64::from(local.mesh.group_size(axes));
            let take = blocks(output, *dim, n);
            (CollectiveKind::AllGather, axes, Reducer::Add, row_major(&take), take)
        }
        OpKind::ReduceScatter { axes, dim, reducer } => {
            let n = u64::from(local.mesh.group_size(axes));
            let give = blocks(input, *dim, n);
            let take = row_major(&give);
            (CollectiveKind::ReduceScatter, axes, *reducer, give, take)
        }
        OpKind::AllToAll { axes, split, concat } => {
            let n = u64::from(local.mesh.group_size(axes));
            (CollectiveKind::AllToAll, axes, Reducer::Add, exchange(input, *split, n), exchange(output, *concat, n))
        }
        kind => unreachable!("invariant: {kind:?} is no collective"),
    };
    let segment = Segment { input: reads[0], output: writes[0], give, take };
    InstructionKind::Collective { kind, axes: axes.clone(), reducer, dtype: input.dtype, segments: vec![segment] }
}

/// The whole buffer of a device in a collective: what a gather ends with, what the others start from.
fn collective_bytes(kind: CollectiveKind, local: &LocalGraph, id: OpId) -> Bytes {
    let op = &local.graph.ops[id];
    Bytes(local.graph.ty(if kind == CollectiveKind::AllGather { op.results[0] } else { op.operands[0] }).bytes())
}

/// The same piece, alone in a buffer.
fn row_major(pieces: &Pieces) -> Pieces {
    Pieces { shape: pieces.shape.clone(), strides: ir::dtype::row_major_strides(&pieces.shape), peer_stride: 0 }
}

/// Pieces of a value cut into `n` blocks of `dim`, with every dimension's stride, so that pieces of different layouts correspond element by element.
fn exchange(whole: &TensorType, dim: usize, n: u64) -> Pieces {
    let mut shape = whole.shape.clone();
    shape[dim] /= n;
    let strides = whole.strides();
    let peer_stride = shape[dim] * strides[dim];
    Pieces { shape, strides, peer_stride }
}

/// Ops that the runtime's library does on row-major values.
fn supported(kind: &OpKind) -> bool {
    match kind {
        OpKind::Constant(_)
        | OpKind::Pad { .. }
        | OpKind::Concatenate { .. }
        | OpKind::DynamicSlice { .. }
        | OpKind::DynamicUpdateSlice
        | OpKind::Convolution(_)
        | OpKind::Attention(_)
        | OpKind::AttentionGrad { .. }
        | OpKind::Gather(_)
        | OpKind::TopK { .. } => true,
        OpKind::Scatter { reducer, .. } | OpKind::ReduceWindow { reducer, .. } => *reducer != Reducer::General,
        OpKind::BitcastConvert | OpKind::Reduce { .. } => false,
        _ => false,
    }
}

fn unsupported(local: &LocalGraph, id: OpId) -> Diagnostic {
    let op = &local.graph.ops[id];
    let name = kind_name(&op.kind);
    let count = local.graph.ops.values().filter(|o| kind_name(&o.kind) == name).count();
    let place = local.graph.locs.get(op.loc).map_or(String::new(), |l| format!(" (line {})", l.line));
    Diagnostic::outcome(
        "E0801",
        format!("no code can be made yet for `{name}`, which occurs {count} times, first as {}{place}", local.graph.display_name(op.results[0])),
    )
    .with_help("`shardwright verify` and the interpreter know this op; `compile --no-code` still plans the model")
}

/// The name of an op's kind.
fn kind_name(kind: &OpKind) -> String {
    format!("{kind:?}").chars().take_while(|c| c.is_alphanumeric()).collect()
}
