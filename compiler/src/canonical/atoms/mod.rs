//! Atoms: rewrites the graph so that every dimension is atomic.
//!
//! A fused dimension is a product of sub-dimensions: a fused QKV of 768 is 3·8·32. The reshapes, slices and concatenations of the graph say where it is cut.
//! The cuts of all dimensions that correspond to each other, over the whole graph, have a common refinement; with it `tensor<256x768xf32>` becomes
//! `tensor<256x3x8x32xf32>`, a row-major view of the same data, and the reshapes are identities and disappear. A sharding then cuts whole dimensions only.
//! - [`classes`] holds the dimensions that correspond, and finds the refinement.
//! - [`links`] says per op which dimensions correspond, and how reshapes, slices, pads and concatenations relate theirs.
//! - [`rebuild`] rewrites the ops.
//! - [`unshare`] first gives every reader of a constant or broadcast its own, so that sharing it links nothing.
//!
//! A dimension of size 1 has no atoms and is dropped, unless an op needs it as it is. A dimension that an op cannot take in parts is *pinned*: it is one atom.
//! Where cuts are incompatible the reshape stays; nothing depends on a refinement having been found but the ops that are left.

mod classes;
mod links;
mod rebuild;
mod unshare;

use classes::Classes;
use ir::ValueId;
use ir::graph::Graph;

/// How the arguments and results of the step are seen by the refined graph: the same elements, row-major, in these shapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtomicView {
    /// Shape of every input.
    pub inputs: Vec<Vec<u64>>,
    /// Shape of every output.
    pub outputs: Vec<Vec<u64>>,
}

/// What must hold of the refinement beyond what the ops need.
#[derive(Clone, Debug, Default)]
pub struct Constraints {
    /// Inputs and outputs, by position, that are refined alike: state and what replaces it.
    pub tied: Vec<(u32, u32)>,
    /// Dimensions of inputs that are not cut: batch dimensions.
    pub whole: Vec<(u32, usize)>,
}

/// Which dimensions of a graph's values correspond to each other.
pub struct Correspondence(Classes);

impl Correspondence {
    /// The correspondence that the ops of a graph give.
    pub fn of(graph: &Graph) -> Correspondence {
        let mut classes = Classes::new(graph);
        for op in graph.ops.values() {
            links::op(graph, op, &mut classes);
        }
        Correspondence(classes)
    }
    /// A number that two dimensions share exactly if they correspond.
    pub fn class(&mut self, v: ValueId, dim: usize) -> usize {
        self.0.class(v, dim)
    }
}

/// The refined graph, and how its inputs and outputs view the arguments and results.
pub fn run(graph: &Graph, constraints: &Constraints) -> (Graph, AtomicView) {
    let graph = &unshare::run(graph);
    let mut classes = Classes::new(graph);
    for op in graph.ops.values() {
        links::op(graph, op, &mut classes);
    }
    for &(input, output) in &constraints.tied {
        let (a, b) = (graph.inputs[input as usize], graph.outputs[output as usize]);
        if graph.ty(a).shape == graph.ty(b).shape {
            classes.same_dims(a, b);
        }
    }
    for &(input, dim) in &constraints.whole {
        classes.pin(graph.inputs[input as usize], dim);
    }
    classes.refine();
    let refined = rebuild::run(graph, &mut classes);
    let shapes = |values: &[ValueId]| values.iter().map(|&v| refined.ty(v).shape.clone()).collect();
    let view = AtomicView { inputs: shapes(&refined.inputs), outputs: shapes(&refined.outputs) };
    (refined, view)
}

#[cfg(test)]
mod tests;
