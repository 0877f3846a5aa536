//! What the fuzz targets check, shared by cargo-fuzz (`fuzz_targets/`) and by the ordinary bounded test `tests/fuzzed.rs`.

use ir::plan::Plan;
use ir::{text, verify};

/// Any text is read or diagnosed; what is read is sound, and prints to a text that reads to the same module.
pub(crate) fn importer(bytes: &[u8]) {
    let Ok(input) = std::str::from_utf8(bytes) else { return };
    match text::parse("fuzzed", input) {
        Ok(module) => {
            verify::verify_module(&module).expect("an imported module is sound");
            let printed = text::print(&module);
            let again = text::parse("printed", &printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
            assert_eq!(text::print(&again), printed);
        }
        Err(all) => assert!(!all.0.is_empty()),
    }
}

/// Any bytes are a plan or a diagnostic: as a file, and as the body of a file whose checksum is right.
pub(crate) fn plan_reader(bytes: &[u8]) {
    for file in [bytes, &Plan::sealed(bytes)] {
        match Plan::from_bytes(file) {
            Ok(plan) => plan.verify().expect("a plan that is read is consistent"),
            Err(all) => assert!(!all.0.is_empty()),
        }
    }
}
