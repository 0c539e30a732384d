//! The designs with storage of their own, behind one enum.

use super::{
    Change, Known, Line, bundles::Bundles, clustered::Clustered, colt_fa::ColtFa, colt_sa::ColtSa, mix, scan::Scan,
    skew::Skew, tps::Tps,
};
use crate::{
    ArrayDesc, CoalescingCounts, Design, Entry, MirrorCounts, Probe, array::COALESCED, key::Value, pages::Slot,
};
use mmulab_addr::{Asid, PageOrder, Vpn};
use mmulab_sets::{Replacement, Store, Ways};

/// An array of one of these designs.
#[expect(clippy::large_enum_variant, reason = "one an array, in a box of its own")]
pub enum Spans {
    ColtSa(Scan<ColtSa>),
    ColtFa(Scan<ColtFa>),
    Clustered(Scan<Clustered>),
    Tps(Scan<Tps>),
    Bundles(Bundles),
    Skew(Skew),
}

/// The same expression for whichever design it is.
macro_rules! whichever {
    ($spans:expr, $scan:ident => $call:expr) => {
        match $spans {
            Self::ColtSa($scan) => $call,
            Self::ColtFa($scan) => $call,
            Self::Clustered($scan) => $call,
            Self::Tps($scan) => $call,
            Self::Bundles($scan) => $call,
            Self::Skew($scan) => $call,
        }
    };
}

/// What an array of these designs holds, and what its counts are called.
pub struct Shape {
    pub spans: Spans,
    pub sizes: Vec<PageOrder>,
    pub classes: Vec<String>,
}

impl Spans {
    /// The array that `desc` wants, `sets` of `ways`; `most` is how many classes of entries counts can tell apart.
    ///
    /// # Errors
    /// What is impossible about it, and what to do.
    pub fn shape(
        desc: &ArrayDesc,
        sizes: &[PageOrder],
        sets: usize,
        ways: usize,
        seed: u64,
        most: usize,
    ) -> Result<Shape, String> {
        let name = match desc.design {
            Design::ColtSa => "colt-sa",
            Design::ColtFa => "colt-fa",
            Design::Clustered => "clustered",
            Design::Mix => "mix",
            Design::ColtPlus => "colt++",
            Design::Skew => "skew",
            Design::Tps | Design::Plain | Design::Zen => "tps",
        };
        let full = desc.ways == Ways::Full || ways == desc.entries as usize;
        if matches!(desc.design, Design::ColtFa | Design::Tps) && !full {
            return Err(format!("design {name} is fully associative: give ways = \"full\""));
        }
        let by_turns = matches!(desc.design, Design::ColtSa | Design::ColtPlus | Design::Skew);
        if desc.probe != Probe::Parallel && !by_turns {
            return Err(format!("design {name} is searched at once: leave out probe"));
        }
        if desc.predictor.is_some() && desc.design != Design::Skew {
            return Err(format!("design {name} has no size to guess: leave out predictor"));
        }
        if desc.smash_to.is_some() || desc.victim_of.is_some() {
            return Err(format!("design {name} takes what walks find: leave out smash_to and victim_of"));
        }
        let store = || Store::new(sets, ways, desc.replacement, seed);
        let by_size = |spans| {
            let classes = sizes.iter().map(ToString::to_string).collect();
            Ok(Shape { spans, sizes: sizes.to_vec(), classes })
        };
        match desc.design {
            Design::Mix => {
                return by_size(Self::Bundles(Bundles::new(
                    mix::shape(desc, sizes)?,
                    sets,
                    ways,
                    desc.replacement,
                    store(),
                )));
            }
            Design::ColtPlus => {
                return by_size(Self::Bundles(Bundles::new(
                    mix::colt_plus(desc, sizes)?,
                    sets,
                    ways,
                    desc.replacement,
                    store(),
                )));
            }
            Design::Skew => {
                if desc.replacement != Replacement::Lru {
                    return Err("design skew replaces by time stamps: leave out replacement".into());
                }
                if let Some(group) = desc.group {
                    return Err(format!(
                        "group is {group}: design skew holds pages as the table has them; leave it out"
                    ));
                }
                if full || !ways.is_multiple_of(sizes.len()) {
                    return Err(format!(
                        "{ways} ways in {sets} sets: design skew gives each of {} sizes as many ways, in more than one set",
                        sizes.len()
                    ));
                }
                return by_size(Self::Skew(Skew::new(sizes, sets, ways / sizes.len())));
            }
            _ => {}
        }
        if desc.design == Design::Tps {
            if let Some(group) = desc.group {
                return Err(format!("group is {group}: design tps holds pages as the table has them; leave it out"));
            }
            let &[smallest, largest] = sizes else {
                return Err(format!("{} sizes: design tps takes two, the smallest and the largest", sizes.len()));
            };
            let sizes: Vec<_> = (smallest.get()..=largest.get()).map(PageOrder::new).collect();
            if sizes.len() > most {
                return Err(format!("sizes {smallest} to {largest} are {} powers of two: at most {most}", sizes.len()));
            }
            let classes = sizes.iter().map(ToString::to_string).collect();
            return Ok(Shape { spans: Self::Tps(Scan::new(Tps { smallest }, sets, ways, store())), sizes, classes });
        }
        if sizes.first() != Some(&PageOrder::P4K) {
            return Err(format!("design {name} coalesces base pages: add \"4K\" to sizes"));
        }
        let group = || match desc.group {
            Some(n @ (2 | 4 | 8)) => Ok(PageOrder::new(n.trailing_zeros() as u8)),
            Some(n) => Err(format!("group is {n}: design {name} shares an entry among 2, 4 or 8 pages")),
            None => Err(format!("design {name} needs group: give 2, 4 or 8 pages")),
        };
        let larger = sizes.to_vec();
        let spans = match desc.design {
            Design::ColtSa => Self::ColtSa(Scan::new(ColtSa { group: group()?, sizes: larger }, sets, ways, store())),
            Design::Clustered => {
                Self::Clustered(Scan::new(Clustered { group: group()?, sizes: larger }, sets, ways, store()))
            }
            _ => {
                let longest = match desc.group {
                    Some(n @ 8..=1024) => u32::from(n),
                    Some(n) => return Err(format!("group is {n}: the longest run of colt-fa is 8 to 1024 pages")),
                    None => return Err("design colt-fa needs group: the longest run, 8 to 1024 pages".into()),
                };
                Self::ColtFa(Scan::new(ColtFa { longest, sizes: larger }, sets, ways, store()))
            }
        };
        let classes = ["4K".into(), COALESCED.into()].into_iter();
        let classes = classes.chain(sizes[1..].iter().map(ToString::to_string)).collect();
        Ok(Shape { spans, sizes: sizes.to_vec(), classes })
    }

