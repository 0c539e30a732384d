//! The warps of one core: until when each waits, and the core's walks in flight.

use super::table::Table;
use crate::near::bring;
use mmulab_addr::{Pid, VirtAddr};

/// The warps of a core.
#[derive(Default)]
pub(super) struct Warps {
    waits: Vec<Wait>,
    acting: usize,
    /// Walks in flight.
    pub in_flight: Table,
}

/// Until when a warp waits, and for which page.
#[derive(Clone, Copy, Default)]
pub(super) struct Wait {
    pub until: u64,
    pub pid: Pid,
    pub va: VirtAddr,
}

impl Warps {
    pub fn new(warps: u16) -> Self {
        Self { waits: vec![Wait::default(); usize::from(warps)], ..Self::default() }
    }

    /// Warp `number` acts.
    #[inline]
    pub fn act(&mut self, number: usize) {
        self.acting = number;
    }

    /// The wait of the acting warp.
    #[inline]
    pub fn wait(&self) -> Wait {
        self.waits[self.acting]
    }

    /// The acting warp waits for `va` until `cycle`.
    #[inline]
    pub fn wait_until(&mut self, cycle: u64, pid: Pid, va: VirtAddr) {
        let wait = &mut self.waits[self.acting];
        if cycle > wait.until {
            *wait = Wait { until: cycle, pid, va };
        }
    }

    /// When the last warp goes on.
    pub fn last(&self) -> u64 {
        self.waits.iter().map(|wait| wait.until).max().unwrap_or(0)
    }

    /// Hints to the computer that simulates what an instruction of warp `number` begins with.
    #[inline]
    pub fn prefetch(&self, number: usize) {
        bring(self.waits.as_ptr().wrapping_add(number));
        self.in_flight.prefetch();
    }
}
