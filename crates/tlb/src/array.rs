//! One array: sets of ways, searched by key; or, for the designs whose entries are no pages, a [`Spans`].

use crate::{
    ArrayDesc, CoalescingCounts, Design, Entry, GeometryError, Placement, Probe,
    design::{Change, Known, Line, Spans, zen},
    key::{self, GLOBAL, MAX_SIZES, Value, key},
};
use mmulab_addr::{Asid, PageOrder, Vpn};
use mmulab_sets::{EMPTY, Keys, Store, each, geometry};

/// Most entries an array may have: far above any TLB built, and small enough that no description exhausts memory.
const MAX_ENTRIES: u32 = 1 << 16;
/// Longest latency: far above any, and small enough that no sum overflows.
const MAX_CYCLES: u32 = 10_000;

/// Kinds of entries that an array's hits are told apart by: page sizes, or what a design calls them.
pub const MAX_CLASSES: usize = 24;

/// An array in use.
pub struct Array {
    pub name: String,
    pub level: u8,
    pub placement: Placement,
    pub smash_to: Option<PageOrder>,
    /// The page sizes it takes. A group that it coalesces is one more, before all others: where both translate a page, the
    /// group does, so that the entries it was made of age out.
    pub sizes: Vec<PageOrder>,
    /// What the counts by size are called.
    pub classes: Vec<String>,
    /// Latency of a hit, by size number.
    pub hit_cycles: [u32; MAX_CLASSES],
    /// Latency of finding nothing.
    pub miss_cycles: u32,
    /// Hits by size number.
    pub hits: [u64; MAX_CLASSES],
    body: Body,
    /// The page size that a group coalesces to.
    group: Option<PageOrder>,
    coalescing: CoalescingCounts,
    ways: Kind,
}

/// How entries are kept.
enum Kind {
    /// By key, one page each.
    Sets(Store),
    /// As their design wants.
    Spans(Box<Spans>),
}

/// What an array keeps beside its keys.
pub struct Body {
    fills: u64,
    evictions: u64,
    invalidations: u64,
    /// The sizes, where a search finds them without a detour.
    orders: [PageOrder; MAX_SIZES],
    sets: u64,
    /// `sets - 1` where that is a mask; else sets are found by modulo.
    mask: Option<u64>,
    /// By set and way.
    values: Vec<Value>,
    /// Entries held of each size.
    held: [u32; MAX_SIZES],
    /// Bit `n`: entries of size number `n` are held; a size nobody holds is not searched.
    present: u8,
    /// Empty ways in all.
    empty: u32,
    /// Global entries held: while there are none, no lookup need look for them.
    globals: u32,
}

/// An entry that was found or written, for one page.
#[derive(Clone, Copy)]
pub struct Hit {
    /// Where it lies.
    pub at: u32,
    /// The number of its size, or of its class.
    pub size: u8,
    /// What it says of the page.
    pub value: Value,
    /// The page's size.
    pub order: PageOrder,
}

/// An entry that made way for another.
pub struct Gone {
    key: u64,
    pub order: PageOrder,
    pub value: Value,
}

impl Gone {
    pub fn asid(&self) -> Asid {
        key::asid(self.key)
    }

    pub fn vpn(&self) -> Vpn {
        key::vpn(self.key)
    }

