//! One array: the entries as its design keeps them ([`Kind`]), and what is the same for all designs: latencies, probes,
//! predictor and counts.

mod build;

use crate::{
    CoalescingCounts, Entry, MirrorCounts, Placement, PredictorCounts,
    classes::{COALESCED, MAX_CLASSES},
    design::{Change, FillInput, Kind, Line, Looks, OwnStorage, Storage, zen},
    key::{Value, part},
    pages::{Gone, Slot},
    predictor::Predictor,
};
use mmulab_addr::{Asid, PageOrder, VirtAddr, Vpn};

/// An array in use.
pub struct Array {
    pub name: String,
    pub level: u8,
    /// One for all cores.
    pub shared: bool,
    /// One for each thread of a core.
    pub per_thread: bool,
    pub placement: Placement,
    pub smash_to: Option<PageOrder>,
    /// The page sizes it takes; that of a group that it coalesces to comes before all others.
    pub sizes: Vec<PageOrder>,
    /// Names of the counts by size.
    pub classes: Vec<String>,
    /// Latency of a hit, by size number.
    pub hit_cycles: [u32; MAX_CLASSES],
    /// Latency of finding nothing.
    pub miss_cycles: u32,
    /// Hits by size number.
    pub hits: [u64; MAX_CLASSES],
    /// Of a first level: what misses brought here, by side, by where it came from (the second level, a walk), by size
    /// number.
    pub reloads: [[[u64; MAX_CLASSES]; 2]; 2],
    /// Whether sizes are searched one after another.
    serial: bool,
    /// The probe that finds an entry of each class, where sizes are searched in turn.
    turns: [u32; MAX_CLASSES],
    /// Latency of one probe.
    probe_cycles: u32,
    guessing: Option<Box<Guessing>>,
    /// The page size that a group coalesces to, where entries are pages.
    group: Option<PageOrder>,
    looks: Looks,
    coalescing: CoalescingCounts,
    kind: Kind<OwnStorage>,
}

/// A predictor, and what searching by its guesses took.
struct Guessing {
    predictor: Predictor,
    cycles: u32,
    probes: u64,
}

impl Array {
    /// Whether entries may translate more than one page of the table.
    pub fn coalesces(&self) -> bool {
        self.group.is_some() || !self.holds_pages()
    }

    /// Name of the reloads of class `class`. Those of several pages of the table are all `coalesced`.
    pub fn reload_name(&self, class: usize) -> &str {
        if class == 0 && self.group.is_some() { COALESCED } else { &self.classes[class] }
    }

    /// Which neighbours of a page are of use to it.
    pub fn looks(&self) -> Looks {
        self.looks
    }

    /// Whether its lookups depend on a guess.
    pub fn guesses(&self) -> bool {
        self.guessing.is_some()
    }

    /// The entry that translates `vpn`, as [`Self::hit`], and the latency of finding it. The search begins with the
    /// size that the predictor guesses for `code`.
    #[inline(never)]
    pub fn hit_guessed(&mut self, asid: Asid, vpn: Vpn, code: VirtAddr) -> Option<(Slot, u32)> {
        let Some(guessing) = &mut self.guessing else {
            return self.hit(asid, vpn).map(|slot| (slot, self.hit_cycles[usize::from(slot.size)]));
        };
        let sizes = self.sizes.len();
        let guess = guessing.predictor.guess(code).min(sizes - 1);
        let others = (0..sizes).filter(|&size| size != guess);
        let mut probes = 0;
        for size in std::iter::once(guess).chain(others) {
            // The ways of all other sizes of a skewed array are searched together.
            probes = if self.serial { probes + 1 } else { (probes + 1).min(2) };
            let found = match &mut self.kind {
                Kind::Pages(pages) => pages.hit_size(asid, vpn, size),
                Kind::Bundles(bundles) => bundles.hit(asid, vpn),
                Kind::Own(own) => own.hit_size(asid, vpn, size),
            };
            if let Some(slot) = found {
                guessing.predictor.found(code, guess, size);
                guessing.probes += u64::from(probes);
                return Some((slot, probes * self.probe_cycles + guessing.cycles));
            }
        }
        guessing.probes += u64::from(probes);
        None
    }

    /// The page that the code at `code` wanted is of size number `size`.
    pub fn learn(&mut self, code: VirtAddr, size: u8) {
        if let Some(guessing) = &mut self.guessing {
            guessing.predictor.learn(code, usize::from(size));
        }
    }

