//! Reshards move values: any path, executed on all devices, gives every device the block that its new sharding says, whatever padding held before;
//! a path exists exactly when nothing would have to become partial; and no way through a third sharding is cheaper.

mod sharded;

use cost_model::{AnalyticModel, Cluster};
use ir::op::Reducer;
use ir::{AxisId, DType, Graph, Mesh, Sharding, TensorType};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use sharded::{Bench, Random, as_made};

const MESHES: [&[u32]; 8] = [&[2], &[3], &[4], &[2, 2], &[2, 3], &[4, 2], &[1, 3], &[2, 2, 2]];

/// A sharding from one draw per axis: nothing, a dimension, or partial, in a drawn order of axes; `None` when no value could be held so.
fn sharding(shape: &[u64], mesh: &Mesh, draws: &[u8; 4], reducer: Reducer) -> Option<Sharding> {
    let mut s = Sharding::replicated(shape.len());
    let mut axes: Vec<AxisId> = mesh.axis_ids().filter(|&a| mesh.size(a) > 1).collect();
    let shift = usize::from(draws[3]) % axes.len().max(1);
    axes.rotate_left(shift);
    for axis in axes {
        match usize::from(draws[axis.0 as usize]) % (shape.len() + 2) {
            0 => {}
            1 => s.partial.push((axis, reducer)),
            d => s.dims[d - 2].push(axis),
        }
    }
    s.partial.sort_by_key(|p| p.0);
    compiler::shard::reshard::is_valid(&s, shape, mesh).then_some(s)
}

fn reducers() -> impl Strategy<Value = Reducer> {
    prop_oneof![3 => Just(Reducer::Add), 1 => Just(Reducer::Max), 1 => Just(Reducer::Min)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: Some(Box::new(FileFailurePersistence::Off)), ..ProptestConfig::default() })]

    #[test]
    fn every_path_moves_the_value(
        shape in prop::collection::vec(1u64..13, 0..4),
        mesh in 0..MESHES.len(),
        from in any::<[u8; 4]>(),
        to in any::<[u8; 4]>(),
        reducer in reducers(),
        integer in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mesh = Mesh::new(MESHES[mesh]);
        let (Some(from), Some(to)) = (sharding(&shape, &mesh, &from, reducer), sharding(&shape, &mesh, &to, reducer)) else { return Ok(()) };
        let mut graph = Graph::new("main");
        let ty = TensorType::new(if integer { DType::I32 } else { DType::F32 }, shape.clone());
        let x = graph.add_input(ty.clone(), "");
        graph.outputs.push(x);
        let bench = Bench::new(graph, seed);
        let path = bench.resharder(&mesh).path(&ty, &from, &to);
        let possible = to.partial.iter().all(|p| from.partial.contains(p));
        prop_assert_eq!(path.is_some(), possible, "from {} to {} on {}", from.display(&mesh), to.display(&mesh), mesh);
        let Some(path) = path else { return Ok(()) };
        for (step, at) in &path.steps {
            prop_assert!(compiler::shard::reshard::is_valid(at, &shape, &mesh), "{:?} leads to {}", step, at.display(&mesh));
        }
        let result = bench.check(&mesh, vec![from.clone()], vec![as_made(&to, &mesh)], &mut Random::new(seed ^ 5));
        prop_assert!(result.is_ok(), "{ty} from {} to {} on {mesh} by {:?}: {}", from.display(&mesh), to.display(&mesh), path.steps, result.unwrap_err());
    }

    #[test]
    fn no_way_round_is_cheaper(
        shape in prop::collection::vec(1u64..200, 1..4),
        mesh in 0..MESHES.len(),
        draws in any::<[[u8; 4]; 3]>(),
        reducer in reducers(),
    ) {
        let mesh = Mesh::new(MESHES[mesh]);
        let at: Vec<Sharding> = draws.iter().filter_map(|d| sharding(&shape, &mesh, d, reducer)).collect();
        let [from, middle, to] = at.as_slice() else { return Ok(()) };
        let model = AnalyticModel::new(Cluster::parse("dgx-a100:1").expect("a preset"));
        let mut resharder = compiler::shard::reshard::Resharder::new(&model, &mesh, 0);
        let ty = TensorType::new(DType::F32, shape.clone());
        let times = (resharder.time(&ty, from, to), resharder.time(&ty, from, middle), resharder.time(&ty, middle, to));
        if let (direct, Some(a), Some(b)) = times {
            let direct = direct.expect("two paths make one").0;
            prop_assert!(direct <= (a + b).0 * (1.0 + 1e-12), "{direct} s from {} to {}, {} s through {}", from.display(&mesh), to.display(&mesh), (a + b).0, middle.display(&mesh));
        }
    }
}
