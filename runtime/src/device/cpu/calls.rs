//! A rank's compute instructions as calls, ready but for the arena's address and the microbatch.

use super::code::{Function, Object};
use super::{copy, library, matmul};
use crate::arena::Place;
use crate::device::launches::Launches;
use crate::device::operands::{Linear, MAX_PARAMETERS, inconsistent, library_operands, operands};
use crate::device::{Position, Seat};
use ir::kernel::Kernel;
use ir::program::{Instruction, InstructionKind, KernelId, Phase, Program};
use ir::{Diagnostic, PrimaryMap, Result};
use std::mem::MaybeUninit;

/// Who executes kernels, and library ops that a plan has entries for.
#[derive(Clone, Copy)]
pub enum Kernels<'a> {
    /// The processor, by a plan's object.
    Object(Option<&'a Object>),
    /// Another device, which works in the same arena: what it starts is not the processor's business.
    Elsewhere(&'a Launches),
}

/// A prepared instruction.
enum Call {
    /// Not the processor's business.
    Elsewhere,
    Kernel {
        function: Function,
        parameters: Vec<Place>,
        scalars: Vec<Linear>,
    },
    MatMul {
        product: matmul::Product,
        a: Place,
        b: Place,
        c: Place,
    },
    Copy {
        copy: copy::Copy,
        from: Place,
        to: Place,
    },
    Fill {
        element: Vec<u8>,
        to: Place,
    },
    Library {
        routine: library::Routine,
        parameters: Vec<Place>,
    },
}

/// All instructions of a rank, with the scratch they share.
pub struct Calls {
    phases: [Vec<Call>; 4],
    scratch: matmul::Scratch,
    library_scratch: library::Scratch,
}

impl Calls {
    /// Prepares every instruction of `program` for `seat`.
    ///
    /// # Errors
    /// Everything that cannot be done, named all at once.
    pub fn new(program: &Program, kernels: &PrimaryMap<KernelId, Kernel>, by: Kernels<'_>, seat: &Seat) -> Result<Calls> {
        let mut refused = Vec::new();
        let mut library_scratch = library::Scratch::default();
        let mut converts = false;
        let phases = Phase::ALL.map(|phase| {
            let prepare = |(number, instruction): (usize, &Instruction)| {
                let position = Position { phase, instruction: number as u32, microbatch: 0 };
                if matches!(by, Kernels::Elsewhere(launches) if launches.at(position).is_some()) {
                    return Call::Elsewhere;
                }
                let call = prepare(program, kernels, by, seat, instruction, &mut library_scratch);
                converts |= matches!(&call, Ok(Call::MatMul { product, .. }) if product.converts());
                call.unwrap_or_else(|d| {
                    refused.push(d);
                    Call::Elsewhere
                })
            };
            program.phase(phase).iter().enumerate().map(prepare).collect()
        });
        if !refused.is_empty() {
            refused.dedup();
            return Err(ir::Diagnostics(refused));
        }
        library_scratch.allocate();
        Ok(Calls { phases, scratch: matmul::Scratch::new(converts), library_scratch })
    }

    /// Makes the call at `position`, if it is the processor's.
    ///
    /// # Safety
    /// `base` is the address of an arena of the program's size, and nobody else touches the instruction's buffers meanwhile.
    pub unsafe fn execute(&mut self, base: *mut u8, position: Position) {
        let m = position.microbatch;
        // SAFETY: every place lies inside the arena (`Program::verify`), and the extents of every access were checked against its buffer when the call was
        // prepared; the rest is this function's contract.
        unsafe {
            match &self.phases[position.phase as usize][position.instruction as usize] {
                Call::Elsewhere => {}
                Call::Kernel { function, parameters, scalars } => {
                    // Only the first of each are used, so clearing all would cost more than the call.
                    let mut pointers = [const { MaybeUninit::<*mut u8>::uninit() }; MAX_PARAMETERS];
                    let mut values = [const { MaybeUninit::<i64>::uninit() }; MAX_PARAMETERS];
                    for (p, place) in pointers.iter_mut().zip(parameters) {
                        p.write(base.add(place.offset(m)));
                    }
                    for (v, scalar) in values.iter_mut().zip(scalars) {
                        v.write(scalar.at(m));
                    }
                    function(pointers.as_ptr().cast(), values.as_ptr().cast());
                }
                Call::MatMul { product, a, b, c } => {
                    product.run(base.add(a.offset(m)), base.add(b.offset(m)), base.add(c.offset(m)), &mut self.scratch);
                }
                Call::Copy { copy, from, to } => copy.run(base.add(from.offset(m)), base.add(to.offset(m)), m),
                Call::Fill { element, to } => copy::fill(base.add(to.offset(m)), to.bytes(), element),
                Call::Library { routine, parameters } => {
                    let mut pointers = [std::ptr::null_mut::<u8>(); MAX_PARAMETERS];
                    for (p, place) in pointers.iter_mut().zip(parameters) {
                        *p = base.add(place.offset(m));
                    }
                    routine.run(&pointers[..parameters.len()], &mut self.library_scratch);
                }
            }
        }
    }

    /// Bytes of scratch.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch.bytes() + self.library_scratch.bytes()
    }
}

