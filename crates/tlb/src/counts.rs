//! Counters of the TLBs: accesses, hits and misses by level and side, and the counts of each array. Some counters
//! follow from others. `HierarchyCounts::check` verifies that they agree: for example, misses of level 1 equal
//! accesses of level 2.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Lookups of one side at one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SideCounts {
    /// Lookups.
    pub accesses: u64,
    /// Lookups that found a translation, whatever its rights.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
}

/// Results of a coalescing array for the base pages that walks found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CoalescingCounts {
    /// Fills by walks that became an entry of several pages.
    pub coalesced: u64,
    /// Entries of several pages dropped, in whole or for one page, because a walk found that page to have changed:
    /// above all for the first store to a clean group.
    pub destroyed: u64,
    /// Fills of one page because a page of the group was not mapped.
    pub missing: u64,
    /// Because a page of the group had not been touched.
    pub untouched: u64,
    /// Because the rights of the group's pages differ.
    pub rights_differ: u64,
    /// Because some pages of the group are dirty and others are not.
    pub mixed_dirty: u64,
    /// Because the frames are not contiguous.
    pub not_contiguous: u64,
    /// Because the frames are contiguous, but not aligned as the pages are.
    pub misaligned: u64,
}

impl CoalescingCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.coalesced += other.coalesced;
        self.destroyed += other.destroyed;
        self.missing += other.missing;
        self.untouched += other.untouched;
        self.rights_differ += other.rights_differ;
        self.mixed_dirty += other.mixed_dirty;
        self.not_contiguous += other.not_contiguous;
        self.misaligned += other.misaligned;
    }
}

/// Writes of an array of bundles, by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MirrorCounts {
    /// Entries written, one for each set that a fill reached.
    pub writes: u64,
    /// Sets beyond the probed one that a fill read to find the bundle's copy: of `mirrors = "merged"`.
    pub reads: u64,
    /// Fills that made an entry of the probed set larger, rather than a new one.
    pub extended: u64,
    /// Copies that lookups met and dropped.
    pub duplicates: u64,
}

impl MirrorCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.writes += other.writes;
        self.reads += other.reads;
        self.extended += other.extended;
        self.duplicates += other.duplicates;
    }
}

/// Counts of one array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArrayCounts {
    /// The array.
    pub name: String,
    /// Its level.
    pub level: u8,
    /// `instruction`, `data` or `both`.
    pub side: String,
    /// Lookups that searched it.
    pub accesses: u64,
    /// Those that found their page in it.
    pub hits: u64,
    /// Those that did not; another array of the level may have.
    pub misses: u64,
    /// Entries written.
    pub fills: u64,
    /// Entries replaced by another.
    pub evictions: u64,
    /// Entries dropped by invalidations.
    pub invalidations: u64,
    /// Of these, entries that the same reference had brought; counted only where several hierarchies have one search of
    /// the first level.
    #[serde(skip)]
    pub undone: u64,
    /// Hits by the size of the entry.
    pub hits_by_size: BTreeMap<String, u64>,
    /// Counts of a coalescing design; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalescing: Option<CoalescingCounts>,
    /// Counts of designs that write to several sets; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirroring: Option<MirrorCounts>,
    /// Probes, of arrays that are searched size by size; absent for others, which take one a lookup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<u64>,
    /// Counts of its page-size predictor; absent for arrays without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predictor: Option<PredictorCounts>,
}

/// Entries that the misses of one side's first level brought into it, by the size of the entry: `coalesced` if it
/// translates several pages of the table. AMD's counters of L1 DTLB misses have the same classes (paper 1, Table 2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reloads {
    /// From the second level.
    pub l2_hits: BTreeMap<String, u64>,
    /// From a walk. Misses that ended without a translation, in no page, are in neither.
    pub l2_misses: BTreeMap<String, u64>,
}

/// The name for misses whose page no first-level array holds.
pub const NO_L1_ARRAY: &str = "no_l1_array";

/// Counts of the hierarchies of one core, or of all cores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HierarchyCounts {
    /// First level, fetches.
    pub l1i: SideCounts,
    /// First level, loads and stores.
    pub l1d: SideCounts,
    /// Second level, fetches.
    pub l2i: SideCounts,
    /// Second level, loads and stores.
    pub l2d: SideCounts,
    /// Reloads by the misses of l1i.
    pub reloads_i: Reloads,
    /// Reloads by the misses of l1d.
    pub reloads_d: Reloads,
    /// Each array.
    pub arrays: Vec<ArrayCounts>,
}

impl SideCounts {
    /// Adds another's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

impl HierarchyCounts {
    /// Checks that hits and misses make up the accesses, level by level and array by array.
    ///
    /// # Errors
    /// The first identity that does not hold.
    pub fn check(&self) -> Result<(), String> {
        for (name, c) in [("l1i", self.l1i), ("l1d", self.l1d), ("l2i", self.l2i), ("l2d", self.l2d)] {
            if c.hits + c.misses != c.accesses {
                return Err(format!("{name}: {} hits + {} misses != {} accesses", c.hits, c.misses, c.accesses));
            }
        }
        for (above, below, name) in [(self.l1i, self.l2i, "instruction"), (self.l1d, self.l2d, "data")] {
            if above.misses != below.accesses {
                return Err(format!("{name}: {} L1 misses != {} L2 accesses", above.misses, below.accesses));
            }
        }
        for (reloads, below, name) in [(&self.reloads_i, self.l2i, "instruction"), (&self.reloads_d, self.l2d, "data")]
        {
            let [hits, misses] = [&reloads.l2_hits, &reloads.l2_misses].map(|by_size| by_size.values().sum::<u64>());
            if hits != below.hits {
                return Err(format!("{name}: reloads of L2 hits add up to {hits}, L2 hits are {}", below.hits));
            }
            if misses > below.misses {
                return Err(format!("{name}: reloads of L2 misses add up to {misses}, of {} L2 misses", below.misses));
            }
        }
        for a in &self.arrays {
            if a.hits + a.misses != a.accesses || a.hits_by_size.values().sum::<u64>() != a.hits {
                return Err(format!("{}: {} hits + {} misses != {} accesses", a.name, a.hits, a.misses, a.accesses));
            }
        }
        for (level, hits) in [(1, self.l1i.hits + self.l1d.hits), (2, self.l2i.hits + self.l2d.hits)] {
            let sum: u64 = self.arrays.iter().filter(|a| a.level == level).map(|a| a.hits).sum();
            if sum != hits {
                return Err(format!("level {level}: its arrays hit {sum} times, the level {hits} times"));
            }
        }
        Ok(())
    }
}

/// Counts of a predictor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PredictorCounts {
    /// Guesses: one for each lookup of the array.
    pub guesses: u64,
    /// Lookups that hit with the size guessed.
    pub right: u64,
    /// Lookups that hit with another size, and so took more than one probe.
    pub wrong: u64,
    /// Entries written: those that said another size.
    pub updates: u64,
}

impl PredictorCounts {
    /// Adds another core's.
    pub fn add(&mut self, other: &Self) {
        self.guesses += other.guesses;
        self.right += other.right;
        self.wrong += other.wrong;
        self.updates += other.updates;
    }
}