    /// Probes that its lookups took, `misses` of which found nothing; `None` where each took one.
    pub fn probes(&self, misses: u64) -> Option<u64> {
        match (&self.guessing, self.serial) {
            (Some(guessing), _) => Some(guessing.probes),
            (None, true) => {
                let hits: u64 = self.hits.iter().zip(self.turns).map(|(&hits, turn)| hits * u64::from(turn)).sum();
                Some(hits + misses * self.sizes.len() as u64)
            }
            (None, false) => None,
        }
    }

    /// Counts of its predictor.
    pub fn predicted(&self) -> Option<PredictorCounts> {
        self.guessing.as_ref().map(|g| g.predictor.counts)
    }

    /// Counts of writes to several sets.
    pub fn mirroring(&self) -> Option<MirrorCounts> {
        match &self.kind {
            Kind::Bundles(bundles) => Some(bundles.mirroring),
            Kind::Pages(_) | Kind::Own(_) => None,
        }
    }

    /// Whether entries are pages, as victim arrays and inclusion need them.
    pub fn holds_pages(&self) -> bool {
        matches!(self.kind, Kind::Pages(_))
    }

    /// As [`Self::hit`], without a predictor and where entries [are pages](Self::holds_pages). The code has no search
    /// of another design in it, so that a hierarchy without them pays nothing for them.
    #[inline(always)]
    pub fn hit_pages(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        if let Kind::Pages(pages) = &mut self.kind { pages.hit(asid, vpn) } else { None }
    }

