//! Leshy while programs run (`hints.from = "leshy"`). It samples TLB misses by epochs, and selects page sizes from the
//! samples of the last two. The source is paper 3, section IV-D; method and figures are those of its published
//! artifact.
//!
//! ```text
//! references that walk --every period--> samples of this epoch --end of the epoch--> selection --> Kernel::rehint
//!                                        samples of the last one -------------------'   without bins of 4K, and only
//!                                                                                       what `most` has room for
//! ```
//!
//! The profiler runs on another core: selecting takes no time of the program's. Each process is profiled by itself,
//! with all entries of the TLB. An epoch ends at the first walk after its time.

use crate::{
    count::{PageSamples, SampledPage, Sampler, Walked},
    describe::{Resolved, Sampling},
};
use mmulab_addr::{PageOrder, Pid, Side, VirtRange, Vpn};
use mmulab_kernel::LeshyDesc;
use mmulab_leshy::{Bins, Budget, Goal, Page, Profile, Weight, artifact};
use mmulab_tlb::ArrayDesc;
use std::collections::{BTreeMap, BTreeSet};

/// Page sizes that selections may use: those of contiguous entries and tables of a granule of 4 KiB.
const SIZES: [PageOrder; 5] = [PageOrder::P4K, PageOrder::P64K, PageOrder::P2M, PageOrder::P32M, PageOrder::P1G];

/// The hints of a process, most important first.
pub(crate) type Hinted = (Pid, Vec<(VirtRange, PageOrder)>);

/// The profiler of a kernel's programs.
pub(crate) struct Online {
    desc: LeshyDesc,
    budgets: Vec<Budget>,
    sampler: Sampler,
    /// The samples of the epoch before.
    before: Vec<(SampledPage, PageSamples)>,
    /// When the epoch ends, in simulated nanoseconds.
    ends: u64,
    seed: u64,
    epochs: u64,
}

impl Online {
    /// The profiler of the programs' kernel, if the policy has one.
    pub fn new(desc: &Resolved) -> Option<Self> {
        let leshy = desc.policy.hints.as_ref().and_then(|hints| hints.profiler())?;
        // Sizes that the kernel makes: 1 GiB is not among them.
        let mut budgets = last_level(&desc.machine.tlb);
        budgets.iter_mut().for_each(|budget| budget.sizes.retain(|&size| size <= PageOrder::P32M));
        budgets.retain(|budget| !budget.sizes.is_empty());
        let seed = desc.options.seed.unwrap_or(0);
        let (sampler, ends) = (sampler(&leshy, seed), leshy.epoch_us * 1000);
        Some(Self { desc: leshy, budgets, sampler, before: Vec::new(), ends, seed, epochs: 0 })
    }

    /// Takes in a reference that walked. Returns the cycles that its sample takes from the program, if it is one.
    pub fn take(&mut self, seen: &Walked) -> f64 {
        self.sampler.take(seen)
    }

    /// Whether the epoch is over.
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.ends
    }

    /// Ends the epoch: the hints of each process that was sampled in it or in the one before.
    pub fn end_epoch(&mut self, now_ns: u64) -> Vec<Hinted> {
        self.epochs += 1;
        let epoch = self.desc.epoch_us * 1000;
        // An epoch in which nothing walked is over, too.
        let passed = (now_ns - self.ends) / epoch;
        self.ends += (passed + 1) * epoch;
        let next = sampler(&self.desc, self.seed.wrapping_add(self.epochs));
        let now = std::mem::replace(&mut self.sampler, next).misses();
        let before = std::mem::replace(&mut self.before, now);
        let before = if passed > 0 { Vec::new() } else { before };
        let both = || before.iter().chain(&self.before);
        let pids: BTreeSet<Pid> = both().map(|((pid, ..), _)| *pid).collect();
        let of = |pid: Pid| {
            let pages = both().filter(|((owner, ..), _)| *owner == pid);
            (pid, self.select(pages.map(|&((.., vpn), samples)| page(vpn, samples))))
        };
        pids.into_iter().map(of).collect()
    }

    /// The sizes of one process's memory.
    fn select(&self, pages: impl Iterator<Item = Page>) -> Vec<(VirtRange, PageOrder)> {
        let sizes: Vec<PageOrder> =
            SIZES.into_iter().filter(|size| self.budgets.iter().any(|budget| budget.sizes.contains(size))).collect();
        let goal = Goal {
            target: self.desc.target,
            budgets: self.budgets.clone(),
            slack: self.desc.slack,
            weight: Weight::Misses,
        };
        let made = Bins::new(&Profile::new(pages), &sizes, goal.weight).and_then(|bins| artifact(&bins, &goal));
        // Without samples, or without entries, nothing is worth a hint.
        let Ok(made) = made else { return Vec::new() };
        let mut left = self.desc.most.0;
        let mut fits = |bytes: u64| {
            let is_room = bytes <= left;
            left = if is_room { left - bytes } else { 0 };
            is_room
        };
        let larger = made.entries.iter().filter(|entry| entry.order > PageOrder::P4K);
        let hint = |(order, first): (PageOrder, u64)| (VirtRange::sized(Vpn(first).addr(), order.bytes()), order);
        larger
            .map(|entry| (entry.order, entry.bin.first_page))
            .take_while(|(order, _)| fits(order.bytes()))
            .map(hint)
            .collect()
    }
}

