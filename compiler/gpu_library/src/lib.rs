//! Library ops of plans as kernels for GPUs: PTX text, specialised to the op and its local types.
//!
//! [`write`] gives an op's entries and launches, which go into the plan beside those of its fused kernels and are started in the same way: parameters are the
//! addresses of the operands, then of the results, then of the scratch where there is any. Every result is written by one thread in a fixed order, with no
//! floating-point atomics, so that results repeat bit for bit. What there is no kernel for is done by the device in another way.

mod asm;
mod attention;
mod gather;
mod indexing;
mod moves;
mod scatter;
mod tiles;

use ir::TensorType;
use ir::op::OpKind;
use ir::plan::Launch;

/// What a module with entries of this crate declares once: shared memory, of the size that the launch says.
pub const DECLARATIONS: &str = ".extern .shared .align 16 .b8 library_shared[];\n";

/// A library op's kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernels {
    /// The text of its entries.
    pub text: String,
    /// Their launches, in order.
    pub launches: Vec<Launch>,
}

/// The kernels of an op of these types, whose entries' names begin with `name`; none where there are none for it.
pub fn write(name: &str, op: &OpKind, operands: &[TensorType], results: &[TensorType]) -> Option<Kernels> {
    made(name, op, operands, results, None)
}

/// As [`write`], but of an attention a thread has so many rows and columns of a tile of scores, each 1, 2 or 4, rather than as many as suit its shapes: for
/// tests and measurements.
pub fn write_tiled(name: &str, op: &OpKind, operands: &[TensorType], results: &[TensorType], tile: (u32, u32)) -> Option<Kernels> {
    made(name, op, operands, results, Some(tile))
}

fn made(name: &str, op: &OpKind, operands: &[TensorType], results: &[TensorType], tile: Option<(u32, u32)>) -> Option<Kernels> {
    match op {
        OpKind::Attention(a) => attention::forward(name, a, operands, results, tile),
        OpKind::AttentionGrad { attention, bias } => attention::backward(name, attention, *bias, operands, results, tile),
        OpKind::Gather(g) => gather::gather(name, g, operands, results),
        OpKind::Scatter { dims, reducer } => scatter::scatter(name, dims, *reducer, operands),
        OpKind::Pad { .. } | OpKind::Concatenate { .. } | OpKind::DynamicSlice { .. } | OpKind::DynamicUpdateSlice => moves::moves(name, op, operands, results),
        _ => None,
    }
}
