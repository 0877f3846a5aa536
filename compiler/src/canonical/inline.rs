//! Inlines every call: a module becomes one flat graph.
//!
//! A value of an inlined function is named with its call path, `@relu#2/%1`: the number counts the inlined calls of that function over the whole graph,
//! in order. Locations carry the same path. Calls inside regions are inlined into the region. What a call's result was called becomes an alias.
//! Invariant: afterwards no `call` is left, in the graph or in any region.

use indexmap::{IndexMap, IndexSet};
use ir::graph::{Graph, LocInfo, Module};
use ir::{Diagnostic, Loc, OpKind, Result, SecondaryMap, ValueId};
use std::sync::Arc;

/// The module's `main` with all calls inlined.
///
/// # Errors
/// `E0201` when functions call each other in a cycle, `E0202` for a call of an unknown function or with the wrong number of operands, `E0203` without `main`,
/// `E0204` when inlining makes too many ops.
pub fn run(module: &Module) -> Result<Graph> {
    let main = module.main().ok_or_else(|| {
        Diagnostic::input("E0203", "the module has no function `main`")
            .with_note(format!("it has {} functions", module.functions.len()))
            .with_help("name the function of the training step `main`")
    })?;
    let mut sizes = IndexMap::new();
    if inlined_ops(module, main, &mut sizes, 0) > OP_BUDGET {
        return Err(too_large(format!("inlining its calls makes more than {OP_BUDGET} operations")));
    }
    let mut inliner = Inliner { module, calls: IndexMap::new(), active: vec![main.name.clone()], ops: 0 };
    inliner.graph(main, "")
}

struct Inliner<'m> {
    module: &'m Module,
    /// How often each function was inlined so far.
    calls: IndexMap<String, u32>,
    /// The functions being inlined, outermost first.
    active: Vec<String>,
    /// Ops made so far.
    ops: usize,
}

/// How many ops inlining may make: a few functions that call each other twice over make any number of them.
const OP_BUDGET: usize = 500_000;

/// How many ops a function has with its calls inlined, each function counted once; a cycle or an unknown function counts nothing and is found later.
fn inlined_ops<'m>(module: &'m Module, graph: &'m Graph, sizes: &mut IndexMap<&'m str, usize>, depth: usize) -> usize {
    let mut ops = 0usize;
    for op in graph.ops.values() {
        ops = ops.saturating_add(1);
        for region in &op.regions {
            ops = ops.saturating_add(inlined_ops(module, region, sizes, depth));
        }
        let OpKind::Call { callee } = &op.kind else { continue };
        let inside = match (sizes.get(callee.as_str()), module.function(callee)) {
            (Some(&known), _) => known,
            (None, Some(function)) if depth < MAX_DEPTH => {
                sizes.insert(&function.name, 0);
                let size = inlined_ops(module, function, sizes, depth + 1);
                sizes.insert(&function.name, size);
                size
            }
            _ => 0,
        };
        ops = ops.saturating_add(inside);
    }
    ops
}

/// How deep calls may be nested.
const MAX_DEPTH: usize = 256;

#[derive(Default)]
struct Target {
    graph: Graph,
    locs: IndexSet<LocInfo>,
}

impl Inliner<'_> {
    /// A function or region on its own, with the calls in it inlined.
    fn graph(&mut self, source: &Graph, path: &str) -> Result<Graph> {
        let mut target = Target { graph: Graph::new(source.name.clone()), locs: IndexSet::new() };
        target.graph.input_attributes.clone_from(&source.input_attributes);
        target.graph.output_attributes.clone_from(&source.output_attributes);
        let inputs = source.inputs.iter().map(|&v| target.graph.add_input(source.ty(v).clone(), prefixed(path, &source.values[v].name))).collect();
        target.graph.outputs = self.body(source, path, inputs, &mut target)?;
        if target.locs.is_empty() {
            target.locs.insert(LocInfo::default());
        }
        target.graph.locs = target.locs.into_iter().collect();
        Ok(target.graph)
    }

    /// Appends the ops of `source` to `target`, with `inputs` for its inputs, and returns its outputs.
    fn body(&mut self, source: &Graph, path: &str, inputs: Vec<ValueId>, target: &mut Target) -> Result<Vec<ValueId>> {
        let mut map: SecondaryMap<ValueId, ValueId> = SecondaryMap::with_default(ValueId(u32::MAX));
        for (&v, new) in source.inputs.iter().zip(inputs) {
            map[v] = new;
        }
        let call_path: Arc<str> = path.trim_end_matches('/').into();
        for op in source.ops.values() {
            let operands: Vec<ValueId> = op.operands.iter().map(|&v| map[v]).collect();
            if let OpKind::Call { callee } = &op.kind {
                let results = self.call(callee, operands, path, source, op.loc, target)?;
                for (&v, new) in op.results.iter().zip(results) {
                    map[v] = new;
                    let name = prefixed(path, &source.values[v].name);
                    if !name.is_empty() && target.graph.values[new].name != name {
                        target.graph.aliases.insert(name, new);
                    }
                }
                continue;
            }
            self.ops += 1;
            if self.ops > OP_BUDGET {
                return Err(too_large(format!("inlining its calls makes more than {OP_BUDGET} operations")));
            }
            let info = source.locs.get(op.loc).cloned().unwrap_or_default();
            let loc = Loc(target.locs.insert_full(LocInfo { path: call_path.clone(), ..info }).0 as u32);
            let types = op.results.iter().map(|&v| source.ty(v).clone()).collect();
            let names: Vec<Arc<str>> = op.results.iter().map(|&v| prefixed(path, &source.values[v].name)).collect();
            let new = target.graph.add_op(op.kind.clone(), operands, types, loc, &names);
            for (i, &v) in op.results.iter().enumerate() {
                map[v] = target.graph.ops[new].results[i];
            }
            for region in &op.regions {
                let region = self.graph(region, path)?;
                target.graph.ops[new].regions.push(region);
            }
        }
        Ok(source.outputs.iter().map(|&v| map[v]).collect())
    }

    fn call(&mut self, callee: &str, operands: Vec<ValueId>, path: &str, caller: &Graph, loc: Loc, target: &mut Target) -> Result<Vec<ValueId>> {
        let place = caller.locs.get(loc).map_or_else(String::new, |l| format!("line {}, column {}", l.line, l.column));
        let Some(function) = self.module.function(callee) else {
            return Err(Diagnostic::input("E0202", format!("call of the unknown function `@{callee}`")).with_note(format!("called at {place}")).into());
        };
        if function.inputs.len() != operands.len() {
            let message = format!("`@{callee}` takes {} arguments and is called with {}", function.inputs.len(), operands.len());
            return Err(Diagnostic::input("E0202", message).with_note(format!("called at {place}")).into());
        }
        if let Some(start) = self.active.iter().position(|f| f == callee) {
            let cycle: Vec<String> = self.active[start..].iter().chain([&callee.to_string()]).map(|f| format!("`@{f}`")).collect();
            return Err(Diagnostic::input("E0201", format!("functions call each other in a cycle: {}", cycle.join(" → ")))
                .with_note(format!("closed by the call at {place}"))
                .with_help("a training step cannot be recursive; write the recursion as a loop")
                .into());
        }
        if self.active.len() > MAX_DEPTH {
            return Err(too_large(format!("its calls are nested more than {MAX_DEPTH} deep")));
        }
        let count = self.calls.entry(callee.to_string()).or_insert(0);
        let path = format!("{path}@{callee}#{count}/");
        *count += 1;
        self.active.push(callee.to_string());
        let results = self.body(function, &path, operands, target);
        self.active.pop();
        results
    }
}

