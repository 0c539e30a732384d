//! Kernel work by kind: what the cost table of a machine has prices for.

use super::tally::named;

named! {
    /// A unit of kernel work that the machine's cost table prices.
    pub enum WorkKind {
        /// A system call entered and left.
        Syscall = "syscall",
        /// A page fault entered and left.
        FaultEntry = "fault_entry",
        /// A byte zeroed.
        ZeroBytes = "zero_bytes",
        /// A byte of free memory zeroed by a daemon, ahead of the faults that will want it.
        ZeroBytesAhead = "zero_bytes_ahead" => if_any,
        /// A byte read by a daemon that looks for pages of zeros.
        ScanBytes = "scan_bytes" => if_any,
        /// A byte copied.
        CopyBytes = "copy_bytes",
        /// A base frame taken from or given to the allocator.
        BaseFrame = "base_frame",
        /// A block larger than a base frame taken from or given to the allocator.
        LargeBlock = "large_block",
        /// A page taken from or given to the hugetlb pool.
        PoolPage = "pool_page",
        /// A page-table frame taken or given back.
        TableFrame = "table_frame",
        /// Two levels of a page table merged into one, or taken apart again.
        TableMerge = "table_merge",
        /// A line of a hashed page table moved to another place.
        TableLine = "table_line",
        /// A page-table entry looked at by a daemon.
        EntryScan = "entry_scan",
        /// A page-table entry written.
        EntryWrite = "entry_write",
        /// A byte read from storage into the page cache.
        ReadBytes = "read_bytes",
        /// An invalidation of one page sent.
        FlushPage = "flush_page",
        /// An invalidation of a range sent.
        FlushRange = "flush_range",
        /// An invalidation of a whole address space sent.
        FlushSpace = "flush_space",
        /// A switch of address space.
        SpaceSwitch = "space_switch",
    }
}
