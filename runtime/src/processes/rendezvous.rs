//! How the processes of a run find one another.
//!
//! Rank 0's process listens. Every other one connects, proves that it knows the secret, and says which process of how many it is, of which plan and program,
//! and where it listens for data. When all have come each is told where all others listen. The connections stay, as control channels. Who is not of this run
//! is turned away on a thread of its own, so that somebody who connects and says nothing keeps nobody waiting; who does not come in time is named.

use super::Place;
use super::handshake::{Caller, Secret, Turned, call, listen};
use super::wire::{receive_by, send_by};
use ir::Diagnostic;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long somebody who connected may take to show who they are.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many may be showing that at the same time; more are sent away at once.
const CROWD: usize = 256;
/// How long one try to connect may take, and the pause before the next.
const TRY: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// What the processes of a run must have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// BLAKE3 of the plan.
    pub plan: String,
    /// The plan's file, for messages.
    pub plan_name: String,
    /// The program's version.
    pub version: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    process: u32,
    processes: u32,
    ranks: u32,
    terms: Terms,
    /// Port at which it listens for data.
    port: u16,
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Welcome,
    Refused(Diagnostic),
}

/// Said to everybody when all have come.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Start {
    addresses: Vec<SocketAddr>,
}

/// A process that has joined.
#[derive(Debug)]
pub struct Joined {
    /// Its share.
    pub place: Place,
    /// Control channels by process: in process 0 of all others, elsewhere of process 0.
    pub channels: Vec<Option<TcpStream>>,
    /// Where every process listens for data.
    pub addresses: Vec<SocketAddr>,
    /// Where this one listens for data.
    pub data: TcpListener,
    /// How many callers were turned away.
    pub turned_away: usize,
}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("invariant: messages serialize")
}

/// A listener for rank 0's process at `host:port`; port 0 takes a free one.
///
/// # Errors
/// `E0654` when the address cannot be listened at.
pub fn bind(address: &str) -> Result<TcpListener, Diagnostic> {
    let failed = |e: std::io::Error| {
        Diagnostic::outcome("E0654", format!("rank 0 cannot listen at {address}: {e}")).with_help("name another address with `--rendezvous HOST:PORT`")
    };
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let literal = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() || host == "localhost";
    let listener = match port.parse::<u16>() {
        // On its own host a name may be that of the loopback, which others cannot reach: any address of this host will do.
        Ok(port) if !literal => TcpListener::bind(("0.0.0.0", port)),
        _ => TcpListener::bind(address),
    };
    listener.map_err(failed)
}

/// A listener for data on the interface that the control channel uses.
fn data_listener(own: IpAddr) -> Result<TcpListener, Diagnostic> {
    TcpListener::bind((own, 0)).map_err(|e| Diagnostic::outcome("E0654", format!("no port to receive data at: {e}")))
}

/// Waits, as rank 0's process, for all others.
///
/// # Errors
/// `E0653` when some do not come, `E0655` when one has another plan or program.
pub fn gather(listener: TcpListener, place: Place, terms: &Terms, secret: &Secret, timeout: Duration) -> Result<Joined, Diagnostic> {
    let end = Instant::now() + timeout;
    let own = listener.local_addr().map_err(|e| Diagnostic::outcome("E0654", format!("the rendezvous has no address: {e}")))?.ip();
    let data = data_listener(own)?;
    let mut channels: Vec<Option<TcpStream>> = (0..place.processes).map(|_| None).collect();
    let mut addresses: Vec<Option<SocketAddr>> = vec![None; place.processes as usize];
    addresses[0] = data.local_addr().ok();
    let (sender, callers) = channel::<Result<Caller, (Option<SocketAddr>, Turned)>>();
    let strangers = Strangers { listener, secret: secret.clone(), crowd: Arc::default() };
    let accepting = strangers.accept(end, move |caller| sender.send(caller).is_ok());
    let mut away: Vec<String> = Vec::new();
    let outcome = loop {
        let missing: Vec<u32> = (1..place.processes).filter(|p| channels[*p as usize].is_none()).collect();
        if missing.is_empty() {
            break Ok(());
        }
        let caller = match callers.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Ok(caller)) => caller,
            Ok(Err((from, why))) => {
                away.push(format!("{} {}", from.map_or_else(|| "somebody".into(), |a| a.to_string()), reason(&why)));
                continue;
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break Err(late(&place, &missing, timeout, &away)),
        };
        match admit(caller, &place, terms, &missing, secret) {
            Ok((process, stream, address)) => {
                channels[process as usize] = Some(stream);
                addresses[process as usize] = Some(address);
            }
            Err(Refusal::Away(why)) => away.push(why),
            Err(Refusal::End(d)) => break Err(d),
        }
    };
    accepting.stop();
    outcome?;
    let addresses: Vec<SocketAddr> = addresses.into_iter().flatten().collect();
    let start = encode(&Start { addresses: addresses.clone() });
    for (process, stream) in channels.iter_mut().enumerate() {
        if let Some(stream) = stream {
            let told = send_by(stream, &start, Instant::now() + PATIENCE);
            told.map_err(|e| Diagnostic::outcome("E0653", format!("{} went away while others joined: {e}", place.named(process as u32))))?;
        }
    }
    Ok(Joined { place, channels, addresses, data, turned_away: away.len() })
}

