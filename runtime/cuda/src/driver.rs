//! The seam to CUDA: memory, modules, streams and events of one card, and matrix products as cuBLASLt takes them.

use crate::product::Product;
use ir::DType;
use ir::op::Reducer;

/// An address in a card's memory.
pub type Address = u64;

/// A stream: what is begun on it is done in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(pub u64);

/// An event, for streams of any card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event(pub u64);

/// A loaded module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Module(pub u64);

/// An entry of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Function(pub u64);

/// A prepared matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prepared(pub u32);

/// A graph of what was captured, ready to be launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Graph(pub u64);

/// One rank's end of a group that exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Communicator(pub u64);

/// What the members of a group join by: one of them makes it, and the others are told.
pub type GroupName = [u8; 128];

/// What a member asks of its group. All members ask for the same collectives in the same order, and for a receive to every send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "from and to are the first byte that is read and written, peer a member's number")]
pub enum Transfer {
    /// All members' elements combined, for each.
    AllReduce { from: Address, to: Address, elements: usize, reducer: Reducer, dtype: DType },
    /// Of all members' elements combined, `elements` for each.
    ReduceScatter { from: Address, to: Address, elements: usize, reducer: Reducer, dtype: DType },
    /// What each has, `bytes` behind each other, for all.
    AllGather { from: Address, to: Address, bytes: usize },
    /// Bytes for another member.
    Send { from: Address, bytes: usize, peer: u32 },
    /// Bytes from another member.
    Receive { to: Address, bytes: usize, peer: u32 },
    /// Bytes that stay with this member.
    Keep { from: Address, to: Address, bytes: usize },
}

/// What a card is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its name.
    pub name: String,
    /// Its compute capability.
    pub capability: (u32, u32),
    /// Bytes of its memory, and those that nothing has taken.
    pub memory: (u64, u64),
    /// The driver's CUDA version.
    pub version: (u32, u32),
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was done, such as `loading the plan's code`.
    pub doing: String,
    /// What CUDA says.
    pub reason: String,
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of shared memory beside what the entry declares.
    pub shared: u32,
}

/// One card. Calls that take a stream only begin there.
pub trait Driver: Send + Sync {
    /// What it is.
    fn card(&self) -> &Card;
    /// Memory, zeroed, 256-byte aligned; it lives as long as the driver.
    ///
    /// # Errors
    /// When there is not so much.
    fn allocate(&self, bytes: usize) -> Result<Address, Failure>;
    /// Memory of the host that the card copies from and to without the host's help; it lives as long as the driver.
    ///
    /// # Errors
    /// When there is not so much.
    fn pinned(&self, bytes: usize) -> Result<*mut u8, Failure>;
    /// Loads PTX.
    ///
    /// # Errors
    /// When the driver refuses it.
    fn load(&self, ptx: &str) -> Result<Module, Failure>;
    /// Looks an entry up and lets it have `shared` bytes of dynamic shared memory.
    ///
    /// # Errors
    /// When there is none, or the card has not so much shared memory.
    fn function(&self, module: Module, entry: &str, shared: u32) -> Result<Function, Failure>;
    /// A new stream; those that communicate go first where both could.
    ///
    /// # Errors
    /// When CUDA fails.
    fn stream(&self, communicates: bool) -> Result<Stream, Failure>;
    /// A new event, which has passed.
    ///
    /// # Errors
    /// When CUDA fails.
    fn event(&self) -> Result<Event, Failure>;
    /// A new event that also tells when it passed.
    ///
    /// # Errors
    /// When CUDA fails.
    fn timer(&self) -> Result<Event, Failure>;
    /// Seconds from one timer to another, which have both passed.
    ///
    /// # Errors
    /// When one has not.
    fn seconds(&self, from: Event, to: Event) -> Result<f64, Failure>;
    /// Prepares a product whose operands lie at multiples of `alignment` bytes. It may use `workspace` bytes beside them.
    ///
    /// # Errors
    /// When the library cannot do it.
    fn product(&self, product: &Product, tf32: bool, alignment: u32, workspace: usize) -> Result<Prepared, Failure>;

