//! Candidates: every setting with its sharding, stages and predicted step.

use super::cuts::{self, LayerCosts, cut};
use super::settings::{self, Setting};
use crate::batch::phases::Analysis;
use crate::canonical::Canonical;
use crate::kernels::stored::stored_values;
use crate::layers::{self, Layers};
use crate::pipeline::{alternative, microbatched};
use crate::recompute::Recomputation;
use crate::schedule::fast::duration;
use crate::schedule::simulate::{Pipeline, Stage};
use crate::shard::groups::{self, Groups};
use crate::shard::pins::Pins;
use crate::shard::presets::{Preset, Restriction};
use crate::shard::problem::{self, Choices, Failure, MemoryLimit, Space};
use crate::shard::strategy::{Context, check_count};
use crate::spmd::partition::Stages;
use crate::step::StepGraph;
use crate::stop::Stop;
use cost_model::CostModel;
use ir::diagnostic::{Diagnostic, Diagnostics, Result};
use ir::plan::{Alternative, CutAlternative, Layer, Placement, Recompute, StageTimes};
use ir::program::{Phase, StageId};
use ir::{Bytes, Mesh, SecondaryMap, Seconds, ValueId};
use std::collections::BTreeMap;

/// A setting with everything that was decided for it.
#[derive(Clone)]
pub struct Candidate {
    /// The setting.
    pub setting: Setting,
    /// The step, cut into the setting's microbatches.
    pub step: StepGraph,
    /// Values in memory.
    pub stored: SecondaryMap<ValueId, bool>,
    /// Its groups.
    pub groups: Groups,
    /// The mesh of a stage.
    pub mesh: Mesh,
    /// What was chosen.
    pub choices: Choices,
    /// Names of layers.
    pub layers: Vec<Layer>,
    /// Layer ranges of the stages.
    pub cuts: Vec<(u32, u32)>,
    /// Seconds that sending across the end of each layer takes per microbatch, both ways; empty when there is one stage.
    crossing: Vec<f64>,
    /// For every stage where else its first layer could be.
    pub moves: Vec<Vec<CutAlternative>>,
    /// Where groups and inputs are.
    pub stages: Stages,
    /// Layer, stage and phase of every op.
    pub placement: Vec<Placement>,
    /// Predicted step.
    pub estimate: Seconds,
}

/// What a search found.
pub struct Searched {
    /// Candidates, best first; at least one.
    pub candidates: Vec<Candidate>,
    /// All settings, best first.
    pub alternatives: Vec<Alternative>,
    prepared: Steps,
}

/// A step for one number of microbatches and one mode of recomputation, with what does not depend on the mesh.
struct Prepared {
    step: StepGraph,
    stored: SecondaryMap<ValueId, bool>,
    layers: Layers,
}

/// The steps that settings share.
#[derive(Default)]
struct Steps(BTreeMap<(u32, Recompute), Prepared>);

impl Steps {
    fn of(&mut self, setting: &Setting, canonical: &Canonical, analysis: &Analysis) -> &Prepared {
        let (plain, key) = ((setting.microbatches, Recompute::None), (setting.microbatches, setting.recompute));
        self.0.entry(plain).or_insert_with(|| {
            let step = StepGraph::new(&microbatched(canonical, analysis, setting.microbatches), &canonical.interface);
            let stored = stored_values(&step);
            let layers = layers::layers(&step, &stored);
            Prepared { step, stored, layers }
        });
        if !self.0.contains_key(&key) {
            let plain = &self.0[&plain];
            let modes = vec![setting.recompute; plain.layers.layers.len()];
            let prepared = plain.recomputing(&modes);
            self.0.insert(key, prepared);
        }
        &self.0[&key]
    }
}

impl Prepared {
    /// The step with a mode per layer.
    fn recomputing(&self, modes: &[Recompute]) -> Prepared {
        let (step, layers) = Recomputation::new(&self.step, &self.layers, &self.stored).apply(modes);
        let stored = stored_values(&step);
        Prepared { step, stored, layers }
    }
}

