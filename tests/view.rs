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
