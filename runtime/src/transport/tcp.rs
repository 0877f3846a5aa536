//! Messages between processes over TCP: one connection between two processes that exchange any, a thread that reads it, and writers that take turns.

use super::remote::{Carrier, Header, Mail};
use crate::processes::wire::{LOOK, read_while, write_while};
use ir::{Diagnostic, Result};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Messages that are copied behind their header, to be one write.
const SMALL: usize = 1 << 14;

/// Connections with other processes.
#[derive(Debug)]
pub struct Tcp {
    streams: Vec<Option<Mutex<TcpStream>>>,
    closing: Arc<AtomicBool>,
    readers: Mutex<Vec<JoinHandle<()>>>,
}

impl Tcp {
    /// Carries over `streams`, by process; what comes is put into `mail`.
    ///
    /// # Errors
    /// `E0681` when a connection cannot be set up.
    pub fn over(streams: Vec<Option<TcpStream>>, mail: &Arc<Mail>) -> Result<Box<dyn Carrier>> {
        let broken = |e: std::io::Error| Diagnostic::outcome("E0681", format!("a data connection cannot be set up: {e}"));
        let closing = Arc::new(AtomicBool::new(false));
        let (mut kept, mut readers) = (Vec::new(), Vec::new());
        for (process, stream) in streams.into_iter().enumerate() {
            let Some(stream) = stream else {
                kept.push(None);
                continue;
            };
            stream.set_read_timeout(Some(LOOK)).and_then(|()| stream.set_write_timeout(Some(LOOK))).map_err(broken)?;
            let reading = stream.try_clone().map_err(broken)?;
            let (mail, closing) = (mail.clone(), closing.clone());
            let thread = std::thread::Builder::new().name(format!("data {process}")).spawn(move || read(process as u32, reading, &mail, &closing));
            readers.push(thread.map_err(broken)?);
            kept.push(Some(Mutex::new(stream)));
        }
        Ok(Box::new(Tcp { streams: kept, closing, readers: Mutex::new(readers) }))
    }
}

fn read(process: u32, mut stream: TcpStream, mail: &Mail, closing: &AtomicBool) {
    let mut go_on = |_| !closing.load(Ordering::SeqCst);
    loop {
        let mut head = [0; Header::BYTES];
        if read_while(&mut stream, &mut head, &mut go_on).is_err() {
            return mail.ended(process);
        }
        let header = Header::from_bytes(&head);
        let mut buffer = match mail.buffer(process, header) {
            Ok(buffer) => buffer,
            Err(what) => {
                mail.control().fail(Diagnostic::outcome("E0681", format!("{} sent what is no message: {what}", mail.control().place().named(process))), &[]);
                return mail.ended(process);
            }
        };
        if read_while(&mut stream, &mut buffer, &mut go_on).is_err() {
            return mail.ended(process);
        }
        mail.deliver(header, buffer);
    }
}

impl Carrier for Tcp {
    fn send(&self, process: u32, header: Header, bytes: &[u8], go_on: &mut dyn FnMut() -> bool) -> std::result::Result<(), String> {
        let stream = self.streams.get(process as usize).and_then(Option::as_ref).ok_or("there is none")?;
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        let head = header.to_bytes();
        let sent = if bytes.len() <= SMALL {
            write_while(&mut stream, &[&head[..], bytes].concat(), go_on)
        } else {
            write_while(&mut stream, &head, go_on).and_then(|()| write_while(&mut stream, bytes, go_on))
        };
        sent.map_err(|e| e.to_string())
    }
    fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        for stream in self.streams.iter().flatten() {
            let _ = stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
        }
        for thread in std::mem::take(&mut *self.readers.lock().unwrap_or_else(PoisonError::into_inner)) {
            let _ = thread.join();
        }
    }
}
