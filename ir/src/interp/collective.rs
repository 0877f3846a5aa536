//! Collectives, by their definition, over what all devices hold at the same op.
//!
//! A block of a dimension of size `n` over `k` devices has `ceil(n / k)` entries. Gathering blocks gives `k` times as many and the declared result size cuts
//! the padding off; cutting pads to a multiple first, with the reducer's neutral element or zero. Devices are combined in the order of their group.

use super::movement;
use super::reduction::combine;
use super::tensor::{Precision, Tensor, settle};
use crate::dtype::TensorType;
use crate::op::{OpKind, Reducer};
use crate::sharding::{AxisId, Mesh};

/// What makes a collective impossible, for a message.
pub(crate) type Reason = String;

/// The tensors of the group of `device` along `axes`, in the order of the group.
fn group<'a>(mesh: &Mesh, device: u32, axes: &[AxisId], all: &'a [Tensor]) -> Vec<&'a Tensor> {
    mesh.group_of(device, axes).into_iter().map(|d| &all[d as usize]).collect()
}

fn reduce_group(tensors: &[&Tensor], reducer: Reducer) -> Result<Tensor, Reason> {
    let (first, rest) = tensors.split_first().ok_or("an empty group of devices")?;
    let t = first.ty.dtype;
    let mut sum = first.buffer.clone();
    for x in rest {
        sum = combine(reducer, t, sum, x.buffer.clone()).ok_or_else(|| format!("a reduction by {reducer:?} of {t}"))?;
    }
    Ok(Tensor::new(first.ty.clone(), settle(t, sum)))
}

/// Block `index` of `count` of a dimension, after padding with `fill` to a multiple.
fn block(x: &Tensor, dim: usize, index: u64, count: u64, fill: f64, precision: Precision) -> Tensor {
    let n = x.ty.shape[dim];
    let size = n.div_ceil(count);
    let mut padded = x.ty.clone();
    padded.shape[dim] = size * count;
    let fill = Tensor::splat(TensorType::scalar(x.ty.dtype), fill).in_precision(precision);
    let whole = if padded == x.ty { x.clone() } else { movement::pad(x, &fill, padded.clone(), &vec![0; padded.rank()], &vec![0; padded.rank()]) };
    let mut ty = padded;
    ty.shape[dim] = size;
    let mut start = vec![0; ty.rank()];
    start[dim] = index * size;
    let ones = vec![1; ty.rank()];
    movement::slice(&whole, ty, &start, &ones)
}

/// Tensors joined along `dim`, then cut to the size of `ty` there.
fn join(parts: &[Tensor], dim: usize, ty: &TensorType) -> Result<Tensor, Reason> {
    let mut joined = ty.clone();
    joined.shape[dim] = parts.iter().map(|p| p.ty.shape[dim]).sum();
    if joined.shape[dim] < ty.shape[dim] {
        return Err(format!("joined blocks of {} entries, of which the result declares {}", joined.shape[dim], ty.shape[dim]));
    }
    let whole = movement::concatenate(parts, joined, dim);
    let (start, ones) = (vec![0; ty.rank()], vec![1; ty.rank()]);
    Ok(if whole.ty == *ty { whole } else { movement::slice(&whole, ty.clone(), &start, &ones) })
}

