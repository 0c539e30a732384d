//! Places of a recorded program's pages under a real kernel, from the events that record them, counted as ours are.

use super::runs::{MemoryKind, Running, Runs, RunsByKind};
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Pfn, Pid, Prot};
use mmulab_pagetable::Leaf;
use mmulab_trace::{Backing, Event};
use std::collections::BTreeMap;

/// Most pages in frames at once, over all processes: 64 GB of 4 KB pages, each of which takes tens of bytes here.
const PAGES_MAX: u64 = 1 << 24;
/// Most mappings at once, over all processes.
const MAPPINGS_MAX: u64 = 1 << 20;

/// The pages of all processes: of those that ended as they were at the end.
#[derive(Default)]
pub struct RecordedPages {
    acting: Option<Pid>,
    spaces: BTreeMap<Pid, RecordedSpace>,
    ended: Counted,
    told: bool,
    with_kernel: bool,
    /// Pages, and mappings, of all spaces.
    held: [u64; 2],
}

/// Runs, and runs by what memory is for.
#[derive(Clone, Default)]
struct Counted {
    runs: Runs,
    by_kind: RunsByKind,
}

/// Contents of a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    Anon,
    File,
    Heap,
    Stack,
}

/// The mapping from an address on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Map {
    end: u64,
    prot: Prot,
    shows: Shows,
}

impl Map {
    fn kind(self) -> MemoryKind {
        match self.shows {
            Shows::File if self.prot.has(Prot::X) => MemoryKind::Code,
            Shows::File => MemoryKind::File,
            Shows::Heap => MemoryKind::Heap,
            Shows::Stack => MemoryKind::Stack,
            Shows::Anon => MemoryKind::Anon,
        }
    }
}

/// An address space.
#[derive(Clone, Default)]
struct RecordedSpace {
    /// Frames by the first base page: where a page lies, and its size.
    pages: BTreeMap<u64, (u64, PageOrder)>,
    /// Mappings, by the byte where they begin.
    maps: BTreeMap<u64, Map>,
    heap: Option<(u64, u64)>,
}

/// The first page boundary at or above the end of `bytes` from `start`; of a range that reaches the last address, the
/// last one.
fn end_of(start: u64, bytes: u64) -> u64 {
    let last = !(BASE_BYTES - 1);
    start.saturating_add(bytes).checked_next_multiple_of(BASE_BYTES).unwrap_or(last)
}

impl RecordedSpace {
    /// Pages and mappings in it.
    fn held(&self) -> [u64; 2] {
        [self.pages.len() as u64, self.maps.len() as u64]
    }

    /// Nothing is mapped in a range any more; with rights, that is.
    fn map(&mut self, start: u64, bytes: u64, new: Option<(Prot, Shows)>) {
        let end = end_of(start, bytes);
        for (from, map) in self.over(start, end) {
            self.maps.remove(&from);
            if from < start {
                self.maps.insert(from, Map { end: start, ..map });
            }
            if map.end > end {
                self.maps.insert(end, map);
            }
        }
        if let Some((prot, shows)) = new {
            self.maps.insert(start, Map { end, prot, shows });
        }
    }

    /// Mappings in a range, with those that reach into it.
    fn over(&self, start: u64, end: u64) -> Vec<(u64, Map)> {
        self.maps.range(..end).filter(|(_, map)| map.end > start).map(|(&from, &map)| (from, map)).collect()
    }

    fn protect(&mut self, start: u64, bytes: u64, prot: Prot) {
        let end = end_of(start, bytes);
        for (from, map) in self.over(start, end) {
            let (from, to) = (from.max(start), map.end.min(end));
            self.map(from, to.saturating_sub(from), Some((prot, map.shows)));
        }
    }

    /// Its pages in a range are gone.
    fn drop_pages(&mut self, start: u64, bytes: u64) {
        let pages = start >> BASE_SHIFT..start.saturating_add(bytes).div_ceil(BASE_BYTES);
        // A large page that begins before reaches in.
        let met: Vec<u64> = self
            .pages
            .range(..pages.end)
            .rev()
            .take_while(|&(&page, _)| page + PageOrder::P1G.base_pages() > pages.start)
            .filter(|&(&page, &(_, size))| page + size.base_pages() > pages.start)
            .map(|(&page, _)| page)
            .collect();
        for page in met {
            self.pages.remove(&page);
        }
    }

    fn map_at(&self, page: u64) -> Option<Map> {
        let address = page << BASE_SHIFT;
        self.maps.range(..=address).next_back().map(|(_, &map)| map).filter(|map| map.end > address)
    }

    /// Counts its runs.
    fn count(&self, into: &mut Counted) {
        let mut running = Running::default();
        let mut alike = (MemoryKind::Anon, Running::default());
        for (&page, &(frame, order)) in &self.pages {
            let map = self.map_at(page);
            let (prot, kind) = map.map_or((Prot::NONE, MemoryKind::Anon), |map| (map.prot, map.kind()));
            let pfn = Pfn(frame);
            let leaf = Leaf { pfn, order, prot, user: true, accessed: true, dirty: true, global: false };
            if kind != alike.0 {
                alike.1.end(into.by_kind.of(alike.0));
                alike.0 = kind;
            }
            running.next(page, leaf, &mut into.runs);
            alike.1.next(page, leaf, into.by_kind.of(kind));
        }
        running.end(&mut into.runs);
        alike.1.end(into.by_kind.of(alike.0));
    }
}

