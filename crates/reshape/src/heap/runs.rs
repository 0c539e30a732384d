//! Free runs of addresses, by address and by size. jemalloc keeps unused pages in such runs; the order in which runs
//! are reused decides how compact a heap stays.

use std::collections::{BTreeMap, BTreeSet};

/// Which free run serves.
#[derive(Clone, Copy, Debug)]
pub enum Fit {
    /// The lowest of the smallest that are large enough.
    Best,
    /// The lowest of those in a size class whose smallest is large enough, up to this multiple of the size.
    First {
        /// The largest size class at most as large as a run.
        floor: fn(u64) -> u64,
        /// The smallest size class at least as large as what is wanted.
        ceil: fn(u64) -> u64,
        /// A run of a class above this multiple of what is wanted does not serve.
        times: u64,
    },
}

/// A run.
#[derive(Clone, Copy, Debug)]
struct Run {
    bytes: u64,
    /// When it became as it is.
    stamp: u64,
}

/// Free runs of addresses. Neighbours are one run.
#[derive(Clone, Debug)]
pub struct Runs {
    fit: Fit,
    /// All addresses and lengths are multiples of this.
    unit: u64,
    /// What is left of a run is at least this long, or goes with what is taken.
    least: u64,
    runs: BTreeMap<u64, Run>,
    /// Where the runs of a size (class) begin.
    by_size: BTreeMap<u64, BTreeSet<u64>>,
    by_age: BTreeMap<u64, u64>,
    next_stamp: u64,
    total: u64,
}

impl Runs {
    /// No runs. `unit` and `least` are powers of two.
    pub fn new(fit: Fit, unit: u64, least: u64) -> Self {
        Self {
            fit,
            unit,
            least,
            runs: BTreeMap::new(),
            by_size: BTreeMap::new(),
            by_age: BTreeMap::new(),
            next_stamp: 0,
            total: 0,
        }
    }

    /// Bytes in all runs.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn size(&self, bytes: u64) -> u64 {
        match self.fit {
            Fit::Best => bytes,
            Fit::First { floor, .. } => floor(bytes),
        }
    }

    fn put(&mut self, start: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        self.runs.insert(start, Run { bytes, stamp });
        self.by_size.entry(self.size(bytes)).or_default().insert(start);
        self.by_age.insert(stamp, start);
        self.total += bytes;
    }

    fn drop_run(&mut self, start: u64) -> u64 {
        let Some(Run { bytes, stamp }) = self.runs.remove(&start) else { return 0 };
        let size = self.size(bytes);
        if let Some(same) = self.by_size.get_mut(&size) {
            same.remove(&start);
            if same.is_empty() {
                self.by_size.remove(&size);
            }
        }
        self.by_age.remove(&stamp);
        self.total -= bytes;
        bytes
    }

    /// Adds a run and joins it with its neighbours. Where the whole begins, and its bytes.
    pub fn add(&mut self, mut start: u64, mut bytes: u64) -> (u64, u64) {
        if let Some((&before, run)) = self.runs.range(..start).next_back()
            && before + run.bytes == start
        {
            bytes += self.drop_run(before);
            start = before;
        }
        bytes += self.drop_run(start + bytes);
        self.put(start, bytes);
        (start, bytes)
    }

    /// Takes `bytes` whose address plus `skew` is a multiple of `align`. Where they are, and how many they became.
    pub fn take(&mut self, bytes: u64, align: u64, skew: u64) -> Option<(u64, u64)> {
        // A run this long serves wherever it begins.
        let wanted = if align <= self.unit { bytes } else { bytes.checked_add(align)?.checked_add(self.least)? };
        let run = match self.fit {
            Fit::Best => *self.by_size.range(wanted..).next()?.1.first()?,
            Fit::First { ceil, times, .. } => {
                let most = wanted.saturating_mul(times);
                *self
                    .by_size
                    .range(ceil(wanted)..)
                    .take_while(|(size, _)| **size <= most)
                    .filter_map(|(_, s)| s.first())
                    .min()?
            }
        };
        let mut start = (run + skew).next_multiple_of(align) - skew;
        if start > run && start - run < self.least {
            start += align.max(self.least);
        }
        let all = self.drop_run(run);
        self.put(run, start - run);
        let rest = run + all - (start + bytes);
        let taken = if rest < self.least { bytes + rest } else { bytes };
        self.put(start + taken, run + all - (start + taken));
        Some((start, taken))
    }

    /// Takes the run that begins at `start`; its bytes.
    pub fn remove(&mut self, start: u64) -> u64 {
        self.drop_run(start)
    }

    /// Takes the run that is as it is for the longest time.
    pub fn take_oldest(&mut self) -> Option<(u64, u64)> {
        let (_, &start) = self.by_age.first_key_value()?;
        Some((start, self.drop_run(start)))
    }
}
