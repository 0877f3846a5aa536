//! The text form as a whole: random graphs print and parse to themselves, and no text makes the parser panic.

#![allow(clippy::print_stdout, reason = "tests say how much they read")]

use ir::graph::{Graph, InputAttributes, LocInfo, Module, OutputAttributes};
use ir::literal::Literal;
use ir::op::{BinaryOp, Direction, DotDims, OpKind, Reducer, UnaryOp, ValueId};
use ir::sharding::AxisId;
use ir::{DType, TensorType, infer, text, verify};
use proptest::prelude::*;
use std::sync::Arc;

/// Picks one of `n`.
type Pick<'a> = dyn FnMut(usize) -> usize + 'a;

/// Adds one random op to `g`, if its operands allow it.
fn grow(g: &mut Graph, pick: &mut Pick<'_>) {
    let values: Vec<ValueId> = g.values.keys().collect();
    let v = values[pick(values.len())];
    let ty = g.ty(v).clone();
    let same: Vec<ValueId> = values.iter().copied().filter(|&w| *g.ty(w) == ty).collect();
    let other = same[pick(same.len())];
    let rank = ty.rank();
    let axes = vec![AxisId(pick(3) as u32)];
    let (kind, operands, stated): (OpKind, Vec<ValueId>, Option<TensorType>) = match pick(24) {
        0 => (OpKind::Unary([UnaryOp::Tanh, UnaryOp::Erf, UnaryOp::Square, UnaryOp::IsFinite, UnaryOp::Negate][pick(5)]), vec![v], None),
        1 => (OpKind::Binary([BinaryOp::Add, BinaryOp::Multiply, BinaryOp::NextAfter, BinaryOp::Xor][pick(4)]), vec![v, other], None),
        2 => (OpKind::Compare { direction: [Direction::Ge, Direction::Ne][pick(2)], total: pick(2) == 0 }, vec![v, other], None),
        3 => (OpKind::Constant(Literal::splat(ty.clone(), pick(9) as f64 / 3.0)), vec![], None),
        4 => (OpKind::Convert, vec![v], Some(ty.with_dtype([DType::F32, DType::I32, DType::BF16, DType::I1][pick(4)]))),
        5 => (OpKind::Reshape, vec![v], Some(TensorType::new(ty.dtype, [ty.elements()]))),
        6 => (OpKind::Transpose { perm: (0..rank).rev().collect() }, vec![v], None),
        7 => {
            let mut wide = ty.clone();
            wide.shape.push(1 + pick(4) as u64);
            (OpKind::Broadcast { dims: (0..rank).collect() }, vec![v], Some(wide))
        }
        8 => {
            let limit: Vec<u64> = ty.shape.iter().map(|&n| 1 + pick(n as usize) as u64).collect();
            (OpKind::Slice { start: vec![0; rank], limit, stride: (0..rank).map(|_| 1 + pick(2) as u64).collect() }, vec![v], None)
        }
        9 => (OpKind::Concatenate { dim: pick(rank.max(1)) }, vec![v, other, v], None),
        10 => (OpKind::Reverse { dims: (0..rank).collect() }, vec![v], None),
        11 => {
            let init = g.add(OpKind::Constant(Literal::splat(TensorType::scalar(ty.dtype), 0.0)), vec![], TensorType::scalar(ty.dtype), ir::Loc(0));
            let dims = (0..rank).filter(|_| pick(2) == 0).collect();
            (OpKind::Reduce { dims, reducer: [Reducer::Add, Reducer::Max][pick(2)] }, vec![v, init], None)
        }
        12 => (OpKind::Iota { dim: pick(rank.max(1)) }, vec![], Some(ty.clone())),
        13 => (OpKind::Barrier, vec![v, other], None),
        14 => {
            let d = DotDims { lhs_contract: (0..rank).collect(), rhs_contract: (0..rank).collect(), ..DotDims::default() };
            (OpKind::Dot(d), vec![v, other], Some(TensorType::scalar(ty.dtype)))
        }
        15 => {
            let init = g.add(OpKind::Constant(Literal::splat(TensorType::scalar(ty.dtype), 1.0)), vec![], TensorType::scalar(ty.dtype), ir::Loc(0));
            let low = (0..rank).map(|_| pick(3) as i64 - 1).collect();
            (OpKind::Pad { low, high: vec![1; rank], interior: (0..rank).map(|_| pick(2) as u64).collect() }, vec![v, init], None)
        }
        16 => (OpKind::AllReduce { axes, reducer: Reducer::Max }, vec![v], None),
        17 => (OpKind::AllGather { axes, dim: 0 }, vec![v], Some(ty.clone())),
        18 => (OpKind::ReduceScatter { axes, dim: 0, reducer: Reducer::Add }, vec![v], Some(ty.clone())),
        19 => (OpKind::AxisIndex { axes }, vec![], None),
        20 => (OpKind::AllToAll { axes, split: 0, concat: rank.saturating_sub(1) }, vec![v], Some(ty.clone())),
        21 => (OpKind::ShardSlice { axes, dim: 0 }, vec![v], Some(ty.clone())),
        22 => (OpKind::TopK { k: 1 }, vec![v], None),
        _ => (OpKind::CustomCall { target: "other".into(), attributes: "api_version = 2 : i32".into() }, vec![v], Some(ty.clone())),
    };
    let types: Vec<&TensorType> = operands.iter().map(|&v| g.ty(v)).collect();
    let results = match (infer::result_types(&kind, &types, &[]), stated) {
        (Ok(Some(inferred)), _) => inferred,
        (Ok(None), Some(stated)) => vec![stated],
        _ => return,
    };
    if infer::check(&kind, &types, &results.iter().collect::<Vec<_>>(), &[]).is_err() || results.iter().any(|t| t.elements() > 4096) {
        return;
    }
    let n = g.values.len();
    let names: Vec<Arc<str>> = (0..results.len()).map(|i| format!("%x{}", n + i).into()).collect();
    g.add_op(kind, operands, results, ir::Loc(0), &names);
}

