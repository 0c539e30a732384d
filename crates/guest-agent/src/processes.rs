//! What the recorder is told of processes: who they are, and what they have mapped and open.

use std::{fmt::Write as _, fs, io, os::unix::fs::FileExt};

pub const PAGE: u64 = 4096;
/// Of an entry of /proc/PID/pagemap: the frame, and whether there is one (Documentation/admin-guide/mm/pagemap.rst).
pub const FRAME: u64 = (1 << 55) - 1;
pub const PRESENT: u64 = 1 << 63;

/// Processes other than this one that run a program of the user's.
pub fn others() -> Vec<u32> {
    let entries = fs::read_dir("/proc").map(|entries| entries.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let mut pids: Vec<u32> = entries.iter().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    // A thread of the kernel's has no program.
    pids.retain(|&pid| pid != 1 && fs::read_link(format!("/proc/{pid}/exe")).is_ok());
    pids.sort_unstable();
    pids
}

/// The report on the process `pid`: its program, its open files and its mappings. It also has one page of the process
/// and its frame, by which the recorder finds the address space.
pub fn describe(pid: u32) -> String {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut out = String::new();
    let (page, frame) = own_page(pid, &maps).unwrap_or_default();
    let _ = writeln!(out, "process {pid} {page:#x} {frame:#x}");
    if let Ok(exe) = fs::read_link(format!("/proc/{pid}/exe")) {
        let _ = writeln!(out, "exe {}", exe.display());
    }
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
        if let (Some(fd), Ok(path)) = (entry.file_name().to_str(), fs::read_link(entry.path())) {
            let _ = writeln!(out, "fd {fd} {}", path.display());
        }
    }
    for line in maps.lines() {
        let _ = writeln!(out, "map {line}");
    }
    out.push_str("end\n");
    out
}

/// A page that only this process has in this frame: that of its stack pointer, or else the top of its stack.
fn own_page(pid: u32, maps: &str) -> Option<(u64, u64)> {
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    // The last two words are the stack pointer and the program counter (proc(5)).
    let pointer = call.split_whitespace().rev().nth(1).and_then(hex);
    let top = maps.lines().find(|line| line.ends_with("[stack]"));
    let top = top.and_then(|line| hex(line.split(['-', ' ']).nth(1)?)).map(|end| end - PAGE);
    [pointer, top].into_iter().flatten().find_map(|address| {
        let entry = entry(pid, address / PAGE).ok()?;
        (entry & PRESENT != 0).then_some((address & !(PAGE - 1), entry & FRAME))
    })
}

fn entry(pid: u32, page: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    fs::File::open(format!("/proc/{pid}/pagemap"))?.read_exact_at(&mut bytes, page * 8)?;
    Ok(u64::from_le_bytes(bytes))
}
