//! The zone's buddy allocator, after mm/page_alloc.c of Linux 6.8.

use crate::{FrameCounts, Mobility, Rest, lists::Lists};

/// Order of a page block, the unit that has a mobility: 2 MiB (`pageblock_order` on x86-64).
pub const BLOCK_ORDER: u8 = 9;

/// Where to look when a mobility's own lists are empty (`fallbacks`).
const FALLBACKS: [[Mobility; 2]; 3] = [
    [Mobility::Reclaimable, Mobility::Movable],
    [Mobility::Reclaimable, Mobility::Unmovable],
    [Mobility::Unmovable, Mobility::Movable],
];

/// Free blocks by order and mobility.
pub struct Buddy {
    lists: Lists,
    max_order: u8,
    frames: u64,
    /// The mobility of each page block.
    blocks: Vec<Mobility>,
    /// Movable frames in use in each page block: what a thief weighs (`move_freepages_block`).
    movable: Vec<u16>,
    free: u64,
}

impl Buddy {
    /// Nothing free yet; every page block is movable, as after boot.
    pub fn new(frames: u64, max_order: u8) -> Self {
        let blocks = frames.div_ceil(1 << BLOCK_ORDER) as usize;
        Self {
            lists: Lists::new((usize::from(max_order) + 1) * Mobility::COUNT),
            max_order,
            frames,
            blocks: vec![Mobility::Movable; blocks],
            movable: vec![0; blocks],
            free: 0,
        }
    }

    /// At least this number of blocks is about to be free.
    pub fn expect(&mut self, blocks: usize) {
        self.lists.expect(blocks);
    }

    fn list(order: u8, mobility: Mobility) -> usize {
        usize::from(order) * Mobility::COUNT + mobility as usize
    }

    /// The mobility of the page block that holds `pfn`.
    pub fn block_of(&self, pfn: u32) -> Mobility {
        self.blocks[pfn as usize >> BLOCK_ORDER]
    }

    /// Frames free.
    pub fn free_frames(&self) -> u64 {
        self.free
    }

    /// The largest order.
    pub fn max_order(&self) -> u8 {
        self.max_order
    }

    /// Free blocks of exactly `order`.
    pub fn free_blocks(&self, order: u8) -> u64 {
        Mobility::ALL.iter().map(|&m| self.lists.length(Self::list(order, m))).sum()
    }

    /// Free blocks of exactly `order` and one mobility, as they would go out.
    pub fn blocks(&self, order: u8, mobility: Mobility) -> impl Iterator<Item = u32> {
        self.lists.blocks(Self::list(order, mobility))
    }

    /// The free blocks that begin among the `frames` from `first` on, in order: first frame and frames.
    pub fn free_within(&self, first: u32, frames: u64) -> impl Iterator<Item = (u64, u64)> {
        let (mut pfn, end) = (u64::from(first), u64::from(first) + frames);
        std::iter::from_fn(move || {
            while pfn < end {
                let at = pfn;
                match self.lists.of(pfn as u32).map(|list| 1 << (list / Mobility::COUNT)) {
                    Some(size) => {
                        pfn += size;
                        return Some((at, size));
                    }
                    None => pfn += 1,
                }
            }
            None
        })
    }

    /// Frees the frames `from..to` as boot does: the largest aligned blocks, in ascending order, at the tails
    /// (`__free_pages_core` with FPI_TO_TAIL).
    pub fn free_range(&mut self, mut from: u32, to: u32) {
        while from < to {
            let aligned = from.trailing_zeros().min(u32::from(self.max_order));
            let fits = (to - from).ilog2();
            let order = aligned.min(fits) as u8;
            self.lists.push_tail(Self::list(order, self.block_of(from)), from);
            self.free += 1 << order;
            from += 1 << order;
        }
    }

    /// Gives a page block its mobility, of which `movable` frames are in use and could be moved.
    pub fn own(&mut self, block: usize, mobility: Mobility, movable: u16) {
        self.blocks[block] = mobility;
        self.movable[block] = movable;
    }

    /// Puts a free block at the tail of its list, as memory was found.
    pub fn put(&mut self, pfn: u32, order: u8, mobility: Mobility) {
        self.lists.push_tail(Self::list(order, mobility), pfn);
        self.free += 1 << order;
    }

    /// Takes a block (`__rmqueue`).
    pub fn take(&mut self, order: u8, mobility: Mobility, counts: &mut FrameCounts) -> Option<u32> {
        let pfn = match self.smallest(order, mobility, counts) {
            Some(pfn) => pfn,
            None => {
                if !self.steal(order, mobility, counts) {
                    return None;
                }
                self.smallest(order, mobility, counts)?
            }
        };
        self.free -= 1 << order;
        self.account(pfn, order, mobility == Mobility::Movable, true);
        Some(pfn)
    }

