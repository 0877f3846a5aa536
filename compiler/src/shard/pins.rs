//! Pins: shardings that the user demands of values, by their own names.
//!
//! A pin is `NAME=[{"x"},{}]`, over the dimensions as the user's file has them. An axis on a fused dimension may cut any one of its sub-dimensions;
//! `{"x":(3)8(32)}` names the sub-dimension: 3 before it, 32 after.

use super::problem::{Node, Space};
use crate::canonical::Canonical;
use crate::step::StepGraph;
use ir::diagnostic::{Diagnostic, Result, nearest};
use ir::{AxisId, Mesh, Module, Sharding, ValueId};
use std::collections::BTreeSet;

/// An axis on a dimension: its name, and the extent before the sub-dimension and of it, when given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AxisPin {
    name: String,
    sub: Option<(u64, u64)>,
}

/// One pin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pin {
    text: String,
    name: String,
    dims: Vec<Vec<AxisPin>>,
    /// Shape in the user's file.
    shape: Vec<u64>,
}

/// All pins of a request.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    pins: Vec<Pin>,
}

fn wrong(text: &str, why: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::input("E0405", format!("`--pin '{text}'`: {why}"))
        .with_help("write for example `--pin '%51=[{\"x\"},{}]'`, with one `{…}` per dimension of the value")
}

/// Parses `[{"x"},{},{"y":(3)8(32)}]`.
fn parse_dims(text: &str, whole: &str) -> Result<Vec<Vec<AxisPin>>> {
    let inner = text.trim().strip_prefix('[').and_then(|t| t.strip_suffix(']')).ok_or_else(|| wrong(whole, "the sharding must be in `[…]`"))?;
    let mut dims = Vec::new();
    let mut rest = inner.trim();
    while !rest.is_empty() {
        let body = rest.strip_prefix('{').ok_or_else(|| wrong(whole, format!("expected `{{` at `{rest}`")))?;
        let end = body.find('}').ok_or_else(|| wrong(whole, "a `{` is not closed"))?;
        let mut axes = Vec::new();
        for part in body[..end].split(',').map(str::trim).filter(|p| !p.is_empty() && *p != "?") {
            let (name, sub) = match part.split_once(':') {
                Some((n, s)) => {
                    let numbers: Option<(u64, u64)> = s
                        .trim()
                        .strip_prefix('(')
                        .and_then(|s| s.split_once(')'))
                        .and_then(|(pre, size)| Some((pre.parse().ok()?, size.split('(').next()?.parse().ok()?)));
                    (n.trim(), Some(numbers.ok_or_else(|| wrong(whole, format!("`{s}` is no sub-dimension; write `(3)8`")))?))
                }
                None => (part, None),
            };
            let name = name.trim_matches('"').to_string();
            axes.push(AxisPin { name, sub });
        }
        dims.push(axes);
        rest = body[end + 1..].trim_start().trim_start_matches(',').trim_start();
    }
    Ok(dims)
}

impl Pins {
    /// Reads pins against the step they name.
    ///
    /// # Errors
    /// `E0405` for a text that is no pin, `E0406` for a name that is nothing, `E0407` for an axis used twice or a wrong number of dimensions.
    pub fn parse(texts: &[String], canonical: &Canonical, module: &Module) -> Result<Pins> {
        let mut pins = Vec::new();
        let mut errors = Vec::new();
        for text in texts {
            match Self::one(text, canonical, module) {
                Ok(p) => pins.push(p),
                Err(e) => errors.extend(e.0),
            }
        }
        if errors.is_empty() { Ok(Pins { pins }) } else { Err(ir::Diagnostics(errors)) }
    }

    fn one(text: &str, canonical: &Canonical, module: &Module) -> Result<Pin> {
        let (name, dims) = text.split_once("=[").map(|(n, d)| (n.trim(), format!("[{d}"))).ok_or_else(|| wrong(text, "expected NAME=[…]"))?;
        let dims = parse_dims(&dims, text)?;
        let graph = &canonical.graph;
        let Some(v) = graph.value_named(name) else {
            let names: Vec<&str> = graph.values.values().map(|v| &*v.name).filter(|n| !n.is_empty()).collect();
            let mut d = Diagnostic::input("E0406", format!("`--pin '{text}'`: there is no value called `{name}` in the step that is planned"));
            d = match nearest(name, names) {
                Some(n) => d.with_help(format!("did you mean `{n}`?")),
                None => d.with_help("values are named as in the model file, with their call path: `%51`, `@relu#2/%1`, `%arg3`"),
            };
            return Err(d.into());
        };
        // The user's shape, where the value is in `main`; a refined one otherwise.
        let shape = module.main().and_then(|m| m.value_named(name).map(|v| m.ty(v).shape.clone())).unwrap_or_else(|| graph.ty(v).shape.clone());
        let shape = if shape.iter().product::<u64>() == graph.ty(v).elements() { shape } else { graph.ty(v).shape.clone() };
        if dims.len() != shape.len() {
            return Err(Diagnostic::input("E0407", format!("`--pin '{text}'`: {} dimensions are given and the value has {}", dims.len(), shape.len()))
                .with_note(format!("its shape is {shape:?}"))
                .into());
        }
        let mut seen = BTreeSet::new();
        for axis in dims.iter().flatten() {
            if !seen.insert(&axis.name) {
                return Err(Diagnostic::input("E0407", format!("`--pin '{text}'`: axis \"{}\" is used twice", axis.name))
                    .with_help("an axis cuts one dimension")
                    .into());
            }
        }
        Ok(Pin { text: text.to_string(), name: name.to_string(), dims, shape })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pins.is_empty()
    }

