//! A policy in the terms by which papers compare policies, from the declarations of its file.
//!
//! The columns are those of Table II of "Elastic Translations" (paper 3).

use super::check::mthp_sizes;
use super::contiguous::ContiguousKind;
use super::desc::PromotionTime;
use super::hints::HintSource;
use super::placement::PlacementKind;
use super::text::{Remap, TextDesc};
use super::traits::Declares;
use super::zeroing::ZeroingKind;
use crate::desc::{PolicyDesc, PolicyKind};
use crate::linux::desc::{AppliesTo, KhugepagedDesc, ThpDesc, ThpEnabled, ThpSize};
use mmulab_addr::PageOrder;
use serde::Serialize;

/// How entries come to translate together.
const CONTIGUOUS: &str = "in place, contiguous bit";

/// A policy's row in a table of policies.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Whether programs get larger pages without asking for a pool of them.
    pub transparent: bool,
    /// The sizes that faults map, in the order in which they are tried.
    pub fault_sizes: Vec<PageOrder>,
    /// Where the frames of private pages come from.
    pub allocation: String,
    /// The sizes that smaller pages are promoted to.
    pub promotion_sizes: Vec<PageOrder>,
    /// The sizes that page tables come to map, from the smallest up.
    pub translation_sizes: Vec<PageOrder>,
    /// When and how they are promoted.
    pub promotion: Vec<String>,
    /// The source of hints where larger pages are worth while.
    pub hints: String,
    /// In which of a virtual machine's kernels the policy runs.
    pub virtualised: String,
}

impl PolicyDesc {
    /// The policy in these terms.
    pub fn declared(&self) -> Declared {
        let mut row = match self.kind {
            PolicyKind::Linux4k => Declared::base(self),
            PolicyKind::LinuxThp => Declared::thp(self),
            PolicyKind::Hugetlb => Declared::pool(self),
            PolicyKind::Freebsd => Declared::freebsd(self),
            PolicyKind::Linux => Declared::parts(self),
        };
        row.fault_sizes.push(PageOrder::P4K);
        let bit = self.contiguous.as_ref().map(|part| part.bit).unwrap_or_default();
        if bit == ContiguousKind::Transparent && self.has_huge_parts() {
            row.promotes(PageOrder::P32M, CONTIGUOUS);
        }
        if bit != ContiguousKind::Unused {
            row.promotes(PageOrder::P64K, CONTIGUOUS);
            row.promotion.dedup();
        }
        if let Some(text) = &self.text {
            row.text(text);
        }
        row.translation_sizes = row.fault_sizes.iter().chain(&row.promotion_sizes).copied().collect();
        row.translation_sizes.sort_unstable();
        row.translation_sizes.dedup();
        row
    }
}

impl Declared {
    /// Base pages, before anything else is declared.
    fn base(desc: &PolicyDesc) -> Self {
        Self {
            name: desc.name.clone(),
            transparent: true,
            fault_sizes: Vec::new(),
            allocation: PlacementKind::Buddy.name().into(),
            promotion_sizes: Vec::new(),
            translation_sizes: Vec::new(),
            promotion: Vec::new(),
            hints: "none".into(),
            virtualised: if desc.serves_hosts() { "guest, host" } else { "guest" }.into(),
        }
    }

    fn promotes(&mut self, size: PageOrder, how: impl Into<String>) {
        if !self.promotion_sizes.contains(&size) {
            self.promotion_sizes.push(size);
        }
        self.promotion.push(how.into());
    }

    /// Larger pages for text.
    fn text(&mut self, text: &TextDesc) {
        match text.remap {
            Remap::None => {}
            Remap::Whole => self.promotes(PageOrder::P2M, "copy of text, at its first fetch"),
            Remap::Padded => self.promotes(PageOrder::P2M, "copy of text and its padding, at its first fetch"),
        }
        match text.folio {
            Some(PageOrder::P2M) => self.promotes(PageOrder::P2M, "text read in blocks of 2M"),
            Some(size) => self.promotion.push(format!("text read in blocks of {size}")),
            None => {}
        }
        if text.khugepaged {
            self.promotes(PageOrder::P2M, "copy of text in the page cache, by a daemon");
        }
    }

    /// Promotion by a daemon.
    fn daemon(&mut self, Declares { sizes, how, allocation }: Declares) {
        self.promotion_sizes.extend(sizes);
        self.promotion.push(how.into());
        self.allocation += allocation;
    }

    /// The sizes of faults below 2 MiB that khugepaged makes, too.
    fn mthp_by_daemon(&mut self, khugepaged: &KhugepagedDesc, faults: &[PageOrder]) {
        if khugepaged.mthp {
            self.promotion_sizes.extend(mthp_sizes(faults));
        }
    }

