//! `+`, `−`, `×`, `÷` and negation, between tensors (by value or reference) and with numbers.

use super::Tensor;
use crate::op::{BinaryOp, UnaryOp};
use std::ops::{Add, Div, Mul, Neg, Sub};

macro_rules! operator {
    ($trait:ident, $method:ident, $op:ident) => {
        operator!(@tensors $trait, $method, $op, Tensor, Tensor);
        operator!(@tensors $trait, $method, $op, Tensor, &Tensor);
        operator!(@tensors $trait, $method, $op, &Tensor, Tensor);
        operator!(@tensors $trait, $method, $op, &Tensor, &Tensor);
        operator!(@number $trait, $method, $op, Tensor);
        operator!(@number $trait, $method, $op, &Tensor);
    };
    (@tensors $trait:ident, $method:ident, $op:ident, $left:ty, $right:ty) => {
        impl $trait<$right> for $left {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: $right) -> Tensor {
                self.binary(BinaryOp::$op, &other)
            }
        }
    };
    (@number $trait:ident, $method:ident, $op:ident, $tensor:ty) => {
        impl $trait<f64> for $tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, number: f64) -> Tensor {
                self.binary(BinaryOp::$op, &self.full_like(number))
            }
        }
        impl $trait<$tensor> for f64 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, tensor: $tensor) -> Tensor {
                tensor.full_like(self).binary(BinaryOp::$op, &tensor)
            }
        }
    };
}

operator!(Add, add, Add);
operator!(Sub, sub, Subtract);
operator!(Mul, mul, Multiply);
operator!(Div, div, Divide);

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        self.unary(UnaryOp::Negate)
    }
}

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        self.unary(UnaryOp::Negate)
    }
}
