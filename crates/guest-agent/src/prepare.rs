//! What a kernel leaves to its first program.

use crate::{memhog, plan::Plan, tunables::tell_kernel};
use std::{ffi::CString, fs, io, path::Path};

fn mount(kind: &str, at: &str) -> Result<(), String> {
    let refused = |e: io::Error| format!("{at}: {e}");
    fs::create_dir_all(at).map_err(refused)?;
    let (kind, path) = (CString::new(kind).unwrap_or_default(), CString::new(at).unwrap_or_default());
    // SAFETY: strings that end in a zero byte.
    let done = unsafe { libc::mount(kind.as_ptr(), path.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
    if done == 0 { Ok(()) } else { Err(refused(io::Error::last_os_error())) }
}

/// Mounts the kernel's own file systems.
pub fn mounts() -> Result<(), String> {
    for (kind, at) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/dev/shm")] {
        mount(kind, at)?;
    }
    for at in ["/run", "/tmp"] {
        fs::create_dir_all(at).map_err(|e| format!("{at}: {e}"))?;
    }
    Ok(())
}

/// Prepares the system as the plan has it.
pub fn system(plan: &Plan) -> Result<(), String> {
    terminal()?;
    loopback()?;
    for (path, text) in [
        ("/etc/passwd", "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
        ("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
        ("/etc/hosts", "127.0.0.1 localhost\n"),
    ] {
        if !Path::new(path).exists() {
            fs::create_dir_all("/etc").and_then(|()| fs::write(path, text)).map_err(|e| format!("{path}: {e}"))?;
        }
    }
    if let Some(thp) = &plan.thp {
        tell_kernel("/sys/kernel/mm/transparent_hugepage/enabled", thp)?;
    }
    for (path, value) in &plan.tune {
        tell_kernel(path, value)?;
    }
    plan.memhog.map_or(Ok(()), memhog::hold)
}

/// The serial line that is not the kernel's console.
const LINE: &std::ffi::CStr = if cfg!(target_arch = "x86_64") { c"/dev/ttyS1" } else { c"/dev/ttyS0" };

/// What programs say goes to the second serial line, byte by byte as they say it.
fn terminal() -> Result<(), String> {
    // SAFETY: system calls on a descriptor of our own, with structures of our own.
    unsafe {
        let fd = libc::open(LINE.as_ptr(), libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        if fd < 0 {
            return Err(format!("{}: {}", LINE.to_string_lossy(), io::Error::last_os_error()));
        }
        let mut settings: libc::termios = std::mem::zeroed();
        libc::tcgetattr(fd, &raw mut settings);
        libc::cfmakeraw(&raw mut settings);
        libc::tcsetattr(fd, libc::TCSANOW, &raw const settings);
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        for (from, to) in [(nothing, 0), (fd, 1), (fd, 2)] {
            libc::dup2(from, to);
        }
    }
    Ok(())
}

/// Brings the loopback interface up: servers and clients meet there.
fn loopback() -> Result<(), String> {
    // SAFETY: system calls with a structure of our own.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let done = libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        libc::close(socket);
        if done == 0 { Ok(()) } else { Err(format!("the loopback interface: {}", io::Error::last_os_error())) }
    }
}

/// The end. The recorder usually ends the machine before.
pub fn power_off() -> ! {
    loop {
        // SAFETY: takes no memory.
        unsafe { libc::reboot(libc::RB_POWER_OFF) };
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}
