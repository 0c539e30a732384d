//! Tracker of accessed base pages. A kernel cannot see the accesses to single base pages of a huge page, so the
//! tracker reads the trace itself. Reports measure bloat and read-around against these pages.

use mmulab_addr::{BASE_SHIFT, PageOrder, Pid, VirtAddr, VirtRange, Vpn};
use mmulab_trace::{Advice, Backing, Batch, Event, Item};
use rustc_hash::FxHashMap;
use std::{collections::BTreeMap, sync::Arc};

mod space;

use space::{Seen, Shown, Space};

/// The base pages that the processes of a trace accessed so far. They depend on the trace alone, so one tracker serves
/// every machine that runs over the trace.
#[derive(Default)]
pub struct Touched {
    spaces: Vec<Space>,
    /// The space each process is in: a vfork's child is in its parent's.
    of: BTreeMap<Pid, usize>,
    files: BTreeMap<Arc<str>, u32>,
    /// Pages of files that were touched, as bits in leaves of 512.
    of_files: FxHashMap<(u32, u64), [u64; 8]>,
    file_pages: u64,
    acting: usize,
    pid: Pid,
    /// The last page that was fetched from, loaded from, stored to: a repeated one is already marked.
    last: [Vpn; 3],
    /// Private pages touched, of all spaces, now and at the most.
    private: u64,
    private_peak: u64,
}

/// Most leaves of 2 MiB and mappings of all processes together, some hundred bytes each.
const HELD_MAX: usize = 1 << 22;
const NOWHERE: Vpn = Vpn(u64::MAX);

impl Touched {
    /// Nothing touched yet; process 1 acts.
    pub fn new() -> Self {
        let mut new = Self { last: [NOWHERE; 3], ..Self::default() };
        new.act(Pid(1));
        new
    }

    /// Counts the references of an interval of the trace.
    ///
    /// # Errors
    /// It touches more, in more processes, than is kept here.
    pub fn take(&mut self, batch: &Batch) -> Result<(), String> {
        for r in &batch.refs {
            if r.is_control() {
                if let Item::Event(index) = r.item() {
                    self.count_and_obey(&batch.events[index])?;
                }
                continue;
            }
            let (vpn, store) = (r.va().vpn(), r.is_write());
            let last = &mut self.last[if r.is_fetch() { 0 } else { 1 + usize::from(store) }];
            if *last != vpn {
                *last = vpn;
                self.mark(vpn, store);
            }
        }
        self.check(0)
    }

    /// Obeys an event, if there is room for what a fork copies.
    fn count_and_obey(&mut self, event: &Event) -> Result<(), String> {
        if let Event::Fork { shares_memory: false, .. } = event {
            self.check(self.spaces[self.acting].held())?;
        }
        self.event(event);
        Ok(())
    }

    /// Whether there is room for so much more. Spaces are few, and this is asked once a batch and at forks.
    fn check(&self, more: usize) -> Result<(), String> {
        let held: usize = self.spaces.iter().map(Space::held).sum();
        if held + more > HELD_MAX {
            return Err(format!(
                "its processes touch more than {HELD_MAX} blocks of 2 MB, the most whose pages can be tracked: leave \
                 out --touched, or stop before with --max-instructions"
            ));
        }
        Ok(())
    }

    /// The most bytes of private memory (anonymous, or copied from a file by a store) that were touched and still
    /// mapped, all processes together. What a fork copied counts for the child from its first store on, as it does in
    /// memory.
    pub fn private_bytes_peak(&self) -> u64 {
        self.private_peak.max(self.private) << BASE_SHIFT
    }

    /// Bytes of files that were touched, each page once, whichever process touched it.
    pub fn file_bytes(&self) -> u64 {
        self.file_pages << BASE_SHIFT
    }

    fn mark(&mut self, vpn: Vpn, store: bool) {
        match self.spaces[self.acting].mark(vpn, store) {
            Seen::Before => {}
            Seen::Private => self.private += 1,
            Seen::File { file, page, private } => {
                let word = &mut self.of_files.entry((file, page >> 9)).or_default()[(page & 511) as usize >> 6];
                let bit = 1 << (page & 63);
                self.file_pages += u64::from(*word & bit == 0);
                *word |= bit;
                self.private += u64::from(private);
            }
        }
    }

