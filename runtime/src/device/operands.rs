//! What a kernel instruction is given, checked against what the kernel takes: the same for every device.

use crate::device::Seat;
use ir::kernel::Kernel;
use ir::program::{BufferId, Instruction, InstructionKind, KernelId, Program, Scalar};
use ir::{AxisId, Diagnostic, PrimaryMap};

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
