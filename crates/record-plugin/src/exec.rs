//! A program that the recorded one becomes is run under QEMU with this plugin, too. Left alone, QEMU would run it on
//! the real processor, unseen.

use crate::{
    guest,
    handover::Handover,
    room::Room,
    session::{self, Session},
    slots,
    telling::{self, tell},
};
use mmulab_record::{Image, Message, command_line, elf, qemu_for};
use std::{
    ffi::{CString, OsString},
    io,
    os::{
        fd::RawFd,
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::MetadataExt,
        },
    },
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

/// execveat's flag: the program is the file descriptor itself.
const AT_EMPTY_PATH: i32 = 0x1000;
const AT_FDCWD: i32 = -100;

/// Becomes QEMU running the program that the call at hand names. Comes back if it cannot be followed, having told so:
/// the call then does what it does, and tells that it failed if it comes back, too ([`crate::calls`]). `at`: execveat's
/// directory and flags.
pub fn follow(index: u32, at: Option<(i32, i32)>, path: u64, argv: u64, envp: u64) {
    let Some(session) = session::current() else { return };
    let (program, why) = match become_next(session, index, at, path, argv, envp) {
        Tried::Absent => return,
        Tried::Unread(why) => ("a program".to_owned(), why),
        Tried::Failed(path, why) => (path.display().to_string(), why),
    };
    let pid = session::image().pid;
    telling::tell_surely(
        index,
        &Message::Escaped { what: format!("{program} (process {pid}) ran outside the emulator: {why}") },
    );
    // Whoever made this process by vfork waits until it no longer uses its memory.
    session.arena.leave(session::image().number);
}

/// Why a program did not take this one's place: its name could not be read, or another reason.
enum Tried {
    /// There is none: a search through PATH asks for many.
    Absent,
    Unread(String),
    Failed(PathBuf, String),
}

fn become_next(session: &Session, index: u32, at: Option<(i32, i32)>, path: u64, argv: u64, envp: u64) -> Tried {
    let named = match guest::string(path) {
        Ok(named) => named,
        Err(why) => return Tried::Unread(why),
    };
    let path = locate(session, &named, at);
    let failed = |why: String| Tried::Failed(path.clone(), why);
    if at.is_none() && path.metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        return Tried::Absent;
    }
    let (args, env) = match guest::strings(argv).and_then(|args| Ok((args, guest::strings(envp)?))) {
        Ok(both) => both,
        Err(why) => return failed(why),
    };
    let Some(tid) = slots::number(index).map(|slot| session.arena.slot(slot).tid.load(Ordering::Relaxed)) else {
        return failed("its thread is not recorded".into());
    };
    let mut room = Room::make(session);
    let (next, handover) = match prepare(session, &room, tid, &path, args, env) {
        Ok(ready) => ready,
        Err(why) => return failed(why),
    };
    room.restore_limit();
    tell(index, &Message::Exec { next: next.image.clone(), path: path.display().to_string() });
    session.arena.leave(session::image().number);
    handover.keep_open();
    let error = execute(&next.qemu, &next.args, &next.env);
    tell(index, &Message::ExecFailed { next: next.image });
    failed(format!("{}: {error}", next.qemu.display()))
}

/// The file that a path of the program's means.
fn locate(session: &Session, named: &[u8], at: Option<(i32, i32)>) -> PathBuf {
    let named = PathBuf::from(OsString::from_vec(named.to_vec()));
    let own = [PathBuf::from("/proc/self/exe"), PathBuf::from(format!("/proc/{}/exe", std::process::id()))];
    if own.contains(&named) {
        return session.program.clone();
    }
    match at {
        Some((fd, flags)) if flags & AT_EMPTY_PATH != 0 && named.as_os_str().is_empty() => {
            // A file that was removed, or one in memory, has no other name.
            let link = PathBuf::from(format!("/proc/self/fd/{fd}"));
            std::fs::read_link(&link).ok().filter(|path| same_file(path, &link)).unwrap_or(link)
        }
        Some((fd, _)) if fd != AT_FDCWD && named.is_relative() => Path::new(&format!("/proc/self/fd/{fd}")).join(named),
        // A name without a slash is in the working directory here, not in PATH.
        _ if named.is_relative() => Path::new(".").join(named),
        _ => named,
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| path.metadata().map(|m| (m.dev(), m.ino()));
    matches!((of(one), of(other)), (Ok(one), Ok(other)) if one == other)
}

/// The descriptor that a path names, if it names one.
fn descriptor(path: &Path) -> Option<RawFd> {
    ["/proc/self/fd", "/dev/fd"].iter().find_map(|dir| path.strip_prefix(dir).ok()?.to_str()?.parse().ok())
}

/// QEMU as it is to be executed.
struct Next {
    image: Image,
    qemu: PathBuf,
    args: Vec<CString>,
    env: Vec<CString>,
}

fn prepare(
    session: &Session,
    room: &Room,
    tid: u32,
    path: &Path,
    args: Vec<Vec<u8>>,
    env: Vec<Vec<u8>>,
) -> Result<(Next, Handover), String> {
    let args = args.into_iter().map(|a| OsString::from_vec(a).to_string_lossy().into_owned()).collect();
    // Within the program's root directory; QEMU and what it needs lie outside.
    let path = elf::find(&path.display().to_string()).ok_or("there is no such program")?;
    let mut resolved = elf::resolve(&path, args)?;
    let mut handover = Handover::gather(session, room)?;
    if let Some(fd) = descriptor(&resolved.program) {
        // It may be closed when QEMU is executed, which opens it later.
        resolved.program = handover.keep_program(fd)?;
    }
    let qemu = qemu_for(&session.settings, resolved.isa)
        .ok_or_else(|| format!("{} is not installed", elf::qemu_name(resolved.isa)))?;
    let number = session.arena.header().next_image.fetch_add(1, Ordering::AcqRel);
    let image = Image { number, pid: session::image().pid, tid };
    let split = |variable: Vec<u8>| {
        let at = variable.iter().position(|&b| b == b'=')?;
        Some((OsString::from_vec(variable[..at].to_vec()), OsString::from_vec(variable[at + 1..].to_vec())))
    };
    let (mut args, env) = command_line(
        &session.settings,
        &handover.handed,
        &image,
        &resolved.program,
        resolved.args.into_iter().map(OsString::from).collect(),
        env.into_iter().filter_map(split).collect(),
    );
    args.insert(0, qemu.clone().into());
    let c = |bytes: &[u8]| CString::new(bytes).map_err(|e| e.to_string());
    let args = args.iter().map(|a| c(a.as_bytes())).collect::<Result<_, _>>()?;
    let env = env.iter().map(|(k, v)| c(&[k.as_bytes(), b"=", v.as_bytes()].concat())).collect::<Result<_, _>>()?;
    Ok((Next { image, qemu, args, env }, handover))
}

/// execve(2); comes back if it fails.
fn execute(program: &Path, args: &[CString], env: &[CString]) -> io::Error {
    let Ok(program) = CString::new(program.as_os_str().as_bytes()) else {
        return io::ErrorKind::InvalidInput.into();
    };
    let list =
        |strings: &[CString]| -> Vec<_> { strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect() };
    let (args, env) = (list(args), list(env));
    // SAFETY: strings that end in a zero byte, and lists that end in a null pointer.
    unsafe { libc::execve(program.as_ptr(), args.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}
