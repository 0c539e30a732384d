//! Samples of TLB misses and of accessed bits, summed up by page.
//!
//! **Misses.** Every Nth reference that walks is a sample, with the cycles of its walks. SPE samples operations and
//! keeps those with the event "TLB walk"; counting the references that walk gives the same samples on average.
//!
//! **Accessed bits.** Software that reads and clears accessed bits every few milliseconds (Linux: page_idle) sees a
//! page in an epoch if its bit was set in between. Only a walk sets the bit. Clearing it does not flush the TLBs, so a
//! page whose translation stays in a TLB is not seen. A page is thus seen in an epoch if and only if a walk ended at
//! it in that epoch. So the samples are computed from the walks, and the page tables need not be changed. A larger
//! page has one bit: it counts at its first address, as page_idle reports the head of a folio. Reading and clearing is
//! work of another process, on another core, and costs the program nothing here.

use super::cost::Cost;
use crate::describe::Sampling;
use mmulab_addr::{Pid, VirtAddr, Vpn};
use mmulab_kernel::{Fold, RegionId};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// A page by its process and region.
pub type SampledPage = (Pid, RegionId, Vpn);

/// The samples of a page.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct PageSamples {
    /// Samples, or epochs in which the page was accessed.
    pub count: u64,
    /// Cycles of the sampled walks.
    pub cycles: u64,
}

/// A reference that walked.
#[derive(Clone, Copy)]
pub struct Walked {
    /// The process.
    pub pid: Pid,
    /// The region.
    pub region: RegionId,
    /// The address.
    pub va: VirtAddr,
    /// The cost of the reference.
    pub cost: Cost,
    /// Bytes of the page that the walk found; 0 if it found none.
    pub size: u64,
    /// Simulated time.
    pub now_ns: u64,
}

/// The samples of a run.
pub struct Sampler {
    desc: Sampling,
    rng: Pcg64Mcg,
    /// References that walk until the next sample.
    left: u64,
    /// References that walked.
    walked: u64,
    samples: u64,
    misses: FxHashMap<SampledPage, PageSamples>,
    /// With the epoch in which each page was seen last.
    accessed: FxHashMap<SampledPage, (PageSamples, u64)>,
}

impl Sampler {
    /// No samples yet.
    pub fn new(desc: &Sampling, seed: u64) -> Self {
        let mut new = Self {
            desc: *desc,
            rng: Pcg64Mcg::new(0x7370_6500 ^ u128::from(seed) << 1),
            left: 0,
            walked: 0,
            samples: 0,
            misses: FxHashMap::default(),
            accessed: FxHashMap::default(),
        };
        new.left = new.interval();
        new
    }

    fn interval(&mut self) -> u64 {
        u64::from(self.desc.period) + if self.desc.jitter { self.rng.next_u64() >> 56 } else { 0 }
    }

    /// Takes in a reference that walked. Returns the cycles that its sample takes from the program, if it is one.
    pub fn take(&mut self, seen: &Walked) -> f64 {
        let &Walked { pid, region, va, cost, size, now_ns } = seen;
        if let Some(ms) = self.desc.accessed_ms
            && size > 0
        {
            let epoch = (now_ns as f64 / (ms * 1e6)) as u64 + 1;
            let head = VirtAddr::new(va.raw() & !(size - 1)).vpn();
            let (samples, last) = self.accessed.entry((pid, region, head)).or_default();
            samples.count += u64::from(*last != epoch);
            *last = epoch;
        }
        self.walked += 1;
        self.left -= 1;
        if self.left > 0 {
            return 0.0;
        }
        self.left = self.interval();
        self.samples += 1;
        let samples = self.misses.entry((pid, region, va.vpn())).or_default();
        samples.count += 1;
        samples.cycles += cost.walk_cycles;
        self.desc.cycles
    }

    /// Regions are no more: the rows that sum them up take over their samples.
    pub fn fold(&mut self, folds: &[Fold]) {
        let into: FxHashMap<RegionId, RegionId> = folds.iter().map(|fold| (fold.from, fold.into)).collect();
        refile(&mut self.misses, &into, |sum, gone| {
            sum.count += gone.count;
            sum.cycles += gone.cycles;
        });
        refile(&mut self.accessed, &into, |sum, gone| {
            sum.0.count += gone.0.count;
            sum.1 = sum.1.max(gone.1);
        });
    }

