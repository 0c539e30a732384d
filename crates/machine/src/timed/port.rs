//! What serves a core in time: translation by the machine's TLBs, walkers and kernel, then the caches and memory.

use super::{
    cpu::{Memory as SharedMemory, Prefetch},
    timeline::{InTime, Timeline},
};
use crate::{
    count::Cost,
    ended::Ended,
    engine::{Below, Engine},
    observe::Observe,
};
use mmulab_addr::{BASE_BYTES, LINE_BYTES, PhysAddr, VirtAddr};
use mmulab_timing::{Access, Arrival, Fetch, Memory, Prefetched};
use mmulab_tlb::Outcome;
use mmulab_trace::{Batch, Item, Ref};
use mmulab_walker::{Caches, Served};

/// The words of a batch, served one after the other.
pub(super) struct Port<'a, B, O> {
    engine: &'a mut Engine<B, InTime>,
    batch: &'a Batch,
    at: usize,
    prefetch: &'a mut Prefetch,
    memory: &'a mut SharedMemory,
    obs: &'a mut O,
    cpu: usize,
    core: usize,
    /// For how many cycles a cycle of waiting stands: 0 where it is not measured.
    pub(super) weight: u64,
    /// Loads made since the last fetch: the number of a load in its block.
    loads: u64,
}

/// An access: its translation, and its line.
type Timed = (Timeline, Arrival);

impl<'a, B: Below, O: Observe> Port<'a, B, O> {
    pub(super) fn new(
        engine: &'a mut Engine<B, InTime>,
        batch: &'a Batch,
        at: usize,
        prefetch: &'a mut Prefetch,
        memory: &'a mut SharedMemory,
        obs: &'a mut O,
    ) -> Self {
        let (cpu, core) = (engine.state.acting.cpu(), engine.state.acting.core());
        Self { engine, batch, at, prefetch, memory, obs, cpu, core, weight: 1, loads: 0 }
    }

    /// Where the words that were not served begin.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Serves the words up to the next block or control word, at one time and without a core. TLBs, page tables and
    /// caches stay in use.
    pub(super) fn pass(&mut self, now: u64) -> Result<(), Ended> {
        let from = self.at;
        while let Some(&word) = self.batch.refs.get(self.at) {
            let Item::Access(access, va, count) = word.item() else { break };
            if count > 0 && self.at > from {
                break;
            }
            self.at += 1;
            let core = &mut self.engine.state.hardware.cpus[self.cpu];
            core.instructions += u64::from(count);
            let is_fetch = access == mmulab_addr::Access::Fetch;
            if is_fetch {
                core.tlbs.code = va;
            }
            self.engine.state.account.counts.writes += u64::from(access == mmulab_addr::Access::Write);
            let pa = self.translate(va, access, now)?.pa;
            self.engine.state.hardware.cpus[self.cpu].tlbs.begin(u64::from(count));
            if let Some(pa) = pa {
                if is_fetch {
                    self.engine.state.hardware.caches.fetch(self.core, pa);
                } else {
                    self.bring(pa);
                }
            }
        }
        Ok(())
    }

    /// Brings a line of data near, and those that a prefetcher brings with it.
    #[inline(always)]
    fn bring(&mut self, pa: PhysAddr) {
        let caches = &mut self.engine.state.hardware.caches;
        let served = caches.read(self.core, pa);
        if caches.depth(served.by) > 0
            && let Some((from, to)) = self.prefetch.streams.see(pa.0 / LINE_BYTES)
        {
            for line in from..=to {
                caches.prefetch_line(self.core, PhysAddr(line * LINE_BYTES));
            }
        }
    }

    /// The translation of `va`, wanted at `at`.
    #[inline(always)]
    fn translate(&mut self, va: VirtAddr, access: mmulab_addr::Access, at: u64) -> Result<Timeline, Ended> {
        let state = &mut self.engine.state;
        state.account.references += 1;
        let asid = state.asid(self.cpu);
        state.hardware.caches.set_time(at);
        let time = Timeline { at, second_level_until: at, ..Timeline::default() };
        match state.hardware.cpus[self.cpu].tlbs.access(asid, va, access, self.obs) {
            Outcome::L1 { entry } if !O::ACTIVE => Ok(Timeline { pa: Some(entry.translate(va)), ..time }),
            outcome => {
                if access == mmulab_addr::Access::Fetch {
                    self.engine.state.fetch_missed(self.batch, self.at - 1);
                }
                self.engine.slow_path(va, access, outcome, time, self.obs)
            }
        }
    }

    /// An access at `at`: its translation, when its line is there, and from how far.
    #[inline(always)]
    fn first(&mut self, va: VirtAddr, access: mmulab_addr::Access, at: u64) -> Result<Timed, Ended> {
        let time = self.translate(va, access, at)?;
        let arrival = time.pa.map_or(Arrival { at: time.at, by: 0 }, |pa| self.data(time.at, pa));
        Ok((time, arrival))
    }

