//! Cost attribution: misses and walks by region, by the 2 MiB of memory that was accessed, and by the code that ran.

use super::{
    cost::{Block, Cost, Missed},
    edges::{Edge, Edges},
    sampler::Sampler,
};
use crate::describe::Options;
use mmulab_addr::{Pid, VirtAddr};
use mmulab_kernel::{Fold, RegionId};
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// log2 of the bytes one entry of the heat map stands for (2 MiB).
pub const HEAT_SHIFT: u32 = 21;

/// The running sums. Regions are always kept; the finer ones only when a profile is wanted, for they hash.
#[derive(Default)]
pub struct Tally {
    regions: Vec<Cost>,
    profile: Option<Profile>,
    sampler: Option<Box<Sampler>>,
}

#[derive(Default)]
struct Profile {
    /// By region too: 2 MiB may lie in several.
    heat: FxHashMap<(Pid, RegionId, u64), Cost>,
    /// By region too: a process that starts another program has other code at the same addresses.
    code: FxHashMap<(Pid, RegionId, VirtAddr), Cost>,
    edges: Edges,
}

impl Profile {
    #[inline(never)]
    fn add(&mut self, region: RegionId, Missed { pid, va, block, code, from, cost }: Missed) {
        self.heat.entry((pid, region, va.raw() >> HEAT_SHIFT)).or_default().add(&cost);
        self.code.entry((pid, code, block)).or_default().add(&cost);
        if cost.l1i_misses > 0 {
            self.edges.add(Edge { pid, to: Block { region: code, addr: block }, from }, &cost);
        }
    }

    fn fold(&mut self, into: &FxHashMap<RegionId, RegionId>) {
        refile(&mut self.heat, into);
        refile(&mut self.code, into);
        self.edges.fold(into);
    }
}

/// Puts what is filed under regions that are no more under the rows that sum them up.
fn refile<T: Copy + Eq + Hash>(costs: &mut FxHashMap<(Pid, RegionId, T), Cost>, into: &FxHashMap<RegionId, RegionId>) {
    let gone: Vec<_> = costs.extract_if(|key, _| into.contains_key(&key.1)).collect();
    for ((pid, region, place), cost) in gone {
        costs.entry((pid, into[&region], place)).or_default().add(&cost);
    }
}

/// One place of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The process.
    pub pid: Pid,
    /// The first address.
    pub addr: VirtAddr,
    /// The region it lies in.
    pub region: RegionId,
    /// Cost of translation there.
    pub cost: Cost,
}

impl Tally {
    /// Empty sums, with what a run asks for.
    pub fn new(options: &Options) -> Self {
        let sampler = options.sampling.as_ref().map(|desc| Sampler::new(desc, options.seed.unwrap_or(0)).into());
        Self { regions: Vec::new(), profile: options.profile.then(Profile::default), sampler }
    }

    /// Adds one missed reference, made in `region`. Inlined, so that what it cost need not go through memory.
    #[inline(always)]
    pub fn add(&mut self, region: RegionId, missed: Missed) {
        match self.regions.get_mut(region.index()) {
            Some(sum) => sum.add(&missed.cost),
            None => self.first(region, missed.cost),
        }
        if let Some(profile) = &mut self.profile {
            profile.add(region, missed);
        }
    }

    /// The first cost of a region.
    #[cold]
    fn first(&mut self, region: RegionId, cost: Cost) {
        self.regions.resize(region.index() + 1, Cost::default());
        self.regions[region.index()] = cost;
    }

    /// Regions are no more: the rows that sum them up take over their costs.
    #[cold]
    pub fn fold(&mut self, folds: &[Fold]) {
        for fold in folds {
            let gone = self.regions.get_mut(fold.from.index()).map(std::mem::take).unwrap_or_default();
            match self.regions.get_mut(fold.into.index()) {
                Some(sum) => sum.add(&gone),
                None => self.first(fold.into, gone),
            }
        }
        if let Some(profile) = &mut self.profile {
            profile.fold(&folds.iter().map(|fold| (fold.from, fold.into)).collect());
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.fold(folds);
        }
    }

    /// Whether walks are sampled.
    #[inline]
    pub fn is_sampling(&self) -> bool {
        self.sampler.is_some()
    }

    /// The samples.
    pub fn sampler(&self) -> Option<&Sampler> {
        self.sampler.as_deref()
    }

    /// The sampler, to take a walk in.
    pub fn sampler_mut(&mut self) -> Option<&mut Sampler> {
        self.sampler.as_deref_mut()
    }

