//! The cards of this process with its ranks on them: what is checked before anything runs, and what moves data between arenas.
//!
//! Ranks lie on cards in runs of equal length. Ranks of one card reach each other's arenas directly; so do those of several cards, which were found to have
//! access to each other. A collective is then one kernel per rank, for its share of the elements, in the order of the members, as on the processor.

use crate::communicate::{self, Collectives};
use crate::device::{self, CudaDevice};
use crate::driver::{Address, Communicator, Driver, Event, Failure, Function, GroupName, Module, Shape};
use crate::kernels::{self, Kernel, Loops, THREADS};
use crate::lane::{Lane, Marks, Work, failed};
use crate::runs::Call;
use ir::plan::{Code, Plan};
use ir::program::{CollectiveKind, InstructionKind, Program};
use ir::{Bytes, Diagnostic, Result};
use runtime::device::{Device, Region, Seat};
use runtime::transport::Fabric;
use runtime::transport::collective::{Collective, Exchange};
use runtime::transport::local::Hub;
use runtime::transport::mover::{Mark, Mover};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Memory that a matrix product may use beside its operands.
pub const WORKSPACE: usize = 32 << 20;
/// What CUDA itself takes of a card beside what is allocated: its context, modules, and the library's.
const RESERVE: u64 = 512 << 20;

/// How a plan is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Let products of f32 round their operands to TF32's ten bits.
    pub tf32: bool,
    /// Begin what repeats as CUDA graphs.
    pub graphs: bool,
    /// What does collectives.
    pub collectives: Collectives,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { tf32: false, graphs: true, collectives: Collectives::Auto }
    }
}

/// A plan on its cards.
pub struct Machine {
    pub(crate) plan: Arc<Plan>,
    code: usize,
    pub(crate) settings: Settings,
    cards: Vec<Arc<dyn Driver>>,
    /// The plan's module, by card.
    modules: Vec<Module>,
    lanes: Vec<Mutex<Lane>>,
    /// Whether NCCL does the collectives that it takes.
    nccl: bool,
    /// Names of the groups, by their members' arenas, and who has joined them.
    names: Mutex<HashMap<Vec<usize>, GroupName>>,
    joined: Mutex<HashMap<(Vec<usize>, usize), Communicator>>,
    /// The kernels of collectives and copies, by rank.
    pub(crate) own: Vec<RwLock<HashMap<Kernel, Function>>>,
    /// Names of ops that the host does, with how many instructions.
    pub(crate) on_host: Mutex<BTreeMap<String, usize>>,
}

impl Machine {
    /// Puts a plan's ranks on cards and allocates their arenas.
    ///
    /// # Errors
    /// `E0607` code for another device, `E0609` no code, `E0671` a driver and `E0672` a card that is too old for it, `E0673` too little memory,
    /// `E0674` when the card fails.
    pub fn new(plan: &Arc<Plan>, cards: Vec<Arc<dyn Driver>>, settings: Settings) -> Result<Arc<Machine>> {
        let Some(code) = plan.code.iter().position(|c| c.target == "cuda") else {
            return Err(match plan.code.first() {
                Some(other) => Diagnostic::outcome("E0607", format!("this plan's code is for {} ({}) and the device is a GPU", other.target, other.level))
                    .with_help("compile the model again with `--target cuda:sm_80`, or the level of your card"),
                None => Diagnostic::outcome("E0609", "this plan was made without code").with_help("compile the model again without `--no-code`"),
            }
            .into());
        };
        let text = std::str::from_utf8(&plan.code[code].object)
            .map_err(|_| Diagnostic::input("E0602", "this plan is inconsistent: its code is no text of PTX").with_help("compile the model again"))?;
        let ranks = plan.ranks();
        let on = |rank: u32| card_of(rank, ranks, cards.len());
        for card in &cards {
            suits(&plan.code[code], text, &**card)?;
        }
        let nccl = exchanges(settings.collectives, ranks, &cards)?;
        let program = |rank| runtime::worker::program_of(&plan.programs, rank).expect("invariant: every rank has a program").0;
        for (i, card) in cards.iter().enumerate() {
            let arenas: Vec<u64> = (0..ranks).filter(|r| on(*r) == i).map(|r| program(r).arena.0).collect();
            fits(&arenas, &**card)?;
        }
        let refused = |f: Failure| failed(0, &f);
        let modules = cards.iter().map(|c| c.load(text)).collect::<Result<Vec<_>, _>>().map_err(refused)?;
        let marks: Marks = (0..ranks).map(|_| RwLock::<Vec<Event>>::default()).collect();
        let lane = |r| Ok(Mutex::new(Lane::new(r, cards[on(r)].clone(), program(r).arena.0 as usize, marks.clone(), settings.graphs)?));
        let lanes = (0..ranks).map(lane).collect::<Result<_, Diagnostic>>()?;
        let own = (0..ranks).map(|_| RwLock::default()).collect();
        Ok(Arc::new(Machine {
            plan: plan.clone(),
            code,
            settings,
            cards,
            modules,
            lanes,
            nccl,
            names: Mutex::default(),
            joined: Mutex::default(),
            own,
            on_host: Mutex::default(),
        }))
    }

