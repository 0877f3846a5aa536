//! Kernels of typical models.

use super::build::Build;
use ir::dtype::DType;
use ir::kernel::{Kernel, NodeId};
use ir::op::{Direction, Reducer, UnaryOp};

/// Softmax over the last dimension of `[rows, columns]`.
pub(crate) fn softmax(rows: u64, columns: u64) -> Kernel {
    let mut b = Build::new(&[rows, columns], &[1]);
    let x = b.input(DType::F32, &[0, 1]);
    let most = b.reduce(Reducer::Max, x);
    let shifted = b.sub(x, most);
    let e = b.unary(UnaryOp::Exponential, shifted);
    let sum = b.reduce(Reducer::Add, e);
    let y = b.div(e, sum);
    b.output(y, &[0, 1]);
    b.0
}

/// Softmax over the first dimension of `[rows, columns]`.
pub(crate) fn column_softmax(rows: u64, columns: u64) -> Kernel {
    let mut b = Build::new(&[rows, columns], &[0]);
    let x = b.input(DType::F32, &[0, 1]);
    let most = b.reduce(Reducer::Max, x);
    let shifted = b.sub(x, most);
    let e = b.unary(UnaryOp::Exponential, shifted);
    let sum = b.reduce(Reducer::Add, e);
    let y = b.div(e, sum);
    b.output(y, &[0, 1]);
    b.0
}

/// GELU by `tanh` over `elements`.
pub(crate) fn gelu(elements: u64) -> Kernel {
    let mut b = Build::new(&[elements], &[]);
    let x = b.input(DType::F32, &[0]);
    let square = b.mul(x, x);
    let cube = b.mul(square, x);
    let c = b.f32(0.044715);
    let scaled = b.mul(cube, c);
    let sum = b.add(x, scaled);
    let c = b.f32(0.797_884_6);
    let inner = b.mul(sum, c);
    let t = b.unary(UnaryOp::Tanh, inner);
    let one = b.f32(1.0);
    let t = b.add(t, one);
    let half = b.f32(0.5);
    let hx = b.mul(x, half);
    let y = b.mul(hx, t);
    b.output(y, &[0]);
    b.0
}

/// GELU by `erf` over `elements`.
pub(crate) fn gelu_erf(elements: u64) -> Kernel {
    let mut b = Build::new(&[elements], &[]);
    let x = b.input(DType::F32, &[0]);
    let c = b.f32(std::f32::consts::FRAC_1_SQRT_2);
    let inner = b.mul(x, c);
    let e = b.unary(UnaryOp::Erf, inner);
    let one = b.f32(1.0);
    let e = b.add(e, one);
    let half = b.f32(0.5);
    let hx = b.mul(x, half);
    let y = b.mul(hx, e);
    b.output(y, &[0]);
    b.0
}

/// Mean and reciprocal standard deviation along the last dimension, and what they are of, centred.
fn statistics(b: &mut Build, x: NodeId, columns: u64) -> (NodeId, NodeId) {
    let n = b.f32(1.0 / columns as f32);
    let sum = b.reduce(Reducer::Add, x);
    let mean = b.mul(sum, n);
    let centred = b.sub(x, mean);
    let square = b.mul(centred, centred);
    let sum = b.reduce(Reducer::Add, square);
    let variance = b.mul(sum, n);
    let epsilon = b.f32(1e-5);
    let variance = b.add(variance, epsilon);
    (centred, b.unary(UnaryOp::Rsqrt, variance))
}

/// Layer norm over the last dimension, with scale and offset.
pub(crate) fn layer_norm(rows: u64, columns: u64) -> Kernel {
    let mut b = Build::new(&[rows, columns], &[1]);
    let x = b.input(DType::F32, &[0, 1]);
    let (scale, offset) = (b.input(DType::F32, &[1]), b.input(DType::F32, &[1]));
    let (centred, rstd) = statistics(&mut b, x, columns);
    let y = b.mul(centred, rstd);
    let y = b.mul(y, scale);
    let y = b.add(y, offset);
    b.output(y, &[0, 1]);
    b.0
}

