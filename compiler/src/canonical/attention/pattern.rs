//! Finds attentions: an exponential whose argument comes from a product, and what is made of it until products read it again.
//!
//! Backwards from the exponential: the score's maximum taken away, a mask, a bias, a factor, a product. Forwards, in the order of ops: everything that
//! [`Expression`]s can say, up to products. A product of the softmax with values is the result, one with a gradient is the values' gradient, products of
//! the scores' gradients with keys and queries are theirs. Whatever else reads something in between keeps the whole as it is.
//! Dimensions are followed by labels, so that any order and any transpose is understood.

use super::algebra::Expression;
use ir::graph::{Graph, Op};
use ir::op::{BinaryOp, Direction, DotDims, OpKind, Reducer, UnaryOp};
use ir::{DType, OpId, PrimaryMap, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// What a dimension is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    /// A dimension of the scores, by its position there.
    Score(usize),
    /// A dimension that queries and keys are contracted over.
    Depth(usize),
    /// A dimension that values have alone.
    Value(usize),
}

/// A value whose dimensions are labelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Labelled {
    /// The value.
    pub(super) value: ValueId,
    /// A label per dimension.
    pub(super) labels: Vec<Label>,
}

/// An attention in a graph.
#[derive(Debug)]
pub(super) struct Found {
    /// Queries, keys and values, without transposes.
    pub(super) q: Labelled,
    /// The keys.
    pub(super) k: Labelled,
    /// The values.
    pub(super) v: Labelled,
    /// What is added to the scores.
    pub(super) bias: Option<Labelled>,
    /// Label of the keys, and of the queries.
    pub(super) key: Label,
    /// Label of the queries.
    pub(super) query: Label,
    /// Factor of the scores.
    pub(super) scale: f64,
    /// Whether keys after the query are left out.
    pub(super) causal: bool,
    /// The product that is the result.
    pub(super) result: Sink,
    /// The result's gradient, and the products that are gradients of queries, keys and values.
    pub(super) gradient: Option<Labelled>,
    /// Products that are gradients of the queries, keys and values.
    pub(super) gradients: [Option<Sink>; 3],
}

/// A product that reads the softmax or the scores' gradients: its op, and the labels of its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sink {
    /// The op.
    pub(super) op: OpId,
    /// Labels of its result.
    pub(super) labels: Vec<Label>,
}

