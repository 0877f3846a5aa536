//! Attention as one operation: what its operands' dimensions are, and which scores count.
//!
//! `scores = scale · q·kᵀ + bias`, `o = softmax(scores)·v` over the keys that are visible, and `lse`, the logarithm of each row's sum of exponentials, which
//! the derivative needs. Dimensions are named by letters, as in a product's subscripts (`bqhgd,bkhd,bkhe->bqhge`), in any order: `q` counts queries, `k` keys,
//! `d` is the size that scores are contracted over, `e` the size of a value; every other letter is a batch dimension (examples, heads). The keys, the values
//! and the bias may lack batch dimensions that the queries have, which then share them: grouped queries, one mask for all heads.
//! A bias of `i1` is a mask: a key that is false is not visible. A row without a visible key gives zeros, and its `lse` is `-∞`.
//! Invariant ([`Attention::check`]): each operand names a letter once; the result has every batch letter of the queries, `q` and `e`.

use crate::dtype::{DType, TensorType};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{Hash, Hasher};

/// What a dimension of an attention's operand counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AttentionDim {
    /// Queries.
    Query,
    /// Keys, and their values.
    Key,
    /// What scores are contracted over.
    Depth,
    /// The size of a value.
    Value,
    /// A batch dimension: examples, heads, groups of heads.
    Batch(u8),
}

/// The letters of batch dimensions, in order.
const BATCH_LETTERS: &[u8] = b"bhgacfijlmnoprstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

impl AttentionDim {
    /// How many batch dimensions can be told apart.
    pub const MOST_BATCH: usize = BATCH_LETTERS.len();

    /// Its letter.
    pub fn letter(self) -> char {
        match self {
            AttentionDim::Query => 'q',
            AttentionDim::Key => 'k',
            AttentionDim::Depth => 'd',
            AttentionDim::Value => 'e',
            AttentionDim::Batch(i) => BATCH_LETTERS.get(usize::from(i)).map_or('?', |&b| char::from(b)),
        }
    }
    /// The dimension of a letter.
    pub fn from_letter(letter: char) -> Option<AttentionDim> {
        Some(match letter {
            'q' => AttentionDim::Query,
            'k' => AttentionDim::Key,
            'd' => AttentionDim::Depth,
            'e' => AttentionDim::Value,
            c => AttentionDim::Batch(BATCH_LETTERS.iter().position(|&b| char::from(b) == c)? as u8),
        })
    }
    /// Whether it is a batch dimension.
    pub fn is_batch(self) -> bool {
        matches!(self, AttentionDim::Batch(_))
    }
}

/// The factor of the scores: compared and hashed by its bits.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Scale(pub f64);

impl PartialEq for Scale {
    fn eq(&self, other: &Scale) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}
impl Eq for Scale {}
impl Hash for Scale {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// An attention, forward or backward.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attention {
    /// Dimensions of the queries.
    pub q: Vec<AttentionDim>,
    /// Dimensions of the keys.
    pub k: Vec<AttentionDim>,
    /// Dimensions of the values.
    pub v: Vec<AttentionDim>,
    /// Dimensions of the additive bias or the mask, when there is one.
    pub bias: Option<Vec<AttentionDim>>,
    /// Dimensions of the result; `lse` has them without the value's.
    pub o: Vec<AttentionDim>,
    /// Factor of the scores.
    pub scale: Scale,
    /// Query `i` sees keys up to `i`, plus the offset.
    pub causal: bool,
    /// Whether the last operand is the `i32` position of the first query among the keys (else it is 0).
    pub offset: bool,
}

impl Attention {
    /// The subscripts: `bqhgd,bkhd,bkhe->bqhge`, the bias's after the values'.
    pub fn subscripts(&self) -> String {
        let word = |dims: &[AttentionDim]| dims.iter().map(|d| d.letter()).collect::<String>();
        let bias = self.bias.as_ref().map_or_else(String::new, |b| format!(",{}", word(b)));
        format!("{},{},{}{bias}->{}", word(&self.q), word(&self.k), word(&self.v), word(&self.o))
    }

    /// An attention with these subscripts, neither causal nor offset, with scale 1.
    pub fn from_subscripts(text: &str) -> Option<Attention> {
        let (operands, o) = text.split_once("->")?;
        let word = |w: &str| w.trim().chars().map(AttentionDim::from_letter).collect::<Option<Vec<_>>>();
        let mut operands = operands.split(',').map(word).collect::<Option<Vec<_>>>()?.into_iter();
        let (q, k, v, bias) = (operands.next()?, operands.next()?, operands.next()?, operands.next());
        if operands.next().is_some() {
            return None;
        }
        Some(Attention { q, k, v, bias, o: word(o)?, scale: Scale(1.0), causal: false, offset: false })
    }

