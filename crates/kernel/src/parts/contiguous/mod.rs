//! The parts that set the contiguous bit, a file each, and the one list of them: it makes the key of policy files, the
//! schema, and the dispatch.

pub(crate) mod bit;
mod folio;
mod transparent;
mod unused;

use crate::memory::Memory;
use crate::report::counts::Refusal;
use bit::{ContiguousBit, GROUP, Sixteen};
use mmulab_addr::PageOrder;
use mmulab_pagetable::{Leaf, TableDesc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Makes the enum of the parts out of a list: variant, name in policy files, module.
macro_rules! contiguous_bits {
    ($($(#[$about:meta])* $part:ident = $name:literal in $module:ident,)*) => {
        /// Where the kernel sets the contiguous bit.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        pub enum ContiguousKind {
            $($(#[$about])* #[serde(rename = $name)] $part,)*
        }

        impl ContiguousBit for ContiguousKind {
            #[inline]
            fn looks_at(&self, page: PageOrder) -> bool {
                match self { $(Self::$part => $module::$part.looks_at(page)),* }
            }

            fn joined(&self, entries: &Sixteen, memory: &Memory) -> Result<Option<Leaf>, Refusal> {
                match self { $(Self::$part => $module::$part.joined(entries, memory)),* }
            }
        }
    };
}

contiguous_bits! {
    /// Nowhere: each entry is a translation of its own.
    #[default]
    Unused = "none" in unused,
    /// In any sixteen neighbouring entries whose pages lie together, aligned and with equal rights: 64K out of base
    /// pages, and 32M out of pages of 2M where the page table has such pages. Elastic Translations.
    Transparent = "transparent" in transparent,
    /// The same of base pages alone, and only if they were allocated together, in a block of 64K or more: what Linux
    /// does since 6.9, for the blocks of mTHP.
    Folio = "folio" in folio,
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
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Contiguous {
    kind: ContiguousKind,
    has_32m: bool,
}

impl Contiguous {
    /// The part `kind` on a page table.
    pub fn new(kind: ContiguousKind, table: &TableDesc) -> Self {
        Self { kind, has_32m: table.has_leaf(PageOrder::P32M) }
    }

    /// The size of the range that sixteen pages of `page` fill, if their entries may share the bit.
    #[inline]
    pub fn range_of(self, page: PageOrder) -> Option<PageOrder> {
        let has_bit = match page {
            PageOrder::P4K => true,
            PageOrder::P2M => self.has_32m,
            _ => false,
        };
        (has_bit && self.kind.looks_at(page)).then(|| PageOrder::new(page.get() + GROUP))
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
        self.kind.joined(entries, memory)
    }
}
