//! Transparent huge pages between 4 KiB and 2 MiB (`alloc_anon_folio` in mm/memory.c).

use crate::counts::{FaultKind, Happening, Refusal};
use crate::policy::Policy;
use crate::space::{Cx, Space};
use crate::spans::Span;
use crate::vma::Vma;
use crate::{Fault, FaultError, Told, WorkKind};
use mmulab_addr::{Access, BASE_BYTES, PageOrder, Pfn, Prot, VirtAddr};

impl Space {
    /// A block of the largest size that is enabled, fits, is empty and can be had, as base pages; nothing if there is
    /// none.
    pub(crate) fn map_medium(
        &mut self,
        cx: &mut Cx,
        span: &Span<Vma>,
        va: VirtAddr,
        access: Access,
    ) -> Result<Option<Fault>, FaultError> {
        let (vma, Policy::Thp(thp)) = (&span.value, cx.policy) else { return Ok(None) };
        // A load of untouched memory maps the zero page, a base page at a time.
        if !vma.is_anon() || (access != Access::Write && cx.linux.zero_page) {
            return Ok(None);
        }
        let mut refused = None;
        for order in thp.medium().filter(|&o| thp.allows(o, vma.advice)) {
            let start = va.align_down(order).raw();
            let why = if start < span.start || span.end - start < order.bytes() {
                Refusal::MthpOutsideVma
            } else if self.next_leaf(cx.mem, start, start + order.bytes()).is_some() {
                Refusal::MthpPopulated
            } else if let Some(pfn) = cx.memory.take_anon(order) {
                self.map_block(cx, vma, start, pfn, order)?;
                return Ok(Some(Fault::of(FaultKind::Anon, PageOrder::P4K)));
            } else {
                Refusal::MthpNoBlock
            };
            refused.get_or_insert(why);
        }
        if let Some(why) = refused {
            cx.refuse(why, va.raw());
        }
        Ok(None)
    }

    /// Maps a block as base pages, each counted by itself from now on. If it may be stored to, all are dirty, as
    /// `do_anonymous_page` makes them.
    fn map_block(&mut self, cx: &mut Cx, vma: &Vma, start: u64, pfn: Pfn, order: PageOrder) -> Result<(), FaultError> {
        cx.work(WorkKind::ZeroBytes, order.bytes());
        cx.memory.pages.break_up(pfn, order);
        for i in 0..order.base_pages() {
            let leaf = Self::leaf(vma, Pfn(pfn.0 + i), PageOrder::P4K, vma.prot, vma.prot.has(Prot::W));
            self.map(cx, start + i * BASE_BYTES, leaf).inspect_err(|_| {
                (i..order.base_pages()).for_each(|rest| cx.memory.drop_mapping(Pfn(pfn.0 + rest), PageOrder::P4K));
            })?;
        }
        self.mark_private(start);
        cx.counts.happenings.add(Happening::MthpFault, 1);
        cx.counts.happenings.add(Happening::MthpPages, order.base_pages());
        cx.tell(|| Told::Block { va: VirtAddr::new(start), size: order, pfn });
        Ok(())
    }
}
