//! What the GPU kernels of a plan move and take, beside the least that could be moved.
//!
//! The least possible is counted without regard to how kernels do their work. Library calls, products and transfers are taken away; kernels, copies and
//! fills that feed each other with no such call between them are a *region*; and every tensor that enters or leaves a region moves once. Of a tensor only
//! what is read counts. What crosses a call leaves one region and enters another.

use ir::diagnostic::{Diagnostic, Result};
use ir::kernel::{Affine, Kernel, NodeKind};
use ir::plan::{Launch, Plan};
use ir::program::{BufferId, Instruction, InstructionKind, KernelId, Phase, Program, StageId};
use ir::{Bytes, PrimaryMap};
use std::collections::{BTreeMap, BTreeSet};

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

/// A region.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionRow {
    /// Its stage.
    pub stage: StageId,
    /// Its phase.
    pub phase: Phase,
    /// Its first instruction.
    pub source: String,
    /// Its instructions.
    pub instructions: u64,
    /// How often a device runs it in a step.
    pub runs: u64,
    /// The least that one run can move.
    pub least: Bytes,
    /// What one run moves.
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

/// Reports on the GPU code of a plan.
///
/// # Errors
/// `E0805` where the plan has none; `E0802` where the assembler refuses it.
pub fn report(plan: &Plan) -> Result<Report> {
    let Some(code) = plan.code.iter().find(|c| c.target == "cuda") else {
        return Err(Diagnostic::input("E0805", "a report on kernels is asked for, and the plan has no code for GPUs")
            .with_help("name an architecture, for example `--target cuda:sm_90`")
            .into());
    };
    let failed = |e: mlir::Error| Diagnostic::outcome("E0802", e.to_string()).with_help("this is a bug; please report the model");
    let target: mlir::CudaTarget = code.level.parse().map_err(failed)?;
    let assembled = match mlir::ptxas() {
        Some(ptxas) => mlir::assemble(&ptxas, &String::from_utf8_lossy(&code.object), target).map_err(failed)?,
        None => vec![],
    };
    let mut moved: PrimaryMap<KernelId, Bytes> = PrimaryMap::new();
    for kernel in plan.kernels.values() {
        let traffic = mlir::cuda_traffic(&kernel.symbol(), kernel).map_err(failed)?;
        moved.push(Bytes(traffic.iter().map(mlir::Traffic::moved).sum()));
    }
    let mut rows: Vec<KernelRow> = plan
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
    let mut regions = Vec::new();
    for program in &plan.programs {
        for phase in Phase::ALL {
            let runs = runs(plan, phase);
            for instruction in program.phase(phase) {
                if let InstructionKind::Kernel { kernel, .. } = &instruction.kind {
                    let row = &mut rows[kernel.0 as usize];
                    row.runs += runs;
                    if row.source.is_empty() {
                        row.source.clone_from(&instruction.source);
                    }
                }
            }
        }
        regions.extend(Regions::new(plan, program, &moved).rows());
    }
    rows.sort_by_key(|r| (std::cmp::Reverse(r.moved.0 * r.runs), r.kernel));
    regions.sort_by_key(|r| std::cmp::Reverse(r.moved.0 * r.runs));
    let total = |of: &dyn Fn(&RegionRow) -> u64| Bytes(regions.iter().map(|r| of(r) * r.runs).sum());
    let (all, least) = (total(&|r| r.moved.0), total(&|r| r.least.0));
    Ok(Report { level: code.level.clone(), kernels: rows, regions, moved: all, least })
}

fn runs(plan: &Plan, phase: Phase) -> u64 {
    match phase {
        Phase::Before | Phase::After => 1,
        Phase::Forward | Phase::Backward => u64::from(plan.schedule.microbatches),
    }
}

/// Whether the device's own code does it, rather than a library or the network.
fn is_own(kind: &InstructionKind) -> bool {
    matches!(kind, InstructionKind::Kernel { .. } | InstructionKind::Copy { .. } | InstructionKind::Fill { .. })
}

