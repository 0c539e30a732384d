//! The kernel's hold on physical memory: the allocator, the users of each frame, the page cache, the hugetlb pool.

pub(crate) mod cache;
pub(crate) mod last_place;
pub(crate) mod objects;
pub(crate) mod pages;
mod per_frame;
pub(crate) mod reservations;
pub(crate) mod resident;
pub(crate) mod shared_tables;
mod tables;

use crate::memory::cache::{Cache, ObjectId};
use crate::memory::last_place::LastPlaces;
use crate::memory::objects::Objects;
use crate::memory::pages::{Page, Pages, Use};
use crate::memory::reservations::Reservations;
use crate::memory::resident::Residency;
use crate::memory::shared_tables::SharedTables;
use crate::report::region::RegionId;
use crate::report::regions::Fold;
use crate::report::tally::Tally;
use crate::{Bytes, Note, Stop, Stored, TableCounts, WorkKind};
use mmulab_addr::{BASE_BYTES, PageOrder, Pfn};
use mmulab_frames::{Frames, Mobility, Rest};
use mmulab_pagetable::Format;
use rustc_hash::FxHashMap;

/// Pages reclaim drops at a time (SWAP_CLUSTER_MAX, include/linux/swap.h).
const RECLAIM_BATCH: u64 = 32;

/// Huge pages set aside at boot.
pub struct Pool {
    pub order: PageOrder,
    pub total: u64,
    free: Vec<Pfn>,
    /// Pages of the pool of which parts were unmapped: frames still used, by first frame.
    broken: FxHashMap<Pfn, u64>,
}

impl Pool {
    pub fn used(&self) -> u64 {
        self.total - self.free.len() as u64
    }
}

/// Physical memory as the kernel manages it.
pub struct Memory {
    /// The size of a base page, and of a table.
    pub base: PageOrder,
    /// The size of a transparent huge page: what an entry above those of base pages maps.
    pub huge: PageOrder,
    pub frames: Frames,
    pub pages: Pages,
    /// Where each frame was mapped last.
    pub(crate) last_places: LastPlaces,
    pub cache: Cache,
    pub pool: Option<Pool>,
    /// Reservations, if the placement part makes any.
    pub reservations: Reservations,
    /// Anonymous objects, which reservations belong to.
    pub objects: Objects,
    /// The page of zeros that loads of untouched memory see.
    pub zero: Pfn,
    /// The same of a huge page's size, made when first wanted.
    pub huge_zero: Option<Pfn>,
    /// Work done since it was last collected.
    pub work: Tally<WorkKind>,
    /// Base frames used by private pages now.
    pub anon_frames: u64,
    /// Page-table frames in use.
    pub table_frames: u64,
    pub table_frames_peak: u64,
    /// Counts of merges and resizes of tables.
    pub table_counts: TableCounts,
    /// Of that, notes since it was last collected.
    pub table_news: Vec<Note>,
    /// The most that private pages and the page cache held together, in base frames.
    pub resident_peak: u64,
    /// The most that private pages held, and the most that pages of files did.
    pub private_peak: u64,
    pub file_peak: u64,
    pub cache_dropped: u64,
    /// The regions that resident frames belong to.
    pub resident: Residency,
    /// Frames that the kernel stored to itself since they were last collected, if the caller collects them.
    pub touched: Option<Vec<Stored>>,
    /// Page tables that address spaces share.
    pub shared_tables: SharedTables,
    /// Where the next search for a free region begins (placement `ca`).
    pub rover: Pfn,
    /// The processor that allocates.
    pub cpu: u16,
    /// Whether the user wants an end.
    pub stop: Stop,
}