    /// The same of a load, which a prefetcher may have begun before.
    #[inline(always)]
    fn load(&mut self, va: VirtAddr, at: u64) -> Result<Timed, Ended> {
        let load = self.next_load();
        let ahead = self.prefetch.strides.see(load, va.raw() / LINE_BYTES, at);
        let Some(Prefetched { at: began, is_stream }) = ahead else {
            let (time, arrival) = self.first(va, mmulab_addr::Access::Read, at)?;
            if arrival.by > 0
                && let Some(pa) = time.pa
            {
                self.bring_region(load, time.at, pa);
            }
            return Ok((time, arrival));
        };
        let mut time = self.translate(va, mmulab_addr::Access::Read, began)?;
        if time.traps > 0 {
            // A prefetch that needs the kernel is given up, and the load's own walk begins. What the prefetch waited
            // for, such as for a walker, is no part of that.
            time.second_level_until += at - began;
            time.at = time.at.max(time.second_level_until + time.walking);
            let arrival = time.pa.map_or(Arrival { at: time.at, by: 0 }, |pa| self.data(time.at, pa));
            return Ok((time, arrival));
        }
        let arrival = time.pa.map_or(Arrival { at: time.at, by: 0 }, |pa| self.fetched(time.at, pa, is_stream));
        // Prefetches fill no first-level TLB: what the second level takes is not saved.
        time.second_level_until = at + (time.second_level_until - began);
        time.at = time.at.max(time.second_level_until);
        let soonest = time.at + if time.pa.is_some() { u64::from(self.memory.first_cache.data_cycles) } else { 0 };
        Ok((time, if arrival.at > soonest { arrival } else { Arrival { at: soonest, by: 0 } }))
    }

    /// Which load instruction makes the next load.
    #[inline(always)]
    fn next_load(&mut self) -> u64 {
        // Blocks are further apart than this.
        let load = (self.engine.state.hardware.cpus[self.cpu].tlbs.code.raw() << 4).wrapping_add(self.loads);
        self.loads += 1;
        load
    }

    /// Brings the lines near `pa` that a prefetcher by region knows to be used after a `load` that missed there.
    fn bring_region(&mut self, load: u64, at: u64, pa: PhysAddr) {
        for line in self.prefetch.regions.see(load, pa.0 / LINE_BYTES) {
            self.prefetch_line(at, line);
        }
    }

    /// A line that a prefetcher by instruction asked for at `at`: when it is there, and from how far.
    #[inline(always)]
    fn fetched(&mut self, at: u64, pa: PhysAddr, is_stream: bool) -> Arrival {
        let served = self.engine.state.hardware.caches.read(self.core, pa);
        let depth = self.engine.state.hardware.caches.depth(served.by);
        if depth == 0 || !is_stream {
            return self.line(at, pa, served);
        }
        // Streams wait in queues of caches further away, not in the core's fill buffers.
        let begin = if depth == Caches::MEMORY_DEPTH { self.memory.bandwidth.take(at) } else { at };
        let there = begin + u64::from(served.cycles);
        self.prefetch.lines.note(pa.0 / LINE_BYTES, there, depth);
        Arrival { at: there, by: depth }
    }

    /// When a line is there that is wanted at `at` and which a cache or memory has, and how far away that is.
    #[inline(always)]
    fn line(&mut self, at: u64, pa: PhysAddr, served: Served) -> Arrival {
        let depth = self.engine.state.hardware.caches.depth(served.by);
        let line = pa.0 / LINE_BYTES;
        if depth == 0 {
            let there = at + u64::from(served.cycles);
            return match self.prefetch.lines.coming(at, line) {
                Some(coming) if coming.at > there => coming,
                _ => Arrival { at: there, by: 0 },
            };
        }
        // A line that was prefetched into the second level may still be on its way there.
        let coming = self.prefetch.lines.coming(at, line);
        let begin = if depth == Caches::MEMORY_DEPTH { self.memory.bandwidth.take(at) } else { at };
        let there = self.prefetch.lines.miss(begin, u64::from(served.cycles), line, depth);
        match coming {
            Some(coming) if coming.at > there => {
                self.prefetch.lines.note(line, coming.at, coming.by);
                coming
            }
            _ => Arrival { at: there, by: depth },
        }
    }

    /// The data of an access: when they are there, and from how far.
    #[inline(always)]
    fn data(&mut self, at: u64, pa: PhysAddr) -> Arrival {
        let served = self.engine.state.hardware.caches.read(self.core, pa);
        let answer = self.line(at, pa, served);
        if self.engine.state.hardware.caches.depth(served.by) > 0
            && let Some((from, to)) = self.prefetch.streams.see(pa.0 / LINE_BYTES)
        {
            for line in from..=to {
                self.prefetch_line(at, line);
            }
        }
        answer
    }

