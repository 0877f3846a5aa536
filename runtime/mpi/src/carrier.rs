//! The carrier: senders leave copies of their messages to a thread, which sends them, receives what comes, and puts it into the mailboxes.
//!
//! A message is its header, with its bytes behind it where they are few; else they follow in parts. MPI keeps the order of messages from one process to
//! another, so one receive at a time is posted for each process that sends: for a header, then for what it announces.

use crate::calls::{MOST, Transfer, World};
use ir::{Diagnostic, Result};
use runtime::transport::remote::{Carrier, Header, Mail};
use std::collections::VecDeque;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that travel behind their header.
const SMALL: usize = 1 << 13;
/// Bytes that may wait to be sent before senders wait.
const WAITING: usize = 64 << 20;
const HEAD: i32 = 1;
const BODY: i32 = 2;
/// How long the thread rests when nothing moves, after so many looks in vain; who leaves it a message wakes it.
const REST: Duration = Duration::from_micros(50);
const LOOKS: u32 = 50;
/// How long a sender waits before it asks whether to go on.
const LOOK: Duration = Duration::from_millis(100);
/// How long processes that have done their part wait for what is on its way.
const PATIENCE_AT_THE_END: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Queue {
    messages: VecDeque<(u32, Header, Vec<u8>)>,
    /// Bytes that were left and are not yet sent.
    bytes: usize,
    /// Buffers that were sent, to be filled again.
    pool: Vec<Vec<u8>>,
    closing: bool,
    broken: Option<String>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Something was left to be sent.
    left: Condvar,
    /// There is room again, or no more sending.
    sent: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends and receives through MPI.
struct Mpi {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Carries messages with `partners` through MPI; what comes is put into `mail`. `told` is given the library's name once all processes have started it.
///
/// # Errors
/// `E0686` when MPI does not start within `timeout`, or counts the processes in another way than the launcher; the run's failure when it comes first.
pub fn over(mail: &Arc<Mail>, partners: &[u32], timeout: Duration, told: impl FnOnce(&str)) -> Result<Box<dyn Carrier>> {
    let refused = |why: String| Diagnostic::outcome("E0686", format!("MPI cannot be used: {why}")).with_help("`--carrier tcp` does without it");
    let shared = Arc::new(Shared::default());
    let (started, ready) = sync_channel(1);
    let (own, theirs, partners) = (shared.clone(), mail.clone(), partners.to_vec());
    let thread = std::thread::Builder::new().name("mpi".into()).spawn(move || work(&own, &theirs, &partners, &started));
    let thread = thread.map_err(|e| refused(format!("its thread cannot be started: {e}")))?;
    let begun = Instant::now();
    loop {
        match ready.recv_timeout(LOOK) {
            Ok(Ok(library)) => {
                told(&library);
                return Ok(Box::new(Mpi { shared, thread: Mutex::new(Some(thread)) }));
            }
            Ok(Err(why)) => return Err(refused(why).into()),
            Err(RecvTimeoutError::Disconnected) => return Err(refused("its thread ended".into()).into()),
            // A process that never starts MPI would keep this one waiting in it for ever.
            Err(RecvTimeoutError::Timeout) if mail.control().has_failed() => {
                return Err(mail.control().failure().unwrap_or_else(|| refused("the run has failed".into())).into());
            }
            Err(RecvTimeoutError::Timeout) if begun.elapsed() > timeout => {
                return Err(refused(format!("not all processes started it within {} s", timeout.as_secs_f64())).into());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

impl Carrier for Mpi {
    fn send(&self, process: u32, header: Header, bytes: &[u8], go_on: &mut dyn FnMut() -> bool) -> std::result::Result<(), String> {
        let mut queue = self.shared.lock();
        loop {
            if let Some(why) = &queue.broken {
                return Err(why.clone());
            }
            if queue.bytes == 0 || queue.bytes + bytes.len() <= WAITING {
                break;
            }
            let (again, waited) = self.shared.sent.wait_timeout(queue, LOOK).unwrap_or_else(PoisonError::into_inner);
            queue = again;
            if waited.timed_out() && !go_on() {
                return Err("its time was over".into());
            }
        }
        queue.bytes += bytes.len();
        let mut buffer = queue.pool.pop().unwrap_or_default();
        drop(queue);
        // What MPI reads must stay as it is for as long as MPI likes, also when the sender gives up.
        buffer.clear();
        if bytes.len() <= SMALL {
            buffer.extend_from_slice(&header.to_bytes());
        }
        buffer.extend_from_slice(bytes);
        self.shared.lock().messages.push_back((process, header, buffer));
        self.shared.left.notify_one();
        Ok(())
    }
    fn close(&self) {
        self.shared.lock().closing = true;
        self.shared.left.notify_one();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // To end MPI waits for all processes: one that died meanwhile keeps nobody.
            let begun = Instant::now();
            while !thread.is_finished() && begun.elapsed() < 2 * PATIENCE_AT_THE_END {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

fn work(shared: &Shared, mail: &Mail, partners: &[u32], started: &SyncSender<std::result::Result<String, String>>) {
    let place = mail.control().place();
    let world = World::start().and_then(|world| {
        if (world.rank, world.size) == (place.process, place.processes) {
            return Ok(world);
        }
        Err(format!("it counts this process as {} of {}, and the launcher as {} of {}", world.rank, world.size, place.process, place.processes))
    });
    let world = match world {
        Ok(world) => world,
        Err(why) => return drop(started.send(Err(why))),
    };
    // Who asked may have given up.
    let _ = started.send(Ok(world.library.clone()));
    let mut lines: Vec<Line> = partners.iter().map(|p| Line { process: *p, coming: None, sending: VecDeque::new() }).collect();
    match carry(shared, mail, &mut lines) {
        Ok(()) => world.end(),
        Err(why) => {
            shared.lock().broken = Some(why);
            shared.sent.notify_all();
            for line in &lines {
                mail.ended(line.process);
            }
        }
    }
}

/// What is on its way between this process and another.
struct Line {
    process: u32,
    coming: Option<Coming>,
    sending: VecDeque<(Transfer, usize)>,
}

enum Coming {
    Head(Transfer),
    Body(Header, Transfer),
}

/// Sends and receives until it is to end: then, of a run that ended well, what is on its way is waited for.
fn carry(shared: &Shared, mail: &Mail, lines: &mut [Line]) -> std::result::Result<(), String> {
    let (mut vain, mut closing) = (0, None);
    loop {
        let mut moved = false;
        let left: Vec<_> = {
            let mut queue = shared.lock();
            if queue.closing && closing.is_none() {
                closing = Some(Instant::now());
            }
            queue.messages.drain(..).collect()
        };
        for (process, header, buffer) in left {
            moved = true;
            let line = lines.iter_mut().find(|l| l.process == process).ok_or_else(|| format!("process {process} is no partner"))?;
            line.send(header, buffer)?;
        }
        for line in lines.iter_mut() {
            moved |= line.sent(shared)?;
            moved |= line.receive(mail)?;
        }
        if let Some(since) = closing {
            if mail.control().has_failed() {
                return Err("the run has failed".into());
            }
            if lines.iter().all(|l| l.sending.is_empty()) {
                lines.iter_mut().for_each(Line::stop);
                return Ok(());
            }
            if since.elapsed() > PATIENCE_AT_THE_END {
                return Err("what was sent is not taken".into());
            }
        }
        vain = if moved { 0 } else { vain + 1 };
        if vain > LOOKS {
            let queue = shared.lock();
            if queue.messages.is_empty() && !queue.closing {
                drop(shared.left.wait_timeout(queue, REST));
            } else if queue.messages.is_empty() {
                drop(queue);
                std::thread::sleep(REST);
            }
        } else {
            std::thread::yield_now();
        }
    }
}

impl Line {
    /// Begins to send a message: its header with its bytes, or both apart.
    fn send(&mut self, header: Header, buffer: Vec<u8>) -> std::result::Result<(), String> {
        let bytes = header.bytes as usize;
        if bytes <= SMALL {
            let all = 0..buffer.len();
            self.sending.push_back((Transfer::send(buffer, all, self.process, HEAD)?, bytes));
            return Ok(());
        }
        self.sending.push_back((Transfer::send(header.to_bytes().to_vec(), 0..Header::BYTES, self.process, HEAD)?, 0));
        // Only the last part has the buffer to give back; parts before it are copies, of messages beyond what most MPIs count.
        let mut begun = 0;
        while bytes - begun > MOST {
            self.sending.push_back((Transfer::send(buffer[begun..begun + MOST].to_vec(), 0..MOST, self.process, BODY)?, 0));
            begun += MOST;
        }
        self.sending.push_back((Transfer::send(buffer, begun..bytes, self.process, BODY)?, bytes));
        Ok(())
    }

    /// Takes back what was sent; whether anything was.
    fn sent(&mut self, shared: &Shared) -> std::result::Result<bool, String> {
        let mut any = false;
        while let Some((transfer, _)) = self.sending.front_mut() {
            if !transfer.look()? {
                break;
            }
            let (transfer, bytes) = self.sending.pop_front().expect("invariant: it was looked at");
            let mut queue = shared.lock();
            queue.bytes -= bytes;
            if queue.pool.len() < 64 {
                queue.pool.push(transfer.take());
            }
            drop(queue);
            shared.sent.notify_all();
            any = true;
        }
        Ok(any)
    }

    /// Receives what has come; whether anything has.
    fn receive(&mut self, mail: &Mail) -> std::result::Result<bool, String> {
        let coming = match self.coming.take() {
            Some(coming) => coming,
            None => Coming::Head(Transfer::receive(vec![0; Header::BYTES + SMALL], 0..Header::BYTES + SMALL, self.process, HEAD)?),
        };
        let (next, any) = match coming {
            Coming::Head(mut transfer) => {
                if !transfer.look()? {
                    (Coming::Head(transfer), false)
                } else {
                    let head = transfer.take();
                    let header = Header::from_bytes(head[..Header::BYTES].try_into().expect("invariant: a header's bytes"));
                    let mut buffer = self.buffer(mail, header)?;
                    if buffer.len() <= SMALL {
                        let bytes = buffer.len();
                        buffer.copy_from_slice(&head[Header::BYTES..Header::BYTES + bytes]);
                        mail.deliver(header, buffer);
                        let all = 0..head.len();
                        (Coming::Head(Transfer::receive(head, all, self.process, HEAD)?), true)
                    } else {
                        let part = 0..buffer.len().min(MOST);
                        (Coming::Body(header, Transfer::receive(buffer, part, self.process, BODY)?), true)
                    }
                }
            }
            Coming::Body(header, mut transfer) => {
                if !transfer.look()? {
                    (Coming::Body(header, transfer), false)
                } else {
                    let begun = transfer.end();
                    let buffer = transfer.take();
                    if begun < buffer.len() {
                        let part = begun..buffer.len().min(begun + MOST);
                        (Coming::Body(header, Transfer::receive(buffer, part, self.process, BODY)?), true)
                    } else {
                        mail.deliver(header, buffer);
                        let size = Header::BYTES + SMALL;
                        (Coming::Head(Transfer::receive(vec![0; size], 0..size, self.process, HEAD)?), true)
                    }
                }
            }
        };
        self.coming = Some(next);
        Ok(any)
    }

    fn buffer(&self, mail: &Mail, header: Header) -> std::result::Result<Vec<u8>, String> {
        mail.buffer(self.process, header).map_err(|what| {
            let control = mail.control();
            control.fail(Diagnostic::outcome("E0681", format!("{} sent what is no message: {what}", control.place().named(self.process))), &[]);
            what
        })
    }

    /// Takes back the receive that is posted: nothing more will come.
    fn stop(&mut self) {
        if let Some(Coming::Head(transfer) | Coming::Body(_, transfer)) = &mut self.coming {
            transfer.cancel();
        }
    }
}