impl Memory {
    /// Memory for tables of a format.
    pub fn new(mut frames: Frames, total_frames: u64, format: Format) -> Option<Self> {
        let base = format.base();
        let zero = frames.alloc(base, Mobility::Unmovable, 0)?;
        Some(Self {
            base,
            huge: format.huge(),
            frames,
            pages: Pages::new(total_frames),
            last_places: LastPlaces::new(total_frames),
            cache: Cache::default(),
            pool: None,
            reservations: Reservations::default(),
            objects: Objects::default(),
            zero,
            huge_zero: None,
            work: Tally::default(),
            anon_frames: 0,
            table_frames: 0,
            table_frames_peak: 0,
            table_counts: TableCounts::default(),
            table_news: Vec::new(),
            resident_peak: 0,
            private_peak: 0,
            file_peak: 0,
            cache_dropped: 0,
            resident: Residency::default(),
            touched: None,
            shared_tables: SharedTables::default(),
            rover: Pfn(0),
            cpu: 0,
            stop: Stop::default(),
        })
    }

    /// Sets huge pages aside; how many there is room for, if not for all.
    pub fn reserve(&mut self, order: PageOrder, size: Bytes) -> Result<(), u64> {
        let total = size.0 / order.bytes();
        let mut free = Vec::new();
        for got in 0..total {
            free.push(self.frames.alloc_contiguous(order).ok_or(got)?);
        }
        // Popped from the end: the lowest addresses are used first.
        free.sort_unstable_by(|a, b| b.cmp(a));
        self.pool = Some(Pool { order, total, free, broken: FxHashMap::default() });
        Ok(())
    }

    /// The kernel stores to the `order` frames from `pfn` on.
    #[inline]
    pub fn touch(&mut self, pfn: Pfn, order: PageOrder) {
        let Some(touched) = &mut self.touched else { return };
        let frames = order.base_pages();
        // Frames are mostly handed out in order: millions of them are few runs.
        match touched.last_mut() {
            Some(last) if !last.is_node && last.first.0 + last.frames == pfn.0 => last.frames += frames,
            _ => touched.push(Stored { first: pfn, frames, is_node: false }),
        }
    }

    /// The same, of a block that page tables are to be merged in.
    pub fn touch_node(&mut self, pfn: Pfn, order: PageOrder) {
        if let Some(touched) = &mut self.touched {
            touched.push(Stored { first: pfn, frames: order.base_pages(), is_node: true });
        }
    }

    /// A zeroed or to-be-copied-to page for a process's own use, with one user.
    pub fn take_anon(&mut self, order: PageOrder) -> Option<Pfn> {
        let pfn = self.take_frames(order)?;
        let region = self.resident.acting();
        *self.pages.get_mut(pfn) = Page { refs: 1, order: order.get(), used: Use::Anon, region, ..Page::default() };
        self.hold(order.base_pages());
        Some(pfn)
    }

    /// The block of `order` at `pfn`, if it is free, as [`Self::take_anon`] gives one; whether it is taken now.
    pub fn take_anon_at(&mut self, pfn: Pfn, order: PageOrder) -> bool {
        let is_taken = self.frames.take_at(pfn, order);
        if is_taken {
            self.work.add(WorkKind::LargeBlock, 1);
            self.own_anon(pfn, order);
        }
        is_taken
    }

    /// The block of `order` that begins `offset` frames into a free block of size `whole`. The other frames go back as
    /// `rest` says. `None` if no block of size `whole` is free.
    pub fn take_anon_within(&mut self, whole: PageOrder, offset: u64, order: PageOrder, rest: Rest) -> Option<Pfn> {
        if !self.frames.has_block(whole) {
            return None;
        }
        let head = self.frames.alloc(whole, Mobility::Movable, self.cpu)?;
        let (pfn, behind) = (Pfn(head.0 + offset), offset + order.base_pages());
        self.frames.give_rest(head, offset, rest);
        self.frames.give_rest(Pfn(head.0 + behind), whole.base_pages() - behind, rest);
        self.work.add(WorkKind::LargeBlock, 1);
        self.own_anon(pfn, order);
        Some(pfn)
    }

    /// A block that was taken by its place becomes a private page with one user.
    pub fn own_anon(&mut self, pfn: Pfn, order: PageOrder) {
        let region = self.resident.acting();
        *self.pages.get_mut(pfn) = Page { refs: 1, order: order.get(), used: Use::Anon, region, ..Page::default() };
        self.hold(order.base_pages());
    }

