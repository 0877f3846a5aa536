//! Which inputs are state and which output replaces each, what is the batch, and which output is the loss. All by data flow.
//!
//! An input and an output of one type may be state if the input reaches the output through elementwise ops (`p − lr·u`, `.9·m + g`, `i + 1`); the state is a
//! maximum matching of these, preferring paths in which the input enters linearly. Aliasing attributes say only that a buffer may be reused, and JAX
//! pairs them by type and order: they break ties, and where they disagree with data flow a note says so. What elementwise paths cannot tell (a random key
//! that is split) follows from attributes, or from being the only input and output of that type. What cannot be told is an error with the flag that tells it.

use super::matching::{self, Edge};
use crate::canonical::atoms::Correspondence;
use ir::graph::{Def, Graph};
use ir::op::{BinaryOp, OpKind, UnaryOp};
use ir::plan::Interface;
use ir::{Diagnostic, Result, SecondaryMap, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// What the user says about the step instead of it being found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--state`: arguments that are state, each with the result that replaces it where given.
    pub state: Option<Vec<(u32, Option<u32>)>>,
    /// `--batch`: the batch arguments.
    pub batch: Option<Vec<u32>>,
    /// `--loss`: a result's number or name.
    pub loss: Option<String>,
}

impl Overrides {
    /// Overrides from the texts of the flags: `0-156` or `0=0,1=2` for the state, `157,158` for the batch.
    ///
    /// # Errors
    /// `E0211` and `E0215` for texts that are no such lists.
    pub fn parse(state: Option<&str>, batch: Option<&str>, loss: Option<&str>) -> Result<Overrides> {
        let state = state.map(|text| list(text, "E0211", "--state", "0-156` or `0=0,1=2")).transpose()?;
        let batch = batch.map(|text| list(text, "E0215", "--batch", "157,158")).transpose()?;
        if let Some(entries) = &batch
            && entries.iter().any(|e| e.1.is_some())
        {
            return Err(Diagnostic::input("E0215", "`--batch` takes arguments only, without `=`").with_help("for example `--batch 157,158`").into());
        }
        let batch = batch.map(|entries| entries.into_iter().map(|e| e.0).collect());
        Ok(Overrides { state, batch, loss: loss.map(str::to_string) })
    }
}

fn list(text: &str, code: &str, flag: &str, example: &str) -> Result<Vec<(u32, Option<u32>)>> {
    let wrong = |part: &str| Diagnostic::input(code, format!("`{flag}`: cannot read `{part}`")).with_help(format!("for example `{flag} {example}`"));
    let number = |s: &str, part: &str| s.trim().parse::<u32>().map_err(|_| wrong(part));
    let mut entries = Vec::new();
    for part in text.split(',') {
        if let Some((a, b)) = part.split_once('=') {
            entries.push((number(a, part)?, Some(number(b, part)?)));
        } else if let Some((a, b)) = part.split_once('-') {
            let (a, b) = (number(a, part)?, number(b, part)?);
            if a > b || b - a > 1_000_000 {
                return Err(wrong(part).into());
            }
            entries.extend((a..=b).map(|i| (i, None)));
        } else {
            entries.push((number(part, part)?, None));
        }
    }
    Ok(entries)
}

/// The interface of a step, and notes on what was decided against its attributes.
///
/// # Errors
/// `E0210` state that cannot be told, `E0211` a wrong `--state`, `E0213` a loss that cannot be told, `E0214` a wrong `--loss`, `E0215` a wrong `--batch`.
pub fn interface(graph: &Graph, overrides: &Overrides) -> Result<(Interface, Vec<Diagnostic>)> {
    let mut notes = Vec::new();
    let state = match &overrides.state {
        Some(given) => given_state(graph, given)?,
        None => found_state(graph, &mut notes)?,
    };
    let is_state_input: BTreeSet<u32> = state.iter().map(|p| p.0).collect();
    let is_state_output: BTreeSet<u32> = state.iter().map(|p| p.1).collect();
    let results = || (0..graph.outputs.len() as u32).filter(|o| !is_state_output.contains(o));
    let scalars: Vec<u32> = results().filter(|&o| output_type(graph, o).rank() == 0).collect();
    let loss = loss(graph, overrides.loss.as_deref(), &scalars, &mut notes)?;
    let reached = inputs_of(graph, loss);
    let parameters = state.iter().map(|p| p.0).filter(|&i| reached.contains(&i) && graph.ty(graph.inputs[i as usize]).dtype.is_float()).collect();
    let batch = match &overrides.batch {
        Some(given) => given_batch(graph, given, &is_state_input)?,
        None => {
            let candidates: Vec<u32> = (0..graph.inputs.len() as u32).filter(|i| !is_state_input.contains(i)).collect();
            found_batch(graph, &candidates, &reached)
        }
    };
    let constants = (0..graph.inputs.len() as u32).filter(|i| !is_state_input.contains(i) && !batch.iter().any(|b| b.0 == *i)).collect();
    let other_results = results().filter(|o| !scalars.contains(o)).collect();
    Ok((Interface { state, parameters, batch, loss, scalars, constants, other_results }, notes))
}