fn too_large(why: String) -> ir::Diagnostics {
    Diagnostic::input("E0204", format!("the step is too large: {why}")).with_help("write what repeats as a loop (`jax.lax.scan`)").into()
}

/// A name with its path before it.
pub(crate) fn prefixed(path: &str, name: &str) -> Arc<str> {
    if name.is_empty() || path.is_empty() { name.into() } else { format!("{path}{name}").into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::op::UnaryOp;
    use ir::{DType, TensorType};

    fn module() -> Module {
        let ty = TensorType::new(DType::F32, [4]);
        let mut f = Graph::new("f");
        let x = f.add_input(ty.clone(), "%arg0");
        let loc = f.add_loc(LocInfo { line: 9, ..LocInfo::default() });
        let op = f.add_op(OpKind::Unary(UnaryOp::Tanh), vec![x], vec![ty.clone()], loc, &["%0".into()]);
        f.outputs = vec![f.ops[op].results[0]];
        let mut main = Graph::new("main");
        let loc = main.add_loc(LocInfo { line: 3, ..LocInfo::default() });
        let mut v = main.add_input(ty.clone(), "%arg0");
        for name in ["%0", "%1"] {
            let op = main.add_op(OpKind::Call { callee: "f".into() }, vec![v], vec![ty.clone()], loc, &[name.into()]);
            v = main.ops[op].results[0];
        }
        main.outputs = vec![v];
        Module { name: "m".into(), functions: vec![main, f], meshes: Vec::new() }
    }

    #[test]
    fn calls_are_inlined_with_their_path() {
        let graph = run(&module()).expect("inlines");
        let names: Vec<&str> = graph.values.values().map(|v| &*v.name).collect();
        assert_eq!(names, ["%arg0", "@f#0/%0", "@f#1/%0"]);
        assert_eq!(graph.value_named("%1"), Some(graph.outputs[0]));
        assert_eq!(&*graph.locs[graph.ops[ir::OpId(1)].loc].path, "@f#1");
    }

    #[test]
    fn calls_that_double_at_every_level_are_refused() {
        let mut module = module();
        let ty = TensorType::new(DType::F32, [4]);
        for level in 0..40 {
            let mut f = Graph::new(if level == 0 { "f".to_string() } else { format!("f{level}") });
            let mut v = f.add_input(ty.clone(), "%arg0");
            let callee = format!("f{}", level + 1);
            f.add_loc(LocInfo::default());
            for _ in 0..2 {
                let kind = if level == 39 { OpKind::Unary(UnaryOp::Tanh) } else { OpKind::Call { callee: callee.clone() } };
                v = f.add(kind, vec![v], ty.clone(), Loc(0));
            }
            f.outputs = vec![v];
            if level == 0 { module.functions[1] = f } else { module.functions.push(f) }
        }
        assert_eq!(run(&module).expect_err("too large").0[0].code, "E0204");
    }

    #[test]
    fn a_cycle_of_calls_is_an_error_that_names_it() {
        let mut module = module();
        module.functions[1].ops[ir::OpId(0)].kind = OpKind::Call { callee: "f".into() };
        let error = run(&module).expect_err("a cycle");
        assert_eq!(error.0[0].code, "E0201");
        assert!(error.0[0].message.contains("`@f` → `@f`"));
    }
}
