//! From the parts of layers to a step: stages of equally many blocks, what communication stays exposed, the schedule's exact time, and bytes by kind.
//!
//! Exposure is counted where it arises: a collective of tensor parallelism between its products, a ring's beside the attention that it feeds, parameters and
//! gradients of a layer beside the computing of its neighbours, reductions of a step behind its last backward. Invariant: a [`Bill`] adds up to the step.

use super::framework::Framework;
use super::parts::{Load, Traffic};
use super::setting::{Arithmetic, Context, Offload, Setting};
use super::{Model, Solved};
use crate::schedule::closed_form;
use crate::schedule::fast::duration;
use crate::schedule::order::Order;
use crate::schedule::simulate::{Pipeline, Stage};
use cost_model::Cluster;
use ir::diagnostic::{Diagnostic, Result};
use ir::plan::{Recompute, StageTimes};
use ir::program::Phase;
use ir::{Bytes, Seconds};

/// The seconds of a step on its busiest stage, by what they are spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bill {
    /// Matrix products.
    pub products: Seconds,
    /// Attention.
    pub attention: Seconds,
    /// Elementwise ops, norms, embedding, losses.
    pub streams: Seconds,
    /// Exposed collectives by [`Traffic`].
    pub exposed: [Seconds; 5],
    /// Waiting for the host to start kernels.
    pub launch: Seconds,
    /// The update.
    pub update: Seconds,
    /// Waiting for other stages, transfers between them included.
    pub bubble: Seconds,
}

/// Bytes of one device by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kinds {
    /// Parameters and their copies for computing.
    pub parameters: f64,
    /// Optimizer state.
    pub optimizer: f64,
    /// Gradients.
    pub gradients: f64,
    /// What microbatches in flight keep for their backward.
    pub activations: f64,
    /// The most that is alive beside these.
    pub temporaries: f64,
    /// What process, libraries and gaps take.
    pub overhead: f64,
}

impl Kinds {
    /// What the framework's allocator has handed out at the peak.
    pub fn allocated(&self) -> f64 {
        self.parameters + self.optimizer + self.gradients + self.activations + self.temporaries
    }
    /// All of it.
    pub fn total(&self) -> f64 {
        self.allocated() + self.overhead
    }
}

/// One stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StagePrediction {
    /// Layers of the model of every chunk: first and one past the last.
    pub layers: Vec<(u32, u32)>,
    /// Forward and backward of a microbatch through all its chunks, exposed communication included, and what is done once.
    pub times: StageTimes,
    /// Microbatches in flight.
    pub in_flight: f64,
    /// Bytes of a device.
    pub memory: Kinds,
}

/// What a setting gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Duration of a step.
    pub step: Seconds,
    /// Where it goes.
    pub bill: Bill,
    /// Share of the devices' time in which they wait for other stages.
    pub bubble: f64,
    /// Tokens of a device a second.
    pub tokens_per_second: f64,
    /// Arithmetic of a device a second, nothing repeated.
    pub model_flops: f64,
    /// The same with what recomputation repeats.
    pub hardware_flops: f64,
    /// Model FLOP/s over the peak of the type that products are done in.
    pub mfu: f64,
    /// The stages.
    pub stages: Vec<StagePrediction>,
    /// Bytes that the fullest device has handed out at its peak.
    pub allocated: Bytes,
    /// Bytes that the fullest device needs in all.
    pub memory: Bytes,
    /// Bytes of a device.
    pub capacity: Bytes,
}

impl Prediction {
    /// Whether the setting fits in memory.
    pub fn fits(&self) -> bool {
        self.memory <= self.capacity
    }
}

/// A pass over some layers.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    load: Load,
    exposed: [f64; 5],
    launch: f64,
    interference: f64,
}

impl Pass {
    fn time(&self) -> f64 {
        self.load.compute() + self.exposed.iter().sum::<f64>() + self.launch + self.interference
    }
}

