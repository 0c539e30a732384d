//! One array: [`Pages`], or, for the designs whose entries are no pages, [`Spans`].

use crate::{
    ArrayDesc, CoalescingCounts, Design, Entry, GeometryError, MirrorCounts, Placement, PredictorCounts, Probe,
    design::{Change, Known, Line, Spans, zen},
    key::{MAX_SIZES, Value},
    pages::{Gone, Pages, Slot},
    predictor::Predictor,
};
use mmulab_addr::{Asid, PageOrder, VirtAddr, Vpn};
use mmulab_sets::{Store, geometry};

/// Most entries an array may have: far above any TLB built, and small enough that no description exhausts memory.
const MAX_ENTRIES: u32 = 1 << 16;
/// Longest latency: far above any, and small enough that no sum overflows.
const MAX_CYCLES: u32 = 10_000;

/// Kinds of entries that an array's hits are told apart by: page sizes, or what a design calls them.
pub const MAX_CLASSES: usize = 24;

/// What entries that translate several pages of the table are called.
pub const COALESCED: &str = "coalesced";

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
    /// The page sizes it takes. A group that it coalesces is one more, before all others: where both translate a page,
    /// the group does, so that the entries it was made of age out.
    pub sizes: Vec<PageOrder>,
    /// What the counts by size are called.
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
    /// The page size that a group coalesces to.
    group: Option<PageOrder>,
    coalescing: CoalescingCounts,
    kind: Kind,
}

/// A predictor, and what searching by its guesses took.
struct Guessing {
    predictor: Predictor,
    cycles: u32,
    probes: u64,
}

/// How entries are kept.
#[expect(clippy::large_enum_variant, reason = "the common kind is used at every lookup, without a detour")]
enum Kind {
    /// By key, one page each.
    Pages(Pages),
    /// As their design wants.
    Spans(Box<Spans>),
}

