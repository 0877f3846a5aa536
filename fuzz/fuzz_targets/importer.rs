//! Any text is read or diagnosed.
#![no_main]

#[path = "../targets.rs"]
#[allow(dead_code, reason = "each target uses its own")]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::importer(bytes));