fn late(place: &Place, missing: &[u32], timeout: Duration, away: &[String]) -> Diagnostic {
    let (shown, rest) = missing.split_at(missing.len().min(8));
    let mut names = shown.iter().map(|p| place.named(*p)).collect::<Vec<_>>().join(", ");
    if !rest.is_empty() {
        names += &format!(" and {} more", rest.len());
    }
    let joined = place.processes as usize - missing.len();
    let mut d = Diagnostic::outcome("E0653", format!("{names} did not join within {} s", timeout.as_secs_f64()))
        .with_note(format!("{joined} of {} processes are there", place.processes))
        .with_help("see the logs of the ranks that are missing; `--join-timeout SECONDS` waits longer");
    for why in away.iter().take(4) {
        d = d.with_note(format!("turned away: {why}"));
    }
    if away.len() > 4 {
        d = d.with_note(format!("turned away: {} more", away.len() - 4));
    }
    d
}

fn reason(why: &Turned) -> String {
    match why {
        Turned::Broken(e) if e.kind() == ErrorKind::TimedOut => "said nothing in time".into(),
        Turned::Broken(e) => format!("went away: {e}"),
        Turned::Stranger => "speaks something else".into(),
        Turned::Version(v) => format!("speaks version {v} of the protocol"),
        Turned::Secret => "does not know the secret".into(),
    }
}

enum Refusal {
    /// Somebody who has no place in this run.
    Away(String),
    /// A process of this run that cannot take part.
    End(Diagnostic),
}

/// Lets a caller in, or says why not.
fn admit(caller: Caller, place: &Place, terms: &Terms, missing: &[u32], secret: &Secret) -> Result<(u32, TcpStream, SocketAddr), Refusal> {
    let end = Instant::now() + PATIENCE;
    let Ok(hello) = postcard::from_bytes::<Hello>(&caller.message) else { return Err(Refusal::Away("a caller's message cannot be read".into())) };
    let who = if hello.processes == place.processes { place.named(hello.process) } else { format!("process {} of {}", hello.process, hello.processes) };
    let end_with = if hello.terms.version != terms.version {
        Some(format!("{who} runs version {} of shardwright, and rank 0 version {}", hello.terms.version, terms.version))
    } else if hello.terms.plan != terms.plan {
        let short = |hash: &str| hash.chars().take(12).collect::<String>();
        Some(format!(
            "{who} has another plan: {} ({}), and rank 0 has {} ({})",
            hello.terms.plan_name,
            short(&hello.terms.plan),
            terms.plan_name,
            short(&terms.plan)
        ))
    } else if (hello.processes, hello.ranks) != (place.processes, place.ranks) {
        Some(format!("{who} expects {} processes, and rank 0 expects {}", hello.processes, place.processes))
    } else {
        None
    };
    if let Some(what) = end_with {
        let d = Diagnostic::input("E0655", what).with_help("start all ranks with the same program and the same plan");
        // The caller may be gone; the run ends here all the same.
        let _ = caller.answer(secret, &encode(&Answer::Refused(d.clone())), end);
        return Err(Refusal::End(d));
    }
    if !missing.contains(&hello.process) {
        let what = if hello.process >= place.processes || hello.process == 0 {
            format!("there is no process {} to join: they are 1 to {}", hello.process, place.processes - 1)
        } else {
            format!("{who} has joined already")
        };
        let d = Diagnostic::input("E0655", what.clone()).with_help("give every process its own number");
        let _ = caller.answer(secret, &encode(&Answer::Refused(d)), end);
        return Err(Refusal::Away(what));
    }
    let stream = caller.answer(secret, &encode(&Answer::Welcome), end).map_err(|e| Refusal::Away(format!("{who} went away: {e}")))?;
    let host = stream.peer_addr().map_err(|e| Refusal::Away(format!("{who} went away: {e}")))?.ip();
    Ok((hello.process, stream, SocketAddr::new(host, hello.port)))
}