impl Array {
    pub fn new(desc: &ArrayDesc, seed: u64) -> Result<Self, GeometryError> {
        let bad = |what: String| Err(GeometryError { array: desc.name.clone(), what });
        if !(1..=MAX_ENTRIES).contains(&desc.entries) {
            return bad(format!("{} entries: give 1 to {MAX_ENTRIES}", desc.entries));
        }
        let (sets, ways) = match geometry(u64::from(desc.entries), desc.ways, desc.replacement) {
            Ok(shape) => shape,
            Err(what) => return bad(what),
        };
        if !matches!(desc.level, 1 | 2) {
            return bad(format!("level is {}: give 1 or 2", desc.level));
        }
        if desc.level == 1 && desc.hit_cycles != 0 {
            return bad("a first level answers within the pipeline: leave out hit_cycles".into());
        }
        if desc.level == 2 && desc.probe_cycles != 0 {
            return bad("each probe of a second level takes its hit_cycles: leave out probe_cycles".into());
        }
        let guess_cycles = desc.predictor.as_ref().map_or(0, |p| p.cycles);
        for (key, cycles) in
            [("hit_cycles", desc.hit_cycles), ("probe_cycles", desc.probe_cycles), ("predictor.cycles", guess_cycles)]
        {
            if cycles > MAX_CYCLES {
                return bad(format!("{key} is {cycles}: give 0 to {MAX_CYCLES}"));
            }
        }
        if desc.level == 1 && guess_cycles != 0 {
            return bad("a first level's predictor answers within the pipeline: leave out predictor.cycles".into());
        }
        if desc.mix.is_some() && desc.design != Design::Mix {
            return bad("mix is for design mix: leave it out".into());
        }
        if desc.predictor.is_some() && desc.probe != Probe::Serial && desc.design != Design::Skew {
            return bad(
                "a predictor says which size to search first: give probe = \"serial\" or design = \"skew\"".into()
            );
        }
        let guessing = match desc.predictor.as_ref().map(Predictor::new).transpose() {
            Ok(predictor) => {
                predictor.map(|predictor| Box::new(Guessing { predictor, cycles: guess_cycles, probes: 0 }))
            }
            Err(what) => return bad(what),
        };
        if desc.sizes.is_empty() {
            return bad("sizes is empty: name at least one page size".into());
        }
        if desc.sizes.len() > MAX_SIZES {
            return bad(format!("{} sizes: give at most {MAX_SIZES}", desc.sizes.len()));
        }
        let mut sizes = desc.sizes.clone();
        sizes.sort_unstable();
        let spans = match desc.design {
            Design::Plain | Design::Zen => None,
            _ => match Spans::shape(desc, &sizes, sets, ways, seed, MAX_CLASSES) {
                Ok(shape) => Some(shape),
                Err(what) => return bad(what),
            },
        };
        if let Some(twice) = sizes.windows(2).find(|w| w[0] == w[1]) {
            return bad(format!("sizes names {} twice: name it once", twice[0]));
        }
        if let Some(part) = desc.smash_to
            && !sizes.contains(&part)
        {
            return bad(format!("smash_to is {part}: name one of its sizes"));
        }
        let group = match (desc.design, desc.group) {
            (Design::Zen, group) => match zen::order(group) {
                Ok(order) if sizes.contains(&order) => {
                    return bad(format!("sizes names {order}, which design zen coalesces to: leave it out"));
                }
                Ok(_) if sizes[0] != PageOrder::P4K => {
                    return bad("design zen coalesces base pages: add \"4K\" to sizes".into());
                }
                Ok(_) if sizes.len() == MAX_SIZES => {
                    return bad(format!("{} sizes and a group: give at most {}", sizes.len(), MAX_SIZES - 1));
                }
                Ok(order) => Some(order),
                Err(what) => return bad(what),
            },
            (Design::Plain, Some(group)) => {
                return bad(format!("group is {group}: a plain array coalesces nothing; give design or leave it out"));
            }
            _ => None,
        };
        let mut classes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
        let spans = spans.map(|shape| {
            (sizes, classes) = (shape.sizes, shape.classes);
            shape.spans
        });
        if let Some(order) = group {
            sizes.insert(0, order);
            classes.insert(0, order.to_string());
        }
        let serial = desc.probe == Probe::Serial;
        let (skew, guesses) = (desc.design == Design::Skew, guessing.is_some());
        if skew && serial {
            return bad("design skew searches all its ways at once: leave out probe".into());
        }
        let most_probes = match (serial, skew && guesses && sizes.len() > 1) {
            (true, _) => sizes.len() as u32,
            (_, true) => 2,
            _ => 1,
        };
        if desc.probe_cycles != 0 && most_probes == 1 {
            return bad("each lookup takes one probe, which the pipeline hides: leave out probe_cycles".into());
        }
        // Small pages and groups of them lie in the same set.
        let several = u32::from(spans.is_some() && classes.len() > sizes.len());
        let turns = std::array::from_fn(|class| (class as u32 + 1 - several).max(1));
        let kind = match spans {
            Some(spans) => Kind::Spans(Box::new(spans)),
            None => {
                let store = Store::new(sets, ways, desc.replacement, seed);
                Kind::Pages(Pages::new(store, sets, desc.entries, &sizes))
            }
        };
        Ok(Self {
            name: desc.name.clone(),
            level: desc.level,
            shared: desc.shared,
            per_thread: desc.per_thread,
            placement: desc.side,
            smash_to: desc.smash_to,
            hit_cycles: turns.map(|turn| desc.hit_cycles * if serial { turn } else { 1 }),
            turns,
            miss_cycles: desc.hit_cycles * most_probes + guess_cycles,
            serial,
            probe_cycles: desc.hit_cycles,
            guessing,
            sizes,
            classes,
            hits: [0; MAX_CLASSES],
            reloads: [[[0; MAX_CLASSES]; 2]; 2],
            group,
            coalescing: CoalescingCounts::default(),
            kind,
        })
    }

    /// Whether entries may translate more than one page of the table.
    pub fn coalesces(&self) -> bool {
        self.group.is_some() || matches!(self.kind, Kind::Spans(_))
    }

    /// What reloads of class `class` are called: those of several pages of the table are all `coalesced`.
    pub fn reload_name(&self, class: usize) -> &str {
        if class == 0 && self.group.is_some() { COALESCED } else { &self.classes[class] }
    }

    /// Whether lines of base pages are of use to it.
    pub fn takes_lines(&self) -> bool {
        match &self.kind {
            Kind::Pages(_) => self.group.is_some(),
            Kind::Spans(spans) => spans.takes_lines(),
        }
    }

    /// Whether lines of larger pages than base pages are of use to it.
    pub fn takes_large_lines(&self) -> bool {
        matches!(&self.kind, Kind::Spans(spans) if spans.takes_large_lines())
    }

    /// Whether its lookups depend on a guess.
    pub fn guesses(&self) -> bool {
        self.guessing.is_some()
    }

    /// What translates `vpn`, as [`Self::hit`], searched by the size that the predictor guesses for `code` first. And
    /// the latency of finding it.
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
                Kind::Spans(spans) => spans.hit_size(asid, vpn, size),
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

    /// What its predictor did.
    pub fn predicted(&self) -> Option<PredictorCounts> {
        self.guessing.as_ref().map(|g| g.predictor.counts)
    }

    /// What was written to several sets.
    pub fn mirroring(&self) -> Option<MirrorCounts> {
        match &self.kind {
            Kind::Pages(_) => None,
            Kind::Spans(spans) => spans.mirroring(),
        }
    }

    /// Whether entries are pages, as victim arrays and inclusion need them.
    pub fn holds_pages(&self) -> bool {
        matches!(self.kind, Kind::Pages(_))
    }

