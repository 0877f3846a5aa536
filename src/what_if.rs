//! `explain PLAN --what-if KEY:VALUE`: plans the step that a plan was made from again, with something asked otherwise.
//!
//! The plan's request is written as the flags of `compile`, changed, and read as `compile` reads it: the answer is the one that compiling anew gives.

use crate::compile;
use crate::diagnostics::Terminal;
use clap::FromArgMatches;
use compiler::batch::state::Overrides;
use compiler::pipeline::{self, Options, Timings};
use compiler::stop::Stop;
use compiler::tables::plan::{Shallow, plan};
use compiler::tables::search::Effort;
use cost_model::Cluster;
use ir::plan::{Plan, Request};
use ir::{Diagnostic, Result};

/// What can be changed, as flags of `compile`.
const KEYS: &[&str] =
    &["pin", "unpin", "stages", "mesh", "microbatches", "schedule", "recompute", "memory-limit", "strategy", "cluster", "loss", "batch", "state"];

/// Flags of `compile`, each with its value.
type Flags = Vec<(String, String)>;

/// A request as flags.
fn flags(request: &Request) -> Flags {
    let premises = &request.premises;
    let mut list = vec![("strategy".to_string(), Some(request.strategy.clone()).filter(|s| !s.is_empty()))];
    let mut add = |key: &str, value: Option<String>| list.push((key.into(), value));
    let joined = request.mesh.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
    add("mesh", Some(joined).filter(|m| !m.is_empty()));
    add("stages", request.stages.map(|n| n.to_string()));
    add("microbatches", request.microbatches.map(|n| n.to_string()));
    add("schedule", request.schedule.map(|k| k.name().to_string()));
    add("recompute", request.recompute.map(|m| m.name().to_string()));
    add("memory-limit", request.memory_limit.map(|b| b.0.to_string()));
    request.pins.iter().for_each(|p| add("pin", Some(p.clone())));
    add("state", premises.state.clone());
    add("batch", premises.batch.clone());
    add("loss", premises.loss.clone());
    list.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// The value's name in a pin.
fn pinned(pin: &str) -> &str {
    pin.split("=[").next().unwrap_or(pin).trim()
}

/// Changes flags as `changes` say; `auto` takes a flag away. Returns the cluster if that is changed.
fn changed(mut flags: Flags, changes: &[String]) -> Result<(Flags, Option<String>)> {
    let mut cluster = None;
    for text in changes {
        let wrong = |why: String| {
            Diagnostic::input("E0410", format!("`--what-if '{text}'`: {why}"))
                .with_help("for example `--what-if stages:4` or `--what-if 'pin:%51=[{\"x\"},{}]'`")
        };
        let Some((key, value)) = text.split_once(':').filter(|(_, v)| !v.is_empty()) else {
            return Err(wrong("expected KEY:VALUE".into()).into());
        };
        let key = key.trim().trim_start_matches("--");
        match key {
            "cluster" => cluster = Some(value.to_string()),
            "pin" => {
                flags.retain(|(k, v)| k != "pin" || pinned(v) != pinned(value));
                flags.push(("pin".into(), value.into()));
            }
            "unpin" => {
                let before = flags.len();
                flags.retain(|(k, v)| k != "pin" || pinned(v) != value);
                if flags.len() == before {
                    return Err(wrong(format!("the plan has no pin of `{value}`")).into());
                }
            }
            key if KEYS.contains(&key) => {
                flags.retain(|(k, _)| k != key);
                if value != "auto" || key == "strategy" {
                    flags.push((key.into(), value.into()));
                }
            }
            key => {
                let near = ir::diagnostic::nearest(key, KEYS.iter().copied()).map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
                return Err(wrong(format!("`{key}` is nothing that can be changed{near}")).with_note(format!("what can: {}", KEYS.join(", "))).into());
            }
        }
    }
    Ok((flags, cluster))
}

/// The flags as `compile` reads them.
fn read(cluster: &str, flags: &Flags) -> Result<compile::Args> {
    let mut words = vec!["compile".to_string(), format!("--cluster={cluster}")];
    words.extend(flags.iter().map(|(k, v)| format!("--{k}={v}")));
    words.push("step".into());
    let command = <compile::Args as clap::Args>::augment_args(clap::Command::new("compile"));
    let read = command.try_get_matches_from(words).and_then(|m| compile::Args::from_arg_matches(&m));
    read.map_err(|e| {
        Diagnostic::input("E0410", format!("the change cannot be read: {}", e.kind()))
            .with_note(e.to_string().lines().next().unwrap_or_default().to_string())
            .into()
    })
}

/// A plan of the same step with changes.
///
/// # Errors
/// `E0410` for a change that cannot be read, `E0912` for a plan that does not hold what it was made from, and those of `compile`.
pub(crate) fn again(before: &Plan, changes: &[String], terminal: &Terminal) -> Result<Plan> {
    let premises = &before.request.premises;
    if premises.cluster.is_empty() {
        return Err(Diagnostic::input("E0912", "this plan does not hold the cluster it was made for")
            .with_help("compile the model again with this build")
            .into());
    }
    let (flags, other) = changed(flags(&before.request), changes)?;
    let is_text = premises.cluster.contains(['\n', '=']);
    let cluster = match &other {
        Some(spec) => Cluster::parse(spec)?,
        None if is_text => Cluster::from_toml(&before.cluster.name, &premises.cluster)?,
        None => Cluster::parse(&premises.cluster)?,
    };
    let args = read(other.as_deref().unwrap_or(&before.cluster.name), &flags)?;
    let mut request = compile::request(&args)?;
    request.model.clone_from(&before.request.model);
    request.premises =
        if other.is_some() { compile::premises(&args)? } else { ir::plan::Premises { cluster: premises.cluster.clone(), ..compile::overridden(&args) } };
    request.premises.stacks.clone_from(&premises.stacks);
    let overrides = Overrides::parse(request.premises.state.as_deref(), request.premises.batch.as_deref(), request.premises.loss.as_deref())?;
    let line = terminal.progress_line(false);
    let mut stop = Stop::default().or_when(crate::interrupt::wish());
    if let Some(line) = &line {
        stop = stop.watched(line.watch());
    }
    let options = Options { request, overrides, cluster, level: "x86-64-v3".into(), code: false, stop };
    let timings = &mut Timings::default();
    if before.is_planned_only() {
        plan(&Shallow { module: &before.source, stacks: &premises.stacks }, &options, &Effort::default(), timings)
    } else {
        pipeline::compile(&before.source, &options, timings)
    }
}
