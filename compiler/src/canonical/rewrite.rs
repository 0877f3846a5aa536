//! Rebuilds a graph op by op: the one tool with which every pass of this folder changes a graph.
//!
//! A pass visits the ops of the source in order and for each either copies it, emits other ops in its place, or says which value stands for its results.
//! The new graph has the same inputs and outputs in the same order.
//! Invariant: no name and no location is lost. An emitted op takes the location of the op it stands for; a removed value leaves its name to the value
//! that stands for it, or, where that value has a name of its own, as an alias.

use indexmap::IndexSet;
use ir::graph::{Graph, LocInfo, Op};
use ir::{Literal, Loc, OpId, OpKind, SecondaryMap, TensorType, ValueId};
use std::sync::Arc;

/// A graph being rebuilt.
#[derive(Debug)]
pub struct Rewriter<'a> {
    source: &'a Graph,
    /// The new graph so far.
    pub graph: Graph,
    map: SecondaryMap<ValueId, Option<ValueId>>,
    locs: IndexSet<LocInfo>,
    loc: Loc,
}

impl<'a> Rewriter<'a> {
    /// Starts with the inputs of `source`, of the same types.
    pub fn new(source: &'a Graph) -> Rewriter<'a> {
        let types: Vec<TensorType> = source.inputs.iter().map(|&v| source.ty(v).clone()).collect();
        Self::with_input_types(source, &types)
    }

    /// Starts with the inputs of `source`, of other types.
    pub fn with_input_types(source: &'a Graph, types: &[TensorType]) -> Rewriter<'a> {
        let mut graph = Graph::new(source.name.clone());
        graph.input_attributes = source.input_attributes.clone();
        graph.output_attributes = source.output_attributes.clone();
        let mut rewriter = Rewriter { source, graph, map: SecondaryMap::new(), locs: source.locs.values().cloned().collect(), loc: Loc(0) };
        for (&v, ty) in source.inputs.iter().zip(types) {
            let new = rewriter.graph.add_input(ty.clone(), source.values[v].name.clone());
            rewriter.map[v] = Some(new);
        }
        rewriter
    }

    /// The graph that is rebuilt.
    pub fn source(&self) -> &'a Graph {
        self.source
    }

    /// The new value that stands for `v` of the source.
    pub fn value(&self, v: ValueId) -> ValueId {
        self.map[v].expect("invariant: ops are in an executable order and every result was given a value")
    }

    /// Whether `v` of the source has a new value already.
    pub fn has_value(&self, v: ValueId) -> bool {
        self.map[v].is_some()
    }

    /// The new values of the operands of `op`.
    pub fn operands(&self, op: &Op) -> Vec<ValueId> {
        op.operands.iter().map(|&v| self.value(v)).collect()
    }

    /// The type of a new value.
    pub fn ty(&self, new: ValueId) -> &TensorType {
        self.graph.ty(new)
    }

    /// Ops emitted from now on come from `op` of the source.
    pub fn at(&mut self, op: OpId) {
        let info = self.source.locs.get(self.source.ops[op].loc).cloned().unwrap_or_default();
        self.at_info(info);
    }

    /// Ops emitted from now on come from this place.
    pub fn at_info(&mut self, info: LocInfo) {
        self.loc = Loc(self.locs.insert_full(info).0 as u32);
    }

    /// The place that emitted ops come from.
    pub fn loc(&self) -> Loc {
        self.loc
    }

    /// Emits an op with one result.
    pub fn emit(&mut self, kind: OpKind, operands: Vec<ValueId>, ty: TensorType) -> ValueId {
        self.graph.add(kind, operands, ty, self.loc)
    }

    /// Emits a splat constant.
    pub fn splat(&mut self, ty: TensorType, value: f64) -> ValueId {
        let literal = Literal::splat(ty.clone(), value);
        self.emit(OpKind::Constant(literal), Vec::new(), ty)
    }

    /// Copies an op of the source as it is and maps its results.
    pub fn copy(&mut self, op: OpId) {
        let kind = self.source.ops[op].kind.clone();
        let operands = self.operands(&self.source.ops[op]);
        self.copy_as(op, kind, operands);
    }

    /// Copies an op of the source with another kind and operands; results keep their types and names.
    pub fn copy_as(&mut self, op: OpId, kind: OpKind, operands: Vec<ValueId>) {
        let types = self.source.ops[op].results.iter().map(|&v| self.source.ty(v).clone()).collect();
        self.copy_typed(op, kind, operands, types);
    }

    /// Copies an op of the source with another kind, operands and result types; results keep their names.
    pub fn copy_typed(&mut self, op: OpId, kind: OpKind, operands: Vec<ValueId>, types: Vec<TensorType>) {
        self.at(op);
        let source = &self.source.ops[op];
        let names: Vec<Arc<str>> = source.results.iter().map(|&v| self.source.values[v].name.clone()).collect();
        let new = self.graph.add_op(kind, operands, types, self.loc, &names);
        self.graph.ops[new].regions.clone_from(&source.regions);
        for (i, &v) in source.results.iter().enumerate() {
            self.map[v] = Some(self.graph.ops[new].results[i]);
        }
    }

    /// Says that the new value `new` stands for `v` of the source. `v`'s name goes to `new`, or becomes an alias of it.
    pub fn replace(&mut self, v: ValueId, new: ValueId) {
        self.map[v] = Some(new);
        self.give_name(new, self.source.values[v].name.clone());
    }

    /// Gives a name to a new value, or makes it an alias where the value has one.
    pub fn give_name(&mut self, new: ValueId, name: Arc<str>) {
        if name.is_empty() || self.graph.values[new].name == name {
            return;
        }
        if self.graph.values[new].name.is_empty() {
            self.graph.values[new].name = name;
        } else {
            self.graph.aliases.insert(name, new);
        }
    }

    /// Maps the outputs and the aliases and returns the new graph.
    pub fn finish(mut self) -> Graph {
        self.graph.outputs = self.source.outputs.iter().map(|&v| self.value(v)).collect();
        for (name, &v) in &self.source.aliases {
            if let Some(new) = self.map[v] {
                self.graph.aliases.entry(name.clone()).or_insert(new);
            }
        }
        if self.locs.is_empty() {
            self.locs.insert(LocInfo::default());
        }
        self.graph.locs = self.locs.into_iter().collect();
        self.graph
    }
}
