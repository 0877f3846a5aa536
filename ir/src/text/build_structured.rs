//! Ops with attributes that have a structure: dimension numbers, windows, reducers.

use super::attribute::Attr;
use super::build::recognise;
use super::names;
use super::ops::RawOp;
use super::parser::{Parser, Step};
use crate::attention::{Attention, Scale};
use crate::dtype::TensorType;
use crate::graph::Graph;
use crate::literal::{self, Literal};
use crate::op::{ConvDims, DotDims, GatherDims, OpKind, Reducer, ScatterDims, ValueId, Window};
use crate::sharding::AxisId;

/// Largest rank, and number of entries of an attribute that lists dimensions.
const MOST_DIMS: usize = 1 << 16;

/// Entries of a dialect attribute by key.
struct Entries<'a>(Vec<(Option<&'a str>, Attr<'a>)>);

impl<'a> Entries<'a> {
    fn dims(&self, key: &str) -> Option<Vec<usize>> {
        match self.0.iter().find(|(k, _)| *k == Some(key)) {
            Some((_, a)) => a.ints()?.into_iter().map(|i| usize::try_from(i).ok()).collect(),
            None => Some(Vec::new()),
        }
    }
    fn dim(&self, key: &str) -> Option<usize> {
        match &self.dims(key)?[..] {
            [] => Some(0),
            [d] => Some(*d),
            _ => None,
        }
    }
}

impl<'a> Parser<'a> {
    /// The integers of an attribute, which must be there.
    fn ints(&mut self, raw: &mut RawOp<'a>, keys: &[&str]) -> Step<Vec<i64>> {
        match raw.take(keys).as_ref().map(Attr::ints) {
            Some(Some(v)) if v.len() <= MOST_DIMS => Ok(v),
            Some(_) => Err(self.attribute_error(raw, &format!("`{}` is not a list of integers", keys[0]))),
            None => Err(self.attribute_error(raw, &format!("`{}` is missing", keys[0]))),
        }
    }

    fn naturals(&mut self, raw: &mut RawOp<'a>, keys: &[&str]) -> Step<Vec<u64>> {
        let v = self.ints(raw, keys)?;
        v.into_iter().map(|i| u64::try_from(i).map_err(|_| self.attribute_error(raw, &format!("`{}` has a negative entry", keys[0])))).collect()
    }

    fn dims(&mut self, raw: &mut RawOp<'a>, keys: &[&str]) -> Step<Vec<usize>> {
        Ok(self.naturals(raw, keys)?.into_iter().map(|i| i as usize).collect())
    }

    fn dim(&mut self, raw: &mut RawOp<'a>, keys: &[&str]) -> Step<usize> {
        match self.dims(raw, keys)?[..] {
            [d] => Ok(d),
            _ => Err(self.attribute_error(raw, &format!("`{}` is not one integer", keys[0]))),
        }
    }

    /// The dimensions of an attribute that may be absent.
    fn optional(&mut self, raw: &mut RawOp<'a>, keys: &[&str], absent: impl FnOnce() -> Vec<i64>) -> Step<Vec<i64>> {
        if raw.attributes.iter().any(|(n, _)| keys.contains(&n.as_str())) { self.ints(raw, keys) } else { Ok(absent()) }
    }

    fn flag(&mut self, raw: &mut RawOp<'a>, key: &str) -> Step<bool> {
        match raw.take(&[key]) {
            None => Ok(false),
            Some(Attr::Bool(b)) => Ok(b),
            Some(Attr::Unit) => Ok(true),
            Some(_) => Err(self.attribute_error(raw, &format!("`{key}` is not true or false"))),
        }
    }