/// What of a collective of `time` stays beside computing of `beside`, of which it can use a share; and what computing loses.
fn hidden(time: f64, beside: f64, share: f64, f: &Framework) -> (f64, f64) {
    let behind = time.min(beside * share);
    (time - behind, behind * f.interference)
}

/// One microbatch's forward or backward through layers.
fn pass(loads: &[&Load], setting: &Setting, f: &Framework) -> Pass {
    let mut out = Pass::default();
    let (p, g, c) = (Traffic::Parameters as usize, Traffic::Gradients as usize, Traffic::Context as usize);
    for (i, l) in loads.iter().enumerate() {
        out.load.add(l);
        let t = &l.traffic;
        out.exposed[Traffic::Tensor as usize] += t[Traffic::Tensor as usize] * (1.0 - f.overlap_tensor);
        let (exchange, lost) = hidden(t[Traffic::Expert as usize] * f.overlap_experts, l.compute(), 1.0, f);
        out.exposed[Traffic::Expert as usize] += exchange + t[Traffic::Expert as usize] * (1.0 - f.overlap_experts);
        out.interference += lost;
        let (context, lost) = match setting.context_kind {
            Context::Ring => hidden(t[c], l.attention, 1.0, f),
            Context::Heads => (t[c], 0.0),
        };
        out.exposed[c] += context;
        out.interference += lost;
        // The first gather of a pass has nothing to hide behind.
        let both = t[p] + t[g];
        if both > 0.0 {
            let beside = if i == 0 && loads.len() > 1 { 0.0 } else { l.compute() };
            let (rest, lost) = hidden(both, beside, f.overlap_parameters, f);
            out.exposed[p] += rest * t[p] / both;
            out.exposed[g] += rest * t[g] / both;
            out.interference += lost;
        }
    }
    let device = out.load.compute() + out.exposed.iter().sum::<f64>();
    out.launch = (f.host.0 * out.load.kernels - device).max(0.0);
    out
}

/// Where the blocks begin among the layers of the model: at the first that is one by its name, or where they fit.
fn first_block(solved: &Solved, blocks: u32) -> u32 {
    let n = solved.depth.len() as u32;
    let rest = n.saturating_sub(blocks);
    let named = solved.depth.iter().position(|&l| solved.blocks[l as usize]);
    named.map_or(rest / 2, |at| at as u32).min(rest)
}

/// A layer's backward as the framework repeats the forward in it.
fn backward_of(solved: &Solved, l: usize, setting: &Setting, f: &Framework) -> Load {
    let [_, forward, plain, _] = &solved.parts.layers[l];
    let mut out = *plain;
    if setting.recompute == Recompute::Full && f.repeats_layers && solved.blocks[l] {
        // Without what our passes would repeat, and with the whole forward; parameters are gathered once for both.
        let again = &solved.parts.again[l];
        let parameters = Traffic::Parameters as usize;
        out.products += forward.products - again.products;
        out.attention += forward.attention - again.attention;
        out.streams += forward.streams - again.streams;
        out.kernels += forward.kernels - again.kernels;
        out.flops += forward.flops - again.flops;
        out.repeated += forward.flops - again.flops;
        for k in (0..out.traffic.len()).filter(|k| *k != parameters) {
            out.traffic[k] += forward.traffic[k] - again.traffic[k];
        }
    }
    if setting.recompute == Recompute::Selective && f.selective_is_attention {
        out.attention += forward.attention;
    }
    if setting.recompute == Recompute::Selective && solved.blocks[l] {
        out.products += forward.products * f.selective_products;
    }
    out
}

/// Blocks and what stands before and after them, cut into pieces of as many blocks each; of those left over, the middle pieces take one more each.
fn pieces(n: u32, begin: u32, blocks: u32, pieces: u32) -> Vec<(u32, u32)> {
    let blocks = blocks.min(n - begin);
    let (even, more) = (blocks / pieces, blocks % pieces);
    let start = (pieces - more) / 2;
    let mut at = begin;
    (0..pieces)
        .map(|i| {
            let from = if i == 0 { 0 } else { at };
            at += even + u32::from((start..start + more).contains(&i));
            (from, if i + 1 == pieces { n } else { at })
        })
        .collect()
}

