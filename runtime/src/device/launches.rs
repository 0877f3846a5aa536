//! What a GPU starts for each instruction of a rank that the plan has entries for, kernels and library ops: entries, shapes, and the words that are their
//! parameters.
//!
//! Resolved once, when a device is made, and shared by every device that executes PTX: a step then looks up an instruction's [`Started`] and, launch by
//! launch, fills in the words for the microbatch. Whether the entries exist, and whether the card can make the launches, is for the device to say.

use crate::arena::Place;
use crate::device::operands::{Linear, inconsistent, library_operands, operands};
use crate::device::{Position, Seat};
use ir::kernel::Kernel;
use ir::plan::{Code, Launch};
use ir::program::{BufferId, Instruction, InstructionKind, KernelId, Phase, Program};
use ir::{Diagnostic, Diagnostics, PrimaryMap, Result};
use std::sync::Arc;

/// What global pointers of an entry are multiples of, its scratch apart.
pub const POINTER_ALIGNMENT: usize = 16;
/// What the address of scratch is a multiple of.
pub const SCRATCH_ALIGNMENT: usize = 256;
/// Parameters that an entry may have: 4 KiB on every card.
const MOST_WORDS: usize = 512;

/// A parameter of an entry, 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The address of a buffer, in the slot of the microbatch.
    Buffer(Place),
    /// An integer.
    Scalar(Linear),
}

impl Word {
    /// Its bits for a microbatch, in an arena at `base`.
    #[inline]
    pub fn bits(&self, base: u64, microbatch: u32) -> u64 {
        match self {
            Word::Buffer(place) => base + place.offset(microbatch) as u64,
            Word::Scalar(scalar) => scalar.at(microbatch) as u64,
        }
    }
}

/// A buffer that launches are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Which.
    pub buffer: BufferId,
    /// Where.
    pub place: Place,
    /// Bytes of it that they may touch.
    pub bytes: usize,
    /// Whether they write it, else they only read.
    pub written: bool,
}

/// What an instruction starts: its launches, one after the other, each with the same words.
#[derive(Clone, Debug)]
pub struct Started {
    /// Its launches, in order.
    pub launches: Arc<[Launch]>,
    /// The parameters of every launch, in order, but for the scratch.
    pub words: Vec<Word>,
    /// Its buffers, in the order of their words.
    pub buffers: Vec<Given>,
    /// Bytes of scratch that its launches share; 0 for none.
    pub scratch: usize,
}

impl Started {
    /// Sets `parameters` to those of `launch`, in an arena at `base` with scratch at `scratch`.
    pub fn parameters(&self, launch: &Launch, base: u64, scratch: u64, microbatch: u32, parameters: &mut Vec<u64>) {
        parameters.clear();
        parameters.extend(self.words.iter().map(|w| w.bits(base, microbatch)));
        if launch.scratch > 0 {
            parameters.push(scratch);
        }
    }
}

/// What all instructions of a program start.
#[derive(Debug)]
pub struct Launches {
    phases: [Vec<Option<Started>>; 4],
    scratch: usize,
}

impl Launches {
    /// Resolves the kernels and library ops of `program` for `seat`, by the launches of `code`.
    ///
    /// # Errors
    /// `E0602` where the program, its kernels and the code contradict each other, all at once.
    pub fn new(program: &Program, kernels: &PrimaryMap<KernelId, Kernel>, code: &Code, seat: &Seat) -> Result<Launches> {
        let shared: PrimaryMap<KernelId, Arc<[Launch]>> = code.launches.values().map(|l| l.clone().into()).collect();
        let library: Vec<Arc<[Launch]>> = code.library.iter().map(|l| l.launches.clone().into()).collect();
        let (mut refused, mut scratch) = (Vec::new(), 0);
        let phases = Phase::ALL.map(|phase| {
            let mut one = |instruction: &Instruction| match start(program, kernels, code, (&shared, &library), seat, instruction) {
                Ok(started) => {
                    scratch = scratch.max(started.as_ref().map_or(0, |s| s.scratch));
                    started
                }
                Err(d) => {
                    refused.push(d);
                    None
                }
            };
            program.phase(phase).iter().map(&mut one).collect::<Vec<_>>()
        });
        refused.dedup();
        if refused.is_empty() { Ok(Launches { phases, scratch }) } else { Err(Diagnostics(refused)) }
    }
    /// What the instruction at `position` starts; none when the plan has no entries for it.
    #[inline]
    pub fn at(&self, position: Position) -> Option<&Started> {
        self.phases[position.phase as usize][position.instruction as usize].as_ref()
    }
    /// Everything that is started, phase by phase.
    pub fn all(&self) -> impl Iterator<Item = &Started> {
        self.phases.iter().flatten().flatten()
    }
    /// Bytes of scratch that suffice for every kernel, one at a time; a device allocates them [`SCRATCH_ALIGNMENT`]-aligned.
    pub fn scratch(&self) -> usize {
        self.scratch
    }
}

