//! The command line: every bad input has its diagnostic and exit code, and nothing panics.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn shardwright(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shardwright")).args(arguments).env("RUST_BACKTRACE", "0").output().expect("the command starts")
}

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models")
}

fn mlp() -> String {
    models().join("mlp.mlir").display().to_string()
}

/// The exit code, and everything that was printed.
fn outcome(arguments: &[&str]) -> (i32, String) {
    let output = shardwright(arguments);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("panicked"), "{arguments:?} panics: {text}");
    (output.status.code().unwrap_or(-1), text)
}

/// Fails with `code`, naming all of `parts`.
fn refused(arguments: &[&str], code: i32, parts: &[&str]) {
    let (got, text) = outcome(arguments);
    assert_eq!(got, code, "{arguments:?} exits with {got}: {text}");
    for part in parts {
        assert!(text.contains(part), "{arguments:?} does not say {part:?}: {text}");
    }
}

fn compile(extra: &[&str], code: i32, parts: &[&str]) {
    let model = mlp();
    let mut arguments = vec!["compile", model.as_str()];
    if !extra.contains(&"--cluster") {
        arguments.extend(["--cluster", "local:4"]);
    }
    arguments.extend(extra);
    arguments.push("--no-code");
    refused(&arguments, code, parts);
}

/// A plan of the mlp in a folder of its own.
fn plan(folder: &Path) -> String {
    let path = folder.join("mlp.plan").display().to_string();
    let (code, text) = outcome(&["compile", &mlp(), "--cluster", "local:2", "-o", &path]);
    assert_eq!(code, 0, "{text}");
    path
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    compile(&["--cluster", "local:0"], 2, &["E03"]);
    compile(&["--cluster", "dgx-a10:1"], 2, &["E03", "dgx-a100"]);
    compile(&["--mesh", "3x2"], 2, &["E0402", "6 devices", "has 4"]);
    compile(&["--mesh", "0"], 2, &["E0402"]);
    compile(&["--mesh", "2xx"], 2, &["E0409"]);
    compile(&["--mesh", "2x2", "--stages", "2"], 2, &["E0402", "`--stages 1` fits"]);
    compile(&["--stages", "3"], 2, &["E0402"]);
    compile(&["--stages", "many"], 2, &["E0409"]);
    compile(&["--microbatches", "0"], 2, &["E0404", "help"]);
    compile(&["--microbatches", "5"], 2, &["E0404", "does not divide"]);
    compile(&["--schedule", "zigzag"], 2, &["E0409", "gpipe"]);
    compile(&["--strategy", "zero4"], 2, &["E0401", "zero"]);
    compile(&["--memory-limit", "8 bananas"], 2, &["E0409", "bananas"]);
    compile(&["--memory-limit", "1KiB", "--stages", "1"], 1, &["E0502", "missing", "--memory-limit"]);
    compile(&["--state", "0-900"], 2, &["E02"]);
    compile(&["--batch", "77"], 2, &["E02"]);
    compile(&["--loss", "nothing"], 2, &["E02"]);
    compile(&["-o", "/no/such/folder/x.plan"], 2, &["/no/such/folder"]);
    compile(&["--stages", "4"], 0, &["N0401", "no matrix product"]);
    compile(&["--strategy", "pipeline", "--stages", "1"], 2, &["E0419", "--stages"]);
    compile(&["--strategy", "pipeline", "--cluster", "local:1"], 2, &["E0419"]);
    compile(&["--cluster", "local:100000"], 2, &["E0302", "local:256"]);
    compile(&["--cpu", "x86-64-v9"], 2, &["E0803", "help", "x86-64-v3"]);
    for flags in [&["--state", "0=900"][..], &["--state", "0=0,0=1"], &["--batch", "77"], &["--batch", "0"], &["--loss", "nothing"], &["--loss", "0"]] {
        compile(flags, 2, &["E02", "help"]);
    }
    compile(&["--cluster", "local:16", "--stages", "16"], 2, &["layers", "E0403", "`--stages "]);
    compile(&["--stages", "2", "--schedule", "interleaved", "--chunks", "99"], 2, &["198", "E0403"]);
}