/// Puts a solved mesh on its pipeline.
///
/// # Errors
/// `E0423` for a schedule that the setting's microbatches do not allow.
pub fn assemble(model: &Model, solved: &Solved, setting: &Setting, cluster: &Cluster, f: &Framework) -> Result<Prediction> {
    let (stages, chunks, m) = (setting.pipeline, setting.schedule.chunks(), setting.microbatches());
    if !setting.schedule.base().allows(stages, m) {
        return Err(Diagnostic::input("E0423", format!("{m} microbatches do not go through {stages} stages in this order"))
            .with_help("use `--schedule 1f1b`")
            .into());
    }
    let depth = &solved.depth;
    let backwards: Vec<Load> = (0..solved.parts.layers.len()).map(|l| backward_of(solved, l, setting, f)).collect();
    let cuts = pieces(depth.len() as u32, first_block(solved, model.limits.layers), model.limits.layers, stages * chunks);
    let loads = |(a, b): (u32, u32), phase: Phase| -> Vec<&Load> {
        depth[a as usize..b as usize].iter().map(|&l| &solved.parts.layers[l as usize][phase as usize]).collect()
    };
    let backward = |(a, b): (u32, u32)| -> Vec<&Load> { depth[a as usize..b as usize].iter().rev().map(|&l| &backwards[l as usize]).collect() };
    let place = |l: u32| depth.iter().position(|&d| d == l).unwrap_or(0) as u32;
    let devices = setting.devices() as f64;
    let slower = 1.0 + f.straggling * devices.log2();
    let mut list: Vec<Stage> = Vec::new();
    let mut passes: Vec<[Pass; 2]> = Vec::new();
    for (i, &(a, b)) in cuts.iter().enumerate() {
        let both = [pass(&loads((a, b), Phase::Forward), setting, f), pass(&backward((a, b)), setting, f)];
        let crossing = |l: u32| solved.parts.crossing[depth[l as usize] as usize];
        let times = StageTimes { forward: Seconds(both[0].time() * slower), backward: Seconds(both[1].time() * slower), ..StageTimes::default() };
        list.push(Stage {
            times,
            weights: Seconds(both[1].load.weights * slower),
            devices: solved.entry.mesh.devices(),
            send_forward: Seconds(if i + 1 < cuts.len() { crossing(b - 1).0 } else { 0.0 }),
            send_backward: Seconds(if i > 0 { crossing(a - 1).1 } else { 0.0 }),
        });
        passes.push(both);
    }
    // What a stage does once.
    let mut once: Vec<Once> = Vec::new();
    for s in 0..stages as usize {
        let own: Vec<(u32, u32)> = (0..chunks as usize).map(|c| cuts[c * stages as usize + s]).collect();
        let mine: Vec<&[Pass; 2]> = (0..chunks as usize).map(|c| &passes[c * stages as usize + s]).collect();
        let mut o = Once::default();
        for &cut in &own {
            for phase in [Phase::Before, Phase::After] {
                loads(cut, phase).into_iter().for_each(|l| o.load.add(l));
            }
        }
        for phase in [Phase::Before, Phase::After] {
            o.load.add(&solved.parts.everywhere[phase as usize]);
        }
        for x in &solved.entry.shared {
            let here = |l: u32| own.iter().any(|&(a, b)| (a..b).contains(&place(l)));
            if here(x.reader) != here(x.home) {
                o.load.traffic[Traffic::Gradients as usize] += 2.0 * x.send;
            }
        }
        let layers = own.iter().map(|c| c.1 - c.0).sum::<u32>().max(1);
        let forward: f64 = mine.iter().map(|p| p[0].load.compute()).sum();
        let back: f64 = mine.iter().map(|p| p[1].load.compute()).sum();
        o.settle(setting, f, cluster, forward, back, layers, &solved.parts.inputs, depth, &own);
        list[s].times.after = Seconds(o.time());
        once.push(o);
    }
    let pipeline = Pipeline { order: setting.schedule, microbatches: m, stages: &list, solo_speedup: cluster.solo_speedup };
    let step = duration(&pipeline);
    let work = |s: usize| -> f64 {
        (0..chunks as usize).map(|c| &list[c * stages as usize + s].times).map(|t| f64::from(m) * (t.forward.0 + t.backward.0)).sum::<f64>() + once[s].time()
    };
    let busiest = (0..stages as usize).max_by(|&a, &b| work(a).total_cmp(&work(b))).unwrap_or(0);
    let mean: f64 = (0..stages as usize).map(work).sum::<f64>() / f64::from(stages);
    let bill = bill(&(0..chunks as usize).map(|c| passes[c * stages as usize + busiest]).collect::<Vec<_>>(), &once[busiest], f64::from(m) * slower, step);
    let predictions: Vec<StagePrediction> = (0..stages as usize)
        .map(|s| {
            let own: Vec<(u32, u32)> = (0..chunks as usize).map(|c| cuts[c * stages as usize + s]).collect();
            let sum = |what: &dyn Fn(&StageTimes) -> f64| Seconds((0..chunks as usize).map(|c| what(&list[c * stages as usize + s].times)).sum());
            let in_flight = closed_form::in_flight(setting.schedule, s as u32, stages, m);
            StagePrediction {
                memory: memory(solved, setting, f, &own, in_flight, m, &place),
                times: StageTimes { before: Seconds(0.0), forward: sum(&|t| t.forward.0), backward: sum(&|t| t.backward.0), after: sum(&|t| t.after.0) },
                layers: own,
                in_flight,
            }
        })
        .collect();
    let (mut flops, mut repeated) = (0.0, 0.0);
    for p in passes.iter().flatten() {
        flops += p.load.flops;
        repeated += p.load.repeated;
    }
    let model_flops = model.flops.0 * setting.global_batch as f64 / step.0 / devices;
    let peak = cluster
        .device
        .products(match setting.arithmetic {
            Arithmetic::Eight => ir::DType::F8E4M3FN,
            Arithmetic::Half => ir::DType::F16,
            Arithmetic::AsTraced => ir::DType::BF16,
        })
        .0
        .0;
    let most = |what: &dyn Fn(&Kinds) -> f64| Bytes(predictions.iter().map(|s| what(&s.memory)).fold(0.0, f64::max) as u64);
    Ok(Prediction {
        step,
        bill,
        bubble: (1.0 - mean / step.0.max(f64::MIN_POSITIVE)).max(0.0),
        tokens_per_second: setting.global_batch as f64 * model.limits.sequence as f64 / step.0 / devices,
        model_flops,
        hardware_flops: model_flops * flops / (flops - repeated).max(1.0),
        mfu: model_flops / peak,
        allocated: most(&Kinds::allocated),
        memory: most(&Kinds::total),
        capacity: cluster.device.memory,
        stages: predictions,
    })
}

