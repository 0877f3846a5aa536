//! Merges neighbouring dimensions of a kernel's domain that every index walks as one, and drops dimensions of extent 1.
//!
//! Dimensions `d, d+1` merge when both are parallel or both reduced, no node uses either's index alone, and in every load and store the stride of `d` is
//! the stride of `d+1` times its extent (both zero included). The kernel computes the same, and equal kernels become equal more often.

use ir::kernel::{Affine, Kernel, NodeKind};

/// Merges what can be merged; leaves at least one dimension.
pub(super) fn run(kernel: &mut Kernel) {
    let mut d = 0;
    while d < kernel.domain.len() {
        let last_reduced = kernel.reduced == [d as u32];
        if kernel.domain[d] == 1 && !uses_index(kernel, d) && !last_reduced {
            remove(kernel, d);
        } else if d + 1 < kernel.domain.len() && mergeable(kernel, d) {
            kernel.domain[d + 1] *= kernel.domain[d];
            remove(kernel, d);
            d = d.saturating_sub(1);
        } else {
            d += 1;
        }
    }
    if kernel.domain.is_empty() {
        kernel.domain.push(1);
        for_each_affine(kernel, |a| a.strides.push(0));
    }
}

fn uses_index(kernel: &Kernel, d: usize) -> bool {
    kernel.nodes.values().any(|n| matches!(n.kind, NodeKind::Index(i) if i as usize == d))
}

fn mergeable(kernel: &Kernel, d: usize) -> bool {
    let reduced = |d: usize| kernel.reduced.contains(&(d as u32));
    if reduced(d) != reduced(d + 1) || uses_index(kernel, d) || uses_index(kernel, d + 1) {
        return false;
    }
    let inner = kernel.domain[d + 1] as i64;
    let mut fits = true;
    let mut check = |a: &Affine| fits &= a.strides[d] == a.strides[d + 1] * inner;
    for n in kernel.nodes.values() {
        if let NodeKind::Load { index, .. } | NodeKind::Gather { index, .. } = &n.kind {
            check(index);
        }
    }
    kernel.stores.iter().for_each(|s| check(&s.index));
    fits
}

/// Drops dimension `d`, whose strides no longer matter.
fn remove(kernel: &mut Kernel, d: usize) {
    kernel.domain.remove(d);
    kernel.reduced = kernel.reduced.iter().filter(|&&r| r as usize != d).map(|&r| if r as usize > d { r - 1 } else { r }).collect();
    for_each_affine(kernel, |a| {
        a.strides.remove(d);
    });
    for n in kernel.nodes.values_mut() {
        if let NodeKind::Index(i) = &mut n.kind
            && *i as usize > d
        {
            *i -= 1;
        }
    }
}

fn for_each_affine(kernel: &mut Kernel, mut f: impl FnMut(&mut Affine)) {
    for n in kernel.nodes.values_mut() {
        if let NodeKind::Load { index, .. } | NodeKind::Gather { index, .. } = &mut n.kind {
            f(index);
        }
    }
    kernel.stores.iter_mut().for_each(|s| f(&mut s.index));
}
