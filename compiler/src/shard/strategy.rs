//! Strategies: what a group does on every axis of the mesh, the shardings this means, and its compute time.

use super::groups::{AxisChoice, Choice, Group, Groups, Status};
use super::reshard::is_valid;
use crate::rules::Dims;
use crate::step::StepGraph;
use cost_model::{AttentionKernel, AttentionWork, CostModel, KernelWork, LibraryOp, LibraryWork, MatMulShape};
use ir::diagnostic::Diagnostic;
use ir::op::OpKind;
use ir::{Attention, AttentionDim, Bytes, DType, Flops, Mesh, SecondaryMap, Seconds, Sharding, ValueId};

/// One way to shard a group.
#[derive(Clone, Debug)]
pub struct Strategy {
    /// What each axis does.
    pub axes: Vec<Choice>,
    /// Sharding required of each read.
    pub reads: Vec<Sharding>,
    /// Sharding of each write.
    pub writes: Vec<Sharding>,
    /// Time of its ops on one device, once.
    pub compute: Seconds,
}

impl Strategy {
    /// In words: `%51 rows on "x"`; factors are named by their extents.
    pub fn describe(&self, group: &Group, mesh: &Mesh) -> String {
        let parts: Vec<String> = self
            .axes
            .iter()
            .zip(&mesh.axes)
            .map(|(c, axis)| match c {
                Choice::Whole => format!("whole on \"{}\"", axis.name),
                Choice::Cut(f) => {
                    let factor = &group.factors[*f as usize];
                    format!("{}{} on \"{}\"", if factor.reduction.is_some() { "summed " } else { "" }, factor.size, axis.name)
                }
                Choice::Partial(..) => format!("partial on \"{}\"", axis.name),
            })
            .collect();
        parts.join(", ")
    }
}

/// The sharding of a value with `dims` when each axis has a choice and a status.
fn sharding(dims: &Dims, axes: &[(Choice, Status)]) -> Sharding {
    let mut s = Sharding::replicated(dims.len());
    for (a, (choice, status)) in (0..).map(ir::AxisId).zip(axes) {
        match (choice, status) {
            (Choice::Cut(f), Status::Cut) => (0..dims.len()).filter(|&d| dims[d] == Some(*f)).for_each(|d| s.dims[d].push(a)),
            (_, Status::Partial(r)) => s.partial.push((a, *r)),
            _ => {}
        }
    }
    s
}

/// Everything strategies need to know of the step.
pub struct Context<'a> {
    /// The step.
    pub step: &'a StepGraph,
    /// Its groups.
    pub groups: &'a Groups,
    /// The mesh.
    pub mesh: &'a Mesh,
    /// Prices.
    pub model: &'a dyn CostModel,
    /// Values that lie in memory; the others stay inside kernels.
    pub stored: &'a SecondaryMap<ValueId, bool>,
}

/// Strategies of one group at most: an edge has a table of pairs, so this many are 128 MiB between two groups.
const MOST: u64 = 4096;

/// Refuses a mesh under which some group has too many strategies: they multiply with every axis. Two axes are never too many in practice.
///
/// # Errors
/// `E0505`.
pub fn check_count(cx: &Context<'_>) -> Result<(), Diagnostic> {
    let axes: Vec<u32> = cx.mesh.axes.iter().map(|a| a.size).filter(|&n| n > 1).collect();
    if axes.len() < 3 {
        return Ok(());
    }
    let graph = &cx.step.graph;
    let count = |g: &Group| axes.iter().fold(1u64, |n, &size| n.saturating_mul(g.choices(graph, &cx.groups.rules, size).len() as u64));
    let Some((most, group)) = cx.groups.groups.iter().map(|g| (count(g), g)).max_by_key(|c| c.0).filter(|c| c.0 > MOST) else { return Ok(()) };
    let name = group.writes.first().map_or_else(String::new, |w| format!(" (the group of {})", graph.display_name(w.value)));
    let sizes: Vec<String> = axes.iter().map(ToString::to_string).collect();
    Err(Diagnostic::input(
        "E0505",
        format!("a mesh of {} axes gives one group{name} {most} ways to be sharded, of {MOST} that are compared at most", axes.len()),
    )
    .with_help(format!("take a `--mesh` of fewer axes in the place of {}, such as two of their products", sizes.join("x"))))
}

/// All strategies of a group, the one that does everything whole first.
pub fn strategies(cx: &Context<'_>, group: &Group) -> Vec<Strategy> {
    strategies_among(cx, group, &|_, _, _| true)
}