/// What a stage does once a step.
#[derive(Clone, Copy, Debug, Default)]
struct Once {
    load: Load,
    exposed: [f64; 5],
    update: f64,
    lost: f64,
}

impl Once {
    fn time(&self) -> f64 {
        self.update + self.exposed.iter().sum::<f64>() + self.lost
    }

    /// What stays exposed, and the update.
    fn settle(
        &mut self,
        setting: &Setting,
        f: &Framework,
        cluster: &Cluster,
        forward: f64,
        backward: f64,
        layers: u32,
        inputs: &[[f64; 3]],
        depth: &[u32],
        own: &[(u32, u32)],
    ) {
        let one = f64::from(layers);
        let overlapped = |time: f64, beside: f64, share: f64| -> (f64, f64) {
            if share == 0.0 {
                return (time, 0.0);
            }
            // The last bucket has nothing behind it.
            let (rest, lost) = hidden(time, beside, share, f);
            (rest.max(time / one), lost)
        };
        for (kind, beside, share) in [(Traffic::Gradients, backward, f.overlap_gradients), (Traffic::Parameters, forward, f.overlap_parameters)] {
            let (rest, lost) = overlapped(self.load.traffic[kind as usize], beside, share);
            self.exposed[kind as usize] = rest;
            self.lost += lost;
        }
        for kind in [Traffic::Tensor, Traffic::Context, Traffic::Expert] {
            self.exposed[kind as usize] = self.load.traffic[kind as usize];
        }
        self.update = self.load.compute();
        if setting.offload != Offload::None {
            let sum = |kind: usize| own.iter().flat_map(|&(a, b)| &depth[a as usize..b as usize]).map(|&l| inputs[l as usize][kind]).sum::<f64>();
            self.update = offloaded(setting.offload, sum(0), sum(1), f.gradient_wire, cluster);
        }
    }
}

