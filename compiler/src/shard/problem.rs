//! The integer program of one mesh: one strategy per input and group, compute time on nodes, reshard time on edges, memory at every moment.
//!
//! Nodes are the graph's inputs (how arguments are stored), its groups, and its outputs; a state's output is tied to its input. Times are counted in
//! picoseconds, once per microbatch for what a microbatch repeats. A value read by several groups in different shardings is priced for each:
//! partitioning shares equal reshards of one phase, so the objective is an upper estimate of what is executed.

use super::blame::{Blame, blame};
use super::groups::AxisChoice;
use super::reshard::{Resharder, is_valid};
use super::strategy::{Context, Strategy, strategies_among};
use crate::step::StepGraph;
use crate::stop::Stop;
use ir::diagnostic::{Diagnostic, Result};
use ir::plan::SolveReport;
use ir::program::Phase;
use ir::{Bytes, Mesh, SecondaryMap, Seconds, Sharding, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use solver::{INFINITE, Options, Outcome, Problem, Status};
use std::cell::OnceCell;
use std::sync::Arc;

/// What a node of the problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// An input of the step.
    Input(u32),
    /// A group, by number.
    Group(u32),
}

/// Restricts what a node may choose: `Err` says why a strategy is out.
pub type Filter<'a> = dyn Fn(&Space<'_>, Node, usize) -> bool + 'a;

/// Everything that may be chosen.
pub struct Space<'a> {
    /// The step, groups, mesh and prices.
    pub cx: &'a Context<'a>,
    /// Shardings of every input.
    pub inputs: Vec<Vec<Sharding>>,
    /// Strategies of every group; tied groups share theirs.
    pub groups: Vec<Arc<Vec<Strategy>>>,
    /// What lies between nodes, found when a program is first built; all programs of a space have the same ties.
    between: OnceCell<Vec<Between>>,
}

/// A value on its way from the node that decides how it is made to the one that decides how it is read, with the time of every reshard.
struct Between {
    /// Makes it.
    from: usize,
    /// Reads it.
    to: usize,
    /// Which of the distinct shardings each candidate of either has.
    have_of: Vec<usize>,
    want_of: Vec<usize>,
    /// How many distinct ones are wanted.
    wants: usize,
    /// Of every pair of distinct shardings, row by row; none where there is no way.
    times: Vec<Option<Seconds>>,
    /// When it is done, and how often in the model; none for a state, whose new value is stored as the old one was.
    done: Option<(Phase, f64)>,
}

/// What was chosen.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Sharding of every input.
    pub inputs: Vec<Sharding>,
    /// Strategy of every group.
    pub groups: Vec<Strategy>,
    /// For every group what each of its candidates would cost beside the neighbours' choices: (compute, reshard).
    pub prices: Vec<Vec<(Seconds, Seconds)>>,
    /// For every group whose candidate that is cheapest by itself was not taken, who made it dearer; its candidate is one of `options`.
    pub blame: Vec<Option<Blame>>,
    /// Candidate numbers of the groups.
    pub chosen: Vec<u32>,
    /// All strategies of every group.
    pub options: Vec<Arc<Vec<Strategy>>>,
    /// The solve.
    pub report: SolveReport,
    /// Share of the objective that is reshards.
    pub communication: Seconds,
}

/// Units of the program's costs in a second.
pub const PICO: f64 = 1e12;

fn pico(t: Seconds) -> i64 {
    ((t.0 * PICO).round() as i64).clamp(0, INFINITE - 1)
}

/// Shardings under which an input may be stored.
fn input_shardings(step: &StepGraph, input: usize, mesh: &Mesh) -> Vec<Sharding> {
    let shape = &step.graph.ty(step.graph.inputs[input]).shape;
    let mut all = vec![Sharding::replicated(shape.len())];
    for axis in mesh.axis_ids().filter(|&a| mesh.size(a) > 1) {
        all = all.iter().flat_map(|s| std::iter::once(s.clone()).chain((0..shape.len()).map(|d| s.clone().with_dim(d, axis)))).collect();
    }
    all.retain(|s| is_valid(s, shape, mesh));
    all.dedup();
    all
}

