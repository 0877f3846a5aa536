//! Writes modules as StableHLO text that JAX reads too.
//!
//! Ops are written in their pretty form where they have one, otherwise in the generic form.
//! Values keep their names where these are distinct and legal in MLIR; others get new ones.
//! Every name is distinct from those that are visible where it is defined, since MLIR allows no shadowing.

use super::lexer::escape;
use super::names;
use super::print_literal::literal;
use crate::attention::Attention;
use crate::dtype::TensorType;
use crate::graph::{Graph, Module, Op};
use crate::id::SecondaryMap;
use crate::op::{OpKind, Reducer, ValueId, Window};
use crate::sharding::AxisId;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::{Display, Write as _};

/// Names of a graph's values in the text.
type Names = SecondaryMap<ValueId, String>;

/// The text of a module.
pub fn print(module: &Module) -> String {
    let mut p = Printer { out: String::new(), used: FxHashSet::default(), next: FxHashMap::default() };
    let name = if module.name.is_empty() { String::new() } else { format!("@{} ", symbol(&module.name)) };
    p.out = format!("module {name}{{\n");
    for (name, axes) in &module.meshes {
        let axes = list(axes.iter().map(|(a, n)| format!("{}={n}", escape(a))));
        p.line(1, format_args!("sdy.mesh @{} = <[{axes}]>", symbol(name)));
    }
    for f in &module.functions {
        p.function(f);
    }
    p.out.push_str("}\n");
    p.out
}

/// The text of one graph, as a function.
pub fn print_graph(graph: &Graph) -> String {
    let mut p = Printer { out: String::new(), used: FxHashSet::default(), next: FxHashMap::default() };
    p.function(graph);
    p.out
}

fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    let mut out = String::new();
    for (i, item) in items.into_iter().enumerate() {
        let _ = write!(out, "{}{item}", if i > 0 { ", " } else { "" });
    }
    out
}

/// `[0, 1]`.
fn bracketed(items: impl IntoIterator<Item = impl Display>) -> String {
    format!("[{}]", list(items))
}

/// `array<i64: 0, 1>`.
fn array(items: impl IntoIterator<Item = impl Display>) -> String {
    let items = list(items);
    if items.is_empty() { "array<i64>".into() } else { format!("array<i64: {items}>") }
}

fn axes(a: &[AxisId]) -> String {
    array(a.iter().map(|a| a.0))
}

/// A symbol's name, quoted when it has to be.
fn symbol(name: &str) -> String {
    if is_identifier(name) { name.to_string() } else { escape(name) }
}

/// Whether MLIR reads `name` as a name of a symbol or value.
fn is_identifier(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '-');
    let digits = name.bytes().all(|b| b.is_ascii_digit());
    !name.is_empty() && name.chars().all(legal) && (digits || !name.starts_with(|c: char| c.is_ascii_digit() || c == '-'))
}

struct Printer {
    out: String,
    /// Names that are visible, without `%`.
    used: FxHashSet<String>,
    next: FxHashMap<String, u32>,
}

impl Printer {
    fn line(&mut self, depth: usize, text: impl Display) {
        let _ = writeln!(self.out, "{:1$}{text}", "", depth * 2);
    }

