//! Building a candidate: partition, programs, memory, schedule, and the reasons.

use super::candidate::{Candidate, Searched};
use super::decisions::Solved;
use super::mixture::Mixture;
use super::settings::Setting;
use crate::batch::phases::Analysis;
use crate::canonical::Canonical;
use crate::lower::program::{KernelTable, lower};
use crate::schedule::simulate::{Pipeline, Stage, simulate};
use crate::shard::pins::Pins;
use crate::shard::presets::Preset;
use crate::spmd::partition::{self, StageView};
use crate::stop::Stop;
use cost_model::CostModel;
use ir::diagnostic::{Diagnostic, Result};
use ir::plan::{MemoryReport, Recompute, Schedule, StagePlan, StageTimes};
use ir::program::{BufferKind, InstructionKind, Phase, Program, StageId};
use ir::{Bytes, Seconds};

/// Programs and what is told of them.
pub struct Built {
    /// Which candidate it is.
    pub candidate: usize,
    /// The stages.
    pub stages: Vec<StagePlan>,
    /// Their programs.
    pub programs: Vec<Program>,
    /// The schedule.
    pub schedule: Schedule,
    /// The kernels.
    pub kernels: KernelTable,
    /// What the user should know of it.
    pub notes: Vec<Diagnostic>,
}

/// How often a candidate is solved again with more bytes reserved.
const RETRIES: u32 = 4;
/// The same for a mixture of recomputations, of which several are tried.
const MIXED_RETRIES: u32 = 1;
/// How many settings that fit are lowered and compared by their simulated steps; estimates alone rank the rest.
const COMPARED: usize = 4;

/// Builds the best candidate that fits in `limit` per device. One that does not fit recomputes more and more, if `more` allows.
///
/// # Errors
/// `E0502` when none fits, with what is missing where; errors of lowering.
#[allow(clippy::too_many_arguments, reason = "what a search knows, and how far it may go")]
pub fn build(
    searched: &mut Searched,
    (canonical, analysis): (&Canonical, &Analysis),
    pins: &Pins,
    preset: Preset,
    model: &dyn CostModel,
    limit: Bytes,
    more: bool,
    stop: &Stop,
) -> Result<Built> {
    let mut nearest: Option<TooLarge> = None;
    let mut nearest_index = 0;
    let mut best: Option<Built> = None;
    let mut fitting = 0;
    let needed = stop.unless_needed();
    stop.begin("programs", searched.candidates.len().min(COMPARED));
    for index in 0..searched.candidates.len() {
        // The first is built even when the time is up: a search without a plan is worth nothing.
        let enough = if best.is_some() { stop.now() } else { nearest.is_some() && needed.now() };
        if fitting == COMPARED || enough {
            break;
        }
        let mut outcome = fit(&mut searched.candidates[index], canonical, pins, preset, model, limit, RETRIES, &needed)?;
        let before = searched.candidates[index].setting.recompute;
        let mut less = before;
        for mode in Recompute::ALL.into_iter().filter(|&m| more && m > before) {
            let Err(failed) = &outcome else { break };
            less = searched.candidates[index].setting.recompute;
            let setting = Setting { recompute: mode, ..searched.candidates[index].setting.clone() };
            let mut again = searched.recomputing(&setting, None, (canonical, analysis), preset, pins, model, &needed)?;
            let next = fit(&mut again, canonical, pins, preset, model, limit, RETRIES, &needed)?;
            if next.as_ref().err().is_none_or(|n| n.smallest < failed.smallest) {
                searched.candidates[index] = again;
                searched.alternatives[index].recompute = mode;
                outcome = next;
            }
        }
        match outcome {
            Ok((programs, kernels)) => {
                fitting += 1;
                let mut built = report(&searched.candidates[index], index, programs, kernels, model, limit, pins);
                // Between a mode that is too large and the next that fits: as few layers as fit.
                let mut mixture = Mixture::between(&searched.candidates[index], less);
                while let Some(modes) = mixture.next() {
                    if needed.now() {
                        break;
                    }
                    let setting = searched.candidates[index].setting.clone();
                    let mut mixed = searched.recomputing(&setting, Some(&modes), (canonical, analysis), preset, pins, model, &needed)?;
                    let fits = fit(&mut mixed, canonical, pins, preset, model, limit, MIXED_RETRIES, &needed)?;
                    mixture.learn(fits.as_ref().map_or_else(|f| f.over.clone(), |_| vec![]));
                    let Ok((programs, kernels)) = fits else { continue };
                    let other = report(&mixed, index, programs, kernels, model, limit, pins);
                    if other.schedule.step < built.schedule.step {
                        searched.candidates[index] = mixed;
                        built = other;
                    }
                }
                let alternative = &mut searched.alternatives[index];
                alternative.memory = built.programs.iter().map(|p| p.arena).max();
                alternative.step = Some(built.schedule.step);
                alternative.verdict = "slower".into();
                stop.done(Some(built.schedule.step));
                if best.as_ref().is_none_or(|b| built.schedule.step < b.schedule.step) {
                    best = Some(built);
                }
            }
            Err(failed) => {
                searched.alternatives[index].verdict = format!("needs {} per device, of {limit}", failed.smallest);
                searched.alternatives[index].memory = Some(failed.smallest);
                if nearest.as_ref().is_none_or(|n| failed.smallest < n.smallest) {
                    nearest = Some(failed);
                    nearest_index = index;
                }
            }
        }
    }
    if let Some(built) = best {
        searched.alternatives[built.candidate].verdict = "taken".into();
        return Ok(built);
    }
    let settings = searched.candidates.len();
    if let (Some(n), Some(_)) = (&nearest, stop.reason()) {
        let tried = searched.alternatives.iter().filter(|a| a.memory.is_some()).count();
        return Err(stop.nothing_found(tried, settings).with_note(format!("what was built needs {} per device, and the limit is {limit}", n.smallest)).into());
    }
    // The limit that is named is tried first: under another limit the solver may go another way.
    if let Some(n) = &mut nearest {
        for _ in 0..PROOFS {
            let c = &mut searched.candidates[nearest_index];
            c.solve(canonical, preset, pins, model, None, &needed)?;
            if fit(c, canonical, pins, preset, model, n.smallest, RETRIES, &needed)?.is_ok() {
                break;
            }
            n.smallest = Bytes(n.smallest.0 + n.smallest.0 / 32);
        }
    }
    Err(nearest.map_or_else(
        || Diagnostic::outcome("E0503", "there is no setting to build"),
        |n| {
            n.diagnostic.with_note(format!("{settings} setting(s) of stages, mesh and microbatches were tried; this is the one that needs least")).with_help(format!(
                "the smallest limit known to work is {} (`--memory-limit {}`); or use more devices, `--strategy auto`, more `--stages` or more `--microbatches`",
                n.smallest, n.smallest.0
            ))
        },
    ).into())
}

