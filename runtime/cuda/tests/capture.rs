//! Graphs on the GPU in software: what CUDA refuses to capture is refused, and what was captured is done in every order that was captured.

use cuda::driver::{Address, Driver, Failure, Stream};
use cuda::emulated::{Behaviour, EmulatedGpu};
use std::collections::BTreeSet;
use std::sync::Arc;

fn gpu(seed: u64) -> Arc<EmulatedGpu> {
    EmulatedGpu::new(Behaviour { seed, ..Behaviour::default() })
}

/// Begins to set 16 bytes.
fn set(gpu: &EmulatedGpu, stream: Stream, to: Address, byte: u8) -> Result<(), Failure> {
    // SAFETY: tests set memory that they allocated.
    unsafe { gpu.set(stream, to, byte, 16) }
}

fn read(gpu: &EmulatedGpu, stream: Stream, from: Address) -> u8 {
    let mut bytes = [0u8; 16];
    // SAFETY: the copy is waited for.
    unsafe { gpu.download(stream, from, bytes.as_mut_ptr(), 16).unwrap() };
    gpu.synchronize(stream).unwrap();
    bytes[0]
}

fn why<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
    result.unwrap_err().reason
}

#[test]
fn what_is_captured_is_done_when_it_is_launched_and_as_often() {
    let gpu = gpu(1);
    let (stream, a) = (gpu.stream(false).unwrap(), gpu.allocate(16).unwrap());
    let b = gpu.allocate(16).unwrap();
    gpu.capture(stream).unwrap();
    set(&gpu, stream, a, 5).unwrap();
    // SAFETY: memory of this test.
    unsafe { gpu.copy(stream, a, b, 16).unwrap() };
    let graph = gpu.captured(stream).unwrap();
    assert_eq!((read(&gpu, stream, a), read(&gpu, stream, b)), (0, 0));
    for _ in 0..3 {
        set(&gpu, stream, b, 9).unwrap();
        // SAFETY: as above.
        unsafe { gpu.replay(stream, graph).unwrap() };
        assert_eq!((read(&gpu, stream, a), read(&gpu, stream, b)), (5, 5));
    }
    assert_eq!(gpu.graphs(), [1, 3]);
}

/// What two branches leave where both write, over many orders.
fn outcomes(join: bool) -> BTreeSet<u8> {
    let once = |seed| {
        let gpu = gpu(seed);
        let (main, side) = (gpu.stream(false).unwrap(), gpu.stream(true).unwrap());
        let (a, other) = (gpu.allocate(16).unwrap(), gpu.allocate(16).unwrap());
        let (fork, joined) = (gpu.event().unwrap(), gpu.event().unwrap());
        gpu.capture(main).unwrap();
        gpu.record(main, fork).unwrap();
        gpu.wait(side, fork).unwrap();
        set(&gpu, side, a, 1).unwrap();
        gpu.record(side, joined).unwrap();
        if join {
            gpu.wait(main, joined).unwrap();
        }
        set(&gpu, main, a, 2).unwrap();
        if !join {
            gpu.wait(main, joined).unwrap();
            set(&gpu, main, other, 0).unwrap();
        }
        let graph = gpu.captured(main).unwrap();
        // SAFETY: memory of this test.
        unsafe { gpu.replay(main, graph).unwrap() };
        read(&gpu, main, a)
    };
    (0..32).map(once).collect()
}

#[test]
fn branches_are_ordered_by_what_was_captured_and_by_nothing_else() {
    assert_eq!(outcomes(true), BTreeSet::from([2]));
    assert_eq!(outcomes(false), BTreeSet::from([1, 2]));
}

#[test]
fn what_cannot_be_captured_is_refused_and_spoils_the_capture() {
    type Wrong = fn(&EmulatedGpu, Stream) -> Result<(), Failure>;
    let wrong: [(Wrong, &str); 5] = [
        (|g, s| g.synchronize(s), "STREAM_CAPTURE_UNSUPPORTED"),
        (|g, _| g.allocate(16).map(drop), "STREAM_CAPTURE_UNSUPPORTED"),
        (|g, _| g.load(".version 7.0\n.target sm_80\n.address_size 64\n").map(drop), "STREAM_CAPTURE_UNSUPPORTED"),
        (|g, s| g.capture(s), "ILLEGAL_STATE"),
        (
            |g, s| {
                let (other, outside) = (g.stream(true)?, g.event()?);
                g.record(other, outside)?;
                g.wait(s, outside)
            },
            "STREAM_CAPTURE_ISOLATION",
        ),
    ];
    for (wrong, reason) in wrong {
        let gpu = gpu(0);
        let (stream, a) = (gpu.stream(false).unwrap(), gpu.allocate(16).unwrap());
        gpu.capture(stream).unwrap();
        set(&gpu, stream, a, 1).unwrap();
        assert!(why(wrong(&gpu, stream)).contains(reason), "{reason}");
        assert!(why(set(&gpu, stream, a, 1)).contains("INVALIDATED"), "{reason}");
        assert!(why(gpu.captured(stream)).contains("INVALIDATED"), "{reason}");
        // The stream is as it was.
        set(&gpu, stream, a, 3).unwrap();
        assert_eq!(read(&gpu, stream, a), 3);
    }
}

#[test]
fn a_capture_ends_where_it_began_with_all_its_streams() {
    let gpu = gpu(0);
    let (main, side) = (gpu.stream(false).unwrap(), gpu.stream(true).unwrap());
    let (a, fork) = (gpu.allocate(16).unwrap(), gpu.event().unwrap());
    assert!(why(gpu.captured(main)).contains("ILLEGAL_STATE"));
    gpu.capture(main).unwrap();
    gpu.record(main, fork).unwrap();
    gpu.wait(side, fork).unwrap();
    set(&gpu, side, a, 1).unwrap();
    assert!(why(gpu.captured(side)).contains("UNMATCHED"));
    assert!(why(gpu.captured(main)).contains("INVALIDATED"));
    gpu.capture(main).unwrap();
    gpu.record(main, fork).unwrap();
    gpu.wait(side, fork).unwrap();
    set(&gpu, side, a, 1).unwrap();
    assert!(why(gpu.captured(main)).contains("UNJOINED"));
    gpu.capture(main).unwrap();
    let elsewhere = std::thread::scope(|s| s.spawn(|| gpu.captured(main)).join().unwrap());
    assert!(why(elsewhere).contains("WRONG_THREAD"));
}

#[test]
fn captures_have_nothing_to_do_with_each_other() {
    let gpu = gpu(0);
    let (one, two, event) = (gpu.stream(false).unwrap(), gpu.stream(false).unwrap(), gpu.event().unwrap());
    gpu.capture(one).unwrap();
    gpu.capture(two).unwrap();
    gpu.record(two, event).unwrap();
    assert!(why(gpu.wait(one, event)).contains("MERGE"));
    assert!(why(gpu.captured(one)).contains("INVALIDATED"));
    assert!(why(gpu.captured(two)).contains("INVALIDATED"));
}
