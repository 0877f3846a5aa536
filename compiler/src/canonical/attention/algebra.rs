//! What the values between an exponential and the products that read it are, as sums of products of a few symbols.
//!
//! `e` are the exponentials of the scores, `l` the sum of a row of them, `d` the gradients of the softmax, and sums over rows of products of `e` and `d` are
//! symbols of their own. However a derivative is written (by a quotient, by the softmax, with its terms in another order), the scores' gradients are
//! `d e / l - e / l² Σ e d`. Rounding is not part of it: conversions of the element type are passed over.

use std::collections::BTreeMap;

/// Powers of `e` and `d`.
type Powers = (i8, i8);

/// A product of symbols.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Product {
    /// Powers of `e` and `d` of the same element.
    element: Powers,
    /// Power of `l`.
    sum: i8,
    /// Sums over the row, sorted.
    rows: Vec<Powers>,
}

/// A sum of products with factors.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Expression(BTreeMap<Product, f64>);

/// More terms than this are not followed.
const MOST_TERMS: usize = 16;

impl Expression {
    fn one(product: Product) -> Expression {
        Expression(BTreeMap::from([(product, 1.0)]))
    }
    /// The exponentials.
    pub(super) fn exponentials() -> Expression {
        Expression::one(Product { element: (1, 0), ..Product::default() })
    }
    /// The gradients of the softmax.
    pub(super) fn gradients() -> Expression {
        Expression::one(Product { element: (0, 1), ..Product::default() })
    }
    /// A number.
    pub(super) fn number(x: f64) -> Expression {
        Expression::default().plus(&Expression(BTreeMap::from([(Product::default(), x)])), 1.0)
    }
    /// `self + factor · other`.
    pub(super) fn plus(&self, other: &Expression, factor: f64) -> Expression {
        let mut sum = self.clone();
        for (p, x) in &other.0 {
            *sum.0.entry(p.clone()).or_insert(0.0) += factor * x;
        }
        sum.0.retain(|_, x| *x != 0.0);
        sum
    }
    /// The product, unless it has too many terms.
    pub(super) fn times(&self, other: &Expression) -> Option<Expression> {
        if self.0.len() * other.0.len() > MOST_TERMS {
            return None;
        }
        let mut product = Expression::default();
        for (p, x) in &self.0 {
            for (q, y) in &other.0 {
                let mut rows = [p.rows.as_slice(), &q.rows].concat();
                rows.sort_unstable();
                let element = (p.element.0 + q.element.0, p.element.1 + q.element.1);
                product = product.plus(&Expression(BTreeMap::from([(Product { element, sum: p.sum + q.sum, rows }, x * y)])), 1.0);
            }
        }
        Some(product)
    }
    /// The quotient by what has one term and no sums but `l`.
    pub(super) fn over(&self, other: &Expression) -> Option<Expression> {
        let (p, x) = other.0.first_key_value().filter(|(p, _)| other.0.len() == 1 && p.rows.is_empty())?;
        let inverse = Product { element: (-p.element.0, -p.element.1), sum: -p.sum, rows: vec![] };
        self.times(&Expression(BTreeMap::from([(inverse, 1.0 / x)])))
    }
    /// The sum over a row.
    pub(super) fn row_sum(&self) -> Option<Expression> {
        let mut sum = Expression::default();
        for (p, x) in &self.0 {
            let mut q = Product { element: (0, 0), ..p.clone() };
            match p.element {
                (0, 0) => return None,
                (1, 0) => q.sum += 1,
                powers => {
                    q.rows.push(powers);
                    q.rows.sort_unstable();
                }
            }
            sum = sum.plus(&Expression(BTreeMap::from([(q, *x)])), 1.0);
        }
        Some(sum)
    }
    /// Whether it is 0 wherever the exponentials are.
    pub(super) fn vanishes(&self) -> bool {
        self.0.keys().all(|p| p.element.0 > 0)
    }
    /// Whether it is the softmax.
    pub(super) fn is_softmax(&self) -> bool {
        *self == Expression::one(Product { element: (1, 0), sum: -1, rows: vec![] })
    }
    /// The factor by which it is the gradients of the scores, if it is.
    pub(super) fn slope(&self) -> Option<f64> {
        let direct = Product { element: (1, 1), sum: -1, rows: vec![] };
        let through_sum = Product { element: (1, 0), sum: -2, rows: vec![(1, 1)] };
        let (a, b) = (self.0.get(&direct)?, self.0.get(&through_sum)?);
        (self.0.len() == 2 && (a + b).abs() <= 1e-6 * a.abs()).then_some(*a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_are_the_same_however_written() {
        let (e, d) = (Expression::exponentials(), Expression::gradients());
        let l = e.row_sum().unwrap();
        let zero = Expression::default();
        // By the quotient's derivative.
        let inverse = Expression::number(1.0).over(&l.times(&l).unwrap()).unwrap();
        let sum = d.times(&inverse).unwrap().times(&e).unwrap().row_sum().unwrap();
        let quotient = d.over(&l).unwrap().plus(&zero.plus(&sum, -1.0), 1.0).times(&e).unwrap();
        assert_eq!(quotient.slope(), Some(1.0));
        // By the softmax.
        let p = e.over(&l).unwrap();
        assert!(p.is_softmax() && !e.is_softmax());
        let pd = p.times(&d).unwrap();
        let by_softmax = pd.plus(&p.times(&pd.row_sum().unwrap()).unwrap(), -1.0);
        assert_eq!(by_softmax.over(&Expression::number(4.0)).unwrap().slope(), Some(0.25));
        // Without the sum it is not.
        assert_eq!(pd.slope(), None);
        assert!(pd.vanishes() && !d.vanishes());
    }
}