fn output_type(graph: &Graph, output: u32) -> &ir::TensorType {
    graph.ty(graph.outputs[output as usize])
}

/// What a user calls an input: its number and name.
fn argument(graph: &Graph, input: u32) -> String {
    format!("argument {input} (`{}`, `{}`)", graph.display_name(graph.inputs[input as usize]), graph.ty(graph.inputs[input as usize]))
}

fn result(graph: &Graph, output: u32) -> String {
    let name = graph.output_attributes.get(output as usize).map_or("", |a| a.name.as_str());
    if name.is_empty() { format!("result {output}") } else { format!("result {output} (`{name}`)") }
}

/// Weight of an edge by itself, for a linear path, and for an aliasing attribute that says the same.
const EDGE: i64 = 1_000_000;
const LINEAR: i64 = 1_000;
const ALIASED: i64 = 1;

fn found_state(graph: &Graph, notes: &mut Vec<Diagnostic>) -> Result<Vec<(u32, u32)>> {
    let edges = edges(graph, |_| true);
    let aliased = |e: &Edge| graph.input_attributes.get(e.input as usize).is_some_and(|a| a.aliasing_output == Some(e.output));
    let mut matched = matching::solve(&edges);
    if !matched.doubtful.is_empty() {
        let tied: Vec<Edge> = edges.iter().map(|e| Edge { weight: e.weight + if aliased(e) { ALIASED } else { 0 }, ..*e }).collect();
        matched = matching::solve(&tied);
    }
    if !matched.doubtful.is_empty() {
        let mut error = Diagnostic::input("E0210", "which result replaces which argument cannot be told from the data flow");
        for &(i, o) in matched.doubtful.iter().take(8) {
            error = error.with_note(format!("{} could be replaced by {} or by another of that type", argument(graph, i), result(graph, o)));
        }
        let pairs: Vec<String> = matched.doubtful.iter().take(4).map(|(i, o)| format!("{i}={o}")).collect();
        return Err(error.with_help(format!("say it with `--state`, for example `--state {}`", pairs.join(","))).into());
    }
    let mut state = matched.pairs;
    leftovers(graph, &mut state, notes);
    state.sort_unstable();
    for (i, attributes) in graph.input_attributes.iter().enumerate() {
        let Some(o) = attributes.aliasing_output else { continue };
        if let Some(&(_, by_flow)) = state.iter().find(|p| p.0 == i as u32)
            && by_flow != o
        {
            notes.push(
                Diagnostic::note("N0201", format!("{} is replaced by {}, as the data flow says", argument(graph, i as u32), result(graph, by_flow)))
                    .with_note(format!("its `tf.aliasing_output` names {}, which only says that the buffer may be reused", result(graph, o))),
            );
        }
    }
    Ok(state)
}