    /// A name for a value: its own if it can be had.
    fn fresh(&mut self, own: &str, id: ValueId, mine: &mut Vec<String>) -> String {
        let bare = own.strip_prefix('%').unwrap_or(own);
        let mut base: String = bare.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '-') { c } else { '_' }).collect();
        base = base.trim_matches('_').to_string();
        if own.is_empty() || base.is_empty() {
            base = format!("v{}", id.0);
        } else if !is_identifier(&base) {
            base = format!("v{base}");
        }
        // `%31` stays; `@f#1/%31` becomes a word.
        if bare == base && self.used.insert(base.clone()) {
            mine.push(base.clone());
            return format!("%{base}");
        }
        if base.bytes().all(|b| b.is_ascii_digit()) {
            base = format!("v{base}");
        }
        let mut name = base.clone();
        while !self.used.insert(name.clone()) {
            let n = self.next.entry(base.clone()).or_default();
            name = format!("{base}_{n}");
            *n += 1;
        }
        mine.push(name.clone());
        format!("%{name}")
    }

    fn forget(&mut self, mine: &[String]) {
        for name in mine {
            self.used.remove(name);
        }
    }

    fn function(&mut self, f: &Graph) {
        self.used.clear();
        self.next.clear();
        let mut names = Names::default();
        let mut mine = Vec::new();
        let mut arguments = Vec::new();
        for (i, &v) in f.inputs.iter().enumerate() {
            names[v] = self.fresh(&f.values[v].name, v, &mut mine);
            let mut attributes = Vec::new();
            if let Some(a) = f.input_attributes.get(i) {
                if a.donated {
                    attributes.push("jax.buffer_donor = true".to_string());
                }
                attributes.extend(a.sharding.as_ref().map(|s| format!("sdy.sharding = #sdy.sharding{s}")));
                attributes.extend(a.aliasing_output.map(|n| format!("tf.aliasing_output = {n} : i32")));
            }
            let attributes = if attributes.is_empty() { String::new() } else { format!(" {{{}}}", attributes.join(", ")) };
            arguments.push(format!("{}: {}{attributes}", names[v], f.ty(v)));
        }
        let results = f.outputs.iter().enumerate().map(|(i, &v)| {
            let mut attributes = Vec::new();
            if let Some(a) = f.output_attributes.get(i) {
                if !a.name.is_empty() {
                    attributes.push(format!("jax.result_info = {}", escape(&a.name)));
                }
                attributes.extend(a.sharding.as_ref().map(|s| format!("sdy.sharding = #sdy.sharding{s}")));
            }
            let attributes = if attributes.is_empty() { String::new() } else { format!(" {{{}}}", attributes.join(", ")) };
            format!("{}{attributes}", f.ty(v))
        });
        let visibility = if f.name == "main" { "public" } else { "private" };
        let header = format!("func.func {visibility} @{}({}) -> ({}) {{", symbol(&f.name), arguments.join(", "), list(results));
        self.line(1, header);
        self.body(f, &mut names, 2, "func.return");
        self.line(1, "}");
    }

    /// Ops and the terminator.
    fn body(&mut self, g: &Graph, names: &mut Names, depth: usize, terminator: &str) {
        let mut mine = Vec::new();
        for op in g.ops.values() {
            self.op(g, op, names, depth, &mut mine);
        }
        let returned = list(g.outputs.iter().map(|v| &names[*v]));
        if g.outputs.is_empty() {
            self.line(depth, terminator);
        } else {
            self.line(depth, format_args!("{terminator} {returned} : {}", list(g.outputs.iter().map(|v| g.ty(*v)))));
        }
        self.forget(&mine);
    }

    /// Names an op's results; the text before `=`. Results named `%6#0`, `%6#1`, … are written `%6:2`.
    fn results(&mut self, g: &Graph, op: &Op, names: &mut Names, mine: &mut Vec<String>) -> String {
        let mut parts = Vec::new();
        let mut i = 0;
        while i < op.results.len() {
            let v = op.results[i];
            let base = g.values[v].name.strip_suffix("#0").and_then(|b| b.strip_prefix('%')).filter(|b| is_identifier(b) && !self.used.contains(*b));
            let run = base.map_or(0, |b| op.results[i..].iter().enumerate().take_while(|(k, v)| *g.values[**v].name == format!("%{b}#{k}")).count());
            match base {
                Some(base) if run > 1 => {
                    for k in 0..run {
                        names[op.results[i + k]] = format!("%{base}#{k}");
                    }
                    self.used.insert(base.to_string());
                    mine.push(base.to_string());
                    parts.push(format!("%{base}:{run}"));
                    i += run;
                }
                _ => {
                    names[v] = self.fresh(&g.values[v].name, v, mine);
                    parts.push(names[v].clone());
                    i += 1;
                }
            }
        }
        if parts.is_empty() { String::new() } else { format!("{} = ", list(parts)) }
    }

    fn op(&mut self, g: &Graph, op: &Op, names: &mut Names, depth: usize, mine: &mut Vec<String>) {
        let operands = list(op.operands.iter().map(|v| &names[*v]));
        let types = functional(g, op);
        let first = op.operands.first().map(|v| g.ty(*v));
        let same = op.operands.iter().chain(&op.results).all(|v| Some(g.ty(*v)) == first);
        let short = |types: &str| if same { first.map(ToString::to_string).unwrap_or_default() } else { types.to_string() };
        let text = match &op.kind {
            OpKind::Constant(l) => format!("stablehlo.constant {}", literal(l)),
            OpKind::Iota { dim } => format!("stablehlo.iota dim = {dim} : {}", g.ty(op.results[0])),
            OpKind::Unary(u) => match names::unary_name(*u) {
                name if name.starts_with("chlo") => format!("{name} {operands} : {} -> {}", g.ty(op.operands[0]), g.ty(op.results[0])),
                name => format!("{name} {operands} : {}", short(&types)),
            },
            OpKind::Binary(b) => match names::binary_name(*b) {
                name if name.starts_with("chlo") => format!("{name} {operands} : {0}, {0} -> {1}", g.ty(op.operands[0]), g.ty(op.results[0])),
                name => format!("{name} {operands} : {}", short(&types)),
            },
            OpKind::Compare { direction, total } => {
                format!("stablehlo.compare {}, {operands}{} : {types}", names::direction_name(*direction), if *total { ", TOTALORDER" } else { "" })
            }
            OpKind::Select => format!("stablehlo.select {operands} : {}, {}", g.ty(op.operands[0]), g.ty(op.results[0])),
            OpKind::Clamp => format!("stablehlo.clamp {operands} : {}", short(&types)),
            OpKind::Convert => format!("stablehlo.convert {operands} : {types}"),
            OpKind::BitcastConvert => format!("stablehlo.bitcast_convert {operands} : {types}"),
            OpKind::ReducePrecision { exponent, mantissa } => {
                format!("stablehlo.reduce_precision {operands}, format = e{exponent}m{mantissa} : {}", short(&types))
            }
            OpKind::Broadcast { dims } => format!("stablehlo.broadcast_in_dim {operands}, dims = {} : {types}", bracketed(dims)),
            OpKind::Reshape => format!("stablehlo.reshape {operands} : {types}"),
            OpKind::Transpose { perm } => format!("stablehlo.transpose {operands}, dims = {} : {types}", bracketed(perm)),
            OpKind::Slice { start, limit, stride } => {
                let ranges = (0..start.len()).map(|d| {
                    let step = if stride[d] == 1 { String::new() } else { format!(":{}", stride[d]) };
                    format!("{}:{}{step}", start[d], limit[d])
                });
                format!("stablehlo.slice {operands} {} : {types}", bracketed(ranges))
            }
            OpKind::Pad { low, high, interior } => {
                let (low, high, interior) = (bracketed(low), bracketed(high), bracketed(interior));
                format!("stablehlo.pad {operands}, low = {low}, high = {high}, interior = {interior} : {types}")
            }
            OpKind::Concatenate { dim } => format!("stablehlo.concatenate {operands}, dim = {dim} : {types}"),
            OpKind::Reverse { dims } => format!("stablehlo.reverse {operands}, dims = {} : {}", bracketed(dims), short(&types)),
            OpKind::DynamicSlice { sizes } => format!("stablehlo.dynamic_slice {operands}, sizes = {} : {types}", bracketed(sizes)),
            OpKind::DynamicUpdateSlice => format!("stablehlo.dynamic_update_slice {operands} : {types}"),
            OpKind::Dot(d) => {
                let batch = if d.lhs_batch.is_empty() && d.rhs_batch.is_empty() {
                    String::new()
                } else {
                    format!(", batching_dims = {} x {}", bracketed(&d.lhs_batch), bracketed(&d.rhs_batch))
                };
                let contract = format!("{} x {}", bracketed(&d.lhs_contract), bracketed(&d.rhs_contract));
                format!("stablehlo.dot_general {operands}{batch}, contracting_dims = {contract}, precision = [DEFAULT, DEFAULT] : {types}")
            }
            OpKind::Convolution(d) => {
                let numbers = format!(
                    "{}x{}->{}",
                    roles(d.input_batch, d.input_feature, &d.input_spatial, ["b", "f"]),
                    roles(d.kernel_input, d.kernel_output, &d.kernel_spatial, ["i", "o"]),
                    roles(d.output_batch, d.output_feature, &d.output_spatial, ["b", "f"])
                );
                let w = &d.window;
                let pad = bracketed(w.pad.iter().map(|(l, h)| format!("[{l}, {h}]")));
                let reverse = if w.reversal.is_empty() { vec![false; d.input_spatial.len()] } else { w.reversal.clone() };
                format!(
                    "stablehlo.convolution({operands}) dim_numbers = {numbers}, window = {{stride = {}, pad = {pad}, lhs_dilate = {}, rhs_dilate = {}, reverse = {}}} {{batch_group_count = {} : i64, feature_group_count = {} : i64}} : {types}",
                    bracketed(&w.stride),
                    bracketed(&w.base_dilation),
                    bracketed(&w.window_dilation),
                    bracketed(&reverse),
                    d.batch_groups,
                    d.feature_groups
                )
            }
            OpKind::Attention(a) => format!("\"shardwright.attention\"({operands}) <{{{}}}> : {types}", attention(a)),
            OpKind::AttentionGrad { attention: a, bias } => {
                format!("\"shardwright.attention_grad\"({operands}) <{{{}, bias_grad = {bias}}}> : {types}", attention(a))
            }
            OpKind::Gather(d) => {
                let numbers = dimension_numbers(&[
                    ("offset_dims", &d.offset_dims),
                    ("collapsed_slice_dims", &d.collapsed_slice_dims),
                    ("operand_batching_dims", &d.operand_batching_dims),
                    ("start_indices_batching_dims", &d.start_indices_batching_dims),
                    ("start_index_map", &d.start_index_map),
                ]);
                let numbers = format!("#stablehlo.gather<{numbers}index_vector_dim = {}>", d.index_vector_dim);
                let sorted = d.indices_are_sorted;
                let properties = format!("dimension_numbers = {numbers}, indices_are_sorted = {sorted}, slice_sizes = {}", array(&d.slice_sizes));
                format!("\"stablehlo.gather\"({operands}) <{{{properties}}}> : {types}")
            }
            OpKind::TopK { k } => format!("chlo.top_k({operands}, k = {k}) : {} -> ({})", g.ty(op.operands[0]), list(op.results.iter().map(|v| g.ty(*v)))),
            OpKind::Barrier if op.operands.is_empty() => format!("\"stablehlo.optimization_barrier\"() : {types}"),
            OpKind::Barrier => format!("stablehlo.optimization_barrier {operands} : {}", list(op.operands.iter().map(|v| g.ty(*v)))),
            OpKind::Call { callee } => format!("func.call @{}({operands}) : {types}", symbol(callee)),
            OpKind::RngBitGenerator { algorithm } => format!("stablehlo.rng_bit_generator {operands}, algorithm = {algorithm} : {types}"),
            OpKind::CustomCall { target, attributes } => {
                let attributes = if attributes.is_empty() { String::new() } else { format!(" {{{attributes}}}") };
                format!("stablehlo.custom_call @{}({operands}){attributes} : {types}", symbol(target))
            }
            OpKind::AxisIndex { axes: a } => format!("\"shardwright.axis_index\"() <{{axes = {}}}> : {types}", axes(a)),
            OpKind::AllReduce { axes: a, reducer } => {
                format!("\"shardwright.all_reduce\"({operands}) <{{axes = {}, reducer = {}}}> : {types}", axes(a), reducer_name(*reducer))
            }
            OpKind::AllGather { axes: a, dim } => format!("\"shardwright.all_gather\"({operands}) <{{axes = {}, dim = {dim} : i64}}> : {types}", axes(a)),
            OpKind::ReduceScatter { axes: a, dim, reducer } => {
                let r = reducer_name(*reducer);
                format!("\"shardwright.reduce_scatter\"({operands}) <{{axes = {}, dim = {dim} : i64, reducer = {r}}}> : {types}", axes(a))
            }
            OpKind::AllToAll { axes: a, split, concat } => {
                format!("\"shardwright.all_to_all\"({operands}) <{{axes = {}, split = {split} : i64, concat = {concat} : i64}}> : {types}", axes(a))
            }
            OpKind::ShardSlice { axes: a, dim } => format!("\"shardwright.shard_slice\"({operands}) <{{axes = {}, dim = {dim} : i64}}> : {types}", axes(a)),
            OpKind::Reduce { .. }
            | OpKind::ReduceWindow { .. }
            | OpKind::SelectAndScatter { .. }
            | OpKind::Scatter { .. }
            | OpKind::Sort { .. }
            | OpKind::While
            | OpKind::If
            | OpKind::Case => {
                let results = self.results(g, op, names, mine);
                self.op_with_regions(g, op, names, depth, &results);
                return;
            }
        };
        let results = self.results(g, op, names, mine);
        self.line(depth, format_args!("{results}{text}"));
    }

    fn op_with_regions(&mut self, g: &Graph, op: &Op, names: &Names, depth: usize, results: &str) {
        let operands = list(op.operands.iter().map(|v| &names[*v]));
        let types = functional(g, op);
        let scalar = |v: ValueId| TensorType::scalar(g.ty(v).dtype);
        match &op.kind {
            OpKind::Reduce { dims, reducer } => {
                let n = op.operands.len() / 2;
                let pairs = list((0..n).map(|i| format!("({} init: {})", names[op.operands[i]], names[op.operands[n + i]])));
                let dims = bracketed(dims);
                if let (Some(b), 1) = (reducer.binary(), n) {
                    let name = names::binary_name(b);
                    self.line(depth, format_args!("{results}stablehlo.reduce{pairs} applies {name} across dimensions = {dims} : {types}"));
                    return;
                }
                self.line(depth, format_args!("{results}stablehlo.reduce{pairs} across dimensions = {dims} : {types}"));
                let (mut inner, mut mine) = (Names::default(), Vec::new());
                let synthetic;
                let region = match op.regions.first() {
                    Some(r) => r,
                    None => {
                        synthetic = fold_region(*reducer, &op.operands[n..].iter().map(|v| scalar(*v)).collect::<Vec<_>>());
                        &synthetic
                    }
                };
                for &v in &region.inputs {
                    inner[v] = self.fresh(&region.values[v].name, v, &mut mine);
                }
                let arguments: String = (0..n)
                    .map(|i| {
                        let (a, b) = (region.inputs[i], region.inputs[n + i]);
                        format!("({}: {}, {}: {}) ", inner[a], region.ty(a), inner[b], region.ty(b))
                    })
                    .collect();
                self.line(depth + 1, format_args!("reducer{arguments}{{"));
                self.body(region, &mut inner, depth + 2, "stablehlo.return");
                self.line(depth + 1, "}");
                self.forget(&mine);
            }
            OpKind::While => {
                let (mut inner, mut mine) = (Names::default(), Vec::new());
                let [cond, body] = &op.regions[..] else { return };
                for &v in &cond.inputs {
                    inner[v] = self.fresh(&cond.values[v].name, v, &mut mine);
                }
                let mut carried = Names::default();
                for (&b, &c) in body.inputs.iter().zip(&cond.inputs) {
                    carried[b] = inner[c].clone();
                }
                let pairs = list(cond.inputs.iter().zip(&op.operands).map(|(i, v)| format!("{} = {}", inner[*i], names[*v])));
                let stated = list(op.operands.iter().map(|v| g.ty(*v)));
                let colon = if op.operands.is_empty() { "" } else { " : " };
                self.line(depth, format_args!("{results}stablehlo.while({pairs}){colon}{stated}"));
                self.line(depth, "cond {");
                self.body(cond, &mut inner, depth + 1, "stablehlo.return");
                self.line(depth, "} do {");
                self.body(body, &mut carried, depth + 1, "stablehlo.return");
                self.line(depth, "}");
                self.forget(&mine);
            }
            OpKind::If | OpKind::Case => {
                let name = if op.kind == OpKind::If { "if" } else { "case" };
                self.line(depth, format_args!("{results}\"stablehlo.{name}\"({}) ({{", names[op.operands[0]]));
                for (i, region) in op.regions.iter().enumerate() {
                    if i > 0 {
                        self.line(depth, "}, {");
                    }
                    // Branches have no arguments: they read what is around them.
                    let mut inner = Names::default();
                    for (&v, &outer) in region.inputs.iter().zip(&op.operands[1..]) {
                        inner[v] = names[outer].clone();
                    }
                    self.body(region, &mut inner, depth + 1, "stablehlo.return");
                }
                let outs = list(op.results.iter().map(|v| g.ty(*v)));
                let outs = if op.results.len() == 1 { outs } else { format!("({outs})") };
                self.line(depth, format_args!("}}) : ({}) -> {outs}", g.ty(op.operands[0])));
            }
            OpKind::ReduceWindow { window, reducer } => {
                let n = op.operands.len() / 2;
                let scalars: Vec<TensorType> = op.operands[n..].iter().map(|v| scalar(*v)).collect();
                let properties = format!(
                    "base_dilations = {}, {}, window_dilations = {}",
                    array(&window.base_dilation),
                    window_properties(window),
                    array(&window.window_dilation)
                );
                self.generic_with_regions(
                    op,
                    depth,
                    &format!("{results}\"stablehlo.reduce_window\"({operands}) <{{{properties}}}>"),
                    &types,
                    *reducer,
                    &scalars,
                );
            }
            OpKind::SelectAndScatter { window } => {
                let head = format!("{results}\"stablehlo.select_and_scatter\"({operands}) <{{{}}}>", window_properties(window));
                self.generic_with_regions(op, depth, &head, &types, Reducer::General, &[]);
            }
            OpKind::Scatter { dims: d, reducer } => {
                let numbers = dimension_numbers(&[
                    ("update_window_dims", &d.update_window_dims),
                    ("inserted_window_dims", &d.inserted_window_dims),
                    ("input_batching_dims", &d.input_batching_dims),
                    ("scatter_indices_batching_dims", &d.scatter_indices_batching_dims),
                    ("scatter_dims_to_operand_dims", &d.scatter_dims_to_operand_dims),
                ]);
                let numbers = format!("#stablehlo.scatter<{numbers}index_vector_dim = {}>", d.index_vector_dim);
                let (sorted, unique) = (d.indices_are_sorted, d.unique_indices);
                let properties = format!("indices_are_sorted = {sorted}, scatter_dimension_numbers = {numbers}, unique_indices = {unique}");
                let n = (op.operands.len() - 1) / 2;
                let scalars: Vec<TensorType> = op.operands[..n].iter().map(|v| scalar(*v)).collect();
                self.generic_with_regions(op, depth, &format!("{results}\"stablehlo.scatter\"({operands}) <{{{properties}}}>"), &types, *reducer, &scalars);
            }
            OpKind::Sort { dim, stable } => {
                let head = format!("{results}\"stablehlo.sort\"({operands}) <{{dimension = {dim} : i64, is_stable = {stable}}}>");
                self.generic_with_regions(op, depth, &head, &types, Reducer::General, &[]);
            }
            _ => {}
        }
    }

    /// An op in the generic form with the regions it has, or the one that its reducer stands for.
    fn generic_with_regions(&mut self, op: &Op, depth: usize, head: &str, types: &str, reducer: Reducer, scalars: &[TensorType]) {
        self.line(depth, format_args!("{head} ({{"));
        let synthetic;
        let regions = if op.regions.is_empty() {
            synthetic = [fold_region(reducer, scalars)];
            &synthetic[..]
        } else {
            &op.regions[..]
        };
        for (i, region) in regions.iter().enumerate() {
            if i > 0 {
                self.line(depth, "}, {");
            }
            let (mut inner, mut mine) = (Names::default(), Vec::new());
            for &v in &region.inputs {
                inner[v] = self.fresh(&region.values[v].name, v, &mut mine);
            }
            self.line(depth, format_args!("^bb0({}):", list(region.inputs.iter().map(|v| format!("{}: {}", inner[*v], region.ty(*v))))));
            self.body(region, &mut inner, depth + 1, "stablehlo.return");
            self.forget(&mine);
        }
        self.line(depth, format_args!("}}) : {types}"));
    }
}

