//! Missing barriers: for every word that a block touches, who wrote it last and who has read it since.
//!
//! What orders accesses is kept as vector clocks over the warps of the block (Flanagan and Freund, "FastTrack: Efficient and Precise Dynamic Race
//! Detection"): a barrier joins the clocks of those that meet at it, and `bar.warp.sync` advances a warp's own. Lanes of one warp are not in step for the
//! sake of their instructions: without a barrier between they race as any two threads do. Lanes that store the same bytes by one instruction do not.

use rustc_hash::FxHashMap;

/// What an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// An atomic, or an access that is ordered by itself.
    Strong,
}

/// One access: the thread's number in the block, its warp's clock, and the number of the request.
#[derive(Clone, Copy, Debug)]
struct Touch {
    thread: u32,
    clock: u32,
    request: u64,
    strong: bool,
}

#[derive(Clone, Debug, Default)]
struct Cell {
    write: Option<Touch>,
    reads: Vec<Touch>,
}

#[derive(Clone, Debug)]
enum Word {
    Whole(Cell),
    Bytes(Box<[Cell; 4]>),
}

/// The words of a block, shared ones and those of device memory.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    words: FxHashMap<u64, Word>,
    /// What each warp knows of each.
    clocks: Vec<Vec<u32>>,
    requests: u64,
}

impl Shadow {
    /// Forgets everything, for a block of so many warps.
    pub(crate) fn begin(&mut self, warps: usize) {
        self.words.clear();
        self.clocks.clear();
        self.clocks.extend((0..warps).map(|w| {
            let mut clock = vec![0; warps];
            clock[w] = 1;
            clock
        }));
    }
    /// Warps meet at a barrier.
    pub(crate) fn join(&mut self, warps: &[usize]) {
        let mut joined = vec![0; self.clocks.len()];
        for &w in warps {
            joined.iter_mut().zip(&self.clocks[w]).for_each(|(a, b)| *a = (*a).max(*b));
        }
        for &w in warps {
            self.clocks[w].copy_from_slice(&joined);
            self.clocks[w][w] += 1;
        }
    }
    /// The lanes of a warp meet.
    pub(crate) fn advance(&mut self, warp: usize) {
        self.clocks[warp][warp] += 1;
    }
    /// A request begins: its lanes act at once.
    pub(crate) fn request(&mut self) {
        self.requests += 1;
    }
    /// A thread touches `bytes` bytes of `address`; the thread it races with and how that one had touched them.
    pub(crate) fn touch(&mut self, address: u64, bytes: u64, thread: u32, kind: Kind, same: bool) -> Option<(u32, bool)> {
        let warp = (thread / 32) as usize;
        let touch = Touch { thread, clock: self.clocks[warp][warp], request: self.requests, strong: kind == Kind::Strong };
        let clocks = &self.clocks[warp];
        let mut found = None;
        let (mut at, end) = (address, address + bytes);
        while at < end {
            let upto = (at / 4 * 4 + 4).min(end);
            let whole = upto - at == 4;
            let word = self.words.entry(at / 4).or_insert_with(|| Word::Whole(Cell::default()));
            if let (Word::Whole(cell), false) = (&*word, whole) {
                *word = Word::Bytes(Box::new(std::array::from_fn(|_| cell.clone())));
            }
            match word {
                Word::Whole(cell) => found = found.or(visit(cell, touch, kind, clocks, same)),
                Word::Bytes(cells) => {
                    for cell in &mut cells[(at % 4) as usize..=((upto - 1) % 4) as usize] {
                        found = found.or(visit(cell, touch, kind, clocks, same));
                    }
                }
            }
            at = upto;
        }
        found
    }
}

fn visit(cell: &mut Cell, touch: Touch, kind: Kind, clocks: &[u32], same: bool) -> Option<(u32, bool)> {
    // What a warp knows of another is up to the last barrier they both met at; of itself up to the last that is past.
    let warp = touch.thread / 32;
    let unordered = |t: &Touch| {
        let other = t.thread / 32;
        t.thread != touch.thread && if other == warp { t.clock == touch.clock } else { t.clock > clocks[other as usize] }
    };
    let mut found = None;
    if let Some(w) = cell.write.filter(|w| unordered(w) && !(w.strong && touch.strong) && !(same && w.request == touch.request)) {
        found = Some((w.thread, true));
    }
    if kind == Kind::Read {
        let own = cell.reads.iter().position(|r| r.thread == touch.thread);
        // Two readers of each warp say as much as all of them: with whom else they race, one of the two is another thread.
        let recent = cell.reads.iter().filter(|r| r.thread / 32 == warp && r.clock == touch.clock).count();
        match own {
            Some(i) => cell.reads[i] = touch,
            None if recent < 2 => {
                cell.reads.retain(|r| r.thread / 32 != warp || r.clock == touch.clock);
                cell.reads.push(touch);
            }
            None => {}
        }
        return found;
    }
    if found.is_none() {
        found = cell.reads.iter().find(|r| unordered(r)).map(|r| (r.thread, false));
    }
    cell.reads.clear();
    cell.write = Some(touch);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nothing_orders_is_a_race() {
        let mut s = Shadow::default();
        s.begin(2);
        s.request();
        assert_eq!(s.touch(64, 4, 0, Kind::Write, false), None);
        // Another word, and the same thread again.
        assert_eq!(s.touch(68, 4, 1, Kind::Write, false), None);
        assert_eq!(s.touch(64, 4, 0, Kind::Read, false), None);
        assert_eq!(s.touch(64, 4, 40, Kind::Read, false), Some((0, true)));
        s.join(&[0, 1]);
        assert_eq!(s.touch(64, 4, 40, Kind::Read, false), None);
        assert_eq!(s.touch(64, 4, 41, Kind::Read, false), None);
        assert_eq!(s.touch(64, 4, 3, Kind::Write, false), Some((40, false)));
        s.join(&[0, 1]);
        assert_eq!(s.touch(64, 2, 3, Kind::Write, false), None);
        assert_eq!(s.touch(66, 2, 4, Kind::Write, false), None);
        assert_eq!(s.touch(64, 4, 3, Kind::Read, false), Some((4, true)));
    }

    #[test]
    fn warps_are_ordered_by_their_own_barrier_only_within() {
        let mut s = Shadow::default();
        s.begin(2);
        s.request();
        assert_eq!(s.touch(0, 4, 0, Kind::Write, false), None);
        assert_eq!(s.touch(0, 4, 1, Kind::Read, false), Some((0, true)));
        s.advance(0);
        assert_eq!(s.touch(0, 4, 1, Kind::Read, false), None);
        assert_eq!(s.touch(0, 4, 32, Kind::Read, false), Some((0, true)));
    }

    #[test]
    fn atomics_do_not_race_with_each_other_nor_equal_stores_of_one_request() {
        let mut s = Shadow::default();
        s.begin(2);
        assert_eq!(s.touch(0, 4, 0, Kind::Strong, false), None);
        assert_eq!(s.touch(0, 4, 33, Kind::Strong, false), None);
        assert_eq!(s.touch(0, 4, 34, Kind::Write, false), Some((33, true)));
        s.join(&[0, 1]);
        s.request();
        assert_eq!(s.touch(8, 4, 0, Kind::Write, true), None);
        assert_eq!(s.touch(8, 4, 1, Kind::Write, true), None);
        s.request();
        assert_eq!(s.touch(8, 4, 2, Kind::Write, true), Some((1, true)));
    }
}
