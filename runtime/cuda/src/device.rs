//! A rank's device: compute instructions begun on the rank's stream, in the order of the program.
//!
//! Kernels and most library ops are the plan's launches, products cuBLASLt's, copies and fills the driver's or kernels of our own. What is left is done by the processor's
//! routines: its buffers are copied to the same offsets of a mirror, and what was written is copied back.

use crate::driver::{Address, Function, Prepared, Shape};
use crate::kernels::{self, Kernel};
use crate::lane::{Lane, Work};
use crate::machine::{Machine, WORKSPACE};
use crate::product;
use crate::runs::{Call, Resolved};
use ir::op::OpKind;
use ir::program::{Instruction, InstructionKind, Phase, Program};
use ir::{Diagnostic, Diagnostics, Result};
use runtime::arena::{Arena, Place};
use runtime::device::cpu::calls::{Calls, Kernels};
use runtime::device::launches::{Launches, SCRATCH_ALIGNMENT, Started};
use runtime::device::operands::Linear;
use runtime::device::{Device, Position, Region, Seat};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

/// Pinned memory through which arguments and results go.
const STAGING: usize = 4 << 20;

/// An address as the runtime's seams carry it.
pub(crate) fn pointer(address: Address) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}
/// The address that [`pointer`] was made of.
pub(crate) fn address(pointer: *mut u8) -> Address {
    pointer.expose_provenance() as u64
}

/// A prepared instruction.
enum Action {
    /// A send, receive or collective.
    Elsewhere,
    /// The plan's launches.
    Launch(Vec<(Function, Shape)>),
    /// A matrix product: the plan's places of A, B and C, and where its calls begin in them, in bytes.
    Product { prepared: Prepared, swapped: bool, places: [Place; 3], offsets: Vec<[u64; 3]> },
    /// A copy by a kernel, or as one run of bytes.
    Copy { kernel: Option<Kernel>, elements: u64, bytes: u64, from: (Place, Linear), to: (Place, Linear) },
    /// Bytes set alike.
    Set { to: Place, byte: u8 },
    /// Elements set alike.
    Fill { to: Place, kernel: Kernel },
    /// The host's routine: buffers that are read, and those that are written.
    Host { reads: Vec<Place>, writes: Vec<Place> },
}

/// One rank on its card.
pub struct CudaDevice {
    machine: Arc<Machine>,
    rank: u32,
    arena: Address,
    bytes: usize,
    launches: Launches,
    actions: [Vec<Action>; 4],
    /// What each instruction touches.
    touched: [Vec<Vec<Place>>; 4],
    calls: Calls,
    mirror: Option<Arena>,
    staging: *mut u8,
    scratch: Address,
    scratch_bytes: usize,
    workspace: (Address, usize),
    /// What each instruction is in the lane's runs, by microbatch; none before it came.
    numbers: [Vec<Vec<Option<u32>>>; 4],
}

// SAFETY: the pinned memory is this device's alone.
unsafe impl Send for CudaDevice {}

