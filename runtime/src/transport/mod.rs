//! The second seam: what moves data between arenas.
//!
//! A transport belongs to one rank. Before the first step the worker resolves every message to a [`LinkId`] and every collective to a [`GroupId`] and a
//! [`Collective`] with its layouts planned; in a step it only calls. A call returns when the rank may go on: a send may still be outstanding then, and
//! [`Transport::settle`] says when memory it reads may be overwritten. Every wait ends when the run fails elsewhere or when its time is over, and the
//! failure names who is missing and where.

pub mod collective;
pub mod local;
pub mod mover;
pub mod place;
pub mod remote;
pub mod routes;
pub mod tcp;
mod waiting;

use crate::arena::Place;
use crate::device::{Position, Region};
use collective::Collective;
use ir::{Diagnostic, Result};
use std::ops::Range;
use std::sync::Arc;

/// A resolved one-way connection: (sender, receiver, channel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkId(pub u32);

/// A resolved group of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupId(pub u32);

/// Why a call did not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// Another rank failed first; its diagnostic is the one to show.
    Elsewhere,
    /// This rank noticed the failure.
    Here(Box<Diagnostic>),
}

/// Bytes that a rank gives, each with a number that says what they are.
pub type Parts = Vec<(u32, Vec<u8>)>;

/// What connects the ranks of a run: those of this process with each other and with all others.
pub trait Fabric: Send + Sync {
    /// The ranks of this process.
    fn ranks(&self) -> Range<u32>;
    /// The transport of one of them; to be used on that rank's thread.
    fn transport(self: Arc<Self>, rank: u32) -> Box<dyn Transport>;
    /// Ends the run for every rank; the first reason is kept.
    fn fail(&self, reason: Diagnostic);
    /// Why the run failed, if it did.
    fn failure(&self) -> Option<Diagnostic>;
    /// Where a rank is, in words.
    fn whereabouts(&self, rank: u32) -> String;
    /// Gives rank 0's process what the ranks of all processes give, in their order; the others get nothing. All processes call it, in the same order.
    ///
    /// # Errors
    /// When interrupted.
    fn gather(&self, parts: Vec<(u32, Parts)>) -> Result<Vec<(u32, Parts)>, Interrupted>;
    /// Gives all processes what rank 0's process gives; what the others give is not looked at. All processes call it, in the same order.
    ///
    /// # Errors
    /// When interrupted.
    fn share(&self, given: Vec<u8>) -> Result<Vec<u8>, Interrupted>;
}

/// Moves data for one rank.
pub trait Transport: Send {
    /// Tells where this rank's arena is; returns when every rank has told.
    ///
    /// # Errors
    /// When a rank does not come.
    fn attach(&mut self, arena: Region) -> Result<(), Interrupted>;
    /// Resolves the link on which this rank sends to `peer`, or receives from it.
    ///
    /// # Errors
    /// When the other side has no such channel.
    fn link(&mut self, peer: u32, channel: u32, sending: bool) -> Result<LinkId, Diagnostic>;
    /// Resolves a group, given by its ranks in the order of their linear coordinate.
    ///
    /// # Errors
    /// When this rank is not in it.
    fn group(&mut self, ranks: &[u32]) -> Result<GroupId, Diagnostic>;
    /// Says where the rank is; what others report when they wait for it.
    fn at(&mut self, position: Position);
    /// Gives `from` (of the arena) to the receiver; it may be read until it is settled.
    ///
    /// # Errors
    /// When interrupted.
    fn send(&mut self, link: LinkId, from: Region) -> Result<(), Interrupted>;
    /// Waits for the next message of the link and copies it to `to`.
    ///
    /// # Errors
    /// When interrupted.
    fn receive(&mut self, link: LinkId, to: Region) -> Result<(), Interrupted>;
    /// Returns when no outstanding send reads from `region`.
    ///
    /// # Errors
    /// When interrupted.
    fn settle(&mut self, region: Region) -> Result<(), Interrupted>;
    /// Takes part in a collective of the group.
    ///
    /// # Errors
    /// When interrupted.
    fn collective(&mut self, group: GroupId, collective: &Collective, microbatch: u32) -> Result<(), Interrupted>;
    /// Returns when every send was received.
    ///
    /// # Errors
    /// When interrupted.
    fn finish(&mut self) -> Result<(), Interrupted>;
    /// Ends the run for everyone, with this as the reason unless there is one already.
    fn fail(&mut self, reason: Diagnostic);
    /// Bytes of memory it holds beside the arenas, for this rank.
    fn staging_bytes(&self) -> usize;
}

/// The part of an arena where a buffer's slot lies.
pub fn region(arena: Region, place: &Place, microbatch: u32) -> Region {
    debug_assert!(place.offset(microbatch) + place.bytes() <= arena.bytes, "invariant: buffers lie inside the arena");
    // SAFETY: buffers lie inside the arena, as `Program::verify` checked.
    Region { address: unsafe { arena.address.add(place.offset(microbatch)) }, bytes: place.bytes() }
}
