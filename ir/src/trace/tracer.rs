//! The tracer: the graph under construction, scopes, arguments, and the first error.
//!
//! Handles share the tracer, so its state is behind a cell; it is borrowed only inside the methods here, never while a user's closure runs.
//! Every value made by an operation that is not a constant has a name of its own, `scope/operation`; every operation has the line of the model it is from.

use super::Tensor;
use crate::diagnostic::{Diagnostic, Result, Span};
use crate::dtype::{DType, TensorType};
use crate::graph::{Def, Graph, InputAttributes, Loc, LocInfo, Module, OutputAttributes};
use crate::infer;
use crate::literal::Literal;
use crate::op::{OpId, OpKind, ValueId};
use crate::text::names;
use crate::{interp, verify};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::Location;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// What an argument of a step is. Arguments are listed in this order, and in that of their creation within a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A trained parameter.
    Parameter,
    /// What the optimizer and the random generator carry from step to step.
    State,
    /// Part of the batch.
    Data,
}

/// How a parameter begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initial {
    /// Zeros.
    Zeros,
    /// Ones.
    Ones,
    /// One number.
    Constant(f64),
    /// Normally distributed with this standard deviation.
    Normal(f64),
    /// Uniformly distributed in `-x..x`.
    Uniform(f64),
}

impl Initial {
    /// Its values for a tensor of that type; the same for the same seed on every machine.
    pub fn sample(self, ty: &TensorType, seed: u64) -> interp::Tensor {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D;
        let mut uniform = || {
            // SplitMix64: the state is a counter, the output its hash.
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        };
        let n = ty.elements() as usize;
        let values: Vec<f64> = match self {
            Initial::Zeros => return interp::Tensor::zeros(ty.clone()),
            Initial::Ones => return interp::Tensor::splat(ty.clone(), 1.0),
            Initial::Constant(x) => return interp::Tensor::splat(ty.clone(), x),
            Initial::Uniform(bound) => (0..n).map(|_| (2.0 * uniform() - 1.0) * bound).collect(),
            // Box and Muller.
            Initial::Normal(deviation) => {
                (0..n).map(|_| deviation * (-2.0 * (1.0 - uniform()).ln()).sqrt() * (2.0 * std::f64::consts::PI * uniform()).cos()).collect()
            }
        };
        interp::Tensor::from_f64s(ty.clone(), &values).unwrap_or_else(|| interp::Tensor::zeros(ty.clone()))
    }
}

/// An argument of a traced function.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Its name, with its scope.
    pub name: String,
    /// Its type.
    pub ty: TensorType,
    /// What it is.
    pub role: Role,
    /// How it begins; zeros for data.
    pub initial: Initial,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) graph: Graph,
    scope: String,
    /// All names that values have.
    used: FxHashSet<Arc<str>>,
    /// The number that a repeated name was given last.
    repeated: FxHashMap<String, u32>,
    /// Values whose name is the tracer's own choice.
    unnamed: FxHashSet<ValueId>,
    locs: FxHashMap<(&'static str, u32, u32, String), Loc>,
    /// Where operations are said to come from, instead of from the caller.
    at: Option<Loc>,
    pub(super) arguments: Vec<Argument>,
    /// Operands through which nothing is differentiated.
    pub(super) stopped: FxHashSet<(OpId, u32)>,
    /// What a tensor of state becomes.
    carried: BTreeMap<ValueId, ValueId>,
    /// What parameters are computed with, where that is not what they are stored as.
    compute: Option<DType>,
    error: Option<Diagnostic>,
}

/// Owns the graph under construction; cheap to clone, all clones are the same tracer.
#[derive(Clone)]
pub struct Tracer {
    pub(super) state: Rc<RefCell<State>>,
}

impl Default for Tracer {
    fn default() -> Self {
        Tracer::new()
    }
}

impl Tracer {
    /// A tracer of a function `main`.
    pub fn new() -> Tracer {
        let state = State { graph: Graph::new("main"), ..State::default() };
        Tracer { state: Rc::new(RefCell::new(state)) }
    }
    /// A tracer whose parameters are stored as `f32` and computed with as `compute`, `bf16` or `f16` (mixed precision).
    pub fn computing_in(compute: DType) -> Tracer {
        let tracer = Tracer::new();
        tracer.state.borrow_mut().compute = (compute != DType::F32).then_some(compute);
        tracer
    }
    /// What parameters are computed with.
    pub fn compute_dtype(&self) -> DType {
        self.state.borrow().compute.unwrap_or(DType::F32)
    }