    fn thp(desc: &PolicyDesc) -> Self {
        let mut row = Self { hints: "madvise".into(), ..Self::base(desc) };
        let thp: ThpDesc = desc.thp.clone().unwrap_or_default();
        let is_on = |size: ThpSize| match size {
            ThpSize::Always | ThpSize::Madvise => true,
            ThpSize::Inherit => thp.enabled != ThpEnabled::Never,
            ThpSize::Never => false,
        };
        if !thp.sizes.contains_key(&PageOrder::P2M) && is_on(ThpSize::Inherit) {
            row.fault_sizes.push(PageOrder::P2M);
        }
        row.fault_sizes.extend(thp.sizes.iter().rev().filter(|size| is_on(*size.1)).map(|size| *size.0));
        row.promotes(PageOrder::P2M, "copy, on MADV_COLLAPSE");
        if let Some(khugepaged) = &thp.khugepaged {
            let sizes = row.fault_sizes.clone();
            match sizes.contains(&PageOrder::P2M) {
                true => row.promotes(PageOrder::P2M, "copy, by a daemon"),
                false => row.promotion.push("copy, by a daemon".into()),
            }
            row.mthp_by_daemon(khugepaged, &sizes);
        }
        row
    }

    fn pool(desc: &PolicyDesc) -> Self {
        let mut row = Self { transparent: false, allocation: "pool reserved at boot".into(), ..Self::base(desc) };
        if let Some(pool) = &desc.hugetlb {
            row.fault_sizes.push(pool.size);
            row.hints = match pool.applies_to {
                AppliesTo::Explicit => "MAP_HUGETLB",
                AppliesTo::Anon | AppliesTo::AllPrivate => "linking with libhugetlbfs, MAP_HUGETLB",
            }
            .into();
        }
        row
    }

    fn freebsd(desc: &PolicyDesc) -> Self {
        let mut row = Self::base(desc);
        let freebsd = desc.freebsd.clone().unwrap_or_default();
        row.allocation = match freebsd.levels.is_empty() {
            true => "vm_phys".into(),
            false => reservation(&freebsd.levels),
        };
        if freebsd.promotion {
            row.promotes(PageOrder::P2M, in_place(PageOrder::P2M, Some(freebsd.promotion_threshold)));
            if let Some(pages) = freebsd.daemon.as_ref().and_then(|daemon| daemon.fill_threshold) {
                row.promotes(PageOrder::P2M, format!("in place, filled by a daemon from {pages} pages on"));
            }
        }
        row
    }

    fn parts(desc: &PolicyDesc) -> Self {
        let mut row = Self::base(desc);
        if let Some(fault) = desc.fault.as_ref().filter(|fault| fault.enabled != ThpEnabled::Never) {
            row.fault_sizes = fault.sizes.clone();
            row.fault_sizes.sort_by(|a, b| b.cmp(a));
        }
        let placement = desc.placement.clone().unwrap_or_default();
        row.allocation = match placement.levels.is_empty() {
            true => placement.frames.name().into(),
            false => reservation(&placement.levels),
        };
        if desc.zeroing.as_ref().is_some_and(|zeroing| zeroing.when == ZeroingKind::Ahead) {
            row.allocation += ", cleared ahead";
        }
        let hints = desc.hints.as_ref().map_or(HintSource::Madvise, |hints| hints.from);
        row.hints = hints.name().into();
        let promotion = desc.promotion.clone().unwrap_or_default();
        match promotion.when {
            PromotionTime::Never => {}
            PromotionTime::Full => row.promotes(promotion.size, in_place(promotion.size, None)),
            PromotionTime::Threshold => row.promotes(promotion.size, in_place(promotion.size, promotion.threshold)),
            PromotionTime::Daemon => {
                row.daemon(promotion.by.unwrap_or_default().declares(promotion.serves.unwrap_or_default()));
                let faults = desc.fault.as_ref().map_or(&[][..], |fault| &fault.sizes);
                row.mthp_by_daemon(&promotion.daemon.clone().unwrap_or_default(), faults);
            }
        }
        if desc.has_huge_parts() && hints == HintSource::Madvise {
            row.promotes(PageOrder::P2M, "copy, on MADV_COLLAPSE");
        }
        row
    }
}

fn reservation(levels: &[PageOrder]) -> String {
    let mut levels = levels.to_vec();
    levels.sort_by(|a, b| b.cmp(a));
    let sizes: Vec<_> = levels.iter().map(ToString::to_string).collect();
    format!("{} of {}", PlacementKind::Reservation.name(), sizes.join(", "))
}

/// `threshold` pages of the larger page are enough; all of them, if it is absent.
fn in_place(size: PageOrder, threshold: Option<u32>) -> String {
    match threshold.filter(|&pages| u64::from(pages) < size.base_pages()) {
        None => "in place, when full".into(),
        Some(pages) => format!("in place, from {pages} pages on"),
    }
}

impl PolicyDesc {
    /// Whether parts of kind `linux` make pages of 2 MiB that MADV_COLLAPSE could make, too.
    pub(crate) fn has_huge_parts(&self) -> bool {
        let faults = self.fault.as_ref().is_some_and(|fault| fault.sizes.contains(&PageOrder::P2M));
        faults || self.promotion.as_ref().is_some_and(|promotion| promotion.when == PromotionTime::Daemon)
    }
}
