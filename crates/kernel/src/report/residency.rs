//! Which parts of code are in memory. For each 2 MiB of a file that mappings of code show, it has the clusters of 64
//! KiB that the page cache holds. A threshold of clusters decides over superpages of code (paper 2, Figure 1).
//!
//! ```text
//!   file      | 2 MiB                          | 2 MiB                          |
//!   clusters  |##..####..#.....................|################################|   # any page of it is in memory
//!   window     10 of 32                         32 of 32: FreeBSD promotes it
//! ```
//!
//! Where a policy counts executable anonymous memory as code, so does this file: of processes that live, what their
//! page tables map.

use crate::Kernel;
use crate::manager::Manager;
use crate::ranges::Span;
use crate::report::region::{Region, RegionKind, Rights};
use crate::space::AddressSpace;
use crate::space::vma::Vma;
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Prot, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_pagetable::Leaf;
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
    /// The file; of memory for code that a program makes, `anon` with its rights.
    pub file: Arc<str>,
    /// Where the window begins in the file, in bytes; negative if the file begins within the window. Without a file,
    /// its address.
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
    /// All code that was mapped so far, by file and place there; then, if the policy counts it, what programs made.
    pub fn code_residency(&self, mem: &PhysMem) -> Vec<CodeWindow> {
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
        let files = shown.into_iter().map(|((file, offset), pages)| self.window(file, offset, pages));
        let made = self.manager.anonymous_is_code().then(|| self.made_code(mem)).into_iter().flatten();
        files.chain(made).collect()
    }

    /// Memory for code that programs make, a row for each 2 MiB of each mapping.
    fn made_code(&self, mem: &PhysMem) -> Vec<CodeWindow> {
        let mut found = Vec::new();
        for space in self.spaces.iter().flatten() {
            for span in space.vmas.iter().filter(|span| span.value.is_made_code()) {
                let first = VirtAddr::new(span.start).align_down(WINDOW).raw();
                let starts = (first..span.end).step_by(WINDOW.bytes() as usize);
                found.extend(starts.map(|start| made_window(space, mem, span, start)));
            }
        }
        found
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

/// What of 2 MiB of a mapping without a file is in memory.
fn made_window(space: &AddressSpace, mem: &PhysMem, span: &Span<Vma>, start: u64) -> CodeWindow {
    let (from, to) = (span.start.max(start), span.end.min(start.saturating_add(WINDOW.bytes())));
    let leaves: Vec<(u64, Leaf)> = space.leaves(mem, from, to).collect();
    let (mut pages, mut is_in) = (0, [false; (WINDOW.base_pages() / CLUSTER) as usize]);
    for (at, leaf) in &leaves {
        let (first, last) = ((*at).max(from), (at + leaf.order.bytes()).min(to));
        pages += (last - first) >> BASE_SHIFT;
        for page in (first..last).step_by(BASE_BYTES as usize) {
            is_in[(((page - start) >> BASE_SHIFT) / CLUSTER) as usize] = true;
        }
    }
    let base = leaves.first().map_or(0, |(_, leaf)| leaf.pfn.0);
    let lies = |(at, leaf): &(u64, Leaf)| leaf.pfn.0.wrapping_sub(base) == at.wrapping_sub(start) >> BASE_SHIFT;
    let is_aligned = base.is_multiple_of(WINDOW.base_pages());
    CodeWindow {
        file: format!("anon {}", Rights(span.value.prot)).into(),
        offset: start as i64,
        mapped_pages: (to - from) >> BASE_SHIFT,
        clusters: is_in.iter().filter(|&&is_in| is_in).count() as u64,
        pages,
        is_whole: pages == WINDOW.base_pages() && is_aligned && leaves.iter().all(lies),
    }
}

/// The file that a region shows, if it is code.
fn code_file(region: &Region) -> Option<&Arc<str>> {
    let is_code = region.kind == RegionKind::File && region.prot.has(Prot::X) && !region.prot.has(Prot::W);
    region.file.as_ref().filter(|_| is_code && region.folded == 0)
}
