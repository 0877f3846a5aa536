//! Plans on GPUs, with a GPU in software that does what streams and events allow in any order: losses are the CPU's, and what cannot run is refused.

mod support;

use cuda::driver::{Card, Driver};
use cuda::emulated::{Behaviour, EmulatedGpu};
use cuda::machine::{Machine, Settings};
use ir::plan::Plan;
use ir::{Diagnostic, Result};
use runtime::{Options, Session};
use std::sync::Arc;
use support::emulator::compile_for_both;
use support::{arguments, bundled, losses, losses_of};

/// Opens a plan on one emulated GPU.
fn open(plan: &Arc<Plan>, behaviour: Behaviour) -> Result<(Session, Arc<EmulatedGpu>, Vec<Diagnostic>)> {
    let gpu = EmulatedGpu::new(behaviour);
    let machine = Machine::new(plan, vec![gpu.clone() as Arc<dyn Driver>], Settings::default())?;
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
    check("mlp", &SETTINGS, 4, 3);
}

#[test]
fn a_small_gpt_trains_on_a_gpu_in_any_order() {
    check("gpt_tiny", &SETTINGS, 2, 2);
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

#[test]
fn what_the_host_does_is_said() {
    let plan = compile_for_both(&bundled("gpt_tiny"), "--cluster local:1");
    let (_, _, notes) = open(&plan, seeded(0)).unwrap_or_else(|e| panic!("{e}"));
    let text = notes.iter().map(|n| format!("{} {}", n.code, n.message)).collect::<String>();
    assert!(text.contains("W0677") && text.contains("gather (") && text.contains("attention ("), "{text}");
    let plan = compile_for_both(&bundled("mlp"), "--cluster local:1");
    let (_, _, notes) = open(&plan, seeded(0)).unwrap_or_else(|e| panic!("{e}"));
    assert!(notes.is_empty(), "{notes:?}");
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
