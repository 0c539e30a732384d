//! The memory itself: made by the launcher and mapped by recorded processes; and the contents of its header.

use super::{
    futex::{wait, wake},
    layout::{BYTES, ENDED, Header, LAYOUT, LEAVERS, SETTINGS, SETTINGS_AT},
};
use std::{
    fs::File,
    io,
    marker::PhantomData,
    os::fd::{AsRawFd, FromRawFd},
    path::Path,
    sync::atomic::Ordering,
    time::Duration,
};

/// The shared memory, mapped for as long as this process lives (recorded processes) or until it is dropped (launcher).
pub struct Arena {
    pub(super) base: *mut u8,
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

    /// Something was taken, or all ends: threads that wait look again.
    pub(super) fn announce(&self) {
        self.header().taken.fetch_add(1, Ordering::Release);
        wake(&self.header().taken);
    }

    /// Ends this process if the launcher is done and will never make room. If the launcher is gone, no look is needed:
    /// its watcher closes the memory, and ends this process.
    pub(super) fn give_up_if_closed(&self) {
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
