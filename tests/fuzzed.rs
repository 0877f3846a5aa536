//! The fuzz targets on a bounded, fixed set of mutated inputs, so that they are kept true without cargo-fuzz and its nightly toolchain.
//!
//! `SHARDWRIGHT_FUZZ_ROUNDS` asks for more rounds, `SHARDWRIGHT_FUZZ_SEED` for others.
#![allow(clippy::print_stderr, reason = "a round that fails is told")]

mod support;
#[path = "../fuzz/targets.rs"]
mod targets;

use std::path::Path;

/// A generator of 64-bit numbers from a seed, the same on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|t| t.parse().ok()).unwrap_or(default)
}

/// Files of a folder with that ending, in order.
fn files(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(folder).expect("the folder").map(|e| e.expect("an entry").path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == ending));
    paths.sort();
    paths.iter().map(|p| std::fs::read(p).expect("a readable file")).collect()
}

/// Mutates seeds as a fuzzer does: bytes changed, pieces cut, doubled and taken from others.
fn fuzz(seeds: &[Vec<u8>], rounds: u64, target: fn(&[u8])) {
    let seed = number("SHARDWRIGHT_FUZZ_SEED", 11);
    let rounds = number("SHARDWRIGHT_FUZZ_ROUNDS", rounds);
    for round in 0..rounds {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round);
        let mut bytes = seeds[numbers.below(seeds.len())].clone();
        for _ in 0..1 + numbers.below(4) {
            let at = numbers.below(bytes.len());
            let end = (at + 1 + numbers.below(24)).min(bytes.len());
            match numbers.below(7) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let (piece, to) = (bytes[at..end].to_vec(), numbers.below(bytes.len()));
                    bytes.splice(to..to, piece);
                }
                3 => {
                    let other = &seeds[numbers.below(seeds.len())];
                    let from = numbers.below(other.len());
                    let piece = other[from..(from + numbers.below(64)).min(other.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
                4 => bytes[at] ^= 1 << numbers.below(8),
                // Lengths and counts at their ends.
                5 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][numbers.below(5)],
                _ => drop(bytes.splice(at..at, vec![0xff; 1 + numbers.below(9)])),
            }
            if bytes.is_empty() {
                break;
            }
        }
        let result = std::panic::catch_unwind(|| target(&bytes));
        if result.is_err() {
            eprintln!("round {round} of seed {seed}, {} bytes:\n{}", bytes.len(), String::from_utf8_lossy(&bytes[..bytes.len().min(4000)]));
        }
        assert!(result.is_ok(), "round {round} of seed {seed} panicked");
    }
}

#[test]
fn any_text_is_read_or_diagnosed() {
    let seeds: Vec<Vec<u8>> = ["ir/tests/forms", "ir/tests/bad"].iter().flat_map(|f| files(f, "mlir")).filter(|f| (1..20_000).contains(&f.len())).collect();
    assert!(seeds.len() > 50);
    fuzz(&seeds, 4000, targets::importer);
}

#[test]
fn any_bytes_are_a_plan_or_a_diagnostic() {
    let mut plan = (*support::compile(&support::bundled("mlp"), "--cluster local:4 --stages 2 --microbatches 2")).clone();
    plan.code.clear();
    let file = plan.to_bytes();
    // The body alone is sealed again after it was changed, so that what decodes it is reached.
    let body = file[20..file.len() - 32].to_vec();
    targets::plan_reader(&body);
    fuzz(&[file, body], 3000, targets::plan_reader);
}
