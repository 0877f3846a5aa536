//! Reads whole training steps as JAX prints them, from the folder that `SHARDWRIGHT_DATA` names.

use std::path::PathBuf;

/// The files of `SHARDWRIGHT_DATA/inputs`; none, with a line saying so, when it is not set.
fn inputs() -> Vec<PathBuf> {
    let Ok(data) = std::env::var("SHARDWRIGHT_DATA") else {
        println!("left out: SHARDWRIGHT_DATA is not set");
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(format!("{data}/inputs"))
        .expect("the folder of inputs")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "mlir"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_input_parses_and_verifies() {
    for path in inputs() {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let name = path.display().to_string();
        let module = ir::text::parse(&name, &text).unwrap_or_else(|e| panic!("{e}"));
        if let Err(problems) = ir::verify::verify_module(&module) {
            panic!("{name}: {problems:#?}");
        }
        let main = module.main().expect("main");
        println!("{name}: {} functions, {} ops in main", module.functions.len(), main.ops.len());
        assert!(main.ops.len() > 50 && main.inputs.len() == main.input_attributes.len());
    }
}
