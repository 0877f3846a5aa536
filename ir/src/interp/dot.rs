//! `dot_general` and `convolution`, as products over index tables.
//!
//! A convolution pads its input as the definition says (edges, negative edges, dilation); after that the input element of output position `m` and
//! window position `k` is at the sum of an offset for each, so no patches are copied. Sums run over the window, then the input features.

use super::movement;
use super::product::{Offsets, blocked, offsets};
use super::tensor::{Buffer, Class, Element, Tensor, settle};
use crate::dtype::TensorType;
use crate::op::{ConvDims, DotDims};

/// Sizes and strides of the dimensions `which`, in that order.
fn pick(shape: &[u64], which: &[usize]) -> Vec<(usize, usize)> {
    let strides = crate::dtype::row_major_strides(shape);
    which.iter().map(|&d| (shape[d] as usize, strides[d] as usize)).collect()
}

pub(crate) fn dot_offsets(lhs: &[u64], rhs: &[u64], dims: &DotDims) -> (Offsets, Offsets) {
    let left = Offsets {
        batch: offsets(&pick(lhs, &dims.lhs_batch)),
        free: offsets(&pick(lhs, &dims.lhs_free(lhs.len()))),
        contract: offsets(&pick(lhs, &dims.lhs_contract)),
    };
    let right = Offsets {
        batch: offsets(&pick(rhs, &dims.rhs_batch)),
        free: offsets(&pick(rhs, &dims.rhs_free(rhs.len()))),
        contract: offsets(&pick(rhs, &dims.rhs_contract)),
    };
    (left, right)
}

/// Multiplies in class `class` and rounds to the element type of `ty`.
fn multiply(lhs: Tensor, l: &Offsets, rhs: Tensor, r: &Offsets, ty: &TensorType, class: Class) -> Buffer {
    let (lhs, rhs) = (lhs.dense().buffer.into_class(class), rhs.dense().buffer.into_class(class));
    let out = match (&lhs, &rhs) {
        (Buffer::F32(a), Buffer::F32(b)) => f32::pack(blocked(a, l, b, r)),
        (Buffer::F64(a), Buffer::F64(b)) => f64::pack(blocked(a, l, b, r)),
        (Buffer::Int(a), Buffer::Int(b)) => i64::pack(blocked(a, l, b, r)),
        (Buffer::Bool(a), Buffer::Bool(b)) => bool::pack(blocked(a, l, b, r)),
        (Buffer::Complex(a), Buffer::Complex(b)) => Element::pack(blocked(a, l, b, r)),
        _ => unreachable!("invariant: both operands were just brought into one class"),
    };
    settle(ty.dtype, out)
}

/// `dot_general`: the result is batch, left free, right free dimensions. Narrow floats are summed in `f32` and rounded once.
pub(crate) fn dot(lhs: Tensor, rhs: Tensor, dims: &DotDims, ty: TensorType, class: Class) -> Tensor {
    let (l, r) = dot_offsets(&lhs.ty.shape, &rhs.ty.shape, dims);
    let buffer = multiply(lhs, &l, rhs, &r, &ty, class);
    Tensor::new(ty, buffer)
}

/// The groups of a convolution: how many, and how far apart they are in the input and in the kernel.
fn groups(c: &ConvDims, input: &[(usize, usize)], kernel: &[(usize, usize)]) -> (usize, usize, usize) {
    let count = c.feature_groups.max(c.batch_groups) as usize;
    let (size, stride) = if c.batch_groups > 1 { input[c.input_batch] } else { input[c.input_feature] };
    let (outputs, out_stride) = kernel[c.kernel_output];
    (count, size / count * stride, outputs / count * out_stride)
}

