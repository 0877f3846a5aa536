//! Plans on GPUs, with a GPU in software that does what streams and events allow in any order: losses are the CPU's, and what cannot run is refused.

mod support;

use cuda::communicate::Collectives;
use cuda::driver::{Card, Driver};
use cuda::emulated::{Behaviour, EmulatedGpu};
use cuda::machine::{Machine, Settings};
use ir::plan::Plan;
use ir::program::InstructionKind;
use ir::{DType, Diagnostic, Result};
use runtime::tensor::Tensor;
use runtime::{Options, Session};
use std::sync::Arc;
use support::emulator::compile_for_both;
use support::{arguments, bundled, losses, losses_of};

/// Opens a plan on one emulated GPU.
fn open(plan: &Arc<Plan>, behaviour: Behaviour) -> Result<(Session, Arc<EmulatedGpu>, Vec<Diagnostic>)> {
    open_with(plan, behaviour, Settings::default())
}

fn open_with(plan: &Arc<Plan>, behaviour: Behaviour, settings: Settings) -> Result<(Session, Arc<EmulatedGpu>, Vec<Diagnostic>)> {
    open_on(plan, behaviour, settings, 1)
}

/// Opens a plan on several emulated GPUs of one machine.
fn open_on(plan: &Arc<Plan>, behaviour: Behaviour, settings: Settings, cards: usize) -> Result<(Session, Arc<EmulatedGpu>, Vec<Diagnostic>)> {
    let gpus = EmulatedGpu::cards(behaviour, cards);
    let gpu = gpus[0].clone();
    let machine = Machine::new(plan, gpus.into_iter().map(|g| g as Arc<dyn Driver>).collect(), settings)?;
    let options = Options::default();
    let (fabric, devices) = (machine.fabric(options.timeout)?, machine.clone());
    let session = Session::open_with_on(plan, &options, &fabric, move |program, seat| devices.device(program, seat))?;
    Ok((session, gpu, machine.notes()))
}

fn seeded(seed: u64) -> Behaviour {
    Behaviour { seed, ..Behaviour::default() }
}

fn close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs())
}

/// Losses under some settings are the CPU's, whatever order the GPU does things in.
fn check(name: &str, settings: &[&str], seeds: u64, steps: usize) {
    let model = bundled(name);
    for flags in settings {
        let plan = compile_for_both(&model, flags);
        let given = arguments(&model, &plan);
        let want = losses(&plan, &given, steps);
        for seed in 0..seeds {
            let (session, gpu, _) = open(&plan, seeded(seed)).unwrap_or_else(|e| panic!("{name} {flags}: {e}"));
            let got = losses_of(session, &plan, &given, steps);
            assert!(close(&got, &want), "{name} {flags}, seed {seed}: losses {got:?}, the CPU has {want:?}");
            let [launches, products] = gpu.executed();
            assert!(launches > 0 && products > 0, "{name} {flags}: the GPU did {launches} launches and {products} products");
            let [captured, replayed] = gpu.graphs();
            assert!(captured > 0 && replayed > captured, "{name} {flags}: {captured} graphs were launched {replayed} times");
        }
    }
}

const SETTINGS: [&str; 8] = [
    "--cluster local:1",
    "--strategy data",
    "--strategy zero3",
    "--strategy zero2 --microbatches 2",
    "--mesh 2x2",
    "--stages 2 --microbatches 4 --schedule gpipe",
    "--stages 2 --microbatches 4 --schedule 1f1b",
    "--cluster local:2 --stages 2 --microbatches 4 --schedule interleaved",
];

#[test]
fn the_mlp_trains_on_a_gpu_in_any_order() {
    check("mlp", &SETTINGS, 4, 4);
}

#[test]
fn a_small_gpt_trains_on_a_gpu_in_any_order() {
    check("gpt_tiny", &SETTINGS, 1, 3);
}

/// Ranks with a card each exchange by NCCL, or by the runtime's own kernels where that is asked for: then with the bits of ranks that share a card.
#[test]
fn ranks_with_a_card_each_exchange_by_nccl() {
    let model = bundled("mlp");
    for flags in SETTINGS {
        let plan = compile_for_both(&model, flags);
        let (given, cards) = (arguments(&model, &plan), plan.ranks() as usize);
        let want = losses(&plan, &given, 4);
        let collectives = plan.programs.iter().flat_map(|p| p.phases.iter().flatten()).filter(|i| matches!(i.kind, InstructionKind::Collective { .. })).count();
        for seed in 0..3 {
            let (session, gpu, _) = open_on(&plan, seeded(seed), Settings::default(), cards).unwrap_or_else(|e| panic!("{flags}: {e}"));
            let got = losses_of(session, &plan, &given, 4);
            assert!(close(&got, &want), "{flags}, seed {seed}: losses {got:?}, the CPU has {want:?}");
            assert_eq!(gpu.exchanged() > 0, collectives > 0, "{flags}: {} exchanges", gpu.exchanged());
        }
        let run = |cards| {
            let own = Settings { collectives: Collectives::Own, ..Settings::default() };
            let (session, gpu, _) = open_on(&plan, seeded(1), own, cards).unwrap_or_else(|e| panic!("{flags}: {e}"));
            let got = losses_of(session, &plan, &given, 4);
            assert_eq!(gpu.exchanged(), 0, "{flags}");
            got
        };
        assert_eq!(run(cards), run(1), "{flags}");
    }
    let plan = compile_for_both(&model, "--strategy data");
    let asked = Settings { collectives: Collectives::Nccl, ..Settings::default() };
    let text = open_with(&plan, seeded(0), asked).map(drop).unwrap_err().to_string();
    assert!(text.contains("E0409") && text.contains("a card for every rank"), "{text}");
}

