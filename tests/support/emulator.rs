//! Plans with code for GPUs, executed by the emulator.

use super::{Model, compile};
use ir::Result;
use ir::plan::Plan;
use runtime::device::emulated::{Emulation, Emulator};
use runtime::{Options, Session};
use std::sync::Arc;

/// Every check.
pub(crate) const CHECKS: Emulation = Emulation { checks: true, perturb: None };

/// A plan of a model under a line of flags, with code for the CPU and for GPUs: planning knows of neither.
pub(crate) fn compile_for_both(model: &Model, flags: &str) -> Arc<Plan> {
    let mut plan = Plan::clone(&compile(model, flags));
    let code = compiler::lower::code::make(&plan.kernels, &plan.programs, "cuda:sm_80").unwrap_or_else(|e| panic!("{} {flags}: {e}", model.path.display()));
    plan.code.extend(code);
    Arc::new(plan)
}

/// Opens a plan on the emulator.
///
/// # Errors
/// What it refuses.
pub(crate) fn emulate(plan: &Arc<Plan>, how: Emulation) -> Result<Session> {
    let emulator = Arc::new(Emulator::new(plan, how)?);
    Session::open_with(plan, &Options::default(), move |program, seat| emulator.device(program, seat))
}
