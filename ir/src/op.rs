//! The operations of the IR: StableHLO's semantics, plus what passes add.
//!
//! One enum, no `_` arm where it is matched by a pass: the compiler then lists every place that a new operation must touch.
//! Operand and result counts are given by [`OpKind::arity`]; types are checked by `verify`.

use crate::attention::Attention;
use crate::dtype::DType;
use crate::entity_id;
use crate::literal::Literal;
use crate::sharding::AxisId;
use serde::{Deserialize, Serialize};

entity_id!(
    /// An operation of a graph.
    OpId,
    "op"
);
entity_id!(
    /// An SSA value of a graph.
    ValueId,
    "%v"
);

/// Elementwise functions of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variants are StableHLO's names")]
pub enum UnaryOp {
    Abs,
    Cbrt,
    Ceil,
    CountLeadingZeros,
    Cosine,
    Erf,
    ErfInv,
    Exponential,
    ExponentialMinusOne,
    Floor,
    IsFinite,
    Log,
    LogPlusOne,
    Logistic,
    Negate,
    Not,
    PopulationCount,
    RoundNearestAfz,
    RoundNearestEven,
    Rsqrt,
    Sign,
    Sine,
    Sqrt,
    Square,
    Tan,
    Tanh,
    Sinh,
    Cosh,
    Asin,
    Acos,
    Atan,
    Asinh,
    Acosh,
    Atanh,
    Erfc,
    Lgamma,
    Digamma,
    Real,
    Imag,
}

/// Elementwise functions of two operands of the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variants are StableHLO's names")]
pub enum BinaryOp {
    Add,
    And,
    Atan2,
    Divide,
    Maximum,
    Minimum,
    Multiply,
    NextAfter,
    Or,
    Power,
    Remainder,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Subtract,
    Xor,
    Complex,
}

/// How two elements are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variants are StableHLO's names")]
pub enum Direction {
    Eq,
    Ne,
    Ge,
    Gt,
    Le,
    Lt,
}

/// What a reduction combines with; `General` has a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reducer {
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
    /// Bitwise or logical and.
    And,
    /// Bitwise or logical or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// The second argument replaces the first (scatter only).
    Replace,
    /// What the op's region computes.
    General,
}

impl Reducer {
    /// The neutral element in type `t`; `None` for `Replace` and `General`.
    pub fn neutral(self, t: DType) -> Option<f64> {
        let (low, high) = match t {
            t if t.is_float() => (f64::NEG_INFINITY, f64::INFINITY),
            DType::I1 => (0.0, 1.0),
            t if t.is_unsigned() => (0.0, 2f64.powi(t.bits() as i32) - 1.0),
            t => (-(2f64.powi(t.bits() as i32 - 1)), 2f64.powi(t.bits() as i32 - 1) - 1.0),
        };
        match self {
            Reducer::Add | Reducer::Or | Reducer::Xor => Some(0.0),
            Reducer::Mul => Some(1.0),
            Reducer::Max => Some(low),
            Reducer::Min => Some(high),
            Reducer::And => Some(if t.is_unsigned() {
                high
            } else if t == DType::I1 {
                1.0
            } else {
                -1.0
            }),
            Reducer::Replace | Reducer::General => None,
        }
    }
    /// The elementwise function it folds with.
    pub fn binary(self) -> Option<BinaryOp> {
        Some(match self {
            Reducer::Add => BinaryOp::Add,
            Reducer::Mul => BinaryOp::Multiply,
            Reducer::Max => BinaryOp::Maximum,
            Reducer::Min => BinaryOp::Minimum,
            Reducer::And => BinaryOp::And,
            Reducer::Or => BinaryOp::Or,
            Reducer::Xor => BinaryOp::Xor,
            Reducer::Replace | Reducer::General => return None,
        })
    }
    /// The reducer that folds with `op`.
    pub fn from_binary(op: BinaryOp) -> Option<Reducer> {
        Some(match op {
            BinaryOp::Add => Reducer::Add,
            BinaryOp::Multiply => Reducer::Mul,
            BinaryOp::Maximum => Reducer::Max,
            BinaryOp::Minimum => Reducer::Min,
            BinaryOp::And => Reducer::And,
            BinaryOp::Or => Reducer::Or,
            BinaryOp::Xor => Reducer::Xor,
            _ => return None,
        })
    }
}

