//! Attention and its derivative in the interpreter: against the ops they stand for, against differences, and through the text form.

use ir::attention::{Attention, AttentionDim, Scale};
use ir::interp::{Precision, Tensor, run};
use ir::{DType, Graph, Module, OpKind, TensorType, ValueId, text};

/// Numbers that repeat, between -1 and 1.
fn numbers(ty: &TensorType, seed: u64) -> Tensor {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    let values: Vec<f64> = (0..ty.elements()).map(|_| if ty.dtype == DType::I1 { f64::from(u8::from(next() > -0.5)) } else { next() }).collect();
    Tensor::from_f64s(ty.clone(), &values).expect("the count fits")
}

fn size(d: AttentionDim) -> u64 {
    match d.letter() {
        'b' | 'g' => 2,
        'q' => 5,
        'k' => 4,
        'd' => 3,
        'e' => 6,
        _ => 3,
    }
}

fn operand_types(a: &Attention, bias: DType) -> Vec<TensorType> {
    let mut types: Vec<TensorType> =
        a.operand_dims().iter().map(|dims| TensorType::new(DType::F32, dims.iter().map(|&d| size(d)).collect::<Vec<u64>>())).collect();
    if a.bias.is_some() {
        types[3].dtype = bias;
    }
    if a.offset {
        types.last_mut().expect("an offset").dtype = DType::I32;
    }
    types
}

/// A function of one op on its operands.
fn graph_of(kind: OpKind, operands: &[TensorType]) -> Graph {
    let mut g = Graph::new("main");
    let inputs: Vec<ValueId> = (0..).zip(operands).map(|(i, t)| g.add_input(t.clone(), format!("%arg{i}"))).collect();
    let types: Vec<&TensorType> = operands.iter().collect();
    let results = ir::infer::result_types(&kind, &types, &[]).expect("well typed").expect("inferred");
    let loc = g.add_loc(ir::graph::LocInfo::default());
    let id = g.add_op(kind, inputs, results, loc, &[]);
    g.outputs = g.ops[id].results.clone();
    g
}

fn evaluate(kind: OpKind, operands: &[Tensor]) -> Vec<Tensor> {
    let types: Vec<TensorType> = operands.iter().map(|x| x.ty.clone()).collect();
    let g = graph_of(kind, &types);
    ir::verify::verify(&g).expect("well formed");
    run(&Module::default(), &g, operands, Precision::F64).expect("evaluates")
}

fn forms() -> Vec<(Attention, DType)> {
    let form = |subscripts: &str, causal, offset, bias| {
        (Attention { causal, offset, scale: Scale(0.5), ..Attention::from_subscripts(subscripts).expect("subscripts") }, bias)
    };
    vec![
        form("qd,kd,ke->qe", false, false, DType::F32),
        form("bqhgd,bkhd,bkhe->bqhge", true, false, DType::F32),
        form("bhqd,bkhd,kbhe,hqk->qbhe", true, true, DType::F32),
        form("bhqd,hkd,bke,bk->bhqe", false, false, DType::F32),
        form("bqhd,bkhd,bkhe,bqk->bhqe", false, false, DType::I1),
    ]
}

#[test]
fn a_row_by_hand() {
    let a = Attention { causal: true, ..Attention::from_subscripts("qd,kd,ke->qe").unwrap() };
    let t = |shape: [u64; 2], v: &[f64]| Tensor::from_f64s(TensorType::new(DType::F32, shape), v).unwrap();
    let r = evaluate(OpKind::Attention(Box::new(a)), &[t([2, 1], &[1., 2.]), t([2, 1], &[0., 1.]), t([2, 2], &[1., 0., 0., 1.])]);
    let e2 = 2f64.exp();
    let (o, lse) = (r[0].to_f64s(), r[1].to_f64s());
    for (got, want) in o.iter().chain(&lse).zip([1., 0., 1. / (1. + e2), e2 / (1. + e2), 0., (1. + e2).ln()]) {
        assert!((got - want).abs() < 1e-12, "{got} and {want}");
    }
}

