//! The part that says which pages text gets: code of programs and libraries, which Linux maps from files.
//!
//! ```text
//! first fetch from a mapping of text --> remap: whole 2M of it are copied onto huge pages of the process's own
//! text read into the page cache -------> folio: in blocks of this size; whole 2M of them are mapped by one entry
//! khugepaged meets text ---------------> khugepaged: the page cache's pages of 2M are copied into one block
//! ```
//!
//! Each stands for one way that Linux has. Which of them a system offers depends on its kernel, its file systems and
//! how the program was linked (`docs/concepts/kernel.md`, Text).

mod remap;

pub use remap::Remap;

use crate::KernelError;
use crate::space::vma::{Back, Vma};
use mmulab_addr::{Access, PageOrder, Prot};
use mmulab_pagetable::TableDesc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Text: private mappings of files that may be executed and not stored to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TextDesc {
    /// Which text a program copies onto huge pages of its own, mapping by mapping, when it first executes there:
    /// `none`, `whole` 2M of a mapping, or `padded`, also the rest behind them. Default `none`.
    pub remap: Remap,
    /// Whether these copies are made of pages of the pool, which the policy must have (kind `hugetlb`, 2M), rather than
    /// of transparent huge pages. Text that the pool has no page for stays where it is. Default `false`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pool: bool,
    /// The size of the blocks that text is read into: from 8K to 2M. Absent: base pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folio: Option<PageOrder>,
    /// Whether khugepaged, which the policy must have, copies text in the page cache into blocks of 2M
    /// (CONFIG_READ_ONLY_THP_FOR_FS). Default `false`.
    pub khugepaged: bool,
    /// Where these values come from.
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    pub assumed: BTreeMap<String, String>,
}

/// The part of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Text {
    remap: Remap,
    from_pool: bool,
    folio: Option<PageOrder>,
    /// Whether 2M of the page cache that lie in one block are mapped by one entry.
    maps_huge: bool,
}

impl Text {
    /// The part that a policy describes, on a page table, beside khugepaged if that runs, and with a pool of pages of
    /// this size, if there is one.
    ///
    /// # Errors
    /// Sizes that the page table or the page cache cannot have; a daemon that does not run; a pool that is not there.
    pub fn new(
        part: Option<&TextDesc>,
        table: &TableDesc,
        runs_khugepaged: bool,
        pool: Option<PageOrder>,
    ) -> Result<Self, KernelError> {
        let Some(part) = part else { return Ok(Self::default()) };
        let wrong = |key: &str, message: String| Err(KernelError::Description { key: format!("text.{key}"), message });
        let has_huge = table.has_leaf(PageOrder::P2M);
        let needs_huge = [("remap", part.remap != Remap::None), ("khugepaged", part.khugepaged)];
        if let Some((key, _)) = needs_huge.into_iter().find(|(_, is_on)| *is_on && !has_huge) {
            return wrong(key, "the machine's page table has no page of 2M: remove it".into());
        }
        if let Some(size) = part.folio.filter(|size| *size == PageOrder::P4K || *size > PageOrder::P2M) {
            return wrong("folio", format!("{size} is not between 8K and 2M: give such a size, or remove it"));
        }
        if part.khugepaged && !runs_khugepaged {
            return wrong(
                "khugepaged",
                "no khugepaged runs: add [thp.khugepaged] (kind linux-thp), or promotion.when = \"daemon\" with by = \
                 \"khugepaged\" (kind linux)"
                    .into(),
            );
        }
        if part.pool && part.remap == Remap::None {
            return wrong("pool", "no text is copied: give remap = \"whole\", or remove it".into());
        }
        if part.pool && pool != Some(PageOrder::P2M) {
            return wrong(
                "pool",
                "the policy has no pool of pages of 2M: add [hugetlb] with size = \"2M\" (kind hugetlb)".into(),
            );
        }
        let maps_huge = has_huge && (part.khugepaged || part.folio == Some(PageOrder::P2M));
        Ok(Self { remap: part.remap, from_pool: part.pool, folio: part.folio, maps_huge })
    }

    /// How a program moves the text of this mapping at this access; `None`: not, or it did already.
    #[inline]
    pub fn remap(self, vma: &Vma, access: Access) -> Option<Remap> {
        let moves = self.remap != Remap::None && access == Access::Fetch && is_text(vma) && !vma.text_moved;
        moves.then_some(self.remap)
    }

    /// Whether text moves onto pages of the pool.
    pub fn uses_pool(self) -> bool {
        self.from_pool
    }

    /// The blocks that a page of this mapping is read into.
    #[inline]
    pub fn folio(self, vma: &Vma) -> Option<PageOrder> {
        self.folio.filter(|_| is_text(vma))
    }

    /// Whether 2M of the page cache that lie in one block are mapped by one entry.
    #[inline]
    pub fn maps_huge(self) -> bool {
        self.maps_huge
    }
}

/// Whether a mapping is text (`file_thp_enabled` in mm/huge_memory.c asks for a file and VM_EXEC).
pub(crate) fn is_text(vma: &Vma) -> bool {
    matches!(vma.back, Back::Object(..)) && !vma.shared && vma.prot.has(Prot::X) && !vma.prot.has(Prot::W)
}
