//! Linux put together of the parts that a policy file describes.

use super::Linux;
use super::adviser::Advice;
use super::desc::{Defrag, HugeZeroWrite, HugetlbDesc, LinuxDesc, ThpDesc, ThpEnabled};
use crate::KernelError;
use crate::desc::PolicyDesc;
use crate::memory::Memory;
use crate::parts::check;
use crate::parts::contiguous::Contiguous;
use crate::parts::daemon::{DaemonKind, Daemons};
use crate::parts::demotion::Demotions;
use crate::parts::demotion::needed::Needed;
use crate::parts::desc::{PromotionDesc, PromotionTime};
use crate::parts::fault_size::base::Base;
use crate::parts::fault_size::pool::Pool;
use crate::parts::fault_size::thp::Thp;
use crate::parts::fault_size::{FaultSizeKind, FaultSizes};
use crate::parts::hints::HintGivers;
use crate::parts::hints::madvise::Madvise;
use crate::parts::part::{Part, Wrong};
use crate::parts::placement::Placements;
use crate::parts::placement::buddy::Buddy;
use crate::parts::promotion::by_daemon::ByDaemon;
use crate::parts::promotion::{PromotionKind, Promotions};
use crate::parts::reclaim::Reclaims;
use crate::parts::reclaim::at_end::AtEnd;
use crate::parts::settings::{DaemonSettings, FaultSettings, PromotionSettings, ReclaimSettings, Served};
use crate::parts::text::Text;
use crate::parts::traits::Hints;
use crate::parts::zeroing::Zeroings;
use crate::parts::zeroing::at_fault::AtFault;
use crate::space::compaction::Compaction;
use mmulab_addr::{BASE_BYTES, Bytes, PageOrder, show_bytes};
use mmulab_frames::MemoryDesc;
use mmulab_pagetable::TableDesc;

fn wrong(key: impl Into<String>, message: impl Into<String>) -> KernelError {
    KernelError::Description { key: key.into(), message: message.into() }
}

/// A part cannot be made of its section.
fn refused(section: &str) -> impl Fn(Wrong) -> KernelError {
    move |(key, message)| match key {
        "" => wrong(section, message),
        key => wrong(format!("{section}.{key}"), message),
    }
}

fn contiguous(desc: &PolicyDesc, table: &TableDesc) -> Result<Contiguous, KernelError> {
    match &desc.contiguous {
        Some(part) => Contiguous::new(part.bit, table).map_err(refused("contiguous")),
        None => Ok(Contiguous::default()),
    }
}

impl Linux {
    /// Base pages only.
    pub fn base(desc: &LinuxDesc) -> Self {
        Self {
            desc: desc.clone(),
            sizes: FaultSizes::Base(Base),
            placement: Placements::Buddy(Buddy),
            promotion: Promotions::ByDaemon(ByDaemon),
            zeroing: Zeroings::AtFault(AtFault),
            demotion: Demotions::Needed(Needed),
            reclaim: Reclaims::AtEnd(AtEnd),
            contiguous: Contiguous::default(),
            hints: HintGivers::Madvise(Madvise),
            hint_sizes: Vec::new(),
            hints_guide_faults: false,
            switched_on: None,
            keeps_huge: false,
            collapses: false,
            defrag: Defrag::Never,
            compaction: Compaction::default(),
            daemon: None,
            text: Text::default(),
            advice: Advice::default(),
        }
    }

    /// The same with the pages that a policy gives text.
    ///
    /// # Errors
    /// Pages that the table cannot have, that a daemon would make which does not run, or of a pool that is not there.
    pub fn with_text(self, desc: &PolicyDesc, table: &TableDesc) -> Result<Self, KernelError> {
        let by = |promotion: &PromotionDesc| {
            promotion.when == PromotionTime::Daemon && promotion.by.unwrap_or_default() == DaemonKind::Khugepaged
        };
        let of_thp = desc.thp.as_ref().is_some_and(|thp| thp.khugepaged.is_some());
        let runs_khugepaged = of_thp || desc.promotion.as_ref().is_some_and(by);
        let pool = desc.hugetlb.as_ref().map(|pool| pool.size);
        Ok(Self { text: Text::new(desc.text.as_ref(), table, runs_khugepaged, pool)?, ..self })
    }

