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
