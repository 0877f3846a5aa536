//! Derivatives of operations that move elements: the inverse movement, with zeros where nothing comes from.

use super::Site;
use crate::trace::Tensor;

/// The inverse of a permutation.
pub(super) fn inverse(perm: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; perm.len()];
    for (i, &p) in perm.iter().enumerate() {
        inverse[p] = i;
    }
    inverse
}

/// Summed over the dimensions that were new or repeated.
pub(super) fn broadcast(x: &Tensor, ct: &Tensor, dims: &[usize]) -> Tensor {
    let repeated = |i: usize| x.shape()[i] == 1 && ct.shape()[dims[i]] != 1;
    let summed: Vec<i64> = (0..ct.rank())
        .filter(|d| match dims.iter().position(|k| k == d) {
            Some(i) => repeated(i),
            None => true,
        })
        .map(|d| d as i64)
        .collect();
    let sum = ct.sum(&summed);
    // The dimensions that are left, in the operand's order.
    let kept: Vec<usize> = (0..dims.len()).filter(|&i| !repeated(i)).collect();
    let mut order: Vec<usize> = (0..kept.len()).collect();
    order.sort_by_key(|&k| dims[kept[k]]);
    sum.transpose(&inverse(&order)).reshape(x.shape())
}

pub(super) fn slice(x: &Tensor, ct: &Tensor, start: &[u64], stride: &[u64]) -> Tensor {
    let (mut low, mut high, mut interior) = (vec![], vec![], vec![]);
    for d in 0..x.rank() {
        let n = ct.shape()[d];
        let last = if n == 0 { start[d] } else { start[d] + (n - 1) * stride[d] + 1 };
        low.push(start[d] as i64);
        high.push(x.shape()[d] as i64 - last as i64);
        interior.push(stride[d] - 1);
    }
    ct.pad(0.0, &low, &high, &interior)
}

/// What was kept of the operand, and for the padding value the sum of the rest.
pub(super) fn pad(site: &Site<'_>, ct: &Tensor, low: &[i64], high: &[i64], interior: &[u64]) -> Vec<Option<Tensor>> {
    let x = &site.operands[0];
    let negated = |n: &[i64]| n.iter().map(|&k| -k).collect::<Vec<_>>();
    // Padding that was negative is put back as zeros, then what is left is cut.
    let whole = ct.pad(0.0, &negated(low), &negated(high), &vec![0; x.rank()]);
    let stride: Vec<u64> = interior.iter().map(|&k| k + 1).collect();
    let part = whole.slice(&vec![0; x.rank()], whole.shape(), &stride);
    let value = site.wanted[1].then(|| ct.sum_all() - part.sum_all());
    vec![site.wanted[0].then_some(part), value]
}

pub(super) fn concatenate(site: &Site<'_>, ct: &Tensor, dim: usize) -> Vec<Option<Tensor>> {
    let mut start = 0;
    site.operands
        .iter()
        .zip(site.wanted)
        .map(|(x, &wanted)| {
            let n = x.shape()[dim];
            start += n;
            wanted.then(|| ct.slice_dim(dim as i64, start - n, start))
        })
        .collect()
}

pub(super) fn dynamic_slice(site: &Site<'_>, ct: &Tensor) -> Vec<Option<Tensor>> {
    let starts: Vec<&Tensor> = site.operands[1..].iter().collect();
    let mut pulled = vec![None; site.operands.len()];
    pulled[0] = Some(site.operands[0].zeros_like().dynamic_update_slice(ct, &starts));
    pulled
}

pub(super) fn dynamic_update_slice(site: &Site<'_>, ct: &Tensor) -> Vec<Option<Tensor>> {
    let update = &site.operands[1];
    let starts: Vec<&Tensor> = site.operands[2..].iter().collect();
    let mut pulled = vec![None; site.operands.len()];
    pulled[0] = site.wanted[0].then(|| ct.dynamic_update_slice(&update.zeros_like(), &starts));
    pulled[1] = site.wanted[1].then(|| ct.dynamic_slice(&starts, update.shape()));
    pulled
}
