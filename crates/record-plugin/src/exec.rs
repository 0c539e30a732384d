//! A program that the recorded one becomes is run under QEMU with this plugin, too: left alone, QEMU would run it on the
//! real processor, unseen.

use crate::{
    guest,
    session::{self, Session, tell},
    thread,
};
use mmulab_record::{Image, Message, command_line, elf, qemu_for};
use std::{
    ffi::{CString, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

/// execveat's flag: the program is the file descriptor itself.
const AT_EMPTY_PATH: i32 = 0x1000;
const AT_FDCWD: i32 = -100;

/// Becomes QEMU running the program that the call at hand names. Comes back if there is no such program, or it cannot be
/// followed; the call then does what it does. `at`: execveat's directory and flags.
pub fn follow(index: u32, at: Option<(i32, i32)>, path: u64, argv: u64, envp: u64) {
    let Some(session) = session::current() else { return };
    let (Some(named), Some(args), Some(env)) = (guest::string(path), guest::strings(argv), guest::strings(envp)) else {
        return;
    };
    let path = locate(session, &named, at);
    if elf::find(&path.display().to_string()).is_none() {
        return;
    }
    let Some(tid) = thread::number(index).map(|slot| session.arena.slot(slot).tid.load(Ordering::Relaxed)) else {
        return;
    };
    match prepare(session, tid, &path, args, env) {
        Err(why) => {
            tell(index, &Message::Escaped { what: format!("{} ran outside the emulator: {why}", path.display()) })
        }
        Ok((image, qemu, args, env)) => {
            tell(index, &Message::Exec { next: image.clone(), path: path.display().to_string() });
            session.arena.leave(session::image().number);
            execute(&qemu, &args, &env);
            tell(index, &Message::ExecFailed { next: image });
        }
    }
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
            let link = format!("/proc/self/fd/{fd}");
            std::fs::read_link(&link).unwrap_or_else(|_| link.into())
        }
        Some((fd, _)) if fd != AT_FDCWD && named.is_relative() => Path::new(&format!("/proc/self/fd/{fd}")).join(named),
        // A name without a slash is in the working directory here, not in PATH.
        _ if named.is_relative() => Path::new(".").join(named),
        _ => named,
    }
}

type Prepared = (Image, PathBuf, Vec<CString>, Vec<CString>);

fn prepare(
    session: &Session,
    tid: u32,
    path: &Path,
    args: Vec<Vec<u8>>,
    env: Vec<Vec<u8>>,
) -> Result<Prepared, String> {
    let args = args.into_iter().map(|a| OsString::from_vec(a).to_string_lossy().into_owned()).collect();
    let resolved = elf::resolve(path, args)?;
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
        &session.arena_path,
        &image,
        &resolved.program,
        resolved.args.into_iter().map(OsString::from).collect(),
        env.into_iter().filter_map(split).collect(),
    );
    args.insert(0, qemu.clone().into());
    let c = |bytes: &[u8]| CString::new(bytes).map_err(|e| e.to_string());
    let args = args.iter().map(|a| c(a.as_bytes())).collect::<Result<_, _>>()?;
    let env = env.iter().map(|(k, v)| c(&[k.as_bytes(), b"=", v.as_bytes()].concat())).collect::<Result<_, _>>()?;
    Ok((image, qemu, args, env))
}

/// execve(2); comes back if it fails.
fn execute(program: &Path, args: &[CString], env: &[CString]) {
    let Ok(program) = CString::new(program.as_os_str().as_bytes()) else { return };
    let list =
        |strings: &[CString]| -> Vec<_> { strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect() };
    let (args, env) = (list(args), list(env));
    // SAFETY: strings that end in a zero byte, and lists that end in a null pointer.
    unsafe { libc::execve(program.as_ptr(), args.as_ptr(), env.as_ptr()) };
}