/// The strategies made of the choices that `keep` names of all that there are on an axis.
pub fn strategies_among(cx: &Context<'_>, group: &Group, keep: &dyn Fn(usize, &[AxisChoice], &AxisChoice) -> bool) -> Vec<Strategy> {
    let graph = &cx.step.graph;
    let per_axis: Vec<Vec<AxisChoice>> = cx.mesh.axes.iter().map(|a| group.choices(graph, &cx.groups.rules, a.size)).collect();
    let mut combinations: Vec<Vec<&AxisChoice>> = vec![vec![]];
    for (axis, choices) in per_axis.iter().enumerate() {
        let kept: Vec<&AxisChoice> = choices.iter().filter(|c| keep(axis, choices, c)).collect();
        combinations = combinations.iter().flat_map(|c| kept.iter().map(|&x| [c.as_slice(), &[x]].concat())).collect();
    }
    combinations.iter().filter_map(|c| combine(cx, group, c)).collect()
}

/// The strategy that does one choice per axis; `None` when reducers differ, or a value could not be held so.
pub fn combine(cx: &Context<'_>, group: &Group, choices: &[&AxisChoice]) -> Option<Strategy> {
    let graph = &cx.step.graph;
    let reducers: Vec<_> =
        choices.iter().flat_map(|c| c.reads.iter().chain(&c.writes)).filter_map(|s| if let Status::Partial(r) = s { Some(r) } else { None }).collect();
    if reducers.windows(2).any(|w| w[0] != w[1]) {
        return None;
    }
    let of =
        |i: usize, write: bool| -> Vec<(Choice, Status)> { choices.iter().map(|c| (c.choice.clone(), if write { c.writes[i] } else { c.reads[i] })).collect() };
    let reads: Vec<Sharding> = group.reads.iter().enumerate().map(|(i, r)| sharding(&r.dims, &of(i, false))).collect();
    let writes: Vec<Sharding> = group.writes.iter().enumerate().map(|(i, w)| sharding(&w.dims, &of(i, true))).collect();
    let valid = group.reads.iter().zip(&reads).chain(group.writes.iter().zip(&writes)).all(|(a, s)| is_valid(s, &graph.ty(a.value).shape, cx.mesh));
    valid.then(|| {
        let axes: Vec<Choice> = choices.iter().map(|c| c.choice.clone()).collect();
        let compute = compute(cx, group, &axes, &reads, &writes);
        Strategy { axes, reads, writes, compute }
    })
}

/// Extent of a dimension on one device.
fn local(n: u64, factor: Option<u32>, axes: &[Choice], mesh: &Mesh) -> u64 {
    let k: u64 =
        axes.iter().zip(&mesh.axes).filter(|(c, _)| factor.is_some() && **c == Choice::Cut(factor.unwrap_or(0))).map(|(_, a)| u64::from(a.size)).product();
    n.div_ceil(k)
}

/// Arithmetic of one element of an op, in units of an addition.
fn weight(kind: &OpKind) -> f64 {
    use ir::op::{BinaryOp, UnaryOp};
    match kind {
        OpKind::Unary(UnaryOp::Negate | UnaryOp::Abs | UnaryOp::Square | UnaryOp::Not) => 1.0,
        OpKind::Unary(UnaryOp::Sqrt | UnaryOp::Rsqrt) => 4.0,
        OpKind::Unary(_) | OpKind::Binary(BinaryOp::Power) => 16.0,
        OpKind::Binary(BinaryOp::Divide) => 4.0,
        _ => 1.0,
    }
}

/// What an attention is priced by, from the shapes of its queries, keys and values.
pub(crate) fn attention_work(a: &Attention, [q, k, v]: &[Vec<u64>; 3], backward: bool, dtype: DType, traffic: Bytes) -> AttentionWork {
    let of = |dims: &[AttentionDim], shape: &[u64], dim: AttentionDim| dims.iter().zip(shape).find(|(d, _)| **d == dim).map_or(1, |(_, n)| *n);
    AttentionWork {
        batch: a.q.iter().zip(q).filter(|(d, _)| d.is_batch()).map(|(_, n)| *n).product(),
        queries: of(&a.q, q, AttentionDim::Query),
        keys: of(&a.k, k, AttentionDim::Key),
        depth: of(&a.q, q, AttentionDim::Depth),
        value: of(&a.v, v, AttentionDim::Value),
        causal: a.causal,
        backward,
        dtype,
        traffic,
        kernel: AttentionKernel::Best,
    }
}

/// Breaks a tie.
const EARLY_REDUCTION: Seconds = Seconds(1e-9);

/// What one device does for a group: what a cost model is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// A matrix product.
    Product(MatMulShape),
    /// An attention or its derivative.
    Attention(AttentionWork),
    /// A library op.
    Library(LibraryWork),
    /// A kernel of elementwise ops and reductions.
    Kernel(KernelWork),
}

