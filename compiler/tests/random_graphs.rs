//! Any plan computes the step: random graphs, with a random strategy for every group (not the best one) that reshards connect, partitioned and run on all
//! devices, against the unsharded run. Phases are random too, so that groups are cut apart and reshards are shared within a phase.

mod sharded;

use compiler::shard::problem::Space;
use ir::program::Phase;
use ir::{Mesh, Sharding, ValueId};
use proptest::prelude::*;
use sharded::drawn::{Draw, Drawn};
use sharded::{Bench, Random};
use std::collections::BTreeMap;

const MESHES: [&[u32]; 6] = [&[2], &[3], &[4], &[2, 2], &[2, 3], &[3, 2]];

/// Random choices that reshards connect; the way that each was chosen is the number drawn.
fn check(bench: &Bench, mesh: &Mesh, random: &mut Random) -> Result<(), String> {
    let cx = bench.context(mesh);
    let space = Space::new(&cx);
    let graph = &bench.step.graph;
    let inputs: Vec<Sharding> = space.inputs.iter().map(|s| s[random.below(s.len() as u64) as usize].clone()).collect();
    let mut made: BTreeMap<ValueId, Sharding> = graph.inputs.iter().copied().zip(inputs.iter().cloned()).collect();
    let mut resharder = bench.resharder(mesh);
    let mut chosen = Vec::new();
    for (group, strategies) in bench.groups.groups.iter().zip(&space.groups) {
        let mut connected = |s: &&compiler::shard::strategy::Strategy| {
            group.reads.iter().zip(&s.reads).all(|(r, want)| resharder.path(graph.ty(r.value), &made[&r.value], want).is_some())
        };
        let first = random.below(strategies.len() as u64) as usize;
        let strategy = strategies.iter().cycle().skip(first).take(strategies.len()).find(&mut connected).ok_or("a group that nothing connects to")?;
        if group.output.is_none() {
            group.writes.iter().zip(&strategy.writes).for_each(|(w, s)| {
                made.insert(w.value, s.clone());
            });
        }
        chosen.push(strategy.clone());
    }
    let described: Vec<String> = bench.groups.groups.iter().zip(&chosen).map(|(g, s)| format!("{:?}{:?}: {}", g.ops, g.output, s.describe(g, mesh))).collect();
    bench.check(mesh, inputs, chosen, random).map_err(|e| format!("{e}\n{}", described.join("\n")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, max_shrink_iters: 3000, ..ProptestConfig::default() })]

    #[test]
    fn any_plan_computes_the_step(
        draws in prop::collection::vec(any::<Draw>(), 1..14),
        mesh in 0..MESHES.len(),
        cuts in any::<[u8; 2]>(),
        seed in any::<u64>(),
    ) {
        let mut drawn = Drawn::new();
        draws.into_iter().for_each(|d| drawn.add(d));
        let graph = drawn.finish();
        let ops = graph.ops.len() as u32;
        if ops == 0 { return Ok(()) }
        let cut = |i: usize| u32::from(cuts[i]) % (2 * ops);
        let phase = |o: u32| [Phase::Before, Phase::Forward, Phase::After][usize::from(o >= cut(0).min(cut(1))) + usize::from(o >= cut(0).max(cut(1)))];
        let bench = Bench::in_phases(graph.clone(), &phase, seed);
        if bench.largest() > 1e9 { return Ok(()) }
        let mesh = Mesh::new(MESHES[mesh]);
        for attempt in 0..4 {
            let result = check(&bench, &mesh, &mut Random::new(seed ^ attempt));
            prop_assert!(result.is_ok(), "on {mesh}: {}\n{}", result.unwrap_err(), ir::text::print_graph(&graph));
        }
    }
}
