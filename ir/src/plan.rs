//! The plan: everything the compiler decided, why, and the code, in one versioned and checksummed file.
//!
//! The compiler writes it; runtime, viewer, exporter and verifier read it, and share nothing else.
//! The file is: the magic `SHARDPLN`, a format version (u32), the body's length (u64), the body (postcard), and the blake3 hash of all before it.
//! A file that was cut short, damaged, or written by another format version is refused with a diagnostic that says which.

use crate::diagnostic::{Diagnostic, Result};
use crate::dtype::TensorType;
use crate::graph::{Graph, Module};
use crate::id::PrimaryMap;
use crate::kernel::Kernel;
use crate::op::{OpId, OpKind, ValueId};
use crate::program::{KernelId, Phase, Program, ScheduleKind, StageId};
use crate::sharding::{Mesh, Sharding};
use crate::units::{Bytes, Seconds};
use serde::{Deserialize, Serialize};

/// The version of the file format this build reads and writes.
pub const FORMAT_VERSION: u32 = 5;
const MAGIC: &[u8; 8] = b"SHARDPLN";

/// A compiled plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of the compiler.
    pub compiler: String,
    /// What was asked.
    pub request: Request,
    /// What it was planned for.
    pub cluster: ClusterSummary,
    /// The user's step as imported: what `verify` judges against.
    pub source: Module,
    /// The canonical graph that was planned; decisions refer to its ops and values.
    pub graph: Graph,
    /// State, batch and loss among the arguments and results.
    pub interface: Interface,
    /// Layers, first to last.
    pub layers: Vec<Layer>,
    /// For every layer of the model the one of `layers` that stands for it, where identical layers were planned once; empty where each stands for itself.
    /// Stages count the model's layers.
    pub depth: Vec<u32>,
    /// For every op of `graph` its layer, stage and phase, by op number; of a layer that stands for several, the first stage that has one of them.
    pub placement: Vec<Placement>,
    /// The stages.
    pub stages: Vec<StagePlan>,
    /// The pipeline's schedule.
    pub schedule: Schedule,
    /// Other settings of stages, mesh and microbatches that were considered, best first.
    pub alternatives: Vec<Alternative>,
    /// Why the search ended before it was done; none when it was. Only such a plan depends on the clock.
    pub stopped: Option<String>,
    /// Predicted step of the best setting that is tuned by hand today, where planning looked at those.
    pub by_hand: Option<Seconds>,
    /// One program per stage; none where only a plan was asked for.
    pub programs: Vec<Program>,
    /// The distinct kernels.
    pub kernels: PrimaryMap<KernelId, Kernel>,
    /// Compiled code, one entry per target.
    pub code: Vec<Code>,
    /// Notes and warnings of the compilation.
    pub notes: Vec<Diagnostic>,
}

/// What the user asked for, as given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// File name of the model, without folders.
    pub model: String,
    /// `--strategy`.
    pub strategy: String,
    /// `--mesh`, sizes of one stage's mesh; empty for auto.
    pub mesh: Vec<u32>,
    /// `--stages`; none for auto.
    pub stages: Option<u32>,
    /// `--microbatches`; none for auto.
    pub microbatches: Option<u32>,
    /// `--schedule`; none for auto.
    pub schedule: Option<ScheduleKind>,
    /// `--recompute`; none for auto.
    pub recompute: Option<Recompute>,
    /// `--memory-limit` per device.
    pub memory_limit: Option<Bytes>,
    /// `--pin`s, as given.
    pub pins: Vec<String>,
    /// What else the answer depends on.
    pub premises: Premises,
}

/// What a plan depends on besides the step and the settings that were asked for, kept so that it can be made again with a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Premises {
    /// `--cluster`: the preset's name, or the text of the cluster file.
    pub cluster: String,
    /// `--state`, as given.
    pub state: Option<String>,
    /// `--batch`, as given.
    pub batch: Option<String>,
    /// `--loss`, as given.
    pub loss: Option<String>,
    /// Of every stack of layers of which the step has few: what its layers' names begin with, its layers in the step, its layers in the model.
    pub stacks: Vec<(String, u32, u32)>,
}

