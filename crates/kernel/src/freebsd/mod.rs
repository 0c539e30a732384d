//! FreeBSD's memory manager: objects, reservations, clustered faults and superpage promotion.
//!
//! Sources: sys/vm/vm_reserv.c, sys/vm/vm_fault.c, sys/vm/vm_object.c and sys/amd64/amd64/pmap.c of FreeBSD 14, and
//! Solomon, Zhou and Cox, "An Empirical Evaluation of PTE Coalescing" (paper 1), section 2.2. What is modelled of them,
//! and what is not, is written down in `docs/concepts/freebsd.md`.

mod advise;
mod desc;
mod fault;
mod file;
mod objects;
mod pages;
mod promote;
mod reserv;

pub use desc::FreebsdDesc;
pub use objects::{Anon, Objects};
pub use reserv::{Place, Reservations};

use crate::KernelError;
use mmulab_addr::PageOrder;

/// Orders of reservations may be no larger than a block of the allocator (`VM_NFREEORDER` - 1).
const LEVEL_MAX: PageOrder = PageOrder::new(12);

/// The policy of a run under FreeBSD.
#[derive(Clone, Debug)]
pub struct Freebsd {
    desc: FreebsdDesc,
    /// Whether the page table can map 2 MiB in one entry: else contiguity is all that reservations give.
    has_superpages: bool,
}

impl Freebsd {
    /// The policy described, on a page table that has leaves of 2 MiB or has not.
    ///
    /// # Errors
    /// Values out of range, or reservations that cannot be.
    pub fn new(desc: &FreebsdDesc, has_superpages: bool, memory_bytes: u64) -> Result<Self, KernelError> {
        let wrong =
            |key: &str, message: String| Err(KernelError::Description { key: format!("freebsd.{key}"), message });
        if desc.promotion && desc.levels.is_empty() {
            return wrong(
                "levels",
                "promotion needs reservations: give levels = [\"2M\"], or promotion = false".into(),
            );
        }
        for (i, &level) in desc.levels.iter().enumerate() {
            if level == PageOrder::P4K || level > LEVEL_MAX {
                return wrong(
                    "levels",
                    format!("a reservation of {level} cannot be: give sizes from 8K to {LEVEL_MAX}"),
                );
            }
            if level.bytes() > memory_bytes / 2 {
                return wrong(
                    "levels",
                    format!("a reservation of {level} is more than half of memory: give a smaller one"),
                );
            }
            if desc.levels[..i].contains(&level) {
                return wrong("levels", format!("{level} is given twice"));
            }
        }
        if desc.promotion && !desc.levels.iter().any(|&l| l >= PageOrder::P2M) {
            return wrong(
                "promotion",
                "pages of 2M are promoted, which no level is large enough for: add \"2M\"".into(),
            );
        }
        if !(1..=PageOrder::P2M.base_pages() as u32).contains(&desc.promotion_threshold) {
            return wrong("promotion_threshold", format!("{} is not between 1 and 512", desc.promotion_threshold));
        }
        if !desc.cluster.0.is_power_of_two() || !(4096..=PageOrder::P2M.bytes()).contains(&desc.cluster.0) {
            return wrong("cluster", "must be a power of two from 4K to 2M".into());
        }
        if !(1..=512).contains(&desc.bucket) {
            return wrong("bucket", format!("{} is not between 1 and 512", desc.bucket));
        }
        Ok(Self { desc: desc.clone(), has_superpages })
    }

    /// Its parameters.
    pub fn desc(&self) -> &FreebsdDesc {
        &self.desc
    }

    /// Whether base pages are promoted.
    pub fn promotes(&self) -> bool {
        self.desc.promotion && self.has_superpages
    }
}
