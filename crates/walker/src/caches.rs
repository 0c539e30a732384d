//! The caches that walks, code and data are read through: which level has a line, and which line goes for it.

use crate::{CacheDesc, CacheRules, WalkerError, fresh::Fresh, latency::Latency, retention::Retention};
use mmulab_addr::{BASE_BYTES, LINE_BYTES, PhysAddr};
use mmulab_assoc::{EMPTY, Keys, Replacement, SetIndex, Store, Ways, each, geometry};

/// The caches of all cores, and the memory behind them.
pub struct Caches {
    levels: Vec<Level>,
    /// Whether one of them is for code alone.
    has_code: bool,
    /// Whether lines only go for others: no level is a victim cache, and none is shared with neighbours.
    is_plain: bool,
    memory: Latency,
    /// The time of a core in time; 0 where there is none.
    now: u64,
}

struct Level {
    name: String,
    cycles: u32,
    sets: SetIndex,
    ways: usize,
    /// Whether it is for code alone.
    code: bool,
    /// Whether it takes what the level before evicts.
    victim: bool,
    /// How many levels for data are nearer: at most 2, for reports have three and memory.
    depth: u64,
    /// One per core, or one for all.
    copies: Vec<Copy>,
}

/// A line that a level had, and until when.
#[derive(Clone, Copy)]
struct Gone {
    line: u64,
    at: u64,
    /// Whether a walk had brought it.
    is_table: bool,
}

/// What a level says of a line.
struct Looked {
    found: bool,
    /// The line that went: for the one looked for, or that one itself where a neighbour displaced it.
    gone: Option<Gone>,
}

impl Looked {
    const HIT: Self = Self { found: true, gone: None };
}

/// The lines of one cache.
struct Copy {
    lines: Store,
    /// Ways still empty.
    empty: u64,
    /// Of a cache that neighbours share.
    retention: Option<Retention>,
    /// Of a victim cache that tells lines that were used from it from those that were not.
    fresh: Option<Fresh>,
    /// Which slots have lines that a walk brought; kept only where a cache treats such lines in another way.
    tables: Option<Box<[bool]>>,
}

impl Level {
    /// Looks for a line, which is there from now on, but for a victim cache, which is not written. `is_table`: a walk
    /// asks.
    #[inline(always)]
    fn read(&mut self, core: usize, line: u64, now: u64, is_table: bool) -> Looked {
        let (set, mine) = (self.sets.of(line), self.mine(core));
        let copy = &mut self.copies[mine];
        if let Some(way) = copy.find(set, line) {
            let displaced = copy.renew(set * self.ways + way, line, now);
            let Some(at) = displaced else { return Looked::HIT };
            if copy.fresh.is_some() {
                // Memory sends it to the level before now: when it leaves that one, it is fresh again.
                copy.remove(set, way);
            }
            return Looked { found: false, gone: Some(Gone { line, at, is_table }) };
        }
        if self.victim {
            return Looked { found: false, gone: None };
        }
        Looked { found: false, gone: copy.take(set, self.ways, line, now, is_table) }
    }

    /// Whether a line was there; it is from now on. For caches in which nothing else moves lines.
    #[inline(always)]
    fn read_plain(&mut self, core: usize, line: u64) -> bool {
        let (set, mine) = (self.sets.of(line), self.mine(core));
        let copy = &mut self.copies[mine];
        let found = copy.find(set, line).is_some();
        if !found {
            copy.admit(set, line);
        }
        found
    }

    /// Takes in a line that the level before had until some time.
    fn keep(&mut self, core: usize, gone: Gone) {
        let (set, mine) = (self.sets.of(gone.line), self.mine(core));
        let copy = &mut self.copies[mine];
        match copy.find(set, gone.line) {
            Some(way) => copy.place(set * self.ways + way, gone.at),
            None if copy.fresh.as_mut().is_none_or(|fresh| fresh.admits(gone.is_table)) => {
                copy.take(set, self.ways, gone.line, gone.at, gone.is_table);
            }
            None => {}
        }
    }

    /// Which copy a core uses.
    #[inline(always)]
    fn mine(&self, core: usize) -> usize {
        if self.copies.len() == 1 { 0 } else { core }
    }
}

