//! Promotion in place: base pages whose frames lie together become one large page, and stay where they are.

use super::{AddressSpace, Cx, Found, Gather};
use crate::report::counts::Happening;
use crate::{FaultError, Told};
use mmulab_addr::{BASE_BYTES, PageOrder, VirtAddr};
use mmulab_pagetable::Leaf;

impl AddressSpace {
    /// Puts the superpage in the place of its base pages, whose frames and users stay what they are.
    pub(crate) fn join(&mut self, cx: &mut Cx, start: u64, whole: Leaf) -> Result<(), FaultError> {
        let mut gather = Gather::default();
        for i in 0..whole.order.base_pages() {
            let va = start + i * BASE_BYTES;
            if matches!(self.probe(cx.mem, VirtAddr::new(va)), Found::Leaf(_)) {
                let vpn = VirtAddr::new(va).vpn();
                let (_, flush) = self.table.unmap(cx.mem, cx.memory, vpn, PageOrder::P4K);
                gather.take(flush);
                self.count_out(cx, va, PageOrder::P4K, false);
            }
        }
        // The table of base pages is freed, so nothing may point to it.
        gather.note(start, whole.order);
        self.finish(cx, gather);
        self.map(cx, start, whole).inspect_err(|_| Self::release(cx, &whole))?;
        cx.counts.happenings.add(Happening::Promotion, 1);
        cx.tell(|| Told::Promoted { va: VirtAddr::new(start), size: whole.order, pfn: whole.pfn });
        Ok(())
    }
}
