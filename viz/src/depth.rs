//! A plan's layers as the model has them, where identical layers were planned once: names, what stages hold, which layer stands for which.
//!
//! Stages count the model's layers, ops the planned ones. Without a depth the two are the same.

use ir::plan::Plan;

/// How many layers the model has.
pub(crate) fn layers(plan: &Plan) -> u32 {
    if plan.depth.is_empty() { plan.layers.len() as u32 } else { plan.depth.len() as u32 }
}

/// A planned layer's name without the values it reaches over.
pub(crate) fn short(plan: &Plan, planned: u32) -> String {
    plan.layers.get(planned as usize).map_or_else(|| format!("layer {planned}"), |l| l.name.split(" (").next().unwrap_or_default().to_string())
}

/// The names of the model's layers: `layers.40` for the forty-first of the stack whose few planned layers are `layers.0`, `layers.1`, …
pub(crate) fn names(plan: &Plan) -> Vec<String> {
    let mut seen: Vec<(String, u32)> = Vec::new();
    (0..layers(plan))
        .map(|l| {
            let own = short(plan, plan.layer_of_model(l));
            if plan.depth.is_empty() {
                return own;
            }
            if own.strip_prefix("layer ").is_some_and(|n| n.parse::<u32>().is_ok()) {
                return format!("layer {l}");
            }
            let numbered = own.rsplit_once('.').filter(|(_, n)| n.parse::<u32>().is_ok()).map(|(stack, _)| stack.to_string());
            let Some(stack) = numbered else { return own };
            let at = seen.iter().position(|s| s.0 == stack).unwrap_or_else(|| {
                seen.push((stack.clone(), 0));
                seen.len() - 1
            });
            seen[at].1 += 1;
            format!("{stack}.{}", seen[at].1 - 1)
        })
        .collect()
}

/// A range of the model's layers in words: `embed · layers.0 · layers.1 ×30`.
pub(crate) fn holds(plan: &Plan, (from, to): (u32, u32)) -> String {
    if from >= to {
        return "no layer".into();
    }
    if plan.depth.is_empty() {
        let (first, last) = (short(plan, from), short(plan, to - 1));
        return if to - from == 1 { first } else { format!("{first} to {last}") };
    }
    let planned: Vec<u32> = (from..to).map(|l| plan.layer_of_model(l)).collect();
    let parts: Vec<String> = planned
        .chunk_by(|a, b| a == b)
        .map(|same| if same.len() == 1 { short(plan, same[0]) } else { format!("{} ×{}", short(plan, same[0]), same.len()) })
        .collect();
    if parts.len() <= 6 { parts.join(" · ") } else { format!("{} · … · {}", parts[..3].join(" · "), parts[parts.len() - 2..].join(" · ")) }
}

/// `stands for 124 layers of the model`, or that another stands for it; empty where every layer stands for itself.
pub(crate) fn stands(plan: &Plan, planned: u32) -> String {
    if plan.depth.is_empty() {
        return String::new();
    }
    match plan.stands_for(planned) {
        0 => {
            let kind = plan.layers.get(planned as usize).map(|l| l.kind);
            let other = (0..plan.layers.len() as u32).find(|&l| plan.stands_for(l) > 1 && plan.layers.get(l as usize).map(|x| x.kind) == kind);
            other.map_or_else(|| "a copy that stands for no layer of the model".into(), |l| format!("a copy of {}, which stands for it", short(plan, l)))
        }
        1 => String::new(),
        n => format!("stands for {n} layers of the model"),
    }
}