impl Copy {
    /// The way of a line that is there, most recently used from now on.
    #[inline(always)]
    fn find(&mut self, set: usize, line: u64) -> Option<usize> {
        each!(&mut self.lines, lines => {
            let way = lines.find(set, line)?;
            lines.touch(set, way);
            Some(way)
        })
    }

    /// Takes in a line that is not there: its way, and the line that went for it or [`EMPTY`].
    #[inline(always)]
    fn admit(&mut self, set: usize, line: u64) -> (usize, u64) {
        let (way, gone) = each!(&mut self.lines, lines => lines.admit(set, line, self.empty != 0));
        self.empty -= u64::from(gone == EMPTY);
        (way, gone)
    }

    /// Empties a way.
    fn remove(&mut self, set: usize, way: usize) {
        each!(&mut self.lines, lines => lines.remove(set, way));
        self.empty += 1;
    }

    /// Takes in a line that is not there at `now`: the line that went for it, and when it did, or a neighbour had
    /// displaced it.
    #[inline(always)]
    fn take(&mut self, set: usize, ways: usize, line: u64, now: u64, is_table: bool) -> Option<Gone> {
        let (way, gone) = self.admit(set, line);
        let slot = set * ways + way;
        let at = self.displaced(slot, gone, now).unwrap_or(now);
        self.place(slot, now);
        if let Some(fresh) = self.fresh.as_mut().filter(|fresh| fresh.has_kind(is_table)) {
            fresh.place(slot, now);
            if fresh.goes_next() {
                each!(&mut self.lines, lines => lines.demote(set, way));
            }
        }
        let was_table = self.tables.as_mut().is_some_and(|tables| std::mem::replace(&mut tables[slot], is_table));
        (gone != EMPTY).then_some(Gone { line: gone, at, is_table: was_table })
    }

    /// When a neighbour displaced the line in a slot, if one did.
    #[inline(always)]
    fn displaced(&self, slot: usize, line: u64, now: u64) -> Option<u64> {
        match &self.fresh {
            Some(fresh) if fresh.has(slot) => fresh.displaced(slot, line, now),
            _ => self.retention.as_ref().and_then(|r| r.displaced(slot, line, now)),
        }
    }

    /// Uses a line in a slot: when a neighbour displaced it before, if one did.
    #[inline(always)]
    fn renew(&mut self, slot: usize, line: u64, now: u64) -> Option<u64> {
        let displaced = self.displaced(slot, line, now);
        self.place(slot, now);
        displaced
    }

    /// A line in a slot is used.
    #[inline(always)]
    fn place(&mut self, slot: usize, now: u64) {
        if let Some(retention) = &mut self.retention {
            retention.place(slot, now);
        }
        if let Some(fresh) = &mut self.fresh {
            fresh.used(slot);
        }
    }
}

/// Who had a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    /// The cache level, counted from the core; the number of levels for memory.
    pub by: u8,
    /// Its latency.
    pub cycles: u32,
}

impl Caches {
    /// The most levels there can be.
    pub const MAX_LEVELS: usize = 6;

