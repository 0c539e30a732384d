use crate::{CacheDesc, CacheRules, WalkerError, retention::Retention};
use mmulab_addr::{LINE_BYTES, PhysAddr};
use mmulab_sets::{EMPTY, Keys, Replacement, Store, Ways, each, geometry};

/// The caches of all cores, and the memory behind them.
pub struct Caches {
    levels: Vec<Level>,
    /// Whether one of them is for code alone.
    has_code: bool,
    memory_cycles: u32,
    /// The time of a core in time; 0 where there is none.
    now: u64,
}

struct Level {
    name: String,
    cycles: u32,
    sets: u64,
    ways: usize,
    /// Whether it is for code alone.
    code: bool,
    /// How many levels for data are nearer: at most 2, for reports tell three and memory.
    depth: u8,
    /// One per core, or one for all.
    copies: Vec<Copy>,
}

/// The lines of one cache.
struct Copy {
    lines: Store,
    /// Ways still empty.
    empty: u64,
    /// Of a cache that neighbours share.
    retention: Option<Retention>,
}

impl Level {
    /// The set of a line: its low bits, or its remainder where the sets are no power of two.
    #[inline(always)]
    fn set_of(&self, line: u64) -> usize {
        if self.sets.is_power_of_two() { (line & (self.sets - 1)) as usize } else { (line % self.sets) as usize }
    }

    /// Which copy a core uses.
    #[inline(always)]
    fn mine(&self, core: usize) -> usize {
        if self.copies.len() == 1 { 0 } else { core }
    }
}

impl Copy {
    /// Whether the line is there, and the way it has afterwards, most recently used.
    #[inline(always)]
    fn read(&mut self, set: usize, line: u64) -> (bool, usize) {
        each!(&mut self.lines, lines => {
            if let Some(way) = lines.find(set, line) {
                lines.touch(set, way);
                return (true, way);
            }
            let (way, gone) = lines.admit(set, line, self.empty != 0);
            self.empty -= u64::from(gone == EMPTY);
            (false, way)
        })
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
    /// A geometry that cannot be.
    pub fn new(desc: &[CacheDesc], rules: &CacheRules, cores: u16) -> Result<Self, WalkerError> {
        if desc.len() > Self::MAX_LEVELS {
            let what = format!("{} levels are more than {}", desc.len(), Self::MAX_LEVELS);
            return Err(WalkerError { place: "cache".into(), what });
        }
        let level = |d: &CacheDesc| {
            let bad = |what| WalkerError { place: format!("cache.{}", d.name), what };
            let lines = d.lines().ok_or_else(|| bad(format!("size '{}' is no multiple of 64 bytes", d.size)))?;
            let (sets, ways) = geometry(lines, Ways::Count(d.ways), Replacement::Lru).map_err(bad)?;
            let copies = if d.shared { 1 } else { usize::from(cores) };
            let copy = |_| Copy {
                lines: Store::new(sets, ways, Replacement::Lru, 0),
                empty: lines,
                retention: d.retention_cycles.map(|cycles| Retention::new(lines as usize, cycles)),
            };
            Ok(Level {
                name: d.name.clone(),
                cycles: d.cycles,
                sets: sets as u64,
                ways,
                code: d.code,
                depth: 0,
                copies: (0..copies).map(copy).collect(),
            })
        };
        let mut levels: Vec<Level> = desc.iter().map(level).collect::<Result<_, _>>()?;
        let mut nearer = 0;
        for level in &mut levels {
            level.depth = nearer.min(Self::MEMORY_DEPTH - 1);
            nearer += u8::from(!level.code);
        }
        let has_code = levels.iter().any(|level| level.code);
        Ok(Self { levels, has_code, memory_cycles: rules.memory_cycles, now: 0 })
    }

    /// Says when the next reads are: what lies in caches that neighbours share depends on it.
    #[inline(always)]
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
    }

    /// Reads the line that holds `pa` from `core`: every level that missed has it afterwards.
    #[inline]
    pub fn read(&mut self, core: usize, pa: PhysAddr) -> Served {
        self.search(core, pa, |level| !level.code)
    }

    /// As [`Caches::read`], for a fetch: by way of the instruction cache, if there is one, in place of the first level.
    #[inline]
    pub fn fetch(&mut self, core: usize, pa: PhysAddr) -> Served {
        let has_code = self.has_code;
        self.search(core, pa, |level| level.code || level.depth > 0 || !has_code)
    }

    /// As [`Caches::read`], from the second level on: what a prefetcher brings there.
    #[inline]
    pub fn prefetch_line(&mut self, core: usize, pa: PhysAddr) -> Served {
        self.search(core, pa, |level| !level.code && level.depth > 0)
    }

    /// The depth of memory among levels of data: see [`Caches::depth`].
    pub const MEMORY_DEPTH: u8 = 3;

    /// How far away the level `by` is ([`Served::by`]): 0 for the first level of data, or the instruction cache; 3 for memory.
    #[inline]
    pub fn depth(&self, by: u8) -> u8 {
        self.levels.get(usize::from(by)).map_or(Self::MEMORY_DEPTH, |level| level.depth)
    }

    /// Cycles to code in the cache that fetches are served by first; 0 without caches.
    pub fn fetch_cycles(&self) -> u32 {
        self.levels.iter().find(|level| level.code).or(self.levels.first()).map_or(0, |level| level.cycles)
    }

    #[inline(always)]
    fn search(&mut self, core: usize, pa: PhysAddr, takes_part: impl Fn(&Level) -> bool) -> Served {
        let line = pa.0 / LINE_BYTES;
        for (by, level) in self.levels.iter_mut().enumerate().filter(|(_, level)| takes_part(level)) {
            let (set, mine) = (level.set_of(line), level.mine(core));
            let copy = &mut level.copies[mine];
            let (mut found, way) = copy.read(set, line);
            if let Some(retention) = &mut copy.retention {
                found &= retention.stayed(set * level.ways + way, line, self.now);
            }
            if found {
                return Served { by: by as u8, cycles: level.cycles };
            }
        }
        Served { by: self.levels.len() as u8, cycles: self.memory_cycles }
    }

    /// Has the host bring near what [`Caches::read`] of `pa` will look at in the largest level, whose state is too large
    /// for the host's nearest caches.
    #[inline]
    pub fn prefetch(&self, core: usize, pa: PhysAddr) {
        if let Some(level) = self.levels.last() {
            let lines = &level.copies[level.mine(core)].lines;
            each!(lines, lines => lines.prefetch(level.set_of(pa.0 / LINE_BYTES)));
        }
    }

    /// What the levels are called, nearest first, memory last.
    pub fn names(&self) -> Vec<String> {
        self.levels.iter().map(|l| l.name.clone()).chain(["memory".to_owned()]).collect()
    }
}
