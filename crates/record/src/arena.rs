//! The memory that the launcher and all recorded processes share: what the programs did, on its way into the trace.
//!
//! It is a memory file of the launcher's, so what a process has written is still there when a signal ends it, and
//! nothing of the recorder's needs to run on in a process that forks or dies. Its parts:
//!
//! - a header of counters, with the settings as JSON;
//! - a ring of descriptors, which the launcher takes in the order they were given: that order is the trace's;
//! - a slot per thread: where its next word goes and what of it was given already;
//! - buffers of words. Each thread has one of its own and gives it away when full, so that no number of threads can
//!   leave one without.
//!
//! The file is sparse: only what was touched takes memory.

use crate::process::is_alive;
use std::{
    fs::File,
    io,
    marker::PhantomData,
    os::fd::{AsRawFd, FromRawFd},
    path::Path,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

/// Words of a buffer: 256 KiB, which stays in a core's second-level cache on its way.
pub const BUFFER_WORDS: u64 = 32 * 1024;
/// Words a thread writes before it takes another buffer. The rest leaves room for the accesses of one block, so that
/// buffers end between blocks (a block with more accesses is told in two pieces).
pub const FULL_WORDS: u64 = BUFFER_WORDS - 1024;
/// Buffers at most: one for each thread that lives, and those that wait.
const BUFFERS: u64 = 32 * 1024;
/// Full buffers that may wait for the launcher before threads wait for it.
const MOST_WAITING: u32 = 16;
/// Threads that one recording may have, those that ended included.
pub const MOST_SLOTS: u32 = 1 << 18;
/// Descriptors in the ring; a power of two.
const RING: u64 = 4096;
/// Bytes for the settings.
const SETTINGS: usize = 256 * 1024;
/// Told by the first word, so that a plugin of another version is refused: a name, and how long the header is.
const LAYOUT: u64 = u64::from_le_bytes(*b"mmulab\0\0") | (size_of::<Header>() as u64) << 48;

/// Counters, and what threads wait on.
#[repr(C)]
pub struct Header {
    layout: AtomicU64,
    settings_len: AtomicU64,
    /// The launcher's process; 0 once it takes no more.
    launcher: AtomicU32,
    /// The next process's number.
    pub next_pid: AtomicU32,
    /// The next thread's number.
    pub next_tid: AtomicU32,
    /// The next program image's number.
    pub next_image: AtomicU32,
    next_slot: AtomicU32,
    next_buffer: AtomicU32,
    /// Guards the list of free buffers.
    free_lock: AtomicU32,
    /// First free buffer, and 1; each free buffer's first word holds the next's number and 1.
    free: AtomicU32,
    /// Given buffers the launcher has not taken yet.
    waiting: AtomicU32,
    /// Descriptors given, and taken.
    head: AtomicU64,
    tail: AtomicU64,
    /// Counts up whenever something was given: the launcher waits on it.
    given: AtomicU32,
    /// Counts up whenever something was taken: threads wait on it.
    taken: AtomicU32,
    /// Images that no longer use the memory they were made with, by number modulo the count: a number, and 1.
    left: [AtomicU32; LEAVERS],
}

/// Images that may be waited for at once.
const LEAVERS: usize = 256;

impl Default for Header {
    fn default() -> Self {
        // SAFETY: it is made of atomics, for which zero bytes are valid.
        unsafe { std::mem::zeroed() }
    }
}

/// One thread, or one image's list of blocks.
#[repr(C)]
#[derive(Default)]
pub struct Slot {
    /// Where the next word goes, counted in words from the first buffer. Only the thread itself changes it.
    pub next: AtomicU64,
    /// Up to where its words were given away.
    taken: AtomicU64,
    /// Guards `taken`, and `next` when it moves to another buffer.
    lock: AtomicU32,
    /// The image it belongs to.
    pub image: AtomicU32,
    /// The thread's number; 0 for a list of blocks.
    pub tid: AtomicU32,
    /// Whether it can still get words.
    open: AtomicU32,
}

/// What a descriptor hands over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum What {
    /// Words of a thread: blocks and accesses, in the form of [`crate::words`].
    Words = 1,
    /// Definitions of blocks: two words each.
    Blocks = 2,
    /// A [`crate::Message`] as JSON; `to` counts bytes.
    Message = 3,
}