    /// The first block of the smallest order that has one, split down to `order` (`__rmqueue_smallest`, `expand`).
    fn smallest(&mut self, order: u8, mobility: Mobility, counts: &mut FrameCounts) -> Option<u32> {
        let from = (order..=self.max_order).find(|&o| self.lists.length(Self::list(o, mobility)) != 0)?;
        let pfn = self.lists.head(Self::list(from, mobility))?;
        self.lists.remove(pfn);
        for half in (order..from).rev() {
            // The lower half is split on; the upper goes to the head of its list.
            self.lists.push_head(Self::list(half, mobility), pfn + (1 << half));
            counts.splits += 1;
        }
        Some(pfn)
    }

    /// Moves a block of another mobility into this one's lists (`__rmqueue_fallback`).
    fn steal(&mut self, order: u8, mobility: Mobility, counts: &mut FrameCounts) -> bool {
        let found = |lists: &Lists, o: u8| {
            FALLBACKS[mobility as usize].into_iter().find(|&f| lists.length(Self::list(o, f)) != 0)
        };
        // `can_steal_fallback`: movable requests take a whole page block only for blocks of half its size or more.
        let whole = |o: u8| o >= BLOCK_ORDER / 2 || mobility != Mobility::Movable;
        let Some((mut at, mut from)) =
            (order..=self.max_order).rev().find_map(|o| found(&self.lists, o).map(|f| (o, f)))
        else {
            return false;
        };
        if !whole(at) && at > order {
            // A movable page that cannot claim the block disturbs least in the smallest one.
            (at, from) = (order..=at).find_map(|o| found(&self.lists, o).map(|f| (o, f))).expect("one was found above");
        }
        let Some(pfn) = self.lists.head(Self::list(at, from)) else { return false };
        counts.steals += 1;
        self.claim(pfn, at, mobility, whole(at));
        true
    }

    /// `steal_suitable_fallback`.
    fn claim(&mut self, pfn: u32, order: u8, mobility: Mobility, whole: bool) {
        if order >= BLOCK_ORDER {
            for block in (pfn as usize >> BLOCK_ORDER)..((pfn as usize + (1 << order)) >> BLOCK_ORDER) {
                self.blocks[block] = mobility;
            }
        } else if whole {
            let block = pfn as usize >> BLOCK_ORDER;
            let before = self.blocks[block];
            let freed = self.move_block(block, mobility);
            let movable = u64::from(self.movable[block]);
            let alike = match (mobility, before) {
                (Mobility::Movable, _) => movable,
                (_, Mobility::Movable) => (1u64 << BLOCK_ORDER).saturating_sub(freed + movable),
                _ => 0,
            };
            if freed + alike >= 1 << (BLOCK_ORDER - 1) {
                self.blocks[block] = mobility;
            }
            return;
        }
        self.lists.remove(pfn);
        self.lists.push_head(Self::list(order, mobility), pfn);
    }

    /// Moves every free block within a page block to the lists of `mobility`; the frames moved
    /// (`move_freepages_block`).
    fn move_block(&mut self, block: usize, mobility: Mobility) -> u64 {
        let (mut pfn, end) = ((block << BLOCK_ORDER) as u32, ((block + 1) << BLOCK_ORDER) as u32);
        let mut moved = 0;
        while pfn < end {
            let Some(list) = self.lists.of(pfn) else {
                pfn += 1;
                continue;
            };
            let order = (list / Mobility::COUNT) as u8;
            self.lists.remove(pfn);
            // `move_to_free_list` appends.
            self.lists.push_tail(Self::list(order, mobility), pfn);
            moved += 1 << order;
            pfn += 1 << order;
        }
        moved
    }

    fn is_free(&self, pfn: u32, order: u8) -> bool {
        self.lists.of(pfn).is_some_and(|list| list / Mobility::COUNT == usize::from(order))
    }

    /// Gives a block back, merging it with its free buddies (`__free_one_page`; [`Rest::Last`] is FPI_TO_TAIL).
    pub fn give(&mut self, pfn: u32, order: u8, movable: bool, rest: Rest, counts: &mut FrameCounts) {
        self.free += 1 << order;
        self.account(pfn, order, movable, false);
        let (mut pfn, mut order) = (pfn, order);
        while order < self.max_order {
            let buddy = pfn ^ (1 << order);
            if !self.is_free(buddy, order) {
                break;
            }
            self.lists.remove(buddy);
            counts.merges += 1;
            pfn &= buddy;
            order += 1;
        }
        let list = Self::list(order, self.block_of(pfn));
        let is_last = rest == Rest::Last || self.merge_likely(pfn, order);
        if is_last { self.lists.push_tail(list, pfn) } else { self.lists.push_head(list, pfn) }
    }

    /// Whether the next larger buddy is free, so that this block may soon merge and had better be used last
    /// (`buddy_merge_likely`).
    fn merge_likely(&self, pfn: u32, order: u8) -> bool {
        if order + 1 >= self.max_order {
            return false;
        }
        let higher = pfn & !(1 << order);
        self.is_free(higher ^ (1 << (order + 1)), order + 1)
    }

