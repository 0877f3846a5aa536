//! Convolution as matrix products: blocks of input patches times the kernel.
//!
//! Rows of the patch matrix are (batch, output position), columns (kernel position, input feature); the kernel is packed to match once per group and call.
//! Every layout, stride, dilation (of the input too), reversal and grouping is expressed by where a patch element is read. `f64` is computed in `f64`,
//! everything narrower in `f32`. The patch block, the packed kernel and the result block lie in the device's scratch, whose size is fixed when loading.

use super::Scratch;
use crate::element::Element;
use gemm::Parallelism;
use half::{bf16, f16};
use ir::op::ConvDims;
use ir::{DType, TensorType};

/// Bytes that a block of patches aims at.
const PATCH_BYTES: usize = 1 << 20;

/// One spatial dimension.
#[derive(Clone, Copy, Debug)]
struct Spatial {
    input: i64,
    input_stride: usize,
    kernel: usize,
    kernel_stride: usize,
    output: usize,
    output_stride: usize,
    stride: i64,
    low: i64,
    base_dilation: i64,
    window_dilation: i64,
    reversed: bool,
}

/// A prepared convolution.
pub(in crate::device::cpu) struct Convolution {
    dtype: DType,
    spatial: Vec<Spatial>,
    feature_groups: usize,
    batch_groups: usize,
    /// Per group: batch entries, input features, output features.
    batch: usize,
    input_features: usize,
    output_features: usize,
    input_strides: (usize, usize),
    kernel_strides: (usize, usize),
    output_strides: (usize, usize),
    rows_per_block: usize,
    columns: usize,
    wide_bytes: usize,
}

impl Convolution {
    pub(super) fn new(c: &ConvDims, operands: &[TensorType], result: &TensorType, scratch: &mut Scratch) -> Result<Convolution, String> {
        let (input, kernel) = (&operands[0], &operands[1]);
        if !matches!(input.dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16) || kernel.dtype != input.dtype || result.dtype != input.dtype {
            return Err(format!("it takes {} and {} to {}", input.dtype, kernel.dtype, result.dtype));
        }
        let n = c.input_spatial.len();
        let w = &c.window;
        if n > 8 || [c.kernel_spatial.len(), c.output_spatial.len(), w.stride.len(), w.pad.len()] != [n; 4] || input.rank() != n + 2 || result.rank() != n + 2 {
            return Err("its window does not match its operands".into());
        }
        let (si, sk, so) = (input.strides(), kernel.strides(), result.strides());
        let spatial: Vec<Spatial> = (0..n)
            .map(|d| {
                let (i, k, o) = (c.input_spatial[d], c.kernel_spatial[d], c.output_spatial[d]);
                Spatial {
                    input: input.shape[i] as i64,
                    input_stride: si[i] as usize,
                    kernel: kernel.shape[k] as usize,
                    kernel_stride: sk[k] as usize,
                    output: result.shape[o] as usize,
                    output_stride: so[o] as usize,
                    stride: w.stride[d] as i64,
                    low: w.pad[d].0,
                    base_dilation: w.base_dilation.get(d).map_or(1, |x| *x as i64),
                    window_dilation: w.window_dilation.get(d).map_or(1, |x| *x as i64),
                    reversed: w.reversal.get(d).copied().unwrap_or(false),
                }
            })
            .collect();
        let (feature_groups, batch_groups) = (c.feature_groups.max(1) as usize, c.batch_groups.max(1) as usize);
        let groups = feature_groups * batch_groups;
        let input_features = kernel.shape[c.kernel_input] as usize;
        let outputs = kernel.shape[c.kernel_output] as usize;
        let batch = input.shape[c.input_batch] as usize / batch_groups;
        let fits = outputs % groups == 0
            && input.shape[c.input_feature] as usize == input_features * feature_groups
            && result.shape[c.output_feature] as usize == outputs
            && result.shape[c.output_batch] as usize == batch
            && (feature_groups == 1 || batch_groups == 1);
        if !fits {
            return Err("its groups do not match its operands".into());
        }
        let wide_bytes = if input.dtype == DType::F64 { 8 } else { 4 };
        let columns = spatial.iter().map(|s| s.kernel).product::<usize>() * input_features;
        let rows = batch * spatial.iter().map(|s| s.output).product::<usize>();
        let rows_per_block = (PATCH_BYTES / (columns * wide_bytes).max(1)).clamp(16, rows.max(16));
        let output_features = outputs / groups;
        scratch.reserve((rows_per_block * columns + columns * output_features + rows_per_block * output_features) * wide_bytes);
        Ok(Convolution {
            dtype: input.dtype,
            spatial,
            feature_groups,
            batch_groups,
            batch,
            input_features,
            output_features,
            input_strides: (si[c.input_batch] as usize, si[c.input_feature] as usize),
            kernel_strides: (sk[c.kernel_input] as usize, sk[c.kernel_output] as usize),
            output_strides: (so[c.output_batch] as usize, so[c.output_feature] as usize),
            rows_per_block,
            columns,
            wide_bytes,
        })
    }

