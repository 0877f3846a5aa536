//! Rewrites every op on refined dimensions.
//!
//! An op whose dimensions are refined as it needs them is emitted with its dimension lists expanded. Where an op needs a dimension whole, or makes one in
//! another shape than its class has, a reshape is put before or after it; so the result is right whatever refinement was found.

use super::classes::Classes;
use super::links::trivial_window;
use crate::canonical::rewrite::Rewriter;
use ir::graph::{Graph, Op};
use ir::literal::Literal;
use ir::op::{BinaryOp, DotDims, GatherDims, OpKind, Reducer, ScatterDims, Window};
use ir::{Attention, AttentionDim, DType, OpId, TensorType, ValueId};
use std::collections::BTreeMap;
use std::ops::Range;

/// The refined graph.
pub(super) fn run(graph: &Graph, classes: &mut Classes) -> Graph {
    let types: Vec<TensorType> = graph.inputs.iter().map(|&v| refined_type(graph, classes, v)).collect();
    let mut rebuild = Rebuild { rewriter: Rewriter::with_input_types(graph, &types), classes, graph };
    for (id, op) in graph.ops.iter() {
        rebuild.rewriter.at(id);
        rebuild.op(id, op);
    }
    rebuild.rewriter.finish()
}

fn refined_type(graph: &Graph, classes: &mut Classes, v: ValueId) -> TensorType {
    let ty = graph.ty(v);
    TensorType::new(ty.dtype, (0..ty.rank()).flat_map(|d| classes.atoms(v, d)).collect::<Vec<u64>>())
}

/// The atoms of each dimension of a value.
type Layout = Vec<Vec<u64>>;

struct Rebuild<'a, 'c> {
    rewriter: Rewriter<'a>,
    classes: &'c mut Classes,
    graph: &'a Graph,
}

/// Where the atoms of each dimension are.
fn spans(layout: &[Vec<u64>]) -> Vec<Range<usize>> {
    let mut at = 0;
    layout
        .iter()
        .map(|atoms| {
            at += atoms.len();
            at - atoms.len()..at
        })
        .collect()
}

/// The positions of the atoms of some dimensions.
fn expand(spans: &[Range<usize>], dims: &[usize]) -> Vec<usize> {
    dims.iter().flat_map(|&d| spans[d].clone()).collect()
}

impl Rebuild<'_, '_> {
    fn layout(&mut self, v: ValueId) -> Layout {
        (0..self.graph.ty(v).rank()).map(|d| self.classes.atoms(v, d)).collect()
    }

    fn spans(&mut self, v: ValueId) -> Vec<Range<usize>> {
        spans(&self.layout(v))
    }

    fn refined(&mut self, v: ValueId) -> TensorType {
        refined_type(self.graph, self.classes, v)
    }

    /// A new value in another shape of the same elements.
    fn viewed(&mut self, new: ValueId, layout: &[Vec<u64>]) -> ValueId {
        let ty = TensorType::new(self.rewriter.ty(new).dtype, layout.concat());
        if *self.rewriter.ty(new) == ty { new } else { self.rewriter.emit(OpKind::Reshape, vec![new], ty) }
    }

    /// Emits `op` with one result in the atoms `made`, and reshapes it to the atoms of its class.
    fn result(&mut self, id: OpId, kind: OpKind, operands: Vec<ValueId>, made: &[Vec<u64>]) {
        let v = self.graph.ops[id].results[0];
        let refined = self.refined(v);
        let made = TensorType::new(refined.dtype, made.concat());
        if made == refined {
            self.rewriter.copy_typed(id, kind, operands, vec![refined]);
            return;
        }
        let regions = self.graph.ops[id].regions.clone();
        let raw = self.rewriter.emit(kind, operands, made);
        if let Some(op) = self.rewriter.graph.def_op(raw) {
            self.rewriter.graph.ops[op].regions = regions;
        }
        let new = self.rewriter.emit(OpKind::Reshape, vec![raw], refined);
        self.rewriter.replace(v, new);
    }

    /// Emits `op` with its results refined and nothing else changed.
    fn same(&mut self, id: OpId, op: &Op) {
        let types = op.results.iter().map(|&v| self.refined(v)).collect();
        let operands = self.rewriter.operands(op);
        self.rewriter.copy_typed(id, op.kind.clone(), operands, types);
    }

