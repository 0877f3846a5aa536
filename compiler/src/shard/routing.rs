//! What a traced step does to send tokens to experts: routers, the products that move tokens, and the experts' own work, told apart by their scopes.
//!
//! Models dispatch tokens by products with one-hot tensors (`models/src/experts.rs`), which give every value a static shape and a sharding. Software that permutes
//! rows makes neither these tensors nor the products: what it makes instead is known from the same groups. Invariant: a step without experts has nothing here.

use super::classes::{Classes, residual_classes};
use super::groups::{Group, Groups};
use crate::step::StepGraph;
use ir::graph::{Graph, Op};
use ir::{OpId, OpKind, SecondaryMap, ValueId};
use std::collections::BTreeSet;

/// What a group is to a layer of experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    #[default]
    None,
    /// The product that makes the router's logits, or its gradients.
    Logits,
    /// What becomes of the logits: which expert, which place, which weight.
    Router,
    /// A product that moves tokens to experts or back.
    Moving,
    /// What an expert does.
    Experts,
}

/// The parts of a step.
pub struct Routing {
    part: Vec<Part>,
    /// Values that software does not make which permutes rows: one-hot tensors, places, and their gradients.
    pub unmade: SecondaryMap<ValueId, bool>,
    chosen: f64,
    any: bool,
}

/// Scopes of what routers do, and of the products that move tokens.
const ROUTER: &str = "router";
const MOVING: [&str; 2] = ["dispatch", "combine"];
/// A product inside the router that counts tokens.
const PLACES: &str = "places";
const EXPERTS: &str = "experts";

/// The parts of the scope in which an op, or the forward op that it is the derivative of, was traced. A place is `file.rs:12 scope/of/the/op`.
fn scope<'g>(graph: &'g Graph, op: &Op) -> impl Iterator<Item = &'g str> + Clone {
    let name = graph.locs.get(op.loc).and_then(|l| l.name.as_deref()).unwrap_or_default();
    name.split_once(' ').map_or("", |(_, scope)| scope).split('/')
}

impl Routing {
    /// Finds the parts of a step.
    pub fn new(step: &StepGraph, groups: &Groups) -> Routing {
        let graph = &step.graph;
        let within = |op: &Op, of: &[&str]| scope(graph, op).any(|part| of.contains(&part));
        let mut routing = Routing { part: vec![Part::None; groups.groups.len()], unmade: SecondaryMap::new(), chosen: 1.0, any: false };
        if !graph.ops.values().any(|op| within(op, &[ROUTER])) {
            return routing;
        }
        routing.any = true;
        let mut classes = Classes::of(step, groups);
        let found = residual_classes(step, &mut classes);
        let residual: BTreeSet<usize> = found.into_iter().map(|c| classes.root(c)).collect();
        let mut of_tokens = |v: ValueId| (0..graph.ty(v).rank()).any(|d| residual.contains(&classes.class(v, d)));
        let is_dot = |op: &Op| matches!(op.kind, OpKind::Dot(_));
        let logits = |op: &Op| is_dot(op) && within(op, &[ROUTER]) && !within(op, &[PLACES]);
        for op in graph.ops.values().filter(|op| within(op, &[ROUTER, MOVING[0], MOVING[1]]) && !logits(op)) {
            for &v in &op.results {
                routing.unmade[v] = !of_tokens(v);
            }
        }
        for (g, group) in groups.groups.iter().enumerate() {
            let any = |is: &dyn Fn(&Op) -> bool| group.ops.iter().any(|&o: &OpId| is(&graph.ops[o]));
            routing.part[g] = match () {
                () if any(&|op| is_dot(op) && within(op, &MOVING)) => Part::Moving,
                () if any(&logits) => Part::Logits,
                () if any(&|op| within(op, &[ROUTER])) && group.writes.iter().all(|w| routing.unmade[w.value]) => Part::Router,
                () if !group.ops.is_empty() && group.ops.iter().all(|&o| within(&graph.ops[o], &[EXPERTS])) => Part::Experts,
                () => Part::None,
            };
        }
        for group in (0..).zip(&groups.groups).filter(|(g, _)| routing.part[*g] == Part::Moving).map(|(_, group)| group) {
            let mut sizes: Vec<u64> =
                group.reads.iter().chain(&group.writes).filter(|a| !routing.unmade[a.value]).map(|a| graph.ty(a.value).elements()).collect();
            sizes.sort_unstable();
            if let (Some(&tokens), Some(&rows)) = (sizes.first(), sizes.last()) {
                routing.chosen = routing.chosen.max(rows as f64 / tokens.max(1) as f64);
            }
        }
        routing
    }

    /// To how many experts a token goes: the rows that are moved for it.
    pub fn chosen(&self) -> f64 {
        self.chosen
    }

    /// Whether there are experts.
    pub fn any(&self) -> bool {
        self.any
    }

    /// What a group is.
    pub fn part(&self, group: usize) -> Part {
        self.part[group]
    }

    /// Whether a group belongs to the way of tokens, not to the experts: its experts are those of its tokens, not those of a device.
    pub fn routes(&self, group: usize) -> bool {
        matches!(self.part[group], Part::Logits | Part::Router | Part::Moving)
    }

    /// The largest value of a moving product that is made: the rows that are moved.
    pub fn rows(&self, graph: &Graph, group: &Group) -> Option<ValueId> {
        let values = group.reads.iter().chain(&group.writes).map(|a| a.value);
        values.filter(|&v| !self.unmade[v]).max_by_key(|&v| graph.ty(v).elements())
    }
}
