//! Daemon *ingens*: promotion by utilisation (Kwon and others, *Coordinated and Efficient Huge Page Management with
//! Ingens*, OSDI 2016, sections 4.1 and 4.2).
//!
//! ```text
//! memory has huge blocks (FMFI below 0.5)  a region with one page in use is promoted
//! memory is fragmented                     a region is promoted once 90 % of its pages are in use
//! ```
//!
//! Faults map base pages only, so that memory is not zeroed while a program waits. With `fair`, processes have fair
//! shares of huge pages (`scan/fair.rs`); else the scan is linear.
//!
//! Left out: sharing of identical pages, which is where the published code takes huge pages apart that are not accessed
//! often (mm/ksm.c). Simulated pages have no contents.

use super::scan::fair::Fair;
use super::scan::limits::Limits;
use super::scan::linear::Linear;
use super::scan::pace::Pace;
use crate::KernelError;
use crate::linux::desc::KhugepagedDesc;
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::{DaemonSettings, Served};
use crate::parts::traits::{Daemon, Declare, Declares};
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;
use mmulab_addr::PageOrder;

/// From this FMFI on memory counts as fragmented (section 4.1).
const FRAGMENTED: f64 = 0.5;
/// Pages of a region that must be in use then, of 100 (section 4.1).
const UTILISATION: u32 = 90;

/// The daemon and the progress of its scan.
#[derive(Debug)]
pub(crate) struct Ingens {
    pace: Pace,
    /// Where memory has huge blocks.
    aggressive: Limits,
    /// Where it is fragmented.
    conservative: Limits,
    defrag: bool,
    scan: Scans,
}

/// Which process is scanned next.
#[derive(Debug)]
enum Scans {
    Linear(Linear),
    Fair(Fair),
}

impl Part<DaemonSettings<'_>> for Ingens {
    const NAME: &'static str = "ingens";
    const ABOUT: &'static str =
        "Ingens': as khugepaged, but where memory is fragmented it promotes only regions of which 90 % are in use.";

    /// # Errors
    /// Limits beyond a region, or a scan of nothing.
    fn new(settings: &DaemonSettings) -> Result<Self, Wrong> {
        let DaemonSettings { desc, enabled, fair, .. } = *settings;
        let pages = PageOrder::P2M.base_pages() as u32;
        let unused = pages - (pages * UTILISATION).div_ceil(100);
        let conservative = KhugepagedDesc { max_ptes_none: unused.min(desc.max_ptes_none), ..desc.clone() };
        Ok(Self {
            pace: Pace::new(desc)?,
            aggressive: Limits::new(desc, enabled)?,
            conservative: Limits::new(&conservative, enabled)?,
            defrag: desc.defrag,
            scan: if fair { Scans::Fair(Fair::default()) } else { Scans::Linear(Linear::default()) },
        })
    }
}

impl Declare for Ingens {
    fn declares(_: Served) -> Declares {
        Declares { sizes: &[PageOrder::P2M], how: "copy, by a daemon, by utilisation", allocation: "" }
    }
}

impl Daemon for Ingens {
    fn wakes_at(&self) -> u64 {
        self.pace.wakes_at()
    }

    fn wake(&mut self, system: &mut SystemCx, compaction: &mut Compaction, now_ns: u64) -> Result<(), KernelError> {
        let is_fragmented = system.shared.memory.frames.fmfi(PageOrder::P2M.get()) >= FRAGMENTED;
        let limits = if is_fragmented { &self.conservative } else { &self.aggressive };
        let pace = (&mut self.pace, limits);
        let scan = match &mut self.scan {
            Scans::Linear(linear) => linear.scan(system, compaction, pace, self.defrag, |_| true),
            Scans::Fair(fair) => fair.scan(system, compaction, pace, self.defrag),
        };
        self.pace.sleep(&scan, now_ns);
        scan.map(drop)
    }
}
