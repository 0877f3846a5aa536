//! Which values of a whole step would lie in memory: what planning counts as traffic and as live bytes.

use super::classify::Classes;
use super::units;
use crate::spmd::local::LocalGraph;
use crate::step::StepGraph;
use ir::program::StageId;
use ir::{Mesh, SecondaryMap, ValueId};

/// The values that kernels and library calls exchange, were the step done on one device.
pub fn stored_values(step: &StepGraph) -> SecondaryMap<ValueId, bool> {
    let local = LocalGraph {
        graph: step.graph.clone(),
        stage: StageId(0),
        mesh: Mesh::new(&[1]),
        first_rank: 0,
        microbatches: step.microbatches,
        in_flight: 1,
        phase: step.phase.clone(),
        depth: vec![0; step.graph.ops.len()],
        inputs: vec![],
        outputs: vec![],
    };
    let classes = Classes::new(&local);
    let mut stored = SecondaryMap::new();
    step.graph.inputs.iter().for_each(|&v| stored[v] = true);
    for unit in units::units(&local, &classes) {
        unit.writes.iter().for_each(|&v| stored[v] = true);
    }
    stored
}
