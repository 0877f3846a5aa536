//! Which nodes a neighbourhood frees: as many as exact elimination can take, the rest of the region stays as it is.
//!
//! A greedy elimination runs over the region; whenever the smallest table would be too wide, the node that is most
//! entangled is left fixed instead. What remains has small width by construction, so a neighbourhood is not a
//! handful of nodes but most of a region, optimised at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::random::Random;
use crate::state::Network;

/// Scratch space over all nodes, kept between calls.
#[derive(Debug, Clone)]
pub(crate) struct Regions {
    /// Local number of a node in the current region.
    local: Vec<u32>,
    log: Vec<f64>,
}

impl Regions {
    pub(crate) fn new(sizes: &[usize]) -> Regions {
        Regions { local: vec![u32::MAX; sizes.len()], log: sizes.iter().map(|&s| (s as f64).log2()).collect() }
    }

    /// Up to `count` nodes around the seeds, nearest first, ties at random.
    pub(crate) fn around(&mut self, network: &Network, seeds: &[u32], count: usize, random: &mut Random) -> Vec<u32> {
        let mut out: Vec<u32> = Vec::with_capacity(count);
        for &v in seeds {
            if self.local[v as usize] == u32::MAX {
                self.local[v as usize] = 0;
                out.push(v);
            }
        }
        let mut frontier = out.clone();
        while !frontier.is_empty() && out.len() < count {
            let mut next = Vec::new();
            for &v in &frontier {
                for (u, _) in &network.near[v as usize] {
                    if self.local[*u as usize] == u32::MAX {
                        self.local[*u as usize] = 0;
                        next.push(*u);
                    }
                }
            }
            for k in (1..next.len()).rev() {
                next.swap(k, random.below(k + 1));
            }
            for &u in next.iter().skip(count - out.len()) {
                self.local[u as usize] = u32::MAX;
            }
            next.truncate(count - out.len());
            out.extend_from_slice(&next);
            frontier = next;
        }
        for &v in &out {
            self.local[v as usize] = u32::MAX;
        }
        out
    }

    /// The nodes of the region that are freed so that no table has more than `2^bits` entries.
    pub(crate) fn narrow(&mut self, network: &Network, region: &[u32], bits: f64, random: &mut Random) -> Vec<u32> {
        for (k, &v) in region.iter().enumerate() {
            self.local[v as usize] = k as u32;
        }
        let mut near: Vec<Vec<u32>> = region
            .iter()
            .map(|&v| {
                let mut list: Vec<u32> = network.near[v as usize].iter().map(|(u, _)| self.local[*u as usize]).filter(|&k| k != u32::MAX).collect();
                list.sort_unstable();
                list.dedup();
                list
            })
            .collect();
        for &v in region {
            self.local[v as usize] = u32::MAX;
        }
        let log: Vec<f64> = region.iter().map(|&v| self.log[v as usize]).collect();
        let whim: Vec<f64> = region.iter().map(|_| (3.0 * random.unit()).exp()).collect();
        let weight = |k: usize, near: &[u32]| ((log[k] + near.iter().map(|&u| log[u as usize]).sum::<f64>()) * 1024.0) as u64;
        let mut current: Vec<u64> = (0..region.len()).map(|k| weight(k, &near[k])).collect();
        let mut heap: BinaryHeap<Reverse<(u64, u32)>> = (0..region.len()).map(|k| Reverse((current[k], k as u32))).collect();
        // 0: still there, 1: eliminated (free), 2: fixed.
        let mut fate = vec![0u8; region.len()];
        while let Some(Reverse((w, k))) = heap.pop() {
            let at = k as usize;
            if fate[at] != 0 || w != current[at] {
                continue;
            }
            if w as f64 > bits * 1024.0 {
                // The most entangled node of this table, with some whim.
                let entangled = |v: u32| near[v as usize].len() as f64 * whim[v as usize];
                let worst = near[at].iter().copied().chain([k]).max_by(|&a, &b| entangled(a).total_cmp(&entangled(b)).then(b.cmp(&a))).unwrap_or(k);
                fate[worst as usize] = 2;
                for u in std::mem::take(&mut near[worst as usize]) {
                    near[u as usize].retain(|&x| x != worst);
                    current[u as usize] = weight(u as usize, &near[u as usize]);
                    heap.push(Reverse((current[u as usize], u)));
                }
                if fate[at] == 0 {
                    heap.push(Reverse((current[at], k)));
                }
                continue;
            }
            fate[at] = 1;
            let scope = std::mem::take(&mut near[at]);
            for &u in &scope {
                let mut joined: Vec<u32> = near[u as usize].iter().chain(&scope).copied().filter(|&x| x != u && x != k).collect();
                joined.sort_unstable();
                joined.dedup();
                near[u as usize] = joined;
                current[u as usize] = weight(u as usize, &near[u as usize]);
                heap.push(Reverse((current[u as usize], u)));
            }
        }
        let mut free: Vec<u32> = region.iter().zip(&fate).filter(|&(_, &f)| f == 1).map(|(&v, _)| v).collect();
        free.sort_unstable();
        free
    }
}
