//! Index maps: how an element of a value is found from a point of a kernel's domain.
//!
//! Broadcasts, transposes, slices, reversals and most reshapes compute nothing: they are index maps, composed here and never stored.
//! A map gives, for every dimension of a value, an affine expression of the domain's dimensions and of run-time coordinates.

use ir::op::OpKind;
use ir::{AxisId, Graph, Mesh, OpId};

/// `offset + Σ coefficient·domain dimension + Σ coefficient·coordinate`; terms ascending, no zero coefficients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Expr {
    /// Constant part.
    pub offset: i64,
    /// (domain dimension, coefficient).
    pub terms: Vec<(u32, i64)>,
    /// (mesh axis or microbatch, coefficient).
    pub coordinates: Vec<(AxisId, i64)>,
}

impl Expr {
    /// A domain dimension.
    pub fn dim(d: usize) -> Expr {
        Expr { offset: 0, terms: vec![(d as u32, 1)], coordinates: vec![] }
    }
    /// `self · k + o`.
    pub fn scaled(&self, k: i64, o: i64) -> Expr {
        if k == 0 {
            return Expr { offset: o, ..Expr::default() };
        }
        Expr {
            offset: self.offset * k + o,
            terms: self.terms.iter().map(|&(d, c)| (d, c * k)).collect(),
            coordinates: self.coordinates.iter().map(|&(a, c)| (a, c * k)).collect(),
        }
    }
    /// `self + other`.
    pub fn plus(&self, other: &Expr) -> Expr {
        fn merge<K: Ord + Copy>(a: &[(K, i64)], b: &[(K, i64)]) -> Vec<(K, i64)> {
            let mut all: Vec<(K, i64)> = a.iter().chain(b).copied().collect();
            all.sort_by_key(|t| t.0);
            let mut out: Vec<(K, i64)> = Vec::new();
            for (k, c) in all {
                match out.last_mut() {
                    Some(last) if last.0 == k => last.1 += c,
                    _ => out.push((k, c)),
                }
            }
            out.retain(|t| t.1 != 0);
            out
        }
        Expr { offset: self.offset + other.offset, terms: merge(&self.terms, &other.terms), coordinates: merge(&self.coordinates, &other.coordinates) }
    }
    /// Quotient and remainder by `b`, when the parts separate: every coefficient is a multiple of `b`, or belongs to a part that stays in `0..b`.
    fn divide(&self, b: i64, domain: &[u64]) -> Option<(Expr, Expr)> {
        let (mut quotient, mut remainder) = (Expr::default(), Expr::default());
        let mut most = self.offset.rem_euclid(b);
        quotient.offset = self.offset.div_euclid(b);
        remainder.offset = most;
        for &(d, c) in &self.terms {
            if c % b == 0 {
                quotient.terms.push((d, c / b));
            } else if c > 0 {
                most += c * (domain[d as usize] as i64 - 1);
                remainder.terms.push((d, c));
            } else {
                return None;
            }
        }
        for &(a, c) in &self.coordinates {
            if c % b != 0 {
                return None;
            }
            quotient.coordinates.push((a, c / b));
        }
        (most < b).then_some((quotient, remainder))
    }
}

/// One expression per dimension of a value.
pub type IndexMap = Vec<Expr>;

/// The map of a value with the domain's own shape.
pub fn identity(rank: usize) -> IndexMap {
    (0..rank).map(Expr::dim).collect()
}