    /// The same out of the pool.
    pub fn take_pooled(&mut self) -> Option<Pfn> {
        let pool = self.pool.as_mut()?;
        let pfn = pool.free.pop()?;
        let (order, region) = (pool.order, self.resident.acting());
        *self.pages.get_mut(pfn) =
            Page { refs: 1, order: order.get(), used: Use::Anon, pooled: true, region, ..Page::default() };
        self.work.add(WorkKind::PoolPage, 1);
        self.hold(order.base_pages());
        Some(pfn)
    }

    /// A block of frames without users.
    pub fn take_frames(&mut self, order: PageOrder) -> Option<Pfn> {
        if order == self.base {
            return self.take_base();
        }
        self.work.add(WorkKind::LargeBlock, 1);
        match order.get() > self.frames.max_order() {
            true => self.frames.take_run(order),
            false => self.frames.alloc(order, Mobility::Movable, self.cpu),
        }
    }

    /// The frames of a base page: out of the allocator, a broken reservation, or the page cache.
    pub fn take_base(&mut self) -> Option<Pfn> {
        self.work.add(WorkKind::BaseFrame, 1);
        self.take_of(Mobility::Movable)
    }

    pub(crate) fn take_of(&mut self, mobility: Mobility) -> Option<Pfn> {
        loop {
            let got = self.frames.alloc(self.base, mobility, self.cpu);
            if got.is_some() || !self.reservations.break_oldest(&mut self.frames) {
                break got;
            }
        }
        .or_else(|| {
            self.reclaim(RECLAIM_BATCH);
            if self.frames.free_frames() == 0 {
                self.frames.drop_held(RECLAIM_BATCH);
            }
            self.frames.alloc(self.base, mobility, self.cpu)
        })
    }

    /// Drops up to `wanted` clean file pages that no process maps, the oldest first. Returns the number dropped.
    pub fn reclaim(&mut self, wanted: u64) -> u64 {
        let pages = &self.pages;
        let droppable = |pfn| {
            let page: Page = pages.get(pfn);
            page.refs == 1 && !page.dirty
        };
        // The frames of a base page came in one after another, and have the same users: they go together.
        let wanted = wanted.next_multiple_of(self.base.base_pages());
        let dropped = self.cache.reclaim(wanted as usize, droppable);
        let found = dropped.len() as u64;
        for pfn in dropped {
            self.cache_dropped += 1;
            self.resident.give_back(self.pages.get(pfn).region, 1);
            self.release_base(pfn);
        }
        found
    }

    /// Brings a base page of a file into the cache, or makes one of shared memory: the one whose first frame holds
    /// `page`.
    pub fn take_cached(&mut self, id: ObjectId, page: u64) -> Option<Pfn> {
        let head = self.take_frames(self.base)?;
        self.touch(head, self.base);
        for i in 0..self.base.base_pages() {
            self.keep_cached(id, page + i, Pfn(head.0 + i), 0);
        }
        Some(head)
    }

    /// The same of a whole block of pages, the first of which is `page`.
    pub fn take_cached_block(&mut self, id: ObjectId, page: u64, order: PageOrder) -> Option<Pfn> {
        let head = self.take_frames(order)?;
        self.touch(head, order);
        for i in 0..order.base_pages() {
            let pfn = Pfn(head.0 + i);
            self.keep_cached(id, page + i, pfn, 0);
            self.pages.get_mut(pfn).folio = order.get();
        }
        Some(head)
    }

