//! What the GPU kernels of a plan move and take, region by region ([`regions`](super::regions)) beside the least that could be moved.

use super::regions::Region;
use ir::diagnostic::{Diagnostic, Result};
use ir::kernel::Kernel;
use ir::plan::{Launch, Plan};
use ir::program::{InstructionKind, KernelId, Phase, StageId};
use ir::{Bytes, PrimaryMap};

/// A kernel of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelRow {
    /// The kernel.
    pub kernel: KernelId,
    /// Its entry's name.
    pub symbol: String,
    /// The first instruction that runs it.
    pub source: String,
    /// How often a device runs it in a step.
    pub runs: u64,
    /// Its launches.
    pub launches: Vec<Launch>,
    /// Bytes moved by one run.
    pub moved: Bytes,
    /// What `ptxas` says of each launch; empty where there is none.
    pub assembled: Vec<mlir::Assembled>,
}

/// A region, in a step.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionRow {
    /// Its stage.
    pub stage: StageId,
    /// The first value that it computes.
    pub source: String,
    /// Ops that compute.
    pub ops: u64,
    /// Kernels that a device runs for it.
    pub kernels: u64,
    /// The least that a device can move.
    pub least: Bytes,
    /// What a device moves.
    pub moved: Bytes,
}

/// The report.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The architecture.
    pub level: String,
    /// The kernels, those that move most first.
    pub kernels: Vec<KernelRow>,
    /// The regions, those that move most first.
    pub regions: Vec<RegionRow>,
    /// What the devices of all stages, one each, move in a step.
    pub moved: Bytes,
    /// The least that they can.
    pub least: Bytes,
}

impl KernelRow {
    /// The share of a multiprocessor's threads that are there at once, in the launch where it is least.
    pub fn occupancy(&self, level: &str) -> Option<f64> {
        self.launches.iter().zip(&self.assembled).map(|(l, a)| occupancy(l, a, level)).min_by(f64::total_cmp)
    }
    /// Registers of a thread, in the launch where they are most.
    pub fn registers(&self) -> Option<u32> {
        self.assembled.iter().map(|a| a.registers).max()
    }
    /// Bytes spilled, in all launches.
    pub fn spills(&self) -> u32 {
        self.assembled.iter().map(|a| a.spills).sum()
    }
    /// Bytes of shared memory of a block, in the launch where they are most.
    pub fn shared(&self) -> u32 {
        self.launches.iter().zip(&self.assembled).map(|(l, a)| l.shared + a.shared).max().unwrap_or(0)
    }
}

fn occupancy(launch: &Launch, taken: &mlir::Assembled, level: &str) -> f64 {
    const THREADS: u32 = 2048;
    const REGISTERS: u32 = 65_536;
    const BLOCKS: u32 = 32;
    let shared_bytes = if level == "sm_80" { 164 << 10 } else { 228 << 10 };
    let threads = launch.block.iter().product::<u32>().next_multiple_of(32);
    // Registers are given to warps, eight for each thread at a time; a block takes a kilobyte of shared memory beside its own.
    let registers = taken.registers.max(1).next_multiple_of(8) * threads;
    let shared = launch.shared + taken.shared + 1024;
    let blocks = (THREADS / threads).min(REGISTERS / registers).min(BLOCKS).min(shared_bytes / shared);
    f64::from(blocks * threads) / f64::from(THREADS)
}

/// What one run of each kernel moves.
///
/// # Errors
/// `E0802` for kernels that have no code.
fn moved(kernels: &PrimaryMap<KernelId, Kernel>) -> Result<PrimaryMap<KernelId, Bytes>> {
    let mut moved = PrimaryMap::new();
    for kernel in kernels.values() {
        let traffic = mlir::cuda_traffic(&kernel.symbol(), kernel).map_err(failed)?;
        moved.push(Bytes(traffic.iter().map(mlir::Traffic::moved).sum()));
    }
    Ok(moved)
}

fn failed(e: mlir::Error) -> Diagnostic {
    Diagnostic::outcome("E0802", e.to_string()).with_help("this is a bug; please report the model")
}

/// The table of regions, those that move most first.
///
/// # Errors
/// `E0802` for kernels that have no code.
pub fn regions(kernels: &PrimaryMap<KernelId, Kernel>, regions: &[Region]) -> Result<Vec<RegionRow>> {
    Ok(rows(&moved(kernels)?, regions))
}

fn rows(moved: &PrimaryMap<KernelId, Bytes>, regions: &[Region]) -> Vec<RegionRow> {
    let row = |r: &Region| RegionRow {
        stage: r.stage,
        source: r.source.clone(),
        ops: r.ops,
        kernels: r.kernels.iter().map(|(_, runs)| runs).sum(),
        least: r.least,
        moved: Bytes(r.rearranged.0 + r.kernels.iter().map(|&(k, runs)| moved[k].0 * runs).sum::<u64>()),
    };
    let mut rows: Vec<RegionRow> = regions.iter().map(row).filter(|r| r.least.0 + r.moved.0 > 0).collect();
    rows.sort_by_key(|r| std::cmp::Reverse(r.moved));
    rows
}

/// Reports on the GPU code of a plan with the regions that lowering found.
///
/// # Errors
/// `E0805` where the plan has none; `E0802` where the assembler refuses it.
pub fn report(plan: &Plan, regions: &[Region]) -> Result<Report> {
    let Some(code) = plan.code.iter().find(|c| c.target == "cuda") else {
        return Err(Diagnostic::input("E0805", "a report on kernels is asked for, and the plan has no code for GPUs")
            .with_help("name an architecture, for example `--target cuda:sm_90`")
            .into());
    };
    let target: mlir::CudaTarget = code.level.parse().map_err(failed)?;
    let assembled = match mlir::ptxas() {
        Some(ptxas) => mlir::assemble(&ptxas, &String::from_utf8_lossy(&code.object), target).map_err(failed)?,
        None => vec![],
    };
    let moved = moved(&plan.kernels)?;
    let mut kernels: Vec<KernelRow> = plan
        .kernels
        .iter()
        .map(|(id, kernel)| KernelRow {
            kernel: id,
            symbol: kernel.symbol(),
            source: String::new(),
            runs: 0,
            launches: code.launches[id].clone(),
            moved: moved[id],
            assembled: code.launches[id].iter().filter_map(|l| assembled.iter().find(|a| a.entry == l.entry).cloned()).collect(),
        })
        .collect();
    for (phase, instruction) in plan.programs.iter().flat_map(|p| Phase::ALL.into_iter().flat_map(|phase| p.phase(phase).iter().map(move |i| (phase, i)))) {
        if let InstructionKind::Kernel { kernel, .. } = &instruction.kind {
            let row = &mut kernels[kernel.0 as usize];
            row.runs += runs(plan, phase);
            if row.source.is_empty() {
                row.source.clone_from(&instruction.source);
            }
        }
    }
    kernels.sort_by_key(|r| (std::cmp::Reverse(r.moved.0 * r.runs), r.kernel));
    let regions = rows(&moved, regions);
    let total = |of: fn(&RegionRow) -> u64| Bytes(regions.iter().map(of).sum());
    let (all, least) = (total(|r| r.moved.0), total(|r| r.least.0));
    Ok(Report { level: code.level.clone(), kernels, regions, moved: all, least })
}

fn runs(plan: &Plan, phase: Phase) -> u64 {
    match phase {
        Phase::Before | Phase::After => 1,
        Phase::Forward | Phase::Backward => u64::from(plan.schedule.microbatches),
    }
}
