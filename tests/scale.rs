//! Planning at scale: the composed answer against the flat problem, against every hand-made setting, and against itself with other threads and depths.
#![allow(clippy::print_stdout, reason = "tests say what they saw")]

use compiler::batch::phases;
use compiler::pipeline::{Options, Timings};
use compiler::shard::strategy::Context;
use compiler::stop::Stop;
use compiler::tables::entry::{Bench, Prepared, StageLimit, anything};
use compiler::tables::plan::{Shallow, plan};
use compiler::tables::search::Effort;
use cost_model::{AnalyticModel, Cluster};
use ir::plan::{Plan, Recompute, Request};
use ir::program::ScheduleKind;
use ir::{Bytes, Mesh};
use models::{Config, Precision, Settings, Traced};

fn config(layers: u32) -> Config {
    let text = format!(r#"{{"model_type": "gpt2", "vocab_size": 8192, "n_positions": 256, "n_embd": 512, "n_layer": {layers}, "n_head": 8}}"#);
    Config::read("config.json", &text).expect("the keys are those of the family")
}

fn traced(layers: u32, depth: Option<u32>) -> Traced {
    let settings = Settings { global_batch: 64, sequence: Some(256), precision: Precision::Bf16, depth, ..Settings::default() };
    models::trace(&config(layers), &settings).expect("it is a step")
}

fn planned(layers: u32, cluster: &str, limit: Option<Bytes>, effort: &Effort) -> Plan {
    let traced = traced(layers, Some(4));
    let stacks: Vec<(String, u32, u32)> = traced.runs.iter().map(|r| (r.prefix.clone(), r.depth_traced, r.depth_full)).collect();
    let options = Options {
        request: Request { strategy: "auto".into(), memory_limit: limit, ..Request::default() },
        overrides: Default::default(),
        cluster: Cluster::parse(cluster).expect("a preset"),
        level: "x86-64-v3".into(),
        code: false,
        stop: Stop::after(None),
    };
    plan(&Shallow { module: &traced.module, stacks: &stacks }, &options, effort, &mut Timings::default()).expect("it has a plan")
}

/// Two to six layers, whole in the graph: tied and flat are the same problem, and what the tied one loses is inside the gap that both report.
#[test]
fn the_composed_answer_is_the_flat_one() {
    let prices = AnalyticModel::new(Cluster::parse("dgx-a100:1").expect("a preset"));
    for layers in 2..=6u32 {
        let traced = traced(layers, None);
        let canonical = compiler::canonical::run(&traced.module, &Default::default()).expect("it is canonical");
        let analysis = phases::analyse(&canonical.graph, &canonical.interface);
        let tied = Prepared::new(&canonical, &analysis, 2, Recompute::None, &|_, _, copies| copies, false);
        let flat = tied.untied();
        assert_eq!(!tied.tie.runs.is_empty(), layers >= 4, "four layers that are alike are a run");
        for sizes in [&[4u32][..], &[2, 2]] {
            let mesh = Mesh::new(sizes);
            let cx = Context { step: &tied.step, groups: &tied.groups, mesh: &mesh, model: &prices, stored: &tied.stored };
            let (mut a, mut b) = (Bench::new(&tied, &cx), Bench::new(&flat, &cx));
            let weights = [1.0, 2.0, 2.0, 1.0];
            let free = a.solve(&anything, weights, &[], None, 200_000_000).expect("it has a solution");
            let kept: f64 = tied.depth().iter().map(|&l| &free.layers[l as usize]).map(|l| l.resident + l.gradients + l.saved).sum();
            for share in [None, Some(0.95), Some(0.85)] {
                let count = |p: &Prepared| -> Vec<f64> {
                    let depth = p.depth();
                    (0..p.layers.layers.len() as u32).map(|l| depth.iter().filter(|&&d| d == l).count() as f64).collect()
                };
                let (in_tied, in_flat) = (count(&tied), count(&flat));
                let limit = share.map(|s| s * kept);
                let of = |layers| limit.map(|limit| StageLimit { layers, in_flight: 1, gradients: true, limit });
                let t = a.solve(&anything, weights, of(&in_tied).as_slice(), None, 200_000_000);
                let Ok(t) = t else { continue };
                let f = b.solve(&anything, weights, of(&in_flat).as_slice(), Some(&t.picks), 200_000_000).expect("the tied solution is one");
                let (tied, flat) = (t.report.objective.0, f.report.objective.0);
                println!("{layers} layers on {sizes:?} with {share:?}: tied {tied:.6} s, flat {flat:.6} s, bound {:.6} s", f.report.bound.0);
                // Costs are rounded to picoseconds, once for all copies or once for each.
                assert!(flat <= tied * (1.0 + 1e-6));
                // Memory is given out in whole layers: beside the gaps, a tied layer may be a layer's share off.
                let slack = if share.is_some() { 1.0 / f64::from(layers) } else { 1e-3 };
                assert!(tied <= flat * (1.0 + t.report.gap + f.report.gap + slack), "{layers} layers on {sizes:?} with {share:?}: {tied} against {flat}");
            }
        }
    }
}

/// However the grid is searched, no hand-made setting is better than the plan; and the quick search finds what the exhaustive one does.
#[test]
fn no_hand_made_setting_is_better() {
    for (cluster, limit) in [("dgx-a100:2", None), ("dgx-a100:1", Some(Bytes(1 << 29)))] {
        let quick = planned(24, cluster, limit, &Effort { free: 6, ..Effort::default() });
        let all = planned(24, cluster, limit, &Effort { free: 6, exhaustive: true, ..Effort::default() });
        let grid = all.by_hand.expect("some hand-made setting fits");
        println!("{cluster}: plan {}, exhaustive plan {}, best by hand {grid}", quick.schedule.step, all.schedule.step);
        assert!(quick.schedule.step <= grid && all.schedule.step <= grid);
    }
}

/// Between what a plan needs that recomputes nothing and one that recomputes everything, only some layers recompute: as few as fit, so that more memory is
/// never slower.
#[test]
fn only_as_many_layers_recompute_as_memory_asks_for() {
    let traced = traced(24, Some(4));
    for (stages, mesh, microbatches) in [(4u32, vec![2u32], 8u32), (8, vec![1], 16)] {
        let request = |recompute, limit| Request {
            stages: Some(stages),
            mesh: mesh.clone(),
            microbatches: Some(microbatches),
            schedule: Some(ScheduleKind::OneFOneB),
            memory_limit: limit,
            recompute,
            ..Request::default()
        };
        let planned = |recompute, limit| without_code(&traced, Cluster::parse("dgx-a100:1").expect("a preset"), request(recompute, limit), &Effort::default());
        let need = |plan: &Plan| plan.stages.iter().map(|s| s.memory.arena.0).max().expect("there is a stage");
        let dearer = |plan: &Plan| (0..).zip(&plan.layers).filter(|(_, l)| l.recompute > Recompute::None).map(|(l, _)| plan.stands_for(l)).sum::<u32>();
        let (none, full) = (planned(Some(Recompute::None), None), planned(Some(Recompute::Full), None));
        let (most, least) = (need(&none), need(&full));
        assert!(least < most && none.schedule.step < full.schedule.step);
        let mut before = f64::INFINITY;
        let mut mixtures = 0;
        for eighths in [2, 4, 6] {
            let limit = Bytes(least + (most - least) * eighths / 8);
            let plan = planned(None, Some(limit));
            let (some, step) = (dearer(&plan), plan.schedule.step);
            println!(
                "{stages} stages, {limit}: {some} of {} layers recompute, {step}; all {}, none {}",
                plan.depth.len(),
                full.schedule.step,
                none.schedule.step
            );
            assert!(need(&plan) <= limit.0 && step <= full.schedule.step && step.0 <= before);
            mixtures += u32::from(some > 0 && some < 24);
            before = step.0;
        }
        // Where there is more than one device, sharding otherwise may cost less than recomputing.
        assert!(mixtures > 0 || mesh != [1], "some layers recompute and others do not");
    }
}

/// Threads do not change a plan; depth changes neither its size nor which layers are told apart.
#[test]
fn plans_depend_on_the_model_alone() {
    let effort = |threads| Effort { free: 3, threads, ..Effort::default() };
    let one = planned(12, "dgx-a100:1", None, &effort(1));
    assert_eq!(one.to_bytes(), planned(12, "dgx-a100:1", None, &effort(2)).to_bytes());
    let deep = planned(48, "dgx-a100:1", None, &effort(2));
    assert_eq!(one.layers.len(), deep.layers.len());
    assert_eq!(deep.depth.len(), one.depth.len() + 36);
    assert_eq!(deep.stages.last().map(|s| s.layers.1), Some(deep.depth.len() as u32));
}

/// A published model on its cluster, with the stages, mesh and microbatches that do well for it, so that a test can afford all of them.
struct Large {
    config: &'static str,
    cluster: &'static str,
    batch: u64,
    sequence: u64,
    stages: u32,
    mesh: &'static [u32],
    microbatches: u32,
}

const LARGE: &[Large] = &[
    Large { config: "llama3_8b", cluster: "dgx-h100:8", batch: 512, sequence: 8192, stages: 1, mesh: &[8, 8], microbatches: 16 },
    Large { config: "gpt_39b", cluster: "p3.16xlarge:8", batch: 1024, sequence: 1024, stages: 16, mesh: &[2, 2], microbatches: 512 },
    Large { config: "gpt3_175b", cluster: "dgx-a100:128", batch: 1536, sequence: 2048, stages: 8, mesh: &[32, 4], microbatches: 48 },
    Large { config: "llama3_405b", cluster: "dgx-h100:2048", batch: 2048, sequence: 8192, stages: 32, mesh: &[32, 16], microbatches: 64 },
    Large { config: "mixtral_8x22b", cluster: "dgx-h100:16", batch: 512, sequence: 4096, stages: 8, mesh: &[4, 4], microbatches: 64 },
    Large { config: "gpt_1t", cluster: "dgx-a100:384", batch: 3072, sequence: 2048, stages: 32, mesh: &[12, 8], microbatches: 256 },
];

fn read_config(name: &str) -> Config {
    let path = format!("{}/examples/configs/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the configuration is in the repository");
    Config::read(&path, &text).expect("the keys are those of a family")
}

/// Plans a traced step without code, as `compile --config … --no-code` does.
fn without_code(traced: &Traced, cluster: Cluster, request: Request, effort: &Effort) -> Plan {
    let stacks: Vec<(String, u32, u32)> = traced.runs.iter().map(|r| (r.prefix.clone(), r.depth_traced, r.depth_full)).collect();
    let request = Request { strategy: "auto".into(), ..request };
    let options = Options { request, overrides: Default::default(), cluster, level: "x86-64-v3".into(), code: false, stop: Stop::after(None) };
    plan(&Shallow { module: &traced.module, stacks: &stacks }, &options, effort, &mut Timings::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn large(model: &Large) -> Traced {
    let settings = Settings { global_batch: model.batch, sequence: Some(model.sequence), precision: Precision::Bf16, depth: Some(4), ..Settings::default() };
    models::trace(&read_config(model.config), &settings).expect("it is a step")
}

/// Every published model has a plan on its cluster that fits, and that no hand-made setting beats.
#[test]
fn every_large_model_has_a_plan() {
    for model in LARGE {
        let begin = std::time::Instant::now();
        let request = Request { stages: Some(model.stages), mesh: model.mesh.to_vec(), microbatches: Some(model.microbatches), ..Request::default() };
        let cluster = Cluster::parse(model.cluster).expect("a preset");
        let limit = cluster.usable_memory();
        let plan = without_code(&large(model), cluster, request, &Effort { free: 2, ..Effort::default() });
        let grid = plan.by_hand.map_or(f64::INFINITY, |g| g.0);
        println!("{}: step {}, by hand {grid} s, planned in {:.1} s", model.config, plan.schedule.step, begin.elapsed().as_secs_f64());
        assert!(grid >= plan.schedule.step.0, "{}: a hand-made setting is faster", model.config);
        assert!(plan.stages.iter().all(|s| s.memory.arena <= limit), "{}: a stage does not fit", model.config);
        // Devices may have several pieces of the model each.
        assert!((plan.stages.len() as u32).is_multiple_of(model.stages));
        assert_eq!(plan.stages.last().map(|s| s.layers.1), Some(plan.depth.len() as u32), "{}: all layers are in stages", model.config);
    }
}

/// Planning takes as long for sixteen thousand devices as for sixty-four.
#[test]
fn planning_does_not_depend_on_ranks() {
    let traced = traced(24, Some(4));
    let seconds = |nodes: u32| {
        let request = Request { stages: Some(4), mesh: vec![nodes / 4, 8], microbatches: Some(1), recompute: Some(Recompute::None), ..Request::default() };
        let begin = std::time::Instant::now();
        let cluster = Cluster::parse(&format!("dgx-h100:{nodes}")).expect("a preset");
        let plan = without_code(&traced, cluster, request, &Effort { free: 1, ..Effort::default() });
        assert_eq!(plan.stages.iter().map(|s| s.devices.len() as u32).sum::<u32>(), 8 * nodes);
        begin.elapsed().as_secs_f64()
    };
    let few = seconds(8).min(seconds(8));
    let many = seconds(2048).min(seconds(2048));
    println!("64 devices {few:.2} s, 16384 devices {many:.2} s");
    // Other programs may take the machine's time meanwhile.
    assert!(many < 4.0 * few + 1.0, "16384 devices take {many:.2} s and 64 take {few:.2} s");
}

const UNLIKE: &str = r#"
base = "dgx-a100:1"
[[nodes]]
count = 1
[[nodes]]
count = 1
device = "V100-SXM2-32GB"
"#;

/// Nodes of two kinds: every stage lies in one kind, the faster kind gets more layers, and the whole is faster than if all were the weakest.
#[test]
fn stages_are_planned_for_their_own_kind_of_node() {
    let traced = traced(24, Some(4));
    let cluster = Cluster::from_toml("unlike.toml", UNLIKE).expect("it is a cluster");
    let request = || Request { microbatches: Some(16), recompute: Some(Recompute::None), ..Request::default() };
    let effort = Effort { free: 1, ..Effort::default() };
    let unlike = without_code(&traced, cluster.clone(), request(), &effort);
    let weakest = without_code(&traced, Cluster { kinds: vec![], ..cluster }, request(), &effort);
    println!("unlike {}, all as the weakest {}", unlike.schedule.step, weakest.schedule.step);
    assert!(unlike.schedule.step < weakest.schedule.step);
    let note = unlike.notes.iter().find(|n| n.code == "N0414").expect("it says which stages lie where");
    println!("{}", note.message);
    let node = |s: &ir::plan::StagePlan| s.devices.iter().map(|d| d / 8).collect::<std::collections::BTreeSet<_>>();
    assert!(unlike.stages.iter().all(|s| node(s).len() == 1), "no stage spans nodes of unlike kinds");
    let layers = |n: u32| -> u32 { unlike.stages.iter().filter(|s| node(s).contains(&n)).map(|s| s.layers.1 - s.layers.0).sum() };
    assert!(layers(0) > layers(1), "the A100s have {} layers and the V100s {}", layers(0), layers(1));
}