/// Pairs that no elementwise path shows: by attribute, or as the only ones of their type.
fn leftovers(graph: &Graph, state: &mut Vec<(u32, u32)>, notes: &mut Vec<Diagnostic>) {
    let ty = |i: u32| graph.ty(graph.inputs[i as usize]);
    let free_inputs: Vec<u32> = (0..graph.inputs.len() as u32).filter(|i| !state.iter().any(|p| p.0 == *i)).collect();
    let free_outputs: Vec<u32> = (0..graph.outputs.len() as u32).filter(|o| !state.iter().any(|p| p.1 == *o)).collect();
    let depends: BTreeMap<u32, BTreeSet<u32>> = free_outputs.iter().map(|&o| (o, inputs_of(graph, Some(o)))).collect();
    let mut taken = BTreeSet::new();
    for &i in &free_inputs {
        let fits = |o: u32| output_type(graph, o) == ty(i) && depends[&o].contains(&i);
        let attribute = graph.input_attributes.get(i as usize).and_then(|a| a.aliasing_output).filter(|&o| depends.contains_key(&o) && fits(o));
        let candidates: Vec<u32> = free_outputs.iter().copied().filter(|&o| fits(o)).collect();
        let rivals = free_inputs.iter().filter(|&&j| ty(j) == ty(i) && candidates.first().is_some_and(|o| depends[o].contains(&j))).count();
        let donated = graph.input_attributes.get(i as usize).is_some_and(|a| a.donated);
        let only = match candidates[..] {
            // A batch argument and a prediction may have one type: without an attribute, only what is no float is taken to be state.
            [o] if rivals == 1 && (donated || !ty(i).dtype.is_float()) => Some(o),
            _ => None,
        };
        if let Some(o) = attribute.or(only)
            && taken.insert(o)
        {
            state.push((i, o));
            let reason = if attribute.is_some() { "its attribute says so" } else { "they are the only ones of that type" };
            notes.push(
                Diagnostic::note("N0202", format!("{} is taken to be replaced by {}: {reason}", argument(graph, i), result(graph, o)))
                    .with_note("no elementwise path leads from one to the other")
                    .with_help("say otherwise with `--state`"),
            );
        }
    }
}

fn given_state(graph: &Graph, given: &[(u32, Option<u32>)]) -> Result<Vec<(u32, u32)>> {
    let (inputs, outputs) = (graph.inputs.len() as u32, graph.outputs.len() as u32);
    for &(i, o) in given {
        if i >= inputs || o.is_some_and(|o| o >= outputs) {
            let text = o.map_or_else(|| i.to_string(), |o| format!("{i}={o}"));
            return Err(Diagnostic::input("E0211", format!("`--state {text}`: the step has {inputs} arguments and {outputs} results"))
                .with_help(format!("arguments are 0 to {}, results 0 to {}", inputs.saturating_sub(1), outputs.saturating_sub(1)))
                .into());
        }
        if let Some(o) = o
            && graph.ty(graph.inputs[i as usize]) != output_type(graph, o)
        {
            let message = format!("`--state {i}={o}`: {} and {} (`{}`) have different types", argument(graph, i), result(graph, o), output_type(graph, o));
            let ty = graph.ty(graph.inputs[i as usize]);
            let fit: Vec<String> = (0..outputs).filter(|&o| output_type(graph, o) == ty).take(8).map(|o| format!("`{i}={o}`")).collect();
            let help = if fit.is_empty() { format!("leave {i} out: no result is `{ty}`") } else { format!("of its type there are {}", fit.join(", ")) };
            return Err(Diagnostic::input("E0211", message).with_help(help).into());
        }
    }
    let mut state: Vec<(u32, u32)> = given.iter().filter_map(|&(i, o)| Some((i, o?))).collect();
    let listed: BTreeSet<u32> = given.iter().filter(|g| g.1.is_none()).map(|g| g.0).collect();
    let edges: Vec<Edge> = edges(graph, |i| listed.contains(&i)).into_iter().filter(|e| !state.iter().any(|p| p.1 == e.output)).collect();
    state.extend(matching::solve(&edges).pairs);
    for &i in &listed {
        if state.iter().any(|p| p.0 == i) {
            continue;
        }
        let ty = graph.ty(graph.inputs[i as usize]);
        let aliased = graph.input_attributes.get(i as usize).and_then(|a| a.aliasing_output);
        let mut free = (0..outputs).filter(|&o| output_type(graph, o) == ty && !state.iter().any(|p| p.1 == o));
        let first = free.next();
        match aliased.filter(|o| !state.iter().any(|p| p.1 == *o)).or(first.filter(|_| free.next().is_none())) {
            Some(o) => state.push((i, o)),
            None => {
                return Err(Diagnostic::input("E0211", format!("`--state`: which result replaces {} cannot be told", argument(graph, i)))
                    .with_help(format!("name it: `--state {i}=RESULT`"))
                    .into());
            }
        }
    }
    state.sort_unstable();
    let mut seen = BTreeSet::new();
    if let Some(&(i, _)) = state.iter().find(|p| !seen.insert((p.0, 0)) || !seen.insert((p.1, 1))) {
        return Err(Diagnostic::input("E0211", format!("`--state` pairs {} or its result twice", argument(graph, i)))
            .with_help("name each argument and each result once: `--state IN=OUT,…`")
            .into());
    }
    Ok(state)
}

