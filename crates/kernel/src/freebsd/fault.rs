//! Faults where nothing is mapped (`vm_fault` in sys/vm/vm_fault.c).

use crate::counts::FaultKind;
use crate::space::{Cx, Space};
use crate::spans::Span;
use crate::vma::{Back, Vma};
use crate::{Fault, FaultError, WorkKind};
use mmulab_addr::{Access, BASE_BYTES, PageOrder, VirtAddr};

impl Space {
    /// Maps something where nothing was.
    pub(crate) fn populate_freebsd(
        &mut self,
        cx: &mut Cx,
        span: &Span<Vma>,
        va: VirtAddr,
        access: Access,
    ) -> Result<Fault, FaultError> {
        let at = va.align_down(PageOrder::P4K).raw();
        let store = access == Access::Write;
        let mut fault = Fault::of(FaultKind::Anon, PageOrder::P4K);
        if self.put_back(cx, &span.value, at, store)? {
            fault.kind = FaultKind::Resident;
        } else if let Back::Object(..) = span.value.back {
            fault = self.show_object(cx, span, at, access)?;
        } else {
            // There is no zero page: a load gets a page as well, writable and clean.
            let pfn = self.own_page(cx, span, at)?;
            cx.work(WorkKind::ZeroBytes, BASE_BYTES);
            let leaf = Self::leaf(&span.value, pfn, PageOrder::P4K, span.value.prot, store);
            self.map(cx, at, leaf).inspect_err(|_| cx.memory.drop_mapping(pfn, PageOrder::P4K))?;
            self.mark_private(at);
        }
        if fault.order == PageOrder::P4K && self.promote(cx, at)? {
            fault.order = PageOrder::P2M;
        }
        Ok(fault)
    }
}