    /// Emits `op` with another kind and its results refined.
    fn as_kind(&mut self, id: OpId, op: &Op, kind: OpKind) {
        let types = op.results.iter().map(|&v| self.refined(v)).collect();
        let operands = self.rewriter.operands(op);
        self.rewriter.copy_typed(id, kind, operands, types);
    }

    fn op(&mut self, id: OpId, op: &Op) {
        match &op.kind {
            OpKind::Constant(literal) => {
                let ty = self.refined(op.results[0]);
                let literal = Literal { ty, data: literal.data.clone() };
                self.as_kind(id, op, OpKind::Constant(literal));
            }
            OpKind::Iota { dim } => self.iota(id, op, *dim),
            OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Compare { .. }
            | OpKind::Select
            | OpKind::Clamp
            | OpKind::Convert
            | OpKind::BitcastConvert
            | OpKind::ReducePrecision { .. }
            | OpKind::Barrier
            | OpKind::AllReduce { .. }
            | OpKind::AxisIndex { .. } => self.same(id, op),
            OpKind::While
            | OpKind::If
            | OpKind::Case
            | OpKind::Call { .. }
            | OpKind::RngBitGenerator { .. }
            | OpKind::CustomCall { .. }
            | OpKind::AllGather { .. }
            | OpKind::ReduceScatter { .. }
            | OpKind::AllToAll { .. }
            | OpKind::ShardSlice { .. } => self.same(id, op),
            OpKind::Broadcast { dims } => self.broadcast(id, op, dims),
            OpKind::Reshape => {
                let x = self.rewriter.value(op.operands[0]);
                let ty = self.refined(op.results[0]);
                if *self.rewriter.ty(x) == ty {
                    self.rewriter.replace(op.results[0], x);
                } else {
                    self.same(id, op);
                }
            }
            OpKind::Transpose { perm } => {
                let perm = expand(&self.spans(op.operands[0]), perm);
                self.as_kind(id, op, OpKind::Transpose { perm });
            }
            OpKind::Slice { start, limit, stride } => self.slice(id, op, start, limit, stride),
            OpKind::Pad { low, high, interior } => self.pad(id, op, low, high, interior),
            OpKind::Concatenate { dim } => self.concatenate(id, op, *dim),
            OpKind::Reverse { dims } => {
                let dims = expand(&self.spans(op.operands[0]), dims);
                self.as_kind(id, op, OpKind::Reverse { dims });
            }
            OpKind::DynamicSlice { .. } => {
                let operands = self.with_starts(op, 1);
                let sizes = self.refined(op.results[0]).shape;
                self.result(id, OpKind::DynamicSlice { sizes: sizes.clone() }, operands, &[sizes]);
            }
            OpKind::DynamicUpdateSlice => {
                let operands = self.with_starts(op, 2);
                let made = self.layout(op.results[0]);
                self.result(id, OpKind::DynamicUpdateSlice, operands, &made);
            }
            OpKind::Reduce { dims, reducer } => self.reduce(id, op, dims, *reducer),
            OpKind::ReduceWindow { window, reducer } => {
                let window = self.window(op.operands[0], window);
                self.as_kind(id, op, OpKind::ReduceWindow { window, reducer: *reducer });
            }
            OpKind::SelectAndScatter { window } => {
                let window = self.window(op.operands[0], window);
                self.as_kind(id, op, OpKind::SelectAndScatter { window });
            }
            OpKind::Dot(dims) => {
                let (a, b) = (self.spans(op.operands[0]), self.spans(op.operands[1]));
                let dims = DotDims {
                    lhs_batch: expand(&a, &dims.lhs_batch),
                    rhs_batch: expand(&b, &dims.rhs_batch),
                    lhs_contract: expand(&a, &dims.lhs_contract),
                    rhs_contract: expand(&b, &dims.rhs_contract),
                };
                self.as_kind(id, op, OpKind::Dot(dims));
            }
            OpKind::Convolution(_) => self.same(id, op),
            OpKind::Attention(a) => {
                let a = self.attention(op, a);
                self.as_kind(id, op, OpKind::Attention(a));
            }
            OpKind::AttentionGrad { attention, bias } => {
                let attention = self.attention(op, attention);
                self.as_kind(id, op, OpKind::AttentionGrad { attention, bias: *bias });
            }
            OpKind::Gather(dims) => self.gather(id, op, dims),
            OpKind::Scatter { dims, reducer } => self.scatter(id, op, dims, *reducer),
            OpKind::TopK { .. } => self.same(id, op),
            OpKind::Sort { dim, stable } => {
                let dim = self.spans(op.operands[0])[*dim].start;
                self.as_kind(id, op, OpKind::Sort { dim, stable: *stable });
            }
        }
    }

