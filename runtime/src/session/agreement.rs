//! Before the first step: do all ranks mean to communicate the same things in the same order?
//!
//! Every rank gives a hash of its sequence on each of its lanes. Where those of a lane differ, its ranks give the sequences themselves, and the first
//! difference is said in words: a mismatch is then an error at the start, and no hang in the middle.

use super::{Command, Reply, Session};
use crate::transport::Parts;
use crate::worker::{Lane, Worker};
use ir::{Diagnostic, Result};
use std::collections::BTreeMap;

type Digest = (Lane, Vec<u32>, [u8; 32]);

/// The hashes of a rank's sequences.
pub(super) fn digests(worker: &Worker) -> Parts {
    let digest = |s: crate::worker::Sequence| -> Digest {
        let mut hasher = blake3::Hasher::new();
        for entry in &s.entries {
            hasher.update(&(entry.len() as u64).to_le_bytes()).update(entry.as_bytes());
        }
        (s.lane, s.ranks, *hasher.finalize().as_bytes())
    };
    let list: Vec<Digest> = worker.sequences().into_iter().map(digest).collect();
    vec![(0, postcard::to_stdvec(&list).expect("invariant: hashes serialize"))]
}

/// A rank's sequence on one lane.
pub(super) fn entries(worker: &Worker, lane: Lane) -> Parts {
    let entries = worker.sequences().into_iter().find(|s| s.lane == lane).map(|s| s.entries).unwrap_or_default();
    vec![(0, postcard::to_stdvec(&entries).expect("invariant: text serializes"))]
}

fn decoded<T: serde::de::DeserializeOwned + Default>(parts: &Parts) -> T {
    parts.first().and_then(|(_, bytes)| postcard::from_bytes(bytes).ok()).unwrap_or_default()
}

fn parts(replies: Vec<Reply>) -> Vec<Parts> {
    replies.into_iter().map(|r| if let Reply::Parts(p) = r { p } else { Vec::new() }).collect()
}

/// Compares the sequences of all ranks.
///
/// # Errors
/// `E0682` with the first difference.
pub(super) fn check(session: &mut Session) -> Result<()> {
    let given = parts(session.tell(|| Command::Sequence(None))?);
    let given: BTreeMap<u32, Vec<Digest>> = session.exchange(given)?.iter().map(|(rank, p)| (*rank, decoded(p))).collect();
    let found: Option<(Lane, u32, u32)> = differing(&given);
    let found = session.share(postcard::to_stdvec(&found).expect("invariant: numbers serialize"))?;
    let Some((lane, one, other)) = postcard::from_bytes::<Option<(Lane, u32, u32)>>(&found).unwrap_or_default() else { return Ok(()) };
    let given = parts(session.tell(|| Command::Sequence(Some(lane)))?);
    let given: BTreeMap<u32, Vec<String>> = session.exchange(given)?.iter().map(|(rank, p)| (*rank, decoded(p))).collect();
    if session.fabric.ranks().contains(&0) {
        let none = Vec::new();
        let of = |rank: u32| given.get(&rank).unwrap_or(&none);
        session.fabric.fail(difference(one, of(one), other, of(other)));
        return Err(session.failed());
    }
    // Rank 0's process says it; nothing else will be told.
    match session.share(Vec::new()) {
        Err(failed) => Err(failed),
        Ok(_) => Err(session.failed()),
    }
}

/// The first lane whose ranks do not all say the same, and two that differ.
fn differing(given: &BTreeMap<u32, Vec<Digest>>) -> Option<(Lane, u32, u32)> {
    for (&rank, list) in given {
        for (lane, ranks, digest) in list {
            for &other in ranks {
                let theirs = given.get(&other).and_then(|l| l.iter().find(|(l, _, _)| l == lane));
                if theirs.map(|(_, r, d)| (r, d)) != Some((ranks, digest)) {
                    return Some((*lane, rank.min(other), rank.max(other)));
                }
            }
        }
    }
    None
}

fn difference(one: u32, ones: &[String], other: u32, others: &[String]) -> Diagnostic {
    let at = ones.iter().zip(others).position(|(a, b)| a != b).unwrap_or(ones.len().min(others.len()));
    let said = |list: &[String]| list.get(at).cloned().unwrap_or_else(|| "nothing more".into());
    Diagnostic::outcome("E0682", format!("ranks {one} and {other} would not communicate alike: their communication {} differs", at + 1))
        .with_note(format!("rank {one}: {}", said(ones)))
        .with_note(format!("rank {other}: {}", said(others)))
        .with_note(format!("they plan {} and {} communications with each other in a step", ones.len(), others.len()))
        .with_help("start all ranks with the same program and the same plan")
}
