//! Generator `svm`: training of a linear support vector machine on sparse instances, one instance per round. The
//! features of an instance are read in sequence. Weights are loaded and stored at random feature numbers, more densely
//! at low numbers.

use super::Describe;
use crate::{
    algorithm::Algorithm,
    flow::{FREE, flow, from, to},
    layout::Layout,
    memory::{Array, Kept, Memory, Setup},
    seed::{below, mix, nth, unit},
};
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A linear support vector machine trained on sparse data, block by block.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SvmDesc {
    /// Instances; each takes 16 bytes for each of its features, and 16 more. 8 of those are kept in memory. Default
    /// 10k.
    #[schemars(range(min = 1, max = 1u64 << 36))]
    instances: u64,
    /// Features there are; 8 bytes of each are kept in memory. Default 100k.
    #[schemars(range(min = 16, max = 1u64 << 32))]
    features: u64,
    /// Features an instance has; of kdd2010 it is about 30, of kdd2012 11. Default 30.
    #[schemars(range(min = 1, max = 4096))]
    nonzeros: u64,
    /// Blocks the instances are divided in. Default 4.
    #[schemars(range(min = 1, max = 1u64 << 36))]
    blocks: u64,
    /// Passes over a block while it is there. Default 2.
    #[schemars(range(min = 1, max = 1 << 20))]
    inner: u64,
    /// Passes over all blocks. Default 1.
    #[schemars(range(min = 1, max = 1 << 20))]
    outer: u64,
    /// Seed. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for SvmDesc {
    fn default() -> Self {
        Self { instances: 10_000, features: 100_000, nonzeros: 30, blocks: 4, inner: 2, outer: 1, seed: 1 }
    }
}

impl Describe for SvmDesc {
    const NAME: &str = "svm";
    type Algorithm = Svm;

    fn algorithm(&self) -> Result<Svm, String> {
        let Self { instances, features, nonzeros, blocks, inner, outer, seed } = *self;
        if nonzeros > features {
            return Err(format!("nonzeros is {nonzeros}: give 1 to features, {features}"));
        }
        if blocks > instances {
            return Err(format!("blocks is {blocks}: give 1 to instances, {instances}"));
        }
        Ok(Svm::new([instances, features, nonzeros], blocks, [inner, outer], seed))
    }
}

/// Dual coordinate descent for the L2-loss linear SVM. Source: Hsieh et al., "A dual coordinate descent method for
/// large-scale linear SVM", ICML 2008, algorithm 1, C = 1. It goes over blocks of instances, and works on each several
/// times while it is in memory. The blocks are from Yu, Hsieh, Chang and Lin, "Large linear classification when data
/// cannot fit in memory", KDD 2010, algorithm 1. An instance is an array of LIBLINEAR's `feature_node`: index and
/// value, in the order of the index.
///
/// Instances have the same number of features, each in a band of its own. Low numbers are as much more frequent as
/// bands are narrower there, as words of a language are.
#[derive(Clone)]
pub struct Svm {
    layout: Layout,
    starts: Array<u64>,
    index: Array<i32>,
    value: Array<f64>,
    alphas: Kept<f64>,
    weights: Kept<f64>,
    instances: u64,
    nonzeros: u64,
    blocks: u64,
    inner: u64,
    outer: u64,
    /// Where the band of each of an instance's features begins.
    bands: Vec<u64>,
    key: u64,
    at: u64,
}

const NODE_BYTES: u64 = 16;
/// 1 / 2C, which the L2 loss adds to the diagonal.
const DIAGONAL: f64 = 0.5;

impl Svm {
    /// Of `[instances, features, nonzeros]`, `[inner, outer]` passes.
    pub fn new(size: [u64; 3], blocks: u64, passes: [u64; 2], seed: u64) -> Self {
        let [instances, features, nonzeros] = size;
        let mut layout = Layout::default();
        let starts = layout.array(instances + 1);
        let nodes = layout.records(instances.saturating_mul(nonzeros), NODE_BYTES);
        let (alphas, weights) = (layout.kept(instances), layout.kept(features));
        let [inner, outer] = passes;
        // Bands grow with the square of their number.
        let band = |slot: u64| {
            let share = slot as f64 / nonzeros as f64;
            slot + (share * share * (features - nonzeros) as f64) as u64
        };
        Self {
            layout,
            starts,
            index: nodes.field(0),
            value: nodes.field(8),
            alphas,
            weights,
            instances,
            nonzeros,
            blocks,
            inner,
            outer,
            bands: (0..=nonzeros).map(band).collect(),
            key: mix(seed),
            at: 0,
        }
    }

    /// The feature of the node that is its instance's number `slot`.
    #[inline(always)]
    fn feature_at(&self, node: u64, slot: u64) -> i32 {
        let (from, to) = (self.bands[slot as usize], self.bands[slot as usize + 1]);
        (from + below(nth(self.key, node), to - from)) as u32 as i32
    }

