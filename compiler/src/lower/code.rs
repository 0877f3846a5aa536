//! Machine code for the kernels of a plan: one shared object for the CPU.

use ir::PrimaryMap;
use ir::diagnostic::{Diagnostic, Result};
use ir::kernel::Kernel;
use ir::plan::Code;
use ir::program::KernelId;

/// The CPU that code of `level` is for. `host` is resolved here: the plan names the level that its code needs.
///
/// # Errors
/// `E0803` when there is no such level.
pub fn target(level: &str) -> Result<mlir::CpuTarget> {
    let unknown = |e: mlir::Error| Diagnostic::input("E0803", e.to_string()).with_help("for example `--cpu x86-64-v3`, or `--cpu host` for this machine");
    Ok(level.parse().map_err(unknown)?)
}

/// Compiles every kernel for CPUs of `level`.
///
/// # Errors
/// `E0802` when a kernel cannot be compiled.
pub fn cpu(kernels: &PrimaryMap<KernelId, Kernel>, level: &str) -> Result<Vec<Code>> {
    let target = target(level)?;
    let named: Vec<(String, &Kernel)> = kernels.values().map(|k| (k.symbol(), k)).collect();
    let object = mlir::compile_cpu(&named, target)
        .map_err(|e| Diagnostic::outcome("E0802", format!("a kernel could not be compiled: {e}")).with_help("this is a bug; please report the model"))?;
    Ok(vec![Code { target: "cpu".into(), level: target.level().into(), object }])
}
