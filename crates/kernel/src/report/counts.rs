//! Kernel counters: page faults by kind, reasons for not mapping a large page, failed system calls, and other events.
//! The text beside each variant is the counter's name in results. The reasons help to explain why two page policies
//! differ.

use crate::report::tally::{Tally, named};
use crate::report::work::WorkKind;
use schemars::JsonSchema;
use serde::Serialize;

named! {
    /// Kind of a fault, by the work that it needed.
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
        /// A page in memory that was not in the page table (FreeBSD, after MADV_FREE broke a superpage, or after
        /// Quicksilver's daemon filled a reservation).
        Resident = "resident",
        /// The first fetch from text, which the program then moved onto pages of its own.
        TextMoved = "text_moved" => if_any,
        /// The entry allowed the access already: a translation was stale.
        Spurious = "spurious",
    }
}

impl FaultKind {
    /// Whether the kernel stores to all of the page that a fault of this kind maps: it zeroes the page or copies to it.
    #[must_use]
    pub fn stores_page(self) -> bool {
        match self {
            Self::Anon | Self::ZeroPageWrite | Self::FilePrivate | Self::Copy | Self::TextMoved => true,
            // A device stores what is read from storage.
            Self::FileRead
            | Self::FileCached
            | Self::ZeroPage
            | Self::WriteNotify
            | Self::Reuse
            | Self::Resident
            | Self::Spurious => false,
        }
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
        /// The aligned page above 2 MiB around the fault is not wholly inside the mapping.
        GiantOutsideVma = "giant_outside_vma" => if_any,
        /// Part of the place of a page above 2 MiB is mapped already.
        GiantPopulated = "giant_already_populated" => if_any,
        /// No free memory for a page above 2 MiB lies in one piece.
        GiantNoBlock = "giant_no_block" => if_any,
        /// CA paging: the frame at the offset of the mapping is in use.
        CaTargetTaken = "ca_target_taken" => if_any,
        /// CA paging: no free block of the largest size is left to place a mapping in.
        CaNoRegion = "ca_no_region" => if_any,
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
        /// Padding: code and its file differ modulo 2 MiB.
        PadMisaligned = "pad_misaligned" => if_any,
        /// Padding: something is mapped between the end of the code and the next multiple of 2 MiB.
        PadNoGap = "pad_no_gap" => if_any,
        /// Text: no free block for a huge page; the page cache, or the copy, has base pages instead.
        TextNoBlock = "text_no_block" => if_any,
        /// Text: no whole, aligned 2 MiB of the mapping can be moved.
        TextTooSmall = "text_too_small" => if_any,
        /// Text: the mapping and its file differ modulo 2 MiB: no 2 MiB of the page cache can be one page in it.
        TextMisaligned = "text_misaligned" => if_any,
        /// Text: no whole, aligned 2 MiB of the page cache lies inside the mapping.
        TextOutsideVma = "text_outside_vma" => if_any,
        /// khugepaged on text: less of the 2 MiB is in memory than `max_ptes_none` asks for.
        TextNotCached = "text_not_cached" => if_any,
        /// khugepaged on text: the file is mapped to be stored to.
        TextWritten = "text_written" => if_any,
        /// Smart compaction: every region of 1 GiB holds something that cannot move.
        SmartNoRegion = "smart_no_region" => if_any,
        /// Smart compaction: the other regions have no room for the pages of the one to be emptied.
        SmartNoRoom = "smart_no_room" => if_any,
        /// Translation Ranger: no area of memory is left for the anchor of a mapping.
        RangerNoArea = "ranger_no_area" => if_any,
        /// Translation Ranger: not brought to its frame, because one of the two pages cannot move.
        RangerUnmovable = "ranger_unmovable" => if_any,
        /// Translation Ranger: not brought to its frame, because the page there is of another size.
        RangerSize = "ranger_other_size" => if_any,
        /// Quicksilver's daemon: no mapping of private memory shows all of the reservation, so that it is not filled.
        QuicksilverOutsideVma = "quicksilver_outside_vma" => if_any,
        /// Quicksilver's daemon: not filled, because some of the reservation is shared since a fork, or mapped
        /// elsewhere.
        QuicksilverNotOwn = "quicksilver_not_own" => if_any,
        /// Quicksilver's daemon: not emptied, because a page of the reservation cannot move, or no frame is free for
        /// it.
        QuicksilverUnmovable = "quicksilver_unmovable" => if_any,
        /// A hint of a page size, which this policy ignores.
        HintIgnored = "hint_ignored" => if_any,
        /// A hint of a size that is not 4 KiB, 64 KiB, 2 MiB or 32 MiB, or that the page table cannot map. 1 GiB is
        /// allowed if the policy takes it.
        HintSize = "hint_size" => if_any,
        /// A hint of a range in which no aligned page of its size lies.
        HintTooSmall = "hint_too_small" => if_any,
        /// A hint for a process that has ended since the misses were sampled that it was selected by.
        HintEnded = "hint_process_ended" => if_any,
        /// coala-khugepaged: a hint of memory that is not mapped.
        HintUnmapped = "hint_unmapped" => if_any,
        /// coala-khugepaged: a hint of memory that is a file's, or shared.
        HintNotAnonymous = "hint_not_anonymous" => if_any,
        /// coala-khugepaged: a hint of memory that the daemon may not look at, because of its advice or its rights.
        HintNotEligible = "hint_not_eligible" => if_any,
        /// coala-khugepaged: not in place, because what lies in the way cannot be moved.
        CoalaUnmovable = "coala_target_unmovable" => if_any,
        /// coala-khugepaged: not in place, because there is no room for what lies in the way.
        CoalaNoRoom = "coala_no_room" => if_any,
        /// coala-khugepaged: not in place, because pages of the range are shared.
        CoalaShared = "coala_shared" => if_any,
        /// coala-khugepaged: no fresh block of the size could be had.
        CoalaNoBlock = "coala_no_block" => if_any,
        /// Contiguous bit: the first frame is no multiple of sixteen pages.
        ContiguousMisaligned = "contiguous_misaligned" => if_any,
        /// Contiguous bit: one of the pages is in a frame elsewhere.
        ContiguousScattered = "contiguous_scattered" => if_any,
        /// Contiguous bit: the pages differ in rights, or some are the process's own and others the page cache's.
        ContiguousMixed = "contiguous_mixed" => if_any,
        /// Contiguous bit: one of the pages is a shared page of zeros.
        ContiguousZeroPage = "contiguous_zero_page" => if_any,
        /// Contiguous bit: the sixteen pages were not allocated in one block, and the bit is for those only (`folio`).
        ContiguousNoFolio = "contiguous_no_folio" => if_any,
        /// Contiguous bit: the sixteen pages do not lie in one mapping.
        ContiguousOutsideVma = "contiguous_outside_vma" => if_any,
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
    pub enum EventKind {
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
        /// Hints of page sizes taken.
        HintTaken = "hints_taken" => if_any,
        /// Hints of page sizes dropped because a later one overlaps them.
        HintReplaced = "hints_replaced" => if_any,
        /// Times that a process turned the policy's daemon on or off for itself.
        Prctl = "prctl" => if_any,
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
        /// Of these, blocks below 2 MiB.
        KhugepagedMthp = "khugepaged_mthp_collapses" => if_any,
        /// Ranges that coala-khugepaged promoted in place.
        CoalaInPlace = "coala_in_place" => if_any,
        /// Ranges that it promoted in a fresh block.
        CoalaMovedWhole = "coala_moved_whole" => if_any,
        /// Of both, those promoted to 64 KiB.
        CoalaPromoted64K = "coala_promoted_64K" => if_any,
        /// Of both, those promoted to 2 MiB.
        CoalaPromoted2M = "coala_promoted_2M" => if_any,
        /// Of both, those promoted to 32 MiB.
        CoalaPromoted32M = "coala_promoted_32M" => if_any,
        /// Ranges hinted 1 GiB that it copied into a page of that size.
        CoalaPromoted1G = "coala_promoted_1G" => if_any,
        /// Pages taken apart because a hint names a smaller size there.
        HintDemoted = "hint_demotions" => if_any,
        /// Base pages of those ranges that moved to their places.
        CoalaMoved = "coala_pages_moved" => if_any,
        /// Shared base pages that were copied there.
        CoalaCopied = "coala_pages_copied" => if_any,
        /// Base pages of others that had to make room, and pages set aside for a while.
        CoalaDisplaced = "coala_pages_displaced" => if_any,
        /// Base pages of zeros put into holes.
        CoalaFilled = "coala_pages_filled" => if_any,
        /// Runs of compaction.
        Compaction = "compaction_runs",
        /// Base pages that compaction or a daemon moved to other frames.
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
        /// Page tables of code that an address space offered to others.
        TableOffered = "page_tables_offered" => if_any,
        /// Times that an address space pointed to a page table of another.
        TableJoined = "page_tables_joined" => if_any,
        /// Shared page tables that were copied, because one of their entries changed for one address space.
        TableCopied = "page_tables_copied" => if_any,
        /// Times that an address space let go of a page table that others keep.
        TableLeft = "page_tables_left" => if_any,
        /// Mappings of code that were padded to a multiple of 2 MiB.
        Padded = "code_padded" => if_any,
        /// Pages that the padding maps.
        PaddedPages = "code_padding_pages" => if_any,
        /// Of these, pages of zeros behind the end of the file.
        PaddedZeros = "code_padding_zero_pages" => if_any,
        /// Mappings of text that a program moved onto pages of its own, as far as it can.
        TextMoved = "text_mappings_moved" => if_any,
        /// Pages of those mappings.
        TextPages = "text_pages" => if_any,
        /// Of these, pages that were moved, with what pads them.
        TextPagesMoved = "text_pages_moved" => if_any,
        /// Of these, pages that lie in huge pages.
        TextPagesHuge = "text_pages_huge" => if_any,
        /// Pages behind the end of text that moved with it.
        TextPadding = "text_padding_pages" => if_any,
        /// Blocks of the page cache that text was read into.
        TextBlock = "text_blocks" => if_any,
        /// Entries of 2 MiB that map text of the page cache.
        TextMapped = "text_mapped_2M" => if_any,
        /// Pages zeroed or read, and mapped, to complete an early promotion.
        PromotionFill = "promotion_filled_pages",
        /// Recovery from bloat: huge pages that were read for base pages of zeros.
        RecoveryScanned = "recovery_huge_pages_scanned" => if_any,
        /// Recovery from bloat: base pages of zeros whose frames were given back.
        RecoveryShared = "recovery_zero_pages" => if_any,
        /// Trident: ranges promoted to a page of 1 GiB.
        TridentPromoted1G = "trident_promoted_1G" => if_any,
        /// Runs of smart compaction, which empty a region of 1 GiB.
        SmartCompaction = "smart_compaction_runs" => if_any,
        /// Translation Ranger: base pages that moved to their free frames.
        RangerMoved = "ranger_pages_moved" => if_any,
        /// Translation Ranger: base pages that came to their frames by an exchange with the pages there.
        RangerExchanged = "ranger_pages_exchanged" => if_any,
        /// Quicksilver's daemon: reservations whose other pages it zeroed.
        QuicksilverFilled = "quicksilver_reservations_filled" => if_any,
        /// Quicksilver's daemon: pages that it zeroed for that.
        QuicksilverZeroed = "quicksilver_pages_zeroed" => if_any,
        /// Quicksilver's daemon: reservations whose pages it moved elsewhere, because they had not changed for a while.
        QuicksilverEvicted = "quicksilver_reservations_emptied" => if_any,
        /// Looks at sixteen entries of which not all mapped a page: the usual case while a range fills up.
        ContiguousPartial = "contiguous_partial" => if_any,
        /// Sixteen base pages whose entries got the contiguous bit: they translate as one page of 64 KiB.
        Contiguous64K = "contiguous_set_64k" => if_any,
        /// Sixteen pages of 2 MiB whose entries got the contiguous bit: they translate as one page of 32 MiB.
        Contiguous32M = "contiguous_set_32m" => if_any,
        /// Ranges of 64 KiB whose entries lost the contiguous bit, because an operation concerned a part of them.
        ContiguousCleared64K = "contiguous_cleared_64k" => if_any,
        /// The same of 32 MiB.
        ContiguousCleared32M = "contiguous_cleared_32m" => if_any,
        /// Flushes sent between clearing such entries and writing them without the bit.
        ContiguousFlush = "contiguous_flushes" => if_any,
        /// Pages of faults that a daemon had zeroed ahead of them.
        ZeroedAhead = "pages_zeroed_ahead" => if_any,
        /// CA paging: regions of free memory chosen, for a mapping or for the rest of one.
        CaPlaced = "ca_placements" => if_any,
        /// CA paging: pages that got the frame at the offset of their mapping.
        CaInPlace = "ca_pages_in_place" => if_any,
        /// Superpages mapped at once, out of full reservations of files.
        SuperpageMapped = "superpages_mapped",
        /// MADV_FREE calls left out because the policy says so.
        FreeSuppressed = "madv_free_suppressed",
        /// Pages mapped by fault-around beside the one that faulted.
        FaultAround = "fault_around_pages",
        /// Pages of files in memory, of any size, that mmap and exec mapped before a fault.
        MappedAhead = "pages_mapped_ahead" => if_any,
        /// Pages read into the page cache.
        PagesRead = "pages_read",
        /// Clean unmapped pages dropped from the page cache for want of memory.
        CacheDropped = "cache_dropped",
        /// Times that the daemon of reclaim began, because fewer frames were free than the low watermark.
        KswapdWake = "kswapd_wakes" => if_any,
        /// ASIDs taken from one process for another.
        AsidRecycled = "asid_recycled",
        /// Faults and mappings that failed because frames ran out.
        OutOfMemory = "out_of_memory",
        /// Mappings made for references to memory no event had mapped.
        Implicit = "implicit_mappings",
        /// References to memory outside every mapping, or against its rights.
        Violation = "segfaults",
    }
}

/// Counts of a kernel since it was made.
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
    /// Other events.
    pub events: Tally<EventKind>,
    /// Units of work, as charged by the cost model.
    pub work: Tally<WorkKind>,
    /// TLB invalidations sent.
    pub invalidations: u64,
}
