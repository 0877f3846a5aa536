//! Regions: what is left of a stage's graph when library calls are taken away, and the least that each must move.
//!
//! Calls are products, convolutions, attention, gathers, scatters, windows, sorts and communication. The ops between them *compute*; views (transposes,
//! slices, broadcasts and the like) only say where elements lie. Two ops that compute are in one region if one reads what the other makes, or both read
//! the same tensor, through views or not and whenever they run. A tensor of one element connects only ops on one element, or a step count would make
//! everything one region.
//! Each tensor that enters or leaves a region moves once a step, or once a microbatch where every microbatch has its own; of a tensor that is read through
//! slices only these. What moves inside a region, from kernel to kernel or from forward to backward, need not move at all.
//!
//! **Invariant:** regions and what they must move follow from the graph alone, never from how it is cut into kernels.

use crate::kernels::units::{Unit, UnitKind};
use crate::spmd::local::{LocalGraph, Source};
use ir::op::OpKind;
use ir::program::{KernelId, Phase, StageId};
use ir::{AxisId, Bytes, OpId, SecondaryMap, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// A region, and what is done for it in a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Its stage.
    pub stage: StageId,
    /// The first value that it computes, with its line; of a region of views, what is stored.
    pub source: String,
    /// Ops that compute; none where a view or a constant is stored for a call.
    pub ops: u64,
    /// The least that a device moves in a step.
    pub least: Bytes,
    /// Its kernels, with how often a device runs each in a step.
    pub kernels: Vec<(KernelId, u64)>,
    /// What copies, fills and ops that only rearrange move in a step, beside the kernels.
    pub rearranged: Bytes,
}

/// What an op is to regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Made of nothing that is in memory.
    Free,
    /// Its operand, seen otherwise.
    View,
    Computes,
    Calls,
}

/// A region while it is found: the first of its ops, or the value that is stored for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Ops(OpId),
    Stored(ValueId),
}

/// What lies behind a value's views.
struct Behind {
    base: ValueId,
    role: Option<Role>,
    /// At most so many bytes of it are seen.
    bytes: u64,
    /// The slices on the way.
    cuts: String,
    /// Whether it is accumulated over microbatches on the way.
    total: bool,
}

#[derive(Default)]
struct Work {
    kernels: BTreeMap<KernelId, u64>,
    rearranged: u64,
}

/// The regions of a stage's chunk, and what is done for them.
pub(super) struct Regions<'a> {
    local: &'a LocalGraph,
    role: Vec<Role>,
    /// A forest over op numbers.
    parent: Vec<u32>,
    input: SecondaryMap<ValueId, Option<usize>>,
    work: BTreeMap<Key, Work>,
}

