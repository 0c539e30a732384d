//! The kernel's half of an address space: what every process maps alike, by global entries.
//!
//! ```text
//!   0x0000...   user     each process's own mappings
//!   0xffff8...  kernel   text, data, and all of memory once more (the direct map): pages of 2 MiB, since boot
//! ```
//!
//! Linux maps them in arch/x86/kernel/head_64.S (`level2_kernel_pgt`) and arch/x86/mm/init.c (`init_memory_mapping`),
//! FreeBSD in sys/amd64/amd64/pmap.c (`create_pagetables`). A trace shows the kernel's half as one mapping of a file.
//! Its pages are found there from the first reference on, by 2 MiB as they lie; nothing is read for them.

use super::{AddressSpace, Cx};
use crate::parts::traits::Hole;
use crate::report::counts::FaultKind;
use crate::space::vma::Back;
use crate::{Fault, FaultError};
use mmulab_addr::{BASE_SHIFT, Prot};

impl AddressSpace {
    /// Maps the kernel's memory around a hole by one entry. `None`: base pages are left, because the policy says so,
    /// because the mapping is not the kernel's or too short, or because no such block is free.
    pub fn map_kernel(&mut self, cx: &mut Cx, hole: &Hole) -> Result<Option<Fault>, FaultError> {
        let (span, vma, size) = (hole.span, &hole.span.value, cx.limits.kernel_page);
        let Back::Object(id, first) = vma.back else { return Ok(None) };
        if !vma.global || size == cx.memory.base || hole.room < size || !hole.fits(size) {
            return Ok(None);
        }
        let start = hole.start(size);
        let page = first + ((start - span.start) >> BASE_SHIFT);
        let is_there = |cx: &Cx| (page..page + size.base_pages()).any(|page| cx.memory.cache.get(id, page).is_some());
        let head = match cx.memory.whole_block(id, page, size) {
            Some(head) => head,
            None if is_there(cx) => return Ok(None),
            None => match cx.memory.take_cached_block(id, page, size) {
                Some(head) => head,
                None => return Ok(None),
            },
        };
        cx.memory.share(head, size);
        // A and D are set since boot, where stores are allowed (PAGE_KERNEL in arch/x86/include/asm/pgtable_types.h).
        let leaf = Self::leaf(vma, head, size, vma.prot, vma.prot.has(Prot::W));
        self.map(cx, start, leaf).inspect_err(|_| cx.memory.drop_mapping(head, size))?;
        Ok(Some(Fault::of(FaultKind::FileCached, size)))
    }
}
