//! Instructions, references and kernel cycles of each process. The sums are taken when another process begins to act,
//! so that no reference updates them and nothing is counted twice.

use mmulab_addr::Pid;
use std::collections::BTreeMap;

/// Counts of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessCounts {
    /// Instructions that it retired.
    pub instructions: u64,
    /// References that it made.
    pub references: u64,
    /// Cycles that its CPUs were at work for it, without the kernel's.
    pub cycles: u64,
    /// Cycles of kernel work while it acted, those of daemons that woke then included.
    pub kernel_cycles: f64,
    /// Cycles of what lies below its kernel, while it acted.
    pub below_cycles: f64,
}

/// Counts of all processes, by the number of the kernel that they run on and their own number.
#[derive(Debug, Default)]
pub struct Processes {
    closed: BTreeMap<(usize, Pid), ProcessCounts>,
    acting: (usize, Pid),
    /// The counters when it began to act.
    since: ProcessCounts,
}

impl Processes {
    /// The process that acted until the counters stood at `now` acts no more.
    pub fn close(&mut self, now: &ProcessCounts) {
        let sum = self.closed.entry(self.acting).or_default();
        sum.instructions += now.instructions - self.since.instructions;
        sum.references += now.references - self.since.references;
        sum.cycles += now.cycles - self.since.cycles;
        sum.kernel_cycles += now.kernel_cycles - self.since.kernel_cycles;
        sum.below_cycles += now.below_cycles - self.since.below_cycles;
        self.since = *now;
    }

    /// From the counters `now` on, process `pid` of kernel number `system` acts.
    pub fn open(&mut self, system: usize, pid: Pid, now: &ProcessCounts) {
        self.acting = (system, pid);
        self.since = *now;
    }

    /// All counts so far, which begin anew. Only right after [`Self::close`].
    pub fn take(&mut self) -> BTreeMap<(usize, Pid), ProcessCounts> {
        std::mem::take(&mut self.closed)
    }

    /// Goes on with counts that were taken, in place of those since then. Only right after [`Self::close`].
    pub fn put(&mut self, closed: BTreeMap<(usize, Pid), ProcessCounts>) {
        self.closed = closed;
    }

    /// Forgets all counts; the acting process goes on. Only right after [`Self::close`].
    pub fn begin_anew(&mut self) {
        self.closed.clear();
    }

    /// The sum over the processes for which `of` holds, by the number of their kernel and their own.
    pub fn sum(&self, of: impl Fn(usize, Pid) -> bool) -> ProcessCounts {
        let mut sum = ProcessCounts::default();
        for (_, counts) in self.closed.iter().filter(|((system, pid), _)| of(*system, *pid)) {
            sum.instructions += counts.instructions;
            sum.references += counts.references;
            sum.cycles += counts.cycles;
            sum.kernel_cycles += counts.kernel_cycles;
            sum.below_cycles += counts.below_cycles;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_what_the_counters_rose_by_while_it_acted() {
        let at = |n: u64| ProcessCounts {
            instructions: n,
            references: 2 * n,
            cycles: 3 * n,
            kernel_cycles: n as f64,
            below_cycles: 0.0,
        };
        let mut processes = Processes::default();
        processes.open(0, Pid(1), &at(0));
        processes.close(&at(5));
        // Another core, whose instructions are its own.
        processes.open(0, Pid(2), &at(1));
        processes.close(&at(4));
        processes.open(0, Pid(1), &at(7));
        processes.close(&at(8));
        assert_eq!(processes.sum(|_, pid| pid == Pid(1)), at(6));
        assert_eq!(processes.sum(|_, _| true), at(9));
    }
}
