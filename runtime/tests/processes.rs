//! Processes that meet, as threads of one: strangers at the rendezvous, who is missing, and ranks that would not communicate alike.

mod support;

use ir::program::ScheduleKind;
use ir::{DType, Diagnostic};
use runtime::processes::Place;
use runtime::processes::control::{Control, Watch};
use runtime::processes::handshake::Secret;
use runtime::processes::rendezvous::{self, Joined, Terms};
use runtime::transport::Fabric;
use runtime::transport::remote::Remote;
use runtime::transport::tcp::Tcp;
use runtime::{Arguments, Options, Session};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use support::*;

const TIME: Duration = Duration::from_secs(60);

fn terms() -> Terms {
    Terms { plan: "one".into(), plan_name: "a.plan".into(), version: "1".into() }
}

fn place(process: u32) -> Place {
    Place { process, processes: 2, ranks: 2 }
}

fn joining(address: String, secret: &str, process: u32, terms: Terms) -> std::thread::JoinHandle<Result<Joined, Diagnostic>> {
    let secret = Secret::of(secret);
    std::thread::spawn(move || rendezvous::join(&|| Some((address.clone(), secret.clone())), false, place(process), &terms, TIME))
}

#[test]
fn strangers_disturb_nobody() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // One says nothing, one speaks something else, one begins well and stops; all stay connected.
    let mut strangers: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(&address).unwrap()).collect();
    strangers[1].write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    strangers[2].write_all(b"SHRDWRGT").unwrap();
    let wrong = joining(address.clone(), "guessed", 1, terms());
    let theirs = address.clone();
    let right = std::thread::spawn(move || {
        // After the wrong one was turned away.
        assert_eq!(wrong.join().unwrap().unwrap_err().code, "E0652");
        joining(theirs, "known", 1, terms()).join().unwrap()
    });
    let joined = rendezvous::gather(listener, place(0), &terms(), &Secret::of("known"), TIME).unwrap_or_else(|d| panic!("{d}"));
    assert!(joined.turned_away >= 1 && joined.channels[1].is_some());
    assert_eq!(right.join().unwrap().unwrap_or_else(|d| panic!("{d}")).addresses.len(), 2);
}

#[test]
fn who_does_not_come_is_named_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let short = Duration::from_millis(300);
    let three = Place { process: 0, processes: 3, ranks: 6 };
    let d = rendezvous::gather(listener, three, &terms(), &Secret::of("known"), short).unwrap_err();
    assert!(d.code == "E0653" && d.message.contains("ranks 2 to 3, ranks 4 to 5"), "{d}");
    drop(silent);
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let d = rendezvous::join(&|| Some((nowhere.clone(), Secret::of("known"))), false, place(1), &terms(), short).unwrap_err();
    assert_eq!(d.code, "E0653", "{d}");
}

#[test]
fn another_plan_or_number_is_told_apart() {
    let other = Terms { plan: "other".into(), ..terms() };
    for (theirs, process, says) in [(other, 1, "another plan"), (Terms { version: "2".into(), ..terms() }, 1, "version 2")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let joining = joining(listener.local_addr().unwrap().to_string(), "known", process, theirs);
        let d = rendezvous::gather(listener, place(0), &terms(), &Secret::of("known"), TIME).unwrap_err();
        assert!(d.code == "E0655" && d.message.contains(says), "{d}");
        assert_eq!(joining.join().unwrap().unwrap_err(), d);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // There is no process 5; the run goes on without it.
    let away = joining(address.clone(), "known", 5, terms());
    let right = std::thread::spawn(move || {
        assert_eq!(away.join().unwrap().unwrap_err().code, "E0655");
        joining(address, "known", 1, terms()).join().unwrap()
    });
    assert!(rendezvous::gather(listener, place(0), &terms(), &Secret::of("known"), TIME).is_ok());
    assert!(right.join().unwrap().is_ok());
}

/// A program of two ranks that sums a value twice, once of each kind, in an order that may be turned round.
fn plan_of(turned: bool) -> Arc<ir::plan::Plan> {
    let mut b = Builder::new(0, &[2], 0);
    let (x, y) = (b.buffer("x", DType::F32, &[8], 1), b.buffer("y", DType::F32, &[16], 1));
    let sums = [all_reduce(&[0], DType::F32, &[(x, 8)]), all_reduce(&[0], DType::F32, &[(y, 16)])];
    let order = if turned { [1, 0] } else { [0, 1] };
    for i in order {
        b.add(3, sums[i].clone(), &[[x, y][i]], &[[x, y][i]]);
    }
    b.input(0, x, &[8], false, &[&[]]);
    b.input(1, y, &[16], false, &[&[]]);
    b.output(0, x, &[8], false, &[&[]]);
    Arc::new(plan(vec![b.program], &[f32s(&[8]), f32s(&[16])], &[f32s(&[8])], ScheduleKind::OneFOneB, 1))
}

/// Runs a step of each process's plan.
fn step(plans: [Arc<ir::plan::Plan>; 2]) -> Vec<Result<Arguments, ir::Diagnostics>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut listener = Some(listener);
    let threads: Vec<_> = plans
        .into_iter()
        .enumerate()
        .map(|(p, plan)| {
            let (listener, address) = (listener.take(), address.clone());
            std::thread::spawn(move || {
                let (secret, place) = (Secret::of("known"), place(p as u32));
                let joined = match listener {
                    Some(listener) => rendezvous::gather(listener, place.clone(), &terms(), &secret, TIME),
                    None => rendezvous::join(&|| Some((address.clone(), secret.clone())), false, place.clone(), &terms(), TIME),
                };
                let programs: Arc<[ir::program::Program]> = plan.programs.clone().into();
                let partners = Remote::partners(&programs, plan.schedule.kind, 1, &place).unwrap_or_else(|e| panic!("{e}"));
                let (Joined { channels, .. }, streams) = rendezvous::mesh(joined?, &partners, &secret, TIME)?;
                let control = Control::start(place, programs.clone(), channels, Watch { fault_timeout: TIME, records: None })?;
                let remote = Remote::new(programs, plan.schedule.kind, 1, control, TIME, None, |mail| Tcp::over(streams, mail))?;
                let fabric: Arc<dyn Fabric> = remote.clone();
                let done = (|| {
                    let mut session = Session::open_on(&plan, &Options::default(), &fabric)?;
                    session.set_inputs(&Arguments::from([(0, tensor(&[8], &numbers(8, 1))), (1, tensor(&[16], &numbers(16, 2)))]))?;
                    session.step(&Arguments::new())?;
                    session.results(&[0])
                })();
                if done.is_ok() {
                    remote.close();
                } else {
                    remote.abandon();
                }
                done
            })
        })
        .collect();
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}

#[test]
fn ranks_that_would_not_communicate_alike_are_told_before_the_first_step() {
    let done = step([plan_of(false), plan_of(false)]);
    let sums: Vec<f32> = numbers(8, 1).iter().map(|x| x + x).collect();
    assert_eq!(done[0].as_ref().unwrap_or_else(|e| panic!("{e}"))[&0], tensor(&[8], &sums));
    let done = step([plan_of(false), plan_of(true)]);
    for d in done {
        let d = d.expect_err("they differ");
        let (first, text) = (d.0[0].clone(), d.to_string());
        assert!(first.code == "E0682" && first.message.contains("ranks 0 and 1") && first.message.contains("communication 1 differs"), "{text}");
        assert!(text.contains("rank 0: the all-reduce") && text.contains("32 bytes") && text.contains("64 bytes"), "{text}");
    }
}