    /// The index along a split dimension is the sum of the indices along its atoms times their strides.
    fn iota(&mut self, id: OpId, op: &Op, dim: usize) {
        let v = op.results[0];
        let span = self.spans(v)[dim].clone();
        let ty = self.refined(v);
        match span.len() {
            0 => self.as_kind(id, op, OpKind::Constant(Literal::splat(ty, 0.0))),
            1 => self.as_kind(id, op, OpKind::Iota { dim: span.start }),
            _ => {
                let index = ty.with_dtype(DType::I32);
                let mut inner: u64 = ty.shape[span.clone()].iter().product();
                let mut sum = None;
                for position in span {
                    inner /= ty.shape[position];
                    let part = self.rewriter.emit(OpKind::Iota { dim: position }, vec![], index.clone());
                    let stride = self.rewriter.splat(index.clone(), inner as f64);
                    let part = self.rewriter.emit(OpKind::Binary(BinaryOp::Multiply), vec![part, stride], index.clone());
                    sum = Some(match sum {
                        None => part,
                        Some(sum) => self.rewriter.emit(OpKind::Binary(BinaryOp::Add), vec![sum, part], index.clone()),
                    });
                }
                let sum = sum.expect("invariant: there are at least two atoms");
                let new = if ty.dtype == DType::I32 { sum } else { self.rewriter.emit(OpKind::Convert, vec![sum], ty) };
                self.rewriter.replace(v, new);
            }
        }
    }

    fn broadcast(&mut self, id: OpId, op: &Op, dims: &[usize]) {
        let (x, y) = (op.operands[0], op.results[0]);
        let (from, to) = (self.layout(x), self.spans(y));
        let mut kept: Layout = Vec::new();
        let mut map = Vec::new();
        for (i, &d) in dims.iter().enumerate() {
            if self.graph.ty(x).shape[i] == self.graph.ty(y).shape[d] {
                map.extend(to[d].clone());
                kept.push(from[i].clone());
            }
        }
        let operand = self.rewriter.value(x);
        let operand = self.viewed(operand, &kept);
        let ty = self.refined(y);
        if *self.rewriter.ty(operand) == ty && map.iter().enumerate().all(|(i, &d)| i == d) {
            self.rewriter.replace(y, operand);
        } else {
            self.rewriter.copy_typed(id, OpKind::Broadcast { dims: map }, vec![operand], vec![ty]);
        }
    }

    fn slice(&mut self, id: OpId, op: &Op, start: &[u64], limit: &[u64], stride: &[u64]) {
        let (x, y) = (op.operands[0], op.results[0]);
        let from = self.layout(x);
        let (mut view, mut made): (Layout, Layout) = (Vec::new(), Vec::new());
        let (mut s, mut l, mut t) = (Vec::new(), Vec::new(), Vec::new());
        for d in 0..start.len() {
            let (n, m) = (self.graph.ty(x).shape[d], self.graph.ty(y).shape[d]);
            let ranges = if n == m { Some(from[d].iter().map(|&a| (0, a)).collect()) } else { range_of_atoms(&from[d], start[d], limit[d], stride[d], m) };
            if let Some(ranges) = ranges {
                view.push(from[d].clone());
                made.push(ranges.iter().map(|(a, b)| b - a).collect());
                s.extend(ranges.iter().map(|r| r.0));
                l.extend(ranges.iter().map(|r| r.1));
                t.extend(ranges.iter().map(|_| 1));
            } else {
                view.push(vec![n]);
                made.push(vec![m]);
                s.push(start[d]);
                l.push(limit[d]);
                t.push(stride[d]);
            }
        }
        let operand = self.rewriter.value(x);
        let operand = self.viewed(operand, &view);
        self.result(id, OpKind::Slice { start: s, limit: l, stride: t }, vec![operand], &made);
    }