#[test]
fn rows_that_see_nothing_are_zero() {
    let a = Attention::from_subscripts("qd,kd,ke,qk->qe").unwrap();
    let ty = |t: DType, shape: [u64; 2]| TensorType::new(t, shape);
    let mask = Tensor::from_f64s(ty(DType::I1, [2, 3]), &[0., 0., 0., 0., 1., 0.]).unwrap();
    let (q, k, v) = (numbers(&ty(DType::F32, [2, 2]), 1), numbers(&ty(DType::F32, [3, 2]), 2), numbers(&ty(DType::F32, [3, 2]), 3));
    let r = evaluate(OpKind::Attention(Box::new(a.clone())), &[q.clone(), k.clone(), v.clone(), mask.clone()]);
    assert_eq!(r[0].to_f64s()[..2], [0., 0.]);
    assert_eq!(r[0].to_f64s()[2..], v.to_f64s()[2..4]);
    assert_eq!(r[1].to_f64s()[0], f64::NEG_INFINITY);
    let g = evaluate(OpKind::AttentionGrad { attention: Box::new(a), bias: false }, &[q, k, v, r[0].clone(), r[1].clone(), r[0].clone(), mask]);
    assert!(g.iter().all(|x| x.to_f64s().iter().all(|x| x.is_finite())));
}

#[test]
fn gradients_agree_with_differences() {
    for (a, bias) in forms() {
        let types = operand_types(&a, bias);
        let mut operands: Vec<Tensor> = (1..).zip(&types).map(|(i, t)| numbers(t, i)).collect();
        if a.offset {
            *operands.last_mut().unwrap() = Tensor::from_f64s(TensorType::scalar(DType::I32), &[1.0]).unwrap();
        }
        let forward = |operands: &[Tensor]| evaluate(OpKind::Attention(Box::new(a.clone())), operands);
        let made = forward(&operands);
        let weights = numbers(&made[0].ty, 77);
        let loss = |operands: &[Tensor]| forward(operands)[0].to_f64s().iter().zip(weights.to_f64s()).map(|(x, w)| x * w).sum::<f64>();
        let with_bias = a.bias.is_some() && bias != DType::I1;
        let all = [&operands[..3], &made, std::slice::from_ref(&weights), &operands[3..]].concat();
        let gradients = evaluate(OpKind::AttentionGrad { attention: Box::new(a.clone()), bias: with_bias }, &all);
        for (i, gradient) in gradients.iter().enumerate() {
            for (e, got) in gradient.to_f64s().into_iter().enumerate() {
                // Arguments are f32, so steps are exact powers of two.
                let moved = |by: f64| {
                    let mut x = operands.clone();
                    let mut values = x[i].to_f64s();
                    values[e] += by;
                    x[i] = Tensor::from_f64s(types[i].clone(), &values).unwrap();
                    x
                };
                let h = 2f64.powi(-9);
                let want = (loss(&moved(h)) - loss(&moved(-h))) / (2.0 * h);
                assert!((got - want).abs() < 2e-4, "{a}: element {e} of gradient {i} is {got}, by differences {want}");
            }
        }
    }
}

