//! Superpages of code: when the pages of a file that a reservation lacks are read, so that it can be promoted (paper 2,
//! section V). Of code that the program makes, they are zeroed.
//!
//! FreeBSD itself reads nothing only to promote, so most code stays on base pages.

use super::Freebsd;
use super::code::{SUPERPAGE, ShareTables, is_code};
use super::threshold::Threshold;
use crate::memory::cache::ObjectId;
use crate::parts::traits::Promotion;
use crate::ranges::Span;
use crate::report::counts::{EventKind, Refusal};
use crate::space::range::PageRange;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx, Found};
use crate::{Fault, FaultError, Note, PageCache, WorkKind};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Pfn, VirtAddr};

impl Freebsd {
    /// Whether a mapping may have superpages.
    pub(super) fn allows_superpages(&self, vma: &Vma) -> bool {
        self.desc.code.superpages || !(is_code(vma) || self.counts_as_made_code(vma))
    }

    /// Whether a mapping is anonymous memory to which the rules for code apply.
    fn counts_as_made_code(&self, vma: &Vma) -> bool {
        self.desc.code.anonymous && vma.is_made_code()
    }

    /// A fault as large as the page is that holds `at` once promotion was tried.
    pub(super) fn promoted(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        vma: &Vma,
        at: u64,
        fault: Fault,
    ) -> Result<Fault, FaultError> {
        if !self.allows_superpages(vma) {
            return Ok(fault);
        }
        let is_early = self.counts_as_made_code(vma)
            && match space.probe(cx.mem, VirtAddr::new(at)) {
                Found::Leaf(leaf) => self.reaches_threshold(cx, leaf.pfn),
                Found::Hole(_) => false,
            };
        let promotion = if is_early { &self.early } else { &self.promotion };
        promotion.promoted(space, cx, at, fault)
    }

    /// After a fault that read a page of code at `at`, in the frame `pfn`: whether its reservation can be mapped as a
    /// whole. That needs enough of it in memory, and the rest read.
    pub(super) fn completes(&self, cx: &mut Cx, span: &Span<Vma>, id: ObjectId, page: u64, at: u64, pfn: Pfn) -> bool {
        let code = &self.desc.code;
        if !code.superpages || !self.has_superpages() || !is_code(&span.value) {
            return false;
        }
        let (start, head) = (VirtAddr::new(at).align_down(SUPERPAGE).raw(), pfn.align_down(SUPERPAGE));
        let is_inside = start >= span.start && span.end - start >= SUPERPAGE.bytes();
        let is_congruent = pfn.0 - head.0 == (at - start) >> BASE_SHIFT;
        if !is_inside || !is_congruent {
            return false;
        }
        let Some(first) = page.checked_sub((at - start) >> BASE_SHIFT) else { return false };
        self.reaches_threshold(cx, pfn) && self.read_rest(cx, id, first, start)
    }

    /// Whether enough is in memory of the reservation that holds a frame, by a threshold that asks for less than all.
    fn reaches_threshold(&self, cx: &Cx, pfn: Pfn) -> bool {
        let code = &self.desc.code;
        let reservations = &cx.memory.reservations;
        let (resident, all) = match code.threshold {
            Threshold::Pages(_) => (u64::from(reservations.used_in(pfn, SUPERPAGE)), SUPERPAGE.base_pages()),
            Threshold::Clusters(_) => {
                let parts = SUPERPAGE.base_pages() / self.cluster_pages();
                (reservations.parts_used(pfn.align_down(SUPERPAGE), SUPERPAGE, self.cluster_pages()), parts)
            }
        };
        let wanted = code.threshold.count() + u64::from(code.strict);
        code.threshold.count() != all && resident >= wanted
    }

    /// Reads what the 2 MiB of a file from page `first` on lack; false if memory ended before.
    fn read_rest(&self, cx: &mut Cx, id: ObjectId, first: u64, start: u64) -> bool {
        let end = first + SUPERPAGE.base_pages();
        let mut page = first;
        while page < end {
            let began = page;
            while page < end && cx.memory.cache.get(id, page).is_none() {
                if self.cache_page(cx, id, page, start + (page - first) * BASE_BYTES).is_err() {
                    break;
                }
                page += 1;
            }
            self.count_read(cx, id, began, page - began);
            cx.counts.events.add(EventKind::PromotionFill, page - began);
            if page < end && cx.memory.cache.get(id, page).is_none() {
                cx.refuse(Refusal::PromoteNotFull, start);
                return false;
            }
            page += 1;
        }
        true
    }

    /// Pages of a file came into memory: read, or, behind the file's end, zeroed.
    pub(super) fn count_read(&self, cx: &mut Cx, id: ObjectId, first: u64, pages: u64) {
        if cx.limits.page_cache == PageCache::Warm || pages == 0 {
            // They were there before; the model gives them frames when first looked at.
            return;
        }
        let zeros = (first + pages).saturating_sub(cx.memory.cache.content_end(id).max(first));
        let read = pages - zeros;
        if zeros > 0 {
            cx.work(WorkKind::ZeroBytes, zeros * BASE_BYTES);
        }
        if read > 0 {
            cx.work(WorkKind::ReadBytes, read * BASE_BYTES);
            cx.counts.events.add(EventKind::PagesRead, read);
            cx.tell(|| Note::Read { page: first, pages: read });
        }
    }

    /// The memory that each page table maps which a mapping may share, the largest first: those below the root.
    pub(super) fn shared_table_sizes(&self, space: &AddressSpace, vma: &Vma) -> Vec<PageOrder> {
        if !is_code(vma) {
            return Vec::new();
        }
        match self.desc.code.share_tables {
            ShareTables::None => Vec::new(),
            ShareTables::Lowest => vec![PageOrder::P2M],
            ShareTables::All => {
                let format = space.table.format();
                (2..=format.levels()).rev().map(|level| format.covers(level)).collect()
            }
        }
    }

    /// Has the new mapping `pages` in `span` use the tables of these sizes that others have for it.
    pub(super) fn join_tables(
        space: &mut AddressSpace,
        cx: &mut Cx,
        span: &Span<Vma>,
        pages: PageRange,
        sizes: &[PageOrder],
    ) -> Result<(), FaultError> {
        if sizes.is_empty() {
            return Ok(());
        }
        let windows = (pages.start & !(SUPERPAGE.bytes() - 1)..pages.end).step_by(SUPERPAGE.bytes() as usize);
        windows.map(|start| start.max(pages.start)).try_for_each(|at| space.join_table(cx, span, at, sizes).map(drop))
    }

    /// Pages of a cluster.
    pub(super) fn cluster_pages(&self) -> u64 {
        self.desc.cluster.0 >> BASE_SHIFT
    }
}
