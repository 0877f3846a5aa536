//! Reverse-mode differentiation of what was traced.
//!
//! The graph is walked backwards from the outputs; the operations that carry cotangents are appended to it, in the forms that passes know from JAX.
//! Where a value is used several times its cotangents are added in the order in which they are met. The cotangent of a value `a/b` is named `a/b/grad`
//! (a further name, if it is the cotangent of several), and what leads to it begins with that name.

use super::vjp::{self, Site};
use super::{Tensor, Tracer};
use crate::diagnostic::Diagnostic;
use crate::graph::Def;
use crate::id::EntityId;
use crate::op::{OpId, ValueId};
use std::collections::BTreeMap;

/// The gradients of a scalar with respect to tensors.
///
/// A tensor that the loss does not depend on has a gradient of zeros. What cannot be differentiated is an error of the trace.
#[track_caller]
pub fn grad(loss: &Tensor, wrt: &[Tensor]) -> Vec<Tensor> {
    if loss.rank() != 0 || !loss.dtype().is_float() {
        let message = format!("the gradient of {}, which is no floating-point scalar", loss.ty());
        loss.tracer().fail(Diagnostic::input("E1003", message).with_help("reduce the loss to a scalar, for example with `mean_all`"));
    }
    pullback(&[(loss.clone(), loss.full_like(1.0))], wrt)
}

/// The cotangents of tensors, given those of outputs: the general form of [`grad`].
#[track_caller]
pub fn pullback(outputs: &[(Tensor, Tensor)], wrt: &[Tensor]) -> Vec<Tensor> {
    let Some((first, _)) = outputs.first() else { return wrt.iter().map(Tensor::zeros_like).collect() };
    let tracer = first.tracer().clone();
    for (output, cotangent) in outputs {
        if output.ty() != cotangent.ty() {
            tracer.fail(Diagnostic::input("E1003", format!("a cotangent {} for an output {}", cotangent.ty(), output.ty())));
        }
    }
    if tracer.has_failed() {
        return wrt.iter().map(|t| tracer.failed(t.ty().clone())).collect();
    }
    let mut sweep = Sweep::new(&tracer, wrt);
    for (output, cotangent) in outputs {
        sweep.add(output.value(), cotangent.clone());
    }
    let before = tracer.state.borrow().graph.ops.len();
    for index in (0..before).rev() {
        sweep.op(OpId::from_index(index));
        if tracer.has_failed() {
            return wrt.iter().map(|t| tracer.failed(t.ty().clone())).collect();
        }
    }
    sweep.finish(wrt)
}

struct Sweep<'a> {
    tracer: &'a Tracer,
    /// Whether a value depends differentiably on what is asked for.
    active: Vec<bool>,
    /// What has come together so far.
    cotangents: Vec<Option<Tensor>>,
    /// Values that are asked for as they are seen behind `stop_gradient`.
    stopped: BTreeMap<ValueId, Option<Tensor>>,
}

