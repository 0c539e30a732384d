//! Room for the descriptors that a handover needs, in a process that may have used up its own.
//!
//! Where the process's limit can be raised, that is done for the moment. Where it cannot, a few descriptors are kept in
//! reserve from the start: numbers that the program is not given. It may close them, and use their numbers for files of
//! its own, so each is looked at before it is given up.

use crate::session::Session;
use mmulab_record::{arena::Arena, ask};
use std::{
    fs::File,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicI32, Ordering},
    },
};

/// Descriptors open at once during a handover, at most: the socket and what comes through it, two directories, and the
/// program's file.
const DESCRIPTORS: usize = 7;
/// The reserve lies below this number: the system's table of descriptors is as long as the largest number.
const HIGHEST: u64 = 1024;

static RESERVE: [AtomicI32; DESCRIPTORS] = [const { AtomicI32::new(-1) }; DESCRIPTORS];
/// The shared memory's file, by device and inode: the reserve consists of descriptors for it, which nobody else has.
static ARENA: OnceLock<(u64, u64)> = OnceLock::new();

fn limit() -> Option<libc::rlimit> {
    let mut found = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a structure that outlives the call.
    (unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut found) } == 0).then_some(found)
}

/// Keeps descriptors in reserve, if the limit cannot be raised when they are needed. `arena`: the shared memory's file.
pub fn reserve(arena: &File) {
    let Some(limit) = limit().filter(|l| l.rlim_cur + DESCRIPTORS as u64 > l.rlim_max) else { return };
    let Ok(known) = arena.metadata() else { return };
    let _ = ARENA.set((known.dev(), known.ino()));
    let from = limit.rlim_cur.min(HIGHEST).saturating_sub(DESCRIPTORS as u64) as i32;
    for place in &RESERVE {
        // SAFETY: no memory is involved. Where there is no room already, there is no reserve.
        place.store(unsafe { libc::fcntl(arena.as_raw_fd(), libc::F_DUPFD_CLOEXEC, from) }, Ordering::Relaxed);
    }
}

/// Room for descriptors, while it lives.
pub struct Room<'a> {
    session: &'a Session,
    before: Option<libc::rlimit>,
    spent: bool,
}

impl<'a> Room<'a> {
    /// Makes room. Where there is none to be had, what needs a descriptor fails by itself.
    pub fn make(session: &'a Session) -> Self {
        let raised = limit().filter(|before| {
            let within = libc::rlimit { rlim_cur: before.rlim_cur + DESCRIPTORS as u64, ..*before };
            // SAFETY: a structure that outlives the call.
            within.rlim_cur <= within.rlim_max
                && unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const within) } == 0
        });
        let spent = raised.is_none() && spend();
        Self { session, before: raised, spent }
    }

    /// Sets the limit back. Descriptors beyond it stay open.
    pub fn restore_limit(&mut self) {
        if let Some(before) = self.before.take() {
            // SAFETY: a structure that outlives the call.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const before) };
        }
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.restore_limit();
        if self.spent {
            let arena = ask(&self.session.settings.door).map(|keys| File::from(keys.arena));
            // Without either, the next handover may find no room, and says so.
            if let Ok(arena) = arena.or_else(|_| Arena::file_at(Path::new(&self.session.arena_path))) {
                reserve(&arena);
            }
        }
    }
}

/// Gives up the reserve; whether there was any.
fn spend() -> bool {
    let mut any = false;
    for place in &RESERVE {
        let fd = place.swap(-1, Ordering::Relaxed);
        // SAFETY: a structure that outlives the call; what is closed is our own, as its file shows.
        unsafe {
            let mut found: libc::stat = std::mem::zeroed();
            let own = fd >= 0 && libc::fstat(fd, &raw mut found) == 0;
            if own && ARENA.get() == Some(&(found.st_dev, found.st_ino)) {
                drop(OwnedFd::from_raw_fd(fd));
                any = true;
            }
        }
    }
    any
}
