//! Who talks to whom: the links and groups of a plan, numbered the same in every process.
//!
//! A link is one channel between the equal mesh positions of two stages, a group the devices of a mesh that differ along some axes. Both follow from the
//! programs alone. Group 0 holds all ranks.

use super::waiting::waiting;
use super::{GroupId, LinkId};
use ir::program::{BufferId, InstructionKind, Phase, Program, ScheduleKind, StageId, steps};
use ir::{Diagnostic, Result};
use std::collections::{BTreeMap, BTreeSet};

/// A one-way connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// Tells the connections between the two apart.
    pub channel: u32,
    /// Messages of a step.
    pub messages: usize,
    /// Bytes of each.
    pub bytes: usize,
    /// How many messages must be able to wait beside the sender's buffer.
    pub waiting: usize,
}

/// All links and groups.
#[derive(Clone, Debug)]
pub struct Routes {
    /// The links, by number.
    pub links: Vec<Route>,
    /// The ranks of each group in the order of their linear coordinate, by number.
    pub groups: Vec<Vec<u32>>,
    /// Whether a collective takes place in the group.
    used: Vec<bool>,
    link_numbers: BTreeMap<(u32, u32, u32), u32>,
    group_numbers: BTreeMap<Vec<u32>, u32>,
}

impl Routes {
    /// The routes of some programs, whose step runs `microbatches` in the order of `schedule`.
    ///
    /// # Errors
    /// `E0602` when a send has no receive or the other way round.
    pub fn of(programs: &[Program], schedule: ScheduleKind, microbatches: u32) -> Result<Routes> {
        let total: u32 = programs.iter().map(|p| p.mesh.devices()).sum();
        let mut links = Vec::new();
        let (mut sends, mut receives) = (BTreeMap::new(), BTreeMap::new());
        let mut group_numbers = BTreeMap::from([((0..total).collect::<Vec<u32>>(), 0u32)]);
        let mut used = vec![false];
        for program in programs {
            let mut runs = [0usize; 4];
            for s in steps(schedule, program.stage, programs.len() as u32, microbatches).filter(|s| s.chunk == 0) {
                runs[s.phase as usize] += 1;
            }
            for phase in Phase::ALL {
                for i in program.phase(phase) {
                    let bytes = |list: &[BufferId]| list.first().map_or(0, |b| program.buffers[*b].ty.bytes() as usize);
                    let (table, key, bytes) = match &i.kind {
                        InstructionKind::Send { to, channel } => (&mut sends, (program.stage, *to, *channel), bytes(&i.reads)),
                        InstructionKind::Receive { from, channel } => (&mut receives, (*from, program.stage, *channel), bytes(&i.writes)),
                        InstructionKind::Collective { axes, .. } => {
                            for device in 0..program.mesh.devices() {
                                let ranks: Vec<u32> = program.mesh.group_of(device, axes).iter().map(|d| program.first_rank + d).collect();
                                let next = group_numbers.len() as u32;
                                let number = *group_numbers.entry(ranks).or_insert(next);
                                used.resize(group_numbers.len(), false);
                                used[number as usize] = true;
                            }
                            continue;
                        }
                        _ => continue,
                    };
                    let entry = table.entry(key).or_insert((0usize, bytes, i.source.clone()));
                    entry.0 += runs[phase as usize];
                    if entry.1 != bytes {
                        return Err(inconsistent(format!("channel {} carries messages of {} and of {bytes} bytes", key.2, entry.1), &i.source));
                    }
                }
            }
        }
        let waiting = waiting(programs, schedule, microbatches);
        let stage = |s: StageId| programs.iter().find(|p| p.stage == s);
        for (key, send) in &sends {
            let receive = receives.get(key).filter(|r| (r.0, r.1) == (send.0, send.1));
            let (Some(_), Some(from), Some(to)) = (receive, stage(key.0), stage(key.1)) else {
                return Err(inconsistent(format!("stage {} sends {} messages on channel {} that {} does not receive", key.0, send.0, key.2, key.1), &send.2));
            };
            if from.mesh.devices() != to.mesh.devices() {
                return Err(inconsistent(format!("stages {} and {} exchange messages and have other meshes", key.0, key.1), &send.2));
            }
            for device in 0..from.mesh.devices() {
                links.push(Route {
                    from: from.first_rank + device,
                    to: to.first_rank + device,
                    channel: key.2,
                    messages: send.0,
                    bytes: send.1,
                    waiting: waiting[key],
                });
            }
        }
        if let Some((key, receive)) = receives.iter().find(|(key, _)| !sends.contains_key(key)) {
            return Err(inconsistent(format!("stage {} receives on channel {} what {} does not send", key.1, key.2, key.0), &receive.2));
        }
        let mut groups = vec![Vec::new(); group_numbers.len()];
        for (ranks, &number) in &group_numbers {
            groups[number as usize] = ranks.clone();
        }
        let link_numbers = links.iter().enumerate().map(|(i, l)| ((l.from, l.to, l.channel), i as u32)).collect();
        Ok(Routes { links, groups, used, link_numbers, group_numbers })
    }

    /// The ranks that `rank` exchanges data with, in order.
    pub fn neighbours(&self, rank: u32) -> Vec<u32> {
        let met = self.groups.iter().zip(&self.used).filter(|(g, used)| **used && g.contains(&rank)).flat_map(|(g, _)| g.iter().copied());
        let linked = self.links.iter().filter(|l| l.from == rank || l.to == rank).map(|l| if l.from == rank { l.to } else { l.from });
        met.chain(linked).filter(|r| *r != rank).collect::<BTreeSet<u32>>().into_iter().collect()
    }

    /// The link between two ranks on a channel.
    ///
    /// # Errors
    /// `E0602` when there is none.
    pub fn link(&self, from: u32, to: u32, channel: u32) -> Result<LinkId, Diagnostic> {
        let missing = || Diagnostic::input("E0602", format!("this plan is inconsistent: ranks {from} and {to} share no channel {channel}"));
        self.link_numbers.get(&(from, to, channel)).map(|n| LinkId(*n)).ok_or_else(missing)
    }

    /// The group of some ranks, and the place of `rank` in it.
    ///
    /// # Errors
    /// `E0602` when there is none, or the rank is not in it.
    pub fn group(&self, ranks: &[u32], rank: u32) -> Result<(GroupId, usize), Diagnostic> {
        match (self.group_numbers.get(ranks), ranks.iter().position(|r| *r == rank)) {
            (Some(&number), Some(me)) => Ok((GroupId(number), me)),
            _ => Err(Diagnostic::input("E0602", format!("this plan is inconsistent: rank {rank} is in no group {ranks:?}"))),
        }
    }
}

fn inconsistent(what: String, source: &str) -> ir::Diagnostics {
    Diagnostic::input("E0602", format!("this plan is inconsistent: {what}")).with_note(format!("in {source}")).with_help("compile the model again").into()
}
