//! Attention, written out, becomes the one op, and its written out derivative the op that is its derivative.
//!
//! Whether the matrix of scores exists decides what a plan costs: as one op only queries, keys, values and results have bytes. [`pattern`] finds what is
//! taken, by what values are ([`algebra`]) rather than by how they are written. The forward op stands where the product with the values stood, the
//! derivative where its first product stood. What is not taken stays as it is, and a note says why.

mod algebra;
mod pattern;

use super::fold::sweep;
use super::rewrite::Rewriter;
use ir::attention::{Attention, AttentionDim, Scale};
use ir::graph::Graph;
use ir::op::{OpKind, UnaryOp};
use ir::{Diagnostic, OpId, TensorType, ValueId};
use pattern::{Found, Label, Labelled, Refusal, Sink};
use std::collections::BTreeMap;

/// The graph with attentions as one op each, and what to say of those that were left.
pub fn run(graph: &Graph) -> (Graph, Vec<Diagnostic>) {
    let users = graph.users();
    let mut taken: BTreeMap<OpId, (usize, Part)> = BTreeMap::new();
    let mut found = Vec::new();
    let mut refused: BTreeMap<&'static str, (u32, ValueId)> = BTreeMap::new();
    for (id, op) in graph.ops.iter().filter(|(_, op)| op.kind == OpKind::Unary(UnaryOp::Exponential)) {
        match pattern::find(graph, &users, id) {
            Ok(f) => {
                taken.insert(f.result.op, (found.len(), Part::Result));
                for (i, sink) in f.gradients.iter().enumerate() {
                    sink.iter().for_each(|s| {
                        taken.insert(s.op, (found.len(), Part::Gradient(i)));
                    });
                }
                found.push(f);
            }
            Err(Refusal::Because(why)) => refused.entry(why).or_insert((0, op.results[0])).0 += 1,
            Err(Refusal::Other) => {}
        }
    }
    let notes = refused.into_iter().map(|(why, (count, first))| note(graph, why, count, first)).collect();
    if found.is_empty() {
        return (graph.clone(), notes);
    }
    let mut rewriter = Rewriter::new(graph);
    let mut made: Vec<Option<Made>> = found.iter().map(|_| None).collect();
    for id in graph.ops.keys() {
        rewriter.at(id);
        let Some(&(n, part)) = taken.get(&id) else {
            rewriter.copy(id);
            continue;
        };
        let f = &found[n];
        let new = match part {
            Part::Result => {
                let forward = forward(&mut rewriter, f);
                let new = arranged(&mut rewriter, forward.o, &forward.o_labels, &f.result);
                made[n] = Some(forward);
                new
            }
            Part::Gradient(i) => {
                let forward = made[n].as_mut().expect("invariant: a result comes before its gradients");
                if forward.gradients.is_empty() {
                    backward(&mut rewriter, f, forward);
                }
                let (value, labels) = forward.gradients[i].clone();
                let sink = f.gradients[i].as_ref().expect("invariant: the op is one of the gradients");
                arranged(&mut rewriter, value, &labels, sink)
            }
        };
        rewriter.replace(graph.ops[id].results[0], new);
    }
    (sweep(&rewriter.finish()), notes)
}

/// What a product of the source stands for.
#[derive(Clone, Copy)]
enum Part {
    Result,
    Gradient(usize),
}

/// An attention in the new graph.
struct Made {
    attention: Attention,
    /// Queries, keys, values and the bias.
    operands: Vec<ValueId>,
    o: ValueId,
    lse: ValueId,
    o_labels: Vec<Label>,
    /// Gradients of queries, keys and values, in the shapes that those have in the source.
    gradients: Vec<(ValueId, Vec<Label>)>,
}

fn note(graph: &Graph, why: &str, count: u32, first: ValueId) -> Diagnostic {
    let times = if count == 1 { String::new() } else { format!(", as are {} others", count - 1) };
    Diagnostic::note("N0205", format!("the attention around `{}` is left as it is written{times}: {why}", graph.display_name(first)))
        .with_note("its matrix of scores is computed, stored and costed")
}

/// The labels with contracted dimensions as one.
fn merged_labels(labels: &[Label]) -> Vec<Label> {
    labels.iter().copied().filter(|l| !matches!(l, Label::Depth(i) if *i > 0)).collect()
}

/// A value of the source with contracted dimensions as one.
fn merged(rewriter: &mut Rewriter<'_>, x: &Labelled) -> ValueId {
    let new = rewriter.value(x.value);
    let ty = rewriter.ty(new).clone();
    let mut shape: Vec<u64> = Vec::new();
    for (l, &n) in x.labels.iter().zip(&ty.shape) {
        match (l, shape.last_mut()) {
            (Label::Depth(i), Some(last)) if *i > 0 => *last *= n,
            _ => shape.push(n),
        }
    }
    if shape == ty.shape { new } else { rewriter.emit(OpKind::Reshape, vec![new], TensorType::new(ty.dtype, shape)) }
}