    /// Runs `f`; the names of what it makes begin with `name/`.
    pub fn scope<T>(&self, name: impl AsRef<str>, f: impl FnOnce() -> T) -> T {
        let outer = self.state.borrow().scope.clone();
        let inner = if outer.is_empty() { name.as_ref().to_string() } else { format!("{outer}/{}", name.as_ref()) };
        self.in_scope(inner, f)
    }
    /// Runs `f` in a scope given in full.
    pub(super) fn in_scope<T>(&self, scope: String, f: impl FnOnce() -> T) -> T {
        let outer = std::mem::replace(&mut self.state.borrow_mut().scope, scope);
        let result = f();
        self.state.borrow_mut().scope = outer;
        result
    }
    /// Runs `f`; what it makes is said to come from `loc`.
    pub(super) fn at<T>(&self, loc: Option<Loc>, f: impl FnOnce() -> T) -> T {
        let outer = std::mem::replace(&mut self.state.borrow_mut().at, loc);
        let result = f();
        self.state.borrow_mut().at = outer;
        result
    }

    /// A parameter, stored as `f32`; what is given is converted to the type that the tracer computes with.
    #[track_caller]
    pub fn parameter(&self, name: impl AsRef<str>, shape: impl Into<Vec<u64>>, initial: Initial) -> Tensor {
        let stored = self.argument(name, TensorType::new(DType::F32, shape), Role::Parameter, initial);
        let compute = self.compute_dtype();
        if compute == DType::F32 { stored } else { stored.convert(compute).named_in_full(&format!("{}/{compute}", stored.name())) }
    }
    /// A parameter that is stored and computed with as `dtype`.
    #[track_caller]
    pub fn parameter_of(&self, name: impl AsRef<str>, dtype: DType, shape: impl Into<Vec<u64>>, initial: Initial) -> Tensor {
        self.argument(name, TensorType::new(dtype, shape), Role::Parameter, initial)
    }
    /// A part of the batch; its first dimension is the batch's.
    #[track_caller]
    pub fn data(&self, name: impl AsRef<str>, dtype: DType, shape: impl Into<Vec<u64>>) -> Tensor {
        self.argument(name, TensorType::new(dtype, shape), Role::Data, Initial::Zeros)
    }
    /// A tensor that is carried from step to step; [`Tensor::becomes`] says what it becomes.
    #[track_caller]
    pub fn carry(&self, name: impl AsRef<str>, dtype: DType, shape: impl Into<Vec<u64>>, initial: Initial) -> Tensor {
        self.argument(name, TensorType::new(dtype, shape), Role::State, initial)
    }
    pub(super) fn carried(&self) -> BTreeMap<ValueId, Tensor> {
        let state = self.state.borrow();
        state.carried.iter().filter_map(|(&old, &new)| Some((old, Tensor::new(self.clone(), new, state.graph.values.get(new)?.ty.clone())))).collect()
    }
    pub(super) fn set_carried(&self, old: &Tensor, new: &Tensor) {
        self.state.borrow_mut().carried.insert(old.value(), new.value());
    }
    /// An argument of any role.
    #[track_caller]
    pub fn argument(&self, name: impl AsRef<str>, ty: TensorType, role: Role, initial: Initial) -> Tensor {
        let mut state = self.state.borrow_mut();
        let full = state.scoped(name.as_ref());
        if state.used.contains(full.as_str()) {
            drop(state);
            self.fail(Diagnostic::input("E1004", format!("two values are named `{full}`")).with_help("give arguments names of their own, or scopes"));
            return self.failed(ty);
        }
        if !verify::fits(&ty) {
            drop(state);
            self.fail(Diagnostic::input("E1001", format!("`{full}` is {ty}, which has more than 2^48 elements")));
            return self.failed(TensorType::scalar(ty.dtype));
        }
        let shared: Arc<str> = full.as_str().into();
        state.used.insert(shared.clone());
        let value = state.graph.add_input(ty.clone(), shared);
        state.arguments.push(Argument { name: full, ty: ty.clone(), role, initial });
        drop(state);
        Tensor::new(self.clone(), value, ty)
    }
    /// The arguments so far, in the order of their creation.
    pub fn arguments(&self) -> Vec<Argument> {
        self.state.borrow().arguments.clone()
    }
    /// The arguments of a role, in the order of their creation.
    pub fn arguments_of(&self, role: Role) -> Vec<Tensor> {
        let state = self.state.borrow();
        let of = state.arguments.iter().zip(&state.graph.inputs).filter(|(a, _)| a.role == role);
        of.map(|(a, &v)| Tensor::new(self.clone(), v, a.ty.clone())).collect()
    }
    /// The value of that full name, as a tensor.
    pub fn tensor_named(&self, name: &str) -> Option<Tensor> {
        let state = self.state.borrow();
        let value = state.graph.value_named(name)?;
        Some(Tensor::new(self.clone(), value, state.graph.ty(value).clone()))
    }

