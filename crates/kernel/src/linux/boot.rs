//! Linux put together of the parts that a policy file describes.

use super::Linux;
use super::desc::{Defrag, HugeZeroWrite, HugetlbDesc, LinuxDesc, ThpDesc, ThpEnabled};
use crate::KernelError;
use crate::desc::PolicyDesc;
use crate::memory::Memory;
use crate::parts::check;
use crate::parts::contiguous::Contiguous;
use crate::parts::daemon::{DaemonKind, DaemonSettings, Daemons, Served};
use crate::parts::demotion::DemotionKind;
use crate::parts::desc::PromotionTime;
use crate::parts::fault_size::{ByReach, FaultSizes, Listed, Pool, Thp};
use crate::parts::hints::HintSource;
use crate::parts::placement::{Buddy, Placements};
use crate::parts::promotion::{InPlace, Promotions};
use crate::parts::reclaim::{AtEnd, Reclaims};
use crate::parts::traits::{Hints, MapSize};
use crate::parts::zeroing::ZeroingDesc;
use crate::space::compaction::Compaction;
use mmulab_addr::{BASE_BYTES, Bytes, PageOrder, show_bytes};
use mmulab_frames::MemoryDesc;
use mmulab_pagetable::TableDesc;

fn wrong(key: impl Into<String>, message: impl Into<String>) -> KernelError {
    KernelError::Description { key: key.into(), message: message.into() }
}

fn contiguous(desc: &PolicyDesc, table: &TableDesc) -> Contiguous {
    desc.contiguous.as_ref().map(|part| Contiguous::new(part.bit, table)).unwrap_or_default()
}

impl Linux {
    /// Base pages only.
    pub fn base(desc: &LinuxDesc) -> Self {
        Self {
            desc: desc.clone(),
            sizes: FaultSizes::Base,
            placement: Placements::Buddy(Buddy),
            promotion: Promotions::Never,
            zeroing: (&ZeroingDesc::default()).into(),
            demotion: DemotionKind::default(),
            reclaim: Reclaims::AtEnd(AtEnd),
            contiguous: Contiguous::default(),
            hints: HintSource::default(),
            hint_sizes: Vec::new(),
            hints_guide_faults: false,
            keeps_huge: false,
            collapses: false,
            defrag: Defrag::Never,
            compaction: Compaction::default(),
            daemon: None,
        }
    }

    /// Transparent huge pages on a page table that has leaves of 2 MiB.
    ///
    /// # Errors
    /// Sizes that no huge page can have, limits beyond a region, or no such leaf.
    pub fn thp(desc: &PolicyDesc, thp: &ThpDesc, table: &TableDesc) -> Result<Self, KernelError> {
        check::contiguous(desc, table).map_err(|(key, message)| wrong(key, message))?;
        let huge = MapSize::leaf(table, PageOrder::P2M)
            .ok_or_else(|| wrong("kind", "linux-thp maps pages of 2M, which the machine's page table has none of"))?;
        let part = Thp::new(thp, desc.linux.zero_page, huge)?;
        let daemon = thp.khugepaged.as_ref();
        let settings = |desc| DaemonSettings {
            desc,
            enabled: part.enabled(),
            served: Served::default(),
            smallest_mapping: None,
            demotes: false,
        };
        let daemon = daemon.map(|desc| Daemons::new(DaemonKind::Khugepaged, &settings(desc))).transpose();
        let daemon = daemon.map_err(|(key, message)| match key {
            "" => wrong("thp.khugepaged", message),
            key => wrong(format!("thp.khugepaged.{key}"), message),
        })?;
        Ok(Self {
            sizes: FaultSizes::Thp(part),
            keeps_huge: thp.zero_page_write == HugeZeroWrite::Huge,
            collapses: true,
            defrag: thp.defrag,
            daemon,
            contiguous: contiguous(desc, table),
            ..Self::base(&desc.linux)
        })
    }

