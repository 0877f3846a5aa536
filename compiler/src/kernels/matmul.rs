//! From `dot_general` to a batched, strided matrix product without copies where strides allow it.
//!
//! Operands are read through views (transposes, slices, affine reshapes). Free dimensions that do not walk as one become batch dimensions with a zero
//! stride on the other side; contracted dimensions must walk as one in both operands, else the offending operand is stored row-major first
//! ([`normalise`] makes sure that this is enough). A transpose that is the only reader of a product is where the product is written.

use super::classify::Classes;
use super::view::{self, Expr};
use crate::spmd::local::LocalGraph;
use ir::op::{DotDims, OpKind};
use ir::program::{BatchDim, MatMul};
use ir::{DType, OpId, TensorType, ValueId};

/// An operand as it lies in memory.
#[derive(Clone, Debug)]
struct Operand {
    base: ValueId,
    offset: i64,
    /// Stride per dimension of the operand.
    strides: Vec<i64>,
}

/// A product with the stored values it reads.
pub struct Product {
    /// The product.
    pub matmul: MatMul,
    /// What lies in memory for the left and right operand.
    pub bases: [ValueId; 2],
}

/// Whether the runtime's matrix products take an op (else it goes to the library).
pub fn is_product(local: &LocalGraph, id: OpId) -> bool {
    let op = &local.graph.ops[id];
    let t = |v: ValueId| local.graph.ty(v).dtype;
    let (a, b, c) = match (&op.kind, op.operands.as_slice()) {
        (OpKind::Dot(_), &[a, b]) => (t(a), t(b), t(op.results[0])),
        _ => return false,
    };
    a == b && matches!((a, c), (DType::F32, DType::F32) | (DType::F64, DType::F64) | (DType::BF16 | DType::F16, DType::F32 | DType::BF16 | DType::F16))
}

/// The stored value that operand `index` of a product is read from in place; `None` when the operand must be stored itself.
pub(super) fn operand_base(local: &LocalGraph, classes: &Classes, id: OpId, index: usize) -> Option<ValueId> {
    if !is_product(local, id) {
        return None;
    }
    let product = plan(local, classes, id);
    let v = local.graph.ops[id].operands[index];
    (product.bases[index] != v || classes.is_leaf(local, v)).then_some(product.bases[index])
}

/// The operand through its views.
fn viewed(local: &LocalGraph, classes: &Classes, v: ValueId) -> Option<Operand> {
    let shape = local.graph.ty(v).shape.clone();
    let (mut at, mut map) = (v, view::identity(shape.len()));
    while !classes.is_leaf(local, at) {
        let op = local.graph.def_op(at)?;
        if classes.of(op) != super::classify::Class::View {
            return None;
        }
        map = view::through(&local.graph, &local.mesh, op, &map, &shape)?;
        at = local.graph.ops[op].operands[0];
    }
    let Expr { offset, terms, coordinates } = view::linear(&map, &local.graph.ty(at).shape);
    let mut strides = vec![0; shape.len()];
    for (d, c) in terms {
        strides[d as usize] = c;
    }
    (coordinates.is_empty() && offset >= 0 && strides.iter().all(|&s| s >= 0)).then_some(Operand { base: at, offset, strides })
}

/// The operand stored row-major.
fn stored(local: &LocalGraph, classes: &Classes, v: ValueId) -> Operand {
    let base = super::units::alias_of(local, classes, v).unwrap_or(v);
    let strides = local.graph.ty(v).strides().into_iter().map(|s| s as i64).collect();
    Operand { base, offset: 0, strides }
}

/// Whether dimensions (in order) walk as one; extents of 1 do not matter.
fn walks_as_one(dims: &[usize], shape: &[u64], strides: &[i64]) -> bool {
    let dims: Vec<usize> = dims.iter().copied().filter(|&d| shape[d] > 1).collect();
    dims.windows(2).all(|w| strides[w[0]] == strides[w[1]] * shape[w[1]] as i64)
}

/// The stride of the innermost of some dimensions that walk as one.
fn innermost(dims: &[usize], shape: &[u64], strides: &[i64]) -> i64 {
    dims.iter().rev().find(|&&d| shape[d] > 1).map_or(1, |&d| strides[d])
}