/// `(t, t) -> t`.
fn functional(g: &Graph, op: &Op) -> String {
    let outs = list(op.results.iter().map(|v| g.ty(*v)));
    let outs = if op.results.len() == 1 { outs } else { format!("({outs})") };
    format!("({}) -> {outs}", list(op.operands.iter().map(|v| g.ty(*v))))
}

/// The region that a named reducer stands for.
fn fold_region(reducer: Reducer, scalars: &[TensorType]) -> Graph {
    let mut g = Graph::new("");
    let loc = g.add_loc(crate::graph::LocInfo::default());
    let first: Vec<ValueId> = scalars.iter().map(|t| g.add_input(t.clone(), "")).collect();
    let second: Vec<ValueId> = scalars.iter().map(|t| g.add_input(t.clone(), "")).collect();
    for ((a, b), t) in first.iter().zip(&second).zip(scalars) {
        let out = match reducer.binary() {
            Some(op) => g.add(OpKind::Binary(op), vec![*a, *b], t.clone(), loc),
            None => *b,
        };
        g.outputs.push(out);
    }
    g
}

fn reducer_name(r: Reducer) -> String {
    escape(names::REDUCERS.iter().find(|(x, _)| *x == r).map_or("general", |(_, n)| n))
}

/// `[b, 0, 1, f]`.
fn roles(first: usize, second: usize, spatial: &[usize], names: [&str; 2]) -> String {
    let mut items = vec![String::new(); spatial.len() + 2];
    items[first] = names[0].to_string();
    items[second] = names[1].to_string();
    for (i, &d) in spatial.iter().enumerate() {
        items[d] = i.to_string();
    }
    bracketed(items)
}

