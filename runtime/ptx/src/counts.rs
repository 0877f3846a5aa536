//! What a launch did: instructions, divergences, and memory traffic in 32-byte sectors.

use rustc_hash::FxHashMap;

/// Bytes of the smallest piece that moves between memory and a device.
pub const SECTOR: u64 = 32;

/// Traffic in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests of warps.
    pub requests: u64,
    /// Bytes that lanes asked for.
    pub bytes: u64,
    /// Sectors of the requests: each request counts the distinct ones it touches.
    pub sectors: u64,
    /// Distinct sectors over the whole launch; 0 unless asked for.
    pub distinct: u64,
}

/// Counts of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions of the text that warps executed.
    pub instructions: u64,
    /// The same for every lane that took part.
    pub lanes: u64,
    /// Branches at which the lanes of a warp parted.
    pub divergences: u64,
    /// Barriers that warps waited at.
    pub barriers: u64,
    /// Loads from device memory.
    pub loads: Traffic,
    /// Stores to device memory, atomics among them.
    pub stores: Traffic,
    /// Requests to shared memory.
    pub shared: u64,
    /// Sectors that were loaded or stored, over the whole launch; 0 unless asked for.
    pub touched: u64,
}

impl Counts {
    /// Adds another launch's (or block's) counts.
    pub fn add(&mut self, other: &Counts) {
        self.instructions += other.instructions;
        self.lanes += other.lanes;
        self.divergences += other.divergences;
        self.barriers += other.barriers;
        self.shared += other.shared;
        self.touched += other.touched;
        for (a, b) in [(&mut self.loads, &other.loads), (&mut self.stores, &other.stores)] {
            a.requests += b.requests;
            a.bytes += b.bytes;
            a.sectors += b.sectors;
            a.distinct += b.distinct;
        }
    }
}

const PAGE: u64 = 4096;

/// A set of sectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sectors {
    pages: FxHashMap<u64, Box<[u64; (PAGE / 64) as usize]>>,
}

impl Sectors {
    pub(crate) fn insert(&mut self, first: u64, last: u64) {
        for sector in first..=last {
            let page = self.pages.entry(sector / PAGE).or_insert_with(|| Box::new([0; (PAGE / 64) as usize]));
            page[(sector % PAGE / 64) as usize] |= 1 << (sector % 64);
        }
    }
    pub(crate) fn merge(&mut self, other: &Sectors) {
        let mut pages: Vec<_> = other.pages.iter().collect();
        pages.sort_unstable_by_key(|(n, _)| **n);
        for (number, bits) in pages {
            let page = self.pages.entry(*number).or_insert_with(|| Box::new([0; (PAGE / 64) as usize]));
            page.iter_mut().zip(bits.iter()).for_each(|(a, b)| *a |= b);
        }
    }
    pub(crate) fn count(&self) -> u64 {
        self.pages.values().flat_map(|p| p.iter()).map(|b| u64::from(b.count_ones())).sum()
    }
}

/// How many distinct sectors a request of some addresses touches.
pub(crate) fn sectors_of(addresses: &[u64; 32], mask: u32, bytes: u64) -> u64 {
    let mut all = [0u64; 64];
    let mut n = 0;
    for l in (0..32).filter(|l| mask >> l & 1 != 0) {
        let (first, last) = (addresses[l] / SECTOR, (addresses[l] + bytes - 1) / SECTOR);
        for s in [first, last] {
            if n == 0 || all[n - 1] != s {
                all[n] = s;
                n += 1;
            }
        }
    }
    if all[..n].windows(2).any(|w| w[0] > w[1]) {
        all[..n].sort_unstable();
    }
    (0..n).filter(|&i| i == 0 || all[i] != all[i - 1]).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_in_sectors() {
        let each = |f: &dyn Fn(u64) -> u64| std::array::from_fn(|l| f(l as u64));
        assert_eq!(sectors_of(&each(&|l| 256 + 4 * l), u32::MAX, 4), 4);
        assert_eq!(sectors_of(&each(&|l| 256 + 16 * l), u32::MAX, 16), 16);
        assert_eq!(sectors_of(&each(&|l| 1024 * l), u32::MAX, 4), 32);
        assert_eq!(sectors_of(&each(&|_| 64), u32::MAX, 4), 1);
        assert_eq!(sectors_of(&each(&|l| 32 * (l % 2)), u32::MAX, 4), 2);
        assert_eq!(sectors_of(&each(&|l| 260 + 4 * l), u32::MAX, 4), 5);
        assert_eq!(sectors_of(&each(&|l| 4 * l), 0b11, 4), 1);
    }

    #[test]
    fn sets_of_sectors_are_joined() {
        let (mut a, mut b) = (Sectors::default(), Sectors::default());
        a.insert(1, 3);
        b.insert(3, 5000);
        a.merge(&b);
        assert_eq!(a.count(), 5000);
    }
}
