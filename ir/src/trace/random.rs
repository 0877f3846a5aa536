//! Random bits from counters, and dropout.
//!
//! The generator is Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), written out in elementwise
//! operations on indices: every element depends on its own index only, so the bits are the same however a tensor is sharded, and are computed where they
//! are used. The key is the place of the model that asks and the step's number, so every step draws anew and a step can be repeated.

use super::{Initial, Role, Tensor, Tracer};
use crate::dtype::{DType, TensorType};

/// By how much words are rotated in each group of four rounds.
const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
const PARITY: f64 = 0x1BD1_1BDA as f64;

impl Tracer {
    /// The number of steps done so far, an `i32` scalar of the optimizer's state; it begins at 0.
    #[track_caller]
    pub fn step_count(&self) -> Tensor {
        let present = self.arguments_of(Role::State).into_iter().find(|t| t.name() == "step");
        present.unwrap_or_else(|| self.in_scope(String::new(), || self.argument("step", TensorType::scalar(DType::I32), Role::State, Initial::Zeros)))
    }
    /// Two words of random bits for each pair of counters, all `ui32` of one shape, under a key of two scalars.
    #[track_caller]
    pub fn threefry(&self, key: [&Tensor; 2], counters: [&Tensor; 2]) -> [Tensor; 2] {
        let words = [key[0].clone(), key[1].clone(), key[0].xor(key[1]).xor(&key[0].full_like(PARITY))];
        let mut x = [counters[0] + &words[0], counters[1] + &words[1]];
        for group in 0..5 {
            for by in ROTATIONS[group % 2] {
                let sum = &x[0] + &x[1];
                let amount = |n: u32| sum.full_like(f64::from(n));
                let rotated = x[1].shift_left(&amount(by)).or(&x[1].shift_right(&amount(32 - by)));
                x = [sum.clone(), rotated.xor(&sum)];
            }
            x = [&x[0] + &words[(group + 1) % 3], &x[1] + (&words[(group + 2) % 3] + (group as f64 + 1.0))];
        }
        x
    }
}

impl Tensor {
    /// Each element set to zero with probability `rate`, the others divided by `1 − rate`. `place` tells this dropout from the model's others.
    #[must_use]
    #[track_caller]
    pub fn dropout(&self, rate: f64, place: u32) -> Tensor {
        if rate <= 0.0 || self.rank() == 0 {
            return self.clone();
        }
        let tracer = self.tracer();
        let key = [tracer.scalar(DType::UI32, f64::from(place)), tracer.step_count().convert(DType::UI32)];
        let last = self.rank() - 1;
        let mut row = tracer.full(DType::UI32, self.shape(), 0.0);
        for d in 0..last {
            row = row * self.shape()[d] as f64 + tracer.iota(DType::UI32, self.shape(), d);
        }
        let column = tracer.iota(DType::UI32, self.shape(), last);
        let [bits, _] = tracer.threefry([&key[0], &key[1]], [&row, &column]);
        let threshold = (rate.min(1.0) * 4_294_967_296.0).min(4_294_967_295.0).floor();
        let kept = bits.greater_equal(&bits.full_like(threshold));
        kept.select(&(self * (1.0 / (1.0 - rate))), &self.zeros_like())
    }
}
