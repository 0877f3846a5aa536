//! Kernels of attention against its definition, in every tiling.

use crate::emulated::{check, defined, execute, numbers};
use gpu_library::{Kernels, write, write_tiled};
use ir::attention::Scale;
use ir::interp::Tensor;
use ir::op::OpKind;
use ir::{Attention, AttentionDim, DType, TensorType};

/// An attention with its operands' types.
#[derive(Clone)]
struct Case {
    attention: Attention,
    operands: Vec<TensorType>,
    offset: i64,
}

/// `extents` are those of letters; a bias is of type `bias`.
fn case(subscripts: &str, extents: &[(char, u64)], dtype: DType, causal: bool) -> Case {
    let mut attention = Attention::from_subscripts(subscripts).expect("subscripts");
    attention.causal = causal;
    let types = |dims: &[AttentionDim], dtype| {
        let extent = |d: &AttentionDim| extents.iter().find(|e| e.0 == d.letter()).expect("an extent").1;
        TensorType::new(dtype, dims.iter().map(extent).collect::<Vec<_>>())
    };
    let depth = extents.iter().find(|e| e.0 == 'd').expect("a depth").1;
    attention.scale = Scale(2.0 / (depth as f64).sqrt());
    let operands = [&attention.q, &attention.k, &attention.v].map(|d| types(d, dtype)).to_vec();
    Case { attention, operands, offset: 0 }
}

impl Case {
    fn biased(mut self, dtype: DType) -> Case {
        let dims = self.attention.bias.clone().expect("subscripts with a bias");
        let extent = |d: &AttentionDim| self.attention.extent(&self.operands.iter().collect::<Vec<_>>(), *d).expect("an extent");
        let ty = TensorType::new(dtype, dims.iter().map(extent).collect::<Vec<_>>());
        self.operands.push(ty);
        self
    }
    fn offset(mut self, offset: i64) -> Case {
        self.attention.offset = true;
        self.operands.push(TensorType::scalar(DType::I32));
        self.offset = offset;
        self
    }
    fn values(&self) -> Vec<Tensor> {
        let number = |(i, ty): (usize, &TensorType)| {
            if self.attention.offset && i + 1 == self.operands.len() {
                return Tensor::from_i64s(ty.clone(), &[self.offset]).expect("one");
            }
            numbers(ty, i as u64 + 1)
        };
        self.operands.iter().enumerate().map(number).collect()
    }
    fn results(&self) -> Vec<TensorType> {
        self.attention.results(&self.operands.iter().collect::<Vec<_>>()).expect("types")
    }
    fn tolerance(&self) -> f64 {
        match self.operands[0].dtype {
            DType::BF16 => 1.0 / 128.0,
            DType::F16 => 1.0 / 1024.0,
            _ => 1e-5,
        }
    }

    /// Runs forward and derivative by `kernels`, which are given operands' and results' types, and compares.
    fn run(&self, what: &str, forward: &Kernels, backward: impl Fn(&[TensorType], &[TensorType]) -> Kernels, perturb: Option<u64>) {
        let (operands, results) = (self.values(), self.results());
        let op = self.forward();
        let want = defined(&op, &operands, &results);
        let got = execute(forward, &operands, &results, perturb).unwrap_or_else(|e| panic!("{what}: {e}"));
        check(&format!("{what}: o"), &got[0], &want[0], self.tolerance());
        check(&format!("{what}: lse"), &got[1], &want[1], 1e-6);
        let mut given = operands[..3].to_vec();
        given.extend([want[0].clone(), want[1].clone(), numbers(&results[0], 99)]);
        given.extend_from_slice(&operands[3..]);
        let types: Vec<TensorType> = given.iter().map(|x| x.ty.clone()).collect();
        let results = self.attention.gradient_results(&types.iter().collect::<Vec<_>>(), false).expect("types");
        let op = self.derivative();
        let want = defined(&op, &given, &results);
        let got = execute(&backward(&types, &results), &given, &results, perturb).unwrap_or_else(|e| panic!("{what}: {e}"));
        for (name, (got, want)) in ["dq", "dk", "dv"].iter().zip(got.iter().zip(&want)) {
            check(&format!("{what}: {name}"), got, want, self.tolerance());
        }
    }

    fn forward(&self) -> OpKind {
        OpKind::Attention(Box::new(self.attention.clone()))
    }
    fn derivative(&self) -> OpKind {
        OpKind::AttentionGrad { attention: Box::new(self.attention.clone()), bias: false }
    }

