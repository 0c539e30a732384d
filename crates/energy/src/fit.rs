//! Arrays of another design in the area of those there are.

use crate::area::array_area;
use mmulab_addr::PageOrder;
use mmulab_assoc::{Replacement, Ways};
use mmulab_tlb::{
    ArrayDesc, Design, GeometryError, Hierarchy, HierarchyDesc, Mirrors, MixDesc, Placement, PredictorDesc, Probe,
};
use std::ops::RangeInclusive;
use thiserror::Error;

/// Ways that are tried: what paper 4 (section 3) names for arrays of today.
const WAYS: RangeInclusive<u32> = 4..=8;
/// Of each size of a skewed array: the paper's example has 2 (section 5.1).
const SKEWED_WAYS: RangeInclusive<u32> = 2..=4;
/// Entries of the predictors of hash-rehash and skewed arrays. Those of the paper's reference [10] have 128 entries of
/// a bit each. Scaled to three sizes, that makes 512 entries.
const PREDICTOR_ENTRIES: u32 = 512;

/// What to make of a machine's arrays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// MIX: bitmaps in level 1, lengths in level 2.
    Mix,
    /// MIX whose fills look for the bundle in the other sets.
    MixMerged,
    /// MIX with up to four small pages an entry.
    MixColt,
    /// One array searched size by size, with a predictor.
    HashRehash,
    /// One skewed array, with a predictor.
    Skew,
    /// The same arrays, of which those for 4 KiB coalesce as AMD's do.
    Zen,
    /// The same arrays, of which those for 4 KiB coalesce.
    Colt,
    /// The same arrays, all of which coalesce.
    ColtPlus,
    /// As many entries as there are, each for any size, asked at once: what no hardware does.
    Ideal,
}

impl Wanted {
    /// All, by name.
    pub const NAMES: [(&str, Self); 9] = [
        ("mix", Self::Mix),
        ("mix-merged", Self::MixMerged),
        ("mix+colt", Self::MixColt),
        ("hash-rehash", Self::HashRehash),
        ("skew", Self::Skew),
        ("zen", Self::Zen),
        ("colt", Self::Colt),
        ("colt++", Self::ColtPlus),
        ("ideal", Self::Ideal),
    ];
}

/// Arrays that cannot be made into others.
#[derive(Debug, Error)]
pub enum FitError {
    /// No array is small enough.
    #[error(
        "{arrays} take {cells:.0} cells, and the smallest array of design {design} takes {smallest:.0}: nothing fits"
    )]
    TooSmall {
        /// What there is.
        arrays: String,
        /// Its area.
        cells: f64,
        /// The design that was asked for.
        design: String,
        /// Its smallest.
        smallest: f64,
    },
    /// What is asked for cannot be built, however much room there is.
    #[error("{0}")]
    Impossible(#[from] GeometryError),
}

/// The arrays of a design that take no more area, level by level, than those of `tlb` which serve loads and stores.
/// Arrays that serve fetches alone stay as they are.
///
/// # Errors
/// A level too small for any; a `group` that no array can have.
pub fn fit(tlb: &[ArrayDesc], asid_bits: u8, wanted: Wanted, group: [u16; 2]) -> Result<Vec<ArrayDesc>, FitError> {
    let (mut out, mut levels) = (Vec::new(), [Vec::new(), Vec::new()]);
    for array in tlb {
        if array.side == Placement::Instruction {
            out.push(array.clone());
        } else {
            levels[usize::from(array.level == 2)].push(array);
        }
    }
    for (at, arrays) in levels.iter().enumerate().filter(|(_, arrays)| !arrays.is_empty()) {
        out.extend(level(arrays, asid_bits, wanted, group[at])?);
    }
    Hierarchy::new(&out, &HierarchyDesc::default())?;
    Ok(out)
}

fn level(arrays: &[&ArrayDesc], asid_bits: u8, wanted: Wanted, group: u16) -> Result<Vec<ArrayDesc>, FitError> {
    let room: f64 = arrays.iter().map(|a| array_area(a, asid_bits).cells).sum();
    let design = match wanted {
        Wanted::Zen => return coalesced(arrays, asid_bits, Design::Zen),
        Wanted::Colt => return coalesced(arrays, asid_bits, Design::ColtSa),
        Wanted::ColtPlus => return coalesced(arrays, asid_bits, Design::ColtPlus),
        Wanted::Ideal => {
            let entries = arrays.iter().map(|a| a.entries).sum();
            return Ok(vec![largest_ideal(&merged(arrays, wanted, Design::Plain, group), entries)]);
        }
        Wanted::Mix | Wanted::MixMerged | Wanted::MixColt => Design::Mix,
        Wanted::HashRehash => Design::Plain,
        Wanted::Skew => Design::Skew,
    };
    let base = merged(arrays, wanted, design, group);
    let of = |sets: u32, ways: u32| ArrayDesc { entries: sets * ways, ways: Ways::Count(ways), ..base.clone() };
    let (parts, range) = if wanted == Wanted::Skew { (base.sizes.len() as u32, SKEWED_WAYS) } else { (1, WAYS) };
    let fewest = range.start() * parts;
    let ways = range.map(|ways| ways * parts);
    let shapes = ways.flat_map(|ways| (1..=10).map(move |doublings| (1u32 << doublings, ways)));
    let best = shapes.filter(|&(sets, ways)| array_area(&of(sets, ways), asid_bits).cells <= room);
    // Of equals that with fewer ways, which takes less energy.
    match best.max_by_key(|&(sets, ways)| (sets * ways, std::cmp::Reverse(ways))) {
        Some((sets, ways)) => Ok(vec![of(sets, ways)]),
        None => Err(too_small(arrays, room, &base, array_area(&of(2, fewest), asid_bits).cells)),
    }
}

