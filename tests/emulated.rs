//! The code that plans hold for GPUs computes the step: executed by the emulator, judged as plans on the CPU are.

mod support;

use ir::interp::Tensor;
use ir::plan::{Code, Plan};
use runtime::device::emulated::Emulation;
use std::process::Command;
use std::sync::Arc;
use support::emulator::{CHECKS, compile_for_both, emulate};
use support::verify::{Judged, Oracle, results_of};
use support::{Model, STRATEGIES, arguments, bundled, exported, losses, losses_of};

/// Beside [`STRATEGIES`]: searched plans on several meshes, strategies of one axis, chunks, and recomputation.
const SETTINGS: [&str; 16] = [
    "--cluster local:1",
    "--cluster local:2",
    "--cluster local:4",
    "--cluster local:8",
    "--mesh 2x2",
    "--strategy data",
    "--strategy tensor",
    "--strategy zero1",
    "--strategy zero2",
    "--strategy zero3",
    "--strategy zero2 --microbatches 2",
    "--stages 2 --microbatches 4 --schedule gpipe",
    "--stages 2 --microbatches 4 --schedule 1f1b",
    "--cluster local:2 --stages 2 --microbatches 4 --schedule interleaved",
    "--stages 2 --mesh 2 --microbatches 4 --schedule interleaved",
    "--strategy zero3 --recompute full",
];

/// Bits of all results.
fn bits(results: &[Vec<Tensor>]) -> Vec<Vec<u8>> {
    results.iter().flatten().map(Tensor::to_bytes).collect()
}

fn within(what: &str, judged: &[Judged]) {
    for j in judged {
        let worst = j.judgement.worst().expect("there are results");
        assert!(j.judgement.within(), "{what}: after {} steps {} is {:.1} times as far off as allowed", j.steps, worst.name, worst.ratio());
    }
}

/// Runs a model under settings: as many losses as there are, as on the CPU, and every result after one and three steps, with every check.
fn check(model: &Model, settings: &[&str]) {
    let steps = [1, 3];
    let (mut found, mut first) = (Vec::new(), None);
    for flags in settings {
        let what = format!("{} {flags}", model.path.display());
        let plan = compile_for_both(model, flags);
        let given = arguments(model, &plan);
        let open = |how| emulate(&plan, how).unwrap_or_else(|e| panic!("{what}: {e}"));
        let count = model.losses.len();
        let got = losses_of(open(Emulation::default()), &plan, &given, count);
        for (step, ((got, cpu), xla)) in got.iter().zip(losses(&plan, &given, count)).zip(&model.losses).enumerate() {
            assert!((got - cpu).abs() <= 1e-5 * cpu.abs(), "{what}: loss {got} in step {step}, the CPU has {cpu}");
            assert!((got - xla).abs() <= 1e-4 * xla.abs(), "{what}: loss {got} in step {step}, XLA has {xla}");
        }
        found.push(results_of(open(CHECKS), &plan, &given, &steps).unwrap_or_else(|e| panic!("{what}: {e}")));
        first.get_or_insert((plan, given));
    }
    let (plan, given) = first.expect("there is a setting");
    let judged = Oracle::new(&plan.source, &plan.interface, &given).and_then(|o| o.judge(&steps, &found)).unwrap_or_else(|e| panic!("{e}"));
    for (flags, judged) in settings.iter().zip(judged) {
        within(&format!("{} {flags}", model.path.display()), &judged);
    }
}

#[test]
fn the_mlp_computes_its_step() {
    check(&bundled("mlp"), &SETTINGS);
    if let Some(model) = exported("mlp") {
        check(&model, &["--cluster local:1", "--cluster local:4", "--strategy zero3", "--stages 2 --microbatches 4"]);
    }
}

#[test]
fn a_small_gpt_computes_its_step_in_every_setting() {
    check(&bundled("gpt_tiny"), &SETTINGS);
}

#[test]
fn a_small_gpt_computes_its_step_under_every_strategy() {
    check(&bundled("gpt_tiny"), &STRATEGIES);
}

#[test]
fn uneven_heads_masks_and_other_interfaces_compute_their_step() {
    check(&bundled("gpt_6heads"), &["--cluster local:4", "--strategy tensor", "--strategy zero3", "--cluster local:2 --stages 2 --microbatches 3"]);
    check(&bundled("mlp_masked"), &["--cluster local:1 --microbatches 4", "--cluster local:2 --stages 2 --microbatches 2"]);
    for name in ["mlp_loss_first", "mlp_swapped_moments", "mlp_undonated", "block_tensor"] {
        check(&bundled(name), &["--cluster local:2"]);
    }
}

