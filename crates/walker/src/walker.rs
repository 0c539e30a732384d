//! Page walks: reads of page-table entries down to the leaf PTE, their latency, and writes of accessed and dirty
//! bits. Each walk ends with a translation for the TLBs or with a page fault. Walks of hashed tables are in `search`.
//!
//! ```text
//! walk caches -- hit --> entry below the cached one --.
//!      '------- miss --> entry in the root table -----+--> read, next level, ... --> leaf PTE: mapped
//!                                                           '-----------------------> page fault
//! ```

use crate::{
    Caches, LevelCounts, Pace, Served, Server, SideWalks, StepRecord, WalkCounts, WalkerDesc, WalkerError,
    below::{Below, Flat},
    walk_cache::{Placed, Upper, WalkCache},
};
use mmulab_addr::{Access, Asid, PhysAddr, Side, VirtAddr};
use mmulab_frames::PhysMem;
use mmulab_pagetable::{Format, Invalidate, Leaf, Next, Root, Search, Step, Walked};

/// Levels a table can have.
const MAX_LEVELS: usize = 6;
/// Most entries on a walk's way: one of each level, and a walk-cache hit.
const MAX_STEPS: usize = MAX_LEVELS + 1;
/// Most walk caches of a core.
const MAX_WALK_CACHES: usize = 8;

/// The table a core walks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkContext {
    /// How it is read.
    pub format: Format,
    /// Where it begins.
    pub root: Root,
    /// The ASID of the address space.
    pub asid: Asid,
}

impl WalkContext {
    /// The leaf that the table has for `va`, without caches and without a trace in the table: for checks and reports.
    pub fn leaf(&self, mem: &PhysMem, va: VirtAddr) -> Option<Leaf> {
        self.format.find(mem, self.root, va).map(|found| found.leaf)
    }
}

/// How a walk ended. Cycles are those of the walk alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Walk {
    /// The page is mapped and may be used so; its accessed bit is set in memory, for stores its dirty bit.
    Mapped {
        /// What the TLBs are given.
        walked: Walked,
        /// How long it took.
        cycles: u32,
    },
    /// A page fault.
    Fault {
        /// The level whose entry ended it.
        level: u8,
        /// Something is mapped, but not for this access.
        denied: bool,
        /// How long it took.
        cycles: u32,
    },
}

/// Where the last leaves of each 2 MiB were found, for software prefetches of mmulab itself. No result depends on them.
struct PrefetchHints {
    /// By the low bits of the 2 MiB's number: tag and address, and the table's first byte.
    tables: Vec<(u64, PhysAddr)>,
}

impl PrefetchHints {
    /// 2 MiB regions remembered: 8 GiB.
    const REGIONS: usize = 4096;

    fn new() -> Self {
        Self { tables: vec![(u64::MAX, PhysAddr(0)); Self::REGIONS] }
    }

    #[inline(always)]
    fn key(asid: Asid, va: VirtAddr) -> (usize, u64) {
        let region = va.vpn().0 >> 9;
        (region as usize % Self::REGIONS, (region << 16) | u64::from(asid.0))
    }
}

