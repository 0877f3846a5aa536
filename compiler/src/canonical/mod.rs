//! Canonical form: one flat graph without calls or loops, folded, in atomic dimensions.
//!
//! [`run`] takes a module through the passes of this folder, in this order: [`inline`], [`fold`], [`unroll`], [`fold`] (stacked buffers disappear),
//! [`onehot`], [`fold`], then state and batch are found (`batch::state`), [`atoms`], [`dots`] and [`fold`] twice, barriers are forwarded,
//! and [`attention`] is found.
//! Arguments and results keep their numbers; only their shapes are seen refined ([`AtomicView`]).
//! Values computed from constants alone ([`constant_values`]) stay in the graph once; the kernels duplicate them into their readers.

mod algebra;
pub mod atoms;
pub mod attention;
pub mod constant_values;
pub mod dots;
mod evaluate;
pub mod fold;
pub mod inline;
mod movement;
pub mod onehot;
pub mod reshape_groups;
pub mod rewrite;
pub mod unroll;

use crate::batch::state::{self, Overrides};
use atoms::{AtomicView, Constraints};
use ir::graph::{Graph, Module};
use ir::plan::Interface;
use ir::{Diagnostic, Result};

/// A step in canonical form.
#[derive(Clone, Debug)]
pub struct Canonical {
    /// The graph.
    pub graph: Graph,
    /// Shapes in which it sees the arguments and results.
    pub view: AtomicView,
    /// State, batch and loss. Batch dimensions count in the refined shapes.
    pub interface: Interface,
    /// What was decided and the user should know.
    pub notes: Vec<Diagnostic>,
}

/// A module in canonical form.
///
/// # Errors
/// Those of [`inline::run`] and of [`state::interface`].
pub fn run(module: &Module, overrides: &Overrides) -> Result<Canonical> {
    let (graph, mut notes) = flatten(module)?;
    let (mut interface, more) = state::interface(&graph, overrides)?;
    notes.extend(more);
    let whole = interface.batch.iter().filter_map(|&(i, d)| Some((i, d? as usize))).collect();
    let (refined, view) = refine(&graph, &Constraints { tied: interface.state.clone(), whole });
    for (i, dim) in &mut interface.batch {
        // A batch dimension is one atom; those before it may have been split or dropped.
        if let Some(d) = dim {
            let original = &graph.ty(graph.inputs[*i as usize]).shape;
            let (size, inner) = (original[*d as usize], original[*d as usize + 1..].iter().product::<u64>());
            let shape = &view.inputs[*i as usize];
            *dim = (0..shape.len()).find(|&p| shape[p] == size && shape[p + 1..].iter().product::<u64>() == inner).map(|p| p as u32);
        }
    }
    let (refined, more) = attention::run(&refined);
    notes.extend(more);
    let refined = fold::run(&dots::run(&fold::run(&refined)));
    Ok(Canonical { graph: refined, view, interface, notes })
}

/// The passes before the refinement.
///
/// # Errors
/// Those of [`inline::run`].
pub fn flatten(module: &Module) -> Result<(Graph, Vec<Diagnostic>)> {
    let (unrolled, notes) = unroll::run(&fold::run(&inline::run(module)?));

    let folded = fold::run(&unrolled);
    Ok((fold::run(&onehot::run(&folded)), notes))
}

/// The refinement and the passes after it.
pub fn refine(graph: &Graph, constraints: &Constraints) -> (Graph, AtomicView) {
    let (graph, view) = atoms::run(graph, constraints);
    let graph = fold::run(&dots::run(&fold::run(&graph)));
    (fold::sweep(&fold::forward_barriers(&graph)), view)
}
