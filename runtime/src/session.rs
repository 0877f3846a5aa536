//! A session runs a plan's ranks of this process, all or some: one thread, one arena and one worker per rank.
//!
//! The caller's thread owns the whole tensors and speaks to the workers by messages; during a step it only waits. When a rank fails every rank stops, the
//! first reason is what the caller gets, and the session takes no further steps. Arenas live until all threads have ended, since a rank reads its peers'.
//! What connects the ranks, here and elsewhere, is a [`Fabric`]. Where ranks are in several processes, each process has a session and they are told the
//! same things in the same order; what is read back (results, state, memory, events) comes together in rank 0's process, and the others get nothing.

mod agreement;

use crate::arguments;
use crate::binding::Block;
use crate::checkpoint::saving::{Outcome, SaveOptions, Saving, Told};
use crate::checkpoint::writer::RankWriter;
use crate::checkpoint::{Checkpoint, Store};
use crate::device::cpu::CpuDevice;
use crate::device::cpu::code::Object;
use crate::device::{Device, Seat};
use crate::metrics::{Layout, RankStep, StepFigures};
use crate::tensor::{Arguments, Tensor};
use crate::trace::{self, Event, Recorder};
use crate::transport::local::Hub;
use crate::transport::{Fabric, Interrupted, Parts};
use crate::worker::{Lane, Pipeline, Programs, Worker, program_of};
use ir::plan::Plan;
use ir::program::{Binding, Program, ScheduleKind};
use ir::{Diagnostic, Result, TensorType};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How a plan is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a rank waits for another before the run fails.
    pub timeout: Duration,
    /// Whether to record events.
    pub trace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { timeout: Duration::from_secs(300), trace: false }
    }
}

/// What a step gave.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// Number of the step, from 0.
    pub step: u64,
    /// The scalar results that are not state: number, name, value.
    pub scalars: Vec<(u32, String, f64)>,
    /// How long it took.
    pub seconds: f64,
}

/// Memory of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankMemory {
    /// The arena.
    pub arena: usize,
    /// Scratch of the device, staging of the transport.
    pub overhead: usize,
    /// Where its state is copied aside to be saved; 0 unless the run saves.
    pub snapshot: usize,
}

enum Command {
    Bind { arguments: Arc<Arguments>, clear: bool },
    Step { scalars: Arc<Vec<u32>> },
    Collect { arguments: bool, wanted: Arc<Vec<u32>> },
    Recorded,
    Sequence(Option<Lane>),
    Measure(Arc<Plan>),
    Measured,
    Prepare { plan: Arc<Plan>, tell: Sender<Told> },
    Snapshot { step: u64, folder: Arc<Path> },
}

enum Reply {
    Opened(RankMemory),
    Bound,
    Parts(Parts),
    Recorded(Vec<Event>),
    /// Boxed, since a channel keeps many replies' room.
    Measured(Box<RankStep>),
    Prepared {
        snapshot: usize,
    },
    Failed,
}

/// A plan that is being run.
pub struct Session {
    plan: Arc<Plan>,
    fabric: Arc<dyn Fabric>,
    commands: Vec<Sender<Command>>,
    replies: Receiver<(u32, Reply)>,
    threads: Vec<JoinHandle<Option<Worker>>>,
    /// For every rank its parts of arguments and results.
    blocks: Vec<(Vec<Block>, Vec<Block>)>,
    memory: Vec<RankMemory>,
    index_arguments: Vec<u32>,
    /// Steps that were done before the session was opened.
    first: u64,
    steps: u64,
    /// After the threads, which end first: what they have begun to save is then finished.
    saving: Option<Saving>,
    /// Where gradients are, when steps are measured.
    layout: Option<Layout>,
}

impl Session {
    /// Opens a plan on CPU devices, with all ranks in this process.
    ///
    /// # Errors
    /// Whatever the devices or the transport refuse, and arenas that cannot be allocated.
    pub fn open(plan: &Arc<Plan>, options: &Options) -> Result<Session> {
        Self::open_on(plan, options, &Self::hub(plan, options)?)
    }

    /// A fabric with all ranks of a plan in this process.
    ///
    /// # Errors
    /// When the plan contradicts itself.
    pub fn hub(plan: &Plan, options: &Options) -> Result<Arc<dyn Fabric>> {
        verify(plan)?;
        Ok(Hub::new(plan.programs.clone().into(), plan.schedule.kind, plan.schedule.microbatches.max(1), options.timeout)?)
    }