/// How often a limit that is to be named is raised until a plan fits in it.
const PROOFS: usize = 8;

/// A candidate that does not fit.
struct TooLarge {
    diagnostic: Diagnostic,
    /// The smallest arena that was found.
    smallest: Bytes,
    /// The stages that were over the limit then.
    over: Vec<u32>,
}

/// Lowers a candidate, solving it again under memory constraints until its arenas fit.
#[allow(clippy::too_many_arguments, reason = "what a search knows, and how far it may go")]
fn fit(
    c: &mut Candidate,
    canonical: &Canonical,
    pins: &Pins,
    preset: Preset,
    model: &dyn CostModel,
    limit: Bytes,
    retries: u32,
    stop: &Stop,
) -> Result<Result<(Vec<Program>, KernelTable), TooLarge>> {
    let mut reserved = vec![Bytes(0); c.setting.stages as usize];
    let mut nearest: Option<TooLarge> = None;
    let mut keep = |c: &Candidate, programs: &[Program]| {
        let largest = programs.iter().map(|p| p.arena).max().unwrap_or_default();
        if nearest.as_ref().is_none_or(|n| largest < n.smallest) {
            let over = programs.iter().filter(|p| p.arena > limit).map(|p| p.stage.0).collect();
            nearest = Some(TooLarge { diagnostic: too_large(c, programs, limit), smallest: largest, over });
        }
        largest
    };
    for attempt in 0..=retries {
        let (programs, kernels) = programs(c, model)?;
        if keep(c, &programs) <= limit {
            return Ok(Ok((programs, kernels)));
        }
        // What the constraints did not see (gathered copies, gaps) is reserved the next time.
        if attempt > 0 {
            for (r, p) in reserved.iter_mut().zip(&programs) {
                r.0 += p.arena.0.saturating_sub(limit.0);
            }
        }
        if let Err(failure) = c.solve(canonical, preset, pins, model, Some((limit, &reserved)), stop) {
            // Nothing fits: the smallest that is known is built too, for its true size.
            if let Some(works) = failure.works
                && c.solve(canonical, preset, pins, model, Some((works, &reserved)), stop).is_ok()
            {
                let (programs, kernels) = self::programs(c, model)?;
                if keep(c, &programs) <= limit {
                    return Ok(Ok((programs, kernels)));
                }
            }
            break;
        }
    }
    Ok(Err(nearest.expect("invariant: at least one attempt was lowered")))
}

