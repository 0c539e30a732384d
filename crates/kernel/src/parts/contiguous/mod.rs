//! The parts that set the contiguous bit, a file each. The list of the files makes the key of policy files, its text in
//! the schema and the enum of a run's part (`parts/list.rs`).

use crate::memory::Memory;
use crate::parts::bit::{ContiguousBit, GROUP, Sixteen};
use crate::parts::list::kind;
use crate::parts::part::Wrong;
use crate::report::counts::Refusal;
use mmulab_addr::PageOrder;
use mmulab_pagetable::{Leaf, TableDesc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

include!(concat!(env!("OUT_DIR"), "/contiguous.rs"));

with_parts!(kind! {
    /// Where the kernel sets the contiguous bit.
    ContiguousKind: Unused;
    /// The part that sets the contiguous bit in a run.
    #[derive(Clone, Copy, Debug)]
    ContiguousBits: ();
});

impl ContiguousBit for ContiguousBits {
    #[inline]
    fn looks_at(&self, page: PageOrder) -> bool {
        each!(self, part => part.looks_at(page))
    }

    fn joined(&self, entries: &Sixteen, memory: &Memory) -> Result<Option<Leaf>, Refusal> {
        each!(self, part => part.joined(entries, memory))
    }
}

/// The contiguous bit of page-table entries, for machines whose tables have one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ContiguousDesc {
    /// Where the kernel sets it: `none`, `transparent` or `folio`. Default `none`.
    pub bit: ContiguousKind,
    /// Where these values come from.
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    pub assumed: BTreeMap<String, String>,
}

/// The part of a run, and the sizes that its page table has for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contiguous {
    bit: ContiguousBits,
    has_32m: bool,
}

impl Default for Contiguous {
    /// The bit is set nowhere.
    fn default() -> Self {
        Self { bit: ContiguousBits::Unused(unused::Unused), has_32m: false }
    }
}

impl Contiguous {
    /// The part `kind` on a page table.
    ///
    /// # Errors
    /// The part cannot be made.
    pub fn new(kind: ContiguousKind, table: &TableDesc) -> Result<Self, Wrong> {
        let bit = ContiguousBits::new(kind, &())?;
        Ok(Self { bit, has_32m: table.has_leaf(PageOrder::P32M) })
    }

    /// The size of the range that sixteen pages of `page` fill, if their entries may share the bit.
    #[inline]
    pub fn range_of(self, page: PageOrder) -> Option<PageOrder> {
        let has_bit = match page {
            PageOrder::P4K => true,
            PageOrder::P2M => self.has_32m,
            _ => false,
        };
        (has_bit && self.bit.looks_at(page)).then(|| PageOrder::new(page.get() + GROUP))
    }

    /// The size of the sixteen pages that fill a range of this size.
    #[inline]
    pub fn page_of(self, range: PageOrder) -> Option<PageOrder> {
        let page = PageOrder::new(range.get().checked_sub(GROUP)?);
        self.range_of(page).map(|_| page)
    }

    /// See [`ContiguousBit::joined`].
    ///
    /// # Errors
    /// Why the bit stays clear.
    pub fn joined(self, entries: &Sixteen, memory: &Memory) -> Result<Option<Leaf>, Refusal> {
        self.bit.joined(entries, memory)
    }
}