impl Work {
    /// Its time.
    pub fn time(&self, model: &dyn CostModel) -> Seconds {
        match self {
            Work::Product(shape) => model.matmul(shape),
            Work::Attention(work) => model.attention(work),
            Work::Library(work) => model.library(work),
            Work::Kernel(work) => model.kernel(work),
        }
    }
}

/// A group's own ops on one device.
pub fn works(cx: &Context<'_>, group: &Group, axes: &[Choice], reads: &[Sharding], writes: &[Sharding]) -> Vec<Work> {
    let graph = &cx.step.graph;
    let bytes = |v: ValueId, s: &Sharding| {
        let ty = graph.ty(v);
        Bytes(s.local_shape(&ty.shape, cx.mesh).iter().product::<u64>() * ty.dtype.bytes())
    };
    let read: Bytes = group.reads.iter().zip(reads).filter(|(r, _)| cx.stored[r.value]).map(|(r, s)| bytes(r.value, s)).sum();
    let written: Bytes = group.writes.iter().zip(writes).filter(|(w, _)| cx.stored[w.value]).map(|(w, s)| bytes(w.value, s)).sum();
    let mut flops = Flops(0.0);
    let mut all = Vec::new();
    // Members that are not the group's own are views, which belong to no group.
    for member in group.members.iter().filter(|m| cx.groups.of[m.op].is_some()) {
        let op = &graph.ops[member.op];
        let extents =
            |i: usize| -> Vec<u64> { graph.ty(op.operands[i]).shape.iter().zip(&member.operand_dims[i]).map(|(&n, &f)| local(n, f, axes, cx.mesh)).collect() };
        match &op.kind {
            OpKind::Dot(d) => {
                let (l, r) = (extents(0), extents(1));
                all.push(Work::Product(MatMulShape::of_dot(d, &l, &r, graph.ty(op.operands[0]).dtype)));
            }
            OpKind::Convolution(d) => {
                let (l, r) = (extents(0), extents(1));
                let out: u64 = d.output_spatial.iter().map(|&s| graph.ty(op.results[0]).shape[s]).product();
                let shape = MatMulShape {
                    batch: 1,
                    m: l[d.input_batch] * out,
                    n: r[d.kernel_output],
                    k: r.iter().product::<u64>() / r[d.kernel_output].max(1),
                    dtype: graph.ty(op.operands[0]).dtype,
                };
                let work = KernelWork { read, written, flops: shape.flops(), dtype: shape.dtype };
                all.push(Work::Library(LibraryWork { op: LibraryOp::Convolution(shape), work }));
            }
            OpKind::Attention(a) | OpKind::AttentionGrad { attention: a, .. } => {
                let shapes = [extents(0), extents(1), extents(2)];
                let backward = matches!(op.kind, OpKind::AttentionGrad { .. });
                all.push(Work::Attention(attention_work(a, &shapes, backward, graph.ty(op.operands[0]).dtype, read + written)));
            }
            kind => {
                let space: u64 = match kind {
                    OpKind::Reduce { .. } => extents(0).iter().product(),
                    _ => graph.ty(op.results[0]).shape.iter().zip(&member.result_dims[0]).map(|(&n, &f)| local(n, f, axes, cx.mesh)).product(),
                };
                flops += Flops(space as f64 * weight(kind));
                let library = match kind {
                    OpKind::Gather(_) | OpKind::DynamicSlice { .. } => Some(LibraryOp::Gather),
                    OpKind::Scatter { .. } => Some(LibraryOp::Scatter),
                    k if k.is_elementwise() || matches!(k, OpKind::Reduce { .. } | OpKind::AllReduce { .. }) => None,
                    _ => Some(LibraryOp::Other),
                };
                if let Some(op) = library {
                    all.push(Work::Library(LibraryWork { op, work: KernelWork { read, written, flops, dtype: DType::F32 } }));
                    return all;
                }
            }
        }
    }
    if flops.0 > 0.0 && (read.0 > 0 || written.0 > 0) {
        all.push(Work::Kernel(KernelWork { read, written, flops, dtype: DType::F32 }));
    }
    all
}

/// Time of a group's own ops on one device.
fn compute(cx: &Context<'_>, group: &Group, axes: &[Choice], reads: &[Sharding], writes: &[Sharding]) -> Seconds {
    let mut total: Seconds = works(cx, group, axes, reads, writes).iter().map(|w| w.time(cx.model)).sum();
    // With one microbatch a partial may as well be completed before it is accumulated as after; after is when gradients are reduced together.
    let accumulates = group.ops.iter().any(|&o| matches!(cx.step.graph.ops[o].kind, OpKind::AllReduce { .. }));
    if accumulates && !axes.iter().any(|c| matches!(c, Choice::Partial(..))) {
        total += EARLY_REDUCTION;
    }
    total
}
