//! Ranks as processes: who starts them, how they find one another, and how a failure of one becomes known to all.
//!
//! [`environment`] reads what a launcher (mpirun, srun, torchrun) says of this process; [`launch`] is our own launcher for one machine. The processes meet at
//! rank 0 ([`rendezvous`]), each proving that it knows the secret ([`handshake`]) and has the same plan. The connection that a process joined with stays its
//! control channel ([`control`]): heartbeats, failures, and what ranks tell rank 0. Data go from process to process over connections of their own
//! ([`crate::transport::tcp`]). Every rank leaves a flight record ([`flight`]), which is there even after a SIGKILL.
//!
//! **Invariant:** every wait ends: when what is waited for comes, when the run fails, or when its time is over.

pub mod control;
pub mod environment;
pub mod flight;
pub mod handshake;
pub mod launch;
pub mod meeting;
pub mod rendezvous;
pub mod wire;

use std::ops::Range;

/// One process's share of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number.
    pub process: u32,
    /// How many processes there are.
    pub processes: u32,
    /// Ranks of the plan; each process holds as many.
    pub ranks: u32,
}

impl Place {
    /// The ranks of a process.
    pub fn ranks_of(&self, process: u32) -> Range<u32> {
        let each = self.ranks / self.processes.max(1);
        process * each..(process + 1) * each
    }
    /// The ranks of this one.
    pub fn own(&self) -> Range<u32> {
        self.ranks_of(self.process)
    }
    /// The process that holds a rank.
    pub fn process_of(&self, rank: u32) -> u32 {
        rank / (self.ranks / self.processes.max(1)).max(1)
    }
    /// The ranks of a process in words: `rank 3`, or `ranks 2 to 3`.
    pub fn named(&self, process: u32) -> String {
        let ranks = self.ranks_of(process);
        if ranks.len() == 1 { format!("rank {}", ranks.start) } else { format!("ranks {} to {}", ranks.start, ranks.end.saturating_sub(1)) }
    }
}
