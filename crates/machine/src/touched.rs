use mmulab_addr::{PageOrder, Pid, VirtAddr, VirtRange, Vpn};
use mmulab_trace::{Advice, Batch, Event, Item};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Which base pages each process truly touched: what no kernel can know of a huge page, and what bloat is measured
/// against. It depends on the trace alone, so one tracker serves every machine that runs over it.
#[derive(Default)]
pub struct Touched {
    spaces: BTreeMap<Pid, Space>,
    pid: Pid,
    /// The last page of each side (instruction, data): a repeated page is already marked.
    last: [Vpn; 2],
    peak: u64,
}

/// One bit per base page, in leaves of 2 MiB.
#[derive(Default, Clone)]
struct Space {
    leaves: FxHashMap<u64, [u64; 8]>,
    /// Bits set.
    pages: u64,
    /// Where the brk heap ended, to see it shrink.
    brk: VirtAddr,
}

const LEAF: PageOrder = PageOrder::P2M;
const NOWHERE: Vpn = Vpn(u64::MAX);

impl Touched {
    /// Nothing touched yet; process 1 acts.
    pub fn new() -> Self {
        Self { spaces: BTreeMap::new(), pid: Pid(1), last: [NOWHERE; 2], peak: 0 }
    }

    /// Takes in a stretch of the trace.
    pub fn take(&mut self, batch: &Batch) {
        for r in &batch.refs {
            if r.is_control() {
                if let Item::Event(index) = r.item() {
                    self.event(&batch.events[index]);
                }
                continue;
            }
            let vpn = r.va().vpn();
            let last = &mut self.last[usize::from(!r.is_fetch())];
            if *last != vpn {
                *last = vpn;
                self.spaces.entry(self.pid).or_default().mark(vpn);
            }
        }
    }

    /// Bytes touched of memory still mapped, all processes together; what fork copied counts for both.
    pub fn bytes(&self) -> u64 {
        self.spaces.values().map(|s| s.pages).sum::<u64>() * mmulab_addr::BASE_BYTES
    }

    /// The most that [`Touched::bytes`] ever was, seen at each event and at the end.
    pub fn peak_bytes(&self) -> u64 {
        self.peak.max(self.bytes())
    }

    fn event(&mut self, event: &Event) {
        self.last = [NOWHERE; 2];
        self.peak = self.peak_bytes();
        match *event {
            Event::Switch { pid, .. } => self.pid = pid,
            Event::Mmap { addr, len, .. }
            | Event::Munmap { addr, len }
            | Event::Madvise { addr, len, advice: Advice::Dontneed } => self.forget(addr, len),
            Event::Mremap { old, old_len, new, new_len, .. } => self.moved(old, old_len, new, new_len),
            Event::Brk { end, .. } => {
                let space = self.spaces.entry(self.pid).or_default();
                let (now, before) = (end.align_up(PageOrder::P4K), space.brk);
                space.brk = now;
                if now < before {
                    space.clear(VirtRange { start: now, end: before });
                }
            }
            Event::Fork { child, shares_memory: false } => {
                let copy = self.spaces.get(&self.pid).cloned().unwrap_or_default();
                self.spaces.insert(child, copy);
            }
            Event::Exec { .. } | Event::Exit { .. } => {
                self.spaces.remove(&self.pid);
            }
            _ => {}
        }
    }

    fn forget(&mut self, addr: VirtAddr, len: u64) {
        if let Some(space) = self.spaces.get_mut(&self.pid) {
            space.clear(VirtRange {
                start: addr.align_down(PageOrder::P4K),
                end: addr.add(len).align_up(PageOrder::P4K),
            });
        }
    }