    /// Transparent huge pages on a page table that has leaves of 2 MiB.
    ///
    /// # Errors
    /// Sizes that no huge page can have, limits beyond a region, or no such leaf.
    pub fn thp(desc: &PolicyDesc, thp: &ThpDesc, table: &TableDesc) -> Result<Self, KernelError> {
        check::contiguous(desc, table).map_err(|(key, message)| wrong(key, message))?;
        let settings = FaultSettings { thp: Some(thp), ..FaultSettings::new(table, desc.linux.zero_page) };
        let part = Thp::new(&settings).map_err(|why| match why {
            ("", message) => wrong("kind", message),
            why => refused("thp")(why),
        })?;
        let daemon = thp.khugepaged.as_ref();
        let takes_text = desc.text.as_ref().is_some_and(|text| text.khugepaged);
        let makes_mthp = daemon.is_some_and(|desc| desc.mthp);
        let mthp: Vec<_> = part.mthp_sizes().filter(|_| makes_mthp).collect();
        if makes_mthp && mthp.is_empty() {
            return Err(wrong("thp.khugepaged.mthp", "no size below 2M is on: give thp.sizes = { 64K = \"always\" }"));
        }
        let settings = |desc| DaemonSettings {
            desc,
            enabled: part.enabled(),
            served: Served::default(),
            smallest_mapping: None,
            fair: false,
            recovery: None,
            demotes: false,
            takes_text,
            mthp: mthp.clone(),
        };
        let daemon = daemon.map(|desc| Daemons::new(DaemonKind::Khugepaged, &settings(desc))).transpose();
        let daemon = daemon.map_err(refused("thp.khugepaged"))?;
        Ok(Self {
            sizes: FaultSizes::Thp(part),
            keeps_huge: thp.zero_page_write == HugeZeroWrite::Huge,
            collapses: true,
            defrag: thp.defrag,
            daemon,
            contiguous: contiguous(desc, table)?,
            ..Self::base(&desc.linux)
        })
    }

    /// Huge pages out of a pool that is reserved at boot.
    ///
    /// # Errors
    /// A size that the page table has no leaves for, or a pool smaller than a page.
    pub fn hugetlb(desc: &LinuxDesc, pool: &HugetlbDesc, table: &TableDesc) -> Result<Self, KernelError> {
        let settings = FaultSettings { pool: Some(pool), ..FaultSettings::new(table, desc.zero_page) };
        let part = Pool::new(&settings).map_err(refused("hugetlb"))?;
        Ok(Self { sizes: FaultSizes::Pool(part), ..Self::base(desc) })
    }
}

impl Linux {
    /// The parts that the sections of a policy file put together.
    ///
    /// # Errors
    /// Parts that contradict each other, the page table, or the memory.
    pub fn parts(desc: &PolicyDesc, table: &TableDesc, memory: &MemoryDesc) -> Result<Self, KernelError> {
        check::check(desc, table, memory).map_err(|(key, message)| wrong(key, message))?;
        let promotion = desc.promotion.clone().unwrap_or_default();
        let gives = desc.hints.clone().unwrap_or_default();
        let hints = HintGivers::new(gives.from, &()).map_err(refused("hints"))?;
        let zeroing = desc.zeroing.clone().unwrap_or_default();
        let reclaim = desc.reclaim.clone().unwrap_or_default();
        let reclaimed = ReclaimSettings { scale_factor: reclaim.scale_factor, frames: memory.bytes() / BASE_BYTES };
        let placement = desc.placement.as_ref().map(|part| part.frames).unwrap_or_default();
        let demotion = desc.demotion.as_ref().map(|part| part.when).unwrap_or_default();
        let daemon = (promotion.when == PromotionTime::Daemon).then(|| promotion.daemon.clone().unwrap_or_default());
        let takes_text = desc.text.as_ref().is_some_and(|text| text.khugepaged);
        let mthp = mthp_sizes(desc, &promotion);
        let settings = |desc| DaemonSettings {
            desc,
            enabled: promotion.enabled,
            served: promotion.serves.unwrap_or_default(),
            smallest_mapping: promotion.smallest_mapping.map(|bytes| bytes.0),
            fair: promotion.fair,
            recovery: promotion.recovery,
            demotes: gives.demote,
            takes_text,
            mthp: mthp.clone(),
        };
        let daemon = daemon.as_ref();
        let daemon = daemon.map(|desc| Daemons::new(promotion.by.unwrap_or_default(), &settings(desc))).transpose();
        Ok(Self {
            sizes: sizes(desc, table)?,
            placement: Placements::new(placement, &()).map_err(refused("placement"))?,
            zeroing: Zeroings::new(zeroing.when, &zeroing.settings()).map_err(refused("zeroing"))?,
            promotion: at_faults(&promotion)?,
            demotion: Demotions::new(demotion, &()).map_err(refused("demotion"))?,
            reclaim: Reclaims::new(reclaim.when, &reclaimed).map_err(refused("reclaim"))?,
            contiguous: contiguous(desc, table)?,
            hint_sizes: if hints.takes_sizes() { hint_sizes(table, gives.giant) } else { Vec::new() },
            hints_guide_faults: gives.at_faults,
            switched_on: (promotion.serves == Some(Served::Enabled)).then(|| promotion.processes.clone()),
            collapses: hints.obeys_program() && desc.has_huge_parts() && table.has_leaf(PageOrder::P2M),
            hints,
            daemon: daemon.map_err(refused("promotion.daemon"))?,
            ..Self::base(&desc.linux)
        })
    }
}

