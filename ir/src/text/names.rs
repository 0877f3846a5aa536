//! Names of operations in the text: what is read and printed, what is known but not supported, and what is not known at all.

use crate::diagnostic::nearest;
use crate::op::{BinaryOp, Direction, Reducer, UnaryOp};

/// Elementwise functions of one operand.
pub(super) const UNARY: &[(UnaryOp, &str)] = &[
    (UnaryOp::Abs, "stablehlo.abs"),
    (UnaryOp::Cbrt, "stablehlo.cbrt"),
    (UnaryOp::Ceil, "stablehlo.ceil"),
    (UnaryOp::CountLeadingZeros, "stablehlo.count_leading_zeros"),
    (UnaryOp::Cosine, "stablehlo.cosine"),
    (UnaryOp::Erf, "chlo.erf"),
    (UnaryOp::ErfInv, "chlo.erf_inv"),
    (UnaryOp::Exponential, "stablehlo.exponential"),
    (UnaryOp::ExponentialMinusOne, "stablehlo.exponential_minus_one"),
    (UnaryOp::Floor, "stablehlo.floor"),
    (UnaryOp::IsFinite, "stablehlo.is_finite"),
    (UnaryOp::Log, "stablehlo.log"),
    (UnaryOp::LogPlusOne, "stablehlo.log_plus_one"),
    (UnaryOp::Logistic, "stablehlo.logistic"),
    (UnaryOp::Negate, "stablehlo.negate"),
    (UnaryOp::Not, "stablehlo.not"),
    (UnaryOp::PopulationCount, "stablehlo.popcnt"),
    (UnaryOp::RoundNearestAfz, "stablehlo.round_nearest_afz"),
    (UnaryOp::RoundNearestEven, "stablehlo.round_nearest_even"),
    (UnaryOp::Rsqrt, "stablehlo.rsqrt"),
    (UnaryOp::Sign, "stablehlo.sign"),
    (UnaryOp::Sine, "stablehlo.sine"),
    (UnaryOp::Sqrt, "stablehlo.sqrt"),
    (UnaryOp::Square, "chlo.square"),
    (UnaryOp::Tan, "stablehlo.tan"),
    (UnaryOp::Tan, "chlo.tan"),
    (UnaryOp::Tanh, "stablehlo.tanh"),
    (UnaryOp::Sinh, "chlo.sinh"),
    (UnaryOp::Cosh, "chlo.cosh"),
    (UnaryOp::Asin, "chlo.asin"),
    (UnaryOp::Acos, "chlo.acos"),
    (UnaryOp::Atan, "chlo.atan"),
    (UnaryOp::Asinh, "chlo.asinh"),
    (UnaryOp::Acosh, "chlo.acosh"),
    (UnaryOp::Atanh, "chlo.atanh"),
    (UnaryOp::Erfc, "chlo.erfc"),
    (UnaryOp::Lgamma, "chlo.lgamma"),
    (UnaryOp::Digamma, "chlo.digamma"),
    (UnaryOp::Real, "stablehlo.real"),
    (UnaryOp::Imag, "stablehlo.imag"),
];

/// Elementwise functions of two operands.
pub(super) const BINARY: &[(BinaryOp, &str)] = &[
    (BinaryOp::Add, "stablehlo.add"),
    (BinaryOp::And, "stablehlo.and"),
    (BinaryOp::Atan2, "stablehlo.atan2"),
    (BinaryOp::Divide, "stablehlo.divide"),
    (BinaryOp::Maximum, "stablehlo.maximum"),
    (BinaryOp::Minimum, "stablehlo.minimum"),
    (BinaryOp::Multiply, "stablehlo.multiply"),
    (BinaryOp::NextAfter, "chlo.next_after"),
    (BinaryOp::Or, "stablehlo.or"),
    (BinaryOp::Power, "stablehlo.power"),
    (BinaryOp::Remainder, "stablehlo.remainder"),
    (BinaryOp::ShiftLeft, "stablehlo.shift_left"),
    (BinaryOp::ShiftRightArithmetic, "stablehlo.shift_right_arithmetic"),
    (BinaryOp::ShiftRightLogical, "stablehlo.shift_right_logical"),
    (BinaryOp::Subtract, "stablehlo.subtract"),
    (BinaryOp::Xor, "stablehlo.xor"),
    (BinaryOp::Complex, "stablehlo.complex"),
    (BinaryOp::Add, "chlo.broadcast_add"),
    (BinaryOp::And, "chlo.broadcast_and"),
    (BinaryOp::Atan2, "chlo.broadcast_atan2"),
    (BinaryOp::Divide, "chlo.broadcast_divide"),
    (BinaryOp::Maximum, "chlo.broadcast_maximum"),
    (BinaryOp::Minimum, "chlo.broadcast_minimum"),
    (BinaryOp::Multiply, "chlo.broadcast_multiply"),
    (BinaryOp::NextAfter, "chlo.broadcast_next_after"),
    (BinaryOp::Or, "chlo.broadcast_or"),
    (BinaryOp::Power, "chlo.broadcast_power"),
    (BinaryOp::Remainder, "chlo.broadcast_remainder"),
    (BinaryOp::Subtract, "chlo.broadcast_subtract"),
    (BinaryOp::Xor, "chlo.broadcast_xor"),
];