/// How much is missing, where, when, and because of what.
fn too_large(c: &Candidate, programs: &[Program], limit: Bytes) -> Diagnostic {
    let worst = programs.iter().max_by_key(|p| p.arena).expect("invariant: a plan has a stage");
    let memory = memory_report(worst, limit);
    let largest: Vec<String> = memory.largest.iter().take(5).map(|(n, k, b)| format!("{n} ({k}, {b})")).collect();
    let devices = worst.mesh.devices();
    let first = worst.first_rank;
    Diagnostic::outcome("E0502", format!("the plan needs {} per device and the limit is {limit}", worst.arena))
        .with_note(format!(
            "{} are missing on devices {first} to {} (stage {}, mesh {}), at {}",
            Bytes(worst.arena.0.saturating_sub(limit.0)),
            first + devices - 1,
            worst.stage,
            c.mesh,
            memory.peak_moment
        ))
        .with_note(format!("the largest values alive then: {}", largest.join(", ")))
}

/// Partitions and lowers all stages.
fn programs(c: &Candidate, model: &dyn CostModel) -> Result<(Vec<Program>, KernelTable)> {
    let mut kernels = KernelTable::default();
    let transfers = partition::transfers(&c.step, &c.groups, &c.choices, &c.stages);
    let programs = (0..c.setting.stages)
        .map(|s| {
            let chunk = |piece: u32| {
                let view = StageView {
                    stage: StageId(piece),
                    first_rank: s * c.mesh.devices(),
                    stages: &c.stages,
                    transfers: &transfers,
                    in_flight: c.setting.in_flight(piece),
                };
                let local = partition::partition(&c.step, &c.groups, &c.choices, &c.mesh, model, &view);
                debug_assert_eq!(ir::verify::verify(&local.graph), Ok(()), "invariant: a partitioned graph is well formed");
                local
            };
            let chunks = (s..c.setting.pieces()).step_by(c.setting.stages as usize).map(chunk).collect();
            lower(chunks, c.setting.lane(s), &mut kernels, model)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok((programs, kernels))
}

/// Predicted times of a stage's chunk; what is done once for all its chunks counts for the first.
fn times(program: &Program, chunk: u32) -> StageTimes {
    let phase = |phase: Phase| program.phase(phase)[program.range(phase, chunk)].iter().map(|i| i.seconds).sum();
    let once = |p: Phase| if chunk == 0 { phase(p) } else { Seconds(0.0) };
    StageTimes { before: once(Phase::Before), forward: phase(Phase::Forward), backward: phase(Phase::Backward), after: once(Phase::After) }
}

fn report(c: &Candidate, index: usize, programs: Vec<Program>, kernels: KernelTable, model: &dyn CostModel, limit: Bytes, pins: &Pins) -> Built {
    let sends = |p: &Program, phase: Phase, chunk: u32| -> Seconds {
        p.phase(phase)[p.range(phase, chunk)].iter().filter(|i| matches!(i.kind, InstructionKind::Send { .. })).map(|i| i.seconds).sum()
    };
    // Programs with their chunks, in the order of the way through the model.
    let pieces = || (0..c.setting.pieces()).map(|p| (&programs[(p % c.setting.stages) as usize], p / c.setting.stages));
    let stages: Vec<Stage> = pieces()
        .map(|(p, chunk)| {
            let (send_forward, send_backward) = (sends(p, Phase::Forward, chunk), sends(p, Phase::Backward, chunk));
            let mut times = times(p, chunk);
            times.forward = times.forward - send_forward;
            times.backward = times.backward - send_backward;
            Stage { times, devices: p.mesh.devices(), send_forward, send_backward, weights: Seconds(0.0) }
        })
        .collect();
    let timeline = simulate(&Pipeline {
        order: c.setting.schedule.into(),
        microbatches: c.setting.microbatches,
        stages: &stages,
        solo_speedup: model.cluster().solo_speedup,
    });
    let solved = Solved { step: &c.step, stored: &c.stored, groups: &c.groups, mesh: &c.mesh, choices: &c.choices };
    let in_stage = |of: Option<StageId>, stage: usize| of.is_none_or(|s| s.0 as usize == stage);
    let plans = pieces()
        .zip(&stages)
        .enumerate()
        .map(|(s, ((program, _), stage))| StagePlan {
            layers: c.cuts[s],
            mesh: c.mesh.clone(),
            devices: (0..c.mesh.devices()).map(|d| program.first_rank + d).collect(),
            shardings: solved.shardings(&|i| in_stage(c.stages.of_input[i], s), &|g| in_stage(c.stages.of_group[g], s)),
            decisions: solved.decisions(pins, limit, &|g| in_stage(c.stages.of_group[g], s)),
            solve: c.choices.report.clone(),
            times: stage.times,
            memory: memory_report(program, limit),
            cut: c.moves.get(s).cloned().unwrap_or_default(),
        })
        .collect();
    let schedule = Schedule {
        kind: c.setting.schedule,
        microbatches: c.setting.microbatches,
        step: timeline.step + model.cluster().around_step(),
        bubble: timeline.bubble,
    };
    let notes = programs.iter().zip(&c.cuts).filter(|(p, _)| c.setting.stages > 1 && !has_product(p)).map(|(p, cut)| idle_stage(p, *cut)).collect();
    Built { candidate: index, stages: plans, programs, schedule, kernels, notes }
}

/// Whether a stage multiplies matrices at all.
fn has_product(program: &Program) -> bool {
    program
        .phases
        .iter()
        .flatten()
        .any(|i| matches!(i.kind, InstructionKind::MatMul(_) | InstructionKind::Library { op: ir::OpKind::Convolution(_) | ir::OpKind::Attention(_), .. }))
}

fn idle_stage(program: &Program, cut: (u32, u32)) -> Diagnostic {
    Diagnostic::note("N0401", format!("stage {} has no matrix product: it holds layers {} to {} only", program.stage, cut.0, cut.1 - 1))
        .with_help("fewer `--stages` use the devices better")
}

fn kind_name(kind: BufferKind) -> &'static str {
    match kind {
        BufferKind::Parameter => "parameters",
        BufferKind::Optimizer => "optimizer",
        BufferKind::Gradient => "gradients",
        BufferKind::Data => "data",
        BufferKind::Activation => "activations",
        BufferKind::Temporary => "temporaries",
        BufferKind::Communication => "communication",
    }
}

/// Live bytes over a program's instructions. The arena can be larger by what does not fit into gaps.
pub fn memory_report(program: &Program, limit: Bytes) -> MemoryReport {
    let moments: Vec<(Phase, usize)> = Phase::ALL.iter().flat_map(|&p| (0..program.phase(p).len()).map(move |i| (p, i))).collect();
    let mut life: Vec<Option<(usize, usize)>> = vec![None; program.buffers.len()];
    for (m, &(phase, i)) in moments.iter().enumerate() {
        let instruction = &program.phase(phase)[i];
        for b in instruction.reads.iter().chain(&instruction.writes) {
            let l = life[b.0 as usize].get_or_insert((m, m));
            l.1 = m;
        }
    }
    let end = moments.len().saturating_sub(1);
    for (id, b) in program.buffers.iter() {
        if b.persistent || program.outputs.iter().any(|o| o.buffer == id) {
            life[id.0 as usize] = Some((if b.persistent { 0 } else { life[id.0 as usize].map_or(0, |l| l.0) }, end));
        }
    }
    let mut change = vec![0i64; end + 2];
    for ((_, b), l) in program.buffers.iter().zip(&life) {
        if let Some((first, last)) = l {
            change[*first] += b.bytes() as i64;
            change[*last + 1] -= b.bytes() as i64;
        }
    }
    let live: Vec<u64> = change[..=end]
        .iter()
        .scan(0i64, |sum, c| {
            *sum += c;
            Some(*sum as u64)
        })
        .collect();
    let peak = live.iter().enumerate().max_by_key(|(i, b)| (**b, std::cmp::Reverse(*i))).map_or(0, |(i, _)| i);
    let name = |m: usize| moments.get(m).map_or_else(|| "the start".into(), |&(p, i)| format!("{p:?} {}", program.phase(p)[i].source).to_lowercase());
    let mut at_peak: std::collections::BTreeMap<BufferKind, u64> = std::collections::BTreeMap::new();
    let mut largest: Vec<(String, String, Bytes)> = Vec::new();
    for ((_, b), l) in program.buffers.iter().zip(&life) {
        if l.is_some_and(|(first, last)| (first..=last).contains(&peak)) {
            *at_peak.entry(b.kind).or_default() += b.bytes();
            largest.push((b.name.clone(), kind_name(b.kind).into(), Bytes(b.bytes())));
        }
    }
    largest.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
    largest.truncate(12);
    // At most a few hundred points: phase boundaries and every n-th instruction.
    let stride = moments.len().div_ceil(256).max(1);
    let timeline = (0..moments.len()).filter(|m| m % stride == 0 || *m == peak).map(|m| (name(m), Bytes(live[m]))).collect();
    MemoryReport {
        arena: program.arena,
        limit,
        overhead: Bytes(0),
        at_peak: at_peak.into_iter().map(|(k, b)| (kind_name(k).into(), Bytes(b))).collect(),
        peak_moment: name(peak),
        timeline,
        largest,
    }
}
