//! `run --trace`: a document that Perfetto opens, with an event for every instruction that was executed, in order.

use ir::plan::Plan;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

fn shardwright(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_shardwright")).args(arguments).output().expect("the command starts");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The kind of an instruction as its events name it: the first word.
fn words(plan: &Plan) -> BTreeSet<String> {
    let kinds = plan.programs.iter().flat_map(|p| p.phases.iter().flatten()).map(|i| runtime::transport::place::action_name(&i.kind));
    kinds.map(|name| name.to_string()).collect()
}

#[test]
fn a_trace_has_every_instruction_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models");
    let model = models.join("gpt_tiny.mlir").display().to_string();
    let inputs = models.join("gpt_tiny.safetensors").display().to_string();
    let (plan_path, trace_path) = (at("p.plan"), at("t.json"));
    shardwright(&["compile", &model, "--cluster", "local:4", "--stages", "2", "--mesh", "2", "--microbatches", "2", "-o", &plan_path]);
    shardwright(&["run", &plan_path, "--inputs", &inputs, "--steps", "2", "--trace", &trace_path]);
    let plan = Plan::from_bytes(&std::fs::read(&plan_path).expect("the plan")).expect("a plan");
    let trace: Value = serde_json::from_slice(&std::fs::read(&trace_path).expect("the trace")).expect("valid JSON");
    let events = trace["traceEvents"].as_array().expect("a list of events");

    // Every kind of instruction is there, and on every rank as many spans as it executes.
    let spans: Vec<&Value> = events.iter().filter(|e| e["ph"] == "X").collect();
    let seen = |kind: &String| spans.iter().any(|e| e["name"].as_str().is_some_and(|n| n.starts_with(kind.as_str())));
    let missing: Vec<String> = words(&plan).into_iter().filter(|k| !seen(k)).collect();
    assert!(missing.is_empty(), "no event of {missing:?}");
    let (steps, microbatches) = (2, plan.schedule.microbatches as usize);
    for program in &plan.programs {
        let [before, forward, backward, after] = [0, 1, 2, 3].map(|p| program.phases[p].len());
        let expected = steps * (before + after + microbatches * (forward + backward));
        for rank in program.first_rank..program.first_rank + program.mesh.devices() {
            let count = spans.iter().filter(|e| e["pid"] == rank).count();
            assert_eq!(count, expected, "rank {rank}");
        }
    }

    // On a track events follow one another.
    let mut ends: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    for e in &spans {
        let (start, length) = (e["ts"].as_f64().expect("a start"), e["dur"].as_f64().expect("a duration"));
        let track = (e["pid"].as_u64().expect("a rank"), e["tid"].as_u64().expect("a track"));
        let end = ends.entry(track).or_insert(0.0);
        assert!(length >= 0.0 && start + 1e-3 >= *end, "{e} begins before {end}");
        *end = start + length;
    }

    // Each message is sent before it is received, once.
    let arrows = |ph: &str| -> BTreeMap<u64, f64> {
        let all: Vec<_> = events.iter().filter(|e| e["ph"] == ph).map(|e| (e["id"].as_u64().expect("an id"), e["ts"].as_f64().expect("a time"))).collect();
        let map: BTreeMap<u64, f64> = all.iter().copied().collect();
        assert_eq!(map.len(), all.len(), "a message is named twice");
        map
    };
    let (sent, received) = (arrows("s"), arrows("f"));
    assert!(!sent.is_empty());
    assert_eq!(sent.keys().collect::<Vec<_>>(), received.keys().collect::<Vec<_>>());
    assert!(sent.iter().all(|(id, t)| *t <= received[id]), "received before it was sent");
    assert!(events.iter().any(|e| e["ph"] == "C"), "no memory counter");
}
