//! The shape that `ARCHITECTURE.md` promises, held by tests: which crate may see which, which may link what, and how the sources look.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// For each crate of the workspace the others that it may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("ir", &[]),
    ("models", &["ir"]),
    ("cost_model", &["ir"]),
    ("solver", &[]),
    ("mlir", &["ir"]),
    ("gpu_library", &["ir"]),
    ("compiler", &["ir", "cost_model", "solver", "mlir", "gpu_library"]),
    ("ptx", &[]),
    ("runtime", &["ir", "ptx"]),
    ("cuda", &["ir", "ptx", "runtime"]),
    ("mpi_transport", &["ir", "runtime"]),
    ("viz", &["ir"]),
    ("shardwright", &["ir", "models", "cost_model", "compiler", "runtime", "cuda", "mpi_transport", "viz"]),
];

/// Crates that bring a large foreign library, and the only crate of ours that may name each.
const FOREIGN: &[(&str, &str)] = &[
    ("highs-sys", "solver"),
    ("good_lp", "solver"),
    ("melior", "mlir"),
    ("mlir-sys", "mlir"),
    ("cudarc", "cuda"),
    ("mpi", "mpi_transport"),
    ("mpi-sys", "mpi_transport"),
    ("gemm", "runtime"),
];

/// Folders whose code may say `unsafe`: calls into foreign code, and memory shared between devices.
const UNSAFE: &[&str] = &["runtime/", "compiler/mlir/", "compiler/solver/"];

const MOST_LINES: usize = 1_000;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn metadata() -> serde_json::Value {
    let output =
        Command::new(env!("CARGO")).args(["metadata", "--format-version", "1", "--locked", "--no-deps"]).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("metadata is JSON")
}

/// Every file below the checkout with that ending, in order; not what is built or ignored.
fn files(ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" && name != "artefacts" && name != "node_modules" {
                    folders.push(path);
                }
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Every Rust source with its text.
fn sources() -> Vec<(String, String)> {
    files(".rs").into_iter().map(|p| (relative(&p), std::fs::read_to_string(&p).expect("sources are UTF-8"))).collect()
}

fn check(what: &str, wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

#[test]
fn crates_depend_only_along_the_arrows() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let ours: BTreeSet<&str> = packages.iter().map(|p| p["name"].as_str().expect("a name")).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let Some((_, allowed)) = ARROWS.iter().find(|(n, _)| *n == name) else {
            wrong.push(format!("`{name}` is a new crate: add its arrows here and to ARCHITECTURE.md"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies").iter().filter(|d| d["kind"].is_null()) {
            let other = dependency["name"].as_str().expect("a name");
            if ours.contains(other) && !allowed.contains(&other) {
                wrong.push(format!("`{name}` depends on `{other}`"));
            }
            if let Some((_, owner)) = FOREIGN.iter().find(|(n, _)| *n == other).filter(|(_, owner)| *owner != name) {
                wrong.push(format!("`{name}` depends on `{other}`, which only `{owner}` may"));
            }
        }
    }
    check("dependencies against ARCHITECTURE.md", wrong);
}

#[test]
fn files_stay_short() {
    let long = sources().into_iter().map(|(path, text)| (text.lines().count(), path)).filter(|(lines, _)| *lines > MOST_LINES);
    check("files of more than 1,000 lines: split them by what they are about", long.map(|(n, path)| format!("{path}: {n}")).collect());
}

#[test]
fn nothing_is_left_unfinished() {
    // Put together here, so that this file does not contain them.
    let marks = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[", "ignore"), concat!("#[should", "_panic")];
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        for (i, line) in text.lines().enumerate() {
            if let Some(mark) = marks.iter().find(|m| line.contains(**m)) {
                wrong.push(format!("{path}:{}: {mark}", i + 1));
            }
        }
    }
    check("unfinished or switched off", wrong);
}

#[test]
fn modules_say_what_they_are() {
    let silent = sources().into_iter().filter(|(path, text)| !path.ends_with("/tests.rs") && !text.trim_start().starts_with("//!")).map(|(path, _)| path);
    check("files that do not open with `//!`", silent.collect());
}

#[test]
fn unsafe_code_stays_where_it_is_needed() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let block = code.contains("unsafe {") || code.contains("unsafe impl");
            if !(block || code.contains("unsafe fn") || code.contains("unsafe extern")) || path == "tests/architecture.rs" {
                continue;
            }
            if !UNSAFE.iter().any(|folder| path.starts_with(folder)) {
                wrong.push(format!("{path}:{}: unsafe outside of {}", i + 1, UNSAFE.join(", ")));
            } else if block && !lines[i.saturating_sub(6)..=i].iter().any(|l| l.contains("SAFETY:")) {
                wrong.push(format!("{path}:{}: unsafe without a SAFETY comment", i + 1));
            }
        }
    }
    check("unsafe", wrong);
}

#[test]
fn every_code_is_documented() {
    let page = std::fs::read_to_string(root().join("docs/error-codes.md")).expect("docs/error-codes.md is there");
    let documented: BTreeSet<&str> = page.lines().filter_map(|l| l.strip_prefix("| `")?.split('`').next()).collect();
    let mut used = BTreeSet::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| path != "tests/architecture.rs") {
        for (at, _) in text.match_indices('"') {
            let Some(code) = text.get(at + 1..at + 6).filter(|_| text.as_bytes().get(at + 6) == Some(&b'"')) else { continue };
            if code.starts_with(['E', 'W', 'N']) && code[1..].bytes().all(|b| b.is_ascii_digit()) {
                used.insert((code.to_string(), path.clone()));
            }
        }
    }
    let missing = used.iter().filter(|(code, _)| !documented.contains(code.as_str())).map(|(code, path)| format!("{code} ({path}) is not described"));
    let stale = documented.iter().filter(|code| !used.iter().any(|(c, _)| c == *code)).map(|code| format!("{code} is described and not used"));
    check("docs/error-codes.md against the sources", missing.chain(stale).collect());
}
