//! Ops that combine by a region: reductions, windows, scatter and sort with any closed scalar region.
//!
//! A region of scalars is *lifted*: evaluated once on vectors, each scalar a vector of as many entries, which is the same since its ops are elementwise.
//! A reduction folds neighbours pairwise, as associativity allows, so it takes as many evaluations as the logarithm of its size.

use super::indexing::{scatter_places, take};
use super::reduction::{fold_at, padded, reduce, reduce_window, under_window, window_positions};
use super::sorting::{KeyComparison, sort};
use super::tensor::{Buffer, Tensor, settle};
use super::{Machine, failure, movement};
use crate::diagnostic::Diagnostic;
use crate::dtype::{DType, TensorType};
use crate::graph::{Graph, Op};
use crate::op::{OpKind, Reducer, ScatterDims, Window};

/// The reducer that a region is, when it is one binary op of its two arguments.
pub(super) fn known_reducer(region: &Graph) -> Option<Reducer> {
    let ([a, b], [output]) = (region.inputs.as_slice(), region.outputs.as_slice()) else { return None };
    if output == b {
        return Some(Reducer::Replace);
    }
    let op = &region.ops[region.def_op(*output)?];
    match op.kind {
        OpKind::Binary(binary) if op.operands == [*a, *b] || op.operands == [*b, *a] => Reducer::from_binary(binary),
        _ => None,
    }
}

fn scalar_vector(t: DType, n: u64) -> TensorType {
    TensorType::new(t, [n])
}

