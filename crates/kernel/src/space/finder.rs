//! Finds the users of a page that is to be moved, without a search through all page tables where that can be avoided.
//!
//! ```text
//! a frame --> one mapping, where it was mapped last?   yes: that is all, with the page cache's for a page of a file
//!                      | no: shared, or mapped elsewhere
//!                      v
//!             the map of all pages, made once for all such frames
//! ```
//!
//! Answers hold for memory as it was when the work began. A page that has been moved since is not moved again.

use super::Found;
use super::migration::{At, ReverseMap};
use super::system::SystemCx;
use crate::memory::pages::Use;
use mmulab_addr::{PageOrder, Pfn, VirtAddr};
use rustc_hash::{FxHashMap, FxHashSet};

/// Finds pages of one size.
pub(crate) struct Finder {
    order: PageOrder,
    /// Frames that a page has been moved to.
    arrived: FxHashSet<Pfn>,
    /// The pages of the page cache by frame, once one of them was met.
    cached: Option<FxHashMap<Pfn, At>>,
    /// Every page of the size, once it was needed.
    all: Option<ReverseMap>,
}

/// Where a page is mapped, and whether the page cache has it.
pub(crate) enum Users {
    /// One place; or none, if it is memory that was in use before the program began.
    One(Option<(Pfn, At)>),
    Several(Vec<(Pfn, At)>),
}

impl std::ops::Deref for Users {
    type Target = [(Pfn, At)];

    fn deref(&self) -> &[(Pfn, At)] {
        match self {
            Self::One(place) => place.as_slice(),
            Self::Several(places) => places,
        }
    }
}

impl Finder {
    /// Of the pages of `order`.
    pub fn new(order: PageOrder) -> Self {
        Self { order, arrived: FxHashSet::default(), cached: None, all: None }
    }

    /// The size of its pages.
    pub fn order(&self) -> PageOrder {
        self.order
    }

    /// A page was moved to the frame.
    pub fn arrived(&mut self, pfn: Pfn) {
        self.arrived.insert(pfn);
    }

    /// The users of the page that begins with a frame, if the page can move ([`ReverseMap::movable`]).
    pub fn movable(&mut self, system: &SystemCx, pfn: Pfn) -> Option<Users> {
        let memory = &system.shared.memory;
        if pfn.align_down(self.order) != pfn {
            return None;
        }
        let page = memory.pages.get(pfn);
        if page.used == Use::None {
            // The kernel has no page there. It may be an occupant's.
            let is_occupant = self.order == PageOrder::P4K && memory.frames.is_occupant(pfn);
            return is_occupant.then_some(Users::One(None));
        }
        if page.pooled || self.order == PageOrder::P4K && page.order != 0 || self.arrived.contains(&pfn) {
            return None;
        }
        let is_alone = memory.pages.is_exclusive(pfn, self.order);
        if self.order > PageOrder::P4K && !is_alone {
            return None;
        }
        let known = match page.used {
            Use::Cache if self.order == PageOrder::P4K => self.of_file(system, pfn, page.refs).map(Some),
            _ if !is_alone => None,
            _ => self.hinted(system, pfn).map(|place| place.map(|at| Users::One(Some((pfn, at))))),
        };
        let Some(users) = known else {
            return self.all(system).movable(memory, pfn).map(|places| Users::Several(places.to_vec()));
        };
        debug_assert!(self.all(system).movable(memory, pfn) == users.as_deref(), "a search finds what a hint led to");
        users
    }

    /// The users of a page of the page cache, if that is all, or one mapping is the only other one.
    fn of_file(&mut self, system: &SystemCx, pfn: Pfn, refs: u32) -> Option<Users> {
        let cached = self.cached.get_or_insert_with(|| {
            system.shared.memory.cache.frames().map(|(pfn, id, page)| (pfn, At::Cached(id, page))).collect()
        });
        let of_cache = (pfn, *cached.get(&pfn)?);
        match refs {
            1 => Some(Users::One(Some(of_cache))),
            2 => Some(Users::Several(vec![of_cache, (pfn, self.hinted(system, pfn)??)])),
            _ => None,
        }
    }

    /// All pages, as they were when this was first asked for.
    fn all(&mut self, system: &SystemCx) -> &ReverseMap {
        self.all.get_or_insert_with(|| match self.order {
            PageOrder::P4K => ReverseMap::of(system),
            large => ReverseMap::of_large(system, large),
        })
    }

    /// Looks where the frame was mapped last, and where the block around it was. `Some(None)`: the frame is mapped
    /// there, as a part of a page of another size.
    fn hinted(&self, system: &SystemCx, pfn: Pfn) -> Option<Option<At>> {
        let memory = &system.shared.memory;
        let block = pfn.align_down(PageOrder::P2M);
        let within = |(slot, va): (usize, VirtAddr)| {
            let offset = (pfn.0 - block.0) * PageOrder::P4K.bytes();
            (slot, VirtAddr::new(va.raw().wrapping_add(offset)))
        };
        let hints = [memory.last_places.of(pfn), memory.last_places.of(block).map(within)];
        hints.into_iter().flatten().find_map(|(slot, va)| {
            let space = system.spaces.get(slot)?.as_ref()?;
            let Found::Leaf(leaf) = space.page(system.mem, &memory.pages, va) else { return None };
            let is_whole = leaf.order == self.order && leaf.pfn == pfn;
            (leaf.translate(va).pfn() == pfn).then(|| is_whole.then_some(At::Mapped { slot, va: va.raw() }))
        })
    }
}