#[test]
fn pins_are_checked_and_kept() {
    compile(&["--pin", "%nothing=[{\"x\"}]"], 2, &["E0406", "%nothing"]);
    compile(&["--pin", "%arg1=[{\"x\"},{\"x\"}]", "--stages", "1", "--mesh", "4"], 2, &["E0407", "twice"]);
    compile(&["--pin", "%arg1=[{\"x\"}]", "--stages", "1", "--mesh", "4"], 2, &["E0407", "dimensions"]);
    compile(&["--pin", "%arg1=[{\"z\"},{}]", "--stages", "1", "--mesh", "4"], 2, &["E0408", "\"z\""]);
    compile(&["--pin", "%arg0", "--stages", "1"], 2, &["E0405"]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("p.plan").display().to_string();
    let pin = "%arg1=[{},{\"x\"}]";
    let (code, text) = outcome(&["compile", &mlp(), "--cluster", "local:4", "--mesh", "4", "--pin", pin, "-o", &path]);
    assert_eq!(code, 0, "{text}");
    let plan = ir::plan::Plan::from_bytes(&std::fs::read(&path).expect("a file")).expect("a plan");
    let v = plan.graph.value_named("%arg1").expect("the value is there");
    let sharding = plan.stages[0].shardings[v.0 as usize].clone().expect("it has a sharding");
    assert_eq!(sharding.display(&plan.stages[0].mesh).to_string(), "[{}, {\"x\"}]");
    assert_eq!(plan.request.pins, [pin]);
}

#[test]
fn cluster_files_are_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("c.toml");
    let example = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/clusters/a100.toml")).expect("the example");
    let name = path.display().to_string();
    std::fs::write(&path, &example).expect("written");
    compile(&["--cluster", &name, "--stages", "1"], 0, &[]);
    std::fs::write(&path, format!("devices_per_nod = 3\n{example}")).expect("written");
    compile(&["--cluster", &name], 2, &["devices_per_nod", "devices_per_node"]);
    std::fs::write(&path, "name = [").expect("written");
    compile(&["--cluster", &name], 2, &["E03", "c.toml:1"]);
}

#[test]
fn model_files_that_are_none_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path.display().to_string()
    };
    let text = std::fs::read_to_string(mlp()).expect("the model");
    let cut = file("cut.mlir", &text.as_bytes()[..text.len() / 2]);
    let garbage: Vec<u8> = (0..100_000_000u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect();
    let garbage = file("garbage.mlir", &garbage);
    let empty = file("empty.mlir", b"");
    let unknown = file("unknown.mlir", text.replacen("stablehlo.maximum", "stablehlo.maximun", 1).as_bytes());
    let wrong_type = file("type.mlir", text.replacen("-> tensor<", "-> tensor<7x", 1).as_bytes());
    for (path, parts) in [
        (&cut, &["E01", "cut.mlir"][..]),
        (&garbage, &["E01"]),
        (&empty, &["E01"]),
        (&unknown, &["E01", "maximun", "unknown.mlir:"]),
        (&wrong_type, &["E01", "type.mlir:"]),
        (&"/no/such/file.mlir".to_string(), &["E0118"]),
    ] {
        refused(&["compile", path, "--cluster", "local:2", "--no-code"], 2, parts);
    }
}

#[test]
fn plans_that_are_damaged_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = plan(folder.path());
    let bytes = std::fs::read(&path).expect("the plan");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name).display().to_string();
        std::fs::write(&path, bytes).expect("written");
        path
    };
    let cut = write("cut.plan", &bytes[..bytes.len() - 100]);
    let mut other = bytes.clone();
    other[8] = 99;
    let other = write("other.plan", &other);
    let mut flipped = bytes.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let flipped = write("flipped.plan", &flipped);
    let none = write("none.plan", b"hello");
    for command in ["run", "verify", "view", "explain"] {
        for (path, code) in [(&cut, "E0903"), (&other, "E0902"), (&flipped, "E0904"), (&none, "E0901")] {
            let mut arguments = vec![command, path.as_str()];
            if command == "explain" {
                arguments.push("%0");
            }
            refused(&arguments, 2, &[code]);
        }
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = plan(folder.path());
    let inputs = models().join("mlp.safetensors").display().to_string();
    let (code, text) = outcome(&["run", &path, "--inputs", &inputs, "--steps", "2", "--json"]);
    assert_eq!(code, 0, "{text}");
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with('{') && l.contains("\"step\"")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    for command in ["run", "verify"] {
        refused(&[command, &path, "--steps", "0"], 2, &["E0409", "--steps 0"]);
    }
    let other = models().join("gpt_tiny.safetensors").display().to_string();
    refused(&["run", &path, "--inputs", &other], 2, &["E06"]);
    refused(&["run", &path, "--inputs", "/no/such.safetensors"], 2, &["E06"]);
    refused(&["run", &path, "--inputs", &mlp()], 2, &["E06"]);
    refused(&["run", &path, "--inputs", &inputs, "--save", "/no/such/folder/x.safetensors"], 2, &["/no/such/folder"]);
    let page = folder.path().join("page.html").display().to_string();
    assert_eq!(outcome(&["view", &path, "-o", &page]).0, 0);
    assert!(std::fs::read_to_string(&page).expect("the page").contains("</html>"));
    refused(&["view", &path, "-o", "/no/such/folder/page.html"], 2, &["/no/such/folder"]);
    refused(&["explain", &path, "%nothing"], 2, &["%nothing"]);
    assert_eq!(outcome(&["explain", &path, "%arg0"]).0, 0);
    let (code, text) = outcome(&["verify", &path, "--inputs", &inputs]);
    assert_eq!(code, 0, "{text}");
}

