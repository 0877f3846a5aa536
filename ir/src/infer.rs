//! Types of results from operands: what each op allows, and what it gives.
//!
//! [`result_types`] gives an op's result types where the kind determines them.
//! [`check`] holds the whole rule of an op: counts, operand types, attribute ranges, regions and results.
//! Messages are for the user: they name what was expected and what was found.

use crate::dtype::{DType, TensorType};
use crate::graph::Graph;
use crate::op::{BinaryOp, ConvDims, Count, DotDims, GatherDims, OpKind, Reducer, ScatterDims, UnaryOp, Window};

/// Why an op is not well typed.
pub type Why = String;

macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err(format!($($message)*));
        }
    };
}

/// The types of an op's results; `None` where the kind does not determine them (a conversion, a reshape, a matrix product's element type).
pub fn result_types(kind: &OpKind, operands: &[&TensorType], regions: &[Graph]) -> Result<Option<Vec<TensorType>>, Why> {
    counts(kind, operands.len(), None, regions.len())?;
    let one = |t: TensorType| Ok(Some(vec![t]));
    match kind {
        OpKind::Constant(l) => one(l.ty.clone()),
        OpKind::Unary(op) => one(unary(*op, operands[0])?),
        OpKind::Binary(op) => one(binary(*op, operands[0], operands[1])?),
        OpKind::Compare { .. } => {
            same(operands[0], operands[1])?;
            one(operands[0].with_dtype(DType::I1))
        }
        OpKind::Select => {
            ensure!(operands[0].dtype == DType::I1, "the predicate is {}, not i1", operands[0]);
            ensure!(
                operands[0].rank() == 0 || operands[0].shape == operands[1].shape,
                "the predicate {} is neither a scalar nor of the shape of {}",
                operands[0],
                operands[1]
            );
            same(operands[1], operands[2])?;
            one(operands[1].clone())
        }
        OpKind::Clamp => {
            for bound in [operands[0], operands[2]] {
                ensure!(
                    bound.dtype == operands[1].dtype && (bound.rank() == 0 || bound.shape == operands[1].shape),
                    "the bound {bound} is neither a scalar nor of the type {}",
                    operands[1]
                );
            }
            one(operands[1].clone())
        }
        OpKind::ReducePrecision { exponent, mantissa } => {
            ensure!(operands[0].dtype.is_float(), "{} is not a float", operands[0]);
            ensure!(*exponent >= 1 && *exponent <= 11 && *mantissa <= 52, "e{exponent}m{mantissa} is not a float format");
            one(operands[0].clone())
        }
        OpKind::Transpose { perm } => {
            permutation(perm, operands[0].rank())?;
            one(TensorType::new(operands[0].dtype, perm.iter().map(|&d| operands[0].shape[d]).collect::<Vec<_>>()))
        }
        OpKind::Slice { start, limit, stride } => one(slice(operands[0], start, limit, stride)?),
        OpKind::Pad { low, high, interior } => one(pad(operands[0], operands[1], low, high, interior)?),
        OpKind::Concatenate { dim } => one(concatenate(operands, *dim)?),
        OpKind::Reverse { dims } => {
            distinct_dims(dims, operands[0].rank(), "dims")?;
            one(operands[0].clone())
        }
        OpKind::DynamicSlice { sizes } => {
            let x = operands[0];
            ensure!(sizes.len() == x.rank(), "{} sizes for {x}", sizes.len());
            ensure!(sizes.iter().zip(&x.shape).all(|(s, n)| s <= n), "a slice of {sizes:?} does not fit {x}");
            starts(&operands[1..], x)?;
            one(TensorType::new(x.dtype, sizes.clone()))
        }
        OpKind::DynamicUpdateSlice => {
            let (x, update) = (operands[0], operands[1]);
            ensure!(
                update.dtype == x.dtype && update.rank() == x.rank() && update.shape.iter().zip(&x.shape).all(|(s, n)| s <= n),
                "the update {update} does not fit {x}"
            );
            starts(&operands[2..], x)?;
            one(x.clone())
        }
        OpKind::Reduce { dims, reducer } => reduce(operands, dims, *reducer, regions).map(Some),
        OpKind::ReduceWindow { window, reducer } => reduce_window(operands, window, *reducer, regions).map(Some),
        OpKind::SelectAndScatter { window } => one(select_and_scatter(operands, window, regions)?),
        OpKind::Dot(dims) => dot_shape(dims, operands[0], operands[1]).map(|_| None),
        OpKind::Convolution(dims) => convolution_shape(dims, operands[0], operands[1]).map(|_| None),
        OpKind::Attention(a) => a.results(operands).map(Some),
        OpKind::AttentionGrad { attention, bias } => attention.gradient_results(operands, *bias).map(Some),
        OpKind::Gather(dims) => one(TensorType::new(operands[0].dtype, gather_shape(dims, operands[0], operands[1])?)),
        OpKind::Scatter { dims, reducer } => scatter(operands, dims, *reducer, regions).map(Some),
        OpKind::TopK { k } => {
            let x = operands[0];
            let last = x.shape.last().copied().ok_or("top-k of a scalar")?;
            ensure!(*k <= last, "the {k} largest of {last} elements in {x}");
            let mut shape = x.shape.clone();
            *shape.last_mut().expect("invariant: the rank is not zero") = *k;
            Ok(Some(vec![TensorType::new(x.dtype, shape.clone()), TensorType::new(DType::I32, shape)]))
        }
        OpKind::Sort { dim, .. } => {
            ensure!(*dim < operands[0].rank(), "dimension {dim} of {}", operands[0]);
            ensure!(operands.iter().all(|x| x.shape == operands[0].shape), "the operands of a sort differ in shape");
            let scalars: Vec<TensorType> = operands.iter().flat_map(|x| [TensorType::scalar(x.dtype), TensorType::scalar(x.dtype)]).collect();
            signature(&regions[0], &scalars, &[TensorType::scalar(DType::I1)], "the comparison")?;
            Ok(Some(operands.iter().map(|x| (*x).clone()).collect()))
        }
        OpKind::Barrier => Ok(Some(operands.iter().map(|x| (*x).clone()).collect())),
        OpKind::While => {
            let carried: Vec<TensorType> = operands.iter().map(|x| (*x).clone()).collect();
            signature(&regions[0], &carried, &[TensorType::scalar(DType::I1)], "the loop's condition")?;
            signature(&regions[1], &carried, &carried, "the loop's body")?;
            Ok(Some(carried))
        }
        OpKind::If | OpKind::Case => branches(kind, operands, regions).map(Some),
        OpKind::AxisIndex { .. } => one(TensorType::scalar(DType::I32)),
        OpKind::AllReduce { .. } => one(operands[0].clone()),
        OpKind::RngBitGenerator { .. }
        | OpKind::Iota { .. }
        | OpKind::Convert
        | OpKind::BitcastConvert
        | OpKind::Broadcast { .. }
        | OpKind::Reshape
        | OpKind::Call { .. }
        | OpKind::CustomCall { .. }
        | OpKind::AllGather { .. }
        | OpKind::ReduceScatter { .. }
        | OpKind::AllToAll { .. }
        | OpKind::ShardSlice { .. } => Ok(None),
    }
}

