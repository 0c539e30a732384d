//! Where the frames of a table lie: in memory at their own addresses, or, in a guest, wherever the host has put them.

use crate::{Caches, StepRecord};
use mmulab_addr::{Access, PageOrder, PhysAddr, VirtAddr};
use mmulab_pagetable::Walked;
use std::convert::Infallible;

/// Where the entries and pages of a table are.
pub trait Below {
    /// Whether that has to be found out.
    const NESTED: bool;
    /// Why it could not be.
    type Refusal;

    /// Where the entry at `entry` lies, and the size of the page it lies in; the time it took to know is added to
    /// `cycles`.
    ///
    /// # Errors
    /// It lies nowhere yet.
    fn place(
        &mut self,
        caches: &mut Caches,
        entry: PhysAddr,
        cycles: &mut u32,
    ) -> Result<(PhysAddr, PageOrder), Self::Refusal>;

    /// What a finished walk hands to the TLBs, going on from what the table said.
    ///
    /// # Errors
    /// The page lies nowhere yet.
    fn complete(
        &mut self,
        caches: &mut Caches,
        walked: Walked,
        va: VirtAddr,
        access: Access,
        cycles: &mut u32,
    ) -> Result<Walked, Self::Refusal>;

    /// A walk cache, cache or memory supplied an entry of the table.
    fn note(&mut self, record: &StepRecord);
}

/// A table outside virtual machines: its addresses are those of memory.
pub struct Flat;

impl Below for Flat {
    const NESTED: bool = false;
    type Refusal = Infallible;

    #[inline(always)]
    fn place(&mut self, _: &mut Caches, entry: PhysAddr, _: &mut u32) -> Result<(PhysAddr, PageOrder), Infallible> {
        Ok((entry, PageOrder::P4K))
    }

    #[inline(always)]
    fn complete(
        &mut self,
        _: &mut Caches,
        walked: Walked,
        _: VirtAddr,
        _: Access,
        _: &mut u32,
    ) -> Result<Walked, Infallible> {
        Ok(walked)
    }

    #[inline(always)]
    fn note(&mut self, _: &StepRecord) {}
}