    /// As a plan has it.
    fn planned(&self, what: &str, perturb: Option<u64>) {
        let made = |op: &OpKind, o: &[TensorType], r: &[TensorType]| write("f", op, o, r).unwrap_or_else(|| panic!("{what}: no kernels"));
        self.run(what, &made(&self.forward(), &self.operands, &self.results()), |o, r| made(&self.derivative(), o, r), perturb);
    }

    /// In a tiling.
    fn tiled(&self, what: &str, tile: (u32, u32)) {
        let made = |op: &OpKind, o: &[TensorType], r: &[TensorType]| write_tiled("f", op, o, r, tile).unwrap_or_else(|| panic!("{what}: no kernels"));
        self.run(what, &made(&self.forward(), &self.operands, &self.results()), |o, r| made(&self.derivative(), o, r), None);
    }
}

#[test]
fn every_tiling_and_type_computes_the_same() {
    for (i, tile) in [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4), (4, 1), (4, 2), (4, 4)].into_iter().enumerate() {
        let dtype = [DType::F32, DType::BF16, DType::F16][i % 3];
        for causal in [false, true] {
            let extents = [('b', 1), ('q', 75), ('h', 2), ('k', 75), ('d', 16), ('e', 8)];
            case("bqhd,bkhd,bkhe->bqhe", &extents, dtype, causal).tiled(&format!("{tile:?} {dtype} causal {causal}"), tile);
        }
    }
}

#[test]
fn heads_of_any_size() {
    for (i, depth) in [1, 3, 8, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160].into_iter().enumerate() {
        let dtype = [DType::F32, DType::BF16, DType::F16][i % 3];
        let value = if i % 2 == 0 { depth } else { depth + 5 };
        let extents = [('b', 1), ('q', 21), ('h', 2), ('k', 37), ('d', depth), ('e', value)];
        for subscripts in ["bqhd,bkhd,bkhe->bqhe", "bhqd,bhdk,bhek->bheq"] {
            case(subscripts, &extents, dtype, i % 2 == 1).planned(&format!("{subscripts} {depth} {value} {dtype}"), None);
        }
    }
}

#[test]
fn lengths_of_any_size() {
    for (queries, keys) in [(1, 1), (1, 70), (16, 16), (17, 15), (64, 64), (65, 129), (100, 3)] {
        for causal in [false, true] {
            let extents = [('b', 1), ('q', queries), ('h', 3), ('k', keys), ('d', 8), ('e', 8)];
            case("bqhd,bkhd,bkhe->bqhe", &extents, DType::F32, causal).planned(&format!("{queries} queries, {keys} keys, causal {causal}"), None);
        }
    }
}

/// Many heads take larger tiles than few.
#[test]
fn many_heads_take_large_tiles() {
    let extents = [('b', 4), ('q', 65), ('h', 17), ('k', 65), ('d', 8), ('e', 8)];
    let case = case("bqhd,bkhd,bkhe->bqhe", &extents, DType::BF16, true);
    let kernels = write("f", &case.forward(), &case.operands, &case.results()).expect("kernels");
    assert_eq!(kernels.launches[0].grid, [4 * 17 * 2, 1, 1], "64 queries a block");
    case.planned("many heads", None);
}

#[test]
fn grouped_queries_share_keys() {
    for (i, subscripts) in ["bqhgd,bkhd,bkhe->bqhge", "bhgqd,bhkd,bhke->bhgqe", "qhd,kd,ke->qhe"].into_iter().enumerate() {
        for queries in [9, 40] {
            let extents = [('b', 2), ('q', queries), ('h', 2), ('g', 3), ('k', 40), ('d', 16), ('e', 16)];
            case(subscripts, &extents, [DType::F32, DType::F16, DType::BF16][i], i != 1).planned(subscripts, None);
        }
    }
}

#[test]
fn an_offset_moves_what_is_seen() {
    for offset in [-1_000_000, -20, -3, 0, 5, 30, 2_000_000_000] {
        let extents = [('b', 1), ('q', 20), ('h', 2), ('k', 33), ('d', 8), ('e', 8)];
        case("bqhd,bkhd,bkhe->bqhe", &extents, DType::F32, true).offset(offset).planned(&format!("offset {offset}"), None);
    }
}