/// A loop or a branch over `body`'s kind of ops.
fn add_region_op(g: &mut Graph, pick: &mut Pick<'_>) {
    let values: Vec<ValueId> = g.values.keys().collect();
    let carried: Vec<ValueId> = (0..1 + pick(3)).map(|_| values[pick(values.len())]).collect();
    let types: Vec<TensorType> = carried.iter().map(|&v| g.ty(v).clone()).collect();
    let n = g.values.len();
    let region = |suffix: &str, pick: &mut Pick<'_>| {
        let mut r = Graph::new("");
        r.add_loc(LocInfo::default());
        for (i, t) in types.iter().enumerate() {
            r.add_input(t.clone(), format!("%r{n}_{i}"));
        }
        let first = r.values.len();
        for _ in 0..pick(4) {
            grow(&mut r, pick);
        }
        // Values made here have names that no enclosing graph has.
        for (i, v) in r.values.values_mut().enumerate().skip(first) {
            v.name = format!("%r{n}{suffix}{i}").into();
        }
        r
    };
    let mut cond = region("c", pick);
    let flag = cond.add(OpKind::Constant(Literal::splat(TensorType::scalar(DType::I1), 0.0)), vec![], TensorType::scalar(DType::I1), ir::Loc(0));
    cond.values[flag].name = format!("%r{n}flag").into();
    cond.outputs = vec![flag];
    let mut body = region("b", pick);
    body.outputs = body.inputs.clone();
    let names: Vec<Arc<str>> = (0..types.len()).map(|i| if types.len() == 1 { format!("%w{n}") } else { format!("%w{n}#{i}") }.into()).collect();
    let op = g.add_op(OpKind::While, carried, types.clone(), ir::Loc(0), &names);
    g.ops[op].regions = vec![cond, body];
}

fn random_module(choices: &[u8]) -> Module {
    let mut at = 0;
    let mut pick = move |n: usize| {
        at += 1;
        choices.get(at % choices.len()).map_or(0, |c| (*c as usize + at / choices.len()) % n)
    };
    let mut g = Graph::new("main");
    g.add_loc(LocInfo::default());
    for i in 0..2 + pick(2) {
        let shape: Vec<u64> = (0..pick(4)).map(|_| 1 + pick(5) as u64).collect();
        g.add_input(TensorType::new([DType::F32, DType::I32, DType::F32, DType::BF16][pick(4)], shape), format!("%arg{i}"));
        g.input_attributes.push(InputAttributes { aliasing_output: (pick(2) == 0).then_some(0), donated: pick(3) == 0, sharding: None });
    }
    for _ in 0..4 + pick(20) {
        if pick(8) == 0 {
            add_region_op(&mut g, &mut pick);
        } else {
            grow(&mut g, &mut pick);
        }
    }
    for (i, v) in g.values.values_mut().enumerate() {
        if v.name.is_empty() {
            v.name = format!("%c{i}").into();
        }
    }
    let last = g.values.len() - 1;
    g.outputs = vec![ValueId(last as u32), g.inputs[0]];
    g.output_attributes = (0..2).map(|i| OutputAttributes { name: format!("result[{i}]"), sharding: None }).collect();
    Module { name: "m".into(), functions: vec![g], meshes: vec![("mesh".into(), vec![("x".into(), 2)])] }
}