    /// Dimensions of `lse`.
    pub fn lse(&self) -> Vec<AttentionDim> {
        self.o.iter().copied().filter(|&d| d != AttentionDim::Value).collect()
    }
    /// The batch dimensions, in the order of the queries.
    pub fn batch(&self) -> Vec<AttentionDim> {
        self.q.iter().copied().filter(|d| d.is_batch()).collect()
    }
    /// Operands of the forward: `q, k, v [, bias] [, offset]`.
    pub fn operands(&self) -> usize {
        3 + usize::from(self.bias.is_some()) + usize::from(self.offset)
    }
    /// Operands of the derivative: `q, k, v, o, lse, do [, bias] [, offset]`.
    pub fn gradient_operands(&self) -> usize {
        self.operands() + 3
    }
    /// Dimensions of each operand of the forward.
    pub fn operand_dims(&self) -> Vec<Vec<AttentionDim>> {
        let mut dims = vec![self.q.clone(), self.k.clone(), self.v.clone()];
        dims.extend(self.bias.clone());
        dims.extend(self.offset.then(Vec::new));
        dims
    }
    /// Dimensions of each operand of the derivative.
    pub fn gradient_operand_dims(&self) -> Vec<Vec<AttentionDim>> {
        let mut dims = vec![self.q.clone(), self.k.clone(), self.v.clone(), self.o.clone(), self.lse(), self.o.clone()];
        dims.extend(self.bias.clone());
        dims.extend(self.offset.then(Vec::new));
        dims
    }
    /// Dimensions of each result of the derivative.
    pub fn gradient_dims(&self, bias: bool) -> Vec<Vec<AttentionDim>> {
        let mut dims = vec![self.q.clone(), self.k.clone(), self.v.clone()];
        dims.extend(self.bias.clone().filter(|_| bias));
        dims
    }
    /// Extent of a dimension, found in the queries, keys or values.
    pub fn extent(&self, operands: &[&TensorType], dim: AttentionDim) -> Option<u64> {
        [&self.q, &self.k, &self.v].into_iter().zip(operands).find_map(|(dims, ty)| Some(*ty.shape.get(dims.iter().position(|d| *d == dim)?)?))
    }

    /// Types of `o` and `lse`.
    ///
    /// # Errors
    /// What is wrong with the subscripts or the operands.
    pub fn results(&self, operands: &[&TensorType]) -> Result<Vec<TensorType>, String> {
        self.check(operands, 3)?;
        let shape = |dims: &[AttentionDim]| dims.iter().map(|&d| self.extent(operands, d).unwrap_or(0)).collect::<Vec<u64>>();
        let t = operands[0].dtype;
        Ok(vec![TensorType::new(t, shape(&self.o)), TensorType::new(statistics(t), shape(&self.lse()))])
    }

    /// Types of the derivative's results.
    ///
    /// # Errors
    /// What is wrong with the subscripts or the operands.
    pub fn gradient_results(&self, operands: &[&TensorType], bias: bool) -> Result<Vec<TensorType>, String> {
        self.check(operands, 6)?;
        let wanted = self.results(&[&operands[..3], &operands[6..]].concat())?;
        for (found, wanted) in operands[3..6].iter().zip([&wanted[0], &wanted[1], &wanted[0]]) {
            if *found != wanted {
                return Err(format!("a result or its gradient is {found} where {wanted} is expected"));
            }
        }
        let mut results: Vec<TensorType> = operands[..3].iter().map(|&t| t.clone()).collect();
        if bias {
            let b = operands.get(6).filter(|_| self.bias.is_some()).ok_or("a gradient of a bias that is not there")?;
            if !b.dtype.is_float() {
                return Err(format!("a mask of {b} has no gradient"));
            }
            results.push((*b).clone());
        }
        Ok(results)
    }

