//! Strided copies: the one way data changes its layout.
//!
//! A copy is normalised once (dimensions of one element dropped, ordered by the target, neighbours merged) and then done as rows of `memcpy`, as a tiled
//! transpose, or element by element, whichever the innermost dimensions allow. Elements are opaque bytes; source and target never overlap.

/// Most dimensions a normalised copy may have.
pub const MAX_DIMS: usize = 16;

/// Side of the square tile of a transpose, in elements.
const TILE: usize = 16;

/// One loop of a copy; strides are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Dim {
    size: usize,
    from: isize,
    to: isize,
}

/// What the innermost dimensions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inner {
    /// Nothing to copy.
    Empty,
    /// So many contiguous bytes.
    Run(usize),
    /// One loop over elements of a power-of-two size.
    Elements(Dim, usize),
    /// Two loops over elements of that size: the first is contiguous in the source, the second in the target.
    Transpose(Dim, Dim, usize),
}

/// A normalised copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StridedCopy {
    outer: Vec<Dim>,
    inner: Inner,
}

/// The least and largest index a strided block touches, from its offset; `None` when it is empty.
pub fn extent(shape: &[u64], strides: impl Iterator<Item = i64>) -> Option<(i64, i64)> {
    if shape.contains(&0) {
        return None;
    }
    Some(shape.iter().zip(strides).fold((0, 0), |(low, high), (&n, s)| {
        let reach = (n as i64 - 1) * s;
        (low + reach.min(0), high + reach.max(0))
    }))
}

impl StridedCopy {
    /// The copy of `shape` elements of `element` bytes; strides are in elements. `None` when more than [`MAX_DIMS`] loops would be needed.
    pub fn new(shape: &[u64], from: &[i64], to: &[i64], element: usize) -> Option<StridedCopy> {
        let size = element as isize;
        if shape.contains(&0) {
            return Some(StridedCopy { outer: Vec::new(), inner: Inner::Empty });
        }
        let mut dims: Vec<Dim> = shape
            .iter()
            .zip(from.iter().zip(to))
            .filter(|(n, _)| **n > 1)
            .map(|(&n, (&f, &t))| Dim { size: n as usize, from: f as isize * size, to: t as isize * size })
            .collect();
        dims.sort_by_key(|d| (std::cmp::Reverse(d.to.abs()), std::cmp::Reverse(d.from.abs())));
        let mut merged: Vec<Dim> = Vec::with_capacity(dims.len());
        for d in dims {
            match merged.last_mut() {
                Some(m) if m.from == d.from * d.size as isize && m.to == d.to * d.size as isize => *m = Dim { size: m.size * d.size, ..d },
                _ => merged.push(d),
            }
        }
        let mut run = element;
        if let Some(d) = merged.last().copied()
            && d.from == size
            && d.to == size
        {
            merged.pop();
            run = d.size * element;
        }
        let inner = if !matches!(run, 1 | 2 | 4 | 8 | 16) || merged.is_empty() {
            Inner::Run(run)
        } else {
            let width = run as isize;
            let last = merged.pop().expect("invariant: not empty");
            match merged.iter().position(|d| d.from == width) {
                Some(i) if last.to == width && last.from != 0 => Inner::Transpose(merged.remove(i), last, run),
                _ => Inner::Elements(last, run),
            }
        };
        (merged.len() <= MAX_DIMS).then_some(StridedCopy { outer: merged, inner })
    }

    /// Does it.
    ///
    /// # Safety
    /// Every address `from + Σ strides·i` can be read and every `to + Σ strides·i` written, and no source byte is a target byte.
    pub unsafe fn run(&self, from: *const u8, to: *mut u8) {
        // SAFETY: the offsets visited are those of the copy, which the caller vouches for.
        unsafe {
            match self.inner {
                Inner::Empty => {}
                Inner::Run(bytes) => self.each(|f, t| std::ptr::copy_nonoverlapping(from.offset(f), to.offset(t), bytes)),
                Inner::Elements(dim, 1) => self.each(|f, t| elements::<u8>(dim, from.offset(f), to.offset(t))),
                Inner::Elements(dim, 2) => self.each(|f, t| elements::<u16>(dim, from.offset(f), to.offset(t))),
                Inner::Elements(dim, 4) => self.each(|f, t| elements::<u32>(dim, from.offset(f), to.offset(t))),
                Inner::Elements(dim, 8) => self.each(|f, t| elements::<u64>(dim, from.offset(f), to.offset(t))),
                Inner::Elements(dim, _) => self.each(|f, t| elements::<u128>(dim, from.offset(f), to.offset(t))),
                Inner::Transpose(a, b, 1) => self.each(|f, t| transpose::<u8>(a, b, from.offset(f), to.offset(t))),
                Inner::Transpose(a, b, 2) => self.each(|f, t| transpose::<u16>(a, b, from.offset(f), to.offset(t))),
                Inner::Transpose(a, b, 4) => self.each(|f, t| transpose::<u32>(a, b, from.offset(f), to.offset(t))),
                Inner::Transpose(a, b, 8) => self.each(|f, t| transpose::<u64>(a, b, from.offset(f), to.offset(t))),
                Inner::Transpose(a, b, _) => self.each(|f, t| transpose::<u128>(a, b, from.offset(f), to.offset(t))),
            }
        }
    }