impl<'a> Space<'a> {
    /// All inputs' shardings and groups' strategies.
    pub fn new(cx: &'a Context<'a>) -> Space<'a> {
        Space::tied(cx, None)
    }

    /// The same where some groups choose alike.
    pub fn tied(cx: &'a Context<'a>, tie: Option<&Tie>) -> Space<'a> {
        Space::among(cx, tie, &|_, _, _, _| true)
    }

    /// The same with the choices alone that `keep` names, given a group, an axis, all that there are on it, and one of them.
    pub fn among(cx: &'a Context<'a>, tie: Option<&Tie>, keep: &dyn Fn(usize, usize, &[AxisChoice], &AxisChoice) -> bool) -> Space<'a> {
        let inputs: Vec<Vec<Sharding>> = (0..cx.step.graph.inputs.len()).map(|i| input_shardings(cx.step, i, cx.mesh)).collect();
        let mut groups: Vec<Arc<Vec<Strategy>>> = Vec::with_capacity(cx.groups.groups.len());
        for (g, group) in cx.groups.groups.iter().enumerate() {
            let decides = tie.map_or(g, |t| t.of[inputs.len() + g] as usize - inputs.len());
            let own = || Arc::new(strategies_among(cx, group, &|axis, all, one| keep(g, axis, all, one)));
            groups.push(if decides < g { groups[decides].clone() } else { own() });
        }
        Space { cx, inputs, groups, between: OnceCell::new() }
    }

    /// Candidates that another space of the same step and mesh numbers otherwise, by the numbers that they have here; none if one is not here.
    pub fn renumbered(&self, picks: &[usize], of: &Space<'_>) -> Option<Vec<usize>> {
        let inputs = self.inputs.len();
        let number = |(n, &pick): (usize, &usize)| {
            if n < inputs {
                return Some(pick);
            }
            let axes = &of.groups[n - inputs].get(pick)?.axes;
            self.groups[n - inputs].iter().position(|s| s.axes == *axes)
        };
        picks.iter().enumerate().map(number).collect()
    }

    /// Phase of a group: that of its ops; an output belongs to the update.
    pub fn phase(&self, g: usize) -> Phase {
        self.cx.groups.groups[g].ops.first().map_or(Phase::After, |&o| self.cx.step.phase_of(o))
    }
}

/// Distinct shardings of one value among a node's strategies, and which each strategy has.
fn distinct<'s>(of: impl Iterator<Item = &'s Sharding>) -> (Vec<&'s Sharding>, Vec<usize>) {
    let (mut list, mut number, mut known) = (Vec::new(), Vec::new(), FxHashMap::default());
    for s in of {
        let i = *known.entry(s).or_insert_with(|| {
            list.push(s);
            list.len() - 1
        });
        number.push(i);
    }
    (list, number)
}

/// Memory at the moments of a step, for every stage apart.
pub struct MemoryLimit<'a> {
    /// Bytes that an arena may take.
    pub limit: Bytes,
    /// Bytes that are needed whatever is chosen (gathered copies, packing), per stage.
    pub reserved: Vec<Bytes>,
    /// Stage of every group; none for what every stage does. With several chunks of the model per stage, a stage here is a chunk: they share the limits of
    /// `reserved`, in turn.
    pub stage_of: &'a dyn Fn(u32) -> Option<u32>,
    /// Stage that keeps every input; none for all.
    pub input_stage: &'a dyn Fn(u32) -> Option<u32>,
    /// Microbatches between forward and backward at most, per stage or chunk.
    pub in_flight: Vec<u32>,
}

/// Why there is no solution.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What to tell the user.
    pub diagnostic: Diagnostic,
    /// When memory is what is missing: the smallest limit for which a solution is known.
    pub works: Option<Bytes>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.diagnostic.fmt(f)
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Failure {
        Failure { diagnostic, works: None }
    }
}

impl From<Failure> for ir::Diagnostics {
    fn from(failure: Failure) -> Self {
        failure.diagnostic.into()
    }
}

/// How much each part of a step counts, and which nodes choose alike.
pub struct Weights<'a> {
    /// Factor of the times of each phase, in [`Phase::ALL`]'s order.
    pub phases: [f64; 4],
    /// Nodes that are one, where layers are tied.
    pub tie: Option<&'a Tie>,
}

