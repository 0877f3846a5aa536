//! Thousands of small random problems against exhaustive enumeration: same feasibility, same optimum, sound bounds.

use solver::{INFINITE, Options, Outcome, Problem, Status, solve};

/// A small deterministic generator (xorshift), enough for test inputs.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next(100) < percent
    }
}

struct Shape {
    nodes: u64,
    strategies: u64,
    edges: u64,
    moments: u64,
    infinite: u64,
    /// Costs below this: small values make ties.
    cost: u64,
    /// Limit as a share of the total usage, in percent.
    limit: u64,
}

fn problem(random: &mut Random, shape: &Shape) -> Problem {
    let mut p = Problem::default();
    let cost = |random: &mut Random| {
        if random.chance(shape.infinite) { INFINITE + random.next(5) as i64 } else { random.next(shape.cost) as i64 - (shape.cost / 4) as i64 }
    };
    let nodes = 1 + random.next(shape.nodes);
    for _ in 0..nodes {
        let costs = (0..1 + random.next(shape.strategies)).map(|_| cost(random)).collect();
        p.add_node(costs);
    }
    if nodes > 1 {
        for _ in 0..random.next(shape.edges + 1) {
            let a = random.next(nodes) as u32;
            let b = (a + 1 + random.next(nodes - 1) as u32) % nodes as u32;
            let (rows, columns) = (p.strategies(a), p.strategies(b));
            // A third of the edges are copies: strategies of the larger follow the smaller.
            let costs: Vec<i64> = if random.chance(33) {
                (0..rows * columns).map(|k| if (k / columns) % columns == (k % columns) % rows { 0 } else { INFINITE }).collect()
            } else {
                (0..rows * columns).map(|_| cost(random)).collect()
            };
            p.add_edge(a, b, costs);
        }
    }
    let moments = random.next(shape.moments + 1);
    let mut total = 0;
    let mut rows = Vec::new();
    for node in 0..nodes as u32 {
        for _ in 0..random.next(3) {
            let (x, y) = (random.next(moments + 1) as u32, random.next(moments + 1) as u32);
            let usage: Vec<i64> = (0..p.strategies(node)).map(|_| random.next(9) as i64).collect();
            total += usage.iter().max().copied().unwrap_or(0);
            rows.push((node, x.min(y), x.max(y), usage));
        }
    }
    for _ in 0..moments {
        let jitter = random.next(4) as i64;
        p.add_moment(total * shape.limit as i64 / 100 + jitter);
    }
    for (node, lo, hi, usage) in rows {
        p.add_usage(node, lo, hi, usage);
    }
    p
}

fn brute(p: &Problem) -> Option<i128> {
    let mut choice = vec![0u32; p.nodes.len()];
    let mut best: Option<i128> = None;
    loop {
        if let Some(cost) = p.feasible_cost(&choice) {
            best = Some(best.map_or(cost, |b| b.min(cost)));
        }
        let mut n = 0;
        loop {
            if n == choice.len() {
                return best;
            }
            choice[n] += 1;
            if choice[n] < p.strategies(n as u32) {
                break;
            }
            choice[n] = 0;
            n += 1;
        }
    }
}