/// State or a batch without elements is planned, executed and verified as anything else is.
#[test]
fn tensors_without_elements_are_legal() {
    let folder = tempfile::tempdir().expect("a folder");
    for (state, batch) in [("0x4", "8x4"), ("4x4", "0x4"), ("0x4", "0x4")] {
        let text = format!(
            "module @z {{
              func.func public @main(%arg0: tensor<4x4xf32>, %arg1: tensor<{state}xf32>, %arg2: tensor<{batch}xf32>)
                  -> (tensor<4x4xf32>, tensor<{state}xf32>, tensor<f32>) {{
                %c = stablehlo.constant dense<2.0> : tensor<f32>
                %0 = stablehlo.dot_general %arg2, %arg0, contracting_dims = [1] x [0] : (tensor<{batch}xf32>, tensor<4x4xf32>) -> tensor<{batch}xf32>
                %1 = stablehlo.tanh %0 : tensor<{batch}xf32>
                %2 = stablehlo.reduce(%1 init: %c) applies stablehlo.add across dimensions = [0, 1] : (tensor<{batch}xf32>, tensor<f32>) -> tensor<f32>
                %3 = stablehlo.dot_general %arg2, %1, contracting_dims = [0] x [0] : (tensor<{batch}xf32>, tensor<{batch}xf32>) -> tensor<4x4xf32>
                %4 = stablehlo.subtract %arg0, %3 : tensor<4x4xf32>
                %5 = stablehlo.negate %arg1 : tensor<{state}xf32>
                return %4, %5, %2 : tensor<4x4xf32>, tensor<{state}xf32>, tensor<f32>
              }}
            }}"
        );
        let model = folder.path().join("m.mlir").display().to_string();
        std::fs::write(&model, text).expect("written");
        let path = folder.path().join("m.plan").display().to_string();
        for strategy in ["auto", "data", "zero3"] {
            let (code, text) = outcome(&["compile", &model, "--cluster", "local:2", "--strategy", strategy, "-o", &path]);
            assert_eq!(code, 0, "{state} {batch} {strategy}: {text}");
            let (code, text) = outcome(&["verify", &path]);
            assert_eq!(code, 0, "{state} {batch} {strategy}: {text}");
        }
    }
}

#[test]
fn an_output_is_never_an_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("m.mlir").display().to_string();
    std::fs::copy(mlp(), &model).expect("copied");
    refused(&["compile", &model, "--cluster", "local:2", "-o", &model], 2, &["E0911", "the model itself"]);
    assert_eq!(std::fs::read(&model).ok(), std::fs::read(mlp()).ok());
    let path = plan(folder.path());
    let before = std::fs::read(&path).expect("the plan");
    for flag in ["--save", "--trace"] {
        refused(&["run", &path, flag, &path], 2, &["E0911", "the plan itself"]);
    }
    refused(&["view", &path, "-o", &path], 2, &["E0911"]);
    let twice = folder.path().join("both").display().to_string();
    refused(&["run", &path, "--save", &twice, "--trace", &twice], 2, &["E0911", "--trace"]);
    assert_eq!(std::fs::read(&path).expect("the plan"), before);
}