/// Seconds of an update outside the device, for a device's bytes of parameters (4 an element) and of optimizer state. Gradients go down and new parameters, of 16
/// bits, come up over the device's own link, one after the other. The node's processors, which its devices share, read gradient, parameter and state and write
/// the latter two; drives read and write parameters and state beside that, in pieces, so that the slower of both counts.
fn offloaded(to: Offload, parameters: f64, state: f64, wire: f64, cluster: &Cluster) -> f64 {
    let elements = parameters / 4.0;
    let link = elements * (wire + 2.0) / cluster.device.host_bandwidth.0;
    let shared = f64::from(cluster.devices_per_node.min(cluster.devices()).max(1));
    let touched = elements * (4.0 + 2.0) + 2.0 * (parameters + state);
    let update = touched * shared / cluster.host_update.0;
    let stored = if to == Offload::Storage { 2.0 * (parameters + state) * shared / cluster.storage_bandwidth.0 } else { 0.0 };
    link + update.max(stored)
}

fn bill(passes: &[[Pass; 2]], once: &Once, times: f64, step: Seconds) -> Bill {
    let all: Vec<&Pass> = passes.iter().flatten().collect();
    let sum = |what: &dyn Fn(&Pass) -> f64| Seconds(all.iter().map(|p| what(p)).sum::<f64>() * times);
    let mut b = Bill {
        products: sum(&|p| p.load.products),
        attention: sum(&|p| p.load.attention),
        streams: sum(&|p| p.load.streams),
        launch: sum(&|p| p.launch),
        update: Seconds(once.update),
        ..Bill::default()
    };
    for k in 0..5 {
        b.exposed[k] = sum(&|p| p.exposed[k]) + Seconds(once.exposed[k]);
    }
    // What computing loses beside collectives is theirs.
    b.exposed[Traffic::Gradients as usize] += sum(&|p| p.interference) + Seconds(once.lost);
    let spent = b.products + b.attention + b.streams + b.launch + b.update + b.exposed.iter().copied().sum();
    b.bubble = Seconds((step.0 - spent.0).max(0.0));
    b
}

