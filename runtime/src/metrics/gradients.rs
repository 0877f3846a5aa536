//! Where a program's gradients are, found from its instructions alone.
//!
//! A gradient is what the update of a state reads of the backward, as it is when the update first computes with it: accumulated over the microbatches and
//! reduced over the ranks. Beginning with what the backward leaves (and what arrives after it), collectives and copies of the update pass a gradient on;
//! the first instruction that computes with one reads it final, and what it writes in the gradient's shape leads on to the state that it is the gradient of.
//! A sum of two such values is a gradient itself, its parts are none. Where a kernel adds the parts up for itself and stores no sum, the parts together are the
//! gradient, if the kernel takes the same element of each. Otherwise that parameter is counted as not measured, and so is one whose gradient is reduced only
//! after it was scaled.

use ir::kernel::{Affine, Kernel, NodeId, NodeKind};
use ir::op::BinaryOp;
use ir::program::{BufferId, BufferKind, InstructionKind, KernelId, Phase, Program};
use ir::{AxisId, DType, PrimaryMap};
use std::collections::BTreeMap;

/// A gradient that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gradient {
    /// It is read before this instruction of [`Phase::After`].
    pub instruction: u32,
    /// Where it lies.
    pub buffer: BufferId,
    /// What is to be added to that, element by element: values of the same type.
    pub plus: Vec<BufferId>,
    /// The first result (by number) that it leads to.
    pub result: u32,
    /// The mesh axes along which ranks hold different parts of it; along the others they hold the same.
    pub cut: Vec<AxisId>,
}

impl Gradient {
    /// Whether a device at these coordinates is the one to count, of those that hold the same part.
    pub fn counts(&self, coordinates: &[u32]) -> bool {
        coordinates.iter().enumerate().all(|(axis, c)| *c == 0 || self.cut.contains(&AxisId(axis as u32)))
    }
}

/// What a buffer holds on the way through the update.
#[derive(Clone, Copy, PartialEq)]
enum Holds {
    /// A gradient that nothing has computed with.
    Gradient,
    /// What was computed from this one, in its shape.
    From(usize),
}