/// Whether an op with these operands, results and regions is well formed.
pub fn check(kind: &OpKind, operands: &[&TensorType], results: &[&TensorType], regions: &[Graph]) -> Result<(), Why> {
    counts(kind, operands.len(), Some(results.len()), regions.len())?;
    if let Some(inferred) = result_types(kind, operands, regions)? {
        ensure!(inferred.len() == results.len(), "{} results where {} are expected", results.len(), inferred.len());
        for (found, wanted) in results.iter().zip(&inferred) {
            ensure!(*found == wanted, "the result is stated as {found} but is {wanted}");
        }
        return Ok(());
    }
    let r = results.first();
    match (kind, operands.first(), r) {
        (OpKind::Iota { dim }, _, Some(r)) => {
            ensure!(*dim < r.rank(), "dimension {dim} of {r}");
            ensure!(r.dtype != DType::I1, "an iota of i1");
        }
        (OpKind::Convert, Some(x), Some(r)) => ensure!(x.shape == r.shape, "a conversion of {x} to {r}, which has another shape"),
        (OpKind::BitcastConvert, Some(x), Some(r)) => bitcast(x, r)?,
        (OpKind::Broadcast { dims }, Some(x), Some(r)) => broadcast(x, r, dims)?,
        (OpKind::Reshape, Some(x), Some(r)) => {
            ensure!(x.dtype == r.dtype && x.elements() == r.elements(), "{x} cannot be reshaped to {r}");
        }
        (OpKind::Dot(d), Some(x), Some(r)) => stated_shape(&dot_shape(d, x, operands[1])?, r)?,
        (OpKind::Convolution(d), Some(x), Some(r)) => stated_shape(&convolution_shape(d, x, operands[1])?, r)?,
        (OpKind::RngBitGenerator { .. }, Some(x), Some(r)) => {
            ensure!(x == r, "the new state is {r}, the old {x}");
            ensure!(x.dtype.is_unsigned() && results[1].dtype.is_integer(), "random bits are integers, not {}", results[1]);
        }
        (OpKind::AllGather { dim, .. } | OpKind::ReduceScatter { dim, .. } | OpKind::ShardSlice { dim, .. }, Some(x), Some(r)) => {
            let others = |t: &TensorType| t.shape.iter().enumerate().filter(|(d, _)| d != dim).map(|(_, n)| *n).collect::<Vec<_>>();
            ensure!(*dim < x.rank() && x.rank() == r.rank() && x.dtype == r.dtype && others(x) == others(r), "{x} and {r} differ in more than dimension {dim}");
        }
        (OpKind::AllToAll { split, concat, .. }, Some(x), Some(r)) => {
            ensure!(*split < x.rank() && *concat < x.rank() && x.rank() == r.rank() && x.dtype == r.dtype, "{x} and {r} do not match");
        }
        _ => {}
    }
    Ok(())
}

