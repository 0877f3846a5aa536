//! How a prediction is printed.

use crate::diagnostics::Terminal;
use compiler::predict::assemble::order_name;
use compiler::predict::parts::{Exchange, Traffic};
use compiler::predict::{Framework, Kinds, Model, Prediction, Setting, Solved};
use cost_model::Cluster;
use ir::{Bytes, Seconds};
use models::Config;
use serde_json::{Value, json};

/// What is printed.
pub(super) struct Shown<'a> {
    pub(super) config: &'a Config,
    pub(super) model: &'a Model,
    pub(super) setting: &'a Setting,
    pub(super) cluster: &'a Cluster,
    pub(super) framework: &'a Framework,
    pub(super) prediction: &'a Prediction,
}

impl Shown<'_> {
    /// Prints it, with the collectives of a solved mesh if they are asked for.
    pub(super) fn print(&self, collectives: Option<&Solved>, terminal: &Terminal) {
        let Shown { config, model, setting, cluster, framework, prediction: p } = *self;
        if terminal.json() {
            let mut value = as_json(model, setting, cluster, framework, p);
            if let Some(s) = collectives {
                value["collectives"] = s.parts.exchanges.iter().map(exchange).collect();
            }
            return terminal.object(&value);
        }
        show(config, model, setting, cluster, framework, p, terminal);
        for e in collectives.iter().flat_map(|s| &s.parts.exchanges) {
            let layer = e.layer.map_or_else(|| "all".into(), |l| l.to_string());
            terminal.line(&format!(
                "          layer {layer:3} {:9} {:11} {:14} {:>11} over {:4} devices on {:3} nodes {:>12}  {}",
                format!("{:?}", e.phase).to_lowercase(),
                format!("{:?}", e.traffic).to_lowercase(),
                format!("{:?}", e.kind),
                e.bytes.to_string(),
                e.group.0,
                e.group.1,
                Seconds(e.seconds).to_string(),
                e.value
            ));
        }
    }
}

fn exchange(e: &Exchange) -> Value {
    json!({
        "layer": e.layer, "phase": format!("{:?}", e.phase).to_lowercase(), "for": format!("{:?}", e.traffic).to_lowercase(), "kind": format!("{:?}", e.kind),
        "bytes": e.bytes.0, "devices": e.group.0, "nodes": e.group.1, "seconds": e.seconds, "value": e.value,
    })
}

fn show(config: &Config, model: &Model, setting: &Setting, cluster: &Cluster, framework: &Framework, p: &Prediction, terminal: &Terminal) {
    let line = |name: &str, text: String| terminal.line(&format!("{name:>9} {text}"));
    line(
        "Model",
        format!(
            "{}  {} parameters in {} layers, {} tokens a sequence",
            config.name,
            crate::trace::count(model.parameters),
            model.limits.layers,
            model.limits.sequence
        ),
    );
    line(
        "Setting",
        format!(
            "tensor {} × context {} × data {} × pipeline {} on {} · {} microbatches of {} · {} · ZeRO {} · {} recomputed · by {}",
            setting.tensor,
            setting.context,
            setting.data,
            setting.pipeline,
            cluster.name,
            setting.microbatches(),
            setting.micro_batch,
            order_name(setting.schedule),
            setting.zero,
            setting.recompute.name(),
            framework.name
        ),
    );
    line("Step", format!("{}   {:.0} tokens/s a device", p.step, p.tokens_per_second));
    line(
        "",
        format!(
            "{:.1} model TFLOP/s · {:.1} hardware TFLOP/s a device · MFU {:.1} % · bubble {:.1} %",
            p.model_flops / 1e12,
            p.hardware_flops / 1e12,
            100.0 * p.mfu,
            100.0 * p.bubble
        ),
    );
    line("Time", "on the busiest stage".into());
    for (name, t) in rows(p).into_iter().filter(|r| r.1.0 > 0.0) {
        line("", format!("{name:34} {:>12} {:5.1} %", t.to_string(), 100.0 * t.0 / p.step.0));
    }
    line("Memory", format!("{} of {} on the fullest device", p.memory, p.capacity));
    let kinds: Vec<String> = kinds(&Kinds::default()).iter().map(|k| format!("{:>13}", k.0)).collect();
    line("", format!("{:6} {} {:>13}", "stage", kinds.join(" "), "all"));
    for (s, stage) in distinct(p) {
        let cells: Vec<String> = self::kinds(&stage.memory).iter().map(|k| format!("{:>13}", Bytes(k.1 as u64).to_string())).collect();
        line("", format!("{s:6} {} {:>13}", cells.join(" "), Bytes(stage.memory.total() as u64).to_string()));
    }
    if !p.fits() {
        line("Memory", format!("it does not fit: {} are missing", Bytes(p.memory.0 - p.capacity.0)));
    }
}

