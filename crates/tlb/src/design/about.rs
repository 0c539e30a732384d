//! Description of a design: its file's one constant of type [`About`]. Outside code that depends on the design (the
//! schema, messages, checks, energy) reads it here. Only the entries are built by the file itself.

use crate::{ArrayDesc, Probe};
use mmulab_addr::PageOrder;
use mmulab_assoc::{Store, Ways};

/// When an array of a design may have a page-size predictor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guesses {
    /// If it is searched size by size.
    IfSerial,
    /// Always.
    Always,
    /// Never: there is no size to guess.
    Never,
}

/// Which keys of an [`ArrayDesc`] a design takes, beside those that all take and `group`, which it checks itself.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// `ways` other than all in one set.
    pub sets: bool,
    /// `probe = "serial"`.
    pub serial: bool,
    /// `predictor`.
    pub predictor: Guesses,
    /// `smash_to` and `victim_of`.
    pub handed_pages: bool,
    /// `mix`.
    pub mix: bool,
}

impl Keys {
    /// Those of an array whose entries are pages of the table: all but `mix`.
    pub const OF_PAGES: Self =
        Self { sets: true, serial: true, predictor: Guesses::IfSerial, handed_pages: true, mix: false };
    /// Those of most arrays that look at the neighbours of a page.
    pub const OF_GROUPS: Self =
        Self { sets: true, serial: false, predictor: Guesses::Never, handed_pages: false, mix: false };
}

/// Bits that a lookup reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// So many sets at once; where sizes are searched in turn, one for each probe. One set if there is but one.
    Sets(u32),
    /// Ways in sets of their own, as many for each page size as for the others: all, or those that a guess names first.
    HashedWays,
}

/// Parts of an array of a design, and the bits that a lookup and a fill move, for energy and area. A fill writes one
/// entry; designs that write copies to several sets count them ([`crate::MirrorCounts`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Bits of an entry beyond those of a plain one, which has flags, a tag, a page size and a frame.
    pub extra_bits: u32,
    /// Bits of a range that is compared in each way, beside the tag: lengths need comparators.
    pub range_bits: u32,
    /// Bits that a lookup reads.
    pub reads: Reads,
}

impl Cost {
    /// That of a plain array: a set for each page size.
    pub fn plain(desc: &ArrayDesc) -> Self {
        Self { extra_bits: 0, range_bits: 0, reads: Reads::Sets(desc.sizes.len() as u32) }
    }
}

/// A valid bit for each of `pages` pages of an aligned group, less the tag bits that the group does not need.
pub fn bitmap_bits(pages: u32) -> u32 {
    pages - pages.checked_ilog2().unwrap_or(0)
}

/// Description of a design.
pub struct About {
    /// Its name in machine files and messages.
    pub name: &'static str,
    /// Reference documentation: what one entry may translate, who proposed it, and what `group` may be.
    pub doc: &'static str,
    /// The keys it takes.
    pub(crate) keys: Keys,
    /// Whether an entry may translate several pages of the table, so that `tlb_rules.coalescing` can turn that off.
    pub coalesces: bool,
    /// Cost of an array whose description was accepted. The widths of a frame number and of the attributes are those of
    /// a plain entry.
    pub cost: fn(&ArrayDesc, Widths) -> Cost,
}

/// Bits of a plain entry, as the model of energy counts them.
#[derive(Clone, Copy, Debug)]
pub struct Widths {
    /// Of a frame number.
    pub frame: u32,
    /// Of the attributes and the valid bit.
    pub flags: u32,
}

impl About {
    /// Checks the keys that the design does not take.
    ///
    /// # Errors
    /// The first, and what to do.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), String> {
        let (name, desc) = (self.name, plan.desc);
        if !self.keys.sets && !plan.is_full() {
            return Err(format!("design {name} is fully associative: give ways = \"full\""));
        }
        if desc.probe != Probe::Parallel && !self.keys.serial {
            return Err(format!("design {name} is searched at once: leave out probe"));
        }
        if desc.predictor.is_some() && self.keys.predictor == Guesses::Never {
            return Err(format!("design {name} has no size to guess: leave out predictor"));
        }
        if (desc.smash_to.is_some() || desc.victim_of.is_some()) && !self.keys.handed_pages {
            return Err(format!("design {name} takes what walks find: leave out smash_to and victim_of"));
        }
        Ok(())
    }
}

/// An array to be built: its description, and what was worked out of it.
pub struct Plan<'a> {
    pub desc: &'a ArrayDesc,
    /// Description of its design.
    pub about: &'static About,
    /// Its page sizes, smallest first.
    pub sizes: &'a [PageOrder],
    pub sets: usize,
    pub ways: usize,
    /// Of random replacement.
    pub seed: u64,
}

impl Plan<'_> {
    /// Whether all entries are one set.
    pub fn is_full(&self) -> bool {
        self.desc.ways == Ways::Full || self.ways == self.desc.entries as usize
    }

    /// The order of replacement.
    pub fn store(&self) -> Store {
        Store::new(self.sets, self.ways, self.desc.replacement, self.seed)
    }

    /// The page sizes, as counts name them.
    pub fn size_names(&self) -> Vec<String> {
        self.sizes.iter().map(ToString::to_string).collect()
    }

    /// The design's name, for messages.
    pub fn name(&self) -> &'static str {
        self.about.name
    }

    /// Refuses `group`.
    ///
    /// # Errors
    /// There is one.
    pub fn no_group(&self) -> Result<(), String> {
        match self.desc.group {
            Some(group) => {
                let name = self.name();
                Err(format!("group is {group}: design {name} holds pages as the table has them; leave it out"))
            }
            None => Ok(()),
        }
    }

    /// Base pages must be among the sizes.
    ///
    /// # Errors
    /// They are not.
    pub fn needs_base_pages(&self) -> Result<(), String> {
        match self.sizes.first() {
            Some(&PageOrder::P4K) => Ok(()),
            _ => Err(format!("design {} coalesces base pages: add \"4K\" to sizes", self.name())),
        }
    }

    /// The size of an aligned group of 2, 4 or 8 pages.
    ///
    /// # Errors
    /// Another group, or none.
    pub fn group_of_2_to_8(&self) -> Result<PageOrder, String> {
        let name = self.name();
        match self.desc.group {
            Some(n @ (2 | 4 | 8)) => Ok(PageOrder::new(n.trailing_zeros() as u8)),
            Some(n) => Err(format!("group is {n}: design {name} shares an entry among 2, 4 or 8 pages")),
            None => Err(format!("design {name} needs group: give 2, 4 or 8 pages")),
        }
    }
}
