//! Prices of instructions, asked of the cost model.

use crate::shard::strategy::attention_work;
use cost_model::{CollectiveCall, CostModel, KernelWork, LibraryOp, LibraryWork, MatMulShape};
use ir::op::OpKind;
use ir::program::InstructionKind;
use ir::{Bytes, DType, Flops, Mesh, Seconds, TensorType};

/// Asks a cost model about the instructions of one stage.
pub(super) struct InstructionCost<'a> {
    /// The prices.
    pub(super) model: &'a dyn CostModel,
    /// The stage's mesh.
    pub(super) mesh: &'a Mesh,
    /// Rank of its device 0.
    pub(super) first_rank: u32,
}

impl InstructionCost<'_> {
    /// Predicted duration of an instruction with so much arithmetic and traffic.
    pub(super) fn seconds(&self, kind: &InstructionKind, flops: Flops, bytes: Bytes) -> Seconds {
        let work = KernelWork { read: Bytes(bytes.0 / 2), written: Bytes(bytes.0 - bytes.0 / 2), flops, dtype: DType::F32 };
        match kind {
            InstructionKind::Kernel { .. } => self.model.kernel(&work),
            InstructionKind::MatMul(m) => {
                self.model.matmul(&MatMulShape { batch: m.batch.iter().map(|b| b.size).product(), m: m.m, n: m.n, k: m.k, dtype: m.dtype })
            }
            InstructionKind::Library { op, operands, .. } => {
                let shapes = |operands: &[TensorType]| [0, 1, 2].map(|i| operands[i].shape.clone());
                let op = match op {
                    OpKind::Attention(a) => return self.model.attention(&attention_work(a, &shapes(operands), false, operands[0].dtype, bytes)),
                    OpKind::AttentionGrad { attention: a, .. } => {
                        return self.model.attention(&attention_work(a, &shapes(operands), true, operands[0].dtype, bytes));
                    }
                    OpKind::Gather(_) | OpKind::DynamicSlice { .. } => LibraryOp::Gather,
                    OpKind::Scatter { .. } => LibraryOp::Scatter,
                    _ => LibraryOp::Other,
                };
                self.model.library(&LibraryWork { op, work })
            }
            InstructionKind::Copy { .. } | InstructionKind::Fill { .. } => self.model.copy(Bytes(bytes.0 / 2)),
            InstructionKind::Collective { kind, axes, dtype, .. } => {
                let group = self.model.cluster().group(self.mesh, self.first_rank, axes);
                self.model.collective(&CollectiveCall { kind: *kind, bytes, dtype: *dtype }, &group).time
            }
            InstructionKind::Send { to, .. } => {
                let devices = self.mesh.devices();
                let route = self.model.cluster().route(self.first_rank, to.0 * devices, devices);
                self.model.send(bytes, &route)
            }
            InstructionKind::Receive { .. } => Seconds(0.0),
        }
    }
}