    fn pad(&mut self, id: OpId, op: &Op, low: &[i64], high: &[i64], interior: &[u64]) {
        let (x, y) = (op.operands[0], op.results[0]);
        let (from, to) = (self.layout(x), self.layout(y));
        let (mut view, mut made): (Layout, Layout) = (Vec::new(), Vec::new());
        let (mut lows, mut highs, mut interiors) = (Vec::new(), Vec::new(), Vec::new());
        for d in 0..low.len() {
            let (n, m) = (self.graph.ty(x).shape[d], self.graph.ty(y).shape[d]);
            if low[d] == 0 && high[d] == 0 && n == m {
                view.push(from[d].clone());
                made.push(from[d].clone());
                lows.extend(from[d].iter().map(|_| 0));
                highs.extend(from[d].iter().map(|_| 0));
                interiors.extend(from[d].iter().map(|_| 0));
            } else if let Some(parts) = pad_of_atoms(&to[d], low[d], high[d], interior[d], n) {
                view.push(parts.iter().map(|p| p.0).collect());
                made.push(to[d].clone());
                lows.extend(parts.iter().map(|p| p.1));
                highs.extend(parts.iter().map(|p| p.2));
                interiors.extend(parts.iter().map(|_| 0));
            } else {
                view.push(vec![n]);
                made.push(vec![m]);
                lows.push(low[d]);
                highs.push(high[d]);
                interiors.push(interior[d]);
            }
        }
        let operand = self.rewriter.value(x);
        let operand = self.viewed(operand, &view);
        let value = self.rewriter.value(op.operands[1]);
        self.result(id, OpKind::Pad { low: lows, high: highs, interior: interiors }, vec![operand, value], &made);
    }

    fn concatenate(&mut self, id: OpId, op: &Op, dim: usize) {
        let y = op.results[0];
        let to = self.layout(y);
        let inner: u64 = to[dim].iter().skip(1).product();
        let sizes: Vec<u64> = op.operands.iter().map(|&v| self.graph.ty(v).shape[dim]).collect();
        let aligned = !to[dim].is_empty() && sizes.iter().all(|n| n % inner == 0);
        let piece = |n: u64| if aligned { [&[n / inner][..], &to[dim][1..]].concat() } else { vec![n] };
        let operands = op
            .operands
            .iter()
            .zip(&sizes)
            .map(|(&v, &n)| {
                let mut layout = to.clone();
                layout[dim] = piece(n);
                let new = self.rewriter.value(v);
                self.viewed(new, &layout)
            })
            .collect();
        let mut made = to.clone();
        made[dim] = piece(sizes.iter().sum());
        let dim = spans(&to)[dim].start;
        self.result(id, OpKind::Concatenate { dim }, operands, &made);
    }

    /// Operands of a dynamic slice or update: a start per atom, 0 where the dimension is whole.
    fn with_starts(&mut self, op: &Op, values: usize) -> Vec<ValueId> {
        let layout = self.layout(op.operands[0]);
        let mut operands = self.rewriter.operands(op);
        let starts = operands.split_off(values);
        let part = if values == 1 { op.results[0] } else { op.operands[1] };
        for (d, atoms) in layout.iter().enumerate() {
            if self.graph.ty(part).shape[d] != self.graph.ty(op.operands[0]).shape[d] {
                operands.push(starts[d]);
                continue;
            }
            for _ in atoms {
                let ty = self.rewriter.ty(starts[d]).clone();
                let zero = self.rewriter.splat(ty, 0.0);
                operands.push(zero);
            }
        }
        operands
    }

    fn reduce(&mut self, id: OpId, op: &Op, dims: &[usize], reducer: Reducer) {
        let atoms = expand(&self.spans(op.operands[0]), dims);
        if !atoms.is_empty() || dims.is_empty() {
            return self.as_kind(id, op, OpKind::Reduce { dims: atoms, reducer });
        }
        // All reduced dimensions have size 1 and are gone.
        if let (Some(binary), [x, init]) = (reducer.binary(), &op.operands[..]) {
            let (x, init) = (self.rewriter.value(*x), self.rewriter.value(*init));
            let ty = self.rewriter.ty(x).clone();
            let neutral = self.rewriter.graph.constant(init).and_then(Literal::splat_value);
            let new = if neutral.is_some() && neutral == reducer.neutral(ty.dtype) {
                x
            } else {
                let init = self.rewriter.emit(OpKind::Broadcast { dims: vec![] }, vec![init], ty.clone());
                self.rewriter.emit(OpKind::Binary(binary), vec![init, x], ty)
            };
            self.rewriter.replace(op.results[0], new);
            return;
        }
        let n = op.results.len();
        let mut operands = self.rewriter.operands(op);
        for operand in &mut operands[..n] {
            let mut shape = self.rewriter.ty(*operand).shape.clone();
            shape.insert(0, 1);
            *operand = self.viewed(*operand, &[shape]);
        }
        let types = op.results.iter().map(|&v| self.refined(v)).collect();
        self.rewriter.copy_typed(id, OpKind::Reduce { dims: vec![0], reducer }, operands, types);
    }

