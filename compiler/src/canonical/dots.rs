//! Absorbs transposes into matrix products.
//!
//! A `dot_general` names its dimensions, so a transposed operand is the operand with other names, and a transposed result is often the product with its
//! operands swapped or its batch dimensions listed in another order. Afterwards a transpose stays only where no product can take it.
//! A conversion of the element type between a product and a transpose is passed over.

use super::fold::sweep;
use super::rewrite::Rewriter;
use ir::graph::Graph;
use ir::op::{DotDims, OpKind};
use ir::{OpId, SecondaryMap, TensorType, ValueId};

/// The graph with transposes absorbed.
pub fn run(graph: &Graph) -> Graph {
    let mut uses: SecondaryMap<ValueId, u32> = SecondaryMap::new();
    for &v in graph.ops.values().flat_map(|op| &op.operands).chain(&graph.outputs) {
        uses[v] += 1;
    }
    let mut rewriter = Rewriter::new(graph);
    for (id, op) in graph.ops.iter() {
        rewriter.at(id);
        match &op.kind {
            OpKind::Dot(dims) => dot(&mut rewriter, id, dims),
            OpKind::Transpose { perm } if uses[op.operands[0]] == 1 => transpose(&mut rewriter, graph, id, perm, &uses),
            _ => rewriter.copy(id),
        }
    }
    sweep(&rewriter.finish())
}

/// A product on what its transposed operands are transposes of, where that keeps the order of the result's dimensions.
fn dot(rewriter: &mut Rewriter<'_>, id: OpId, dims: &DotDims) {
    let op = &rewriter.source().ops[id];
    let mut operands = rewriter.operands(op);
    let mut dims = dims.clone();
    if let Some((x, perm)) = untransposed(rewriter, operands[0]) {
        let free = dims.lhs_free(perm.len());
        if free.iter().map(|&d| perm[d]).is_sorted() {
            operands[0] = x;
            rename(&mut dims.lhs_batch, &perm);
            rename(&mut dims.lhs_contract, &perm);
        }
    }
    if let Some((x, perm)) = untransposed(rewriter, operands[1]) {
        let free = dims.rhs_free(perm.len());
        if free.iter().map(|&d| perm[d]).is_sorted() {
            operands[1] = x;
            rename(&mut dims.rhs_batch, &perm);
            rename(&mut dims.rhs_contract, &perm);
        }
    }
    rewriter.copy_as(id, OpKind::Dot(dims), operands);
}

fn rename(dims: &mut [usize], perm: &[usize]) {
    for d in dims {
        *d = perm[*d];
    }
}

/// What a new value is a transpose of, and the permutation; a conversion in between is made before it.
fn untransposed(rewriter: &mut Rewriter<'_>, v: ValueId) -> Option<(ValueId, Vec<usize>)> {
    let graph = &rewriter.graph;
    let op = &graph.ops[graph.def_op(v)?];
    match &op.kind {
        OpKind::Transpose { perm } => Some((op.operands[0], perm.clone())),
        OpKind::Convert => {
            let inner = &graph.ops[graph.def_op(op.operands[0])?];
            let OpKind::Transpose { perm } = &inner.kind else { return None };
            let (x, perm) = (inner.operands[0], perm.clone());
            let ty = graph.ty(x).with_dtype(graph.ty(v).dtype);
            Some((rewriter.emit(OpKind::Convert, vec![x], ty), perm))
        }
        _ => None,
    }
}

