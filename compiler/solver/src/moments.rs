//! Fewer moments: those that cannot bind and those implied by a neighbour go, constant usage moves into the limits.
//!
//! Every rule is exact. Usages are not negative, so where the rows live at one moment are all live at another with
//! no larger limit, the first moment is implied; between neighbours that is a matter of starts and ends only.

use crate::model::Row;

/// What a tightening pass found.
pub(crate) struct Tightened {
    /// For each moment that is left, its number before.
    pub kept: Vec<u32>,
    /// A moment whose limit cannot hold, numbered as before.
    pub broken: Option<u32>,
}

/// Shifts each row to a minimum of zero, drops rows and moments that cannot matter, renumbers moments.
pub(crate) fn tighten(rows: &mut Vec<Row>, limits: &mut Vec<i64>, alive: &dyn Fn(u32, usize) -> bool) -> Tightened {
    let moments = limits.len();
    let mut fixed = vec![0i64; moments + 1];
    let mut peak = vec![0i64; moments + 1];
    rows.retain_mut(|row| {
        let live = |s: &usize| alive(row.node, *s);
        let low = (0..row.usage.len()).filter(live).map(|s| row.usage[s]).min().unwrap_or(0);
        for u in &mut row.usage {
            *u = (*u - low).max(0);
        }
        let high = (0..row.usage.len()).filter(|s| alive(row.node, *s)).map(|s| row.usage[s]).max().unwrap_or(0);
        fixed[row.lo as usize] += low;
        fixed[row.hi as usize] -= low;
        peak[row.lo as usize] += high;
        peak[row.hi as usize] -= high;
        high > 0
    });
    let (mut f, mut p) = (0i64, 0i64);
    let mut binding = vec![false; moments];
    let mut broken = None;
    for t in 0..moments {
        f += fixed[t];
        p += peak[t];
        limits[t] -= f;
        binding[t] = p > limits[t];
        if limits[t] < 0 && broken.is_none() {
            broken = Some(t as u32);
        }
    }
    let mut keep = Vec::new();
    renumber(rows, limits, &mut keep, &binding);
    let kept = implied(rows, limits).into_iter().map(|t| keep[t as usize]).collect();
    merge(rows);
    Tightened { kept, broken }
}

fn renumber(rows: &mut Vec<Row>, limits: &mut Vec<i64>, keep: &mut Vec<u32>, wanted: &[bool]) {
    let mut number = Vec::with_capacity(wanted.len() + 1);
    keep.clear();
    for (t, &w) in wanted.iter().enumerate() {
        number.push(keep.len() as u32);
        if w {
            keep.push(t as u32);
        }
    }
    number.push(keep.len() as u32);
    rows.retain_mut(|row| {
        row.lo = number[row.lo as usize];
        row.hi = number[row.hi as usize];
        row.lo < row.hi
    });
    *limits = keep.iter().map(|&t| limits[t as usize]).collect();
}

/// Drops moments implied by another; gives the numbers of the rest.
fn implied(rows: &mut Vec<Row>, limits: &mut Vec<i64>) -> Vec<u32> {
    let moments = limits.len();
    let mut starts = vec![false; moments + 1];
    let mut ends = vec![false; moments + 1];
    for row in rows.iter() {
        starts[row.lo as usize] = true;
        ends[row.hi as usize] = true;
    }
    // Each entry: the moment, and whether a row starts or ends between the entry below it and it.
    let mut stack: Vec<(usize, bool, bool)> = Vec::new();
    let (mut start, mut end) = (false, false);
    for t in 0..moments {
        let (mut s, mut e) = (start || starts[t], end || ends[t]);
        (start, end) = (false, false);
        let mut stays = true;
        while let Some(&(below, s0, e0)) = stack.last() {
            if !e && limits[below] >= limits[t] {
                stack.pop();
                (s, e) = (s || s0, e0);
            } else if !s && limits[t] >= limits[below] {
                (start, end) = (s, e);
                stays = false;
                break;
            } else {
                break;
            }
        }
        if stays {
            stack.push((t, s, e));
        }
    }
    let mut wanted = vec![false; moments];
    for &(t, _, _) in &stack {
        wanted[t] = true;
    }
    let mut keep = Vec::new();
    renumber(rows, limits, &mut keep, &wanted);
    keep
}

/// Makes the rows of a node disjoint, adding up where they overlap, and joins equal ones that follow each other.
fn merge(rows: &mut Vec<Row>) {
    rows.sort_by_key(|r| (r.node, r.lo, r.hi));
    let mut out: Vec<Row> = Vec::with_capacity(rows.len());
    let mut at = 0;
    while at < rows.len() {
        let node = rows[at].node;
        let end = at + rows[at..].iter().take_while(|r| r.node == node).count();
        let group = &rows[at..end];
        let mut cuts: Vec<u32> = group.iter().flat_map(|r| [r.lo, r.hi]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        for span in cuts.windows(2) {
            let (lo, hi) = (span[0], span[1]);
            let mut usage: Option<Vec<i64>> = None;
            for row in group.iter().filter(|r| r.lo <= lo && hi <= r.hi) {
                match &mut usage {
                    None => usage = Some(row.usage.clone()),
                    Some(sum) => sum.iter_mut().zip(&row.usage).for_each(|(a, b)| *a += b),
                }
            }
            let Some(usage) = usage else { continue };
            match out.last_mut() {
                Some(last) if last.node == node && last.hi == lo && last.usage == usage => last.hi = hi,
                _ => out.push(Row { node, lo, hi, usage }),
            }
        }
        at = end;
    }
    *rows = out;
}
