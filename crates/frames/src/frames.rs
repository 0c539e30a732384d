//! The frame allocator of a simulated kernel: one interface over the allocators of Linux and FreeBSD. It has counters
//! and fragmentation figures (free blocks by order, FMFI). The contiguity of free memory decides the page sizes that a
//! policy can use, so both allocators follow the real ones.
//!
//! ```text
//! alloc, free --> Frames --+--> LinuxFrames     per-CPU page lists --> Buddy, by mobility
//!                          |
//!                          '--> FreebsdFrames   per-CPU caches     --> VmPhys, two pools
//! ```

use crate::{
    Fragment, FrameCounts, MemoryDesc, MemoryError, Mobility, Rest, aged,
    buddy::{BLOCK_ORDER, Buddy},
    cleared::Cleared,
    fragment::{self, Occupied},
    freebsd::FreebsdFrames,
    held::Held,
    linux::LinuxFrames,
    occupants::Occupants,
    vm_phys::{self, Pool, VmPhys},
};
use mmulab_addr::{PageOrder, Pfn};

/// Which system's allocator hands memory out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocator {
    /// Linux's zone: blocks up to `memory.max_order`, mobilities, per-CPU lists of `memory.pcp_batch`.
    Linux,
    /// FreeBSD's `vm_phys`: blocks of orders 0 to 12, two pools, and per-CPU caches of base frames.
    Freebsd {
        /// Base frames a per-CPU cache is filled with at a time.
        bucket: u32,
    },
}

enum Kind {
    Linux(LinuxFrames),
    Freebsd(FreebsdFrames),
}

/// Physical memory as an operating system hands it out.
pub struct Frames {
    kind: Kind,
    total: u64,
    counts: FrameCounts,
    /// What others than the program had in use when it began.
    held: Held,
    /// Of what occupied memory when the program began, the frames that can move.
    occupants: Occupants,
    /// Free frames that hold zeros.
    cleared: Cleared,
}

/// Memory below 1 MiB, which Linux on x86-64 reserves (arch/x86/kernel/setup.c, `reserve_bios_regions` and the
/// real-mode trampoline), and which FreeBSD spares alike.
const RESERVED: u32 = 256;

impl Frames {
    /// Memory of a Linux after boot, occupied as the description says.
    ///
    /// # Errors
    /// A size or an occupation that cannot be.
    pub fn new(desc: &MemoryDesc, cpus: u16, seed: u64) -> Result<Self, MemoryError> {
        Self::of(Allocator::Linux, desc, cpus, seed)
    }

