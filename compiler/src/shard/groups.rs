//! Groups: the unknowns of the sharding problem.
//!
//! A library op is a group; elementwise ops and the reductions that close them form clusters. Ops that only rearrange, and constants, belong to every
//! group that reads through them. A cluster's ops have the same *level* (how many reductions and library ops lie before them), so a reduction's result is
//! only read by later groups: a cut reduction is completed between groups, never inside one. Clusters that would depend on each other in a circle are cut.
//! A group's factors are the factors of its ops' rules, merged along the values inside it.

use crate::rules::{self, Dims, Factor, Rule};
use ir::graph::Graph;
use ir::op::{OpKind, Reducer};
use ir::{AxisId, OpId, SecondaryMap, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// A value that a group reads, with the group's factors of its dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// A graph input, or a result of another group.
    pub value: ValueId,
    /// Its dimensions.
    pub dims: Dims,
}

/// Where a member's operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A read of the group.
    Read(u32),
    /// A result of another member: its number and the result's.
    Member(u32, u32),
}

/// An op as it is done for one group. A view that a group reads through twice may be two members.
#[derive(Clone, Debug)]
pub struct Member {
    /// The op.
    pub op: OpId,
    /// Its operands.
    pub operands: Vec<Place>,
    /// Factors of its own rule, as the group's factors.
    pub factors: Vec<Option<u32>>,
    /// Dimensions of its operands.
    pub operand_dims: Vec<Dims>,
    /// Dimensions of its results.
    pub result_dims: Vec<Dims>,
}

/// Ops that are sharded together.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its own ops, in graph order.
    pub ops: Vec<OpId>,
    /// Its own ops and the rearrangements and constants it reads through, operands first.
    pub members: Vec<Member>,
    /// Its factors; those that no dimension may be cut along are left out.
    pub factors: Vec<Factor>,
    /// What it reads: one access for all own ops of a cluster that read a value directly, and one for each view or product operand.
    pub reads: Vec<Access>,
    /// Its results.
    pub writes: Vec<Access>,
    /// Where its results are made.
    pub made: Vec<Place>,
    /// For a graph output: its position (the group then has no ops of its own).
    pub output: Option<usize>,
}

/// What an axis does in a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// Everything is done on every device along the axis.
    Whole,
    /// A factor is cut.
    Cut(u32),
    /// Some reads (by number) are partial, and so are the results.
    Partial(Reducer, Vec<u32>),
}

/// How a value lies along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The same on all devices.
    Whole,
    /// Cut in the dimension of the chosen factor.
    Cut,
    /// An unreduced partial.
    Partial(Reducer),
}

/// A choice with what follows from it for the group's values.
#[derive(Clone, Debug)]
pub struct AxisChoice {
    /// The choice.
    pub choice: Choice,
    /// Status of each read, as required.
    pub reads: Vec<Status>,
    /// Status of each write.
    pub writes: Vec<Status>,
}

/// Ops that belong to every group that reads through them.
pub fn is_view(graph: &Graph, id: OpId) -> bool {
    match &graph.ops[id].kind {
        OpKind::Constant(l) => l.splat_bytes().is_some(),
        OpKind::Iota { .. }
        | OpKind::AxisIndex { .. }
        | OpKind::Broadcast { .. }
        | OpKind::Transpose { .. }
        | OpKind::Slice { .. }
        | OpKind::Reverse { .. }
        | OpKind::Reshape => true,
        OpKind::ShardSlice { axes, .. } => axes == &[AxisId::MICROBATCH],
        _ => false,
    }
}

/// Whether an op may share a cluster with others.
fn clusters(kind: &OpKind) -> bool {
    kind.is_elementwise() || matches!(kind, OpKind::Reduce { reducer, .. } if *reducer != Reducer::General)
}

/// The groups of a graph.
#[derive(Clone)]
pub struct Groups {
    /// All groups; a group comes after those it reads from.
    pub groups: Vec<Group>,
    /// The group of each op that is not a view.
    pub of: SecondaryMap<OpId, Option<u32>>,
    /// Rules of all ops.
    pub rules: Vec<Rule>,
}

/// The values that are not made by views and that `v` is a view of; constants have none.
pub fn leaves(graph: &Graph, v: ValueId, out: &mut BTreeSet<ValueId>) {
    match graph.def_op(v) {
        Some(op) if is_view(graph, op) => graph.ops[op].operands.iter().for_each(|&o| leaves(graph, o, out)),
        _ => {
            out.insert(v);
        }
    }
}

