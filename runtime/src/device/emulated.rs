//! A device that executes a plan's CUDA code where there is no GPU: kernels, and the library ops that the plan has entries for, on the emulator of PTX,
//! everything else by the CPU's routines on the same memory.
//!
//! It is there to test, and slow. A launch may touch the buffers of its instruction and its scratch, each only as far as the kernel says, and nothing else;
//! what it does that no GPU defines ends the run, naming kernel, thread and line. With checks it also tells missing barriers within a block and reads of
//! what nothing has written: of shared memory, of scratch before the kernel's first launch, and of the arena since the session was opened.
//! Unlike other devices it allocates during a step.

use crate::arena::{Arena, Place};
use crate::device::cpu::calls::{Calls, Kernels};
use crate::device::launches::{Launches, SCRATCH_ALIGNMENT, Started};
use crate::device::{Device, Position, Region, Seat};
use ir::plan::{Code, Launch, Plan};
use ir::program::{BufferId, InstructionKind, Program};
use ir::{Bytes, Diagnostic, PrimaryMap, Result};
use ptx::{Grid, Memory, Module, Written};
use std::sync::Arc;

/// How kernels are emulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emulation {
    /// Look for reads of uninitialised memory and for missing barriers; addresses are always checked.
    pub checks: bool,
    /// Let approximate instructions deviate within their documented bounds by this seed.
    pub perturb: Option<u64>,
}

/// A plan's CUDA code, ready for the emulator.
#[derive(Debug)]
pub struct Emulator {
    plan: Arc<Plan>,
    code: usize,
    module: Module,
    how: Emulation,
}

impl Emulator {
    /// Reads the code of a plan.
    ///
    /// # Errors
    /// `E0607` when it is for another device, `E0609` when there is none, `E0644` when the emulator does not know it, `E0603` when an entry is missing.
    pub fn new(plan: &Arc<Plan>, how: Emulation) -> Result<Emulator> {
        let Some(code) = plan.code.iter().position(|c| c.target == "cuda") else {
            return Err(match plan.code.first() {
                Some(other) => {
                    let d = Diagnostic::outcome("E0607", format!("this plan's code is for {} ({}) and the emulator executes PTX", other.target, other.level));
                    d.with_help("compile the model again with `--target cuda:sm_80`")
                }
                None => Diagnostic::outcome("E0609", "this plan was made without code").with_help("compile the model again without `--no-code`"),
            }
            .into());
        };
        let text = std::str::from_utf8(&plan.code[code].object);
        let text = text.map_err(|_| Diagnostic::input("E0644", "the plan's code is no text of PTX").with_help("compile the model again"))?;
        let module = Module::parse(text).map_err(|e| {
            let d = Diagnostic::outcome("E0644", format!("the emulator does not know this plan's code: {e}"));
            quoted(d, text, e.line).with_help("this is a bug; please report it with the plan")
        })?;
        let missing = |l: &&Launch| module.entry(&l.entry).is_none();
        let launches = plan.code[code].launches.values().chain(plan.code[code].library.iter().map(|l| &l.launches));
        if let Some(l) = launches.flatten().find(missing) {
            return Err(Diagnostic::input("E0603", format!("the plan's code has no {}", l.entry)).with_help("compile the model again for this target").into());
        }
        Ok(Emulator { plan: plan.clone(), code, module, how })
    }

    /// A device for a rank.
    ///
    /// # Errors
    /// Everything it cannot do, named all at once, and memory that is not there.
    pub fn device(self: &Arc<Self>, program: &Program, seat: &Seat) -> Result<Box<dyn Device>> {
        let launches = Launches::new(program, &self.plan.kernels, self.code(), seat)?;
        let calls = Calls::new(program, &self.plan.kernels, Kernels::Elsewhere(&launches), seat)?;
        let arena = Arena::new(program.arena)?;
        let scratch = Scratch::new(launches.scratch())?;
        let written = self.how.checks.then(|| Arc::new(Written::new(arena.base(), arena.bytes())));
        if let Some(written) = &written {
            // What other ranks write is not seen here, so it counts as written from the start.
            for instruction in program.phases.iter().flatten().filter(|i| is_communication(&i.kind)) {
                for buffer in instruction.writes.iter().map(|&b| &program.buffers[b]) {
                    written.mark(buffer.offset, buffer.bytes());
                }
            }
        }
        let names = program.buffers.values().map(|b| b.name.as_str().into()).collect();
        let computed = |i: &ir::program::Instruction| if is_communication(&i.kind) { Vec::new() } else { Place::all(program, &i.writes) };
        let writes = program.phases.each_ref().map(|list| list.iter().map(computed).collect());
        let sources = program.phases.each_ref().map(|list| list.iter().map(|i| i.source.as_str().into()).collect());
        Ok(Box::new(EmulatedDevice { emulator: self.clone(), arena, scratch, written, launches, calls, names, writes, sources, parameters: Vec::new() }))
    }

    fn code(&self) -> &Code {
        &self.plan.code[self.code]
    }

    /// What to say of a kernel that has done what no GPU defines.
    fn fault(&self, fault: &ptx::Fault, source: &str) -> Diagnostic {
        let d = Diagnostic::outcome("E0643", fault.to_string()).with_note(format!("it computes {source}"));
        let text = String::from_utf8_lossy(&self.code().object);
        quoted(d, &text, fault.line).with_help("this is a bug of Shardwright; please report it with the plan")
    }
}

