//! What kernels ask of the machine.

use super::Machine;
use crate::{Ended, story::Watch};
use mmulab_kernel::Stored;
use mmulab_pagetable::Invalidate;

impl Machine {
    /// Settles what the kernel asked for: invalidations to every core, work to the clock of kernel time; and gives
    /// memory that a guest's kernel stored to.
    pub(super) fn settle<W: Watch>(&mut self, watch: &mut W) -> Result<(), Ended> {
        let format = self.format;
        if self.lanes.is_some() && !self.fx.invalidations.is_empty() {
            self.divert(0..=self.cores.len() - 1);
        }
        for what in &self.fx.invalidations {
            // Without tags, the core that switches drops its own; shadow tables and what cores share are all cores'.
            let own = self.fx.local && !self.shares && self.host.as_ref().is_none_or(|host| !host.has_shadows());
            let cpu = usize::from(self.who.cpu);
            let cpus = if own { cpu..cpu + 1 } else { 0..self.cores.len() };
            // One walker for all is with the core that acts.
            let walkers = if self.desc.machine.walker.shared { cpu..cpu + 1 } else { cpus.clone() };
            let cores = &mut self.cores;
            let mut deliver = |what: &Invalidate| {
                cores[cpus.clone()].iter_mut().for_each(|core| core.tlbs.invalidate(what, watch));
                cores[walkers.clone()].iter_mut().for_each(|core| core.walker.invalidate(format, what));
            };
            match &self.host {
                None => deliver(what),
                Some(host) => host.tagged(what, deliver),
            }
        }
        if !self.fx.invalidations.is_empty()
            && let Some(host) = self.host.as_mut().filter(|host| host.has_shadows())
        {
            for what in &self.fx.invalidations {
                host.forget_in_shadow(what);
            }
            self.settle_host(watch);
        }
        let mut trapped = 0;
        if let Some(host) = &mut self.host {
            trapped = host.trap_table_writes(&self.fx.work);
            self.host_cycles += self.desc.machine.costs.guest_table_write * trapped as f64;
        }
        for work in &self.fx.work {
            self.kernel_cycles += self.desc.machine.costs.cycles(work.kind) * work.count as f64;
        }
        self.counts.kernel_cycles = self.kernel_cycles as u64;
        if W::ACTIVE {
            watch.happened(&self.fx.told, &self.fx.invalidations);
            if trapped != 0 {
                watch.trapped_table_writes(trapped);
            }
        }
        if !self.fx.folded.is_empty() {
            self.system.tally.fold(&self.fx.folded);
        }
        let touched = std::mem::take(&mut self.fx.touched);
        self.fx.clear();
        if touched.is_empty() { Ok(()) } else { self.back(touched, watch) }
    }

    /// The kernel of the guest that runs stored to these frames: the host must have them.
    #[cold]
    fn back<W: Watch>(&mut self, mut touched: Vec<Stored>, watch: &mut W) -> Result<(), Ended> {
        let mut result = Ok(());
        for stored in touched.drain(..) {
            if let Some(host) = &mut self.host
                && result.is_ok()
            {
                result = host.back(&stored, self.who.cpu);
            }
        }
        self.fx.touched = touched;
        self.settle_host(watch);
        result
    }

    /// Settles what the host's kernel asked for, and charges its work apart.
    pub(super) fn settle_host<W: Watch>(&mut self, watch: &mut W) {
        let Some(host) = &mut self.host else { return };
        if !host.fx.invalidations.is_empty() {
            host.counts.flushes += 1;
            for tag in host.stale_tags() {
                for core in &mut self.cores {
                    core.tlbs.invalidate(&Invalidate::Asid(tag), watch);
                    core.walker.invalidate(self.format, &Invalidate::Asid(tag));
                }
            }
        }
        for what in host.take_shadow_stale() {
            for core in &mut self.cores {
                core.tlbs.invalidate(&what, watch);
                core.walker.invalidate(self.format, &what);
            }
        }
        for work in &host.fx.work {
            self.host_cycles += self.desc.machine.costs.cycles(work.kind) * work.count as f64;
        }
        let exits = self.desc.machine.guest.as_ref().map_or(0.0, |g| g.exit_cycles) * host.counts.exits as f64;
        host.counts.cycles = (self.host_cycles + exits) as u64;
        if W::ACTIVE {
            watch.happened_in_host(&host.fx.told, &host.fx.invalidations);
        }
        host.fx.clear();
    }
}
