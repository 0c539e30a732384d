//! A program whose run-time system has its compiled code in larger pieces. Memory that may be executed and written
//! grows by whole multiples of a size, and all of a piece is touched when it is mapped. So paper 2 changed the Java
//! virtual machine (section V), whose compiled code is then mapped by superpages.
//!
//! ```text
//!   reserved   |..................................................|   mmap PROT_NONE
//!   recorded   |rwx|rwx|rwx|                                          64 KiB at a time
//!   here       |rwx, touched .......|                                 2 MiB at a time; the later ones are there
//! ```

use crate::rewrite::{Refused, Rewrite, Rewritten};
use mmulab_addr::{Bytes, Pid, Prot, VirtAddr};
use mmulab_trace::{Backing, Batch, Description, Event, Source, TraceInfo};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};

/// `source` with its code's memory growing by `step`.
pub fn reshape(step: Bytes, source: Box<dyn Source>) -> Box<dyn Source> {
    Box::new(Rewritten::new(source, Growing { step: step.0, acting: Pid(1), spaces: HashMap::new() }))
}

struct Growing {
    step: u64,
    acting: Pid,
    spaces: HashMap<Pid, Space>,
}

/// Ranges that do not overlap: where each begins, and where it ends.
#[derive(Clone, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn around(&self, at: u64) -> Option<(u64, u64)> {
        self.0.range(..=at).next_back().map(|(&start, &end)| (start, end)).filter(|&(_, end)| at < end)
    }

    fn remove(&mut self, start: u64, end: u64) {
        let met: Vec<(u64, u64)> =
            self.0.range(..end).filter(|&(_, &to)| to > start).map(|(&from, &to)| (from, to)).collect();
        for (from, to) in met {
            self.0.remove(&from);
            if from < start {
                self.0.insert(from, start);
            }
            if to > end {
                self.0.insert(end, to);
            }
        }
    }

    fn insert(&mut self, mut start: u64, mut end: u64) {
        if let Some((&from, &to)) = self.0.range(..=start).next_back()
            && to >= start
        {
            (start, end) = (from, end.max(to));
        }
        if let Some(&to) = self.0.get(&end) {
            end = to;
        }
        self.remove(start, end);
        self.0.insert(start, end);
    }
}

/// What a process has of such memory.
#[derive(Clone, Default)]
struct Space {
    /// Set aside, without rights.
    reserved: Ranges,
    /// Grown already.
    grown: Ranges,
}

impl Space {
    fn forget(&mut self, start: u64, end: u64) {
        self.reserved.remove(start, end);
        self.grown.remove(start, end);
    }

    /// What is mapped for `start..end`: the whole pieces around it that lie within what was reserved, less what was
    /// grown before. `None`: all of it is there.
    fn grow(&mut self, start: u64, end: u64, step: u64) -> Option<(u64, u64)> {
        let (least, most) = self.reserved.around(start).filter(|&(_, to)| to >= end).unwrap_or((start, end));
        let mut from = (start - start % step).max(least);
        let to = end.checked_next_multiple_of(step).map_or(end, |up| up.min(most));
        if let Some((_, grown)) = self.grown.around(start) {
            from = grown;
        } else if let Some((_, grown)) = self.grown.around(from) {
            from = grown;
        }
        if from >= end {
            return None;
        }
        self.grown.insert(from, to);
        Some((from, to))
    }
}

impl Growing {
    fn take(&mut self, event: &mut Event) {
        match event {
            Event::Switch { pid, .. } => self.acting = *pid,
            Event::Fork { child, .. } => {
                let copy = self.spaces.get(&self.acting).cloned().unwrap_or_default();
                self.spaces.insert(*child, copy);
            }
            Event::Exec { .. } | Event::Exit { .. } => {
                self.spaces.remove(&self.acting);
            }
            Event::Munmap { addr, len } => {
                let end = addr.raw().saturating_add(*len);
                self.spaces.entry(self.acting).or_default().forget(addr.raw(), end);
            }
            Event::Mmap { addr, len, prot, flags, backing } => {
                let space = self.spaces.entry(self.acting).or_default();
                let (start, end) = (addr.raw(), addr.raw().saturating_add(*len));
                let is_own = matches!(backing, Backing::Anon) && !flags.shared && flags.hugetlb.is_none();
                if is_own && prot.has(Prot::X) && prot.has(Prot::W) {
                    match space.grow(start, end, self.step) {
                        Some((from, to)) => {
                            (*addr, *len) = (VirtAddr::new(from), to - from);
                            flags.populate = true;
                        }
                        // It has these rights already.
                        None => *event = Event::Mprotect { addr: *addr, len: *len, prot: *prot },
                    }
                    return;
                }
                space.forget(start, end);
                if is_own && *prot == Prot::NONE {
                    space.reserved.insert(start, end);
                }
            }
            _ => {}
        }
    }
}