    pub fn entry(&self) -> Entry {
        self.value.entry(self.vpn(), self.order)
    }
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
        if desc.level == 1 && (desc.hit_cycles != 0 || desc.probe != Probe::Parallel) {
            return bad("a first level answers within the pipeline: leave out hit_cycles and probe".into());
        }
        if desc.hit_cycles > MAX_CYCLES {
            return bad(format!("hit_cycles is {}: give 0 to {MAX_CYCLES}", desc.hit_cycles));
        }
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
        let mut orders = [PageOrder::P4K; MAX_SIZES];
        for (order, size) in orders.iter_mut().zip(&sizes) {
            *order = *size;
        }
        let store = Store::new(sets, ways, desc.replacement, seed);
        let values = if spans.is_some() { 0 } else { sets * each!(&store, keys => keys.stride()) };
        let body = Body {
            fills: 0,
            evictions: 0,
            invalidations: 0,
            orders,
            sets: sets as u64,
            mask: sets.is_power_of_two().then_some(sets as u64 - 1),
            values: vec![Value::default(); values],
            held: [0; MAX_SIZES],
            present: 0,
            empty: desc.entries,
            globals: 0,
        };
        Ok(Self {
            name: desc.name.clone(),
            level: desc.level,
            placement: desc.side,
            smash_to: desc.smash_to,
            hit_cycles: std::array::from_fn(|n| desc.hit_cycles * if serial { n as u32 + 1 } else { 1 }),
            miss_cycles: desc.hit_cycles * if serial { sizes.len() as u32 } else { 1 },
            sizes,
            classes,
            hits: [0; MAX_CLASSES],
            body,
            group,
            coalescing: CoalescingCounts::default(),
            ways: match spans {
                Some(spans) => Kind::Spans(Box::new(spans)),
                None => Kind::Sets(store),
            },
        })
    }

    /// Whether entries may translate more than one page of the table.
    pub fn coalesces(&self) -> bool {
        self.group.is_some() || matches!(self.ways, Kind::Spans(_))
    }

    /// Whether entries are pages, as victim arrays and inclusion need them.
    pub fn holds_pages(&self) -> bool {
        matches!(self.ways, Kind::Sets(_))
    }

    /// What translates `vpn`: in the order of the sizes, the address space's own before a global one. It is used.
    #[inline(always)]
    pub fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Hit> {
        match &mut self.ways {
            Kind::Sets(store) => each!(store, keys => {
                let (hit, set, way) = self.body.seek(keys, asid, vpn)?;
                keys.touch(set, way);
                Some(hit)
            }),
            Kind::Spans(spans) => spans.hit(asid, vpn),
        }
    }

    /// The page-table entry's dirty bit has been set.
    pub fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        let store = match &mut self.ways {
            Kind::Sets(store) => store,
            Kind::Spans(spans) => return spans.set_dirty(asid, vpn),
        };
        let Some((hit, set, way)) = each!(&*store, keys => self.body.seek(keys, asid, vpn)) else { return };
        if self.group == Some(hit.order) && !hit.value.dirty() {
            // The group is no longer clean throughout.
            each!(store, keys => self.body.remove(keys, set, way));
            self.coalescing.destroyed += 1;
        } else {
            self.body.values[hit.at as usize] = hit.value.dirtied();
        }
    }

    /// The size of size number `size`.
    #[inline(always)]
    pub fn order(&self, size: u8) -> PageOrder {
        self.body.orders[usize::from(size)]
    }

    /// Writes an entry of size number `size` for the page that holds `vpn`, most recently used: in place of one with the
    /// same key (which `absent` tells there is not), else in the first empty way, else in the victim's. Where it is now, and
    /// what it replaced.
    #[inline(always)]
    pub fn put(&mut self, asid: Asid, vpn: Vpn, size: u8, value: Value, absent: bool) -> (Hit, Option<Gone>) {
        match &mut self.ways {
            Kind::Sets(store) => each!(store, keys => self.body.put(keys, asid, vpn, size, value, absent)),
            Kind::Spans(_) => unreachable!("these designs are filled by `take`"),
        }
    }

    /// Takes in what is known of `vpn`, as its design does. Where it is now, and what it replaced; other changes are told to
    /// `tell`.
    pub fn take(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        size: u8,
        known: Known,
        absent: bool,
        mut tell: impl FnMut(Change, Asid, &Entry),
    ) -> (Hit, Option<Gone>) {
        let store = match &mut self.ways {
            Kind::Sets(store) => store,
            Kind::Spans(spans) => return (spans.put(asid, vpn, known, tell), None),
        };
        let (value, order) = match known {
            Known::Line(line) => (line.value, PageOrder::P4K),
            Known::Page(value, order) => (value, order),
        };
        let mut put = (size, value);
        if let (Some(group), Known::Line(line)) = (self.group, known) {
            match zen::coalesce(line, group, &mut self.coalescing) {
                Some(value) => put = (0, value),
                None if !absent => each!(&mut *store, keys => {
                    // A group that holds the page would go before what was read now.
                    let dropped = self.body.drop_one(keys, asid, vpn, 0);
                    for entry in dropped.into_iter().flatten() {
                        self.coalescing.destroyed += 1;
                        tell(Change::Dropped, asid, &entry);
                    }
                }),
                None => {}
            }
        } else {
            let held = self.body.orders[usize::from(size)];
            put.1 = value.moved(vpn.align_down(held).0.wrapping_sub(vpn.align_down(order).0));
        }
        let (hit, gone) = each!(store, keys => self.body.put(keys, asid, vpn, put.0, put.1, absent));
        tell(Change::Filled, asid, &hit.value.entry(vpn, hit.order));
        (hit, gone)
    }

    /// What a found entry knows of the line of base page `vpn`: `None` where it is larger than a line, or a page of the
    /// table that is no base page.
    pub fn line(&self, hit: &Hit, vpn: Vpn) -> Option<Line> {
        if let Kind::Spans(spans) = &self.ways {
            return spans.line(hit.at, vpn);
        }
        if hit.order != PageOrder::P4K && self.group != Some(hit.order) {
            return None;
        }
        let first = vpn.align_down(hit.order);
        let mut line = Line::of_one(vpn, hit.value.moved(vpn.0 - first.0));
        for page in 0..hit.order.base_pages() {
            line.add((first.0 + page - line.first.0) as usize, hit.value.pfn().0 + page);
        }
        Some(line)
    }

    /// Drops every entry with the tag `asid`, none of the global ones; everything for `None`; telling `gone`.
    pub fn drop_space(&mut self, asid: Option<Asid>, mut gone: impl FnMut(&Entry)) {
        match &mut self.ways {
            Kind::Sets(store) => each!(store, keys => match asid {
                Some(asid) => self.body.drop_if(keys, |tag, _, _| tag == asid && tag != GLOBAL, &mut gone),
                None => self.body.drop_if(keys, |_, _, _| true, &mut gone),
            }),
            Kind::Spans(spans) => spans.drop_space(asid, |_, _, entry| gone(entry)),
        }
    }

    /// Drops the entries of `asid`, and the global ones, that meet the `pages` base pages from `first`, telling `gone`.
    pub fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, mut gone: impl FnMut(&Entry)) {
        match &mut self.ways {
            Kind::Sets(store) => each!(store, keys => self.body.drop_range(keys, asid, first, pages, &mut gone)),
            Kind::Spans(spans) => spans.drop_range(asid, first, pages, |_, _, entry| gone(entry)),
        }
    }

    /// Tells of every entry held, with its tag; of those that are no pages, page by page.
    pub fn all(&self, mut tell: impl FnMut(Asid, &Entry)) {
        match &self.ways {
            Kind::Sets(store) => each!(store, keys => self.body.all(keys, &mut tell)),
            Kind::Spans(spans) => spans.all(tell),
        }
    }

    /// Fills, evictions and invalidations so far.
    pub fn traffic(&self) -> [u64; 3] {
        match &self.ways {
            Kind::Sets(_) => [self.body.fills, self.body.evictions, self.body.invalidations],
            Kind::Spans(spans) => spans.traffic().0,
        }
    }

    /// What became of the lines that walks read, for designs that look at them.
    pub fn coalescing(&self) -> Option<CoalescingCounts> {
        match &self.ways {
            Kind::Sets(_) => self.group.map(|_| self.coalescing),
            Kind::Spans(spans) => Some(spans.traffic().1),
        }
    }
}

