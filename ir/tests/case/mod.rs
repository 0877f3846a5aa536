//! Exported training steps with their arguments and losses, found through `SHARDWRIGHT_DATA`.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "tests say what they leave out")]

use ir::interp::Tensor;
use ir::{DType, Graph, Module, TensorType};
use std::path::Path;

/// A step: `state` arguments come first and are replaced by the results of the same number; the loss is the last result.
pub(crate) struct Case {
    pub(crate) module: Module,
    pub(crate) arguments: Vec<Tensor>,
    pub(crate) state: usize,
    #[allow(dead_code, reason = "not every test reads them")]
    pub(crate) losses: Vec<f64>,
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

impl Case {
    /// Loads a case; says so and gives none when the data are not there.
    pub(crate) fn load(name: &str) -> Option<Case> {
        let Some(data) = std::env::var_os("SHARDWRIGHT_DATA") else {
            eprintln!("left out: SHARDWRIGHT_DATA is not set");
            return None;
        };
        let folder = Path::new(&data).join("inputs");
        let text = std::fs::read_to_string(folder.join(format!("{name}.mlir"))).unwrap();
        let module = ir::text::parse(name, &text).unwrap_or_else(|d| panic!("{d}"));
        let graph = module.main().unwrap();
        let bytes = std::fs::read(folder.join(format!("{name}.safetensors"))).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let argument = |(i, &v): (usize, &ir::ValueId)| {
            let ty = graph.ty(v).clone();
            let Ok(view) = file.tensor(&format!("arg{i}")) else { return Tensor::zeros(ty) };
            let shape: Vec<u64> = view.shape().iter().map(|&n| n as u64).collect();
            // The script saves scalars as vectors of one.
            let shape = if ty.rank() == 0 && shape == [1] { Vec::new() } else { shape };
            assert_eq!(TensorType::new(dtype(view.dtype()), shape), ty, "arg{i}");
            Tensor::from_bytes(ty, view.data()).unwrap()
        };
        let arguments: Vec<Tensor> = graph.inputs.iter().enumerate().map(argument).collect();
        let expected: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(folder.join(format!("{name}.losses.json"))).unwrap()).unwrap();
        let state = expected["donated"].as_u64().unwrap() as usize;
        let losses = expected["losses"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        Some(Case { module, arguments, state, losses })
    }
    /// The step's function.
    pub(crate) fn graph(&self) -> &Graph {
        self.module.main().unwrap()
    }
    /// The arguments that are not state.
    #[allow(dead_code, reason = "not every test reads them")]
    pub(crate) fn batch(&self) -> impl Iterator<Item = usize> + use<> {
        self.state..self.arguments.len()
    }
}
