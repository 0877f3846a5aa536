//! What is wrong with a configuration is told with its place, all at once.

use models::Config;

/// The codes, lines and columns of what is wrong.
fn wrong(text: &str) -> Vec<(String, u32, u32)> {
    let errors = Config::read("config.json", text).expect_err("it is wrong").0;
    for d in &errors {
        assert!(d.help.is_some(), "no way out: {d}");
    }
    errors.into_iter().map(|d| (d.code, d.span.as_ref().map_or(0, |s| s.line), d.span.as_ref().map_or(0, |s| s.column))).collect()
}

fn is(text: &str, expected: &[(&str, u32, u32)]) {
    let expected: Vec<(String, u32, u32)> = expected.iter().map(|(c, l, k)| (c.to_string(), *l, *k)).collect();
    assert_eq!(wrong(text), expected, "{text}");
}

#[test]
fn families_that_are_not_known() {
    is("[]", &[("E0130", 1, 1)]);
    is("{}", &[("E0131", 1, 1)]);
    is(r#"{"model_type": 2}"#, &[("E0133", 1, 16)]);
    is(r#"{"model_type": "gtp2"}"#, &[("E0131", 1, 16)]);
    let d = Config::read("c", r#"{"model_type": "gtp2"}"#).expect_err("it is wrong").0.remove(0);
    assert_eq!(d.help.as_deref(), Some("did you mean \"gpt2\"?"));
}

#[test]
fn everything_wrong_is_told_at_once() {
    let text = r#"{
  "model_type": "gpt2",
  "vocab_size": 0,
  "n_positions": "many",
  "n_embd": 100,
  "n_layer": 1.5,
  "n_head": 12,
  "activation_function": "gelu_neu",
  "layer_norm_epsilon": -1,
  "tie_word_embeddings": 1,
  "scale_attn_by_inverse_layer_idx": true
}"#;
    is(
        text,
        &[("E0134", 3, 17), ("E0133", 4, 18), ("E0133", 6, 14), ("E0135", 7, 13), ("E0136", 8, 26), ("E0134", 9, 25), ("E0133", 10, 26), ("E0136", 11, 38)],
    );
}

#[test]
fn missing_keys_and_those_meant_instead() {
    is(r#"{"model_type": "gpt2", "vocab_size": 10, "n_positions": 8, "n_embed": 8, "n_layer": 1, "n_head": 2}"#, &[("E0132", 1, 60)]);
    is(r#"{"model_type": "vit"}"#, &[("E0132", 1, 1); 6]);
}

#[test]
fn heads_that_do_not_fit() {
    let with = |heads: u64, kv: u64, head_dim: &str| {
        format!(
            "{{\"model_type\": \"llama\", \"vocab_size\": 10, \"hidden_size\": 32, \"intermediate_size\": 64, \"num_hidden_layers\": 2,\n\
             \"num_attention_heads\": {heads},\n\"num_key_value_heads\": {kv}{head_dim}}}"
        )
    };
    is(&with(5, 5, ""), &[("E0135", 2, 24)]);
    is(&with(8, 3, ""), &[("E0135", 3, 24)]);
    is(&with(8, 8, ",\n\"head_dim\": 3"), &[("E0135", 4, 13)]);
    is(&with(99_999_999, 1, ""), &[("E0134", 2, 24)]);
}

#[test]
fn layers_without_experts_between_others_are_refused() {
    let text = include_str!("../../examples/configs/qwen3_30b_a3b.json");
    is(&text.replace("\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2"), &[("E0135", 17, 26)]);
    is(&text.replace("\"mlp_only_layers\": []", "\"mlp_only_layers\": [0]"), &[("E0135", 18, 22)]);
    is(&text.replace("  \"moe_intermediate_size\": 768,\n", ""), &[("E0132", 5, 3)]);
}

#[test]
fn keys_that_nothing_reads_are_named() {
    let text = r#"{"model_type": "gpt2", "vocab_size": 10, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2, "tie_word_embedding": false,
        "torch_dtype": "float32", "bos_token_id": 1}"#;
    let config = Config::read("c", text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(config.warnings.len(), 1);
    assert_eq!(config.warnings[0].code, "W0138");
    assert!(config.warnings[0].notes[0].contains("`tie_word_embeddings`"), "{}", config.warnings[0]);
}

#[test]
fn no_text_makes_it_panic() {
    let text = include_str!("../../examples/configs/mixtral_8x7b.json");
    for cut in 0..text.len() {
        let _ = Config::read("c", &text[..cut]);
    }
    for (at, _) in text.match_indices(|c: char| c.is_ascii_digit()) {
        for digit in ["0", "-1", "1e400", "null", "[]"] {
            let _ = Config::read("c", &format!("{}{digit}{}", &text[..at], &text[at + 1..]));
        }
    }
}
