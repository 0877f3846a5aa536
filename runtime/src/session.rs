//! A session runs a plan in this process: one thread, one arena and one worker per rank.
//!
//! The caller's thread owns the whole tensors and speaks to the workers by messages; during a step it only waits. When a rank fails every rank stops, the
//! first reason is what the caller gets, and the session takes no further steps. Arenas live until all threads have ended, since a rank reads its peers'.

use crate::arguments;
use crate::binding::Block;
use crate::device::cpu::CpuDevice;
use crate::device::cpu::code::Object;
use crate::device::{Device, Seat};
use crate::tensor::{Arguments, Tensor};
use crate::trace::{self, Event, Recorder};
use crate::transport::Interrupted;
use crate::transport::local::Hub;
use crate::worker::{Pipeline, Programs, Worker, program_of};
use ir::plan::Plan;
use ir::program::{Program, ScheduleKind};
use ir::{Diagnostic, Result, TensorType};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
}

enum Command {
    Bind { arguments: Arc<Arguments>, clear: bool },
    Step { scalars: Arc<Vec<u32>> },
    Collect { arguments: bool, wanted: Arc<Vec<u32>> },
    Recorded,
}

enum Reply {
    Opened { blocks: (Vec<Block>, Vec<Block>), memory: RankMemory },
    Bound,
    Parts(Vec<(usize, Vec<u8>)>),
    Recorded(Vec<Event>),
    Failed,
}

/// A plan that is being run.
pub struct Session {
    plan: Arc<Plan>,
    hub: Arc<Hub>,
    commands: Vec<Sender<Command>>,
    replies: Receiver<(u32, Reply)>,
    threads: Vec<JoinHandle<Option<Worker>>>,
    blocks: Vec<(Vec<Block>, Vec<Block>)>,
    memory: Vec<RankMemory>,
    index_arguments: Vec<u32>,
    steps: u64,
}

impl Session {
    /// Opens a plan on CPU devices.
    ///
    /// # Errors
    /// Whatever the devices or the transport refuse, and arenas that cannot be allocated.
    pub fn open(plan: &Arc<Plan>, options: &Options) -> Result<Session> {
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
        Self::open_with(plan, options, move |program, seat| Ok(Box::new(CpuDevice::new(program, &of.kernels, object.clone(), seat)?)))
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
        plan.verify().map_err(|e| Diagnostic::input("E0905", format!("this plan is inconsistent: {e}")).with_help("compile the model again"))?;
        let programs: Programs = plan.programs.clone().into();
        let (schedule, microbatches) = (plan.schedule.kind, plan.schedule.microbatches.max(1));
        let hub = Hub::new(programs.clone(), schedule, microbatches, options.timeout)?;
        let (sender, replies) = channel();
        let shared = Arc::new(Shared { programs, hub: hub.clone(), schedule, microbatches, refusals: Mutex::default(), device: Box::new(device) });
        let origin = Instant::now();
        let mut session = Session {
            plan: plan.clone(),
            hub,
            commands: Vec::new(),
            replies,
            threads: Vec::new(),
            blocks: Vec::new(),
            memory: Vec::new(),
            index_arguments: arguments::used_as_index(&plan.source),
            steps: 0,
        };
        for rank in 0..plan.ranks() {
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
        for reply in opened {
            if let Reply::Opened { blocks, memory } = reply {
                session.blocks.push(blocks);
                session.memory.push(memory);
            }
        }
        Ok(session)
    }

    /// Memory of every rank.
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
        Ok(StepReport { step: self.steps - 1, scalars, seconds })
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
        let events: Vec<Vec<Event>> = replies.into_iter().map(|r| if let Reply::Recorded(e) = r { e } else { Vec::new() }).collect();
        Ok(trace::document(&self.plan, &events))
    }

    fn failed(&self) -> ir::Diagnostics {
        self.hub.failure().unwrap_or_else(|| Diagnostic::outcome("E0613", "a rank ended without a reason")).into()
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
        for _ in 0..self.commands.len() {
            match self.replies.recv() {
                Ok((_, Reply::Failed)) | Err(_) => failed = true,
                Ok((rank, reply)) => replies[rank as usize] = Some(reply),
            }
        }
        if failed { Err(self.failed()) } else { Ok(replies.into_iter().flatten().collect()) }
    }

    fn assemble(&self, replies: Vec<Reply>, arguments: bool) -> Result<BTreeMap<u32, Tensor>> {
        let types = self.types(arguments);
        let mut home: BTreeMap<u32, usize> = BTreeMap::new();
        let mut whole: BTreeMap<u32, Tensor> = BTreeMap::new();
        for (rank, reply) in replies.into_iter().enumerate() {
            let Reply::Parts(parts) = reply else { continue };
            let Some((program, _)) = program_of(&self.plan.programs, rank as u32) else { continue };
            for (i, bytes) in parts {
                let block = if arguments { &self.blocks[rank].0[i] } else { &self.blocks[rank].1[i] };
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

type MakeDevice = dyn Fn(&Program, &Seat) -> Result<Box<dyn Device>> + Send + Sync;

struct Shared {
    programs: Programs,
    hub: Arc<Hub>,
    schedule: ScheduleKind,
    microbatches: u32,
    /// What devices refused, per rank.
    refusals: Mutex<Vec<(u32, Vec<Diagnostic>)>>,
    device: Box<MakeDevice>,
}

/// A rank's thread: opens its worker, then obeys until the session is dropped or the run has failed. The worker outlives the thread.
fn serve(shared: &Shared, rank: u32, recorder: Option<Recorder>, commands: &Receiver<Command>, replies: &Sender<(u32, Reply)>) -> Option<Worker> {
    let opened = guarded(&shared.hub, rank, || open(shared, rank, recorder));
    // A session that was dropped while it waits has no use for the reply.
    let reply = |r: Reply| replies.send((rank, r)).is_ok();
    let Some(mut worker) = opened else {
        reply(Reply::Failed);
        return None;
    };
    let memory = RankMemory { arena: worker.arena_bytes(), overhead: worker.overhead_bytes() };
    let mut alive = reply(Reply::Opened { blocks: worker.blocks(), memory });
    while alive {
        let Ok(command) = commands.recv() else { break };
        let done = guarded(&shared.hub, rank, || match command {
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
            Command::Recorded => Ok(Reply::Recorded(worker.recorded())),
        });
        alive = reply(done.unwrap_or(Reply::Failed));
    }
    Some(worker)
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
    Worker::new(pipeline, program, seat, device, Box::new(shared.hub.transport(rank)), recorder)
}

/// Runs a rank's work; its failure, a panic included, becomes the run's.
fn guarded<T>(hub: &Hub, rank: u32, work: impl FnOnce() -> Result<T, Interrupted>) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Some(value),
        Ok(Err(Interrupted::Elsewhere)) => None,
        Ok(Err(Interrupted::Here(d))) => {
            hub.fail(*d);
            None
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown reason");
            hub.fail(Diagnostic::outcome("E0610", format!("rank {rank} failed: {text}")).with_note(hub.whereabouts(rank)));
            None
        }
    }
}