    /// What connects the ranks.
    ///
    /// # Errors
    /// When the plan contradicts itself, or there is no memory for messages that wait.
    pub fn fabric(self: &Arc<Self>, timeout: std::time::Duration) -> Result<Arc<dyn Fabric>> {
        let plan = &self.plan;
        let mover: Arc<dyn Mover> = self.clone();
        Ok(Hub::with(plan.programs.clone().into(), plan.schedule.kind, plan.schedule.microbatches.max(1), timeout, mover)?)
    }

    /// A device for a rank.
    ///
    /// # Errors
    /// Everything it cannot do, named all at once.
    pub fn device(self: &Arc<Self>, program: &Program, seat: &Seat) -> Result<Box<dyn Device>> {
        Ok(Box::new(CudaDevice::new(self.clone(), program, seat)?))
    }

    /// What is worth saying when all devices are made.
    pub fn notes(&self) -> Vec<Diagnostic> {
        let on_host = self.on_host.lock().unwrap_or_else(PoisonError::into_inner);
        if on_host.is_empty() {
            return Vec::new();
        }
        let ops: Vec<String> = on_host.iter().map(|(name, n)| format!("{name} ({n})")).collect();
        let d = Diagnostic::warning("W0677", format!("these instructions are done by the host, with copies from and to the GPU: {}", ops.join(", ")));
        vec![d.with_note("results are the same; each waits for the GPU, so steps take much longer than the plan predicts")]
    }

