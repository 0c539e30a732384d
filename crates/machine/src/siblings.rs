//! Hardware threads: CPUs that have a core in common, but for the arrays that each thread has of its own.
//!
//! Every CPU has a record of its own ([`Core`]). What the threads of a core have in common lies in the record of the
//! one that acted last, and goes to the one that acts next; the others' is empty meanwhile. So a lookup finds
//! everything in one place, and threads cost nothing where there is one to a core.

use crate::{Machine, engine::Core};

/// Which CPU's record has what the threads of each core have in common.
pub(crate) struct Siblings {
    holders: Vec<u16>,
}

impl Siblings {
    /// Of so many cores; the first thread of each has everything.
    pub fn new(cores: u16) -> Self {
        Self { holders: (0..cores).collect() }
    }

    /// The core that a CPU is a thread of: CPUs are numbered through all cores before any has a second.
    #[inline]
    pub fn core_of(&self, cpu: u16) -> u16 {
        cpu % self.holders.len() as u16
    }

    /// A CPU acts next. Its sibling that has what they have in common, if that is another.
    fn acts(&mut self, cpu: u16) -> Option<u16> {
        let core = usize::from(self.core_of(cpu));
        let before = std::mem::replace(&mut self.holders[core], cpu);
        (before != cpu).then_some(before)
    }
}

impl Machine {
    /// The acting CPU's core.
    #[inline]
    pub(crate) fn acting_core(&self) -> u16 {
        self.siblings.core_of(self.who.cpu)
    }

    /// CPU `cpu` acts next: it has what it shares with others.
    pub(crate) fn hand_over(&mut self, cpu: u16) {
        if let Some(sibling) = self.siblings.acts(cpu)
            && let Ok([from, to]) = self.cores.get_disjoint_mut([usize::from(sibling), usize::from(cpu)])
        {
            from.hand_over_core(to);
        }
        let moves = self.siblings.core_of(cpu) != self.acting_core();
        if self.shares
            && moves
            && let Ok([from, to]) = self.cores.get_disjoint_mut([usize::from(self.who.cpu), usize::from(cpu)])
        {
            from.hand_over(to, self.desc.machine.walker.shared);
        }
    }
}

impl Core {
    /// What the threads of a core have in common goes to the one that acts next. Each has a clock of its own: walks go
    /// on for as long as they would have.
    fn hand_over_core(&mut self, to: &mut Self) {
        self.tlbs.hand_over_core(&mut to.tlbs);
        std::mem::swap(&mut self.walker, &mut to.walker);
        std::mem::swap(&mut self.slots, &mut to.slots);
        to.slots.rebase(self.clock.now(self.instructions), to.clock.now(to.instructions));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_acted_last_has_what_threads_share() {
        let mut siblings = Siblings::new(2);
        assert_eq!([0, 1, 2, 3].map(|cpu| siblings.core_of(cpu)), [0, 1, 0, 1]);
        assert_eq!((siblings.acts(0), siblings.acts(3), siblings.acts(2)), (None, Some(1), Some(0)));
        assert_eq!((siblings.acts(3), siblings.acts(0)), (None, Some(2)));
    }
}