    fn feature(&self, node: u64) -> i32 {
        self.feature_at(node, node % self.nonzeros)
    }

    #[inline(always)]
    fn value(&self, node: u64) -> f64 {
        unit(nth(!self.key, node))
    }

    /// 1 or -1.
    #[inline(always)]
    fn label(&self, instance: u64) -> f64 {
        if nth(self.key ^ 1, instance) & 1 == 0 { 1.0 } else { -1.0 }
    }

    /// The instance of round `at`.
    fn instance(&self, at: u64) -> u64 {
        // All passes over a block, then the next block. The last block has what is left.
        let within = at % (self.instances * self.inner);
        let per = self.instances / self.blocks;
        let block = (within / (per * self.inner)).min(self.blocks - 1);
        let size = if block == self.blocks - 1 { self.instances - block * per } else { per };
        block * per + (within - block * per * self.inner) % size
    }
}

impl Algorithm for Svm {
    fn loads(&self) -> Option<Loads> {
        // An instance's features are read in sequence from where it begins. A weight waits for its feature's number,
        // and weights do not wait for each other.
        const FIRST: u8 = 1;
        const FEATURE: u8 = 2;
        flow(&[
            (0, &[to(FIRST, FREE)]),
            (1, &[to(FEATURE, from(FIRST)), from(FIRST), from(FEATURE)]),
            (4, &[to(FEATURE, from(FIRST)), from(FIRST), from(FEATURE), from(FEATURE)]),
        ])
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        self.instances.checked_mul(self.inner)?.checked_mul(self.outer)
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.fill(self.starts, |i| i * self.nonzeros);
        setup.fill(self.index, |node| self.feature(node));
        setup.fill(self.value, |node| self.value(node));
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        let i = self.instance(self.at);
        self.at += 1;
        m.block(0, 20);
        let from = m.load(self.starts, i, || i * self.nonzeros);
        let label = self.label(i);
        let (mut product, mut square) = (0.0, 0.0);
        for slot in 0..self.nonzeros {
            m.prefetch_hint(self.weights, || self.feature_at(from + slot, slot) as u64);
        }
        for slot in 0..self.nonzeros {
            let node = from + slot;
            m.block(1, 7);
            let feature = m.load(self.index, node, || self.feature_at(node, slot)) as u32;
            let value = m.load(self.value, node, || self.value(node));
            product += value * m.get(self.weights, feature.into());
            square += value * value;
        }
        m.block(2, 25);
        let alpha = m.get(self.alphas, i);
        let gradient = label * product - 1.0 + DIAGONAL * alpha;
        let projected = if alpha == 0.0 { gradient.min(0.0) } else { gradient };
        if projected.abs() > 1e-12 {
            let now = (alpha - gradient / (square + DIAGONAL)).max(0.0);
            m.block(3, 12);
            m.put(self.alphas, i, now);
            let step = (now - alpha) * label;
            for slot in 0..self.nonzeros {
                let node = from + slot;
                m.block(4, 7);
                let feature = m.load(self.index, node, || self.feature_at(node, slot)) as u32;
                let value = m.load(self.value, node, || self.value(node));
                let weight = m.get(self.weights, feature.into());
                m.put(self.weights, feature.into(), weight + step * value);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model;

    #[test]
    fn weights_are_the_sum_of_what_alphas_say_and_the_dual_falls() {
        let mut last = f64::INFINITY;
        for outer in [1, 5, 20] {
            let mut found = model(Svm::new([200, 64, 5], 3, [2, outer], 1));
            let alphas = found.array(|k| k.alphas.array());
            let weights = found.array(|k| k.weights.array());
            let k = &found.algorithm;
            let mut sum = vec![0.0; 64];
            for (i, alpha) in alphas.iter().enumerate() {
                assert!(*alpha >= 0.0);
                for node in i as u64 * 5..i as u64 * 5 + 5 {
                    sum[k.feature(node) as usize] += alpha * k.label(i as u64) * k.value(node);
                }
            }
            assert!(weights.iter().zip(&sum).all(|(a, b)| (a - b).abs() < 1e-9));
            // Half the square of the weights, the diagonal's part, minus the sum of alphas.
            let dual: f64 = weights.iter().map(|w| w * w / 2.0).sum::<f64>()
                + alphas.iter().map(|a| DIAGONAL / 2.0 * a * a - a).sum::<f64>();
            assert!(dual < last, "{outer} passes: {dual} after {last}");
            last = dual;
        }
    }

    #[test]
    fn each_block_is_passed_over_before_the_next() {
        let k = Svm::new([10, 64, 5], 3, [2, 1], 1);
        let order: Vec<u64> = (0..20).map(|at| k.instance(at)).collect();
        assert_eq!(order, [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 8, 9, 6, 7, 8, 9]);
        // An instance's features rise, and none is beyond the last.
        for node in 0..50 {
            assert!(node % 5 == 4 || k.feature(node) < k.feature(node + 1));
            assert!(k.feature(node) < 64);
        }
    }
}