fn check(p: &Problem, name: &str) {
    let options = Options { work: 40_000_000, ..Options::default() };
    let outcome = solve(p, &options).expect("well formed");
    match (brute(p), outcome) {
        (Some(best), Outcome::Solved(s)) => {
            assert_eq!(p.feasible_cost(&s.choice), Some(s.objective), "{name}: the objective is not the choice's cost");
            assert!(s.bound <= best, "{name}: bound {} above the optimum {best}", s.bound);
            assert_eq!(s.objective, best, "{name}: {:?}", s.stats);
            assert_eq!(s.status, Status::Optimal, "{name}: bound {} objective {} {:?}", s.bound, s.objective, s.stats);
        }
        (None, Outcome::Infeasible(core)) => {
            // The core is infeasible by itself, on its nodes and moments alone.
            assert_eq!(brute(&restricted(p, &core.nodes, &core.moments)), None, "{name}: {core:?}");
            if core.irreducible {
                for k in 0..core.nodes.len() {
                    let mut fewer = core.nodes.clone();
                    fewer.remove(k);
                    assert!(brute(&restricted(p, &fewer, &core.moments)).is_some(), "{name}: node {k} of {core:?} is idle");
                }
                for k in 0..core.moments.len() {
                    let mut fewer = core.moments.clone();
                    fewer.remove(k);
                    assert!(brute(&restricted(p, &core.nodes, &fewer)).is_some(), "{name}: moment {k} of {core:?} is idle");
                }
            }
            if let Some(excess) = core.excess {
                assert_eq!(p.excess(&core.nearest), Some(excess), "{name}");
            }
        }
        (best, outcome) => panic!("{name}: brute force {best:?}, solver {outcome:?}"),
    }
}

fn restricted(p: &Problem, nodes: &[u32], moments: &[u32]) -> Problem {
    let mut out = Problem::default();
    for &n in nodes {
        out.add_node(p.nodes[n as usize].costs.clone());
    }
    let at = |n: u32| nodes.iter().position(|&m| m == n).map(|k| k as u32);
    for e in &p.edges {
        if let (Some(a), Some(b)) = (at(e.a), at(e.b)) {
            out.add_edge(a, b, e.costs.clone());
        }
    }
    for (k, &t) in moments.iter().enumerate() {
        out.add_moment(p.limits[t as usize]);
        for u in p.usages.iter().filter(|u| u.lo <= t && t < u.hi) {
            if let Some(n) = at(u.node) {
                out.add_usage(n, k as u32, k as u32 + 1, u.usage.clone());
            }
        }
    }
    out
}

fn many(seed: u64, count: u32, shape: &Shape) {
    let mut random = Random(seed);
    for k in 0..count {
        let p = problem(&mut random, shape);
        check(&p, &format!("seed {seed} problem {k}"));
    }
}

#[test]
fn without_memory() {
    many(0x9E37_79B9, 1500, &Shape { nodes: 7, strategies: 4, edges: 12, moments: 0, infinite: 10, cost: 1000, limit: 0 });
}

#[test]
fn with_memory() {
    many(0xA511_E9B3, 2000, &Shape { nodes: 7, strategies: 4, edges: 10, moments: 5, infinite: 10, cost: 1000, limit: 40 });
}

#[test]
fn tight_memory_and_ties() {
    many(0x1234_5677, 1500, &Shape { nodes: 6, strategies: 4, edges: 8, moments: 6, infinite: 15, cost: 4, limit: 22 });
}

#[test]
fn mostly_forbidden() {
    many(0xBEEF_CAFE, 1000, &Shape { nodes: 7, strategies: 4, edges: 10, moments: 4, infinite: 45, cost: 50, limit: 45 });
}

#[test]
fn large_costs_do_not_overflow() {
    let big = 999_999_999_999_999_999;
    let mut p = Problem::default();
    for _ in 0..40 {
        p.add_node(vec![big, big - 1]);
    }
    for n in 1..40 {
        p.add_edge(n - 1, n, vec![0, 1, 1, 0]);
    }
    let found = solve(&p, &Options::default()).expect("well formed");
    let s = found.solution().expect("feasible");
    assert_eq!(s.objective, 40 * i128::from(big - 1));
    assert_eq!(s.status, Status::Optimal);
}

#[test]
fn same_answer_twice() {
    let shape = Shape { nodes: 9, strategies: 5, edges: 16, moments: 6, infinite: 5, cost: 1000, limit: 35 };
    let mut random = Random(77);
    for _ in 0..30 {
        let p = problem(&mut random, &shape);
        let one = solve(&p, &Options::default()).expect("well formed");
        let two = solve(&p, &Options { threads: 2, ..Options::default() }).expect("well formed");
        assert_eq!(one, two);
    }
}