impl What {
    fn from_bits(bits: u32) -> Option<Self> {
        [Self::Words, Self::Blocks, Self::Message].into_iter().find(|&w| w as u32 == bits)
    }
}

/// A stretch of a buffer, handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handover {
    /// What it is.
    pub what: What,
    /// Whose.
    pub slot: u32,
    /// First word, counted from the first buffer.
    pub from: u64,
    /// Words (for a message: bytes).
    pub count: u32,
    /// Whether the giver is done with the buffer.
    pub last: bool,
}

#[repr(C)]
#[derive(Default)]
struct Descriptor {
    /// Its number in the order of all, and 1, once it is filled.
    ready: AtomicU64,
    from: AtomicU64,
    slot: AtomicU32,
    count: AtomicU32,
    /// [`What`], and whether it is the last of its buffer at bit 8.
    kind: AtomicU32,
    _pad: u32,
}

const fn align(bytes: usize) -> usize {
    bytes.next_multiple_of(4096)
}
const SETTINGS_AT: usize = align(size_of::<Header>());
const RING_AT: usize = SETTINGS_AT + align(SETTINGS);
const SLOTS_AT: usize = RING_AT + align(RING as usize * size_of::<Descriptor>());
const BUFFERS_AT: usize = SLOTS_AT + align(MOST_SLOTS as usize * size_of::<Slot>());
const BYTES: usize = BUFFERS_AT + (BUFFERS * BUFFER_WORDS) as usize * 8;

/// The shared memory, mapped for as long as this process lives (recorded processes) or until it is dropped (launcher).
pub struct Arena {
    base: *mut u8,
    /// The launcher's memory file; it lives as long as the launcher's arena.
    file: Option<File>,
    _not_copied: PhantomData<*mut u8>,
}