fn counts(kind: &OpKind, operands: usize, results: Option<usize>, regions: usize) -> Result<(), Why> {
    let (o, r, g) = kind.arity();
    for (wanted, found, what) in [(o, Some(operands), "operands"), (r, results, "results"), (g, Some(regions), "regions")] {
        let Some(found) = found else { continue };
        let text = match wanted {
            Count::Exactly(n) => n.to_string(),
            Count::AtLeast(n) => format!("at least {n}"),
        };
        ensure!(wanted.allows(found), "{found} {what} where {text} are expected");
    }
    Ok(())
}

fn same(a: &TensorType, b: &TensorType) -> Result<(), Why> {
    ensure!(a == b, "operands of types {a} and {b}, which must be equal");
    Ok(())
}

fn stated_shape(shape: &[u64], r: &TensorType) -> Result<(), Why> {
    ensure!(shape == r.shape, "the result is stated as {r} but its shape is {shape:?}");
    Ok(())
}

fn unary(op: UnaryOp, x: &TensorType) -> Result<TensorType, Why> {
    use UnaryOp::*;
    let t = x.dtype;
    let allowed = match op {
        Not => t.is_integer(),
        CountLeadingZeros | PopulationCount => t.is_integer(),
        Abs | Negate | Sign | Square => t != DType::I1,
        Real | Imag => t.is_complex() || t.is_float(),
        Ceil | Floor | RoundNearestAfz | RoundNearestEven | IsFinite => t.is_float(),
        Cbrt | Cosine | Erf | ErfInv | Erfc | Exponential | ExponentialMinusOne | Log | LogPlusOne | Logistic | Rsqrt | Sine | Sqrt | Tan | Tanh | Sinh
        | Cosh | Asin | Acos | Atan | Asinh | Acosh | Atanh | Lgamma | Digamma => t.is_float() || t.is_complex(),
    };
    ensure!(allowed, "{op:?} is not defined on {x}");
    Ok(match op {
        IsFinite => x.with_dtype(DType::I1),
        Abs | Real | Imag => x.with_dtype(t.part().unwrap_or(t)),
        _ => x.clone(),
    })
}

fn binary(op: BinaryOp, a: &TensorType, b: &TensorType) -> Result<TensorType, Why> {
    use BinaryOp::*;
    same(a, b)?;
    let t = a.dtype;
    let allowed = match op {
        And | Or | Xor => t.is_integer(),
        ShiftLeft | ShiftRightArithmetic | ShiftRightLogical => t.is_integer() && t != DType::I1,
        Atan2 => t.is_float() || t.is_complex(),
        NextAfter => t.is_float(),
        Complex => matches!(t, DType::F32 | DType::F64),
        Subtract | Divide | Remainder | Power => t != DType::I1,
        Add | Multiply | Maximum | Minimum => true,
    };
    ensure!(allowed, "{op:?} is not defined on {a}");
    Ok(match (op, t) {
        (Complex, DType::F32) => a.with_dtype(DType::C64),
        (Complex, _) => a.with_dtype(DType::C128),
        _ => a.clone(),
    })
}

