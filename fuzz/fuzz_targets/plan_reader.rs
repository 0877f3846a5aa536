//! Any bytes are a plan or a diagnostic.
#![no_main]

use ir::plan::Plan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(plan) = Plan::from_bytes(bytes) {
        let _ = plan.verify();
    }
});
