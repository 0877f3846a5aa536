//! Arguments made up for a step, where a user gave none: what `verify` and tests run on.
//!
//! They are the same on every machine, and such that a step makes sense of them: parameters are small random numbers (vectors lie around a half, as gains and
//! biases may), other state begins as training begins it (zeros; a float scalar, which counts steps, at one), and integers that become indices stay below
//! the size of what they index, so that no index is clamped to the edge.

use crate::dtype::TensorType;
use crate::graph::{Graph, Module};
use crate::interp::Tensor;
use crate::op::{OpKind, ValueId};

/// What an argument is to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A trained parameter.
    Parameter,
    /// Other state: moments, counters, keys.
    State,
    /// Data of a step.
    Data,
}

/// Arguments for `graph`, a function of `module`; `role` says what each is. `seed` makes other data of the same kind, and leaves state as it is.
pub fn made_up(module: &Module, graph: &Graph, role: impl Fn(usize) -> Role, seed: u64) -> Vec<Tensor> {
    let make = |(i, &v): (usize, &ValueId)| {
        let ty = graph.ty(v).clone();
        let integer = ty.dtype.is_integer();
        match role(i) {
            Role::State if integer || ty.rank() > 0 => Tensor::zeros(ty),
            Role::State => Tensor::splat(ty, 1.0),
            Role::Parameter if ty.rank() < 2 => around(ty, 0.5, 0.1, Random::new(i as u64)),
            Role::Parameter => around(ty, 0.0, 0.02, Random::new(i as u64)),
            Role::Data if integer => {
                let bits = ty.dtype.bits().min(31);
                let limit = index_limit(module, graph, v).unwrap_or(16).clamp(1, 1 << (bits - u32::from(bits > 1)));
                below(ty, limit, Random::new(seed.wrapping_add(1) << 32 | i as u64))
            }
            Role::Data => around(ty, 0.0, 1.0, Random::new(seed.wrapping_add(1) << 32 | i as u64)),
        }
    };
    graph.inputs.iter().enumerate().map(make).collect()
}

/// The smallest dimension that an integer value, or what is computed from it elementwise or by moving it, indexes.
pub fn index_limit(module: &Module, graph: &Graph, value: ValueId) -> Option<u64> {
    limit(module, graph, value, 0)
}

/// Calls and regions deeper than this are not followed.
const DEEPEST: u32 = 64;

fn limit(module: &Module, graph: &Graph, value: ValueId, depth: u32) -> Option<u64> {
    if depth > DEEPEST {
        return None;
    }
    let mut derived = vec![false; graph.values.len()];
    derived[value.0 as usize] = true;
    let mut least: Option<u64> = None;
    let mut indexes = |shape: &[u64], dims: &[usize]| {
        for &d in dims {
            least = Some(least.map_or(shape[d], |l| l.min(shape[d])));
        }
    };
    for op in graph.ops.values() {
        let read: Vec<usize> = op.operands.iter().enumerate().filter(|(_, v)| derived[v.0 as usize]).map(|(i, _)| i).collect();
        if read.is_empty() {
            continue;
        }
        let operand = |i: usize| &graph.ty(op.operands[i]).shape;
        match &op.kind {
            OpKind::Gather(g) => {
                if read.contains(&1) {
                    indexes(operand(0), &g.start_index_map);
                }
                continue;
            }
            OpKind::Scatter { dims, .. } => {
                if read.contains(&(op.operands.len() / 2)) {
                    indexes(operand(0), &dims.scatter_dims_to_operand_dims);
                }
                continue;
            }
            OpKind::DynamicSlice { .. } => {
                for i in read.iter().filter(|i| **i >= 1) {
                    indexes(operand(0), &[i - 1]);
                }
            }
            OpKind::DynamicUpdateSlice => {
                for i in read.iter().filter(|i| **i >= 2) {
                    indexes(operand(0), &[i - 2]);
                }
            }
            // Compared with a counted dimension, as one-hot encodings do.
            OpKind::Compare { .. } => {
                for i in read.iter().map(|i| 1 - i.min(&1)) {
                    if let Some((shape, dim)) = counted(graph, op.operands[i]) {
                        indexes(&shape, &[dim]);
                    }
                }
                continue;
            }
            OpKind::Call { callee } => {
                if let Some(callee) = module.function(callee) {
                    for &i in &read {
                        if let Some(inner) = callee.inputs.get(i).and_then(|&v| limit(module, callee, v, depth + 1)) {
                            indexes(&[inner], &[0]);
                        }
                    }
                }
            }
            _ => {}
        }
        for &r in &op.results {
            derived[r.0 as usize] = graph.ty(r).dtype.is_integer() && graph.ty(r).dtype.bits() > 1;
        }
    }
    least
}

