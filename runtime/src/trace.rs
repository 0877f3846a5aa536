//! What happened when, for Perfetto and `chrome://tracing`.
//!
//! Off unless asked for: a worker without a recorder does not even read the clock. With one, every instruction is an event; the file has a process per rank
//! with a track for compute and one for communication, an arrow from each send to its receive, and a counter of live bytes after each step of the schedule.

use crate::device::Position;
use crate::transport::place::action_name;
use ir::plan::Plan;
use ir::program::Phase;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// Which track an event is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// Kernels, products, library ops, copies.
    Compute,
    /// Messages and collectives.
    Communication,
}

/// One event of a rank.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Event {
    /// An instruction.
    Span {
        /// Which.
        position: Position,
        /// Its track.
        stream: Stream,
        /// For messages the link and the other rank.
        message: Option<(u32, u32)>,
        /// Nanoseconds from the session's start.
        start: u64,
        /// Nanoseconds from the session's start.
        end: u64,
    },
    /// The end of a step of the schedule.
    Moment {
        /// Which step.
        number: u32,
        /// Nanoseconds from the session's start.
        at: u64,
    },
}

/// Records one rank's events.
#[derive(Clone, Debug)]
pub struct Recorder {
    origin: Instant,
    /// The events so far.
    pub events: Vec<Event>,
}

impl Recorder {
    /// A recorder whose clock starts at `origin`.
    pub fn new(origin: Instant) -> Recorder {
        Recorder { origin, events: Vec::new() }
    }
    /// Nanoseconds since the origin.
    pub fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }
    /// Records an instruction that began at `start` and ends now.
    pub fn record(&mut self, position: Position, stream: Stream, message: Option<(u32, u32)>, start: u64) {
        let end = self.now();
        self.events.push(Event::Span { position, stream, message, start, end });
    }
    /// Records the end of a step of the schedule.
    pub fn moment(&mut self, number: u32) {
        let at = self.now();
        self.events.push(Event::Moment { number, at });
    }
}

/// All ranks' events as a trace document.
pub fn document(plan: &Plan, ranks: &[Vec<Event>]) -> Value {
    let mut events = Vec::new();
    for (rank, recorded) in ranks.iter().enumerate() {
        let Some((program, _)) = crate::worker::program_of(&plan.programs, rank as u32) else { continue };
        events.push(json!({"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": format!("rank {rank} (stage {})", program.stage)}}));
        for (tid, name) in [(0, "compute"), (1, "communication")] {
            events.push(json!({"ph": "M", "name": "thread_name", "pid": rank, "tid": tid, "args": {"name": name}}));
        }
        let timeline = plan.stages.get(program.stage.0 as usize).map(|s| s.memory.timeline.as_slice()).unwrap_or_default();
        let mut sequence: BTreeMap<u32, u64> = BTreeMap::new();
        for event in recorded {
            match *event {
                Event::Span { position, stream, message, start, end } => {
                    let Some(i) = program.phase(position.phase).get(position.instruction as usize) else { continue };
                    let tid = u32::from(stream == Stream::Communication);
                    events.push(json!({
                        "ph": "X", "pid": rank, "tid": tid, "ts": micro(start), "dur": micro(end - start), "cat": phase_name(position.phase),
                        "name": format!("{} {}", action_name(&i.kind), i.source),
                        "args": {"microbatch": position.microbatch, "phase": phase_name(position.phase), "flops": i.flops.0, "bytes": i.bytes.0, "predicted_us": i.seconds.0 * 1e6},
                    }));
                    if let Some((link, _)) = message {
                        let number = sequence.entry(link).or_default();
                        let sends = matches!(i.kind, ir::program::InstructionKind::Send { .. });
                        let mut arrow = json!({
                            "ph": if sends { "s" } else { "f" }, "pid": rank, "tid": tid, "cat": "message", "name": "message",
                            "ts": micro(if sends { start } else { end.saturating_sub(1).max(start) }), "id": u64::from(link) << 32 | *number,
                        });
                        if !sends {
                            arrow["bp"] = json!("e");
                        }
                        events.push(arrow);
                        *number += 1;
                    }
                }
                Event::Moment { number, at } => {
                    if let Some((_, bytes)) = timeline.get(number as usize) {
                        events.push(json!({"ph": "C", "pid": rank, "name": "live bytes", "ts": micro(at), "args": {"bytes": bytes.0}}));
                    }
                }
            }
        }
    }
    json!({"displayTimeUnit": "ms", "traceEvents": events})
}

fn micro(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Before => "before",
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        Phase::After => "after",
    }
}
