//! The fair scan: the process that has the fewest huge pages for its memory goes first, region by region. The rule is
//! that of Ingens (Kwon and others, OSDI 2016), as `osa_compute_fairness_metric` of its published code has it
//! (linux-4.3-ingens/osa).
//!
//! ```text
//!           100 x (private memory in units of 2 MiB)
//! metric = -----------------------------------------    at least 1; 0 huge pages count as 1
//!                        huge pages
//! ```
//!
//! The published code multiplies by a weight, which an administrator gives a process: here all have the same. The paper
//! also lowers the metric of a process whose huge pages are idle. The published code counts those, but leaves them out
//! of its metric, and so does this.

use super::limits::Limits;
use super::linear::look;
use super::pace::{Pace, Scan};
use crate::KernelError;
use crate::memory::Memory;
use crate::report::counts::EventKind;
use crate::space::AddressSpace;
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;
use mmulab_addr::PageOrder;
use mmulab_frames::PhysMem;
use std::collections::{BTreeMap, BTreeSet};

/// The progress of the scan.
#[derive(Debug, Default)]
pub(in crate::parts::daemon) struct Fair {
    /// Where the scan goes on in each address space, by its serial number.
    next: BTreeMap<u64, u64>,
}

/// The memory of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Share {
    /// Bytes of private memory in its page table, and huge pages among them.
    private: u64,
    huge: u64,
}

impl Share {
    /// Of private mappings, as they are in the page table. Zero pages take no memory.
    fn of(space: &AddressSpace, mem: &PhysMem, memory: &Memory) -> Self {
        let mut share = Self::default();
        for span in space.vmas.iter().filter(|span| span.value.is_anon()) {
            for (_, leaf) in space.leaves(mem, span.start, span.end).filter(|(_, leaf)| !memory.is_zero(leaf.pfn)) {
                share.private += leaf.order.bytes();
                share.huge += leaf.order.base_pages() / PageOrder::P2M.base_pages();
            }
        }
        share
    }

    /// Of all mappings, for the change that a promotion makes.
    fn in_table(space: &AddressSpace) -> Self {
        let mut share = Self::default();
        for (order, bytes, _) in space.mapped.pages.iter() {
            share.private += bytes;
            share.huge += if order >= PageOrder::P2M { bytes / PageOrder::P2M.bytes() } else { 0 };
        }
        share
    }

    /// The higher, the sooner its process goes.
    fn metric(self) -> u64 {
        (self.private / PageOrder::P2M.bytes() * 100 / self.huge.max(1)).max(1)
    }
}

impl Fair {
    /// Looks at regions until the pace says that it is enough. A process that was scanned to its end in this scan has
    /// no other turn in it. (This rule is ours. In the published code it keeps its turn for as long as its metric is
    /// the highest.)
    ///
    /// # Errors
    /// Frames for page tables ran out.
    pub fn scan(
        &mut self,
        system: &mut SystemCx,
        compaction: &mut Compaction,
        (pace, limits): (&mut Pace, &Limits),
        defrag: bool,
    ) -> Result<Scan, KernelError> {
        let (mem, memory) = (&*system.mem, &system.shared.memory);
        let spaces = system.spaces.iter().enumerate().filter_map(|(slot, space)| Some((slot, space.as_ref()?)));
        let mut shares: BTreeMap<u64, (usize, Share)> =
            spaces.map(|(slot, space)| (space.serial, (slot, Share::of(space, mem, memory)))).collect();
        self.next.retain(|serial, _| shares.contains_key(serial));
        let mut through = BTreeSet::new();
        while pace.goes_on() {
            let due = shares.iter().filter(|(serial, _)| !through.contains(*serial));
            // Of equals, the one that was made first.
            let first = due.max_by_key(|(serial, (_, share))| (share.metric(), std::cmp::Reverse(**serial)));
            let Some((&serial, &(slot, share))) = first else {
                system.shared.counts.events.add(EventKind::KhugepagedRound, 1);
                break;
            };
            let from = self.next.get(&serial).copied().unwrap_or(0);
            let Some(space) = &system.spaces[slot] else { unreachable!("no address space ends while a daemon runs") };
            let Some(span) = space.vmas.at_or_above(from).cloned() else {
                self.next.remove(&serial);
                through.insert(serial);
                continue;
            };
            let before = Share::in_table(space);
            let at = (slot, &span, span.start.max(from));
            let (next, scan) = look(system, compaction, (&mut *pace, limits), defrag, at)?;
            self.next.insert(serial, next);
            if let Some(space) = &system.spaces[slot] {
                let now = Share::in_table(space);
                let private = share.private + now.private - before.private;
                let huge = share.huge + now.huge - before.huge;
                shares.insert(serial, (slot, Share { private, huge }));
            }
            if let Scan::NoBlock = scan {
                return Ok(Scan::NoBlock);
            }
        }
        Ok(Scan::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory of four huge pages: 400 while it has none or one, 200 with two, 100 with all four. Below 2 MiB it is 1.
    #[test]
    fn the_metric_is_memory_over_huge_pages() {
        let metric = |private, huge| Share { private, huge }.metric();
        assert_eq!([0, 1, 2, 3, 4].map(|huge| metric(8 << 20, huge)), [400, 400, 200, 133, 100]);
        assert_eq!([metric(0, 0), metric((2 << 20) - 4096, 0), metric(2 << 20, 0)], [1, 1, 100]);
    }
}
