//! The contract of the rules: every op, sharded in every way its rule allows, uneven ways included, computes what it computes unsharded.
//!
//! A case is a graph around one op. On each mesh, each of its group's factors is cut and each set of its reads is made partial, alone and in pairs over two
//! axes, wherever the rule lets it; arguments are cut or split into summands accordingly.

mod sharded;

#[path = "rules/cases.rs"]
mod cases;

use cases::{Case, cases};
use compiler::shard::groups::{AxisChoice, Choice, Group, Status};
use compiler::shard::strategy::{Strategy, combine, strategies};
use ir::op::{OpKind, Reducer};
use ir::{Mesh, Sharding};
use sharded::{Bench, Random, as_made};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that a group's rules allow an axis to do; more than the planner tries.
fn all_choices(bench: &Bench, group: &Group, size: u32) -> Vec<AxisChoice> {
    let (graph, rules) = (&bench.step.graph, &bench.groups.rules);
    let cuts = (0..group.factors.len() as u32).filter(|&f| group.factors[f as usize].size >= u64::from(size)).map(Choice::Cut);
    let mut all: Vec<Choice> = std::iter::once(Choice::Whole).chain(cuts).collect();
    for reducer in [Reducer::Add, Reducer::Mul, Reducer::Max, Reducer::Min, Reducer::And, Reducer::Or, Reducer::Xor] {
        for set in 1u32..1 << group.reads.len().min(6) {
            let reads: Vec<u32> = (0..group.reads.len() as u32).filter(|r| set >> r & 1 == 1).collect();
            let types = reads.iter().map(|&r| graph.ty(group.reads[r as usize].value).dtype);
            // What a value of a type can be partial by.
            let boolean = matches!(reducer, Reducer::And | Reducer::Or | Reducer::Xor);
            if types.into_iter().all(|t| if boolean { t == ir::DType::I1 } else { t.is_float() || (t != ir::DType::I1 && reducer != Reducer::Mul) }) {
                all.push(Choice::Partial(reducer, reads));
            }
        }
    }
    all.into_iter().filter_map(|c| group.follow(graph, rules, c)).collect()
}

/// What a case exercised: (factors cut, factors cut unevenly, folded factors cut, sets of partial reads).
#[derive(Default)]
struct Tally {
    strategies: usize,
    cut: BTreeSet<u32>,
    partial: BTreeSet<Vec<u32>>,
    uneven: bool,
}

/// The group that a case is about, which has the op as an own op or looks through it.
fn subject(bench: &Bench, case: &Case) -> usize {
    let has = |g: &Group| g.members.iter().any(|m| m.op == case.op);
    bench.groups.groups.iter().position(has).unwrap_or_else(|| panic!("{}: no group has the op", case.name))
}

fn check_strategy(bench: &Bench, subject: usize, mesh: &Mesh, strategy: &Strategy, random: &mut Random) -> Result<bool, String> {
    let cx = bench.context(mesh);
    let graph = &bench.step.graph;
    let mut made: BTreeMap<_, Sharding> = BTreeMap::new();
    // Arguments lie as the group wants them; one that is read twice, in different ways, as the first read wants it.
    for (read, sharding) in bench.groups.groups[subject].reads.iter().zip(&strategy.reads) {
        if graph.def_op(read.value).is_none() {
            made.entry(read.value).or_insert_with(|| sharding.clone());
        }
    }
    let inputs: Vec<Sharding> = graph.inputs.iter().map(|v| made.entry(*v).or_insert_with(|| Sharding::replicated(graph.ty(*v).rank())).clone()).collect();
    let mut resharder = bench.resharder(mesh);
    let mut chosen = Vec::new();
    for (g, group) in bench.groups.groups.iter().enumerate() {
        let own = if g == subject {
            strategy.clone()
        } else if group.output.is_some() && group.members.is_empty() {
            as_made(&made[&group.reads[0].value], mesh)
        } else {
            strategies(&cx, group).remove(0)
        };
        for (read, want) in group.reads.iter().zip(&own.reads) {
            if resharder.path(graph.ty(read.value), &made[&read.value], want).is_none() {
                return Ok(false);
            }
        }
        if group.output.is_none() {
            group.writes.iter().zip(&own.writes).for_each(|(w, s)| {
                made.insert(w.value, s.clone());
            });
        }
        chosen.push(own);
    }
    bench.check(mesh, inputs, chosen, random).map(|()| true)
}

fn check(case: &Case, mesh: &Mesh, tally: &mut Tally) -> Result<(), String> {
    let bench = Bench::new(case.graph.clone(), 3);
    let subject = subject(&bench, case);
    let group = &bench.groups.groups[subject];
    let cx = bench.context(mesh);
    let per_axis: Vec<Vec<AxisChoice>> = mesh.axes.iter().map(|a| all_choices(&bench, group, a.size)).collect();
    let mut combinations: Vec<Vec<&AxisChoice>> = vec![vec![]];
    for choices in &per_axis {
        combinations = combinations.iter().flat_map(|c| choices.iter().map(|x| [c.as_slice(), &[x]].concat())).collect();
    }
    let mut random = Random::new(11);
    for combination in combinations {
        let Some(strategy) = combine(&cx, group, &combination) else { continue };
        match check_strategy(&bench, subject, mesh, &strategy, &mut random) {
            Ok(false) => {}
            Err(e) => return Err(format!("{} on {mesh}, {} ({:?}): {e}", case.name, strategy.describe(group, mesh), strategy.axes)),
            Ok(true) => {
                tally.strategies += 1;
                for (choice, axis) in combination.iter().zip(&mesh.axes) {
                    match &choice.choice {
                        Choice::Whole => {}
                        Choice::Cut(f) => {
                            tally.cut.insert(*f);
                            tally.uneven |= !group.factors[*f as usize].size.is_multiple_of(u64::from(axis.size));
                            assert!(choice.writes.iter().all(|w| !matches!(w, Status::Partial(Reducer::Replace | Reducer::General))));
                        }
                        Choice::Partial(_, reads) => {
                            tally.partial.insert(reads.clone());
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// Every case on every mesh, and that each does what it was written for.
fn check_all(which: impl Fn(&Case) -> bool) {
    let mut failures = Vec::new();
    for case in cases().iter().filter(|c| which(c)) {
        let mut tally = Tally::default();
        for mesh in [&[2][..], &[3], &[4], &[2, 2]] {
            failures.extend(check(case, &Mesh::new(mesh), &mut tally).err());
        }
        let found = (tally.cut.len(), tally.partial.len());
        if found != (case.cuts, case.partials) {
            failures.push(format!("{}: (factors cut, sets of partial operands) are {found:?}, not {:?}", case.name, (case.cuts, case.partials)));
        }
        if !tally.uneven && case.cuts > 0 {
            failures.push(format!("{}: nothing was cut unevenly", case.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn elementwise_ops_compute_the_same_sharded() {
    check_all(|c| c.graph.ops.values().all(|o| o.kind.is_elementwise() || matches!(o.kind, OpKind::Constant(_))));
}

#[test]
fn other_ops_compute_the_same_sharded() {
    check_all(|c| c.graph.ops.values().any(|o| !o.kind.is_elementwise() && !matches!(o.kind, OpKind::Constant(_))));
}

#[test]
fn every_op_with_a_rule_has_a_case() {
    let tested: BTreeSet<&str> = cases().iter().flat_map(|c| c.graph.ops.values().filter_map(|o| cases::has_rule(&o.kind)).collect::<Vec<_>>()).collect();
    let missing: Vec<&str> = cases::WITH_RULES.iter().copied().filter(|n| !tested.contains(n)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}
