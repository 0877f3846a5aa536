//! Collectives with their layouts planned, and their arithmetic.
//!
//! All members of a group run the same program, so a buffer lies at the same offset of every member's arena; a member reads its peers directly.
//! Elements are combined in the order of the members, whoever does it, so results repeat bit for bit and are the same on every member.
//! Narrow floats are summed in `f32` and rounded once.

use crate::arena::Place;
use crate::element::{Element, Wide, reduces};
use crate::strided::{StridedCopy, extent};
use crate::with_element;
use ir::op::Reducer;
use ir::program::{CollectiveKind, Pieces, Program, Segment};
use ir::{DType, Diagnostic};

/// Elements that are combined at a time: the accumulator stays in the first cache.
const BLOCK: usize = 512;

/// Pieces of a buffer, with neighbouring dimensions merged; strides are in elements.
#[derive(Clone, Debug)]
struct Layout {
    dims: Vec<(usize, usize)>,
    run: usize,
    peer: usize,
    elements: usize,
}

impl Layout {
    fn new(pieces: &Pieces) -> Layout {
        let mut dims: Vec<(usize, usize)> = Vec::new();
        for (&n, &s) in pieces.shape.iter().zip(&pieces.strides).filter(|(n, _)| **n != 1) {
            match dims.last_mut() {
                Some(last) if last.1 == (n * s) as usize => *last = (last.0 * n as usize, s as usize),
                _ => dims.push((n as usize, s as usize)),
            }
        }
        let run = match dims.last() {
            Some(&(n, 1)) => {
                dims.pop();
                n
            }
            _ => 1,
        };
        Layout { dims, run, peer: pieces.peer_stride as usize, elements: pieces.shape.iter().product::<u64>() as usize }
    }
    /// Where the piece's element `index` (row-major) lies, and how many follow it contiguously.
    #[inline]
    fn locate(&self, index: usize) -> (usize, usize) {
        let within = index % self.run;
        let (mut rest, mut offset) = (index / self.run, within);
        for &(n, s) in self.dims.iter().rev() {
            offset += rest % n * s;
            rest /= n;
        }
        (offset, self.run - within)
    }
}

/// The coarsest shape that both layouts can be seen in, row-major, with the strides of each; `None` when there is none.
fn common(give: &Layout, take: &Layout) -> Option<(Vec<u64>, Vec<i64>, Vec<i64>)> {
    let dims = |l: &Layout| l.dims.iter().copied().chain([(l.run, 1)]).filter(|(n, _)| *n != 1).collect::<Vec<_>>();
    let (mut a, mut b) = (dims(give), dims(take));
    let (mut shape, mut from, mut to) = (Vec::new(), Vec::new(), Vec::new());
    while let (Some(x), Some(y)) = (a.last_mut(), b.last_mut()) {
        let n = x.0.min(y.0);
        if n == 0 {
            return Some((vec![0], vec![0], vec![0]));
        }
        if x.0 % n != 0 || y.0 % n != 0 {
            return None;
        }
        shape.push(n as u64);
        from.push(x.1 as i64);
        to.push(y.1 as i64);
        (*x, *y) = ((x.0 / n, x.1 * n), (y.0 / n, y.1 * n));
        a.pop_if(|x| x.0 == 1);
        b.pop_if(|y| y.0 == 1);
    }
    for list in [&mut from, &mut to] {
        list.reverse();
    }
    shape.reverse();
    (a.is_empty() && b.is_empty()).then_some((shape, from, to))
}

/// One buffer's part.
#[derive(Clone, Debug)]
struct Part {
    input: Place,
    output: Place,
    give: Layout,
    take: Layout,
    copy: StridedCopy,
}

/// Pieces as loops over elements, outermost first: (extent, stride).
pub type Loops = Vec<(usize, usize)>;

/// One buffer's part, for those who move the elements themselves. Peer `i`'s piece begins `i · peer` elements further.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exchange {
    /// The buffer that is given.
    pub input: Place,
    /// The buffer that is taken into.
    pub output: Place,
    /// A given piece.
    pub give: Loops,
    /// A taken piece.
    pub take: Loops,
    /// Elements between the pieces that are given to peers.
    pub give_peer: usize,
    /// Elements between the pieces that are taken from peers.
    pub take_peer: usize,
    /// Elements of a piece.
    pub elements: usize,
}

