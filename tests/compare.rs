//! `compare`: rows add up, what is best is first, what does not fit says by how much, and bad input is refused with a way out.

use std::process::Command;

/// Runs the command: exit code, standard output, standard error.
fn outcome(args: &[&str]) -> (i32, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_shardwright")).args(args).output().expect("the command starts");
    let text = |b: Vec<u8>| String::from_utf8_lossy(&b).into_owned();
    (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
}

fn path(name: &str) -> String {
    format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn report(args: &[&str]) -> serde_json::Value {
    let (code, out, err) = outcome(&[&["compare", "--json"], args].concat());
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).expect("one object")
}

/// What holds of every report.
fn check(report: &serde_json::Value) {
    let rows = report["rows"].as_array().expect("rows");
    let steps: Vec<f64> = rows.iter().filter_map(|r| r["step_seconds"].as_f64()).collect();
    assert!(!steps.is_empty() && steps.windows(2).all(|w| w[0] <= w[1]), "best first: {steps:?}");
    for row in rows.iter().filter(|r| r["fits"] == true) {
        let sum = |key: &str| -> f64 { row[key].as_array().expect("parts").iter().filter_map(|p| p[1].as_f64()).sum() };
        let (step, memory) = (row["step_seconds"].as_f64().expect("a step"), row["memory_bytes"].as_f64().expect("bytes"));
        assert!((sum("parts_seconds") - step).abs() <= 1e-6 * step, "{row}");
        assert!((sum("memory_parts_bytes") - memory).abs() <= 4.0 && memory <= report["capacity_bytes"].as_f64().expect("bytes"), "{row}");
        assert!((0.0..=1.0).contains(&row["mfu"].as_f64().expect("a share")) && (0.0..1.0).contains(&row["bubble"].as_f64().expect("a share")), "{row}");
    }
    // What is free is no slower than what it could be and can be executed.
    let of = |name: &str| rows.iter().find(|r| r["strategy"] == name).and_then(|r| r["step_seconds"].as_f64());
    if let Some(auto) = of("auto") {
        let executed = rows.iter().filter(|r| r["executed"] == true).filter_map(|r| r["step_seconds"].as_f64()).fold(f64::INFINITY, f64::min);
        assert!(auto <= executed * (1.0 + 1e-9), "auto {auto}, the best {executed}");
    }
}

#[test]
fn a_whole_step_is_compared() {
    let report = report(&[&path("models/gpt_tiny.mlir"), "--cluster", "local:4"]);
    check(&report);
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 20);
    let of = |name: &str| rows.iter().find(|r| r["strategy"] == name).expect("all are there").clone();
    for fits in ["auto", "alpa", "data", "zero1", "zero2", "zero3", "hsdp", "megatron", "gpipe", "1f1b", "tensor-2d", "ulysses", "ring", "zero-bubble"] {
        assert_eq!(of(fits)["fits"], true, "{fits}");
    }
    assert_eq!(
        (of("ring")["executed"].as_bool(), of("zero-bubble")["executed"].as_bool(), of("zero3")["executed"].as_bool()),
        (Some(false), Some(false), Some(true))
    );
    assert!(
        of("tensor-3d")["why"].as_str().is_some_and(|w| w.contains("cube")) && of("tensor-3d")["help"].as_str().is_some_and(|h| h.starts_with("8 devices"))
    );
    assert!(of("expert")["why"].as_str().is_some_and(|w| w.contains("experts")));
}

#[test]
fn a_configuration_is_compared_with_prices_and_over_sizes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (cluster, page) = (folder.path().join("priced.toml"), folder.path().join("page.html"));
    std::fs::write(&cluster, "base = \"dgx-a100:2\"\nname = \"priced\"\nprice = 2.0\n").expect("it can be written");
    let (config, cluster, html) = (path("configs/gpt2_124m.json"), cluster.display().to_string(), page.display().to_string());
    let flags = ["--config", &config, "--cluster", &cluster, "--global-batch", "64", "--seq", "512", "--dtype", "bf16"];
    let report = report(&[&flags[..], &["--strategy", "data,zero3,1f1b,zero-bubble", "--html", &html]].concat());
    check(&report);
    let rows = report["rows"].as_array().expect("rows");
    for row in rows.iter().filter(|r| r["fits"] == true) {
        // 16 devices at 2 an hour.
        let price = 1e9 / (64.0 * 512.0) * row["step_seconds"].as_f64().expect("a step") / 3600.0 * 32.0;
        assert!((row["price_per_billion_tokens"].as_f64().expect("a price") / price - 1.0).abs() < 1e-9);
    }
    let nodes: Vec<u64> = report["scaling"].as_array().expect("sizes").iter().filter_map(|s| s["nodes"].as_u64()).collect();
    assert_eq!(nodes, [1, 2]);
    let step = |name: &str| rows.iter().find(|r| r["strategy"] == name).and_then(|r| r["step_seconds"].as_f64()).expect("it fits");
    assert!(step("zero-bubble") <= step("1f1b"));
    assert!(std::fs::read_to_string(&page).expect("the page is there").contains("id=\"scaling\""));
}

#[test]
fn what_does_not_fit_says_by_how_much() {
    let (code, out, _) = outcome(&["compare", &path("models/gpt_tiny.mlir"), "--cluster", "local:4", "--strategy", "data,zero1", "--memory-limit", "64KiB"]);
    assert_eq!(code, 1);
    assert_eq!(out.matches("does not fit: needs ").count(), 2, "{out}");
    assert!(out.contains(" of 64.00 KiB, "), "{out}");
}

#[test]
fn bad_input_is_refused() {
    let model = path("models/gpt_tiny.mlir");
    for (flags, parts) in [
        (&["--strategy", "zero4"][..], &["E0401", "zero"][..]),
        (&["--global-batch", "7"], &["E0409", "--global-batch 8"]),
        (&["--microbatches", "3"], &["E0404", "1, 2, 4"]),
        (&["--seq", "128"], &["E0409", "--config"]),
        (&["--memory-limit", "many"], &["E0409"]),
        (&["--recompute", "some"], &["E0409", "selective"]),
    ] {
        let (code, _, err) = outcome(&[&["compare", &model, "--cluster", "local:4"], flags].concat());
        assert_eq!(code, 2, "{flags:?}: {err}");
        assert!(parts.iter().all(|p| err.contains(p)), "{flags:?}: {err}");
    }
}
