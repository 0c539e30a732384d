//! The door: a socket of the launcher's, at which recorded processes get the files that recording needs.
//!
//! A process that is about to execute another program has to hand the shared memory and the plugin on to the QEMU that
//! runs it. It may have changed its user, its root directory or closed its descriptors by then, so that no path leads
//! to them. The socket has a name without a file (an abstract one), which is reachable in all these cases; it is not
//! from another network namespace. Only processes that descend from the launcher are served.

use crate::process::parent;
use std::{
    fs::File,
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    path::Path,
    thread::JoinHandle,
    time::Duration,
};

/// Files that the door gives out.
const FILES: usize = 3;
/// Bytes of a control message with [`FILES`] descriptors, rounded up: a header of 16 bytes and 4 for each.
const CONTROL: usize = 64;
/// How long the launcher may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Generations between a recorded process and the launcher that are looked at. Deeper trees are not served.
const GENERATIONS: usize = 10_000;

/// Resources that a process got at the door.
#[derive(Debug)]
pub struct Keys {
    /// The shared memory's file.
    pub arena: OwnedFd,
    /// The plugin's file.
    pub plugin: OwnedFd,
    /// The launcher's root directory.
    pub root: OwnedFd,
    /// This process's number, as the launcher knows it.
    pub pid: u32,
}

/// The launcher's side; closed when it is dropped.
pub(crate) struct Door {
    name: String,
    listener: UnixListener,
    server: Option<JoinHandle<()>>,
}

impl Door {
    /// Opens a door at which `arena` and the files at `plugin` and `/` are given out.
    pub fn open(name: &str, arena: &File, plugin: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        let files: [OwnedFd; FILES] = [arena.try_clone()?.into(), File::open(plugin)?.into(), File::open("/")?.into()];
        let ours = listener.try_clone()?;
        let server = std::thread::spawn(move || serve(&ours, &files));
        Ok(Self { name: name.to_owned(), listener, server: Some(server) })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // SAFETY: no memory is involved. It makes accept(2) return.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
        // A connection made meanwhile does the same on a system where the call above does not.
        let _ = SocketAddr::from_abstract_name(&self.name).and_then(|name| UnixStream::connect_addr(&name));
        if let Some(server) = self.server.take() {
            // A panic of the thread has ended it, too.
            let _ = server.join();
        }
    }
}

fn serve(listener: &UnixListener, files: &[OwnedFd; FILES]) {
    let launcher = std::process::id();
    while let Ok((stream, _)) = listener.accept() {
        let Some(pid) = peer(&stream) else { continue };
        if pid == launcher {
            return;
        }
        if descends(pid, launcher) {
            // Who does not get them reports that.
            let _ = send(&stream, pid, files);
        }
    }
}

/// The process at the other end.
fn peer(stream: &UnixStream) -> Option<u32> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure and its length outlive the call.
    let answer = unsafe {
        let into = (&raw mut found).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, into, &raw mut length)
    };
    u32::try_from(found.pid).ok().filter(|&pid| answer == 0 && pid != 0)
}

fn descends(pid: u32, ancestor: u32) -> bool {
    let chain = std::iter::successors(Some(pid), |&pid| parent(pid).filter(|&up| up > 1));
    chain.take(GENERATIONS).skip(1).any(|pid| pid == ancestor)
}

fn send(stream: &UnixStream, pid: u32, files: &[OwnedFd; FILES]) -> io::Result<()> {
    let descriptors: [i32; FILES] = [files[0].as_raw_fd(), files[1].as_raw_fd(), files[2].as_raw_fd()];
    let mut payload = pid.to_le_bytes();
    message(&mut payload, |message| {
        // SAFETY: the control buffer has room for one header with these descriptors.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of_val(&descriptors) as u32) as _;
            std::ptr::copy_nonoverlapping(descriptors.as_ptr(), libc::CMSG_DATA(header).cast::<i32>(), FILES);
            (*message).msg_controllen = libc::CMSG_SPACE(size_of_val(&descriptors) as u32) as _;
            libc::sendmsg(stream.as_raw_fd(), message, libc::MSG_NOSIGNAL)
        }
    })
}