/// What is saved holds no batch: going on without one is refused, not trained on zeros; a second file may hold it.
#[test]
fn forgotten_data_is_no_zeros() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = plan(folder.path());
    let inputs = models().join("mlp.safetensors").display().to_string();
    let saved = folder.path().join("saved.safetensors").display().to_string();
    let loss = |text: &str| text.lines().find_map(|l| Some(l.split_once("loss ")?.1.trim().to_string()));
    let (code, text) = outcome(&["run", &path, "--inputs", &inputs, "--steps", "2", "--save", &saved]);
    assert_eq!(code, 0, "{text}");
    let second = loss(text.lines().filter(|l| l.starts_with("step 1")).collect::<String>().as_str());
    refused(&["run", &path, "--inputs", &saved], 2, &["E0623", "--batches", "--zeros"]);
    assert_eq!(outcome(&["run", &path, "--inputs", &saved, "--zeros"]).0, 0);
    assert_eq!(outcome(&["run", &path]).0, 0, "without any argument it is a trial");
    // Later files count: the batch from the first, the state from the second.
    let (code, text) = outcome(&["run", &path, "--inputs", &inputs, "--inputs", &saved]);
    assert_eq!(code, 0, "{text}");
    assert_ne!(loss(&text), second, "{text}");
    let (_, again) = outcome(&["run", &path, "--inputs", &inputs]);
    assert_ne!(loss(&text), loss(&again), "the state of the second file is taken");
    let (code, text) = outcome(&["verify", &path, "--inputs", &saved]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("N0602"), "{text}");
}

#[test]
fn state_saved_under_one_plan_goes_on_under_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("a.plan").display().to_string(), folder.path().join("b.plan").display().to_string());
    let model = models().join("gpt_tiny.mlir").display().to_string();
    let inputs = models().join("gpt_tiny.safetensors").display().to_string();
    let saved = folder.path().join("state.safetensors").display().to_string();
    assert_eq!(outcome(&["compile", &model, "--cluster", "local:4", "--strategy", "zero3", "-o", &first]).0, 0);
    assert_eq!(outcome(&["compile", &model, "--cluster", "local:2", "--stages", "2", "--microbatches", "2", "-o", &second]).0, 0);
    let losses = |text: &str| -> Vec<f64> { text.lines().filter_map(|l| l.split("loss ").nth(1)?.trim().parse().ok()).collect() };
    let (code, text) = outcome(&["run", &first, "--inputs", &inputs, "--steps", "4"]);
    assert_eq!(code, 0, "{text}");
    let whole = losses(&text);
    assert_eq!(outcome(&["run", &first, "--inputs", &inputs, "--steps", "2", "--save", &saved]).0, 0);
    // The saved state does not hold the batch: it is given beside it, as a file of one batch.
    let plan = ir::plan::Plan::from_bytes(&std::fs::read(&second).expect("a file")).expect("a plan");
    let types = runtime::checkpoint::argument_types(&plan);
    let (given, _) = runtime::checkpoint::read(Path::new(&inputs), &types).expect("the arguments");
    let batch: runtime::Arguments = plan
        .interface
        .batch
        .iter()
        .filter_map(|(i, _)| {
            let t = given.get(i)?;
            let shape = [vec![1], t.ty.shape.clone()].concat();
            Some((*i, std::sync::Arc::new(runtime::Tensor { ty: ir::TensorType::new(t.ty.dtype, shape), bytes: t.bytes.clone() })))
        })
        .collect();
    let batches = folder.path().join("batches.safetensors");
    runtime::checkpoint::write(&batches, &batch).expect("written");
    let (code, text) = outcome(&["run", &second, "--inputs", &saved, "--batches", &batches.display().to_string(), "--steps", "2"]);
    assert_eq!(code, 0, "{text}");
    for (got, want) in losses(&text).iter().zip(&whole[2..]) {
        assert!((got - want).abs() < 1e-4 * want, "{text} after {whole:?}");
    }
}

/// What a machine without an NVIDIA driver says; one with a driver is left to `scripts/gpu.sh`.
#[test]
fn a_plan_for_gpus_says_what_is_missing() {
    if Path::new("/proc/driver/nvidia").exists() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gpu.plan").display().to_string();
    let (code, text) = outcome(&["compile", &mlp(), "--cluster", "local:1", "--target", "cuda:sm_80", "-o", &path]);
    assert_eq!(code, 0, "{text}");
    refused(&["run", &path, "--device", "cuda"], 1, &["E0670", "libcuda.so", "--device ptx-emulator"]);
    refused(&["run", &path], 1, &["E0670"]);
    refused(&["bandwidth", &path], 1, &["E0670", "libcuda.so"]);
    refused(&["run", &path, "--device", "ptx-emulator", "--tf32"], 2, &["E0409", "--device cuda"]);
    refused(&["run", &path, "--device", "ptx-emulator", "--no-graphs"], 2, &["E0409", "--device cuda"]);
    refused(&["run", &plan(folder.path()), "--device", "cuda"], 1, &["E0607", "--target cuda:sm_80"]);
}