/// The page walker of one core.
pub struct Walker {
    /// By place in the description; absent where the description gives no entries.
    pub(crate) walk_caches: Vec<Option<WalkCache>>,
    pub(crate) core: usize,
    /// The entries of the last walk, and how many of them were read rather than had from a walk cache.
    steps: [StepRecord; MAX_STEPS],
    taken: usize,
    pub(crate) reads: usize,
    /// Lines read by the last walk of a hashed table. A `Vec`, because their number has no fixed maximum.
    pub(crate) searched: Vec<StepRecord>,
    /// What computing hashes takes for each group of reads.
    pub(crate) hash_cycles: u32,
    /// What a walk takes besides its reads.
    overhead_cycles: u32,
    /// Cycles of each read besides the latency of the cache that has the entry.
    pub(crate) read_cycles: u32,
    /// By level: the walk caches that hold its entries, a bit each.
    pub(crate) holders: [u8; MAX_LEVELS + 1],
    sides: [SideWalks; 2],
    pub(crate) levels: [Level; MAX_LEVELS],
    prefetch_hints: PrefetchHints,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Level {
    pub(crate) from_walk_cache: u64,
    pub(crate) served_by: [u64; Caches::MAX_LEVELS + 1],
}

impl Walker {
    /// Builds the walker of core number `core`.
    ///
    /// # Errors
    /// A geometry that cannot be.
    pub fn new(desc: &WalkerDesc, core: usize) -> Result<Self, WalkerError> {
        if !(1..=64).contains(&desc.count) {
            let what = format!("count is {}: give 1 to 64", desc.count);
            return Err(WalkerError { place: "walker".into(), what });
        }
        if desc.cache.len() > MAX_WALK_CACHES {
            let what = format!("{} walk caches: give at most {MAX_WALK_CACHES}", desc.cache.len());
            return Err(WalkerError { place: "walker.cache".into(), what });
        }
        let caches = desc.cache.iter().zip(1..).map(|(d, seed)| WalkCache::new(d, seed));
        let walk_caches: Vec<Option<WalkCache>> = caches.collect::<Result<_, _>>()?;
        let holds = |level| {
            let bit = |(at, cache): (usize, &Option<WalkCache>)| {
                u8::from(cache.as_ref().is_some_and(|c| c.holds(level as u8))) << at
            };
            walk_caches.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit)
        };
        let nothing = StepRecord { level: 0, pa: PhysAddr(0), server: Server::Cache(0), cycles: 0, pace: Pace::Next };
        Ok(Self {
            holders: std::array::from_fn(holds),
            walk_caches,
            core,
            steps: [nothing; MAX_STEPS],
            taken: 0,
            reads: 0,
            searched: Vec::new(),
            hash_cycles: desc.hash_cycles,
            overhead_cycles: desc.overhead_cycles,
            read_cycles: desc.read_cycles,
            sides: Default::default(),
            levels: Default::default(),
            prefetch_hints: PrefetchHints::new(),
        })
    }

    /// The same, in a virtual machine: walk caches keep too where the host has the tables that entries lead to.
    pub(crate) fn in_guest(mut self) -> Self {
        self.walk_caches.iter_mut().flatten().for_each(WalkCache::keep_places);
        self
    }

    /// Walks the table for `access` to `va`.
    #[inline]
    pub fn walk(
        &mut self,
        mem: &mut PhysMem,
        caches: &mut Caches,
        cx: WalkContext,
        va: VirtAddr,
        access: Access,
    ) -> Walk {
        match self.walk_over(mem, caches, cx, va, access, &mut Flat) {
            Ok(walk) => walk,
            Err(never) => match never {},
        }
    }

    /// Walks the table where each entry's address may have to be translated in turn; an error when that failed, and the
    /// walk with it.
    #[inline]
    pub(crate) fn walk_over<B: Below>(
        &mut self,
        mem: &mut PhysMem,
        caches: &mut Caches,
        cx: WalkContext,
        va: VirtAddr,
        access: Access,
        below: &mut B,
    ) -> Result<Walk, B::Refusal> {
        (self.taken, self.reads) = (0, 0);
        self.searched.clear();
        let mut cycles = self.overhead_cycles;
        let walk = match cx.format.hashing() {
            Some(hashing) => {
                let search = Search::new(hashing, cx.root, va);
                self.search(mem, caches, cx, (search, va, access), &mut cycles, below)
            }
            None => self.descend(mem, caches, cx, (va, access), &mut cycles, below),
        };
        let reads = self.reads;
        let side = &mut self.sides[access.side() as usize];
        side.walks += 1;
        side.cycles += u64::from(cycles);
        side.accesses += reads as u64;
        match walk {
            Ok(Walk::Mapped { .. }) => side.completed += 1,
            Ok(Walk::Fault { .. }) | Err(_) => side.faulted += 1,
        }
        walk
    }

