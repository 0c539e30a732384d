//! As jemalloc 5 with one arena and no caches of threads (narenas:1, tcache:false, cache_oblivious:false, retain:true).
//!
//! Small objects lie in *slabs*, runs of pages parted into regions of one size class. An object gets the lowest free
//! region of the lowest slab that has one. Larger ones have runs of pages of their own. Runs that are given back are
//! *dirty*; they are used first, and in time the oldest are told to the system with MADV_FREE (decay.rs). These are
//! used next; then what was mapped and never used; and then memory is mapped, each time one size class more. Nothing is
//! ever unmapped.

use super::{
    classes,
    decay::Decay,
    desc::JemallocDesc,
    runs::{Fit, Runs},
    window::Window,
};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT};
use std::collections::{BTreeMap, BTreeSet};

/// A dirty run serves objects of at least a 64th of it (opt.lg_extent_max_active_fit is 6).
const MOST_TIMES: u64 = 64;

/// Pages in use.
#[derive(Clone, Debug)]
enum Used {
    Slab(Slab),
    /// One object; its bytes.
    Large(u64),
}

/// A run of pages parted into regions.
#[derive(Clone, Debug)]
struct Slab {
    class: usize,
    /// A bit for each region that is free.
    free: Vec<u64>,
    free_count: u64,
}

/// A size class.
#[derive(Clone, Debug)]
struct Bin {
    region: u64,
    slab_bytes: u64,
    /// Slabs with a free region.
    open: BTreeSet<u64>,
}

impl Bin {
    fn regions(&self) -> u64 {
        self.slab_bytes / self.region
    }

    /// A slab with all regions free.
    fn slab(&self, class: usize) -> Slab {
        let count = self.regions();
        let mut free = vec![u64::MAX; count.div_ceil(64) as usize];
        if let (Some(last), rest @ 1..) = (free.last_mut(), count % 64) {
            *last = (1 << rest) - 1;
        }
        Slab { class, free, free_count: count }
    }
}

impl Slab {
    fn take_lowest(&mut self) -> Option<u64> {
        let (word, bits) = self.free.iter_mut().enumerate().find(|(_, bits)| **bits != 0)?;
        let bit = bits.trailing_zeros();
        *bits &= *bits - 1;
        self.free_count -= 1;
        Some(word as u64 * 64 + u64::from(bit))
    }

    fn give_back(&mut self, region: u64) {
        self.free[(region / 64) as usize] |= 1 << (region % 64);
        self.free_count += 1;
    }
}

/// The allocator.
#[derive(Clone, Debug)]
pub struct Jemalloc {
    bins: Vec<Bin>,
    used: BTreeMap<u64, Used>,
    dirty: Runs,
    /// Told to the system, and not used since.
    muzzy: Runs,
    /// Never used.
    retained: Runs,
    decay: Option<Decay>,
    at_once: bool,
    next_mapping: u64,
    mapping_align: u64,
    /// The end of what is mapped.
    end: u64,
}

impl Jemalloc {
    pub fn new(desc: &JemallocDesc, now_ns: u64) -> Self {
        let bins = classes::small().into_iter().map(|region| Bin {
            region,
            slab_bytes: classes::slab_bytes(region),
            open: BTreeSet::new(),
        });
        let runs = |times| {
            Runs::new(
                Fit::First { floor: classes::pages_floor, ceil: classes::pages_ceil, times },
                BASE_BYTES,
                BASE_BYTES,
            )
        };
        let decays = u64::try_from(desc.dirty_decay_ms).ok().filter(|&ms| ms > 0);
        Self {
            bins: bins.collect(),
            used: BTreeMap::new(),
            dirty: runs(MOST_TIMES),
            muzzy: runs(u64::MAX),
            retained: runs(u64::MAX),
            decay: decays.map(|ms| Decay::new(ms.saturating_mul(1_000_000), now_ns)),
            at_once: desc.dirty_decay_ms == 0,
            next_mapping: classes::pages_ceil(desc.first_mapping.0),
            mapping_align: desc.mapping_align.0,
            end: desc.window.0,
        }
    }