/// Stages, those in the middle of many left out.
fn distinct(p: &Prediction) -> Vec<(usize, &compiler::predict::StagePrediction)> {
    let n = p.stages.len();
    p.stages.iter().enumerate().filter(|(s, _)| n <= 6 || *s < 3 || *s + 2 >= n).collect()
}

fn kinds(k: &Kinds) -> [(&'static str, f64); 6] {
    [
        ("parameters", k.parameters),
        ("optimizer", k.optimizer),
        ("gradients", k.gradients),
        ("activations", k.activations),
        ("temporaries", k.temporaries),
        ("overhead", k.overhead),
    ]
}

/// The bill in rows.
fn rows(p: &Prediction) -> Vec<(String, Seconds)> {
    let b = &p.bill;
    let mut rows = vec![("products".to_owned(), b.products), ("attention".into(), b.attention), ("elementwise and indexed".into(), b.streams)];
    rows.extend(Traffic::ALL.iter().map(|&(t, name)| (format!("exposed communication: {name}"), b.exposed[t as usize])));
    rows.extend([("waiting for launches".into(), b.launch), ("update".into(), b.update), ("bubble and transfers".into(), b.bubble)]);
    rows
}

fn as_json(model: &Model, setting: &Setting, cluster: &Cluster, framework: &Framework, p: &Prediction) -> Value {
    let b = &p.bill;
    let exposed: serde_json::Map<String, Value> = Traffic::ALL.iter().map(|&(t, name)| (name.into(), json!(b.exposed[t as usize].0))).collect();
    let memory = |k: &Kinds| kinds(k).iter().map(|&(name, bytes)| (name.into(), json!(bytes as u64))).collect::<serde_json::Map<String, Value>>();
    json!({
        "cluster": cluster.name,
        "framework": framework.name,
        "parameters": model.parameters,
        "devices": setting.devices(),
        "microbatches": setting.microbatches(),
        "step_seconds": p.step.0,
        "parts_seconds": {
            "products": b.products.0, "attention": b.attention.0, "elementwise": b.streams.0, "exposed": exposed,
            "launch": b.launch.0, "update": b.update.0, "bubble": b.bubble.0,
        },
        "bubble": p.bubble,
        "tokens_per_second_per_device": p.tokens_per_second,
        "model_flops_per_device": p.model_flops,
        "hardware_flops_per_device": p.hardware_flops,
        "mfu": p.mfu,
        "memory_bytes": p.memory.0,
        "allocated_bytes": p.allocated.0,
        "capacity_bytes": p.capacity.0,
        "fits": p.fits(),
        "stages": p.stages.iter().map(|s| json!({
            "layers": s.layers, "forward_seconds": s.times.forward.0, "backward_seconds": s.times.backward.0, "once_seconds": s.times.after.0,
            "in_flight": s.in_flight, "memory_bytes": memory(&s.memory),
        })).collect::<Vec<_>>(),
    })
}
