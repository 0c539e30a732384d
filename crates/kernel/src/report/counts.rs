//! Kernel counters: page faults by kind, reasons for not mapping a large page, failed system calls, and other events.
//! The text beside each variant is the counter's name in results. The reasons help to explain why two page policies
//! differ.

use crate::report::tally::{Tally, named};
use crate::report::work::WorkKind;
use schemars::JsonSchema;
use serde::Serialize;

named! {
    /// What a fault turned out to need.
    pub enum FaultKind {
        /// A page of zeroed memory of the process's own.
        Anon = "anon",
        /// A load of untouched anonymous memory: the shared zero page, read-only (mm/memory.c, `do_anonymous_page`).
        ZeroPage = "zero_page",
        /// A store to the shared zero page: a page of the process's own replaces it.
        ZeroPageWrite = "zero_page_write",
        /// A page of a file or of shared memory that was in the page cache.
        FileCached = "file_cached",
        /// A page of a file that had to be read first.
        FileRead = "file_read",
        /// A store to a private file mapping where nothing was mapped: the page is copied at once (`do_cow_fault`).
        FilePrivate = "file_private",
        /// The first store to a clean page of a shared file mapping (`page_mkwrite`).
        WriteNotify = "write_notify",
        /// A store to a page shared copy-on-write: it was copied.
        Copy = "copy_on_write",
        /// A store to a page shared copy-on-write whose only user is left: it was made writable again.
        Reuse = "reuse",
        /// A page in memory that was not in the page table (FreeBSD, after MADV_FREE broke a superpage).
        Resident = "resident",
        /// The entry allowed the access already: a translation was stale.
        Spurious = "spurious",
    }
}

named! {
    /// Why a larger page was not mapped.
    pub enum Refusal {
        /// The policy's `enabled` is `never`.
        ThpNever = "thp_never",
        /// `enabled` is `madvise` and the mapping was not advised.
        ThpNotAdvised = "thp_not_advised",
        /// The mapping was advised MADV_NOHUGEPAGE.
        ThpNohugepage = "thp_nohugepage",
        /// The mapping is a file's, or shared.
        ThpNotAnonymous = "thp_not_anonymous",
        /// The aligned 2 MiB around the fault is not wholly inside the mapping.
        ThpOutsideVma = "thp_outside_vma",
        /// Part of the region is mapped by smaller pages already.
        ThpPopulated = "thp_already_populated",
        /// No free block of order 9.
        ThpNoBlock = "thp_no_block",
        /// No size between 4 KiB and 2 MiB that is enabled lies inside the mapping.
        MthpOutsideVma = "mthp_outside_vma",
        /// Part of every such block is mapped already.
        MthpPopulated = "mthp_already_populated",
        /// No free block of such a size.
        MthpNoBlock = "mthp_no_block",
        /// khugepaged: nothing is mapped in the region.
        KhugepagedEmpty = "khugepaged_empty",
        /// khugepaged: more than `max_ptes_none` pages are not mapped, or are the zero page.
        KhugepagedNone = "khugepaged_max_ptes_none",
        /// khugepaged: more than `max_ptes_shared` pages are shared with other processes.
        KhugepagedShared = "khugepaged_max_ptes_shared",
        /// khugepaged: no page may be stored to.
        KhugepagedReadOnly = "khugepaged_read_only",
        /// khugepaged: no page was accessed.
        KhugepagedIdle = "khugepaged_not_referenced",
        /// Compaction was put off, because it failed lately.
        CompactionDeferred = "compaction_deferred",
        /// Compaction made no block large enough.
        CompactionFailed = "compaction_failed",
        /// MADV_COLLAPSE of a region of which nothing is mapped.
        CollapseEmpty = "collapse_empty",
        /// The fault lies before the first aligned huge page of the mapping.
        HugetlbHead = "hugetlb_head",
        /// The fault lies after the last aligned huge page of the mapping.
        HugetlbTail = "hugetlb_tail",
        /// The mapping is not of the kinds `applies_to` names.
        HugetlbNotApplied = "hugetlb_not_applied",
        /// The pool has no page left.
        HugetlbPoolEmpty = "hugetlb_pool_empty",
        /// Part of the region is mapped by smaller pages already.
        HugetlbPopulated = "hugetlb_already_populated",
        /// A reservation would begin before its object.
        ReservBeforeObject = "reserv_before_object",
        /// A reservation would extend past the end of a file.
        ReservPastEnd = "reserv_past_end",
        /// Pages of the object are in memory where the reservation would lie.
        ReservPopulated = "reserv_already_populated",
        /// No free block is large enough for a reservation.
        ReservNoBlock = "reserv_no_block",
        /// Stacks grow by objects that begin inside 2 MiB.
        ReservStack = "reserv_stack",
        /// Pages and frames differ modulo the size to promote to: the mapping is out of phase with its file.
        PromoteMisaligned = "promote_misaligned",
        /// The larger page does not lie wholly inside the mapping.
        PromoteOutsideVma = "promote_outside_vma",
        /// The reservation is not full, and its pages are a file's.
        PromoteNotFull = "promote_not_full",
        /// The frames are all in use, but one of the pages is not mapped.
        PromoteGap = "promote_gap",
        /// One of the pages is mapped to a frame elsewhere.
        PromoteScattered = "promote_scattered",
        /// The pages differ in rights or dirty bits.
        PromoteMixed = "promote_mixed",
        /// A page was not accessed yet, and `promotion_needs_accessed` is on.
        PromoteNotAccessed = "promote_not_accessed",
    }
}

