//! Events of a trace: mappings, advice, processes, threads and heap objects, in order with the memory references. The
//! simulated kernel replays them and thus builds the address spaces that the program had.

use mmulab_addr::{PageOrder, Pfn, Pid, Prot, Tid, VirtAddr};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Contents of a mapping.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backing {
    /// Zeroed memory of the program's own.
    Anon,
    /// A file from `offset` bytes on.
    File {
        /// Its path when the program ran; two mappings of equal paths share one page cache.
        path: Arc<str>,
        /// Offset of the mapping's first byte in it.
        offset: u64,
    },
}

/// How a mapping was asked for.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct MapFlags {
    /// MAP_SHARED: stores reach the file and other mappers.
    pub shared: bool,
    /// MAP_GROWSDOWN: a stack, grown by faults below it.
    pub grows_down: bool,
    /// MAP_POPULATE or MAP_LOCKED: all pages are faulted in at once.
    pub populate: bool,
    /// MAP_HUGETLB with its size.
    pub hugetlb: Option<PageOrder>,
    /// Mapped alike in every address space, its PTEs marked global (x86-64 G bit): kernel text in a text trace.
    pub global: bool,
    /// A name for reports when no file gives one: `[stack]`, `[vdso]`.
    pub label: Option<Arc<str>>,
}

/// Advice of madvise(2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Advice {
    /// MADV_HUGEPAGE.
    Hugepage,
    /// MADV_NOHUGEPAGE.
    Nohugepage,
    /// MADV_COLLAPSE.
    Collapse,
    /// MADV_DONTNEED: contents are gone at once.
    Dontneed,
    /// MADV_FREE: contents may go when memory is short.
    Free,
    /// MADV_WILLNEED.
    Willneed,
    /// This memory should be translated by pages of this size. No Linux has this: it is the extended madvise(2) of
    /// Elastic Translations (paper 3, section IV-D).
    #[serde(rename = "page-size")]
    PageSize(PageOrder),
    /// Any other number, carried for completeness.
    Other(i32),
}

impl Advice {
    /// MADV_POPULATE_READ (include/uapi/asm-generic/mman-common.h): pages are faulted in, as by MAP_POPULATE.
    pub const POPULATE_READ: Self = Self::Other(22);
    /// MADV_POPULATE_WRITE: the same, for stores.
    pub const POPULATE_WRITE: Self = Self::Other(23);
}

/// A loadable segment (PT_LOAD) of an ELF file, as the file's program headers say. Addresses and lengths are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ImageSegment {
    /// Where it belongs in memory, before the file is moved (p_vaddr).
    pub address: u64,
    /// Bytes in memory (p_memsz).
    pub bytes: u64,
    /// Where it is in the file (p_offset).
    pub offset: u64,
    /// Bytes in the file; the rest is zero (p_filesz).
    pub file_bytes: u64,
    /// Its rights (p_flags).
    pub prot: Prot,
    /// Its alignment by the linker (p_align).
    pub align: u64,
}

/// Alignment of memory from malloc if the program requests none: the largest type's alignment (C's `max_align_t`) on
/// all instruction sets known here.
pub const MALLOC_ALIGN: u64 = 16;

