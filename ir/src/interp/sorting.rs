//! Sort and top-k. Both are stable; floats are ordered by total order where nothing else is said, so positive NaN is largest.
//!
//! A comparator may be any region, even one that is no order, so the merge sort here relies on nothing of it. The common comparator,
//! one comparison of the same operand's two elements, is evaluated without the region.

use super::elementwise::compare_ints;
use super::movement;
use super::tensor::{Buffer, Element, Tensor, remake};
use crate::dtype::TensorType;
use crate::graph::Graph;
use crate::op::{Direction, OpKind};
use std::cmp::Ordering;

/// A comparator that is one comparison: of which operand, in which direction, by total order or not.
pub(crate) struct KeyComparison {
    operand: usize,
    direction: Direction,
    total: bool,
    swapped: bool,
}

impl KeyComparison {
    /// Recognises `compare(%a_i, %b_i)` as the whole of a region.
    pub(crate) fn of(region: &Graph) -> Option<KeyComparison> {
        let [output] = region.outputs.as_slice() else { return None };
        if region.ops.len() != 1 {
            return None;
        }
        let op = &region.ops[region.def_op(*output)?];
        let OpKind::Compare { direction, total } = op.kind else { return None };
        let position = |v| region.inputs.iter().position(|&i| i == v);
        let (a, b) = (position(op.operands[0])?, position(op.operands[1])?);
        (a != b && a / 2 == b / 2).then_some(KeyComparison { operand: a / 2, direction, total, swapped: a > b })
    }

    /// Whether element `i` goes before element `j` of that operand.
    fn before(&self, operands: &[Tensor], i: usize, j: usize) -> bool {
        let (i, j) = if self.swapped { (j, i) } else { (i, j) };
        let t = operands[self.operand].ty.dtype;
        let order = match &operands[self.operand].buffer {
            Buffer::F32(v) if self.total => Some(v[i].total_cmp(&v[j])),
            Buffer::F64(v) if self.total => Some(v[i].total_cmp(&v[j])),
            Buffer::F32(v) => v[i].partial_cmp(&v[j]),
            Buffer::F64(v) => v[i].partial_cmp(&v[j]),
            Buffer::Int(v) => Some(compare_ints(t, v[i], v[j])),
            Buffer::Bool(v) => Some(v[i].cmp(&v[j])),
            Buffer::Complex(_) => None,
        };
        match (self.direction, order) {
            (Direction::Ne, None) => true,
            (_, None) => false,
            (Direction::Eq, Some(o)) => o.is_eq(),
            (Direction::Ne, Some(o)) => o.is_ne(),
            (Direction::Ge, Some(o)) => o.is_ge(),
            (Direction::Gt, Some(o)) => o.is_gt(),
            (Direction::Le, Some(o)) => o.is_le(),
            (Direction::Lt, Some(o)) => o.is_lt(),
        }
    }
}

/// A stable merge sort of `items` by `before`, which may fail and need not be an order.
fn merge_sort<E>(items: &mut [usize], before: &mut impl FnMut(usize, usize) -> Result<bool, E>) -> Result<(), E> {
    if items.len() < 2 {
        return Ok(());
    }
    let middle = items.len() / 2;
    merge_sort(&mut items[..middle], before)?;
    merge_sort(&mut items[middle..], before)?;
    let (left, right) = (items[..middle].to_vec(), items[middle..].to_vec());
    let (mut l, mut r) = (0, 0);
    for slot in items.iter_mut() {
        // The right one goes first only when it must.
        let take_right = l == left.len() || (r < right.len() && before(right[r], left[l])?);
        if take_right {
            *slot = right[r];
            r += 1;
        } else {
            *slot = left[l];
            l += 1;
        }
    }
    Ok(())
}