/// Directions of comparison.
pub(super) const DIRECTIONS: &[(Direction, &str)] =
    &[(Direction::Eq, "EQ"), (Direction::Ne, "NE"), (Direction::Ge, "GE"), (Direction::Gt, "GT"), (Direction::Le, "LE"), (Direction::Lt, "LT")];

/// Reducers, as ops that partitioning adds name them.
pub(super) const REDUCERS: &[(Reducer, &str)] = &[
    (Reducer::Add, "add"),
    (Reducer::Mul, "mul"),
    (Reducer::Max, "max"),
    (Reducer::Min, "min"),
    (Reducer::And, "and"),
    (Reducer::Or, "or"),
    (Reducer::Xor, "xor"),
];

/// Every other op that is read.
const OTHER: &[&str] = &[
    "func.call",
    "func.return",
    "stablehlo.return",
    "sdy.return",
    "stablehlo.bitcast_convert",
    "stablehlo.broadcast",
    "stablehlo.broadcast_in_dim",
    "stablehlo.case",
    "stablehlo.clamp",
    "stablehlo.compare",
    "stablehlo.composite",
    "stablehlo.concatenate",
    "stablehlo.constant",
    "stablehlo.convert",
    "stablehlo.convolution",
    "stablehlo.custom_call",
    "stablehlo.dot",
    "stablehlo.dot_general",
    "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.dynamic_gather",
    "stablehlo.dynamic_iota",
    "stablehlo.dynamic_pad",
    "stablehlo.dynamic_reshape",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
    "stablehlo.gather",
    "stablehlo.if",
    "stablehlo.iota",
    "stablehlo.map",
    "stablehlo.optimization_barrier",
    "stablehlo.pad",
    "stablehlo.real_dynamic_slice",
    "stablehlo.reduce",
    "stablehlo.reduce_precision",
    "stablehlo.reduce_window",
    "stablehlo.reshape",
    "stablehlo.reverse",
    "stablehlo.rng_bit_generator",
    "stablehlo.scatter",
    "stablehlo.select",
    "stablehlo.select_and_scatter",
    "stablehlo.slice",
    "stablehlo.sort",
    "stablehlo.transpose",
    "stablehlo.while",
    "chlo.conj",
    "chlo.constant",
    "chlo.is_inf",
    "chlo.is_neg_inf",
    "chlo.is_pos_inf",
    "chlo.top_k",
    "sdy.sharding_constraint",
    "sdy.reshard",
    "sdy.propagation_barrier",
    "sdy.sharding_group",
    "shardwright.attention",
    "shardwright.attention_grad",
    "shardwright.axis_index",
    "shardwright.all_reduce",
    "shardwright.all_gather",
    "shardwright.reduce_scatter",
    "shardwright.all_to_all",
    "shardwright.shard_slice",
];

const COLLECTIVE: &str = "the step is already partitioned: lower it for one device, Shardwright places the collectives itself";
const LINEAR_ALGEBRA: &str = "dense factorizations are not supported";
const RANDOM: &str = "a training step must be deterministic: use `jax.random`, whose bits are computed in the step";
const DYNAMIC: &str = "shapes must be static: lower the step with concrete shapes";
const HOST: &str = "communication with the host, and tokens, are not supported inside a step";