/// The gradients of a program, in the order in which they can be read.
pub fn gradients(program: &Program, kernels: &PrimaryMap<KernelId, Kernel>) -> Vec<Gradient> {
    let mut holds: BTreeMap<BufferId, Holds> =
        program.buffers.iter().filter(|(_, b)| b.kind == BufferKind::Gradient && readable(b.ty.dtype)).map(|(id, _)| (id, Holds::Gradient)).collect();
    let state: BTreeMap<BufferId, usize> =
        program.outputs.iter().enumerate().filter(|(_, o)| program.buffers[o.buffer].persistent).map(|(i, o)| (o.buffer, i)).collect();
    let elements = |b: BufferId| program.buffers[b].ty.elements();
    let mut found: Vec<Gradient> = Vec::new();
    // The state that each was found to lead to: none yet, or an output's place; and whether it turned out to be a part only.
    let mut leads: Vec<Option<usize>> = Vec::new();
    let mut partial: Vec<bool> = Vec::new();
    for (i, instruction) in (0u32..).zip(program.phase(Phase::After)) {
        match &instruction.kind {
            InstructionKind::Collective { kind, segments, axes, .. } => {
                let reduces = matches!(kind, ir::program::CollectiveKind::AllReduce | ir::program::CollectiveKind::ReduceScatter);
                for s in segments {
                    let Some(held) = holds.get(&s.input).copied() else { continue };
                    if s.input != s.output {
                        holds.remove(&s.input);
                    }
                    if let Holds::From(g) = held {
                        partial[g] |= reduces;
                        if let Some(&o) = state.get(&s.output) {
                            // The state is gathered from parts: so its gradient is cut along these axes too.
                            if leads[g].is_none() {
                                leads[g] = Some(o);
                                found[g].cut.extend(axes);
                            }
                            continue;
                        }
                    }
                    holds.insert(s.output, held);
                }
            }
            InstructionKind::Receive { .. } => {
                let received = instruction.writes.iter().filter(|b| !state.contains_key(b) && readable(program.buffers[**b].ty.dtype));
                holds.extend(received.map(|b| (*b, Holds::Gradient)));
            }
            InstructionKind::Send { .. } => {}
            InstructionKind::Copy { .. } => {
                let (Some(from), Some(&to)) = (instruction.reads.first().and_then(|b| holds.get(b)).copied(), instruction.writes.first()) else { continue };
                match (from, state.get(&to)) {
                    (Holds::From(g), Some(&o)) => leads[g] = leads[g].or(Some(o)),
                    (_, Some(_)) => {}
                    (held, None) => {
                        holds.insert(to, held);
                    }
                }
            }
            InstructionKind::Kernel { .. } | InstructionKind::MatMul(_) | InstructionKind::Library { .. } | InstructionKind::Fill { .. } => {
                let writes = |n: u64| instruction.writes.iter().any(|w| elements(*w) == n);
                let mut fresh: Vec<BufferId> = instruction.reads.iter().filter(|b| holds.get(b) == Some(&Holds::Gradient)).copied().collect();
                fresh.sort_unstable();
                fresh.dedup();
                let stored = |n: u64| instruction.writes.iter().any(|w| elements(*w) == n && !state.contains_key(w));
                let sums = if let InstructionKind::Kernel { kernel, .. } = &instruction.kind {
                    sums(&kernels[*kernel], &[instruction.reads.as_slice(), &instruction.writes].concat())
                } else {
                    vec![]
                };
                for (parts, alike) in sums {
                    let unlike = |b: &BufferId| elements(*b) != elements(parts[0]);
                    if parts.len() < 2 || parts.iter().any(|b| !fresh.contains(b)) || !parts.iter().any(unlike) && stored(elements(parts[0])) {
                        continue;
                    }
                    fresh.retain(|b| !parts.contains(b));
                    let alike = alike && parts.iter().all(|b| program.buffers[*b].ty == program.buffers[parts[0]].ty);
                    holds.retain(|b, _| !parts.contains(b));
                    if alike {
                        holds.extend(parts.iter().map(|b| (*b, Holds::From(found.len()))));
                        found.push(Gradient { instruction: i, buffer: parts[0], plus: parts[1..].to_vec(), result: 0, cut: Vec::new() });
                        leads.push(None);
                        partial.push(false);
                    }
                }
                let sum = fresh.iter().find(|&&b| writes(elements(b)) && fresh.iter().filter(|&&c| elements(c) == elements(b)).count() > 1).copied();
                if let Some(part) = sum {
                    // Several of one shape go into one value of that shape: none of them is a whole gradient, unless what they give is.
                    holds.retain(|b, _| !fresh.contains(b) || elements(*b) != elements(part));
                    let given = instruction.writes.iter().filter(|w| elements(**w) == elements(part) && !state.contains_key(w));
                    holds.extend(given.map(|w| (*w, Holds::Gradient)));
                    fresh.retain(|b| elements(*b) != elements(part));
                }
                for b in fresh {
                    holds.insert(b, Holds::From(found.len()));
                    found.push(Gradient { instruction: i, buffer: b, plus: Vec::new(), result: 0, cut: Vec::new() });
                    leads.push(None);
                    partial.push(false);
                }
                let from: Vec<usize> = instruction.reads.iter().filter_map(|b| if let Some(Holds::From(g)) = holds.get(b) { Some(*g) } else { None }).collect();
                for w in &instruction.writes {
                    let Some(&g) = from.iter().find(|&&g| elements(found[g].buffer) == elements(*w)) else { continue };
                    match state.get(w) {
                        Some(&o) if leads[g].is_none() => {
                            leads[g] = Some(o);
                            found[g].cut.extend(program.outputs[o].sharding.dims.iter().flatten());
                        }
                        Some(_) => {}
                        None if sum.is_some_and(|p| elements(p) == elements(*w)) => {}
                        None => {
                            holds.insert(*w, Holds::From(g));
                        }
                    }
                }
            }
        }
    }
    let whole = found.into_iter().zip(leads).zip(partial).filter_map(|((mut g, lead), partial)| {
        let o = lead.filter(|_| !partial)?;
        g.result = program.outputs[o].index;
        // A gathered state's own cut counts too.
        g.cut.extend(program.outputs[o].sharding.dims.iter().flatten());
        g.cut.sort_unstable();
        g.cut.dedup();
        Some(g)
    });
    whole.collect()
}