    /// What translates `vpn`. It is used.
    #[inline(always)]
    pub fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        match self {
            Self::Bundles(bundles) => bundles.hit(asid, vpn),
            other => other.hit_any(asid, vpn),
        }
    }

    #[inline(never)]
    fn hit_any(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        whichever!(self, scan => scan.hit(asid, vpn))
    }

    /// What the entry at `slot` says of `vpn`, and the size of the page that it says it of.
    #[inline(always)]
    pub fn read(&self, slot: Slot, vpn: Vpn) -> (Value, PageOrder) {
        match self {
            Self::Bundles(bundles) => bundles.read(slot, vpn),
            other => other.read_any(slot, vpn),
        }
    }

    #[inline(never)]
    fn read_any(&self, slot: Slot, vpn: Vpn) -> (Value, PageOrder) {
        whichever!(self, scan => scan.read(slot, vpn))
    }

    /// Takes in what is known of `vpn`. `tell` hears of the changes; of those in other sets only if it is `watched`.
    pub fn put(
        &mut self,
        asid: Asid,
        vpn: Vpn,
        known: Known,
        watched: bool,
        tell: impl FnMut(Change, Asid, &Entry),
    ) -> Slot {
        match self {
            Self::ColtSa(scan) => scan.put(asid, vpn, known, tell),
            Self::ColtFa(scan) => scan.put(asid, vpn, known, tell),
            Self::Clustered(scan) => scan.put(asid, vpn, known, tell),
            Self::Tps(scan) => scan.put(asid, vpn, known, tell),
            Self::Bundles(bundles) => bundles.put(asid, vpn, known, watched, tell),
            Self::Skew(skew) => skew.put(asid, vpn, known, tell),
        }
    }

    pub fn line(&self, at: u32, vpn: Vpn) -> Option<Line> {
        whichever!(self, scan => scan.line(at, vpn))
    }

    pub fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        whichever!(self, scan => scan.set_dirty(asid, vpn));
    }

    /// Drops every entry with the tag of `asid`, none of the global ones; everything for `None`.
    pub fn drop_space(&mut self, asid: Option<Asid>, tell: impl FnMut(Change, Asid, &Entry)) {
        whichever!(self, scan => scan.drop_space(asid, tell));
    }

    /// Drops every entry of `asid`, and every global one, that translates one of the `pages` base pages from `first`.
    pub fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, tell: impl FnMut(Change, Asid, &Entry)) {
        whichever!(self, scan => scan.drop_range(asid, first, pages, tell));
    }

    pub fn all(&self, tell: impl FnMut(Asid, &Entry)) {
        whichever!(self, scan => scan.all(tell));
    }

    /// Fills, evictions and invalidations.
    pub fn traffic(&self) -> [u64; 3] {
        match self {
            Self::ColtSa(scan) => scan.traffic(),
            Self::ColtFa(scan) => scan.traffic(),
            Self::Clustered(scan) => scan.traffic(),
            Self::Tps(scan) => scan.traffic(),
            Self::Bundles(bundles) => bundles.traffic(),
            Self::Skew(skew) => skew.traffic(),
        }
    }

    /// What became of lines.
    pub fn coalescing(&self) -> Option<CoalescingCounts> {
        match self {
            Self::ColtSa(scan) => Some(scan.counts),
            Self::ColtFa(scan) => Some(scan.counts),
            Self::Clustered(scan) => Some(scan.counts),
            Self::Tps(scan) => Some(scan.counts),
            Self::Bundles(bundles) => Some(bundles.counts),
            Self::Skew(_) => None,
        }
    }

    /// What was written to several sets.
    pub fn mirroring(&self) -> Option<MirrorCounts> {
        match self {
            Self::Bundles(bundles) => Some(bundles.mirroring),
            _ => None,
        }
    }

    /// Whether lines of base pages are of use.
    pub fn takes_lines(&self) -> bool {
        match self {
            Self::Bundles(bundles) => bundles.takes_lines(),
            Self::Skew(_) => false,
            _ => true,
        }
    }

    /// Whether lines of larger pages than base pages are of use.
    pub fn takes_large_lines(&self) -> bool {
        matches!(self, Self::Bundles(_))
    }

    /// What translates `vpn` as a page of size number `size`, where sizes are searched one by one.
    pub fn hit_size(&mut self, asid: Asid, vpn: Vpn, size: usize) -> Option<Slot> {
        match self {
            Self::Skew(skew) => skew.hit_size(asid, vpn, size),
            _ => self.hit(asid, vpn),
        }
    }
}
