//! Runs of instructions: what a rank has been told to compute and has not begun yet, so that it is begun at once as a CUDA graph.
//!
//! An instruction is resolved once per microbatch to calls with addresses; where slots of two microbatches are the same memory, their instructions are the
//! same one here. A run ends where something must follow it (a communication, a routine of the host, a read) or where it must wait for another rank, since
//! a graph cannot wait for what lies outside of it. The first time a run comes its calls are begun one by one, as libraries load their code then, which may
//! not be captured; the second time they are captured; from then on the graph is launched. Runs are told apart by their calls with all addresses, so a graph
//! is never launched for other slots than those it was captured for.

use crate::driver::{Address, Driver, Failure, Function, Graph, Prepared, Shape, Stream};
use std::collections::HashMap;
use std::sync::Arc;

/// Calls that a run has at least to be worth a graph.
const SHORTEST: usize = 3;

/// A call with its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// A launch.
    Launch {
        /// What is launched.
        function: Function,
        /// Its grid.
        shape: Shape,
        /// Its parameters.
        parameters: Vec<u64>,
    },
    /// A matrix product.
    Multiply {
        /// Which.
        product: Prepared,
        /// Its operands and result.
        abc: [Address; 3],
        /// Memory that it may use, and bytes of it.
        workspace: (Address, usize),
    },
    /// A copy within a card.
    Copy {
        /// The first byte that is read.
        from: Address,
        /// The first that is written.
        to: Address,
        /// How many.
        bytes: usize,
    },
    /// Bytes set alike.
    Set {
        /// The first.
        to: Address,
        /// What they become.
        byte: u8,
        /// How many.
        bytes: usize,
    },
}

impl Call {
    /// Begins it on a stream.
    ///
    /// # Safety
    /// As [`Driver::launch`].
    ///
    /// # Errors
    /// As [`Driver::launch`].
    pub unsafe fn begin(&self, driver: &dyn Driver, stream: Stream) -> Result<(), Failure> {
        // SAFETY: as the caller vouches.
        unsafe {
            match self {
                Call::Launch { function, shape, parameters } => driver.launch(stream, *function, *shape, parameters),
                Call::Multiply { product, abc, workspace } => driver.multiply(stream, *product, *abc, *workspace),
                Call::Copy { from, to, bytes } => driver.copy(stream, *from, *to, *bytes),
                Call::Set { to, byte, bytes } => driver.set(stream, *to, *byte, *bytes),
            }
        }
    }
}

/// An instruction for a microbatch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resolved {
    /// What it calls, in order.
    pub calls: Vec<Call>,
    /// The bytes that it may touch: the first, and how many.
    pub touched: Vec<(Address, usize)>,
}

/// What is known of a run.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// It came once.
    Once,
    /// It is this graph.
    Captured(Graph),
}

/// The runs of a rank.
#[derive(Debug)]
pub struct Runs {
    graphs: bool,
    instructions: Vec<Arc<Resolved>>,
    numbers: HashMap<Arc<Resolved>, u32>,
    known: HashMap<Box<[u32]>, Known>,
    /// What was told and has not begun.
    pub(crate) waiting: Vec<u32>,
}

impl Runs {
    /// None yet. Without `graphs` every run is begun call by call.
    pub fn new(graphs: bool) -> Runs {
        Runs { graphs, instructions: Vec::new(), numbers: HashMap::new(), known: HashMap::new(), waiting: Vec::new() }
    }
    /// Whether runs become graphs.
    pub fn graphs(&self) -> bool {
        self.graphs
    }
    /// The number of an instruction; those that call the same have the same.
    pub fn number(&mut self, resolved: Resolved) -> u32 {
        if let Some(number) = self.numbers.get(&resolved) {
            return *number;
        }
        let (resolved, number) = (Arc::new(resolved), self.instructions.len() as u32);
        self.instructions.push(resolved.clone());
        self.numbers.insert(resolved, number);
        number
    }
    /// An instruction by its number.
    pub fn instruction(&self, number: u32) -> &Arc<Resolved> {
        &self.instructions[number as usize]
    }

    /// Begins a run on a stream.
    ///
    /// # Safety
    /// As [`Driver::launch`].
    ///
    /// # Errors
    /// As [`Driver::launch`], and when the run cannot be captured.
    pub unsafe fn begin(&mut self, driver: &dyn Driver, stream: Stream, run: &[u32]) -> Result<(), Failure> {
        let calls: usize = run.iter().map(|n| self.instructions[*n as usize].calls.len()).sum();
        // SAFETY: as the caller vouches; what is captured is done when the graph is launched, on the same stream.
        unsafe {
            if !self.graphs || calls < SHORTEST {
                return self.each(driver, stream, run);
            }
            let graph = match self.known.get(run) {
                None => {
                    self.known.insert(run.into(), Known::Once);
                    return self.each(driver, stream, run);
                }
                Some(Known::Captured(graph)) => *graph,
                Some(Known::Once) => {
                    driver.capture(stream)?;
                    let begun = self.each(driver, stream, run);
                    // The capture is ended in any case, so that the stream can be used again.
                    let graph = driver.captured(stream);
                    begun?;
                    let graph = graph?;
                    self.known.insert(run.into(), Known::Captured(graph));
                    graph
                }
            };
            driver.replay(stream, graph)
        }
    }

    /// Begins the calls of a run one by one.
    ///
    /// # Safety
    /// As [`Driver::launch`].
    unsafe fn each(&self, driver: &dyn Driver, stream: Stream, run: &[u32]) -> Result<(), Failure> {
        for call in run.iter().flat_map(|n| &self.instructions[*n as usize].calls) {
            // SAFETY: as the caller vouches.
            unsafe { call.begin(driver, stream)? };
        }
        Ok(())
    }
}