    /// # Safety
    /// As [`Routine::run`](super::Routine::run).
    pub(super) unsafe fn run(&self, parameters: &[*mut u8], scratch: &mut Scratch) {
        let &[input, kernel, result] = parameters else { return };
        // SAFETY: as the caller vouches; `u64` is at least as aligned as `f64`.
        unsafe {
            let length = scratch.block.len() * 8 / self.wide_bytes;
            match self.dtype {
                DType::F64 => {
                    self.groups::<f64>(
                        input.cast(),
                        kernel.cast(),
                        result.cast(),
                        std::slice::from_raw_parts_mut(scratch.block.as_mut_ptr().cast(), length),
                        1.0,
                    );
                }
                t => {
                    let wide = std::slice::from_raw_parts_mut(scratch.block.as_mut_ptr().cast::<f32>(), length);
                    match t {
                        DType::BF16 => self.groups::<bf16>(input.cast(), kernel.cast(), result.cast(), wide, 1.0),
                        DType::F16 => self.groups::<f16>(input.cast(), kernel.cast(), result.cast(), wide, 1.0),
                        _ => self.groups::<f32>(input.cast(), kernel.cast(), result.cast(), wide, 1.0),
                    }
                }
            }
        }
    }

    /// # Safety
    /// As [`Convolution::run`]; `wide` is as long as `new` reserved.
    unsafe fn groups<T: Element>(&self, input: *const T, kernel: *const T, result: *mut T, wide: &mut [T::Wide], one: T::Wide) {
        let (patches, rest) = wide.split_at_mut(self.rows_per_block * self.columns);
        let (packed, products) = rest.split_at_mut(self.columns * self.output_features);
        let positions: usize = self.spatial.iter().map(|s| s.output).product();
        let rows = self.batch * positions;
        for group in 0..self.feature_groups * self.batch_groups {
            let features = if self.feature_groups > 1 { group * self.input_features * self.input_strides.1 } else { 0 };
            let entries = if self.batch_groups > 1 { group * self.batch * self.input_strides.0 } else { 0 };
            // SAFETY: each offset is that of an element of its tensor.
            unsafe {
                let input = input.add(features + entries);
                self.pack(kernel.add(group * self.output_features * self.kernel_strides.1), packed);
                let result = result.add(group * self.output_features * self.output_strides.1);
                for first in (0..rows).step_by(self.rows_per_block) {
                    let count = self.rows_per_block.min(rows - first);
                    for r in 0..count {
                        self.patch(input, (first + r) / positions, (first + r) % positions, &mut patches[r * self.columns..(r + 1) * self.columns]);
                    }
                    let (k, n) = (self.columns as isize, self.output_features as isize);
                    gemm::gemm(
                        count,
                        self.output_features,
                        self.columns,
                        products.as_mut_ptr(),
                        1,
                        n,
                        false,
                        patches.as_ptr(),
                        1,
                        k,
                        packed.as_ptr(),
                        1,
                        n,
                        one,
                        one,
                        false,
                        false,
                        false,
                        Parallelism::None,
                    );
                    for (r, line) in products.chunks_exact(self.output_features.max(1)).take(count).enumerate() {
                        let (entry, mut position) = ((first + r) / positions, (first + r) % positions);
                        let mut at = entry * self.output_strides.0;
                        for s in self.spatial.iter().rev() {
                            at += position % s.output * s.output_stride;
                            position /= s.output;
                        }
                        for (f, x) in line.iter().enumerate() {
                            result.add(at + f * self.output_strides.1).write(T::narrow(*x));
                        }
                    }
                }
            }
        }
    }

    /// The kernel of one group as (kernel position, input feature) by output feature.
    ///
    /// # Safety
    /// `kernel` is at the group's first output feature.
    unsafe fn pack<T: Element>(&self, kernel: *const T, packed: &mut [T::Wide]) {
        for (row, line) in packed.chunks_exact_mut(self.output_features.max(1)).enumerate() {
            let (mut position, feature) = (row / self.input_features.max(1), row % self.input_features.max(1));
            let mut at = feature * self.kernel_strides.0;
            for s in self.spatial.iter().rev() {
                let k = position % s.kernel;
                position /= s.kernel;
                at += if s.reversed { s.kernel - 1 - k } else { k } * s.kernel_stride;
            }
            for (f, x) in line.iter_mut().enumerate() {
                // SAFETY: the offset is that of an element of the kernel.
                *x = unsafe { kernel.add(at + f * self.kernel_strides.1).read() }.widen();
            }
        }
    }

    /// The input elements under one output position; zero where the window lies outside or between dilated elements.
    ///
    /// # Safety
    /// `input` is at the group's first batch entry and feature.
    unsafe fn patch<T: Element>(&self, input: *const T, entry: usize, position: usize, line: &mut [T::Wide]) {
        let mut corner = [0i64; 8];
        let mut rest = position;
        for (s, c) in self.spatial.iter().zip(&mut corner).rev() {
            *c = (rest % s.output) as i64 * s.stride - s.low;
            rest /= s.output;
        }
        let features = self.input_features.max(1);
        for (k, chunk) in line.chunks_exact_mut(features).enumerate() {
            let (mut rest, mut at, mut inside) = (k, entry * self.input_strides.0, true);
            for (s, c) in self.spatial.iter().zip(&corner).rev() {
                let x = c + (rest % s.kernel) as i64 * s.window_dilation;
                rest /= s.kernel;
                inside &= x >= 0 && x % s.base_dilation == 0 && x / s.base_dilation < s.input;
                at = at.wrapping_add_signed((x / s.base_dilation) as isize * s.input_stride as isize);
            }
            if !inside {
                chunk.fill(T::Wide::default());
                continue;
            }
            for (f, x) in chunk.iter_mut().enumerate() {
                // SAFETY: the position was just found to be inside.
                *x = unsafe { input.add(at + f * self.input_strides.1).read() }.widen();
            }
        }
    }
}
