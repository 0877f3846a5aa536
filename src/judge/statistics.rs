//! Median and 90th percentile of errors, bias, and how well plans are ranked.

use serde_json::{Value, json};
use std::fmt;

/// Groups of fewer rows are not ranked.
pub(super) const SMALLEST_GROUP: usize = 3;

/// Errors of one quantity, as shares.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Errors {
    pub(super) count: usize,
    median: f64,
    high: f64,
    bias: f64,
}

impl Errors {
    pub(super) fn of(errors: impl Iterator<Item = f64>) -> Errors {
        let signed: Vec<f64> = errors.collect();
        let mut sizes: Vec<f64> = signed.iter().map(|e| e.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let mean = signed.iter().sum::<f64>() / signed.len().max(1) as f64;
        Errors { count: signed.len(), median: quantile(&sizes, 0.5), high: quantile(&sizes, 0.9), bias: mean }
    }

    pub(super) fn json(&self) -> Value {
        if self.count == 0 {
            return Value::Null;
        }
        json!({"rows": self.count, "median": self.median, "p90": self.high, "bias": self.bias})
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rows · median error {:.1} % · 90th percentile {:.1} % · bias {:+.1} %",
            self.count,
            100.0 * self.median,
            100.0 * self.high,
            100.0 * self.bias
        )
    }
}

/// Between the two nearest of a sorted list.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    if sorted.is_empty() {
        return 0.0;
    }
    let at = q * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

/// Plans of one model on one number of devices.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) rows: usize,
    pub(super) tau: f64,
    pairs: f64,
}

impl Group {
    /// Kendall's tau-b of (predicted, measured) pairs.
    pub(super) fn of(name: String, rows: &[(f64, f64)]) -> Group {
        let (mut agree, mut ties) = (0.0, [0.0, 0.0]);
        let mut pairs = 0.0;
        for (i, a) in rows.iter().enumerate() {
            for b in &rows[i + 1..] {
                let (p, m) = (sign(a.0 - b.0), sign(a.1 - b.1));
                agree += p * m;
                ties[0] += f64::from(u8::from(p == 0.0));
                ties[1] += f64::from(u8::from(m == 0.0));
                pairs += 1.0;
            }
        }
        let scale: f64 = ((pairs - ties[0]) * (pairs - ties[1])).sqrt();
        Group { name, rows: rows.len(), tau: if scale > 0.0 { agree / scale } else { 0.0 }, pairs }
    }
}

fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        0.0
    }
}

/// The mean over groups, by their pairs; none without groups.
pub(super) fn pooled(groups: &[Group]) -> Option<f64> {
    let pairs: f64 = groups.iter().map(|g| g.pairs).sum();
    (pairs > 0.0).then(|| groups.iter().map(|g| g.tau * g.pairs).sum::<f64>() / pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_quantiles() {
        let of = |rows: &[(f64, f64)]| Group::of(String::new(), rows).tau;
        assert_eq!(of(&[(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]), 1.0);
        assert_eq!(of(&[(3.0, 10.0), (2.0, 20.0), (1.0, 30.0)]), -1.0);
        assert!((of(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0)]) - 1.0 / 3.0).abs() < 1e-12);
        let e = Errors::of([0.1, -0.3, 0.2].into_iter());
        assert!((e.median - 0.2).abs() < 1e-12 && (e.high - 0.28).abs() < 1e-12 && e.bias.abs() < 1e-12);
    }
}