    /// A tensor of one repeated number.
    #[track_caller]
    pub fn full(&self, dtype: DType, shape: impl Into<Vec<u64>>, value: f64) -> Tensor {
        self.constant(Literal::splat(TensorType::new(dtype, shape), value))
    }
    /// A scalar.
    #[track_caller]
    pub fn scalar(&self, dtype: DType, value: f64) -> Tensor {
        self.full(dtype, [], value)
    }
    /// A constant tensor.
    #[track_caller]
    pub fn constant(&self, literal: Literal) -> Tensor {
        self.emit_one(OpKind::Constant(literal), &[], None)
    }
    /// The index along dimension `dim` of a tensor of that shape.
    #[track_caller]
    pub fn iota(&self, dtype: DType, shape: impl Into<Vec<u64>>, dim: usize) -> Tensor {
        self.emit_one(OpKind::Iota { dim }, &[], Some(TensorType::new(dtype, shape)))
    }

    /// Adds an op with one result; the result's type is given where the op does not determine it.
    #[track_caller]
    pub(super) fn emit_one(&self, kind: OpKind, operands: &[&Tensor], ty: Option<TensorType>) -> Tensor {
        let mut results = self.emit(kind, operands, ty.map(|t| vec![t]), Vec::new());
        results.swap_remove(0)
    }
    /// Adds an op with any number of results, at least one.
    #[track_caller]
    pub(super) fn emit(&self, kind: OpKind, operands: &[&Tensor], types: Option<Vec<TensorType>>, regions: Vec<Graph>) -> Vec<Tensor> {
        let caller = Location::caller();
        let fallback = || types.clone().or_else(|| Some(vec![operands.first()?.ty().clone()])).unwrap_or_else(|| vec![TensorType::scalar(DType::F32)]);
        if self.has_failed() {
            return fallback().into_iter().map(|t| self.failed(t)).collect();
        }
        if operands.iter().any(|t| !Rc::ptr_eq(&t.tracer().state, &self.state)) {
            self.fail(Diagnostic::input("E1002", format!("{} reads tensors of two tracers", label(&kind))).at(span(caller)));
            return fallback().into_iter().map(|t| self.failed(t)).collect();
        }
        let operand_types: Vec<&TensorType> = operands.iter().map(|t| t.ty()).collect();
        let inferred = infer::result_types(&kind, &operand_types, &regions).and_then(|found| {
            let results = found.or_else(|| types.clone()).ok_or("its result's type is not given")?;
            infer::check(&kind, &operand_types, &results.iter().collect::<Vec<_>>(), &regions)?;
            match results.iter().find(|t| !verify::fits(t)) {
                Some(t) => Err(format!("its result is {t}, which has more than 2^48 elements")),
                None => Ok(results),
            }
        });
        let results = match inferred {
            Ok(results) => results,
            Err(why) => {
                self.mismatch(label(&kind), why, &operand_types, caller);
                return fallback().into_iter().map(|t| self.failed(t)).collect();
            }
        };
        let mut state = self.state.borrow_mut();
        let loc = state.location(caller);
        let names: Vec<Arc<str>> = match &kind {
            OpKind::Constant(_) => Vec::new(),
            kind => (0..results.len()).map(|_| state.fresh(&label(kind))).collect(),
        };
        let id = state.graph.add_op(kind, operands.iter().map(|t| t.value()).collect(), results.clone(), loc, &names);
        let op = &mut state.graph.ops[id];
        op.regions = regions;
        let values = op.results.clone();
        state.unnamed.extend(&values);
        state.stopped.extend(operands.iter().enumerate().filter(|(_, t)| t.is_stopped()).map(|(i, _)| (id, i as u32)));
        drop(state);
        values.into_iter().zip(results).map(|(v, ty)| Tensor::new(self.clone(), v, ty)).collect()
    }