impl<'a> Regions<'a> {
    pub(super) fn new(local: &'a LocalGraph) -> Regions<'a> {
        let graph = &local.graph;
        let mut input = SecondaryMap::new();
        graph.inputs.iter().enumerate().for_each(|(i, &v)| input[v] = Some(i));
        let role = graph.ops.values().map(|op| role(&op.kind)).collect();
        let mut regions = Regions { local, role, parent: (0..graph.ops.len() as u32).collect(), input, work: BTreeMap::new() };
        let mut first: BTreeMap<ValueId, OpId> = BTreeMap::new();
        for id in regions.computing() {
            for &v in &graph.ops[id].operands {
                let behind = regions.behind(v);
                if behind.role == Some(Role::Free) {
                    continue;
                }
                let maker = graph.def_op(behind.base).filter(|_| behind.role == Some(Role::Computes));
                if graph.ty(behind.base).elements() > 1 {
                    let other = maker.unwrap_or_else(|| *first.entry(behind.base).or_insert(id));
                    regions.join(other, id);
                } else if let Some(maker) = maker
                    && regions.size(maker) <= 1
                    && regions.size(id) <= 1
                {
                    regions.join(maker, id);
                }
            }
        }
        regions
    }

    fn computing(&self) -> Vec<OpId> {
        self.local.graph.ops.keys().filter(|id| self.role[id.0 as usize] == Role::Computes).collect()
    }

    /// Elements of the largest tensor that an op touches.
    fn size(&self, id: OpId) -> u64 {
        let op = &self.local.graph.ops[id];
        op.operands.iter().chain(&op.results).map(|&v| self.local.graph.ty(v).elements()).max().unwrap_or(0)
    }

    fn root(&self, id: OpId) -> OpId {
        let mut at = id.0;
        while self.parent[at as usize] != at {
            at = self.parent[at as usize];
        }
        OpId(at)
    }

    fn join(&mut self, a: OpId, b: OpId) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b).0 as usize] = a.min(b).0;
        // Later ways to the root are short.
        self.parent[b.0 as usize] = a.min(b).0;
    }

    fn behind(&self, v: ValueId) -> Behind {
        let graph = &self.local.graph;
        let mut behind = Behind { base: v, role: None, bytes: graph.ty(v).bytes(), cuts: String::new(), total: false };
        while let Some(id) = graph.def_op(behind.base) {
            let (op, role) = (&graph.ops[id], self.role[id.0 as usize]);
            if role != Role::View {
                behind.role = Some(role);
                break;
            }
            behind.base = op.operands[0];
            behind.bytes = behind.bytes.min(graph.ty(behind.base).bytes());
            behind.total |= matches!(op.kind, OpKind::AllReduce { .. }) && self.local.microbatches > 1;
            if matches!(op.kind, OpKind::Slice { .. } | OpKind::ShardSlice { .. }) {
                behind.cuts += &format!("{:?}", op.kind);
            }
        }
        behind
    }

    /// How often a step has a value anew.
    fn times(&self, v: ValueId) -> u64 {
        let repeats = |phase| matches!(phase, Phase::Forward | Phase::Backward);
        let of_microbatch = match (self.input[v], self.local.graph.def_op(v)) {
            (Some(i), _) => match &self.local.inputs[i].source {
                Source::Argument { microbatched, .. } => *microbatched,
                Source::Received { phase, .. } => repeats(*phase),
            },
            (None, Some(op)) => repeats(self.local.phase[op.0 as usize]),
            (None, None) => false,
        };
        if of_microbatch { u64::from(self.local.microbatches) } else { 1 }
    }

    /// The region in which a value is made.
    fn region(&self, v: ValueId) -> Key {
        let behind = self.behind(v);
        match (behind.role, self.local.graph.def_op(behind.base)) {
            (Some(Role::Computes), Some(op)) => Key::Ops(self.root(op)),
            (Some(Role::Free), _) => Key::Stored(v),
            _ => Key::Stored(behind.base),
        }
    }

    /// Notes the kernel of a unit.
    pub(super) fn kernel(&mut self, unit: &Unit, kernel: KernelId) {
        let largest = unit.ops.iter().copied().max_by_key(|&id| (self.size(id), std::cmp::Reverse(id)));
        let made = match (&unit.kind, largest) {
            (UnitKind::Store(v), _) => *v,
            (_, Some(op)) => self.local.graph.ops[op].results[0],
            (_, None) => unreachable!("invariant: a kernel has an op"),
        };
        let runs = self.runs(unit.phase);
        *self.work.entry(self.region(made)).or_default().kernels.entry(kernel).or_default() += runs;
    }

    /// Notes bytes that are moved to have `v` in its place, in each run of a phase.
    pub(super) fn rearranges(&mut self, v: ValueId, phase: Phase, bytes: u64) {
        let runs = self.runs(phase);
        self.work.entry(self.region(v)).or_default().rearranged += bytes * runs;
    }

    /// Notes a call, if it is of an op that only rearranges.
    pub(super) fn call(&mut self, id: OpId, phase: Phase) {
        let graph = &self.local.graph;
        let op = &graph.ops[id];
        if self.role[id.0 as usize] == Role::Computes {
            let result = op.results.iter().map(|&v| graph.ty(v).bytes()).sum::<u64>();
            let read = op.operands.iter().map(|&v| self.read(id, v, graph.ty(v).bytes())).sum::<u64>();
            self.rearranges(op.results[0], phase, read + result);
        }
    }

    fn runs(&self, phase: Phase) -> u64 {
        if matches!(phase, Phase::Forward | Phase::Backward) { u64::from(self.local.microbatches) } else { 1 }
    }

    /// Of so many bytes of an operand, those that an op reads.
    fn read(&self, id: OpId, v: ValueId, bytes: u64) -> u64 {
        let op = &self.local.graph.ops[id];
        if matches!(op.kind, OpKind::DynamicSlice { .. }) && op.operands[0] == v { bytes.min(self.local.graph.ty(op.results[0]).bytes()) } else { bytes }
    }

    /// What each region must move: tensors that enter or leave it, with the parts of each that are seen.
    fn least(&self) -> BTreeMap<Key, u64> {
        let graph = &self.local.graph;
        let mut crossing: BTreeMap<(Key, bool, ValueId), (BTreeMap<String, u64>, u64)> = BTreeMap::new();
        let mut cross = |key: Key, enters: bool, behind: &Behind, bytes: u64| {
            let times = if behind.total { 1 } else { self.times(behind.base) };
            let part = crossing.entry((key, enters, behind.base)).or_insert_with(|| (BTreeMap::new(), times)).0.entry(behind.cuts.clone()).or_default();
            *part = (*part).max(bytes);
        };
        for id in self.computing() {
            let here = Key::Ops(self.root(id));
            for &v in &graph.ops[id].operands {
                let behind = self.behind(v);
                let there = self.region(behind.base);
                if behind.role == Some(Role::Free) || there == here {
                    continue;
                }
                cross(here, true, &behind, self.read(id, v, behind.bytes));
                if behind.role == Some(Role::Computes) {
                    cross(there, false, &behind, behind.bytes);
                }
            }
        }
        let mut constants: BTreeSet<ValueId> = BTreeSet::new();
        let calls = graph.ops.iter().filter(|(id, _)| self.role[id.0 as usize] == Role::Calls).flat_map(|(_, op)| &op.operands);
        for &v in calls.chain(&graph.outputs) {
            let behind = self.behind(v);
            match behind.role {
                Some(Role::Computes) => cross(self.region(behind.base), false, &behind, behind.bytes),
                Some(Role::Free) => {
                    constants.insert(v);
                }
                Some(Role::Calls | Role::View) | None => {}
            }
        }
        let mut least: BTreeMap<Key, u64> = constants.into_iter().map(|v| (Key::Stored(v), graph.ty(v).bytes())).collect();
        for ((key, _, base), (parts, times)) in crossing {
            *least.entry(key).or_default() += parts.values().sum::<u64>().min(graph.ty(base).bytes()) * times;
        }
        least
    }

    /// The regions, in the order of their ops.
    pub(super) fn finish(mut self) -> Vec<Region> {
        let graph = &self.local.graph;
        let least = self.least();
        let mut ops: BTreeMap<Key, u64> = BTreeMap::new();
        for id in self.computing() {
            *ops.entry(Key::Ops(self.root(id))).or_default() += 1;
        }
        let keys: BTreeSet<Key> = least.keys().chain(self.work.keys()).copied().collect();
        let region = |key: Key| {
            let (name, loc) = match key {
                Key::Ops(id) => (graph.display_name(graph.ops[id].results[0]), graph.locs.get(graph.ops[id].loc)),
                Key::Stored(v) => (graph.display_name(v), graph.def_op(v).and_then(|op| graph.locs.get(graph.ops[op].loc))),
            };
            let work = self.work.remove(&key).unwrap_or_default();
            Region {
                stage: self.local.stage,
                source: loc.filter(|l| l.line > 0).map_or_else(|| name.clone(), |l| format!("{name} (line {})", l.line)),
                ops: ops.get(&key).copied().unwrap_or(0),
                least: Bytes(least.get(&key).copied().unwrap_or(0)),
                kernels: work.kernels.into_iter().collect(),
                rearranged: Bytes(work.rearranged),
            }
        };
        keys.into_iter().map(region).collect()
    }
}

