//! Tables against the flat problem: where both can be solved, tying identical layers costs nothing beyond the reported gap.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "tests say what they leave out")]

use compiler::batch::phases;
use compiler::shard::strategy::Context;
use compiler::tables::entry::{Bench, Entry, Prepared, StageLimit, anything};
use cost_model::{AnalyticModel, Cluster};
use ir::Mesh;
use std::path::Path;

const WORK: u64 = 400_000_000;

fn prepared(path: &Path, microbatches: u32) -> Prepared {
    let imported = compiler::import::import(path).expect("the file is a step");
    let canonical = compiler::canonical::run(&imported.module, &Default::default()).expect("it is canonical");
    let analysis = phases::analyse(&canonical.graph, &canonical.interface);
    Prepared::new(&canonical, &analysis, microbatches, ir::plan::Recompute::None, &|_, _, copies| copies, true)
}

/// Solves a mesh with and without ties; a limit is a share of what the tied solution without one needs.
fn both(p: &Prepared, prices: &AnalyticModel, mesh: &[u32], share: Option<f64>) -> Option<(Entry, Entry)> {
    let mesh = Mesh::new(mesh);
    let cx = Context { step: &p.step, groups: &p.groups, mesh: &mesh, model: prices, stored: &p.stored };
    let phases = [1.0, f64::from(p.step.microbatches), f64::from(p.step.microbatches), 1.0];
    let all = vec![1.0; p.layers.layers.len()];
    let depth = p.depth();
    let stands: Vec<f64> = (0..p.layers.layers.len() as u32).map(|l| depth.iter().filter(|&&d| d == l).count() as f64).collect();
    let mut bench = Bench::new(p, &cx);
    let tied = bench.solve(&anything, phases, &[], None, WORK).expect("it has a solution");
    let loose = p.untied();
    let mut flat_bench = Bench::new(&loose, &cx);
    let Some(share) = share else {
        let flat = flat_bench.solve(&anything, phases, &[], None, WORK).expect("it has a solution");
        return Some((tied, flat));
    };
    let kept: f64 = depth.iter().map(|&l| tied.layers[l as usize]).map(|l| l.resident + l.gradients + l.saved).sum();
    let limit = kept * share;
    let of = |layers| StageLimit { layers, in_flight: 1, gradients: true, limit };
    let tied = bench.solve(&anything, phases, &[of(&stands)], None, WORK).ok()?;
    let flat = flat_bench.solve(&anything, phases, &[of(&all)], Some(&tied.picks), WORK).expect("the tied solution is one");
    Some((tied, flat))
}

fn compare(path: &Path, cluster: &str, meshes: &[&[u32]], shares: &[Option<f64>]) {
    let p = prepared(path, 1);
    assert!(!p.tie.runs.is_empty(), "{}: no run of identical layers was found among {:?}", path.display(), p.layers.layers);
    let prices = AnalyticModel::new(Cluster::parse(cluster).expect("a preset"));
    for mesh in meshes {
        for &share in shares {
            let Some((tied, flat)) = both(&p, &prices, mesh, share) else { continue };
            let (t, f) = (tied.report.objective.0, flat.report.objective.0);
            println!("{} {mesh:?} {share:?}: tied {t:.6} flat {f:.6} bound {:.6}", path.display(), flat.report.bound.0);
            // The flat problem may choose otherwise in every layer, so it is no slower; tied is no slower than what is proven for it.
            assert!(f <= t * (1.0 + 1e-9) + 1e-9, "{mesh:?}: flat {f} is above tied {t}");
            let (slack, gap) = (if share.is_some() { 0.02 } else { 1e-3 }, flat.report.gap.max(tied.report.gap));
            assert!(t <= f * (1.0 + gap + slack), "{mesh:?} with {share:?} of the memory: tied {t} is above flat {f} by more than the gap {gap}");
        }
    }
}

#[test]
fn tied_layers_are_as_good_as_free_ones() {
    let Ok(folder) = std::env::var("SHARDWRIGHT_DATA") else {
        println!("left out: SHARDWRIGHT_DATA is not set");
        return;
    };
    let inputs = Path::new(&folder).join("inputs");
    compare(&inputs.join("gpt2_small.mlir"), "dgx-a100:1", &[&[8], &[2, 2]], &[None, Some(0.97), Some(0.9)]);
}
