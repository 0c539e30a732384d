//! khugepaged: base pages copied into huge pages, a few regions at a time, on simulated time (mm/khugepaged.c).

use crate::counts::{Happening, Refusal};
use crate::kernel::Kernel;
use crate::policy::Policy;
use crate::space::{Cx, Found, Space};
use crate::vma::Vma;
use crate::{Effects, KernelError, KhugepagedDesc, WorkKind};
use mmulab_addr::{BASE_BYTES, PageOrder, Prot, VirtAddr};
use mmulab_frames::PhysMem;

const NS_PER_MS: u64 = 1_000_000;

/// Where the daemon stands.
#[derive(Debug)]
pub(crate) struct Khugepaged {
    desc: KhugepagedDesc,
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
    pub fn new(desc: KhugepagedDesc) -> Self {
        let wake_ns = desc.scan_sleep_ms.saturating_mul(NS_PER_MS);
        Self { desc, wake_ns, next: (0, 0), progress: 0, waited: false }
    }
}

impl Kernel {
    /// When a daemon wants to run next, in simulated nanoseconds since the start; never, if there is none.
    #[inline]
    pub fn wakes_at(&self) -> Option<u64> {
        self.khugepaged.as_ref().map(|k| k.wake_ns)
    }

    /// Lets the daemons that are due run; call it when `now_ns` has reached [`Kernel::wakes_at`]. A daemon that is late
    /// runs once.
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub fn run_daemons(&mut self, mem: &mut PhysMem, now_ns: u64, fx: &mut Effects) -> Result<(), KernelError> {
        let result = self.wake(mem, now_ns, fx);
        self.collect(fx);
        result
    }

    pub(crate) fn wake(&mut self, mem: &mut PhysMem, now_ns: u64, fx: &mut Effects) -> Result<(), KernelError> {
        let Some(mut daemon) = self.khugepaged.take() else { return Ok(()) };
        let scan = self.scan(mem, fx, &mut daemon);
        // `khugepaged_do_scan`: the first failure to get memory waits and goes on, the second ends the scan.
        let sleep_ms = match scan {
            Ok(Scan::NoBlock) if !daemon.waited => {
                daemon.waited = true;
                daemon.desc.alloc_sleep_ms
            }
            _ => {
                (daemon.progress, daemon.waited) = (0, false);
                daemon.desc.scan_sleep_ms
            }
        };
        daemon.wake_ns = now_ns.saturating_add(sleep_ms.saturating_mul(NS_PER_MS));
        self.khugepaged = Some(daemon);
        scan.map(drop)
    }

    /// Looks at `pages_to_scan` pages, address space after address space (`khugepaged_scan_mm_slot`).
    fn scan(&mut self, mem: &mut PhysMem, fx: &mut Effects, daemon: &mut Khugepaged) -> Result<Scan, KernelError> {
        let size = PageOrder::P2M.bytes();
        // A scan that begins with the first address space ends with the last.
        let mut rounds = u32::from(daemon.next == (0, 0));
        while daemon.progress < daemon.desc.pages_to_scan {
            let spaces = self.spaces.iter().enumerate();
            let due = spaces.filter_map(|(slot, s)| s.as_ref().map(|s| (s.serial, slot)));
            let Some((serial, slot)) = due.filter(|s| s.0 >= daemon.next.0).min() else {
                daemon.next = (0, 0);
                self.core.counts.happenings.add(Happening::KhugepagedRound, 1);
                rounds += 1;
                if rounds == 2 {
                    break;
                }
                continue;
            };
            if serial != daemon.next.0 {
                daemon.next = (serial, 0);
            }
            let Some(space) = &self.spaces[slot] else { break };
            let Some(span) = space.vmas.at_or_above(daemon.next.1).cloned() else {
                daemon.next = (serial + 1, 0);
                continue;
            };
            let first = span.start.max(daemon.next.1).checked_next_multiple_of(size).unwrap_or(u64::MAX);
            if !self.is_eligible(&span.value) || first >= span.end || span.end - first < size {
                daemon.progress += 1;
                daemon.next.1 = span.end;
                continue;
            }
            daemon.next.1 = first + size;
            daemon.progress += size.div_ceil(BASE_BYTES) as u32;
            let (space, mut cx) = self.at_work(mem, fx, slot, mmulab_addr::Pid(0));
            cx.pid = space.pid;
            if !space.is_worth(&mut cx, first, &daemon.desc) {
                continue;
            }
            if !self.core.memory.frames.has_block(PageOrder::P2M) {
                let made = match daemon.desc.defrag {
                    true => self.compact(mem, fx, first),
                    false => {
                        self.core.memory.frames.drain();
                        self.core.memory.frames.has_block(PageOrder::P2M)
                    }
                };
                if !made {
                    self.refuse(Refusal::ThpNoBlock, first, fx);
                    return Ok(Scan::NoBlock);
                }
            }
            let (space, mut cx) = self.at_work(mem, fx, slot, mmulab_addr::Pid(0));
            cx.pid = space.pid;
            if space.collapse(&mut cx, &span.value, first)? {
                self.core.counts.happenings.add(Happening::KhugepagedCollapse, 1);
            }
        }
        Ok(Scan::Done)
    }

    /// `thp_vma_allowable_order` for khugepaged.
    fn is_eligible(&self, vma: &Vma) -> bool {
        let Policy::Thp(thp) = &self.core.policy else { return false };
        vma.is_anon() && vma.hugetlb.is_none() && thp.allows(PageOrder::P2M, vma.advice) && vma.prot != Prot::NONE
    }
}

impl Space {
    /// Whether the base pages from `start` should become a huge page (`hpage_collapse_scan_pmd`).
    fn is_worth(&self, cx: &mut Cx, start: u64, desc: &KhugepagedDesc) -> bool {
        let order = PageOrder::P2M;
        if matches!(self.probe(cx.mem, VirtAddr::new(start)), Found::Leaf(leaf) if leaf.order >= order) {
            return false;
        }
        let (mut none, mut shared, mut writable, mut referenced, mut looked) = (0, 0, false, false, 0);
        let mut why = None;
        for i in 0..order.base_pages() {
            looked += 1;
            let leaf = match self.probe(cx.mem, VirtAddr::new(start + i * BASE_BYTES)) {
                Found::Leaf(leaf) if !cx.memory.is_zero(leaf.pfn) => leaf,
                Found::Hole(hole) if i == 0 && hole >= order => {
                    why = Some(Refusal::KhugepagedEmpty);
                    break;
                }
                _ => {
                    none += 1;
                    if none > desc.max_ptes_none {
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
                if shared > desc.max_ptes_shared {
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