/// The contracted pairs in the order of the left operand's dimensions.
fn pairs(dims: &DotDims) -> (Vec<usize>, Vec<usize>) {
    let mut p: Vec<(usize, usize)> = dims.lhs_contract.iter().copied().zip(dims.rhs_contract.iter().copied()).collect();
    p.sort_unstable();
    p.into_iter().unzip()
}

/// A group of free dimensions: what walks as one innermost, and what is left as batch dimensions.
struct Free {
    extent: u64,
    operand_stride: i64,
    result_stride: i64,
    rest: Vec<(u64, i64, i64)>,
}

fn free(dims: &[usize], shape: &[u64], strides: &[i64], result_strides: &[i64]) -> Free {
    let all: Vec<(u64, i64, i64)> = dims.iter().zip(result_strides).map(|(&d, &c)| (shape[d], strides[d], c)).filter(|&(n, _, _)| n > 1).collect();
    let Some(&(mut extent, operand_stride, result_stride)) = all.last() else {
        return Free { extent: 1, operand_stride: 1, result_stride: 1, rest: vec![] };
    };
    let mut rest = all[..all.len() - 1].to_vec();
    while let Some(&(n, a, c)) = rest.last() {
        if a != operand_stride * extent as i64 || c != result_stride * extent as i64 {
            break;
        }
        extent *= n;
        rest.pop();
    }
    // A longer outer dimension makes a better product than a short inner one.
    if let Some(longest) = (0..rest.len()).max_by_key(|&i| rest[i].0)
        && rest[longest].0 > 4 * extent
    {
        let (n, a, c) = rest[longest];
        rest[longest] = (extent, operand_stride, result_stride);
        return Free { extent: n, operand_stride: a, result_stride: c, rest };
    }
    Free { extent, operand_stride, result_stride, rest }
}

/// The product of a `dot_general`.
pub fn plan(local: &LocalGraph, classes: &Classes, id: OpId) -> Product {
    let op = &local.graph.ops[id];
    let OpKind::Dot(dims) = &op.kind else { unreachable!("invariant: only products are planned") };
    let (lhs, rhs) = (op.operands[0], op.operands[1]);
    let (ls, rs) = (&local.graph.ty(lhs).shape, &local.graph.ty(rhs).shape);
    let (lk, rk) = pairs(dims);
    let mut a = viewed(local, classes, lhs).unwrap_or_else(|| stored(local, classes, lhs));
    if !walks_as_one(&lk, ls, &a.strides) {
        a = stored(local, classes, lhs);
    }
    let mut b = viewed(local, classes, rhs).unwrap_or_else(|| stored(local, classes, rhs));
    if !walks_as_one(&rk, rs, &b.strides) {
        b = stored(local, classes, rhs);
    }
    // The result's strides per dimension of the dot, through the transpose it is written by.
    let result = classes.written_by(id).map(|t| &local.graph.ops[t]);
    let rank = local.graph.ty(op.results[0]).rank();
    let c: Vec<i64> = match result.map(|op| (&op.kind, op)) {
        Some((OpKind::Transpose { perm }, transpose)) => {
            let outer = local.graph.ty(transpose.results[0]).strides();
            let mut s = vec![0; rank];
            perm.iter().enumerate().for_each(|(i, &p)| s[p] = outer[i] as i64);
            s
        }
        _ => local.graph.ty(op.results[0]).strides().into_iter().map(|s| s as i64).collect(),
    };
    let (batches, lhs_free, rhs_free) = (dims.lhs_batch.len(), dims.lhs_free(ls.len()), dims.rhs_free(rs.len()));
    let m = free(&lhs_free, ls, &a.strides, &c[batches..batches + lhs_free.len()]);
    let n = free(&rhs_free, rs, &b.strides, &c[batches + lhs_free.len()..]);
    let mut batch: Vec<BatchDim> = (0..batches)
        .map(|i| {
            let (l, r) = (dims.lhs_batch[i], dims.rhs_batch[i]);
            BatchDim { size: ls[l], a: a.strides[l] as u64, b: b.strides[r] as u64, c: c[i] as u64 }
        })
        .collect();
    batch.extend(m.rest.iter().map(|&(size, a, c)| BatchDim { size, a: a as u64, b: 0, c: c as u64 }));
    batch.extend(n.rest.iter().map(|&(size, b, c)| BatchDim { size, a: 0, b: b as u64, c: c as u64 }));
    batch.retain(|d| d.size > 1);
    let matmul = MatMul {
        batch,
        m: m.extent,
        n: n.extent,
        k: lk.iter().map(|&d| ls[d]).product(),
        offsets: (a.offset as u64, b.offset as u64, 0),
        a_strides: (m.operand_stride as u64, innermost(&lk, ls, &a.strides) as u64),
        b_strides: (innermost(&rk, rs, &b.strides) as u64, n.operand_stride as u64),
        c_strides: (m.result_stride as u64, n.result_stride as u64),
        dtype: local.graph.ty(lhs).dtype,
        result: local.graph.ty(op.results[0]).dtype,
        accumulate: result.is_some_and(|op| matches!(op.kind, OpKind::AllReduce { .. })),
    };
    Product { matmul, bases: [a.base, b.base] }
}