    /// Memory after boot of the system whose allocator is given, occupied as the description says.
    ///
    /// # Errors
    /// A size or an occupation that cannot be.
    pub fn of(allocator: Allocator, desc: &MemoryDesc, cpus: u16, seed: u64) -> Result<Self, MemoryError> {
        let bytes = desc.bytes();
        // Frames are numbered by 32 bits.
        if !((16 << 20)..=(15 << 40)).contains(&bytes) {
            let what = format!("'{}' is not between 16M and 15T: give a size such as 32G", desc.size);
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
        if allocator == Allocator::Linux
            && desc.fragment == Fragment::None
            && let Some(observed) = aged::observed(desc.aged)
        {
            let layout = aged::lay(observed, RESERVED, total, desc.max_order, seed);
            return Ok(Self::aged(layout, desc, cpus));
        }
        let runs = match fragment::occupy(&desc.fragment, RESERVED, total as u32, seed)? {
            Occupied::Nothing => vec![(RESERVED, total as u32)],
            Occupied::Free(runs) => runs,
        };
        let mut occupants = Occupants::default();
        let kind = match allocator {
            Allocator::Linux => {
                let mut buddy = Buddy::new(total, desc.max_order);
                if fragment::is_movable(&desc.fragment) {
                    let held = fragment::between(&runs, RESERVED, total as u32);
                    held.into_iter().for_each(|(from, to)| occupants.add(from, to));
                    for block in 0..(total as u32).div_ceil(1 << BLOCK_ORDER) {
                        let (from, to) = (block << BLOCK_ORDER, (block + 1) << BLOCK_ORDER);
                        let movable = occupants.within(from, to).map(|(start, end)| (end - start) as u16).sum();
                        buddy.own(block as usize, Mobility::Movable, movable);
                    }
                }
                buddy.expect(runs.len());
                runs.into_iter().for_each(|(from, to)| buddy.free_range(from, to));
                Kind::Linux(LinuxFrames::new(buddy, cpus, desc.pcp_batch))
            }
            Allocator::Freebsd { bucket } => {
                let mut phys = VmPhys::new(total);
                runs.into_iter().for_each(|(from, to)| phys.free_range(from, to));
                Kind::Freebsd(FreebsdFrames::new(phys, cpus, bucket))
            }
        };
        let (held, cleared) = (Held::default(), Cleared::default());
        Ok(Self { kind, total, counts: FrameCounts::default(), held, occupants, cleared })
    }

    /// Memory of a Linux that has been through something.
    fn aged(layout: aged::Layout, desc: &MemoryDesc, cpus: u16) -> Self {
        let total = desc.bytes() >> mmulab_addr::BASE_SHIFT;
        let mut buddy = Buddy::new(total, desc.max_order);
        let mut movable = vec![0u16; layout.mobility.len()];
        for frame in layout.held.iter().flat_map(|run| run.0..run.1) {
            movable[frame as usize >> BLOCK_ORDER] += 1;
        }
        for (block, &mobility) in layout.mobility.iter().enumerate() {
            buddy.own(block, mobility, if mobility == Mobility::Movable { movable[block] } else { 0 });
        }
        for list in layout.lists.iter().filter(|list| !list.of_cpu) {
            list.first.iter().for_each(|&pfn| buddy.put(pfn, list.order, list.mobility));
        }
        buddy.free_range(layout.end, total as u32);
        let mut linux = LinuxFrames::new(buddy, cpus, desc.pcp_batch);
        for list in layout.lists.iter().filter(|list| list.of_cpu) {
            linux.keep(list.order, list.mobility, &list.first);
        }
        let (held, occupants, cleared) = (Held::new(layout.held), Occupants::default(), Cleared::default());
        Self { kind: Kind::Linux(linux), total, counts: FrameCounts::default(), held, occupants, cleared }
    }

    /// Whether a frame holds a page that occupied memory before the program began, and that can move. It is a page of a
    /// process without a page table in the simulation.
    pub fn is_occupant(&self, pfn: Pfn) -> bool {
        self.occupants.contains(pfn.0 as u32)
    }

    /// The runs of frames with such pages among the `frames` from `pfn` on, in order.
    pub fn occupants(&self, pfn: Pfn, frames: u64) -> impl Iterator<Item = (Pfn, u64)> {
        let runs = self.occupants.within(pfn.0 as u32, (pfn.0 + frames) as u32);
        runs.map(|(start, end)| (Pfn(start.into()), u64::from(end - start)))
    }

    /// Such a page has been moved from the frame `old` to the frame `new`, which was taken for it. Who frees `old` is
    /// the caller's to say.
    pub fn relocate_occupant(&mut self, old: Pfn, new: Pfn) {
        self.occupants.relocate(old.0 as u32, new.0 as u32);
    }

    /// Up to `wanted` frames that follow each other, of those in use when the program began: pages of a file that was
    /// in memory then. None where memory has been through nothing, or where no more are left.
    pub fn take_held(&mut self, wanted: u64) -> Option<(Pfn, u64)> {
        self.held.take_together(wanted).map(|(pfn, frames)| (Pfn(u64::from(pfn)), u64::from(frames)))
    }

    /// Frees up to `wanted` of the frames in use when the program began, as if files were dropped that nobody needs;
    /// how many.
    pub fn drop_held(&mut self, wanted: u64) -> u64 {
        let Some((pfn, frames)) = self.held.take(wanted) else { return 0 };
        self.free_run(Pfn(u64::from(pfn)), u64::from(frames));
        u64::from(frames)
    }

    /// A block of `order` on its own alignment.
    #[inline]
    pub fn alloc(&mut self, order: PageOrder, mobility: Mobility, cpu: u16) -> Option<Pfn> {
        let got = match &mut self.kind {
            Kind::Linux(linux) => linux.alloc(order.get(), mobility, cpu, &mut self.counts),
            Kind::Freebsd(bsd) => {
                let pool = if mobility == Mobility::Movable { Pool::Default } else { Pool::Direct };
                bsd.alloc(order.get(), pool, cpu, &mut self.counts)
            }
        };
        if got.is_none() {
            self.counts.refusals += 1;
        }
        got.map(|pfn| Pfn(u64::from(pfn)))
    }

    /// Takes the movable block of `order` at `pfn`; false if it is not free in the allocator, or `pfn` is not aligned
    /// for it. Frames in per-CPU lists, and all of FreeBSD's, cannot be taken this way.
    pub fn take_at(&mut self, pfn: Pfn, order: PageOrder) -> bool {
        match &mut self.kind {
            Kind::Linux(linux) => {
                let is_there = pfn.0 < self.total && pfn.0.is_multiple_of(order.base_pages());
                is_there && linux.buddy.take_at(pfn.0 as u32, order.get(), &mut self.counts)
            }
            Kind::Freebsd(_) => false,
        }
    }

    /// Whether [`Self::take_at`] can take a block.
    pub fn can_take_at(&self, pfn: Pfn, order: PageOrder) -> bool {
        match &self.kind {
            Kind::Linux(linux) => pfn.0 < self.total && linux.buddy.can_take_at(pfn.0 as u32, order.get()),
            Kind::Freebsd(_) => false,
        }
    }

    /// A block that may be larger than the buddy allocator's, such as a 1 GiB page: what boot can still find whole.
    pub fn alloc_contiguous(&mut self, order: PageOrder) -> Option<Pfn> {
        if order.get() <= self.max_order() {
            return self.alloc(order, Mobility::Movable, 0);
        }
        self.drain();
        self.take_run(order)
    }

    /// A block larger than the allocator's, out of free blocks of the largest size that lie together.
    pub fn take_run(&mut self, order: PageOrder) -> Option<Pfn> {
        let run = match &mut self.kind {
            Kind::Linux(linux) => linux.buddy.take_run(order.get()),
            Kind::Freebsd(bsd) => bsd.phys.take_run(order.get()),
        };
        run.map(|pfn| Pfn(u64::from(pfn)))
    }

    /// The next region of free blocks of the largest size with `wanted` frames, from `rover` on and round the end of
    /// memory. If no region has as many, the largest. Gives its first frame and its number of frames. None if no block
    /// of this size is free, and in FreeBSD's memory.
    pub fn next_fit(&self, wanted: u64, rover: Pfn) -> Option<(Pfn, u64)> {
        let Kind::Linux(linux) = &self.kind else { return None };
        linux.buddy.next_fit(wanted, rover.0).map(|(first, frames)| (Pfn(first), frames))
    }

    /// Gives a block back.
    #[inline]
    pub fn free(&mut self, pfn: Pfn, order: PageOrder, cpu: u16) {
        let (pfn, order) = (pfn.0 as u32, order.get());
        self.cleared.remove(pfn, 1 << order);
        match &mut self.kind {
            Kind::Linux(linux) => linux.free(pfn, order, cpu, &mut self.counts),
            Kind::Freebsd(bsd) => bsd.free(pfn, order, cpu, &mut self.counts),
        }
    }

    /// Gives `frames` frames from `pfn` on back in the largest aligned blocks, past the per-CPU lists.
    pub fn free_run(&mut self, pfn: Pfn, frames: u64) {
        self.give_rest(pfn, frames, Rest::Usual);
    }

    /// The same of what is left of a block; where they go in their lists is Linux's to choose alone.
    pub fn give_rest(&mut self, pfn: Pfn, frames: u64, rest: Rest) {
        let (mut from, to) = (pfn.0 as u32, (pfn.0 + frames) as u32);
        self.cleared.remove(from, to - from);
        while from < to {
            let order = from.trailing_zeros().min(u32::from(self.max_order())).min((to - from).ilog2()) as u8;
            self.counts.returns += 1;
            match &mut self.kind {
                Kind::Linux(linux) => {
                    let movable = linux.buddy.block_of(from) == Mobility::Movable;
                    linux.buddy.give(from, order, movable, rest, &mut self.counts);
                }
                Kind::Freebsd(bsd) => bsd.phys.give(from, order, &mut self.counts),
            }
            from += 1 << order;
        }
    }

    /// Clears up to `most` frames of movable free blocks that are not known to hold zeros; how many. Blocks
    /// of 2 MiB and more come first, in the order in which they would go out, then smaller ones from the largest size
    /// down. Frames in per-CPU lists are left alone.
    pub fn clear_ahead(&mut self, most: u64) -> u64 {
        let mut done = 0;
        for order in (BLOCK_ORDER..=self.max_order()).chain((0..BLOCK_ORDER).rev()) {
            let blocks: &mut dyn Iterator<Item = u32> = match &self.kind {
                Kind::Linux(linux) => &mut linux.buddy.blocks(order, Mobility::Movable),
                Kind::Freebsd(bsd) => &mut bsd.phys.blocks(order, Pool::Default),
            };
            for pfn in blocks {
                if done == most {
                    return done;
                }
                done += self.cleared.add(pfn, 1 << order, most - done);
            }
        }
        done
    }

    /// How many of the `order` frames from `pfn` on, which were taken just now, hold zeros. They count as used from now
    /// on.
    pub fn take_cleared(&mut self, pfn: Pfn, order: PageOrder) -> u64 {
        self.cleared.remove(pfn.0 as u32, order.base_pages() as u32)
    }

    /// Whether a block of `order` or larger is free, per-CPU lists left out.
    pub fn has_block(&self, order: PageOrder) -> bool {
        (order.get()..=self.max_order()).any(|o| self.free_blocks(o) > 0)
    }

    /// Whether [`Self::take_run`], or a block for smaller orders, would find one of `order`, per-CPU lists left out.
    pub fn has_block_or_run(&self, order: PageOrder) -> bool {
        match &self.kind {
            Kind::Linux(linux) if order.get() > self.max_order() => linux.buddy.find_run(order.get()).is_some(),
            Kind::Freebsd(bsd) if order.get() > self.max_order() => bsd.phys.find_run(order.get()).is_some(),
            Kind::Linux(_) | Kind::Freebsd(_) => self.has_block(order),
        }
    }

    /// Page blocks, the units of compaction: 2 MiB each. None where the allocator has no compaction (FreeBSD's).
    pub fn page_blocks(&self) -> u64 {
        match &self.kind {
            Kind::Linux(_) => self.total >> BLOCK_ORDER,
            Kind::Freebsd(_) => 0,
        }
    }

    /// Whether pages of a page block may be moved elsewhere.
    pub fn is_movable(&self, block: u64) -> bool {
        match &self.kind {
            Kind::Linux(linux) => linux.buddy.block_of((block << BLOCK_ORDER) as u32) == Mobility::Movable,
            Kind::Freebsd(_) => false,
        }
    }

    /// Takes all free frames of a movable page block that is not wholly free: room for pages that compaction moves.
    pub fn isolate(&mut self, block: u64) -> Vec<Pfn> {
        match &mut self.kind {
            Kind::Linux(linux) => {
                linux.buddy.isolate(block as usize).into_iter().map(|pfn| Pfn(u64::from(pfn))).collect()
            }
            Kind::Freebsd(_) => Vec::new(),
        }
    }

    /// The largest order of a block.
    pub fn max_order(&self) -> u8 {
        match &self.kind {
            Kind::Linux(linux) => linux.buddy.max_order(),
            Kind::Freebsd(_) => vm_phys::MAX_ORDER,
        }
    }

    /// Empties every per-CPU list.
    pub fn drain(&mut self) {
        match &mut self.kind {
            Kind::Linux(linux) => linux.drain(&mut self.counts),
            Kind::Freebsd(bsd) => bsd.drain(&mut self.counts),
        }
    }

    /// Frames free in blocks, per-CPU lists left out.
    fn free_in_blocks(&self) -> u64 {
        match &self.kind {
            Kind::Linux(linux) => linux.buddy.free_frames(),
            Kind::Freebsd(bsd) => bsd.phys.free_frames(),
        }
    }

    /// Frames in all.
    pub fn total_frames(&self) -> u64 {
        self.total
    }

    /// Frames free, per-CPU lists included.
    pub fn free_frames(&self) -> u64 {
        let held = match &self.kind {
            Kind::Linux(linux) => linux.held(),
            Kind::Freebsd(bsd) => bsd.held(),
        };
        self.free_in_blocks() + held
    }

    /// Free blocks of exactly `order`, per-CPU lists left out (`/proc/buddyinfo`).
    pub fn free_blocks(&self, order: u8) -> u64 {
        match &self.kind {
            _ if order > self.max_order() => 0,
            Kind::Linux(linux) => linux.buddy.free_blocks(order),
            Kind::Freebsd(bsd) => bsd.phys.free_blocks(order),
        }
    }

    /// The free blocks that begin in the aligned region of `order` from `first` on, in order, each with its frames.
    /// Per-CPU lists are left out. None where the allocator has no compaction (FreeBSD's).
    pub fn free_within(&self, first: Pfn, order: PageOrder) -> impl Iterator<Item = (Pfn, u64)> {
        let buddy = match &self.kind {
            Kind::Linux(linux) => Some(&linux.buddy),
            Kind::Freebsd(_) => None,
        };
        let blocks = buddy.into_iter().flat_map(move |buddy| buddy.free_within(first.0 as u32, order.base_pages()));
        blocks.map(|(pfn, frames)| (Pfn(pfn), frames))
    }

    /// The share of free memory that lies in blocks too small for `order`. It is the unusable free space index of
    /// Gorman and Whitcroft ("The what, the why and the where to of anti-fragmentation", 2006). Papers on huge pages
    /// call it FMFI. 0 when every free frame is usable, 1 when none is or nothing is free.
    pub fn fmfi(&self, order: u8) -> f64 {
        let free = self.free_in_blocks();
        if free == 0 {
            return 1.0;
        }
        let usable: u64 = (order..=self.max_order()).map(|o| self.free_blocks(o) << o).sum();
        (free - usable) as f64 / free as f64
    }

    /// Its counts so far.
    pub fn counts(&self) -> FrameCounts {
        self.counts
    }
}
