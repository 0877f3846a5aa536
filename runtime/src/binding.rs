//! Where a user's whole tensors lie in the devices' buffers.
//!
//! A [`Block`] is one device's part of one argument or result: which elements of the global row-major value it holds, and where in its buffer. Dimensions
//! that the devices do not divide are padded: padding is zero when written and left out when read. A microbatched value has a slot per microbatch.

use crate::device::Seat;
use crate::strided::StridedCopy;
use ir::dtype::row_major_strides;
use ir::program::{Binding, Program};
use ir::{Diagnostic, Result};

/// One device's part of an argument or result.
#[derive(Clone, Debug)]
pub struct Block {
    /// Number of the argument or result.
    pub index: u32,
    /// Whether this device's copy is the one that is read back when several hold the same.
    pub owner: bool,
    slots: u32,
    slot_offset: usize,
    slot_stride: usize,
    local_bytes: usize,
    global_start: usize,
    global_slot: usize,
    global_bytes: usize,
    padded: bool,
    contiguous: bool,
    empty: bool,
    enter: StridedCopy,
    leave: StridedCopy,
}

impl Block {
    /// The part of `seat` in a binding.
    ///
    /// # Errors
    /// `E0602` when slots and microbatches differ.
    pub fn new(program: &Program, binding: &Binding, seat: &Seat) -> Result<Block> {
        let wrong = |what: &str| {
            let d = Diagnostic::input("E0602", format!("this plan is inconsistent: {what}"));
            d.with_note(format!("argument or result {} in buffer {}", binding.index, binding.buffer))
        };
        let buffer = &program.buffers[binding.buffer];
        let element = buffer.ty.dtype.bytes() as usize;
        let strides = row_major_strides(&binding.global_shape);
        let skip = usize::from(binding.microbatched);
        let (shape, outer) = (&binding.global_shape[skip..], &strides[skip..]);
        let slots = if binding.microbatched { binding.global_shape[0] as u32 } else { 1 };
        if binding.microbatched && slots != buffer.slots {
            return Err(wrong("a microbatched value has another number of slots than microbatches").into());
        }
        let local = &buffer.ty.shape;
        let mut valid = Vec::with_capacity(shape.len());
        let mut start = 0;
        for (d, axes) in binding.sharding.dims.iter().enumerate() {
            let position = u64::from(program.mesh.linear_coordinate(seat.device, axes));
            let first = position * local[d];
            valid.push(local[d].min(shape[d].saturating_sub(first)));
            start += first * outer[d];
        }
        let signed = |strides: &[u64]| strides.iter().map(|s| *s as i64).collect::<Vec<_>>();
        let (global, inner) = (signed(outer), signed(&buffer.ty.strides()));
        let too_deep = || wrong("a value has too many dimensions");
        let enter = StridedCopy::new(&valid, &global, &inner, element).ok_or_else(too_deep)?;
        let leave = StridedCopy::new(&valid, &inner, &global, element).ok_or_else(too_deep)?;
        let used: Vec<usize> = binding.sharding.dims.iter().flatten().map(|a| a.0 as usize).collect();
        // The valid part is one run of the global value when all dimensions but the first that is cut are whole.
        let first_long = valid.iter().position(|n| *n != 1).unwrap_or(valid.len());
        let contiguous = valid == *local && valid.iter().zip(shape).skip(first_long + 1).all(|(v, n)| v == n);
        Ok(Block {
            index: binding.index,
            owner: seat.coordinates.iter().enumerate().all(|(axis, c)| *c == 0 || used.contains(&axis)),
            slots,
            slot_offset: buffer.offset as usize,
            slot_stride: buffer.slot_stride as usize,
            local_bytes: buffer.ty.bytes() as usize,
            global_start: start as usize * element,
            global_slot: if binding.microbatched { strides[0] as usize * element } else { 0 },
            global_bytes: binding.global_shape.iter().product::<u64>() as usize * element,
            padded: valid != *local,
            contiguous,
            empty: valid.contains(&0),
            enter,
            leave,
        })
    }
    /// Bytes of all local slots together.
    pub fn local_bytes(&self) -> usize {
        self.local_bytes * self.slots as usize
    }
    /// Bytes of one local slot.
    pub fn slot_bytes(&self) -> usize {
        self.local_bytes
    }
    /// Bytes of the global value.
    pub fn global_bytes(&self) -> usize {
        self.global_bytes
    }
    /// Gives every slot's offset in the arena and its bytes to `write`; `staging` is as long as a slot. No global value means zeros.
    pub fn scatter(&self, global: Option<&[u8]>, staging: &mut [u8], mut write: impl FnMut(usize, &[u8])) {
        let staging = &mut staging[..self.local_bytes];
        for slot in 0..self.slots as usize {
            let target = self.slot_offset + slot * self.slot_stride;
            let start = self.global_start + slot * self.global_slot;
            match global {
                Some(global) if self.contiguous && !self.empty => write(target, &global[start..start + self.local_bytes]),
                _ => {
                    if self.padded || global.is_none() {
                        staging.fill(0);
                    }
                    if let Some(global) = global.filter(|_| !self.empty) {
                        assert!(global.len() >= self.global_bytes, "invariant: arguments were checked against their types");
                        // SAFETY: the block's elements lie inside the global value and inside one local slot.
                        unsafe { self.enter.run(global.as_ptr().add(start), staging.as_mut_ptr()) };
                    }
                    write(target, staging);
                }
            }
        }
    }
    /// Collects all slots' bytes by `read`, one after the other.
    pub fn collect(&self, mut read: impl FnMut(usize, &mut [u8])) -> Vec<u8> {
        let mut bytes = vec![0; self.local_bytes()];
        for (slot, chunk) in bytes.chunks_exact_mut(self.local_bytes.max(1)).enumerate() {
            read(self.slot_offset + slot * self.slot_stride, chunk);
        }
        bytes
    }
    /// Puts what [`Block::collect`] gave into the global value.
    pub fn gather(&self, local: &[u8], global: &mut [u8]) {
        assert!(global.len() >= self.global_bytes && local.len() == self.local_bytes(), "invariant: results are as long as their types");
        if self.empty {
            return;
        }
        for (slot, chunk) in local.chunks_exact(self.local_bytes.max(1)).enumerate() {
            let start = self.global_start + slot * self.global_slot;
            // SAFETY: the block's elements lie inside the global value and inside one local slot.
            unsafe { self.leave.run(chunk.as_ptr(), global.as_mut_ptr().add(start)) };
        }
    }
}