/// Dimension roles of a `dot_general`: result is batch, then left free, then right free dimensions.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DotDims {
    /// Batching dimensions of the left operand.
    pub lhs_batch: Vec<usize>,
    /// Batching dimensions of the right operand, in the same order.
    pub rhs_batch: Vec<usize>,
    /// Contracted dimensions of the left operand.
    pub lhs_contract: Vec<usize>,
    /// Contracted dimensions of the right operand, in the same order.
    pub rhs_contract: Vec<usize>,
}

impl DotDims {
    /// Free dimensions of the left operand of rank `rank`, in order.
    pub fn lhs_free(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|d| !self.lhs_batch.contains(d) && !self.lhs_contract.contains(d)).collect()
    }
    /// Free dimensions of the right operand of rank `rank`, in order.
    pub fn rhs_free(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|d| !self.rhs_batch.contains(d) && !self.rhs_contract.contains(d)).collect()
    }
}

/// A window over spatial dimensions, as in convolution and `reduce_window`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Window {
    /// Window sizes (unused by convolution, whose kernel operand has them).
    pub size: Vec<u64>,
    /// Strides.
    pub stride: Vec<u64>,
    /// Padding before and after, possibly negative.
    pub pad: Vec<(i64, i64)>,
    /// Dilation of the operand.
    pub base_dilation: Vec<u64>,
    /// Dilation of the window.
    pub window_dilation: Vec<u64>,
    /// Whether the window is reversed (convolution only; else empty).
    pub reversal: Vec<bool>,
}

/// Dimension roles and groups of a convolution.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConvDims {
    /// Batch dimension of the input.
    pub input_batch: usize,
    /// Feature dimension of the input.
    pub input_feature: usize,
    /// Spatial dimensions of the input.
    pub input_spatial: Vec<usize>,
    /// Input-feature dimension of the kernel.
    pub kernel_input: usize,
    /// Output-feature dimension of the kernel.
    pub kernel_output: usize,
    /// Spatial dimensions of the kernel.
    pub kernel_spatial: Vec<usize>,
    /// Batch dimension of the output.
    pub output_batch: usize,
    /// Feature dimension of the output.
    pub output_feature: usize,
    /// Spatial dimensions of the output.
    pub output_spatial: Vec<usize>,
    /// The window over the spatial dimensions.
    pub window: Window,
    /// Groups of features.
    pub feature_groups: u64,
    /// Groups of batch entries.
    pub batch_groups: u64,
}

/// Dimension roles of a gather.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GatherDims {
    /// Dimensions of the result that are window dimensions.
    pub offset_dims: Vec<usize>,
    /// Operand dimensions of window size 1 that are dropped.
    pub collapsed_slice_dims: Vec<usize>,
    /// Batching dimensions of the operand.
    pub operand_batching_dims: Vec<usize>,
    /// Batching dimensions of the indices, in the same order.
    pub start_indices_batching_dims: Vec<usize>,
    /// Which operand dimension each index component addresses.
    pub start_index_map: Vec<usize>,
    /// The dimension of the indices that holds the components.
    pub index_vector_dim: usize,
    /// Window sizes, per operand dimension.
    pub slice_sizes: Vec<u64>,
    /// Whether the indices are known to be sorted.
    pub indices_are_sorted: bool,
}