    /// Records that an operation does not fit its operands.
    pub(super) fn mismatch(&self, what: String, why: String, operands: &[&TensorType], caller: &Location<'_>) {
        let mut d = Diagnostic::input("E1001", format!("{what}: {why}")).at(span(caller));
        if !operands.is_empty() {
            d = d.with_note(format!("its operands are {}", operands.iter().map(|t| t.to_string()).collect::<Vec<_>>().join(", ")));
        }
        self.fail(d);
    }
    /// Records an error; only the first is kept.
    pub(super) fn fail(&self, mut error: Diagnostic) {
        let mut state = self.state.borrow_mut();
        if state.error.is_none() {
            if !state.scope.is_empty() {
                error = error.with_note(format!("in the scope `{}`", state.scope));
            }
            state.error = Some(error);
        }
    }
    /// Whether something did not fit, so that nothing is traced any more.
    pub fn has_failed(&self) -> bool {
        self.state.borrow().error.is_some()
    }
    /// A handle after an error: it has a type, and is never read.
    pub(super) fn failed(&self, ty: TensorType) -> Tensor {
        Tensor::new(self.clone(), ValueId(u32::MAX), ty)
    }

    /// The function with these named outputs, as a module; arguments are ordered by role.
    ///
    /// # Errors
    /// The first error of the trace.
    pub fn finish(&self, outputs: &[(&str, &Tensor)]) -> Result<Module> {
        if let Some((name, _)) = outputs.iter().find(|(_, t)| !Rc::ptr_eq(&t.tracer().state, &self.state)) {
            self.fail(Diagnostic::input("E1002", format!("the output `{name}` is of another tracer")));
        }
        let state = self.state.borrow();
        if let Some(error) = &state.error {
            return Err(error.clone().into());
        }
        let mut graph = state.graph.clone();
        let order = state.argument_order();
        graph.inputs = order.iter().map(|&i| state.graph.inputs[i]).collect();
        graph.input_attributes = vec![InputAttributes::default(); graph.inputs.len()];
        for (i, &v) in graph.inputs.iter().enumerate() {
            graph.values[v].def = Def::Input(i as u32);
        }
        graph.outputs = outputs.iter().map(|(_, t)| t.value()).collect();
        graph.output_attributes = outputs.iter().map(|(name, _)| OutputAttributes { name: (*name).to_string(), sharding: None }).collect();
        if graph.locs.is_empty() {
            graph.add_loc(LocInfo::default());
        }
        let module = Module { name: "traced".into(), functions: vec![graph], meshes: Vec::new() };
        verify::verify_module(&module).map_err(|problems| {
            let mut d = Diagnostic::input("E1009", "the trace is not a sound graph").with_help("this is a bug of Shardwright: please report the model");
            d.notes = problems;
            d
        })?;
        Ok(module)
    }
    /// The arguments in the order of a finished function.
    pub fn finished_arguments(&self) -> Vec<Argument> {
        let state = self.state.borrow();
        state.argument_order().into_iter().map(|i| state.arguments[i].clone()).collect()
    }

    /// Gives a value a name in the current scope, or a further one if it has been named already.
    pub(super) fn name_value(&self, value: ValueId, name: &str, in_scope: bool) {
        let mut state = self.state.borrow_mut();
        if state.error.is_some() || state.graph.values.get(value).is_none() {
            return;
        }
        let full = if in_scope { state.scoped(name) } else { name.to_string() };
        if state.used.contains(full.as_str()) {
            return;
        }
        let full: Arc<str> = full.into();
        state.used.insert(full.clone());
        if state.unnamed.remove(&value) {
            let old = std::mem::replace(&mut state.graph.values[value].name, full);
            state.used.remove(&old);
        } else {
            state.graph.aliases.insert(full, value);
        }
    }
    /// The full name of a value.
    pub(super) fn name_of(&self, value: ValueId) -> Arc<str> {
        self.state.borrow().graph.values.get(value).map(|v| v.name.clone()).unwrap_or_default()
    }
}

