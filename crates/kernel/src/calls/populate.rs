//! MAP_POPULATE and MADV_POPULATE: pages faulted in before they are touched.

use crate::manager::Manager;
use crate::space::range::PageRange;
use crate::space::{AddressSpace, Cx, Found};
use crate::{FaultError, Note};
use mmulab_addr::{Access, BASE_BYTES, PageOrder, Prot, VirtAddr, VirtRange};
use mmulab_pagetable::Leaf;

/// Faults all pages of a new mapping in (`populate_vma_page_range`): for stores, if it is private and may be stored
/// to.
pub(super) fn fill(
    manager: &impl Manager,
    space: &mut AddressSpace,
    cx: &mut Cx,
    pages: PageRange,
) -> Result<(), FaultError> {
    let Some(span) = space.vmas.find(pages.start) else { return Ok(()) };
    let vma = &span.value;
    if vma.prot == Prot::NONE {
        return Ok(());
    }
    let access = if vma.prot.has(Prot::W) && !vma.shared { Access::Write } else { Access::Read };
    let mut at = pages.start;
    while at < pages.end && !cx.memory.stop.is_asked() {
        let step = match space.probe(cx.mem, VirtAddr::new(at)) {
            Found::Leaf(leaf) => leaf.order,
            Found::Hole(_) => {
                let fault = manager.serve(space, cx, VirtAddr::new(at), access)?;
                if fault.stores_page() {
                    stored_to(&mut cx.effects.populated, VirtAddr::new(at).align_down(fault.order), fault.order);
                }
                fault.order
            }
        };
        at = (at & !(step.bytes() - 1)) + step.bytes();
    }
    if access == Access::Write && manager.wants_stores() {
        // Populated memory stands for memory that was filled before the trace began: it is not empty.
        space.stored.add((pages.start..at.min(pages.end)).step_by(BASE_BYTES as usize).map(VirtAddr::new));
    }
    if cx.effects.narrate {
        tell_populated(space, cx, pages);
    }
    Ok(())
}

/// Adds a page to the runs that the kernel stored to.
fn stored_to(runs: &mut Vec<VirtRange>, page: VirtAddr, order: PageOrder) {
    let page = VirtRange::sized(page, order.bytes());
    match runs.last_mut() {
        Some(run) if run.end == page.start => run.end = page.end,
        _ => runs.push(page),
    }
}

/// Reports where the pages of a new mapping lie, a run of frames at a time.
fn tell_populated(space: &AddressSpace, cx: &mut Cx, pages: PageRange) {
    let mut run: Option<(u64, Leaf, u64)> = None;
    let mut at = pages.start;
    while let Some((va, leaf)) = space.next_leaf(cx.mem, at, pages.end) {
        at = va + leaf.order.bytes();
        match &mut run {
            Some((first, of, count))
                if (of.order, of.prot) == (leaf.order, leaf.prot)
                    && va == *first + *count * leaf.order.bytes()
                    && leaf.pfn.0 == of.pfn.0 + *count * leaf.order.base_pages() =>
            {
                *count += 1;
            }
            _ => {
                if let Some(done) = run.replace((va, leaf, 1)) {
                    tell_run(cx, done);
                }
            }
        }
    }
    if let Some(done) = run {
        tell_run(cx, done);
    }
}

fn tell_run(cx: &mut Cx, (va, leaf, pages): (u64, Leaf, u64)) {
    let Leaf { order: size, pfn, prot, .. } = leaf;
    cx.tell(|| Note::Populated { va: VirtAddr::new(va), size, pages, pfn, prot });
}
