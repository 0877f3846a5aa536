//! Exchanges between emulated cards: what NCCL documents, in any order of work, and what members must agree on.

use cuda::driver::{Address, Communicator, Driver, Failure, Stream, Transfer};
use cuda::emulated::{Behaviour, EmulatedGpu};
use ir::DType;
use ir::op::Reducer;
use std::sync::Arc;

const MEMBERS: usize = 3;

/// Cards with a group, and 1024 bytes each.
struct Cards {
    gpus: Vec<Arc<EmulatedGpu>>,
    ends: Vec<(Stream, Communicator, Address)>,
}

fn cards(seed: u64) -> Cards {
    let gpus = EmulatedGpu::cards(Behaviour { seed, ..Behaviour::default() }, MEMBERS);
    let name = gpus[0].name_group().unwrap();
    let end = |(i, g): (usize, &Arc<EmulatedGpu>)| (g.stream(true).unwrap(), g.join(&name, MEMBERS as u32, i as u32).unwrap(), g.allocate(1024).unwrap());
    let ends = gpus.iter().enumerate().map(end).collect();
    Cards { gpus, ends }
}

impl Cards {
    /// Every member writes its numbers, asks, and reads as many numbers from byte 512 on.
    fn exchange(&self, given: &[Vec<i32>], numbers: usize, asked: impl Fn(usize, Address) -> Vec<Transfer>) -> Result<Vec<Vec<i32>>, Failure> {
        let mut out = vec![vec![0i32; numbers]; MEMBERS];
        // SAFETY: memory and numbers of this test, which are alive until all is waited for.
        unsafe {
            for (i, (stream, communicator, memory)) in self.ends.iter().enumerate() {
                self.gpus[i].upload(*stream, given[i].as_ptr().cast(), *memory, given[i].len() * 4)?;
                self.gpus[i].exchange(*stream, *communicator, &asked(i, *memory))?;
                self.gpus[i].download(*stream, memory + 512, out[i].as_mut_ptr().cast(), numbers * 4)?;
            }
            for (i, (stream, ..)) in self.ends.iter().enumerate() {
                self.gpus[i].synchronize(*stream)?;
            }
        }
        Ok(out)
    }
}

fn given() -> Vec<Vec<i32>> {
    (0..MEMBERS as i32).map(|i| (0..6).map(|j| 100 * i + j).collect()).collect()
}

#[test]
fn collectives_give_what_their_names_say() {
    for seed in 0..8 {
        let (cards, given) = (cards(seed), given());
        let (reducer, dtype) = (Reducer::Add, DType::I32);
        let reduced = cards.exchange(&given, 6, |_, m| vec![Transfer::AllReduce { from: m, to: m + 512, elements: 6, reducer, dtype }]).unwrap();
        let sums: Vec<i32> = (0..6).map(|j| 300 + 3 * j).collect();
        assert_eq!(reduced, vec![sums.clone(); MEMBERS]);
        let scattered = cards.exchange(&given, 2, |_, m| vec![Transfer::ReduceScatter { from: m, to: m + 512, elements: 2, reducer, dtype }]).unwrap();
        assert_eq!(scattered, vec![sums[..2].to_vec(), sums[2..4].to_vec(), sums[4..].to_vec()]);
        let gathered = cards.exchange(&given, 6, |_, m| vec![Transfer::AllGather { from: m, to: m + 512, bytes: 8 }]).unwrap();
        assert_eq!(gathered, vec![vec![0, 1, 100, 101, 200, 201]; MEMBERS]);
        let all_to_all = |me: usize, m: Address| {
            let one = |peer: usize| {
                let (from, to, number) = (m + 8 * peer as u64, m + 512 + 8 * peer as u64, peer as u32);
                if peer == me {
                    vec![Transfer::Keep { from, to, bytes: 8 }]
                } else {
                    vec![Transfer::Send { from, bytes: 8, peer: number }, Transfer::Receive { to, bytes: 8, peer: number }]
                }
            };
            (0..MEMBERS).flat_map(one).collect()
        };
        let turned = cards.exchange(&given, 6, all_to_all).unwrap();
        let want = |i: i32| vec![2 * i, 2 * i + 1, 100 + 2 * i, 101 + 2 * i, 200 + 2 * i, 201 + 2 * i];
        assert_eq!(turned, (0..3).map(want).collect::<Vec<_>>());
        assert_eq!(cards.gpus[1].exchanged(), 4);
    }
}

#[test]
fn members_that_differ_fail_instead_of_hanging() {
    let why = |asked: fn(usize, Address) -> Vec<Transfer>| cards(1).exchange(&given(), 1, asked).unwrap_err().reason;
    let lengths = why(|me, m| vec![Transfer::AllGather { from: m, to: m + 512, bytes: 4 + 4 * me }]);
    assert!(lengths.contains("different"), "{lengths}");
    let unreceived = why(|me, m| if me == 0 { vec![Transfer::Send { from: m, bytes: 4, peer: 1 }] } else { Vec::new() });
    assert!(unreceived.contains("different"), "{unreceived}");
    let missing = why(|me, m| if me == 0 { Vec::new() } else { vec![Transfer::AllGather { from: m, to: m + 512, bytes: 4 }] });
    assert!(missing.contains("different"), "{missing}");
}

#[test]
fn a_group_has_each_member_once_and_streams_belong_to_cards() {
    let gpus = EmulatedGpu::cards(Behaviour::default(), 2);
    let name = gpus[0].name_group().unwrap();
    gpus[0].join(&name, 2, 0).unwrap();
    assert!(gpus[1].join(&name, 2, 0).is_err());
    assert!(gpus[1].join(&name, 3, 1).is_err());
    assert!(gpus[1].join(&name, 2, 2).is_err());
    gpus[1].join(&name, 2, 1).unwrap();
    let (stream, memory) = (gpus[0].stream(false).unwrap(), gpus[1].allocate(16).unwrap());
    // SAFETY: memory of this test.
    let wrong = unsafe { gpus[1].set(stream, memory, 1, 16) };
    assert!(wrong.unwrap_err().reason.contains("INVALID_HANDLE"));
}