/// Dimension roles of a scatter.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ScatterDims {
    /// Dimensions of the updates that are window dimensions.
    pub update_window_dims: Vec<usize>,
    /// Operand dimensions that the window lacks.
    pub inserted_window_dims: Vec<usize>,
    /// Batching dimensions of the operand.
    pub input_batching_dims: Vec<usize>,
    /// Batching dimensions of the indices, in the same order.
    pub scatter_indices_batching_dims: Vec<usize>,
    /// Which operand dimension each index component addresses.
    pub scatter_dims_to_operand_dims: Vec<usize>,
    /// The dimension of the indices that holds the components.
    pub index_vector_dim: usize,
    /// Whether the indices are known to be sorted.
    pub indices_are_sorted: bool,
    /// Whether the indices are known not to repeat.
    pub unique_indices: bool,
}

/// What an operation computes. Operands are listed in the doc where their order is not StableHLO's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OpKind {
    /// A constant.
    Constant(Literal),
    /// The index along one dimension.
    Iota {
        /// That dimension.
        dim: usize,
    },
    /// Elementwise, one operand.
    Unary(UnaryOp),
    /// Elementwise, two operands of equal type.
    Binary(BinaryOp),
    /// Elementwise comparison; the result is `i1`. With `total`, floats are compared by total order.
    Compare {
        /// Direction.
        direction: Direction,
        /// Total order on floats.
        total: bool,
    },
    /// `select(predicate, on_true, on_false)`; the predicate may be a scalar.
    Select,
    /// `clamp(min, x, max)`; the bounds may be scalars.
    Clamp,
    /// Conversion of the element type.
    Convert,
    /// Reinterpretation of the bits.
    BitcastConvert,
    /// Rounding to fewer exponent and mantissa bits.
    ReducePrecision {
        /// Exponent bits.
        exponent: u32,
        /// Mantissa bits.
        mantissa: u32,
    },
    /// `broadcast_in_dim`: operand dimension `i` becomes result dimension `dims[i]`; size-1 dimensions repeat.
    Broadcast {
        /// Result dimension of each operand dimension.
        dims: Vec<usize>,
    },
    /// The same row-major elements in another shape.
    Reshape,
    /// Result dimension `i` is operand dimension `perm[i]`.
    Transpose {
        /// The permutation.
        perm: Vec<usize>,
    },
    /// A strided slice.
    Slice {
        /// First index per dimension.
        start: Vec<u64>,
        /// End per dimension.
        limit: Vec<u64>,
        /// Stride per dimension.
        stride: Vec<u64>,
    },
    /// `pad(x, value)`.
    Pad {
        /// Edge padding before, possibly negative.
        low: Vec<i64>,
        /// Edge padding after, possibly negative.
        high: Vec<i64>,
        /// Padding between elements.
        interior: Vec<u64>,
    },
    /// Operands joined along one dimension.
    Concatenate {
        /// That dimension.
        dim: usize,
    },
    /// Reversal of dimensions.
    Reverse {
        /// Those dimensions.
        dims: Vec<usize>,
    },
    /// `dynamic_slice(x, start_0, …)`; starts are clamped.
    DynamicSlice {
        /// Sizes of the slice.
        sizes: Vec<u64>,
    },
    /// `dynamic_update_slice(x, update, start_0, …)`; starts are clamped.
    DynamicUpdateSlice,
    /// `reduce(x_0, …, init_0, …)` over `dims`.
    Reduce {
        /// Reduced dimensions, ascending.
        dims: Vec<usize>,
        /// What it combines with; `General` takes the op's one region.
        reducer: Reducer,
    },
    /// `reduce_window(x_0, …, init_0, …)`.
    ReduceWindow {
        /// The window, over all dimensions.
        window: Window,
        /// What it combines with.
        reducer: Reducer,
    },
    /// `select_and_scatter(x, source, init)`: regions are the comparison and the scatter function.
    SelectAndScatter {
        /// The window, over all dimensions.
        window: Window,
    },
    /// A general matrix product.
    Dot(DotDims),
    /// A convolution.
    Convolution(Box<ConvDims>),
    /// `attention(q, k, v [, bias] [, offset])`: the result and the logarithm of each row's sum of exponentials.
    Attention(Box<Attention>),
    /// `attention_grad(q, k, v, o, lse, do [, bias] [, offset])`: gradients of the queries, keys and values, and of the bias if asked for.
    AttentionGrad {
        /// The attention it is the derivative of.
        attention: Box<Attention>,
        /// Whether the bias's gradient is a result.
        bias: bool,
    },
    /// `gather(operand, start_indices)`; starts are clamped.
    Gather(GatherDims),
    /// `scatter(operand_0, …, indices, update_0, …)`; windows out of bounds are dropped.
    Scatter {
        /// Dimension roles.
        dims: ScatterDims,
        /// How updates are combined.
        reducer: Reducer,
    },
    /// The `k` largest along the last dimension, in descending order, with their indices (`i32`).
    TopK {
        /// How many.
        k: u64,
    },
    /// Sorts all operands together along `dim` by the region's comparison.
    Sort {
        /// The dimension.
        dim: usize,
        /// Whether equal elements keep their order.
        stable: bool,
    },
    /// Inverse of nothing: each result is its operand, and is not moved across.
    Barrier,
    /// `while`: regions are condition and body over all operands; what a region captured is carried as an operand.
    While,
    /// `if(predicate, captures…)`: two regions over the captures.
    If,
    /// `case(index, captures…)`: one region per branch over the captures; out of range takes the last.
    Case,
    /// A call of a function of the module (gone after canonicalisation).
    Call {
        /// The callee's name, without `@`.
        callee: String,
    },
    /// `rng_bit_generator(state)`: new state and random bits, by the named algorithm.
    RngBitGenerator {
        /// `DEFAULT`, `THREE_FRY` or `PHILOX`.
        algorithm: String,
    },
    /// Batched triangular solve and other custom targets kept by name; runs nowhere yet, so the planner refuses it.
    CustomCall {
        /// The target.
        target: String,
        /// Its attributes as printed.
        attributes: String,
    },

    // What partitioning adds. Axes are of the stage's mesh.
    /// The linear coordinate of this device over `axes` (outermost first), or the microbatch number for [`AxisId::MICROBATCH`]: an `i32` scalar.
    AxisIndex {
        /// The axes.
        axes: Vec<AxisId>,
    },
    /// Sum (or other reduction) over the devices along `axes`.
    AllReduce {
        /// The axes.
        axes: Vec<AxisId>,
        /// What it combines with.
        reducer: Reducer,
    },
    /// Blocks of `dim` from all devices along `axes` joined, then cut to `size` (padding dropped).
    AllGather {
        /// The axes, outermost first.
        axes: Vec<AxisId>,
        /// The dimension.
        dim: usize,
    },
    /// Reduction over `axes`, of which each device keeps its block of `dim` (padded with the neutral element to a multiple).
    ReduceScatter {
        /// The axes, outermost first.
        axes: Vec<AxisId>,
        /// The dimension.
        dim: usize,
        /// What it combines with.
        reducer: Reducer,
    },
    /// `split` is cut into blocks sent along `axes`, received blocks are joined along `concat`.
    AllToAll {
        /// The axes.
        axes: Vec<AxisId>,
        /// Dimension that becomes sharded.
        split: usize,
        /// Dimension that becomes whole.
        concat: usize,
    },
    /// This device's block of `dim` of a value that is whole along `axes` (padded to a multiple).
    ShardSlice {
        /// The axes, outermost first.
        axes: Vec<AxisId>,
        /// The dimension.
        dim: usize,
    },
}