/// Forms the groups. Ops with different `apart` numbers (phase, layer) are never put together.
pub fn groups(graph: &Graph, apart: &dyn Fn(OpId) -> u64) -> Groups {
    let rules: Vec<Rule> = graph.ops.keys().map(|id| rules::rule(graph, id)).collect();
    let count = graph.ops.len();
    let mut parent: Vec<u32> = (0..count as u32).collect();
    fn root(parent: &mut [u32], mut x: u32) -> u32 {
        while parent[x as usize] != x {
            parent[x as usize] = parent[parent[x as usize] as usize];
            x = parent[x as usize];
        }
        x
    }
    let mut level_of_value: SecondaryMap<ValueId, u32> = SecondaryMap::new();
    let mut level = vec![0u32; count];
    let mut op_leaves: Vec<BTreeSet<ValueId>> = vec![BTreeSet::new(); count];
    // Cluster ops by the full-size leaf they read, level and kind: siblings share a cluster.
    let mut sibling: BTreeMap<(ValueId, u32, u64, u64), u32> = BTreeMap::new();
    let space = |id: OpId| -> u64 {
        let op = &graph.ops[id];
        let v = if matches!(op.kind, OpKind::Reduce { .. }) { op.operands[0] } else { op.results[0] };
        graph.ty(v).elements()
    };
    for (id, op) in graph.ops.iter() {
        if is_view(graph, id) {
            continue;
        }
        let i = id.0 as usize;
        let mut own = BTreeSet::new();
        op.operands.iter().for_each(|&v| leaves(graph, v, &mut own));
        level[i] = own.iter().map(|&v| level_of_value[v]).max().unwrap_or(0);
        let (cluster, reduce) = (clusters(&op.kind), matches!(op.kind, OpKind::Reduce { .. }));
        for &r in &op.results {
            level_of_value[r] = level[i] + u32::from(!cluster || reduce);
        }
        if cluster {
            for &v in &own {
                let same_size = graph.ty(v).elements() == space(id);
                if !same_size {
                    continue;
                }
                if let Some(d) = graph.def_op(v)
                    && level[d.0 as usize] == level[i]
                    && clusters(&graph.ops[d].kind)
                    && !matches!(graph.ops[d].kind, OpKind::Reduce { .. })
                    && apart(d) == apart(id)
                {
                    let (a, b) = (root(&mut parent, d.0), root(&mut parent, id.0));
                    parent[a.max(b) as usize] = a.min(b);
                }
                if space(id) > 1 {
                    let first = *sibling.entry((v, level[i], apart(id), space(id))).or_insert(id.0);
                    let (a, b) = (root(&mut parent, first), root(&mut parent, id.0));
                    parent[a.max(b) as usize] = a.min(b);
                }
            }
        }
        op_leaves[i] = own;
    }
    let mut sets: BTreeMap<(u32, bool, u32), Vec<OpId>> = BTreeMap::new();
    for id in graph.ops.keys().filter(|&id| !is_view(graph, id)) {
        let r = root(&mut parent, id.0);
        sets.entry((level[id.0 as usize], !clusters(&graph.ops[id].kind), r)).or_default().push(id);
    }
    let mut result = Groups { groups: vec![], of: SecondaryMap::new(), rules };
    for ops in in_order(graph, &op_leaves, sets.into_values().collect()) {
        let g = result.groups.len() as u32;
        ops.iter().for_each(|&o| result.of[o] = Some(g));
        let group = compose(graph, &result.rules, ops, None);
        result.groups.push(group);
    }
    for position in 0..graph.outputs.len() {
        let group = compose(graph, &result.rules, vec![], Some(position));
        result.groups.push(group);
    }
    result
}

