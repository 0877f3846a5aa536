//! The interpreter against JAX: exported training steps give the losses that XLA computed.
//!
//! The files are found through `SHARDWRIGHT_DATA`; two steps are run, or all eight with `SHARDWRIGHT_SLOW=1`.

use ir::interp::{Precision, Stepper, Tensor};
use ir::{DType, TensorType};
use std::path::{Path, PathBuf};
use std::time::Instant;

fn inputs_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("SHARDWRIGHT_DATA").map(|d| Path::new(&d).join("inputs"));
    if folder.is_none() {
        eprintln!("left out: SHARDWRIGHT_DATA is not set");
    }
    folder
}

fn dtype(d: safetensors::Dtype) -> DType {
    match d {
        safetensors::Dtype::F32 => DType::F32,
        safetensors::Dtype::I32 => DType::I32,
        safetensors::Dtype::U32 => DType::UI32,
        safetensors::Dtype::BF16 => DType::BF16,
        d => panic!("no test file holds {d:?}"),
    }
}

/// Runs a case and compares every loss; the loss is the last output, and state outputs come first, in the order of the state arguments.
fn check(name: &str, tolerance: f64) {
    let Some(folder) = inputs_folder() else { return };
    let text = std::fs::read_to_string(folder.join(format!("{name}.mlir"))).unwrap();
    let module = ir::text::parse(name, &text).unwrap_or_else(|d| panic!("{d}"));
    let graph = module.main().unwrap();
    let bytes = std::fs::read(folder.join(format!("{name}.safetensors"))).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let argument = |(i, &v): (usize, &ir::ValueId)| {
        let ty = graph.ty(v).clone();
        match file.tensor(&format!("arg{i}")) {
            Ok(view) => {
                let shape: Vec<u64> = view.shape().iter().map(|&n| n as u64).collect();
                // The script saves scalars as vectors of one.
                let shape = if ty.rank() == 0 && shape == [1] { Vec::new() } else { shape };
                assert_eq!(TensorType::new(dtype(view.dtype()), shape), ty, "arg{i}");
                Tensor::from_bytes(ty, view.data()).unwrap()
            }
            Err(_) => Tensor::zeros(ty),
        }
    };
    let arguments: Vec<Tensor> = graph.inputs.iter().enumerate().map(argument).collect();
    let expected: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(folder.join(format!("{name}.losses.json"))).unwrap()).unwrap();
    let state = expected["donated"].as_u64().unwrap() as usize;
    let steps = if std::env::var_os("SHARDWRIGHT_SLOW").is_some() { 8 } else { 2 };
    let mut stepper = Stepper::new(&module, graph, (0..state).map(|i| (i, i)), arguments, Precision::AsTyped).unwrap();
    for step in 0..steps {
        let begin = Instant::now();
        let outputs = stepper.step().unwrap_or_else(|d| panic!("{d}"));
        let loss = outputs.last().and_then(Tensor::first).unwrap();
        let want = expected["losses"][step].as_f64().unwrap();
        eprintln!("{name} step {step}: {loss} for {want} in {:?}", begin.elapsed());
        assert!((loss - want).abs() <= tolerance * want.abs(), "{name}, step {step}: {loss} instead of {want}");
    }
}

#[test]
fn mlp() {
    check("mlp", 1e-4);
}

#[test]
fn gpt_4l() {
    check("gpt_4l", 1e-4);
}

#[test]
fn llama_scan_bf16() {
    check("llama_scan_bf16", 2e-2);
}

#[test]
fn moe() {
    check("moe", 1e-4);
}

#[test]
fn resnet() {
    check("resnet", 1e-4);
}

#[test]
fn flax_lm() {
    check("flax_lm", 1e-4);
}
