//! Dimensions that correspond to each other, and the refinement that they share.
//!
//! A slot is a dimension of a value; slots that correspond are one class (union-find). A class of size `n` is cut at strides `s1 < s2 < …`, each dividing
//! the next and `n`: its atoms, outermost first, are `n/sk, …, s2/s1, s1`. Relations carry cuts from class to class until nothing changes.
//! A relation whose cuts cannot be combined with the others' is given up, and the refinement is computed again without it.

use ir::graph::Graph;
use ir::{EntityId, ValueId};

/// A dimension of a value, numbered over the graph.
pub(super) type Slot = usize;

/// How cuts of some classes follow from those of others.
#[derive(Clone, Debug)]
enum Relation {
    /// The same elements: a reshape's dimensions, operand's and result's, whose products are equal.
    Product { from: Vec<Slot>, to: Vec<Slot> },
    /// `part` is a range of `whole` that starts and ends at multiples of `grain`.
    Range { whole: Slot, part: Slot, grain: u64 },
    /// `part` is every `stride`-th element of `whole`.
    Strided { whole: Slot, part: Slot, stride: u64 },
}

/// The classes of all dimensions of a graph.
pub(super) struct Classes {
    base: Vec<Slot>,
    parent: Vec<Slot>,
    size: Vec<u64>,
    /// By root: strides of the cuts, ascending.
    cuts: Vec<Vec<u64>>,
    /// By root: one atom, whatever its size.
    pinned: Vec<bool>,
    relations: Vec<Relation>,
}

/// More pieces than this along a dimension are not made an atom.
const MAX_PIECES: u64 = 64;

impl Classes {
    pub(super) fn new(graph: &Graph) -> Classes {
        let mut base = Vec::with_capacity(graph.values.len());
        let mut size = Vec::new();
        for value in graph.values.values() {
            base.push(size.len());
            size.extend(&value.ty.shape);
        }
        let n = size.len();
        Classes { base, parent: (0..n).collect(), size, cuts: vec![Vec::new(); n], pinned: vec![false; n], relations: Vec::new() }
    }

    fn slot(&self, v: ValueId, dim: usize) -> Slot {
        self.base[v.index()] + dim
    }

    fn root(&mut self, slot: Slot) -> Slot {
        let mut root = slot;
        while self.parent[root] != root {
            self.parent[root] = self.parent[self.parent[root]];
            root = self.parent[root];
        }
        root
    }

    /// The class of a dimension.
    pub(super) fn class(&mut self, v: ValueId, dim: usize) -> usize {
        let slot = self.slot(v, dim);
        self.root(slot)
    }

    /// Two dimensions correspond.
    pub(super) fn same(&mut self, a: (ValueId, usize), b: (ValueId, usize)) {
        let (a, b) = (self.slot(a.0, a.1), self.slot(b.0, b.1));
        debug_assert_eq!(self.size[a], self.size[b], "corresponding dimensions have one size");
        let (a, b) = (self.root(a), self.root(b));
        let (low, high) = (a.min(b), a.max(b));
        self.parent[high] = low;
        self.pinned[low] |= self.pinned[high];
    }

    /// All dimensions of two values of one shape correspond.
    pub(super) fn same_dims(&mut self, a: ValueId, b: ValueId) {
        let rank = self.rank(a);
        for d in 0..rank.min(self.rank(b)) {
            self.same((a, d), (b, d));
        }
    }

    fn rank(&self, v: ValueId) -> usize {
        self.base.get(v.index() + 1).copied().unwrap_or(self.size.len()) - self.base[v.index()]
    }

    /// A dimension stays one atom.
    pub(super) fn pin(&mut self, v: ValueId, dim: usize) {
        let root = self.slot(v, dim);
        let root = self.root(root);
        self.pinned[root] = true;
    }

    /// All dimensions of a value stay atoms.
    pub(super) fn pin_all(&mut self, v: ValueId) {
        for d in 0..self.rank(v) {
            self.pin(v, d);
        }
    }

    /// The dimensions `from` of `a` and `to` of `b` are the same elements.
    pub(super) fn product(&mut self, a: ValueId, from: &[usize], b: ValueId, to: &[usize]) {
        let from = from.iter().map(|&d| self.slot(a, d)).collect();
        let to = to.iter().map(|&d| self.slot(b, d)).collect();
        self.relations.push(Relation::Product { from, to });
    }

    /// `part` is a range of `whole` that starts and ends at multiples of `grain`.
    pub(super) fn range(&mut self, whole: (ValueId, usize), part: (ValueId, usize), grain: u64) {
        let (whole, part) = (self.slot(whole.0, whole.1), self.slot(part.0, part.1));
        if grain > 1 && self.size[whole] / grain <= MAX_PIECES {
            self.relations.push(Relation::Range { whole, part, grain });
        }
    }

    /// `part` is every `stride`-th element of `whole`.
    pub(super) fn strided(&mut self, whole: (ValueId, usize), part: (ValueId, usize), stride: u64) {
        let (whole, part) = (self.slot(whole.0, whole.1), self.slot(part.0, part.1));
        self.relations.push(Relation::Strided { whole, part, stride });
    }

