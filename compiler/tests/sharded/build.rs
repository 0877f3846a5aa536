//! Builds graphs op by op.

use ir::op::OpKind;
use ir::{DType, Graph, Literal, Loc, TensorType, ValueId};

/// A graph being built; every op has the one location.
pub struct Build(pub Graph);

impl Build {
    /// An empty graph.
    pub fn new(name: &str) -> Build {
        let mut graph = Graph::new(name);
        graph.locs.push(ir::graph::LocInfo::default());
        Build(graph)
    }
    /// An input.
    pub fn input(&mut self, t: DType, shape: &[u64]) -> ValueId {
        self.0.add_input(TensorType::new(t, shape), "")
    }
    /// A constant of one repeated number.
    pub fn splat(&mut self, t: DType, shape: &[u64], x: f64) -> ValueId {
        let ty = TensorType::new(t, shape);
        self.stated(OpKind::Constant(Literal::splat(ty.clone(), x)), &[], ty)
    }
    /// An op whose result type is stated.
    pub fn stated(&mut self, kind: OpKind, operands: &[ValueId], ty: TensorType) -> ValueId {
        self.0.add(kind, operands.to_vec(), ty, Loc(0))
    }
    /// An op whose result types follow from its operands, with regions.
    pub fn with_regions(&mut self, kind: OpKind, operands: &[ValueId], regions: Vec<Graph>) -> Vec<ValueId> {
        let types: Vec<&TensorType> = operands.iter().map(|&v| self.0.ty(v)).collect();
        let results = match ir::infer::result_types(&kind, &types, &regions).expect("well typed") {
            Some(results) => results,
            None => match &kind {
                OpKind::Dot(d) => vec![TensorType::new(types[0].dtype, ir::infer::dot_shape(d, types[0], types[1]).expect("well typed"))],
                OpKind::Convolution(d) => vec![TensorType::new(types[0].dtype, ir::infer::convolution_shape(d, types[0], types[1]).expect("well typed"))],
                _ => unreachable!("its type is stated"),
            },
        };
        let id = self.0.add_op(kind, operands.to_vec(), results, Loc(0), &[]);
        self.0.ops[id].regions = regions;
        self.0.ops[id].results.clone()
    }
    /// The first result of an op whose result types follow from its operands.
    pub fn op(&mut self, kind: OpKind, operands: &[ValueId]) -> ValueId {
        self.with_regions(kind, operands, vec![])[0]
    }
}
