//! Two levels of arrays, as one core has them.

mod sum;

use crate::{
    ArrayDesc, Entry, GeometryError, HierarchyDesc, Inclusion, Observer, Outcome, SideCounts,
    array::Array,
    design::{Change, Known, Line},
    key::Value,
    levels::Levels,
    pages::{Gone, Slot},
};
use mmulab_addr::{Access, Asid, PageOrder, Side, VirtAddr, VirtRange, Vpn};
use mmulab_pagetable::{Invalidate, Leaf, Walked};

/// The TLBs of one core.
pub struct Hierarchy {
    arrays: Vec<Array>,
    levels: Levels,
    /// By array: somebody must hear of what it evicts, observers aside.
    evictions_matter: Vec<bool>,
    inclusive: bool,
    /// Whether some array has entries of more than one page of the table.
    coalesces: bool,
    /// Whether some array looks at the neighbours of base pages.
    takes_lines: bool,
    /// Whether some array looks at the neighbours of larger pages than base pages.
    takes_large_lines: bool,
    /// Whether some array has a page-size predictor, which must see every lookup.
    guesses: bool,
    /// The block of code that is executing: what page-size predictors go by. Whoever fetches says so.
    pub code: VirtAddr,
    /// By level (less one) and side.
    counts: [[SideCounts; 2]; 2],
    /// By side: the base page that the last search found nowhere, until it is filled; its tag may be another by then.
    missed: [u64; 2],
    /// By side and by where they came from: reloads of pages that no first-level array holds.
    unheld: [[u64; 2]; 2],
    /// The last page used, by side.
    recent: [Recent; 2],
    /// By side: the page that the last search found nowhere, if nothing was written since. Its fill need not look for
    /// it.
    absent: [u64; 2],
}

/// The last page a side used, which is the most recently used entry of its array: using it again changes nothing but
/// the counts. Where the sides have a first-level array in common, one of them at most has such a page.
#[derive(Clone, Copy)]
struct Recent {
    /// Base page and tag; [`NOBODY`] when something has changed since.
    page: u64,
    value: Value,
    order: PageOrder,
    array: u8,
    /// The size number.
    size: u8,
    /// Hits not yet added to the counts.
    run: u64,
}

const NOBODY: u64 = u64::MAX;
/// Where a reload comes from.
const SECOND_LEVEL: usize = 0;
const WALK: usize = 1;

/// A base page of an address space, as one number.
#[inline(always)]
pub fn page_of(asid: Asid, va: VirtAddr) -> u64 {
    (va.vpn().0 << 16) | u64::from(asid.0)
}

/// A lookup under way.
#[derive(Clone, Copy)]
struct Query {
    asid: Asid,
    va: VirtAddr,
    vpn: Vpn,
    access: Access,
    side: usize,
}

impl Query {
    #[inline(always)]
    fn new(asid: Asid, va: VirtAddr, access: Access) -> Self {
        Self { asid, va, vpn: va.vpn(), access, side: access.side() as usize }
    }
}

impl Hierarchy {
    /// Builds the arrays.
    ///
    /// # Errors
    /// A geometry that cannot be, or arrays that contradict each other.
    pub fn new(desc: &[ArrayDesc], rules: &HierarchyDesc) -> Result<Self, GeometryError> {
        // What is turned off must be possible all the same.
        let asked = desc.iter().map(|d| Array::new(d, 0).map(drop));
        asked.collect::<Result<(), _>>()?;
        let desc: &[ArrayDesc] = &desc.iter().map(|d| rules.coalescing.limit(d)).collect::<Vec<_>>();
        let arrays: Vec<Array> = desc.iter().zip(1..).map(|(d, seed)| Array::new(d, seed)).collect::<Result<_, _>>()?;
        let levels = Levels::new(desc, &arrays, rules)?;
        let inclusive = rules.inclusion == Inclusion::Inclusive;
        let nobody = Recent { page: NOBODY, value: Value::default(), order: PageOrder::P4K, array: 0, size: 0, run: 0 };
        if inclusive && let Some(odd) = arrays.iter().find(|a| a.level == 2 && !a.holds_pages()) {
            return Err(GeometryError {
                array: odd.name.clone(),
                what: "inclusion is modelled for designs plain and zen: set tlb_rules.inclusion to none".into(),
            });
        }
        if let Some((odd, _)) = arrays.iter().zip(desc).find(|(a, d)| d.retention_cycles.is_some() && !a.holds_pages())
        {
            return Err(GeometryError {
                array: odd.name.clone(),
                what: "retention_cycles is modelled for designs plain and zen: leave it out".into(),
            });
        }
        let matters = |(a, victims): (&Array, &Vec<usize>)| !victims.is_empty() || (inclusive && a.level == 2);
        Ok(Self {
            evictions_matter: arrays.iter().zip(&levels.victims).map(matters).collect(),
            coalesces: arrays.iter().any(Array::coalesces),
            takes_lines: arrays.iter().any(Array::takes_lines),
            takes_large_lines: arrays.iter().any(Array::takes_large_lines),
            guesses: arrays.iter().any(Array::guesses),
            code: VirtAddr::default(),
            arrays,
            inclusive,
            counts: Default::default(),
            missed: [NOBODY; 2],
            unheld: Default::default(),
            recent: [nobody; 2],
            absent: [NOBODY; 2],
            levels,
        })
    }