/// What `device` gets from a collective whose operand is `all[d]` on device `d`.
pub(crate) fn collective(kind: &OpKind, mesh: &Mesh, device: u32, all: &[Tensor], ty: &TensorType, precision: Precision) -> Result<Tensor, Reason> {
    let me = |axes: &[AxisId]| (u64::from(mesh.linear_coordinate(device, axes)), u64::from(mesh.group_size(axes)));
    match kind {
        OpKind::AllReduce { axes, reducer } => reduce_group(&group(mesh, device, axes, all), *reducer),
        OpKind::AllGather { axes, dim } => {
            let parts: Vec<Tensor> = group(mesh, device, axes, all).into_iter().cloned().collect();
            join(&parts, *dim, ty)
        }
        OpKind::ReduceScatter { axes, dim, reducer } => {
            let sum = reduce_group(&group(mesh, device, axes, all), *reducer)?;
            let (index, count) = me(axes);
            let neutral = reducer.neutral(sum.ty.dtype).ok_or_else(|| format!("a reduction by {reducer:?}"))?;
            Ok(block(&sum, *dim, index, count, neutral, precision))
        }
        OpKind::AllToAll { axes, split, concat } => {
            let (index, count) = me(axes);
            let parts: Vec<Tensor> = group(mesh, device, axes, all).into_iter().map(|x| block(x, *split, index, count, 0.0, precision)).collect();
            join(&parts, *concat, ty)
        }
        OpKind::ShardSlice { axes, dim } => {
            let (index, count) = me(axes);
            Ok(block(&all[device as usize], *dim, index, count, 0.0, precision))
        }
        kind => Err(format!("{kind:?}, which is no collective")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    fn t(values: &[f32]) -> Tensor {
        Tensor::from_f32s([values.len() as u64], values.to_vec()).unwrap()
    }
    fn ty(n: u64) -> TensorType {
        TensorType::new(DType::F32, [n])
    }

    fn all(kind: &OpKind, mesh: &Mesh, values: &[Tensor], n: u64) -> Vec<Vec<f64>> {
        (0..mesh.devices()).map(|d| collective(kind, mesh, d, values, &ty(n), Precision::AsTyped).unwrap().to_f64s()).collect()
    }

    #[test]
    fn reductions_along_one_axis_of_two() {
        let mesh = Mesh::new(&[2, 2]);
        let x: Vec<Tensor> = (0..4).map(|d| t(&[d as f32])).collect();
        let sum = |axes: &[AxisId]| all(&OpKind::AllReduce { axes: axes.to_vec(), reducer: Reducer::Add }, &mesh, &x, 1);
        assert_eq!(sum(&[AxisId(0)]), [[2.], [4.], [2.], [4.]]);
        assert_eq!(sum(&[AxisId(1)]), [[1.], [1.], [5.], [5.]]);
        assert_eq!(sum(&[AxisId(0), AxisId(1)]), [[6.], [6.], [6.], [6.]]);
    }

    #[test]
    fn gathering_cuts_padding() {
        let mesh = Mesh::new(&[2]);
        let x = [t(&[1., 2.]), t(&[3., 99.])];
        let kind = OpKind::AllGather { axes: vec![AxisId(0)], dim: 0 };
        assert_eq!(all(&kind, &mesh, &x, 3), [[1., 2., 3.], [1., 2., 3.]]);
        assert!(collective(&kind, &mesh, 0, &x, &ty(5), Precision::AsTyped).is_err());
    }

    #[test]
    fn scattering_pads_with_the_neutral_element() {
        let mesh = Mesh::new(&[2]);
        let x = [t(&[1., 2., 3.]), t(&[4., 5., 6.])];
        let kind = OpKind::ReduceScatter { axes: vec![AxisId(0)], dim: 0, reducer: Reducer::Max };
        assert_eq!(all(&kind, &mesh, &x, 2), [[4., 5.], [6., f64::NEG_INFINITY]]);
        let slice = OpKind::ShardSlice { axes: vec![AxisId(0)], dim: 0 };
        assert_eq!(all(&slice, &mesh, &x, 2), [[1., 2.], [6., 0.]]);
    }

    #[test]
    fn all_to_all_transposes_blocks() {
        let mesh = Mesh::new(&[2]);
        let x: Vec<Tensor> = (0..2).map(|d| Tensor::from_f32s([1, 4], (0..4).map(|i| (d * 10 + i) as f32).collect()).unwrap()).collect();
        let kind = OpKind::AllToAll { axes: vec![AxisId(0)], split: 1, concat: 0 };
        let ty = TensorType::new(DType::F32, [2, 2]);
        let got: Vec<Vec<f64>> = (0..2).map(|d| collective(&kind, &mesh, d, &x, &ty, Precision::AsTyped).unwrap().to_f64s()).collect();
        assert_eq!(got, [[0., 1., 10., 11.], [2., 3., 12., 13.]]);
    }
}
