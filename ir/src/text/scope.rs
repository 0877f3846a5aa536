//! Names of values while a function is read: scopes, and what regions capture.
//!
//! A region becomes a closed graph. A name that is found in an enclosing scope is captured: a constant is copied into the region,
//! any other value becomes an input of the region and an operand of its op.

use super::lexer::At;
use super::parser::{Parser, Step};
use crate::dtype::TensorType;
use crate::graph::{Def, Graph, LocInfo, Value};
use crate::id::PrimaryMap;
use crate::op::{OpKind, ValueId};
use indexmap::IndexSet;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What a name stands for.
#[derive(Clone, Debug)]
enum Slot {
    Values(Vec<ValueId>),
    /// The results of an op that could not be read.
    Poison,
}

/// A function or region being read.
pub(super) struct Scope<'a> {
    pub(super) graph: Graph,
    names: FxHashMap<&'a str, Slot>,
    captured: FxHashMap<ValueId, ValueId>,
    /// Values of the enclosing scope that became inputs, in order.
    captures: Vec<ValueId>,
    /// Whether an output could not be determined.
    pub(super) poisoned: bool,
    pub(super) terminated: bool,
}

/// A region that was read: its graph, whose last inputs are `captures` of the enclosing scope.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) graph: Graph,
    pub(super) captures: Vec<ValueId>,
    pub(super) poisoned: bool,
}

impl Region {
    /// Makes the region's inputs those it declares, then `captures` in order.
    pub(super) fn capture_as(&mut self, captures: &[ValueId], types: &[TensorType], names: &[Arc<str>]) {
        let declared = self.graph.inputs.len() - self.captures.len();
        let own: FxHashMap<ValueId, ValueId> = self.captures.iter().copied().zip(self.graph.inputs.split_off(declared)).collect();
        for ((c, ty), name) in captures.iter().zip(types).zip(names) {
            match own.get(c) {
                Some(&v) => self.graph.inputs.push(v),
                None => {
                    self.graph.add_input(ty.clone(), captured_name(name));
                }
            }
        }
        self.captures = captures.to_vec();
        if !captures.is_empty() {
            renumber(&mut self.graph);
        }
    }
}

/// Numbers values in the order inputs, then results of ops, which is that of a graph whose inputs were declared first.
fn renumber(graph: &mut Graph) {
    let old = std::mem::take(&mut graph.values);
    let mut new_of: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    let results = graph.ops.iter().flat_map(|(id, op)| op.results.iter().enumerate().map(move |(i, &v)| (v, Def::Op(id, i as u32))));
    let inputs = graph.inputs.iter().enumerate().map(|(i, &v)| (v, Def::Input(i as u32)));
    for (v, def) in inputs.chain(results) {
        let value = Value { def, ..old[v].clone() };
        new_of.insert(v, graph.values.push(value));
    }
    let all = graph.ops.values_mut().flat_map(|op| op.operands.iter_mut().chain(&mut op.results));
    for v in all.chain(&mut graph.inputs).chain(&mut graph.outputs) {
        *v = new_of[v];
    }
    for v in graph.aliases.values_mut() {
        *v = new_of[v];
    }
}

/// The name a captured value has inside the region.
fn captured_name(name: &str) -> Arc<str> {
    format!("{}.in", plain_name(name)).into()
}

/// A name to which a suffix can be added: `%548` becomes `%v548`, `%6#1` becomes `%v6_1`.
pub(super) fn plain_name(name: &str) -> String {
    let bare = name.trim_start_matches('%').replace('#', "_");
    let lead = if bare.starts_with(|c: char| c.is_ascii_digit()) { "v" } else { "" };
    format!("%{lead}{bare}")
}

impl<'a> Scope<'a> {
    pub(super) fn new(name: &str) -> Self {
        Scope { graph: Graph::new(name), names: FxHashMap::default(), captured: FxHashMap::default(), captures: Vec::new(), poisoned: false, terminated: false }
    }

    pub(super) fn into_region(self) -> Region {
        Region { graph: self.graph, captures: self.captures, poisoned: self.poisoned }
    }