    /// Binds the pins to a mesh and a step's graph.
    ///
    /// # Errors
    /// `E0408` when a pin names an axis that the mesh has not.
    pub fn bind(&self, step: &StepGraph, mesh: &Mesh) -> Result<BoundPins> {
        let (mut bound, mut texts) = (Vec::new(), Vec::new());
        for pin in &self.pins {
            for axis in pin.dims.iter().flatten() {
                if mesh.axis_named(&axis.name).is_none() {
                    return Err(Diagnostic::input("E0408", format!("`--pin '{}'`: the mesh of a stage has no axis \"{}\"", pin.text, axis.name))
                        .with_note(format!("it is {mesh}"))
                        .with_help("give the mesh with `--mesh`, for example `--mesh 2x2`")
                        .into());
                }
            }
            let Some(v) = step.graph.value_named(&pin.name) else { continue };
            let shape = &step.graph.ty(v).shape;
            bound.push((v, allowed(pin, shape, mesh)));
            texts.push(pin.text.clone());
        }
        Ok(BoundPins { pins: bound, texts })
    }
}

/// For every atomic dimension the axes that may cut it, and which user dimension it is part of.
fn allowed(pin: &Pin, shape: &[u64], mesh: &Mesh) -> Allowed {
    // Atomic dimensions of each user dimension, by products; a batch cut into microbatches is smaller than the user's.
    let mut owner = vec![0usize; shape.len()];
    let mut before = vec![1u64; shape.len()];
    let (mut d, mut product) = (0, 1u64);
    for (i, &n) in shape.iter().enumerate() {
        while d + 1 < pin.shape.len() && (pin.shape[d] == 1 || product == pin.shape[d]) {
            d += 1;
            product = 1;
        }
        owner[i] = d;
        before[i] = product;
        product *= n;
    }
    let axes = pin.dims.iter().map(|dim| dim.iter().filter_map(|a| Some((mesh.axis_named(&a.name)?, a.sub))).collect()).collect();
    Allowed { owner, before, axes, sizes: shape.to_vec() }
}

#[derive(Clone, Debug)]
struct Allowed {
    owner: Vec<usize>,
    before: Vec<u64>,
    axes: Vec<Vec<(AxisId, Option<(u64, u64)>)>>,
    sizes: Vec<u64>,
}

impl Allowed {
    fn fits(&self, s: &Sharding) -> bool {
        if !s.partial.is_empty() {
            return false;
        }
        let demanded: usize = self.axes.iter().map(Vec::len).sum();
        s.axes().len() == demanded
            && s.dims.iter().enumerate().all(|(i, axes)| {
                axes.iter().all(|a| {
                    self.axes[self.owner[i]].iter().any(|(b, sub)| a == b && sub.is_none_or(|(pre, size)| pre == self.before[i] && size == self.sizes[i]))
                })
            })
    }
}

/// Pins on a step's values.
#[derive(Clone, Debug, Default)]
pub struct BoundPins {
    pins: Vec<(ValueId, Allowed)>,
    texts: Vec<String>,
}

impl BoundPins {
    /// Whether a node may choose a candidate: its results' shardings fit the pins on them.
    pub fn allows(&self, space: &Space<'_>, node: Node, candidate: usize) -> bool {
        self.pins.iter().all(|(v, allowed)| match node {
            Node::Input(i) => space.cx.step.graph.inputs[i as usize] != *v || allowed.fits(&space.inputs[i as usize][candidate]),
            Node::Group(g) => {
                let group = &space.cx.groups.groups[g as usize];
                group.output.is_some() || group.writes.iter().zip(&space.groups[g as usize][candidate].writes).all(|(w, s)| w.value != *v || allowed.fits(s))
            }
        })
    }
    /// The pin of one of a group's results.
    pub fn pin_of(&self, values: &[ValueId]) -> Option<&str> {
        self.pins.iter().zip(&self.texts).find(|((v, _), _)| values.contains(v)).map(|(_, text)| text.as_str())
    }
}
