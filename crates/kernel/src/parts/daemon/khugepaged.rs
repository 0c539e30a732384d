//! Daemon *khugepaged*: base pages copied into huge pages, a few regions at a time, on simulated time
//! (mm/khugepaged.c).

use super::limits::Limits;
use super::linear::Linear;
use super::pace::Pace;
use super::settings::DaemonSettings;
use crate::KernelError;
use crate::parts::traits::Daemon;
use crate::space::compaction::Compaction;
use crate::space::system::SystemCx;

/// The daemon and the progress of its scan.
#[derive(Debug)]
pub(crate) struct Khugepaged {
    pace: Pace,
    limits: Limits,
    /// Whether it compacts memory when no block is free.
    defrag: bool,
    scan: Linear,
}

impl Khugepaged {
    /// # Errors
    /// Limits beyond a region, or a scan of nothing.
    pub fn new(settings: &DaemonSettings) -> Result<Self, (&'static str, String)> {
        let DaemonSettings { desc, enabled, .. } = *settings;
        let limits = Limits::new(desc, enabled)?;
        Ok(Self { pace: Pace::new(desc)?, limits, defrag: desc.defrag, scan: Linear::default() })
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