/// The cluster as the plan saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterSummary {
    /// Name, such as `local:4`.
    pub name: String,
    /// Kind of device.
    pub device: String,
    /// Nodes.
    pub nodes: u32,
    /// Devices per node.
    pub devices_per_node: u32,
    /// Memory per device.
    pub memory: Bytes,
    /// Peak of f32 matrix products, FLOP/s per device.
    pub peak_flops: f64,
    /// Memory bandwidth, bytes/s per device.
    pub memory_bandwidth: f64,
    /// Link bandwidth inside a node, bytes/s per device.
    pub link_bandwidth: f64,
}

/// Which arguments and results are what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// State: (argument, the result that replaces it).
    pub state: Vec<(u32, u32)>,
    /// Of those, the trained parameters' arguments.
    pub parameters: Vec<u32>,
    /// Batch arguments, with their batch dimension where there is one.
    pub batch: Vec<(u32, Option<u32>)>,
    /// The result that is the loss.
    pub loss: Option<u32>,
    /// Scalar results that are not state, printed each step.
    pub scalars: Vec<u32>,
    /// Arguments that are neither state nor batch: the same in every step.
    pub constants: Vec<u32>,
    /// Results that are neither state nor printed.
    pub other_results: Vec<u32>,
}

/// A layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// What it is called in views: `layer 3 (%118 … %176)`.
    pub name: String,
    /// Layers with the same number are identical.
    pub kind: u32,
    /// What its backward computes again.
    pub recompute: Recompute,
}

/// What the backward of a layer computes again instead of keeping it from the forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Recompute {
    /// Nothing: what the backward reads is kept.
    #[default]
    None,
    /// What is cheap to remake for its size, such as attention's scores and probabilities.
    Selective,
    /// Everything: only what enters the layer is kept.
    Full,
}

impl Recompute {
    /// All modes, from the one that keeps most.
    pub const ALL: [Recompute; 3] = [Recompute::None, Recompute::Selective, Recompute::Full];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Recompute::None => "none",
            Recompute::Selective => "selective",
            Recompute::Full => "full",
        }
    }

    /// The mode of that name.
    pub fn named(name: &str) -> Option<Recompute> {
        Recompute::ALL.into_iter().find(|m| m.name() == name)
    }
}

/// Where an op runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Its layer.
    pub layer: u32,
    /// Its stage.
    pub stage: StageId,
    /// Its phase.
    pub phase: Phase,
    /// Whether it repeats an op of the forward for the backward.
    pub recomputed: bool,
}

/// A stage of the way through the model. Where devices hold several chunks of it (interleaving), each chunk is a stage here: with `n` programs stage `s`
/// lies on the devices of program `s mod n`, as its chunk `s / n`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StagePlan {
    /// Its layers: first and one past the last.
    pub layers: (u32, u32),
    /// Its mesh.
    pub mesh: Mesh,
    /// The cluster's devices it takes, by mesh position.
    pub devices: Vec<u32>,
    /// Sharding of every value of the plan's graph that the stage computes or receives (as defined), by value number.
    pub shardings: Vec<Option<Sharding>>,
    /// Why.
    pub decisions: Vec<Decision>,
    /// How its sharding problem was solved.
    pub solve: SolveReport,
    /// Predicted times.
    pub times: StageTimes,
    /// Memory over its schedule.
    pub memory: MemoryReport,
    /// Where else it could begin, the other stages staying where they are; empty for the first stage.
    pub cut: Vec<CutAlternative>,
}

/// Another place for the cut before a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CutAlternative {
    /// The layer that the stage would begin with.
    pub layer: u32,
    /// The predicted step, by the estimate that settings are compared with.
    pub step: Seconds,
    /// Time of a microbatch on the slower of the two stages that the cut divides.
    pub slower: Seconds,
    /// What crosses the cut, per microbatch.
    pub crossing: Seconds,
    /// Bytes of the larger of the two stages, where they were estimated.
    pub memory: Option<Bytes>,
    /// Why it was not taken, or `taken`.
    pub verdict: String,
}