/// What a step gives does not depend on how many threads execute blocks (with checks it is one), and repeats bit for bit.
#[test]
fn results_repeat_bit_for_bit_on_any_number_of_threads() {
    let model = bundled("gpt_tiny");
    for flags in ["--cluster local:1", "--strategy zero3"] {
        let plan = compile_for_both(&model, flags);
        let given = arguments(&model, &plan);
        let run = |how| bits(&results_of(emulate(&plan, how).unwrap_or_else(|e| panic!("{e}")), &plan, &given, &[2]).unwrap_or_else(|e| panic!("{e}")));
        let once = run(Emulation::default());
        assert!(once == run(Emulation::default()) && once == run(CHECKS), "{flags}");
    }
}

/// A GPU's approximate instructions are not the emulator's: whatever they give within their bounds must do.
#[test]
fn approximate_instructions_may_deviate_within_their_bounds() {
    for model in [bundled("mlp"), bundled("gpt_tiny")] {
        let plan = compile_for_both(&model, "--strategy megatron --stages 1 --mesh 2x2");
        let given = arguments(&model, &plan);
        let run = |perturb| {
            let session = emulate(&plan, Emulation { checks: false, perturb }).unwrap_or_else(|e| panic!("{e}"));
            results_of(session, &plan, &given, &[1, 3]).unwrap_or_else(|e| panic!("{e}"))
        };
        let found: Vec<_> = [None, Some(1), Some(2), Some(3)].map(run).into();
        let judged = Oracle::new(&plan.source, &plan.interface, &given).and_then(|o| o.judge(&[1, 3], &found)).unwrap_or_else(|e| panic!("{e}"));
        judged.iter().for_each(|j| within(&model.path.display().to_string(), j));
        let approximate = String::from_utf8_lossy(&gpu_code(&plan).object).contains(".approx");
        assert_eq!(bits(&found[0]) != bits(&found[1]), approximate, "{}: seeds matter where something is approximate", model.path.display());
    }
}

#[test]
fn exported_models_have_their_losses() {
    for (name, steps, tolerance) in [("gpt_4l", 2, 1e-4), ("moe", 2, 1e-4), ("flax_lm", 2, 1e-4), ("resnet", 1, 1e-4)] {
        let Some(model) = exported(name) else { return };
        for flags in ["--cluster local:1", "--cluster local:4"] {
            let plan = compile_for_both(&model, flags);
            let given = arguments(&model, &plan);
            let session = emulate(&plan, Emulation::default()).unwrap_or_else(|e| panic!("{name} {flags}: {e}"));
            for (step, (got, want)) in losses_of(session, &plan, &given, steps).iter().zip(&model.losses).enumerate() {
                assert!((got - want).abs() <= tolerance * want.abs(), "{name} {flags}: loss {got} in step {step}, XLA has {want}");
            }
        }
    }
}

/// Runs the command; its exit code and everything it printed.
fn shardwright(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_shardwright")).args(arguments).output().expect("the command starts");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap_or(-1), text)
}

#[test]
fn the_command_line_chooses_the_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = bundled("mlp").path;
    let (model, inputs) = (model.display().to_string(), model.with_extension("safetensors").display().to_string());
    let [gpu, cpu] = ["cuda:sm_80", "cpu"].map(|target| {
        let path = folder.path().join(target.replace(':', "-")).display().to_string();
        let (code, text) = shardwright(&["compile", &model, "--cluster", "local:2", "--target", target, "-o", &path]);
        assert_eq!(code, 0, "{text}");
        path
    });
    let emulated = ["--inputs", &inputs, "--device", "ptx-emulator", "--emulator-checks", "--emulator-perturb", "7"];
    let (code, text) = shardwright(&[&["verify", &gpu], &emulated[..]].concat());
    assert!(code == 0 && text.contains("after 1 step  7 of 7 tensors within") && text.contains("after 3 steps  7 of 7"), "{text}");
    let (code, text) = shardwright(&[&["run", &gpu, "--zeros", "--steps", "2"], &emulated[..]].concat());
    assert!(code == 0 && text.contains("step 1  loss 0.541296"), "{text}");
    for (arguments, status, parts) in [
        (["run", &gpu, "--device", "cpu"].as_slice(), 1, ["E0607", "cuda (sm_80)", "--target cpu"]),
        (&["verify", &cpu, "--device", "ptx-emulator"], 1, ["E0607", "cpu (x86-64-v3)", "--target cuda:sm_80"]),
        (&["run", &cpu, "--emulator-checks"], 2, ["E0409", "--emulator-checks", "--device ptx-emulator"]),
        (&["run", &cpu, "--emulator-perturb", "7"], 2, ["E0409", "--emulator-perturb", "--device ptx-emulator"]),
    ] {
        let (code, text) = shardwright(arguments);
        assert!(code == status && parts.iter().all(|p| text.contains(p)), "{arguments:?} ends with {code}: {text}");
    }
}

/// The code of a plan for GPUs.
fn gpu_code(plan: &Plan) -> &Code {
    plan.code.iter().find(|c| c.target == "cuda").expect("it was made")
}

