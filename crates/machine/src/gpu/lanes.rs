//! The lanes of a warp instruction, and the coalescing of their addresses into TLB lookups.

use crate::{count::WarpCounts, describe::GpuDesc};
use mmulab_addr::VirtAddr;

/// The instruction whose lanes are being read; it may go on in the next batch.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    most: usize,
    shift: u32,
    ports: u64,
    lanes: usize,
    write: bool,
    /// What was looked up for it.
    seen: [u64; GpuDesc::MAX_LANES],
    lookups: usize,
    pub counts: WarpCounts,
}

impl Lanes {
    pub fn new(desc: &GpuDesc) -> Self {
        Self {
            most: usize::from(desc.lanes),
            shift: desc.shift(),
            ports: desc.ports.into(),
            lanes: 0,
            write: false,
            seen: [0; GpuDesc::MAX_LANES],
            lookups: 0,
            counts: WarpCounts::default(),
        }
    }

    /// The instruction has no more lanes. The cycles that its lookups took beyond the first.
    #[inline]
    pub fn close(&mut self) -> u64 {
        if self.lanes == 0 {
            return 0;
        }
        self.counts.instructions += 1;
        self.counts.lanes += self.lanes as u64;
        self.counts.lookups += self.lookups as u64;
        let more = (self.lookups as u64).div_ceil(self.ports) - 1;
        self.counts.port_stalls += more;
        (self.lanes, self.lookups) = (0, 0);
        more
    }

    /// Whether the next lane begins an instruction.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.lanes == 0
    }

    /// Whether a lane with such an access belongs to another instruction than those before.
    #[inline]
    pub fn is_another(&self, write: bool) -> bool {
        self.lanes == self.most || (self.lanes != 0 && self.write != write)
    }

    /// A lane names `va`. Whether that is looked up. Inlined into the loop over lanes: most lanes name the page of the
    /// lane before, which takes less than a call.
    #[inline(always)]
    pub fn add(&mut self, va: VirtAddr, write: bool) -> bool {
        let key = if self.shift == 0 { self.lanes as u64 } else { va.raw() >> self.shift };
        (self.write, self.lanes) = (write, self.lanes + 1);
        // Neighbouring lanes mostly name neighbouring places.
        if self.lookups != 0 && self.seen[self.lookups - 1] == key {
            return false;
        }
        self.add_key(key)
    }

    /// The place of a lane, which is not that of the lane before. Whether it is looked up.
    #[inline]
    fn add_key(&mut self, key: u64) -> bool {
        if self.seen[..self.lookups].contains(&key) {
            return false;
        }
        self.seen[self.lookups] = key;
        self.lookups += 1;
        true
    }
}