fn bitcast(x: &TensorType, r: &TensorType) -> Result<(), Why> {
    let (from, to) = (x.dtype.bits(), r.dtype.bits());
    let fits = match from.cmp(&to) {
        std::cmp::Ordering::Equal => x.shape == r.shape,
        std::cmp::Ordering::Greater => r.shape.split_last().is_some_and(|(n, rest)| rest == x.shape && u64::from(to) * n == u64::from(from)),
        std::cmp::Ordering::Less => x.shape.split_last().is_some_and(|(n, rest)| rest == r.shape && u64::from(from) * n == u64::from(to)),
    };
    ensure!(fits, "the bits of {x} cannot be read as {r}");
    Ok(())
}

fn broadcast(x: &TensorType, r: &TensorType, dims: &[usize]) -> Result<(), Why> {
    ensure!(x.dtype == r.dtype, "a broadcast of {x} to {r}, which has another element type");
    ensure!(dims.len() == x.rank(), "{} dims for {x}", dims.len());
    distinct_dims(dims, r.rank(), "dims")?;
    for (i, &d) in dims.iter().enumerate() {
        ensure!(x.shape[i] == 1 || x.shape[i] == r.shape[d], "dimension {i} of {x} does not fit dimension {d} of {r}");
    }
    Ok(())
}

fn distinct_dims(dims: &[usize], rank: usize, what: &str) -> Result<(), Why> {
    let mut seen = vec![false; rank];
    for &d in dims {
        ensure!(d < rank, "`{what}` names dimension {d} of a tensor of rank {rank}");
        ensure!(!std::mem::replace(&mut seen[d], true), "`{what}` names dimension {d} twice");
    }
    Ok(())
}

fn permutation(perm: &[usize], rank: usize) -> Result<(), Why> {
    ensure!(perm.len() == rank, "a permutation of {} dimensions for rank {rank}", perm.len());
    distinct_dims(perm, rank, "dims")
}

fn slice(x: &TensorType, start: &[u64], limit: &[u64], stride: &[u64]) -> Result<TensorType, Why> {
    ensure!(start.len() == x.rank() && limit.len() == x.rank() && stride.len() == x.rank(), "a slice over {} dimensions of {x}", start.len());
    let mut shape = Vec::new();
    for d in 0..x.rank() {
        ensure!(start[d] <= limit[d] && limit[d] <= x.shape[d] && stride[d] > 0, "the slice {}:{}:{} of dimension {d} of {x}", start[d], limit[d], stride[d]);
        shape.push((limit[d] - start[d]).div_ceil(stride[d]));
    }
    Ok(TensorType::new(x.dtype, shape))
}

fn pad(x: &TensorType, value: &TensorType, low: &[i64], high: &[i64], interior: &[u64]) -> Result<TensorType, Why> {
    ensure!(value.rank() == 0 && value.dtype == x.dtype, "the padding value is {value}");
    ensure!(low.len() == x.rank() && high.len() == x.rank() && interior.len() == x.rank(), "padding over {} dimensions of {x}", low.len());
    let mut shape = Vec::new();
    for d in 0..x.rank() {
        let between = i128::from(x.shape[d].saturating_sub(1)) * i128::from(interior[d]);
        let n = i128::from(x.shape[d]) + between + i128::from(low[d]) + i128::from(high[d]);
        ensure!((0..1 << 48).contains(&n), "padding makes dimension {d} of {x} {n} long");
        shape.push(n as u64);
    }
    Ok(TensorType::new(x.dtype, shape))
}

fn concatenate(operands: &[&TensorType], dim: usize) -> Result<TensorType, Why> {
    let mut r = operands[0].clone();
    ensure!(dim < r.rank(), "dimension {dim} of {r}");
    for x in &operands[1..] {
        let fits = x.dtype == r.dtype && x.rank() == r.rank() && (0..r.rank()).all(|d| d == dim || x.shape[d] == r.shape[d]);
        ensure!(fits, "{x} cannot be joined to {} along dimension {dim}", operands[0]);
        r.shape[dim] = r.shape[dim].saturating_add(x.shape[dim]);
    }
    Ok(r)
}

fn starts(starts: &[&TensorType], x: &TensorType) -> Result<(), Why> {
    ensure!(starts.len() == x.rank(), "{} start indices for {x}", starts.len());
    ensure!(starts.iter().all(|s| s.rank() == 0 && s.dtype.is_integer() && s.dtype == starts[0].dtype), "start indices are integer scalars of one type");
    Ok(())
}

