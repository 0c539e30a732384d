//! The `[thp]`, `[hugetlb]` and `[linux]` tables of a policy file.

use crate::space::vma::HugeAdvice;
use mmulab_addr::{Bytes, PageOrder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `/sys/kernel/mm/transparent_hugepage/enabled`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThpEnabled {
    /// Wherever the region allows it.
    #[default]
    Always,
    /// In mappings advised MADV_HUGEPAGE.
    Madvise,
    /// Nowhere.
    Never,
}

impl ThpEnabled {
    /// Whether a mapping with this advice may have pages of a size with this setting.
    pub(crate) fn allows(self, advice: HugeAdvice) -> bool {
        match (self, advice) {
            (Self::Never, _) | (_, HugeAdvice::NoHuge) | (Self::Madvise, HugeAdvice::None) => false,
            (Self::Always, HugeAdvice::None | HugeAdvice::Huge) | (Self::Madvise, HugeAdvice::Huge) => true,
        }
    }
}

/// Effect of a store to the huge zero page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HugeZeroWrite {
    /// A huge page replaces it (Linux from 6.13, mm/huge_memory.c `do_huge_zero_wp_pmd`).
    #[default]
    Huge,
    /// It is split, and one base page replaces the part stored to (Linux 5.8 to 6.12).
    Split,
}

/// `/sys/kernel/mm/transparent_hugepage/hugepages-SIZE/enabled`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThpSize {
    /// Wherever the region allows it.
    Always,
    /// In mappings advised MADV_HUGEPAGE.
    Madvise,
    /// As `enabled` says for all sizes.
    Inherit,
    /// Nowhere.
    Never,
}

/// `/sys/kernel/mm/transparent_hugepage/defrag`: what a fault does when no block of 2 MiB is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Defrag {
    /// It compacts memory at once.
    Always,
    /// It compacts memory in mappings advised MADV_HUGEPAGE.
    Madvise,
    /// It lets memory be compacted in the background, for later faults.
    Defer,
    /// Nothing.
    #[default]
    Never,
}

/// khugepaged (mm/khugepaged.c, `/sys/kernel/mm/transparent_hugepage/khugepaged`): on simulated time it looks for
/// regions of base pages to copy into huge pages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KhugepagedDesc {
    /// How long it sleeps between scans, in milliseconds. Default 10000.
    #[schemars(range(min = 1, max = 86_400_000))]
    pub scan_sleep_ms: u64,
    /// How long it sleeps when no huge page could be had, in milliseconds. Default 60000.
    #[schemars(range(min = 0, max = 86_400_000))]
    pub alloc_sleep_ms: u64,
    /// Pages it looks at in one scan. Default 4096 (8 regions).
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub pages_to_scan: u32,
    /// Pages of a region that need not be mapped. Default 511.
    #[schemars(range(min = 0, max = 511))]
    pub max_ptes_none: u32,
    /// Pages of a region that may be shared with other processes. Default 256.
    #[schemars(range(min = 0, max = 511))]
    pub max_ptes_shared: u32,
    /// Whether it compacts memory when no block is free. Default `true`.
    pub defrag: bool,
    /// Whether it also makes blocks of the sizes from 16K to 1M that faults may map (`thp.sizes`; `fault.sizes` in kind
    /// `linux`), as Linux from 7.2 on does. For these sizes `max_ptes_none = 511` allows all pages but one to be
    /// missing, and any other number none; none may be shared. For khugepaged only. Default `false`: 2M alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mthp: bool,
}

impl Default for KhugepagedDesc {
    fn default() -> Self {
        Self {
            scan_sleep_ms: 10_000,
            alloc_sleep_ms: 60_000,
            pages_to_scan: 4096,
            max_ptes_none: 511,
            max_ptes_shared: 256,
            defrag: true,
            mthp: false,
        }
    }
}

/// Transparent huge pages (Documentation/admin-guide/mm/transhuge.rst).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ThpDesc {
    /// Where they are used: `always`, `madvise` or `never`. Default `always`.
    pub enabled: ThpEnabled,
    /// Whether a load of an untouched region maps the shared huge zero page (`use_zero_page`). Default `true`.
    pub zero_page: bool,
    /// Effect of a store to the huge zero page: `huge` or `split`. Default `huge`.
    pub zero_page_write: HugeZeroWrite,
    /// Sizes from 16K to 2M, each `always`, `madvise`, `inherit` or `never`. Default: 2M inherits, others are never
    /// used. A fault maps the largest that is enabled, fits and has a free block; below 2M, as base pages that lie
    /// together.
    pub sizes: BTreeMap<PageOrder, ThpSize>,
    /// Action of a fault if no block of 2 MiB is free: `always`, `madvise` or `defer` compact memory, `never` does not.
    /// Default `never`; Linux's is `madvise`.
    pub defrag: Defrag,
    /// The daemon that makes huge pages later; absent: it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub khugepaged: Option<KhugepagedDesc>,
    /// Where these values come from.
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    pub assumed: BTreeMap<String, String>,
}

impl Default for ThpDesc {
    fn default() -> Self {
        Self {
            enabled: ThpEnabled::Always,
            zero_page: true,
            zero_page_write: HugeZeroWrite::Huge,
            sizes: BTreeMap::new(),
            defrag: Defrag::Never,
            khugepaged: None,
            source: String::new(),
            assumed: BTreeMap::new(),
        }
    }
}

/// Which mappings a huge-page pool serves without being asked by MAP_HUGETLB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AppliesTo {
    /// Private anonymous mappings but stacks: what libhugetlbfs serves malloc with (HUGETLB_MORECORE), and more.
    #[default]
    Anon,
    /// Every private mapping: also stacks, and code and data of files, as a program relinked with libhugetlbfs
    /// (HUGETLB_ELFMAP) copies them into huge pages at start.
    AllPrivate,
    /// None: MAP_HUGETLB only.
    Explicit,
}

