//! Loads and stores of a warp: addresses of its lanes resolved to memory of the host, checked, counted, and then read or written.

use crate::block::{Block, Outcome, Registers};
use crate::code::{Access, Address, Reg, Target};
use crate::counts::{SECTOR, sectors_of};
use crate::error::FaultKind;
use crate::launch::{LOCAL_BASE, SHARED_BASE, WINDOW};
use crate::shadow::Kind;
use crate::warp::lanes_of;

/// A warp's request: what is touched, and where on the host it is.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) target: Target,
    /// Addresses as the kernel knows them: of the device, or offsets in shared or local memory.
    pub(crate) at: [u64; 32],
    /// What to add to an address to have it on the host, lane by lane.
    pub(crate) base: [u64; 32],
    /// Bytes that each lane touches.
    pub(crate) bytes: u64,
    /// Lanes.
    pub(crate) mask: u32,
}

impl Request {
    /// Where a lane's bytes are.
    #[inline]
    pub(crate) fn host(&self, lane: usize) -> usize {
        self.at[lane].wrapping_add(self.base[lane]) as usize
    }
    /// Whether all lanes take part, each next to the one before.
    fn contiguous(&self) -> bool {
        self.mask == u32::MAX && (1..32).all(|l| self.at[l] == self.at[0].wrapping_add(l as u64 * self.bytes))
    }
}

/// Reads a number.
///
/// # Safety
/// The address is one of a request that was checked for at least as many bytes.
#[inline]
unsafe fn read<T: Copy>(address: usize) -> T {
    // SAFETY: as above; requests check alignment, and the memory was registered with its provenance exposed.
    unsafe { std::ptr::with_exposed_provenance::<T>(address).read() }
}

/// Writes a number.
///
/// # Safety
/// As for [`read`], in a range that may be written.
#[inline]
unsafe fn write<T: Copy>(address: usize, value: T) {
    // SAFETY: as above.
    unsafe { std::ptr::with_exposed_provenance_mut::<T>(address).write(value) }
}

impl<'a> Block<'a> {
    /// The addresses of a request's lanes.
    pub(crate) fn addresses(&self, r: &Registers, a: &Address) -> [u64; 32] {
        if a.wide {
            let rows = &r.doubles[a.row as usize];
            std::array::from_fn(|l| rows.0[l].wrapping_add(a.offset as u64))
        } else {
            let rows = &r.words[a.row as usize];
            std::array::from_fn(|l| u64::from(rows.0[l].wrapping_add(a.offset as u32)))
        }
    }

    /// Resolves and checks a request; the lanes that are not of the first one's kind of memory are left for another.
    pub(crate) fn resolve(&mut self, w: usize, target: Target, mut at: [u64; 32], bytes: u64, m: u32, store: bool, line: u32) -> Outcome<Request> {
        let kind = |address: u64| match address {
            a if a.wrapping_sub(SHARED_BASE) < WINDOW => Target::Shared,
            a if a.wrapping_sub(LOCAL_BASE) < WINDOW => Target::Local,
            _ => Target::Global,
        };
        let (mut mask, mut target) = (m, target);
        if target == Target::Generic {
            target = kind(at[m.trailing_zeros() as usize]);
            mask = lanes_of(m).filter(|&l| kind(at[l]) == target).fold(0, |a, l| a | 1u32 << l);
            let base = match target {
                Target::Shared => SHARED_BASE,
                Target::Local => LOCAL_BASE,
                _ => 0,
            };
            at.iter_mut().for_each(|a| *a = a.wrapping_sub(base));
        }
        let mut request = Request { target, at, base: [0; 32], bytes, mask };
        if let Some(l) = lanes_of(mask).find(|&l| !request.at[l].is_multiple_of(bytes)) {
            let message = format!("{} at {}, which is no multiple of {bytes}", verb(store, bytes), self.place(target, request.at[l]));
            return Err(self.fault(FaultKind::Misaligned, self.thread(w, l as u32), line, message));
        }
        match target {
            Target::Shared => {
                let limit = self.launch.shared_bytes;
                self.inside(w, &request, limit, store, line)?;
                request.base = [self.shared.as_mut_ptr().expose_provenance() as u64; 32];
            }
            Target::Local => {
                let limit = self.launch.entry.code.local_bytes;
                self.inside(w, &request, limit, store, line)?;
                let base = self.local.as_mut_ptr().expose_provenance() as u64;
                let first = self.thread(w, 0);
                request.base = std::array::from_fn(|l| base + u64::from(first + l as u32) * self.local_bytes);
            }
            _ => self.registered(w, &request, store, line)?,
        }
        Ok(request)
    }

    fn inside(&self, w: usize, request: &Request, limit: u64, store: bool, line: u32) -> Outcome<()> {
        match lanes_of(request.mask).find(|&l| request.at[l].checked_add(request.bytes).is_none_or(|end| end > limit)) {
            None => Ok(()),
            Some(l) => {
                let message = format!("{} at {}, of which there are {limit}", verb(store, request.bytes), self.place(request.target, request.at[l]));
                Err(self.fault(FaultKind::OutOfBounds, self.thread(w, l as u32), line, message))
            }
        }
    }