/// A plan whose PTX is another text.
fn with_text(plan: &Plan, text: &str) -> Arc<Plan> {
    let mut plan = plan.clone();
    let code = plan.code.iter_mut().find(|c| c.target == "cuda").expect("it was made");
    code.object = text.as_bytes().to_vec();
    Arc::new(plan)
}

/// A line of PTX that was changed: which, of which entry, and what it became.
struct Change {
    entry: String,
    line: usize,
    text: String,
}

/// Lines that `change` changes, each alone.
fn changes(text: &str, change: impl Fn(&str) -> Option<String>) -> Vec<Change> {
    let mut entry = "";
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(name) = line.trim().strip_prefix(".visible .entry ") {
            entry = name.trim_end_matches('(');
        }
        if let Some(changed) = change(line) {
            let text = text.lines().enumerate().map(|(n, l)| if n == number { changed.as_str() } else { l }).collect::<Vec<_>>().join("\n");
            all.push(Change { entry: entry.into(), line: number + 1, text });
        }
    }
    all
}

/// Bytes that a global access of this line has, and the line with its address as many bytes further on.
fn off_by_one(line: &str, access: &str) -> Option<String> {
    if !line.contains(access) {
        return None;
    }
    let width = [".b8", ".b16", ".b32", ".b64"].iter().position(|w| line.contains(w)).map(|n| 1 << n)?;
    let vector = if line.contains(".v4") { 4 } else { 1 + usize::from(line.contains(".v2")) };
    let (before, rest) = line.split_once('[')?;
    let (address, after) = rest.split_once(']')?;
    let (register, offset) = address.split_once('+').unwrap_or((address, "0"));
    Some(format!("{before}[{register}+{}]{after}", offset.parse::<usize>().ok()? + width * vector))
}

/// What a run of changed code ends with.
fn outcome(plan: &Plan, given: &runtime::Arguments, change: &Change) -> Result<Vec<Vec<Tensor>>, String> {
    let plan = with_text(plan, &change.text);
    let session = emulate(&plan, CHECKS).map_err(|e| e.to_string())?;
    results_of(session, &plan, given, &[1]).map_err(|e| e.to_string())
}

#[test]
fn wrong_kernels_are_caught() {
    let model = bundled("gpt_tiny");
    let plan = compile_for_both(&model, "--cluster local:2 --strategy tensor");
    let given = arguments(&model, &plan);
    let text = String::from_utf8_lossy(&gpu_code(&plan).object).into_owned();
    let oracle = Oracle::new(&plan.source, &plan.interface, &given).unwrap_or_else(|e| panic!("{e}"));

    // Without a barrier between stores to shared memory and loads of what other threads stored, a kernel races. (Barriers that only keep a row from being
    // overwritten before all have read it are idle where it is not updated in place.)
    let barriers = changes(&text, |l| l.contains("bar.sync").then(|| l.replace("bar.sync", "// bar.sync")));
    let shares = |change: &Change| {
        text.lines().take(change.line - 1).collect::<Vec<_>>().iter().rev().take_while(|l| !l.contains("bar.sync")).any(|l| l.contains("st.shared"))
    };
    let barriers: Vec<_> = barriers.into_iter().filter(shares).collect();
    assert!(!barriers.is_empty());
    for change in &barriers {
        let Err(failed) = outcome(&plan, &given, change) else { panic!("{} without the barrier of line {} passes", change.entry, change.line) };
        // The first warp reads before the others write, or where they have written a block before.
        let told = ["missing barrier", "read of uninitialised memory"].iter().any(|what| failed.contains(&format!("{what} in {},", change.entry)));
        assert!(failed.contains("E0643") && told, "{failed}");
        assert!(failed.contains("PTX line"), "{failed}");
    }

    // A store that is one element (or vector) further on leaves its buffer where that ends; or what it leaves out is read as nothing has written it; or
    // results are wrong.
    let mut named = 0;
    let stores = changes(&text, |l| off_by_one(l, "st.global"));
    for change in &stores {
        match outcome(&plan, &given, change) {
            Err(failed) => {
                let here = failed.contains(&format!(" in {}, block", change.entry)) && failed.contains(&format!("PTX line {}: a store", change.line));
                assert!(failed.contains("E0643") && (here || failed.contains("read of uninitialised memory in ")), "line {}: {failed}", change.line);
                named += usize::from(here);
            }
            Ok(results) => {
                let judged = oracle.judge(&[1], &[vec![results[0].clone()]]).unwrap_or_else(|e| panic!("{e}"));
                assert!(!judged[0][0].judgement.within(), "{} stores one further on in line {}, and nothing tells", change.entry, change.line);
            }
        }
    }
    assert!(4 * named >= 3 * stores.len(), "{named} of {} stores are named with their line", stores.len());
}