/// A prepared collective.
#[derive(Clone, Debug)]
pub struct Collective {
    kind: CollectiveKind,
    reducer: Reducer,
    dtype: DType,
    parts: Vec<Part>,
    elements: usize,
    /// What it is called in messages: `all-reduce of %51 (step.mlir:54)`.
    pub label: String,
}

/// The name of a kind.
pub fn kind_name(kind: CollectiveKind) -> &'static str {
    match kind {
        CollectiveKind::AllReduce => "all-reduce",
        CollectiveKind::AllGather => "all-gather",
        CollectiveKind::ReduceScatter => "reduce-scatter",
        CollectiveKind::AllToAll => "all-to-all",
    }
}

impl Collective {
    /// Prepares a collective over `members` ranks.
    ///
    /// # Errors
    /// `E0602` when its pieces do not fit its buffers, `E0604` when elements of the type cannot be combined so.
    pub fn new(
        program: &Program,
        members: usize,
        kind: CollectiveKind,
        reducer: Reducer,
        dtype: DType,
        segments: &[Segment],
        source: &str,
    ) -> Result<Collective, Diagnostic> {
        let label = format!("{} of {source}", kind_name(kind));
        let wrong = |what: String| Diagnostic::input("E0602", format!("this plan is inconsistent: {what}")).with_note(format!("in {label}"));
        let combines = matches!(kind, CollectiveKind::AllReduce | CollectiveKind::ReduceScatter);
        if combines && (!reduces(reducer, dtype) || reducer == Reducer::Replace) {
            return Err(Diagnostic::input("E0604", format!("{dtype} cannot be combined by {reducer:?}")).with_note(format!("in {label}")));
        }
        let mut parts = Vec::new();
        for s in segments {
            let (Some(input), Some(output)) = (program.buffers.get(s.input), program.buffers.get(s.output)) else {
                return Err(wrong("a segment has no buffer".into()));
            };
            if s.give.shape.len() != s.give.strides.len() || s.take.shape.len() != s.take.strides.len() {
                return Err(wrong("a piece has another number of strides than dimensions".into()));
            }
            let (given, taken): (u64, u64) = (s.give.shape.iter().product(), s.take.shape.iter().product());
            if given != taken || input.ty.dtype.bytes() != dtype.bytes() || output.ty.dtype.bytes() != dtype.bytes() {
                return Err(wrong(format!("pieces of {given} and {taken} elements of {dtype} are exchanged from {} to {}", input.ty, output.ty)));
            }
            let (give_all, take_all) = match kind {
                CollectiveKind::AllReduce => (false, false),
                CollectiveKind::AllGather => (false, true),
                CollectiveKind::ReduceScatter => (true, false),
                CollectiveKind::AllToAll => (true, true),
            };
            for (pieces, all, buffer) in [(&s.give, give_all, input), (&s.take, take_all, output)] {
                let last = if all { (members as u64 - 1) * pieces.peer_stride } else { 0 };
                let reach = extent(&pieces.shape, pieces.strides.iter().map(|s| *s as i64)).map_or(0, |(_, high)| high as u64 + 1 + last);
                if reach > buffer.ty.elements() {
                    return Err(wrong(format!("a piece reaches element {reach} of a buffer of {}", buffer.ty)));
                }
            }
            let (input, output) = (Place::of(input), Place::of(output));
            let in_place = kind == CollectiveKind::AllReduce && input == output && s.give == s.take;
            if !in_place && input.overlaps(&output) {
                return Err(wrong("a collective's input and output share memory".into()));
            }
            let element = dtype.bytes() as usize;
            let (give, take) = (Layout::new(&s.give), Layout::new(&s.take));
            let Some((shape, from, to)) = common(&give, &take) else {
                return Err(wrong(format!("pieces of shapes {:?} and {:?} are exchanged", s.give.shape, s.take.shape)));
            };
            let copy = StridedCopy::new(&shape, &from, &to, element);
            let copy = copy.ok_or_else(|| wrong("a piece has too many dimensions".into()))?;
            parts.push(Part { input, output, give, take, copy });
        }
        let elements = parts.iter().map(|p| p.give.elements).sum();
        Ok(Collective { kind, reducer, dtype, parts, elements, label })
    }

