//! Where a real kernel had a recorded program's pages, from the events that tell it, counted as ours are.

use crate::Runs;
use mmulab_addr::{BASE_BYTES, BASE_SHIFT, PageOrder, Pid, Prot};
use mmulab_trace::Event;
use std::collections::BTreeMap;

/// The pages of all processes: of those that ended as they were at the end.
#[derive(Default)]
pub struct RecordedPages {
    acting: Option<Pid>,
    spaces: BTreeMap<Pid, Space>,
    ended: Runs,
    told: bool,
    with_kernel: bool,
}

/// An address space.
#[derive(Clone, Default)]
struct Space {
    /// Frames by the first base page: where a page lies, and its size.
    pages: BTreeMap<u64, (u64, PageOrder)>,
    /// Ends and rights of what is mapped, by where it begins, in bytes.
    maps: BTreeMap<u64, (u64, Prot)>,
    heap: Option<(u64, u64)>,
}

impl Space {
    /// Nothing is mapped in a range any more; with `prot`, that is.
    fn map(&mut self, start: u64, bytes: u64, prot: Option<Prot>) {
        let end = start.saturating_add(bytes).next_multiple_of(BASE_BYTES);
        let met: Vec<_> = self.maps.range(..end).filter(|(_, m)| m.0 > start).map(|(&s, &m)| (s, m)).collect();
        for (from, (to, rights)) in met {
            self.maps.remove(&from);
            if from < start {
                self.maps.insert(from, (start, rights));
            }
            if to > end {
                self.maps.insert(end, (to, rights));
            }
        }
        if let Some(prot) = prot {
            self.maps.insert(start, (end, prot));
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

    fn rights(&self, page: u64) -> Option<Prot> {
        let address = page << BASE_SHIFT;
        self.maps.range(..=address).next_back().filter(|(_, m)| m.0 > address).map(|(_, m)| m.1)
    }

    /// Counts its runs.
    fn count(&self, into: &mut Runs) {
        let mut run: Option<(u64, u64, PageOrder, Option<Prot>, u64)> = None;
        for (&page, &(frame, size)) in &self.pages {
            let (rights, pages) = (self.rights(page), size.base_pages());
            match &mut run {
                Some((next, after, order, prot, length))
                    if (*next, *after, *order, *prot) == (page, frame, size, rights) =>
                {
                    (*next, *after, *length) = (page + pages, frame + pages, *length + 1);
                }
                _ => {
                    if let Some((_, _, order, _, length)) = run.take() {
                        into.add(order, length);
                    }
                    run = Some((page + pages, frame + pages, size, rights, 1));
                }
            }
        }
        if let Some((_, _, order, _, length)) = run {
            into.add(order, length);
        }
    }
}

impl RecordedPages {
    /// Takes the next event.
    pub fn event(&mut self, event: &Event) {
        let pid = self.acting.unwrap_or(Pid(1));
        let space = self.spaces.entry(pid).or_default();
        match event {
            Event::Switch { pid, .. } => self.acting = Some(*pid),
            Event::Frames { addr, .. } if addr.raw() >> 63 == 1 => self.with_kernel = true,
            Event::Frames { addr, pfn, size, count } => {
                self.told = true;
                let pages = size.base_pages();
                space.drop_pages(addr.raw(), count * size.bytes());
                for i in 0..*count {
                    space.pages.insert((addr.raw() >> BASE_SHIFT) + i * pages, (pfn.0 + i * pages, *size));
                }
            }
            Event::Mmap { addr, len, prot, .. } => {
                space.map(addr.raw(), *len, Some(*prot));
                space.drop_pages(addr.raw(), *len);
            }
            Event::Munmap { addr, len } => {
                space.map(addr.raw(), *len, None);
                space.drop_pages(addr.raw(), *len);
            }
            Event::Mprotect { addr, len, prot } => space.map(addr.raw(), *len, Some(*prot)),
            Event::Mremap { old, old_len, new, new_len, .. } => {
                let rights = space.rights(old.raw() >> BASE_SHIFT);
                space.map(old.raw(), *old_len, None);
                space.drop_pages(old.raw(), *old_len);
                space.map(new.raw(), *new_len, rights);
            }
            Event::Madvise { addr, len, advice: mmulab_trace::Advice::Dontneed } => {
                space.drop_pages(addr.raw(), *len);
            }
            Event::Brk { start, end } => {
                if let Some((from, to)) = space.heap.replace((start.raw(), end.raw())) {
                    space.map(from, to - from, None);
                    let gone = to.saturating_sub(end.raw().next_multiple_of(BASE_BYTES));
                    space.drop_pages(end.raw().next_multiple_of(BASE_BYTES), gone);
                }
                space.map(
                    start.raw() & !(BASE_BYTES - 1),
                    end.raw() - (start.raw() & !(BASE_BYTES - 1)),
                    Some(Prot::RW),
                );
            }
            Event::Fork { child, .. } => {
                let copy = space.clone();
                self.spaces.insert(*child, copy);
            }
            Event::Exec { .. } => *space = Space::default(),
            Event::Exit { .. } => {
                space.count(&mut self.ended);
                self.spaces.remove(&pid);
            }
            _ => {}
        }
    }

    /// The runs of all pages; `None` if no event told where they lie.
    pub fn runs(&self) -> Option<Runs> {
        let mut out = self.ended.clone();
        self.spaces.values().for_each(|space| space.count(&mut out));
        self.told.then_some(out)
    }

    /// Whether the kernel's own pages were told, too; they are not among those counted.
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
            batch.events.iter().for_each(|event| pages.event(event));
        }
        pages
    }

    #[test]
    fn runs_end_where_frames_or_rights_do() {
        // Pages 1 to 3 in frames 7, 8, 9, of which the last cannot be written; page 5 in frame 10; a page of 2 MB.
        let found = counted(
            "mmap 0x1000 64K rw anon\nmprotect 0x3000 4K r\nmmap 0x200000 2M rw anon\nframes 0x1000 0x7000 4K x3\n\
             frames 0x5000 0xa000 4K\nframes 0x200000 0x400000 2M\nframes 0xffff888000000000 0x0 4K\n",
        );
        let runs = found.runs().unwrap().by_size();
        assert_eq!(runs["4K"].lengths, BTreeMap::from([(1, 2), (2, 1)]));
        assert_eq!((runs["2M"].pages, runs.len(), found.with_kernel()), (1, 2, true));
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