    /// The atoms of a dimension, outermost first.
    pub(super) fn atoms(&mut self, v: ValueId, dim: usize) -> Vec<u64> {
        let slot = self.slot(v, dim);
        let root = self.root(slot);
        let size = self.size[root];
        if size == 1 {
            return if self.pinned[root] { vec![1] } else { Vec::new() };
        }
        let mut atoms = Vec::with_capacity(self.cuts[root].len() + 1);
        let mut outer = size;
        for &cut in self.cuts[root].iter().rev() {
            atoms.push(outer / cut);
            outer = cut;
        }
        atoms.push(outer);
        atoms
    }

    /// Finds the common refinement.
    pub(super) fn refine(&mut self) {
        self.share_grains();
        let mut active = vec![true; self.relations.len()];
        loop {
            for cuts in &mut self.cuts {
                cuts.clear();
            }
            if self.propagate(&mut active) {
                return;
            }
        }
    }

    /// Ranges of one class are cut at the grain that all of them have in common.
    fn share_grains(&mut self) {
        let mut shared = vec![0; self.size.len()];
        for i in 0..self.relations.len() {
            if let Relation::Range { whole, grain, .. } = self.relations[i] {
                let root = self.root(whole);
                shared[root] = gcd(shared[root], grain);
            }
        }
        for i in 0..self.relations.len() {
            if let Relation::Range { whole, .. } = self.relations[i] {
                let common = shared[self.root(whole)];
                if let Relation::Range { grain, .. } = &mut self.relations[i] {
                    *grain = common;
                }
            }
        }
    }

    /// Carries cuts along the active relations until nothing changes. Relations that fail become inactive; true when none did.
    fn propagate(&mut self, active: &mut [bool]) -> bool {
        let mut sound = true;
        loop {
            let mut changed = false;
            for (i, active) in active.iter_mut().enumerate().filter(|(_, a)| **a) {
                match self.apply(i) {
                    Some(more) => changed |= more,
                    None => {
                        *active = false;
                        sound = false;
                    }
                }
            }
            if !changed {
                return sound;
            }
        }
    }

    /// Carries cuts along one relation: whether any was new, or `None` when they cannot be combined.
    fn apply(&mut self, relation: usize) -> Option<bool> {
        match self.relations[relation].clone() {
            Relation::Product { from, to } => {
                let mut cuts = self.product_cuts(&from);
                cuts.extend(self.product_cuts(&to));
                cuts.sort_unstable();
                cuts.dedup();
                if !is_chain(&cuts) {
                    return None;
                }
                let changed = self.cut_product(&from, &cuts)?;
                Some(self.cut_product(&to, &cuts)? | changed)
            }
            Relation::Range { whole, part, grain } => {
                if grain == 1 {
                    return None;
                }
                let mut changed = self.cut(whole, grain)? | self.cut(part, grain)?;
                for (a, b) in [(whole, part), (part, whole)] {
                    let a = self.root(a);
                    for cut in self.cuts[a].clone() {
                        if cut > grain {
                            return None;
                        }
                        changed |= self.cut(b, cut)?;
                    }
                }
                Some(changed)
            }
            Relation::Strided { whole, part, stride } => {
                let mut changed = self.cut(whole, stride)?;
                let (outer, inner) = (self.root(whole), self.root(part));
                for cut in self.cuts[outer].clone() {
                    if cut > stride {
                        changed |= self.cut(part, cut / stride)?;
                    }
                }
                for cut in self.cuts[inner].clone() {
                    changed |= self.cut(whole, cut * stride)?;
                }
                Some(changed)
            }
        }
    }

    /// Cuts a class at a stride (nothing to do at 1 and at its size): whether that was new, or `None` when it cannot be.
    fn cut(&mut self, slot: Slot, stride: u64) -> Option<bool> {
        let root = self.root(slot);
        let size = self.size[root];
        if stride == 1 || stride == size {
            return Some(false);
        }
        let at = match self.cuts[root].binary_search(&stride) {
            Ok(_) => return Some(false),
            Err(at) => at,
        };
        let below = if at == 0 { 1 } else { self.cuts[root][at - 1] };
        let above = self.cuts[root].get(at).copied().unwrap_or(size);
        if self.pinned[root] || stride > size || stride % below != 0 || above % stride != 0 {
            return None;
        }
        self.cuts[root].insert(at, stride);
        Some(true)
    }

    /// Strides of the cuts of a product of dimensions, its inner boundaries included.
    fn product_cuts(&mut self, slots: &[Slot]) -> Vec<u64> {
        let mut cuts = Vec::new();
        let mut inner = 1;
        for &slot in slots.iter().rev() {
            let root = self.root(slot);
            cuts.extend(self.cuts[root].iter().map(|c| c * inner));
            inner *= self.size[root];
            cuts.push(inner);
        }
        cuts.pop();
        cuts
    }

    fn cut_product(&mut self, slots: &[Slot], cuts: &[u64]) -> Option<bool> {
        let mut changed = false;
        let mut inner = 1;
        for &slot in slots.iter().rev() {
            let outer = inner * self.size[slot];
            for &cut in cuts.iter().filter(|&&c| inner < c && c < outer) {
                changed |= self.cut(slot, cut / inner)?;
            }
            inner = outer;
        }
        Some(changed)
    }
}

/// Whether every number divides the next.
fn is_chain(ascending: &[u64]) -> bool {
    ascending.windows(2).all(|w| w[1] % w[0] == 0)
}

/// Greatest common divisor; that of 0 and `b` is `b`.
pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if a == 0 { b } else { gcd(b % a, a) }
}
