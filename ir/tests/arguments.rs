//! Made-up arguments let real steps run: what comes out is finite, and the loss is that of a model that knows nothing.

mod case;

use case::Case;
use ir::arguments::{Role, index_limit, made_up};
use ir::interp::{Precision, Tensor, run};

fn check(name: &str, parameters: usize, loss: std::ops::Range<f64>) -> Option<Case> {
    let case = Case::load(name)?;
    let role = |i| if i < parameters { Role::Parameter } else { [Role::Data, Role::State][usize::from(i < case.state)] };
    let arguments = made_up(&case.module, case.graph(), role, 0);
    let outputs = run(&case.module, case.graph(), &arguments, Precision::AsTyped).unwrap();
    assert!(outputs.iter().all(|x| x.to_f64s().iter().all(|v| v.is_finite())), "{name}");
    let got = outputs.last().and_then(Tensor::first).unwrap();
    assert!(loss.contains(&got), "{name}: {got}");
    Some(case)
}

#[test]
fn steps_run_on_made_up_arguments() {
    check("mlp", 6, 0.5..3.0);
    check("resnet", 23, 1.0..5.0);
    // The logarithm of the number of tokens.
    if let Some(case) = check("moe", 12, 6.5..7.5) {
        let graph = case.graph();
        for i in case.batch() {
            assert_eq!(index_limit(&case.module, graph, graph.inputs[i]), Some(1024), "argument {i}");
        }
    }
}