    /// Huge pages out of a pool that is reserved at boot.
    ///
    /// # Errors
    /// A size that the page table has no leaves for, or a pool smaller than a page.
    pub fn hugetlb(desc: &LinuxDesc, pool: &HugetlbDesc, table: &TableDesc) -> Result<Self, KernelError> {
        let size = MapSize::leaf(table, pool.size).ok_or_else(|| {
            wrong("hugetlb.size", format!("the machine's page table has no huge page of {}", pool.size))
        })?;
        if pool.pool.0 < pool.size.bytes() {
            let bytes = show_bytes(pool.pool.0);
            return Err(wrong("hugetlb.pool", format!("{bytes} holds not one page of {}: give more", pool.size)));
        }
        Ok(Self { sizes: FaultSizes::Pool(Pool::new(pool, size)), ..Self::base(desc) })
    }
}

impl Linux {
    /// The parts that the sections of a policy file put together.
    ///
    /// # Errors
    /// Parts that contradict each other, the page table, or the memory.
    pub fn parts(desc: &PolicyDesc, table: &TableDesc, memory: &MemoryDesc) -> Result<Self, KernelError> {
        check::check(desc, table, memory).map_err(|(key, message)| wrong(key, message))?;
        let fault = desc.fault.clone().unwrap_or_default();
        let promotion = desc.promotion.clone().unwrap_or_default();
        let hints = desc.hints.as_ref().map(|hints| hints.from).unwrap_or_default();
        let sizes = match fault.sizes.is_empty() || fault.enabled == ThpEnabled::Never {
            true => FaultSizes::Base,
            false => {
                let sizes = fault.sizes.iter().map(|&size| MapSize::best(table, size)).collect();
                let listed = Listed::new(sizes, fault.enabled, desc.linux.zero_page);
                match fault.reach {
                    Some(reach) => FaultSizes::ByReach(ByReach::new(listed, reach.0)),
                    None => FaultSizes::Listed(listed),
                }
            }
        };
        let full = promotion.size.base_pages() as u32;
        let in_place = |threshold| InPlace {
            size: promotion.size,
            threshold,
            needs_accessed: promotion.needs_accessed,
            takes_filled: false,
        };
        let at_faults = match promotion.when {
            PromotionTime::Never | PromotionTime::Daemon => Promotions::Never,
            PromotionTime::Full => Promotions::InPlace(in_place(full)),
            PromotionTime::Threshold => Promotions::InPlace(in_place(promotion.threshold.unwrap_or(full))),
        };
        let daemon = (promotion.when == PromotionTime::Daemon).then(|| promotion.daemon.clone().unwrap_or_default());
        let served = promotion.serves.unwrap_or_default();
        let smallest_mapping = promotion.smallest_mapping.map(|bytes| bytes.0);
        let gives = desc.hints.clone().unwrap_or_default();
        let demotes = gives.demote;
        let settings = |desc| DaemonSettings { desc, enabled: promotion.enabled, served, smallest_mapping, demotes };
        let daemon = daemon.as_ref();
        let daemon = daemon.map(|desc| Daemons::new(promotion.by.unwrap_or_default(), &settings(desc))).transpose();
        let daemon = daemon.map_err(|(key, message)| match key {
            "" => wrong("promotion.daemon", message),
            key => wrong(format!("promotion.daemon.{key}"), message),
        })?;
        Ok(Self {
            sizes,
            placement: desc.placement.as_ref().map(|placement| placement.frames).unwrap_or_default().into(),
            zeroing: (&desc.zeroing.clone().unwrap_or_default()).into(),
            promotion: at_faults,
            demotion: desc.demotion.as_ref().map(|demotion| demotion.when).unwrap_or_default(),
            reclaim: Reclaims::new(&desc.reclaim.clone().unwrap_or_default(), memory.bytes() / BASE_BYTES),
            contiguous: contiguous(desc, table),
            hints,
            hint_sizes: if hints.takes_sizes() { hint_sizes(table, gives.giant) } else { Vec::new() },
            hints_guide_faults: desc.hints.as_ref().is_some_and(|hints| hints.at_faults),
            collapses: hints.obeys_program() && desc.has_huge_parts() && table.has_leaf(PageOrder::P2M),
            daemon,
            ..Self::base(&desc.linux)
        })
    }
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
    page_sized("implicit_vma", linux.implicit_vma, PageOrder::P1G.bytes())
}
