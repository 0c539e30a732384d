//! khugepaged: base pages copied into huge pages, a few regions at a time, on simulated time (mm/khugepaged.c).

use super::compaction::Compaction;
use super::desc::{KhugepagedDesc, ThpEnabled};
use crate::clock::ns_of_ms;
use crate::report::counts::{Happening, Refusal};
use crate::space::system::SystemCx;
use crate::space::vma::Vma;
use crate::space::{AddressSpace, Cx, Found};
use crate::{KernelError, WorkKind};
use mmulab_addr::{BASE_BYTES, PageOrder, Prot, VirtAddr};

/// The daemon and the progress of its scan.
#[derive(Debug)]
pub(crate) struct Khugepaged {
    desc: KhugepagedDesc,
    /// Which mappings it looks at.
    enabled: ThpEnabled,
    /// When it wakes, in simulated nanoseconds.
    wake_ns: u64,
    /// The address space and the address it looks at next.
    next: (u64, u64),
    /// Pages looked at in the scan that was interrupted to wait for memory.
    progress: u32,
    waited: bool,
}

/// How a scan ended.
enum Scan {
    Done,
    /// No huge page could be had.
    NoBlock,
}

impl Khugepaged {
    /// A daemon that looks at the mappings that `enabled` names.
    ///
    /// # Errors
    /// Limits beyond a region, or a scan of nothing.
    pub fn new(desc: KhugepagedDesc, enabled: ThpEnabled) -> Result<Self, (&'static str, String)> {
        let pages = PageOrder::P2M.base_pages() as u32;
        for (key, value) in [("max_ptes_none", desc.max_ptes_none), ("max_ptes_shared", desc.max_ptes_shared)] {
            if value >= pages {
                return Err((key, format!("{value} is not between 0 and {}", pages - 1)));
            }
        }
        if desc.pages_to_scan == 0 || desc.scan_sleep_ms == 0 {
            return Err(("", "pages_to_scan and scan_sleep_ms must be at least 1".into()));
        }
        let wake_ns = ns_of_ms(desc.scan_sleep_ms);
        Ok(Self { desc, enabled, wake_ns, next: (0, 0), progress: 0, waited: false })
    }

    /// When it wakes, in simulated nanoseconds since the start.
    pub fn wakes_at(&self) -> u64 {
        self.wake_ns
    }

    /// Scans once, and sleeps from `now_ns` on. A daemon that is late runs once.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub fn wake(&mut self, system: &mut SystemCx, compaction: &mut Compaction, now_ns: u64) -> Result<(), KernelError> {
        let scan = self.scan(system, compaction);
        // `khugepaged_do_scan`: the first failure to get memory waits and goes on, the second ends the scan.
        let sleep_ms = match scan {
            Ok(Scan::NoBlock) if !self.waited => {
                self.waited = true;
                self.desc.alloc_sleep_ms
            }
            _ => {
                (self.progress, self.waited) = (0, false);
                self.desc.scan_sleep_ms
            }
        };
        self.wake_ns = now_ns.saturating_add(ns_of_ms(sleep_ms));
        scan.map(drop)
    }

    /// Looks at `pages_to_scan` pages, address space after address space (`khugepaged_scan_mm_slot`).
    fn scan(&mut self, system: &mut SystemCx, compaction: &mut Compaction) -> Result<Scan, KernelError> {
        let size = PageOrder::P2M.bytes();
        // A scan that begins with the first address space ends with the last.
        let mut rounds = u32::from(self.next == (0, 0));
        while self.progress < self.desc.pages_to_scan {
            let spaces = system.spaces.iter().enumerate();
            let due = spaces.filter_map(|(slot, s)| s.as_ref().map(|s| (s.serial, slot)));
            let Some((serial, slot)) = due.filter(|s| s.0 >= self.next.0).min() else {
                self.next = (0, 0);
                system.shared.counts.happenings.add(Happening::KhugepagedRound, 1);
                rounds += 1;
                if rounds == 2 {
                    break;
                }
                continue;
            };
            if serial != self.next.0 {
                self.next = (serial, 0);
            }
            let Some(space) = &system.spaces[slot] else { break };
            let Some(span) = space.vmas.at_or_above(self.next.1).cloned() else {
                self.next = (serial + 1, 0);
                continue;
            };
            let first = span.start.max(self.next.1).checked_next_multiple_of(size).unwrap_or(u64::MAX);
            if !self.is_eligible(&span.value) || first >= span.end || span.end - first < size {
                self.progress += 1;
                self.next.1 = span.end;
                continue;
            }
            self.next.1 = first + size;
            self.progress += size.div_ceil(BASE_BYTES) as u32;
            let (space, mut cx) = system.at(slot);
            if !self.is_worth(space, &mut cx, first) {
                continue;
            }
            if !system.shared.memory.frames.has_block(PageOrder::P2M) {
                let made = match self.desc.defrag {
                    true => compaction.compact(system, first),
                    false => {
                        system.shared.memory.frames.drain();
                        system.shared.memory.frames.has_block(PageOrder::P2M)
                    }
                };
                if !made {
                    system.refuse(Refusal::ThpNoBlock, first);
                    return Ok(Scan::NoBlock);
                }
            }
            let (space, mut cx) = system.at(slot);
            if space.collapse(&mut cx, &span.value, first)? {
                system.shared.counts.happenings.add(Happening::KhugepagedCollapse, 1);
            }
        }
        Ok(Scan::Done)
    }

    /// `thp_vma_allowable_order` for khugepaged.
    fn is_eligible(&self, vma: &Vma) -> bool {
        vma.is_anon() && vma.hugetlb.is_none() && self.enabled.allows(vma.advice) && vma.prot != Prot::NONE
    }

    /// Whether the base pages from `start` should become a huge page (`hpage_collapse_scan_pmd`).
    fn is_worth(&self, space: &AddressSpace, cx: &mut Cx, start: u64) -> bool {
        let order = PageOrder::P2M;
        if matches!(space.probe(cx.mem, VirtAddr::new(start)), Found::Leaf(leaf) if leaf.order >= order) {
            return false;
        }
        let (mut none, mut shared, mut writable, mut referenced, mut looked) = (0, 0, false, false, 0);
        let mut why = None;
        for i in 0..order.base_pages() {
            looked += 1;
            let leaf = match space.probe(cx.mem, VirtAddr::new(start + i * BASE_BYTES)) {
                Found::Leaf(leaf) if !cx.memory.is_zero(leaf.pfn) => leaf,
                Found::Hole(hole) if i == 0 && hole >= order => {
                    why = Some(Refusal::KhugepagedEmpty);
                    break;
                }
                _ => {
                    none += 1;
                    if none > self.desc.max_ptes_none {
                        why = Some(Refusal::KhugepagedNone);
                        break;
                    }
                    continue;
                }
            };
            writable |= leaf.prot.has(Prot::W);
            referenced |= leaf.accessed;
            if !cx.memory.pages.is_exclusive(leaf.pfn, leaf.order) {
                shared += 1;
                if shared > self.desc.max_ptes_shared {
                    why = Some(Refusal::KhugepagedShared);
                    break;
                }
            }
        }
        if why.is_none() && !writable {
            why = Some(Refusal::KhugepagedReadOnly);
        } else if why.is_none() && !referenced {
            why = Some(Refusal::KhugepagedIdle);
        }
        cx.work(WorkKind::EntryScan, looked);
        cx.counts.happenings.add(Happening::KhugepagedScanned, looked);
        if let Some(why) = why {
            cx.refuse(why, start);
        }
        why.is_none()
    }
}
