use crate::{WalkCacheDesc, WalkerError};
use mmulab_addr::{Asid, VirtAddr, VirtRange};
use mmulab_pagetable::{Format, Rights};
use mmulab_sets::{EMPTY, Sets, geometry};

/// What an upper-level entry said, and what the entries above it had granted.
#[derive(Clone, Copy, Debug)]
pub struct Upper {
    pub bits: u64,
    pub rights: Rights,
}

/// A cache of upper-level entries.
pub struct WalkCache {
    pub name: String,
    pub hit_cycles: u32,
    /// Bit `n`: it holds entries of level `n`.
    levels: u32,
    sets: Sets,
    held: Vec<Upper>,
}

const LEVEL_BITS: u32 = 3;
const TAG_BITS: u32 = 16;

/// Level, address-space tag and the address above what the entry spans.
#[inline(always)]
fn key(format: Format, level: u8, asid: Asid, va: VirtAddr) -> (u64, u64) {
    let prefix = va.vpn().0 >> format.covers(level).get();
    (prefix, (prefix << (LEVEL_BITS + TAG_BITS)) | (u64::from(asid.0) << LEVEL_BITS) | u64::from(level))
}

impl WalkCache {
    /// The cache, or none where it has no entries.
    pub fn new(desc: &WalkCacheDesc, seed: u64) -> Result<Option<Self>, WalkerError> {
        let bad = |what: String| WalkerError { place: format!("walker.cache.{}", desc.name), what };
        if desc.levels.is_empty() {
            return Err(bad("levels is empty: name the levels whose entries it holds, such as [2, 3, 4]".into()));
        }
        if let Some(level) = desc.levels.iter().find(|l| !(2..=7).contains(*l)) {
            return Err(bad(format!(
                "level {level}: entries of levels 2 and up point to tables; level 1 is the TLB's"
            )));
        }
        if desc.entries == 0 {
            return Ok(None);
        }
        let (sets, ways) = geometry(u64::from(desc.entries), desc.ways, desc.replacement).map_err(bad)?;
        let nothing = Upper { bits: 0, rights: Rights::ALL };
        Ok(Some(Self {
            name: desc.name.clone(),
            hit_cycles: desc.hit_cycles,
            levels: desc.levels.iter().fold(0, |m, l| m | 1 << l),
            sets: Sets::new(sets, ways, desc.replacement, seed),
            held: vec![nothing; sets * ways],
        }))
    }

    /// Whether it holds entries of `level`.
    #[inline(always)]
    pub fn holds(&self, level: u8) -> bool {
        self.levels >> level & 1 == 1
    }

    /// The entry of `level` for `va`, used.
    #[inline]
    pub fn lookup(&mut self, format: Format, level: u8, asid: Asid, va: VirtAddr) -> Option<Upper> {
        let (index, key) = key(format, level, asid, va);
        let set = self.sets.set_of(index);
        let way = self.sets.find(set, key)?;
        self.sets.touch(set, way);
        Some(self.held[set * self.sets.ways() + way])
    }

    /// Keeps an entry that a walk read.
    #[inline]
    pub fn insert(&mut self, format: Format, level: u8, asid: Asid, va: VirtAddr, upper: Upper) {
        let (index, key) = key(format, level, asid, va);
        let set = self.sets.set_of(index);
        let put = self.sets.put(set, key);
        self.held[set * self.sets.ways() + put.way] = upper;
    }

    /// Drops entries whose tag and address `stale` says so of.
    pub fn drop_if(&mut self, format: Format, stale: impl Fn(Asid, VirtRange) -> bool) {
        for set in 0..self.sets.sets() {
            for way in 0..self.sets.ways() {
                let key = self.sets.key(set, way);
                if key == EMPTY {
                    continue;
                }
                let order = format.covers((key & ((1 << LEVEL_BITS) - 1)) as u8);
                let start = VirtAddr::new((key >> (LEVEL_BITS + TAG_BITS)) << order.shift());
                let spans = VirtRange::sized(start, order.bytes());
                if stale(Asid((key >> LEVEL_BITS) as u16), spans) {
                    self.sets.remove(set, way);
                }
            }
        }
    }
}
