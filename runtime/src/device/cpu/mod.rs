//! The CPU device: compiled kernels, matrix products by `gemm`, and a library of routines on typed slices.
//!
//! Making the device turns every compute instruction of the program into a [`Call`] with its addresses' recipe; executing one looks up the slot of the
//! microbatch and calls. One device is one thread: nothing here starts another.

pub mod code;
mod copy;
mod library;
mod matmul;

use crate::arena::{Arena, Place};
use crate::device::{Device, Position, Region, Seat};
use code::{Function, Object};
use ir::kernel::Kernel;
use ir::program::{Instruction, InstructionKind, KernelId, Program, Scalar};
use ir::{AxisId, Diagnostic, PrimaryMap, Result};
use std::mem::MaybeUninit;
use std::sync::Arc;

pub use matmul::SCRATCH_BYTES as MATMUL_SCRATCH_BYTES;

/// Largest number of buffers and of scalars that a kernel or library call may take.
const MAX_PARAMETERS: usize = 256;

/// A run-time scalar with the device's coordinates filled in.
#[derive(Clone, Copy, Debug)]
struct Linear {
    constant: i64,
    per_microbatch: i64,
}

impl Linear {
    fn new(scalar: &Scalar, seat: &Seat) -> Linear {
        let per_microbatch = scalar.axes.iter().filter(|(a, _)| *a == AxisId::MICROBATCH).map(|(_, k)| k).sum();
        Linear { constant: scalar.value(&seat.coordinates, 0), per_microbatch }
    }
    #[inline]
    fn at(self, microbatch: u32) -> i64 {
        self.constant + self.per_microbatch * i64::from(microbatch)
    }
}

/// A prepared instruction.
enum Call {
    /// Not this device's business.
    Communication,
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

/// A thread's device.
pub struct CpuDevice {
    arena: Arena,
    phases: [Vec<Call>; 4],
    scratch: matmul::Scratch,
    library_scratch: library::Scratch,
    _object: Option<Arc<Object>>,
}

impl CpuDevice {
    /// Allocates the arena and prepares every instruction of `program` for `seat`.
    ///
    /// # Errors
    /// Everything this device cannot do, named all at once.
    pub fn new(program: &Program, kernels: &PrimaryMap<KernelId, Kernel>, object: Option<Arc<Object>>, seat: &Seat) -> Result<CpuDevice> {
        let mut refused = Vec::new();
        let mut library_scratch = library::Scratch::default();
        let mut converts = false;
        let phases = program.phases.each_ref().map(|instructions| {
            let prepare = |instruction: &Instruction| {
                let call = prepare(program, kernels, object.as_deref(), seat, instruction, &mut library_scratch);
                converts |= matches!(&call, Ok(Call::MatMul { product, .. }) if product.converts());
                call.unwrap_or_else(|d| {
                    refused.push(d);
                    Call::Communication
                })
            };
            instructions.iter().map(prepare).collect()
        });
        if !refused.is_empty() {
            refused.dedup();
            return Err(ir::Diagnostics(refused));
        }
        library_scratch.allocate();
        Ok(CpuDevice { arena: Arena::new(program.arena)?, phases, scratch: matmul::Scratch::new(converts), library_scratch, _object: object })
    }
}

fn prepare(
    program: &Program,
    kernels: &PrimaryMap<KernelId, Kernel>,
    object: Option<&Object>,
    seat: &Seat,
    instruction: &Instruction,
    scratch: &mut library::Scratch,
) -> Result<Call, Diagnostic> {
    let wrong = |what: String| Diagnostic::input("E0602", format!("this plan is inconsistent: {what}")).with_note(format!("in {}", instruction.source));
    let place = |list: &[ir::program::BufferId], i: usize| {
        list.get(i).map(|&b| Place::of(&program.buffers[b])).ok_or_else(|| wrong(format!("operand {i} of an instruction is missing")))
    };
    match &instruction.kind {
        InstructionKind::Send { .. } | InstructionKind::Receive { .. } | InstructionKind::Collective { .. } => Ok(Call::Communication),
        InstructionKind::Kernel { kernel, scalars } => {
            let description = kernels.get(*kernel).ok_or_else(|| wrong(format!("{kernel} is not in the plan")))?;
            let buffers: Vec<_> = instruction.reads.iter().chain(&instruction.writes).copied().collect();
            if buffers.len() != description.params.len() || scalars.len() != description.scalars as usize || buffers.len().max(scalars.len()) > MAX_PARAMETERS {
                return Err(wrong(format!("{kernel} takes {} buffers and is given {}", description.params.len(), buffers.len())));
            }
            for (parameter, &b) in description.params.iter().zip(&buffers) {
                let buffer = &program.buffers[b];
                if parameter.elements * parameter.dtype.bytes() > buffer.slot_stride {
                    return Err(wrong(format!("{kernel} needs {} elements of {} and buffer {b} is {}", parameter.elements, parameter.dtype, buffer.ty)));
                }
            }
            let symbol = description.symbol();
            let function = object.and_then(|o| o.function(&symbol)).ok_or_else(|| {
                Diagnostic::input("E0603", format!("the plan's code has no {symbol}"))
                    .with_note(format!("it computes {}", instruction.source))
                    .with_help("compile the model again for this target")
            })?;
            Ok(Call::Kernel { function, parameters: Place::all(program, &buffers), scalars: scalars.iter().map(|s| Linear::new(s, seat)).collect() })
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
            let buffers: Vec<_> = instruction.reads.iter().chain(&instruction.writes).copied().collect();
            let types: Vec<_> = operands.iter().chain(results).collect();
            if instruction.reads.len() != operands.len() || buffers.len() != types.len() || buffers.len() > MAX_PARAMETERS {
                return Err(wrong("a library op is given another number of buffers than it has types".into()));
            }
            if let Some((ty, b)) = types.iter().zip(&buffers).find(|(ty, b)| ty.bytes() > program.buffers[**b].ty.bytes()) {
                return Err(wrong(format!("a library op needs {ty} and buffer {b} is {}", program.buffers[*b].ty)));
            }
            let routine = library::Routine::new(op, operands, results, scratch).map_err(|why| {
                Diagnostic::input("E0604", format!("the cpu device cannot execute {}: {why}", library::name(op)))
                    .with_note(format!("in {}", instruction.source))
            })?;
            Ok(Call::Library { routine, parameters: Place::all(program, &buffers) })
        }
    }
}

impl Device for CpuDevice {
    fn arena(&self) -> Region {
        Region { address: self.arena.base(), bytes: self.arena.bytes() }
    }

    fn execute(&mut self, position: Position) -> Result<()> {
        let base = self.arena.base();
        let m = position.microbatch;
        // SAFETY: every place lies inside the arena (`Program::verify`), the extents of every access were checked against its buffer when the call was
        // prepared, and this thread is the only one that touches these buffers until the transport synchronises.
        unsafe {
            match &self.phases[position.phase as usize][position.instruction as usize] {
                Call::Communication => {}
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
        Ok(())
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.arena.bytes(), "invariant: buffers lie inside the arena");
        // SAFETY: in bounds, and the device is not executing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.arena.base().add(offset), bytes.len()) }
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        assert!(offset + bytes.len() <= self.arena.bytes(), "invariant: buffers lie inside the arena");
        // SAFETY: in bounds, and the device is not executing.
        unsafe { std::ptr::copy_nonoverlapping(self.arena.base().add(offset), bytes.as_mut_ptr(), bytes.len()) }
    }

    fn scratch_bytes(&self) -> usize {
        self.scratch.bytes() + self.library_scratch.bytes()
    }
}
