//! Every kernel of models' plans, library ops' included, is assembled by NVIDIA's own assembler, for every architecture and without spills that it could not do without.
//!
//! The assembler spills a few bytes by choice where another block then fits on a multiprocessor; told not to aim at that, it must spill nothing.
#![allow(clippy::print_stdout, reason = "tests say what they leave out")]

mod support;

use ir::attention::Scale;
use ir::kernel::Kernel;
use ir::op::OpKind;
use ir::program::InstructionKind;
use ir::{Attention, DType, TensorType};
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

/// A library op: what it is, operands' and results' types.
type LibraryOp = (OpKind, Vec<TensorType>, Vec<TensorType>);

/// The distinct kernels of all plans, by symbol, each with a plan that has it; and their distinct library ops, each with such a plan.
fn kernels() -> (BTreeMap<String, (Kernel, String)>, Vec<(LibraryOp, String)>) {
    let (mut all, mut library) = (BTreeMap::new(), Vec::new());
    let mut add = |model: &support::Model, flags: &str| {
        let plan = planned(model, flags);
        for kernel in plan.kernels.values() {
            all.entry(kernel.symbol()).or_insert_with(|| (kernel.clone(), format!("{} {flags}", model.path.display())));
        }
        for instruction in plan.programs.iter().flat_map(|p| &p.phases).flatten() {
            if let InstructionKind::Library { op, operands, results } = &instruction.kind {
                let op = (op.clone(), operands.clone(), results.clone());
                let name = model.path.file_stem().expect("a file").to_string_lossy();
                let entry = (op, if name.starts_with("gpt") { format!("a gpt: {name}") } else { name.into_owned() });
                if !library.contains(&entry) {
                    library.push(entry);
                }
            }
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
    (all, library)
}

/// Attentions of heads of all sizes, forward and backward.
fn attentions() -> Vec<LibraryOp> {
    let mut all = Vec::new();
    for (i, depth) in [8u64, 20, 64, 80, 96, 128, 192, 256].into_iter().enumerate() {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let mut a = Attention::from_subscripts(["bqhd,bkhd,bkhe->bqhe", "bhgqd,bhkd,bhke->bhgqe"][i % 2]).expect("subscripts");
            (a.causal, a.scale) = (i % 3 != 0, Scale(0.125));
            let extents = [('b', 8), ('h', 12), ('g', 4), ('q', 1000 + 24 * (i as u64 % 2)), ('k', 1024), ('d', depth), ('e', depth)];
            let extent = |d: &ir::attention::AttentionDim| extents.iter().find(|e| e.0 == d.letter()).expect("an extent").1;
            let [q, k, v] = [&a.q, &a.k, &a.v].map(|dims| TensorType::new(dtype, dims.iter().map(extent).collect::<Vec<_>>()));
            let results = a.results(&[&q, &k, &v]).expect("types");
            let gradient = vec![q.clone(), k.clone(), v.clone(), results[0].clone(), results[1].clone(), results[0].clone()];
            all.push((OpKind::Attention(Box::new(a.clone())), vec![q.clone(), k.clone(), v.clone()], results));
            all.push((OpKind::AttentionGrad { attention: Box::new(a), bias: false }, gradient, vec![q, k, v]));
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
    let (kernels, library) = kernels();
    let list: Vec<_> = kernels.iter().collect();
    let work = Mutex::new(CudaTarget::ALL.into_iter().flat_map(|t| list.chunks(TOGETHER).map(move |some| (t, some))).collect::<Vec<_>>());
    let next = || work.lock().expect("no worker panics while it holds the list").pop();
    let worker = || std::iter::from_fn(next).flat_map(|(target, some)| faults(&ptxas, some, target)).collect::<Vec<_>>();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let workers = [(); 2].map(|()| scope.spawn(worker));
        workers.into_iter().flat_map(|w| w.join().expect("a worker that panics fails the test")).collect()
    });
    assert!(wrong.is_empty(), "{} of {} kernels:\n{}", wrong.len(), kernels.len(), wrong.join("\n"));
    let left = library.iter().filter(|((op, operands, results), place)| place.starts_with("a gpt") && gpu_library::write("k", op, operands, results).is_none());
    let left: Vec<_> = left.collect();
    assert!(left.is_empty(), "a GPU does every op of a GPT, but there are no kernels for {left:?}");
    let ops: Vec<LibraryOp> = library.into_iter().map(|(op, _)| op).collect();
    assert!(ops.iter().any(|l| matches!(l.0, OpKind::AttentionGrad { .. })), "plans have attention");
    let wrong = library_faults(&ptxas, &ops);
    assert!(wrong.is_empty(), "library ops:\n{}", wrong.join("\n"));
}

#[test]
fn attention_of_any_size_is_assembled_for_every_architecture_without_spills() {
    let Some(ptxas) = mlir::ptxas() else {
        println!("left out: there is no ptxas; `make setup` installs it");
        return;
    };
    let wrong = library_faults(&ptxas, &attentions());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with the kernels of some library ops; those that there are none for are left out.
fn library_faults(ptxas: &std::path::Path, ops: &[LibraryOp]) -> Vec<String> {
    let numbered = ops.iter().enumerate();
    let made: Vec<_> =
        numbered.filter_map(|(i, (op, operands, results))| Some((gpu_library::write(&format!("library_{i}"), op, operands, results)?, op))).collect();
    let text: String = made.iter().map(|(k, _)| k.text.as_str()).collect();
    let mut wrong = Vec::new();
    for target in CudaTarget::ALL {
        // The first version of PTX that knows the architecture.
        let version = [(CudaTarget::Sm80, "7.0"), (CudaTarget::Sm90, "7.8"), (CudaTarget::Sm100, "8.6")].into_iter().find(|v| v.0 == target).expect("known").1;
        let module = format!(".version {version}\n.target {target}\n.address_size 64\n{}{text}", gpu_library::DECLARATIONS);
        let assembled = match mlir::assemble(ptxas, &module, target) {
            Ok(assembled) => assembled,
            Err(e) => return vec![format!("{target}: {e}")],
        };
        for (kernels, op) in &made {
            for launch in &kernels.launches {
                let threads = u64::from(launch.block[0]);
                match assembled.iter().find(|a| a.entry == launch.entry) {
                    None => wrong.push(format!("{target}: {} was not assembled", launch.entry)),
                    Some(a) if a.spills > 0 || a.stack > 0 || u64::from(a.registers) * threads > 65_536 => wrong.push(format!("{target}: {a:?} of {op:?}")),
                    Some(_) => {}
                }
            }
        }
    }
    wrong
}