/// The diagnostic with a line of the PTX text.
fn quoted(d: Diagnostic, text: &str, line: u32) -> Diagnostic {
    match (line as usize).checked_sub(1).and_then(|n| text.lines().nth(n)) {
        Some(found) => d.with_note(format!("PTX line {line}: {}", found.trim())),
        None => d,
    }
}

fn is_communication(kind: &InstructionKind) -> bool {
    matches!(kind, InstructionKind::Send { .. } | InstructionKind::Receive { .. } | InstructionKind::Collective { .. })
}

/// Memory that the launches of a kernel share: 256-byte lines.
struct Scratch(Vec<Line>);

#[derive(Clone, Copy)]
#[repr(align(256))]
struct Line(#[expect(dead_code, reason = "kernels touch it by its address")] [u8; SCRATCH_ALIGNMENT]);

impl Scratch {
    fn new(bytes: usize) -> Result<Scratch> {
        let mut lines = Vec::new();
        let count = bytes.div_ceil(SCRATCH_ALIGNMENT);
        lines.try_reserve_exact(count).map_err(|_| Diagnostic::outcome("E0601", format!("{} of scratch cannot be allocated", Bytes(bytes as u64))))?;
        // Kernels may not count on anything: every byte of a number is set.
        lines.resize(count, Line([0xA5; SCRATCH_ALIGNMENT]));
        Ok(Scratch(lines))
    }
    fn base(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
    fn bytes(&self) -> usize {
        self.0.len() * SCRATCH_ALIGNMENT
    }
}

/// A rank on the emulator.
struct EmulatedDevice {
    emulator: Arc<Emulator>,
    arena: Arena,
    scratch: Scratch,
    /// Which bytes of the arena something has written, where that is checked.
    written: Option<Arc<Written>>,
    launches: Launches,
    calls: Calls,
    /// What the program's buffers hold.
    names: PrimaryMap<BufferId, Box<str>>,
    /// What each instruction that computes writes.
    writes: [Vec<Vec<Place>>; 4],
    /// What each instruction computes.
    sources: [Vec<Box<str>>; 4],
    parameters: Vec<u64>,
}

impl EmulatedDevice {
    /// Makes the launches of an instruction.
    fn start(&mut self, position: Position) -> Result<()> {
        let started = self.launches.at(position).expect("invariant: it is started");
        let scratch = self.scratch.base();
        let memory = memory(&self.arena, &self.names, self.written.as_ref(), started, position.microbatch, scratch);
        let (base, scratch) = (self.arena.base().expose_provenance() as u64, scratch.expose_provenance() as u64);
        let Emulation { checks, perturb } = self.emulator.how;
        let options = ptx::Options { checks, perturb, ..ptx::Options::default() };
        for launch in started.launches.iter() {
            started.parameters(launch, base, scratch, position.microbatch, &mut self.parameters);
            let entry = self.emulator.module.entry(&launch.entry).expect("invariant: all entries were looked up");
            let grid = Grid { grid: launch.grid, block: launch.block, dynamic_shared: launch.shared };
            let source = &self.sources[position.phase as usize][position.instruction as usize];
            ptx::launch(&self.emulator.module, entry, grid, &self.parameters, &memory, &options).map_err(|fault| self.emulator.fault(&fault, source))?;
        }
        Ok(())
    }
}

/// What the launches of an instruction may touch: its buffers, as far as its kernel or op says, and its scratch.
fn memory(
    arena: &Arena,
    names: &PrimaryMap<BufferId, Box<str>>,
    written: Option<&Arc<Written>>,
    started: &Started,
    microbatch: u32,
    scratch: *mut u8,
) -> Memory {
    let mut memory = Memory::new();
    for given in &started.buffers {
        // SAFETY: the bytes lie inside the arena, whose owner is the only one to touch the buffers of an instruction while it executes it.
        unsafe { memory.register(&*names[given.buffer], arena.base().add(given.place.offset(microbatch)), given.bytes, given.written) };
    }
    if let Some(written) = written {
        memory.track(written);
    }
    if started.scratch > 0 {
        // SAFETY: as long as the longest of all kernels, and the device's own.
        unsafe { memory.register("scratch", scratch, started.scratch, true) };
        if written.is_some() {
            memory.track(&Arc::new(Written::new(scratch, started.scratch)));
        }
    }
    memory
}

impl Device for EmulatedDevice {
    fn arena(&self) -> Region {
        Region { address: self.arena.base(), bytes: self.arena.bytes() }
    }

    fn execute(&mut self, position: Position) -> Result<()> {
        if self.launches.at(position).is_some() {
            return self.start(position);
        }
        // SAFETY: the arena is of the program's size, and this thread is the only one that touches these buffers until the transport synchronises.
        unsafe { self.calls.execute(self.arena.base(), position) };
        if let Some(written) = &self.written {
            for place in &self.writes[position.phase as usize][position.instruction as usize] {
                written.mark(place.offset(position.microbatch) as u64, place.bytes() as u64);
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        // SAFETY: the device is not executing.
        unsafe { self.arena.write(offset, bytes) }
        if let Some(written) = &self.written {
            written.mark(offset as u64, bytes.len() as u64);
        }
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        // SAFETY: the device is not executing.
        unsafe { self.arena.read(offset, bytes) }
    }

    fn scratch_bytes(&self) -> usize {
        let written = if self.written.is_some() { self.arena.bytes().div_ceil(8) } else { 0 };
        self.calls.scratch_bytes() + self.scratch.bytes() + written
    }
}
