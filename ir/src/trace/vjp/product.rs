//! Derivatives of matrix products and convolutions: products and convolutions again.
//!
//! The order of operands is the one whose result needs no transpose in the usual cases. Cotangents are taken in the operands' element type, as mixed
//! precision does: a product of `bf16` accumulated in `f32` is differentiated by products of `bf16`.

use super::movement::inverse;
use super::{Pulled, Site};
use crate::attention::Attention;
use crate::op::{ConvDims, DotDims, OpKind};
use crate::trace::Tensor;

pub(super) fn dot(site: &Site<'_>, ct: &Tensor, dims: &DotDims) -> Vec<Option<Tensor>> {
    let (a, b) = (&site.operands[0], &site.operands[1]);
    let ct = ct.convert(a.dtype());
    let (a_free, b_free) = (dims.lhs_free(a.rank()), dims.rhs_free(b.rank()));
    let batch = dims.lhs_batch.len();
    // Dimensions of the cotangent: batch, left free, right free.
    let ct_batch: Vec<usize> = (0..batch).collect();
    let ct_left: Vec<usize> = (batch..batch + a_free.len()).collect();
    let ct_right: Vec<usize> = (batch + a_free.len()..ct.rank()).collect();
    let left = site.wanted[0].then(|| {
        let product = DotDims { lhs_batch: ct_batch.clone(), rhs_batch: dims.rhs_batch.clone(), lhs_contract: ct_right, rhs_contract: b_free.clone() };
        // Its dimensions are batch, left free, and the summed ones in the order of the right operand.
        let mut summed: Vec<usize> = (0..dims.rhs_contract.len()).collect();
        summed.sort_by_key(|&i| dims.rhs_contract[i]);
        let order: Vec<usize> = dims.lhs_batch.iter().chain(&a_free).copied().chain(summed.iter().map(|&i| dims.lhs_contract[i])).collect();
        ct.dot_general(b, product, None).transpose(&inverse(&order))
    });
    let right = site.wanted[1].then(|| {
        let product = DotDims { lhs_batch: dims.lhs_batch.clone(), rhs_batch: ct_batch, lhs_contract: a_free, rhs_contract: ct_left };
        // Batch, the summed ones in the order of the left operand, right free.
        let mut summed: Vec<usize> = (0..dims.lhs_contract.len()).collect();
        summed.sort_by_key(|&i| dims.lhs_contract[i]);
        let order: Vec<usize> = dims.rhs_batch.iter().copied().chain(summed.iter().map(|&i| dims.rhs_contract[i])).chain(b_free).collect();
        a.dot_general(&ct, product, None).transpose(&inverse(&order))
    });
    vec![left, right]
}

/// Extent of `n` elements with gaps.
fn dilated(n: u64, by: u64) -> i64 {
    if n == 0 { 0 } else { (n as i64 - 1) * by as i64 + 1 }
}

/// Dimension `from` divided by `groups`; the groups become part of dimension `into`, as its outer factor.
fn regroup(x: &Tensor, from: usize, into: usize, groups: u64) -> Tensor {
    if groups == 1 {
        return x.clone();
    }
    let mut shape = x.shape().to_vec();
    shape.splice(from..=from, [groups, shape[from] / groups]);
    let split = x.reshape(shape);
    // The group dimension is moved before `into`.
    let target = if into < from { into } else { into + 1 };
    let mut perm: Vec<usize> = (0..split.rank()).filter(|&d| d != from).collect();
    let position = perm.iter().position(|&d| d == target).unwrap_or(0);
    perm.insert(position, from);
    let mut result = x.shape().to_vec();
    result[from] /= groups;
    result[into] *= groups;
    split.transpose(&perm).reshape(result)
}