/// Whether a region has these inputs and outputs.
fn signature(region: &Graph, inputs: &[TensorType], outputs: &[TensorType], what: &str) -> Result<(), Why> {
    let show = |types: Vec<&TensorType>| types.iter().map(|t| t.to_string()).collect::<Vec<_>>().join(", ");
    let found: Vec<&TensorType> = region.inputs.iter().filter_map(|&v| region.values.get(v)).map(|v| &v.ty).collect();
    ensure!(found.iter().copied().eq(inputs), "{what} takes ({}) where ({}) is expected", show(found), show(inputs.iter().collect()));
    let found: Vec<&TensorType> = region.outputs.iter().filter_map(|&v| region.values.get(v)).map(|v| &v.ty).collect();
    ensure!(found.iter().copied().eq(outputs), "{what} returns ({}) where ({}) is expected", show(found), show(outputs.iter().collect()));
    Ok(())
}

/// Operands `x…, init…` of a reduction and its region; the element types of the results.
fn reducer(operands: &[&TensorType], reducer: Reducer, regions: &[Graph]) -> Result<Vec<DType>, Why> {
    let n = operands.len() / 2;
    ensure!(operands.len() % 2 == 0, "{} operands of a reduction, which has an initial value for each", operands.len());
    let (xs, inits) = operands.split_at(n);
    ensure!(xs.iter().all(|x| x.shape == xs[0].shape), "the operands of a reduction differ in shape");
    for (x, init) in xs.iter().zip(inits) {
        ensure!(init.rank() == 0, "the initial value is {init}, not a scalar");
        ensure!(init.dtype == x.dtype || reducer == Reducer::General, "the initial value is {init} for {x}");
    }
    combine(&inits.iter().map(|t| t.dtype).collect::<Vec<_>>(), reducer, regions)?;
    Ok(inits.iter().map(|t| t.dtype).collect())
}

fn combine(types: &[DType], reducer: Reducer, regions: &[Graph]) -> Result<(), Why> {
    if reducer == Reducer::General {
        let scalars: Vec<TensorType> = types.iter().map(|t| TensorType::scalar(*t)).collect();
        let twice: Vec<TensorType> = scalars.iter().chain(&scalars).cloned().collect();
        return signature(&regions[0], &twice, &scalars, "the reducer");
    }
    if let Some(op) = reducer.binary() {
        for t in types {
            binary(op, &TensorType::scalar(*t), &TensorType::scalar(*t))?;
        }
    }
    Ok(())
}

fn reduce(operands: &[&TensorType], dims: &[usize], r: Reducer, regions: &[Graph]) -> Result<Vec<TensorType>, Why> {
    let types = reducer(operands, r, regions)?;
    ensure!(r != Reducer::Replace, "a reduction that only replaces");
    distinct_dims(dims, operands[0].rank(), "dimensions")?;
    ensure!(dims.is_sorted(), "the reduced dimensions {dims:?} are not ascending");
    let shape: Vec<u64> = (0..operands[0].rank()).filter(|d| !dims.contains(d)).map(|d| operands[0].shape[d]).collect();
    Ok(types.into_iter().map(|t| TensorType::new(t, shape.clone())).collect())
}

/// Sizes that windows over `shape` give.
pub fn window_shape(shape: &[u64], window: &Window) -> Result<Vec<u64>, Why> {
    let n = shape.len();
    let lengths = [window.size.len(), window.stride.len(), window.pad.len(), window.base_dilation.len(), window.window_dilation.len()];
    ensure!(lengths.iter().all(|l| *l == n), "a window over {} dimensions of a tensor of rank {n}", window.size.len());
    let mut out = Vec::new();
    for (d, &size) in shape.iter().enumerate() {
        ensure!(window.stride[d] > 0 && window.base_dilation[d] > 0 && window.window_dilation[d] > 0, "a stride or dilation of zero in dimension {d}");
        let dilate = |n: u64, by: u64| if n == 0 { 0 } else { i128::from(n - 1) * i128::from(by) + 1 };
        let padded = dilate(size, window.base_dilation[d]) + i128::from(window.pad[d].0) + i128::from(window.pad[d].1);
        let extent = dilate(window.size[d], window.window_dilation[d]);
        let places = if padded < extent || padded <= 0 { 0 } else { (padded - extent) / i128::from(window.stride[d]) + 1 };
        ensure!((0..1 << 48).contains(&places), "dimension {d} has {places} windows");
        out.push(places as u64);
    }
    Ok(out)
}