/// A graph without what its text does not hold: locations.
fn without_locations(mut g: Graph) -> Graph {
    g.locs = [LocInfo::default()].into_iter().collect();
    for op in g.ops.values_mut() {
        op.loc = ir::Loc(0);
        op.regions = std::mem::take(&mut op.regions).into_iter().map(without_locations).collect();
    }
    g
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_graphs_read_back(choices in proptest::collection::vec(any::<u8>(), 20..200)) {
        let module = random_module(&choices);
        prop_assert_eq!(verify::verify_module(&module), Ok(()));
        let printed = text::print(&module);
        let again = text::parse("printed", &printed).map_err(|e| TestCaseError::fail(format!("{e}\n{printed}")))?;
        let again = Module { functions: again.functions.into_iter().map(without_locations).collect(), ..again };
        let module = Module { functions: module.functions.into_iter().map(without_locations).collect(), ..module };
        prop_assert!(again == module, "{}\n{:#?}\n{:#?}", printed, module, again);
        prop_assert_eq!(text::print(&again), printed);
    }

    #[test]
    fn any_text_is_read_or_diagnosed(s in "[%@#!^a-z0-9<>(){}\\[\\]:=,.\" \n-]{0,300}") {
        let _ = text::parse("any", &s);
        let _ = text::parse("any", &format!("module {{\nfunc.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n{s}\n}}\n}}"));
    }
}

/// A generator of 64-bit numbers from a seed, the same on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

/// Whole steps and small forms, mutated: pieces cut, doubled, swapped with others, bytes changed.
#[test]
fn mutated_texts_are_read_or_diagnosed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seeds: Vec<String> = ["mlp", "mlp_swapped_moments"]
        .iter()
        .map(|n| std::fs::read_to_string(folder.join(format!("../examples/models/{n}.mlir"))).expect("a bundled model"))
        .collect();
    let forms = folder.join("tests/forms");
    let mut files: Vec<_> = std::fs::read_dir(forms).expect("the folder").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    seeds.extend(files.iter().map(|p| std::fs::read_to_string(p).expect("a readable file")));
    let words = [
        "%0",
        "%arg0",
        "%0#1",
        "tensor<4xf32>",
        "tensor<",
        "tensor<99999999999999999999xf32>",
        "dense<",
        "dense<\"0x",
        ">",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "<{",
        "}>",
        "->",
        ":",
        "=",
        "-1",
        "0x7FFFFFFFFFFFFFFFFFFF",
        "18446744073709551615",
        "stablehlo.while",
        "\"stablehlo.case\"",
        "call @main",
        "loc(",
        "#loc",
        "^bb0(",
        "return",
        "\u{e9}",
        "\"",
        "{-#",
        "#-}",
        "i1",
        "complex<f32>",
        "dims = [0, 0]",
        "dimensions = array<i64: 9>",
        "init:",
        "module",
    ];
    let mut numbers = Numbers(7);
    let (mut read, mut refused) = (0, 0);
    for round in 0..3000 {
        let mut text: Vec<u8> = seeds[round % seeds.len()].clone().into_bytes();
        for _ in 0..1 + numbers.below(3) {
            let (a, b) = (numbers.below(text.len()), numbers.below(text.len()));
            let (from, to) = (a.min(b), (a.min(b) + numbers.below(40)).min(text.len()));
            match numbers.below(6) {
                0 => text.truncate(a),
                1 => drop(text.drain(from..to)),
                2 => {
                    let piece = text[from..to].to_vec();
                    text.splice(b..b, piece);
                }
                3 => drop(text.splice(from..to, words[numbers.below(words.len())].bytes())),
                4 => {
                    if let Some(byte) = text.get_mut(a) {
                        *byte = b" %<>(){}[]:,=0123456789abcxf\"#@"[numbers.below(31)];
                    }
                }
                _ => {
                    let other = seeds[numbers.below(seeds.len())].as_bytes();
                    let start = numbers.below(other.len());
                    text.splice(a..a, other[start..(start + numbers.below(80)).min(other.len())].to_vec());
                }
            }
            if text.is_empty() {
                break;
            }
        }
        let text = String::from_utf8_lossy(&text);
        match text::parse("mutated", &text) {
            Ok(module) => {
                read += 1;
                if let Err(problems) = verify::verify_module(&module) {
                    panic!("round {round}: {problems:?}\n{text}");
                }
                let printed = text::print(&module);
                if let Err(e) = text::parse("printed", &printed) {
                    panic!("round {round}: {e}\n{printed}");
                }
            }
            Err(all) => {
                refused += 1;
                assert!(!all.0.is_empty() && all.to_string().len() < 1 << 20);
            }
        }
    }
    println!("{read} read, {refused} refused");
    assert!(read > 25 && refused > 1000);
}

#[test]
fn large_garbage_ends_early() {
    for piece in ["x", "(", "[", "\"", "%0 = stablehlo.add %1, %2 : tensor<1xf32>\n", "\n", "}", "é", "module {\n", "#a = [", "loc("] {
        let garbage = piece.repeat(8_000_000 / piece.len());
        assert!(text::parse("garbage", &garbage).is_err());
        let inside = format!("module {{\nfunc.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n{garbage}");
        assert!(text::parse("garbage", &inside).is_err());
    }
}
