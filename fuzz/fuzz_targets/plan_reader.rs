//! Any bytes are a plan or a diagnostic.
#![no_main]

#[path = "../targets.rs"]
#[allow(dead_code, reason = "each target uses its own")]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::plan_reader(bytes));