    fn registered(&mut self, w: usize, request: &Request, store: bool, line: u32) -> Outcome<()> {
        let memory = self.launch.memory;
        let (mut low, mut high) = (u64::MAX, 0);
        for l in lanes_of(request.mask) {
            low = low.min(request.at[l]);
            high = high.max(request.at[l]);
        }
        if let Some(span) = high.checked_sub(low).and_then(|s| s.checked_add(request.bytes))
            && memory.find(low, span, &mut self.last).is_some_and(|r| r.writable || !store)
        {
            return Ok(());
        }
        for l in lanes_of(request.mask) {
            let address = request.at[l];
            let why = match memory.find(address, request.bytes, &mut self.last) {
                Some(r) if r.writable || !store => continue,
                Some(_) => ", which is only read",
                None => "",
            };
            let message = format!("{} at {address:#x}: {}{why}", verb(store, request.bytes), memory.describe(address));
            return Err(self.fault(FaultKind::OutOfBounds, self.thread(w, l as u32), line, message));
        }
        Ok(())
    }

    /// An address in words.
    fn place(&self, target: Target, at: u64) -> String {
        match target {
            Target::Shared => {
                let variable = self.launch.entry.code.shared.iter().find(|(_, o, n)| at >= *o && at < o + n);
                variable
                    .map_or_else(|| format!("byte {at} of shared memory"), |(name, o, _)| format!("byte {at} of shared memory (byte {} of `{name}`)", at - o))
            }
            Target::Local => format!("byte {at} of the thread's memory"),
            _ => format!("{at:#x}: {}", self.launch.memory.describe(at)),
        }
    }

    /// Counts a request to device memory.
    pub(crate) fn count(&mut self, request: &Request, store: bool) {
        if request.target != Target::Global {
            self.counts.shared += u64::from(request.target == Target::Shared);
            return;
        }
        let sectors = if request.contiguous() {
            (request.at[31] + request.bytes - 1) / SECTOR - request.at[0] / SECTOR + 1
        } else {
            sectors_of(&request.at, request.mask, request.bytes)
        };
        let traffic = if store { &mut self.counts.stores } else { &mut self.counts.loads };
        traffic.requests += 1;
        traffic.bytes += request.bytes * u64::from(request.mask.count_ones());
        traffic.sectors += sectors;
        if self.launch.options.distinct {
            let set = if store { &mut self.stored } else { &mut self.loaded };
            for l in lanes_of(request.mask) {
                set.insert(request.at[l] / SECTOR, (request.at[l] + request.bytes - 1) / SECTOR);
            }
        }
    }

    /// Looks for uninitialised bytes and for races; `same` says of a lane whether all lanes with its address store the same.
    pub(crate) fn check(&mut self, w: usize, request: &Request, kind: Kind, same: impl Fn(usize) -> bool, line: u32) -> Outcome<()> {
        if request.target == Target::Local {
            return Ok(());
        }
        let shared = request.target == Target::Shared;
        self.shadow.request();
        for l in lanes_of(request.mask) {
            let (at, thread) = (request.at[l], self.thread(w, l as u32));
            if kind != Kind::Write
                && let Some(missing) = self.unwritten(shared, at, request.bytes)
            {
                let message = format!("{} at {}: nothing has written byte {missing} of it", verb(false, request.bytes), self.place(request.target, at));
                return Err(self.fault(FaultKind::Uninitialised, thread, line, message));
            }
            if kind != Kind::Read {
                self.mark(shared, at, request.bytes);
            }
            let key = if shared { at + SHARED_BASE } else { at };
            if let Some((other, wrote)) = self.shadow.touch(key, request.bytes, thread, kind, same(l)) {
                let [x, y, z] = self.coordinates(other);
                let message = format!(
                    "{} at {}, which thread ({x}, {y}, {z}) {} with no barrier between",
                    verb(kind != Kind::Read, request.bytes),
                    self.place(request.target, at),
                    if wrote { "wrote" } else { "read" }
                );
                return Err(self.fault(FaultKind::Race, thread, line, message));
            }
        }
        Ok(())
    }

    /// The first byte of an access that nothing has written.
    fn unwritten(&self, shared: bool, at: u64, bytes: u64) -> Option<u64> {
        if shared {
            return (at..at + bytes).find(|b| self.shared_written[(b / 64) as usize] >> (b % 64) & 1 == 0).map(|b| b - at);
        }
        let mut last = self.last;
        let written = self.launch.memory.find(at, bytes, &mut last)?.written.as_ref()?;
        let offset = written.offset(at)?;
        written.missing(offset, bytes).map(|m| m - offset)
    }

    fn mark(&mut self, shared: bool, at: u64, bytes: u64) {
        if shared {
            (at..at + bytes).for_each(|b| self.shared_written[(b / 64) as usize] |= 1 << (b % 64));
        } else if let Some(written) = self.launch.memory.find(at, bytes, &mut self.last).and_then(|r| r.written.as_ref())
            && let Some(offset) = written.offset(at)
        {
            written.mark(offset, bytes);
        }
    }

