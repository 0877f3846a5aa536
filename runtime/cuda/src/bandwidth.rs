//! What a plan's kernels move a second on a card, beside a copy within the card's memory.
//!
//! Each kernel runs alone between two timed events, with other bytes written to memory before so that nothing of its own lies in the cache. Its bytes are those
//! of its buffers, each moved once, so a kernel that reads a buffer twice from memory shows as slow and not as fast.

use crate::device::CudaDevice;
use crate::driver::{Driver, Event, Failure, Stream};
use crate::lane::{Work, failed};
use crate::machine::{Machine, Settings};
use crate::runs::Call;
use ir::Result;
use ir::plan::Plan;
use ir::program::{InstructionKind, KernelId, Phase};
use runtime::device::{Position, Seat};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes that are copied, and that are written to clear the cache; more than any card's cache holds.
pub const CLEARED: usize = 256 << 20;

/// A kernel that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The kernel.
    pub kernel: KernelId,
    /// What it computes where it is used first.
    pub source: String,
    /// Instructions of the program that start it.
    pub runs: usize,
    /// Bytes of its buffers.
    pub bytes: u64,
    /// The median time of one run.
    pub seconds: f64,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The card's name.
    pub card: String,
    /// Bytes that a copy within its memory reads and writes, and its median time.
    pub copy: (u64, f64),
    /// Every kernel of the first stage's program.
    pub rows: Vec<Row>,
}

/// Measures the kernels of a plan's first stage on a card; `repeats` times each, with `cleared` bytes written in between.
///
/// # Errors
/// What opening the plan there refuses, and `E0674` when the card fails.
pub fn measure(plan: &Arc<Plan>, card: &Arc<dyn Driver>, repeats: usize, cleared: usize) -> Result<Report> {
    let machine = Machine::new(plan, vec![card.clone()], Settings { graphs: false, ..Settings::default() })?;
    let program = &plan.programs[0];
    let seat = Seat::new(program, 0, plan.schedule.microbatches.max(1));
    let device = CudaDevice::new(machine.clone(), program, &seat)?;
    let stream = machine.lane(seat.rank).stream(Work::Compute);
    let wrong = |f: Failure| failed(seat.rank, &f);
    let place = || Ok::<_, Failure>([card.allocate(cleared)?, card.allocate(cleared)?]);
    let [from, to] = place().map_err(wrong)?;
    let events = [card.timer().map_err(wrong)?, card.timer().map_err(wrong)?];
    let timed = |calls: &[Call]| timed(&**card, stream, events, calls, repeats, Call::Set { to, byte: 1, bytes: cleared }).map_err(wrong);
    let copy = (2 * cleared as u64, timed(&[Call::Copy { from, to, bytes: cleared }])?);
    let mut rows: BTreeMap<KernelId, Row> = BTreeMap::new();
    for phase in Phase::ALL {
        for (i, instruction) in program.phase(phase).iter().enumerate() {
            let InstructionKind::Kernel { kernel, .. } = instruction.kind else { continue };
            if let Some(row) = rows.get_mut(&kernel) {
                row.runs += 1;
                continue;
            }
            let calls = device.resolve(Position { phase, instruction: i as u32, microbatch: 0 }).calls;
            let (source, bytes) = (instruction.source.clone(), instruction.bytes.0);
            rows.insert(kernel, Row { kernel, source, runs: 1, bytes, seconds: timed(&calls)? });
        }
    }
    Ok(Report { card: card.card().name.clone(), copy, rows: rows.into_values().collect() })
}

/// The median time of some calls, in seconds.
fn timed(card: &dyn Driver, stream: Stream, [begin, end]: [Event; 2], calls: &[Call], repeats: usize, clear: Call) -> Result<f64, Failure> {
    let mut times = Vec::new();
    // The first time loads code.
    for round in 0..=repeats.max(1) {
        // SAFETY: the memory that is cleared is the caller's, and nothing else runs on the card's stream.
        unsafe {
            clear.begin(card, stream)?;
            card.record(stream, begin)?;
            for call in calls {
                call.begin(card, stream)?;
            }
            card.record(stream, end)?;
        }
        card.synchronize(stream)?;
        if round > 0 {
            times.push(card.seconds(begin, end)?);
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
