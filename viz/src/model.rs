//! The page's view-model: what a plan says, as compact JSON in which everything refers by number.
//!
//! Ops and values are columns (one array per property), texts that repeat are interned, lists are in a fixed order: the same plan gives the same bytes.
//! Costs are seconds and bytes, rounded to six significant digits. `-1` stands for "none" in columns of numbers.
//! The names of the fields are the interface between this file and `assets/*.js`; [`FORMAT`] changes when they do.

use crate::depth;
use crate::lookup::{self, Lookup};
use crate::op_label;
use crate::sharding_text as text;
use crate::timeline::{self, Timeline};
use indexmap::{IndexMap, IndexSet};
use ir::graph::Def;
use ir::plan::{CutAlternative, Decision, Layer, Plan, Recompute, SolveReport, StagePlan};
use ir::program::{BufferKind, Instruction, InstructionKind, Phase, Program, ScheduleKind};
use ir::{Diagnostic, EntityId, Mesh, Seconds, Sharding, ValueId};
use serde::Serialize;

/// The version of the view-model.
pub const FORMAT: u32 = 1;

/// Everything the page shows.
#[derive(Clone, Debug, Serialize)]
pub struct Model {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of the compiler.
    pub compiler: String,
    /// File name of the model.
    pub model: String,
    /// What was asked, as (option, value), only what was given.
    pub request: Vec<(String, String)>,
    /// The cluster.
    pub cluster: ir::plan::ClusterSummary,
    /// The pipeline's schedule.
    pub schedule: ScheduleModel,
    /// Layers as (name, kind).
    pub layers: Vec<(String, u32)>,
    /// Per layer how it stands for several of the model, in words; empty when each stands for itself.
    pub stands: Vec<String>,
    /// What ended the search before it was done; empty when it was.
    pub stopped: String,
    /// Stages.
    pub stages: Vec<StageModel>,
    /// Distinct types.
    pub types: Vec<TypeModel>,
    /// Values, as columns.
    pub values: Values,
    /// Ops, as columns.
    pub ops: Ops,
    /// Decisions of all stages in order.
    pub groups: Vec<Group>,
    /// The graph's results, as (value, name).
    pub outputs: Vec<(u32, String)>,
    /// Collectives and sends.
    pub communication: Vec<Communication>,
    /// Other settings that were considered.
    pub alternatives: Vec<AlternativeModel>,
    /// Notes and warnings.
    pub notes: Vec<NoteModel>,
}

/// The schedule: the plan's prediction, and both schedules drawn from the stage times.
#[derive(Clone, Debug, Serialize)]
pub struct ScheduleModel {
    /// `gpipe` or `1f1b`.
    pub kind: &'static str,
    /// How many microbatches.
    pub microbatches: u32,
    /// Predicted step in seconds.
    pub step: f64,
    /// Predicted idle share.
    pub bubble: f64,
    /// The stage times under GPipe.
    pub gpipe: Timeline,
    /// The stage times under 1F1B.
    pub one_f_one_b: Timeline,
}

/// A stage.
#[derive(Clone, Debug, Serialize)]
pub struct StageModel {
    /// First layer and one past the last, as the model counts them.
    pub layers: (u32, u32),
    /// The same in words.
    pub holds: String,
    /// Where else the cut before it could be.
    pub cut: Vec<CutModel>,
    /// Axes as (name, size).
    pub axes: Vec<(String, u32)>,
    /// Device numbers of the cluster by mesh position.
    pub devices: Vec<u32>,
    /// Seconds before, forward, backward, after.
    pub times: [f64; 4],
    /// How its sharding problem was solved.
    pub solve: SolveReport,
    /// Memory over a step.
    pub memory: MemoryModel,
    /// Distinct shardings that the stage uses.
    pub shardings: Vec<ShardingModel>,
    /// Instructions of the four phases.
    pub instructions: [Vec<InstructionModel>; 4],
    /// Buffers of the arena.
    pub buffers: Vec<BufferModel>,
}