/// The value with its dimensions in another order.
fn transposed(rewriter: &mut Rewriter<'_>, value: ValueId, from: &[Label], to: &[Label]) -> ValueId {
    if from == to {
        return value;
    }
    let perm: Vec<usize> = to.iter().map(|l| from.iter().position(|m| m == l).expect("invariant: both have the same labels")).collect();
    let ty = rewriter.ty(value).clone();
    let shape: Vec<u64> = perm.iter().map(|&p| ty.shape[p]).collect();
    rewriter.emit(OpKind::Transpose { perm }, vec![value], TensorType::new(ty.dtype, shape))
}

/// The value as the product that it stands for had it.
fn arranged(rewriter: &mut Rewriter<'_>, value: ValueId, labels: &[Label], sink: &Sink) -> ValueId {
    let new = transposed(rewriter, value, labels, &sink.labels);
    let wanted = rewriter.source().ty(rewriter.source().ops[sink.op].results[0]).clone();
    if *rewriter.ty(new) == wanted { new } else { rewriter.emit(OpKind::Convert, vec![new], wanted) }
}

fn forward(rewriter: &mut Rewriter<'_>, f: &Found) -> Made {
    let batch: Vec<Label> = f.q.labels.iter().copied().filter(|l| matches!(l, Label::Score(_)) && *l != f.query).collect();
    let dim = |l: &Label| match l {
        Label::Depth(_) => AttentionDim::Depth,
        Label::Value(_) => AttentionDim::Value,
        l if *l == f.key => AttentionDim::Key,
        l if *l == f.query => AttentionDim::Query,
        l => AttentionDim::Batch(batch.iter().position(|b| b == l).expect("invariant: queries have all batch dimensions") as u8),
    };
    let dims = |labels: &[Label]| merged_labels(labels).iter().map(dim).collect::<Vec<AttentionDim>>();
    // The result has the order of the queries, so that heads stay where they are.
    let value = f.v.labels.iter().copied().find(|l| matches!(l, Label::Value(_))).expect("invariant: values have a dimension of their own");
    let o_labels: Vec<Label> = merged_labels(&f.q.labels).into_iter().map(|l| if matches!(l, Label::Depth(_)) { value } else { l }).collect();
    let attention = Attention {
        q: dims(&f.q.labels),
        k: dims(&f.k.labels),
        v: dims(&f.v.labels),
        bias: f.bias.as_ref().map(|b| dims(&b.labels)),
        o: dims(&o_labels),
        scale: Scale(f.scale),
        causal: f.causal,
        offset: false,
    };
    let mut operands: Vec<ValueId> = [&f.q, &f.k, &f.v].into_iter().map(|x| merged(rewriter, x)).collect();
    operands.extend(f.bias.as_ref().map(|b| rewriter.value(b.value)));
    let types: Vec<&TensorType> = operands.iter().map(|&v| rewriter.ty(v)).collect();
    let results = attention.results(&types).expect("invariant: what was found is well formed");
    let loc = rewriter.loc();
    let id = rewriter.graph.add_op(OpKind::Attention(Box::new(attention.clone())), operands.clone(), results, loc, &[]);
    let (o, lse) = (rewriter.graph.ops[id].results[0], rewriter.graph.ops[id].results[1]);
    Made { attention, operands, o, lse, o_labels, gradients: vec![] }
}

/// Emits the derivative.
fn backward(rewriter: &mut Rewriter<'_>, f: &Found, made: &mut Made) {
    let gradient = f.gradient.as_ref().expect("invariant: there are gradients");
    let value = made.o_labels.iter().copied().find(|l| matches!(l, Label::Value(_)));
    let labels: Vec<Label> = gradient.labels.iter().map(|l| if matches!(l, Label::Value(_)) { value.unwrap_or(*l) } else { *l }).collect();
    let g = rewriter.value(gradient.value);
    let g = transposed(rewriter, g, &labels, &made.o_labels);
    let operands = [&made.operands[..3], &[made.o, made.lse, g], &made.operands[3..]].concat();
    let types: Vec<&TensorType> = operands.iter().map(|&v| rewriter.ty(v)).collect();
    let results = made.attention.gradient_results(&types, false).expect("invariant: what was found is well formed");
    let loc = rewriter.loc();
    let kind = OpKind::AttentionGrad { attention: Box::new(made.attention.clone()), bias: false };
    let id = rewriter.graph.add_op(kind, operands, results, loc, &[]);
    let results = rewriter.graph.ops[id].results.clone();
    for (x, v) in [&f.q, &f.k, &f.v].into_iter().zip(results) {
        let shape = rewriter.source().ty(x.value).shape.clone();
        let ty = TensorType::new(rewriter.ty(v).dtype, shape);
        let v = if *rewriter.ty(v) == ty { v } else { rewriter.emit(OpKind::Reshape, vec![v], ty) };
        made.gradients.push((v, x.labels.clone()));
    }
}

#[cfg(test)]
mod tests;
