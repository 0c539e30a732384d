//! Daemon *khugepaged*: base pages copied into huge pages, a few regions at a time, on simulated time
//! (mm/khugepaged.c). With `mthp` it also makes the blocks below 2 MiB that faults may map (`scan/mthp.rs`).

use super::scan::limits::Limits;
use super::scan::linear::Linear;
use super::scan::pace::Pace;
use crate::KernelError;
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::{DaemonSettings, Served};
use crate::parts::traits::{Daemon, Declare, Declares};
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;
use mmulab_addr::PageOrder;

/// The daemon and the progress of its scan.
#[derive(Debug)]
pub(crate) struct Khugepaged {
    pace: Pace,
    limits: Limits,
    /// Whether it compacts memory when no block is free.
    defrag: bool,
    scan: Linear,
}

impl Part<DaemonSettings<'_>> for Khugepaged {
    const NAME: &'static str = "khugepaged";
    const ABOUT: &'static str =
        "Linux's: it scans all processes from their lowest address on, and copies base pages into huge pages.";

    /// # Errors
    /// Limits beyond a region, or a scan of nothing.
    fn new(settings: &DaemonSettings) -> Result<Self, Wrong> {
        let DaemonSettings { desc, enabled, takes_text, ref mthp, .. } = *settings;
        let limits = Limits::new(desc, enabled)?.with_text(takes_text).with_mthp(mthp.clone());
        Ok(Self { pace: Pace::new(desc)?, limits, defrag: desc.defrag, scan: Linear::default() })
    }
}

impl Declare for Khugepaged {
    fn declares(_: Served) -> Declares {
        Declares { sizes: &[PageOrder::P2M], how: "copy, by a daemon", allocation: "" }
    }
}

impl Daemon for Khugepaged {
    fn wakes_at(&self) -> u64 {
        self.pace.wakes_at()
    }

    fn wake(&mut self, system: &mut SystemCx, compaction: &mut Compaction, now_ns: u64) -> Result<(), KernelError> {
        let scan = self.scan.scan(system, compaction, (&mut self.pace, &self.limits), self.defrag, |_| true);
        self.pace.sleep(&scan, now_ns);
        scan.map(drop)
    }
}
