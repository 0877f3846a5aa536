//! Any text is read or diagnosed; what is read is sound, and prints to a text that reads to the same module.
#![no_main]

use ir::{text, verify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
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
});
