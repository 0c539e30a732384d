//! The memory map of this process, as Linux shows it: QEMU's own memory before it loads a program, and the program's
//! afterwards.

use mmulab_addr::Prot;
use std::{
    fs::File,
    sync::{Mutex, PoisonError},
};

/// Where the system shows a process's memory map.
const MAP: &str = "/proc/self/maps";

/// A line of /proc/self/maps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub prot: Prot,
    pub offset: u64,
    pub path: String,
}

/// The memory map of this process, opened before it enters a root directory without /proc.
static KEPT: Mutex<Option<File>> = Mutex::new(None);

/// Keeps the memory map at hand until it was read again.
pub fn keep_map() {
    *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = File::open(MAP).ok();
}

/// The memory map of this process.
pub fn mappings() -> Vec<Mapping> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).take();
    let text = match kept {
        Some(file) => std::io::read_to_string(file),
        None => std::fs::read_to_string(MAP),
    };
    text.unwrap_or_default().lines().filter_map(parse).collect()
}

/// A line of it.
pub fn parse(line: &str) -> Option<Mapping> {
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?.as_bytes();
    let may = |(place, letter)| rights.get(place) == Some(&letter);
    let prot = [b'r', b'w', b'x'].into_iter().enumerate().map(|right| u8::from(may(right)) << right.0).sum();
    let prot = Prot::from_bits(prot);
    let offset = fields.next()?;
    let path = fields.nth(2).unwrap_or_default().trim();
    Some(Mapping { start: hex(start)?, end: hex(end)?, prot, offset: hex(offset)?, path: path.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_memory_map_are_read() {
        let line = "7f0000001000-7f0000003000 r--p 00002000 fe:00 1234      /lib/with a space.so";
        let expected = Mapping {
            start: 0x7f00_0000_1000,
            end: 0x7f00_0000_3000,
            prot: Prot::R,
            offset: 0x2000,
            path: "/lib/with a space.so".into(),
        };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse("1000-2000 rw-p 00000000 00:00 0").unwrap().path, "");
        assert!(mappings().iter().any(|m| m.path == "[stack]"));
    }
}
