//! Two levels of arrays, as one core has them: what they are, and how they are built. Lookup, fill, the most recent
//! page, prediction, invalidation and what cores share are in files of their own.

mod elsewhere;
mod fill;
mod flush_recent;
mod in_flight;
mod invalidate;
mod lookup;
mod predict;
mod recent;
mod replay;
mod run;
mod share;
mod sum;
mod trail;

use crate::{
    ArrayDesc, Coalescing, Design, Entry, GeometryError, HierarchyDesc, Inclusion, Placement, SideCounts,
    array::Array,
    design::{Looks, names},
    levels::Levels,
};
use in_flight::InFlight;
use mmulab_addr::{Access, Asid, VirtAddr, Vpn};
use recent::{NO_PAGE, Recent};
use trail::Trail;

pub use crate::key::page_of;
pub use recent::RecentPages;
pub use replay::Unfinished;
pub use trail::Levels as SharedLevels;

/// The TLBs of one core.
pub struct Hierarchy {
    arrays: Vec<Array>,
    levels: Levels,
    /// By array: whether an eviction has consequences, because a victim array takes the entry or an inclusive level 2
    /// invalidates level 1.
    evictions_matter: Vec<bool>,
    inclusive: bool,
    /// Whether some array has entries of more than one page of the table.
    coalesces: bool,
    /// Which neighbours of a page some array looks at.
    looks: Looks,
    /// Whether some array has a page-size predictor, which must see every lookup.
    guesses: bool,
    /// No array coalesces, none guesses, and no trail is kept: most hierarchies. Their lookups ask for none of it.
    is_plain: bool,
    /// The block of code that is executing: what page-size predictors index by. The fetching core sets it.
    pub code: VirtAddr,
    /// By level (less one) and side.
    counts: [[SideCounts; 2]; 2],
    /// By side: the base page that the last search found nowhere, until it is filled; its tag may be another by then.
    missed: [u64; 2],
    /// By side and by where they came from: reloads of pages that no first-level array holds.
    no_l1_array: [[u64; 2]; 2],
    /// The last page used, by side.
    recent: [Recent; 2],
    /// By side: the page that the last search found nowhere, if nothing was written since. Its fill need not look for
    /// it.
    absent: [u64; 2],
    /// The instructions in flight, where they hold entries.
    in_flight: Option<Box<InFlight>>,
    /// What was written to the first level, where several hierarchies have one search of it.
    trail: Option<Box<Trail>>,
}

/// Where a reload comes from.
const SECOND_LEVEL: usize = 0;
const WALK: usize = 1;

/// A lookup in progress.
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

/// Whether instructions in flight may hold its entries.
fn is_held_kind(desc: &ArrayDesc) -> bool {
    desc.level == 1 && desc.side == Placement::Instruction
}

impl Coalescing {
    /// The array as it is under this rule.
    fn limit(self, desc: &ArrayDesc) -> ArrayDesc {
        let on = match self {
            Self::Both => true,
            Self::Data => desc.side == Placement::Data,
            Self::Instruction => desc.side == Placement::Instruction,
            Self::None => false,
        };
        if on || !desc.design.about().coalesces {
            return desc.clone();
        }
        ArrayDesc { design: Design::Plain, group: None, mix: None, ..desc.clone() }
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
        let of_pages = || names(|about| about.keys.handed_pages);
        if inclusive && let Some(odd) = arrays.iter().find(|a| a.level == 2 && !a.holds_pages()) {
            return Err(GeometryError {
                array: odd.name.clone(),
                what: format!("inclusion is modelled for designs {}: set tlb_rules.inclusion to none", of_pages()),
            });
        }
        if let Some((odd, _)) = arrays.iter().zip(desc).find(|(a, d)| d.retention_cycles.is_some() && !a.holds_pages())
        {
            return Err(GeometryError {
                array: odd.name.clone(),
                what: format!("retention_cycles is modelled for designs {}: leave it out", of_pages()),
            });
        }
        if let Some((odd, d)) =
            arrays.iter().zip(desc).find(|(a, d)| d.hold.is_some() && !(is_held_kind(d) && a.holds_pages()))
        {
            let what = if is_held_kind(d) {
                format!("hold is modelled for designs {}: leave it out", of_pages())
            } else {
                "hold is for an array of level 1 that serves fetches alone: leave it out".into()
            };
            return Err(GeometryError { array: odd.name.clone(), what });
        }
        let in_flight = InFlight::new(desc);
        let is_held = |index: usize| in_flight.as_ref().is_some_and(|all| all.concerns(index));
        let matters = |(index, (a, victims)): (usize, (&Array, &Vec<usize>))| {
            !victims.is_empty() || (inclusive && a.level == 2) || is_held(index)
        };
        Ok(Self {
            evictions_matter: arrays.iter().zip(&levels.victims).enumerate().map(matters).collect(),
            coalesces: arrays.iter().any(Array::coalesces),
            looks: Looks { base: arrays.iter().any(|a| a.looks().base), large: arrays.iter().any(|a| a.looks().large) },
            guesses: arrays.iter().any(Array::guesses),
            is_plain: !arrays.iter().any(|a| a.coalesces() || a.guesses()),
            code: VirtAddr::default(),
            arrays,
            inclusive,
            counts: Default::default(),
            missed: [NO_PAGE; 2],
            no_l1_array: Default::default(),
            recent: [Recent::NONE; 2],
            absent: [NO_PAGE; 2],
            levels,
            in_flight,
            trail: None,
        })
    }

    /// Whether instructions in flight hold entries: then it must be said [when they begin](Self::begin).
    pub fn holds(&self) -> bool {
        self.in_flight.is_some()
    }

    /// `count` instructions began, on the page fetched last.
    #[inline(always)]
    pub fn begin(&mut self, count: u64) {
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.begin(count);
        }
    }

    /// Whether any array looks at the entries beside a page's own, so that walks must hand them over.
    pub fn looks_at_neighbours(&self) -> bool {
        self.coalesces
    }

    /// Calls `tell` for every valid entry with its array, ASID (0 if global) and translation. An entry that covers
    /// several pages is passed page by page.
    pub fn each_entry(&self, mut tell: impl FnMut(usize, Asid, &Entry)) {
        for (index, array) in self.arrays.iter().enumerate() {
            array.all(|tag, entry| tell(index, tag, entry));
        }
    }

    /// Names of the arrays, in the order in which observers number them.
    pub fn names(&self) -> Vec<String> {
        self.arrays.iter().map(|a| a.name.clone()).collect()
    }

    /// The level of array `index`.
    pub fn level(&self, index: usize) -> u8 {
        self.arrays[index].level
    }
}