/// A tensor: the buffer, and how many times it was written before.
type Tensor = (BufferId, u32);

/// The regions of a program while they are found.
struct Regions<'a> {
    plan: &'a Plan,
    program: &'a Program,
    moved: &'a PrimaryMap<KernelId, Bytes>,
    /// The instructions in order, with the tensors that each reads and writes.
    instructions: Vec<(Phase, &'a Instruction, Vec<Tensor>, Vec<Tensor>)>,
    /// The region of each instruction: a forest over instruction numbers.
    parent: Vec<usize>,
    /// Tensors that something outside of kernels reads, or that last beyond the step.
    leaving: BTreeSet<Tensor>,
    readers: BTreeMap<Tensor, Vec<usize>>,
}

impl<'a> Regions<'a> {
    fn new(plan: &'a Plan, program: &'a Program, moved: &'a PrimaryMap<KernelId, Bytes>) -> Regions<'a> {
        let mut version: BTreeMap<BufferId, u32> = BTreeMap::new();
        let mut regions = Regions { plan, program, moved, instructions: vec![], parent: vec![], leaving: BTreeSet::new(), readers: BTreeMap::new() };
        // Calls before a tensor, on the longest way to it, and the instruction that wrote it.
        let mut calls: BTreeMap<Tensor, (u32, usize)> = BTreeMap::new();
        let mut depth: Vec<u32> = Vec::new();
        for phase in Phase::ALL {
            for instruction in program.phase(phase) {
                let number = regions.instructions.len();
                let mut reads: Vec<Tensor> = instruction.reads.iter().map(|&b| (b, version.get(&b).copied().unwrap_or(0))).collect();
                reads.dedup();
                // What is written in part keeps the rest.
                let partial = matches!(instruction.kind, InstructionKind::Copy { .. });
                let kept: Vec<Tensor> = instruction.writes.iter().filter(|_| partial).map(|&b| (b, version.get(&b).copied().unwrap_or(0))).collect();
                let here = reads.iter().chain(&kept).filter_map(|t| calls.get(t)).map(|&(n, _)| n).max().unwrap_or(0);
                let own = is_own(&instruction.kind);
                let mut writes = Vec::new();
                for &b in &instruction.writes {
                    let v = version.entry(b).or_insert(0);
                    *v += 1;
                    writes.push((b, *v));
                    calls.insert((b, *v), (here + u32::from(!own), number));
                }
                regions.parent.push(number);
                depth.push(here);
                for &t in &reads {
                    regions.readers.entry(t).or_default().push(number);
                    if !own {
                        regions.leaving.insert(t);
                    }
                }
                for t in reads.iter().chain(&kept).filter(|_| own) {
                    if let Some(&(_, writer)) = calls.get(t)
                        && writer < number
                        && is_own(&regions.instructions[writer].1.kind)
                        && depth[writer] == here
                        && regions.instructions[writer].0 == phase
                    {
                        regions.join(writer, number);
                    }
                }
                regions.instructions.push((phase, instruction, reads, writes));
            }
        }
        let outputs: BTreeSet<BufferId> = program.outputs.iter().map(|b| b.buffer).collect();
        for (b, buffer) in program.buffers.iter() {
            if buffer.persistent || outputs.contains(&b) {
                regions.leaving.insert((b, version.get(&b).copied().unwrap_or(0)));
            }
        }
        regions
    }

    fn root(&self, mut at: usize) -> usize {
        while self.parent[at] != at {
            at = self.parent[at];
        }
        at
    }
    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        let (first, second) = (a.min(b), a.max(b));
        self.parent[second] = first;
    }

    fn rows(&self) -> Vec<RegionRow> {
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for number in (0..self.instructions.len()).filter(|&n| is_own(&self.instructions[n].1.kind)) {
            members.entry(self.root(number)).or_default().push(number);
        }
        members.into_values().map(|numbers| self.row(&numbers)).collect()
    }

