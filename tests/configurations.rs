//! `--config` on the command line: what is traced, what is refused, and that both ways into a plan lead to the same.

use std::path::Path;
use std::process::Command;

/// The exit code, and everything that was printed.
fn outcome(arguments: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_shardwright")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("the command starts");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("panicked"), "{arguments:?} panics: {text}");
    (output.status.code().unwrap_or(-1), text)
}

fn is(line: &str, code: i32, parts: &[&str]) {
    let (got, text) = outcome(&line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(got, code, "{line}: {text}");
    for part in parts {
        assert!(text.contains(part), "{line} does not say {part:?}: {text}");
    }
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let config = "--config examples/configs/tiny_gpt2.json";
    is("compile --cluster local:2", 2, &["<MODEL>"]);
    is(&format!("compile examples/models/mlp.mlir {config} --cluster local:2"), 2, &["cannot be used with"]);
    is("compile examples/models/mlp.mlir --cluster local:2 --global-batch 4", 2, &["E0409", "--config"]);
    is(&format!("trace {config} --dtype bf15 --optimizer adamv"), 2, &["E0140", "`bf16`", "`adam`"]);
    is(&format!("trace {config} --global-batch 0 --depth 0 --learning-rate=-1"), 2, &["E0141", "batch of 0", "depth of 0", "rate is -1"]);
    is(&format!("trace {config} --seq 65"), 2, &["E0142", "--seq 64", "n_positions"]);
    is("trace --config examples/configs/tiny_vit.json --seq 16", 2, &["E0142"]);
    is("trace --config examples/configs/gpt3_175b.json --global-batch 16000000 --seq 2048", 2, &["E0143", "--global-batch"]);
    is("trace --config examples/configs", 2, &["E0118"]);
    is("trace --config examples/configs/nothing.json", 2, &["E0118"]);
    is("trace --config examples/text/constitution.txt", 2, &["E0130", "constitution.txt:1:1"]);
}

#[test]
fn a_large_model_is_traced_in_a_moment() {
    let line = "trace --config examples/configs/llama3_405b.json --global-batch 512 --seq 4096 --dtype bf16 --depth 4 --json";
    is(line, 0, &["\"parameters\":405853388800", "\"prefix\":\"layers.\"", "\"traced\":4", "\"full\":126"]);
}

#[test]
fn a_written_step_is_read_again_and_runs_with_its_arguments() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (step, arguments, plan) = (file("step.mlir"), file("step.safetensors"), file("step.plan"));
    is(&format!("trace --config examples/configs/tiny_llama.json --global-batch 4 --seq 8 -o {step} --arguments {arguments}"), 0, &["39.6 k parameters"]);
    is(&format!("compile {step} --cluster local:2 -o {plan}"), 0, &["Planned"]);
    is(&format!("run {plan} --inputs {arguments} --zeros --steps 2"), 0, &["step 1  loss 5."]);
    assert!(Path::new(&arguments).exists());
    is(&format!("trace --config examples/configs/gpt3_175b.json --arguments {arguments}"), 2, &["E0144"]);
}
