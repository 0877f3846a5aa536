//! Who writes what: the shards of the state that one rank puts into a checkpoint.
//!
//! Every element of every state tensor is written by exactly one rank. Of the stages that hold a tensor the first writes it; of the devices that hold the
//! same shard one does, and tensors take turns, so that replicas share the work. All of it follows from the plan, so that ranks need not agree on anything.

use super::tensors::to_file;
use crate::worker::program_of;
use ir::dtype::row_major_strides;
use ir::plan::Plan;
use ir::program::Program;
use ir::{DType, Diagnostic, Result};

/// One rank's shard of a state tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The argument it becomes when a run continues.
    pub argument: u32,
    /// The result it is read from.
    pub result: u32,
    /// Element type.
    pub dtype: DType,
    /// The whole tensor's row-major value as the plan sees it; the user's shape may merge some of these dimensions.
    pub view: Vec<u64>,
    /// First index in each dimension of the view.
    pub start: Vec<u64>,
    /// How many indices.
    pub extent: Vec<u64>,
    /// Extents of the device's buffer, which may be padded.
    pub local: Vec<u64>,
    /// Where the buffer lies in the arena.
    pub offset: usize,
}

impl Shard {
    /// Bytes of the shard, without padding.
    pub fn bytes(&self) -> usize {
        (self.extent.iter().product::<u64>() * self.dtype.bytes()) as usize
    }
    /// Bytes of the device's buffer.
    pub fn local_bytes(&self) -> usize {
        (self.local.iter().product::<u64>() * self.dtype.bytes()) as usize
    }
    /// Whether the device's buffer holds the shard and nothing else.
    pub fn is_whole_buffer(&self) -> bool {
        self.extent == self.local
    }
    /// Its name in the rank's file.
    pub fn name(&self) -> String {
        format!("arg{}", self.argument)
    }
}

/// The shards that `rank` writes, ordered as they lie in its file: wide elements first, so that all are aligned.
///
/// # Errors
/// `E0602` when a state tensor is in no program or is bound in a way that state cannot be, `E0634` when its element type has no name in the file format.
pub fn shards(plan: &Plan, rank: u32) -> Result<Vec<Shard>> {
    let (program, device) = program_of(&plan.programs, rank).ok_or_else(|| inconsistent(format!("rank {rank} has no program")))?;
    let mut found = Vec::new();
    for (turn, &(argument, result)) in plan.interface.state.iter().enumerate() {
        let home = plan.programs.iter().find(|p| p.outputs.iter().any(|b| b.index == result));
        let home = home.ok_or_else(|| inconsistent(format!("result {result}, which becomes argument {argument}, is in no program")))?;
        if home.stage == program.stage
            && let Some(shard) = shard(program, device, turn as u32, argument, result)?
        {
            found.push(shard);
        }
    }
    found.sort_by_key(|s| (std::cmp::Reverse(s.dtype.bytes()), s.argument));
    Ok(found)
}

/// What a device writes of a result, if it does.
fn shard(program: &Program, device: u32, turn: u32, argument: u32, result: u32) -> Result<Option<Shard>> {
    let binding = program.outputs.iter().find(|b| b.index == result).expect("invariant: the caller found it here");
    if binding.microbatched {
        return Err(inconsistent(format!("result {result} is state and has a slot per microbatch")).into());
    }
    let buffer = &program.buffers[binding.buffer];
    if to_file(buffer.ty.dtype).is_none() {
        return Err(Diagnostic::outcome("E0634", format!("arg{argument} of type {} cannot be saved as safetensors", buffer.ty.dtype)).into());
    }
    let unused: Vec<_> = program.mesh.axis_ids().filter(|a| !binding.sharding.dims.iter().flatten().any(|b| b == a)).collect();
    let replicas = program.mesh.group_size(&unused).max(1);
    if program.mesh.linear_coordinate(device, &unused) != turn % replicas {
        return Ok(None);
    }
    let (mut start, mut extent) = (Vec::new(), Vec::new());
    for (d, axes) in binding.sharding.dims.iter().enumerate() {
        let (whole, local) = (binding.global_shape[d], buffer.ty.shape[d]);
        let first = (u64::from(program.mesh.linear_coordinate(device, axes)) * local).min(whole);
        start.push(first);
        extent.push(local.min(whole - first));
    }
    // A device of a dimension that does not divide may hold nothing but padding; of a tensor without elements the first one stands for all.
    if extent.contains(&0) && (!binding.global_shape.contains(&0) || start.iter().any(|s| *s != 0)) {
        return Ok(None);
    }
    Ok(Some(Shard {
        argument,
        result,
        dtype: buffer.ty.dtype,
        view: binding.global_shape.clone(),
        start,
        extent,
        local: buffer.ty.shape.clone(),
        offset: buffer.offset as usize,
    }))
}

/// Bytes of the element at `start` in the row-major value of shape `view`, and the strides of the view in elements.
pub(super) fn place(view: &[u64], start: &[u64]) -> (u64, Vec<u64>) {
    let strides = row_major_strides(view);
    (start.iter().zip(&strides).map(|(i, s)| i * s).sum(), strides)
}

fn inconsistent(what: String) -> Diagnostic {
    Diagnostic::input("E0602", format!("this plan is inconsistent: {what}")).with_help("compile the model again")
}