/// Joins a run at rank 0's address, which `meeting` gives (again and again: rank 0 may not be there yet) with the secret.
///
/// `retry_secret` is for a secret that was found where an earlier run may have left it: then a refusal is no end.
///
/// # Errors
/// `E0652` when the secret is another, `E0653` when rank 0 does not come, `E0655` when rank 0 refuses.
pub fn join(meeting: &dyn Fn() -> Option<(String, Secret)>, retry_secret: bool, place: Place, terms: &Terms, timeout: Duration) -> Result<Joined, Diagnostic> {
    let end = Instant::now() + timeout;
    let mut last = "its address is not known yet".to_string();
    while Instant::now() < end {
        if let Some((address, secret)) = meeting() {
            match knock(&address, &secret, &place, terms, end) {
                Ok(joined) => return Ok(joined),
                Err(Knock::End(d)) => return Err(d),
                Err(Knock::Secret) if !retry_secret => {
                    return Err(Diagnostic::input("E0652", format!("rank 0 at {address} turned {} away: the secret is another", place.named(place.process)))
                        .with_help("give all ranks the same SHARDWRIGHT_SECRET; and see that no other run listens there"));
                }
                Err(Knock::Secret) => last = format!("{address}: the secret is another"),
                Err(Knock::Again(why)) => last = format!("{address}: {why}"),
            }
        }
        std::thread::sleep(PAUSE);
    }
    let d = Diagnostic::outcome("E0653", format!("{} could not join rank 0 within {} s", place.named(place.process), timeout.as_secs_f64()));
    Err(d.with_note(last).with_help("see that rank 0 runs and that its address can be reached from this host; `--join-timeout SECONDS` waits longer"))
}

enum Knock {
    Again(String),
    Secret,
    End(Diagnostic),
}

fn connect(address: &str, end: Instant) -> Result<TcpStream, String> {
    let mut last = "no such host".to_string();
    for candidate in address.to_socket_addrs().map_err(|e| e.to_string())? {
        let left = end.saturating_duration_since(Instant::now()).min(TRY);
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&candidate, left) {
            // A port of this host that nobody listens at may connect to itself.
            Ok(stream) if stream.local_addr().ok() == stream.peer_addr().ok() => last = "nobody listens there".into(),
            Ok(stream) => return Ok(stream),
            Err(e) => last = e.to_string(),
        }
    }
    Err(last)
}

fn knock(address: &str, secret: &Secret, place: &Place, terms: &Terms, end: Instant) -> Result<Joined, Knock> {
    let again = |e: std::io::Error| Knock::Again(e.to_string());
    let mut stream = connect(address, end).map_err(Knock::Again)?;
    let _ = stream.set_nodelay(true);
    let data = data_listener(stream.local_addr().map_err(again)?.ip()).map_err(Knock::End)?;
    let port = data.local_addr().map_err(again)?.port();
    let hello = Hello { process: place.process, processes: place.processes, ranks: place.ranks, terms: terms.clone(), port };
    let answer = match call(&mut stream, secret, &encode(&hello), end.min(Instant::now() + PATIENCE * 2)) {
        Ok(answer) => answer,
        Err(Turned::Secret) => return Err(Knock::Secret),
        Err(Turned::Broken(e)) => return Err(Knock::Again(e.to_string())),
        Err(other) => return Err(Knock::Again(reason(&other))),
    };
    match postcard::from_bytes(&answer) {
        Ok(Answer::Welcome) => {}
        Ok(Answer::Refused(d)) => return Err(Knock::End(d)),
        Err(e) => return Err(Knock::Again(e.to_string())),
    }
    // Rank 0 waits for all others as long as it likes; if it ends, so does this connection.
    let gone = |e: std::io::Error| {
        let what = format!("{} joined, and rank 0 did not say that all others have: {e}", place.named(place.process));
        Knock::End(Diagnostic::outcome("E0653", what).with_help("rank 0 says who is missing"))
    };
    let start = receive_by(&mut stream, 1 << 24, end + PATIENCE).map_err(gone)?;
    let start: Start = postcard::from_bytes(&start).map_err(|e| Knock::Again(e.to_string()))?;
    let mut addresses = start.addresses;
    if addresses.len() != place.processes as usize {
        return Err(Knock::Again("rank 0 counts other processes".into()));
    }
    // Rank 0 cannot know by which of its addresses this process reaches it.
    addresses[0].set_ip(stream.peer_addr().map_err(again)?.ip());
    let mut channels: Vec<Option<TcpStream>> = (0..place.processes).map(|_| None).collect();
    channels[0] = Some(stream);
    Ok(Joined { place: place.clone(), channels, addresses, data, turned_away: 0 })
}

