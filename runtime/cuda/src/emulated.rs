//! A GPU in software, to test what begins work on one.
//!
//! What is begun on a stream waits in its queue. When somebody waits for a stream, queues are worked off one piece at a time, each from a stream drawn at
//! random among those whose next piece may run: so by a seed any order comes about that streams and events allow, and an event that is missing shows as
//! a wrong result. Copies from and to the host read and write there when their turn comes, as a GPU's do. Kernels run on the emulator of PTX, products as
//! cuBLASLt's documentation defines them. Graphs are captured by CUDA's rules ([`capture`]), and their nodes are done in any order that was captured.

mod capture;
mod communicators;

use crate::driver::{Address, Card, Communicator, Driver, Event, Failure, Function, Graph, GroupName, Module, Prepared, Shape, Stream, Transfer};
use crate::product::Product;
use capture::{Captures, Node};
use half::{bf16, f16};
use ir::DType;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// How it behaves.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// What it says it is.
    pub card: Card,
    /// Chooses the order.
    pub seed: u64,
    /// Forget every wait for an event: a fault that tests must notice.
    pub deaf: bool,
    /// Forget the order of what was captured: likewise.
    pub unordered: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        let card = Card { name: "Emulated GPU".into(), capability: (8, 0), memory: (16 << 30, 16 << 30), version: (12, 8) };
        Behaviour { card, seed: 0, deaf: false, unordered: false }
    }
}

#[derive(Clone)]
enum Piece {
    Launch { module: usize, entry: String, shape: Shape, parameters: Vec<u64> },
    Multiply { product: usize, abc: [Address; 3] },
    Copy { from: Address, to: Address, bytes: usize },
    Set { to: Address, byte: u8, bytes: usize },
    Record { event: u64, version: u64 },
    Wait { event: u64, version: u64 },
    Exchange { communicator: usize, asked: Vec<Transfer> },
}

/// What waits in a stream.
enum Entry {
    One(Piece),
    /// A launch of a graph, and which of its nodes are done.
    Graph(Arc<[Node]>, Vec<bool>),
}

#[derive(Default)]
struct State {
    memory: Vec<Box<[u128]>>,
    modules: Vec<Arc<ptx::Module>>,
    functions: Vec<(usize, String)>,
    /// The cards of modules and of streams.
    modules_of: Vec<usize>,
    streams_of: Vec<usize>,
    /// For every communicator the group's name, its members, and which of them it is.
    communicators: Vec<(GroupName, usize, usize)>,
    groups: u64,
    exchanged: u64,
    products: Vec<Product>,
    streams: Vec<VecDeque<Entry>>,
    captures: Captures,
    graphs: Vec<Arc<[Node]>>,
    /// For every event how often it was recorded, and how often it passed.
    events: Vec<(u64, u64)>,
    /// When each passed, in microseconds of work.
    passed: Vec<u64>,
    clock: u64,
    random: u64,
    failure: Option<Failure>,
    pieces: [u64; 2],
    replayed: u64,
}

/// The GPU.
pub struct EmulatedGpu {
    behaviour: Behaviour,
    card: usize,
    /// What it shares with the other cards of its machine.
    state: Arc<Mutex<State>>,
}

fn failure(doing: &str, reason: impl std::fmt::Display) -> Failure {
    Failure { doing: doing.into(), reason: reason.to_string() }
}

