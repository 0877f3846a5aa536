//! The keys of a configuration, read one by one with everything wrong kept for one report.
//!
//! A reader always returns a value that later code can compute with (1 for a size that is wrong), so that all keys are looked at before anything fails.
//! Keys that nobody read are named in one warning at the end, except those that Hugging Face writes beside a model's shape.

use crate::json::{Member, Node, Source, Value};
use ir::diagnostic::{Diagnostic, Diagnostics, nearest};
use std::collections::BTreeSet;

/// Largest size of anything that a key counts; more is taken for a slip of the pen.
const LARGEST: u64 = 1 << 24;

/// Keys that say nothing about a training step's shape, or only about text, generation and files.
const BESIDE: &[&str] = &[
    "_name_or_path",
    "adapters",
    "architectures",
    "auto_map",
    "bos_token_id",
    "cls_token_id",
    "decoder_start_token_id",
    "dtype",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "is_decoder",
    "is_encoder_decoder",
    "keys_to_ignore_at_inference",
    "label2id",
    "max_length",
    "mask_token_id",
    "n_ctx",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "problem_type",
    "quantization_config",
    "sep_token_id",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "transformers_version",
    "unk_token_id",
    "use_cache",
];

/// The keys of one object.
#[derive(Debug)]
pub(crate) struct Keys<'a> {
    source: Source<'a>,
    members: &'a [Member],
    whole: &'a Node,
    family: String,
    asked: BTreeSet<String>,
    /// Keys with errors of their own, about which no further ones are told.
    failed: BTreeSet<String>,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl<'a> Keys<'a> {
    /// The keys of an object; `family` is what messages call the model.
    pub(crate) fn new(source: Source<'a>, whole: &'a Node, members: &'a [Member], family: &str) -> Keys<'a> {
        Keys { source, members, whole, family: family.into(), asked: BTreeSet::new(), failed: BTreeSet::new(), errors: Vec::new(), warnings: Vec::new() }
    }

    fn find(&mut self, names: &[&str]) -> Option<&'a Member> {
        self.asked.extend(names.iter().map(|n| n.to_string()));
        let members = self.members;
        names.iter().find_map(|name| members.iter().find(|m| m.key == *name))
    }

    fn given(&mut self, names: &[&str]) -> Option<&'a Member> {
        self.find(names).filter(|m| m.node.value != Value::Null)
    }

    fn missing(&mut self, names: &[&str], expected: &str) {
        let name = names[0];
        self.failed.extend(names.iter().map(|n| n.to_string()));
        let close = nearest(name, self.members.iter().map(|m| m.key.as_str()).filter(|k| !self.asked.contains(*k)));
        let d = match close.and_then(|c| self.members.iter().find(|m| m.key == c)) {
            Some(m) => Diagnostic::input("E0132", format!("`{name}` is missing; `{}` is no key of {}", m.key, self.family)).at(self.source.span(&m.key_range)),
            None => {
                let start = self.whole.range.start;
                Diagnostic::input("E0132", format!("`{name}` is missing")).at(self.source.span(&(start..start + 1)))
            }
        };
        self.errors.push(d.with_note(format!("{} needs it: {expected}", self.family)).with_help(format!("add `\"{name}\": …`")));
    }

    fn wrong(&mut self, code: &str, member: &Member, message: String, expected: &str) {
        self.failed.insert(member.key.clone());
        let d = Diagnostic::input(code, message).at(self.source.span(&member.node.range)).with_note(format!("expected {expected}"));
        self.errors.push(d.with_help(format!("mend `{}`", member.key)));
    }

    fn ill_typed(&mut self, member: &Member, expected: &str) {
        let message = format!("`{}` is {}", member.key, member.node.value.kind());
        self.wrong("E0133", member, message, expected);
    }

    fn whole_number(&mut self, member: &Member, node: &Node, least: u64) -> Option<u64> {
        let expected = format!("a whole number from {least} to {LARGEST}");
        let place = Member { key: member.key.clone(), key_range: member.key_range.clone(), node: node.clone() };
        let Value::Number(text) = &node.value else {
            self.ill_typed(&place, &expected);
            return None;
        };
        match text.parse::<u64>() {
            Ok(n) if (least..=LARGEST).contains(&n) => Some(n),
            Ok(n) => {
                self.wrong("E0134", &place, format!("`{}` is {n}, which is too {}", member.key, if n < least { "small" } else { "large" }), &expected);
                None
            }
            Err(_) => {
                self.wrong("E0133", &place, format!("`{}` is {text}", member.key), &expected);
                None
            }
        }
    }

    /// A size that must be there; the first name is the usual one, others are accepted.
    pub(crate) fn size(&mut self, names: &[&str], meaning: &str) -> u64 {
        match self.given(names) {
            Some(m) => self.whole_number(m, &m.node, 1).unwrap_or(1),
            None => {
                self.missing(names, meaning);
                1
            }
        }
    }

    /// A size that may be missing or null.
    pub(crate) fn optional_size(&mut self, names: &[&str]) -> Option<u64> {
        let m = self.given(names)?;
        self.whole_number(m, &m.node, 1)
    }

    /// A count that may be missing and may be zero.
    pub(crate) fn count_or(&mut self, name: &str, default: u64) -> u64 {
        match self.given(&[name]) {
            Some(m) => self.whole_number(m, &m.node, 0).unwrap_or(default),
            None => default,
        }
    }

    /// A list of sizes that must be there.
    pub(crate) fn sizes(&mut self, name: &str, meaning: &str) -> Vec<u64> {
        let Some(m) = self.given(&[name]) else {
            self.missing(&[name], meaning);
            return vec![1];
        };
        let Value::List(items) = &m.node.value else {
            self.ill_typed(m, "a list of whole numbers");
            return vec![1];
        };
        if items.is_empty() {
            self.wrong("E0134", m, format!("`{name}` is empty"), "a list of whole numbers");
            return vec![1];
        }
        items.iter().map(|n| self.whole_number(m, n, 1).unwrap_or(1)).collect()
    }

    /// Whether a list is missing, null or empty; anything else is left for the caller to refuse.
    pub(crate) fn is_empty_list(&mut self, name: &str) -> bool {
        self.given(&[name]).is_none_or(|m| matches!(&m.node.value, Value::List(l) if l.is_empty()))
    }

    /// A positive number, with a default.
    pub(crate) fn number_or(&mut self, names: &[&str], default: f64) -> f64 {
        let Some(m) = self.given(names) else { return default };
        let expected = "a number above 0";
        match &m.node.value {
            Value::Number(text) => match text.parse::<f64>() {
                Ok(x) if x > 0.0 && x.is_finite() => x,
                _ => {
                    self.wrong("E0134", m, format!("`{}` is {text}", m.key), expected);
                    default
                }
            },
            _ => {
                self.ill_typed(m, expected);
                default
            }
        }
    }

    /// True or false, with a default.
    pub(crate) fn flag_or(&mut self, name: &str, default: bool) -> bool {
        match self.given(&[name]).map(|m| (m, &m.node.value)) {
            None => default,
            Some((_, Value::Bool(b))) => *b,
            Some((m, _)) => {
                self.ill_typed(m, "true or false");
                default
            }
        }
    }

    /// One of several words, with a default.
    pub(crate) fn choice_or<T: Copy>(&mut self, names: &[&str], choices: &[(&str, T)], default: T) -> T {
        let Some(m) = self.given(names) else { return default };
        let Value::Text(word) = &m.node.value else {
            self.ill_typed(m, "text");
            return default;
        };
        if let Some((_, value)) = choices.iter().find(|(name, _)| name == word) {
            return *value;
        }
        let known: Vec<String> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let message = format!("`{}` is \"{word}\", which is not known here", m.key);
        self.wrong("E0136", m, message, &format!("one of {}", known.join(", ")));
        default
    }

    /// A key that changes the model in a way that is not modelled unless it has (or lacks) this value.
    pub(crate) fn only_flag(&mut self, name: &str, modelled: bool) {
        if let Some(m) = self.given(&[name]) {
            match m.node.value {
                Value::Bool(b) if b == modelled => {}
                Value::Bool(b) => self.wrong("E0136", m, format!("`{name}: {b}` is not modelled"), &format!("{modelled}")),
                _ => self.ill_typed(m, "true or false"),
            }
        }
    }

    /// The keys of an inner object, or `None` where it is missing, null or no object; what is wrong there is reported here after [`Keys::join`].
    pub(crate) fn inner(&mut self, name: &str) -> Option<Keys<'a>> {
        let m = self.given(&[name])?;
        match &m.node.value {
            Value::Object(members) => Some(Keys::new(self.source, &m.node, members, &format!("`{name}`"))),
            _ => {
                self.ill_typed(m, "an object or null");
                None
            }
        }
    }

    /// Takes over what an inner reader found.
    pub(crate) fn join(&mut self, inner: Keys<'_>) {
        self.errors.extend(inner.errors);
    }

    /// Keys that are read and have no effect on the step.
    pub(crate) fn without_effect(&mut self, names: &[&str]) {
        self.asked.extend(names.iter().map(|n| n.to_string()));
    }

    /// An error about how keys fit together, shown at the first of `names` that is given.
    pub(crate) fn misfit(&mut self, names: &[&str], message: impl Into<String>, help: impl Into<String>) {
        let range = names
            .iter()
            .find_map(|n| self.members.iter().find(|m| m.key == *n))
            .map_or(self.whole.range.start..self.whole.range.start + 1, |m| m.node.range.clone());
        self.errors.push(Diagnostic::input("E0135", message).at(self.source.span(&range)).with_help(help));
    }

    /// Demands that `whole` is a multiple of `part`.
    pub(crate) fn divides(&mut self, (part_names, part): (&[&str], u64), (whole_names, whole): (&[&str], u64)) {
        if part_names.iter().chain(whole_names).any(|n| self.failed.contains(*n)) {
            return;
        }
        if part == 0 || !whole.is_multiple_of(part) {
            let message = format!("`{}` is {part}, which does not divide `{}`, {whole}", part_names[0], whole_names[0]);
            let near = (1..=part).rev().find(|p| whole.is_multiple_of(*p)).unwrap_or(1);
            self.misfit(part_names, message, format!("use a divisor of {whole}, such as {near}"));
        }
    }

    /// A warning that goes with the model.
    pub(crate) fn warn(&mut self, name: &str, message: impl Into<String>) {
        let mut d = Diagnostic::warning("W0139", message);
        if let Some(m) = self.members.iter().find(|m| m.key == name) {
            d = d.at(self.source.span(&m.key_range));
        }
        self.warnings.push(d);
    }

    /// The warnings, or everything that is wrong.
    pub(crate) fn finish(mut self) -> Result<Vec<Diagnostic>, Diagnostics> {
        let unread: Vec<&Member> = self.members.iter().filter(|m| !self.asked.contains(&m.key) && !BESIDE.contains(&m.key.as_str())).collect();
        if let Some(first) = unread.first() {
            let names: Vec<String> = unread.iter().map(|m| format!("`{}`", m.key)).collect();
            let mut d = Diagnostic::warning("W0138", format!("not read, since {} has no such key here: {}", self.family, names.join(", ")))
                .at(self.source.span(&first.key_range));
            for m in &unread {
                if let Some(close) = nearest(&m.key, self.asked.iter().map(String::as_str)).filter(|c| !self.members.iter().any(|m| m.key == *c)) {
                    d = d.with_note(format!("`{}` may be meant as `{close}`", m.key));
                }
            }
            self.warnings.push(d);
        }
        if self.errors.is_empty() {
            return Ok(self.warnings);
        }
        self.errors.sort_by_key(|d| d.span.as_ref().map_or((0, 0), |s| (s.line, s.column)));
        Err(Diagnostics(self.errors))
    }
}
