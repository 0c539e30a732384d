use crate::{WalkCacheDesc, WalkerError};
use mmulab_addr::{Asid, BASE_BYTES, Pfn, PhysAddr, VirtAddr, VirtRange};
use mmulab_pagetable::{Format, Rights};
use mmulab_sets::{EMPTY, Keys, Store, each, geometry};

/// What an upper-level entry said, and what the entries above it had granted.
#[derive(Clone, Copy, Debug)]
pub struct Upper {
    pub bits: u64,
    pub rights: Rights,
}

/// Where the host has a frame of the table that an entry of a guest leads to.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// The frame as the guest knows it.
    pub table: Pfn,
    /// The frame as the host knows it.
    pub host: Pfn,
}

/// A cache of upper-level entries.
pub struct WalkCache {
    pub name: String,
    pub hit_cycles: u32,
    /// Bit `n`: it holds entries of level `n`.
    levels: u32,
    sets: u64,
    keys: Store,
    /// Ways still empty.
    empty: u32,
    /// By set and way.
    held: Vec<Upper>,
    /// The same, in a guest only: where the tables below were.
    placed: Vec<Placed>,
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
        let keys = Store::new(sets, ways, desc.replacement, seed);
        let nothing = Upper { bits: 0, rights: Rights::ALL };
        Ok(Some(Self {
            name: desc.name.clone(),
            hit_cycles: desc.hit_cycles,
            levels: desc.levels.iter().fold(0, |m, l| m | 1 << l),
            sets: sets as u64,
            held: vec![nothing; sets * each!(&keys, keys => keys.stride())],
            keys,
            empty: desc.entries,
            placed: Vec::new(),
        }))
    }

    /// Makes room for where the tables below are.
    pub fn keep_places(&mut self) {
        self.placed = vec![Placed { table: Pfn(0), host: Pfn(0) }; self.held.len()];
    }

    /// Where the host has the guest's `entry`, if it lies in the frame that the held entry at `at` was last followed to.
    #[inline]
    pub fn place(&self, at: usize, entry: PhysAddr) -> Option<PhysAddr> {
        let placed = self.placed.get(at)?;
        (placed.table == entry.pfn()).then(|| PhysAddr(placed.host.addr().0 | (entry.0 & (BASE_BYTES - 1))))
    }

    /// Whether it holds entries of `level`.
    #[inline(always)]
    pub fn holds(&self, level: u8) -> bool {
        self.levels >> level & 1 == 1
    }

    /// The entry of `level` for `va`, used, and its place.
    #[inline]
    pub fn lookup(&mut self, format: Format, level: u8, asid: Asid, va: VirtAddr) -> Option<(Upper, usize)> {
        let (index, key) = key(format, level, asid, va);
        let set = self.set_of(index);
        let at = each!(&mut self.keys, keys => {
            let way = keys.find(set, key)?;
            keys.touch(set, way);
            set * keys.stride() + way
        });
        Some((self.held[at], at))
    }

    /// Keeps an entry that a walk read; in a guest, with where it led.
    #[inline]
    pub fn insert(
        &mut self,
        format: Format,
        level: u8,
        asid: Asid,
        va: VirtAddr,
        upper: Upper,
        placed: Option<Placed>,
    ) {
        let (index, key) = key(format, level, asid, va);
        let set = self.set_of(index);
        let at = each!(&mut self.keys, keys => {
            let way = match keys.find(set, key) {
                Some(way) => {
                    keys.touch(set, way);
                    way
                }
                None => {
                    let (way, gone) = keys.admit(set, key, self.empty != 0);
                    self.empty -= u32::from(gone == EMPTY);
                    way
                }
            };
            set * keys.stride() + way
        });
        self.held[at] = upper;
        if let (Some(placed), Some(room)) = (placed, self.placed.get_mut(at)) {
            *room = placed;
        }
    }

    /// The set of an index: its low bits, or its remainder where the sets are no power of two.
    #[inline(always)]
    fn set_of(&self, index: u64) -> usize {
        if self.sets.is_power_of_two() { (index & (self.sets - 1)) as usize } else { (index % self.sets) as usize }
    }

    /// Drops entries whose tag and address `stale` says so of.
    pub fn drop_if(&mut self, format: Format, stale: impl Fn(Asid, VirtRange) -> bool) {
        let (mut empty, sets) = (self.empty, self.sets as usize);
        each!(&mut self.keys, keys => for set in 0..sets {
            for way in 0..keys.stride() {
                let key = keys.key(set, way);
                if key == EMPTY {
                    continue;
                }
                let order = format.covers((key & ((1 << LEVEL_BITS) - 1)) as u8);
                let start = VirtAddr::new((key >> (LEVEL_BITS + TAG_BITS)) << order.shift());
                let spans = VirtRange::sized(start, order.bytes());
                if stale(Asid((key >> LEVEL_BITS) as u16), spans) {
                    keys.remove(set, way);
                    empty += 1;
                }
            }
        });
        self.empty = empty;
    }
}
