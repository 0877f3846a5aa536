//! Parameters of published models, counted over what is traced, against the published numbers.

use models::{Config, Settings, trace};
use std::path::Path;

/// The parameters of a configuration in `examples/configs`, traced with one layer of each run.
fn parameters(name: &str) -> u64 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/configs").join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).expect("the configuration is there");
    let config = Config::read(name, &text).unwrap_or_else(|e| panic!("{e}"));
    assert!(config.warnings.is_empty(), "{name}: {:?}", config.warnings);
    let sequence = config.takes_sequences().then_some(128);
    trace(&config, &Settings { sequence, depth: Some(1), ..Settings::default() }).unwrap_or_else(|e| panic!("{name}: {e}")).parameters
}

fn check(expected: &[(&str, u64)]) {
    for (name, count) in expected {
        assert_eq!(parameters(name), *count, "{name}");
    }
}

#[test]
fn gpt2_and_what_has_its_shape() {
    // As counted from the released checkpoints.
    check(&[("gpt2_124m", 124_439_808), ("gpt2_355m", 354_823_168), ("gpt2_774m", 774_030_080), ("gpt2_1.5b", 1_557_611_200)]);
    // Published in billions: 175.0 (Brown et al., table 2.1), 39 (Alpa, table 5), 1008.0 (Narayanan et al. 2021, table 1).
    for (name, billions, unit) in [("gpt3_175b", 175.0, 1.0), ("gpt_39b", 39.0, 1.0), ("gpt_1t", 1008.0, 0.1)] {
        let counted = parameters(name) as f64 / 1e9;
        assert_eq!((counted / unit).round() * unit, billions, "{name}: {counted}");
    }
    // Megatron's own formula for the one of a trillion: 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)), and the last norm.
    let (l, h, v, s) = (128u64, 25600u64, 51200u64, 2048u64);
    check(&[("gpt_1t", 12 * l * h * h + 13 * l * h + (v + s) * h + 2 * h)]);
}

#[test]
fn llama_and_its_relatives() {
    check(&[
        ("llama2_7b", 6_738_415_616),
        ("llama2_13b", 13_015_864_320),
        ("llama2_70b", 68_976_648_192),
        ("llama3_8b", 8_030_261_248),
        ("llama3_70b", 70_553_706_496),
        ("llama3_405b", 405_853_388_800),
        ("mistral_7b", 7_241_732_096),
        ("qwen2_7b", 7_615_616_512),
        ("qwen3_8b", 8_190_735_360),
    ]);
}

#[test]
fn experts() {
    check(&[("mixtral_8x7b", 46_702_792_704), ("mixtral_8x22b", 140_620_634_112), ("qwen3_30b_a3b", 30_532_122_624), ("qwen3_235b_a22b", 235_093_634_560)]);
}

#[test]
fn encoders() {
    // BERT as `BertForMaskedLM`: no pooler, a head of its own.
    check(&[("bert_base", 109_514_298), ("bert_large", 335_174_458), ("vit_b16", 86_567_656), ("vit_l16", 304_326_632)]);
}

#[test]
fn encoders_with_decoders() {
    check(&[("t5_small", 60_506_624), ("t5_base", 222_903_552), ("t5_3b", 2_851_598_336)]);
}

#[test]
fn residual_networks() {
    check(&[("wide_resnet_50_2", 68_883_240), ("wide_resnet_101_2", 126_886_696)]);
}