    fn moved(&mut self, old: VirtAddr, old_len: u64, new: VirtAddr, new_len: u64) {
        let Some(space) = self.spaces.get_mut(&self.pid) else { return };
        let marked = space.pages(VirtRange::sized(old, old_len));
        space.clear(VirtRange { start: old, end: old.add(old_len).align_up(PageOrder::P4K) });
        let kept = VirtRange::sized(new, new_len);
        for vpn in marked {
            let va = new.add(vpn.addr().raw().wrapping_sub(old.raw()));
            if kept.contains(va) {
                space.mark(va.vpn());
            }
        }
    }
}

impl Space {
    fn mark(&mut self, vpn: Vpn) {
        let word = &mut self.leaves.entry(vpn.0 >> 9).or_default()[(vpn.0 & 511) as usize >> 6];
        let bit = 1 << (vpn.0 & 63);
        self.pages += u64::from(*word & bit == 0);
        *word |= bit;
    }

    fn has(&self, vpn: Vpn) -> bool {
        self.leaves.get(&(vpn.0 >> 9)).is_some_and(|l| l[(vpn.0 & 511) as usize >> 6] >> (vpn.0 & 63) & 1 == 1)
    }

    /// The leaves that meet `range`, found through whichever is fewer: the range's, or all there are.
    fn leaves_in(&self, range: VirtRange) -> Vec<u64> {
        if range.is_empty() {
            return Vec::new();
        }
        let (first, last) = (range.start.vpn().0 >> 9, (range.end.vpn().0 - 1) >> 9);
        let mut found: Vec<u64> = if last - first < self.leaves.len() as u64 {
            (first..=last).filter(|l| self.leaves.contains_key(l)).collect()
        } else {
            self.leaves.keys().copied().filter(|l| (first..=last).contains(l)).collect()
        };
        found.sort_unstable();
        found
    }

    fn pages(&self, range: VirtRange) -> Vec<Vpn> {
        self.leaves_in(range)
            .into_iter()
            .flat_map(|l| (l << 9)..((l + 1) << 9))
            .map(Vpn)
            .filter(|&v| range.contains(v.addr()) && self.has(v))
            .collect()
    }

    fn clear(&mut self, range: VirtRange) {
        for leaf in self.leaves_in(range) {
            let whole = VirtRange::sized(Vpn(leaf << 9).addr(), LEAF.bytes());
            if range.covers(whole) {
                let gone = self.leaves.remove(&leaf).unwrap_or_default();
                self.pages -= gone.iter().map(|w| u64::from(w.count_ones())).sum::<u64>();
                continue;
            }
            let words = self.leaves.get_mut(&leaf).expect("listed above");
            for page in 0..512 {
                if range.contains(Vpn((leaf << 9) + page).addr()) {
                    let (word, bit) = (&mut words[page as usize >> 6], 1 << (page & 63));
                    self.pages -= u64::from(*word & bit != 0);
                    *word &= !bit;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmulab_addr::Prot;
    use mmulab_trace::{Backing, MapFlags};

    #[test]
    fn pages_are_counted_once_and_forgotten_with_their_mapping() {
        let mut t = Touched::new();
        let mut b = Batch::default();
        let base = VirtAddr::new(0x4000_0000);
        b.push_event(Event::Mmap {
            addr: base,
            len: 8 << 20,
            prot: Prot::RW,
            flags: MapFlags::default(),
            backing: Backing::Anon,
        });
        for page in [0, 1, 0, 511, 512, 700] {
            b.push_data(base.add(page * 4096), 8, true);
        }
        b.push_event(Event::Fork { child: Pid(2), shares_memory: false });
        b.push_event(Event::Munmap { addr: base.add(4096), len: 4096 });
        b.push_event(Event::Mremap {
            old: base.add(700 * 4096),
            old_len: 4096,
            new: base.add(900 * 4096),
            new_len: 4096,
            keep_old: false,
        });
        t.take(&b);
        assert_eq!(t.bytes(), (4 + 5) * 4096, "four pages are left here, five in the child");
        assert_eq!(t.peak_bytes(), 10 * 4096);
    }
}
