//! The energy of a run.

use crate::{
    EnergyDesc,
    bits::{self, entry_bits},
    structure::{self, Takes},
};
use mmulab_addr::parse_bytes;
use mmulab_assoc::{Ways, geometry};
use mmulab_tlb::{ArrayCounts, ArrayDesc, Reads};
use mmulab_walker::{CacheDesc, WalkCounts, WalkerDesc};
use schemars::JsonSchema;
use serde::Serialize;

/// Bits of an entry of a walk cache: 48-bit addresses, 4 KiB tables, and what upper entries say.
const WALK_CACHE_BITS: u32 = 60;

/// The inputs of a run's energy.
pub struct Run<'a> {
    /// The TLB arrays.
    pub tlb: &'a [ArrayDesc],
    /// Bits of an ASID.
    pub asid_bits: u8,
    /// The walker.
    pub walker: &'a WalkerDesc,
    /// The caches that entries are read through, nearest first.
    pub caches: &'a [CacheDesc],
    /// Figures that are known better than by the model.
    pub known: &'a EnergyDesc,
    /// Counts of the arrays.
    pub arrays: &'a [ArrayCounts],
    /// Counts of the walkers.
    pub walks: &'a WalkCounts,
    /// Their counts in the host's tables, in virtual machines.
    pub host_walks: &'a WalkCounts,
    /// Lines that walks wrote: accessed and dirty bits set by stores to clean translations.
    pub dirty_updates: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Cores, each with TLBs and a walker.
    pub cores: u16,
    /// Hardware threads of each.
    pub threads: u16,
}

/// Energy by what it went to, in nJ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Parts {
    /// Lookups of TLB arrays.
    pub lookup: f64,
    /// Guesses of page sizes.
    pub predictor: f64,
    /// Walks: walk caches, caches and memory.
    pub walk: f64,
    /// Entries written into TLB arrays, mirrors and all.
    pub fill: f64,
    /// Invalidations, and dirty bits written.
    pub other: f64,
}

/// Dynamic energy, and where it went, in nJ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Breakdown {
    /// By operation (paper 4, Figure 17).
    #[serde(flatten)]
    pub parts: Parts,
    /// All of it.
    pub total: f64,
}

/// Energy of one structure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StructureEnergy {
    /// The structure.
    pub name: String,
    /// One lookup, in pJ.
    pub read_pj: f64,
    /// One entry written, in pJ.
    pub write_pj: f64,
    /// Leakage, in mW, of all cores' copies together.
    pub leakage_mw: f64,
    /// Lookups.
    pub reads: u64,
    /// Entries written.
    pub writes: u64,
    /// Dynamic energy, in nJ.
    pub dynamic_nj: f64,
}

/// The energy that translation took. All of it is modelled.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EnergyReport {
    /// Dynamic energy, in nJ.
    pub dynamic_nj: Breakdown,
    /// Leakage of TLBs and walk caches in the run's time, in nJ. Caches are there anyway.
    pub leakage_nj: f64,
    /// Both.
    pub total_nj: f64,
    /// Each structure.
    pub structures: Vec<StructureEnergy>,
}

struct Sum<'a> {
    known: &'a EnergyDesc,
    parts: Parts,
    leakage_mw: f64,
    structures: Vec<StructureEnergy>,
}

impl Sum<'_> {
    /// The model's numbers, or the better ones.
    fn takes(&self, name: &str, model: Takes) -> Takes {
        let known = self.known.of(name);
        let or = |better: Option<f64>, model: f64| better.unwrap_or(model);
        Takes {
            read_pj: or(known.and_then(|k| k.read_pj), model.read_pj),
            write_pj: or(known.and_then(|k| k.write_pj), model.write_pj),
            leakage_mw: or(known.and_then(|k| k.leakage_mw), model.leakage_mw),
        }
    }

    /// Adds a structure; the energy of its reads and of its writes, in nJ. `share` is what a read takes of a whole one,
    /// `copies` how many of it leak.
    fn add(&mut self, name: &str, takes: Takes, (reads, share): (u64, f64), writes: u64, copies: f64) -> (f64, f64) {
        let takes = self.takes(name, takes);
        let read = reads as f64 * share * takes.read_pj / 1000.0;
        let write = writes as f64 * takes.write_pj / 1000.0;
        let leakage_mw = takes.leakage_mw * copies;
        self.leakage_mw += leakage_mw;
        self.structures.push(StructureEnergy {
            name: name.to_owned(),
            read_pj: takes.read_pj,
            write_pj: takes.write_pj,
            leakage_mw,
            reads,
            writes,
            dynamic_nj: read + write,
        });
        (read, write)
    }
}

/// Lookups of an array in units of one whole set, or of all ways of a hashed array: how many, and what each takes.
fn lookups(desc: &ArrayDesc, counts: &ArrayCounts) -> (u64, f64) {
    let accesses = counts.accesses.max(1) as f64;
    let sets = match (bits::cost(desc).reads, counts.probes) {
        // The first probe reads the ways of one size, a second those of all others.
        (Reads::HashedWays, Some(probes)) => {
            let sizes = desc.sizes.len() as f64;
            let (first, further) = (counts.accesses as f64, (probes - counts.accesses) as f64);
            (first + further * (sizes - 1.0)) / sizes / accesses
        }
        (Reads::Sets(_), Some(probes)) => probes as f64 / accesses,
        (Reads::Sets(sets), None) if !bits::associative(desc) => f64::from(sets),
        (Reads::Sets(_) | Reads::HashedWays, None) => 1.0,
    };
    (counts.accesses, sets)
}

