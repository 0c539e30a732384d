//! The samples of a run as a profile, with the mappings they lie in.

use crate::{
    count::{PageSamples, SampledPage},
    machine::Machine,
};
use mmulab_addr::{PageOrder, Side};
use mmulab_kernel::{Kernel, Region};
use mmulab_leshy::{Budget, Mapping, ProfileFile, ProfileHead, ProfiledMapping, Row};
use mmulab_trace::TraceInfo;
use std::collections::{BTreeMap, BTreeSet};

/// Page sizes that selections may use: those of contiguous entries and tables of a granule of 4 KiB.
const SIZES: [PageOrder; 5] = [PageOrder::P4K, PageOrder::P64K, PageOrder::P2M, PageOrder::P32M, PageOrder::P1G];

impl Machine {
    /// The sampled misses, after a run over the trace of `info`; none if nothing was sampled. Of several virtual
    /// machines it is the first one's.
    pub fn sampled_misses(&self, info: &TraceInfo) -> Option<ProfileFile> {
        let sampler = self.state().system.tally.sampler()?;
        Some(self.profile(info, "misses", sampler.samples(), &sampler.misses()))
    }

    /// The epochs in which pages were accessed; none if accessed bits were not sampled.
    pub fn sampled_accesses(&self, info: &TraceInfo) -> Option<ProfileFile> {
        let epoch_ms = self.desc().options.sampling?.accessed_ms?;
        let sampler = self.state().system.tally.sampler()?;
        let pages = sampler.accessed();
        let mut file = self.profile(info, "accessed", pages.iter().map(|(_, samples)| samples.count).sum(), &pages);
        file.head.epoch_ms = Some(epoch_ms);
        Some(file)
    }

    fn profile(
        &self,
        info: &TraceInfo,
        sampler: &str,
        samples: u64,
        pages: &[(SampledPage, PageSamples)],
    ) -> ProfileFile {
        let state = self.state();
        let kernel = &state.system.kernel;
        let row = |&((pid, region, vpn), samples): &(SampledPage, PageSamples)| Row {
            pid,
            mapping: kernel.region(region).number,
            addr: vpn.addr(),
            misses: samples.count,
            cycles: samples.cycles,
        };
        let rows: Vec<Row> = pages.iter().map(row).collect();
        let used: BTreeSet<u64> = rows.iter().map(|row| row.mapping).collect();
        let desc = self.desc();
        let head = ProfileHead {
            trace: info.name.clone(),
            machine: desc.machine.name.clone(),
            policy: desc.policy.name.clone(),
            sampler: sampler.into(),
            period: desc.options.sampling.map_or(1, |sampling| u64::from(sampling.period)),
            walked: state.system.tally.sampler().map_or(0, |sampler| sampler.walked()),
            samples,
            tlb: self.last_level(),
            mappings: mappings(kernel).into_iter().filter(|mapping| used.contains(&mapping.id)).collect(),
            ..ProfileHead::default()
        };
        ProfileFile { head, rows }
    }

    /// The entries for data of each size, in the last level that has that size. A size that several arrays hold counts
    /// in the largest of them.
    fn last_level(&self) -> Vec<Budget> {
        let arrays = &self.desc().machine.tlb;
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
}

/// All mappings, with their numbers among those that look alike.
fn mappings(kernel: &Kernel) -> Vec<ProfiledMapping> {
    let mut seen: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    let named = |region: &&&Region| region.number > 0 && region.folded == 0;
    let mut number = |region: &Region| {
        let (program, name, prot) = (region.program.to_string(), region.name.to_string(), region.rights());
        let next = seen.entry((program.clone(), name.clone(), prot.clone())).or_default();
        *next += 1;
        ProfiledMapping {
            id: region.number,
            mapping: Mapping { program, name, prot, nth: *next - 1 },
            first: region.first,
            start: region.start,
            end: region.end,
        }
    };
    kernel.regions().iter().filter(named).map(|region| number(region)).collect()
}