    /// Every op that becomes one op and whose attributes have to be read.
    pub(super) fn build_structured(&mut self, raw: &mut RawOp<'a>, operands: Vec<ValueId>, types: Vec<TensorType>) -> Step<Vec<ValueId>> {
        let mut operands = operands;
        let mut regions = Vec::new();
        let kind = match raw.name {
            "stablehlo.compare" => self.compare(raw)?,
            "stablehlo.select" => OpKind::Select,
            "stablehlo.clamp" => OpKind::Clamp,
            "stablehlo.convert" => OpKind::Convert,
            "stablehlo.bitcast_convert" => OpKind::BitcastConvert,
            "stablehlo.reshape" => OpKind::Reshape,
            "stablehlo.iota" => OpKind::Iota { dim: self.dim(raw, &["dim", "iota_dimension"])? },
            "stablehlo.reduce_precision" => self.reduce_precision(raw)?,
            "stablehlo.broadcast_in_dim" => OpKind::Broadcast { dims: self.dims(raw, &["dims", "broadcast_dimensions"])? },
            "stablehlo.broadcast" => {
                let sizes = self.naturals(raw, &["sizes", "broadcast_sizes"])?;
                let rank = types.first().map_or(0, TensorType::rank);
                OpKind::Broadcast { dims: (sizes.len().min(rank)..rank).collect() }
            }
            "stablehlo.transpose" => OpKind::Transpose { perm: self.dims(raw, &["dims", "permutation"])? },
            "stablehlo.reverse" => OpKind::Reverse { dims: self.dims(raw, &["dims", "dimensions"])? },
            "stablehlo.concatenate" => OpKind::Concatenate { dim: self.dim(raw, &["dim", "dimension"])? },
            "stablehlo.slice" => OpKind::Slice {
                start: self.naturals(raw, &["start_indices"])?,
                limit: self.naturals(raw, &["limit_indices"])?,
                stride: self.naturals(raw, &["strides"])?,
            },
            "stablehlo.pad" => OpKind::Pad {
                low: self.ints(raw, &["low", "edge_padding_low"])?,
                high: self.ints(raw, &["high", "edge_padding_high"])?,
                interior: self.naturals(raw, &["interior", "interior_padding"])?,
            },
            "stablehlo.dynamic_slice" => OpKind::DynamicSlice { sizes: self.naturals(raw, &["sizes", "slice_sizes"])? },
            "stablehlo.dynamic_update_slice" => OpKind::DynamicUpdateSlice,
            "stablehlo.dynamic_reshape" | "stablehlo.dynamic_broadcast_in_dim" | "stablehlo.dynamic_iota" => {
                // The result's static type says what the shape operand holds.
                operands.pop();
                match raw.name {
                    "stablehlo.dynamic_reshape" => OpKind::Reshape,
                    "stablehlo.dynamic_iota" => OpKind::Iota { dim: self.dim(raw, &["dim", "iota_dimension"])? },
                    _ => OpKind::Broadcast { dims: self.dims(raw, &["dims", "broadcast_dimensions"])? },
                }
            }
            "stablehlo.real_dynamic_slice" => {
                let [start, limit, stride] = self.constant_operands(raw, &mut operands, 1)?;
                let natural = |v: Vec<i64>| v.into_iter().map(|i| u64::try_from(i).unwrap_or(u64::MAX)).collect::<Vec<u64>>();
                OpKind::Slice { start: natural(start), limit: natural(limit), stride: natural(stride) }
            }
            "stablehlo.dynamic_pad" => {
                let [low, high, interior] = self.constant_operands(raw, &mut operands, 2)?;
                OpKind::Pad { low, high, interior: interior.into_iter().map(|i| u64::try_from(i).unwrap_or(u64::MAX)).collect() }
            }
            "stablehlo.dot_general" => OpKind::Dot(self.dot_dims(raw)?),
            "stablehlo.dot" => {
                let last = operands.first().map_or(0, |&v| self.graph().ty(v).rank()).saturating_sub(1);
                OpKind::Dot(DotDims { lhs_contract: vec![last], rhs_contract: vec![0], ..DotDims::default() })
            }
            "stablehlo.convolution" => OpKind::Convolution(Box::new(self.conv_dims(raw)?)),
            "stablehlo.gather" | "stablehlo.dynamic_gather" => OpKind::Gather(self.gather_dims(raw, &mut operands)?),
            "stablehlo.scatter" => {
                let dims = self.scatter_dims(raw)?;
                let reducer = self.reducer(raw, &mut regions, true)?;
                OpKind::Scatter { dims, reducer }
            }
            "stablehlo.reduce" => {
                let mut dims = self.dims(raw, &["dimensions"])?;
                dims.sort_unstable();
                let reducer = self.applied_reducer(raw, &operands, &mut regions)?;
                OpKind::Reduce { dims, reducer }
            }
            "stablehlo.reduce_window" => {
                let rank = operands.first().map_or(0, |&v| self.graph().ty(v).rank());
                let window = self.window(raw, rank, true)?;
                let reducer = self.reducer(raw, &mut regions, false)?;
                OpKind::ReduceWindow { window, reducer }
            }
            "stablehlo.select_and_scatter" => {
                let rank = operands.first().map_or(0, |&v| self.graph().ty(v).rank());
                let window = self.window(raw, rank, false)?;
                let taken = std::mem::take(&mut raw.regions);
                regions = self.closed(raw, taken)?;
                OpKind::SelectAndScatter { window }
            }
            "stablehlo.sort" => {
                let rank = operands.first().map_or(0, |&v| self.graph().ty(v).rank()) as i64;
                let dim = self.optional(raw, &["dimension"], || vec![-1])?[..].first().copied().unwrap_or(-1);
                let stable = self.flag(raw, "is_stable")?;
                let taken = std::mem::take(&mut raw.regions);
                regions = self.closed(raw, taken)?;
                OpKind::Sort { dim: usize::try_from(if dim < 0 { dim.saturating_add(rank) } else { dim }).unwrap_or(usize::MAX), stable }
            }
            "stablehlo.rng_bit_generator" => {
                let word = raw.take(&["algorithm", "rng_algorithm"]);
                match word.as_ref().and_then(Attr::word) {
                    Some(w @ ("DEFAULT" | "THREE_FRY" | "PHILOX")) => OpKind::RngBitGenerator { algorithm: w.to_string() },
                    _ => return Err(self.attribute_error(raw, "its algorithm is not DEFAULT, THREE_FRY or PHILOX")),
                }
            }
            "chlo.top_k" => {
                let k = self.naturals(raw, &["k"])?.first().copied().unwrap_or(0);
                OpKind::TopK { k }
            }
            "shardwright.attention" => OpKind::Attention(Box::new(self.attention(raw)?)),
            "shardwright.attention_grad" => OpKind::AttentionGrad { attention: Box::new(self.attention(raw)?), bias: self.flag(raw, "bias_grad")? },
            name if name.starts_with("shardwright.") => self.partition_op(raw)?,
            name => return Err(self.report.unknown("E0102", name, raw.at, || (format!("the operation `{name}` is not supported"), None))),
        };
        self.emit(raw, kind, operands, types, regions)
    }

