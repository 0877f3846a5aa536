//! Finds things in a plan by name or id: the decision of an op or value, the value an instruction or buffer is about, the roles of arguments.
//!
//! Built once per plan. Everything tolerates ids that the plan does not have, since a plan file is checked for its outer consistency only.

use crate::depth;
use ir::graph::Def;
use ir::plan::Plan;
use ir::{EntityId, OpId, ValueId};
use rustc_hash::FxHashMap;

/// Indices over a plan.
pub(crate) struct Lookup {
    /// Per op the position, in stage-then-decision order, of the decision it belongs to; its own stage's where there are several.
    pub(crate) op_group: Vec<Option<u32>>,
    /// Per value the decisions that decide it, in the same numbering.
    pub(crate) value_groups: Vec<Vec<u32>>,
    /// Per group its stage and its number among the stage's decisions.
    pub(crate) groups: Vec<(u32, u32)>,
    names: FxHashMap<String, ValueId>,
    /// Per line of the user's file the value that its op computes; none where several ops came from it.
    lines: FxHashMap<u32, Option<ValueId>>,
}

impl Lookup {
    /// Indexes a plan.
    pub(crate) fn new(plan: &Plan) -> Lookup {
        let mut op_group: Vec<Option<u32>> = vec![None; plan.graph.ops.len()];
        let mut value_groups: Vec<Vec<u32>> = vec![Vec::new(); plan.graph.values.len()];
        let mut groups = Vec::new();
        for (s, stage) in plan.stages.iter().enumerate() {
            for (d, decision) in stage.decisions.iter().enumerate() {
                let group = groups.len() as u32;
                groups.push((s as u32, d as u32));
                for op in &decision.ops {
                    let own = plan.placement.get(op.index()).is_some_and(|p| p.stage.0 == s as u32);
                    if let Some(slot) = op_group.get_mut(op.index())
                        && (slot.is_none() || own)
                    {
                        *slot = Some(group);
                    }
                }
                for value in &decision.values {
                    if let Some(list) = value_groups.get_mut(value.index()) {
                        list.push(group);
                    }
                }
            }
        }
        let mut names = FxHashMap::default();
        for (id, value) in plan.graph.values.iter() {
            if !value.name.is_empty() {
                names.entry(value.name.to_string()).or_insert(id);
            }
        }
        let mut lines: FxHashMap<u32, Option<ValueId>> = FxHashMap::default();
        for op in plan.graph.ops.values() {
            if let (Some(info), Some(&v)) = (plan.graph.locs.get(op.loc).filter(|l| l.line > 0), op.results.first()) {
                lines.entry(info.line).and_modify(|known| *known = None).or_insert(Some(v));
            }
        }
        Lookup { op_group, value_groups, groups, names, lines }
    }

    /// The value that a buffer's name or an instruction's source (`%51 (line 54)`) speaks of: by its own name, or by its line where one op came from it.
    /// `%v12` in a program is a number of the partitioned graph, not of the plan's, and is not taken for one.
    pub(crate) fn value_of_text(&self, text: &str) -> Option<ValueId> {
        let word = text.split(' ').next().unwrap_or("");
        let line = || text.rsplit_once("(line ")?.1.strip_suffix(')')?.parse().ok();
        self.names.get(text).or_else(|| self.names.get(word)).copied().or_else(|| self.lines.get(&line()?).copied().flatten())
    }

    /// `%v12`, the text of a value without a name.
    fn id_text(&self, word: &str) -> Option<ValueId> {
        let number: u32 = word.strip_prefix("%v")?.parse().ok()?;
        ((number as usize) < self.value_groups.len()).then_some(ValueId(number))
    }

    /// What a user names: a value by its name or result name, `%v12`, `op12`, `layer 3` or a layer's name, `stage 2`.
    pub(crate) fn find(&self, plan: &Plan, name: &str) -> Option<Target> {
        let name = name.trim();
        if let Some(v) = plan.graph.value_named(name).or_else(|| self.id_text(name)) {
            return Some(Target::Value(v));
        }
        let numbered = |word: &str| name.strip_prefix(word)?.trim_start().parse::<u32>().ok();
        if let Some(n) = numbered("stage").or_else(|| numbered("s")) {
            return ((n as usize) < plan.stages.len()).then_some(Target::Stage(n));
        }
        if let Some(n) = numbered("layer") {
            return (n < depth::layers(plan)).then_some(Target::Layer(n));
        }
        if let Some(l) = depth::names(plan).iter().position(|l| l == name) {
            return Some(Target::Layer(l as u32));
        }
        let number = numbered("op")?;
        ((number as usize) < plan.graph.ops.len()).then_some(Target::Op(OpId(number)))
    }

    /// Names near a misspelt one, best first: those that contain it, then by edit distance.
    pub(crate) fn near(&self, plan: &Plan, name: &str) -> Vec<String> {
        let layers = depth::names(plan);
        let known: Vec<&str> = plan
            .graph
            .values
            .values()
            .map(|v| &*v.name)
            .filter(|n| !n.is_empty())
            .chain(plan.graph.output_attributes.iter().map(|o| o.name.as_str()))
            .chain(layers.iter().map(String::as_str))
            .collect();
        let bare = name.trim().trim_start_matches('%');
        let mut found: Vec<String> = Vec::new();
        if !bare.is_empty() {
            found.extend(known.iter().filter(|k| k.contains(bare)).take(4).map(|k| (*k).to_string()));
        }
        if let Some(best) = ir::diagnostic::nearest(name, known.iter().copied())
            && !found.iter().any(|f| f == best)
        {
            found.push(best.to_string());
        }
        found
    }
}

/// What `explain` is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A value.
    Value(ValueId),
    /// An op.
    Op(OpId),
    /// A layer of the model.
    Layer(u32),
    /// A stage.
    Stage(u32),
}

/// What an argument is to the step, such as `parameter, replaced by result[3]`; empty for values that are not arguments.
pub(crate) fn role(plan: &Plan, value: ValueId) -> String {
    let Some(Def::Input(n)) = plan.graph.values.get(value).map(|v| v.def) else { return String::new() };
    let interface = &plan.interface;
    if let Some((_, result)) = interface.state.iter().find(|(a, _)| *a == n) {
        let kind = if interface.parameters.contains(&n) { "parameter" } else { "state" };
        let name = plan.graph.output_attributes.get(*result as usize).map(|o| o.name.clone()).filter(|n| !n.is_empty());
        return format!("{kind}, replaced by {}", name.unwrap_or_else(|| format!("result {result}")));
    }
    if let Some((_, dim)) = interface.batch.iter().find(|(a, _)| *a == n) {
        return dim.map_or_else(|| "batch data".into(), |d| format!("batch data, batch in dimension {d}"));
    }
    if interface.constants.contains(&n) { "the same in every step".into() } else { "argument".into() }
}

/// The place in the user's file: `step.mlir:54:5`, with JAX's name and the call path when there are any.
pub(crate) fn place(plan: &Plan, op: OpId) -> String {
    let Some(info) = plan.graph.ops.get(op).and_then(|o| plan.graph.locs.get(o.loc)) else { return String::new() };
    let mut parts = Vec::new();
    if info.line > 0 {
        parts.push(if info.column > 0 {
            format!("{}:{}:{}", plan.request.model, info.line, info.column)
        } else {
            format!("{}:{}", plan.request.model, info.line)
        });
    }
    parts.extend(info.name.as_deref().filter(|n| !n.is_empty()).map(str::to_string));
    if !info.path.is_empty() {
        parts.push(format!("through {}", info.path));
    }
    parts.join(" · ")
}
