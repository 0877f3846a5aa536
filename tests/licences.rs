//! Everything that is linked has a licence on the allow-list of `deny.toml`.
//!
//! The list is `cargo deny`'s, read here so that `cargo test` alone checks it. Only what is built for this platform is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// `deny.toml`'s allow-list, and the licences it states for crates that name only a file.
struct Policy {
    allowed: BTreeSet<String>,
    clarified: BTreeMap<String, String>,
}

fn policy() -> Policy {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deny.toml")).expect("deny.toml is there");
    let deny: toml::Table = text.parse().expect("deny.toml is TOML");
    let licences = &deny["licenses"];
    let text = |v: &toml::Value| v.as_str().expect("licences are text").to_string();
    Policy {
        allowed: licences["allow"].as_array().expect("a list").iter().map(text).collect(),
        clarified: licences["clarify"].as_array().expect("a list").iter().map(|c| (text(&c["crate"]), text(&c["expression"]))).collect(),
    }
}

/// Whether an SPDX expression can be met with allowed licences.
fn met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let result = either(&words, &mut at, allowed);
    result && at == words.len()
}

fn either(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut result = both(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        result |= both(words, at, allowed);
    }
    result
}

fn both(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut result = single(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        result &= single(words, at, allowed);
    }
    result
}

fn single(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(&word) = words.get(*at) else { return false };
    *at += 1;
    if word == "(" {
        let result = either(words, at, allowed);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return result && closed;
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1).copied().unwrap_or("");
        *at += 2;
        return allowed.contains(&format!("{word} WITH {exception}"));
    }
    allowed.contains(word)
}

#[test]
fn expressions_are_understood() {
    let allowed = ["MIT", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"].map(str::to_string).into();
    for good in ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "(Zlib OR MIT) AND Unicode-3.0", "Apache-2.0 WITH LLVM-exception OR X"] {
        assert!(met(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR X) AND Y", "Apache-2.0", "", "(MIT"] {
        assert!(!met(bad, &allowed), "{bad}");
    }
}

#[test]
fn every_dependency_may_be_used() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let policy = policy();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let licence = package["license"].as_str().map(str::to_string).or_else(|| policy.clarified.get(name).cloned());
        if !licence.as_deref().is_some_and(|l| met(l, &policy.allowed)) {
            wrong.push(format!("{name}: {}", licence.unwrap_or_else(|| "none stated".into())));
        }
    }
    assert!(wrong.is_empty(), "licences that deny.toml does not allow:\n{}", wrong.join("\n"));
}
