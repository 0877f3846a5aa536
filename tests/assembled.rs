//! Every kernel of models' plans is assembled by NVIDIA's own assembler, for every architecture and without spills that it could not do without.
//!
//! The assembler spills a few bytes by choice where another block then fits on a multiprocessor; told not to aim at that, it must spill nothing.
#![allow(clippy::print_stdout, reason = "tests say what they leave out")]

mod support;

use ir::kernel::Kernel;
use mlir::CudaTarget;
use std::collections::BTreeMap;
use std::sync::Mutex;
use support::{bundled, exported, planned};

/// Models with the settings whose kernels are assembled.
const PLANS: [(&str, &[&str]); 7] = [
    ("mlp", &["--cluster local:1", "--cluster local:4"]),
    ("gpt_4l", &["--cluster local:4", "--strategy megatron --stages 1 --mesh 2x2"]),
    ("gpt2_small", &["--cluster local:1 --memory-limit 16GiB", "--cluster local:4 --memory-limit 16GiB --strategy data"]),
    ("llama_scan_bf16", &["--cluster local:1"]),
    ("moe", &["--cluster local:1", "--strategy expert --mesh 1x4"]),
    ("resnet", &["--cluster local:1", "--strategy data"]),
    ("flax_lm", &["--cluster local:1", "--strategy tensor"]),
];

/// Kernels that are assembled together.
const TOGETHER: usize = 40;
/// Bytes that may be stored and loaded for another block.
const BY_CHOICE: u32 = 32;

/// The distinct kernels of all plans, by symbol, each with a plan that has it.
fn kernels() -> BTreeMap<String, (Kernel, String)> {
    let mut all = BTreeMap::new();
    let mut add = |model: &support::Model, flags: &str| {
        for kernel in planned(model, flags).kernels.values() {
            all.entry(kernel.symbol()).or_insert_with(|| (kernel.clone(), format!("{} {flags}", model.path.display())));
        }
    };
    for flags in ["--strategy gpipe --stages 2 --microbatches 4", "--strategy fsdp", "--strategy tensor-2d"] {
        add(&bundled("gpt_tiny"), flags);
    }
    for (name, settings) in PLANS {
        if let Some(model) = exported(name) {
            settings.iter().for_each(|flags| add(&model, flags));
        }
    }
    all
}

/// What is wrong with some kernels on an architecture.
fn faults(ptxas: &std::path::Path, some: &[(&String, &(Kernel, String))], target: CudaTarget) -> Vec<String> {
    let named: Vec<(String, &Kernel)> = some.iter().map(|(symbol, (kernel, _))| ((*symbol).clone(), kernel)).collect();
    let code = match mlir::compile_cuda(&named, target) {
        Ok(code) => code,
        Err(e) => return vec![format!("{target}: {e}")],
    };
    let assembled = match mlir::assemble(ptxas, &code.ptx, target) {
        Ok(assembled) => assembled,
        Err(e) => return vec![format!("{target}: {e}")],
    };
    // The same, for as few blocks as will do.
    let needed = if assembled.iter().any(|a| a.spills > 0) {
        let lines = code.ptx.lines().flat_map(|l| [Some(l), l.starts_with(".maxntid").then_some(".minnctapersm 1")]).flatten();
        match mlir::assemble(ptxas, &lines.collect::<Vec<_>>().join("\n"), target) {
            Ok(assembled) => assembled,
            Err(e) => return vec![format!("{target}: {e}")],
        }
    } else {
        Vec::new()
    };
    let chosen = |entry: &str| needed.iter().any(|a| a.entry == entry && a.spills == 0 && a.stack == 0);
    let mut wrong = Vec::new();
    for ((symbol, (_, place)), launches) in some.iter().zip(&code.launches) {
        for launch in launches {
            match assembled.iter().find(|a| a.entry == launch.entry) {
                None => wrong.push(format!("{target}: {} of {place} was not assembled", launch.entry)),
                Some(a) if (a.spills > 0 || a.stack > 0) && (a.spills > BY_CHOICE || !chosen(&a.entry)) => wrong.push(format!("{target}: {a:?} of {place}")),
                // A block's registers are what a multiprocessor has.
                Some(a) if u64::from(a.registers) * launch.block.iter().map(|&n| u64::from(n)).product::<u64>() > 65_536 => {
                    wrong.push(format!("{target}: {symbol} of {place} cannot be started: {a:?} with blocks of {:?}", launch.block));
                }
                Some(_) => {}
            }
        }
    }
    wrong
}

#[test]
fn kernels_of_models_are_assembled_for_every_architecture_without_needing_spills() {
    let Some(ptxas) = mlir::ptxas() else {
        println!("left out: there is no ptxas; `make setup` installs it");
        return;
    };
    let kernels = kernels();
    let list: Vec<_> = kernels.iter().collect();
    let work = Mutex::new(CudaTarget::ALL.into_iter().flat_map(|t| list.chunks(TOGETHER).map(move |some| (t, some))).collect::<Vec<_>>());
    let next = || work.lock().expect("no worker panics while it holds the list").pop();
    let worker = || std::iter::from_fn(next).flat_map(|(target, some)| faults(&ptxas, some, target)).collect::<Vec<_>>();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let workers = [(); 2].map(|()| scope.spawn(worker));
        workers.into_iter().flat_map(|w| w.join().expect("a worker that panics fails the test")).collect()
    });
    assert!(wrong.is_empty(), "{} of {} kernels:\n{}", wrong.len(), kernels.len(), wrong.join("\n"));
}