/// A pool of huge pages reserved at boot (Documentation/admin-guide/mm/hugetlbpage.rst).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HugetlbDesc {
    /// The size of its pages: one the page table has leaves for, such as `2M` or `1G`.
    pub size: PageOrder,
    /// How much memory it holds, rounded down to whole pages (`hugepages=` at boot).
    #[schemars(extend("x-least" = "0", "x-most" = "16T"))]
    pub pool: Bytes,
    /// Which mappings it serves: `anon`, `all-private` or `explicit`. Default `anon`.
    #[serde(default)]
    pub applies_to: AppliesTo,
    /// Whether the brk heap grows by whole huge pages, as libhugetlbfs's morecore makes it. Default `true`.
    #[serde(default = "yes")]
    pub round_heap: bool,
    /// Where these values come from.
    #[serde(default)]
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    #[serde(default)]
    pub assumed: BTreeMap<String, String>,
}

/// Whether files are in the page cache before the program starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PageCache {
    /// No: the first touch reads from storage, with read-around.
    #[default]
    Cold,
    /// Yes, as when the program ran before: pages are found at their first touch without being read.
    Warm,
}

/// The unit that one madvise call flushes together, for the kinds of advice that change pages (dontneed, free).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AdviceFlush {
    /// Each mapping by itself (Linux up to 6.15: each has an `mmu_gather` of its own).
    #[default]
    Mapping,
    /// All its mappings (Linux from 6.16, mm/madvise.c `madvise_init_tlb`).
    Call,
}

/// Settings of Linux under every policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinuxDesc {
    /// How much of the page cache one fault maps around itself. Default `64K`.
    #[schemars(extend("x-least" = "4K", "x-most" = "2M", "x-power-of-two" = true))]
    pub fault_around: Bytes,
    /// How much of a file one fault reads around itself when the page is not in memory. Default `128K`.
    #[schemars(extend("x-least" = "4K", "x-most" = "1G", "x-power-of-two" = true))]
    pub read_around: Bytes,
    /// The largest request the disk takes (`max_sectors_kb`): MADV_WILLNEED reads no more of a mapping than this, or
    /// than `read_around` if that is more. Default `1280K`.
    #[schemars(extend("x-least" = "4K", "x-most" = "1T"))]
    pub largest_read: Bytes,
    /// Whether pages mapped by fault-around have their accessed bit set. Default `true`, as on x86-64.
    pub prefaulted_accessed: bool,
    /// Whether a load of untouched anonymous memory maps the shared zero page. Default `true`.
    pub zero_page: bool,
    /// How large a stack may grow (RLIMIT_STACK). Default `8M`.
    #[schemars(extend("x-least" = "4K", "x-most" = "64T"))]
    pub stack_limit: Bytes,
    /// Memory that must stay unmapped below a growing stack. Default `1M` (256 pages).
    #[schemars(extend("x-least" = "0", "x-most" = "1T"))]
    pub stack_guard: Bytes,
    /// How many pages a flush may name before the whole address space is flushed instead. Default 33.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub flush_ceiling: u64,
    /// The unit that madvise dontneed and free flush: each `mapping` by itself, or the whole `call`. Default `mapping`.
    pub advice_flush: AdviceFlush,
    /// Whether files are in memory before the program starts: `cold` or `warm`. Default `cold`.
    pub page_cache: PageCache,
    /// The aligned span mapped around a reference if a trace has no mappings. No Linux does this. Default `2M`.
    #[schemars(extend("x-least" = "4K", "x-most" = "1G", "x-power-of-two" = true))]
    pub implicit_vma: Bytes,
    /// The page size of the kernel's half of address spaces, which are the mappings of files that a trace marks as
    /// `global`: `2M`, or `4K`. Page tables without leaves of 2 MiB have 4K there. Default `2M`.
    #[serde(skip_serializing_if = "is_superpage")]
    pub kernel_page: PageOrder,
    /// Where these values come from.
    pub source: String,
    /// Keys no source states, each with the reason for its value.
    pub assumed: BTreeMap<String, String>,
}

fn is_superpage(size: &PageOrder) -> bool {
    *size == PageOrder::P2M
}

fn yes() -> bool {
    true
}

impl Default for LinuxDesc {
    fn default() -> Self {
        Self {
            fault_around: Bytes(64 << 10),
            read_around: Bytes(128 << 10),
            largest_read: Bytes(1280 << 10),
            prefaulted_accessed: true,
            zero_page: true,
            stack_limit: Bytes(8 << 20),
            stack_guard: Bytes(1 << 20),
            flush_ceiling: 33,
            advice_flush: AdviceFlush::Mapping,
            page_cache: PageCache::Cold,
            implicit_vma: Bytes(2 << 20),
            kernel_page: PageOrder::P2M,
            source: concat!(
                "Linux: fault_around_bytes and prefaulted PTEs in mm/memory.c; VM_READAHEAD_PAGES in \
                 include/linux/mm.h; ",
                "force_page_cache_ra in mm/readahead.c and BLK_DEF_MAX_SECTORS in include/linux/blkdev.h; ",
                "_STK_LIM in include/uapi/linux/resource.h; stack_guard_gap in mm/mmap.c; ",
                "tlb_single_page_flush_ceiling in arch/x86/mm/tlb.c; madvise_dontneed_single_vma and ",
                "madvise_free_single_vma in mm/madvise.c"
            )
            .into(),
            assumed: BTreeMap::from([
                ("page_cache".into(), "a property of the run, not of the kernel".into()),
                ("implicit_vma".into(), "traces without mappings do not tell how large they were".into()),
            ]),
        }
    }
}