/// The gradient of layer norm's input.
pub(crate) fn layer_norm_backward(rows: u64, columns: u64) -> Kernel {
    let mut b = Build::new(&[rows, columns], &[1]);
    let (x, dy) = (b.input(DType::F32, &[0, 1]), b.input(DType::F32, &[0, 1]));
    let scale = b.input(DType::F32, &[1]);
    let (centred, rstd) = statistics(&mut b, x, columns);
    let normal = b.mul(centred, rstd);
    let g = b.mul(dy, scale);
    let product = b.mul(g, normal);
    let (sum, projected) = (b.reduce(Reducer::Add, g), b.reduce(Reducer::Add, product));
    let n = b.f32(1.0 / columns as f32);
    let (mean, projected) = (b.mul(sum, n), b.mul(projected, n));
    let part = b.mul(normal, projected);
    let d = b.sub(g, mean);
    let d = b.sub(d, part);
    let d = b.mul(d, rstd);
    b.output(d, &[0, 1]);
    b.0
}

/// Adam's update: parameter, gradient and moments in; parameter and moments out, in place where the buffers are the same.
pub(crate) fn adam(elements: u64) -> Kernel {
    let mut b = Build::new(&[elements], &[]);
    let [p, g, m, v] = [0; 4].map(|_| b.input(DType::F32, &[0]));
    let [rate, first, second] = [0; 3].map(|_| b.input(DType::F32, &[]));
    let (b1, b2) = (b.f32(0.9), b.f32(0.999));
    let (c1, c2) = (b.f32(0.1), b.f32(0.001));
    let (decayed, fresh) = (b.mul(m, b1), b.mul(g, c1));
    let m = b.add(decayed, fresh);
    let square = b.mul(g, g);
    let (decayed, fresh) = (b.mul(v, b2), b.mul(square, c2));
    let v = b.add(decayed, fresh);
    let (mh, vh) = (b.div(m, first), b.div(v, second));
    let root = b.unary(UnaryOp::Sqrt, vh);
    let epsilon = b.f32(1e-8);
    let below = b.add(root, epsilon);
    let step = b.div(mh, below);
    let step = b.mul(step, rate);
    let p = b.sub(p, step);
    for value in [p, m, v] {
        b.output(value, &[0]);
    }
    b.0
}

/// Sums of columns.
pub(crate) fn column_sum(rows: u64, columns: u64) -> Kernel {
    let mut b = Build::new(&[rows, columns], &[0]);
    let x = b.input(DType::F32, &[0, 1]);
    let sum = b.reduce(Reducer::Add, x);
    b.output(sum, &[1]);
    b.0
}

/// A transposed copy.
pub(crate) fn transpose(rows: u64, columns: u64) -> Kernel {
    let mut b = Build::new(&[rows, columns], &[]);
    let x = b.input_strided(DType::F32, vec![1, rows as i64]);
    b.output(x, &[0, 1]);
    b.0
}

/// Per row: the negated logarithm of the softmax at the label.
pub(crate) fn cross_entropy(rows: u64, columns: u64) -> Kernel {
    let mut b = Build::new(&[rows, columns], &[1]);
    let x = b.input(DType::F32, &[0, 1]);
    let label = b.input(DType::I32, &[0]);
    let most = b.reduce(Reducer::Max, x);
    let shifted = b.sub(x, most);
    let e = b.unary(UnaryOp::Exponential, shifted);
    let sum = b.reduce(Reducer::Add, e);
    let log = b.unary(UnaryOp::Log, sum);
    let column = b.index(1, DType::I32);
    let hit = b.compare(Direction::Eq, column, label);
    let zero = b.f32(0.0);
    let picked = b.select(hit, shifted, zero);
    let picked = b.reduce(Reducer::Add, picked);
    let loss = b.sub(log, picked);
    b.output(loss, &[0]);
    b.0
}

/// A sum in `bf16`.
pub(crate) fn add_bf16(elements: u64) -> Kernel {
    let mut b = Build::new(&[elements], &[]);
    let (x, y) = (b.input(DType::BF16, &[0]), b.input(DType::BF16, &[0]));
    let z = b.add(x, y);
    b.output(z, &[0]);
    b.0
}

/// A buffer of `elements` moderate positive values.
pub(crate) fn fill(dtype: DType, elements: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for i in 0..elements {
        let v = ((i * 7919) % 1013) as f32 / 500.0 + 0.001;
        match dtype {
            DType::F32 => bytes.extend(v.to_le_bytes()),
            DType::BF16 => bytes.extend(half::bf16::from_f32(v).to_le_bytes()),
            _ => bytes.extend(&((i % 64).to_le_bytes())[..dtype.bytes() as usize]),
        }
    }
    bytes
}
