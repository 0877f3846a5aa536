//! The interpreter: evaluates a graph op by op, as typed or with every float in `f64`.
//!
//! It is the oracle of the tests and of `verify`, plain before fast, and never the way a plan runs. A partitioned graph is evaluated on all devices of its
//! mesh in lock step ([`run_spmd`]), so that a collective sees what every device holds.
//! Invariants: a graph that passes `verify` is evaluated or refused with a diagnostic, never with a panic; every result has its declared type;
//! the bits of a result do not depend on the number of threads. A tensor is freed after its last use, and overwritten there where an op can.

mod attention;
mod collective;
mod complex;
mod dot;
mod elementwise;
mod evaluate;
pub mod footprint;
mod indexing;
mod movement;
mod product;
mod random;
mod reduction;
mod region;
mod sorting;
mod special;
mod stepper;
mod tensor;

pub use stepper::Stepper;
pub use tensor::{Complex, Precision, Tensor};

use crate::diagnostic::Diagnostic;
use crate::graph::{Graph, Module, Op};
use crate::op::{OpKind, ValueId};
use crate::sharding::{AxisId, Mesh};

/// Evaluates `graph`, a function of `module`, on its inputs.
///
/// ```
/// use ir::interp::{Precision, Tensor, run};
/// use ir::op::{BinaryOp, OpKind};
/// use ir::{DType, Graph, Loc, Module, TensorType};
/// let ty = TensorType::new(DType::F32, [2]);
/// let mut graph = Graph::new("main");
/// let x = graph.add_input(ty.clone(), "%arg0");
/// let loc = graph.add_loc(ir::graph::LocInfo::default());
/// let y = graph.add(OpKind::Binary(BinaryOp::Add), vec![x, x], ty, loc);
/// graph.outputs.push(y);
/// let input = Tensor::from_f32s([2], vec![1.0, 2.0]).unwrap();
/// let results = run(&Module::default(), &graph, &[input], Precision::AsTyped).unwrap();
/// assert_eq!(results[0].to_f64s(), [2.0, 4.0]);
/// ```
pub fn run(module: &Module, graph: &Graph, inputs: &[Tensor], precision: Precision) -> Result<Vec<Tensor>, Diagnostic> {
    let machine = Machine { module, precision, mesh: None, microbatch: 0 };
    let inputs = machine.admit(graph, inputs.to_vec())?;
    let mut lanes = machine.graph(graph, vec![inputs], &[0])?;
    Ok(lanes.pop().unwrap_or_default())
}

/// Evaluates a partitioned graph on all devices of `mesh` in lock step, at one microbatch: `inputs[d]` are those of device `d`, the result likewise.
pub fn run_spmd(graph: &Graph, mesh: &Mesh, microbatch: u32, inputs: &[Vec<Tensor>], precision: Precision) -> Result<Vec<Vec<Tensor>>, Diagnostic> {
    let module = Module::default();
    let machine = Machine { module: &module, precision, mesh: Some(mesh), microbatch };
    if inputs.len() != mesh.devices() as usize {
        return Err(Diagnostic::input("E0701", format!("inputs of {} devices for a mesh of {}", inputs.len(), mesh.devices())));
    }
    let lanes = inputs.iter().map(|i| machine.admit(graph, i.clone())).collect::<Result<Vec<_>, _>>()?;
    let devices: Vec<u32> = (0..mesh.devices()).collect();
    machine.graph(graph, lanes, &devices)
}

/// What an evaluation needs beside the graph. A *lane* is a device's tensors; all lanes are at the same op.
struct Machine<'a> {
    module: &'a Module,
    precision: Precision,
    mesh: Option<&'a Mesh>,
    microbatch: u32,
}

