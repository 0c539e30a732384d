//! Comparison of the page tables of a machine and of its twin without coalescing.

use mmulab_addr::PhysAddr;
use mmulab_frames::PhysMem;
use mmulab_pagetable::{Format, Root};

/// Entries of a table frame that share a line.
const LINE_ENTRIES: u64 = 8;

/// Compares all memory of a table.
pub(super) fn sweep(mine: &PhysMem, theirs: &PhysMem, format: Format, root: Root) -> Result<(), String> {
    let mut all = Ok(());
    format.each_line(mine, root, &mut |level, line| {
        if all.is_ok() && mine.line(line) != theirs.line(line) {
            let entries = (0..LINE_ENTRIES).map(|n| PhysAddr(line.0 + n * 8));
            all = entries.into_iter().try_for_each(|entry| differ(mine, theirs, level, entry));
        }
    });
    all
}

/// Compares an entry.
pub(super) fn differ(mine: &PhysMem, theirs: &PhysMem, level: u8, entry: PhysAddr) -> Result<(), String> {
    let (mine, theirs) = (mine.read(entry), theirs.read(entry));
    if mine == theirs {
        return Ok(());
    }
    Err(format!("the entry of level {level} at {entry} is {mine:#x}, and {theirs:#x} without coalescing"))
}

/// Compares a value.
pub(super) fn same<T: PartialEq + std::fmt::Debug>(mine: T, theirs: T, what: &str) -> Result<(), String> {
    if mine == theirs { Ok(()) } else { Err(format!("{what} is {mine:?}, and {theirs:?} without coalescing")) }
}
