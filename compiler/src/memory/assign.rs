//! Offsets in one arena for items with known lifetimes (dynamic storage allocation, known ahead).
//!
//! Items are put one after another at the lowest offset where they disturb nothing that is alive at the same time; the order decides the
//! quality, so several are tried, and then items at the top of the arena are moved to the front of the order while that helps
//! (the greedy by size of Pisarchyk and Lee, 2020, with restarts). Most live bytes at a moment is the bound that no packing beats.
//! Invariants: items whose lifetimes overlap never share a byte; every offset is a multiple of its item's alignment;
//! the result depends on the items alone, and the effort is counted in comparisons, not in seconds.

/// Something that needs memory from moment `first` up to, not including, moment `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its size.
    pub bytes: u64,
    /// First moment it is alive.
    pub first: u32,
    /// First moment it is not alive any more; an item lives at least one moment.
    pub last: u32,
    /// What its offset is a multiple of; 0 and 1 mean any.
    pub align: u64,
}

impl Item {
    fn end(&self) -> u32 {
        self.last.max(self.first.saturating_add(1))
    }
    /// Whether some moment sees both.
    pub fn overlaps(&self, other: &Item) -> bool {
        self.first < other.end() && other.first < self.end()
    }
}

/// Where items lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Offset of each item.
    pub offsets: Vec<u64>,
    /// Size of the arena.
    pub total: u64,
    /// Most live bytes at any moment: no arena can be smaller.
    pub bound: u64,
    /// A moment that has them.
    pub peak: u32,
    /// Which order won.
    pub order: &'static str,
}

/// Pairs of items that a call may compare before it stops looking for a better order.
const EFFORT: u64 = 120_000_000;
/// Rounds of improvement at most.
const ROUNDS: u32 = 64;

/// Assigns offsets to `items`.
pub fn assign(items: &[Item]) -> Assignment {
    let (bound, peak) = most_live(items);
    let mut packer = Packer { items, placed: Vec::with_capacity(items.len()), compared: 0 };
    let mut best = Assignment { offsets: Vec::new(), total: u64::MAX, bound, peak, order: "" };
    let mut best_order = Vec::new();
    for (name, order) in orders(items) {
        let (offsets, total) = packer.pack(&order);
        if total < best.total {
            best = Assignment { offsets, total, order: name, ..best };
            best_order = order;
        }
        if best.total == bound || packer.compared > EFFORT {
            return best;
        }
    }
    improve(&mut packer, &mut best, best_order);
    best
}

/// The most bytes alive at one moment, and the first such moment.
fn most_live(items: &[Item]) -> (u64, u32) {
    let mut changes: Vec<(u32, bool, u64)> = items.iter().flat_map(|i| [(i.first, true, i.bytes), (i.end(), false, i.bytes)]).collect();
    // At one moment, what ends goes before what starts.
    changes.sort_unstable();
    let (mut live, mut most, mut peak) = (0u64, 0u64, 0u32);
    for (moment, starts, bytes) in changes {
        live = if starts { live + bytes } else { live - bytes };
        if live > most {
            (most, peak) = (live, moment);
        }
    }
    (most, peak)
}

/// Orders worth trying, the usually best first.
fn orders(items: &[Item]) -> impl Iterator<Item = (&'static str, Vec<u32>)> {
    type Key = fn(&Item) -> (u128, u64);
    const KEYS: [(&str, Key); 4] = [
        ("by size", |i| (u128::from(i.bytes), u64::from(i.end() - i.first))),
        ("by size and lifetime", |i| (u128::from(i.bytes) * u128::from(i.end() - i.first), i.bytes)),
        ("by lifetime", |i| (u128::from(i.end() - i.first), i.bytes)),
        ("by start", |i| (u128::from(u32::MAX - i.first), i.bytes)),
    ];
    KEYS.into_iter().map(|(name, key)| {
        let mut order: Vec<u32> = (0..items.len() as u32).collect();
        order.sort_by_key(|&i| std::cmp::Reverse((key(&items[i as usize]), std::cmp::Reverse(i))));
        (name, order)
    })
}

/// Moves what lies highest to the front, as long as the arena shrinks or the rounds last.
fn improve(packer: &mut Packer<'_>, best: &mut Assignment, mut order: Vec<u32>) {
    let mut offsets = best.offsets.clone();
    let mut total = best.total;
    for _ in 0..ROUNDS {
        let ends = |i: u32| offsets[i as usize] + packer.items[i as usize].bytes;
        let (top, rest): (Vec<u32>, Vec<u32>) = order.iter().partition(|&&i| packer.items[i as usize].bytes > 0 && ends(i) == total);
        order = top.into_iter().chain(rest).collect();
        (offsets, total) = packer.pack(&order);
        if total < best.total {
            *best = Assignment { offsets: offsets.clone(), total, order: "improved", ..*best };
        }
        if best.total == best.bound || packer.compared > EFFORT {
            return;
        }
    }
}