    /// Opens a plan on CPU devices, with the ranks that `fabric` has in this process.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn open_on(plan: &Arc<Plan>, options: &Options, fabric: &Arc<dyn Fabric>) -> Result<Session> {
        let code = plan.code.iter().find(|c| c.target == "cpu").or(plan.code.first());
        let object = match code.filter(|_| !plan.kernels.is_empty()) {
            Some(code) if code.target == "cpu" => Some(Arc::new(Object::load(code)?)),
            Some(code) => {
                return Err(Diagnostic::outcome("E0607", format!("this plan's code is for {} and the device is a cpu", code.target))
                    .with_help("compile the model again with `--target cpu`")
                    .into());
            }
            None if !plan.kernels.is_empty() => {
                return Err(Diagnostic::outcome("E0609", "this plan was made without code").with_help("compile the model again without `--no-code`").into());
            }
            None => None,
        };
        let of = plan.clone();
        Self::start(plan, options, fabric, Box::new(move |program, seat| Ok(Box::new(CpuDevice::new(program, &of.kernels, object.clone(), seat)?))))
    }

    /// Opens a plan on devices that `device` makes, each on its rank's thread.
    ///
    /// # Errors
    /// Whatever the devices or the transport refuse.
    pub fn open_with(
        plan: &Arc<Plan>,
        options: &Options,
        device: impl Fn(&Program, &Seat) -> Result<Box<dyn Device>> + Send + Sync + 'static,
    ) -> Result<Session> {
        Self::open_with_on(plan, options, &Self::hub(plan, options)?, device)
    }

    /// The same with the ranks that `fabric` has in this process.
    ///
    /// # Errors
    /// Whatever the devices or the transport refuse.
    pub fn open_with_on(
        plan: &Arc<Plan>,
        options: &Options,
        fabric: &Arc<dyn Fabric>,
        device: impl Fn(&Program, &Seat) -> Result<Box<dyn Device>> + Send + Sync + 'static,
    ) -> Result<Session> {
        Self::start(plan, options, fabric, Box::new(device))
    }

    fn start(plan: &Arc<Plan>, options: &Options, fabric: &Arc<dyn Fabric>, device: Box<MakeDevice>) -> Result<Session> {
        verify(plan)?;
        let programs: Programs = plan.programs.clone().into();
        let (schedule, microbatches) = (plan.schedule.kind, plan.schedule.microbatches.max(1));
        let mut blocks = Vec::new();
        for rank in 0..plan.ranks() {
            let (program, device) = program_of(&programs, rank).expect("invariant: every rank has a program");
            let seat = Seat::new(program, device, microbatches);
            let of = |list: &[Binding]| list.iter().map(|b| Block::new(program, b, &seat)).collect::<Result<Vec<_>>>();
            blocks.push((of(&program.inputs)?, of(&program.outputs)?));
        }
        let (sender, replies) = channel();
        let shared = Arc::new(Shared { programs, fabric: fabric.clone(), schedule, microbatches, refusals: Mutex::default(), device });
        let origin = Instant::now();
        let mut session = Session {
            plan: plan.clone(),
            fabric: fabric.clone(),
            commands: Vec::new(),
            replies,
            threads: Vec::new(),
            blocks,
            memory: Vec::new(),
            index_arguments: arguments::used_as_index(&plan.source),
            first: 0,
            steps: 0,
            saving: None,
            layout: None,
        };
        for rank in fabric.ranks() {
            let (command, commands) = channel();
            let (shared, sender) = (shared.clone(), sender.clone());
            let recorder = options.trace.then(|| Recorder::new(origin));
            let thread = std::thread::Builder::new().name(format!("rank {rank}")).spawn(move || serve(&shared, rank, recorder, &commands, &sender));
            session.commands.push(command);
            session.threads.push(thread.map_err(|e| Diagnostic::outcome("E0608", format!("a thread for rank {rank} cannot be started: {e}")))?);
        }
        drop(sender);
        let refused = |session: &Session| {
            let mut refusals = std::mem::take(&mut *shared.refusals.lock().unwrap_or_else(PoisonError::into_inner));
            refusals.sort_by_key(|(rank, _)| *rank);
            let mut all: Vec<Diagnostic> = Vec::new();
            for d in refusals.into_iter().flat_map(|(_, list)| list) {
                if !all.contains(&d) {
                    all.push(d);
                }
            }
            if all.is_empty() { session.failed() } else { ir::Diagnostics(all) }
        };
        let opened = match session.gather() {
            Ok(opened) => opened,
            Err(_) => return Err(refused(&session)),
        };
        let word = |n: usize| (n as u64).to_le_bytes().to_vec();
        let words = opened.into_iter().map(|r| if let Reply::Opened(m) = r { vec![(0, word(m.arena)), (1, word(m.overhead))] } else { Vec::new() });
        session.memory =
            session.exchange(words.collect())?.iter().map(|(_, p)| RankMemory { arena: number(p, 0), overhead: number(p, 1), snapshot: 0 }).collect();
        if fabric.ranks() != (0..plan.ranks()) {
            agreement::check(&mut session)?;
        }
        Ok(session)
    }

    /// Memory of every rank; nothing where rank 0 is not.
    pub fn memory(&self) -> &[RankMemory] {
        &self.memory
    }

    /// Sets arguments; those of the user's function that are not given become zeros, with a note each kind of them.
    ///
    /// # Errors
    /// `E0620` a wrong shape or element type, `E0621` an index that is not a number.
    pub fn set_inputs(&mut self, given: &Arguments) -> Result<Vec<Diagnostic>> {
        let notes = arguments::check(&self.plan, given, &self.index_arguments, true)?;
        self.tell(|| Command::Bind { arguments: Arc::new(given.clone()), clear: true })?;
        Ok(notes)
    }

    /// Executes a step; `batch` replaces the arguments it names, all others stay.
    ///
    /// # Errors
    /// As [`Session::set_inputs`], and the failure of a rank.
    pub fn step(&mut self, batch: &Arguments) -> Result<StepReport> {
        if !batch.is_empty() {
            arguments::check(&self.plan, batch, &self.index_arguments, false)?;
            self.tell(|| Command::Bind { arguments: Arc::new(batch.clone()), clear: false })?;
        }
        let begun = Instant::now();
        let wanted = Arc::new(self.plan.interface.scalars.clone());
        let parts = self.tell(|| Command::Step { scalars: wanted.clone() })?;
        let seconds = begun.elapsed().as_secs_f64();
        let results = self.assemble(parts, false)?;
        let outputs = self.plan.source.main().map(|g| g.output_attributes.as_slice()).unwrap_or_default();
        let name = |i: u32| outputs.get(i as usize).filter(|o| !o.name.is_empty()).map_or_else(|| format!("result[{i}]"), |o| o.name.clone());
        let scalars = results.iter().filter_map(|(i, t)| Some((*i, name(*i), t.scalar()?))).collect();
        self.steps += 1;
        Ok(StepReport { step: self.first + self.steps - 1, scalars, seconds })
    }

    /// Sets all state to a checkpoint's, one tensor at a time, and counts steps on from it.
    ///
    /// # Errors
    /// `E0662` when it is of another model, `E0661` when it cannot be read, and those of [`Session::set_inputs`].
    pub fn restore(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        checkpoint.check(&self.plan)?;
        for i in checkpoint.arguments() {
            let here = &self.blocks[self.fabric.ranks().start as usize..self.fabric.ranks().end as usize];
            if here.iter().any(|(inputs, _)| inputs.iter().any(|b| b.index == i)) {
                let arguments = Arguments::from([(i, Arc::new(checkpoint.tensor(i)?))]);
                arguments::check(&self.plan, &arguments, &self.index_arguments, false)?;
                let arguments = Arc::new(arguments);
                self.tell(|| Command::Bind { arguments: arguments.clone(), clear: false })?;
            }
        }
        (self.first, self.steps) = (checkpoint.manifest.step, 0);
        Ok(())
    }

    /// Sets up saving: every rank allocates where it copies its state aside, which [`Session::memory`] tells from now on.
    ///
    /// # Errors
    /// `E0634` when some state has no name in the file format, and the failure of a rank.
    pub fn save_to(&mut self, store: Store, timeout: Duration) -> Result<()> {
        let (plan, ranks) = (self.plan.clone(), self.fabric.ranks());
        for rank in ranks.clone() {
            crate::checkpoint::layout::shards(&plan, rank)?;
        }
        let fabric = self.fabric.clone();
        let (saving, tell) = Saving::new(&plan, SaveOptions { store, ranks, timeout, failed: Box::new(move || fabric.failure().is_some()) })?;
        let replies = self.tell(|| Command::Prepare { plan: plan.clone(), tell: tell.clone() })?;
        let word = |r: Reply| if let Reply::Prepared { snapshot } = r { vec![(0, (snapshot as u64).to_le_bytes().to_vec())] } else { Vec::new() };
        let snapshots = self.exchange(replies.into_iter().map(word).collect())?;
        for (memory, (_, parts)) in self.memory.iter_mut().zip(&snapshots) {
            memory.snapshot = number(parts, 0);
        }
        self.saving = Some(saving);
        Ok(())
    }

    /// Begins to save the state as it is after the last step; returns when it is copied aside. Nothing happens unless saving was set up and a step was done.
    ///
    /// # Errors
    /// When the session has failed.
    pub fn save(&mut self) -> Result<()> {
        let step = self.first + self.steps;
        if self.steps == 0 {
            return Ok(());
        }
        let Some(saving) = &mut self.saving else { return Ok(()) };
        let folder = saving.begin(step);
        self.tell(|| Command::Snapshot { step, folder: folder.clone() })?;
        Ok(())
    }

    /// What became of the next checkpoint that was begun; with `wait`, waits for it. None when none is under way.
    pub fn saved(&mut self, wait: bool) -> Option<Outcome> {
        self.saving.as_mut()?.finished(wait)
    }

    /// Measures every step from the next on; what is measured is told by the layout.
    ///
    /// # Errors
    /// When the session has failed.
    pub fn measure(&mut self) -> Result<&Layout> {
        let plan = self.plan.clone();
        self.tell(|| Command::Measure(plan.clone()))?;
        Ok(self.layout.insert(Layout::new(&self.plan)))
    }

    /// What all ranks measured in the last step; none where rank 0 is not, before the first step and where steps are not measured.
    ///
    /// # Errors
    /// When the session has failed.
    pub fn measured(&mut self) -> Result<Option<StepFigures>> {
        if self.layout.is_none() || self.steps == 0 {
            return Ok(None);
        }
        let encoded =
            |r: &Reply| if let Reply::Measured(m) = r { vec![(0, postcard::to_stdvec(&**m).expect("invariant: figures serialize"))] } else { Vec::new() };
        let given = self.tell(|| Command::Measured)?.iter().map(encoded).collect();
        let decoded = |(_, parts): &(u32, Parts)| parts.first().and_then(|(_, bytes)| postcard::from_bytes(bytes).ok()).unwrap_or_default();
        let ranks: Vec<RankStep> = self.exchange(given)?.iter().map(decoded).collect();
        let step = self.first + self.steps - 1;
        Ok(self.layout.as_ref().filter(|_| !ranks.is_empty()).map(|layout| StepFigures::new(step, layout, ranks)))
    }

    /// The state as whole tensors, by argument number.
    ///
    /// # Errors
    /// When the session has failed, or the plan keeps no such value.
    pub fn state(&mut self) -> Result<Arguments> {
        let state = self.plan.interface.state.clone();
        if self.steps == 0 {
            let wanted = Arc::new(state.iter().map(|(a, _)| *a).collect::<Vec<_>>());
            let parts = self.tell(|| Command::Collect { arguments: true, wanted: wanted.clone() })?;
            return Ok(self.assemble(parts, true)?.into_iter().map(|(i, t)| (i, Arc::new(t))).collect());
        }
        let results = self.results(&state.iter().map(|(_, r)| *r).collect::<Vec<_>>())?;
        Ok(state.iter().filter_map(|(a, r)| Some((*a, results.get(r)?.clone()))).collect())
    }

    /// Results of the last step as whole tensors, by result number.
    ///
    /// # Errors
    /// When the session has failed.
    pub fn results(&mut self, wanted: &[u32]) -> Result<Arguments> {
        let wanted = Arc::new(wanted.to_vec());
        let parts = self.tell(|| Command::Collect { arguments: false, wanted: wanted.clone() })?;
        Ok(self.assemble(parts, false)?.into_iter().map(|(i, t)| (i, Arc::new(t))).collect())
    }

    /// What was recorded, as a document for Perfetto; nothing unless the session was opened with `trace`.
    ///
    /// # Errors
    /// When the session has failed.
    pub fn trace(&mut self) -> Result<serde_json::Value> {
        let replies = self.tell(|| Command::Recorded)?;
        let encoded = |events: &Vec<Event>| postcard::to_stdvec(events).expect("invariant: events serialize");
        let given = replies.iter().map(|r| if let Reply::Recorded(e) = r { vec![(0, encoded(e))] } else { Vec::new() });
        let decoded = |(_, parts): &(u32, Parts)| parts.first().and_then(|(_, bytes)| postcard::from_bytes(bytes).ok()).unwrap_or_default();
        let events: Vec<Vec<Event>> = self.exchange(given.collect())?.iter().map(decoded).collect();
        Ok(trace::document(&self.plan, &events))
    }

    /// Brings what the ranks of this process give together with what those of the others give, in rank 0's process.
    fn exchange(&self, given: Vec<Parts>) -> Result<Vec<(u32, Parts)>> {
        self.fabric.gather(self.fabric.ranks().zip(given).collect()).map_err(|e| self.interrupted(e))
    }

    /// Gives the processes of all ranks what rank 0's gives.
    fn share(&self, given: Vec<u8>) -> Result<Vec<u8>> {
        self.fabric.share(given).map_err(|e| self.interrupted(e))
    }

    fn interrupted(&self, e: Interrupted) -> ir::Diagnostics {
        match e {
            Interrupted::Here(d) if self.fabric.failure().is_none() => {
                self.fabric.fail((*d).clone());
                (*d).into()
            }
            _ => self.failed(),
        }
    }

    fn failed(&self) -> ir::Diagnostics {
        self.fabric.failure().unwrap_or_else(|| Diagnostic::outcome("E0613", "a rank ended without a reason")).into()
    }

    fn tell(&mut self, command: impl Fn() -> Command) -> Result<Vec<Reply>> {
        for sender in &self.commands {
            if sender.send(command()).is_err() {
                return Err(self.failed());
            }
        }
        self.gather()
    }

    /// One reply of every rank, in their order.
    fn gather(&mut self) -> Result<Vec<Reply>> {
        let mut replies: Vec<Option<Reply>> = self.commands.iter().map(|_| None).collect();
        let mut failed = false;
        let first = self.fabric.ranks().start;
        for _ in 0..self.commands.len() {
            match self.replies.recv() {
                Ok((_, Reply::Failed)) | Err(_) => failed = true,
                Ok((rank, reply)) => replies[(rank - first) as usize] = Some(reply),
            }
        }
        if failed { Err(self.failed()) } else { Ok(replies.into_iter().flatten().collect()) }
    }

    fn assemble(&self, replies: Vec<Reply>, arguments: bool) -> Result<BTreeMap<u32, Tensor>> {
        let types = self.types(arguments);
        let mut home: BTreeMap<u32, usize> = BTreeMap::new();
        let mut whole: BTreeMap<u32, Tensor> = BTreeMap::new();
        let given = replies.into_iter().map(|r| if let Reply::Parts(parts) = r { parts } else { Vec::new() });
        for (rank, parts) in self.exchange(given.collect())? {
            let Some((program, _)) = program_of(&self.plan.programs, rank) else { continue };
            let (inputs, outputs) = &self.blocks[rank as usize];
            for (i, bytes) in parts {
                let Some(block) = (if arguments { inputs } else { outputs }).get(i as usize) else { continue };
                let stage = program.stage.0 as usize;
                // A value that several stages hold is read from the first.
                if *home.entry(block.index).or_insert(stage) != stage {
                    continue;
                }
                let Some(ty) = types.get(block.index as usize).filter(|t| t.bytes() as usize == block.global_bytes()) else {
                    return Err(
                        Diagnostic::input("E0602", format!("this plan is inconsistent: result {} has another size than its binding", block.index)).into()
                    );
                };
                let tensor = whole.entry(block.index).or_insert_with(|| Tensor::zeros((*ty).clone()));
                block.gather(&bytes, &mut tensor.bytes);
            }
        }
        Ok(whole)
    }

    fn types(&self, arguments: bool) -> Vec<&TensorType> {
        self.plan.source.main().map(|g| (if arguments { &g.inputs } else { &g.outputs }).iter().map(|v| g.ty(*v)).collect()).unwrap_or_default()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.commands.clear();
        // All threads end before the first arena goes.
        let workers: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        drop(workers);
    }
}

