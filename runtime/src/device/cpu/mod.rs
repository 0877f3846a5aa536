//! The CPU device: compiled kernels, matrix products by `gemm`, and a library of routines on typed slices.
//!
//! Making the device turns every compute instruction of the program into a call with its addresses' recipe ([`calls`]); executing one looks up the slot of
//! the microbatch and calls. One device is one thread: nothing here starts another.

pub mod calls;
pub mod code;
mod copy;
mod library;
mod matmul;

use crate::arena::Arena;
use crate::device::{Device, Position, Region, Seat};
use calls::{Calls, Kernels};
use code::Object;
use ir::kernel::Kernel;
use ir::program::{KernelId, Program};
use ir::{PrimaryMap, Result};
use std::sync::Arc;

pub use matmul::SCRATCH_BYTES as MATMUL_SCRATCH_BYTES;

/// A thread's device.
pub struct CpuDevice {
    arena: Arena,
    calls: Calls,
    _object: Option<Arc<Object>>,
}

impl CpuDevice {
    /// Allocates the arena and prepares every instruction of `program` for `seat`.
    ///
    /// # Errors
    /// Everything this device cannot do, named all at once.
    pub fn new(program: &Program, kernels: &PrimaryMap<KernelId, Kernel>, object: Option<Arc<Object>>, seat: &Seat) -> Result<CpuDevice> {
        let calls = Calls::new(program, kernels, Kernels::Object(object.as_deref()), seat)?;
        Ok(CpuDevice { arena: Arena::new(program.arena)?, calls, _object: object })
    }
}

impl Device for CpuDevice {
    fn arena(&self) -> Region {
        Region { address: self.arena.base(), bytes: self.arena.bytes() }
    }

    fn execute(&mut self, position: Position) -> Result<()> {
        // SAFETY: the arena is of the program's size, and this thread is the only one that touches these buffers until the transport synchronises.
        unsafe { self.calls.execute(self.arena.base(), position) }
        Ok(())
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        // SAFETY: the device is not executing.
        unsafe { self.arena.write(offset, bytes) }
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        // SAFETY: the device is not executing.
        unsafe { self.arena.read(offset, bytes) }
    }

    fn scratch_bytes(&self) -> usize {
        self.calls.scratch_bytes()
    }
}
