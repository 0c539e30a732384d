//! Which parts of code are in memory: for each 2 MiB of a file that mappings of code show, the clusters of 64 KiB that
//! the page cache holds. A threshold of clusters decides over superpages of code (paper 2, Figure 1).
//!
//! ```text
//!   file      | 2 MiB                          | 2 MiB                          |
//!   clusters  |##..####..#.....................|################################|   # any page of it is in memory
//!   window     10 of 32                         32 of 32: FreeBSD promotes it
//! ```

use crate::Kernel;
use crate::report::region::{Region, RegionKind};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Prot};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The unit by which code may be mapped as a whole.
const WINDOW: PageOrder = PageOrder::P2M;
/// Pages of a cluster: what FreeBSD reads at a fault, 64 KiB.
const CLUSTER: u64 = 16;

/// 2 MiB of a file of which mappings of code show a part: aligned in the address space.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct CodeWindow {
    /// The file.
    pub file: Arc<str>,
    /// Where the window begins in the file, in bytes; negative if the file begins within the window.
    pub offset: i64,
    /// Pages of the window that mappings of code show: 512, or fewer at the ends of code (its residual region).
    pub mapped_pages: u64,
    /// Clusters of 64 KiB, of 32, of which any page is in memory.
    pub clusters: u64,
    /// Pages in memory.
    pub pages: u64,
    /// Whether all its pages are in memory, in one aligned block, so that one page-table entry can map them.
    pub is_whole: bool,
}

impl Kernel {
    /// All code that was mapped so far, by file and place there.
    pub fn code_residency(&self) -> Vec<CodeWindow> {
        let mut shown: BTreeMap<(Arc<str>, i64), u64> = BTreeMap::new();
        for region in self.regions() {
            let Some(file) = code_file(region) else { continue };
            let (start, end) = (region.start.raw(), region.end.raw());
            let mut at = region.start.align_down(WINDOW).raw();
            while at < end {
                let next = at.saturating_add(WINDOW.bytes());
                let offset = region.offset as i64 - start.wrapping_sub(at) as i64;
                let pages = (end.min(next) - start.max(at)) >> BASE_SHIFT;
                let most = shown.entry((Arc::clone(file), offset)).or_default();
                *most = pages.max(*most);
                at = next;
            }
        }
        shown.into_iter().map(|((file, offset), pages)| self.window(file, offset, pages)).collect()
    }

    /// The part of a window that is in memory.
    fn window(&self, file: Arc<str>, offset: i64, mapped_pages: u64) -> CodeWindow {
        let cache = &self.shared.memory.cache;
        let first = offset.div_euclid(BASE_BYTES as i64);
        let frame = |page: u64| {
            let number = u64::try_from(first + page as i64).ok()?;
            cache.get(cache.find(&file)?, number)
        };
        let is_in = |page: &u64| frame(*page).is_some();
        let has_any = |cluster: &u64| (cluster * CLUSTER..(cluster + 1) * CLUSTER).any(|page| is_in(&page));
        let clusters = (0..WINDOW.base_pages() / CLUSTER).filter(has_any).count() as u64;
        let pages = (0..WINDOW.base_pages()).filter(is_in).count() as u64;
        let base = frame(0);
        let lies_at = |page: u64| base.is_some_and(|base| frame(page).is_some_and(|pfn| pfn.0 == base.0 + page));
        let is_whole =
            base.is_some_and(|base| base.align_down(WINDOW) == base) && (0..WINDOW.base_pages()).all(lies_at);
        CodeWindow { file, offset, mapped_pages, clusters, pages, is_whole }
    }
}

/// The file that a region shows, if it is code.
fn code_file(region: &Region) -> Option<&Arc<str>> {
    let is_code = region.kind == RegionKind::File && region.prot.has(Prot::X) && !region.prot.has(Prot::W);
    region.file.as_ref().filter(|_| is_code && region.folded == 0)
}
