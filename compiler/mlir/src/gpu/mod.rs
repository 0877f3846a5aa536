//! Kernels to PTX.
//!
//! [`mapping`] lays a kernel's points over threads, [`emit`] writes one entry a launch (with [`access`] and [`combine`]), and LLVM's NVPTX makes text of it.
//! The nest, the order of passes, the elementwise operations and the elementary functions are those of the CPU.

mod access;
mod combine;
mod emit;
mod mapping;
mod ptxas;
mod target;
mod traffic;

pub use ptxas::{Assembled, assemble, ptxas};
pub use target::CudaTarget;
pub use traffic::{SECTOR, Traffic, cuda_traffic};

use crate::error::Error;
use crate::llvm::{LlvmContext, Machine, TargetMachine};
use emit::Plan;
use ir::kernel::Kernel;
use ir::plan::Launch;
use std::thread;

/// A PTX module and how each kernel is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaCode {
    /// The module's text.
    pub ptx: String,
    /// The launches of each kernel, in order.
    pub launches: Vec<Vec<Launch>>,
}

/// PTX for `kernels` under their symbols.
pub fn compile_cuda(kernels: &[(String, &Kernel)], target: CudaTarget) -> Result<CudaCode, Error> {
    let written = kernels.iter().map(|(symbol, kernel)| Plan::new(symbol, kernel)?.write()).collect::<Result<Vec<_>, _>>()?;
    let (texts, launches): (Vec<String>, Vec<Vec<Launch>>) = written.into_iter().unzip();
    let modules = crate::halves(&texts);
    let parts = thread::scope(|scope| {
        let threads: Vec<_> = modules.iter().map(|module| scope.spawn(|| assembly(module, target))).collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(Error::Llvm("a compiler thread panicked".to_owned())))).collect::<Result<Vec<_>, _>>()
    })?;
    Ok(CudaCode { ptx: joined(&parts), launches })
}

/// The MLIR that `kernel` is written as for GPUs, before any pass.
pub fn print_cuda_mlir(kernel: &Kernel) -> Result<String, Error> {
    Ok(Plan::new(&kernel.symbol(), kernel)?.write()?.0)
}

fn assembly(module: &str, target: CudaTarget) -> Result<String, Error> {
    let llvm = LlvmContext::new();
    let module = crate::lower::to_llvm(&crate::lower::context(), module, &llvm)?;
    let machine = TargetMachine::new(Machine::Cuda(target))?;
    module.optimise(&machine)?;
    String::from_utf8(module.assembly(&machine)?).map_err(|e| Error::Llvm(e.to_string()))
}

/// Modules of one version and target as one.
fn joined(parts: &[String]) -> String {
    let header = |line: &str| [".version", ".target", ".address_size"].iter().any(|d| line.starts_with(d));
    let mut text = String::new();
    for (number, part) in parts.iter().enumerate() {
        // Comments and blank lines are not part of the program.
        let lines = part.lines().map(|l| l.split("//").next().unwrap_or("").trim_end()).filter(|l| !l.is_empty());
        for line in lines.filter(|l| number == 0 || !header(l)) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}
