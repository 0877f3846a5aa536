//! The arena: the one block of memory a device computes in.
//!
//! It is allocated once, zeroed, before the first step, and never grows. Its size is the number in the plan. Buffers are offsets into it, 64-byte aligned.
//! Between two synchronisations of the transport a byte is written by one rank only; that is a property of the plan and of the transport's protocol,
//! so access goes through raw pointers and never through a shared reference to the whole.

use ir::program::{Buffer, BufferId, Program};
use ir::{Bytes, Diagnostic, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

const ALIGNMENT: usize = 64;

/// One device's memory.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the arena owns its block; what is read and written through its pointer is ordered by the transport.
unsafe impl Send for Arena {}
// SAFETY: as above; `&Arena` only hands out the address.
unsafe impl Sync for Arena {}

impl Arena {
    /// A zeroed arena of exactly `bytes`.
    ///
    /// # Errors
    /// `E0601` when the memory is not there.
    pub fn new(bytes: Bytes) -> Result<Arena> {
        let refused = || Diagnostic::outcome("E0601", format!("an arena of {bytes} cannot be allocated")).with_help("plan with a smaller --memory-limit");
        let size = usize::try_from(bytes.0).map_err(|_| refused())?.max(ALIGNMENT);
        let layout = Layout::from_size_align(size, ALIGNMENT).map_err(|_| refused())?;
        // SAFETY: the layout's size is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(refused)?;
        Ok(Arena { base, layout })
    }
    /// Address of its first byte.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
    /// Its size.
    pub fn bytes(&self) -> usize {
        self.layout.size()
    }
    /// Copies bytes to an offset.
    ///
    /// # Safety
    /// Nobody else touches these bytes meanwhile.
    pub(crate) unsafe fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.bytes(), "invariant: buffers lie inside the arena");
        // SAFETY: in bounds, and the caller's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base().add(offset), bytes.len()) }
    }
    /// Copies bytes from an offset.
    ///
    /// # Safety
    /// Nobody writes these bytes meanwhile.
    pub(crate) unsafe fn read(&self, offset: usize, bytes: &mut [u8]) {
        assert!(offset + bytes.len() <= self.bytes(), "invariant: buffers lie inside the arena");
        // SAFETY: in bounds, and the caller's.
        unsafe { std::ptr::copy_nonoverlapping(self.base().add(offset), bytes.as_mut_ptr(), bytes.len()) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// Where a buffer lies in every arena of its stage: the offset of each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    offset: usize,
    stride: usize,
    slots: u32,
    bytes: usize,
}

impl Place {
    /// The place of a listed buffer.
    pub fn of(buffer: &Buffer) -> Place {
        Place { offset: buffer.offset as usize, stride: buffer.slot_stride as usize, slots: buffer.slots, bytes: buffer.ty.bytes() as usize }
    }
    /// The places of some buffers of a program.
    pub fn all(program: &Program, buffers: &[BufferId]) -> Vec<Place> {
        buffers.iter().map(|&b| Place::of(&program.buffers[b])).collect()
    }
    /// Offset of what microbatch `microbatch` uses.
    #[inline]
    pub fn offset(&self, microbatch: u32) -> usize {
        if self.slots == 1 { self.offset } else { self.offset + (microbatch % self.slots) as usize * self.stride }
    }
    /// Bytes of one slot's value.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Whether every slot begins at a multiple of `alignment` in an arena that does.
    pub fn is_aligned(&self, alignment: usize) -> bool {
        self.offset.is_multiple_of(alignment) && (self.slots == 1 || self.stride.is_multiple_of(alignment))
    }
    /// Whether any slots of the two share a byte.
    pub fn overlaps(&self, other: &Place) -> bool {
        let end = |p: &Place| p.offset + p.stride * (p.slots as usize - 1) + p.bytes;
        self.offset < end(other) && other.offset < end(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_is_aligned_zeroed_and_as_large_as_asked() {
        let arena = Arena::new(Bytes(1000)).unwrap();
        assert_eq!(arena.base() as usize % 64, 0);
        assert_eq!(arena.bytes(), 1000);
        // SAFETY: the arena is 1000 bytes long and nobody else has its address.
        let bytes = unsafe { std::slice::from_raw_parts(arena.base(), 1000) };
        assert!(bytes.iter().all(|b| *b == 0));
        assert!(Arena::new(Bytes(1 << 62)).is_err());
    }

    #[test]
    fn a_microbatch_uses_its_slot() {
        let place = Place { offset: 128, stride: 64, slots: 3, bytes: 40 };
        assert_eq!([0, 1, 2, 3].map(|m| place.offset(m)), [128, 192, 256, 128]);
        assert!(place.overlaps(&Place { offset: 290, stride: 64, slots: 1, bytes: 4 }));
        assert!(!place.overlaps(&Place { offset: 296, stride: 64, slots: 1, bytes: 4 }));
    }
}
