//! Communicators of emulated cards: what NCCL documents, in an order of the members that is drawn.
//!
//! An exchange is done when every member's is next on its stream, all at once. What members ask for must fit together.

use super::{failure, pointer};
use crate::driver::{Address, Failure, Transfer};
use ir::DType;
use ir::op::Reducer;

/// What one member asks for.
pub(super) type Asked = Vec<Transfer>;

/// Does an exchange; `first` is the member whose elements are combined first.
///
/// # Safety
/// The members vouched for their addresses.
pub(super) unsafe fn exchange(asked: &[Asked], first: usize) -> Result<(), Failure> {
    let differ = || failure("exchanging", "NCCL: members ask for different things, which hangs");
    // Nothing is written before all is read, as buffers of one member may be read by several.
    let mut written: Vec<(Address, Vec<u8>)> = Vec::new();
    let count = asked[0].iter().filter(|t| !is_paired(t)).count();
    let whole: Vec<Vec<&Transfer>> = asked.iter().map(|a| a.iter().filter(|t| !is_paired(t)).collect()).collect();
    if whole.iter().any(|w| w.len() != count) {
        return Err(differ());
    }
    // SAFETY: as the caller vouches.
    unsafe {
        for i in 0..count {
            let of: Vec<&Transfer> = whole.iter().map(|w| w[i]).collect();
            collective(&of, first, &mut written).ok_or_else(differ)?;
        }
        paired(asked, &mut written).ok_or_else(differ)?;
        for (to, bytes) in written {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer(to), bytes.len());
        }
    }
    Ok(())
}

fn is_paired(t: &Transfer) -> bool {
    matches!(t, Transfer::Send { .. } | Transfer::Receive { .. } | Transfer::Keep { .. })
}

unsafe fn bytes_at(from: Address, bytes: usize) -> Vec<u8> {
    // SAFETY: as the caller vouches.
    unsafe { std::slice::from_raw_parts(pointer(from), bytes).to_vec() }
}

/// Sends and receives: between two members in the order of each.
unsafe fn paired(asked: &[Asked], written: &mut Vec<(Address, Vec<u8>)>) -> Option<()> {
    let mut sent = 0;
    for (to_member, list) in asked.iter().enumerate() {
        let mut taken = vec![0; asked.len()];
        for t in list {
            match *t {
                // SAFETY: as the caller vouches.
                Transfer::Keep { from, to, bytes } => written.push((to, unsafe { bytes_at(from, bytes) })),
                Transfer::Receive { to, bytes, peer } => {
                    let mut sends = asked.get(peer as usize)?.iter().filter_map(|t| match *t {
                        Transfer::Send { from, bytes, peer } if peer as usize == to_member => Some((from, bytes)),
                        _ => None,
                    });
                    let (from, given) = sends.nth(taken[peer as usize])?;
                    taken[peer as usize] += 1;
                    sent += 1;
                    if given != bytes {
                        return None;
                    }
                    // SAFETY: as the caller vouches.
                    written.push((to, unsafe { bytes_at(from, bytes) }));
                }
                _ => {}
            }
        }
    }
    let sends = asked.iter().flatten().filter(|t| matches!(t, Transfer::Send { .. })).count();
    (sends == sent).then_some(())
}

/// One collective of all members; none when they differ.
unsafe fn collective(of: &[&Transfer], first: usize, written: &mut Vec<(Address, Vec<u8>)>) -> Option<()> {
    let members = of.len();
    match *of[0] {
        Transfer::AllGather { bytes, .. } => {
            let mut whole = Vec::new();
            for t in of {
                let Transfer::AllGather { from, bytes: b, .. } = **t else { return None };
                if b != bytes {
                    return None;
                }
                // SAFETY: as the caller vouches.
                whole.extend(unsafe { bytes_at(from, bytes) });
            }
            written.extend(of.iter().map(|t| if let Transfer::AllGather { to, .. } = **t { (to, whole.clone()) } else { (0, Vec::new()) }));
        }
        Transfer::AllReduce { elements, reducer, dtype, .. } => {
            let mut from = Vec::new();
            for t in of {
                let Transfer::AllReduce { from: f, elements: n, reducer: r, dtype: d, .. } = **t else { return None };
                if (n, r, d) != (elements, reducer, dtype) {
                    return None;
                }
                from.push(f);
            }
            // SAFETY: as the caller vouches.
            let sums = unsafe { combined(&from, 0, elements, first, reducer, dtype) };
            written.extend(of.iter().map(|t| if let Transfer::AllReduce { to, .. } = **t { (to, sums.clone()) } else { (0, Vec::new()) }));
        }
        Transfer::ReduceScatter { elements, reducer, dtype, .. } => {
            let mut from = Vec::new();
            for t in of {
                let Transfer::ReduceScatter { from: f, elements: n, reducer: r, dtype: d, .. } = **t else { return None };
                if (n, r, d) != (elements, reducer, dtype) {
                    return None;
                }
                from.push(f);
            }
            for (i, t) in of.iter().enumerate() {
                let Transfer::ReduceScatter { to, .. } = **t else { return None };
                // SAFETY: as the caller vouches.
                written.push((to, unsafe { combined(&from, i * elements, elements, (first + i) % members, reducer, dtype) }));
            }
        }
        _ => return None,
    }
    Some(())
}

/// Elements combined, rounded after every member as a ring of cards would.
unsafe fn combined(from: &[Address], begin: usize, elements: usize, first: usize, reducer: Reducer, dtype: DType) -> Vec<u8> {
    let width = dtype.bytes() as usize;
    let mut out = Vec::with_capacity(elements * width);
    for i in begin..begin + elements {
        // SAFETY: as the caller vouches.
        let at = |m: usize| unsafe { bytes_at(from[(first + m) % from.len()] + (i * width) as u64, width) };
        let number = |bytes: &[u8]| ir::literal::decode(dtype, bytes).unwrap_or(f64::NAN);
        let sum = (1..from.len()).fold(at(0), |sum, m| {
            let (a, b) = (number(&sum), number(&at(m)));
            let value = match reducer {
                Reducer::Mul => a * b,
                Reducer::Max => a.max(b),
                Reducer::Min => a.min(b),
                _ => a + b,
            };
            ir::literal::encode(dtype, value)
        });
        out.extend(sum);
    }
    out
}