impl EmulatedGpu {
    /// A GPU.
    pub fn new(behaviour: Behaviour) -> Arc<EmulatedGpu> {
        Self::cards(behaviour, 1).remove(0)
    }
    /// Several GPUs of one machine, with access to each other's memory.
    pub fn cards(behaviour: Behaviour, cards: usize) -> Vec<Arc<EmulatedGpu>> {
        let random = behaviour.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let state = Arc::new(Mutex::new(State { random, ..State::default() }));
        (0..cards).map(|card| Arc::new(EmulatedGpu { behaviour: behaviour.clone(), card, state: state.clone() })).collect()
    }
    /// How many exchanges between cards were done.
    pub fn exchanged(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).exchanged
    }
    /// How many launches and products it has executed.
    pub fn executed(&self) -> [u64; 2] {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).pieces
    }
    /// How many graphs it has captured, and how many launches of them were begun.
    pub fn graphs(&self) -> [u64; 2] {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        [state.graphs.len() as u64, state.replayed]
    }
    fn with<T>(&self, work: impl FnOnce(&mut State) -> Result<T, Failure>) -> Result<T, Failure> {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn push(&self, stream: Stream, piece: Piece) -> Result<(), Failure> {
        self.with(|s| {
            if s.streams_of[stream.0 as usize] != self.card {
                return Err(failure("beginning work", "CUDA_ERROR_INVALID_HANDLE: the stream is another card's"));
            }
            if let Some(piece) = s.captures.take(stream.0, piece)? {
                s.streams[stream.0 as usize].push_back(Entry::One(piece));
            }
            // Sometimes the GPU keeps up with who begins the work, and mostly it lags far behind.
            if s.draw(4) == 0 { s.advance(self.behaviour.unordered).map(drop) } else { Ok(()) }
        })
    }
}

impl State {
    fn draw(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize % below
    }

    /// Does one piece of a stream whose next may run; false when there is none.
    fn advance(&mut self, unordered: bool) -> Result<bool, Failure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let may = |e: &Entry| match e {
            Entry::One(Piece::Wait { event, version }) => self.events[*event as usize].1 >= *version,
            Entry::One(Piece::Exchange { communicator, .. }) => self.met(*communicator).len() == self.communicators[*communicator].1,
            _ => true,
        };
        let ready: Vec<usize> = (0..self.streams.len()).filter(|&i| self.streams[i].front().is_some_and(may)).collect();
        if ready.is_empty() {
            return Ok(false);
        }
        let chosen = ready[self.draw(ready.len())];
        let piece = match self.streams[chosen].pop_front().expect("invariant: it has a piece") {
            Entry::One(Piece::Exchange { communicator, asked }) => {
                self.streams[chosen].push_front(Entry::One(Piece::Exchange { communicator, asked }));
                let done = self.exchange(communicator);
                if let Err(f) = &done {
                    self.failure = Some(f.clone());
                }
                return done.map(|()| true);
            }
            Entry::One(piece) => piece,
            Entry::Graph(nodes, mut done) => {
                let may = |n: &usize| !done[*n] && (unordered || nodes[*n].after.iter().all(|a| done[*a]));
                let ready: Vec<usize> = (0..nodes.len()).filter(may).collect();
                let node = ready[self.draw(ready.len())];
                done[node] = true;
                let piece = nodes[node].piece.clone();
                if !done.iter().all(|d| *d) {
                    self.streams[chosen].push_front(Entry::Graph(nodes, done));
                }
                piece
            }
        };
        let done = self.execute(piece);
        if let Err(f) = &done {
            self.failure = Some(f.clone());
        }
        done.map(|()| true)
    }

    /// The streams of a communicator's group whose next piece is an exchange of it, by member.
    fn met(&self, communicator: usize) -> std::collections::BTreeMap<usize, usize> {
        let name = &self.communicators[communicator].0;
        let member = |(stream, queue): (usize, &VecDeque<Entry>)| match queue.front() {
            Some(Entry::One(Piece::Exchange { communicator, .. })) if self.communicators[*communicator].0 == *name => {
                Some((self.communicators[*communicator].2, stream))
            }
            _ => None,
        };
        self.streams.iter().enumerate().filter_map(member).collect()
    }

    /// Does an exchange that all members have come to.
    fn exchange(&mut self, communicator: usize) -> Result<(), Failure> {
        let streams = self.met(communicator);
        let asked: Vec<_> = streams
            .values()
            .filter_map(|s| match self.streams[*s].pop_front() {
                Some(Entry::One(Piece::Exchange { asked, .. })) => Some(asked),
                _ => None,
            })
            .collect();
        let first = self.draw(asked.len());
        self.clock += 1;
        self.exchanged += 1;
        // SAFETY: the members vouched for their addresses.
        unsafe { communicators::exchange(&asked, first) }
    }

    fn holds(&self, address: Address, bytes: usize) -> bool {
        let inside = |m: &[u128]| address.checked_sub(m.as_ptr().expose_provenance() as u64).is_some_and(|o| o + bytes as u64 <= size_of_val(m) as u64);
        self.memory.iter().any(|m| inside(m))
    }

    fn execute(&mut self, piece: Piece) -> Result<(), Failure> {
        self.clock += u64::from(!matches!(piece, Piece::Record { .. } | Piece::Wait { .. }));
        match piece {
            Piece::Wait { .. } | Piece::Exchange { .. } => {}
            Piece::Record { event, version } => {
                self.events[event as usize].1 = version;
                self.passed[event as usize] = self.clock;
            }
            Piece::Copy { from, to, bytes } => {
                // SAFETY: both were allocated or given by the caller, who vouched for them.
                unsafe { std::ptr::copy(pointer(from).cast_const(), pointer(to), bytes) };
            }
            Piece::Set { to, byte, bytes } => {
                if !self.holds(to, bytes) {
                    return Err(failure("setting memory", "an address outside of what was allocated"));
                }
                // SAFETY: inside what was allocated.
                unsafe { std::ptr::write_bytes(pointer(to), byte, bytes) };
            }
            Piece::Launch { module, entry, shape, parameters } => {
                let mut memory = ptx::Memory::new();
                for m in &mut self.memory {
                    // SAFETY: memory of this GPU, which does one piece at a time.
                    unsafe { memory.register("memory", m.as_mut_ptr().cast(), size_of_val(&**m), true) };
                }
                let module = &self.modules[module];
                let entry = module.entry(&entry).expect("invariant: entries were looked up");
                let grid = ptx::Grid { grid: shape.grid, block: shape.block, dynamic_shared: shape.shared };
                ptx::launch(module, entry, grid, &parameters, &memory, &ptx::Options::default()).map_err(|f| failure("executing a kernel", f))?;
                self.pieces[0] += 1;
            }
            Piece::Multiply { product, abc } => {
                // SAFETY: the operands lie in this GPU's memory, as the caller vouched.
                unsafe { multiply(&self.products[product], abc) };
                self.pieces[1] += 1;
            }
        }
        Ok(())
    }
}

