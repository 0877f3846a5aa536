//! Judges what a plan computed against the interpreter, tensor by tensor.
//!
//! For each output there are three values: the plan's, the interpreter's as typed (`f32` where the model says so), and the interpreter's in `f64`.
//! A correct plan sums in other orders, so its distance from the `f64` value is of the size of the typed interpreter's own. With `d = ‖typed − f64‖`:
//!
//! > `‖plan − f64‖ ≤ 8·d + floor`, where `floor = 2·ε·‖f64‖ + 1e-3·‖f64 − before‖`
//!
//! for a state tensor (`before` is its value at the start, `ε` half a unit in the last place). So any error in a moment or an update of more than a
//! thousandth of it counts, whatever the size of the parameter. Of outputs that are no state the floor is `16·ε·‖f64‖`. What needs more:
//! - A gradient that is truly zero (a key bias) is rounding noise in every correct plan: where `d` is above a tenth of the change, nothing is left of the
//!   value in `f32`, and 64·d is allowed, since noise may be eight times as large and a second moment is its square.
//! - A tensor that is exactly zero in both references may hold what rounds to zero beside the others: `ε` times their median element.
//! - The `d` of a tensor of fewer than 64 elements is luck (a loss may agree to the last bit): 8 times the median relative error of the others is added.
//!
//! Integers must be equal, but for 8 times as many places as differ between the references. NaN equals NaN, and infinity the same infinity, place by place;
//! overflow of the typed interpreter excuses the plan's at that place. Anything else that is not finite is infinitely far.

use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::graph::{Graph, Module};
use crate::interp::{Precision, Stepper, Tensor};

/// How much further than the typed interpreter a plan may be.
const FACTOR: f64 = 8.0;
/// The same where the typed interpreter's value is nothing but rounding.
const NOISE_FACTOR: f64 = 64.0;
/// Of its change, what a state tensor may be off.
const CHANGE: f64 = 1e-3;
/// Elements below which a tensor's own distance says little.
const SMALL: usize = 64;

/// One output tensor in its three values.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// What the user calls it, `result[4]`.
    pub name: &'a str,
    /// What the plan computed.
    pub plan: &'a Tensor,
    /// What the interpreter computed as typed.
    pub typed: &'a Tensor,
    /// What the interpreter computed in `f64`.
    pub exact: &'a Tensor,
    /// For state: its value before the first of the judged steps.
    pub before: Option<&'a Tensor>,
}

/// What was found of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Its name.
    pub name: String,
    /// Distance of the plan's value from the `f64` one, in norm (for integers, the number of places).
    pub distance: f64,
    /// The largest distance that passes.
    pub allowance: f64,
    /// Distance of the typed interpreter's value.
    pub typed_distance: f64,
    /// Norm of the `f64` value.
    pub norm: f64,
    /// Norm of its change over the judged steps, for state.
    pub change: Option<f64>,
    /// Whether all of the `f64` value is finite; a tensor of NaN agrees with any plan's and shows nothing.
    pub finite: bool,
}

impl Verdict {
    /// Whether it passes.
    pub fn within(&self) -> bool {
        self.distance <= self.allowance
    }
    /// Distance in units of the allowance: above 1 is outside.
    pub fn ratio(&self) -> f64 {
        if self.distance == 0.0 {
            0.0
        } else if self.distance.is_infinite() {
            f64::INFINITY
        } else {
            self.distance / self.allowance
        }
    }
    /// Distance relative to the norm.
    pub fn relative(&self) -> f64 {
        if self.distance == 0.0 { 0.0 } else { self.distance / self.norm }
    }
}

/// What was found of all tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgement {
    /// One verdict per tensor, in order.
    pub verdicts: Vec<Verdict>,
}

impl Judgement {
    /// Whether every tensor passes.
    pub fn within(&self) -> bool {
        self.verdicts.iter().all(Verdict::within)
    }
    /// Tensors that are not finite in the step itself, whatever the plan: on these arguments they show little or nothing.
    pub fn not_finite(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(|v| !v.finite)
    }
    /// The tensor that is nearest to its allowance, or furthest outside.
    pub fn worst(&self) -> Option<&Verdict> {
        self.verdicts.iter().reduce(|worst, v| if v.ratio() > worst.ratio() { v } else { worst })
    }
}

