//! Planning at scale: identical layers are planned once, stages are composed from what one layer costs.
//!
//! A step of a few layers stands for one of many. Copies of a layer are *tied*: they choose alike, so one small integer program per (mesh, microbatches,
//! recomputation) decides for any depth ([`runs`], [`entry`]). Its solution is a table of what each layer costs: time per microbatch and once a step, bytes that
//! stay, bytes per microbatch in flight, transient bytes. Times and bytes add, peaks compose by max, so the dynamic program over stages ([`compose`]) works
//! on the full depth in milliseconds, and the search over settings ([`search`]) asks it thousands of times.
//! Invariant: nothing here depends on the number of ranks or microbatches but through prices.

mod attempt;
pub mod bounds;
pub mod compose;
pub mod entry;
pub mod mixed;
pub mod plan;
pub mod runs;
pub mod search;
pub mod settings;
pub mod submeshes;
pub mod unlike;
