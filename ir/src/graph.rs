//! The dataflow graph: operations and SSA values in arenas, named by ids.
//!
//! A [`Graph`] is flat: ops are listed in an order in which every operand is defined before its use.
//! Regions (loop bodies, general reducers) are closed graphs of their own: what they captured is passed as an operand.
//! Every value keeps the user's own name (`%548`, `@closed_call#2/%31`) and every op its [`Loc`]; passes copy them.
//! The invariants are listed and checked in `verify`.

use crate::dtype::TensorType;
use crate::entity_id;
use crate::id::PrimaryMap;
use crate::literal::Literal;
use crate::op::{OpId, OpKind, ValueId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

entity_id!(
    /// A place in the user's file, shared by the ops that came from it.
    Loc,
    "loc"
);

/// What a [`Loc`] says. Lines and columns count from 1; 0 is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LocInfo {
    /// Line in the imported text.
    pub line: u32,
    /// Column in the imported text.
    pub column: u32,
    /// JAX's name of it, when the text has `loc`s: `model.py:88 attn/dot_general`.
    pub name: Option<Arc<str>>,
    /// The calls it was inlined through, outermost first: `@closed_call#2`.
    pub path: Arc<str>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Def {
    /// The graph's n-th input.
    Input(u32),
    /// The n-th result of an op.
    Op(OpId, u32),
}

/// An SSA value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// Its type.
    pub ty: TensorType,
    /// Its definition.
    pub def: Def,
    /// The user's name with its call path, `%548` or `@closed_call#2/%31`; empty for values made by passes that have no source.
    pub name: Arc<str>,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// What it computes.
    pub kind: OpKind,
    /// Operands.
    pub operands: Vec<ValueId>,
    /// Results.
    pub results: Vec<ValueId>,
    /// Closed regions.
    pub regions: Vec<Graph>,
    /// Where it comes from.
    pub loc: Loc,
}

/// What is known of an input beyond its type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputAttributes {
    /// `tf.aliasing_output`: its buffer may hold that output.
    pub aliasing_output: Option<u32>,
    /// `jax.buffer_donor`.
    pub donated: bool,
    /// `sdy.sharding` as printed.
    pub sharding: Option<String>,
}

/// What is known of an output beyond its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputAttributes {
    /// `jax.result_info`, such as `result[4]`; the importer fills in `result[i]` where the text has none.
    pub name: String,
    /// `sdy.sharding` as printed.
    pub sharding: Option<String>,
}

/// A function or a region: inputs, ops in order, outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graph {
    /// The function's name, without `@`; empty for regions.
    pub name: String,
    /// Inputs in order.
    pub inputs: Vec<ValueId>,
    /// What is known of each input; as long as `inputs`, or empty for regions.
    pub input_attributes: Vec<InputAttributes>,
    /// Outputs in order.
    pub outputs: Vec<ValueId>,
    /// What is known of each output; as long as `outputs`, or empty for regions.
    pub output_attributes: Vec<OutputAttributes>,
    /// All values.
    pub values: PrimaryMap<ValueId, Value>,
    /// All ops, in an executable order.
    pub ops: PrimaryMap<OpId, Op>,
    /// All locations; shared by ops.
    pub locs: PrimaryMap<Loc, LocInfo>,
    /// User's names of values that passes removed because another value is the same: the value that stands for each.
    pub aliases: BTreeMap<Arc<str>, ValueId>,
}

/// What a file holds: functions, one of them `main`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its name, without `@`.
    pub name: String,
    /// Functions in the file's order.
    pub functions: Vec<Graph>,
    /// `sdy.mesh` declarations: name, and axes with sizes.
    pub meshes: Vec<(String, Vec<(String, u64)>)>,
}