/// As JAX does it: the operand's is a convolution of the dilated cotangent with the reversed kernel, the kernel's one of the operand with the cotangent.
pub(super) fn convolution(site: &Site<'_>, ct: &Tensor, dims: &ConvDims) -> Pulled {
    let (x, kernel) = (&site.operands[0], &site.operands[1]);
    let ct = &ct.convert(x.dtype());
    let spatial = dims.input_spatial.len();
    let reversed: Vec<i64> = (0..spatial).filter(|&i| dims.window.reversal.get(i).copied().unwrap_or(false)).map(|i| dims.kernel_spatial[i] as i64).collect();
    let w = &dims.window;
    let extent = |i: usize| {
        let input = dilated(x.shape()[dims.input_spatial[i]], w.base_dilation[i]);
        let window = dilated(kernel.shape()[dims.kernel_spatial[i]], w.window_dilation[i]);
        let output = dilated(ct.shape()[dims.output_spatial[i]], w.stride[i]);
        (input, window, output)
    };
    let left = site.wanted[0].then(|| {
        let mut new = dims.clone();
        for i in 0..spatial {
            let (input, window, output) = extent(i);
            let before = window - w.pad[i].0 - 1;
            new.window.pad[i] = (before, input + window - 1 - output - before);
            new.window.stride[i] = w.base_dilation[i];
            new.window.base_dilation[i] = w.stride[i];
        }
        new.window.reversal = vec![false; spatial];
        (new.input_batch, new.input_feature, new.input_spatial) = (dims.output_batch, dims.output_feature, dims.output_spatial.clone());
        (new.output_batch, new.output_feature, new.output_spatial) = (dims.input_batch, dims.input_feature, dims.input_spatial.clone());
        (new.kernel_input, new.kernel_output) = (dims.kernel_output, dims.kernel_input);
        let groups = dims.feature_groups.max(dims.batch_groups);
        (new.feature_groups, new.batch_groups) = (groups, 1);
        // A kernel that the convolution itself reverses is used as it is.
        let turned: Vec<i64> = dims.kernel_spatial.iter().map(|&d| d as i64).filter(|d| !reversed.contains(d)).collect();
        let turned = regroup(&kernel.reverse(&turned), dims.kernel_output, dims.kernel_input, groups);
        let pulled = ct.convolution(&turned, new);
        if dims.batch_groups > 1 { regroup(&pulled, dims.input_feature, dims.input_batch, dims.batch_groups) } else { pulled }
    });
    let right = site.wanted[1].then(|| {
        let mut new = dims.clone();
        for i in 0..spatial {
            let (input, window, output) = extent(i);
            new.window.pad[i] = (w.pad[i].0, output + window - input - 1 - w.pad[i].0);
            new.window.stride[i] = w.window_dilation[i];
            new.window.window_dilation[i] = w.stride[i];
        }
        new.window.reversal = vec![false; spatial];
        (new.input_batch, new.input_feature) = (dims.input_feature, dims.input_batch);
        (new.kernel_input, new.kernel_output, new.kernel_spatial) = (dims.output_batch, dims.output_feature, dims.output_spatial.clone());
        (new.output_batch, new.output_feature, new.output_spatial) = (dims.kernel_input, dims.kernel_output, dims.kernel_spatial.clone());
        (new.feature_groups, new.batch_groups) = (dims.batch_groups, dims.feature_groups);
        x.convolution(ct, new).reverse(&reversed)
    });
    Ok(vec![left, right])
}

/// Attention's own derivative, which computes the scores again. Its second result, a statistic of the rows, is for that alone.
pub(super) fn attention(site: &Site<'_>, ct: &Tensor, attention: &Attention) -> Pulled {
    if site.cotangents.get(1).is_some_and(Option::is_some) {
        return Err("only the result of an attention is differentiated, not its rows' logarithms".into());
    }
    let bias = attention.bias.is_some() && site.wanted[3] && site.operands[3].dtype().is_float();
    let [q, k, v] = [0, 1, 2].map(|i| &site.operands[i]);
    let operands: Vec<&Tensor> = [q, k, v, &site.results[0], &site.results[1], ct].into_iter().chain(&site.operands[3..]).collect();
    let kind = OpKind::AttentionGrad { attention: Box::new(attention.clone()), bias };
    let mut found: Vec<Option<Tensor>> = q.tracer().emit(kind, &operands, None, Vec::new()).into_iter().map(Some).collect();
    found.resize(site.operands.len(), None);
    Ok(found)
}
