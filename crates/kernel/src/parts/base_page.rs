//! Which policies run on page tables with base pages larger than 4 KiB: Arm's granules of 16 and 64 KiB.
//!
//! Faults, files, fork and system calls work in base pages of any size. Parts that count sixteen entries to a group, or
//! 512 base pages to a region, are written for 4 KiB, as the systems are that they come from. They are refused here.

use super::check::Contradiction;
use super::desc::PromotionTime;
use super::placement::PlacementKind;
use super::zeroing::ZeroingKind;
use crate::desc::{PolicyDesc, PolicyKind};
use crate::linux::desc::Defrag;
use mmulab_addr::PageOrder;
use mmulab_pagetable::TableDesc;

/// Whether a policy can run on a table with its base pages.
///
/// # Errors
/// The first part that needs base pages of 4 KiB.
pub(crate) fn check(desc: &PolicyDesc, table: &TableDesc) -> Result<(), Contradiction> {
    let base = table.base();
    if base == PageOrder::P4K {
        return Ok(());
    }
    let (thp, fault) = (desc.thp.as_ref(), desc.fault.as_ref());
    let needs = [
        ("kind", desc.kind == PolicyKind::Freebsd),
        ("thp.khugepaged", thp.is_some_and(|thp| thp.khugepaged.is_some())),
        ("thp.defrag", thp.is_some_and(|thp| thp.defrag != Defrag::Never)),
        ("fault.reach", fault.is_some_and(|fault| fault.reach.is_some())),
        ("placement", desc.placement.as_ref().is_some_and(|part| part.frames != PlacementKind::Buddy)),
        ("promotion", desc.promotion.as_ref().is_some_and(|part| part.when != PromotionTime::Never)),
        ("zeroing", desc.zeroing.as_ref().is_some_and(|part| part.when != ZeroingKind::AtFault)),
        ("contiguous", desc.contiguous.is_some()),
        ("hints", desc.hints.as_ref().is_some_and(|hints| hints.from.takes_sizes())),
        ("text", desc.text.is_some()),
    ];
    if let Some((key, _)) = needs.into_iter().find(|need| need.1) {
        let message = format!(
            "works with base pages of 4K only, and the machine's page table ({}) has {base}: take another policy, or \
             table.kind = \"armv8-4k\"",
            table.kind.name()
        );
        return Err((key.into(), message));
    }
    let too_small = |size: &&PageOrder| **size <= base;
    match fault.and_then(|fault| fault.sizes.iter().find(too_small)) {
        None => Ok(()),
        Some(size) => {
            let message = format!("{size} is not larger than the machine's base page, which is {base}: remove it");
            Err(("fault.sizes".into(), message))
        }
    }
}