    /// Begins a launch; `parameters` are 64 bits each.
    ///
    /// # Safety
    /// The entry touches only memory that nothing else touches at the same time.
    ///
    /// # Errors
    /// When CUDA refuses it, or something that was begun earlier has failed.
    unsafe fn launch(&self, stream: Stream, function: Function, shape: Shape, parameters: &[u64]) -> Result<(), Failure>;
    /// Begins a prepared product.
    ///
    /// # Safety
    /// As [`Driver::launch`].
    ///
    /// # Errors
    /// As [`Driver::launch`].
    unsafe fn multiply(&self, stream: Stream, product: Prepared, abc: [Address; 3], workspace: (Address, usize)) -> Result<(), Failure>;
    /// Begins a copy within the card's memory, or from another card's.
    ///
    /// # Safety
    /// As [`Driver::launch`].
    ///
    /// # Errors
    /// As [`Driver::launch`].
    unsafe fn copy(&self, stream: Stream, from: Address, to: Address, bytes: usize) -> Result<(), Failure>;
    /// Begins to set bytes.
    ///
    /// # Safety
    /// As [`Driver::launch`].
    ///
    /// # Errors
    /// As [`Driver::launch`].
    unsafe fn set(&self, stream: Stream, to: Address, byte: u8, bytes: usize) -> Result<(), Failure>;
    /// Begins a copy from the host.
    ///
    /// # Safety
    /// As [`Driver::launch`]; `from` stays as it is until the copy is done.
    ///
    /// # Errors
    /// As [`Driver::launch`].
    unsafe fn upload(&self, stream: Stream, from: *const u8, to: Address, bytes: usize) -> Result<(), Failure>;
    /// Begins a copy to the host.
    ///
    /// # Safety
    /// As [`Driver::launch`]; nobody touches `to` until the copy is done.
    ///
    /// # Errors
    /// As [`Driver::launch`].
    unsafe fn download(&self, stream: Stream, from: Address, to: *mut u8, bytes: usize) -> Result<(), Failure>;
    /// Lets an event pass when what was begun on the stream so far is done.
    ///
    /// # Errors
    /// As [`Driver::launch`].
    fn record(&self, stream: Stream, event: Event) -> Result<(), Failure>;
    /// Lets what is begun on the stream from now on wait for the event as it was recorded last.
    ///
    /// # Errors
    /// As [`Driver::launch`].
    fn wait(&self, stream: Stream, event: Event) -> Result<(), Failure>;
    /// Returns when all that was begun on the stream is done.
    ///
    /// # Errors
    /// When some of it failed.
    fn synchronize(&self, stream: Stream) -> Result<(), Failure>;
    /// From now on what is begun on the stream by this thread is put in a graph instead; nothing may be waited for until it is [captured](Driver::captured).
    ///
    /// # Errors
    /// When CUDA fails.
    fn capture(&self, stream: Stream) -> Result<(), Failure>;
    /// Ends the capture that this thread began on the stream, whatever comes of it.
    ///
    /// # Errors
    /// When something was begun that cannot be captured, or CUDA fails.
    fn captured(&self, stream: Stream) -> Result<Graph, Failure>;
    /// Begins all that a graph holds, after what was begun on the stream.
    ///
    /// # Safety
    /// As [`Driver::launch`].
    ///
    /// # Errors
    /// As [`Driver::launch`].
    unsafe fn replay(&self, stream: Stream, graph: Graph) -> Result<(), Failure>;
    /// Whether there is a library that exchanges between cards.
    fn exchanges(&self) -> bool;
    /// A name for a new group.
    ///
    /// # Errors
    /// When the library fails.
    fn name_group(&self) -> Result<GroupName, Failure>;
    /// Joins a group as its member `me`; returns when all have.
    ///
    /// # Errors
    /// When the library fails.
    fn join(&self, name: &GroupName, members: u32, me: u32) -> Result<Communicator, Failure>;
    /// Begins to exchange with the group; done when all members have come to it.
    ///
    /// # Safety
    /// As [`Driver::launch`].
    ///
    /// # Errors
    /// As [`Driver::launch`].
    unsafe fn exchange(&self, stream: Stream, communicator: Communicator, transfers: &[Transfer]) -> Result<(), Failure>;
}