fn verify(plan: &Plan) -> Result<()> {
    plan.verify().map_err(|e| Diagnostic::input("E0905", format!("this plan is inconsistent: {e}")).with_help("compile the model again").into())
}

type MakeDevice = dyn Fn(&Program, &Seat) -> Result<Box<dyn Device>> + Send + Sync;

struct Shared {
    programs: Programs,
    fabric: Arc<dyn Fabric>,
    schedule: ScheduleKind,
    microbatches: u32,
    /// What devices refused, per rank.
    refusals: Mutex<Vec<(u32, Vec<Diagnostic>)>>,
    device: Box<MakeDevice>,
}

/// A rank's thread: opens its worker, then obeys until the session is dropped or the run has failed. The worker outlives the thread.
fn serve(shared: &Shared, rank: u32, recorder: Option<Recorder>, commands: &Receiver<Command>, replies: &Sender<(u32, Reply)>) -> Option<Worker> {
    let opened = guarded(&*shared.fabric, rank, || open(shared, rank, recorder));
    // A session that was dropped while it waits has no use for the reply.
    let reply = |r: Reply| replies.send((rank, r)).is_ok();
    let Some(mut worker) = opened else {
        reply(Reply::Failed);
        return None;
    };
    let memory = RankMemory { arena: worker.arena_bytes(), overhead: worker.overhead_bytes(), snapshot: 0 };
    let mut writer: Option<RankWriter> = None;
    let mut alive = reply(Reply::Opened(memory));
    while alive {
        let Ok(command) = commands.recv() else { break };
        let done = guarded(&*shared.fabric, rank, || match command {
            Command::Bind { arguments, clear } => {
                if clear {
                    worker.clear_except(&arguments);
                }
                worker.bind(&arguments);
                Ok(Reply::Bound)
            }
            Command::Step { scalars } => {
                worker.step()?;
                Ok(Reply::Parts(worker.collect(false, |i| scalars.contains(&i))))
            }
            Command::Collect { arguments, wanted } => Ok(Reply::Parts(worker.collect(arguments, |i| wanted.contains(&i)))),
            Command::Sequence(None) => Ok(Reply::Parts(agreement::digests(&worker))),
            Command::Sequence(Some(lane)) => Ok(Reply::Parts(agreement::entries(&worker, lane))),
            Command::Measure(plan) => {
                let (program, _) = program_of(&shared.programs, rank).expect("invariant: every rank has a program");
                worker.measure(program, &plan.kernels);
                Ok(Reply::Bound)
            }
            Command::Measured => Ok(Reply::Measured(Box::new(worker.measured().cloned().unwrap_or_default()))),
            Command::Recorded => Ok(Reply::Recorded(worker.recorded())),
            Command::Prepare { plan, tell } => {
                // Who collects may have ended already; then nobody is to be told.
                let done = move |step, part| drop(tell.send((rank, step, part)));
                let made = RankWriter::new(&plan, rank, done).map_err(|d| Interrupted::Here(Box::new(first(d))))?;
                Ok(Reply::Prepared { snapshot: writer.insert(made).bytes() })
            }
            Command::Snapshot { step, folder } => {
                if let Some(writer) = &mut writer {
                    writer.snapshot(worker.device(), step, &folder);
                }
                Ok(Reply::Bound)
            }
        });
        alive = reply(done.unwrap_or(Reply::Failed));
    }
    Some(worker)
}