fn pointer(address: Address) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// An element as f64.
///
/// # Safety
/// It can be read.
unsafe fn element(dtype: DType, base: Address, i: u64) -> f64 {
    // SAFETY: as the caller vouches.
    unsafe {
        match dtype {
            DType::F64 => pointer(base).cast::<f64>().add(i as usize).read(),
            DType::F16 => pointer(base).cast::<f16>().add(i as usize).read().to_f64(),
            DType::BF16 => pointer(base).cast::<bf16>().add(i as usize).read().to_f64(),
            _ => f64::from(pointer(base).cast::<f32>().add(i as usize).read()),
        }
    }
}

/// A product by its definition, summed in f64.
///
/// # Safety
/// The operands lie where their layouts say.
unsafe fn multiply(p: &Product, [a, b, d]: [Address; 3]) {
    let at = |t: bool, ld: u64, row: u64, column: u64| if t { column + row * ld } else { row + column * ld };
    // SAFETY: as the caller vouches.
    unsafe {
        for g in 0..p.batch {
            let left: Vec<f64> = (0..p.m * p.k).map(|i| element(p.dtype, a, g * p.strides.0 + at(p.transposed.0, p.ld.0, i / p.k, i % p.k))).collect();
            let right: Vec<f64> = (0..p.n * p.k).map(|i| element(p.dtype, b, g * p.strides.1 + at(p.transposed.1, p.ld.1, i % p.k, i / p.k))).collect();
            for j in 0..p.n {
                for i in 0..p.m {
                    let row = &left[(i * p.k) as usize..((i + 1) * p.k) as usize];
                    let column = &right[(j * p.k) as usize..((j + 1) * p.k) as usize];
                    let mut sum: f64 = row.iter().zip(column).map(|(x, y)| x * y).sum();
                    let place = g * p.strides.2 + i + j * p.ld.2;
                    if p.accumulate {
                        sum += element(p.result, d, place);
                    }
                    match p.result {
                        DType::F64 => pointer(d).cast::<f64>().add(place as usize).write(sum),
                        DType::F16 => pointer(d).cast::<f16>().add(place as usize).write(f16::from_f64(sum)),
                        DType::BF16 => pointer(d).cast::<bf16>().add(place as usize).write(bf16::from_f64(sum)),
                        _ => pointer(d).cast::<f32>().add(place as usize).write(sum as f32),
                    }
                }
            }
        }
    }
}

