//! Superpages of code: when the pages of a file that a reservation lacks are read, so that it can be promoted (Zhou,
//! Dong, Cox and Dwarkadas, "On the Impact of Instruction Address Translation Overhead", paper 2, section V).
//!
//! FreeBSD itself reads nothing only to promote, so most code stays on base pages.

use super::Freebsd;
use super::threshold::Threshold;
use crate::memory::cache::ObjectId;
use crate::ranges::Span;
use crate::report::counts::{EventKind, Refusal};
use crate::space::range::PageRange;
use crate::space::vma::{Back, Vma};
use crate::space::{AddressSpace, Cx};
use crate::{FaultError, Note, PageCache, WorkKind};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Pfn, Prot, VirtAddr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The size of code's larger pages.
pub(super) const SUPERPAGE: PageOrder = PageOrder::P2M;

/// What ends code that is no whole number of superpages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum Padding {
    /// Nothing: the rest stays on base pages, as in FreeBSD.
    #[default]
    #[serde(rename = "none")]
    None,
    /// The kernel extends the mapping to the next multiple of 2 MiB, with the pages of the file that follow, and with
    /// pages of zeros behind its end (paper 2, section VI-A).
    #[serde(rename = "kernel")]
    Kernel,
}

/// Which page tables of code processes share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum ShareTables {
    /// None, as in FreeBSD.
    #[default]
    #[serde(rename = "none")]
    None,
    /// The lowest ones, whose entries map base pages (paper 2, section VI-B).
    #[serde(rename = "lowest")]
    Lowest,
}

/// Code: private mappings of files that may be executed and not stored to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodeDesc {
    /// Whether code is mapped by pages of 2 MiB at all. Default `true`.
    pub superpages: bool,
    /// How much of a reservation must be in memory, at a fault that reads, for the rest to be read and the whole to be
    /// promoted: clusters, or pages as in "448 pages". Default: all, for which nothing is read.
    pub threshold: Threshold,
    /// Whether more than `threshold` is asked for, which paper 2 says in one place and not in others. Default `false`.
    pub strict: bool,
    /// What ends code that is no whole number of superpages: `none` or `kernel`. Default `none`.
    pub padding: Padding,
    /// Whether processes share the lowest page tables of code: none, or those of 2 MiB that show nothing else. Default
    /// `none`.
    pub share_tables: ShareTables,
    /// Where these values come from.
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    pub assumed: BTreeMap<String, String>,
}

impl Default for CodeDesc {
    fn default() -> Self {
        Self {
            superpages: true,
            threshold: Threshold::Clusters(32),
            strict: false,
            padding: Padding::None,
            share_tables: ShareTables::None,
            source: "FreeBSD 14: sys/vm/vm_fault.c; paper 2, section II-A".into(),
            assumed: BTreeMap::new(),
        }
    }
}

impl CodeDesc {
    /// Whether it is FreeBSD as it is.
    pub(super) fn is_stock(&self) -> bool {
        *self == Self::default()
    }

    /// What contradicts the other values of FreeBSD: the key, and the reason with the remedy.
    pub(super) fn wrong(&self, promotion: bool, cluster_pages: u64) -> Option<(&'static str, String)> {
        let most = SUPERPAGE.base_pages();
        let at_most = match self.threshold {
            Threshold::Clusters(_) => most / cluster_pages,
            Threshold::Pages(_) => most,
        };
        if !(1..=at_most).contains(&self.threshold.count()) {
            return Some((
                "code.threshold",
                format!("{} is not between 1 and {at_most}, which is all of 2M", self.threshold),
            ));
        }
        if !promotion && (self.threshold != Self::default().threshold || self.padding != Padding::None) {
            return Some((
                "code",
                "a threshold or padding is for pages of 2M, which promotion = false turns off: leave them out".into(),
            ));
        }
        if !self.superpages && self.padding != Padding::None {
            return Some(("code.padding", "code has no superpages to pad: leave it out, or superpages = true".into()));
        }
        None
    }
}

/// Whether a mapping is code.
pub(super) fn is_code(vma: &Vma) -> bool {
    let shows_file = matches!(vma.back, Back::Object(..));
    shows_file && !vma.shared && vma.prot.has(Prot::X) && !vma.prot.has(Prot::W)
}

impl Freebsd {
    /// Whether a mapping may have superpages.
    pub(super) fn allows_superpages(&self, vma: &Vma) -> bool {
        self.desc.code.superpages || !is_code(vma)
    }

    /// After a fault that read a page of code at `at`, in the frame `pfn`: whether enough of its reservation is in
    /// memory, and the rest was read, so that it can be mapped as a whole.
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
        let reservations = &cx.memory.reservations;
        let (resident, all) = match code.threshold {
            Threshold::Pages(_) => (u64::from(reservations.used_in(pfn, SUPERPAGE)), SUPERPAGE.base_pages()),
            Threshold::Clusters(_) => {
                let parts = SUPERPAGE.base_pages() / self.cluster_pages();
                (reservations.parts_used(head, SUPERPAGE, self.cluster_pages()), parts)
            }
        };
        if code.threshold.count() == all {
            return false;
        }
        let wanted = code.threshold.count() + u64::from(code.strict);
        resident >= wanted && self.read_rest(cx, id, first, start)
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

    /// Whether a mapping's lowest page tables are shared.
    pub(super) fn shares_tables(&self, vma: &Vma) -> bool {
        self.desc.code.share_tables == ShareTables::Lowest && is_code(vma)
    }

    /// Has a new mapping of code use the tables that others have for it.
    pub(super) fn join_tables(
        &self,
        space: &mut AddressSpace,
        cx: &mut Cx,
        pages: PageRange,
    ) -> Result<(), FaultError> {
        let Some(span) = space.vmas.find(pages.start).filter(|span| self.shares_tables(&span.value)).cloned() else {
            return Ok(());
        };
        let windows = (pages.start & !(SUPERPAGE.bytes() - 1)..pages.end).step_by(SUPERPAGE.bytes() as usize);
        windows.map(|start| start.max(pages.start)).try_for_each(|at| space.join_table(cx, &span, at).map(drop))
    }

    /// Pages of a cluster.
    pub(super) fn cluster_pages(&self) -> u64 {
        self.desc.cluster.0 >> BASE_SHIFT
    }
}
