//! Machine code for the kernels of a plan: one shared object for the CPU, or one PTX module for GPUs.

use ir::PrimaryMap;
use ir::diagnostic::{Diagnostic, Result};
use ir::kernel::Kernel;
use ir::plan::{Code, LibraryCode};
use ir::program::{InstructionKind, KernelId, Program};

/// What code is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// CPUs of a level.
    Cpu(mlir::CpuTarget),
    /// GPUs of an architecture.
    Cuda(mlir::CudaTarget),
}

/// The target that `name` is, a level of CPUs or `cuda:` and an architecture. `host` is resolved here: the plan names the level that its code needs.
///
/// # Errors
/// `E0803` when there is no such level, `E0804` when there is no such architecture.
pub fn target(name: &str) -> Result<Target> {
    if let Some(level) = name.strip_prefix("cuda:") {
        let unknown = |e: mlir::Error| Diagnostic::input("E0804", e.to_string()).with_help("for example `--target cuda:sm_90` for H100");
        return Ok(Target::Cuda(level.parse().map_err(unknown)?));
    }
    let unknown = |e: mlir::Error| Diagnostic::input("E0803", e.to_string()).with_help("for example `--cpu x86-64-v3`, or `--cpu host` for this machine");
    Ok(Target::Cpu(name.parse().map_err(unknown)?))
}

/// Compiles every kernel for the target that `name` is; for GPUs also the library ops of `programs` that there are kernels for.
///
/// # Errors
/// Those of [`target`]; `E0802` when a kernel cannot be compiled.
pub fn make(kernels: &PrimaryMap<KernelId, Kernel>, programs: &[Program], name: &str) -> Result<Vec<Code>> {
    let named: Vec<(String, &Kernel)> = kernels.values().map(|k| (k.symbol(), k)).collect();
    let failed =
        |e: mlir::Error| Diagnostic::outcome("E0802", format!("a kernel could not be compiled: {e}")).with_help("this is a bug; please report the model");
    let code = match target(name)? {
        Target::Cpu(cpu) => {
            let object = mlir::compile_cpu(&named, cpu).map_err(failed)?;
            Code { target: "cpu".into(), level: cpu.level().into(), object, launches: PrimaryMap::new(), library: Vec::new() }
        }
        Target::Cuda(gpu) => {
            let made = mlir::compile_cuda(&named, gpu).map_err(failed)?;
            let (text, library) = library(programs);
            let object = [made.ptx, text].concat().into_bytes();
            Code { target: "cuda".into(), level: gpu.level().into(), object, launches: made.launches.into_iter().collect(), library }
        }
    };
    Ok(vec![code])
}

/// Entries for the library ops of some programs, each once, in the order in which they come.
fn library(programs: &[Program]) -> (String, Vec<LibraryCode>) {
    let (mut text, mut all) = (String::new(), Vec::<LibraryCode>::new());
    for instruction in programs.iter().flat_map(|p| &p.phases).flatten() {
        let InstructionKind::Library { op, operands, results } = &instruction.kind else { continue };
        if all.iter().any(|l| l.op == *op && l.operands == *operands && l.results == *results) {
            continue;
        }
        let Some(made) = gpu_library::write(&format!("library_{}", all.len()), op, operands, results) else { continue };
        if all.is_empty() {
            text.push_str(gpu_library::DECLARATIONS);
        }
        text.push_str(&made.text);
        all.push(LibraryCode { op: op.clone(), operands: operands.clone(), results: results.clone(), launches: made.launches });
    }
    (text, all)
}
