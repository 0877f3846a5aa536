//! `predict`: fixed settings by the command, their bill, their refusals.

use serde_json::Value;
use std::path::PathBuf;
use std::process::Output;

const GPT: &str = r#"{"model_type":"gpt2","n_embd":1024,"n_layer":24,"n_head":16,"vocab_size":51200,"n_positions":1024}"#;

fn config(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("config.json");
    std::fs::write(&path, text).expect("a temporary file is written");
    path
}

fn run(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = config(&folder, GPT);
    std::process::Command::new(env!("CARGO_BIN_EXE_shardwright")).arg("predict").arg("--config").arg(&path).args(arguments).output().expect("the command runs")
}

fn object(arguments: &[&str]) -> Value {
    let out = run(&[arguments, &["--json"]].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("one object")
}

fn number(v: &Value, key: &str) -> f64 {
    v[key].as_f64().unwrap_or_else(|| panic!("{key} is a number in {v}"))
}

#[test]
fn the_bill_adds_up_to_the_step() {
    for setting in [
        &["--tensor", "2", "--pipeline", "2", "--micro-batch", "4", "--global-batch", "64"][..],
        &["--tensor", "4", "--sequence-parallel", "--zero", "1", "--micro-batch", "2", "--global-batch", "32", "--recompute", "selective"],
        &["--zero", "3", "--micro-batch", "2", "--global-batch", "32", "--framework", "fsdp-2023", "--recompute", "full"],
        &["--pipeline", "4", "--chunks", "2", "--micro-batch", "1", "--global-batch", "16", "--framework", "megatron-core"],
        &["--context", "2", "--zero", "1", "--micro-batch", "1", "--global-batch", "16", "--framework", "megatron-core"],
    ] {
        let v = object(&[&["--cluster", "dgx-a100:1"], setting].concat());
        let parts = v["parts_seconds"].as_object().expect("parts");
        let sum: f64 = parts.values().map(|p| p.as_f64().unwrap_or_else(|| p.as_object().map_or(0.0, |o| o.values().filter_map(Value::as_f64).sum()))).sum();
        let step = number(&v, "step_seconds");
        assert!((sum - step).abs() <= 1e-6 * step, "{setting:?}: {sum} of {step}");
        assert!(number(&v, "hardware_flops_per_device") >= number(&v, "model_flops_per_device") * 0.999);
        assert!(number(&v, "mfu") > 0.02 && number(&v, "mfu") < 0.8, "{v}");
    }
}

#[test]
fn zero_stages_keep_what_their_paper_says() {
    let stages: Vec<Value> =
        ["0", "1", "2", "3"].map(|z| object(&["--cluster", "dgx-a100:1", "--zero", z, "--micro-batch", "2", "--global-batch", "32"])).to_vec();
    let bytes = |v: &Value, kind: &str| v["stages"][0]["memory_bytes"][kind].as_f64().expect("bytes");
    // Mixed precision: 4 bytes of a parameter and 2 of its copy, 8 of moments, 4 of a gradient.
    let n = number(&stages[0], "parameters");
    let near = |got: f64, per: f64| assert!((got / (n * per) - 1.0).abs() < 0.05, "{got} for {} parameters of {per} bytes", n);
    near(bytes(&stages[0], "parameters"), 6.0);
    near(bytes(&stages[0], "optimizer"), 8.0);
    near(bytes(&stages[0], "gradients"), 4.0);
    near(bytes(&stages[1], "parameters"), 2.0 + 4.0 / 8.0);
    near(bytes(&stages[1], "optimizer"), 8.0 / 8.0);
    near(bytes(&stages[2], "gradients"), 4.0 / 8.0);
    near(bytes(&stages[3], "parameters"), 6.0 / 8.0);
}

#[test]
fn megatrons_names_are_the_same_setting() {
    let short = object(&[
        "--cluster",
        "dgx-a100:2",
        "--tensor",
        "2",
        "--pipeline",
        "2",
        "--chunks",
        "2",
        "--micro-batch",
        "1",
        "--global-batch",
        "32",
        "--zero",
        "1",
        "--recompute",
        "selective",
    ]);
    let long = object(&[
        "--cluster",
        "dgx-a100:2",
        "--tensor-model-parallel-size",
        "2",
        "--pipeline-model-parallel-size",
        "2",
        "--num-layers-per-virtual-pipeline-stage",
        "6",
        "--micro-batch-size",
        "1",
        "--global-batch-size",
        "32",
        "--use-distributed-optimizer",
        "--recompute-activations",
    ]);
    assert_eq!(short, long);
}

#[test]
fn impossible_settings_are_refused_with_the_nearest() {
    for (setting, said) in [
        (&["--pipeline", "32"][..], "`--pipeline 24` is the deepest"),
        (&["--tensor", "3", "--data", "1"], "`--tensor 2` is the nearest"),
        (&["--micro-batch", "2", "--global-batch", "33"], "`--global-batch 64` is the nearest"),
        (&["--tensor", "4", "--data", "4"], "`--data 8` fits the others"),
        (&["--framework", "megatron"], "megatron-core"),
    ] {
        let out = run(&[&["--cluster", "dgx-a100:4"], setting].concat());
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{setting:?}: {text}");
        assert!(text.contains(said), "{setting:?}: {text}");
    }
}
