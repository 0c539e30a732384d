//! Fault size *listed*: a fault in private anonymous memory maps the largest possible of the sizes that `[fault]`
//! lists. A page of that size must lie inside the mapping, be empty and have a free block.

use crate::linux::desc::ThpEnabled;
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::FaultSettings;
use crate::parts::traits::{Candidate, FaultSize, Hole, MapSize, Supply};
use crate::report::counts::Refusal;
use mmulab_addr::{Access, PageOrder};

/// The sizes of a list, all used by the same rule.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// The largest first.
    sizes: Vec<MapSize>,
    /// Which mappings the sizes are used in.
    enabled: ThpEnabled,
    /// Whether a load of an untouched page maps the zero page: then no size is considered for loads.
    zero_page: bool,
}

impl Part<FaultSettings<'_>> for Listed {
    const NAME: &'static str = "listed";
    const ABOUT: &'static str = "The sizes that `sizes` lists: the default.";

    fn new(settings: &FaultSettings) -> Result<Self, Wrong> {
        match settings.reach {
            None => Ok(Self::of(settings)),
            Some(_) => Err(("reach", "only by = \"by-reach\" reads it: remove it, or by".into())),
        }
    }
}

impl Listed {
    /// Of the sizes in the settings, whatever the reach of the TLBs.
    pub fn of(settings: &FaultSettings) -> Self {
        let mut sizes: Vec<_> = settings.sizes.iter().map(|&size| MapSize::best(settings.table, size)).collect();
        sizes.sort_by_key(|size| std::cmp::Reverse(size.order()));
        Self { sizes, enabled: settings.enabled, zero_page: settings.zero_page }
    }
}

/// Sizes whose refusals have names of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Giant,
    Huge,
    Small,
}

/// Why a size of a family is not mapped.
struct Reasons {
    outside: Refusal,
    populated: Refusal,
    no_block: Refusal,
}

impl Family {
    #[inline]
    fn of(order: PageOrder) -> Self {
        match order.cmp(&PageOrder::P2M) {
            std::cmp::Ordering::Greater => Self::Giant,
            std::cmp::Ordering::Equal => Self::Huge,
            std::cmp::Ordering::Less => Self::Small,
        }
    }

    #[inline]
    fn reasons(self) -> Reasons {
        use Refusal::{
            GiantNoBlock, GiantOutsideVma, GiantPopulated, MthpNoBlock, MthpOutsideVma, MthpPopulated, ThpNoBlock,
            ThpOutsideVma, ThpPopulated,
        };
        let (outside, populated, no_block) = match self {
            Self::Giant => (GiantOutsideVma, GiantPopulated, GiantNoBlock),
            Self::Huge => (ThpOutsideVma, ThpPopulated, ThpNoBlock),
            Self::Small => (MthpOutsideVma, MthpPopulated, MthpNoBlock),
        };
        Reasons { outside, populated, no_block }
    }
}

impl FaultSize for Listed {
    fn sizes(&self) -> usize {
        self.sizes.len()
    }

    /// The reasons have the names that Linux's sizes have: `thp_` for 2 MiB, `mthp_` below, and `giant_` above.
    #[inline]
    fn candidate(&self, index: usize, hole: &Hole, is_empty: impl Fn(u64, u64) -> bool) -> Candidate {
        let (size, vma) = (self.sizes[index], &hole.span.value);
        let maps_zero_page = hole.access != Access::Write && self.zero_page;
        if !vma.is_anon() || vma.hugetlb.is_some() || maps_zero_page || !self.enabled.allows(vma.advice) {
            return Candidate::NotConsidered;
        }
        let (order, start) = (size.order(), hole.start(size.order()));
        if hole.guide.is_some_and(|wanted| wanted < order) {
            return Candidate::NotConsidered;
        }
        let Reasons { outside, populated, no_block } = Family::of(order).reasons();
        if !hole.fits(order) {
            Candidate::Refused(outside)
        } else if !is_empty(start, start + order.bytes()) {
            Candidate::Refused(populated)
        } else {
            Candidate::Fits { size, supply: Supply::Frames, if_none: no_block }
        }
    }

    fn ends_family(&self, index: usize) -> bool {
        let family = |size: &MapSize| Family::of(size.order());
        self.sizes.get(index + 1).is_none_or(|next| family(next) != family(&self.sizes[index]))
    }
}