    /// Brings the pages of a file from `first` on into one free block of this size, and reads those that are not in
    /// memory. Returns the block, and the number of pages read. `None` if one of them has other users than the cache,
    /// or if no block is free.
    pub fn gather_cached(&mut self, id: ObjectId, first: u64, order: PageOrder) -> Option<(Pfn, u64)> {
        let pages = first..first + order.base_pages();
        let is_used = |page: u64| self.cache.get(id, page).is_some_and(|pfn| self.pages.get(pfn).refs != 1);
        if pages.clone().any(is_used) {
            return None;
        }
        let head = self.take_frames(order)?;
        self.touch(head, order);
        let mut read = 0;
        for (page, i) in pages.zip(0..) {
            let new = Pfn(head.0 + i);
            match self.cache.get(id, page) {
                Some(old) => {
                    *self.pages.get_mut(new) = self.pages.get(old);
                    self.cache.move_to(id, page, new);
                    self.release_base(old);
                }
                None => {
                    self.keep_cached(id, page, new, 0);
                    read += 1;
                }
            }
            self.pages.get_mut(new).folio = order.get();
        }
        Some((head, read))
    }

    /// The first frame of the page cache's pages from `first` on, if they fill an aligned block of this size in order.
    pub fn whole_block(&self, id: ObjectId, first: u64, order: PageOrder) -> Option<Pfn> {
        let head = self.cache.get(id, first).filter(|head| head.align_down(order) == *head)?;
        let follows = |i: u64| self.cache.get(id, first + i) == Some(Pfn(head.0 + i));
        (1..order.base_pages()).all(follows).then_some(head)
    }

    /// The same of a file that was in memory before the program began. If memory is aged, its pages lie among the
    /// frames that were in use then, together as far as a guest's did. Otherwise they lie in the next frames.
    pub fn take_warm(&mut self, id: ObjectId, page: u64) -> Option<Pfn> {
        if self.base > PageOrder::P4K {
            // Guests that were counted had base pages of 4 KiB.
            return self.take_cached(id, page);
        }
        if self.cache.placed(id, page).is_none() {
            let (first, wanted) = self.cache.unplaced_around(id, page);
            let mut at = first;
            while at <= page
                && let Some((base, pages)) = self.frames.take_held(first + wanted - at)
            {
                self.cache.place(id, at, base, pages);
                at += pages;
            }
        }
        let Some(pfn) = self.cache.placed(id, page) else { return self.take_cached(id, page) };
        self.touch(pfn, PageOrder::P4K);
        self.keep_cached(id, page, pfn, 0);
        Some(pfn)
    }

    /// A frame holds a page of a file or of shared memory from now on; with reservations, of that object.
    pub fn keep_cached(&mut self, id: ObjectId, page: u64, pfn: Pfn, object: u32) {
        let region = self.resident.acting();
        *self.pages.get_mut(pfn) = Page { refs: 1, used: Use::Cache, object, region, ..Page::default() };
        self.cache.put(id, page, pfn);
        self.resident.take(1);
        self.note_peak();
    }

    /// Private frames more, for the region that acts.
    pub fn hold(&mut self, frames: u64) {
        self.anon_frames += frames;
        self.resident.take(frames);
        self.note_peak();
    }

    /// Pages in the cache by the region that they are resident for.
    pub fn cached_by_region(&self) -> FxHashMap<RegionId, u64> {
        let mut found = FxHashMap::default();
        for (pfn, ..) in self.cache.frames() {
            *found.entry(self.pages.get(pfn).region).or_insert(0) += 1;
        }
        found
    }

    /// Regions are no more: the rows of their kinds have what is resident for them.
    pub fn fold_regions(&mut self, folds: &[Fold]) {
        let into: FxHashMap<RegionId, RegionId> = folds.iter().map(|fold| (fold.from, fold.into)).collect();
        for (pfn, ..) in self.cache.frames() {
            let page = self.pages.get_mut(pfn);
            if let Some(&region) = into.get(&page.region) {
                page.region = region;
            }
        }
        folds.iter().for_each(|&fold| self.resident.fold(fold));
    }

    /// Forgets shared memory that no process maps.
    pub fn forget(&mut self, id: ObjectId) {
        for pfn in self.cache.forget(id) {
            self.drop_base(pfn);
        }
    }