    fn account(&mut self, pfn: u32, order: u8, movable: bool, taken: bool) {
        if !movable {
            return;
        }
        let per_block = (1u32 << order).min(1 << BLOCK_ORDER) as u16;
        for block in (pfn as usize >> BLOCK_ORDER)..=((pfn as usize + (1 << order) - 1) >> BLOCK_ORDER) {
            let held = &mut self.movable[block];
            *held = if taken { *held + per_block } else { held.saturating_sub(per_block) };
        }
    }

    /// Takes every free frame of a page block, if it is movable and not wholly free: what compaction moves pages to
    /// (`isolate_freepages_block`, `suitable_migration_target`).
    pub fn isolate(&mut self, block: usize) -> Vec<u32> {
        let mut out = Vec::new();
        if self.blocks.get(block) != Some(&Mobility::Movable) {
            return out;
        }
        let (mut pfn, end) = ((block << BLOCK_ORDER) as u32, ((block + 1) << BLOCK_ORDER) as u32);
        while pfn < end {
            let Some(list) = self.lists.of(pfn) else {
                pfn += 1;
                continue;
            };
            let order = (list / Mobility::COUNT) as u8;
            if order >= BLOCK_ORDER {
                break;
            }
            self.lists.remove(pfn);
            self.free -= 1 << order;
            self.account(pfn, order, true, true);
            out.extend(pfn..pfn + (1 << order));
            pfn += 1 << order;
        }
        out
    }

    /// The movable free block that holds the block of `order` at `pfn`, and its order.
    fn holder(&self, pfn: u32, order: u8) -> Option<(u32, u8)> {
        let holders = (order..=self.max_order).map(|o| (pfn & !((1 << o) - 1), o));
        let holder = holders.into_iter().find(|&(start, o)| self.is_free(start, o));
        holder.filter(|&(start, o)| self.lists.of(start) == Some(Self::list(o, Mobility::Movable)))
    }

    /// Whether [`Self::take_at`] can take a block.
    pub fn can_take_at(&self, pfn: u32, order: u8) -> bool {
        self.holder(pfn, order).is_some()
    }

    /// Takes the block of `order` at `pfn` out of the movable free block that holds it. The other parts go to the tails
    /// of their lists. False if the block is not free.
    pub fn take_at(&mut self, pfn: u32, order: u8, counts: &mut FrameCounts) -> bool {
        let Some((mut start, from)) = self.holder(pfn, order) else { return false };
        let movable = |order| Self::list(order, Mobility::Movable);
        self.lists.remove(start);
        for half in (order..from).rev() {
            let upper = start + (1 << half);
            let rest = if pfn >= upper { std::mem::replace(&mut start, upper) } else { upper };
            self.lists.push_tail(movable(half), rest);
            counts.splits += 1;
        }
        self.free -= 1 << order;
        self.account(pfn, order, true, true);
        true
    }

    /// The first run of movable free blocks of the largest size that has `wanted` frames. The search goes from the
    /// block of `rover` on and round the end of memory. If no run has as many, the largest one. Gives its first frame,
    /// and its frames up to `wanted` in whole blocks.
    pub fn next_fit(&self, wanted: u64, rover: u64) -> Option<(u64, u64)> {
        let step = 1u64 << self.max_order;
        let blocks = self.frames / step;
        let list = Self::list(self.max_order, Mobility::Movable);
        if blocks == 0 || self.lists.length(list) == 0 {
            return None;
        }
        let begin = (rover / step) % blocks;
        let mut best: Option<(u64, u64)> = None;
        let mut run: Option<(u64, u64)> = None;
        for at in (begin..blocks).chain(0..begin) {
            // A run does not go on round the end of memory.
            let before = run.filter(|_| at != 0);
            run = (self.lists.of((at * step) as u32) == Some(list)).then(|| match before {
                Some((first, frames)) => (first, frames + step),
                None => (at * step, step),
            });
            let Some(found) = run else { continue };
            if best.is_none_or(|best| found.1 > best.1) {
                best = Some(found);
            }
            if found.1 >= wanted {
                break;
            }
        }
        best
    }

    /// The lowest aligned run of wholly free largest blocks that makes up `order`: its first frame.
    pub fn find_run(&self, order: u8) -> Option<u64> {
        let (step, run) = (1u64 << self.max_order, 1u64 << order);
        (0..self.frames / run).map(|i| i * run).find(|&start| {
            (start..start + run).step_by(step as usize).all(|pfn| self.is_free(pfn as u32, self.max_order))
        })
    }

    /// The lowest aligned run of wholly free largest blocks that makes up `order`, taken (as `alloc_contig_pages` finds
    /// gigantic pages).
    pub fn take_run(&mut self, order: u8) -> Option<u32> {
        let (step, run) = (1u64 << self.max_order, 1u64 << order);
        let start = self.find_run(order)?;
        for pfn in (start..start + run).step_by(step as usize) {
            self.lists.remove(pfn as u32);
        }
        self.free -= run;
        Some(start as u32)
    }
}
