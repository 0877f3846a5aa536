//! A DeepSpeed configuration: batch, accumulation, ZeRO stage, precision, offload. What no prediction of ours expresses is refused by its name.

use compiler::predict::Offload;
use ir::{Diagnostic, Diagnostics, Result};
use models::Precision;
use serde_json::Value;
use std::path::Path;

/// What a configuration states.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stated {
    pub(crate) micro_batch: Option<u64>,
    pub(crate) accumulation: Option<u64>,
    pub(crate) global_batch: Option<u64>,
    pub(crate) zero: Option<u8>,
    pub(crate) shard: Option<u32>,
    pub(crate) precision: Option<Precision>,
    pub(crate) offload: Offload,
}

/// Largest file that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<Stated> {
    let name = path.display().to_string();
    let unreadable = |e: std::io::Error| Diagnostic::input("E0118", format!("`{name}` cannot be read: {e}"));
    if std::fs::metadata(path).map_err(unreadable)?.len() > LARGEST {
        return Err(Diagnostic::input("E0111", format!("`{name}` is too large to be a DeepSpeed configuration")).into());
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    parse(&name, &text)
}

fn parse(name: &str, text: &str) -> Result<Stated> {
    let value: Value = serde_json::from_str(text)
        .map_err(|e| Diagnostic::input("E0425", format!("`{name}` is not JSON: {e}")).with_help("give the file that `--deepspeed_config` takes"))?;
    let Value::Object(whole) = &value else {
        return Err(Diagnostic::input("E0425", format!("`{name}` holds no object")).with_help("give the file that `--deepspeed_config` takes").into());
    };
    let mut errors = Vec::new();
    let mut number = |of: &serde_json::Map<String, Value>, key: &str| -> Option<u64> {
        match of.get(key) {
            None => None,
            Some(Value::String(s)) if s == "auto" => None,
            Some(v) => v.as_u64().or_else(|| {
                errors.push(Diagnostic::input("E0425", format!("`{key}` in `{name}` is {v}")).with_help("write a whole number"));
                None
            }),
        }
    };
    let mut stated = Stated {
        micro_batch: number(whole, "train_micro_batch_size_per_gpu"),
        accumulation: number(whole, "gradient_accumulation_steps"),
        global_batch: number(whole, "train_batch_size"),
        ..Stated::default()
    };
    let enabled = |key: &str| whole.get(key).and_then(|v| v.get("enabled")).is_some_and(|e| e == &Value::Bool(true));
    stated.precision = match (enabled("bf16") || enabled("bfloat16"), enabled("fp16")) {
        (true, _) => Some(Precision::Bf16),
        (false, true) => Some(Precision::F16),
        (false, false) => (whole.contains_key("fp16") || whole.contains_key("bf16")).then_some(Precision::F32),
    };
    let mut refused: Vec<String> = Vec::new();
    if let Some(Value::Object(zero)) = whole.get("zero_optimization") {
        stated.zero = number(zero, "stage").map(|s| s.min(255) as u8);
        stated.shard = number(zero, "zero_hpz_partition_size").map(|s| s as u32).filter(|s| *s > 1);
        if let Some(device) = zero.get("offload_optimizer").and_then(|o| o.get("device")).and_then(Value::as_str) {
            match device {
                "cpu" => stated.offload = Offload::Host,
                "nvme" => stated.offload = Offload::Storage,
                "none" => {}
                other => refused.push(format!("zero_optimization.offload_optimizer.device \"{other}\"")),
            }
        }
        if zero.get("offload_param").and_then(|o| o.get("device")).and_then(Value::as_str).is_some_and(|d| d != "none") {
            refused.push("zero_optimization.offload_param".into());
        }
        for key in ["zero_quantized_weights", "zero_quantized_gradients", "zero_quantized_nontrainable_weights"] {
            if zero.get(key) == Some(&Value::Bool(true)) {
                refused.push(format!("zero_optimization.{key}"));
            }
        }
    }
    for key in ["sparse_attention", "compression_training", "data_efficiency", "progressive_layer_drop"] {
        if whole.contains_key(key) {
            refused.push(key.into());
        }
    }
    errors.extend(refused.into_iter().map(|what| {
        Diagnostic::input("E0423", format!("`{what}` in `{name}` cannot be expressed in the search, so nothing is predicted for it"))
            .with_help("take it out of the configuration to see the setting without it")
    }));
    if errors.is_empty() { Ok(stated) } else { Err(Diagnostics(errors)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_read_and_what_is_not_modelled_is_named() {
        let s = parse(
            "ds.json",
            r#"{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8, "bf16": {"enabled": true},
            "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}"#,
        )
        .expect("it is one");
        assert_eq!((s.micro_batch, s.accumulation, s.zero, s.offload, s.precision), (Some(4), Some(8), Some(2), Offload::Host, Some(Precision::Bf16)));
        let s = parse("ds.json", r#"{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}}"#).expect("it is one");
        assert_eq!(s.offload, Offload::Storage);
        let Err(d) = parse("ds.json", r#"{"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}, "zero_quantized_weights": true}}"#) else {
            panic!("it is refused")
        };
        assert!(d.0.iter().all(|d| d.code == "E0423") && d.0[0].message.contains("offload_param") && d.0.len() == 2);
        assert_eq!(parse("x", "[]").expect_err("no object").0[0].code, "E0425");
    }
}
