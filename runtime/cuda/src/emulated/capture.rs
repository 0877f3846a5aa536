//! Capturing streams into graphs, by the rules of CUDA's programming guide.
//!
//! A captured piece is not done: it becomes a node that follows the last nodes of its stream. An event that is recorded on a capturing stream stands for
//! those nodes, and a stream that waits for it takes part in the capture from then on. What crosses the border of a capture, and what would have to wait for
//! the GPU, is an error that also spoils the capture.

use super::{Piece, failure};
use crate::driver::Failure;
use std::collections::{BTreeMap, HashMap};
use std::thread::ThreadId;

/// A node of a graph.
pub(super) struct Node {
    pub(super) piece: Piece,
    /// The nodes it follows.
    pub(super) after: Vec<usize>,
}

/// A capture that goes on.
struct Capture {
    /// The stream it began on.
    origin: u64,
    thread: ThreadId,
    nodes: Vec<Node>,
    /// The streams that take part, each with its last nodes.
    last: BTreeMap<u64, Vec<usize>>,
    /// The events recorded in it, with the nodes that they stand for.
    events: HashMap<u64, Vec<usize>>,
    spoiled: bool,
}

impl Capture {
    fn spoil(&mut self, doing: &str, why: &str) -> Failure {
        self.spoiled = true;
        failure(doing, why)
    }
    /// Whether a node follows another.
    fn follows(&self, node: usize, other: usize) -> bool {
        node == other || self.nodes[node].after.iter().any(|&n| self.follows(n, other))
    }
}

/// The captures that go on.
#[derive(Default)]
pub(super) struct Captures(Vec<Capture>);

impl Captures {
    fn of(&mut self, stream: u64) -> Option<&mut Capture> {
        self.0.iter_mut().find(|c| c.last.contains_key(&stream))
    }

    /// Begins on a stream.
    pub(super) fn begin(&mut self, stream: u64) -> Result<(), Failure> {
        if let Some(capture) = self.of(stream) {
            return Err(capture.spoil("beginning a capture", "CUDA_ERROR_ILLEGAL_STATE"));
        }
        let thread = std::thread::current().id();
        let last = BTreeMap::from([(stream, Vec::new())]);
        self.0.push(Capture { origin: stream, thread, nodes: Vec::new(), last, events: HashMap::new(), spoiled: false });
        Ok(())
    }

    /// Takes a piece if its stream is captured, else gives it back.
    pub(super) fn take(&mut self, stream: u64, piece: Piece) -> Result<Option<Piece>, Failure> {
        let Some(capture) = self.of(stream) else { return Ok(Some(piece)) };
        if capture.spoiled {
            return Err(failure("capturing", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"));
        }
        let node = capture.nodes.len();
        let last = capture.last.insert(stream, vec![node]).unwrap_or_default();
        capture.nodes.push(Node { piece, after: last });
        Ok(None)
    }

    /// Records an event; whether that was captured.
    pub(super) fn record(&mut self, stream: u64, event: u64) -> bool {
        for capture in &mut self.0 {
            capture.events.remove(&event);
        }
        let Some(capture) = self.of(stream) else { return false };
        let last = capture.last[&stream].clone();
        capture.events.insert(event, last);
        true
    }

    /// Waits for an event; whether that was captured.
    pub(super) fn wait(&mut self, stream: u64, event: u64) -> Result<bool, Failure> {
        let recorded = self.0.iter().position(|c| c.events.contains_key(&event));
        let waits = self.0.iter().position(|c| c.last.contains_key(&stream));
        let doing = "waiting for an event";
        match (recorded, waits) {
            (None, None) => Ok(false),
            (None, Some(w)) => Err(self.0[w].spoil(doing, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION")),
            (Some(r), Some(w)) if r != w => {
                self.0[r].spoiled = true;
                Err(self.0[w].spoil(doing, "CUDA_ERROR_STREAM_CAPTURE_MERGE"))
            }
            (Some(r), _) => {
                let capture = &mut self.0[r];
                let nodes = capture.events[&event].clone();
                let last = capture.last.entry(stream).or_default();
                last.extend(nodes);
                last.sort_unstable();
                last.dedup();
                Ok(true)
            }
        }
    }

    /// Refuses a call that waits for a stream that is captured.
    pub(super) fn refuse_stream(&mut self, doing: &str, stream: u64) -> Result<(), Failure> {
        self.of(stream).map_or(Ok(()), |c| Err(c.spoil(doing, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")))
    }
    /// Refuses a call that may wait for the whole card on a thread that captures.
    pub(super) fn refuse_thread(&mut self, doing: &str) -> Result<(), Failure> {
        let thread = std::thread::current().id();
        let capture = self.0.iter_mut().find(|c| c.thread == thread);
        capture.map_or(Ok(()), |c| Err(c.spoil(doing, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")))
    }

    /// Ends the capture that began on a stream.
    pub(super) fn end(&mut self, stream: u64) -> Result<Vec<Node>, Failure> {
        let doing = "ending a capture";
        let Some(number) = self.0.iter().position(|c| c.last.contains_key(&stream)) else {
            return Err(failure(doing, "CUDA_ERROR_ILLEGAL_STATE"));
        };
        let capture = &mut self.0[number];
        if capture.origin != stream {
            return Err(capture.spoil(doing, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"));
        }
        if capture.thread != std::thread::current().id() {
            return Err(capture.spoil(doing, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"));
        }
        let capture = self.0.remove(number);
        if capture.spoiled {
            return Err(failure(doing, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"));
        }
        let joined = |node: &usize| capture.last[&stream].iter().any(|&last| capture.follows(last, *node));
        if !capture.last.values().flatten().all(joined) {
            return Err(failure(doing, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"));
        }
        Ok(capture.nodes)
    }
}
