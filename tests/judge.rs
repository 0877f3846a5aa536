//! `judge`: rows to predictions, and what the report says of them.

use serde_json::Value;
use std::process::{Command, Output};

const HEADER: &str = "row_id,framework,model,n_layers,hidden,n_heads,n_kv_heads,ffn_hidden,vocab,seq_len,gpu,gpu_mem_gb,n_gpus,gpus_per_node,interconnect,\
global_batch_seqs,micro_batch_seqs,tp,pp,dp,cp,ep,sp,zero_stage,shard_mode,vpp,recompute,precision,iter_time_s,peak_mem_gb,oom";

fn judge(text: &str, more: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("steps.csv");
    std::fs::write(&path, text).expect("a temporary file is written");
    Command::new(env!("CARGO_BIN_EXE_shardwright")).arg("judge").arg(&path).args(more).output().expect("the command runs")
}

fn row(id: &str, tensor: u32, data: u32, recompute: &str, seconds: &str, memory: &str, oom: &str) -> String {
    format!(
        "{id},Megatron-LM,GPT,24,1024,16,16,4096,50257,1024,A100,80,8,8,\"NVLink, one node\",64,4,{tensor},1,{data},1,1,no,0,,,{recompute},fp16,{seconds},{memory},{oom}"
    )
}

#[test]
fn rows_are_predicted_ranked_and_left_out_with_a_reason() {
    let rows = [
        row("A1", 1, 8, "full", "0.5", "10", ""),
        row("A2", 2, 4, "full", "0.6", "", ""),
        row("A3", 4, 2, "full", "0.9", "", ""),
        row("A4", 1, 4, "full", "0.5", "", ""),
        row("A5", 1, 8, "selective (every other layer)", "0.5", "", ""),
        row("A6", 1, 8, "none", "", "", ""),
        row("A7", 1, 8, "none", "", "", "no"),
    ];
    let out = judge(&format!("{HEADER}\n{}\n", rows.join("\n")), &["--json", "--rows"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let v: Value = serde_json::from_slice(&out.stdout).expect("one object a file");
    assert_eq!((v["rows"].as_u64(), v["used"].as_u64()), (Some(7), Some(4)), "{v}");
    let skipped = v["skipped"].as_object().expect("reasons");
    for why in ["the degrees do not multiply out to the GPUs", "every other layer is recomputed", "nothing is measured that is predicted"] {
        assert_eq!(skipped.get(why).and_then(Value::as_u64), Some(1), "{why}: {skipped:?}");
    }
    assert_eq!(v["time"]["rows"], 3);
    assert_eq!(v["memory"]["rows"], 1);
    assert_eq!(v["tau"].as_f64(), Some(1.0), "more tensor parallelism is slower here: {v}");
    assert_eq!(v["verdicts"]["known"], 2);
    let cases = v["cases"].as_array().expect("the rows");
    assert!(cases.iter().all(|c| c["predicted_seconds"].as_f64().is_some_and(|s| s > 0.05 && s < 5.0)), "{v}");
}

#[test]
fn a_table_of_something_else_is_refused() {
    let out = judge("a,b\n1,2\n", &[]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("E0424"));
}

#[test]
fn assumptions_change_predictions_and_unknown_ones_are_refused() {
    let text = format!("{HEADER}\n{}\n", row("A1", 2, 4, "none", "0.5", "", ""));
    let seconds = |more: &[&str]| -> f64 {
        let out = judge(&text, &[more, &["--json", "--rows"]].concat());
        let v: Value = serde_json::from_slice(&out.stdout).expect("one object");
        v["cases"][0]["predicted_seconds"].as_f64().expect("a time")
    };
    assert!(seconds(&["--assume", "megatron-2021.traffic=4"]) > seconds(&[]));
    assert_eq!(seconds(&["--assume", "fsdp-2023.traffic=4"]), seconds(&[]));
    let out = judge(&text, &["--assume", "megatron-2021.trafic=4"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("did you mean `traffic`?"));
}

/// What `judge` says of a published file; none without the data.
fn published(file: &str) -> Option<Value> {
    let data = std::env::var_os("SHARDWRIGHT_DATA")?;
    let path = std::path::PathBuf::from(data).join("data/published").join(file);
    let out = Command::new(env!("CARGO_BIN_EXE_shardwright")).arg("judge").arg(&path).arg("--json").output().expect("the command runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(serde_json::from_slice(&out.stdout).expect("one object"))
}

/// The files with rows of experts: as many rows used and errors as `docs/accuracy.md` says, with little room.
#[test]
fn published_steps_with_experts_are_met() {
    for (file, used, kind, median, high) in BOUNDS {
        let Some(v) = published(file) else { return };
        let number = |key: &str| v[kind][key].as_f64().unwrap_or_else(|| panic!("{kind} {key} in {v}"));
        assert!(v["used"].as_u64().is_some_and(|n| n >= used), "{file}: {v}");
        assert!(number("median") <= median && number("p90") <= high, "{file}: {v}");
    }
}

/// File, rows used, of what the error is, its median and its 90th percentile.
const BOUNDS: [(&str, u64, &str, f64, f64); 3] =
    [("megatron_bridge.csv", 117, "time", 0.085, 0.29), ("moe_modelzoo.csv", 4, "time", 0.17, 0.45), ("golden_memory_megatron.csv", 46, "memory", 0.08, 0.25)];

/// A row with experts: eight of them for every token, whole on devices of both the data and the tensor axis.
#[test]
fn rows_with_experts_are_predicted() {
    let header = "row_id,framework,model,n_layers,hidden,n_heads,n_kv_heads,ffn_hidden,vocab,seq_len,n_experts,moe_topk,moe_ffn_hidden,gpu,gpu_mem_gb,n_gpus,\
gpus_per_node,interconnect,global_batch_seqs,micro_batch_seqs,tp,pp,dp,cp,ep,sp,zero_stage,shard_mode,vpp,recompute,precision,tokens_per_s_per_gpu,notes";
    let row = |id: &str, tensor: u32, data: u32, experts: u32, notes: &str| {
        format!(
            "{id},Megatron-Bridge,Qwen3_30B_a3B,8,2048,32,4,,151936,4096,128,8,768,H100,80,8,8,NVLink,16,1,{tensor},1,{data},1,{experts},,,,,,BF16,9000,{notes}"
        )
    };
    let rows = [row("A1", 1, 8, 8, "container 26.02"), row("A2", 2, 4, 8, "container 26.02"), row("A3", 1, 8, 8, "container 26.06.01"), row("A4", 1, 8, 3, "")];
    let out = judge(&format!("{header}\n{}\n", rows.join("\n")), &["--json", "--rows"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let v: Value = serde_json::from_slice(&out.stdout).expect("one object");
    assert_eq!(v["used"].as_u64(), Some(3), "{v}");
    assert!(v["skipped"].as_object().is_some_and(|s| s.keys().any(|why| why.contains("an expert degree of 3"))), "{v}");
    let seconds = |i: usize| v["cases"][i]["predicted_seconds"].as_f64().expect("a time");
    assert!(seconds(2) < seconds(0), "experts of later software take less: {v}");
    let exchange = |i: usize| v["cases"][i]["parts"]["exposed"][2].as_f64().expect("a time");
    assert!(exchange(0) > 0.0 && exchange(1) > 0.0 && exchange(2) < exchange(0), "{v}");
}