    fn window(&mut self, x: ValueId, window: &Window) -> Window {
        let layout = self.layout(x);
        let mut expanded =
            Window { size: vec![], stride: vec![], pad: vec![], base_dilation: vec![], window_dilation: vec![], reversal: window.reversal.clone() };
        for (d, atoms) in layout.iter().enumerate() {
            let count = if trivial_window(window, d) { atoms.len() } else { 1 };
            for _ in 0..count {
                expanded.size.push(window.size[d]);
                expanded.stride.push(window.stride[d]);
                expanded.pad.push(window.pad[d]);
                expanded.base_dilation.push(window.base_dilation[d]);
                expanded.window_dilation.push(window.window_dilation[d]);
            }
        }
        expanded
    }

    /// The attention with a name for every atom.
    fn attention(&mut self, op: &Op, a: &Attention) -> Box<Attention> {
        let (mut names, mut next) = (BTreeMap::new(), 0u8);
        for (i, &d) in a.q.iter().enumerate() {
            let atoms = self.classes.atoms(op.operands[0], i).len() as u8;
            let range = if d.is_batch() { (next..next + atoms).map(AttentionDim::Batch).collect() } else { vec![d] };
            next += if d.is_batch() { atoms } else { 0 };
            names.insert(d, range);
        }
        let renamed = |dims: &[AttentionDim]| dims.iter().flat_map(|d| names.get(d).cloned().unwrap_or_else(|| vec![*d])).collect::<Vec<_>>();
        Box::new(Attention { q: renamed(&a.q), k: renamed(&a.k), v: renamed(&a.v), bias: a.bias.as_deref().map(renamed), o: renamed(&a.o), ..a.clone() })
    }

    fn gather(&mut self, id: OpId, op: &Op, dims: &GatherDims) {
        let (x, indices, y) = (self.spans(op.operands[0]), self.spans(op.operands[1]), self.spans(op.results[0]));
        let layout = self.layout(op.operands[0]);
        let whole = &self.graph.ty(op.operands[0]).shape;
        let slice_sizes = layout
            .iter()
            .enumerate()
            .flat_map(|(d, atoms)| {
                if atoms.len() == 1 {
                    vec![dims.slice_sizes[d]]
                } else if dims.slice_sizes[d] == whole[d] {
                    atoms.clone()
                } else {
                    vec![1; atoms.len()]
                }
            })
            .collect();
        let kind = OpKind::Gather(GatherDims {
            offset_dims: expand(&y, &dims.offset_dims),
            collapsed_slice_dims: expand(&x, &dims.collapsed_slice_dims),
            operand_batching_dims: expand(&x, &dims.operand_batching_dims),
            start_indices_batching_dims: expand(&indices, &dims.start_indices_batching_dims),
            start_index_map: expand(&x, &dims.start_index_map),
            index_vector_dim: vector_dim(&indices, dims.index_vector_dim),
            slice_sizes,
            indices_are_sorted: dims.indices_are_sorted,
        });
        self.as_kind(id, op, kind);
    }

    fn scatter(&mut self, id: OpId, op: &Op, dims: &ScatterDims, reducer: Reducer) {
        let n = op.results.len();
        let (x, indices, u) = (self.spans(op.operands[0]), self.spans(op.operands[n]), self.spans(op.operands[n + 1]));
        let dims = ScatterDims {
            update_window_dims: expand(&u, &dims.update_window_dims),
            inserted_window_dims: expand(&x, &dims.inserted_window_dims),
            input_batching_dims: expand(&x, &dims.input_batching_dims),
            scatter_indices_batching_dims: expand(&indices, &dims.scatter_indices_batching_dims),
            scatter_dims_to_operand_dims: expand(&x, &dims.scatter_dims_to_operand_dims),
            index_vector_dim: vector_dim(&indices, dims.index_vector_dim),
            indices_are_sorted: dims.indices_are_sorted,
            unique_indices: dims.unique_indices,
        };
        self.as_kind(id, op, OpKind::Scatter { dims, reducer });
    }
}