/// Energy of an array, for one set or all entries at a lookup.
fn array_takes(desc: &ArrayDesc, asid_bits: u8) -> Takes {
    let (sets, ways) = bits::shape(desc);
    let bits = entry_bits(desc, asid_bits);
    if bits::associative(desc) {
        structure::associative(desc.entries, bits)
    } else {
        structure::of_sets(sets, ways, bits)
    }
}

/// The energy of a run.
pub fn report(run: &Run) -> EnergyReport {
    let mut sum = Sum { known: run.known, parts: Parts::default(), leakage_mw: 0.0, structures: Vec::new() };
    for (desc, counts) in run.tlb.iter().zip(run.arrays) {
        let takes = array_takes(desc, run.asid_bits);
        let copies = match (desc.shared, desc.per_thread) {
            (true, _) => 1.0,
            (_, false) => f64::from(run.cores),
            (_, true) => f64::from(run.cores) * f64::from(run.threads),
        };
        let writes = counts.mirroring.map_or(counts.fills, |m| m.writes);
        let (asked, share) = lookups(desc, counts);
        let looks = counts.mirroring.map_or(0, |m| m.reads);
        // Whole sets read: by lookups, then by fills that look for copies.
        let read_sets = (asked as f64 * share, looks as f64);
        let share = (read_sets.0 + read_sets.1) / (asked + looks).max(1) as f64;
        let (read, write) = sum.add(&desc.name, takes, (asked + looks, share), writes + counts.invalidations, copies);
        let per_set = if share == 0.0 { 0.0 } else { read / (read_sets.0 + read_sets.1) };
        let per_write =
            if writes + counts.invalidations == 0 { 0.0 } else { write / (writes + counts.invalidations) as f64 };
        sum.parts.lookup += per_set * read_sets.0;
        sum.parts.fill += per_set * read_sets.1 + per_write * writes as f64;
        sum.parts.other += per_write * counts.invalidations as f64;
        if let (Some(predictor), Some(did)) = (&desc.predictor, counts.predictor) {
            let bits = u32::BITS - (desc.sizes.len().max(2) as u32 - 1).leading_zeros();
            let takes = structure::of_sets(predictor.entries, 1, bits);
            let name = format!("{}.predictor", desc.name);
            let (read, write) = sum.add(&name, takes, (did.guesses, 1.0), did.updates, copies);
            sum.parts.predictor += read + write;
        }
    }
    walks(run, &mut sum);
    let p = sum.parts;
    let total = p.lookup + p.predictor + p.walk + p.fill + p.other;
    // 1 mW for 1 s is 10^6 nJ.
    let leakage_nj = sum.leakage_mw * run.seconds * 1e6;
    EnergyReport {
        dynamic_nj: Breakdown { parts: p, total },
        leakage_nj,
        total_nj: total + leakage_nj,
        structures: sum.structures,
    }
}

/// Every walk asks all walk caches, reads its entries through the caches, and writes what it read into walk caches.
fn walks(run: &Run, sum: &mut Sum) {
    let begun = run.walks.instruction.walks + run.walks.data.walks;
    let copies = if run.walker.shared { 1.0 } else { f64::from(run.cores) };
    for cache in &run.walker.cache {
        let Ok((sets, ways)) = geometry(u64::from(cache.entries), cache.ways, cache.replacement) else { continue };
        let takes = if cache.ways == Ways::Full || sets == 1 {
            structure::associative(cache.entries, WALK_CACHE_BITS)
        } else {
            structure::of_sets(sets as u32, ways as u32, WALK_CACHE_BITS)
        };
        let holds = |l: &&mmulab_walker::LevelCounts| cache.levels.contains(&l.level);
        let fills = run.walks.levels.iter().filter(holds).map(|l| l.reads).sum();
        let (read, write) = sum.add(&cache.name, takes, (begun, 1.0), fills, copies);
        sum.parts.walk += read + write;
    }
    // Who served a read was asked after all before it.
    let servers = run.caches.len() + 1;
    let mut served = vec![0u64; servers];
    for level in run.walks.levels.iter().chain(&run.host_walks.levels) {
        served.iter_mut().zip(&level.served_by).for_each(|(sum, n)| *sum += n);
    }
    for at in 0..servers {
        let asked: u64 = served[at..].iter().sum();
        let (name, takes) = match run.caches.get(at) {
            Some(cache) => (cache.name.as_str(), structure::cache(parse_bytes(&cache.size).unwrap_or(0))),
            None => ("memory", structure::MEMORY),
        };
        // A dirty bit is written to the nearest.
        let writes = if at == 0 { run.dirty_updates } else { 0 };
        let (read, write) = sum.add(name, takes, (asked, 1.0), writes, 0.0);
        sum.parts.walk += read;
        sum.parts.other += write;
    }
}
