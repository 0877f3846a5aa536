//! Judges a plan by running it: every result after some steps, against the unsharded step in the interpreter (`ir::judge` says how near is near).
//!
//! The reference is the step as it was imported, so no pass of the compiler is trusted.

use ir::diagnostic::{Diagnostic, Result};
use ir::interp;
use ir::judge::{Judgement, Reference};
use ir::plan::{Interface, Plan};
use ir::{Module, TensorType};
use runtime::{Arguments, Options, Session, Tensor};
use std::sync::Arc;

/// A judgement after some steps.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    /// How many steps.
    pub(crate) steps: u64,
    /// What was found.
    pub(crate) judgement: Judgement,
}

/// The unsharded step with its arguments, stepped once and judged against any number of plans.
pub(crate) struct Oracle<'a> {
    module: &'a Module,
    interface: Interface,
    arguments: Vec<interp::Tensor>,
}

impl<'a> Oracle<'a> {
    /// An oracle for the step of a plan; arguments that are not given are zeros.
    ///
    /// # Errors
    /// `E0704` when the module has no step, or an argument does not fit.
    pub(crate) fn new(module: &'a Module, interface: &Interface, given: &Arguments) -> Result<Oracle<'a>> {
        let main = module.main().ok_or_else(|| Diagnostic::outcome("E0704", "the plan holds no step to judge against"))?;
        let one = |(i, v): (usize, &ir::ValueId)| -> Result<interp::Tensor> {
            let ty: &TensorType = main.ty(*v);
            match given.get(&(i as u32)) {
                None => Ok(interp::Tensor::zeros(ty.clone())),
                Some(t) => interp::Tensor::from_bytes(ty.clone(), &t.bytes)
                    .ok_or_else(|| Diagnostic::input("E0620", format!("arg{i} is {} and should be {ty}", t.ty)).into()),
            }
        };
        let arguments = main.inputs.iter().enumerate().map(one).collect::<Result<Vec<_>>>()?;
        Ok(Oracle { module, interface: interface.clone(), arguments })
    }

    fn reference(&self) -> Result<Reference<'a>> {
        let main = self.module.main().ok_or_else(|| Diagnostic::outcome("E0704", "the plan holds no step to judge against"))?;
        let state: Vec<(usize, usize)> = self.interface.state.iter().map(|&(a, r)| (r as usize, a as usize)).collect();
        Ok(Reference::new(self.module, main, &state, self.arguments.clone())?)
    }

    /// Judges each of several plans' results, given after each of the numbers of steps.
    ///
    /// `results[p][k]` are the results of plan `p` after `steps[k]` steps, in the function's order.
    ///
    /// # Errors
    /// Those of the interpreter.
    pub(crate) fn judge(&self, steps: &[u64], results: &[Vec<Vec<interp::Tensor>>]) -> Result<Vec<Vec<Judged>>> {
        let mut reference = self.reference()?;
        let mut out: Vec<Vec<Judged>> = vec![vec![]; results.len()];
        let mut done = 0;
        for (k, &count) in steps.iter().enumerate() {
            while done < count {
                reference.step()?;
                done += 1;
            }
            for (plan, judged) in results.iter().zip(&mut out) {
                judged.push(Judged { steps: count, judgement: reference.judge(&plan[k])? });
            }
        }
        Ok(out)
    }
}

/// Runs a plan and keeps all its results after each of the numbers of steps (ascending).
///
/// # Errors
/// Those of a [`Session`].
pub(crate) fn results(plan: &Arc<Plan>, given: &Arguments, steps: &[u64], options: &Options) -> Result<Vec<Vec<interp::Tensor>>> {
    results_of(Session::open(plan, options)?, plan, given, steps)
}

/// The same in a session that was opened.
///
/// # Errors
/// Those of a [`Session`].
pub(crate) fn results_of(mut session: Session, plan: &Plan, given: &Arguments, steps: &[u64]) -> Result<Vec<Vec<interp::Tensor>>> {
    let main = plan.source.main().ok_or_else(|| Diagnostic::outcome("E0704", "the plan holds no step to judge against"))?;
    session.set_inputs(given)?;
    let wanted: Vec<u32> = (0..main.outputs.len() as u32).collect();
    let (mut done, mut all) = (0, Vec::with_capacity(steps.len()));
    for &count in steps {
        while done < count {
            session.step(&Arguments::new())?;
            done += 1;
        }
        let found = session.results(&wanted)?;
        let one = |(i, v): (usize, &ir::ValueId)| -> Result<interp::Tensor> {
            let missing = || Diagnostic::outcome("E0705", format!("the plan gives no result {i}"));
            let tensor: &Arc<Tensor> = found.get(&(i as u32)).ok_or_else(missing)?;
            Ok(interp::Tensor::from_bytes(main.ty(*v).clone(), &tensor.bytes).ok_or_else(missing)?)
        };
        all.push(main.outputs.iter().enumerate().map(one).collect::<Result<Vec<_>>>()?);
    }
    Ok(all)
}

/// Runs a plan and judges it after one and after three steps.
///
/// # Errors
/// Those of a [`Session`] and of the interpreter; a plan that is outside is no error but a judgement.
pub(crate) fn verify(plan: &Arc<Plan>, given: &Arguments, steps: &[u64], options: &Options) -> Result<Vec<Judged>> {
    let found = results(plan, given, steps, options)?;
    let oracle = Oracle::new(&plan.source, &plan.interface, given)?;
    Ok(oracle.judge(steps, &[found])?.pop().unwrap_or_default())
}