    /// Whether any array looks at the entries beside a page's own, so that walks must hand them over.
    pub fn looks_at_neighbours(&self) -> bool {
        self.coalesces
    }

    /// Looks a reference up. `asid` is not 0, the tag that global entries carry.
    #[inline(always)]
    pub fn access<O: Observer>(&mut self, asid: Asid, va: VirtAddr, access: Access, obs: &mut O) -> Outcome {
        let side = access.side() as usize;
        let recent = &mut self.recent[side];
        if recent.page == page_of(asid, va) && recent.value.ready(access) {
            recent.run += 1;
            return Outcome::L1 { entry: recent.value.entry(va.vpn(), recent.order) };
        }
        self.search(asid, va, access, obs)
    }

    /// A lookup that the most recent page does not answer. Not inlined: the caller's loop stays small.
    #[inline(never)]
    fn search<O: Observer>(&mut self, asid: Asid, va: VirtAddr, access: Access, obs: &mut O) -> Outcome {
        let q = Query::new(asid, va, access);
        // Until the lookup has an answer nobody is the most recent: what it touches comes before the old one.
        self.settle_for(q.side);
        self.missed[q.side] = NOBODY;
        let counts = &mut self.counts[0][q.side];
        counts.accesses += 1;
        for index in self.levels.of[0][q.side].search.iter() {
            let array = &mut self.arrays[index];
            let found = match self.guesses {
                false => array.hit(q.asid, q.vpn),
                true => array.hit_guessed(q.asid, q.vpn, self.code).map(|(slot, _)| slot),
            };
            if let Some(slot) = found {
                array.hits[usize::from(slot.size)] += 1;
                counts.hits += 1;
                let (value, order) = array.read(slot, q.vpn);
                return self.answer(q, 1, 0, value, order, Some((index as u8, slot)));
            }
        }
        counts.misses += 1;
        self.search_second(q, obs)
    }

    #[inline(always)]
    fn search_second<O: Observer>(&mut self, q: Query, obs: &mut O) -> Outcome {
        let counts = &mut self.counts[1][q.side];
        counts.accesses += 1;
        let level = &self.levels.of[1][q.side];
        for index in level.search.iter() {
            let array = &mut self.arrays[index];
            let found = match self.guesses {
                false => array.hit(q.asid, q.vpn).map(|slot| (slot, array.hit_cycles[usize::from(slot.size)])),
                true => array.hit_guessed(q.asid, q.vpn, self.code),
            };
            if let Some((slot, cycles)) = found {
                array.hits[usize::from(slot.size)] += 1;
                counts.hits += 1;
                let (value, order) = array.read(slot, q.vpn);
                self.absent = [NOBODY; 2];
                if self.guesses {
                    self.learn(0, q.side, order);
                }
                let first = if self.coalesces {
                    self.lift(index, q, slot, (value, order), obs)
                } else {
                    self.put(0, q, value, order, true, obs)
                };
                self.reloaded(q.side, SECOND_LEVEL, first, 1);
                return self.answer(q, 2, cycles, value, order, first);
            }
        }
        counts.misses += 1;
        self.absent[q.side] = page_of(q.asid, q.va);
        self.missed[q.side] = q.vpn.0;
        Outcome::Miss { cycles: level.miss_cycles }
    }