/// Sorts all operands together along `dim`. `before(i, j)` compares elements `i` and `j` of the operands given to it, whose last dimension is the sorted one.
pub(crate) fn sort<E>(
    operands: &[Tensor],
    dim: usize,
    key: Option<&KeyComparison>,
    mut before: impl FnMut(&[Tensor], usize, usize) -> Result<bool, E>,
) -> Result<Vec<Tensor>, E> {
    let Some(first) = operands.first() else { return Ok(Vec::new()) };
    let rank = first.ty.rank();
    if first.elements() == 0 {
        return Ok(operands.to_vec());
    }
    // Bring the sorted dimension last, and back afterwards.
    let perm: Vec<usize> = (0..rank).filter(|&d| d != dim).chain([dim]).collect();
    let turned: Vec<u64> = perm.iter().map(|&d| first.ty.shape[d]).collect();
    let rows: Vec<Tensor> = operands.iter().map(|x| movement::transpose(x, x.ty.with_shape(&turned), &perm).dense()).collect();
    let n = first.ty.shape[dim] as usize;
    let mut order: Vec<usize> = (0..first.elements()).collect();
    for row in order.chunks_exact_mut(n) {
        merge_sort(row, &mut |i, j| match key {
            Some(key) => Ok(key.before(&rows, i, j)),
            None => before(&rows, i, j),
        })?;
    }
    let mut back = vec![0; rank];
    for (to, &from) in perm.iter().enumerate() {
        back[from] = to;
    }
    let restore = |(x, row): (&Tensor, &Tensor)| {
        let buffer = remake!(&row.buffer, v => order.iter().map(|&i| v[i]).collect());
        movement::transpose(&Tensor::new(row.ty.clone(), buffer), x.ty.clone(), &back)
    };
    Ok(operands.iter().zip(&rows).map(restore).collect())
}

/// The `k` largest of every row of the last dimension, in descending order, with their positions; of equal ones the first comes first.
pub(crate) fn top_k(x: Tensor, k: u64, values_ty: TensorType, indices_ty: TensorType) -> (Tensor, Tensor) {
    let x = x.dense();
    let n = x.ty.shape.last().map_or(1, |&n| n as usize);
    let t = x.ty.dtype;
    let descending = |i: &usize, j: &usize| -> Ordering {
        match &x.buffer {
            Buffer::F32(v) => v[*j].total_cmp(&v[*i]),
            Buffer::F64(v) => v[*j].total_cmp(&v[*i]),
            Buffer::Int(v) => compare_ints(t, v[*j], v[*i]),
            Buffer::Bool(v) => v[*j].cmp(&v[*i]),
            Buffer::Complex(v) => v[*j].re.total_cmp(&v[*i].re),
        }
    };
    let mut order: Vec<usize> = (0..x.elements()).collect();
    let mut chosen = Vec::new();
    if n > 0 {
        for row in order.chunks_exact_mut(n) {
            row.sort_by(descending);
            chosen.extend_from_slice(&row[..(k as usize).min(n)]);
        }
    }
    let positions = i64::pack(chosen.iter().map(|&i| (i % n.max(1)) as i64).collect());
    let values = remake!(&x.buffer, v => chosen.iter().map(|&i| v[i]).collect());
    (Tensor::new(values_ty, values), Tensor::new(indices_ty, positions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn top_k_is_stable_and_puts_nan_first() {
        let x = Tensor::from_f32s([2, 4], vec![1., 3., 3., 2., -1., f32::NAN, 0., -0.0]).unwrap();
        let (values, indices) = top_k(x, 3, TensorType::new(DType::F32, [2, 3]), TensorType::new(DType::I32, [2, 3]));
        assert_eq!(indices.to_i64s(), [1, 2, 3, 1, 2, 3]);
        assert_eq!(values.to_f64s()[..3], [3., 3., 2.]);
        assert!(values.to_f64s()[3].is_nan());
    }

    #[test]
    fn sorts_along_the_first_dimension_and_carries_the_rest() {
        let keys = Tensor::from_f32s([3, 2], vec![3., 1., 1., 2., 2., 1.]).unwrap();
        let values = Tensor::from_i64s(TensorType::new(DType::I32, [3, 2]), &[0, 1, 2, 3, 4, 5]).unwrap();
        let key = KeyComparison { operand: 0, direction: Direction::Lt, total: false, swapped: false };
        let sorted = sort::<()>(&[keys, values], 0, Some(&key), |_, _, _| Ok(false)).unwrap();
        assert_eq!(sorted[0].to_f64s(), [1., 1., 2., 1., 3., 2.]);
        assert_eq!(sorted[1].to_i64s(), [2, 1, 4, 5, 0, 3]);
    }

    #[test]
    fn a_comparator_that_is_no_order_does_no_harm() {
        let x = Tensor::from_f32s([5], vec![1., 2., 3., 4., 5.]).unwrap();
        let sorted = sort::<()>(&[x], 0, None, |_, _, _| Ok(true)).unwrap();
        let mut all = sorted[0].to_f64s();
        all.sort_by(f64::total_cmp);
        assert_eq!(all, [1., 2., 3., 4., 5.]);
    }
}
