//! What moves bytes between the arenas of a process's ranks, and says when.
//!
//! The [`Hub`](super::local::Hub) orders ranks by what their threads have *begun*: a message that was posted, a collective that all have come to. On the
//! processor what was begun is done. A device that works behind its thread's back instead gives a [`Mark`] for a moment of its work, and what must come later
//! is told to come after the mark. So threads never wait for devices, and communication overlaps computing.

use super::collective::Collective;
use crate::device::Region;
use ir::Diagnostic;

/// A moment of a rank's work on its device; 0 has always passed.
pub type Mark = u64;

/// Moves bytes for the ranks of a process. Every method is called on the thread of the rank it names.
pub trait Mover: Send + Sync {
    /// Memory for a message that waits beside its sender's buffer; it lives as long as the mover.
    ///
    /// # Errors
    /// When it is not there.
    fn staging(&self, rank: u32, bytes: usize) -> Result<*mut u8, Diagnostic>;
    /// The moment when all that `rank` has begun on its device is done.
    ///
    /// # Errors
    /// When the device fails.
    fn mark(&self, rank: u32) -> Result<Mark, Diagnostic>;
    /// Copies after `after`, and after all that `rank` has begun.
    ///
    /// # Safety
    /// The regions are in arenas or staging, equally long, and the hub's protocol gives them to `rank`.
    ///
    /// # Errors
    /// When the device fails.
    unsafe fn copy(&self, rank: u32, after: Mark, from: Region, to: Region) -> Result<Mark, Diagnostic>;
    /// What `rank` begins from now on that touches `region` comes after `mark`.
    ///
    /// # Errors
    /// When the device fails.
    fn after(&self, rank: u32, mark: Mark, region: Region) -> Result<(), Diagnostic>;
    /// Does the share of member `me` in a collective, after every mark of `after`.
    ///
    /// # Safety
    /// `bases` are the arenas of the members in order, and nobody touches the buffers meanwhile but through this.
    ///
    /// # Errors
    /// When the device fails.
    unsafe fn collective(&self, rank: u32, collective: &Collective, bases: &[*mut u8], me: usize, microbatch: u32, after: &[Mark]) -> Result<Mark, Diagnostic>;
    /// What `rank` begins from now on that touches what the collective reads or writes comes after the marks.
    ///
    /// # Errors
    /// When the device fails.
    fn after_collective(&self, rank: u32, collective: &Collective, microbatch: u32, marks: &[Mark]) -> Result<(), Diagnostic>;
    /// Returns when all that `rank` has begun is done; its marks may be used again.
    ///
    /// # Errors
    /// When the device has failed.
    fn finish(&self, rank: u32) -> Result<(), Diagnostic>;
}

/// The processor: what was begun is done.
#[derive(Debug, Default)]
pub struct HostMover {
    staging: std::sync::Mutex<Vec<Vec<u64>>>,
}

impl Mover for HostMover {
    fn staging(&self, _rank: u32, bytes: usize) -> Result<*mut u8, Diagnostic> {
        let mut memory = vec![0u64; bytes.div_ceil(8)];
        let address = memory.as_mut_ptr().cast();
        self.staging.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(memory);
        Ok(address)
    }
    #[inline]
    fn mark(&self, _rank: u32) -> Result<Mark, Diagnostic> {
        Ok(0)
    }
    #[inline]
    unsafe fn copy(&self, _rank: u32, _after: Mark, from: Region, to: Region) -> Result<Mark, Diagnostic> {
        // SAFETY: as the caller vouches.
        unsafe { std::ptr::copy_nonoverlapping(from.address, to.address, from.bytes.min(to.bytes)) };
        Ok(0)
    }
    #[inline]
    fn after(&self, _rank: u32, _mark: Mark, _region: Region) -> Result<(), Diagnostic> {
        Ok(())
    }
    #[inline]
    unsafe fn collective(
        &self,
        _rank: u32,
        collective: &Collective,
        bases: &[*mut u8],
        me: usize,
        microbatch: u32,
        _after: &[Mark],
    ) -> Result<Mark, Diagnostic> {
        // SAFETY: as the caller vouches.
        unsafe { collective.work(bases, me, microbatch) };
        Ok(0)
    }
    #[inline]
    fn after_collective(&self, _rank: u32, _collective: &Collective, _microbatch: u32, _marks: &[Mark]) -> Result<(), Diagnostic> {
        Ok(())
    }
    #[inline]
    fn finish(&self, _rank: u32) -> Result<(), Diagnostic> {
        Ok(())
    }
}