/// Buffers whose elements a kernel adds up, and whether it is the same element of each; `buffers` are its arguments.
fn sums(kernel: &Kernel, buffers: &[BufferId]) -> Vec<(Vec<BufferId>, bool)> {
    /// The loads that a node is the sum of, with their places where those are fixed; false where it is made of anything else.
    fn loads<'k>(kernel: &'k Kernel, node: NodeId, out: &mut Vec<(u32, Option<&'k Affine>)>) -> bool {
        match &kernel.nodes[node].kind {
            NodeKind::Load { param, index } => {
                out.push((*param, Some(index)));
                true
            }
            NodeKind::Gather { param, .. } => {
                out.push((*param, None));
                true
            }
            NodeKind::Convert(a) => loads(kernel, *a, out),
            NodeKind::Binary(BinaryOp::Add, a, b) => loads(kernel, *a, out) && loads(kernel, *b, out),
            _ => false,
        }
    }
    let mut all: Vec<(Vec<BufferId>, bool)> = Vec::new();
    // Users come after operands, so the whole of a sum comes first.
    for (id, node) in kernel.nodes.iter().rev() {
        let mut parts = Vec::new();
        if matches!(node.kind, NodeKind::Binary(BinaryOp::Add, ..)) && loads(kernel, id, &mut parts) {
            let alike = parts.iter().all(|p| p.1.is_some() && p.1 == parts[0].1);
            let mut of: Vec<BufferId> = parts.iter().filter_map(|p| buffers.get(p.0 as usize).copied()).collect();
            of.sort_unstable();
            if !all.iter().any(|a| of.iter().any(|b| a.0.contains(b))) {
                let once = of.windows(2).all(|w| w[0] != w[1]) && of.len() == parts.len();
                of.dedup();
                all.push((of, alike && once));
            }
        }
    }
    all
}

/// Whether values of a type can be squared and added up here.
fn readable(ty: DType) -> bool {
    matches!(ty, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
}

/// The sum of the squares of elements, in f64 and in their order: elements of the sum of so many values, which lie one after another.
pub(super) fn sum_of_squares(ty: DType, bytes: &[u8], parts: usize) -> f64 {
    fn sum<const N: usize>(bytes: &[u8], parts: usize, value: impl Fn([u8; N]) -> f64) -> f64 {
        // Eight sums side by side, for speed; which one an element is added to depends on its place alone.
        let mut sums = [0.0; 8];
        let all = bytes.as_chunks::<N>().0;
        let count = all.len() / parts;
        for (i, chunk) in all[..count].iter().enumerate() {
            let v = (1..parts).fold(value(*chunk), |v, p| v + value(all[p * count + i]));
            sums[i % 8] += v * v;
        }
        sums.iter().sum()
    }
    match ty {
        DType::F64 => sum(bytes, parts, f64::from_le_bytes),
        DType::F32 => sum(bytes, parts, |b| f64::from(f32::from_le_bytes(b))),
        DType::F16 => sum(bytes, parts, |b| f64::from(half::f16::from_le_bytes(b))),
        DType::BF16 => sum(bytes, parts, |b| f64::from(half::bf16::from_le_bytes(b))),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_added_in_every_float_type() {
        let values = [1.0f32, -2.0, 0.5, 4.0, 0.0, 1.5, -1.0, 2.0, 3.0];
        let expected: f64 = values.iter().map(|v| f64::from(*v).powi(2)).sum();
        let f32s: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let f64s: Vec<u8> = values.iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect();
        let f16s: Vec<u8> = values.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect();
        let bf16s: Vec<u8> = values.iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect();
        for (ty, bytes) in [(DType::F32, f32s), (DType::F64, f64s), (DType::F16, f16s), (DType::BF16, bf16s)] {
            assert_eq!(sum_of_squares(ty, &bytes, 1), expected, "{ty:?}");
            assert_eq!(sum_of_squares(ty, &bytes.repeat(3), 3), 9.0 * expected, "{ty:?}");
        }
        assert_eq!(sum_of_squares(DType::F32, &[], 1), 0.0);
        assert!(sum_of_squares(DType::F32, &f32::NAN.to_le_bytes(), 1).is_nan());
    }
}