    /// `pid` acts from here on.
    fn act(&mut self, pid: Pid) {
        self.pid = pid;
        self.acting = *self.of.entry(pid).or_insert_with(|| {
            self.spaces.push(Space::default());
            self.spaces.len() - 1
        });
    }

    /// The acting process leaves its address space, which goes with its last user.
    fn leave(&mut self) {
        self.of.remove(&self.pid);
        if !self.of.values().any(|&space| space == self.acting) {
            self.private -= self.spaces[self.acting].private_pages();
            self.spaces[self.acting] = Space::default();
        }
    }

    fn event(&mut self, event: &Event) {
        self.last = [NOWHERE; 3];
        self.private_peak = self.private_peak.max(self.private);
        match event {
            Event::Switch { pid, .. } => self.act(*pid),
            Event::Mmap { addr, len, flags, backing, .. } => {
                let range = pages(*addr, *len);
                self.forget(range);
                let shown = match backing {
                    Backing::File { path, offset } => {
                        let next = self.files.len() as u32;
                        let file = *self.files.entry(Arc::clone(path)).or_insert(next);
                        Shown::File { file, first: offset >> BASE_SHIFT, shared: flags.shared }
                    }
                    Backing::Anon if flags.shared && flags.hugetlb.is_none() => Shown::Shared,
                    Backing::Anon => Shown::Private,
                };
                self.spaces[self.acting].show(range, shown);
            }
            Event::Munmap { addr, len } => {
                let range = pages(*addr, *len);
                self.forget(range);
                self.spaces[self.acting].show(range, Shown::Private);
            }
            Event::Madvise { addr, len, advice: Advice::Dontneed } => self.forget(pages(*addr, *len)),
            Event::Mremap { old, old_len, new, new_len, keep_old } => {
                let (from, to) = (pages(*old, *old_len), pages(*new, *new_len));
                let space = &mut self.spaces[self.acting];
                let before = space.private_pages();
                space.remap(from, to, *keep_old);
                self.private = self.private + space.private_pages() - before;
            }
            Event::Brk { end, .. } => {
                let space = &mut self.spaces[self.acting];
                let (now, before) = (end.align_up(PageOrder::P4K), space.brk);
                space.brk = now;
                if now < before {
                    self.forget(VirtRange { start: now, end: before });
                }
            }
            Event::Fork { child, shares_memory: false } => {
                let copy = self.spaces[self.acting].forked();
                self.spaces.push(copy);
                self.of.insert(*child, self.spaces.len() - 1);
            }
            Event::Fork { child, shares_memory: true } => {
                self.of.insert(*child, self.acting);
            }
            Event::Exec { .. } => {
                self.leave();
                self.act(self.pid);
            }
            Event::Exit { .. } => {
                self.leave();
                self.act(self.pid);
            }
            _ => {}
        }
    }

    fn forget(&mut self, range: VirtRange) {
        self.private -= self.spaces[self.acting].clear(range);
    }
}