fn reduce_window(operands: &[&TensorType], window: &Window, r: Reducer, regions: &[Graph]) -> Result<Vec<TensorType>, Why> {
    let types = reducer(operands, r, regions)?;
    ensure!(window.size.iter().all(|s| *s > 0), "a window of size zero");
    let shape = window_shape(&operands[0].shape, window)?;
    Ok(types.into_iter().map(|t| TensorType::new(t, shape.clone())).collect())
}

fn select_and_scatter(operands: &[&TensorType], window: &Window, regions: &[Graph]) -> Result<TensorType, Why> {
    let (x, source, init) = (operands[0], operands[1], operands[2]);
    ensure!(init.rank() == 0 && init.dtype == x.dtype && source.dtype == x.dtype, "operands {x}, {source} and {init} do not match");
    let shape = window_shape(&x.shape, window)?;
    ensure!(shape == source.shape, "the source is {source} where the windows give {shape:?}");
    let scalar = TensorType::scalar(x.dtype);
    signature(&regions[0], &[scalar.clone(), scalar.clone()], &[TensorType::scalar(DType::I1)], "the selection")?;
    signature(&regions[1], &[scalar.clone(), scalar.clone()], &[scalar], "the scatter function")?;
    Ok(x.clone())
}

/// The shape a matrix product gives: batch, left free, right free.
pub fn dot_shape(d: &DotDims, a: &TensorType, b: &TensorType) -> Result<Vec<u64>, Why> {
    ensure!(
        d.lhs_batch.len() == d.rhs_batch.len() && d.lhs_contract.len() == d.rhs_contract.len(),
        "the two operands have different numbers of batching or contracting dimensions"
    );
    let lhs: Vec<usize> = d.lhs_batch.iter().chain(&d.lhs_contract).copied().collect();
    let rhs: Vec<usize> = d.rhs_batch.iter().chain(&d.rhs_contract).copied().collect();
    distinct_dims(&lhs, a.rank(), "contracting_dims")?;
    distinct_dims(&rhs, b.rank(), "contracting_dims")?;
    for (&l, &r) in lhs.iter().zip(&rhs) {
        ensure!(a.shape[l] == b.shape[r], "dimension {l} of {a} and dimension {r} of {b} differ in size");
    }
    let batch = d.lhs_batch.iter().map(|&i| a.shape[i]);
    let left = d.lhs_free(a.rank()).into_iter().map(|i| a.shape[i]);
    let right = d.rhs_free(b.rank()).into_iter().map(|i| b.shape[i]);
    Ok(batch.chain(left).chain(right).collect())
}

/// The shape a convolution gives.
pub fn convolution_shape(d: &ConvDims, x: &TensorType, kernel: &TensorType) -> Result<Vec<u64>, Why> {
    let spatial = d.input_spatial.len();
    let rank = spatial + 2;
    ensure!(x.rank() == rank && kernel.rank() == rank, "a convolution over {spatial} spatial dimensions of {x} with {kernel}");
    ensure!(d.kernel_spatial.len() == spatial && d.output_spatial.len() == spatial, "the dimension numbers differ in spatial rank");
    let all = |batch: usize, feature: usize, s: &[usize]| [batch, feature].iter().chain(s).copied().collect::<Vec<_>>();
    permutation(&all(d.input_batch, d.input_feature, &d.input_spatial), rank)?;
    permutation(&all(d.kernel_input, d.kernel_output, &d.kernel_spatial), rank)?;
    permutation(&all(d.output_batch, d.output_feature, &d.output_spatial), rank)?;
    ensure!(
        d.feature_groups > 0 && d.batch_groups > 0 && (d.feature_groups == 1 || d.batch_groups == 1),
        "{} feature groups and {} batch groups",
        d.feature_groups,
        d.batch_groups
    );
    let (batch, feature, out) = (x.shape[d.input_batch], x.shape[d.input_feature], kernel.shape[d.kernel_output]);
    ensure!(
        feature % d.feature_groups == 0 && kernel.shape[d.kernel_input] == feature / d.feature_groups,
        "{x} has {feature} features in {} groups, which {kernel} does not match",
        d.feature_groups
    );
    ensure!(
        batch % d.batch_groups == 0 && out % d.feature_groups == 0 && out % d.batch_groups == 0,
        "groups do not divide the batch or the features of {x} and {kernel}"
    );
    let mut window = d.window.clone();
    window.size = d.kernel_spatial.iter().map(|&i| kernel.shape[i]).collect();
    ensure!(window.reversal.len() == spatial || window.reversal.is_empty(), "a window reversal over {} dimensions", window.reversal.len());
    let places = window_shape(&d.input_spatial.iter().map(|&i| x.shape[i]).collect::<Vec<_>>(), &window)?;
    let mut shape = vec![0; rank];
    shape[d.output_batch] = batch / d.batch_groups;
    shape[d.output_feature] = out;
    for (&i, n) in d.output_spatial.iter().zip(places) {
        shape[i] = n;
    }
    Ok(shape)
}