impl Weights<'_> {
    /// Every node for itself; what a microbatch repeats counts once per microbatch.
    pub fn flat(step: &StepGraph) -> Weights<'static> {
        let m = f64::from(step.microbatches);
        Weights { phases: [1.0, m, m, 1.0], tie: None }
    }

    fn phase(&self, phase: Phase) -> f64 {
        self.phases[phase as usize]
    }
}

/// Nodes that choose alike, because they are the same node of identical layers, and how many copies of it the model has.
///
/// Nodes are numbered as in [`Instance`]: inputs first, then groups. A *run* is a series of identical layers, of which a few are in the graph (its *copies*) and
/// which stand for more. Invariant: the strategies of tied groups are the same, in the same order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tie {
    /// The node that decides each node: itself, or an earlier one.
    pub of: Vec<u32>,
    /// The run of each node and which of its copies it belongs to; none outside runs.
    pub copy: Vec<Option<(u32, u32)>>,
    /// Of each run: copies in the graph, layers of the model.
    pub runs: Vec<(u32, u32)>,
}

impl Tie {
    /// How many nodes of the model one deciding node stands for.
    pub fn stands_for(&self, node: usize) -> f64 {
        self.copy[node].map_or(1.0, |(run, _)| f64::from(self.runs[run as usize].1))
    }

    /// How many edges of the model the equal edges between (copies of) two nodes stand for: within one copy there is one per layer, from copy to copy one
    /// less, and what only an end of the run has stays what it is.
    fn edges(&self, from: usize, to: usize, count: u32) -> f64 {
        let count = f64::from(count);
        match (self.copy[from], self.copy[to]) {
            (Some((r, i)), Some((q, j))) if r == q && i != j => {
                let (copies, layers) = self.runs[r as usize];
                count * f64::from(layers - 1) / f64::from((copies - 1).max(1))
            }
            (Some((r, _)), Some((q, _))) if r != q => count,
            (Some((r, _)), _) | (None, Some((r, _))) => {
                let (copies, layers) = self.runs[r as usize];
                if count >= f64::from(copies) { f64::from(layers) } else { count }
            }
            (None, None) => count,
        }
    }
}

/// Everything that lies between nodes. Equal edges between copies of the same nodes are one, counted.
fn between(space: &Space<'_>, tie: Option<&Tie>, resharder: &mut Resharder<'_>) -> Vec<Between> {
    let cx = space.cx;
    let graph = &cx.step.graph;
    let groups = &cx.groups.groups;
    let inputs = space.inputs.len();
    let decides = |n: usize| tie.map_or(n, |t| t.of[n] as usize);
    // Who makes each value: a node and which of its writes.
    let mut maker: SecondaryMap<ValueId, Option<(usize, usize)>> = SecondaryMap::new();
    for (i, &v) in graph.inputs.iter().enumerate() {
        maker[v] = Some((i, 0));
    }
    for (g, group) in groups.iter().enumerate().filter(|(_, g)| g.output.is_none()) {
        for (w, access) in group.writes.iter().enumerate() {
            maker[access.value] = Some((inputs + g, w));
        }
    }
    let made = |node: usize, write: usize| -> (Vec<&Sharding>, Vec<usize>) {
        if node < inputs { distinct(space.inputs[node].iter()) } else { distinct(space.groups[node - inputs].iter().map(|s| &s.writes[write])) }
    };
    let mut reads: Vec<(usize, usize, usize, usize, u32)> = Vec::new();
    let mut known: FxHashMap<(usize, usize, usize, usize, bool), usize> = FxHashMap::default();
    for (g, group) in groups.iter().enumerate() {
        let node = inputs + g;
        for (r, access) in group.reads.iter().enumerate() {
            let Some((from, write)) = maker[access.value] else { continue };
            let across = tie.is_some_and(|t| t.copy[from].zip(t.copy[node]).is_some_and(|(a, b)| a != b));
            let key = (decides(from), write, decides(node), r, across);
            match known.get(&key) {
                Some(&i) if tie.is_some() => reads[i].4 += 1,
                _ => {
                    known.insert(key, reads.len());
                    reads.push((from, write, node, r, 1));
                }
            }
        }
    }
    let mut all = Vec::with_capacity(reads.len());
    for (from, write, node, r, times) in reads {
        // The edge as one of the graph's, priced between the nodes that decide it.
        let (a, b) = (decides(from), decides(node));
        let g = b - inputs;
        let (have, have_of) = made(a, write);
        let (want, want_of) = distinct(space.groups[g].iter().map(|s| &s.reads[r]));
        let copies = tie.map_or(1.0, |t| t.edges(from, node, times));
        let times = resharder.times(graph.ty(groups[g].reads[r].value), &have, &want).concat();
        all.push(Between { from: a, to: b, have_of, want_of, wants: want.len(), times, done: Some((space.phase(g), copies)) });
    }
    for (g, group) in groups.iter().enumerate() {
        let node = inputs + g;
        // A state's new value is stored as the old one was.
        let Some(input) = group.output.and_then(|p| cx.step.outputs[p].replaces).filter(|_| decides(node) == node) else { continue };
        let input = decides(input as usize);
        let ((have, have_of), (want, want_of)) = (made(node, 0), made(input, 0));
        let times = have.iter().flat_map(|h| want.iter().map(move |w| (h == w).then_some(Seconds(0.0)))).collect();
        all.push(Between { from: node, to: input, have_of, want_of, wants: want.len(), times, done: None });
    }
    all
}

