//! Zeroing *ahead*: a daemon clears free memory at a limited rate, on simulated time. A fault clears only memory that
//! the daemon has not cleared (Panwar, Bansal and Gopinath, "HawkEye", ASPLOS 2019, section 3.1).
//!
//! The daemon begins with blocks of 2 MiB and more, in the order of allocation. A frame that is freed counts as not
//! cleared. The allocator does not prefer cleared blocks, and frames in per-CPU lists wait there uncleared. The
//! daemon's kernel work has a name of its own, `zero_bytes_ahead`.

use crate::WorkKind;
use crate::clock::ns_of_ms;
use crate::parts::part::{Part, Wrong};
use crate::parts::settings::ZeroingSettings;
use crate::parts::traits::Zeroing;
use crate::report::counts::EventKind;
use crate::space::Cx;
use crate::space::system::SystemCx;
use mmulab_addr::{BASE_BYTES, PageOrder, Pfn};

/// The daemon.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    sleep_ns: u64,
    /// Pages that it clears each time it wakes.
    pages: u64,
    /// When it wakes, in simulated nanoseconds since the start.
    wake_ns: u64,
}

impl Part<ZeroingSettings> for Ahead {
    const NAME: &'static str = "ahead";
    const ABOUT: &'static str = "By a daemon, ahead of the faults; a fault clears what the daemon had not come to.";

    fn new(settings: &ZeroingSettings) -> Result<Self, Wrong> {
        let sleep_ns = ns_of_ms(settings.sleep_ms);
        Ok(Self { sleep_ns, pages: settings.pages_per_wake.into(), wake_ns: sleep_ns })
    }
}

impl Zeroing for Ahead {
    #[inline]
    fn zero(&self, cx: &mut Cx, pfn: Pfn, order: PageOrder) {
        let ahead = cx.memory.frames.take_cleared(pfn, order);
        cx.counts.events.add(EventKind::ZeroedAhead, ahead);
        cx.work(WorkKind::ZeroBytes, (order.base_pages() - ahead) * BASE_BYTES);
    }

    fn wakes_at(&self) -> Option<u64> {
        Some(self.wake_ns)
    }

    fn wake(&mut self, system: &mut SystemCx, now_ns: u64) {
        let memory = &mut system.shared.memory;
        let cleared = memory.frames.clear_ahead(self.pages);
        memory.work.add(WorkKind::ZeroBytesAhead, cleared * BASE_BYTES);
        self.wake_ns = now_ns.saturating_add(self.sleep_ns);
    }
}
