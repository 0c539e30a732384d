//! Where code of files is mapped: by process, the executable mappings of some files. Profiles and orders of functions
//! both go from addresses to bytes of files by it.

use mmulab_addr::{BASE_BYTES, Pid, Prot};
use mmulab_trace::{Backing, Event};
use std::{collections::HashMap, ops::Range, sync::Arc};

/// A mapped part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    start: u64,
    end: u64,
    file: usize,
    offset: u64,
    is_code: bool,
}

impl Part {
    fn within(self, range: &Range<u64>) -> Option<Self> {
        let (start, end) = (self.start.max(range.start), self.end.min(range.end));
        (start < end).then(|| Self { start, end, offset: self.offset.wrapping_add(start - self.start), ..self })
    }
}

/// The mapped parts of files in one address space, in order.
#[derive(Clone, Default, Debug)]
struct Space(Vec<Part>);

impl Space {
    /// Takes what is in a range away, and returns it.
    fn cut(&mut self, range: &Range<u64>) -> Vec<Part> {
        let mut gone = Vec::new();
        let mut kept = Vec::new();
        for part in std::mem::take(&mut self.0) {
            gone.extend(part.within(range));
            kept.extend(part.within(&(0..range.start)));
            kept.extend(part.within(&(range.end..u64::MAX)));
        }
        self.0 = kept;
        gone
    }

    fn add(&mut self, parts: impl IntoIterator<Item = Part>) {
        self.0.extend(parts);
        self.0.sort_unstable_by_key(|part| part.start);
    }
}

/// The byte of a file that an address shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The number of the file.
    pub file: usize,
    /// The offset in it.
    pub offset: u64,
}

/// Executable mappings of files, process by process.
pub struct CodeMaps {
    files: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, usize>,
    /// Only these files, if they are known beforehand.
    is_closed: bool,
    spaces: HashMap<Pid, Space>,
    acting: Pid,
    /// The space that acts.
    now: Space,
    /// Where the last address was found.
    last: Part,
}

const NOWHERE: Part = Part { start: 0, end: 0, file: 0, offset: 0, is_code: false };

impl CodeMaps {
    /// Of all files that are mapped.
    pub fn all() -> Self {
        Self::new(Vec::new(), false)
    }

    /// Of these files, which keep their numbers.
    pub fn of(files: Vec<Arc<str>>) -> Self {
        Self::new(files, true)
    }

    fn new(files: Vec<Arc<str>>, is_closed: bool) -> Self {
        let numbers = files.iter().cloned().zip(0..).collect();
        let (spaces, now) = (HashMap::new(), Space::default());
        Self { files, numbers, is_closed, spaces, acting: Pid(1), now, last: NOWHERE }
    }

    /// The files, by number.
    pub fn files(&self) -> &[Arc<str>] {
        &self.files
    }

    /// The byte of a file's code at an address of the acting process.
    #[inline]
    pub fn find(&mut self, va: u64) -> Option<Place> {
        if va.wrapping_sub(self.last.start) >= self.last.end - self.last.start {
            let at = self.now.0.partition_point(|part| part.end <= va);
            self.last = *self.now.0.get(at).filter(|part| part.start <= va)?;
        }
        let Part { start, file, offset, is_code, .. } = self.last;
        is_code.then(|| Place { file, offset: offset.wrapping_add(va - start) })
    }

    /// The mapping that the address found last lies in: its addresses, and the offset of the first of them.
    pub fn around(&self) -> (Range<u64>, u64) {
        (self.last.start..self.last.end, self.last.offset)
    }

