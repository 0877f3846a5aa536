//! What the report on kernels says that a plan's GPU kernels move is what the emulator counts, and what they move is near the least.

mod support;

use compiler::batch::state::Overrides;
use compiler::lower::regions::Region;
use compiler::lower::report::{self, RegionRow};
use compiler::pipeline::{self, Options, Timings};
use cost_model::Cluster;
use ir::kernel::NodeKind;
use ir::plan::Plan;
use ir::program::{InstructionKind, KernelId, Phase};
use ptx::{Grid, Memory, Module, SECTOR};
use std::collections::BTreeMap;
use support::{Model, bundled, exported};

/// Device memory is given out in whole lines.
#[derive(Clone, Copy)]
#[repr(C, align(256))]
struct Line {
    _bytes: [u8; 256],
}

fn lines(bytes: u64) -> Vec<Line> {
    vec![Line { _bytes: [0; 256] }; bytes.div_ceil(256).max(1) as usize]
}

/// A plan without code, with the regions of its stages.
fn planned(model: &Model, flags: &str) -> (Plan, Vec<Region>) {
    let (cluster, request) = support::request(flags);
    let module = compiler::import::import(&model.path).unwrap_or_else(|e| panic!("{e}")).module;
    let options = Options {
        request,
        overrides: Overrides::default(),
        cluster: Cluster::parse(&cluster).unwrap_or_else(|e| panic!("{e}")),
        level: "cuda:sm_80".into(),
        code: false,
        stop: Default::default(),
    };
    pipeline::compile_in_regions(&module, &options, &mut Timings::default()).unwrap_or_else(|e| panic!("{} {flags}: {e}", model.path.display()))
}

/// What every launch of a plan's kernels moves on the emulator against what is said of it; the number of launches.
fn compare(model: &Model, plan: &Plan) -> usize {
    let code = compiler::lower::code::make(&plan.kernels, &[], "cuda:sm_80").unwrap_or_else(|e| panic!("{}: {e}", model.path.display()));
    let code = &code[0];
    let module = Module::parse(&String::from_utf8_lossy(&code.object)).unwrap_or_else(|e| panic!("{e}"));
    let mut compared = 0;
    for (id, kernel) in plan.kernels.iter() {
        let launches = &code.launches[id];
        let said = mlir::cuda_traffic(&kernel.symbol(), kernel).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(launches.len(), said.len(), "{}", kernel.symbol());
        let mut buffers: Vec<Vec<Line>> = kernel.params.iter().map(|p| lines(p.elements * p.dtype.bytes())).collect();
        let mut scratch = lines(launches.iter().map(|l| l.scratch).max().unwrap_or(0));
        let mut memory = Memory::new();
        let mut params: Vec<u64> = buffers.iter_mut().map(|b| memory.register_slice("argument", b).address()).collect();
        params.extend((0..kernel.scalars).map(|_| 0));
        let scratch = memory.register_slice("scratch", &mut scratch).address();
        // Where computed indices lead depends on data.
        let gathers = kernel.nodes.values().any(|n| matches!(n.kind, NodeKind::Gather { .. }));
        for (launch, said) in launches.iter().zip(said) {
            let grid = Grid { grid: launch.grid, block: launch.block, dynamic_shared: launch.shared };
            let given: Vec<u64> = params.iter().copied().chain((launch.scratch > 0).then_some(scratch)).collect();
            let entry = module.entry(&launch.entry).expect("an entry for every launch");
            let options = ptx::Options { distinct: true, ..ptx::Options::default() };
            let counts = ptx::launch(&module, entry, grid, &given, &memory, &options).unwrap_or_else(|e| panic!("{e}"));
            let place = || format!("{}: {said:?}, and {counts:?}", launch.entry);
            assert!(gathers || said.read == counts.loads.distinct * SECTOR, "{}", place());
            assert_eq!(said.written, counts.stores.distinct * SECTOR, "{}", place());
            // What is walked again is asked for again.
            assert!(gathers || said.read + said.again <= counts.loads.sectors * SECTOR, "{}", place());
            compared += 1;
        }
    }
    compared
}

