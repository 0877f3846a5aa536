//! Planning at scale: how long `compile --config` takes for published models on their clusters, how much memory, and how the plan compares with the best of
//! the grid of hand-made settings (tensor × pipeline × data × microbatches × recomputation × ZeRO) under the same prices.
//!
//! The second table holds the hidden size and varies the depth; the third varies the ranks. Everything is planned without code, as `--no-code` does.

mod support;

use std::process::Stdio;
use support::{report, run, shardwright};

/// (configuration, cluster, global batch, sequence, further flags, seconds that are aimed at)
type Case = (&'static str, &'static str, u64, u64, &'static [&'static str], f64);

const MODELS: &[Case] = &[
    ("llama3_8b", "dgx-h100:8", 512, 8192, &["--stages", "1", "--mesh", "8x8"], 2.0),
    ("llama3_8b", "dgx-h100:8", 512, 8192, &[], 20.0),
    ("gpt_39b", "p3.16xlarge:8", 1024, 1024, &["--dtype", "f16"], 5.0),
    ("gpt3_175b", "dgx-a100:128", 1536, 2048, &[], 20.0),
    ("llama3_405b", "dgx-h100:2048", 2048, 8192, &[], 20.0),
    ("mixtral_8x22b", "dgx-h100:16", 512, 4096, &[], 20.0),
    ("gpt_1t", "dgx-a100:384", 3072, 2048, &[], 20.0),
];

const DEPTHS: &[u64] = &[12, 24, 48, 96, 192];
const RANKS: &[u64] = &[1, 4, 16, 64, 256];

fn configuration(name: &str) -> String {
    format!("{}/examples/configs/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

struct Planned {
    seconds: f64,
    mebibytes: u64,
    plan_bytes: u64,
    json: serde_json::Value,
}

fn plan(config: &str, cluster: &str, batch: u64, sequence: u64, flags: &[&str]) -> Result<Planned, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let file = folder.path().join("model.plan");
    let mut command = shardwright();
    command.args(["compile", "--config", config, "--cluster", cluster, "--global-batch", &batch.to_string(), "--seq", &sequence.to_string()]);
    if !flags.contains(&"--dtype") {
        command.args(["--dtype", "bf16"]);
    }
    command.args(flags).args(["--no-code", "--json", "-o"]).arg(&file).stderr(Stdio::null());
    let child = run(&mut command)?;
    let json = child.output.lines().rev().find_map(|l| serde_json::from_str(l).ok()).ok_or("`compile --json` printed no result")?;
    let plan_bytes = std::fs::metadata(&file).map_err(|e| e.to_string())?.len();
    Ok(Planned { seconds: child.seconds, mebibytes: child.peak >> 10, plan_bytes, json })
}

fn line(name: &str, planned: &Planned, aim: Option<f64>) {
    let j = &planned.json;
    let mesh = j["mesh"].as_array().map(|m| m.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")).unwrap_or_default();
    let (step, grid) = (j["step_seconds"].as_f64().unwrap_or(f64::NAN), j["grid_seconds"].as_f64());
    let margin = grid.map_or_else(|| "no grid setting fits".into(), |g| format!("{g:.3} s, {:+.1} %", 100.0 * (g / step - 1.0)));
    report(&format!(
        "{name:44} {:6.2} s{} {:5} MiB  plan {:5} KiB  {} stages of {mesh}, M {}: step {step:.3} s, bubble {:.1} %, gap {:.2} %  grid {margin}",
        planned.seconds,
        aim.map(|a| format!(" (aim {a:.0})")).unwrap_or_default(),
        planned.mebibytes,
        planned.plan_bytes >> 10,
        j["stages"],
        j["microbatches"],
        100.0 * j["bubble"].as_f64().unwrap_or(f64::NAN),
        100.0 * j["gap"].as_f64().unwrap_or(f64::NAN),
    ));
}

fn main() {
    let mut failed = false;
    let mut tell = |name: &str, planned: Result<Planned, String>, aim: Option<f64>| match planned {
        Ok(p) => line(name, &p, aim),
        Err(why) => {
            report(&format!("{name}: {why}"));
            failed = true;
        }
    };
    report("published models:");
    for &(config, cluster, batch, sequence, flags, aim) in MODELS {
        let mesh = flags.iter().skip_while(|f| **f != "--mesh").nth(1).map(|m| format!(" mesh {m}")).unwrap_or_default();
        tell(&format!("{config} on {cluster}{mesh}"), plan(&configuration(config), cluster, batch, sequence, flags), Some(aim));
    }
    report("depth (gpt3_175b's layers on dgx-a100:16, batch 512):");
    for &depth in DEPTHS {
        let planned = std::fs::read_to_string(configuration("gpt3_175b")).map_err(|e| e.to_string()).and_then(|text| {
            let mut json: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            json["n_layer"] = depth.into();
            json["n_embd"] = 4096.into();
            json["n_head"] = 32.into();
            let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
            let file = folder.path().join("config.json");
            std::fs::write(&file, json.to_string()).map_err(|e| e.to_string())?;
            plan(&file.to_string_lossy(), "dgx-a100:16", 512, 2048, &[])
        });
        tell(&format!("{depth} layers"), planned, None);
    }
    report("ranks (gpt_39b, batch 2048):");
    for &nodes in RANKS {
        tell(&format!("{} devices", 8 * nodes), plan(&configuration("gpt_39b"), &format!("dgx-h100:{nodes}"), 2048, 1024, &[]), None);
    }
    std::process::exit(i32::from(failed));
}