/// An item that has its place.
#[derive(Clone, Copy)]
struct Placed {
    offset: u64,
    end: u64,
    first: u32,
    last: u32,
}

struct Packer<'a> {
    items: &'a [Item],
    /// In order of offset.
    placed: Vec<Placed>,
    compared: u64,
}

impl Packer<'_> {
    fn pack(&mut self, order: &[u32]) -> (Vec<u64>, u64) {
        let mut offsets = vec![0; self.items.len()];
        let mut total = 0;
        self.placed.clear();
        for &i in order {
            let item = &self.items[i as usize];
            if item.bytes == 0 {
                continue;
            }
            let offset = self.lowest(item);
            let placed = Placed { offset, end: offset + item.bytes, first: item.first, last: item.end() };
            self.placed.insert(self.placed.partition_point(|p| p.offset < offset), placed);
            offsets[i as usize] = offset;
            total = total.max(placed.end);
        }
        (offsets, total)
    }

    /// The lowest offset where `item` fits: the placed items are passed from below, and the first gap that is large enough is taken.
    fn lowest(&mut self, item: &Item) -> u64 {
        let (first, last) = (item.first, item.end());
        let mut offset = 0u64;
        let mut passed = 0;
        for p in &self.placed {
            passed += 1;
            if p.first < last && first < p.last {
                if p.offset >= offset + item.bytes {
                    break;
                }
                offset = offset.max(p.end.next_multiple_of(item.align.max(1)));
            }
        }
        self.compared += passed;
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn item(bytes: u64, first: u32, last: u32) -> Item {
        Item { bytes, first, last, align: 64 }
    }

    fn sound(items: &[Item]) -> Assignment {
        let a = assign(items);
        assert!(a.total >= a.bound);
        for (i, x) in items.iter().enumerate() {
            assert_eq!(a.offsets[i] % x.align.max(1), 0);
            assert!(x.bytes == 0 || a.offsets[i] + x.bytes <= a.total);
        }
        let mut by_offset: Vec<usize> = (0..items.len()).filter(|&i| items[i].bytes > 0).collect();
        by_offset.sort_by_key(|&i| a.offsets[i]);
        for (n, &i) in by_offset.iter().enumerate() {
            let end = a.offsets[i] + items[i].bytes;
            for &j in by_offset[n + 1..].iter().take_while(|&&j| a.offsets[j] < end) {
                assert!(!items[i].overlaps(&items[j]), "items {i} and {j} share memory");
            }
        }
        a
    }

    #[test]
    fn what_lives_apart_shares() {
        let a = sound(&[item(128, 0, 2), item(64, 2, 4), item(64, 2, 4), item(0, 0, 9)]);
        assert_eq!((a.total, a.bound, a.peak), (128, 128, 0));
        assert_eq!(sound(&[]).total, 0);
    }

    #[test]
    fn an_empty_lifetime_is_one_moment() {
        assert_eq!(sound(&[item(64, 3, 3), item(64, 3, 4)]).total, 128);
    }

    #[test]
    fn kept_activations_pack_to_the_bound() {
        // Forward makes an activation a layer and a passing temporary; backward frees in reverse and makes a gradient of the same size.
        let layers = 24u32;
        let mut items = vec![item(1 << 20, 0, 4 * layers)];
        for l in 0..layers {
            items.push(item(6400 + 64 * u64::from(l), l, 2 * layers - l));
            items.push(item(25600, l, l + 1));
            items.push(item(12800, 2 * layers - l - 1, 2 * layers - l + 1));
        }
        let a = sound(&items);
        assert!(a.total as f64 <= 1.02 * a.bound as f64, "{a:?}");
    }

    proptest! {
        #[test]
        fn overlapping_lifetimes_never_share_memory(items in prop::collection::vec((0u64..5000, 0u32..60, 0u32..30, 0u32..8), 0..120)) {
            let items: Vec<Item> =
                items.into_iter().map(|(bytes, first, length, align)| Item { bytes, first, last: first + length, align: 1 << align }).collect();
            let a = sound(&items);
            prop_assert_eq!(&a, &assign(&items));
            let sum: u64 = items.iter().map(|i| i.bytes + i.align).sum();
            prop_assert!(a.total <= sum);
        }
    }

    #[test]
    fn twenty_thousand_items_are_packed_quickly_and_well() {
        // A fixed linear congruential sequence: mostly short lives, some long ones, sizes over four decades.
        let mut state = 1u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        let items: Vec<Item> = (0..20_000)
            .map(|_| {
                let first = next(10_000) as u32;
                let length = if next(10) == 0 { next(5_000) } else { next(30) } as u32 + 1;
                let decade = next(12);
                item(64 * (1 + next(1 << decade)), first, first + length)
            })
            .collect();
        let a = sound(&items);
        assert!(a.total as f64 <= 1.10 * a.bound as f64, "{} against {}", a.total, a.bound);
    }
}
