//! What holds of every [`Graph`], checked after import and after each pass.
//!
//! - The `i`-th input is a value defined as input `i`; the `i`-th result of an op is a value defined as that; every value is one of these.
//! - Operands are values of the graph, defined by an input or an op that comes before; outputs are values of the graph.
//! - Attributes of inputs and outputs are as many as inputs and outputs, or none.
//! - Operand, result and region counts are those of [`OpKind::arity`](crate::op::OpKind::arity).
//! - Types are what [`infer::check`] derives: operands, attribute ranges (dimensions, permutations, bounds of slices and windows), results.
//! - A constant's data has the size its type needs.
//! - Regions are closed graphs with the signature their op needs, and keep these invariants themselves.
//! - The product of a type's dimensions is below 2^48.
//! - Every op has a location of the graph.
//!
//! Of a [`Module`]: function names are distinct, calls name functions whose types they match, and no call leads back to its function.

use crate::dtype::TensorType;
use crate::graph::{Def, Graph, Module};
use crate::id::EntityId;
use crate::infer;
use crate::literal::Data;
use crate::op::{OpId, OpKind};
use indexmap::IndexSet;
use rustc_hash::FxHashMap;

/// Problems after which a graph is not looked at further.
const LIMIT: usize = 20;

/// Checks every invariant of a graph; the problems found, each naming its op.
pub fn verify(graph: &Graph) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    check_graph(graph, "", &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Checks a module: each function, and the calls between them.
pub fn verify_module(module: &Module) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    let mut functions: FxHashMap<&str, &Graph> = FxHashMap::default();
    for f in &module.functions {
        if functions.insert(&f.name, f).is_some() {
            problems.push(format!("two functions are named @{}", f.name));
        }
    }
    for f in &module.functions {
        check_graph(f, &format!("@{}: ", f.name), &mut problems);
        check_calls(f, &functions, &mut problems);
    }
    if let Some(cycle) = call_cycle(module) {
        problems.push(format!("calls lead back to where they started: {}", cycle.join(" → ")));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// A cycle of calls, if there is one: names of functions, the first repeated at the end.
pub fn call_cycle(module: &Module) -> Option<Vec<String>> {
    // 0 unseen, 1 on the path, 2 done; the path is explicit, so depth costs no stack.
    let mut number: FxHashMap<&str, usize> = FxHashMap::default();
    for (i, f) in module.functions.iter().enumerate() {
        number.entry(&f.name).or_insert(i);
    }
    let callees: Vec<Vec<usize>> = module
        .functions
        .iter()
        .map(|f| {
            let mut called = IndexSet::new();
            collect_callees(f, &mut called);
            called.iter().filter_map(|c| number.get(c).copied()).collect()
        })
        .collect();
    let mut state = vec![0u8; callees.len()];
    for root in 0..callees.len() {
        if state[root] != 0 {
            continue;
        }
        state[root] = 1;
        let mut path: Vec<(usize, usize)> = vec![(root, 0)];
        while let Some((f, next)) = path.last_mut() {
            let Some(&callee) = callees[*f].get(*next) else {
                state[*f] = 2;
                path.pop();
                continue;
            };
            *next += 1;
            match state[callee] {
                0 => {
                    state[callee] = 1;
                    path.push((callee, 0));
                }
                1 => {
                    let from = path.iter().position(|(g, _)| *g == callee).unwrap_or(0);
                    let cycle = path[from..].iter().map(|(g, _)| *g).chain([callee]);
                    return Some(cycle.map(|g| format!("@{}", module.functions[g].name)).collect());
                }
                _ => {}
            }
        }
    }
    None
}

fn collect_callees<'g>(graph: &'g Graph, out: &mut IndexSet<&'g str>) {
    for op in graph.ops.values() {
        if let OpKind::Call { callee } = &op.kind {
            out.insert(callee);
        }
        for r in &op.regions {
            collect_callees(r, out);
        }
    }
}

fn check_calls(graph: &Graph, functions: &FxHashMap<&str, &Graph>, problems: &mut Vec<String>) {
    for (id, op) in graph.ops.iter() {
        if let OpKind::Call { callee } = &op.kind {
            let Some(f) = functions.get(callee.as_str()) else {
                problems.push(format!("{}: there is no function @{callee}", place(graph, id)));
                continue;
            };
            let matches = op.operands.iter().map(|&v| graph.ty(v)).eq(f.inputs.iter().map(|&v| f.ty(v)))
                && op.results.iter().map(|&v| graph.ty(v)).eq(f.outputs.iter().map(|&v| f.ty(v)));
            if !matches {
                problems.push(format!("{}: the types of the call differ from those of @{callee}", place(graph, id)));
            }
        }
        for r in &op.regions {
            check_calls(r, functions, problems);
        }
    }
}

/// An op in words: its number, kind and first result.
fn place(graph: &Graph, id: OpId) -> String {
    let op = &graph.ops[id];
    let kind = format!("{:?}", op.kind);
    let kind = kind.split([' ', '(', '{']).next().unwrap_or_default().to_string();
    let result = op.results.first().and_then(|&v| graph.values.get(v)).map(|v| format!(" {}", v.name)).unwrap_or_default();
    let line = graph.locs.get(op.loc).filter(|l| l.line > 0).map(|l| format!(" (line {})", l.line)).unwrap_or_default();
    format!("{id} {kind}{result}{line}")
}

fn check_graph(graph: &Graph, context: &str, problems: &mut Vec<String>) {
    let mut report = |message: String| {
        if problems.len() < LIMIT {
            problems.push(format!("{context}{message}"));
        }
    };
    let mut defined = vec![false; graph.values.len()];
    for (id, v) in graph.values.iter() {
        if !fits(&v.ty) {
            report(format!("{id} has the type {}, which has more than 2^48 elements", v.ty));
        }
        let listed = match v.def {
            Def::Input(i) => graph.inputs.get(i as usize),
            Def::Op(op, i) => graph.ops.get(op).and_then(|op| op.results.get(i as usize)),
        };
        if listed != Some(&id) {
            report(format!("{id} is not where its definition {:?} says", v.def));
        }
    }
    for (i, &v) in graph.inputs.iter().enumerate() {
        match graph.values.get(v) {
            Some(value) if value.def == Def::Input(i as u32) => defined[v.index()] = true,
            _ => report(format!("input {i} is {v}, which is not defined as that")),
        }
    }
    for (what, length, attributes) in
        [("inputs", graph.inputs.len(), graph.input_attributes.len()), ("outputs", graph.outputs.len(), graph.output_attributes.len())]
    {
        if attributes != 0 && attributes != length {
            report(format!("{length} {what} have {attributes} attributes"));
        }
    }
    for (id, op) in graph.ops.iter() {
        let mut sound = true;
        for &v in &op.operands {
            if !defined.get(v.index()).copied().unwrap_or(false) {
                report(format!("{}: operand {v} is not defined before", place(graph, id)));
                sound = false;
            }
        }
        for (i, &v) in op.results.iter().enumerate() {
            match graph.values.get(v) {
                Some(value) if value.def == Def::Op(id, i as u32) => defined[v.index()] = true,
                _ => {
                    report(format!("{}: result {i} is {v}, which is not defined as that", place(graph, id)));
                    sound = false;
                }
            }
        }
        if graph.locs.get(op.loc).is_none() {
            report(format!("{}: has no location", place(graph, id)));
        }
        if let OpKind::Constant(l) = &op.kind {
            let (found, wanted) = match &l.data {
                Data::Splat(b) => (b.len() as u64, l.ty.dtype.bytes()),
                Data::Dense(b) => (b.len() as u64, l.ty.bytes()),
            };
            if found != wanted {
                report(format!("{}: {found} bytes of data where {wanted} are needed", place(graph, id)));
            }
        }
        if sound {
            let operands: Vec<&TensorType> = op.operands.iter().map(|&v| graph.ty(v)).collect();
            let results: Vec<&TensorType> = op.results.iter().map(|&v| graph.ty(v)).collect();
            if let Err(why) = infer::check(&op.kind, &operands, &results, &op.regions) {
                report(format!("{}: {why}", place(graph, id)));
            }
        }
    }
    for (i, v) in graph.outputs.iter().enumerate() {
        if !defined.get(v.index()).copied().unwrap_or(false) {
            report(format!("output {i} is {v}, which is not defined"));
        }
    }
    for (id, op) in graph.ops.iter() {
        for (i, region) in op.regions.iter().enumerate() {
            check_graph(region, &format!("{context}{} region {i}: ", place(graph, id)), problems);
        }
    }
}

pub(crate) fn fits(ty: &TensorType) -> bool {
    ty.shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d.max(1))).is_some_and(|n| n < 1 << 48)
}
