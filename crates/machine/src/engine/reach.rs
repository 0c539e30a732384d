//! The price of a flush on all CPUs: which of them are interrupted, or how many instructions are broadcast.
//!
//! Linux interrupts the CPUs on which the address space is loaded (`mm_cpumask`, arch/x86/mm/tlb.c). A CPU that runs
//! another process by now flushes when it loads the address space again. Here its TLB drops the entries at once, at no
//! price. A CPU whose process sleeps has its address space loaded until another one is.

use crate::{
    count::ShootdownCounts,
    cpu::Cpu,
    describe::{CostsDesc, MachineDesc, Reach},
};
use mmulab_addr::Asid;
use mmulab_kernel::WorkKind;
use mmulab_pagetable::Invalidate;

/// Who asks for a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    /// The kernel on this CPU, for the process that runs there.
    Cpu(usize),
    /// A daemon, on a CPU of its own if there are several.
    Daemon,
}

/// What the flushes of one delivery take, with fractions of cycles.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Shootdown {
    pub counts: ShootdownCounts,
    pub cycles: f64,
}

impl Shootdown {
    /// Adds a flush. `each_tagged` gives the forms that it has in the CPUs' TLBs.
    pub fn add(
        &mut self,
        machine: &MachineDesc,
        cpus: &[Cpu],
        asker: Asker,
        what: &Invalidate,
        each_tagged: impl FnOnce(&mut dyn FnMut(&Invalidate)),
    ) {
        let Some(desc) = &machine.shootdown else { return };
        self.counts.flushes += 1;
        match desc.by {
            Reach::Interrupts => {
                let others = |cpu: usize| match asker {
                    Asker::Cpu(asks) => cpu != asks,
                    Asker::Daemon => cpus.len() > 1,
                };
                let mut found = 0;
                each_tagged(&mut |what| {
                    let loaded = cpus.iter().enumerate().filter(|(n, cpu)| {
                        others(*n) && cpu.context.as_ref().is_some_and(|loaded| concerns(what, loaded.asid))
                    });
                    found += loaded.count();
                });
                if found > 0 {
                    let each = desc.wait_cycles + desc.receive_cycles + own_flush(&machine.costs, what);
                    self.counts.interrupts += found as u64;
                    self.cycles += desc.send_cycles + each * found as f64;
                }
            }
            Reach::Broadcast | Reach::BroadcastRange => {
                let instructions = desc.instructions(what);
                self.counts.instructions += instructions;
                self.cycles += desc.instruction_cycles * instructions as f64 + desc.sync_cycles;
            }
        }
    }
}

/// Whether a CPU on which this address space is loaded must flush.
fn concerns(what: &Invalidate, loaded: Asid) -> bool {
    match *what {
        Invalidate::Page { asid, .. } | Invalidate::Range { asid, .. } | Invalidate::Asid(asid) => asid == loaded,
        Invalidate::All => true,
    }
}

/// Cycles of the flush itself, on a CPU that was interrupted for it.
fn own_flush(costs: &CostsDesc, what: &Invalidate) -> f64 {
    costs.cycles(match what {
        Invalidate::Page { .. } => WorkKind::FlushPage,
        Invalidate::Range { .. } => WorkKind::FlushRange,
        Invalidate::Asid(_) | Invalidate::All => WorkKind::FlushSpace,
    })
}
