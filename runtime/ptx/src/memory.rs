//! The memory that a launch may touch: ranges with names, registered by their addresses, and which of their bytes have been written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which bytes of a block of memory have been written, one bit each.
#[derive(Debug)]
pub struct Written {
    start: u64,
    bytes: u64,
    bits: Vec<AtomicU64>,
}

impl Written {
    /// Nothing of `bytes` bytes from `address` has been written.
    pub fn new(address: *const u8, bytes: usize) -> Written {
        let bits = (0..bytes.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Written { start: address.addr() as u64, bytes: bytes as u64, bits }
    }
    /// Notes that the `bytes` bytes from `offset` are written; what lies outside is ignored.
    pub fn mark(&self, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes).min(self.bytes);
        let mut at = offset;
        while at < end {
            let upto = (at / 64 * 64 + 64).min(end);
            let ones = if upto - at == 64 { u64::MAX } else { ((1 << (upto - at)) - 1) << (at % 64) };
            self.bits[(at / 64) as usize].fetch_or(ones, Ordering::Relaxed);
            at = upto;
        }
    }
    /// The first of `bytes` bytes from `offset` that nothing has written.
    pub fn missing(&self, offset: u64, bytes: u64) -> Option<u64> {
        (offset..offset.saturating_add(bytes).min(self.bytes)).find(|at| self.bits[(at / 64) as usize].load(Ordering::Relaxed) >> (at % 64) & 1 == 0)
    }
    pub(crate) fn offset(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.start).filter(|o| *o < self.bytes)
    }
}

/// One range.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) writable: bool,
    pub(crate) written: Option<Arc<Written>>,
}

impl Range {
    pub(crate) fn holds(&self, address: u64, bytes: u64) -> bool {
        address.checked_sub(self.start).is_some_and(|o| o.checked_add(bytes).is_some_and(|end| end <= self.bytes))
    }
}

/// The ranges of a launch.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    ranges: Vec<Range>,
}

impl Memory {
    /// No memory at all.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Registers `bytes` bytes from `address` under a name; an address that is registered already becomes the larger of the two, and writable if one is.
    ///
    /// # Safety
    /// As long as this value is launched with, the bytes are allocated, nobody else writes them, and nobody else reads them where they are writable.
    pub unsafe fn register(&mut self, name: impl Into<String>, address: *mut u8, bytes: usize, writable: bool) {
        let start = address.expose_provenance() as u64;
        match self.ranges.iter_mut().find(|r| r.start == start) {
            Some(r) => {
                r.bytes = r.bytes.max(bytes as u64);
                r.writable |= writable;
            }
            None => self.ranges.push(Range { name: name.into(), start, bytes: bytes as u64, writable, written: None }),
        }
    }

    /// Registers a slice that may be written.
    pub fn register_slice<'a, T: Copy + 'static>(&mut self, name: impl Into<String>, slice: &'a mut [T]) -> Borrowed<'a> {
        let bytes = std::mem::size_of_val(slice);
        // SAFETY: the borrow that is returned keeps the slice from other uses for as long as its address is used.
        unsafe { self.register(name, slice.as_mut_ptr().cast(), bytes, true) };
        Borrowed { address: slice.as_mut_ptr().addr() as u64, _slice: std::marker::PhantomData }
    }

    /// Says which bytes of the ranges have been written: reading others is a fault where checks are on.
    pub fn track(&mut self, written: &Arc<Written>) {
        for r in &mut self.ranges {
            if written.offset(r.start).is_some() {
                r.written = Some(written.clone());
            }
        }
    }

    pub(crate) fn push(&mut self, range: Range) {
        self.ranges.push(range);
    }

    /// The range that holds these bytes; `last` is the one that held the bytes before.
    #[inline]
    pub(crate) fn find(&self, address: u64, bytes: u64, last: &mut usize) -> Option<&Range> {
        if let Some(r) = self.ranges.get(*last).filter(|r| r.holds(address, bytes)) {
            return Some(r);
        }
        let i = self.ranges.iter().position(|r| r.holds(address, bytes))?;
        *last = i;
        self.ranges.get(i)
    }

    /// Where an address lies, in words.
    pub(crate) fn describe(&self, address: u64) -> String {
        if let Some(r) = self.ranges.iter().find(|r| r.holds(address, 0)) {
            let offset = address - r.start;
            return if offset < r.bytes {
                format!("byte {offset} of `{}` ({} bytes)", r.name, r.bytes)
            } else {
                format!("the end of `{}` ({} bytes)", r.name, r.bytes)
            };
        }
        let nearest = self.ranges.iter().min_by_key(|r| if address < r.start { r.start - address } else { address - r.start - r.bytes });
        match nearest {
            Some(r) if address < r.start => format!("{} bytes before `{}`", r.start - address, r.name),
            Some(r) => format!("{} bytes past the end of `{}` ({} bytes)", address - r.start - r.bytes, r.name, r.bytes),
            None => "no memory is registered".to_string(),
        }
    }
}

/// A slice whose address a launch may use.
#[derive(Debug)]
pub struct Borrowed<'a> {
    address: u64,
    _slice: std::marker::PhantomData<&'a mut [u8]>,
}

impl Borrowed<'_> {
    /// Its first byte's address: an argument for an entry.
    pub fn address(&self) -> u64 {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_known_byte_by_byte() {
        let bytes = [0u8; 200];
        let w = Written::new(bytes.as_ptr(), bytes.len());
        w.mark(3, 130);
        w.mark(190, 100);
        assert_eq!(w.missing(3, 130), None);
        assert_eq!(w.missing(0, 10), Some(0));
        assert_eq!(w.missing(100, 100), Some(133));
        assert_eq!(w.missing(190, 10), None);
    }

    #[test]
    fn places_are_told_in_words() {
        let mut data = [0u32; 4];
        let mut memory = Memory::new();
        let address = memory.register_slice("w", &mut data).address();
        let mut last = 7;
        assert!(memory.find(address, 16, &mut last).is_some());
        assert!(memory.find(address + 8, 12, &mut last).is_none());
        assert_eq!(memory.describe(address + 4), "byte 4 of `w` (16 bytes)");
        assert_eq!(memory.describe(address + 24), "8 bytes past the end of `w` (16 bytes)");
        assert_eq!(memory.describe(address - 8), "8 bytes before `w`");
    }
}