impl CudaDevice {
    /// Prepares every instruction of a rank.
    ///
    /// # Errors
    /// Everything it cannot do, named all at once.
    pub fn new(machine: Arc<Machine>, program: &Program, seat: &Seat) -> Result<CudaDevice> {
        let kernels = &machine.plan.kernels;
        let launches = Launches::new(program, kernels, machine.code(), seat)?;
        let calls = Calls::new(program, kernels, Kernels::Elsewhere(&launches), seat);
        let collectives = Machine::collectives(program, seat);
        let (calls, mut own) = match (calls, collectives) {
            (Ok(c), Ok(k)) => (c, k),
            (c, k) => return Err(Diagnostics(c.err().into_iter().chain(k.err()).flat_map(|d| d.0).collect())),
        };
        let lane = machine.lane(seat.rank);
        let mut maker = Maker { machine: &machine, lane: &lane, program, seat, launches: &launches, own: &mut own, products: HashMap::new(), host: Vec::new() };
        let mut actions = [const { Vec::new() }; 4];
        for phase in Phase::ALL {
            for (i, instruction) in program.phase(phase).iter().enumerate() {
                let position = Position { phase, instruction: i as u32, microbatch: 0 };
                actions[phase as usize].push(maker.action(position, instruction)?);
            }
        }
        let (host, has_products) = (maker.host, !maker.products.is_empty());
        if seat.device == 0 {
            let mut on_host = machine.on_host.lock().unwrap_or_else(PoisonError::into_inner);
            host.iter().for_each(|name| *on_host.entry(name.clone()).or_default() += 1);
        }
        let mut distinct: Vec<Kernel> = Vec::new();
        own.into_iter().for_each(|k| {
            if !distinct.contains(&k) {
                distinct.push(k);
            }
        });
        if !distinct.is_empty() {
            let module = lane.check(lane.driver.load(&kernels::module(&distinct)))?;
            let mut table = machine.own[seat.rank as usize].write().unwrap_or_else(PoisonError::into_inner);
            for (i, kernel) in distinct.into_iter().enumerate() {
                let function = lane.check(lane.driver.function(module, &format!("k{i}"), 0))?;
                table.insert(kernel, function);
            }
        }
        let scratch_bytes = launches.scratch().next_multiple_of(SCRATCH_ALIGNMENT);
        let scratch = if scratch_bytes > 0 { lane.check(lane.driver.allocate(scratch_bytes))? } else { 0 };
        let workspace = if has_products { (lane.check(lane.driver.allocate(WORKSPACE))?, WORKSPACE) } else { (0, 0) };
        let staging = lane.check(lane.driver.pinned(STAGING))?;
        let touched = program.phases.each_ref().map(|list| {
            let places = |i: &Instruction| Place::all(program, &i.reads).into_iter().chain(Place::all(program, &i.writes)).collect();
            list.iter().map(places).collect()
        });
        // Pages of the mirror that no host routine uses are never touched, so they take no memory.
        let mirror = if host.is_empty() { None } else { Some(Arena::new(program.arena)?) };
        let (arena, bytes, rank) = (lane.arena, lane.bytes, seat.rank);
        drop(lane);
        let numbers = program.phases.each_ref().map(|list| vec![Vec::new(); list.len()]);
        Ok(CudaDevice { machine, rank, arena, bytes, launches, actions, touched, calls, mirror, staging, scratch, scratch_bytes, workspace, numbers })
    }

    /// Begins an instruction, or tells it to be begun with others.
    fn begin(&mut self, position: Position) -> Result<(), Diagnostic> {
        let (phase, number, m) = (position.phase as usize, position.instruction as usize, position.microbatch);
        let machine = self.machine.clone();
        let mut lane = machine.lane(self.rank);
        match &self.actions[phase][number] {
            Action::Elsewhere => Ok(()),
            Action::Host { reads, writes } => {
                lane.flush()?;
                for place in &self.touched[phase][number] {
                    lane.before(Work::Compute, self.arena + place.offset(m) as u64, place.bytes())?;
                }
                let stream = lane.stream(Work::Compute);
                let at = |place: &Place| self.arena + place.offset(m) as u64;
                let mirror = self.mirror.as_ref().expect("invariant: there is a mirror where the host computes");
                // SAFETY: places lie in the arena and the mirror alike; what communication has under way in these bytes was waited for.
                unsafe {
                    // A routine may leave parts of what it writes as they were.
                    for place in reads.iter().chain(writes) {
                        lane.check(lane.driver.download(stream, at(place), mirror.base().add(place.offset(m)), place.bytes()))?;
                    }
                    lane.check(lane.driver.synchronize(stream))?;
                    self.calls.execute(mirror.base(), position);
                    for place in writes {
                        lane.check(lane.driver.upload(stream, mirror.base().add(place.offset(m)), at(place), place.bytes()))?;
                    }
                }
                // The mirror's bytes may be another instruction's next.
                lane.check(lane.driver.synchronize(stream))
            }
            _ => {
                let known = self.numbers[phase][number].get(m as usize).copied().flatten();
                let resolved = match known {
                    Some(resolved) => resolved,
                    None => {
                        let resolved = lane.runs.number(self.resolve(position));
                        let numbers = &mut self.numbers[phase][number];
                        numbers.resize(numbers.len().max(m as usize + 1), None);
                        numbers[m as usize] = Some(resolved);
                        resolved
                    }
                };
                lane.compute(resolved)
            }
        }
    }