/// The integer program of a space: which candidates are left, and the solver's problem over the nodes that decide.
pub struct Instance {
    /// Candidates of every node (inputs, then groups) that may be chosen.
    pub kept: Vec<Vec<usize>>,
    /// The solver's node of every node.
    pub slot: Vec<u32>,
    /// The program.
    pub problem: Problem,
    /// The edges by deciding nodes, with their times.
    edges: Vec<(usize, usize, Arc<[i64]>)>,
}

impl Instance {
    /// Builds the program: times on nodes, reshards on edges.
    ///
    /// # Errors
    /// `E0501` when pins or the strategy leave a value no sharding.
    pub fn new(space: &Space<'_>, allow: &Filter<'_>, weights: &Weights<'_>, resharder: &mut Resharder<'_>) -> Result<Instance, Diagnostic> {
        let cx = space.cx;
        let groups = &cx.groups.groups;
        let inputs = space.inputs.len();
        let count = inputs + groups.len();
        let decides = |n: usize| weights.tie.map_or(n, |t| t.of[n] as usize);
        let stands = |n: usize| weights.tie.map_or(1.0, |t| t.stands_for(n));
        let mut kept: Vec<Vec<usize>> = Vec::with_capacity(count);
        let mut slot: Vec<u32> = Vec::with_capacity(count);
        let mut problem = Problem::default();
        for n in 0..count {
            if decides(n) != n {
                kept.push(kept[decides(n)].clone());
                slot.push(slot[decides(n)]);
                continue;
            }
            let (keep, costs): (Vec<usize>, Vec<i64>) = if n < inputs {
                let keep: Vec<usize> = (0..space.inputs[n].len()).filter(|&s| allow(space, Node::Input(n as u32), s)).collect();
                let costs = keep.iter().map(|&s| i64::from(space.inputs[n][s].axes().is_empty())).collect();
                (keep, costs)
            } else {
                let g = n - inputs;
                let factor = weights.phase(space.phase(g)) * stands(n);
                let keep: Vec<usize> = (0..space.groups[g].len()).filter(|&s| allow(space, Node::Group(g as u32), s)).collect();
                let costs = keep.iter().map(|&s| pico(space.groups[g][s].compute * factor)).collect();
                (keep, costs)
            };
            if keep.is_empty() {
                return Err(no_choice(space, n));
            }
            slot.push(problem.add_node(costs));
            kept.push(keep);
        }
        let mut edges: Vec<(usize, usize, Arc<[i64]>)> = Vec::new();
        let mut tables: FxHashSet<Arc<[i64]>> = FxHashSet::default();
        for x in space.between.get_or_init(|| between(space, weights.tie, resharder)) {
            let (a, b) = (x.from, x.to);
            let factor = x.done.map_or(1.0, |(phase, copies)| weights.phase(phase) * copies);
            let times: Vec<i64> = x.times.iter().map(|t| t.map_or(INFINITE, |t| pico(t * factor))).collect();
            let of = |s: usize, t: usize| times[x.have_of[s] * x.wants + x.want_of[t]];
            if a == b {
                for (cost, &s) in problem.nodes[slot[a] as usize].costs.iter_mut().zip(&kept[a]) {
                    *cost = cost.saturating_add(of(s, s)).min(INFINITE);
                }
                continue;
            }
            let table: Vec<i64> = kept[a].iter().flat_map(|&s| kept[b].iter().map(move |&t| (s, t))).map(|(s, t)| of(s, t)).collect();
            if x.done.is_some() && table.iter().all(|&t| t == 0) {
                continue;
            }
            let table = match tables.get(table.as_slice()) {
                Some(known) => known.clone(),
                None => {
                    let table: Arc<[i64]> = table.into();
                    tables.insert(table.clone());
                    table
                }
            };
            problem.add_edge(slot[a], slot[b], table.clone());
            edges.push((a, b, table));
        }
        Ok(Instance { kept, slot, problem, edges })
    }

