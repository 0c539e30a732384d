//! Hardware threads: CPUs that have a core in common, but for the arrays that each thread has of its own.
//!
//! Every CPU has a record of its own ([`crate::cpu::Cpu`]). The parts that the threads of a core share lie in the
//! record of the thread that acted last. They go to the thread that acts next, and are empty in the other records
//! meanwhile. So a lookup finds everything in one place, and threads cost nothing where there is one to a core.

/// Which CPU's record has what the threads of each core have in common.
pub(super) struct Siblings {
    holders: Vec<u16>,
}

impl Siblings {
    /// The siblings of `cores` cores. At first, the first thread of each core has everything.
    pub fn new(cores: u16) -> Self {
        Self { holders: (0..cores).collect() }
    }

    /// The core that a CPU is a thread of: CPUs are numbered through all cores before any has a second.
    #[inline]
    pub fn core_of(&self, cpu: u16) -> u16 {
        cpu % self.holders.len() as u16
    }

    /// A CPU acts next. Its sibling that has what they have in common, if that is another.
    pub fn acts(&mut self, cpu: u16) -> Option<u16> {
        let core = usize::from(self.core_of(cpu));
        let before = std::mem::replace(&mut self.holders[core], cpu);
        (before != cpu).then_some(before)
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
