//! Steps to test with: bundled ones, and the shared inputs when they are there; their arguments; and comparisons of results.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "tests say what they leave out, and what they measured")]

use ir::TensorType;
use ir::graph::Module;
use ir::interp::Tensor;
use std::path::PathBuf;

/// A module with the arguments of its first step.
pub(crate) struct Step {
    /// Its name.
    pub name: String,
    /// The module.
    pub module: Module,
    file: PathBuf,
}

/// The bundled steps.
pub(crate) const BUNDLED: [&str; 8] = ["mlp", "mlp_loss_first", "mlp_masked", "mlp_swapped_moments", "mlp_undonated", "gpt_tiny", "gpt_6heads", "block_tensor"];

/// A bundled step.
pub(crate) fn bundled(name: &str) -> Step {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/models");
    read(name, &root)
}

/// A step of the shared inputs, when they are there.
pub(crate) fn shared(name: &str) -> Option<Step> {
    let Ok(data) = std::env::var("SHARDWRIGHT_DATA") else {
        eprintln!("left out: SHARDWRIGHT_DATA is not set");
        return None;
    };
    Some(read(name, &std::path::Path::new(&data).join("inputs")))
}

fn read(name: &str, folder: &std::path::Path) -> Step {
    let file = folder.join(format!("{name}.mlir"));
    let text = std::fs::read_to_string(&file).expect("the step is there");
    let module = ir::text::parse(&file.to_string_lossy(), &text).expect("the step parses");
    Step { name: name.to_string(), module, file }
}

impl Step {
    /// The arguments of the first step; those that are not stored are zeros.
    pub(crate) fn arguments(&self) -> Vec<Tensor> {
        let bytes = std::fs::read(self.file.with_extension("safetensors")).expect("the arguments are there");
        let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("the arguments read");
        let main = self.module.main().expect("a main function");
        let types = main.inputs.iter().map(|&v| main.ty(v).clone());
        types
            .enumerate()
            .map(|(i, ty)| match tensors.tensor(&format!("arg{i}")) {
                Ok(t) => Tensor::from_bytes(ty, t.data()).expect("the argument has its type"),
                Err(_) => Tensor::zeros(ty),
            })
            .collect()
    }
}

/// The same elements in another shape.
pub(crate) fn viewed(x: &Tensor, shape: &[u64]) -> Tensor {
    Tensor::from_bytes(TensorType::new(x.ty.dtype, shape), &x.to_bytes()).expect("the same number of elements")
}

/// Asserts that two lists of results agree element for element, in norm, whatever their shapes.
pub(crate) fn assert_close(what: &str, expected: &[Tensor], found: &[Tensor], tolerance: f64) {
    assert_eq!(expected.len(), found.len(), "{what}: number of results");
    for (i, (a, b)) in expected.iter().zip(found).enumerate() {
        assert_eq!((a.ty.dtype, a.elements()), (b.ty.dtype, b.elements()), "{what}: type of result {i}");
        if !a.ty.dtype.is_float() {
            assert_eq!(a.to_bytes(), b.to_bytes(), "{what}: result {i}");
            continue;
        }
        let (a, b) = (a.to_f64s(), b.to_f64s());
        let norm = a.iter().map(|x| x * x).sum::<f64>().sqrt();
        let distance = a.iter().zip(&b).map(|(x, y)| if x == y { 0.0 } else { (x - y).powi(2) }).sum::<f64>().sqrt();
        let floor = 1e-9 * (a.len() as f64).sqrt();
        assert!(distance <= tolerance * norm + floor, "{what}: result {i} is off by {distance:e} of {norm:e}");
    }
}
