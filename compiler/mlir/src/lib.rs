//! Kernels to machine code through MLIR and LLVM.
//!
//! [`compile_cpu`] turns [`ir::kernel::Kernel`]s into one shared object that imports nothing. Each kernel becomes a function
//! `extern "C" fn(buffers: *const *mut u8, scalars: *const i64)` under its symbol: `buffers` are the arguments in order, `scalars` the run-time scalars.
//! It runs on the calling thread, allocates nothing and uses at most 64 KiB of stack for values it keeps, besides spilled registers.
//!
//! The way there: [`nest`] merges and orders dimensions and picks the one to vectorise, [`schedule`] decides what is computed where, [`emit`] writes
//! `scf`, `vector` and `arith`, [`lower`] and [`llvm`] make an object of that, [`link`] a shared object. See `docs/kernels.md`.
//!
//! [`compile_cuda`] turns the same kernels into one PTX module ([`gpu`]) through the same passes; see `docs/cuda.md`.
//!
//! **Invariant:** the same kernels and target give the same bytes. Only this crate names MLIR and LLVM.

mod check;
mod elementwise;
mod emit;
mod error;
mod gpu;
mod link;
mod llvm;
mod lower;
mod math;
mod nest;
mod schedule;
mod target;

pub use error::Error;
pub use gpu::{Assembled, CudaCode, CudaTarget, SECTOR, Traffic, assemble, compile_cuda, cuda_traffic, print_cuda_mlir, ptxas};
pub use target::CpuTarget;

use ir::kernel::Kernel;
use std::thread;

/// The machine code of `kernels` under their symbols: the bytes of a shared object.
pub fn compile_cpu(kernels: &[(String, &Kernel)], target: CpuTarget) -> Result<Vec<u8>, Error> {
    let texts = kernels.iter().map(|(symbol, kernel)| emit::function(symbol, kernel, target)).collect::<Result<Vec<_>, _>>()?;
    let modules = halves(&texts);
    let objects = thread::scope(|scope| {
        let threads: Vec<_> = modules.iter().map(|module| scope.spawn(|| object(module, target))).collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(Error::Llvm("a compiler thread panicked".to_owned())))).collect::<Result<Vec<_>, _>>()
    })?;
    link::shared_object(&objects)
}

/// The MLIR that `kernel` is written as for the default target, before any pass.
pub fn print_mlir(kernel: &Kernel) -> Result<String, Error> {
    emit::function(&kernel.symbol(), kernel, CpuTarget::default())
}

/// The LLVM IR of `kernel` as it is handed to LLVM's code generator.
pub fn print_llvm(kernel: &Kernel, target: CpuTarget) -> Result<String, Error> {
    let text = emit::function(&kernel.symbol(), kernel, target)?;
    let llvm = llvm::LlvmContext::new();
    let module = lower::to_llvm(&lower::context(), &text, &llvm)?;
    module.optimise(&llvm::TargetMachine::new(llvm::Machine::Cpu(target))?)?;
    Ok(module.text())
}

/// The major version of the LLVM in use, for the plan's record of what made its code.
pub fn llvm_version() -> u32 {
    llvm::version()
}

/// Two modules' texts of about the same length; the second is absent when there is one function only.
fn halves(functions: &[String]) -> Vec<String> {
    let mut order: Vec<usize> = (0..functions.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(functions[i].len()), i));
    let mut parts: [Vec<usize>; 2] = [vec![], vec![]];
    let mut lengths = [0, 0];
    for i in order {
        let part = usize::from(lengths[1] < lengths[0]);
        parts[part].push(i);
        lengths[part] += functions[i].len();
    }
    parts.iter_mut().for_each(|p| p.sort_unstable());
    if functions.is_empty() {
        return vec![String::new()];
    }
    parts.iter().filter(|p| !p.is_empty()).map(|p| p.iter().map(|&i| functions[i].as_str()).collect()).collect()
}

fn object(module: &str, target: CpuTarget) -> Result<Vec<u8>, Error> {
    let llvm = llvm::LlvmContext::new();
    let module = lower::to_llvm(&lower::context(), module, &llvm)?;
    let machine = llvm::TargetMachine::new(llvm::Machine::Cpu(target))?;
    module.optimise(&machine)?;
    module.object(&machine)
}
