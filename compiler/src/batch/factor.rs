//! What cutting one dimension of one operand of an op into blocks means for the other operands and the results, read from the op's rule.

use crate::rules::{Dims, Rule};
use ir::op::Reducer;

/// Dimensions that are cut together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Factor {
    /// For every operand its dimension of the factor.
    pub(super) operands: Vec<Option<usize>>,
    /// For every result its dimension of the factor.
    pub(super) results: Vec<Option<usize>>,
    /// How those results of blocks are combined that lack the factor; there is one if any does.
    pub(super) reduction: Option<Reducer>,
}

/// The factor of dimension `dim` of operand `operand`, if the dimension can be cut.
pub(super) fn factor(rule: &Rule, operand: usize, dim: usize) -> Option<Factor> {
    let factor = rule.operands.get(operand)?.get(dim).copied().flatten()?;
    let place = |dims: &Dims| dims.iter().position(|&f| f == Some(factor));
    let results: Vec<Option<usize>> = rule.results.iter().map(place).collect();
    let reduction = if results.iter().all(Option::is_some) { None } else { Some(rule.factors.get(factor as usize)?.reduction?) };
    Some(Factor { operands: rule.operands.iter().map(place).collect(), results, reduction })
}
