//! Daemon *trident*: promotion to the largest size that memory has room for, 1 GiB or 2 MiB. Sources: Ram, Panwar and
//! Basu, *Trident: Harnessing Architectural Resources for All Page Sizes in x86 Processors*, MICRO 2021. Paper 3, Table
//! II: "migrate to largest size possible, fallback on failure".
//!
//! ```text
//! it scans as khugepaged does --> an aligned 1 GiB lies in the mapping, and passes the limits?
//!                                   |  yes                                  |  no
//!                                   v                                       v
//!                                 a free GiB, or one made                 its regions of 2 MiB, one by one:
//!                                 by smart compaction                     copied as by khugepaged
//!                                   |  yes             |  no                ^
//!                                   v                  '--------------------'
//!                                 everything is copied there, and the rest zeroed: one page
//! ```
//!
//! Left out: Trident's copy-less promotion inside virtual machines, which has the hypervisor exchange frames.

use super::scan::copy::{copy_to_huge, take_giant};
use super::scan::limits::Limits;
use super::scan::mappings::{Cursor, Here, Step};
use super::scan::pace::{Pace, Scan};
use crate::KernelError;
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::{DaemonSettings, Served};
use crate::parts::traits::{Daemon, Declare, Declares};
use crate::report::counts::EventKind;
use crate::space::Found;
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;
use crate::space::vma::Vma;
use mmulab_addr::{PageOrder, VirtAddr};

/// The two sizes that it promotes to.
const GIANT: PageOrder = PageOrder::P1G;
const HUGE: PageOrder = PageOrder::P2M;

/// The daemon and the progress of its scan.
#[derive(Debug)]
pub(crate) struct Trident {
    pace: Pace,
    limits: Limits,
    /// Whether it makes room when none is free.
    defrag: bool,
    cursor: Cursor,
    /// Up to here the scan goes by 2 MiB, because 1 GiB could not be had. It is the serial number of the address space,
    /// and the address.
    huge_until: (u64, u64),
    /// Whether smart compaction failed since it woke.
    failed: bool,
}

impl Part<DaemonSettings<'_>> for Trident {
    const NAME: &'static str = "trident";
    const ABOUT: &'static str =
        "Trident's: it promotes to 1G where a free 1G can be had or made by smart compaction, else to 2M.";

    /// # Errors
    /// Limits beyond a region, or a scan of nothing.
    fn new(settings: &DaemonSettings) -> Result<Self, Wrong> {
        let DaemonSettings { desc, enabled, .. } = *settings;
        let (pace, limits) = (Pace::new(desc)?, Limits::new(desc, enabled)?);
        Ok(Self { pace, limits, defrag: desc.defrag, cursor: Cursor::default(), huge_until: (0, 0), failed: false })
    }
}

impl Declare for Trident {
    fn declares(_: Served) -> Declares {
        let how = "copy, by a daemon, to the largest size possible";
        Declares { sizes: &[GIANT, HUGE], how, allocation: "" }
    }
}

impl Trident {
    fn scan(&mut self, system: &mut SystemCx, compaction: &mut Compaction) -> Result<Scan, KernelError> {
        self.cursor.begin();
        while self.pace.goes_on() {
            let Step::Mapping(Here { slot, serial, span, from }) = self.cursor.next(system, |_| true) else {
                self.huge_until = (0, 0);
                system.shared.counts.events.add(EventKind::KhugepagedRound, 1);
                if self.cursor.is_through() {
                    break;
                }
                continue;
            };
            let fits = |order: PageOrder| {
                let first = from.checked_next_multiple_of(order.bytes())?;
                (first < span.end && span.end - first >= order.bytes()).then_some(first)
            };
            let Some(first) = fits(HUGE).filter(|_| self.limits.is_eligible(&span.value)) else {
                self.pace.looked_at(1);
                self.cursor.go_to(span.end);
                continue;
            };
            let is_giant = fits(GIANT) == Some(first) && (serial, first) >= self.huge_until;
            if is_giant && self.look_at_giant(system, (slot, serial), &span.value, first)? {
                self.cursor.go_to(first + GIANT.bytes());
                continue;
            }
            self.cursor.go_to(first + HUGE.bytes());
            self.pace.looked_at(HUGE.base_pages());
            let place = (slot, &span.value, first);
            if let Scan::NoBlock = copy_to_huge(system, compaction, &self.limits, self.defrag, place)? {
                return Ok(Scan::NoBlock);
            }
        }
        Ok(Scan::Done)
    }

    /// Promotes the 1 GiB from `first` on; whether it is one page now. If not, its regions of 2 MiB come next.
    fn look_at_giant(
        &mut self,
        system: &mut SystemCx,
        (slot, serial): (usize, u64),
        vma: &Vma,
        first: u64,
    ) -> Result<bool, KernelError> {
        let (space, mut cx) = system.at(slot);
        if matches!(space.probe(cx.mem, VirtAddr::new(first)), Found::Leaf(leaf) if leaf.order >= GIANT) {
            self.pace.looked_at(1);
            return Ok(true);
        }
        self.huge_until = (serial, first + GIANT.bytes());
        if !self.limits.is_worth(space, &mut cx, first, GIANT) {
            return Ok(false);
        }
        let Some(head) = take_giant(system, self.defrag, &mut self.failed, first) else { return Ok(false) };
        self.pace.looked_at(GIANT.base_pages());
        let (space, mut cx) = system.at(slot);
        space.collapse_onto(&mut cx, vma, first, head, GIANT)?;
        cx.counts.events.add(EventKind::TridentPromoted1G, 1);
        Ok(true)
    }
}

impl Daemon for Trident {
    fn wakes_at(&self) -> u64 {
        self.pace.wakes_at()
    }

    fn wake(&mut self, system: &mut SystemCx, compaction: &mut Compaction, now_ns: u64) -> Result<(), KernelError> {
        self.failed = false;
        let scan = self.scan(system, compaction);
        self.pace.sleep(&scan, now_ns);
        scan.map(drop)
    }
}
