//! What a process hands to the QEMU that it is about to become: the shared memory, the plugin, and its root directory.
//!
//! The program may have changed its user or its root directory, or used up its descriptors. So nothing relies on a
//! path. Files come from the launcher's door. If QEMU lies outside the root of a process, the process leaves its root
//! for the moment of the start, if it may. The plugin goes back in before the program begins.

use crate::{room::Room, session::Session};
use mmulab_record::{Handed, Keys, arena::Arena, ask};
use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
};

/// What is handed over; files are kept open as long as it lives.
pub struct Handover {
    /// What the plugin to come is given.
    pub handed: Handed,
    kept: Vec<OwnedFd>,
    jail: Option<Jail>,
}

impl Handover {
    /// Gathers it, in the room made for its descriptors.
    pub fn gather(session: &Session, _: &Room) -> Result<Self, String> {
        let mut handed = Handed { arena: session.arena_path.clone(), ..Handed::default() };
        let mut kept = Vec::new();
        match ask(&session.settings.door) {
            Ok(Keys { arena, plugin, root, .. }) => {
                handed.arena_fd = Some(arena.as_raw_fd());
                let jail = Jail::leave(&root)?;
                // Not by its path: rights to that may go with the start of another program.
                handed.plugin_fd = Some(plugin.as_raw_fd());
                kept.push(plugin);
                handed.inside = jail.as_ref().map(|jail| (jail.root.as_raw_fd(), jail.directory.as_raw_fd()));
                kept.push(arena);
                Ok(Self { handed, kept, jail })
            }
            // In another network namespace the door is not there; the same user finds the files without it.
            Err(shut) => {
                let found = Arena::file_at(Path::new(&session.arena_path)).and_then(|arena| {
                    File::open(&session.settings.plugin)?;
                    Ok(arena)
                });
                let arena = found.map_err(|e| format!("the recorder cannot be reached: {shut}; {e}"))?;
                handed.arena_fd = Some(arena.as_raw_fd());
                kept.push(arena.into());
                Ok(Self { handed, kept, jail: None })
            }
        }
    }

    /// Keeps the program's file, which `fd` is open on; its path.
    pub fn keep_program(&mut self, fd: RawFd) -> Result<PathBuf, String> {
        // SAFETY: no memory is involved; the descriptor is new and owned here.
        let copy = unsafe {
            match libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) {
                copy if copy < 0 => return Err(format!("descriptor {fd}: {}", io::Error::last_os_error())),
                copy => OwnedFd::from_raw_fd(copy),
            }
        };
        let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
        self.handed.program_fd = Some(copy.as_raw_fd());
        self.kept.push(copy);
        Ok(path.into())
    }

    /// Has the program that is executed next keep the files.
    pub fn keep_open(&self) {
        let jail = self.jail.iter().flat_map(|jail| [&jail.root, &jail.directory]);
        for fd in self.kept.iter().chain(jail) {
            // SAFETY: a descriptor of our own.
            unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) };
        }
    }
}

/// The root directory that the process had, while it is outside. It goes back when this is dropped.
struct Jail {
    root: OwnedFd,
    directory: OwnedFd,
}

impl Jail {
    /// Leaves the process's root directory for `outside`, if that is another.
    fn leave(outside: &OwnedFd) -> Result<Option<Self>, String> {
        let failed = |what: &str, e: io::Error| format!("{what}: {e}");
        let root = directory(c"/").map_err(|e| failed("its root directory", e))?;
        if identity(&root) == identity(outside) {
            return Ok(None);
        }
        let directory = directory(c".").map_err(|e| failed("its working directory", e))?;
        // Other threads stay where they are: the system gives a thread a root of its own.
        // SAFETY: no memory is involved.
        if unsafe { libc::unshare(libc::CLONE_FS) } != 0 {
            return Err(failed("its root directory cannot be left", io::Error::last_os_error()));
        }
        enter(outside.as_raw_fd())
            .map_err(|e| failed("QEMU lies outside its root directory, which it may not leave", e))?;
        Ok(Some(Self { root, directory }))
    }
}

impl Drop for Jail {
    fn drop(&mut self) {
        let back = enter(self.root.as_raw_fd());
        // SAFETY: no memory is involved.
        if back.is_err() || unsafe { libc::fchdir(self.directory.as_raw_fd()) } != 0 {
            eprintln!("mmulab: a process could not go back to its root directory, and is ended");
            // SAFETY: the program must not run where it does not belong.
            unsafe { libc::_exit(1) };
        }
    }
}

fn directory(path: &std::ffi::CStr) -> io::Result<OwnedFd> {
    // SAFETY: a string that ends in a zero byte; the descriptor is new and owned here.
    unsafe {
        match libc::open(path.as_ptr(), libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) {
            fd if fd < 0 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// Which directory of which mount it is; a root that is the same directory mounted elsewhere has other things below it.
fn identity(fd: &OwnedFd) -> Option<(u64, u32, u32, u64)> {
    // SAFETY: an empty string, and a structure that outlives the call.
    unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let what = libc::STATX_INO | libc::STATX_MNT_ID;
        let got = libc::statx(fd.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, what, &raw mut found);
        (got == 0).then_some((found.stx_ino, found.stx_dev_major, found.stx_dev_minor, found.stx_mnt_id))
    }
}

/// Makes the directory `root` this thread's root and working directory.
fn enter(root: RawFd) -> io::Result<()> {
    // SAFETY: a string that ends in a zero byte.
    match unsafe { libc::fchdir(root) != 0 || libc::chroot(c".".as_ptr()) != 0 } {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}

/// The plugin's side: goes to the root and working directory that the program has, whose descriptors are closed.
pub fn go_inside(root: OwnedFd, directory: OwnedFd) -> Result<(), String> {
    let failed = |e: io::Error| format!("its root directory cannot be entered: {e}");
    enter(root.as_raw_fd()).map_err(failed)?;
    // SAFETY: no memory is involved.
    match unsafe { libc::fchdir(directory.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(failed(io::Error::last_os_error())),
    }
}