/// The number that a rank has given as its `i`-th part.
fn number(parts: &Parts, i: usize) -> usize {
    parts.get(i).and_then(|(_, b)| b.as_slice().try_into().ok()).map_or(0, |b| u64::from_le_bytes(b) as usize)
}

fn first(d: ir::Diagnostics) -> Diagnostic {
    d.0.into_iter().next().expect("invariant: an error has a diagnostic")
}

fn open(shared: &Shared, rank: u32, recorder: Option<Recorder>) -> Result<Worker, Interrupted> {
    let (program, device) = program_of(&shared.programs, rank).expect("invariant: every rank has a program");
    let seat = Seat::new(program, device, shared.microbatches);
    let device = match (shared.device)(program, &seat) {
        Ok(device) => device,
        Err(d) => {
            let first = d.0.first().cloned();
            shared.refusals.lock().unwrap_or_else(PoisonError::into_inner).push((rank, d.0));
            return Err(first.map_or(Interrupted::Elsewhere, |d| Interrupted::Here(Box::new(d))));
        }
    };
    let pipeline = Pipeline { programs: &shared.programs, schedule: shared.schedule, microbatches: shared.microbatches };
    Worker::new(pipeline, program, seat, device, shared.fabric.clone().transport(rank), recorder)
}

/// Runs a rank's work; its failure, a panic included, becomes the run's.
fn guarded<T>(fabric: &dyn Fabric, rank: u32, work: impl FnOnce() -> Result<T, Interrupted>) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Some(value),
        Ok(Err(Interrupted::Elsewhere)) => None,
        Ok(Err(Interrupted::Here(d))) => {
            fabric.fail(*d);
            None
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown reason");
            fabric.fail(Diagnostic::outcome("E0610", format!("rank {rank} failed: {text}")).with_note(fabric.whereabouts(rank)));
            None
        }
    }
}