    /// The entry that translates `vpn`, which counts as used. Sizes are searched in order; the address space's own
    /// entry comes before a global one.
    #[inline(always)]
    pub fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        match &mut self.kind {
            Kind::Pages(pages) => pages.hit(asid, vpn),
            Kind::Bundles(bundles) => bundles.hit(asid, vpn),
            Kind::Own(own) => own.hit(asid, vpn),
        }
    }

    /// As [`Self::read`], where entries are pages.
    #[inline(always)]
    pub fn read_pages(&self, slot: Slot) -> (Value, PageOrder) {
        match &self.kind {
            Kind::Pages(pages) => (pages.value(slot), pages.order(slot.size)),
            Kind::Bundles(_) | Kind::Own(_) => unreachable!("asked of arrays of pages alone"),
        }
    }

    /// Translation of `vpn` by the entry at `slot`, and the size of the page that it covers.
    #[inline(always)]
    pub fn read(&self, slot: Slot, vpn: Vpn) -> (Value, PageOrder) {
        match &self.kind {
            Kind::Pages(pages) => (pages.value(slot), pages.order(slot.size)),
            Kind::Bundles(bundles) => bundles.read(slot, vpn),
            Kind::Own(own) => own.read(slot, vpn),
        }
    }

    /// The page-table entry's dirty bit has been set.
    pub fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        let pages = match &mut self.kind {
            Kind::Pages(pages) => pages,
            Kind::Bundles(bundles) => return bundles.set_dirty(asid, vpn),
            Kind::Own(own) => return own.set_dirty(asid, vpn),
        };
        let Some(slot) = pages.find(asid, vpn) else { return };
        let value = pages.value(slot);
        if self.group == Some(pages.order(slot.size)) && !value.dirty() {
            // The group is no longer clean throughout.
            pages.drop_at(slot);
            self.coalescing.destroyed += 1;
        } else {
            pages.set_value(slot, value.dirtied());
        }
    }

    /// Writes an entry of size number `size` for the page of `order` that holds `vpn`, as [`Pages::put`] does. Returns
    /// its value, its place, and the entry that it replaced.
    #[inline(always)]
    pub fn put(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        size: u8,
        (value, order): (Value, PageOrder),
        absent: bool,
    ) -> (Slot, Option<Gone>) {
        match &mut self.kind {
            Kind::Pages(pages) => {
                let value = part(value, vpn, order, pages.order(size));
                pages.put(asid, vpn, size, value, absent)
            }
            Kind::Bundles(_) | Kind::Own(_) => unreachable!("these designs are filled by `take`"),
        }
    }

    /// An entry was written to the array that stands for this one.
    pub fn count_fill(&mut self) {
        if let Kind::Pages(pages) = &mut self.kind {
            pages.count_fill();
        }
    }

    /// Fills the array with the page `vpn`, as its design does. Returns the place of the entry and the entry that it
    /// replaced. Other changes are passed to `tell`; all of them if the array is `watched`.
    pub fn take(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        size: u8,
        input: FillInput,
        (absent, watched): (bool, bool),
        mut tell: impl FnMut(Change, Asid, &Entry),
    ) -> (Slot, Option<Gone>) {
        let pages = match &mut self.kind {
            Kind::Pages(pages) => pages,
            Kind::Bundles(bundles) => return (bundles.put(asid, vpn, input, watched, tell), None),
            Kind::Own(own) => return (own.put(asid, vpn, input, tell), None),
        };
        let (slot, gone) = match (self.group, input) {
            (Some(group), FillInput::Line(line)) => match zen::coalesce(line, group, &mut self.coalescing) {
                Some(value) => pages.put(asid, vpn, 0, value, absent),
                None => {
                    if !absent {
                        // A group that holds the page would go before what was read now.
                        for entry in pages.drop_one(asid, vpn, 0).into_iter().flatten() {
                            self.coalescing.destroyed += 1;
                            tell(Change::Dropped, asid, &entry);
                        }
                    }
                    pages.put(asid, vpn, size, line.value, absent)
                }
            },
            (_, input) => self.put(asid, vpn, size, input.page(), absent),
        };
        let (value, order) = self.read(slot, vpn);
        tell(Change::Filled, asid, &value.entry(vpn, order));
        (slot, gone)
    }

    /// The line of base page `vpn` as a found entry holds it. `None` if the entry is larger than a line, or a page of
    /// the table that is not a base page.
    pub fn line(&self, slot: Slot, vpn: Vpn) -> Option<Line> {
        match &self.kind {
            Kind::Pages(_) => {}
            Kind::Bundles(bundles) => return bundles.line(slot.at, vpn),
            Kind::Own(own) => return own.line(slot.at, vpn),
        }
        let (value, order) = self.read(slot, vpn);
        if order != PageOrder::P4K && self.group != Some(order) {
            return None;
        }
        let first = vpn.align_down(order);
        let mut line = Line::of_one(vpn, value.moved(vpn.0 - first.0));
        for page in 0..order.base_pages() {
            line.add((first.0 + page - line.first.0) as usize, value.pfn().0 + page);
        }
        Some(line)
    }

    /// Drops every entry of `asid`, none of the global ones; everything for `None`. Each goes to `gone`.
    pub fn drop_space(&mut self, asid: Option<Asid>, mut gone: impl FnMut(&Entry)) {
        match &mut self.kind {
            Kind::Pages(pages) => pages.drop_space(asid, gone),
            Kind::Bundles(bundles) => bundles.drop_space(asid, |_, _, entry| gone(entry)),
            Kind::Own(own) => own.drop_space(asid, |_, _, entry| gone(entry)),
        }
    }

    /// Drops the entries of `asid`, and the global ones, that meet the `pages` base pages from `first`, telling `gone`.
    pub fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, mut gone: impl FnMut(&Entry)) {
        match &mut self.kind {
            Kind::Pages(held) => held.drop_range(asid, first, pages, gone),
            Kind::Bundles(bundles) => bundles.drop_range(asid, first, pages, |_, _, entry| gone(entry)),
            Kind::Own(own) => own.drop_range(asid, first, pages, |_, _, entry| gone(entry)),
        }
    }

    /// Evicts every entry for which `lose` returns true and passes it to `gone`, for designs whose entries
    /// [are pages](Self::holds_pages).
    pub fn displace(&mut self, lose: impl FnMut() -> bool, gone: impl FnMut(&Entry)) {
        if let Kind::Pages(pages) = &mut self.kind {
            pages.displace(lose, gone);
        }
    }

    /// Calls `tell` for every valid entry with its ASID. An entry that covers several pages is passed page by page.
    pub fn all(&self, tell: impl FnMut(Asid, &Entry)) {
        match &self.kind {
            Kind::Pages(pages) => pages.all(tell),
            Kind::Bundles(bundles) => bundles.all(tell),
            Kind::Own(own) => own.all(tell),
        }
    }

    /// Fills, evictions and invalidations so far.
    pub fn traffic(&self) -> [u64; 3] {
        match &self.kind {
            Kind::Pages(pages) => pages.traffic(),
            Kind::Bundles(bundles) => bundles.traffic(),
            Kind::Own(own) => own.traffic(),
        }
    }

    /// Results for the lines that walks read, for designs that look at them.
    pub fn coalescing(&self) -> Option<CoalescingCounts> {
        match &self.kind {
            Kind::Pages(_) => self.group.map(|_| self.coalescing),
            Kind::Bundles(bundles) => Some(bundles.counts),
            Kind::Own(own) => own.coalescing(),
        }
    }
}