    #[inline(always)]
    fn descend<B: Below>(
        &mut self,
        mem: &mut PhysMem,
        caches: &mut Caches,
        cx: WalkContext,
        (va, access): (VirtAddr, Access),
        cycles: &mut u32,
        below: &mut B,
    ) -> Result<Walk, B::Refusal> {
        let (mut step, known) = self.begin(cx, va, cycles, below);
        let mut at = match known {
            Some(at) => at,
            None => below.place(caches, step.entry, cycles)?.0,
        };
        let walk = loop {
            *cycles += self.read(caches, step, at, below);
            let bits = mem.read(step.entry);
            match cx.format.next(bits, step, va) {
                Next::NotPresent => break Walk::Fault { level: step.level, denied: false, cycles: *cycles },
                Next::Table(next) => {
                    mark(mem, step, bits, cx.format.accessed(bits, false));
                    let (found, order) = below.place(caches, next.entry, cycles)?;
                    at = found;
                    if let Some((kept, level)) = cx.format.kept(bits, step.level) {
                        // It is kept with those that lead to the same level: that is where it saves as much. Of most
                        // tables that is its own.
                        let mut holders = self.holders[usize::from(next.level) + 1];
                        if holders == 0 {
                            holders = self.holders[usize::from(level)];
                        }
                        while holders != 0 {
                            if let Some(cache) = &mut self.walk_caches[holders.trailing_zeros() as usize] {
                                let placed = B::NESTED.then(|| Placed::new(next.entry, at, order));
                                let upper = Upper { bits: kept, rights: step.rights };
                                cache.insert(cx.format, level, cx.asid, va, upper, placed);
                            }
                            holders &= holders - 1;
                        }
                    }
                    step = next;
                }
                Next::Leaf(leaf) if !leaf.allows(access) => {
                    break Walk::Fault { level: step.level, denied: true, cycles: *cycles };
                }
                Next::Leaf(mut leaf) => {
                    let marked = match access {
                        Access::Write => cx.format.dirtied(bits),
                        Access::Fetch | Access::Read => cx.format.accessed(bits, true),
                    };
                    mark(mem, step, bits, marked);
                    if step.level == 1 {
                        let (at, key) = PrefetchHints::key(cx.asid, va);
                        self.prefetch_hints.tables[at] = (key, step.entry.pfn().addr());
                    }
                    leaf.accessed = true;
                    leaf.dirty |= access == Access::Write;
                    let (line, slot) = (*mem.line(step.entry), (step.entry.0 >> 3) as u8 & 7);
                    let walked = Walked { leaf, line, slot, level: step.level, format: cx.format };
                    let walked = below.complete(caches, walked, va, access, cycles)?;
                    break Walk::Mapped { walked, cycles: *cycles };
                }
            }
        };
        Ok(walk)
    }

    /// A memory reference to `va` may soon need a walk: prefetches what the walk will read, on the computer that mmulab
    /// runs on.
    #[inline]
    pub fn prefetch_hint(&self, mem: &PhysMem, caches: &Caches, asid: Asid, va: VirtAddr) {
        if let Some(entry) = self.predicted_entry(asid, va) {
            mem.prefetch(entry);
            caches.prefetch(self.core, entry);
        }
    }

    /// The same for a guest's table. The simulated caches hold its entries under host-physical addresses, so only
    /// memory is prefetched.
    #[inline]
    pub fn prefetch_entry_hint(&self, mem: &PhysMem, asid: Asid, va: VirtAddr) {
        if let Some(entry) = self.predicted_entry(asid, va) {
            mem.prefetch(entry);
        }
    }

    /// The leaf PTE that a walk for `va` will probably read, if an earlier walk found one of the same 2 MiB.
    #[inline]
    pub(crate) fn predicted_entry(&self, asid: Asid, va: VirtAddr) -> Option<PhysAddr> {
        let (at, key) = PrefetchHints::key(asid, va);
        let (known, table) = self.prefetch_hints.tables[at];
        (known == key).then(|| PhysAddr(table.0 + (va.vpn().0 & 511) * 8))
    }