impl Driver for EmulatedGpu {
    fn card(&self) -> &Card {
        &self.behaviour.card
    }
    fn allocate(&self, bytes: usize) -> Result<Address, Failure> {
        self.with(|s| {
            s.captures.refuse_thread("allocating memory")?;
            // One line more, so that the address can be a multiple of 256.
            let mut memory = vec![0u128; bytes.div_ceil(16) + 16].into_boxed_slice();
            let address = memory.as_mut_ptr().expose_provenance() as u64;
            s.memory.push(memory);
            Ok(address.next_multiple_of(256))
        })
    }
    fn pinned(&self, bytes: usize) -> Result<*mut u8, Failure> {
        self.allocate(bytes).map(pointer)
    }
    fn load(&self, text: &str) -> Result<Module, Failure> {
        let module = ptx::Module::parse(text).map_err(|e| failure("loading code", e))?;
        self.with(|s| {
            s.captures.refuse_thread("loading code")?;
            s.modules.push(Arc::new(module));
            s.modules_of.push(self.card);
            Ok(Module(s.modules.len() as u64 - 1))
        })
    }
    fn function(&self, module: Module, entry: &str, _shared: u32) -> Result<Function, Failure> {
        self.with(|s| {
            s.modules[module.0 as usize].entry(entry).ok_or_else(|| failure(&format!("looking up {entry}"), "CUDA_ERROR_NOT_FOUND"))?;
            s.functions.push((module.0 as usize, entry.into()));
            Ok(Function(s.functions.len() as u64 - 1))
        })
    }
    fn stream(&self, _communicates: bool) -> Result<Stream, Failure> {
        self.with(|s| {
            s.streams.push(VecDeque::new());
            s.streams_of.push(self.card);
            Ok(Stream(s.streams.len() as u64 - 1))
        })
    }
    fn event(&self) -> Result<Event, Failure> {
        self.with(|s| {
            s.events.push((0, 0));
            s.passed.push(0);
            Ok(Event(s.events.len() as u64 - 1))
        })
    }
    fn timer(&self) -> Result<Event, Failure> {
        self.event()
    }
    /// Every piece of work takes a microsecond.
    fn seconds(&self, from: Event, to: Event) -> Result<f64, Failure> {
        let at = |s: &State, e: Event| match s.events[e.0 as usize] {
            (recorded, passed) if recorded > 0 && recorded == passed => Ok(s.passed[e.0 as usize]),
            _ => Err(failure("reading a time", "CUDA_ERROR_NOT_READY")),
        };
        self.with(|s| Ok((at(s, to)? - at(s, from)?) as f64 / 1e6))
    }
    fn product(&self, product: &Product, _tf32: bool, _alignment: u32, _workspace: usize) -> Result<Prepared, Failure> {
        self.with(|s| {
            s.products.push(product.clone());
            Ok(Prepared(s.products.len() as u32 - 1))
        })
    }
    unsafe fn launch(&self, stream: Stream, function: Function, shape: Shape, parameters: &[u64]) -> Result<(), Failure> {
        let (module, entry) = self.with(|s| Ok(s.functions[function.0 as usize].clone()))?;
        if self.with(|s| Ok(s.modules_of[module]))? != self.card {
            return Err(failure("starting a kernel", "CUDA_ERROR_INVALID_HANDLE: the kernel is another card's"));
        }
        self.push(stream, Piece::Launch { module, entry, shape, parameters: parameters.to_vec() })
    }
    unsafe fn multiply(&self, stream: Stream, product: Prepared, abc: [Address; 3], _workspace: (Address, usize)) -> Result<(), Failure> {
        self.push(stream, Piece::Multiply { product: product.0 as usize, abc })
    }
    unsafe fn copy(&self, stream: Stream, from: Address, to: Address, bytes: usize) -> Result<(), Failure> {
        if !self.with(|s| Ok(s.holds(from, bytes) && s.holds(to, bytes)))? {
            return Err(failure("copying", "an address outside of what was allocated"));
        }
        self.push(stream, Piece::Copy { from, to, bytes })
    }
    unsafe fn set(&self, stream: Stream, to: Address, byte: u8, bytes: usize) -> Result<(), Failure> {
        self.push(stream, Piece::Set { to, byte, bytes })
    }
    unsafe fn upload(&self, stream: Stream, from: *const u8, to: Address, bytes: usize) -> Result<(), Failure> {
        self.push(stream, Piece::Copy { from: from.expose_provenance() as u64, to, bytes })
    }
    unsafe fn download(&self, stream: Stream, from: Address, to: *mut u8, bytes: usize) -> Result<(), Failure> {
        self.push(stream, Piece::Copy { from, to: to.expose_provenance() as u64, bytes })
    }
    fn record(&self, stream: Stream, event: Event) -> Result<(), Failure> {
        let version = self.with(|s| {
            if s.captures.record(stream.0, event.0) {
                return Ok(None);
            }
            s.events[event.0 as usize].0 += 1;
            Ok(Some(s.events[event.0 as usize].0))
        })?;
        let Some(version) = version else { return Ok(()) };
        // Nobody can wait for it before this call returns, so it need not be queued at once.
        self.push(stream, Piece::Record { event: event.0, version })
    }
    fn wait(&self, stream: Stream, event: Event) -> Result<(), Failure> {
        if self.behaviour.deaf {
            return Ok(());
        }
        let version = self.with(|s| Ok((!s.captures.wait(stream.0, event.0)?).then(|| s.events[event.0 as usize].0)))?;
        version.map_or(Ok(()), |version| self.push(stream, Piece::Wait { event: event.0, version }))
    }
    fn synchronize(&self, stream: Stream) -> Result<(), Failure> {
        self.with(|s| s.captures.refuse_stream("waiting for a stream", stream.0))?;
        // One piece at a time, so that other ranks can begin theirs in between.
        let one = |s: &mut State| {
            let empty = s.streams[stream.0 as usize].is_empty();
            if !empty && !s.advance(self.behaviour.unordered)? {
                return Err(failure("waiting for a stream", "streams wait for each other in a circle"));
            }
            Ok(empty)
        };
        while !self.with(one)? {}
        self.with(|s| s.failure.clone().map_or(Ok(()), Err))
    }
    fn capture(&self, stream: Stream) -> Result<(), Failure> {
        self.with(|s| s.captures.begin(stream.0))
    }
    fn captured(&self, stream: Stream) -> Result<Graph, Failure> {
        self.with(|s| {
            let nodes = s.captures.end(stream.0)?;
            s.graphs.push(nodes.into());
            Ok(Graph(s.graphs.len() as u64 - 1))
        })
    }
    unsafe fn replay(&self, stream: Stream, graph: Graph) -> Result<(), Failure> {
        self.with(|s| {
            s.captures.refuse_stream("launching a graph", stream.0)?;
            let nodes = s.graphs[graph.0 as usize].clone();
            s.replayed += 1;
            if !nodes.is_empty() {
                let done = vec![false; nodes.len()];
                s.streams[stream.0 as usize].push_back(Entry::Graph(nodes, done));
            }
            Ok(())
        })
    }
    fn exchanges(&self) -> bool {
        true
    }
    fn name_group(&self) -> Result<GroupName, Failure> {
        self.with(|s| {
            s.groups += 1;
            let mut name = [0; 128];
            name[..8].copy_from_slice(&s.groups.to_le_bytes());
            Ok(name)
        })
    }
    fn join(&self, name: &GroupName, members: u32, me: u32) -> Result<Communicator, Failure> {
        self.with(|s| {
            s.captures.refuse_thread("joining a group")?;
            if me >= members || s.communicators.iter().any(|(n, count, m)| n == name && (*count != members as usize || *m == me as usize)) {
                return Err(failure("joining a group", "NCCL: ncclInvalidArgument"));
            }
            s.communicators.push((*name, members as usize, me as usize));
            Ok(Communicator(s.communicators.len() as u64 - 1))
        })
    }
    unsafe fn exchange(&self, stream: Stream, communicator: Communicator, transfers: &[Transfer]) -> Result<(), Failure> {
        self.with(|s| s.captures.refuse_stream("exchanging (which is not emulated in graphs)", stream.0))?;
        self.push(stream, Piece::Exchange { communicator: communicator.0 as usize, asked: transfers.to_vec() })
    }
}