    fn capture(&mut self, outer: ValueId, parent: &Graph) -> ValueId {
        if let Some(&v) = self.captured.get(&outer) {
            return v;
        }
        let value = &parent.values[outer];
        let name = captured_name(&value.name);
        let v = match parent.def_op(outer).map(|op| &parent.ops[op]) {
            Some(op) if matches!(op.kind, OpKind::Constant(_)) => {
                let loc = self.graph.add_loc(parent.locs[op.loc].clone());
                let copy = self.graph.add_op(op.kind.clone(), Vec::new(), vec![value.ty.clone()], loc, &[name]);
                self.graph.ops[copy].results[0]
            }
            _ => {
                self.captures.push(outer);
                self.graph.add_input(value.ty.clone(), name)
            }
        };
        self.captured.insert(outer, v);
        v
    }
}

impl<'a> Parser<'a> {
    /// The innermost scope.
    pub(super) fn scope(&mut self) -> &mut Scope<'a> {
        self.scopes.last_mut().expect("invariant: ops are read inside a function")
    }

    /// The graph being read.
    pub(super) fn graph(&mut self) -> &mut Graph {
        &mut self.scope().graph
    }

    /// Gives a name to values; `None` poisons it.
    pub(super) fn define(&mut self, name: &'a str, at: At, values: Option<Vec<ValueId>>) -> Step<()> {
        if self.is_defined(name) {
            let length = name.chars().count() as u32;
            return Err(self.report.error_at("E0107", at, length, format!("`{name}` is defined twice")));
        }
        self.scope().names.insert(name, values.map_or(Slot::Poison, Slot::Values));
        Ok(())
    }

    /// Whether a name is taken.
    pub(super) fn is_defined(&self, name: &str) -> bool {
        self.scopes.iter().any(|s| s.names.contains_key(name))
    }

    /// The value of `name#index`; nothing when it is poisoned.
    pub(super) fn lookup(&mut self, name: &'a str, index: Option<usize>, at: At) -> Step<Option<ValueId>> {
        let length = name.chars().count() as u32;
        let Some(level) = self.scopes.iter().rposition(|s| s.names.contains_key(name)) else {
            return Err(self.report.error_at("E0106", at, length, format!("`{name}` is used but not defined before")));
        };
        let Slot::Values(values) = &self.scopes[level].names[name] else { return Ok(None) };
        if index.is_none() && values.len() != 1 {
            let message = format!("`{name}` names {} values: say which, as in `{name}#0`", values.len());
            return Err(self.report.error_at("E0106", at, length, message));
        }
        let Some(&found) = values.get(index.unwrap_or(0)) else {
            let message = format!("`{name}` has {} results, so there is no `{name}#{}`", values.len(), index.unwrap_or(0));
            return Err(self.report.error_at("E0106", at, length, message));
        };
        let mut value = found;
        for inner in level + 1..self.scopes.len() {
            let (outer, rest) = self.scopes.split_at_mut(inner);
            value = rest[0].capture(value, &outer[inner - 1].graph);
        }
        Ok(Some(value))
    }

    /// Union of what regions captured, each region then taking all of it.
    pub(super) fn unify_captures(&mut self, regions: &mut [Region]) -> Vec<ValueId> {
        let all: IndexSet<ValueId> = regions.iter().flat_map(|r| r.captures.iter().copied()).collect();
        let all: Vec<ValueId> = all.into_iter().collect();
        let graph = self.graph();
        let types: Vec<TensorType> = all.iter().map(|&v| graph.ty(v).clone()).collect();
        let names: Vec<Arc<str>> = all.iter().map(|&v| graph.values[v].name.clone()).collect();
        for r in regions.iter_mut() {
            r.capture_as(&all, &types, &names);
        }
        all
    }

    /// Adds the location of an op that starts at `at`.
    pub(super) fn add_loc(&mut self, at: At, name: Option<Arc<str>>) -> crate::graph::Loc {
        let info = LocInfo { line: at.line, column: at.column, name, path: Arc::default() };
        let locs: &mut PrimaryMap<_, _> = &mut self.graph().locs;
        locs.push(info)
    }
}