fn prepare(
    program: &Program,
    kernels: &PrimaryMap<KernelId, Kernel>,
    by: Kernels<'_>,
    seat: &Seat,
    instruction: &Instruction,
    scratch: &mut library::Scratch,
) -> Result<Call, Diagnostic> {
    let wrong = |what: String| inconsistent(instruction, what);
    let place = |list: &[ir::program::BufferId], i: usize| {
        list.get(i).map(|&b| Place::of(&program.buffers[b])).ok_or_else(|| wrong(format!("operand {i} of an instruction is missing")))
    };
    match &instruction.kind {
        InstructionKind::Send { .. } | InstructionKind::Receive { .. } | InstructionKind::Collective { .. } => Ok(Call::Elsewhere),
        InstructionKind::Kernel { .. } => {
            let Kernels::Object(object) = by else { return Ok(Call::Elsewhere) };
            let given = operands(program, kernels, seat, instruction)?.expect("invariant: a kernel instruction has operands");
            let symbol = given.kernel.symbol();
            let function = object.and_then(|o| o.function(&symbol)).ok_or_else(|| {
                Diagnostic::input("E0603", format!("the plan's code has no {symbol}"))
                    .with_note(format!("it computes {}", instruction.source))
                    .with_help("compile the model again for this target")
            })?;
            Ok(Call::Kernel { function, parameters: Place::all(program, &given.buffers), scalars: given.scalars })
        }
        InstructionKind::MatMul(description) => {
            let (a, b, c) = (place(&instruction.reads, 0)?, place(&instruction.reads, 1)?, place(&instruction.writes, 0)?);
            let product = matmul::Product::new(description).map_err(|e| e.with_note(format!("in {}", instruction.source)))?;
            let (ea, eb, ec) = product.elements(description);
            let (da, dc) = (description.dtype.bytes(), description.result.bytes());
            if ea * da > a.bytes() as u64 || eb * da > b.bytes() as u64 || ec * dc > c.bytes() as u64 {
                return Err(wrong("a matrix product reaches past its operands".into()));
            }
            Ok(Call::MatMul { product, a, b, c })
        }
        InstructionKind::Copy { shape, from, to } => {
            let (source, target) = (place(&instruction.reads, 0)?, place(&instruction.writes, 0)?);
            let element = program.buffers[instruction.reads[0]].ty.dtype.bytes();
            let copy = copy::Copy::new(shape, from, to, element, seat, (source.bytes(), target.bytes())).map_err(wrong)?;
            Ok(Call::Copy { copy, from: source, to: target })
        }
        InstructionKind::Fill { element } => {
            let to = place(&instruction.writes, 0)?;
            if element.is_empty() || to.bytes() % element.len() != 0 {
                return Err(wrong("a fill's element does not divide its buffer".into()));
            }
            Ok(Call::Fill { element: element.clone(), to })
        }
        InstructionKind::Library { op, operands, results } => {
            let buffers = library_operands(program, instruction, operands, results)?;
            let routine = library::Routine::new(op, operands, results, scratch).map_err(|why| {
                Diagnostic::input("E0604", format!("the cpu device cannot execute {}: {why}", library::name(op)))
                    .with_note(format!("in {}", instruction.source))
            })?;
            Ok(Call::Library { routine, parameters: Place::all(program, &buffers) })
        }
    }
}