/// Every kernel of every program is in the regions, as often as it runs.
fn check_regions(plan: &Plan, regions: &[Region]) {
    let mut runs: BTreeMap<KernelId, u64> = BTreeMap::new();
    for program in &plan.programs {
        for phase in Phase::ALL {
            let times = if matches!(phase, Phase::Forward | Phase::Backward) { u64::from(plan.schedule.microbatches) } else { 1 };
            for instruction in program.phase(phase) {
                if let InstructionKind::Kernel { kernel, .. } = instruction.kind {
                    *runs.entry(kernel).or_default() += times;
                }
            }
        }
    }
    let mut found: BTreeMap<KernelId, u64> = BTreeMap::new();
    for &(kernel, times) in regions.iter().flat_map(|r| &r.kernels) {
        *found.entry(kernel).or_default() += times;
    }
    assert_eq!(found, runs);
}

fn total(rows: &[RegionRow]) -> (f64, f64) {
    (rows.iter().map(|r| r.moved.0 as f64).sum(), rows.iter().map(|r| r.least.0 as f64).sum())
}

fn small_gpts() -> Vec<Model> {
    [Some(bundled("gpt_tiny")), exported("gpt_4l")].into_iter().flatten().collect()
}

#[test]
fn what_a_plan_moves_is_what_the_emulator_counts() {
    for model in small_gpts() {
        let (plan, _) = planned(&model, "--cluster local:1");
        let compared = compare(&model, &plan);
        assert!(compared >= 20, "{}: {compared} launches", model.path.display());
    }
}

#[test]
fn regions_have_every_kernel_of_a_plan() {
    for flags in [
        "--cluster local:1",
        "--cluster local:4 --stages 1 --mesh 2x2 --microbatches 2",
        "--stages 2 --microbatches 4",
        "--strategy interleaved --stages 2 --microbatches 4",
    ] {
        let (plan, regions) = planned(&bundled("gpt_tiny"), flags);
        check_regions(&plan, &regions);
        let rows = report::regions(&plan.kernels, &regions).unwrap_or_else(|e| panic!("{e}"));
        // What enters and leaves a region of one stage must move, whoever writes the kernels.
        for r in rows.iter().filter(|r| r.ops > 0 && r.kernels > 0) {
            assert!(r.least.0 > 0 && r.moved.0 > 0, "{flags}: {r:?}");
        }
    }
}

/// Three layers on 32 rows of 32, 64, 64 and 16: what enters and leaves each region, counted by hand.
#[test]
fn what_a_region_must_move_is_what_enters_and_leaves_it() {
    let (_, regions) = planned(&bundled("mlp"), "--cluster local:1");
    let mut least: Vec<u64> = regions.iter().map(|r| r.least.0).filter(|&bytes| bytes > 100).collect();
    least.sort_unstable();
    let (hidden, last) = (32 * 64 * 4, 32 * 16 * 4);
    // A product's result, the bias, the gradient from above; the next product's operand, the gradient below, the new bias.
    let layer = 4 * hidden + 2 * 64 * 4;
    // A product's result, the bias and the labels; the gradient, the new bias, and the sum of squares.
    let loss = 3 * last + 2 * 16 * 4 + 4;
    // A weight, its gradient, the new weight.
    let update = |rows: u64, columns: u64| 3 * rows * columns * 4;
    let mut expected = vec![layer, layer, loss, update(32, 64), update(64, 64), update(64, 16)];
    expected.sort_unstable();
    assert_eq!(least, expected, "{regions:#?}");
}

/// The parts of a tied embedding's gradient are added where the embedding is updated: its region is one kernel that moves the least.
#[test]
fn a_gradient_of_parts_is_added_in_the_update() {
    let (plan, regions) = planned(&bundled("gpt_tiny"), "--cluster local:1");
    let rows = report::regions(&plan.kernels, &regions).unwrap_or_else(|e| panic!("{e}"));
    // Updates are fourteen ops; this one has a sum before them.
    let tied = rows.iter().filter(|r| r.ops == 15).collect::<Vec<_>>();
    let [tied] = tied[..] else { panic!("{rows:#?}") };
    assert_eq!(tied.kernels, 1, "{tied:?}");
    assert!(tied.moved.0 <= tied.least.0 + 256, "{tied:?}");
}

#[test]
fn gpt2_small_moves_little_more_than_the_least() {
    let Some(model) = exported("gpt2_small") else { return };
    let (plan, regions) = planned(&model, "--cluster local:1");
    check_regions(&plan, &regions);
    let rows = report::regions(&plan.kernels, &regions).unwrap_or_else(|e| panic!("{e}"));
    let (moved, least) = total(&rows);
    assert!(moved <= 1.3 * least, "{:.3} times the least: {rows:#?}", moved / least);
}
