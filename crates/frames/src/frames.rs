use crate::{
    MemoryDesc,
    buddy::Buddy,
    fragment::{self, Occupied},
};
use mmulab_addr::{PageOrder, Pfn};
use serde::Serialize;
use thiserror::Error;

/// Whether the contents of frames could be moved elsewhere (Linux's migrate types).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mobility {
    /// The kernel's own: page tables.
    Unmovable = 0,
    /// The program's.
    Movable = 1,
    /// Caches the kernel can drop.
    Reclaimable = 2,
}

impl Mobility {
    pub(crate) const COUNT: usize = 3;
    pub(crate) const ALL: [Self; Self::COUNT] = [Self::Unmovable, Self::Movable, Self::Reclaimable];
}

/// Memory that cannot be as described.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("memory.{key}: {what}")]
pub struct MemoryError {
    /// The key.
    pub key: &'static str,
    /// What is wrong and what to do.
    pub what: String,
}

/// What the allocator did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FrameCounts {
    /// Blocks split in two.
    pub splits: u64,
    /// Pairs of buddies merged.
    pub merges: u64,
    /// Blocks taken from another mobility's lists.
    pub steals: u64,
    /// Per-CPU lists refilled.
    pub refills: u64,
    /// Per-CPU lists relieved.
    pub reliefs: u64,
    /// Requests that found no block, per-CPU lists included.
    pub refusals: u64,
}

/// The largest order that per-CPU lists hold besides huge pages (PAGE_ALLOC_COSTLY_ORDER).
const COSTLY: u8 = 3;
/// Per-CPU lists: orders 0..=3 by mobility.
const PCP_LISTS: usize = (COSTLY as usize + 1) * Mobility::COUNT;
/// A per-CPU list is relieved when it holds this many batches (`pcp->high`, before it was tuned to the zone).
const HIGH_BATCHES: u32 = 6;

/// Free frames kept by one processor; the last one is the next to go out.
#[derive(Default)]
struct PerCpu {
    lists: [Vec<u32>; PCP_LISTS],
    /// Base frames in all of them.
    held: u32,
    /// Where the next relief begins.
    turn: usize,
}

/// Physical memory as Linux hands it out.
pub struct Frames {
    buddy: Buddy,
    cpus: Vec<PerCpu>,
    batch: u32,
    total: u64,
    counts: FrameCounts,
}

/// Memory below 1 MiB, which Linux on x86-64 reserves (arch/x86/kernel/setup.c, `reserve_bios_regions` and the real-mode
/// trampoline).
const RESERVED: u32 = 256;

impl Frames {
    /// Memory after boot, occupied as the description says.
    ///
    /// # Errors
    /// A size or an occupation that cannot be.
    pub fn new(desc: &MemoryDesc, cpus: u16, seed: u64) -> Result<Self, MemoryError> {
        let bytes = desc.bytes();
        if !((16 << 20)..=(16 << 40)).contains(&bytes) {
            let what = format!("'{}' is not between 16M and 16T: write it as 32G", desc.size);
            return Err(MemoryError { key: "size", what });
        }
        if !(9..=13).contains(&desc.max_order) {
            let what = format!("{} is not between 9 and 13", desc.max_order);
            return Err(MemoryError { key: "max_order", what });
        }
        if !(1..=512).contains(&desc.pcp_batch) {
            let what = format!("{} is not between 1 and 512", desc.pcp_batch);
            return Err(MemoryError { key: "pcp_batch", what });
        }
        let total = bytes >> mmulab_addr::BASE_SHIFT;
        let mut buddy = Buddy::new(total, desc.max_order);
        let occupied = fragment::occupy(&desc.fragment, RESERVED, total as u32, seed)?;
        match occupied {
            Occupied::Nothing => buddy.free_range(RESERVED, total as u32),
            Occupied::Free(runs) => runs.into_iter().for_each(|(from, to)| buddy.free_range(from, to)),
        }
        let cpus = (0..cpus.max(1)).map(|_| PerCpu::default()).collect();
        Ok(Self { buddy, cpus, batch: desc.pcp_batch, total, counts: FrameCounts::default() })
    }

    /// A block of `order` on its own alignment.
    #[inline]
    pub fn alloc(&mut self, order: PageOrder, mobility: Mobility, cpu: u16) -> Option<Pfn> {
        let order = order.get();
        let got = if order <= COSTLY { self.of_list(order, mobility, cpu) } else { self.of_buddy(order, mobility) };
        if got.is_none() {
            self.counts.refusals += 1;
        }
        got.map(|pfn| Pfn(u64::from(pfn)))
    }

    /// A block that may be larger than the buddy allocator's, such as a 1 GiB page: what boot can still find whole.
    pub fn alloc_contiguous(&mut self, order: PageOrder) -> Option<Pfn> {
        if order.get() <= self.buddy.max_order() {
            return self.alloc(order, Mobility::Movable, 0);
        }
        self.drain();
        self.buddy.take_run(order.get()).map(|pfn| Pfn(u64::from(pfn)))
    }