#[test]
fn biases_and_masks() {
    for (i, subscripts) in
        ["bqhd,bkhd,bkhe,qk->bqhe", "bqhd,bkhd,bkhe,bk->bqhe", "bqhd,bkhd,bkhe,bhqk->bqhe", "bqhd,bkhd,bkhe,hkq->bqhe"].into_iter().enumerate()
    {
        for (j, bias) in [DType::F32, DType::BF16, DType::F16, DType::I1].into_iter().enumerate() {
            let extents = [('b', 2), ('q', 19), ('h', 2), ('k', 35), ('d', 8), ('e', 8)];
            let dtype = [DType::F32, DType::BF16][(i + j) % 2];
            case(subscripts, &extents, dtype, j % 2 == 0).biased(bias).planned(&format!("{subscripts} {dtype} {bias}"), None);
        }
    }
}

/// Instructions that a GPU approximates may give anything within their bounds.
#[test]
fn approximate_instructions_may_deviate() {
    let extents = [('b', 1), ('q', 40), ('h', 2), ('k', 70), ('d', 32), ('e', 32)];
    for seed in 1..3 {
        case("bqhd,bkhd,bkhe->bqhe", &extents, DType::F32, true).planned(&format!("seed {seed}"), Some(seed));
    }
}

/// What has no score gives zeros, what is no number stays none, and large scores do not overflow.
#[test]
fn unusual_numbers() {
    let extents = [('q', 3), ('k', 4), ('d', 4), ('e', 4)];
    let case = case("qd,kd,ke,qk->qe", &extents, DType::F32, false).biased(DType::I1);
    let mut operands = case.values();
    let mask = [0, 0, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1];
    operands[3] = Tensor::from_i64s(operands[3].ty.clone(), &mask).expect("a mask");
    let q: Vec<f64> = (0..12).map(|i| if i >= 8 { f64::NAN } else { 1e4 * (f64::from(i) - 5.0) }).collect();
    operands[0] = Tensor::from_f64s(operands[0].ty.clone(), &q).expect("queries");
    let kernels = write("f", &case.forward(), &case.operands, &case.results()).expect("kernels");
    let got = execute(&kernels, &operands, &case.results(), None).unwrap_or_else(|e| panic!("{e}"));
    let (o, lse) = (got[0].to_f64s(), got[1].to_f64s());
    assert!(o[..4].iter().all(|x| *x == 0.0) && lse[0] == f64::NEG_INFINITY, "{o:?} {lse:?}");
    assert!(o[4..8].iter().all(|x| x.is_finite()) && lse[1].is_finite(), "{o:?} {lse:?}");
    assert!(o[8..].iter().all(|x| x.is_nan()) && lse[2].is_nan(), "{o:?} {lse:?}");
}

#[test]
fn what_there_are_no_kernels_for_is_left_to_others() {
    let extents = [('q', 3), ('k', 4), ('d', 4), ('e', 4)];
    let double = case("qd,kd,ke->qe", &extents, DType::F64, false);
    assert!(write("f", &double.forward(), &double.operands, &double.results()).is_none());
    let wide = case("qd,kd,ke->qe", &[('q', 3), ('k', 4), ('d', 4096), ('e', 4)], DType::F32, false);
    assert!(write("f", &wide.forward(), &wide.operands, &wide.results()).is_none(), "no tile fits");
    let biased = case("qd,kd,ke,qk->qe", &extents, DType::F32, false).biased(DType::F32);
    let o = biased.results();
    let types = [&biased.operands[..3], &[o[0].clone(), o[1].clone(), o[0].clone()], &biased.operands[3..]].concat();
    let results = biased.attention.gradient_results(&types.iter().collect::<Vec<_>>(), true).expect("types");
    let op = OpKind::AttentionGrad { attention: Box::new(biased.attention.clone()), bias: true };
    assert!(write("b", &op, &types, &results).is_none(), "a bias's gradient");
}

#[test]
fn results_repeat_and_use_no_atomics() {
    let extents = [('b', 1), ('q', 40), ('h', 2), ('k', 70), ('d', 16), ('e', 16)];
    let case = case("bqhd,bkhd,bkhe->bqhe", &extents, DType::F32, true);
    let kernels = write("f", &case.forward(), &case.operands, &case.results()).expect("kernels");
    assert!(!kernels.text.contains("atom") && !kernels.text.contains("\tred."));
    let run = || execute(&kernels, &case.values(), &case.results(), None).unwrap_or_else(|e| panic!("{e}")).iter().map(Tensor::to_bytes).collect::<Vec<_>>();
    assert!(run() == run());
}
