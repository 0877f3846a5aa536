//! What a plan says of itself: plans that were planned only, plans whose search was cut short, layers and stages explained.

mod support;

use compiler::pipeline::{self, Options, Timings};
use compiler::stop::{Progress, Stop};
use compiler::tables::plan::{Shallow, plan};
use compiler::tables::search::Effort;
use cost_model::Cluster;
use ir::plan::Plan;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn module(name: &str) -> ir::Module {
    compiler::import::import(&support::bundled(name).path).unwrap_or_else(|e| panic!("{name}: {e}")).module
}

fn options(flags: &str, stop: Stop) -> Options {
    let (cluster, request) = support::request(flags);
    let cluster = Cluster::parse(&cluster).unwrap_or_else(|e| panic!("{e}"));
    Options { request, overrides: Default::default(), cluster, level: "x86-64-v3".into(), code: false, stop }
}

/// A plan of a step whose identical layers were planned once.
fn planned_only(flags: &str, stop: Stop) -> ir::Result<Plan> {
    let module = module("gpt_tiny");
    plan(&Shallow { module: &module, stacks: &[] }, &options(flags, stop), &Effort::default(), &mut Timings::default())
}

fn shardwright(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shardwright")).args(arguments).output().expect("the command runs")
}

/// The exit code, and everything that was printed.
fn outcome(arguments: &[&str]) -> (i32, String) {
    let output = shardwright(arguments);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("panicked"), "{arguments:?}: {text}");
    (output.status.code().unwrap_or(-1), text)
}

fn written(plan: &Plan, folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, plan.to_bytes()).expect("the plan can be written");
    path.display().to_string()
}