#[test]
fn it_is_softmax_between_two_products() {
    let text = |middle: &str| {
        format!(
            "func.func public @main(%q: tensor<2x5x3xf32>, %k: tensor<2x5x3xf32>, %v: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {{\n{middle}\n return %o : tensor<2x5x4xf32>\n}}"
        )
    };
    let plain = text(
        "%s = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x5x3xf32>, tensor<2x5x3xf32>) -> tensor<2x5x5xf32>
        %c = stablehlo.constant dense<0.5> : tensor<2x5x5xf32>
        %t = stablehlo.multiply %s, %c : tensor<2x5x5xf32>
        %i = stablehlo.iota dim = 1 : tensor<2x5x5xi32>
        %j = stablehlo.iota dim = 2 : tensor<2x5x5xi32>
        %m = stablehlo.compare GE, %i, %j, SIGNED : (tensor<2x5x5xi32>, tensor<2x5x5xi32>) -> tensor<2x5x5xi1>
        %low = stablehlo.constant dense<-1.0e9> : tensor<2x5x5xf32>
        %u = stablehlo.select %m, %t, %low : tensor<2x5x5xi1>, tensor<2x5x5xf32>
        %p = stablehlo.exponential %u : tensor<2x5x5xf32>
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %l = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<2x5x5xf32>, tensor<f32>) -> tensor<2x5xf32>
        %w = stablehlo.broadcast_in_dim %l, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x5xf32>
        %n = stablehlo.divide %p, %w : tensor<2x5x5xf32>
        %o = stablehlo.dot_general %n, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x5x5xf32>, tensor<2x5x4xf32>) -> tensor<2x5x4xf32>",
    );
    let fused = text(
        "%o, %lse = \"shardwright.attention\"(%q, %k, %v) <{dims = \"bqd,bkd,bke->bqe\", scale = 0.5 : f64, causal = true}> : (tensor<2x5x3xf32>, tensor<2x5x3xf32>, tensor<2x5x4xf32>) -> (tensor<2x5x4xf32>, tensor<2x5xf32>)",
    );
    let shapes = [[2, 5, 3], [2, 5, 3], [2, 5, 4]];
    let arguments: Vec<Tensor> = (1..).zip(shapes).map(|(i, s)| numbers(&TensorType::new(DType::F32, s), i)).collect();
    let [a, b] = [plain, fused].map(|t| {
        let module = text::parse("test", &t).unwrap_or_else(|d| panic!("{d}"));
        run(&module, module.main().unwrap(), &arguments, Precision::F64).unwrap()[0].to_f64s()
    });
    assert!(a.iter().zip(&b).all(|(x, y)| (x - y).abs() < 1e-12), "{a:?}\n{b:?}");
}

#[test]
fn the_text_form_round_trips() {
    for (a, bias) in forms() {
        for scale in [0.176_776_695_296_636_9, 1.0, 1e-10, 3e300] {
            let a = Attention { scale: Scale(scale), ..a.clone() };
            let types = operand_types(&a, bias);
            let results = a.results(&types.iter().collect::<Vec<_>>()).unwrap();
            let gradient = [&types[..3], &results, &results[..1], &types[3..]].concat();
            let with_bias = a.bias.is_some() && bias != DType::I1;
            let ops = [(OpKind::Attention(Box::new(a.clone())), types), (OpKind::AttentionGrad { attention: Box::new(a), bias: with_bias }, gradient)];
            for (kind, types) in ops {
                let module = Module { name: "m".into(), functions: vec![graph_of(kind.clone(), &types)], ..Module::default() };
                let printed = text::print(&module);
                let again = text::parse("again", &printed).unwrap_or_else(|d| panic!("{d}\n{printed}"));
                assert_eq!(again.functions[0].ops.values().next().unwrap().kind, kind);
                assert_eq!(again.functions[0].outputs.len(), module.functions[0].outputs.len());
            }
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let parse = |attributes: &str| {
        let text = format!(
            "func.func public @main(%q: tensor<5x3xf32>) -> tensor<5x3xf32> {{\n %o:2 = \"shardwright.attention\"(%q, %q, %q) <{{{attributes}}}> : (tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<5xf32>)\n return %o#0 : tensor<5x3xf32>\n}}"
        );
        text::parse("test", &text).err().map(|d| d.to_string())
    };
    assert_eq!(parse("dims = \"qd,kd,ke->qe\""), None);
    assert!(parse("dims = \"qd,kd->qe\"").unwrap().contains("not of the form"));
    assert!(parse("dims = \"qd,kd,ek->qe\"").unwrap().contains("`k` is 5 and 3"));
    assert!(parse("dims = \"qd,kd,ke->qe\", scale = 1").unwrap().contains("not a float"));
}
