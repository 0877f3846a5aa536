//! The handle of a traced value, and its elementwise operations.
//!
//! Operands of binary operations are broadcast as in numpy (aligned at the last dimension, size 1 repeats); element types must be equal, nothing is
//! promoted. Dimensions are counted from the front, or with negative numbers from the back.

use super::Tracer;
use super::tracer::span;
use crate::diagnostic::Diagnostic;
use crate::dtype::{DType, TensorType};
use crate::literal::Literal;
use crate::op::{BinaryOp, Direction, OpKind, UnaryOp, ValueId};
use std::fmt;
use std::panic::Location;

/// A value of the graph under construction.
#[derive(Clone)]
pub struct Tensor {
    tracer: Tracer,
    value: ValueId,
    ty: TensorType,
    stopped: bool,
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.ty)
    }
}

macro_rules! unary {
    ($($(#[doc = $doc:literal])* $name:ident => $op:ident;)*) => {
        impl Tensor {
            $(
                $(#[doc = $doc])*
                #[must_use]
                #[track_caller]
                pub fn $name(&self) -> Tensor {
                    self.unary(UnaryOp::$op)
                }
            )*
        }
    };
}

unary! {
    /// `|x|`.
    abs => Abs;
    /// The cube root.
    cbrt => Cbrt;
    /// The least integer that is not less.
    ceil => Ceil;
    /// The cosine.
    cos => Cosine;
    /// The error function.
    erf => Erf;
    /// The inverse of the error function.
    erf_inv => ErfInv;
    /// One minus the error function.
    erfc => Erfc;
    /// `eˣ`.
    exp => Exponential;
    /// `eˣ − 1`.
    expm1 => ExponentialMinusOne;
    /// The greatest integer that is not greater.
    floor => Floor;
    /// Whether it is neither infinite nor NaN.
    is_finite => IsFinite;
    /// The natural logarithm.
    log => Log;
    /// `ln(1 + x)`.
    log1p => LogPlusOne;
    /// `1 / (1 + e⁻ˣ)`.
    logistic => Logistic;
    /// The logarithm of the gamma function.
    lgamma => Lgamma;
    /// The derivative of the gamma function's logarithm.
    digamma => Digamma;
    /// Logical or bitwise not.
    logical_not => Not;
    /// Rounding to the nearest integer, halves to the even one.
    round => RoundNearestEven;
    /// `1 / √x`.
    rsqrt => Rsqrt;
    /// −1, 0 or 1.
    sign => Sign;
    /// The sine.
    sin => Sine;
    /// `√x`.
    sqrt => Sqrt;
    /// `x²`.
    square => Square;
    /// The tangent.
    tan => Tan;
    /// The hyperbolic tangent.
    tanh => Tanh;
    /// The hyperbolic sine.
    sinh => Sinh;
    /// The hyperbolic cosine.
    cosh => Cosh;
    /// The inverse sine.
    asin => Asin;
    /// The inverse cosine.
    acos => Acos;
    /// The inverse tangent.
    atan => Atan;
    /// The inverse hyperbolic sine.
    asinh => Asinh;
    /// The inverse hyperbolic cosine.
    acosh => Acosh;
    /// The inverse hyperbolic tangent.
    atanh => Atanh;
    /// The real part.
    real => Real;
    /// The imaginary part.
    imag => Imag;
}

macro_rules! binary {
    ($($(#[doc = $doc:literal])* $name:ident => $op:ident;)*) => {
        impl Tensor {
            $(
                $(#[doc = $doc])*
                #[must_use]
                #[track_caller]
                pub fn $name(&self, other: &Tensor) -> Tensor {
                    self.binary(BinaryOp::$op, other)
                }
            )*
        }
    };
}

binary! {
    /// The greater of two.
    maximum => Maximum;
    /// The lesser of two.
    minimum => Minimum;
    /// `self` to the power of `other`.
    power => Power;
    /// The remainder of a division, with the sign of `self`.
    remainder => Remainder;
    /// The angle of the point `(other, self)`.
    atan2 => Atan2;
    /// Logical or bitwise and.
    and => And;
    /// Logical or bitwise or.
    or => Or;
    /// Logical or bitwise exclusive or.
    xor => Xor;
    /// Bits moved up.
    shift_left => ShiftLeft;
    /// Bits moved down, zeros moved in.
    shift_right => ShiftRightLogical;
    /// A complex number of two parts.
    complex => Complex;
}

macro_rules! comparison {
    ($($(#[doc = $doc:literal])* $name:ident => $direction:ident;)*) => {
        impl Tensor {
            $(
                $(#[doc = $doc])*
                #[must_use]
                #[track_caller]
                pub fn $name(&self, other: &Tensor) -> Tensor {
                    self.compare(Direction::$direction, other)
                }
            )*
        }
    };
}

comparison! {
    /// Whether equal.
    equal => Eq;
    /// Whether not equal.
    not_equal => Ne;
    /// Whether greater.
    greater => Gt;
    /// Whether greater or equal.
    greater_equal => Ge;
    /// Whether less.
    less => Lt;
    /// Whether less or equal.
    less_equal => Le;
}

impl Tensor {
    pub(super) fn new(tracer: Tracer, value: ValueId, ty: TensorType) -> Tensor {
        Tensor { tracer, value, ty, stopped: false }
    }
    /// The tracer it is of.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }
    /// Its value in the graph.
    pub fn value(&self) -> ValueId {
        self.value
    }
    /// Its type.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }
    /// Its sizes.
    pub fn shape(&self) -> &[u64] {
        &self.ty.shape
    }
    /// Its element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }
    /// Its number of dimensions.
    pub fn rank(&self) -> usize {
        self.ty.rank()
    }
    /// The size of a dimension; negative numbers count from the back. 1, and an error of the trace, where there is no such dimension.
    #[track_caller]
    pub fn dim(&self, dim: i64) -> u64 {
        self.ty.shape.get(self.axis(dim)).copied().unwrap_or(1)
    }
    /// Its full name; empty for a constant.
    pub fn name(&self) -> String {
        self.tracer.name_of(self.value).to_string()
    }
    /// The same value, named `name` in the current scope (or further so, if it had a name).
    #[must_use]
    pub fn named(&self, name: impl AsRef<str>) -> Tensor {
        self.tracer.name_value(self.value, name.as_ref(), true);
        self.clone()
    }
    pub(super) fn named_in_full(&self, name: &str) -> Tensor {
        self.tracer.name_value(self.value, name, false);
        self.clone()
    }
    /// Says what this tensor of state is in the next step; see [`Tracer::carry`].
    pub fn becomes(&self, next: &Tensor) {
        self.tracer.set_carried(self, next);
    }
    /// The same value, through which nothing is differentiated.
    #[must_use]
    pub fn stop_gradient(&self) -> Tensor {
        Tensor { stopped: true, ..self.clone() }
    }
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// A dimension's number; an error of the trace when there is none such.
    #[track_caller]
    pub(super) fn axis(&self, dim: i64) -> usize {
        let rank = self.rank() as i64;
        let counted = if dim < 0 { dim + rank } else { dim };
        if counted < 0 || counted >= rank {
            let message = format!("there is no dimension {dim} in {}", self.ty);
            self.tracer.fail(Diagnostic::input("E1001", message).at(span(Location::caller())));
            return 0;
        }
        counted as usize
    }
    /// Numbers of dimensions, ascending and each once.
    #[track_caller]
    pub(super) fn axes(&self, dims: &[i64]) -> Vec<usize> {
        let mut axes: Vec<usize> = dims.iter().map(|&d| self.axis(d)).collect();
        axes.sort_unstable();
        axes.dedup();
        axes
    }
    /// A tensor of its type that repeats one number.
    #[must_use]
    #[track_caller]
    pub fn full_like(&self, value: f64) -> Tensor {
        self.tracer.constant(Literal::splat(self.ty.clone(), value))
    }
    #[track_caller]
    pub(super) fn zeros_like(&self) -> Tensor {
        self.full_like(0.0)
    }

    /// Any function of one operand.
    #[must_use]
    #[track_caller]
    pub fn unary(&self, op: UnaryOp) -> Tensor {
        self.tracer.emit_one(OpKind::Unary(op), &[self], None)
    }
    /// Any function of two operands, which are broadcast to one shape.
    #[must_use]
    #[track_caller]
    pub fn binary(&self, op: BinaryOp, other: &Tensor) -> Tensor {
        let (a, b) = self.broadcast_together(other);
        self.tracer.emit_one(OpKind::Binary(op), &[&a, &b], None)
    }
    /// Any comparison; operands are broadcast to one shape.
    #[must_use]
    #[track_caller]
    pub fn compare(&self, direction: Direction, other: &Tensor) -> Tensor {
        let (a, b) = self.broadcast_together(other);
        self.tracer.emit_one(OpKind::Compare { direction, total: false }, &[&a, &b], None)
    }
    /// Where this predicate holds `on_true`, elsewhere `on_false`; all are broadcast to one shape.
    #[must_use]
    #[track_caller]
    pub fn select(&self, on_true: &Tensor, on_false: &Tensor) -> Tensor {
        let (on_true, on_false) = on_true.broadcast_together(on_false);
        let predicate = if self.rank() == 0 { self.clone() } else { self.broadcast_to(on_true.shape()) };
        self.tracer.emit_one(OpKind::Select, &[&predicate, &on_true, &on_false], None)
    }
    /// Limited to `low..=high`.
    #[must_use]
    #[track_caller]
    pub fn clamp(&self, low: f64, high: f64) -> Tensor {
        let bound = |x| self.tracer.scalar(self.dtype(), x);
        self.tracer.emit_one(OpKind::Clamp, &[&bound(low), self, &bound(high)], None)
    }
    /// Limited to what `low` and `high` say, scalars or of the tensor's shape.
    #[must_use]
    #[track_caller]
    pub fn clamp_between(&self, low: &Tensor, high: &Tensor) -> Tensor {
        self.tracer.emit_one(OpKind::Clamp, &[low, self, high], None)
    }
    /// As another element type; itself if it is of that type.
    #[must_use]
    #[track_caller]
    pub fn convert(&self, dtype: DType) -> Tensor {
        if dtype == self.dtype() {
            return self.clone();
        }
        self.tracer.emit_one(OpKind::Convert, &[self], Some(self.ty.with_dtype(dtype)))
    }
    /// Its bits read as another type of the same width.
    #[must_use]
    #[track_caller]
    pub fn bitcast(&self, dtype: DType) -> Tensor {
        self.tracer.emit_one(OpKind::BitcastConvert, &[self], Some(self.ty.with_dtype(dtype)))
    }
    /// Rounded to fewer exponent and mantissa bits.
    #[must_use]
    #[track_caller]
    pub fn reduce_precision(&self, exponent: u32, mantissa: u32) -> Tensor {
        self.tracer.emit_one(OpKind::ReducePrecision { exponent, mantissa }, &[self], None)
    }
    /// The same tensors, not moved across by passes.
    #[must_use]
    #[track_caller]
    pub fn barrier(tensors: &[&Tensor]) -> Vec<Tensor> {
        match tensors.first() {
            Some(first) => first.tracer.emit(OpKind::Barrier, tensors, None, Vec::new()),
            None => Vec::new(),
        }
    }
}
