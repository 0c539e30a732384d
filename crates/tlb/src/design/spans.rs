//! The designs that keep their entries in a [`Scan`], behind one enum.

use super::{Change, Known, Line, clustered::Clustered, colt_fa::ColtFa, colt_sa::ColtSa, scan::Scan, tps::Tps};
use crate::{
    ArrayDesc, CoalescingCounts, Design, Entry, Probe,
    array::COALESCED,
    key::{GLOBAL, Value},
    pages::Slot,
};
use mmulab_addr::{Asid, PageOrder, Vpn};
use mmulab_sets::{Store, Ways};

/// An array of one of these designs.
pub enum Spans {
    ColtSa(Scan<ColtSa>),
    ColtFa(Scan<ColtFa>),
    Clustered(Scan<Clustered>),
    Tps(Scan<Tps>),
}

/// The same expression for whichever design it is.
macro_rules! whichever {
    ($spans:expr, $scan:ident => $call:expr) => {
        match $spans {
            Self::ColtSa($scan) => $call,
            Self::ColtFa($scan) => $call,
            Self::Clustered($scan) => $call,
            Self::Tps($scan) => $call,
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
            Design::Tps | Design::Plain | Design::Zen => "tps",
        };
        let full = desc.ways == Ways::Full || ways == desc.entries as usize;
        if matches!(desc.design, Design::ColtFa | Design::Tps) && !full {
            return Err(format!("design {name} is fully associative: give ways = \"full\""));
        }
        if desc.probe != Probe::Parallel {
            return Err(format!("design {name} is searched at once: leave out probe"));
        }
        if desc.smash_to.is_some() || desc.victim_of.is_some() {
            return Err(format!("design {name} takes what walks find: leave out smash_to and victim_of"));
        }
        let store = || Store::new(sets, ways, desc.replacement, seed);
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

    pub fn hit(&mut self, asid: Asid, vpn: Vpn) -> Option<Slot> {
        whichever!(self, scan => scan.hit(asid, vpn))
    }

    /// What the entry at `slot` says of `vpn`, and the size of the page that it says it of.
    pub fn read(&self, slot: Slot, vpn: Vpn) -> (Value, PageOrder) {
        whichever!(self, scan => scan.read(slot, vpn))
    }

    pub fn put(&mut self, asid: Asid, vpn: Vpn, known: Known, tell: impl FnMut(Change, Asid, &Entry)) -> Slot {
        whichever!(self, scan => scan.put(asid, vpn, known, tell))
    }

    pub fn line(&self, at: u32, vpn: Vpn) -> Option<Line> {
        whichever!(self, scan => scan.line(at, vpn))
    }

    pub fn set_dirty(&mut self, asid: Asid, vpn: Vpn) {
        whichever!(self, scan => scan.set_dirty(asid, vpn));
    }

    /// Drops every entry with the tag of `asid`, none of the global ones; everything for `None`.
    pub fn drop_space(&mut self, asid: Option<Asid>, tell: impl FnMut(Change, Asid, &Entry)) {
        whichever!(self, scan => scan.drop_if(|h| asid.is_none_or(|asid| h.tag == asid && h.tag != GLOBAL), tell));
    }

    /// Drops every entry of `asid`, and every global one, that translates one of the `pages` base pages from `first`.
    pub fn drop_range(&mut self, asid: Asid, first: Vpn, pages: u64, tell: impl FnMut(Change, Asid, &Entry)) {
        whichever!(self, scan => scan.drop_if(|h| (h.tag == asid || h.tag == GLOBAL) && h.meets(first, pages), tell));
    }

    pub fn all(&self, tell: impl FnMut(Asid, &Entry)) {
        whichever!(self, scan => scan.all(tell));
    }

    /// Fills, evictions, invalidations, and what became of lines.
    pub fn traffic(&self) -> ([u64; 3], CoalescingCounts) {
        whichever!(self, scan => ([scan.fills, scan.evictions, scan.invalidations], scan.counts))
    }
}