impl Searched {
    /// A setting with its mode of recomputation, or with a mode for every layer.
    ///
    /// # Errors
    /// Those of the sharding problem.
    #[allow(clippy::too_many_arguments, reason = "as the search itself")]
    pub fn recomputing(
        &mut self,
        setting: &Setting,
        modes: Option<&[Recompute]>,
        (canonical, analysis): (&Canonical, &Analysis),
        preset: Preset,
        pins: &Pins,
        model: &dyn CostModel,
        stop: &Stop,
    ) -> Result<Candidate> {
        let Some(modes) = modes else {
            return self::candidate(setting, self.prepared.of(setting, canonical, analysis), canonical, preset, pins, model, stop);
        };
        let plain = self.prepared.of(&Setting { recompute: Recompute::None, ..setting.clone() }, canonical, analysis);
        self::candidate(setting, &plain.recomputing(modes), canonical, preset, pins, model, stop)
    }
}

/// Prices every setting.
///
/// # Errors
/// Those of the sharding problem when no setting has a solution; `E0403` when there are fewer layers than stages.
pub fn search(
    canonical: &Canonical,
    analysis: &Analysis,
    settings: &[Setting],
    preset: Preset,
    pins: &Pins,
    model: &dyn CostModel,
    stop: &Stop,
) -> Result<Searched> {
    let mut prepared = Steps::default();
    let mut candidates = Vec::new();
    let mut failed: Vec<(Setting, Diagnostics)> = Vec::new();
    let mut untried = vec![];
    stop.begin("settings", settings.len());
    for setting in settings {
        if stop.now() {
            untried.push(setting.clone());
            continue;
        }
        let steps = prepared.of(setting, canonical, analysis);
        let same = candidates.iter().rev().find(|c: &&Candidate| c.differs_in_order(setting));
        if same.is_some() && setting.pieces() as usize > steps.layers.layers.len() {
            // Fewer layers than chunks; the same setting with whole stages stands.
            stop.done(None);
            continue;
        }
        let found = match same {
            Some(c) => c.reordered(setting, &steps.layers, model),
            None => candidate(setting, steps, canonical, preset, pins, model, stop),
        };
        match found {
            Ok(c) => {
                stop.done(Some(c.estimate));
                candidates.push(c);
            }
            Err(e) => {
                stop.done(None);
                failed.push((setting.clone(), e));
            }
        }
    }
    if candidates.is_empty() && stop.reason().is_some() {
        return Err(stop.nothing_found(failed.len(), settings.len()).into());
    }
    if candidates.is_empty() {
        return Err(failed.into_iter().next().map_or_else(|| Diagnostic::input("E0403", "there is no setting to try").into(), |f| f.1));
    }
    candidates.sort_by(|a, b| a.estimate.0.total_cmp(&b.estimate.0));
    let mut alternatives: Vec<Alternative> = candidates
        .iter()
        .enumerate()
        .map(|(i, c)| alternative(&c.setting, Some(c.estimate), None, if i == 0 { "taken".into() } else { "slower".into() }, c.cuts.clone()))
        .collect();
    alternatives.extend(failed.into_iter().map(|(s, e)| alternative(&s, None, None, e.0.first().map_or_else(String::new, |d| d.message.clone()), vec![])));
    alternatives.extend(untried.iter().map(|s| alternative(s, None, None, "not tried before the search ended".into(), vec![])));
    Ok(Searched { candidates, alternatives, prepared })
}

