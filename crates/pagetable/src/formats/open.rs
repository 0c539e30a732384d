//! A hashed page table with open addressing (Yaniv and Tsafrir, SIGMETRICS 2016): x86-64's entries, found by hashing.
//! Lines, searches and resizing are in `hashed`.

use crate::{
    MapError, OpenDesc, Probing, TableFrames,
    hashed::{Hashed, HashedDesc, Hashing, SIZES},
    table_format::{BuiltFor, TableFormat},
    x86::X86Entries,
};
use mmulab_frames::PhysMem;
use std::ops::{Range, RangeInclusive};

/// Tables with open addressing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    /// Levels of a tree for as many bits of address.
    levels: u8,
    /// The order in which the tables of the page sizes are read.
    sizes: Probing,
}

impl TableFormat for Open {
    const NAME: &'static str = "hashed";
    const DOC: &'static str = "A hashed table for each page size, with open addressing and lines of eight entries \
                               (Yaniv and Tsafrir, SIGMETRICS 2016). Leaves of 4 KiB, 2 MiB and 1 GiB; 4 or 5 levels.";
    const LEVELS: RangeInclusive<u8> = 4..=5;
    const WALK_TABLE_LEVELS: Option<Range<u8>> = Some(0..0);

    type Params = OpenDesc;
    type Entries = X86Entries;
    type Tables = Box<Hashed>;

    fn new(levels: u8, params: Option<&OpenDesc>) -> Self {
        Self { levels, sizes: params.map_or(Probing::default(), |params| params.sizes) }
    }

    fn check(_: u8, params: &OpenDesc) -> Result<(), String> {
        params.check()
    }

    #[inline(always)]
    fn depth(self) -> u8 {
        self.levels
    }

    #[inline(always)]
    fn levels(self) -> u8 {
        SIZES as u8
    }

    #[inline(always)]
    fn hashing(self) -> Option<Hashing> {
        Some(Hashing::Open(self.sizes))
    }
}

impl BuiltFor<Open> for Box<Hashed> {
    fn build(
        _: Open,
        params: Option<&OpenDesc>,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
    ) -> Result<Self, MapError> {
        Hashed::new(HashedDesc::Open(Open::given(params)), mem, frames).map(Box::new)
    }
}
