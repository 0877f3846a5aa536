//! `rng_bit_generator`: Threefry-2x32 (20 rounds) and Philox-4x32 (10 rounds) over a counter, as XLA expands them on the CPU.
//!
//! The state is a 64-bit key and a counter of 64 bits (Threefry) or 128 (Philox), as `ui64`; `DEFAULT` is Philox. Threefry yields two words a block: for
//! 32-bit results they fill the two halves of every pair along the first even dimension (the largest when all are odd), for 64-bit results one element.
//! Philox yields four words a block, in order. Not checked against XLA, for want of a case: a Philox state of two words (its counter's upper half is
//! taken as zero), and 8- and 16-bit results, which take the low bits of 32-bit ones.

use super::tensor::{Element, Tensor, decode_all, encode_all, wrap};
use crate::dtype::{DType, TensorType};

const THREEFRY_ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
const THREEFRY_PARITY: u32 = 0x1BD1_1BDA;

/// One block of Threefry-2x32.
fn threefry(counter: [u32; 2], key: [u32; 2]) -> [u32; 2] {
    let keys = [key[0], key[1], key[0] ^ key[1] ^ THREEFRY_PARITY];
    let mut x = [counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1])];
    for group in 0..5 {
        for rotation in THREEFRY_ROTATIONS[group % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(rotation) ^ x[0];
        }
        x[0] = x[0].wrapping_add(keys[(group + 1) % 3]);
        x[1] = x[1].wrapping_add(keys[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    x
}

/// One block of Philox-4x32.
fn philox(mut x: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(x[0]) * 0xD251_1F53;
        let b = u64::from(x[2]) * 0xCD9E_8D57;
        x = [(b >> 32) as u32 ^ x[1] ^ key[0], b as u32, (a >> 32) as u32 ^ x[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    x
}

fn halves(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

/// 32-bit Threefry results in the order of `shape`, and how many blocks were used.
fn threefry_words(shape: &[u64], key: [u32; 2], counter: u64) -> (Vec<u64>, u64) {
    let split = shape.iter().position(|n| n % 2 == 0).or_else(|| (0..shape.len()).rev().max_by_key(|&d| shape[d]));
    let Some(split) = split else {
        return (vec![u64::from(threefry(halves(counter), key)[0])], 1);
    };
    let outer: u64 = shape[..split].iter().product();
    let inner: u64 = shape[split + 1..].iter().product();
    let half = shape[split].div_ceil(2);
    let mut words = Vec::new();
    for o in 0..outer {
        for i in 0..shape[split] {
            for j in 0..inner {
                // The concatenated dimension is (half, 2): position i is half i / 2 of word i % 2.
                let block = (o * half + i / 2) * inner + j;
                words.push(u64::from(threefry(halves(counter.wrapping_add(block)), key)[(i % 2) as usize]));
            }
        }
    }
    (words, outer * half * inner)
}

/// New state and random bits; `None` when the algorithm or the state is not one of those described above.
pub(crate) fn rng_bit_generator(algorithm: &str, state: &Tensor, state_ty: TensorType, ty: TensorType) -> Option<(Tensor, Tensor)> {
    let words: Vec<u64> = state.to_bytes().chunks_exact(8).map(|c| c.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b))).collect();
    let n = ty.elements();
    let (&key, counter) = words.split_first()?;
    let key = halves(key);
    let (bits, advanced): (Vec<u64>, Vec<u64>) = match (algorithm, counter) {
        ("THREE_FRY", &[counter]) => {
            let (bits, used) = if ty.dtype.bits() == 64 {
                let join = |i| {
                    let [low, high] = threefry(halves(counter.wrapping_add(i)), key);
                    u64::from(high) << 32 | u64::from(low)
                };
                ((0..n).map(join).collect(), n)
            } else {
                threefry_words(&ty.shape, key, counter)
            };
            (bits, vec![words[0], counter.wrapping_add(used)])
        }
        ("PHILOX" | "DEFAULT", &[low, ref high @ ..]) if high.len() < 2 => {
            let start = u128::from(low) | u128::from(high.first().copied().unwrap_or(0)) << 64;
            let per_block = if ty.dtype.bits() == 64 { 2 } else { 4 };
            let blocks = n.div_ceil(per_block);
            let mut bits = Vec::new();
            for b in 0..blocks {
                let at = start.wrapping_add(u128::from(b));
                let [a, c] = [halves(at as u64), halves((at >> 64) as u64)];
                let out = philox([a[0], a[1], c[0], c[1]], key).map(u64::from);
                if per_block == 2 {
                    bits.extend([out[1] << 32 | out[0], out[3] << 32 | out[2]]);
                } else {
                    bits.extend(out);
                }
            }
            bits.truncate(n as usize);
            let end = start.wrapping_add(u128::from(blocks));
            (bits, [words[0], end as u64, (end >> 64) as u64][..words.len()].to_vec())
        }
        _ => return None,
    };
    let ints: Vec<i64> = bits.into_iter().map(|b| wrap(ty.dtype, b as i64)).collect();
    let bytes: Vec<u8> = advanced.iter().flat_map(|w| w.to_le_bytes()).collect();
    let new_state = Tensor::from_bytes(state_ty, &bytes)?;
    // Results of a float type are the bits of random words.
    let buffer = if ty.dtype.is_integer() { i64::pack(ints) } else { decode_all(ty.dtype, &encode_all(ty.dtype.same_width_unsigned()?, &i64::pack(ints))) };
    Some((new_state, Tensor::new(ty, buffer)))
}

impl DType {
    /// The unsigned integer type of the same width, where there is one.
    fn same_width_unsigned(self) -> Option<DType> {
        match self.bits() {
            8 => Some(DType::UI8),
            16 => Some(DType::UI16),
            32 => Some(DType::UI32),
            64 => Some(DType::UI64),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // The published test vectors of Random123.
        assert_eq!(threefry([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry([u32::MAX; 2], [u32::MAX; 2]), [0x1cb9_96fc, 0xbb00_2be7]);
        assert_eq!(threefry([0x243f_6a88, 0x85a3_08d3], [0x1319_8a2e, 0x0370_7344]), [0xc492_3a9c, 0x483d_f7a0]);
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }

    #[test]
    fn the_counter_advances_by_blocks() {
        let state_ty = TensorType::new(DType::UI64, [2]);
        let state = Tensor::from_i64s(state_ty.clone(), &[7, 100]).unwrap();
        let draw = |state: &Tensor, shape: &[u64]| rng_bit_generator("THREE_FRY", state, state_ty.clone(), TensorType::new(DType::UI32, shape)).unwrap();
        let (next, all) = draw(&state, &[3, 4]);
        assert_eq!(next.to_i64s(), [7, 106]);
        // The even dimension is split into pairs: elements 0 and 1 of a row share a block.
        let block = |c: u64| threefry(halves(c), [7, 0]).map(i64::from);
        assert_eq!(all.to_i64s()[..4], [block(100)[0], block(100)[1], block(101)[0], block(101)[1]]);
        let (next, odd) = draw(&state, &[3]);
        assert_eq!(next.to_i64s(), [7, 102]);
        assert_eq!(odd.to_i64s(), [block(100)[0], block(100)[1], block(101)[0]]);
    }

    #[test]
    fn philox_fills_in_order() {
        let state_ty = TensorType::new(DType::UI64, [3]);
        let state = Tensor::from_i64s(state_ty.clone(), &[0, 0, 0]).unwrap();
        let (next, bits) = rng_bit_generator("PHILOX", &state, state_ty, TensorType::new(DType::UI32, [5])).unwrap();
        assert_eq!(next.to_i64s(), [0, 2, 0]);
        assert_eq!(bits.to_i64s()[..4], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    }
}
