//! Layers of experts: tokens are routed to a few of them, by products with one-hot tensors so that every shape is static.
//!
//! GShard's manner (Lepikhin et al., 2020): a sequence is a group, an expert has room for a number of its tokens, and a token that finds no room passes by.
//! The best expert is found by comparisons, not by sorting. Invariant: nothing mixes sequences, so the step does not change when its batch is cut.

use crate::layers::Activation;
use ir::DType;
use ir::trace::{Initial, Tensor, Tracer};

/// How tokens find their experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Routing {
    /// Experts of a layer.
    pub(crate) experts: u64,
    /// Experts a token goes to.
    pub(crate) chosen: u64,
    /// Room at an expert, as a multiple of its even share of a sequence's tokens.
    pub(crate) capacity_factor: f64,
    /// Room at an expert in tokens of a sequence, where the configuration states it.
    pub(crate) capacity: Option<u64>,
    /// Weight of the balance loss.
    pub(crate) balance: f64,
    /// Weight of the loss on the size of the router's logits.
    pub(crate) logits: f64,
    /// Whether the weights of the chosen experts are divided by their sum.
    pub(crate) renormalized: bool,
}

/// What an expert computes: a feed-forward block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Experts {
    pub(crate) inner: u64,
    pub(crate) activation: Activation,
    pub(crate) gated: bool,
    /// How weights into the block and out of it begin.
    pub(crate) initial: [Initial; 2],
}

/// The routers' own loss, summed over layers, for each sequence.
#[derive(Clone)]
pub(crate) struct RouterLoss(Tensor);

impl RouterLoss {
    /// Before the first layer.
    pub(crate) fn none(t: &Tracer, batch: u64) -> RouterLoss {
        RouterLoss(t.full(DType::F32, [batch], 0.0))
    }
    /// The mean over sequences and layers.
    pub(crate) fn mean(&self, layers: u64) -> Tensor {
        self.0.mean_all() / layers.max(1) as f64
    }
}

impl Routing {
    /// Room at an expert for tokens of a sequence.
    fn room(&self, sequence: u64) -> u64 {
        let even = self.chosen as f64 * sequence as f64 / self.experts as f64;
        self.capacity.unwrap_or((self.capacity_factor * even).ceil() as u64).clamp(1, sequence.max(1))
    }

    /// The experts' result for `x`, `[batch, sequence, size]`, and the loss with this layer's added. Parameters are `router/weight` and `experts/…`.
    pub(crate) fn trace(&self, x: &Tensor, unit: &Experts, deviation: f64, loss: RouterLoss) -> (Tensor, RouterLoss) {
        let t = x.tracer().clone();
        let (dispatch, combine, loss) = t.scope("router", || self.route(x, deviation, loss));
        let sent = t.scope("dispatch", || dispatch.einsum("bsec,bsh->ebch", x));
        let size = x.dim(-1);
        let done = t.scope("experts", || {
            let into = |name: &str| t.parameter(name, [self.experts, size, unit.inner], unit.initial[0]);
            let up = sent.einsum("ebch,ehi->ebci", &into("up"));
            let inner = match unit.gated {
                true => unit.activation.of(&sent.einsum("ebch,ehi->ebci", &into("gate"))) * up,
                false => unit.activation.of(&up),
            };
            inner.einsum("ebci,eih->ebch", &t.parameter("down", [self.experts, unit.inner, size], unit.initial[1]))
        });
        (t.scope("combine", || combine.einsum("bsec,ebch->bsh", &done)), loss)
    }

    /// Where each token goes, `[batch, sequence, experts, room]` of zeros and ones; the same with the experts' weights; and the loss.
    fn route(&self, x: &Tensor, deviation: f64, loss: RouterLoss) -> (Tensor, Tensor, RouterLoss) {
        let t = x.tracer().clone();
        let (sequence, room) = (x.dim(1), self.room(x.dim(1)));
        let weight = t.parameter_of("weight", DType::F32, [x.dim(-1), self.experts], Initial::Normal(deviation));
        let logits = x.convert(DType::F32).matmul(&weight);
        let weights = logits.softmax(-1);
        let mut left = weights.stop_gradient();
        let mut before = t.full(DType::F32, [x.dim(0), self.experts], 0.0);
        let mut chosen = Vec::new();
        for _ in 0..self.chosen {
            let best = first_greatest(&left);
            left = best.select(&left.full_like(-1.0), &left);
            let one_hot = best.convert(DType::F32);
            // A token's place at its expert: how many of its sequence come before it there.
            let earlier = t.iota(DType::I32, [sequence, sequence], 1).less(&t.iota(DType::I32, [sequence, sequence], 0)).convert(x.dtype());
            let counted = t.scope("places", || one_hot.convert(x.dtype()).einsum_as("bte,st->bse", &earlier, DType::F32));
            let ahead = counted + before.broadcast_in_dim(one_hot.shape(), &[0, 2]);
            let place = (ahead * &one_hot).sum(&[-1]).convert(DType::I32);
            before = before + one_hot.sum(&[1]);
            let seat = Tensor::one_hot(&place, room).convert(DType::F32);
            chosen.push((one_hot.stop_gradient(), seat.stop_gradient()));
        }
        let gates: Vec<Tensor> = chosen.iter().map(|(one_hot, _)| (&weights * one_hot).sum(&[-1])).collect();
        let total = self.renormalized.then(|| sum(&gates));
        let shape = [x.dim(0), sequence, self.experts, room];
        let spread = |a: &Tensor, b: &Tensor| a.broadcast_in_dim(shape, &[0, 1, 2]) * b.broadcast_in_dim(shape, &[0, 1, 3]);
        let dispatch = sum(&chosen.iter().map(|(one_hot, seat)| spread(one_hot, seat)).collect::<Vec<_>>());
        let weighed = chosen.iter().zip(&gates).map(|((one_hot, seat), gate)| {
            let gate = total.as_ref().map_or(gate.clone(), |total| gate / total);
            spread(&(one_hot * gate.unreduce(one_hot, &[2])), seat)
        });
        let combine = sum(&weighed.collect::<Vec<_>>());
        // The share of tokens sent to an expert times its mean weight is least when both are even.
        let share = sum(&chosen.iter().map(|c| c.0.clone()).collect::<Vec<_>>()).mean(&[1]);
        let mut added = (share * weights.mean(&[1])).sum(&[-1]) * (self.experts as f64 * self.balance);
        if self.logits > 0.0 {
            added = added + logits.log_sum_exp(-1).square().mean(&[1]) * self.logits;
        }
        (dispatch.stop_gradient().convert(x.dtype()), combine.convert(x.dtype()), RouterLoss(loss.0 + added))
    }
}

fn sum(tensors: &[Tensor]) -> Tensor {
    tensors[1..].iter().fold(tensors[0].clone(), |a, b| a + b)
}

/// Whether an element of the last dimension is the greatest there, the first of equal ones.
fn first_greatest(x: &Tensor) -> Tensor {
    let places = x.tracer().iota(DType::I32, x.shape(), x.rank() - 1);
    let greatest = x.equal(&x.max(&[-1]).unreduce(x, &[-1]));
    let first = greatest.select(&places, &places.full_like(x.dim(-1) as f64)).min(&[-1]);
    places.equal(&first.unreduce(x, &[-1]))
}
