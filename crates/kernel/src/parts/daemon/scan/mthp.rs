//! Khugepaged for several sizes, as Linux from 7.2 on has it. Where 2 MiB cannot be one page, smaller blocks are made.
//! Source: `collapse_scan_pmd` and `mthp_collapse` in mm/khugepaged.c, of the series "khugepaged: mTHP support".
//!
//! ```text
//! 512 pages of a region    x x x x . . . .  x x x x x x x x   ...      x: mapped, .: a hole or the zero page
//!                          '------ 2M: too many holes ---------...-'
//!                          '-- 32K: holes -'-- 32K: one block --'      each size that the mapping gets, the largest
//!                          '- 16K -'                                   first; each half by itself if the whole is none
//! ```
//!
//! A size is passed over where a page lies in a block of that size or a larger one already. Shared pages, pages that
//! were not accessed, and a block that cannot be had lead on to the next smaller size. Linux takes the block before it
//! looks at the pages again; here the pages come first.
//!
//! Such a kernel collapses pages that may not be stored to as well: Linux lost the limit in 6.18.

use super::copy::free_block;
use super::limits::Limits;
use super::pace::Scan;
use crate::report::counts::{EventKind, Refusal};
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx, Found};
use crate::{KernelError, WorkKind};
use mmulab_addr::{BASE_BYTES, PageOrder, VirtAddr};

/// Base pages of a region.
const PAGES: u64 = PageOrder::P2M.base_pages();
/// The smallest block that it makes (`KHUGEPAGED_MIN_MTHP_ORDER`).
pub(crate) const SMALLEST_BLOCK: PageOrder = PageOrder::new(2);

/// The base pages of a region that are mapped, and not to a page of zeros.
struct Occupied([bool; PAGES as usize]);

impl Occupied {
    /// How many of the `order` pages from number `first` on.
    fn of(&self, first: u64, order: PageOrder) -> u64 {
        let pages = &self.0[first as usize..(first + order.base_pages()) as usize];
        pages.iter().filter(|&&is_mapped| is_mapped).count() as u64
    }
}

/// Result for a place of a block.
enum Made {
    Block,
    /// Its pages lie in such a block, or a larger one, already.
    Before,
    /// A smaller one may be possible.
    Refused,
    NoBlock,
}

/// Makes one page or several blocks of the 2 MiB at `start` of a mapping, as far as its pages are worth it.
///
/// # Errors
/// Frames for page tables ran out.
pub(super) fn make_blocks(
    system: &mut SystemCx,
    compaction: &mut Compaction,
    limits: &Limits,
    defrag: bool,
    (slot, vma, start): (usize, &Vma, u64),
) -> Result<Scan, KernelError> {
    let (space, mut cx) = system.at(slot);
    let Some(occupied) = look_at_region(limits, space, &mut cx, start) else { return Ok(Scan::Done) };
    let huge = limits.makes_huge(vma).then_some(PageOrder::P2M);
    let sizes: Vec<PageOrder> = huge.into_iter().chain(limits.mthp(vma)).collect();
    let (mut made, mut was_tried, mut has_no_block) = (false, false, false);
    let (mut first, mut order) = (0, PageOrder::P2M);
    while first < PAGES {
        let pages = order.base_pages();
        if sizes.contains(&order) && occupied.of(first, order) + limits.most_none(order) >= pages {
            was_tried = true;
            let at = start + first * BASE_BYTES;
            match make_block(system, compaction, defrag, (slot, vma, at), order)? {
                done @ (Made::Block | Made::Before) => {
                    made |= matches!(done, Made::Block);
                    (first, order) = next_place(first + pages);
                    continue;
                }
                Made::Refused => {}
                Made::NoBlock => has_no_block = true,
            }
        }
        if sizes.iter().any(|&size| size < order) {
            order = PageOrder::new(order.get() - 1);
        } else {
            (first, order) = next_place(first + pages);
        }
    }
    if !was_tried {
        system.refuse(Refusal::KhugepagedNone, start);
    }
    Ok(if has_no_block && !made { Scan::NoBlock } else { Scan::Done })
}

/// The next place of a region, and the largest block that may begin there (`max_order_from_offset`).
fn next_place(first: u64) -> (u64, PageOrder) {
    (first, PageOrder::new(first.trailing_zeros().min(PageOrder::P2M.get().into()) as u8))
}

