//! How two processes make sure of each other before they say anything else: protocol, then the shared secret.
//!
//! Each side sends a magic, its protocol version and a nonce; then each proves with a keyed BLAKE3 of both nonces and of its first message that it knows the
//! secret, which is never sent. Whoever does not (a port scanner, another job) is turned away, and learns nothing but that. What follows on the connection is
//! neither signed nor encrypted: the network between the hosts of a run is trusted with the data, not with who takes part.

use super::wire::{read_by, receive_by, send_by, write_by};
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::time::Instant;

const MAGIC: [u8; 8] = *b"SHRDWRGT";
/// The protocol that this build speaks.
pub const VERSION: u32 = 1;
/// A first message is short.
const LONGEST: usize = 1 << 20;

/// What processes of one run know and others do not.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// The secret of a text.
    pub fn of(text: &str) -> Secret {
        Secret(blake3::derive_key("shardwright 2026 processes of one run", text.as_bytes()))
    }
    /// A text that nobody can guess.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn random_text() -> io::Result<String> {
        Ok(random()?.iter().map(|b| format!("{b:02x}")).collect())
    }
    fn proof(&self, side: &str, nonces: &[[u8; 32]; 2], message: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(side.as_bytes());
        hasher.update(&nonces[0]).update(&nonces[1]).update(message);
        hasher.finalize()
    }
}

fn random() -> io::Result<[u8; 32]> {
    use std::io::Read;
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Why a handshake failed.
#[derive(Debug)]
pub enum Turned {
    /// The connection failed, or its time was over.
    Broken(io::Error),
    /// The other side speaks something else.
    Stranger,
    /// It speaks another version of the protocol.
    Version(u32),
    /// It does not know the secret.
    Secret,
}

impl From<io::Error> for Turned {
    fn from(e: io::Error) -> Turned {
        Turned::Broken(e)
    }
}

/// The greeting: magic, version, nonce.
fn greeting(nonce: &[u8; 32]) -> Vec<u8> {
    [&MAGIC[..], &VERSION.to_le_bytes(), nonce].concat()
}

fn read_greeting(stream: &mut TcpStream, end: Instant) -> Result<[u8; 32], Turned> {
    // What is no greeting is seen by its first bytes: a stranger need not send all of it.
    let mut magic = [0; 8];
    read_by(stream, &mut magic, end)?;
    if magic != MAGIC {
        return Err(Turned::Stranger);
    }
    let mut rest = [0; 36];
    read_by(stream, &mut rest, end)?;
    let version = u32::from_le_bytes(rest[..4].try_into().expect("invariant: four bytes"));
    if version != VERSION {
        return Err(Turned::Version(version));
    }
    Ok(rest[4..].try_into().expect("invariant: 32 bytes"))
}

fn send_proven(stream: &mut TcpStream, proof: &blake3::Hash, message: &[u8], end: Instant) -> io::Result<()> {
    send_by(stream, &[&proof.as_bytes()[..], message].concat(), end)
}

fn receive_proven(stream: &mut TcpStream, secret: &Secret, side: &str, nonces: &[[u8; 32]; 2], end: Instant) -> Result<Vec<u8>, Turned> {
    let mut bytes = receive_by(stream, LONGEST, end)?;
    let Some(proof) = bytes.get(..32).and_then(|p| p.try_into().ok()).map(blake3::Hash::from_bytes) else { return Err(Turned::Secret) };
    let message = bytes.split_off(32);
    // The comparison takes as long wherever they differ.
    if secret.proof(side, nonces, &message) == proof { Ok(message) } else { Err(Turned::Secret) }
}

/// The side that connected: says `message`, and returns the answer.
///
/// # Errors
/// Why the other side is not of this run.
pub fn call(stream: &mut TcpStream, secret: &Secret, message: &[u8], end: Instant) -> Result<Vec<u8>, Turned> {
    let mine = random()?;
    write_by(stream, &greeting(&mine), end)?;
    let nonces = [mine, read_greeting(stream, end)?];
    send_proven(stream, &secret.proof("caller", &nonces, message), message, end)?;
    // A listener that does not believe us just goes.
    match receive_proven(stream, secret, "listener", &nonces, end) {
        Err(Turned::Broken(e)) if matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => Err(Turned::Secret),
        other => other,
    }
}

/// A caller that has proven that it knows the secret, and waits for the answer to its message.
#[derive(Debug)]
pub struct Caller {
    stream: TcpStream,
    nonces: [[u8; 32]; 2],
    /// What it said.
    pub message: Vec<u8>,
}

/// The side that was connected to: returns who has proven to know the secret.
///
/// # Errors
/// Why the other side is not of this run.
pub fn listen(mut stream: TcpStream, secret: &Secret, end: Instant) -> Result<Caller, Turned> {
    let mine = random()?;
    let theirs = read_greeting(&mut stream, end)?;
    write_by(&mut stream, &greeting(&mine), end)?;
    let nonces = [theirs, mine];
    let message = receive_proven(&mut stream, secret, "caller", &nonces, end)?;
    Ok(Caller { stream, nonces, message })
}

impl Caller {
    /// Answers, and returns the connection.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn answer(mut self, secret: &Secret, message: &[u8], end: Instant) -> io::Result<TcpStream> {
        let proof = secret.proof("listener", &self.nonces, message);
        send_proven(&mut self.stream, &proof, message, end)?;
        Ok(self.stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::Duration;

    fn meet(caller: &str, listener: &str) -> (Result<Vec<u8>, Turned>, bool) {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        let key = Secret::of(listener);
        let thread = std::thread::spawn(move || {
            let called = listen(socket.accept().unwrap().0, &key, end);
            called.is_ok_and(|c| c.message == b"hello" && c.answer(&key, b"welcome", end).is_ok())
        });
        let answer = call(&mut TcpStream::connect(address).unwrap(), &Secret::of(caller), b"hello", end);
        (answer, thread.join().unwrap())
    }

    #[test]
    fn only_who_knows_the_secret_is_answered() {
        assert!(matches!(meet("same", "same"), (Ok(m), true) if m == b"welcome"));
        assert!(matches!(meet("one", "other"), (Err(Turned::Secret), false)));
    }
}