/// The whole pages that `len` bytes at `addr` touch.
fn pages(addr: VirtAddr, len: u64) -> VirtRange {
    VirtRange { start: addr.align_down(PageOrder::P4K), end: addr.add(len).align_up(PageOrder::P4K) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::{Prot, Tid};
    use mmulab_trace::MapFlags;

    const BASE: VirtAddr = VirtAddr::new(0x4000_0000);

    fn map(addr: VirtAddr, len: u64, shared: bool, file: Option<u64>) -> Event {
        Event::Mmap {
            addr,
            len,
            prot: Prot::RW,
            flags: MapFlags { shared, ..MapFlags::default() },
            backing: file.map_or(Backing::Anon, |offset| Backing::File { path: "/f".into(), offset }),
        }
    }

    /// Private pages and pages of files after what `act` does.
    fn after(act: impl FnOnce(&mut Batch)) -> (u64, u64) {
        let (mut t, mut b) = (Touched::new(), Batch::default());
        act(&mut b);
        t.take(&b).unwrap();
        let sum: u64 = t.spaces.iter().map(Space::private_pages).sum();
        assert_eq!(t.private, sum, "the running sum is the sum over the spaces");
        (t.private, t.file_bytes() >> BASE_SHIFT)
    }

    fn touch(b: &mut Batch, page: u64, store: bool) {
        b.push_data(BASE.add(page * 4096), 8, store);
    }

    #[test]
    fn pages_are_counted_once_and_forgotten_with_their_mapping() {
        let act = |b: &mut Batch| {
            b.push_event(map(BASE, 8 << 20, false, None));
            for page in [0, 1, 0, 511, 512, 700] {
                touch(b, page, true);
            }
            b.push_event(Event::Munmap { addr: BASE.add(4096), len: 4096 });
            b.push_event(Event::Mremap {
                old: BASE.add(700 * 4096),
                old_len: 4096,
                new: BASE.add(900 * 4096),
                new_len: 4096,
                keep_old: false,
            });
        };
        assert_eq!(after(act), (4, 0));
        let (mut t, mut b) = (Touched::new(), Batch::default());
        act(&mut b);
        t.take(&b).unwrap();
        assert_eq!(t.private_bytes_peak(), 5 * 4096);
    }

    #[test]
    fn a_child_has_pages_of_its_own_from_its_first_store_on() {
        let forked = |b: &mut Batch, shares_memory: bool| {
            b.push_event(map(BASE, 8 << 20, false, None));
            (0..10).for_each(|page| touch(b, page, true));
            b.push_event(Event::Fork { child: Pid(2), shares_memory });
            b.push_event(Event::Switch { pid: Pid(2), tid: Tid(2) });
            (0..5).for_each(|page| touch(b, page, false));
        };
        assert_eq!(after(|b| forked(b, false)).0, 10, "loads copy nothing");
        let stores = |b: &mut Batch| (0..3).for_each(|page| touch(b, page, true));
        assert_eq!(after(|b| (forked(b, false), stores(b)).1).0, 13);
        assert_eq!(after(|b| (forked(b, true), stores(b)).1).0, 10, "a vfork's child stores into its parent's pages");
        let exec = |b: &mut Batch| b.push_event(Event::Exec { path: "/p".into() });
        assert_eq!(after(|b| (forked(b, false), stores(b), exec(b)).2).0, 10);
        assert_eq!(after(|b| (forked(b, true), exec(b)).1).0, 10, "the parent still has them");
    }

    #[test]
    fn pages_of_files_count_once_for_all_mappings_and_stores_copy_only_private_ones() {
        let maps = |b: &mut Batch, shared: bool| {
            b.push_event(map(BASE, 64 << 12, shared, Some(0)));
            b.push_event(map(BASE.add(64 << 12), 64 << 12, shared, Some(32 << 12)));
            [0, 31, 32, 63].into_iter().for_each(|page| touch(b, page, false));
            // Pages 32 and 63 of the file again, and 64.
            [64, 95, 96].into_iter().for_each(|page| touch(b, page, false));
        };
        assert_eq!(after(|b| maps(b, false)), (0, 5));
        let stores = |b: &mut Batch| [31, 33, 33, 31].into_iter().for_each(|page| touch(b, page, true));
        assert_eq!(after(|b| (maps(b, false), stores(b)).1), (2, 6));
        assert_eq!(after(|b| (maps(b, true), stores(b)).1), (0, 6));
        let remap = |b: &mut Batch| {
            let (old, new) = (BASE.add(32 << 12), BASE.add(1 << 30));
            b.push_event(Event::Mremap { old, old_len: 32 << 12, new, new_len: 32 << 12, keep_old: false });
            b.push_data(new, 8, false);
            b.push_data(new.add(2 << 12), 8, false);
        };
        assert_eq!(after(|b| (maps(b, false), remap(b)).1), (0, 6), "page 32 again, and page 34");
    }

    #[test]
    fn shared_memory_is_neither_private_nor_of_a_file() {
        let act = |b: &mut Batch| {
            b.push_event(map(BASE, 64 << 12, true, None));
            (0..9).for_each(|page| touch(b, page, page % 2 == 0));
        };
        assert_eq!(after(act), (0, 0));
    }

    #[test]
    fn the_last_pages_of_the_address_space_can_be_unmapped() {
        let top = VirtAddr::new(u64::MAX - 0x3fff);
        let act = |b: &mut Batch| {
            (0..4).for_each(|page| b.push_data(top.add(page << 12), 8, true));
            b.push_event(Event::Munmap { addr: top.add(2 << 12), len: 2 << 12 });
        };
        assert_eq!(after(act), (2, 0));
    }
}