/// For an op that only rearranges its (single) operand: the operand's map, given the result's. `None` when it is not such an op, or the map is not affine.
pub fn through(graph: &Graph, mesh: &Mesh, op: OpId, map: &IndexMap, domain: &[u64]) -> Option<IndexMap> {
    let o = &graph.ops[op];
    let operand = &graph.ty(*o.operands.first()?).shape;
    let result = &graph.ty(*o.results.first()?).shape;
    match &o.kind {
        OpKind::Broadcast { dims } => {
            Some(dims.iter().enumerate().map(|(i, &d)| if operand[i] == 1 && result[d] != 1 { Expr::default() } else { map[d].clone() }).collect())
        }
        OpKind::Transpose { perm } => {
            let mut out = vec![Expr::default(); perm.len()];
            for (i, &p) in perm.iter().enumerate() {
                out[p] = map[i].clone();
            }
            Some(out)
        }
        OpKind::Slice { start, stride, .. } => Some((0..map.len()).map(|d| map[d].scaled(stride[d] as i64, start[d] as i64)).collect()),
        OpKind::Reverse { dims } => {
            Some((0..map.len()).map(|d| if dims.contains(&d) { map[d].scaled(-1, operand[d] as i64 - 1) } else { map[d].clone() }).collect())
        }
        OpKind::ShardSlice { axes, dim } => {
            let mut out = map.clone();
            let mut step = result[*dim] as i64;
            for &axis in axes.iter().rev() {
                out[*dim] = out[*dim].plus(&Expr { coordinates: vec![(axis, step)], ..Expr::default() });
                step *= if axis == AxisId::MICROBATCH { 1 } else { i64::from(mesh.size(axis)) };
            }
            Some(out)
        }
        OpKind::AllReduce { axes, .. } if axes == &[AxisId::MICROBATCH] => Some(map.clone()),
        OpKind::Reshape => reshape(operand, result, map, domain),
        _ => None,
    }
}

/// The operand's map of a reshape: blocks of dimensions with equal products are matched, each split or merged affinely.
fn reshape(operand: &[u64], result: &[u64], map: &IndexMap, domain: &[u64]) -> Option<IndexMap> {
    let mut out = Vec::with_capacity(operand.len());
    let (mut i, mut j) = (0, 0);
    while i < operand.len() || j < result.len() {
        let (from_i, from_j) = (i, j);
        let (mut a, mut b) = (1, 1);
        loop {
            if a < b || (a == b && i == from_i && i < operand.len()) {
                a *= *operand.get(i)?;
                i += 1;
            } else if b < a || (a == b && j == from_j && j < result.len()) {
                b *= *result.get(j)?;
                j += 1;
            } else {
                break;
            }
        }
        // Size-1 dimensions at the end of a side join the last block.
        let mut flat = Expr::default();
        for d in from_j..j {
            flat = flat.scaled(result[d] as i64, 0).plus(&map[d]);
        }
        let mut parts = Vec::new();
        for d in (from_i + 1..i).rev() {
            let (q, r) = if operand[d] == 1 { (flat.clone(), Expr::default()) } else { flat.divide(operand[d] as i64, domain)? };
            parts.push(r);
            flat = q;
        }
        if i > from_i {
            parts.push(flat);
        }
        parts.reverse();
        out.extend(parts);
    }
    Some(out)
}

/// The row-major element index of a value of `shape` under a map.
pub fn linear(map: &IndexMap, shape: &[u64]) -> Expr {
    map.iter().zip(shape).fold(Expr::default(), |sum, (e, &n)| sum.scaled(n as i64, 0).plus(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshapes_split_and_merge() {
        let domain = [4, 6];
        let merged = reshape(&[4, 6], &[24], &vec![Expr { offset: 0, terms: vec![(0, 6), (1, 1)], coordinates: vec![] }], &domain);
        assert_eq!(merged, Some(identity(2)));
        let split = reshape(&[24], &[4, 6], &identity(2), &domain).expect("a split is affine");
        assert_eq!(split, vec![Expr { offset: 0, terms: vec![(0, 6), (1, 1)], coordinates: vec![] }]);
        assert_eq!(reshape(&[4, 6], &[24], &identity(1), &[24]), None);
        assert_eq!(reshape(&[1, 4, 1, 6], &[4, 6, 1], &[identity(2), vec![Expr::default()]].concat(), &domain).map(|m| m.len()), Some(4));
    }
}
