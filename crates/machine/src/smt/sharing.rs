//! The parts that go from one CPU to the next when another one acts. Some are shared by the threads of a core, others
//! by all cores. Lookups, walks and invalidations find both in the record of the CPU that acts.

use super::siblings::Siblings;
use crate::{cpu::Cpu, describe::MachineDesc};
use std::ops::Range;

/// Which parts CPUs have in common.
pub(crate) struct Sharing {
    siblings: Siblings,
    /// Cores have TLB arrays or the walker in common.
    between_cores: bool,
    /// Cores have the walker in common.
    walker: bool,
}

impl Sharing {
    pub fn new(desc: &MachineDesc) -> Self {
        let siblings = Siblings::new(desc.core.count);
        Self { siblings, between_cores: desc.shares(), walker: desc.walker.shared }
    }

    /// The core that a CPU is a thread of.
    #[inline]
    pub fn core_of(&self, cpu: u16) -> u16 {
        self.siblings.core_of(cpu)
    }

    /// Cores have TLB arrays or the walker in common.
    #[inline]
    pub fn is_between_cores(&self) -> bool {
        self.between_cores
    }

    /// Of `cpus`, those whose record has a walker, where CPU `acting` acts.
    #[inline]
    pub fn walkers(&self, cpus: Range<usize>, acting: usize) -> Range<usize> {
        if self.walker { acting..acting + 1 } else { cpus }
    }

    /// CPU `to` acts next, after `from`: it gets what it has in common with others.
    #[inline]
    pub fn hand_over(&mut self, cpus: &mut [Cpu], from: u16, to: u16) {
        if let Some(sibling) = self.siblings.acts(to)
            && let Ok([from, to]) = cpus.get_disjoint_mut([usize::from(sibling), usize::from(to)])
        {
            hand_over_core(from, to);
        }
        if self.between_cores
            && self.core_of(from) != self.core_of(to)
            && let Ok([from, to]) = cpus.get_disjoint_mut([usize::from(from), usize::from(to)])
        {
            from.tlbs.hand_over(&mut to.tlbs);
            if self.walker {
                std::mem::swap(&mut from.walker, &mut to.walker);
                std::mem::swap(&mut from.slots, &mut to.slots);
            }
        }
    }
}

/// What the threads of a core have in common goes to the one that acts next. Each has a clock of its own: walks go on
/// for as long as they would have.
fn hand_over_core(from: &mut Cpu, to: &mut Cpu) {
    from.tlbs.hand_over_core(&mut to.tlbs);
    std::mem::swap(&mut from.walker, &mut to.walker);
    std::mem::swap(&mut from.slots, &mut to.slots);
    to.slots.rebase(from.now(), to.now());
}