    /// Whether subscripts and operands go together; the bias is operand `at`.
    fn check(&self, operands: &[&TensorType], at: usize) -> Result<(), String> {
        let wrong = |what: String| Err(format!("{what} in `{}`", self.subscripts()));
        let named = [("queries", &self.q), ("keys", &self.k), ("values", &self.v), ("result", &self.o)];
        let bias = self.bias.iter().map(|b| ("bias", b));
        for (what, dims) in named.into_iter().chain(bias) {
            if let Some(d) = dims.iter().enumerate().find(|(i, d)| dims[..*i].contains(d)) {
                return wrong(format!("the {what} name `{}` twice", d.1.letter()));
            }
        }
        if self.batch().len() > AttentionDim::MOST_BATCH || self.q.iter().any(|d| d.letter() == '?') {
            return wrong(format!("more than {} batch dimensions", AttentionDim::MOST_BATCH));
        }
        use AttentionDim::{Depth, Key, Query, Value};
        let has = |dims: &[AttentionDim], roles: &[AttentionDim], not: &[AttentionDim]| {
            roles.iter().all(|r| dims.contains(r)) && !not.iter().any(|r| dims.contains(r)) && dims.iter().all(|d| !d.is_batch() || self.q.contains(d))
        };
        let fits = has(&self.q, &[Query, Depth], &[Key, Value])
            && has(&self.k, &[Key, Depth], &[Query, Value])
            && has(&self.v, &[Key, Value], &[Query, Depth])
            && has(&self.o, &[Query, Value], &[Key, Depth])
            && self.batch().iter().all(|d| self.o.contains(d))
            && self.bias.as_ref().is_none_or(|b| has(b, &[], &[Depth, Value]));
        if !fits {
            return wrong("an operand lacks a dimension it needs, or has one it must not have,".into());
        }
        if !self.scale.0.is_finite() {
            return Err(format!("a scale of {}", self.scale.0));
        }
        let t = operands[0].dtype;
        if !t.is_float() || operands[1].dtype != t || operands[2].dtype != t {
            return Err(format!("queries, keys and values of {}, {} and {}", operands[0], operands[1], operands[2]));
        }
        let mut checked: Vec<(&[AttentionDim], &TensorType)> = vec![(&self.q, operands[0]), (&self.k, operands[1]), (&self.v, operands[2])];
        if let Some(b) = &self.bias {
            let ty = operands[at];
            if ty.dtype != DType::I1 && !ty.dtype.is_float() {
                return Err(format!("a bias of {ty}"));
            }
            checked.push((b, ty));
        }
        for (dims, ty) in &checked {
            if dims.len() != ty.rank() {
                return wrong(format!("{} dimensions for {ty}", dims.len()));
            }
            for (&d, &n) in dims.iter().zip(&ty.shape) {
                if self.extent(operands, d).is_some_and(|m| m != n) {
                    return wrong(format!("`{}` is {} and {n}", d.letter(), self.extent(operands, d).unwrap_or(0)));
                }
            }
        }
        if self.offset {
            let ty = operands[operands.len() - 1];
            if *ty != TensorType::scalar(DType::I32) {
                return Err(format!("the position of the first query is {ty}, not a scalar i32"));
            }
        }
        Ok(())
    }
}

/// What row statistics are held in.
fn statistics(t: DType) -> DType {
    if t == DType::F64 { DType::F64 } else { DType::F32 }
}

impl fmt::Display for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.subscripts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32(shape: &[u64]) -> TensorType {
        TensorType::new(DType::F32, shape)
    }

    #[test]
    fn subscripts_round_trip() {
        for text in ["bqhgd,bkhd,bkhe->bqhge", "qd,kd,ke->qe", "bhqd,bhkd,bhke,qk->bqhe"] {
            assert_eq!(Attention::from_subscripts(text).unwrap().subscripts(), text);
        }
        assert!(Attention::from_subscripts("qd,kd->qe").is_none() && Attention::from_subscripts("q1,kd,ke->qe").is_none());
        let letters: Vec<char> = (0..AttentionDim::MOST_BATCH).map(|i| AttentionDim::Batch(i as u8).letter()).collect();
        assert!((0..).zip(&letters).all(|(i, &c)| AttentionDim::from_letter(c) == Some(AttentionDim::Batch(i))));
    }

    #[test]
    fn types_follow_from_subscripts() {
        let a = Attention::from_subscripts("bqhgd,bkhd,bkhe,hqk->bhgqe").unwrap();
        let (q, k, v, b) = (f32(&[2, 5, 3, 4, 8]), f32(&[2, 7, 3, 8]), f32(&[2, 7, 3, 6]), f32(&[3, 5, 7]));
        let r = a.results(&[&q, &k, &v, &b]).unwrap();
        assert_eq!((r[0].shape.as_slice(), r[1].shape.as_slice()), (&[2, 3, 4, 5, 6][..], &[2, 3, 4, 5][..]));
        let g = a.gradient_results(&[&q, &k, &v, &r[0], &r[1], &r[0], &b], true).unwrap();
        assert_eq!(g, [q.clone(), k.clone(), v.clone(), b.clone()]);
        assert!(a.results(&[&q, &k, &f32(&[2, 8, 3, 6]), &b]).unwrap_err().contains("`k` is 7 and 8"));
        assert!(Attention::from_subscripts("bqd,ckd,bke->bqe").unwrap().results(&[&f32(&[1, 1, 1]); 3]).is_err());
        assert!(Attention::from_subscripts("qqd,kd,ke->qqe").unwrap().results(&[&f32(&[1, 1, 1]); 3]).unwrap_err().contains("twice"));
    }
}
