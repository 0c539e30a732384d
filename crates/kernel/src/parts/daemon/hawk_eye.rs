//! Daemon *hawkeye*: promotion by access coverage, the variant HawkEye-G. Source: Panwar, Bansal and Gopinath,
//! *HawkEye: Efficient Fine-grained OS Support for Huge Pages*, ASPLOS 2019, sections 3.3 and 3.4.
//!
//! ```text
//! every 30 s   accessed bits of base pages are cleared; 1 s later those set again are counted, by region
//! each scan    the region whose pages are accessed most is promoted first, whichever process has it;
//!              processes whose best regions lie in one bucket take turns
//! ```
//!
//! With `serves = "enabled"`, all of this is for the processes that turned the daemon on. khugepaged's scan serves the
//! others with what is left of the pace.
//!
//! With `[promotion.recovery]`, a scan first gives back base pages of zeros while memory is short (`scan/recovery.rs`).

use super::scan::copy::copy_to_huge;
use super::scan::coverage::Coverage;
use super::scan::limits::Limits;
use super::scan::linear::Linear;
use super::scan::pace::{Pace, Scan};
use super::scan::recovery::Recovery;
use crate::clock::ns_of_ms;
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::{DaemonSettings, Served};
use crate::parts::traits::{Daemon, Declare, Declares};
use crate::space::AddressSpace;
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;
use crate::{KernelError, WorkKind};
use mmulab_addr::PageOrder;
use mmulab_pagetable::Leaf;
use std::collections::BTreeMap;

/// From one look at accessed bits to the next, and for how long they are gathered, in milliseconds (section 3.3).
const INTERVAL_MS: u64 = 30_000;
const GATHER_MS: u64 = 1_000;

/// The daemon's next step with accessed bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    Clear,
    Count,
}

/// The daemon and what it knows.
#[derive(Debug)]
pub(crate) struct HawkEye {
    pace: Pace,
    limits: Limits,
    defrag: bool,
    next: Next,
    /// When that is due, in simulated nanoseconds.
    next_ns: u64,
    /// By the serial number of the address space.
    coverage: BTreeMap<u64, Coverage>,
    /// The address space that had its turn last.
    last: u64,
    recovery: Option<Recovery>,
    /// Base pages that recovery looks at in a scan.
    pages_to_scan: u32,
    /// The scan of the processes that did not turn the daemon on, if it serves only those that did.
    others: Option<Linear>,
}

impl Part<DaemonSettings<'_>> for HawkEye {
    const NAME: &'static str = "hawkeye";
    const ABOUT: &'static str =
        "HawkEye's: it promotes the regions first of which most base pages were accessed of late.";

    /// # Errors
    /// Limits beyond a region, or a scan of nothing.
    fn new(settings: &DaemonSettings) -> Result<Self, Wrong> {
        let DaemonSettings { desc, enabled, recovery, served, .. } = *settings;
        Ok(Self {
            pace: Pace::new(desc)?,
            limits: Limits::new(desc, enabled)?,
            defrag: desc.defrag,
            next: Next::Clear,
            next_ns: ns_of_ms(INTERVAL_MS - GATHER_MS),
            coverage: BTreeMap::new(),
            last: 0,
            recovery: recovery.map(Recovery::new),
            pages_to_scan: desc.pages_to_scan,
            others: (served == Served::Enabled).then(Linear::default),
        })
    }
}

impl Declare for HawkEye {
    fn declares(served: Served) -> Declares {
        let how = match served {
            Served::Enabled => "copy, by a daemon, by access coverage where it is turned on",
            Served::Hinted | Served::All => "copy, by a daemon, by access coverage",
        };
        Declares { sizes: &[PageOrder::P2M], how, allocation: "" }
    }
}

impl HawkEye {
    /// Whether this daemon serves a process.
    fn serves(&self, space: &AddressSpace) -> bool {
        self.others.is_none() || space.is_switched_on
    }

    /// Forgets the coverage of processes that ended, and of those that it no longer serves.
    fn forget(&mut self, system: &SystemCx) {
        let serves = |serial| system.spaces.iter().flatten().any(|space| space.serial == serial && self.serves(space));
        let gone: Vec<u64> = self.coverage.keys().copied().filter(|&serial| !serves(serial)).collect();
        for serial in gone {
            self.coverage.remove(&serial);
        }
    }