/// The dimensions of `indices` other than the one that holds the components, with their sizes.
fn index_shape(indices: &TensorType, vector_dim: usize) -> Result<(Vec<u64>, u64), Why> {
    ensure!(vector_dim <= indices.rank(), "index_vector_dim {vector_dim} of {indices}");
    ensure!(indices.dtype.is_integer(), "indices of type {indices}");
    let components = indices.shape.get(vector_dim).copied().unwrap_or(1);
    Ok((indices.shape.iter().enumerate().filter(|(d, _)| *d != vector_dim).map(|(_, n)| *n).collect(), components))
}

/// Checks that batching dimensions of the operand and of the indices correspond; `vector_dim` is excluded.
fn batching(x: &TensorType, dims: &[usize], indices: &TensorType, index_dims: &[usize], vector_dim: usize) -> Result<(), Why> {
    ensure!(dims.len() == index_dims.len(), "the operand has {} batching dimensions, the indices {}", dims.len(), index_dims.len());
    distinct_dims(index_dims, indices.rank(), "indices' batching dimensions")?;
    for (&d, &i) in dims.iter().zip(index_dims) {
        ensure!(i != vector_dim && x.shape[d] == indices.shape[i], "batching dimension {d} of {x} does not match {i} of {indices}");
    }
    Ok(())
}

/// The shape a gather gives.
pub fn gather_shape(d: &GatherDims, x: &TensorType, indices: &TensorType) -> Result<Vec<u64>, Why> {
    let (batch, components) = index_shape(indices, d.index_vector_dim)?;
    ensure!(d.start_index_map.len() as u64 == components, "the indices have {components} components, start_index_map {}", d.start_index_map.len());
    ensure!(d.slice_sizes.len() == x.rank(), "{} slice sizes for {x}", d.slice_sizes.len());
    distinct_dims(&d.start_index_map, x.rank(), "start_index_map")?;
    let dropped: Vec<usize> = d.collapsed_slice_dims.iter().chain(&d.operand_batching_dims).copied().collect();
    distinct_dims(&dropped, x.rank(), "collapsed_slice_dims")?;
    batching(x, &d.operand_batching_dims, indices, &d.start_indices_batching_dims, d.index_vector_dim)?;
    for (i, (&s, &n)) in d.slice_sizes.iter().zip(&x.shape).enumerate() {
        ensure!(s <= n && (s <= 1 || !dropped.contains(&i)), "slice size {s} of dimension {i} of {x}");
    }
    let window: Vec<u64> = (0..x.rank()).filter(|i| !dropped.contains(i)).map(|i| d.slice_sizes[i]).collect();
    ensure!(window.len() == d.offset_dims.len(), "{} offset_dims for {} window dimensions", d.offset_dims.len(), window.len());
    interleave(&batch, &window, &d.offset_dims)
}

/// Window sizes at `window_dims`, batch sizes at the other places.
fn interleave(batch: &[u64], window: &[u64], window_dims: &[usize]) -> Result<Vec<u64>, Why> {
    let rank = batch.len() + window.len();
    distinct_dims(window_dims, rank, "window dimensions")?;
    ensure!(window_dims.is_sorted(), "window dimensions {window_dims:?} are not ascending");
    let (mut b, mut w) = (batch.iter(), window.iter());
    Ok((0..rank).map(|i| if window_dims.contains(&i) { w.next() } else { b.next() }.copied().unwrap_or(0)).collect())
}