    /// Which collective.
    pub fn kind(&self) -> CollectiveKind {
        self.kind
    }
    /// What it combines with, and elements of which type.
    pub fn reduction(&self) -> (Reducer, DType) {
        (self.reducer, self.dtype)
    }
    /// Its buffers' parts, in order.
    pub fn exchanges(&self) -> impl Iterator<Item = Exchange> {
        let loops = |l: &Layout| l.dims.iter().copied().chain([(l.run, 1)]).collect();
        self.parts.iter().map(move |p| Exchange {
            input: p.input,
            output: p.output,
            give: loops(&p.give),
            take: loops(&p.take),
            give_peer: p.give.peer,
            take_peer: p.take.peer,
            elements: p.give.elements,
        })
    }

    /// Does the share of member `me`, between the moment all members have arrived and the moment all have done theirs.
    ///
    /// # Safety
    /// `bases` are the arenas of the members, in order, of the program this was prepared for; no member touches the buffers meanwhile but through this.
    pub(super) unsafe fn work(&self, bases: &[*mut u8], me: usize, microbatch: u32) {
        let element = self.dtype.bytes() as usize;
        // SAFETY: offsets were checked against the buffers in `new`; members write disjoint elements: their share (all-reduce) or their own output.
        unsafe {
            match self.kind {
                CollectiveKind::AllReduce => self.all_reduce(bases, me, microbatch),
                CollectiveKind::ReduceScatter => {
                    for p in &self.parts {
                        let give = p.input.offset(microbatch) + me * p.give.peer * element;
                        self.combine(p, bases, give, &bases[me..=me], p.output.offset(microbatch), 0, p.give.elements);
                    }
                }
                CollectiveKind::AllGather | CollectiveKind::AllToAll => {
                    for p in &self.parts {
                        let piece = if self.kind == CollectiveKind::AllToAll { me * p.give.peer * element } else { 0 };
                        // Members start at different peers, so that they do not all read the same memory first.
                        for i in (me..bases.len()).chain(0..me) {
                            let from = bases[i].add(p.input.offset(microbatch) + piece);
                            p.copy.run(from, bases[me].add(p.output.offset(microbatch) + i * p.take.peer * element));
                        }
                    }
                }
            }
        }
    }

    /// Whether the members combine what they give.
    pub fn combines(&self) -> bool {
        matches!(self.kind, CollectiveKind::AllReduce | CollectiveKind::ReduceScatter)
    }
    /// Whether each member computes a share that all others then need.
    pub fn spreads(&self) -> bool {
        self.kind == CollectiveKind::AllReduce
    }
    /// Bytes that one member gives, of all buffers.
    pub fn bytes(&self) -> usize {
        self.elements * self.dtype.bytes() as usize
    }

    /// What member `peer` of `members` is given by each: of every part the first element of the piece, and which elements of it.
    fn given(&self, members: usize, peer: usize) -> impl Iterator<Item = (&Part, usize, usize, usize)> {
        let (start, end) = self.share(members, peer);
        self.within(start, end).map(move |(p, low, high)| match self.kind {
            CollectiveKind::AllReduce => (p, 0, low, high),
            CollectiveKind::AllGather => (p, 0, 0, p.give.elements),
            CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => (p, peer * p.give.peer, 0, p.give.elements),
        })
    }
    /// Where what member `from` of `members` has (combined or given) goes.
    fn taken(&self, members: usize, from: usize) -> impl Iterator<Item = (&Part, usize, usize, usize)> {
        let (start, end) = self.share(members, from);
        self.within(start, end).map(move |(p, low, high)| match self.kind {
            CollectiveKind::AllReduce => (p, 0, low, high),
            CollectiveKind::ReduceScatter => (p, 0, 0, p.take.elements),
            CollectiveKind::AllGather | CollectiveKind::AllToAll => (p, from * p.take.peer, 0, p.take.elements),
        })
    }
    /// The parts' elements between two of the whole; of kinds that are not shared out, all.
    fn within(&self, start: usize, end: usize) -> impl Iterator<Item = (&Part, usize, usize)> {
        let mut before = 0;
        self.parts.iter().filter_map(move |p| {
            let (low, high) = (start.max(before).saturating_sub(before), end.min(before + p.give.elements).saturating_sub(before));
            before += p.give.elements;
            (!self.spreads() || low < high).then_some((p, low, high))
        })
    }

