//! State of other processes by the operating system: whether one lives, and its parent.

use std::io;

/// A process's state and parent, out of /proc; nothing if that is not there.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state is the first letter after the name, which is in parentheses and may hold any.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// The parent of the process `pid`.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    stat(pid).map(|(_, parent)| parent)
}

/// Whether the system's process `pid` still runs; one that ended and was not waited for does not.
pub fn is_alive(pid: u32) -> bool {
    if let Some((state, _)) = stat(pid) {
        return !matches!(state, 'Z' | 'X');
    }
    // Without /proc (after chroot) the answer is the same but for processes that nobody waited for yet.
    // SAFETY: no memory is involved, and signal 0 is none.
    let sent = unsafe { libc::kill(pid as libc::pid_t, 0) };
    sent == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// Whether the child `pid` of this process ended. It is not waited for: that is left to the program that made it. Needs
/// no /proc, which a changed root directory may lack.
pub fn child_ended(pid: u32) -> bool {
    // SAFETY: the structure is plain numbers, and outlives the call.
    unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
        match libc::waitid(libc::P_PID, pid, &raw mut found, how) {
            0 => found.si_pid() == pid as libc::pid_t,
            _ => io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_ends() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_alive(child.id()) && !child_ended(child.id()));
        assert_eq!(parent(child.id()), Some(std::process::id()));
        child.kill().unwrap();
        // Dead, though nobody waited for it yet.
        while is_alive(child.id()) {
            std::thread::yield_now();
        }
        assert!(child_ended(child.id()));
        child.wait().unwrap();
        assert!(!is_alive(child.id()) && child_ended(child.id()));
    }
}