    /// What a found entry comes to. If the first level holds it now, it is the side's most recent page.
    #[inline(always)]
    fn answer(
        &mut self,
        q: Query,
        level: u8,
        cycles: u32,
        value: Value,
        order: PageOrder,
        first: Option<(u8, Slot)>,
    ) -> Outcome {
        if !value.ready(q.access) {
            return if value.allows(q.access) {
                Outcome::NeedDirty { level, cycles }
            } else {
                Outcome::Denied { level, cycles }
            };
        }
        // A predictor sees each lookup: nothing may answer before it.
        if let Some((array, slot)) = first
            && !self.guesses
        {
            let recent = &mut self.recent[q.side];
            recent.page = page_of(q.asid, q.va);
            // The first level may hold only a part of what the second does.
            (recent.value, recent.order) = self.arrays[usize::from(array)].read(slot, q.vpn);
            (recent.array, recent.size) = (array, slot.size);
        }
        let entry = value.entry(q.vpn, order);
        if level == 1 { Outcome::L1 { entry } } else { Outcome::L2 { entry, cycles } }
    }

    /// Adds the hits of a side's most recent page to the counts, and forgets which page that was.
    #[inline(always)]
    fn settle(&mut self, side: usize) {
        let recent = &mut self.recent[side];
        recent.page = NOBODY;
        let run = std::mem::take(&mut recent.run);
        if run != 0 {
            self.arrays[usize::from(recent.array)].hits[usize::from(recent.size)] += run;
            self.counts[0][side].accesses += run;
            self.counts[0][side].hits += run;
        }
    }

    /// Something is about to be used or written on a side.
    #[inline(always)]
    fn settle_for(&mut self, side: usize) {
        self.settle(side);
        if self.levels.shared_first {
            self.settle(1 - side);
        }
    }

    /// Something changed: the most recent pages must be looked up again.
    fn unsettle(&mut self) {
        self.settle(0);
        self.settle(1);
    }

    /// Takes in what a walk for `va` found: second level first, then the first.
    #[inline(never)]
    pub fn fill<O: Observer>(&mut self, asid: Asid, va: VirtAddr, access: Access, walked: &Walked, obs: &mut O) {
        let q = Query::new(asid, va, access);
        let missed = self.missed[q.side] == q.vpn.0;
        self.fill_for(q, (&walked.leaf, Some(walked)), u64::from(missed), obs);
    }

    /// As [`Self::fill`], for a walk that ended only now: other lookups came between, and so many misses waited for it.
    /// What it found besides the leaf is used where arrays [look at neighbours](Self::looks_at_neighbours).
    pub fn fill_late<O: Observer>(
        &mut self,
        asid: Asid,
        va: VirtAddr,
        access: Access,
        found: (&Leaf, Option<&Walked>),
        misses: u64,
        obs: &mut O,
    ) {
        self.fill_for(Query::new(asid, va, access), found, misses, obs);
    }

    /// A walk that so many misses waited for ended in a translation that no array takes any more.
    pub fn brought_nothing(&mut self, side: Side, misses: u64) {
        self.unheld[side as usize][WALK] += misses;
    }

    /// Takes in what a walk found that so many second-level misses waited for.
    #[inline(always)]
    fn fill_for<O: Observer>(&mut self, q: Query, (leaf, walked): (&Leaf, Option<&Walked>), misses: u64, obs: &mut O) {
        let value = Value::of(leaf);
        let order = leaf.order;
        let absent = self.absent[q.side] == page_of(q.asid, q.va);
        self.settle_for(q.side);
        self.absent = [NOBODY; 2];
        self.missed[q.side] = NOBODY;
        if self.coalesces
            && let Some(walked) = walked
        {
            if self.guesses {
                self.learn(1, q.side, order);
                self.learn(0, q.side, order);
            }
            let (line, large);
            let known = if self.takes_large_lines && order != PageOrder::P4K {
                large = Line::read_sized(q.vpn, value, walked);
                large.as_ref().map_or(Known::Page(value, order), Known::Large)
            } else if self.takes_lines {
                line = Line::read(q.vpn, value, walked);
                line.as_ref().map_or(Known::Page(value, order), Known::Line)
            } else {
                Known::Page(value, order)
            };
            self.take(1, q, known, absent, obs);
            let first = self.take(0, q, known, absent, obs);
            self.reloaded(q.side, WALK, first, misses);
            return;
        }
        if self.guesses {
            self.learn(1, q.side, order);
            self.learn(0, q.side, order);
        }
        self.put(1, q, value, order, absent, obs);
        let first = self.put(0, q, value, order, absent, obs);
        self.reloaded(q.side, WALK, first, misses);
    }

