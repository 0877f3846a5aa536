//! The front passes on the real inputs: every pass leaves a graph that verifies, and state, batch and loss are what the files' authors meant.

use compiler::batch::state::Overrides;
use compiler::canonical;
use ir::graph::Module;
use ir::{Graph, OpKind};

/// A module of the shared inputs, when they are there.
fn input(name: &str) -> Option<Module> {
    let Ok(data) = std::env::var("SHARDWRIGHT_DATA") else {
        eprintln!("left out: SHARDWRIGHT_DATA is not set");
        return None;
    };
    let file = format!("{data}/inputs/{name}.mlir");
    let text = std::fs::read_to_string(&file).expect("the input is there");
    Some(ir::text::parse(&file, &text).expect("the input parses"))
}

fn assert_verifies(pass: &str, graph: &Graph) {
    if let Err(errors) = ir::verify::verify(graph) {
        panic!("after {pass}: {}", errors[..errors.len().min(10)].join("\n"));
    }
}

fn count(graph: &Graph, matches: impl Fn(&OpKind) -> bool) -> usize {
    graph.ops.values().filter(|op| matches(&op.kind)).count()
}

const NAMES: [&str; 7] = ["mlp", "gpt_4l", "gpt2_small", "llama_scan_bf16", "moe", "resnet", "flax_lm"];

#[test]
fn every_pass_verifies() {
    for name in NAMES {
        let Some(module) = input(name) else { return };
        let inlined = canonical::inline::run(&module).expect("inlines");
        assert_verifies("inline", &inlined);
        let folded = canonical::fold::run(&inlined);
        assert_verifies("fold", &folded);
        let (unrolled, notes) = canonical::unroll::run(&folded);
        assert_verifies("unroll", &unrolled);
        assert!(notes.is_empty(), "{name}: {notes:?}");
        let folded = canonical::fold::run(&unrolled);
        assert_verifies("fold after unroll", &folded);
        let onehot = canonical::onehot::run(&folded);
        assert_verifies("onehot", &onehot);
        let flat = canonical::fold::run(&onehot);
        assert_verifies("fold after onehot", &flat);
        let (atoms, view) = canonical::atoms::run(&flat, &Default::default());
        assert_verifies("atoms", &atoms);
        let dots = canonical::dots::run(&canonical::fold::run(&atoms));
        assert_verifies("dots", &dots);
        let c = canonical::run(&module, &Overrides::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_verifies("all", &c.graph);
        let g = &c.graph;
        println!(
            "{name}: ops {} → {} → {} → {}; reshape {} transpose {} slice {} concat {} pad {} gather {} scatter {} while {} max rank {}",
            inlined.ops.len(), unrolled.ops.len(), flat.ops.len(), g.ops.len(),
            count(g, |k| matches!(k, OpKind::Reshape)), count(g, |k| matches!(k, OpKind::Transpose { .. })), count(g, |k| matches!(k, OpKind::Slice { .. })),
            count(g, |k| matches!(k, OpKind::Concatenate { .. })), count(g, |k| matches!(k, OpKind::Pad { .. })),
            count(g, |k| matches!(k, OpKind::Gather(_))), count(g, |k| matches!(k, OpKind::Scatter { .. })), count(g, |k| matches!(k, OpKind::While)),
            g.values.values().map(|v| v.ty.rank()).max().unwrap_or(0),
        );
        for (id, op) in g.ops.iter() {
            if matches!(op.kind, OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Slice { .. } | OpKind::Concatenate { .. } | OpKind::Pad { .. } | OpKind::Gather(_) | OpKind::Scatter { .. }) && g.ops.len() < 6000 {
                println!("  {id} {} {:?} {:?} -> {}", g.display_name(op.results[0]), op.kind, op.operands.iter().map(|&v| g.ty(v).to_string()).collect::<Vec<_>>(), g.ty(op.results[0]));
            }
        }
        println!("  inputs {:?}", view.inputs.iter().take(60).collect::<Vec<_>>());
        println!("  state {:?} batch {:?} loss {:?} scalars {:?} const {:?} other {:?} params {}", c.interface.state.len(), c.interface.batch, c.interface.loss, c.interface.scalars, c.interface.constants, c.interface.other_results, c.interface.parameters.len());
        for n in &c.notes { println!("  {n}"); }
        let a = compiler::batch::phases::analyse(g, &c.interface);
        println!("  batch size {} obstacles {}", a.batch_size, a.obstacles.len());
        for n in &a.obstacles { println!("  {n}"); }
    }
}
