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

/// A small model with experts in the shape of Qwen3's.
const EXPERTS: &str = r#"{"model_type":"qwen3_moe","hidden_size":1024,"moe_intermediate_size":512,"num_hidden_layers":4,"num_attention_heads":16,
"num_key_value_heads":4,"head_dim":128,"vocab_size":32000,"num_experts":16,"num_experts_per_tok":2,"expert_capacity_factor":1.0}"#;

fn with_experts(arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = config(&folder, EXPERTS);
    let setting = ["--cluster", "dgx-h100:1", "--micro-batch", "2", "--global-batch", "32", "--seq", "1024", "--framework", "megatron-core", "--json"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_shardwright"));
    let out = command.arg("predict").arg("--config").arg(&path).args(setting).args(arguments).output().expect("the command runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("one object")
}

#[test]
fn tokens_go_to_experts_and_back_in_each_direction() {
    let v = with_experts(&["--expert", "4", "--zero", "1", "--collectives"]);
    let list = v["collectives"].as_array().expect("collectives");
    let exchanges: Vec<&Value> = list.iter().filter(|c| c["for"] == "expert" && c["layer"] == 1 && c["kind"] == "AllToAll").collect();
    // Dispatch and combine, forward and back; a device sends its rows: 2 sequences of 1024 tokens to 2 experts each, of 1024 elements of 2 bytes.
    for phase in ["forward", "backward"] {
        let of: Vec<&&Value> = exchanges.iter().filter(|c| c["phase"] == phase).collect();
        assert_eq!(of.len(), 2, "{phase}: {exchanges:?}");
        for c in of {
            assert_eq!((c["devices"].as_u64(), c["bytes"].as_u64()), (Some(4), Some(2 * 1024 * 2 * 1024 * 2)), "{c}");
        }
    }
}

#[test]
fn experts_are_kept_once_by_the_devices_that_they_are_spread_over() {
    let parameters = |v: &Value| v["stages"][0]["memory_bytes"]["parameters"].as_f64().expect("bytes");
    let whole = with_experts(&["--zero", "0"]);
    let spread = with_experts(&["--zero", "0", "--expert", "8"]);
    // Four layers of 16 experts of three matrices, 4 bytes of each element and 2 of its copy.
    let experts = 4.0 * 16.0 * 3.0 * 1024.0 * 512.0 * 6.0;
    let saved = parameters(&whole) - parameters(&spread);
    assert!((saved / (experts * 7.0 / 8.0) - 1.0).abs() < 0.01, "{saved} of {experts}");
    // As many devices of experts when half of them are tensor ranks.
    let tensor = with_experts(&["--zero", "0", "--expert", "8", "--tensor", "2", "--sequence-parallel", "--expert-tensor", "1"]);
    assert!(parameters(&tensor) < parameters(&spread));
    assert!(parameters(&tensor) > experts / 8.0);
    // Two tensors of ones and zeros a layer are not kept: 2 x 1024 x 16 x 128 elements of 2 bytes each.
    let activations = |v: &Value| v["stages"][0]["memory_bytes"]["activations"].as_f64().expect("bytes");
    let by_products = with_experts(&["--zero", "0", "--assume", "permutes=0"]);
    let ones = 4.0 * 2.0 * f64::from(2 * 1024 * 16 * 128 * 2);
    assert!(activations(&by_products) - activations(&whole) > 0.9 * ones, "{} {}", activations(&by_products), activations(&whole));
}

#[test]
fn state_that_is_kept_elsewhere_leaves_the_device_and_takes_its_time() {
    let of = |more: &[&str]| object(&[&["--cluster", "dgx-a100:1", "--zero", "1", "--micro-batch", "4", "--global-batch", "32"], more].concat());
    let (device, host, drives) = (of(&[]), of(&["--offload", "cpu"]), of(&["--offload", "nvme"]));
    let update = |v: &Value| v["parts_seconds"]["update"].as_f64().expect("seconds");
    assert!(update(&device) < update(&host) && update(&host) < update(&drives), "{} {} {}", update(&device), update(&host), update(&drives));
    let bytes = |v: &Value, kind: &str| v["stages"][0]["memory_bytes"][kind].as_f64().expect("bytes");
    assert_eq!((bytes(&host, "optimizer"), bytes(&drives, "optimizer")), (0.0, 0.0));
    let n = number(&host, "parameters");
    assert!((bytes(&host, "parameters") / (2.0 * n) - 1.0).abs() < 0.05, "the copy to compute with alone stays");
    let out = run(&["--cluster", "dgx-a100:1", "--offload", "tape"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("`none`, `cpu` or `nvme`"));
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