/// Ops of the dialects that are known and not supported, and why.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("stablehlo.all_gather", COLLECTIVE),
    ("stablehlo.all_reduce", COLLECTIVE),
    ("stablehlo.all_to_all", COLLECTIVE),
    ("stablehlo.collective_broadcast", COLLECTIVE),
    ("stablehlo.collective_permute", COLLECTIVE),
    ("stablehlo.cross-replica-sum", COLLECTIVE),
    ("stablehlo.partition_id", COLLECTIVE),
    ("stablehlo.replica_id", COLLECTIVE),
    ("stablehlo.reduce_scatter", COLLECTIVE),
    ("sdy.manual_computation", COLLECTIVE),
    ("stablehlo.cholesky", LINEAR_ALGEBRA),
    ("stablehlo.triangular_solve", LINEAR_ALGEBRA),
    ("stablehlo.fft", "Fourier transforms are not supported"),
    ("stablehlo.rng", RANDOM),
    ("stablehlo.get_dimension_size", DYNAMIC),
    ("stablehlo.set_dimension_size", DYNAMIC),
    ("stablehlo.dynamic_conv", DYNAMIC),
    ("stablehlo.after_all", HOST),
    ("stablehlo.create_token", HOST),
    ("stablehlo.infeed", HOST),
    ("stablehlo.outfeed", HOST),
    ("stablehlo.send", HOST),
    ("stablehlo.recv", HOST),
    ("stablehlo.tuple", "tuples are not supported: return the values one by one"),
    ("stablehlo.get_tuple_element", "tuples are not supported: return the values one by one"),
    ("stablehlo.uniform_quantize", "quantized types are not supported"),
    ("stablehlo.uniform_dequantize", "quantized types are not supported"),
    ("stablehlo.batch_norm_grad", "write batch normalization with elementwise operations and reductions, as JAX does"),
    ("stablehlo.batch_norm_inference", "write batch normalization with elementwise operations and reductions, as JAX does"),
    ("stablehlo.batch_norm_training", "write batch normalization with elementwise operations and reductions, as JAX does"),
    ("stablehlo.einsum", "use `dot_general`"),
    ("stablehlo.unary_einsum", "use `dot_general`"),
    ("stablehlo.torch_index_select", "use `gather`"),
    ("chlo.ragged_dot", "use `dot_general`"),
    ("chlo.mulhi", "widen the operands, multiply and shift"),
    ("chlo.bessel_i1e", "this special function is not supported"),
    ("chlo.polygamma", "this special function is not supported"),
    ("chlo.zeta", "this special function is not supported"),
    ("sdy.named_computation", "inline the computation"),
];

/// The function of one operand of that name.
pub(super) fn unary(name: &str) -> Option<UnaryOp> {
    UNARY.iter().find(|(_, n)| *n == name).map(|(op, _)| *op)
}

/// The function of two operands of that name.
pub(super) fn binary(name: &str) -> Option<BinaryOp> {
    BINARY.iter().find(|(_, n)| *n == name).map(|(op, _)| *op)
}

/// The name a function of one operand is printed with.
pub(crate) fn unary_name(op: UnaryOp) -> &'static str {
    UNARY.iter().find(|(o, _)| *o == op).expect("invariant: every function has a name").1
}

/// The name a function of two operands is printed with.
pub(crate) fn binary_name(op: BinaryOp) -> &'static str {
    BINARY.iter().find(|(o, _)| *o == op).expect("invariant: every function has a name").1
}

/// The name a direction is printed with.
pub(super) fn direction_name(d: Direction) -> &'static str {
    DIRECTIONS.iter().find(|(x, _)| *x == d).expect("invariant: every direction has a name").1
}

/// For an op that is not read: what to say of it, and a way out.
pub(super) fn missing(name: &str) -> Option<(String, Option<String>)> {
    if unary(name).is_some() || binary(name).is_some() || OTHER.contains(&name) {
        return None;
    }
    if let Some((_, why)) = UNSUPPORTED.iter().find(|(n, _)| *n == name) {
        return Some((format!("the operation `{name}` is not supported"), Some((*why).to_string())));
    }
    let shown: String = name.chars().take(60).collect();
    let known = UNARY.iter().map(|(_, n)| *n).chain(BINARY.iter().map(|(_, n)| *n)).chain(OTHER.iter().copied());
    let help = if name.len() > 60 { None } else { nearest(name, known).map(|n| format!("did you mean `{n}`?")) };
    Some((format!("the operation `{shown}` is not known"), help))
}
