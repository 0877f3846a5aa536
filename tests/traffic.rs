//! What the report on kernels says that a plan's GPU kernels move is what the emulator counts.

mod support;

use ir::kernel::NodeKind;
use ptx::{Grid, Memory, Module, Options, SECTOR};
use support::emulator::compile_for_both;
use support::exported;

/// Device memory is given out in whole lines.
#[derive(Clone, Copy)]
#[repr(C, align(256))]
struct Line {
    _bytes: [u8; 256],
}

fn lines(bytes: u64) -> Vec<Line> {
    vec![Line { _bytes: [0; 256] }; bytes.div_ceil(256).max(1) as usize]
}

#[test]
fn what_a_plan_moves_is_what_the_emulator_counts() {
    let Some(model) = exported("gpt_4l") else { return };
    let plan = compile_for_both(&model, "--cluster local:1");
    let code = plan.code.iter().find(|c| c.target == "cuda").expect("code for GPUs");
    let module = Module::parse(&String::from_utf8_lossy(&code.object)).unwrap_or_else(|e| panic!("{e}"));
    let mut compared = 0;
    for (id, kernel) in plan.kernels.iter() {
        let launches = &code.launches[id];
        let said = mlir::cuda_traffic(&kernel.symbol(), kernel).unwrap_or_else(|e| panic!("{e}"));
        let mut buffers: Vec<Vec<Line>> = kernel.params.iter().map(|p| lines(p.elements * p.dtype.bytes())).collect();
        let mut scratch = lines(launches.iter().map(|l| l.scratch).max().unwrap_or(0));
        let mut memory = Memory::new();
        let mut params: Vec<u64> = buffers.iter_mut().map(|b| memory.register_slice("argument", b).address()).collect();
        params.extend((0..kernel.scalars).map(|_| 0));
        let scratch = memory.register_slice("scratch", &mut scratch).address();
        // Where computed indices lead depends on data.
        let gathers = kernel.nodes.values().any(|n| matches!(n.kind, NodeKind::Gather { .. }));
        for (launch, said) in launches.iter().zip(said) {
            let grid = Grid { grid: launch.grid, block: launch.block, dynamic_shared: launch.shared };
            let given: Vec<u64> = params.iter().copied().chain((launch.scratch > 0).then_some(scratch)).collect();
            let entry = module.entry(&launch.entry).expect("an entry for every launch");
            let options = Options { distinct: true, ..Options::default() };
            let counts = ptx::launch(&module, entry, grid, &given, &memory, &options).unwrap_or_else(|e| panic!("{e}"));
            let place = || format!("{}: {said:?}, and {counts:?}", launch.entry);
            assert!(gathers || said.read == counts.loads.distinct * SECTOR, "{}", place());
            assert_eq!(said.written, counts.stores.distinct * SECTOR, "{}", place());
            compared += 1;
        }
    }
    assert!(compared >= 20, "{compared} launches");
}