pub(crate) fn convolution(x: Tensor, kernel: Tensor, c: &ConvDims, ty: TensorType, class: Class) -> Tensor {
    let rank = x.ty.rank();
    let w = &c.window;
    // The padded, dilated input.
    let (mut low, mut interior, mut padded) = (vec![0; rank], vec![0; rank], x.ty.clone());
    for (s, &d) in c.input_spatial.iter().enumerate() {
        let n = x.ty.shape[d];
        let dilated = if n == 0 { 0 } else { (n - 1) * w.base_dilation[s] + 1 };
        low[d] = w.pad[s].0;
        interior[d] = w.base_dilation[s] - 1;
        padded.shape[d] = (dilated as i64 + w.pad[s].0 + w.pad[s].1).max(0) as u64;
    }
    let zero = Tensor::zeros(TensorType::scalar(x.ty.dtype));
    let zero = Tensor::new(zero.ty, zero.buffer.into_class(x.buffer.class()));
    // Dilation and a negative pad may give back the shape, but not the elements.
    let untouched = padded == x.ty && low.iter().all(|l| *l == 0) && interior.iter().all(|n| *n == 0);
    let x = if untouched { x } else { movement::pad(&x, &zero, padded, &low, &interior) };

    let all: Vec<usize> = (0..rank).collect();
    let (input, taps) = (pick(&x.ty.shape, &all), pick(&kernel.ty.shape, &all));
    let (count, input_step, kernel_step) = groups(c, &input, &taps);
    // Left: batch and spatial output positions by window positions and input features.
    let mut free = vec![(ty.shape[c.output_batch] as usize, input[c.input_batch].1)];
    let (mut left_window, mut right_window, mut reversed) = (Vec::new(), Vec::new(), 0);
    for (s, (&i, &k)) in c.input_spatial.iter().zip(&c.kernel_spatial).enumerate() {
        let (size, stride) = taps[k];
        free.push((ty.shape[c.output_spatial[s]] as usize, input[i].1 * w.stride[s] as usize));
        left_window.push((size, input[i].1 * w.window_dilation[s] as usize));
        right_window.push((size, stride));
        if w.reversal.get(s) == Some(&true) {
            reversed |= 1usize << s;
        }
    }
    let features = taps[c.kernel_input].0;
    left_window.push((features, input[c.input_feature].1));
    let l = Offsets { batch: (0..count).map(|g| g * input_step).collect(), free: offsets(&free), contract: offsets(&left_window) };
    let window: Vec<usize> = (0..right_window.len()).fold(vec![0], |outer, s| {
        let (n, stride) = right_window[s];
        let tap = move |i: usize| if reversed >> s & 1 == 1 { (n - 1 - i) * stride } else { i * stride };
        outer.iter().flat_map(|&o| (0..n).map(move |i| o + tap(i))).collect()
    });
    let input_stride = taps[c.kernel_input].1;
    let r = Offsets {
        batch: (0..count).map(|g| g * kernel_step).collect(),
        free: (0..taps[c.kernel_output].0 / count).map(|o| o * taps[c.kernel_output].1).collect(),
        contract: window.iter().flat_map(|&o| (0..features).map(move |i| o + i * input_stride)).collect(),
    };
    let outputs = r.free.len() as u64;
    let product = multiply(x, &l, kernel, &r, &ty, class);

    // The product is [group, batch, spatial…, feature of group]; bring it into the output's order.
    let mut shape = vec![count as u64];
    shape.extend(free.iter().map(|f| f.0 as u64));
    shape.push(outputs);
    let mut perm = Vec::with_capacity(rank + 1);
    let mut permuted = Vec::with_capacity(rank + 1);
    for d in 0..rank {
        if d == c.output_feature {
            perm.extend([0, rank]);
            permuted.extend([count as u64, outputs]);
        } else {
            let from = if d == c.output_batch { 1 } else { 2 + c.output_spatial.iter().position(|&s| s == d).unwrap_or(0) };
            perm.push(from);
            permuted.push(shape[from]);
        }
    }
    let grouped = Tensor::new(ty.with_shape(&shape), product);
    let ordered = movement::transpose(&grouped, ty.with_shape(&permuted), &perm);
    movement::reshape(ordered, ty)
}