fn too_small(arrays: &[&ArrayDesc], cells: f64, base: &ArrayDesc, smallest: f64) -> FitError {
    let arrays = arrays.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join(", ");
    FitError::TooSmall { arrays, cells, design: base.design.about().name.to_owned(), smallest }
}

/// One array of a design for all pages that `arrays` hold; the caller sets its entries and ways.
fn merged(arrays: &[&ArrayDesc], wanted: Wanted, design: Design, group: u16) -> ArrayDesc {
    let first = arrays[0];
    let mut sizes: Vec<PageOrder> = arrays.iter().flat_map(|a| a.sizes.iter().copied()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let both = arrays.iter().any(|a| a.side == Placement::Both);
    let spare = sizes.get(1).map_or(0, |next| u16::from(next.get() - sizes[0].get()));
    let bitmap = first.level == 1;
    // What a bitmap needs beyond the tag bits that superpages spare (paper 4, section 4.1).
    let extra_bits = if bitmap { group.saturating_sub(spare + group.trailing_zeros() as u16) } else { 0 };
    let guessing = matches!(wanted, Wanted::HashRehash | Wanted::Skew);
    let mixed = design == Design::Mix;
    ArrayDesc {
        name: if first.level == 1 { "DTLB".into() } else { "STLB".into() },
        level: first.level,
        side: if both { Placement::Both } else { Placement::Data },
        entries: 0,
        ways: Ways::Full,
        sizes,
        replacement: Replacement::Lru,
        probe: if wanted == Wanted::HashRehash { Probe::Serial } else { Probe::Parallel },
        hit_cycles: arrays.iter().map(|a| a.hit_cycles).max().unwrap_or(0),
        smash_to: None,
        victim_of: None,
        design,
        group: mixed.then_some(group),
        mix: mixed.then(|| MixDesc {
            extra_bits,
            mirrors: if wanted == Wanted::MixMerged { Mirrors::Merged } else { Mirrors::Blind },
            small_group: (wanted == Wanted::MixColt).then_some(4),
            ..MixDesc::default()
        }),
        predictor: guessing.then_some(PredictorDesc { entries: PREDICTOR_ENTRIES, cycles: 0 }),
        // A second probe is a second access of the pipeline's stage.
        probe_cycles: if first.level == 1 && guessing { 1 } else { 0 },
        retention_cycles: None,
        hold: None,
        shared: first.shared,
        per_thread: first.per_thread,
        source: "as large as the arrays it stands for, by the area model of docs/concepts/energy.md".into(),
        assumed: Default::default(),
    }
}

/// As many entries as there are, in sets that are a power of two.
fn largest_ideal(base: &ArrayDesc, entries: u32) -> ArrayDesc {
    let sets = 1u32 << (entries / 4).max(1).ilog2();
    let ways = entries.div_ceil(sets);
    ArrayDesc { entries: sets * ways, ways: Ways::Count(ways), ..base.clone() }
}

/// The arrays, each with as many sets of the coalescing design as its own area holds.
fn coalesced(arrays: &[&ArrayDesc], asid_bits: u8, design: Design) -> Result<Vec<ArrayDesc>, FitError> {
    let fitted = |a: &&ArrayDesc| shrink(&coalescing(a, design), array_area(a, asid_bits).cells, asid_bits);
    arrays.iter().map(fitted).collect()
}

/// The array with entries of a coalescing design, if the design takes its page sizes: CoLT++ alone coalesces larger
/// pages. Groups have 4 pages, as in paper 4 (section 7.2) and in AMD's processors (paper 1, section 3.2).
fn coalescing(array: &ArrayDesc, design: Design) -> ArrayDesc {
    if design != Design::ColtPlus && !array.sizes.contains(&PageOrder::P4K) {
        return array.clone();
    }
    // AMD's arrays are searched for all sizes at once. CoLT's are searched as the array was.
    let probe = if design == Design::Zen { Probe::Parallel } else { array.probe };
    ArrayDesc { design, group: Some(4), probe, ..array.clone() }
}

/// The array with as many sets as fit.
fn shrink(array: &ArrayDesc, room: f64, asid_bits: u8) -> Result<ArrayDesc, FitError> {
    let (sets, ways) = crate::bits::shape(array);
    let full = array.ways == Ways::Full;
    let of = |n: u32| match full {
        true => ArrayDesc { entries: n, ..array.clone() },
        false => ArrayDesc { entries: n * ways, ..array.clone() },
    };
    let most = if full { array.entries } else { sets };
    let fits = (1..=most).rev().find(|&n| array_area(&of(n), asid_bits).cells <= room);
    fits.map(of).ok_or_else(|| too_small(&[array], room, array, array_area(&of(1), asid_bits).cells))
}

#[cfg(test)]
mod tests;
