//! The largest elements of rows, in StableHLO's total order: NaN above infinity, zero above minus zero, earlier before later among equals.

use crate::element::Element;
use crate::with_element;
use half::{bf16, f16};
use ir::{DType, TensorType};
use std::cmp::Ordering;

/// A prepared `top_k`.
pub(in crate::device::cpu) struct TopK {
    dtype: DType,
    row: usize,
    rows: usize,
    k: usize,
}

/// Order of elements among which NaNs count as numbers.
trait TotalOrder: Copy {
    fn order(self, other: Self) -> Ordering;
}

macro_rules! total_order {
    ($($t:ty => $f:expr),* $(,)?) => {$(
        impl TotalOrder for $t {
            #[inline(always)]
            fn order(self, other: Self) -> Ordering {
                let f: fn(Self, Self) -> Ordering = $f;
                f(self, other)
            }
        }
    )*};
}

total_order! {
    f32 => |a, b| a.total_cmp(&b),
    f64 => |a, b| a.total_cmp(&b),
    bf16 => |a, b| a.to_f32().total_cmp(&b.to_f32()),
    f16 => |a, b| a.to_f32().total_cmp(&b.to_f32()),
    i8 => |a, b| a.cmp(&b),
    i16 => |a, b| a.cmp(&b),
    i32 => |a, b| a.cmp(&b),
    i64 => |a, b| a.cmp(&b),
    u8 => |a, b| a.cmp(&b),
    u16 => |a, b| a.cmp(&b),
    u32 => |a, b| a.cmp(&b),
    u64 => |a, b| a.cmp(&b),
    crate::element::Bool => |a, b| a.to_i64().cmp(&b.to_i64()),
    crate::element::Signed<2> => |a, b| a.to_i64().cmp(&b.to_i64()),
    crate::element::Signed<4> => |a, b| a.to_i64().cmp(&b.to_i64()),
    crate::element::Unsigned<2> => |a, b| a.to_i64().cmp(&b.to_i64()),
    crate::element::Unsigned<4> => |a, b| a.to_i64().cmp(&b.to_i64()),
    crate::element::Complex<f32> => |a, b| a.0.total_cmp(&b.0),
    crate::element::Complex<f64> => |a, b| a.0.total_cmp(&b.0),
}

impl TopK {
    pub(super) fn new(k: u64, operand: &TensorType, results: &[TensorType]) -> Result<TopK, String> {
        let row = *operand.shape.last().ok_or("its operand is a scalar")? as usize;
        if k as usize > row || (operand.dtype.is_float() && operand.dtype.bytes() == 1) || results[1].dtype != DType::I32 {
            return Err(format!("it takes {k} of {operand}"));
        }
        Ok(TopK { dtype: operand.dtype, row, rows: operand.elements() as usize / row.max(1), k: k as usize })
    }
    /// # Safety
    /// As [`Routine::run`](super::Routine::run).
    pub(super) unsafe fn run(&self, parameters: &[*mut u8]) {
        let &[operand, values, indices] = parameters else { return };
        // SAFETY: as the caller vouches.
        unsafe { with_element!(self.dtype, T => self.rows::<T>(operand.cast(), values.cast(), indices.cast()), otherwise ()) }
    }

    /// Insertion into the `k` best so far, whose indices are kept in the result itself.
    ///
    /// # Safety
    /// As [`TopK::run`].
    unsafe fn rows<T: TotalOrder>(&self, operand: *const T, values: *mut T, indices: *mut i32) {
        for r in 0..self.rows {
            // SAFETY: rows lie inside their tensors.
            let (row, values, indices) = unsafe {
                (
                    std::slice::from_raw_parts(operand.add(r * self.row), self.row),
                    std::slice::from_raw_parts_mut(values.add(r * self.k), self.k),
                    std::slice::from_raw_parts_mut(indices.add(r * self.k), self.k),
                )
            };
            let mut held = 0;
            for (i, &x) in row.iter().enumerate() {
                let above = values[..held].partition_point(|v| v.order(x) != Ordering::Less);
                if above == self.k {
                    continue;
                }
                let end = held.min(self.k - 1);
                values.copy_within(above..end, above + 1);
                indices.copy_within(above..end, above + 1);
                (values[above], indices[above]) = (x, i as i32);
                held = (held + 1).min(self.k);
            }
        }
    }
}
