//! Finds the users of a page that is to be moved, without a search through all page tables where that can be avoided.
//!
//! ```text
//! a frame --> one user, and mapped where it was mapped last?   yes: that is all there is to know
//!                      | no: shared, of a file, or mapped elsewhere
//!                      v
//!             the map of all pages, made once for all such frames
//! ```
//!
//! What it says holds for memory as it was when the work began. A page that has been moved since is not moved again.

use super::Found;
use super::migration::{At, ReverseMap};
use super::system::SystemCx;
use crate::memory::pages::Use;
use mmulab_addr::{PageOrder, Pfn, VirtAddr};
use rustc_hash::FxHashSet;

/// Finds pages of one size.
pub(crate) struct Finder {
    order: PageOrder,
    /// Frames that a page has been moved to.
    arrived: FxHashSet<Pfn>,
    /// Every page of the size, once it was needed.
    all: Option<ReverseMap>,
}

/// Where a page is mapped, or the page cache has it: nowhere, if it is memory that was in use before the program began.
pub(crate) enum Users {
    /// It was found where it was mapped last, or nowhere.
    Hinted(Option<(Pfn, At)>),
    /// It was searched for.
    Searched(Vec<(Pfn, At)>),
}

impl std::ops::Deref for Users {
    type Target = [(Pfn, At)];

    fn deref(&self) -> &[(Pfn, At)] {
        match self {
            Self::Hinted(place) => place.as_slice(),
            Self::Searched(places) => places,
        }
    }
}

impl Finder {
    /// Of the pages of `order`.
    pub fn new(order: PageOrder) -> Self {
        Self { order, arrived: FxHashSet::default(), all: None }
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
            return is_occupant.then_some(Users::Hinted(None));
        }
        if page.pooled || self.order == PageOrder::P4K && page.order != 0 || self.arrived.contains(&pfn) {
            return None;
        }
        let is_alone = page.used == Use::Anon && memory.pages.is_exclusive(pfn, self.order);
        let Some(place) = is_alone.then(|| self.hinted(system, pfn)).flatten() else {
            return self.all(system).movable(memory, pfn).map(|places| Users::Searched(places.to_vec()));
        };
        let place = place.map(|at| (pfn, at));
        debug_assert!(
            self.all(system).movable(memory, pfn) == place.as_ref().map(std::slice::from_ref),
            "a search finds what a hint led to"
        );
        place.map(|place| Users::Hinted(Some(place)))
    }

    /// All pages, as they were when this was first asked for.
    fn all(&mut self, system: &SystemCx) -> &ReverseMap {
        self.all.get_or_insert_with(|| match self.order {
            PageOrder::P4K => ReverseMap::of(system),
            large => ReverseMap::of_large(system, large),
        })
    }

    /// Looks where the frame was mapped last, and where the block around it was. If the frame is mapped there: the place,
    /// or that it is part of a page of another size.
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