    /// Gives a block back.
    #[inline]
    pub fn free(&mut self, pfn: Pfn, order: PageOrder, cpu: u16) {
        let (pfn, order) = (pfn.0 as u32, order.get());
        if order > self.buddy.max_order() {
            let step = 1 << self.buddy.max_order();
            for part in (pfn..pfn + (1 << order)).step_by(step) {
                self.buddy.give(part, self.buddy.max_order(), false, &mut self.counts);
            }
            return;
        }
        let mobility = self.buddy.block_of(pfn);
        if order > COSTLY {
            self.buddy.give(pfn, order, mobility == Mobility::Movable, &mut self.counts);
            return;
        }
        let cpu = usize::from(cpu) % self.cpus.len();
        let mine = &mut self.cpus[cpu];
        mine.lists[usize::from(order) * Mobility::COUNT + mobility as usize].push(pfn);
        mine.held += 1 << order;
        if mine.held >= HIGH_BATCHES * self.batch {
            self.relieve(cpu);
        }
    }

    #[inline]
    fn of_list(&mut self, order: u8, mobility: Mobility, cpu: u16) -> Option<u32> {
        let cpu = usize::from(cpu) % self.cpus.len();
        let list = usize::from(order) * Mobility::COUNT + mobility as usize;
        if self.cpus[cpu].lists[list].is_empty() {
            self.refill(cpu, order, mobility, list);
        }
        if self.cpus[cpu].lists[list].is_empty() {
            // What other lists keep may merge to what is wanted (`drain_all_pages`).
            self.drain();
            self.refill(cpu, order, mobility, list);
        }
        let mine = &mut self.cpus[cpu];
        let pfn = mine.lists[list].pop()?;
        mine.held -= 1 << order;
        Some(pfn)
    }

    fn of_buddy(&mut self, order: u8, mobility: Mobility) -> Option<u32> {
        if order > self.buddy.max_order() {
            return None;
        }
        self.buddy.take(order, mobility, &mut self.counts).or_else(|| {
            self.drain();
            self.buddy.take(order, mobility, &mut self.counts)
        })
    }

    /// `rmqueue_bulk`: the first block taken is the first to go out.
    #[cold]
    fn refill(&mut self, cpu: usize, order: u8, mobility: Mobility, list: usize) {
        self.counts.refills += 1;
        for _ in 0..(self.batch >> order).max(2) {
            match self.buddy.take(order, mobility, &mut self.counts) {
                Some(pfn) => {
                    self.cpus[cpu].lists[list].push(pfn);
                    self.cpus[cpu].held += 1 << order;
                }
                None => break,
            }
        }
        self.cpus[cpu].lists[list].reverse();
    }

    /// `free_pcppages_bulk`: a batch goes back, oldest first, the lists taking turns.
    #[cold]
    fn relieve(&mut self, cpu: usize) {
        self.counts.reliefs += 1;
        let mut left = self.batch;
        let mine = &mut self.cpus[cpu];
        while left > 0 && mine.held > 0 {
            let turn = mine.turn % PCP_LISTS;
            mine.turn = turn + 1;
            if mine.lists[turn].is_empty() {
                continue;
            }
            let order = (turn / Mobility::COUNT) as u8;
            let movable = turn % Mobility::COUNT == Mobility::Movable as usize;
            let take = mine.lists[turn].len().min((left >> order).max(1) as usize);
            for pfn in mine.lists[turn].drain(..take) {
                self.buddy.give(pfn, order, movable, &mut self.counts);
                mine.held -= 1 << order;
                left = left.saturating_sub(1 << order);
            }
        }
    }

    /// Empties every per-CPU list.
    pub fn drain(&mut self) {
        for cpu in 0..self.cpus.len() {
            while self.cpus[cpu].held > 0 {
                self.relieve(cpu);
            }
        }
    }

    /// The largest order of a block.
    pub fn max_order(&self) -> u8 {
        self.buddy.max_order()
    }

    /// Frames in all.
    pub fn total_frames(&self) -> u64 {
        self.total
    }

    /// Frames free, per-CPU lists included.
    pub fn free_frames(&self) -> u64 {
        self.buddy.free_frames() + self.cpus.iter().map(|c| u64::from(c.held)).sum::<u64>()
    }

    /// Free blocks of exactly `order`, per-CPU lists left out (`/proc/buddyinfo`).
    pub fn free_blocks(&self, order: u8) -> u64 {
        if order > self.buddy.max_order() { 0 } else { self.buddy.free_blocks(order) }
    }

    /// The share of free memory that lies in blocks too small for `order`: the unusable free space index of Gorman and
    /// Whitcroft ("The what, the why and the where to of anti-fragmentation", 2006), which papers on huge pages call
    /// FMFI. 0 when every free frame is usable, 1 when none is or nothing is free.
    pub fn fmfi(&self, order: u8) -> f64 {
        let free = self.buddy.free_frames();
        if free == 0 {
            return 1.0;
        }
        let usable: u64 = (order..=self.buddy.max_order()).map(|o| self.buddy.free_blocks(o) << o).sum();
        (free - usable) as f64 / free as f64
    }

    /// What it did so far.
    pub fn counts(&self) -> FrameCounts {
        self.counts
    }
}
