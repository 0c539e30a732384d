//! Generator `hashjoin`: a hash join without partitions, in a build and a probe phase. Both relations are read in
//! sequence. Their keys are in random order, so each tuple accesses one random bucket:
//!
//! ```text
//! byte     0              8     16        24    32        40            48
//! bucket   | latch, count | key | payload | key | payload | next bucket |
//!                         | tuple 0       | tuple 1       |
//! ```

use super::Describe;
use crate::{
    algorithm::{Algorithm, Sharing},
    flow::{FREE, flow, from, from_both, to},
    layout::Layout,
    memory::{Array, Memory, Setup},
    seed::{Shuffle, below, mix, nth},
};
use mmulab_trace::Loads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A hash join without partitions: a table is built over one relation and probed with the other.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HashJoinDesc {
    /// Tuples of the inner relation, over which the table is built, as in 2^24 = 16777216. Each takes 40 bytes. Default
    /// 1048576.
    #[schemars(range(min = 2, max = 1u64 << 40))]
    #[schemars(extend("x-power-of-two" = true))]
    inner: u64,
    /// Tuples of the outer relation, which probe it; each takes 16 bytes. Default 1048576.
    #[schemars(range(min = 1, max = 1u64 << 40))]
    outer: u64,
    /// Whether the table is built too: 1, or 0 to begin with the probing. Default 1.
    #[schemars(range(min = 0, max = 1))]
    build: u64,
    /// Chooses the order of the keys. Default 1.
    #[schemars(range(min = 0, max = i64::MAX))]
    seed: u64,
}

impl Default for HashJoinDesc {
    fn default() -> Self {
        Self { inner: 1 << 20, outer: 1 << 20, build: 1, seed: 1 }
    }
}

impl Describe for HashJoinDesc {
    const NAME: &str = "hashjoin";
    type Algorithm = HashJoin;

    fn algorithm(&self) -> Result<HashJoin, String> {
        Ok(HashJoin::new(self.inner, self.outer, self.build == 1, self.seed))
    }
}

/// The no-partitioning join (NPO), on one thread, with tuples of 16 bytes. Source: Balkesen et al., "Main-memory hash
/// joins on multi-core CPUs: Tuning to the underlying hardware", ICDE 2013. Buckets have two tuples and a chain for
/// more, and as many buckets as hold the inner relation exactly. The hash is the key's low bits. Keys of the inner
/// relation are unique and dense, in random order; those of the outer one are random ones of them.
#[derive(Clone)]
pub struct HashJoin {
    layout: Layout,
    inner_keys: Array<u64>,
    inner_payloads: Array<u64>,
    outer_keys: Array<u64>,
    counts: Array<u64>,
    /// Keys and payloads of tuples in buckets.
    slots: [(Array<u64>, Array<u64>); 2],
    next: Array<u64>,
    order: Shuffle,
    inner: u64,
    outer: u64,
    /// Rounds of building.
    builds: u64,
    key: u64,
    at: u64,
    /// Matches found: with keys that are all there, one for each outer tuple.
    pub matches: u64,
}

const TUPLE_BYTES: u64 = 16;
/// Latch and count (8 bytes), two tuples, and the next bucket.
const BUCKET_BYTES: u64 = 48;
const BUILD_INSTRUCTIONS: u32 = 15;
const PROBE_INSTRUCTIONS: u32 = 19;

impl HashJoin {
    /// `inner` (a power of two) and `outer` tuples.
    pub fn new(inner: u64, outer: u64, build: bool, seed: u64) -> Self {
        let mut layout = Layout::default();
        let left = layout.records(inner, TUPLE_BYTES);
        let right = layout.records(outer, TUPLE_BYTES);
        let buckets = layout.records(inner / 2, BUCKET_BYTES);
        Self {
            layout,
            inner_keys: left.field(0),
            inner_payloads: left.field(8),
            outer_keys: right.field(0),
            counts: buckets.field(0),
            slots: [(buckets.field(8), buckets.field(16)), (buckets.field(24), buckets.field(32))],
            next: buckets.field(40),
            order: Shuffle::new(inner, seed),
            inner,
            outer,
            builds: if build { inner } else { 0 },
            key: mix(seed),
            at: 0,
            matches: 0,
        }
    }

    /// Which slot of its bucket the tuple with `key` has: that of the one that came first is 0.
    #[inline(always)]
    fn slot(&self, key: u64) -> usize {
        usize::from(self.order.back(key) > self.order.back(key ^ (self.inner / 2)))
    }

    /// The key in a slot of a full bucket.
    #[inline(always)]
    fn key_in(&self, bucket: u64, slot: usize) -> u64 {
        if self.slot(bucket) == slot { bucket } else { bucket + self.inner / 2 }
    }