impl Module {
    /// The function that is compiled: `main`, or the only one.
    pub fn main(&self) -> Option<&Graph> {
        self.functions.iter().find(|f| f.name == "main").or(if self.functions.len() == 1 { self.functions.first() } else { None })
    }
    /// A function by name.
    pub fn function(&self, name: &str) -> Option<&Graph> {
        self.functions.iter().find(|f| f.name == name)
    }
}

impl Graph {
    /// An empty graph of that name.
    pub fn new(name: impl Into<String>) -> Graph {
        Graph { name: name.into(), ..Graph::default() }
    }
    /// Adds an input.
    pub fn add_input(&mut self, ty: TensorType, name: impl Into<Arc<str>>) -> ValueId {
        let index = self.inputs.len() as u32;
        let v = self.values.push(Value { ty, def: Def::Input(index), name: name.into() });
        self.inputs.push(v);
        v
    }
    /// Adds a location.
    pub fn add_loc(&mut self, info: LocInfo) -> Loc {
        self.locs.push(info)
    }
    /// Adds an op at the end; names are given per result (missing ones are empty).
    pub fn add_op(&mut self, kind: OpKind, operands: Vec<ValueId>, types: Vec<TensorType>, loc: Loc, names: &[Arc<str>]) -> OpId {
        let id = crate::id::EntityId::from_index(self.ops.len());
        let results = types
            .into_iter()
            .enumerate()
            .map(|(i, ty)| self.values.push(Value { ty, def: Def::Op(id, i as u32), name: names.get(i).cloned().unwrap_or_default() }))
            .collect();
        self.ops.push(Op { kind, operands, results, regions: Vec::new(), loc })
    }
    /// Adds an op with one unnamed result and returns it.
    pub fn add(&mut self, kind: OpKind, operands: Vec<ValueId>, ty: TensorType, loc: Loc) -> ValueId {
        let op = self.add_op(kind, operands, vec![ty], loc, &[]);
        self.ops[op].results[0]
    }
    /// The type of a value.
    pub fn ty(&self, v: ValueId) -> &TensorType {
        &self.values[v].ty
    }
    /// The op that defines a value, unless it is an input.
    pub fn def_op(&self, v: ValueId) -> Option<OpId> {
        match self.values[v].def {
            Def::Op(op, _) => Some(op),
            Def::Input(_) => None,
        }
    }
    /// The constant a value is, if it is one.
    pub fn constant(&self, v: ValueId) -> Option<&Literal> {
        match &self.ops[self.def_op(v)?].kind {
            OpKind::Constant(l) => Some(l),
            _ => None,
        }
    }
    /// For every value the ops that read it (an op that reads it twice is listed once), in op order.
    pub fn users(&self) -> PrimaryMap<ValueId, Vec<OpId>> {
        let mut users: PrimaryMap<ValueId, Vec<OpId>> = self.values.keys().map(|_| Vec::new()).collect();
        for (id, op) in self.ops.iter() {
            for &v in &op.operands {
                if users[v].last() != Some(&id) {
                    users[v].push(id);
                }
            }
        }
        users
    }
    /// The value a user means by `name`: `%548`, `548`, `%arg3`, `@f#1/%2`, `%6#1`, or an output's `jax.result_info`.
    pub fn value_named(&self, name: &str) -> Option<ValueId> {
        let with_percent = if name.contains('%') { name.to_string() } else { format!("%{name}") };
        self.values
            .iter()
            .find(|(_, v)| !v.name.is_empty() && (&*v.name == name || *v.name == with_percent))
            .map(|(id, _)| id)
            .or_else(|| self.aliases.get(name).or_else(|| self.aliases.get(with_percent.as_str())).copied())
            .or_else(|| self.output_attributes.iter().position(|o| o.name == name).and_then(|i| self.outputs.get(i).copied()))
    }
    /// What a user sees for a value: its own name, or the id when it has none.
    pub fn display_name(&self, v: ValueId) -> String {
        let name = &self.values[v].name;
        if name.is_empty() { v.to_string() } else { name.to_string() }
    }
}
