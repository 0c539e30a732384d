use crate::{CacheDesc, CacheRules, WalkerError};
use mmulab_addr::{LINE_BYTES, PhysAddr};
use mmulab_sets::{Replacement, Sets, Ways, geometry};

/// The caches of all cores, and the memory behind them.
pub struct Caches {
    levels: Vec<Level>,
    memory_cycles: u32,
}

struct Level {
    name: String,
    cycles: u32,
    /// One per core, or one for all.
    sets: Vec<Sets>,
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
            let sets = (0..copies).map(|_| Sets::new(sets, ways, Replacement::Lru, 0)).collect();
            Ok(Level { name: d.name.clone(), cycles: d.cycles, sets })
        };
        let levels = desc.iter().map(level).collect::<Result<_, _>>()?;
        Ok(Self { levels, memory_cycles: rules.memory_cycles })
    }

    /// Reads the line that holds `pa` from `core`: every level that missed has it afterwards.
    #[inline]
    pub fn read(&mut self, core: usize, pa: PhysAddr) -> Served {
        let line = pa.0 / LINE_BYTES;
        for (by, level) in self.levels.iter_mut().enumerate() {
            let mine = if level.sets.len() == 1 { 0 } else { core };
            let sets = &mut level.sets[mine];
            if sets.put(sets.set_of(line), line).present {
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
            let sets = &level.sets[if level.sets.len() == 1 { 0 } else { core }];
            sets.prefetch(sets.set_of(pa.0 / LINE_BYTES));
        }
    }

    /// What the levels are called, nearest first, memory last.
    pub fn names(&self) -> Vec<String> {
        self.levels.iter().map(|l| l.name.clone()).chain(["memory".to_owned()]).collect()
    }
}
