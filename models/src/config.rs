//! A model's configuration: which family, and the shape its keys state.
//!
//! Keys are those of Hugging Face's `config.json`; `docs/models.md` lists them by family. A configuration that was read is possible: heads divide the
//! hidden size, sizes are within limits, and every switch that is not modelled is off.

use crate::bert::Bert;
use crate::decoder::Decoder;
use crate::gpt2::Gpt2;
use crate::json::{self, Source, Value};
use crate::keys::Keys;
use crate::resnet::ResNet;
use crate::t5::T5;
use crate::vit::Vit;
use ir::diagnostic::{Diagnostic, Result, nearest};

/// A configuration that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file as the user named it.
    pub name: String,
    /// `model_type`, as written.
    pub model_type: String,
    /// What was not read or is not modelled, without making the model another one.
    pub warnings: Vec<Diagnostic>,
    pub(crate) family: Family,
}

/// The families that can be traced.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Family {
    Gpt2(Gpt2),
    Decoder(Decoder),
    Bert(Bert),
    Vit(Vit),
    T5(T5),
    ResNet(ResNet),
}

/// Every `model_type` that is known.
pub const MODEL_TYPES: [&str; 12] =
    ["gpt2", "llama", "mistral", "qwen2", "qwen3", "mixtral", "qwen3_moe", "switch_transformers", "bert", "vit", "t5", "wide_resnet"];

impl Config {
    /// Reads the text of a `config.json` that the user calls `name`.
    ///
    /// # Errors
    /// Everything wrong with the file at once: `E0130` to `E0136`, each with its place.
    pub fn read(name: &str, text: &str) -> Result<Config> {
        let source = Source { name, text };
        let whole = json::parse(source)?;
        let Value::Object(members) = &whole.value else {
            let d = Diagnostic::input("E0130", format!("`{name}` holds {}, not an object", whole.value.kind())).at(source.span(&whole.range));
            return Err(d.with_help("a model's `config.json` is one JSON object").into());
        };
        let Some(member) = members.iter().find(|m| m.key == "model_type") else {
            let d = Diagnostic::input("E0131", "`model_type` is missing").at(source.span(&(whole.range.start..whole.range.start + 1)));
            return Err(d.with_note(known()).with_help("add `\"model_type\": \"gpt2\"`, or the family that is meant").into());
        };
        let Value::Text(model_type) = &member.node.value else {
            let message = format!("`model_type` is {}", member.node.value.kind());
            return Err(Diagnostic::input("E0133", message).at(source.span(&member.node.range)).with_note(known()).with_help("mend `model_type`").into());
        };
        let mut keys = Keys::new(source, &whole, members, &format!("model type \"{model_type}\""));
        keys.without_effect(&["model_type"]);
        let family = match model_type.as_str() {
            "gpt2" => Family::Gpt2(Gpt2::read(&mut keys)),
            "llama" | "mistral" | "qwen2" | "qwen3" | "mixtral" | "qwen3_moe" => Family::Decoder(Decoder::read(&mut keys, model_type)),
            "switch_transformers" | "t5" => Family::T5(T5::read(&mut keys, model_type)),
            "bert" => Family::Bert(Bert::read(&mut keys)),
            "vit" => Family::Vit(Vit::read(&mut keys)),
            "wide_resnet" => Family::ResNet(ResNet::read(&mut keys)),
            _ => {
                let d = Diagnostic::input("E0131", format!("the model type \"{model_type}\" is not known")).at(source.span(&member.node.range));
                let help = match nearest(model_type, MODEL_TYPES) {
                    Some(close) => format!("did you mean \"{close}\"?"),
                    None => "export the step as StableHLO text instead, or write it with `ir::trace`".into(),
                };
                return Err(d.with_note(known()).with_help(help).into());
            }
        };
        let warnings = keys.finish()?;
        Ok(Config { name: name.into(), model_type: model_type.clone(), warnings, family })
    }
}

/// Sizes of a model that say how it can be cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Repeated layers.
    pub layers: u64,
    /// Attention heads; 0 where there is no attention.
    pub heads: u64,
    /// Experts of a layer; 0 where there are none.
    pub experts: u64,
}

impl Config {
    /// How the model can be cut.
    pub fn sizes(&self) -> Sizes {
        let plain = |layers, heads| Sizes { layers, heads, experts: 0 };
        match &self.family {
            Family::Gpt2(m) => plain(m.layers, m.heads),
            Family::Decoder(m) => Sizes { layers: m.layers, heads: m.heads, experts: m.experts.map_or(0, |e| e.experts) },
            Family::Bert(m) => plain(m.layers, m.heads),
            Family::Vit(m) => plain(m.layers, m.heads),
            Family::T5(m) => plain(m.encoder.layers + m.decoder.layers, m.heads),
            Family::ResNet(_) => Sizes::default(),
        }
    }
}

fn known() -> String {
    format!("known are {}", MODEL_TYPES.join(", "))
}