impl Rewrite for Growing {
    fn rewrite(&mut self, batch: &mut Batch) -> Result<(), Refused> {
        batch.events.iter_mut().for_each(|event| self.take(event));
        Ok(())
    }

    fn enter(&mut self, info: &mut TraceInfo) {
        info.reshaped.insert("code_heap".into(), json!(self.step));
    }

    fn describe(&self, description: &mut Description) {
        description.source.push_str("; its compiled code's memory in larger pieces");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::tests::Once;
    use mmulab_trace::MapFlags;

    const M: u64 = 1 << 20;
    const RWX: Prot = Prot::RW.with(Prot::X);

    fn map(start: u64, len: u64, prot: Prot, populate: bool) -> Event {
        let flags = MapFlags { populate, ..MapFlags::default() };
        Event::Mmap { addr: VirtAddr::new(start), len, prot, flags, backing: Backing::Anon }
    }

    fn there(start: u64, len: u64) -> Event {
        Event::Mprotect { addr: VirtAddr::new(start), len, prot: RWX }
    }

    fn changed(events: Vec<Event>) -> Vec<Event> {
        let mut source = reshape(Bytes(2 * M), Box::new(Once(events, TraceInfo::default())));
        let mut batch = Batch::default();
        assert_eq!(source.next_batch(&mut batch).ok(), Some(false));
        assert_eq!(source.info().reshaped["code_heap"], 2 * M);
        batch.events
    }

    #[test]
    fn code_grows_within_what_is_reserved_for_it() {
        let (base, k64) = (64 * M, 64 << 10);
        let events = vec![
            map(base, 5 * M, Prot::NONE, false),
            map(base, k64, RWX, false),
            map(base + k64, k64, RWX, false),
            map(base + 2 * M - k64, 2 * k64, RWX, false),
            map(base + 4 * M, k64, RWX, false),
            map(base + 8 * M, k64, Prot::RW, false),
        ];
        let wanted = [
            map(base, 5 * M, Prot::NONE, false),
            map(base, 2 * M, RWX, true),
            there(base + k64, k64),
            map(base + 2 * M, 2 * M, RWX, true),
            // The reservation ends after 1 MiB more.
            map(base + 4 * M, M, RWX, true),
            map(base + 8 * M, k64, Prot::RW, false),
        ];
        assert_eq!(changed(events), wanted);
    }

    #[test]
    fn without_a_reservation_and_after_munmap_nothing_else_is_taken() {
        let base = 64 * M + 4096;
        let unmap = Event::Munmap { addr: VirtAddr::new(base), len: 8192 };
        let events = vec![map(base, 8192, RWX, false), map(base, 8192, RWX, false), unmap.clone()];
        let again = map(base, 8192, RWX, false);
        let wanted = [map(base, 8192, RWX, true), there(base, 8192), unmap, map(base, 8192, RWX, true)];
        assert_eq!(changed([events, vec![again]].concat()), wanted);
    }

    #[test]
    fn each_process_has_its_own() {
        let base = 64 * M;
        let switch = |pid| Event::Switch { pid: Pid(pid), tid: mmulab_addr::Tid(pid) };
        let reserve = map(base, 4 * M, Prot::NONE, false);
        let commit = || map(base, 4096, RWX, false);
        let grown = map(base, 2 * M, RWX, true);
        let events = vec![
            reserve.clone(),
            Event::Fork { child: Pid(2), shares_memory: false },
            commit(),
            switch(2),
            commit(),
            commit(),
        ];
        let wanted = [reserve, events[1].clone(), grown.clone(), switch(2), grown, there(base, 4096)];
        assert_eq!(changed(events), wanted);
    }
}