    /// The constants that all operands but the first `keep` are, which are dropped.
    fn constant_operands<const N: usize>(&mut self, raw: &RawOp<'a>, operands: &mut Vec<ValueId>, keep: usize) -> Step<[Vec<i64>; N]> {
        let graph = self.graph();
        let found: Vec<Option<Vec<i64>>> = operands.iter().skip(keep).map(|&v| graph.constant(v).and_then(integers)).collect();
        operands.truncate(keep);
        let found: Option<Vec<Vec<i64>>> = found.into_iter().collect();
        found.and_then(|v| v.try_into().ok()).ok_or_else(|| self.attribute_error(raw, "its sizes are not constants: lower the step with concrete shapes"))
    }

    fn compare(&mut self, raw: &mut RawOp<'a>) -> Step<OpKind> {
        let mut words: Vec<Attr<'a>> = std::mem::take(&mut raw.positional);
        words.extend(raw.take(&["comparison_direction"]));
        let total = [raw.take(&["compare_type"]), words.get(1).cloned()].iter().flatten().any(|a| a.word() == Some("TOTALORDER"));
        let direction = words.first().and_then(Attr::word).and_then(|w| names::DIRECTIONS.iter().find(|(_, n)| *n == w));
        match direction {
            Some((direction, _)) => Ok(OpKind::Compare { direction: *direction, total }),
            None => Err(self.attribute_error(raw, "its direction is not EQ, NE, GE, GT, LE or LT")),
        }
    }

