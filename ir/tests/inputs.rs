//! Reads whole modules as JAX prints them: the forms that operations take, the bundled models, and the steps in the folder that `SHARDWRIGHT_DATA` names.
#![allow(clippy::print_stdout, reason = "tests say what they read and what they leave out")]

use std::path::PathBuf;

/// The models of `examples`, and the files of `SHARDWRIGHT_DATA/inputs` where it is set.
fn inputs() -> Vec<PathBuf> {
    let mut folders =
        vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/models")), PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/forms"))];
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
        assert!(!main.ops.is_empty() && main.inputs.len() == main.input_attributes.len());
    }
}

/// A graph without what its text does not hold: locations, and names of annotations that were dropped.
fn without_locations(mut g: ir::Graph) -> ir::Graph {
    g.aliases.clear();
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
            let (a, mut b) = (without_locations(a), without_locations(b));
            // Values of an expansion have no name until they are printed.
            for (x, y) in a.values.values().zip(b.values.values_mut()) {
                if x.name.is_empty() {
                    y.name = x.name.clone();
                }
            }
            for ((id, x), y) in a.ops.iter().zip(b.ops.values()) {
                assert_eq!(x, y, "{name}: @{} {id}", a.name);
            }
            assert!(a == b, "{name}: @{}", a.name);
        }
    }
}

fn form(name: &str) -> ir::Graph {
    let path = format!("{}/tests/forms/{name}.mlir", env!("CARGO_MANIFEST_DIR"));
    let module = ir::text::parse(name, &std::fs::read_to_string(path).expect("a readable file")).unwrap_or_else(|e| panic!("{e}"));
    module.main().expect("main").clone()
}

#[test]
fn locations_name_ops() {
    let main = form("locations");
    let names: Vec<Option<String>> = main.ops.values().map(|op| main.locs[op.loc].name.as_ref().map(ToString::to_string)).collect();
    let expected = [Some("model.py:7 mul"), Some("model.py:88 attn/tanh"), Some("model.py:7 mul"), Some("a")];
    assert_eq!(names, expected.map(|n| n.map(str::to_string)));
    let places: Vec<(u32, u32)> = main.ops.values().map(|op| (main.locs[op.loc].line, main.locs[op.loc].column)).collect();
    assert_eq!(places, [(5, 5), (6, 5), (7, 5), (8, 5)]);
    assert!(main.input_attributes[1].donated);
    assert_eq!(main.output_attributes[0].name, "out['a b']");
}

#[test]
fn constants_come_from_the_trailer() {
    let main = form("resources");
    let constants: Vec<Vec<u8>> = main.ops.values().filter_map(|op| if let ir::OpKind::Constant(l) = &op.kind { Some(l.to_bytes()) } else { None }).collect();
    assert_eq!(constants, [[1f32.to_le_bytes(), 2f32.to_le_bytes()].concat(), vec![1, 2, 3]]);
}

#[test]
fn what_regions_capture_is_carried() {
    let main = form("captures");
    let (_, op) = main.ops.iter().find(|(_, op)| op.kind == ir::OpKind::While).expect("the loop");
    let operands: Vec<String> = op.operands.iter().map(|&v| main.display_name(v)).collect();
    assert_eq!(operands, ["%c", "%arg0", "%arg1", "%0#0", "%arg0"]);
    let names: Vec<String> = op.results.iter().map(|&v| main.display_name(v)).collect();
    assert_eq!(names, ["%1#0", "%1#1", "%arg1.out", "%v0_0.out", "%arg0.out"]);
    let body = &op.regions[1];
    let carried: Vec<String> = body.outputs.iter().map(|&v| body.display_name(v)).collect();
    assert_eq!(carried, ["%4", "%2", "%arg1.in", "%v0_0.in", "%arg0.in"]);
    // The constant is copied into the region.
    assert_eq!(body.ops.values().filter(|op| matches!(op.kind, ir::OpKind::Constant(_))).count(), 1);
    assert_eq!(main.value_named("%1#1"), Some(main.outputs[0]));
}