/// Inserts transposes so that the contracted dimensions of every product are neighbours, in the same order on both sides, once an operand is stored.
pub fn normalise(local: &mut LocalGraph) {
    let neighbours = |dims: &[usize]| dims.windows(2).all(|w| w[1] == w[0] + 1);
    let fits = |op: &ir::graph::Op| match &op.kind {
        OpKind::Dot(d) => {
            let (l, r) = pairs(d);
            neighbours(&l) && neighbours(&r)
        }
        _ => true,
    };
    if local.graph.ops.values().all(fits) {
        return;
    }
    let mut rewrite = crate::canonical::rewrite::Rewriter::new(&local.graph);
    let (mut phase, mut depth) = (Vec::new(), Vec::new());
    for (id, op) in local.graph.ops.iter() {
        let before = rewrite.graph.ops.len();
        rewrite.at(id);
        if fits(op) {
            rewrite.copy(id);
        } else if let OpKind::Dot(dims) = &op.kind {
            let (lk, rk) = pairs(dims);
            let (lrank, rrank) = (local.graph.ty(op.operands[0]).rank(), local.graph.ty(op.operands[1]).rank());
            let mut new = dims.clone();
            let mut operands: Vec<ValueId> = op.operands.iter().map(|&v| rewrite.value(v)).collect();
            (new.lhs_contract, new.rhs_contract) = (lk.clone(), rk.clone());
            if !neighbours(&lk) {
                let free = dims.lhs_free(lrank);
                let perm = [dims.lhs_batch.clone(), free.clone(), lk.clone()].concat();
                operands[0] = transpose(&mut rewrite, operands[0], perm);
                new.lhs_batch = (0..dims.lhs_batch.len()).collect();
                new.lhs_contract = (lrank - lk.len()..lrank).collect();
            }
            if !neighbours(&rk) {
                let perm = [dims.rhs_batch.clone(), rk.clone(), dims.rhs_free(rrank)].concat();
                operands[1] = transpose(&mut rewrite, operands[1], perm);
                new.rhs_batch = (0..dims.rhs_batch.len()).collect();
                new.rhs_contract = (dims.rhs_batch.len()..dims.rhs_batch.len() + rk.len()).collect();
            }
            let ty = local.graph.ty(op.results[0]).clone();
            let v = rewrite.emit(OpKind::Dot(new), operands, ty);
            rewrite.replace(op.results[0], v);
        }
        let added = rewrite.graph.ops.len() - before;
        phase.resize(phase.len() + added, local.phase[id.0 as usize]);
        depth.resize(depth.len() + added, local.depth[id.0 as usize]);
    }
    local.graph = rewrite.finish();
    local.phase = phase;
    local.depth = depth;
}

fn transpose(rewrite: &mut crate::canonical::rewrite::Rewriter<'_>, v: ValueId, perm: Vec<usize>) -> ValueId {
    let ty = rewrite.ty(v);
    let ty = TensorType::new(ty.dtype, perm.iter().map(|&p| ty.shape[p]).collect::<Vec<_>>());
    rewrite.emit(OpKind::Transpose { perm }, vec![v], ty)
}
