//! The calls of MPI that are made: bytes to and from one process, begun and then looked at. To be made by the thread that made [`World`].

use mpi_sys as ffi;
use std::ffi::{c_char, c_int};

/// Most bytes of one call; MPI counts them in an `int`.
pub(crate) const MOST: usize = 1 << 30;

/// MPI, from its start to its end. Where it is only dropped it is not ended: that would wait for processes that may be lost.
pub(crate) struct World {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// What the library calls itself.
    pub(crate) library: String,
}

impl World {
    /// Starts MPI, once in a process; waits until all processes of the job have.
    pub(crate) fn start() -> Result<World, String> {
        let (mut given, mut rank, mut size, mut length) = (0, 0, 0, 0);
        // SAFETY: constants of MPI's, and a call that any thread may make first.
        let (wanted, all) = unsafe { (ffi::RSMPI_THREAD_FUNNELED, ffi::RSMPI_COMM_WORLD) };
        // SAFETY: no arguments are passed on.
        checked(unsafe { ffi::MPI_Init_thread(std::ptr::null_mut(), std::ptr::null_mut(), wanted, &raw mut given) })?;
        if given < wanted {
            return Err("it does not permit threads".into());
        }
        // SAFETY: a constant of MPI's.
        let mut name: Vec<c_char> = vec![0; unsafe { ffi::RSMPI_MAX_LIBRARY_VERSION_STRING } as usize + 1];
        // SAFETY: MPI is running, and writes to variables of ours; the text has the room that it may take.
        unsafe {
            checked(ffi::MPI_Comm_rank(all, &raw mut rank))?;
            checked(ffi::MPI_Comm_size(all, &raw mut size))?;
            // A broken connection is an error that is told, not the end of the process.
            checked(ffi::MPI_Comm_set_errhandler(all, ffi::RSMPI_ERRORS_RETURN))?;
            checked(ffi::MPI_Get_library_version(name.as_mut_ptr(), &raw mut length))?;
        }
        let text: Vec<u8> = name.iter().take(length.max(0) as usize).map(|c| *c as u8).collect();
        let library = String::from_utf8_lossy(&text).split([',', '\n', '\0']).next().unwrap_or_default().trim().to_string();
        Ok(World { rank: rank as u32, size: size as u32, library })
    }
    /// Ends MPI, which all processes do.
    pub(crate) fn end(self) {
        // SAFETY: MPI is running, on this thread, and nothing is under way.
        let _ = unsafe { ffi::MPI_Finalize() };
    }
}

fn checked(code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("MPI's error {code}")) }
}

/// A transfer that was begun, with the bytes that it reads or writes: they do not move and are not freed while MPI may touch them.
pub(crate) struct Transfer {
    request: ffi::MPI_Request,
    bytes: Vec<u8>,
    range: std::ops::Range<usize>,
    over: bool,
}

impl Transfer {
    /// Begins to send a part of `bytes`, of at most [`MOST`].
    pub(crate) fn send(bytes: Vec<u8>, range: std::ops::Range<usize>, to: u32, tag: i32) -> Result<Transfer, String> {
        let mut transfer = Transfer::new(bytes, range);
        let part = transfer.bytes[transfer.range.clone()].as_ptr();
        // SAFETY: MPI reads the part until the request is over; the transfer keeps it until then (see `drop`).
        let code = unsafe {
            ffi::MPI_Isend(part.cast(), transfer.range.len() as c_int, ffi::RSMPI_UINT8_T, to as c_int, tag, ffi::RSMPI_COMM_WORLD, &raw mut transfer.request)
        };
        transfer.begun(code)
    }
    /// Begins to receive into a part of `bytes`, of at most [`MOST`]; a shorter message is as good.
    pub(crate) fn receive(bytes: Vec<u8>, range: std::ops::Range<usize>, from: u32, tag: i32) -> Result<Transfer, String> {
        let mut transfer = Transfer::new(bytes, range);
        let part = transfer.bytes[transfer.range.clone()].as_mut_ptr();
        // SAFETY: as above, and nobody else reads or writes there.
        let code = unsafe {
            ffi::MPI_Irecv(part.cast(), transfer.range.len() as c_int, ffi::RSMPI_UINT8_T, from as c_int, tag, ffi::RSMPI_COMM_WORLD, &raw mut transfer.request)
        };
        transfer.begun(code)
    }
    fn new(bytes: Vec<u8>, range: std::ops::Range<usize>) -> Transfer {
        assert!(range.len() <= MOST, "invariant: a transfer is cut into parts");
        // SAFETY: a constant of MPI's.
        Transfer { request: unsafe { ffi::RSMPI_REQUEST_NULL }, bytes, range, over: true }
    }
    fn begun(mut self, code: c_int) -> Result<Transfer, String> {
        checked(code)?;
        self.over = false;
        Ok(self)
    }
    /// Where the part ends.
    pub(crate) fn end(&self) -> usize {
        self.range.end
    }
    /// Whether it is over.
    pub(crate) fn look(&mut self) -> Result<bool, String> {
        if !self.over {
            let mut flag: c_int = 0;
            // SAFETY: the request was begun by this thread.
            checked(unsafe { ffi::MPI_Test(&raw mut self.request, &raw mut flag, ffi::RSMPI_STATUS_IGNORE) })?;
            self.over = flag != 0;
        }
        Ok(self.over)
    }
    /// The bytes, once it is over.
    pub(crate) fn take(mut self) -> Vec<u8> {
        assert!(self.over, "invariant: MPI no longer touches what is taken");
        std::mem::take(&mut self.bytes)
    }
    /// Takes back a receive that nothing will come for.
    pub(crate) fn cancel(&mut self) {
        if !self.over {
            // SAFETY: the request was begun by this thread. A receive that was cancelled is over when it is waited for, as MPI promises.
            let waited = unsafe {
                let _ = ffi::MPI_Cancel(&raw mut self.request);
                ffi::MPI_Wait(&raw mut self.request, ffi::RSMPI_STATUS_IGNORE)
            };
            self.over = waited == 0;
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if !self.over {
            // MPI may still touch the bytes: in a run that failed they stay until the process ends.
            std::mem::forget(std::mem::take(&mut self.bytes));
        }
    }
}
