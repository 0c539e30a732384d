//! Walks of tables found by hashing: groups of reads, each made at once.

use crate::{Caches, Pace, Served, Server, StepRecord, Walk, WalkContext, Walker, below::Below};
use mmulab_addr::{Access, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_pagetable::{Search, Walked};

/// A search that has not begun, and what it is for.
type Wanted = (Search, VirtAddr, Access);

impl Walker {
    /// Searches for the page of `va`. The walk waits for the slowest read of each group, and not at all for cuckoo walk
    /// tables, which are read for the next walk. In a guest, each read's address is translated by itself, at once with
    /// the others.
    #[inline(never)]
    pub(crate) fn search<B: Below>(
        &mut self,
        mem: &mut PhysMem,
        caches: &mut Caches,
        cx: WalkContext,
        (mut search, va, access): Wanted,
        cycles: &mut u32,
        below: &mut B,
    ) -> Result<Walk, B::Refusal> {
        *cycles += self.ask_walk_tables(&mut search, cx, va, below);
        loop {
            let group = search.next(mem);
            if group.is_empty() {
                // Nothing maps it in any table; the smallest pages' is named.
                return Ok(Walk::Fault { level: 1, denied: false, cycles: *cycles });
            }
            *cycles += self.hash_cycles;
            let begun = *cycles;
            let mut pace = Pace::Next;
            for read in group.iter() {
                let mut ends = begun;
                let at = match below.place(caches, read.line, &mut ends) {
                    Ok((at, _)) => at,
                    Err(refusal) => {
                        *cycles = ends.max(*cycles);
                        return Err(refusal);
                    }
                };
                let Served { by, cycles: took } = caches.read_table(self.core, at);
                ends += took + self.read_cycles;
                self.levels[usize::from(read.level) - 1].served_by[usize::from(by)] += 1;
                let (level, server) = (read.level, Server::Cache(by));
                let when = if read.awaited { pace } else { Pace::Behind };
                self.record(StepRecord { level, pa: at, server, cycles: took, pace: when }, below);
                self.reads += 1;
                pace = Pace::Together;
                if read.awaited {
                    *cycles = ends.max(*cycles);
                }
            }
            for learned in search.learned(mem) {
                let mut holders = self.holders[usize::from(learned.level)];
                while holders != 0 {
                    if let Some(cache) = &mut self.walk_caches[holders.trailing_zeros() as usize] {
                        cache.keep_walk_table(cx.format, cx.asid, va, &learned);
                    }
                    holders &= holders - 1;
                }
            }
            let Some(found) = search.judge(mem) else { continue };
            if !found.leaf.allows(access) {
                return Ok(Walk::Fault { level: found.level, denied: true, cycles: *cycles });
            }
            let is_store = access == Access::Write;
            let marked = if is_store { cx.format.dirtied(found.bits) } else { cx.format.accessed(found.bits, true) };
            if marked != found.bits {
                mem.write(found.entry, marked);
            }
            let mut leaf = found.leaf;
            leaf.accessed = true;
            leaf.dirty |= is_store;
            let (line, slot) = (*mem.line(found.entry), (found.entry.0 >> 3) as u8 & 7);
            let walked = Walked { leaf, line, slot, level: found.level, format: cx.format };
            let walked = below.complete(caches, walked, va, access, cycles)?;
            return Ok(Walk::Mapped { walked, cycles: *cycles });
        }
    }

    /// Asks the caches of cuckoo walk tables, all at once; how long that takes.
    fn ask_walk_tables<B: Below>(&mut self, search: &mut Search, cx: WalkContext, va: VirtAddr, below: &mut B) -> u32 {
        let (mut slowest, mut pace) = (0, Pace::Next);
        for level in search.walk_tables() {
            let mut holders = self.holders[usize::from(level)];
            let mut known = holders == 0;
            while holders != 0 {
                let index = holders.trailing_zeros() as usize;
                holders &= holders - 1;
                let Some(cache) = &mut self.walk_caches[index] else { continue };
                slowest = slowest.max(cache.hit_cycles);
                let cycles = cache.hit_cycles;
                let Some((line, pa)) = cache.walk_table(cx.format, level, cx.asid, va).filter(|_| !known) else {
                    continue;
                };
                known = true;
                search.use_walk_table(level, &line);
                self.levels[usize::from(level) - 1].from_walk_cache += 1;
                self.record(StepRecord { level, pa, server: Server::WalkCache(index as u8), cycles, pace }, below);
                pace = Pace::Together;
            }
            if !known {
                search.read_walk_table(level);
            }
        }
        slowest
    }

    fn record<B: Below>(&mut self, record: StepRecord, below: &mut B) {
        below.note(&record);
        self.searched.push(record);
    }
}