    /// The solver's choice for chosen candidates; none if one of them is not left.
    pub fn choice(&self, picks: &[usize]) -> Option<Vec<u32>> {
        let mut choice = vec![0u32; self.problem.nodes.len()];
        for (n, &pick) in picks.iter().enumerate() {
            choice[self.slot[n] as usize] = self.kept[n].iter().position(|&s| s == pick)? as u32;
        }
        Some(choice)
    }

    /// The chosen candidate of every node.
    pub fn picks(&self, choice: &[u32]) -> Vec<usize> {
        self.slot.iter().zip(&self.kept).map(|(&slot, kept)| kept[choice[slot as usize] as usize]).collect()
    }
}

/// Solves one mesh.
///
/// # Errors
/// `E0501` when pins or the strategy leave a value no sharding, `E0502` when memory is exceeded whatever is chosen.
pub fn solve(space: &Space<'_>, allow: &Filter<'_>, memory: Option<&MemoryLimit<'_>>, stop: &Stop) -> Result<Choices, Failure> {
    let cx = space.cx;
    let mut resharder = Resharder::new(cx.model, cx.mesh, 0);
    let mut instance = Instance::new(space, allow, &Weights::flat(cx.step), &mut resharder)?;
    if let Some(memory) = memory {
        add_memory(space, &instance.kept, &mut instance.problem, memory);
    }
    let options = stop.limited(Options { work: 100_000_000, ..Options::default() }, PICO);
    let outcome = solver::solve(&instance.problem, &options).map_err(ill_formed)?;
    stop.note(&outcome);
    let solution = match outcome {
        Outcome::Solved(s) => s,
        Outcome::Infeasible(core) => {
            let works = memory.and_then(|m| Some(Bytes(core.limit?.max(0) as u64 + m.reserved.iter().map(|b| b.0).max().unwrap_or(0))));
            return Err(Failure { diagnostic: infeasible(space, &core, memory), works });
        }
        _ => {
            return Err(Diagnostic::outcome("E0503", "the sharding problem was not solved within its budget")
                .with_help("fix part of it with `--pin`, or take a `--mesh` of fewer axes")
                .into());
        }
    };
    let report = report(&instance.problem, &solution);
    Ok(choices(space, &instance, &solution.choice, report))
}

/// The solver refused its problem.
pub fn ill_formed(e: solver::ProblemError) -> Diagnostic {
    Diagnostic::outcome("E0509", format!("the sharding problem is not well formed: {e}")).with_help("this is a bug; please report the model")
}

/// A node without candidates.
fn no_choice(space: &Space<'_>, n: usize) -> Diagnostic {
    let graph = &space.cx.step.graph;
    let what = if n < space.inputs.len() {
        format!("argument {}", graph.display_name(graph.inputs[n]))
    } else {
        let group = &space.cx.groups.groups[n - space.inputs.len()];
        group.writes.first().map_or_else(|| "a group".into(), |w| graph.display_name(w.value))
    };
    Diagnostic::outcome("E0501", format!("no sharding of {what} satisfies the pins and the strategy"))
        .with_note(format!("the mesh of a stage is {}", space.cx.mesh))
        .with_help("loosen a `--pin`, or try `--strategy auto`")
}