/// A node of the sharding problem: ops that are sharded together, the candidates, and the choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The ops.
    pub ops: Vec<OpId>,
    /// The values whose shardings it decides.
    pub values: Vec<ValueId>,
    /// What could be chosen.
    pub candidates: Vec<Candidate>,
    /// Which was.
    pub chosen: u32,
    /// What decided, `cost`, `memory`, `pin`, `only choice`, `strategy` or `gap`, and after a colon by what figures.
    pub reason: String,
}

/// One way to shard a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// What it is, over factors: `batch on "x", hidden on "y"`.
    pub name: String,
    /// Sharding of each of the decision's values.
    pub shardings: Vec<Sharding>,
    /// Time to compute.
    pub compute: Seconds,
    /// Time of collectives inside it.
    pub communication: Seconds,
    /// Time of the reshards around it, given what its neighbours chose.
    pub reshard: Seconds,
    /// Bytes held per device by its results.
    pub memory: Bytes,
}

/// What a solver reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SolveReport {
    /// Unknowns.
    pub nodes: u32,
    /// Pairwise costs.
    pub edges: u32,
    /// Memory constraints that could bind.
    pub moments: u32,
    /// Value of the solution.
    pub objective: Seconds,
    /// Proven lower bound.
    pub bound: Seconds,
    /// (objective − bound) / objective.
    pub gap: f64,
    /// `optimal`, `feasible` or `cut`.
    pub status: String,
    /// How: reductions, exact DP, HiGHS, and how much work each did.
    pub method: String,
}

/// Predicted times of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageTimes {
    /// Once, before.
    pub before: Seconds,
    /// Forward of one microbatch.
    pub forward: Seconds,
    /// Backward of one microbatch.
    pub backward: Seconds,
    /// Once, after (gradient reduction and update).
    pub after: Seconds,
}

/// Memory of a stage's device over a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// The arena.
    pub arena: Bytes,
    /// The limit it was planned under.
    pub limit: Bytes,
    /// What the device's library and the process need beside the arena.
    pub overhead: Bytes,
    /// Bytes per kind at the peak, as (kind, bytes).
    pub at_peak: Vec<(String, Bytes)>,
    /// Which moment is the peak.
    pub peak_moment: String,
    /// Live bytes after each step of the schedule: (moment, bytes).
    pub timeline: Vec<(String, Bytes)>,
    /// The largest values alive at the peak: (name, kind, bytes).
    pub largest: Vec<(String, String, Bytes)>,
}

/// The pipeline's schedule with its prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// Order of microbatches.
    pub kind: ScheduleKind,
    /// How many.
    pub microbatches: u32,
    /// Predicted time of a step.
    pub step: Seconds,
    /// Share of device time that is idle.
    pub bubble: f64,
}

/// A setting that was considered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// Number of stages.
    pub stages: u32,
    /// Layer ranges of the stages.
    pub cuts: Vec<(u32, u32)>,
    /// Mesh of one stage.
    pub mesh: Vec<u32>,
    /// Microbatches.
    pub microbatches: u32,
    /// Their order.
    pub schedule: ScheduleKind,
    /// What the backward computes again.
    pub recompute: Recompute,
    /// Predicted step, when feasible.
    pub step: Option<Seconds>,
    /// Largest arena estimate.
    pub memory: Option<Bytes>,
    /// Why it was not taken.
    pub verdict: String,
}

/// Compiled code of one target.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Code {
    /// `cpu` or `cuda`.
    pub target: String,
    /// Instruction set level, such as `x86-64-v3`, or compute capability, such as `sm_90`.
    pub level: String,
    /// For `cpu` a shared object with one symbol per kernel ([`Kernel::symbol`]), for `cuda` the text of one PTX module.
    pub object: Vec<u8>,
    /// For `cuda`, how each kernel of the plan is started: its launches, in order. Empty for `cpu`.
    pub launches: PrimaryMap<KernelId, Vec<Launch>>,
    /// For `cuda`, how library ops are started that the module has entries for; devices do the others in their own way. Empty for `cpu`.
    pub library: Vec<LibraryCode>,
}