fn role(kind: &OpKind) -> Role {
    match kind {
        OpKind::Constant(literal) if literal.splat_bytes().is_some() => Role::Free,
        OpKind::Iota { .. } | OpKind::AxisIndex { .. } => Role::Free,
        OpKind::AllReduce { axes, .. } if axes == &[AxisId::MICROBATCH] => Role::View,
        OpKind::Broadcast { .. } | OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Slice { .. } => Role::View,
        OpKind::Reverse { .. } | OpKind::ShardSlice { .. } => Role::View,
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Compare { .. } | OpKind::Select | OpKind::Clamp | OpKind::Convert | OpKind::BitcastConvert => {
            Role::Computes
        }
        OpKind::ReducePrecision { .. } | OpKind::Reduce { .. } => Role::Computes,
        OpKind::Pad { .. } | OpKind::Concatenate { .. } | OpKind::DynamicSlice { .. } | OpKind::DynamicUpdateSlice => Role::Computes,
        OpKind::Constant(_) | OpKind::ReduceWindow { .. } | OpKind::SelectAndScatter { .. } | OpKind::Dot(_) | OpKind::Convolution(_) => Role::Calls,
        OpKind::Attention(_) | OpKind::AttentionGrad { .. } | OpKind::Gather(_) | OpKind::Scatter { .. } | OpKind::TopK { .. } => Role::Calls,
        OpKind::Sort { .. } | OpKind::Barrier | OpKind::While | OpKind::If | OpKind::Case | OpKind::Call { .. } => Role::Calls,
        OpKind::RngBitGenerator { .. } | OpKind::CustomCall { .. } | OpKind::AllReduce { .. } | OpKind::AllGather { .. } => Role::Calls,
        OpKind::ReduceScatter { .. } | OpKind::AllToAll { .. } => Role::Calls,
    }
}