fn start(
    program: &Program,
    kernels: &PrimaryMap<KernelId, Kernel>,
    code: &Code,
    (of_kernels, of_library): (&PrimaryMap<KernelId, Arc<[Launch]>>, &[Arc<[Launch]>]),
    seat: &Seat,
    instruction: &Instruction,
) -> Result<Option<Started>, Diagnostic> {
    let given = |buffer: BufferId, bytes: u64, written: bool| Given { buffer, place: Place::of(&program.buffers[buffer]), bytes: bytes as usize, written };
    if let InstructionKind::Library { op, operands, results } = &instruction.kind {
        let Some(number) = code.library.iter().position(|l| l.op == *op && l.operands == *operands && l.results == *results) else { return Ok(None) };
        let buffers = library_operands(program, instruction, operands, results)?;
        let types = operands.iter().chain(results).enumerate();
        let buffers = buffers.into_iter().zip(types).map(|(b, (i, ty))| given(b, ty.bytes(), i >= operands.len())).collect();
        return started(instruction, &format!("library op {number}"), &of_library[number], buffers, Vec::new()).map(Some);
    }
    let Some(found) = operands(program, kernels, seat, instruction)? else { return Ok(None) };
    let launches = of_kernels.get(found.id).filter(|l| !l.is_empty());
    let launches = launches.ok_or_else(|| inconsistent(instruction, format!("nothing starts {}", found.id)))?;
    let params = found.kernel.params.iter();
    let buffers = found.buffers.iter().zip(params).map(|(&b, p)| given(b, p.elements * p.dtype.bytes(), p.output)).collect();
    started(instruction, &found.id.to_string(), launches, buffers, found.scalars).map(Some)
}

/// The launches of an instruction, which is called `what`, with its buffers and scalars.
fn started(instruction: &Instruction, what: &str, launches: &Arc<[Launch]>, buffers: Vec<Given>, scalars: Vec<Linear>) -> Result<Started, Diagnostic> {
    let wrong = |what: String| inconsistent(instruction, what);
    if let Some(b) = buffers.iter().find(|b| !b.place.is_aligned(POINTER_ALIGNMENT)) {
        return Err(wrong(format!("buffer {} does not begin at a multiple of {POINTER_ALIGNMENT} bytes, as kernels of GPUs need it", b.buffer)));
    }
    let words: Vec<Word> = buffers.iter().map(|b| Word::Buffer(b.place)).chain(scalars.into_iter().map(Word::Scalar)).collect();
    if words.len() >= MOST_WORDS {
        return Err(wrong(format!("{what} takes {} parameters, and an entry may have {MOST_WORDS}", words.len())));
    }
    // The launches that have scratch share it, so one that was given less would overwrite what lies behind.
    let mut sizes = launches.iter().map(|l| l.scratch).filter(|&s| s > 0);
    let scratch = sizes.next().unwrap_or(0);
    if sizes.any(|s| s != scratch) {
        return Err(wrong(format!("the launches of {what} share scratch and differ in its size")));
    }
    let scratch = usize::try_from(scratch).map_err(|_| wrong(format!("{what} needs {scratch} bytes of scratch")))?;
    Ok(Started { launches: launches.clone(), words, buffers, scratch })
}