impl<'a> Sweep<'a> {
    fn new(tracer: &'a Tracer, wrt: &[Tensor]) -> Sweep<'a> {
        let state = tracer.state.borrow();
        let graph = &state.graph;
        let stopped: BTreeMap<ValueId, Option<Tensor>> = wrt.iter().filter(|t| t.is_stopped()).map(|t| (t.value(), None)).collect();
        let mut active = vec![false; graph.values.len()];
        for t in wrt.iter().filter(|t| !t.is_stopped()) {
            active[t.value().index()] = true;
        }
        for (id, op) in graph.ops.iter() {
            let through =
                op.operands.iter().enumerate().any(|(i, v)| if state.stopped.contains(&(id, i as u32)) { stopped.contains_key(v) } else { active[v.index()] });
            if through {
                for &v in &op.results {
                    let dtype = graph.ty(v).dtype;
                    active[v.index()] |= dtype.is_float() || dtype.is_complex();
                }
            }
        }
        let cotangents = vec![None; graph.values.len()];
        drop(state);
        Sweep { tracer, active, cotangents, stopped }
    }

    fn add(&mut self, value: ValueId, cotangent: Tensor) {
        let slot = &mut self.cotangents[value.index()];
        *slot = Some(match slot.take() {
            Some(sum) => sum + cotangent,
            None => cotangent,
        });
    }

    /// The full name of a value's cotangent; none for values without names.
    fn name(&self, value: ValueId) -> Option<String> {
        let name = self.tracer.name_of(value);
        (!name.is_empty()).then(|| format!("{name}/grad"))
    }

    /// Carries the cotangents of an op's results to its operands.
    fn op(&mut self, id: OpId) {
        let (op, wanted, through_stop) = {
            let state = self.tracer.state.borrow();
            let op = &state.graph.ops[id];
            if op.results.iter().all(|v| self.cotangents[v.index()].is_none() || !self.active[v.index()]) {
                return;
            }
            let is_stopped: Vec<bool> = (0..op.operands.len()).map(|i| state.stopped.contains(&(id, i as u32))).collect();
            let wanted: Vec<bool> =
                op.operands.iter().zip(&is_stopped).map(|(v, &stop)| if stop { self.stopped.contains_key(v) } else { self.active[v.index()] }).collect();
            (op.clone(), wanted, is_stopped)
        };
        if !wanted.contains(&true) {
            return;
        }
        let tensor = |v: ValueId| {
            let ty = self.tracer.state.borrow().graph.ty(v).clone();
            Tensor::new(self.tracer.clone(), v, ty)
        };
        let operands: Vec<Tensor> = op.operands.iter().map(|&v| tensor(v)).collect();
        let results: Vec<Tensor> = op.results.iter().map(|&v| tensor(v)).collect();
        let cotangents: Vec<Option<Tensor>> = op.results.iter().map(|v| self.cotangents[v.index()].clone()).collect();
        for (v, cotangent) in op.results.iter().zip(&cotangents) {
            if let (Some(c), Some(name)) = (cotangent, self.name(*v)) {
                let _ = c.named_in_full(&name);
            }
        }
        let scope = op.results.first().and_then(|&v| self.name(v)).unwrap_or_else(|| "grad".into());
        let site = Site { operands: &operands, results: &results, cotangents: &cotangents, wanted: &wanted, regions: &op.regions };
        let tracer = self.tracer.clone();
        let found = tracer.in_scope(scope.clone(), || tracer.at(Some(op.loc), || vjp::vjp(&op.kind, &site)));
        let found = match found {
            Ok(found) => found,
            Err(why) => {
                let place = tracer.state.borrow().graph.locs.get(op.loc).and_then(|l| l.name.clone()).unwrap_or_default();
                let message = format!("{} cannot be differentiated: {why}", super::tracer::label(&op.kind));
                return tracer.fail(Diagnostic::input("E1003", message).with_note(format!("it is `{}`, at {place}", results[0].name())));
            }
        };
        for (i, cotangent) in found.into_iter().enumerate() {
            let Some(cotangent) = cotangent.filter(|_| wanted[i]) else { continue };
            let value = op.operands[i];
            tracer.in_scope(scope.clone(), || {
                tracer.at(Some(op.loc), || {
                    if through_stop[i] {
                        if let Some(slot) = self.stopped.get_mut(&value) {
                            *slot = Some(match slot.take() {
                                Some(sum) => sum + cotangent,
                                None => cotangent,
                            });
                        }
                    } else {
                        self.add(value, cotangent);
                    }
                });
            });
        }
    }

    fn finish(mut self, wrt: &[Tensor]) -> Vec<Tensor> {
        wrt.iter()
            .map(|t| {
                let found = if t.is_stopped() { self.stopped.get(&t.value()).cloned().flatten() } else { self.cotangents[t.value().index()].clone() };
                let found = found.unwrap_or_else(|| t.zeros_like());
                let is_input = matches!(self.tracer.state.borrow().graph.values[t.value()].def, Def::Input(_));
                if let Some(name) = self.name(t.value()).filter(|_| is_input) {
                    let _ = found.named_in_full(&name);
                }
                // A tensor that is asked for twice has one cotangent.
                self.cotangents[t.value().index()].get_or_insert_with(|| found.clone());
                found
            })
            .collect()
    }
}
