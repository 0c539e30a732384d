//! The program's code, moved onto huge pages at its own addresses, and what became of it.
//!
//! The kernel gives file pages of most file systems base pages. A copy of the code in other memory can have huge ones
//! ([`crate::copy`]). Only whole aligned 2 MB of a mapping are moved.

use crate::advice::HUGE;
use crate::copy::{Memory, replace};

/// One line of /proc/self/maps.
pub struct Mapping {
    pub start: usize,
    pub end: usize,
    pub rights: String,
    /// Where in its file it begins.
    pub offset: usize,
    pub name: String,
}

impl Mapping {
    /// Its length.
    pub fn bytes(&self) -> usize {
        self.end - self.start
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?.to_owned();
        let offset = words.next()?;
        let name = words.skip(2).collect::<Vec<_>>().join(" ");
        let number = |text| usize::from_str_radix(text, 16).ok();
        Some(Self { start: number(start)?, end: number(end)?, rights, offset: number(offset)?, name })
    }
}

/// The mappings of this process.
pub fn mappings() -> Vec<Mapping> {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    text.lines().filter_map(Mapping::read).collect()
}

/// What became of the code, in bytes.
#[derive(Default)]
pub struct Moved {
    /// All code mapped from files.
    pub code: usize,
    /// Code in whole aligned 2 MB, now in memory of another kind.
    pub moved: usize,
    /// Of that, mapped by huge pages.
    pub huge: usize,
    /// Each mapping of code, as it was before.
    pub texts: Vec<Text>,
}

/// A mapping of code, and what was moved of it.
pub struct Text {
    pub mapping: Mapping,
    /// The first address that was moved.
    pub from: usize,
    /// For each 2 MB that were moved, whether one huge page maps them.
    pub huge: Vec<bool>,
}

impl Text {
    /// For the report: addresses, offset in the file, first address moved, pages, and the file. Pages are `H` (huge
    /// page) or `b` (base pages) for each 2 MB moved, or `-` where none was.
    pub fn line(&self) -> String {
        let Mapping { start, end, offset, name, .. } = &self.mapping;
        let mut pages: String = self.huge.iter().map(|&huge| if huge { 'H' } else { 'b' }).collect();
        if pages.is_empty() {
            pages.push('-');
        }
        format!("text_{start:x} {start:x}-{end:x} {offset:x} {:x} {pages} {name}", self.from)
    }
}

/// Moves all code of the program and its libraries to memory of this kind.
pub fn move_code(to: Memory) -> Moved {
    let mut all = Moved::default();
    let mut places = Vec::new();
    for mapping in mappings().into_iter().filter(|m| m.rights == "r-xp" && m.name.starts_with('/')) {
        all.code += mapping.bytes();
        let (start, end) = (mapping.start.next_multiple_of(HUGE), mapping.end / HUGE * HUGE);
        let huge = if start < end { replace(start, end - start, to) } else { None };
        if huge.is_some() {
            all.moved += end - start;
            places.push((start, end));
        }
        all.texts.push(Text { mapping, from: start, huge: huge.unwrap_or_default() });
    }
    all.huge = huge_bytes(&places);
    all
}

/// Bytes that huge pages map of the mappings that begin within these places.
fn huge_bytes(places: &[(usize, usize)]) -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    // Private pages of the pool, transparent ones, and those of a tmpfs.
    let kinds = ["Private_Hugetlb:", "AnonHugePages:", "ShmemPmdMapped:"];
    let (mut inside, mut total) = (false, 0);
    for line in text.lines() {
        if let Some(mapping) = Mapping::read(line) {
            inside = places.iter().any(|&(start, end)| mapping.start < end && mapping.end > start);
        } else if inside && kinds.iter().any(|kind| line.starts_with(kind)) {
            let kilobytes: usize = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
            total += kilobytes << 10;
        }
    }
    total
}