    /// The huge zero page, made now if it is not there.
    pub fn take_huge_zero(&mut self) -> Option<Pfn> {
        if self.huge_zero.is_none() {
            self.work.add(WorkKind::LargeBlock, 1);
            let pfn = match self.huge.get() > self.frames.max_order() {
                true => self.frames.alloc_contiguous(self.huge)?,
                false => self.frames.alloc(self.huge, Mobility::Unmovable, self.cpu)?,
            };
            self.work.add(WorkKind::ZeroBytes, self.huge.bytes());
            self.huge_zero = Some(pfn);
        }
        self.huge_zero
    }

    /// Whether the huge zero page is there.
    pub fn has_huge_zero(&self) -> bool {
        self.huge_zero.is_some()
    }

    /// Whether a mapped frame is part of a zero page.
    #[inline]
    pub fn is_zero(&self, pfn: Pfn) -> bool {
        pfn == self.zero || self.huge_zero.is_some_and(|z| pfn.0.wrapping_sub(z.0) < self.huge.base_pages())
    }

    /// One mapping more of the `order` frames from `pfn`.
    pub fn share(&mut self, pfn: Pfn, order: PageOrder) {
        if !self.is_zero(pfn) {
            self.pages.share(pfn, order);
        }
    }

    /// One mapping less of the `order` frames from `pfn`.
    pub fn drop_mapping(&mut self, pfn: Pfn, order: PageOrder) {
        if self.is_zero(pfn) {
            return;
        }
        if order == PageOrder::P4K {
            self.drop_base(pfn);
        } else if self.pages.is_whole(pfn, order) {
            let page = self.pages.get_mut(pfn);
            page.refs -= 1;
            if page.refs == 0 {
                self.release_large(pfn, order);
            }
        } else {
            for i in 0..order.base_pages() {
                self.drop_base(Pfn(pfn.0 + i));
            }
        }
    }

    fn drop_base(&mut self, pfn: Pfn) {
        let page = self.pages.get_mut(pfn);
        page.refs -= 1;
        if page.refs != 0 {
            return;
        }
        let (used, pooled) = (page.used, page.pooled);
        self.resident.give_back(page.region, 1);
        if used == Use::Anon {
            self.anon_frames -= 1;
        }
        match &mut self.pool {
            Some(pool) if pooled => {
                let head = pfn.align_down(pool.order);
                let left = pool.broken.entry(head).or_insert(pool.order.base_pages());
                *left -= 1;
                if *left == 0 {
                    pool.broken.remove(&head);
                    pool.free.push(head);
                    self.work.add(WorkKind::PoolPage, 1);
                }
            }
            _ => self.release_base(pfn),
        }
    }

    fn release_base(&mut self, pfn: Pfn) {
        *self.pages.get_mut(pfn) = Page::default();
        self.work.add(WorkKind::BaseFrame, u64::from(pfn.align_down(self.base) == pfn));
        if !self.reservations.give(pfn, &mut self.frames, self.cpu) {
            self.frames.free(pfn, PageOrder::P4K, self.cpu);
        }
    }

    fn release_large(&mut self, pfn: Pfn, order: PageOrder) {
        self.anon_frames -= order.base_pages();
        let Page { pooled, region, .. } = self.pages.get(pfn);
        self.resident.give_back(region, order.base_pages());
        *self.pages.get_mut(pfn) = Page::default();
        match &mut self.pool {
            Some(pool) if pooled => {
                pool.free.push(pfn);
                self.work.add(WorkKind::PoolPage, 1);
            }
            _ => {
                self.work.add(if order == self.base { WorkKind::BaseFrame } else { WorkKind::LargeBlock }, 1);
                self.frames.free(pfn, order, self.cpu);
            }
        }
    }

    fn note_peak(&mut self) {
        self.resident_peak = self.resident_peak.max(self.anon_frames + self.cache.pages());
        self.private_peak = self.private_peak.max(self.anon_frames);
        self.file_peak = self.file_peak.max(self.cache.file_pages());
    }

    /// Bytes of private pages and the page cache.
    pub fn resident_bytes(&self) -> u64 {
        (self.anon_frames + self.cache.pages()) * BASE_BYTES
    }
}