impl Body {
    /// The set that the page of `order` that holds `vpn` falls in: the low bits of its number, or the remainder where
    /// the sets are no power of two.
    #[inline(always)]
    fn set(&self, vpn: Vpn, order: PageOrder) -> usize {
        let index = vpn.0 >> order.get();
        match self.mask {
            Some(mask) => (index & mask) as usize,
            None => (index % self.sets) as usize,
        }
    }

    #[inline(always)]
    fn seek(&self, keys: &impl Keys, asid: Asid, vpn: Vpn) -> Option<(Hit, usize, usize)> {
        let mut sizes = self.present;
        while sizes != 0 {
            let size = sizes.trailing_zeros() as usize;
            sizes &= sizes - 1;
            let order = self.orders[size];
            let set = self.set(vpn, order);
            let mut way = keys.find(set, key(vpn, asid, order, size));
            if way.is_none() && self.globals != 0 {
                way = keys.find(set, key(vpn, GLOBAL, order, size));
            }
            if let Some(way) = way {
                let at = set * keys.stride() + way;
                return Some((Hit { at: at as u32, size: size as u8, value: self.values[at], order }, set, way));
            }
        }
        None
    }

    #[inline(always)]
    fn put(
        &mut self,
        keys: &mut impl Keys,
        asid: Asid,
        vpn: Vpn,
        size: u8,
        value: Value,
        absent: bool,
    ) -> (Hit, Option<Gone>) {
        let order = self.orders[usize::from(size)];
        let global = value.global();
        let wanted = key(vpn, if global { GLOBAL } else { asid }, order, usize::from(size));
        let set = self.set(vpn, order);
        self.fills += 1;
        if !absent && let Some(way) = keys.find(set, wanted) {
            keys.touch(set, way);
            let at = set * keys.stride() + way;
            self.values[at] = value;
            return (Hit { at: at as u32, size, value, order }, None);
        }
        debug_assert!(keys.find(set, wanted).is_none());
        let (way, old) = keys.admit(set, wanted, self.empty != 0);
        let at = set * keys.stride() + way;
        let slot = Hit { at: at as u32, size, value, order };
        let was = std::mem::replace(&mut self.values[at], value);
        if old == EMPTY {
            self.count_in(wanted);
            return (slot, None);
        }
        self.evictions += 1;
        // Most entries make way for one of their kind: nothing to count then.
        if key::size(old) != usize::from(size) || self.globals != 0 || global {
            self.count_in(wanted);
            self.count_out(old);
        }
        (slot, Some(Gone { key: old, order: self.orders[key::size(old)], value: was }))
    }