    /// Builds the caches of `cores` cores.
    ///
    /// # Errors
    /// A geometry that cannot be, or a spread of memory's latency.
    pub fn new(desc: &[CacheDesc], rules: &CacheRules, cores: u16) -> Result<Self, WalkerError> {
        if desc.len() > Self::MAX_LEVELS {
            let what = format!("{} levels are more than {}", desc.len(), Self::MAX_LEVELS);
            return Err(WalkerError { place: "cache".into(), what });
        }
        let knows_tables = desc.iter().any(|d| d.fresh.as_ref().is_some_and(|fresh| !fresh.tables));
        let level = |d: &CacheDesc| {
            let bad = |what| WalkerError { place: format!("cache.{}", d.name), what };
            let lines = d.lines().ok_or_else(|| bad(format!("size '{}' is not a multiple of 64 bytes", d.size)))?;
            let (sets, ways) = geometry(lines, Ways::Count(d.ways), Replacement::Lru).map_err(bad)?;
            let copies = if d.shared { 1 } else { usize::from(cores) };
            let copy = |_| Copy {
                lines: Store::new(sets, ways, Replacement::Lru, 0),
                empty: lines,
                retention: d
                    .retention_cycles
                    .map(|cycles| Retention::new(lines as usize, cycles, d.retention_shape.unwrap_or(1.0))),
                fresh: d.fresh.as_ref().map(|fresh| Fresh::new(lines as usize, fresh)),
                tables: knows_tables.then(|| vec![false; lines as usize].into()),
            };
            if d.fresh.is_some() && !d.victim {
                return Err(bad("`fresh` is for victim caches: set `victim = true`, or leave it out".into()));
            }
            Ok(Level {
                name: d.name.clone(),
                cycles: d.cycles,
                sets: SetIndex::new(sets),
                ways,
                code: d.code,
                victim: d.victim,
                depth: 0,
                copies: (0..copies).map(copy).collect(),
            })
        };
        let mut levels: Vec<Level> = desc.iter().map(level).collect::<Result<_, _>>()?;
        if let Some(first) = levels.first().filter(|first| first.victim) {
            let what = "no level before it evicts lines that it could take (`victim`)".into();
            return Err(WalkerError { place: format!("cache.{}", first.name), what });
        }
        let mut nearer = 0;
        for level in &mut levels {
            level.depth = nearer.min(Self::MEMORY_DEPTH - 1);
            nearer += u64::from(!level.code);
        }
        let has_code = levels.iter().any(|level| level.code);
        let is_plain = levels.iter().all(|level| !level.victim && level.copies.iter().all(|c| c.retention.is_none()));
        let memory = Latency::new(rules.memory_cycles, &rules.memory_spread)
            .map_err(|what| WalkerError { place: "cache_rules".into(), what: format!("memory_spread {what}") })?;
        Ok(Self { levels, has_code, is_plain, memory, now: 0 })
    }