/// Event of an address space, a thread or the machine, in order with the references.
///
/// Lengths are in bytes. Ranges need not be page-aligned in a trace; the kernel rounds as Linux does.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// The process and thread that act from here on. A trace starts as process 1, thread 1.
    Switch {
        /// Process.
        pid: Pid,
        /// Thread, unique in the trace.
        tid: Tid,
    },
    /// Contents of the ELF file at `path`, before it is mapped: mappings cover whole pages, and do not state where in a
    /// page a segment begins and ends. The event changes nothing.
    Image {
        /// Its path, as mappings name it.
        path: Arc<str>,
        /// Its loadable segments.
        segments: Vec<ImageSegment>,
    },
    /// A mapping appears, replacing what was there.
    Mmap {
        /// First address.
        addr: VirtAddr,
        /// Bytes.
        len: u64,
        /// Rights.
        prot: Prot,
        /// Everything else that was asked.
        flags: MapFlags,
        /// Its contents.
        backing: Backing,
    },
    /// Mappings go.
    Munmap {
        /// First address.
        addr: VirtAddr,
        /// Bytes.
        len: u64,
    },
    /// Rights change.
    Mprotect {
        /// First address.
        addr: VirtAddr,
        /// Bytes.
        len: u64,
        /// The new rights.
        prot: Prot,
    },
    /// A mapping moves or changes size; pages move with it.
    Mremap {
        /// Where it was.
        old: VirtAddr,
        /// Its old length.
        old_len: u64,
        /// Where it is now.
        new: VirtAddr,
        /// Its new length.
        new_len: u64,
        /// MREMAP_DONTUNMAP: the old range stays, empty.
        keep_old: bool,
    },
    /// Advice on a range.
    Madvise {
        /// First address.
        addr: VirtAddr,
        /// Bytes.
        len: u64,
        /// The advice.
        advice: Advice,
    },
    /// The brk heap is now `start..end`.
    Brk {
        /// Where it begins.
        start: VirtAddr,
        /// Where it ends.
        end: VirtAddr,
    },
    /// The allocator returned memory to the program. The event changes nothing: other events contain the allocator's
    /// own system calls.
    Malloc {
        /// First address.
        addr: VirtAddr,
        /// Bytes asked for.
        len: u64,
        /// The requested alignment of `addr`: a power of two, 16 if none was requested.
        align: u64,
    },
    /// The program frees memory. The event comes before the allocator is called.
    Free {
        /// The address it was given.
        addr: VirtAddr,
    },
    /// Memory has a name for reports from here on: the place in the program that asked for it, or the thread whose
    /// stack it is. The event changes nothing else. A name stays with its memory until that is unmapped or named anew,
    /// and moves with it (mremap). The whole pages in the range have the name; files keep their own.
    Name {
        /// First address.
        addr: VirtAddr,
        /// Bytes.
        len: u64,
        /// The name, as `table_new (table.c:42)`; empty: no name any more.
        name: Arc<str>,
    },
    /// A new process, a copy of the acting one (copy on write).
    Fork {
        /// The child.
        child: Pid,
        /// vfork or CLONE_VM without CLONE_THREAD: the child borrows the address space until it execs or exits.
        shares_memory: bool,
    },
    /// A new thread of the acting process.
    Clone {
        /// The thread.
        child: Tid,
    },
    /// The acting process starts another program: its address space is emptied.
    Exec {
        /// The program.
        path: Arc<str>,
    },
    /// The acting thread ends.
    ExitThread,
    /// The acting process ends.
    Exit {
        /// Its exit status.
        status: i32,
    },
    /// The acting process turns the policy's own daemon for larger pages on for itself, or off. No Linux has this.
    /// It is the switch of Elastic Translations, which paper 3's artifact sets by a tool named `prctl`. Fork and exec
    /// keep it.
    Prctl {
        /// Whether the daemon serves the process from here on.
        daemon: bool,
    },
    /// The thread runs on this processor from here on, modulo those that there are (sched_setaffinity(2) with one of
    /// them).
    Pin {
        /// The thread: any, not only the acting one.
        tid: Tid,
        /// The processor, from 0.
        cpu: u16,
    },
    /// INVLPG: the page's translation is dropped from the acting core's TLBs.
    Invlpg {
        /// Any address in it.
        addr: VirtAddr,
    },
    /// Pages of the acting address space lie in these frames from here on, as the system that was recorded had them.
    /// Nothing changes by it: a simulated kernel chooses frames of its own.
    Frames {
        /// The first page's address.
        addr: VirtAddr,
        /// The first page's frame, in units of 4 KiB.
        pfn: Pfn,
        /// The size of the pages, by the level of the table that maps them.
        size: PageOrder,
        /// How many pages follow each other, each in the frame after the one before.
        count: u64,
    },
    /// The daemons of the operating system run.
    Tick,
    /// The trace proper begins here. Before it are events, and references that retire no instructions: they make the
    /// state that the program had reached where the trace was cut. Counts cover the rest.
    Resume,
    /// The recording pauses. All up to [`Self::Continue`] stands for a part of the program that was left out: events,
    /// and references that retire no instructions, as before [`Self::Resume`]. None of it is counted.
    Pause,
    /// The recording goes on.
    Continue {
        /// Instructions left out since it paused.
        left_out: u64,
    },
    /// The recorder lost something here; reports repeat it.
    Lost {
        /// The lost part and the reason.
        what: Arc<str>,
    },
}
