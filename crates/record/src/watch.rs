//! The watcher: a process between the launcher and QEMU, so that nothing that is recorded outlives the launcher.
//!
//! It is the subreaper of all recorded processes (prctl(2)): a process that loses its parent becomes the watcher's
//! child. When the launcher ends, for any reason (SIGKILL included), the watcher kills its children until it has none.
//! It does the same when the launcher asks for it with SIGTERM. It is a copy of the launcher that runs nothing but this
//! file. Through the shared memory it reports to the launcher how the program ended, and when no process is left.

use crate::arena::Arena;
use std::{
    ffi::{CStr, c_int},
    io,
    os::unix::process::CommandExt,
    process::{Child, Command},
    sync::Arc,
};

/// How long to wait for a signal before looking whether the launcher is still there.
static PATIENCE: libc::timespec = libc::timespec { tv_sec: 1, tv_nsec: 0 };
/// How long killed processes may take to end before their children are looked for.
static PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Sent by the system when the launcher ends.
const ORPHANED: c_int = libc::SIGUSR1;
/// Longest start of /proc/PID/stat that is read: number, name, state and parent.
const STAT: usize = 256;

/// QEMU and all processes below it, with their watcher.
pub(crate) struct Watched {
    watcher: Child,
    arena: Arc<Arena>,
}

impl Watched {
    /// Starts `command` under a watcher.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(mut command: Command, arena: &Arc<Arena>) -> io::Result<Self> {
        let launcher = std::process::id() as libc::pid_t;
        let shared = Arc::clone(arena);
        // SAFETY: between fork and exec only system calls are made, and memory that is mapped already is used.
        unsafe { command.pre_exec(move || split(launcher, &shared)) };
        Ok(Self { watcher: command.spawn()?, arena: Arc::clone(arena) })
    }

    /// How the program ended, as wait(2) has it; nothing while it runs. A program whose watcher was killed counts as
    /// killed.
    pub fn status(&mut self) -> io::Result<Option<i32>> {
        if let Some(status) = self.arena.main_status() {
            return Ok(Some(status));
        }
        let ended = self.watcher.try_wait()?.is_some();
        // The watcher may have written the status between the two looks.
        Ok(self.arena.main_status().or(ended.then_some(libc::SIGKILL)))
    }

    /// The program's process; nothing before it exists.
    pub fn main(&self) -> Option<u32> {
        self.arena.main_pid()
    }

    /// Kills all that is left, and waits for it.
    pub fn end(&mut self) -> io::Result<()> {
        // SAFETY: no memory is involved. The watcher was not waited for, unless it ended; then nothing is done.
        if self.watcher.try_wait()?.is_none() {
            unsafe { libc::kill(self.watcher.id() as libc::pid_t, libc::SIGTERM) };
            self.watcher.wait()?;
        }
        Ok(())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure; the watcher then waits for the launcher's end.
        let _ = self.end();
    }
}

/// Called in the launcher's copy that is to become QEMU: makes another copy, which goes on to become QEMU, and watches
/// it.
fn split(launcher: libc::pid_t, arena: &Arena) -> io::Result<()> {
    // SAFETY: system calls on memory of this function.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                arena.set_main_pid(std::process::id());
                libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
                Ok(())
            }
            main => watch(launcher, main, &all, arena),
        }
    }
}

/// The watcher's life. Signals are blocked: those that matter are waited for, others (Ctrl-C on a terminal) are QEMU's.
unsafe fn watch(launcher: libc::pid_t, main: libc::pid_t, all: &libc::sigset_t, arena: &Arena) -> ! {
    // SAFETY: system calls on memory of this function.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::prctl(libc::PR_SET_PDEATHSIG, ORPHANED);
        libc::prctl(libc::PR_SET_NAME, c"mmulab-watcher".as_ptr());
        // Whoever reads from the launcher's pipes waits for their end.
        close_all();
        loop {
            let signal = libc::sigtimedwait(all, std::ptr::null_mut(), &raw const PATIENCE);
            if libc::getppid() != launcher {
                arena.close();
                kill_children();
                libc::_exit(0);
            }
            if signal == libc::SIGTERM {
                kill_children();
                libc::_exit(0);
            }
            loop {
                let mut status = 0;
                match libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) {
                    pid if pid == main => arena.set_main_status(status),
                    pid if pid > 0 => {}
                    0 => break,
                    _ => {
                        arena.set_empty();
                        libc::_exit(0);
                    }
                }
            }
        }
    }
}