    /// So many misses of the first level have ended in an entry there.
    #[inline(always)]
    fn reloaded(&mut self, side: usize, origin: usize, first: Option<(u8, Slot)>, misses: u64) {
        match first {
            Some((array, slot)) => {
                self.arrays[usize::from(array)].reloads[side][origin][usize::from(slot.size)] += misses;
            }
            None => self.unheld[side][origin] += misses,
        }
    }

    /// The predictors of level `level + 1` learn that the code that is executing wanted a page of `order`.
    #[cold]
    fn learn(&mut self, level: usize, side: usize, order: PageOrder) {
        if let Some(target) = self.levels.of[level][side].takes(order) {
            self.arrays[usize::from(target.array)].learn(self.code, target.size);
        }
    }

    /// Fills the first level with what the second held.
    #[inline(never)]
    fn lift<O: Observer>(
        &mut self,
        index: usize,
        q: Query,
        slot: Slot,
        (value, order): (Value, PageOrder),
        obs: &mut O,
    ) -> Option<(u8, Slot)> {
        let is_of_use = self.takes_lines || (self.takes_large_lines && order != PageOrder::P4K);
        let line = if is_of_use { self.arrays[index].line(slot, q.vpn) } else { None };
        let known = match &line {
            // The pages of a line may be smaller than the entry that told of them.
            Some(line) if line.order == PageOrder::P4K => Known::Line(line),
            Some(line) => Known::Large(line),
            None => Known::Page(value, order),
        };
        self.take(0, q, known, true, obs)
    }

    /// As [`Self::put`], where arrays of the level may look at the neighbours.
    #[inline(never)]
    fn take<O: Observer>(
        &mut self,
        level: usize,
        q: Query,
        known: Known,
        absent: bool,
        obs: &mut O,
    ) -> Option<(u8, Slot)> {
        let (_, order) = known.page();
        let target = self.levels.of[level][q.side].takes(order)?;
        let index = usize::from(target.array);
        let tell = |change, _, entry: &Entry| match change {
            Change::Filled => obs.filled(index, entry),
            Change::Evicted => obs.evicted(index, entry),
            Change::EvictedFrom(set) => obs.evicted_from(index, set, entry),
            Change::Dropped => obs.invalidated(index, entry),
        };
        let (slot, gone) = self.arrays[index].take(q.asid, q.vpn, target.size, known, (absent, O::ACTIVE), tell);
        if let Some(gone) = gone
            && (O::ACTIVE || self.evictions_matter[index])
        {
            self.evicted(index, &gone, obs);
        }
        Some((target.array, slot))
    }

    /// Writes what translates the page of `order` into the array of level `level + 1` that takes it; where it is now.
    /// `absent` tells that no array of that level translates the page yet.
    #[inline(always)]
    fn put<O: Observer>(
        &mut self,
        level: usize,
        q: Query,
        value: Value,
        order: PageOrder,
        absent: bool,
        obs: &mut O,
    ) -> Option<(u8, Slot)> {
        let target = self.levels.of[level][q.side].takes(order)?;
        let array = &mut self.arrays[usize::from(target.array)];
        let (slot, gone) = array.put(q.asid, q.vpn, target.size, (value, order), absent);
        if O::ACTIVE {
            let (value, order) = array.read(slot, q.vpn);
            obs.filled(usize::from(target.array), &value.entry(q.vpn, order));
        }
        if let Some(gone) = gone
            && (O::ACTIVE || self.evictions_matter[usize::from(target.array)])
        {
            self.evicted(usize::from(target.array), &gone, obs);
        }
        Some((target.array, slot))
    }

