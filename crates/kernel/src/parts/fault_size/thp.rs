//! Fault size *thp*: Linux's transparent huge pages, and the smaller sizes that are enabled (mTHP). A huge page is what
//! an entry above those of base pages maps (a PMD): 2 MiB, or 32 or 512 MiB with Arm's larger granules.

use crate::linux::desc::{ThpDesc, ThpEnabled, ThpSize};
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::FaultSettings;
use crate::parts::traits::{Candidate, FaultSize, Hole, MapSize, Supply};
use crate::report::counts::Refusal;
use crate::space::vma::HugeAdvice;
use mmulab_addr::{Access, PageOrder};

/// The smallest huge page in base pages: order 2 (`THP_ORDERS_ALL_ANON` in include/linux/huge_mm.h).
const SMALLEST: u8 = 2;

/// Transparent huge pages. The first fault in an aligned region of private anonymous memory maps a huge page, if
/// `do_huge_pmd_anonymous_page` in mm/huge_memory.c and `thp_vma_allowable_order` allow it. Otherwise it maps the
/// largest mTHP size that is enabled, fits, is empty and has a free block (`alloc_anon_folio` in mm/memory.c).
#[derive(Clone, Debug)]
pub(crate) struct Thp {
    /// The leaf of a huge page.
    huge: MapSize,
    /// Where huge pages are used.
    enabled: ThpEnabled,
    /// Whether a load of an untouched region maps the huge zero page.
    huge_zero_page: bool,
    /// Whether a load of an untouched page maps the zero page: then no mTHP size is considered for loads.
    zero_page: bool,
    /// The smaller sizes that are not disabled, the largest first, and where each is used.
    mthp: Vec<(MapSize, ThpEnabled)>,
}

impl Part<FaultSettings<'_>> for Thp {
    const NAME: &'static str = "thp";
    const ABOUT: &'static str =
        "Transparent huge pages: what policies of kind `linux-thp` have, by their section `[thp]`.";

    /// # Errors
    /// Sizes that no huge page can have, or a page table without leaves of the size of huge pages.
    fn new(settings: &FaultSettings) -> Result<Self, Wrong> {
        let Some(desc) = settings.thp else {
            return Err((
                "by",
                "thp reads the section [thp], of policies of kind \"linux-thp\": set kind to that".into(),
            ));
        };
        let largest = settings.table.format().huge();
        let Some(huge) = MapSize::leaf(settings.table, largest) else {
            return Err(("", format!("linux-thp maps pages of {largest}, which the machine's page table has none of")));
        };
        let smallest = PageOrder::new(settings.table.base().get() + SMALLEST);
        if let Some(size) = desc.sizes.keys().find(|&&s| s < smallest || s > largest) {
            return Err((
                "sizes",
                format!("{size} is not a size of huge page: give sizes from {smallest} to {largest}"),
            ));
        }
        let named = desc.sizes.keys().copied().rev().filter(|&order| order < largest);
        let sizes = named.map(|order| (MapSize::block(order), enabled(desc, order, largest)));
        Ok(Self {
            huge,
            enabled: enabled(desc, largest, largest),
            huge_zero_page: desc.zero_page,
            zero_page: settings.zero_page,
            mthp: sizes.filter(|size| size.1 != ThpEnabled::Never).collect(),
        })
    }
}

impl Thp {
    /// Where huge pages are used.
    pub fn enabled(&self) -> ThpEnabled {
        self.enabled
    }

    /// The smaller sizes that are not disabled, the largest first, and where each is used.
    pub fn mthp_sizes(&self) -> impl Iterator<Item = (PageOrder, ThpEnabled)> {
        self.mthp.iter().map(|(size, enabled)| (size.order(), *enabled))
    }

    /// The reasons are looked for in the order of this function, and the first that holds is counted.
    #[inline]
    fn huge(&self, hole: &Hole) -> Candidate {
        let (order, vma) = (self.huge.order(), &hole.span.value);
        let refused = if !vma.is_anon() {
            Refusal::ThpNotAnonymous
        } else if self.enabled == ThpEnabled::Never {
            Refusal::ThpNever
        } else if vma.advice == HugeAdvice::NoHuge {
            Refusal::ThpNohugepage
        } else if !self.enabled.allows(vma.advice) {
            Refusal::ThpNotAdvised
        } else if !hole.fits(order) {
            Refusal::ThpOutsideVma
        } else if hole.room < order {
            Refusal::ThpPopulated
        } else {
            let is_load = hole.access != Access::Write;
            let supply = if is_load && self.huge_zero_page { Supply::ZeroPage } else { Supply::Frames };
            return Candidate::Fits { size: self.huge, supply, if_none: Refusal::ThpNoBlock };
        };
        Candidate::Refused(refused)
    }

    fn mthp(
        &self,
        (size, enabled): (MapSize, ThpEnabled),
        hole: &Hole,
        is_empty: impl Fn(u64, u64) -> bool,
    ) -> Candidate {
        let vma = &hole.span.value;
        // A load of untouched memory maps the zero page, a base page at a time.
        let maps_zero_page = hole.access != Access::Write && self.zero_page;
        if !vma.is_anon() || maps_zero_page || !enabled.allows(vma.advice) {
            return Candidate::NotConsidered;
        }
        let (order, start) = (size.order(), hole.start(size.order()));
        if !hole.fits(order) {
            Candidate::Refused(Refusal::MthpOutsideVma)
        } else if !is_empty(start, start + order.bytes()) {
            Candidate::Refused(Refusal::MthpPopulated)
        } else {
            Candidate::Fits { size, supply: Supply::Frames, if_none: Refusal::MthpNoBlock }
        }
    }
}

/// Where pages of `order` are used, if the largest are of order `huge`.
fn enabled(desc: &ThpDesc, order: PageOrder, huge: PageOrder) -> ThpEnabled {
    match desc.sizes.get(&order) {
        Some(ThpSize::Always) => ThpEnabled::Always,
        Some(ThpSize::Madvise) => ThpEnabled::Madvise,
        Some(ThpSize::Never) => ThpEnabled::Never,
        Some(ThpSize::Inherit) => desc.enabled,
        // `huge_anon_orders_inherit` begins as the order of a PMD alone.
        None if order == huge => desc.enabled,
        None => ThpEnabled::Never,
    }
}

impl FaultSize for Thp {
    fn sizes(&self) -> usize {
        1 + self.mthp.len()
    }

    #[inline]
    fn candidate(&self, index: usize, hole: &Hole, is_empty: impl Fn(u64, u64) -> bool) -> Candidate {
        match index.checked_sub(1) {
            None => self.huge(hole),
            Some(index) => self.mthp(self.mthp[index], hole, is_empty),
        }
    }

    fn ends_family(&self, index: usize) -> bool {
        index == 0 || index == self.mthp.len()
    }
}