/// Gets the files at the door of this name. They are closed when the process executes another program.
///
/// # Errors
/// The launcher cannot be reached, does not know this process, or there is no room for descriptors.
pub fn ask(name: &str) -> io::Result<Keys> {
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut payload = [0; 4];
    let mut found: [Option<OwnedFd>; FILES] = Default::default();
    message(&mut payload, |message| {
        // SAFETY: the buffers outlive the call; descriptors that came are new and owned here.
        unsafe {
            let got = libc::recvmsg(stream.as_raw_fd(), message, libc::MSG_CMSG_CLOEXEC);
            let header = libc::CMSG_FIRSTHDR(message);
            if got > 0 && !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let from = libc::CMSG_DATA(header).cast::<i32>();
                for (at, place) in found.iter_mut().enumerate().take(bytes / size_of::<i32>()) {
                    *place = Some(OwnedFd::from_raw_fd(from.add(at).read_unaligned()));
                }
            }
            got
        }
    })?;
    match found {
        [Some(arena), Some(plugin), Some(root)] => Ok(Keys { arena, plugin, root, pid: u32::from_le_bytes(payload) }),
        _ => Err(io::Error::other("the launcher refused the files, or there was no room for their descriptors")),
    }
}

/// Makes a message of `payload` and a control buffer, and hands it to `call`, which returns the bytes it moved.
fn message(payload: &mut [u8], call: impl FnOnce(*mut libc::msghdr) -> isize) -> io::Result<()> {
    #[repr(align(8))]
    struct Control([u8; CONTROL]);
    let mut control = Control([0; CONTROL]);
    let mut part = libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() };
    // SAFETY: the structure is plain numbers and pointers.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL as _;
    match call(&raw mut message) {
        moved if moved < 0 => Err(io::Error::last_os_error()),
        moved if moved as usize == payload.len() => Ok(()),
        _ => Err(io::Error::other("the launcher does not serve this process")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Read, process::Command};

    #[test]
    fn only_processes_below_the_launcher_get_files() {
        assert!(!descends(std::process::id(), std::process::id()), "the launcher itself asks for nothing");
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(descends(child.id(), std::process::id()));
        assert!(!descends(1, std::process::id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn files_go_through_the_door() {
        let name = format!("mmulab-test-{}", std::process::id());
        let (here, there) = UnixStream::pair().unwrap();
        let text = std::env::temp_dir().join(&name);
        std::fs::write(&text, "shared").unwrap();
        let open = || OwnedFd::from(File::open(&text).unwrap());
        send(&here, 7, &[open(), open(), open()]).unwrap();
        std::fs::remove_file(&text).unwrap();
        // The receiving half, without a launcher.
        let (mut payload, mut got) = ([0; 4], None);
        message(&mut payload, |message| {
            // SAFETY: as in `ask`.
            unsafe {
                let moved = libc::recvmsg(there.as_raw_fd(), message, libc::MSG_CMSG_CLOEXEC);
                got = Some(File::from_raw_fd(libc::CMSG_DATA(libc::CMSG_FIRSTHDR(message)).cast::<i32>().read()));
                moved
            }
        })
        .unwrap();
        let mut read = String::new();
        got.unwrap().read_to_string(&mut read).unwrap();
        assert_eq!((u32::from_le_bytes(payload), read.as_str()), (7, "shared"));
        // A door refuses whoever does not descend from its launcher: here, the launcher itself.
        let door = Door::open(&name, &File::open("/dev/null").unwrap(), Path::new("/dev/null")).unwrap();
        assert!(ask(&name).is_err());
        drop(door);
        assert!(ask(&name).is_err(), "a closed door is not there");
    }
}