    fn row(&self, numbers: &[usize]) -> RegionRow {
        let (phase, first, ..) = &self.instructions[numbers[0]];
        let inside: BTreeSet<usize> = numbers.iter().copied().collect();
        let mut entering: BTreeMap<Tensor, u64> = BTreeMap::new();
        let mut leaving: BTreeMap<Tensor, u64> = BTreeMap::new();
        let made: BTreeSet<Tensor> = numbers.iter().flat_map(|&n| &self.instructions[n].3).copied().collect();
        let mut moved = 0;
        for &number in numbers {
            let (_, instruction, reads, writes) = &self.instructions[number];
            moved += self.moved_by(instruction);
            for (position, &t) in reads.iter().enumerate().filter(|(_, t)| !made.contains(t)) {
                *entering.entry(t).or_default() += self.touched(instruction, position, t.0);
            }
            for (position, &t) in writes.iter().enumerate() {
                let read_outside = self.readers.get(&t).is_some_and(|r| r.iter().any(|n| !inside.contains(n)));
                if read_outside || self.leaving.contains(&t) {
                    *leaving.entry(t).or_default() += self.touched(instruction, instruction.reads.len() + position, t.0);
                }
            }
        }
        let at_most = |(t, bytes): (&Tensor, &u64)| (*bytes).min(self.program.buffers[t.0].ty.bytes());
        let least = entering.iter().chain(&leaving).map(at_most).sum();
        RegionRow {
            stage: self.program.stage,
            phase: *phase,
            source: first.source.clone(),
            instructions: numbers.len() as u64,
            runs: runs(self.plan, *phase),
            least: Bytes(least),
            moved: Bytes(moved),
        }
    }

    fn moved_by(&self, instruction: &Instruction) -> u64 {
        match &instruction.kind {
            InstructionKind::Kernel { kernel, .. } => self.moved[*kernel].0,
            InstructionKind::Copy { shape, .. } => 2 * shape.iter().product::<u64>() * self.program.buffers[instruction.writes[0]].ty.dtype.bytes(),
            _ => instruction.writes.iter().map(|&b| self.program.buffers[b].ty.bytes()).sum(),
        }
    }

    /// At most so many bytes of an operand are used.
    fn touched(&self, instruction: &Instruction, position: usize, buffer: BufferId) -> u64 {
        match &instruction.kind {
            InstructionKind::Kernel { kernel, .. } => used(&self.plan.kernels[*kernel], position as u32),
            InstructionKind::Copy { shape, .. } => shape.iter().product::<u64>() * self.program.buffers[buffer].ty.dtype.bytes(),
            _ => self.program.buffers[buffer].ty.bytes(),
        }
    }
}

/// Bytes of a parameter that a kernel uses, at most.
fn used(kernel: &Kernel, param: u32) -> u64 {
    let varies = kernel.varies();
    let elements = |index: &Affine, beside: u32| -> u64 {
        let along = |d: &usize| index.strides[*d] != 0 || beside & (1 << d) != 0;
        (0..kernel.domain.len()).filter(along).map(|d| kernel.domain[d]).product()
    };
    let loads = kernel.nodes.values().filter_map(|n| match &n.kind {
        NodeKind::Load { param: p, index } if *p == param => Some((index, elements(index, 0))),
        NodeKind::Gather { param: p, index, at, .. } if *p == param => Some((index, elements(index, varies[*at]))),
        _ => None,
    });
    let stores = kernel.stores.iter().filter(|s| s.param == param).map(|s| (&s.index, elements(&s.index, 0)));
    let mut seen: Vec<&Affine> = Vec::new();
    let mut sum = 0;
    for (index, count) in loads.chain(stores) {
        if !seen.contains(&index) {
            seen.push(index);
            sum += count;
        }
    }
    let p = &kernel.params[param as usize];
    sum.min(p.elements) * p.dtype.bytes()
}
