//! Gather: a thread copies one run of elements of a window, as many as 16 bytes hold where they are aligned.

use crate::Kernels;
use crate::asm::{Asm, Vector, asm};
use crate::indexing::{Access, Dim, Roles, Starts, merged, offsets, positions, vector};
use ir::TensorType;
use ir::op::GatherDims;
use ir::plan::Launch;

const THREADS: u32 = 256;

/// The kernel of a gather.
pub(crate) fn gather(name: &str, g: &GatherDims, operands: &[TensorType], results: &[TensorType]) -> Option<Kernels> {
    let (operand, indices, result) = (operands.first()?, operands.get(1)?, results.first()?);
    let kept: Vec<usize> = (0..operand.rank()).filter(|d| !g.collapsed_slice_dims.contains(d) && !g.operand_batching_dims.contains(d)).collect();
    let batch: Vec<usize> = (0..result.rank()).filter(|d| !g.offset_dims.contains(d)).collect();
    let bytes = operand.dtype.bytes();
    if kept.len() != g.offset_dims.len() || ![1, 2, 4, 8].contains(&bytes) || result.elements() == 0 {
        return None;
    }
    let roles = Roles {
        map: &g.start_index_map,
        batching: (&g.operand_batching_dims, &g.start_indices_batching_dims),
        vector_dim: g.index_vector_dim,
        sizes: &g.slice_sizes,
        other_batch: &batch,
    };
    let starts = Starts::new(&operand.shape, indices, &result.shape, &roles)?;
    // Strides in the indices, in the result and in the operand.
    let (from, to) = (operand.strides(), result.strides());
    let window = kept.iter().zip(&g.offset_dims).map(|(&d, &o)| Dim { extent: g.slice_sizes[d], strides: [0, to[o], from[d]] });
    let mut dims = merged(&starts.batch.iter().map(|b| b.0).chain(window).collect::<Vec<_>>());
    // The last dimension, where it is one run in both, is walked in vectors.
    let mut run = 1;
    if let Some((last, rest)) = dims.split_last_mut().filter(|(last, _)| last.strides == [0, 1, 1]) {
        let strides = rest.iter().flat_map(|d| [d.strides[1], d.strides[2]]).chain(starts.components.iter().map(|c| c.stride));
        run = vector(bytes, last.extent, strides);
        *last = Dim { extent: last.extent / run, strides: [0, run, run] };
    }
    let total = positions(&dims);
    if total > i32::MAX as u64 || operand.elements().max(result.elements()) > u64::from(u32::MAX) {
        return None;
    }
    let mut asm = Asm::default();
    let a = &mut asm;
    let linear = a.constant("%tid.x");
    a.across_blocks(linear, THREADS, total);
    let [at, to, start] = offsets(a, linear, &dims);
    let [source, vectors, target] = [0, 1, 2].map(|p| a.parameter(p));
    for (c, component) in starts.components.iter().enumerate() {
        // A window is moved so far that it is inside.
        let index = starts.load(a, vectors, at, c, None);
        if starts.dtype.is_unsigned() {
            asm!(a, "min.u64 {index}, {index}, {}", component.limit);
        } else {
            asm!(a, "max.s64 {index}, {index}, 0");
            asm!(a, "min.s64 {index}, {index}, {}", component.limit);
        }
        asm!(a, "mad.lo.u64 {start}, {index}, {}, {start}", component.stride);
    }
    asm!(a, "mad.lo.u64 {source}, {start}, {bytes}, {source}");
    asm!(a, "mad.lo.u64 {target}, {to}, {bytes}, {target}");
    let access = Access(run * bytes);
    let (registers, how) = (access.registers(a), access.modifiers());
    asm!(a, "ld.global{how} {}, [{source}]", Vector(&registers));
    asm!(a, "st.global{how} [{target}], {}", Vector(&registers));
    let launch = Launch { entry: name.into(), grid: [total.div_ceil(u64::from(THREADS)) as u32, 1, 1], block: [THREADS, 1, 1], shared: 0, scratch: 0 };
    Some(Kernels { text: asm.finish(name, 3, THREADS), launches: vec![launch] })
}
