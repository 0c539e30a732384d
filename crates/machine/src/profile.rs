//! The samples of a run as a profile, with the mappings they lie in.

use crate::{
    count::{PageSamples, SampledPage},
    leshy::last_level,
    machine::Machine,
};
use mmulab_kernel::{Kernel, Region};
use mmulab_leshy::{Mapping, ProfileFile, ProfileHead, ProfiledMapping, Row};
use mmulab_trace::TraceInfo;
use std::collections::{BTreeMap, BTreeSet};

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
            tlb: last_level(&desc.machine.tlb),
            mappings: mappings(kernel).into_iter().filter(|mapping| used.contains(&mapping.id)).collect(),
            ..ProfileHead::default()
        };
        ProfileFile { head, rows }
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