/// A transpose that is the only reader of a product.
fn transpose(rewriter: &mut Rewriter<'_>, graph: &Graph, id: OpId, perm: &[usize], uses: &SecondaryMap<ValueId, u32>) {
    let result = graph.ops[id].results[0];
    let ty = graph.ty(result).clone();
    let mut from = graph.ops[id].operands[0];
    let mut converted = false;
    if let Some(op) = graph.def_op(from)
        && matches!(graph.ops[op].kind, OpKind::Convert)
        && uses[graph.ops[op].operands[0]] == 1
    {
        from = graph.ops[op].operands[0];
        converted = true;
    }
    // The new product is built from the already rewritten one.
    let new = rewriter.value(from);
    let Some(op) = rewriter.graph.def_op(new) else { return rewriter.copy(id) };
    let OpKind::Dot(dims) = rewriter.graph.ops[op].kind.clone() else { return rewriter.copy(id) };
    let mut dims = dims;
    let operands = rewriter.graph.ops[op].operands.clone();
    let (lhs, rhs) = (rewriter.graph.ty(operands[0]).rank(), rewriter.graph.ty(operands[1]).rank());
    let mut operands = operands;
    let swap = match permuted(&dims, lhs, rhs, perm) {
        Some((new, swap)) => {
            dims = new;
            swap
        }
        None => {
            // Transposing an operand is less work when it is smaller than the result.
            let Some(orders) = free_orders(&dims, lhs, rhs, perm) else { return rewriter.copy(id) };
            let elements = rewriter.graph.ty(new).elements();
            for (side, order) in orders.iter().enumerate() {
                if !order.is_sorted() {
                    if rewriter.graph.ty(operands[side]).elements() >= elements {
                        return rewriter.copy(id);
                    }
                    operands[side] = reorder_free(rewriter, operands[side], order, &dims, side);
                }
            }
            let swap = perm.get(dims.lhs_batch.len()).is_some_and(|&d| d >= dims.lhs_batch.len() + orders[0].len());
            let sorted: Vec<usize> = {
                let batch = dims.lhs_batch.len();
                let left: Vec<usize> = (batch..batch + orders[0].len()).collect();
                let right: Vec<usize> = (batch + orders[0].len()..perm.len()).collect();
                let (first, second) = if swap { (right, left) } else { (left, right) };
                perm[..batch].iter().copied().chain(first).chain(second).collect()
            };
            let Some((new, swap)) = permuted(&dims, lhs, rhs, &sorted) else { return rewriter.copy(id) };
            dims = new;
            swap
        }
    };
    let operands = if swap { vec![operands[1], operands[0]] } else { operands };
    let ty = TensorType::new(rewriter.graph.ty(new).dtype, ty.shape);
    let product = rewriter.emit(OpKind::Dot(dims), operands, ty.clone());
    let new = if converted { rewriter.emit(OpKind::Convert, vec![product], graph.ty(result).clone()) } else { product };
    rewriter.replace(result, new);
}

/// The product whose result is the transpose of another's, and whether the operands are swapped, if it is a product.
fn permuted(dims: &DotDims, lhs_rank: usize, rhs_rank: usize, perm: &[usize]) -> Option<(DotDims, bool)> {
    let batch = dims.lhs_batch.len();
    let left = dims.lhs_free(lhs_rank).len();
    let right = dims.rhs_free(rhs_rank).len();
    let (order, free) = perm.split_at(batch);
    if order.iter().any(|&d| d >= batch) {
        return None;
    }
    let straight: Vec<usize> = (batch..batch + left + right).collect();
    let swapped: Vec<usize> = (batch + left..batch + left + right).chain(batch..batch + left).collect();
    let pick = |list: &[usize]| order.iter().map(|&d| list[d]).collect::<Vec<usize>>();
    let dims = DotDims {
        lhs_batch: pick(&dims.lhs_batch),
        rhs_batch: pick(&dims.rhs_batch),
        lhs_contract: dims.lhs_contract.clone(),
        rhs_contract: dims.rhs_contract.clone(),
    };
    if free == straight {
        Some((dims, false))
    } else if free == swapped {
        let swapped = DotDims { lhs_batch: dims.rhs_batch, rhs_batch: dims.lhs_batch, lhs_contract: dims.rhs_contract, rhs_contract: dims.lhs_contract };
        Some((swapped, true))
    } else {
        None
    }
}