/// Why an exponential is not taken.
pub(super) enum Refusal {
    /// It has nothing to do with attention.
    Other,
    /// It is an attention, but for this.
    Because(&'static str),
}

type Search<T> = Result<T, Refusal>;

fn other<T>() -> Search<T> {
    Err(Refusal::Other)
}

/// Scores below this are those of a key that is not seen.
const MASKED: f64 = -1e8;

/// An op's only operation.
fn def(graph: &Graph, v: ValueId) -> Option<&Op> {
    graph.def_op(v).map(|id| &graph.ops[id])
}

fn splat(graph: &Graph, v: ValueId) -> Option<f64> {
    graph.constant(v).and_then(ir::Literal::splat_value)
}

/// Passes over transposes and conversions that lose nothing.
fn peel(graph: &Graph, value: ValueId, labels: Vec<Label>) -> Labelled {
    let mut found = Labelled { value, labels };
    while let Some(op) = def(graph, found.value) {
        match &op.kind {
            OpKind::Transpose { perm } => {
                let mut labels = found.labels.clone();
                perm.iter().zip(&found.labels).for_each(|(&p, &l)| labels[p] = l);
                found.labels = labels;
            }
            OpKind::Convert => {
                let (from, to) = (graph.ty(op.operands[0]).dtype, graph.ty(found.value).dtype);
                if !(from.is_float() && to.is_float() && from.bits() < to.bits()) {
                    break;
                }
            }
            _ => break,
        }
        found.value = op.operands[0];
    }
    found
}

/// Labels of a product's operands when those of its result are known; the contracted ones get their own.
fn dot_labels(graph: &Graph, op: &Op, d: &DotDims, result: &[Label], contracted: impl Fn(usize) -> Label) -> [Vec<Label>; 2] {
    let ranks = [graph.ty(op.operands[0]).rank(), graph.ty(op.operands[1]).rank()];
    let mut labels = [vec![Label::Depth(0); ranks[0]], vec![Label::Depth(0); ranks[1]]];
    let mut rest = result.iter().copied();
    for (&l, &r) in d.lhs_batch.iter().zip(&d.rhs_batch) {
        let label = rest.next().unwrap_or(Label::Depth(0));
        (labels[0][l], labels[1][r]) = (label, label);
    }
    d.lhs_free(ranks[0]).into_iter().zip(rest.by_ref()).for_each(|(i, l)| labels[0][i] = l);
    d.rhs_free(ranks[1]).into_iter().zip(rest).for_each(|(i, l)| labels[1][i] = l);
    for (i, (&l, &r)) in d.lhs_contract.iter().zip(&d.rhs_contract).enumerate() {
        (labels[0][l], labels[1][r]) = (contracted(i), contracted(i));
    }
    labels
}

/// Labels of a product's other operand and of its result, when those of operand `side` are known; its own dimensions get labels of their own.
fn dot_sink(graph: &Graph, op: &Op, d: &DotDims, side: usize, known: &[Label], own: impl Fn(usize) -> Label) -> (Vec<Label>, Vec<Label>) {
    let rank = graph.ty(op.operands[1 - side]).rank();
    let (mine, theirs) = match side {
        0 => ((&d.lhs_batch, &d.lhs_contract, d.lhs_free(known.len())), (&d.rhs_batch, &d.rhs_contract, d.rhs_free(rank))),
        _ => ((&d.rhs_batch, &d.rhs_contract, d.rhs_free(known.len())), (&d.lhs_batch, &d.lhs_contract, d.lhs_free(rank))),
    };
    let mut labels = vec![Label::Depth(0); rank];
    mine.0.iter().zip(theirs.0).chain(mine.1.iter().zip(theirs.1)).for_each(|(&m, &t)| labels[t] = known[m]);
    theirs.2.iter().enumerate().for_each(|(i, &t)| labels[t] = own(i));
    let batch = mine.0.iter().map(|&m| known[m]);
    let free: Vec<Label> = mine.2.iter().map(|&m| known[m]).collect();
    let free_theirs: Vec<Label> = theirs.2.iter().map(|&t| labels[t]).collect();
    let (first, second) = if side == 0 { (free, free_theirs) } else { (free_theirs, free) };
    let result = batch.chain(first).chain(second).collect();
    (labels, result)
}

/// What is read backwards from the exponential.
struct Scores {
    dot: OpId,
    labels: Vec<Label>,
    scale: f64,
    bias: Option<(ValueId, Vec<Label>)>,
    mask: Option<(ValueId, Vec<Label>)>,
}

/// The product behind a value, with what is done to it on the way.
fn scores(graph: &Graph, v: ValueId, labels: Vec<Label>) -> Option<Scores> {
    let op = def(graph, v)?;
    let inner = |i: usize| scores(graph, op.operands[i], labels.clone());
    match &op.kind {
        OpKind::Dot(_) => Some(Scores { dot: graph.def_op(v)?, labels, scale: 1.0, bias: None, mask: None }),
        OpKind::Convert if graph.ty(op.operands[0]).dtype.is_float() => inner(0),
        OpKind::Transpose { perm } => {
            let mut permuted = labels.clone();
            perm.iter().zip(&labels).for_each(|(&p, &l)| permuted[p] = l);
            scores(graph, op.operands[0], permuted)
        }
        OpKind::Binary(kind @ (BinaryOp::Multiply | BinaryOp::Divide)) => {
            let (x, c) = match (splat(graph, op.operands[1]), splat(graph, op.operands[0])) {
                (Some(c), _) => (0, c),
                (None, Some(c)) if *kind == BinaryOp::Multiply => (1, c),
                _ => return None,
            };
            let mut s = inner(x).filter(|s| s.bias.is_none() && s.mask.is_none())?;
            s.scale *= if *kind == BinaryOp::Multiply { c } else { 1.0 / c };
            Some(s)
        }
        OpKind::Binary(BinaryOp::Add) => {
            let (mut s, b) = match inner(0) {
                Some(s) => (s, op.operands[1]),
                None => (inner(1)?, op.operands[0]),
            };
            if s.bias.is_some() || s.mask.is_some() {
                return None;
            }
            s.bias = Some((b, labels));
            Some(s)
        }
        OpKind::Select => {
            let low = splat(graph, op.operands[2])?;
            let mut s = inner(1).filter(|s| low <= MASKED && s.mask.is_none() && graph.ty(op.operands[0]).rank() == labels.len())?;
            s.mask = Some((op.operands[0], labels));
            Some(s)
        }
        _ => None,
    }
}

/// A position along one label, and a number.
type Affine = (Option<Label>, f64);

fn affine(graph: &Graph, v: ValueId, labels: &[Option<Label>]) -> Option<Affine> {
    let op = def(graph, v)?;
    match &op.kind {
        OpKind::Iota { dim } => Some((labels[*dim], 0.0)),
        OpKind::Constant(l) => Some((None, l.splat_value()?)),
        OpKind::Broadcast { dims } => affine(graph, op.operands[0], &dims.iter().map(|&d| labels[d]).collect::<Vec<_>>()),
        OpKind::Transpose { perm } => affine(graph, op.operands[0], &permuted(perm, labels)),
        OpKind::Binary(kind @ (BinaryOp::Add | BinaryOp::Subtract)) => {
            let (a, b) = (affine(graph, op.operands[0], labels)?, affine(graph, op.operands[1], labels)?);
            match (kind, a, b) {
                (BinaryOp::Add, (l, x), (None, y)) | (BinaryOp::Add, (None, x), (l, y)) => Some((l, x + y)),
                (_, (l, x), (None, y)) => Some((l, x - y)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn permuted(perm: &[usize], labels: &[Option<Label>]) -> Vec<Option<Label>> {
    let mut out = labels.to_vec();
    perm.iter().zip(labels).for_each(|(&p, &l)| out[p] = l);
    out
}

/// The query's label, if a mask shows each query the keys up to its own position.
fn causal(graph: &Graph, v: ValueId, labels: &[Option<Label>], key: Label) -> Option<Label> {
    let op = def(graph, v)?;
    match &op.kind {
        OpKind::Broadcast { dims } => causal(graph, op.operands[0], &dims.iter().map(|&d| labels[d]).collect::<Vec<_>>(), key),
        OpKind::Transpose { perm } => causal(graph, op.operands[0], &permuted(perm, labels), key),
        OpKind::Select if splat(graph, op.operands[1]) == Some(1.0) && splat(graph, op.operands[2]) == Some(0.0) => causal(graph, op.operands[0], labels, key),
        OpKind::Compare { direction, .. } if graph.ty(op.operands[0]).dtype.is_integer() => {
            let (a, b) = (affine(graph, op.operands[0], labels)?, affine(graph, op.operands[1], labels)?);
            // As `query + x >= key + y`.
            let ((q, x), (k, y)) = match direction {
                Direction::Ge => (a, b),
                Direction::Gt => ((a.0, a.1 - 1.0), b),
                Direction::Le => (b, a),
                Direction::Lt => ((b.0, b.1 - 1.0), a),
                Direction::Eq | Direction::Ne => return None,
            };
            (k == Some(key) && x == y).then_some(q?).filter(|&q| q != key)
        }
        _ => None,
    }
}

/// What an op between the exponential and the products is.
#[derive(Clone)]
struct Symbolic {
    labels: Vec<Label>,
    expression: Expression,
}

struct Region<'g> {
    graph: &'g Graph,
    users: &'g PrimaryMap<ValueId, Vec<OpId>>,
    key: Label,
    mask: Option<ValueId>,
    q: Labelled,
    k: Labelled,
    known: BTreeMap<ValueId, Symbolic>,
    v: Option<Labelled>,
    result: Option<Sink>,
    gradient: Option<Labelled>,
    gradients: [Option<Sink>; 3],
    scale: f64,
    /// Whether the product of queries and keys has batch dimensions.
    heads: bool,
}

/// The attention around an exponential.
pub(super) fn find(graph: &Graph, users: &PrimaryMap<ValueId, Vec<OpId>>, id: OpId) -> Search<Found> {
    let op = &graph.ops[id];
    let (exponential, x) = (op.results[0], op.operands[0]);
    let rank = graph.ty(exponential).rank();
    let sums = users[exponential].iter().filter_map(|&u| match &graph.ops[u].kind {
        OpKind::Reduce { dims, reducer: Reducer::Add } if dims.len() == 1 && graph.ops[u].results.len() == 1 => Some(dims[0]),
        _ => None,
    });
    let Some(row) = sums.min() else { return other() };
    let all: Vec<Label> = (0..rank).map(Label::Score).collect();
    let key = all[row];
    let shifted = match def(graph, x) {
        Some(op) if op.kind == OpKind::Binary(BinaryOp::Subtract) => match def(graph, op.operands[1]).map(|b| &b.kind) {
            Some(OpKind::Broadcast { dims }) if !dims.contains(&row) => op.operands[0],
            _ => x,
        },
        _ => x,
    };
    let Some(s) = scores(graph, shifted, all.clone()) else { return other() };
    let dot = &graph.ops[s.dot];
    let OpKind::Dot(d) = &dot.kind else { return other() };
    let [left, right] = dot_labels(graph, dot, d, &s.labels, Label::Depth);
    let (q, k) = if right.contains(&key) && !left.contains(&key) {
        (0, 1)
    } else if left.contains(&key) && !right.contains(&key) {
        (1, 0)
    } else {
        return other();
    };
    let labels = [left, right];
    let peeled = |i: usize| peel(graph, dot.operands[i], labels[i].clone());
    let (q, k) = (peeled(q), peeled(k));
    if k.labels.iter().any(|l| *l != key && matches!(l, Label::Score(_)) && !q.labels.contains(l)) {
        return other();
    }
    let free: Vec<Label> = all.iter().copied().filter(|l| *l != key && !k.labels.contains(l)).collect();
    let extent = |l: &Label| if let Label::Score(i) = l { graph.ty(exponential).shape[*i] } else { 0 };
    let Some(mut query) = free.iter().copied().max_by_key(extent) else { return other() };
    let mut is_causal = false;
    let mut region = Region {
        graph,
        users,
        key,
        mask: s.mask.as_ref().map(|m| m.0),
        q,
        k,
        known: BTreeMap::from([(exponential, Symbolic { labels: all, expression: Expression::exponentials() })]),
        v: None,
        result: None,
        gradient: None,
        gradients: [None, None, None],
        scale: s.scale,
        heads: !d.lhs_batch.is_empty(),
    };
    region.follow(exponential)?;
    if let Some((mask, labels)) = &s.mask {
        let labels: Vec<Option<Label>> = labels.iter().map(|l| Some(*l)).collect();
        match causal(graph, *mask, &labels, key).filter(|l| free.contains(l)) {
            Some(l) => (query, is_causal) = (l, true),
            None => return Err(Refusal::Because("its mask is not known to leave every query a key")),
        }
    }
    let bias = s.bias.as_ref().map(|(v, labels)| bias(graph, *v, labels.clone()));
    region.finish(query, is_causal, bias)
}

/// A bias without what it is repeated over.
fn bias(graph: &Graph, value: ValueId, labels: Vec<Label>) -> Labelled {
    let mut found = peel(graph, value, labels);
    while let Some(op) = def(graph, found.value)
        && let OpKind::Broadcast { dims } = &op.kind
        && dims.iter().zip(&graph.ty(op.operands[0]).shape).all(|(&d, &n)| graph.ty(found.value).shape[d] == n)
    {
        found = peel(graph, op.operands[0], dims.iter().map(|&d| found.labels[d]).collect());
    }
    found
}

impl Region<'_> {
    /// Follows all that depends on the exponential.
    fn follow(&mut self, exponential: ValueId) -> Search<()> {
        let mut pending: BTreeSet<OpId> = self.users[exponential].iter().copied().collect();
        let mut escapes = false;
        while let Some(id) = pending.pop_first() {
            let op = &self.graph.ops[id];
            if let OpKind::Dot(d) = &op.kind {
                escapes |= !self.sink(id, op, d);
                continue;
            }
            match self.symbolic(op) {
                Some(s) => {
                    let v = op.results[0];
                    escapes |= self.graph.outputs.contains(&v);
                    self.known.insert(v, s);
                    pending.extend(&self.users[v]);
                }
                None => escapes = true,
            }
        }
        match (&self.result, escapes) {
            // Without heads it is a softmax over classes.
            (None, true) if self.heads && self.known.values().any(|s| s.expression.is_softmax()) => {
                Err(Refusal::Because("its weights are changed before they meet the values (dropout)"))
            }
            (None, _) => other(),
            (Some(_), true) => Err(Refusal::Because("its weights are used in another way too")),
            (Some(_), false) => Ok(()),
        }
    }

    /// What an op of one result makes of symbolic operands.
    fn symbolic(&mut self, op: &Op) -> Option<Symbolic> {
        let graph = self.graph;
        let known = |s: &Self, i: usize| op.operands.get(i).and_then(|v| s.known.get(v)).cloned();
        match &op.kind {
            OpKind::Convert if graph.ty(op.results[0]).dtype.is_float() => known(self, 0),
            OpKind::Unary(UnaryOp::Negate) => known(self, 0).map(|s| Symbolic { expression: Expression::default().plus(&s.expression, -1.0), ..s }),
            OpKind::Transpose { perm } => known(self, 0).map(|s| Symbolic { labels: perm.iter().map(|&p| s.labels[p]).collect(), ..s }),
            OpKind::Broadcast { dims } => {
                let s = known(self, 0)?;
                // A row's value repeated over the row.
                let new: Vec<usize> = (0..graph.ty(op.results[0]).rank()).filter(|d| !dims.contains(d)).collect();
                if new.len() != 1 || s.labels.contains(&self.key) {
                    return None;
                }
                let mut labels = vec![self.key; dims.len() + 1];
                dims.iter().zip(&s.labels).for_each(|(&d, &l)| labels[d] = l);
                Some(Symbolic { labels, ..s })
            }
            OpKind::Reduce { dims, reducer: Reducer::Add } if op.operands.len() == 2 && splat(graph, op.operands[1]) == Some(0.0) => {
                let s = known(self, 0).filter(|s| dims.len() == 1 && s.labels[dims[0]] == self.key)?;
                let labels = s.labels.iter().copied().filter(|l| *l != self.key).collect();
                Some(Symbolic { labels, expression: s.expression.row_sum()? })
            }
            OpKind::Select => {
                let s = known(self, 1)?;
                let masked = self.mask == Some(op.operands[0]) && splat(graph, op.operands[2]) == Some(0.0) && s.expression.vanishes();
                masked.then_some(s)
            }
            OpKind::Binary(kind) => {
                let labels = known(self, 0).or_else(|| known(self, 1))?.labels;
                let (a, b) = (self.operand(op.operands[0], &labels)?, self.operand(op.operands[1], &labels)?);
                let expression = match kind {
                    BinaryOp::Add => a.plus(&b, 1.0),
                    BinaryOp::Subtract => a.plus(&b, -1.0),
                    BinaryOp::Multiply => a.times(&b)?,
                    BinaryOp::Divide => a.over(&b)?,
                    _ => return None,
                };
                Some(Symbolic { labels, expression })
            }
            _ => None,
        }
    }

    /// An operand that lies like the other one: known, a number, or the gradients of the softmax.
    fn operand(&mut self, v: ValueId, labels: &[Label]) -> Option<Expression> {
        if let Some(s) = self.known.get(&v) {
            return (s.labels == labels).then(|| s.expression.clone());
        }
        if let Some(c) = splat(self.graph, v) {
            return Some(Expression::number(c));
        }
        let product = peel(self.graph, v, labels.to_vec());
        let op = def(self.graph, product.value)?;
        let OpKind::Dot(d) = &op.kind else { return None };
        let sides = dot_labels(self.graph, op, d, &product.labels, Label::Value);
        let [a, b] = [0, 1].map(|i| peel(self.graph, op.operands[i], sides[i].clone()));
        let v = self.v.as_ref()?;
        let gradient = if same(&b, v) {
            a
        } else if same(&a, v) {
            b
        } else {
            return None;
        };
        if self.gradient.as_ref().is_some_and(|g| !same(g, &gradient)) {
            return None;
        }
        self.gradient = Some(gradient);
        Some(Expression::gradients())
    }

    /// Takes a product; whether it is one of an attention's.
    fn sink(&mut self, id: OpId, op: &Op, d: &DotDims) -> bool {
        let graph = self.graph;
        let side = usize::from(!self.known.contains_key(&op.operands[0]));
        let Some(s) = self.known.get(&op.operands[side]).cloned() else { return false };
        if self.known.contains_key(&op.operands[1 - side]) {
            return false;
        }
        let contract = if side == 0 { &d.lhs_contract } else { &d.rhs_contract };
        let contracted: BTreeSet<Label> = contract.iter().map(|&c| s.labels[c]).collect();
        let over_keys = contracted == BTreeSet::from([self.key]);
        let lacks = |x: &Labelled| -> BTreeSet<Label> { s.labels.iter().copied().filter(|l| !x.labels.contains(l)).collect() };
        let softmax = s.expression.is_softmax();
        let (labels, result) = dot_sink(graph, op, d, side, &s.labels, if softmax { Label::Value } else { Label::Depth });
        let x = peel(graph, op.operands[1 - side], labels);
        // Contracted dimensions are numbered as in the product that made the scores.
        let numbered = |like: &Labelled| -> Vec<Label> {
            let renamed = |l: &Label| x.labels.iter().position(|m| m == l).filter(|_| matches!(l, Label::Depth(_))).map_or(*l, |i| like.labels[i]);
            result.iter().map(renamed).collect()
        };
        if softmax && over_keys {
            if self.result.is_some() {
                return false;
            }
            (self.v, self.result) = (Some(x), Some(Sink { op: id, labels: result }));
            return true;
        }
        let slope = s.expression.slope().is_some_and(|c| (c - self.scale).abs() <= 1e-5 * self.scale.abs());
        let (place, labels) = if softmax {
            let Some(v) = &self.v else { return false };
            if contracted != lacks(v) || self.gradient.as_ref().is_some_and(|g| !same(g, &x)) {
                return false;
            }
            self.gradient = Some(x);
            (2, result)
        } else if slope && over_keys && same(&x, &self.k) {
            (0, numbered(&self.k))
        } else if slope && contracted == lacks(&self.k) && same(&x, &self.q) {
            (1, numbered(&self.q))
        } else {
            return false;
        };
        if self.gradients[place].is_some() {
            return false;
        }
        self.gradients[place] = Some(Sink { op: id, labels });
        true
    }

    fn finish(self, query: Label, causal: bool, bias: Option<Labelled>) -> Search<Found> {
        let (Some(v), Some(result)) = (self.v, self.result) else { return other() };
        let t = self.graph.ty(self.q.value).dtype;
        let same_type = [self.k.value, v.value, self.graph.ops[result.op].results[0]].iter().all(|&x| self.graph.ty(x).dtype == t);
        if !same_type || !matches!(t, DType::F32 | DType::BF16 | DType::F16) {
            return Err(Refusal::Because("queries, keys, values and the result differ in their element types"));
        }
        let batch = |x: &Labelled| x.labels.iter().copied().filter(|l| matches!(l, Label::Score(_))).collect::<BTreeSet<_>>();
        if self.gradients.iter().any(Option::is_some) && batch(&self.k) != batch(&v) {
            return Err(Refusal::Because("keys and values differ in their batch dimensions"));
        }
        let depth = |x: &Labelled| x.labels.iter().filter(|l| matches!(l, Label::Depth(_))).count();
        let in_order = |x: &Labelled| {
            let first = x.labels.iter().position(|l| matches!(l, Label::Depth(_))).unwrap_or(0);
            (0..depth(x)).all(|i| x.labels.get(first + i) == Some(&Label::Depth(i)))
        };
        let own = v.labels.iter().filter(|l| matches!(l, Label::Value(_))).count();
        if depth(&self.q) == 0 || own != 1 || !in_order(&self.q) || !in_order(&self.k) {
            return Err(Refusal::Because("heads are cut in a way that does not fit together"));
        }
        if bias.as_ref().is_some_and(|b| !matches!(self.graph.ty(b.value).dtype, DType::F32 | DType::BF16 | DType::F16)) {
            return Err(Refusal::Because("its bias has another element type"));
        }
        if self.gradient.as_ref().is_some_and(|g| self.graph.ty(g.value).dtype != t) {
            return Err(Refusal::Because("the result's gradient has another element type"));
        }
        let (key, scale, gradient, gradients, q, k) = (self.key, self.scale, self.gradient, self.gradients, self.q, self.k);
        Ok(Found { q, k, v, bias, key, query, scale, causal, result, gradient, gradients })
    }
}

/// Whether two values are the same with the same dimensions; what is contracted may be numbered otherwise.
fn same(a: &Labelled, b: &Labelled) -> bool {
    a.value == b.value
        && a.labels.len() == b.labels.len()
        && a.labels.iter().zip(&b.labels).all(|(x, y)| x == y || !matches!((x, y), (Label::Score(_), _) | (_, Label::Score(_))))
}