/// Looks at all pages of a region (`collapse_scan_pmd`); `None` if nothing can be made of them.
fn look_at_region(limits: &Limits, space: &AddressSpace, cx: &mut Cx, start: u64) -> Option<Occupied> {
    if matches!(space.probe(cx.mem, VirtAddr::new(start)), Found::Leaf(leaf) if leaf.order >= PageOrder::P2M) {
        return None;
    }
    let mut occupied = Occupied([false; PAGES as usize]);
    let (mut looked, mut shared, mut referenced, mut why) = (0, 0, false, None);
    for (page, is_mapped) in (0..PAGES).zip(&mut occupied.0) {
        looked += 1;
        match space.page(cx.mem, &cx.memory.pages, VirtAddr::new(start + page * BASE_BYTES)) {
            Found::Leaf(leaf) if !cx.memory.is_zero(leaf.pfn) => {
                *is_mapped = true;
                referenced |= leaf.accessed;
                shared += u64::from(!cx.memory.pages.is_exclusive(leaf.pfn, leaf.order));
            }
            Found::Hole(hole) if page == 0 && hole >= PageOrder::P2M => {
                why = Some(Refusal::KhugepagedEmpty);
                break;
            }
            Found::Leaf(_) | Found::Hole(_) => {}
        }
        if limits.is_too_shared(shared) {
            why = Some(Refusal::KhugepagedShared);
            break;
        }
    }
    if why.is_none() && occupied.of(0, PageOrder::P2M) == 0 {
        why = Some(Refusal::KhugepagedNone);
    } else if why.is_none() && !referenced {
        why = Some(Refusal::KhugepagedIdle);
    }
    cx.work(WorkKind::EntryScan, looked);
    cx.counts.events.add(EventKind::KhugepagedScanned, looked);
    match why {
        None => Some(occupied),
        Some(why) => {
            cx.refuse(why, start);
            None
        }
    }
}

/// Copies the pages of the aligned `order` at an address into one block.
fn make_block(
    system: &mut SystemCx,
    compaction: &mut Compaction,
    defrag: bool,
    (slot, vma, at): (usize, &Vma, u64),
    order: PageOrder,
) -> Result<Made, KernelError> {
    let is_huge = order == PageOrder::P2M;
    if !is_huge {
        let (space, mut cx) = system.at(slot);
        match look_at_block(space, &cx, at, order) {
            Ok(true) => return Ok(Made::Before),
            Ok(false) => {}
            Err(why) => {
                cx.refuse(why, at);
                return Ok(Made::Refused);
            }
        }
    }
    if !free_block(system, compaction, order, defrag, at) {
        system.refuse(if is_huge { Refusal::ThpNoBlock } else { Refusal::MthpNoBlock }, at);
        return Ok(Made::NoBlock);
    }
    let (space, mut cx) = system.at(slot);
    let is_done =
        if is_huge { space.collapse(&mut cx, vma, at)? } else { space.collapse_to_block(&mut cx, vma, at, order)? };
    if !is_done {
        return Ok(Made::NoBlock);
    }
    let events = &mut system.shared.counts.events;
    events.add(EventKind::KhugepagedCollapse, 1);
    events.add(EventKind::KhugepagedMthp, u64::from(!is_huge));
    Ok(Made::Block)
}

/// Whether a page of the aligned `order` at an address lies in a block of that size already
/// (`__collapse_huge_page_isolate`).
///
/// # Errors
/// Why no such block should be made.
fn look_at_block(space: &AddressSpace, cx: &Cx, at: u64, order: PageOrder) -> Result<bool, Refusal> {
    let mut referenced = false;
    let pages = space.pages(cx.mem, &cx.memory.pages, at, at + order.bytes());
    for (_, page) in pages.filter(|(_, page)| !cx.memory.is_zero(page.pfn)) {
        if page.order >= order || cx.memory.pages.get(page.pfn).folio >= order.get() {
            return Ok(true);
        }
        if !cx.memory.pages.is_exclusive(page.pfn, page.order) {
            return Err(Refusal::KhugepagedShared);
        }
        referenced |= page.accessed;
    }
    if referenced { Ok(false) } else { Err(Refusal::KhugepagedIdle) }
}