    /// The calls of an instruction for a microbatch. Places lie in the arena and extents were checked when the processor's calls were prepared from the same
    /// instructions, so the calls stay inside it.
    pub(crate) fn resolve(&self, position: Position) -> Resolved {
        let (phase, number, m) = (position.phase as usize, position.instruction as usize, position.microbatch);
        let at = |place: &Place| self.arena + place.offset(m) as u64;
        let calls = match &self.actions[phase][number] {
            Action::Elsewhere | Action::Host { .. } => Vec::new(),
            Action::Launch(entries) => {
                let started = self.launches.at(position).expect("invariant: it is started");
                let call = |(launch, (function, shape)): (_, &(Function, Shape))| {
                    let mut parameters = Vec::new();
                    started.parameters(launch, self.arena, self.scratch, m, &mut parameters);
                    Call::Launch { function: *function, shape: *shape, parameters }
                };
                started.launches.iter().zip(entries).map(call).collect()
            }
            Action::Product { prepared, swapped, places, offsets } => {
                let call = |o: &[u64; 3]| {
                    let [a, b, c] = [0, 1, 2].map(|i| at(&places[i]) + o[i]);
                    let (a, b) = if *swapped { (b, a) } else { (a, b) };
                    Call::Multiply { product: *prepared, abc: [a, b, c], workspace: self.workspace }
                };
                offsets.iter().map(call).collect()
            }
            Action::Copy { elements: 0, .. } => Vec::new(),
            Action::Copy { kernel, elements, bytes, from, to } => {
                let begin = |(place, offset): &(Place, Linear)| at(place).wrapping_add_signed(offset.at(m) * *bytes as i64);
                let (from, to) = (begin(from), begin(to));
                vec![match kernel {
                    Some(kernel) => self.machine.own_call(self.rank, kernel, [from, to].into_iter(), (0, *elements)),
                    None => Call::Copy { from, to, bytes: (elements * bytes) as usize },
                }]
            }
            Action::Set { to, byte } => vec![Call::Set { to: at(to), byte: *byte, bytes: to.bytes() }],
            Action::Fill { to, kernel } => vec![self.machine.own_call(self.rank, kernel, [at(to)].into_iter(), (0, kernel.elements()))],
        };
        let touched = self.touched[phase][number].iter().map(|p| (at(p), p.bytes())).collect();
        Resolved { calls, touched }
    }

    /// Copies between the host and the arena, piece by piece through pinned memory.
    fn pieces(&self, offset: usize, bytes: usize, mut piece: impl FnMut(&Lane, Address, usize, usize) -> Result<(), Diagnostic>) {
        assert!(offset + bytes <= self.bytes, "invariant: buffers lie inside the arena");
        let mut lane = self.machine.lane(self.rank);
        // These calls have no other way to tell of a failure.
        let fail = |d: Diagnostic| -> () { panic!("{}", d.message) };
        // In the middle of a step others may have these bytes under way.
        if let Err(d) = lane.flush().and_then(|()| lane.before(Work::Compute, self.arena + offset as u64, bytes)) {
            return fail(d);
        }
        let mut done = 0;
        while done < bytes {
            let n = STAGING.min(bytes - done);
            if let Err(d) = piece(&lane, self.arena + (offset + done) as u64, done, n) {
                return fail(d);
            }
            done += n;
        }
    }
}

impl Device for CudaDevice {
    fn arena(&self) -> Region {
        Region { address: pointer(self.arena), bytes: self.bytes }
    }

    fn execute(&mut self, position: Position) -> Result<()> {
        Ok(self.begin(position)?)
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let staging = self.staging;
        self.pieces(offset, bytes.len(), |lane, to, done, n| {
            let stream = lane.stream(Work::Compute);
            // SAFETY: the pinned memory is this device's, as long as a piece, and the copy from it is waited for before it is used again.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes[done..done + n].as_ptr(), staging, n);
                lane.check(lane.driver.upload(stream, staging, to, n))?;
            }
            lane.check(lane.driver.synchronize(stream))
        });
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        let staging = self.staging;
        self.pieces(offset, bytes.len(), |lane, from, done, n| {
            let stream = lane.stream(Work::Compute);
            // SAFETY: as above, and what is read from the pinned memory was copied there.
            unsafe {
                lane.check(lane.driver.download(stream, from, staging, n))?;
                lane.check(lane.driver.synchronize(stream))?;
                std::ptr::copy_nonoverlapping(staging, bytes[done..done + n].as_mut_ptr(), n);
            }
            Ok(())
        });
    }

    fn scratch_bytes(&self) -> usize {
        self.calls.scratch_bytes() + self.scratch_bytes + self.workspace.1 + STAGING
    }
}

/// Prepares the instructions of a rank.
struct Maker<'a> {
    machine: &'a Machine,
    lane: &'a Lane,
    program: &'a Program,
    seat: &'a Seat,
    launches: &'a Launches,
    /// Kernels of the runtime's own that are needed.
    own: &'a mut Vec<Kernel>,
    products: HashMap<(product::Product, u32), Prepared>,
    /// Names of what the host does.
    host: Vec<String>,
}