    pub fn malloc(&mut self, len: u64, align: u64, now_ns: u64, window: &mut Window) -> Option<u64> {
        let bytes = len.max(1).checked_next_multiple_of(align)?;
        let at = if bytes <= classes::SMALL_MOST && align <= BASE_BYTES {
            self.small(classes::ceil(bytes), window)?
        } else {
            let bytes = classes::pages_ceil(len.max(1).checked_next_multiple_of(BASE_BYTES)?);
            let (at, bytes) = self.pages(bytes, align.max(BASE_BYTES), window)?;
            self.used.insert(at, Used::Large(bytes));
            at
        };
        self.tick(now_ns, window);
        Some(at)
    }

    /// A region of the class of `bytes`.
    fn small(&mut self, bytes: u64, window: &mut Window) -> Option<u64> {
        let class = self.bins.partition_point(|bin| bin.region < bytes);
        let bin = &self.bins[class];
        let (region, open) = (bin.region, bin.open.first().copied());
        let start = match open {
            Some(start) => start,
            None => {
                let slab = bin.slab(class);
                let (start, _) = self.pages(bin.slab_bytes, BASE_BYTES, window)?;
                self.used.insert(start, Used::Slab(slab));
                self.bins[class].open.insert(start);
                start
            }
        };
        let Some(Used::Slab(slab)) = self.used.get_mut(&start) else { return None };
        let index = slab.take_lowest()?;
        if slab.free_count == 0 {
            self.bins[class].open.remove(&start);
        }
        Some(start + index * region)
    }

    /// A run of pages.
    fn pages(&mut self, bytes: u64, align: u64, window: &mut Window) -> Option<(u64, u64)> {
        for runs in [&mut self.dirty, &mut self.muzzy, &mut self.retained] {
            if let Some(found) = runs.take(bytes, align, 0) {
                return Some(found);
            }
        }
        self.grow(bytes.checked_add(if align > BASE_BYTES { align + BASE_BYTES } else { 0 })?, window)?;
        self.retained.take(bytes, align, 0)
    }

    /// Maps at least `bytes` more.
    fn grow(&mut self, bytes: u64, window: &mut Window) -> Option<()> {
        let mapping = self.next_mapping.max(classes::pages_ceil(bytes));
        let start = self.end.next_multiple_of(self.mapping_align);
        window.map(start, mapping)?;
        self.end = start + mapping;
        self.next_mapping = classes::pages_ceil(mapping + 1);
        self.retained.add(start, mapping);
        Some(())
    }

    pub fn free(&mut self, at: u64, now_ns: u64, window: &mut Window) {
        let Some((&start, used)) = self.used.range_mut(..=at).next_back() else { return };
        let bytes = match used {
            Used::Large(bytes) => *bytes,
            Used::Slab(slab) => {
                let bin = &mut self.bins[slab.class];
                slab.give_back((at - start) / bin.region);
                if slab.free_count < bin.regions() {
                    bin.open.insert(start);
                    return self.tick(now_ns, window);
                }
                bin.open.remove(&start);
                bin.slab_bytes
            }
        };
        self.used.remove(&start);
        self.dirty.add(start, bytes);
        self.tick(now_ns, window);
    }

    /// Tells the system of what has been unused for long enough, the oldest first.
    fn tick(&mut self, now_ns: u64, window: &mut Window) {
        let pages = self.dirty.total() >> BASE_SHIFT;
        let limit = match &mut self.decay {
            Some(decay) => decay.limit(pages, now_ns),
            None if self.at_once => Some(0),
            None => None,
        };
        let Some(limit) = limit else { return };
        while self.dirty.total() >> BASE_SHIFT > limit
            && let Some((start, bytes)) = self.dirty.take_oldest()
        {
            window.free(start, bytes);
            self.muzzy.add(start, bytes);
        }
    }
}
