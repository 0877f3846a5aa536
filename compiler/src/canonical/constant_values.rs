//! Which values depend on no input: masks, tables of positions, and the like.
//!
//! Such a value is never sent and never saved: whoever reads it computes it.

use ir::graph::Graph;
use ir::{SecondaryMap, ValueId};

/// For every value whether it depends on constants alone.
pub fn constant_values(graph: &Graph) -> SecondaryMap<ValueId, bool> {
    let mut constant: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    for op in graph.ops.values() {
        let all = op.operands.iter().all(|&v| constant[v]) && !op.kind.is_collective() && !matches!(op.kind, ir::OpKind::AxisIndex { .. });
        for &v in &op.results {
            constant[v] = all;
        }
    }
    constant
}
