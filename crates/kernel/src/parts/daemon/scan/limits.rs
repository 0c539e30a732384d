//! Which mappings a daemon makes larger pages in, and which of their regions (`thp_vma_allowable_order` and
//! `hpage_collapse_scan_pmd` in mm/khugepaged.c).

use crate::WorkKind;
use crate::linux::desc::{KhugepagedDesc, ThpEnabled};
use crate::parts::text::is_text;
use crate::report::counts::{EventKind, Refusal};
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx, Found};
use mmulab_addr::{BASE_BYTES, PageOrder, Prot, VirtAddr};

/// The limits of a daemon.
#[derive(Debug)]
pub(in crate::parts::daemon) struct Limits {
    /// Which mappings it looks at.
    enabled: ThpEnabled,
    /// Of 512 pages, those that need not be mapped.
    max_ptes_none: u32,
    /// Of 512 pages, those that may be shared.
    max_ptes_shared: u32,
    /// Whether it looks at text, too.
    takes_text: bool,
    /// The sizes below 2 MiB that it makes, the largest first, and which mappings get each.
    mthp: Vec<(PageOrder, ThpEnabled)>,
}

impl Limits {
    /// # Errors
    /// Limits beyond a region of 2 MiB.
    pub fn new(desc: &KhugepagedDesc, enabled: ThpEnabled) -> Result<Self, (&'static str, String)> {
        let pages = PageOrder::P2M.base_pages() as u32;
        for (key, value) in [("max_ptes_none", desc.max_ptes_none), ("max_ptes_shared", desc.max_ptes_shared)] {
            if value >= pages {
                return Err((key, format!("{value} is not between 0 and {}", pages - 1)));
            }
        }
        let (max_ptes_none, max_ptes_shared) = (desc.max_ptes_none, desc.max_ptes_shared);
        Ok(Self { enabled, max_ptes_none, max_ptes_shared, takes_text: false, mthp: Vec::new() })
    }

    /// The same for a daemon that looks at text, if it does.
    pub fn with_text(self, takes_text: bool) -> Self {
        Self { takes_text, ..self }
    }

    /// The same for a daemon that makes these sizes below 2 MiB, too.
    pub fn with_mthp(self, mthp: Vec<(PageOrder, ThpEnabled)>) -> Self {
        Self { mthp, ..self }
    }

    /// The sizes below 2 MiB that a mapping gets, the largest first.
    pub fn mthp(&self, vma: &Vma) -> impl Iterator<Item = PageOrder> {
        self.mthp.iter().filter(|(_, enabled)| enabled.allows(vma.advice)).map(|(order, _)| *order)
    }

    /// Whether a mapping gets pages of 2 MiB.
    pub fn makes_huge(&self, vma: &Vma) -> bool {
        self.enabled.allows(vma.advice)
    }

    /// Pages of `order` that need not be mapped (`collapse_max_ptes_none`).
    pub fn most_none(&self, order: PageOrder) -> u64 {
        let all_but_one = PageOrder::P2M.base_pages() - 1;
        match u64::from(self.max_ptes_none) {
            none if order == PageOrder::P2M => none,
            none if none == all_but_one => order.base_pages() - 1,
            _ => 0,
        }
    }

    /// Whether this number of shared pages, of 512, is too many.
    pub fn is_too_shared(&self, shared: u64) -> bool {
        shared > u64::from(self.max_ptes_shared)
    }

    /// Whether it looks at this mapping for its text (`file_thp_enabled`).
    pub fn is_text(&self, vma: &Vma) -> bool {
        self.takes_text && is_text(vma) && self.enabled.allows(vma.advice)
    }

    /// Whether this number of pages in the page cache, of 512, is enough.
    pub fn is_enough(&self, cached: u64) -> bool {
        cached + u64::from(self.max_ptes_none) >= PageOrder::P2M.base_pages()
    }

    /// `thp_vma_allowable_order` for khugepaged.
    pub fn is_eligible(&self, vma: &Vma) -> bool {
        let is_wanted = self.makes_huge(vma) || self.mthp(vma).next().is_some();
        vma.is_anon() && vma.hugetlb.is_none() && is_wanted && vma.prot != Prot::NONE
    }

    /// Whether the smaller pages from `start` should become one of `order`. The limits are those of 512 pages, in
    /// proportion.
    pub fn is_worth(&self, space: &AddressSpace, cx: &mut Cx, start: u64, order: PageOrder) -> bool {
        if matches!(space.probe(cx.mem, VirtAddr::new(start)), Found::Leaf(leaf) if leaf.order >= order) {
            return false;
        }
        let most = |pages: u32| (u64::from(pages) << order.get()) >> PageOrder::P2M.get();
        let (most_none, most_shared) = (most(self.max_ptes_none), most(self.max_ptes_shared));
        let (mut none, mut shared, mut writable, mut referenced, mut looked) = (0, 0, false, false, 0);
        let mut why = None;
        let mut i = 0;
        while i < order.base_pages() {
            looked += 1;
            let leaf = match space.page(cx.mem, &cx.memory.pages, VirtAddr::new(start + i * BASE_BYTES)) {
                Found::Leaf(leaf) if !cx.memory.is_zero(leaf.pfn) => leaf,
                Found::Hole(hole) if i == 0 && hole >= order => {
                    why = Some(Refusal::KhugepagedEmpty);
                    break;
                }
                _ => {
                    none += 1;
                    i += 1;
                    if none > most_none {
                        why = Some(Refusal::KhugepagedNone);
                        break;
                    }
                    continue;
                }
            };
            writable |= leaf.prot.has(Prot::W);
            referenced |= leaf.accessed;
            // Smaller pages are looked at base page by base page.
            let step = if leaf.order >= PageOrder::P2M { leaf.order.base_pages() } else { 1 };
            i += step;
            if !cx.memory.pages.is_exclusive(leaf.pfn, leaf.order) {
                shared += step;
                if shared > most_shared {
                    why = Some(Refusal::KhugepagedShared);
                    break;
                }
            }
        }
        if why.is_none() && !writable {
            why = Some(Refusal::KhugepagedReadOnly);
        } else if why.is_none() && !referenced {
            why = Some(Refusal::KhugepagedIdle);
        }
        cx.work(WorkKind::EntryScan, looked);
        cx.counts.events.add(EventKind::KhugepagedScanned, looked);
        if let Some(why) = why {
            cx.refuse(why, start);
        }
        why.is_none()
    }
}