/// How many operands or results an op has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Exactly so many.
    Exactly(usize),
    /// At least so many.
    AtLeast(usize),
}

impl Count {
    /// Whether `n` is allowed.
    pub fn allows(self, n: usize) -> bool {
        match self {
            Count::Exactly(k) => n == k,
            Count::AtLeast(k) => n >= k,
        }
    }
}

impl OpKind {
    /// Counts of operands, results and regions.
    pub fn arity(&self) -> (Count, Count, Count) {
        use Count::{AtLeast, Exactly};
        let region = |r: &Reducer| Exactly(usize::from(*r == Reducer::General));
        match self {
            OpKind::Constant(_) | OpKind::Iota { .. } | OpKind::AxisIndex { .. } => (Exactly(0), Exactly(1), Exactly(0)),
            OpKind::Unary(_)
            | OpKind::Convert
            | OpKind::BitcastConvert
            | OpKind::ReducePrecision { .. }
            | OpKind::Broadcast { .. }
            | OpKind::Reshape
            | OpKind::Transpose { .. }
            | OpKind::Slice { .. }
            | OpKind::Reverse { .. }
            | OpKind::AllReduce { .. }
            | OpKind::AllGather { .. }
            | OpKind::ReduceScatter { .. }
            | OpKind::AllToAll { .. }
            | OpKind::ShardSlice { .. } => (Exactly(1), Exactly(1), Exactly(0)),
            OpKind::Binary(_) | OpKind::Compare { .. } | OpKind::Pad { .. } | OpKind::Dot(_) | OpKind::Convolution(_) | OpKind::Gather(_) => {
                (Exactly(2), Exactly(1), Exactly(0))
            }
            OpKind::Attention(a) => (Exactly(a.operands()), Exactly(2), Exactly(0)),
            OpKind::AttentionGrad { attention, bias } => (Exactly(attention.gradient_operands()), Exactly(3 + usize::from(*bias)), Exactly(0)),
            OpKind::Select | OpKind::Clamp => (Exactly(3), Exactly(1), Exactly(0)),
            OpKind::Concatenate { .. } | OpKind::DynamicSlice { .. } => (AtLeast(1), Exactly(1), Exactly(0)),
            OpKind::DynamicUpdateSlice => (AtLeast(2), Exactly(1), Exactly(0)),
            OpKind::Reduce { reducer, .. } | OpKind::ReduceWindow { reducer, .. } => (AtLeast(2), AtLeast(1), region(reducer)),
            OpKind::SelectAndScatter { .. } => (Exactly(3), Exactly(1), Exactly(2)),
            OpKind::Scatter { reducer, .. } => (AtLeast(3), AtLeast(1), region(reducer)),
            OpKind::TopK { .. } => (Exactly(1), Exactly(2), Exactly(0)),
            OpKind::Sort { .. } => (AtLeast(1), AtLeast(1), Exactly(1)),
            OpKind::Barrier => (AtLeast(0), AtLeast(0), Exactly(0)),
            OpKind::While => (AtLeast(0), AtLeast(0), Exactly(2)),
            OpKind::If => (AtLeast(1), AtLeast(0), Exactly(2)),
            OpKind::Case => (AtLeast(1), AtLeast(0), AtLeast(1)),
            OpKind::Call { .. } | OpKind::CustomCall { .. } => (AtLeast(0), AtLeast(0), Exactly(0)),
            OpKind::RngBitGenerator { .. } => (Exactly(1), Exactly(2), Exactly(0)),
        }
    }

    /// Whether each result element depends on the operands' elements at the same index only.
    pub fn is_elementwise(&self) -> bool {
        matches!(
            self,
            OpKind::Unary(_)
                | OpKind::Binary(_)
                | OpKind::Compare { .. }
                | OpKind::Select
                | OpKind::Clamp
                | OpKind::Convert
                | OpKind::BitcastConvert
                | OpKind::ReducePrecision { .. }
        )
    }
    /// Whether it moves data between devices.
    pub fn is_collective(&self) -> bool {
        matches!(self, OpKind::AllReduce { .. } | OpKind::AllGather { .. } | OpKind::ReduceScatter { .. } | OpKind::AllToAll { .. })
    }
}