/// Bytes of a stage's device.
fn memory(solved: &Solved, setting: &Setting, f: &Framework, own: &[(u32, u32)], in_flight: f64, microbatches: u32, place: &dyn Fn(u32) -> u32) -> Kinds {
    let depth = &solved.depth;
    let mut k = Kinds::default();
    // What follows the last block goes back at once, however many chunks of the stage are in flight.
    let end = depth.iter().rposition(|&l| solved.blocks[l as usize]).map_or(depth.len(), |i| i + 1);
    for i in own.iter().flat_map(|&(a, b)| a as usize..b as usize) {
        let l = depth[i];
        let at_once = i >= end && matches!(setting.schedule, Order::OneFOneB | Order::Interleaved(_));
        let in_flight = if at_once { in_flight.min(1.0) } else { in_flight };
        let (cost, inputs) = (&solved.entry.layers[l as usize], &solved.parts.inputs[l as usize]);
        // What is made of parameters before the microbatches is a copy of them.
        let copies = (cost.resident - inputs.iter().sum::<f64>()).max(0.0);
        // Parameters in full precision go with the state, where there is a copy of them to compute with.
        k.parameters += copies + if setting.offload != Offload::None && copies > 0.0 { 0.0 } else { inputs[0] };
        k.optimizer += if setting.offload == Offload::None { inputs[1] } else { 0.0 };
        k.gradients += cost.gradients * f.gradient_kept / 4.0;
        let forward = &solved.parts.layers[l as usize][Phase::Forward as usize];
        // What is not in blocks and multiplies makes logits.
        let logits = if solved.blocks[l as usize] { 0.0 } else { forward.largest * f.logit_bytes };
        // Of what is repeated the results are not kept.
        let again = if setting.recompute == Recompute::Selective && solved.blocks[l as usize] { forward.results * f.selective_products } else { 0.0 };
        let kept_scores = if setting.recompute == Recompute::None { forward.scores } else { 0.0 };
        k.activations += ((cost.saved - again).max(0.0) + kept_scores) * in_flight;
        k.temporaries = k.temporaries.max(cost.transient + forward.scores - kept_scores + logits + inputs[2] * f64::from(microbatches) / 2.0);
    }
    for x in &solved.entry.shared {
        let here = |l: u32| own.iter().any(|&(a, b)| (a..b).contains(&place(l)));
        if here(x.reader) && !here(x.home) {
            k.parameters += x.bytes;
            k.gradients += x.bytes * f.gradient_kept / 2.0;
        }
    }
    if setting.offload == Offload::None {
        // Two moments of four bytes an element.
        k.temporaries = k.temporaries.max(k.optimizer / 8.0 * f.update_bytes);
    }
    k.overhead = f.overhead.0 as f64 + f.fragmentation * k.allocated();
    k
}

/// Names of orders on the command line.
pub fn order_name(order: Order) -> String {
    match order {
        Order::GPipe => "gpipe".into(),
        Order::OneFOneB => "1f1b".into(),
        Order::Interleaved(v) => format!("interleaved, {v} chunks"),
        Order::ZeroBubble => "zero-bubble".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offloaded_update_is_as_slow_as_the_slowest_way() {
        let cluster = Cluster::parse("dgx-a100:1").expect("a preset");
        // A billion parameters on a device, with two moments.
        let of = |to, cluster: &Cluster| offloaded(to, 4e9, 8e9, 2.0, cluster);
        let link = 1e9 * 4.0 / cluster.device.host_bandwidth.0;
        let update = 8.0 * 1e9 * 30.0 / 120e9;
        assert!((of(Offload::Host, &cluster) / (link + update) - 1.0).abs() < 1e-9);
        let stored = 8.0 * 24e9 / 25e9;
        assert!((of(Offload::Storage, &cluster) / (link + stored) - 1.0).abs() < 1e-9);
        let fast = Cluster { storage_bandwidth: cost_model::BytesPerSecond(1e15), ..cluster.clone() };
        assert!((of(Offload::Storage, &fast) / of(Offload::Host, &cluster) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn pieces_take_equally_many_blocks_and_the_ends_what_is_around_them() {
        assert_eq!(pieces(10, 1, 8, 4), vec![(0, 3), (3, 5), (5, 7), (7, 10)]);
        assert_eq!(pieces(10, 1, 8, 1), vec![(0, 10)]);
        assert_eq!(pieces(10, 1, 8, 3), vec![(0, 4), (4, 7), (7, 10)]);
    }
}
