//! Faults on private memory (`vm_fault` in sys/vm/vm_fault.c): where nothing is mapped, and stores to pages mapped
//! read-only.

use super::Freebsd;
use crate::manager::Manager;
use crate::parts::traits::{Demotion, Hole, Placement, Zeroing};
use crate::ranges::Span;
use crate::report::counts::FaultKind;
use crate::space::vma::{Back, Vma};
use crate::space::{AddressSpace, Cx};
use crate::{Fault, FaultError, WorkKind};
use mmulab_addr::{Access, PageOrder, Prot, VirtAddr};
use mmulab_pagetable::Leaf;

impl Freebsd {
    /// Maps something where nothing was.
    pub(super) fn map_hole(&self, space: &mut AddressSpace, cx: &mut Cx, hole: &Hole) -> Result<Fault, FaultError> {
        let (span, vma) = (hole.span, &hole.span.value);
        let at = hole.start(PageOrder::P4K);
        let store = hole.access == Access::Write;
        let mut fault = Fault::of(FaultKind::Anon, PageOrder::P4K);
        if Self::put_back(space, cx, vma, at, store)? {
            fault.kind = FaultKind::Resident;
        } else if let Back::Object(..) = vma.back {
            fault = self.show_object(space, cx, span, at, hole.access)?;
        } else {
            // There is no zero page: a load gets a page as well, writable and clean.
            let pfn = self.placement.base_page(space, cx, span, at)?;
            self.zeroing.zero(cx, pfn, PageOrder::P4K);
            space.map_new(cx, vma, at, pfn, PageOrder::P4K, store)?;
        }
        self.promoted(space, cx, vma, at, fault)
    }

    /// A store to a page mapped read-only.
    pub(super) fn write_protected(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        span: &Span<Vma>,
        va: VirtAddr,
        leaf: Leaf,
    ) -> Result<Fault, FaultError> {
        let vma = &span.value;
        let at = va.align_down(leaf.order).raw();
        if self.demotion.demoted(space, cx, at, leaf)? {
            return self.serve(space, cx, va, Access::Write);
        }
        if let Some(kind) = space.make_writable(cx, vma, at, &leaf) {
            return Ok(Fault::of(kind, leaf.order));
        }
        let new = self.placement.base_page(space, cx, span, at)?;
        cx.work(WorkKind::CopyBytes, leaf.order.bytes());
        space.replace(cx, vma, at, &leaf, new);
        Ok(Fault::of(FaultKind::Copy, leaf.order))
    }

    /// Puts back a page of the mapping's own that is in memory and was only taken out of the page table. `pmap_advise`
    /// takes one out of a superpage that it breaks.
    fn put_back(space: &mut AddressSpace, cx: &mut Cx, vma: &Vma, at: u64, store: bool) -> Result<bool, FaultError> {
        let vpn = VirtAddr::new(at).vpn();
        let Some(mut leaf) = space.hidden.remove(&vpn) else { return Ok(false) };
        leaf.prot = AddressSpace::rights(vma, &leaf, cx.memory);
        leaf.accessed = true;
        leaf.dirty |= store && leaf.prot.has(Prot::W);
        space.map(cx, at, leaf).inspect_err(|_| AddressSpace::release(cx, &leaf))?;
        Ok(true)
    }
}