fn close_all() {
    // SAFETY: no memory is involved; nothing here uses a descriptor of the launcher's.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 0, c_int::MAX, 0) != 0 {
            for fd in 0..libc::sysconf(libc::_SC_OPEN_MAX) as c_int {
                libc::close(fd);
            }
        }
    }
}

/// Kills children, and the children that become the watcher's by that, until there are none that it may kill.
fn kill_children() {
    loop {
        let any = signal_children(libc::SIGKILL);
        // SAFETY: system calls on no memory but a constant.
        let left = unsafe {
            libc::nanosleep(&raw const PAUSE, std::ptr::null_mut());
            while libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) > 0 {}
            libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) == 0
        };
        if !left || !any {
            return;
        }
    }
}

/// Sends all children of this process a signal; whether one got it.
fn signal_children(signal: c_int) -> bool {
    let mut any = false;
    // SAFETY: a directory of this function's own, and system calls.
    unsafe {
        let own = libc::getpid();
        let directory = libc::opendir(c"/proc".as_ptr());
        while !directory.is_null() {
            let entry = libc::readdir(directory);
            if entry.is_null() {
                libc::closedir(directory);
                break;
            }
            let name = CStr::from_ptr((*entry).d_name.as_ptr());
            let Some(pid) = name.to_str().ok().and_then(|name| name.parse::<libc::pid_t>().ok()) else { continue };
            if parent_of(name.to_bytes()) == Some(own) {
                any |= libc::kill(pid, signal) == 0;
            }
        }
    }
    any
}

/// The parent of the process with this number, read without the allocator.
fn parent_of(pid: &[u8]) -> Option<libc::pid_t> {
    let (mut path, mut text) = ([0u8; 64], [0u8; STAT]);
    let parts = [&b"/proc/"[..], pid, b"/stat"];
    let mut at = 0;
    for part in parts {
        path.get_mut(at..at + part.len())?.copy_from_slice(part);
        at += part.len();
    }
    // SAFETY: a path that ends in a zero byte, and a buffer of this function.
    let got = unsafe {
        let fd = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        let got = libc::read(fd, text.as_mut_ptr().cast(), STAT);
        libc::close(fd);
        got
    };
    let text = &text[..usize::try_from(got).ok()?];
    // After the name, which is in parentheses and may hold any byte: the state, and the parent.
    let rest = &text[text.iter().rposition(|&b| b == b')')? + 1..];
    let field = rest.split(|&b| b == b' ').filter(|field| !field.is_empty()).nth(1)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::is_alive;
    use std::time::{Duration, Instant};

    fn wait_until(mut done: impl FnMut() -> bool) {
        let since = Instant::now();
        while !done() {
            assert!(since.elapsed() < Duration::from_secs(60), "it does not come to that");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_ends_as_its_watcher_says() {
        let arena = Arc::new(Arena::create(b"{}").unwrap());
        let mut watched = Watched::spawn(shell("exit 7"), &arena).unwrap();
        wait_until(|| watched.status().unwrap().is_some());
        assert_eq!(watched.status().unwrap(), Some(7 << 8));
        wait_until(|| arena.is_empty());
        watched.end().unwrap();
        let arena = Arc::new(Arena::create(b"{}").unwrap());
        assert!(Watched::spawn(Command::new("/no/such/program"), &arena).is_err());
    }

    #[test]
    fn nothing_is_left_when_it_is_over() {
        let arena = Arc::new(Arena::create(b"{}").unwrap());
        // The shell ends at once; what it leaves behind is in a session of its own, and has a child.
        let file = std::env::temp_dir().join(format!("mmulab-watch-{}", std::process::id()));
        let script =
            format!("setsid sh -c 'sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait' & exit 0", file.display());
        let mut watched = Watched::spawn(shell(&script), &arena).unwrap();
        wait_until(|| watched.status().unwrap() == Some(0) && file.exists());
        let sleeper: u32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(is_alive(sleeper) && !arena.is_empty());
        watched.end().unwrap();
        assert!(!is_alive(sleeper));
    }
}