    /// Says when the next reads are: what lies in caches that neighbours share depends on it, and which lines of a page
    /// are on their way together.
    #[inline(always)]
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
    }

    /// Reads the line that holds `pa` from `core`: every level that missed has it afterwards, but for a victim cache,
    /// which gets the line that went for it in the level before.
    #[inline]
    pub fn read(&mut self, core: usize, pa: PhysAddr) -> Served {
        self.search(core, pa, false, |level| !level.code)
    }

    /// As [`Caches::read`], for a walk.
    #[inline]
    pub fn read_table(&mut self, core: usize, pa: PhysAddr) -> Served {
        self.search(core, pa, true, |level| !level.code)
    }

    /// As [`Caches::read`], for a fetch: by way of the instruction cache, if there is one, in place of the first level.
    #[inline]
    pub fn fetch(&mut self, core: usize, pa: PhysAddr) -> Served {
        let has_code = self.has_code;
        self.search(core, pa, false, |level| level.code || level.depth > 0 || !has_code)
    }

    /// As [`Caches::read`], from the second level on: what a prefetcher brings there.
    #[inline]
    pub fn prefetch_line(&mut self, core: usize, pa: PhysAddr) -> Served {
        self.search(core, pa, false, |level| !level.code && level.depth > 0)
    }

    /// The depth of memory among levels of data: see [`Caches::depth`].
    pub const MEMORY_DEPTH: u64 = 3;

    /// How far away the level `by` is ([`Served::by`]): 0 for the first level of data, or the instruction cache; 3 for
    /// memory.
    #[inline]
    pub fn depth(&self, by: u8) -> u64 {
        self.levels.get(usize::from(by)).map_or(Self::MEMORY_DEPTH, |level| level.depth)
    }

    /// Bytes of data that all caches of one core hold together, shared ones included.
    pub fn data_bytes(&self) -> u64 {
        let data = self.levels.iter().filter(|level| !level.code);
        data.map(|level| (level.sets.count() * level.ways) as u64 * LINE_BYTES).sum()
    }

    /// Cycles to code in the cache that fetches are served by first; 0 without caches.
    pub fn fetch_cycles(&self) -> u32 {
        self.levels.iter().find(|level| level.code).or(self.levels.first()).map_or(0, |level| level.cycles)
    }

    /// Cycles to data in the cache that loads are served by first; 0 without caches.
    pub fn data_cycles(&self) -> u32 {
        self.levels.iter().find(|level| !level.code).map_or(0, |level| level.cycles)
    }

    /// The lines of a page come into the second level, for a kernel stores to them. Nobody waits for memory.
    pub fn store_page(&mut self, core: usize, page: PhysAddr) {
        for line in 0..BASE_BYTES / LINE_BYTES {
            self.look(core, PhysAddr(page.0 + line * LINE_BYTES), false, |level| !level.code && level.depth > 0);
        }
    }

    #[inline(always)]
    fn search(&mut self, core: usize, pa: PhysAddr, is_table: bool, takes_part: impl Fn(&Level) -> bool) -> Served {
        match self.look(core, pa, is_table, takes_part) {
            Some(served) => served,
            None => Served { by: self.levels.len() as u8, cycles: self.memory.of(pa.0 / LINE_BYTES, self.now) },
        }
    }

    /// The level that had a line; None if memory sends it.
    #[inline(always)]
    fn look(
        &mut self,
        core: usize,
        pa: PhysAddr,
        is_table: bool,
        takes_part: impl Fn(&Level) -> bool,
    ) -> Option<Served> {
        let line = pa.0 / LINE_BYTES;
        if self.is_plain {
            for (by, level) in self.levels.iter_mut().enumerate().filter(|(_, level)| takes_part(level)) {
                if level.read_plain(core, line) {
                    return Some(Served { by: by as u8, cycles: level.cycles });
                }
            }
            return None;
        }
        // What the level before had.
        let mut evicted: Option<Gone> = None;
        for (by, level) in self.levels.iter_mut().enumerate().filter(|(_, level)| takes_part(level)) {
            // The line itself, where a neighbour displaced it there, is here before it is looked for.
            let before = evicted.filter(|gone| level.victim && gone.line == line);
            if let Some(gone) = before {
                level.keep(core, gone);
            }
            let looked = level.read(core, line, self.now, is_table);
            if level.victim
                && before.is_none()
                && let Some(gone) = evicted
            {
                level.keep(core, gone);
            }
            if looked.found {
                return Some(Served { by: by as u8, cycles: level.cycles });
            }
            evicted = looked.gone;
        }
        None
    }

    /// Has the host bring near what [`Caches::read`] of `pa` will look at in the largest level, whose state is too
    /// large for the host's nearest caches.
    #[inline]
    pub fn prefetch(&self, core: usize, pa: PhysAddr) {
        if let Some(level) = self.levels.last() {
            let lines = &level.copies[level.mine(core)].lines;
            each!(lines, lines => lines.prefetch(level.sets.of(pa.0 / LINE_BYTES)));
        }
    }

    /// What the levels are called, nearest first, memory last.
    pub fn names(&self) -> Vec<String> {
        self.levels.iter().map(|l| l.name.clone()).chain(["memory".to_owned()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FreshDesc;
    use std::collections::BTreeMap;

    /// A level of one set.
    fn desc(name: &str, lines: u32, cycles: u32, victim: bool) -> CacheDesc {
        CacheDesc {
            name: name.into(),
            size: (lines * 64).to_string(),
            ways: lines,
            cycles,
            shared: false,
            code: false,
            victim,
            retention_cycles: None,
            retention_shape: None,
            fresh: None,
            source: String::new(),
            assumed: BTreeMap::new(),
        }
    }

    fn rules() -> CacheRules {
        CacheRules {
            data: true,
            memory_cycles: 100,
            memory_spread: vec![],
            source: String::new(),
            assumed: BTreeMap::new(),
        }
    }

    #[test]
    fn a_line_that_a_neighbour_displaces_goes_to_the_victim_cache_then() {
        let mut caches = caches(Some(1 << 20), Some(1 << 24));
        cycles(&mut caches, 0);
        // Displaced near at about 1 << 20, it lies far for 16 times as long.
        caches.set_time(3 << 20);
        assert_eq!(cycles(&mut caches, 0), 10);
        caches.set_time((3 << 20) + (1 << 10));
        assert_eq!(cycles(&mut caches, 0), 1);
        // Displaced at about 4 << 20 and left alone there until both have lost it.
        caches.set_time(30 << 20);
        assert_eq!(cycles(&mut caches, 0), 100);
    }

    #[test]
    fn a_line_that_goes_for_another_one_may_have_been_displaced_before() {
        for (asked, expected) in [(12, 10), (20, 100)] {
            let mut caches = caches(Some(1 << 20), Some(1 << 24));
            cycles(&mut caches, 1);
            cycles(&mut caches, 2);
            // Line 3 takes the place of line 1, which has lain far since about 1 << 20.
            caches.set_time(10 << 20);
            cycles(&mut caches, 3);
            caches.set_time(asked << 20);
            assert_eq!(cycles(&mut caches, 1), expected, "{asked}");
        }
    }

    /// Two levels of 2 and 4 lines, the second a victim cache, by how long neighbours leave their lines.
    fn caches(near: Option<u64>, far: Option<u64>) -> Caches {
        let kept = |retention_cycles, desc| CacheDesc { retention_cycles, retention_shape: Some(20.0), ..desc };
        let levels = [kept(near, desc("near", 2, 1, false)), kept(far, desc("far", 4, 10, true))];
        Caches::new(&levels, &rules(), 1).unwrap()
    }

    fn cycles(caches: &mut Caches, line: u64) -> u32 {
        caches.read(0, PhysAddr(line * LINE_BYTES)).cycles
    }

    #[test]
    fn a_victim_cache_has_what_the_level_before_evicted_and_nothing_else() {
        let mut caches = caches(None, None);
        // Lines 0 and 1 are near, and nothing is far; line 2 sends line 0 there, and 0 on its way back line 1.
        let seen: Vec<u32> = [0, 1, 2, 0, 1, 2, 2].into_iter().map(|line| cycles(&mut caches, line)).collect();
        assert_eq!(seen, [100, 100, 100, 10, 10, 10, 1]);
        // Both together hold 6 lines: a round over 7 finds none.
        for round in 0..3 {
            let misses = (10..17).filter(|&line| cycles(&mut caches, line) == 100).count();
            assert_eq!(misses, 7, "round {round}");
        }
    }

    #[test]
    fn a_line_begins_its_stay_when_it_is_evicted() {
        let mut caches = caches(None, Some(1 << 20));
        cycles(&mut caches, 0);
        cycles(&mut caches, 1);
        // Line 0 is used near by for a long time, and only then evicted.
        caches.set_time(10 << 20);
        cycles(&mut caches, 0);
        cycles(&mut caches, 2);
        cycles(&mut caches, 3);
        caches.set_time((10 << 20) + (1 << 19));
        assert_eq!(cycles(&mut caches, 0), 10);
        caches.set_time(20 << 20);
        assert_eq!(cycles(&mut caches, 2), 100);
    }

    /// Two levels of 2 and 4 lines, as [`caches`], whose second level admits a share of fresh lines.
    fn admitting(admits: f64, far: Option<u64>) -> Caches {
        with_fresh(FreshDesc { admits, retention_cycles: far, goes_next: true, tables: true })
    }

    /// The same, whose second level treats fresh lines so.
    fn with_fresh(fresh: FreshDesc) -> Caches {
        let fresh = Some(fresh);
        let levels = [desc("near", 2, 1, false), CacheDesc { fresh, ..desc("far", 4, 10, true) }];
        Caches::new(&levels, &rules(), 1).unwrap()
    }

    #[test]
    fn a_fresh_line_goes_next_and_one_that_was_used_stays() {
        let mut caches = admitting(1.0, None);
        // Lines 0 to 3 fill the far level, for lines 4 and 5 are near; the last one evicted, line 3, goes next.
        for line in 0..6 {
            cycles(&mut caches, line);
        }
        // Line 4 goes far in place of line 3, and then line 5 in place of line 4.
        let seen: Vec<u32> = [6, 7].into_iter().map(|line| cycles(&mut caches, line)).collect();
        assert_eq!(seen, [100, 100]);
        // Line 5 is used from there, so that line 6 goes far in place of an older fresh line, and not in its place.
        assert_eq!(cycles(&mut caches, 5), 10);
        assert_eq!(cycles(&mut caches, 8), 100);
        assert_eq!(cycles(&mut caches, 9), 100);
        assert_eq!(cycles(&mut caches, 5), 10);
        // Lines 3 and 4 are gone.
        assert_eq!([3, 4].map(|line| cycles(&mut caches, line)), [100, 100]);
    }

    #[test]
    fn a_stream_displaces_a_line_that_was_used_unless_its_lines_go_next() {
        for (goes_next, expected) in [(true, 10), (false, 100)] {
            let mut caches = with_fresh(FreshDesc { admits: 1.0, retention_cycles: None, goes_next, tables: true });
            // Line 0 is used from the far level.
            assert_eq!([0, 1, 2, 0].map(|line| cycles(&mut caches, line)), [100, 100, 100, 10]);
            // More lines than both levels hold.
            for line in 10..20 {
                assert_eq!(cycles(&mut caches, line), 100);
            }
            assert_eq!(cycles(&mut caches, 0), expected, "{goes_next}");
        }
    }

    #[test]
    fn a_line_of_a_page_table_need_not_be_fresh() {
        // Of fresh lines none is admitted, or neighbours displace those that are.
        for (admits, far) in [(0.0, None), (1.0, Some(1000))] {
            let mut all = admitting(admits, far);
            all.set_time(0);
            let from_walks = |caches: &mut Caches, line: u64| caches.read_table(0, PhysAddr(line * LINE_BYTES)).cycles;
            assert_eq!([0, 1, 2].map(|line| from_walks(&mut all, line)), [100; 3]);
            all.set_time(100 << 20);
            assert_eq!(from_walks(&mut all, 0), 100);

            let mut caches = with_fresh(FreshDesc { admits, retention_cycles: far, goes_next: true, tables: false });
            let mut table = |time: u64, line: u64| {
                caches.set_time(time << 20);
                caches.read_table(0, PhysAddr(line * LINE_BYTES)).cycles
            };
            assert_eq!([0, 1, 2].map(|line| table(0, line)), [100; 3]);
            assert_eq!(table(100, 0), 10);
            // Data that took its place in the near level are fresh when they leave it.
            caches.set_time(100 << 20);
            assert_eq!([5, 6, 7].map(|line| cycles(&mut caches, line)), [100; 3]);
            caches.set_time(200 << 20);
            assert_eq!(cycles(&mut caches, 5), 100);
        }
    }

    #[test]
    fn a_line_that_is_not_admitted_comes_from_memory_again() {
        let mut caches = admitting(0.0, None);
        for _ in 0..3 {
            assert_eq!([0, 1, 2].map(|line| cycles(&mut caches, line)), [100; 3]);
        }
    }

    #[test]
    fn a_line_that_neighbours_displaced_is_fresh_again() {
        // Of lines that were used from there nobody displaces any, and of fresh ones all.
        let mut caches = admitting(1.0, Some(1000));
        let mut at = |time: u64, line| {
            caches.set_time(time << 20);
            cycles(&mut caches, line)
        };
        assert_eq!([0, 1, 2].map(|line| at(0, line)), [100; 3]);
        // Line 0 is used from there at once, and stays once it has left the near level again.
        assert_eq!([0, 3, 4].map(|line| at(0, line)), [10, 100, 100]);
        assert_eq!(at(100, 0), 10);
        // Line 1 was taken in with it, but was not used.
        assert_eq!(at(100, 1), 100);
    }

    #[test]
    fn only_a_victim_cache_has_fresh_lines() {
        let fresh = Some(FreshDesc { admits: 0.5, retention_cycles: None, goes_next: true, tables: true });
        let levels = [desc("near", 2, 1, false), CacheDesc { fresh, ..desc("far", 4, 10, false) }];
        assert!(Caches::new(&levels, &rules(), 1).is_err_and(|e| e.what.contains("`victim = true`")));
    }

    #[test]
    fn the_first_level_is_no_victim_cache() {
        assert!(Caches::new(&[desc("near", 2, 1, true)], &rules(), 1).is_err_and(|e| e.what.contains("victim")));
    }
}