    fn reduce_precision(&mut self, raw: &mut RawOp<'a>) -> Step<OpKind> {
        if let Some(format) = raw.take(&["format"]) {
            let parsed = format.word().and_then(|w| w.strip_prefix('e')).and_then(|w| w.split_once('m'));
            if let Some((Ok(exponent), Ok(mantissa))) = parsed.map(|(e, m)| (e.parse(), m.parse())) {
                return Ok(OpKind::ReducePrecision { exponent, mantissa });
            }
            return Err(self.attribute_error(raw, "its format is not of the form e5m10"));
        }
        let exponent = self.dim(raw, &["exponent_bits"])?.min(1000) as u32;
        Ok(OpKind::ReducePrecision { exponent, mantissa: self.dim(raw, &["mantissa_bits"])?.min(1000) as u32 })
    }

    fn dot_dims(&mut self, raw: &mut RawOp<'a>) -> Step<DotDims> {
        if let Some(Attr::Dialect(entries)) = raw.take(&["dot_dimension_numbers"]) {
            let e = Entries(entries);
            let read = || {
                Some(DotDims {
                    lhs_batch: e.dims("lhs_batching_dimensions")?,
                    rhs_batch: e.dims("rhs_batching_dimensions")?,
                    lhs_contract: e.dims("lhs_contracting_dimensions")?,
                    rhs_contract: e.dims("rhs_contracting_dimensions")?,
                })
            };
            return read().ok_or_else(|| self.attribute_error(raw, "its dimension numbers are not lists of dimensions"));
        }
        let mut pair = |p: &mut Self, key: &str| -> Step<(Vec<usize>, Vec<usize>)> {
            let natural = |a: &Attr<'a>| a.ints()?.into_iter().map(|i| usize::try_from(i).ok()).collect::<Option<Vec<usize>>>();
            match raw.take(&[key]) {
                None => Ok((Vec::new(), Vec::new())),
                Some(Attr::Product(parts)) if parts.len() == 2 => match (natural(&parts[0]), natural(&parts[1])) {
                    (Some(l), Some(r)) => Ok((l, r)),
                    _ => Err(p.attribute_error(raw, &format!("`{key}` has an entry that is not a dimension"))),
                },
                Some(_) => Err(p.attribute_error(raw, &format!("`{key}` is not of the form [0] x [0]"))),
            }
        };
        let (lhs_batch, rhs_batch) = pair(self, "batching_dims")?;
        let (lhs_contract, rhs_contract) = pair(self, "contracting_dims")?;
        Ok(DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract })
    }

    fn conv_dims(&mut self, raw: &mut RawOp<'a>) -> Step<ConvDims> {
        let product = match raw.take(&["dim_numbers", "dimension_numbers"]) {
            Some(Attr::Product(p)) => p,
            Some(Attr::Dialect(entries)) => match entries.into_iter().next() {
                Some((_, Attr::Product(p))) => p,
                _ => return Err(self.attribute_error(raw, "its dimension numbers are not of the form [b, 0, f]x[0, i, o]->[b, 0, f]")),
            },
            _ => return Err(self.attribute_error(raw, "its dimension numbers are missing")),
        };
        let parts: Option<Vec<_>> = product.iter().zip([["b", "f"], ["i", "o"], ["b", "f"]]).map(|(a, roles)| roles_of(a, roles)).collect();
        let Some([input, kernel, output]) = parts.and_then(|p| <[_; 3]>::try_from(p).ok()) else {
            return Err(self.attribute_error(raw, "its dimension numbers are not of the form [b, 0, f]x[0, i, o]->[b, 0, f]"));
        };
        let n = input.2.len();
        match raw.take(&["window"]) {
            Some(Attr::Dict(d)) => {
                let full = [
                    ("stride", "window_strides"),
                    ("pad", "padding"),
                    ("lhs_dilate", "lhs_dilation"),
                    ("rhs_dilate", "rhs_dilation"),
                    ("reverse", "window_reversal"),
                ];
                for (key, value) in d {
                    match full.iter().find(|(short, _)| *short == key) {
                        Some((_, long)) => raw.attributes.push(((*long).to_string(), value)),
                        None => {
                            return Err(self.attribute_error(raw, &format!("its window has the unknown entry `{}`", key.chars().take(40).collect::<String>())));
                        }
                    }
                }
            }
            None => {}
            Some(_) => return Err(self.attribute_error(raw, "its window is not of the form {stride = …}")),
        }
        let reversal = self.optional(raw, &["window_reversal"], || vec![0; n])?.into_iter().map(|b| b != 0).collect();
        let window = Window {
            size: Vec::new(),
            stride: self.windowed(raw, "window_strides", n)?,
            pad: self.padding(raw, n)?,
            base_dilation: self.windowed(raw, "lhs_dilation", n)?,
            window_dilation: self.windowed(raw, "rhs_dilation", n)?,
            reversal,
        };
        let window = Window { size: vec![1; n], ..window };
        let mut groups = |p: &mut Self, key: &str| match p.optional(raw, &[key], || vec![1])?[..] {
            [g] if g > 0 => Ok(g as u64),
            _ => Err(p.attribute_error(raw, &format!("`{key}` is not a positive integer"))),
        };
        let (feature_groups, batch_groups) = (groups(self, "feature_group_count")?, groups(self, "batch_group_count")?);
        Ok(ConvDims {
            input_batch: input.0,
            input_feature: input.1,
            input_spatial: input.2,
            kernel_input: kernel.0,
            kernel_output: kernel.1,
            kernel_spatial: kernel.2,
            output_batch: output.0,
            output_feature: output.1,
            output_spatial: output.2,
            window,
            feature_groups,
            batch_groups,
        })
    }

    /// A positive number per dimension, 1 where the attribute is absent.
    fn windowed(&mut self, raw: &mut RawOp<'a>, key: &str, rank: usize) -> Step<Vec<u64>> {
        let v = self.optional(raw, &[key], || vec![1; rank])?;
        v.into_iter().map(|i| u64::try_from(i).map_err(|_| self.attribute_error(raw, &format!("`{key}` has a negative entry")))).collect()
    }

    /// Pairs of edge padding, none where the attribute is absent.
    fn padding(&mut self, raw: &mut RawOp<'a>, rank: usize) -> Step<Vec<(i64, i64)>> {
        let flat = match raw.take(&["padding"]) {
            None => return Ok(vec![(0, 0); rank]),
            Some(Attr::Dense(l)) => integers(&l),
            Some(Attr::Array(rows)) => {
                let rows: Option<Vec<Vec<i64>>> = rows.iter().map(|r| r.ints().filter(|v| v.len() == 2)).collect();
                rows.map(|r| r.concat())
            }
            Some(_) => None,
        };
        match flat {
            Some(v) if v.len() == 2 * rank => Ok(v.chunks(2).map(|c| (c[0], c[1])).collect()),
            _ => Err(self.attribute_error(raw, &format!("its padding is not {rank} pairs"))),
        }
    }

    fn window(&mut self, raw: &mut RawOp<'a>, rank: usize, dilated: bool) -> Step<Window> {
        let size =
            if raw.attributes.iter().any(|(n, _)| n == "window_dimensions") || dilated { self.naturals(raw, &["window_dimensions"])? } else { vec![1; rank] };
        Ok(Window {
            size,
            stride: self.windowed(raw, "window_strides", rank)?,
            pad: self.padding(raw, rank)?,
            base_dilation: self.windowed(raw, "base_dilations", rank)?,
            window_dilation: self.windowed(raw, "window_dilations", rank)?,
            reversal: Vec::new(),
        })
    }

    fn gather_dims(&mut self, raw: &mut RawOp<'a>, operands: &mut Vec<ValueId>) -> Step<GatherDims> {
        let slice_sizes = if raw.name == "stablehlo.dynamic_gather" {
            let [sizes] = self.constant_operands(raw, operands, 2)?;
            sizes.into_iter().map(|i| u64::try_from(i).unwrap_or(u64::MAX)).collect()
        } else {
            self.naturals(raw, &["slice_sizes"])?
        };
        let indices_are_sorted = self.flag(raw, "indices_are_sorted")?;
        let Some(Attr::Dialect(entries)) = raw.take(&["dimension_numbers"]) else {
            return Err(self.attribute_error(raw, "its dimension numbers are missing"));
        };
        let e = Entries(entries);
        let read = || {
            Some(GatherDims {
                offset_dims: e.dims("offset_dims")?,
                collapsed_slice_dims: e.dims("collapsed_slice_dims")?,
                operand_batching_dims: e.dims("operand_batching_dims")?,
                start_indices_batching_dims: e.dims("start_indices_batching_dims")?,
                start_index_map: e.dims("start_index_map")?,
                index_vector_dim: e.dim("index_vector_dim")?,
                slice_sizes,
                indices_are_sorted,
            })
        };
        read().ok_or_else(|| self.attribute_error(raw, "its dimension numbers are not lists of dimensions"))
    }

    fn scatter_dims(&mut self, raw: &mut RawOp<'a>) -> Step<ScatterDims> {
        let (indices_are_sorted, unique_indices) = (self.flag(raw, "indices_are_sorted")?, self.flag(raw, "unique_indices")?);
        let Some(Attr::Dialect(entries)) = raw.take(&["scatter_dimension_numbers"]) else {
            return Err(self.attribute_error(raw, "its dimension numbers are missing"));
        };
        let e = Entries(entries);
        let read = || {
            Some(ScatterDims {
                update_window_dims: e.dims("update_window_dims")?,
                inserted_window_dims: e.dims("inserted_window_dims")?,
                input_batching_dims: e.dims("input_batching_dims")?,
                scatter_indices_batching_dims: e.dims("scatter_indices_batching_dims")?,
                scatter_dims_to_operand_dims: e.dims("scatter_dims_to_operand_dims")?,
                index_vector_dim: e.dim("index_vector_dim")?,
                indices_are_sorted,
                unique_indices,
            })
        };
        read().ok_or_else(|| self.attribute_error(raw, "its dimension numbers are not lists of dimensions"))
    }

    /// The reducer of the op's one region: recognised, or general with the region kept.
    fn reducer(&mut self, raw: &mut RawOp<'a>, regions: &mut Vec<Graph>, scatter: bool) -> Step<Reducer> {
        let taken = std::mem::take(&mut raw.regions);
        let graphs = self.closed(raw, taken)?;
        if let [region] = &graphs[..]
            && let Some(r) = recognise(region, scatter)
        {
            return Ok(r);
        }
        *regions = graphs;
        Ok(Reducer::General)
    }

    /// The reducer of `applies stablehlo.add`, or of the region.
    fn applied_reducer(&mut self, raw: &mut RawOp<'a>, operands: &[ValueId], regions: &mut Vec<Graph>) -> Step<Reducer> {
        let Some(applied) = raw.positional.pop() else { return self.reducer(raw, regions, false) };
        let op = applied.word().and_then(names::binary).and_then(Reducer::from_binary);
        match op {
            Some(r) if operands.len() == 2 => Ok(r),
            _ => Err(self.attribute_error(raw, &format!("it cannot apply `{}`", applied.word().unwrap_or_default()))),
        }
    }

    /// What attention and its derivative have in common.
    fn attention(&mut self, raw: &mut RawOp<'a>) -> Step<Attention> {
        let dims = match raw.take(&["dims"]) {
            Some(Attr::Str(s)) => Attention::from_subscripts(&s),
            _ => None,
        };
        let Some(dims) = dims else { return Err(self.attribute_error(raw, "its dims are not of the form \"bqhd,bkhd,bkhe->bqhe\"")) };
        let scale = match raw.take(&["scale"]) {
            None => Scale(1.0),
            Some(Attr::Float(x)) => Scale(x),
            Some(_) => return Err(self.attribute_error(raw, "its scale is not a float")),
        };
        Ok(Attention { scale, causal: self.flag(raw, "causal")?, offset: self.flag(raw, "offset")?, ..dims })
    }

    /// The ops that partitioning adds, in the form the printer gives them.
    fn partition_op(&mut self, raw: &mut RawOp<'a>) -> Step<OpKind> {
        let axes: Vec<AxisId> = self.naturals(raw, &["axes"])?.into_iter().map(|a| AxisId(u32::try_from(a).unwrap_or(u32::MAX))).collect();
        Ok(match raw.name {
            "shardwright.axis_index" => OpKind::AxisIndex { axes },
            "shardwright.all_reduce" => OpKind::AllReduce { axes, reducer: self.named_reducer(raw)? },
            "shardwright.all_gather" => OpKind::AllGather { axes, dim: self.dim(raw, &["dim"])? },
            "shardwright.reduce_scatter" => OpKind::ReduceScatter { axes, dim: self.dim(raw, &["dim"])?, reducer: self.named_reducer(raw)? },
            "shardwright.all_to_all" => OpKind::AllToAll { axes, split: self.dim(raw, &["split"])?, concat: self.dim(raw, &["concat"])? },
            _ => OpKind::ShardSlice { axes, dim: self.dim(raw, &["dim"])? },
        })
    }

    fn named_reducer(&mut self, raw: &mut RawOp<'a>) -> Step<Reducer> {
        let word = raw.take(&["reducer"]);
        match word.as_ref().and_then(Attr::word).and_then(|w| names::REDUCERS.iter().find(|(_, n)| *n == w)) {
            Some((r, _)) => Ok(*r),
            None => Err(self.attribute_error(raw, "its reducer is not known")),
        }
    }
}

/// Dimensions with the roles of two letters, and the spatial ones in order.
fn roles_of(a: &Attr<'_>, roles: [&str; 2]) -> Option<(usize, usize, Vec<usize>)> {
    let Attr::Array(items) = a else { return None };
    let mut named = [None, None];
    let mut spatial = vec![None; items.len().checked_sub(2)?];
    for (i, item) in items.iter().enumerate() {
        match item {
            Attr::Word(w) => named[roles.iter().position(|r| r == w)?] = Some(i),
            Attr::Int(s) => *spatial.get_mut(usize::try_from(*s).ok()?)? = Some(i),
            _ => return None,
        }
    }
    Some((named[0]?, named[1]?, spatial.into_iter().collect::<Option<_>>()?))
}

/// The integers of a small constant.
fn integers(l: &Literal) -> Option<Vec<i64>> {
    if !l.ty.dtype.is_integer() || l.ty.elements() > MOST_DIMS as u64 {
        return None;
    }
    l.to_bytes().chunks(l.ty.dtype.bytes() as usize).map(|b| literal::decode(l.ty.dtype, b).map(|x| x as i64)).collect()
}