/// The sets so that each comes after those it reads from, in their given order where that allows.
///
/// Clusters may read from each other in a circle: full-size ops before and after a smaller one that reads the first and is broadcast to the last. Such
/// clusters are cut wherever a path leads from one to another.
fn in_order(graph: &Graph, leaves: &[BTreeSet<ValueId>], sets: Vec<Vec<OpId>>) -> Vec<Vec<OpId>> {
    let read = |op: OpId| leaves[op.0 as usize].iter().filter_map(|&v| graph.def_op(v));
    let numbers = |sets: &[Vec<OpId>]| -> BTreeMap<OpId, usize> { (0..).zip(sets).flat_map(|(i, ops)| ops.iter().map(move |&o| (o, i))).collect() };
    // Pairs (read, reader) of different sets.
    let edges = |sets: &[Vec<OpId>]| -> BTreeSet<(usize, usize)> {
        let of = numbers(sets);
        let pairs = of.iter().flat_map(|(&o, &i)| read(o).map(move |d| (d, i))).filter_map(|(d, i)| Some((*of.get(&d)?, i)));
        pairs.filter(|(d, i)| d != i).collect()
    };
    let mut circles = petgraph::graph::DiGraph::<(), ()>::new();
    sets.iter().for_each(|_| {
        circles.add_node(());
    });
    for (d, i) in edges(&sets) {
        circles.add_edge((d as u32).into(), (i as u32).into(), ());
    }
    let circular: BTreeSet<usize> = petgraph::algo::tarjan_scc(&circles).into_iter().filter(|c| c.len() > 1).flatten().map(|n| n.index()).collect();
    let of = numbers(&sets);
    let mut steps: BTreeMap<OpId, u32> = BTreeMap::new();
    let mut cut: BTreeMap<(usize, u32), Vec<OpId>> = BTreeMap::new();
    for (&op, &set) in &of {
        let before = read(op).filter_map(|d| Some((steps.get(&d)?, of.get(&d)?))).map(|(&n, d)| n + u32::from(*d != set)).max();
        let step = if circular.contains(&set) { before.unwrap_or(0) } else { 0 };
        steps.insert(op, step);
        cut.entry((set, step)).or_default().push(op);
    }
    let mut sets: Vec<Vec<OpId>> = cut.into_values().collect();
    let edges = edges(&sets);
    let mut waits = vec![0u32; sets.len()];
    edges.iter().for_each(|&(_, i)| waits[i] += 1);
    let mut ready: BTreeSet<usize> = (0..sets.len()).filter(|&i| waits[i] == 0).collect();
    let mut ordered = Vec::with_capacity(sets.len());
    while let Some(i) = ready.pop_first() {
        for &(_, reader) in edges.range((i, 0)..(i + 1, 0)) {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.insert(reader);
            }
        }
        ordered.push(std::mem::take(&mut sets[i]));
    }
    ordered
}

/// A group from its ops: members, merged factors, reads and writes.
fn compose(graph: &Graph, rules: &[Rule], ops: Vec<OpId>, output: Option<usize>) -> Group {
    let mut c = Composer { graph, rules, merge: Merge::default(), members: vec![], reads: vec![], of_op: BTreeMap::new(), direct: BTreeMap::new() };
    for &op in &ops {
        c.own(op);
    }
    let made = match output {
        Some(p) => vec![c.place(graph.outputs[p], false)],
        None => ops.iter().flat_map(|&o| (0..graph.ops[o].results.len() as u32).map(|i| Place::Member(c.of_op[&o], i)).collect::<Vec<_>>()).collect(),
    };
    let values: Vec<ValueId> = match output {
        Some(p) => vec![graph.outputs[p]],
        None => ops.iter().flat_map(|&o| graph.ops[o].results.clone()).collect(),
    };
    let Composer { merge, mut members, mut reads, .. } = c;
    let (factors, number) = merge.finish();
    let renumber = |d: &mut Dims| d.iter_mut().for_each(|f| *f = f.and_then(|f| number[f as usize]));
    reads.iter_mut().for_each(|r| renumber(&mut r.dims));
    for m in &mut members {
        renumber(&mut m.factors);
        m.operand_dims.iter_mut().chain(&mut m.result_dims).for_each(renumber);
    }
    let dims_at = |p: Place| match p {
        Place::Read(r) => reads[r as usize].dims.clone(),
        Place::Member(m, i) => members[m as usize].result_dims[i as usize].clone(),
    };
    let writes = values.into_iter().zip(&made).map(|(value, &p)| Access { value, dims: dims_at(p) }).collect();
    Group { ops, members, factors, reads, writes, made, output }
}

/// Builds the members of one group.
struct Composer<'a> {
    graph: &'a Graph,
    rules: &'a [Rule],
    merge: Merge,
    members: Vec<Member>,
    reads: Vec<Access>,
    /// Members of own ops.
    of_op: BTreeMap<OpId, u32>,
    /// Reads that the own ops of a cluster share.
    direct: BTreeMap<ValueId, u32>,
}

