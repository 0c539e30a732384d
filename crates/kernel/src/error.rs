//! Kernel errors: page faults that kill the program (SIGSEGV, out of memory), and reasons why a kernel cannot start
//! or continue. Messages name the process and the address, or the key of the description.

use crate::adviser::Sizes;
use mmulab_addr::{PageOrder, Pid, VirtAddr};
use thiserror::Error;

/// Kind of memory that ran out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// A block of frames for a program's page.
    Page(PageOrder),
    /// A frame for a page table.
    Table,
    /// A page of the hugetlb pool, for a copy.
    Pool(PageOrder),
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Page(order) => write!(f, "a page of {order}"),
            Self::Table => write!(f, "a page-table page"),
            Self::Pool(order) => write!(f, "a page of the {order} hugetlb pool for a copy-on-write"),
        }
    }
}

/// Why a fault could not be served: the program would have been killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FaultError {
    /// No mapping holds the address (SIGSEGV, SEGV_MAPERR).
    #[error("process {pid} accessed {va}, which no mapping contains")]
    Unmapped {
        /// The process.
        pid: Pid,
        /// The address.
        va: VirtAddr,
    },
    /// The mapping does not allow the access (SIGSEGV, SEGV_ACCERR).
    #[error("process {pid} accessed {va}, but the protection of the mapping forbids this access")]
    Protection {
        /// The process.
        pid: Pid,
        /// The address.
        va: VirtAddr,
    },
    /// The adviser wants a size that cannot be mapped.
    #[error("the adviser asked for a page of {size} at {va} of process {pid}: the sizes there are {sizes}")]
    Advised {
        /// The process.
        pid: Pid,
        /// The address.
        va: VirtAddr,
        /// The size requested.
        size: PageOrder,
        /// The sizes that can be mapped there.
        sizes: Sizes,
    },
    /// The adviser itself failed.
    #[error("the adviser failed at the fault at {va} of process {pid}")]
    Adviser {
        /// The process.
        pid: Pid,
        /// The address.
        va: VirtAddr,
    },
    /// Frames ran out (SIGBUS or the OOM killer).
    #[error(
        "out of memory: {wanted} for {va} of process {pid}, with {free_frames} frames free: give the machine more \
         memory (memory.size), or less fragmentation"
    )]
    OutOfMemory {
        /// The process.
        pid: Pid,
        /// The address.
        va: VirtAddr,
        /// The memory requested.
        wanted: Wanted,
        /// Frames free at that time, in blocks too small or reserved.
        free_frames: u64,
    },
}

/// Why a kernel could not be made, or could not go on.
#[derive(Debug, Error)]
pub enum KernelError {
    /// The description contradicts itself or the machine.
    #[error("{key}: {message}")]
    Description {
        /// The key of the description.
        key: String,
        /// The fault and the remedy.
        message: String,
    },
    /// The physical memory could not be laid out.
    #[error(transparent)]
    Memory(#[from] mmulab_frames::MemoryError),
    /// The page table could not be made.
    #[error("page table: {0}")]
    Table(String),
    /// Frames ran out while an event was obeyed.
    #[error(transparent)]
    OutOfMemory(#[from] FaultError),
    /// The adviser failed at a tick, or asked for what cannot be done.
    #[error("{0}")]
    Adviser(String),
    /// The program was recorded on a kernel with smaller base pages.
    #[error(
        "process {pid} maps memory at {va} from offset {offset:#x}, which are no multiples of this kernel's base page \
         of {base}: record the program with --page-size {base}, or take a page table with smaller base pages"
    )]
    SmallerPages {
        /// The process.
        pid: Pid,
        /// Where it maps.
        va: VirtAddr,
        /// The offset in a file that it maps from; 0 of none.
        offset: u64,
        /// The base page.
        base: PageOrder,
    },
    /// Too many processes or files for the simulation's numbering.
    #[error("more than {limit} {what} in one run")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
}