    /// The first entry to read: below the lowest one that a walk cache has, or the root's; and where it lies, if the
    /// walk cache knows.
    #[inline]
    fn begin<B: Below>(
        &mut self,
        cx: WalkContext,
        va: VirtAddr,
        cycles: &mut u32,
        below: &mut B,
    ) -> (Step, Option<PhysAddr>) {
        let skipped = cx.format.skips_levels();
        for level in 2..=cx.format.levels() {
            let mut holders = self.holders[usize::from(level)];
            for below in 1..=skipped {
                // Entries that pass over levels are kept with those of the level they lead to.
                holders |= self.holders[usize::from(level.saturating_sub(below))];
            }
            while holders != 0 {
                let index = holders.trailing_zeros() as usize;
                holders &= holders - 1;
                let Some(cache) = &mut self.walk_caches[index] else { continue };
                let Some((upper, at)) = cache.lookup(cx.format, level, cx.asid, va) else { continue };
                let held = Step { level, covers: cx.format.covers(level), entry: PhysAddr(0), rights: upper.rights };
                if let Next::Table(next) = cx.format.next(upper.bits, held, va) {
                    *cycles += cache.hit_cycles;
                    self.levels[usize::from(level) - 1].from_walk_cache += 1;
                    let known = if B::NESTED { cache.place(at, next.entry) } else { None };
                    let server = Server::WalkCache(index as u8);
                    let pa = known.unwrap_or(next.entry);
                    self.steps[0] = StepRecord { level, pa, server, cycles: cache.hit_cycles, pace: Pace::Next };
                    self.taken = 1;
                    below.note(&self.steps[0]);
                    return (next, known);
                }
            }
        }
        (cx.format.start(cx.root, va), None)
    }

    #[inline]
    fn read<B: Below>(&mut self, caches: &mut Caches, step: Step, at: PhysAddr, below: &mut B) -> u32 {
        let Served { by, cycles } = caches.read_table(self.core, at);
        self.levels[usize::from(step.level) - 1].served_by[usize::from(by)] += 1;
        let record = StepRecord { level: step.level, pa: at, server: Server::Cache(by), cycles, pace: Pace::Next };
        below.note(&record);
        // A table has fewer levels than there is room for.
        if let Some(room) = self.steps.get_mut(self.taken) {
            *room = record;
            self.taken += 1;
        }
        self.reads += 1;
        cycles + self.read_cycles
    }

    /// The number of its core.
    pub(crate) fn core(&self) -> usize {
        self.core
    }

    /// What the walk caches are called, by place in the description; empty for those without entries.
    pub fn names(&self) -> Vec<String> {
        self.walk_caches.iter().map(|c| c.as_ref().map(|c| c.name.clone()).unwrap_or_default()).collect()
    }

    /// Entries the last walk read, walk-cache hits left out.
    #[inline]
    pub fn reads(&self) -> usize {
        self.reads
    }

    /// The entries of the last walk, in order.
    pub fn steps(&self) -> &[StepRecord] {
        if self.searched.is_empty() { &self.steps[..self.taken] } else { &self.searched }
    }

    /// A program of which nothing else is known takes places of walk cache `index`: its entries go of which `lose` says
    /// so.
    pub fn displace(&mut self, index: usize, lose: impl FnMut() -> bool) {
        if let Some(cache) = self.walk_caches.get_mut(index).and_then(Option::as_mut) {
            cache.displace(lose);
        }
    }

    /// Forgets what the walk caches must not use any more. Invalidating a page drops every entry on its path, as INVLPG
    /// does (Intel SDM vol. 3A, section 4.10.4.1).
    pub fn invalidate(&mut self, format: Format, what: &Invalidate) {
        self.walk_caches.iter_mut().flatten().for_each(|cache| cache.invalidate(format, what));
    }

    /// The counts so far; `servers` is how many caches there are, memory included, `levels` how many levels the table
    /// has.
    pub fn counts(&self, servers: usize, levels: u8) -> WalkCounts {
        let level = |(at, l): (usize, &Level)| LevelCounts {
            level: at as u8 + 1,
            from_walk_cache: l.from_walk_cache,
            reads: l.served_by.iter().sum(),
            served_by: l.served_by[..servers].to_vec(),
        };
        WalkCounts {
            instruction: self.sides[Side::Instruction as usize],
            data: self.sides[Side::Data as usize],
            levels: self.levels[..usize::from(levels)].iter().enumerate().map(level).collect(),
        }
    }
}

/// Writes an entry back if a walk changed it.
#[inline(always)]
fn mark(mem: &mut PhysMem, step: Step, bits: u64, marked: u64) {
    if marked != bits {
        mem.write(step.entry, marked);
    }
}
