//! Who makes, reads and sends each value of a local graph, found once: lowering asks for every value, and a search through all units each time
//! would make it quadratic.
//!
//! Units are named by their place in execution order. Invariant: every list is ascending.

use crate::kernels::classify::Classes;
use crate::kernels::units::{Unit, alias_of};
use crate::spmd::local::{LocalGraph, Sink, Source};
use ir::program::Phase;
use ir::{SecondaryMap, ValueId};
use std::collections::BTreeSet;

/// The uses of all values.
pub(super) struct Uses {
    /// The unit that stores a value.
    writer: SecondaryMap<ValueId, Option<u32>>,
    /// The units that read it.
    readers: SecondaryMap<ValueId, Vec<u32>>,
    /// The phases of those units, as bits.
    phases: SecondaryMap<ValueId, u8>,
    /// Its place among the graph's inputs.
    input: SecondaryMap<ValueId, Option<u32>>,
    /// Outputs whose memory is this value's.
    outputs: SecondaryMap<ValueId, Vec<u32>>,
}

impl Uses {
    pub(super) fn new(local: &LocalGraph, classes: &Classes, units: &[Unit]) -> Uses {
        let mut uses = Uses {
            writer: SecondaryMap::new(),
            readers: SecondaryMap::new(),
            phases: SecondaryMap::new(),
            input: SecondaryMap::new(),
            outputs: SecondaryMap::new(),
        };
        for (u, unit) in (0..).zip(units) {
            for &v in &unit.writes {
                uses.writer[v].get_or_insert(u);
            }
            for &v in &unit.reads {
                uses.readers[v].push(u);
                uses.phases[v] |= bit(unit.phase);
            }
        }
        for (i, &v) in (0..).zip(&local.graph.inputs) {
            uses.input[v].get_or_insert(i);
        }
        for (o, &v) in (0..).zip(&local.graph.outputs) {
            uses.outputs[alias_of(local, classes, v).unwrap_or(v)].push(o);
        }
        uses
    }

    pub(super) fn writer(&self, v: ValueId) -> Option<usize> {
        self.writer[v].map(|u| u as usize)
    }
    pub(super) fn readers(&self, v: ValueId) -> impl Iterator<Item = usize> {
        self.readers[v].iter().map(|&u| u as usize)
    }
    pub(super) fn read_in(&self, v: ValueId, phase: Phase) -> bool {
        self.phases[v] & bit(phase) != 0
    }
    pub(super) fn read_outside(&self, v: ValueId, phase: Phase) -> bool {
        self.phases[v] & !bit(phase) != 0
    }
    pub(super) fn input(&self, v: ValueId) -> Option<usize> {
        self.input[v].map(|i| i as usize)
    }
    pub(super) fn outputs(&self, v: ValueId) -> &[u32] {
        &self.outputs[v]
    }
}

fn bit(phase: Phase) -> u8 {
    1 << phase as u8
}

/// Inputs that come from other stages and were not yet received.
pub(super) struct Pending {
    waiting: BTreeSet<usize>,
    /// What belongs to an earlier phase was received.
    since: Option<Phase>,
}

impl Pending {
    pub(super) fn new(local: &LocalGraph) -> Pending {
        let received = |i: &usize| matches!(local.inputs[*i].source, Source::Received { .. });
        Pending { waiting: (0..local.inputs.len()).filter(received).collect(), since: None }
    }

    /// Takes, in order, what a reader of `reads` in phase `now` waits for: what it reads, and all of earlier phases.
    pub(super) fn take(&mut self, local: &LocalGraph, uses: &Uses, reads: &[ValueId], now: Phase) -> Vec<usize> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let mut due: BTreeSet<usize> = reads.iter().filter_map(|&v| uses.input(v)).filter(|i| self.waiting.contains(i)).collect();
        if self.since.is_none_or(|since| since < now) {
            let earlier = |i: &usize| matches!(local.inputs[*i].source, Source::Received { phase, .. } if phase < now);
            due.extend(self.waiting.iter().copied().filter(earlier));
            self.since = Some(now);
        }
        due.iter().for_each(|i| {
            self.waiting.remove(i);
        });
        due.into_iter().collect()
    }
}

/// Where an output is sent, when it is.
pub(super) fn sent(local: &LocalGraph, output: u32) -> Option<(ir::program::StageId, u32, Phase)> {
    match local.outputs[output as usize] {
        Sink::Sent { to, channel, phase } => Some((to, channel, phase)),
        Sink::Result { .. } => None,
    }
}