fn candidate(
    setting: &Setting,
    prepared: &Prepared,
    canonical: &Canonical,
    preset: Preset,
    pins: &Pins,
    model: &dyn CostModel,
    stop: &Stop,
) -> Result<Candidate> {
    let step = prepared.step.clone();
    let mesh = Mesh::new(&setting.mesh);
    let piped = setting.stages > 1;
    let of = prepared.layers.of.clone();
    let groups = groups::groups(&step.graph, &|o| {
        let everywhere = prepared.layers.everywhere[o.0 as usize];
        step.phase_of(o) as u64 | if piped { u64::from(of[o.0 as usize]) << 8 | u64::from(everywhere) << 4 } else { 0 }
    });
    let mut c = Candidate {
        setting: setting.clone(),
        stored: prepared.stored.clone(),
        mesh,
        layers: prepared.layers.layers.clone(),
        cuts: vec![(0, prepared.layers.layers.len() as u32)],
        crossing: vec![],
        moves: vec![],
        stages: Stages::one(&step, &groups),
        placement: vec![],
        estimate: Seconds(0.0),
        choices: Choices::default(),
        step,
        groups,
    };
    c.solve(canonical, preset, pins, model, None, stop)?;
    if piped {
        c.cut_stages(&prepared.layers, model)?;
    }
    c.place(&prepared.layers);
    c.estimate = c.predict(model);
    Ok(c)
}

impl Candidate {
    /// Solves the sharding problem, under a memory limit if one is given (and the bytes to reserve per stage).
    pub fn solve(
        &mut self,
        canonical: &Canonical,
        preset: Preset,
        pins: &Pins,
        model: &dyn CostModel,
        memory: Option<(Bytes, &[Bytes])>,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let cx = Context { step: &self.step, groups: &self.groups, mesh: &self.mesh, model, stored: &self.stored };
        check_count(&cx)?;
        let space = Space::new(&cx);
        let first = |e: Diagnostics| Failure { diagnostic: e.0.into_iter().next().expect("invariant: an error has a diagnostic"), works: None };
        let restriction = Restriction::new(preset, &self.step, &self.groups, &canonical.interface, &space).map_err(first)?;
        let bound = pins.bind(&self.step, &self.mesh).map_err(first)?;
        let stages = &self.stages;
        let stage_of = |g: u32| stages.of_group[g as usize].map(|s| s.0);
        let input_stage = |i: u32| stages.of_input[i as usize].map(|s| s.0);
        let setting = &self.setting;
        let limit = memory.map(|(limit, reserved)| MemoryLimit {
            limit,
            reserved: reserved.to_vec(),
            stage_of: &stage_of,
            input_stage: &input_stage,
            in_flight: (0..setting.pieces()).map(|p| setting.in_flight(p)).collect(),
        });
        let allow = |space: &Space<'_>, node, candidate: usize| restriction.allows(node, candidate) && bound.allows(space, node, candidate);
        self.choices = problem::solve(&space, &allow, limit.as_ref(), stop)?;
        Ok(())
    }

    /// Whether a setting is this one's but for the order of microbatches: then shardings are the same.
    fn differs_in_order(&self, setting: &Setting) -> bool {
        setting.stages > 1 && Setting { schedule: setting.schedule, ..self.setting.clone() } == *setting
    }

    /// The same shardings in another order of microbatches, cut anew.
    fn reordered(&self, setting: &Setting, layers: &Layers, model: &dyn CostModel) -> Result<Candidate> {
        let mut c = Candidate { setting: setting.clone(), ..self.clone() };
        c.cut_stages(layers, model)?;
        c.place(layers);
        c.estimate = c.predict(model);
        Ok(c)
    }

    /// Cost of a group per microbatch (or once), as chosen; a reshard counts half for each side.
    fn group_seconds(&self, g: usize) -> f64 {
        let (compute, reshard) = self.choices.prices[g][self.choices.chosen[g] as usize];
        let repeats = if matches!(self.phase(g), Phase::Forward | Phase::Backward) { f64::from(self.step.microbatches) } else { 1.0 };
        (compute.0 + reshard.0 / 2.0) / repeats
    }

    fn phase(&self, g: usize) -> Phase {
        self.groups.groups[g].ops.first().map_or(Phase::After, |&o| self.step.phase_of(o))
    }

    fn layer(&self, layers: &Layers, g: usize) -> Option<u32> {
        self.groups.groups[g].ops.first().filter(|o| !layers.everywhere[o.0 as usize]).map(|o| layers.of[o.0 as usize])
    }