impl Maker<'_> {
    fn place(&self, list: &[ir::program::BufferId], i: usize) -> Place {
        Place::of(&self.program.buffers[list[i]])
    }

    /// The functions that an instruction starts.
    fn functions(&self, started: &Started, instruction: &Instruction) -> Result<Action, Diagnostic> {
        let module = self.machine.module(self.seat.rank);
        let mut entries = Vec::new();
        for l in started.launches.iter() {
            let function = self.lane.driver.function(module, &l.entry, l.shared);
            let function = function.map_err(|f| crate::lane::failed(self.seat.rank, &f).with_note(format!("it computes {}", instruction.source)))?;
            entries.push((function, Shape { grid: l.grid, block: l.block, shared: l.shared }));
        }
        Ok(Action::Launch(entries))
    }

    fn action(&mut self, position: Position, instruction: &Instruction) -> Result<Action, Diagnostic> {
        if let Some(started) = self.launches.at(position) {
            return self.functions(started, instruction);
        }
        match &instruction.kind {
            InstructionKind::Send { .. } | InstructionKind::Receive { .. } | InstructionKind::Collective { .. } => Ok(Action::Elsewhere),
            InstructionKind::Kernel { .. } => unreachable!("invariant: a kernel is started"),
            InstructionKind::MatMul(description) => {
                let Ok(calls) = product::Calls::of(description) else { return Ok(self.host("matmul", instruction)) };
                let alignment = calls.alignment();
                let key = (calls.product.clone(), alignment);
                let prepared = match self.products.get(&key) {
                    Some(prepared) => *prepared,
                    None => match self.lane.driver.product(&calls.product, self.machine.settings.tf32, alignment, WORKSPACE) {
                        Ok(prepared) => *self.products.entry(key).or_insert(prepared),
                        Err(f) if f.reason.contains("NOT_SUPPORTED") => return Ok(self.host("matmul", instruction)),
                        Err(f) => return Err(crate::lane::failed(self.seat.rank, &f).with_note(format!("in {}", instruction.source))),
                    },
                };
                let places = [self.place(&instruction.reads, 0), self.place(&instruction.reads, 1), self.place(&instruction.writes, 0)];
                let (d, r) = (description.dtype.bytes(), description.result.bytes());
                let offsets = calls.offsets.iter().map(|o| [o[0] * d, o[1] * d, o[2] * r]).collect();
                Ok(Action::Product { prepared, swapped: calls.swapped, places, offsets })
            }
            InstructionKind::Copy { shape, from, to } => {
                let bytes = self.program.buffers[instruction.reads[0]].ty.dtype.bytes();
                let loops = |strides: &[i64]| kernels::merged(&shape.iter().copied().zip(strides.iter().copied()).collect::<Vec<_>>());
                let (give, take, elements) = (loops(&from.strides), loops(&to.strides), shape.iter().product());
                let kernel = Kernel { work: kernels::Work::Move(bytes as u32), sources: 1, targets: 1, from: give, to: take };
                let kernel = if elements == 0 || kernels::is_run(&kernel.from) && kernels::is_run(&kernel.to) {
                    None
                } else if kernel.entry("k").is_none() {
                    return Ok(self.host("copy", instruction));
                } else {
                    self.own.push(kernel.clone());
                    Some(kernel)
                };
                let end = |b: &ir::program::Block, place| (place, Linear::new(&b.offset, self.seat));
                let (source, target) = (self.place(&instruction.reads, 0), self.place(&instruction.writes, 0));
                Ok(Action::Copy { kernel, elements, bytes, from: end(from, source), to: end(to, target) })
            }
            InstructionKind::Fill { element } => {
                let to = self.place(&instruction.writes, 0);
                if element.iter().all(|b| *b == element[0]) {
                    return Ok(Action::Set { to, byte: element[0] });
                }
                let bits = element.iter().rev().take(8).fold(0u64, |bits, b| bits << 8 | u64::from(*b));
                let elements = (to.bytes() / element.len()) as u64;
                let kernel = Kernel { work: kernels::Work::Fill(element.len() as u32, bits), sources: 0, targets: 1, from: vec![], to: vec![(elements, 1)] };
                if kernel.entry("k").is_none() {
                    return Ok(self.host("fill", instruction));
                }
                self.own.push(kernel.clone());
                Ok(Action::Fill { to, kernel })
            }
            InstructionKind::Library { op, .. } => Ok(self.host(&name(op), instruction)),
        }
    }

    /// Leaves an instruction to the host.
    fn host(&mut self, name: &str, instruction: &Instruction) -> Action {
        self.host.push(name.into());
        Action::Host { reads: Place::all(self.program, &instruction.reads), writes: Place::all(self.program, &instruction.writes) }
    }
}

/// The op's name in messages.
fn name(op: &OpKind) -> String {
    let text = format!("{op:?}");
    let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let mut name = String::new();
    for (i, c) in word.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            name.push('_');
        }
        name.extend(c.to_lowercase());
    }
    name
}