/// A library op that a PTX module has entries for. They are started as kernels are, with the operands' and then the results' buffers as parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LibraryCode {
    /// The op.
    pub op: OpKind,
    /// Its operands' types.
    pub operands: Vec<TensorType>,
    /// Its results' types.
    pub results: Vec<TensorType>,
    /// Its launches, in order.
    pub launches: Vec<Launch>,
}

/// One start of an entry of a PTX module.
///
/// The entry's parameters are 64 bits each: a global pointer for every parameter of the kernel, in order, then its run-time scalars, in order, then, only
/// where `scratch` is not zero, a global pointer to that many bytes of scratch, 256-byte aligned. All launches of a kernel are given the same scratch, which
/// holds anything before the first and what the earlier ones left in it before the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The entry's name.
    pub entry: String,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of shared memory beside what the entry declares itself.
    pub shared: u32,
    /// Bytes of global scratch.
    pub scratch: u64,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Code({} {}, {} bytes)", self.target, self.level, self.object.len())
    }
}

impl Code {
    /// The launches of a library op of these types, where there are entries for it.
    pub fn library(&self, op: &OpKind, operands: &[TensorType], results: &[TensorType]) -> Option<&[Launch]> {
        let found = self.library.iter().find(|l| l.op == *op && l.operands == operands && l.results == results)?;
        Some(&found.launches)
    }
    /// Checks that every kernel is started, and by entries, grids and blocks that a device can have.
    fn verify_launches(&self, kernels: usize) -> std::result::Result<(), String> {
        if self.launches.len() != kernels {
            return Err(format!("the code for {} starts {} kernels of {kernels}", self.level, self.launches.len()));
        }
        let kernels = self.launches.iter().map(|(kernel, launches)| (kernel.to_string(), launches));
        let library = self.library.iter().enumerate().map(|(i, l)| (format!("library op {i}"), &l.launches));
        for (what, launches) in kernels.chain(library) {
            let possible = |l: &Launch| {
                let threads = l.block.iter().map(|&n| u64::from(n)).product::<u64>();
                !l.entry.is_empty()
                    && l.grid[0] <= i32::MAX as u32
                    && l.grid[1..].iter().all(|&n| n <= 65_535)
                    && !l.grid.contains(&0)
                    && (1..=1024).contains(&threads)
            };
            if launches.is_empty() || !launches.iter().all(possible) {
                return Err(format!("the code for {} has a launch of {what} that no device can make", self.level));
            }
        }
        Ok(())
    }
}