/// Adds who uses memory when. Persistent values are there all the time; a group's stored results from it to their last reader.
fn add_memory(space: &Space<'_>, kept: &[Vec<usize>], problem: &mut Problem, memory: &MemoryLimit<'_>) {
    let cx = space.cx;
    let graph = &cx.step.graph;
    let groups = &cx.groups.groups;
    let inputs = space.inputs.len();
    // Groups in the order in which their last op runs.
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&g| (space.phase(g), groups[g].ops.last().map_or(u32::MAX, |o| o.0)));
    let mut position = vec![0u32; groups.len()];
    order.iter().enumerate().for_each(|(p, &g)| position[g] = p as u32);
    let count = groups.len() as u32;
    for reserved in &memory.reserved {
        let limit = memory.limit.0.saturating_sub(reserved.0) as i64;
        (0..count).for_each(|_| {
            problem.add_moment(limit);
        });
    }
    let stages = memory.reserved.len() as u32;
    let mut last: SecondaryMap<ValueId, u32> = SecondaryMap::new();
    let mut crosses: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    for (g, group) in groups.iter().enumerate() {
        for r in &group.reads {
            last[r.value] = last[r.value].max(position[g]);
            crosses[r.value] |= space.phase(g) == Phase::Backward;
        }
    }
    let bytes = |v: ValueId, s: &Sharding| {
        let ty = graph.ty(v);
        ((s.local_shape(&ty.shape, cx.mesh).iter().product::<u64>() * ty.dtype.bytes()).max(1).next_multiple_of(64)) as i64
    };
    for (i, &v) in graph.inputs.iter().enumerate() {
        let slots = if cx.step.inputs[i].microbatched { i64::from(cx.step.microbatches) } else { 1 };
        let usage: Arc<[i64]> = kept[i].iter().map(|&s| slots * bytes(v, &space.inputs[i][s])).collect();
        for stage in (0..stages).filter(|&s| (memory.input_stage)(i as u32).is_none_or(|t| t % stages == s)) {
            problem.add_usage(i as u32, stage * count, (stage + 1) * count, usage.clone());
        }
    }
    for (g, group) in groups.iter().enumerate().filter(|(_, g)| g.output.is_none()) {
        let Some(piece) = (memory.stage_of)(g as u32) else { continue };
        let stage = piece % stages;
        let forward = space.phase(g) == Phase::Forward;
        let mut by_interval: std::collections::BTreeMap<u32, Vec<i64>> = std::collections::BTreeMap::new();
        for (w, access) in group.writes.iter().enumerate() {
            if !cx.stored[access.value] || last[access.value] < position[g] || is_state_result(cx.step, access.value) {
                continue;
            }
            let slots = if forward && crosses[access.value] { i64::from(memory.in_flight[piece as usize]) } else { 1 };
            let usage: Vec<i64> = kept[inputs + g].iter().map(|&s| slots * bytes(access.value, &space.groups[g][s].writes[w])).collect();
            let sum = by_interval.entry(last[access.value] + 1).or_insert_with(|| vec![0; usage.len()]);
            sum.iter_mut().zip(usage).for_each(|(a, b)| *a += b);
        }
        for (hi, usage) in by_interval {
            problem.add_usage((inputs + g) as u32, stage * count + position[g], stage * count + hi, usage);
        }
    }
}

/// New state is written over the old one.
fn is_state_result(step: &StepGraph, v: ValueId) -> bool {
    step.outputs.iter().zip(&step.graph.outputs).any(|(o, &w)| w == v && o.replaces.is_some())
}

