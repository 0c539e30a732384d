//! Elastic cuckoo page tables (Skarlatos, Kokolis, Xu and Torrellas, ASPLOS 2020): x86-64's entries, found by hashing.
//! Lines, searches and resizing are in `hashed`.

use crate::{
    CuckooDesc, MapError, TableFrames,
    hashed::{FIRST_WALK_TABLE, Hashed, HashedDesc, Hashing, TABLES},
    table_format::{BuiltFor, TableFormat},
    x86::X86Entries,
};
use mmulab_frames::PhysMem;
use std::ops::{Range, RangeInclusive};

/// Elastic cuckoo tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cuckoo {
    /// Levels of a tree for as many bits of address.
    levels: u8,
}

impl TableFormat for Cuckoo {
    const NAME: &'static str = "elastic-cuckoo";
    const DOC: &'static str = "Elastic cuckoo page tables: a hashed table for each page size, whose ways are read at \
                               once, with cuckoo walk tables that name the ways to read (Skarlatos and \
                               others, ASPLOS 2020). Leaves of 4 KiB, 2 MiB and 1 GiB; 4 or 5 levels.";
    const LEVELS: RangeInclusive<u8> = 4..=5;
    const WALK_TABLE_LEVELS: Option<Range<u8>> = Some(FIRST_WALK_TABLE..TABLES as u8 + 1);

    type Params = CuckooDesc;
    type Entries = X86Entries;
    type Tables = Box<Hashed>;

    fn new(levels: u8, _: Option<&CuckooDesc>) -> Self {
        Self { levels }
    }

    fn check(_: u8, params: &CuckooDesc) -> Result<(), String> {
        params.check()
    }

    #[inline(always)]
    fn depth(self) -> u8 {
        self.levels
    }

    #[inline(always)]
    fn levels(self) -> u8 {
        TABLES as u8
    }

    #[inline(always)]
    fn hashing(self) -> Option<Hashing> {
        Some(Hashing::Cuckoo)
    }
}

impl BuiltFor<Cuckoo> for Box<Hashed> {
    fn build(
        _: Cuckoo,
        params: Option<&CuckooDesc>,
        mem: &mut PhysMem,
        frames: &mut impl TableFrames,
    ) -> Result<Self, MapError> {
        Hashed::new(HashedDesc::Cuckoo(Cuckoo::given(params)), mem, frames).map(Box::new)
    }
}