/// Memory of one device of a stage.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryModel {
    /// Bytes of the arena.
    pub arena: u64,
    /// The limit.
    pub limit: u64,
    /// Needed beside the arena.
    pub overhead: u64,
    /// The moment of the peak.
    pub peak_moment: String,
    /// (kind, bytes) at the peak.
    pub at_peak: Vec<(String, u64)>,
    /// (moment, bytes, its phase or -1, its microbatch or -1, the value it is about or -1).
    pub timeline: Vec<(String, u64, i64, i64, i64)>,
    /// (name, kind, bytes, value or -1).
    pub largest: Vec<(String, String, u64, i64)>,
}

/// A sharding: its forms and its content.
#[derive(Clone, Debug, Serialize)]
pub struct ShardingModel {
    /// Shardy's text.
    pub text: String,
    /// JAX's text.
    pub spec: String,
    /// In words.
    pub phrase: String,
    /// Axis numbers per dimension.
    pub dims: Vec<Vec<u32>>,
    /// Axis numbers over which it is partial.
    pub partial: Vec<u32>,
    /// What the partial is reduced by; empty when it is not partial.
    pub reducer: String,
}

/// A tensor type.
#[derive(Clone, Debug, Serialize)]
pub struct TypeModel {
    /// As MLIR prints it.
    pub text: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Bytes of one element.
    pub element: u64,
}

/// Columns of values.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Values {
    /// Names as the user knows them.
    pub name: Vec<String>,
    /// Number of the type.
    pub r#type: Vec<u32>,
    /// The defining op; -1 for arguments.
    pub op: Vec<i64>,
    /// Argument's role; only for arguments, as (value, role).
    pub roles: Vec<(u32, String)>,
    /// Per stage the number of the value's sharding there, or -1.
    pub sharding: Vec<Vec<i64>>,
}

/// Columns of ops.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ops {
    /// Distinct kinds.
    pub kinds: Vec<String>,
    /// Number of the kind.
    pub kind: Vec<u32>,
    /// Operands.
    pub operands: Vec<Vec<u32>>,
    /// Results.
    pub results: Vec<Vec<u32>>,
    /// Layer.
    pub layer: Vec<u32>,
    /// Stage.
    pub stage: Vec<u32>,
    /// Phase: 0 before, 1 forward, 2 backward, 3 after.
    pub phase: Vec<u32>,
    /// Decision, or -1.
    pub group: Vec<i64>,
    /// Distinct places.
    pub places: Vec<String>,
    /// Number of the place.
    pub place: Vec<u32>,
}

/// A decision.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// Its stage.
    pub stage: u32,
    /// Its ops.
    pub ops: Vec<u32>,
    /// Its values.
    pub values: Vec<u32>,
    /// Which candidate was chosen.
    pub chosen: u32,
    /// What decided.
    pub reason: String,
    /// The candidates.
    pub candidates: Vec<CandidateModel>,
}

/// A candidate: name; seconds of compute, communication, reshard; bytes; sharding numbers per value; the `--pin` that asks for it, or empty.
pub type CandidateModel = (String, f64, f64, f64, u64, Vec<i64>, String);

/// One collective, send or receive of a program.
#[derive(Clone, Debug, Serialize)]
pub struct Communication {
    /// Its stage.
    pub stage: u32,
    /// Its phase.
    pub phase: u32,
    /// Its number among the phase's instructions.
    pub instruction: u32,
    /// `all-reduce`, `send`, …
    pub kind: String,
    /// `"x" × 2` (axes and how many devices) or `to stage 1`.
    pub group: String,
    /// Bytes per device each time.
    pub bytes: u64,
    /// Seconds each time.
    pub seconds: f64,
    /// How often in a step.
    pub times: u32,
    /// What it is for.
    pub source: String,
    /// The value it is about, or -1.
    pub value: i64,
}

/// An instruction: kind, detail, source, seconds, flops, bytes, value or -1.
pub type InstructionModel = (String, String, String, f64, f64, u64, i64);

