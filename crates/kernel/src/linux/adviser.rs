//! An adviser's part of Linux: the sizes that it may name, and the time of its next tick.

use crate::clock::ns_of_ms;
use crate::desc::PolicyDesc;
use crate::linux::desc::KhugepagedDesc;
use crate::parts::traits::MapSize;
use mmulab_addr::PageOrder;
use mmulab_pagetable::TableDesc;

/// What an adviser may choose from, and when it is asked.
#[derive(Debug, Default)]
pub(super) struct Advice {
    /// The sizes larger than a base page that the table has leaves of.
    pub leaves: Vec<MapSize>,
    /// Milliseconds between two scans of the policy's daemon, or of khugepaged.
    daemon_ms: u64,
    /// Whether its promotions compact memory when no block is free.
    pub defrag: bool,
    /// Nanoseconds between two ticks.
    pub period_ns: u64,
    /// When the next tick is, in simulated nanoseconds; `None` without an adviser that wants any.
    pub wake_ns: Option<u64>,
}

impl Advice {
    /// Under this policy, on this page table.
    pub fn new(desc: &PolicyDesc, table: &TableDesc) -> Self {
        let of_thp = desc.thp.as_ref().and_then(|thp| thp.khugepaged.as_ref());
        let of_parts = desc.promotion.as_ref().and_then(|promotion| promotion.daemon.as_ref());
        let daemon = of_thp.or(of_parts).cloned().unwrap_or_default();
        let KhugepagedDesc { scan_sleep_ms, defrag, .. } = daemon;
        let orders = (1..=PageOrder::P1G.get()).map(PageOrder::new);
        let leaves = orders.filter_map(|order| MapSize::leaf(table, order)).collect();
        Self { leaves, daemon_ms: scan_sleep_ms, defrag, ..Self::default() }
    }

    /// Ticks from now on, with the given period or the daemon's.
    pub fn tick_every(&mut self, period_ms: Option<u64>) {
        self.period_ns = ns_of_ms(period_ms.unwrap_or(self.daemon_ms));
        self.wake_ns = Some(self.period_ns);
    }

    /// When the next tick is.
    #[inline]
    pub fn wakes_at(&self) -> Option<u64> {
        self.wake_ns
    }
}