    /// Clears the accessed bits of base pages in all regions that may be promoted, or counts those that are set.
    /// TLBs are not flushed for it (`ohp_follow_pte`, and `ptep_test_and_clear_young` of x86 and Arm): a page whose
    /// entry stays in a TLB counts as not accessed.
    fn look(&mut self, system: &mut SystemCx) {
        let size = PageOrder::P2M.bytes();
        for slot in 0..system.spaces.len() {
            let Some(space) = system.spaces[slot].as_ref().filter(|space| self.serves(space)) else { continue };
            let serial = space.serial;
            let spans: Vec<_> = space
                .vmas
                .iter()
                .filter(|span| self.limits.is_eligible(&span.value))
                .map(|span| (span.start.next_multiple_of(size), span.end / size * size))
                .collect();
            let (space, mut cx) = system.at(slot);
            for (start, end) in spans {
                for region in (start..end).step_by(size as usize) {
                    let leaves: Vec<_> = space.leaves(cx.mem, region, region + size).collect();
                    // A huge page, or nothing, is nothing to promote.
                    let Some((_, first)) = leaves.first() else { continue };
                    if first.order >= PageOrder::P2M {
                        continue;
                    }
                    cx.work(WorkKind::EntryScan, leaves.len() as u64);
                    let accessed = leaves.iter().filter(|(_, leaf)| leaf.accessed);
                    match self.next {
                        Next::Count => {
                            let pages: u64 = accessed.map(|(_, leaf)| leaf.order.base_pages()).sum();
                            self.coverage.entry(serial).or_default().sampled(region, pages as u32);
                        }
                        Next::Clear => {
                            for &(va, leaf) in accessed {
                                space.forget_access(&mut cx, va, Leaf { accessed: false, ..leaf });
                            }
                        }
                    }
                }
            }
        }
        self.forget(system);
    }

    /// The address space whose turn it is: of those with a region in the highest bucket, the one after the last.
    fn whose_turn(&self) -> Option<u64> {
        let best = self.coverage.values().filter_map(Coverage::highest).max()?;
        let mut due = self.coverage.iter().filter(|(_, c)| c.highest() == Some(best)).map(|(&serial, _)| serial);
        let first = due.clone().next();
        due.find(|&serial| serial > self.last).or(first)
    }

    /// Promotes regions until the pace says that it is enough.
    fn promote(&mut self, system: &mut SystemCx, compaction: &mut Compaction) -> Result<Scan, KernelError> {
        let size = PageOrder::P2M;
        while self.pace.goes_on()
            && let Some(serial) = self.whose_turn()
        {
            self.last = serial;
            let Some(region) = self.coverage.get_mut(&serial).and_then(Coverage::take) else { break };
            self.pace.looked_at(size.base_pages());
            if self.recovery.as_ref().is_some_and(|recovery| recovery.keeps_apart(serial, region)) {
                continue;
            }
            let of_serial = |space: &Option<AddressSpace>| space.as_ref().is_some_and(|s| s.serial == serial);
            let Some(slot) = system.spaces.iter().position(of_serial) else { continue };
            let Some(space) = &system.spaces[slot] else { continue };
            let Some(span) = space.vmas.find(region).filter(|span| span.end >= region + size.bytes()).cloned() else {
                continue;
            };
            if !self.limits.is_eligible(&span.value) {
                continue;
            }
            let place = (slot, &span.value, region);
            if let Scan::NoBlock = copy_to_huge(system, compaction, &self.limits, self.defrag, place)? {
                return Ok(Scan::NoBlock);
            }
        }
        match &mut self.others {
            Some(others) => others
                .scan(system, compaction, (&mut self.pace, &self.limits), self.defrag, |space| !space.is_switched_on),
            None => Ok(Scan::Done),
        }
    }
}

impl Daemon for HawkEye {
    fn wants_stores(&self) -> bool {
        self.recovery.is_some()
    }

    fn wakes_at(&self) -> u64 {
        self.pace.wakes_at().min(self.next_ns)
    }

    fn wake(&mut self, system: &mut SystemCx, compaction: &mut Compaction, now_ns: u64) -> Result<(), KernelError> {
        if now_ns >= self.next_ns {
            self.look(system);
            let (next, after_ms) = match self.next {
                Next::Clear => (Next::Count, GATHER_MS),
                Next::Count => (Next::Clear, INTERVAL_MS - GATHER_MS),
            };
            (self.next, self.next_ns) = (next, now_ns.saturating_add(ns_of_ms(after_ms)));
        }
        if now_ns < self.pace.wakes_at() {
            return Ok(());
        }
        let is_for_some = self.others.is_some();
        if is_for_some {
            // Processes may have turned it off since accessed bits were counted.
            self.forget(system);
        }
        if let Some(recovery) = &mut self.recovery {
            let serves = |space: &AddressSpace| !is_for_some || space.is_switched_on;
            recovery.run(system, &self.coverage, &self.limits, self.pages_to_scan, serves)?;
        }
        let scan = self.promote(system, compaction);
        self.pace.sleep(&scan, now_ns);
        scan.map(drop)
    }
}