impl Composer<'_> {
    /// Adds an own op. Operands of library ops never share a read, so that `x·xᵀ` has two factors for the two uses of `x`'s rows.
    fn own(&mut self, op: OpId) {
        let shared = clusters(&self.graph.ops[op].kind);
        let m = self.member(op, shared);
        self.of_op.insert(op, m);
    }

    fn member(&mut self, op: OpId, shared: bool) -> u32 {
        let graph = self.graph;
        let operands: Vec<Place> = graph.ops[op].operands.iter().map(|&v| self.place(v, shared)).collect();
        let rule = &self.rules[op.0 as usize];
        let factors: Vec<Option<u32>> = rule.factors.iter().map(|&f| Some(self.merge.add(f))).collect();
        let global = |d: &Dims| -> Dims { d.iter().map(|f| f.and_then(|f| factors[f as usize])).collect() };
        let operand_dims: Vec<Dims> = rule.operands.iter().map(global).collect();
        let result_dims: Vec<Dims> = rule.results.iter().map(global).collect();
        for (place, dims) in operands.iter().zip(&operand_dims) {
            let theirs = match *place {
                Place::Read(r) => self.reads[r as usize].dims.clone(),
                Place::Member(m, i) => self.members[m as usize].result_dims[i as usize].clone(),
            };
            theirs.into_iter().zip(dims).for_each(|(a, &b)| self.merge.join(a, b));
        }
        self.members.push(Member { op, operands, factors, operand_dims, result_dims });
        self.members.len() as u32 - 1
    }

    /// Where a value is found; views are done anew for every reader.
    fn place(&mut self, v: ValueId, shared: bool) -> Place {
        match self.graph.def_op(v) {
            Some(op) if self.of_op.contains_key(&op) => {
                let i = self.graph.ops[op].results.iter().position(|&r| r == v).expect("invariant: a value is a result of its op");
                Place::Member(self.of_op[&op], i as u32)
            }
            Some(op) if is_view(self.graph, op) => Place::Member(self.member(op, false), 0),
            _ => {
                if let Some(&r) = self.direct.get(&v).filter(|_| shared) {
                    return Place::Read(r);
                }
                let dims = self.graph.ty(v).shape.iter().map(|&n| Some(self.merge.add(Factor { size: n, reduction: None }))).collect();
                self.reads.push(Access { value: v, dims });
                let r = self.reads.len() as u32 - 1;
                if shared {
                    self.direct.insert(v, r);
                }
                Place::Read(r)
            }
        }
    }
}

/// Union-find of factors; a factor joined with "none" may not be cut.
#[derive(Default)]
struct Merge {
    parent: Vec<u32>,
    factor: Vec<Factor>,
    whole: Vec<bool>,
}

impl Merge {
    fn add(&mut self, f: Factor) -> u32 {
        self.parent.push(self.parent.len() as u32);
        self.factor.push(f);
        self.whole.push(f.size < 2);
        self.parent.len() as u32 - 1
    }
    fn root(&self, mut x: u32) -> u32 {
        while self.parent[x as usize] != x {
            x = self.parent[x as usize];
        }
        x
    }
    fn join(&mut self, a: Option<u32>, b: Option<u32>) {
        match (a, b) {
            (Some(a), Some(b)) => {
                let (a, b) = (self.root(a), self.root(b));
                if a != b {
                    let (keep, drop) = (a.min(b) as usize, a.max(b) as usize);
                    self.parent[drop] = keep as u32;
                    self.whole[keep] |= self.whole[drop];
                    if self.factor[keep].reduction.is_none() {
                        self.factor[keep].reduction = self.factor[drop].reduction;
                    }
                }
            }
            (Some(a), None) | (None, Some(a)) => {
                let a = self.root(a) as usize;
                self.whole[a] = true;
            }
            (None, None) => {}
        }
    }
    /// The factors that may be cut, and each old factor's number among them.
    fn finish(self) -> (Vec<Factor>, Vec<Option<u32>>) {
        let mut factors = Vec::new();
        let mut number = vec![None; self.parent.len()];
        for i in 0..self.parent.len() as u32 {
            let r = self.root(i) as usize;
            if r == i as usize {
                if !self.whole[r] {
                    number[r] = Some(factors.len() as u32);
                    factors.push(self.factor[r]);
                }
            } else {
                number[i as usize] = number[r];
            }
        }
        (factors, number)
    }
}

