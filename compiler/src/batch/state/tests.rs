use super::*;
use ir::graph::{InputAttributes, OutputAttributes};
use ir::op::{DotDims, Reducer};
use ir::{DType, Literal, Loc, TensorType};

fn f32(shape: &[u64]) -> TensorType {
    TensorType::new(DType::F32, shape)
}

/// Momentum SGD of one matrix: `loss = sum((x·p)²)`, `m' = .9·m + g`, `p' = p − .1·m'`; returns p', m' and the loss in the order asked for.
fn step(order: [usize; 3], aliases: [Option<u32>; 2]) -> Graph {
    let mut g = Graph::new("main");
    let loc = Loc(0);
    let square = f32(&[4, 4]);
    let p = g.add_input(square.clone(), "%arg0");
    let m = g.add_input(square.clone(), "%arg1");
    let x = g.add_input(f32(&[8, 4]), "%arg2");
    let forward = DotDims { lhs_contract: vec![1], rhs_contract: vec![0], ..DotDims::default() };
    let y = g.add(OpKind::Dot(forward), vec![x, p], f32(&[8, 4]), loc);
    let yy = g.add(OpKind::Binary(BinaryOp::Multiply), vec![y, y], f32(&[8, 4]), loc);
    let zero = g.add(OpKind::Constant(Literal::splat(f32(&[]), 0.0)), vec![], f32(&[]), loc);
    let loss = g.add(OpKind::Reduce { dims: vec![0, 1], reducer: Reducer::Add }, vec![yy, zero], f32(&[]), loc);
    let backward = DotDims { lhs_contract: vec![0], rhs_contract: vec![0], ..DotDims::default() };
    let grad = g.add(OpKind::Dot(backward), vec![x, y], square.clone(), loc);
    let c9 = g.add(OpKind::Constant(Literal::splat(square.clone(), 0.9)), vec![], square.clone(), loc);
    let c1 = g.add(OpKind::Constant(Literal::splat(square.clone(), 0.1)), vec![], square.clone(), loc);
    let decayed = g.add(OpKind::Binary(BinaryOp::Multiply), vec![c9, m], square.clone(), loc);
    let new_m = g.add(OpKind::Binary(BinaryOp::Add), vec![decayed, grad], square.clone(), loc);
    let update = g.add(OpKind::Binary(BinaryOp::Multiply), vec![c1, new_m], square.clone(), loc);
    let new_p = g.add(OpKind::Binary(BinaryOp::Subtract), vec![p, update], square, loc);
    let results = [new_p, new_m, loss];
    g.outputs = order.iter().map(|&i| results[i]).collect();
    g.output_attributes = (0..3).map(|i| OutputAttributes { name: format!("result[{i}]"), sharding: None }).collect();
    let attributes = |alias| InputAttributes { aliasing_output: alias, ..InputAttributes::default() };
    g.input_attributes = vec![attributes(aliases[0]), attributes(aliases[1]), InputAttributes::default()];
    g.locs.push(Default::default());
    g
}

#[test]
fn an_undonated_step_is_told_by_its_data_flow() {
    let (interface, notes) = interface(&step([0, 1, 2], [None, None]), &Overrides::default()).expect("told");
    assert_eq!(interface.state, [(0, 0), (1, 1)]);
    assert_eq!((interface.parameters, interface.batch, interface.loss), (vec![0], vec![(2, Some(0))], Some(2)));
    assert!(notes.is_empty());
}

#[test]
fn a_loss_returned_first_is_no_state() {
    let (interface, _) = interface(&step([2, 0, 1], [Some(1), Some(2)]), &Overrides::default()).expect("told");
    assert_eq!(interface.state, [(0, 1), (1, 2)]);
    assert_eq!((interface.loss, interface.scalars), (Some(0), vec![0]));
}

#[test]
fn data_flow_wins_over_the_aliases_of_swapped_moments() {
    let (interface, notes) = interface(&step([1, 0, 2], [Some(0), Some(1)]), &Overrides::default()).expect("told");
    assert_eq!(interface.state, [(0, 1), (1, 0)]);
    assert_eq!(notes.iter().map(|n| n.code.as_str()).collect::<Vec<_>>(), ["N0201", "N0201"]);
}

/// `a' = a + b`, `b' = b + a`: nothing tells which is which.
fn symmetric(aliases: [Option<u32>; 2]) -> Graph {
    let mut g = Graph::new("main");
    let a = g.add_input(f32(&[4]), "%arg0");
    let b = g.add_input(f32(&[4]), "%arg1");
    let x = g.add(OpKind::Binary(BinaryOp::Add), vec![a, b], f32(&[4]), Loc(0));
    let y = g.add(OpKind::Binary(BinaryOp::Add), vec![b, a], f32(&[4]), Loc(0));
    g.outputs = vec![x, y];
    g.input_attributes = aliases.iter().map(|&aliasing_output| InputAttributes { aliasing_output, ..InputAttributes::default() }).collect();
    g.output_attributes = vec![OutputAttributes::default(); 2];
    g.locs.push(Default::default());
    g
}

#[test]
fn aliases_break_ties_and_without_them_the_flag_is_named() {
    let (found, _) = interface(&symmetric([Some(1), Some(0)]), &Overrides::default()).expect("told by the aliases");
    assert_eq!(found.state, [(0, 1), (1, 0)]);
    let error = interface(&symmetric([None, None]), &Overrides::default()).expect_err("cannot be told");
    assert_eq!(error.0[0].code, "E0210");
    assert!(error.0[0].notes[0].contains("argument 0 (`%arg0`") && error.0[0].help.as_deref().is_some_and(|h| h.contains("--state")));
    let overrides = Overrides::parse(Some("0=1,1=0"), None, None).expect("reads");
    let (given, _) = interface(&symmetric([None, None]), &overrides).expect("given");
    assert_eq!(given.state, [(0, 1), (1, 0)]);
}

#[test]
fn overrides_are_read_and_checked() {
    let parsed = Overrides::parse(Some("0-2,7=3"), Some("4,5"), Some("2")).expect("reads");
    assert_eq!(parsed.state, Some(vec![(0, None), (1, None), (2, None), (7, Some(3))]));
    assert_eq!(parsed.batch, Some(vec![4, 5]));
    assert_eq!(Overrides::parse(Some("a"), None, None).expect_err("no number").0[0].code, "E0211");
    let graph = step([0, 1, 2], [None, None]);
    for (overrides, code) in [
        (Overrides::parse(Some("9"), None, None), "E0211"),
        (Overrides::parse(None, Some("0"), None), "E0215"),
        (Overrides::parse(None, None, Some("nothing")), "E0214"),
        (Overrides::parse(None, None, Some("0")), "E0214"),
    ] {
        assert_eq!(interface(&graph, &overrides.expect("reads")).expect_err("refused").0[0].code, code);
    }
    let (found, _) = interface(&graph, &Overrides::parse(Some("0-1"), Some("2"), Some("result[2]")).expect("reads")).expect("consistent");
    assert_eq!((found.state, found.batch, found.loss), (vec![(0, 0), (1, 1)], vec![(2, Some(0))], Some(2)));
}