/// `name = [0], …, `, without those that are empty.
fn dimension_numbers(entries: &[(&str, &Vec<usize>)]) -> String {
    entries.iter().filter(|(_, v)| !v.is_empty()).map(|(n, v)| format!("{n} = {}, ", bracketed(*v))).collect()
}

fn window_properties(w: &Window) -> String {
    let rank = w.size.len();
    let padding = if rank == 0 {
        "dense<> : tensor<0x2xi64>".to_string()
    } else {
        format!("dense<{}> : tensor<{rank}x2xi64>", bracketed(w.pad.iter().map(|(l, h)| format!("[{l}, {h}]"))))
    };
    format!("padding = {padding}, window_dimensions = {}, window_strides = {}", array(&w.size), array(&w.stride))
}

/// The attributes that attention and its derivative have in common.
fn attention(a: &Attention) -> String {
    let flag = |on: bool, name: &str| if on { format!(", {name} = true") } else { String::new() };
    // A float has a point in this text.
    let scale = format!("{:?}", a.scale.0);
    let scale = if scale.contains('.') { scale } else { scale.replace('e', ".0e") };
    format!("dims = \"{}\", scale = {scale} : f64{}{}", a.subscripts(), flag(a.causal, "causal"), flag(a.offset, "offset"))
}