    pub(crate) fn load(&mut self, w: usize, r: &mut Registers, a: &Access, m: u32, line: u32) -> Outcome<()> {
        let at = self.addresses(r, &a.address);
        let bytes = u64::from(a.bytes) * a.registers.len() as u64;
        let mut left = m;
        while left != 0 {
            let request = self.resolve(w, a.target, at, bytes, left, false, line)?;
            left &= !request.mask;
            self.count(&request, false);
            if self.launch.options.checks {
                self.check(w, &request, if a.strong { Kind::Strong } else { Kind::Read }, |_| false, line)?;
            }
            for (i, register) in a.registers.iter().enumerate() {
                let Some(register) = register else { continue };
                take(r, &request, i * usize::from(a.bytes), a, *register);
            }
        }
        Ok(())
    }

    pub(crate) fn store(&mut self, w: usize, r: &mut Registers, a: &Access, m: u32, line: u32) -> Outcome<()> {
        let at = self.addresses(r, &a.address);
        let bytes = u64::from(a.bytes) * a.registers.len() as u64;
        let mut left = m;
        while left != 0 {
            let request = self.resolve(w, a.target, at, bytes, left, true, line)?;
            left &= !request.mask;
            self.count(&request, true);
            if self.launch.options.checks {
                let equal = |k: usize, l: usize| a.registers.iter().flatten().all(|reg| bits(r, *reg, k) == bits(r, *reg, l));
                let same = |l: usize| lanes_of(request.mask).filter(|&k| request.at[k] == request.at[l]).all(|k| equal(k, l));
                self.check(w, &request, if a.strong { Kind::Strong } else { Kind::Write }, same, line)?;
            }
            for (i, register) in a.registers.iter().enumerate() {
                let Some(register) = register else { continue };
                put(r, &request, i * usize::from(a.bytes), a.bytes, *register);
            }
        }
        Ok(())
    }
}

fn verb(store: bool, bytes: u64) -> String {
    format!("{} of {bytes} byte{}", if store { "a store" } else { "a load" }, if bytes == 1 { "" } else { "s" })
}

/// The bits of a register's lane.
#[inline]
pub(crate) fn bits(r: &Registers, register: Reg, lane: usize) -> u64 {
    if register.bits == 64 { r.doubles[register.row as usize].0[lane] } else { u64::from(r.words[register.row as usize].0[lane]) }
}

/// Loads one element of each lane into a register.
fn take(r: &mut Registers, request: &Request, offset: usize, a: &Access, register: Reg) {
    // SAFETY: `resolve` has checked every lane's bytes, their range and alignment, and elements lie inside.
    unsafe {
        match (a.bytes, register.bits) {
            (4, 32) => {
                let row = &mut r.words[register.row as usize].0;
                if request.bytes == 4 && request.contiguous() && request.target != Target::Local {
                    *row = std::array::from_fn(|l| read(request.host(0) + 4 * l));
                } else {
                    lanes_of(request.mask).for_each(|l| row[l] = read(request.host(l) + offset));
                }
            }
            (8, 64) => {
                let row = &mut r.doubles[register.row as usize].0;
                lanes_of(request.mask).for_each(|l| row[l] = read(request.host(l) + offset));
            }
            _ => lanes_of(request.mask).for_each(|l| {
                let at = request.host(l) + offset;
                let v = match (a.bytes, a.signed) {
                    (1, false) => u64::from(read::<u8>(at)),
                    (1, true) => read::<i8>(at) as u64,
                    (2, false) => u64::from(read::<u16>(at)),
                    (2, true) => read::<i16>(at) as u64,
                    (4, false) => u64::from(read::<u32>(at)),
                    (4, true) => read::<i32>(at) as u64,
                    _ => read::<u64>(at),
                };
                match register.bits {
                    64 => r.doubles[register.row as usize].0[l] = v,
                    16 => r.words[register.row as usize].0[l] = v as u32 & 0xFFFF,
                    _ => r.words[register.row as usize].0[l] = v as u32,
                }
            }),
        }
    }
}

/// Stores one element of each lane from a register.
fn put(r: &Registers, request: &Request, offset: usize, bytes: u8, register: Reg) {
    // SAFETY: as for `take`, and `resolve` has checked that the range may be written.
    unsafe {
        match (bytes, register.bits) {
            (4, 32) => {
                let row = &r.words[register.row as usize].0;
                lanes_of(request.mask).for_each(|l| write(request.host(l) + offset, row[l]));
            }
            (1, _) => lanes_of(request.mask).for_each(|l| write(request.host(l) + offset, bits(r, register, l) as u8)),
            (2, _) => lanes_of(request.mask).for_each(|l| write(request.host(l) + offset, bits(r, register, l) as u16)),
            (4, _) => lanes_of(request.mask).for_each(|l| write(request.host(l) + offset, bits(r, register, l) as u32)),
            _ => lanes_of(request.mask).for_each(|l| write(request.host(l) + offset, bits(r, register, l))),
        }
    }
}
