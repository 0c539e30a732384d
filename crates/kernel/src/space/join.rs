//! Promotion in place: base pages whose frames lie together become one large page, and stay where they are.

use super::range::PageRange;
use super::{AddressSpace, Cx, Gather};
use crate::report::counts::EventKind;
use crate::{FaultError, Note};
use mmulab_addr::VirtAddr;
use mmulab_pagetable::Leaf;

impl AddressSpace {
    /// Puts the superpage in the place of its base pages, whose frames and users stay what they are.
    pub(crate) fn join(&mut self, cx: &mut Cx, start: u64, whole: Leaf) -> Result<(), FaultError> {
        self.own_tables(cx, PageRange { start, end: start + whole.order.bytes() })?;
        let mut gather = Gather::default();
        // Base pages, or sixteen of them that translate as one.
        let leaves: Vec<_> = self.leaves(cx.mem, start, start + whole.order.bytes()).collect();
        for (va, leaf) in leaves {
            let (_, flush) = self.table.unmap(cx.mem, cx.memory, VirtAddr::new(va).vpn(), leaf.order);
            gather.take(flush);
            self.count_out(cx, va, leaf.order, false);
        }
        // The table of base pages is freed, so nothing may point to it.
        gather.note(start, whole.order);
        self.finish(cx, gather);
        self.map(cx, start, whole).inspect_err(|_| Self::release(cx, &whole))?;
        cx.counts.events.add(EventKind::Promotion, 1);
        cx.tell(|| Note::Promoted { va: VirtAddr::new(start), size: whole.order, pfn: whole.pfn });
        Ok(())
    }
}
