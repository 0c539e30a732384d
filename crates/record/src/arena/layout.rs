//! Layout of the shared memory: the header, a place of the ring, a slot, and the number of each. The memory is mapped
//! by these sizes, and each part finds its place by them.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes for the settings.
pub const SETTINGS: usize = 256 * 1024;
/// Told by the first word, so that a plugin of another version is refused: a name, and how long the header is.
pub const LAYOUT: u64 = u64::from_le_bytes(*b"mmulab\0\0") | (size_of::<Header>() as u64) << 48;

/// Counters, and what threads wait on.
#[repr(C)]
pub struct Header {
    pub(super) layout: AtomicU64,
    pub(super) settings_len: AtomicU64,
    /// Whether the launcher takes what is given: 0 once it does not.
    pub(super) open: AtomicU32,
    /// The program's process, and how it ended: wait(2)'s status and [`ENDED`]. The watcher writes them.
    pub(super) main_pid: AtomicU32,
    pub(super) main_status: AtomicU32,
    /// Whether no recorded process is left: the watcher's too.
    pub(super) empty: AtomicU32,
    /// Processes of which nothing could be recorded, and messages that could not be given.
    pub(super) unseen: AtomicU32,
    pub(super) unsaid: AtomicU32,
    /// The next process's number.
    pub next_pid: AtomicU32,
    /// The next thread's number.
    pub next_tid: AtomicU32,
    /// The next program image's number.
    pub next_image: AtomicU32,
    pub(super) next_slot: AtomicU32,
    pub(super) next_buffer: AtomicU32,
    /// Guards the list of free buffers.
    pub(super) free_lock: AtomicU32,
    /// First free buffer, and 1; each free buffer's first word holds the next's number and 1.
    pub(super) free: AtomicU32,
    /// Given buffers the launcher has not taken yet.
    pub(super) waiting: AtomicU32,
    /// Descriptors given, and taken.
    pub(super) head: AtomicU64,
    pub(super) tail: AtomicU64,
    /// Counts up whenever something was given: the launcher waits on it.
    pub(super) given: AtomicU32,
    /// Counts up whenever something was taken: threads wait on it.
    pub(super) taken: AtomicU32,
    /// Images that no longer use the memory they were made with, by number modulo the count: a number, and 1.
    pub(super) left: [AtomicU32; LEAVERS],
}

/// Marks a status as known; wait(2)'s take 16 bits.
pub const ENDED: u32 = 1 << 31;

/// Images that may be waited for at once.
pub const LEAVERS: usize = 256;

impl Default for Header {
    fn default() -> Self {
        // SAFETY: it is made of atomics, for which zero bytes are valid.
        unsafe { std::mem::zeroed() }
    }
}

/// Descriptors in the ring; a power of two.
pub const RING: u64 = 4096;

/// An item that was handed over, as the ring has it.
#[repr(C)]
#[derive(Default)]
pub struct Descriptor {
    /// Its number in the order of all, and 1, once it is filled.
    pub(super) ready: AtomicU64,
    pub(super) from: AtomicU64,
    pub(super) slot: AtomicU32,
    pub(super) count: AtomicU32,
    /// Kind of the item, and whether it is the last of its buffer at bit 8.
    pub(super) kind: AtomicU32,
    _pad: u32,
}

/// Threads that one recording may have, those that ended included.
pub const MOST_SLOTS: u32 = 1 << 18;

/// One thread, or one image's list of blocks.
#[repr(C)]
#[derive(Default)]
pub struct Slot {
    /// Where the next word goes, counted in words from the first buffer. Only the thread itself changes it.
    pub next: AtomicU64,
    /// Up to where its words were given away.
    pub(super) taken: AtomicU64,
    /// Guards `taken`, and `next` when it moves to another buffer.
    pub(super) lock: AtomicU32,
    /// The image it belongs to.
    pub image: AtomicU32,
    /// The thread's number; 0 for a list of blocks.
    pub tid: AtomicU32,
    /// Whether it can still get words.
    pub(super) open: AtomicU32,
}

/// Words of a buffer: 256 KiB, which stays in a core's second-level cache on its way.
pub const BUFFER_WORDS: u64 = 32 * 1024;
/// Words a thread writes before it takes another buffer. The rest leaves room for the accesses of one block, so that
/// buffers end between blocks. A block with more accesses is written in two pieces.
pub const FULL_WORDS: u64 = BUFFER_WORDS - 1024;
/// Bytes that a message may have: one buffer's.
pub const MESSAGE_BYTES: usize = BUFFER_WORDS as usize * 8;
/// Buffers at most: one for each thread that lives, and those that wait.
pub const BUFFERS: u64 = 32 * 1024;

const fn align(bytes: usize) -> usize {
    bytes.next_multiple_of(4096)
}
// Bytes from the front: settings follow the header, and the buffers come last.
pub const SETTINGS_AT: usize = align(size_of::<Header>());
pub const RING_AT: usize = SETTINGS_AT + align(SETTINGS);
pub const SLOTS_AT: usize = RING_AT + align(RING as usize * size_of::<Descriptor>());
pub const BUFFERS_AT: usize = SLOTS_AT + align(MOST_SLOTS as usize * size_of::<Slot>());
pub const BYTES: usize = BUFFERS_AT + (BUFFERS * BUFFER_WORDS) as usize * 8;
