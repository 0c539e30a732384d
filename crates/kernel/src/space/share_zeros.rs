//! The shared zero page in the place of base pages that hold zeros only: how a policy gives their frames back.

use super::vma::Vma;
use super::{AddressSpace, Cx, Found, Gather};
use crate::FaultError;
use mmulab_addr::{PageOrder, Prot, VirtAddr};
use mmulab_pagetable::Leaf;

impl AddressSpace {
    /// Takes the huge page at `va` apart and maps the zero page in the place of its base pages `zeros`, whose frames
    /// it gives back. A store to one of them takes a frame again.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub(crate) fn share_zeros(&mut self, cx: &mut Cx, vma: &Vma, va: u64, zeros: &[u64]) -> Result<(), FaultError> {
        while let Found::Leaf(leaf) = self.probe(cx.mem, VirtAddr::new(va))
            && leaf.order >= PageOrder::P2M
        {
            self.split(cx, VirtAddr::new(va).align_down(leaf.order).raw(), leaf)?;
        }
        let mut gather = Gather::default();
        for &at in zeros {
            let Found::Leaf(leaf) = self.probe(cx.mem, VirtAddr::new(at)) else {
                unreachable!("a huge page that was split still maps all of its base pages")
            };
            // The contiguous bit may have joined sixteen of the base pages.
            let leaf = self.alone(cx, VirtAddr::new(at), leaf)?;
            self.count_out(cx, at, leaf.order, false);
            self.count_in(cx, at, leaf.order, true);
            let zero = Self::leaf(vma, cx.memory.zero, leaf.order, vma.prot.without(Prot::W), false);
            self.set(cx, at, Leaf { accessed: false, ..zero }, &mut gather);
            Self::release(cx, &leaf);
        }
        self.finish(cx, gather);
        Ok(())
    }
}