    /// Takes an event in.
    pub fn event(&mut self, event: &Event) {
        self.last = NOWHERE;
        let pages = |start: u64, len: u64| {
            let end = start.saturating_add(len).checked_next_multiple_of(BASE_BYTES).unwrap_or(u64::MAX);
            start & !(BASE_BYTES - 1)..end
        };
        match event {
            Event::Switch { pid, .. } if *pid != self.acting => {
                let next = self.spaces.remove(pid).unwrap_or_default();
                let before = std::mem::replace(&mut self.now, next);
                self.spaces.insert(std::mem::replace(&mut self.acting, *pid), before);
            }
            Event::Mmap { addr, len, prot, backing, .. } => {
                let range = pages(addr.raw(), *len);
                self.now.cut(&range);
                if let Backing::File { path, offset } = backing
                    && let Some(file) = self.number(path)
                {
                    let Range { start, end } = range;
                    self.now.add([Part { start, end, file, offset: *offset, is_code: prot.has(Prot::X) }]);
                }
            }
            Event::Munmap { addr, len } => drop(self.now.cut(&pages(addr.raw(), *len))),
            Event::Mprotect { addr, len, prot } => {
                let changed = self.now.cut(&pages(addr.raw(), *len));
                self.now.add(changed.into_iter().map(|part| Part { is_code: prot.has(Prot::X), ..part }));
            }
            Event::Mremap { old, old_len, new, new_len, .. } => {
                let moved = self.now.cut(&pages(old.raw(), *old_len));
                let target = pages(new.raw(), *new_len);
                self.now.cut(&target);
                let delta = new.raw().wrapping_sub(old.raw());
                let shifted = moved.into_iter().filter_map(|part| {
                    let start = part.start.wrapping_add(delta);
                    Part { start, end: start + (part.end - part.start), ..part }.within(&target)
                });
                self.now.add(shifted.collect::<Vec<_>>());
            }
            Event::Fork { child, .. } => drop(self.spaces.insert(*child, self.now.clone())),
            Event::Exec { .. } | Event::Exit { .. } => self.now = Space::default(),
            _ => {}
        }
    }

    fn number(&mut self, path: &Arc<str>) -> Option<usize> {
        if let Some(&number) = self.numbers.get(path) {
            return Some(number);
        }
        if self.is_closed {
            return None;
        }
        self.files.push(Arc::clone(path));
        self.numbers.insert(Arc::clone(path), self.files.len() - 1);
        Some(self.files.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::{Tid, VirtAddr};
    use mmulab_trace::MapFlags;

    fn map(addr: u64, len: u64, prot: Prot, path: &str, offset: u64) -> Event {
        let backing = Backing::File { path: path.into(), offset };
        Event::Mmap { addr: VirtAddr::new(addr), len, prot, flags: MapFlags::default(), backing }
    }

    #[test]
    fn an_address_of_code_is_the_byte_of_the_file_that_is_mapped_there_last() {
        let mut maps = CodeMaps::all();
        maps.event(&map(0x40_0000, 0x4000, Prot::RX, "/bin/a", 0x1000));
        maps.event(&map(0x40_1000, 0x1000, Prot::R, "/bin/b", 0));
        let place = |file, offset| Some(Place { file, offset });
        assert_eq!(maps.find(0x40_0010), place(0, 0x1010));
        assert_eq!(maps.find(0x40_1010), None);
        assert_eq!(maps.find(0x40_2010), place(0, 0x3010));
        assert_eq!(maps.find(0x40_4000), None);
        // A child has the same, until it starts another program; the parent keeps its own.
        maps.event(&Event::Fork { child: Pid(2), shares_memory: false });
        maps.event(&Event::Switch { pid: Pid(2), tid: Tid(2) });
        assert_eq!(maps.find(0x40_2010), place(0, 0x3010));
        maps.event(&Event::Exec { path: "/bin/c".into() });
        assert_eq!(maps.find(0x40_2010), None);
        maps.event(&Event::Switch { pid: Pid(1), tid: Tid(1) });
        assert_eq!(maps.find(0x40_2010), place(0, 0x3010));
        let (addr, old_len) = (VirtAddr::new(0x40_2000), 0x2000);
        maps.event(&Event::Mprotect { addr, len: 0x1000, prot: Prot::R });
        assert_eq!((maps.find(0x40_2010), maps.find(0x40_3010)), (None, place(0, 0x4010)));
        maps.event(&Event::Mremap {
            old: addr,
            old_len,
            new: VirtAddr::new(0x50_0000),
            new_len: old_len,
            keep_old: false,
        });
        assert_eq!((maps.find(0x40_3010), maps.find(0x50_1010)), (None, place(0, 0x4010)));
        maps.event(&Event::Munmap { addr: VirtAddr::new(0x50_1000), len: 1 });
        assert_eq!(maps.find(0x50_1010), None);
    }
}