fn page(vpn: Vpn, samples: PageSamples) -> Page {
    Page { number: vpn.0, misses: samples.count, cycles: samples.cycles }
}

fn sampler(desc: &LeshyDesc, seed: u64) -> Sampler {
    let cycles = f64::from(desc.sample_cycles);
    Sampler::new(&Sampling { period: desc.period, jitter: desc.jitter, cycles, accessed_ms: None }, seed)
}

/// The entries for data of each size, in the last level that has that size. A size that several arrays hold counts in
/// the largest of them.
pub(crate) fn last_level(arrays: &[ArrayDesc]) -> Vec<Budget> {
    let serving = |size: &PageOrder| {
        let serves = arrays.iter().enumerate().filter(|(_, a)| a.side.serves(Side::Data) && a.sizes.contains(size));
        serves.max_by_key(|(at, a)| (a.level, a.entries, std::cmp::Reverse(*at))).map(|(at, _)| at)
    };
    let mut found: BTreeMap<usize, Vec<PageOrder>> = BTreeMap::new();
    for size in SIZES {
        if let Some(at) = serving(&size) {
            found.entry(at).or_default().push(size);
        }
    }
    found.into_iter().map(|(at, sizes)| Budget { sizes, entries: u64::from(arrays[at].entries) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::Cost;
    use mmulab_addr::VirtAddr;
    use mmulab_kernel::RegionId;

    fn online(entries: u64, most: u64) -> Online {
        let desc = LeshyDesc {
            epoch_us: 1,
            period: 1,
            jitter: false,
            slack: 100,
            most: mmulab_addr::Bytes(most),
            ..LeshyDesc::default()
        };
        let budgets = vec![Budget { sizes: SIZES[..4].to_vec(), entries }];
        let sampler = sampler(&desc, 0);
        Online { desc, budgets, sampler, before: Vec::new(), ends: 1000, seed: 0, epochs: 0 }
    }

    fn walk(online: &mut Online, pid: u32, va: u64) {
        let cost = Cost { walks: 1, walk_cycles: 30, ..Cost::default() };
        online.take(&Walked {
            pid: Pid(pid),
            region: RegionId::NONE,
            va: VirtAddr::new(va),
            cost,
            size: 4096,
            now_ns: 0,
        });
    }

    const M: u64 = 1 << 20;

    /// S2-M038: the samples of two epochs count, and those before no more.
    #[test]
    fn the_epoch_before_counts_and_no_earlier_one() {
        let mut online = online(1, 64 * M);
        // Pages that only 2M cover with one entry.
        (0..4).for_each(|n| walk(&mut online, 1, n * 0x8_0000));
        assert!(!online.is_due(999) && online.is_due(1000));
        let range = VirtRange::sized(VirtAddr::new(0), 2 * M);
        let hinted = vec![(Pid(1), vec![(range, PageOrder::P2M)])];
        assert_eq!(online.end_epoch(1000), hinted);
        assert_eq!(online.end_epoch(2000), hinted);
        assert_eq!(online.end_epoch(3000), []);
        // Nothing walked for a long time: what was sampled before it is of no epoch that counts.
        walk(&mut online, 1, 0);
        online.end_epoch(4000);
        assert_eq!(online.end_epoch(90_500), []);
        assert!(!online.is_due(90_999) && online.is_due(91_000));
    }

    #[test]
    fn base_pages_are_no_hints_and_the_hottest_come_first_as_far_as_there_is_room() {
        let mut few = online(3, 64 * M);
        (0..3).for_each(|n| walk(&mut few, 1, n * 64 * M));
        // Three entries of 4K cover all.
        assert_eq!(few.end_epoch(1000), [(Pid(1), Vec::new())]);
        let mut many = online(2, 3 * M);
        for (base, times) in [(0, 2), (64 * M, 5)] {
            (0..4 * times).for_each(|n| walk(&mut many, 7, base + n % 4 * 0x8_0000));
        }
        // Both blocks of 2M are selected; 3 MiB have room for the hotter one.
        let range = VirtRange::sized(VirtAddr::new(64 * M), 2 * M);
        assert_eq!(many.end_epoch(1000), [(Pid(7), vec![(range, PageOrder::P2M)])]);
    }
}