    /// Brings a line into the second level.
    #[inline(never)]
    fn prefetch_line(&mut self, at: u64, line: u64) {
        let served = self.engine.state.hardware.caches.prefetch_line(self.core, PhysAddr(line * LINE_BYTES));
        let depth = self.engine.state.hardware.caches.depth(served.by);
        if depth > 1 {
            let begin = if depth == Caches::MEMORY_DEPTH { self.memory.bandwidth.take(at) } else { at };
            self.prefetch.lines.note(line, begin + u64::from(served.cycles), depth);
        }
    }

    /// The next word, if it is an access of this kind. It is not if an access was left out of the trace on its way
    /// here.
    #[inline(always)]
    fn word(&mut self, store: bool) -> Option<Ref> {
        let word = *self.batch.refs.get(self.at)?;
        if word.is_control() || word.is_fetch() || word.is_write() != store {
            return None;
        }
        self.at += 1;
        Some(word)
    }
}

impl<B: Below, O: Observe> Memory for Port<'_, B, O> {
    type Error = Ended;

    // Inlined into the core, which calls this and `access` in one place each: what they find stays in registers.
    #[inline(always)]
    fn fetch(&mut self, at: u64, instructions: u64) -> Result<Fetch, Ended> {
        let mut retired = 0;
        let mut fetch = Fetch { second_level_until: at, translated: at, there: at };
        let mut first = true;
        self.loads = 0;
        while let Some(&word) = self.batch.refs.get(self.at) {
            match word.item() {
                Item::Access(mmulab_addr::Access::Fetch, va, count) if first || count == 0 => {
                    self.at += 1;
                    let core = &mut self.engine.state.hardware.cpus[self.cpu];
                    core.instructions += u64::from(count);
                    retired += u64::from(count);
                    core.tlbs.code = va;
                    let time = self.translate(va, mmulab_addr::Access::Fetch, fetch.translated)?;
                    self.engine.state.hardware.cpus[self.cpu].tlbs.begin(u64::from(count));
                    fetch.second_level_until = fetch.second_level_until.max(time.second_level_until);
                    fetch.translated = fetch.translated.max(time.at);
                    fetch.there = fetch.there.max(fetch.translated);
                    if let Some(pa) = time.pa {
                        let served = self.engine.state.hardware.caches.fetch(self.core, pa);
                        let there = self.line(fetch.translated, pa, served).at;
                        // What a hit takes is hidden by fetching ahead.
                        fetch.there =
                            fetch.there.max(there.saturating_sub(u64::from(self.memory.first_cache.fetch_cycles)));
                    }
                }
                // The rest of a block that is longer than a word can say.
                Item::Retire(count) if !first && retired + count <= instructions => {
                    retired += count;
                    self.at += 1;
                    self.engine.state.hardware.cpus[self.cpu].begin(count);
                }
                _ => break,
            }
            first = false;
        }
        Ok(fetch)
    }

    #[inline(always)]
    fn access(&mut self, at: u64, store: bool, bytes: u64) -> Result<Access, Ended> {
        let mut done = Access { second_level_until: at, translated: at, there: at, ..Access::default() };
        let Some(word) = self.word(store) else { return Ok(done) };
        let kind = if store { mmulab_addr::Access::Write } else { mmulab_addr::Access::Read };
        let va = word.va();
        done.va = va.raw();
        self.engine.state.account.counts.writes += u64::from(store);
        let (time, arrival) = if store { self.first(va, kind, at)? } else { self.load(va, at)? };
        (done.second_level_until, done.translated) = (time.second_level_until, time.at);
        (done.walk_by, done.traps) = (time.walk_by, time.traps);
        (done.there, done.by) = (arrival.at, arrival.by);
        if let Some(pa) = time.pa {
            // The part of it in the next line of the same page.
            let within = va.raw() % LINE_BYTES;
            if within + bytes > LINE_BYTES && va.raw() % BASE_BYTES + bytes <= BASE_BYTES {
                let next = PhysAddr(pa.0 + LINE_BYTES - within);
                done.there = done.there.max(self.data(time.at, next).at);
            }
        }
        // The part of it in the next page.
        if va.raw() % BASE_BYTES + bytes > BASE_BYTES
            && let Some(next) = self.word(store)
        {
            self.engine.state.account.counts.writes += u64::from(store);
            let time = self.translate(next.va(), kind, at)?;
            done.second_level_until = done.second_level_until.max(time.second_level_until);
            done.translated = done.translated.max(time.at);
            done.traps += time.traps;
            done.there = done.there.max(done.translated);
            if let Some(pa) = time.pa {
                done.there = done.there.max(self.data(time.at, pa).at);
            }
        }
        Ok(done)
    }

    #[inline]
    fn waited(&mut self, va: u64, cycles: u64) {
        let (pid, stall_cycles) = (self.engine.state.acting.actor.pid, cycles * self.weight);
        if stall_cycles > 0 {
            self.engine.state.charge(pid, VirtAddr::new(va), Cost { stall_cycles, ..Cost::default() });
        }
    }
}