/// The position of the index vector; one past the last dimension where it is implicit or was dropped.
fn vector_dim(spans: &[Range<usize>], dim: usize) -> usize {
    let rank = spans.last().map_or(0, |s| s.end);
    match spans.get(dim) {
        Some(span) if !span.is_empty() => span.start,
        _ => rank,
    }
}

/// The range per atom that a slice of `count` elements of a dimension is, if it is a box.
fn range_of_atoms(atoms: &[u64], start: u64, limit: u64, stride: u64, count: u64) -> Option<Vec<(u64, u64)>> {
    let mut inner: u64 = atoms.iter().product();
    let n = inner;
    let mut ranges = Vec::with_capacity(atoms.len());
    let (mut start, mut limit) = (start, limit);
    if stride != 1 {
        // Every `stride`-th element: all of the outer atoms, one index of each inner one.
        if start >= stride || count * stride != n {
            return None;
        }
        for &atom in atoms {
            inner /= atom;
            if inner >= stride && inner % stride == 0 {
                ranges.push((0, atom));
            } else if stride % (inner * atom) == 0 {
                ranges.push((start / inner, start / inner + 1));
                start %= inner;
            } else {
                return None;
            }
        }
        return Some(ranges);
    }
    // One index of each outer atom, a range of one, all of the inner ones.
    for (i, &atom) in atoms.iter().enumerate() {
        inner /= atom;
        let (first, last) = (start / inner, (limit - 1) / inner);
        if first == last && inner > 1 {
            ranges.push((first, first + 1));
            start -= first * inner;
            limit -= first * inner;
        } else {
            if start % inner != 0 || limit % inner != 0 {
                return None;
            }
            ranges.push((first, last + 1));
            ranges.extend(atoms[i + 1..].iter().map(|&a| (0, a)));
            break;
        }
    }
    Some(ranges)
}

/// Per atom of a padded dimension: the operand's size, and the padding before and after, if padding acts on whole atoms.
fn pad_of_atoms(atoms: &[u64], low: i64, high: i64, interior: u64, n: u64) -> Option<Vec<(u64, i64, i64)>> {
    let (&outer, inner_atoms) = atoms.split_first()?;
    if low < 0 || high < 0 {
        return None;
    }
    if interior == 0 {
        let inner: u64 = inner_atoms.iter().product();
        let step = inner as i64;
        if low % step != 0 || high % step != 0 || n % inner != 0 {
            return None;
        }
        let mut parts = vec![(n / inner, low / step, high / step)];
        debug_assert_eq!(parts[0].0 as i64 + parts[0].1 + parts[0].2, outer as i64, "padding adds up");
        parts.extend(inner_atoms.iter().map(|&a| (a, 0, 0)));
        return Some(parts);
    }
    let stride = interior + 1;
    let mut inner: u64 = atoms.iter().product();
    if low as u64 >= stride || n * stride != inner {
        return None;
    }
    let mut offset = low as u64;
    let mut parts = Vec::with_capacity(atoms.len());
    for &atom in atoms {
        inner /= atom;
        if inner >= stride && inner % stride == 0 {
            parts.push((atom, 0, 0));
        } else if stride % (inner * atom) == 0 {
            let index = offset / inner;
            offset %= inner;
            parts.push((1, index as i64, (atom - 1 - index) as i64));
        } else {
            return None;
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_boxes_of_atoms() {
        assert_eq!(range_of_atoms(&[3, 8, 32], 256, 512, 1, 256), Some(vec![(1, 2), (0, 8), (0, 32)]));
        assert_eq!(range_of_atoms(&[3, 8, 32], 256 + 32, 256 + 96, 1, 64), Some(vec![(1, 2), (1, 3), (0, 32)]));
        assert_eq!(range_of_atoms(&[3, 8, 32], 128, 384, 1, 256), None);
        assert_eq!(range_of_atoms(&[16, 2], 1, 32, 2, 16), Some(vec![(0, 16), (1, 2)]));
        assert_eq!(range_of_atoms(&[32], 1, 32, 2, 16), None);
    }

    #[test]
    fn padding_between_elements_is_padding_of_an_atom() {
        assert_eq!(pad_of_atoms(&[16, 2], 1, 0, 1, 16), Some(vec![(16, 0, 0), (1, 1, 0)]));
        assert_eq!(pad_of_atoms(&[3, 8, 32], 256, 256, 0, 256), Some(vec![(1, 1, 1), (8, 0, 0), (32, 0, 0)]));
    }
}