    #[inline(always)]
    fn insert(&self, m: &mut impl Memory, tuple: u64) {
        m.block(0, BUILD_INSTRUCTIONS);
        let key = m.load(self.inner_keys, tuple, || self.order.forth(tuple));
        let bucket = key & (self.inner / 2 - 1);
        m.load(self.next, bucket, || 0);
        let count = m.load(self.counts, bucket, || self.slot(key) as u64);
        m.store(self.counts, bucket, || count + 1);
        // Two at most: that is how many keys have these low bits.
        let (keys, payloads) = self.slots[count as usize & 1];
        let payload = m.load(self.inner_payloads, tuple, || tuple);
        m.store(keys, bucket, || key);
        m.store(payloads, bucket, || payload);
    }

    #[inline(always)]
    fn probe(&mut self, m: &mut impl Memory, tuple: u64) {
        m.block(1, PROBE_INSTRUCTIONS);
        let wanted = m.load(self.outer_keys, tuple, || self.outer_key(tuple));
        let bucket = wanted & (self.inner / 2 - 1);
        let count = m.load(self.counts, bucket, || 2);
        for slot in 0..count.min(2) as usize {
            let key = m.load(self.slots[slot].0, bucket, || if slot == 0 { wanted } else { !wanted });
            self.matches += u64::from(key == wanted);
        }
        m.load(self.next, bucket, || 0);
    }

    #[inline(always)]
    fn outer_key(&self, tuple: u64) -> u64 {
        below(nth(self.key, tuple), self.inner)
    }
}

impl Algorithm for HashJoin {
    fn loads(&self) -> Option<Loads> {
        // A tuple's key gives its bucket, and tuples are read in sequence. So everything in a bucket waits for the key
        // alone, and no tuple waits for another. Where a tuple is put also waits for the bucket's count.
        const KEY: u8 = 1;
        const COUNT: u8 = 2;
        flow(&[
            (
                0,
                &[
                    to(KEY, FREE),
                    from(KEY),
                    to(COUNT, from(KEY)),
                    from(KEY),
                    FREE,
                    from_both(KEY, COUNT),
                    from_both(KEY, COUNT),
                ],
            ),
            (1, &[to(KEY, FREE), from(KEY)]),
        ])
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn rounds(&self) -> Option<u64> {
        Some(self.builds + self.outer)
    }

    fn instructions_before(&self, round: u64) -> Option<u64> {
        let (built, probed) = (round.min(self.builds), round.saturating_sub(self.builds));
        Some(built * u64::from(BUILD_INSTRUCTIONS) + probed * u64::from(PROBE_INSTRUCTIONS))
    }

    fn prepare(&self, setup: &mut impl Setup) {
        setup.rows(self.inner, |i| [self.inner_keys.cell(i, self.order.forth(i)), self.inner_payloads.cell(i, i)]);
        setup.fill(self.outer_keys, |i| self.outer_key(i));
        if self.builds == 0 {
            let [(first_keys, first_payloads), (second_keys, second_payloads)] = self.slots;
            setup.rows(self.inner / 2, |bucket| {
                let (first, second) = (self.key_in(bucket, 0), self.key_in(bucket, 1));
                [
                    self.counts.cell(bucket, 2),
                    first_keys.cell(bucket, first),
                    first_payloads.cell(bucket, self.order.back(first)),
                    second_keys.cell(bucket, second),
                    second_payloads.cell(bucket, self.order.back(second)),
                ]
            });
        }
    }

    fn sharing(&self) -> Sharing {
        // Which slot of its bucket a tuple is put in depends on which came before.
        Sharing::Intervals { after: self.builds, each: u64::MAX }
    }

    fn seek(&mut self, round: u64) -> bool {
        self.at = round;
        true
    }

    #[inline(always)]
    fn round(&mut self, m: &mut impl Memory) -> bool {
        let at = self.at;
        self.at += 1;
        if at < self.builds {
            self.insert(m, at);
        } else {
            self.probe(m, at - self.builds);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model;
    use std::collections::BTreeMap;

    #[test]
    fn the_join_finds_what_a_map_finds() {
        for build in [true, false] {
            let mut found = model(HashJoin::new(1 << 10, 3000, build, 5));
            let keys: BTreeMap<u64, u64> = found.array(|k| k.inner_keys).into_iter().zip(0..).collect();
            assert_eq!(keys.len(), 1 << 10, "unique");
            let matches = found.array(|k| k.outer_keys).iter().filter(|k| keys.contains_key(k)).count();
            assert_eq!(found.algorithm.matches, matches as u64);
            assert_eq!(matches, 3000);
            // The table holds every inner tuple, payload beside key.
            let [a, b] = [0, 1].map(|i| {
                let keys = found.array(|k| k.slots[i].0);
                keys.into_iter().zip(found.array(|k| k.slots[i].1)).collect::<Vec<_>>()
            });
            assert_eq!(a.into_iter().chain(b).collect::<BTreeMap<_, _>>(), keys);
        }
    }
}
