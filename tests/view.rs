//! `view` and `explain` as a user calls them, on a plan made by hand.

#[path = "../viz/tests/page/sample.rs"]
mod sample;

use std::path::Path;
use std::process::{Command, Output};

fn shardwright(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shardwright")).args(arguments).current_dir(folder).output().expect("the command runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_plan_becomes_a_page_and_an_explanation() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("gpt.plan"), sample::gpt(2).to_bytes()).expect("the plan can be written");

    let written = shardwright(&["view", "gpt.plan", "-o", "page.html"], folder.path());
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("the page is there");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));

    let beside = shardwright(&["view", "gpt.plan"], folder.path());
    assert_eq!(beside.status.code(), Some(0), "{}", text(&beside.stderr));
    assert_eq!(std::fs::read_to_string(folder.path().join("gpt.html")).ok(), Some(page));

    let data = shardwright(&["view", "gpt.plan", "--json"], folder.path());
    let model: serde_json::Value = serde_json::from_slice(&data.stdout).expect("JSON");
    assert_eq!(model["model"], "gpt.mlir");

    let explained = shardwright(&["explain", "gpt.plan", "%30"], folder.path());
    assert_eq!(explained.status.code(), Some(0), "{}", text(&explained.stderr));
    assert!(text(&explained.stdout).contains("PartitionSpec('x', None, 'y')"));
    let data = shardwright(&["explain", "gpt.plan", "%30", "--json"], folder.path());
    let data: serde_json::Value = serde_json::from_slice(&data.stdout).expect("JSON");
    assert_eq!(data["op"], "dot_general");
}

#[test]
fn what_is_wrong_is_said_with_exit_code_2() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("gpt.plan"), sample::gpt(1).to_bytes()).expect("the plan can be written");
    std::fs::write(folder.path().join("cut.plan"), &sample::gpt(1).to_bytes()[..5000]).expect("the file can be written");
    for (arguments, code) in [
        (&["view", "gpt.plan", "-o", "missing/page.html"][..], "E0633"),
        (&["view", "gpt.plan", "-o", "."], "E0633"),
        (&["view", "gpt.plan", "-o", "gpt.plan"], "E0911"),
        (&["view", "cut.plan"], "E0903"),
        (&["view", "nothing.plan"], "E0630"),
        (&["explain", "gpt.plan", "%9999"], "E0910"),
    ] {
        let answer = shardwright(arguments, folder.path());
        assert_eq!(answer.status.code(), Some(2), "{arguments:?}");
        assert!(text(&answer.stderr).contains(code), "{arguments:?}: {}", text(&answer.stderr));
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(left.len(), 2, "nothing half-written is left: {left:?}");
}

#[test]
fn a_compiled_step_is_shown_and_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models/gpt_tiny.mlir");
    let model = model.to_str().expect("a path in UTF-8");
    let made = shardwright(
        &["compile", model, "--cluster", "local:4", "--stages", "2", "--mesh", "2", "--microbatches", "2", "--no-code", "-o", "tiny.plan"],
        folder.path(),
    );
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));

    let data = shardwright(&["view", "tiny.plan", "--json"], folder.path());
    let model: serde_json::Value = serde_json::from_slice(&data.stdout).expect("JSON");
    let list = |value: &serde_json::Value| value.as_array().expect("a list").clone();
    assert_eq!(list(&model["stages"]).len(), 2);
    assert!(list(&model["stages"]).iter().all(|s| list(&s["devices"]).len() == 2 && !list(&s["memory"]["timeline"]).is_empty()));
    assert!(!list(&model["communication"]).is_empty());
    assert_eq!(list(&model["schedule"]["one_f_one_b"]["boxes"]).iter().filter(|b| b[1] == 1).count(), 4, "two microbatches go forward on two stages");

    // Every value that a decision with several candidates decides is explained with all of them.
    let names = list(&model["values"]["name"]);
    let groups = list(&model["groups"]);
    let open = groups.iter().filter(|g| list(&g["candidates"]).len() > 1 && !list(&g["values"]).is_empty());
    let mut explained = 0;
    for group in open.step_by(20) {
        let value = group["values"][0].as_u64().expect("a number") as usize;
        let name = names[value].as_str().expect("a name");
        let answer = shardwright(&["explain", "tiny.plan", name, "--json"], folder.path());
        assert_eq!(answer.status.code(), Some(0), "{name}: {}", text(&answer.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&answer.stdout).expect("JSON");
        let found = list(&answer["decisions"]).iter().any(|d| list(&d["candidates"]).len() == list(&group["candidates"]).len());
        assert!(found, "{name}");
        explained += 1;
    }
    assert!(explained > 3, "{explained}");
}
