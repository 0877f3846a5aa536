use super::*;
use ir::graph::OutputAttributes;
use ir::op::{BinaryOp, DotDims};
use ir::{DType, Literal, Loc, TensorType};

fn f32(shape: &[u64]) -> TensorType {
    TensorType::new(DType::F32, shape)
}

/// Ops on a parameter `[4, 4]` and a batch `[8, 4]`.
struct Builder {
    graph: Graph,
    y: ValueId,
}

impl Builder {
    /// Starts with `y = x · p`.
    fn new() -> Builder {
        let mut graph = Graph::new("main");
        graph.locs.push(Default::default());
        let p = graph.add_input(f32(&[4, 4]), "%p");
        let x = graph.add_input(f32(&[8, 4]), "%x");
        let dims = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
        let y = graph.add(OpKind::Dot(dims), vec![x, p], f32(&[8, 4]), Loc(0));
        Builder { graph, y }
    }
    fn sum(&mut self, v: ValueId, dims: &[usize]) -> ValueId {
        let zero = self.graph.add(OpKind::Constant(Literal::splat(f32(&[]), 0.0)), vec![], f32(&[]), Loc(0));
        let shape: Vec<u64> = self.graph.ty(v).shape.iter().enumerate().filter(|(d, _)| !dims.contains(d)).map(|(_, &n)| n).collect();
        self.graph.add(OpKind::Reduce { dims: dims.to_vec(), reducer: Reducer::Add }, vec![v, zero], f32(&shape), Loc(0))
    }
    fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        let ty = self.graph.ty(a).clone();
        self.graph.add(OpKind::Binary(op), vec![a, b], ty, Loc(0))
    }
    fn spread(&mut self, v: ValueId, dims: &[usize], shape: &[u64]) -> ValueId {
        self.graph.add(OpKind::Broadcast { dims: dims.to_vec() }, vec![v], f32(shape), Loc(0))
    }
    fn analyse(&mut self, outputs: &[ValueId]) -> Analysis {
        self.graph.outputs = outputs.to_vec();
        self.graph.output_attributes = vec![OutputAttributes { name: "result".into(), sharding: None }; outputs.len()];
        let interface = Interface { parameters: vec![0], state: vec![(0, 0)], batch: vec![(1, Some(0))], ..Interface::default() };
        analyse(&self.graph, &interface)
    }
}

#[test]
fn a_mean_is_a_sum_of_parts() {
    let mut b = Builder::new();
    let square = b.binary(BinaryOp::Multiply, b.y, b.y);
    let total = b.sum(square, &[0, 1]);
    let count = b.graph.add(OpKind::Constant(Literal::splat(f32(&[]), 32.0)), vec![], f32(&[]), Loc(0));
    let mean = b.binary(BinaryOp::Divide, total, count);
    let a = b.analyse(&[b.graph.inputs[0], mean]);
    assert_eq!((a.classes[square], a.classes[total], a.classes[mean]), (Class::Cut(Some(0)), Class::Partial(Reducer::Add), Class::Partial(Reducer::Add)));
    assert!(a.completed[mean] && !a.completed[total]);
    assert_eq!((a.batch_size, a.allows(4), a.allows(3), a.allows(0)), (8, true, false, false));
}

#[test]
fn a_sum_over_data_alone_is_known_before() {
    let mut b = Builder::new();
    let x = b.graph.inputs[1];
    let tokens = b.sum(x, &[0, 1]);
    let square = b.binary(BinaryOp::Multiply, b.y, b.y);
    let weight = b.spread(tokens, &[], &[8, 4]);
    let weighted = b.binary(BinaryOp::Divide, square, weight);
    let loss = b.sum(weighted, &[0, 1]);
    let a = b.analyse(&[b.graph.inputs[0], loss]);
    assert_eq!((a.classes[tokens], a.pure[tokens]), (Class::Whole, true));
    assert_eq!(a.classes[weighted], Class::Cut(Some(0)));
    assert!(a.obstacles.is_empty());
}

#[test]
fn a_mean_over_the_batch_that_examples_read_is_an_obstacle() {
    let mut b = Builder::new();
    let mean = b.sum(b.y, &[0]);
    let spread = b.spread(mean, &[1], &[8, 4]);
    let centered = b.binary(BinaryOp::Subtract, b.y, spread);
    let square = b.binary(BinaryOp::Multiply, centered, centered);
    let loss = b.sum(square, &[0, 1]);
    let a = b.analyse(&[b.graph.inputs[0], loss]);
    assert_eq!(a.obstacles.len(), 1);
    assert!(a.obstacles[0].message.contains(&b.graph.display_name(centered)), "{}", a.obstacles[0]);
    assert!(a.obstacles[0].notes[1].contains(&b.graph.display_name(mean)));
    assert!(a.allows(1) && !a.allows(2));
    // Within the one microbatch all of it is computed, and the loss crosses to the update.
    assert!([mean, spread, centered].iter().all(|&v| matches!(a.classes[v], Class::Cut(_))));
    assert!(a.completed[loss]);
}

#[test]
fn a_result_per_example_is_an_obstacle() {
    let mut b = Builder::new();
    let loss = b.sum(b.y, &[0, 1]);
    let a = b.analyse(&[b.graph.inputs[0], loss, b.y]);
    assert!(a.obstacles[0].message.contains("per example"), "{}", a.obstacles[0]);
}

#[test]
fn the_larger_of_partial_maxima_is_completed_by_maximum() {
    let mut b = Builder::new();
    let low = b.graph.add(OpKind::Constant(Literal::splat(f32(&[]), f64::NEG_INFINITY)), vec![], f32(&[]), Loc(0));
    let largest = b.graph.add(OpKind::Reduce { dims: vec![0, 1], reducer: Reducer::Max }, vec![b.y, low], f32(&[]), Loc(0));
    let doubled = b.binary(BinaryOp::Add, largest, largest);
    let a = b.analyse(&[b.graph.inputs[0], doubled]);
    assert_eq!((a.classes[largest], a.classes[doubled]), (Class::Partial(Reducer::Max), Class::After));
    assert!(a.completed[largest]);
}