impl Plan {
    /// The file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        Plan::sealed(&postcard::to_stdvec(self).expect("invariant: a plan serializes"))
    }

    /// A file with this body: magic, version and length before it, the checksum of all that behind it.
    pub fn sealed(body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(body.len() + 64);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(body);
        let hash = blake3::hash(&bytes);
        bytes.extend_from_slice(hash.as_bytes());
        bytes
    }

    /// Reads a file's bytes.
    ///
    /// # Errors
    /// `E0901` not a plan, `E0902` another format version, `E0903` cut short, `E0904` damaged, `E0905` inconsistent.
    pub fn from_bytes(bytes: &[u8]) -> Result<Plan> {
        if !bytes.starts_with(MAGIC) {
            return Err(Diagnostic::input("E0901", "this file is not a plan")
                .with_note("a plan starts with the bytes `SHARDPLN`")
                .with_help("make one with `shardwright compile MODEL --cluster CLUSTER -o FILE.plan`")
                .into());
        }
        let cut =
            || Diagnostic::input("E0903", format!("this plan was cut short: {} bytes are there", bytes.len())).with_help("copy it again, or compile it again");
        let version = bytes.get(8..12).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes).ok_or_else(cut)?;
        if version != FORMAT_VERSION {
            return Err(Diagnostic::input("E0902", format!("this plan has format version {version}, and this build reads version {FORMAT_VERSION}"))
                .with_help("compile the model again with this build")
                .into());
        }
        let length = bytes.get(12..20).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes).ok_or_else(cut)?;
        let end = usize::try_from(length).ok().and_then(|n| n.checked_add(20)).ok_or_else(cut)?;
        let (signed, hash) = (bytes.get(..end).ok_or_else(cut)?, bytes.get(end..end.saturating_add(32)).ok_or_else(cut)?);
        if blake3::hash(signed).as_bytes() != hash || bytes.len() != end + 32 {
            return Err(Diagnostic::input("E0904", "this plan is damaged: its checksum does not match").with_help("copy it again, or compile it again").into());
        }
        let plan: Plan = postcard::from_bytes(&signed[20..]).map_err(|e| Diagnostic::input("E0904", format!("this plan does not decode: {e}")))?;
        plan.verify().map_err(|e| Diagnostic::input("E0905", format!("this plan is inconsistent: {e}")).with_help("compile the model again"))?;
        Ok(plan)
    }

    /// How many stages the pipeline has: those of `stages` that are chunks of one stage count once.
    pub fn pipeline_stages(&self) -> usize {
        self.stages.len() / self.schedule.kind.chunks() as usize
    }

    /// Checks that the parts refer to each other correctly.
    pub fn verify(&self) -> std::result::Result<(), String> {
        let planned_only = self.programs.is_empty() && self.code.is_empty() && !self.depth.is_empty();
        if !planned_only && self.programs.len() * self.schedule.kind.chunks() as usize != self.stages.len() || self.placement.len() != self.graph.ops.len() {
            return Err("stages, programs or placements are missing".into());
        }
        let lanes = self.stages.len() as u32 / self.schedule.kind.chunks();
        if !self.schedule.kind.allows(lanes.max(1), self.schedule.microbatches) {
            return Err(format!("{} microbatches cannot go through {lanes} stages in this order", self.schedule.microbatches));
        }
        if self.programs.iter().any(|p| p.chunks.len().max(1) as u32 != self.schedule.kind.chunks()) {
            return Err("a program has another number of chunks than the schedule".into());
        }
        if self.depth.iter().any(|&l| l as usize >= self.layers.len()) {
            return Err("a layer stands for one that is missing".into());
        }
        for code in self.code.iter().filter(|c| c.target == "cuda") {
            code.verify_launches(self.kernels.len())?;
        }
        for (program, stage) in self.programs.iter().cycle().zip(&self.stages) {
            program.verify()?;
            if program.arena != stage.memory.arena {
                return Err(format!("stage {} reports {} and its program has {}", program.stage, stage.memory.arena, program.arena));
            }
            for instruction in program.phases.iter().flatten() {
                if let crate::program::InstructionKind::Kernel { kernel, .. } = &instruction.kind
                    && self.kernels.get(*kernel).is_none()
                {
                    return Err(format!("{} calls the unknown kernel {kernel}", instruction.source));
                }
            }
        }
        Ok(())
    }

    /// How many layers of the model a layer stands for: one, but where identical layers were planned once.
    pub fn stands_for(&self, layer: u32) -> u32 {
        if self.depth.is_empty() { 1 } else { self.depth.iter().filter(|&&l| l == layer).count() as u32 }
    }

    /// The layer that stands for a layer of the model, which is what stages count.
    pub fn layer_of_model(&self, layer: u32) -> u32 {
        self.depth.get(layer as usize).copied().unwrap_or(layer)
    }

    /// Whether it was planned only: it has no programs, and cannot run.
    pub fn is_planned_only(&self) -> bool {
        self.programs.is_empty()
    }

    /// How many ranks execute it.
    pub fn ranks(&self) -> u32 {
        if self.programs.is_empty() { self.stages.iter().map(|s| s.mesh.devices()).sum() } else { self.programs.iter().map(|p| p.mesh.devices()).sum() }
    }
}