    /// Calls `f` with the byte offsets of every point of the outer loops.
    #[inline(always)]
    fn each(&self, mut f: impl FnMut(isize, isize)) {
        let mut index = [0usize; MAX_DIMS];
        let (mut from, mut to) = (0isize, 0isize);
        'points: loop {
            f(from, to);
            for (d, i) in self.outer.iter().zip(&mut index).rev() {
                *i += 1;
                from += d.from;
                to += d.to;
                if *i < d.size {
                    continue 'points;
                }
                from -= d.from * d.size as isize;
                to -= d.to * d.size as isize;
                *i = 0;
            }
            return;
        }
    }
}

/// # Safety
/// As [`StridedCopy::run`], for one loop.
#[inline(always)]
unsafe fn elements<T: Copy>(dim: Dim, from: *const u8, to: *mut u8) {
    for i in 0..dim.size as isize {
        // SAFETY: the caller vouches for every point of the loop.
        unsafe { to.offset(i * dim.to).cast::<T>().write_unaligned(from.offset(i * dim.from).cast::<T>().read_unaligned()) };
    }
}

/// # Safety
/// As [`StridedCopy::run`], for two loops.
#[inline(always)]
unsafe fn transpose<T: Copy>(a: Dim, b: Dim, from: *const u8, to: *mut u8) {
    for a0 in (0..a.size).step_by(TILE) {
        for b0 in (0..b.size).step_by(TILE) {
            for i in a0..(a0 + TILE).min(a.size) {
                for j in b0..(b0 + TILE).min(b.size) {
                    let (i, j) = (i as isize, j as isize);
                    // SAFETY: the caller vouches for every point of the loops.
                    unsafe { to.offset(i * a.to + j * b.to).cast::<T>().write_unaligned(from.offset(i * a.from + j * b.from).cast::<T>().read_unaligned()) };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::dtype::row_major_strides;
    use proptest::prelude::*;

    fn naive(shape: &[u64], from: &[i64], to: &[i64], element: usize, source: &[u8], target: &mut [u8], f0: i64, t0: i64) {
        let total: u64 = shape.iter().product();
        for linear in 0..total {
            let (mut rest, mut f, mut t) = (linear, f0, t0);
            for d in (0..shape.len()).rev() {
                let i = (rest % shape[d]) as i64;
                rest /= shape[d];
                f += i * from[d];
                t += i * to[d];
            }
            let (f, t) = (f as usize * element, t as usize * element);
            target[t..t + element].copy_from_slice(&source[f..f + element]);
        }
    }

    proptest! {
        #[test]
        fn every_layout_is_copied_as_by_the_naive_loop(
            shape in prop::collection::vec(1u64..7, 0..5),
            order in prop::collection::vec(0usize..100, 5),
            reversed in 0u32..32,
            broadcast in 0u32..8,
            element in prop::sample::select(vec![1usize, 2, 4, 8, 16]),
        ) {
            // The source is a permuted, padded and partly reversed or repeated layout; the target is row-major with a gap.
            let rank = shape.len();
            let mut permutation: Vec<usize> = (0..rank).collect();
            permutation.sort_by_key(|d| order[*d]);
            let padded: Vec<u64> = permutation.iter().map(|&d| shape[d] + 1).collect();
            let strides = row_major_strides(&padded);
            let (mut from, mut f0) = (vec![0i64; rank], 0i64);
            for (i, &d) in permutation.iter().enumerate() {
                from[d] = strides[i] as i64;
                if broadcast == d as u32 {
                    from[d] = 0;
                } else if reversed >> d & 1 == 1 {
                    f0 += from[d] * (shape[d] as i64 - 1);
                    from[d] = -from[d];
                }
            }
            let wide: Vec<u64> = shape.iter().enumerate().map(|(i, n)| n + u64::from(i % 2 == 1)).collect();
            let to: Vec<i64> = row_major_strides(&wide).iter().map(|s| *s as i64).collect();
            let size = padded.iter().product::<u64>() as usize * element;
            let source: Vec<u8> = (0..size).map(|i| (i * 7 + i / 251) as u8).collect();
            let length = wide.iter().product::<u64>() as usize * element;
            let (mut expected, mut got) = (vec![0u8; length], vec![0u8; length]);
            naive(&shape, &from, &to, element, &source, &mut expected, f0, 0);
            let copy = StridedCopy::new(&shape, &from, &to, element).unwrap();
            // SAFETY: the strides stay inside both vectors, as the naive loop's checked indexing has just shown.
            unsafe { copy.run(source.as_ptr().add(f0 as usize * element), got.as_mut_ptr()) };
            prop_assert_eq!(expected, got);
        }
    }

    #[test]
    fn contiguous_copies_become_one_run() {
        let copy = StridedCopy::new(&[4, 5, 6], &[30, 6, 1], &[30, 6, 1], 4).unwrap();
        assert_eq!(copy, StridedCopy { outer: vec![], inner: Inner::Run(480) });
        assert_eq!(extent(&[4, 5], [5, -1].into_iter()), Some((-4, 15)));
    }
}