fn scatter(operands: &[&TensorType], d: &ScatterDims, r: Reducer, regions: &[Graph]) -> Result<Vec<TensorType>, Why> {
    let n = (operands.len() - 1) / 2;
    ensure!(operands.len() == 2 * n + 1, "{} operands of a scatter", operands.len());
    let (xs, indices, updates) = (&operands[..n], operands[n], &operands[n + 1..]);
    let (batch, components) = index_shape(indices, d.index_vector_dim)?;
    let mapped = d.scatter_dims_to_operand_dims.len();
    ensure!(mapped as u64 == components, "the indices have {components} components, scatter_dims_to_operand_dims {mapped}");
    for (x, u) in xs.iter().zip(updates) {
        ensure!(x.shape == xs[0].shape && u.shape == updates[0].shape && x.dtype == u.dtype, "operands and updates of a scatter do not match: {x} and {u}");
        distinct_dims(&d.scatter_dims_to_operand_dims, x.rank(), "scatter_dims_to_operand_dims")?;
        let dropped: Vec<usize> = d.inserted_window_dims.iter().chain(&d.input_batching_dims).copied().collect();
        distinct_dims(&dropped, x.rank(), "inserted_window_dims")?;
        batching(x, &d.input_batching_dims, indices, &d.scatter_indices_batching_dims, d.index_vector_dim)?;
        let bounds: Vec<u64> = (0..x.rank()).filter(|i| !dropped.contains(i)).map(|i| x.shape[i]).collect();
        ensure!(bounds.len() == d.update_window_dims.len(), "{} update_window_dims for {} window dimensions", d.update_window_dims.len(), bounds.len());
        distinct_dims(&d.update_window_dims, u.rank(), "update_window_dims")?;
        let window: Vec<u64> = d.update_window_dims.iter().map(|&i| u.shape[i]).collect();
        ensure!(window.iter().zip(&bounds).all(|(w, b)| w <= b), "the windows of {u} do not fit {x}");
        let shape = interleave(&batch, &window, &d.update_window_dims)?;
        ensure!(shape == u.shape, "the updates are {u} where the indices give {shape:?}");
    }
    combine(&xs.iter().map(|x| x.dtype).collect::<Vec<_>>(), r, regions)?;
    Ok(xs.iter().map(|x| (*x).clone()).collect())
}

fn branches(kind: &OpKind, operands: &[&TensorType], regions: &[Graph]) -> Result<Vec<TensorType>, Why> {
    let wanted = if *kind == OpKind::If { DType::I1 } else { DType::I32 };
    ensure!(operands[0].rank() == 0 && operands[0].dtype == wanted, "what decides is {}, not a scalar {wanted}", operands[0]);
    let captures: Vec<TensorType> = operands[1..].iter().map(|x| (*x).clone()).collect();
    let outputs: Vec<TensorType> = regions[0].outputs.iter().filter_map(|&v| regions[0].values.get(v)).map(|v| v.ty.clone()).collect();
    for r in regions {
        signature(r, &captures, &outputs, "a branch")?;
    }
    Ok(outputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32(shape: &[u64]) -> TensorType {
        TensorType::new(DType::F32, shape)
    }

    #[test]
    fn products_and_windows() {
        let d = DotDims { lhs_batch: vec![0], rhs_batch: vec![1], lhs_contract: vec![2], rhs_contract: vec![0] };
        assert_eq!(dot_shape(&d, &f32(&[2, 3, 4]), &f32(&[4, 2, 5])).unwrap(), [2, 3, 5]);
        assert!(dot_shape(&d, &f32(&[2, 3, 4]), &f32(&[5, 2, 5])).is_err());
        let w = Window { size: vec![3], stride: vec![2], pad: vec![(1, 1)], base_dilation: vec![2], window_dilation: vec![1], reversal: vec![] };
        assert_eq!(window_shape(&[4], &w).unwrap(), [4]);
    }

    #[test]
    fn wrong_types_say_why() {
        let e = result_types(&OpKind::Binary(BinaryOp::Add), &[&f32(&[2]), &f32(&[3])], &[]).unwrap_err();
        assert!(e.contains("tensor<2xf32>") && e.contains("tensor<3xf32>"));
        assert!(result_types(&OpKind::Unary(UnaryOp::Tanh), &[], &[]).unwrap_err().contains("0 operands"));
    }

    #[test]
    fn bits_of_another_width() {
        let u8s = TensorType::new(DType::UI8, [2, 4]);
        assert!(bitcast(&f32(&[2]), &u8s).is_ok() && bitcast(&u8s, &f32(&[2])).is_ok() && bitcast(&u8s, &f32(&[4])).is_err());
    }
}
