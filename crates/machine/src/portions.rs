//! What each process had of a run, closed at each switch: so nothing is counted twice, and no reference pays for it.

use mmulab_addr::Pid;
use std::collections::BTreeMap;

/// What a process had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Portion {
    /// Instructions it retired.
    pub instructions: u64,
    /// References it made.
    pub references: u64,
    /// Cycles of kernel work while it acted; of daemons that woke then, too.
    pub kernel_cycles: f64,
    /// The same of a host.
    pub host_cycles: f64,
}

/// The portions of all processes, by the number of their virtual machine and their own.
#[derive(Debug, Default)]
pub struct Portions {
    closed: BTreeMap<(usize, Pid), Portion>,
    who: (usize, Pid),
    /// The counters when it began to act.
    since: Portion,
}

impl Portions {
    /// What acted until the counters stood at `now` acts no more.
    pub fn close(&mut self, now: &Portion) {
        let portion = self.closed.entry(self.who).or_default();
        portion.instructions += now.instructions - self.since.instructions;
        portion.references += now.references - self.since.references;
        portion.kernel_cycles += now.kernel_cycles - self.since.kernel_cycles;
        portion.host_cycles += now.host_cycles - self.since.host_cycles;
        self.since = *now;
    }

    /// From the counters `now` on, `pid` of virtual machine `vm` acts.
    pub fn open(&mut self, vm: usize, pid: Pid, now: &Portion) {
        self.who = (vm, pid);
        self.since = *now;
    }

    /// No process has had anything, and whoever acts goes on. Only when its portion is closed.
    pub fn begin_anew(&mut self) {
        self.closed.clear();
    }

    /// The sum over the processes that are `of` what is asked.
    pub fn sum(&self, of: impl Fn(usize, Pid) -> bool) -> Portion {
        let mut sum = Portion::default();
        for (_, portion) in self.closed.iter().filter(|((vm, pid), _)| of(*vm, *pid)) {
            sum.instructions += portion.instructions;
            sum.references += portion.references;
            sum.kernel_cycles += portion.kernel_cycles;
            sum.host_cycles += portion.host_cycles;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_had_is_what_the_counters_went_up_by_while_it_acted() {
        let at = |n: u64| Portion { instructions: n, references: 2 * n, kernel_cycles: n as f64, host_cycles: 0.0 };
        let mut portions = Portions::default();
        portions.open(0, Pid(1), &at(0));
        portions.close(&at(5));
        // Another core, whose instructions are its own.
        portions.open(0, Pid(2), &at(1));
        portions.close(&at(4));
        portions.open(0, Pid(1), &at(7));
        portions.close(&at(8));
        assert_eq!(portions.sum(|_, pid| pid == Pid(1)), at(6));
        assert_eq!(portions.sum(|_, _| true), at(9));
    }
}
