//! The pace of a daemon that makes larger pages: how many pages it looks at each time it wakes, and how long it sleeps
//! then. It sleeps for another time if it could get no block (`khugepaged_do_scan` in mm/khugepaged.c).

use crate::clock::ns_of_ms;
use crate::linux::desc::KhugepagedDesc;

/// How a scan ended.
pub(in crate::parts::daemon) enum Scan {
    Done,
    /// No block could be had.
    NoBlock,
}

/// When the daemon wakes, and how far its scan is.
#[derive(Debug)]
pub(in crate::parts::daemon) struct Pace {
    scan_sleep_ms: u64,
    alloc_sleep_ms: u64,
    pages_to_scan: u32,
    /// When it wakes, in simulated nanoseconds.
    wake_ns: u64,
    /// Pages looked at in the scan that was interrupted to wait for memory.
    progress: u32,
    waited: bool,
}

impl Pace {
    /// # Errors
    /// A scan of nothing, or no sleep.
    pub fn new(desc: &KhugepagedDesc) -> Result<Self, (&'static str, String)> {
        if desc.pages_to_scan == 0 || desc.scan_sleep_ms == 0 {
            return Err(("", "pages_to_scan and scan_sleep_ms must be at least 1".into()));
        }
        let KhugepagedDesc { scan_sleep_ms, alloc_sleep_ms, pages_to_scan, .. } = *desc;
        let wake_ns = ns_of_ms(scan_sleep_ms);
        Ok(Self { scan_sleep_ms, alloc_sleep_ms, pages_to_scan, wake_ns, progress: 0, waited: false })
    }

    pub fn wakes_at(&self) -> u64 {
        self.wake_ns
    }

    /// Whether this scan may look at more pages.
    pub fn goes_on(&self) -> bool {
        self.progress < self.pages_to_scan
    }

    /// The scan looked at `pages` more.
    pub fn looked_at(&mut self, pages: u64) {
        self.progress = self.progress.saturating_add(u32::try_from(pages).unwrap_or(u32::MAX));
    }

    /// A scan ended, or failed; the daemon sleeps from `now_ns` on. The first failure to get memory waits and goes on,
    /// the second ends the scan.
    pub fn sleep<E>(&mut self, scan: &Result<Scan, E>, now_ns: u64) {
        let sleep_ms = match scan {
            Ok(Scan::NoBlock) if !self.waited => {
                self.waited = true;
                self.alloc_sleep_ms
            }
            _ => {
                (self.progress, self.waited) = (0, false);
                self.scan_sleep_ms
            }
        };
        self.wake_ns = now_ns.saturating_add(ns_of_ms(sleep_ms));
    }
}