#[cfg(test)]
mod tests {
    use super::super::product::naive;
    use super::*;
    use crate::dtype::DType;
    use crate::op::Window;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Numbers that are small multiples of a power of two, so that products and sums are exact and repeat.
    fn sample(shape: &[u64], seed: u64) -> Tensor {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let n: u64 = shape.iter().product();
        let values = (0..n).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 22) as f32 - 2.0
        });
        Tensor::from_f32s(shape, values.collect()).unwrap()
    }
    fn ty(shape: &[u64]) -> TensorType {
        TensorType::new(DType::F32, shape)
    }
    fn bits(t: &Tensor) -> Vec<u8> {
        t.to_bytes()
    }

    #[test]
    fn matrix_product_by_hand() {
        let a = Tensor::from_f32s([2, 3], vec![1., 2., 3., 4., 5., 6.]).unwrap();
        let b = Tensor::from_f32s([3, 2], vec![7., 8., 9., 10., 11., 12.]).unwrap();
        let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
        assert_eq!(dot(a, b, &dims, ty(&[2, 2]), Class::F32).to_f64s(), [58., 64., 139., 154.]);
    }

    #[test]
    fn blocked_form_has_the_bits_of_the_naive_one() {
        let cases: [(&[u64], &[u64], DotDims); 5] = [
            (&[7, 300], &[300, 19], DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() }),
            (&[300, 7], &[33, 300], DotDims { lhs_contract: vec![0], rhs_contract: vec![1], ..DotDims::default() }),
            (&[3, 5, 4], &[5, 3, 6, 4], DotDims { lhs_batch: vec![0, 1], rhs_batch: vec![1, 0], lhs_contract: vec![2], rhs_contract: vec![3] }),
            (&[2, 3, 4], &[4, 2, 5], DotDims { lhs_contract: vec![0, 2], rhs_contract: vec![1, 0], ..DotDims::default() }),
            (&[170, 170], &[170, 170], DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() }),
        ];
        for (l, r, dims) in cases {
            let (a, b) = (sample(l, 1), sample(r, 2));
            let (lo, ro) = dot_offsets(l, r, &dims);
            let shape = [lo.batch.len() as u64, lo.free.len() as u64, ro.free.len() as u64];
            let (Buffer::F32(x), Buffer::F32(y)) = (&a.buffer, &b.buffer) else { panic!() };
            let want = Tensor::new(ty(&shape), f32::pack(naive(x, &lo, y, &ro)));
            assert_eq!(bits(&dot(a, b, &dims, ty(&shape), Class::F32)), bits(&want), "{dims:?}");
        }
    }

    #[test]
    fn narrow_floats_are_summed_in_f32() {
        let t = TensorType::new(DType::BF16, [1, 256]);
        let ones = Tensor::splat(t.clone(), 1.0);
        let small = Tensor::splat(t, 1.0 + 1.0 / 128.0);
        let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![1], ..DotDims::default() };
        assert_eq!(dot(ones, small, &dims, TensorType::new(DType::BF16, [1, 1]), Class::F32).to_f64s(), [258.0]);
    }

    #[test]
    fn integers_and_booleans_multiply() {
        let a = Tensor::from_i64s(TensorType::new(DType::I8, [1, 2]), &[100, 100]).unwrap();
        let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![1], ..DotDims::default() };
        assert_eq!(dot(a.clone(), a.clone(), &dims, TensorType::new(DType::I32, [1, 1]), Class::Int).to_f64s(), [20000.0]);
        assert_eq!(dot(a.clone(), a, &dims, TensorType::new(DType::I8, [1, 1]), Class::Int).to_f64s(), [32.0]);
    }

    /// The definition, literally: every output element, window position and feature, with zeros outside.
    fn convolution_by_definition(x: &Tensor, kernel: &Tensor, c: &ConvDims, out: &TensorType) -> Tensor {
        let (xs, ks) = (x.ty.strides(), kernel.ty.strides());
        let (xv, kv) = (x.to_f64s(), kernel.to_f64s());
        let w = &c.window;
        let spatial = c.input_spatial.len();
        let features = kernel.ty.shape[c.kernel_input];
        let per_group = out.shape[c.output_feature] / c.feature_groups.max(c.batch_groups);
        let mut values = Vec::new();
        for i in 0..out.elements() {
            let index: Vec<u64> = out.strides().iter().zip(&out.shape).map(|(s, n)| i / s % n).collect();
            let o = index[c.output_feature];
            let group = o / per_group;
            let windows: u64 = c.kernel_spatial.iter().map(|&d| kernel.ty.shape[d]).product();
            let mut sum = 0f32;
            for k in 0..windows {
                let (mut rest, mut at, mut tap, mut inside) = (k, 0i64, 0, true);
                for s in (0..spatial).rev() {
                    let size = kernel.ty.shape[c.kernel_spatial[s]];
                    let position = rest % size;
                    rest /= size;
                    tap += ks[c.kernel_spatial[s]] * if w.reversal[s] { size - 1 - position } else { position };
                    let p = (index[c.output_spatial[s]] * w.stride[s] + position * w.window_dilation[s]) as i64 - w.pad[s].0;
                    let (step, n) = (w.base_dilation[s] as i64, x.ty.shape[c.input_spatial[s]] as i64);
                    inside &= p >= 0 && p % step == 0 && p / step < n;
                    at += p / step * xs[c.input_spatial[s]] as i64;
                }
                for f in 0..features {
                    let batch = index[c.output_batch] + if c.batch_groups > 1 { group * out.shape[c.output_batch] } else { 0 };
                    let feature = f + if c.feature_groups > 1 { group * features } else { 0 };
                    let from = at + (batch * xs[c.input_batch] + feature * xs[c.input_feature]) as i64;
                    let input = if inside { xv[from as usize] as f32 } else { 0.0 };
                    sum += input * kv[(tap + f * ks[c.kernel_input] + o * ks[c.kernel_output]) as usize] as f32;
                }
            }
            values.push(sum);
        }
        Tensor::from_f32s(out.shape.clone(), values).unwrap()
    }

    fn window(spatial: usize) -> Window {
        Window {
            size: vec![],
            stride: vec![1; spatial],
            pad: vec![(0, 0); spatial],
            base_dilation: vec![1; spatial],
            window_dilation: vec![1; spatial],
            reversal: vec![false; spatial],
        }
    }

    fn check(x: &[u64], k: &[u64], out: &[u64], c: &ConvDims) {
        let (x, k) = (sample(x, 3), sample(k, 4));
        let want = convolution_by_definition(&x, &k, c, &ty(out));
        assert_eq!(convolution(x, k, c, ty(out), Class::F32).to_f64s(), want.to_f64s(), "{c:?}");
    }

    #[test]
    fn convolutions_agree_with_the_definition() {
        let nhwc = ConvDims {
            input_batch: 0,
            input_feature: 3,
            input_spatial: vec![1, 2],
            kernel_input: 2,
            kernel_output: 3,
            kernel_spatial: vec![0, 1],
            output_batch: 0,
            output_feature: 3,
            output_spatial: vec![1, 2],
            window: window(2),
            feature_groups: 1,
            batch_groups: 1,
        };
        let mut c = nhwc.clone();
        check(&[2, 5, 6, 3], &[3, 2, 3, 4], &[2, 3, 5, 4], &c);
        c.window.pad = vec![(1, 1), (0, 1)];
        c.window.stride = vec![2, 1];
        check(&[2, 5, 6, 3], &[3, 2, 3, 4], &[2, 3, 6, 4], &c);
        c.window.reversal = vec![true, false];
        c.window.window_dilation = vec![1, 2];
        check(&[2, 5, 6, 3], &[3, 2, 3, 4], &[2, 3, 5, 4], &c);
        let mut c = nhwc.clone();
        c.window.base_dilation = vec![2, 1];
        c.window.pad = vec![(-1, 2), (0, -1)];
        check(&[2, 5, 6, 3], &[3, 2, 3, 4], &[2, 8, 4, 4], &c);
        // Dilation and a negative pad that together give back the shape.
        let mut c = nhwc.clone();
        c.window.base_dilation = vec![2, 1];
        c.window.pad = vec![(0, -1), (0, 0)];
        check(&[1, 2, 3, 1], &[1, 1, 1, 1], &[1, 2, 3, 1], &c);
        c.window.pad = vec![(-4, 0), (0, 0)];
        check(&[2, 5, 6, 3], &[3, 2, 3, 4], &[2, 3, 5, 4], &c);
        let mut c = nhwc.clone();
        c.feature_groups = 3;
        check(&[2, 4, 4, 6], &[2, 2, 2, 9], &[2, 3, 3, 9], &c);
        let mut c = nhwc.clone();
        c.batch_groups = 2;
        check(&[4, 4, 4, 3], &[2, 2, 3, 6], &[2, 3, 3, 6], &c);
        // Other dimension orders: the gradient of a kernel sums over the batch.
        let c = ConvDims {
            input_batch: 3,
            input_feature: 0,
            input_spatial: vec![1, 2],
            kernel_input: 0,
            kernel_output: 3,
            kernel_spatial: vec![1, 2],
            output_batch: 2,
            output_feature: 3,
            output_spatial: vec![0, 1],
            window: Window { pad: vec![(1, 1), (1, 1)], ..window(2) },
            feature_groups: 1,
            batch_groups: 1,
        };
        check(&[2, 5, 6, 3], &[2, 5, 6, 4], &[3, 3, 3, 4], &c);
    }

    #[test]
    fn a_convolution_without_window_is_a_matrix_product() {
        let c = ConvDims {
            input_batch: 0,
            input_feature: 1,
            input_spatial: vec![],
            kernel_input: 0,
            kernel_output: 1,
            kernel_spatial: vec![],
            output_batch: 0,
            output_feature: 1,
            output_spatial: vec![],
            window: window(0),
            feature_groups: 1,
            batch_groups: 1,
        };
        check(&[3, 4], &[4, 5], &[3, 5], &c);
    }

    /// A dimension order and which of them are batching, contracted and free.
    fn dimensions(batch: &[u64], contract: &[u64], free: &[u64], order: u64) -> (Vec<u64>, Vec<usize>, Vec<usize>) {
        let mut tagged: Vec<(u64, usize)> = [batch, contract, free].concat().into_iter().zip(0..).collect();
        let n = tagged.len();
        let mut state = order;
        for i in (1..n).rev() {
            tagged.swap(i, (state % (i as u64 + 1)) as usize);
            state /= i as u64 + 1;
        }
        let find = |tag: usize| tagged.iter().position(|t| t.1 == tag).unwrap();
        let shape = tagged.iter().map(|t| t.0).collect();
        (shape, (0..batch.len()).map(find).collect(), (batch.len()..batch.len() + contract.len()).map(find).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_product_has_the_bits_of_the_naive_one(
            batch in vec(1u64..4, 0..3),
            contract in vec(0u64..40, 0..3),
            left in vec(1u64..20, 0..3),
            right in vec(1u64..20, 0..3),
            orders in (any::<u64>(), any::<u64>()),
        ) {
            let (lhs, lhs_batch, lhs_contract) = dimensions(&batch, &contract, &left, orders.0);
            let (rhs, rhs_batch, rhs_contract) = dimensions(&batch, &contract, &right, orders.1);
            let dims = DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract };
            let (a, b) = (sample(&lhs, 5), sample(&rhs, 6));
            let (l, r) = dot_offsets(&lhs, &rhs, &dims);
            let shape = [l.batch.len() as u64, l.free.len() as u64, r.free.len() as u64];
            let (x, y) = (f32::unpack(&a.buffer).unwrap(), f32::unpack(&b.buffer).unwrap());
            let want = Tensor::new(ty(&shape), f32::pack(naive(x, &l, y, &r)));
            let double = |t: &Tensor| t.to_f64s();
            let want_f64 = naive(&double(&a), &l, &double(&b), &r);
            let f64_ty = TensorType::new(DType::F64, shape);
            let exact = dot(a.clone(), b.clone(), &dims, f64_ty, Class::F64);
            prop_assert_eq!(bits(&dot(a, b, &dims, ty(&shape), Class::F32)), bits(&want));
            prop_assert_eq!(exact.to_f64s(), want_f64);
        }

        #[test]
        fn any_convolution_agrees_with_the_definition(
            sizes in (1u64..4, 1u64..7, 1u64..7),
            taps in (1u64..4, 1u64..4),
            features in (1u64..4, 1u64..4, 1u64..3),
            steps in ((1u64..3, 1u64..3), (1u64..3, 1u64..3), (1u64..3, 1u64..3)),
            pads in ((-1i64..3, -1i64..3), (-1i64..3, -1i64..3)),
            reversal in (any::<bool>(), any::<bool>()),
            groups_of_batch in any::<bool>(),
        ) {
            let (batch, inputs, outputs, groups) = (sizes.0, features.0, features.1, features.2);
            let ((s0, s1), (b0, b1), (w0, w1)) = steps;
            let extent = |n: u64, base: u64, pad: (i64, i64), tap: u64, dilation: u64, stride: u64| {
                let span = ((n - 1) * base + 1) as i64 + pad.0 + pad.1 - ((tap - 1) * dilation + 1) as i64;
                if span < 0 { 0 } else { span as u64 / stride + 1 }
            };
            let c = ConvDims {
                input_batch: 0,
                input_feature: 3,
                input_spatial: vec![1, 2],
                kernel_input: 2,
                kernel_output: 3,
                kernel_spatial: vec![0, 1],
                output_batch: 3,
                output_feature: 1,
                output_spatial: vec![2, 0],
                window: Window {
                    size: vec![],
                    stride: vec![s0, s1],
                    pad: vec![pads.0, pads.1],
                    base_dilation: vec![b0, b1],
                    window_dilation: vec![w0, w1],
                    reversal: vec![reversal.0, reversal.1],
                },
                feature_groups: if groups_of_batch { 1 } else { groups },
                batch_groups: if groups_of_batch { groups } else { 1 },
            };
            let (h, w) = (extent(sizes.1, b0, pads.0, taps.0, w0, s0), extent(sizes.2, b1, pads.1, taps.1, w1, s1));
            let x = [batch * c.batch_groups, sizes.1, sizes.2, inputs * c.feature_groups];
            check(&x, &[taps.0, taps.1, inputs, outputs * groups], &[w, outputs * groups, h, batch], &c);
        }
    }
}