/// The shape and the dimension of the iota that a value repeats.
fn counted(graph: &Graph, value: ValueId) -> Option<(Vec<u64>, usize)> {
    let op = &graph.ops[graph.def_op(value)?];
    match &op.kind {
        OpKind::Iota { dim } => Some((graph.ty(value).shape.clone(), *dim)),
        OpKind::Broadcast { .. } | OpKind::Reshape => counted(graph, *op.operands.first()?),
        _ => None,
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    /// About normal, with variance one: a sum of four uniform numbers, so that no library function decides about its bits.
    fn normal(&mut self) -> f64 {
        let bits = self.next();
        let sum: f64 = (0..4).map(|i| f64::from((bits >> (16 * i)) as u16) / 65536.0 - 0.5).sum();
        sum * 3f64.sqrt()
    }
}

fn around(ty: TensorType, middle: f64, deviation: f64, mut random: Random) -> Tensor {
    let values: Vec<f64> = (0..ty.elements()).map(|_| middle + deviation * random.normal()).collect();
    Tensor::from_f64s(ty.clone(), &values).unwrap_or_else(|| Tensor::zeros(ty))
}

fn below(ty: TensorType, limit: u64, mut random: Random) -> Tensor {
    let values: Vec<i64> = (0..ty.elements()).map(|_| (random.next() >> 16) as i64 % limit as i64).collect();
    Tensor::from_i64s(ty.clone(), &values).unwrap_or_else(|| Tensor::zeros(ty))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    const TEXT: &str = r#"
module @m {
  func.func public @main(%table: tensor<10x2xf32>, %i: tensor<4xi32>, %y: tensor<4xi32>, %n: tensor<f32>) -> (tensor<4x2xf32>, tensor<4x6xi1>) {
    %0 = stablehlo.reshape %i : (tensor<4xi32>) -> tensor<4x1xi32>
    %1 = call @take(%table, %0) : (tensor<10x2xf32>, tensor<4x1xi32>) -> tensor<4x2xf32>
    %2 = stablehlo.iota dim = 1 : tensor<4x6xi32>
    %3 = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<4xi32>) -> tensor<4x6xi32>
    %4 = stablehlo.compare EQ, %3, %2, SIGNED : (tensor<4x6xi32>, tensor<4x6xi32>) -> tensor<4x6xi1>
    return %1, %4 : tensor<4x2xf32>, tensor<4x6xi1>
  }
  func.func private @take(%x: tensor<10x2xf32>, %i: tensor<4x1xi32>) -> tensor<4x2xf32> {
    %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2>}> : (tensor<10x2xf32>, tensor<4x1xi32>) -> tensor<4x2xf32>
    return %0 : tensor<4x2xf32>
  }
}"#;

    #[test]
    fn indices_stay_inside_what_they_index() {
        let module = crate::text::parse("test", TEXT).unwrap();
        let graph = module.main().unwrap();
        assert_eq!(index_limit(&module, graph, graph.inputs[1]), Some(10));
        assert_eq!(index_limit(&module, graph, graph.inputs[2]), Some(6));
        let role = |i| [Role::Parameter, Role::Data, Role::Data, Role::State][i];
        let made = made_up(&module, graph, role, 0);
        assert!(made[1].to_i64s().iter().all(|i| (0..10).contains(i)));
        assert_eq!(made[3].to_f64s(), [1.0]);
        let others = made_up(&module, graph, role, 1);
        assert_eq!(made[0].to_f64s(), others[0].to_f64s());
        assert_ne!(made[1].to_i64s(), others[1].to_i64s());
    }

    #[test]
    fn numbers_have_their_mean_and_spread() {
        let x = around(TensorType::new(DType::F64, [10000]), 3.0, 2.0, Random::new(1)).to_f64s();
        let mean = x.iter().sum::<f64>() / 1e4;
        let variance = x.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / 1e4;
        assert!((mean - 3.0).abs() < 0.1 && (variance - 4.0).abs() < 0.2, "{mean} {variance}");
    }
}