impl Machine<'_> {
    /// Evaluates a region of scalars on vectors of `n` entries.
    fn lifted(&self, region: &Graph, arguments: &[Tensor], n: u64) -> Result<Vec<Tensor>, Diagnostic> {
        let mut slots: Vec<Option<Tensor>> = vec![None; region.values.len()];
        for (&v, x) in region.inputs.iter().zip(arguments) {
            slots[v.0 as usize] = Some(x.clone());
        }
        for op in region.ops.values() {
            let refused = |why: &str| failure(region, op, why.to_string());
            let read = |v: &crate::op::ValueId| slots[v.0 as usize].clone().ok_or_else(|| refused("an operand was read before it was computed"));
            let mut operands = op.operands.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            if op.results.iter().any(|&v| region.ty(v).rank() != 0) {
                return Err(refused("a reducer's region must be of scalars"));
            }
            let ty = |i: usize| scalar_vector(region.ty(op.results[i]).dtype, n);
            let results = match &op.kind {
                OpKind::Constant(literal) => vec![Tensor::new(ty(0), Tensor::from_literal(literal).in_precision(self.precision).buffer)],
                OpKind::Barrier => operands,
                kind if movement::is_movement(kind) => vec![operands.swap_remove(0)],
                OpKind::Call { callee } => {
                    let callee = self.module.function(callee).ok_or_else(|| refused("the callee is not a function of the module"))?;
                    self.lifted(callee, &operands, n)?
                }
                kind if kind.is_elementwise() => vec![self.elementwise(kind, operands, ty(0)).ok_or_else(|| refused("it is not defined on these types"))?],
                _ => return Err(refused("a reducer's region may hold elementwise ops only")),
            };
            for (&v, x) in op.results.iter().zip(results) {
                slots[v.0 as usize] = Some(x);
            }
        }
        region.outputs.iter().map(|v| slots[v.0 as usize].clone().ok_or_else(|| Diagnostic::outcome("E0703", "a region's output was never computed"))).collect()
    }

    fn region<'g>(&self, graph: &Graph, op: &'g Op, index: usize) -> Result<&'g Graph, Diagnostic> {
        op.regions.get(index).ok_or_else(|| failure(graph, op, "its region is missing".into()))
    }

    /// `reduce` of one or several operands.
    pub(super) fn reduce(
        &self,
        graph: &Graph,
        op: &Op,
        mut operands: Vec<Tensor>,
        dims: &[usize],
        reducer: Reducer,
        types: Vec<TensorType>,
    ) -> Result<Vec<Tensor>, Diagnostic> {
        let inits = operands.split_off(operands.len() / 2);
        if reducer != Reducer::General {
            let one = |((x, init), ty): ((Tensor, &Tensor), TensorType)| {
                let t = x.ty.dtype;
                reduce(x, init, dims, reducer, ty).ok_or_else(|| failure(graph, op, format!("{reducer:?} is not defined on {t}")))
            };
            return operands.into_iter().zip(&inits).zip(types).map(one).collect();
        }
        let region = self.region(graph, op, 0)?;
        let shape = operands[0].ty.shape.clone();
        // Bring the reduced dimensions first: rows of kept elements, folded pairwise.
        let perm: Vec<usize> = dims.iter().copied().chain((0..shape.len()).filter(|d| !dims.contains(d))).collect();
        let turned: Vec<u64> = perm.iter().map(|&d| shape[d]).collect();
        let kept: u64 = types[0].elements();
        let mut rows: u64 = dims.iter().map(|&d| shape[d]).product();
        let flatten = |x: &Tensor| {
            let y = movement::transpose(x, x.ty.with_shape(&turned), &perm).dense();
            movement::reshape(y, x.ty.with_shape(&[rows * kept]))
        };
        let mut values: Vec<Tensor> = operands.iter().map(flatten).collect();
        let part = |x: &Tensor, first: u64, count: u64, step: u64| {
            let grid = Tensor::new(x.ty.with_shape(&[x.ty.shape[0] / kept, kept]), x.buffer.clone());
            let y = movement::slice(&grid, x.ty.with_shape(&[count, kept]), &[first, 0], &[step, 1]);
            movement::reshape(y, x.ty.with_shape(&[count * kept]))
        };
        while rows > 1 && kept > 0 {
            let pairs = rows / 2;
            let even = values.iter().map(|x| part(x, 0, pairs, 2));
            let odd = values.iter().map(|x| part(x, 1, pairs, 2));
            let arguments: Vec<Tensor> = even.chain(odd).collect();
            let folded = self.lifted(region, &arguments, pairs * kept)?;
            let append = |(f, x): (Tensor, &Tensor)| {
                if rows % 2 == 0 {
                    return f;
                }
                let last = part(x, rows - 1, 1, 1);
                movement::concatenate(&[f.dense(), last], x.ty.with_shape(&[(pairs + 1) * kept]), 0)
            };
            values = folded.into_iter().zip(&values).map(append).collect();
            rows -= pairs;
        }
        let start = |(init, ty): (&Tensor, &TensorType)| Tensor::new(scalar_vector(ty.dtype, kept), init.buffer.clone());
        let mut arguments: Vec<Tensor> = inits.iter().zip(&types).map(start).collect();
        if rows > 0 && kept > 0 {
            arguments.extend(values);
            arguments = self.lifted(region, &arguments, kept)?;
        }
        Ok(arguments.into_iter().zip(types).map(|(x, ty)| movement::reshape(x, ty)).collect())
    }

    /// `reduce_window` of one or several operands.
    pub(super) fn reduce_window(
        &self,
        graph: &Graph,
        op: &Op,
        mut operands: Vec<Tensor>,
        window: &Window,
        reducer: Reducer,
        types: Vec<TensorType>,
    ) -> Result<Vec<Tensor>, Diagnostic> {
        let inits = operands.split_off(operands.len() / 2);
        if reducer != Reducer::General {
            let one = |((x, init), ty): ((&Tensor, &Tensor), TensorType)| {
                reduce_window(x, init, window, reducer, ty).ok_or_else(|| failure(graph, op, format!("{reducer:?} is not defined on {}", x.ty.dtype)))
            };
            return operands.iter().zip(&inits).zip(types).map(one).collect();
        }
        let region = self.region(graph, op, 0)?;
        let padded: Vec<Tensor> = operands.iter().zip(&inits).map(|(x, init)| padded(x, init, window)).collect();
        let n = types[0].elements();
        let mut values: Vec<Tensor> = inits.iter().zip(&types).map(|(i, ty)| Tensor::new(scalar_vector(ty.dtype, n), i.buffer.clone())).collect();
        for position in window_positions(window) {
            let under = padded.iter().map(|p| {
                let x = under_window(p, window, &position, &types[0].shape);
                movement::reshape(x, scalar_vector(p.ty.dtype, n))
            });
            let arguments: Vec<Tensor> = values.iter().cloned().chain(under).collect();
            values = self.lifted(region, &arguments, n)?;
        }
        Ok(values.into_iter().zip(types).map(|(x, ty)| movement::reshape(x, ty)).collect())
    }

    /// For every window the element that the first region selects; there the source is combined by the second.
    pub(super) fn select_and_scatter(&self, graph: &Graph, op: &Op, operands: &[Tensor], window: &Window, ty: TensorType) -> Result<Tensor, Diagnostic> {
        let [x, source, init] = operands else { return Err(failure(graph, op, "it has not three operands".into())) };
        let (select, scatter) = (self.region(graph, op, 0)?, self.region(graph, op, 1)?);
        let n = source.ty.elements();
        // Windows over the operand, over its linear indices, and over whether there is an operand at all.
        let index_ty = TensorType::new(DType::I64, x.ty.shape.clone());
        let numbers: Vec<i64> = (0..index_ty.elements() as i64).collect();
        let indices = Tensor::from_i64s(index_ty, &numbers).ok_or_else(|| failure(graph, op, "it is too large".into()))?;
        let outside = Tensor::splat(TensorType::scalar(DType::I64), -1.0);
        let (padded_x, padded_i) = (padded(x, init, window), padded(&indices, &outside, window));
        let mut chosen: Vec<i64> = vec![-1; n as usize];
        let mut best = Tensor::new(scalar_vector(x.ty.dtype, n), init.buffer.clone()).dense();
        for position in window_positions(window) {
            let value = movement::reshape(under_window(&padded_x, window, &position, &source.ty.shape), scalar_vector(x.ty.dtype, n));
            let index = under_window(&padded_i, window, &position, &source.ty.shape).to_i64s();
            let keep = self.lifted(select, &[best.clone(), value.clone()], n)?;
            let keep = keep.into_iter().next().map(Tensor::dense);
            let Some(Buffer::Bool(keep)) = keep.map(|k| k.buffer) else { return Err(failure(graph, op, "its selection is not i1".into())) };
            let take_new: Vec<bool> = keep.iter().zip(&index).zip(&chosen).map(|((&keep, &i), &c)| i >= 0 && (c < 0 || !keep)).collect();
            for ((c, &i), &new) in chosen.iter_mut().zip(&index).zip(&take_new) {
                if new {
                    *c = i;
                }
            }
            let buffer = super::elementwise::select(&take_new, value.buffer, best.buffer);
            best = Tensor::new(scalar_vector(x.ty.dtype, n), buffer).dense();
        }
        let (from, to): (Vec<usize>, Vec<usize>) = chosen.iter().enumerate().filter(|(_, c)| **c >= 0).map(|(i, &c)| (i, c as usize)).unzip();
        let into = vec![Tensor::new(ty, init.buffer.clone()).dense()];
        let mut results = self.combine_at(graph, op, scatter, known_reducer(scatter), into, &to, &[take(source, &from)])?;
        results.pop().ok_or_else(|| failure(graph, op, "it has no result".into()))
    }

    /// Combines updates into tensors at given places, in order, by a known reducer or by the region.
    #[allow(clippy::too_many_arguments, reason = "the op and how it combines are one thing each")]
    fn combine_at(
        &self,
        graph: &Graph,
        op: &Op,
        region: &Graph,
        reducer: Option<Reducer>,
        mut into: Vec<Tensor>,
        at: &[usize],
        updates: &[Tensor],
    ) -> Result<Vec<Tensor>, Diagnostic> {
        if let Some(reducer) = reducer.filter(|r| *r != Reducer::General) {
            for (x, u) in into.iter_mut().zip(updates) {
                let t = x.ty.dtype;
                fold_at(reducer, t, &mut x.buffer, at, &u.buffer).ok_or_else(|| failure(graph, op, format!("{reducer:?} is not defined on {t}")))?;
                x.buffer = settle(t, x.buffer.clone());
            }
            return Ok(into);
        }
        // Rounds of updates whose places differ: each round is one lifted evaluation.
        let mut rest: Vec<usize> = (0..at.len()).collect();
        let mut used = vec![false; into.first().map_or(0, Tensor::elements)];
        while !rest.is_empty() {
            let mut later = Vec::new();
            let mut now = Vec::new();
            for &i in &rest {
                if used[at[i]] {
                    later.push(i);
                } else {
                    used[at[i]] = true;
                    now.push(i);
                }
            }
            let places: Vec<usize> = now.iter().map(|&i| at[i]).collect();
            let arguments: Vec<Tensor> = into.iter().map(|x| take(x, &places)).chain(updates.iter().map(|u| take(u, &now))).collect();
            let combined = self.lifted(region, &arguments, now.len() as u64)?;
            for (x, c) in into.iter_mut().zip(combined) {
                fold_at(Reducer::Replace, x.ty.dtype, &mut x.buffer, &places, &c.buffer)
                    .ok_or_else(|| failure(graph, op, "its region changes the type".into()))?;
            }
            for p in places {
                used[p] = false;
            }
            rest = later;
        }
        Ok(into)
    }

    /// `scatter` of one or several operands.
    pub(super) fn scatter(&self, graph: &Graph, op: &Op, mut operands: Vec<Tensor>, dims: &ScatterDims, reducer: Reducer) -> Result<Vec<Tensor>, Diagnostic> {
        let count = operands.len() / 2;
        let updates = operands.split_off(count + 1);
        let indices = operands.pop().ok_or_else(|| failure(graph, op, "it has no indices".into()))?;
        let (from, to) = scatter_places(&operands[0].ty, &indices, &updates[0].ty, dims);
        let taken: Vec<Tensor> = updates.iter().map(|u| take(u, &from)).collect();
        let into: Vec<Tensor> = operands.into_iter().map(Tensor::dense).collect();
        if reducer == Reducer::General {
            let region = self.region(graph, op, 0)?;
            return self.combine_at(graph, op, region, known_reducer(region), into, &to, &taken);
        }
        self.combine_at(graph, op, graph, Some(reducer), into, &to, &taken)
    }

    /// `sort` by the region's comparison.
    pub(super) fn sort(&self, graph: &Graph, op: &Op, operands: &[Tensor], dim: usize) -> Result<Vec<Tensor>, Diagnostic> {
        let region = self.region(graph, op, 0)?;
        let key = KeyComparison::of(region);
        sort(operands, dim, key.as_ref(), |rows, i, j| {
            let pair = rows.iter().flat_map(|x| [take(x, &[i]), take(x, &[j])]);
            let arguments: Vec<Tensor> = pair.collect();
            let answer = self.lifted(region, &arguments, 1)?;
            Ok(answer.first().and_then(Tensor::first_int) == Some(1))
        })
    }
}
