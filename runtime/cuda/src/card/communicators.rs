//! NCCL's communicators of a card.

use super::{CudaCard, handle, stream};
use crate::driver::{Address, Communicator, Driver, Failure, GroupName, Stream, Transfer};
use cudarc::nccl::{result as nccl, sys};
use ir::DType;
use ir::op::Reducer;
use std::ffi::c_void;
use std::mem::MaybeUninit;

fn check<T>(doing: &str, result: Result<T, nccl::NcclError>) -> Result<T, Failure> {
    result.map_err(|e| Failure { doing: doing.into(), reason: format!("NCCL: {:?} (NCCL_DEBUG=INFO tells more)", e.0) })
}

/// Whether NCCL is installed.
pub(super) fn present() -> bool {
    // SAFETY: asks the loader only.
    unsafe { sys::is_culib_present() }
}

/// A new name.
pub(super) fn name() -> Result<GroupName, Failure> {
    let id = check("naming a group of ranks", nccl::get_uniqueid())?;
    Ok(id.internal.map(|c| c as u8))
}

/// Joins a group.
pub(super) fn join(name: &GroupName, members: u32, me: u32) -> Result<Communicator, Failure> {
    let id = sys::ncclUniqueId { internal: name.map(|b| b as std::ffi::c_char) };
    let mut communicator = MaybeUninit::uninit();
    // SAFETY: the communicator is written before it is read, and is kept to the end of the process.
    unsafe {
        check("joining a group of ranks", nccl::comm_init_rank(communicator.as_mut_ptr(), members as i32, id, me as i32))?;
        Ok(Communicator(handle(communicator.assume_init())))
    }
}

fn element_type(dtype: DType) -> Option<sys::ncclDataType_t> {
    Some(match dtype {
        DType::F64 => sys::ncclDataType_t::ncclFloat64,
        DType::F32 => sys::ncclDataType_t::ncclFloat32,
        DType::F16 => sys::ncclDataType_t::ncclFloat16,
        DType::BF16 => sys::ncclDataType_t::ncclBfloat16,
        DType::I8 => sys::ncclDataType_t::ncclInt8,
        DType::UI8 => sys::ncclDataType_t::ncclUint8,
        DType::I32 => sys::ncclDataType_t::ncclInt32,
        DType::UI32 => sys::ncclDataType_t::ncclUint32,
        DType::I64 => sys::ncclDataType_t::ncclInt64,
        DType::UI64 => sys::ncclDataType_t::ncclUint64,
        _ => return None,
    })
}

fn operation(reducer: Reducer) -> Option<sys::ncclRedOp_t> {
    Some(match reducer {
        Reducer::Add => sys::ncclRedOp_t::ncclSum,
        Reducer::Mul => sys::ncclRedOp_t::ncclProd,
        Reducer::Max => sys::ncclRedOp_t::ncclMax,
        Reducer::Min => sys::ncclRedOp_t::ncclMin,
        _ => return None,
    })
}

/// Begins transfers as one group of calls.
///
/// # Safety
/// As [`Driver::exchange`].
pub(super) unsafe fn exchange(card: &CudaCard, s: Stream, communicator: Communicator, transfers: &[Transfer]) -> Result<(), Failure> {
    check("beginning a collective", nccl::group_start())?;
    // SAFETY: as the caller vouches.
    let begun = transfers.iter().try_for_each(|t| unsafe { one(card, s, communicator, t) });
    // The group is ended in any case, so that the thread can begin another.
    let ended = check("beginning a collective", nccl::group_end());
    begun?;
    ended.map(drop)
}

unsafe fn one(card: &CudaCard, s: Stream, communicator: Communicator, transfer: &Transfer) -> Result<(), Failure> {
    let at = |a: Address| std::ptr::with_exposed_provenance_mut::<c_void>(a as usize);
    let doing = "beginning a collective";
    let other = || Failure { doing: doing.into(), reason: "NCCL does not combine such elements".into() };
    let (on, with) = (stream(s).cast(), std::ptr::with_exposed_provenance_mut(communicator.0 as usize));
    let byte = sys::ncclDataType_t::ncclUint8;
    // SAFETY: as the caller vouches.
    let begun = unsafe {
        match *transfer {
            Transfer::AllReduce { from, to, elements, reducer, dtype } => {
                let (ty, op) = (element_type(dtype).ok_or_else(other)?, operation(reducer).ok_or_else(other)?);
                nccl::all_reduce(at(from), at(to), elements, ty, op, with, on)
            }
            Transfer::ReduceScatter { from, to, elements, reducer, dtype } => {
                let (ty, op) = (element_type(dtype).ok_or_else(other)?, operation(reducer).ok_or_else(other)?);
                nccl::reduce_scatter(at(from), at(to), elements, ty, op, with, on)
            }
            Transfer::AllGather { from, to, bytes } => nccl::all_gather(at(from), at(to), bytes, byte, with, on),
            Transfer::Send { from, bytes, peer } => nccl::send(at(from), bytes, byte, peer as i32, with, on),
            Transfer::Receive { to, bytes, peer } => nccl::recv(at(to), bytes, byte, peer as i32, with, on),
            Transfer::Keep { from, to, bytes } => return card.copy(s, from, to, bytes),
        }
    };
    check(doing, begun).map(|_| ())
}
