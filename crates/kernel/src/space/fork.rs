//! Address spaces copied for children.

use super::vma::Vma;
use super::{AddressSpace, Cx, Gather};
use crate::FaultError;
use mmulab_addr::{PageOrder, Prot};
use mmulab_pagetable::Leaf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Of which mappings fork copies the page table's entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum ForkCopies {
    /// Those with pages of their own. What shows files or shared memory alone is faulted in again. This is Linux's rule
    /// (`vma_needs_copy` in mm/memory.c).
    #[default]
    #[serde(rename = "private")]
    Private,
    /// All, as FreeBSD does (`vmspace_fork` and `vm_map_copy_entry` in sys/vm/vm_map.c, `pmap_copy` in
    /// sys/amd64/amd64/pmap.c). Copies of base pages' entries lose A and D, copies of superpages' only A.
    #[serde(rename = "all")]
    All,
}

impl ForkCopies {
    /// Whether the entries of a mapping are copied. Linux's rule holds for hugetlb memory and for the kernel's half.
    fn takes(self, vma: &Vma) -> bool {
        vma.has_private || (self == Self::All && vma.hugetlb.is_none() && !vma.global)
    }

    /// The child's entry for a page.
    fn aged(self, page: Leaf, base: PageOrder) -> Leaf {
        let keeps_dirty = self == Self::Private || page.order > base;
        Leaf { accessed: false, dirty: page.dirty && keeps_dirty, ..page }
    }
}

impl AddressSpace {
    /// Copies this address space for a child (`dup_mmap` in kernel/fork.c, `copy_page_range` in mm/memory.c).
    ///
    /// Private pages lose their right to be stored to in both, so that the first store copies. Page tables that the
    /// parent shares with others are shared with the child, too.
    pub(crate) fn copy_to(
        &mut self,
        cx: &mut Cx,
        child: &mut AddressSpace,
        copies: ForkCopies,
    ) -> Result<(), FaultError> {
        child.vmas = self.vmas.clone();
        child.table.inherit(&self.table);
        for object in self.anon_objects() {
            cx.memory.objects.share(object);
        }
        child.heap = self.heap;
        child.hints = self.hints.clone();
        child.is_switched_on |= self.is_switched_on;
        child.stored = self.stored.clone();
        child.paddings = self.paddings.clone();
        child.places = self.places.clone();
        for place in child.places.iter() {
            cx.regions.lay(place.value.0, place.end - place.start);
        }
        child.is_counted = self.is_counted;
        if child.is_counted {
            cx.regions.runs(child.program, child.pid);
        }
        child.inherit_tables(cx, self)?;
        let mut protected = false;
        let copied: Vec<_> = self.vmas.iter().filter(|s| copies.takes(&s.value)).cloned().collect();
        for span in copied {
            let mut at = span.start;
            while let Some((va, leaf)) = self.next_leaf(cx.mem, at, span.end) {
                if cx.memory.stop.is_asked() {
                    break;
                }
                if let Some(end) = child.shared_until(va) {
                    at = end;
                    continue;
                }
                // Files and shared memory can be faulted in later (`pmap_copy` is only advisory); private pages cannot.
                if !span.value.has_private && !child.has_room_for_tables(cx) {
                    break;
                }
                let copy = AddressSpace::shared_copy(leaf, span.value.shared);
                if copy.prot != leaf.prot {
                    self.set(cx, va, copy, &mut Gather::default());
                    protected = true;
                }
                // Pages before `at` may have been folded with this one since they were copied.
                let pages = self.pages_of(&cx.memory.pages, va, copies.aged(copy, cx.memory.base));
                let left = |page: &Leaf, va: u64| page.order == leaf.order || (at..span.end).contains(&va);
                for (va, page) in pages.filter(|(va, page)| left(page, *va)) {
                    cx.memory.share(page.pfn, page.order);
                    child.map(cx, va, page).inspect_err(|_| cx.memory.drop_mapping(page.pfn, page.order))?;
                }
                at = va + leaf.order.bytes();
            }
        }
        for (&vpn, leaf) in &mut self.hidden {
            let Some(span) = self.vmas.find(vpn.addr().raw()).filter(|s| s.value.has_private) else { continue };
            *leaf = AddressSpace::shared_copy(*leaf, span.value.shared);
            cx.memory.share(leaf.pfn, leaf.order);
            child.hidden.insert(vpn, *leaf);
        }
        // `dup_mmap` flushes the parent's address space once, at its end.
        let mut gather = Gather::default();
        if protected {
            gather.note_all();
        }
        self.finish(cx, gather);
        Ok(())
    }

    fn shared_copy(leaf: Leaf, shared: bool) -> Leaf {
        if shared { leaf } else { Leaf { prot: leaf.prot.without(Prot::W), ..leaf } }
    }
}