fn scaled(tensor: &Tensor, by: f64) -> Arc<Tensor> {
    let values: Vec<f32> = tensor.values().expect("numbers").into_iter().map(|v| (v * by) as f32).collect();
    Arc::new(Tensor::f32(&tensor.ty.shape, &values).expect("a tensor of the same shape"))
}

/// Graphs change when kernels are begun and nothing else: losses are the same bits, also of batches that differ from step to step.
#[test]
fn graphs_compute_what_single_launches_compute() {
    let model = bundled("mlp");
    for flags in SETTINGS {
        let plan = compile_for_both(&model, flags);
        let given = arguments(&model, &plan);
        let loss = plan.interface.loss.expect("a loss");
        let batch: Vec<u32> = plan.interface.batch.iter().map(|(i, _)| *i).filter(|i| given[i].ty.dtype == DType::F32).collect();
        assert!(!batch.is_empty(), "{flags}: no batch of floats");
        let run = |graphs| {
            let (mut session, gpu, _) = open_with(&plan, seeded(3), Settings { graphs, ..Settings::default() }).unwrap_or_else(|e| panic!("{e}"));
            session.set_inputs(&given).unwrap_or_else(|e| panic!("{e}"));
            let losses: Vec<f64> = (0..5u8)
                .map(|step| {
                    let now = batch.iter().map(|i| (*i, scaled(&given[i], 1.0 + f64::from(step) / 4.0))).collect();
                    let report = session.step(&now).unwrap_or_else(|e| panic!("{e}"));
                    report.scalars.iter().find(|s| s.0 == loss).expect("the loss is printed").2
                })
                .collect();
            (losses, gpu.graphs(), gpu.executed())
        };
        let (with, [captured, replayed], done) = run(true);
        let (without, none, done_without) = run(false);
        assert_eq!(with, without, "{flags}");
        assert_eq!((none, done), ([0, 0], done_without), "{flags}");
        assert!(captured > 0 && replayed > captured, "{flags}: {captured} graphs were launched {replayed} times");
        // On one device a step waits for nobody.
        if flags == "--cluster local:1" {
            assert_eq!((captured, replayed), (1, 4));
        }
    }
}

/// Metrics read gradients in the middle of a step, which must then be computed.
#[test]
fn a_read_in_the_middle_of_a_step_sees_what_was_computed() {
    let model = bundled("mlp");
    for flags in ["--cluster local:1", "--strategy data", "--stages 2 --microbatches 4 --schedule 1f1b"] {
        let plan = compile_for_both(&model, flags);
        let given = arguments(&model, &plan);
        let norms = |mut session: Session| {
            session.measure().unwrap_or_else(|e| panic!("{e}"));
            session.set_inputs(&given).unwrap_or_else(|e| panic!("{e}"));
            (0..4)
                .flat_map(|_| {
                    session.step(&Default::default()).unwrap_or_else(|e| panic!("{e}"));
                    let measured = session.measured().unwrap_or_else(|e| panic!("{e}"));
                    measured.expect("steps are measured").ranks.into_iter().flat_map(|r| r.squares).collect::<Vec<f64>>()
                })
                .collect::<Vec<f64>>()
        };
        let want = norms(Session::open(&plan, &Options::default()).unwrap_or_else(|e| panic!("{e}")));
        assert!(want.iter().any(|s| *s > 0.0), "{flags}: no gradient was read");
        for seed in 0..4 {
            let got = norms(open(&plan, seeded(seed)).unwrap_or_else(|e| panic!("{e}")).0);
            assert!(close(&got, &want), "{flags}, seed {seed}: {got:?}, the CPU has {want:?}");
        }
    }
}

/// The order is only right because of the events: a GPU that does not heed them gives other losses.
#[test]
fn a_missing_event_shows() {
    let model = bundled("mlp");
    for flags in ["--strategy data", "--stages 2 --microbatches 4 --schedule 1f1b"] {
        let plan = compile_for_both(&model, flags);
        let given = arguments(&model, &plan);
        let want = losses(&plan, &given, 3);
        let wrong = (0..8).filter(|&seed| {
            let (session, ..) = open(&plan, Behaviour { deaf: true, ..seeded(seed) }).unwrap_or_else(|e| panic!("{e}"));
            !close(&losses_of(session, &plan, &given, 3), &want)
        });
        assert!(wrong.count() > 0, "{flags}: without events nothing is wrong");
    }
}