impl Group {
    /// Everything an axis of `size` devices can do in this group.
    pub fn choices(&self, graph: &Graph, rules: &[Rule], size: u32) -> Vec<AxisChoice> {
        let mut all = vec![Choice::Whole];
        if size == 1 {
            return all.into_iter().filter_map(|choice| self.follow(graph, rules, choice)).collect();
        }
        all.extend((0..self.factors.len() as u32).filter(|&f| self.factors[f as usize].size >= u64::from(size)).map(Choice::Cut));
        let floats: Vec<u32> = (0..self.reads.len() as u32).filter(|&r| graph.ty(self.reads[r as usize].value).dtype.is_float()).collect();
        let product = self
            .ops
            .iter()
            .any(|&o| matches!(graph.ops[o].kind, OpKind::Dot(_) | OpKind::Convolution(_) | OpKind::Attention(_) | OpKind::AttentionGrad { .. }));
        if !product && self.output.is_none() {
            for &r in &floats {
                all.push(Choice::Partial(Reducer::Add, vec![r]));
                all.push(Choice::Partial(Reducer::Max, vec![r]));
            }
            if floats.len() > 1 {
                all.push(Choice::Partial(Reducer::Add, floats));
            }
        }
        all.into_iter().filter_map(|choice| self.follow(graph, rules, choice)).collect()
    }

    /// What a choice means for the group's values; `None` when some op could not be done.
    pub fn follow(&self, graph: &Graph, rules: &[Rule], choice: Choice) -> Option<AxisChoice> {
        let cut = |dims: &Dims| matches!(&choice, Choice::Cut(f) if dims.contains(&Some(*f)));
        let reads: Vec<Status> = (0..)
            .zip(&self.reads)
            .map(|(r, access)| match &choice {
                Choice::Partial(reducer, set) if set.contains(&r) => Status::Partial(*reducer),
                _ if cut(&access.dims) => Status::Cut,
                _ => Status::Whole,
            })
            .collect();
        let mut results: Vec<Vec<Status>> = Vec::with_capacity(self.members.len());
        let at = |results: &Vec<Vec<Status>>, p: Place| match p {
            Place::Read(r) => reads[r as usize],
            Place::Member(m, i) => results[m as usize][i as usize],
        };
        for member in &self.members {
            let o = &graph.ops[member.op];
            let rule = &rules[member.op.0 as usize];
            let partial: Vec<(usize, Reducer)> =
                (0..).zip(&member.operands).filter_map(|(i, &p)| if let Status::Partial(r) = at(&results, p) { Some((i, r)) } else { None }).collect();
            let mut folded = match partial.first() {
                None => None,
                Some(&(_, reducer)) => {
                    let fits = |l: &&rules::Linear| {
                        l.reducer.is_none_or(|r| r == reducer)
                            && partial.iter().all(|p| p.1 == reducer && l.operands.contains(&p.0))
                            && l.operands.iter().all(|&i| partial.iter().any(|p| p.0 == i) || (reducer == Reducer::Add && rules::is_zero(graph, o.operands[i])))
                    };
                    rule.linear.iter().find(fits)?;
                    Some(reducer)
                }
            };
            // Results that have a folded factor themselves are cut along it: the gradients of an attention's queries.
            let mut kept: Option<u32> = None;
            if let Choice::Cut(f) = &choice {
                for ((n, own), group) in (0..).zip(&rule.factors).zip(&member.factors) {
                    if let (Some(reducer), true) = (own.reduction, *group == Some(*f)) {
                        if folded.is_some_and(|r| r != reducer) {
                            return None;
                        }
                        kept = if folded.is_none() { Some(n) } else { None };
                        folded = Some(reducer);
                    }
                }
            }
            let mut of_member = Vec::with_capacity(o.results.len());
            for (dims, own) in member.result_dims.iter().zip(&rule.results) {
                of_member.push(match folded {
                    Some(_) if kept.is_some() && own.contains(&kept) => Status::Cut,
                    Some(_) if cut(dims) => return None,
                    Some(r) => Status::Partial(r),
                    None if cut(dims) => Status::Cut,
                    None => Status::Whole,
                });
            }
            results.push(of_member);
        }
        let writes: Vec<Status> = self.made.iter().map(|&p| at(&results, p)).collect();
        let useful = !matches!(choice, Choice::Partial(..)) || writes.iter().all(|w| matches!(w, Status::Partial(_)));
        useful.then_some(AxisChoice { choice, reads, writes })
    }
}
