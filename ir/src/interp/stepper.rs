//! Several steps in a row: state outputs are fed back to the inputs they replace.

use super::{Precision, Tensor, run};
use crate::diagnostic::Diagnostic;
use crate::graph::{Graph, Module};

/// Evaluates a training step again and again.
pub struct Stepper<'a> {
    module: &'a Module,
    graph: &'a Graph,
    precision: Precision,
    state: Vec<(usize, usize)>,
    inputs: Vec<Tensor>,
}

impl<'a> Stepper<'a> {
    /// A stepper that begins with `inputs`; for every `(output, input)` of `state` that output becomes that input of the next step.
    pub fn new(
        module: &'a Module,
        graph: &'a Graph,
        state: impl IntoIterator<Item = (usize, usize)>,
        inputs: Vec<Tensor>,
        precision: Precision,
    ) -> Result<Self, Diagnostic> {
        let state: Vec<(usize, usize)> = state.into_iter().collect();
        for &(output, input) in &state {
            let types = (graph.outputs.get(output).map(|&v| graph.ty(v)), graph.inputs.get(input).map(|&v| graph.ty(v)));
            let (Some(from), Some(to)) = types else {
                return Err(Diagnostic::input("E0704", format!("there is no output {output} or no input {input}")));
            };
            if from != to {
                return Err(Diagnostic::input("E0704", format!("output {output} is {from} and cannot become input {input}, which is {to}")));
            }
        }
        // Held in the precision of the run, so that the state keeps it from step to step.
        let inputs = inputs.into_iter().map(|x| x.in_precision(precision)).collect();
        Ok(Stepper { module, graph, precision, state, inputs })
    }
    /// Replaces an input of the next step, such as the batch.
    pub fn set_input(&mut self, index: usize, value: Tensor) -> Result<(), Diagnostic> {
        let slot = self.inputs.get_mut(index).ok_or_else(|| Diagnostic::input("E0704", format!("there is no input {index}")))?;
        *slot = value.in_precision(self.precision);
        Ok(())
    }
    /// The inputs of the next step.
    pub fn inputs(&self) -> &[Tensor] {
        &self.inputs
    }
    /// One step; returns all its outputs.
    pub fn step(&mut self) -> Result<Vec<Tensor>, Diagnostic> {
        let outputs = run(self.module, self.graph, &self.inputs, self.precision)?;
        for &(output, input) in &self.state {
            self.inputs[input] = outputs[output].clone();
        }
        Ok(outputs)
    }
}
