//! What an instruction is given, checked against what its kernel or library op takes: the same for every device.

use crate::device::Seat;
use ir::kernel::Kernel;
use ir::program::{BufferId, Instruction, InstructionKind, KernelId, Program, Scalar};
use ir::{AxisId, Diagnostic, PrimaryMap, TensorType};

/// Largest number of buffers and of scalars that a kernel or library call may take.
pub(crate) const MAX_PARAMETERS: usize = 256;

/// A run-time scalar with a rank's coordinates filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    constant: i64,
    per_microbatch: i64,
}

impl Linear {
    /// The scalar for a rank.
    pub fn new(scalar: &Scalar, seat: &Seat) -> Linear {
        let per_microbatch = scalar.axes.iter().filter(|(a, _)| *a == AxisId::MICROBATCH).map(|(_, k)| k).sum();
        Linear { constant: scalar.value(&seat.coordinates, 0), per_microbatch }
    }
    /// Its value for a microbatch.
    #[inline]
    pub fn at(self, microbatch: u32) -> i64 {
        self.constant + self.per_microbatch * i64::from(microbatch)
    }
}

/// A kernel instruction's kernel, buffers (those read, then those written) and scalars.
pub(crate) struct Operands<'a> {
    pub(crate) id: KernelId,
    pub(crate) kernel: &'a Kernel,
    pub(crate) buffers: Vec<BufferId>,
    pub(crate) scalars: Vec<Linear>,
}

/// The diagnostic of an instruction that contradicts its program.
pub(crate) fn inconsistent(instruction: &Instruction, what: String) -> Diagnostic {
    Diagnostic::input("E0602", format!("this plan is inconsistent: {what}")).with_note(format!("in {}", instruction.source))
}

/// The operands of a kernel instruction; none for any other.
///
/// # Errors
/// `E0602` when they are not what the kernel takes.
pub(crate) fn operands<'a>(
    program: &Program,
    kernels: &'a PrimaryMap<KernelId, Kernel>,
    seat: &Seat,
    instruction: &Instruction,
) -> Result<Option<Operands<'a>>, Diagnostic> {
    let InstructionKind::Kernel { kernel: id, scalars } = &instruction.kind else { return Ok(None) };
    let wrong = |what: String| inconsistent(instruction, what);
    let kernel = kernels.get(*id).ok_or_else(|| wrong(format!("{id} is not in the plan")))?;
    let buffers: Vec<_> = instruction.reads.iter().chain(&instruction.writes).copied().collect();
    if buffers.len() != kernel.params.len() || buffers.len() > MAX_PARAMETERS {
        return Err(wrong(format!("{id} takes {} buffers and is given {}", kernel.params.len(), buffers.len())));
    }
    if scalars.len() != kernel.scalars as usize || scalars.len() > MAX_PARAMETERS {
        return Err(wrong(format!("{id} takes {} run-time scalars and is given {}", kernel.scalars, scalars.len())));
    }
    for (parameter, &b) in kernel.params.iter().zip(&buffers) {
        let buffer = &program.buffers[b];
        if parameter.elements.checked_mul(parameter.dtype.bytes()).is_none_or(|bytes| bytes > buffer.slot_stride) {
            return Err(wrong(format!("{id} needs {} elements of {} and buffer {b} is {}", parameter.elements, parameter.dtype, buffer.ty)));
        }
    }
    Ok(Some(Operands { id: *id, kernel, buffers, scalars: scalars.iter().map(|s| Linear::new(s, seat)).collect() }))
}

/// The buffers of a library op's instruction: its operands', then its results'.
///
/// # Errors
/// `E0602` when they are not what the op takes.
pub(crate) fn library_operands(
    program: &Program,
    instruction: &Instruction,
    operands: &[TensorType],
    results: &[TensorType],
) -> Result<Vec<BufferId>, Diagnostic> {
    let wrong = |what: String| inconsistent(instruction, what);
    let buffers: Vec<BufferId> = instruction.reads.iter().chain(&instruction.writes).copied().collect();
    if instruction.reads.len() != operands.len() || instruction.writes.len() != results.len() || buffers.len() > MAX_PARAMETERS {
        return Err(wrong("a library op is given another number of buffers than it has types".into()));
    }
    if let Some((ty, b)) = operands.iter().chain(results).zip(&buffers).find(|(ty, b)| ty.bytes() > program.buffers[**b].ty.bytes()) {
        return Err(wrong(format!("a library op needs {ty} and buffer {b} is {}", program.buffers[*b].ty)));
    }
    Ok(buffers)
}