/// A buffer: name, kind, offset, bytes, slots, whether it persists, value or -1.
pub type BufferModel = (String, &'static str, u64, u64, u32, bool, i64);

/// Another place of a cut: the layer that the stage would begin with; seconds of the step, of the slower neighbour, of what crosses; bytes or none; verdict.
pub type CutModel = (u32, f64, f64, f64, Option<u64>, String);

/// An alternative: stages, layer ranges, mesh, microbatches, seconds or none, bytes or none, verdict, recomputation.
pub type AlternativeModel = (u32, Vec<(u32, u32)>, Vec<u32>, u32, Option<f64>, Option<u64>, String, &'static str, String);

/// A note: code, severity, message, place, facts, help.
pub type NoteModel = (String, &'static str, String, String, Vec<String>, String);

/// Derives the view-model.
pub fn model(plan: &Plan) -> Model {
    let lookup = Lookup::new(plan);
    let mut tables: Vec<IndexSet<Sharding>> = plan.stages.iter().map(|_| IndexSet::new()).collect();
    let mut types: IndexMap<&ir::TensorType, u32> = IndexMap::new();
    let values = values(plan, &mut tables, &mut types);
    let groups = lookup.groups.iter().map(|&(s, d)| group(plan, s, d, &mut tables[s as usize])).collect();
    let microbatches = plan.schedule.microbatches;
    let stages = plan.stages.iter().zip(&tables).enumerate().map(|(s, (stage, table))| stage_model(plan, s, stage, table, &lookup)).collect();
    Model {
        format: FORMAT,
        compiler: plan.compiler.clone(),
        model: plan.request.model.clone(),
        request: request(plan),
        cluster: plan.cluster.clone(),
        schedule: schedule(plan),
        layers: plan.layers.iter().map(|l| (layer_name(l), l.kind)).collect(),
        stands: if plan.depth.is_empty() { Vec::new() } else { (0..plan.layers.len() as u32).map(|l| depth::stands(plan, l)).collect() },
        stopped: plan.stopped.clone().unwrap_or_default(),
        stages,
        types: types.keys().map(|t| TypeModel { text: t.to_string(), shape: t.shape.clone(), element: t.dtype.bytes() }).collect(),
        values,
        ops: ops(plan, &lookup),
        groups,
        outputs: plan
            .graph
            .outputs
            .iter()
            .enumerate()
            .map(|(i, v)| (v.0, plan.graph.output_attributes.get(i).map(|o| o.name.clone()).filter(|n| !n.is_empty()).unwrap_or_else(|| format!("result {i}"))))
            .collect(),
        communication: plan.programs.iter().flat_map(|p| communication(p, microbatches, &lookup)).collect(),
        alternatives: plan
            .alternatives
            .iter()
            .map(|a| {
                (
                    a.stages,
                    a.cuts.clone(),
                    a.mesh.clone(),
                    a.microbatches,
                    a.step.map(|s| round(s.0)),
                    a.memory.map(|m| m.0),
                    a.verdict.clone(),
                    a.recompute.name(),
                    a.schedule.to_string(),
                )
            })
            .collect(),
        notes: plan.notes.iter().map(note).collect(),
    }
}

/// A layer's name, with what its backward computes again.
pub(crate) fn layer_name(layer: &Layer) -> String {
    match layer.recompute {
        Recompute::None => layer.name.clone(),
        mode => format!("{} · {} recomputation", layer.name, mode.name()),
    }
}

/// Six significant digits: enough to read, short to write, and the same on every machine.
pub(crate) fn round(x: f64) -> f64 {
    if !x.is_finite() || x == 0.0 {
        return 0.0;
    }
    format!("{x:.5e}").parse().unwrap_or(0.0)
}

pub(crate) fn request(plan: &Plan) -> Vec<(String, String)> {
    let r = &plan.request;
    let mut given = vec![("--strategy".to_string(), r.strategy.clone())];
    given.retain(|(_, v)| !v.is_empty());
    let mut add = |name: &str, value: String| given.push((name.to_string(), value));
    if !r.mesh.is_empty() {
        add("--mesh", r.mesh.iter().map(u32::to_string).collect::<Vec<_>>().join("x"));
    }
    if let Some(n) = r.stages {
        add("--stages", n.to_string());
    }
    if let Some(n) = r.microbatches {
        add("--microbatches", n.to_string());
    }
    if let Some(k) = r.schedule {
        add("--schedule", k.name().to_string());
    }
    if let Some(mode) = r.recompute {
        add("--recompute", mode.name().to_string());
    }
    if let Some(b) = r.memory_limit {
        add("--memory-limit", b.to_string());
    }
    for pin in &r.pins {
        add("--pin", pin.clone());
    }
    given
}

fn schedule(plan: &Plan) -> ScheduleModel {
    let times: Vec<_> = plan.stages.iter().map(|s| s.times).collect();
    let drawn = |kind| {
        let mut t = timeline::timeline(kind, &times, plan.schedule.microbatches);
        (t.span, t.bubble) = (round(t.span), round(t.bubble));
        for b in &mut t.boxes {
            (b.3, b.4) = (round(b.3), round(b.4));
        }
        t
    };
    ScheduleModel {
        kind: plan.schedule.kind.name(),
        microbatches: plan.schedule.microbatches,
        step: round(plan.schedule.step.0),
        bubble: round(plan.schedule.bubble),
        gpipe: drawn(ScheduleKind::GPipe),
        one_f_one_b: drawn(if plan.schedule.kind == ScheduleKind::GPipe { ScheduleKind::OneFOneB } else { plan.schedule.kind }),
    }
}

fn values<'a>(plan: &'a Plan, tables: &mut [IndexSet<Sharding>], types: &mut IndexMap<&'a ir::TensorType, u32>) -> Values {
    let mut columns = Values { sharding: vec![Vec::new(); plan.stages.len()], ..Values::default() };
    for (id, value) in plan.graph.values.iter() {
        let next = types.len() as u32;
        columns.name.push(plan.graph.display_name(id));
        columns.r#type.push(*types.entry(&value.ty).or_insert(next));
        columns.op.push(match value.def {
            Def::Op(op, _) => i64::from(op.0),
            Def::Input(_) => -1,
        });
        if matches!(value.def, Def::Input(_)) {
            columns.roles.push((id.0, lookup::role(plan, id)));
        }
        for (s, stage) in plan.stages.iter().enumerate() {
            let sharding = stage.shardings.get(id.index()).and_then(Option::as_ref);
            columns.sharding[s].push(sharding.map_or(-1, |x| intern(&mut tables[s], x)));
        }
    }
    columns
}

fn intern(table: &mut IndexSet<Sharding>, sharding: &Sharding) -> i64 {
    match table.get_index_of(sharding) {
        Some(i) => i as i64,
        None => table.insert_full(sharding.clone()).0 as i64,
    }
}

fn ops(plan: &Plan, lookup: &Lookup) -> Ops {
    let mut columns = Ops::default();
    let (mut kinds, mut places) = (IndexSet::new(), IndexSet::new());
    for (id, op) in plan.graph.ops.iter() {
        columns.kind.push(kinds.insert_full(op_label::op(&op.kind)).0 as u32);
        columns.place.push(places.insert_full(lookup::place(plan, id)).0 as u32);
        columns.operands.push(op.operands.iter().map(|v| v.0).collect());
        columns.results.push(op.results.iter().map(|v| v.0).collect());
        let placement = plan.placement.get(id.index());
        columns.layer.push(placement.map_or(0, |p| p.layer));
        columns.stage.push(placement.map_or(0, |p| p.stage.0));
        columns.phase.push(placement.map_or(Phase::Forward as u32, |p| p.phase as u32));
        columns.group.push(lookup.op_group.get(id.index()).copied().flatten().map_or(-1, i64::from));
    }
    columns.kinds = kinds.into_iter().collect();
    columns.places = places.into_iter().collect();
    columns
}

fn group(plan: &Plan, stage: u32, number: u32, table: &mut IndexSet<Sharding>) -> Group {
    let plan_of_stage = &plan.stages[stage as usize];
    let decision = &plan_of_stage.decisions[number as usize];
    let candidates = decision.candidates.iter().map(|c| {
        let numbers = c.shardings.iter().map(|s| intern(table, s)).collect();
        let pin = pin_of(plan, decision, &c.shardings, &plan_of_stage.mesh).unwrap_or_default();
        (c.name.clone(), round(c.compute.0), round(c.communication.0), round(c.reshard.0), c.memory.0, numbers, pin)
    });
    Group {
        stage,
        ops: decision.ops.iter().map(|o| o.0).collect(),
        values: decision.values.iter().map(|v| v.0).collect(),
        chosen: decision.chosen,
        reason: decision.reason.clone(),
        candidates: candidates.collect(),
    }
}

/// The `--pin`s that ask for a candidate: of every value of the decision whose sharding tells it from the chosen one, or of the first when none does.
pub(crate) fn pin_of(plan: &Plan, decision: &Decision, shardings: &[Sharding], mesh: &Mesh) -> Option<String> {
    let chosen = decision.candidates.get(decision.chosen as usize).map_or(&[][..], |c| &c.shardings);
    let named = |i: usize, s: &Sharding| {
        let value = *decision.values.get(i)?;
        let name = plan.graph.values.get(value).map(|v| &*v.name)?;
        text::pin(name, s, mesh)
    };
    let differing: Vec<String> = shardings.iter().enumerate().filter(|(i, s)| chosen.get(*i) != Some(s)).filter_map(|(i, s)| named(i, s)).take(3).collect();
    if differing.is_empty() { shardings.iter().enumerate().find_map(|(i, s)| named(i, s)) } else { Some(differing.join(" ")) }
}

fn stage_model(plan: &Plan, number: usize, stage: &StagePlan, table: &IndexSet<Sharding>, lookup: &Lookup) -> StageModel {
    // With several chunks of the model on the same devices, a stage is one chunk of their program.
    let lanes = plan.programs.len().max(1);
    let (program, chunk) = (plan.programs.get(number % lanes), (number / lanes) as u32);
    let t = &stage.times;
    let m = &stage.memory;
    let value = |name: &str| lookup.value_of_text(name).map_or(-1, |v: ValueId| i64::from(v.0));
    let mut solve = stage.solve.clone();
    (solve.objective, solve.bound, solve.gap) = (Seconds(round(solve.objective.0)), Seconds(round(solve.bound.0)), round(solve.gap));
    StageModel {
        layers: stage.layers,
        holds: depth::holds(plan, stage.layers),
        cut: stage.cut.iter().map(cut_model).collect(),
        axes: stage.mesh.axes.iter().map(|a| (a.name.clone(), a.size)).collect(),
        devices: stage.devices.clone(),
        times: [t.before, t.forward, t.backward, t.after].map(|s| round(s.0)),
        solve,
        memory: MemoryModel {
            arena: m.arena.0,
            limit: m.limit.0,
            overhead: m.overhead.0,
            peak_moment: m.peak_moment.clone(),
            at_peak: m.at_peak.iter().map(|(k, b)| (k.clone(), b.0)).collect(),
            timeline: m.timeline.iter().map(|(k, b)| moment(k, b.0, lookup)).collect(),
            largest: m.largest.iter().map(|(n, k, b)| (n.clone(), k.clone(), b.0, value(n))).collect(),
        },
        shardings: table.iter().map(|s| sharding(s, &stage.mesh)).collect(),
        instructions: Phase::ALL.map(|phase| {
            let list = program.map_or(&[][..], |p| &p.phase(phase)[p.range(phase, chunk)]);
            list.iter().map(|i| instruction(plan, i, value(&i.source))).collect()
        }),
        buffers: program.map_or_else(Vec::new, |p| p.buffers.values().map(|b| buffer(b, value(&b.name))).collect()),
    }
}

fn cut_model(c: &CutAlternative) -> CutModel {
    (c.layer, round(c.step.0), round(c.slower.0), round(c.crossing.0), c.memory.map(|m| m.0), c.verdict.clone())
}

/// What a moment's text speaks of: `forward 3` is a microbatch's phase, `forward %51 (line 54)` an instruction of it.
fn moment(text: &str, bytes: u64, lookup: &Lookup) -> (String, u64, i64, i64, i64) {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let phase = ["before", "forward", "backward", "after"].iter().position(|p| *p == word).map_or(-1, |p| p as i64);
    let microbatch = rest.parse().unwrap_or(-1);
    let value = lookup.value_of_text(rest).map_or(-1, |v| i64::from(v.0));
    (text.to_string(), bytes, phase, microbatch, value)
}

fn sharding(s: &Sharding, mesh: &Mesh) -> ShardingModel {
    ShardingModel {
        text: s.display(mesh).to_string(),
        spec: text::partition_spec(s, mesh),
        phrase: text::phrase(s, mesh),
        dims: s.dims.iter().map(|d| d.iter().map(|a| a.0).collect()).collect(),
        partial: s.partial.iter().map(|p| p.0.0).collect(),
        reducer: s.partial.first().map_or_else(String::new, |p| format!("{:?}", p.1).to_lowercase()),
    }
}

fn instruction(plan: &Plan, i: &Instruction, value: i64) -> InstructionModel {
    let detail = match &i.kind {
        InstructionKind::MatMul(m) => {
            let batch: u64 = m.batch.iter().map(|b| b.size).product();
            let shape = format!("{}×{}×{} {}", m.m, m.n, m.k, m.dtype);
            if batch > 1 { format!("{batch} of {shape}") } else { shape }
        }
        InstructionKind::Kernel { kernel, .. } => plan.kernels.get(*kernel).map_or_else(
            || kernel.to_string(),
            |k| {
                let domain = k.domain.iter().map(u64::to_string).collect::<Vec<_>>().join("×");
                format!(
                    "{kernel} over {domain}, {} inputs, {} outputs",
                    k.params.iter().filter(|p| !p.output).count(),
                    k.params.iter().filter(|p| p.output).count()
                )
            },
        ),
        InstructionKind::Library { results, .. } => results.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        InstructionKind::Copy { shape, .. } => format!("{} elements", shape.iter().product::<u64>()),
        InstructionKind::Fill { .. } => String::new(),
        InstructionKind::Collective { segments, .. } if segments.len() > 1 => format!("{} buffers in one", segments.len()),
        InstructionKind::Collective { .. } => String::new(),
        InstructionKind::Send { to, .. } => format!("to stage {}", to.0),
        InstructionKind::Receive { from, .. } => format!("from stage {}", from.0),
    };
    (op_label::instruction(&i.kind), detail, i.source.clone(), round(i.seconds.0), round(i.flops.0), i.bytes.0, value)
}

fn buffer(b: &ir::program::Buffer, value: i64) -> BufferModel {
    (b.name.clone(), buffer_kind(b.kind), b.offset, b.slot_stride.saturating_mul(u64::from(b.slots)), b.slots, b.persistent, value)
}

fn buffer_kind(kind: BufferKind) -> &'static str {
    match kind {
        BufferKind::Parameter => "parameter",
        BufferKind::Optimizer => "optimizer",
        BufferKind::Gradient => "gradient",
        BufferKind::Data => "data",
        BufferKind::Activation => "activation",
        BufferKind::Temporary => "temporary",
        BufferKind::Communication => "communication",
    }
}

fn communication(program: &Program, microbatches: u32, lookup: &Lookup) -> Vec<Communication> {
    let mut list = Vec::new();
    for phase in Phase::ALL {
        for (n, i) in program.phase(phase).iter().enumerate() {
            let group = match &i.kind {
                InstructionKind::Collective { axes, .. } => {
                    let names: Vec<String> = axes.iter().map(|&a| format!("\"{}\"", text::axis_name(&program.mesh, a))).collect();
                    format!("{} × {}", names.join(", "), text::ways(axes, &program.mesh).unwrap_or(0))
                }
                InstructionKind::Send { to, .. } => format!("to stage {}", to.0),
                InstructionKind::Receive { from, .. } => format!("from stage {}", from.0),
                InstructionKind::Kernel { .. }
                | InstructionKind::MatMul(_)
                | InstructionKind::Library { .. }
                | InstructionKind::Copy { .. }
                | InstructionKind::Fill { .. } => continue,
            };
            list.push(Communication {
                stage: program.stage.0,
                phase: phase as u32,
                instruction: n as u32,
                kind: op_label::instruction(&i.kind),
                group,
                bytes: i.bytes.0,
                seconds: round(i.seconds.0),
                times: if matches!(phase, Phase::Forward | Phase::Backward) { microbatches } else { 1 },
                source: i.source.clone(),
                value: lookup.value_of_text(&i.source).map_or(-1, |v| i64::from(v.0)),
            });
        }
    }
    list
}

fn note(d: &Diagnostic) -> NoteModel {
    let severity = match d.severity {
        ir::diagnostic::Severity::Error => "error",
        ir::diagnostic::Severity::Warning => "warning",
        ir::diagnostic::Severity::Note => "note",
    };
    let place = d.span.as_ref().map_or_else(String::new, |s| format!("{}:{}:{}", s.file, s.line, s.column));
    (d.code.clone(), severity, d.message.clone(), place, d.notes.clone(), d.help.clone().unwrap_or_default())
}