/// Which inputs reach which outputs of their type elementwise.
fn edges(graph: &Graph, admit: impl Fn(u32) -> bool) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (o, &v) in graph.outputs.iter().enumerate() {
        for (input, linear) in elementwise_sources(graph, v) {
            if admit(input) && graph.ty(graph.inputs[input as usize]) == graph.ty(v) {
                edges.push(Edge { input, output: o as u32, weight: EDGE + if linear { LINEAR } else { 0 } });
            }
        }
    }
    edges
}

/// The inputs from which a value follows elementwise, and whether linearly.
fn elementwise_sources(graph: &Graph, v: ValueId) -> BTreeMap<u32, bool> {
    let mut sources = BTreeMap::new();
    let mut seen: BTreeSet<(ValueId, bool)> = BTreeSet::new();
    let mut stack = vec![(v, true)];
    while let Some((v, linear)) = stack.pop() {
        if !seen.insert((v, linear)) {
            continue;
        }
        let (op, index) = match graph.values[v].def {
            Def::Input(i) => {
                *sources.entry(i).or_insert(false) |= linear;
                continue;
            }
            Def::Op(op, index) => (&graph.ops[op], index as usize),
        };
        let mut follow = |operand: usize, keeps: bool| stack.push((op.operands[operand], linear && keeps));
        match &op.kind {
            OpKind::Unary(u) => follow(0, matches!(u, UnaryOp::Negate)),
            OpKind::Convert | OpKind::ReducePrecision { .. } | OpKind::DynamicUpdateSlice => follow(0, true),
            OpKind::Binary(b) => {
                follow(0, matches!(b, BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Maximum | BinaryOp::Minimum));
                follow(1, matches!(b, BinaryOp::Add | BinaryOp::Multiply | BinaryOp::Maximum | BinaryOp::Minimum));
            }
            OpKind::Select => {
                follow(1, true);
                follow(2, true);
            }
            OpKind::Clamp => follow(1, true),
            OpKind::Barrier | OpKind::Scatter { .. } => follow(index, true),
            // Comparisons forget the value; everything else moves or mixes elements.
            _ => {}
        }
    }
    sources
}

/// The inputs that an output depends on in any way; none without one.
fn inputs_of(graph: &Graph, output: Option<u32>) -> BTreeSet<u32> {
    let mut inputs = BTreeSet::new();
    let mut seen: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    let mut stack: Vec<ValueId> = output.map(|o| graph.outputs[o as usize]).into_iter().collect();
    while let Some(v) = stack.pop() {
        if std::mem::replace(&mut seen[v], true) {
            continue;
        }
        match graph.values[v].def {
            Def::Input(i) => {
                inputs.insert(i);
            }
            Def::Op(op, _) => stack.extend(&graph.ops[op].operands),
        }
    }
    inputs
}