    /// References that walked.
    pub fn walked(&self) -> u64 {
        self.walked
    }

    /// Those that were sampled.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The sampled misses by page, in the order of pages.
    pub fn misses(&self) -> Vec<(SampledPage, PageSamples)> {
        sorted(self.misses.iter().map(|(&page, &samples)| (page, samples)))
    }

    /// The epochs in which pages were accessed, in the order of pages.
    pub fn accessed(&self) -> Vec<(SampledPage, PageSamples)> {
        sorted(self.accessed.iter().map(|(&page, &(samples, _))| (page, samples)))
    }
}

fn sorted(pages: impl Iterator<Item = (SampledPage, PageSamples)>) -> Vec<(SampledPage, PageSamples)> {
    let mut pages: Vec<_> = pages.collect();
    pages.sort_unstable_by_key(|&((pid, region, vpn), _)| (pid, vpn, region));
    pages
}

fn refile<P: Copy + Eq + Hash, T: Default>(
    pages: &mut FxHashMap<(P, RegionId, Vpn), T>,
    into: &FxHashMap<RegionId, RegionId>,
    add: impl Fn(&mut T, T),
) {
    let gone: Vec<_> = pages.extract_if(|page, _| into.contains_key(&page.1)).collect();
    for ((pid, region, vpn), samples) in gone {
        add(pages.entry((pid, into[&region], vpn)).or_default(), samples);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(period: u32, jitter: bool) -> Sampler {
        Sampler::new(&Sampling { period, jitter, cycles: 7.0, accessed_ms: Some(1.0) }, 0)
    }

    fn walked(va: u64, size: u64, now_ns: u64) -> Walked {
        let cost = Cost { walks: 1, walk_cycles: 30, ..Cost::default() };
        Walked { pid: Pid(1), region: RegionId(2), va: VirtAddr::new(va), cost, size, now_ns }
    }

    #[test]
    fn every_nth_walk_is_a_sample() {
        let mut sampler = sampler(3, false);
        let cycles: Vec<f64> = (0..7).map(|n| sampler.take(&walked(n << 12, 4096, 0))).collect();
        assert_eq!(cycles, [0.0, 0.0, 7.0, 0.0, 0.0, 7.0, 0.0]);
        let pages: Vec<_> = sampler.misses().iter().map(|&((_, _, vpn), s)| (vpn.0, s.count, s.cycles)).collect();
        assert_eq!(pages, [(2, 1, 30), (5, 1, 30)]);
        assert_eq!((sampler.walked(), sampler.samples()), (7, 2));
    }

    #[test]
    fn jitter_adds_up_to_255_walks() {
        let mut sampler = sampler(1024, true);
        let (mut since, mut gaps) = (0, Vec::new());
        for _ in 0..2_000_000 {
            since += 1;
            if sampler.take(&walked(0, 4096, 0)) > 0.0 {
                gaps.push(since);
                since = 0;
            }
        }
        assert!(gaps.iter().all(|gap| (1024..1280).contains(gap)));
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((mean - 1151.5).abs() < 10.0, "{mean}");
    }

    #[test]
    fn an_epoch_counts_a_page_once_at_its_head() {
        let mut sampler = sampler(1, false);
        // Twice in the first millisecond, not in the second, once in the third; a 2 MiB page at any of its addresses.
        for now in [0, 999_999, 2_000_000] {
            sampler.take(&walked(0x5000, 4096, now));
            sampler.take(&walked(0x20_0000 + now, 2 << 20, now));
        }
        // A walk that found no page sets no bit.
        sampler.take(&walked(0x9000, 0, 0));
        let pages: Vec<_> = sampler.accessed().iter().map(|&((_, _, vpn), s)| (vpn.0, s.count)).collect();
        assert_eq!(pages, [(5, 2), (0x200, 2)]);
    }

    /// CHANGELOG number 19: folding regions loses no samples.
    #[test]
    fn samples_of_folded_regions_go_to_their_rows() {
        let mut sampler = sampler(1, false);
        sampler.take(&walked(0x5000, 4096, 0));
        sampler.fold(&[Fold { from: RegionId(2), into: RegionId(9) }]);
        assert_eq!(sampler.misses()[0].0.1, RegionId(9));
        assert_eq!(sampler.accessed()[0].1.count, 1);
    }
}