    /// What translates `vpn`: in the order of the sizes, the address space's own before a global one. It is used.
    #[inline(always)]
    pub fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        match &mut self.kind {
            Kind::Pages(pages) => pages.hit(asid, vpn),
            Kind::Spans(spans) => spans.hit(asid, vpn),
        }
    }

    /// What the entry at `slot` says of `vpn`, and the size of the page that it says it of.
    #[inline(always)]
    pub fn read(&self, slot: Slot, vpn: Vpn) -> (Value, PageOrder) {
        match &self.kind {
            Kind::Pages(pages) => (pages.value(slot), pages.order(slot.size)),
            Kind::Spans(spans) => spans.read(slot, vpn),
        }
    }

    /// The page-table entry's dirty bit has been set.
    pub fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        let pages = match &mut self.kind {
            Kind::Pages(pages) => pages,
            Kind::Spans(spans) => return spans.set_dirty(asid, vpn),
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

    /// Writes an entry of size number `size` for the page of `order` that holds `vpn`, as [`Pages::put`] does. What it
    /// says now, where it is, and what it replaced.
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
                let held = pages.order(size);
                let value =
                    if held == order { value } else { value.moved(vpn.align_down(held).0 - vpn.align_down(order).0) };
                pages.put(asid, vpn, size, value, absent)
            }
            Kind::Spans(_) => unreachable!("these designs are filled by `take`"),
        }
    }

    /// Takes in what is known of `vpn`, as its design does. Where it is now, and what it replaced; other changes are
    /// told to `tell`, all of them if it is `watched`.
    pub fn take(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        size: u8,
        known: Known,
        (absent, watched): (bool, bool),
        mut tell: impl FnMut(Change, Asid, &Entry),
    ) -> (Slot, Option<Gone>) {
        let pages = match &mut self.kind {
            Kind::Pages(pages) => pages,
            Kind::Spans(spans) => return (spans.put(asid, vpn, known, watched, tell), None),
        };
        let (slot, gone) = match (self.group, known) {
            (Some(group), Known::Line(line)) => match zen::coalesce(line, group, &mut self.coalescing) {
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
            (_, known) => self.put(asid, vpn, size, known.page(), absent),
        };
        let (value, order) = self.read(slot, vpn);
        tell(Change::Filled, asid, &value.entry(vpn, order));
        (slot, gone)
    }

    /// What a found entry knows of the line of base page `vpn`: `None` where it is larger than a line, or a page of the
    /// table that is no base page.
    pub fn line(&self, slot: Slot, vpn: Vpn) -> Option<Line> {
        if let Kind::Spans(spans) = &self.kind {
            return spans.line(slot.at, vpn);
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

    /// Drops every entry with the tag `asid`, none of the global ones; everything for `None`; telling `gone`.
    pub fn drop_space(&mut self, asid: Option<Asid>, mut gone: impl FnMut(&Entry)) {
        match &mut self.kind {
            Kind::Pages(pages) => pages.drop_space(asid, gone),
            Kind::Spans(spans) => spans.drop_space(asid, |_, _, entry| gone(entry)),
        }
    }

    /// Drops the entries of `asid`, and the global ones, that meet the `pages` base pages from `first`, telling `gone`.
    pub fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, mut gone: impl FnMut(&Entry)) {
        match &mut self.kind {
            Kind::Pages(held) => held.drop_range(asid, first, pages, gone),
            Kind::Spans(spans) => spans.drop_range(asid, first, pages, |_, _, entry| gone(entry)),
        }
    }

    /// Evicts every entry of which `lose` says so, of designs whose entries [are pages](Self::holds_pages), telling
    /// `gone`.
    pub fn displace(&mut self, lose: impl FnMut() -> bool, gone: impl FnMut(&Entry)) {
        if let Kind::Pages(pages) = &mut self.kind {
            pages.displace(lose, gone);
        }
    }

    /// Tells of every entry held, with its tag; of those that are no pages, page by page.
    pub fn all(&self, tell: impl FnMut(Asid, &Entry)) {
        match &self.kind {
            Kind::Pages(pages) => pages.all(tell),
            Kind::Spans(spans) => spans.all(tell),
        }
    }

    /// Fills, evictions and invalidations so far.
    pub fn traffic(&self) -> [u64; 3] {
        match &self.kind {
            Kind::Pages(pages) => pages.traffic(),
            Kind::Spans(spans) => spans.traffic(),
        }
    }

    /// What became of the lines that walks read, for designs that look at them.
    pub fn coalescing(&self) -> Option<CoalescingCounts> {
        match &self.kind {
            Kind::Pages(_) => self.group.map(|_| self.coalescing),
            Kind::Spans(spans) => spans.coalescing(),
        }
    }
}
