//! Ops done by routines of ours on row-major local values, rather than by generated code.
//!
//! A [`Routine`] is prepared from the op and its local types: loops are planned, memory it needs beside its operands is reserved in the device's
//! [`Scratch`], and what cannot be done is refused with a reason. Running one only computes.

mod attention;
mod convolution;
mod indexing;
mod moves;
mod reduction;
mod sorting;

use attention::Attention;
use convolution::Convolution;
use indexing::{Gather, Scatter};
use ir::op::{OpKind, Reducer};
use ir::{DType, TensorType};
use moves::Moves;
use reduction::ReduceWindow;
use sorting::TopK;

/// Memory shared by all routines of a device: as large as the largest need, allocated once.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    needed: usize,
    block: Vec<u64>,
}

impl Scratch {
    /// States a need while preparing.
    fn reserve(&mut self, bytes: usize) {
        self.needed = self.needed.max(bytes);
    }
    /// Allocates what was stated.
    pub(super) fn allocate(&mut self) {
        self.block = vec![0; self.needed.div_ceil(8)];
    }
    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.block.len() * 8
    }
}

/// A prepared op.
pub(super) enum Routine {
    Moves(Box<Moves>),
    Gather(Box<Gather>),
    Scatter(Box<Scatter>),
    ReduceWindow(Box<ReduceWindow>),
    Attention(Box<Attention>),
    Convolution(Box<Convolution>),
    TopK(TopK),
}

/// The op's name in messages.
pub(super) fn name(op: &OpKind) -> String {
    let text = format!("{op:?}");
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    let mut name = String::new();
    for (i, c) in text[..end].chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            name.push('_');
        }
        name.extend(c.to_lowercase());
    }
    name
}

impl Routine {
    /// Prepares `op`; the error says why it cannot be done.
    pub(super) fn new(op: &OpKind, operands: &[TensorType], results: &[TensorType], scratch: &mut Scratch) -> Result<Routine, String> {
        let (operand_count, result_count, _) = op.arity();
        if !operand_count.allows(operands.len()) || !result_count.allows(results.len()) {
            return Err(format!("it has {} operands and {} results", operands.len(), results.len()));
        }
        if let Some(moves) = Moves::new(op, operands, results)? {
            return Ok(Routine::Moves(Box::new(moves)));
        }
        let general = |r: &Reducer| *r == Reducer::General;
        Ok(match op {
            OpKind::Gather(g) => Routine::Gather(Box::new(Gather::new(g, operands, &results[0])?)),
            OpKind::Scatter { reducer, .. } | OpKind::Reduce { reducer, .. } | OpKind::ReduceWindow { reducer, .. } if general(reducer) => {
                return Err("its combining function is a general one".into());
            }
            OpKind::Scatter { dims, reducer } => Routine::Scatter(Box::new(Scatter::new(dims, *reducer, operands)?)),
            OpKind::Reduce { dims, reducer } => Routine::ReduceWindow(Box::new(ReduceWindow::reduce(dims, *reducer, operands, results)?)),
            OpKind::ReduceWindow { window, reducer } => {
                Routine::ReduceWindow(Box::new(ReduceWindow::new(window, *reducer, operands, results, &results[0].shape)?))
            }
            OpKind::Attention(a) => Routine::Attention(Box::new(Attention::forward(a, operands, results, scratch)?)),
            OpKind::AttentionGrad { attention, bias } => Routine::Attention(Box::new(Attention::backward(attention, *bias, operands, results, scratch)?)),
            OpKind::Convolution(c) => Routine::Convolution(Box::new(Convolution::new(c, operands, &results[0], scratch)?)),
            OpKind::TopK { k } => Routine::TopK(TopK::new(*k, &operands[0], results)?),
            OpKind::Sort { .. } | OpKind::SelectAndScatter { .. } | OpKind::While | OpKind::If | OpKind::Case => {
                return Err("a library instruction carries no regions".into());
            }
            _ => return Err("there is no routine for it".into()),
        })
    }
    /// Computes; `parameters` are the operands' and then the results' addresses.
    ///
    /// # Safety
    /// Every parameter points to a whole tensor of the type the routine was prepared for; no result overlaps another parameter.
    pub(super) unsafe fn run(&self, parameters: &[*mut u8], scratch: &mut Scratch) {
        // SAFETY: as the caller vouches.
        unsafe {
            match self {
                Routine::Moves(m) => m.run(parameters),
                Routine::Gather(g) => g.run(parameters),
                Routine::Scatter(s) => s.run(parameters),
                Routine::ReduceWindow(r) => r.run(parameters),
                Routine::Attention(a) => a.run(parameters, scratch),
                Routine::Convolution(c) => c.run(parameters, scratch),
                Routine::TopK(t) => t.run(parameters),
            }
        }
    }
}

/// An integer operand of one element (or element `i` of a vector), widened.
///
/// # Safety
/// The element can be read.
unsafe fn index_at(dtype: DType, data: *const u8, i: usize) -> i64 {
    // SAFETY: as the caller vouches.
    unsafe {
        match dtype {
            DType::I32 => i64::from(data.cast::<i32>().add(i).read()),
            DType::UI32 => i64::from(data.cast::<u32>().add(i).read()),
            DType::I64 => data.cast::<i64>().add(i).read(),
            DType::UI64 => i64::try_from(data.cast::<u64>().add(i).read()).unwrap_or(i64::MAX),
            DType::I16 => i64::from(data.cast::<i16>().add(i).read()),
            DType::UI16 => i64::from(data.cast::<u16>().add(i).read()),
            DType::I8 | DType::I4 | DType::I2 => i64::from(data.cast::<i8>().add(i).read()),
            _ => i64::from(data.add(i).read()),
        }
    }
}
