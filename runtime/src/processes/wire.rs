//! Bytes on a connection: reads and writes that end by a deadline, and messages with a length before them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long one look at a connection lasts before whoever waits asks whether to go on.
pub const LOOK: Duration = Duration::from_millis(100);

fn late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "its time was over")
}

/// Whether an operation only took longer than one look.
pub fn is_slow(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Fills `bytes`, whatever the pace they come at, before `end`.
///
/// # Errors
/// When they do not come, or the connection ends.
pub fn read_by(stream: &mut TcpStream, bytes: &mut [u8], end: Instant) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let left = end.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()).ok_or_else(late)?;
        stream.set_read_timeout(Some(left.min(LOOK)))?;
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => filled += n,
            Err(e) if is_slow(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Writes all of `bytes` before `end`.
///
/// # Errors
/// When the other side does not take them, or the connection ends.
pub fn write_by(stream: &mut TcpStream, bytes: &[u8], end: Instant) -> io::Result<()> {
    stream.set_write_timeout(Some(LOOK))?;
    write_while(stream, bytes, &mut || Instant::now() < end)
}

/// Writes all of `bytes`; wherever that takes longer than a look, `go_on` is asked.
///
/// # Errors
/// When `go_on` says no, or the connection ends.
pub fn write_while(stream: &mut TcpStream, bytes: &[u8], go_on: &mut dyn FnMut() -> bool) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match stream.write(&bytes[written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => written += n,
            Err(e) if is_slow(&e) => {
                if !go_on() {
                    return Err(late());
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Fills `bytes`; wherever that takes longer than a look, `go_on` is asked.
///
/// # Errors
/// When `go_on` says no, or the connection ends.
pub fn read_while(stream: &mut TcpStream, bytes: &mut [u8], go_on: &mut dyn FnMut(usize) -> bool) -> io::Result<()> {
    let (mut filled, mut told) = (0, 0);
    while filled < bytes.len() {
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => filled += n,
            Err(e) if is_slow(&e) => {
                if !go_on(filled - told) {
                    return Err(late());
                }
                told = filled;
            }
            Err(e) => return Err(e),
        }
    }
    if !go_on(filled - told) {
        return Err(late());
    }
    Ok(())
}

/// Sends a message: its length and its bytes.
///
/// # Errors
/// As [`write_by`].
pub fn send_by(stream: &mut TcpStream, message: &[u8], end: Instant) -> io::Result<()> {
    let mut bytes = (message.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(message);
    write_by(stream, &bytes, end)
}

/// The next message, of at most `limit` bytes.
///
/// # Errors
/// As [`read_by`], and when it is longer.
pub fn receive_by(stream: &mut TcpStream, limit: usize, end: Instant) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    read_by(stream, &mut length, end)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > limit {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes")));
    }
    let mut message = vec![0; length];
    read_by(stream, &mut message, end)?;
    Ok(message)
}
