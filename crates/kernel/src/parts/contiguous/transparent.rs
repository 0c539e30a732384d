//! Contiguous bit *transparent*: the kernel sets it wherever sixteen entries qualify, however their pages came there
//! (paper 3, Elastic Translations, section IV-A and Figure 4).
//!
//! ```text
//! entry        0      1      2            15
//! page       v      v+1    v+2    ...   v+15      v a multiple of 16
//! frame      p      p+1    p+2    ...   p+15      p a multiple of 16: so PFN mod 16 = VPN mod 16 for each
//! rights     equal for all, user and global too, and all pages of the process's own or all of the page cache
//! A, D       may differ: the entries get the OR of each
//! ```
//!
//! The paper asks for "compatible page flags and access permissions" and does not list the flags. Linux from 6.9 on
//! compares entries with A and D clear, and writes the OR of each to all (`__contpte_try_fold` and `contpte_convert` in
//! arch/arm64/mm/contpte.c); so does this part. Hardware may set A or D in any of the entries (section V-B), so that
//! the OR is all that a kernel can know of a range anyway.

use crate::memory::Memory;
use crate::parts::bit::{ContiguousBit, Sixteen};
use crate::parts::part::{Part, Wrong};
use crate::report::counts::Refusal;
use mmulab_addr::{BASE_SHIFT, PageOrder, Pfn};
use mmulab_pagetable::Leaf;

/// The bit is set wherever sixteen entries qualify.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transparent;

impl Part for Transparent {
    const NAME: &'static str = "transparent";
    const ABOUT: &'static str = "In any sixteen neighbouring entries whose pages lie together, aligned and with equal \
         rights: 64K out of base pages, and 32M out of pages of 2M where the page table has such pages. Elastic \
         Translations.";

    fn new(_: &()) -> Result<Self, Wrong> {
        Ok(Self)
    }
}

impl ContiguousBit for Transparent {
    fn looks_at(&self, _: PageOrder) -> bool {
        true
    }

    fn joined(&self, entries: &Sixteen, memory: &Memory) -> Result<Option<Leaf>, Refusal> {
        let Sixteen { range, leaves } = entries;
        let head = leaves[0];
        // One frame for many pages. The paper does not name them; they could follow no frame in any case.
        if leaves.iter().any(|leaf| memory.is_zero(leaf.pfn)) {
            return Err(Refusal::ContiguousZeroPage);
        }
        if head.pfn.align_down(*range) != head.pfn {
            return Err(Refusal::ContiguousMisaligned);
        }
        let pages = 1 << (head.order.shift() - BASE_SHIFT);
        if (0..).zip(leaves).any(|(i, leaf)| leaf.pfn != Pfn(head.pfn.0 + i * pages)) {
            return Err(Refusal::ContiguousScattered);
        }
        let flags = |leaf: &Leaf| (leaf.prot, leaf.user, leaf.global, memory.pages.get(leaf.pfn).used);
        if leaves.iter().any(|leaf| flags(leaf) != flags(&head)) {
            return Err(Refusal::ContiguousMixed);
        }
        let (accessed, dirty) = (leaves.iter().any(|leaf| leaf.accessed), leaves.iter().any(|leaf| leaf.dirty));
        Ok(Some(Leaf { order: *range, accessed, dirty, ..head }))
    }
}