impl RecordedPages {
    /// Takes the next event.
    ///
    /// # Errors
    /// More pages or mappings than are held here.
    pub fn event(&mut self, event: &Event) -> Result<(), String> {
        let pid = self.acting.unwrap_or(Pid(1));
        let space = self.spaces.entry(pid).or_default();
        let before = space.held();
        let more = match event {
            Event::Frames { count, .. } => [*count, 0],
            Event::Fork { .. } => before,
            // A mapping may part another one.
            _ => [0, 2],
        };
        for (i, (what, most)) in [("pages in frames", PAGES_MAX), ("mappings", MAPPINGS_MAX)].into_iter().enumerate() {
            if self.held[i].saturating_add(more[i]) > most {
                return Err(format!("its processes have more than {most} {what} at once, the most that are counted"));
            }
        }
        self.take(pid, event);
        // A child's are those that its parent had.
        let mut after = self.spaces.get(&pid).map_or([0; 2], RecordedSpace::held);
        if let Event::Fork { child, .. } = event
            && *child != pid
        {
            let copy = self.spaces.get(child).map_or([0; 2], RecordedSpace::held);
            after = [0, 1].map(|i| after[i] + copy[i]);
        }
        self.held = [0, 1].map(|i| self.held[i] + after[i] - before[i]);
        Ok(())
    }

    fn take(&mut self, pid: Pid, event: &Event) {
        let space = self.spaces.entry(pid).or_default();
        match event {
            Event::Switch { pid, .. } => self.acting = Some(*pid),
            Event::Frames { addr, .. } if addr.raw() >> 63 == 1 => self.with_kernel = true,
            Event::Frames { addr, pfn, size, count } => {
                self.told = true;
                let pages = size.base_pages();
                space.drop_pages(addr.raw(), count.saturating_mul(size.bytes()));
                let first = addr.raw() >> BASE_SHIFT;
                for i in 0..*count {
                    let at = i.saturating_mul(pages);
                    space.pages.insert(first.saturating_add(at), (pfn.0.saturating_add(at), *size));
                }
            }
            Event::Mmap { addr, len, prot, flags, backing } => {
                let shows = match backing {
                    _ if flags.grows_down => Shows::Stack,
                    Backing::File { .. } => Shows::File,
                    Backing::Anon => Shows::Anon,
                };
                space.map(addr.raw(), *len, Some((*prot, shows)));
                space.drop_pages(addr.raw(), *len);
            }
            Event::Munmap { addr, len } => {
                space.map(addr.raw(), *len, None);
                space.drop_pages(addr.raw(), *len);
            }
            Event::Mprotect { addr, len, prot } => space.protect(addr.raw(), *len, *prot),
            Event::Mremap { old, old_len, new, new_len, .. } => {
                let map = space.map_at(old.raw() >> BASE_SHIFT);
                space.map(old.raw(), *old_len, None);
                space.drop_pages(old.raw(), *old_len);
                space.map(new.raw(), *new_len, map.map(|map| (map.prot, map.shows)));
            }
            Event::Madvise { addr, len, advice: mmulab_trace::Advice::Dontneed } => {
                space.drop_pages(addr.raw(), *len);
            }
            Event::Brk { start, end } => {
                if let Some((from, to)) = space.heap.replace((start.raw(), end.raw())) {
                    space.map(from, to.saturating_sub(from), None);
                    let above = end_of(end.raw(), 0);
                    space.drop_pages(above, to.saturating_sub(above));
                }
                let first = start.raw() & !(BASE_BYTES - 1);
                space.map(first, end.raw().saturating_sub(first), Some((Prot::RW, Shows::Heap)));
            }
            Event::Fork { child, .. } => {
                let copy = space.clone();
                self.spaces.insert(*child, copy);
            }
            Event::Exec { .. } => *space = RecordedSpace::default(),
            Event::Exit { .. } => {
                space.count(&mut self.ended);
                self.spaces.remove(&pid);
            }
            _ => {}
        }
    }

    fn counted(&self) -> Counted {
        let mut out = self.ended.clone();
        self.spaces.values().for_each(|space| space.count(&mut out));
        out
    }

    /// The runs of all pages; `None` if no event recorded where they lie.
    pub fn runs(&self) -> Option<Runs> {
        self.told.then(|| self.counted().runs)
    }

    /// The same by what memory is for.
    pub fn by_kind(&self) -> RunsByKind {
        self.counted().by_kind
    }