    pub(crate) fn code(&self) -> &Code {
        &self.plan.code[self.code]
    }
    pub(crate) fn lane(&self, rank: u32) -> MutexGuard<'_, Lane> {
        self.lanes[rank as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The plan's module on a rank's card.
    pub(crate) fn module(&self, rank: u32) -> Module {
        self.modules[card_of(rank, self.plan.ranks(), self.cards.len())]
    }

    /// Member `me`'s communicator of the group whose arenas are these; all members call it at the same time where it is not yet there.
    fn communicator(&self, lane: &Lane, bases: &[*mut u8], me: usize) -> Result<Communicator, Diagnostic> {
        let key: Vec<usize> = bases.iter().map(|b| b.addr()).collect();
        let of = (key.clone(), me);
        let known = self.joined.lock().unwrap_or_else(PoisonError::into_inner).get(&of).copied();
        if let Some(communicator) = known {
            return Ok(communicator);
        }
        let name = {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            match names.get(&key) {
                Some(name) => *name,
                None => *names.entry(key).or_insert(lane.check(lane.driver.name_group())?),
            }
        };
        let communicator = lane.check(lane.driver.join(&name, bases.len() as u32, me as u32))?;
        self.joined.lock().unwrap_or_else(PoisonError::into_inner).insert(of, communicator);
        Ok(communicator)
    }

    /// The kernels that the collectives of a program need.
    ///
    /// # Errors
    /// What cannot be combined on a GPU.
    pub(crate) fn collectives(program: &Program, seat: &Seat) -> Result<Vec<Kernel>> {
        let (mut out, mut refused) = (Vec::new(), Vec::new());
        for i in program.phases.iter().flatten() {
            let InstructionKind::Collective { kind, axes, reducer, dtype, segments } = &i.kind else { continue };
            let members = seat.group(&program.mesh, program.first_rank, axes).len();
            match Collective::new(program, members, *kind, *reducer, *dtype, segments, &i.source) {
                Ok(c) => {
                    for kernel in c.exchanges().filter_map(|e| kernel_of(&c, &e, members)) {
                        if kernel.entry("k").is_none() {
                            let d = Diagnostic::outcome("E0676", format!("GPUs cannot combine {dtype} by {reducer:?} among {members} ranks"));
                            refused.push(d.with_note(format!("in {}", c.label)).with_help("compile with a smaller mesh, or run a plan for cpu"));
                        } else {
                            out.push(kernel);
                        }
                    }
                }
                Err(d) => refused.push(d),
            }
        }
        refused.dedup();
        if refused.is_empty() { Ok(out) } else { Err(ir::Diagnostics(refused)) }
    }

    /// Begins a kernel of the runtime's own over elements `first..last`.
    ///
    /// # Safety
    /// As [`Driver::launch`].
    pub(crate) unsafe fn start(
        &self,
        lane: &Lane,
        work: Work,
        kernel: &Kernel,
        pointers: impl Iterator<Item = Address>,
        (first, last): (u64, u64),
    ) -> Result<(), Diagnostic> {
        if first >= last {
            return Ok(());
        }
        let call = self.own_call(lane.rank, kernel, pointers, (first, last));
        // SAFETY: as the caller vouches.
        lane.check(unsafe { call.begin(&*lane.driver, lane.stream(work)) })
    }

    /// The launch of a kernel of the runtime's own over elements `first..last`, at least one.
    pub(crate) fn own_call(&self, rank: u32, kernel: &Kernel, pointers: impl Iterator<Item = Address>, (first, last): (u64, u64)) -> Call {
        let own = self.own[rank as usize].read().unwrap_or_else(PoisonError::into_inner);
        let function = *own.get(kernel).expect("invariant: kernels are loaded when the device is made");
        let shape = Shape { grid: [(last - first).div_ceil(u64::from(THREADS)) as u32, 1, 1], block: [THREADS, 1, 1], shared: 0 };
        Call::Launch { function, shape, parameters: pointers.chain([first, last]).collect() }
    }
}

/// Whether NCCL does collectives.
fn exchanges(collectives: Collectives, ranks: u32, cards: &[Arc<dyn Driver>]) -> Result<bool, Diagnostic> {
    let (apart, there) = (cards.len() >= ranks as usize, cards.iter().all(|c| c.exchanges()));
    match collectives {
        Collectives::Own => Ok(false),
        Collectives::Auto => Ok(ranks > 1 && apart && there),
        Collectives::Nccl if !apart => {
            Err(Diagnostic::input("E0409", format!("`--collectives nccl` needs a card for every rank: {ranks}, and there are {}", cards.len()))
                .with_help("leave the flag out: ranks that share a card exchange by the runtime's own kernels"))
        }
        Collectives::Nccl if !there => Err(Diagnostic::outcome(
            "E0678",
            "NCCL, which `--collectives nccl` asks for, is not installed: libnccl.so was not found",
        )
        .with_help(
            "install it (`libnccl-dev`, or `pip install nvidia-nccl-cu12` with a link libnccl.so to its libnccl.so.2) and name its folder in LD_LIBRARY_PATH",
        )),
        Collectives::Nccl => Ok(true),
    }
}

/// The card of a rank.
fn card_of(rank: u32, ranks: u32, cards: usize) -> usize {
    (rank as usize * cards / ranks.max(1) as usize).min(cards - 1)
}

fn loops(l: &[(usize, usize)]) -> Loops {
    kernels::merged(&l.iter().map(|&(n, s)| (n as u64, s as i64)).collect::<Vec<_>>())
}

/// The kernel for one buffer of a collective; none where plain copies do.
fn kernel_of(collective: &Collective, e: &Exchange, members: usize) -> Option<Kernel> {
    let (reducer, dtype) = collective.reduction();
    let (from, to) = (loops(&e.give), loops(&e.take));
    if e.elements == 0 {
        return None;
    }
    match collective.kind() {
        CollectiveKind::AllReduce => Some(Kernel { work: kernels::Work::Combine(reducer, dtype), sources: members, targets: members, from, to }),
        CollectiveKind::ReduceScatter => Some(Kernel { work: kernels::Work::Combine(reducer, dtype), sources: members, targets: 1, from, to }),
        CollectiveKind::AllGather | CollectiveKind::AllToAll if kernels::is_run(&from) && kernels::is_run(&to) => None,
        CollectiveKind::AllGather | CollectiveKind::AllToAll => {
            Some(Kernel { work: kernels::Work::Move(dtype.bytes() as u32), sources: 1, targets: 1, from, to })
        }
    }
}

/// Refuses code that the card or its driver cannot have.
fn suits(code: &Code, text: &str, card: &dyn Driver) -> Result<(), Diagnostic> {
    let card = card.card();
    let level = code.level.strip_prefix("sm_").unwrap_or(&code.level);
    let digits = level.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let needed: u32 = digits.parse().map_err(|_| Diagnostic::input("E0602", format!("this plan is inconsistent: its code is for {}", code.level)))?;
    let has = card.capability.0 * 10 + card.capability.1;
    // Code with a letter is for that level only.
    if has < needed || digits != level && has != needed {
        return Err(Diagnostic::outcome("E0672", format!("this plan's code is for {} and the GPU here, {}, is sm_{has}", code.level, card.name))
            .with_help(format!("compile the model again with `--target cuda:sm_{}`", if has >= 90 { 90 } else { 80 }))
            .with_note("code for a level serves all later ones; levels before sm_80 are not supported"));
    }
    let version = text.lines().find_map(|l| l.trim().strip_prefix(".version")).and_then(|v| {
        let (major, minor) = v.trim().split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    let newest = newest_ptx(card.version);
    if let Some(needed) = version.filter(|v| *v > newest) {
        let d = Diagnostic::outcome(
            "E0671",
            format!(
                "this plan's code is PTX {}.{}, and the driver here (CUDA {}.{}) knows PTX up to {}.{}",
                needed.0, needed.1, card.version.0, card.version.1, newest.0, newest.1
            ),
        );
        return Err(d.with_help("update the NVIDIA driver, or compile for an older level: `--target cuda:sm_80`"));
    }
    Ok(())
}

/// The newest PTX that a driver of this CUDA version assembles, by the release notes of the PTX ISA.
fn newest_ptx((major, minor): (u32, u32)) -> (u32, u32) {
    match (major, minor) {
        (..=10, _) => (6, 5),
        (11, n) => (7, n.min(8)),
        (12, n @ ..=5) => (8, n),
        (12, n) => (8, n - 1),
        (m, n) => (m - 4, n),
    }
}

/// Refuses arenas that a card has no room for.
fn fits(arenas: &[u64], card: &dyn Driver) -> Result<(), Diagnostic> {
    let card = card.card();
    let beside = arenas.len() as u64 * WORKSPACE as u64 + RESERVE;
    let needed = arenas.iter().sum::<u64>() + beside;
    if needed <= card.memory.1 {
        return Ok(());
    }
    let (total, free) = (Bytes(card.memory.0), Bytes(card.memory.1));
    let mut d = Diagnostic::outcome("E0673", format!("{} has {free} free of {total}, and this plan needs {} there", card.name, Bytes(needed)))
        .with_note(format!("{} arenas take {}, CUDA and its libraries about {}", arenas.len(), Bytes(arenas.iter().sum()), Bytes(beside)));
    if card.memory.1 < card.memory.0 / 10 * 9 {
        d = d.with_note("other processes hold memory there; `nvidia-smi` lists them");
    }
    let each = card.memory.1.saturating_sub(beside) / arenas.len().max(1) as u64;
    Err(d.with_help(format!("compile the model again with `--memory-limit {}MiB`, or run on more GPUs", each >> 20)))
}

impl Mover for Machine {
    fn staging(&self, rank: u32, bytes: usize) -> Result<*mut u8, Diagnostic> {
        let lane = self.lane(rank);
        Ok(device::pointer(lane.check(lane.driver.allocate(bytes.max(16)))?))
    }

    fn mark(&self, rank: u32) -> Result<Mark, Diagnostic> {
        let mut lane = self.lane(rank);
        lane.follow()?;
        lane.settle()?;
        lane.mark()
    }

    unsafe fn copy(&self, rank: u32, after: Mark, from: Region, to: Region) -> Result<Mark, Diagnostic> {
        let mut lane = self.lane(rank);
        let (source, target, bytes) = (device::address(from.address), device::address(to.address), from.bytes.min(to.bytes));
        // A message that is copied aside was told before it was sent; what was told since leaves it as it is, and may be begun later as one run.
        if lane.holds(target) {
            lane.flush()?;
        }
        lane.follow_begun()?;
        lane.await_mark(after)?;
        lane.before(Work::Communicate, source, bytes)?;
        lane.before(Work::Communicate, target, bytes)?;
        // SAFETY: as the caller vouches, and what else touches the bytes is waited for.
        lane.check(unsafe { lane.driver.copy(lane.stream(Work::Communicate), source, target, bytes) })?;
        lane.mark()
    }

    fn after(&self, rank: u32, mark: Mark, region: Region) -> Result<(), Diagnostic> {
        self.lane(rank).note(mark, device::address(region.address), region.bytes);
        Ok(())
    }

    unsafe fn collective(&self, rank: u32, collective: &Collective, bases: &[*mut u8], me: usize, microbatch: u32, after: &[Mark]) -> Result<Mark, Diagnostic> {
        let mut lane = self.lane(rank);
        lane.follow()?;
        if self.nccl
            && let Some(transfers) = communicate::transfers(collective, lane.arena, bases.len(), me, microbatch)
        {
            let communicator = self.communicator(&lane, bases, me)?;
            // SAFETY: offsets were checked against the buffers. NCCL reads and writes when all members have come to it, each after its own work.
            lane.check(unsafe { lane.driver.exchange(lane.stream(Work::Communicate), communicator, &transfers) })?;
            return lane.mark();
        }
        for mark in after {
            lane.await_mark(*mark)?;
        }
        let element = collective.reduction().1.bytes();
        let at = |i: usize, offset: usize| device::address(bases[i]) + offset as u64;
        let (start, end) = collective.share(bases.len(), me);
        let mut before = 0;
        for e in collective.exchanges() {
            let kernel = kernel_of(collective, &e, bases.len());
            let (input, output) = (e.input.offset(microbatch), e.output.offset(microbatch));
            let all = (0, e.elements as u64);
            // SAFETY: offsets were checked against the buffers; members write disjoint elements, and all have told that their buffers are ready.
            unsafe {
                match (collective.kind(), &kernel) {
                    (CollectiveKind::AllReduce, Some(kernel)) => {
                        let (low, high) = (start.max(before), end.min(before + e.elements));
                        if low < high {
                            let pointers = (0..bases.len()).map(|i| at(i, input)).chain((0..bases.len()).map(|i| at(i, output)));
                            self.start(&lane, Work::Communicate, kernel, pointers, ((low - before) as u64, (high - before) as u64))?;
                        }
                    }
                    (CollectiveKind::ReduceScatter, Some(kernel)) => {
                        let piece = (me * e.give_peer) as u64 * element;
                        let pointers = (0..bases.len()).map(|i| at(i, input) + piece).chain([at(me, output)]);
                        self.start(&lane, Work::Communicate, kernel, pointers, all)?;
                    }
                    _ => {
                        let piece = if collective.kind() == CollectiveKind::AllToAll { (me * e.give_peer) as u64 * element } else { 0 };
                        for i in (me..bases.len()).chain(0..me) {
                            let (from, to) = (at(i, input) + piece, at(me, output) + (i * e.take_peer) as u64 * element);
                            match &kernel {
                                Some(kernel) => self.start(&lane, Work::Communicate, kernel, [from, to].into_iter(), all)?,
                                None => {
                                    let bytes = e.elements * element as usize;
                                    lane.check(lane.driver.copy(lane.stream(Work::Communicate), from, to, bytes))?;
                                }
                            }
                        }
                    }
                }
            }
            before += e.elements;
        }
        lane.mark()
    }

    fn after_collective(&self, rank: u32, collective: &Collective, microbatch: u32, marks: &[Mark]) -> Result<(), Diagnostic> {
        let mut lane = self.lane(rank);
        for mark in marks {
            lane.await_mark(*mark)?;
        }
        // What the rank communicates from now on follows all members; what it computes follows this one mark.
        let mark = lane.mark()?;
        let arena = lane.arena;
        for e in collective.exchanges() {
            lane.note(mark, arena + e.input.offset(microbatch) as u64, e.input.bytes());
            if e.output != e.input {
                lane.note(mark, arena + e.output.offset(microbatch) as u64, e.output.bytes());
            }
        }
        Ok(())
    }

    fn finish(&self, rank: u32) -> Result<(), Diagnostic> {
        self.lane(rank).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_know_ptx_by_their_version() {
        let known = [(11, 0), (11, 8), (12, 0), (12, 5), (12, 6), (12, 8), (12, 9), (13, 0)].map(newest_ptx);
        assert_eq!(known, [(7, 0), (7, 8), (8, 0), (8, 5), (8, 5), (8, 7), (8, 8), (9, 0)]);
    }

    #[test]
    fn ranks_lie_on_cards_in_runs() {
        let lie = |ranks, cards| (0..ranks).map(|r| card_of(r, ranks, cards)).collect::<Vec<_>>();
        assert_eq!(lie(4, 1), [0, 0, 0, 0]);
        assert_eq!(lie(4, 2), [0, 0, 1, 1]);
        assert_eq!(lie(2, 4), [0, 2]);
    }
}