    /// Cuts layers into the setting's stages.
    fn cut_stages(&mut self, layers: &Layers, model: &dyn CostModel) -> Result<()> {
        let count = layers.layers.len();
        let mut costs = LayerCosts { micro: vec![0.0; count], cut: vec![0.0; count] };
        for g in 0..self.groups.groups.len() {
            if let (Some(l), Phase::Forward | Phase::Backward) = (self.layer(layers, g), self.phase(g)) {
                costs.micro[l as usize] += self.group_seconds(g);
            }
        }
        // What a cut would send: every value read in a layer other than the one that makes it.
        let mut maker: BTreeMap<ValueId, u32> = BTreeMap::new();
        for (g, group) in self.groups.groups.iter().enumerate().filter(|(_, g)| g.output.is_none()) {
            if let (Some(l), Phase::Forward | Phase::Backward) = (self.layer(layers, g), self.phase(g)) {
                group.writes.iter().for_each(|w| {
                    maker.insert(w.value, l);
                });
            }
        }
        let devices = self.mesh.devices();
        let route = model.cluster().route(0, devices.min(model.cluster().devices() - devices), devices);
        let mut sent: BTreeMap<(ValueId, u32), ()> = BTreeMap::new();
        for (g, group) in self.groups.groups.iter().enumerate() {
            let Some(to) = self.layer(layers, g) else { continue };
            for (r, access) in group.reads.iter().enumerate() {
                let Some(&from) = maker.get(&access.value).filter(|&&f| f != to) else { continue };
                let ty = self.step.graph.ty(access.value);
                let local: u64 = self.choices.groups[g].reads[r].local_shape(&ty.shape, &self.mesh).iter().product();
                let time = model.send(Bytes(local * ty.dtype.bytes()), &route).0;
                for l in from.min(to)..from.max(to) {
                    if sent.insert((access.value, l), ()).is_none() {
                        costs.cut[l as usize] += time;
                    }
                }
            }
        }
        let stages = self.setting.pieces();
        self.cuts = cut(&costs, stages as usize).ok_or_else(|| settings::too_few_layers(self.setting.stages, self.setting.schedule.chunks(), count as u32))?;
        self.assign(layers);
        self.crossing.clone_from(&costs.cut);
        self.moves = self.moves(&costs, layers, model);
        Ok(())
    }

    /// Where else the cuts could be, one at a time.
    fn moves(&mut self, costs: &LayerCosts, layers: &Layers, model: &dyn CostModel) -> Vec<Vec<CutAlternative>> {
        let (taken, step) = (self.cuts.clone(), self.predict(model));
        let ranges: Vec<(usize, usize)> = taken.iter().map(|&(a, b)| (a as usize, b as usize)).collect();
        let micro = |(a, b): (usize, usize)| costs.micro[a..b].iter().sum::<f64>();
        let all = (0..ranges.len())
            .map(|s| {
                cuts::around(&ranges, s)
                    .map(|moved| {
                        let at = moved[s].0;
                        self.cuts = moved.iter().map(|&(a, b)| (a as u32, b as u32)).collect();
                        self.assign(layers);
                        let other = self.predict(model);
                        let slower = |r: &[(usize, usize)]| Seconds(micro(r[s - 1]).max(micro(r[s])));
                        CutAlternative {
                            layer: at as u32,
                            step: other,
                            slower: slower(&moved),
                            crossing: Seconds(costs.cut[at - 1]),
                            memory: None,
                            verdict: if at == ranges[s].0 { "taken".into() } else { cuts::verdict((other, slower(&moved)), (step, slower(&ranges))) },
                        }
                    })
                    .collect()
            })
            .collect();
        self.cuts = taken;
        self.assign(layers);
        all
    }