    fn count_in(&mut self, new: u64) {
        let size = key::size(new);
        self.held[size] += 1;
        self.present |= 1 << size;
        self.empty = self.empty.wrapping_sub(1);
        self.globals += u32::from(key::asid(new) == GLOBAL);
    }

    fn count_out(&mut self, old: u64) {
        let size = key::size(old);
        self.held[size] -= 1;
        self.present &= !(u8::from(self.held[size] == 0) << size);
        self.empty = self.empty.wrapping_add(1);
        self.globals -= u32::from(key::asid(old) == GLOBAL);
    }

    fn remove(&mut self, keys: &mut impl Keys, set: usize, way: usize) -> Entry {
        let old = keys.key(set, way);
        keys.remove(set, way);
        self.count_out(old);
        self.invalidations += 1;
        self.values[set * keys.stride() + way].entry(key::vpn(old), self.orders[key::size(old)])
    }

    fn drop_if(
        &mut self,
        keys: &mut impl Keys,
        drop: impl Fn(Asid, Vpn, PageOrder) -> bool,
        gone: &mut impl FnMut(&Entry),
    ) {
        if self.present == 0 {
            return;
        }
        for set in 0..self.sets as usize {
            for way in 0..keys.stride() {
                let k = keys.key(set, way);
                if k != EMPTY && drop(key::asid(k), key::vpn(k), self.orders[key::size(k)]) {
                    gone(&self.remove(keys, set, way));
                }
            }
        }
    }

    /// Drops what translates `vpn` as a page of size number `size`: the address space's own and the global one.
    fn drop_one(&mut self, keys: &mut impl Keys, asid: Asid, vpn: Vpn, size: usize) -> [Option<Entry>; 2] {
        if self.held[size] == 0 {
            return [None; 2];
        }
        let order = self.orders[size];
        let set = self.set(vpn, order);
        [asid, GLOBAL].map(|tag| {
            let way = keys.find(set, key(vpn, tag, order, size))?;
            Some(self.remove(keys, set, way))
        })
    }

    fn all(&self, keys: &impl Keys, tell: &mut impl FnMut(Asid, &Entry)) {
        for set in 0..self.sets as usize {
            for way in 0..keys.stride() {
                let k = keys.key(set, way);
                if k != EMPTY {
                    let value = self.values[set * keys.stride() + way];
                    tell(key::asid(k), &value.entry(key::vpn(k), self.orders[key::size(k)]));
                }
            }
        }
    }

    fn drop_range(&mut self, keys: &mut impl Keys, asid: Asid, first: Vpn, pages: u64, gone: &mut impl FnMut(&Entry)) {
        for size in 0..MAX_SIZES {
            if self.held[size] == 0 {
                continue;
            }
            let order = self.orders[size];
            let (from, to) = (first.0 >> order.get(), (first.0 + pages - 1) >> order.get());
            if to - from >= self.values.len() as u64 {
                let meets = |vpn: Vpn| (from..=to).contains(&(vpn.0 >> order.get()));
                self.drop_if(keys, |tag, vpn, o| o == order && (tag == asid || tag == GLOBAL) && meets(vpn), gone);
                continue;
            }
            for page in from..=to {
                let vpn = Vpn(page << order.get());
                let set = self.set(vpn, order);
                for tag in [asid, GLOBAL] {
                    if let Some(way) = keys.find(set, key(vpn, tag, order, size)) {
                        gone(&self.remove(keys, set, way));
                    }
                }
            }
        }
    }
}
