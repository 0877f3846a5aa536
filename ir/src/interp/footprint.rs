//! How much memory an evaluation takes, found from types alone, so that what does not fit can be refused before it begins.
//!
//! Follows the interpreter: tensors live from their op to their last reader, a splat is one element, and an op overwrites an operand that ends with it
//! where it can. Scratch of single ops (packed blocks of products, one window position) is not counted.

use super::tensor::Class;
use super::{LastUse, Precision, last_uses};
use crate::dtype::TensorType;
use crate::graph::{Graph, Module};
use crate::op::OpKind;
use crate::units::Bytes;
use rustc_hash::FxHashMap;

/// Calls and regions deeper than this are not followed.
const DEEPEST: u32 = 64;

/// Bytes of a tensor that the interpreter holds.
pub fn held(ty: &TensorType, precision: Precision) -> Bytes {
    let element = match Class::of(ty.dtype, precision) {
        Class::Bool => 1,
        Class::F32 => 4,
        Class::F64 | Class::Int => 8,
        Class::Complex => 16,
    };
    Bytes(ty.elements().saturating_mul(element))
}

/// The most bytes that evaluating `graph` holds at a moment, its inputs and results included.
pub fn peak(module: &Module, graph: &Graph, precision: Precision) -> Bytes {
    let inputs: u64 = graph.inputs.iter().map(|&v| held(graph.ty(v), precision).0).sum();
    let mut walk = Walk { module, precision, known: FxHashMap::default() };
    Bytes(inputs.saturating_add(walk.beyond_inputs(graph, 0)))
}

struct Walk<'m> {
    module: &'m Module,
    precision: Precision,
    /// What functions take beyond their inputs.
    known: FxHashMap<&'m str, u64>,
}

impl<'m> Walk<'m> {
    /// The most that is held beyond the inputs, which the caller holds.
    fn beyond_inputs(&mut self, graph: &'m Graph, depth: u32) -> u64 {
        let last = last_uses(graph);
        let mut splat = vec![false; graph.values.len()];
        // What each value holds; inputs are the caller's.
        let mut holds = vec![0u64; graph.values.len()];
        let (mut live, mut most) = (0u64, 0u64);
        for (id, op) in graph.ops.iter() {
            let inside = self.inside(&op.kind, &op.regions, depth);
            let one_element = match &op.kind {
                OpKind::Constant(literal) => literal.splat_bytes().is_some(),
                OpKind::Broadcast { .. } => op.operands.iter().all(|v| splat[v.0 as usize] || graph.ty(*v).elements() == 1),
                kind if kind.is_elementwise() || matches!(kind, OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Slice { .. } | OpKind::Reverse { .. }) => {
                    op.operands.iter().all(|v| splat[v.0 as usize])
                }
                _ => false,
            };
            let mut made = 0;
            for &v in &op.results {
                splat[v.0 as usize] = one_element;
                holds[v.0 as usize] = if one_element { 0 } else { held(graph.ty(v), self.precision).0 };
                made += holds[v.0 as usize];
            }
            let mut freed = 0;
            for (i, &v) in op.operands.iter().enumerate() {
                if last[v.0 as usize] == LastUse::Op(id.0) && !op.operands[..i].contains(&v) {
                    freed += std::mem::take(&mut holds[v.0 as usize]);
                }
            }
            let overwrites = op.kind.is_elementwise() || matches!(op.kind, OpKind::Reshape | OpKind::DynamicUpdateSlice | OpKind::Barrier | OpKind::While);
            let after = live.saturating_sub(freed).saturating_add(made);
            let during = if overwrites { after.max(live) } else { live.saturating_add(made) };
            most = most.max(during).max(live.saturating_add(inside));
            live = after;
            for &v in &op.results {
                if last[v.0 as usize] == LastUse::Never {
                    live -= std::mem::take(&mut holds[v.0 as usize]);
                }
            }
        }
        most
    }

    /// What the functions and regions of an op take at most.
    fn inside(&mut self, kind: &OpKind, regions: &'m [Graph], depth: u32) -> u64 {
        if depth > DEEPEST {
            return 0;
        }
        if let OpKind::Call { callee } = kind {
            let Some(function) = self.module.function(callee) else { return 0 };
            if let Some(&known) = self.known.get(function.name.as_str()) {
                return known;
            }
            self.known.insert(&function.name, 0);
            let most = self.beyond_inputs(function, depth + 1);
            self.known.insert(&function.name, most);
            return most;
        }
        // Reducers and comparisons are regions on scalars, applied in bulk: they hold what their op's operands do.
        let control = matches!(kind, OpKind::While | OpKind::If | OpKind::Case);
        regions.iter().filter(|_| control).map(|r| self.beyond_inputs(r, depth + 1)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    fn peak_of(body: &str, precision: Precision) -> u64 {
        let module = text::parse("m.mlir", &format!("module @m {{ func.func public @main({body} }}")).unwrap_or_else(|e| panic!("{e}"));
        peak(&module, module.main().expect("main"), precision).0
    }

    #[test]
    fn tensors_live_until_their_last_reader() {
        // The product and its operand are there at once; the rest is in place.
        let chain = "%arg0: tensor<100x100xf32>) -> tensor<100x100xf32> {
            %0 = stablehlo.tanh %arg0 : tensor<100x100xf32>
            %1 = stablehlo.exponential %0 : tensor<100x100xf32>
            %2 = stablehlo.dot_general %1, %1, contracting_dims = [1] x [0] : (tensor<100x100xf32>, tensor<100x100xf32>) -> tensor<100x100xf32>
            return %2 : tensor<100x100xf32> }";
        assert_eq!(peak_of(chain, Precision::AsTyped), 3 * 40_000);
        assert_eq!(peak_of(chain, Precision::F64), 3 * 80_000);
    }

    #[test]
    fn splats_take_nothing_and_loops_what_their_body_takes() {
        let splat = "%arg0: tensor<4xf32>) -> tensor<4xf32> {
            %c = stablehlo.constant dense<1.0> : tensor<f32>
            %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<100000xf32>
            %1 = stablehlo.slice %0 [0:4] : (tensor<100000xf32>) -> tensor<4xf32>
            %2 = stablehlo.add %arg0, %1 : tensor<4xf32>
            return %2 : tensor<4xf32> }";
        assert!(peak_of(splat, Precision::AsTyped) < 100);
    }
}
