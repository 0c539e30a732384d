//! Walks in flight: they start, serve lookups that join them, complete, or are cancelled.

use super::{
    in_flight::{InFlight, Shared, serves},
    shader::ShaderCores,
    table::Ended,
};
use crate::{
    cpu::Cpu,
    engine::{Miss, State},
    observe::Observe,
};
use mmulab_addr::{Access, Asid, Side, VirtAddr};
use mmulab_pagetable::{Leaf, Walked};
use mmulab_tlb::page_of;
use std::ops::Range;

/// What a lookup that joined a walk gets, and when.
pub(super) struct Joined {
    pub end: u64,
    pub leaf: Leaf,
}

impl ShaderCores {
    /// A walk of the acting core ends at `miss.end`: until then its translation is not there.
    #[inline(always)]
    pub(super) fn start(&mut self, state: &mut State, asid: Asid, miss: Miss, walked: &Walked) {
        let Miss { va, access, l2_missed, end } = miss;
        if let Some(shared) = &mut self.shared {
            shared.insert(page_of(asid, va), Shared { end, walked: *walked });
        }
        let cpu = state.acting.cpu();
        self.busy.add(cpu);
        let code = state.hardware.cpus[cpu].tlbs.code;
        let walk = InFlight { va, code, misses: u64::from(l2_missed), leaf: walked.leaf, asid, access };
        self.enter(&state.hardware.cpus[cpu], cpu, end, walk, walked);
    }

    #[inline(always)]
    fn enter(&mut self, record: &Cpu, cpu: usize, end: u64, walk: InFlight, walked: &Walked) {
        let whole = record.tlbs.looks_at_neighbours().then_some(walked);
        self.warps[cpu].in_flight.start(end, walk, whole);
    }

    /// The walk in flight that brings what a lookup on the acting core did not find, if there is one.
    #[inline(always)]
    pub(super) fn find(&mut self, state: &State, va: VirtAddr, access: Access, l2_missed: bool) -> Option<Joined> {
        let cpu = state.acting.cpu();
        let (asid, misses) = (state.asid(cpu), u64::from(l2_missed));
        if let Some((end, walk)) = self.warps[cpu].in_flight.find(asid, va, access) {
            walk.misses += misses;
            return Some(Joined { end, leaf: walk.leaf });
        }
        if self.shared.is_some() { self.join_other(state, asid, va, access, misses) } else { None }
    }

    /// The lookup joins a walk that another core started.
    #[inline(never)]
    fn join_other(&mut self, state: &State, asid: Asid, va: VirtAddr, access: Access, misses: u64) -> Option<Joined> {
        let cpu = state.acting.cpu();
        let record = &state.hardware.cpus[cpu];
        let shared = self.shared.as_mut()?;
        let page = page_of(asid, va);
        let Shared { end, walked } = *shared.get(&page).filter(|walk| serves(&walk.walked.leaf, access))?;
        if end <= record.now() {
            // It has ended, and the core that started it has not acted since: this one takes what it brought.
            shared.remove(&page);
        }
        self.busy.add(cpu);
        let leaf = walked.leaf;
        self.enter(record, cpu, end, InFlight { va, code: record.tlbs.code, misses, leaf, asid, access }, &walked);
        Some(Joined { end, leaf })
    }

    /// Fills the TLBs of the acting core with the results of all its walks that have ended by `now`.
    #[cold]
    pub(super) fn complete<O: Observe>(&mut self, state: &mut State, now: u64, obs: &mut O) {
        let cpu = state.acting.cpu();
        let tlbs = &mut state.hardware.cpus[cpu].tlbs;
        let in_flight = &mut self.warps[cpu].in_flight;
        let running = tlbs.code;
        while let Some(Ended { end, walk, place }) = in_flight.take_ended(now) {
            let InFlight { asid, va, access, leaf, code, misses } = walk;
            if let Some(shared) = &mut self.shared {
                let page = page_of(asid, va);
                if shared.get(&page).is_some_and(|walk| walk.end == end) {
                    shared.remove(&page);
                }
            }
            tlbs.code = code;
            let whole = in_flight.whole(place);
            tlbs.fill_late(asid, va, access, (&leaf, whole), misses, obs);
        }
        tlbs.code = running;
        if in_flight.is_empty() {
            self.busy.remove(cpu);
        }
    }

    /// Completes the walks of all cores.
    pub(super) fn complete_everywhere<O: Observe>(&mut self, state: &mut State, obs: &mut O) {
        let acting = state.acting.actor;
        let mut next = 0;
        while let Some(cpu) = self.busy.next(next) {
            next = cpu + 1;
            state.act(mmulab_kernel::Actor { cpu: cpu as u16, ..acting });
            self.complete(state, u64::MAX, obs);
        }
        state.act(acting);
    }

    /// The walks of these cores bring nothing.
    #[cold]
    pub(super) fn cancel_all(&mut self, cpus: &mut [Cpu], which: Range<usize>) {
        if let Some(shared) = &mut self.shared {
            shared.clear();
        }
        let mut next = which.start;
        while let Some(cpu) = self.busy.next(next).filter(|cpu| which.contains(cpu)) {
            self.busy.remove(cpu);
            let misses = self.warps[cpu].in_flight.forget();
            cpus[cpu].tlbs.brought_nothing(Side::Data, misses);
            next = cpu + 1;
        }
    }
}
