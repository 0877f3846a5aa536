//! Traced steps: what is counted of them, that a few layers stand for all, and that every family computes a sensible loss.

use ir::interp::{self, Precision, Tensor};
use models::{Config, Settings, Traced, trace};
use std::collections::BTreeMap;
use std::path::Path;

const TINY: [&str; 11] = ["gpt2", "llama", "mistral", "qwen2", "mixtral", "qwen3_moe", "switch", "bert", "vit", "t5", "wide_resnet"];

fn config(name: &str) -> Config {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../examples/configs/{name}.json"));
    Config::read(name, &std::fs::read_to_string(&path).expect("the configuration is there")).unwrap_or_else(|e| panic!("{e}"))
}

fn traced(name: &str, settings: Settings) -> Traced {
    trace(&config(name), &settings).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn operations_are_those_of_the_published_formula() {
    // Narayanan et al. 2021, without recomputation: 72 B s l h^2 (1 + s / (6 h) + V / (12 l h)).
    let step = |depth| traced("gpt2_124m", Settings { global_batch: 8, sequence: Some(1024), depth, ..Settings::default() });
    let (b, s, l, h, v) = (8.0, 1024.0, 12.0, 768.0, 50257.0);
    let expected = 72.0 * b * s * l * h * h * (1.0 + s / (6.0 * h)) + 6.0 * b * s * h * v;
    for depth in [None, Some(1), Some(4)] {
        let step = step(depth);
        assert!((step.flops.0 / expected - 1.0).abs() < 1e-12, "{depth:?}: {} against {expected}", step.flops.0);
        assert_eq!((step.parameters, step.tokens), (124_439_808, 8192));
    }
}

#[test]
fn experts_compute_for_the_tokens_they_have_room_for() {
    let step = traced("mixtral_8x7b", Settings { global_batch: 2, sequence: Some(1024), depth: Some(1), ..Settings::default() });
    let (b, s, l, h, i, v) = (2.0, 1024.0, 32.0, 4096.0, 14336.0, 32000.0);
    let room = 1.25 * 2.0 * s / 8.0;
    let attention = b * s * h * (2.0 * h + 2.0 * 1024.0) + 2.0 * b * s * s * h;
    let layer = attention + b * s * h * 8.0 + 8.0 * b * room * 3.0 * h * i;
    let expected = 6.0 * (l * layer + b * s * h * v);
    assert!((step.flops.0 / expected - 1.0).abs() < 1e-12, "{} against {expected}", step.flops.0);
}

#[test]
fn convolutions_count_three_times() {
    // 11.4 billion multiplications an image (Zagoruyko and Komodakis, 2016), forward; the first convolution needs no gradient of its input.
    let step = traced("wide_resnet_50_2", Settings { global_batch: 1, ..Settings::default() });
    let stem = 112.0 * 112.0 * 64.0 * 49.0 * 3.0;
    let forward = (step.flops.0 / 2.0 + stem) / 3.0;
    assert!((forward / 11.4e9 - 1.0).abs() < 0.01, "{forward}");
}

#[test]
fn layers_of_a_run_are_alike() {
    for name in TINY {
        let step = traced(&format!("tiny_{name}"), Settings { global_batch: 4, ..Settings::default() });
        let graph = step.module.main().expect("a step");
        for run in &step.runs {
            let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for op in graph.ops.values() {
                let name = &*graph.values[op.results[0]].name;
                if let Some((number, _)) = name.strip_prefix(run.prefix.as_str()).and_then(|rest| rest.split_once('/')) {
                    let shape = format!("{:?}", graph.ty(op.results[0]));
                    kinds.entry(number.to_string()).or_default().push(format!("{} {shape}", format!("{:?}", op.kind).split('(').next().unwrap_or_default()));
                }
            }
            assert_eq!(kinds.len(), run.depth_traced as usize, "{name}");
            let all: Vec<&Vec<String>> = kinds.values().collect();
            // The first layer of experts adds its loss to a constant, which has no gradient.
            assert!(all.windows(2).all(|w| w[0].len().abs_diff(w[1].len()) <= 2), "{name}: {:?}", all.iter().map(|k| k.len()).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_trace_is_the_same_every_time() {
    for name in TINY {
        let text = || ir::text::print(&traced(&format!("tiny_{name}"), Settings { global_batch: 4, ..Settings::default() }).module);
        assert!(text() == text(), "{name}");
    }
}

/// The loss of a first step, by the interpreter.
fn first_loss(name: &str) -> f64 {
    let config = config(name);
    let sequence = config.takes_sequences().then_some(8);
    let step = trace(&config, &Settings { global_batch: 2, sequence, ..Settings::default() }).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut inputs: BTreeMap<u32, Tensor> = step.initial(3).into_iter().collect();
    let arguments = step.arguments.iter().enumerate().map(|(i, a)| {
        let n = a.ty.elements() as i64;
        let made = || match a.ty.dtype.is_integer() {
            true => Tensor::from_i64s(a.ty.clone(), &(0..n).map(|k| (5 * k + 1) % 7).collect::<Vec<_>>()),
            false => Tensor::from_f64s(a.ty.clone(), &(0..n).map(|k| (k as f64).sin()).collect::<Vec<_>>()),
        };
        inputs.remove(&(i as u32)).or_else(made).expect("as many elements as the type has")
    });
    let arguments: Vec<Tensor> = arguments.collect();
    let graph = step.module.main().expect("a step");
    let results = interp::run(&step.module, graph, &arguments, Precision::AsTyped).unwrap_or_else(|e| panic!("{name}: {e}"));
    for (result, attributes) in results.iter().zip(&graph.output_attributes) {
        assert!(!result.ty.dtype.is_float() || result.to_f64s().iter().all(|x| x.is_finite()), "{name}: {} is not finite", attributes.name);
    }
    results.last().expect("a loss").to_f64s()[0]
}

#[test]
fn an_untrained_model_knows_nothing() {
    for name in TINY {
        let classes: f64 = if ["vit", "wide_resnet"].contains(&name) { 8.0 } else { 256.0 };
        let loss = first_loss(&format!("tiny_{name}"));
        // Tied embeddings of T5 begin large: its logits do not begin even, and what goes in is likely to come out.
        let near = if ["t5", "switch"].contains(&name) { 3.0 } else { 1.0 };
        assert!((loss - classes.ln()).abs() < near, "{name}: {loss} against {}", classes.ln());
    }
}