/// Somebody at the door, and who they turn out to be.
struct Strangers {
    listener: TcpListener,
    secret: Secret,
    crowd: Arc<AtomicUsize>,
}

struct Accepting {
    stop: Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Accepting {
    fn stop(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Strangers {
    /// Accepts callers until `end` or until it is stopped, and gives each one, or why they were turned away, to `give`.
    fn accept(self, end: Instant, give: impl Fn(Result<Caller, (Option<SocketAddr>, Turned)>) -> bool + Send + Clone + 'static) -> Accepting {
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = stop.clone();
        let work = move || {
            let Strangers { listener, secret, crowd } = self;
            if listener.set_nonblocking(true).is_err() {
                return;
            }
            while !stopped.load(Ordering::SeqCst) && Instant::now() < end {
                let Ok((stream, from)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                };
                if crowd.load(Ordering::SeqCst) >= CROWD || stream.set_nonblocking(false).is_err() {
                    continue;
                }
                let _ = stream.set_nodelay(true);
                crowd.fetch_add(1, Ordering::SeqCst);
                let (secret, leaving, give) = (secret.clone(), crowd.clone(), give.clone());
                let spawned = std::thread::Builder::new().name("at the door".into()).spawn(move || {
                    let shown = listen(stream, &secret, end.min(Instant::now() + PATIENCE));
                    leaving.fetch_sub(1, Ordering::SeqCst);
                    give(shown.map_err(|why| (Some(from), why)));
                });
                if spawned.is_err() {
                    crowd.fetch_sub(1, Ordering::SeqCst);
                }
            }
        };
        let thread = std::thread::Builder::new().name("rendezvous".into()).spawn(work).ok();
        Accepting { stop, thread }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Visit {
    process: u32,
}

/// Connects this process with those of `partners`, for data: of two the one with the higher number calls.
///
/// # Errors
/// `E0653` when a partner does not answer.
pub fn mesh(joined: Joined, partners: &[u32], secret: &Secret, timeout: Duration) -> Result<(Joined, Vec<Option<TcpStream>>), Diagnostic> {
    let end = Instant::now() + timeout;
    let Joined { place, channels, addresses, data, turned_away } = joined;
    let me = place.process;
    let kept = data.try_clone().map_err(|e| Diagnostic::outcome("E0654", format!("the port for data is gone: {e}")))?;
    let mut streams: Vec<Option<TcpStream>> = (0..place.processes).map(|_| None).collect();
    let (sender, callers) = channel();
    let accepting = Strangers { listener: data, secret: secret.clone(), crowd: Arc::default() }.accept(end, move |c| sender.send(c).is_ok());
    let called = (|| {
        for &p in partners.iter().filter(|p| **p < me) {
            let unreachable = |why: String| {
                let what = format!("{} cannot reach {} at {} for data: {why}", place.named(me), place.named(p), addresses[p as usize]);
                Diagnostic::outcome("E0653", what).with_help("the hosts of a run must reach one another on all TCP ports, not only that of the rendezvous")
            };
            let mut stream = connect(&addresses[p as usize].to_string(), end).map_err(unreachable)?;
            let _ = stream.set_nodelay(true);
            call(&mut stream, secret, &encode(&Visit { process: me }), end).map_err(|t| unreachable(reason(&t)))?;
            streams[p as usize] = Some(stream);
        }
        loop {
            let missing: Vec<u32> = partners.iter().copied().filter(|p| streams[*p as usize].is_none()).collect();
            if missing.is_empty() {
                return Ok(());
            }
            let Ok(caller) = callers.recv_timeout(end.saturating_duration_since(Instant::now())) else { return Err(late(&place, &missing, timeout, &[])) };
            let Ok(caller) = caller else { continue };
            let Ok(Visit { process }) = postcard::from_bytes(&caller.message) else { continue };
            if process > me
                && missing.contains(&process)
                && let Ok(stream) = caller.answer(secret, b"come in", end)
            {
                streams[process as usize] = Some(stream);
            }
        }
    })();
    accepting.stop();
    called?;
    Ok((Joined { place, channels, addresses, data: kept, turned_away }, streams))
}