/// Nodes of graphs are in order only because it was captured: a GPU that forgets it gives other losses.
#[test]
fn an_order_that_is_not_captured_shows() {
    let model = bundled("mlp");
    for flags in ["--cluster local:1", "--strategy data"] {
        let plan = compile_for_both(&model, flags);
        let given = arguments(&model, &plan);
        let want = losses(&plan, &given, 4);
        let wrong = (0..4).filter(|&seed| {
            let (session, ..) = open(&plan, Behaviour { unordered: true, ..seeded(seed) }).unwrap_or_else(|e| panic!("{e}"));
            !close(&losses_of(session, &plan, &given, 4), &want)
        });
        assert!(wrong.count() > 0, "{flags}: in any order nothing is wrong");
    }
}

/// What `bandwidth` measures: every kernel of the plan once, and a copy.
#[test]
fn kernels_are_measured_beside_a_copy() {
    let plan = compile_for_both(&bundled("mlp"), "--cluster local:1");
    let gpu = EmulatedGpu::new(seeded(0));
    let report = cuda::bandwidth::measure(&plan, &(gpu.clone() as Arc<dyn Driver>), 3, 1 << 16).unwrap_or_else(|e| panic!("{e}"));
    let started = |i: &&ir::program::Instruction| matches!(i.kind, InstructionKind::Kernel { .. });
    let instructions = plan.programs.iter().flat_map(|p| p.phases.iter().flatten()).filter(started).count();
    assert_eq!(report.rows.iter().map(|r| r.runs).sum::<usize>(), instructions);
    assert_eq!(report.copy, (2 << 16, 1e-6));
    // On the emulated GPU a launch takes a microsecond, and every kernel was launched once more than it was timed.
    let microseconds: u64 = report.rows.iter().map(|r| (r.seconds * 1e6).round() as u64).sum();
    assert_eq!(gpu.executed()[0], 4 * microseconds);
    assert!(report.rows.iter().all(|r| r.bytes > 0 && !r.source.is_empty()), "{report:?}");
}

#[test]
fn what_the_host_does_is_said() {
    let plan = compile_for_both(&bundled("gpt_tiny"), "--cluster local:1");
    let (_, _, notes) = open(&plan, seeded(0)).unwrap_or_else(|e| panic!("{e}"));
    assert!(notes.is_empty(), "all of it is done by the GPU: {notes:?}");
    // Library ops that the plan has no entries for.
    let mut without = Plan::clone(&plan);
    without.code.iter_mut().for_each(|c| c.library.clear());
    let (_, _, notes) = open(&Arc::new(without), seeded(0)).unwrap_or_else(|e| panic!("{e}"));
    let text = notes.iter().map(|n| format!("{} {}", n.code, n.message)).collect::<String>();
    assert!(text.contains("W0677") && ["gather (", "scatter (", "attention (", "attention_grad ("].iter().all(|op| text.contains(op)), "{text}");
}

#[test]
fn cards_that_do_not_suit_are_refused_with_a_way_out() {
    let plan = compile_for_both(&bundled("mlp"), "--cluster local:2");
    let refused = |plan: &Arc<Plan>, change: fn(&mut Card)| {
        let mut behaviour = Behaviour::default();
        change(&mut behaviour.card);
        open(plan, behaviour).map(drop).unwrap_err().to_string()
    };
    let text = refused(&plan, |c| c.capability = (7, 5));
    assert!(text.contains("E0672") && text.contains("sm_75") && text.contains("--target cuda:sm_80"), "{text}");
    let text = refused(&plan, |c| c.version = (10, 2));
    assert!(text.contains("E0671") && text.contains("CUDA 10.2") && text.contains("update the NVIDIA driver"), "{text}");
    let text = refused(&plan, |c| c.memory = (16 << 30, 1 << 20));
    assert!(text.contains("E0673") && text.contains("--memory-limit") && text.contains("nvidia-smi"), "{text}");
    let mut later = Plan::clone(&plan);
    for code in later.code.iter_mut().filter(|c| c.target == "cuda") {
        code.level = "sm_90".into();
    }
    let text = refused(&Arc::new(later), |_| {});
    assert!(text.contains("E0672") && text.contains("is sm_80"), "{text}");
    let mut none = Plan::clone(&plan);
    none.code.retain(|c| c.target != "cuda");
    let text = refused(&Arc::new(none), |_| {});
    assert!(text.contains("E0607") && text.contains("--target cuda"), "{text}");
    // Code for an older level serves later cards.
    assert!(open(&plan, Behaviour { card: Card { capability: (9, 0), ..Behaviour::default().card }, ..seeded(0) }).is_ok());
}