/// Of the sizes of faults those below 2 MiB that khugepaged makes, the largest first, and which mappings get each.
fn mthp_sizes(desc: &PolicyDesc, promotion: &PromotionDesc) -> Vec<(PageOrder, ThpEnabled)> {
    if !promotion.daemon.as_ref().is_some_and(|daemon| daemon.mthp) {
        return Vec::new();
    }
    let faults = desc.fault.as_ref().map_or(&[][..], |fault| &fault.sizes);
    let mut sizes: Vec<_> = check::mthp_sizes(faults).map(|size| (size, promotion.enabled)).collect();
    sizes.sort_by_key(|size| std::cmp::Reverse(size.0));
    sizes
}

/// The fault-size part of `[fault]`.
fn sizes(desc: &PolicyDesc, table: &TableDesc) -> Result<FaultSizes, KernelError> {
    let fault = desc.fault.clone().unwrap_or_default();
    let usual = if fault.reach.is_some() { FaultSizeKind::ByReach } else { FaultSizeKind::Listed };
    let maps_none = fault.sizes.is_empty() || fault.enabled == ThpEnabled::Never;
    let (kind, sizes) = match fault.by {
        None if maps_none => (FaultSizeKind::Base, &[][..]),
        by => (by.unwrap_or(usual), &fault.sizes[..]),
    };
    let reach = fault.reach.map(|bytes| bytes.0);
    let settings =
        FaultSettings { sizes, enabled: fault.enabled, reach, ..FaultSettings::new(table, desc.linux.zero_page) };
    FaultSizes::new(kind, &settings).map_err(refused("fault"))
}

/// The promotion part of `[promotion]`.
fn at_faults(desc: &PromotionDesc) -> Result<Promotions, KernelError> {
    let full = desc.size.base_pages() as u32;
    let (kind, threshold) = match desc.when {
        PromotionTime::Never | PromotionTime::Daemon => (PromotionKind::ByDaemon, full),
        PromotionTime::Full => (desc.how.unwrap_or(PromotionKind::InPlace), full),
        PromotionTime::Threshold => (desc.how.unwrap_or(PromotionKind::InPlace), desc.threshold.unwrap_or(full)),
    };
    let PromotionDesc { size, needs_accessed, .. } = *desc;
    let settings = PromotionSettings { size, threshold, needs_accessed, takes_filled: false };
    Promotions::new(kind, &settings).map_err(refused("promotion"))
}

/// The sizes that hints may name: base pages, and what a page table with or without leaves of 2 MiB can be made of.
fn hint_sizes(table: &TableDesc, giant: bool) -> Vec<PageOrder> {
    let sizes = [PageOrder::P4K, PageOrder::P64K, PageOrder::P2M, PageOrder::P32M];
    let most = if table.has_leaf(PageOrder::P2M) { PageOrder::P32M } else { PageOrder::P64K };
    let giant = (giant && table.has_leaf(PageOrder::P1G)).then_some(PageOrder::P1G);
    sizes.into_iter().filter(|&size| size <= most).chain(giant).collect()
}

/// Reserves the pool of huge pages at boot.
///
/// # Errors
/// There is no room for all of it.
pub(crate) fn reserve(memory: &mut Memory, pool: &HugetlbDesc) -> Result<(), KernelError> {
    memory.reserve(pool.size, pool.pool).map_err(|got| {
        wrong(
            "hugetlb.pool",
            format!(
                "only {got} of {} pages of {} could be reserved at boot: make the pool smaller, or the machine's \
                 memory larger or less fragmented",
                pool.pool.0 / pool.size.bytes(),
                pool.size,
            ),
        )
    })
}

/// Whether the numbers of a description can be honoured.
///
/// # Errors
/// The first that cannot.
pub(crate) fn check(linux: &LinuxDesc) -> Result<(), KernelError> {
    let page_sized = |key: &str, bytes: Bytes, max: u64| {
        if bytes.0.is_power_of_two() && (PageOrder::P4K.bytes()..=max).contains(&bytes.0) {
            return Ok(());
        }
        let (max, found) = (show_bytes(max), show_bytes(bytes.0));
        Err(wrong(format!("linux.{key}"), format!("must be a power of two from 4K to {max}, not {found}")))
    };
    page_sized("fault_around", linux.fault_around, PageOrder::P2M.bytes())?;
    page_sized("read_around", linux.read_around, PageOrder::P1G.bytes())?;
    let most = linux.largest_read;
    if most.0 == 0 || !most.0.is_multiple_of(BASE_BYTES) {
        let found = show_bytes(most.0);
        return Err(wrong("linux.largest_read", format!("must be a multiple of 4K and not 0, not {found}")));
    }
    let kernel = linux.kernel_page;
    if ![PageOrder::P4K, PageOrder::P2M].contains(&kernel) {
        return Err(wrong("linux.kernel_page", format!("must be 4K or 2M, not {kernel}")));
    }
    page_sized("implicit_vma", linux.implicit_vma, PageOrder::P1G.bytes())
}