    /// Bytes that member `peer` of `members` is given by each.
    pub(super) fn given_bytes(&self, members: usize, peer: usize) -> usize {
        self.given(members, peer).map(|(_, _, low, high)| high - low).sum::<usize>() * self.dtype.bytes() as usize
    }
    /// Bytes that come from member `from` of `members` to where they stay.
    pub(super) fn taken_bytes(&self, members: usize, from: usize) -> usize {
        self.taken(members, from).map(|(_, _, low, high)| high - low).sum::<usize>() * self.dtype.bytes() as usize
    }

    /// Appends what member `peer` of `members` is given from the arena at `base`.
    ///
    /// # Safety
    /// `base` is an arena of the program this was prepared for, and nobody writes the buffers meanwhile.
    pub(super) unsafe fn pack(&self, base: *const u8, members: usize, peer: usize, microbatch: u32, out: &mut Vec<u8>) {
        let element = self.dtype.bytes() as usize;
        for (p, first, low, high) in self.given(members, peer) {
            let mut index = low;
            while index < high {
                let (offset, run) = p.give.locate(index);
                let n = run.min(high - index);
                // SAFETY: the pieces were checked against their buffers in `new`.
                let bytes = unsafe { std::slice::from_raw_parts(base.add(p.input.offset(microbatch) + (first + offset) * element), n * element) };
                out.extend_from_slice(bytes);
                index += n;
            }
        }
    }

