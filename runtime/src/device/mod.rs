//! The first seam: what computes.
//!
//! A device owns one arena and knows the instructions of one rank. Everything an instruction needs (symbols, loop plans, scratch) is resolved when the
//! device is made, where anything it cannot do is refused by name; executing allocates nothing.
//! Communication is not a device's business: the transport is given addresses in [`Device::arena`].

pub mod cpu;
pub mod emulated;
pub mod launches;
pub mod operands;

use ir::program::{Phase, Program};
use ir::{Mesh, Result};

/// Where a rank is in a step: which instruction of which phase, for which microbatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Position {
    /// The phase.
    pub phase: Phase,
    /// The instruction's number in its phase.
    pub instruction: u32,
    /// The microbatch.
    pub microbatch: u32,
}

/// A block of device memory.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Address of its first byte.
    pub address: *mut u8,
    /// How many bytes.
    pub bytes: usize,
}

// SAFETY: a region is an address; who may touch it when is the protocol of device and transport.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// A rank's place in its stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its rank in the whole plan.
    pub rank: u32,
    /// Its device number in the stage's mesh.
    pub device: u32,
    /// Its coordinates in the stage's mesh.
    pub coordinates: Vec<u32>,
    /// Microbatches of a step.
    pub microbatches: u32,
}

impl Seat {
    /// The seat of device `device` of `program`.
    pub fn new(program: &Program, device: u32, microbatches: u32) -> Seat {
        Seat { rank: program.first_rank + device, device, coordinates: program.mesh.coordinates(device), microbatches }
    }
    /// The ranks of the group along `axes`, by linear coordinate.
    pub fn group(&self, mesh: &Mesh, first_rank: u32, axes: &[ir::AxisId]) -> Vec<u32> {
        mesh.group_of(self.device, axes).into_iter().map(|d| first_rank + d).collect()
    }
}

/// Computes one rank's instructions in one arena.
pub trait Device: Send {
    /// The arena.
    fn arena(&self) -> Region;
    /// Executes a compute instruction (never a send, receive or collective).
    ///
    /// # Errors
    /// When the device fails; the run then ends.
    fn execute(&mut self, position: Position) -> Result<()>;
    /// Copies host bytes to an offset of the arena.
    fn write(&mut self, offset: usize, bytes: &[u8]);
    /// Copies bytes at an offset of the arena to the host.
    fn read(&self, offset: usize, bytes: &mut [u8]);
    /// Bytes of memory it holds beside the arena.
    fn scratch_bytes(&self) -> usize;
}