    /// What follows from an eviction.
    #[cold]
    fn evicted<O: Observer>(&mut self, index: usize, gone: &Gone, obs: &mut O) {
        obs.evicted(index, &gone.entry());
        for at in 0..self.levels.victims[index].len() {
            let below = self.levels.victims[index][at];
            let array = &mut self.arrays[below];
            let Some(size) = array.sizes.iter().position(|&o| o == gone.order) else { continue };
            let (_, next) = array.put(gone.asid(), gone.vpn(), size as u8, (gone.value, gone.order), false);
            obs.filled(below, &gone.entry());
            if let Some(next) = next {
                self.evicted(below, &next, obs);
            }
        }
        if self.inclusive && self.arrays[index].level == 2 {
            for (above, array) in self.arrays.iter_mut().enumerate().filter(|(_, a)| a.level == 1) {
                array.drop_range(gone.asid(), gone.vpn(), gone.order.base_pages(), |e| obs.invalidated(above, e));
            }
            self.unsettle();
        }
    }

    /// The walker has set the dirty bit of the page that holds `va`: the entries that stores use say so.
    pub fn set_dirty(&mut self, asid: Asid, va: VirtAddr) {
        self.unsettle();
        for array in self.arrays.iter_mut().filter(|a| a.placement.serves(Side::Data)) {
            array.set_dirty(asid, va.vpn());
        }
    }

    /// Forgets what must not be used any more.
    pub fn invalidate<O: Observer>(&mut self, what: &Invalidate, obs: &mut O) {
        self.unsettle();
        for (index, array) in self.arrays.iter_mut().enumerate() {
            match *what {
                Invalidate::Page { asid, va, order } => {
                    array.drop_range(asid, va.vpn().align_down(order), order.base_pages(), |e| {
                        obs.invalidated(index, e)
                    });
                }
                Invalidate::Range { asid, range } => {
                    let VirtRange { start, .. } = range;
                    let pages = (range.bytes() + start.offset_in(PageOrder::P4K)).div_ceil(mmulab_addr::BASE_BYTES);
                    if pages != 0 {
                        array.drop_range(asid, start.vpn(), pages, |e| obs.invalidated(index, e));
                    }
                }
                Invalidate::Asid(asid) => array.drop_space(Some(asid), |e| obs.invalidated(index, e)),
                Invalidate::All => array.drop_space(None, |e| obs.invalidated(index, e)),
            }
        }
    }

    /// A program of which nothing else is known takes places of array `index`: its entries go of which `lose` says so.
    pub fn displace<O: Observer>(&mut self, index: usize, lose: impl FnMut() -> bool, obs: &mut O) {
        self.unsettle();
        self.arrays[index].displace(lose, |entry| obs.evicted(index, entry));
    }

    /// The arrays that all cores have in common go to `to`, a hierarchy of the same description, which acts next.
    pub fn hand_over(&mut self, to: &mut Self) {
        // The other core may write the page that this one has just not found.
        self.absent = [NOBODY; 2];
        for (own, other) in self.arrays.iter_mut().zip(&mut to.arrays).filter(|(own, _)| own.shared) {
            std::mem::swap(own, other);
        }
    }

    /// The arrays that the threads of a core have in common go to `to`, the hierarchy of the thread that acts next.
    pub fn hand_over_core(&mut self, to: &mut Self) {
        self.unsettle();
        to.unsettle();
        for (own, other) in self.arrays.iter_mut().zip(&mut to.arrays).filter(|(own, _)| !own.per_thread) {
            std::mem::swap(own, other);
        }
    }

    /// Tells of every entry held: its array, its tag (0 for global ones) and what it says. Entries that are no pages
    /// are told page by page.
    pub fn each_entry(&self, mut tell: impl FnMut(usize, Asid, &Entry)) {
        for (index, array) in self.arrays.iter().enumerate() {
            array.all(|tag, entry| tell(index, tag, entry));
        }
    }

    /// What the arrays are called, in the order observers number them.
    pub fn names(&self) -> Vec<String> {
        self.arrays.iter().map(|a| a.name.clone()).collect()
    }

    /// The level of array `index`.
    pub fn level(&self, index: usize) -> u8 {
        self.arrays[index].level
    }
}
