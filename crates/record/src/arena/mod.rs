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

mod buffers;
mod futex;
mod ring;
mod slots;

pub use buffers::{BUFFER_WORDS, FULL_WORDS, MESSAGE_BYTES};
pub use futex::{wait, wake};
pub use ring::{Handover, What};
pub use slots::{MOST_SLOTS, Slot};

use buffers::BUFFERS;
use ring::{Descriptor, RING};
use std::{
    fs::File,
    io,
    marker::PhantomData,
    os::fd::{AsRawFd, FromRawFd},
    path::Path,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

/// Bytes for the settings.
const SETTINGS: usize = 256 * 1024;
/// Told by the first word, so that a plugin of another version is refused: a name, and how long the header is.
const LAYOUT: u64 = u64::from_le_bytes(*b"mmulab\0\0") | (size_of::<Header>() as u64) << 48;

/// Counters, and what threads wait on.
#[repr(C)]
pub struct Header {
    layout: AtomicU64,
    settings_len: AtomicU64,
    /// Whether the launcher takes what is given: 0 once it does not.
    open: AtomicU32,
    /// The program's process, and how it ended: wait(2)'s status and [`ENDED`]. The watcher writes them.
    main_pid: AtomicU32,
    main_status: AtomicU32,
    /// Whether no recorded process is left: the watcher's too.
    empty: AtomicU32,
    /// Processes of which nothing could be recorded, and messages that could not be given.
    unseen: AtomicU32,
    unsaid: AtomicU32,
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

/// Marks a status as known; wait(2)'s take 16 bits.
const ENDED: u32 = 1 << 31;

/// Images that may be waited for at once.
const LEAVERS: usize = 256;

impl Default for Header {
    fn default() -> Self {
        // SAFETY: it is made of atomics, for which zero bytes are valid.
        unsafe { std::mem::zeroed() }
    }
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
        header.open.store(1, Ordering::Relaxed);
        header.layout.store(LAYOUT, Ordering::Release);
        Ok(this)
    }

    /// The launcher's: from here on nothing is taken. Threads that wait for room end their processes.
    pub fn close(&self) {
        self.header().open.store(0, Ordering::Release);
        self.announce();
    }

    /// Ends this process if the launcher is done, so that nobody will ever make room. A launcher that is gone needs no
    /// look: its watcher closes the memory, and ends this process.
    fn give_up_if_closed(&self) {
        if self.header().open.load(Ordering::Acquire) == 0 {
            // SAFETY: ends the process at once; what it shares with others is left as it is.
            unsafe { libc::_exit(0) };
        }
    }

    /// The program's process; nothing before it exists.
    pub fn main_pid(&self) -> Option<u32> {
        Some(self.header().main_pid.load(Ordering::Acquire)).filter(|&pid| pid != 0)
    }

    pub(crate) fn set_main_pid(&self, pid: u32) {
        self.header().main_pid.store(pid, Ordering::Release);
    }

    /// How the program's process ended, as wait(2) has it; nothing while it runs.
    pub fn main_status(&self) -> Option<i32> {
        let status = self.header().main_status.load(Ordering::Acquire);
        (status & ENDED != 0).then_some((status & !ENDED) as i32)
    }

    pub(crate) fn set_main_status(&self, status: i32) {
        self.header().main_status.store(status as u32 | ENDED, Ordering::Release);
    }

    /// Whether no recorded process is left.
    pub fn is_empty(&self) -> bool {
        self.header().empty.load(Ordering::Acquire) != 0
    }

    pub(crate) fn set_empty(&self) {
        self.header().empty.store(1, Ordering::Release);
    }

    /// Nothing that this process does can be recorded.
    pub fn count_unseen(&self) {
        self.header().unseen.fetch_add(1, Ordering::Relaxed);
    }

    /// Processes of which nothing could be recorded, and messages that were lost.
    pub fn gaps(&self) -> (u32, u32) {
        (self.header().unseen.load(Ordering::Relaxed), self.header().unsaid.load(Ordering::Relaxed))
    }

    /// Where other processes of this user find the memory.
    pub fn path(&self) -> String {
        let fd = self.file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        format!("/proc/{}/fd/{fd}", std::process::id())
    }

    /// Opens the memory's file.
    ///
    /// # Errors
    /// It is not there, or another user's.
    pub fn file_at(path: &Path) -> io::Result<File> {
        File::options().read(true).write(true).open(path)
    }

    /// The launcher's: the memory's file.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Maps the memory that a launcher made.
    ///
    /// # Errors
    /// It is of another version.
    pub fn from_file(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() != BYTES as u64 {
            return Err(io::Error::other("it is of another version than this plugin"));
        }
        let this = Self { base: map(file)?, file: None, _not_copied: PhantomData };
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
                What::Message => assert_eq!(arena.message(h.from, h.count), Some(&b"hello"[..])),
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

    /// CHANGELOG number 20: the length of a message is not trusted.
    #[test]
    fn a_message_longer_than_its_buffer_is_refused() {
        let arena = arena();
        let last = BUFFERS * BUFFER_WORDS - 2;
        assert_eq!(arena.message(last, 16).map(<[u8]>::len), Some(16));
        for (from, bytes) in [(0, u32::MAX), (0, MESSAGE_BYTES as u32 + 1), (last, 17), (u64::MAX, 1)] {
            assert_eq!(arena.message(from, bytes), None, "{from} {bytes}");
        }
        let slot = arena.new_slot(0, 1).unwrap();
        assert!(!arena.give_message(slot, &vec![b' '; MESSAGE_BYTES + 1]));
        assert_eq!(arena.gaps(), (0, 1), "what could not be given is counted");
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
