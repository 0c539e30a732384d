use crate::{CacheDesc, CacheRules, WalkerError};
use mmulab_addr::{LINE_BYTES, PhysAddr};
use mmulab_sets::{EMPTY, Keys, Replacement, Store, Ways, each, geometry};

/// The caches of all cores, and the memory behind them.
pub struct Caches {
    levels: Vec<Level>,
    memory_cycles: u32,
}

struct Level {
    name: String,
    cycles: u32,
    sets: u64,
    /// One per core, or one for all.
    copies: Vec<Copy>,
}

/// The lines of one cache.
struct Copy {
    lines: Store,
    /// Ways still empty.
    empty: u64,
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
    /// Whether the line is there. It is afterwards, most recently used.
    #[inline(always)]
    fn read(&mut self, set: usize, line: u64) -> bool {
        each!(&mut self.lines, lines => {
            if let Some(way) = lines.find(set, line) {
                lines.touch(set, way);
                return true;
            }
            let (_, gone) = lines.admit(set, line, self.empty != 0);
            self.empty -= u64::from(gone == EMPTY);
            false
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
            let copy = |_| Copy { lines: Store::new(sets, ways, Replacement::Lru, 0), empty: lines };
            Ok(Level {
                name: d.name.clone(),
                cycles: d.cycles,
                sets: sets as u64,
                copies: (0..copies).map(copy).collect(),
            })
        };
        let levels = desc.iter().map(level).collect::<Result<_, _>>()?;
        Ok(Self { levels, memory_cycles: rules.memory_cycles })
    }

    /// Reads the line that holds `pa` from `core`: every level that missed has it afterwards.
    #[inline]
    pub fn read(&mut self, core: usize, pa: PhysAddr) -> Served {
        let line = pa.0 / LINE_BYTES;
        for (by, level) in self.levels.iter_mut().enumerate() {
            let (set, mine) = (level.set_of(line), level.mine(core));
            if level.copies[mine].read(set, line) {
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