    /// Whether the kernel's own pages were recorded, too; they are not among those counted.
    pub fn with_kernel(&self) -> bool {
        self.with_kernel
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_trace::{Batch, Source, TextReader};

    fn counted(text: &str) -> RecordedPages {
        let mut pages = RecordedPages::default();
        let mut batch = Batch::default();
        let mut reader = TextReader::new(text.as_bytes(), "t".into());
        while reader.next_batch(&mut batch).unwrap() {
            batch.events.iter().for_each(|event| pages.event(event).unwrap());
        }
        pages
    }

    #[test]
    fn runs_end_where_frames_or_rights_do() {
        // Pages 1 to 3 in frames 7, 8, 9, of which the last cannot be written. Page 5 in frame 10; a page of 2 MB.
        let found = counted(
            "mmap 0x1000 64K rw anon\nmprotect 0x3000 4K r\nmmap 0x200000 2M rw anon\nframes 0x1000 0x7000 4K x3\n\
             frames 0x5000 0xa000 4K\nframes 0x200000 0x400000 2M\nframes 0xffff888000000000 0x0 4K\n",
        );
        let runs = found.runs().unwrap().by_size();
        assert_eq!(runs["4K"].lengths, BTreeMap::from([(1, 2), (2, 1)]));
        assert_eq!((runs["2M"].pages, runs.len(), found.with_kernel()), (1, 2, true));
    }

    #[test]
    fn runs_are_told_by_what_memory_is_for() {
        // Neighbours in both memories throughout: code, constants, the heap; and, apart, a stack.
        let found = counted(
            "mmap 0x1000 8K rx file:/x@0\nmmap 0x3000 8K rw file:/x@8192\nmprotect 0x3000 4K r\nbrk 0x5000 0x8000\n\
             mmap 0x100000 8K rw anon growsdown\nframes 0x1000 0x7000 4K x7\nframes 0x100000 0x20000 4K\n",
        );
        let by_kind = found.by_kind().by_kind();
        let pages = |kind| by_kind[&kind]["4K"].lengths.clone();
        assert_eq!(pages(MemoryKind::Code), BTreeMap::from([(2, 1)]));
        assert_eq!(pages(MemoryKind::File), BTreeMap::from([(1, 2)]), "one of them can be written");
        assert_eq!(pages(MemoryKind::Heap), BTreeMap::from([(3, 1)]));
        assert_eq!(pages(MemoryKind::Stack), BTreeMap::from([(1, 1)]));
        assert_eq!(by_kind.len(), 4);
    }

    #[test]
    fn senseless_events_are_survived_and_too_many_refused() {
        // CHANGELOG number 16: ends beyond the last address, heaps that end before they begin.
        let all = u64::MAX;
        let ends = format!(
            "mmap 0xfffffffffffff001 0xfff rw anon\nmprotect 0xfffffffffffff001 0xfff r\n\
             munmap 0xffffffffffffffff 144115188075855872\n\
             brk 0x5000 0x1000\nbrk 0xffffffffffffffff 0x10\nbrk 0x0 0xffffffffffffffff\nmprotect 0x1001 0 r\n\
             mremap 0xfffffffffffff000 144115188075855872 0xfffffffffffff000 144115188075855872\n\
             madvise 0xffffffffffffffff 144115188075855872 dontneed\nframes 0xffffffffff000 {all} 4K\n"
        );
        let found = counted(&ends);
        drop((found.runs(), found.by_kind()));
        // CHANGELOG number 18: a count that no file can honestly mean, and what forks make of what is held.
        let refused = |text: &str| {
            let (mut pages, mut batch) = (RecordedPages::default(), Batch::default());
            assert!(TextReader::new(text.as_bytes(), "t".into()).next_batch(&mut batch).unwrap(), "one batch");
            let events: Result<Vec<_>, _> = batch.events.iter().map(|event| pages.event(event)).collect();
            events.expect_err("too many")
        };
        for count in [all, 1 << 40, (1 << 24) + 1] {
            assert!(refused(&format!("frames 0x0 0x0 4K x{count}\n")).contains("more than 16777216 pages in frames"));
        }
        let forks: String = (2..600).map(|pid| format!("fork {pid}\n")).collect();
        let maps: String = (1..4000).map(|n| format!("mmap {} 4K rw anon\n", n * 8192)).collect();
        assert!(refused(&format!("{maps}{forks}")).contains("more than 1048576 mappings"));
        let ended: String = (2..600).map(|pid| format!("fork {pid}\np {pid}.{pid}\nexit\np 1.1\n")).collect();
        drop(counted(&format!("{maps}{ended}")));
    }

    #[test]
    fn pages_go_with_mappings_and_processes() {
        let found = counted(
            "mmap 0x1000 16K rw anon\nframes 0x1000 0x7000 4K x4\nfork 2\nmunmap 0x2000 4K\np 2.2\nexit\n\
             p 1.1\nexec /x\n",
        );
        assert_eq!(found.runs().unwrap().by_size()["4K"].lengths, BTreeMap::from([(4, 1)]), "the child's, at its end");
        let split = counted("frames 0x200000 0x400000 2M\nframes 0x201000 0x9000 4K\n").runs().unwrap().by_size();
        assert_eq!((split.len(), split["4K"].pages), (1, 1), "the large page is gone");
        assert!(counted("r 0x1000\n").runs().is_none());
    }
}