impl State {
    fn scoped(&self, name: &str) -> String {
        if self.scope.is_empty() { name.to_string() } else { format!("{}/{name}", self.scope) }
    }
    /// A name in the current scope that no value has.
    fn fresh(&mut self, label: &str) -> Arc<str> {
        let base = self.scoped(label);
        let mut name: Arc<str> = base.as_str().into();
        while self.used.contains(&name) {
            let number = self.repeated.entry(base.clone()).or_insert(0);
            *number += 1;
            name = format!("{base}_{number}").into();
        }
        self.used.insert(name.clone());
        name
    }
    fn location(&mut self, caller: &'static Location<'static>) -> Loc {
        if let Some(loc) = self.at {
            return loc;
        }
        let key = (caller.file(), caller.line(), caller.column(), self.scope.clone());
        if let Some(&loc) = self.locs.get(&key) {
            return loc;
        }
        let file = Path::new(caller.file()).file_name().map(|f| f.to_string_lossy().into_owned()).unwrap_or_default();
        let place = format!("{file}:{} {}", caller.line(), self.scope);
        let info = LocInfo { line: caller.line(), column: caller.column(), name: Some(place.trim_end().into()), path: Arc::default() };
        let loc = self.graph.add_loc(info);
        self.locs.insert(key, loc);
        loc
    }
    fn argument_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.arguments.len()).collect();
        order.sort_by_key(|&i| self.arguments[i].role);
        order
    }
}

/// A place in the model's source.
pub(super) fn span(caller: &Location<'_>) -> Span {
    Span { file: caller.file().to_string(), line: caller.line(), column: caller.column(), length: 1, text: None }
}

/// What values of an op are called.
pub(super) fn label(kind: &OpKind) -> String {
    let short = |name: &str| name.rsplit('.').next().unwrap_or(name).to_string();
    match kind {
        OpKind::Constant(_) => "constant".into(),
        OpKind::Iota { .. } => "iota".into(),
        OpKind::Unary(op) => short(names::unary_name(*op)),
        OpKind::Binary(op) => short(names::binary_name(*op)),
        OpKind::Compare { .. } => "compare".into(),
        OpKind::Select => "select".into(),
        OpKind::Clamp => "clamp".into(),
        OpKind::Convert => "convert".into(),
        OpKind::BitcastConvert => "bitcast_convert".into(),
        OpKind::ReducePrecision { .. } => "reduce_precision".into(),
        OpKind::Broadcast { .. } => "broadcast_in_dim".into(),
        OpKind::Reshape => "reshape".into(),
        OpKind::Transpose { .. } => "transpose".into(),
        OpKind::Slice { .. } => "slice".into(),
        OpKind::Pad { .. } => "pad".into(),
        OpKind::Concatenate { .. } => "concatenate".into(),
        OpKind::Reverse { .. } => "reverse".into(),
        OpKind::DynamicSlice { .. } => "dynamic_slice".into(),
        OpKind::DynamicUpdateSlice => "dynamic_update_slice".into(),
        OpKind::Reduce { .. } => "reduce".into(),
        OpKind::ReduceWindow { .. } => "reduce_window".into(),
        OpKind::SelectAndScatter { .. } => "select_and_scatter".into(),
        OpKind::Dot(_) => "dot_general".into(),
        OpKind::Convolution(_) => "convolution".into(),
        OpKind::Gather(_) => "gather".into(),
        OpKind::Scatter { .. } => "scatter".into(),
        OpKind::TopK { .. } => "top_k".into(),
        OpKind::Sort { .. } => "sort".into(),
        OpKind::Barrier => "optimization_barrier".into(),
        OpKind::While => "while".into(),
        OpKind::If => "if".into(),
        OpKind::Case => "case".into(),
        OpKind::Call { callee } => callee.clone(),
        OpKind::RngBitGenerator { .. } => "rng_bit_generator".into(),
        OpKind::CustomCall { target, .. } => target.clone(),
        OpKind::AxisIndex { .. } => "axis_index".into(),
        OpKind::AllReduce { .. } => "all_reduce".into(),
        OpKind::AllGather { .. } => "all_gather".into(),
        OpKind::ReduceScatter { .. } => "reduce_scatter".into(),
        OpKind::AllToAll { .. } => "all_to_all".into(),
        OpKind::ShardSlice { .. } => "shard_slice".into(),
        OpKind::Attention(_) => "attention".into(),
        OpKind::AttentionGrad { .. } => "attention_grad".into(),
    }
}