    /// Writes what member `from` of `members` has to where it stays in the arena at `base`.
    ///
    /// # Safety
    /// As [`Collective::pack`], and nobody reads the output meanwhile.
    pub(super) unsafe fn unpack(&self, base: *mut u8, members: usize, from: usize, microbatch: u32, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.taken_bytes(members, from), "invariant: the caller has checked the length");
        let element = self.dtype.bytes() as usize;
        let mut rest = bytes;
        for (p, first, low, high) in self.taken(members, from) {
            let mut index = low;
            while index < high {
                let (offset, run) = p.take.locate(index);
                let n = run.min(high - index);
                let (now, later) = rest.split_at(n * element);
                // SAFETY: the pieces were checked against their buffers in `new`, and `now` is no part of an arena.
                unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), base.add(p.output.offset(microbatch) + (first + offset) * element), now.len()) };
                rest = later;
                index += n;
            }
        }
    }

    /// Appends the elements of `given`, one slice of equal length per member, combined in the order of members: the very arithmetic of [`Collective::work`].
    pub(super) fn combine_packed(&self, given: &[&[u8]], out: &mut Vec<u8>) {
        with_element!(self.dtype, T => {
            let size = size_of::<T>();
            let count = given.iter().map(|g| g.len()).min().unwrap_or(0) / size;
            let mut block = [<T as Element>::Wide::default(); BLOCK];
            let mut source = [const { std::mem::MaybeUninit::<T>::uninit() }; BLOCK];
            let mut index = 0;
            while index < count {
                let n = BLOCK.min(count - index);
                for (i, bytes) in given.iter().enumerate() {
                    let bytes = &bytes[index * size..(index + n) * size];
                    // SAFETY: `bytes` are n elements, which may lie unaligned there and are aligned here; any bits are an element.
                    let source = unsafe {
                        std::ptr::copy_nonoverlapping(bytes.as_ptr(), source.as_mut_ptr().cast::<u8>(), bytes.len());
                        std::slice::from_raw_parts(source.as_ptr().cast::<T>(), n)
                    };
                    if i == 0 {
                        for (x, y) in block.iter_mut().zip(source) {
                            *x = y.widen();
                        }
                    } else {
                        fold::<T>(self.reducer, &mut block[..n], source);
                    }
                }
                for x in &block[..n] {
                    let narrow = T::narrow(*x);
                    // SAFETY: an element is plain data of `size` bytes.
                    out.extend_from_slice(unsafe { std::slice::from_raw_parts((&raw const narrow).cast::<u8>(), size) });
                }
                index += n;
            }
        }, otherwise ());
    }

    /// The elements of an all-reduce that member `me` of `members` combines: first and one past the last.
    pub fn share(&self, members: usize, me: usize) -> (usize, usize) {
        // Shares are whole cache lines, so that no two members write the same one.
        let line = 64 / self.dtype.bytes().min(64) as usize;
        let boundary = |i: usize| if i == members { self.elements } else { (self.elements * i / members).next_multiple_of(line).min(self.elements) };
        (boundary(me), boundary(me + 1))
    }

    /// Combines this member's share of all elements and writes it to every member.
    ///
    /// # Safety
    /// As [`Collective::work`].
    unsafe fn all_reduce(&self, bases: &[*mut u8], me: usize, microbatch: u32) {
        let (start, end) = self.share(bases.len(), me);
        let mut before = 0;
        for p in &self.parts {
            let (low, high) = (start.max(before), end.min(before + p.give.elements));
            if low < high {
                // SAFETY: as the caller vouches.
                unsafe { self.combine(p, bases, p.input.offset(microbatch), bases, p.output.offset(microbatch), low - before, high - before) };
            }
            before += p.give.elements;
        }
    }

    /// Combines elements `start..end` of a piece over all of `bases` and writes them to the same place under each of `targets`.
    ///
    /// # Safety
    /// As [`Collective::work`]; offsets are in bytes.
    #[allow(clippy::too_many_arguments, reason = "a range of one piece, from where, to where")]
    unsafe fn combine(&self, p: &Part, bases: &[*mut u8], give: usize, targets: &[*mut u8], take: usize, start: usize, end: usize) {
        with_element!(self.dtype, T => {
            let mut block = [<T as Element>::Wide::default(); BLOCK];
            let mut index = start;
            while index < end {
                let ((from, from_run), (to, to_run)) = (p.give.locate(index), p.take.locate(index));
                let n = BLOCK.min(from_run).min(to_run).min(end - index);
                let block = &mut block[..n];
                // SAFETY: `locate` stays inside the pieces, which stay inside the buffers.
                unsafe {
                    let source = |base: *mut u8| std::slice::from_raw_parts(base.add(give).cast::<T>().add(from), n);
                    for (x, y) in block.iter_mut().zip(source(bases[0])) {
                        *x = y.widen();
                    }
                    for &base in &bases[1..] {
                        fold::<T>(self.reducer, block, source(base));
                    }
                    for &base in targets {
                        let target = base.add(take).cast::<T>().add(to);
                        for (i, x) in block.iter().enumerate() {
                            target.add(i).write(T::narrow(*x));
                        }
                    }
                }
                index += n;
            }
        }, otherwise ());
    }
}

/// `block[i] = fold(block[i], with[i])`, with the reducer's match outside the loop.
#[inline(always)]
fn fold<T: Element>(reducer: Reducer, block: &mut [T::Wide], with: &[T]) {
    macro_rules! each {
        ($($r:ident),*) => {
            match reducer {
                $(Reducer::$r => for (x, y) in block.iter_mut().zip(with) { *x = T::Wide::fold(Reducer::$r, *x, y.widen()); },)*
                Reducer::Replace | Reducer::General => {}
            }
        };
    }
    each!(Add, Mul, Max, Min, And, Or, Xor);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_and_a_block_have_a_common_shape() {
        let layout = |shape: &[u64], strides: &[u64]| Layout::new(&Pieces { shape: shape.to_vec(), strides: strides.to_vec(), peer_stride: 0 });
        let block = layout(&[4, 6], &[10, 1]);
        assert_eq!(common(&layout(&[24], &[1]), &block), Some((vec![4, 6], vec![6, 1], vec![10, 1])));
        assert_eq!(common(&layout(&[3, 8], &[8, 1]), &block), Some((vec![4, 6], vec![6, 1], vec![10, 1])));
        assert_eq!(common(&layout(&[3, 8], &[9, 1]), &block), None);
        assert_eq!(common(&layout(&[], &[]), &layout(&[1, 1], &[7, 1])), Some((vec![], vec![], vec![])));
    }
}
