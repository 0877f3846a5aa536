//! Reads whole training steps as JAX prints them: the bundled models, and those in the folder that `SHARDWRIGHT_DATA` names.

use std::path::PathBuf;

/// The models of `examples`, and the files of `SHARDWRIGHT_DATA/inputs` where it is set.
fn inputs() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/models"))];
    match std::env::var("SHARDWRIGHT_DATA") {
        Ok(data) => folders.push(PathBuf::from(data).join("inputs")),
        Err(_) => println!("left out: SHARDWRIGHT_DATA is not set"),
    }
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|f| std::fs::read_dir(f).expect("a folder of models"))
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

/// A graph without what its text does not hold: locations.
fn without_locations(mut g: ir::Graph) -> ir::Graph {
    g.locs = [ir::graph::LocInfo::default()].into_iter().collect();
    for op in g.ops.values_mut() {
        op.loc = ir::Loc(0);
        op.regions = std::mem::take(&mut op.regions).into_iter().map(without_locations).collect();
    }
    g
}

#[test]
fn every_input_prints_and_parses_again() {
    for path in inputs() {
        let name = path.display().to_string();
        let module = ir::text::parse(&name, &std::fs::read_to_string(&path).expect("a readable file")).unwrap_or_else(|e| panic!("{e}"));
        let text = ir::text::print(&module);
        let again = ir::text::parse("printed", &text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(module.functions.len(), again.functions.len());
        for (a, b) in module.functions.into_iter().zip(again.functions) {
            let (a, b) = (without_locations(a), without_locations(b));
            for ((id, x), y) in a.ops.iter().zip(b.ops.values()) {
                assert_eq!(x, y, "{name}: @{} {id}", a.name);
            }
            assert!(a == b, "{name}: @{}", a.name);
        }
    }
}