/// Half a unit in the last place of 1, per type.
fn epsilon(t: DType) -> f64 {
    let mantissa = match t {
        DType::F64 | DType::C128 => 53,
        DType::F32 | DType::C64 => 24,
        DType::F16 => 11,
        DType::BF16 => 8,
        DType::F8E3M4 => 5,
        DType::F8E5M2 | DType::F8E5M2FNUZ => 3,
        DType::F8E8M0FNU => 1,
        DType::F8E4M3FN | DType::F8E4M3FNUZ | DType::F8E4M3B11FNUZ | DType::F8E4M3 => 4,
        DType::I1
        | DType::I2
        | DType::I4
        | DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::UI2
        | DType::UI4
        | DType::UI8
        | DType::UI16
        | DType::UI32
        | DType::UI64 => return 0.0,
    };
    2f64.powi(-mantissa)
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|x| x.is_finite()).map(|x| x * x).sum::<f64>().sqrt()
}

/// Whether two values that are not both finite are the same.
fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

/// The numbers that decide about one tensor.
struct Measured {
    distance: f64,
    typed: f64,
    norm: f64,
    change: Option<f64>,
    elements: usize,
    epsilon: f64,
    finite: bool,
}

impl Measured {
    fn of(case: &Case) -> Measured {
        let t = case.exact.ty.dtype;
        if case.plan.ty != case.exact.ty || case.typed.ty != case.exact.ty {
            return Measured { distance: f64::INFINITY, typed: 0.0, norm: 0.0, change: None, elements: 0, epsilon: 0.0, finite: true };
        }
        if t.is_integer() {
            let (plan, typed, exact) = (case.plan.to_i64s(), case.typed.to_i64s(), case.exact.to_i64s());
            let differ = |a: &[i64]| a.iter().zip(&exact).filter(|(a, b)| a != b).count() as f64;
            let norm = norm(exact.iter().map(|&x| x as f64));
            return Measured { distance: differ(&plan), typed: differ(&typed), norm, change: None, elements: exact.len(), epsilon: 0.0, finite: true };
        }
        let (plan, typed, exact) = (case.plan.components(), case.typed.components(), case.exact.components());
        let mut strange = false;
        let mut distance = 0.0;
        for ((&p, &t), &x) in plan.iter().zip(&typed).zip(&exact) {
            if p.is_finite() && x.is_finite() {
                distance += (p - x) * (p - x);
            } else {
                strange |= !(same(p, x) || (!p.is_finite() && same(p, t)));
            }
        }
        let change = case.before.map(|b| norm(exact.iter().zip(b.components()).map(|(x, b)| x - b)));
        Measured {
            distance: if strange { f64::INFINITY } else { distance.sqrt() },
            typed: norm(typed.iter().zip(&exact).map(|(t, x)| t - x)),
            norm: norm(exact.iter().copied()),
            change,
            elements: exact.len(),
            epsilon: epsilon(t),
            finite: exact.iter().all(|x| x.is_finite()),
        }
    }
    /// What errors come from: the change of state, else the value.
    fn scale(&self) -> f64 {
        self.change.unwrap_or(self.norm)
    }
    /// Whether the typed interpreter's value is nothing but rounding (and not only that of storing it).
    fn is_noise(&self) -> bool {
        self.epsilon > 0.0 && self.typed > 0.1 * self.scale() && self.typed > 4.0 * self.epsilon * self.norm
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Judges all outputs of one step together.
pub fn judge(cases: &[Case]) -> Judgement {
    let measured: Vec<Measured> = cases.iter().map(Measured::of).collect();
    // What is typical of this model, for tensors whose own numbers say little.
    let telling = |m: &&Measured| m.epsilon > 0.0 && m.scale() > 0.0 && !m.is_noise();
    let relative: Vec<f64> = measured.iter().filter(telling).filter(|m| m.elements >= SMALL).map(|m| m.typed / m.scale()).collect();
    let relative = if relative.is_empty() { measured.iter().filter(telling).map(|m| m.typed / m.scale()).fold(0.0, f64::max) } else { median(relative) };
    let element = median(measured.iter().filter(telling).map(|m| m.norm / (m.elements as f64).sqrt()).collect());
    let decide = |(case, m): (&Case, &Measured)| {
        let factor = if m.is_noise() { NOISE_FACTOR } else { FACTOR };
        let mut floor = match m.change {
            Some(change) => 2.0 * m.epsilon * m.norm + CHANGE * change,
            None => 16.0 * m.epsilon * m.norm,
        };
        if m.elements < SMALL {
            floor += FACTOR * relative * m.scale() * f64::from(m.epsilon > 0.0);
        }
        if m.norm == 0.0 {
            floor += m.epsilon * element * (m.elements as f64).sqrt();
        }
        Verdict {
            name: case.name.to_string(),
            distance: m.distance,
            allowance: factor * m.typed + floor,
            typed_distance: m.typed,
            norm: m.norm,
            change: m.change,
            finite: m.finite,
        }
    };
    Judgement { verdicts: cases.iter().zip(&measured).map(decide).collect() }
}

/// The interpreter's two references, stepped together, to judge a plan's results after any number of steps.
pub struct Reference<'a> {
    graph: &'a Graph,
    typed: Stepper<'a>,
    exact: Stepper<'a>,
    before: Vec<Option<Tensor>>,
    outputs: Option<(Vec<Tensor>, Vec<Tensor>)>,
}

impl<'a> Reference<'a> {
    /// References that begin with `inputs`; for every `(output, input)` of `state` that output becomes that input of the next step.
    pub fn new(module: &'a Module, graph: &'a Graph, state: &[(usize, usize)], inputs: Vec<Tensor>) -> Result<Self, Diagnostic> {
        let mut before = vec![None; graph.outputs.len()];
        for &(output, input) in state {
            if let (Some(slot), Some(x)) = (before.get_mut(output), inputs.get(input)) {
                *slot = Some(x.clone());
            }
        }
        let typed = Stepper::new(module, graph, state.iter().copied(), inputs.clone(), Precision::AsTyped)?;
        let exact = Stepper::new(module, graph, state.iter().copied(), inputs, Precision::F64)?;
        Ok(Reference { graph, typed, exact, before, outputs: None })
    }
    /// Replaces an input of the next step, such as the batch.
    pub fn set_input(&mut self, index: usize, value: &Tensor) -> Result<(), Diagnostic> {
        self.typed.set_input(index, value.clone())?;
        self.exact.set_input(index, value.clone())
    }
    /// One step of both references. Returns what the typed one computed.
    pub fn step(&mut self) -> Result<&[Tensor], Diagnostic> {
        let outputs = self.outputs.insert((self.typed.step()?, self.exact.step()?));
        Ok(&outputs.0)
    }
    /// Judges a plan's outputs, in the function's order, after as many steps as were taken here.
    pub fn judge(&self, plan: &[Tensor]) -> Result<Judgement, Diagnostic> {
        let Some((typed, exact)) = &self.outputs else { return Err(Diagnostic::outcome("E0705", "nothing was computed to judge against")) };
        if plan.len() != exact.len() {
            return Err(Diagnostic::outcome("E0705", format!("the plan gives {} results where the step has {}", plan.len(), exact.len())));
        }
        let names: Vec<String> = (0..plan.len()).map(|i| self.output_name(i)).collect();
        let cases: Vec<Case> =
            (0..plan.len()).map(|i| Case { name: &names[i], plan: &plan[i], typed: &typed[i], exact: &exact[i], before: self.before[i].as_ref() }).collect();
        Ok(judge(&cases))
    }
    fn output_name(&self, i: usize) -> String {
        match self.graph.output_attributes.get(i) {
            Some(a) if !a.name.is_empty() => a.name.clone(),
            _ => format!("result[{i}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::TensorType;

    fn t(values: &[f64]) -> Tensor {
        Tensor::from_f64s(TensorType::new(DType::F64, [values.len() as u64]), values).unwrap()
    }
    /// Tensors of `f32` type that hold the values exactly where they can.
    fn typed(values: &[f64]) -> Tensor {
        Tensor::from_f64s(TensorType::new(DType::F32, [values.len() as u64]), values).unwrap()
    }

    fn one(plan: &[f64], reference: &[f64], exact: &[f64], before: Option<&[f64]>) -> Verdict {
        let (p, r, x) = (typed(plan), typed(reference), typed(exact));
        let before = before.map(typed);
        judge(&[Case { name: "x", plan: &p, typed: &r, exact: &x, before: before.as_ref() }]).verdicts.remove(0)
    }

    #[test]
    fn a_gradient_counted_twice_is_outside() {
        let exact: Vec<f64> = (1..=100).map(f64::from).collect();
        let reference: Vec<f64> = exact.iter().map(|x| x * (1.0 + 1e-6)).collect();
        let good: Vec<f64> = exact.iter().map(|x| x * (1.0 - 4e-6)).collect();
        let zeros = vec![0.0; 100];
        assert!(one(&good, &reference, &exact, Some(&zeros)).within());
        let doubled: Vec<f64> = exact.iter().map(|x| 2.0 * x).collect();
        let v = one(&doubled, &reference, &exact, Some(&zeros));
        assert!(!v.within() && v.ratio() > 100.0);
        let slightly: Vec<f64> = exact.iter().map(|x| 1.002 * x).collect();
        assert!(!one(&slightly, &reference, &exact, Some(&zeros)).within());
    }

    #[test]
    fn an_update_is_judged_by_its_own_size() {
        // The parameter is large beside its update; a wrong update is still found.
        let before: Vec<f64> = (0..100).map(|i| 1.0 + f64::from(i)).collect();
        let exact: Vec<f64> = before.iter().map(|x| x - 1e-3).collect();
        let wrong: Vec<f64> = before.iter().map(|x| x - 2e-3).collect();
        assert!(one(&exact, &exact, &exact, Some(&before)).within());
        assert!(!one(&wrong, &exact, &exact, Some(&before)).within());
    }

    #[test]
    fn noise_is_not_judged_by_digits() {
        let exact = vec![1e-17; 100];
        let reference: Vec<f64> = (0..100).map(|i| 1e-9 * f64::from(i % 7 - 3)).collect();
        let plan: Vec<f64> = (0..100).map(|i| 7e-9 * f64::from(i % 5 - 2)).collect();
        let zeros = vec![0.0; 100];
        assert!(one(&plan, &reference, &exact, Some(&zeros)).within());
        let gradient: Vec<f64> = plan.iter().map(|x| x * 1e4).collect();
        assert!(!one(&gradient, &reference, &exact, Some(&zeros)).within());
    }

    #[test]
    fn zeros_tolerate_what_rounds_to_zero_beside_the_others() {
        let (zeros, ones) = (typed(&[0.0; 100]), typed(&[1.0; 100]));
        let case = |plan: &Tensor| {
            let zero = Case { name: "zero", plan, typed: &zeros, exact: &zeros, before: Some(&zeros) };
            let one = Case { name: "one", plan: &ones, typed: &ones, exact: &ones, before: None };
            judge(&[zero, one]).within()
        };
        assert!(case(&typed(&[5e-8; 100])));
        assert!(!case(&typed(&[1e-6; 100])));
    }

    #[test]
    fn a_lucky_scalar_is_judged_by_what_is_typical() {
        let exact: Vec<f64> = (1..=100).map(f64::from).collect();
        let (x, r) = (typed(&exact), typed(&exact.iter().map(|v| v * (1.0 + 1e-5)).collect::<Vec<_>>()));
        let (loss, plan) = (typed(&[7.5]), typed(&[7.5 * (1.0 + 5e-5)]));
        let scalar = Case { name: "loss", plan: &plan, typed: &loss, exact: &loss, before: None };
        let large = Case { name: "m", plan: &x, typed: &r, exact: &x, before: None };
        assert!(judge(&[scalar, large]).within());
        assert!(!judge(&[scalar]).within());
    }

    #[test]
    fn what_is_not_finite_is_compared_place_by_place() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        assert!(one(&[nan, 1.0, inf], &[nan, 1.0, inf], &[nan, 1.0, inf], None).within());
        assert!(!one(&[1.0, nan], &[nan, 1.0], &[nan, 1.0], None).within());
        assert!(!one(&[inf], &[-inf], &[-inf], None).within());
        assert!(!one(&[nan, 1.0], &[1.0, 1.0], &[1.0, 1.0], None).within());
        // Overflow in f32 excuses the plan's at that place.
        assert!(one(&[inf, 1.0], &[inf, 1.0], &[3e38, 1.0], None).within());
        assert_eq!(one(&[nan], &[1.0], &[1.0], None).ratio(), inf);
        assert!(!one(&[nan], &[nan], &[nan], None).finite && one(&[nan], &[1.0], &[1.0], None).finite);
    }

    #[test]
    fn integers_must_be_equal() {
        let ints = |v: &[i64]| Tensor::from_i64s(TensorType::new(DType::UI32, [2]), v).unwrap();
        let (a, b) = (ints(&[1, 0xffff_ffff]), ints(&[1, 0xffff_fffe]));
        let case = |plan| judge(&[Case { name: "key", plan, typed: &a, exact: &a, before: Some(&b) }]);
        assert!(case(&a).within());
        assert_eq!(case(&b).worst().map(|v| v.distance), Some(1.0));
        assert!(!case(&b).within());
    }

    #[test]
    fn another_type_is_outside() {
        let (a, b) = (t(&[1.0]), typed(&[1.0]));
        assert!(!judge(&[Case { name: "x", plan: &a, typed: &b, exact: &b, before: None }]).within());
    }
}
