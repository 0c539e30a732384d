//! Kernel cycles by what the kernel worked for: paper 2 compares what promotion, forks, execs and exits take.

use mmulab_trace::Event;
use schemars::JsonSchema;
use serde::Serialize;

/// What a program's kernel worked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// A page fault that made no larger page of others.
    Fault,
    /// A page fault that did.
    Promotion,
    /// fork(2) and vfork(2).
    Fork,
    /// execve(2).
    Exec,
    /// The end of a process.
    Exit,
    /// Other calls, switches between processes, daemons.
    Other,
}

impl Cause {
    /// The cause that an event of the trace is.
    pub fn of(event: &Event) -> Self {
        match event {
            Event::Fork { .. } => Self::Fork,
            Event::Exec { .. } => Self::Exec,
            Event::Exit { .. } => Self::Exit,
            _ => Self::Other,
        }
    }
}

/// Cycles by cause; they may lack fractions that the total has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KernelCycles {
    /// Page faults without promotion.
    pub faults: u64,
    /// Page faults that made a larger page of others: with what is read and zeroed for it.
    pub promotions: u64,
    /// Forks.
    pub fork: u64,
    /// Execs.
    pub exec: u64,
    /// Ends of processes.
    pub exit: u64,
    /// The rest: other calls, switches between processes, daemons.
    pub other: u64,
}

/// The same as they are counted: with fractions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CauseCycles([f64; 6]);

impl CauseCycles {
    /// More of them.
    #[inline]
    pub fn add(&mut self, cause: Cause, cycles: f64) {
        self.0[cause as usize] += cycles;
    }

    /// Without fractions.
    pub fn whole(&self) -> KernelCycles {
        let of = |cause: Cause| self.0[cause as usize] as u64;
        KernelCycles {
            faults: of(Cause::Fault),
            promotions: of(Cause::Promotion),
            fork: of(Cause::Fork),
            exec: of(Cause::Exec),
            exit: of(Cause::Exit),
            other: of(Cause::Other),
        }
    }
}