/// For a transposed result that lists the batch dimensions first and the free dimensions of each operand together: their orders, by operand.
fn free_orders(dims: &DotDims, lhs_rank: usize, rhs_rank: usize, perm: &[usize]) -> Option<[Vec<usize>; 2]> {
    let batch = dims.lhs_batch.len();
    let (left, right) = (dims.lhs_free(lhs_rank), dims.rhs_free(rhs_rank));
    let (order, free) = perm.split_at(batch);
    let is_left = |d: usize| d < batch + left.len();
    let runs = 1 + free.windows(2).filter(|w| is_left(w[0]) != is_left(w[1])).count();
    if order.iter().any(|&d| d >= batch) || runs > 2 {
        return None;
    }
    let from_left = free.iter().filter(|&&d| is_left(d)).map(|&d| left[d - batch]).collect();
    let from_right = free.iter().filter(|&&d| !is_left(d)).map(|&d| right[d - batch - left.len()]).collect();
    Some([from_left, from_right])
}

/// An operand transposed so that its free dimensions are in `order`.
fn reorder_free(rewriter: &mut Rewriter<'_>, x: ValueId, order: &[usize], dims: &DotDims, side: usize) -> ValueId {
    let ty = rewriter.graph.ty(x).clone();
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    let mut perm: Vec<usize> = (0..ty.rank()).collect();
    for (&place, &d) in sorted.iter().zip(order) {
        perm[place] = d;
    }
    // Only free dimensions move, so batch and contracted dimensions keep their numbers.
    debug_assert!(if side == 0 { &dims.lhs_contract } else { &dims.rhs_contract }.iter().all(|&d| perm[d] == d), "only free dimensions move");
    let shape: Vec<u64> = perm.iter().map(|&p| ty.shape[p]).collect();
    rewriter.emit(OpKind::Transpose { perm }, vec![x], TensorType::new(ty.dtype, shape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{DType, Loc};

    fn f32(shape: &[u64]) -> TensorType {
        TensorType::new(DType::F32, shape)
    }

    #[test]
    fn the_transposed_gradient_of_a_weight_is_the_product_with_swapped_operands() {
        let mut g = Graph::new("main");
        let (dy, x) = (g.add_input(f32(&[32, 16]), "%dy"), g.add_input(f32(&[32, 8]), "%x"));
        let dims = DotDims { lhs_contract: vec![0], rhs_contract: vec![0], ..DotDims::default() };
        let dot = g.add(OpKind::Dot(dims.clone()), vec![dy, x], f32(&[16, 8]), Loc(0));
        let t = g.add(OpKind::Transpose { perm: vec![1, 0] }, vec![dot], f32(&[8, 16]), Loc(0));
        g.outputs = vec![t];
        let new = run(&g);
        assert_eq!(new.ops.len(), 1);
        let op = &new.ops[OpId(0)];
        assert_eq!((op.kind.clone(), op.operands.clone()), (OpKind::Dot(dims), vec![new.inputs[1], new.inputs[0]]));
    }

    #[test]
    fn heads_in_the_middle_are_batch_dimensions_where_they_are() {
        let mut g = Graph::new("main");
        let q = g.add_input(f32(&[8, 128, 4, 32]), "%q");
        let t = g.add(OpKind::Transpose { perm: vec![0, 2, 1, 3] }, vec![q], f32(&[8, 4, 128, 32]), Loc(0));
        let dims = DotDims { lhs_batch: vec![0, 1], rhs_batch: vec![0, 1], lhs_contract: vec![3], rhs_contract: vec![3] };
        let s = g.add(OpKind::Dot(dims), vec![t, t], f32(&[8, 4, 128, 128]), Loc(0));
        g.outputs = vec![s];
        let new = run(&g);
        let dims = DotDims { lhs_batch: vec![0, 2], rhs_batch: vec![0, 2], lhs_contract: vec![3], rhs_contract: vec![3] };
        assert_eq!(new.ops.values().map(|op| op.kind.clone()).collect::<Vec<_>>(), [OpKind::Dot(dims)]);
    }
}
