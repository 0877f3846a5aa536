//! Copies and fills of the CPU device: strided blocks whose offsets may follow the device and the microbatch.
//!
//! The bounds of a copy are checked for this device and every microbatch when it is prepared.

use crate::device::Seat;
use crate::device::operands::Linear;
use crate::strided::{StridedCopy, extent};
use ir::program::Block;

/// A prepared copy.
pub(super) struct Copy {
    copy: StridedCopy,
    from: Linear,
    to: Linear,
    element: i64,
}

impl Copy {
    /// Prepares a copy between buffers of the given bytes.
    pub(super) fn new(shape: &[u64], from: &Block, to: &Block, element: u64, seat: &Seat, bytes: (usize, usize)) -> Result<Copy, String> {
        if from.strides.len() != shape.len() || to.strides.len() != shape.len() {
            return Err("a copy has another number of strides than dimensions".into());
        }
        let copy = Copy {
            copy: StridedCopy::new(shape, &from.strides, &to.strides, element as usize).ok_or("a copy has too many dimensions")?,
            from: Linear::new(&from.offset, seat),
            to: Linear::new(&to.offset, seat),
            element: element as i64,
        };
        for (block, linear, bytes, what) in [(from, copy.from, bytes.0, "reads"), (to, copy.to, bytes.1, "writes")] {
            let Some((low, high)) = extent(shape, block.strides.iter().copied()) else { continue };
            let elements = bytes as i64 / element as i64;
            for m in [0, seat.microbatches.saturating_sub(1)] {
                if linear.at(m) + low < 0 || linear.at(m) + high >= elements {
                    return Err(format!("a copy {what} elements {} to {} of a buffer of {elements}", linear.at(m) + low, linear.at(m) + high));
                }
            }
        }
        Ok(copy)
    }
    /// Does it.
    ///
    /// # Safety
    /// `from` and `to` are the starts of buffers of the bytes given to `new`, and the blocks do not overlap.
    pub(super) unsafe fn run(&self, from: *const u8, to: *mut u8, microbatch: u32) {
        // SAFETY: the extents were checked in `new`.
        unsafe {
            let from = from.offset((self.from.at(microbatch) * self.element) as isize);
            let to = to.offset((self.to.at(microbatch) * self.element) as isize);
            self.copy.run(from, to);
        }
    }
}

/// Fills `bytes` bytes with one element.
///
/// # Safety
/// The bytes can be written, and the element's length divides them.
pub(super) unsafe fn fill(to: *mut u8, bytes: usize, element: &[u8]) {
    // SAFETY: as the caller vouches; the buffer is 64-byte aligned, so typed writes are aligned.
    unsafe {
        if element.iter().all(|b| *b == element[0]) {
            return std::ptr::write_bytes(to, element[0], bytes);
        }
        match *element {
            [a, b] => std::slice::from_raw_parts_mut(to.cast::<[u8; 2]>(), bytes / 2).fill([a, b]),
            [a, b, c, d] => std::slice::from_raw_parts_mut(to.cast::<u32>(), bytes / 4).fill(u32::from_ne_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => std::slice::from_raw_parts_mut(to.cast::<u64>(), bytes / 8).fill(u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
            _ => {
                for chunk in std::slice::from_raw_parts_mut(to, bytes).chunks_exact_mut(element.len()) {
                    chunk.copy_from_slice(element);
                }
            }
        }
    }
}
