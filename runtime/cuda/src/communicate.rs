//! Collectives by NCCL, where every rank has a card of its own.
//!
//! NCCL takes pieces that are one run of elements. A collective with other pieces, or one that NCCL combines otherwise than the plan says (NaN in a maximum,
//! bits, 16-bit integers), stays with the runtime's own kernels; every member sees the same pieces, so all decide alike.

use crate::driver::{Address, Transfer};
use crate::kernels::is_run;
use ir::DType;
use ir::op::Reducer;
use ir::program::CollectiveKind;
use runtime::transport::collective::{Collective, Exchange};

/// What combines the elements of collectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collectives {
    /// NCCL where every rank has a card of its own and the library is there, else the runtime's own kernels.
    #[default]
    Auto,
    /// The runtime's own kernels: the CPU's bits, in every run the same.
    Own,
    /// NCCL, or an error.
    Nccl,
}

/// Whether NCCL combines these elements as the plan says.
pub fn combines(reducer: Reducer, dtype: DType) -> bool {
    let float = matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
    let integer = matches!(dtype, DType::I8 | DType::UI8 | DType::I32 | DType::UI32 | DType::I64 | DType::UI64);
    match reducer {
        Reducer::Add | Reducer::Mul => float || integer,
        Reducer::Max | Reducer::Min => integer,
        _ => false,
    }
}

/// What member `me` of `members` asks of NCCL for a collective, in an arena at `base`; none when NCCL does not take it.
pub fn transfers(collective: &Collective, base: Address, members: usize, me: usize, microbatch: u32) -> Option<Vec<Transfer>> {
    let (reducer, dtype) = collective.reduction();
    if collective.combines() && !combines(reducer, dtype) {
        return None;
    }
    let width = dtype.bytes() as usize;
    let run = |l: &[(usize, usize)]| is_run(&l.iter().map(|&(n, s)| (n as u64, s as i64)).collect::<Vec<_>>());
    let mut out = Vec::new();
    for e in collective.exchanges() {
        if !run(&e.give) || !run(&e.take) {
            return None;
        }
        add(&mut out, &e, collective.kind(), base, (members, me), microbatch, width, (reducer, dtype))?;
    }
    Some(out)
}

#[allow(clippy::too_many_arguments, reason = "one part of a collective, as one member sees it")]
fn add(
    out: &mut Vec<Transfer>,
    e: &Exchange,
    kind: CollectiveKind,
    base: Address,
    (members, me): (usize, usize),
    microbatch: u32,
    width: usize,
    (reducer, dtype): (Reducer, DType),
) -> Option<()> {
    let (from, to) = (base + e.input.offset(microbatch) as u64, base + e.output.offset(microbatch) as u64);
    let (elements, bytes) = (e.elements, e.elements * width);
    if elements == 0 {
        return Some(());
    }
    match kind {
        CollectiveKind::AllReduce => out.push(Transfer::AllReduce { from, to, elements, reducer, dtype }),
        CollectiveKind::ReduceScatter if e.give_peer == elements => out.push(Transfer::ReduceScatter { from, to, elements, reducer, dtype }),
        CollectiveKind::ReduceScatter => return None,
        CollectiveKind::AllGather if e.take_peer == elements => out.push(Transfer::AllGather { from, to, bytes }),
        CollectiveKind::AllGather | CollectiveKind::AllToAll => {
            for peer in 0..members {
                let given = if kind == CollectiveKind::AllToAll { peer * e.give_peer * width } else { 0 };
                let (from, to) = (from + given as u64, to + (peer * e.take_peer * width) as u64);
                if peer == me {
                    out.push(Transfer::Keep { from, to, bytes });
                } else {
                    out.push(Transfer::Send { from, bytes, peer: peer as u32 });
                    out.push(Transfer::Receive { to, bytes, peer: peer as u32 });
                }
            }
        }
    }
    Some(())
}
