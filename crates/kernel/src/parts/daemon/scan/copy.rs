//! Promotion by copy, as khugepaged does it (`collapse_huge_page` in mm/khugepaged.c): a region that passes the limits
//! goes into a free block of 2 MiB.

use super::limits::Limits;
use super::pace::Scan;
use crate::KernelError;
use crate::report::counts::{EventKind, Refusal};
use crate::space::compaction::Compaction;
use crate::space::smart::empty_region;
use crate::space::system::SystemCx;
use crate::space::vma::Vma;
use mmulab_addr::{PageOrder, Pfn};

/// Copies the base pages of a region into a huge page, if they are worth it. The region is given by its first address,
/// and the slot of its address space.
///
/// # Errors
/// Frames for page tables ran out.
pub(in crate::parts::daemon) fn copy_to_huge(
    system: &mut SystemCx,
    compaction: &mut Compaction,
    limits: &Limits,
    defrag: bool,
    (slot, vma, start): (usize, &Vma, u64),
) -> Result<Scan, KernelError> {
    let (space, mut cx) = system.at(slot);
    if !limits.is_worth(space, &mut cx, start, PageOrder::P2M) {
        return Ok(Scan::Done);
    }
    if !free_block(system, compaction, PageOrder::P2M, defrag, start) {
        system.refuse(Refusal::ThpNoBlock, start);
        return Ok(Scan::NoBlock);
    }
    let (space, mut cx) = system.at(slot);
    if space.collapse(&mut cx, vma, start)? {
        system.shared.counts.events.add(EventKind::KhugepagedCollapse, 1);
    }
    Ok(Scan::Done)
}

/// A free GiB, or one that smart compaction makes if `defrag` says so. `failed` keeps it from trying again in vain.
pub(in crate::parts::daemon) fn take_giant(
    system: &mut SystemCx,
    defrag: bool,
    failed: &mut bool,
    at: u64,
) -> Option<Pfn> {
    let mut head = system.shared.memory.frames.take_run(PageOrder::P1G);
    if head.is_none() && defrag && !*failed {
        *failed = !empty_region(system, PageOrder::P1G, at);
        head = system.shared.memory.frames.take_run(PageOrder::P1G);
    }
    if head.is_none() {
        system.refuse(Refusal::GiantNoBlock, at);
    }
    head
}

/// Whether a block of `order` is free, once per-CPU lists were emptied or memory was compacted if it takes that.
pub(in crate::parts::daemon) fn free_block(
    system: &mut SystemCx,
    compaction: &mut Compaction,
    order: PageOrder,
    defrag: bool,
    at: u64,
) -> bool {
    if system.shared.memory.frames.has_block(order) {
        return true;
    }
    if defrag {
        return compaction.compact(system, order, at);
    }
    system.shared.memory.frames.drain();
    system.shared.memory.frames.has_block(order)
}
