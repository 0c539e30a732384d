//! The loop over references.

use super::Machine;
use crate::{Ended, story::Watch};
use mmulab_addr::Access;
use mmulab_tlb::Outcome;
use mmulab_trace::{Batch, Event, Item};

/// References between one that misses and the one whose table entry the host is asked to bring near: enough for a
/// memory access of the host to finish meanwhile.
const AHEAD: usize = 12;
/// The same of a guest, for what its table entry says of the host's table: that entry must be near by then.
const NEARER: usize = AHEAD / 2;

impl Machine {
    pub(crate) fn go<W: Watch>(&mut self, batch: &Batch, watch: &mut W) -> Result<(), Ended> {
        let mut at = 0;
        while at < batch.refs.len() {
            at = if self.timed.is_some() {
                self.stretch_in_time(batch, at, watch)?
            } else if self.lanes.is_none() {
                self.stretch(batch, at, watch)?
            } else {
                self.warp(batch, at, watch)?
            };
            if at < batch.refs.len() {
                self.close_lanes();
                match batch.refs[at].item() {
                    Item::Event(index) => {
                        self.event(&batch.events[index], watch)?;
                        if let Some(Event::Switch { tid, .. }) = batch.events.get(index + 1) {
                            self.foresee_warp(*tid);
                        }
                    }
                    Item::Retire(count) => self.core().instructions += count,
                    Item::Code(_) => {}
                    Item::Access(..) => unreachable!("a stretch ends at a control word"),
                }
                at += 1;
            }
        }
        Ok(())
    }

    /// References up to the next control word: the loop everything else stays out of.
    #[inline]
    fn stretch<W: Watch>(&mut self, batch: &Batch, from: usize, watch: &mut W) -> Result<usize, Ended> {
        let through_caches = self.desc.machine.cache_rules.data;
        let (cpu, at_core) = (usize::from(self.who.cpu), usize::from(self.acting_core()));
        let mut asid = self.asid(cpu);
        let mut at = from;
        let (mut instructions, mut writes) = (0u64, 0u64);
        let outcome = loop {
            let Some(&word) = batch.refs.get(at) else { break Ok(()) };
            if word.is_control() {
                break Ok(());
            }
            let va = word.va();
            let access = match (word.is_fetch(), word.is_write()) {
                (true, _) => Access::Fetch,
                (_, true) => Access::Write,
                _ => Access::Read,
            };
            let core = &mut self.cores[cpu];
            instructions += u64::from(word.instructions());
            writes += u64::from(word.is_write());
            if access == Access::Fetch {
                core.tlbs.code = va;
            }
            at += 1;
            self.next += 1;
            let outcome = core.tlbs.access(asid, va, access, watch);
            if !W::ACTIVE && !through_caches && matches!(outcome, Outcome::L1 { .. }) {
                continue;
            }
            core.instructions += std::mem::take(&mut instructions);
            if let Some(&ahead) = batch.refs.get(at + AHEAD) {
                match &self.host {
                    None => core.walker.foresee(&self.system.mem, &self.caches, asid, ahead.va()),
                    Some(host) => {
                        core.walker.foresee_entry(&self.system.mem, asid, ahead.va());
                        if let (Some(cx), Some(nearer)) = (core.context, batch.refs.get(at + NEARER)) {
                            host.foresee(&core.walker, &self.system.mem, &self.caches, cx, (at_core, nearer.va()));
                        }
                    }
                }
            }
            if let Err(ended) = self.beyond(va, access, outcome, watch) {
                break Err(ended);
            }
            // A process that had lost its tag, or its address space, has one again.
            asid = self.asid(cpu);
        };
        self.cores[cpu].instructions += instructions;
        self.counts.writes += writes;
        outcome.map(|()| at)
    }
}