impl Machine<'_> {
    /// Checks the inputs against the graph and brings them into this machine's precision.
    fn admit(&self, graph: &Graph, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Diagnostic> {
        if inputs.len() != graph.inputs.len() {
            return Err(Diagnostic::input("E0701", format!("{} arguments for `{}`, which takes {}", inputs.len(), graph.name, graph.inputs.len())));
        }
        let admit = |(&v, x): (&ValueId, Tensor)| {
            let want = graph.ty(v);
            if x.ty != *want {
                return Err(Diagnostic::input("E0702", format!("argument {} is {}, not {want}", graph.display_name(v), x.ty)));
            }
            Ok(x.in_precision(self.precision))
        };
        graph.inputs.iter().zip(inputs).map(admit).collect()
    }

    /// Evaluates a graph on some devices' inputs in lock step.
    fn graph(&self, graph: &Graph, lanes: Vec<Vec<Tensor>>, devices: &[u32]) -> Result<Vec<Vec<Tensor>>, Diagnostic> {
        let last_use = last_uses(graph);
        let mut slots: Vec<Vec<Option<Tensor>>> = lanes
            .into_iter()
            .map(|inputs| {
                let mut slots = vec![None; graph.values.len()];
                for (&v, x) in graph.inputs.iter().zip(inputs) {
                    slots[v.0 as usize] = Some(x);
                }
                slots
            })
            .collect();
        for (id, op) in graph.ops.iter() {
            let mut operands = Vec::with_capacity(slots.len());
            for lane in &mut slots {
                let read = |v: &ValueId| {
                    lane[v.0 as usize].clone().ok_or_else(|| failure(graph, op, format!("{} was read before it was computed", graph.display_name(*v))))
                };
                let tensors = op.operands.iter().map(read).collect::<Result<Vec<_>, _>>()?;
                // A tensor that is read here for the last time is the op's own to overwrite.
                for v in &op.operands {
                    if last_use[v.0 as usize] == LastUse::Op(id.0) {
                        lane[v.0 as usize] = None;
                    }
                }
                operands.push(tensors);
            }
            let results = self.op(graph, op, operands, devices)?;
            for (lane, results) in slots.iter_mut().zip(results) {
                for (&v, x) in op.results.iter().zip(results) {
                    if x.ty != *graph.ty(v) {
                        return Err(failure(graph, op, format!("it gives {}, but {} is declared {}", x.ty, graph.display_name(v), graph.ty(v))));
                    }
                    if last_use[v.0 as usize] != LastUse::Never {
                        lane[v.0 as usize] = Some(x);
                    }
                }
            }
        }
        let outputs = |lane: Vec<Option<Tensor>>| {
            graph
                .outputs
                .iter()
                .map(|v| {
                    lane[v.0 as usize].clone().ok_or_else(|| Diagnostic::outcome("E0703", format!("output {} was never computed", graph.display_name(*v))))
                })
                .collect()
        };
        slots.into_iter().map(outputs).collect()
    }

    /// Evaluates one op on all lanes.
    fn op(&self, graph: &Graph, op: &Op, lanes: Vec<Vec<Tensor>>, devices: &[u32]) -> Result<Vec<Vec<Tensor>>, Diagnostic> {
        match &op.kind {
            kind if kind.is_collective() || matches!(kind, OpKind::ShardSlice { .. }) => self.collective(graph, op, &lanes, devices),
            OpKind::AxisIndex { axes } => devices.iter().map(|&d| Ok(vec![self.axis_index(graph, op, axes, d)?])).collect(),
            OpKind::Call { callee } => {
                let callee = self.module.function(callee).ok_or_else(|| failure(graph, op, format!("@{callee} is not a function of the module")))?;
                self.graph(callee, lanes, devices)
            }
            OpKind::While | OpKind::If | OpKind::Case => {
                if devices.len() == 1 || op.regions.iter().any(communicates) {
                    return self.control(graph, op, lanes, devices);
                }
                // Without communication each device takes its own way.
                let mut results = Vec::with_capacity(lanes.len());
                for (lane, &device) in lanes.into_iter().zip(devices) {
                    results.append(&mut self.control(graph, op, vec![lane], &[device])?);
                }
                Ok(results)
            }
            _ => lanes.into_iter().map(|operands| self.evaluate(graph, op, operands)).collect(),
        }
    }

    fn control(&self, graph: &Graph, op: &Op, mut lanes: Vec<Vec<Tensor>>, devices: &[u32]) -> Result<Vec<Vec<Tensor>>, Diagnostic> {
        let agreed = |values: Vec<Option<i64>>| match values.first() {
            Some(&Some(first)) if values.iter().all(|v| *v == Some(first)) => Ok(first),
            _ => Err(failure(graph, op, "devices disagree on which way to go, and the regions communicate".into())),
        };
        if op.kind == OpKind::While {
            let [condition, body] = op.regions.as_slice() else { return Err(failure(graph, op, "it has not two regions".into())) };
            loop {
                let decisions = self.graph(condition, lanes.clone(), devices)?;
                if agreed(decisions.iter().map(|d| d.first().and_then(Tensor::first_int)).collect())? == 0 {
                    return Ok(lanes);
                }
                lanes = self.graph(body, lanes, devices)?;
            }
        }
        let choice = agreed(lanes.iter().map(|l| l.first().and_then(Tensor::first_int)).collect())?;
        for lane in &mut lanes {
            lane.remove(0);
        }
        let last = op.regions.len().saturating_sub(1);
        let branch = match op.kind {
            OpKind::If => usize::from(choice == 0),
            _ => usize::try_from(choice).map_or(last, |c| c.min(last)),
        };
        let region = op.regions.get(branch).ok_or_else(|| failure(graph, op, "it has no regions".into()))?;
        self.graph(region, lanes, devices)
    }

    fn axis_index(&self, graph: &Graph, op: &Op, axes: &[AxisId], device: u32) -> Result<Tensor, Diagnostic> {
        let index = match (axes, self.mesh) {
            ([AxisId::MICROBATCH], _) => self.microbatch,
            (axes, Some(mesh)) => mesh.linear_coordinate(device, axes),
            (_, None) => return Err(failure(graph, op, "there is no mesh".into())),
        };
        Ok(Tensor::splat(graph.ty(op.results[0]).clone(), f64::from(index)))
    }

    fn collective(&self, graph: &Graph, op: &Op, lanes: &[Vec<Tensor>], devices: &[u32]) -> Result<Vec<Vec<Tensor>>, Diagnostic> {
        let mesh = self.mesh.ok_or_else(|| failure(graph, op, "there is no mesh".into()))?;
        let ty = graph.ty(op.results[0]);
        // A slice of this device's own tensor needs nobody else; everything else needs all lanes.
        let mut all: Vec<Tensor> = vec![lanes[0][0].clone(); mesh.devices() as usize];
        for (lane, &d) in lanes.iter().zip(devices) {
            all[d as usize] = lane[0].clone();
        }
        let one = |&d: &u32| {
            let result = collective::collective(&op.kind, mesh, d, &all, ty, self.precision);
            Ok(vec![result.map_err(|reason| failure(graph, op, reason))?])
        };
        devices.iter().map(one).collect()
    }
}