// SAFETY: everything in it is atomic, or words that are handed over by atomics.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Makes the memory, with `settings` for whoever opens it.
    ///
    /// # Errors
    /// The system has no room, or the settings are too long for the place kept for them.
    pub fn create(settings: &[u8]) -> io::Result<Self> {
        if settings.len() > SETTINGS {
            return Err(io::Error::other(format!(
                "a command line of {} bytes is longer than {SETTINGS}",
                settings.len()
            )));
        }
        // SAFETY: a name that ends in a zero byte; the descriptor returned is new and owned here.
        let file = unsafe {
            let fd = libc::memfd_create(c"mmulab-record".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from_raw_fd(fd)
        };
        file.set_len(BYTES as u64)?;
        let this = Self { base: map(&file)?, file: Some(file), _not_copied: PhantomData };
        // SAFETY: nobody else knows the memory yet, and the place is long enough.
        unsafe { std::ptr::copy_nonoverlapping(settings.as_ptr(), this.base.add(SETTINGS_AT), settings.len()) };
        let header = this.header();
        header.settings_len.store(settings.len() as u64, Ordering::Relaxed);
        for first in [&header.next_pid, &header.next_tid] {
            // The first process and thread, and the first image, are known to all.
            first.store(2, Ordering::Relaxed);
        }
        header.next_image.store(1, Ordering::Relaxed);
        header.launcher.store(std::process::id(), Ordering::Relaxed);
        header.layout.store(LAYOUT, Ordering::Release);
        Ok(this)
    }

    /// The launcher's: from here on nothing is taken. Threads that wait for room end their processes.
    pub fn close(&self) {
        self.header().launcher.store(0, Ordering::Release);
        self.announce();
    }

    /// Ends this process if nobody will ever make room: the launcher is done, or gone.
    fn give_up_if_abandoned(&self) {
        let launcher = self.header().launcher.load(Ordering::Acquire);
        if launcher == 0 || !is_alive(launcher) {
            // SAFETY: ends the process at once; what it shares with others is left as it is.
            unsafe { libc::_exit(0) };
        }
    }

    /// Where other processes of this user find the memory.
    pub fn path(&self) -> String {
        let fd = self.file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        format!("/proc/{}/fd/{fd}", std::process::id())
    }

    /// Maps the memory that a launcher made.
    ///
    /// # Errors
    /// It is not there, or of another version.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        if file.metadata()?.len() != BYTES as u64 {
            return Err(io::Error::other("it is of another version than this plugin"));
        }
        let this = Self { base: map(&file)?, file: None, _not_copied: PhantomData };
        if this.header().layout.load(Ordering::Acquire) != LAYOUT {
            return Err(io::Error::other("it is of another version than this plugin"));
        }
        Ok(this)
    }

    /// The counters.
    pub fn header(&self) -> &Header {
        // SAFETY: the header is at the front, is made of atomics, and zero bytes are valid.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// The settings the launcher left.
    pub fn settings(&self) -> &[u8] {
        let len = (self.header().settings_len.load(Ordering::Relaxed) as usize).min(SETTINGS);
        // SAFETY: they were written before the layout word, and are not changed.
        unsafe { std::slice::from_raw_parts(self.base.add(SETTINGS_AT), len) }
    }

    fn descriptor(&self, number: u64) -> &Descriptor {
        let at = RING_AT + (number % RING) as usize * size_of::<Descriptor>();
        // SAFETY: inside the mapping, made of atomics.
        unsafe { &*self.base.add(at).cast::<Descriptor>() }
    }

    /// The slot of this number.
    ///
    /// # Panics
    /// There is none: numbers come from [`Arena::new_slot`].
    pub fn slot(&self, number: u32) -> &Slot {
        assert!(number < MOST_SLOTS);
        // SAFETY: inside the mapping, made of atomics.
        unsafe { &*self.base.add(SLOTS_AT + number as usize * size_of::<Slot>()).cast::<Slot>() }
    }

    /// Slots that were made so far.
    pub fn slots(&self) -> u32 {
        self.header().next_slot.load(Ordering::Acquire).min(MOST_SLOTS)
    }

    /// Where the first word of the first buffer is.
    pub fn words(&self) -> *mut u64 {
        // SAFETY: inside the mapping.
        unsafe { self.base.add(BUFFERS_AT).cast::<u64>() }
    }

    /// The words of a stretch that was handed over, or drained.
    pub fn stretch(&self, from: u64, count: u32) -> &[u64] {
        let from = from.min(BUFFERS * BUFFER_WORDS);
        let count = u64::from(count).min(BUFFERS * BUFFER_WORDS - from);
        // SAFETY: inside the mapping; words that were handed over are not written again before the buffer is given back.
        unsafe { std::slice::from_raw_parts(self.words().add(from as usize), count as usize) }
    }

    /// The bytes of a message that was handed over.
    pub fn message(&self, from: u64, bytes: u32) -> &[u8] {
        let words = self.stretch(from, bytes.div_ceil(8));
        // SAFETY: the same memory, as bytes.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), bytes as usize) }
    }

    /// A new slot for thread `tid` of `image` (tid 0: for its blocks), with an empty buffer; `None` when there are too
    /// many threads.
    pub fn new_slot(&self, image: u32, tid: u32) -> Option<u32> {
        let number = self.header().next_slot.fetch_add(1, Ordering::AcqRel);
        if number >= MOST_SLOTS {
            self.header().next_slot.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let buffer = self.take_buffer()?;
        let slot = self.slot(number);
        slot.next.store(buffer, Ordering::Relaxed);
        slot.taken.store(buffer, Ordering::Relaxed);
        slot.image.store(image, Ordering::Relaxed);
        slot.tid.store(tid, Ordering::Relaxed);
        slot.open.store(1, Ordering::Release);
        Some(number)
    }

    /// An empty buffer's first word; `None` when there is none left.
    fn take_buffer(&self) -> Option<u64> {
        let header = self.header();
        let freed = {
            let _guard = Guard::new(&header.free_lock);
            header.free.load(Ordering::Relaxed).checked_sub(1).inspect(|&first| {
                // SAFETY: a free buffer belongs to whoever holds the lock.
                let next = unsafe { *self.words().add((u64::from(first) * BUFFER_WORDS) as usize) };
                header.free.store(next as u32, Ordering::Relaxed);
            })
        };
        let number = freed.or_else(|| {
            let new = header.next_buffer.fetch_add(1, Ordering::Relaxed);
            if u64::from(new) >= BUFFERS {
                header.next_buffer.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
            Some(new)
        })?;
        Some(u64::from(number) * BUFFER_WORDS)
    }

    /// Gives back the buffer that word `at` is in.
    pub fn free_buffer(&self, at: u64) {
        let header = self.header();
        let number = at / BUFFER_WORDS;
        let _guard = Guard::new(&header.free_lock);
        // SAFETY: the buffer belongs to the caller, and is free from here on.
        unsafe { *self.words().add((number * BUFFER_WORDS) as usize) = u64::from(header.free.load(Ordering::Relaxed)) };
        header.free.store(number as u32 + 1, Ordering::Relaxed);
    }

    /// The next place in the ring.
    fn reserve(&self) -> u64 {
        self.header().head.fetch_add(1, Ordering::AcqRel)
    }

    /// Fills the place `number` of the ring, waiting while the ring is full.
    fn give(&self, number: u64, handover: Handover) {
        let header = self.header();
        while number - header.tail.load(Ordering::Acquire) >= RING {
            let seen = header.taken.load(Ordering::Acquire);
            if number - header.tail.load(Ordering::Acquire) >= RING {
                wait(&header.taken, seen, Duration::from_millis(100));
                self.give_up_if_abandoned();
            }
        }
        let d = self.descriptor(number);
        d.from.store(handover.from, Ordering::Relaxed);
        d.slot.store(handover.slot, Ordering::Relaxed);
        d.count.store(handover.count, Ordering::Relaxed);
        d.kind.store(handover.what as u32 | u32::from(handover.last) << 8, Ordering::Relaxed);
        d.ready.store(number + 1, Ordering::Release);
        header.given.fetch_add(1, Ordering::Release);
        wake(&header.given);
    }

    /// Gives away the words of `slot` so far; whoever does it. `full`: the thread itself, to go on in an empty buffer;
    /// waits while too much waits. `before` is called once it is settled which words go, to give away what they need.
    ///
    /// Returns whether the slot can take more words.
    pub fn give_words(&self, number: u32, full: bool, before: impl FnOnce()) -> bool {
        let (slot, header) = (self.slot(number), self.header());
        let what = if slot.tid.load(Ordering::Relaxed) == 0 { What::Blocks } else { What::Words };
        if full {
            while header.waiting.load(Ordering::Acquire) >= MOST_WAITING {
                let seen = header.taken.load(Ordering::Acquire);
                if header.waiting.load(Ordering::Acquire) >= MOST_WAITING {
                    wait(&header.taken, seen, Duration::from_millis(100));
                    self.give_up_if_abandoned();
                }
            }
        }
        let guard = Guard::new(&slot.lock);
        let next = slot.next.load(Ordering::Acquire);
        let from = slot.taken.load(Ordering::Relaxed);
        let count = next.saturating_sub(from) as u32;
        before();
        if full {
            let Some(buffer) = self.take_buffer() else { return false };
            header.waiting.fetch_add(1, Ordering::AcqRel);
            slot.taken.store(buffer, Ordering::Relaxed);
            slot.next.store(buffer, Ordering::Release);
        } else if count == 0 {
            return true;
        } else {
            slot.taken.store(next, Ordering::Relaxed);
        }
        // The order of a slot's stretches is settled under its lock; waiting for room is not done under it.
        let place = self.reserve();
        drop(guard);
        self.give(place, Handover { what, slot: number, from, count, last: full });
        true
    }

    /// There is no buffer left: what the slot holds is lost, and its buffer used again.
    pub fn rewind(&self, number: u32) {
        let slot = self.slot(number);
        let _guard = Guard::new(&slot.lock);
        let start = slot.next.load(Ordering::Relaxed) / BUFFER_WORDS * BUFFER_WORDS;
        slot.taken.store(start, Ordering::Relaxed);
        slot.next.store(start, Ordering::Release);
    }

    /// The thread ends, its last words having been given away: gives away its buffer.
    pub fn retire_slot(&self, number: u32) {
        let slot = self.slot(number);
        if slot.open.swap(0, Ordering::AcqRel) == 0 {
            return;
        }
        let guard = Guard::new(&slot.lock);
        let (next, from) = (slot.next.load(Ordering::Acquire), slot.taken.load(Ordering::Relaxed));
        slot.taken.store(next, Ordering::Relaxed);
        self.header().waiting.fetch_add(1, Ordering::AcqRel);
        let place = self.reserve();
        drop(guard);
        let count = next.saturating_sub(from) as u32;
        self.give(place, Handover { what: What::Words, slot: number, from, count, last: true });
    }

    /// The image `number` runs another program or ends: whoever made it by vfork may go on.
    pub fn leave(&self, number: u32) {
        let place = &self.header().left[number as usize % LEAVERS];
        place.store(number + 1, Ordering::Release);
        wake(place);
    }

    /// Waits up to `patience` for the image `number` to leave; whether it did.
    pub fn wait_for_leaving(&self, number: u32, patience: Duration) -> bool {
        let place = &self.header().left[number as usize % LEAVERS];
        let seen = place.load(Ordering::Acquire);
        if seen != number + 1 {
            wait(place, seen, patience);
        }
        place.load(Ordering::Acquire) == number + 1
    }

    /// Gives away a message of the thread in `slot`; it is lost if no buffer can hold it.
    pub fn give_message(&self, slot: u32, bytes: &[u8]) -> bool {
        if bytes.len() as u64 > BUFFER_WORDS * 8 {
            return false;
        }
        let Some(buffer) = self.take_buffer() else { return false };
        // SAFETY: the buffer is ours, and long enough.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.words().add(buffer as usize).cast::<u8>(), bytes.len());
        }
        self.give(
            self.reserve(),
            Handover { what: What::Message, slot, from: buffer, count: bytes.len() as u32, last: true },
        );
        true
    }

    /// Whether the slot is in use.
    pub fn is_open(&self, number: u32) -> bool {
        self.slot(number).open.load(Ordering::Acquire) == 1
    }

    /// The launcher's: the next descriptor, waiting up to `patience` for one.
    pub fn take(&self, patience: Duration) -> Option<Handover> {
        let header = self.header();
        let number = header.tail.load(Ordering::Relaxed);
        let d = self.descriptor(number);
        if d.ready.load(Ordering::Acquire) != number + 1 {
            let seen = header.given.load(Ordering::Acquire);
            if d.ready.load(Ordering::Acquire) != number + 1 {
                wait(&header.given, seen, patience);
            }
            if d.ready.load(Ordering::Acquire) != number + 1 {
                return None;
            }
        }
        let kind = d.kind.load(Ordering::Relaxed);
        let found = Handover {
            what: What::from_bits(kind & 0xff)?,
            slot: d.slot.load(Ordering::Relaxed),
            from: d.from.load(Ordering::Relaxed),
            count: d.count.load(Ordering::Relaxed),
            last: kind >> 8 != 0,
        };
        header.tail.store(number + 1, Ordering::Release);
        self.announce();
        Some(found)
    }

    /// The launcher's: whether a thread has begun to give something and not finished: if it died so, [`Arena::skip`].
    pub fn is_stuck(&self) -> bool {
        let header = self.header();
        header.head.load(Ordering::Acquire) > header.tail.load(Ordering::Relaxed)
    }

    /// The launcher's: gives up waiting for a descriptor whose giver died.
    pub fn skip(&self) {
        let header = self.header();
        header.tail.fetch_add(1, Ordering::Release);
        self.announce();
    }

    fn announce(&self) {
        self.header().taken.fetch_add(1, Ordering::Release);
        wake(&self.header().taken);
    }

    /// The launcher's: done with what was handed over.
    pub fn done(&self, handover: Handover) {
        if !handover.last {
            return;
        }
        self.free_buffer(handover.from);
        if handover.what != What::Message {
            self.header().waiting.fetch_sub(1, Ordering::AcqRel);
            self.announce();
        }
    }

    /// The launcher's: what a slot of a process that is gone holds and did not give away.
    pub fn drain(&self, number: u32) -> Handover {
        let slot = self.slot(number);
        let is_blocks = slot.tid.load(Ordering::Relaxed) == 0;
        let (from, next) = (slot.taken.load(Ordering::Relaxed), slot.next.load(Ordering::Acquire));
        slot.taken.store(next, Ordering::Relaxed);
        let what = if is_blocks { What::Blocks } else { What::Words };
        Handover { what, slot: number, from, count: next.saturating_sub(from) as u32, last: false }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is this arena's own, and references into it cannot outlive it.
        unsafe { libc::munmap(self.base.cast(), BYTES) };
    }
}

fn map(file: &File) -> io::Result<*mut u8> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // SAFETY: a new mapping of a file of this size.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, prot, flags, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at.cast()) }
}