#[test]
fn a_plan_that_was_planned_only_is_shown_and_explained() {
    let mut plan = planned_only("--cluster local:4 --stages 2 --mesh 2 --microbatches 2", Stop::default()).unwrap_or_else(|e| panic!("{e}"));
    let again = Plan::from_bytes(&plan.to_bytes()).unwrap_or_else(|e| panic!("{e}"));
    assert!(again == plan);
    // As a model of many layers has it: the second layer stands for a hundred.
    let second = plan.depth[1];
    plan.depth.splice(1..1, std::iter::repeat_n(second, 99));
    plan.stages[0].layers.1 += 99;
    plan.stages[1].layers.0 += 99;
    plan.stages[1].layers.1 += 99;
    plan.stages[1].cut.iter_mut().for_each(|c| c.layer += 99);
    let folder = tempfile::tempdir().expect("a folder");
    let path = written(&plan, folder.path(), "gpt.plan");

    let page = folder.path().join("page.html").display().to_string();
    let (code, text) = outcome(&["view", &path, "-o", &page]);
    assert_eq!(code, 0, "{text}");
    assert!(std::fs::read_to_string(&page).expect("the page").contains("stands for 100 layers of the model"));
    let model: serde_json::Value = serde_json::from_slice(&shardwright(&["view", &path, "--json"]).stdout).expect("JSON");
    assert_eq!(model["stages"].as_array().expect("a list").len(), 2);
    assert!(model["stages"][0]["holds"].as_str().expect("text").contains("×100"), "{}", model["stages"][0]["holds"]);
    assert!(!model["alternatives"].as_array().expect("a list").is_empty());
    assert!(model["stages"][0]["memory"]["at_peak"].as_array().expect("a list").len() >= 3);

    let (code, text) = outcome(&["explain", &path, "layer 50"]);
    assert_eq!(code, 0, "{text}");
    for part in ["layer 50 of the model", "which stands for 100 layers", "what decided its shardings", "stage 0"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let (code, text) = outcome(&["explain", &path, "stage 1"]);
    assert_eq!(code, 0, "{text}");
    for part in ["stage 1  layers", "memory of a device", "gradients", "what decided the cut before it", "one layer earlier", "settings of stages", "taken"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    for (s, stage) in plan.stages.iter().enumerate() {
        for v in plan.graph.values.keys().filter(|v| stage.shardings.get(v.0 as usize).is_some_and(Option::is_some)) {
            viz::explain(&plan, &plan.graph.display_name(v)).unwrap_or_else(|e| panic!("{} in stage {s}: {e}", plan.graph.display_name(v)));
        }
    }
    for name in ["stage 2", "layer 9999", "s9"] {
        assert_eq!(outcome(&["explain", &path, name]).0, 2, "{name}");
    }
    for command in ["run", "verify"] {
        let (code, text) = outcome(&[command, &path]);
        assert_eq!(code, 2, "{text}");
        for part in ["E0642", "stands for 100 layers", "--no-code"] {
            assert!(text.contains(part), "{command} does not say {part}: {text}");
        }
    }
}

#[test]
fn cuts_say_what_else_they_could_be() {
    let module = module("gpt_tiny");
    let options = options("--cluster local:4 --stages 2 --mesh 2 --microbatches 2", Stop::default());
    for plan in [
        pipeline::compile(&module, &options, &mut Timings::default()).unwrap_or_else(|e| panic!("{e}")),
        planned_only("--cluster local:4 --stages 2 --mesh 2 --microbatches 2", Stop::default()).unwrap_or_else(|e| panic!("{e}")),
    ] {
        assert!(plan.stages[0].cut.is_empty());
        let cut = &plan.stages[1].cut;
        assert!(cut.len() > 1, "{cut:?}");
        let taken: Vec<_> = cut.iter().filter(|c| c.verdict == "taken").collect();
        assert!(taken.len() == 1 && taken[0].layer == plan.stages[1].layers.0, "{cut:?}");
        let slowest = cut.iter().filter(|c| c.memory.is_none_or(|m| m <= plan.stages[1].memory.limit)).map(|c| c.slower.0).fold(f64::INFINITY, f64::min);
        assert!(taken[0].slower.0 <= slowest * 1.1, "another cut has a much faster slowest stage: {cut:?}");
    }
}

/// A stop that wishes the end once so many settings are done.
fn ends_after(settings: usize) -> Stop {
    let wish = Arc::new(AtomicBool::new(false));
    let set = wish.clone();
    Stop::default().or_when(wish).watched(Arc::new(move |p: &Progress| {
        if p.phase == "settings" && p.done >= settings {
            set.store(true, Ordering::Relaxed);
        }
    }))
}

#[test]
fn a_search_that_is_ended_gives_the_best_plan_so_far() {
    let module = module("gpt_tiny");
    let flat = pipeline::compile(&module, &options("--cluster local:4", ends_after(1)), &mut Timings::default()).unwrap_or_else(|e| panic!("{e}"));
    let tables = planned_only("--cluster local:4", ends_after(1)).unwrap_or_else(|e| panic!("{e}"));
    for plan in [&flat, &tables] {
        assert_eq!(plan.stopped.as_deref(), Some("interrupted"));
        assert!(plan.notes.iter().any(|n| n.code == "W0504"), "{:?}", plan.notes);
        assert!(plan.alternatives.iter().any(|a| a.verdict.contains("not tried before the search ended")), "{:?}", plan.alternatives);
        assert!(plan.alternatives.iter().any(|a| a.verdict == "taken"));
    }
    for failed in [
        pipeline::compile(&module, &options("--cluster local:4", Stop::after(Some(Duration::ZERO))), &mut Timings::default()),
        planned_only("--cluster local:4", Stop::after(Some(Duration::ZERO))),
    ] {
        let failed = failed.expect_err("no time");
        assert_eq!(failed.0[0].code, "E0504", "{failed}");
    }
}

#[test]
fn a_limit_that_is_not_reached_changes_nothing() {
    let module = module("gpt_tiny");
    let far = || Stop::after(Some(Duration::from_secs(36_000)));
    let flags = "--cluster local:4 --stages 2 --microbatches 4";
    let compile = |stop| pipeline::compile(&module, &options(flags, stop), &mut Timings::default()).unwrap_or_else(|e| panic!("{e}")).to_bytes();
    assert!(compile(far()) == compile(Stop::default()));
    let tables = |stop| planned_only("--cluster local:4", stop).unwrap_or_else(|e| panic!("{e}")).to_bytes();
    assert!(tables(far()) == tables(Stop::default()));
}

#[test]
fn the_command_keeps_to_its_time_and_heeds_an_interrupt() {
    let model = support::bundled("gpt_tiny").path.display().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.plan").display().to_string();
    let (code, text) = outcome(&["compile", &model, "--cluster", "local:8", "--no-code", "--time-limit", "0.000001", "-o", &path]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("E0504") && text.contains("time limit"), "{text}");
    for wrong in ["0", "-1", "nan"] {
        assert_eq!(outcome(&["compile", &model, "--cluster", "local:2", "--no-code", &format!("--time-limit={wrong}")]).0, 2, "{wrong}");
    }
    // Nothing is told where standard error is no terminal, unless it is asked for.
    let (code, text) = outcome(&["compile", &model, "--cluster", "local:2", "--no-code"]);
    assert!(code == 0 && !text.contains("Planning settings"), "{text}");
    let begin = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_shardwright"))
        .args(["compile", &model, "--cluster", "local:16", "--no-code", "--progress", "-o", &path])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut text = String::new();
    while !text.contains("Planning settings") {
        assert!(lines.read_line(&mut text).expect("text") > 0, "{text}");
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    lines.read_to_string(&mut text).expect("text");
    // However early it comes, there is a plan.
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "after {:?}: {text}", begin.elapsed());
    let plan = Plan::from_bytes(&std::fs::read(&path).expect("the plan is there")).unwrap_or_else(|e| panic!("{e}"));
    assert!(plan.stopped.is_none() || text.contains("W0504"), "{text}");
}

fn compiled(extra: &[&str], path: &str) {
    let model = support::bundled("mlp").path.display().to_string();
    let (code, text) = outcome(&[&["compile", &model, "--cluster", "local:4", "--no-code", "-o", path], extra].concat());
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_change_gives_what_compiling_anew_gives() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (base, pinned) = (at("base.plan"), "%arg1=[{},{\"x\"}]");
    compiled(&["--stages", "1", "--mesh", "4"], &base);
    let cases: [(&[&str], &[&str]); 5] = [
        (&["pin:%arg1=[{},{\"x\"}]"], &["--stages", "1", "--mesh", "4", "--pin", pinned]),
        (&["mesh:2x2"], &["--stages", "1", "--mesh", "2x2"]),
        (&["stages:2", "mesh:auto", "microbatches:2"], &["--stages", "2", "--microbatches", "2"]),
        (&["strategy:zero3"], &["--stages", "1", "--mesh", "4", "--strategy", "zero3"]),
        (&["memory-limit:1GiB", "mesh:auto", "stages:auto"], &["--memory-limit", "1GiB"]),
    ];
    for (changes, flags) in cases {
        let anew = at("anew.plan");
        compiled(flags, &anew);
        let mut arguments = vec!["--json", "explain", base.as_str()];
        changes.iter().for_each(|c| arguments.extend(["--what-if", c]));
        let answer = shardwright(&arguments);
        assert_eq!(answer.status.code(), Some(0), "{changes:?}: {}", String::from_utf8_lossy(&answer.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&answer.stdout).expect("JSON");
        let told = shardwright(&["--json", "diff", &base, &anew]);
        assert_eq!(told.status.code(), Some(0), "{changes:?}");
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).expect("JSON");
        assert_eq!(answer["difference"], told, "{changes:?}");
        assert_eq!(told["equal"], false, "{changes:?}");
    }
    let (code, text) = outcome(&["explain", &base, "%arg1", "--what-if", "strategy:zero3"]);
    assert_eq!(code, 0, "{text}");
    for part in ["step ", "memory ", "request", "--strategy: auto → zero3", "sharding: ", "%arg1 "] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    for (change, code, part) in [
        ("stage:4", 2, "did you mean `stages`"),
        ("stages", 2, "KEY:VALUE"),
        ("unpin:%arg1", 2, "no pin"),
        ("stages:3", 2, "E0402"),
        ("microbatches:0", 2, "E0404"),
        ("schedule:zigzag", 2, "E0409"),
        ("pin:%nothing=[{}]", 2, "E0406"),
        ("memory-limit:1KiB", 1, "E0502"),
    ] {
        let (got, text) = outcome(&["explain", &base, "--what-if", change]);
        assert!(got == code && text.contains(part), "{change} gives {got}: {text}");
    }
    // Pins of one value replace each other, and can be taken back.
    let with_pin = at("pin.plan");
    compiled(&["--stages", "1", "--mesh", "4", "--pin", "%14=[{},{\"x\"}]", "--pin", pinned], &with_pin);
    let (_, text) = outcome(&["explain", &with_pin, "%14"]);
    assert!(text.contains("what decided: pin: %14=[{},{\"x\"}]"), "{text}");
    let back = shardwright(&["--json", "explain", &with_pin, "--what-if", "unpin:%arg1"]);
    let back: serde_json::Value = serde_json::from_slice(&back.stdout).expect("JSON");
    assert!(back["difference"]["changes"].as_array().expect("a list").iter().any(|c| c["what"] == "--pin" && c["after"] == "not given"), "{back}");
}

#[test]
fn a_cluster_from_a_file_is_kept_for_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = folder.path().join("c.toml");
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/clusters/a100.toml"), &cluster).expect("copied");
    let path = folder.path().join("x.plan").display().to_string();
    compiled(&[], &path);
    let model = support::bundled("mlp").path.display().to_string();
    let file = cluster.display().to_string();
    let (code, text) = outcome(&["compile", &model, "--cluster", &file, "--stages", "1", "--no-code", "-o", &path]);
    assert_eq!(code, 0, "{text}");
    std::fs::remove_file(&cluster).expect("removed");
    let (code, text) = outcome(&["explain", &path, "--what-if", "strategy:data"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("--strategy: auto → data"), "{text}");
}

#[test]
fn plans_planned_only_are_planned_again() {
    let mut plan = planned_only("--cluster local:4 --stages 2 --mesh 2 --microbatches 2", Stop::default()).unwrap_or_else(|e| panic!("{e}"));
    plan.request.premises.cluster = "local:4".into();
    let folder = tempfile::tempdir().expect("a folder");
    let path = written(&plan, folder.path(), "gpt.plan");
    let (code, text) = outcome(&["explain", &path, "--what-if", "stages:1", "--what-if", "mesh:auto"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("stages: 2 → 1"), "{text}");
}

#[test]
fn equal_plans_are_said_to_be_equal() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (a, b, c) = (at("a.plan"), at("b.plan"), at("c.plan"));
    compiled(&["--stages", "1"], &a);
    compiled(&["--stages", "1"], &b);
    compiled(&["--stages", "2", "--microbatches", "2"], &c);
    let (code, text) = outcome(&["diff", &a, &b]);
    assert!(code == 0 && text.contains("are equal"), "{text}");
    let (code, text) = outcome(&["diff", &a, &c]);
    assert_eq!(code, 0, "{text}");
    for part in ["step ", "setting", "stages: 1 → 2", "microbatches: 1 → 2", "layers:"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(outcome(&["diff", &a, "/no/such.plan"]).0, 2);
    assert_eq!(outcome(&["diff", &support::bundled("mlp").path.display().to_string(), &a]).0, 2);
}

#[test]
fn reasons_agree_with_the_figures() {
    let module = module("gpt_tiny");
    let compile =
        |flags: &str| pipeline::compile(&module, &options(flags, Stop::default()), &mut Timings::default()).unwrap_or_else(|e| panic!("{flags}: {e}"));
    let free = compile("--cluster local:4 --stages 1 --mesh 2x2");
    let zero = compile("--cluster local:4 --stages 1 --mesh 4 --strategy zero3");
    // Less and less memory, as far as anything fits.
    let arena = free.stages[0].memory.arena.0;
    let tight = [95, 90, 85, 80].map(|percent| {
        let flags = format!("--cluster local:4 --stages 1 --mesh 2x2 --microbatches 1 --recompute none --memory-limit {}", arena * percent / 100);
        pipeline::compile(&module, &options(&flags, Stop::default()), &mut Timings::default())
    });
    let plans = [(0, &free), (1, &zero)].into_iter().chain(tight.iter().flatten().map(|p| (2, p)));
    let total = |c: &ir::plan::Candidate| c.compute.0 + c.communication.0 + c.reshard.0;
    let mut kinds = std::collections::BTreeMap::<(usize, String), u32>::new();
    for (p, plan) in plans {
        for (stage, d) in plan.stages.iter().flat_map(|s| s.decisions.iter().map(move |d| (s, d))) {
            let kind = d.reason.split(':').next().unwrap_or_default();
            *kinds.entry((p, kind.to_string())).or_default() += 1;
            let chosen = &d.candidates[d.chosen as usize];
            // Several candidates may be called alike; not all are kept.
            let named: Vec<_> = d.reason.split('`').nth(1).map_or(vec![], |name| d.candidates.iter().filter(|c| c.name == name).collect());
            let cheapest = d.candidates.iter().map(total).fold(f64::INFINITY, f64::min);
            match kind {
                "cost" => {
                    assert!(total(chosen) <= cheapest + 1e-9, "{d:?}");
                    assert!(named.is_empty() || named.iter().any(|c| c.compute.0 < chosen.compute.0 && total(c) >= total(chosen) - 1e-9), "{d:?}");
                }
                "memory" => assert!(stage.solve.moments > 0 && named.iter().any(|c| total(c) < total(chosen)), "{d:?}"),
                "gap" => assert!(stage.solve.status != "optimal" && cheapest < total(chosen), "{d:?}"),
                "strategy" | "only choice" => {}
                other => panic!("{other} is no reason: {d:?}"),
            }
        }
    }
    let count = |p: usize, kind: &str| kinds.get(&(p, kind.to_string())).copied().unwrap_or(0);
    assert!(count(0, "cost") > 0 && count(0, "memory") == 0 && count(2, "memory") > 0 && count(1, "strategy") > 0, "{kinds:?}");
    let blamed = free.stages[0].decisions.iter().filter(|d| d.reason.contains("by itself, but")).count();
    assert!(blamed > 0, "no decision names the neighbour that decided it: {kinds:?}");
}