fn loss(graph: &Graph, given: Option<&str>, scalars: &[u32], notes: &mut Vec<Diagnostic>) -> Result<Option<u32>> {
    let floats: Vec<u32> = scalars.iter().copied().filter(|&o| output_type(graph, o).dtype.is_float()).collect();
    let listed = |outputs: &[u32]| outputs.iter().map(|&o| result(graph, o)).collect::<Vec<_>>().join(", ");
    if let Some(name) = given {
        let number = name.parse::<u32>().ok().filter(|&n| (n as usize) < graph.outputs.len());
        let named = || graph.output_attributes.iter().position(|a| a.name == name).map(|n| n as u32);
        let Some(o) = number.or_else(named) else {
            return Err(Diagnostic::input("E0214", format!("`--loss {name}`: there is no such result"))
                .with_note(format!("scalar results that are not state: {}", listed(&floats)))
                .with_help(floats.first().map_or_else(|| "results are counted from 0".into(), |o| format!("for example `--loss {o}`")))
                .into());
        };
        if output_type(graph, o).rank() != 0 || !output_type(graph, o).dtype.is_float() {
            return Err(Diagnostic::input(
                "E0214",
                format!("`--loss {name}`: {} is no floating-point scalar but `{}`", result(graph, o), output_type(graph, o)),
            )
            .with_note(format!("scalar results that are not state: {}", listed(&floats)))
            .with_help(floats.first().map_or_else(|| "return the loss as a scalar".into(), |o| format!("for example `--loss {o}`")))
            .into());
        }
        return Ok(Some(o));
    }
    let named = |o: &u32| graph.output_attributes.get(*o as usize).is_some_and(|a| a.name.to_ascii_lowercase().contains("loss"));
    match floats[..] {
        [only] => Ok(Some(only)),
        [] => {
            notes.push(
                Diagnostic::warning("W0203", "the step has no loss: no result that is not state is a floating-point scalar").with_help("name it with `--loss`"),
            );
            Ok(None)
        }
        _ => match floats.iter().copied().filter(named).collect::<Vec<u32>>()[..] {
            [only] => Ok(Some(only)),
            _ => Err(Diagnostic::input("E0213", "which result is the loss cannot be told")
                .with_note(format!("scalar results that are not state: {}", listed(&floats)))
                .with_help(format!("name it, for example `--loss {}`", floats[0]))
                .into()),
        },
    }
}

fn given_batch(graph: &Graph, given: &[u32], state: &BTreeSet<u32>) -> Result<Vec<(u32, Option<u32>)>> {
    for &i in given {
        if i as usize >= graph.inputs.len() {
            return Err(Diagnostic::input("E0215", format!("`--batch {i}`: the step has {} arguments", graph.inputs.len()))
                .with_help(format!("arguments are 0 to {}", graph.inputs.len().saturating_sub(1)))
                .into());
        }
        if state.contains(&i) {
            return Err(Diagnostic::input("E0215", format!("`--batch {i}`: {} is state", argument(graph, i)))
                .with_help("say what is state with `--state`")
                .into());
        }
    }
    let mut given = given.to_vec();
    given.sort_unstable();
    given.dedup();
    let dims = batch_dims(graph, &given);
    Ok(given.into_iter().zip(dims).collect())
}

/// The batch arguments among the inputs that are no state: those that the loss depends on and that have the common batch dimension.
fn found_batch(graph: &Graph, candidates: &[u32], reached: &BTreeSet<u32>) -> Vec<(u32, Option<u32>)> {
    let data: Vec<u32> = candidates.iter().copied().filter(|i| reached.contains(i)).collect();
    let dims = batch_dims(graph, &data);
    data.into_iter().zip(dims).filter(|b| b.1.is_some()).collect()
}

/// The dimension of each input that corresponds to the leading dimension of most of them, or is as large and leads.
fn batch_dims(graph: &Graph, inputs: &[u32]) -> Vec<Option<u32>> {
    let mut classes = Correspondence::of(graph);
    let value = |i: u32| graph.inputs[i as usize];
    let mut votes: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
    for &i in inputs.iter().filter(|&&i| graph.ty(value(i)).rank() > 0) {
        let vote = votes.entry(classes.class(value(i), 0)).or_insert((0, graph.ty(value(i)).shape[0]));
        vote.0 += 1;
    }
    // Of equally many, the one met first.
    let Some((&batch, &(_, size))) = votes.iter().max_by_key(|(class, (count, _))| (*count, std::cmp::Reverse(**class))) else {
        return vec![None; inputs.len()];
    };
    inputs
        .iter()
        .map(|&i| {
            let shape = &graph.ty(value(i)).shape;
            let corresponding = (0..shape.len()).find(|&d| classes.class(value(i), d) == batch);
            corresponding.or((shape.first() == Some(&size) && size > 1).then_some(0)).map(|d| d as u32)
        })
        .collect()
}

#[cfg(test)]
mod tests;