/// A lock that is held for a few instructions. It lives in shared memory, so it cannot be std's.
struct Guard<'a>(&'a AtomicU32);

impl<'a> Guard<'a> {
    fn new(lock: &'a AtomicU32) -> Self {
        let mut tries = 0u32;
        while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            tries += 1;
            if tries.is_multiple_of(64) {
                std::thread::yield_now();
            }
            // A process that a signal ended here holds it for ever; nobody else holds it for a second.
            if tries > 10_000_000 {
                lock.store(1, Ordering::Relaxed);
                break;
            }
        }
        Self(lock)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// Waits until `word` is no longer `seen`, is woken, or `patience` is over.
pub fn wait(word: &AtomicU32, seen: u32, patience: Duration) {
    let time = libc::timespec { tv_sec: patience.as_secs() as _, tv_nsec: patience.subsec_nanos().into() };
    // SAFETY: the word and the time outlive the call. The futex is shared between processes: no private flag.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, &raw const time, 0, 0) };
}

/// Wakes whoever waits on `word`.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena() -> Arena {
        Arena::create(b"{}").unwrap()
    }

    fn write(arena: &Arena, slot: u32, word: u64) {
        let s = arena.slot(slot);
        let next = s.next.load(Ordering::Relaxed);
        // SAFETY: the slot's own buffer.
        unsafe { *arena.words().add(next as usize) = word };
        s.next.store(next + 1, Ordering::Release);
    }

    #[test]
    fn words_arrive_once_in_order_and_buffers_come_back() {
        let arena = arena();
        let slot = arena.new_slot(0, 1).unwrap();
        write(&arena, slot, 1);
        write(&arena, slot, 2);
        assert!(arena.give_words(slot, false, || {}));
        assert!(arena.give_message(slot, b"hello"));
        write(&arena, slot, 3);
        assert!(arena.give_words(slot, true, || {}));
        let mut seen = Vec::new();
        while let Some(h) = arena.take(Duration::ZERO) {
            match h.what {
                What::Message => assert_eq!(arena.message(h.from, h.count), b"hello"),
                _ => seen.extend_from_slice(arena.stretch(h.from, h.count)),
            }
            arena.done(h);
        }
        assert_eq!(seen, [1, 2, 3]);
        // The message's buffer and the full one are free again; the slot holds a third.
        assert!(arena.new_slot(0, 2).is_some() && arena.new_slot(0, 3).is_some());
        assert_eq!(arena.header().next_buffer.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn what_a_dead_thread_left_can_be_drained() {
        let arena = arena();
        let slot = arena.new_slot(4, 9).unwrap();
        write(&arena, slot, 7);
        assert!(arena.give_words(slot, false, || {}));
        write(&arena, slot, 8);
        let left = arena.drain(slot);
        assert_eq!(arena.stretch(left.from, left.count), [8]);
        assert_eq!(arena.drain(slot).count, 0);
    }

    #[test]
    fn many_threads_lose_nothing() {
        let arena = arena();
        let each = 200_000u64;
        std::thread::scope(|scope| {
            for t in 1..=4u64 {
                let arena = &arena;
                scope.spawn(move || {
                    let slot = arena.new_slot(0, t as u32).unwrap();
                    for i in 0..each {
                        if arena.slot(slot).next.load(Ordering::Relaxed) % BUFFER_WORDS >= FULL_WORDS {
                            assert!(arena.give_words(slot, true, || {}));
                        }
                        write(arena, slot, t << 32 | i);
                    }
                    assert!(arena.give_words(slot, true, || {}));
                });
            }
            let mut next = [0u64; 5];
            while next[1..].iter().any(|&n| n < each) {
                let Some(h) = arena.take(Duration::from_millis(10)) else { continue };
                for &word in arena.stretch(h.from, h.count) {
                    let t = (word >> 32) as usize;
                    assert_eq!(word & 0xffff_ffff, next[t]);
                    next[t] += 1;
                }
                arena.done(h);
            }
        });
    }
}
