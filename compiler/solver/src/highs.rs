//! What is left as a mixed-integer program, handed to HiGHS column by column.
//!
//! One binary column a strategy, one continuous column a pair of strategies, tied by marginals (the local polytope,
//! the tightest of the usual formulations). HiGHS runs on one thread under a node limit. It is trusted for nothing:
//! its answer is evaluated again, and its bound is used only with a margin for its tolerances.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

use crate::model::{FORBIDDEN, Model};

/// What HiGHS says.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// A choice, if it found one.
    pub choice: Option<Vec<u32>>,
    /// Its bound less the tolerance, in internal units.
    pub bound: Option<i128>,
    /// It claims that nothing is feasible.
    pub infeasible: bool,
}

/// Limits on what is handed over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub columns: usize,
    pub nodes: i32,
    pub simplex_iterations: i32,
    /// Seconds, only where the caller has a deadline.
    pub seconds: Option<f64>,
}

/// The program in HiGHS's terms.
#[derive(Default)]
struct Columns {
    cost: Vec<f64>,
    upper: Vec<f64>,
    integer: Vec<i32>,
    start: Vec<i32>,
    index: Vec<i32>,
    value: Vec<f64>,
    lower_row: Vec<f64>,
    upper_row: Vec<f64>,
}

struct Handle(*mut c_void);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Highs_create` and is destroyed once.
        unsafe { highs_sys::Highs_destroy(self.0) }
    }
}

/// How many columns a model would take.
pub(crate) fn columns(model: &Model) -> usize {
    let singles: usize = model.costs.iter().map(Vec::len).sum();
    singles + model.pairs.iter().map(|p| p.cost.iter().filter(|&&c| c < FORBIDDEN).count()).sum::<usize>()
}

/// Solves the model, or gives `None` when it is too large or HiGHS fails.
pub(crate) fn solve(model: &Model, start: Option<&[u32]>, effort: Effort) -> Option<Answer> {
    if columns(model) > effort.columns {
        return None;
    }
    let scale = model.costs.iter().flatten().chain(model.pairs.iter().flat_map(|p| &p.cost)).copied();
    let largest = scale.filter(|&c| c < FORBIDDEN).max().unwrap_or(0).max(1) as f64;
    // Costs of at most 10^6 keep HiGHS's absolute tolerances far below one unit of the largest cost.
    let unit = (largest / 1e6).max(1.0);
    let (program, first) = build(model, unit);
    // SAFETY: no arguments.
    let handle = Handle(unsafe { highs_sys::Highs_create() });
    configure(&handle, effort);
    let (n, m) = (program.cost.len() as i32, program.lower_row.len() as i32);
    let lower = vec![0.0; program.cost.len()];
    // SAFETY: every array has the length that HiGHS reads from the counts given with it.
    let passed = unsafe {
        highs_sys::Highs_passMip(
            handle.0,
            n,
            m,
            program.index.len() as i32,
            1,
            1,
            0.0,
            program.cost.as_ptr(),
            lower.as_ptr(),
            program.upper.as_ptr(),
            program.lower_row.as_ptr(),
            program.upper_row.as_ptr(),
            program.start.as_ptr(),
            program.index.as_ptr(),
            program.value.as_ptr(),
            program.integer.as_ptr(),
        )
    };
    if passed != 0 {
        return None;
    }
    if let Some(choice) = start {
        hand_start(&handle, model, choice, &first, &program);
    }
    // SAFETY: the handle holds a model.
    let ran = unsafe { highs_sys::Highs_run(handle.0) };
    if ran < 0 {
        return None;
    }
    // SAFETY: the handle is live.
    let status = unsafe { highs_sys::Highs_getModelStatus(handle.0) };
    let mut bound = 0.0;
    // SAFETY: the name is NUL-terminated and the value is a double.
    let known = unsafe { highs_sys::Highs_getDoubleInfoValue(handle.0, c"mip_dual_bound".as_ptr(), &mut bound) } == 0;
    let mut values = vec![0.0; program.cost.len()];
    // SAFETY: `values` has a slot for each column; null pointers ask for nothing.
    let got = unsafe { highs_sys::Highs_getSolution(handle.0, values.as_mut_ptr(), null_mut(), null_mut(), null_mut()) };
    let choice: Vec<u32> = first
        .iter()
        .enumerate()
        .map(|(v, &at)| {
            let own = &values[at..at + model.size(v)];
            (0..own.len()).max_by(|&a, &b| own[a].total_cmp(&own[b]).then(b.cmp(&a))).unwrap_or(0) as u32
        })
        .collect();
    let found = got == 0 && values.iter().any(|&v| v > 0.5);
    let margin = 1e-6 * bound.abs() + 1e-5;
    Some(Answer {
        choice: found.then_some(choice),
        bound: (known && bound.is_finite()).then(|| ((bound - margin) * unit).floor() as i128),
        infeasible: status == highs_sys::MODEL_STATUS_INFEASIBLE,
    })
}

fn configure(handle: &Handle, effort: Effort) {
    let int = |name: &CStr, value: i32| {
        // SAFETY: the name is NUL-terminated; HiGHS refuses values it does not know.
        unsafe { highs_sys::Highs_setIntOptionValue(handle.0, name.as_ptr(), value) };
    };
    let real = |name: &CStr, value: f64| {
        // SAFETY: as above.
        unsafe { highs_sys::Highs_setDoubleOptionValue(handle.0, name.as_ptr(), value) };
    };
    // SAFETY: as above.
    unsafe { highs_sys::Highs_setBoolOptionValue(handle.0, c"output_flag".as_ptr(), 0) };
    int(c"threads", 1);
    int(c"random_seed", 1);
    int(c"mip_max_nodes", effort.nodes);
    int(c"simplex_iteration_limit", effort.simplex_iterations);
    real(c"mip_rel_gap", 0.0);
    real(c"mip_abs_gap", 1e-6);
    if let Some(seconds) = effort.seconds {
        real(c"time_limit", seconds.max(0.01));
    }
}

fn build(model: &Model, unit: f64) -> (Columns, Vec<usize>) {
    let mut program = Columns::default();
    let row = |p: &mut Columns, low: f64, high: f64| {
        p.lower_row.push(low);
        p.upper_row.push(high);
        (p.lower_row.len() - 1) as i32
    };
    let one: Vec<i32> = (0..model.costs.len()).map(|_| row(&mut program, 1.0, 1.0)).collect();
    let memory: Vec<i32> = model.limits.iter().map(|_| row(&mut program, f64::NEG_INFINITY, 1.0)).collect();
    let mut ties: Vec<Vec<(i32, usize)>> = vec![Vec::new(); model.costs.len()];
    let mut marginals = Vec::with_capacity(model.pairs.len());
    for pair in &model.pairs {
        let a: Vec<i32> = (0..model.size(pair.a as usize)).map(|_| row(&mut program, 0.0, 0.0)).collect();
        let b: Vec<i32> = (0..model.size(pair.b as usize)).map(|_| row(&mut program, 0.0, 0.0)).collect();
        ties[pair.a as usize].push((a[0], a.len()));
        ties[pair.b as usize].push((b[0], b.len()));
        marginals.push((a, b));
    }
    let mut rows_of: Vec<Vec<usize>> = vec![Vec::new(); model.costs.len()];
    for (k, r) in model.rows.iter().enumerate() {
        rows_of[r.node as usize].push(k);
    }
    let mut first = Vec::with_capacity(model.costs.len());
    for (v, costs) in model.costs.iter().enumerate() {
        first.push(program.cost.len());
        for (s, &c) in costs.iter().enumerate() {
            program.start.push(program.index.len() as i32);
            program.cost.push(if c < FORBIDDEN { c as f64 / unit } else { 0.0 });
            program.upper.push(if c < FORBIDDEN { 1.0 } else { 0.0 });
            program.integer.push(1);
            program.push(one[v], 1.0);
            for &k in &rows_of[v] {
                let r = &model.rows[k];
                for t in r.lo..r.hi {
                    let share = r.usage[s] as f64 / model.limits[t as usize].max(1) as f64;
                    if share != 0.0 {
                        program.push(memory[t as usize], share);
                    }
                }
            }
            for &(at, _) in &ties[v] {
                program.push(at + s as i32, -1.0);
            }
        }
    }
    for (pair, (a, b)) in model.pairs.iter().zip(&marginals) {
        for (i, &ra) in a.iter().enumerate() {
            for (j, &rb) in b.iter().enumerate() {
                let c = pair.cost[i * b.len() + j];
                if c < FORBIDDEN {
                    program.start.push(program.index.len() as i32);
                    program.cost.push(c as f64 / unit);
                    program.upper.push(1.0);
                    program.integer.push(0);
                    program.push(ra, 1.0);
                    program.push(rb, 1.0);
                }
            }
        }
    }
    (program, first)
}

impl Columns {
    fn push(&mut self, row: i32, value: f64) {
        self.index.push(row);
        self.value.push(value);
    }
}

fn hand_start(handle: &Handle, model: &Model, choice: &[u32], first: &[usize], program: &Columns) {
    let mut values = vec![0.0; program.cost.len()];
    for (v, &s) in choice.iter().enumerate() {
        values[first[v] + s as usize] = 1.0;
    }
    let mut at = model.costs.iter().map(Vec::len).sum::<usize>();
    for pair in &model.pairs {
        let columns = model.size(pair.b as usize);
        for (k, &c) in pair.cost.iter().enumerate() {
            if c < FORBIDDEN {
                let (i, j) = (k / columns, k % columns);
                if choice[pair.a as usize] as usize == i && choice[pair.b as usize] as usize == j {
                    values[at] = 1.0;
                }
                at += 1;
            }
        }
    }
    // SAFETY: `values` has a slot for each column; null pointers give nothing else.
    unsafe { highs_sys::Highs_setSolution(handle.0, values.as_ptr(), null_mut(), null_mut(), null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::sample::{Sample, model, optimum};

    #[test]
    fn agrees_with_enumeration() {
        let mut random = Random::new(9);
        let shape = Sample { nodes: 5, strategies: 3, pairs: 6, moments: 3, forbidden: 0.15, limit: 0.5 };
        for round in 0..40 {
            let m = model(&mut random, shape);
            let effort = Effort { columns: 1000, nodes: 1000, simplex_iterations: 100_000, seconds: None };
            let answer = solve(&m, None, effort).expect("small enough");
            match optimum(&m) {
                Some(best) => {
                    let choice = answer.choice.expect("feasible");
                    assert_eq!(m.cost(&choice).filter(|_| m.excess(&choice) <= 0), Some(best), "round {round}");
                    assert!(answer.bound.is_some_and(|b| b <= i128::from(best)), "round {round}");
                }
                None => assert!(answer.infeasible, "round {round}"),
            }
        }
    }
}