/// Whether a region, or one inside it, has a collective.
fn communicates(region: &Graph) -> bool {
    region.ops.values().any(|op| op.kind.is_collective() || op.regions.iter().any(communicates))
}

#[derive(Clone, Copy, PartialEq)]
enum LastUse {
    Never,
    Op(u32),
    Output,
}

/// Where each value is read last.
fn last_uses(graph: &Graph) -> Vec<LastUse> {
    let mut last = vec![LastUse::Never; graph.values.len()];
    for (id, op) in graph.ops.iter() {
        for v in &op.operands {
            last[v.0 as usize] = LastUse::Op(id.0);
        }
    }
    for v in &graph.outputs {
        last[v.0 as usize] = LastUse::Output;
    }
    last
}

/// A diagnostic about an op that could not be evaluated.
fn failure(graph: &Graph, op: &Op, reason: String) -> Diagnostic {
    let name = op.results.first().map_or_else(String::new, |&v| format!(" ({})", graph.display_name(v)));
    let kind = format!("{:?}", op.kind);
    let short: String = kind.chars().take_while(|c| c.is_alphanumeric()).collect();
    let d = Diagnostic::outcome("E0703", format!("the interpreter cannot evaluate {short}{name}: {reason}"));
    match graph.locs.get(op.loc) {
        Some(l) if l.line > 0 => d.with_note(format!("at line {}, column {}", l.line, l.column)),
        _ => d,
    }
}