    /// Puts inputs and groups where their layers' stages are.
    fn assign(&mut self, layers: &Layers) {
        let cuts = self.cuts.clone();
        let stage_of_layer = |l: u32| cuts.iter().position(|&(a, b)| (a..b).contains(&l)).map_or(StageId(0), |s| StageId(s as u32));
        self.stages.of_input = layers.home.iter().map(|h| h.map(stage_of_layer)).collect();
        for g in 0..self.groups.groups.len() {
            self.stages.of_group[g] = self.layer(layers, g).map(stage_of_layer);
        }
        // An output is made where its state is kept, or where its value is made.
        let made: BTreeMap<ValueId, Option<StageId>> = self
            .groups
            .groups
            .iter()
            .enumerate()
            .filter(|(_, g)| g.output.is_none())
            .flat_map(|(g, group)| group.writes.iter().map(move |w| (w.value, g)))
            .map(|(v, g)| (v, self.stages.of_group[g]))
            .collect();
        for g in 0..self.groups.groups.len() {
            let group = &self.groups.groups[g];
            let Some(p) = group.output else { continue };
            let state = self.step.outputs[p].replaces.map(|i| self.stages.of_input[i as usize]);
            let value = group.reads.first().and_then(|r| made.get(&r.value).copied().flatten().or_else(|| self.input_home(r.value)));
            self.stages.of_group[g] = match state {
                Some(home) => home,
                None => value.or(Some(StageId(0))),
            };
        }
    }

    fn input_home(&self, v: ValueId) -> Option<StageId> {
        self.step.graph.inputs.iter().position(|&w| w == v).and_then(|i| self.stages.of_input[i])
    }

    /// Layer, stage and phase of every op; views are placed with their first reader.
    fn place(&mut self, layers: &Layers) {
        let graph = &self.step.graph;
        let stage_of_layer = |l: u32| self.cuts.iter().position(|&(a, b)| (a..b).contains(&l)).map_or(StageId(0), |s| StageId(s as u32));
        let mut layer = layers.of.clone();
        let mut reader: BTreeMap<ValueId, u32> = BTreeMap::new();
        for (id, op) in graph.ops.iter().rev() {
            let i = id.0 as usize;
            if groups::is_view(graph, id)
                && let Some(&l) = op.results.first().and_then(|r| reader.get(r))
            {
                layer[i] = l;
            }
            for &v in &op.operands {
                reader.insert(v, layer[i]);
            }
        }
        self.placement = graph
            .ops
            .keys()
            .map(|id| {
                let layer = layer[id.0 as usize];
                Placement { layer, stage: stage_of_layer(layer), phase: self.step.phase_of(id), recomputed: self.step.recomputed[id.0 as usize] }
            })
            .collect();
    }

    /// Predicted step from the groups' times.
    fn predict(&self, model: &dyn CostModel) -> Seconds {
        let mut times = vec![StageTimes::default(); self.setting.pieces() as usize];
        for g in 0..self.groups.groups.len() {
            let seconds = Seconds(self.group_seconds(g));
            let on = self.stages.of_group[g].map_or(0..times.len(), |s| s.0 as usize..s.0 as usize + 1);
            for t in &mut times[on] {
                match self.phase(g) {
                    Phase::Before => t.before += seconds,
                    Phase::Forward => t.forward += seconds,
                    Phase::Backward => t.backward += seconds,
                    Phase::After => t.after += seconds,
                }
            }
        }
        // Forward values and cotangents are much alike: half of what crosses goes either way.
        let half = |layer: u32| Seconds(self.crossing.get(layer as usize).map_or(0.0, |s| s / 2.0));
        let last = self.cuts.len() - 1;
        let stage = |(s, times): (usize, StageTimes)| Stage {
            times,
            devices: self.mesh.devices(),
            send_forward: if s < last { half(self.cuts[s].1 - 1) } else { Seconds(0.0) },
            send_backward: if s > 0 { half(self.cuts[s].0 - 1) } else { Seconds(0.0) },
            weights: Seconds(0.0),
        };
        let stages: Vec<Stage> = times.into_iter().enumerate().map(stage).collect();
        duration(&Pipeline {
            order: self.setting.schedule.into(),
            microbatches: self.setting.microbatches,
            stages: &stages,
            solo_speedup: model.cluster().solo_speedup,
        })
    }
}