    /// Whether costs are kept by place too.
    #[inline]
    pub fn has_profile(&self) -> bool {
        self.profile.is_some()
    }

    /// The cost of a region.
    pub fn region(&self, region: RegionId) -> Cost {
        self.regions.get(region.index()).copied().unwrap_or_default()
    }

    /// The sum over all regions.
    pub fn total(&self) -> Cost {
        self.regions.iter().fold(Cost::default(), |mut sum, c| {
            sum.add(c);
            sum
        })
    }

    /// Costs by 2 MiB of memory, highest first; empty without a profile.
    pub fn heat(&self) -> Vec<Place> {
        let places = self.profile.iter().flat_map(|p| &p.heat);
        let place = |(&(pid, region, bin), &cost): (&(Pid, RegionId, u64), &Cost)| Place {
            pid,
            addr: VirtAddr::new(bin << HEAT_SHIFT),
            region,
            cost,
        };
        highest_first(places.map(place).collect())
    }

    /// Costs by the translation block that was executing, highest first; empty without a profile.
    pub fn code(&self) -> Vec<Place> {
        let places = self.profile.iter().flat_map(|p| &p.code);
        let place =
            |(&(pid, region, addr), &cost): (&(Pid, RegionId, VirtAddr), &Cost)| Place { pid, addr, region, cost };
        highest_first(places.map(place).collect())
    }

    /// Costs of instruction misses by the jump that met them, most misses first; none without a profile.
    pub fn edges(&self) -> Option<Vec<(Edge, Cost)>> {
        Some(self.profile.as_ref()?.edges.sorted())
    }
}

fn highest_first(mut places: Vec<Place>) -> Vec<Place> {
    // What reports rank by: most of a compiler's blocks stall for second-level hits and never walk.
    let weight = |c: &Cost| (c.stall_cycles, c.walk_cycles, c.l1i_misses + c.l1d_misses);
    let actor = |p: &Place| (p.pid, p.addr, p.region);
    places.sort_unstable_by(|a, b| weight(&b.cost).cmp(&weight(&a.cost)).then(actor(a).cmp(&actor(b))));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CHANGELOG number 19: nothing that a folded region cost is lost, and a slot that is used again begins anew.
    #[test]
    fn what_folded_regions_cost_goes_to_their_rows() {
        let mut tally = Tally::new(&Options { profile: true, ..Options::default() });
        let missed = |region: u32, walks| {
            let (va, block) = (VirtAddr::new(u64::from(region) << HEAT_SHIFT), VirtAddr::new(0x1000));
            let cost = Cost { walks, ..Cost::default() };
            Missed { pid: Pid(1), va, block, code: RegionId(region), from: None, cost }
        };
        [(1, 1), (2, 10), (3, 100)]
            .into_iter()
            .for_each(|(region, walks)| tally.add(RegionId(region), missed(region, walks)));
        let fold = |from, into| Fold { from: RegionId(from), into: RegionId(into) };
        // The second row of a kind takes the slot that the first fold left free.
        tally.fold(&[fold(1, 9), fold(2, 1)]);
        let walks = [9, 1, 2, 3].map(|region| tally.region(RegionId(region)).walks);
        assert_eq!(walks, [1, 10, 0, 100]);
        let found = |places: Vec<Place>| places.iter().map(|p| (p.region.0, p.cost.walks)).collect::<Vec<_>>();
        let mut code = found(tally.code());
        code.sort_unstable();
        assert_eq!(code, [(1, 10), (3, 100), (9, 1)]);
        assert_eq!(found(tally.heat()).len(), 3);
        assert_eq!(tally.total().walks, 111);
    }

    #[test]
    fn the_first_place_is_the_one_that_stalls_longest() {
        let cost =
            |stall_cycles, walk_cycles, l1d_misses| Cost { stall_cycles, walk_cycles, l1d_misses, ..Cost::default() };
        let costs = [cost(5, 0, 1), cost(5, 9, 0), cost(0, 50, 9), cost(6, 0, 0), cost(5, 0, 2)];
        let place = |(&cost, n)| Place { pid: Pid(1), addr: VirtAddr::new(n), region: RegionId(1), cost };
        let places = costs.iter().zip(0..).map(place).collect();
        let order: Vec<u64> = highest_first(places).iter().map(|p| p.addr.raw()).collect();
        assert_eq!(order, [3, 1, 4, 0, 2]);
    }
}
