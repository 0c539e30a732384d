//! The contract of the contiguous bit: what a part is asked about sixteen neighbouring entries, and what it may answer.
//! It knows entries and pages, but no address space: `space/fold.rs` finds the entries and writes the bit.

use crate::memory::Memory;
use crate::report::counts::Refusal;
use mmulab_addr::PageOrder;
use mmulab_pagetable::Leaf;

/// Log2 of the entries that share a contiguous bit: 16 on Armv8 with 4 KiB granule (Arm ARM, D8.7.1) and with Svnapot.
pub(crate) const GROUP: u8 = 4;
/// How many they are.
pub(crate) const ENTRIES: usize = 1 << GROUP;

/// Sixteen neighbouring entries, all of which map pages of one size.
pub(crate) struct Sixteen {
    /// The size of all of them together.
    pub range: PageOrder,
    /// Their leaves, from the aligned address of the range on.
    pub leaves: [Leaf; ENTRIES],
}

/// The part that decides where the contiguous bit is set.
#[diagnostic::on_unimplemented(
    message = "`{Self}` lies in parts/contiguous, but does not do what such a part does",
    label = "write `impl ContiguousBit for {Self}`"
)]
pub(crate) trait ContiguousBit {
    /// Whether it may set the bit in entries of pages of this size.
    fn looks_at(&self, page: PageOrder) -> bool;

    /// The page that hardware may take sixteen entries for; none, if the part does not look at them.
    ///
    /// # Errors
    /// Why the bit stays clear.
    fn joined(&self, entries: &Sixteen, memory: &Memory) -> Result<Option<Leaf>, Refusal>;
}
