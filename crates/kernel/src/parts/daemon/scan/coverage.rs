//! Access coverage: how many base pages of each region of 2 MiB were accessed of late, and buckets of regions with like
//! counts. It is the `access_map` of Panwar, Bansal and Gopinath, *HawkEye*, ASPLOS 2019, section 3.3.
//!
//! ```text
//! bucket 9   [ region, region ]           450 to 512 pages accessed
//!   ...        ^        ^
//!   ...        |        '-- regions that came down from a higher bucket
//!   ...        '-- regions that came up from a lower one: they are taken first
//! bucket 0   [ region, .. ]               up to 49
//! ```

use std::collections::{BTreeMap, VecDeque};

/// Buckets, and base pages that a bucket is wide (HawkEye, section 3.3).
const BUCKETS: usize = 10;
const WIDTH: u32 = 50;

/// The regions of one address space.
#[derive(Debug, Default)]
pub(in crate::parts::daemon) struct Coverage {
    /// By the region's first address: the moving average of pages accessed, and its bucket.
    regions: BTreeMap<u64, (u32, usize)>,
    buckets: [VecDeque<u64>; BUCKETS],
}

impl Coverage {
    /// Of the region at `start`, `accessed` pages were accessed in the interval that ended.
    ///
    /// The average is that of the last one and this (ours: the paper names an exponential moving average, and no
    /// weight).
    pub fn sampled(&mut self, start: u64, accessed: u32) {
        let before = self.regions.get(&start).copied();
        let average = before.map_or(accessed, |(average, _)| (average + accessed).div_ceil(2));
        let bucket = ((average / WIDTH) as usize).min(BUCKETS - 1);
        self.regions.insert(start, (average, bucket));
        match before {
            Some((_, old)) if old == bucket => return,
            Some((_, old)) => self.buckets[old].retain(|&other| other != start),
            None => {}
        }
        match before {
            Some((_, old)) if old > bucket => self.buckets[bucket].push_back(start),
            Some(_) | None => self.buckets[bucket].push_front(start),
        }
    }

    /// The highest bucket with a region in it.
    pub fn highest(&self) -> Option<usize> {
        self.buckets.iter().rposition(|bucket| !bucket.is_empty())
    }

    /// Takes the first region of the highest bucket.
    pub fn take(&mut self) -> Option<u64> {
        let start = self.buckets[self.highest()?].pop_front()?;
        self.regions.remove(&start);
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_that_come_up_are_taken_first_and_those_that_come_down_last() {
        let mut coverage = Coverage::default();
        for (start, accessed) in [(1, 120), (2, 500), (3, 110), (4, 40)] {
            coverage.sampled(start, accessed);
        }
        // 2: (500 + 0) / 2 = 250, then 125: it comes down to the end of bucket 2. 4: (40 + 200) / 2 = 120: it comes up.
        coverage.sampled(2, 0);
        coverage.sampled(2, 0);
        coverage.sampled(4, 200);
        let order: Vec<_> = std::iter::from_fn(|| coverage.take()).collect();
        assert_eq!(order, [4, 3, 1, 2]);
        assert_eq!(coverage.highest(), None);
    }

    #[test]
    fn the_last_bucket_is_for_450_pages_and_more() {
        let bucket = |accessed| {
            let mut coverage = Coverage::default();
            coverage.sampled(0, accessed);
            coverage.highest()
        };
        assert_eq!([0, 49, 50, 449, 450, 512].map(bucket), [0, 0, 1, 8, 9, 9].map(Some));
    }
}