named! {
    /// System calls that failed as Linux would have failed them, and other events that could not be obeyed.
    pub enum EventError {
        /// EINVAL: an unaligned address, an empty length, half a MAP_HUGETLB page, an address beyond user space.
        Invalid = "einval",
        /// ENOMEM: a range with unmapped holes, a break that runs into a mapping.
        NoMemory = "enomem",
        /// EFAULT: mremap of what is not mapped.
        Fault = "efault",
        /// MAP_HUGETLB of a size no pool holds: the mapping was made an ordinary one.
        NoPool = "no_hugetlb_pool",
        /// MAP_POPULATE stopped for lack of memory (Linux ignores the failure).
        PopulateShort = "populate_short",
    }
}

named! {
    /// Things of interest that are neither faults nor refusals.
    pub enum Happening {
        /// Mappings created.
        Mmap = "mmap",
        /// Address ranges unmapped.
        Munmap = "munmap",
        /// Rights changed.
        Mprotect = "mprotect",
        /// Mappings moved or resized.
        Mremap = "mremap",
        /// Advice taken.
        Madvise = "madvise",
        /// Heaps moved their end.
        Brk = "brk",
        /// Address spaces copied.
        Fork = "fork",
        /// Programs started.
        Exec = "exec",
        /// Processes ended.
        Exit = "exit",
        /// Stacks grown by a fault.
        StackGrowth = "stack_growth",
        /// Large mappings split into smaller ones.
        Split = "split",
        /// Faults that mapped a block of pages between 4 KiB and 2 MiB.
        MthpFault = "mthp_faults",
        /// Pages those blocks hold.
        MthpPages = "mthp_pages",
        /// Rounds of khugepaged through all processes.
        KhugepagedRound = "khugepaged_full_scans",
        /// Pages khugepaged looked at.
        KhugepagedScanned = "khugepaged_pages_scanned",
        /// Of the regions collapsed, those by khugepaged.
        KhugepagedCollapse = "khugepaged_collapses",
        /// Runs of compaction.
        Compaction = "compaction_runs",
        /// Pages compaction moved.
        Migrated = "pages_migrated",
        /// Regions collapsed to a large page, on MADV_COLLAPSE or by khugepaged.
        Collapse = "collapse",
        /// Reservations made.
        ReservMade = "reservations_made",
        /// Reservations freed because none of their pages was in use any more.
        ReservFreed = "reservations_freed",
        /// Reservations broken for want of memory.
        ReservBroken = "reservations_broken",
        /// Regions of base pages promoted to a superpage.
        Promotion = "promotions",
        /// Pages zeroed and mapped to complete an early promotion.
        PromotionFill = "promotion_filled_pages",
        /// Pages of faults that a daemon had zeroed ahead of them.
        ZeroedAhead = "pages_zeroed_ahead" => if_any,
        /// Superpages mapped at once, out of full reservations of files.
        SuperpageMapped = "superpages_mapped",
        /// MADV_FREE calls left out because the policy says so.
        FreeSuppressed = "madv_free_suppressed",
        /// Pages mapped by fault-around beside the one that faulted.
        FaultAround = "fault_around_pages",
        /// Pages read into the page cache.
        PagesRead = "pages_read",
        /// Clean unmapped pages dropped from the page cache for want of memory.
        CacheDropped = "cache_dropped",
        /// Address-space tags taken from one process for another.
        AsidRecycled = "asid_recycled",
        /// Faults and mappings that failed because frames ran out.
        OutOfMemory = "out_of_memory",
        /// Mappings made for references to memory no event had mapped.
        Implicit = "implicit_mappings",
        /// References to memory outside every mapping, or against its rights.
        Violation = "violations",
    }
}

/// What the kernel did, since it was made.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct KernelCounts {
    /// Faults by kind, for the size of page that was mapped.
    pub faults: Tally<FaultKind>,
    /// Of all faults, those that mapped a page larger than 4 KiB.
    pub huge_faults: u64,
    /// Larger pages that were not mapped, by reason.
    pub refusals: Tally<Refusal>,
    /// Events that failed.
    pub errors: Tally<EventError>,
    /// Other happenings.
    pub happenings: Tally<Happening>,
    /// Units of work, as charged by the cost model.
    pub work: Tally<WorkKind>,
    /// TLB invalidations sent.
    pub invalidations: u64,
}