/// Why memory cannot suffice, in the user's terms.
fn infeasible(space: &Space<'_>, core: &solver::Core, memory: Option<&MemoryLimit<'_>>) -> Diagnostic {
    let graph = &space.cx.step.graph;
    let inputs = space.inputs.len();
    let Some(memory) = memory else {
        return Diagnostic::outcome("E0501", "the pins and the strategy cannot hold together").with_help("loosen a `--pin`, or try `--strategy auto`");
    };
    let name = |n: u32| {
        let n = n as usize;
        if n < inputs {
            (graph.display_name(graph.inputs[n]), graph.ty(graph.inputs[n]).bytes())
        } else {
            let w = &space.cx.groups.groups[n - inputs].writes[0];
            (graph.display_name(w.value), graph.ty(w.value).bytes())
        }
    };
    let mut names: Vec<(String, u64)> = core.nodes.iter().map(|&n| name(n)).collect();
    names.sort_by_key(|n| std::cmp::Reverse(n.1));
    let list: Vec<String> = names.iter().take(5).map(|(n, b)| format!("{n} ({} whole)", Bytes(*b))).collect();

    Diagnostic::outcome("E0502", format!("no sharding on {} fits in {} per device", space.cx.mesh, memory.limit)).with_note(format!(
        "{} values cannot lie in memory together; the largest: {}",
        names.len(),
        list.join(", ")
    ))
}

/// Reads a solution: what was chosen, and what every candidate of every group would cost beside its neighbours' choices. Tied nodes have the prices of
/// all that they stand for.
pub fn choices(space: &Space<'_>, instance: &Instance, choice: &[u32], report: SolveReport) -> Choices {
    let Instance { kept, problem, edges, slot } = instance;
    let inputs = space.inputs.len();
    let at = |n: usize| choice[slot[n] as usize] as usize;
    let pick = |n: usize| kept[n][at(n)];
    let seconds = |p: i128| Seconds(p as f64 / PICO);
    let width = |n: usize| kept[n].len();
    let mut around: Vec<Vec<i128>> = problem.nodes.iter().map(|n| vec![0; n.costs.len()]).collect();
    let mut communication = 0i128;
    for (a, b, table) in edges {
        let (ca, cb) = (at(*a), at(*b));
        (0..width(*a)).for_each(|s| around[slot[*a] as usize][s] += i128::from(table[s * width(*b) + cb]));
        (0..width(*b)).for_each(|s| around[slot[*b] as usize][s] += i128::from(table[ca * width(*b) + s]));
        communication += i128::from(table[ca * width(*b) + cb]);
    }
    let groups = space.groups.len();
    let prices = (0..groups)
        .map(|g| {
            let n = inputs + g;
            let (around, costs) = (&around[slot[n] as usize], &problem.nodes[slot[n] as usize].costs);
            let mut all = vec![(Seconds(f64::INFINITY), Seconds(f64::INFINITY)); space.groups[g].len()];
            for (k, &s) in kept[n].iter().enumerate() {
                let reshard = if around[k] >= i128::from(INFINITE) { Seconds(f64::INFINITY) } else { seconds(around[k]) };
                all[s] = (seconds(i128::from(costs[k])), reshard);
            }
            all
        })
        .collect();
    let of_nodes = blame(problem, edges, slot, choice);
    Choices {
        blame: (0..groups).map(|g| of_nodes[slot[inputs + g] as usize].map(|b| Blame { candidate: kept[inputs + g][b.candidate], ..b })).collect(),
        inputs: (0..inputs).map(|i| space.inputs[i][pick(i)].clone()).collect(),
        groups: (0..groups).map(|g| space.groups[g][pick(inputs + g)].clone()).collect(),
        chosen: (0..groups).map(|g| pick(inputs + g) as u32).collect(),
        options: space.groups.clone(),
        prices,
        report,
        communication: seconds(communication),
    }
}

/// What a solve reports.
pub fn report(problem: &Problem, solution: &solver::Solution) -> SolveReport {
    let seconds = |p: i128| Seconds(p as f64 / PICO);
    let stats = &solution.stats;
    SolveReport {
        nodes: problem.nodes.len() as u32,
        edges: problem.edges.len() as u32,
        moments: stats.core_moments,
        objective: seconds(solution.objective),
        // No time is below nothing, which a solve that was cut early may not have got round to proving.
        bound: seconds(solution.bound.max(0)),
        gap: solution.gap.min(1.0),
        status: match solution.status {
            Status::Optimal => "optimal",
            Status::WithinGap | Status::Feasible => "feasible",
            Status::Cut => "cut",
        }
        .into(),
        method: format!(
            "{} folded, {} eliminated, {} fixed, {} left; {} branches{}",
            stats.folded,
            stats.eliminated,
            stats.fixed,
            stats.core_nodes,
            stats.branches,
            if stats.highs { ", HiGHS" } else { "" }
        ),
    }
}
